"""What does the robot carry, and how sure is that? A payload campaign's load, losses and friction, with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.designing.noise import assumed_noise
from excitor.experiments.payload.arm import known_arm
from excitor.experiments.payload.runs import PayloadRuns, read_runs
from excitor.experiments.processing import filter_sentences
from excitor.identify.diagnose import Finding
from excitor.identify.load.equations import (
    Arm,
    LoadRun,
    LoadTask,
    carried_from_joints,
    equations,
    load_task,
    motor_torque,
)
from excitor.identify.load.fit import (
    LoadAtCenter,
    LoadEstimate,
    at_center,
    diagnose_load,
    identify_consistent_load,
    identify_load,
    reweighed,
)
from excitor.identify.load.poses import StaticLoad, static_load
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError, RankDeficient, SolverFailed
from excitor.robots.robot import Robot

LEAST_SPREAD = 1e-3  # of a sample's noise: a pose's mean torque is never surer
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False, slots=True)
class Predicted:
    """How well torques are foretold in a run, motors' side, N m referred to the links."""

    run: str
    loaded: bool
    unseen: bool
    rms: FloatArray  # (n_axes,) of what is left
    size: FloatArray  # (n_axes,) of the torques


@dataclass(frozen=True, eq=False, slots=True)
class IdentifiedLoad:
    """A load, and all it rests on."""

    campaign: OpenCampaign
    runs: PayloadRuns
    arm: Arm
    arm_source: str
    findings: tuple[Finding, ...]
    estimate: LoadEstimate | None  # none from poses alone
    body: LoadEstimate | None  # physically consistent
    refusal: str  # why there is no such body, where there is none
    static: StaticLoad | None
    static_refusal: str
    predicted: tuple[Predicted, ...]

    @property
    def robot(self) -> Robot:
        """The bare robot."""
        return self.runs.robot

    @property
    def link(self) -> int:
        """What carries the load."""
        return self.robot.tool.link

    @property
    def load(self) -> LoadAtCenter | None:
        """The load at its centre: a body's values where there is one, with the free estimate's intervals."""
        chosen = self.body or self.estimate
        return None if chosen is None else at_center(chosen.phi, self.covariance)

    @property
    def covariance(self) -> FloatArray:
        """Of the ten parameters, (10, 10)."""
        assert self.estimate is not None
        return self.estimate.covariance[:10, :10]


def identify_payload(campaign: OpenCampaign, tell: Tell = lambda _: None) -> IdentifiedLoad:
    """Identify what a payload campaign's robot carries; ExcitorError, or RankDeficient, where the data do not tell."""
    arm, source = known_arm(campaign)
    tell(source)
    runs = read_runs(campaign)
    tell(f"read {len(runs.samples)} runs, {sum(runs.loaded.values())} of them with the load")
    for sentence in filter_sentences(runs.samples):
        tell(sentence)
    check_pairs(runs)
    estimate = body = None
    findings: tuple[Finding, ...] = ()
    refusal = ""
    predicted: tuple[Predicted, ...] = ()
    if runs.known:
        task, estimate, findings = estimated(runs, arm)
        for finding in findings:
            tell(f"{finding.level}: {finding}")
        weighed = reweighed(runs.known, estimate)
        body, refusal = consistent(task, weighed, estimate)
        predicted = tuple(foretold(task, runs, run, estimate) for run in (*runs.known, *runs.unseen))
    static, static_refusal = (None, "") if not runs.poses else from_poses(campaign, runs, arm, estimate)
    return IdentifiedLoad(
        campaign, runs, arm, source, findings, estimate, body, refusal, static, static_refusal, predicted
    )


def check_pairs(runs: PayloadRuns) -> None:
    """Refuse campaigns without a loaded run; the bare one may be missing where the arm is known."""
    if not any(run.loaded for run in runs.known) and not any(poses.loaded for poses in runs.poses):
        raise ExcitorError('run: none with role = "identify" has the load on; record at least one')


def estimated(runs: PayloadRuns, arm: Arm) -> tuple[LoadTask, LoadEstimate, tuple[Finding, ...]]:
    """Estimate by noise, then by what was left over; bare runs correct the arm within its covariance."""
    robot = runs.robot
    lossless = bool((robot.drive.efficiency == 1.0).all())
    task = load_task(
        robot,
        runs.known,
        arm=arm,
        efficiency=np.ones(robot.n_joints) if lossless else None,
        learn_arm=bool(arm.covariance.any()) and any(not run.loaded for run in runs.known),
    )
    first = identify_load(task, runs.known)
    weighed = reweighed(runs.known, first)
    estimate = identify_load(task, weighed, start=first.values)
    return task, estimate, diagnose_load(task, weighed, estimate.values)


def consistent(task: LoadTask, runs: Sequence[LoadRun], estimate: LoadEstimate) -> tuple[LoadEstimate | None, str]:
    """Find the body nearest to the data; where none is found, say why: nothing is projected."""
    if estimate.load.consistency.holds:
        return estimate, ""
    try:
        return identify_consistent_load(task, runs), ""
    except (SolverFailed, RankDeficient) as error:
        return None, str(error)


def from_poses(
    campaign: OpenCampaign, runs: PayloadRuns, arm: Arm, estimate: LoadEstimate | None
) -> tuple[StaticLoad | None, str]:
    """Weigh the load by poses held, with the gears' losses where motions told them."""
    robot = runs.robot
    efficiency = robot.drive.efficiency if estimate is None else estimate.efficiency
    if not any(poses.loaded for poses in runs.poses):
        return None, "no poses were held with the load"
    spread = pose_noise(campaign, robot)
    try:
        first = static_load(robot, runs.poses, sigma=spread, arm=arm, efficiency=efficiency)
        spread = spread * np.clip(first.rms, LEAST_SPREAD, 1.0)  # more than that, residuals widen intervals themselves
        return static_load(robot, runs.poses, sigma=spread, arm=arm, efficiency=efficiency), ""
    except RankDeficient as error:
        if estimate is None:
            raise
        return None, str(error)


def pose_noise(campaign: OpenCampaign, robot: Robot) -> FloatArray:
    """Say how noisy motors' torques are beside each other; how noisy they are at all, what is left of poses tells."""
    given = campaign.content.noise
    sigma = assumed_noise(robot, given.rate_hz, given.inflation).sigma if given.torque is None else given.torque
    if len(sigma) != robot.n_joints:
        raise ExcitorError(f"noise.torque: has {len(sigma)} entries, expected one for each of {robot.n_joints} joints")
    return np.asarray(np.sqrt(carried_from_joints(robot) ** 2 @ np.square(sigma)))


def foretold(task: LoadTask, runs: PayloadRuns, run: LoadRun, estimate: LoadEstimate) -> Predicted:
    """Compare a run's torques with those of the estimate."""
    system = equations(task, [run])
    left = system.tau - motor_torque(system, estimate.values)[0]
    axes = np.flatnonzero(task.axes)

    def rms(values: FloatArray) -> FloatArray:
        return np.array([np.sqrt(np.mean(values[system.axis == axis] ** 2)) for axis in axes])

    unseen = any(run is other for other in runs.unseen)
    return Predicted(run.run, run.loaded, unseen, rms(left), rms(system.tau))
