"""Smooth stretches of a motion, and how far apart two of their samples can possibly stray.

A run is made of a ramp, a period that repeats, and a ramp. On each of them the positions are smooth, and every
derivative has a bound that needs no samples. Between samples h apart, with c a bound of |f''|,

    min(f_a, f_b) - h²/8 · c  ≤  f  ≤  max(f_a, f_b) + h²/8 · c.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np

from excitor.design.fourier import Excitation, Trajectory, ramp_waves, waves
from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.robot import Motion

N_ORDERS = 5  # derivatives that torques' curvature needs: positions to their fourth

# Largest |dᵏe/dsᵏ| of the envelope e (`fourier.rise`), k = 0 … 6; with u = s(1 - s):
# e' = 140 u³ and e''' = 840 u (1 - 5u) have theirs at s = 1/2, e'' = 420 u² (1 - 2s) at u = 1/5, others at the ends.
RISE_MOST = np.array([1.0, 35.0 / 16.0, 84.0 / (5.0 * np.sqrt(5.0)), 52.5, 840.0, 10080.0, 50400.0])

Evaluate = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """A stretch of motion whose positions are smooth from its start to its end."""

    name: str
    start: float  # s from the start of the whole motion
    duration: float
    evaluate: Evaluate  # (t from the piece's start (n_t,), order) -> derivative (n_t, n_joints)
    most: FloatArray  # (7, n_joints): bounds of |q⁽ᵏ⁾| over the piece, from its coefficients alone
    degree: int = 0  # of the trigonometric polynomial of which this is one whole period; 0: it is none

    def __post_init__(self) -> None:
        freeze(self, most="7 n_joints")


@dataclass(frozen=True, eq=False, slots=True)
class Spans:
    """Intervals of a piece: the motion at their ends, and bounds of its derivatives inside.

    `motion` holds q and its derivatives at the times `t`; interval k lies between samples left[k] and right[k].
    """

    piece: Piece
    t: FloatArray  # (n_t,)
    jets: FloatArray  # (5, n_t, n_joints): q to its fourth derivative
    left: IntArray  # (n_spans,)
    right: IntArray

    @property
    def h(self) -> FloatArray:
        """Lengths of the intervals, (n_spans, 1), s."""
        return (self.t[self.right] - self.t[self.left])[:, None]

    @property
    def motion(self) -> Motion:
        """The motion at the ends, (n_t, n_joints)."""
        return Motion(*self.jets[:3])

    def rates(self) -> FloatArray:
        """Bound |q⁽ᵏ⁾| inside the intervals, k = 0 … 4: (5, n_spans, n_joints)."""
        return np.stack([self._inside(k, (self.h**2 / 8.0) * self.piece.most[k + 2]) for k in range(N_ORDERS)])

    def enclose(self, values: FloatArray, curvature: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound a quantity from below and above, given its values (n_t, …) and a bound of its second derivative."""
        stray = (self.h**2 / 8.0) * curvature
        a, b = values[self.left], values[self.right]
        return np.minimum(a, b) - stray, np.maximum(a, b) + stray

    def worst_of_ends(self, values: FloatArray) -> FloatArray:
        """Take the larger of the values at both ends, (n_spans, …)."""
        return np.maximum(values[self.left], values[self.right])

    def _inside(self, order: int, stray: FloatArray) -> FloatArray:
        return self.worst_of_ends(np.abs(self.jets[order])) + stray


def run_pieces(trajectory: Trajectory) -> tuple[Piece, ...]:
    """Cut a run into ramp-in, one measured period (the warm-up's periods are the same), and ramp-out."""
    excitation = trajectory.excitation
    begin = excitation.settle + excitation.ramp
    leave = begin + (excitation.warm_up + excitation.measured) * excitation.period
    first = begin + excitation.warm_up * excitation.period
    swing = np.concatenate([trajectory.sines, trajectory.cosines], axis=1)
    center = trajectory.center

    def period(t: FloatArray, order: int) -> FloatArray:
        return _on(center, swing @ waves(excitation, t, order), order)

    def entering(t: FloatArray, order: int) -> FloatArray:
        return _on(center, swing @ ramp_waves(excitation, t, leaving=False, order=order), order)

    def leaving(t: FloatArray, order: int) -> FloatArray:
        return _on(center, swing @ ramp_waves(excitation, t, leaving=True, order=order), order)

    swings = series_most(trajectory)
    steady = swings.copy()
    steady[0] += np.abs(center)
    measured = Piece("measured", first, excitation.period, period, steady, excitation.harmonics[-1])
    if excitation.ramp == 0.0:
        return (measured,)
    ramps = ramp_most(swings, excitation)
    ramps[0] += np.abs(center)
    return (
        Piece("ramp-in", excitation.settle, excitation.ramp, entering, ramps),
        measured,
        Piece("ramp-out", leave, excitation.ramp, leaving, ramps),
    )


def series_most(trajectory: Trajectory) -> FloatArray:
    """Bound the derivatives of the series without its centre: Σ_k (kω)ᵐ √(a_k² + b_k²), (7, n_joints)."""
    omegas = trajectory.excitation.omega * np.asarray(trajectory.excitation.harmonics, dtype=float)
    amplitudes = np.hypot(trajectory.sines, trajectory.cosines)
    return np.stack([amplitudes @ omegas**order for order in range(RISE_MOST.size)])


def ramp_most(swings: FloatArray, excitation: Excitation) -> FloatArray:
    """Bound the derivatives of envelope times series: Σ_i C(m, i) max|e⁽ⁱ⁾| / rampⁱ · max|w⁽ᵐ⁻ⁱ⁾|, (7, n_joints)."""
    envelope = RISE_MOST / excitation.ramp ** np.arange(RISE_MOST.size)
    return np.stack(
        [sum(comb(m, i) * envelope[i] * swings[m - i] for i in range(m + 1)) for m in range(RISE_MOST.size)]
    )


def spans(piece: Piece, a: FloatArray, b: FloatArray) -> Spans:
    """Evaluate a piece at the ends of intervals from a to b, in s from its start."""
    t, inverse = np.unique(np.concatenate([a, b]), return_inverse=True)
    jets = np.stack([piece.evaluate(t, order) for order in range(N_ORDERS)])
    return Spans(piece, t, jets, inverse[: a.size], inverse[a.size :])


def even_spans(piece: Piece, n_spans: int) -> Spans:
    """Cut a piece into equal intervals."""
    edges = np.linspace(0.0, piece.duration, n_spans + 1)
    return spans(piece, edges[:-1], edges[1:])


def _on(center: FloatArray, swing: FloatArray, order: int) -> FloatArray:
    return np.asarray(swing.T + (center if order == 0 else 0.0))
