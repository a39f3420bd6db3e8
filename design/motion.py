"""Planned motions: a `Run` of segments, each smooth in time, with all derivatives and bounds of them.

A segment goes from pose to pose or stands still (`Move`), follows a finite Fourier series (`Series`), or passes the
points of a table (`Table`). A series is that of [Volkmann2020] eq. (6), with amplitudes in rad:

    q(t) = c + e(t) Σ_k a_k sin(kωt) + b_k cos(kωt),   ω = 2π / period,

with an envelope e that rises, falls, or is 1. A move from a to b follows a + s(t) (b - a): s = e(t / T) with the same
envelope, or, with a blend time B, it speeds up, cruises, and slows down alike; with E the integral of e,

    s = v B E(t/B)  up to t = B,   v (t - B/2)  while cruising,   1 - v B E((T - t)/B)  at the end,   v = 1 / (T - B).

Bounds of all derivatives follow from a segment's coefficients, and bound the motion between samples.

A run has one form in files (design.json, manifest.json and the clients' run file), `run_data`:

    {"joints": [...], "sample_time": s, "series": [{"period", "harmonics", "center", "sines", "cosines"}, ...],
     "segments": [{"kind": "hold", "name", "measured", "pose", "duration"},
                  {"kind": "move", ..., "from", "to", "duration", "blend"},
                  {"kind": "series", ..., "series": which, "periods"},
                  {"kind": "ramp", ..., "series": which, "duration", "rises"},
                  {"kind": "table", ..., "t", "q", "joined", "dq", "ddq"}]}

Positions in rad and m, or in a controller's axes, times in s. A file may be a stranger's: every value is checked.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import comb, factorial
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from scipy.interpolate import CubicHermiteSpline, CubicSpline, PPoly, make_interp_spline

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.files.schema import sentences
from excitor.robots.robot import Motion

# e(s) = 35 s⁴ - 84 s⁵ + 70 s⁶ - 20 s⁷ rises from 0 to 1 with three vanishing derivatives at both ends.
_RISE = np.polynomial.Polynomial([0.0, 0.0, 0.0, 0.0, 35.0, -84.0, 70.0, -20.0])

N_ORDERS = 5  # derivatives that torques' curvature needs: positions to their fourth

# Largest |dᵏe/dsᵏ| of the envelope e (`rise`), k = 0 … 6; with u = s(1 - s):
# e' = 140 u³ and e''' = 840 u (1 - 5u) have theirs at s = 1/2, e'' = 420 u² (1 - 2s) at u = 1/5, others at the ends.
RISE_MOST = np.array([1.0, 35.0 / 16.0, 84.0 / (5.0 * np.sqrt(5.0)), 52.5, 840.0, 10080.0, 50400.0])

ROUNDING = 1e-9  # of times and poses

Change = Callable[[FloatArray, int], FloatArray]  # of poses (order 0) and of their differences (order 1), rows


class Periodic:
    """What repeats after a period."""

    __slots__ = ()
    period: float  # s

    @property
    def omega(self) -> float:
        """Angular frequency of the first harmonic, rad/s."""
        return 2.0 * np.pi / self.period

    def grid(self, n_samples: int) -> FloatArray:
        """Sample one period evenly, without its end, (n_samples,), s."""
        return np.arange(n_samples) * (self.period / n_samples)


@dataclass(frozen=True, eq=False, slots=True)
class Excitation(Periodic):
    """Form of a periodic run (period, harmonics, moving joints) and its execution (ramps, rests, periods); times in s.

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
        _check_harmonics(self.harmonics)
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
    def duration(self) -> float:
        """Duration of the whole run, s."""
        return self.settle + 2.0 * self.ramp + (self.warm_up + self.measured) * self.period + self.hold


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run, in s from its start."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Segment(ABC):
    """Part of a run; times are in s from its own start, and those outside of it are not asked."""

    name: str  # of the phase of the run: "settle", "ramp-in", "measured", "way", …
    measured: bool = False
    start: float = 0.0  # s from the start of the run that holds it

    @property
    def degree(self) -> int:
        """Degree of the trigonometric polynomial of which it is whole periods; 0: it is none."""
        return 0

    @property
    def kind(self) -> str:
        """Its name in files."""
        return type(self).__name__.lower()

    @property
    @abstractmethod
    def duration(self) -> float:
        """Duration, s."""

    @abstractmethod
    def at(self, t: FloatArray, order: int = 0) -> FloatArray:
        """Evaluate a derivative, (n_t, n_joints)."""

    @cached_property
    @abstractmethod
    def most(self) -> FloatArray:
        """Bounds of |q⁽ᵏ⁾|, k = 0 … 6, from the coefficients alone, (7, n_joints)."""

    @abstractmethod
    def mapped(self, change: Change) -> Self:
        """Map its poses, and differences of poses, linearly."""

    @abstractmethod
    def pieces(self) -> "tuple[Segment, ...]":
        """Cut into parts that are smooth; none where nothing moves."""

    @property
    def turns(self) -> tuple[float, ...]:
        """Durations of what it repeats, s: of its periods, or its own."""
        return (self.duration,)

    def bounds(self, order: int) -> FloatArray:
        """Bound |q⁽ᵏ⁾| for k = `order` up to 6, (n_joints,)."""
        return np.asarray(self.most[order])

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Poses where it begins and where it ends, (n_joints,)."""
        first, last = self.at(np.array([0.0, self.duration]))
        return first, last


@dataclass(frozen=True, eq=False)
class Move(Segment):
    """A straight line in joint space from rest to rest; a stop is one of no length (`hold`)."""

    origin: FloatArray  # (n_joints,)
    goal: FloatArray  # (n_joints,)
    time: float  # s, of the whole move; 0 where a run goes nowhere
    blend: float = 0.0  # s of speeding up, and of slowing down; 0: none, it follows the envelope of the ramps
    within: tuple[float, float] | None = None  # s: the part of the move that is meant; None: all of it

    def __post_init__(self) -> None:
        freeze(self, origin="n_joints", goal="n_joints")
        _check_time(self.time, "a move", least=0.0 if self.still else None)
        if not 0.0 <= self.blend <= 0.5 * self.time * (1.0 + ROUNDING):
            raise ValueError(
                f"a move takes {self.time:g} s with blends of {self.blend:g} s, expected blends of at most half of it"
            )

    @cached_property
    def still(self) -> bool:
        """Whether it goes nowhere."""
        return np.array_equal(self.origin, self.goal)

    @property
    def kind(self) -> str:
        return "hold" if self.still else "move"

    @property
    def edge(self) -> float:
        """Time of speeding up, and of slowing down, s; none of a stop."""
        return 0.0 if self.still else self.blend or 0.5 * self.time

    @property
    def duration(self) -> float:
        """Duration of the part that is meant, s."""
        return self.time if self.within is None else self.within[1] - self.within[0]

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Poses where the whole move begins and where it ends, (n_joints,)."""
        return self.origin, self.goal

    def at(self, t: FloatArray, order: int = 0) -> FloatArray:
        first, last = self.within or (0.0, self.time)
        x = np.clip(first + np.asarray(t), first, last)
        share = travelled(x, np.full(x.shape, self.time or 1.0), np.full(x.shape, self.blend), order)[:, None]
        return np.asarray(share * (self.goal - self.origin) + (self.origin if order == 0 else 0.0))

    @cached_property
    def most(self) -> FloatArray:
        if self.blend == 0.0:
            rates = RISE_MOST[1:] / (self.time or 1.0) ** np.arange(1, RISE_MOST.size)
        else:
            rates = RISE_MOST[:-1] * self.blend ** -np.arange(RISE_MOST.size - 1.0) / (self.time - self.blend)
            if self.within is not None and self.within[0] == self.blend < self.within[1] == self.time - self.blend:
                rates[1:] = 0.0  # it cruises
        place = np.maximum(np.abs(self.origin), np.abs(self.goal))
        return np.concatenate([place[None], rates[:, None] * np.abs(self.goal - self.origin)])

    def mapped(self, change: Change) -> Self:
        return replace(self, origin=change(self.origin, 0), goal=change(self.goal, 0))

    def pieces(self) -> tuple[Segment, ...]:
        """Cut where speeding up, cruising and slowing down meet."""
        T, B = self.time, self.blend
        if self.still or B == 0.0:
            return () if self.still else (self,)
        parts = {"speeding up": (0.0, B), "cruising": (B, T - B), "slowing down": (T - B, T)}
        if not T - B > B * (1.0 + ROUNDING):
            del parts["cruising"]
        return tuple(
            replace(self, name=f"{self.name} {word}", start=self.start + within[0], within=within)
            for word, within in parts.items()
        )


def hold(pose: FloatArray, time: float, *, name: str, measured: bool = False) -> Move:
    """Build a stop; its blend is a third, as in moves at a share of the limits: programs write stops as moves."""
    return Move(pose, pose, time, time / 3.0, name=name, measured=measured)


@dataclass(frozen=True, eq=False)
class Series(Periodic, Segment):
    """Whole periods of a Fourier series, or a ramp into or out of it that lasts `ramp` s."""

    period: float
    harmonics: tuple[int, ...]
    center: FloatArray  # (n_joints,)
    sines: FloatArray  # (n_joints, n_harmonics); 0 where a joint stands still
    cosines: FloatArray
    periods: int = 1
    envelope: Literal["none", "rise", "fall"] = "none"  # a ramp-in ends at phase 0, a ramp-out begins there
    ramp: float = 0.0  # s, of a ramp

    def __post_init__(self) -> None:
        object.__setattr__(self, "harmonics", tuple(int(k) for k in self.harmonics))
        _check_harmonics(self.harmonics)
        n = str(np.size(self.center))
        freeze(self, center=n, sines=f"{n} {len(self.harmonics)}", cosines=f"{n} {len(self.harmonics)}")
        _check_time(self.period, "a period")
        if self.envelope != "none":
            _check_time(self.ramp, "a ramp")
        elif self.periods < 1:
            raise ValueError(f"periods are {self.periods}, expected at least 1")

    @property
    def duration(self) -> float:
        return self.periods * self.period if self.envelope == "none" else self.ramp

    @property
    def turns(self) -> tuple[float, ...]:
        """Durations of its periods, or of the ramp, s."""
        return (self.period,) * self.periods if self.envelope == "none" else (self.ramp,)

    @property
    def degree(self) -> int:
        """Degree of the trigonometric polynomial of one period; 0 for ramps."""
        return self.harmonics[-1] if self.envelope == "none" else 0

    @property
    def kind(self) -> str:
        return "series" if self.envelope == "none" else "ramp"

    def at(self, t: FloatArray, order: int = 0) -> FloatArray:
        """Evaluate a derivative, (n_t, n_joints); without an envelope at any time, as it is periodic."""
        if self.envelope == "none":
            basis = waves(self, t, order)
        else:
            basis = ramp_waves(self, t, leaving=self.envelope == "fall", order=order)
        swing = np.concatenate([self.sines, self.cosines], axis=1) @ basis
        return np.asarray(swing.T + (self.center if order == 0 else 0.0))

    def motion(self, t: FloatArray) -> Motion:
        """Evaluate positions, velocities and accelerations."""
        return Motion(*(self.at(t, order) for order in range(3)))

    @cached_property
    def most(self) -> FloatArray:
        """Bounds of |q⁽ᵏ⁾|: Σ_k (kω)ᵐ √(a_k² + b_k²), of ramps with the envelope, (7, n_joints)."""
        most = self.swings if self.envelope == "none" else ramp_most(self.swings, self.ramp)
        most[0] += np.abs(self.center)
        return most

    @property
    def swings(self) -> FloatArray:
        """Bounds of the derivatives of the periodic series without its centre, (7, n_joints)."""
        omegas = self.omega * np.asarray(self.harmonics, dtype=float)
        amplitudes = np.hypot(self.sines, self.cosines)
        return np.stack([amplitudes @ omegas**order for order in range(RISE_MOST.size)])

    def mapped(self, change: Change) -> Self:
        sines, cosines = (change(x.T, 1).T for x in (self.sines, self.cosines))
        return replace(self, center=change(self.center, 0), sines=sines, cosines=cosines)

    def pieces(self) -> tuple[Segment, ...]:
        """Return one of its periods, or the ramp."""
        return (replace(self, periods=1),)


Interpolation = Literal["lines", "cubic", "envelope", "quintic", "catmull-rom", "cubic spline", "quintic spline"]


@dataclass(frozen=True, eq=False)
class Table(Segment):
    """Points passed at their times, and how they are joined.

    Between neighbours: lines; cubics from positions and velocities; velocities that follow the envelope of the ramps
    from one to the next (with positions that do so too); quintics from accelerations as well; cubics whose
    slopes are those of Catmull and Rom, (q[k+1] - q[k-1]) / (t[k+1] - t[k-1]); a C² cubic spline and a C⁴ quintic
    spline, at rest at both ends.
    """

    t: FloatArray  # (n,), s, rising from 0
    q: FloatArray  # (n, n_joints)
    interpolation: Interpolation
    dq: FloatArray | None = None  # (n, n_joints), of cubics, envelopes and quintics
    ddq: FloatArray | None = None  # of quintics
    within: int | None = None  # the interval between two points that is meant; None: all of them

    def __post_init__(self) -> None:
        sizes = freeze(self, t="n", q="n n_joints")
        if len(self.t) < 2 or self.t[0] != 0.0:
            raise ValueError(f"a table has {len(self.t)} points, expected two or more, the first at 0 s")
        if not (np.diff(self.t) > 0.0).all():
            k = int(np.argmin(np.diff(self.t)))
            raise ValueError(f"times of a table do not rise after {self.t[k]:.6g} s; no motion passes such points")
        stated = {"dq": self.interpolation in ("cubic", "envelope", "quintic"), "ddq": self.interpolation == "quintic"}
        for name, needed in stated.items():
            if (getattr(self, name) is not None) != needed:
                raise ValueError(f"{name} of a table belongs to {self.interpolation} {'as well' if needed else 'not'}")
            if needed:
                freeze(self, True, "C", **{name: f"{sizes['n']} {sizes['n_joints']}"})

    @property
    def duration(self) -> float:
        t = self.t if self.within is None else self.t[self.within : self.within + 2]
        return float(t[-1] - t[0])

    @cached_property
    def curve(self) -> PPoly:
        """The polynomials between the points."""
        curve = _CURVES[self.interpolation](self)
        if self.within is None:
            return curve
        k = self.within
        return PPoly(curve.c[:, k : k + 1], curve.x[k : k + 2] - curve.x[k])

    def at(self, t: FloatArray, order: int = 0) -> FloatArray:
        return np.asarray(self.curve(np.clip(t, 0.0, self.duration), order))

    @cached_property
    def most(self) -> FloatArray:
        """Bounds of |q⁽ᵏ⁾|: Σ_j |c_j| hʲ of each interval's polynomial, the largest, (7, n_joints)."""
        h = np.diff(self.curve.x)
        bounds = []
        for order in range(RISE_MOST.size):
            c = np.abs(self.curve.derivative(order).c)
            powers = h ** np.arange(len(c))[::-1, None]
            bounds.append((c * powers[:, :, None]).sum(axis=0).max(axis=0))
        return np.array(bounds)

    def mapped(self, change: Change) -> Self:
        dq, ddq = (None if x is None else change(x, 1) for x in (self.dq, self.ddq))
        return replace(self, q=change(self.q, 0), dq=dq, ddq=ddq)

    def pieces(self) -> tuple[Segment, ...]:
        """Cut between its points."""
        return tuple(replace(self, start=self.start + float(t), within=k) for k, t in enumerate(self.t[:-1]))


def _lines(table: Table) -> PPoly:
    return PPoly([np.diff(table.q, axis=0) / np.diff(table.t)[:, None], table.q[:-1]], table.t)


def _quintic(table: Table) -> PPoly:
    t, q, dq, ddq = table.t, table.q, table.dq, table.ddq
    assert dq is not None
    assert ddq is not None
    h = np.diff(t)[:, None]
    off = np.diff(q, axis=0) - (dq[:-1] + 0.5 * h * ddq[:-1]) * h
    turn = (np.diff(dq, axis=0) - ddq[:-1] * h) * h
    bend = np.diff(ddq, axis=0) * h**2
    highest_first = [
        (6.0 * off - 3.0 * turn + 0.5 * bend) / h**5,
        (-15.0 * off + 7.0 * turn - bend) / h**4,
        (10.0 * off - 4.0 * turn + 0.5 * bend) / h**3,
        0.5 * ddq[:-1],
        dq[:-1],
        q[:-1],
    ]
    return PPoly(highest_first, t)


def _envelope(table: Table) -> PPoly:
    """Return q + q̇ h s + Δq̇ h E(s) + (Δq - h mean q̇) e(s), with the integral E of the envelope e, s = t / h."""
    q, dq, h = table.q, np.asarray(table.dq), np.diff(table.t)[:, None]
    a, g = np.diff(dq, axis=0) * h, np.diff(q, axis=0) - 0.5 * (dq[1:] + dq[:-1]) * h
    none = np.zeros_like(a)
    highest_first = [-2.5 * a, 10.0 * a - 20.0 * g, 70.0 * g - 14.0 * a, 7.0 * a - 84.0 * g, 35.0 * g, none, none]
    c = [x / h**k for x, k in zip([*highest_first, dq[:-1] * h, q[:-1]], range(8, -1, -1), strict=True)]
    return PPoly(c, table.t)


def _catmull_rom(table: Table) -> PPoly:
    t, q = table.t, table.q
    slopes = np.zeros_like(q)
    slopes[1:-1] = (q[2:] - q[:-2]) / (t[2:] - t[:-2])[:, None]
    return CubicHermiteSpline(t, q, slopes)


def _quintic_spline(table: Table) -> PPoly:
    still = np.zeros(table.q.shape[1])
    ends: Any = [(1, still), (2, still)]  # the stubs of scipy know only numbers here
    spline = make_interp_spline(table.t, table.q, k=5, bc_type=(ends, ends))
    x = np.unique(spline.t)
    return PPoly([spline(x[:-1], order) / factorial(order) for order in range(5, -1, -1)], x)


_CURVES: dict[str, Callable[[Table], PPoly]] = {
    "lines": _lines,
    "cubic": lambda table: CubicHermiteSpline(table.t, table.q, np.asarray(table.dq)),
    "envelope": _envelope,
    "quintic": _quintic,
    "catmull-rom": _catmull_rom,
    "cubic spline": lambda table: CubicSpline(table.t, table.q, bc_type="clamped"),
    "quintic spline": _quintic_spline,
}


@dataclass(frozen=True, eq=False)
class Run:
    """A planned motion: segments one after the other, at rest before and after them."""

    joints: tuple[str, ...]
    sample_time: float  # s: of which all times are whole multiples
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", tuple(self.joints))
        _check_time(self.sample_time, "sample_time")
        if not self.segments:
            raise ValueError("a run has no segments, expected one at least")
        starts = self.edges[:-1].tolist()
        placed = (
            one if one.start == t else replace(one, start=t) for one, t in zip(self.segments, starts, strict=True)
        )
        object.__setattr__(self, "segments", tuple(placed))

    @cached_property
    def edges(self) -> FloatArray:
        """Start times of the segments, and the end of the last one, (n_segments + 1,), s."""
        return np.concatenate([[0.0], np.cumsum([segment.duration for segment in self.segments])])

    @property
    def duration(self) -> float:
        """Duration, s."""
        return float(np.sum([segment.duration for segment in self.segments]))

    @cached_property
    def start(self) -> FloatArray:
        """Pose where it begins, (n_joints,)."""
        return self.segments[0].ends[0]

    @cached_property
    def end(self) -> FloatArray:
        """Pose where it ends, (n_joints,)."""
        return self.segments[-1].ends[1]

    @cached_property
    def knots(self) -> FloatArray:
        """Poses where the segments begin, and where the last one ends, (n_segments + 1, n_joints)."""
        return np.array([*(one.ends[0] for one in self.segments), self.end])

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Parts of the run, each of neighbouring segments of one name."""
        found: list[Phase] = []
        for segment, end in zip(self.segments, self.edges[1:].tolist(), strict=True):
            if found and found[-1].name == segment.name:
                found[-1] = replace(found[-1], end=end)
            else:
                found.append(Phase(segment.name, segment.start, end))
        return tuple(found)

    @cached_property
    def series(self) -> Series | None:
        """The measured Fourier series; None for a run of moves."""
        return next((one for one in self.segments if isinstance(one, Series) and one.measured), None)

    @cached_property
    def excitation(self) -> Excitation:
        """Form of a run with a Fourier series."""
        series = self.periodic
        spans = {one.name: one.duration for one in self.segments}
        steady = [one for one in self.segments if isinstance(one, Series) and one.envelope == "none"]
        swings = (series.sines != 0.0).any(axis=1) | (series.cosines != 0.0).any(axis=1)
        return Excitation(
            series.period,
            self.sample_time,
            series.harmonics,
            swings if swings.any() else ~swings,
            ramp=spans.get("ramp-in", 0.0),
            settle=spans.get("settle", 0.0),
            hold=spans.get("hold", 0.0),
            warm_up=sum(one.periods for one in steady if not one.measured),
            measured=sum(one.periods for one in steady if one.measured),
        )

    @property
    def periodic(self) -> Series:
        """The measured Fourier series; ValueError for a run of moves."""
        if self.series is None:
            raise ValueError("the run consists of moves; it has no Fourier series")
        return self.series

    def at(self, t: FloatArray, order: int = 0) -> FloatArray:
        """Evaluate a derivative, (n_t, n_joints), t in s from the start; at rest before and after it."""
        t = np.asarray(t, dtype=float)
        inside = np.clip(t, 0.0, self.duration)
        last = len(self.segments) - 1
        k = np.clip(np.searchsorted(self.edges, inside, side="right") - 1, 0, last)
        a, b, T, B = self._lines
        share = travelled(np.clip(inside - self.edges[k], 0.0, T[k]), T[k], B[k], order)
        out = share[:, None] * (b - a)[k]
        if order == 0:
            out += a[k]
        for j, segment, origin in self._others:
            here = k == j
            out[here] = segment.at(inside[here] - origin, order)
        if order:
            out[(t < 0.0) | (t > self.duration)] = 0.0
        return np.asarray(out)

    def motion(self, t: FloatArray) -> Motion:
        """Evaluate positions, velocities and accelerations."""
        return Motion(*(self.at(t, order) for order in range(3)))

    def bounds(self, order: int) -> FloatArray:
        """Bound |q⁽ᵏ⁾| for k = `order` up to 6 over the whole run, (n_joints,)."""
        return np.asarray(np.max([segment.bounds(order) for segment in self.segments], axis=0))

    def scaled(self, share: float) -> "Run":
        """Scale the amplitude about the centre of the series, or about the first pose."""
        center = self.knots[0] if self.series is None else self.series.center
        return self.mapped(lambda x, order: share * x if order else center + share * (x - center))

    def mapped(self, change: Change, joints: Sequence[str] | None = None) -> "Run":
        """Map all poses, and differences of poses, linearly."""
        segments = tuple(segment.mapped(change) for segment in self.segments)
        return Run(self.joints if joints is None else tuple(joints), self.sample_time, segments)

    def reversed(self) -> "Run":
        """Return a run of moves backwards."""
        turned = [replace(one, origin=one.goal, goal=one.origin) for one in self._moves[::-1]]
        return replace(self, segments=tuple(turned))

    def __add__(self, other: "Run") -> "Run":
        """Join another run of the same joints, which begins where this one ends."""
        if other.joints != self.joints:
            raise ValueError(f"a run of {', '.join(other.joints)} cannot follow one of {', '.join(self.joints)}")
        return checked(replace(self, segments=(*self.segments, *other.segments)))

    @property
    def moves(self) -> tuple[Move, ...]:
        """Segments of a run of moves and stops that take time; ValueError where there are others."""
        return tuple(one for one in self._moves if one.duration > 0.0)

    @property
    def _moves(self) -> tuple[Move, ...]:
        found = tuple(one for one in self.segments if isinstance(one, Move))
        if len(found) < len(self.segments):
            raise ValueError("the run is a Fourier series or a table; it has no moves")
        return found

    def repeats(self) -> tuple[tuple[Move, ...], int]:
        """Fold repeated moves: one round of them, and how often it is made."""
        moves = self.moves
        n, keys = len(moves), [_key(segment) for segment in moves]
        length = next(k for k in range(1, n + 1) if n % k == 0 and keys == keys[:k] * (n // k))
        return moves[:length], n // length

    def pieces(self) -> tuple[Segment, ...]:
        """Cut the moving segments into smooth pieces, for a certificate; repeated motion is listed once.

        Periods of a series are named after the measured ones; moves are numbered.
        """
        made: dict[object, Segment] = {}
        for k, segment in enumerate(self.segments):
            if isinstance(segment, Move):
                segment = replace(segment, name=f"{'move' if segment.blend else 'line'} {k + 1}")
            for piece in segment.pieces():
                key = _key(piece, measured=False)
                if key not in made or (piece.degree and piece.measured > made[key].measured):
                    made[key] = piece
        return tuple(made.values())

    def measured_spans(self) -> Iterator[tuple[float, float]]:
        """List what is measured, from and to, s: stops, whole periods, and moves while they cruise."""
        for segment, end in zip(self.segments, self.edges[1:].tolist(), strict=True):
            edge = segment.edge if isinstance(segment, Move) else 0.0
            if segment.measured and segment.duration > 2.0 * edge:
                yield segment.start + edge, end - edge

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Origins, goals, times and blends of all segments; those of a stop where they are no move."""
        nowhere = hold(np.zeros(len(self.joints)), 0.0, name="other")
        lines = [one if isinstance(one, Move) and one.within is None else nowhere for one in self.segments]
        ends = [(one.origin, one.goal, one.time or 1.0, 0.0 if one.still else one.blend) for one in lines]
        a, b, T, B = (np.array(values) for values in zip(*ends, strict=True))
        return a, b, T, B

    @cached_property
    def _others(self) -> tuple[tuple[int, Segment, float], ...]:
        """Segments that are evaluated one by one, each with its number and the time it counts from.

        A series goes on counting where the one before has the same coefficients.
        """
        found: list[tuple[int, Segment, float]] = []
        last: tuple[object, ...] = ()
        for j, one in enumerate(self.segments):
            if isinstance(one, Move) and one.within is None:
                continue
            key = _key(one.pieces()[0], measured=False) if one.degree else ()
            goes_on = one.degree > 0 and found and found[-1][0] == j - 1 and key == last
            found.append((j, one, found[-1][2] if goes_on else one.start))
            last = key
        return tuple(found)


def checked(run: Run) -> Run:
    """Refuse a run whose segments do not follow each other, or take no whole numbers of controller samples."""
    h = run.sample_time
    for k, segment in enumerate(run.segments, start=1):
        for span in set(segment.turns) if not isinstance(segment, Table) else ():
            if abs(span / h - round(span / h)) > 1e-6 * max(1.0, span / h):
                sentence = f"segments[{k}] takes {span:g} s, expected whole numbers of controller samples of {h:g} s"
                raise ValueError(sentence)
    for k, (before, segment) in enumerate(zip(run.segments, run.segments[1:], strict=False), start=1):
        end, begin = before.ends[1], segment.ends[0]
        off = np.abs(begin - end)
        j = int(np.argmax(off))
        if not off[j] <= 1e-6 * max(1.0, abs(float(end[j]))):
            raise ValueError(
                f"segments[{k + 1}] begins at {begin[j]:.6g} with {run.joints[j]}, segments[{k}] ends at {end[j]:.6g}; "
                "expected no jump"
            )
    return run


def periodic_run(
    excitation: Excitation, center: FloatArray, sines: FloatArray, cosines: FloatArray, joints: Sequence[str] = ()
) -> Run:
    """Build the run of a Fourier series: rest, ramp, periods, ramp, rest; parts that take no time are left out."""
    e = excitation
    names = tuple(joints) or tuple(f"joint {j + 1}" for j in range(e.moving.size))
    steady = Series(e.period, e.harmonics, center, sines, cosines, periods=e.measured, name="measured", measured=True)
    segments: list[Segment] = [hold(steady.center, e.settle, name="settle")] if e.settle > 0.0 else []
    ramp = replace(steady, measured=False, periods=1, ramp=e.ramp)
    if e.ramp > 0.0:
        segments.append(replace(ramp, name="ramp-in", envelope="rise"))
    if e.warm_up:
        segments.append(replace(steady, measured=False, name="warm-up", periods=e.warm_up))
    segments.append(steady)
    if e.ramp > 0.0:
        segments.append(replace(ramp, name="ramp-out", envelope="fall"))
    if e.hold > 0.0:
        segments.append(hold(steady.center, e.hold, name="hold"))
    return Run(names, e.sample_time, tuple(segments))


def line_run(
    joints: Sequence[str],
    sample_time: float,
    poses: FloatArray,
    durations: Sequence[float] | FloatArray,
    *,
    blends: Sequence[float] | FloatArray | None = None,
    measured: Sequence[bool] | BoolArray | None = None,
) -> Run:
    """Build a run of straight lines from pose to pose, (n_poses, n_joints), at rest on each; equal neighbours stop."""
    n = len(durations)
    if len(poses) != n + 1:
        raise ValueError(f"durations has {n} entries, expected one fewer than the {len(poses)} poses")
    ends = [np.zeros(n) if x is None else np.asarray(x, dtype=float) for x in (durations, blends, measured)]
    segments: list[Segment] = [] if n else [hold(poses[0], 0.0, name="way")]
    for a, b, T, B, counts in zip(poses, poses[1:], *(x.tolist() for x in ends), strict=False):
        words: dict[str, Any] = {"name": "measured" if counts else "way", "measured": bool(counts)}
        _check_time(T, "a move")
        stop = np.array_equal(a, b) and B > 0.0
        segments.append(hold(a, T, **words) if stop else Move(a, b, T, B, **words))
    return Run(tuple(joints), sample_time, tuple(segments))


def waves(form: Excitation | Series, t: FloatArray, order: int = 0) -> FloatArray:
    """Differentiate sin kωt for every harmonic, then of cos kωt, (2 n_harmonics, n_t)."""
    k = np.asarray(form.harmonics, dtype=float)[:, None]
    phase = k * form.omega * np.asarray(t)[None, :] + 0.5 * np.pi * order
    return np.concatenate([np.sin(phase), np.cos(phase)]) * np.tile((k * form.omega) ** order, (2, 1))


def rise(s: FloatArray, order: int = 0) -> FloatArray:
    """Differentiate the envelope e by s: 0 up to s = 0, 1 from s = 1."""
    inside = _RISE.deriv(order)(np.clip(s, 0.0, 1.0)) if order else _RISE(np.clip(s, 0.0, 1.0))
    return np.where((s < 0.0) | (s > 1.0), 0.0, inside) if order else np.asarray(inside)


def ramp_waves(form: Excitation | Series, t: FloatArray, *, leaving: bool, order: int = 0) -> FloatArray:
    """Differentiate envelope times waves, (2 n_harmonics, n_t), t in s from the ramp's start.

    A ramp-in ends at phase 0, a ramp-out begins there: (e w)⁽ᵐ⁾ = Σ_i C(m, i) e⁽ⁱ⁾ w⁽ᵐ⁻ⁱ⁾.
    """
    t = np.asarray(t)
    phase_time = t if leaving else t - form.ramp
    total = np.zeros((2 * len(form.harmonics), t.size))
    for i in range(order + 1):
        envelope = rise(1.0 - t / form.ramp if leaving else t / form.ramp, i)
        envelope = envelope * ((-1.0) ** i if leaving else 1.0) / form.ramp**i
        total += comb(order, i) * envelope * waves(form, phase_time, order - i)
    return total


def ramp_most(swings: FloatArray, ramp: float) -> FloatArray:
    """Bound the derivatives of envelope times series: Σ_i C(m, i) max|e⁽ⁱ⁾| / rampⁱ · max|w⁽ᵐ⁻ⁱ⁾|, (7, n_joints)."""
    envelope = RISE_MOST / ramp ** np.arange(RISE_MOST.size)
    return np.stack(
        [sum(comb(m, i) * envelope[i] * swings[m - i] for i in range(m + 1)) for m in range(RISE_MOST.size)]
    )


def travelled(t: FloatArray, T: FloatArray, B: FloatArray, order: int) -> FloatArray:
    """Evaluate derivatives of the share of a move's way travelled, (n_t,); B = 0: by the envelope."""
    plain = B <= 0.0
    share = rise(t / T, order) / T**order
    if plain.all():
        return np.asarray(share)
    B = np.where(plain, 0.5 * T, B)
    v = 1.0 / (T - B)
    late = t >= np.maximum(T - B, B)
    s = np.where(late, T - t, t) / B
    cruising = ~late & (t > B)
    if order == 0:
        blend = v * B * (7.0 - (14.0 - (10.0 - 2.5 * s) * s) * s) * s**5
        blended = np.where(cruising, v * (t - 0.5 * B), np.where(late, 1.0 - blend, blend))
    else:
        side = np.where(late, (-1.0) ** (order - 1), 1.0)
        blended = np.where(cruising, v if order == 1 else 0.0, side * v * B ** (1 - order) * rise(s, order - 1))
    return np.asarray(np.where(plain, share, blended))


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
        return np.stack([self._inside(k, (self.h**2 / 8.0) * self.segment.bounds(k + 2)) for k in range(N_ORDERS)])

    def enclose(self, values: FloatArray, curvature: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound a quantity from below and above, given its values (n_t, …) and a bound of its second derivative."""
        stray = (self.h**2 / 8.0) * curvature
        a, b = values[self.left], values[self.right]
        return np.minimum(a, b) - stray, np.maximum(a, b) + stray

    def worst_of_ends(self, values: FloatArray) -> FloatArray:
        """Return the larger of the values at both ends, (n_spans, …)."""
        return np.maximum(values[self.left], values[self.right])

    def _inside(self, order: int, stray: FloatArray) -> FloatArray:
        return self.worst_of_ends(np.abs(self.jets[order])) + stray


def spans(segment: Segment, a: FloatArray, b: FloatArray) -> Spans:
    """Evaluate a motion segment at the ends of intervals from a to b, in s from its start."""
    t, inverse = np.unique(np.concatenate([a, b]), return_inverse=True)
    jets = np.stack([segment.at(t, order) for order in range(N_ORDERS)])
    return Spans(segment, t, jets, inverse[: a.size], inverse[a.size :])


def even_spans(segment: Segment, n_spans: int) -> Spans:
    """Divide a motion segment into equal intervals."""
    edges = np.linspace(0.0, segment.duration, n_spans + 1)
    return spans(segment, edges[:-1], edges[1:])


def _key(segment: Segment, *, measured: bool = True) -> tuple[object, ...]:
    """Return what two segments of the same motion have in common."""
    left_out = ("start", "name") if measured else ("start", "name", "measured")
    values = (getattr(segment, field.name) for field in fields(segment) if field.name not in left_out)
    return (type(segment), *(x.tobytes() if isinstance(x, np.ndarray) else x for x in values))


def _check_harmonics(harmonics: tuple[int, ...]) -> None:
    if not harmonics or sorted(set(harmonics)) != list(harmonics) or harmonics[0] < 1:
        raise ValueError(f"harmonics are {harmonics}, expected rising numbers from 1, such as (1, 2, 3, 4, 5)")


def _check_time(time: float, what: str, least: float | None = None) -> None:
    if not (0.0 < time < np.inf or time == least):
        raise ValueError(f"{what} is {time} s, expected a positive time in s")


_KIND = re.compile(r"(segments\[\d+\])\.(hold|move|series|ramp|table)\b")  # which is no key of the file
MOST_SEGMENTS = 100_000
MOST_JOINTS = 100

Time = Annotated[FiniteFloat, Field(ge=0.0, le=1e6)]
Step = Annotated[FiniteFloat, Field(gt=0.0, le=1e6)]
Size = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Row = Annotated[list[Size], Field(min_length=1, max_length=MOST_JOINTS)]
Waves = Annotated[list[Annotated[list[Size], Field(max_length=1000)]], Field(min_length=1, max_length=MOST_JOINTS)]
Points = Annotated[list[Row], Field(min_length=2, max_length=10_000_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Number = Annotated[int, Field(ge=0, le=MOST_SEGMENTS)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Segment(_Form):
    name: Name
    measured: bool


class _Hold(_Segment):
    kind: Literal["hold"]
    goal: Annotated[Row, Field(alias="pose")]
    time: Annotated[Time, Field(alias="duration")]


class _Move(_Segment):
    kind: Literal["move"]
    origin: Annotated[Row, Field(alias="from")]
    goal: Annotated[Row, Field(alias="to")]
    time: Annotated[Step, Field(alias="duration")]
    blend: Time


class _Periods(_Segment):
    kind: Literal["series"]
    series: Number
    periods: Annotated[int, Field(ge=1, le=MOST_SEGMENTS)]


class _Ramp(_Segment):
    kind: Literal["ramp"]
    series: Number
    ramp: Annotated[Step, Field(alias="duration")]
    rises: bool


class _Table(_Segment):
    kind: Literal["table"]
    t: Annotated[list[Time], Field(min_length=2, max_length=10_000_000)]
    q: Points
    interpolation: Annotated[Interpolation, Field(alias="joined")]
    dq: Points | None
    ddq: Points | None


class _Series(_Form):
    period: Step
    harmonics: Annotated[list[Annotated[int, Field(ge=1, le=10_000)]], Field(min_length=1, max_length=1000)]
    center: Row
    sines: Waves
    cosines: Waves


class RunForm(_Form):
    """A run as a file holds it; `read_run` makes a `Run` of it."""

    joints: Annotated[list[Name], Field(min_length=1, max_length=MOST_JOINTS)]
    sample_time: Step
    series: Annotated[list[_Series], Field(max_length=1000)]
    segments: Annotated[
        list[Annotated[_Hold | _Move | _Periods | _Ramp | _Table, Field(discriminator="kind")]],
        Field(min_length=1, max_length=MOST_SEGMENTS),
    ]


def run_data(run: Run) -> dict[str, Any]:
    """Write a run as plain data."""
    series: list[dict[str, Any]] = []
    segments = [_segment_data(segment, series) for segment in run.segments]
    return {"joints": list(run.joints), "sample_time": run.sample_time, "series": series, "segments": segments}


def read_run(data: Any, where: str = "run") -> Run:
    """Read a run from plain data; ValueError names every key path that is wrong."""
    try:
        form = data if isinstance(data, RunForm) else RunForm.model_validate(data)
    except ValidationError as error:
        raise ValueError("; ".join(f"{where}.{problem}" for problem in problems(error)[:5])) from None
    n = len(form.joints)
    if len(set(form.joints)) < n:
        raise ValueError(f"{where}.joints: two of them have one name")
    segments = []
    for k, entry in enumerate(form.segments, start=1):
        path = f"{where}.segments[{k}]"
        try:
            segments.append(_segment(entry, form, n))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    try:
        return checked(Run(tuple(form.joints), form.sample_time, tuple(segments)))
    except ValueError as error:
        raise ValueError(f"{where}.{error}") from None


def problems(error: ValidationError) -> list[str]:
    """List what is wrong with the form of runs, or with a file that holds some, in sentences."""
    return [_KIND.sub(r"\1", sentence) for sentence in sentences(list(error.errors(include_url=False)))]


def old_moves(
    joints: Sequence[str], sample_time: float, start: list[float], moves: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Write moves of files before runs had one form, each with "to", "duration", "blend" and "measured"."""
    poses = [start, *(move["to"] for move in moves)]
    made = [
        {"kind": "move", "name": "measured" if move["measured"] else "way", "from": pose, **move}
        for pose, move in zip(poses, moves, strict=False)
    ]
    still = {"kind": "hold", "name": "way", "measured": False, "pose": start, "duration": 0.0}
    return {"joints": joints, "sample_time": sample_time, "series": [], "segments": made or [still]}


def old_series(
    joints: Sequence[str], sample_time: float, period: float, spans: Mapping[str, float], old: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a series of files before runs had one form; `spans` are the durations of its rests and ramps."""
    counts = {"warm-up": old["warm_up_periods"], "measured": old["measured_periods"]}
    form = {key: (old.get("series") or old)[key] for key in ("harmonics", "center", "sines", "cosines")}
    segments = []
    for name in ("settle", "ramp-in", "warm-up", "measured", "ramp-out", "hold"):
        words = {"name": name, "measured": name == "measured"}
        if counts.get(name) or name == "measured":
            segments.append({"kind": "series", **words, "series": 0, "periods": counts[name]})
        elif spans.get(name) and name.startswith("ramp"):
            segments.append({"kind": "ramp", **words, "series": 0, "duration": spans[name], "rises": name == "ramp-in"})
        elif spans.get(name):
            segments.append({"kind": "hold", **words, "pose": form["center"], "duration": spans[name]})
    series = [{"period": period, **form}]
    return {"joints": joints, "sample_time": sample_time, "series": series, "segments": segments}


def _segment_data(segment: Segment, series: list[dict[str, Any]]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if segment.kind in ("series", "ramp"):
        form = {name: _plain(getattr(segment, name)) for name in _Series.model_fields}
        if form not in series:
            series.append(form)
        more["series"] = series.index(form)
    for name, entry in _FORMS[segment.kind].model_fields.items():
        if name == "rises":
            more["rises"] = isinstance(segment, Series) and segment.envelope == "rise"
        elif name not in ("kind", "name", "measured", "series"):
            more[entry.alias or name] = _plain(getattr(segment, name))
    return {"kind": segment.kind, "name": segment.name, "measured": segment.measured, **more}


_FORMS: dict[str, type[_Segment]] = {"hold": _Hold, "move": _Move, "series": _Periods, "ramp": _Ramp, "table": _Table}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _segment(entry: _Segment, form: RunForm, n: int) -> Segment:
    words: dict[str, Any] = {"name": entry.name, "measured": entry.measured}
    match entry:
        case _Hold():
            return hold(_row(entry.goal, "pose", n), entry.time, **words)
        case _Move():
            ends = _row(entry.origin, "from", n), _row(entry.goal, "to", n)
            return Move(*ends, entry.time, entry.blend, **words)
        case _Periods() | _Ramp():
            if entry.series >= len(form.series):
                raise ValueError(f"series is {entry.series}, expected one of the run's {len(form.series)}, from 0")
            one = form.series[entry.series]
            center = _row(one.center, f"series[{entry.series + 1}].center", n)
            if isinstance(entry, _Periods):
                words["periods"] = entry.periods
            else:
                words |= {"ramp": entry.ramp, "envelope": "rise" if entry.rises else "fall"}
            return Series(one.period, tuple(one.harmonics), center, _rows(one.sines), _rows(one.cosines), **words)
        case _Table():
            for k, row in enumerate(entry.q, start=1):
                _row(row, f"q[{k}]", n)
            dq, ddq = (None if x is None else _rows(x) for x in (entry.dq, entry.ddq))
            return Table(np.array(entry.t), _rows(entry.q), entry.interpolation, dq, ddq, **words)
    raise TypeError(f"no segment is known for {entry}")


def _row(values: Sequence[float], name: str, n: int) -> np.ndarray[Any, Any]:
    if len(values) != n:
        raise ValueError(f"{name} has {len(values)} entries, expected one for each of {n} joints")
    return np.array(values)


def _rows(values: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    widths = {len(row) for row in values}
    if len(widths) > 1:
        raise ValueError(f"rows have {min(widths)} to {max(widths)} entries, expected the same number in each")
    return np.array(values)
