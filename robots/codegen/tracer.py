"""Expressions recorded while a function runs: each different one stands once, and what is trivial folds away."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "abs": abs,
}


class Graph:
    """The expressions of one trace, in the order they were first needed."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Node] = {}

    def input(self, name: str, index: int) -> "Node":
        """Stand for an element of an argument, given anew at every call."""
        return self.node("input", (), (name, index))

    def parameter(self, index: int) -> "Node":
        """Stand for a constant that has a name."""
        return self.node("parameter", (), (index,))

    def number(self, value: float) -> "Node":
        """Stand for a number."""
        return self.node("number", (), (float(value),))

    def call(self, function: str, x: "Node | float") -> "Node":
        """Apply one of FUNCTIONS."""
        x = self.lift(x)
        if x.kind == "number":
            return self.number(FUNCTIONS[function](x.value))
        if x.kind == "neg" and function in ("sin", "tanh"):
            return -self.call(function, x.args[0])
        if x.kind == "neg" and function in ("cos", "abs"):
            return self.call(function, x.args[0])
        return self.node(function, (x,))

    def lift(self, x: "Node | float") -> "Node":
        """Take numbers for nodes."""
        return x if isinstance(x, Node) else self.number(x)

    def node(self, kind: str, args: "tuple[Node, ...]", label: tuple[Any, ...] = ()) -> "Node":
        """Find an expression, or record it."""
        key = (kind, tuple(arg.serial for arg in args), label)
        if key not in self._known:
            self._known[key] = Node(self, kind, args, label, len(self._known))
        return self._known[key]


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One expression. Two nodes of a graph that look alike are the same node."""

    graph: Graph
    kind: str  # input, parameter, number, add, sub, mul, neg, or one of FUNCTIONS
    args: "tuple[Node, ...]"
    label: tuple[Any, ...]
    serial: int

    @property
    def value(self) -> float:
        """Read a number's value."""
        return float(self.label[0])

    def is_number(self, value: float) -> bool:
        """Tell whether this is that number."""
        return self.kind == "number" and self.value == value

    def __neg__(self) -> "Node":
        if self.kind == "number":
            return self.graph.number(0.0 if self.value == 0.0 else -self.value)
        if self.kind == "neg":
            return self.args[0]
        if self.kind == "sub":
            return self.args[1] - self.args[0]
        return self.graph.node("neg", (self,))

    def __add__(self, other: "Node | float") -> "Node":
        other = self.graph.lift(other)
        if self.kind == "number" and other.kind == "number":
            return self.graph.number(self.value + other.value)
        if self.is_number(0.0):
            return other
        if other.is_number(0.0):
            return self
        if other.kind == "neg":
            return self - other.args[0]
        if self.kind == "neg":
            return other - self.args[0]
        return self.graph.node("add", _ordered(self, other))

    def __sub__(self, other: "Node | float") -> "Node":
        other = self.graph.lift(other)
        if self is other:
            return self.graph.number(0.0)
        if self.kind == "number" and other.kind == "number":
            return self.graph.number(self.value - other.value)
        if self.is_number(0.0):
            return -other
        if other.is_number(0.0):
            return self
        if other.kind == "neg":
            return self + other.args[0]
        if self.kind == "neg":
            return -(self.args[0] + other)
        return self.graph.node("sub", (self, other))

    def __mul__(self, other: "Node | float") -> "Node":
        other = self.graph.lift(other)
        for x, y in ((self, other), (other, self)):
            if x.is_number(0.0):
                return x
            if x.is_number(1.0):
                return y
            if x.is_number(-1.0) or (x.kind == "number" and x.value < 0.0):
                return -(y * -x)
            if x.kind == "neg":
                return -(x.args[0] * y)
            if x.kind == "number" and y.kind == "number":
                return self.graph.number(x.value * y.value)
        return self.graph.node("mul", _ordered(self, other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> "Node":
        return self.graph.lift(other) - self


@dataclass(frozen=True, slots=True)
class Count:
    """How many operations expressions take; changes of sign are free, and so is what depends on constants alone."""

    additions: int
    multiplications: int
    functions: int  # sines, cosines, exponentials and so on

    @property
    def total(self) -> int:
        """Add them all up."""
        return self.additions + self.multiplications + self.functions


def needed(results: Iterable[Node]) -> list[Node]:
    """List all nodes that results are made of, each after what it is made of."""
    found: dict[int, Node] = {}
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        if node.serial not in found:
            found[node.serial] = node
            waiting += node.args
    return [found[serial] for serial in sorted(found)]


def count(results: Sequence[Node]) -> Count:
    """Count operations, each shared one once."""
    constant: set[int] = set()
    kinds: list[str] = []
    for node in needed(results):
        if node.kind in ("number", "parameter") or (node.args and all(arg.serial in constant for arg in node.args)):
            constant.add(node.serial)
        else:
            kinds.append(node.kind)
    return Count(
        additions=kinds.count("add") + kinds.count("sub"),
        multiplications=kinds.count("mul"),
        functions=sum(kind in FUNCTIONS for kind in kinds),
    )


def _ordered(x: Node, y: Node) -> tuple[Node, Node]:
    return (x, y) if x.serial <= y.serial else (y, x)
