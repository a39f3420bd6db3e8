"""Where a robot's bodies are, for a picture of it in motion."""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_pose, link_poses
from excitor.robots.robot import Robot

STICK = 0.02  # m: radius that links are drawn with where a robot states no capsules


def base_capsules(robot: Robot) -> list[dict[str, Any]]:
    """List the capsules that stand still."""
    return [
        {"start": capsule.start.tolist(), "end": capsule.end.tolist(), "radius": capsule.radius}
        for capsule in robot.capsules
        if capsule.link < 0
    ]


def moving_capsules(robot: Robot) -> list[dict[str, Any]]:
    """List the capsules that move, or sticks where a robot states none, in the order of `frames`."""
    return [
        {"link": robot.mechanism.link_names[capsule.link], "radius": capsule.radius}
        for capsule in robot.capsules
        if capsule.link >= 0
    ] or [{"link": name, "radius": STICK} for name in robot.mechanism.link_names]


def frames(robot: Robot, time: FloatArray, q: FloatArray) -> dict[str, Any]:
    """Place the robot's capsules and its tool in the base frame."""
    poses = link_poses(robot, q)
    capsules = [capsule for capsule in robot.capsules if capsule.link >= 0]
    ends: FloatArray = np.zeros((len(q), len(capsules), 6))
    for k, capsule in enumerate(capsules):
        T = poses[:, capsule.link]
        ends[:, k, :3] = T[:, :3, :3] @ capsule.start + T[:, :3, 3]
        ends[:, k, 3:] = T[:, :3, :3] @ capsule.end + T[:, :3, 3]
    if not capsules:
        ends = _skeleton(poses)
    tool = frame_pose(robot, q)[:, :3, 3]
    return {"time": time.tolist(), "capsules": ends.tolist(), "tool": tool.tolist()}


def _skeleton(poses: FloatArray) -> FloatArray:
    """Draw lines between the frames of a robot that states no capsules."""
    origins = poses[:, :, :3, 3]
    before = np.concatenate([np.zeros((len(poses), 1, 3)), origins[:, :-1]], axis=1)
    return np.concatenate([before, origins], axis=2)
