"""Interpreter of RAPID modules: text -> closures in one reading of declarations and one of routines, or ProgramError.

Types are checked while an expression is read. The closures work on a routine's data and on the controller's virtual
clock. Built-in functions and instructions are listed with their parameters.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, Protocol

from excitor.design.programs import runtime
from excitor.design.programs.rapid.parse import (
    BOOL,
    DNUM,
    JOINTTARGET,
    NUM,
    OP_AUTO,
    OP_MAN_PROG,
    PREDECLARED,
    STRING,
    SWITCH,
    TOOLDATA,
    TYPES,
    Type,
    copied,
    initial,
    tokens,
)
from excitor.design.programs.runtime import LOGIC, ORDER, Fault, Guard, Level, Operators, Passes, Reader, Token, single
from excitor.design.programs.target import ProgramError

MOST_IDLE = 200_000  # passes of loops in which no time goes by
DEEPEST = 60  # calls inside calls
RETRIES = 5

Frame = list[Any]  # of cells, each a list of one value
Evaluate = Callable[[Frame], Any]
Locate = Callable[[Frame], tuple[Any, Any]]  # -> container, key
Step = Callable[[Frame], Any]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<>": operator.ne, **ORDER}
_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


_UNKNOWN = Type("")


@dataclass(frozen=True, slots=True)
class Slot:
    """Storage of data: a cell of its own, or (a routine's) the cell at an index of its frame."""

    type: Type
    storage: str  # "CONST", "VAR", "PERS", "LOOP", "SYSTEM"
    cell: list[Any] | None = None
    index: int = -1
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression: its type, and its value in a frame."""

    line: int
    type: Type = _UNKNOWN
    get: Evaluate = lambda frame: None
    wrong: str = ""  # why it has no type of its own
    literal: float | str | bool | None = None
    items: Sequence["Expression"] | None = None  # of [a, b, ...]: a record's components or an array's elements
    name: str = ""  # of the data that it reads, all of it where `whole`
    slot: Slot | None = None
    locate: Locate | None = None
    whole: bool = False


class Argument(NamedTuple):
    r"""An argument of a call; `\name` and `\name:=value` have a name, a switch has no value."""

    line: int
    name: str
    value: Expression | None


class Parameter(NamedTuple):
    """Parameter of a routine."""

    name: str
    type: Type
    optional: bool
    mode: str  # "", "INOUT", "VAR" or "PERS"


@dataclass(slots=True)
class Routine:
    """A procedure, function or trap of the program; its body is read after all declarations."""

    line: int
    kind: str
    name: str
    result: Type | None
    parameters: Sequence[Parameter]
    at: int  # its data and statements, among the tokens
    width: int = 0  # of its frame
    data: list[tuple[int, Evaluate]] = field(default_factory=list)
    body: Step | None = None


class BuiltinParameter(NamedTuple):
    """Parameter of a built-in. Its type: one of RAPID's, "switch", "signal", "any", or "ref" + a type."""

    name: str  # empty: required
    type: str


class Builtin(NamedTuple):
    """A function (with a result) or instruction: `act` gets the required values in order, and the named ones."""

    wanted: Sequence[BuiltinParameter]
    result: Type | None
    act: Callable[..., Any]


class _Return(Exception):
    def __init__(self, result: Any) -> None:
        self.result = result


class _HandlerEnd(Exception):
    """End of an error handler by RETRY or TRYNEXT."""


_WRONG = (Fault, ZeroDivisionError, OverflowError, ValueError, RecursionError)


def _sentence(error: Exception) -> str:
    if isinstance(error, Fault):
        return error.sentence
    if isinstance(error, ZeroDivisionError):
        return "divides by zero"
    return "calls go too deep" if isinstance(error, RecursionError) else f"a number cannot be computed: {error}"


class Controller(Protocol):
    """Controller interface that a program needs."""

    time: float  # s, virtual

    def override(self) -> float:
        """Return the speed override, %."""

    def automatic(self) -> bool:
        """Return True if the controller is in automatic mode."""

    def joints(self) -> list[float]:
        """Return the axis positions, deg."""

    def mass(self) -> float:
        """Return the load set in the controller, kg."""

    def write(self, text: str) -> None:
        """Show a line on the pendant."""

    def hold(self, name: str, value: object) -> None:
        """Refuse a setting that the controller's record does not state."""

    def carry(self, mass: float) -> None:
        """Refuse to move with the data of a tool, of a mass in kg, that is not the one in use."""

    def move(self, axes: list[float], seconds: float | None, speed: float, fine: bool) -> None:
        """Go to a pose, in a time where one is given, else at a speed."""

    def wait(self, seconds: float, standing: bool) -> None:
        """Advance the clock; with `standing`, after the robot has come to rest."""

    def signal(self, name: str, value: float) -> None:
        """Write an output."""

    def egm(self, step: str, values: dict[str, Any]) -> None:
        """Prepare, run or end externally guided motion; RapidError where it fails."""


class Program:
    """A module, read and ready to run on a controller."""

    def __init__(self, file: str, text: str, controller: Controller) -> None:
        self.file, self.controller = file, controller
        self.guard = Guard(file, _WRONG, _sentence)
        self.passes = Passes(MOST_IDLE, f"loops make {MOST_IDLE} passes in which nothing moves")
        self.seen, self.depth = -1.0, 0
        self.errno: list[Any] = [0.0]
        self.types, self.builtins = dict(TYPES), builtins(controller)
        self.data = {name: Slot(kind, "SYSTEM", [copied(kept)]) for name, (kind, kept) in PREDECLARED.items()}
        self.data["errno"] = Slot(NUM, "SYSTEM", self.errno)
        self.routines: dict[str, Routine] = {}
        try:
            self.tokens = tokens(text)
            _Text(self).module()
            for routine in self.routines.values():
                _Text(self).body(routine)
        except Fault as fault:
            raise ProgramError(file, fault.line, fault.sentence) from None
        except RecursionError:
            raise ProgramError(file, None, "expressions or blocks nest too deep") from None

    def run(self, entry: str) -> None:
        """Run a procedure without parameters to its end, or to where the program stops itself."""
        routine = self.routines.get(entry.lower())
        if routine is None or routine.kind != "PROC":
            raise ProgramError(self.file, self.tokens[0].line, f"there is no procedure {entry}")
        if any(not parameter.optional for parameter in routine.parameters):
            raise ProgramError(self.file, routine.line, f"{entry} has parameters; nothing can start it")
        try:
            self.enter(routine, [None] * len(routine.parameters))
        except ProgramStop:
            pass
        except RapidError as error:
            raise ProgramError(self.file, None, f"no ERROR handler takes this: {error.sentence}") from None

    def enter(self, routine: Routine, cells: Sequence[Any]) -> Any:
        """Call a routine; return its result."""
        if routine.body is None:
            raise Fault(f"{routine.name} is called before all data are declared")
        self.depth += 1
        if self.depth > DEEPEST:
            raise ProgramError(self.file, routine.line, f"{routine.name} calls itself without end")
        try:
            frame: Frame = [*cells, *[None] * (routine.width - len(cells))]
            for index, make in routine.data:
                frame[index] = [copied(make(frame))]
            routine.body(frame)
        except _Return as end:
            return end.result
        finally:
            self.depth -= 1
        if routine.result is not None:
            raise ProgramError(self.file, routine.line, f"{routine.name} ends without RETURN")
        return None

    def turn(self, frame: Frame) -> None:
        """Count a pass of a loop in which nothing moves."""
        if self.controller.time != self.seen:
            self.seen, self.passes.count = self.controller.time, 0
        self.passes.spend()


_DATA = ("CONST", "VAR", "PERS")
_ENDS = {
    "RECORD": "ENDRECORD", **dict.fromkeys(_DATA, ";"), **{kind: f"END{kind}" for kind in ("PROC", "FUNC", "TRAP")},
}  # fmt: skip
_SECTIONS = ("ERROR", "UNDO", "BACKWARD")
_BEYOND = {"ENDMODULE", "LOCAL", "TASK", *_ENDS}  # words that end an unfinished declaration
_SIMPLE = ("RETURN", "RAISE", "RETRY", "TRYNEXT", "EXIT", "GOTO", "CONNECT")


class _Text(Reader[Expression]):
    """Reads a module's declarations, or a routine's body."""

    operators = Operators(
        Level(("OR", "XOR")), Level(("AND",), ("NOT",)),
        Level(("=", "<>", "<", ">", "<=", ">="), ("NOT",), chain=False), Level(("+", "-")),
        Level(("*", "/", "DIV", "MOD")),
        Level(prefix=("+", "-")),
    )  # fmt: skip

    def __init__(self, program: Program) -> None:
        super().__init__(program.tokens)
        self.program, self.guard, self.data = program, program.guard, program.data
        self.width = 0  # of the frame
        self.result: Type | None = None
        self.handler: Step | None = None
        self.handled = False  # whether errors of a statement go to the handler

    def missing(self, *keys: str) -> str:
        return f"expected {' or '.join(keys)}"

    def fail(self, sentence: str) -> NoReturn:
        super().fail(f"{sentence}, found {self.next.text}")

    def name(self) -> str:
        return self.take().text if self.next.kind == "name" else self.fail("expected a name")

    # ---- declarations

    def module(self) -> None:
        """Find all declarations; read records, then heads of routines, then data."""
        self.expect("MODULE")
        taken = {self.name().lower(): None}
        if self.accept("("):
            self.listed(lambda: self.expect("SYSMODULE", "NOSTEPIN", "VIEWONLY", "READONLY", "NOVIEW"))
            self.expect(")")
        found: dict[str, list[int]] = {"RECORD": [], ";": [], "END": []}
        while not self.accept("ENDMODULE"):
            self.accept("LOCAL", "TASK")
            word, begun = self.next.key, self.at
            if word not in _ENDS:
                self.fail("expected a declaration, a routine or ENDMODULE")
            found["RECORD" if word == "RECORD" else ";" if word in _DATA else "END"].append(begun)
            beyond = _BEYOND - ({*_DATA} if word in ("PROC", "FUNC", "TRAP") else set())
            self.at += 1
            while self.next.kind != "end" and not self.sees(_ENDS[word], *beyond):
                self.at += 1
            self.accept(_ENDS[word])
        if self.next.kind != "end":
            self.fail("nothing may follow ENDMODULE")
        for kind, read in (("RECORD", self.record), ("END", self.head), (";", self.shared)):
            for self.at in found[kind]:
                read(taken)

    def new(self, line: int, name: str, *tables: Any) -> str:
        if any(name.lower() in table for table in tables):
            raise Fault(f"{name} is declared twice", line)
        return name.lower()

    def type(self) -> Type:
        line, name = self.next.line, self.name()
        kind = self.program.types.get(name.lower())
        if kind is None:
            raise Fault(f"there is no type {name} here", line)
        return kind

    def record(self, taken: Any) -> None:
        line, fields = self.take().line, []
        name = self.name()
        while not self.accept("ENDRECORD"):
            kind = self.type()
            fields.append((self.name(), kind))
            self.expect(";")
        kind = Type(self.new(line, name, self.program.types), tuple(fields))
        self.program.types[kind.name] = kind

    def head(self, taken: Any) -> None:
        """Read a routine up to its body."""
        token = self.take()
        parameters: list[Parameter] = []
        result = self.type() if token.key == "FUNC" else None
        name = self.name()
        if token.key != "TRAP":
            self.expect("(")
            while not self.sees(")") and (
                not parameters or self.accept(",", "|") or self.sees("\\") or self.expect(")")
            ):
                parameters.append(self.parameter())
            self.expect(")")
        key = self.new(token.line, name, self.program.routines, self.data, taken)
        self.program.routines[key] = Routine(token.line, token.key, name, result, parameters, self.at)

    def parameter(self) -> Parameter:
        optional, mode = bool(self.accept("\\")), self.accept("INOUT", "VAR", "PERS")
        kind, name = self.type(), self.name()
        if self.accept("{"):
            kind = replace(kind, sizes=(0,) * len(self.listed(lambda: self.expect("*"))))
            self.expect("}")
        return Parameter(name, kind, optional, mode)

    def shared(self, taken: Any) -> None:
        """Read data of the module, with its value."""
        line, storage, name, kind, make = self.declaration()
        own = {key for key, slot in self.data.items() if slot.storage != "SYSTEM"}
        key = self.new(line, name, own, self.program.routines, taken)
        self.data[key] = Slot(kind, storage, [copied(self.guard(line, make)([]))])

    def declaration(self) -> tuple[int, str, str, Type, Evaluate]:
        line, storage = self.next.line, self.expect(*_DATA)
        kind, name = self.type(), self.name()
        if self.accept("{"):
            kind = replace(kind, sizes=tuple(self.listed(lambda: self.size(line, name))))
            self.expect("}")
        make: Evaluate = lambda frame: initial(kind)  # noqa: E731
        if self.accept(":="):
            make = self.of(kind, self.expression())
        elif storage == "CONST":
            self.fail(f"the constant {name} has no value: expected :=")
        self.expect(";")
        return line, storage, name, kind, make

    def size(self, line: int, name: str) -> int:
        size = self.guard(line, self.of(NUM, self.expression()))([])
        if not (size == int(size) and 1 <= size <= 100_000):
            raise Fault(f"the array {name} cannot have {size:g} elements", line)
        return int(size)

    def local(self, name: str, kind: Type, storage: str, optional: bool = False) -> int:
        """Declare data of the routine; return its index in the frame."""
        self.data[name.lower()] = Slot(kind, storage, index=self.width, optional=optional)
        self.width += 1
        return self.width - 1

    def body(self, routine: Routine) -> None:
        """Read a routine's data and statements."""
        self.at, self.result, self.data = routine.at, routine.result, dict(self.data)
        for parameter in routine.parameters:
            storage = parameter.mode.replace("INOUT", "VAR") or "VAR"
            self.local(parameter.name, parameter.type, storage, parameter.optional)
        while self.sees(*_DATA):
            line, storage, name, kind, make = self.declaration()
            routine.data.append((self.local(name, kind, storage), self.guard(line, make)))
        end = f"END{routine.kind}"
        ends = (token.key for token in self.tokens[self.at :])
        self.handled = next((key for key in ends if key in ("ERROR", end)), end) == "ERROR"
        routine.body, self.handled = self.block(*_SECTIONS, end), False
        while not self.accept(end):
            section = self.expect(*_SECTIONS)
            if section == "ERROR" and self.accept("("):
                self.listed(self.expression)
                self.expect(")")
            block = self.block(*_SECTIONS, end)
            self.handler = block if section == "ERROR" else self.handler
        routine.width = self.width

    # ---- statements

    def block(self, *ends: str) -> Step:
        steps = []
        while not self.sees(*ends):
            steps.append((self.next.line, self.statement(*ends)))
        return self.guard.sequence(steps)

    def statement(self, *ends: str) -> Step:
        makers = {"IF": self.choice, "FOR": self.count, "WHILE": self.loop, "TEST": self.switch}
        if word := self.accept(*makers):
            return makers[word]()
        line, word = self.next.line, self.accept(*_SIMPLE)
        if word == "GOTO":
            step = _refused(f"GOTO {self.name()}")
        elif word == "CONNECT":
            self.path()
            self.expect("WITH")
            step = _refused(f"CONNECT with the trap {self.name()}")
        elif word:
            step = self.jump(line, word)
        elif self.next.kind == "late" or self.sees("%"):
            while not self.sees(";"):
                self.skip()
            step = _refused("a call of a routine whose name is a text")
        elif self.next.kind != "name":
            self.fail(f"expected a statement or {' or '.join(ends)}")
        elif self.tokens[self.at + 1].key == ":":
            label, _ = self.name(), self.expect(":")
            return _refused(f"the label {label}")
        else:
            step = self.with_handler(self.assignment_or_call(line))
        self.expect(";")
        return step

    def skip(self) -> None:
        """Step over a token that is not the last."""
        self.at += 1 if self.next.kind != "end" else self.fail("expected ;")

    def assignment_or_call(self, line: int) -> Step:
        start, place = self.at, self.path()
        if self.accept(":="):
            return self.assigned(line, place, self.expression())
        self.at = start
        name, bracket = self.name(), self.accept("(")
        routine, builtin = self.named(name)
        if routine is not None and routine.kind != "PROC":
            routine = None
        if routine is None and (builtin is None or builtin.result is not None):
            raise Fault(f"there is no instruction or procedure {name} here", line)
        given = self.arguments(")" if bracket else ";")
        if bracket:
            self.expect(")")
        call, file = self.called(line, routine or builtin, name, given), self.program.file
        if routine is not None:
            return call

        def run(frame: Frame) -> None:
            try:
                call(frame)
            except ProgramError as error:
                if error.line is not None or error.file != file:
                    raise
                raise Fault(error.sentence) from None

        return run

    def assigned(self, line: int, place: Expression, given: Expression) -> Step:
        if place.slot is not None and place.slot.storage in ("CONST", "LOOP", "SYSTEM"):
            raise Fault(f"{place.name} cannot be changed", line)
        locate, get = self.located(place), self.of(place.type, given)

        def assign(frame: Frame) -> None:
            new = copied(get(frame))
            container, key = locate(frame)
            container[key] = new

        return assign

    def jump(self, line: int, word: str) -> Step:
        """Read the rest of RETURN, RAISE, RETRY, TRYNEXT or EXIT."""
        given = self.expression() if word in ("RETURN", "RAISE") and not self.sees(";") else None
        if word == "RETURN" and (given is None) != (self.result is None):
            raise Fault("RETURN has a value in functions and nowhere else", line)
        kind = self.result if word == "RETURN" and self.result is not None else NUM
        get = None if given is None else self.of(kind, given)
        errno = self.program.errno

        def run(frame: Frame) -> None:
            found = None if get is None else get(frame)
            if word == "RETURN":
                raise _Return(copied(found))
            if word == "EXIT":
                raise ProgramStop
            if word == "RAISE":
                raise RapidError(errno[0] if found is None else found, f"error {found or errno[0]:g}")
            raise _HandlerEnd(word)

        return run

    def choice(self) -> Step:
        branches: list[tuple[Evaluate | None, Step]] = []
        condition = self.of(BOOL, self.expression())
        if not self.accept("THEN"):  # compact: one statement
            return runtime.choice([(condition, self.guard.sequence([(self.next.line, self.statement())]))])
        while True:
            branches.append((condition, self.block("ELSEIF", "ELSE", "ENDIF")))
            if not self.accept("ELSEIF"):
                break
            condition = self.of(BOOL, self.expression())
            self.expect("THEN")
        if self.accept("ELSE"):
            branches.append((None, self.block("ENDIF")))
        self.expect("ENDIF")
        return runtime.choice(branches)

    def count(self) -> Step:
        name, limits = self.name(), []
        for word in ("FROM", "TO", "STEP"):
            if word != "STEP" or self.sees(word):
                self.expect(word)
                limits.append(self.of(NUM, self.expression()))
        first, last, *by = limits
        self.expect("DO")
        outer, self.data = self.data, dict(self.data)
        index, body = self.local(name, NUM, "LOOP"), self.block("ENDFOR")
        self.data = outer
        self.expect("ENDFOR")

        def bounds(frame: Frame) -> tuple[float, float, float]:
            at, end = first(frame), last(frame)
            return at, end, by[0](frame) if by else 1.0 if at <= end else -1.0

        def store(frame: Frame, at: float) -> None:
            frame[index] = [at]

        return runtime.count(bounds, store, body, self.program.turn, zero="a loop with STEP 0 never ends")

    def loop(self) -> Step:
        condition, _ = self.of(BOOL, self.expression()), self.expect("DO")
        body, _ = self.block("ENDWHILE"), self.expect("ENDWHILE")
        return runtime.loop(condition, body, self.program.turn)

    def switch(self) -> Step:
        value = self.typed(self.expression())
        cases: list[tuple[Sequence[Evaluate] | None, Step]] = []
        while self.accept("CASE"):
            labels = self.listed(lambda: self.of(value.type, self.expression()))
            self.expect(":")
            cases.append((labels, self.block("CASE", "DEFAULT", "ENDTEST")))
        if self.accept("DEFAULT"):
            self.expect(":")
            cases.append((None, self.block("ENDTEST")))
        self.expect("ENDTEST")
        return runtime.switch(value.get, cases)

    def with_handler(self, step: Step) -> Step:
        if not self.handled:
            return step
        errno = self.program.errno

        def run(frame: Frame) -> Any:
            assert self.handler is not None
            for _ in range(1 + RETRIES):
                try:
                    return step(frame)
                except RapidError as error:
                    errno[0] = error.number
                    raised = error
                try:
                    self.handler(frame)
                except _HandlerEnd as end:
                    if end.args[0] == "TRYNEXT":
                        return None
                    continue
                raise raised  # the handler came to its end without a word what to do
            raise Fault(f"fails again after {RETRIES} retries: {raised.sentence}")

        return run

    # ---- expressions

    def typed(self, given: Expression) -> Expression:
        """Return an expression, which must have a type of its own."""
        if given.wrong:
            raise Fault(given.wrong, given.line)
        return given

    def of(self, kind: Type, given: Expression) -> Evaluate:
        """Return how to evaluate an expression that must be of a type."""
        if given.items is not None:
            return self.aggregate(kind, given.line, given.items)
        if kind == DNUM and isinstance(number := given.literal, float):
            return lambda frame: number
        found = self.typed(given).type
        fits = found.element == kind.element and len(found.sizes) == len(kind.sizes)
        if not fits or any(n != m and n and m for n, m in zip(found.sizes, kind.sizes, strict=True)):
            raise Fault(f"expected {kind}, found {found}", given.line)
        return given.get

    def aggregate(self, kind: Type, line: int, items: Sequence[Expression]) -> Evaluate:
        wanted = [part for _, part in kind.fields]
        if kind.sizes:
            wanted = [replace(kind, sizes=kind.sizes[1:])] * (kind.sizes[0] or len(items))
        if len(wanted) != len(items):
            raise Fault(f"{kind} has {len(wanted)} parts, found {len(items)}", line)
        parts = [self.of(part, item) for item, part in zip(items, wanted, strict=True)]
        return lambda frame: [part(frame) for part in parts]

    def joined(self, sign: Token, left: Expression | None, right: Expression) -> Expression:
        line, key = sign.line, sign.key
        if left is None:
            if key == "+":
                return right
            if key == "NOT":
                inner = self.of(BOOL, right)
                return Expression(line, BOOL, lambda frame: not inner(frame))
            kind, number = self.typed(right).type, right.get
            if kind not in (NUM, DNUM):
                raise Fault(f"- before {kind}", line)
            return Expression(line, kind, lambda frame: -number(frame))
        if key in ("AND", "OR", "XOR"):
            return Expression(line, BOOL, LOGIC[key.lower()](self.of(BOOL, left), self.of(BOOL, right)))
        # Both sides are of one type; a literal becomes a dnum beside one.
        kind = self.typed(right if left.literal is not None and right.literal is None else left).type
        a, b = self.of(kind, left), self.of(kind, right)
        if kind not in (NUM, DNUM) and key not in ("=", "<>") and (kind, key) != (STRING, "+"):
            raise Fault(f"{key} between {kind}", line)
        if key in _COMPARE:
            compare = _COMPARE[key]
            return Expression(line, BOOL, lambda frame: compare(a(frame), b(frame)))
        if kind == STRING:
            return Expression(line, STRING, lambda frame: a(frame) + b(frame))
        return Expression(line, kind, self.arithmetic(sign, a, b, single if kind == NUM else float))

    def arithmetic(self, sign: Token, a: Evaluate, b: Evaluate, keep: Callable[[float], float]) -> Evaluate:
        if sign.key in _JOIN:
            join = _JOIN[sign.key]
            return lambda frame: keep(join(a(frame), b(frame)))

        def whole(x: float) -> int:
            if x != int(x):
                raise self.error(sign.line, f"{sign.key} needs whole numbers, found {x:g}")
            return int(x)

        def divided(frame: Frame) -> float:
            x, y = whole(a(frame)), whole(b(frame))
            return float(int(x / y) if sign.key == "DIV" else x - y * int(x / y))

        return divided

    def error(self, line: int, sentence: str) -> ProgramError:
        """Build the error of a line while the program runs."""
        return ProgramError(self.program.file, line, sentence)

    def operand(self) -> Expression:
        token = self.next
        if token.kind in ("number", "string") or self.sees("TRUE", "FALSE"):
            self.at += 1
            return _literal(token)
        if self.accept("("):
            return self.inner()
        if self.accept("["):
            items = self.listed(self.expression)
            self.expect("]")
            return Expression(token.line, wrong="the type of data [...] is unknown here", items=items)
        if self.next.kind != "name":
            self.fail("expected a value")
        if self.tokens[self.at + 1].key != "(":
            return self.path()
        self.at += 2
        routine, builtin = self.named(token.text)
        result = routine.result if routine else builtin.result if builtin else None
        if result is None:
            what = "is a procedure and has no value"
            raise Fault(f"{token.text} {what}" if routine else f"there is no function {token.text} here", token.line)
        given, _ = self.arguments(")"), self.expect(")")
        return Expression(token.line, result, self.called(token.line, routine or builtin, token.text, given))

    def named(self, name: str) -> tuple[Routine | None, Builtin | None]:
        """Return the routine and the built-in of a name."""
        return self.program.routines.get(name.lower()), self.program.builtins.get(name.lower())

    # ---- places of data

    def path(self) -> Expression:
        """Read a variable, a component or an element, such as `here.robax.rax_1` or `table{3}`."""
        line, name = self.next.line, self.name()
        slot = self.data.get(name.lower())
        locate, kind, part, whole = self.storage(line, name, slot), slot.type if slot else _UNKNOWN, name, True
        while sign := self.accept(".", "{"):
            whole = False
            if sign == ".":
                part = self.name()
                kind, locate = self.component(line, kind, locate, part) if slot else (kind, locate)
                continue
            indices = self.listed(self.expression)
            self.expect("}")
            kind, locate = self.element(line, kind, locate, part, indices) if slot else (kind, locate)
        if slot is None:
            return Expression(line, wrong=f"{name} is not declared", name=name, whole=whole)
        cell, index = slot.cell, slot.index

        def read(frame: Frame) -> Any:
            container, key = locate(frame)
            return container[key]

        if whole and not slot.optional:
            read = (lambda frame: frame[index][0]) if cell is None else (lambda frame: cell[0])
        return Expression(line, kind, read, name=name, slot=slot, locate=locate, whole=whole)

    def storage(self, line: int, name: str, slot: Slot | None) -> Locate:
        cell, index = (None, -1) if slot is None else (slot.cell, slot.index)

        def in_frame(frame: Frame) -> tuple[Any, Any]:
            if frame[index] is None:
                raise self.error(line, f"the optional argument {name} is not there")
            return frame[index], 0

        return in_frame if cell is None else lambda frame: (cell, 0)

    def located(self, place: Expression) -> Locate:
        """Return where the value of a path is stored."""
        locate = self.typed(place).locate
        assert locate is not None
        return locate

    def component(self, line: int, kind: Type, locate: Locate, name: str) -> tuple[Type, Locate]:
        names = [] if kind.sizes else [part.lower() for part, _ in kind.fields]
        if name.lower() not in names:
            raise Fault(f"{kind} has no component {name}", line)
        at = names.index(name.lower())

        def component(frame: Frame) -> tuple[Any, Any]:
            container, key = locate(frame)
            return container[key], at

        return kind.fields[at][1], component

    def element(
        self, line: int, kind: Type, locate: Locate, name: str, indices: list[Expression]
    ) -> tuple[Type, Locate]:
        if len(indices) != len(kind.sizes):
            raise Fault(f"{name} has {len(kind.sizes)} dimensions, found {len(indices)} indices", line)
        for item in indices:
            at = self.of(NUM, item)

            def element(frame: Frame, locate: Locate = locate, at: Evaluate = at) -> tuple[Any, Any]:
                container, key = locate(frame)
                array, index = container[key], at(frame)
                if not (index == int(index) and 1 <= index <= len(array)):
                    raise self.error(line, f"{name} has elements 1 to {len(array)}, not {index:g}")
                return array, int(index) - 1

            locate = element
        return kind.element, locate

    # ---- calls

    def arguments(self, end: str) -> list[Argument]:
        """Read arguments: commas part required ones, and may stand before optional ones."""
        found: list[Argument] = []
        while not self.sees(end):
            if found and not self.accept(",") and not self.sees("\\"):
                self.fail(f"expected a comma, \\ or {end}")
            line = self.next.line
            name = self.name() if self.accept("\\") else ""
            found.append(Argument(line, name, self.expression() if not name or self.accept(":=") else None))
        return found

    def matched(
        self, line: int, called: str, wanted: Sequence[BuiltinParameter], arguments: list[Argument]
    ) -> list[Argument | None]:
        """Match arguments to parameters; optional ones must stand between the right required ones."""
        given: list[Argument | None] = [None] * len(wanted)
        at = 0
        for argument in arguments:
            if not argument.name:
                while at < len(wanted) and wanted[at].name:
                    at += 1
                if at == len(wanted):
                    raise Fault(f"{called} has too many arguments", argument.line)
                given[at], at = argument, at + 1
                continue
            start = max((k for k in range(at) if not wanted[k].name), default=-1) + 1
            here = [k for k in range(start, len(wanted)) if wanted[k].name == argument.name.lower()]
            if not here or any(not wanted[k].name for k in range(at, here[0])) or given[here[0]] is not None:
                raise Fault(f"{called} takes no \\{argument.name} there", argument.line)
            given[here[0]] = argument
        missing = sum(1 for want, argument in zip(wanted, given, strict=True) if not want.name and argument is None)
        if missing:
            raise Fault(f"{called} lacks {missing} argument{'s' * (missing > 1)}", line)
        return given

    def called(self, line: int, act: Routine | Builtin | None, name: str, arguments: list[Argument]) -> Evaluate:
        """Return a call; values are copied into cells of a routine of the program, references share theirs."""
        if isinstance(act, Builtin):
            return self.builtin_call(line, act, name, arguments)
        assert act is not None
        wanted = [BuiltinParameter(p.name.lower() if p.optional else "", str(p.type)) for p in act.parameters]
        given = self.matched(line, name, wanted, arguments)
        cells = [self.cell(want, argument) for want, argument in zip(act.parameters, given, strict=True)]
        return lambda frame: self.program.enter(act, [cell(frame) for cell in cells])

    def cell(self, parameter: Parameter, argument: Argument | None) -> Evaluate:
        """Return what makes the cell of a parameter."""
        if argument is None:
            return lambda frame: None
        if parameter.type == SWITCH:
            return lambda frame: [True]
        value = argument.value
        if value is None:
            raise Fault(f"\\{argument.name} needs a value", argument.line)
        if parameter.mode and not value.whole:
            raise Fault("only whole variables can be handed over by reference here", value.line)
        get = self.of(parameter.type, value)
        if not parameter.mode:
            return lambda frame: [copied(get(frame))]
        assert value.slot is not None
        cell, index = value.slot.cell, value.slot.index
        if value.slot.storage in ("CONST", "LOOP"):
            raise Fault(f"{value.name} cannot be changed", value.line)
        return lambda frame: frame[index] if cell is None else cell

    def builtin_call(self, line: int, builtin: Builtin, name: str, arguments: list[Argument]) -> Evaluate:
        """Return a call of a built-in."""
        required: list[Evaluate] = []
        named: dict[str, Evaluate] = {}
        for want, argument in zip(builtin.wanted, self.matched(line, name, builtin.wanted, arguments), strict=True):
            if argument is None:
                continue
            found = self.handed(name, want, argument)
            if want.name:
                named[want.name] = found[0]
            else:
                required += found
        act = builtin.act
        if not named:
            return lambda frame: act(*[get(frame) for get in required])
        return lambda frame: act(*[get(frame) for get in required], **{key: get(frame) for key, get in named.items()})

    def handed(self, called: str, want: BuiltinParameter, argument: Argument) -> list[Evaluate]:
        value = argument.value
        if want.type == "switch":
            if value is not None:
                raise Fault(f"\\{argument.name} of {called} is a switch and takes no value", argument.line)
            return [lambda frame: True]
        if value is None:
            raise Fault(f"\\{argument.name} of {called} needs a value", argument.line)
        if want.type == "any":
            return [self.typed(value).get]
        if want.type not in ("signal", "present") and not want.type.startswith("ref:"):
            return [self.of(self.program.types[want.type], value)]
        if not value.name:
            raise Fault(f"{called} needs the name of something, not a value", value.line)
        if want.type == "signal":
            return [lambda frame: value.name]
        if want.type != "present":
            return self.reference(called, want.type.removeprefix("ref:"), value)
        slot = self.typed(value).slot
        assert slot is not None
        return [lambda frame: frame[slot.index] is not None]

    def reference(self, called: str, wanted: str, value: Expression) -> list[Evaluate]:
        locate, kind, storage = self.located(value), value.type, value.slot.storage if value.slot else ""
        sentence = ""
        if wanted == "data" and kind.name not in ("tooldata", "loaddata", "wobjdata"):
            sentence = f"{called} reads tooldata, wobjdata or loaddata, not {kind}"
        elif wanted != "data" and kind != self.program.types[wanted]:
            sentence = f"{called} needs {wanted}, found {kind}"
        elif wanted in ("tooldata", "data") and storage not in ("PERS", "SYSTEM"):
            sentence = f"{called} needs a persistent, {value.name} is none"
        elif storage in ("CONST", "LOOP") or (storage == "SYSTEM" and wanted not in ("tooldata", "mecunit")):
            sentence = f"{value.name} cannot be changed"
        if sentence:
            raise Fault(sentence, value.line)
        return [locate, lambda frame: kind.name] if wanted == "data" else [locate]


def _literal(token: Token) -> Expression:
    kept: float | str | bool = token.text
    kind = STRING
    if token.key:
        kind, kept = BOOL, token.text == "TRUE"
    elif token.kind == "number":
        kind, kept = NUM, float(int(token.text, 16) if token.text[:2] in ("0x", "0X") else token.text)
        try:
            number = single(kept)
        except OverflowError:
            return Expression(token.line, wrong=f"{kept:g} is too large for a num", literal=kept)
        return Expression(token.line, NUM, lambda frame: number, literal=kept)
    return Expression(token.line, kind, lambda frame: kept, literal=kept)


def _refused(what: str) -> Step:
    """Make a statement that is RAPID and is not executed here: GOTO, CONNECT, late binding."""

    def run(frame: Frame) -> None:
        raise Fault(f"{what} is not executed here")

    return run


TOOL_SHARE = 0.6  # of the mass that is on the flange, that the tool's data hold; GripLoad states the rest
_AWAY = single(9e9)  # of an external axis that there is not


class RapidError(Exception):
    """An error that an ERROR handler may catch, by its number."""

    def __init__(self, number: float, sentence: str) -> None:
        self.number, self.sentence = number, sentence
        super().__init__(sentence)


class ProgramStop(Exception):
    """The program ended itself."""


def _spec(text: str, result: Type | None, act: Callable[..., Any]) -> Builtin:
    r"""Read parameters from words such as `jointtarget \T:num \NoEOffs zonedata`; a name alone is a switch."""
    wanted = []
    for word in text.split():
        name, _, kind = word.partition(":") if word.startswith("\\") else ("", "", word)
        wanted.append(BuiltinParameter(name.lstrip("\\").lower(), kind or "switch"))
    return Builtin(tuple(wanted), result, act)


def builtins(controller: Controller) -> dict[str, Builtin]:
    """List the built-ins, by name in lower case."""
    tables = (_math_functions(), _questions(controller), _motions(controller), _signals(controller))
    rows = [row for table in (*tables, _counters(controller), _guided(controller)) for row in table]
    return {name.lower(): _spec(text, result, act) for name, text, result, act in rows}


_Row = tuple[str, str, Type | None, Callable[..., Any]]


def _math_functions() -> list[_Row]:
    def degrees(function: Callable[[float], float]) -> Callable[..., float]:
        return lambda x: single(function(math.radians(x)))

    def text(value: float, decimals: float) -> str:
        return f"{value:.{int(decimals)}f}"

    return [
        ("Abs", "num", NUM, abs),
        ("Sin", "num", NUM, degrees(math.sin)),
        ("Cos", "num", NUM, degrees(math.cos)),
        ("Tan", "num", NUM, degrees(math.tan)),
        ("Sqrt", "num", NUM, lambda x: single(math.sqrt(x))),
        ("Pow", "num num", NUM, lambda x, y: single(math.pow(x, y))),
        ("Exp", "num", NUM, lambda x: single(math.exp(x))),
        ("ATan2", "num num", NUM, lambda y, x: single(math.degrees(math.atan2(y, x)))),
        ("Round", "num \\Dec:num", NUM, lambda x, dec=0.0: single(_half_up(x, int(dec)))),
        ("Trunc", "num \\Dec:num", NUM, lambda x, dec=0.0: single(math.trunc(x * 10.0**dec) / 10.0**dec)),
        ("NumToDnum", "num", DNUM, lambda x: x),
        ("DnumToNum", "dnum \\Integer", NUM, lambda x, integer=False: single(x)),
        ("NumToStr", "num num \\Exp", STRING, lambda x, n, exp=False: text(x, n)),
        ("ValToStr", "any", STRING, lambda x: f"{x:g}" if isinstance(x, float) else str(x)),
        ("StrLen", "string", NUM, lambda x: float(len(x))),
        ("StrPart", "string num num", STRING, lambda x, at, n: x[int(at) - 1 : int(at) - 1 + int(n)]),
        ("Present", "present", BOOL, lambda x: x),
        ("Dim", "any num", NUM, lambda x, n: float(len(x if n == 1.0 else x[0]))),
    ]


def _half_up(x: float, decimals: int) -> float:
    return math.copysign(math.floor(abs(x) * 10.0**decimals + 0.5) / 10.0**decimals, x)


def _questions(controller: Controller) -> list[_Row]:
    def tool() -> list[Any]:
        return [True, [[0.0] * 3, [1.0, 0.0, 0.0, 0.0]], load(TOOL_SHARE * controller.mass())]

    def load(mass: float) -> list[Any]:
        return [single(mass + 0.001), [0.0, 0.0, single(0.001)], [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0]

    def system_data(place: tuple[Any, Any], kind: str, **_: Any) -> None:
        container, key = place
        container[key] = tool() if kind == "tooldata" else load((1.0 - TOOL_SHARE) * controller.mass())

    return [
        ("CSpeedOverride", "\\CTask", NUM, lambda ctask=False: controller.override()),
        ("OpMode", "", NUM, lambda: OP_AUTO if controller.automatic() else OP_MAN_PROG),
        (
            "CJointT",
            "\\TaskRef:any \\TaskName:string",
            JOINTTARGET,
            lambda **_: [[single(x) for x in controller.joints()], [_AWAY] * 6],
        ),
        ("CTool", "\\TaskRef:any", TOOLDATA, lambda **_: tool()),
        ("GetSysData", "ref:data \\ObjectName:string", None, system_data),
        ("ClkRead", "ref:clock \\HighRes", NUM, lambda place, **_: single(_clock(controller, place))),
        ("CTime", "", STRING, lambda: "00:00:00"),
        ("EGMGetState", "ref:egmident", NUM, lambda place: 1.0),
    ]


def _clock(controller: Controller, place: tuple[Any, Any]) -> float:
    kept, since = place[0][place[1]] or (0.0, None)
    return float(kept + (controller.time - since if since is not None else 0.0))


def _motions(controller: Controller) -> list[_Row]:
    def move(to: Any, speed: Any, zone: Any, tool: Any, **named: Any) -> None:
        if not zone[0]:
            controller.hold("zone", zone[1])
        for name in named.keys() - {"t", "noeoffs"}:
            controller.hold(name, named[name])
        controller.carry(tool[0][tool[1]][2][0])
        controller.move(list(to[0]), named.get("t"), speed[0], bool(zone[0]))

    def stop(**_: Any) -> None:
        raise ProgramStop

    return [
        (
            "MoveAbsJ",
            "\\Conc jointtarget \\ID:any \\NoEOffs speeddata \\V:num \\T:num zonedata \\Z:num \\Inpos:any "
            "ref:tooldata \\WObj:any \\TLoad:any",
            None,
            move,
        ),
        ("WaitTime", "\\InPos num", None, lambda t, inpos=False: controller.wait(t, inpos)),
        ("WaitRob", "\\InPos \\ZeroSpeed", None, lambda **_: controller.wait(0.0, True)),
        ("Stop", "\\NoRegain \\AllMoveTasks", None, stop),
        ("ConfJ", "\\On \\Off", None, lambda **_: None),
        ("ConfL", "\\On \\Off", None, lambda **_: None),
        ("SingArea", "\\Wrist \\Off", None, lambda **_: None),
        ("AccSet", "num num", None, lambda *given: controller.hold("AccSet", given)),
        ("VelSet", "num num", None, lambda *given: controller.hold("VelSet", given)),
    ]


def _signals(controller: Controller) -> list[_Row]:
    def write(text: str, **named: Any) -> None:
        controller.write(text + "".join(f"{x:g}" if isinstance(x, float) else str(x) for x in named.values()))

    return [
        ("SetDO", "\\SDelay:num \\Sync signal num", None, lambda name, x, **_: controller.signal(name, x)),
        ("SetGO", "\\SDelay:num signal num", None, lambda name, x, **_: controller.signal(name, x)),
        ("Set", "signal", None, lambda name: controller.signal(name, 1.0)),
        ("Reset", "signal", None, lambda name: controller.signal(name, 0.0)),
        ("TPWrite", "string \\Num:num \\Bool:bool \\Dnum:dnum", None, write),
        ("TPErase", "", None, lambda: None),
        ("ErrWrite", "\\W \\I string string", None, lambda head, text, **_: controller.write(f"{head}: {text}")),
    ]


def _counters(controller: Controller) -> list[_Row]:
    """Built-ins that change clocks and numbers in place."""

    def clock(start: bool | None) -> Callable[..., None]:
        def change(place: tuple[Any, Any]) -> None:
            kept = 0.0 if start is None else _clock(controller, place)
            place[0][place[1]] = (kept, controller.time if start else None)

        return change

    def add(sign: float) -> Callable[..., None]:
        def change(place: tuple[Any, Any], step: float = sign) -> None:
            place[0][place[1]] = single(place[0][place[1]] + step)

        return change

    def clear(place: tuple[Any, Any]) -> None:
        place[0][place[1]] = copied(0.0)

    return [
        ("ClkReset", "ref:clock", None, clock(None)),
        ("ClkStart", "ref:clock", None, clock(True)),
        ("ClkStop", "ref:clock", None, clock(False)),
        ("Incr", "ref:num", None, add(1.0)),
        ("Decr", "ref:num", None, add(-1.0)),
        ("Add", "ref:num num", None, add(0.0)),
        ("Clear", "ref:num", None, clear),
    ]


def _guided(controller: Controller) -> list[_Row]:
    """Externally guided motion, step by step."""

    def egm(step: str) -> Callable[..., None]:
        return lambda *values, **named: controller.egm(step, {"values": values, **named})

    near = " ".join(f"\\J{k}:egm_minmax" for k in range(1, 8))
    axes = " ".join(f"\\J{k}" for k in range(1, 8))
    return [
        ("EGMReset", "ref:egmident", None, egm("reset")),
        ("EGMGetId", "ref:egmident", None, egm("id")),
        (
            "EGMSetupUC",
            "ref:mecunit ref:egmident string string \\Joint \\Pose \\PathCorr \\APTR \\LATR \\CommTimeout:num",
            None,
            egm("setup"),
        ),
        (
            "EGMActJoint",
            f"ref:egmident \\StreamStart \\Tool:any \\WObj:any \\TLoad:any {near} \\LpFilter:num \\SampleRate:num "
            "\\MaxPosDeviation:num \\MaxSpeedDeviation:num",
            None,
            egm("act"),
        ),
        (
            "EGMRunJoint",
            f"ref:egmident num \\NoWaitCond {axes} \\CondTime:num \\RampInTime:num \\RampOutTime:num \\Offset:any "
            "\\PosCorrGain:num",
            None,
            egm("run"),
        ),
        ("EGMStop", "ref:egmident num \\RampOutTime:num", None, egm("stop")),
    ]
