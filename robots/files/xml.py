"""XML of robot and mesh files, parsed without anything that expands, fetches or overflows."""

from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from excitor.robots.errors import InvalidRobot

_DEEPEST = 40


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
            raise refuse(f"elements nest deeper than {_DEEPEST}; a robot needs five levels, a mesh ten")
        tree.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        tree.end(tag)

    parser.XmlDeclHandler = declared
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = document_type
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.buffer_text = tree.data, True
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise InvalidRobot(source, [f"is not XML: {error}"]) from None
    except UnicodeError as error:
        raise InvalidRobot(source, [f"is not text that XML can hold: {error}"]) from None
    return tree.close()
