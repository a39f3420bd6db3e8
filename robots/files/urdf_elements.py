"""The elements of a URDF: parsed from XML that can hold no surprise, their names and numbers read.

Nothing that XML could fetch or expand is accepted; what is wrong is noted with the element it stands in.
"""

from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.schema import LARGEST
from excitor.robots.geometry import roll_pitch_yaw, translation

Note = tuple[str, str]  # where, and a sentence

_DEEPEST = 40
_MOST_NUMBERS = 3


def parse_xml(text: str, source: str | Path) -> Element:
    """Parse XML without document types, entities or deep nesting: nothing to expand, fetch or overflow."""
    tree, parser = TreeBuilder(), expat.ParserCreate()
    depth = 0

    def refuse(sentence: str) -> InvalidRobot:
        return InvalidRobot(source, [f"line {parser.CurrentLineNumber}: {sentence}"])

    def declared(_version: str, encoding: str | None, _standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii", "ascii") and not text.isascii():
            raise refuse(f"declares the encoding {encoding[:40]!r}, but the file is UTF-8; save it as what it says")

    def document_type(*_: object) -> None:
        raise refuse("declares a document type or entities, which a robot does not need; remove <!DOCTYPE …>")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise refuse(f"elements nest deeper than {_DEEPEST}; a URDF needs five levels")
        tree.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        tree.end(tag)

    parser.XmlDeclHandler = declared
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = document_type
    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise InvalidRobot(source, [f"is not XML: {error}"]) from None
    except UnicodeError as error:
        raise InvalidRobot(source, [f"is not text that XML can hold: {error}"]) from None
    return tree.close()


@dataclass(frozen=True)
class Reader:
    """A URDF being read: what is wrong, and what was changed or left out, in sentences."""

    source: str | Path
    problems: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def refuse(self, where: str, sentence: str) -> None:
        """Note what makes the file unusable."""
        self.problems.append(f"{where}: {sentence}")

    def stop_if_refused(self) -> None:
        """Tell all that is wrong so far, if anything is."""
        if self.problems:
            raise InvalidRobot(self.source, self.problems)

    def named(self, root: Element, tag: str) -> list[Element]:
        """Collect the elements of a kind; every one needs a name of its own."""
        elements = root.findall(tag)
        names = [element.get("name", "") for element in elements]
        seen: set[str] = set()
        for k, name in enumerate(names):
            if not name:
                self.refuse(f"<{tag}> number {k + 1}", "has no name")
            elif name in seen:
                self.refuse(label(tag, name), "is there more than once; every one needs a name of its own")
            seen.add(name)
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


def label(tag: str, name: str) -> str:
    """Name an element in a message."""
    return f"{tag} {name if len(name) <= 60 else name[:57] + '…'!r}"
