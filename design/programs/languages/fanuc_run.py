"""A TP program, line by line, on a controller that answers; registers are float32."""

import re
from collections.abc import Callable
from typing import Protocol

import numpy as np

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.fanuc import Program, Statement, number_in
from excitor.robots.arrays import FloatArray

_ENDLESS = 100_000  # lines in a row without a motion or a wait
_TERM = re.compile(
    r"(PR\[\d+[^\]]*\]|[A-Z]+\[[^\[\]]*(?:\[[^\]]*\])?[^\[\]]*\]|\$[\w.$\[\]]+|[\d.]+|ON|OFF|MOD|DIV|[-+*/()])\s*"
)
_COMMENT = re.compile(r"\[\d+:([^\],]*)")


class Controller(Protocol):
    """What a program needs of its controller."""

    def move(self, to: FloatArray, speed: float, unit: str, stops: bool) -> None:
        """Go to a position; speed in %, sec or msec."""

    def wait(self, seconds: float) -> None:
        """Stand still."""

    def read(self, name: str) -> float | None:
        """Read a signal or a system variable, such as UO[8] or $MCR.$GENOVERRIDE; None where there is none."""

    def write(self, name: str, comment: str, value: float) -> None:
        """Tell of a register or signal that was set, with the comment in its brackets."""

    def here(self) -> FloatArray:
        """Where the robot stands, deg."""

    def remark(self, text: str) -> None:
        """Read a remark."""

    def message(self, text: str) -> None:
        """Show a message."""

    def pause(self) -> None:
        """Wait until somebody starts the program again."""

    def stream(self, which: str) -> None:
        """Give the motion to a stream (start), or take it back (end)."""


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
        """Go on after the closer of the present block."""
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
            self._fail(statement, "nobody makes this come true")

    def _set(self, statement: Statement) -> None:
        self._store(statement.parts["place"], self._sum(statement))

    def _store(self, place: str, value: float) -> None:
        comment = _COMMENT.search(place)
        name = _plain(place)
        self.values[name] = float(np.float32(value))
        self.controller.write(name, comment.group(1) if comment else "", self.values[name])

    def _sum(self, statement: Statement) -> float:
        """Reckon from left to right; multiplication first, as the controller does."""
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
    """Take the comment out of the brackets."""
    return re.sub(r"\[(\d+):[^\],]*", r"[\1", name)
