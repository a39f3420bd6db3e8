"""Odd numbers: limits missing or in degrees, lengths in millimetres, angles nearly but not quite special."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.geometry import inverse
from excitor.robots.parallel import ClosedLoop
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

Odd = tuple[Literal["error", "warning", "note"], str, str]

_NEARLY = 2e-3  # rad: 3.14 for π is 1.6e-3 off
_EXACTLY = 1e-9


def reach_of_links(robot: Robot) -> FloatArray:
    """Measure how far each link reaches from its frame's origin, to joints, frames and capsules, (n_links,)."""
    reach = np.zeros(robot.mechanism.n_links)
    for frame in (*robot.frames, robot.tool):
        if frame.link >= 0:
            reach[frame.link] = max(reach[frame.link], np.linalg.norm(frame.T_link_frame[:3, 3]))
    for capsule in robot.capsules:
        if capsule.link >= 0:
            ends = max(np.linalg.norm(capsule.start), np.linalg.norm(capsule.end))
            reach[capsule.link] = max(reach[capsule.link], ends + capsule.radius)
    tree = opened_tree(robot)
    if tree is None:
        return reach
    along = np.zeros(tree.n_links)
    for j, parent in enumerate(tree.parents):
        along[j] = max(along[j], np.linalg.norm(inverse(tree.after[j])[:3, 3]))
        if parent >= 0:
            along[parent] = max(along[parent], np.linalg.norm(tree.before[j, :3, 3]))
    if not isinstance(robot.mechanism, ClosedLoop):
        return np.maximum(reach, along)
    for closure in robot.mechanism.closures:
        for link, point in zip(closure.links, closure.points, strict=True):
            if link >= 0:
                along[link] = max(along[link], np.linalg.norm(point))
    return np.maximum(reach, along[robot.mechanism.bodies])


def opened_tree(robot: Robot) -> Tree | None:
    """Take a robot's tree, or the opened tree of a closed chain."""
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop):
        return mechanism.tree
    return mechanism if isinstance(mechanism, Tree) else None


def stated_limits(robot: Robot) -> Iterator[Odd]:
    """Tell which limits are missing; without them a design is not safe."""
    limits = robot.limits
    stated: dict[str, BoolArray] = {
        "position": np.asarray(np.isfinite(limits.position).all(axis=1)),
        "velocity": np.isfinite(limits.velocity),
        "acceleration": np.isfinite(limits.acceleration),
        "torque": np.isfinite(limits.torque),
    }
    free = [i for i in range(robot.n_joints) if i not in robot.locked]
    for quantity, given in stated.items():
        missing = [robot.joint_names[i] for i in free if not given[i]]
        if missing:
            sentence = f"no {quantity} limit is stated for {', '.join(missing)}; a design may exceed it. State it"
            yield "warning", f"{quantity} limits", sentence


def ranges(robot: Robot) -> Iterator[Odd]:
    """Look at position limits, and at positions that locked joints are held at."""
    for i, name in enumerate(robot.joint_names):
        where, slides = f"joint {name!r}", bool(robot.mechanism.prismatic[i])
        low, high = (float(bound) for bound in robot.limits.position[i])
        unit, other, most, least = ("m", "mm", 10.0, 1e-3) if slides else ("rad", "degrees", 4 * math.pi, 0.0175)
        told = f"position goes from {low:.4g} to {high:.4g} {unit}"
        if i in robot.locked and not low <= robot.locked[i] <= high:
            sentence = f"{told}, but it is locked at {robot.locked[i]:.4g}; lock it within its limits"
            yield "warning", where, sentence
        bounds = [abs(bound) for bound in (low, high) if math.isfinite(bound)]
        if max(bounds, default=0.0) > most:
            sentence = f"{told}; check that it is in {unit}, not {other}, or leave the limit out if there is none"
            yield "warning", where, sentence
        elif high - low < least:
            yield "warning", where, f"{told}, which leaves no room to move; check the unit, or make the joint fixed"
        elif (low > 0.0 or high < 0.0) and not isinstance(robot.mechanism, ClosedLoop):
            yield "note", where, f"{told}: the pose of zeros cannot be reached"


def speeds(robot: Robot) -> Iterator[Odd]:
    """Look at velocity limits, at the joints and behind the gears."""
    slides = robot.mechanism.prismatic
    for i, name in enumerate(robot.joint_names):
        velocity = float(robot.limits.velocity[i])
        unit, other, most = ("m/s", "mm/s", 20.0) if slides[i] else ("rad/s", "deg/s or the motor's", 50.0)
        if most < velocity < math.inf:
            sentence = f"velocity limit is {velocity:.4g} {unit}; check that it is in {unit} of the joint, not {other}"
            yield "warning", f"joint {name!r}", sentence
    if slides.any() or not np.isfinite(robot.limits.velocity).all():
        return
    rates = np.abs(robot.drive.motor_from_joint) @ robot.limits.velocity * 60.0 / (2.0 * math.pi)
    for name, rate in zip(robot.joint_names, rates, strict=True):
        if rate > 20_000.0:
            sentence = f"its motor turns {rate:.0f} times a minute at full speed, expected at most some thousands"
            yield "warning", f"joint {name!r}", f"{sentence}; check the gear ratios and the velocity limit"


def sizes(robot: Robot) -> Iterator[Odd]:
    """Look for lengths that must be millimetres, and at gravity."""
    g = float(np.linalg.norm(robot.mechanism.gravity))
    if g == 0.0:
        yield "note", "gravity", "is 0: no torque will tell masses"
    elif not 9.7 < g < 9.9:
        yield "warning", "gravity", f"is {g:.4g} m/s², expected 9.78 to 9.83 on Earth; check its unit"
    lengths: dict[str, float] = {"tool": float(np.linalg.norm(robot.tool.T_link_frame[:3, 3]))}
    tree = opened_tree(robot)
    if tree is not None:
        for j, name in enumerate(tree.link_names):
            shifts = (tree.before[j, :3, 3], tree.after[j, :3, 3])
            lengths[f"joint {name!r}"] = max(float(np.linalg.norm(shift)) for shift in shifts)
    for k, capsule in enumerate(robot.capsules):
        ends = (capsule.start, capsule.end)
        lengths[f"capsule[{k + 1}]"] = max(capsule.radius, *(float(np.linalg.norm(end)) for end in ends))
    for where, length in lengths.items():
        if length > 10.0:
            yield "warning", where, f"is {length:.4g} m long; check that lengths are in metres, not mm"


def axes_nearly_special(robot: Robot) -> Iterator[Odd]:
    """Find axes nearly, but not quite, parallel or at a right angle to the one before, or to gravity.

    Such an angle makes base parameters that no measurement can tell.
    """
    tree = opened_tree(robot)
    if tree is None:
        return
    for j, parent in enumerate(tree.parents):
        ours = tree.before[j, :3, :3] @ tree.axis[j]
        if parent >= 0:
            theirs, other = tree.after[parent, :3, :3].T @ tree.axis[parent], f"that of {tree.link_names[parent]!r}"
        else:
            theirs, other = tree.gravity, "gravity"
        angle = math.atan2(float(np.linalg.norm(np.cross(ours, theirs))), abs(float(ours @ theirs)))
        relations = {f"nearly parallel to {other}": angle, f"nearly a quarter turn from {other}": math.pi / 2 - angle}
        for relation, off in relations.items():
            if _EXACTLY < abs(off) < _NEARLY and np.any(theirs):
                sentence = (
                    f"axis is {relation}, {off:.1e} rad off, which makes base parameters that no measurement can tell; "
                    "write the exact angle (1.5707963 for pi/2), unless a calibration found this one"
                )
                yield "warning", f"joint {tree.link_names[j]!r}", sentence
