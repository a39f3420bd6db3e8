"""Programs of structured text (IEC 61131-3, in Beckhoff's dialect), compiled to functions of frames.

Stricter than most compilers where they let traps pass: whole numbers become reals, wide numbers narrow ones, only by
a conversion that is written down; literals fit themselves in. LREAL is float64, REAL float32 after every operation.
Methods, pointers that are followed, and inheritance are no part of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lark import Token, Tree

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages import st_grammar
from excitor.design.programs.languages.st_expressions import expression
from excitor.design.programs.languages.st_scope import Node, Scope, converted
from excitor.design.programs.languages.st_statements import body
from excitor.design.programs.languages.st_types import (
    ADDRESS,
    INT,
    SCALARS,
    Array,
    Frame,
    Record,
    Role,
    Routine,
    Scalar,
    Type,
    begin,
    span,
)  # fmt: skip

_ROLES: dict[str, Role] = {
    "VAR_INPUT": "input", "VAR_OUTPUT": "output", "VAR_IN_OUT": "in-out", "VAR_TEMP": "local", "VAR": "local",
}  # fmt: skip


@dataclass
class Library:
    """What a controller brings along: types (blocks among them), functions, values of enumerations, variables."""

    types: dict[str, Type] = field(default_factory=dict)
    routines: dict[str, Routine] = field(default_factory=dict)
    constants: dict[str, tuple[Type, Any]] = field(default_factory=dict)
    shared: dict[str, tuple[Type, Any]] = field(default_factory=dict)


class Project:
    """All files of a project, compiled together."""

    def __init__(self, files: Mapping[str, str], library: Library) -> None:
        trees = {name: st_grammar.parse(name, text) for name, text in files.items()}
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
        """Make the frame of a program, everything at its beginning."""
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
    """Compute what a variable begins as."""
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
