"""Zones as people write them in campaign.toml, as the solids that distances are measured to; links they cannot see."""

import numpy as np

from excitor.experiments.designing import schema
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import random_motion
from excitor.robots.cell import Scene, Shape, Zone, scene_rows
from excitor.robots.inertia import roll_pitch_yaw, translation
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree


def scene_of(robot: Robot, cell: schema.Cell, problems: list[str]) -> Scene | None:
    """Build the scene of a cell; None where nothing is to be kept clear."""
    names = [zone.name for zone in cell.zone]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"cell.zone: the name {name!r} is used more than once")
    zones = []
    for k, entry in enumerate(cell.zone, start=1):
        try:
            zones.append(_zone(entry, cell.clearance_m))
        except ValueError as error:
            problems.append(f"cell.zone[{k}]: {error}")
    if problems or not (zones or (cell.self_collision and robot.capsules)):
        return None
    scene = Scene(tuple(zones), cell.self_collision, cell.clearance_m, cell.tool_radius_m)
    scene_rows(robot, scene)  # what does not fit the robot is told here
    return scene


def moving_links_without_volume(robot: Robot, moving: BoolArray) -> tuple[int, ...]:
    """Find the links that have no capsule and that one of the `moving` joints (n_joints,) carries: their indices."""
    covered = {capsule.link for capsule in robot.capsules}
    jacobians = robot.mechanism.jacobians(random_motion(robot, 20).q)[..., moving]
    speeds = np.abs(jacobians).max(axis=(0, 2, 3), initial=0.0)
    return tuple(int(j) for j in np.flatnonzero(speeds > 1e-9) if j not in covered)


def is_bodiless(robot: Robot, link: int) -> bool:
    """Check whether the robot file states that a link is only a frame between axes.

    Its mass and inertia are stated as 0, the joints that it carries turn about axes through its own, and neither the
    tool nor a payload is mounted on it. A link of unknown mass has a body.
    """
    tree, own = robot.mechanism, slice(10 * link, 10 * link + 10)
    if not isinstance(tree, Tree) or not robot.known[own].all() or robot.chi[own].any():
        return False
    if robot.tool.link == link or (robot.payload is not None and robot.payload.link == link):
        return False
    carried = np.flatnonzero(tree.parents == link)
    lengths = np.linalg.norm([tree.after[link, :3, 3], *tree.before[carried, :3, 3]], axis=1)
    return bool(lengths.max() < 1e-9 and not tree.sliding[carried].any())


def _zone(entry: schema.Zone, clearance: float) -> Zone:
    shape = _shape(entry)
    return Zone(
        entry.name, shape, entry.keep, entry.bodies, clearance if entry.clearance_m is None else entry.clearance_m
    )


def _shape(entry: schema.Zone) -> Shape:
    if entry.shape == "box":
        if entry.low is not None and entry.high is not None:
            low, high = np.array(entry.low), np.array(entry.high)
            return Shape("box", translation(*(0.5 * (low + high))), 0.5 * (high - low))
        assert entry.center is not None
        assert entry.size is not None
        turn = roll_pitch_yaw(*np.radians(entry.rpy_deg or [0.0, 0.0, 0.0]))
        return Shape("box", translation(*entry.center) @ turn, 0.5 * np.array(entry.size))
    if entry.shape == "half-space":
        assert entry.point is not None
        assert entry.normal is not None
        return Shape("half-space", translation(*entry.point) @ _upright(np.array(entry.normal)))
    assert entry.center is not None
    assert entry.radius is not None
    if entry.shape == "sphere":
        return Shape("sphere", translation(*entry.center), np.array([entry.radius, 0.0, 0.0]))
    assert entry.height is not None
    turn = _upright(np.array(entry.axis or [0.0, 0.0, 1.0]))
    return Shape("cylinder", translation(*entry.center) @ turn, np.array([entry.radius, 0.5 * entry.height, 0.0]))


def _upright(direction: FloatArray) -> FloatArray:
    """Turn the z axis to a direction."""
    z = direction / np.linalg.norm(direction)
    aside = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(aside, z)
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.column_stack([x, np.cross(z, x), z])
    return T
