"""What a stretch may become in the joints, as far as it is known how its controller executes it.

Commands at every servo step are the plan and a small difference: numbers of 24 bits are off by 1e-7 rad, and what is
evaluated in them by 1e-6 rad. Differences of neighbours would turn 1e-6 rad at 2 ms into 1 rad/s². No drive follows
that: the difference, not the plan, goes through a filter as slow as a servo, a cubic fitted over 0.2 s around each
command. It leaves 0.0002 rad/s² of that rounding, and keeps what is slower than 3 Hz.
"""

from dataclasses import dataclass

import numpy as np
from scipy.signal import savgol_filter

from excitor.design.fourier import Trajectory
from excitor.design.programs.execution import Stretch
from excitor.design.programs.interpolation import (
    SHARES,
    STRETCH,
    Course,
    cubic,
    lines,
    plausible_blends,
    plausible_splines,
    quintic,
)
from excitor.design.programs.plan import Move, Plan, StretchName, duration, moved, planned
from excitor.design.programs.target import Target, from_axes
from excitor.robots.arrays import FloatArray

_SAME = 2e-6  # rad or m, between poses that are one
_SERVO = 0.2  # s, over which a servo averages

_SPLINES_TOLD = "points joined by a C2 cubic spline, a C4 quintic spline or cubics with Catmull-Rom slopes"
_BLENDS_TOLD = (
    f"lines with parabolic or smooth blends over {', '.join(f'{100 * share:.0f}' for share in SHARES)} % of half of "
    f"them, in the planned time or {STRETCH - 1.0:.0%} slower; the controller keeps to its own jerk"
)
_STOPS_TOLD = "straight lines in joint space from rest to rest, with a smooth profile"


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A stretch in joints: where it should be, where it was told to be, and what may become of it."""

    name: StretchName
    kind: str  # "commands", "points", "way-points", or "stops" that only lines from rest to rest connect
    t: FloatArray  # (n,), s
    q: FloatArray  # (n, n_joints)
    wanted: FloatArray
    courses: tuple[Course, ...]
    assumed: str = ""  # what was taken for granted; empty where it is known how the points are joined


def part_of(plan: Plan, target: Target, stretch: Stretch) -> Part:
    """Map a stretch to joints, and list what may become of it."""
    t, q = stretch.t, from_axes(plan.robot, target, stretch.axes)
    if stops(plan, stretch):
        return _stopping(plan, stretch.name, q)
    if len(t) > 1 and not (np.diff(t) > 0.0).all():
        k = int(np.argmin(np.diff(t)))
        raise ValueError(f"{stretch.name}: times do not rise after {t[k]:.6g} s; no motion passes such points")
    wanted = planned(plan, stretch.name, t)
    if len(t) < 2:
        raise ValueError(f"{stretch.name}: has {len(t)} point; a motion takes two or more")
    if stretch.kind == "commands":
        return Part(stretch.name, "commands", t, q, wanted, (_followed(plan, stretch.name, t, q - wanted),))
    courses, assumed = _joined(plan, target, stretch, q)
    return Part(stretch.name, stretch.kind, t, q, wanted, courses, assumed)


def stops(plan: Plan, stretch: Stretch) -> bool:
    """Tell whether way-points are ends of the plan's moves, at each of which the controller comes to rest."""
    if stretch.kind != "way-points" or (stretch.name == "main" and isinstance(plan.body, Trajectory)):
        return False
    if stretch.interpolation != "blend":
        return stretch.name != "main" or len(stretch.t) == len(plan.moves("main")) + 1
    return stretch.name != "main" and len(stretch.t) <= 2 * len(plan.moves(stretch.name)) + 1


def _stopping(plan: Plan, name: StretchName, q: FloatArray) -> Part:
    """Take the ends of moves, with the plan's times where they are as many as planned; stops may be left out."""
    begin = plan.home if name == "out" else plan.start
    moves = plan.moves(name)
    if len(q) != len(moves) + 1:
        starts = [begin, *(move.to for move in moves)]
        moves = tuple(move for pose, move in zip(starts, moves, strict=False) if (move.to != pose).any())
        q = q[np.append(True, np.abs(np.diff(q, axis=0)).max(axis=1) > _SAME)]
    wanted = np.array([begin, *(move.to for move in moves)])
    made = [Move(to, move.duration, move.blend) for to, move in zip(q[1:], moves, strict=False)]
    made += [Move(to, duration(plan, name)) for to in q[1 + len(moves) :]]  # more than were planned
    edges = np.concatenate([[0.0], np.cumsum([move.duration for move in made])])
    wanted = wanted[np.minimum(np.arange(len(q)), len(wanted) - 1)]
    course = Course("straight lines from rest to rest", edges, lambda at, order: moved(q[0], tuple(made), at, order))
    return Part(name, "stops", edges, q, wanted, (course,), _STOPS_TOLD)


def _followed(plan: Plan, name: StretchName, t: FloatArray, off: FloatArray) -> Course:
    """Add to the plan what a servo makes of the commands' differences from it."""
    step = float(np.median(np.diff(t)))
    window = min(2 * max(3, round(0.5 * _SERVO / step)) + 1, len(t) - 1 + len(t) % 2)  # odd
    if window < 5 or not off.any():
        slopes = [off, *[np.zeros_like(off)] * 3]
    else:
        slopes = [
            savgol_filter(off, window, 3, deriv=order, delta=step, axis=0, mode="nearest") if order else off
            for order in range(4)
        ]

    def evaluate(at: FloatArray, order: int) -> FloatArray:
        k = np.clip(np.searchsorted(t, at) - 1, 0, len(t) - 2)
        share = np.clip((at - t[k]) / (t[k + 1] - t[k]), 0.0, 1.0)[:, None]
        between = slopes[order][k] * (1.0 - share) + slopes[order][k + 1] * share
        return np.asarray(planned(plan, name, at, order) + between)

    return Course("commands", t, evaluate)


def _joined(plan: Plan, target: Target, stretch: Stretch, q: FloatArray) -> tuple[tuple[Course, ...], str]:
    """List the courses through points, and what is assumed of them."""
    t = stretch.t
    rates, accelerations = (
        None if values is None else from_axes(plan.robot, target, values, order)
        for order, values in ((1, stretch.rates), (2, stretch.accelerations))
    )
    if stretch.kind == "way-points" or stretch.interpolation == "blend":
        return plausible_blends(t, q), _BLENDS_TOLD
    if stretch.interpolation == "linear":
        return (lines(t, q),), ""
    if stretch.interpolation != "spline" and rates is not None:
        if accelerations is not None and stretch.interpolation != "cubic":
            return (quintic(t, q, rates, accelerations),), ""
        return (cubic(t, q, rates),), ""
    return plausible_splines(t, q), _SPLINES_TOLD


def nominal(courses: tuple[Course, ...]) -> tuple[Course, ...]:
    """Leave out courses that differ from another only by taking longer."""
    return tuple(course for course in courses if course.slowed == 1.0)
