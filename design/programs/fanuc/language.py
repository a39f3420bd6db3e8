"""FANUC TP programs as ASCII: text -> statements, positions and labels, checked.

`Runner` executes a TP program, line by line, on a `Controller`; registers are float32.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from excitor.design.programs.target import ProgramError
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
    """A line of a program: its kind, its line number, and the texts of its parts."""

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
        """Build the error of a statement."""
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


_ENDLESS = 100_000  # lines in a row without a motion or a wait
_TERM = re.compile(
    r"(PR\[\d+[^\]]*\]|[A-Z]+\[[^\[\]]*(?:\[[^\]]*\])?[^\[\]]*\]|\$[\w.$\[\]]+|[\d.]+|ON|OFF|MOD|DIV|[-+*/()])\s*"
)
_COMMENT = re.compile(r"\[\d+:([^\],]*)")


class Controller(Protocol):
    """Controller interface that a program needs."""

    def move(self, to: FloatArray, speed: float, unit: str, stops: bool) -> None:
        """Go to a position; speed in %, sec or msec."""

    def wait(self, seconds: float) -> None:
        """Stand still."""

    def read(self, name: str) -> float | None:
        """Read a signal or a system variable, such as UO[8] or $MCR.$GENOVERRIDE; None where there is none."""

    def write(self, name: str, comment: str, value: float) -> None:
        """Report a register or signal that was set, with the comment in its brackets."""

    def here(self) -> FloatArray:
        """Return the axis positions, deg."""

    def remark(self, text: str) -> None:
        """Read a remark."""

    def message(self, text: str) -> None:
        """Show a message."""

    def pause(self) -> None:
        """Wait until somebody starts the program again."""

    def stream(self, which: str) -> None:
        """Start or end the control of the motion by a stream; `which` is start or end."""


class Runner:
    """Runs a program on a controller."""

    def __init__(self, program: Program, controller: Controller) -> None:
        self.program, self.controller = program, controller
        self.values: dict[str, float] = {}
        self.registers: dict[int, FloatArray] = {}
        self.next = 0
        self.loops: list[tuple[int, str, float, int]] = []  # of FOR: its line, counter, last value, direction
        self.acts: dict[str, Callable[[Statement], None]] = {
            "joint": self._move, "jump": self._jump, "branch": self._branch, "if": self._if, "else": self._else,
            "for": self._for, "endfor": self._endfor, "here": self._here, "set": self._set, "await": self._await,
            "wait": lambda x: controller.wait(float(x.parts["seconds"])),
            "pause": lambda x: controller.pause(),
            "message": lambda x: controller.message(x.parts["text"]),
            "stream": lambda x: controller.stream(x.parts["which"]),
            "remark": lambda x: controller.remark(x.text),
            "override": lambda x: self._fail(x, "a program must not change the override"),
        }  # fmt: skip

    def run(self) -> bool:
        """Run from the first line to END or the last line; False where the program aborts."""
        idle = 0
        while self.next < len(self.program.statements):
            statement = self.program.statements[self.next]
            self.next += 1
            if statement.kind in ("end", "abort", "alarm"):
                return statement.kind == "end"
            idle = 0 if statement.kind in ("joint", "wait") else idle + 1
            if idle > _ENDLESS:
                raise self.program.error(statement, "the program does not end")
            act = self.acts.get(statement.kind)
            if act:
                try:
                    act(statement)
                except ValueError as error:
                    raise self.program.error(statement, str(error)) from None
        return True

    def _fail(self, statement: Statement, sentence: str) -> None:
        raise self.program.error(statement, sentence)

    def _move(self, statement: Statement) -> None:
        to, parts = statement.parts["to"], statement.parts
        speed = float(parts["speed"])
        if parts["unit"] == "%" and not 0.0 < speed <= 100.0:
            self._fail(statement, "speeds are 1 to 100 %")
        if to.startswith("PR") and number_in(to) not in self.registers:
            self._fail(statement, "the position register was never set")
        pose = self.registers[number_in(to)] if to.startswith("PR") else self.program.positions[number_in(to)]
        self.controller.move(pose, speed, parts["unit"], parts["end"] in ("FINE", "CNT0"))

    def _jump(self, statement: Statement) -> None:
        self.next = self.program.labels[int(statement.parts["label"])]

    def _branch(self, statement: Statement) -> None:
        if self._test(statement):
            self._jump(statement)

    def _if(self, statement: Statement) -> None:
        if not self._test(statement):
            self._skip(("else", "endif"))

    def _else(self, statement: Statement) -> None:
        self._skip(("endif",))

    def _skip(self, closers: tuple[str, ...]) -> None:
        """Continue after the end of the current block."""
        depth = 0
        while True:
            kind = self.program.statements[self.next].kind
            self.next += 1
            if depth == 0 and kind in closers:
                return
            depth += (kind in ("if", "for")) - (kind in ("endif", "endfor"))

    def _for(self, statement: Statement) -> None:
        parts = statement.parts
        way = 1 if parts["way"] == "TO" else -1
        first, last = self._value(parts["first"], statement), self._value(parts["last"], statement)
        if way * (last - first) < 0.0:
            self._skip(("endfor",))
            return
        self._store(parts["counter"], first)
        self.loops.append((self.next, parts["counter"], last, way))

    def _endfor(self, statement: Statement) -> None:
        if not self.loops:
            self._fail(statement, "the loop was entered from its side")
        line, counter, last, way = self.loops[-1]
        value = self._value(counter, statement) + way
        if way * (last - value) < 0.0:
            self.loops.pop()
            return
        self._store(counter, value)
        self.next = line

    def _here(self, statement: Statement) -> None:
        if statement.parts["form"] != "JPOS":
            self._fail(statement, "only joint positions are followed")
        self.registers[int(statement.parts["register"])] = self.controller.here()

    def _await(self, statement: Statement) -> None:
        if not self._test(statement):
            self._fail(statement, "this condition never becomes true")

    def _set(self, statement: Statement) -> None:
        self._store(statement.parts["place"], self._sum(statement))

    def _store(self, place: str, value: float) -> None:
        comment = _COMMENT.search(place)
        name = _plain(place)
        self.values[name] = float(np.float32(value))
        self.controller.write(name, comment.group(1) if comment else "", self.values[name])

    def _sum(self, statement: Statement) -> float:
        """Evaluate a sum from left to right, multiplication first, as the controller does."""
        terms = _TERM.findall(statement.parts["terms"])
        values: list[float] = []
        ops: list[str] = []
        sign = 1.0
        for term in terms:
            if term in "()":
                continue
            if term in ("+", "-", "*", "/", "MOD", "DIV"):
                if term == "-" and len(values) == len(ops):
                    sign = -sign
                else:
                    ops.append(term)
                continue
            value, sign = sign * self._value(term, statement), 1.0
            if ops and ops[-1] not in "+-" and len(values) == len(ops):
                values[-1] = self._product(ops.pop(), values[-1], value, statement)
            else:
                values.append(value)
        total = values[0]
        for op, value in zip(ops, values[1:], strict=True):
            total = float(np.float32(total + value if op == "+" else total - value))
        return total

    def _product(self, op: str, a: float, b: float, statement: Statement) -> float:
        if op != "*" and b == 0.0:
            self._fail(statement, "division by zero")
        made = {"*": lambda: a * b, "/": lambda: a / b, "MOD": lambda: a % b, "DIV": lambda: float(a // b)}[op]()
        return float(np.float32(made))

    def _test(self, statement: Statement) -> bool:
        """Evaluate comparisons joined by AND, or by OR: a line may not mix them."""
        pieces = re.split(r"\s+(AND|OR)\s+", statement.parts["tests"])
        if len(set(pieces[1::2])) > 1:
            self._fail(statement, "AND and OR do not mix")
        results = [self._compare(piece, statement) for piece in pieces[::2]]
        return any(results) if "OR" in pieces[1::2] else all(results)

    def _compare(self, text: str, statement: Statement) -> bool:
        left, op, right = re.split(r"(<>|<=|>=|=|<|>)", text, maxsplit=1)
        a, b = (float(np.float32(self._value(x.strip(), statement))) for x in (left, right))
        return {"=": a == b, "<>": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[op]

    def _value(self, text: str, statement: Statement) -> float:
        text = text.strip().removeprefix("(").removesuffix(")")
        if text in ("ON", "OFF"):
            return float(text == "ON")
        if re.fullmatch(r"[-\d.]+", text):
            return float(text)
        if text.startswith("PR["):
            number, axis = number_in(text), int(text.rstrip("]").split(",")[1])
            if number not in self.registers or not 1 <= axis <= 6:
                self._fail(statement, f"{text} was never set")
            return float(self.registers[number][axis - 1])
        name = _plain(text)
        value = self.values.get(name)
        found = self.controller.read(name) if value is None else value
        if found is None and name.startswith(("R[", "F[", "M[", "TIMER[")):
            found = 0.0  # what nobody has set
        if found is None:
            raise ProgramError(self.program.file, statement.line, f"there is no {name}: {statement.text!r}")
        return found


def _plain(name: str) -> str:
    """Remove the comment from the brackets."""
    return re.sub(r"\[(\d+):[^\],]*", r"[\1", name)
