"""A VAL3 application as closures: names and types are checked before anything runs."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.val3 import Node, parse
from excitor.design.programs.languages.val3_files import Application, Code, default

Frame = dict[str, list[Any]]
Expression = Callable[[Frame], Any]
Statement = Callable[[Frame], str | None]  # "break", "return" or on to the next
_ENDLESS = 1_000_000  # passes of loops
_DEEPEST = 50  # calls
_AXES = {f"j{k + 1}": k for k in range(6)}


@dataclass(frozen=True, slots=True)
class Function:
    """What the controller offers: argument types ("*": any one), result type ("" for none), and what it does."""

    arguments: tuple[str, ...]
    result: str
    act: Callable[..., Any]
    more: bool = False  # trailing arguments may be left out


PURE = {
    "abs": Function(("num",), "num", abs),
    "min": Function(("num", "num"), "num", min),
    "max": Function(("num", "num"), "num", max),
    "sqrt": Function(("num",), "num", math.sqrt),
    "sin": Function(("num",), "num", lambda x: math.sin(math.radians(x))),
    "cos": Function(("num",), "num", lambda x: math.cos(math.radians(x))),
    "tan": Function(("num",), "num", lambda x: math.tan(math.radians(x))),
    "round": Function(("num",), "num", lambda x: float(math.floor(x + 0.5))),
    "roundup": Function(("num",), "num", lambda x: float(math.ceil(x))),
    "rounddown": Function(("num",), "num", lambda x: float(math.floor(x))),
    "tostring": Function(("string", "num"), "string", lambda form, x: f"{x:g}"),
    "sel": Function(("bool", "num", "num"), "num", lambda c, a, b: a if c else b),
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": math.fmod,
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip


class Runner:
    """An application, ready to run. `wait` is told a condition; `watched` data tell of every value they take."""

    def __init__(
        self,
        application: Application,
        functions: Mapping[str, Function],
        wait: Callable[[Callable[[], bool]], None],
        watched: Mapping[str, Callable[[Any], None]],
    ) -> None:
        self.data = {name: list(x.values) for name, x in application.data.items()}
        self.kinds = {name: _plain(x.kind) for name, x in application.data.items()}
        self.functions = {**PURE, **functions}
        self.wait, self.watched = wait, watched
        self.passes = self.depth = 0
        self.codes = application.programs
        self.programs: dict[str, Statement] = {}
        for name, code in application.programs.items():
            self.programs[name] = _Compiler(self, code).block(parse(code))

    def run(self, name: str, arguments: list[Any], code: Code, line: int) -> None:
        """Run a program from its beginning."""
        called = self.codes[name]
        frame: Frame = {x.name: list(x.values) for x in called.locals}
        frame |= {x.name: [value] for x, value in zip(called.parameters, arguments, strict=True)}
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ProgramError(code.file, line, "programs call each other without end")
        self.programs[name](frame)
        self.depth -= 1

    def turn(self, file: str, line: int) -> None:
        """Count a pass of a loop."""
        self.passes += 1
        if self.passes > _ENDLESS:
            raise ProgramError(file, line, "the loop does not end")


def _plain(kind: str) -> str:
    return "jointRx" if kind == "joint" else kind


class _Compiler:
    def __init__(self, runner: Runner, code: Code) -> None:
        self.runner, self.code = runner, code
        self.local = {x.name: _plain(x.kind) for x in (*code.parameters, *code.locals)}

    def error(self, line: int, sentence: str) -> ProgramError:
        return ProgramError(self.code.file, line, sentence)

    def block(self, nodes: list[Node]) -> Statement:
        body = [getattr(self, f"on_{node[0]}")(*node[1:]) for node in nodes]

        def run(frame: Frame) -> str | None:
            for statement in body:
                leave = statement(frame)
                if leave:
                    return str(leave)
            return None

        return run

    def on_return(self, line: int) -> Statement:
        return lambda frame: "return"

    def on_break(self, line: int) -> Statement:
        return lambda frame: "break"

    def on_run(self, line: int, node: Node) -> Statement:
        if node[0] != "call":
            raise self.error(line, "call needs a program and its arguments in brackets")
        name = node[2]
        called = self.runner.codes.get(name)
        if called is None:
            raise self.error(line, f"there is no program called {name!r}")
        if len(node[3]) != len(called.parameters):
            raise self.error(line, f"{name!r} takes {len(called.parameters)} arguments, not {len(node[3])}")
        wanted = [_plain(x.kind) for x in called.parameters]
        given = [self.typed(x, kind) for x, kind in zip(node[3], wanted, strict=True)]

        def run(frame: Frame) -> None:
            self.runner.run(name, [value(frame) for value in given], self.code, line)

        return run

    def on_do(self, line: int, node: Node) -> Statement:
        if node[0] != "call":
            raise self.error(line, "the line does nothing")
        if node[2].lower() == "wait":
            if len(node[3]) != 1:
                raise self.error(line, "wait takes one condition")
            condition = self.typed(node[3][0], "bool")
            return lambda frame: self.guarded(line, lambda: self.runner.wait(lambda: bool(condition(frame))))
        _, act = self.expression(node)

        def run(frame: Frame) -> None:
            act(frame)

        return run

    def on_set(self, line: int, target: Node, node: Node) -> Statement:
        kind, store = self.place(target)
        value = self.typed(node, kind)

        def run(frame: Frame) -> None:
            store(frame, value(frame))

        return run

    def on_if(self, line: int, choices: list[tuple[Node, list[Node]]], other: list[Node]) -> Statement:
        made = [(self.typed(condition, "bool"), self.block(body)) for condition, body in choices]
        rest = self.block(other)

        def run(frame: Frame) -> str | None:
            for condition, body in made:
                if condition(frame):
                    return body(frame)
            return rest(frame)

        return run

    def on_switch(self, line: int, node: Node, choices: list[tuple[list[Node], list[Node]]]) -> Statement:
        kind, value = self.expression(node)
        made = [([self.typed(x, kind) for x in labels], self.block(body)) for labels, body in choices]

        def run(frame: Frame) -> str | None:
            found = value(frame)
            for labels, body in made:
                if not labels or any(label(frame) == found for label in labels):
                    leave = body(frame)
                    return None if leave == "break" else leave
            return None

        return run

    def on_for(
        self, line: int, target: Node, first: Node, last: Node, step: Node, body: list[Node]
    ) -> Statement:  # fmt: skip
        kind, store = self.place(target)
        if kind != "num":
            raise self.error(line, "for counts with a num")
        begin, end, by = (self.typed(x, "num") for x in (first, last, step))
        inner = self.block(body)

        def run(frame: Frame) -> str | None:
            value, top, up = begin(frame), end(frame), by(frame)
            if up == 0.0:
                raise self.error(line, "the step of for is 0")
            while (value <= top) if up > 0.0 else (value >= top):
                store(frame, value)
                self.runner.turn(self.code.file, line)
                leave = inner(frame)
                if leave:
                    return None if leave == "break" else leave
                value += up
            return None

        return run

    def on_while(self, line: int, node: Node, body: list[Node], *, first: bool = False) -> Statement:
        condition, inner = self.typed(node, "bool"), self.block(body)

        def run(frame: Frame) -> str | None:
            go = first
            while go or bool(condition(frame)) is not first:
                go = False
                self.runner.turn(self.code.file, line)
                leave = inner(frame)
                if leave:
                    return None if leave == "break" else leave
            return None

        return run

    def on_until(self, line: int, node: Node, body: list[Node]) -> Statement:
        return self.on_while(line, node, body, first=True)

    def typed(self, node: Node, kind: str) -> Expression:
        found, value = self.expression(node)
        if found != kind:
            raise self.error(node[1], f"found {found or 'nothing'}, expected {kind}")
        return value

    def expression(self, node: Node) -> tuple[str, Expression]:
        kind, line = node[0], node[1]
        if kind in ("num", "string", "bool"):
            value = node[2]
            return kind, lambda frame: value
        if kind == "name":
            return self.read(line, *node[2:])
        if kind == "call":
            return self.call(line, node[2], node[3])
        if kind == "unary":
            wanted = "num" if node[2] == "-" else "bool"
            inner = self.typed(node[3], wanted)
            return wanted, (lambda frame: -inner(frame)) if wanted == "num" else (lambda frame: not inner(frame))
        return self.binary(line, *node[2:])

    def binary(self, line: int, op: str, a: Node, b: Node) -> tuple[str, Expression]:
        kind, left = self.expression(a)
        if op in ("and", "or", "xor"):
            x, y = self.typed(a, "bool"), self.typed(b, "bool")
            if op == "and":
                return "bool", lambda frame: x(frame) and y(frame)
            if op == "or":
                return "bool", lambda frame: x(frame) or y(frame)
            return "bool", lambda frame: x(frame) != y(frame)
        if kind not in ("num", "string", "bool") or (op not in ("==", "!=", "+") and kind != "num"):
            raise self.error(line, f"{op} does not work with {kind or 'nothing'}")
        right = self.typed(b, kind)
        if op in ("==", "!="):
            wanted = op == "=="
            return "bool", lambda frame: (left(frame) == right(frame)) is wanted
        act = _ARITHMETIC[op]
        result = "bool" if op in ("<", ">", "<=", ">=") else kind
        return result, lambda frame: self.guarded(line, lambda: act(left(frame), right(frame)))

    def call(self, line: int, name: str, arguments: list[Node]) -> tuple[str, Expression]:
        function = self.runner.functions.get(name.lower())
        if function is None:
            raise self.error(line, f"there is no instruction called {name!r}")
        n = len(function.arguments)
        if len(arguments) > n or (len(arguments) < n and not function.more):
            raise self.error(line, f"{name} takes {n} arguments, not {len(arguments)}")
        given: list[Expression] = []
        for node, kind in zip(arguments, function.arguments, strict=False):
            given.append(self.expression(node)[1] if kind == "*" else self.typed(node, kind))
        return function.result, lambda frame: self.guarded(
            line, lambda: function.act(*[value(frame) for value in given])
        )

    def guarded(self, line: int, act: Callable[[], Any]) -> Any:
        """Do something that may fail, and say in which line it did."""
        try:
            return act()
        except (ArithmeticError, ValueError, TypeError) as error:
            raise self.error(line, str(error)) from None

    def read(self, line: int, name: str, index: Node | None, field: str | None) -> tuple[str, Expression]:
        kind, element = self.element(line, name, index)
        if field is None:
            copied = kind in ("jointRx", "mdesc")

            def whole(frame: Frame) -> Any:
                array, k = element(frame)
                return array[k].copy() if copied else array[k]

            return kind, whole
        key = self.field(line, name, kind, field)

        def part(frame: Frame) -> Any:
            array, k = element(frame)
            return array[k][key]

        return "num", part

    def place(self, node: Node) -> tuple[str, Callable[[Frame, Any], None]]:
        """Where a value is stored, and of which type it must be."""
        if node[0] != "name":
            raise self.error(node[1], "only names take values")
        _, line, name, index, field = node
        kind, element = self.element(line, name, index)
        key = None if field is None else self.field(line, name, kind, field)
        tell = self.runner.watched.get(name) if name not in self.local else None

        def store(frame: Frame, value: Any) -> None:
            array, k = element(frame)
            if key is None:
                array[k] = value
            else:
                array[k][key] = value
            if tell:
                tell(value)

        return (kind if key is None else "num"), store

    def field(self, line: int, name: str, kind: str, field: str) -> int | str:
        if kind == "jointRx" and field in _AXES:
            return _AXES[field]
        if kind == "mdesc" and field != "blend" and field in dict(default("mdesc")):  # type: ignore[arg-type]
            return field
        raise self.error(line, f"{name!r} of type {kind} has no {field!r}")

    def element(self, line: int, name: str, index: Node | None) -> tuple[str, Callable[[Frame], tuple[list[Any], int]]]:
        """Which array a name stands for, and which of its elements; the first where none is stated."""
        kind = self.local.get(name) or self.runner.kinds.get(name)
        if kind is None:
            raise self.error(line, f"{name!r} is not in the application's data")
        shared = None if name in self.local else self.runner.data[name]
        at = None if index is None else self.typed(index, "num")

        def find(frame: Frame) -> tuple[list[Any], int]:
            array = frame[name] if shared is None else shared
            k = 0 if at is None else at(frame)
            if not (0 <= k < len(array) and k == int(k)):
                raise self.error(line, f"{name}[{k:g}] is outside its {len(array)} elements")
            return array, int(k)

        return kind, find
