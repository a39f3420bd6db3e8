"""A robot's own URDF with its inertials filled in, and everything else as it was, to the byte."""

from dataclasses import dataclass
from xml.parsers import expat

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import about_center_of_mass, change_frame, from_center_of_mass
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot


@dataclass(frozen=True)
class Span:
    """Where a link's inertial stands in the file's bytes, or where it would."""

    start: int
    end: int
    phi: FloatArray | None  # what stands there now, about the link's frame
    form: str = "{}"  # what is written there


def filled_urdf(text: str, robot: Robot, chi: FloatArray) -> str:
    """Write the parameters chi of a URDF's robot into the <inertial> of its moving links.

    What links on fixed joints weigh is left with them, and taken off the link that carries them.
    """
    data = text.encode("utf-8")
    children, spans = read_links(data)
    edits = []
    params = layout(robot)
    for j, joint in enumerate(robot.mechanism.link_names):
        if joint not in children:
            raise ExcitorError(f"the URDF has no joint {joint!r}; it is not the file that this robot was read from")
        phi = chi[params.link(j)] - carried(robot, j, children[joint], spans)
        if phi[9] <= 0.0:
            raise ExcitorError(
                f"link {children[joint]!r} would weigh {phi[9]:.3g} kg without the links fixed to it; "
                "correct the inertials of those in the URDF"
            )
        span = spans[children[joint]]
        edits.append((span, span.form.format(inertial(phi))))
    for span, new in sorted(edits, key=lambda edit: -edit[0].start):
        data = data[: span.start] + new.encode("utf-8") + data[span.end :]
    return data.decode("utf-8")


def carried(robot: Robot, j: int, own: str, spans: dict[str, Span]) -> FloatArray:
    """Add up what links fixed to link j weigh, in its frame."""
    total = np.zeros(10)
    for frame in robot.frames:
        span = spans.get(frame.name)
        if frame.link == j and frame.name != own and span is not None and span.phi is not None:
            total += change_frame(span.phi, frame.T_link_frame)
    return total


def inertial(phi: FloatArray) -> str:
    """Spell an inertial: mass, centre of mass, inertia about it in the link's axes."""
    mass, center, inertia = about_center_of_mass(phi)
    xyz = " ".join(repr(float(x)) for x in center)
    names = ("xx", "xy", "xz", "yy", "yz", "zz")
    entries = " ".join(f'i{name}="{float(inertia["xyz".index(name[0]), "xyz".index(name[1])])!r}"' for name in names)
    return f'<inertial><origin xyz="{xyz}" rpy="0 0 0"/><mass value="{mass!r}"/><inertia {entries}/></inertial>'


def read_links(data: bytes) -> tuple[dict[str, str], dict[str, Span]]:
    """Find each joint's child link, and each link's inertial."""
    reader = _Reader(data)
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: reader.start(tag, attributes, parser.CurrentByteIndex)
    parser.EndElementHandler = lambda tag: reader.end(tag, parser.CurrentByteIndex)
    parser.Parse(data, True)
    return reader.children, reader.spans


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.path: list[str] = []
        self.children: dict[str, str] = {}
        self.spans: dict[str, Span] = {}
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
        self.path.pop()

    def _empty(self) -> Span:
        """Place the inertial of a link that has none: right behind its opening tag, which may have to be opened."""
        opening = self.data.index(b">", self.opened) + 1
        if self.data[opening - 2 : opening] == b"/>":
            return Span(opening - 2, opening, None, ">{}</link>")
        return Span(opening, opening, None)

    def _body(self) -> FloatArray | None:
        def numbers(tag: str, key: str, default: str) -> list[float]:
            return [float(x) for x in self.numbers.get(tag, {}).get(key, default).split()]

        mass = numbers("mass", "value", "0")[0]
        roll, pitch, yaw = numbers("origin", "rpy", "0 0 0")
        from excitor.robots.geometry import roll_pitch_yaw

        R = roll_pitch_yaw(roll, pitch, yaw)[:3, :3]
        xx, xy, xz, yy, yz, zz = (numbers("inertia", f"i{k}", "0")[0] for k in ("xx", "xy", "xz", "yy", "yz", "zz"))
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
        return from_center_of_mass(mass, np.array(numbers("origin", "xyz", "0 0 0")), inertia)
