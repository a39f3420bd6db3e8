"""Parser of the YAML subset of ROS 2 messages: text -> mappings, lists, numbers and strings, nothing else.

Scalars are read as YAML 1.1 (PyYAML, which `ros2 topic pub` reads with) does: `1e-5` is a string there, `010` is
eight, `0,5` two values. Tags, anchors, aliases, block scalars and several documents are refused, not skipped.
"""

import json
import re
from dataclasses import dataclass

from excitor.design.programs.target import ProgramError

DEEPEST = 20

_PLAIN_LIST = re.compile(r"\[[-+.0-9 ]*(?:, *[-+.0-9]+ *)*\]")  # numbers alone, read in one go
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_ODD_NUMBER = re.compile(  # of which YAML 1.1 makes octals, minutes, infinities, ...: never what was meant
    r"[-+]?(?:0[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|[0-9][0-9_]*_[0-9_.]*"
    r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
)
_WORDS: dict[str, object] = {"": None, "~": None}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"))
for _word, _truth in (("true", True), ("false", False), ("yes", True), ("no", False), ("on", True), ("off", False)):
    _WORDS |= dict.fromkeys((_word, _word.capitalize(), _word.upper()), _truth)
_KEY = re.compile(r"""(?P<key>[A-Za-z_][\w/.-]*|"[^"\\]*"|'[^']*')\s*:(?=\s|$)""")
_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>[\[\]{},])|(?P<colon>:)(?=[\s\[\]{},]|$)|(?P<double>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<single>'(?:[^']|'')*')|(?P<plain>[^\s\[\]{},"'](?:[^\[\]{},:]|:(?![\s\[\]{},]|$))*))"""
)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def read_yaml(file: str, text: str) -> object:
    """Read one document; raise ProgramError with the line of unsupported syntax."""
    lines = _lines(file, text)
    if not lines:
        raise ProgramError(file, None, "is empty")
    reader = _Reader(file, lines)
    value = reader.block(lines[0].indent, 0)
    if reader.k < len(lines):
        raise ProgramError(file, lines[reader.k].number, "stands at another depth than the lines before")
    return value


def _lines(file: str, text: str) -> list[_Line]:
    found: list[_Line] = []
    ended = False
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _without_comment(raw.rstrip())
        if not line:
            continue
        if line in ("---", "..."):
            ended = ended or bool(found)
            continue
        if ended:
            raise ProgramError(file, number, "begins a second document; a message is one")
        body = line.lstrip(" ")
        if body.startswith("\t"):
            raise ProgramError(file, number, "is indented by a tab; YAML wants spaces")
        if body.startswith("%"):
            raise ProgramError(file, number, "is a YAML directive, which a message has no use for")
        found.append(_Line(number, len(line) - len(body), body))
    return found


def _without_comment(line: str) -> str:
    if "#" not in line:
        return line
    quote = ""
    for k, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#" and (k == 0 or line[k - 1] in " \t"):
            return line[:k].rstrip()
    return line


class _Reader:
    """Reader of blocks by indentation; bracketed values are read by `_Flow`."""

    def __init__(self, file: str, lines: list[_Line]) -> None:
        self.file, self.lines, self.k = file, lines, 0

    def block(self, indent: int, depth: int) -> object:
        line = self.lines[self.k]
        if depth > DEEPEST:
            raise ProgramError(self.file, line.number, f"is nested deeper than {DEEPEST} levels")
        if line.text == "-" or line.text.startswith("- "):
            return self._list(indent, depth)
        if _KEY.match(line.text):
            return self._mapping(indent, depth)
        return self._flow(self._joined())

    def _list(self, indent: int, depth: int) -> list[object]:
        items: list[object] = []
        while self.k < len(self.lines):
            line = self.lines[self.k]
            if line.indent != indent or not (line.text == "-" or line.text.startswith("- ")):
                break
            rest = line.text[1:].lstrip(" ")
            if not rest:
                self.k += 1
                items.append(self._below(indent + 1, depth))
                continue
            inner = indent + len(line.text) - len(rest)
            self.lines[self.k] = _Line(line.number, inner, rest)  # what follows the dash is a block of its own
            items.append(self.block(inner, depth + 1))
        return items

    def _mapping(self, indent: int, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while self.k < len(self.lines) and self.lines[self.k].indent == indent:
            line = self.lines[self.k]
            match = _KEY.match(line.text)
            if match is None:
                raise ProgramError(self.file, line.number, f"expected `key: value`, found {line.text[:40]!r}")
            key, rest = match["key"].strip("\"'"), line.text[match.end() :].strip()
            if key in found:
                raise ProgramError(self.file, line.number, f"states {key!r} a second time")
            if rest:
                self.lines[self.k] = _Line(line.number, indent, rest)
                found[key] = self._flow(self._joined())
            else:
                self.k += 1
                found[key] = self._below(indent, depth)
        return found

    def _below(self, least: int, depth: int) -> object:
        """Read the block under a key or a dash; a list may have the indentation of its key."""
        if self.k == len(self.lines):
            return None
        line = self.lines[self.k]
        listed = line.text == "-" or line.text.startswith("- ")
        if line.indent > least or (line.indent == least and listed):
            return self.block(line.indent, depth + 1)
        return None

    def _joined(self) -> _Line:
        """Join the lines of a value in brackets, up to where they close."""
        first = self.lines[self.k]
        text = first.text
        self.k += 1
        if text[0] in "[{":
            parts, open_ = [text], _open(text)
            while open_ > 0 and self.k < len(self.lines):
                parts.append(self.lines[self.k].text)
                open_ += _open(parts[-1])
                self.k += 1
            text = " ".join(parts)
        return _Line(first.number, first.indent, text)

    def _flow(self, line: _Line) -> object:
        if _PLAIN_LIST.fullmatch(line.text):
            return [
                _scalar(self.file, line.number, part.strip()) for part in line.text[1:-1].split(",") if part.strip()
            ]
        return _Flow(self.file, line).whole()


def _open(text: str) -> int:
    bare = re.sub(r""""(?:[^"\\]|\\.)*"|'[^']*'""", "", text)
    return sum(bare.count(mark) for mark in "[{") - sum(bare.count(mark) for mark in "]}")


class _Flow:
    """A value on one line: a scalar, or brackets."""

    def __init__(self, file: str, line: _Line) -> None:
        self.file, self.number, self.text, self.at = file, line.number, line.text, 0

    def fail(self, sentence: str) -> ProgramError:
        return ProgramError(self.file, self.number, sentence)

    def whole(self) -> object:
        if self.text[0] in "[{":
            value = self._value(0)
        elif self.text[0] in "\"'":
            value = self._scalar(self._next())
        else:  # outside brackets a plain scalar takes all of the line
            if re.search(r":(\s|$)", self.text):
                raise self.fail(f"expected one value, found {self.text[:40]!r}")
            return _scalar(self.file, self.number, self.text)
        if self.text[self.at :].strip():
            raise self.fail(f"has {self.text[self.at :].strip()[:40]!r} behind a value")
        return value

    def _next(self) -> re.Match[str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise self.fail("ends within a value")
        self.at = match.end()
        return match

    def _peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return (match["mark"] or match["colon"] or "") if match else ""

    def _value(self, depth: int) -> object:
        if depth > DEEPEST:
            raise self.fail(f"is nested deeper than {DEEPEST} levels")
        token = self._next()
        if token["mark"] == "[":
            return self._items(depth)
        if token["mark"] == "{":
            return self._pairs(depth)
        if token["mark"] or token["colon"]:
            raise self.fail(f"expected a value, found {token[0].strip()!r}")
        return self._scalar(token)

    def _items(self, depth: int) -> list[object]:
        items: list[object] = []
        while self._peek() != "]":
            items.append(self._value(depth + 1))
            if self._peek() != "]" and self._next()["mark"] != ",":
                raise self.fail("expected a comma or ] in a list")
        self._next()
        return items

    def _pairs(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while self._peek() != "}":
            key = self._value(depth + 1)
            if not isinstance(key, str) or self._next()["colon"] != ":":
                raise self.fail("expected `key: value` in braces")
            if key in found:
                raise self.fail(f"states {key!r} a second time")
            found[key] = None if self._peek() in (",", "}") else self._value(depth + 1)
            if self._peek() != "}" and self._next()["mark"] != ",":
                raise self.fail("expected a comma or } in braces")
        self._next()
        return found

    def _scalar(self, token: re.Match[str]) -> object:
        if token["double"]:
            try:
                return json.loads(token["double"])
            except ValueError as error:
                raise self.fail("has an escape that is not understood") from error
        if token["single"]:
            return token["single"][1:-1].replace("''", "'")
        return _scalar(self.file, self.number, (token["plain"] or "").strip())


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
    if text[0] in "!&*|>@`%" or text.startswith(("? ", "- ")):
        raise ProgramError(file, number, f"has {text[:30]!r}: tags, anchors, aliases and block text are not read")
    return text
