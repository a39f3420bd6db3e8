"""Types of structured text: what a value may be, where it lies in a frame, and what it begins as.

A frame is a list: the variables of an instance of a block, or the members of a structure. Arrays of scalars lie in the
frame itself; blocks, structures, and arrays of those, are lists that the frame refers to.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Frame: TypeAlias = list[Any]
Role = Literal["input", "output", "in-out", "local", "constant"]


@dataclass(frozen=True)
class Scalar:
    """An elementary type; `low` and `high` bound whole numbers, `length` counts letters of a text."""

    name: str
    kind: Literal["bool", "int", "real", "text", "time", "address"]
    low: int = 0
    high: int = 0
    length: int = 80

    def zero(self) -> Any:
        """Make the value that a variable has before anything is assigned."""
        return {"bool": False, "int": 0, "real": 0.0, "text": "", "time": 0, "address": None}[self.kind]


@dataclass(frozen=True, eq=False)
class Array:
    """Elements of one type by one or several whole numbers."""

    lows: tuple[int, ...]
    sizes: tuple[int, ...]
    of: "Type"

    @property
    def length(self) -> int:
        """How many elements there are."""
        n = 1
        for size in self.sizes:
            n *= size
        return n

    @property
    def inline(self) -> bool:
        """Whether its elements lie in the frame itself."""
        return isinstance(self.of, Scalar)


@dataclass(eq=False)
class Variable:
    """A variable or a member: where its frame has it, and what it begins as (None: zero)."""

    name: str
    slot: int
    type: "Type"
    role: Role = "local"
    initial: Any = None
    place: int = 0  # among inputs and the rest, in the order of the text


@dataclass(eq=False)
class Record:
    """A structure, or a block: then it has a body, which works on its frame."""

    name: str
    variables: dict[str, Variable] = field(default_factory=dict)
    size: int = 0
    body: Callable[[Frame], None] | None = None
    block: bool = False
    methods: dict[str, Callable[[Frame], None]] = field(default_factory=dict)
    native: Callable[[], Callable[[Frame], None]] | None = None  # of a block of a library
    born: Callable[[Frame], None] | None = None  # told of each new frame

    def add(self, name: str, type: "Type", role: Role = "local", initial: Any = None) -> Variable:
        """Append a variable."""
        variable = Variable(name, self.size, type, role, initial, len(self.variables))
        self.variables[name.lower()] = variable
        self.size += span(type)
        return variable

    def frame(self) -> Frame:
        """Make a frame with everything at its beginning."""
        values: Frame = []
        for variable in self.variables.values():
            values.extend(begin(variable))
        if self.native is not None:
            values.append(self.native())
        if self.born is not None:
            self.born(values)
        return values


Type: TypeAlias = Scalar | Array | Record


@dataclass(frozen=True)
class Routine:
    """A function: its parameters (name, type, by reference), its result, and what computes it."""

    name: str
    parameters: tuple[tuple[str, Type, bool], ...]
    result: Type | None
    run: Callable[..., Any]


def span(type: Type) -> int:
    """How many places of a frame a type takes."""
    return type.length if isinstance(type, Array) and type.inline else 1


def begin(variable: Variable) -> list[Any]:
    """Make what a variable begins as: one value per place."""
    type, given = variable.type, variable.initial
    if isinstance(type, Array) and type.inline:
        return list(given) if given is not None else [fresh(type.of)] * type.length
    if variable.role == "in-out":
        return [None]
    if isinstance(type, Record) and given is not None:
        made = type.frame()
        for name, value in given.items():
            made[type.variables[name].slot] = value
        return [made]
    return [given if given is not None and isinstance(type, Scalar) else fresh(type)]


def fresh(type: Type) -> Any:
    """Make a value of a type."""
    if isinstance(type, Scalar):
        return type.zero()
    if isinstance(type, Record):
        return type.frame()
    return [fresh(type.of) for _ in range(type.length)]


def _whole(name: str, bits: int, signed: bool) -> Scalar:
    low = -(1 << (bits - 1)) if signed else 0
    return Scalar(name, "int", low, (1 << (bits - signed)) - 1)


BOOL, REAL, LREAL, STRING = (
    Scalar("BOOL", "bool"),
    Scalar("REAL", "real"),
    Scalar("LREAL", "real"),
    Scalar("STRING", "text"),
)
TIME, ADDRESS = Scalar("TIME", "time"), Scalar("POINTER", "address")
INT, DINT, UDINT, LINT = (
    _whole("INT", 16, True),
    _whole("DINT", 32, True),
    _whole("UDINT", 32, False),
    _whole("LINT", 64, True),
)
WHOLES = {
    name: _whole(name, bits, signed)
    for name, bits, signed in (
        ("SINT", 8, True), ("INT", 16, True), ("DINT", 32, True), ("LINT", 64, True),
        ("USINT", 8, False), ("UINT", 16, False), ("UDINT", 32, False), ("ULINT", 64, False),
        ("BYTE", 8, False), ("WORD", 16, False), ("DWORD", 32, False), ("LWORD", 64, False),
    )
}  # fmt: skip
SCALARS: dict[str, Scalar] = {
    **WHOLES, "BOOL": BOOL, "REAL": REAL, "LREAL": LREAL, "STRING": STRING, "TIME": TIME, "LTIME": TIME,
    "PVOID": ADDRESS,
}  # fmt: skip
WHOLE = Scalar("a whole number", "int", -(1 << 63), (1 << 64) - 1)  # a literal, before its type is known
FRACTION = Scalar("a number", "real")


def single(value: float) -> float:
    """Round to the nearest float32."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0.0 else float("-inf")


def wrapped(value: int, type: Scalar) -> int:
    """Keep the bits that a whole number of a type has."""
    if type.low <= value <= type.high:
        return value
    return (value - type.low) % (type.high - type.low + 1) + type.low


def bytes_of(type: Type) -> int:
    """How many bytes SIZEOF counts, at least; members are not padded."""
    if isinstance(type, Array):
        return type.length * bytes_of(type.of)
    if isinstance(type, Record):
        return sum(bytes_of(variable.type) for variable in type.variables.values())
    if type.kind == "int":
        return (type.high - type.low).bit_length() // 8
    return {"bool": 1, "text": type.length + 1, "time": 4, "address": 8}.get(type.kind, 4 if type.name == "REAL" else 8)
