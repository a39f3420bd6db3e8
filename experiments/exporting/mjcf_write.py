"""What does MuJoCo need to be this robot? A small MJCF of its chain: bodies, joints, inertials and drives."""

from collections.abc import Iterator, Mapping
from importlib.metadata import version

import numpy as np

from excitor.experiments.exporting.load_files import quaternion
from excitor.experiments.exporting.mjcf_elements import (
    Drive,
    drive_of,
    inertial,
    joint_attributes,
    quoted,
    tendon_lines,
)
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import check_consistency, inverse
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

_SAME = 1e-9


def written_mjcf(robot: Robot, chi: FloatArray) -> tuple[str, tuple[str, ...]]:
    """Write an open chain as MJCF, positions of joints as the robot counts them; and say what it leaves out."""
    tree = tree_of(robot)
    check_bodies(robot, chi)
    drive = drive_of(robot, chi)
    lines = [
        f"<!-- Written by Excitor {version('excitor')}: inertias and drives; shapes and limits are yours. -->",
        f"<mujoco model={quoted(robot.name)}>",
        '  <compiler angle="radian" inertiafromgeom="false"/>',
        f'  <option gravity="{_numbers(tree.gravity)}"/>',
        "  <worldbody>",
        *_bodies(robot, tree, chi, drive),
        "  </worldbody>",
        *tendon_section(robot, drive, {name: name for name in robot.joint_names}),
        "</mujoco>",
    ]
    return "\n".join(lines) + "\n", drive.left_out


def tree_of(robot: Robot) -> Tree:
    """Take the open chain that MuJoCo's bodies form; ExcitorError where they do not."""
    tree = robot.mechanism
    if not isinstance(tree, Tree):
        raise ExcitorError(f"{robot.name}: is a closed chain, which is not written as MJCF")
    if tree.coupling.shape[0] != tree.coupling.shape[1] or not np.allclose(tree.coupling, np.eye(tree.n_links)):
        raise ExcitorError(f"{robot.name}: its joints move other links than their own, which is not written as MJCF")
    return tree


def check_bodies(robot: Robot, chi: FloatArray) -> None:
    """Refuse bodies that cannot exist."""
    for j, name in enumerate(robot.mechanism.link_names):
        if not check_consistency(chi[layout(robot).link(j)]).holds:
            raise ExcitorError(f"link {name}: no body can have its identified parameters, so it is not exported")


def tendon_section(robot: Robot, drive: Drive, joints: Mapping[str, str]) -> list[str]:
    """Write the section of coupled drives; nothing where there are none."""
    lines = list(tendon_lines(robot, drive, joints))
    return ["  <tendon>", *lines, "  </tendon>"] if lines else []


def _bodies(robot: Robot, tree: Tree, chi: FloatArray, drive: Drive) -> Iterator[str]:
    """Write bodies inside their parents; body frames are the robot's link frames."""
    poses = tree.poses(np.zeros((1, tree.n_joints)))[0]
    screws = tree.jacobians(np.zeros((1, tree.n_joints)))[0]

    def written(j: int, depth: int) -> Iterator[str]:
        indent = "  " * depth
        parent = int(tree.parents[j])
        T = poses[j] if parent < 0 else inverse(poses[parent]) @ poses[j]
        pos, quat = _numbers(T[:3, 3]), _numbers(quaternion(T[:3, :3]))
        name = tree.link_names[j]
        yield f'{indent}<body name={quoted(name)} pos="{pos}" quat="{quat}">'
        yield f"{indent}  {inertial(chi[layout(robot).link(j)])}"
        yield f"{indent}  {_joint(tree, j, poses[j][:3, :3].T @ screws[j].reshape(2, 3, -1)[:, :, j].T, drive)}"
        for child in np.flatnonzero(tree.parents == j):
            yield from written(int(child), depth + 1)
        yield f"{indent}</body>"

    for root in np.flatnonzero(tree.parents < 0):
        yield from written(int(root), 2)


def _joint(tree: Tree, j: int, screw: FloatArray, drive: Drive) -> str:
    """Write a joint in its body's frame, from the velocities of the frame that it causes: columns linear, angular."""
    linear, angular = screw.T
    name = tree.joint_names[j]
    attributes = {"name": quoted(name), "type": '"hinge"', "axis": f'"{_numbers(angular)}"'}
    if tree.sliding[j]:
        attributes |= {"type": '"slide"', "axis": f'"{_numbers(linear)}"'}
    else:
        place = np.cross(angular, linear)  # of the axis' point nearest to the frame
        if np.abs(place).max() > _SAME:
            attributes["pos"] = f'"{_numbers(place)}"'
    attributes |= {key: f'"{value}"' for key, value in joint_attributes(drive.joints[name]).items()}
    return f"<joint {' '.join(f'{key}={value}' for key, value in attributes.items())}/>"


def _numbers(values: FloatArray) -> str:
    return " ".join(repr(float(x) + 0.0) for x in np.where(np.abs(values) < 1e-15, 0.0, values))
