"""The bones of a robot file: joints in order, fixed ones merged.

Each is placed as before · M(axis, θ + offset) · after.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.files import schema
from excitor.robots.files.expressions import number
from excitor.robots.geometry import roll_pitch_yaw, rotation, translation
from excitor.robots.tree import Tree

_Z = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True)
class Reading:
    """A robot file being read: what is wrong is noted with its key path, so that all of it can be told at once."""

    description: schema.Description
    problems: list[str]

    def note(self, path: str, problem: str) -> None:
        """Note what is wrong at a key path."""
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

    @property
    def slides(self) -> bool:
        """Tell a sliding joint from one that turns."""
        return self.joint.kind == "prismatic"


@dataclass(frozen=True)
class Skeleton:
    """Moving links in order, and where each named joint's frame and each given body ride: link index or -1, T_link."""

    links: tuple[Link, ...]
    frames: Mapping[str, tuple[int, FloatArray]]
    bodies: tuple[tuple[str, schema.Body, int, FloatArray], ...]
    coordinates: tuple[int, ...]  # the links whose joints move by themselves

    def frame(self, name: str, reading: Reading, path: str) -> tuple[int, FloatArray]:
        """Find a joint's frame by name."""
        if name not in self.frames:
            reading.note(path, f"no joint is named {name!r}; expected one of {list(self.frames)}")
            return -1, np.eye(4)
        return self.frames[name]


def build_skeleton(reading: Reading) -> Skeleton:
    """Place every joint, merging fixed ones into the link they sit on."""
    frames: dict[str, tuple[int, FloatArray]] = {"base": (-1, np.eye(4))}
    links: list[Link] = []
    bodies: list[tuple[str, schema.Body, int, FloatArray]] = []
    for k, joint, parent_name in order_joints(reading):
        path = f"joint[{k + 1}]"
        parent, T_parent = frames[parent_name]
        before, axis, after, offset = joint_geometry(joint, path, reading)
        check_keys(joint, path, reading)
        if joint.kind == "fixed":
            frames[joint.name] = (parent, T_parent @ before @ translation(0.0, 0.0, offset) @ after)
        else:
            frames[joint.name] = (len(links), np.eye(4))
            offset += position_in_si(joint, "offset") or 0.0
            links.append(Link(joint, path, parent, T_parent @ before, axis, after, offset))
        if joint.link is not None:
            bodies.append((f"{path}.link", joint.link, *frames[joint.name]))
    if frames.keys() > {"base"} and not links:
        reading.note("joint", "every joint is fixed; a robot needs one that moves")
    return Skeleton(tuple(links), frames, tuple(bodies), find_coordinates(links, reading))


def check_keys(joint: schema.Joint, path: str, reading: Reading) -> None:
    """Refuse keys that mean nothing for this kind of joint."""
    wrong = {"revolute": "turns; use {}_deg", "prismatic": "slides; use {}_m", "fixed": "is fixed; leave this out"}
    for key in ("offset", "locked", "home"):
        for unit, kind in (("deg", "revolute"), ("m", "prismatic")):
            if getattr(joint, f"{key}_{unit}") is not None and joint.kind != kind:
                reading.note(f"{path}.{key}_{unit}", f"the joint {wrong[joint.kind].format(key)}")
    if joint.kind == "fixed" and joint.follows is not None:
        reading.note(f"{path}.follows", "the joint is fixed; leave this out")
    if joint.kind == "fixed" and joint.limits != schema.Limits():
        reading.note(f"{path}.limits", "the joint is fixed; leave this out")


def position_in_si(joint: schema.Joint, key: str) -> float | None:
    """Read a position of the joint, `offset` or `locked`, in rad or m; None where not given."""
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
            reading.note(f"joint[{k + 1}].parent", f"no joint is named {parent!r}; expected 'base' or one of {names}")
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


Geometry = tuple[FloatArray, FloatArray, FloatArray, float]


def joint_geometry(joint: schema.Joint, path: str, reading: Reading) -> Geometry:
    """Write a joint's placement as before · M(axis, θ + offset) · after: (before, axis, after, offset)."""
    if joint.mdh is not None:
        return _modified_dh(joint.mdh, joint.kind == "revolute", f"{path}.mdh", reading)
    if joint.dh is not None:
        return _standard_dh(joint.dh, joint.kind == "revolute", f"{path}.dh", reading)
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
    return before, axis / length, np.eye(4), 0.0


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
    coordinates = tuple(
        k for k, link in enumerate(links) if link.joint.follows is None or link.joint.name in link.joint.follows
    )
    names = [links[k].joint.name for k in coordinates]
    for link in links:
        for key in ("limits", "locked_deg", "locked_m"):
            if link.joint.name not in names and getattr(link.joint, key) not in (None, schema.Limits()):
                reading.note(
                    f"{link.path}.{key}", "the joint only follows others; give this to the joint that it follows"
                )
        for name in link.joint.follows or ():
            if name not in names:
                reading.note(
                    f"{link.path}.follows", f"{name!r} is not a joint that moves by itself; expected one of {names}"
                )
    if links and not coordinates:
        reading.note("joint", "every joint follows another; one must move by itself")
    return coordinates


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
