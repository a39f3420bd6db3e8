"""Points of a table: when they are passed, so that every part of a run begins with one."""

from itertools import pairwise

import numpy as np

from excitor.design.programs.plan import Plan, StretchName, duration, marks
from excitor.robots.arrays import FloatArray


def part_edges(plan: Plan, stretch: StretchName) -> FloatArray:
    """List when the parts of a stretch begin, and when the last one ends, s."""
    if stretch == "main":
        return np.array([t for t, _ in marks(plan)] + [duration(plan, stretch)])
    return np.concatenate([[0.0], np.cumsum([move.duration for move in plan.moves(stretch)])])


def table_times(plan: Plan, stretch: StretchName, spacing: float) -> FloatArray:
    """Divide every part evenly, into steps of at most `spacing` s; the first time is 0, (n_points,)."""
    edges = part_edges(plan, stretch)
    parts = []
    for start, end in pairwise(edges):
        n = max(1, int(np.ceil((end - start) / spacing - 1e-9)))
        parts.append(start + np.arange(n) * ((end - start) / n))
    return np.concatenate([*parts, edges[-1:]])
