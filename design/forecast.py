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

from excitor.robots.arrays import BoolArray, FloatArray, finite, one_blas_thread
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
    repeated,
    sigmas,
)
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot, posture

TARGET_RELATIVE_SIGMA = 0.05  # for which the forecast counts periods
ESSENTIAL_CONTRIBUTION = 1.0  # of a row's noise: rms torque above which a parameter is essential
_FEWEST, _MOST, _STEPS = 1e-4, 1e4, 81  # multiples of the planned measuring time that are looked at


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
    prior_information: Information | None = None,
    target: float = TARGET_RELATIVE_SIGMA,
) -> Forecast:
    """Forecast planned runs, joined with earlier information; count the periods for a target relative σ."""
    once = _of_runs(robot, runs, noise)
    total = once if prior_information is None else add([prior_information, once])
    eigen = knowledge(total)
    rows = [rows_of(robot, run.motion, noise, run.period * run.n_periods) for run in runs]
    periods = _all_periods(robot, runs, once, before=prior_information, target=target)
    parameters = _parameters(robot, eigen, column_rms(rows, noise), periods)
    torques = _torques(robot, eigen, rows, task)
    condition = condition_of(rows, np.isfinite(sigmas(eigen)))
    joints = [_joint_check(robot, runs, noise, j, torque) for j, torque in enumerate(torques)]
    judged = eigen.condition if prior_information is not None else condition
    out_of_reach = _out_of_reach(robot, runs, eigen)
    essential = [p for p in parameters if p.essential and p.name not in out_of_reach]
    checks = judge([(p.name, p.relative_inflated, p.stated) for p in essential], judged, joints)
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
    plain: dict[str, Any] = without_infinities(asdict(result))
    return plain


def periods_needed(
    once: Information, target: FloatArray, *, before: Information | None = None, inflated: bool = True
) -> FloatArray:
    """Find how many times as long the runs must measure until σ ≤ target, (n_base,): inf where no time is enough.

    0 where what was known before is enough. With nothing known before, σ falls as 1/√time.
    """
    target = np.maximum(target, 0.0)
    if before is None:
        with np.errstate(divide="ignore", invalid="ignore"):
            times = (sigmas(knowledge(once), inflated=inflated) / target) ** 2
        return np.asarray(np.where(np.isnan(times), np.inf, times))
    grid = np.geomspace(_FEWEST, _MOST, _STEPS)
    table = np.array([sigmas(knowledge(add([before, repeated(once, s)])), inflated=inflated) for s in grid])
    needed = np.full(len(target), np.inf)
    for k, column in enumerate(table.T):
        enough = np.flatnonzero(column <= target[k])
        if enough.size and enough[0] == 0:
            needed[k] = 0.0
        elif enough.size:
            i = int(enough[0])
            ends = np.log(column[i - 1 : i + 1]) if np.isfinite(column[i - 1]) else np.log(column[[i, i]])
            part = 1.0 if ends[0] == ends[1] else (ends[0] - np.log(target[k])) / (ends[0] - ends[1])
            needed[k] = grid[i - 1] * (grid[i] / grid[i - 1]) ** part
    return needed


def _of_runs(robot: Robot, runs: Sequence[PlannedRun], noise: Noise) -> Information:
    if not runs:
        raise ValueError("no run is planned; give at least one")
    return add(information(robot, run.motion, noise, duration=run.period, repeats=float(run.n_periods)) for run in runs)


def _all_periods(
    robot: Robot, runs: Sequence[PlannedRun], once: Information, *, before: Information | None, target: float
) -> tuple[FloatArray, FloatArray]:
    """Count the periods of all runs for a target of relative σ, inflated and white; each a whole number, or inf."""
    required = target * np.abs(base_parameters(robot).values(prior(robot)))
    planned = sum(run.n_periods for run in runs)
    inflated, white = (periods_needed(once, required, before=before, inflated=k) for k in (True, False))
    return np.ceil(planned * inflated * (1.0 - 1e-9)), np.ceil(planned * white * (1.0 - 1e-9))


def _parameters(
    robot: Robot, eigen: Knowledge, column_sizes: FloatArray, periods: tuple[FloatArray, FloatArray]
) -> tuple[ParameterForecast, ...]:
    base = base_parameters(robot)
    values = base.values(prior(robot))
    unknown = ~(robot.known | robot.assumed_zero)
    stated = ~np.any((base.regrouping != 0.0) & unknown, axis=1)
    sigma, inflated = sigmas(eigen), sigmas(eigen, inflated=True)
    contributions = column_sizes * np.abs(values)
    return tuple(
        ParameterForecast(
            name=base.names[k],
            unit=base.units[k],
            value=float(values[k]),
            stated=bool(stated[k]),
            sigma=float(sigma[k]),
            sigma_inflated=float(inflated[k]),
            relative=_ratio(sigma[k], abs(values[k])),
            relative_inflated=_ratio(inflated[k], abs(values[k])),
            contribution=float(contributions[k]),
            essential=bool(contributions[k] > ESSENTIAL_CONTRIBUTION),
            periods=float(periods[0][k]),
            periods_white=float(periods[1][k]),
        )
        for k in range(len(base))
    )


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


def _out_of_reach(robot: Robot, runs: Sequence[PlannedRun], eigen: Knowledge) -> set[str]:
    """Name undetermined parameters that no motion of the moving joints could determine: a choice, not a bad design."""
    still = {
        j: float(runs[0].motion.q[0, j])
        for j in range(robot.n_joints)
        if j not in robot.locked and not any(run.motion.dq[:, j].any() for run in runs)
    }
    if len(still) + len(robot.locked) == robot.n_joints:
        return set(eigen.unidentifiable)
    return set(eigen.unidentifiable).intersection(lost_when_locked(robot, still).lost if still else ())


@dataclass(frozen=True, slots=True)
class JointCheck:
    """Quantities of one joint that the verdict checks."""

    joint: str
    moves: bool
    reversals: float
    torque_size: float  # rms, at least the noise; 0 where the joint has no rows
    torque_error: float


def _joint_check(robot: Robot, runs: Sequence[PlannedRun], noise: Noise, j: int, torque: TorqueForecast) -> JointCheck:
    moving = [run for run in runs if j not in robot.locked and run.motion.dq[:, j].any()]
    dead_zone = noise.per_joint("dead_zone")
    turns = sum(float(reversals(run.motion, dead_zone)[j]) * run.n_periods for run in moving)
    size = max(torque.rms, float(noise.sigma[j])) if torque.rms > 0.0 else 0.0
    return JointCheck(robot.joint_names[j], bool(moving), turns, size, torque.error_inflated)


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0.0 else float("inf")


def without_infinities(value: Any) -> Any:
    """Write None for numbers that are not finite, at any depth of dicts and lists."""
    if isinstance(value, dict):
        return {key: without_infinities(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(entry) for entry in value]
    return finite(value) if isinstance(value, float) else value


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
_LISTED = 5  # names in a sentence


def judge(
    essential: Sequence[tuple[str, float, bool]], condition: float, joints: Sequence[JointCheck]
) -> tuple[Check, ...]:
    """Check essential parameters (name, relative σ, whether the prior states a size), condition and joints."""
    return (_check_parameters(essential), _condition(condition), _reversals(joints), _torque(joints))


def _check_parameters(essential: Sequence[tuple[str, float, bool]]) -> Check:
    judged = [(name, relative) for name, relative, stated in essential if stated]
    worst = max((relative for _, relative in judged), default=0.0)
    bad = sorted((pair for pair in judged if not pair[1] <= RELATIVE_SIGMA), key=lambda pair: -pair[1])
    if not judged:
        text = "no parameter has a prior size that shows above the noise, so none is judged"
    elif bad:
        listed = [f"{name} ({_percent(relative)})" for name, relative in bad]
        text = (
            f"{len(bad)} of {len(judged)} essential parameters would be known worse than {RELATIVE_SIGMA:.0%}: "
            f"{_several(listed)}; measure longer, or move what shows them"
        )
    else:
        text = f"all {len(judged)} essential parameters will be known to {worst:.2%} or better"
    return Check("essential parameters", worst, RELATIVE_SIGMA, not bad, text)


def _condition(condition: float) -> Check:
    holds = condition <= CONDITION
    text = f"the condition number is {condition:.3g}, at most {CONDITION:g} is required"
    return Check("condition", condition, CONDITION, holds, text if holds else f"{text}; search longer or move wider")


def _reversals(joints: Sequence[JointCheck]) -> Check:
    moving = [joint for joint in joints if joint.moves]
    least = min((joint.reversals for joint in moving), default=REVERSALS)
    bad = [joint.joint for joint in moving if joint.reversals < REVERSALS]
    if bad:
        text = (
            f"{_several(bad)} would reverse less than {REVERSALS:g} times, so Coulomb friction and offset look alike; "
            "let each moving joint go back and forth"
        )
    else:
        text = f"every moving joint reverses at least {least:g} times" if moving else "no joint moves"
    return Check("reversals", least, REVERSALS, not bad, text)


def _torque(joints: Sequence[JointCheck]) -> Check:
    ratios = [(joint.joint, joint.torque_error / joint.torque_size) for joint in joints if joint.torque_size > 0.0]
    worst = max((ratio for _, ratio in ratios), default=0.0)
    bad = [f"{name} ({_percent(ratio)})" for name, ratio in ratios if not ratio <= TORQUE_ERROR]
    if bad:
        limit = f"{TORQUE_ERROR:.0%} of the rms torque"
        text = f"the expected torque error exceeds {limit}: {_several(bad)}; measure longer"
    else:
        text = f"the expected torque error is at most {worst:.2%} of a joint's rms torque"
    return Check("torque error", worst, TORQUE_ERROR, not bad, text)


def _percent(value: float) -> str:
    return f"{value:.0%}" if value < float("inf") else "not at all"


def _several(names: Sequence[str]) -> str:
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")


N_SAMPLES = 200  # of the random states that stand for a further run


@dataclass(frozen=True, eq=False, slots=True)
class _Extra:
    """A run that could be added."""

    motion: Motion
    need: str


def advise(robot: Robot, motions: Sequence[Motion], total: Information, noise: Noise) -> tuple[Advice, ...]:
    """List undetermined parameters, each with the smallest further run that was found to determine it.

    Further runs are tried as random states: one joint back and forth, poses held, all joints together.
    """
    advice = []
    left = knowledge(total).unidentifiable
    for extra in _extras(robot, motions):
        if not left:
            break
        gain = information(robot, extra.motion, noise, duration=len(extra.motion) / noise.rate_hz)
        still = set(knowledge(add([total, gain])).unidentifiable)
        closed = tuple(name for name in left if name not in still)
        if closed:
            advice.append(Advice(closed, f"{_all(closed)} {_verb(closed, 'need')} {extra.need}"))
            left = tuple(name for name in left if name in still)
    if left:
        text = f"{_all(left)} stay{'s' if len(left) == 1 else ''} open whatever single run is added; combine several"
        advice.append(Advice(left, text))
    return (*advice, *_by_nature(robot))


def _extras(robot: Robot, motions: Sequence[Motion]) -> Iterator[_Extra]:
    free = [i for i in range(robot.n_joints) if i not in robot.locked]
    middle = np.mean([motion.q.mean(axis=0) for motion in motions], axis=0)
    speeds = np.max([np.abs(motion.dq).max(axis=0) for motion in motions], axis=0)
    for i in sorted(free, key=lambda i: bool(speeds[i])):
        held = {k: float(robot.locked.get(k, middle[k])) for k in range(robot.n_joints) if k != i}
        name = robot.joint_names[i]
        need = f"joint {name} to move back and forth, which it does in no run"
        if speeds[i]:
            need = f"joint {name} to reverse, in a run of its own or more widely in those planned"
        yield _Extra(random_motion(robot, N_SAMPLES, held), need)
    anywhere = random_motion(robot, N_SAMPLES, robot.locked)
    yield _Extra(posture(anywhere.q), "poses held in the whole workspace, for they show in gravity")
    still = [robot.joint_names[i] for i in free if not speeds[i]]
    together = "a run in which all joints move together and widely"
    if still:
        together = f"a run in which {_all(still)} {_verb(still, 'move')} together with the others"
    yield _Extra(anywhere, together)


def _by_nature(robot: Robot) -> tuple[Advice, ...]:
    """List parameters that no run of this robot can determine."""
    base, advice = base_parameters(robot), []
    if base.without_effect:
        names = base.without_effect
        advice.append(Advice(names, f"{_all(names)} never: no motion of this robot shows {_them(names)}"))
    if base.only_combined:
        names = base.only_combined
        text = f"{_all(names)} only as {_parts(names)} of base parameters: the rest is up to the consistent prior"
        advice.append(Advice(names, text))
    if robot.payload is not None:
        own = layout(robot).names[layout(robot).link(robot.payload.link)]
        what = "the stated load's uncertainty" if robot.payload.covariance.any() else "the payload"
        where = f"{what} is part of link {robot.payload.link + 1}'s parameters"
        advice.append(Advice(own, f"{where}; a pair of runs, with it and without, separates the two"))
    return tuple(advice)


def _all(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _parts(names: Sequence[str]) -> str:
    return "a part" if len(names) == 1 else "parts"
