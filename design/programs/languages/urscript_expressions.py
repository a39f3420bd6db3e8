"""Expressions of URScript as closures on a frame: what is constant or a plain variable is fetched without a call.

A call that takes time, such as servoj or a function that calls it, is made before its statement: `pauses` lists them.
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.urscript_grammar import Node
from excitor.design.programs.languages.urscript_values import (
    ARITHMETIC,
    COMPARISONS,
    LARGEST,
    UNSET,
    Array,
    Pose,
    Struct,
    Text,
    Trouble,
    item,
    number,
    storable,
    truth,
)

Frame = list[Any]  # of one call: what it returns, its parameters, its variables
Run = Callable[[Frame], Any]
Steps = Generator[int, None, Any]  # for how many control steps to wait, each time; then what a function returns

MOST_PASSES = 10_000  # of loops and calls within one control step


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of the controller. One that waits returns for how many control steps."""

    call: Callable[..., Any]
    waits: bool = False


@dataclass(slots=True)
class Function:
    """A function or thread of the program, once its body is compiled."""

    name: str
    node: Node
    parameters: tuple[str, ...]
    waits: bool = False
    defined: bool = False  # whether execution came past its definition
    defaults: list[Run | None] = field(default_factory=list)
    body: Run = lambda frame: None
    blanks: tuple[Any, ...] = ()  # variables without a value


@dataclass(frozen=True, slots=True)
class Expression:
    """How to evaluate; and where the value lies if that takes no evaluation."""

    run: Run
    constant: Any = UNSET
    local: int | None = None
    truth: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the value is known."""
        return self.constant is not UNSET


@dataclass(frozen=True, slots=True)
class Pause:
    """A call that takes time; its value goes to a slot of the frame. Builtins return how long, functions generate."""

    slot: int
    call: Run
    builtin: bool


class Runtime:
    """What all threads share."""

    def __init__(self, file: str, builtins: Mapping[str, Builtin]) -> None:
        self.file = file
        self.builtins = builtins
        self.functions: dict[str, Function] = {}
        self.globals: dict[str, int] = {}
        self.values: list[Any] = []
        self.passes = [0]  # of loops and calls since time last moved
        self.spawn: Callable[[Steps], Any] = lambda steps: None

    def fail(self, node: Node, sentence: str) -> ProgramError:
        """Make the error of a node."""
        return ProgramError(self.file, getattr(node.meta, "line", None), sentence)

    def slot(self, name: str) -> int:
        """Find a global's place, or make one."""
        if name not in self.globals:
            self.globals[name] = len(self.values)
            self.values.append(UNSET)
        return self.globals[name]

    def spend(self) -> None:
        """Count a pass that took no time."""
        self.passes[0] += 1
        if self.passes[0] > MOST_PASSES:
            raise Trouble("too much computation without motion, sync or sleep: a controller stops such a program")


class Expressions:
    """Compiles the expressions of one function."""

    def __init__(self, runtime: Runtime, local: tuple[str, ...]) -> None:
        self.runtime = runtime
        self.locals = {name: k + 1 for k, name in enumerate(local)}
        self.size = len(local) + 1
        self.pauses: list[Pause] = []

    def compile(self, node: Node) -> Expression:
        """Compile an expression."""
        made: Expression = getattr(self, "_" + str(node.data))(node)
        return made

    def temporary(self) -> int:
        """Make a slot that has no name."""
        self.size += 1
        return self.size - 1

    def _constant(self, value: Any) -> Expression:
        return Expression(lambda f: value, value, truth=isinstance(value, bool))

    def _integer(self, node: Node) -> Expression:
        value = int(str(node.children[0]), 0 if str(node.children[0]).startswith("0x") else 10)
        if value >= LARGEST:
            raise self.runtime.fail(node, f"{value} exceeds the 32 bits of an integer; write {value}.0")
        return self._constant(value)

    def _float(self, node: Node) -> Expression:
        return self._constant(float(str(node.children[0])))

    def _string(self, node: Node) -> Expression:
        return self._constant(Text(str(node.children[0])[1:-1]))

    def _true(self, node: Node) -> Expression:
        return self._constant(True)

    def _false(self, node: Node) -> Expression:
        return self._constant(False)

    def _name(self, node: Node) -> Expression:
        name = str(node.children[0])
        if name in self.locals:
            k = self.locals[name]
            return Expression(lambda f: f[k], local=k)
        if name not in self.runtime.globals:
            raise self.runtime.fail(node, f"nothing is called {name!r}")
        values, k = self.runtime.values, self.runtime.globals[name]
        return Expression(lambda f: values[k])

    def _list(self, node: Node) -> Expression:
        runs = self._items(node.children[0])
        return Expression(lambda f: Array([storable(run(f)) for run in runs]))

    def _pose(self, node: Node) -> Expression:
        runs = self._items(node.children[1])
        if len(runs) != 6:
            raise self.runtime.fail(node, f"a pose has 6 numbers, not {len(runs)}")
        return Expression(lambda f: Pose([number(run(f)) for run in runs]))

    def _items(self, node: Any) -> list[Run]:
        return [] if node is None else [self.compile(child).run for child in node.children]

    def _index(self, node: Node) -> Expression:
        values, index = (self.compile(child) for child in node.children)
        fetch, at = values.run, index.run
        return Expression(lambda f: item(fetch(f), at(f)))

    def _cell(self, node: Node) -> Expression:
        fetch, row, column = (self.compile(child).run for child in node.children)
        return Expression(lambda f: item(item(fetch(f), row(f)), column(f)))

    def _member(self, node: Node) -> Expression:
        fetch, name = self.compile(node.children[0]).run, str(node.children[1])

        def run(f: Frame) -> Any:
            value = fetch(f)
            if not isinstance(value, Struct) or name not in value:
                raise Trouble(f"no structure with a member {name!r}")
            return value[name]

        return Expression(run)

    def _sign(self, node: Node) -> Expression:
        operand = self._number(node.children[1])
        run = operand.run
        if node.children[0] == "+":
            return operand
        if operand.is_constant:
            return self._constant(-operand.constant)
        return Expression(lambda f: -run(f))

    def _number(self, node: Any) -> Expression:
        operand = self.compile(node)
        if operand.truth or isinstance(operand.constant, str):
            raise self.runtime.fail(node, "an operation for numbers is given truth or text")
        return operand

    def _arithmetic(self, node: Node) -> Expression:
        weighted = self._weighted(node)
        if weighted is not None:
            return weighted
        a, b = (self._number(node.children[k]) for k in (0, 2))
        return Expression(_binary(ARITHMETIC[str(node.children[1])], a, b))

    def _weighted(self, node: Node) -> Expression | None:
        """x ± c1 v1 ± c2 v2 ..., with constants c and local variables v, from left to right as written."""
        terms: list[tuple[float, int]] = []
        at: Any = node
        while at.data == "arithmetic" and at.children[1] in ("+", "-"):
            term = self._term(at.children[2])
            if term is None:
                break
            terms.append((-term[0] if at.children[1] == "-" else term[0], term[1]))
            at = at.children[0]
        if len(terms) < 2:
            return None
        terms.reverse()
        first = self._number(at).run

        def run(f: Frame) -> Any:
            total = first(f)
            for c, k in terms:
                total = total + c * f[k]
            return total

        return Expression(run)

    def _term(self, node: Any) -> tuple[float, int] | None:
        if node.data != "arithmetic" or node.children[1] != "*" or node.children[0].data != "float":
            return None
        name = str(node.children[2].children[0]) if node.children[2].data == "name" else ""
        return (float(str(node.children[0].children[0])), self.locals[name]) if name in self.locals else None

    def _compare(self, node: Node) -> Expression:
        a, b = (self.compile(node.children[k]) for k in (0, 2))
        return Expression(_binary(COMPARISONS[str(node.children[1])], a, b), truth=True)

    def _logical(self, node: Node) -> Expression:
        a, b = (self.compile(node.children[k]).run for k in (0, 2))
        word = str(node.children[1])
        if word == "and":
            return Expression(lambda f: truth(a(f)) and truth(b(f)), truth=True)
        if word == "or":
            return Expression(lambda f: truth(a(f)) or truth(b(f)), truth=True)
        return Expression(lambda f: truth(a(f)) is not truth(b(f)), truth=True)

    def _not(self, node: Node) -> Expression:
        run = self.compile(node.children[0]).run
        return Expression(lambda f: not truth(run(f)), truth=True)

    def _named(self, node: Node) -> Expression:
        raise self.runtime.fail(node, "a named argument is given where it has no name")

    def _run(self, node: Node) -> Expression:
        thread = self.runtime.functions.get(str(node.children[0]))
        if thread is None or thread.node.data != "thread":
            raise self.runtime.fail(node, f"no thread is called {str(node.children[0])!r}")
        frame_of = self._frame_of(node, thread)

        def start(f: Frame) -> Any:
            self.runtime.spend()
            return self.runtime.spawn(_steps(thread, frame_of(f)))

        return Expression(start)

    def _invoke(self, node: Node) -> Expression:
        called: Any = node.children[0]
        if called.data != "name":
            raise self.runtime.fail(node, "a call to something outside of the controller cannot be followed")
        name = str(called.children[0])
        function = self.runtime.functions.get(name)
        if function is not None:
            return self._call(node, function)
        if name not in self.runtime.builtins:
            raise self.runtime.fail(node, f"no function is called {name!r}")
        builtin = self.runtime.builtins[name]
        run = self._builtin_call(node, name, builtin)
        return self._paused(run, builtin=True) if builtin.waits else Expression(run)

    def _paused(self, call: Run, *, builtin: bool) -> Expression:
        slot = self.temporary()
        self.pauses.append(Pause(slot, call, builtin))
        return Expression(lambda f: f[slot])

    def _call(self, node: Node, function: Function) -> Expression:
        if function.node.data == "thread":
            raise self.runtime.fail(node, f"{function.name!r} is a thread; start it with run")
        frame_of = self._frame_of(node, function)
        if function.waits:
            return self._paused(lambda f: _steps(function, frame_of(f)), builtin=False)
        runtime = self.runtime

        def run(f: Frame) -> Any:
            runtime.spend()
            frame = frame_of(f)
            function.body(frame)
            return frame[0]

        return Expression(run)

    def _frame_of(self, node: Node, function: Function) -> Run:
        given, named = self._arguments(node)
        unknown = [name for name in named if name not in function.parameters[len(given) :]]
        if unknown or len(given) > len(function.parameters):
            raise self.runtime.fail(node, f"{function.name} takes {', '.join(function.parameters) or 'no arguments'}")
        rest = function.parameters[len(given) :]
        k = len(given)
        missing = [name for j, name in enumerate(rest) if name not in named and function.defaults[k + j] is None]
        if missing:
            raise self.runtime.fail(node, f"{function.name} lacks {', '.join(missing)}")
        runs = given + [named.get(name) or function.defaults[k + j] for j, name in enumerate(rest)]

        def frame_of(f: Frame) -> Frame:
            if not function.defined:
                raise Trouble(f"{function.name} is called before its definition")
            values = [_passed(run(f)) for run in runs]  # type: ignore[misc]
            return [None, *values, *function.blanks]

        return frame_of

    def _arguments(self, node: Node) -> tuple[list[Run], dict[str, Run]]:
        given: list[Run] = []
        named: dict[str, Run] = {}
        arguments: Any = node.children[1]
        for argument in [] if arguments is None else arguments.children:
            if argument.data == "named":
                named[str(argument.children[0])] = self.compile(argument.children[1]).run
            elif named:
                raise self.runtime.fail(node, "an argument without a name follows one with a name")
            else:
                given.append(self.compile(argument).run)
        return given, named

    def _builtin_call(self, node: Node, name: str, builtin: Builtin) -> Run:
        given, named = self._arguments(node)
        try:
            inspect.signature(builtin.call).bind(*given, **named)
        except TypeError:
            takes = ", ".join(inspect.signature(builtin.call).parameters)
            raise self.runtime.fail(node, f"{name} takes {takes or 'no arguments'}") from None
        call = builtin.call
        if not named and len(given) == 1:
            only = given[0]
            return lambda f: call(only(f))
        if not named:
            return lambda f: call(*[run(f) for run in given])
        return lambda f: call(*[run(f) for run in given], **{key: run(f) for key, run in named.items()})


def _steps(function: Function, frame: Frame) -> Steps:
    """Run a function that takes time; generates for how many control steps it waits."""
    if function.waits:
        yield from function.body(frame)
    else:
        function.body(frame)
    return frame[0]


def _passed(value: Any) -> Any:
    return type(value)(value) if isinstance(value, Array) else storable(value)


def _binary(op: Callable[[Any, Any], Any], a: Expression, b: Expression) -> Run:
    i, j, x, y, left, right = a.local, b.local, a.constant, b.constant, a.run, b.run
    if i is not None and j is not None:
        return lambda f: op(f[i], f[j])
    if i is not None and b.is_constant:
        return lambda f: op(f[i], y)
    if a.is_constant and j is not None:
        return lambda f: op(x, f[j])
    if i is not None:
        return lambda f: op(f[i], right(f))
    if j is not None:
        return lambda f: op(left(f), f[j])
    if b.is_constant:
        return lambda f: op(left(f), y)
    if a.is_constant:
        return lambda f: op(x, right(f))
    return lambda f: op(left(f), right(f))
