"""Interpreter of URScript: text -> closures on frames, in one reading, or ProgramError with the line.

Values are numbers, booleans, strings, lists, poses and structures; operations check their operands. Constants and plain
variables are read without a call. A statement or function that waits is a generator of the control steps it takes;
threads run on a virtual clock that counts control steps.
"""

import inspect
import math
import operator
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from excitor.design.programs.runtime import (
    BREAK,
    CONTINUE,
    ORDER,
    RETURN,
    Assign,
    Fault,
    Guard,
    Level,
    Operand,
    Operators,
    Passes,
    Reader,
    Run,
    Token,
    choice,
    loop,
    operation,
    scan,
)
from excitor.design.programs.target import ProgramError

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*)|(?P<line>\n)|(?P<label>\$[^\n]*)|(?P<string>"[^"\n]*"|'[^'\n]*')|(?P<pose>p\[)
    |(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>0x[0-9A-Fa-f]+|\d+)
    |(?P<name>[A-Za-z_]\w*)|(?P<sign>==|!=|<=|>=|[-+*/%<>=()\[\],.:])""",
    re.VERBOSE | re.ASCII,
)
_LISTED = (
    "def sec thread while if elif else return break continue halt pass kill join enter_critical exit_critical end "
    "global local and or xor not True False run"
)
_WORDS = frozenset(_LISTED.split())
_OWN = ("def", "thread", "sec")
_END = "the end of the text"


def _tokens(text: str) -> list[Token]:
    """Cut a script into tokens; line ends inside brackets are blanks."""
    found, depth = [], 0
    for kind, part, line in scan(_TOKEN, text, 1, lambda rest: f"{rest[0]!r} is no part of the language"):
        depth += (part in ("(", "[", "p[")) - (part in (")", "]")) if kind in ("sign", "pose") else 0
        if kind == "line" and depth > 0:
            continue
        key = part if kind in ("sign", "pose", "line") or part in _WORDS else "$" if kind == "label" else ""
        found.append(Token(kind, part, line, key))
    return [*found, Token("end", _END, text.count("\n") + 1, _END)]


LARGEST = 2**31  # integers have 32 bits
LONGEST = 10_000  # characters of a string, items of a list


def _refuse(self: Any, other: Any = None) -> NoReturn:
    if UNSET is self or UNSET is other:
        raise Fault("a variable is used before it has a value")
    pair = shown(self) if other is None else f"{shown(self)} and {shown(other)}"
    raise Fault(f"{pair}: this operation is for numbers")


class Unset:
    """Value of a variable before its first assignment; every operation on it is an error."""

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __bool__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__


def _itemwise(op: Callable[[Any, Any], Any], *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    return lambda self, other: _each(op, other, self) if swapped else _each(op, self, other)


class Array(list[Any]):
    """A list. `shared` once it was assigned as a whole: whether that copies is not documented."""

    __slots__ = ("shared",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.shared = False

    __lt__ = __gt__ = __le__ = __ge__ = __imul__ = __iadd__ = _refuse
    __add__ = __radd__ = _itemwise(operator.add)
    __sub__, __rsub__ = _itemwise(operator.sub), _itemwise(operator.sub, swapped=True)
    __mul__ = __rmul__ = _itemwise(operator.mul)
    __truediv__ = _itemwise(lambda a, b: divide(a, b))

    def __neg__(self) -> "Array":
        return _each(operator.mul, -1, self)


class Pose(Array):
    """A place and an orientation of the tool, m and rad."""

    __slots__ = ()


def _each(op: Callable[[Any, Any], Any], a: Any, b: Any) -> Array:
    """Apply an operation item by item: to lists of the same length, or a list and a number."""
    for value in (a, b):
        if type(value) not in (int, float, Array):
            raise Fault(f"{shown(a)} and {shown(b)} are not both numbers or lists of them")
    n = max(len(x) for x in (a, b) if type(x) is Array)
    left, right = (x if type(x) is Array else [x] * n for x in (a, b))
    if len(left) != len(right):
        raise Fault(f"lists of {len(left)} and {len(right)} items do not fit each other")
    return Array(op(number(x), number(y)) for x, y in zip(left, right, strict=True))


def number(value: Any, what: str = "this") -> float:
    """Return a finite number; raise Trouble for other values."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return float(value)
    raise Fault(f"{what} is {shown(value)}, expected a number")


def shown(value: Any) -> str:
    """Write a value as textmsg does; never long."""
    if value is UNSET:
        return "a variable without a value"
    if isinstance(value, Array):
        items = ", ".join(shown(x) for x in value[:6])
        return f"{'p' if isinstance(value, Pose) else ''}[{items}{', ...' if len(value) > 6 else ''}]"
    return "nothing" if value is None else str(value)[:200]


def divide(a: Any, b: Any) -> Any:
    """Divide; two integers only where every reading of the division gives the same."""
    if type(a) is int and type(b) is int:
        if b == 0:
            raise Fault("division by zero")
        if a % b:
            raise Fault(f"{a} / {b} divides integers, which not all versions do alike; write 1.0 * in front")
        return a // b
    return a / b


UNSET = Unset()


class Text(str):
    """A string; it is no number, and multiplies nothing."""

    __slots__ = ()
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse
    __lt__ = __gt__ = __le__ = __ge__ = _refuse


class Struct(dict[str, Any]):
    """Named values."""


def integer(value: Any, what: str = "this") -> int:
    """Return an integer; raise Trouble for other values."""
    if type(value) is not int:
        raise Fault(f"{what} is {shown(value)}, expected an integer")
    return value


def truth(value: Any) -> bool:
    """Return True or False; raise Trouble for other values."""
    if value is not True and value is not False:
        raise Fault(f"a condition is {shown(value)}, expected True or False")
    return bool(value)


def storable(value: Any) -> Any:
    """Refuse values that a variable cannot hold."""
    kind = type(value)
    if kind is int and not -LARGEST <= value < LARGEST:
        raise Fault(f"{value} exceeds the 32 bits of an integer")
    if value is None:
        raise Fault("a function that returns nothing is used as a value")
    if value is UNSET:
        raise Fault("a variable is used before it has a value")
    return value


def remainder(a: Any, b: Any) -> Any:
    """Remainder of a division, which has the sign of the dividend."""
    rest = math.fmod(number(a), number(b))
    return int(rest) if type(a) is int and type(b) is int else rest


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": remainder,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"==": operator.eq, "!=": operator.ne, **ORDER}


def item(values: Any, index: Any) -> Any:
    """Return an item of a list."""
    return values[_place(values, index)]


def put(values: Any, index: Any, value: Any) -> None:
    """Replace an item of a list."""
    place = _place(values, index)
    if values.shared:
        raise Fault(
            "an item is changed of a list that was assigned from another; "
            "whether that copies the list is not documented, write it as a literal"
        )
    if isinstance(value, Array):
        raise Fault("a list becomes an item of a list, which holds numbers")
    values[place] = value


def _place(values: Any, index: Any) -> int:
    if not isinstance(values, Array):
        raise Fault(f"{shown(values)} is no list, and has no items")
    if type(index) is not int or not 0 <= index < len(values):
        raise Fault(f"item {shown(index)} of a list of {len(values)}")
    return index


Frame = list[Any]  # of one call: what it returns, its parameters, its variables
Steps = Generator[int, None, Any]  # for how many control steps to wait, each time; then what a function returns

MOST_PASSES = 10_000  # of loops and calls within one control step
_TOO_MUCH = "too much computation without motion, sync or sleep: a controller stops such a program"
_WRONG = (ArithmeticError, ValueError, TypeError, Fault)


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of the controller. One that waits returns for how many control steps."""

    call: Callable[..., Any]
    waits: bool = False


@dataclass(slots=True)
class Function:
    """A function or thread of the program: its place among the tokens, its names, and its body once it is compiled."""

    name: str
    kind: str  # "def", "thread", "sec"; empty: the program itself
    at: int = 0  # the bracket of its parameters
    end: int = 0
    assigned: dict[str, None] = field(default_factory=dict)
    local: set[str] = field(default_factory=set)  # declared so
    called: set[str] = field(default_factory=set)
    parameters: tuple[str, ...] = ()
    waits: bool = False
    defined: bool = False  # whether execution came past its definition
    defaults: list[Run | None] = field(default_factory=list)
    body: Run = lambda frame: None
    blanks: tuple[Any, ...] = ()  # variables without a value


@dataclass(frozen=True, slots=True)
class Expression:
    """Compiled expression; with the constant or local slot of its value where no evaluation is needed."""

    run: Run
    constant: Any = UNSET
    local: int | None = None
    truth: bool = False
    name: str = ""  # of a variable
    call: bool = False
    assign: Callable[[Run], Run] | None = None  # of a place, given a value
    term: tuple[float, int] | None = None  # a number times the local variable of a slot
    total: tuple[Run, tuple[tuple[float, int], ...]] | None = None  # something plus terms

    @property
    def is_constant(self) -> bool:
        """True if the value is known at compile time."""
        return self.constant is not UNSET


@dataclass(frozen=True, slots=True)
class Statement:
    """Compiled statement; its `run` is a generator where it waits.

    Of a call alone it is one whose value is dropped, or tells for how long where a builtin is called.
    """

    run: Run
    waits: bool = False
    line: int | None = None
    alone: Literal["", "function", "builtin"] = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A call that takes time; its value goes to a slot of the frame. Builtins return how long, functions generate."""

    slot: int
    call: Run
    body: Run | None = None  # of a function: what it does


class Runtime:
    """State shared by all threads: built-ins, functions, globals and the count of passes."""

    def __init__(self, file: str, builtins: Mapping[str, Builtin]) -> None:
        self.file = file
        self.builtins = builtins
        self.functions: dict[str, Function] = {}
        self.globals: dict[str, int] = {}
        self.values: list[Any] = []
        self.guard = Guard(file, _WRONG, _sentence)
        self.passes = Passes(MOST_PASSES, _TOO_MUCH)  # of loops and calls since time last moved
        self.spawn: Callable[[Steps], Any] = lambda steps: None
        self.main: Callable[[], Steps]

    def start(self) -> Steps:
        """Begin the main thread, before which nothing has a value or is defined."""
        self.values[:] = [UNSET] * len(self.values)
        for function in self.functions.values():
            function.defined = False
        return self.main()

    def slot(self, name: str) -> int:
        """Return the slot of a global; create it at first use."""
        if name not in self.globals:
            self.globals[name] = len(self.values)
            self.values.append(UNSET)
        return self.globals[name]

    def known(self, names: Iterable[str], line: int) -> None:
        """Refuse to assign to functions."""
        for name in names:
            if name in self.functions or name in self.builtins:
                raise Fault(f"{name!r} is a function, and is assigned a value", line)


class _Script(Reader[Expression]):
    """Reads the statements of one function; every one becomes a function of a frame as soon as it is read."""

    operators = Operators(
        Level(("or", "xor")), Level(("and",)), Level(prefix=("not",)),
        Level(("==", "!=", "<", ">", "<=", ">="), chain=False), Level(("+", "-")), Level(("*", "/", "%")),
        Level(prefix=("+", "-")),
    )  # fmt: skip

    def __init__(self, runtime: Runtime, tokens: list[Token], at: int, local: Sequence[str] = ()) -> None:
        super().__init__(tokens)
        self.runtime, self.at = runtime, at
        self.locals = {name: k + 1 for k, name in enumerate(local)}
        self.size = len(local) + 1
        self.pauses: list[Pause] = []
        self.loops = 0

    def missing(self, *keys: str) -> str:
        return _unexpected(self.next, "expected " + ", ".join("a line end" if key == "\n" else key for key in keys[:6]))

    def name(self) -> str:
        if self.next.kind != "name" or self.next.key:
            self.fail(self.missing("a name"))
        return self.take().text

    # ---- statements

    def block(self, *closers: str) -> tuple[Statement, str]:
        """Read statements up to one of some words, which is taken."""
        made: list[Statement] = []
        while True:
            while self.accept("\n", "$"):
                pass
            if closer := self.accept(*closers):
                return _sequence(self.runtime.guard, made), closer
            made.append(self.statement())
            if not self.sees("\n", "$", *closers):
                self.fail(self.missing("\n", *closers))

    def suite(self, *closers: str) -> tuple[Statement, str]:
        self.expect(":")
        return self.block(*closers)

    def statement(self) -> Statement:
        known: dict[str, Callable[[], Statement]] = {
            "def": self.define, "thread": self.define, "sec": self.define, "while": self.whilst, "if": self.branch,
            "return": self.give, "break": self.leave, "continue": self.leave, "halt": self.halt, "kill": self.kill,
            "join": self.join, "pass": _nothing, "enter_critical": _nothing, "exit_critical": _nothing,
        }  # fmt: skip
        line, pauses, self.pauses = self.next.line, self.pauses, []
        bare, word = False, self.accept(*known)
        if word:
            made = known[word]()
        else:
            made, bare = self.assignment()
        mine, self.pauses = self.pauses, pauses
        if mine:
            made = _after(mine, made, bare=bare)
        return Statement(made.run, made.waits, line, made.alone)

    def assignment(self) -> tuple[Statement, bool]:
        """Read PLACE = VALUE or a call, which is told."""
        line, scope = self.next.line, self.accept("global", "local")
        place = self.expression()
        if self.accept("="):
            value = self.expression()
            if place.assign is None or (scope and not place.name):
                raise Fault("only variables, their items and members are assigned values", line)
            return Statement(place.assign(_aliased(value.run) if value.name else value.run)), False
        if scope and place.name:
            return _nothing(), False
        if not place.call:
            raise Fault("a value that nothing is done with", line)

        def call(f: Frame) -> None:
            place.run(f)

        return Statement(call), True

    def define(self) -> Statement:
        if self.tokens[self.at - 1].key == "sec":
            raise Fault("a secondary program inside of a program", self.tokens[self.at - 1].line)
        function = self.runtime.functions[self.name()]
        self.at = function.end + 1

        def define(f: Frame) -> None:
            function.defined = True

        return Statement(define)

    def give(self) -> Statement:
        run = (lambda f: None) if self.sees("\n", "end", "elif", "else") else self.expression().run

        def leave(f: Frame) -> str:
            f[0] = run(f)
            return RETURN

        return Statement(leave)

    def leave(self) -> Statement:
        word = self.tokens[self.at - 1]
        if self.loops == 0:
            raise Fault(f"{word.key} outside of a loop", word.line)
        signal = BREAK if word.key == "break" else CONTINUE
        return Statement(lambda f: signal)

    def halt(self) -> Statement:
        def halt(f: Frame) -> None:
            raise Halt

        return Statement(halt)

    def kill(self) -> Statement:
        run = self.expression().run
        return Statement(lambda f: _thread_of(run(f)).kill())

    def join(self) -> Statement:
        run = self.expression().run

        def join(f: Frame) -> Steps:
            thread = _thread_of(run(f))
            while thread.alive:
                yield 1

        return Statement(join, waits=True)

    def test(self) -> Run:
        """Read a condition."""
        line, condition = self.next.line, self.expression()
        if condition.is_constant and not condition.truth:
            raise Fault(f"a condition is {shown(condition.constant)}, expected True or False", line)
        run = condition.run
        return lambda f: truth(run(f))

    def whilst(self) -> Statement:
        pauses, self.pauses = self.pauses, []
        test = self.test()
        mine, self.pauses = self.pauses, pauses
        self.loops += 1
        body, _ = self.suite("end")
        self.loops -= 1
        spend = self.runtime.passes.spend
        if mine or body.waits:
            return Statement(_slow_loop(mine, test, body, spend), waits=True)
        return Statement(loop(test, body.run, spend))

    def branch(self) -> Statement:
        branches = self.branches(self.test, self.suite, ("elif", "else", "end"))
        if any(body.waits for _, body in branches):
            return Statement(_slow_choice(branches), waits=True)
        return Statement(choice([(test, body.run) for test, body in branches]))

    # ---- expressions

    def operand(self) -> Expression:
        token = self.next
        found = self.primary()
        while self.sees("[", ".", "("):
            if self.sees("("):
                raise Fault("a call to something outside of the controller cannot be followed", token.line)
            found = self.item(found.run) if self.accept("[") else self.member(found.run)
        return found

    def primary(self) -> Expression:
        kind, text, line, key = token = self.take()
        if kind in ("float", "int", "string") or key in ("True", "False"):
            value = _literal(token)
            return Expression(lambda f: value, value, truth=isinstance(value, bool))
        if key == "(":
            inner = self.inner()
            return Expression(inner.run, inner.constant, inner.local, inner.truth)
        if key == "[":
            runs = self.items()
            return Expression(lambda f: Array([storable(run(f)) for run in runs]))
        if key == "p[":
            runs = self.items()
            if len(runs) != 6:
                raise Fault(f"a pose has 6 numbers, not {len(runs)}", line)
            return Expression(lambda f: Pose([number(run(f)) for run in runs]))
        if key == "run":
            return self.start(line)
        if kind != "name" or key:
            raise Fault(_unexpected(token, "expected a value"), line)
        return self.invoke(text, line) if self.accept("(") else self.variable(text, line)

    def items(self) -> list[Run]:
        runs = [] if self.sees("]") else [value.run for value in self.listed(self.expression)]
        self.expect("]")
        return runs

    def variable(self, name: str, line: int) -> Expression:
        if name in self.locals:
            k = self.locals[name]

            def assign(run: Run) -> Run:
                return Assign(k, _stored(run))

            return Expression(lambda f: f[k], local=k, name=name, assign=assign)
        if name not in self.runtime.globals:
            raise Fault(f"nothing is called {name!r}", line)
        values, j = self.runtime.values, self.runtime.globals[name]
        return Expression(lambda f: values[j], name=name, assign=lambda run: _storing(values, j, run))

    def item(self, fetch: Run) -> Expression:
        """Read [INDEX] or [ROW, COLUMN] of a list."""
        *row, at = self.items()
        values = fetch if not row else lambda f: item(fetch(f), row[0](f))
        return Expression(
            lambda f: item(values(f), at(f)), assign=lambda run: lambda f: put(values(f), at(f), storable(run(f)))
        )

    def member(self, fetch: Run) -> Expression:
        self.expect(".")
        name = self.name()

        def struct(f: Frame) -> Any:
            value = fetch(f)
            if not isinstance(value, Struct) or name not in value:
                raise Fault(f"no structure with a member {name!r}")
            return value

        def assign(run: Run) -> Run:
            def set_member(f: Frame) -> None:
                struct(f)[name] = storable(run(f))

            return set_member

        return Expression(lambda f: struct(f)[name], assign=assign)

    def joined(self, sign: Token, left: Expression | None, right: Expression) -> Expression:
        x, op = right.run, sign.key
        if op == "not":
            return Expression(lambda f: not truth(x(f)), truth=True)
        if left is None:
            _numbers(sign.line, right)
            if op == "+":
                return right
            value = -right.constant if right.is_constant else UNSET
            return Expression((lambda f: -x(f)) if value is UNSET else (lambda f: value), value)
        a = left.run
        if op == "and":
            return Expression(lambda f: truth(a(f)) and truth(x(f)), truth=True)
        if op == "or":
            return Expression(lambda f: truth(a(f)) or truth(x(f)), truth=True)
        if op == "xor":
            return Expression(lambda f: truth(a(f)) is not truth(x(f)), truth=True)
        if op in COMPARISONS:
            return Expression(_binary(COMPARISONS[op], left, right), truth=True)
        _numbers(sign.line, left, right)
        return _weighted(op, left, right) or Expression(_binary(ARITHMETIC[op], left, right))

    # ---- calls

    def start(self, line: int) -> Expression:
        """Read the start of a thread."""
        name = self.name()
        thread = self.runtime.functions.get(name)
        if thread is None or thread.kind != "thread":
            raise Fault(f"no thread is called {name!r}", line)
        self.expect("(")
        frame_of = self.frame_of(thread, line)

        def start(f: Frame) -> Any:
            self.runtime.passes.spend()
            return self.runtime.spawn(_steps(thread, frame_of(f)))

        return Expression(start, call=True)

    def invoke(self, name: str, line: int) -> Expression:
        function = self.runtime.functions.get(name)
        if function is not None:
            return self.call(function, line)
        if name not in self.runtime.builtins:
            raise Fault(f"no function is called {name!r}", line)
        builtin = self.runtime.builtins[name]
        run = self.builtin_call(name, builtin.call, line)
        return self.paused(run) if builtin.waits else Expression(run, call=True)

    def paused(self, call: Run, body: Run | None = None) -> Expression:
        slot, self.size = self.size, self.size + 1
        self.pauses.append(Pause(slot, call, body))
        return Expression(lambda f: f[slot], call=True)

    def call(self, function: Function, line: int) -> Expression:
        if function.kind == "thread":
            raise Fault(f"{function.name!r} is a thread; start it with run", line)
        frame_of = self.frame_of(function, line)
        if function.waits:
            return self.paused(lambda f: _steps(function, frame_of(f)), lambda f: function.body(frame_of(f)))
        spend = self.runtime.passes.spend

        def run(f: Frame) -> Any:
            spend()
            frame = frame_of(f)
            function.body(frame)
            return frame[0]

        return Expression(run, call=True)

    def frame_of(self, function: Function, line: int) -> Run:
        """Read the arguments of a call; they become the frame of the function."""
        given, named = self.arguments()
        rest = function.parameters[len(given) :]
        if len(given) > len(function.parameters) or not set(named) <= set(rest):
            raise Fault(f"{function.name} takes {', '.join(function.parameters) or 'no arguments'}", line)
        defaults = dict(zip(function.parameters, function.defaults, strict=True)) | named
        missing = [name for name in rest if defaults[name] is None]
        if missing:
            raise Fault(f"{function.name} lacks {', '.join(missing)}", line)
        runs = given + [run for name in rest if (run := defaults[name])]

        def frame_of(f: Frame) -> Frame:
            if not function.defined:
                raise Fault(f"{function.name} is called before its definition")
            return [None, *([_passed(run(f)) for run in runs] if runs else ()), *function.blanks]

        return frame_of

    def arguments(self) -> tuple[list[Run], dict[str, Run]]:
        given: list[Run] = []
        named: dict[str, Run] = {}
        while not self.accept(")"):
            if given or named:
                self.expect(",")
            if self.tokens[self.at + 1].key == "=":
                name = self.name()
                self.expect("=")
                named[name] = self.expression().run
            elif named:
                self.fail("an argument without a name follows one with a name")
            else:
                given.append(self.expression().run)
        return given, named

    def builtin_call(self, name: str, call: Callable[..., Any], line: int) -> Run:
        given, named = self.arguments()
        try:
            inspect.signature(call).bind(*given, **named)
        except TypeError:
            takes = ", ".join(inspect.signature(call).parameters)
            raise Fault(f"{name} takes {takes or 'no arguments'}", line) from None
        if not named and len(given) == 1:
            only = given[0]
            return lambda f: call(only(f))
        if not named:
            return lambda f: call(*[run(f) for run in given])
        return lambda f: call(*[run(f) for run in given], **{key: run(f) for key, run in named.items()})

    def parameters(self, function: Function) -> None:
        """Read the parameters of a function: their names and defaults."""
        names: list[str] = []
        self.expect("(")
        while not self.accept(")"):
            if names:
                self.expect(",")
            names.append(self.name())
            value = self.expression() if self.accept("=") else None
            if value is not None and not value.is_constant:
                self.fail("the value of a parameter that is not given must be a constant")
            function.defaults.append(None if value is None else value.run)
        function.parameters = tuple(names)


def _unexpected(token: Token, hint: str) -> str:
    """Say that a token is out of place."""
    shown = token.key if token.kind == "end" else repr(token.text.strip() or "line end")
    if token.key in ("end", _END):
        hint = "a block lacks its end, or has one too many"
    return f"{shown} is not expected here; {hint}"


def _literal(token: Token) -> Any:
    if token.kind == "float":
        return float(token.text)
    if token.kind == "string":
        return Text(token.text[1:-1])
    if token.kind == "name":
        return token.key == "True"
    value = int(token.text, 0 if token.text.startswith("0x") else 10)
    if value >= LARGEST:
        raise Fault(f"{value} exceeds the 32 bits of an integer; write {value}.0", token.line)
    return value


def _numbers(line: int, *operands: Expression) -> None:
    if any(operand.truth or isinstance(operand.constant, str) for operand in operands):
        raise Fault("an operation for numbers is given truth or text", line)


def _weighted(op: str, left: Expression, right: Expression) -> Expression | None:
    """x ± c1 v1 ± c2 v2 ..., with constants c and local variables v, from left to right as written."""
    if op == "*" and type(left.constant) is float and right.local is not None:
        return Expression(_binary(operator.mul, left, right), term=(left.constant, right.local))
    if op not in ("+", "-") or right.term is None:
        return None
    c, k = right.term
    begin, before = left.total or (left.run, ())
    terms = (*before, (-c if op == "-" else c, k))

    def run(f: Frame) -> Any:
        total = begin(f)
        for c, k in terms:
            total = total + c * f[k]
        return total

    return Expression(run, total=(begin, terms))


def _stored(run: Run) -> Run:
    def fetch(f: Frame) -> Any:
        value = run(f)
        return value if type(value) is float else storable(value)

    return fetch


def _storing(values: list[Any], k: int, run: Run) -> Run:
    def assign(f: Frame) -> None:
        value = run(f)
        values[k] = value if type(value) is float else storable(value)

    return assign


def _nothing() -> Statement:
    return Statement(lambda f: None)


def _steps(function: Function, frame: Frame) -> Steps:
    """Run a function that takes time; generates for how many control steps it waits."""
    if function.waits:
        yield from function.body(frame)
    else:
        function.body(frame)
    return frame[0]


def _passed(value: Any) -> Any:
    return type(value)(value) if isinstance(value, Array) else storable(value)


def _binary(op: Callable[[Any, Any], Any], *sides: Expression) -> Run:
    left, right = (Operand(side.run, side.local, side.is_constant, side.constant) for side in sides)
    return operation(op, left, right)


class Halt(Exception):
    """The program ends itself."""


def _thread_of(value: Any) -> Any:
    if not hasattr(value, "alive"):
        raise Fault(f"{shown(value)} is no thread that was started with run")
    return value


def _aliased(run: Run) -> Run:
    """Mark a list that gets a second name."""

    def fetch(f: Frame) -> Any:
        value = run(f)
        if isinstance(value, Array):
            value.shared = True
        return value

    return fetch


def _sequence(guard: Guard, statements: list[Statement]) -> Statement:
    if any(statement.waits for statement in statements):
        return Statement(_slow_sequence(guard, statements), waits=True)
    return Statement(guard.sequence([(statement.line, statement.run) for statement in statements]), waits=False)


def _slow_sequence(guard: Guard, statements: list[Statement]) -> Run:
    runs = [(one.run.slot, one.run.value) if isinstance(one.run, Assign) else (-1, one.run) for one in statements]
    items = [(*run, one.waits, one.alone, one.line) for run, one in zip(runs, statements, strict=True)]

    def sequence(f: Frame) -> Steps:
        for slot, run, waits, alone, line in items:
            signal = None
            try:
                if slot >= 0:
                    f[slot] = run(f)
                elif alone == "function":
                    yield from run(f)
                elif alone:
                    if frames := run(f):
                        yield frames
                else:
                    signal = (yield from run(f)) if waits else run(f)
            except _WRONG as error:
                raise ProgramError(guard.file, line, guard.sentence(error)) from None
            if signal is not None:
                return signal
        return None

    return sequence


def _sentence(error: Exception) -> str:
    if isinstance(error, Fault):
        return error.sentence
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    return f"these values do not fit this operation ({error})"


def _after(pauses: list[Pause], made: Statement, *, bare: bool) -> Statement:
    """Build a statement that first executes those of its calls that take time."""
    if bare and len(pauses) == 1:
        call, body = pauses[0].call, pauses[0].body
        return Statement(body or call, waits=True, alone="function" if body else "builtin")

    def waiting(f: Frame) -> Steps:
        yield from _paused(pauses, f)
        return (yield from made.run(f)) if made.waits else made.run(f)

    return Statement(waiting, waits=True)


def _paused(pauses: list[Pause], f: Frame) -> Steps:
    for pause in pauses:
        if pause.body is None:
            frames = pause.call(f)
            if frames:
                yield frames
            f[pause.slot] = None
        else:
            f[pause.slot] = yield from pause.call(f)


def _slow_loop(pauses: list[Pause], test: Run, body: Statement, spend: Any) -> Run:
    run, waits = body.run, body.waits

    def loop(f: Frame) -> Steps:
        while True:
            if pauses:
                yield from _paused(pauses, f)
            if not test(f):
                return None
            spend()
            signal = (yield from run(f)) if waits else run(f)
            if signal is not None and signal != CONTINUE:
                return RETURN if signal == RETURN else None

    return loop


def _slow_choice(branches: list[tuple[Run | None, Statement]]) -> Run:
    def choose(f: Frame) -> Steps:
        for test, block in branches:
            if test is None or test(f):
                return (yield from block.run(f)) if block.waits else block.run(f)
        return None

    return choose


class Thread:
    """A running thread; a waiting one resumes at a control step."""

    __slots__ = ("alive", "resume", "wake")

    def __init__(self, steps: Steps, wake: int) -> None:
        self.resume: Callable[[], int] = steps.__next__
        self.wake = wake
        self.alive = True

    def kill(self) -> None:
        """End it."""
        self.alive = False


class Clock:
    """Runs the main thread, and those it starts, until the main one ends; `passes` counts work within a step."""

    def __init__(self, passes: Passes, most_steps: float) -> None:
        self.now = 0
        self.threads: list[Thread] = []
        self.current: Thread | None = None
        self._passes = passes
        self._most = most_steps

    def spawn(self, steps: Steps) -> Thread:
        """Start a thread; it has its first turn after the one that starts it."""
        if len(self.threads) > 50:
            raise Fault("more than 50 threads run")
        thread = Thread(steps, self.now)
        self.threads.append(thread)
        return thread

    def run(self, steps: Steps) -> bool:
        """Run the main thread to its end; return False if it does not end."""
        main = self.spawn(steps)
        threads = self.threads
        while main.alive:
            self._passes.count = 0
            for thread in threads:
                if thread.wake <= self.now and thread.alive:
                    self.current = thread
                    try:
                        thread.wake = self.now + thread.resume()
                    except StopIteration:
                        thread.alive = False
            if not all(thread.alive for thread in threads):
                threads[:] = [thread for thread in threads if thread.alive]
                if not main.alive:
                    break
            self.now = max(self.now + 1, min(thread.wake for thread in threads))
            if self.now > self._most:
                return False
        return True


def load(text: str, file: str, builtins: Mapping[str, Builtin]) -> tuple[Runtime, Steps]:
    """Compile a program; the generator runs its main thread."""
    runtime = Runtime(file, builtins)
    try:
        runtime.main = _main(runtime, _tokens(text))
        return runtime, runtime.start()
    except Fault as fault:
        raise ProgramError(file, fault.line, fault.sentence) from None
    except RecursionError:
        raise ProgramError(file, None, "expressions or blocks lie too deep in one another") from None


def _main(runtime: Runtime, tokens: list[Token]) -> Callable[[], Steps]:
    program, functions = _outline(tokens)
    bare = [k for k, token in enumerate(tokens) if token.key not in ("\n", "$")]
    if len(bare) == 1:
        raise Fault("there is no program in it")
    only = functions[0] if functions else program
    alone = only.kind in ("def", "sec") and (bare[0] + 2, bare[-2]) == (only.at, only.end)
    if alone:  # the program itself, which is not called
        program, functions = only, functions[1:]
    _declare(runtime, tokens, program, functions)
    for function in functions:
        _compile(runtime, tokens, function)
    main = _Script(runtime, tokens, program.at)
    if alone:
        main.parameters(Function(program.name, program.kind))
        body, _ = main.suite("end")
    else:
        body, _ = main.block(_END)
    if program.kind == "sec" and body.waits:
        raise Fault("a secondary program moves or waits, which only the program itself may", tokens[bare[0]].line)

    def steps() -> Steps:
        frame: Frame = [UNSET] * main.size
        if body.waits:
            yield from body.run(frame)
        else:
            body.run(frame)

    return steps


def _outline(tokens: list[Token]) -> tuple[Function, list[Function]]:
    """Find the functions, and the names that each of them, and the program itself, assigns and calls."""
    program = Function("", "")
    functions: list[Function] = []
    inside, opened = [program], []  # functions; the words of open blocks
    for k, (kind, text, _, key) in enumerate(tokens[:-1]):
        before, after = tokens[k - 1].key if k else "\n", tokens[k + 1].key
        if key in (*_OWN, "while", "if"):
            opened.append(key)
        if key in _OWN:
            functions.append(Function(tokens[k + 1].text, key, k + 2))
            inside.append(functions[-1])
        elif key == "end":
            if not opened:
                raise Fault(_unexpected(tokens[k], ""), tokens[k].line)
            if opened.pop() in _OWN:
                inside.pop().end = k
        elif key == "join":
            inside[-1].called.add(key)
        elif kind == "name" and not key and after == "(" and before not in (*_OWN, "run", "."):
            inside[-1].called.add(text)
        elif kind == "name" and not key and (before in ("global", "local") or (after == "=" and before in "\n:")):
            inside[-1].assigned[text] = None
            if before == "global":
                program.assigned[text] = None
            elif before == "local":
                inside[-1].local.add(text)
    if opened:
        raise Fault(_unexpected(tokens[-1], ""), tokens[-1].line)
    return program, functions


def _declare(runtime: Runtime, tokens: list[Token], program: Function, functions: list[Function]) -> None:
    """Register globals and functions, and find out which functions wait."""
    for name in program.assigned:
        runtime.slot(name)
    for function in functions:
        if function.name in runtime.functions or function.name in runtime.builtins:
            raise Fault(
                f"{function.name!r} is defined twice, or a function of the controller", tokens[function.at].line
            )
        runtime.functions[function.name] = function
    runtime.known(runtime.globals, tokens[0].line)
    waiting = {name for name, builtin in runtime.builtins.items() if builtin.waits} | {"join"}
    while found := [each for each in functions if not each.waits and each.called & waiting]:
        for function in found:
            function.waits = True
            waiting.add(function.name)
    for function in functions:
        _Script(runtime, tokens, function.at).parameters(function)


def _compile(runtime: Runtime, tokens: list[Token], function: Function) -> None:
    own = [name for name in function.assigned if name in function.local or name not in runtime.globals]
    names = tuple(dict.fromkeys([*function.parameters, *own]))
    runtime.known(names, tokens[function.at].line)
    script = _Script(runtime, tokens, function.at, names)
    script.parameters(Function(function.name, function.kind))
    body, _ = script.suite("end")
    function.body = _generating(body.run) if function.waits and not body.waits else body.run
    function.blanks = (UNSET,) * (script.size - 1 - len(function.parameters))


def _generating(run: Run) -> Run:
    def steps(frame: Frame) -> Steps:
        run(frame)
        yield from ()

    return steps
