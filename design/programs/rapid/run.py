"""Interpreter of RAPID modules: types are checked first, then expressions and statements become closures.

The closures work on a routine's data and on the controller's virtual clock. Built-in functions and instructions are
listed with their parameters.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

from excitor.design.programs import runtime
from excitor.design.programs.rapid import parse as tree
from excitor.design.programs.rapid.parse import (
    BOOL,
    DNUM,
    JOINTTARGET,
    NUM,
    OP_AUTO,
    OP_MAN_PROG,
    PREDECLARED,
    STRING,
    TOOLDATA,
    TYPES,
    Type,
    copied,
    initial,
)
from excitor.design.programs.runtime import ORDER, Fault, Guard, Passes, single
from excitor.design.programs.target import ProgramError

Frame = list[Any]  # of cells, each a list of one value
Evaluate = Callable[[Frame], Any]
Locate = Callable[[Frame], tuple[Any, Any]]  # -> container, key

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<>": operator.ne, **ORDER}
_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slot:
    """Storage of data: a cell of its own, or (a routine's) the cell at an index of its frame."""

    type: Type
    storage: str  # "CONST", "VAR", "PERS", "LOOP"
    cell: list[Any] | None = None
    index: int = -1
    optional: bool = False


@dataclass(slots=True)
class Signature:
    """Signature of a routine of the program, and its compiled call."""

    routine: tree.Routine
    result: Type | None
    types: tuple[Type, ...]
    call: Callable[[Sequence[Any]], Any] | None = None  # gets cells
    body: Callable[[], "Step"] | None = None  # compiles it


@dataclass(frozen=True, slots=True)
class BuiltinParameter:
    """Parameter of a built-in. Its type: one of RAPID's, "switch", "signal", "any", or "ref" + a type."""

    name: str  # empty: required
    type: str


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function (with a result) or instruction: `act` gets the required values in order, and the named ones."""

    wanted: tuple[BuiltinParameter, ...]
    result: Type | None
    act: Callable[..., Any]


@dataclass(slots=True)
class Scope:
    """Names in scope at a place in the program."""

    file: str
    types: dict[str, Type]
    data: dict[str, Slot]
    routines: dict[str, Signature]
    builtins: dict[str, Builtin]
    width: list[int] = field(default_factory=lambda: [0])  # of the frame

    def fail(self, line: int, sentence: str) -> ProgramError:
        """Build the error of a line."""
        return ProgramError(self.file, line, sentence)

    def local(self, name: str, kind: Type, storage: str, optional: bool = False) -> Slot:
        """Declare data of the routine."""
        slot = Slot(kind, storage, index=self.width[0], optional=optional)
        self.width[0] += 1
        self.data[name.lower()] = slot
        return slot

    def within(self) -> "Scope":
        """Open a scope whose names end with it."""
        return replace(self, data=dict(self.data))


def value(scope: Scope, node: tree.Expression, kind: Type) -> Evaluate:
    """Compile an expression that must be of a type."""
    if isinstance(node, tree.Aggregate):
        return _aggregate(scope, node, kind)
    if kind == DNUM and isinstance(node, tree.Value) and isinstance(node.value, float):
        number = node.value
        return lambda frame: number
    found, evaluate = any_value(scope, node)
    if found.element != kind.element or len(found.sizes) != len(kind.sizes) or not _fits(found, kind):
        raise scope.fail(node.line, f"expected {kind}, found {found}")
    return evaluate


def _fits(found: Type, kind: Type) -> bool:
    return all(n == m or not n or not m for n, m in zip(found.sizes, kind.sizes, strict=True))


def any_value(scope: Scope, node: tree.Expression) -> tuple[Type, Evaluate]:
    """Compile an expression; return it with its type."""
    if isinstance(node, tree.Value):
        return _literal(scope, node)
    if isinstance(node, tree.Path):
        return _path(scope, node)
    if isinstance(node, tree.Operation):
        return _operation(scope, node)
    if isinstance(node, tree.Call):
        return _call(scope, node)
    raise scope.fail(node.line, "the type of data [...] is unknown here")


def _literal(scope: Scope, node: tree.Value) -> tuple[Type, Evaluate]:
    kept = node.value
    if isinstance(kept, bool):
        return BOOL, lambda frame: kept
    if isinstance(kept, str):
        return STRING, lambda frame: kept
    try:
        number = single(kept)
    except OverflowError:
        raise scope.fail(node.line, f"{kept:g} is too large for a num") from None
    return NUM, lambda frame: number


def _aggregate(scope: Scope, node: tree.Aggregate, kind: Type) -> Evaluate:
    if kind.sizes:
        rest = replace(kind, sizes=kind.sizes[1:])
        wanted = [rest] * (kind.sizes[0] or len(node.items))
    else:
        wanted = [part for _, part in kind.fields]
    if len(wanted) != len(node.items):
        raise scope.fail(node.line, f"{kind} has {len(wanted)} parts, found {len(node.items)}")
    parts = [value(scope, item, part) for item, part in zip(node.items, wanted, strict=True)]
    return lambda frame: [part(frame) for part in parts]


def slot(scope: Scope, node: tree.Path) -> Slot:
    """Find the data that a path begins with."""
    found = scope.data.get(node.parts[0].name.lower())
    if found is None:
        raise scope.fail(node.line, f"{node.parts[0].name} is not declared")
    return found


def place(scope: Scope, node: tree.Path) -> tuple[Type, Locate]:
    """Compile a path to the storage of its value; return it with its type."""
    first = slot(scope, node)
    cell, index, name = first.cell, first.index, node.parts[0].name
    locate: Locate

    def in_frame(frame: Frame) -> tuple[Any, Any]:
        if frame[index] is None:
            raise scope.fail(node.line, f"the optional argument {name} is not there")
        return frame[index], 0

    locate = in_frame if cell is None else lambda frame: (cell, 0)
    kind = first.type
    for k, part in enumerate(node.parts):
        if k:
            kind, locate = _component(scope, node, kind, locate, part.name)
        if part.indices:
            kind, locate = _element(scope, node, kind, locate, part)
    return kind, locate


def _component(scope: Scope, node: tree.Path, kind: Type, locate: Locate, name: str) -> tuple[Type, Locate]:
    names = [] if kind.sizes else [part.lower() for part, _ in kind.fields]
    if name.lower() not in names:
        raise scope.fail(node.line, f"{kind} has no component {name}")
    at = names.index(name.lower())

    def component(frame: Frame) -> tuple[Any, Any]:
        container, key = locate(frame)
        return container[key], at

    return kind.fields[at][1], component


def _element(scope: Scope, node: tree.Path, kind: Type, locate: Locate, part: tree.Part) -> tuple[Type, Locate]:
    if len(part.indices) != len(kind.sizes):
        raise scope.fail(node.line, f"{part.name} has {len(kind.sizes)} dimensions, found {len(part.indices)} indices")
    for item in part.indices:
        at = value(scope, item, NUM)

        def element(frame: Frame, locate: Locate = locate, at: Evaluate = at) -> tuple[Any, Any]:
            container, key = locate(frame)
            array, index = container[key], at(frame)
            if not (index == int(index) and 1 <= index <= len(array)):
                raise scope.fail(node.line, f"{part.name} has elements 1 to {len(array)}, not {index:g}")
            return array, int(index) - 1

        locate = element
    return kind.element, locate


def _path(scope: Scope, node: tree.Path) -> tuple[Type, Evaluate]:
    first = slot(scope, node)
    if len(node.parts) == 1 and not node.parts[0].indices and not first.optional:
        cell, index = first.cell, first.index
        if cell is None:
            return first.type, lambda frame: frame[index][0]
        return first.type, lambda frame: cell[0]
    kind, locate = place(scope, node)

    def read(frame: Frame) -> Any:
        container, key = locate(frame)
        return container[key]

    return kind, read


def _operation(scope: Scope, node: tree.Operation) -> tuple[Type, Evaluate]:
    if node.left is None:
        if node.sign == "NOT":
            inner = value(scope, node.right, BOOL)
            return BOOL, lambda frame: not inner(frame)
        kind, number = any_value(scope, node.right)
        if kind not in (NUM, DNUM):
            raise scope.fail(node.line, f"- before {kind}")
        return kind, lambda frame: -number(frame)
    if node.sign in ("AND", "OR", "XOR"):
        return BOOL, _logic(node.sign, value(scope, node.left, BOOL), value(scope, node.right, BOOL))
    kind, a, b = _pair(scope, node.left, node.right)
    if node.sign in _COMPARE:
        if node.sign not in ("=", "<>") and kind not in (NUM, DNUM):
            raise scope.fail(node.line, f"{node.sign} between {kind}")
        compare = _COMPARE[node.sign]
        return BOOL, lambda frame: compare(a(frame), b(frame))
    if kind == STRING and node.sign == "+":
        return STRING, lambda frame: a(frame) + b(frame)
    if kind not in (NUM, DNUM):
        raise scope.fail(node.line, f"{node.sign} between {kind}")
    keep = single if kind == NUM else float
    return kind, _arithmetic(scope, node, a, b, keep)


def _pair(scope: Scope, left: tree.Expression, right: tree.Expression) -> tuple[Type, Evaluate, Evaluate]:
    """Compile both sides of an operator, which must be of one type; a literal becomes a dnum beside one."""
    if isinstance(left, tree.Value) and not isinstance(right, tree.Value):
        kind, b = any_value(scope, right)
        return kind, value(scope, left, kind), b
    kind, a = any_value(scope, left)
    return kind, a, value(scope, right, kind)


def _logic(sign: str, a: Evaluate, b: Evaluate) -> Evaluate:
    if sign == "AND":
        return lambda frame: a(frame) and b(frame)
    if sign == "OR":
        return lambda frame: a(frame) or b(frame)
    return lambda frame: a(frame) != b(frame)


def _arithmetic(
    scope: Scope, node: tree.Operation, a: Evaluate, b: Evaluate, keep: Callable[[float], float]
) -> Evaluate:
    if node.sign in _JOIN:
        join = _JOIN[node.sign]
        return lambda frame: keep(join(a(frame), b(frame)))

    def whole(x: float) -> int:
        if x != int(x):
            raise scope.fail(node.line, f"{node.sign} needs whole numbers, found {x:g}")
        return int(x)

    def divided(frame: Frame) -> float:
        x, y = whole(a(frame)), whole(b(frame))
        return float(int(x / y) if node.sign == "DIV" else x - y * int(x / y))

    return divided


def _call(scope: Scope, node: tree.Call) -> tuple[Type, Evaluate]:
    routine = scope.routines.get(node.name.lower())
    if routine is not None:
        if routine.result is None:
            raise scope.fail(node.line, f"{node.name} is a procedure and has no value")
        return routine.result, routine_call(scope, node, routine)
    builtin = scope.builtins.get(node.name.lower())
    if builtin is None or builtin.result is None:
        raise scope.fail(node.line, f"there is no function {node.name} here")
    return builtin.result, builtin_call(scope, node, builtin)


def routine_call(scope: Scope, node: tree.Call, routine: Signature) -> Evaluate:
    """Compile a call of a routine of the program: values are copied into cells, references share theirs."""
    wanted = [
        BuiltinParameter(p.name.lower() if p.optional else "", str(t))
        for p, t in zip(routine.routine.parameters, routine.types, strict=True)
    ]
    given = matched(scope, node, wanted)
    cells: list[Evaluate] = []
    for parameter, kind, argument in zip(routine.routine.parameters, routine.types, given, strict=True):
        if argument is None:
            cells.append(lambda frame: None)
        elif kind == TYPES["switch"]:
            cells.append(lambda frame: [True])
        elif argument.value is None:
            raise scope.fail(argument.line, f"\\{argument.name} needs a value")
        elif parameter.mode:
            cells.append(_shared(scope, argument.value, kind))
        else:
            cells.append(_celled(value(scope, argument.value, kind)))
    return lambda frame: routine.call([cell(frame) for cell in cells])  # type: ignore[misc]


def _celled(get: Evaluate) -> Evaluate:
    return lambda frame: [copied(get(frame))]


def _shared(scope: Scope, node: tree.Expression, kind: Type) -> Evaluate:
    if not isinstance(node, tree.Path) or len(node.parts) > 1 or node.parts[0].indices:
        raise scope.fail(node.line, "only whole variables can be handed over by reference here")
    value(scope, node, kind)
    found = slot(scope, node)
    if found.storage in ("CONST", "LOOP"):
        raise scope.fail(node.line, f"{node.parts[0].name} cannot be changed")
    return lambda frame: frame[found.index] if found.cell is None else found.cell


def matched(scope: Scope, node: tree.Call, wanted: Sequence[BuiltinParameter]) -> list[tree.Argument | None]:
    """Match arguments to parameters; optional ones must stand between the right required ones."""
    given: list[tree.Argument | None] = [None] * len(wanted)
    at = 0
    for argument in node.arguments:
        if argument.name is None:
            while at < len(wanted) and wanted[at].name:
                at += 1
            if at == len(wanted):
                raise scope.fail(argument.line, f"{node.name} has too many arguments")
            given[at], at = argument, at + 1
            continue
        start = max((k for k in range(at) if not wanted[k].name), default=-1) + 1
        here = [k for k in range(start, len(wanted)) if wanted[k].name == argument.name.lower()]
        if not here or any(not wanted[k].name for k in range(at, here[0])) or given[here[0]] is not None:
            raise scope.fail(argument.line, f"{node.name} takes no \\{argument.name} there")
        given[here[0]] = argument
    missing = sum(1 for want, argument in zip(wanted, given, strict=True) if not want.name and argument is None)
    if missing:
        raise scope.fail(node.line, f"{node.name} lacks {missing} argument{'s' * (missing > 1)}")
    return given


def builtin_call(scope: Scope, node: tree.Call, builtin: Builtin) -> Evaluate:
    """Compile a call of a built-in."""
    required: list[Evaluate] = []
    named: dict[str, Evaluate] = {}
    for want, argument in zip(builtin.wanted, matched(scope, node, builtin.wanted), strict=True):
        if argument is None:
            continue
        found = _handed(scope, node.name, want, argument)
        if want.name:
            named[want.name] = found[0]
        else:
            required += found
    act = builtin.act
    if not named:
        return lambda frame: act(*[get(frame) for get in required])
    return lambda frame: act(*[get(frame) for get in required], **{name: get(frame) for name, get in named.items()})


def _handed(scope: Scope, name: str, want: BuiltinParameter, argument: tree.Argument) -> list[Evaluate]:
    if want.type == "switch":
        if argument.value is not None:
            raise scope.fail(argument.line, f"\\{argument.name} of {name} is a switch and takes no value")
        return [lambda frame: True]
    node = argument.value
    if node is None:
        raise scope.fail(argument.line, f"\\{argument.name} of {name} needs a value")
    if want.type == "any":
        return [any_value(scope, node)[1]]
    if want.type not in ("signal", "present") and not want.type.startswith("ref:"):
        return [value(scope, node, scope.types[want.type])]
    if not isinstance(node, tree.Path):
        raise scope.fail(node.line, f"{name} needs the name of something, not a value")
    if want.type == "signal":
        return [lambda frame: node.parts[0].name]
    if want.type == "present":
        index = slot(scope, node).index
        return [lambda frame: frame[index] is not None]
    return _reference(scope, name, want.type.removeprefix("ref:"), node)


def _reference(scope: Scope, name: str, wanted: str, node: tree.Path) -> list[Evaluate]:
    kind, locate = place(scope, node)
    storage = slot(scope, node).storage
    if wanted == "data" and kind.name not in ("tooldata", "loaddata", "wobjdata"):
        raise scope.fail(node.line, f"{name} reads tooldata, wobjdata or loaddata, not {kind}")
    if wanted != "data" and kind != scope.types[wanted]:
        raise scope.fail(node.line, f"{name} needs {wanted}, found {kind}")
    if wanted in ("tooldata", "data") and storage not in ("PERS", "SYSTEM"):
        raise scope.fail(node.line, f"{name} needs a persistent, {node.parts[0].name} is none")
    if storage in ("CONST", "LOOP") or (storage == "SYSTEM" and wanted not in ("tooldata", "mecunit")):
        raise scope.fail(node.line, f"{node.parts[0].name} cannot be changed")
    return [locate, lambda frame: kind.name] if wanted == "data" else [locate]


MOST_IDLE = 200_000  # passes of loops in which no time goes by
DEEPEST = 60  # calls inside calls
RETRIES = 5

Step = Callable[[Frame], None]


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

    def move(self, axes: list[float], seconds: float | None, speed: float, fine: bool) -> None:
        """Go to a pose, in a time where one is given, else at a speed."""

    def wait(self, seconds: float, standing: bool) -> None:
        """Advance the clock; with `standing`, after the robot has come to rest."""

    def signal(self, name: str, value: float) -> None:
        """Write an output."""

    def egm(self, step: str, values: dict[str, Any]) -> None:
        """Prepare, run or end externally guided motion; RapidError where it fails."""


class Program:
    """A module, ready to run on a controller."""

    def __init__(self, file: str, module: tree.Module, controller: Controller) -> None:
        self.file, self.controller, self.module = file, controller, module
        self.guard = Guard(file, _WRONG, _sentence)
        self.passes = Passes(MOST_IDLE, f"loops make {MOST_IDLE} passes in which nothing moves")
        self.seen, self.depth = -1.0, 0
        system = {name: Slot(kind, "SYSTEM", [copied(kept)]) for name, (kind, kept) in PREDECLARED.items()}
        self.errno: list[Any] = [0.0]
        system["errno"] = Slot(NUM, "SYSTEM", self.errno)
        self.scope = Scope(file, dict(TYPES), system, {}, builtins(controller))
        self._declare(module)

    def run(self, entry: str) -> None:
        """Run a procedure without parameters to its end, or to where the program stops itself."""
        routine = self.scope.routines.get(entry.lower())
        if routine is None or routine.routine.kind != "PROC":
            raise ProgramError(self.file, self.module.line, f"there is no procedure {entry}")
        if any(not parameter.optional for parameter in routine.routine.parameters):
            raise ProgramError(self.file, routine.routine.line, f"{entry} has parameters; nothing can start it")
        try:
            assert routine.call is not None
            routine.call([None] * len(routine.types))
        except ProgramStop:
            pass
        except RapidError as error:
            raise ProgramError(self.file, None, f"no ERROR handler takes this: {error.sentence}") from None

    # ---- declarations

    def _declare(self, module: tree.Module) -> None:
        scope = self.scope
        taken = {module.name.lower(): None}
        for record in module.records:
            fields = tuple((name, self._type(record.line, kind)) for name, kind in record.fields)
            self._new(record.line, record.name, scope.types)
            scope.types[record.name.lower()] = Type(record.name.lower(), fields)
        for routine in module.routines:
            self._new(routine.line, routine.name, scope.routines, scope.data, taken)
            types = tuple(self._parameter(parameter) for parameter in routine.parameters)
            result = self._type(routine.line, routine.type) if routine.kind == "FUNC" else None
            scope.routines[routine.name.lower()] = Signature(routine, result, types)
        for data in module.data:
            own = {k: v for k, v in scope.data.items() if v.storage != "SYSTEM"}
            self._new(data.line, data.name, own, scope.routines, taken)
            kind, make = self._data(scope, data)
            scope.data[data.name.lower()] = Slot(kind, data.storage, [copied(self._now(data.line, make))])
        for signature in scope.routines.values():
            self._routine(signature)

    def _new(self, line: int, name: str, *tables: dict[str, Any]) -> None:
        if any(name.lower() in table for table in tables):
            raise ProgramError(self.file, line, f"{name} is declared twice")

    def _type(self, line: int, name: str) -> Type:
        kind = self.scope.types.get(name.lower())
        if kind is None:
            raise ProgramError(self.file, line, f"there is no type {name} here")
        return kind

    def _parameter(self, parameter: tree.Parameter) -> Type:
        kind = self._type(parameter.line, parameter.type)
        return Type(kind.name, kind.fields, (0,) * parameter.rank)

    def _data(self, scope: Scope, data: tree.Data) -> tuple[Type, Evaluate]:
        sizes = tuple(self._size(scope, data, node) for node in data.sizes)
        kind = self._type(data.line, data.type)
        kind = Type(kind.name, kind.fields, sizes)
        if data.value is None:
            return kind, lambda frame: initial(kind)
        return kind, value(scope, data.value, kind)

    def _size(self, scope: Scope, data: tree.Data, node: tree.Expression) -> int:
        size = self._now(data.line, value(scope, node, NUM))
        if not (size == int(size) and 1 <= size <= 100_000):
            raise ProgramError(self.file, data.line, f"the array {data.name} cannot have {size:g} elements")
        return int(size)

    def _now(self, line: int, evaluate: Evaluate) -> Any:
        return self.guard(line, evaluate)([])

    # ---- routines

    def _routine(self, signature: Signature) -> None:
        routine, scope = signature.routine, self.scope.within()
        scope.width = [0]
        for parameter, kind in zip(routine.parameters, signature.types, strict=True):
            storage = parameter.mode.replace("INOUT", "VAR") or "VAR"
            scope.local(parameter.name, kind, storage, parameter.optional)
        made: list[tuple[int, Evaluate]] = []
        for data in routine.data:
            kind, make = self._data(scope, data)
            made.append((scope.local(data.name, kind, data.storage).index, self.guard(data.line, make)))

        @cache  # compiled when it is first called: routines may call each other
        def body() -> Step:
            plain = Body(self, scope, signature.result)
            handler = None if routine.handler is None else plain.block(routine.handler)
            return replace(plain, handler=handler).block(routine.body)

        def call(cells: Sequence[Any]) -> Any:
            run = body()
            frame: Frame = [*cells, *[None] * (scope.width[0] - len(cells))]
            for index, make in made:
                frame[index] = [copied(make(frame))]
            return self._enter(routine, run, frame, signature.result)

        signature.body, signature.call = body, call

    def _enter(self, routine: tree.Routine, body: Step, frame: Frame, result: Type | None) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ProgramError(self.file, routine.line, f"{routine.name} calls itself without end")
        try:
            body(frame)
        except _Return as end:
            return end.result
        finally:
            self.depth -= 1
        if result is not None:
            raise ProgramError(self.file, routine.line, f"{routine.name} ends without RETURN")
        return None

    def check(self) -> None:
        """Compile every routine, called or not."""
        for signature in self.scope.routines.values():
            assert signature.body is not None
            signature.body()

    def turn(self, frame: Frame) -> None:
        """Count a pass of a loop in which nothing moves."""
        if self.controller.time != self.seen:
            self.seen, self.passes.count = self.controller.time, 0
        self.passes.spend()


@dataclass(frozen=True, slots=True)
class Body:
    """Makes a routine's statements, each a function of its frame."""

    program: Program
    scope: Scope
    result: Type | None
    handler: Step | None = None

    def block(self, block: tree.Block) -> Step:
        """Make statements that run one after the other."""
        guard = self.program.guard
        return guard.sequence([(line, guard(line, make)(self)) for line, make in block])

    def assign(self, node: tree.Path, given: tree.Expression) -> Step:
        """Make PLACE := VALUE."""
        if slot(self.scope, node).storage in ("CONST", "LOOP", "SYSTEM"):
            raise Fault(f"{node.parts[0].name} cannot be changed")
        kind, locate = place(self.scope, node)
        get = value(self.scope, given, kind)

        def assign(frame: Frame) -> None:
            new = copied(get(frame))
            container, key = locate(frame)
            container[key] = new

        return self._handled(assign)

    def do(self, node: tree.Call) -> Step:
        """Make a call of an instruction or a procedure."""
        routine = self.scope.routines.get(node.name.lower())
        if routine is not None and routine.routine.kind == "PROC":
            return self._handled(routine_call(self.scope, node, routine))
        builtin = self.scope.builtins.get(node.name.lower())
        if builtin is None or builtin.result is not None:
            raise Fault(f"there is no instruction or procedure {node.name} here")
        call = builtin_call(self.scope, node, builtin)

        def run(frame: Frame) -> None:
            try:
                call(frame)
            except ProgramError as error:
                if error.line is not None or error.file != self.scope.file:
                    raise
                raise Fault(error.sentence) from None

        return self._handled(run)

    def choice(self, branches: list[tuple[tree.Expression | None, tree.Block]]) -> Step:
        """Make IF; without a condition: ELSE."""
        return runtime.choice(
            [(None if test is None else value(self.scope, test, BOOL), self.block(block)) for test, block in branches]
        )

    def switch(self, node: tree.Expression, cases: list[tuple[list[tree.Expression] | None, tree.Block]]) -> Step:
        """Make TEST; without values: DEFAULT."""
        kind, get = any_value(self.scope, node)
        return runtime.switch(
            get,
            [
                (None if items is None else [value(self.scope, item, kind) for item in items], self.block(block))
                for items, block in cases
            ],
        )

    def loop(self, condition: tree.Expression, block: tree.Block) -> Step:
        """Make WHILE."""
        return runtime.loop(value(self.scope, condition, BOOL), self.block(block), self.program.turn)

    def count(self, name: str, limits: Sequence[tree.Expression], block: tree.Block) -> Step:
        """Make FOR, from the first to the last, by a step where a third number is given."""
        first, last, *by = [value(self.scope, node, NUM) for node in limits]
        inner = self.scope.within()
        index = inner.local(name, NUM, "LOOP").index

        def bounds(frame: Frame) -> tuple[float, float, float]:
            at, end = first(frame), last(frame)
            step = by[0](frame) if by else 1.0 if at <= end else -1.0
            if step == 0.0:
                raise Fault("a loop with STEP 0 never ends")
            return at, end, step

        def store(frame: Frame, at: float) -> None:
            frame[index] = [at]

        return runtime.count(bounds, store, replace(self, scope=inner).block(block), self.program.turn)

    def jump(self, word: str, node: tree.Expression | None) -> Step:
        """Make RETURN, RAISE, RETRY, TRYNEXT or EXIT."""
        get: Evaluate | None = None
        if word == "RETURN" and (node is None) != (self.result is None):
            raise Fault("RETURN has a value in functions and nowhere else")
        if node is not None:
            get = value(self.scope, node, self.result if word == "RETURN" and self.result is not None else NUM)
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

    def refuse(self, sentence: str) -> Step:
        """Make a statement that fails when it is run."""

        def run(frame: Frame) -> None:
            raise Fault(sentence)

        return run

    def _handled(self, step: Step) -> Step:
        handler, errno = self.handler, self.program.errno
        if handler is None:
            return step

        def run(frame: Frame) -> None:
            for _ in range(1 + RETRIES):
                try:
                    return step(frame)
                except RapidError as error:
                    errno[0] = error.number
                    raised = error
                try:
                    handler(frame)
                except _HandlerEnd as end:
                    if end.args[0] == "TRYNEXT":
                        return None
                    continue
                raise raised  # the handler came to its end without a word what to do
            raise Fault(f"fails again after {RETRIES} retries: {raised.sentence}")

        return run


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
    return {
        name.lower(): _spec(text, result, act)
        for name, text, result, act in (*_math_functions(), *_questions(controller), *_instructions(controller))
    }


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
        return [True, [[0.0] * 3, [1.0, 0.0, 0.0, 0.0]], load(controller.mass())]

    def load(mass: float) -> list[Any]:
        return [single(mass + 0.001), [0.0, 0.0, single(0.001)], [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0]

    def system_data(place: tuple[Any, Any], kind: str, **_: Any) -> None:
        container, key = place
        container[key] = tool() if kind == "tooldata" else load(0.0)

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


def _instructions(controller: Controller) -> list[_Row]:
    return [*_motions(controller), *_signals(controller), *_counters(controller), *_guided(controller)]


def _motions(controller: Controller) -> list[_Row]:
    def move(to: Any, speed: Any, zone: Any, tool: Any, **named: Any) -> None:
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
        ("AccSet", "num num", None, lambda *_: None),
        ("VelSet", "num num", None, lambda *_: None),
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
