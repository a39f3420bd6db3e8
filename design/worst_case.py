"""The largest value a quantity takes between the samples too: bisect time until an upper bound is sharp enough."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from excitor.design.pieces import Piece, Spans, spans
from excitor.robots.arrays import FloatArray

_BATCH = 4096  # intervals at a time: enough for numpy, little memory

# Upper bounds over each interval (n_spans, n_rows), and values that occur at its samples (n_t, n_rows).
Bound = Callable[[Spans], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard intervals are bisected: the first cut of a piece, and when to give up."""

    n_first: int
    share: float = 0.0  # of the distance to the limit that may stay unresolved
    shortest: float = 1e-5  # s
    most_spans: int = 400_000


@dataclass(frozen=True, eq=False, slots=True)
class Worst:
    """The largest values of several quantities: proven above, seen below."""

    upper: FloatArray  # (n_rows,): no value exceeds it
    seen: FloatArray  # (n_rows,): a value that occurs
    at: FloatArray  # (n_rows,): when, in s from the motion's start
    where: tuple[str, ...]  # (n_rows,): in which piece
    n_spans: int
    smallest: float  # s


@dataclass(eq=False, slots=True)
class _Tally:
    """What is known so far."""

    upper: FloatArray
    seen: FloatArray
    at: FloatArray
    where: list[str]
    n_decided: int = 0
    n_evaluated: int = 0
    lengths: list[float] = field(default_factory=list)


def worst_case(
    pieces: tuple[Piece, ...], bound: Bound, *, limit: FloatArray, slack: FloatArray, effort: Effort
) -> Worst:
    """Bound the largest values over several pieces by bisecting intervals until every row is decided.

    A row is decided in an interval once its upper bound is within `slack` of a value that occurs somewhere, and not
    above `limit` unless a value above it has been seen.
    """
    none: FloatArray = np.full(limit.size, -np.inf)
    tally = _Tally(none.copy(), none.copy(), np.zeros(limit.size), [""] * limit.size)
    # All pieces are surveyed before any is looked at closely: what occurs elsewhere spares work.
    surveyed: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for piece in pieces:
        edges = np.linspace(0.0, piece.duration, effort.n_first + 1)
        surveyed.append((edges[:-1], edges[1:], _evaluate(tally, bound, piece, edges[:-1], edges[1:])))
    for piece, (a, b, above) in zip(pieces, surveyed, strict=True):
        waiting = _undecided(tally, a, b, above, _target(tally, limit, slack, effort), effort)
        while waiting:
            a, b = waiting.pop()
            above = _evaluate(tally, bound, piece, a, b)
            waiting += _undecided(tally, a, b, above, _target(tally, limit, slack, effort), effort)
    return Worst(tally.upper, tally.seen, tally.at, tuple(tally.where), tally.n_decided, min(tally.lengths))


def _evaluate(tally: _Tally, bound: Bound, piece: Piece, a: FloatArray, b: FloatArray) -> FloatArray:
    """Bound the intervals from a to b, and note the largest values at their ends."""
    part = spans(piece, a, b)
    above, values = bound(part)
    top = values.max(axis=0)
    for row in np.flatnonzero(top > tally.seen):
        tally.seen[row] = top[row]
        tally.at[row] = piece.start + part.t[np.argmax(values[:, row])]
        tally.where[row] = piece.name
    tally.n_evaluated += a.size
    return above


def _target(tally: _Tally, limit: FloatArray, slack: FloatArray, effort: Effort) -> FloatArray:
    """Say which upper bounds are sharp enough."""
    room = np.where(np.isfinite(limit), np.abs(limit - tally.seen), 0.0)
    sharp = tally.seen + slack + effort.share * room
    return np.where(tally.seen > limit, sharp, np.minimum(sharp, limit))


def _undecided(
    tally: _Tally, a: FloatArray, b: FloatArray, above: FloatArray, target: FloatArray, effort: Effort
) -> list[tuple[FloatArray, FloatArray]]:
    """Note the intervals that are decided or given up, and halve the others."""
    given_up = (b - a <= effort.shortest) | (tally.n_evaluated > effort.most_spans)
    decided = (above <= target).all(axis=1) | given_up
    if decided.any():
        np.maximum(tally.upper, above[decided].max(axis=0), out=tally.upper)
        tally.n_decided += int(decided.sum())
        tally.lengths.append(float((b - a)[decided].min()))
    a, b = a[~decided], b[~decided]
    middle = 0.5 * (a + b)
    a, b = np.concatenate([a, middle]), np.concatenate([middle, b])
    return [(a[k : k + _BATCH], b[k : k + _BATCH]) for k in range(0, a.size, _BATCH)]
