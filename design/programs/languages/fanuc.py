"""FANUC TP programs as ASCII: text -> statements, positions and labels, checked."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from excitor.design.programs.execution import ProgramError
from excitor.robots.arrays import FloatArray

LONGEST_LINE, MOST_LINES = 255, 32_000

_N = r"(?:\d+|R\[\d+(?::[^\]]*)?\])"
_NUMBER = r"(?:\d+\.?\d*|\.\d+|\(-(?:\d+\.?\d*|\.\d+)\)|-(?:\d+\.?\d*|\.\d+))"
_SIGNAL = r"(?:R|DI|DO|RI|RO|UI|UO|SI|SO|AI|AO|GI|GO|F|M)"
_DATUM = rf"(?:PR\[\d+(?::[^\]]*)?,\d+\]|{_SIGNAL}\[{_N}(?::[^\]]*)?\]|\$[\w.$\[\]]+|TIMER\[\d+(?::[^\]]*)?\])"
_VALUE = rf"(?:{_DATUM}|{_NUMBER}|ON|OFF|\(ON\)|\(OFF\))"
_TEST = rf"{_VALUE}\s*(?:=|<>|<=|>=|<|>)\s*{_VALUE}"
_TESTS = rf"(?P<tests>{_TEST}(?:\s+(?:AND|OR)\s+{_TEST})*)"

# what a line may be; the first that fits is taken
_FORMS = {
    "remark": r"(?:!|//).*",
    "joint": r"J (?P<to>P\[\d+(?::[^\]]*)?\]|PR\[\d+(?::[^\]]*)?\])\s+(?P<speed>\d+(?:\.\d+)?)(?P<unit>%|sec|msec)\s+"
    r"(?P<end>FINE|CNT\d+)(?P<more>.*)",
    "path": r"[LC] P\[\d+.*",
    "label": r"LBL\[(?P<label>\d+)(?::[^\]]*)?\]",
    "jump": r"JMP LBL\[(?P<label>\d+)\]",
    "branch": rf"IF {_TESTS}\s*,\s*(?:JMP LBL\[(?P<label>\d+)\]|CALL (?P<program>\w+))",
    "if": rf"IF \({_TESTS}\) THEN",
    "else": r"ELSE",
    "endif": r"ENDIF",
    "for": rf"FOR (?P<counter>R\[\d+(?::[^\]]*)?\])=(?P<first>{_VALUE}) (?P<way>TO|DOWNTO) (?P<last>{_VALUE})",
    "endfor": r"ENDFOR",
    "here": r"PR\[(?P<register>\d+)(?::[^\]]*)?\]\s*=\s*(?P<form>JPOS|LPOS)",
    "set": rf"(?P<place>{_DATUM})\s*=\s*(?P<terms>\(?{_VALUE}(?:\s*(?:[-+*/]|MOD|DIV)\s*{_VALUE})*\)?)",
    "pulse": r"(?:DO|RO)\[\d+(?::[^\]]*)?\]\s*=\s*PULSE(?:,\s*[\d.]+sec)?",
    "wait": r"WAIT\s+(?P<seconds>\d*\.?\d+)\(sec\)",
    "await": rf"WAIT (?P<tests>{_TEST})(?P<timeout>\s+TIMEOUT,\s*LBL\[\d+\])?",
    "message": r"MESSAGE\[(?P<text>[^\]]{0,24})\]",
    "alarm": r"UALM\[\d+\]",
    "abort": r"ABORT",
    "pause": r"PAUSE",
    "end": r"END",
    "frame": r"(?:UFRAME_NUM|UTOOL_NUM|PAYLOAD\[?)\s*=?\s*\d+\]?",
    "override": r"OVERRIDE\s*=\s*(?P<percent>\d+)%",
    "timer": r"TIMER\[\d+(?::[^\]]*)?\]\s*=\s*(?:START|STOP|RESET)",
    "stream": r"IBGN (?P<which>start|end)\[\d+\]",
    "call": r"(?:CALL|RUN) (?P<program>\w+)(?:\(.*\))?",
}
_PATTERNS = {kind: re.compile(text) for kind, text in _FORMS.items()}
_UNFOLLOWED = {"path": "only joint motion is followed", "call": "other programs are not there"}
_TEXT_LINE = re.compile(r"\s*(\d+)\s*:\s*(.*?)\s*;\s*$")
_POSITION = re.compile(r'P\[(\d+)(?::"?[^\]]*)?\]\s*\{(.*?)\}\s*;', re.DOTALL)
_AXIS = re.compile(r"J(\d)\s*=\s*([-+]?(?:\d+\.?\d*|\.\d+))\s*deg\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A line of a program: what it is, where it stands, and the texts of its parts."""

    kind: str
    line: int  # of the file
    parts: Mapping[str, str]
    text: str


@dataclass(slots=True)
class Program:
    """A program; positions in deg."""

    name: str
    file: str
    statements: list[Statement]
    positions: dict[int, FloatArray]
    labels: dict[int, int] = field(default_factory=dict)  # label -> index of its statement

    def error(self, statement: Statement, sentence: str) -> ProgramError:
        """Say what is wrong with a statement."""
        return ProgramError(self.file, statement.line, f"{sentence}: {statement.text!r}")


def parse(text: str, file: str) -> Program:
    """Parse a program; raises ProgramError with the line of the file."""
    if not text.isascii():
        raise ProgramError(file, None, "the file holds letters beyond ASCII")
    lines = text.splitlines()
    sections = _sections(lines, file)
    name = lines[sections["/PROG"]].split()
    if len(name) < 2 or not re.fullmatch(r"[A-Z][A-Z0-9_]{0,35}", name[1]):
        raise ProgramError(file, 1, "the program needs a name of at most 36 capital letters, digits and underscores")
    statements = [_statement(lines[k], k + 1, file) for k in range(sections["/MN"] + 1, sections["/POS"])]
    positions = _positions("\n".join(lines[sections["/POS"] + 1 : sections["/END"]]), sections["/POS"] + 1, file)
    program = Program(name[1], file, [x for x in statements if x], positions)
    _check(program)
    return program


def _sections(lines: list[str], file: str) -> dict[str, int]:
    found = {line.split()[0]: k for k, line in enumerate(lines) if line.startswith("/") and line[1:2].isalpha()}
    at = [found.get(name, -1) for name in ("/PROG", "/MN", "/POS", "/END")]
    if -1 in at or at != sorted(at) or at[0] != 0:
        raise ProgramError(file, None, "the file must hold /PROG, /MN, /POS and /END, in this order")
    if any(line.strip() for line in lines[at[-1] + 1 :]):
        raise ProgramError(file, at[-1] + 2, "there is something after /END")
    return found


def _statement(text: str, line: int, file: str) -> Statement | None:
    found = _TEXT_LINE.match(text)
    if not found or len(text) > LONGEST_LINE:
        raise ProgramError(file, line, f"no line of a program (number, colon, instruction, semicolon): {text!r}")
    body = found.group(2)
    if not body:
        return None
    for kind, pattern in _PATTERNS.items():
        match = pattern.fullmatch(body)
        if match:
            return Statement(kind, line, {k: v for k, v in match.groupdict().items() if v is not None}, body)
    raise ProgramError(file, line, f"unknown instruction: {body!r}")


def _positions(text: str, first: int, file: str) -> dict[int, FloatArray]:
    positions: dict[int, FloatArray] = {}
    rest = _POSITION.sub("", text).strip()
    if rest:
        raise ProgramError(file, None, f"no position: {rest.splitlines()[0]!r}")
    for found in _POSITION.finditer(text):
        number, line = int(found.group(1)), first + text[: found.start()].count("\n") + 1
        axes = _AXIS.findall(re.sub(r"\s*\n\s*", " ", found.group(2)).strip())
        if number in positions:
            raise ProgramError(file, line, f"P[{number}] is there twice")
        if [axis for axis, _ in axes] != list("123456") or found.group(2).count("=") != 6:
            raise ProgramError(file, line, f"P[{number}] must state J1 to J6 in deg, and nothing else")
        positions[number] = np.array([float(value) for _, value in axes])
    return positions


def _check(program: Program) -> None:
    if len(program.statements) > MOST_LINES:
        raise ProgramError(program.file, None, f"the program has {len(program.statements)} lines")
    for k, statement in enumerate(program.statements):
        if statement.kind == "label":
            label = int(statement.parts["label"])
            if label in program.labels:
                raise program.error(statement, "the label is there twice")
            program.labels[label] = k
    for statement in program.statements:
        label_text = statement.parts.get("label")
        if label_text and int(label_text) not in program.labels:
            raise program.error(statement, "there is no such label")
        to = statement.parts.get("to", "")
        if to.startswith("P[") and number_in(to) not in program.positions:
            raise program.error(statement, "there is no such position")
        if statement.kind in _UNFOLLOWED or "program" in statement.parts:
            raise program.error(statement, _UNFOLLOWED.get(statement.kind, _UNFOLLOWED["call"]))
        if statement.kind == "joint" and statement.parts["more"].strip():
            raise program.error(statement, "motion options are not followed")
    _check_blocks(program)


def _check_blocks(program: Program) -> None:
    opened: list[Statement] = []
    pairs = {"endif": "if", "endfor": "for", "else": "if"}
    for statement in program.statements:
        if statement.kind in ("if", "for"):
            opened.append(statement)
        if statement.kind in pairs:
            if not opened or opened[-1].kind != pairs[statement.kind]:
                raise program.error(statement, f"there is no {pairs[statement.kind].upper()} for it")
            if statement.kind != "else":
                opened.pop()
    if opened:
        raise program.error(opened[-1], f"there is no END{opened[-1].kind.upper()} for it")


def number_in(text: str) -> int:
    """Read the number in a register's, position's or signal's brackets."""
    found = re.search(r"\[(\d+)", text)
    assert found
    return int(found.group(1))
