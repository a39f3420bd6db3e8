"""How do signals that are held or run straight between samples pass (λ/(s + λ))^m? Exactly.

A signal is given in pieces: each interval between two samples is cut into the same few pieces, along which the signal
runs straight from one value to another. So torques that are held, and switch within an interval of the motion's samples
because they are late or belong elsewhere, are filtered as exactly as motion that runs straight from sample to sample.
s F_m is never differenced: s F_m = λ (F_{m-1} - F_m), with F_0 = 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

from excitor.identify.signals import positive
from excitor.robots.arrays import FloatArray

MOST_STAGES = 8


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """A part of every interval between samples, `length` s long: from `start` the signal runs straight to `end`."""

    length: float
    start: FloatArray  # (n_samples - 1, ...)
    end: FloatArray


@dataclass(frozen=True, slots=True)
class Switching:
    """Which held torques act on the way from one sample of the motion to the next.

    From motion sample `first` on, up to before `stop`: on the way from k to k + 1, torque k + `ahead` acts for
    `remaining` of an interval, the next one for the rest.
    """

    ahead: int
    remaining: float  # 0 < remaining <= 1
    first: int
    stop: int


def zero_order_hold(u: FloatArray, interval: float) -> list[Piece]:
    """Hold each sample until the next."""
    return [Piece(interval, u[:-1], u[:-1])]


def first_order_hold(u: FloatArray, interval: float) -> list[Piece]:
    """Run straight from sample to sample."""
    return [Piece(interval, u[:-1], u[1:])]


def switching(n_samples: int, phase: float, shift: float) -> Switching:
    """Find which torques act, torques held for an interval each and `shift` intervals late.

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
    return Switching(ahead, remaining, first, stop)


def held_pieces(tau: FloatArray, at: Switching, interval: float, rows: slice) -> list[Piece]:
    """Cut held torques tau (n_samples, ...) at their switching, for the motion samples in `rows`."""
    n = rows.stop - rows.start - 1
    before = tau[rows.start + at.ahead : rows.start + at.ahead + n]
    if at.remaining == 1.0:
        return [Piece(interval, before, before)]
    after = tau[rows.start + at.ahead + 1 : rows.start + at.ahead + 1 + n]
    return [Piece(at.remaining * interval, before, before), Piece((1.0 - at.remaining) * interval, after, after)]


def times(held: Sequence[Piece], moving: FloatArray, interval: float) -> list[Piece]:
    """Multiply a held signal by one that runs straight from sample to sample: straight in every piece again."""
    pieces, done = [], 0.0
    slope = (moving[1:] - moving[:-1]) / interval
    for piece in held:
        before = moving[:-1] + slope * done
        done += piece.length
        pieces.append(Piece(piece.length, piece.start * before, piece.end * (moving[:-1] + slope * done)))
    return pieces


def integral(pieces: Sequence[Piece]) -> FloatArray:
    """Integrate a signal from the first sample on, (n_samples, ...)."""
    grown = sum((0.5 * piece.length) * (piece.start + piece.end) for piece in pieces)
    return np.concatenate([np.zeros((1, *np.shape(grown)[1:])), np.cumsum(grown, axis=0)])


def lagged(pieces: Sequence[Piece], *, cutoff: float, order: int = 1) -> list[FloatArray]:
    """Filter a signal by λ/(s + λ) once, twice … `order` times, from rest at the first sample on.

    Each of the results is (n_samples, ...), 0 at the first sample. `cutoff` is λ, rad/s.
    """
    from scipy.signal import lfilter

    check_filter(cutoff, order)
    transition = np.eye(order)
    pushes: list[FloatArray] = [np.zeros(())] * order  # what an interval's pieces add to each stage
    for piece in pieces:
        step, from_start, from_end = _over_piece(cutoff, order, piece.length)
        transition = step @ transition
        pushes = [
            sum((step[i, j] * pushes[j] for j in range(i + 1)), from_start[i] * piece.start + from_end[i] * piece.end)
            for i in range(order)
        ]
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


def _over_piece(cutoff: float, order: int, length: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve x_i' = λ (x_{i-1} - x_i), x_0 the signal, over a piece: x ← step x + from_start · u + from_end · u_end."""
    from scipy.linalg import expm

    rates = np.zeros((order + 2, order + 2))  # of x, then of the signal, which grows evenly to its end
    rates[:order, :order] = cutoff * length * (np.eye(order, k=-1) - np.eye(order))
    rates[0, order] = cutoff * length
    rates[order, order + 1] = 1.0
    solved = np.asarray(expm(rates), dtype=np.float64)
    growth = solved[:order, order + 1]
    return solved[:order, :order], solved[:order, order] - growth, growth
