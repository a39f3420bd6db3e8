"""URDF files to robots, by translation to the content of a robot file; and a robot's own URDF with inertials filled in.

XML is parsed without document types and entities, and xacro is never run. Collision meshes beside the file become
capsules that contain them; SRDF beside it says which pairs are not watched. A filled URDF keeps everything but its
inertials to the byte.
"""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from xml.etree.ElementTree import Element
from xml.parsers import expat

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError, InvalidRobot, did_you_mean
from excitor.robots.files.meshes import check_size, find_mesh, mesh_place, read_mesh
from excitor.robots.files.parts import gripper_held, with_friction
from excitor.robots.files.schema import LARGEST, MOST_JOINTS
from excitor.robots.files.toml import robot_from_data
from excitor.robots.files.xml import parse_xml
from excitor.robots.friction import friction_model
from excitor.robots.inertia import about_center_of_mass, change_frame, from_center_of_mass, roll_pitch_yaw, translation
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot
from excitor.robots.volumes import cover_triangles

SNAP = 1e-5  # rad: π at four decimals is off by 7e-6
_STEP = math.pi / 12
_LARGEST_ANGLE = 6.5  # rad, a little over a turn: beyond, somebody wrote degrees
_DYNAMICS = {"damping": "Fv", "friction": "Fc"}  # attributes, and the parameters that they are priors of
_KINDS = ("revolute", "continuous", "prismatic", "fixed")

Table = dict[str, Any]


Note = tuple[str, str]  # where, and a sentence
_LEAST_RADIUS = 0.06  # m: an assumed one
_LARGEST_SRDF = 2_000_000
_MOST_PAIRS = 10_000
_FRICTION = (
    "every joint gets viscous and Coulomb friction, an offset and a rotor inertia, to be identified{}; a robot file "
    'with base = this file, friction = [] and drive.rotors = "none" leaves them out'
)
_MOST_NUMBERS = 3
_TAG = re.compile(rb"""<(?:"[^"]*"|'[^']*'|[^>"'])*>""")


@dataclass(frozen=True)
class Urdf:
    """A URDF file as the content of a robot file, with what was changed or left out on the way."""

    data: Table  # with the joints of grippers held
    whole: Table  # with all joints moving
    dynamics: Mapping[str, Mapping[str, float]]  # of joints: what is known of their friction, by the parameter's prefix
    notes: tuple[Note, ...]
    labels: Mapping[str, str]  # what key paths of `data` are called in the URDF
    links: Mapping[str, str]  # link -> the joint that carries it, or "base"
    language: Literal["URDF", "MJCF"] = "URDF"

    def in_its_words(self, problem: str) -> str:
        """Replace the key path in front of a problem with the element's name."""
        path, colon, sentence = problem.partition(": ")
        path = re.sub(r"\w+\[\d+\]", lambda match: self.labels.get(match.group(), match.group()), path)
        path = path.replace(".limits.position", " limit").replace(".follows", " mimic").replace(".name", " name")
        return path + colon + sentence


def robot_from_urdf(text: str, source: str | Path) -> Robot:
    """Read a robot from URDF text."""
    return robot_from(read_urdf(text, source), source)


def robot_from(urdf: Urdf, source: str | Path) -> Robot:
    """Build the robot; problems are reported with the URDF's element names."""
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


@dataclass(frozen=True)
class Reader:
    """A URDF being read: its problems, and what was changed or left out, as sentences."""

    source: str | Path
    problems: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def refuse(self, where: str, sentence: str) -> None:
        """Note a problem that makes the file unusable."""
        self.problems.append(f"{where}: {sentence}")

    def stop_if_refused(self) -> None:
        """Raise InvalidRobot with all problems noted so far, if any."""
        if self.problems:
            raise InvalidRobot(self.source, self.problems)

    def named(self, root: Element, tag: str) -> list[Element]:
        """Collect the elements of a kind; every one needs a name of its own."""
        elements = root.findall(tag)
        names = [element.get("name", "") for element in elements]
        before: set[str] = set()
        for k, name in enumerate(names):
            if not name:
                self.refuse(f"<{tag}> number {k + 1}", "has no name")
            elif name in before:
                self.refuse(label(tag, name), "is there more than once; every one needs a name of its own")
            before.add(name)
        if not elements:
            self.refuse("<robot>", f"has no <{tag}>; a robot needs one")
        return elements

    def numbers(self, element: Element | None, key: str, where: str, *, default: str | None, count: int) -> list[float]:
        """Read the numbers of an attribute; zeros where that fails."""
        text = default if element is None else element.get(key, default)
        if text is None:
            self.refuse(f"{where} {key}", "is missing")
            return [0.0] * count
        try:
            values = [float(word) for word in text.split(maxsplit=_MOST_NUMBERS) if "_" not in word]
        except ValueError:
            values = []
        if len(values) != count or not all(abs(value) <= LARGEST for value in values):
            given = text if len(text) <= 60 else text[:57] + "…"
            expected = "a number" if count == 1 else f"{count} numbers"
            hint = "; run xacro on the file first" if "$" in given else f", each at most {LARGEST:g} in size"
            self.refuse(f"{where} {key}", f"is {given!r}, expected {expected}{hint}")
            return [0.0] * count
        return values

    def number(self, element: Element | None, key: str, where: str, *, default: str | None = None) -> float:
        """Read a number; 0 where that fails."""
        return self.numbers(element, key, where, default=default, count=1)[0]

    def pose(self, element: Element, where: str) -> FloatArray:
        """Read an <origin> as it stands, (4, 4)."""
        origin = element.find("origin")
        xyz = self.numbers(origin, "xyz", f"{where} origin", default="0 0 0", count=3)
        rpy = self.numbers(origin, "rpy", f"{where} origin", default="0 0 0", count=3)
        return translation(*xyz) @ roll_pitch_yaw(*rpy)


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
    return [*ordered, *waiting]  # those that wait in a circle are reported when the tree is built


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
            problem = f"no link is named {link[:60]!r}" if link else "is missing"
            reader.refuse(f"{where} {end}", f"{problem}; expected the name of a link{did_you_mean(link, links)}")
        ends.append(link)
    return _Joint(called[name], where, element, kind, *ends)


def _translate(root: Element, links: Mapping[str, Element], joints: Sequence[_Joint], reader: Reader) -> Urdf:
    """Convert the elements to tables of a robot file."""
    mover = {joint.child: joint.name for joint in joints}  # link -> the joint that carries it
    base = next(name for name in links if name not in mover)
    if links[base].find("inertial") is not None:
        reader.notes.append((label("link", base), "never moves: its inertial is left out"))
    tables = [_joint_table(joint, mover.get(joint.parent, "base"), joints, reader) for joint in joints]
    for joint, table in zip(joints, tables, strict=True):
        body = _body(links[joint.child], label("link", joint.child), reader)
        table |= {"link": body} if body else {}
    capsules, shaped = _capsules(links, joints, reader)
    fixed = [joint for joint in joints if joint.kind == "fixed" and joint.child not in {"base", *mover.values()}]
    frames = [{"name": joint.child, "link": joint.name} for joint in fixed]
    data: Table = {"name": (root.get("name") or "robot")[:80], "joint": tables, "capsule": capsules, "frame": frames}
    data |= _tool(mover, reader) | _ignored_pairs(data, links, reader)
    dynamics = {joint.name: _dynamics_of(joint, reader) for joint in joints if joint.kind != "fixed"}
    reader.stop_if_refused()
    whole, data = data, with_friction(gripper_held(data), dynamics)
    known = f"; known beforehand are {', '.join(data['parameters'])}" if "parameters" in data else ""
    reader.notes.append(("friction", _FRICTION.format(known)))
    labels = {f"joint[{k + 1}]": joint.where for k, joint in enumerate(joints)}
    labels |= {f"capsule[{k + 1}]": where for k, where in enumerate(shaped)}
    labels |= {f"frame[{k + 1}]": label("link", joint.child) for k, joint in enumerate(fixed)}
    return Urdf(data, whole, dynamics, tuple(reader.notes), labels, {name: mover.get(name, "base") for name in links})


def _joint_table(joint: _Joint, parent: str, joints: Sequence[_Joint], reader: Reader) -> Table:
    origin = joint.element.find("origin")
    xyz = reader.numbers(origin, "xyz", f"{joint.where} origin", default="0 0 0", count=3)
    rpy = reader.numbers(origin, "rpy", f"{joint.where} origin", default="0 0 0", count=3)
    placement = {"xyz": xyz, "rpy_rad": [_snapped(angle, joint, reader) for angle in rpy]}
    table: Table = {"name": joint.name, "parent": parent, "kind": joint.kind, "placement": placement}
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
        text = ", ".join(f"{component:.6g}" for component in axis)
        reader.notes.append((f"{where} xyz", f"{given} is read as the unit vector [{text}]"))
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


def _capsules(links: Mapping[str, Element], joints: Sequence[_Joint], reader: Reader) -> tuple[list[Table], list[str]]:
    """Cover collision shapes and meshes by capsules: (capsules, where each comes from).

    A link whose mesh cannot be read gets capsules of assumed radius, and so does one with a body and no shape at all.
    """
    mover = {joint.child: joint.name for joint in joints}
    capsules: list[Table] = []
    shaped: list[str] = []

    def add(link: str, ends: FloatArray, radius: float, origin: str) -> None:
        start, end = ([float(x) for x in point] for point in ends)
        capsules.append({"link": mover.get(link, "base"), "start": start, "end": end, "radius": float(radius)})
        if origin != "stated":
            capsules[-1]["origin"] = origin
        capsules[-1]["part"] = link
        shaped.append(f"{label('link', link)} collision")

    unread = []
    for name, link in links.items():
        shapes, triangles, whole = _shapes(name, link, reader)
        for ends, radius in shapes:
            add(name, ends, radius, "stated")
        if not whole:
            unread.append(name)
        if triangles:
            for start, end, radius, corners in cover_triangles(np.concatenate(triangles)):
                add(name, np.array([start, end]), radius, "mesh")
                capsules[-1]["corners"] = corners.tolist()
    bare = _bare_links(links, joints, {capsule["part"] for capsule in capsules} | set(unread))
    radius = max(_LEAST_RADIUS, 0.1 * _reach(joints, reader))
    for name in (*unread, *bare):
        for end in _ends(name, links[name], joints, reader):
            add(name, np.array([np.zeros(3), end]), radius, "assumed")
    if bare:
        sentence = f"is not given for {', '.join(bare)}: a radius of {1e3 * radius:.0f} mm along each is assumed"
        reader.notes.append(("collision", sentence))
    return capsules, shaped


def _shapes(name: str, link: Element, reader: Reader) -> tuple[list[tuple[FloatArray, float]], list[FloatArray], bool]:
    """Collect a link's collision shapes: capsules (ends, radius), triangles, and False if a mesh could not be read."""
    where = f"{label('link', name)} collision"
    capsules: list[tuple[FloatArray, float]] = []
    triangles: list[FloatArray] = []
    whole = True
    for collision in link.findall("collision"):
        geometry = collision.find("geometry")
        shape = geometry[0] if geometry is not None and len(geometry) else Element("mesh")
        T = reader.pose(collision, where)
        if shape.tag == "mesh":
            found = _mesh(shape, where, reader)
            whole = whole and found is not None
            triangles += [] if found is None else [found @ T[:3, :3].T + T[:3, 3]]
            continue
        axis, half, radius = _cover(shape, f"{where} {shape.tag[:60]}", reader)
        capsules.append((T[:3, 3] + np.outer([-1.0, 1.0], half * T[:3, axis]), radius))
    return capsules, triangles, whole


def _mesh(shape: Element, where: str, reader: Reader) -> FloatArray | None:
    """Read a mesh's triangles, (n, 3, 3); None, and a note, where that fails."""
    name = shape.get("filename", "").strip()
    scale = reader.numbers(shape, "scale", f"{where} mesh", default="1 1 1", count=3)
    shown = name if len(name) <= 80 else "…" + name[-79:]
    try:
        if not name:
            raise ValueError("is not named; give it a filename")
        triangles, remark = read_mesh(find_mesh(name, Path(reader.source)))
        triangles = triangles * scale
        check_size(triangles)
    except ValueError as error:
        reader.notes.append((where, f"mesh {shown!r} {error}; until then a volume along the link is assumed"))
        return None
    if remark:
        reader.notes.append((where, f"mesh {shown!r}: {remark}"))
    return np.asarray(triangles)


def _bare_links(links: Mapping[str, Element], joints: Sequence[_Joint], covered: set[str]) -> list[str]:
    """List the links that move with a body and without a volume.

    What is fixed to a link covers it only if the link itself is not seen and weighs nothing; a link without a look or a
    mass, whose joints meet in a point, is only a frame between axes.
    """
    groups: dict[str, list[str]] = {}  # of links that are fixed to each other, by the one that a joint moves
    of: dict[str, str] = {}
    for joint in joints:
        of[joint.child] = joint.child if joint.kind != "fixed" else of.get(joint.parent, "")
        groups.setdefault(of[joint.child], []).append(joint.child)
    groups.pop("", None)  # what is fixed to the base
    bare = []
    for mover, members in groups.items():
        has_body = [name for name in members if _has_body(links[name])]
        if mover in covered or (mover not in has_body and covered.intersection(members)):
            continue
        outward = [joint for joint in joints if joint.parent in members]
        origins = [joint.element.find("origin") for joint in outward]
        lengths = [x for o in origins if o is not None for x in o.get("xyz", "").split()]
        carries = any(joint.kind in ("revolute", "continuous") for joint in outward)
        if has_body or not carries or any(map(_is_not_zero, lengths)):
            inner = {joint.parent for joint in outward}
            bare += [name for name in members if name in inner and name not in covered] or [mover]
    return bare


def _has_body(link: Element) -> bool:
    mass = link.find("inertial/mass")
    return link.find("visual") is not None or (mass is not None and _is_not_zero(mass.get("value", "")))


def _is_not_zero(text: str) -> bool:
    return bool(text.strip("+-.0"))


def _reach(joints: Sequence[_Joint], reader: Reader) -> float:
    """Length of the longest chain of joints, from the first that moves, m."""
    reach: dict[str, float] = {}
    for joint in joints:
        step = float(np.linalg.norm(reader.pose(joint.element, joint.where)[:3, 3]))
        if joint.parent in reach or joint.kind != "fixed":
            reach[joint.child] = reach[joint.parent] + step if joint.parent in reach else 0.0
    return max(reach.values(), default=0.0)


def _ends(name: str, link: Element, joints: Sequence[_Joint], reader: Reader) -> list[FloatArray]:
    """List where a link leads from its frame: to the joints that it carries, else to its centre of mass."""
    ends = [reader.pose(joint.element, joint.where)[:3, 3] for joint in joints if joint.parent == name]
    inertial = link.find("inertial")
    if not ends and inertial is not None:
        ends = [reader.pose(inertial, f"{label('link', name)} inertial")[:3, 3]]
    return [end for end in ends if np.any(end)] or [np.zeros(3)]


def _ignored_pairs(data: Table, links: Mapping[str, Element], reader: Reader) -> Table:
    """Read the pairs of links that an SRDF beside the URDF does not watch."""
    path = _srdf(Path(reader.source), data["name"])
    if path is None:
        return {}
    where = f"SRDF {path.name}"
    try:
        if path.stat().st_size > _LARGEST_SRDF:
            raise InvalidRobot(path, [f"has more than {_LARGEST_SRDF / 1e6:.0f} MB"])
        root = parse_xml(path.read_bytes().decode("utf-8-sig"), path)
    except InvalidRobot as error:
        reader.notes.append((where, f"is not used: it {'; '.join(error.problems)}"))
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reader.notes.append((where, f"is not used: it cannot be read as UTF-8 text: {str(error)[:100]}"))
        return {}
    if root.get("name", data["name"]) != data["name"]:
        reader.notes.append((where, f"is not used: it is of the robot {root.get('name', '')[:60]!r}"))
        return {}
    pairs = []
    for element in root.findall("disable_collisions")[:_MOST_PAIRS]:
        parts = [element.get("link1", ""), element.get("link2", "")]
        if all(part in links for part in parts) and parts[0] != parts[1]:
            reason = element.get("reason", "")[:60] or "no reason given"
            pairs.append({"parts": parts, "reason": f"{where} disables it: {reason}"})
    reader.notes.append((where, f"disables the collisions of {len(pairs)} pairs of links: these are not watched"))
    return {"ignored_pair": pairs}


def companions(source: Path) -> list[tuple[Path, PurePosixPath]]:
    """List the files that a URDF reads, and where they are found beside a copy of it: collision meshes and SRDF."""
    root = parse_xml(source.read_text("utf-8-sig"), source)
    found = {}
    for shape in root.iterfind("link/collision/geometry/mesh"):
        name = shape.get("filename", "").strip()
        with suppress(ValueError):
            found[mesh_place(name)] = find_mesh(name, source)
    srdf = _srdf(source, (root.get("name") or "robot")[:80])
    if srdf is not None:
        found[PurePosixPath(srdf.name)] = srdf
    return [(path, place) for place, path in found.items()]


def _srdf(urdf: Path, name: str) -> Path | None:
    """Find the SRDF of a URDF: of its stem or the robot's name, beside it, in ../srdf or in ../config."""
    folders = (urdf.parent, urdf.parent.parent / "srdf", urdf.parent.parent / "config")
    names = [one for one in (urdf.stem, name) if one and not set(one) & set("/\\\0")]
    tries = [folder / f"{one}.srdf" for folder in folders for one in names]
    return next((path for path in tries if urdf.is_file() and path.is_file()), None)


def _cover(shape: Element, where: str, reader: Reader) -> tuple[int, float, float]:
    """Find a capsule that contains a shape: (axis, half the segment's length, radius).

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


def _dynamics_of(joint: _Joint, reader: Reader) -> dict[str, float]:
    """Read what a joint states of its friction; 0 is what is written for "not stated"."""
    element = joint.element.find("dynamics")
    stated = [] if element is None else [key for key in _DYNAMICS if key in element.attrib]
    values = {_DYNAMICS[key]: reader.number(element, key, f"{joint.where} dynamics") for key in stated}
    return {prefix: value for prefix, value in values.items() if value}


def _tool(mover: Mapping[str, str], reader: Reader) -> Table:
    """Use the link that ROS calls tool0 as the tool's."""
    if "tool0" in mover:
        return {"tool": {"link": mover["tool0"]}}
    reader.notes.append(("tool", "no link is named tool0: the frame of the last moving link is taken for the tool's"))
    return {}


def label(tag: str, name: str) -> str:
    """Name an element in a message."""
    return f"{tag} {name if len(name) <= 60 else name[:57] + '…'!r}"


@dataclass(frozen=True)
class Span:
    """Byte range of a link's inertial in the file, or of the place for one."""

    start: int
    end: int
    phi: FloatArray | None  # what stands there now, about the link's frame
    form: str = "{}"  # what is written there


def filled_urdf(text: str, robot: Robot, chi: FloatArray) -> tuple[str, tuple[str, ...]]:
    """Write the parameters chi of a URDF's robot into its moving links and joints, and list what has no place there.

    <inertial> gets the bodies, <dynamics> the friction of joints. Links on fixed and held joints keep their inertials,
    which are subtracted from the link that carries them, and held joints stay joints.
    """
    data = text.encode("utf-8")
    found = read_links(data)
    edits = []
    params = layout(robot)
    for j, joint in enumerate(robot.mechanism.link_names):
        if joint not in found.children:
            raise ExcitorError(f"the URDF has no joint {joint!r}; it is not the file that this robot was read from")
        own = found.children[joint]
        phi = chi[params.link(j)] - carried(robot, j, own, found)
        if phi[9] <= 0.0:
            raise ExcitorError(
                f"link {own!r} would weigh {phi[9]:.3g} kg without the links fixed to it; "
                "correct the inertials of those in the URDF"
            )
        span = found.spans[own]
        edits.append((span.start, span.end, span.form.format(inertial(phi)).encode("utf-8")))
    friction, left_out = joint_friction(robot, chi)
    for joint, attributes in friction.items():
        start, end = found.dynamics[joint]
        edits.append((start, end, _dynamics(data[start:end], attributes)))
    for start, end, new in sorted(edits, key=lambda edit: -edit[0]):
        data = data[:start] + new + data[end:]
    return data.decode("utf-8"), left_out


def joint_friction(robot: Robot, chi: FloatArray) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Collect each joint's damping and friction as URDF has them, and what of the drives it cannot represent."""
    params = layout(robot)
    joints: dict[str, dict[str, float]] = {}
    left_out = [params.names[k] for k in dict.fromkeys(params.rotor_columns) if chi[k]]
    kinds = {"linear": "damping", "sign": "friction"}  # by the shape of a term
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        kind, moved = kinds.get(friction_model(term).shape), np.flatnonzero(term.senses)
        if kind is None or len(moved) > 1 or chi[column] < 0.0 or not np.array_equal(term.senses, term.acts):
            left_out += [term.parameter] if chi[column] else []
            continue
        own = joints.setdefault(robot.joint_names[int(moved[0])], {})
        own[kind] = own.get(kind, 0.0) + float(chi[column]) * abs(float(term.senses[moved[0]])) ** (
            2 if kind == "damping" else 1
        )
    return joints, tuple(dict.fromkeys(left_out))


def _dynamics(tag: bytes, attributes: Mapping[str, float]) -> bytes:
    """Write the attributes into a <dynamics> tag, which is empty where there was none."""
    tag = tag or b"<dynamics/>"
    for key in sorted(attributes, reverse=True):  # the last that is put in stands first
        written = f' {key}="{attributes[key]!r}"'.encode()
        tag, count = re.subn(rb"\s%s\s*=\s*(\"[^\"]*\"|'[^']*')" % key.encode(), written, tag, count=1)
        if not count:
            tag = tag.replace(b"<dynamics", b"<dynamics" + written, 1)
    return tag


def carried(robot: Robot, j: int, own: str, found: "_Reader") -> FloatArray:
    """Sum the parameters of links that fixed or held joints carry on link j, in its frame, (10,)."""
    places = {found.children.get(f.name, f.name): f.T_link_frame for f in robot.frames if f.link == j}
    bodies = [(found.spans[link].phi, T) for link, T in places.items() if link != own and link in found.spans]
    return sum((change_frame(phi, T) for phi, T in bodies if phi is not None), np.zeros(10))


def inertial(phi: FloatArray) -> str:
    """Write an inertial: mass, centre of mass, inertia about it in the link's axes."""
    mass, center, inertia = about_center_of_mass(phi)
    xyz = " ".join(repr(float(x)) for x in center)
    names = ("xx", "xy", "xz", "yy", "yz", "zz")
    entries = " ".join(f'i{name}="{float(inertia["xyz".index(name[0]), "xyz".index(name[1])])!r}"' for name in names)
    return f'<inertial><origin xyz="{xyz}" rpy="0 0 0"/><mass value="{mass!r}"/><inertia {entries}/></inertial>'


def read_links(data: bytes) -> "_Reader":
    """Find each joint's child link and <dynamics>, and each link's inertial."""
    reader = _Reader(data)
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: reader.start(tag, attributes, parser.CurrentByteIndex)
    parser.EndElementHandler = lambda tag: reader.end(tag, parser.CurrentByteIndex)
    parser.Parse(data, True)
    return reader


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.path: list[str] = []
        self.children: dict[str, str] = {}
        self.spans: dict[str, Span] = {}
        self.dynamics: dict[str, tuple[int, int]] = {}  # of each joint: its tag, or the place for one
        self.name = ""
        self.opened = 0
        self.inertial_start = 0
        self.numbers: dict[str, dict[str, str]] = {}

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        self.path.append(tag)
        if self.path == ["robot", "joint"] or self.path == ["robot", "link"]:
            self.name = attributes.get("name", "")
            self.opened = at
        elif self.path == ["robot", "joint", "child"]:
            self.children[self.name] = attributes.get("link", "")
        elif self.path == ["robot", "joint", "dynamics"]:
            self.dynamics[self.name] = (at, at + len(_TAG.match(self.data, at)[0]))  # type: ignore[index]
        elif self.path == ["robot", "link", "inertial"]:
            self.inertial_start = at
            self.numbers = {}
        elif self.path[:3] == ["robot", "link", "inertial"]:
            self.numbers[tag] = attributes

    def end(self, tag: str, at: int) -> None:
        if self.path == ["robot", "link", "inertial"]:
            close = self.data.index(b">", at) + 1
            self.spans[self.name] = Span(self.inertial_start, close, self._body())
        elif self.path == ["robot", "link"] and self.name not in self.spans:
            self.spans[self.name] = self._empty()
        elif self.path == ["robot", "joint"]:
            self.dynamics.setdefault(self.name, (at, at))
        self.path.pop()

    def _empty(self) -> Span:
        """Find the place for the inertial of a link without one: after its opening tag, which may be self-closing."""
        opening = self.data.index(b">", self.opened) + 1
        if self.data[opening - 2 : opening] == b"/>":
            return Span(opening - 2, opening, None, ">{}</link>")
        return Span(opening, opening, None)

    def _body(self) -> FloatArray | None:
        def numbers(tag: str, key: str, default: str) -> list[float]:
            return [float(x) for x in self.numbers.get(tag, {}).get(key, default).split()]

        mass = numbers("mass", "value", "0")[0]
        roll, pitch, yaw = numbers("origin", "rpy", "0 0 0")
        from excitor.robots.inertia import roll_pitch_yaw

        R = roll_pitch_yaw(roll, pitch, yaw)[:3, :3]
        xx, xy, xz, yy, yz, zz = (numbers("inertia", f"i{k}", "0")[0] for k in ("xx", "xy", "xz", "yy", "yz", "zz"))
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
        return from_center_of_mass(mass, np.array(numbers("origin", "xyz", "0 0 0")), inertia)
