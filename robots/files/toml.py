"""Robots from the content of robot files: defaults are expanded, names resolved and units converted to SI.

Joints are ordered and fixed ones merged; drives and friction become a drive train; platform, closures and home become
the mechanism of a closed chain.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.closed_chain import ClosedLoop, Closure, closure_jacobian, dependents, size, solve, tolerance
from excitor.robots.errors import InvalidRobot, did_you_mean
from excitor.robots.files import schema
from excitor.robots.files.overlay import expected
from excitor.robots.files.schema import combination, number
from excitor.robots.friction import element_rows
from excitor.robots.inertia import (
    change_frame,
    exact_cosine,
    frame_change_matrix,
    from_center_of_mass,
    inverse,
    roll_pitch_yaw,
    rotation,
    translation,
)
from excitor.robots.kernel.compile import skew
from excitor.robots.parameters import Layout, layout_of
from excitor.robots.robot import (
    Capsule,
    CheckPose,
    ControllerAxes,
    DeclaredBase,
    DriveTrain,
    Frame,
    FrictionTerm,
    HeldJoint,
    Limits,
    Mechanism,
    Payload,
    Robot,
    RotorInertia,
)
from excitor.robots.tree import Tree

FREE = (-math.inf, math.inf)
TURN = (-2.0 * math.pi, 2.0 * math.pi)  # about home: the working range of a joint without stops, unless one is stated
_PER = {"position": "", "velocity": "_s", "acceleration": "_s2", "jerk": "_s3"}
_Z = np.array([0.0, 0.0, 1.0])
Geometry = tuple[FloatArray, FloatArray, FloatArray, float]
_TURNS = ("revolute", "continuous")
_AXES = {"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0], "z": [0.0, 0.0, 1.0]}
_GEARS = ("ratios", "motor_from_joint", "joint_from_motor")  # of which one is stated
_SINGULAR = 1e-3  # where legs stretch, home is found to about 1e-5


@dataclass(frozen=True)
class Reading:
    """A robot file being read: problems are noted with their key paths, so that all are reported at once."""

    description: schema.Description
    problems: list[str]
    inherited: frozenset[str] = frozenset()  # what a base states and may be left out: parameters, declared_base

    def note(self, path: str, problem: str) -> None:
        """Note a problem at a key path."""
        self.problems.append(f"{path}: {problem}")

    def number(self, entry: float | str, path: str) -> float:
        """Evaluate a number that may be an expression of named lengths; 0 where that fails."""
        if not isinstance(entry, str):
            return float(entry)
        try:
            value = number(entry, self.description.lengths)
        except ValueError as error:
            self.note(path, str(error))
            return 0.0
        if abs(value) > schema.LARGEST:
            self.note(path, f"{entry!r} is {value:g}, expected at most {schema.LARGEST:g} in size")
            return 0.0
        return value

    def vector(self, entries: Sequence[float | str], path: str) -> FloatArray:
        """Evaluate several numbers."""
        return np.array([self.number(entry, path) for entry in entries])

    def angle(self, degrees: float | str, path: str) -> float:
        """Evaluate an angle given in degrees."""
        return math.radians(self.number(degrees, path))


def assemble(reading: Reading) -> Robot | None:
    """Build the robot, or note every problem and return None."""
    description = reading.description
    body = build_mechanism(reading)
    if body is None or reading.problems:
        return None
    mechanism, skeleton = body
    drive = build_drive(mechanism, reading)
    if reading.problems:
        return None
    params = layout_of(mechanism.n_links, mechanism.prismatic, drive)
    check_length_names(params, reading)
    chi, known = prior_parameters(skeleton, params, reading)
    tool = build_frame("tool", description.tool, skeleton, "tool", reading)
    robot = Robot(
        name=description.name,
        title=description.title,
        mechanism=mechanism,
        drive=drive,
        limits=build_limits(skeleton, reading),
        tool=tool,
        payload=build_payload(tool, reading),
        chi=chi,
        known=known,
        assumed_zero=zeros_by_symmetry(params, reading),
        frames=build_frames(skeleton, reading),
        capsules=build_capsules(skeleton, reading),
        ignored_pairs={frozenset(pair.parts): pair.reason for pair in description.ignored_pair},
        controllers=build_controllers(mechanism, reading),
        declared_base=build_declared_base(skeleton, params, reading),
        lengths=dict(description.lengths),
        locked={
            i: at for i, joint in enumerate(skeleton.movers) if (at := position_in_si(joint, "locked")) is not None
        },
        held=skeleton.held,
        continuous=tuple(joint.name for joint in skeleton.movers if is_endless(joint)),
    )
    return None if reading.problems else robot


@dataclass(frozen=True)
class Link:
    """A moving joint with its link, ready to be stacked into arrays."""

    joint: schema.Joint
    path: str
    parent: int
    before: FloatArray
    axis: FloatArray
    after: FloatArray
    offset: float
    on: str = ""  # of its parent's bodies: that of this held joint

    @property
    def slides(self) -> bool:
        """True if the joint slides."""
        return self.joint.kind == "prismatic"


@dataclass(frozen=True)
class Skeleton:
    """Moving links in order, and where each named joint's frame and each given body ride: link index or -1, T_link."""

    links: tuple[Link, ...]
    frames: Mapping[str, tuple[int, FloatArray]]
    bodies: tuple[tuple[str, schema.Body, int, FloatArray], ...]
    coordinates: tuple[int, ...]  # the links whose joints move by themselves
    held: Mapping[str, HeldJoint] = field(default_factory=dict)
    on: Mapping[str, str] = field(default_factory=dict)  # the last held joint before each frame, on the same link

    @property
    def movers(self) -> list[schema.Joint]:
        """The joints that move by themselves."""
        return [self.links[k].joint for k in self.coordinates]

    def frame(self, name: str, reading: Reading, path: str) -> tuple[int, FloatArray]:
        """Find a joint's frame by name."""
        if name not in self.frames:
            reading.note(path, f"no joint is named {name!r}; {expected(name, [*self.frames])}")
            return -1, np.eye(4)
        return self.frames[name]


def build_mechanism(reading: Reading) -> tuple[Mechanism, Skeleton] | None:
    """Build the open or closed chain, and the skeleton that numbers its bodies."""
    if is_closed(reading.description):
        return read_closed(reading)
    refuse_loop_keys(reading)
    skeleton = build_skeleton(reading)
    return None if reading.problems else (build_tree(skeleton, reading), skeleton)


def check_length_names(params: Layout, reading: Reading) -> None:
    """Refuse names of lengths that equal a coordinate, gravity or a parameter, ambiguous in printed equations."""
    for name in reading.description.lengths:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            reading.note(f"lengths.{name[:40]}", "is not a name; use letters, digits and _, as in d3")
        elif re.fullmatch(r"g|d{0,2}q\d*|pi", name) or name in params.names:
            reading.note(f"lengths.{name}", "is taken, by gravity, a coordinate or a parameter; choose another name")


def body_parameters(body: schema.Body, path: str, reading: Reading) -> FloatArray:
    """Build phi of a body in its own frame."""
    xx, xy, xz, yy, yz, zz = body.inertia or [0.0] * 6
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return from_center_of_mass(body.mass, reading.vector(body.center, f"{path}.center"), inertia)


def prior_parameters(skeleton: Skeleton, params: Layout, reading: Reading) -> tuple[FloatArray, BoolArray]:
    """Collect the known parameters and their mask: bodies of links, then single parameters by name."""
    chi = np.zeros(len(params))
    known = np.zeros(len(params), dtype=bool)
    for path, body, link, T_link_body in skeleton.bodies:
        if link >= 0:
            chi[params.link(link)] += change_frame(body_parameters(body, path, reading), T_link_body)
            known[params.link(link)] = True
    for _, body, link, _ in skeleton.bodies:
        if link >= 0 and body.inertia is None and body.mass != 0.0:
            known[10 * link : 10 * link + 6] = False  # mass and centre alone do not make an inertia
    for name, value in reading.description.parameters.items():
        if name in reading.inherited and name not in params.names:
            continue
        for index in parameter_indices([name], params, "parameters", reading):
            if known[index]:
                reading.note(f"parameters.{name}", "is given by its link's body already; keep one")
            chi[index] = value
            known[index] = True
    return chi, known


def zeros_by_symmetry(params: Layout, reading: Reading) -> BoolArray:
    """Mark the parameters assumed zero."""
    given = [name for name in reading.description.assumed_zero if name in params.names or name not in reading.inherited]
    return np.isin(np.arange(len(params)), parameter_indices(given, params, "assumed_zero", reading))


def parameter_indices(names: Sequence[str], params: Layout, path: str, reading: Reading) -> list[int]:
    """Find parameters' indices by name; unknown names are noted."""
    found = []
    for name in names:
        try:
            found.append(params.index(name))
        except ValueError as error:
            reading.note(path, str(error))
    return found


def build_limits(skeleton: Skeleton, reading: Reading) -> Limits:
    """Convert limits to SI; what is not stated is unlimited."""
    links = [skeleton.links[k] for k in skeleton.coordinates]
    position = np.array([in_si(link.joint, link.path, "position", reading) or FREE for link in links])
    for link, (low, high) in zip(links, position, strict=True):
        if low >= high:
            reading.note(f"{link.path}.limits.position", f"goes from {low:g} to {high:g}; the lower bound comes first")
    velocity, acceleration, jerk = (
        np.array([(in_si(link.joint, link.path, quantity, reading) or (math.inf,))[0] for link in links])
        for quantity in ("velocity", "acceleration", "jerk")
    )
    torque = [math.inf if link.joint.limits.torque is None else link.joint.limits.torque for link in links]
    return Limits(position, velocity, acceleration, jerk, np.array(torque))


def is_endless(joint: schema.Joint) -> bool:
    """Return True if a joint has no stops, and no range is stated."""
    return joint.kind == "continuous" and joint.limits.position_deg is joint.limits.position_rad is None


def in_si(joint: schema.Joint, path: str, quantity: str, reading: Reading) -> tuple[float, ...] | None:
    """Read a limit in whichever unit it is given; None where it is not."""
    limits, slides, suffix = joint.limits, joint.kind == "prismatic", _PER[quantity]
    units = {f"{quantity}_{unit}{suffix}": factor for unit, factor in (("deg", math.pi / 180), ("rad", 1), ("m", 1))}
    given = [key for key in units if getattr(limits, key) is not None]
    if len(given) > 1:
        reading.note(f"{path}.limits", f"gives {' and '.join(given)}; keep one")
    for key in given:
        if key.startswith(f"{quantity}_m") != slides:
            kind, right = ("slides", "m") if slides else ("turns", "deg or rad")
            reading.note(f"{path}.limits.{key}", f"the joint {kind}; give it in {right}")
        value = getattr(limits, key)
        return tuple(units[key] * x for x in (value if isinstance(value, list) else [value]))
    return TURN if quantity == "position" and is_endless(joint) else None


def build_frame(
    name: str, entry: schema.Tool | schema.NamedFrame, skeleton: Skeleton, path: str, reading: Reading
) -> Frame:
    """Place a frame on its link, the last one unless it names another."""
    platform = reading.description.platform
    last = platform.name if platform is not None else skeleton.links[-1].joint.name
    link, T_link = skeleton.frame(entry.link or last, reading, f"{path}.link")
    shift = translation(*reading.vector(entry.xyz, f"{path}.xyz"))
    turn = roll_pitch_yaw(*np.radians(reading.vector(entry.rpy_deg, f"{path}.rpy_deg")))
    return Frame(name, link, T_link @ shift @ turn)


def build_frames(skeleton: Skeleton, reading: Reading) -> tuple[Frame, ...]:
    """Collect named frames: those of fixed joints, and those given."""
    platform = reading.description.platform
    moving = {"base", *(link.joint.name for link in skeleton.links), *([] if platform is None else [platform.name])}
    fixed = [Frame(name, *place) for name, place in skeleton.frames.items() if name not in moving]
    names = [*skeleton.frames, *(entry.name for entry in reading.description.frame)]
    for k, entry in enumerate(reading.description.frame):
        if names.count(entry.name) > 1:
            reading.note(f"frame[{k + 1}].name", f"{entry.name!r} names another frame or joint already; choose another")
    given = [
        build_frame(entry.name, entry, skeleton, f"frame[{k + 1}]", reading)
        for k, entry in enumerate(reading.description.frame)
    ]
    return (*fixed, *given)


def build_payload(tool: Frame, reading: Reading) -> Payload | None:
    """Move the payload from the tool's frame to its link's."""
    payload = reading.description.payload
    if payload is None:
        return None
    if tool.link < 0:
        sentence = "the tool rides on the base, so no joint carries the payload; let tool.link name a link"
        reading.note("payload", sentence)
    return Payload(tool.link, change_frame(body_parameters(payload, "payload", reading), tool.T_link_frame))


def build_capsules(skeleton: Skeleton, reading: Reading) -> tuple[Capsule, ...]:
    """Place capsules on their links."""
    capsules = []
    for k, entry in enumerate(reading.description.capsule):
        path = f"capsule[{k + 1}]"
        link, T = skeleton.frame(entry.link, reading, f"{path}.link")
        start, end = (reading.vector(point, path) @ T[:3, :3].T + T[:3, 3] for point in (entry.start, entry.end))
        corners = np.array([reading.vector(point, path) for point in entry.corners]).reshape(-1, 3) @ T[:3, :3].T
        part, on = entry.part or entry.link, skeleton.on.get(entry.link, "")
        capsules.append(Capsule(link, start, end, entry.radius, entry.origin, part, corners + T[:3, 3], on))
    return tuple(capsules)


def build_controllers(mechanism: Mechanism, reading: Reading) -> dict[str, ControllerAxes]:
    """Read the controllers' axis conventions; degrees and millimetres become SI."""
    unit = np.where(mechanism.prismatic, 1e-3, math.pi / 180.0)
    n = mechanism.n_joints
    controllers = {}
    for name, entry in reading.description.controllers.items():
        path = f"controllers.{name}"
        counts = {"axes": len(entry.axes), "signs": len(entry.signs or [0] * n), "zero": len(entry.zero or [0] * n)}
        counts |= {f"pose[{k + 1}].shows": len(pose.shows) for k, pose in enumerate(entry.pose)}
        for key, count in counts.items():
            if count != n:
                reading.note(f"{path}.{key}", f"has {count} entries, expected one for each of the {n} joints")
        if entry.signs is not None and entry.matrix is not None:
            reading.note(path, "gives both signs and matrix; keep one")
        if reading.problems:
            continue
        matrix = np.diag(entry.signs) if entry.signs else square_matrix(entry.matrix, n, f"{path}.matrix", reading)
        zero = unit * np.array(entry.zero or [0.0] * n)
        poses = tuple(CheckPose(unit * np.array(pose.shows), np.array(pose.tool)) for pose in entry.pose)
        controllers[name] = ControllerAxes(name, tuple(entry.axes), matrix, zero, poses)
    return controllers


def build_declared_base(skeleton: Skeleton, params: Layout, reading: Reading) -> DeclaredBase | None:
    """Read a paper's base parameters, and turn them into the frames of our links."""
    declared = reading.description.declared_base
    if declared is None:
        return None
    rows = np.zeros((len(declared.parameters), len(params)))
    names = frozenset(params.names)
    for k, (name, text) in enumerate(declared.parameters.items()):
        try:
            for parameter, factor in combination(text, names, reading.description.lengths).items():
                rows[k, params.index(parameter)] = factor
        except ValueError as error:
            if "declared_base" in reading.inherited:  # of other drives, or other friction
                return None
            reading.note(f"declared_base.parameters.{name}", str(error))
    for link_name, entry in declared.frames.items():
        path = f"declared_base.frames.{link_name}"
        frame = build_frame(link_name, entry.model_copy(update={"link": link_name}), skeleton, path, reading)
        if frame.link >= 0:
            columns = params.link(frame.link)
            rows[:, columns] = rows[:, columns] @ frame_change_matrix(inverse(frame.T_link_frame))
    return DeclaredBase(tuple(declared.parameters), rows, declared.source)


def build_skeleton(reading: Reading) -> Skeleton:
    """Place every joint, merging fixed and held ones into the link they sit on."""
    frames: dict[str, tuple[int, FloatArray]] = {"base": (-1, np.eye(4))}
    positions, held, on = held_positions(reading), {}, {"base": ""}
    links: list[Link] = []
    bodies: list[tuple[str, schema.Body, int, FloatArray]] = []
    for k, joint, parent_name in order_joints(reading):
        path = f"joint[{k + 1}]"
        parent, T_parent = frames[parent_name]
        before, axis, after, offset = joint_geometry(joint, path, reading)
        check_keys(joint, path, reading)
        on[joint.name] = on[parent_name]
        if joint.kind == "fixed":
            frames[joint.name] = (parent, T_parent @ before @ translation(0.0, 0.0, offset) @ after)
        else:
            moves, at = without_held(joint, positions, reading)
            at += position_in_si(joint, "offset") or 0.0
            if moves is None:
                slides = joint.kind == "prismatic"
                on[joint.name] = joint.name
                held[joint.name] = HeldJoint(positions.get(joint.name, at), slides, parent)
                frames[joint.name] = (parent, T_parent @ before @ moved(axis, at + offset, slides) @ after)
            else:
                frames[joint.name] = (len(links), np.eye(4))
                links.append(Link(moves, path, parent, T_parent @ before, axis, after, at + offset, on[parent_name]))
                on[joint.name] = ""
        if joint.link is not None:
            bodies.append((f"{path}.link", joint.link, *frames[joint.name]))
    if frames.keys() > {"base"} and not links:
        reading.note("joint", f"every joint is fixed{' or held' if held else ''}; a robot needs one that moves")
    held = {name: replace(one, carries=tuple(j for j, link in enumerate(links) if link.on == name))
            for name, one in held.items()}  # fmt: skip
    return Skeleton(tuple(links), frames, tuple(bodies), find_coordinates(links, reading), held, on)


def held_positions(reading: Reading) -> dict[str, float]:
    """Find where joints are held, by name: those with a position of their own, and those that are not named as moving.

    The latter stand in the middle of their range, or at 0 where it has no end.
    """
    description = reading.description
    joints = {joint.name: (f"joint[{k + 1}]", joint) for k, joint in enumerate(description.joint)}
    given = {name: position_in_si(joint, "held") for name, (_, joint) in joints.items() if joint.kind != "fixed"}
    stated = {name: at for name, at in given.items() if at is not None}
    if is_closed(description) and (stated or description.moving):
        names = ", ".join(stated) or "other than those that are moving"
        reading.note("joint", f"{names}: joints of a closed chain are not held; lock them, or leave this out")
        return {}
    able = [name for name, (_, joint) in joints.items() if is_coordinate(joint)]
    chosen = able if description.moving is None else description.moving
    for name in chosen:
        if name not in able:
            reading.note("moving", f"{name[:60]!r} is no joint that moves by itself; {expected(name, able)}")
    held = {}
    for name, (path, joint) in joints.items():
        if name not in stated and (name in chosen or name not in able):
            continue
        limits = (in_si(joint, path, "position", reading) if name in able else None) or FREE
        held[name] = stated.get(name, 0.0 if limits == FREE else sum(limits) / 2)
        path += ".held_m" if joint.kind == "prismatic" else ".held_deg"
        unit = 1.0 if joint.kind == "prismatic" else 180.0 / math.pi
        if name not in able:
            reading.note(path, "the joint only follows others; hold the one that it follows")
        elif description.moving is not None and name in chosen:
            reading.note(path, f"{name!r} is among those that are moving; keep one")
        elif position_in_si(joint, "locked") is not None:
            reading.note(path, f"{name!r} is locked, too; keep one: what is held is no joint of the robot")
        elif not limits[0] <= held[name] <= limits[1]:
            low, high = (unit * bound for bound in limits)
            reading.note(path, f"is {unit * held[name]:g}, outside the joint's limits {low:g} to {high:g}")
    return held


def is_coordinate(joint: schema.Joint) -> bool:
    """Return True if a joint can move by itself: it is not fixed, and does not only follow others."""
    return joint.kind != "fixed" and (joint.follows is None or joint.name in joint.follows)


def without_held(joint: schema.Joint, held: Mapping[str, float], reading: Reading) -> tuple[schema.Joint | None, float]:
    """Split a joint's position into what moves, None if nothing does, and the constant share of held joints."""
    shares = joint.follows or {joint.name: 1.0}
    at = sum(held[name] * reading.number(shares[name], joint.name) for name in shares if name in held)
    rest = {name: share for name, share in shares.items() if name not in held}
    if len(rest) == len(shares):
        return joint, 0.0
    own = {"limits": schema.Limits(), "held_deg": None, "held_m": None} if joint.name in held else {}
    return (joint.model_copy(update=own | {"follows": rest}) if rest else None), at


def moved(axis: FloatArray, position: float, slides: bool) -> FloatArray:
    """Transform by a joint, (4, 4): a turn about its axis by Rodrigues' formula, or a translation along it."""
    if slides:
        return translation(*(position * axis))
    c, s = exact_cosine(position), exact_cosine(position - math.pi / 2)
    T = np.eye(4)
    T[:3, :3] = c * np.eye(3) + s * skew(axis) + (1.0 - c) * np.outer(axis, axis)
    return T


def check_keys(joint: schema.Joint, path: str, reading: Reading) -> None:
    """Refuse keys that do not apply to this kind of joint."""
    wrong = {"revolute": "turns; use {}_deg", "prismatic": "slides; use {}_m", "fixed": "is fixed; leave this out"}
    wrong["continuous"] = wrong["revolute"]
    for key in ("offset", "locked", "held", "home"):
        for unit, kinds in (("deg", _TURNS), ("m", ("prismatic",))):
            if getattr(joint, f"{key}_{unit}") is not None and joint.kind not in kinds:
                reading.note(f"{path}.{key}_{unit}", f"the joint {wrong[joint.kind].format(key)}")
    for key, none in (("follows", None), ("limits", schema.Limits())):
        if joint.kind == "fixed" and getattr(joint, key) != none:
            reading.note(f"{path}.{key}", "the joint is fixed; leave this out")


def position_in_si(joint: schema.Joint, key: str) -> float | None:
    """Read a position of the joint, `offset`, `locked` or `held`, in rad or m; None where not given."""
    degrees, length = getattr(joint, f"{key}_deg"), getattr(joint, f"{key}_m")
    if joint.kind == "prismatic":
        return None if length is None else float(length)
    return None if degrees is None else math.radians(degrees)


def order_joints(reading: Reading) -> list[tuple[int, schema.Joint, str]]:
    """Sort joints so that each comes after its parent, in the file's order otherwise: (number, joint, parent)."""
    joints = reading.description.joint
    names = [joint.name for joint in joints]
    parents = [joint.parent or (names[k - 1] if k else "base") for k, joint in enumerate(joints)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        where = ", ".join(f"joint[{k + 1}]" for k, other in enumerate(names) if other == name)
        reading.note(where, f"the name {name!r} is used more than once; every joint needs its own")
    if "base" in names:
        reading.note(f"joint[{names.index('base') + 1}].name", "is 'base', which names the base; choose another")
    for k, parent in enumerate(parents):
        if parent not in ("base", *names):
            meant = f"expected 'base' or one of {names}{did_you_mean(parent, names)}"
            reading.note(f"joint[{k + 1}].parent", f"no joint is named {parent!r}; {meant}")
    if reading.problems:
        return []
    placed, ordered, waiting = {"base"}, [], list(range(len(joints)))
    while waiting:
        ready = next((k for k in waiting if parents[k] in placed), None)
        if ready is None:
            circle = ", ".join(repr(names[k]) for k in waiting)
            reading.note("joint", f"{circle} hang on each other in a circle; one of them must hang on the base")
            return []
        waiting.remove(ready)
        placed.add(names[ready])
        ordered.append((ready, joints[ready], parents[ready]))
    return ordered


def joint_geometry(joint: schema.Joint, path: str, reading: Reading) -> Geometry:
    """Write a joint's placement as before · M(axis, θ + offset) · after: (before, axis, after, offset)."""
    if joint.mdh is not None:
        return _modified_dh(joint.mdh, joint.kind in _TURNS, f"{path}.mdh", reading)
    if joint.dh is not None:
        return _standard_dh(joint.dh, joint.kind in _TURNS, f"{path}.dh", reading)
    assert joint.placement is not None
    place = joint.placement
    if place.rpy_deg is not None:
        angles = np.radians(reading.vector(place.rpy_deg, f"{path}.placement.rpy_deg"))
    else:
        angles = reading.vector(place.rpy_rad or (0.0, 0.0, 0.0), f"{path}.placement.rpy_rad")
    axis = reading.vector(place.axis, f"{path}.placement.axis")
    length = float(np.linalg.norm(axis))
    if not 1e-6 < length < 1e6:
        reading.note(f"{path}.placement.axis", f"is {axis.tolist()}, expected a direction other than 0")
        axis, length = _Z, 1.0
    before = translation(*reading.vector(place.xyz, f"{path}.placement.xyz")) @ roll_pitch_yaw(*angles)
    shift = reading.vector(place.after.xyz, f"{path}.placement.after.xyz")
    turn = reading.vector(place.after.rpy_rad, f"{path}.placement.after.rpy_rad")
    return before, axis / length, translation(*shift) @ roll_pitch_yaw(*turn), 0.0


def _modified_dh(p: schema.ModifiedDH, turns: bool, path: str, reading: Reading) -> Geometry:
    theta, r = reading.angle(p.theta_deg, f"{path}.theta_deg"), reading.number(p.r, f"{path}.r")
    alpha, d = reading.angle(p.alpha_deg, f"{path}.alpha_deg"), reading.number(p.d, f"{path}.d")
    before = rotation("x", alpha) @ translation(d, 0.0, 0.0)
    if turns:
        return before @ translation(0.0, 0.0, r), _Z, np.eye(4), theta
    return before @ rotation("z", theta), _Z, np.eye(4), r


def _standard_dh(p: schema.StandardDH, turns: bool, path: str, reading: Reading) -> Geometry:
    theta, d = reading.angle(p.theta_deg, f"{path}.theta_deg"), reading.number(p.d, f"{path}.d")
    alpha, a = reading.angle(p.alpha_deg, f"{path}.alpha_deg"), reading.number(p.a, f"{path}.a")
    after = translation(a, 0.0, 0.0) @ rotation("x", alpha)
    if turns:
        return np.eye(4), _Z, translation(0.0, 0.0, d) @ after, theta
    return rotation("z", theta), _Z, after, d


def find_coordinates(links: Sequence[Link], reading: Reading) -> tuple[int, ...]:
    """Find the joints that move by themselves: all but those that only follow others."""
    coordinates = tuple(k for k, link in enumerate(links) if is_coordinate(link.joint))
    names = [links[k].joint.name for k in coordinates]
    for link in links:
        if link.joint.name not in names:
            refuse_driven_keys(link, "only follows others; give this to the joint that it follows", reading)
        for name in link.joint.follows or ():
            if name not in names:
                meant = f"{name!r} is not a joint that moves by itself; {expected(name, names)}"
                reading.note(f"{link.path}.follows", meant)
    if links and not coordinates:
        reading.note("joint", "every joint follows another; one must move by itself")
    return coordinates


def refuse_driven_keys(link: Link, why: str, reading: Reading) -> None:
    """Refuse keys of driven joints on one that is not."""
    for key in ("limits", "locked_deg", "locked_m"):
        if getattr(link.joint, key) not in (None, schema.Limits()):
            reading.note(f"{link.path}.{key}", f"the joint {why}")


def build_tree(skeleton: Skeleton, reading: Reading) -> Tree:
    """Stack the links into a tree."""
    links = skeleton.links
    names = tuple(links[k].joint.name for k in skeleton.coordinates)
    coupling = np.zeros((len(links), len(names)))
    for j, link in enumerate(links):
        for name, share in (link.joint.follows or {link.joint.name: 1.0}).items():
            coupling[j, names.index(name)] = reading.number(share, f"{link.path}.follows.{name}")
    for i, name in enumerate(names):
        if not coupling[:, i].any():
            reading.note("joint", f"nothing moves with {name!r}: all factors that follow it are 0")
    return Tree(
        joint_names=names,
        link_names=tuple(link.joint.name for link in links),
        parents=np.array([link.parent for link in links]),
        before=np.array([link.before for link in links]),
        axis=np.array([link.axis for link in links]),
        after=np.array([link.after for link in links]),
        sliding=np.array([link.slides for link in links]),
        coupling=coupling,
        offset=np.array([link.offset for link in links]),
        gravity=reading.vector(reading.description.gravity, "gravity"),
    )


def build_drive(mechanism: Mechanism, reading: Reading) -> DriveTrain:
    """Build the drive train."""
    drive = reading.description.drive
    motor_from_joint = motor_matrix(drive, mechanism.n_joints, reading)
    train = DriveTrain(
        motor_from_joint=motor_from_joint,
        torque_from_current=current_law(drive, mechanism.n_joints, reading),
        efficiency=per_joint(drive.efficiency, mechanism.n_joints, "drive.efficiency", reading),
        rotors=(*common_rotors(mechanism, motor_from_joint, reading), *own_rotors(mechanism, reading)),
        friction=(*common_friction(mechanism, motor_from_joint, reading), *own_friction(mechanism, reading)),
        current_sigma=relative_sigma(
            "torque_from_current_sigma", ("torque_from_current",), mechanism.n_joints, reading
        ),
        ratio_sigma=relative_sigma("ratio_sigma", _GEARS, mechanism.n_joints, reading),
    )
    check_names(mechanism, train, reading)
    return train


def motor_matrix(drive: schema.Drive, n: int, reading: Reading) -> FloatArray:
    """Read q_motor = N q in whichever way it is given; the identity where it is not."""
    given = [key for key in _GEARS if getattr(drive, key) is not None]
    if len(given) > 1:
        reading.note("drive", f"gives {' and '.join(given)}; keep one")
    if drive.ratios is not None:
        ratios = reading.vector(drive.ratios, "drive.ratios")
        if len(ratios) != n or (np.abs(ratios) < 1e-9).any():
            reading.note("drive.ratios", f"is {ratios.tolist()}, expected {n} numbers other than 0, one for each joint")
            return np.eye(n)
        return np.diag(ratios)
    if drive.joint_from_motor is not None:
        return np.asarray(np.linalg.inv(square_matrix(drive.joint_from_motor, n, "drive.joint_from_motor", reading)))
    return square_matrix(drive.motor_from_joint, n, "drive.motor_from_joint", reading)


def square_matrix(rows: list[list[float | str]] | None, n: int, path: str, reading: Reading) -> FloatArray:
    """Read an invertible n x n matrix; the identity where not given."""
    if rows is None:
        return np.eye(n)
    if len(rows) != n or any(len(row) != n for row in rows):
        reading.note(path, f"has rows of {[len(row) for row in rows]} entries, expected {n} rows of {n}")
        return np.eye(n)
    matrix = np.array([reading.vector(row, path) for row in rows])
    values = np.linalg.svd(matrix, compute_uv=False)
    if values[-1] <= 1e-12 * max(values[0], 1e-300):
        reading.note(path, f"is singular (singular values {values[0]:.3g} … {values[-1]:.3g}); it must be invertible")
        return np.eye(n)
    return matrix


def current_law(drive: schema.Drive, n: int, reading: Reading) -> FloatArray:
    """Read each motor's torque law: a gain, or up to four coefficients c0, c1, c2, c3; NaN where not given."""
    law = np.full((n, 4), np.nan)
    if drive.torque_from_current is None:
        return law
    if len(drive.torque_from_current) != n:
        count = len(drive.torque_from_current)
        reading.note("drive.torque_from_current", f"has {count} entries, expected one for each of the {n} motors")
        return law
    for k, entry in enumerate(drive.torque_from_current):
        coefficients = entry if isinstance(entry, list) else [0.0, entry]
        if coefficients == []:
            continue
        if not 1 <= len(coefficients) <= 4:
            path = f"drive.torque_from_current[{k + 1}]"
            reading.note(path, f"has {len(coefficients)} coefficients, expected a gain or up to four: c0, c1, c2, c3")
            continue
        law[k] = [*coefficients, *[0.0] * (4 - len(coefficients))]
    return law


def relative_sigma(name: str, of: Sequence[str], n: int, reading: Reading) -> FloatArray | None:
    """Read the relative deviation of current laws or gears, one number or one a motor; None where not given."""
    drive, path = reading.description.drive, f"drive.{name}"
    given = getattr(drive, name)
    if given is not None and all(getattr(drive, other) is None for other in of):
        reading.note(path, f"is of {' or '.join(of)}, which is missing; state both")
    return None if given is None else per_joint(given if isinstance(given, list) else [given] * n, n, path, reading)


def per_joint(values: list[float] | None, n: int, path: str, reading: Reading) -> FloatArray:
    """Read one number a joint; ones where not given."""
    if values is not None and len(values) != n:
        reading.note(path, f"has {len(values)} entries, expected one for each of the {n} joints")
    return np.ones(n) if values is None or len(values) != n else np.array(values)


def motor_senses(motor_from_joint: FloatArray) -> FloatArray:
    """Joint-side velocity of each motor, (n_joints, n_joints): rows of N divided by their own joint's ratio."""
    own = np.diag(motor_from_joint)
    coupled_only = np.abs(own) <= 1e-9 * np.abs(motor_from_joint).max(axis=1)
    return motor_from_joint / np.where(coupled_only, 1.0, own)[:, None]


def common_rotors(mechanism: Mechanism, motor_from_joint: FloatArray, reading: Reading) -> list[RotorInertia]:
    """Expand `rotors`: one a motor or one a joint, or those of the joints named."""
    rotors = reading.description.drive.rotors
    if rotors == "none":
        return []
    rows = np.eye(mechanism.n_joints) if rotors == "joints" else motor_senses(motor_from_joint)
    chosen = mechanism.joint_names if isinstance(rotors, str) else tuple(rotors)
    for name in chosen:
        if name not in mechanism.joint_names:
            meant = f"expected 'motors', 'joints' or joint names{did_you_mean(name, mechanism.joint_names)}"
            reading.note("drive.rotors", f"no joint is named {name!r}; {meant}")
    return [
        RotorInertia(f"Ia{i + 1}", rows[i], rows[i]) for i, name in enumerate(mechanism.joint_names) if name in chosen
    ]


def own_rotors(mechanism: Mechanism, reading: Reading) -> list[RotorInertia]:
    """Read rotors with senses of their own."""
    return [
        RotorInertia(entry.parameter, *sense_and_act(entry, mechanism, f"drive.rotor[{k + 1}]", reading))
        for k, entry in enumerate(reading.description.drive.rotor)
    ]


def common_friction(mechanism: Mechanism, motor_from_joint: FloatArray, reading: Reading) -> list[FrictionTerm]:
    """Expand `terms`: each of them at every joint, joint by joint."""
    friction = reading.description.friction
    if len(set(friction.terms)) < len(friction.terms):
        reading.note("friction.terms", f"is {friction.terms}, which says one twice; keep each once")
    rows = motor_senses(motor_from_joint) if friction.at == "motors" else np.eye(mechanism.n_joints)
    return [
        FrictionTerm(f"{row.prefix}{i + 1}{row.suffix}", row.name, rows[i], rows[i], width=friction.sign_width)
        for i in range(mechanism.n_joints)
        for element in friction.terms
        for row in element_rows(element)
    ]


def own_friction(mechanism: Mechanism, reading: Reading) -> list[FrictionTerm]:
    """Read friction elements with senses of their own, a term for each column: a ripple is a sine and a cosine."""
    friction = reading.description.friction
    terms = []
    for k, entry in enumerate(friction.element):
        path = f"friction.element[{k + 1}]"
        senses, acts = sense_and_act(entry, mechanism, path, reading)
        rows = element_rows(entry.model)
        if rows[0].needs_scale and entry.scale is None:
            reading.note(f"{path}.scale", f"is missing; {entry.model} needs it")
        names = {f"{entry.parameter}{row.suffix}": row.name for row in rows}
        width = friction.sign_width if entry.sign_width is None else entry.sign_width
        terms += [
            FrictionTerm(name, model, senses, acts, width=width, scale=entry.scale or 1.0, warm_up=entry.warm_up)
            for name, model in names.items()
        ]
    return terms


def sense_and_act(
    entry: schema.Element, mechanism: Mechanism, path: str, reading: Reading
) -> tuple[FloatArray, FloatArray]:
    """Read the joints an element senses, and those it acts on: the same unless said otherwise."""
    senses = joint_row(entry.senses, mechanism, f"{path}.senses", reading)
    acts = senses if entry.acts is None else joint_row(entry.acts, mechanism, f"{path}.acts", reading)
    return senses, acts


def joint_row(entry: schema.Combination, mechanism: Mechanism, path: str, reading: Reading) -> FloatArray:
    """Read a combination of joints as a row."""
    row = np.zeros(mechanism.n_joints)
    for name, share in entry.items():
        if name in mechanism.joint_names:
            row[mechanism.joint_names.index(name)] = reading.number(share, f"{path}.{name}")
        else:
            reading.note(path, f"no joint that moves is named {name!r}; {expected(name, mechanism.joint_names)}")
    if not row.any():
        reading.note(path, "is 0 for every joint; name the joints that it turns with")
    return row


def check_names(mechanism: Mechanism, train: DriveTrain, reading: Reading) -> None:
    """Refuse parameter names that belong to another kind of parameter."""
    from excitor.robots.parameters import link_parameter_names

    kinds: dict[str, str] = dict.fromkeys(link_parameter_names(mechanism.n_links), "a link")
    for rotor in train.rotors:
        if kinds.setdefault(rotor.parameter, "a rotor") != "a rotor":
            reading.note("drive.rotor", f"{rotor.parameter!r} is already a parameter of {kinds[rotor.parameter]}")
    for term in train.friction:
        if kinds.setdefault(term.parameter, "friction") != "friction":
            reading.note("friction", f"{term.parameter!r} is already a parameter of {kinds[term.parameter]}")


def is_closed(description: schema.Description) -> bool:
    """Return True if the description is of a closed chain."""
    return bool(description.closure) or description.platform is not None


def refuse_loop_keys(reading: Reading) -> None:
    """Refuse, in an open chain, keys that apply to closed ones only."""
    for k, joint in enumerate(reading.description.joint):
        for key, default in (("passive", False), ("home_deg", None), ("home_m", None), ("massless", False)):
            if getattr(joint, key) != default:
                reading.note(f"joint[{k + 1}].{key}", "is for closed chains; add [platform] and [[closure]], or remove")
        if joint.slender:
            reading.note(f"joint[{k + 1}].slender", "is for rods of closed chains; give the body its inertia instead")


@dataclass(frozen=True)
class Parts:
    """A closed chain being read: its opened skeleton, and the roles of links and coordinates."""

    skeleton: Skeleton
    actuated: list[int]  # coordinates
    platform: list[int]
    bodies: list[int]  # links that carry parameters


def read_closed(reading: Reading) -> tuple[ClosedLoop, Skeleton] | None:
    """Read a closed chain: its mechanism, and a skeleton whose links are numbered as the mechanism's bodies."""
    description = reading.description
    if description.platform is None:
        reading.note("platform", "is missing; a closed chain needs [platform] with its moves and home")
        return None
    if description.platform.name in ("base", *(joint.name for joint in description.joint)):
        path = "platform.name"
        reading.note(path, f"{description.platform.name!r} names the base or a joint already; choose another")
        return None
    if not description.closure:
        reading.note("closure", "is missing; [[closure]] says where the legs meet the platform")
        return None
    joints = [*description.joint, *platform_joints(description.platform, reading)]
    whole = replace(reading, description=description.model_copy(update={"joint": joints}))
    skeleton = build_skeleton(whole)
    if reading.problems:
        return None
    parts = sort_parts(skeleton, description.platform, reading)
    tree = replace(build_tree(skeleton, whole), link_names=link_names(skeleton, description.platform))
    closures = [
        closure
        for k, entry in enumerate(description.closure)
        for closure in read_closure(entry, skeleton, f"closure[{k + 1}]", reading)
    ]
    if reading.problems:
        return None
    loop = at_home(tree, closures, parts, reading)
    return None if loop is None else (loop, renumbered(parts, description, description.platform))


def platform_joints(platform: schema.Platform, reading: Reading) -> list[schema.Joint]:
    """Write the platform's moves as passive joints that hang on the base, one on the other."""
    if len(set(platform.moves)) < len(platform.moves):
        reading.note("platform.moves", f"is {platform.moves}, which says one twice; keep each once")
    if len(platform.home) != len(platform.moves):
        reading.note("platform.home", f"has {len(platform.home)} entries, expected one for each of {platform.moves}")
    if reading.problems:
        return []
    joints: list[schema.Joint] = []
    for k, (move, home) in enumerate(zip(platform.moves, platform.home, strict=True)):
        turns = move.startswith("r")
        place = schema.Placement(xyz=platform.at if k == 0 else [0.0, 0.0, 0.0], axis=list(_AXES[move[-1]]))
        at = reading.number(home, f"platform.home[{k + 1}]")
        joints.append(
            schema.Joint(
                name=f"{platform.name}.{move}",
                parent=joints[-1].name if joints else "base",
                kind="revolute" if turns else "prismatic",
                placement=place,
                passive=True,
                home_deg=at if turns else None,
                home_m=None if turns else at,
                massless=k + 1 < len(platform.moves),
            )
        )
    here = schema.Joint(
        name=platform.name, parent=joints[-1].name, kind="fixed", placement=schema.Placement(), link=platform.link
    )
    return [*joints, here]


def sort_parts(skeleton: Skeleton, platform: schema.Platform, reading: Reading) -> Parts:
    """Find which coordinates are actuated, passive, or the platform's, and which links carry parameters."""
    names = [f"{platform.name}.{move}" for move in platform.moves]
    actuated, moves = [], []
    for i, k in enumerate(skeleton.coordinates):
        link = skeleton.links[k]
        if link.joint.name in names:
            moves.append(i)
        elif not link.joint.passive:
            actuated.append(i)
        else:
            refuse_driven_keys(link, "is passive: it follows the drives; give this to those", reading)
    if len(actuated) != len(moves):
        reading.note(
            "joint",
            f"{len(actuated)} joints are actuated, but the platform has {len(moves)} moves, {platform.moves}; "
            "mark the others passive = true, or correct the moves",
        )
    for link in skeleton.links:
        if link.joint.massless and link.joint.link is not None:
            reading.note(f"{link.path}.link", "is given, but the link is massless; keep one")
        if link.joint.massless and link.joint.slender:
            reading.note(f"{link.path}.slender", "is given, but the link is massless; keep one")
    bodies = [j for j, link in enumerate(skeleton.links) if not link.joint.massless]
    return Parts(skeleton, actuated, moves, bodies)


def link_names(skeleton: Skeleton, platform: schema.Platform) -> tuple[str, ...]:
    """Name links after their joints, the platform after itself."""
    last = f"{platform.name}.{platform.moves[-1]}"
    return tuple(platform.name if link.joint.name == last else link.joint.name for link in skeleton.links)


def read_closure(entry: schema.Closure, skeleton: Skeleton, path: str, reading: Reading) -> list[Closure]:
    """Read a closure; a weld is a point that meets, and a turn that agrees."""
    places = [skeleton.frame(name, reading, f"{path}.between") for name in entry.between]
    points = [
        T[:3, :3] @ reading.vector(point, f"{path}.points") + T[:3, 3]
        for (_, T), point in zip(places, entry.points, strict=True)
    ]
    (a, T_a), (b, T_b) = places
    if a == b:
        reading.note(f"{path}.between", f"is {entry.between}, which is one and the same link; name two that move apart")
    for key, kind in (("length", "rod"), ("rpy_deg", "weld")):
        if getattr(entry, key) is not None and entry.kind != kind:
            reading.note(f"{path}.{key}", f"is for a {kind}; this closure is a {entry.kind}")
    plane, normal = directions(entry, path, reading)
    if entry.kind == "rod":
        length = 1.0 if entry.length is None else reading.number(entry.length, f"{path}.length")
        if entry.length is None or not length > 0.0:
            reading.note(f"{path}.length", "is missing or not above 0; a rod needs its length")
            return []
        return [Closure("rod", (a, b), np.array(points), plane[:1], length=length)]
    closures = [Closure("point", (a, b), np.array(points), plane)]
    if entry.kind == "weld":
        turn = roll_pitch_yaw(*np.radians(reading.vector(entry.rpy_deg or [0.0] * 3, f"{path}.rpy_deg")))
        agrees = T_a[:3, :3] @ turn[:3, :3] @ T_b[:3, :3].T
        closures.append(Closure("turn", (a, b), np.array(points), normal, turn=agrees))
    return closures


def directions(entry: schema.Closure, path: str, reading: Reading) -> tuple[FloatArray, FloatArray]:
    """Find the directions along which points must meet, and those about which turns must agree."""
    if entry.normal is None:
        return np.eye(3), np.eye(3)
    normal = reading.vector(entry.normal, f"{path}.normal")
    length = float(np.linalg.norm(normal))
    if entry.kind == "rod":
        reading.note(f"{path}.normal", "means nothing for a rod, which keeps a distance; remove it")
    if not 1e-6 < length < 1e6:
        reading.note(f"{path}.normal", f"is {normal.tolist()}, expected a direction other than 0")
        return np.eye(3), np.eye(3)
    normal = normal / length
    along = [axis - (axis @ normal) * normal for axis in np.eye(3)]
    along.sort(key=lambda axis: -float(np.linalg.norm(axis)))
    first = along[0] / np.linalg.norm(along[0])
    return np.array([first, np.cross(normal, first)]), normal[None]


def at_home(tree: Tree, closures: list[Closure], parts: Parts, reading: Reading) -> ClosedLoop | None:
    """Assemble the robot with its platform at home; where that fails, note why and return None."""
    n_equations = sum(len(closure) for closure in closures)
    n_dependent = tree.n_joints - len(parts.actuated)
    if n_equations != n_dependent:
        reading.note(
            "closure",
            f"{n_equations} equations for the {n_dependent} coordinates that no drive settles (passive joints and the "
            "platform's moves); a point closes 3, or 2 with a normal; a weld 6 or 3; a rod 1",
        )
        return None
    links = [parts.skeleton.links[k] for k in parts.skeleton.coordinates]
    guess = np.array([position_in_si(link.joint, "home") or 0.0 for link in links])
    slender = np.array([parts.skeleton.links[j].joint.slender for j in parts.bodies])
    fields = (tuple(closures), np.array(parts.actuated), np.array(parts.platform))
    loop = ClosedLoop(tree, *fields, guess, np.array(parts.bodies), slender)
    q, residual = solve(loop, loop.platform, guess[None, loop.platform])
    if not residual[0] <= tolerance(loop):
        reading.note(
            "platform.home",
            f"the legs do not reach the platform there: the closures stay open by {residual[0]:.3g} m; check the "
            "lengths, and give each joint a home_deg or home_m near where it stands",
        )
        return None
    loop = ClosedLoop(tree, *fields, q[:, 0], np.array(parts.bodies), slender)
    return loop if settles(loop, reading) else None


def settles(loop: ClosedLoop, reading: Reading) -> bool:
    """Check that home is not singular: the drives must determine all coordinates, and so must the platform."""
    A = closure_jacobian(loop, loop.home[None])[0] * np.where(loop.tree.prismatic, size(loop), 1.0)
    for given, what in ((loop.actuated, "actuated joints"), (loop.platform, "platform")):
        free = dependents(loop, given)
        _, values, right = np.linalg.svd(A[:, free])
        if values[-1] <= _SINGULAR * values[0]:
            loose = [loop.tree.joint_names[free[i]] for i in np.flatnonzero(np.abs(right[-1]) > 0.1)]
            reading.note(
                "closure",
                f"at home, with the {what} held still, {', '.join(loose)} can still move: a closure is "
                "missing or says what another says already, or home is a singularity",
            )
            return False
    return True


def renumbered(parts: Parts, description: schema.Description, platform: schema.Platform) -> Skeleton:
    """Renumber links as the mechanism's bodies; bodies on no joint of the file belong to the platform."""
    own = {f"joint[{k + 1}].link" for k in range(len(description.joint))}
    numbers = {j: b for b, j in enumerate(parts.bodies)} | {-1: -1}
    skeleton = parts.skeleton
    last = f"{platform.name}.{platform.moves[-1]}"
    frames = {name: (numbers[j], T) for name, (j, T) in skeleton.frames.items() if j in numbers and name != last}
    bodies = tuple(
        (path if path in own else "platform.link", body, numbers[j], T)
        for path, body, j, T in skeleton.bodies
        if j in numbers
    )
    return Skeleton(skeleton.links, frames, bodies, tuple(skeleton.coordinates[i] for i in parts.actuated))


def robot_from_data(data: dict[str, Any], source: str | Path, inherited: frozenset[str] = frozenset()) -> Robot:
    """Build a robot from the content of a robot file; parameters `inherited` from a base need not exist."""
    try:
        description = schema.Description.model_validate(data)
    except ValidationError as error:
        problems = schema.sentences(list(error.errors(include_url=False)), schema.Description)
        raise InvalidRobot(source, problems) from None
    except (OverflowError, RecursionError) as error:
        raise InvalidRobot(source, [f"holds a value that cannot be read: {error}"]) from None
    reading = Reading(description, [], inherited)
    robot = assemble(reading)
    if robot is None:
        raise InvalidRobot(source, reading.problems)
    return robot
