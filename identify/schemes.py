"""Five ways to write y = W β of the same runs: dynamic, filtered dynamic, supplied energy, power, filtered power.

With τ = d(A χ)/dt + B χ, energy H = h χ, friction power ω χ and F = (λ/(s + λ))^m [ChavezOlivares2012]:

    dynamic           τ         = Y χ
    filtered dynamic  F τ       = (s F (A - A₀) + F B) χ
    energy            ∫ dqᵀτ dt = (h - h₀ + ∫ ω dt) χ
    power             dqᵀτ      = (dh/dt + ω) χ
    filtered power    F (dqᵀτ)  = (s F (h - h₀) + F ω) χ

Filters and integrals start anew at each run's first sample, both sides from nothing: no run need begin at rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.identify.held_filters import (
    Piece,
    Switching,
    check_filter,
    first_order_hold,
    held_pieces,
    integral,
    lagged,
    switching,
    times,
    zero_order_hold,
)
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
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import energy_regressor, friction_load, momentum_form
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_power_columns
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

SchemeKind = Literal["dynamic", "filtered dynamic", "energy", "power", "filtered power"]
KINDS: tuple[SchemeKind, ...] = ("dynamic", "filtered dynamic", "energy", "power", "filtered power")
CUTOFF = 9.11  # rad/s, the paper's, for its robot


@dataclass(frozen=True, slots=True)
class Scheme:
    """A regression model with its settings.

    Torques are held from sample to sample always. `hold` says what motion does in between: "zero" holds it too, as
    published; "first" runs straight, so that the work of held torques and their filtered power are exact.
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
    robot: Robot,
    runs: Sequence[Samples],
    scheme: Scheme,
    *,
    columns: IntArray | None = None,
    rows: Rows | None = None,
) -> Regression:
    """Set up y = W β of runs by a scheme, columns of the base parameters unless others are chosen.

    Rows are labelled as those of `dynamic_regression`; a scheme with one equation a sample has joint -1. Thinning goes
    over both sides alike. Dead zones and settling about reversals leave out rows of the instantaneous models, dynamic
    and power; what filters and integrals remember cannot be left out so. No row has a variance.
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
    """Take the torques that act where the motion is sampled; say which sample is the first that has any.

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
    motion = Motion(run.motion.q[kept], run.motion.dq[kept], run.motion.ddq[kept])
    return replace(run, motion=motion, tau=tau, variance=None, noise=None, phase=0.5), kept.start


def _block(robot: Robot, number: int, run: Samples, scheme: Scheme, columns: IntArray, rows: Rows) -> Block:
    """Set up one run's equations, filtered or integrated."""
    torques, kept = torque_pieces(run, scheme)
    motion = Motion(run.motion.q[kept], run.motion.dq[kept], run.motion.ddq[kept])
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


def torque_pieces(run: Samples, scheme: Scheme, rows: slice | None = None) -> tuple[list[list[Piece]], slice]:
    """Cut each joint's held torques where they switch between the motion's samples; say which samples have torques."""
    delays = scheme.delays(run.tau.shape[1])
    ways = [switching(len(run), run.phase, late * run.sample_rate_hz) for late in delays]
    kept = _common(run, ways, [way.stop for way in ways]) if rows is None else rows
    pieces = [held_pieces(run.tau[:, j], way, 1.0 / run.sample_rate_hz, kept) for j, way in enumerate(ways)]
    return pieces, kept


def filtered_torques(torques: Sequence[Sequence[Piece]], scheme: Scheme) -> FloatArray:
    """Filter held torques, (n_samples, n_joints)."""
    return np.stack([lagged(pieces, cutoff=scheme.cutoff, order=scheme.order)[-1] for pieces in torques], axis=1)


def filtered_momentum(robot: Robot, motion: Motion, scheme: Scheme, columns: IntArray, interval: float) -> FloatArray:
    """Write s F (A - A₀) + F B, joint by joint, (n_samples, n_joints, n_columns)."""
    form = momentum_form(robot, motion, columns=columns)
    return np.stack(
        [_through(form.A[:, j] - form.A[0, j], form.B[:, j], scheme, interval) for j in range(robot.n_joints)],
        axis=1,
    )


def _through(stored: FloatArray, flow: FloatArray, scheme: Scheme, interval: float) -> FloatArray:
    """Write s F_m x + F_m u as λ F_{m-1} x + F_m (u - λ x): nothing is differenced."""
    hold = zero_order_hold if scheme.hold == "zero" else first_order_hold
    before = stored
    if scheme.order > 1:
        before = lagged(hold(stored, interval), cutoff=scheme.cutoff, order=scheme.order - 1)[-1]
    rest = hold(flow - scheme.cutoff * stored, interval)
    return scheme.cutoff * before + lagged(rest, cutoff=scheme.cutoff, order=scheme.order)[-1]


def _energy(robot: Robot, motion: Motion, columns: IntArray) -> tuple[FloatArray, FloatArray]:
    """Find what is stored since the start, and what friction takes, by parameter, each (n_samples, n_columns)."""
    stored = energy_regressor(robot, motion)[:, columns]
    taken = np.zeros((len(motion), len(layout(robot))))
    friction_power_columns(robot, motion, friction_load(robot, motion), taken)
    return stored - stored[0], taken[:, columns]


def _powers(torques: Sequence[Sequence[Piece]], dq: FloatArray, scheme: Scheme, interval: float) -> list[Piece]:
    """Give the power dqᵀτ in pieces: exact for held torques on straight velocities, or from the samples alone."""
    if scheme.hold == "first":
        return _sum([times(held, dq[:, j], interval) for j, held in enumerate(torques)])
    acting = np.stack([np.append(held[0].start, held[-1].end[-1]) for held in torques], axis=1)
    power = np.sum(acting * dq, axis=1)
    return (first_order_hold if scheme.kind == "energy" else zero_order_hold)(power, interval)


def _sum(of_joints: Sequence[list[Piece]]) -> list[Piece]:
    """Add signals that may switch at different places, cut at all of them."""
    ends = sorted({round(end, 15) for pieces in of_joints for end in np.cumsum([piece.length for piece in pieces])})
    total: list[Piece] = []
    for before, after in zip([0.0, *ends[:-1]], ends, strict=True):
        parts = [_part(pieces, before, after) for pieces in of_joints]
        start, end = (np.sum([part[side] for part in parts], axis=0) for side in (0, 1))
        total.append(Piece(after - before, start, end))
    return total


def _part(pieces: Sequence[Piece], before: float, after: float) -> tuple[FloatArray, FloatArray]:
    """Read a signal's values at the ends of a stretch that no switching interrupts."""
    begun = 0.0
    for piece in pieces:
        if 0.5 * (before + after) <= begun + piece.length:
            break
        begun += piece.length
    slope = (piece.end - piece.start) / piece.length
    return piece.start + slope * (before - begun), piece.start + slope * (after - begun)


def _common(run: Samples, ways: Sequence[Switching], stops: Sequence[int]) -> slice:
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
    """Refuse runs that a scheme has no equations for."""
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
