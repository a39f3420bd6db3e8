"""A robot in its cell once more, from other hands: poses by pinocchio, distances by formulas written only here.

A solid's signed distance is a convex function of a point, and so is a segment's distance to it along the segment: the
least is found by golden section, the largest stands at an end.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.cell import Scene, Shape, Zone, required, scene_rows
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_STEPS = 50  # of golden section: 0.618⁵⁰ = 4e-11 of the segment

Segment = tuple[FloatArray, FloatArray, float]  # both ends (n_samples, 3), and the radius


class PinocchioCell:
    """Segments of a robot's capsules and its tool in the base frame, and how far they stay from what they must."""

    def __init__(self, robot: Robot, scene: Scene | None) -> None:
        try:
            import pinocchio
        except ImportError:
            raise ExcitorError(
                "the feasibility bench compares with pinocchio, which is not installed; install it: pip install pin"
            ) from None
        tree = robot.mechanism
        assert isinstance(tree, Tree)
        self.robot, self.scene, self.tree, self.pin = robot, scene, tree, pinocchio
        self.model = pinocchio_model(tree, pinocchio)
        self.data = self.model.createData()

    def link_poses(self, q: FloatArray) -> FloatArray:
        """Place all links, (n_links, n_samples, 4, 4)."""
        tree, poses = self.tree, np.empty((self.tree.n_links, len(q), 4, 4))
        for k, theta in enumerate(np.ascontiguousarray(q @ tree.coupling.T + tree.offset)):
            self.pin.forwardKinematics(self.model, self.data, theta)
            for j in range(tree.n_links):
                poses[j, k] = self.data.oMi[j + 1].homogeneous
        return np.asarray(poses @ tree.after[:, None])

    def clearances(self, q: FloatArray) -> FloatArray:
        """Measure what is left of every row, (n_samples, n_rows), in the order of `row_names`."""
        if self.scene is None:
            return np.empty((len(q), 0))
        robot, scene, poses = self.robot, self.scene, self.link_poses(q)
        bodies = [
            segment(poses, capsule.link, capsule.start, capsule.end, capsule.radius) for capsule in robot.capsules
        ]
        point = robot.tool.T_link_frame[:3, 3]
        tool = segment(poses, robot.tool.link, point, point, scene.tool_radius)
        links = [body for body, capsule in zip(bodies, robot.capsules, strict=True) if capsule.link >= 0]
        rows = []
        for zone in scene.zones:
            watched = {"tool": [tool], "links": links, "all": [*links, tool]}[zone.bodies]
            rows += [zone_clearance(zone, body) for body in watched]
        rows += [pair_clearance(bodies[a], bodies[b]) for a, b in scene_rows(robot, scene).volumes.pairs]
        return np.stack(rows, axis=1) if rows else np.empty((len(q), 0))

    def violations(self, q: FloatArray, tolerance: float) -> int:
        """Count the rows and samples with less clearance than required."""
        if self.scene is None:
            return 0
        return int((self.clearances(q) < required(self.robot, self.scene) - tolerance).sum())


def pinocchio_model(tree: Tree, pinocchio: Any) -> Any:
    """Build the same joints in pinocchio; bodies have no mass."""
    model = pinocchio.Model()
    for j in range(tree.n_links):
        T = tree.before[j]
        kind = pinocchio.JointModelPrismaticUnaligned if tree.sliding[j] else pinocchio.JointModelRevoluteUnaligned
        placement = pinocchio.SE3(T[:3, :3].copy(), T[:3, 3].copy())
        model.addJoint(int(tree.parents[j]) + 1, kind(tree.axis[j].copy()), placement, f"j{j}")
    return model


def segment(poses: FloatArray, link: int, start: FloatArray, end: FloatArray, radius: float) -> Segment:
    """Place a segment of a link, or of the base (link -1)."""
    T = poses[link] if link >= 0 else np.tile(np.eye(4), (poses.shape[1], 1, 1))
    return T[:, :3, :3] @ start + T[:, :3, 3], T[:, :3, :3] @ end + T[:, :3, 3], radius


def zone_clearance(zone: Zone, body: Segment) -> FloatArray:
    """Measure a capsule's distance from a solid, or how deep inside of it it stays, (n_samples,)."""
    a, b, radius = body
    shape, T = zone.shape, zone.shape.T_base_shape
    a, b = ((x - T[:3, 3]) @ T[:3, :3] for x in (a, b))
    if zone.keep == "in":
        return -np.maximum(signed_distance(shape, a), signed_distance(shape, b)) - radius
    return least_along(a, b, lambda p: signed_distance(shape, p)) - radius


def pair_clearance(one: Segment, other: Segment) -> FloatArray:
    """Measure the distance between two capsules, (n_samples,)."""
    a, b, radius = other
    direction = b - a
    square = np.maximum((direction**2).sum(axis=1), 1e-30)

    def distance(p: FloatArray) -> FloatArray:
        s = np.clip(((p - a) * direction).sum(axis=1) / square, 0.0, 1.0)
        return np.asarray(np.linalg.norm(p - a - s[:, None] * direction, axis=1))

    return least_along(one[0], one[1], distance) - one[2] - radius


def signed_distance(shape: Shape, p: FloatArray) -> FloatArray:
    """Measure points (n, 3) in a shape's own frame against its surface, negative inside."""
    if shape.kind == "half-space":
        return p[:, 2]
    if shape.kind == "sphere":
        return np.asarray(np.linalg.norm(p, axis=1) - shape.size[0])
    if shape.kind == "box":
        beyond = np.abs(p) - shape.size
    else:
        beyond = np.stack([np.hypot(p[:, 0], p[:, 1]) - shape.size[0], np.abs(p[:, 2]) - shape.size[1]], axis=1)
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
    return np.asarray(outside + np.minimum(beyond.max(axis=1), 0.0))


def least_along(a: FloatArray, b: FloatArray, distance: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Find the least of a convex function along the segments from a to b, (n,), by golden section."""
    low, high = np.zeros(len(a)), np.ones(len(a))

    def at(s: FloatArray) -> FloatArray:
        return distance(a + s[:, None] * (b - a))

    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        nearer = at(left) < at(right)
        low, high = np.where(nearer, low, left), np.where(nearer, right, high)
    return np.minimum(np.minimum(at(low), at(high)), np.minimum(at(0.0 * low), at(0.0 * low + 1.0)))
