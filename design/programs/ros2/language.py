"""ROS 2 messages written as YAML: text -> mappings, lists, numbers and strings, nothing else.

ruamel.yaml parses the text into events; its constructors are not used. Plain scalars are what PyYAML, which
`ros2 topic pub` reads with, takes them for: `1e-5` is a string there (a number to ruamel.yaml), `0,5` two values.
Tags, anchors, aliases, merge keys, block scalars, directives and several documents are refused, not skipped.
"""

import re
from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, Event, MappingStartEvent, NodeEvent, ScalarEvent

from excitor.design.programs.target import ProgramError

DEEPEST = 20

_TAB = re.compile(r"^ *\t[ \t]*[^\s#]", re.MULTILINE)
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_ODD_NUMBER = re.compile(  # what YAML 1.1 reads as octal, hexadecimal, binary, base 60, infinite or not a number
    r"[-+]?(?:0[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|[0-9][0-9_]*_[0-9_.]*"
    r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
)
_ROW = r"\[((?:[-+]?[0-9]+\.[0-9]+(?:, [-+]?[0-9]+\.[0-9]+)*)?)\]\n"
_COUNT = r"(0|[1-9][0-9]{0,9})"
_ROWS = ("positions", "velocities", "accelerations", "effort")
_POINT = re.compile(  # a trajectory's point as it is emitted, where ruamel.yaml makes forty events of it
    "^- " + "  ".join(f"{key}: {_ROW}" for key in _ROWS) + rf"  time_from_start: {{sec: {_COUNT}, nanosec: {_COUNT}}}$",
    re.MULTILINE,
)
_MARK = "a point that was read"
_WORDS: dict[str, object] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
for _word, _truth in (("true", True), ("false", False), ("yes", True), ("no", False), ("on", True), ("off", False)):
    _WORDS |= dict.fromkeys((_word, _word.capitalize(), _word.upper()), _truth)


def read_yaml(file: str, text: str) -> object:
    """Read one document; ProgramError names the line of what is not accepted."""
    for pattern, sentence in (
        (_TAB, "is indented by a tab; YAML wants spaces"),
        (_DIRECTIVE, "is a YAML directive, which a message has no use for"),
    ):
        if found := pattern.search(text):
            raise ProgramError(file, text.count("\n", 0, found.start()) + 1, sentence)
    points: list[object] = []

    def aside(found: re.Match[str]) -> str:
        *rows, sec, nanosec = found.groups()
        point: dict[str, object] = {key: _numbers(row) for key, row in zip(_ROWS, rows, strict=True)}
        points.append(point | {"time_from_start": {"sec": int(sec), "nanosec": int(nanosec)}})
        return f"- {_MARK}" + "\n" * found.group().count("\n")

    marked = text if _MARK in text else _POINT.sub(aside, text)
    document = _parsed(file, marked)
    left = iter(points)
    for items in document.values() if points and isinstance(document, dict) else ():
        if isinstance(items, list):
            items[:] = [next(left) if item == _MARK else item for item in items]
    return _parsed(file, text) if next(left, None) else document  # a point stood inside of something else


def _numbers(row: str) -> list[float]:
    return [float(number) for number in row.split(", ")] if row else []


def _parsed(file: str, text: str) -> object:
    parser = YAML(typ="safe", pure=True)
    parser.version = (1, 1)
    try:
        events = parser.parse(text)
        return _document(file, (event for event in events if isinstance(event, NodeEvent | CollectionEndEvent)))
    except (YAMLError, ValueError, OverflowError) as error:  # the last two: an escape beyond Unicode
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error).partition("\n")[0]
        problem = problem.replace("','", "a comma").replace("']'", "]").replace("'}'", "}")
        raise ProgramError(file, mark and mark.line + 1, f"is not YAML: {problem[:200]}") from error


def _document(file: str, events: Iterator[Event]) -> object:
    first = next(events, None)
    if first is None:
        raise ProgramError(file, None, "is empty")
    value = _value(file, events, first, 0)
    for event in events:
        if not isinstance(event, ScalarEvent) or event.value or event.style:  # a last `---` begins an empty document
            raise ProgramError(file, _line(event), "begins a second document; a message is one")
    return value


def _value(file: str, events: Iterator[Event], event: Event, depth: int) -> object:
    """Build the value that an event begins; take its events up to where it ends."""
    style = getattr(event, "style", None)
    if getattr(event, "anchor", None) or getattr(event, "tag", None) or style in ("|", ">"):
        raise ProgramError(file, _line(event), "has one of tags, anchors, aliases and block text, which are not read")
    if isinstance(event, ScalarEvent):
        return event.value if style else _scalar(file, _line(event), event.value)
    if depth > DEEPEST:
        raise ProgramError(file, _line(event), f"is nested deeper than {DEEPEST} levels")
    if isinstance(event, MappingStartEvent):
        return _mapping(file, events, depth)
    items: list[object] = []
    while not isinstance(event := next(events), CollectionEndEvent):
        items.append(_value(file, events, event, depth + 1))
    return items


def _mapping(file: str, events: Iterator[Event], depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    while not isinstance(event := next(events), CollectionEndEvent):
        key = _value(file, events, event, depth + 1)
        if not isinstance(key, str) or key == "<<":
            raise ProgramError(file, _line(event), f"expected `key: value`, found {key!r:.40}")
        if key in found:
            raise ProgramError(file, _line(event), f"states {key!r:.40} a second time")
        found[key] = _value(file, events, next(events), depth + 1)
    return found


def _scalar(file: str, number: int, text: str) -> object:
    """Read a plain scalar as YAML 1.1 does."""
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INTEGER.fullmatch(text):
        if len(text) > 20:
            raise ProgramError(file, number, f"has an integer of {len(text)} digits")
        return int(text)
    if text in _WORDS:
        return _WORDS[text]
    if _ODD_NUMBER.fullmatch(text):
        raise ProgramError(file, number, f"has {text[:30]!r}, which YAML takes for another number than it seems")
    return text


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1
