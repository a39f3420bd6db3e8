"""URDF files to robots: what the XML says is written as a robot file of ours would say it, and read by the same rules.

Meshes are never opened, and xacro is never run.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from excitor.robots.description import robot_from_data
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.schema import MOST_JOINTS
from excitor.robots.files.urdf_elements import Note, Reader, label, parse_xml
from excitor.robots.robot import Robot

SNAP = 1e-5  # rad: π at four decimals is off by 7e-6
_STEP = math.pi / 12
_LARGEST_ANGLE = 6.5  # rad, a little over a turn: beyond, somebody wrote degrees
_KINDS = {"revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic", "fixed": "fixed"}

Table = dict[str, Any]


@dataclass(frozen=True)
class Urdf:
    """A URDF file as the content of a robot file, with what was changed or left out on the way."""

    data: Table
    notes: tuple[Note, ...]
    labels: Mapping[str, str]  # what key paths of `data` are called in the URDF

    def in_its_words(self, problem: str) -> str:
        """Replace the key path in front of a problem by the element's name."""
        path, colon, sentence = problem.partition(": ")
        path = re.sub(r"\w+\[\d+\]", lambda match: self.labels.get(match.group(), match.group()), path)
        path = path.replace(".limits.position", " limit").replace(".follows", " mimic").replace(".name", " name")
        return path + colon + sentence


def robot_from_urdf(text: str, source: str | Path) -> Robot:
    """Read a robot from URDF text."""
    return robot_from(read_urdf(text, source), source)


def robot_from(urdf: Urdf, source: str | Path) -> Robot:
    """Build the robot; what is wrong is told in the URDF's words."""
    try:
        return robot_from_data(urdf.data, source)
    except InvalidRobot as error:
        raise InvalidRobot(source, [urdf.in_its_words(problem) for problem in error.problems]) from None


def read_urdf(text: str, source: str | Path) -> Urdf:
    """Write a URDF as the content of a robot file; its angles snapped to multiples of π/12, and that noted."""
    reader = Reader(source)
    root = parse_xml(text, source)
    if root.tag != "robot":
        reader.refuse(f"<{root.tag[:60]}>", "is the outermost element, expected <robot>")
    if any(child.tag.startswith("xacro:") for child in root):
        reader.refuse("<xacro:…>", "is a macro; run xacro on the file first, then load what it writes")
    reader.stop_if_refused()
    if root.find("transmission") is not None:
        sentence = "is not read: gear ratios and couplings go under [drive] of a robot file in TOML"
        reader.notes.append(("transmission", sentence))
    links = {link.get("name", ""): link for link in reader.named(root, "link")}
    joints = _joints(root, links, reader)
    reader.stop_if_refused()
    return _translate(root, links, joints, reader)


@dataclass(frozen=True)
class _Joint:
    name: str  # ours: a coordinate, or a frame
    where: str
    element: Element
    kind: str
    parent: str  # links
    child: str

    def key(self, radians: str, metres: str) -> str:
        return metres if self.kind == "prismatic" else radians


def _joints(root: Element, links: Mapping[str, Element], reader: Reader) -> list[_Joint]:
    """Collect the joints, each after the joint that its parent link hangs on, in the file's order otherwise."""
    elements = reader.named(root, "joint")
    if len(elements) > MOST_JOINTS:
        reader.refuse("<robot>", f"has {len(elements)} joints, expected at most {MOST_JOINTS}")
    reader.stop_if_refused()
    called = _our_names([element.get("name", "") for element in elements], reader)
    joints = [_joint(element, called, links, reader) for element in elements]
    reader.stop_if_refused()
    children = [joint.child for joint in joints]
    for name in sorted({name for name in children if children.count(name) > 1}):
        of = ", ".join(repr(joint.element.get("name")) for joint in joints if joint.child == name)
        reader.refuse(label("link", name), f"is the child of several joints ({of}); a URDF is a tree, expected one")
    roots = [name for name in links if name not in children]
    if len(roots) != 1:
        several = f"no joint leads to {', '.join(map(repr, roots[:5]))}; expected one such link, the base"
        reader.refuse("<link>", several if roots else "every link hangs on another in a circle; one must be the base")
    reader.stop_if_refused()
    return _in_order(joints, roots[0])


def _in_order(joints: list[_Joint], root: str) -> list[_Joint]:
    placed, ordered, waiting = {root}, [], list(joints)
    while (ready := next((joint for joint in waiting if joint.parent in placed), None)) is not None:
        waiting.remove(ready)
        placed.add(ready.child)
        ordered.append(ready)
    return [*ordered, *waiting]  # those that wait in a circle are told of when the tree is built


def _our_names(names: Sequence[str], reader: Reader) -> dict[str, str]:
    """Keep the names, except that "base" means the base."""
    called = {name: name for name in names}
    if "base" in called:
        called["base"] = "base_joint"
        while called["base"] in names:
            called["base"] += "_"
        reader.notes.append(("joint 'base'", f"is called {called['base']!r} here: 'base' names the base"))
    return called


def _joint(element: Element, called: Mapping[str, str], links: Mapping[str, Element], reader: Reader) -> _Joint:
    name = element.get("name", "")
    where, kind = label("joint", name), element.get("type", "")
    if kind in ("floating", "planar"):
        reader.refuse(f"{where} type", f"is {kind}; Excitor knows robots on a fixed base, with one coordinate a joint")
    elif kind not in _KINDS:
        reader.refuse(f"{where} type", f"is {kind[:60]!r}, expected one of {', '.join(_KINDS)}")
    ends = []
    for end in ("parent", "child"):
        at = element.find(end)
        link = "" if at is None else at.get("link", "")
        if link not in links:
            said = f"no link is named {link[:60]!r}" if link else "is missing"
            reader.refuse(f"{where} {end}", f"{said}; expected the name of a link")
        ends.append(link)
    return _Joint(called[name], where, element, kind, *ends)


def _translate(root: Element, links: Mapping[str, Element], joints: Sequence[_Joint], reader: Reader) -> Urdf:
    """Write what the elements say as tables of a robot file."""
    mover = {joint.child: joint.name for joint in joints}  # link -> the joint that carries it
    base = next(name for name in links if name not in mover)
    if links[base].find("inertial") is not None:
        reader.notes.append((label("link", base), "never moves: its inertial is left out"))
    tables = [_joint_table(joint, mover.get(joint.parent, "base"), joints, reader) for joint in joints]
    for joint, table in zip(joints, tables, strict=True):
        body = _body(links[joint.child], label("link", joint.child), reader)
        table |= {"link": body} if body else {}
    capsules, shaped = _capsules(links, mover, reader)
    fixed = [joint for joint in joints if joint.kind == "fixed" and joint.child not in {"base", *mover.values()}]
    frames = [{"name": joint.child, "link": joint.name} for joint in fixed]
    data = {"name": (root.get("name") or "robot")[:80], "joint": tables, "capsule": capsules, "frame": frames}
    data |= _friction(joints, reader) | _tool(mover, reader)
    reader.stop_if_refused()
    labels = {f"joint[{k + 1}]": joint.where for k, joint in enumerate(joints)}
    labels |= {f"capsule[{k + 1}]": where for k, where in enumerate(shaped)}
    labels |= {f"frame[{k + 1}]": label("link", joint.child) for k, joint in enumerate(fixed)}
    return Urdf(data, tuple(reader.notes), labels)


def _joint_table(joint: _Joint, parent: str, joints: Sequence[_Joint], reader: Reader) -> Table:
    origin = joint.element.find("origin")
    xyz = reader.numbers(origin, "xyz", f"{joint.where} origin", default="0 0 0", count=3)
    rpy = reader.numbers(origin, "rpy", f"{joint.where} origin", default="0 0 0", count=3)
    placement = {"xyz": xyz, "rpy_rad": [_snapped(angle, joint, reader) for angle in rpy]}
    table: Table = {"name": joint.name, "parent": parent, "kind": _KINDS[joint.kind], "placement": placement}
    if joint.kind == "fixed":
        return table
    placement["axis"] = _axis(joint, reader)
    mimic = joint.element.find("mimic")
    if mimic is None:
        return table | {"limits": _limits(joint, reader)}
    if joint.element.find("limit") is not None:
        reader.notes.append((f"{joint.where} limit", "is left out: the joint follows another, whose limits hold"))
    return table | _mimic(mimic, joint, joints, reader)


def _snapped(angle: float, joint: _Joint, reader: Reader) -> float:
    """Snap to a multiple of π/12: a truncated π would make base parameters of its own."""
    if abs(angle) > _LARGEST_ANGLE:
        reader.refuse(f"{joint.where} origin rpy", f"is {angle:g} rad, more than a turn; URDF angles are in radians")
        return angle
    multiple = round(angle / _STEP)
    exact = multiple * math.pi / 12
    if abs(angle - exact) > SNAP:
        return angle
    if abs(angle - exact) > 1e-12:
        sentence = f"{angle!r} is read as {_in_pi(multiple)}, {abs(angle - exact):.1e} rad away"
        reader.notes.append((f"{joint.where} origin rpy", sentence))
    return exact


def _in_pi(multiple: int) -> str:
    share = Fraction(multiple, 12)
    factor = {1: "", -1: "-"}.get(share.numerator, str(share.numerator))
    return "0" if multiple == 0 else f"{factor}pi" + (f"/{share.denominator}" if share.denominator > 1 else "")


def _axis(joint: _Joint, reader: Reader) -> list[float]:
    """Read the axis, x where it is not given: of length 1, with components that are almost 0 made 0."""
    where = f"{joint.where} axis"
    given = reader.numbers(joint.element.find("axis"), "xyz", where, default="1 0 0", count=3)
    axis = np.array(given)
    largest = float(np.abs(axis).max())
    if not 1e-6 < largest < 1e6:
        reader.refuse(f"{where} xyz", f"is {given}, expected a direction other than 0")
        return [0.0, 0.0, 1.0]
    axis[np.abs(axis) <= SNAP * largest] = 0.0
    axis /= np.linalg.norm(axis)
    if np.abs(axis - given).max() > 1e-12:
        told = ", ".join(f"{component:.6g}" for component in axis)
        reader.notes.append((f"{where} xyz", f"{given} is read as the unit vector [{told}]"))
    return [float(component) for component in axis]


def _limits(joint: _Joint, reader: Reader) -> Table:
    """Read the limits; what URDF writes for "not stated" is left out."""
    limit, where = joint.element.find("limit"), f"{joint.where} limit"
    limits: Table = {}
    if limit is None:
        return limits
    low, high = (reader.number(limit, key, where, default="0") for key in ("lower", "upper"))
    if joint.kind != "continuous" and (low != 0.0 or high != 0.0):
        limits[joint.key("position_rad", "position_m")] = [low, high]
    keys = {"velocity": joint.key("velocity_rad_s", "velocity_m_s"), "effort": "torque"}
    for key, ours in keys.items():
        value = reader.number(limit, key, where, default="0")
        if value > 0.0:
            limits[ours] = value
        elif value < 0.0:
            reader.refuse(f"{where} {key}", f"is {value:g}, expected a number greater than 0, or 0 for 'not stated'")
        elif limit.get(key) is not None:
            reader.notes.append((f"{where} {key}", "is 0, which is taken for 'not stated': there is no such limit"))
    return limits


def _mimic(mimic: Element, joint: _Joint, joints: Sequence[_Joint], reader: Reader) -> Table:
    """Read position = multiplier · position of another joint + offset."""
    where, leader = f"{joint.where} mimic", mimic.get("joint", "")
    called = {other.element.get("name"): other.name for other in joints}
    if leader not in called or called[leader] == joint.name:
        reader.refuse(f"{where} joint", f"is {leader[:60]!r}, expected the name of another joint")
    multiplier = reader.number(mimic, "multiplier", where, default="1")
    offset = reader.number(mimic, "offset", where, default="0")
    if joint.kind != "prismatic":
        offset = math.degrees(offset)
    return {"follows": {called.get(leader, joint.name): multiplier}, joint.key("offset_deg", "offset_m"): offset}


def _body(link: Element, where: str, reader: Reader) -> Table | None:
    """Read an inertial; the inertia about the centre of mass is turned into the link's axes, R I Rᵀ."""
    inertial = link.find("inertial")
    if inertial is None:
        return None
    where += " inertial"
    T = reader.pose(inertial, where)
    mass = reader.number(inertial.find("mass"), "value", f"{where} mass")
    about = inertial.find("inertia")
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    if about is None:
        reader.refuse(f"{where} inertia", "is missing")
    xx, xy, xz, yy, yz, zz = (
        reader.number(about, key, f"{where} inertia", default="0" if about is None else None) for key in keys
    )
    inertia = T[:3, :3] @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ T[:3, :3].T
    upper = inertia[np.triu_indices(3)]
    return {"mass": mass, "center": [float(x) for x in T[:3, 3]], "inertia": [float(x) for x in upper]}


def _capsules(links: Mapping[str, Element], mover: Mapping[str, str], reader: Reader) -> tuple[list[Table], list[str]]:
    """Cover collision shapes by capsules: (capsules, where each comes from)."""
    capsules: list[Table] = []
    shaped: list[str] = []
    meshes = []
    for name, link in links.items():
        where = f"{label('link', name)} collision"
        for collision in link.findall("collision"):
            geometry = collision.find("geometry")
            shape = geometry[0] if geometry is not None and len(geometry) else Element("mesh")
            if shape.tag == "mesh":
                meshes.append(name)
                continue
            T = reader.pose(collision, where)
            axis, half, radius = _cover(shape, f"{where} {shape.tag[:60]}", reader)
            start, end = (T[:3, 3] + sign * half * T[:3, axis] for sign in (-1.0, 1.0))
            ends = {"start": [float(x) for x in start], "end": [float(x) for x in end]}
            capsules.append({"link": mover.get(name, "base"), **ends, "radius": radius})
            shaped.append(where)
    if meshes:
        listed = ", ".join(dict.fromkeys(meshes))
        reader.notes.append(("collision", f"meshes are not read: {listed} have no capsules for them"))
    return capsules, shaped


def _cover(shape: Element, where: str, reader: Reader) -> tuple[int, float, float]:
    """Find a capsule that contains a shape: (axis it lies along, half its segment, radius).

    A cylinder keeps its axis, length and radius, so that the capsule is longer by a radius at each end. A box lies
    along its longest side, in a radius of half the diagonal of its cross-section. A sphere has no length.
    """
    if shape.tag == "box":
        sides = reader.numbers(shape, "size", where, default=None, count=3)
        longest = int(np.argmax(sides))
        across = [side for k, side in enumerate(sides) if k != longest]
        cover = longest, sides[longest] / 2, math.hypot(*across) / 2
        positive = min(sides) > 0.0
    elif shape.tag in ("cylinder", "capsule", "sphere"):
        length = 0.0 if shape.tag == "sphere" else reader.number(shape, "length", where)
        cover = 2, length / 2, reader.number(shape, "radius", where)
        positive = length >= 0.0 and cover[2] > 0.0
    else:
        reader.refuse(where, "is not a shape of URDF; expected box, cylinder, sphere, capsule or mesh")
        return 2, 0.0, 1.0
    if not positive and not any(problem.startswith(where) for problem in reader.problems):
        reader.refuse(where, f"has the sizes {dict(shape.attrib)}, expected numbers greater than 0")
    return cover


def _friction(joints: Sequence[_Joint], reader: Reader) -> Table:
    """Read damping and friction as what is known beforehand of viscous and Coulomb friction."""
    parameters = {}
    coordinates = [joint for joint in joints if joint.kind != "fixed" and joint.element.find("mimic") is None]
    for k, joint in enumerate(coordinates):
        dynamics = joint.element.find("dynamics")
        for key, name in (("damping", "Fv"), ("friction", "Fc")):
            if dynamics is not None and key in dynamics.attrib:
                parameters[f"{name}{k + 1}"] = reader.number(dynamics, key, f"{joint.where} dynamics")
    return {"friction": {"terms": ["viscous", "coulomb"]}, "parameters": parameters} if parameters else {}


def _tool(mover: Mapping[str, str], reader: Reader) -> Table:
    """Take the link that ROS calls tool0 for the tool."""
    if "tool0" in mover:
        return {"tool": {"link": mover["tool0"]}}
    reader.notes.append(("tool", "no link is named tool0: the frame of the last moving link is taken for the tool's"))
    return {}
