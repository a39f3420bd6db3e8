"""What a RAPID expression is worth: types are checked first, then it becomes a closure over a routine's data."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages import rapid_tree as tree
from excitor.design.programs.languages.rapid_system import Builtin, Wanted
from excitor.design.programs.languages.rapid_types import BOOL, DNUM, NUM, STRING, TYPES, Type, copied, single

Frame = list[Any]  # of cells, each a list of one value
Evaluate = Callable[[Frame], Any]
Locate = Callable[[Frame], tuple[Any, Any]]  # -> container, key

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slot:
    """Where data is kept: a cell of its own, or (a routine's) the cell at an index of its frame."""

    type: Type
    storage: str  # "CONST", "VAR", "PERS", "LOOP"
    cell: list[Any] | None = None
    index: int = -1
    optional: bool = False


@dataclass(slots=True)
class Signature:
    """How a routine of the program is called."""

    routine: tree.Routine
    result: Type | None
    types: tuple[Type, ...]
    call: Callable[[Sequence[Any]], Any] | None = None  # gets cells


@dataclass(slots=True)
class Scope:
    """All that names mean at a place in the program."""

    file: str
    types: dict[str, Type]
    data: dict[str, Slot]
    routines: dict[str, Signature]
    builtins: dict[str, Builtin]
    width: list[int] = field(default_factory=lambda: [0])  # of the frame

    def fail(self, line: int, sentence: str) -> ProgramError:
        """Make the error of a line."""
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
    """Compile an expression and say its type."""
    if isinstance(node, tree.Value):
        return _literal(scope, node)
    if isinstance(node, tree.Path):
        return _path(scope, node)
    if isinstance(node, tree.Operation):
        return _operation(scope, node)
    if isinstance(node, tree.Call):
        return _call(scope, node)
    raise scope.fail(node.line, "what kind of data [...] is cannot be told here")


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
    """Look up the data that a path begins with."""
    found = scope.data.get(node.parts[0].name.lower())
    if found is None:
        raise scope.fail(node.line, f"{node.parts[0].name} is not declared")
    return found


def place(scope: Scope, node: tree.Path) -> tuple[Type, Locate]:
    """Compile a path to where its value is kept, and say its type."""
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
    def whole(x: float) -> int:
        if x != int(x):
            raise scope.fail(node.line, f"{node.sign} needs whole numbers, found {x:g}")
        return int(x)

    def divided(frame: Frame) -> float:
        x, y = whole(a(frame)), whole(b(frame))
        return float(int(x / y) if node.sign == "DIV" else x - y * int(x / y))

    if node.sign == "+":
        return lambda frame: keep(a(frame) + b(frame))
    if node.sign == "-":
        return lambda frame: keep(a(frame) - b(frame))
    if node.sign == "*":
        return lambda frame: keep(a(frame) * b(frame))
    if node.sign == "/":
        return lambda frame: keep(a(frame) / b(frame))
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


def routine_call(scope: Scope, node: tree.Call | tree.Do, routine: Signature) -> Evaluate:
    """Compile a call of a routine of the program: values are copied into cells, references share theirs."""
    wanted = [
        Wanted(p.name.lower() if p.optional else "", str(t))
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


def matched(scope: Scope, node: tree.Call | tree.Do, wanted: Sequence[Wanted]) -> list[tree.Argument | None]:
    """Give every parameter its argument; optional ones must stand between the right required ones."""
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


def builtin_call(scope: Scope, node: tree.Call | tree.Do, builtin: Builtin) -> Evaluate:
    """Compile a call of something built in."""
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


def _handed(scope: Scope, name: str, want: Wanted, argument: tree.Argument) -> list[Evaluate]:
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
