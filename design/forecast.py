"""Forecast of an experiment before the robot moves: expected σ, torque errors, go or no-go.

Everything follows from the information of the planned runs: F = Σ_runs n_periods W_bᵀ Σ⁻¹ W_b, at the
prior model where a size is needed. Inflated figures scale σ by the residuals of an earlier log. Errors that repeat in
every period are not noise: no number of periods averages them away, and no forecast includes them. Parameters that
stay undetermined are listed with the further run that would determine them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.linalg

from excitor.design.constraints.constraint import listed
from excitor.robots.arrays import BoolArray, FloatArray, one_blas_thread, plain
from excitor.robots.base import base_parameters, lost_when_locked, random_motion
from excitor.robots.belief import Prior, StandardForecast, coordinates, forecast_standard, unknown_friction
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.gram import condition_number
from excitor.robots.information import (
    Information,
    Knowledge,
    Noise,
    add,
    counted,
    deviations,
    information,
    knowledge,
    open_combinations,
    sigmas,
)
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot, posture

TARGET_RELATIVE_SIGMA = 0.05  # for which the forecast counts periods
ESSENTIAL_CONTRIBUTION = 1.0  # of a row's noise: rms torque above which a parameter is essential


@dataclass(frozen=True, eq=False, slots=True)
class PlannedRun:
    """One steady period of a run, evenly sampled, its end left out; or poses held, whose period is their total time."""

    name: str
    motion: Motion
    period: float  # s
    n_periods: int

    def __post_init__(self) -> None:
        if not 0.0 < self.period < np.inf:
            raise ValueError(f"run {self.name!r}: period is {self.period}, expected a positive time in s")
        if int(self.n_periods) != self.n_periods or self.n_periods < 1:
            raise ValueError(f"run {self.name!r}: n_periods is {self.n_periods}, expected a whole number from 1")
        if not len(self.motion):
            raise ValueError(f"run {self.name!r}: motion has no samples, expected one period")


@dataclass(frozen=True, slots=True)
class ParameterForecast:
    """Expected uncertainty of one base parameter; inf where it stays undetermined or has no prior size."""

    name: str
    unit: str
    value: float  # of the prior model
    stated: bool  # whether the prior model knows it
    sigma: float  # expected standard deviation, rows white
    sigma_inflated: float  # the same with the inflation of earlier data
    relative: float  # sigma / |value|
    relative_inflated: float
    contribution: float  # largest rms torque on a joint, in standard deviations of its noise
    essential: bool  # contribution above the noise
    periods: float  # of all runs together, in their proportion, for the target's relative σ, inflated; inf: never
    periods_white: float


@dataclass(frozen=True, slots=True)
class TorqueForecast:
    """Expected error of one joint's predicted torque, rms, N m or N; inf where it depends on what stays open."""

    joint: str
    rms: float  # of the prior model's torque in the runs' rows, 0 where the joint has none
    error: float  # in the runs' rows, by parameters alone, rows white
    error_inflated: float
    task_rms: float | None  # in the task, if one was given
    task_error: float | None
    task_error_inflated: float | None


@dataclass(frozen=True, slots=True)
class Check:
    """One reason to go, or not to."""

    name: str
    value: float  # the worst
    limit: float
    holds: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Parameters that stay undetermined, or share their column with others, and the remedy."""

    names: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected results of the planned runs of a robot."""

    robot: str
    noise: str  # where it comes from
    duration: float  # s, measured periods of all runs
    n_periods: int
    target: float  # relative σ that periods are counted for
    parameters: tuple[ParameterForecast, ...]
    standard: tuple[StandardForecast, ...]
    torques: tuple[TorqueForecast, ...]
    condition: float  # of the runs' unweighted column-normalised matrix, identifiable columns
    condition_weighted: float  # the same weighted by the noise, with what was known before
    unidentifiable: tuple[str, ...]
    open_combinations: tuple[str, ...]  # directions along which no torque changes
    advice: tuple[Advice, ...]
    checks: tuple[Check, ...]
    go: bool


@one_blas_thread()
def forecast(
    robot: Robot,
    runs: Sequence[PlannedRun],
    noise: Noise,
    *,
    task: Motion | None = None,
    target: float = TARGET_RELATIVE_SIGMA,
) -> Forecast:
    """Forecast planned runs; count the periods for a target relative σ."""
    if not runs:
        raise ValueError("no run is planned; give at least one")
    total = add(
        information(robot, run.motion, noise, duration=run.period, repeats=float(run.n_periods)) for run in runs
    )
    eigen = knowledge(total)
    rows = [rows_of(robot, run.motion, noise, run.period * run.n_periods) for run in runs]
    required = target * np.abs(base_parameters(robot).values(prior(robot)))
    times = [periods_needed(total, required, inflated=inflated) for inflated in (True, False)]
    periods = [np.ceil(sum(run.n_periods for run in runs) * longer * (1.0 - 1e-9)) for longer in times]
    parameters = _parameters(robot, eigen, column_rms(rows, noise), periods)
    torques = _torques(robot, eigen, rows, task)
    condition = condition_of(rows, np.isfinite(sigmas(eigen)))
    moves: BoolArray = np.array([run.motion.dq.any(axis=0) for run in runs])  # (n_runs, n_joints)
    moves[:, list(robot.locked)] = False
    out_of_reach = _out_of_reach(robot, runs[0].motion.q[0], np.asarray(moves.any(axis=0)), eigen)
    checks = (
        _check_parameters([p for p in parameters if p.essential and p.stated and p.name not in out_of_reach]),
        _condition(condition),
        _reversals(robot, runs, noise, moves),
        _torque(torques, noise),
    )
    believed = coordinates(robot, Prior(), torque_sizes(robot, rows, noise), level=None)
    return Forecast(
        robot=robot.name,
        noise=noise.source,
        duration=float(sum(run.period * run.n_periods for run in runs)),
        n_periods=sum(run.n_periods for run in runs),
        target=target,
        parameters=parameters,
        standard=forecast_standard(robot, total, believed),
        torques=torques,
        condition=condition,
        condition_weighted=eigen.condition,
        unidentifiable=eigen.unidentifiable,
        open_combinations=open_combinations(eigen),
        advice=advise(robot, [run.motion for run in runs], total, noise),
        checks=checks,
        go=all(check.holds for check in checks),
    )


def forecast_data(result: Forecast) -> dict[str, Any]:
    """Write a forecast as plain data for JSON, which has no infinity: null."""
    data: dict[str, Any] = plain(asdict(result))
    return data


def periods_needed(once: Information, target: FloatArray, *, inflated: bool = True) -> FloatArray:
    """Find how many times as long the runs must measure until σ ≤ target, (n_base,): inf where no time is enough.

    σ falls as 1/√time.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        times = (sigmas(knowledge(once), inflated=inflated) / np.maximum(target, 0.0)) ** 2
    return np.asarray(np.where(np.isnan(times), np.inf, times))


def _parameters(
    robot: Robot, eigen: Knowledge, column_sizes: FloatArray, periods: Sequence[FloatArray]
) -> tuple[ParameterForecast, ...]:
    base = base_parameters(robot)
    values = base.values(prior(robot))
    stated = ~np.any((base.regrouping != 0.0) & ~(robot.known | robot.assumed_zero), axis=1)
    deviations = sigmas(eigen), sigmas(eigen, inflated=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = [np.where(values != 0.0, sigma / np.abs(values), np.inf) for sigma in deviations]
    contributions = column_sizes * np.abs(values)
    essential = contributions > ESSENTIAL_CONTRIBUTION
    columns = (values, stated, *deviations, *relative, contributions, essential, *periods)
    rows = zip(base.names, base.units, *(column.tolist() for column in columns), strict=True)
    return tuple(ParameterForecast(*row) for row in rows)


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """The regressor of one run on a grid, which of its rows count, and for how many each."""

    W: FloatArray  # (n_samples, n_joints, n_base)
    tau: FloatArray  # (n_samples, n_joints), of the prior model
    used: BoolArray  # (n_samples, n_joints)
    count: float


def _torques(robot: Robot, eigen: Knowledge, rows: Sequence[Rows], task: Motion | None) -> tuple[TorqueForecast, ...]:
    """Evaluate √mean diag(W C Wᵀ) of each joint."""
    own = torque_errors(eigen, rows)
    there = None
    if task is not None:
        if task.q.shape[1] != robot.n_joints or not len(task):
            raise ValueError(f"task has shape {task.q.shape}, expected samples of the {robot.n_joints} joints")
        there = torque_errors(eigen, [all_rows(robot, task)])
    return tuple(
        TorqueForecast(name, *own[j], *(there[j] if there is not None else (None, None, None)))
        for j, name in enumerate(robot.joint_names)
    )


def _out_of_reach(robot: Robot, q: FloatArray, moving: BoolArray, eigen: Knowledge) -> set[str]:
    """Name undetermined parameters that no motion of the moving joints could determine: a choice, not a bad design."""
    if not moving.any():
        return set(eigen.unidentifiable)
    still = {int(j): float(q[j]) for j in np.flatnonzero(~moving) if j not in robot.locked}
    return set(eigen.unidentifiable).intersection(lost_when_locked(robot, still).lost if still else ())


REVERSAL_DEAD_ZONE = 0.01  # of a joint's largest speed in the run


def rows_of(robot: Robot, motion: Motion, noise: Noise, duration: float) -> Rows:
    """Build the rows of a run that measures for `duration` s in all."""
    rows = all_rows(robot, motion)
    return Rows(rows.W, rows.tau, counted(robot, motion, noise), duration * noise.rate_hz / len(motion))


def all_rows(robot: Robot, motion: Motion) -> Rows:
    """Build the rows of all joints that are not locked, each counted once."""
    W = regressor(robot, motion)[:, :, base_parameters(robot).kept]
    used = np.ones(motion.q.shape, dtype=bool)
    used[:, list(robot.locked)] = False
    return Rows(W, inverse_dynamics(robot, motion), used, 1.0)


def column_rms(rows: Sequence[Rows], noise: Noise) -> FloatArray:
    """Evaluate the largest rms of each column on a joint, divided by the joint's noise, (n_base,)."""
    counts = np.sum([r.count * r.used.sum(axis=0) for r in rows], axis=0)
    mean = _column_squares(rows) / np.where(counts > 0.0, counts, 1.0)[:, None]
    return np.asarray(np.max(np.sqrt(mean) / noise.sigma[:, None], axis=0))


def torque_sizes(robot: Robot, rows: Sequence[Rows], noise: Noise) -> FloatArray:
    """Size of each parameter if it alone caused its joints' torques, (n_params,); 0 where its column vanishes.

    The prior's torques lack friction that no file states: such a joint takes a share of its torque limit at least.
    """
    columns = _column_squares(rows) / noise.sigma[:, None] ** 2
    limit = np.where(np.isfinite(robot.limits.torque) & unknown_friction(robot), robot.limits.torque, 0.0)
    powers = [np.sum(np.maximum(r.tau**2, (FRICTION * limit) ** 2) * r.used, axis=0) for r in rows]
    torques = np.sum([r.count * size for r, size in zip(rows, powers, strict=True)], axis=0) / noise.sigma**2
    visible = columns > 1e-20 * columns.max(initial=0.0)
    size = np.sqrt(torques @ visible / np.where(visible.any(axis=0), np.sum(columns * visible, axis=0), 1.0))
    sizes = np.zeros(len(layout(robot)))
    sizes[base_parameters(robot).kept] = size
    return sizes


def torque_errors(eigen: Knowledge, rows: Sequence[Rows]) -> list[tuple[float, float, float]]:
    """Evaluate rms torque, √mean diag(W C Wᵀ) and the same inflated for each joint; 0 for joints without rows."""
    out = []
    for j in range(rows[0].W.shape[1]):
        parts = [(r.W[r.used[:, j], j], r.tau[r.used[:, j], j], r.count) for r in rows if r.used[:, j].any()]
        n = sum(count * len(tau) for _, tau, count in parts)
        sums = np.zeros(3)
        for W, tau, count in parts:
            errors = [np.sum(deviations(eigen, W, inflated=k) ** 2) for k in (False, True)]
            sums += count * np.array([np.sum(tau**2), *errors])
        mean = np.sqrt(sums / n) if n else sums
        out.append((float(mean[0]), float(mean[1]), float(mean[2])))
    return out


def condition_of(rows: Sequence[Rows], identifiable: BoolArray) -> float:
    """Evaluate the condition of all unweighted rows, identifiable columns divided by their norms, by SVD."""
    if not identifiable.any():
        return float("inf")
    parts = [_triangle(np.sqrt(r.count) * r.W[r.used][:, identifiable]) for r in rows]
    return condition_number(_triangle(np.concatenate(parts)))


def reversals(motion: Motion, dead_zone: FloatArray | float = 0.0) -> FloatArray:
    """Count how often each joint's velocity changes sign in one period, which closes on itself, (n_joints,).

    Speeds within the dead zone, or within REVERSAL_DEAD_ZONE of the joint's largest, have no sign.
    """
    speed = np.abs(motion.dq)
    least = np.maximum(dead_zone, REVERSAL_DEAD_ZONE * speed.max(axis=0))
    counts = np.zeros(motion.dq.shape[1])
    for j in range(len(counts)):
        signs = np.sign(motion.dq[speed[:, j] > least[j], j])
        counts[j] = np.count_nonzero(signs != np.roll(signs, 1))
    return counts


def _column_squares(rows: Sequence[Rows]) -> FloatArray:
    """Sum the squares of each column over a joint's rows, (n_joints, n_base)."""
    return np.asarray(np.sum([r.count * np.sum((r.W * r.used[:, :, None]) ** 2, axis=0) for r in rows], axis=0))


def _triangle(W: FloatArray) -> FloatArray:
    return np.asarray(scipy.linalg.qr(W, mode="r", check_finite=False)[0][: W.shape[1]])


RELATIVE_SIGMA = 0.10  # of an essential parameter, at most, inflated
CONDITION = 30.0  # at most
FRICTION = 0.05  # of a joint's torque limit, where no file states any: few gears have less
REVERSALS = 2.0  # of a moving joint's velocity, at least, over all runs; fewer leave Coulomb friction and offset alike
TORQUE_ERROR = 0.05  # of the joint's rms torque, or of its noise where that is more, at most, inflated


def _check_parameters(essential: Sequence[ParameterForecast]) -> Check:
    relative = {p.name: p.relative_inflated for p in essential}
    worst = max(relative.values(), default=0.0)
    bad = sorted((name for name in relative if not relative[name] <= RELATIVE_SIGMA), key=lambda name: -relative[name])
    if not relative:
        text = "no parameter has a prior size that shows above the noise, so none is judged"
    elif bad:
        text = (
            f"{len(bad)} of {len(relative)} essential parameters would be known worse than {RELATIVE_SIGMA:.0%}: "
            f"{first_of([f'{name} ({_percent(relative[name])})' for name in bad])}; measure longer, or move what shows "
            "them"
        )
    else:
        text = f"all {len(relative)} essential parameters will be known to {worst:.2%} or better"
    return Check("essential parameters", worst, RELATIVE_SIGMA, not bad, text)


def _condition(condition: float) -> Check:
    holds = condition <= CONDITION
    text = f"the condition number is {condition:.3g}, at most {CONDITION:g} is required"
    return Check("condition", condition, CONDITION, holds, text if holds else f"{text}; search longer or move wider")


def _reversals(robot: Robot, runs: Sequence[PlannedRun], noise: Noise, moves: BoolArray) -> Check:
    counts = [run.n_periods * reversals(run.motion, noise.per_joint("dead_zone")) for run in runs]
    turns = (np.array(counts) * moves).sum(axis=0)
    moving = {robot.joint_names[j]: float(turns[j]) for j in np.flatnonzero(moves.any(axis=0))}
    least = min(moving.values(), default=REVERSALS)
    bad = [name for name, n in moving.items() if n < REVERSALS]
    if bad:
        text = (
            f"{first_of(bad)} would reverse less than {REVERSALS:g} times, so Coulomb friction and offset look alike; "
            "let each moving joint go back and forth"
        )
    else:
        text = f"every moving joint reverses at least {least:g} times" if moving else "no joint moves"
    return Check("reversals", least, REVERSALS, not bad, text)


def _torque(torques: Sequence[TorqueForecast], noise: Noise) -> Check:
    sizes = zip(torques, noise.sigma.tolist(), strict=True)
    ratios = {joint.joint: joint.error_inflated / max(joint.rms, sigma) for joint, sigma in sizes if joint.rms > 0.0}
    worst = max(ratios.values(), default=0.0)
    bad = [f"{name} ({_percent(ratio)})" for name, ratio in ratios.items() if not ratio <= TORQUE_ERROR]
    if bad:
        limit = f"{TORQUE_ERROR:.0%} of the rms torque"
        text = f"the expected torque error exceeds {limit}: {first_of(bad)}; measure longer"
    else:
        text = f"the expected torque error is at most {worst:.2%} of a joint's rms torque"
    return Check("torque error", worst, TORQUE_ERROR, not bad, text)


def _percent(value: float) -> str:
    return f"{value:.0%}" if value < float("inf") else "not at all"


def first_of(names: Sequence[str], most: int = 5) -> str:
    """List the first of some names, and count the rest."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


N_SAMPLES = 200  # of the random states that stand for a further run


def advise(robot: Robot, motions: Sequence[Motion], total: Information, noise: Noise) -> tuple[Advice, ...]:
    """List undetermined parameters, each with the smallest further run that was found to determine it.

    Further runs are tried as random states: one joint back and forth, poses held, all joints together.
    """
    advice = []
    left = knowledge(total).unidentifiable
    for motion, need in _extras(robot, motions):
        if not left:
            break
        gain = information(robot, motion, noise, duration=len(motion) / noise.rate_hz)
        still = set(knowledge(add([total, gain])).unidentifiable)
        closed = tuple(name for name in left if name not in still)
        if closed:
            advice.append(Advice(closed, f"{listed(closed)} {_verb(closed, 'need')} {need}"))
            left = tuple(name for name in left if name in still)
    if left:
        text = f"{listed(left)} stay{'s' if len(left) == 1 else ''} open whatever single run is added; combine several"
        advice.append(Advice(left, text))
    return (*advice, *_by_nature(robot))


def _extras(robot: Robot, motions: Sequence[Motion]) -> Iterator[tuple[Motion, str]]:
    """List runs that could be added, each with what it would be."""
    free = [i for i in range(robot.n_joints) if i not in robot.locked]
    middle = np.mean([motion.q.mean(axis=0) for motion in motions], axis=0)
    speeds = np.max([np.abs(motion.dq).max(axis=0) for motion in motions], axis=0)
    for i in sorted(free, key=lambda i: bool(speeds[i])):
        held = {k: float(robot.locked.get(k, middle[k])) for k in range(robot.n_joints) if k != i}
        name = robot.joint_names[i]
        need = f"joint {name} to move back and forth, which it does in no run"
        if speeds[i]:
            need = f"joint {name} to reverse, in a run of its own or more widely in those planned"
        yield random_motion(robot, N_SAMPLES, held), need
    anywhere = random_motion(robot, N_SAMPLES, robot.locked)
    yield posture(anywhere.q), "poses held in the whole workspace, for they show in gravity"
    still = [robot.joint_names[i] for i in free if not speeds[i]]
    together = "a run in which all joints move together and widely"
    if still:
        together = f"a run in which {listed(still)} {_verb(still, 'move')} together with the others"
    yield anywhere, together


def _by_nature(robot: Robot) -> tuple[Advice, ...]:
    """List parameters that no run of this robot can determine."""
    base, advice = base_parameters(robot), []
    if names := base.without_effect:
        shown = "it" if len(names) == 1 else "them"
        advice.append(Advice(names, f"{listed(names)} never: no motion of this robot shows {shown}"))
    if names := base.only_combined:
        parts = "a part" if len(names) == 1 else "parts"
        text = f"{listed(names)} only as {parts} of base parameters: the rest is up to the consistent prior"
        advice.append(Advice(names, text))
    if robot.payload is not None:
        own = layout(robot).names[layout(robot).link(robot.payload.link)]
        what = "the stated load's uncertainty" if robot.payload.covariance.any() else "the payload"
        where = f"{what} is part of link {robot.payload.link + 1}'s parameters"
        advice.append(Advice(own, f"{where}; a pair of runs, with it and without, separates the two"))
    return tuple(advice)


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb
