"""Design stage: plan, search and certify the runs of a campaign, and forecast the accuracy of its parameters.

Periodic runs are searched, slow ones (warm-up, poses, sweeps) constructed, torque runs searched by simulation. The
state of a search is kept in the campaign's folder until the design is finished.
"""

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from excitor.design import torque
from excitor.design.certify.certify import Certificate, certify
from excitor.design.constraints.constraint import CLEARANCE_SCALE
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.torque import has_torque_model
from excitor.design.criteria import Criterion, DynamicModel, GainModel, Model, PowerModel, gain_model, values
from excitor.design.explain import InfeasibleDesign
from excitor.design.forecast import CONDITION, Check, Forecast, PlannedRun, forecast
from excitor.design.motion import Excitation, Run, Series
from excitor.design.pareto import Front, Objective, front
from excitor.design.problem import Candidates, Problem, build_problem, candidates_of, evaluate, run_of
from excitor.design.schedule import (
    RunPlan,
    Schedule,
    checked,
    excited_columns,
    moving_mask,
    plan_runs,
    run_constraints,
    together,
    with_slow_runs,
)
from excitor.design.search import FAMILY, Budget, Observer, Progress, Search, SearchResult, State, run_search
from excitor.design.slow import (
    InfeasibleRun,
    SlowPlan,
    friction_sweeps,
    measured_duration,
    measured_motion,
    static_poses,
    warm_up,
)
from excitor.design.torque import scaled as scaled_torques
from excitor.experiments.campaign import FILE, InvalidCampaign, OpenCampaign, TorqueRuns
from excitor.experiments.setup import Settings, Setup, is_bodiless, is_shipped, known_arm, moving_links_without_volume
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.cell import adjacent_links, clearances, required
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.gram import condition_number, gram, stack
from excitor.robots.information import Noise
from excitor.robots.lint import suspicions
from excitor.robots.load_torques import carried_from_joints
from excitor.robots.parameters import LINK_COMPONENTS, layout, prior
from excitor.robots.robot import Motion, Robot, posture
from excitor.robots.simulate import with_friction_width

FORECAST_SAMPLES = 600
LEAST_ROBUST = 0.8  # of models drawn near the prior's
_SLOW_STEP = 0.1  # s between the samples of a slow run in the forecast
Listener = Callable[[str, Progress], None]


@dataclass(frozen=True, eq=False, slots=True)
class DesignedRun:
    """One run: its motion and its certificate."""

    plan: RunPlan
    run: Run
    certificate: Certificate


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """One of the distinct best motions of a search, as it is before its certificate."""

    value: float  # of the criterion, on the fine grid
    condition: float  # as in SearchedRun
    duration: float  # s, of the whole run
    torque: float | None  # largest share of a joint's torque limit; None without a torque model
    clearance: float | None  # m, the least; None without anything to keep clear of
    center: FloatArray  # (n_joints,)
    swing: FloatArray  # (n_joints, 2 n_harmonics)


@dataclass(frozen=True, eq=False, slots=True)
class SearchedRun(DesignedRun):
    """A run whose motion, or whose torques, were searched, with the value of its criterion."""

    robot: Robot  # with the payload of this run
    problem: Problem | torque.TorqueProblem
    condition: float  # by SVD on the fine grid, unweighted, column-normalised, this run alone
    condition_weighted: float
    spectrum: FloatArray  # singular values of the column-normalised matrix
    correlation: FloatArray
    columns: tuple[str, ...]
    found: SearchResult
    front: Front | None = None  # that the run was picked from
    torques: torque.TorqueTrajectory | None = None  # whose simulated motion the run is
    family: tuple[Choice, ...] = ()  # best first, none the same as another but for a symmetry
    picked: int = 0  # which of the family
    key: str = ""  # of everything that the search depends on


@dataclass(frozen=True, slots=True)
class ForecastGain:
    """Predicted relative deviation of a drive's gain, the load's own doubt included."""

    drive: str
    relative_sigma: float  # inf: the drive does not move
    answered: bool  # as `excitor gains` is expected to


@dataclass(frozen=True, eq=False, slots=True)
class CampaignDesign:
    """A campaign's design."""

    setup: Setup
    settings: Settings
    runs: tuple[DesignedRun, ...]
    order: tuple[str, ...]  # in which all are executed
    waiting: tuple[RunPlan, ...]  # to be designed after the results of earlier runs
    forecast: Forecast
    cpu_seconds: float
    gains: tuple[ForecastGain, ...] = ()  # of a gains campaign
    load: FloatArray | None = None  # (10,), deviations of mass, centre and inertia expected of a payload campaign

    @property
    def searched(self) -> list[SearchedRun]:
        """Runs whose motion, or whose torques, were searched."""
        return [run for run in self.runs if isinstance(run, SearchedRun)]

    @property
    def slow(self) -> list[DesignedRun]:
        """Runs of moves, which are constructed."""
        return [run for run in self.runs if not isinstance(run, SearchedRun)]

    @property
    def certificates(self) -> dict[str, Certificate]:
        """Certificates of all runs, by name."""
        return {run.plan.name: run.certificate for run in (*self.searched, *self.slow)}

    @property
    def ready(self) -> bool:
        """True if every run's certificate holds."""
        return all(certificate.ready for certificate in self.certificates.values())

    @property
    def checks(self) -> tuple[Check, ...]:
        """Checks behind go or no-go besides the certificate: the forecast, or a load's own matrix."""
        setup = self.setup
        odd = () if is_shipped(setup.campaign, setup.robot) else suspicion_checks(setup.robot)
        return (*self._taught, *volume_checks(setup), *odd)

    @property
    def _taught(self) -> tuple[Check, ...]:
        if not has_torque_model(self.setup.robot) and self.setup.design.schedule != "gentle-first":
            return (*self.forecast.checks, _BLIND)
        simulations = [run.simulation for run in self.certificates.values() if run.simulation is not None]
        if simulations:
            share = min(one.robustness.share for one in simulations)
            sentence = (
                f"{share:.0%} of models near the prior's keep the limits, at least {LEAST_ROBUST:.0%} is required of "
                "torques that no position controller holds"
            )
            robust = Check("robustness", share, LEAST_ROBUST, share >= LEAST_ROBUST, sentence)
            return (*self.forecast.checks, robust)
        if self.setup.design.schedule == "static-pair":
            return (_weighs(self.setup, self.slow),)
        if self.gains:
            listed = ", ".join(f"{one.drive} {100.0 * one.relative_sigma:.2g} %" for one in self.gains)
            count = sum(one.answered for one in self.gains)
            sentence = f"gains are expected with deviations of {listed}; {count} of them sure enough to be answered"
            return (Check("gains", float(count), 1.0, count > 0, sentence),)
        if self.setup.design.model != "load":
            return self.forecast.checks
        value = self.searched[0].condition
        holds = value <= CONDITION
        sentence = f"the condition number of the load's matrix is {value:.3g}, at most {CONDITION:g} is required"
        if self.load is not None:
            center, inertia = (", ".join(f"{x:.2g}" for x in part) for part in (1e3 * self.load[1:4], self.load[4:]))
            sentence += (
                f"; of a load like the stated one, deviations of {self.load[0]:.2g} kg, centre {center} mm, and "
                f"inertia (xx yy zz xy xz yz) {inertia} kg m² are expected"
            )
        return (Check("condition", value, CONDITION, holds, sentence),)

    @property
    def go(self) -> bool:
        """True if the design is complete, certified, and reaches the required accuracy."""
        return self.ready and self.finished and all(check.holds for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the design is a no-go, as sentences; empty where it is a go."""
        reasons = [check.sentence for check in self.checks if not check.holds]
        for name, certificate in self.certificates.items():
            failing = [item.name for item in certificate.items if not item.holds]
            if failing:
                listed = ", ".join(failing[:5]) + (" and others" if len(failing) > 5 else "")
                reasons.insert(0, f"Run {name!r} is not certified: {listed}")
        if not self.finished:
            reasons.append("The search was interrupted; excitor design goes on with it")
        return tuple(reasons)

    @property
    def notes(self) -> tuple[str, ...]:
        """Exclusions of the certificates, each listed once."""
        return tuple(dict.fromkeys(note for c in self.certificates.values() for note in c.notes))

    @property
    def finished(self) -> bool:
        """True if every run is present and its search spent its budget."""
        whole = set(self.order) <= self.certificates.keys()
        return whole and all(run.found.stopped == "budget spent" for run in self.searched)


def volume_checks(setup: Setup) -> tuple[Check, ...]:
    """Check that every moving link has a collision volume, where a zone or the self-collision check is about it."""
    robot, scene = setup.robot, setup.constraints.scene
    moving = _can_move(setup)
    bare = [j for j in moving_links_without_volume(robot, moving) if not is_bodiless(setup.campaign.robot, j)]
    rough = assumed_check(setup)
    zones = [zone.name for zone in (scene.zones if scene is not None else ()) if zone.bodies != "tool"]
    itself = setup.campaign.content.cell.self_collision and _may_meet_itself(robot, bare)
    if not bare or not (zones or itself):
        return rough
    listed = [robot.mechanism.link_names[j] for j in bare]
    total = len(moving_links_without_volume(replace(robot, capsules=()), moving))
    constraints = [*(f"zone {name!r}" for name in zones), *(["[cell] self_collision"] if itself else [])]
    less = [*(['bodies = "tool" in the zones'] if zones else []), *(["self_collision = false"] if itself else [])]
    alone = zones and all(capsule.link < 0 for capsule in robot.capsules)
    clear = "only the tool was kept clear" if alone else "nothing keeps them clear"
    sentence = (
        f"{' and '.join(constraints)} require clear links, but {len(listed)} of {total} moving links of {robot.name} "
        f"have no collision volume: {', '.join(listed)} (each named by the joint that moves it), so {clear}; "
        f"{_how_to_add_volumes(setup)}; or state {' and '.join(less)} in campaign.toml, and keep the links clear "
        "yourself"
    )
    return (Check("collision volumes", float(total - len(bare)), float(total), False, sentence), *rough)


def suspicion_checks(robot: Robot) -> Iterator[Check]:
    """Check that no figure of the robot's file is surely wrong: torques and limits are computed with it."""
    for sentence in surely_wrong(robot):
        yield Check("robot file", 0.0, 1.0, False, sentence)


def surely_wrong(robot: Robot) -> list[str]:
    """List the figures of the robot's file that cannot be right."""
    return [f"In {robot.name}'s file, {odd.where}: {odd.sentence}" for odd in suspicions(robot) if odd.level == "error"]


def assumed_check(setup: Setup) -> tuple[Check, ...]:
    """Check that volumes of assumed radius are relied on only where campaign.toml says so."""
    robot, cell, scene = setup.robot, setup.campaign.content.cell, setup.constraints.scene
    watched = scene is not None and (scene.self_collision or any(zone.bodies != "tool" for zone in scene.zones))
    assumed = [capsule for capsule in robot.capsules if capsule.origin == "assumed"]
    if not (assumed and watched):
        return ()
    parts = ", ".join(dict.fromkeys(capsule.part for capsule in assumed))
    allowed, radius = cell.assumed_volumes, 1e3 * assumed[0].radius
    sentence = f"The shape of {parts} is not known: a volume of {radius:.0f} mm about each is assumed; " + (
        "see that it contains them" if allowed else _ALLOW_ASSUMED.format(source=setup.campaign.robot_source)
    )
    return (Check("assumed volumes", float(allowed), 1.0, allowed, sentence),)


_ALLOW_ASSUMED = (
    "give each a <collision> mesh beside {source}, a box, cylinder or sphere (excitor robots lists the meshes that are "
    "not read), or see that it contains them and write assumed_volumes = true under [cell] of campaign.toml"
)


def _can_move(setup: Setup) -> BoolArray:
    """Joints that move in a run, or on the way from home to where a run holds them, (n_joints,)."""
    free = np.ones(setup.robot.n_joints, dtype=bool)
    free[list(setup.robot.locked)] = False
    if setup.design.excitation == "torque" or setup.constraints.home is None:
        return free  # joints that no torque drives swing along
    stays = np.abs(setup.pose - setup.constraints.home) <= 1e-6
    return np.asarray(free & (setup.excitation.moving | ~stays))


def _may_meet_itself(robot: Robot, links: Sequence[int]) -> bool:
    """Return True if one of the links could collide with the base or with a link that no joint connects it to."""
    adjacent = adjacent_links(robot)
    others = range(-1, robot.mechanism.n_links)
    return bool(robot.held) or any(j != k and frozenset((j, k)) not in adjacent for j in links for k in others)


def _how_to_add_volumes(setup: Setup) -> str:
    source = setup.campaign.robot_source
    table = "[[capsule]] with link, start, end and radius"
    if Path(source).suffix.lower() == ".toml":
        return f"give each a {table} in {source}"
    shape = f"<collision> of box, cylinder, sphere or mesh in {source}, or a " * (Path(source).suffix == ".urdf")
    base = f'a robot file with base = "{Path(source).name}"'
    return f"give each a {shape}{table} in {base}, and name that file in campaign.toml"


_BLIND = Check(
    "torque model",
    0.0,
    1.0,
    False,
    'masses of links are unknown, so no torque was judged at these speeds; schedule = "gentle-first" begins slowly',
)


def _weighs(setup: Setup, runs: Sequence[DesignedRun]) -> Check:
    """Check that held poses separate a load's mass from its centre, by all joints' torques."""
    poses = np.array([segment.ends[0] for one in runs for segment in one.run.segments if segment.measured])
    first = 10 * setup.robot.tool.link
    Y = regressor(setup.robot, posture(poses))[:, :, first + 6 : first + 10]  # by first moments and mass
    value = condition_number(np.ascontiguousarray(Y.reshape(-1, 4)))
    sentence = f"poses: condition number of mass and centre is {value:.3g}, at most {CONDITION:g} is required"
    return Check("condition", value, CONDITION, value <= CONDITION, sentence)


def design(setup: Setup, settings: Settings, listen: Listener | None = None) -> CampaignDesign:
    """Design all runs of a campaign; raise InfeasibleDesign with the conflicting constraints if none is feasible."""
    started = time.process_time()
    if settings.fresh:
        forget(setup.campaign.folder)
    problems = list(_conflicts(setup, settings)) if by_torque(setup) else []
    if problems:
        raise _invalid(setup, *problems)
    plans, waiting = planned_runs(setup)
    runs: list[SearchedRun] = []
    slow: list[DesignedRun] = []
    for index, plan in enumerate(plans):
        twin = next((run for run in runs if run.plan.name == plan.same_as), None)
        if plan.kind != "excitation":
            slow.append(design_slow_run(setup, plan, settings.seed))
        elif twin is not None:
            runs.append(repeated_run(setup, plan, twin))
        else:
            tell = None if listen is None else partial(listen, plan.name)
            try:
                runs.append(design_run(setup, settings, index=index, plan=plan, before=runs, listen=tell))
            except (SearchInterrupted, KeyboardInterrupt) as stop:
                if not runs:
                    before = f"run {plan.name!r}: stopped before it was designed; the same command goes on"
                    raise stop if isinstance(stop, SearchInterrupted) else SearchInterrupted(before) from None
                break  # the runs before are what there is
            if runs[-1].found.stopped == "interrupted":
                break
    names = tuple(plan.name for plan in plans)
    setup = replace(setup, remarks=(*setup.remarks, *_torque_remarks(setup, runs)))
    foreseen, cpu_seconds = forecast_runs(setup, (*runs, *slow)), time.process_time() - started
    gains = forecast_gains(setup, runs)
    expected = expected_load(setup, runs)
    return CampaignDesign(setup, settings, (*runs, *slow), names, waiting, foreseen, cpu_seconds, gains, expected)


def forecast_runs(setup: Setup, runs: Sequence[DesignedRun]) -> Forecast:
    """Forecast what identification will learn from designed runs."""
    target = setup.design.target_relative_sigma_percent / 100.0
    return forecast(setup.robot, planned_of(runs), setup.noise, target=target)


def design_alone(
    setup: Setup, settings: Settings, plan: RunPlan, problem: Problem, listen: Callable[[Progress], None] | None = None
) -> CampaignDesign:
    """Search one run in memory, certify it and forecast it; InfeasibleDesign tells what blocks where nothing fits."""
    started = time.process_time()
    search = Search(problem, settings.budget, settings.seed, settings.method)
    found = search_motion(search, settings, where=f"run {plan.name!r}", state=None, observer=Observer(listen))
    run = _finished(setup, plan, problem, found, settings.pick)
    predicted, cpu_seconds = forecast_runs(setup, [run]), time.process_time() - started
    return CampaignDesign(setup, settings, (run,), (plan.name,), (), predicted, cpu_seconds)


def planned_of(runs: Sequence[DesignedRun]) -> list[PlannedRun]:
    """Sample the runs that identification learns from."""
    return [_planned(run) for run in runs if run.plan.role == "identify"]


def _planned(run: DesignedRun) -> PlannedRun:
    """Sample what a run measures: a period of its series, its moves, or its simulated motion."""
    if run.certificate.simulation is not None:
        duration = run.run.segments[0].duration
        return PlannedRun(run.plan.name, torque.simulated_motion(run.run, FORECAST_SAMPLES), duration, 1)
    if run.run.series is None:
        return PlannedRun(run.plan.name, measured_motion(run.run, _SLOW_STEP), measured_duration(run.run), 1)
    series = run.run.periodic
    motion = series.motion(series.grid(FORECAST_SAMPLES))
    return PlannedRun(run.plan.name, motion, series.period, series.periods)


FINE_SAMPLES = 2000  # of a period, for the final score
VALIDATION_SHARE = 0.3  # of an excitation's budget: a validation run must be good, not best
_SHRINK = (1.0, 0.99, 0.97, 0.93, 0.85, 0.7, 0.5, 0.3, 0.15)
_FINALISTS = 3


def design_run(
    setup: Setup,
    settings: Settings,
    *,
    index: int,
    plan: RunPlan,
    before: Sequence[SearchedRun],
    listen: Callable[[Progress], None] | None = None,
) -> SearchedRun:
    """Search one run's motion, resuming a stopped search of the same inputs."""
    where = f"run {plan.name!r}"
    if setup.design.front and plan.role == "identify" and not before:
        chosen, picked, found = search_front(
            setup, settings, plan=plan, problem_of=lambda one, run: run_problem(one, run, ()), listen=listen
        )
        if not found.feasible:
            raise_infeasible(picked, where, settings.seed)
        return replace(_finished(setup, plan, picked, found), front=chosen)
    problem = torque_problem_of(setup, SEARCH_ROOM) if by_torque(setup) else run_problem(setup, plan, before)
    budget, folder = _share(settings.budget, plan, by_torque(setup)), setup.campaign.folder
    key = key_of(FORM, settings.seed, budget, settings.method, plan.name, *content_of(problem))
    known = settings.searches.get(key)
    try:
        if known is not None and _fits(problem, known):
            found = known
        else:
            found = search_motion(
                Search(problem, budget, settings.seed + 1_000_003 * index, settings.method),
                settings,
                where=where,
                state=None if settings.fresh else recall(folder, index, key),
                observer=Observer(listen, lambda state: keep(folder, index, key=key, state=state)),
            )
    except (InfeasibleDesign, InfeasibleRun):
        forget(folder)  # there is nothing to go on with
        raise
    if isinstance(problem, torque.TorqueProblem):
        return _finished_torques(setup, plan, torque_problem_of(setup), found)
    pick = settings.pick if plan.role == "identify" and not before else None
    return replace(_finished(setup, plan, problem, found, pick), key=key)


def _fits(problem: Problem | torque.TorqueProblem, found: SearchResult) -> bool:
    """Return True if the motions of a search on file are feasible candidates of the problem."""
    if not isinstance(problem, Problem) or found.candidates.swing.shape[1:] != problem.amplitude.shape:
        return False
    right = found.candidates.center.shape == found.candidates.swing.shape[:2] and len(found.value)
    return bool(right and (problem.finer().evaluate(found.candidates).violation <= 0.0).all())


def repeated_run(setup: Setup, plan: RunPlan, twin: SearchedRun) -> SearchedRun:
    """Repeat a motion, perhaps with another payload, with its own certificate."""
    robot = run_robot(setup, plan)
    if plan.payload == twin.plan.payload:
        return replace(twin, plan=plan)
    certificate = certify(
        robot, twin.run, setup.constraints, torque_model=torque_model(robot), way=twin.certificate.way
    )
    return replace(twin, plan=plan, robot=robot, certificate=certificate)


def run_robot(setup: Setup, plan: RunPlan) -> Robot:
    """Return the robot as it is in a run: without the payload in a pair's unloaded runs."""
    return setup.robot if carries(setup, plan) else replace(setup.robot, payload=None)


def carries(setup: Setup, plan: RunPlan) -> bool:
    """Return True if a run is made with the payload that the campaign states."""
    return setup.design.schedule not in ("payload-pair", "static-pair") or plan.payload is not None


def run_problem(setup: Setup, plan: RunPlan, before: Sequence[SearchedRun]) -> Problem:
    """Build one run's search problem: its joints, its observable columns, and the information of earlier runs.

    The search is made with the payload that the campaign states, where the run will be repeated with it.
    """
    if plan.parameters:
        own = {"criterion": "sigma", "parameters": list(plan.parameters)}
        setup = replace(setup, design=setup.design.model_copy(update=own))
    robot = setup.robot
    excitation = replace(setup.excitation, moving=plan.moving)
    pose = np.where(plan.moving, 0.0, setup.pose)
    columns = excited_columns(robot, plan.moving, base_parameters(robot).kept, np.where(plan.moving, np.nan, pose))
    criterion = criterion_of(setup, columns)
    model = model_of(setup, columns, criterion, plan)
    if isinstance(model, GainModel):
        criterion = gain_criterion(model)
    columns = model.columns
    problem = build_problem(
        robot, excitation, constraints=limits_of(setup, plan), criterion=criterion, model=model, pose=pose
    )
    earlier = np.zeros((columns.size, columns.size))
    for run in before if plan.role == "identify" else ():
        if run.plan.role == "identify":
            series = run.run.periodic
            gram = _gram(model_of(setup, columns, criterion, run.plan), series)
            earlier += _samples(setup, series.periods * series.period) / FINE_SAMPLES * gram
    return replace(
        problem, earlier=earlier, share=_samples(setup, excitation.measured * excitation.period) / problem.n_period
    )


def _samples(setup: Setup, seconds: float) -> float:
    """Count the samples of a run's measured periods."""
    return seconds * setup.noise.rate_hz


def limits_of(setup: Setup, plan: RunPlan) -> Constraints:
    """Return a run's constraints; without a prior torque model, torques are unlimited."""
    constraints = run_constraints(plan, setup.constraints)
    if has_torque_model(setup.robot):
        return constraints
    free = np.full(setup.robot.n_joints, np.inf)
    return replace(constraints, limits=replace(constraints.limits, torque=free), torque_rms=free)


SIZE = 0.075  # of a campaign's condition numbers; with 0.06 and less an axis that hardly moved gave wrong torques


def criterion_of(setup: Setup, columns: IntArray) -> Criterion:
    """Build the campaign's criterion over the columns that a run can show."""
    kind = setup.design.criterion
    if kind.endswith("condition"):
        return Criterion(kind, size=SIZE if kind == "condition" else 0.0)
    robot, base = setup.robot, base_parameters(setup.robot)
    place = [list(base.kept).index(column) for column in columns]
    if kind == "path":
        from excitor.experiments.setup import task_motion

        task = task_motion(setup)
        return Criterion("path", task=gram(robot, task, columns) / (len(task) * robot.n_joints))
    beta = base.values(prior(robot))[place]
    if kind != "sigma":
        return Criterion(kind, scale=_magnitudes(setup, columns, beta))
    names = [base.names[k].removesuffix("R") for k in place]
    required = [name.removesuffix("R") for name in setup.design.parameters]
    missing = [name for name in required if name not in names]
    if missing:
        those = f"those are {choice(missing[0], names)}"
        problem = f"{', '.join(missing)} is no base parameter that this run can show; {those}"
        raise _invalid(setup, f"design.parameters: {problem}")
    return Criterion(
        "sigma", scale=_magnitudes(setup, columns, beta), chosen=tuple(names.index(name) for name in required)
    )


def model_of(setup: Setup, columns: IntArray, criterion: Criterion, plan: RunPlan) -> Model:
    """Choose the matrix of moving joints: unweighted for condition numbers, else rows in units of noise."""
    if setup.design.model == "power":
        return PowerModel(setup.robot, columns, None if criterion.kind == "condition" else setup.noise.sigma)
    if setup.design.model == "load":
        from excitor.design.criteria import load_model

        return load_model(setup.robot, setup.robot.tool.link, moving=plan.moving)
    if setup.design.model == "gains":
        own = columns[columns < len(layout(setup.robot))]
        known = known_of_load(setup.campaign.content.gains.known)
        return gain_model(setup.robot, own, known=known, moving=plan.moving, sigma=setup.noise.sigma)
    weights = np.ones(setup.robot.n_joints) if criterion.kind == "condition" else 1.0 / setup.noise.sigma
    return DynamicModel(setup.robot, columns, np.where(plan.moving, weights, 0.0))


def known_of_load(known: str) -> BoolArray:
    """Mark which of a load's ten parameters are known: its mass, its first moments too, or all."""
    return np.asarray(np.arange(10) >= {"mass": 9, "center": 6, "all": 0}[known])


def gain_criterion(model: GainModel) -> Criterion:
    """Quadratic mean of the gains' relative deviations, each in units of what random motions give."""
    W = model.observation(random_motion(model.robot, 300))
    drives = np.flatnonzero(model.columns >= len(layout(model.robot)) + 10)
    scale = np.ones(len(model.columns))
    scale[drives] = gain_sigmas(model, W.T @ W)
    return Criterion("sigma", scale=scale, chosen=tuple(drives.tolist()))


def gain_sigmas(model: GainModel, information: FloatArray) -> FloatArray:
    """Relative standard deviations of the gains, from the information of all unknowns, (n_gains,)."""
    size = np.sqrt(np.diag(information))
    inverse = np.linalg.pinv(information / np.outer(size, size), hermitian=True)
    drives = model.columns >= len(layout(model.robot)) + 10
    return np.asarray(np.sqrt(np.maximum(np.diag(inverse)[drives], 0.0)) / size[drives])


def forecast_gains(setup: Setup, runs: Sequence[SearchedRun]) -> tuple[ForecastGain, ...]:
    """Predict the deviations of gains from designed runs, each made as often with as without the load."""
    paired = [run for run in runs if run.plan.role == "identify" and carries(setup, run.plan)]
    if setup.design.model != "gains" or not paired:
        return ()
    model, settings = run_problem(setup, paired[0].plan, ()).model, setup.campaign.content
    assert isinstance(model, GainModel)
    assert settings.payload is not None
    total: FloatArray = np.zeros((len(model.columns),) * 2)
    for run in paired:
        series = run.run.periodic
        total += _samples(setup, series.periods * series.period) / FINE_SAMPLES * _gram(model, series)
    sigma = np.full(setup.robot.n_joints, np.inf)
    drives = model.columns[model.columns >= len(layout(setup.robot)) + 10] - len(layout(setup.robot)) - 10
    sigma[drives] = gain_sigmas(model, total) * setup.noise.inflation
    most = settings.gains.relative_sigma_percent / 100.0
    return tuple(
        ForecastGain(name, float(np.hypot(s, settings.payload.percent / 100.0)), bool(s <= most))
        for name, s in zip(setup.robot.joint_names, sigma, strict=True)
    )


def expected_load(setup: Setup, runs: Sequence[SearchedRun]) -> FloatArray | None:
    """Predict the deviations of a payload campaign's load from the runs that are fitted."""
    if setup.campaign.content.task != "payload" or setup.robot.payload is None:
        return None
    motions = []
    for run in runs:
        if run.plan.role == "identify" and (series := run.run.periodic) is not None:
            t = series.period * np.arange(FINE_SAMPLES) / FINE_SAMPLES
            motion = Motion(*(series.at(t, order) for order in range(3)))
            motions.append((motion, series.periods * series.period, run.plan.payload is not None))
    if not any(loaded for *_, loaded in motions):
        return None
    return forecast_load(setup.campaign, setup.robot, setup.noise, motions)


def forecast_load(
    campaign: OpenCampaign, robot: Robot, noise: Noise, motions: Sequence[tuple[Motion, float, bool]]
) -> FloatArray | None:
    """Predict the deviations of a load like the stated one, (10,) as CENTER_NAMES, from motions and their seconds.

    They are those of the estimate itself, on rows that the stated load and the noise make; None without full rank.
    """
    from excitor.identify.load import equations as load_equations
    from excitor.identify.load import fit as load_fit

    assert robot.payload is not None
    bare, (arm, _) = replace(robot, payload=None), known_arm(campaign)
    spread = np.sqrt(carried_from_joints(bare) ** 2 @ np.square(noise.sigma * noise.inflation))
    runs = [
        load_equations.LoadRun(str(k), motion, np.zeros(motion.q.shape), spread * np.sqrt(len(motion) / count), loaded)
        for k, (motion, seconds, loaded) in enumerate(motions)
        for count in [seconds * noise.rate_hz]
    ]
    lossless = np.ones(bare.n_joints) if (bare.drive.efficiency == 1.0).all() else None
    learn = bool(arm.covariance.any()) and not all(run.loaded for run in runs)
    try:
        task = load_equations.load_task(bare, runs, arm=arm, efficiency=lossless, learn_arm=learn)
        system = load_equations.equations(task, runs)
        theta, where = np.zeros(len(system.unknowns)), system.unknowns
        theta[where.load], theta[where.friction] = robot.payload.phi, bare.chi[task.friction]
        theta[where.efficiency] = bare.drive.efficiency[where.efficiency_axes]
        white = np.random.default_rng(0).normal(size=len(system))
        made = replace(system, tau=load_equations.motor_torque(system, theta)[0] + system.sigma * white)
        noisy, arm_doubt = load_fit.covariances(made, theta)
        return load_fit.at_center(robot.payload.phi, (noisy + arm_doubt)[:10, :10]).sigma
    except ExcitorError:
        return None


def _magnitudes(setup: Setup, columns: IntArray, beta: FloatArray) -> FloatArray:
    """Estimate the size of each parameter, at least its noise level: max(|β|, σ / rms of its column)."""
    motion = random_motion(setup.robot, 400)
    square = np.diag(gram(setup.robot, motion, columns, 1.0 / setup.noise.sigma)) / len(motion)
    return np.maximum(np.abs(beta), 1.0 / np.sqrt(np.maximum(square, 1e-300)))


def _gram(model: Model, series: Series) -> FloatArray:
    """WᵀW of a period over the fine grid."""
    motion = series.motion(series.grid(FINE_SAMPLES))
    q, dq, ddq = (np.ascontiguousarray(x.T)[None] for x in (motion.q, motion.dq, motion.ddq))
    return np.asarray(model.grams(q, dq, ddq, FINE_SAMPLES)[0])


def content_of(problem: Problem | torque.TorqueProblem) -> Iterator[bytes]:
    """Write everything that a search depends on; how often a motion is repeated, or rests, is not in it."""
    if isinstance(problem, Problem):
        once = replace(problem.excitation, measured=1, warm_up=0, hold=0.0, settle=0.0)
        earlier = (problem.earlier / problem.share).astype(np.float32)  # both count the same periods
        problem = replace(problem, excitation=once, earlier=earlier, share=1.0)
    return _parts(problem)


def _parts(part: Any) -> Iterator[bytes]:
    """Write plain data, arrays and dataclasses, whatever they hold, as bytes."""
    if isinstance(part, np.ndarray):
        yield f"{part.dtype} {part.shape}".encode() + part.tobytes()
        return
    if is_dataclass(part):
        yield type(part).__name__.encode()
        part = [getattr(part, field.name) for field in fields(part)]
    elif isinstance(part, Mapping):
        part = sorted(part.items())
    elif isinstance(part, (set, frozenset)):
        part = sorted(part, key=repr)
    if not isinstance(part, (list, tuple)):
        yield repr(part).encode()
        return
    yield b"("
    for item in part:
        yield from _parts(item)
    yield b")"


def _finished(
    setup: Setup, plan: RunPlan, problem: Problem, found: SearchResult, pick: int | None = None
) -> SearchedRun:
    """Return the best finalist that can be certified, or the picked one, with reduced amplitude if need be."""
    order = [k for k in range(len(found.value)) if found.violation[k] <= 0.0]
    scores = sorted((fine_value(problem, run_of(problem, found.candidates, k)), k) for k in order)
    if pick is not None and not 0 <= pick < len(scores):
        raise _invalid(setup, f"pick {pick} is no motion of {plan.name!r}, which has 0 to {len(scores) - 1}")
    finalists = list(enumerate(scores))[:_FINALISTS] if pick is None else [(pick, scores[pick])]
    best: tuple[float, Run, Certificate, int] | None = None
    for place, (value, k) in finalists:
        if best is not None and value >= best[0]:
            break
        for amplitude in _SHRINK:
            trial = run_of(problem, found.candidates, k).scaled(amplitude)
            fine = fine_value(problem, trial)
            if best is not None and fine >= best[0]:
                break
            certificate = _proven(setup, plan, trial)
            if certificate.ready:
                best = (fine, trial, certificate, place)
                break
    if best is None:
        place, (value, k) = finalists[0]
        chosen = run_of(problem, found.candidates, k)
        best = (value, chosen, _proven(setup, plan, chosen), place)
    family = tuple(_choice(setup, plan, problem, found.candidates, k, value) for value, k in scores[:FAMILY])
    described = _described(setup, plan, problem, best[1], best[2], found)
    return replace(described, family=family, picked=best[3])


def _choice(setup: Setup, plan: RunPlan, problem: Problem, candidates: Candidates, k: int, value: float) -> Choice:
    """Describe one motion of a family: what it costs, and how near it comes to torque limits and obstacles."""
    run, robot, scene = run_of(problem, candidates, k), problem.robot, problem.constraints.scene
    motion, tau, clear = run.motion(np.linspace(0.0, run.duration, FINE_SAMPLES)), None, None
    if has_torque_model(robot):
        tau = float((np.abs(inverse_dynamics(robot, motion)) / setup.constraints.limits.torque).max())
    if scene is not None:
        need = required(robot, scene)  # of neighbours that are never far apart: less
        clear = float(clearances(robot, scene, motion.q)[:, need >= need.max(initial=0.0)].min(initial=np.inf))
    plain = model_of(setup, problem.model.columns, Criterion("condition"), plan)
    W = plain.observation(run.periodic.motion(run.periodic.grid(FINE_SAMPLES)))
    center, swing = candidates.center[k], candidates.swing[k]
    return Choice(value, condition_number(W), run.duration, tau, clear, center, swing)


def _proven(setup: Setup, plan: RunPlan, chosen: Run) -> Certificate:
    """Certify a motion; a run without its pair's payload must hold with it, too, on the same way from home."""
    robot, constraints = run_robot(setup, plan), run_constraints(plan, setup.constraints)
    heavy = certify(setup.robot, chosen, constraints, torque_model=torque_model(setup.robot))
    if carries(setup, plan) or not heavy.ready:
        return heavy
    return certify(robot, chosen, constraints, torque_model=torque_model(robot), way=heavy.way)


def torque_model(robot: Robot) -> bool | None:
    """Return the certificate's `torque_model`: None where torques can be checked, False without a model."""
    return None if has_torque_model(robot) else False


def fine_value(problem: Problem, candidate: Run) -> float:
    """Evaluate the criterion on the fine grid; condition numbers by SVD."""
    series = candidate.periodic
    if problem.criterion.kind.endswith("condition") and not problem.earlier.any():
        return condition_number(problem.model.observation(series.motion(series.grid(FINE_SAMPLES))))
    G = problem.earlier + problem.share * problem.n_period / FINE_SAMPLES * _gram(problem.model, series)
    return float(values(problem.criterion, G[None])[0])


def _described(
    setup: Setup, plan: RunPlan, problem: Problem, chosen: Run, certificate: Certificate, found: SearchResult
) -> SearchedRun:
    series = chosen.periodic
    motion = series.motion(series.grid(FINE_SAMPLES))
    robot, columns = run_robot(setup, plan), problem.model.columns
    one = Criterion("condition")
    W = model_of(setup, columns, one, plan).observation(motion)
    weights = np.where(plan.moving, 1.0 / setup.noise.sigma, 0.0)
    weighted = W if setup.design.model != "dynamic" else DynamicModel(robot, columns, weights).observation(motion)
    return SearchedRun(
        plan,
        chosen,
        certificate,
        robot=robot,
        problem=problem,
        columns=_column_names(setup, columns),
        found=found,
        **_conditioning(W, weighted),
    )


def _conditioning(W: FloatArray, weighted: FloatArray) -> dict[str, Any]:
    """Evaluate how well the columns of an observation matrix can be told apart: fields of a searched run."""
    norms = np.linalg.norm(W, axis=0)
    unit = W / np.where(norms > 0.0, norms, 1.0)
    return {
        "condition": condition_number(W),
        "condition_weighted": condition_number(weighted),
        "spectrum": np.linalg.svd(unit, compute_uv=False),
        "correlation": unit.T @ unit,
    }


def _column_names(setup: Setup, columns: IntArray) -> tuple[str, ...]:
    """Name columns: base parameters by their regrouping's name; beyond the parameters come efficiencies."""
    robot, base, names = setup.robot, base_parameters(setup.robot), layout(setup.robot).names
    known = dict(zip(base.kept.tolist(), base.names, strict=True)) if setup.design.model != "load" else {}
    beyond = {len(names) + j: f"efficiency {name}" for j, name in enumerate(robot.joint_names)}
    if setup.design.model == "gains":
        unknown = (*(f"load {name}" for name in LINK_COMPONENTS), *(f"gain {name}" for name in robot.joint_names))
        beyond = {len(names) + k: name for k, name in enumerate(unknown)}
    return tuple(known.get(k) or beyond.get(k) or names[k] for k in columns.tolist())


def _share(budget: Budget, plan: RunPlan, simulated: bool = False) -> Budget:
    """Return a run's part of a budget; simulated candidates, which take longer, count more from many on."""
    share = VALIDATION_SHARE if plan.role == "validate" else 1.0
    if not budget.counted:
        return Budget(seconds=share * budget.amount)
    most = budget.amount
    if simulated:
        most = max(min(most, _SIMULATED), most / _PER_SIMULATED)
    fewest = _FEWEST if simulated else 1
    return Budget(evaluations=min(round(most), max(fewest, round(share * most))))


WHY_EVALUATIONS = 3000  # of each question why nothing fits: a report within ten seconds


class SearchInterrupted(ExcitorError):
    """A search that was interrupted before it found a feasible motion."""


def search_motion(
    search: Search, settings: Settings, *, where: str, state: State | None, observer: Observer
) -> SearchResult:
    """Search a motion, resuming from an earlier state; raise InfeasibleDesign where no motion is feasible.

    The first stage is run by itself: where it finds no feasible motion, the reasons are found before it continues.
    Of torques there is InfeasibleRun, with what the best candidate breaks.
    """
    problem, kept = search.problem, [state]

    def keeper(now: State) -> None:
        kept[0] = now
        if observer.keep is not None:
            observer.keep(now)

    found = None
    if state is None:
        first = replace(observer, keep=keeper)
        found = run_search(search, observer=first, executor=settings.executor, until_stage=1)
    if kept[0] is not None:
        state = _helped(problem, kept[0], where, settings.seed) if isinstance(problem, Problem) else kept[0]
        found = run_search(search, state, observer=observer, executor=settings.executor)
    assert found is not None
    if not found.feasible:
        if found.stopped == "interrupted":
            raise SearchInterrupted(f"{where}: stopped before a motion was found that fits; the same command goes on")
        if isinstance(problem, Problem):
            raise_infeasible(problem, where, settings.seed)
        g = search.problem.evaluate(found.candidates).g[0]
        order = [int(k) for k in np.argsort(-g, kind="stable") if g[k] > 0.0]
        broken = [_excess(search.problem.names[k], float(g[k])) for k in order[:_REASONS]]
        raise InfeasibleRun(
            f"{where}: no candidate of {found.evaluations} keeps every limit; the best breaks",
            [*broken, "search longer, or widen what is broken most"],
        )
    return found


def _helped(problem: Problem, first: State, where: str, seed: int) -> State:
    """Replace a first stage without a feasible motion by one with it; raise InfeasibleDesign where none exists."""
    if first.done != 1 or (first.violation <= 0.0).any():
        return first
    from excitor.design.explain import explain

    blocked = explain(problem, seed=seed, evaluations=WHY_EVALUATIONS)
    if blocked.members or blocked.fits is None:
        raise InfeasibleDesign(where, blocked, surely_wrong(problem.robot))
    fits = candidates_of([blocked.fits])
    found = evaluate(problem, fits)
    return replace(
        first,
        center=np.concatenate([first.center, fits.center]),
        swing=np.concatenate([first.swing, fits.swing]),
        value=np.append(first.value, found.value),
        violation=np.append(first.violation, found.violation),
    )


def raise_infeasible(problem: Problem, where: str, seed: int) -> None:
    """Raise InfeasibleDesign, with the conflicting constraints, for a search without a feasible candidate."""
    from excitor.design.explain import explain

    blocked = explain(problem, seed=seed, evaluations=WHY_EVALUATIONS)
    raise InfeasibleDesign(where, blocked, surely_wrong(problem.robot))


def _invalid(setup: Setup, *problems: str) -> InvalidCampaign:
    """Return the error of a key of campaign.toml."""
    return InvalidCampaign(setup.campaign.folder / FILE, list(problems))


def planned_runs(setup: Setup) -> tuple[Schedule, Schedule]:
    """List the runs to design now, and those that wait for the results of earlier ones."""
    design, robot = setup.design, setup.robot
    if by_torque(setup):
        return planned_torque_runs(setup), ()
    joints = design.joints or None
    if design.schedule == "payload-pair" and robot.payload is None:
        sentence = 'is "payload-pair", but there is no [payload]; state its mass, centre and inertia'
        raise _invalid(setup, f"design.schedule: {sentence}")
    try:
        if setup.campaign.content.task == "gains":
            pair = payload_runs(robot, joints, dynamic=True, static=False)
            return checked(tuple(run for run in pair if run.role == "identify")), ()
        if setup.campaign.content.task == "payload" or design.schedule == "static-pair":
            dynamic, static = design.schedule == "payload-pair", design.static_poses > 0
            return payload_runs(robot, joints, dynamic=dynamic, static=static), ()
        if design.schedule == "single":
            schedule: Schedule = tuple(run for run in together(robot, joints) if run.name == "excitation")
        else:
            schedule = plan_runs(robot, design.schedule, joints)
        if not design.warm_up_minutes:
            schedule = tuple(run for run in schedule if run.kind != "warm-up")
        schedule = with_slow_runs(
            robot, schedule, static=design.static_poses > 0, sweeps=design.friction_sweeps, joints=joints
        )
        schedule = (*schedule, *_further(setup))
    except ValueError as error:
        raise _invalid(setup, f"design.schedule: {error}") from None
    waiting: list[RunPlan] = []
    if not setup.learned:
        for run in schedule:
            after = {other.name for other in waiting}
            if run.learns_from is not None or run.same_as in after or (waiting and run.role == "validate"):
                waiting.append(run)
    now = tuple(run for run in schedule if run not in waiting)
    return checked(now), tuple(replace(run) for run in waiting)


def _further(setup: Setup) -> Iterator[RunPlan]:
    """Plan the runs added to a campaign that was measured already; last, so that earlier runs stay unchanged."""
    moving = moving_mask(setup.robot, setup.design.joints or None)
    for k, requested in enumerate(setup.design.further, start=1):
        if requested == "static":
            yield RunPlan(f"further {k}", "static", moving, "identify", "More poses held: gravity alone.")
        elif requested == "sweeps":
            yield RunPlan(f"further {k}", "sweep", moving, "identify", "Constant speeds: friction alone.")
        else:
            note = f"What the runs before leave open or vague of {', '.join(requested)}."
            yield RunPlan(f"further {k}", "excitation", moving, "identify", note, parameters=tuple(requested))


FURTHER_POSES = 15  # of a further static run, where the campaign names no number


def design_slow_run(setup: Setup, plan: RunPlan, seed: int) -> DesignedRun:
    """Build and certify a slow run; InfeasibleRun states why there is none."""
    robot, run, notes = make_slow_run(setup, plan, seed)
    robot = replace(run_robot(setup, plan), locked=robot.locked)  # the same poses as with the payload
    certificate = certify(robot, run, limits_of(setup, plan), torque_model=torque_model(robot))
    return DesignedRun(plan, run, replace(certificate, notes=(*notes, *certificate.notes)))


def make_slow_run(setup: Setup, plan: RunPlan, seed: int) -> tuple[Robot, Run, tuple[str, ...]]:
    """Build a slow run, with the robot as held in it, and notes of what was left out."""
    design, home, step = setup.design, setup.constraints.home, setup.design.controller_sample_s
    assert home is not None
    held = {int(j): float(home[j]) for j in np.flatnonzero(~plan.moving)}
    robot = replace(setup.robot, locked={**setup.robot.locked, **held})
    constraints = limits_of(setup, plan)
    if plan.kind == "static":
        poses = SlowPlan(step, n_poses=design.static_poses or FURTHER_POSES, seed=seed)
        return robot, static_poses(robot, constraints, home=home, plan=poses, weights=1.0 / setup.noise.sigma), ()
    if plan.kind == "sweep":
        return robot, *friction_sweeps(robot, constraints, home=home, plan=SlowPlan(step))
    minutes = max(design.warm_up_minutes, 0.1)
    return robot, warm_up(robot, constraints, home=home, plan=SlowPlan(step, minutes=minutes, seed=seed)), ()


_PERIODS = (0.5, 1.0, 2.0)  # of the campaign's own, where it lists none


def search_front(
    setup: Setup,
    settings: Settings,
    *,
    plan: RunPlan,
    problem_of: Callable[[Setup, RunPlan], Problem],
    listen: Callable[[Progress], None] | None = None,
) -> tuple[Front, Problem, SearchResult]:
    """Search the campaign's Pareto front, and return the picked run, or its knee."""
    objectives: Sequence[Objective] = setup.design.front
    problems = [problem_of(replace(setup, excitation=each), plan) for each in _excitations(setup)]
    found = front(problems, objectives, settings.budget, seed=settings.seed, listen=listen, executor=settings.executor)
    if not len(found):
        return found, problems[0], _as_found(found, 0, feasible=False)
    k = found.chosen if settings.pick is None else settings.pick
    if not 0 <= k < len(found):
        raise _invalid(setup, f"pick {k} is not on the front, which has runs 0 to {len(found) - 1}")
    return replace(found, chosen=k), problems[found.which[k]], _as_found(found, k)


def _excitations(setup: Setup) -> list[Excitation]:
    """List the excitations that differ in their period, whole numbers of controller samples."""
    own, design = setup.excitation, setup.design
    if "duration" not in design.front:
        return [own]
    made = []
    for period in design.periods_s or [share * own.period for share in _PERIODS]:
        whole = round(period / own.sample_time) * own.sample_time
        if design.periods_s and abs(whole - period) > 1e-9 * period:
            expected = f"is no whole number of controller samples; {whole:g} would be"
            raise _invalid(setup, f"design.periods_s: {period:g} {expected}")
        try:
            made.append(replace(own, period=whole))
        except ValueError as error:
            raise _invalid(setup, f"design.periods_s: {error}") from None
    return made


def _as_found(found: Front, k: int, feasible: bool = True) -> SearchResult:
    """Convert one run of a front to the result of a search."""
    one = slice(k, k + 1) if feasible else slice(0, 0)
    n = 1 if feasible else 0
    return SearchResult(
        Candidates(found.center[one], found.swing[one]),
        found.points[one, 0],
        np.zeros(n),
        found.evaluations,
        found.seconds,
        found.stopped,
        np.empty((0, 4)),
    )


FOLDER = ".design"
FORM = "memetic 3"  # of a search and its state: those of another form are not resumed


def key_of(*parts: object) -> str:
    """Compute a digest of all inputs of a search."""
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()


def keep(folder: Path, run: int, *, key: str, state: State) -> None:
    """Write a search's state atomically; in a folder that is not writable only the checkpoint is lost."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {field.name: np.asarray(getattr(state, field.name)) for field in fields(State)}
    np.savez(buffer, key=np.array(key), **arrays)
    with contextlib.suppress(OSError):
        (folder / FOLDER).mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder / FOLDER)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(buffer.getvalue())
            os.replace(temporary, folder / FOLDER / f"{_stem(run, key)}.npz")
        except OSError:
            os.unlink(temporary)


def recall(folder: Path, run: int, key: str) -> State | None:
    """Read the state of the same search; an unreadable one starts again."""
    return _read(folder / FOLDER / f"{_stem(run, key)}.npz", key)


def forget(folder: Path) -> None:
    """Remove all states once the design is written."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def _read(path: Path, key: str) -> State | None:
    try:
        with np.load(path, allow_pickle=False) as data:
            if str(data["key"]) != key:
                return None
            values = {field.name: data[field.name] for field in fields(State)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return State(**{name: value.item() if value.ndim == 0 else value for name, value in values.items()})


def _stem(run: int, key: str) -> str:
    return f"{run:03d}-{key[:16]}"


WRIST_AND_ELBOW = 4  # joints, from the last: with fewer, a load's mass is lost


def wrist_and_elbow(robot: Robot) -> tuple[str, ...]:
    """Choose the joints that move: the last four of those that can."""
    free = [name for i, name in enumerate(robot.joint_names) if i not in robot.locked]
    return tuple(free[-WRIST_AND_ELBOW:])


def payload_runs(robot: Robot, joints: Sequence[str] | None, *, dynamic: bool, static: bool) -> Schedule:
    """Plan bare, loaded, loaded, bare: linear drift cancels, and the load is mounted and removed once."""
    moving = moving_mask(robot, joints)
    bare = RunPlan("bare", "excitation", moving, "identify", "The arm without the load: what it takes by itself.")
    poses = RunPlan("bare poses", "static", moving, "identify", "The bare arm rests in many poses: its own weight.")
    loaded = replace(
        bare, name="loaded", payload="known", same_as="bare", note="Mount the load first. The same motion with it."
    )
    weight = "The same poses with the load: its weight."
    runs = [
        *([poses] if static else []),
        *([bare, loaded, replace(loaded, name="loaded again", note="Once more with the load on.")] if dynamic else []),
        *([replace(poses, name="loaded poses", payload="known", note=weight)] if static else []),
    ]
    if dynamic:
        another = "Another motion with the load, which no estimate has seen: is it predicted?"
        back = "Take the load off first. Without it again: what drifted meanwhile cancels."
        runs += [
            replace(loaded, name="validation", role="validate", same_as=None, note=another),
            replace(bare, name="bare again", same_as="bare", note=back),
        ]
    return checked(tuple(runs))


MOST_SAMPLES = 30_000  # of a run: a hundred candidates of six joints then fill a gigabyte
BAND = (1.0, 15.0)  # rad/s, where the campaign states none
SEARCH_ROOM = 0.75  # of a search: robots of the prior that it does not simulate move further
RATED_PERCENT, PRIOR_PERCENT = 30.0, 10.0  # of rated torques, and standard deviation of the prior, where not stated
_TORQUE_SHRINK = (1.0, 0.97, 0.9, 0.75)  # amplitudes tried until every simulation keeps its limits
_FEWEST = 100  # candidates of a validation, as far as the budget has them
_SIMULATED, _PER_SIMULATED = 1000, 20  # candidates that count as they are; evaluations that each counts beyond
_REASONS = 5  # reported of a search that found nothing
_KEYS = {  # of the campaign, by how an error of the designer begins
    "duration": "design.torque.duration_s",
    "fade": "design.torque.fade_s",
    "coast": "design.torque.coast_s",
    "rate": "design.torque.rate",
    "band": "design.torque.band_rad_s",
    "sample_time": "design.controller_sample_s",
    "start": "home_deg",
    "torque limits": "limits.joint",
    "a locked joint": "robot",
}
_WITHOUT_MEANING = (  # keys of periodic runs
    *("base_frequency_hz", "harmonics", "settle_s", "ramp_s"),
    *("warm_up_periods", "measured_periods", "hold_s", "method"),
)


def by_torque(setup: Setup) -> bool:
    """Return True if the runs are torques, whose motion is simulated."""
    return setup.design.excitation == "torque"


def planned_torque_runs(setup: Setup) -> Schedule:
    """Plan an excitation, and a validation unless a single run is requested; undriven joints move passively."""
    driven = torque_problem_of(setup).excitation.driven
    names = [name for name, pushes in zip(setup.robot.joint_names, driven, strict=True) if pushes]
    who = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    everything = np.ones(driven.size, dtype=bool)
    first = RunPlan(
        "excitation", "excitation", everything, "identify", f"Torques in {who}, from rest, without a controller."
    )
    note = "Other torques, whose motion no estimate has seen: does the model predict it?"
    second = replace(first, name="validation", role="validate", note=note)
    return checked((first,) if setup.design.schedule == "single" else (first, second))


def _torque_remarks(setup: Setup, runs: Sequence[SearchedRun]) -> Iterator[str]:
    """Remark on how reliable simulated runs are."""
    if by_torque(setup):
        stated = [key for key in _WITHOUT_MEANING if key in setup.design.model_fields_set]
        if stated:
            yield f'excitation = "torque" makes no periodic run: {", ".join(stated)} of [design] do not count'
        yield torque.WORDING
    for run in runs:
        if run.certificate.simulation is not None:
            yield f"run {run.plan.name!r}: {torque.robustness_sentence(run.certificate.simulation.robustness)}"


def _finished_torques(setup: Setup, plan: RunPlan, problem: torque.TorqueProblem, found: SearchResult) -> SearchedRun:
    """Reduce the best torques where the finer simulation breaks a limit, and evaluate what the motion shows."""
    first, spread = torque.trajectories(problem, found.candidates)[0], prior_spread(setup)
    first, tube = torque.shrunk_into_tube(problem, first, spread=spread)
    best: tuple[torque.TorqueTrajectory, Run, Certificate] | None = None
    for amplitude in _TORQUE_SHRINK:
        trial = scaled_torques(first, amplitude)
        if amplitude < 1.0:
            tube = torque.simulate_tube(problem, torque.held_torques([trial])[0], spread=spread)
        run, certificate = torque.certify_torques(problem, trial)
        certificate = replace(certificate, items=(*certificate.items, *torque.tube_margins(problem, tube)))
        if best is None or certificate.ready:
            best = trial, run, certificate
        if certificate.ready:
            break
    assert best is not None
    chosen, run, certificate = best
    motion = torque.simulated_motion(run, torque.CONDITION_SAMPLES)
    W = regressor(with_friction_width(problem.sharp, torque.SHARP_WIDTH), motion)[:, :, problem.columns]
    conditioning = _conditioning(stack(W), stack(W / setup.noise.sigma[:, None]))
    if certificate.items[0].name == "simulation":  # it diverged
        conditioning["condition"] = float("inf")
    return SearchedRun(
        plan,
        run,
        certificate,
        robot=setup.robot,
        problem=problem,
        columns=base_parameters(problem.robot).names,
        found=found,
        torques=chosen,
        **conditioning,
    )


def _conflicts(setup: Setup, settings: Settings) -> Iterator[str]:
    """List every setting that torque mode does not support, each with its key path."""
    design, robot = setup.design, setup.robot
    given = design.torque or TorqueRuns()
    if settings.budget.seconds is not None:
        path = "design.seconds" if design.seconds is not None else "seconds"
        yield f"{path}: torque runs are searched by evaluations, so that they can be made again; give evaluations"
    for key, meant in (("schedule", ("together", "single")), ("criterion", ("condition",)), ("model", ("dynamic",))):
        if getattr(design, key) not in meant:
            words = " or ".join(f'"{word}"' for word in meant)
            yield f'design.{key}: is "{getattr(design, key)}"; excitation = "torque" goes with {words}'
    for key in ("joints", "locked_deg", "front", "static_poses", "friction_sweeps", "warm_up_minutes"):
        if getattr(design, key):
            other = "; name the joints that push in design.torque.driven" if key == "joints" else ""
            yield f'design.{key}: needs a position controller, which excitation = "torque" goes without{other}'
    for name in given.driven:
        if name not in robot.joint_names:
            names = ", ".join(robot.joint_names)
            yield f"design.torque.driven: {name!r} is no joint of {robot.name}; its joints are {names}"
    if not has_torque_model(robot):
        yield (
            f"prior: torque mode simulates the arm, and the masses of {robot.name} are not all stated; "
            "give a prior model, or state them in the robot's file"
        )
    top = np.inf if design.max_frequency_hz is None else 2.0 * np.pi * design.max_frequency_hz
    if given.band_rad_s is not None and given.band_rad_s[1] > top:
        yield (
            f"design.torque.band_rad_s: ends at {given.band_rad_s[1]:g} rad/s, above max_frequency_hz = "
            f"{design.max_frequency_hz:g}, which is {top:.4g} rad/s"
        )


def torque_problem_of(setup: Setup, room: float = 1.0) -> torque.TorqueProblem:
    """Build the problem; errors name their key.

    `room`: share of the way from home to each position limit, of speeds its root, that is used.
    """
    try:
        excitation = _excitation(setup)
        if excitation.n_samples > MOST_SAMPLES:
            raise ValueError(
                f"duration, fade and coast are {excitation.n_samples - 1} controller samples, expected fewer than "
                f"{MOST_SAMPLES}; make the run shorter"
            )
        rated = torque_share(setup) * setup.robot.limits.torque
        own, start = setup.constraints.limits, excitation.start[:, None]
        limits = replace(
            own,
            position=start + room * (own.position - start),
            velocity=np.sqrt(room) * own.velocity,
            torque=np.minimum(own.torque, rated),
        )
        made = torque.torque_problem(setup.robot, excitation, constraints=replace(setup.constraints, limits=limits))
        return replace(made, others=torque.extreme_robots(made, spread=prior_spread(setup))) if room < 1.0 else made
    except (ValueError, ExcitorError) as error:
        sentence = str(error)
        key = next((key for word, key in _KEYS.items() if sentence.startswith(word)), "design.torque")
        raise _invalid(setup, f"{key}: {sentence}") from None


def torque_share(setup: Setup) -> float:
    """Return the share of a rated torque that an unverified motion may take."""
    percent = setup.design.torque.torque_percent if setup.design.torque is not None else None
    return 0.01 * (RATED_PERCENT if percent is None else percent)


def prior_spread(setup: Setup) -> float:
    """Return the standard deviation of what the prior states, as a share, with which robots are drawn from it."""
    percent = setup.design.torque.prior_percent if setup.design.torque is not None else None
    return 0.01 * (PRIOR_PERCENT if percent is None else percent)


def _excitation(setup: Setup) -> torque.TorqueExcitation:
    """Build the torque excitation; default times are rounded to whole controller samples."""
    design, given = setup.design, setup.design.torque or TorqueRuns()
    step, top = design.controller_sample_s, 2.0 * np.pi * (design.max_frequency_hz or np.inf)
    times = {}
    for name in ("duration", "fade", "coast"):
        key = f"{name}_s"
        time = getattr(given, key)
        whole = round(time / step) * step
        times[name] = time if key in given.model_fields_set and abs(time - whole) > 1e-9 * time else whole
    names = setup.robot.joint_names
    home = setup.constraints.home
    assert home is not None
    return torque.TorqueExcitation(
        sample_time=step,
        driven=np.array([not given.driven or name in given.driven for name in names]),
        start=home,
        n_waves=given.n_waves,
        band=(given.band_rad_s[0], given.band_rad_s[1]) if given.band_rad_s else (BAND[0], min(BAND[1], top)),
        rate=given.rate,
        **times,
    )


def _excess(name: str, g: float) -> str:
    """Describe one constraint's violation g, a share of its limit."""
    if name == "simulation":
        return "the simulation diverges"
    if name.startswith("clearance"):
        return f"{name}, by {1e3 * CLEARANCE_SCALE * g:.0f} mm"
    if "position" in name:
        return f"{name}, by {g:.0%} of half the joint's range"
    if name.startswith("speed at the end"):
        return f"{name}: the arm has not come to rest yet; design.torque.coast_s gives it more time"
    over = f"{1.0 + g:.0f} times" if g > 1.0 else f"{1.0 + g:.0%} of"
    return f"{name}: {over} what the search uses, which is {torque.SEARCH.share:.0%} of the limit"
