"""Runs other than Fourier series: moves from pose to pose at stated speeds, with smooth ends, and stops in between.

A move from a to b speeds up over a blend time B, cruises, and slows down alike: with e the envelope of the ramps and
E its integral, the share of the way travelled after time t is

    v B E(t/B)  up to t = B,      v (t - B/2)  while cruising,      1 - v B E((T - t)/B)  at the end,   v = 1 / (T - B).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.fourier import rise
from excitor.design.pieces import RISE_MOST, Piece
from excitor.design.row_limits import row_excesses, row_limits, row_values
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion, Robot

SlowKind = Literal["static", "friction", "warm-up"]

_CHUNK = 20_000  # samples that are checked at once
_ROUNDING = 1e-9


class InfeasibleRun(ExcitorError):
    """A run that cannot be made within the limits; `reasons` name the constraints that stand in its way."""

    def __init__(self, what: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(f"{what}: {'; '.join(reasons)}")


@dataclass(frozen=True, eq=False, slots=True)
class SlowRun:
    """Knots and the moves between them; equal neighbours are a stop. Starts and ends at rest at the same pose."""

    kind: SlowKind
    sample_time: float  # of the controller; every duration is a whole number of samples
    knots: FloatArray  # (n_moves + 1, n_joints)
    durations: FloatArray  # (n_moves,), s
    blends: FloatArray  # (n_moves,), s: of speeding up, and of slowing down
    measured: BoolArray  # (n_moves,): stops, and the cruising part of moves, that count
    notes: tuple[str, ...] = ()  # what was left out, in sentences

    def __post_init__(self) -> None:
        freeze(self, knots="n_knots n_joints")
        n = f"{len(self.knots) - 1}"
        freeze(self, durations=n, blends=n, measured=f"bool: {n}")
        if not 0.0 < self.sample_time < np.inf:
            raise ValueError(f"sample_time is {self.sample_time}, expected a positive time in s")
        steps = self.durations / self.sample_time
        if not (len(self.durations) and (np.abs(steps - steps.round()) < 1e-6 * np.maximum(1.0, steps)).all()):
            raise ValueError(f"durations must be whole numbers of controller samples of {self.sample_time:g} s")
        if not ((self.blends > 0.0) & (self.blends <= 0.5 * self.durations * (1.0 + _ROUNDING))).all():
            raise ValueError("blends must be positive and at most half of their move's duration")
        if not np.array_equal(self.knots[0], self.knots[-1]):
            raise ValueError(f"the run ends at {self.knots[-1].tolist()}, expected where it starts")

    @property
    def duration(self) -> float:
        """How long the run takes, s."""
        return float(self.durations.sum())


def slow_series(run: SlowRun, t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative of the run, (n_t, n_joints), t in s from its start; at rest before and after it."""
    t = np.clip(np.asarray(t, dtype=float), 0.0, run.duration)
    edges = np.concatenate([[0.0], np.cumsum(run.durations)])
    k = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, len(run.durations) - 1)
    share = travelled(np.minimum(t - edges[k], run.durations[k]), run.durations[k], run.blends[k], order)
    out = share[:, None] * np.diff(run.knots, axis=0)[k]
    return np.asarray(out + run.knots[k] if order == 0 else out)


def slow_motion(run: SlowRun, t: FloatArray) -> Motion:
    """Evaluate the run with its velocities and accelerations."""
    return Motion(slow_series(run, t), slow_series(run, t, 1), slow_series(run, t, 2))


def measured_times(run: SlowRun, step: float) -> FloatArray:
    """List times a step apart on what is measured: stops, and moves while they cruise."""
    times: list[FloatArray] = [np.empty(0)]
    for start, end in _measured_spans(run):
        n = max(1, round((end - start) / step))
        times.append(start + (np.arange(n) + 0.5) * ((end - start) / n))
    return np.concatenate(times)


def measured_motion(run: SlowRun, step: float) -> Motion:
    """Sample what is measured evenly, as `robots.gram.gram` and the forecast take it; see `measured_duration`."""
    return slow_motion(run, measured_times(run, step))


def measured_duration(run: SlowRun) -> float:
    """Sum the time that is measured, s."""
    return float(sum(end - start for start, end in _measured_spans(run)))


def slow_pieces(run: SlowRun) -> tuple[Piece, ...]:
    """Cut a run into pieces that are polynomials, each with bounds of all its derivatives, for the certificate.

    A move that is made again is listed once.
    """
    starts = np.concatenate([[0.0], np.cumsum(run.durations)])
    pieces: list[Piece] = []
    made = set()
    for k in np.flatnonzero(np.diff(run.knots, axis=0).any(axis=1)).tolist():
        move = (run.knots[k : k + 2].tobytes(), float(run.durations[k]), float(run.blends[k]))
        if move in made:
            continue
        made.add(move)
        T, B, start = float(run.durations[k]), float(run.blends[k]), float(starts[k])
        pieces.append(_piece(run, k, f"move {k + 1} speeding up", (start, 0.0, B)))
        if T - B > B * (1.0 + _ROUNDING):
            pieces.append(_piece(run, k, f"move {k + 1} cruising", (start, B, T - B)))
        pieces.append(_piece(run, k, f"move {k + 1} slowing down", (start, T - B, T)))
    return tuple(pieces)


def excesses(robot: Robot, run: SlowRun, constraints: Constraints, *, step: float = 0.01) -> tuple[str, ...]:
    """Name every constraint that the run breaks on a grid of `step` s, with its limit and its worst; none if clear."""
    rows = row_limits(robot, constraints)
    worst = np.full(len(rows.names), -np.inf)
    square, n = np.zeros(robot.n_joints), max(2, int(np.ceil(run.duration / step)) + 1)
    for part in _chunks(n):
        t = part * (run.duration / (n - 1))
        motion = slow_motion(run, t)
        tau = inverse_dynamics(robot, motion)
        square += np.square(tau).sum(axis=0)
        values = row_values(robot, constraints, motion, jerk=slow_series(run, t, 3), tau=tau)
        worst = np.maximum(worst, values)
    rms = np.sqrt(square / n)
    found = list(row_excesses(rows, worst, _ROUNDING * np.maximum(1.0, np.abs(rows.limits))).values())
    found += [
        f"torque rms {name} reaches {value:.4g}, limit {limit:.4g}"
        for name, value, limit in zip(robot.joint_names, rms, constraints.torque_rms, strict=True)
        if value > limit
    ]
    return tuple(found)


def move_time(distance: FloatArray, constraints: Constraints, *, share: float, sample_time: float) -> float:
    """Find how long a move with blends of a third takes at a share of the limits, in whole samples, s."""
    limits = constraints.limits
    d = np.abs(distance)
    velocity = np.where(np.isfinite(limits.velocity), limits.velocity, 1.0)
    needs = [
        (1.5 * d / (share * velocity)).max(),
        np.sqrt((4.5 * RISE_MOST[1] * d / (share * limits.acceleration)).max()),
        np.cbrt((13.5 * RISE_MOST[2] * d / (share * limits.jerk)).max()),
        6.0 * sample_time,
    ]
    return whole(float(max(needs)), sample_time)


def whole(time: float, sample_time: float) -> float:
    """Round a time up to whole controller samples."""
    return float(np.ceil(time / sample_time - 1e-9) * sample_time)


def travelled(t: FloatArray, T: FloatArray, B: FloatArray, order: int) -> FloatArray:
    """Evaluate derivatives of the share of the way travelled, (n_t,)."""
    v = 1.0 / (T - B)
    late = t >= np.maximum(T - B, B)
    s = np.where(late, T - t, t) / B
    cruising = ~late & (t > B)
    if order == 0:
        blend = v * B * (7.0 - (14.0 - (10.0 - 2.5 * s) * s) * s) * s**5
        return np.where(cruising, v * (t - 0.5 * B), np.where(late, 1.0 - blend, blend))
    side = np.where(late, (-1.0) ** (order - 1), 1.0)
    return np.where(cruising, v if order == 1 else 0.0, side * v * B ** (1 - order) * rise(s, order - 1))


def _measured_spans(run: SlowRun) -> Iterator[tuple[float, float]]:
    start = 0.0
    for k, duration in enumerate(run.durations):
        blend = float(run.blends[k]) if (run.knots[k] != run.knots[k + 1]).any() else 0.0
        if run.measured[k] and duration > 2.0 * blend:
            yield start + blend, start + float(duration) - blend
        start += float(duration)


def _piece(run: SlowRun, k: int, name: str, times: tuple[float, float, float]) -> Piece:
    """Take move k, begun at times[0], from times[1] to times[2] s after that."""
    start, first, last = times
    T, B = run.durations[k], run.blends[k]
    a, way = run.knots[k], run.knots[k + 1] - run.knots[k]

    def evaluate(t: FloatArray, order: int) -> FloatArray:
        n = len(t)
        share = travelled(np.clip(first + t, first, last), np.full(n, T), np.full(n, B), order)[:, None]
        return np.asarray(share * way + (a if order == 0 else 0.0))

    rates = RISE_MOST[:-1] * B ** -np.arange(RISE_MOST.size - 1.0) / (T - B)
    if name.endswith("cruising"):
        rates[1:] = 0.0
    place = np.maximum(np.abs(a), np.abs(run.knots[k + 1]))
    most = np.concatenate([place[None], rates[:, None] * np.abs(way)])
    return Piece(name, start + first, last - first, evaluate, most)


def _chunks(n: int) -> Iterator[IntArray]:
    for first in range(0, n, _CHUNK):
        yield np.arange(first, min(first + _CHUNK, n))
