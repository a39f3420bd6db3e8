"""Expressions of KRL: the words of a line -> closures.

Comparisons bind weakest of all operators, weaker than AND and OR: `(A<1) OR (B>2)` needs its brackets.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from excitor.design.programs.languages.krl_values import (
    COMPARED,
    FUNCTIONS,
    LEVELS,
    Fault,
    Value,
    Word,
    integer,
    number,
    real,
    single,
    stored,
    truth,
    whole,
)

Closure = Callable[["State"], Value]

_TOKEN = re.compile(
    r"""\s*(?:(?P<real>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>\d+)|(?P<string>"[^"]*")
    |(?P<bits>'[HhBb][0-9A-Fa-f]+')|(?P<name>[$A-Za-z_][$\w]*)|(?P<word>\#\w+)
    |(?P<op><>|<=|>=|==|[-+*/<>=(){}\[\],.:]))""",
    re.VERBOSE,
)
_AXES = re.compile(r"\{\s*([A-Z]\d\s+[-+]?\d+\.?\d*(?:\s*,\s*[A-Z]\d\s+[-+]?\d+\.?\d*)*)\s*\}")


@dataclass(slots=True)
class State:
    """A running program: its variables, and the robot that it moves."""

    robot: Any  # excitor.design.programs.languages.krl.Robot
    routines: Mapping[str, Any]
    variables: dict[str, Value] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    passes: int = 0  # of loops since time last went by
    result: Value = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """What a routine is called with; a variable may be written by it."""

    read: Callable[[], Value]
    write: Callable[[Value], None] | None


def tokens_of(text: str) -> list[tuple[str, str]]:
    """Cut a line into (kind, text); names and enumerations in upper case."""
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Fault(f"cannot read {text[at:].strip()[:30]!r}")
        kind = str(match.lastgroup)
        found.append((kind, match[kind].upper() if kind in ("name", "word") else match[kind]))
        at = match.end()
    return found


def plain_axes(text: str) -> dict[str, float] | None:
    """Read {A1 1.0,A2 -2.0} of numbers alone, quickly; None for anything else."""
    match = _AXES.fullmatch(text.strip())
    if match is None:
        return None
    pairs = [pair.split() for pair in match[1].split(",")]
    values = {name: single(float(number)) for name, number in pairs}
    if len(values) != len(pairs):
        raise Fault("names an axis twice")
    return values


class Reader:
    """Reads expressions from a line's tokens, against the names that are declared."""

    def __init__(
        self, text: str, types: Mapping[str, str], routines: Collection[str], known: Mapping[str, Value],
        calls: Collection[str],
    ) -> None:  # fmt: skip
        self.tokens = tokens_of(text)
        self.at = 0
        self.types, self.routines, self.known, self.calls = types, routines, known, calls

    def peek(self) -> str:
        """Look at the next token; empty at the line's end."""
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        if self.peek() == text and self.tokens[self.at][0] != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Demand a token."""
        if not self.accept(text):
            raise Fault(f"{self.peek() or 'the end of the line'!r} stands where {text!r} is expected")

    def name(self) -> str:
        """Demand a name."""
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            raise Fault(f"{self.peek() or 'the end of the line'!r} stands where a name is expected")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def end(self) -> None:
        """Demand the line's end."""
        if self.at < len(self.tokens):
            raise Fault(f"{self.peek()!r} is too much")

    def expression(self) -> Closure:
        """Read an expression: comparisons bind weakest."""
        left = self._level(0)
        while self.peek() in COMPARED:
            compare, right = COMPARED[self._next()], self._level(0)
            left = _two(compare, left, right)
        return left

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def _level(self, k: int) -> Closure:
        if k == len(LEVELS):
            return self._unary()
        left = self._level(k + 1)
        while self.peek() in LEVELS[k] and self.tokens[self.at][0] != "string":
            operate, right = LEVELS[k][self._next()], self._level(k + 1)
            left = _two(operate, left, right)
        return left

    def _unary(self) -> Closure:
        if self.accept("NOT"):
            inner = self._unary()
            return lambda state: not truth(inner(state))
        if self.accept("-"):
            inner = self._unary()
            return lambda state: -number(inner(state))
        if self.accept("+"):
            return self._unary()
        return self._members(self._primary())

    def _primary(self) -> Closure:
        if self.at >= len(self.tokens):
            raise Fault("the expression ends too early")
        kind, text = self.tokens[self.at]
        if kind == "name":
            return self._named()
        self.at += 1
        if text == "(" and kind == "op":
            inner = self.expression()
            self.expect(")")
            return inner
        if text == "{" and kind == "op":
            return self._structure()
        constant = _constant(kind, text)
        return lambda state: constant

    def _structure(self) -> Closure:
        if self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][1] == ":":
            self.name()
            self.expect(":")
        members: dict[str, Closure] = {}
        while True:
            name = self.name()
            if name in members:
                raise Fault(f"names {name} twice")
            members[name] = self.expression()
            if not self.accept(","):
                break
        self.expect("}")
        return lambda state: {name: real(read(state)) for name, read in members.items()}

    def _named(self) -> Closure:
        name = self.name()
        if name in ("TRUE", "FALSE"):
            constant = name == "TRUE"
            return lambda state: constant
        if self.peek() == "(":
            return self.call(name)
        if name in self.known:
            constant = self.known[name]
            return lambda state: constant
        return self.variable(name)

    def variable(self, name: str) -> Closure:
        """Read a variable; the robot's own begin with $."""
        if name.startswith("$"):
            return lambda state: state.robot.read(name)
        if name not in self.types:
            raise Fault(f"{name} is not declared")

        def read(state: State) -> Value:
            if name not in state.variables:
                raise Fault(f"{name} has no value yet")
            return state.variables[name]

        return read

    def _members(self, read: Closure) -> Closure:
        while True:
            if self.accept("."):
                name = self.name()
                read = _member(read, name)
            elif self.accept("["):
                index = self.expression() if self.peek() != "]" else None
                self.expect("]")
                read = _element(read, index)
            else:
                return read

    def call(self, name: str) -> Closure:
        """Read the arguments of a routine, ours or the controller's."""
        self.expect("(")
        arguments: list[tuple[str, Closure]] = []
        while self.peek() != ")":
            kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
            follows = self.tokens[self.at + 1][1] if self.at + 1 < len(self.tokens) else ""
            variable = text if kind == "name" and text in self.types and follows in (",", ")") else ""
            if variable:
                self.at += 1
                arguments.append((variable, self.variable(variable)))
            else:
                arguments.append(("", self.expression()))
            if not self.accept(","):
                break
        self.expect(")")
        if name not in FUNCTIONS and name not in self.routines and name not in self.calls:
            raise Fault(f"there is no routine {name}")
        if name in FUNCTIONS:
            return _function(name, [read for _, read in arguments])

        def called(state: State) -> Value:
            given = [_argument(state, variable, read) for variable, read in arguments]
            if name in state.routines:
                return state.routines[name].run(state, given)
            return state.robot.call(name, given)

        return called


def _argument(state: State, variable: str, read: Closure) -> Argument:
    def write(value: Value) -> None:
        state.variables[variable] = stored(state.types[variable], value)

    return Argument(lambda: read(state), write if variable else None)


def _constant(kind: str, text: str) -> Value:
    if kind == "int":
        return whole(int(text))
    if kind == "real":
        return single(float(text))
    if kind == "string":
        return text[1:-1]
    if kind == "word":
        return Word(text)
    if kind == "bits":
        return whole(int(text[2:-1], 16 if text[1] in "hH" else 2))
    raise Fault(f"{text!r} stands where a value is expected")


def _two(operate: Callable[[Value, Value], Value], left: Closure, right: Closure) -> Closure:
    return lambda state: operate(left(state), right(state))


def _member(read: Closure, name: str) -> Closure:
    def member(state: State) -> Value:
        value = read(state)
        if not isinstance(value, dict) or name not in value:
            raise Fault(f"has no member {name}")
        return value[name]

    return member


def _element(read: Closure, index: Closure | None) -> Closure:
    def element(state: State) -> Value:
        value = read(state)
        if index is None:  # a string as a whole: NAME[]
            return value
        k = integer(index(state))
        if not isinstance(value, list) or not 1 <= k <= len(value):
            raise Fault(f"has no element {k}")
        return value[k - 1]

    return element


def _function(name: str, arguments: list[Closure]) -> Closure:
    count, evaluate = FUNCTIONS[name]
    if len(arguments) != count:
        raise Fault(f"{name} takes {count} arguments, not {len(arguments)}")

    def called(state: State) -> Value:
        try:
            result = evaluate(*(number(read(state)) for read in arguments))
        except ValueError:
            raise Fault(f"{name} of a number that it is not defined for") from None
        return result if isinstance(result, int) else single(result)

    return called
