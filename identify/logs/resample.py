"""How do channels of different clocks come onto one even grid? By their time stamps, and saying so."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.logs.recording import Clock
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.errors import InvalidLog

EVEN = 0.01  # of an interval: stamps that deviate less are even
LONGEST_GAP = 6.5  # intervals without a sample; a spline bridges fewer
MOST_MISSING = 0.1  # of all samples
_NICE = 1e-4  # s: intervals are rounded to it where that changes them by less than 1 %


@dataclass(frozen=True, eq=False)
class Stamps:
    """A clock that has been checked: which samples count, when they are, and how far apart."""

    name: str
    t: FloatArray
    kept: BoolArray
    interval: float
    missing: int
    even: bool


@dataclass(frozen=True, eq=False)
class Grid:
    """An even time base, and what was done to get there."""

    t: FloatArray
    rate: float
    as_recorded: bool
    notes: tuple[str, ...]


def check_stamps(path: str, name: str, clock: Clock) -> tuple[Stamps, list[str]]:
    """Check a time base: repeated stamps are dropped, time that runs backward and long gaps refused with their row."""
    assert clock.t is not None
    t, rows, notes = clock.t, clock.rows, []
    kept = np.concatenate([[True], np.diff(t) != 0.0]) if len(t) else np.zeros(0, dtype=bool)
    if not kept.all():
        first = rows[int(np.flatnonzero(~kept)[0])]
        told = f"{np.count_nonzero(~kept)} rows repeat the time of the row before (first: row {first})"
        notes.append(f"{name}: {told}; they are left out")
        t, rows = t[kept], rows[kept]
    if len(t) < 3:
        raise InvalidLog(path, f"{name} has {len(t)} samples, expected at least 3")
    step = np.diff(t)
    if (step < 0.0).any():
        k = int(np.argmax(step < 0.0))
        raise InvalidLog(path, f"time runs backward in {name}, from {t[k]:g} to {t[k + 1]:g} s", int(rows[k + 1]))
    interval = float(np.mean(step[step <= 1.5 * np.median(step)]))
    missing = int(np.sum(np.round(step / interval) - 1.0).clip(0))
    longest = int(np.argmax(step))
    if step[longest] > LONGEST_GAP * interval or missing > MOST_MISSING * len(t):
        told = f"{step[longest]:g} s are missing in {name} before this row ({missing} samples in all, the interval is"
        raise InvalidLog(path, f"{told} {interval:g} s); cut the run there, or record it again", int(rows[longest + 1]))
    even_t = t[0] + (t[-1] - t[0]) / (len(t) - 1) * np.arange(len(t))
    even = bool(np.abs(t - even_t).max() <= EVEN * interval)
    if missing:
        notes.append(f"{name}: {missing} samples are missing, up to {round(step[longest] / interval) - 1} in a row")
    if not even and not missing:
        notes.append(f"{name}: steps of time vary from {step.min():.6g} to {step.max():.6g} s")
    return Stamps(name, t, kept, interval, missing, even), notes


def common_grid(path: str, clocks: Sequence[Stamps], rate: float | None) -> Grid:
    """Choose the grid: the stamps themselves where all agree and are even, else the fastest channel's rate."""
    first = clocks[0]
    same = all(len(c.t) == len(first.t) and np.array_equal(c.t, first.t) for c in clocks)
    recorded = (len(first.t) - 1) / float(first.t[-1] - first.t[0])
    if same and first.even and (rate is None or abs(rate / recorded - 1.0) < 1e-6):
        return Grid(first.t, recorded, True, ())
    interval = _nice(min(c.interval for c in clocks)) if rate is None else 1.0 / rate
    start, end = max(c.t[0] for c in clocks), min(c.t[-1] for c in clocks)
    count = int(np.floor((end - start) / interval + 1e-6)) + 1 if end > start else 0
    if count < 3:
        raise InvalidLog(path, f"{' and '.join(c.name for c in clocks)} were not recorded at the same time")
    if count > 100_000_000:
        raise InvalidLog(path, f"would have {count} samples at {1.0 / interval:g} Hz; check its time and its unit")
    rates = sorted({f"{1.0 / c.interval:.6g} Hz" for c in clocks})
    before, after = " and ".join(rates), f"{1.0 / interval:.6g} Hz"
    told = f"recorded at {before}, resampled to {after} by cubic splines through the time stamps"
    return Grid(start + interval * np.arange(count), 1.0 / interval, False, (told,))


def on_grid(stamps: Stamps, values: FloatArray, grid: Grid) -> FloatArray:
    """Bring a channel onto the grid."""
    if grid.as_recorded:
        return values[stamps.kept]
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(stamps.t, values[stamps.kept])(grid.t))


def _nice(interval: float) -> float:
    rounded = round(interval / _NICE) * _NICE
    return rounded if abs(rounded - interval) < 0.01 * interval else interval
