"""Clock of a log: gaps in its stamps, speed override, marks, and complete periods.

The planned motion's start and time scale are found by correlation, and refined by least squares.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from excitor.experiments.align.nouns import Check, ExpectedMotion, MeasuredRun
from excitor.identify.diagnose import Level
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.errors import ExcitorError

MISSING = 0.005  # share of all samples that may be missing; splines bridge them
LONGEST_GAP = 6.5  # intervals
SPEED = 0.005  # by which the speed scaling may differ from 1
LATE_MARK = 0.1  # s, between marks and motion: a logger's delay and a controller's lag


@dataclass(frozen=True, slots=True)
class Clock:
    """The stamps of a log, put in order."""

    interval: float
    missing: int
    longest: float  # s, the longest step


def in_order(run: MeasuredRun) -> MeasuredRun:
    """Leave out rows that repeat a stamp; refuse time that runs backward."""
    step = np.diff(run.t)
    if (step < 0.0).any():
        k = int(np.argmax(step < 0.0))
        raise ExcitorError(f"{run.name}: time runs backward, from {run.t[k]:g} to {run.t[k + 1]:g} s")
    kept = np.concatenate([[True], step > 0.0]) if len(run.t) else np.zeros(0, dtype=bool)
    if np.count_nonzero(kept) < 100:
        raise ExcitorError(f"{run.name}: has {np.count_nonzero(kept)} samples, expected at least 100; record longer")
    names = ("t", "q", "tau", "mark", "speed_scaling", "q_reference")
    return replace(run, **{name: x[kept] for name in names if (x := getattr(run, name)) is not None})


def clock_of(t: FloatArray) -> Clock:
    """Find the typical interval, and how many samples are missing."""
    step = np.diff(t)
    usual = float(np.median(step))
    interval = float(np.mean(step[step <= 1.5 * usual]))
    return Clock(interval, int(np.sum(np.round(step / interval) - 1.0).clip(0)), float(step.max()))


def check_stamps(run: MeasuredRun, clock: Clock) -> list[Check]:
    """Compare gaps with what can be bridged."""
    total = len(run.t) + clock.missing
    share, gap = clock.missing / total, clock.longest / clock.interval
    holds = share <= MISSING and gap <= LONGEST_GAP
    sentence = (
        f"{clock.missing} of {total} samples are missing, the longest step is {1e3 * clock.longest:.3g} ms at an "
        f"interval of {1e3 * clock.interval:.3g} ms"
    )
    remedy = "the logger lost samples: log less, or on a faster machine, and repeat the run"
    return [Check("samples", share, "1", MISSING, holds, sentence, "", "unusable", "dropped samples", remedy)]


@dataclass(frozen=True, slots=True)
class Timing:
    """Log time = start + stretch * planned time; `likeness` is the mean squared correlation of moving channels."""

    start: float
    stretch: float
    likeness: float


def while_moving(expected: ExpectedMotion, timing: Timing, t: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Convert the log's times to the plan's, (n,); and the mask of those at which the plan moves."""
    u = (t - timing.start) / timing.stretch
    begin, end = expected.moving_span
    return u, np.asarray((u >= begin) & (u <= end))


def check_speed(run: MeasuredRun, timing: Timing, expected: ExpectedMotion) -> list[Check]:
    """Check the speed scaling that the controller reported while the program ran."""
    if run.speed_scaling is None:
        return []
    inside = while_moving(expected, timing, run.t)[1]
    if not inside.any():
        return []
    holds = float(np.abs(run.speed_scaling[inside] - 1.0).max()) <= SPEED
    lowest = float(run.speed_scaling[inside].min())
    sentence = f"the controller's speed scaling was {100 * lowest:.4g} % at its lowest while the program ran"
    remedy = "set the speed slider to 100 % and repeat the run"
    return [Check("speed scaling", lowest, "1", SPEED, holds, sentence, "", "unusable", "speed slider", remedy)]


def check_stretch(expected: ExpectedMotion, stretch: float, tolerance: float) -> list[Check]:
    """Compare the duration with the planned one: a speed override lengthens motion, lost rows seem to shorten it."""
    holds = abs(stretch - 1.0) <= tolerance
    what = "period" if expected.run.series is not None else "motion"
    sentence = f"the {what} took {stretch:.6g} times as long as planned"
    cause, remedy = "speed slider", "set the speed slider (override) to 100 % and repeat the run"
    why = f": a speed slider at {100 / stretch:.3g} %, most likely"
    if stretch <= 1.0:
        cause = "sample rate"
        remedy = "check the log's sample rate, and whether it lost rows that its stamps don't show"
        why = ": the log's clock is wrong, or rows are missing that its stamps don't show"
    text = sentence if holds else f"{sentence}{why}"
    return [Check("stretch", stretch, "1", tolerance, holds, text, "", "unusable", cause, remedy)]


def check_marks(expected: ExpectedMotion, run: MeasuredRun, timing: Timing) -> list[Check]:
    """Compare marks with those of the program: none missing, none twice, and at the time that the motion says."""
    if run.mark is None or not expected.marks:
        return []
    begun = _beginnings(run)
    marks = [mark for _, mark in expected.marks]
    wanted = [mark for k, mark in enumerate(marks) if k == 0 or marks[k - 1] != mark]  # one after its like is not seen
    numbers = sorted(set(wanted))
    missing = [m for m in numbers if len(begun.get(m, [])) < wanted.count(m)]
    twice = [m for m in numbers if len(begun.get(m, [])) > wanted.count(m)]
    wrong = len(missing) + len(twice)
    sentence = "all marks are there"
    if wrong:
        parts = [f"{name} {_listed(marks)}" for name, marks in (("missing", missing), ("too often", twice)) if marks]
        sentence = f"{wrong} of {len(numbers)} marks are not as the program sets them: {'; '.join(parts)}"
    remedy = "check that the whole run was logged, once, with the marker channel"
    checks = [Check("marks", float(wrong), "1", 0.0, not wrong, sentence, "", "doubtful", "marks", remedy)]
    ahead = [
        begun[mark][0] - (timing.start + timing.stretch * t)
        for t, mark in expected.marks
        if wanted.count(mark) == 1 and len(begun.get(mark, [])) == 1
    ]
    return checks + (_mark_times(np.array(ahead)) if ahead else [])


def check_periods(expected: ExpectedMotion, run: MeasuredRun, timing: Timing) -> tuple[list[Check], int, int]:
    """Check that the log holds all measured periods; return also the first complete one and their number."""
    series = expected.run.series
    if series is None:
        begin, end = timing.start, timing.start + timing.stretch * expected.run.duration
        slack = 2e-2 * (end - begin)
        whole = run.t[0] <= begin + slack and run.t[-1] >= end - slack
        return [_complete("program", float(whole), 1.0, whole)], 0, 0
    starts = timing.start + timing.stretch * (series.start + np.arange(series.periods + 1) * series.period)
    slack = 2.0 * float(np.median(np.diff(run.t)))
    inside = (starts[:-1] >= run.t[0] - slack) & (starts[1:] <= run.t[-1] + slack)
    count = int(np.count_nonzero(inside))
    check = _complete("measured periods", float(count), float(series.periods), count == series.periods)
    return [check], int(np.argmax(inside)) if count else 0, count


def _complete(what: str, found: float, planned: float, holds: bool) -> Check:
    sentence = f"the log holds {found:g} of {planned:g} planned {what}"
    remedy = "log from before the program starts until after it ends"
    level: Level = "unusable" if found < 2.0 or planned == 1.0 else "doubtful"
    return Check(what, found, "1", 0.0, holds, sentence, "", level, "log cut short", remedy)


def _beginnings(run: MeasuredRun) -> dict[int, list[float]]:
    assert run.mark is not None
    value = np.round(run.mark).astype(np.int64)
    rises = np.flatnonzero(np.concatenate([[True], value[1:] != value[:-1]]))
    begun: dict[int, list[float]] = {}
    for k in rises:
        begun.setdefault(int(value[k]), []).append(float(run.t[k]))
    return begun


def _mark_times(ahead: FloatArray) -> list[Check]:
    typical = float(np.median(ahead))
    holds = abs(typical) <= LATE_MARK
    when = "after" if typical > 0.0 else "before"
    sentence = f"marks come {1e3 * abs(typical):.3g} ms {when} the motion that they announce"
    remedy = "marks and positions are not on one clock: log both by the same logger"
    return [Check("mark times", typical, "s", LATE_MARK, holds, sentence, "", "doubtful", "marker delay", remedy)]


def _listed(marks: list[int]) -> str:
    shown = ", ".join(str(mark) for mark in marks[:6])
    return shown + (f" and {len(marks) - 6} more" if len(marks) > 6 else "")


COARSE = 4096  # samples of a log that are enough to find a motion in it
STRETCHES = (1.0 / 3.0, 10.0)  # a slider between 300 and 10 %
STEP = 0.01  # from one stretch that is tried to the next
SURE = 0.8  # mean squared correlation from which the planned stretch is not doubted
SEEN = 0.5  # ... from which a channel shows a planned joint
FEW_PERIODS = 2.5  # of a series, tried at first: longer ones would need smaller steps
CLEAN = 1e-4  # of a channel's power: what even a joint that follows well leaves
MOST_SAMPLES = 20_000  # that least squares look at


def locate(expected: ExpectedMotion, t: FloatArray, x: FloatArray) -> Timing:
    """Find the planned motion in channels (n, n_channels), whatever their signs, scales and order are."""
    grid = _Grid(expected, t, x)
    best = grid.match(1.0, np.inf)
    if best.likeness < SURE:
        longest = np.inf
        if expected.run.series is not None:
            longest = expected.run.excitation.ramp + FEW_PERIODS * expected.run.series.period
        part = min(longest, 0.5 * float(t[-1] - t[0]))
        partial = max((grid.match(1.0, part), grid.match(1.0, -part)), key=lambda timing: timing.likeness)
        if partial.likeness >= SURE:  # a log that ends before the program does, or starts after it
            return _refined(expected, t, x, partial)
        candidates = np.exp(np.arange(np.log(STRETCHES[0]), np.log(STRETCHES[1]), STEP))
        tried = sorted((grid.match(float(s), longest) for s in candidates), key=lambda found: -found.likeness)[:3]
        near = [grid.match(float(s) * rough.stretch, np.inf) for rough in tried for s in np.linspace(0.985, 1.015, 13)]
        best = max([best, *near], key=lambda timing: timing.likeness)
    return _refined(expected, t, x, best)


def likeness(plan: FloatArray, x: FloatArray) -> FloatArray:
    """Squared correlations of channels with planned joints, (n_channels, n_joints); 0 where either stands still."""
    p, y = plan - plan.mean(axis=0), x - x.mean(axis=0)
    power = np.outer((y**2).sum(axis=0), (p**2).sum(axis=0))
    return np.where(power > 0.0, (y.T @ p) ** 2 / np.where(power > 0.0, power, 1.0), 0.0)


def best_order(value: FloatArray) -> IntArray:
    """Choose one joint for each channel, (n_channels,), such that the sum of values is largest."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(-value)[1])


def period_stretch(expected: ExpectedMotion, t: FloatArray, x: FloatArray, near: float) -> float:
    """Find the time scale of a series' period that maximises the projection onto its harmonics, near a first guess."""
    from scipy.optimize import minimize_scalar

    series = expected.run.periodic
    k: FloatArray = np.asarray(series.harmonics, dtype=float) * series.omega
    y = x - x.mean(axis=0)
    size = np.linalg.norm(y, axis=0)
    y = y[:, size > 0.0] / size[size > 0.0]
    t = t - t.mean()

    def left(shift: float) -> float:
        angle = np.outer(t, k / (near * (1.0 + shift)))
        basis = np.column_stack([np.ones(len(t)), np.sin(angle), np.cos(angle)])
        q, _ = np.linalg.qr(basis)
        return float(np.sum(np.log(np.sum((y - q @ (q.T @ y)) ** 2, axis=0) + CLEAN)))

    reach = 0.3 * series.period / (series.harmonics[-1] * max(float(np.ptp(t)) / near, series.period))
    found = minimize_scalar(left, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-9})
    return float(near * (1.0 + found.x))


def shifts(expected: ExpectedMotion, timing: Timing, t: FloatArray, x: FloatArray, edges: FloatArray) -> FloatArray:
    """Estimate the delay of channels, in the plan's signs and scales, in each span of planned time, s.

    Least squares on the plan's slope, δ = -Σ (x - p) ṗ / Σ ṗ², every joint weighed by the power of its motion;
    NaN where there are too few samples.
    """
    late = np.full(len(edges) - 1, np.nan)
    u = (t - timing.start) / timing.stretch
    weight = 1.0 / np.maximum(np.var(expected.run.at(u), axis=0), 1e-12)
    weight[~expected.moving()] = 0.0
    for k, (a, b) in enumerate(pairwise(edges)):
        inside = (u >= a) & (u < b)
        if np.count_nonzero(inside) < 10:
            continue
        p, v = expected.run.at(u[inside]), expected.run.at(u[inside], 1) / timing.stretch
        e = x[inside] - p
        v = v - v.mean(axis=0)
        power = float(np.sum(weight * v**2))
        late[k] = -float(np.sum(weight * (e - e.mean(axis=0)) * v)) / power if power > 0.0 else np.nan
    return late


class _Grid:
    """A log on a coarse, even grid, which plans of various time scales are correlated with."""

    def __init__(self, expected: ExpectedMotion, t: FloatArray, x: FloatArray) -> None:
        self.expected = expected
        self.moving = expected.moving()
        self.dt = max(float(t[-1] - t[0]) / COARSE, float(np.median(np.diff(t))))
        self.t0 = float(t[0])
        grid = np.arange(self.t0, float(t[-1]), self.dt)
        moved = np.ptp(x, axis=0) > 1e-9 * np.abs(x).max(initial=1e-9)
        columns = [np.interp(grid, t, column) for column in x[:, moved].T]
        self.x = np.array(columns).reshape(len(columns), len(grid))
        self.x = self.x - self.x.mean(axis=1, keepdims=True)

    def match(self, stretch: float, longest: float) -> Timing:
        """Find the lag at which the first `longest` s of the plan, time-scaled, correlate best with the log.

        The last ones where `longest` is negative.
        """
        begin, end = self.expected.moving_span
        begin, end = (begin, min(end, begin + longest)) if longest > 0.0 else (max(begin, end + longest), end)
        n = round((end - begin) * stretch / self.dt)
        if n < 8 or not len(self.x) or n > 3 * self.x.shape[1]:
            return Timing(self.t0, stretch, 0.0)
        planned = self.expected.run.at(begin + np.arange(n) * self.dt / stretch)[:, self.moving].T
        planned = planned - planned.mean(axis=1, keepdims=True)
        pad = n // 2
        found = _correlations(np.pad(self.x, ((0, 0), (pad, pad)), mode="edge"), planned)
        score = found.max(axis=1).sum(axis=0) / max(np.count_nonzero(self.moving), 1)
        k = int(np.argmax(score))
        return Timing(self.t0 + (k - pad) * self.dt - begin * stretch, stretch, float(score[k]))


def _correlations(x: FloatArray, p: FloatArray) -> FloatArray:
    """Squared correlations of channels and joints at every lag, (n_channels, n_joints, n_lags)."""
    from scipy.fft import irfft, next_fast_len, rfft

    n, length = p.shape[1], x.shape[1]
    if length < n:
        x = np.pad(x, ((0, 0), (0, n - length)), mode="edge")
        length = n
    size = next_fast_len(length + n)
    X, P = rfft(x, size, axis=1), rfft(p[:, ::-1], size, axis=1)
    both = irfft(X[:, None] * P[None], size, axis=2)[:, :, n - 1 : length]
    sums = np.cumsum(np.pad(x, ((0, 0), (1, 0))), axis=1)
    squares = np.cumsum(np.pad(x**2, ((0, 0), (1, 0))), axis=1)
    power = squares[:, n:] - squares[:, :-n] - (sums[:, n:] - sums[:, :-n]) ** 2 / n
    power = np.maximum(power, 0.05 * power.max(axis=1, keepdims=True) + 1e-300)
    own = np.maximum((p**2).sum(axis=1), 1e-300)
    return np.asarray(both**2 / (power[:, None] * own[None, :, None]))


def _refined(expected: ExpectedMotion, t: FloatArray, x: FloatArray, timing: Timing) -> Timing:
    """Refine start and time scale by Gauss-Newton; every channel keeps an offset and a scale of its own."""
    step = max(1, len(t) // MOST_SAMPLES)
    t, x = t[::step], x[::step]
    moving = expected.moving()
    for _ in range(12):
        u = (t - timing.start) / timing.stretch
        inside = (u >= 0.0) & (u <= expected.run.duration)
        if np.count_nonzero(inside) < 20:
            return Timing(timing.start, timing.stretch, 0.0)
        p, v = expected.run.at(u[inside]), expected.run.at(u[inside], 1) / timing.stretch
        table = likeness(p, x[inside])
        order = best_order(table)
        score = float(table[np.arange(len(order)), order].sum() / max(np.count_nonzero(moving), 1))
        move = _newton_step(p[:, order], v[:, order], u[inside], x[inside])
        timing = Timing(timing.start + move[0], timing.stretch + move[1], score)
        if abs(move[0]) < 1e-7 and abs(move[1]) < 1e-10:
            break
    return timing


def _newton_step(p: FloatArray, v: FloatArray, u: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Solve for changes of start and time scale: x = a + b p - b v (d start + u d stretch), a and b free."""
    normal, right = np.zeros((2, 2)), np.zeros(2)
    fits = [likeness(p[:, [i]], x[:, [i]])[0, 0] for i in range(x.shape[1])]
    for i in range(x.shape[1]):
        if fits[i] < min(SEEN, max(fits)):
            continue
        basis = np.column_stack([np.ones(len(u)), p[:, i]])
        a, b = np.linalg.lstsq(basis, x[:, i], rcond=None)[0]
        q, _ = np.linalg.qr(basis)
        J = -b * np.column_stack([v[:, i], v[:, i] * u])
        J -= q @ (q.T @ J)
        r = x[:, i] - basis @ (a, b)
        size = float(np.var(r) + CLEAN * np.var(x[:, i])) or 1.0  # a deviating joint has little information on time
        normal += J.T @ J / size
        right += J.T @ r / size
    if np.linalg.cond(normal) > 1e14:
        return 0.0, 0.0
    found = np.linalg.solve(normal, right)
    return float(found[0]), float(found[1])
