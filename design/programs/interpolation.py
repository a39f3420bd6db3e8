"""How a controller may join the points of a table: positions and their derivatives between them.

Between neighbours, with the time s since the first: quintics from positions, velocities and accelerations, cubics
from positions and velocities. Where positions alone are known: a C² cubic spline and a C⁴ quintic spline, at rest at
both ends, and cubics whose slopes are those of Catmull and Rom, (q[k+1] - q[k-1]) / (t[k+1] - t[k-1]).

Way-points are joined by lines; around way-point k the velocity goes from one line's to the next's over the time
2 w, w = share · half of the shorter line: at a constant acceleration, or with the envelope of the ramps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline, PPoly, make_interp_spline

from excitor.design.fourier import rise
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Motion

SHARES = (0.1, 0.5, 1.0)  # of half segments, over which way-points may be blended
STRETCH = 1.1  # how much longer blended way-points may take than their program says

Evaluate = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """A motion that a table may become: at rest before its first point and after its last."""

    name: str
    knots: FloatArray  # (n,), s: between which it is smooth
    evaluate: Evaluate  # (t, order) -> (n_t, n_joints)
    jumps: bool = False  # whether its acceleration jumps from segment to segment
    slowed: float = 1.0  # how much longer everything takes

    def at(self, t: FloatArray, order: int = 0) -> FloatArray:
        """Evaluate a derivative at times as the table states them, whatever they take, (n_t, n_joints)."""
        return self.evaluate(np.asarray(t, dtype=float), order) / self.slowed**order

    def motion(self, t: FloatArray) -> Motion:
        """Evaluate the motion as drives, which are slower than a table's steps, follow it.

        An acceleration that jumps is averaged over the time between two points.
        """
        return Motion(self.at(t), self.at(t, 1), self.mean_acceleration(t) if self.jumps else self.at(t, 2))

    def mean_acceleration(self, t: FloatArray) -> FloatArray:
        """Average the acceleration over the time between the two points around t, (n_t, n_joints).

        Where two points are closer than usual, as at the end of a part, it is over the usual time.
        """
        gaps = np.diff(self.knots)
        here = gaps[np.clip(np.searchsorted(self.knots, t, side="right") - 1, 0, len(gaps) - 1)]
        half = 0.5 * np.maximum(here, np.median(gaps))
        change = self.at(t + half, 1) - self.at(t - half, 1)
        return np.asarray(change / (2.0 * half * self.slowed)[:, None])


def slowed(course: Course, factor: float = STRETCH) -> Course:
    """Take longer over the same way."""
    return replace(course, name=f"{course.name}, {factor - 1.0:.0%} slower", slowed=factor)


def quintic(t: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> Course:
    """Join points by quintics that have the stated velocities and accelerations."""
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
    return Course("quintics through stated velocities and accelerations", t, _resting(t, PPoly(highest_first, t)))


def cubic(t: FloatArray, q: FloatArray, dq: FloatArray) -> Course:
    """Join points by cubics that have the stated velocities."""
    return Course("cubics through stated velocities", t, _resting(t, CubicHermiteSpline(t, q, dq)), jumps=True)


def catmull_rom(t: FloatArray, q: FloatArray) -> Course:
    """Join points by cubics whose slopes are those of the chords around each point."""
    slopes = np.zeros_like(q)
    slopes[1:-1] = (q[2:] - q[:-2]) / (t[2:] - t[:-2])[:, None]
    return Course("cubics with Catmull-Rom slopes", t, _resting(t, CubicHermiteSpline(t, q, slopes)), jumps=True)


def spline(t: FloatArray, q: FloatArray) -> Course:
    """Join points by a cubic spline with continuous accelerations."""
    return Course("a C2 cubic spline", t, _resting(t, CubicSpline(t, q, bc_type="clamped")))


def quintic_spline(t: FloatArray, q: FloatArray) -> Course:
    """Join points by a quintic spline with four continuous derivatives."""
    still = np.zeros(q.shape[1])
    ends: Any = [(1, still), (2, still)]  # the stubs of scipy know only numbers here
    return Course("a C4 quintic spline", t, _resting(t, make_interp_spline(t, q, k=5, bc_type=(ends, ends))))


def lines(t: FloatArray, q: FloatArray) -> Course:
    """Join points by straight lines, each at its own constant velocity."""
    rates = np.diff(q, axis=0) / np.diff(t)[:, None]
    return Course("straight lines", t, _resting(t, PPoly([rates, q[:-1]], t)), jumps=True)


def blended(t: FloatArray, q: FloatArray, share: float, *, smooth: bool = False) -> Course:
    """Join points by lines with blends around each; the first begins, and the last ends, half a blend outside."""
    gaps = np.diff(t)
    rates = np.concatenate([0.0 * q[:1], np.diff(q, axis=0) / gaps[:, None], 0.0 * q[:1]])
    half = 0.5 * share * np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    middles = 0.5 * (t[1:] + t[:-1])

    def evaluate(at: FloatArray, order: int) -> FloatArray:
        k = np.searchsorted(middles, at, side="right")
        x, w = at - t[k], half[k]
        line = np.where((x < 0.0)[:, None], rates[k], rates[k + 1])
        way = line * x[:, None] + q[k] if order == 0 else line * float(order == 1)
        inside = np.abs(x) < w
        blend = _blend((x[inside] + w[inside]) / (2.0 * w[inside]), order, smooth=smooth)[:, None]
        length = 2.0 * w[inside][:, None]
        before, change = rates[k][inside], (rates[k + 1] - rates[k])[inside]
        way[inside] = change * blend * length ** (1 - order)
        if order == 0:
            way[inside] += q[k][inside] + before * x[inside][:, None]
        elif order == 1:
            way[inside] += before
        return np.asarray(way)

    name = f"lines with {'smooth' if smooth else 'parabolic'} blends over {share:.0%} of half of them"
    return Course(name, t, evaluate, jumps=True)


def plausible_splines(t: FloatArray, q: FloatArray) -> tuple[Course, ...]:
    """List what a controller that passes through positions alone may make of them."""
    return spline(t, q), quintic_spline(t, q), catmull_rom(t, q)


def plausible_blends(t: FloatArray, q: FloatArray) -> tuple[Course, ...]:
    """List what a controller that blends way-points may make of them: in their time, then slower."""
    nominal = [blended(t, q, share, smooth=smooth) for share in SHARES for smooth in (False, True)]
    return (*nominal, *(slowed(course) for course in nominal))


def _blend(s: FloatArray, order: int, *, smooth: bool) -> FloatArray:
    """Differentiate the share of a blend's change of velocity that has become way, over s from 0 to 1."""
    if smooth:
        whole = (7.0 - (14.0 - (10.0 - 2.5 * s) * s) * s) * s**5
        return np.asarray(rise(s, order - 1) if order else whole)
    return np.asarray([0.5 * s**2, s, np.ones_like(s), np.zeros_like(s)][order])


def _resting(t: FloatArray, curve: Callable[..., FloatArray]) -> Evaluate:
    """Stand still outside of a curve's points."""

    def evaluate(at: FloatArray, order: int) -> FloatArray:
        values = np.asarray(curve(np.clip(at, t[0], t[-1]), order))
        if order:
            values[(at < t[0]) | (at > t[-1])] = 0.0
        return values

    return evaluate
