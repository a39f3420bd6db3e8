"""Where do bodies, joints and inertials stand in a MuJoCo file's bytes, and where in space? Read, nothing of it run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

import numpy as np

from excitor.experiments.exporting.mjcf_poses import Compiler, numbers, pose
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError

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
    """A joint, with what its default classes say."""

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
class ReadMjcf:
    """A MuJoCo file, as far as an identified model concerns it."""

    data: bytes
    compiler: Compiler
    bodies: tuple[Body, ...]
    end: int  # where </mujoco> begins


def read_mjcf(data: bytes, where: str) -> ReadMjcf:
    """Read a file's bytes; ExcitorError where it is none, or leaves to other files where its bodies are."""
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
    """Set attributes in a start tag's bytes, and leave all else as it is."""
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
        self.inertial_says: Mapping[str, str] = {}
        self.close = 0
        self.found = False

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        self.path.append(tag)
        if len(self.path) == 1:
            self.found = tag == "mujoco"
        elif tag in _UNREAD:
            raise ExcitorError(
                f"{self.where}: uses <{tag}>, so that it does not tell alone where its bodies are; compile it, save it "
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
            self.inertial_start, self.inertial_says = at, attributes
        elif around >= 0 and tag == "geom":
            self.geoms.append((around, self.bodies[around].classes, attributes))

    def end(self, tag: str, at: int) -> None:
        inside = self.path[1:2] == ["worldbody"]
        if inside and tag == "body":
            self.open.pop()
        elif inside and tag == "inertial" and self.open[-1] >= 0:
            close = self._behind(at) if self.data[at : at + 2] == b"</" else at  # <inertial/> ends where it is told
            self.bodies[self.open[-1]].inertial = (self.inertial_start, close, self.inertial_says)
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
        """Collect what default classes say, the outermost first."""
        chain = [name]
        while chain[-1] in self.parents and len(chain) < 1000:
            chain.append(self.parents[chain[-1]])
        for one in reversed(chain):
            yield from self.defaults.get((one, element), {}).items()
