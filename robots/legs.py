"""Inverse geometry of legs in closed form: a driven elbow that keeps its distance from a point of the platform.

Most legs are of that kind. The elbow E runs along a circle or a line; whatever passive joints lie beyond it, the leg's
end P stays at a distance L from it. So the driven joint solves

    |m + u cos q + v sin q - P|² = L²    or    |m + v q - P|² = L²,

which has two solutions, the working modes; home tells which is meant. In a plane, distances are those in the plane.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.closure import Closure
from excitor.robots.parallel import ClosedLoop, size

_SAMPLES = 24
_CONSTANT = 1e-9  # of the robot's size: a distance that changes by less is constant
_TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False, slots=True)
class Leg:
    """A leg that has a closed form, in the directions that its closure joins."""

    joint: int  # among the actuated ones
    slides: bool
    path: FloatArray  # (3, n): m, u, v of the elbow; u is 0 where the joint slides
    length: float
    link: int  # of the tree, that the leg holds
    point: FloatArray  # (3,) there
    directions: FloatArray  # (n, 3)
    home: float
    side: float  # 1 or -1: which of the two solutions

    def __post_init__(self) -> None:
        freeze(self, path="3 n", point="3", directions="n 3")


def solve_legs(loop: ClosedLoop, legs: tuple[Leg, ...], x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find actuated joints for platform coordinates x, and how far each leg is out of reach, m: (n_samples, n) each."""
    at = np.tile(loop.home, (len(x), 1))
    at[:, loop.platform] = x
    poses = loop.tree.poses(at)
    q, short = np.empty((len(x), len(legs))), np.empty((len(x), len(legs)))
    for leg in legs:
        T = poses[:, leg.link]
        target = (T[:, :3, :3] @ leg.point + T[:, :3, 3]) @ leg.directions.T
        q[:, leg.joint], short[:, leg.joint] = _solve(leg, leg.path[0] - target)
    return q, short


def _solve(leg: Leg, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    _, u, v = leg.path
    if leg.slides:
        along = d @ v / (v @ v)
        across = np.linalg.norm(d - along[:, None] * v, axis=1)
        root = np.sqrt(np.maximum(leg.length**2 - across**2, 0.0)) / np.linalg.norm(v)
        return -along + leg.side * root, np.maximum(across - leg.length, 0.0)
    A, B = 2.0 * d @ u, 2.0 * d @ v
    most, C = np.hypot(A, B), leg.length**2 - (d**2).sum(axis=1) - u @ u
    cosine = C / np.where(most > 0.0, most, 1.0)
    angle = np.arctan2(B, A) + leg.side * np.arccos(np.clip(cosine, -1.0, 1.0))
    apart = np.linalg.norm(d, axis=1)
    radius = float(np.linalg.norm(u))
    short = np.maximum(np.maximum(apart - radius - leg.length, np.abs(radius - leg.length) - apart), 0.0)
    short = np.where(np.abs(cosine) > 1.0, np.maximum(short, np.finfo(float).tiny), 0.0)
    return leg.home + np.remainder(angle - leg.home + 0.5 * _TURN, _TURN) - 0.5 * _TURN, short


@lru_cache(maxsize=64)
def find_legs(loop: ClosedLoop) -> tuple[Leg, ...] | None:
    """Find each actuated joint's leg; None where one of them is of another kind."""
    legs = [_leg(loop, i) for i in range(loop.n_joints)]
    return tuple(leg for leg in legs if leg is not None) if all(leg is not None for leg in legs) else None


def _leg(loop: ClosedLoop, joint: int) -> Leg | None:
    tree, coordinate = loop.tree, int(loop.actuated[joint])
    row = np.zeros(tree.n_joints)
    row[coordinate] = 1.0
    driven = [j for j in range(tree.n_links) if np.array_equal(tree.coupling[j], row) and tree.parents[j] < 0]
    if len(driven) != 1:
        return None
    ends = [found for closure in loop.closures if (found := _ends(loop, closure, driven[0])) is not None]
    if len(ends) != 1:
        return None
    closure, inner, held = ends[0]
    D = np.eye(3) if closure.kind == "rod" else closure.directions
    elbow = closure.points[inner] if closure.kind == "rod" else _center(loop, closure, inner, driven[0])
    if elbow is None:
        return None
    path = _path(loop, coordinate, driven[0], elbow) @ D.T
    slides = bool(tree.sliding[driven[0]])
    if not slides and not _circular(path, size(loop)):
        return None
    if closure.kind == "rod":
        length = closure.length
    else:
        pose = tree.poses(loop.home[None])[0]
        apart = _world(pose, closure.links[inner], closure.points[inner]) - _world(pose, driven[0], elbow)
        length = float(np.linalg.norm(D @ apart))
    home = float(loop.home[coordinate])
    fields = (path, length, closure.links[held], closure.points[held], D, home)
    sides = [Leg(joint, slides, *fields, side=side) for side in (1.0, -1.0)]
    off = [abs(_at_home(loop, leg) - home) for leg in sides]
    return sides[int(np.argmin(off))] if min(off) < 1e-6 else None


def _at_home(loop: ClosedLoop, leg: Leg) -> float:
    only = (replace(leg, joint=0),)
    return float(solve_legs(loop, only, loop.home[None, loop.platform])[0][0, 0])


def _ends(loop: ClosedLoop, closure: Closure, driven: int) -> tuple[Closure, int, int] | None:
    """Tell which end of a closure the driven link carries, and which the platform, and only they: (closure, 0, 1)."""
    if closure.kind == "turn":
        return None
    platform = set(map(int, loop.platform))
    for inner, held in ((0, 1), (1, 0)):
        carried, holds = _ancestors(loop, closure.links[inner]), _ancestors(loop, closure.links[held])
        if driven not in carried or driven in holds:
            continue
        moved = {int(c) for j in holds for c in np.flatnonzero(loop.tree.coupling[j])}
        others = {int(c) for j in carried for c in np.flatnonzero(loop.tree.coupling[j])} & set(map(int, loop.actuated))
        rigid = closure.kind == "point" or closure.links[inner] == driven
        if moved and moved <= platform and len(others) == 1 and rigid:
            return closure, inner, held
    return None


def _ancestors(loop: ClosedLoop, link: int) -> list[int]:
    found = []
    while link >= 0:
        found.append(link)
        link = int(loop.tree.parents[link])
    return found


def _center(loop: ClosedLoop, closure: Closure, inner: int, driven: int) -> FloatArray | None:
    """Fit the sphere on which passive joints let a leg's end move, seen from the driven link; None if there is none."""
    q = np.tile(loop.home, (_SAMPLES, 1))
    q[:, loop.passive] += np.random.default_rng(0).uniform(-1.0, 1.0, size=(_SAMPLES, loop.passive.size))
    poses = loop.tree.poses(q)
    seen = np.linalg.inv(poses[:, driven]) @ poses[:, closure.links[inner]]
    points = seen[:, :3, :3] @ closure.points[inner] + seen[:, :3, 3]
    middle = points.mean(axis=0)
    p = points - middle
    unknowns = np.linalg.lstsq(np.column_stack([2.0 * p, np.ones(_SAMPLES)]), (p**2).sum(axis=1), rcond=1e-9)[0]
    distance = np.linalg.norm(p - unknowns[:3], axis=1)
    return middle + unknowns[:3] if np.ptp(distance) < _CONSTANT * size(loop) else None


def _path(loop: ClosedLoop, coordinate: int, driven: int, elbow: FloatArray) -> FloatArray:
    """Write the elbow's path by the driven joint: m, u, v with E = m + u cos q + v sin q, or m + v q, base frame."""
    q = np.tile(loop.home, (3, 1))
    slides = bool(loop.tree.sliding[driven])
    q[:, coordinate] = (0.0, 1.0, 2.0) if slides else (0.0, 0.25 * _TURN, 0.5 * _TURN)
    E = np.array([_world(pose, driven, elbow) for pose in loop.tree.poses(q)])
    if slides:
        return np.array([E[0], np.zeros(3), E[1] - E[0]])
    middle = 0.5 * (E[0] + E[2])
    return np.array([middle, 0.5 * (E[0] - E[2]), E[1] - middle])


def _circular(path: FloatArray, scale: float) -> bool:
    _, u, v = path
    return bool(abs(u @ v) < _CONSTANT * scale**2 and abs(u @ u - v @ v) < _CONSTANT * scale**2)


def _world(pose: FloatArray, link: int, point: FloatArray) -> FloatArray:
    return np.asarray(pose[link, :3, :3] @ point + pose[link, :3, 3])
