"""How far from its reference a robot was: joint by joint, and at the tool."""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_pose
from excitor.robots.robot import Robot

_NEAR = 200  # samples before and after, among which the nearest point of a path is looked for
_POINTS = 4000  # of a motion, at least, whose distance to the path is found


@dataclass(frozen=True, eq=False, slots=True)
class Errors:
    """Tracking errors: rad or m of joints, m of the tool."""

    rms: FloatArray  # (n_joints,)
    peak: FloatArray  # (n_joints,)
    varying: FloatArray  # (n_joints,): rms about the mean, which a controller that integrates would take away
    tool_rms: float  # distance to where the tool should be at that time
    tool_peak: float
    path_rms: float  # distance to the path, whenever the tool should be there
    path_peak: float


def errors_of(robot: Robot, wanted: FloatArray, q: FloatArray) -> Errors:
    """Compare positions with those wanted, (n, n_joints) both."""
    e = q - wanted
    there, should = (frame_pose(robot, x)[:, :3, 3] for x in (q, wanted))
    now, path = np.linalg.norm(there - should, axis=1), path_distances(there, should)
    rms, varying = np.sqrt(np.mean(e**2, axis=0)), np.std(e, axis=0)
    return Errors(rms, np.abs(e).max(axis=0), varying, _rms(now), float(now.max()), _rms(path), float(path.max()))


def path_distances(points: FloatArray, path: FloatArray, near: int = _NEAR) -> FloatArray:
    """Find the distance of some of the points to the straight pieces of a path near where they should be.

    Both are sampled alike; a point is looked for among the pieces at most `near` samples away.
    """
    n = len(points)
    which = np.arange(0, n, max(1, n // _POINTS))
    best = np.full(len(which), np.inf)
    for shift in range(-near, near):
        k = np.flatnonzero((which + shift >= 0) & (which + shift + 1 < n))
        at = which[k]
        a, way = path[at + shift], path[at + shift + 1] - path[at + shift]
        length = np.einsum("ij,ij->i", way, way)
        along = np.einsum("ij,ij->i", points[at] - a, way) / np.where(length > 0.0, length, 1.0)
        beyond = points[at] - a - np.clip(along, 0.0, 1.0)[:, None] * way
        best[k] = np.minimum(best[k], np.einsum("ij,ij->i", beyond, beyond))
    return np.asarray(np.sqrt(best))


def _rms(x: FloatArray) -> float:
    return float(np.sqrt(np.mean(x**2)))
