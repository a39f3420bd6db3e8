"""Which points of several objectives are worth keeping, and which of them lies well between the ends."""

from collections.abc import Sequence

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray


def nondominated(points: FloatArray) -> BoolArray:
    """Tell which points no other is as good as in everything and better than in something, (n,) bool."""
    if not len(points):
        return np.zeros(0, dtype=bool)
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
    better = (points[:, None, :] < points[None, :, :]).any(axis=2)
    return np.asarray(~(no_worse & better).any(axis=0))


def knee(objectives: Sequence[str], points: FloatArray) -> int:
    """Choose the point nearest to the best of everything, each objective by its range on the front; -1 of none.

    A condition ten times the best is as far off as the end of another objective's range.
    """
    if not len(points):
        return -1
    comparable = comparable_points(objectives, points)
    box = _unit_box(comparable)
    if "condition" in objectives:
        k = list(objectives).index("condition")
        box[:, k] = (comparable[:, k] - comparable[:, k].min()) / np.log(10.0)
    return int(np.argmin(np.linalg.norm(box, axis=1)))


def spread(points: FloatArray, most: int) -> IntArray:
    """Choose at most so many points, far from each other, the best of each objective among them."""
    if len(points) <= most:
        return np.arange(len(points))
    box = _unit_box(points)
    chosen = list(dict.fromkeys(np.argmin(box, axis=0).tolist()))
    away = np.min([np.linalg.norm(box - box[k], axis=1) for k in chosen], axis=0)
    while len(chosen) < most:
        k = int(np.argmax(away))
        chosen.append(k)
        away = np.minimum(away, np.linalg.norm(box - box[k], axis=1))
    return np.sort(np.array(chosen))


def comparable_points(objectives: Sequence[str], points: FloatArray) -> FloatArray:
    """Take the criterion by its logarithm, so that its range does not drown in bad ones."""
    points = points.copy()
    for k, objective in enumerate(objectives):
        if objective == "condition":
            points[:, k] = np.log(np.minimum(points[:, k], 1e12))
    return points


def _unit_box(points: FloatArray) -> FloatArray:
    span = np.ptp(points, axis=0)
    return np.asarray((points - points.min(axis=0)) / np.where(span > 0.0, span, 1.0))
