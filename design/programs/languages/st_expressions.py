"""What expressions of structured text mean: syntax tree -> type and a function of the frame."""

import operator
import re
from collections.abc import Callable
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages import st_functions
from excitor.design.programs.languages.st_operators import binary, invert, negate
from excitor.design.programs.languages.st_scope import (
    NOT_CONSTANT,
    Code,
    Node,
    Place,
    Run,
    Scope,
    constant,
    converted,
    line_of,
    same,
    type_name,
)  # fmt: skip
from excitor.design.programs.languages.st_types import (
    ADDRESS,
    BOOL,
    FRACTION,
    STRING,
    TIME,
    UDINT,
    WHOLE,
    Array,
    Frame,
    Record,
    Routine,
    Scalar,
    Type,
    bytes_of,
    single,
)  # fmt: skip


def expression(node: Node, scope: Scope) -> Code:
    """Compile an expression."""
    made = _MAKERS.get(node.data)
    if made is None:
        scope.fail(node, f"{node.data} is no expression")
    return made(node, scope)


def _literal(node: Node, scope: Scope) -> Code:
    text = str(node.children[0]).replace("_", "")
    if node.data == "real":
        return constant(FRACTION, float(text))
    if node.data == "based":
        base, digits = text.split("#")
        try:
            return constant(WHOLE, int(digits, int(base)))
        except ValueError:
            scope.fail(node, f"{text} is no whole number of base {base}")
    return constant(WHOLE, int(text))


def _text(node: Node, scope: Scope) -> Code:
    escapes = {"$N": "\n", "$L": "\n", "$R": "\r", "$T": "\t", "$P": "\f"}
    body = str(node.children[0])[1:-1]
    return constant(STRING, re.sub(r"\$(.)", lambda m: escapes.get(m[0].upper(), m[1]), body))


def _duration(node: Node, scope: Scope) -> Code:
    text = str(node.children[0]).split("#")[1].replace("_", "").lower()
    scale = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1, "us": 1e-3, "ns": 1e-6}
    parts = re.findall(r"([0-9.]+)(ms|us|ns|d|h|m|s)", text)
    if "".join(a + b for a, b in parts) != text:
        scope.fail(node, f"{node.children[0]} is no time")
    return constant(TIME, round(sum(float(a) * scale[b] for a, b in parts)))


def _typed(node: Node, scope: Scope) -> Code:
    name, _, text = str(node.children[0]).partition("#")
    type = scope.types[name.lower()]
    assert isinstance(type, Scalar)
    if type.kind == "bool":
        if text.upper() not in ("TRUE", "FALSE", "0", "1"):
            scope.fail(node, f"{text} is no BOOL")
        return constant(type, text.upper() in ("TRUE", "1"))
    try:
        if type.kind == "real":
            return constant(type, single(float(text)) if type.name == "REAL" else float(text))
        base, _, digits = text.rpartition("#")
        return converted(constant(WHOLE, int(digits, int(base or 10))), type, scope, node)
    except ValueError:
        scope.fail(node, f"{text} is no {name}")


def _variable(node: Node, scope: Scope) -> Code:
    return load(place(node, scope), scope, node)


def place(node: Node, scope: Scope) -> Place:
    """Find a variable, and follow its members and indices."""
    name = str(node.children[0]).lower()
    own, common = scope.own.variables.get(name), scope.shared.variables.get(name)
    steps = list(node.children[1:])
    if own is not None:
        known = scope.fixed.get(own.slot, NOT_CONSTANT)
        if own.role == "constant" and isinstance(own.type, Scalar) and own.type.kind in ("int", "bool"):
            known = own.initial if own.initial is not None else own.type.zero()
        at = Place(own.type, own.slot, None, known, own.role != "constant" and own.slot not in scope.fixed)
    elif common is not None:
        shared = scope.shared_frame
        at = Place(common.type, common.slot, lambda F: shared, writable=common.role != "constant", path=None)
    else:
        return _named(node, scope, name, steps)
    for step in steps:
        at = _step(at, step, scope, node)
    return at


def _named(node: Node, scope: Scope, name: str, steps: list[Any]) -> Place:
    """Find a value of an enumeration: `eValue` or `E_Type.eValue`."""
    if steps and isinstance(scope.types.get(name), Scalar) and steps[0].data == "member":
        name, steps = f"{name}.{str(steps[0].children[0]).lower()}", steps[1:]
    if name not in scope.constants or steps:
        scope.fail(node, f"{node.children[0]} is not declared")
    type, value = scope.constants[name]
    return Place(type, -1, None, value, False)


def _step(at: Place, step: Node, scope: Scope, node: Node) -> Place:
    if step.data == "member":
        name = str(step.children[0])
        if not isinstance(at.type, Record):
            scope.fail(node, f"{name} is asked of {type_name(at.type)}, which has no members")
        member = at.type.variables.get(name.lower())
        if member is None:
            scope.fail(node, f"{at.type.name} has no {name}")
        inside = at.type.block and member.role in ("local", "constant")
        return Place(member.type, member.slot, _reference(at), writable=at.writable and not inside, path=_path(at))
    if step.data != "index":
        scope.fail(node, "pointers are not followed here")
    if not isinstance(at.type, Array):
        scope.fail(node, f"{type_name(at.type)} has no elements")
    base = at.index if at.type.inline else 0
    offset = _offset(step, at.type, scope, node, base if isinstance(base, int) else 0)
    if at.type.inline:
        if callable(base):
            scope.fail(node, "arrays of arrays are not known here")
        initial = _known_element(at, offset, scope)
        return Place(at.type.of, offset, at.holder, initial, at.writable, at.path)
    return Place(at.type.of, offset, _reference(at), writable=at.writable, path=_path(at))


def _path(at: Place) -> tuple[int, ...] | None:
    return (*at.path, at.index) if at.path is not None and isinstance(at.index, int) else None


def _known_element(at: Place, offset: int | Run, scope: Scope) -> Any:
    """Take whole numbers of constant arrays now."""
    if at.holder is None and isinstance(offset, int) and not at.writable:
        for variable in scope.own.variables.values():
            whole = isinstance(variable.type, Array) and getattr(variable.type.of, "kind", "") == "int"
            if variable.slot == at.index and whole and variable.initial is not None:
                return variable.initial[offset - variable.slot]
    return NOT_CONSTANT


def _offset(step: Node, array: Array, scope: Scope, node: Node, base: int) -> int | Run:
    """Compile the place of an element among all of them, plus a base."""
    if len(step.children) != len(array.lows):
        scope.fail(node, f"the array has {len(array.lows)} indices, {len(step.children)} are given")
    codes = [expression(child, scope) for child in step.children]
    for code in codes:
        if not (isinstance(code.type, Scalar) and code.type.kind == "int"):
            scope.fail(node, f"an index is {type_name(code.type)}, expected a whole number")
    limits = list(zip(array.lows, array.sizes, strict=True))
    file, line = scope.file, line_of(node)

    def find(numbers: list[int]) -> int:
        at = 0
        for number, (low, size) in zip(numbers, limits, strict=True):
            if not low <= number < low + size:
                sentence = f"index {number} is outside the array's {low} to {low + size - 1}"
                raise ProgramError(file, line, sentence)
            at = at * size + number - low
        return base + at

    if all(code.fixed for code in codes):
        return find([code.constant for code in codes])
    runs = [code.run for code in codes]
    if len(runs) == 1:
        first, (low, size) = runs[0], limits[0]

        def single_index(F: Frame) -> int:
            k = int(first(F)) - low
            return base + k if 0 <= k < size else find([k + low])

        return single_index
    return lambda F: find([run(F) for run in runs])


def _reference(at: Place) -> Run:
    """Load the list that a record, or an array of records, is."""
    index, holder, path = at.index, at.holder, _path(at)
    if path is not None and 2 <= len(path) <= 4:
        return _known_path(*path)
    if holder is None:
        return (lambda F: F[index(F)]) if callable(index) else operator.itemgetter(index)
    if callable(index):
        return lambda F: holder(F)[index(F)]
    return lambda F: holder(F)[index]


def _known_path(i: int, j: int, k: int = -1, m: int = -1) -> Run:
    if k < 0:
        return lambda F: F[i][j]
    return (lambda F: F[i][j][k]) if m < 0 else (lambda F: F[i][j][k][m])


def load(at: Place, scope: Scope, node: Node) -> Code:
    """Read a variable."""
    if at.constant is not NOT_CONSTANT:
        return constant(at.type, at.constant)
    if isinstance(at.type, Array) and at.type.inline:
        n, index, holder = at.type.length, at.index, at.holder
        if callable(index):
            scope.fail(node, "arrays of arrays are not known here")
        return Code(at.type, lambda F: (holder(F) if holder else F)[index : index + n])
    slot = at.index if at.holder is None and isinstance(at.index, int) and isinstance(at.type, Scalar) else None
    return Code(at.type, _reference(at), slot=slot)


def _call(node: Node, scope: Scope) -> Code:
    name = str(node.children[0].children[0]).lower()
    if len(node.children[0].children) > 1:
        scope.fail(node, "a block has no value; call it in a line of its own")
    given = node.children[1].children if node.children[1] is not None else []
    if name in ("adr", "sizeof"):
        return _address(node, scope, name, given)
    if name in scope.routines:
        return routine_call(scope.routines[name], given, scope, node)
    codes = []
    for argument in given:
        if argument.data != "positional":
            scope.fail(node, f"{name.upper()} takes its arguments without names")
        codes.append(expression(argument.children[0], scope))
    found = st_functions.find(name, [code.type for code in codes])
    if isinstance(found, str):
        scope.fail(node, found)
    result, work = found
    return _applied(result, work, codes, scope, node)


def _applied(result: Scalar, work: Callable[..., Any], codes: list[Code], scope: Scope, node: Node) -> Code:
    file, line = scope.file, line_of(node)

    def guarded(*values: Any) -> Any:
        try:
            return work(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            raise ProgramError(file, line, f"a function has no value at {values[0]}") from None

    if len(codes) == 1:
        run = codes[0].run
        return Code(result, lambda F: guarded(run(F)))
    runs = [code.run for code in codes]
    return Code(result, lambda F: guarded(*[run(F) for run in runs]))


def _address(node: Node, scope: Scope, name: str, given: list[Any]) -> Code:
    if len(given) != 1 or given[0].data != "positional" or given[0].children[0].data != "variable":
        scope.fail(node, f"{name.upper()} wants one variable")
    at = place(given[0].children[0], scope)
    if name == "sizeof":
        return constant(UDINT, bytes_of(at.type))
    if isinstance(at.type, Scalar) or (isinstance(at.type, Array) and at.type.inline):
        code = load(at, scope, node)
        return Code(ADDRESS, code.run)
    return Code(ADDRESS, _reference(at))


def routine_call(routine: Routine, given: list[Any], scope: Scope, node: Node) -> Code:
    """Compile a call of a function, its arguments by name or in their order."""
    taken: dict[str, Any] = {}
    for argument, (name, _, _) in zip(given, routine.parameters, strict=False):
        if argument.data == "positional":
            taken[name.lower()] = argument.children[0]
    for argument in given:
        if argument.data == "given":
            taken[str(argument.children[0]).lower()] = argument.children[1]
    names = [name.lower() for name, _, _ in routine.parameters]
    unknown = [name for name in taken if name not in names]
    missing = [name for name, _, _ in routine.parameters if name.lower() not in taken]
    if unknown or missing or len(given) != len(names):
        what = f"has no {unknown[0]}" if unknown else f"wants {len(names)} arguments: {', '.join(names)}"
        scope.fail(node, f"{routine.name} {what}")
    slots: list[int] = []
    runs: list[Run] = []
    for name, type, by_reference in routine.parameters:
        child = taken[name.lower()]
        if by_reference:
            runs.append(reference(child, type, scope, node))
            continue
        code = converted(expression(child, scope), type, scope, node)
        if code.slot is not None and len(slots) == len(runs):
            slots.append(code.slot)
        runs.append(code.run)
    return Code(routine.result or BOOL, _applied_routine(routine.run, slots, runs))


def _applied_routine(work: Callable[..., Any], slots: list[int], runs: list[Run]) -> Run:
    """Call a function, of which the first arguments may be scalars of the frame."""
    rest = runs[len(slots) :]
    if len(slots) == 4 and len(rest) == 1:
        (a, b, c, d), last = slots, rest[0]
        return lambda F: work(F[a], F[b], F[c], F[d], last(F))
    return lambda F: work(*[F[i] for i in slots], *[run(F) for run in rest])


def reference(child: Node, type: Type, scope: Scope, node: Node) -> Run:
    """Find the list that is handed over by reference."""
    if child.data != "variable":
        scope.fail(node, "an in-out variable wants a variable")
    at = place(child, scope)
    if not same(at.type, type):
        scope.fail(node, f"an in-out variable is {type_name(at.type)}, expected {type_name(type)}")
    return _reference(at)


def _binary(node: Node, scope: Scope) -> Code:
    a, symbol, b = node.children
    return binary(str(symbol).upper(), expression(a, scope), expression(b, scope), scope, node)


def _negate(node: Node, scope: Scope) -> Code:
    return negate(expression(node.children[0], scope), scope, node)


def _invert(node: Node, scope: Scope) -> Code:
    return invert(expression(node.children[1], scope), scope, node)


def _raised(node: Node, scope: Scope) -> Code:
    codes = [expression(child, scope) for child in node.children]
    found = st_functions.find("expt", [code.type for code in codes])
    if isinstance(found, str):
        scope.fail(node, found)
    return _applied(*found, codes, scope, node)


_MAKERS: dict[Any, Callable[[Node, Scope], Code]] = {
    "real": _literal, "whole": _literal, "based": _literal, "text": _text, "duration": _duration, "typed": _typed,
    "true": lambda n, s: constant(BOOL, True), "false": lambda n, s: constant(BOOL, False),
    "minus_whole": lambda n, s: constant(WHOLE, -int(str(n.children[0]).replace("_", ""))),
    "variable": _variable, "call": _call, "binary": _binary, "negate": _negate, "invert": _invert,
    "same": lambda n, s: expression(n.children[0], s), "raised": _raised,
}  # fmt: skip
