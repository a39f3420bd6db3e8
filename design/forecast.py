"""What an experiment will be able to tell, before the robot moves: expected σ, torque errors, go or no-go.

Everything follows from the information of the planned runs: F = Σ_runs n_periods W_bᵀ Σ⁻¹ W_b, at the
prior model where a size is needed. Inflated figures count residuals as those of an earlier log were worth. Errors that
repeat in every period are no noise: no number of periods averages them away, and no forecast knows them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from excitor.design.forecast_advice import Advice, advise
from excitor.design.forecast_rows import (
    Rows,
    all_rows,
    column_rms,
    condition_of,
    reversals,
    rows_of,
    torque_errors,
    torque_sizes,
)
from excitor.design.forecast_verdict import Check, JointCheck, judge
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters, lost_when_locked
from excitor.robots.belief import StandardForecast, belief, forecast_standard
from excitor.robots.information import (
    Information,
    Knowledge,
    Noise,
    add,
    information,
    knowledge,
    open_combinations,
    repeated,
    sigmas,
)
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, Robot

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
    """What will be known of one base parameter; inf where it stays open or has no prior size."""

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
class Forecast:
    """What the planned runs will tell of a robot."""

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
    """Forecast what planned runs will tell, joined with what earlier ones did; periods are counted for a target."""
    once = _of_runs(robot, runs, noise)
    total = once if prior_information is None else add([prior_information, once])
    known = knowledge(total)
    rows = [rows_of(robot, run.motion, noise, run.period * run.n_periods) for run in runs]
    periods = _all_periods(robot, runs, once, before=prior_information, target=target)
    parameters = _parameters(robot, known, column_rms(rows, noise), periods)
    torques = _torques(robot, known, rows, task)
    condition = condition_of(rows, np.isfinite(sigmas(known)))
    joints = [_joint_check(robot, runs, noise, j, torque) for j, torque in enumerate(torques)]
    judged = known.condition if prior_information is not None else condition
    out_of_reach = _out_of_reach(robot, runs, known)
    essential = [p for p in parameters if p.essential and p.name not in out_of_reach]
    checks = judge([(p.name, p.relative_inflated, p.stated) for p in essential], judged, joints)
    return Forecast(
        robot=robot.name,
        noise=noise.source,
        duration=float(sum(run.period * run.n_periods for run in runs)),
        n_periods=sum(run.n_periods for run in runs),
        target=target,
        parameters=parameters,
        standard=forecast_standard(robot, total, belief(robot, torque_sizes(robot, rows, noise))),
        torques=torques,
        condition=condition,
        condition_weighted=known.condition,
        unidentifiable=known.unidentifiable,
        open_combinations=open_combinations(known),
        advice=advise(robot, [run.motion for run in runs], total, noise),
        checks=checks,
        go=all(check.holds for check in checks),
    )


def forecast_data(result: Forecast) -> dict[str, Any]:
    """Write a forecast as plain data for JSON, which has no infinity: null."""
    plain: dict[str, Any] = _finite(asdict(result))
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
    sought = target * np.abs(base_parameters(robot).values(prior(robot)))
    planned = sum(run.n_periods for run in runs)
    inflated, white = (periods_needed(once, sought, before=before, inflated=k) for k in (True, False))
    return np.ceil(planned * inflated * (1.0 - 1e-9)), np.ceil(planned * white * (1.0 - 1e-9))


def _parameters(
    robot: Robot, known: Knowledge, column_sizes: FloatArray, periods: tuple[FloatArray, FloatArray]
) -> tuple[ParameterForecast, ...]:
    base = base_parameters(robot)
    values = base.values(prior(robot))
    unknown = ~(robot.known | robot.assumed_zero)
    stated = ~np.any((base.regrouping != 0.0) & unknown, axis=1)
    sigma, inflated = sigmas(known), sigmas(known, inflated=True)
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


def _torques(robot: Robot, known: Knowledge, rows: Sequence[Rows], task: Motion | None) -> tuple[TorqueForecast, ...]:
    """Evaluate √mean diag(W C Wᵀ) of each joint."""
    own = torque_errors(known, rows)
    there = None
    if task is not None:
        if task.q.shape[1] != robot.n_joints or not len(task):
            raise ValueError(f"task has shape {task.q.shape}, expected samples of the {robot.n_joints} joints")
        there = torque_errors(known, [all_rows(robot, task)])
    return tuple(
        TorqueForecast(name, *own[j], *(there[j] if there is not None else (None, None, None)))
        for j, name in enumerate(robot.joint_names)
    )


def _out_of_reach(robot: Robot, runs: Sequence[PlannedRun], known: Knowledge) -> set[str]:
    """Name open parameters that no motion of the joints that move could determine: chosen so, not badly designed."""
    still = {
        j: float(runs[0].motion.q[0, j])
        for j in range(robot.n_joints)
        if j not in robot.locked and not any(run.motion.dq[:, j].any() for run in runs)
    }
    if len(still) + len(robot.locked) == robot.n_joints:
        return set(known.unidentifiable)
    return set(known.unidentifiable).intersection(lost_when_locked(robot, still).lost if still else ())


def _joint_check(robot: Robot, runs: Sequence[PlannedRun], noise: Noise, j: int, torque: TorqueForecast) -> JointCheck:
    moving = [run for run in runs if j not in robot.locked and run.motion.dq[:, j].any()]
    dead_zone = noise.per_joint("dead_zone")
    turns = sum(float(reversals(run.motion, dead_zone)[j]) * run.n_periods for run in moving)
    size = max(torque.rms, float(noise.sigma[j])) if torque.rms > 0.0 else 0.0
    return JointCheck(robot.joint_names[j], bool(moving), turns, size, torque.error_inflated)


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0.0 else float("inf")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
