"""A MuJoCo file of one's own with its joints' and bodies' numbers filled in, and all else as it was, to the byte.

The file may place its bodies' frames as it likes: its joints' axes are compared with the robot's where both are at
their reference, and inertias are turned from the robot's link frames to the file's bodies. The zero of a joint that
moves no other axis, such as the last, cannot be seen there: it is taken to agree.
"""

from dataclasses import dataclass

import numpy as np

from excitor.experiments.exporting.mjcf_elements import drive_of, inertial, joint_attributes
from excitor.experiments.exporting.mjcf_poses import numbers, pose
from excitor.experiments.exporting.mjcf_read import Body, Joint, ReadMjcf, read_mjcf, with_attributes
from excitor.experiments.exporting.mjcf_write import check_bodies, tendon_section, tree_of
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import change_frame, check_consistency, from_center_of_mass, inverse
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

_NEAR = 1e-4  # m, and rad: files give five digits or so
_SAME = {"hinge": False, "slide": True}


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled file, and what it could not be told."""

    content: bytes
    left_out: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Pair:
    """A link of the robot, and the body that is it."""

    link: int
    body: int
    joint: Joint


def filled_mjcf(data: bytes, robot: Robot, chi: FloatArray, where: str) -> Filled:
    """Write the parameters chi into the joints and moving bodies of a robot's MuJoCo file."""
    tree = tree_of(robot)
    check_bodies(robot, chi)
    file = read_mjcf(data, where)
    if file.compiler.inertia_from_geoms == "true":
        raise ExcitorError(f'{where}: its compiler takes inertias from geoms only; set inertiafromgeom="auto" first')
    pairs = _pairs(file, tree, where)
    T_world_links = _placed(file, tree, pairs, where)
    drive = drive_of(robot, chi)
    moving = {pair.body for pair in pairs}
    edits: list[tuple[int, int, bytes]] = []
    for pair in pairs:
        tag = pair.joint.tag
        values = joint_attributes(drive.joints[tree.joint_names[pair.link]])
        edits.append((tag.start, tag.end, with_attributes(data[tag.start : tag.end], values)))
        body = file.bodies[pair.body]
        T_body_link = inverse(body.T_world_body) @ T_world_links[pair.link]
        phi = change_frame(chi[layout(robot).link(pair.link)], T_body_link) - _carried(file, pair.body, moving, where)
        if not check_consistency(phi).holds:
            raise ExcitorError(
                f"{where}: body {body.name!r} would weigh {phi[9]:.3g} kg, or have an inertia that no body has, "
                "without the bodies fixed to it; correct the inertials of those"
            )
        edits.append(_inertial_edit(data, body, inertial(phi)))
    joints = {tree.joint_names[pair.link]: pair.joint.name for pair in pairs}
    section = tendon_section(robot, drive, joints)
    if section:
        edits.append((file.end, file.end, ("\n".join(section) + "\n").encode()))
    for start, end, new in sorted(edits, key=lambda edit: -edit[0]):
        data = data[:start] + new + data[end:]
    return Filled(data, drive.left_out)


def _inertial_edit(data: bytes, body: Body, new: str) -> tuple[int, int, bytes]:
    """Replace a body's inertial, or put one right behind its opening tag, which may have to be opened."""
    if body.inertial is not None:
        return body.inertial[0], body.inertial[1], new.encode()
    if data[body.tag.end - 2 : body.tag.end] == b"/>":
        return body.tag.end - 2, body.tag.end, f">{new}</body>".encode()
    return body.tag.end, body.tag.end, new.encode()


def _pairs(file: ReadMjcf, tree: Tree, where: str) -> list[_Pair]:
    """Find each link's body by its joint's name; bodies must hang together as the links do."""
    found = {joint.name: (k, joint) for k, body in enumerate(file.bodies) for joint in body.joints}
    missing = [name for name in tree.joint_names if name not in found]
    if missing:
        raise ExcitorError(f"{where}: has no joint {', '.join(missing)}; its joints are {', '.join(found) or 'none'}")
    pairs = [_Pair(j, *found[name]) for j, name in enumerate(tree.joint_names)]
    moving = {pair.body: pair.link for pair in pairs}
    for pair in pairs:
        body, name = file.bodies[pair.body], pair.joint.name
        if len(body.joints) > 1:
            raise ExcitorError(f"{where}: body {body.name!r} has several joints; give each a body of its own")
        kind = pair.joint.attributes.get("type", "hinge")
        if _SAME.get(kind) != bool(tree.sliding[pair.link]):
            told = "slides" if tree.sliding[pair.link] else "turns"
            raise ExcitorError(f"{where}: joint {name!r} is of type {kind[:20]}, but the robot's {told}")
        above = body.parent
        while above >= 0 and above not in moving:
            if file.bodies[above].joints:
                other = file.bodies[above].joints[0].name
                raise ExcitorError(f"{where}: joint {other!r} moves {name!r}, and the robot has none of that name")
            above = file.bodies[above].parent
        if moving.get(above, -1) != int(tree.parents[pair.link]):
            raise ExcitorError(f"{where}: joint {name!r} hangs on another body than the robot's")
    return pairs


def _placed(file: ReadMjcf, tree: Tree, pairs: list[_Pair], where: str) -> FloatArray:
    """Find where the robot's links are in the file's world, by the base under which all axes coincide."""
    q = np.zeros(tree.n_joints)
    for pair in pairs:
        unit = 1.0 if tree.sliding[pair.link] else file.compiler.unit
        q[pair.link] = unit * numbers(pair.joint.attributes.get("ref", "0"), 1, where)[0]
    poses, screws = tree.poses(q[None])[0], tree.jacobians(q[None])[0]
    best: tuple[float, str, FloatArray] = (np.inf, "", poses)
    for T in _bases(file, pairs):
        gaps = [_gap(file, tree, pair, T @ poses[pair.link], T[:3, :3], screws, where) for pair in pairs]
        worst = int(np.argmax(gaps))
        if gaps[worst] < best[0]:
            best = gaps[worst], pairs[worst].joint.name, T @ poses
    if best[0] > _NEAR:
        raise ExcitorError(
            f"{where}: the axis of joint {best[1]!r} is {best[0]:.2g} (m or rad) off the robot's; the file is of "
            "another robot, counts positions from another zero, or places its base otherwise"
        )
    return best[2]


def _bases(file: ReadMjcf, pairs: list[_Pair]) -> list[FloatArray]:
    """List frames that could be the robot's base: the world, and what stands still below the first moving body."""
    bases: list[FloatArray] = [np.eye(4)]
    above = file.bodies[pairs[0].body].parent
    while above >= 0:
        bases.append(file.bodies[above].T_world_body)
        above = file.bodies[above].parent
    return bases


def _gap(
    file: ReadMjcf, tree: Tree, pair: _Pair, T_world_link: FloatArray, R: FloatArray, screws: FloatArray, where: str
) -> float:
    """Measure how far two axes are apart: the angle between them, and for hinges the distance of the lines."""
    j, T = pair.link, file.bodies[pair.body].T_world_body
    own = numbers(pair.joint.attributes.get("axis", "0 0 1"), 3, where)
    axis = T[:3, :3] @ own / max(float(np.linalg.norm(own)), 1e-12)
    linear, angular = R @ screws[j, :3, j], R @ screws[j, 3:, j]
    if tree.sliding[j]:
        return float(np.linalg.norm(np.cross(axis, linear)))
    point = T[:3, :3] @ numbers(pair.joint.attributes.get("pos", "0 0 0"), 3, where) + T[:3, 3]
    apart = point - (T_world_link[:3, 3] + np.cross(angular, linear))
    return float(max(np.linalg.norm(np.cross(axis, angular)), np.linalg.norm(np.cross(angular, apart))))


def _carried(file: ReadMjcf, k: int, moving: set[int], where: str) -> FloatArray:
    """Add up what bodies on a body weigh that are no links of the robot, in its frame, where the file places them."""
    total = np.zeros(10)
    for child, body in enumerate(file.bodies):
        if body.parent != k or child in moving:
            continue
        if body.inertial is None and body.geoms and file.compiler.inertia_from_geoms != "false":
            raise ExcitorError(
                f"{where}: body {body.name!r} is fixed to {file.bodies[k].name!r} and takes its mass from its geoms; "
                "give it an inertial, or its geoms no mass"
            )
        own = _carried(file, child, moving, where) + _stated(file, body, where)
        total += change_frame(own, inverse(file.bodies[k].T_world_body) @ body.T_world_body)
    return total


def _stated(file: ReadMjcf, body: Body, where: str) -> FloatArray:
    if body.inertial is None:
        return np.zeros(10)
    says = body.inertial[2]
    T = pose(says, file.compiler, where)
    mass = float(numbers(says.get("mass", "0"), 1, where)[0])
    if "fullinertia" in says:
        xx, yy, zz, xy, xz, yz = numbers(says["fullinertia"], 6, where)
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    else:
        inertia = np.diag(numbers(says.get("diaginertia", "0 0 0"), 3, where))
    return from_center_of_mass(mass, T[:3, 3], T[:3, :3] @ inertia @ T[:3, :3].T)
