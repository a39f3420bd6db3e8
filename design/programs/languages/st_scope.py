"""What a compiler of structured text knows: names and their types, and what it has made of an expression."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from lark import Tree

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.st_types import WHOLE, Array, Frame, Record, Routine, Scalar, Type, single

Run = Callable[[Frame], Any]
Node: TypeAlias = Any  # a tree; the grammar says which of its children are trees, and which are tokens
NOT_CONSTANT: Any = object()


@dataclass(slots=True)
class Code:
    """A compiled expression."""

    type: Type
    run: Run
    constant: Any = NOT_CONSTANT
    slot: int | None = None  # a scalar of the frame itself
    product: tuple[int, int] | None = None  # of two LREAL slots
    total: tuple[int, int, int] | None = None  # an LREAL slot plus the product of two

    @property
    def fixed(self) -> bool:
        """Whether its value is known before the program runs."""
        return self.constant is not NOT_CONSTANT


@dataclass(slots=True)
class Place:
    """Where a variable lies: in the list that `holder` finds (None: the frame itself), at an index."""

    type: Type
    index: int | Run
    holder: Run | None = None
    constant: Any = NOT_CONSTANT
    writable: bool = True
    path: tuple[int, ...] | None = ()  # indices from the frame to that list, where all of them are known


@dataclass
class Scope:
    """The names that a text may use."""

    file: str
    types: dict[str, Type] = field(default_factory=dict)
    routines: dict[str, Routine] = field(default_factory=dict)
    constants: dict[str, tuple[Type, Any]] = field(default_factory=dict)  # values of enumerations
    shared: Record = field(default_factory=lambda: Record("global variables"))
    shared_frame: Frame = field(default_factory=list)
    own: Record = field(default_factory=lambda: Record("nothing"))
    fixed: dict[int, int] = field(default_factory=dict)  # slots of loop variables in loops that are written out

    def fail(self, node: object, sentence: str) -> NoReturn:
        """Say what is wrong, and where."""
        raise self.error(node, sentence)

    def error(self, node: object, sentence: str) -> ProgramError:
        """Make what `fail` raises."""
        return ProgramError(self.file, line_of(node), sentence)


def line_of(node: object) -> int | None:
    """Find the line of a tree or a token."""
    if isinstance(node, Tree):
        return getattr(node.meta, "line", None)
    return getattr(node, "line", None)


def constant(type: Type, value: Any) -> Code:
    """Make an expression of a known value."""
    return Code(type, lambda F: value, value)


def same(a: Type, b: Type) -> bool:
    """Whether two types are one."""
    if isinstance(a, Array) and isinstance(b, Array):
        return a.lows == b.lows and a.sizes == b.sizes and same(a.of, b.of)
    return a is b or (isinstance(a, Scalar) and a == b)


def type_name(type: Type) -> str:
    """Name a type in a sentence."""
    if isinstance(type, Array):
        return f"an array of {type_name(type.of)}"
    return type.name


def converted(code: Code, to: Type, scope: Scope, node: object) -> Code:
    """Check that a value may be assigned to a type, and fit it in."""
    have = code.type
    if not (isinstance(to, Scalar) and isinstance(have, Scalar)):
        if not same(have, to):
            scope.fail(node, f"{type_name(have)} is given, expected {type_name(to)}")
        return code
    run = code.run
    if to.kind == "real" and (have.kind == "real" or have is WHOLE):
        return _as_real(code, to, scope, node)
    if to.kind == "int" and have.kind == "int":
        if code.fixed:
            if not to.low <= code.constant <= to.high:
                scope.fail(node, f"{code.constant} does not fit into {to.name}")
            return constant(to, code.constant)
        if have.low < to.low or have.high > to.high:
            scope.fail(node, f"{have.name} does not fit into {to.name}; write {have.name}_TO_{to.name}")
        return Code(to, run, slot=code.slot)
    if to.kind == "text" and have.kind == "text":
        return Code(to, (lambda F: run(F)[: to.length]))
    if to.kind != have.kind or to.kind in ("int", "real"):
        advice = f"; write {have.name}_TO_{to.name}" if {to.kind, have.kind} == {"int", "real"} else ""
        scope.fail(node, f"{have.name} is given, expected {to.name}{advice}")
    return code


def _as_real(code: Code, to: Scalar, scope: Scope, node: object) -> Code:
    if code.fixed:
        return constant(to, single(code.constant) if to.name == "REAL" else float(code.constant))
    if to.name == "REAL" and isinstance(code.type, Scalar) and code.type.name == "LREAL":
        scope.fail(node, "LREAL does not fit into REAL; write LREAL_TO_REAL")
    return code
