"""Recordings and logs of a robot: signals with a kind and a side on one time base, unprocessed.

A recording holds a file's channels before their meaning is declared, each on a time base of its own. Channels of
different clocks are resampled to one even grid by their time stamps, with a note.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from excitor.identify.logs.declared import SECONDS, Columns, Kind, Side, column_map, scale_matrix, unit_factor
from excitor.identify.samples import Step
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, shaped
from excitor.robots.errors import InvalidLog
from excitor.robots.friction import joint_positions, joint_torques, torque_from_current
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from pandas import DataFrame

Quantity = Literal[  # effort: torque or current, the format does not say which; torque_model: of a controller's own
    "position", "velocity", "acceleration", "torque", "current", "effort", "torque_model", "temperature", "marker",
    "speed_scaling", "time",
]  # fmt: skip
Role = Literal["measured", "reference", "unknown"]
ChannelSide = Literal["joint", "motor", "unknown"]
CURRENT = "current to torque"
MOTORS = "torques to the joint side"
POSITIONS = "positions to the joint side"
UNINITIALISED = 1e100  # numbers beyond were never measured; memory that was not filled looks like this
_GROUPED = re.compile(r"(?P<group>.+?)(?:\[\d+\]|:[^:]*|_?\d+)")
EVEN = 0.01  # of an interval: stamps that deviate less are even
LONGEST_GAP = 6.5  # intervals without a sample; a spline bridges fewer, ...
SHORT_GAP, LONGEST_SHORT = 0.04, 25.5  # ... and s, of so many intervals at most
_TOGETHER = 10  # steps of a jittering clock
COARSE = 0.2  # of all rows: that many repeat the time of the row before, where a clock is coarse
MOST_MISSING = 0.3  # of all samples
_NICE = 1e-4  # s: intervals are rounded to it where that changes them by less than 1 %
_RESOLUTIONS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # s, that stamps may be rounded to
Span = tuple[float, float]  # s from the first stamp on: the part of a log that counts
SPIKE = 1.5  # times the range of a channel, from its neighbours: no joint does that within two samples
_TURNS = (2.0 * np.pi, 360.0)  # of positions in rad or degrees
_MOST_SPIKES = 1e-3  # of all samples: more are no accidents


@dataclass(frozen=True, eq=False, slots=True)
@shaped(values="n_samples n_joints")
class Signal:
    """One quantity of all joints, in SI units, sampled together."""

    kind: Kind
    side: Side
    values: FloatArray  # (n_samples, n_joints)


@dataclass(frozen=True, eq=False, slots=True)
class Clock:
    """Times of samples, s, and the file's rows (or the samples' indices) that they come from."""

    t: FloatArray | None  # (n_samples,); None where the format does not say which channel is the time
    rows: IntArray

    def __post_init__(self) -> None:
        freeze(self, rows="int: n_samples")
        if self.t is not None:
            freeze(self, False, t=str(len(self.rows)))  # a recording refuses what is not finite, with its row

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False, slots=True)
class Channel:
    """One series of numbers in the file's own unit, with what the format itself defines of its meaning, and no more."""

    name: str
    values: FloatArray  # (n_samples,)
    clock: Clock
    kind: Quantity | None = None
    joint: int | str | None = None  # a number, from 0, where the format counts; a name where it names
    role: Role = "unknown"
    side: ChannelSide = "unknown"
    unit: str | None = None
    stem: str = ""  # its name without the joint, where the format says how the two are joined

    def __post_init__(self) -> None:
        freeze(self, False, values=str(len(self.clock)))

    @property
    def t(self) -> FloatArray | None:
        """Times of its samples, s."""
        return self.clock.t

    @property
    def group(self) -> str:
        """Its name without the joint: `q` of `q[3]`, `actual_q` of `actual_q_3`, `effort` of `effort:elbow`."""
        found = _GROUPED.fullmatch(self.name)
        return self.stem or (found["group"] if found else self.name)


@dataclass(frozen=True, eq=False, slots=True)
class Recording:
    """All channels of a file, or of files that belong together, and notes on repairs made in reading.

    InvalidLog refuses two channels of one name, none at all, and numbers that nothing measures, with their row.
    """

    path: str
    format: str
    channels: tuple[Channel, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        if not self.channels:
            raise InvalidLog(self.path, "holds no channels of numbers")
        for channel in self.channels:
            if channel.name in seen:
                raise InvalidLog(self.path, f"has two channels named {channel.name!r}; rename one of them")
            seen.add(channel.name)
            if channel.t is not None:
                check_measured(self.path, f"the time of {channel.name}", channel.t, channel.clock.rows)
            if channel.kind is not None:  # others are judged where a campaign declares what they are
                check_measured(self.path, channel.name, channel.values, channel.clock.rows)

    def channel(self, name: str) -> Channel:
        """Find a channel by its name."""
        for channel in self.channels:
            if channel.name == name:
                return channel
        raise InvalidLog(self.path, f"has no channel {name!r}; {self.listed()}")

    def listed(self) -> str:
        """Name the channels, the first of them where there are many."""
        names = [channel.name for channel in self.channels]
        more = f" and {len(names) - 24} more" if len(names) > 24 else ""
        return f"its channels are {', '.join(names[:24])}{more}" if names else "it has no channels"

    def group(self, name: str) -> list[Channel]:
        """Find the channels of a group, as the file orders them."""
        return [channel for channel in self.channels if channel.group == name and channel.name != name]


@dataclass(frozen=True, eq=False, slots=True)
class Log:
    """Signals on one even time base, and notes on faults and repairs found in reading."""

    path: str
    sample_rate_hz: float
    start_s: float
    signals: tuple[Signal, ...]
    notes: tuple[str, ...] = ()
    raw: Recording | None = None  # what the file held, on its own clocks
    gaps: tuple[tuple[float, float], ...] = ()  # s from its beginning, that lost rows leave: values there are made up
    skipped_s: float = 0.0  # of the file's beginning, which was cut off
    target: str = ""  # controller whose program it is of, where that is known

    @classmethod
    def from_frame(
        cls,
        frame: "DataFrame",
        columns: Mapping[str, Any],
        *,
        sample_rate_hz: float | None = None,
        name: str = "DataFrame",
    ) -> "Log":
        """Read a log from a pandas DataFrame, whose values are copied once.

        `columns`: `{"time": "t", "position": ["q1", ...], "torque": ["tau1", ...]}`, a list one a joint in SI units
        on the joint side, or `{"columns": [...], "unit": "deg", "side": "motor", "scale": 1.0}`. `sample_rate_hz`
        goes where there is no column of time. InvalidLog names the column and the row of what is wrong.
        """
        declared = column_map(columns, sample_rate_hz, name)
        if declared.time is None and sample_rate_hz is None:
            raise InvalidLog(name, 'has no time; name its column, {"time": ...}, or state sample_rate_hz')
        _check_index(frame, name)
        notes: list[str] = []
        rate, start, stamps, grid = sample_rate_hz or 0.0, 0.0, None, None
        if declared.time is not None:
            time = np.empty(len(frame))
            _fill(time, frame, declared.time, name)
            time *= SECONDS[declared.time_unit]
            stamps, notes = check_stamps(name, str(declared.time), Clock(time, np.arange(len(frame))))
            grid = common_grid(name, [stamps], sample_rate_hz)
            rate, start, notes = grid.rate, float(grid.t[0]), [*notes, *grid.notes]
        widths = {entry.kind: len(entry.columns) for entry in declared.signals}
        if len(set(widths.values())) > 1:
            sentence = ", ".join(f"{count} of {kind}" for kind, count in widths.items())
            raise InvalidLog(name, f"has columns of different numbers of joints ({sentence}); name one a joint in each")
        signals = tuple(_signal(frame, entry, name, stamps, grid) for entry in declared.signals)
        return cls(name, rate, start, signals, tuple(notes))

    @classmethod
    def from_arrays(cls, q: FloatArray, tau: FloatArray, *, sample_rate_hz: float, name: str = "arrays") -> "Log":
        """Make a log of joint positions and torques, (n_samples, n_joints) in SI units, sampled evenly."""
        if np.ndim(q) != 2 or len(q) < 3:
            raise InvalidLog(name, f"q has shape {np.shape(q)}, expected 3 samples or more, one column a joint")
        if not 0.0 < sample_rate_hz < np.inf:
            raise InvalidLog(name, f"sample_rate_hz is {sample_rate_hz}, expected a positive frequency")
        for kind, values in (("position", q), ("torque", tau)):
            if np.shape(values) != np.shape(q):
                raise InvalidLog(name, f"{kind} has shape {np.shape(values)}, expected {np.shape(q)} as the positions")
            bad = np.argwhere(~np.isfinite(np.asarray(values, dtype=float)))
            if len(bad):
                row, joint = (int(k) for k in bad[0])
                raise InvalidLog(name, f"{kind} of joint {joint + 1} is {np.asarray(values)[row, joint]}; cut it", row)
        signals = (Signal("position", "joint", np.asarray(q)), Signal("torque", "joint", np.asarray(tau)))
        return cls(name, sample_rate_hz, 0.0, signals)

    def __len__(self) -> int:
        return len(self.signals[0].values) if self.signals else 0

    def __repr__(self) -> str:
        held = ", ".join(f"{signal.kind} ({signal.values.shape[1]} joints)" for signal in self.signals)
        return f"<Log {self.path}: {len(self)} samples at {self.sample_rate_hz:g} Hz; {held}>"

    def to_frame(self) -> "DataFrame":
        """Write time and signals as a pandas DataFrame, a column a joint, in SI units."""
        import pandas as pd

        held: dict[str, FloatArray] = {"time": self.start_s + np.arange(len(self)) / self.sample_rate_hz}
        for signal in self.signals:
            held |= {f"{signal.kind}_{j + 1}": signal.values[:, j] for j in range(signal.values.shape[1])}
        return pd.DataFrame(held)

    def signal(self, *kinds: Kind) -> Signal | None:
        """Find the first signal of one of these kinds, in the order given."""
        return next((signal for kind in kinds for signal in self.signals if signal.kind == kind), None)


@dataclass(frozen=True, eq=False, slots=True)
class MeasuredSignals:
    """Positions and torques on the joint side, and the processing steps applied."""

    q: FloatArray
    tau: FloatArray
    sample_rate_hz: float
    steps: tuple[Step, ...]
    dq: FloatArray | None = None  # measured velocities, where the log has them
    gaps: tuple[tuple[float, float], ...] = ()  # s from the file's beginning, that lost rows leave
    start: float = 0.0  # s from the file's beginning, of the first sample


def joint_side(robot: Robot, log: Log) -> MeasuredSignals:
    """Convert positions and torques to the joint side: q = N⁻¹ q_motor, τ = Nᵀ τ_motor, currents through their law."""
    position = log.signal("position")
    effort = log.signal("torque", "current")
    for what, signal in (("positions", position), ("torques or currents", effort)):
        if signal is None:
            raise InvalidLog(log.path, f"has no {what}; declare their columns in the column map")
        if signal.values.shape[1] != robot.n_joints:
            count = signal.values.shape[1]
            raise InvalidLog(log.path, f"has {what} of {count} joints, expected the {robot.n_joints} of {robot.name}")
    assert position is not None
    assert effort is not None
    steps = [Step("read", {"file": log.path, "notes": "; ".join(log.notes)})]
    q, tau = position.values, effort.values
    if position.side == "motor":
        q = joint_positions(robot, q)
        steps.append(Step(POSITIONS, {}))
    if effort.kind == "current":
        try:
            tau = torque_from_current(robot, tau)
        except ValueError as error:
            raise InvalidLog(log.path, str(error)) from None
        steps.append(Step(CURRENT, {}))
    if effort.side == "motor" or effort.kind == "current":
        tau = joint_torques(robot, tau)
        steps.append(Step(MOTORS, {}))
    return MeasuredSignals(q, tau, log.sample_rate_hz, tuple(steps), _velocities(robot, log), log.gaps, log.skipped_s)


def _velocities(robot: Robot, log: Log) -> FloatArray | None:
    """Convert measured velocities to the joint side; None where the log has none of all joints."""
    velocity = log.signal("velocity")
    if velocity is None or velocity.values.shape[1] != robot.n_joints:
        return None
    if velocity.side == "joint":
        return velocity.values
    return np.asarray(joint_positions(robot, velocity.values) - joint_positions(robot, 0.0 * velocity.values[:1]))


def check_measured(path: object, name: str, values: FloatArray, rows: IntArray) -> None:
    """Refuse values that are no measurements: not a number, infinite, or left over in uninitialised memory."""
    bad = np.flatnonzero(~(np.abs(values) < UNINITIALISED))
    if bad.size:
        more = f" ({bad.size} such rows)" if bad.size > 1 else ""
        k = int(bad[0])
        raise InvalidLog(str(path), f"{name} is {values[k]:g}, which nothing measures{more}; cut it", int(rows[k]))


@dataclass(frozen=True, eq=False)
class Stamps:
    """A checked clock: the samples kept, their times, and their interval."""

    name: str
    t: FloatArray
    kept: BoolArray
    interval: float
    missing: int
    even: bool
    gaps: tuple[Span, ...] = ()  # too long to be bridged, on the clock
    skipped: float = 0.0  # s that were cut off in front


@dataclass(frozen=True, eq=False)
class Grid:
    """An even time base, and notes on how it was built."""

    t: FloatArray
    rate: float
    as_recorded: bool
    notes: tuple[str, ...]


def check_stamps(
    path: str, name: str, clock: Clock, span: Span | None = None, values: FloatArray | None = None
) -> tuple[Stamps, list[str]]:
    """Check a time base: repeated stamps are dropped, time that runs backward and long gaps refused with their row.

    With a span, faults outside of it do not count, and long gaps within it are listed instead of refused. `values` that
    change while stamps repeat show that the clock is coarse; an even rate is taken then.
    """
    assert clock.t is not None
    t, coarse = _between_ticks(clock.t, values)
    rows, notes = clock.rows, [f"{name}: {coarse}"] if coarse else []
    kept = np.concatenate([[True], np.diff(t) != 0.0]) if len(t) else np.zeros(0, dtype=bool)
    if not kept.all():
        first = rows[int(np.flatnonzero(~kept)[0])]
        sentence = f"{np.count_nonzero(~kept)} rows repeat the time of the row before (first: row {first})"
        notes.append(f"{name}: {sentence}; they are left out")
    _check_count(path, name, int(np.count_nonzero(kept)))
    whole = np.diff(t[kept])
    longest = _longest(whole[whole > 0.0])
    part = slice(None) if span is None else _between_faults(t[kept], (whole < 0.0) | (whole > longest), span)
    chosen = np.flatnonzero(kept)[part]
    skipped, t, rows = float(t[chosen[0]] - t[0]) if len(chosen) else 0.0, t[chosen], rows[chosen]
    _check_count(path, name, len(t))
    if len(chosen) < np.count_nonzero(kept):
        notes.append(f"{name}: rows {rows[0]} to {rows[-1]} are used; time has gaps or runs backward beyond them")
    kept = np.zeros(len(kept), dtype=bool)
    kept[chosen] = True
    step = np.diff(t)
    if (step < 0.0).any():
        k = int(np.argmax(step < 0.0))
        sentence = f"time runs backward in {name}, from {t[k]:g} to {t[k + 1]:g} s"
        row = int(rows[k + 1])
        raise InvalidLog(path, f"{sentence}; let the run end before it, or begin after it: to_s, from_s", row)
    interval, long = _interval(step), np.flatnonzero(step > longest)
    near = step[step <= longest]
    missing = max(0, round(float(near.sum()) / interval) - len(near))
    if (long.size and span is None) or missing > MOST_MISSING * len(t):
        k, lost = int(np.argmax(step)), missing + int(np.sum(np.round(step[long] / interval) - 1.0))
        sentence = f"{step[k]:g} s are missing in {name} before this row ({lost} samples in all, the interval is"
        remedy = "cut the run there, or record it again, or state a lower sample_rate_hz"
        raise InvalidLog(path, f"{sentence} {interval:g} s); {remedy}", int(rows[k + 1]))
    notes += [f"{name}: {what}" for what in _lost(step, rows, interval, longest, missing)]
    even, remark = _evenness(t, interval, bool(missing or long.size))
    notes += [f"{name}: {remark}"] if remark else []
    gaps = tuple((float(t[k]), float(t[k + 1])) for k in long)
    return Stamps(name, t, kept, interval, missing, even, gaps, skipped), notes


def _between_ticks(t: FloatArray, values: FloatArray | None) -> tuple[FloatArray, str]:
    """Place rows evenly between the ticks of a clock that is coarser than their interval, and say so."""
    step = np.diff(t)
    same = step == 0.0
    if values is None or len(t) < 10 or same.mean() < COARSE or (step < 0.0).any() or same.all():
        return t, ""
    changed = (np.diff(values.reshape(len(t), -1), axis=0) != 0.0).any(axis=1)
    if changed[same].mean() < 0.5 * changed[~same].mean():
        return t, ""  # rows that were written twice
    k = np.arange(len(t)) - 0.5 * (len(t) - 1)
    line = t.mean() + k * float(k @ (t - t.mean()) / (k @ k))
    if np.ptp(t - line) > 2.2 * float(np.median(step[~same])):
        return t, ""
    each = len(t) / (1 + np.count_nonzero(step))
    return line, f"about {each:.2g} rows share a stamp of this coarse clock; an even rate is taken"


def _check_count(path: str, name: str, count: int) -> None:
    if count < 3:
        raise InvalidLog(path, f"{name} has {count} samples, expected at least 3")


def _longest(step: FloatArray) -> float:
    """Compute the longest step of time that is bridged."""
    interval = _interval(step) if len(step) else 0.0
    return max(LONGEST_GAP * interval, min(SHORT_GAP, LONGEST_SHORT * interval))


def _interval(step: FloatArray) -> float:
    """Estimate the interval of samples without lost rows: the mean step; of ten steps together if they jitter."""
    usual = step[step <= 1.5 * np.median(step)]
    if step.max() <= 1.8 * np.median(step):
        return float(step.mean())
    if len(step) < 4 * _TOGETHER or usual.std() <= 0.1 * usual.mean():
        return float(usual.mean())
    total = np.cumsum(np.concatenate([[0.0], step]))
    return float(np.median(total[_TOGETHER:] - total[:-_TOGETHER])) / _TOGETHER


def _between_faults(t: FloatArray, fault: BoolArray, span: Span) -> slice:
    """Leave out what lies beyond the last fault before a span, and beyond the first one after it."""
    since, at = t - t[0], np.flatnonzero(fault)
    before = at[since[at + 1] <= span[0] + 1e-9]
    begin = int(before[-1]) + 1 if before.size else 0
    after = at[(at >= begin) & (since[at] >= span[1] - 1e-9)]
    return slice(begin, int(after[0]) + 1 if after.size else None)


def _lost(step: FloatArray, rows: IntArray, interval: float, longest: float, missing: int) -> list[str]:
    """Describe gaps, and samples that were bridged."""
    long, notes = np.flatnonzero(step > longest), []
    if long.size:
        sentence = f"{long.size} gaps of up to {step[long].max():.3g} s (first: before row {rows[long[0] + 1]})"
        notes.append(f"{sentence} are too long to be bridged: the run is cut there")
    if missing:
        most = round(float(step[step <= longest].max()) / interval) - 1
        notes.append(f"{missing} samples are missing, up to {most} in a row; bridged")
    return notes


def _evenness(t: FloatArray, interval: float, lost: bool) -> tuple[bool, str]:
    """Find whether stamps are even, be it but for their rounding, and describe how they vary."""
    even_t = t[0] + (t[-1] - t[0]) / (len(t) - 1) * np.arange(len(t))
    if np.abs(t - even_t).max() <= EVEN * interval:
        return True, ""
    if lost:
        return False, ""
    step, k = np.diff(t), np.arange(len(t)) - 0.5 * (len(t) - 1)
    left = t - t.mean() - k * (k @ (t - t.mean()) / (k @ k))
    for unit in _RESOLUTIONS:
        if unit > EVEN * interval and np.abs(t / unit - np.rint(t / unit)).max() < 1e-3:
            slips = abs(interval / unit - np.rint(interval / unit)) * len(t) >= 1.0  # else rounding would not show
            if slips and np.ptp(left) <= 1.1 * unit:
                return True, f"stamps are those of an even clock, rounded to {unit:g} s; an even rate is taken"
            break
    worst, jitter = np.abs(step - interval).max() / interval, step.std() / interval
    by = f"by {100 * worst:.0f} % at most, {100 * jitter:.2g} % rms"
    return False, f"steps of time vary from {step.min():.6g} to {step.max():.6g} s ({by})"


def common_grid(path: str, clocks: Sequence[Stamps], rate: float | None) -> Grid:
    """Choose the grid: the stamps themselves where all agree and are even, else the fastest channel's rate."""
    first = clocks[0]
    same = all(len(c.t) == len(first.t) and np.array_equal(c.t, first.t) for c in clocks)
    recorded = (len(first.t) - 1) / float(first.t[-1] - first.t[0])
    if same and first.even and not first.gaps and (rate is None or abs(rate / recorded - 1.0) < 1e-6):
        return Grid(first.t, recorded, True, ())
    interval = min(c.interval for c in clocks) if rate is None else 1.0 / rate
    rounded = round(interval / _NICE) * _NICE
    interval = rounded if rate is None and abs(rounded - interval) < 0.01 * interval else interval
    start, end = max(c.t[0] for c in clocks), min(c.t[-1] for c in clocks)
    count = int(np.floor((end - start) / interval + 1e-6)) + 1 if end > start else 0
    if count < 3:
        raise InvalidLog(path, f"{' and '.join(c.name for c in clocks)} were not recorded at the same time")
    if count > 100_000_000:
        raise InvalidLog(path, f"would have {count} samples at {1.0 / interval:g} Hz; check its time and its unit")
    if rate is None and first.gaps and count > 3 * len(first.t) + 100_000:
        a, b = first.gaps[0][0] - first.t[0] + first.skipped, first.gaps[0][1] - first.t[0] + first.skipped
        sentence = f"lasts {end - start:.4g} s, of which {len(first.t) * interval:.4g} s were recorded"
        raise InvalidLog(path, f"{sentence}; write runs that end by to_s = {a:.6g} or begin from_s = {b:.6g} on")
    rates = sorted({f"{1.0 / c.interval:.6g} Hz" for c in clocks})
    before, after = " and ".join(rates), f"{1.0 / interval:.6g} Hz"
    sentence = f"recorded at {before}, resampled to {after} by cubic splines through the time stamps"
    return Grid(start + interval * np.arange(count), 1.0 / interval, False, (sentence,))


def on_grid(stamps: Stamps, values: FloatArray, grid: Grid) -> FloatArray:
    """Interpolate a channel to the grid."""
    if grid.as_recorded:
        return values[stamps.kept]
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(stamps.t, values[stamps.kept])(grid.t))


def gaps_of(clocks: Iterable[Stamps]) -> tuple[Span, ...]:
    """List the gaps of clocks that are too long to be bridged, s from the beginning, without overlaps."""
    found: list[Span] = []
    for a, b in sorted((a - c.t[0] + c.skipped, b - c.t[0] + c.skipped) for c in clocks for a, b in c.gaps):
        if found and a <= found[-1][1]:
            found[-1] = found[-1][0], max(b, found[-1][1])
        else:
            found.append((a, b))
    return tuple(found)


def bridge_spikes(name: str, values: FloatArray, rows: IntArray) -> tuple[FloatArray, str]:
    """Replace single values that are far off their neighbours as if they were lost; name the first, and its row."""
    if len(values) < 10:
        return values, ""
    end = max(2, len(values) // 200)
    low, high = np.partition(values, (end, len(values) - 1 - end))[[end, -1 - end]]
    limit = SPIKE * float(high - low)
    suspect = np.flatnonzero((values > high + limit) | (values < low - limit))
    if not suspect.size or limit == 0.0 or suspect.size > max(2, _MOST_SPIKES * len(values)):
        return values, ""
    near = np.median(np.pad(values, 2, mode="edge")[suspect[:, None] + np.arange(5)], axis=1)
    spikes = suspect[np.abs(values[suspect] - near) > limit]
    if not spikes.size:
        return values, ""
    kept = np.ones(len(values), dtype=bool)
    kept[spikes] = False
    at = np.arange(len(values))
    more = f" ({spikes.size} such values)" if spikes.size > 1 else ""
    first = int(spikes[0])
    sentence = f"{name} is {values[first]:.4g} at row {rows[first]}, far off its neighbours{more}: bridged"
    return np.where(kept, values, np.interp(at, at[kept], values[kept])), sentence


def unwrap_turns(name: str, values: FloatArray, rows: IntArray) -> tuple[FloatArray, str]:
    """Join positions that start anew after a whole turn, in rad or degrees; name the first such row.

    All of a channel's large steps must be of one turn, and its values within one.
    """
    step = np.diff(values)
    for turn in _TURNS:
        large = np.abs(step) > 0.5 * turn
        if not large.any() or np.ptp(values) > 1.001 * turn:
            continue
        small = np.abs(step[~large]).max(initial=0.0)
        if small < 0.1 * turn and np.abs(np.abs(step[large]) - turn).max() <= 1.1 * small + 1e-3 * turn:
            first, count = int(rows[int(np.argmax(large)) + 1]), int(np.count_nonzero(large))
            more = f" ({count} such steps)" if count > 1 else ""
            sentence = f"{name} starts anew after a turn of {turn:.4g} at row {first}{more}: turns are counted on"
            return np.unwrap(values, period=turn), sentence
    return values, ""


def _check_index(frame: "DataFrame", name: str) -> None:
    if len(frame) < 3:
        raise InvalidLog(name, f"has {len(frame)} rows, expected at least 3")
    if not frame.index.is_unique:
        row = int(np.argmax(frame.index.duplicated()))
        sentence = f"its index has {frame.index[row]!r} twice, for the second time at this row"
        raise InvalidLog(name, f"{sentence}; use reset_index(drop=True), or leave out the repeated rows", row)


def _signal(frame: "DataFrame", entry: Columns, name: str, stamps: Stamps | None, grid: Grid | None) -> Signal:
    """Copy the columns of one quantity into one array, in SI units."""
    factor = unit_factor(name, entry.kind, entry.unit)
    repeated = [column for column in entry.columns if entry.columns.count(column) > 1]
    if repeated:
        raise InvalidLog(name, f"column {repeated[0]!r} is named twice for {entry.kind}; name one a joint")
    values: FloatArray = np.empty((len(frame), len(entry.columns)))
    for j, column in enumerate(entry.columns):
        _fill(values[:, j], frame, column, name)
    matrix = factor * scale_matrix(name, entry, len(entry.columns))
    if np.array_equal(matrix, np.diag(np.diag(matrix))):
        values *= np.diag(matrix)
    else:
        values = values @ matrix.T
    if stamps is not None and grid is not None and not (grid.as_recorded and stamps.kept.all()):
        values = on_grid(stamps, values, grid)
    values.flags.writeable = False
    return Signal(entry.kind, entry.side or "joint", values)


def _fill(out: FloatArray, frame: "DataFrame", column: str | int, name: str) -> None:
    """Copy a column's numbers; text, missing values and what nothing measures are refused with their row."""
    found = [k for k, known in enumerate(frame.columns) if known == column]
    if not found and isinstance(column, int) and 1 <= column <= len(frame.columns):
        found = [column - 1]  # by its place
    if len(found) != 1:
        shown = ", ".join(map(str, frame.columns[:24]))
        sentence = f"has no column {column!r}" if not found else f"has {len(found)} columns {column!r}"
        raise InvalidLog(name, f"{sentence}; its columns are {shown}")
    series = frame.iloc[:, found[0]]
    try:
        out[:] = series.to_numpy()
    except (TypeError, ValueError):
        row, value = next(_no_numbers(series))
        raise InvalidLog(name, f"column {column!r} holds {value!r}, expected a number", row) from None
    for start in range(0, len(out), 100_000):  # in parts: a mask of all rows would be another copy
        part = out[start : start + 100_000]
        bad = np.flatnonzero(~(np.abs(part) < UNINITIALISED))
        if bad.size:
            row = start + int(bad[0])
            raise InvalidLog(name, f"column {column!r} is {out[row]:g}, which nothing measures; cut it", row)


def _no_numbers(values: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            yield row, value
    yield 0, values
