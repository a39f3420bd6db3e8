"""When does a log show the planned motion, and how stretched? By correlation first, then by least squares."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.align.nouns import Expected
from excitor.robots.arrays import FloatArray, IntArray

COARSE = 4096  # samples of a log that are enough to find a motion in it
STRETCHES = (1.0 / 3.0, 10.0)  # a slider between 300 and 10 %
STEP = 0.01  # from one stretch that is tried to the next
SURE = 0.8  # mean squared correlation from which the planned stretch is not doubted
SEEN = 0.5  # ... from which a channel shows a planned joint
FEW_PERIODS = 2.5  # of a series, tried at first: longer ones would need smaller steps
CLEAN = 1e-4  # of a channel's power: what even a joint that follows well leaves
MOST_SAMPLES = 20_000  # that least squares look at


@dataclass(frozen=True, slots=True)
class Timing:
    """Log time = start + stretch * planned time; `likeness` is the mean squared correlation of moving channels."""

    start: float
    stretch: float
    likeness: float


def locate(expected: Expected, t: FloatArray, x: FloatArray) -> Timing:
    """Find the planned motion in channels (n, n_channels), whatever their signs, scales and order are."""
    grid = _Grid(expected, t, x)
    best = grid.match(1.0, np.inf)
    if best.likeness < SURE:
        longest = _first_part(expected)
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


def period_stretch(expected: Expected, t: FloatArray, x: FloatArray, near: float) -> float:
    """Find the stretch of a series' period that maximises the projection onto its harmonics, near a first guess."""
    from scipy.optimize import minimize_scalar

    assert isinstance(expected.body, Trajectory)
    excitation = expected.body.excitation
    k: FloatArray = np.asarray(excitation.harmonics, dtype=float) * excitation.omega
    y = x - x.mean(axis=0)
    size = np.linalg.norm(y, axis=0)
    y = y[:, size > 0.0] / size[size > 0.0]
    t = t - t.mean()

    def left(shift: float) -> float:
        angle = np.outer(t, k / (near * (1.0 + shift)))
        basis = np.column_stack([np.ones(len(t)), np.sin(angle), np.cos(angle)])
        q, _ = np.linalg.qr(basis)
        return float(np.sum(np.log(np.sum((y - q @ (q.T @ y)) ** 2, axis=0) + CLEAN)))

    reach = 0.3 * excitation.period / (excitation.harmonics[-1] * max(float(np.ptp(t)) / near, excitation.period))
    found = minimize_scalar(left, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-9})
    return float(near * (1.0 + found.x))


def shifts(expected: Expected, timing: Timing, t: FloatArray, x: FloatArray, edges: FloatArray) -> FloatArray:
    """Tell how late channels, brought to the plan's signs and scales, come in each span of planned time, s.

    Least squares on the plan's slope, δ = -Σ (x - p) ṗ / Σ ṗ², every joint weighed by the power of its motion;
    NaN where there are too few samples.
    """
    late = np.full(len(edges) - 1, np.nan)
    u = (t - timing.start) / timing.stretch
    weight = 1.0 / np.maximum(np.var(expected.planned(u), axis=0), 1e-12)
    weight[~expected.moving()] = 0.0
    for k, (a, b) in enumerate(pairwise(edges)):
        inside = (u >= a) & (u < b)
        if np.count_nonzero(inside) < 10:
            continue
        p, v = expected.planned(u[inside]), expected.planned(u[inside], 1) / timing.stretch
        e = x[inside] - p
        v = v - v.mean(axis=0)
        power = float(np.sum(weight * v**2))
        late[k] = -float(np.sum(weight * (e - e.mean(axis=0)) * v)) / power if power > 0.0 else np.nan
    return late


class _Grid:
    """A log on a coarse, even grid, against which stretched plans are correlated."""

    def __init__(self, expected: Expected, t: FloatArray, x: FloatArray) -> None:
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
        """Find where the first `longest` s of the plan, stretched, look most like the log."""
        begin, end = self.expected.moving_span
        end = min(end, begin + longest)
        n = round((end - begin) * stretch / self.dt)
        if n < 8 or not len(self.x) or n > 3 * self.x.shape[1]:
            return Timing(self.t0, stretch, 0.0)
        planned = self.expected.planned(begin + np.arange(n) * self.dt / stretch)[:, self.moving].T
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


def _first_part(expected: Expected) -> float:
    if not isinstance(expected.body, Trajectory):
        return np.inf
    excitation = expected.body.excitation
    return excitation.ramp + FEW_PERIODS * excitation.period


def _refined(expected: Expected, t: FloatArray, x: FloatArray, timing: Timing) -> Timing:
    """Improve start and stretch by Gauss-Newton; every channel keeps an offset and a scale of its own."""
    step = max(1, len(t) // MOST_SAMPLES)
    t, x = t[::step], x[::step]
    moving = expected.moving()
    for _ in range(12):
        u = (t - timing.start) / timing.stretch
        inside = (u >= 0.0) & (u <= expected.duration)
        if np.count_nonzero(inside) < 20:
            return Timing(timing.start, timing.stretch, 0.0)
        p, v = expected.planned(u[inside]), expected.planned(u[inside], 1) / timing.stretch
        table = likeness(p, x[inside])
        order = best_order(table)
        score = float(table[np.arange(len(order)), order].sum() / max(np.count_nonzero(moving), 1))
        move = _newton_step(p[:, order], v[:, order], u[inside], x[inside])
        timing = Timing(timing.start + move[0], timing.stretch + move[1], score)
        if abs(move[0]) < 1e-7 and abs(move[1]) < 1e-10:
            break
    return timing


def _newton_step(p: FloatArray, v: FloatArray, u: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Solve for changes of start and stretch: x = a + b p - b v (d start + u d stretch), a and b free."""
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
        size = float(np.var(r) + CLEAN * np.var(x[:, i])) or 1.0  # a joint that strays tells little of time
        normal += J.T @ J / size
        right += J.T @ r / size
    if np.linalg.cond(normal) > 1e14:
        return 0.0, 0.0
    found = np.linalg.solve(normal, right)
    return float(found[0]), float(found[1])
