"""Capsules that contain a mesh: one to four, each around what lies in a box of its space."""

import hashlib
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from excitor.robots.arrays import BoolArray, FloatArray, IntArray

MOST = 4  # capsules of a mesh
_CELLS = 10  # along each axis: where a mesh may be divided
_WORTH = 0.06  # of the cost: what one more capsule must save
_MARGIN = 1e-7  # m, added to each radius: rounding
_MOST_PARTS = 600_000  # of a mesh's triangles, cut
_DIRECTIONS, _SAMPLES, _LEAVES = 120, 3000, 10
_BULGE = 0.05  # of the hull's size: what lies that far outside counts twice
_KEPT: dict[bytes, tuple["Cover", ...]] = {}  # by the triangles' digest: a campaign reads its robot several times


class Cover(NamedTuple):
    """A capsule that contains points."""

    start: FloatArray
    end: FloatArray
    radius: float
    corners: FloatArray  # of the hull of what it contains, (n, 3)

    @property
    def volume(self) -> float:
        """Volume, m³."""
        length = float(np.linalg.norm(self.end - self.start))
        return np.pi * self.radius**2 * (length + 4.0 / 3.0 * self.radius)


def cover_triangles(triangles: FloatArray) -> tuple[Cover, ...]:
    """Cover triangles (n, 3, 3) by up to four capsules of little volume.

    The triangles are cut along a grid. A part of the robot in a box of cells lies in the hull of its cut triangles'
    corners, hence in a capsule that contains these. Boxes are divided in two where that saves most, as long as it
    saves a tenth of the volume.
    """
    key = hashlib.sha256(np.ascontiguousarray(triangles).tobytes()).digest()
    if key not in _KEPT:
        _KEPT[key] = _cover(triangles)
    return _KEPT[key]


def hull_gap(a: FloatArray, b: FloatArray, T_a_b: FloatArray, least: float) -> float:
    """Bound the distance of two convex hulls from below, over poses (n, 4, 4) of b in a; 0 if it may be below `least`.

    A direction n separates them by min n·b - max n·a. The normals of both hulls' faces are tried: each that separates
    some pose by `least` is tried on all, until none are left. Poses that only pairs of edges separate give 0.
    """
    try:
        n_a, n_b = (np.unique(ConvexHull(points).equations[:, :3].round(6), axis=0) for points in (a, b))
    except (QhullError, ValueError):  # flat
        return 0.0
    apart = np.inf
    while len(T_a_b):
        R, t = T_a_b[0, :3, :3], T_a_b[0, :3, 3]
        gap_a = (n_a @ (R @ b.T + t[:, None])).min(axis=1) - (n_a @ a.T).max(axis=1)
        gap_b = (n_b @ (R.T @ (a - t).T)).min(axis=1) - (n_b @ b.T).max(axis=1)
        if max(gap_a.max(), gap_b.max()) < least:
            return 0.0
        if gap_a.max() >= gap_b.max():
            n = n_a[gap_a.argmax()]
            gaps = (b @ (T_a_b[:, :3, :3].transpose(0, 2, 1) @ n).T).min(axis=0) + T_a_b[:, :3, 3] @ n - (a @ n).max()
        else:
            n = T_a_b[:, :3, :3] @ n_b[gap_b.argmax()]  # in a
            gaps = (a @ n.T).min(axis=0) - (n * T_a_b[:, :3, 3]).sum(axis=1) - (b @ n_b[gap_b.argmax()]).max()
        done = gaps >= least
        done[0] = True  # up to rounding
        apart = min(apart, float(gaps[done].min()))
        T_a_b = T_a_b[~done]
    return apart


def _cover(triangles: FloatArray) -> tuple[Cover, ...]:
    axes = _box_axes(triangles.reshape(-1, 3))
    local: FloatArray = triangles @ axes
    planes = [_planes(local[:, :, axis].ravel()) for axis in range(3)]
    for axis in range(3):
        for value in planes[axis]:
            local = _cut(local, axis, value)
    middles = local.mean(axis=1)
    search = _Search(local, np.stack([np.searchsorted(planes[k], middles[:, k]) for k in range(3)], axis=1))
    found = []
    for members in _divide(search):
        points = _corners(local[members[search.places]].reshape(-1, 3))
        best = _fit(points, rounds=30)
        radius = max(best.radius, float(distances(points, best).max())) + _MARGIN
        found.append(Cover(axes @ best.start, axes @ best.end, radius, points @ axes.T))
    return tuple(found)


def _box_axes(points: FloatArray) -> FloatArray:
    """Choose the axes of the smaller box about points, the link's own or the principal ones, as columns."""
    hull = _corners(points)
    principal = np.linalg.svd(hull - hull.mean(axis=0), full_matrices=False)[2].T
    if principal.shape != (3, 3):
        return np.eye(3)
    boxes = [np.prod(np.ptp(hull @ axes, axis=0) + 1e-9) for axes in (np.eye(3), principal)]
    return principal if boxes[1] < 0.98 * boxes[0] else np.eye(3)


def _corners(points: FloatArray) -> FloatArray:
    """Keep the corners of the convex hull."""
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):  # all in a plane, or on a line
        return np.unique(points, axis=0)


def _planes(heights: FloatArray) -> FloatArray:
    """Choose where a mesh may be cut: at equal steps, each moved to where most vertices lie, as at edges of shapes."""
    low, high = heights.min(), heights.max()
    if high - low < 1e-9:
        return np.zeros(0)
    counts, bins = np.histogram(heights, 20 * _CELLS)
    inner = counts[10:-10].reshape(_CELLS - 1, 20)
    best = inner.argmax(axis=1) + 20 * np.arange(_CELLS - 1) + 10
    return np.asarray(0.5 * (bins[best] + bins[best + 1]))


def _cut(triangles: FloatArray, axis: int, value: float) -> FloatArray:
    """Cut triangles at a plane, so that none has corners on both sides; as they are where that makes too many."""
    d = triangles[:, :, axis] - value
    crossing = (d.max(axis=1) > 1e-12) & (d.min(axis=1) < -1e-12)
    if not crossing.any() or len(triangles) + 2 * crossing.sum() > _MOST_PARTS:
        return triangles
    whole, d = triangles[crossing], d[crossing]
    above = d > 0.0
    alone = np.where(above.sum(axis=1)[:, None] == 1, above, ~above).argmax(axis=1)
    order = (alone[:, None] + np.arange(3)) % 3
    a, b, c = np.moveaxis(np.take_along_axis(whole, order[:, :, None], axis=1), 1, 0)
    da, db, dc = np.take_along_axis(d, order, axis=1).T[:, :, None]
    ab, ac = a + (b - a) * (da / (da - db)), a + (c - a) * (da / (da - dc))
    parts = (np.stack(corners, axis=1) for corners in ((a, ab, ac), (ab, b, c), (ab, c, ac)))
    return np.concatenate([triangles[~crossing], *parts])


class _Search:
    """Capsules about sets of cells, fitted to each set's extreme points in 200 directions."""

    def __init__(self, triangles: FloatArray, cells: IntArray) -> None:
        number, self.places = np.unique(np.ravel_multi_index(tuple(cells.T), (_CELLS,) * 3), return_inverse=True)
        self.at = np.stack(np.unravel_index(number, (_CELLS,) * 3), axis=1)  # occupied cells
        self.values = np.zeros((len(number), _DIRECTIONS))
        self.points = np.zeros((len(number), _DIRECTIONS, 3))
        order, directions = np.argsort(self.places, kind="stable"), _sphere(_DIRECTIONS)
        for k, members in enumerate(np.split(order, np.flatnonzero(np.diff(self.places[order])) + 1)):
            points = triangles[members].reshape(-1, 3)
            heights = points @ directions.T
            best = heights.argmax(axis=0)
            self.values[k], self.points[k] = heights[best, np.arange(_DIRECTIONS)], points[best]
        low, high = triangles.min(axis=(0, 1)), triangles.max(axis=(0, 1))
        room = 0.3 * np.median(high - low)  # for what bulges
        self.samples = low - room + _spread(_SAMPLES) * (high - low + 2.0 * room)
        out = _outside(self.samples, _corners(self.points.reshape(-1, 3)))
        inner = max(float((out <= 0.0).mean() * np.prod(high - low + 2.0 * room)), 1e-12)
        self.weights = 1.0 + (out / (_BULGE * inner ** (1.0 / 3.0))) ** 2
        self.known: dict[bytes, tuple[float, BoolArray]] = {}

    def fit(self, members: BoolArray) -> tuple[float, BoolArray]:
        """Fit a capsule to some of the occupied cells, roughly: its volume, and which samples lie in it."""
        key = members.tobytes()
        if key not in self.known:
            inside = np.flatnonzero(members)
            best = inside[self.values[inside].argmax(axis=0)]
            one = _fit(self.points[best, np.arange(_DIRECTIONS)], rounds=3)
            self.known[key] = one.volume, distances(self.samples, one) < one.radius
        return self.known[key]

    def cost(self, leaves: Sequence[BoolArray]) -> float:
        """Volume of the union of the sets' capsules, in samples: what lies far outside the hull counts more."""
        return float(self.weights[np.any([self.fit(leaf)[1] for leaf in leaves], axis=0)].sum())


def _divide(search: _Search) -> list[BoolArray]:
    """Divide the occupied cells into one to four sets whose capsules cost little.

    Sets are halved where that saves most volume, then merged in pairs where the cost grows least; each set that stays
    must save a share of it.
    """
    leaves = [np.ones(len(search.at), dtype=bool)]
    while len(leaves) < _LEAVES:
        halves = [_halves(search, leaf) for leaf in leaves]
        savings = [
            search.fit(leaf)[0] - sum(search.fit(h)[0] for h in two) for leaf, two in zip(leaves, halves, strict=True)
        ]
        k = int(np.argmax(savings))
        if len(halves[k]) < 2:
            break
        leaves = [*leaves[:k], *halves[k], *leaves[k + 1 :]]
    choices = [leaves]
    while len(leaves) > 1:
        merged = [
            [*(leaf for k, leaf in enumerate(leaves) if k not in pair), leaves[pair[0]] | leaves[pair[1]]]
            for pair in combinations(range(len(leaves)), 2)
        ]
        leaves = min(merged, key=search.cost)
        choices.append(leaves)
    few = [leaves for leaves in choices if len(leaves) <= MOST]
    return min(few, key=lambda leaves: search.cost(leaves) * (1.0 + _WORTH) ** len(leaves))


def _halves(search: _Search, members: BoolArray) -> list[BoolArray]:
    """Cut a set where the halves' capsules are smallest; the set itself where it is one cell."""
    at = search.at[members]
    cuts = [(axis, k) for axis in range(3) for k in range(at[:, axis].min() + 1, at[:, axis].max() + 1)]
    halves = [[members & (search.at[:, axis] < k), members & (search.at[:, axis] >= k)] for axis, k in cuts]
    return min(halves, key=lambda two: sum(search.fit(one)[0] for one in two), default=[members])


def _outside(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Bound how far points lie outside the convex hull of corners, from below: 0 inside, m, (n,)."""
    try:
        planes = ConvexHull(corners).equations
    except QhullError:  # flat
        return np.asarray(np.maximum(points - corners.max(axis=0), corners.min(axis=0) - points).max(axis=1).clip(0.0))
    return np.asarray((points @ planes[:, :3].T + planes[:, 3]).max(axis=1).clip(0.0))


def distances(points: FloatArray, capsule: Cover) -> FloatArray:
    """Distance of points (n, 3) from a capsule's segment, (n,)."""
    along = capsule.end - capsule.start
    share = np.clip((points - capsule.start) @ along / max(float(along @ along), 1e-300), 0.0, 1.0)
    return np.asarray(np.linalg.norm(points - capsule.start - share[:, None] * along, axis=1))


def _fit(points: FloatArray, rounds: int) -> Cover:
    """Fit a capsule of little volume that contains points (n, 3): random steps, the same each time."""
    rng = np.random.default_rng(0)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    size = float(np.ptp(points, axis=0).max()) or 1e-6
    axes = np.vstack([np.eye(3), np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]])
    d, c, grow = axes, np.tile(middle, (len(axes), 1)), np.ones(len(axes))
    best = None
    for k in range(rounds + 1):
        volumes, low, high, radius = _enclose(points, d, c, grow)
        one = int(np.argmin(volumes))
        if best is None or volumes[one] < best[0]:
            best = volumes[one], d[one], c[one], grow[one], low[one], high[one], radius[one]
        step = 0.3 * 0.01 ** (k / rounds)
        d = best[1] + step * rng.normal(size=(24, 3))
        d /= np.linalg.norm(d, axis=1, keepdims=True)
        c = best[2] + 0.3 * step * size * rng.normal(size=(24, 3))
        grow = np.maximum(1.0, best[3] + 0.3 * step * rng.normal(size=24))
    assert best is not None
    _, d0, c0, _, t0, t1, r = best
    return Cover(c0 + t0 * d0, c0 + t1 * d0, float(r), points)


def _enclose(
    points: FloatArray, d: FloatArray, c: FloatArray, grow: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Find capsules about axes through c along d that contain points: volumes, both ends along d, radii.

    A point at t along the axis and ρ from it is inside if an end of the segment lies beyond t ± √(r² - ρ²).
    """
    t = d @ points.T - (d * c).sum(axis=1)[:, None]
    off = ((points**2).sum(axis=1) - 2.0 * c @ points.T) + (c**2).sum(axis=1)[:, None]
    rho2 = np.maximum(off - t**2, 0.0)
    r = np.sqrt(rho2.max(axis=1)) * grow
    cap = np.sqrt(np.maximum(r[:, None] ** 2 - rho2, 0.0))
    low, high = (t + cap).min(axis=1), (t - cap).max(axis=1)
    single = low > high
    middle = 0.5 * (low + high)
    low, high = np.where(single, middle, low), np.where(single, middle, high)
    return np.pi * r**2 * (high - low + 4.0 / 3.0 * r), low, high, r


def _sphere(n: int) -> FloatArray:
    """Spread directions over the sphere: a Fibonacci lattice, (n, 3)."""
    k = np.arange(n) + 0.5
    z, turn = 1.0 - 2.0 * k / n, np.pi * (1.0 + 5.0**0.5) * k
    rho = np.sqrt(1.0 - z**2)
    return np.stack([rho * np.cos(turn), rho * np.sin(turn), z], axis=1)


def _spread(n: int) -> FloatArray:
    """Spread points over the unit cube: a lattice of the plastic constant's powers, (n, 3)."""
    return np.asarray(np.arange(1, n + 1)[:, None] * 1.2207440846057596 ** -np.arange(1.0, 4.0) % 1.0)
