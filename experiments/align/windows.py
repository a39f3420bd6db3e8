"""Usable windows of an aligned log: periods, stops and cruises, on an even grid, torques in time with motion.

Series are averaged to one mean period. Periods that still settle or were disturbed are excluded; drift of friction is
reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.experiments.align.clock import in_order
from excitor.experiments.align.nouns import Alignment, Check, ExpectedMotion, MeasuredRun, Misalignment
from excitor.identify.periods import Average, average, periodic_lowpass
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import block_means, differentiate, lowpass
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.robot import Motion

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
    """Usable part of an aligned log, for identification."""

    windows: tuple[Window, ...]
    period: float  # s of the log; NaN of a run of moves
    samples: int  # of a period, whole; 0 for a run of moves
    rate: float  # Hz of the even grid
    delay: float  # s: torques are taken so much later than the motion
    steps: tuple[Step, ...]

    @property
    def start(self) -> float:
        """Start of the first usable window, s of the log."""
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
        """Average positions and torques; their noise variances follow from the spread across periods."""
        return average(self.q), average(self.tau)


def usable(alignment: Alignment, *, name: str = "the log") -> Usable:
    """Find the usable windows of an aligned log; raise Misaligned where it must not be identified from."""
    wrong = [check for check in alignment.faults if check.level == "unusable"]
    if wrong:
        raise Misalignment(name, wrong)
    rate, steps = _grid(alignment)
    series = alignment.expected.run.series
    if series is not None:
        period = alignment.stretch * series.period
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
    """Interpolate channels (n, n_channels) by cubic splines through their stamps; constant beyond the ends."""
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(t, values)(np.clip(wanted, t[0], t[-1])))


def period_windows(alignment: Alignment) -> tuple[Window, ...]:
    """List the usable periods of a series."""
    series = alignment.expected.run.series
    if series is None:
        return ()
    numbers = range(alignment.first_period, alignment.first_period + alignment.periods)
    edges = [alignment.log_time(series.start + np.array([k, k + 1]) * series.period) for k in numbers]
    return tuple(Window("period", float(a), float(b), k) for (a, b), k in zip(edges, numbers, strict=True))


def move_windows(alignment: Alignment) -> tuple[Window, ...]:
    """List the measured stops, without their ends, and the constant-speed parts of measured moves."""
    found = []
    for kind, start, end, number in planned_windows(alignment.expected):
        begin, stop = (float(x) for x in alignment.log_time(np.array([start, end])))
        found.append(Window(kind, begin, stop, number))
    return tuple(found)


def planned_windows(expected: ExpectedMotion) -> list[tuple[Literal["stop", "cruise"], float, float, int]]:
    """List what the plan measures of a run of moves, s of the plan."""
    found: list[tuple[Literal["stop", "cruise"], float, float, int]] = []
    for number, move in enumerate(expected.run.moves):
        if move.measured:
            edge = min(SETTLE, 0.25 * move.duration) if move.still else move.edge
            if move.duration > 2.0 * edge:
                end = move.start + move.duration - edge
                found.append(("stop" if move.still else "cruise", move.start + edge, end, number))
    return found


def _grid(alignment: Alignment) -> tuple[float, tuple[Step, ...]]:
    """Choose a rate at which a period has a whole number of samples; and list the processing steps."""
    rate = 1.0 / alignment.interval
    series = alignment.expected.run.series
    if series is not None:
        period = alignment.stretch * series.period
        rate = round(period * rate) / period
    settings: dict[str, float | str] = {
        "method": "cubic splines through the time stamps",
        "rate_hz": rate,
        "start_s": alignment.start,
        "stretch": alignment.stretch,
        "torque_delay_s": alignment.delay,
    }
    return rate, (Step("align with the plan", settings),)


HARMONICS = 5  # times the highest planned one: what controllers add to the motion is below
MOST = 4000  # samples of a run of moves that are enough to judge torques by
RAW_HARMONICS = 10  # the same for a motion that deviates from the plan
SMOOTH = 9  # samples over which torques of moves are averaged
BINS = 1500  # of a run, over which torques and tracking errors are averaged


@dataclass(frozen=True, eq=False, slots=True)
class ObservedLog:
    """Motion and torques of an aligned log for checks against the prior model."""

    samples: Samples
    periods: AlignedPeriods | None  # where there are any


@dataclass(frozen=True, eq=False, slots=True)
class TrackingSummary:
    """Planned motion, tracking errors and drive torques, averaged over short times."""

    motion: Motion  # planned, (n, n_joints)
    error: FloatArray  # (n, n_joints), planned less measured
    error_rate: FloatArray
    tau: FloatArray


def followed(alignment: Alignment, run: MeasuredRun, q: FloatArray) -> TrackingSummary:
    """Average the steady part of a run over bins of the plan's time, which reduces noise but keeps features."""
    begin, end = alignment.expected.steady_span
    stretch = alignment.stretch
    width = max((end - begin) / BINS, 2.0 * alignment.interval / stretch)
    u = (run.t - alignment.start) / stretch
    place = np.floor((u - begin) / width).astype(np.int64)
    late = np.floor((u - alignment.delay / stretch - begin) / width).astype(np.int64)
    count = int((end - begin) / width)
    here = np.column_stack([u, alignment.expected.run.at(u) - q])
    (means, first), (tau, second) = _binned(place, here, count), _binned(late, run.tau, count)
    kept = first & second
    u, error = means[kept, 0], means[kept, 1:]
    motion = Motion(*(alignment.expected.run.at(u, order) / stretch**order for order in range(3)))
    rate = np.gradient(error, u * stretch, axis=0) if len(u) > 2 else np.zeros_like(error)
    return TrackingSummary(motion, error, rate, tau[kept])


def _binned(place: IntArray, values: FloatArray, count: int) -> tuple[FloatArray, BoolArray]:
    """Average rows by their bin; also which bins have any."""
    inside = (place >= 0) & (place < count)
    n = np.bincount(place[inside], minlength=count)
    sums = [np.bincount(place[inside], column[inside], count) for column in values.T]
    return np.column_stack(sums) / np.maximum(n, 1)[:, None], n > 0


def seen(alignment: Alignment, run: MeasuredRun, q: FloatArray) -> ObservedLog:
    """Average a series over its periods; of moves, take the planned motion and torques as logged."""
    if alignment.expected.run.series is not None:
        periods = aligned_samples(alignment, run, q=q)
        return ObservedLog(mean_samples(alignment, periods), periods)
    t = np.linspace(*alignment.expected.moving_span, MOST + 2)[1:-1]
    stretch = alignment.stretch
    motion = Motion(*(alignment.expected.run.at(t, order) / stretch**order for order in range(3)))
    kernel = np.ones(SMOOTH) / SMOOTH
    smooth = np.column_stack([np.convolve(column, kernel, mode="same") for column in run.tau.T])
    tau = resampled(run.t, smooth, alignment.log_time(t) + alignment.delay)
    return ObservedLog(Samples(alignment.expected.program, motion, tau, 1.0 / float((t[1] - t[0]) * stretch)), None)


def raw_samples(alignment: Alignment, run: MeasuredRun, q: FloatArray) -> Samples:
    """Resample the measured motion as logged, if it does not repeat; all channels filtered alike, without delay."""
    begin, end = alignment.log_time(np.array(alignment.expected.steady_span))
    rate = 1.0 / alignment.interval
    grid = np.arange(max(begin, run.t[0]), min(end, run.t[-1]), 1.0 / rate)
    series = alignment.expected.run.series
    top = 5.0 if series is None else RAW_HARMONICS * series.harmonics[-1] / series.period
    cutoff = min(top / alignment.stretch, 0.2 * rate)
    smooth, tau = (lowpass(resampled(run.t, x, grid), sample_rate_hz=rate, cutoff_hz=cutoff) for x in (q, run.tau))
    dq = differentiate(smooth, sample_rate_hz=rate)
    motion = Motion(smooth, dq, differentiate(dq, sample_rate_hz=rate))
    edge = round(rate / cutoff)
    return Samples(alignment.expected.program, motion[edge:-edge], tau[edge:-edge], rate)


def mean_samples(alignment: Alignment, periods: AlignedPeriods) -> Samples:
    """Average periods, and differentiate below a few times the highest planned harmonic."""
    series = alignment.expected.run.periodic
    q, tau = periods.q.mean(axis=0), periods.tau.mean(axis=0)
    highest = HARMONICS * series.harmonics[-1] / (alignment.stretch * series.period)
    motion = periodic_lowpass(q, sample_rate_hz=periods.rate, cutoff_hz=min(highest, 0.4 * periods.rate))
    variance = np.broadcast_to(average(periods.tau).noise_variance, tau.shape) if len(periods.tau) > 1 else None
    return Samples(alignment.expected.program, motion, tau, periods.rate, variance=variance)


def thinned(samples: Samples, most: int) -> Samples:
    """Average samples in blocks, so that about so many are left."""
    width = max(1, len(samples) // most)
    motion = Motion(*(block_means(x, width) for x in (samples.motion.q, samples.motion.dq, samples.motion.ddq)))
    return Samples(samples.run, motion, block_means(samples.tau, width), samples.sample_rate_hz / width)


APART = 5.0  # times the usual distance between periods
NEGLIGIBLE = 0.01  # of a channel's motion or torque: periods that differ less are alike
DRIFT = 0.1  # of a joint's torque (rms) that its friction may change by, from the first period to the last
SLOW = 0.1  # of a joint's highest speed, below which friction is not checked


@dataclass(frozen=True, slots=True)
class UsablePeriods:
    """Usable periods in a row, counted among those given."""

    first: int
    count: int


def repeating(periods: AlignedPeriods, planned: int) -> tuple[UsablePeriods, list[Check]]:
    """Find the longest row of periods that are like their median; report how many are left out."""
    far = np.maximum(_distance(periods.q), _distance(periods.tau))
    alike = far <= 1.0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], alike, [False]]).astype(np.int8)))
    kept = UsablePeriods(0, 0)
    for a, b in edges.reshape(-1, 2):
        if b - a > kept.count:
            kept = UsablePeriods(int(a), int(b - a))
    lost = planned - kept.count
    holds = lost <= max(1, planned // 3)
    sentence = f"{kept.count} of {planned} measured periods repeat each other"
    remedy = "look for what disturbed the run, and warm up longer"
    check = Check("usable periods", float(kept.count), "1", 0.0, holds, sentence, "", "doubtful", "transients", remedy)
    return kept, [check]


def check_friction_drift(expected: ExpectedMotion, periods: AlignedPeriods) -> list[Check]:
    """Check the trend of friction over periods: of the torque that follows the sign of the speed."""
    if len(periods.tau) < 3:
        return []
    mean_q = periods.q.mean(axis=0)
    dq = np.gradient(mean_q, axis=0) * periods.rate
    checks = []
    for j in np.flatnonzero(expected.moving()):
        fast = np.abs(dq[:, j]) > SLOW * np.abs(dq[:, j]).max()
        s = np.where(fast, np.sign(dq[:, j]), 0.0)
        s = s - s.mean()
        if not s.any():
            continue
        parts = periods.tau[:, :, j] @ s / float(s @ s)
        k = np.arange(len(parts)) - 0.5 * (len(parts) - 1)
        slope = float(k @ parts / (k @ k))
        size = float(np.sqrt(np.mean(periods.tau[:, :, j] ** 2))) or 1.0
        share = slope * (len(parts) - 1) / size
        holds = abs(share) <= DRIFT or not _trend(k, parts)
        name = expected.run.joints[j]
        sentence = (
            f"friction of joint {name} changes by {100 * share:.3g} % of its torque (rms) from the first measured "
            "period to the last"
        )
        remedy = "warm the robot up longer before it is measured"
        checks.append(Check("friction drift", share, "1", DRIFT, holds, sentence, name, "note", "warming up", remedy))
    return checks


def _trend(k: FloatArray, parts: FloatArray) -> bool:
    """Return True if a slope is significant against the scatter about it, at a level of 1e-4."""
    from scipy.stats import t as student

    slope = float(k @ parts / (k @ k))
    left, free = parts - parts.mean() - slope * k, len(parts) - 2
    error = float(np.sqrt(left @ left / free / (k @ k)))
    return abs(slope) > error * float(student.ppf(1.0 - 0.5e-4, free))


def _distance(x: FloatArray) -> FloatArray:
    """Compute each period's distance from the median one, relative to the tolerance; the worst channel counts."""
    middle = np.median(x, axis=0)
    rms = np.sqrt(np.mean((x - middle) ** 2, axis=1))
    usual = np.median(rms, axis=0)
    limits = np.maximum(APART * usual, NEGLIGIBLE * middle.std(axis=0) + 1e-12)
    return np.asarray((rms / limits).max(axis=1))
