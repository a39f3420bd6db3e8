"""Designed excitation of the QRC 350 within what the measured trajectories A and B used of each joint.

A design keeps to each joint's range, largest speed and largest acceleration of the trajectory it competes with, from
rest to rest; restrained ones, to a box for the tool as well. Condition numbers are of the column-normalised, unweighted
matrix of the 35 declared parameters. What measurements would be worth stands beside: normalised columns do not show
their size, so that a condition number can be low where a joint hardly moves. Informative designs are those that make
the mean variance of all parameters small instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.design.certify.certificate import Certificate
from excitor.design.certify.certify import certify
from excitor.design.constraints import Constraints
from excitor.design.criteria import Criterion, DeclaredModel, declared_model
from excitor.design.motion import Excitation, Trajectory, period_grid, scaled, steady
from excitor.design.problem import Problem, build_problem, trajectory
from excitor.design.search import Budget, Found, solve
from excitor.experiments.studies.qrc350_data import PERIOD_S, REPETITIONS, Recordings
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.cell import Scene, Shape, Zone
from excitor.robots.dynamics import frame_pose, inverse_dynamics
from excitor.robots.gram import condition_number
from excitor.robots.information import Noise, deviations, information, knowledge
from excitor.robots.robot import Limits, Motion

HARMONICS = (1, 2, 3, 4, 5)
SAMPLE_TIME_S = 0.002
RAMP_S = 5.0
AMPLITUDES = (1.0, 0.998, 0.995, 0.99)
GROWN_BOX_M = ((-0.07, -0.60, 0.88), (1.53, 0.69, 2.12))  # B's own, a tenth larger


@dataclass(frozen=True, slots=True)
class Effort:
    """How often each task is designed, and how long searched for."""

    seeds: int
    evaluations: int


QUICK, FULL = Effort(3, 40_000), Effort(5, 120_000)


@dataclass(frozen=True, slots=True)
class Task:
    """What is designed."""

    name: str
    rival: str  # the measured trajectory whose envelope it keeps to
    box: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # for the tool: lowest, highest, m
    informative: bool = False  # by the mean variance of the parameters, each in units that suit the rival
    share: float = 1.0  # of the evaluations: half is enough without a box, and for a smooth criterion


@dataclass(frozen=True, eq=False, slots=True)
class Design:
    """A design, judged apart from its search."""

    trajectory: Trajectory
    condition: float
    sigma: FloatArray  # (n_params,): expected relative standard deviation
    torque: FloatArray  # (n_joints,): largest, by the robot's prior model, N m
    certificate: Certificate


@dataclass(frozen=True, eq=False, slots=True)
class Rival:
    """A measured trajectory, judged in the same way."""

    name: str
    theta: FloatArray  # (n_params,), the model fitted to it: what relative deviations refer to
    condition: float
    sigma: FloatArray
    torque: FloatArray
    box: tuple[tuple[float, ...], tuple[float, ...]]  # its tool stayed in
    limits: Limits  # it used


@dataclass(frozen=True, eq=False, slots=True)
class Designs:
    """All designs, one a seed, beside the trajectories they compete with."""

    rivals: Mapping[str, Rival]
    tasks: Sequence[Task]
    found: Mapping[str, Sequence[Design]]  # by task
    names: tuple[str, ...]  # of the parameters


@one_blas_thread()
def design(recordings: Recordings, theta: Mapping[str, FloatArray], effort: Effort) -> Designs:
    """Design for every task; θ are the models fitted to the rivals."""
    rivals = {run: rival(recordings, run, values) for run, values in theta.items()}
    asked = tasks(rivals["B"])
    found = {
        task.name: [one(recordings, task, rivals[task.rival], seed, effort) for seed in range(effort.seeds)]
        for task in asked
    }
    declared = recordings.robot.declared_base
    assert declared is not None
    return Designs(rivals, asked, found, tuple(declared.names))


def tasks(restrained: Rival) -> tuple[Task, ...]:
    """List what is designed."""
    return (
        Task("full", "A", share=0.5),
        Task("restrained", "B", GROWN_BOX_M),
        Task("restrained_exact", "B", restrained.box),
        Task("full_informative", "A", informative=True, share=0.5),
        Task("restrained_informative", "B", GROWN_BOX_M, informative=True, share=0.5),
    )


def rival(recordings: Recordings, run: str, theta: FloatArray) -> Rival:
    """Judge a measured trajectory, and see what it used."""
    robot, motion = recordings.robot, recordings.samples[run].motion
    tool = frame_pose(robot, motion.q)[:, :3, 3]
    none = np.full(robot.n_joints, np.inf)
    return Rival(
        run,
        theta,
        condition_number(declared_model(robot).observation(motion)),
        relative_sigma(recordings, run, motion, theta),
        np.abs(inverse_dynamics(robot, motion)).max(axis=0),
        (tuple(map(float, tool.min(axis=0))), tuple(map(float, tool.max(axis=0)))),
        Limits(
            position=np.stack([motion.q.min(axis=0), motion.q.max(axis=0)], axis=1),
            velocity=np.abs(motion.dq).max(axis=0),
            acceleration=np.abs(motion.ddq).max(axis=0),
            jerk=none,
            torque=none,
        ),
    )


def noise(recordings: Recordings, run: str) -> Noise:
    """Take the scatter of single repetitions, per joint: the mean of the weights 1/σ² by which the paper divides."""
    samples = recordings.samples[run]
    assert samples.variance is not None
    sigma = 1.0 / np.sqrt(np.mean(1.0 / samples.variance, axis=0))
    return Noise(sigma, samples.sample_rate_hz, source=f"scatter of repetitions of trajectory {run}")


def relative_sigma(recordings: Recordings, run: str, motion: Motion, theta: FloatArray) -> FloatArray:
    """Expect σ / |θ| of the declared parameters from repeated periods with the noise of a run, (n_params,)."""
    robot = recordings.robot
    known = knowledge(information(robot, motion, noise(recordings, run), duration=PERIOD_S, repeats=float(REPETITIONS)))
    return deviations(known, declared_transform(robot, base_parameters(robot))) / np.abs(theta)


def problem(recordings: Recordings, task: Task, other: Rival) -> Problem:
    """Set up a search."""
    robot = recordings.robot
    moving = np.ones(robot.n_joints, dtype=bool)
    model = declared_model(robot)
    return build_problem(
        robot,
        Excitation(PERIOD_S, SAMPLE_TIME_S, HARMONICS, moving, ramp=RAMP_S),
        constraints=Constraints(other.limits, np.full(robot.n_joints, np.inf), scene(task)),
        criterion=criterion(recordings, task, model),
        model=model,
    )


def scene(task: Task) -> Scene | None:
    """Keep the tool in the task's box."""
    if task.box is None:
        return None
    low, high = np.array(task.box)
    T = np.eye(4)
    T[:3, 3] = 0.5 * (low + high)
    box = Zone("workspace", Shape("box", T, 0.5 * (high - low)), keep="in", bodies="tool")
    return Scene((box,), self_collision=False)


def criterion(recordings: Recordings, task: Task, model: DeclaredModel) -> Criterion:
    """Choose what is made small; a parameter's unit is what changes the rival's torques by as much as any other's."""
    if not task.informative:
        return Criterion("condition")
    W = model.observation(recordings.samples[task.rival].motion)
    return Criterion("a", scale=1.0 / np.linalg.norm(W, axis=0))


def one(recordings: Recordings, task: Task, other: Rival, seed: int, effort: Effort) -> Design:
    """Design once, and judge the result on every controller sample."""
    posed = problem(recordings, task, other)
    budget = Budget(evaluations=round(task.share * effort.evaluations))
    best, certificate = certified(posed, solve(posed, budget, seed=seed))
    motion = steady(best, period_grid(best.excitation, round(PERIOD_S / SAMPLE_TIME_S)))
    return Design(
        best,
        condition_number(posed.model.observation(motion)),
        relative_sigma(recordings, other.name, motion, other.theta),
        np.abs(inverse_dynamics(recordings.robot, motion)).max(axis=0),
        certificate,
    )


def certified(posed: Problem, found: Found) -> tuple[Trajectory, Certificate]:
    """Take the best finalist that can be certified, a little smaller where it strays between the search's samples."""
    tried = []
    for k in range(len(found.value)):
        for amplitude in AMPLITUDES:
            trial = scaled(trajectory(posed, found.candidates, k), amplitude)
            tried.append((trial, certify(posed.robot, trial, posed.constraints)))
            if tried[-1][1].ready:
                return tried[-1]
    return tried[0]


def middle(designs: Sequence[Design]) -> Design:
    """Take the design of median condition."""
    return sorted(designs, key=lambda each: each.condition)[(len(designs) - 1) // 2]


def ratios(designs: Designs, task: Task) -> FloatArray:
    """Divide expected deviations by the rival's, (n_seeds, n_params)."""
    return np.array([each.sigma for each in designs.found[task.name]]) / designs.rivals[task.rival].sigma
