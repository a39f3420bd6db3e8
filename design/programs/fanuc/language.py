"""FANUC TP programs as ASCII: text -> statements, positions and labels, checked.

What a line computes becomes closures on the `Runner`, which executes a program, line by line, on a `Controller`;
registers are float32.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np

from excitor.design.programs.runtime import ORDER, Fault, Level, Operators, Reader, Run, Token, scan
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
    values: Mapping[str, Run]  # of the parts that are computed, in a Runner


@dataclass(slots=True)
class Program:
    """A program; positions in deg."""

    name: str
    file: str
    statements: list[Statement]
    positions: dict[int, FloatArray]
    group: str = ""  # of axes that it moves, as its attributes state
    targets: dict[int, int] = field(default_factory=dict)  # index of a JMP, IF, ELSE or FOR -> where it leads

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
    group = re.search(r"(?m)^DEFAULT_GROUP\s*=\s*([\d,*\s]+);", text)
    stated = "".join(group[1].split()) if group else ""
    program = Program(name[1], file, [x for x in statements if x], positions, stated)
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
            parts = {k: v for k, v in match.groupdict().items() if v is not None}
            try:
                values = {k: _Words(parts[k]).expression() for k in _COMPUTED if k in parts}
            except Fault as fault:
                raise ProgramError(file, line, f"{fault.sentence}: {body!r}") from None
            return Statement(kind, line, parts, body, values)
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
    labels: dict[int, int] = {}
    for k, statement in enumerate(program.statements):
        if statement.kind == "label" and labels.setdefault(int(statement.parts["label"]), k) != k:
            raise program.error(statement, "the label is there twice")
    for k, statement in enumerate(program.statements):
        if "label" in statement.parts:
            if int(statement.parts["label"]) not in labels:
                raise program.error(statement, "there is no such label")
            program.targets[k] = labels[int(statement.parts["label"])]
        to = statement.parts.get("to", "")
        if to.startswith("P[") and number_in(to) not in program.positions:
            raise program.error(statement, "there is no such position")
        if statement.kind in _UNFOLLOWED or "program" in statement.parts:
            raise program.error(statement, _UNFOLLOWED.get(statement.kind, _UNFOLLOWED["call"]))
        if statement.kind == "joint" and statement.parts["more"].strip():
            raise program.error(statement, "motion options are not followed")
    _check_blocks(program)


def _check_blocks(program: Program) -> None:
    opened: list[int] = []
    pairs = {"endif": ("if", "else"), "endfor": ("for",), "else": ("if",)}
    for k, statement in enumerate(program.statements):
        if statement.kind in pairs:
            wanted = pairs[statement.kind]
            if not opened or program.statements[opened[-1]].kind not in wanted:
                raise program.error(statement, f"there is no {wanted[0].upper()} for it")
            program.targets[opened.pop()] = k + 1
        if statement.kind in ("if", "for", "else"):
            opened.append(k)
    if opened:
        last = program.statements[opened[-1]]
        raise program.error(last, f"there is no END{'FOR' if last.kind == 'for' else 'IF'} for it")


def number_in(text: str) -> int:
    """Read the number in a register's, position's or signal's brackets."""
    found = re.search(r"\[(\d+)", text)
    assert found
    return int(found.group(1))


_ENDLESS = 100_000  # lines in a row without a motion or a wait
_COMPUTED = ("tests", "terms", "first", "last", "counter")
_WORD = re.compile(
    r"(?P<blank>\s+)|(?P<datum>PR\[\d+[^\]]*\]|[A-Z]+\[[^\[\]]*(?:\[[^\]]*\])?[^\[\]]*\]|\$[\w.$\[\]]+)"
    r"|(?P<number>[\d.]+)|(?P<sign>ON|OFF|MOD|DIV|AND|OR|<>|<=|>=|[-+*/()=<>])"
)
_COMMENT = re.compile(r"\[\d+:([^\],]*)")


_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "OR": max, "AND": min, "=": operator.eq, "<>": operator.ne, **ORDER, "+": operator.add, "-": operator.sub,
    "*": operator.mul, "/": operator.truediv, "MOD": operator.mod, "DIV": operator.floordiv,
}  # fmt: skip


def _real(value: float) -> float:
    return float(np.float32(value))


class _Words(Reader[Run]):
    """Reads what a line computes to a function of a Runner."""

    operators = Operators(
        Level(("OR", "AND")), Level(("=", "<>", "<", ">", "<=", ">=")), Level(("+", "-")),
        Level(("*", "/", "MOD", "DIV")), Level(prefix=("-",)),
    )  # fmt: skip

    def __init__(self, text: str) -> None:
        found = scan(_WORD, text, 0, lambda rest: f"{rest[:20]!r} is no value")
        super().__init__([Token(kind, part, 0, part if kind == "sign" else "") for kind, part, _ in found])
        self.tokens.append(Token("end", "the end", 0, ""))
        if {"AND", "OR"} <= {token.key for token in self.tokens}:
            raise Fault("AND and OR do not mix")

    def missing(self, *keys: str) -> str:
        return f"found {self.next.text}, expected {keys[0]}"

    def operand(self) -> Run:
        token = self.take()
        if token.key == "(":
            return self.inner()
        if token.kind == "datum":
            return lambda runner: runner.value(token.text)
        if token.key not in ("ON", "OFF") and token.kind != "number":
            raise Fault(f"found {token.text}, expected a value")
        value = _real(float(token.text) if token.kind == "number" else token.key == "ON")
        return lambda runner: value

    def joined(self, sign: Token, left: Run | None, right: Run) -> Run:
        if left is None:
            return lambda runner: -right(runner)
        join = _JOIN[sign.key]
        return lambda runner: _real(join(left(runner), right(runner)))


class Controller(Protocol):
    """Controller interface that a program needs."""

    def move(self, to: FloatArray, speed: float, unit: str, stops: bool) -> None:
        """Go to a position; speed in %, sec or msec."""

    def hold(self, name: str, value: object) -> None:
        """Refuse a setting that the target's record does not state."""

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
        self.loops: list[tuple[int, Statement, float, int]] = []  # of FOR: where, it, last value, way
        self.acts: dict[str, Callable[[Statement], Any]] = {
            "joint": self._move, "jump": self._jump, "else": self._jump,
            "branch": lambda x: x.values["tests"](self) and self._jump(x),
            "if": lambda x: x.values["tests"](self) or self._jump(x),
            "for": self._for, "endfor": self._endfor, "here": self._here,
            "set": lambda x: self._store(x.parts["place"], x.values["terms"](self)),
            "await": lambda x: x.values["tests"](self) or _fail("this condition never becomes true"),
            "wait": lambda x: controller.wait(float(x.parts["seconds"])),
            "pause": lambda x: controller.pause(),
            "message": lambda x: controller.message(x.parts["text"]),
            "stream": self._stream,
            "remark": lambda x: controller.remark(x.text),
            "frame": self._frame,
            "override": lambda x: _fail("a program must not change the override"),
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
            try:
                if idle > _ENDLESS:
                    _fail("the program does not end")
                if statement.kind in self.acts:
                    self.acts[statement.kind](statement)
            except ZeroDivisionError:
                raise self.program.error(statement, "division by zero") from None
            except ValueError as error:
                raise self.program.error(statement, str(error)) from None
        return True

    def _move(self, statement: Statement) -> None:
        to, parts = statement.parts["to"], statement.parts
        speed = float(parts["speed"])
        if parts["unit"] == "%" and not 0.0 < speed <= 100.0:
            _fail("speeds are 1 to 100 %")
        if to.startswith("PR") and number_in(to) not in self.registers:
            _fail("the position register was never set")
        pose = self.registers[number_in(to)] if to.startswith("PR") else self.program.positions[number_in(to)]
        if parts["end"] != "FINE":
            self.controller.hold("end", parts["end"])
        self.controller.move(pose, speed, parts["unit"], parts["end"] in ("FINE", "CNT0"))

    def _frame(self, statement: Statement) -> None:
        name, number = re.findall(r"[A-Z_]+|\d+", statement.text)[:2]
        self.controller.hold({"UTOOL_NUM": "tool", "UFRAME_NUM": "base"}.get(name, name), int(number))

    def _stream(self, statement: Statement) -> None:
        self.controller.hold("stream", number_in(statement.text))
        self.controller.stream(statement.parts["which"])

    def _jump(self, statement: Statement) -> Any:
        self.next = self.program.targets[self.next - 1]

    def _for(self, statement: Statement) -> None:
        way = 1 if statement.parts["way"] == "TO" else -1
        first, last = statement.values["first"](self), statement.values["last"](self)
        if way * (last - first) < 0.0:
            self._jump(statement)
            return
        self._store(statement.parts["counter"], first)
        self.loops.append((self.next, statement, last, way))

    def _endfor(self, statement: Statement) -> None:
        if not self.loops:
            _fail("the loop was entered from its side")
        line, begun, last, way = self.loops[-1]
        value = begun.values["counter"](self) + way
        if way * (last - value) < 0.0:
            self.loops.pop()
            return
        self._store(begun.parts["counter"], value)
        self.next = line

    def _here(self, statement: Statement) -> None:
        if statement.parts["form"] != "JPOS":
            _fail("only joint positions are followed")
        self.registers[int(statement.parts["register"])] = self.controller.here()

    def _store(self, place: str, value: float) -> None:
        comment = _COMMENT.search(place)
        name = _plain(place)
        self.values[name] = _real(value)
        self.controller.write(name, comment.group(1) if comment else "", self.values[name])

    def value(self, text: str) -> float:
        """Return the value of a register, signal or system variable."""
        if text.startswith("PR["):
            number, axis = number_in(text), int(text.rstrip("]").split(",")[1])
            if number not in self.registers or not 1 <= axis <= 6:
                _fail(f"{text} was never set")
            return float(self.registers[number][axis - 1])
        name = _plain(text)
        value = self.values.get(name)
        found = self.controller.read(name) if value is None else value
        if found is None and not name.startswith(("R[", "F[", "M[", "TIMER[")):
            _fail(f"there is no {name}")
        return _real(found or 0.0)  # what nobody has set


def _fail(sentence: str) -> NoReturn:
    raise ValueError(sentence)


def _plain(name: str) -> str:
    """Remove the comment from the brackets."""
    return re.sub(r"\[(\d+):[^\],]*", r"[\1", name)
