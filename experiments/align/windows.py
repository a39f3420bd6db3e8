"""What of a log may be identified from? Periods, stops and cruises, on an even grid, torques in time with motion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.align.nouns import Alignment, Expected, MeasuredRun, Misaligned
from excitor.experiments.align.stamps import in_order
from excitor.identify.periods import Average, average
from excitor.identify.samples import Step
from excitor.robots.arrays import FloatArray, freeze

SETTLE = 0.2  # s, or a quarter of it: left out at either end of a stop
LEAST = 3  # samples of a window that counts


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a log that counts, in s of the log."""

    kind: Literal["period", "stop", "cruise"]
    start: float
    end: float
    number: int  # of the measured period, or of the move, from 0


@dataclass(frozen=True, eq=False, slots=True)
class Usable:
    """What identification needs to know of an aligned log."""

    windows: tuple[Window, ...]
    period: float  # s of the log; NaN of a run of moves
    samples: int  # of a period, whole; 0 for a run of moves
    rate: float  # Hz of the even grid
    delay: float  # s: torques are taken so much later than the motion
    steps: tuple[Step, ...]

    @property
    def start(self) -> float:
        """When the first usable window begins, s of the log."""
        return self.windows[0].start

    @property
    def periods(self) -> int:
        """Count whole usable periods."""
        return sum(window.kind == "period" for window in self.windows)


@dataclass(frozen=True, eq=False, slots=True)
class AlignedPeriods:
    """A log's usable periods on an even grid."""

    q: FloatArray  # (n_periods, n, n_joints)
    tau: FloatArray  # (n_periods, n, n_joints)
    rate: float
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        freeze(self, q="n_periods n n_joints", tau="n_periods n n_joints")

    def averages(self) -> tuple[Average, Average]:
        """Average positions and torques; their noise variances are told by the spread across periods."""
        return average(self.q), average(self.tau)


def usable(alignment: Alignment, *, name: str = "the log") -> Usable:
    """Tell what of an aligned log counts; Misaligned where it must not be identified from."""
    wrong = [check for check in alignment.faults if check.level == "unusable"]
    if wrong:
        raise Misaligned(name, wrong)
    rate, steps = _grid(alignment)
    if isinstance(alignment.expected.body, Trajectory):
        period = alignment.stretch * alignment.expected.body.excitation.period
        samples = round(period * rate)
        return Usable(period_windows(alignment), period, samples, rate, alignment.delay, steps)
    return Usable(move_windows(alignment), np.nan, 0, rate, alignment.delay, steps)


def aligned_samples(alignment: Alignment, run: MeasuredRun, *, q: FloatArray | None = None) -> AlignedPeriods:
    """Resample a log's usable periods, through its time stamps alone; `q` in the place of the log's positions."""
    periods = period_windows(alignment)
    if not periods:
        raise ValueError("the log holds no whole measured period; a run of moves has windows instead")
    rate, steps = _grid(alignment)
    run = in_order(run)
    grids = [w.start + (w.end - w.start) * np.arange(n) / n for w in periods if (n := round((w.end - w.start) * rate))]
    t = np.concatenate(grids)
    shape = (len(periods), len(grids[0]), run.q.shape[1])
    positions = resampled(run.t, run.q if q is None else q, t).reshape(shape)
    torques = resampled(run.t, run.tau, t + alignment.delay).reshape(shape)
    return AlignedPeriods(positions, torques, len(grids[0]) / (periods[0].end - periods[0].start), steps)


def aligned_windows(
    windows: Sequence[Window], run: MeasuredRun, *, rate: float, delay: float
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Resample windows of any length: for each its times, positions and torques."""
    run = in_order(run)
    found: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for window in windows:
        t = window.start + np.arange(max(LEAST, int((window.end - window.start) * rate))) / rate
        found.append((t, resampled(run.t, run.q, t), resampled(run.t, run.tau, t + delay)))
    return found


def resampled(t: FloatArray, values: FloatArray, wanted: FloatArray) -> FloatArray:
    """Interpolate channels (n, n_channels) by cubic splines through their stamps; beyond the ends they stand."""
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(t, values)(np.clip(wanted, t[0], t[-1])))


def period_windows(alignment: Alignment) -> tuple[Window, ...]:
    """List the usable periods of a series."""
    body = alignment.expected.body
    if not isinstance(body, Trajectory):
        return ()
    excitation = body.excitation
    first = alignment.expected.steady_span[0] + excitation.warm_up * excitation.period
    numbers = range(alignment.first_period, alignment.first_period + alignment.periods)
    edges = [alignment.log_time(first + np.array([k, k + 1]) * excitation.period) for k in numbers]
    return tuple(Window("period", float(a), float(b), k) for (a, b), k in zip(edges, numbers, strict=True))


def move_windows(alignment: Alignment) -> tuple[Window, ...]:
    """List the measured stops, without their ends, and the measured moves while they cruise."""
    found = []
    for kind, start, end, number in planned_windows(alignment.expected):
        begin, stop = (float(x) for x in alignment.log_time(np.array([start, end])))
        found.append(Window(kind, begin, stop, number))
    return tuple(found)


def planned_windows(expected: Expected) -> list[tuple[Literal["stop", "cruise"], float, float, int]]:
    """List what the plan measures of a run of moves, s of the plan."""
    found: list[tuple[Literal["stop", "cruise"], float, float, int]] = []
    t, pose = 0.0, expected.start
    for number, move in enumerate(expected.moves):
        if move.measured:
            stop = bool(np.array_equal(move.to, pose))
            edge = min(SETTLE, 0.25 * move.duration) if stop else (move.blend or 0.5 * move.duration)
            if move.duration > 2.0 * edge:
                found.append(("stop" if stop else "cruise", t + edge, t + move.duration - edge, number))
        t, pose = t + move.duration, move.to
    return found


def _grid(alignment: Alignment) -> tuple[float, tuple[Step, ...]]:
    """Choose the rate at which a period has a whole number of samples; tell what is done."""
    rate = 1.0 / alignment.interval
    body = alignment.expected.body
    if isinstance(body, Trajectory):
        period = alignment.stretch * body.excitation.period
        rate = round(period * rate) / period
    settings: dict[str, float | str] = {
        "method": "cubic splines through the time stamps",
        "rate_hz": rate,
        "start_s": alignment.start,
        "stretch": alignment.stretch,
        "torque_delay_s": alignment.delay,
    }
    return rate, (Step("align with the plan", settings),)
