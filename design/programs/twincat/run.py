"""Programs of structured text (IEC 61131-3, in Beckhoff's dialect), compiled to functions of frames.

Stricter than most compilers: whole numbers become reals, and wide numbers narrow ones, only by an explicit conversion;
literals adapt their type. LREAL is float64, REAL float32 after every operation. Methods, dereferenced pointers and
inheritance are not supported. An expression is compiled to its type and a function of the frame, a statement to a
function that works on a frame.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from lark import Token, Tree

from excitor.design.programs.runtime import ORDER, choice
from excitor.design.programs.target import ProgramError
from excitor.design.programs.twincat import parse
from excitor.design.programs.twincat.parse import (
    ADDRESS,
    BOOL,
    FRACTION,
    INT,
    LINT,
    LREAL,
    NOT_CONSTANT,
    SCALARS,
    STRING,
    TIME,
    UDINT,
    WHOLE,
    Array,
    Code,
    Frame,
    Node,
    Place,
    Record,
    Role,
    Routine,
    Run,
    Scalar,
    Scope,
    Type,
    Variable,
    Work,
    begin,
    bytes_of,
    constant,
    converted,
    copied,
    line_of,
    same,
    single,
    span,
    store,
    type_name,
    wrapped,
)

_ROLES: dict[str, Role] = {
    "VAR_INPUT": "input", "VAR_OUTPUT": "output", "VAR_IN_OUT": "in-out", "VAR_TEMP": "local", "VAR": "local",
}  # fmt: skip


@dataclass
class Library:
    """Library of a controller: types (blocks among them), functions, values of enumerations, variables."""

    types: dict[str, Type] = field(default_factory=dict)
    routines: dict[str, Routine] = field(default_factory=dict)
    constants: dict[str, tuple[Type, Any]] = field(default_factory=dict)
    shared: dict[str, tuple[Type, Any]] = field(default_factory=dict)


class Project:
    """All files of a project, compiled together."""

    def __init__(self, files: Mapping[str, str], library: Library) -> None:
        trees = {name: parse.parse(name, text) for name, text in files.items()}
        self.programs: dict[str, Record] = {}
        self._types: dict[str, Type] = {name.lower(): type for name, type in SCALARS.items()}
        self._types.update({name.lower(): type for name, type in library.types.items()})
        self._routines = {name.lower(): routine for name, routine in library.routines.items()}
        self._constants = {name.lower(): value for name, value in library.constants.items()}
        self._shared = Record("global variables")
        self._shared_frame: Frame = []
        for name, (type, value) in library.shared.items():
            self._share(name, type, value)
        units = [(file, unit) for file, tree in trees.items() for unit in tree.children if isinstance(unit, Tree)]
        self._declare(units)
        bodies = [self._outline(file, unit) for file, unit in units if unit.data == "pou"]
        for scope, record, block in bodies:
            record.body = body(block, scope)

    def _share(self, name: str, type: Type, value: Any, role: Role = "local") -> None:
        variable = self._shared.add(name, type, role, value)
        self._shared_frame.extend(begin(variable))

    def start(self, name: str) -> Frame:
        """Build the frame of a program with initial values."""
        try:
            return self.programs[name.lower()].frame()
        except RecursionError:
            raise ProgramError(name, None, "a block contains itself") from None

    def shared(self, name: str) -> Any:
        """Find a global variable."""
        return self._shared_frame[self._shared.variables[name.lower()].slot]

    def _declare(self, units: list[tuple[str, Node]]) -> None:
        """Register blocks first, for they may be used before they are written; then types, then global variables."""
        for file, unit in units:
            if unit.data == "pou" and str(unit.children[0]).upper() == "FUNCTION_BLOCK":
                record = Record(str(unit.children[1]), block=True)
                self._register(file, unit.children[1], record)
        for file, unit in units:
            if unit.data == "type_unit":
                for named in unit.children:
                    self._type_named(file, named)
        for file, unit in units:
            if unit.data == "globals":
                scope = self._scope(file, self._shared)
                options = [str(child).upper() for child in unit.children if isinstance(child, Token)]
                for child in unit.find_data("field"):
                    self._fields(child, scope, "constant" if "CONSTANT" in options else "local", self._share_in)

    def _share_in(self, record: Record, name: str, type: Type, role: Role, value: Any) -> None:
        self._share(name, type, value, role)
        if role == "constant" and isinstance(type, Scalar) and type.kind in ("int", "bool"):
            self._constants[name.lower()] = (type, value if value is not None else type.zero())
            del record.variables[name.lower()]

    def _register(self, file: str, name: Token, type: Type) -> None:
        if name.lower() in self._types:
            raise ProgramError(file, name.line, f"{name} is declared twice")
        self._types[name.lower()] = type

    def _scope(self, file: str, own: Record) -> Scope:
        return Scope(file, self._types, self._routines, self._constants, self._shared, self._shared_frame, own)

    def _type_named(self, file: str, node: Node) -> None:
        name, what = node.children
        scope = self._scope(file, Record("nothing"))
        if what.data == "record":
            record = Record(str(name))
            self._register(file, name, record)
            for child in what.children:
                self._fields(child, self._scope(file, record), "local")
        elif what.data == "enumeration":
            type = Scalar(str(name), "int", INT.low, INT.high)
            self._register(file, name, type)
            number = -1
            for value in (child for child in what.children if isinstance(child, Tree)):
                number = number + 1 if value.children[1] is None else expression(value.children[1], scope).constant
                for key in (str(value.children[0]), f"{name}.{value.children[0]}"):
                    self._constants[key.lower()] = (type, number)
        else:
            self._register(file, name, self._type(what.children[0], scope))

    def _outline(self, file: str, unit: Node) -> tuple[Scope, Record, Node]:
        """Declare the variables of a program, block or function."""
        kind, name = str(unit.children[0]).upper(), unit.children[1]
        found = self._types.get(name.lower())
        record = found if kind == "FUNCTION_BLOCK" and isinstance(found, Record) else Record(str(name), block=True)
        scope = self._scope(file, record)
        for section in unit.find_data("section"):
            options = [str(child).upper() for child in section.children if isinstance(child, Token)]
            role = "constant" if "CONSTANT" in options else _ROLES[options[0]]
            for child in section.children:
                if isinstance(child, Tree):
                    self._fields(child, scope, role)
        if kind == "PROGRAM":
            if name.lower() in self.programs:
                raise ProgramError(file, name.line, f"{name} is declared twice")
            self.programs[name.lower()] = record
        if kind == "FUNCTION":
            self._function(record, self._type(unit.children[2], scope), file, name)
        return scope, record, unit.children[-1]

    def _function(self, record: Record, result: Type, file: str, name: Token) -> None:
        if name.lower() in self._routines:
            raise ProgramError(file, name.line, f"{name} is declared twice")
        taken = [v for v in record.variables.values() if v.role in ("input", "in-out")]
        slot = record.add(str(name), result).slot
        if any(isinstance(v.type, Array) and v.type.inline and v.role == "in-out" for v in taken):
            raise ProgramError(file, name.line, f"{name} takes an array by reference; that is not known here")

        def run(*values: Any) -> Any:
            frame = record.frame()
            for variable, value in zip(taken, values, strict=True):
                n = span(variable.type)
                frame[variable.slot : variable.slot + n] = value if n > 1 else [value]
            assert record.body is not None
            record.body(frame)
            return frame[slot]

        parameters = tuple((v.name, v.type, v.role == "in-out") for v in taken)
        self._routines[name.lower()] = Routine(str(name), parameters, result, run)

    def _fields(self, node: Node, scope: Scope, role: Role, add: Any = None) -> None:
        *names, _, type_node, initial = node.children
        type = self._type(type_node, scope)
        for name in names:
            if name.lower() in scope.own.variables:
                scope.fail(name, f"{name} is declared twice")
            value = None if initial is None else _initial(initial, type, scope)
            if add is not None:
                add(scope.own, str(name), type, role, value)
            else:
                scope.own.add(str(name), type, role, value)

    def _type(self, node: Node, scope: Scope) -> Type:
        if node.data == "pointer":
            return ADDRESS
        if node.data == "array":
            *ranges, of = node.children
            ends = [[self._known(end, scope) for end in found.children] for found in ranges]
            sizes = tuple(high - low + 1 for low, high in ends)
            if min(sizes) < 1:
                scope.fail(node, "an array ends before it begins")
            inner = self._type(of, scope)
            if isinstance(inner, Array):
                scope.fail(node, "arrays of arrays are not known here")
            return Array(tuple(low for low, _ in ends), sizes, inner)
        name = node.children[0]
        type = self._types.get(name.lower())
        if type is None:
            scope.fail(name, f"the type {name} is not known")
        if node.data == "sized":
            length = next(child for child in node.children[1:] if child is not None)
            return Scalar("STRING", "text", length=self._known(length, scope))
        return type

    def _known(self, node: Node, scope: Scope) -> int:
        code = expression(node, scope)
        if not (code.fixed and isinstance(code.constant, int)):
            scope.fail(node, "a known whole number is expected here")
        return int(code.constant)


def _initial(node: Node, type: Type, scope: Scope) -> Any:
    """Compute a variable's initial value."""
    if isinstance(type, Array):
        if not type.inline or node.data != "list":
            scope.fail(node, "an array begins as a list of values, [a, b, ...]")
        values: list[Any] = []
        for child in node.children:
            times, value = (int(child.children[0]), child.children[1]) if child.data == "times" else (1, child)
            values.extend([_initial(value, type.of, scope)] * times)
        if len(values) > type.length:
            scope.fail(node, f"{len(values)} values are given for {type.length} elements")
        assert isinstance(type.of, Scalar)
        return values + [type.of.zero()] * (type.length - len(values))
    if isinstance(type, Record):
        if node.data != "members":
            scope.fail(node, f"{type.name} begins as (member := value, ...)")
        pairs = zip(node.children[::2], node.children[1::2], strict=True)
        made = {}
        for name, value in pairs:
            if str(name).lower() not in type.variables:
                scope.fail(node, f"{type.name} has no {name}")
            made[str(name).lower()] = _initial(value, type.variables[str(name).lower()].type, scope)
        return made
    if node.data in ("list", "members"):
        scope.fail(node, f"{type.name} begins as one value")
    code = converted(expression(node, scope), type, scope, node)
    if not code.fixed and not (isinstance(type, Scalar) and type.kind == "text"):
        scope.fail(node, "what a variable begins as must be known before the program runs")
    return code.constant if code.fixed else code.run([])


def invoke(node: Node, scope: Scope) -> Work:
    """Compile a call as a statement."""
    target: Node = node.children[0]
    given = node.children[1].children if node.children[1] is not None else []
    name = str(target.children[0]).lower()
    if len(target.children) == 1 and name in scope.routines and name not in scope.own.variables:
        return routine_call(scope.routines[name], given, scope, node).run
    last = target.children[-1]
    if isinstance(last, Tree) and last.data == "member":
        owner = place(Tree("variable", target.children[:-1], target.meta), scope)
        method = owner.type.methods.get(str(last.children[0]).lower()) if isinstance(owner.type, Record) else None
        if method is not None:
            return _method(method, load(owner, scope, node), given, scope, node)
    at = place(target, scope)
    if not (isinstance(at.type, Record) and at.type.block):
        scope.fail(node, f"{name} is {type_name(at.type)}, which is not called")
    return _block_call(at.type, load(at, scope, node), given, scope, node)


def _method(method: Callable[[Frame], None], owner: Code, given: list[Any], scope: Scope, node: Node) -> Work:
    if given:
        scope.fail(node, "this action has no arguments")
    find = owner.run
    return lambda F: method(find(F))


def _block_call(record: Record, instance: Code, given: list[Any], scope: Scope, node: Node) -> Work:
    """Compile a call of a block: inputs in, its body, outputs out; in-out variables by reference."""
    inputs: list[tuple[int, int | Callable[[Frame], Any]]] = []
    copies: list[tuple[Variable, Place]] = []
    outputs: list[tuple[int, Work]] = []
    wanted = {key for key, variable in record.variables.items() if variable.role == "in-out"}
    scratch: list[Any] = [None]
    for argument in given:
        if argument.data == "positional":
            scope.fail(node, f"{record.name} takes its arguments by name")
        key = str(argument.children[0]).lower()
        variable = record.variables.get(key)
        output = argument.data == "taken"
        if variable is None or variable.role not in (("output",) if output else ("input", "in-out")):
            scope.fail(node, f"{record.name} has no {'output' if output else 'input'} {argument.children[0]}")
        if output:
            if argument.children[1] is not None:
                at = place(argument.children[1], scope)
                value = converted(Code(variable.type, lambda F: scratch[0]), at.type, scope, node)
                outputs.append((variable.slot, store(at, value)))
        elif variable.role == "input":
            code = converted(expression(argument.children[1], scope), variable.type, scope, node)
            run = copied(code.run) if isinstance(variable.type, Record) else code.run
            inputs.append((variable.slot, code.slot if code.slot is not None else run))
        else:
            wanted.discard(key)
            child: Node = argument.children[1]
            if isinstance(variable.type, Scalar) or (isinstance(variable.type, Array) and variable.type.inline):
                if child.data != "variable":
                    scope.fail(node, f"{variable.name} wants a variable")
                at = place(child, scope)
                converted(load(at, scope, node), variable.type, scope, node)
                copies.append((variable, at))
            else:
                inputs.append((variable.slot, reference(child, variable.type, scope, node)))
    if wanted:
        scope.fail(node, f"{record.name} wants {', '.join(sorted(wanted))}")
    return _called(record, instance, inputs, [_copying(*copy, scope, node) for copy in copies], outputs, scratch)


def _copying(variable: Variable, at: Place, scope: Scope, node: Node) -> tuple[int, int, Any, Work, list[Any], bool]:
    """Hand over a scalar or an array of scalars in both directions."""
    box: list[Any] = [None]
    back = store(at, Code(variable.type, lambda F: box[0]))
    run, listed = load(at, scope, node).run, isinstance(variable.type, Array)
    return variable.slot, span(variable.type), (run if listed else lambda F: [run(F)]), back, box, listed


def _called(
    record: Record, instance: Code, inputs: list[Any], copies: list[Any], outputs: list[Any], scratch: list[Any]
) -> Work:
    find = instance.run
    moves = tuple((slot, value) for slot, value in inputs if isinstance(value, int))
    values = tuple((slot, value) for slot, value in inputs if not isinstance(value, int))
    native = record.native is not None

    def call(F: Frame) -> None:
        B = find(F)
        for slot, i in moves:
            B[slot] = F[i]
        for slot, run in values:
            B[slot] = run(F)
        if native:
            B[-1](B)
        elif record.body is not None:
            record.body(B)

    def call_with_copies(F: Frame) -> None:
        B = find(F)
        for slot, n, run, _, _, _ in copies:
            B[slot : slot + n] = run(F)
        call(F)
        for slot, n, _, back, box, listed in copies:
            box[0] = B[slot : slot + n] if listed else B[slot]
            back(F)
        for slot, take in outputs:
            scratch[0] = B[slot]
            take(F)

    return call_with_copies if copies or outputs else call


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
            scope.fail(node, f"member {name} of {type_name(at.type)}, which has no members")
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
    """Return an element of a constant array of whole numbers at compile time, else NOT_CONSTANT."""
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
    found = parse.find(name, [code.type for code in codes])
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
    found = parse.find("expt", [code.type for code in codes])
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


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<>": operator.ne, **ORDER}
_JOIN: dict[str, Callable[[Run, Run], Run]] = {
    "+": lambda f, g: lambda F: f(F) + g(F),
    "-": lambda f, g: lambda F: f(F) - g(F),
    "*": lambda f, g: lambda F: f(F) * g(F),
}
_JOIN_SLOTS: dict[str, Callable[[int, int], Run]] = {  # of the frame: most sums of a motion are of these
    "+": lambda i, j: lambda F: F[i] + F[j],
    "-": lambda i, j: lambda F: F[i] - F[j],
    "*": lambda i, j: lambda F: F[i] * F[j],
}


def binary(symbol: str, a: Code, b: Code, scope: Scope, node: object) -> Code:
    """Compile `a symbol b`."""
    if not (isinstance(a.type, Scalar) and isinstance(b.type, Scalar)):
        scope.fail(node, f"{symbol} joins {type_name(a.type)} and {type_name(b.type)}")
    if symbol in _COMPARE:
        return _folded(_comparison(symbol, a, b, scope, node), a, b)
    if symbol in ("AND", "&", "OR", "XOR", "AND_THEN", "OR_ELSE"):
        return _folded(_logic(symbol, a, b, scope, node), a, b)
    kinds = {a.type.kind, b.type.kind}
    if kinds == {"int"}:
        return _folded(_whole(symbol, a, b, scope, node), a, b)
    if kinds == {"real"} or (kinds == {"int", "real"} and WHOLE in (a.type, b.type)):
        return _folded(_real(symbol, a, b, scope, node), a, b)
    if "time" in kinds and kinds <= {"time", "int"}:
        return _folded(_time(symbol, a, b, scope, node), a, b)
    advice = ""
    if kinds == {"int", "real"}:
        whole, real = (a, b) if a.type.kind == "int" else (b, a)
        target = "LREAL" if real.type is FRACTION else type_name(real.type)
        advice = f"; write {type_name(whole.type)}_TO_{target}"
    raise scope.error(node, f"{symbol} joins {a.type.name} and {b.type.name}{advice}")


def _folded(code: Code, a: Code, b: Code) -> Code:
    """Fold a constant expression at compile time."""
    return constant(code.type, code.run([])) if a.fixed and b.fixed else code


def _comparison(symbol: str, a: Code, b: Code, scope: Scope, node: object) -> Code:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    kinds = {a.type.kind, b.type.kind}
    literal = WHOLE in (a.type, b.type)
    if len(kinds) > 1 and not (kinds == {"int", "real"} and literal):
        scope.fail(node, f"{symbol} compares {a.type.name} with {b.type.name}")
    if "bool" in kinds and symbol not in ("=", "<>"):
        scope.fail(node, f"{symbol} compares BOOL with BOOL")
    f, g, compare, i, c = a.run, b.run, _COMPARE[symbol], a.slot, b.constant
    if i is not None and b.fixed:
        return Code(BOOL, lambda F: compare(F[i], c))
    return Code(BOOL, lambda F: compare(f(F), g(F)))


def _logic(symbol: str, a: Code, b: Code, scope: Scope, node: object) -> Code:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    f, g = a.run, b.run
    if a.type.kind == b.type.kind == "bool":
        if symbol == "AND_THEN":
            return Code(BOOL, lambda F: f(F) and g(F))
        if symbol == "OR_ELSE":
            return Code(BOOL, lambda F: f(F) or g(F))
    elif not a.type.kind == b.type.kind == "int":
        scope.fail(node, f"{symbol} joins {a.type.name} and {b.type.name}")
    result = BOOL if a.type.kind == "bool" else _wider(a.type, b.type)
    runs = {"XOR": lambda F: f(F) ^ g(F), "OR": lambda F: f(F) | g(F)}
    return Code(result, runs.get(symbol, lambda F: f(F) & g(F)))


def _wider(a: Scalar, b: Scalar) -> Scalar:
    if a is WHOLE or (b is not WHOLE and b.low <= a.low and b.high >= a.high):
        return b
    return a if b is WHOLE or (a.low <= b.low and a.high >= b.high) else LINT


def _whole(symbol: str, a: Code, b: Code, scope: Scope, node: object) -> Code:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    result = _wider(a.type, b.type)
    f, g, file, line = a.run, b.run, scope.file, line_of(node)

    def divided(F: list[Any]) -> int:
        x, y = f(F), g(F)
        if y == 0:
            raise ProgramError(file, line, "a whole number is divided by 0")
        quotient = abs(x) // abs(y)
        quotient = quotient if (x < 0) == (y < 0) else -quotient
        return wrapped(quotient if symbol == "/" else x - y * quotient, result)

    if symbol in ("/", "MOD"):
        return Code(result, divided)
    joined = _JOIN[symbol](f, g)
    low, high = result.low, result.high

    def kept(F: list[Any]) -> int:
        value: int = joined(F)
        return value if low <= value <= high else wrapped(value, result)

    return Code(result, kept)


def _real(symbol: str, a: Code, b: Code, scope: Scope, node: object) -> Code:
    if symbol == "MOD":
        scope.fail(node, "MOD wants whole numbers")
    names = {a.type.name, b.type.name} if isinstance(a.type, Scalar) and isinstance(b.type, Scalar) else set()
    if "REAL" in names and "LREAL" not in names:
        a, b = _as_single(a), _as_single(b)
        run = _divided(a, b, scope, node) if symbol == "/" else _JOIN[symbol](a.run, b.run)
        real = a.type if type_name(a.type) == "REAL" else b.type
        return Code(real, lambda F: single(run(F)))
    result = LREAL if "LREAL" in names else FRACTION
    if symbol == "/":
        return Code(result, _divided(a, b, scope, node))
    i, j = a.slot, b.slot
    code = Code(result, _JOIN[symbol](a.run, b.run) if i is None or j is None else _JOIN_SLOTS[symbol](i, j))
    if symbol == "*" and i is not None and j is not None:
        code.product = (i, j)
    if symbol == "+" and i is not None and b.product is not None:
        code.total = (i, *b.product)
    return code


def _as_single(code: Code) -> Code:
    return constant(code.type, single(code.constant)) if code.fixed else code


def _divided(a: Code, b: Code, scope: Scope, node: object) -> Run:
    f, g, file, line = a.run, b.run, scope.file, line_of(node)
    if b.fixed and b.constant != 0:
        divisor = float(b.constant)
        return lambda F: f(F) / divisor

    def divide(F: list[Any]) -> float:
        try:
            return float(f(F) / g(F))
        except ZeroDivisionError:
            raise ProgramError(file, line, "a number is divided by 0") from None

    return divide


def _time(symbol: str, a: Code, b: Code, scope: Scope, node: object) -> Code:
    f, g = a.run, b.run
    both = type_name(a.type) == type_name(b.type)
    if both and symbol in ("+", "-"):
        return Code(TIME, _JOIN[symbol](f, g))
    if not both and type_name(a.type) == "TIME" and symbol in ("*", "/"):
        return Code(TIME, (lambda F: f(F) * g(F)) if symbol == "*" else (lambda F: f(F) // g(F)))
    raise scope.error(node, f"{symbol} joins {type_name(a.type)} and {type_name(b.type)}")


def negate(a: Code, scope: Scope, node: object) -> Code:
    """Compile `-a`."""
    if not (isinstance(a.type, Scalar) and a.type.kind in ("int", "real")):
        scope.fail(node, f"{type_name(a.type)} has no sign")
    if a.fixed:
        return constant(a.type, -a.constant)
    f, type = a.run, a.type
    return Code(type, (lambda F: -f(F)) if type.kind == "real" else (lambda F: wrapped(-f(F), type)))


def invert(a: Code, scope: Scope, node: object) -> Code:
    """Compile `NOT a`."""
    f, type = a.run, a.type
    if isinstance(type, Scalar) and type.kind == "bool":
        made = Code(type, lambda F: not f(F))
        return constant(type, not a.constant) if a.constant is not NOT_CONSTANT else made
    if isinstance(type, Scalar) and type.kind == "int" and type is not WHOLE:
        return Code(type, lambda F: wrapped(~f(F), type))
    raise scope.error(node, f"NOT wants BOOL, {type_name(type)} is given")


MOST_PASSES = 1_000_000  # of a WHILE or REPEAT in one call: more is an endless loop
WRITTEN_OUT = 64  # FOR loops of up to so many passes between constants are compiled pass by pass


class _Jump(Exception):
    """EXIT, CONTINUE or RETURN, passed on to the enclosing loop or routine."""


class _Exit(_Jump):
    pass


class _Continue(_Jump):
    pass


class _Return(_Jump):
    pass


_LEAVINGS: dict[str, type[_Jump]] = {"EXIT": _Exit, "CONTINUE": _Continue, "RETURN": _Return}


@dataclass(slots=True)
class Step:
    """A compiled statement; `total`: it adds a product to a variable (to, a, b)."""

    work: Work
    total: tuple[int, int, int] | None = None


def body(node: Node, scope: Scope) -> Work:
    """Compile all statements of a block or a function."""
    work = _sequence(_block(node, scope))
    if not any(str(leave.children[0]).upper() == "RETURN" for leave in node.find_data("leave")):
        return work

    def until_return(F: Frame) -> None:
        try:
            work(F)
        except _Return:
            return

    return until_return


def _block(node: Node, scope: Scope) -> list[Step]:
    return [step for child in node.children if isinstance(child, Tree) for step in _statement(child, scope)]


def _statement(node: Node, scope: Scope) -> list[Step]:
    if node.data == "nothing":
        return []
    if node.data == "count":
        return _count(node, scope)
    if node.data == "assign":
        return [_assign(node, scope)]
    return [Step(_STATEMENTS[str(node.data)](node, scope))]


def _sequence(steps: Iterable[Step]) -> Work:
    """Do one after the other; products that are added to one variable are one loop."""
    works: list[Work] = []
    for to, group in groupby(steps, key=lambda step: step.total and step.total[0]):
        alike = list(group)
        if to is None or len(alike) < 2:
            works.extend(step.work for step in alike)
        else:
            works.append(_sum(to, [step.total[1:] for step in alike if step.total]))
    return _in_turn(works)


def _sum(to: int, pairs: list[tuple[int, int]]) -> Work:
    def add(F: Frame) -> None:
        total = F[to]
        for i, j in pairs:
            total += F[i] * F[j]
        F[to] = total

    return add


def _in_turn(works: Sequence[Work]) -> Work:
    if len(works) == 1:
        return works[0]
    all_works = tuple(works)

    def run(F: Frame) -> None:
        for work in all_works:
            work(F)

    return run


def _assign(node: Node, scope: Scope) -> Step:
    at = place(node.children[0], scope)
    if not at.writable:
        scope.fail(node, f"{node.children[0].children[0]} cannot be assigned")
    raw = expression(node.children[1], scope)
    code = converted(raw, at.type, scope, node)
    total = raw.total if at.holder is None and at.type is LREAL else None
    if total is not None and (at.index != total[0] or at.index in total[1:]):
        total = None
    return Step(store(at, code), total)


def _condition(node: Node, scope: Scope) -> Callable[[Frame], Any]:
    code = expression(node, scope)
    if not (isinstance(code.type, Scalar) and code.type.kind == "bool"):
        scope.fail(node, f"a condition is {type_name(code.type)}, expected BOOL")
    return code.run


def _choose(node: Node, scope: Scope) -> Work:
    children = list(node.children)
    otherwise = children.pop()
    tests = [_condition(test, scope) for test in children[::2]]
    cases: list[tuple[Run | None, Run]] = [
        (test, _sequence(_block(block, scope))) for test, block in zip(tests, children[1::2], strict=True)
    ]
    if otherwise is not None:
        cases.append((None, _sequence(_block(otherwise.children[0], scope))))
    return choice(cases)


def _select(node: Node, scope: Scope) -> Work:
    what = expression(node.children[0], scope)
    if not (isinstance(what.type, Scalar) and what.type.kind == "int"):
        scope.fail(node, f"CASE wants a whole number, {type_name(what.type)} is given")
    otherwise = node.children[-1]
    works: dict[int, list[Step]] = {}
    current: list[Step] | None = None
    for child in node.children[1:-1]:
        if child.data == "case_label":
            current = []
            for number in _labels(child, scope):
                if number in works:
                    scope.fail(child, f"CASE has {number} twice")
                works[number] = current
        elif current is None:
            scope.fail(child, "a statement comes before the first label of CASE")
        else:
            current.extend(_statement(child, scope))
    made = {number: _sequence(steps) for number, steps in works.items()}
    last = _sequence(_block(otherwise.children[0], scope)) if otherwise is not None else _sequence([])
    run = what.run
    return lambda F: made.get(run(F), last)(F)


def _labels(node: Node, scope: Scope) -> list[int]:
    numbers: list[int] = []
    for value in node.children:
        ends = [expression(end, scope) for end in value.children if end is not None]
        if any(not (end.fixed and isinstance(end.type, Scalar) and end.type.kind == "int") for end in ends):
            scope.fail(node, "a label of CASE must be a known whole number")
        low, high = ends[0].constant, ends[-1].constant
        if high - low > 10_000:
            scope.fail(node, "a range of CASE is longer than 10000")
        numbers.extend(range(low, high + 1))
    return numbers


def _count(node: Node, scope: Scope) -> list[Step]:
    name, *bounds, block = node.children
    variable = scope.own.variables.get(str(name).lower())
    if variable is None or not (isinstance(variable.type, Scalar) and variable.type.kind == "int"):
        scope.fail(node, f"FOR wants a whole variable of its own block, {name} is given")
    if variable.slot in scope.fixed:
        scope.fail(node, f"{name} counts already")
    codes = [expression(bound, scope) for bound in bounds if bound is not None]
    for code in codes:
        converted(code, variable.type, scope, node)
    if all(code.fixed for code in codes):
        first, last, by = codes[0].constant, codes[1].constant, codes[2].constant if len(codes) > 2 else 1
        if by == 0:
            scope.fail(node, "FOR counts BY 0")
        passes = range(first, last + (1 if by > 0 else -1), by)
        if len(passes) <= WRITTEN_OUT and not _touches(block, str(name)):
            return _written_out(block, variable, passes, scope, first if not passes else passes[-1] + by)
    return [_counted(variable, codes, _sequence(_block(block, scope)), scope, node)]


def _touches(block: Node, name: str) -> bool:
    """Return True if a loop is left, or its variable assigned, inside a block."""
    assigned = (str(found.children[0].children[0]).lower() for found in block.find_data("assign"))
    nested = (str(found.children[0]).lower() for found in block.find_data("count"))
    return any(block.find_data("leave")) or name.lower() in (*assigned, *nested)


def _written_out(block: Node, variable: Variable, passes: range, scope: Scope, end: int) -> list[Step]:
    steps: list[Step] = []
    for value in passes:
        scope.fixed[variable.slot] = value
        steps.extend(_block(block, scope))
    scope.fixed.pop(variable.slot, None)
    slot = variable.slot

    def finish(F: Frame) -> None:
        F[slot] = end

    return [*steps, Step(finish)]


def _counted(variable: Variable, codes: list[Code], work: Work, scope: Scope, node: Node) -> Step:
    slot, runs = variable.slot, [code.run for code in codes]
    file, line = scope.file, line_of(node)

    def loop(F: Frame) -> None:
        k, last = runs[0](F), runs[1](F)
        by = runs[2](F) if len(runs) > 2 else 1
        if by == 0:
            raise ProgramError(file, line, "FOR counts BY 0")
        passes = 0
        while k <= last if by > 0 else k >= last:
            F[slot] = k
            try:
                work(F)
            except _Continue:
                pass
            except _Exit:
                return
            k = F[slot] + by
            passes += 1
            if passes > MOST_PASSES:
                raise ProgramError(file, line, "the loop does not end")
        F[slot] = k

    return Step(loop)


def _while(node: Node, scope: Scope) -> Work:
    first = node.data == "while_true"
    test = _condition(node.children[0 if first else 1], scope)
    work = _sequence(_block(node.children[1 if first else 0], scope))
    file, line = scope.file, line_of(node)

    def loop(F: Frame) -> None:
        for _ in range(MOST_PASSES):
            if first and not test(F):
                return
            try:
                work(F)
            except _Continue:
                pass
            except _Exit:
                return
            if not first and test(F):
                return
        raise ProgramError(file, line, "the loop does not end")

    return loop


def _leave(node: Node, scope: Scope) -> Work:
    leaving = _LEAVINGS[str(node.children[0]).upper()]

    def leave(F: Frame) -> None:
        raise leaving

    return leave


_STATEMENTS: dict[str, Callable[[Node, Scope], Work]] = {
    "invoke": invoke, "choose": _choose, "select": _select, "while_true": _while, "until_true": _while,
    "leave": _leave,
}  # fmt: skip
