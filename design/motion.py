"""Finite Fourier series that start and end at rest: coefficients -> positions and their derivatives.

[Volkmann2020] eq. (6), with amplitudes in rad: q(t) = c + Σ_k a_k sin(kωt) + b_k cos(kωt), ω = 2π / period.

Smooth segments of a motion carry bounds of all derivatives, which bound the motion between samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb
from typing import Literal

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.robot import Motion

PhaseName = Literal["settle", "ramp-in", "warm-up", "measured", "ramp-out", "hold"]

# e(s) = 35 s⁴ - 84 s⁵ + 70 s⁶ - 20 s⁷ rises from 0 to 1 with three vanishing derivatives at both ends.
_RISE = np.polynomial.Polynomial([0.0, 0.0, 0.0, 0.0, 35.0, -84.0, 70.0, -20.0])


@dataclass(frozen=True, eq=False, slots=True)
class Excitation:
    """Form of a run's motion (period, harmonics, moving joints) and its execution (ramps, rests, periods); times in s.

    The period is a whole number of controller samples, and so is every other time.
    """

    period: float
    sample_time: float  # of the controller
    harmonics: tuple[int, ...]  # of 1 / period; those left out stay silent
    moving: BoolArray  # (n_joints,): the others stand still
    ramp: float = 0.0  # 0: the series starts and ends in full motion
    settle: float = 0.0  # standing still before
    hold: float = 0.0  # standing still afterwards
    warm_up: int = 0  # periods before the measured ones
    measured: int = 1

    def __post_init__(self) -> None:
        freeze(self, moving="bool: n_joints")
        object.__setattr__(self, "harmonics", tuple(int(k) for k in self.harmonics))
        for name in ("period", "sample_time"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive time in s")
        for name in ("period", "ramp", "settle", "hold"):
            steps = getattr(self, name) / self.sample_time
            if not steps >= 0.0 or abs(steps - round(steps)) > 1e-6 * max(1.0, steps):
                raise ValueError(
                    f"{name} is {getattr(self, name):g} s, which is no whole number of controller samples of "
                    f"{self.sample_time:g} s; {round(max(steps, 0.0)) * self.sample_time:g} s would be"
                )
        if not self.harmonics or sorted(set(self.harmonics)) != list(self.harmonics) or self.harmonics[0] < 1:
            raise ValueError(f"harmonics are {self.harmonics}, expected rising numbers from 1, such as (1, 2, 3, 4, 5)")
        most = round(self.period / self.sample_time) // 20
        if self.harmonics[-1] > most:
            raise ValueError(
                f"harmonic {self.harmonics[-1]} has fewer than 20 controller samples a cycle; a period of "
                f"{self.period:g} s at {self.sample_time:g} s carries {most} harmonics at most"
            )
        if self.warm_up < 0 or self.measured < 1:
            raise ValueError(f"periods are {self.warm_up} + {self.measured}, expected at least 0 + 1")
        if not self.moving.any():
            raise ValueError("no joint moves; let at least one")

    @property
    def omega(self) -> float:
        """Angular frequency of the first harmonic, rad/s."""
        return 2.0 * np.pi / self.period

    @property
    def duration(self) -> float:
        """Duration of the whole run, s."""
        return self.settle + 2.0 * self.ramp + (self.warm_up + self.measured) * self.period + self.hold


@dataclass(frozen=True, eq=False, slots=True)
class Trajectory:
    """The coefficients of a run, and the pose it swings about, starts from and returns to."""

    excitation: Excitation
    center: FloatArray  # (n_joints,)
    sines: FloatArray  # (n_joints, n_harmonics); 0 where a joint stands still
    cosines: FloatArray

    def __post_init__(self) -> None:
        shape = f"{self.excitation.moving.size} {len(self.excitation.harmonics)}"
        freeze(self, center=str(self.excitation.moving.size), sines=shape, cosines=shape)


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run, in s from its start."""

    name: PhaseName
    start: float
    end: float


def phases(excitation: Excitation) -> tuple[Phase, ...]:
    """List the parts of a run, in their order; parts that take no time are left out."""
    spans: list[tuple[PhaseName, float]] = [
        ("settle", excitation.settle),
        ("ramp-in", excitation.ramp),
        ("warm-up", excitation.warm_up * excitation.period),
        ("measured", excitation.measured * excitation.period),
        ("ramp-out", excitation.ramp),
        ("hold", excitation.hold),
    ]
    edges = np.concatenate([[0.0], np.cumsum([span for _, span in spans])])
    return tuple(
        Phase(name, float(start), float(end))
        for (name, span), (start, end) in zip(spans, pairwise(edges), strict=True)
        if span > 0.0
    )


def waves(excitation: Excitation, t: FloatArray, order: int = 0) -> FloatArray:
    """Differentiate sin kωt for every harmonic, then of cos kωt, (2 n_harmonics, n_t)."""
    k = np.asarray(excitation.harmonics, dtype=float)[:, None]
    phase = k * excitation.omega * np.asarray(t)[None, :] + 0.5 * np.pi * order
    return np.concatenate([np.sin(phase), np.cos(phase)]) * np.tile((k * excitation.omega) ** order, (2, 1))


def rise(s: FloatArray, order: int = 0) -> FloatArray:
    """Differentiate the envelope e by s: 0 up to s = 0, 1 from s = 1."""
    inside = _RISE.deriv(order)(np.clip(s, 0.0, 1.0)) if order else _RISE(np.clip(s, 0.0, 1.0))
    return np.where((s < 0.0) | (s > 1.0), 0.0, inside) if order else np.asarray(inside)


def ramp_waves(excitation: Excitation, t: FloatArray, *, leaving: bool, order: int = 0) -> FloatArray:
    """Differentiate envelope times waves, (2 n_harmonics, n_t), t in s from the ramp's start.

    A ramp-in ends at phase 0, a ramp-out begins there: (e w)⁽ᵐ⁾ = Σ_i C(m, i) e⁽ⁱ⁾ w⁽ᵐ⁻ⁱ⁾.
    """
    t = np.asarray(t)
    phase_time = t if leaving else t - excitation.ramp
    total = np.zeros((2 * len(excitation.harmonics), t.size))
    for i in range(order + 1):
        envelope = rise(1.0 - t / excitation.ramp if leaving else t / excitation.ramp, i)
        envelope = envelope * ((-1.0) ** i if leaving else 1.0) / excitation.ramp**i
        total += comb(order, i) * envelope * waves(excitation, phase_time, order - i)
    return total


def series(trajectory: Trajectory, t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative of the steady, periodic series, (n_t, n_joints)."""
    return _combine(trajectory, waves(trajectory.excitation, t, order), order)


def steady(trajectory: Trajectory, t: FloatArray) -> Motion:
    """Evaluate the steady series with its velocities and accelerations."""
    return Motion(series(trajectory, t), series(trajectory, t, 1), series(trajectory, t, 2))


def executed(trajectory: Trajectory, t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative of the whole run, ramps and rests included, (n_t, n_joints), t in s from its start."""
    t = np.asarray(t, dtype=float)
    excitation = trajectory.excitation
    full = excitation.settle + excitation.ramp
    leave = full + (excitation.warm_up + excitation.measured) * excitation.period
    basis = np.zeros((2 * len(excitation.harmonics), t.size))
    running = (t >= full) & (t <= leave)
    basis[:, running] = waves(excitation, t[running] - full, order)
    if excitation.ramp > 0.0:
        entering = (t >= excitation.settle) & (t < full)
        leaving = (t > leave) & (t <= leave + excitation.ramp)
        basis[:, entering] = ramp_waves(excitation, t[entering] - excitation.settle, leaving=False, order=order)
        basis[:, leaving] = ramp_waves(excitation, t[leaving] - leave, leaving=True, order=order)
    return _combine(trajectory, basis, order)


def executed_motion(trajectory: Trajectory, t: FloatArray) -> Motion:
    """Evaluate the whole run with its velocities and accelerations."""
    return Motion(executed(trajectory, t), executed(trajectory, t, 1), executed(trajectory, t, 2))


def period_grid(excitation: Excitation, n_samples: int) -> FloatArray:
    """Sample one period evenly, without its end, (n_samples,), s."""
    return np.arange(n_samples) * (excitation.period / n_samples)


def scaled(trajectory: Trajectory, amplitude: float) -> Trajectory:
    """Scale the amplitude about the same pose."""
    return replace(trajectory, sines=amplitude * trajectory.sines, cosines=amplitude * trajectory.cosines)


def _combine(trajectory: Trajectory, basis: FloatArray, order: int) -> FloatArray:
    swing = np.concatenate([trajectory.sines, trajectory.cosines], axis=1) @ basis
    return np.asarray(swing.T + (trajectory.center if order == 0 else 0.0))


N_ORDERS = 5  # derivatives that torques' curvature needs: positions to their fourth

# Largest |dᵏe/dsᵏ| of the envelope e (`fourier.rise`), k = 0 … 6; with u = s(1 - s):
# e' = 140 u³ and e''' = 840 u (1 - 5u) have theirs at s = 1/2, e'' = 420 u² (1 - 2s) at u = 1/5, others at the ends.
RISE_MOST = np.array([1.0, 35.0 / 16.0, 84.0 / (5.0 * np.sqrt(5.0)), 52.5, 840.0, 10080.0, 50400.0])

Evaluate = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Motion segment whose positions are smooth from its start to its end."""

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
    """Intervals of a motion segment: the motion at their ends, and bounds of its derivatives inside.

    `motion` holds q and its derivatives at the times `t`; interval k is between samples left[k] and right[k].
    """

    segment: Segment
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
        return np.stack([self._inside(k, (self.h**2 / 8.0) * self.segment.most[k + 2]) for k in range(N_ORDERS)])

    def enclose(self, values: FloatArray, curvature: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound a quantity from below and above, given its values (n_t, …) and a bound of its second derivative."""
        deviation = (self.h**2 / 8.0) * curvature
        a, b = values[self.left], values[self.right]
        return np.minimum(a, b) - deviation, np.maximum(a, b) + deviation

    def worst_of_ends(self, values: FloatArray) -> FloatArray:
        """Return the larger of the values at both ends, (n_spans, …)."""
        return np.maximum(values[self.left], values[self.right])

    def _inside(self, order: int, deviation: FloatArray) -> FloatArray:
        return self.worst_of_ends(np.abs(self.jets[order])) + deviation


def run_segments(trajectory: Trajectory) -> tuple[Segment, ...]:
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
    measured = Segment("measured", first, excitation.period, period, steady, excitation.harmonics[-1])
    if excitation.ramp == 0.0:
        return (measured,)
    ramps = ramp_most(swings, excitation)
    ramps[0] += np.abs(center)
    return (
        Segment("ramp-in", excitation.settle, excitation.ramp, entering, ramps),
        measured,
        Segment("ramp-out", leave, excitation.ramp, leaving, ramps),
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


def spans(segment: Segment, a: FloatArray, b: FloatArray) -> Spans:
    """Evaluate a motion segment at the ends of intervals from a to b, in s from its start."""
    t, inverse = np.unique(np.concatenate([a, b]), return_inverse=True)
    jets = np.stack([segment.evaluate(t, order) for order in range(N_ORDERS)])
    return Spans(segment, t, jets, inverse[: a.size], inverse[a.size :])


def even_spans(segment: Segment, n_spans: int) -> Spans:
    """Divide a motion segment into equal intervals."""
    edges = np.linspace(0.0, segment.duration, n_spans + 1)
    return spans(segment, edges[:-1], edges[1:])


def _on(center: FloatArray, swing: FloatArray, order: int) -> FloatArray:
    return np.asarray(swing.T + (center if order == 0 else 0.0))
