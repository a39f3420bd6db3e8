"""MuJoCo files of a robot: a written MJCF of its chain, or a user's own file with the identified values filled in.

Filling replaces attributes of joints and bodies, and leaves all other bytes unchanged. Drive trains are represented by
damping, friction loss and armature of joints, and of tendons where joints are coupled.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from xml.parsers import expat

import numpy as np

from excitor.experiments.export.load import quaternion
from excitor.robots import inertia as rigid
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.files.toml import moved
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, HeldJoint, Robot, RotorInertia
from excitor.robots.tree import Tree

_SAME = 1e-9


def written_mjcf(robot: Robot, chi: FloatArray) -> tuple[str, tuple[str, ...]]:
    """Write an open chain as MJCF, positions of joints as in the robot's file; return also what is left out."""
    tree = tree_of(robot)
    check_bodies(robot, chi)
    drive = drive_of(robot, chi)
    lines = [
        f"<!-- Written by Excitor {version('excitor')}: inertias and drives; shapes and limits are yours. -->",
        f"<mujoco model={quoted(robot.name)}>",
        '  <compiler angle="radian" inertiafromgeom="false"/>',
        f'  <option gravity="{_numbers(tree.gravity)}"/>',
        "  <worldbody>",
        *bodies(tree, [chi[layout(robot).link(j)] for j in range(tree.n_links)], np.zeros(tree.n_joints), drive),
        "  </worldbody>",
        *tendon_section(robot, drive, {name: name for name in robot.joint_names}),
        "</mujoco>",
    ]
    return "\n".join(lines) + "\n", tuple(drive.left_out)


def tree_of(robot: Robot) -> Tree:
    """Return the open chain that MuJoCo's bodies form; ExcitorError where they do not."""
    tree = robot.mechanism
    if not isinstance(tree, Tree):
        raise ExcitorError(f"{robot.name}: is a closed chain, which is not written as MJCF")
    if tree.coupling.shape[0] != tree.coupling.shape[1] or not np.allclose(tree.coupling, np.eye(tree.n_links)):
        raise ExcitorError(f"{robot.name}: its joints move other links than their own, which is not written as MJCF")
    return tree


def check_bodies(robot: Robot, chi: FloatArray) -> None:
    """Refuse bodies that cannot exist."""
    for j, name in enumerate(robot.mechanism.link_names):
        if not rigid.check_consistency(chi[layout(robot).link(j)]).holds:
            raise ExcitorError(f"link {name}: no body can have its identified parameters, so it is not exported")


@dataclass(frozen=True, slots=True)
class Drive:
    """Attributes of joints, of tendons over several joints, and elements that neither can represent."""

    joints: dict[str, dict[str, float]]
    tendons: dict[tuple[float, ...], dict[str, float]]  # by their coefficients, one a joint
    left_out: list[str]


def tendon_section(robot: Robot, drive: Drive, joints: Mapping[str, str]) -> list[str]:
    """Write the section of coupled drives; nothing where there are none."""
    lines = list(tendon_lines(robot, drive, joints))
    return ["  <tendon>", *lines, "  </tendon>"] if lines else []


def bodies(tree: Tree, phi: Sequence[FloatArray], at: FloatArray, drive: Drive) -> Iterator[str]:
    """Write bodies inside their parents, joints at a position; body frames are the robot's link frames."""
    poses, screws = tree.poses(at[None])[0], tree.jacobians(at[None])[0]

    def written(j: int, depth: int) -> Iterator[str]:
        indent = "  " * depth
        parent = int(tree.parents[j])
        T = poses[j] if parent < 0 else rigid.inverse(poses[parent]) @ poses[j]
        pos, quat = _numbers(T[:3, 3]), _numbers(quaternion(T[:3, :3]))
        name = tree.link_names[j]
        yield f'{indent}<body name={quoted(name)} pos="{pos}" quat="{quat}">'
        yield f"{indent}  {inertial(phi[j])}"
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


_UNREAD = ("include", "frame", "replicate", "attach", "composite", "flexcomp")
_ATTRIBUTE = re.compile(rb"""([\w:.-]+)\s*=\s*("[^"]*"|'[^']*')""")


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag in the file's bytes."""

    start: int
    end: int  # behind its >
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint, with the attributes of its default classes."""

    name: str
    tag: Tag
    attributes: Mapping[str, str]


@dataclass(slots=True)
class Body:
    """A body of the file."""

    name: str
    parent: int  # -1: the world
    tag: Tag
    classes: str  # the default class of what it holds
    joints: list[Joint] = field(default_factory=list)
    inertial: tuple[int, int, Mapping[str, str]] | None = None  # where it stands, and what it says
    geoms: int = 0  # that could weigh something
    T_world_body: FloatArray = field(default_factory=lambda: np.eye(4))


@dataclass(frozen=True, slots=True)
class Compiler:
    """Units and conventions of a file's numbers."""

    unit: float  # rad in one unit of angle
    sequence: str  # of Euler angles: lower case turns along, upper case about fixed axes
    inertia_from_geoms: str  # "true", "false", "auto"

    @classmethod
    def of(cls, attributes: Mapping[str, str], where: str) -> "Compiler":
        """Read the <compiler>'s attributes."""
        angle = attributes.get("angle", "degree")
        if attributes.get("coordinate", "local") != "local":
            raise ExcitorError(f"{where}: gives global coordinates; save it with a newer MuJoCo first")
        sequence = attributes.get("eulerseq", "xyz")
        if len(sequence) != 3 or set(sequence.lower()) - set("xyz"):
            raise ExcitorError(f"{where}: eulerseq is {sequence[:20]!r}, expected three of xyzXYZ")
        unit = 1.0 if angle == "radian" else np.pi / 180.0
        return cls(unit, sequence, attributes.get("inertiafromgeom", "auto"))


@dataclass(frozen=True, slots=True)
class ReadMjcf:
    """A MuJoCo file, as far as an identified model concerns it."""

    data: bytes
    compiler: Compiler
    bodies: tuple[Body, ...]
    end: int  # where </mujoco> begins


def read_mjcf(data: bytes, where: str) -> ReadMjcf:
    """Read a file's bytes; ExcitorError if it is no MuJoCo file, or has bodies in other files."""
    reader = _Reader(data, where)
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: reader.start(tag, attributes, parser.CurrentByteIndex)
    parser.EndElementHandler = lambda tag: reader.end(tag, parser.CurrentByteIndex)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ExcitorError(f"{where}: is not XML: {error}") from None
    if not reader.found:
        raise ExcitorError(f"{where}: is no MuJoCo file: its first element is not <mujoco>")
    return reader.whole()


def with_attributes(tag: bytes, values: Mapping[str, str]) -> bytes:
    """Set attributes in a start tag's bytes, and leave all others unchanged."""
    for name, value in values.items():
        new = f'{name}="{value}"'.encode()
        old = next((m for m in _ATTRIBUTE.finditer(tag) if m[1] == name.encode()), None)
        if old is not None:
            tag = tag[: old.start()] + new + tag[old.end() :]
        else:
            close = len(tag) - (2 if tag.endswith(b"/>") else 1)
            body = tag[:close].rstrip()
            tag = body + b" " + new + tag[len(body) :]
    return tag


class _Reader:
    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where = data, where
        self.path: list[str] = []
        self.open: list[int] = [-1]  # bodies around what is read
        self.bodies: list[Body] = []
        self.joints: list[tuple[int, str, Tag]] = []  # the body, the class, the tag
        self.geoms: list[tuple[int, str, Mapping[str, str]]] = []
        self.classes: list[str] = []  # defaults around what is read
        self.parents: dict[str, str] = {}  # of default classes
        self.defaults: dict[tuple[str, str], dict[str, str]] = {}  # (class, element) -> attributes
        self.compiler: dict[str, str] = {}
        self.inertial_start = 0
        self.inertial_attributes: Mapping[str, str] = {}
        self.close = 0
        self.found = False

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        self.path.append(tag)
        if len(self.path) == 1:
            self.found = tag == "mujoco"
        elif tag in _UNREAD:
            raise ExcitorError(
                f"{self.where}: uses <{tag}>, so that it does not define all its bodies itself; compile it, save it "
                "as one file (mj_saveLastXML) and fill that"
            )
        elif self.path[1] == "compiler":
            self.compiler |= attributes
        elif self.path[1] == "default":
            self._default(tag, attributes)
        elif self.path[1] == "worldbody":
            self._element(tag, attributes, at)

    def _default(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "default":
            name = attributes.get("class", "main")
            if self.classes:
                self.parents[name] = self.classes[-1]
            self.classes.append(name)
        elif self.classes:
            self.defaults.setdefault((self.classes[-1], tag), {}).update(attributes)

    def _element(self, tag: str, attributes: dict[str, str], at: int) -> None:
        around = self.open[-1]
        if tag == "body":
            inherited = "main" if around < 0 else self.bodies[around].classes
            own = attributes.get("childclass", inherited)
            body = Body(attributes.get("name", ""), around, Tag(at, self._behind(at), attributes), own)
            self.bodies.append(body)
            self.open.append(len(self.bodies) - 1)
        elif around >= 0 and tag in ("joint", "freejoint"):
            given = {**attributes, "type": "free"} if tag == "freejoint" else attributes
            self.joints.append((around, self.bodies[around].classes, Tag(at, self._behind(at), given)))
        elif around >= 0 and tag == "inertial":
            self.inertial_start, self.inertial_attributes = at, attributes
        elif around >= 0 and tag == "geom":
            self.geoms.append((around, self.bodies[around].classes, attributes))

    def end(self, tag: str, at: int) -> None:
        inside = self.path[1:2] == ["worldbody"]
        if inside and tag == "body":
            self.open.pop()
        elif inside and tag == "inertial" and self.open[-1] >= 0:
            close = self._behind(at) if self.data[at : at + 2] == b"</" else at  # <inertial/> ends at its own tag
            self.bodies[self.open[-1]].inertial = (self.inertial_start, close, self.inertial_attributes)
        elif self.path[1:2] == ["default"] and tag == "default":
            self.classes.pop()
        elif len(self.path) == 1:
            self.close = at
        self.path.pop()

    def _behind(self, at: int) -> int:
        """Find the end of a tag; a > may stand in its attributes."""
        quote = 0
        for k in range(at, len(self.data)):
            byte = self.data[k]
            if quote:
                quote = 0 if byte == quote else quote
            elif byte in b"\"'":
                quote = byte
            elif byte == ord(">"):
                return k + 1
        return len(self.data)

    def whole(self) -> ReadMjcf:
        compiler = Compiler.of(self.compiler, self.where)
        for body in self.bodies:
            parent = np.eye(4) if body.parent < 0 else self.bodies[body.parent].T_world_body
            body.T_world_body = parent @ pose(body.tag.attributes, compiler, self.where)
        for at, around, tag in self.joints:
            attributes = dict(self._defaults("joint", tag.attributes.get("class", around))) | dict(tag.attributes)
            self.bodies[at].joints.append(Joint(attributes.get("name", ""), tag, attributes))
        for at, around, given in self.geoms:
            attributes = dict(self._defaults("geom", given.get("class", around))) | dict(given)
            mass = numbers(attributes.get("mass", attributes.get("density", "1")), 1, self.where)[0]
            self.bodies[at].geoms += mass != 0.0
        return ReadMjcf(self.data, compiler, tuple(self.bodies), self.close)

    def _defaults(self, element: str, name: str) -> Iterator[tuple[str, str]]:
        """Collect the attributes of default classes, the outermost first."""
        chain = [name]
        while chain[-1] in self.parents and len(chain) < 1000:
            chain.append(self.parents[chain[-1]])
        for one in reversed(chain):
            yield from self.defaults.get((one, element), {}).items()


_NEAR = 1e-4  # m, and rad: files give five digits or so
_SLIDES = {"hinge": False, "slide": True}


@dataclass(frozen=True, slots=True)
class FilledModel:
    """A filled file, and the parameters that it cannot represent."""

    content: bytes
    left_out: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Pair:
    """A link of the robot, and the body that is it."""

    link: int
    body: int
    joint: Joint


def filled_mjcf(data: bytes, robot: Robot, chi: FloatArray, where: str) -> FilledModel:
    """Write the parameters chi into the joints and moving bodies of a robot's MuJoCo file."""
    tree = tree_of(robot)
    check_bodies(robot, chi)
    file = read_mjcf(data, where)
    if file.compiler.inertia_from_geoms == "true":
        raise ExcitorError(f'{where}: its compiler takes inertias from geoms only; set inertiafromgeom="auto" first')
    _hold(file, robot.held, where)
    pairs = _pairs(file, robot, where)
    T_world_links = _placed(file, tree, pairs, where)
    drive = drive_of(robot, chi)
    moving = {pair.body for pair in pairs}
    edits: list[tuple[int, int, bytes]] = []
    for pair in pairs:
        tag = pair.joint.tag
        values = joint_attributes(drive.joints[tree.joint_names[pair.link]])
        edits.append((tag.start, tag.end, with_attributes(data[tag.start : tag.end], values)))
        body = file.bodies[pair.body]
        T_body_link = rigid.inverse(body.T_world_body) @ T_world_links[pair.link]
        phi = rigid.change_frame(chi[layout(robot).link(pair.link)], T_body_link) - _carried(
            file, pair.body, moving, where
        )
        if not rigid.check_consistency(phi).holds:
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
    return FilledModel(data, tuple(drive.left_out))


def _inertial_edit(data: bytes, body: Body, new: str) -> tuple[int, int, bytes]:
    """Replace a body's inertial, or put one right behind its opening tag, which may have to be opened."""
    if body.inertial is not None:
        return body.inertial[0], body.inertial[1], new.encode()
    if data[body.tag.end - 2 : body.tag.end] == b"/>":
        return body.tag.end - 2, body.tag.end, f">{new}</body>".encode()
    return body.tag.end, body.tag.end, new.encode()


def _hold(file: ReadMjcf, held: Mapping[str, HeldJoint], where: str) -> None:
    """Move bodies to where the joints stand that the robot holds."""
    for body in file.bodies if held else ():
        T = np.eye(4) if body.parent < 0 else file.bodies[body.parent].T_world_body
        body.T_world_body = T @ pose(body.tag.attributes, file.compiler, where)
        for joint in body.joints:
            if joint.name in held:
                slides = _SLIDES.get(joint.attributes.get("type", "hinge"), False)
                ref = numbers(joint.attributes.get("ref", "0"), 1, where)[0] * (1.0 if slides else file.compiler.unit)
                axis = numbers(joint.attributes.get("axis", "0 0 1"), 3, where)
                at = rigid.translation(*numbers(joint.attributes.get("pos", "0 0 0"), 3, where))
                T = moved(axis / max(float(np.linalg.norm(axis)), 1e-12), held[joint.name].position - ref, slides)
                body.T_world_body = body.T_world_body @ at @ T @ rigid.inverse(at)


def _pairs(file: ReadMjcf, robot: Robot, where: str) -> list[_Pair]:
    """Find each link's body by its joint's name; bodies must be connected as the links are."""
    tree = tree_of(robot)
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
        if _SLIDES.get(kind) != bool(tree.sliding[pair.link]):
            motion = "slides" if tree.sliding[pair.link] else "turns"
            raise ExcitorError(f"{where}: joint {name!r} is of type {kind[:20]}, but the robot's {motion}")
        above = body.parent
        while above >= 0 and above not in moving:
            other = next((joint.name for joint in file.bodies[above].joints if joint.name not in robot.held), None)
            if other is not None:
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
    poses, jacobians = tree.poses(q[None])[0], tree.jacobians(q[None])[0]
    screws = [np.stack([J[:3, j], J[3:, j]], axis=1) for j, J in enumerate(jacobians)]  # columns: linear, angular
    best: tuple[float, str, FloatArray] = (np.inf, "", poses)
    for T in _bases(file, pairs):
        gaps = [_gap(file, tree, pair, T @ poses[pair.link], T[:3, :3] @ screws[pair.link], where) for pair in pairs]
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
    """List frames that could be the robot's base: the world, and bodies below the first moving one that stand still."""
    bases: list[FloatArray] = [np.eye(4)]
    above = file.bodies[pairs[0].body].parent
    while above >= 0:
        bases.append(file.bodies[above].T_world_body)
        above = file.bodies[above].parent
    return bases


def _gap(file: ReadMjcf, tree: Tree, pair: _Pair, T_world_link: FloatArray, screw: FloatArray, where: str) -> float:
    """Compute the distance of two axes: the angle between them, and for hinges that of the lines."""
    j, T = pair.link, file.bodies[pair.body].T_world_body
    own = numbers(pair.joint.attributes.get("axis", "0 0 1"), 3, where)
    axis = T[:3, :3] @ own / max(float(np.linalg.norm(own)), 1e-12)
    linear, angular = screw.T
    if tree.sliding[j]:
        return float(np.linalg.norm(np.cross(axis, linear)))
    point = T[:3, :3] @ numbers(pair.joint.attributes.get("pos", "0 0 0"), 3, where) + T[:3, 3]
    apart = point - (T_world_link[:3, 3] + np.cross(angular, linear))
    return float(max(np.linalg.norm(np.cross(axis, angular)), np.linalg.norm(np.cross(angular, apart))))


def _carried(file: ReadMjcf, k: int, moving: set[int], where: str) -> FloatArray:
    """Sum the parameters of bodies on a body that are no links of the robot, in its frame, as placed in the file."""
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
        total += rigid.change_frame(own, rigid.inverse(file.bodies[k].T_world_body) @ body.T_world_body)
    return total


def _stated(file: ReadMjcf, body: Body, where: str) -> FloatArray:
    if body.inertial is None:
        return np.zeros(10)
    attributes = body.inertial[2]
    T = pose(attributes, file.compiler, where)
    mass = float(numbers(attributes.get("mass", "0"), 1, where)[0])
    if "fullinertia" in attributes:
        xx, yy, zz, xy, xz, yz = numbers(attributes["fullinertia"], 6, where)
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    else:
        inertia = np.diag(numbers(attributes.get("diaginertia", "0 0 0"), 3, where))
    return rigid.from_center_of_mass(mass, T[:3, 3], T[:3, :3] @ inertia @ T[:3, :3].T)


ATTRIBUTES = ("damping", "frictionloss", "armature")
_KINDS = {"linear": "damping", "sign": "frictionloss"}  # by the shape of a friction term


def drive_of(robot: Robot, chi: FloatArray) -> Drive:
    """Collect the drive train's attributes; elements that do not balance power cannot be represented."""
    params = layout(robot)
    rotors, friction = robot.drive.rotors, robot.drive.friction
    total = Drive({name: dict.fromkeys(ATTRIBUTES, 0.0) for name in robot.joint_names}, {}, [])
    for rotor, column in zip(rotors, params.rotor_columns, strict=True):
        _add(robot, total, rotor, "armature", float(chi[column]))
    for term, column in zip(friction, params.friction_columns, strict=True):
        kind = _KINDS.get(friction_model(term).shape)
        if chi[column] == 0.0:
            continue
        if kind is None:
            total.left_out.append(f"{term.parameter} ({term.model} friction, {chi[column]:.4g})")
        else:
            _add(robot, total, term, kind, float(chi[column]))
    return total


def _add(robot: Robot, total: Drive, element: RotorInertia | FrictionTerm, kind: str, value: float) -> None:
    senses = element.senses
    if value < 0.0 or not np.allclose(senses, element.acts, rtol=1e-9, atol=0.0):
        why = "is below 0" if value < 0.0 else "does not act where it senses"
        total.left_out.append(f"{element.parameter} ({value:.4g} {why})")
        return
    moved = np.flatnonzero(senses)
    power = 1 if kind == "frictionloss" else 2  # dissipation F |s dq|, energy I (s dq)²/2, damping F (s dq)²
    if len(moved) == 1:
        own = total.joints[robot.joint_names[int(moved[0])]]
        own[kind] += value * abs(float(senses[moved[0]])) ** power
        return
    key = tuple(float(x) for x in senses)
    flipped = tuple(-x for x in key)
    key = flipped if flipped in total.tendons else key
    total.tendons.setdefault(key, dict.fromkeys(ATTRIBUTES, 0.0))[kind] += value


def joint_attributes(values: Mapping[str, float]) -> dict[str, str]:
    """Format the attributes of a joint or tendon."""
    return {name: repr(float(values[name])) for name in ATTRIBUTES}


def inertial(phi: FloatArray) -> str:
    """Format an inertial in its body's frame: fullinertia is xx yy zz xy xz yz about the centre of mass."""
    mass, center, inertia = rigid.about_center_of_mass(phi)
    pos = " ".join(repr(float(x)) for x in center)
    order = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    full = " ".join(repr(float(inertia[a, b])) for a, b in order)
    return f'<inertial pos="{pos}" mass="{mass!r}" fullinertia="{full}"/>'


def tendon_lines(robot: Robot, drive: Drive, joints: Mapping[str, str]) -> Iterator[str]:
    """Write fixed tendons for terms that several joints share; `joints` has their names in the file."""
    for k, (coefficients, values) in enumerate(drive.tendons.items(), start=1):
        attributes = " ".join(f'{name}="{value}"' for name, value in joint_attributes(values).items())
        yield f'    <fixed name="coupled_drive_{k}" {attributes}>'
        for name, coefficient in zip(robot.joint_names, coefficients, strict=True):
            if coefficient:
                yield f'      <joint joint={quoted(joints[name])} coef="{coefficient!r}"/>'
        yield "    </fixed>"


def quoted(text: str) -> str:
    """Quote an attribute's value."""
    from xml.sax.saxutils import quoteattr

    return quoteattr("".join(c if c.isprintable() else " " for c in text))


_TURNS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")


def numbers(text: str, count: int, where: str) -> FloatArray:
    """Read numbers of an attribute."""
    try:
        values = np.array([float(x) for x in text.split()])
    except ValueError:
        values = np.empty(0)
    if values.size != count or not np.isfinite(values).all():
        raise ExcitorError(f"{where}: has {text[:80]!r} where {count} numbers are expected")
    return values


def pose(attributes: Mapping[str, str], compiler: Compiler, where: str) -> FloatArray:
    """Read pos and the orientation in any of its forms: T_parent_body."""
    T = np.eye(4)
    given = [name for name in _TURNS if name in attributes]
    if len(given) > 1:
        raise ExcitorError(f"{where}: gives {' and '.join(given)} of one element; a turn is one of them")
    for name in given:
        T[:3, :3] = _turn(name, attributes[name], compiler, where)
    T[:3, 3] = numbers(attributes.get("pos", "0 0 0"), 3, where)
    return T


def _turn(name: str, text: str, compiler: Compiler, where: str) -> FloatArray:
    if name == "euler":
        R = np.eye(3)
        for letter, angle in zip(compiler.sequence, numbers(text, 3, where) * compiler.unit, strict=True):
            one = rigid.rotation(letter.lower(), float(angle))[:3, :3]
            R = R @ one if letter.islower() else one @ R
        return R
    values = numbers(text, {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3}[name], where)
    if name == "quat":
        return _of_quaternion(values / _length(values, name, where))
    if name == "axisangle":
        axis, angle = values[:3] / _length(values[:3], name, where), values[3] * compiler.unit
        return _of_quaternion(np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)]))
    if name == "xyaxes":
        x = values[:3] / _length(values[:3], name, where)
        y = values[3:] - (values[3:] @ x) * x
        y = y / _length(y, name, where)
        return np.column_stack([x, y, np.cross(x, y)])
    z = values / _length(values, name, where)  # the least turn that takes z there
    if z[2] < -1.0 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    half = np.array([1.0 + z[2], -z[1], z[0], 0.0])
    return _of_quaternion(half / np.linalg.norm(half))


def _of_quaternion(q: FloatArray) -> FloatArray:
    w, x, y, z = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _length(values: FloatArray, name: str, where: str) -> float:
    length = float(np.linalg.norm(values))
    if length < 1e-12:
        raise ExcitorError(f"{where}: a {name} is zero, which turns nowhere")
    return length
