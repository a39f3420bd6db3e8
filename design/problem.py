"""The search problem: design variables -> a motion inside every joint's limits, its criterion, its constraints.

All functions are pure and work on a whole population at once. Design variables are scaled to about ±1: for each
moving joint where it swings about, then the amplitudes of its sines and cosines; for each joint that waits for a
pose, that pose.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.criteria import Criterion, values
from excitor.design.fourier import Excitation, Trajectory, period_grid, ramp_waves, waves
from excitor.design.models import Model
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.cell import required, row_names
from excitor.robots.population import population_clearances, population_tool_speeds, population_torques
from excitor.robots.robot import CanBeSingular, Robot

DRY_RUN = 0.15  # share of the amplitude that a dry run swings
CLEARANCE_SCALE = 0.1  # m of missing clearance that weigh like a limit doubled
SEARCH_CLEARANCE = 0.001  # m kept beyond what is required, for what happens between the samples
SEARCH_SHARE = 0.995  # of limits without a bound between the samples
_WAY_SAMPLES = 24  # of the straight way from home to the start


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """Everything that evaluating a candidate needs; built by `build_problem`."""

    robot: Robot
    excitation: Excitation
    constraints: Constraints
    criterion: Criterion
    model: Model
    earlier: FloatArray  # (n_columns, n_columns): what runs before this one told already, in the same rows
    share: float  # rows that count for each sample of the grid
    pose: FloatArray  # (n_joints,): where joints stand that do not move; NaN: to be chosen
    n_period: int  # samples of the measured period; ramps follow, then what only must be clear
    basis: tuple[FloatArray, ...]  # orders 0, 1, 2 and, where jerk is limited, 3; (2 n_harmonics, n_samples)
    position: FloatArray  # (n_joints, 2): limits that hold between the samples too if they hold at them
    rates: tuple[FloatArray, ...]  # the same of velocity, acceleration, jerk, (n_joints,)
    amplitude: FloatArray  # (n_joints, 2 n_harmonics): what a variable of 1 stands for
    names: tuple[str, ...]  # of the constraints of `evaluate`

    @property
    def n_design(self) -> int:
        """Count the design variables."""
        moving = int(self.excitation.moving.sum())
        return moving * (1 + 2 * len(self.excitation.harmonics)) + int(np.isnan(self.pose).sum())


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Coefficients of a population, inside all joint limits."""

    center: FloatArray  # (n_candidates, n_joints)
    swing: FloatArray  # (n_candidates, n_joints, 2 n_harmonics): sines, then cosines


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """What a population is worth: the criterion, and constraints g ≤ 0 in shares of their limits."""

    value: FloatArray  # (n_candidates,)
    g: FloatArray  # (n_candidates, n_constraints)

    @property
    def violation(self) -> FloatArray:
        """Sum what is violated, (n_candidates,)."""
        return np.asarray(np.maximum(self.g, 0.0).sum(axis=1))


def build_problem(
    robot: Robot,
    excitation: Excitation,
    *,
    constraints: Constraints,
    criterion: Criterion,
    model: Model,
    pose: FloatArray | None = None,
    earlier: FloatArray | None = None,
    share: float = 1.0,
    n_samples: int = 192,
) -> Problem:
    """Collect a search problem; joints that do not move stand at `pose`, or where the search puts them."""
    _check_limits(robot, excitation, constraints)
    still = np.where(excitation.moving, 0.0, np.nan if pose is None else pose)
    n_period = max(n_samples, 24 * excitation.harmonics[-1])
    limits, jerk_limited = constraints.limits, bool(np.isfinite(constraints.limits.jerk).any())
    basis = tuple(_basis(excitation, n_period, order) for order in range(4 if jerk_limited else 3))
    factor = float(np.cos(np.pi * excitation.harmonics[-1] / n_period))
    if excitation.ramp > 0.0:
        factor = min(factor, SEARCH_SHARE)
    middle = limits.position.mean(axis=1)
    half = 0.5 * np.ptp(limits.position, axis=1)
    position = np.stack([middle - factor * half, middle + factor * half], axis=1)
    rates = tuple(factor * x for x in (limits.velocity, limits.acceleration, limits.jerk)[: len(basis) - 1])
    k = np.tile(np.asarray(excitation.harmonics) * excitation.omega, 2)
    reach = np.minimum(factor * half[:, None], rates[0][:, None] / k)
    for order, rate in enumerate(rates[1:], start=2):
        reach = np.minimum(reach, rate[:, None] / k**order)
    columns = len(model.columns)
    return Problem(
        robot=robot,
        excitation=excitation,
        constraints=constraints,
        criterion=criterion,
        model=model,
        earlier=np.zeros((columns, columns)) if earlier is None else earlier,
        share=share,
        pose=still,
        n_period=n_period,
        basis=basis,
        position=position,
        rates=rates,
        amplitude=np.where(excitation.moving[:, None], reach, 0.0),
        names=tuple(_names(robot, constraints)),
    )


def decode(problem: Problem, X: FloatArray) -> Candidates:
    """Turn design variables (n_candidates, n_design) into motions that keep every joint's limits.

    Each joint's swing is divided by the largest share of a limit it takes, if that is more than 1; then its centre
    is moved until the range holds.
    """
    raw = coefficients(problem, X)
    with np.errstate(invalid="ignore", divide="ignore"):
        swing_q = raw.swing @ problem.basis[0]
        high, low = np.maximum(swing_q.max(axis=2), 0.0), np.minimum(swing_q.min(axis=2), 0.0)
        width = problem.position[:, 1] - problem.position[:, 0]
        excess = np.maximum(1.0, (high - low) / width)
        for rate, basis in zip(problem.rates, problem.basis[1:], strict=True):
            excess = np.maximum(excess, np.abs(raw.swing @ basis).max(axis=2) / rate)
    swing = raw.swing / excess[:, :, None]
    center = np.clip(raw.center, problem.position[:, 0] - low / excess, problem.position[:, 1] - high / excess)
    return Candidates(np.where(problem.excitation.moving, center, raw.center), swing)


def coefficients(problem: Problem, X: FloatArray) -> Candidates:
    """Scale design variables to coefficients, whatever limits they break."""
    moving = problem.excitation.moving
    n_moving, n_waves = int(moving.sum()), problem.amplitude.shape[1]
    free = np.isnan(problem.pose)
    middle, half = problem.position.mean(axis=1), 0.5 * np.ptp(problem.position, axis=1)
    center = np.tile(np.where(free, 0.0, problem.pose), (len(X), 1))
    center[:, moving] = middle[moving] + half[moving] * X[:, :n_moving]
    center[:, free] = middle[free] + half[free] * np.clip(X[:, n_moving * (1 + n_waves) :], -1.0, 1.0)
    swing = np.zeros((len(X), moving.size, n_waves))
    swing[:, moving] = X[:, n_moving : n_moving * (1 + n_waves)].reshape(len(X), n_moving, n_waves)
    return Candidates(center, swing * problem.amplitude)


def encode(problem: Problem, candidates: Candidates) -> FloatArray:
    """Turn coefficients back into design variables, (n_candidates, n_design)."""
    moving, free = problem.excitation.moving, np.isnan(problem.pose)
    middle, half = problem.position.mean(axis=1), 0.5 * np.ptp(problem.position, axis=1)
    place = (candidates.center - middle) / half
    waves_of = candidates.swing[:, moving] / problem.amplitude[moving]
    return np.concatenate([place[:, moving], waves_of.reshape(len(place), -1), place[:, free]], axis=1)


def evaluate(problem: Problem, candidates: Candidates) -> Evaluation:
    """Evaluate criterion and constraints of a population."""
    q, dq, ddq = motions(problem, candidates)
    G = problem.earlier + problem.share * problem.model.grams(q, dq, ddq, problem.n_period)
    return Evaluation(values(problem.criterion, G), constraint_values(problem, candidates, q, dq, ddq))


def motions(problem: Problem, candidates: Candidates) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sample a population: the period, then the ramps; each (n_candidates, n_joints, n_samples)."""
    q = candidates.swing @ problem.basis[0] + candidates.center[:, :, None]
    return q, candidates.swing @ problem.basis[1], candidates.swing @ problem.basis[2]


def constraint_values(
    problem: Problem, candidates: Candidates, q: FloatArray, dq: FloatArray, ddq: FloatArray
) -> FloatArray:
    """Evaluate g ≤ 0 of everything that `decode` does not keep by itself, (n_candidates, n_constraints)."""
    constraints = problem.constraints
    parts: list[FloatArray] = []
    peak_limited, rms_limited = _torque_limited(constraints)
    if peak_limited.any() or rms_limited.any():
        peak, square = population_torques(problem.robot, q, dq, ddq, n_mean=problem.n_period)
        with np.errstate(over="ignore", invalid="ignore"):
            parts.append(peak[:, peak_limited] / (SEARCH_SHARE * constraints.limits.torque[peak_limited]) - 1.0)
            rms = np.sqrt(square[:, rms_limited])
            parts.append(rms / (SEARCH_SHARE * constraints.torque_rms[rms_limited]) - 1.0)
    if constraints.scene is not None:
        wanted = required(problem.robot, constraints.scene) + SEARCH_CLEARANCE
        places = np.concatenate([q, *_quiet_places(problem, candidates, q)], axis=2)
        found = population_clearances(problem.robot, constraints.scene, np.ascontiguousarray(places))
        parts.append((wanted - found) / CLEARANCE_SCALE)
    if np.isfinite(constraints.tool_speed):
        speed = population_tool_speeds(problem.robot, q, dq)
        parts.append(speed[:, None] / (SEARCH_SHARE * constraints.tool_speed) - 1.0)
    mechanism = problem.robot.mechanism
    if constraints.singularity > 0.0 and isinstance(mechanism, CanBeSingular):
        least = np.array([mechanism.singularity_distances(one.T).min(axis=0) for one in q])
        parts.append(1.0 - SEARCH_SHARE * least / constraints.singularity)
    return np.concatenate(parts, axis=1) if parts else np.empty((len(q), 0))


def trajectory(problem: Problem, candidates: Candidates, k: int = 0) -> Trajectory:
    """Take one candidate as a trajectory."""
    n = len(problem.excitation.harmonics)
    swing = candidates.swing[k]
    return Trajectory(problem.excitation, candidates.center[k], swing[:, :n], swing[:, n:])


def candidates_of(trajectories: list[Trajectory]) -> Candidates:
    """Take trajectories as a population."""
    return Candidates(
        np.array([t.center for t in trajectories]),
        np.array([np.concatenate([t.sines, t.cosines], axis=1) for t in trajectories]),
    )


def _quiet_places(problem: Problem, candidates: Candidates, q: FloatArray) -> list[FloatArray]:
    """List where else the robot passes: the dry run, and the straight way from home."""
    center = candidates.center[:, :, None]
    dry = center + DRY_RUN * (q[:, :, : problem.n_period : 4] - center)
    if problem.constraints.home is None:
        return [dry]
    home = problem.constraints.home[None, :, None]
    return [dry, home + way_shares(problem) * (center - home)]


def way_shares(problem: Problem) -> FloatArray:
    """Sample the straight way from home: how far along, from 0 (home) to 1 (the start); nothing without a home."""
    return np.linspace(0.0, 1.0, _WAY_SAMPLES) if problem.constraints.home is not None else np.empty(0)


def _basis(excitation: Excitation, n_period: int, order: int) -> FloatArray:
    steady = waves(excitation, period_grid(excitation, n_period), order)
    if excitation.ramp == 0.0:
        return steady
    n_ramp = max(16, round(n_period * excitation.ramp / excitation.period))
    t = np.linspace(0.0, excitation.ramp, n_ramp, endpoint=False)
    entering = ramp_waves(excitation, t, leaving=False, order=order)
    leaving = ramp_waves(excitation, t + excitation.ramp / n_ramp, leaving=True, order=order)
    return np.concatenate([steady, entering, leaving], axis=1)


def _torque_limited(constraints: Constraints) -> tuple[BoolArray, BoolArray]:
    return np.isfinite(constraints.limits.torque), np.isfinite(constraints.torque_rms)


def _names(robot: Robot, constraints: Constraints) -> list[str]:
    peak, rms = _torque_limited(constraints)
    names = [f"torque peak {robot.joint_names[j]}" for j in np.flatnonzero(peak)]
    names += [f"torque rms {robot.joint_names[j]}" for j in np.flatnonzero(rms)]
    if constraints.scene is not None:
        names += [f"clearance: {row}" for row in row_names(robot, constraints.scene)]
    if np.isfinite(constraints.tool_speed):
        names.append("tool speed")
    if constraints.singularity > 0.0 and isinstance(robot.mechanism, CanBeSingular):
        names += [f"singularity: {name}" for name in robot.mechanism.singularity_names]
    return names


def _check_limits(robot: Robot, excitation: Excitation, constraints: Constraints) -> None:
    if excitation.moving.size != robot.n_joints:
        raise ValueError(f"moving has {excitation.moving.size} joints, expected the robot's {robot.n_joints}")
    low, high = constraints.limits.position.T
    for j, name in enumerate(robot.joint_names):
        if not excitation.moving[j]:
            continue
        if not (np.isfinite(low[j]) and np.isfinite(high[j]) and low[j] < high[j]):
            raise ValueError(f"position limits of {name} are {low[j]:g} to {high[j]:g}, expected a finite range")
        rates = (constraints.limits.velocity[j], constraints.limits.acceleration[j], constraints.limits.jerk[j])
        if not min(rates) > 0.0:
            raise ValueError(f"limits of {name} leave no motion: {rates}; each must be positive")
