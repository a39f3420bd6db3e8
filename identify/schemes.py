"""Five ways to write y = W β of the same runs: dynamic, filtered dynamic, supplied energy, power, filtered power.

With τ = d(A χ)/dt + B χ, energy H = h χ, friction power ω χ and F = (λ/(s + λ))^m [ChavezOlivares2012]:

    dynamic           τ         = Y χ
    filtered dynamic  F τ       = (s F (A - A₀) + F B) χ
    energy            ∫ dqᵀτ dt = (h - h₀ + ∫ ω dt) χ
    power             dqᵀτ      = (dh/dt + ω) χ
    filtered power    F (dqᵀτ)  = (s F (h - h₀) + F ω) χ

Filters and integrals start anew at each run's first sample, both sides from nothing: no run need begin at rest.

Filters are exact for signals that are held or linear between samples. The delay of recorded torques is the one at
which the refitted filtered dynamic model leaves the smallest residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Literal

import numpy as np

from excitor.identify.regression import (
    Block,
    Regression,
    Rows,
    dynamic_regression,
    pick_rows,
    power_regression,
    stack_blocks,
)
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import positive
from excitor.robots.arrays import FloatArray, IntArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import energy_regressor, friction_load, friction_power_columns, momentum_form
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

SchemeKind = Literal["dynamic", "filtered dynamic", "energy", "power", "filtered power"]
KINDS: tuple[SchemeKind, ...] = ("dynamic", "filtered dynamic", "energy", "power", "filtered power")
CUTOFF = 9.11  # rad/s, the paper's, for its robot
MOST_STAGES = 8
LONGEST = 0.05  # s, to either side
GRID = 20  # coarse delays to either side
STEPS = 30  # of Gauss and Newton
SETTLED = 1e-4  # of a sample: the last step taken
MEMORY = 3.0  # time constants of the filter over which residuals hang together
MOST_TAKEN = 0.9  # share of the errors that fitted columns are thought to take


@dataclass(frozen=True, slots=True)
class Scheme:
    """A regression model with its settings.

    Torques are always held from sample to sample. `hold` is the motion's interpolation: "zero" holds it too, as
    published; "first" is linear, so that the work of held torques and their filtered power are exact.
    """

    kind: SchemeKind
    cutoff: float = CUTOFF  # λ, rad/s
    order: int = 1  # m: so many first-order filters in a row
    hold: Literal["zero", "first"] = "zero"
    delay: float | FloatArray | tuple[float, ...] = 0.0  # s that torques act later than recorded, of all or each joint
    settle: float = 0.0  # s at each run's start whose equations are left out

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {', '.join(KINDS)}")
        if self.hold not in ("zero", "first"):
            raise ValueError(f"hold is {self.hold!r}, expected 'zero' or 'first'")
        check_filter(self.cutoff, self.order)
        delays = np.atleast_1d(np.asarray(self.delay, dtype=float))
        if delays.ndim != 1 or not np.isfinite(delays).all():
            raise ValueError(f"delay is {self.delay}, expected finite seconds, one or one for each joint")
        if not 0.0 <= self.settle < np.inf:
            raise ValueError(f"settle is {self.settle}, expected 0 or more seconds")
        tidy = float(delays[0]) if np.ndim(self.delay) == 0 else tuple(delays.tolist())
        object.__setattr__(self, "delay", tidy)

    def delays(self, n_joints: int) -> FloatArray:
        """Delay of each joint's torque, (n_joints,), s."""
        given = np.atleast_1d(np.asarray(self.delay, dtype=float))
        if len(given) not in (1, n_joints):
            raise ValueError(f"{len(given)} delays are given, expected one, or one for each of {n_joints} joints")
        return np.broadcast_to(given, n_joints).copy()


def scheme_regression(
    robot: Robot, runs: Sequence[Samples], scheme: Scheme, *, columns: IntArray | None = None, rows: Rows | None = None
) -> Regression:
    """Build y = W β of runs by a scheme, columns of the base parameters unless others are chosen.

    Rows are labelled as those of `dynamic_regression`; a scheme with one equation a sample has joint -1. Both sides
    are decimated alike. Dead zones and settling about reversals leave out rows of the instantaneous models, dynamic
    and power; the states of filters and integrals cannot be left out so. No row has a variance.
    """
    columns = base_parameters(robot).kept if columns is None else columns
    rows = rows or Rows()
    check_runs(robot, runs, scheme)
    if scheme.kind in ("dynamic", "power"):
        build = dynamic_regression if scheme.kind == "dynamic" else power_regression
        found = [at_motion(run, scheme) for run in runs]
        regression = build(robot, [run for run, _ in found], columns=columns, rows=rows)
        if rows.decimate is None:
            begun = np.array([first for _, first in found], dtype=np.int64)
            regression = replace(regression, sample=regression.sample + begun[regression.run])
    else:
        blocks = [_block(robot, k, run, scheme, columns, rows) for k, run in enumerate(runs)]
        regression = stack_blocks(scheme.kind, robot, runs, columns, blocks)
    return replace(_settled(regression, runs, scheme, rows), variance=None, steps=(*regression.steps, _step(scheme)))


def at_motion(run: Samples, scheme: Scheme) -> tuple[Samples, int]:
    """Return samples with the torques that act where the motion is sampled, and the index of the first that has any.

    With hold "zero" the torque held at that instant, with "first" its mean over an interval about it: differences of
    positions are means as well.
    """
    delays = scheme.delays(run.tau.shape[1])
    if run.static or (run.phase == 0.5 and not delays.any()):
        return replace(run, variance=None, noise=None), 0
    back = 0.5 if scheme.hold == "first" else 0.0
    ways = [switching(len(run), run.phase - back, late * run.sample_rate_hz) for late in delays]
    last = [way.ahead + (1 if back and way.remaining < 1.0 else 0) for way in ways]  # torque that sample 0 needs
    kept = _common(run, ways, [len(run) - ahead for ahead in last])
    tau = np.empty((kept.stop - kept.start, run.tau.shape[1]))
    for j, way in enumerate(ways):
        u = run.tau[kept.start + way.ahead : kept.stop + last[j], j]
        tau[:, j] = u if way.ahead == last[j] else way.remaining * u[:-1] + (1.0 - way.remaining) * u[1:]
    return replace(run, motion=run.motion[kept], tau=tau, variance=None, noise=None, phase=0.5), kept.start


def _block(robot: Robot, number: int, run: Samples, scheme: Scheme, columns: IntArray, rows: Rows) -> Block:
    """Build one run's equations, filtered or integrated."""
    torques, kept = torque_segments(run, scheme)
    motion = run.motion[kept]
    interval = 1.0 / run.sample_rate_hz
    if scheme.kind == "filtered dynamic":
        y = filtered_torques(torques, scheme)
        W = filtered_momentum(robot, motion, scheme, columns, interval)
    else:
        stored, taken = _energy(robot, motion, columns)
        powers = _powers(torques, motion.dq, scheme, interval)
        if scheme.kind == "energy":
            y = integral(powers)[:, None]
            W = (stored + integral(first_order_hold(taken, interval)))[:, None]
        else:
            y = lagged(powers, cutoff=scheme.cutoff, order=scheme.order)[-1][:, None]
            W = _through(stored, taken, scheme, interval)[:, None]
    thin = rows.decimate or (lambda x: x)
    y, W = thin(y), thin(W)
    joint, sample = np.nonzero(np.ones(y.shape, dtype=bool).T)
    label = joint if scheme.kind == "filtered dynamic" else np.full(joint.size, -1)
    first = kept.start if rows.decimate is None else 0
    stacked = np.ascontiguousarray(W.transpose(1, 0, 2)).reshape(y.size, -1)
    return Block(stacked, y.T.ravel(), label, np.full(y.size, number), sample + first, None)


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """A segment of every interval between samples, `length` s long: the signal is linear from `start` to `end`."""

    length: float
    start: FloatArray  # (n_samples - 1, ...)
    end: FloatArray


def torque_segments(run: Samples, scheme: Scheme, rows: slice | None = None) -> tuple[list[list[Segment]], slice]:
    """Split each joint's held torques where they switch between motion samples; return also the samples with any."""
    delays = scheme.delays(run.tau.shape[1])
    ways = [switching(len(run), run.phase, late * run.sample_rate_hz) for late in delays]
    kept = _common(run, ways, [way.stop for way in ways]) if rows is None else rows
    segments = [held_segments(run.tau[:, j], way, 1.0 / run.sample_rate_hz, kept) for j, way in enumerate(ways)]
    return segments, kept


def filtered_torques(torques: Sequence[Sequence[Segment]], scheme: Scheme) -> FloatArray:
    """Filter held torques, (n_samples, n_joints)."""
    return np.stack([lagged(segments, cutoff=scheme.cutoff, order=scheme.order)[-1] for segments in torques], axis=1)


def filtered_momentum(robot: Robot, motion: Motion, scheme: Scheme, columns: IntArray, interval: float) -> FloatArray:
    """Write s F (A - A₀) + F B, joint by joint, (n_samples, n_joints, n_columns)."""
    form, joints = momentum_form(robot, motion, columns=columns), range(robot.n_joints)
    through = [_through(form.A[:, j] - form.A[0, j], form.B[:, j], scheme, interval) for j in joints]
    return np.stack(through, axis=1)


def _through(stored: FloatArray, flow: FloatArray, scheme: Scheme, interval: float) -> FloatArray:
    """Write s F_m x + F_m u as λ F_{m-1} x + F_m (u - λ x), without differences."""
    hold = zero_order_hold if scheme.hold == "zero" else first_order_hold
    before = stored
    if scheme.order > 1:
        before = lagged(hold(stored, interval), cutoff=scheme.cutoff, order=scheme.order - 1)[-1]
    rest = hold(flow - scheme.cutoff * stored, interval)
    return scheme.cutoff * before + lagged(rest, cutoff=scheme.cutoff, order=scheme.order)[-1]


def _energy(robot: Robot, motion: Motion, columns: IntArray) -> tuple[FloatArray, FloatArray]:
    """Compute energy stored since the start, and friction power, by parameter, each (n_samples, n_columns)."""
    stored = energy_regressor(robot, motion)[:, columns]
    taken = np.zeros((len(motion), len(layout(robot))))
    friction_power_columns(robot, motion, friction_load(robot, motion), taken)
    return stored - stored[0], taken[:, columns]


def _powers(torques: Sequence[Sequence[Segment]], dq: FloatArray, scheme: Scheme, interval: float) -> list[Segment]:
    """Return the power dqᵀτ in segments: exact for held torques on linear velocities, or from the samples alone."""
    if scheme.hold == "first":
        return _sum([times(held, dq[:, j], interval) for j, held in enumerate(torques)])
    acting = np.stack([np.append(held[0].start, held[-1].end[-1]) for held in torques], axis=1)
    power = np.sum(acting * dq, axis=1)
    return (first_order_hold if scheme.kind == "energy" else zero_order_hold)(power, interval)


def _sum(of_joints: Sequence[list[Segment]]) -> list[Segment]:
    """Add signals that may switch at different times, split at all of them."""
    lengths = [[segment.length for segment in segments] for segments in of_joints]
    ends = sorted({round(end, 15) for of_joint in lengths for end in np.cumsum(of_joint)})
    total: list[Segment] = []
    for before, after in zip([0.0, *ends[:-1]], ends, strict=True):
        parts = [_part(segments, before, after) for segments in of_joints]
        start, end = (np.sum([part[side] for part in parts], axis=0) for side in (0, 1))
        total.append(Segment(after - before, start, end))
    return total


def _part(segments: Sequence[Segment], before: float, after: float) -> tuple[FloatArray, FloatArray]:
    """Return a signal's values at the ends of a segment without switching."""
    begun = 0.0
    for segment in segments:
        if 0.5 * (before + after) <= begun + segment.length:
            break
        begun += segment.length
    slope = (segment.end - segment.start) / segment.length
    return segment.start + slope * (before - begun), segment.start + slope * (after - begun)


@dataclass(frozen=True, slots=True)
class HoldSchedule:
    """Schedule of the held torques that act between samples of the motion.

    From motion sample `first` on, up to before `stop`: on the way from k to k + 1, torque k + `ahead` acts for
    `remaining` of an interval, the next one for the rest.
    """

    ahead: int
    remaining: float  # 0 < remaining <= 1
    first: int
    stop: int


def _common(run: Samples, ways: Sequence[HoldSchedule], stops: Sequence[int]) -> slice:
    """Find the samples for which every joint's torque was recorded."""
    first, stop = max(way.first for way in ways), min(len(run), *stops)
    if stop - first < 2:
        raise ExcitorError(
            f"run {run.run!r}: its {len(run)} samples at {run.sample_rate_hz:g} Hz end before torques so delayed act; "
            "give a shorter delay, or a longer run"
        )
    return slice(first, stop)


def _settled(regression: Regression, runs: Sequence[Samples], scheme: Scheme, rows: Rows) -> Regression:
    """Leave out the equations of each run's first seconds."""
    if not scheme.settle:
        return regression
    kept = np.zeros(len(regression), dtype=bool)
    for number, run in enumerate(runs):
        mine = regression.run == number
        late = np.arange(len(run)) >= scheme.settle * run.sample_rate_hz
        if rows.decimate is not None and not run.static:
            late = np.asarray(rows.decimate(late.astype(float)) > 0.5)
        kept[mine] = late[np.minimum(regression.sample[mine], len(late) - 1)]
    if not kept.any():
        raise ExcitorError(f"settle is {scheme.settle:g} s, as long as the runs; leave out less of their start")
    return pick_rows(regression, kept)


def check_runs(robot: Robot, runs: Sequence[Samples], scheme: Scheme) -> None:
    """Refuse runs that a scheme does not apply to."""
    if not runs:
        raise ExcitorError("there are no runs to set up equations of; give at least one")
    for run in runs:
        if run.static and scheme.kind not in ("dynamic", "power"):
            raise ExcitorError(
                f"run {run.run!r} holds poses, whose rows do not follow each other in time; the {scheme.kind} model "
                "needs motion, the dynamic one does not"
            )
        if len(run) < 2:
            raise ExcitorError(f"run {run.run!r} has {len(run)} samples, expected at least 2")
    uneven = [r.parameter for r in robot.drive.rotors if not np.array_equal(r.senses, r.acts)]
    if uneven and scheme.kind in ("energy", "filtered power"):
        raise ExcitorError(
            f"{robot.name}: rotor {uneven[0]!r} senses another motion than it acts on, so it has no energy; "
            "take the dynamic, filtered dynamic or power model"
        )


def _step(scheme: Scheme) -> Step:
    late = scheme.delay
    settings: dict[str, float | str] = {"kind": scheme.kind, "hold": scheme.hold, "settle": scheme.settle}
    settings["delay"] = late if isinstance(late, float) else " ".join(f"{value:g}" for value in np.atleast_1d(late))
    if scheme.kind.startswith("filtered"):
        settings |= {"cutoff": scheme.cutoff, "order": float(scheme.order)}
    return Step("scheme", settings)


def zero_order_hold(u: FloatArray, interval: float) -> list[Segment]:
    """Return the zero-order hold of samples: each is held until the next."""
    return [Segment(interval, u[:-1], u[:-1])]


def first_order_hold(u: FloatArray, interval: float) -> list[Segment]:
    """Return the first-order hold of samples: linear from each to the next."""
    return [Segment(interval, u[:-1], u[1:])]


def switching(n_samples: int, phase: float, shift: float) -> HoldSchedule:
    """Find the torques that act, each held for an interval and `shift` intervals late.

    `phase` is where motion sample k lies in the interval over which torque k would be held if it were not late.
    Samples of the motion for which no torque was recorded are left out.
    """
    at = phase - shift
    at = round(at) if abs(at - round(at)) < 1e-9 else at
    ahead = floor(at)
    remaining = 1.0 - (at - ahead)
    needs_next = remaining < 1.0  # the torque after the last one is needed by no complete interval then
    first = max(0, -ahead)
    stop = min(n_samples, n_samples - ahead + (0 if needs_next else 1))
    return HoldSchedule(ahead, remaining, first, stop)


def held_segments(tau: FloatArray, at: HoldSchedule, interval: float, rows: slice) -> list[Segment]:
    """Split held torques tau (n_samples, ...) at their switching, for the motion samples in `rows`."""
    n = rows.stop - rows.start - 1
    before = tau[rows.start + at.ahead : rows.start + at.ahead + n]
    if at.remaining == 1.0:
        return [Segment(interval, before, before)]
    after = tau[rows.start + at.ahead + 1 : rows.start + at.ahead + 1 + n]
    return [Segment(at.remaining * interval, before, before), Segment((1.0 - at.remaining) * interval, after, after)]


def times(held: Sequence[Segment], moving: FloatArray, interval: float) -> list[Segment]:
    """Multiply a held signal by one that is linear from sample to sample: linear in every segment again."""
    segments, done = [], 0.0
    slope = (moving[1:] - moving[:-1]) / interval
    for segment in held:
        before = moving[:-1] + slope * done
        done += segment.length
        segments.append(Segment(segment.length, segment.start * before, segment.end * (moving[:-1] + slope * done)))
    return segments


def integral(segments: Sequence[Segment]) -> FloatArray:
    """Integrate a signal from the first sample on, (n_samples, ...)."""
    grown = sum((0.5 * segment.length) * (segment.start + segment.end) for segment in segments)
    return np.concatenate([np.zeros((1, *np.shape(grown)[1:])), np.cumsum(grown, axis=0)])


def lagged(segments: Sequence[Segment], *, cutoff: float, order: int = 1) -> list[FloatArray]:
    """Filter a signal by λ/(s + λ) once, twice … `order` times, from rest at the first sample on.

    Each of the results is (n_samples, ...), 0 at the first sample. `cutoff` is λ, rad/s.
    """
    from scipy.signal import lfilter

    check_filter(cutoff, order)
    transition = np.eye(order)
    pushes: list[FloatArray] = [np.zeros(())] * order  # what an interval's pieces add to each stage
    for segment in segments:
        step, from_start, from_end = _over_segment(cutoff, order, segment.length)
        transition = step @ transition
        own = [from_start[i] * segment.start + from_end[i] * segment.end for i in range(order)]
        pushes = [sum((step[i, j] * pushes[j] for j in range(i + 1)), own[i]) for i in range(order)]
    out: list[FloatArray] = []
    for i in range(order):
        push = sum((transition[i, j] * out[j][:-1] for j in range(i)), pushes[i])
        stage = np.zeros((len(push) + 1, *push.shape[1:]))
        if len(push):
            stage[1:] = lfilter([1.0], [1.0, -transition[i, i]], push, axis=0)
        out.append(stage)
    return out


def check_filter(cutoff: float, order: int) -> None:
    """Check a filter's settings."""
    positive(cutoff, "cutoff")
    if not 1 <= order <= MOST_STAGES:
        raise ValueError(f"order is {order}, expected 1 to {MOST_STAGES} first-order filters in a row")


def _over_segment(cutoff: float, order: int, length: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve x_i' = λ (x_{i-1} - x_i), x_0 the signal, in a segment: x ← step x + from_start · u + from_end · u_end."""
    from scipy.linalg import expm

    rates = np.zeros((order + 2, order + 2))  # of x, then of the signal, which grows evenly to its end
    rates[:order, :order] = cutoff * length * (np.eye(order, k=-1) - np.eye(order))
    rates[0, order] = cutoff * length
    rates[order, order + 1] = 1.0
    solved = np.asarray(expm(rates), dtype=np.float64)
    growth = solved[:order, order + 1]
    return solved[:order, :order], solved[:order, order] - growth, growth


@dataclass(frozen=True, slots=True)
class TorqueDelay:
    """Delay of recorded torques, and its effect on the residual."""

    value: float  # s; negative if they act earlier
    sigma: float  # s; residuals that hang together are counted as such
    left: float  # share of the filtered torques' norm, joints weighted, that the model leaves at this delay
    without: float  # the same at no delay
    steps: int  # that the search took


@one_blas_thread()
def scheme_delay(
    robot: Robot, runs: Sequence[Samples], scheme: Scheme, *, columns: IntArray | None = None
) -> TorqueDelay:
    """Find the delay of the torques by Gauss and Newton: min over d of ‖F τ(t - d) - W β‖, β eliminated.

    Of the scheme, whatever its kind, filter, hold and settling time are used, but not its delay.
    """
    columns = base_parameters(robot).kept if columns is None else columns
    scheme = replace(scheme, kind="filtered dynamic", delay=0.0)
    check_runs(robot, runs, scheme)
    search = _Search(robot, runs, scheme, columns)
    grid = np.linspace(-search.reach, search.reach, 2 * GRID + 1)
    late = float(grid[np.argmin([search.left(d) for d in grid])])
    taken, step = 0, np.inf
    while taken < STEPS and abs(step) >= SETTLED * search.interval:
        search.weigh(late)
        step = float(np.clip(search.step(late)[0], -search.reach / GRID, search.reach / GRID))
        late = float(np.clip(late + step, -search.reach, search.reach))
        taken += 1
    search.weigh(late)
    return TorqueDelay(late, search.step(late)[1], search.left(late), search.left(0.0), taken)


class _Search:
    """Filtered equations of all runs, on the samples whose torques are known at every delay searched."""

    def __init__(self, robot: Robot, runs: Sequence[Samples], scheme: Scheme, columns: IntArray) -> None:
        self.runs, self.scheme = runs, scheme
        self.interval = max(1.0 / run.sample_rate_hz for run in runs)
        self.reach = min(LONGEST, *(len(run) / run.sample_rate_hz / 10.0 for run in runs))
        self.slices, blocks, self.kept = [], [], []
        for run in runs:
            margin = int(np.ceil(self.reach * run.sample_rate_hz)) + 2
            kept = slice(margin, len(run) - margin)
            if kept.stop - kept.start < 3:
                raise ExcitorError(f"run {run.run!r} has {len(run)} samples, too few to look for a delay of torques")
            motion = run.motion[kept]
            settled = np.arange(kept.stop - kept.start) >= scheme.settle * run.sample_rate_hz
            blocks.append(filtered_momentum(robot, motion, scheme, columns, 1.0 / run.sample_rate_hz)[settled])
            self.slices.append(kept)
            self.kept.append(settled)
        self.W = np.concatenate(blocks)  # (n_samples, n_joints, n_columns)
        norms = np.linalg.norm(self.W, axis=(0, 1))
        if not norms.any():
            raise ExcitorError("torques need none of the parameters in these runs, so nothing shows when they act")
        self.W = self.W[:, :, norms > 0.0] / norms[norms > 0.0]
        size = np.sqrt(np.mean(self.torques(0.0) ** 2, axis=0))
        self._take(np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 0.0))

    def torques(self, late: float) -> FloatArray:
        """Filter torques delayed by `late`, (n_samples, n_joints)."""
        found = []
        for run, kept, settled in zip(self.runs, self.slices, self.kept, strict=True):
            segments, _ = torque_segments(run, replace(self.scheme, delay=late), kept)
            found.append(filtered_torques(segments, self.scheme)[settled])
        return np.concatenate(found)

    def residual(self, y: FloatArray) -> FloatArray:
        """Weight filtered signals (n_samples, n_joints) and subtract their projection on the model's columns."""
        y = (y * self.weights).ravel()
        for _ in range(2):
            y = y - self.basis @ (self.basis.T @ y)
        return y

    def left(self, late: float) -> float:
        """Residual's share of the weighted torques' norm after a refit."""
        y = self.torques(late)
        return float(np.linalg.norm(self.residual(y)) / (np.linalg.norm(y * self.weights) or 1.0))

    def weigh(self, late: float) -> None:
        """Set the joints' weights by the model's residuals."""
        rest = self.residual(self.torques(late)).reshape(-1, len(self.weights))
        sigma = np.sqrt(np.mean(rest**2, axis=0))  # in present weights
        floor = 1e-9 * sigma.max(initial=0.0)
        self._take(np.where(sigma > floor, self.weights / np.where(sigma > floor, sigma, 1.0), 0.0))

    def step(self, late: float) -> tuple[float, float]:
        """Compute the next step of the delay, and σ of the resulting delay."""
        aside = 0.1 * self.interval
        slope = self.residual((self.torques(late + aside) - self.torques(late - aside)) / (2.0 * aside))
        rest = self.residual(self.torques(late))
        steep = float(slope @ slope)
        if not steep > 0.0:
            raise ExcitorError("torques hardly change, so they do not show when they act; give runs that move")
        ahead = -float(slope @ rest) / steep
        influence = (slope * (rest + ahead * slope)).reshape(-1, len(self.weights)).sum(axis=1)
        return ahead, float(np.sqrt(self._together(influence) / (1.0 - self._taken())) / steep)

    def _together(self, influence: FloatArray) -> float:
        """Estimate the variance of a sum of correlated terms, by Bartlett's window over the filter's memory."""
        total = 0.0
        for g, rate in self._by_run(influence):
            reach = int(MEMORY * self.scheme.order / self.scheme.cutoff * rate)
            total += float(g @ g)
            for lag in range(1, min(reach, len(g) - 1) + 1):
                total += 2.0 * (1.0 - lag / (reach + 1.0)) * float(g[lag:] @ g[:-lag])
        return max(total, 0.0)

    def _taken(self) -> float:
        """Return the share of errors as slow as the filter that the fitted columns absorb: Σ qᵀ V q / tr V.

        V has correlations exp(-λ |t| / order); few independent errors are left of short runs.
        """
        from scipy.signal import lfilter

        n_joints = len(self.weights)
        total = 0.0
        for q, rate in self._by_run(self.basis.reshape(-1, n_joints, self.basis.shape[1])):
            a = np.exp(-self.scheme.cutoff / self.scheme.order / rate)
            total += float(np.sum(q * (2.0 * lfilter([1.0], [1.0, -a], q, axis=0) - q)))
        return min(total / (len(self.W) * max(int(np.count_nonzero(self.weights)), 1)), MOST_TAKEN)

    def _by_run(self, values: FloatArray) -> list[tuple[FloatArray, float]]:
        """Split values (n_samples, ...) of all runs into those of each, with its rate."""
        ends = np.cumsum([np.count_nonzero(settled) for settled in self.kept])
        return list(zip(np.split(values, ends[:-1]), [run.sample_rate_hz for run in self.runs], strict=True))

    def _take(self, weights: FloatArray) -> None:
        self.weights = weights
        rows = (self.W * weights[None, :, None]).reshape(-1, self.W.shape[2])
        U, values, _ = np.linalg.svd(rows, full_matrices=False)
        self.basis = U[:, values > 1e-9 * values[0]]
