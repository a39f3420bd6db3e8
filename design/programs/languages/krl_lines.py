"""Lines of KRL: comments, first words, declarations, and the order of a spline block's times."""

import re

from excitor.design.programs.languages.krl import TimeBlock
from excitor.design.programs.languages.krl_values import Fault

_FIRST = re.compile(r"\s*([A-Za-z_$][\w$]*)")
TYPES = {"INT", "REAL", "BOOL", "CHAR", "AXIS", "E6AXIS", "POS", "E6POS", "FRAME"}
ENDS = {
    "ENDIF", "ELSE", "ENDFOR", "ENDWHILE", "UNTIL", "ENDLOOP", "ENDSWITCH", "CASE", "DEFAULT", "ENDSPLINE", "END",
    "ENDFCT",
}  # fmt: skip
_REFUSED = {
    "GOTO": "jumps; write a loop",
    "TRIGGER": "switches on the way; not part of this subset",
    "STRUC": "declares a structure; not part of this subset",
    "ENUM": "declares an enumeration; not part of this subset",
    "SIGNAL": "declares a signal; not part of this subset",
    "IMPORT": "needs another file; not part of this subset",
    "DEFDAT": "declares data; give the .src file alone",
    "EXT": "declares a routine of another file; not part of this subset",
    "ON_ERROR_PROCEED": "hides errors; not part of this subset",
    "ANOUT": "drives an output while moving; not part of this subset",
    "PULSE": "drives an output; not part of this subset",
}
_NUMBER = re.compile(r"\s*=\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


def uncommented(line: str) -> str:
    """Cut a comment off; a semicolon in a string begins none."""
    quoted = False
    for k, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter == ";" and not quoted:
            return line[:k].strip()
    return line.strip()


def first_word(text: str) -> str:
    """Take the first word of a line, in upper case."""
    match = _FIRST.match(text)
    return match[1].upper() if match else ""


def refusal_of(word: str) -> str:
    """Say why a statement is not read; empty for one that is."""
    return f"{word} {_REFUSED[word]}" if word in _REFUSED else ""


def routine_name(line: str) -> str:
    """Name the routine that a line begins; empty if it begins none."""
    head = re.match(r"(?i)(?:GLOBAL\s+)?(?:DEF|DEFFCT\s+\w+)\s+(\w+)\s*\(", line)
    return head[1].upper() if head else ""


def declares(line: str) -> bool:
    """Tell whether a line declares a variable."""
    words = line.upper().split()
    if words[:1] == ["GLOBAL"]:
        return words[1:2] == ["DECL"] or words[1:2] == ["CONST"]
    return words[0] in ("DECL", "CONST") or (words[0] in TYPES and len(words) > 1)


def parameter(text: str) -> tuple[str, bool]:
    """Read a parameter: its name, and whether it is written back."""
    match = re.fullmatch(r"(?i)\s*([A-Za-z_]\w*)\s*(?:\[\s*\])?\s*(?::\s*(IN|OUT))?\s*", text)
    if match is None:
        raise Fault(f"{text.strip()[:30]!r} is no parameter")
    return match[1].upper(), (match[2] or "OUT").upper() == "OUT"


def plain_number(text: str) -> str:
    """Read = and a number, as it is written."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise Fault(f"{text.strip()[:30]!r} stands where = and a number are expected")
    return match[1]


class Times:
    """Checks the order of TIME_BLOCK: START after a segment, a PART after each one that follows, END last."""

    def __init__(self) -> None:
        self.start = -1
        self.parts: list[str] = []
        self.seconds = ""
        self.line = 0

    def take(self, text: str, segments: int, line: int) -> None:
        """Take what follows TIME_BLOCK."""
        word, rest = first_word(text), text[len(first_word(text)) :]
        if word == "START" and not rest and self.start < 0 and segments:
            self.start, self.line = segments, line
        elif word == "PART" and self.start >= 0 and not self.seconds and segments == self.start + len(self.parts) + 1:
            self.parts.append(plain_number(rest))
        elif word == "END" and self.parts and not self.seconds and segments == self.start + len(self.parts):
            self.seconds = plain_number(rest)
        else:
            raise Fault(
                f"TIME_BLOCK {word or text[:20]} is out of order: START follows the first segment, a PART each of the "
                "others, END the last"
            )

    def next_segment(self, segments: int) -> None:
        """Take note of a segment."""
        if self.seconds:
            raise Fault("a segment follows TIME_BLOCK END")
        if self.start >= 0 and segments != self.start + len(self.parts):
            raise Fault("the segment before has no TIME_BLOCK PART")

    def closed(self, segments: int) -> TimeBlock | None:
        """Give the times at the end of the block."""
        if self.start >= 0 and not self.seconds:
            raise Fault("TIME_BLOCK START has no TIME_BLOCK END")
        return TimeBlock(self.start, tuple(self.parts), self.seconds, self.line) if self.seconds else None
