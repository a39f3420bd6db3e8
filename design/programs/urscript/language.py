"""Interpreter of URScript: text -> syntax tree with line numbers, or ProgramError; then closures on frames.

Values are numbers, booleans, strings, lists, poses and structures; operations check their operands. Constants and plain
variables are read without a call. A statement or function that waits is a generator of the control steps it takes;
threads run on a virtual clock that counts control steps.
"""

import inspect
import math
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lark import PostLex

from excitor.design.programs.runtime import BREAK, CONTINUE, ORDER, RETURN, Fault, Guard, Passes, Run, choice, loop
from excitor.design.programs.target import ProgramError

Node = Any  # lark's Tree; what its children are depends on its data

GRAMMAR = r"""
start: suite
suite: _NL? | _NL? statement (_NL statement)* _NL?

?statement: function | thread | secondary | while | if | assign | declare | call | return
          | break | continue | halt | pass | kill | join | critical | label

function: "def" NAME "(" [parameters] ")" ":" suite "end"
secondary: "sec" NAME "(" ")" ":" suite "end"
thread: "thread" NAME "(" ")" ":" suite "end"
parameters: parameter ("," parameter)*
parameter: NAME ["=" expression]
while: "while" expression ":" suite "end"
if: "if" expression ":" suite (elif)* [else] "end"
elif: "elif" expression ":" suite
else: "else" ":" suite
assign: [SCOPE] expression "=" expression
declare: SCOPE NAME
call: expression
return: "return" [expression]
break: "break"
continue: "continue"
halt: "halt"
pass: "pass"
kill: "kill" expression
join: "join" expression
critical: "enter_critical" | "exit_critical"
label: LABEL

?expression: either
?either: both | either OR both -> logical
?both: denied | both AND denied -> logical
?denied: comparison | "not" denied -> not
?comparison: sum | sum COMPARE sum -> compare
?sum: product | sum PLUS product -> arithmetic
?product: signed | product TIMES signed -> arithmetic
?signed: postfix | PLUS signed -> sign
?postfix: atom | postfix "[" expression "]" -> index
        | postfix "[" expression "," expression "]" -> cell
        | postfix "." NAME -> member
        | postfix "(" [arguments] ")" -> invoke
arguments: argument ("," argument)*
?argument: expression | NAME "=" expression -> named
?atom: NAME -> name
     | FLOAT -> float
     | INT -> integer
     | STRING -> string
     | "True" -> true
     | "False" -> false
     | "[" [items] "]" -> list
     | POSE items "]" -> pose
     | "run" NAME "(" [arguments] ")" -> run
     | "(" expression ")"
items: expression ("," expression)*

SCOPE.2: /(global|local)\b/
OR.2: /(or|xor)\b/
AND.2: /and\b/
COMPARE: "==" | "!=" | "<=" | ">=" | "<" | ">"
PLUS: "+" | "-"
TIMES: "*" | "/" | "%"
POSE.2: /p\[/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
FLOAT.2: /(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|\d+[eE][+-]?\d+/
INT: /0x[0-9A-Fa-f]+|\d+/
STRING: /"[^"\n]*"|'[^'\n]*'/
LABEL: /\$[^\n]*/
_NL.3: /([ \t\r]*(#[^\n]*)?\n)+/
%ignore /[ \t\r]+/
%ignore /#[^\n]*/
"""


class _Brackets(PostLex):
    """Line ends inside brackets are blanks."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Pass on all tokens but line ends inside brackets."""
        depth = 0
        for token in stream:
            if token.type == "_NL" and depth > 0:
                continue
            if token.type in ("LPAR", "LSQB", "POSE"):
                depth += 1
            elif token.type in ("RPAR", "RSQB"):
                depth -= 1
            yield token


def parse(text: str, file: str) -> Node:
    """Parse a program; every node of the tree has `meta.line` unless it is empty."""
    try:
        return _parser().parse(text + "\n")
    except UnexpectedToken as error:
        found = (
            "the end of the text" if error.token.type == "$END" else repr(str(error.token.value).strip() or "line end")
        )
        raise ProgramError(file, _line(error, text), f"{found} is not expected here; {_hint(error)}") from None
    except UnexpectedCharacters as error:
        raise ProgramError(file, error.line, f"{text[error.pos_in_stream or 0]!r} is no part of the language") from None


def _line(error: UnexpectedInput, text: str) -> int:
    return error.line if isinstance(error.line, int) and error.line > 0 else text.count("\n") + 1


def _hint(error: UnexpectedToken) -> str:
    if error.token.type in ("$END", "END"):
        return "a block lacks its end, or has one too many"
    return "expected " + ", ".join(sorted(error.expected)[:6])


@cache
def _parser() -> Lark:
    # the basic lexer, so that a word of the language is never taken for a name
    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True, postlex=_Brackets())


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


class Array(list[Any]):
    """A list. `shared` once it was assigned as a whole: whether that copies is not documented."""

    __slots__ = ("shared",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.shared = False

    __lt__ = __gt__ = __le__ = __ge__ = __imul__ = __iadd__ = _refuse

    def __add__(self, other: Any) -> "Array":
        return _each(operator.add, self, other)

    def __sub__(self, other: Any) -> "Array":
        return _each(operator.sub, self, other)

    def __rsub__(self, other: Any) -> "Array":
        return _each(operator.sub, other, self)

    def __mul__(self, other: Any) -> "Array":
        return _each(operator.mul, self, other)

    def __truediv__(self, other: Any) -> "Array":
        return _each(divide, self, other)

    def __neg__(self) -> "Array":
        return _each(operator.mul, -1, self)

    __radd__ = __add__
    __rmul__ = __mul__


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
    """Compiled expression; with the constant or local slot of its value where no evaluation is needed."""

    run: Run
    constant: Any = UNSET
    local: int | None = None
    truth: bool = False

    @property
    def is_constant(self) -> bool:
        """True if the value is known at compile time."""
        return self.constant is not UNSET


@dataclass(frozen=True, slots=True)
class Pause:
    """A call that takes time; its value goes to a slot of the frame. Builtins return how long, functions generate."""

    slot: int
    call: Run
    builtin: bool


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

    def fail(self, node: Node, sentence: str) -> ProgramError:
        """Build the error of a node."""
        return ProgramError(self.file, getattr(node.meta, "line", None), sentence)

    def slot(self, name: str) -> int:
        """Return the slot of a global; create it at first use."""
        if name not in self.globals:
            self.globals[name] = len(self.values)
            self.values.append(UNSET)
        return self.globals[name]


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
                raise Fault(f"no structure with a member {name!r}")
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
            self.runtime.passes.spend()
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
        spend = self.runtime.passes.spend

        def run(f: Frame) -> Any:
            spend()
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
                raise Fault(f"{function.name} is called before its definition")
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
    i, j, y, left, right = a.local, b.local, b.constant, a.run, b.run
    if i is not None and j is not None:
        return lambda f: op(f[i], f[j])
    if i is not None and b.is_constant:
        return lambda f: op(f[i], y)
    return lambda f: op(left(f), right(f))


class Halt(Exception):
    """The program ends itself."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Compiled statement; its `run` is a generator where it waits."""

    run: Run
    waits: bool
    line: int | None = None


def _declare(runtime: Runtime, suite: Node) -> None:
    """Register globals and functions, and find out which functions wait."""
    for name in _assigned(suite):
        runtime.slot(name)
    for node in suite.iter_subtrees_topdown():
        if node.data in ("assign", "declare") and node.children[0] == "global":
            runtime.slot(_target(node))
        if node.data in _OWN:
            name = str(node.children[0])
            if name in runtime.functions or name in runtime.builtins:
                raise runtime.fail(node, f"{name!r} is defined twice, or a function of the controller")
            parameters = tuple(str(each.children[0]) for each in _parameters(node))
            runtime.functions[name] = Function(name, node, parameters)
    taken = [name for name in runtime.globals if name in runtime.functions or name in runtime.builtins]
    if taken:
        raise runtime.fail(suite, f"{taken[0]!r} is a function, and is assigned a value")
    _find_waiting(runtime)
    for function in runtime.functions.values():
        function.defaults = [_default(runtime, node) for node in _parameters(function.node)]


class Statements:
    """Compiles the statements of one function."""

    def __init__(self, runtime: Runtime, local: tuple[str, ...]) -> None:
        self.runtime = runtime
        self.expressions = Expressions(runtime, local)
        self._loops = 0

    def block(self, suite: Any) -> Statement:
        """Compile statements one after the other."""
        nodes = [child for child in suite.children if child.data != "label"]
        return _sequence(self.runtime.guard, [self._statement(node) for node in nodes])

    def _statement(self, node: Node) -> Statement:
        pauses, self.expressions.pauses = self.expressions.pauses, []
        made: Statement = getattr(self, "_" + str(node.data))(node)
        mine, self.expressions.pauses = self.expressions.pauses, pauses
        if mine:
            made = _after(mine, made, bare=node.data == "call")
        return Statement(made.run, made.waits, getattr(node.meta, "line", None))

    def _condition(self, node: Any) -> Expression:
        condition = self.expressions.compile(node)
        if condition.is_constant and not condition.truth:
            raise self.runtime.fail(node, f"a condition is {shown(condition.constant)}, expected True or False")
        return condition

    def _function(self, node: Node) -> Statement:
        function = self.runtime.functions[str(node.children[0])]

        def define(f: Frame) -> None:
            function.defined = True

        return Statement(define, waits=False)

    _thread = _function

    def _secondary(self, node: Node) -> Statement:
        raise self.runtime.fail(node, "a secondary program inside of a program")

    def _call(self, node: Node) -> Statement:
        if node.children[0].data not in ("invoke", "run"):
            raise self.runtime.fail(node, "a value that nothing is done with")
        run = self.expressions.compile(node.children[0]).run

        def call(f: Frame) -> None:
            run(f)

        return Statement(call, waits=False)

    def _assign(self, node: Node) -> Statement:
        target: Any = node.children[1]
        value: Any = node.children[2]
        run = (
            _aliased(self.expressions.compile(value).run)
            if value.data == "name"
            else self.expressions.compile(value).run
        )
        if target.data == "name":
            return Statement(self._to_name(str(target.children[0]), run), waits=False)
        if node.children[0] is not None or target.data not in ("index", "cell", "member"):
            raise self.runtime.fail(node, "only variables, their items and members are assigned values")
        return Statement(self._to_part(target, run), waits=False)

    def _to_name(self, name: str, run: Run) -> Run:
        if name in self.expressions.locals:
            k = self.expressions.locals[name]

            def assign(f: Frame) -> None:
                value = run(f)
                f[k] = value if type(value) is float else storable(value)

            return assign
        values, j = self.runtime.values, self.runtime.globals[name]

        def assign_global(f: Frame) -> None:
            value = run(f)
            values[j] = value if type(value) is float else storable(value)

        return assign_global

    def _to_part(self, target: Any, run: Run) -> Run:
        fetch = self.expressions.compile(target.children[0]).run
        if target.data == "member":
            name = str(target.children[1])

            def set_member(f: Frame) -> None:
                value = fetch(f)
                if not isinstance(value, Struct) or name not in value:
                    raise Fault(f"no structure with a member {name!r}")
                value[name] = storable(run(f))

            return set_member
        at = self.expressions.compile(target.children[-1]).run
        if target.data == "cell":
            row = self.expressions.compile(target.children[1]).run
            return lambda f: put(item(fetch(f), row(f)), at(f), storable(run(f)))
        return lambda f: put(fetch(f), at(f), storable(run(f)))

    def _declare(self, node: Node) -> Statement:
        return Statement(lambda f: None, waits=False)

    _pass = _critical = _declare

    def _return(self, node: Node) -> Statement:
        value: Any = node.children[0]
        run = (lambda f: None) if value is None else self.expressions.compile(value).run

        def leave(f: Frame) -> str:
            f[0] = run(f)
            return RETURN

        return Statement(leave, waits=False)

    def _break(self, node: Node) -> Statement:
        return self._jump(node, BREAK)

    def _continue(self, node: Node) -> Statement:
        return self._jump(node, CONTINUE)

    def _jump(self, node: Node, signal: str) -> Statement:
        if self._loops == 0:
            raise self.runtime.fail(node, f"{node.data} outside of a loop")
        return Statement(lambda f: signal, waits=False)

    def _halt(self, node: Node) -> Statement:
        def halt(f: Frame) -> None:
            raise Halt

        return Statement(halt, waits=False)

    def _kill(self, node: Node) -> Statement:
        run = self.expressions.compile(node.children[0]).run

        def kill(f: Frame) -> None:
            _thread_of(run(f)).kill()

        return Statement(kill, waits=False)

    def _join(self, node: Node) -> Statement:
        run = self.expressions.compile(node.children[0]).run

        def join(f: Frame) -> Steps:
            thread = _thread_of(run(f))
            while thread.alive:
                yield 1

        return Statement(join, waits=True)

    def _while(self, node: Node) -> Statement:
        pauses, self.expressions.pauses = self.expressions.pauses, []
        condition = self._condition(node.children[0]).run
        mine, self.expressions.pauses = self.expressions.pauses, pauses
        self._loops += 1
        body = self.block(node.children[1])
        self._loops -= 1
        spend = self.runtime.passes.spend
        if mine or body.waits:
            return Statement(_slow_loop(mine, condition, body, spend), waits=True)
        return Statement(loop(lambda f: truth(condition(f)), body.run, spend), waits=False)

    def _if(self, node: Node) -> Statement:
        parts: list[Any] = [part for part in node.children[2:] if part is not None]
        branches = [(self._test(node.children[0]), self.block(node.children[1]))]
        for part in parts:
            test = None if part.data == "else" else self._test(part.children[0])
            branches.append((test, self.block(part.children[-1])))
        if any(block.waits for _, block in branches):
            return Statement(_slow_choice(branches), waits=True)
        return Statement(choice([(test, block.run) for test, block in branches]), waits=False)

    def _test(self, node: Any) -> Run | None:
        condition = self._condition(node).run
        return lambda f: truth(condition(f))


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
    items = [(statement.run, statement.waits, statement.line) for statement in statements]

    def sequence(f: Frame) -> Steps:
        for run, waits, line in items:
            try:
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
        call, builtin = pauses[0].call, pauses[0].builtin

        def alone(f: Frame) -> Steps:
            if builtin:
                frames = call(f)
                if frames:
                    yield frames
            else:
                yield from call(f)

        return Statement(alone, waits=True)

    def waiting(f: Frame) -> Steps:
        yield from _paused(pauses, f)
        return (yield from made.run(f)) if made.waits else made.run(f)

    return Statement(waiting, waits=True)


def _paused(pauses: list[Pause], f: Frame) -> Steps:
    for pause in pauses:
        if pause.builtin:
            frames = pause.call(f)
            if frames:
                yield frames
            f[pause.slot] = None
        else:
            f[pause.slot] = yield from pause.call(f)


def _slow_loop(pauses: list[Pause], condition: Run, body: Statement, spend: Any) -> Run:
    run, waits = body.run, body.waits

    def loop(f: Frame) -> Steps:
        while True:
            if pauses:
                yield from _paused(pauses, f)
            if not truth(condition(f)):
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


_OWN = ("function", "thread", "secondary")


def load(text: str, file: str, builtins: Mapping[str, Builtin]) -> tuple[Runtime, Steps]:
    """Compile a program; the generator runs its main thread."""
    try:
        runtime = Runtime(file, builtins)
        return runtime, _main(runtime, parse(text, file))
    except RecursionError:
        raise ProgramError(file, None, "expressions or blocks lie too deep in one another") from None


def _main(runtime: Runtime, tree: Node) -> Steps:
    suite: Any = tree.children[0]
    statements = [child for child in suite.children if child.data != "label"]
    if not statements:
        raise ProgramError(runtime.file, None, "there is no program in it")
    if len(statements) == 1 and statements[0].data in ("function", "secondary"):
        secondary = statements[0].data == "secondary"
        suite = _body(statements[0])  # the program itself, which is not called
    else:
        secondary = False
    _declare(runtime, suite)
    for function in runtime.functions.values():
        _compile(runtime, function)
    main = Statements(runtime, ())
    body = main.block(suite)
    if secondary and body.waits:
        raise runtime.fail(tree, "a secondary program moves or waits, which only the program itself may")

    def steps() -> Steps:
        frame: Frame = [UNSET] * main.expressions.size
        if body.waits:
            yield from body.run(frame)
        else:
            body.run(frame)

    return steps()


def _body(node: Node) -> Any:
    return node.children[-1]


def _parameters(node: Node) -> list[Any]:
    listed: Any = node.children[1] if node.data == "function" else None
    return [] if listed is None else list(listed.children)


def _default(runtime: Runtime, parameter: Node) -> Run | None:
    value: Any = parameter.children[1]
    if value is None:
        return None
    expression = Expressions(runtime, ()).compile(value)
    if not expression.is_constant:
        raise runtime.fail(parameter, "the value of a parameter that is not given must be a constant")
    return expression.run


def _find_waiting(runtime: Runtime) -> None:
    calls = {name: _calls(function.node) for name, function in runtime.functions.items()}
    waiting = {name for name, builtin in runtime.builtins.items() if builtin.waits} | {"join"}
    grows = True
    while grows:
        grows = False
        for name, called in calls.items():
            if name not in waiting and called & waiting:
                waiting.add(name)
                grows = True
    for name, function in runtime.functions.items():
        function.waits = name in waiting


def _within(node: Node) -> Iterator[Node]:
    """List the nodes of a body, without those of functions in it."""
    for child in node.children:
        if hasattr(child, "data"):
            yield child
            if child.data not in _OWN:
                yield from _within(child)


def _calls(node: Node) -> set[str]:
    found = set()
    for child in _within(node):
        if child.data == "join":
            found.add("join")
        called: Any = child.children[0] if child.data == "invoke" else None
        if called is not None and called.data == "name":
            found.add(str(called.children[0]))
    return found


def _target(node: Node) -> str:
    """Name the variable that is assigned or declared; nothing, where it is an item or a member of one."""
    target: Any = node.children[1]
    if node.data == "declare":
        return str(target)
    return str(target.children[0]) if target.data == "name" else ""


def _assigned(node: Node) -> list[str]:
    names = [_target(child) for child in _within(node) if child.data in ("assign", "declare")]
    return list(dict.fromkeys(name for name in names if name))


def _compile(runtime: Runtime, function: Function) -> None:
    node = function.node
    declared = {_target(x) for x in _within(node) if x.data in ("assign", "declare") and x.children[0] == "local"}
    own = [name for name in _assigned(node) if name in declared or name not in runtime.globals]
    names = dict.fromkeys([*function.parameters, *own])
    clash = [name for name in names if name in runtime.functions or name in runtime.builtins]
    if clash:
        raise runtime.fail(node, f"{clash[0]!r} is a function, and is assigned a value")
    compiler = Statements(runtime, tuple(names))
    body = compiler.block(_body(node))
    function.body = _generating(body.run) if function.waits and not body.waits else body.run
    function.blanks = (UNSET,) * (compiler.expressions.size - 1 - len(function.parameters))


def _generating(run: Run) -> Run:
    def steps(frame: Frame) -> Steps:
        run(frame)
        yield from ()

    return steps
