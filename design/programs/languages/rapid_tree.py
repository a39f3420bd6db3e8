"""What a RAPID module says, as a tree: declarations, statements and expressions, each with its line."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Value:
    """A number, a text or TRUE and FALSE."""

    line: int
    value: float | str | bool


@dataclass(frozen=True, slots=True)
class Part:
    """One name of a path such as `here.robax.rax_1` or `table{3}`."""

    name: str
    indices: tuple["Expression", ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A variable, a component or an element."""

    line: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    r"""An argument of a call; `\name` and `\name:=value` have a name, a switch has no value."""

    line: int
    name: str | None
    value: "Expression | None"


@dataclass(frozen=True, slots=True)
class Call:
    """A function's value."""

    line: int
    name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator between two expressions, or before one (`left` is None)."""

    line: int
    sign: str
    left: "Expression | None"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`[a, b, ...]`: a record's components or an array's elements."""

    line: int
    items: tuple["Expression", ...]


Expression = Value | Path | Call | Operation | Aggregate


@dataclass(frozen=True, slots=True)
class Assign:
    """`place := value;`."""

    line: int
    place: Path
    value: Expression


@dataclass(frozen=True, slots=True)
class Do:
    """A call of an instruction or a procedure."""

    line: int
    name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Conditions with their statements; an ELSE has no condition."""

    line: int
    branches: tuple[tuple[Expression | None, "Block"], ...]


@dataclass(frozen=True, slots=True)
class For:
    """`FOR name FROM first TO last [STEP step] DO`."""

    line: int
    name: str
    first: Expression
    last: Expression
    step: Expression | None
    body: "Block"


@dataclass(frozen=True, slots=True)
class While:
    """`WHILE condition DO`."""

    line: int
    condition: Expression
    body: "Block"


@dataclass(frozen=True, slots=True)
class Test:
    """`TEST value CASE ...: DEFAULT: ENDTEST`; a DEFAULT has no values."""

    line: int
    value: Expression
    cases: tuple[tuple[tuple[Expression, ...] | None, "Block"], ...]


@dataclass(frozen=True, slots=True)
class Jump:
    """RETURN, RAISE, RETRY, TRYNEXT, EXIT."""

    line: int
    word: str
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A statement that is RAPID and is not executed here: GOTO, CONNECT, late binding."""

    line: int
    what: str


Statement = Assign | Do | If | For | While | Test | Jump | Unsupported
Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Data:
    """A declaration of a constant, a variable or a persistent."""

    line: int
    storage: Literal["CONST", "VAR", "PERS"]
    type: str
    name: str
    sizes: tuple[Expression, ...]
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a routine; `rank` counts the stars of `{*, *}`."""

    line: int
    type: str
    name: str
    optional: bool
    mode: str  # "", "INOUT", "VAR" or "PERS"
    rank: int


@dataclass(frozen=True, slots=True)
class Record:
    """A user's record: names and types of its components."""

    line: int
    name: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Routine:
    """A procedure, function or trap."""

    line: int
    kind: str
    name: str
    type: str
    parameters: tuple[Parameter, ...]
    data: tuple[Data, ...]
    body: Block
    handler: Block | None  # ERROR


@dataclass(frozen=True, slots=True)
class Module:
    """All that one file declares."""

    line: int
    name: str
    records: tuple[Record, ...] = ()
    data: tuple[Data, ...] = ()
    routines: tuple[Routine, ...] = field(default=())
