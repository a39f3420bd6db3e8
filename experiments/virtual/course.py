"""When a program moves what: its stretches on a virtual clock, with standing still before, between and after them."""

from dataclasses import dataclass

import numpy as np

from excitor.design.programs.plan import BACK, END, OUT, Plan, Stretches, StretchName, duration, marks, planned
from excitor.experiments.virtual.settings import Settings
from excitor.robots.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """A plan laid on a clock that starts with a logger."""

    plan: Plan
    speed: float  # of the program's clock
    starts: tuple[tuple[StretchName, float], ...]  # s, of stretches that take time
    end: float  # s

    def length(self, stretch: StretchName) -> float:
        """Tell how long a stretch takes at this speed, s."""
        return duration(self.plan, stretch) / self.speed


def lay_course(plan: Plan, settings: Settings, rng: np.random.Generator) -> Course:
    """Draw how long the robot stands, and lay the plan's stretches between."""
    t = rng.uniform(*settings.standing)
    starts: list[tuple[StretchName, float]] = []
    for stretch in Stretches:
        span = duration(plan, stretch) / settings.speed
        if span > 0.0:
            starts.append((stretch, t))
            t += span + rng.uniform(*settings.standing)
    return Course(plan, settings.speed, tuple(starts), t)


def commanded(course: Course, t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative of what the program commands, (n_t, n_joints)."""
    plan = course.plan
    out = np.tile(plan.home if order == 0 else 0.0 * plan.home, (len(t), 1))
    for stretch, start in course.starts:
        after = t >= start
        if order == 0:
            out[after] = plan.home if stretch == "back" else plan.start
        inside = after & (t < start + course.length(stretch))
        out[inside] = course.speed**order * planned(plan, stretch, course.speed * (t[inside] - start), order)
    return out


def marked(course: Course, t: FloatArray) -> IntArray:
    """Tell what mark the program has set, (n_t,): 0 where it stands."""
    out = np.zeros(len(t), dtype=np.int64)
    for stretch, start in course.starts:
        stop = start + course.length(stretch)
        steps = {"out": ((0.0, OUT),), "back": ((0.0, BACK),)}.get(stretch) or marks(course.plan)
        for begin, mark in steps:
            out[(t >= start + begin / course.speed) & (t < stop)] = mark
        out[t >= stop] = END if stretch == course.starts[-1][0] else 0
    return out
