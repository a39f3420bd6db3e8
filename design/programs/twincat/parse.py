"""Words, types and values of structured text, and the standard functions of IEC 61131-3.

Values are stored in frames; assignments copy, and never share.
"""

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from excitor.design.programs import runtime
from excitor.design.programs.runtime import Assign, Fault, Operand, Token, scan
from excitor.design.programs.target import ProgramError

_LISTED = """
TYPE END_TYPE STRUCT END_STRUCT VAR_GLOBAL END_VAR FUNCTION_BLOCK END_FUNCTION_BLOCK PROGRAM END_PROGRAM FUNCTION
END_FUNCTION VAR VAR_INPUT VAR_OUTPUT VAR_IN_OUT VAR_TEMP CONSTANT RETAIN PERSISTENT AT ARRAY OF POINTER REFERENCE TO IF
THEN ELSIF ELSE END_IF CASE END_CASE FOR BY DO END_FOR WHILE END_WHILE REPEAT UNTIL END_REPEAT RETURN EXIT CONTINUE OR
OR_ELSE XOR AND AND_THEN MOD NOT TRUE FALSE
"""
_WORDS = frozenset(_LISTED.split())
_TOKEN = re.compile(
    r"""(?P<blank>\s+|\(\*[\s\S]*?\*\)|//[^\n]*|\{[^}]*\})|(?P<duration>(?:TIME|LTIME|T)\#[0-9_.a-z]+)
    |(?P<typed>(?:BOOL|BYTE|D?WORD|LWORD|U?[SDL]?INT|L?REAL)\#[-+]?[a-z0-9_.\#+]+)|(?P<based>(?:2|8|16)\#[0-9a-f_]+)
    |(?P<real>[0-9][0-9_]*\.[0-9][0-9_]*(?:e[-+]?[0-9]+)?|[0-9][0-9_]*e[-+]?[0-9]+)|(?P<whole>[0-9][0-9_]*)
    |(?P<text>'(?:[^'$\n]|\$[^\n])*')|(?P<address>%[A-Za-z0-9.*]+)|(?P<name>[a-z_][a-z0-9_]*)
    |(?P<sign>:=|=>|<>|<=|>=|\*\*|\.\.|[-+*/&=<>()\[\],;:.^])""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


@lru_cache(maxsize=4)  # a program is run again and again, in every situation that it must refuse
def tokens(file: str, text: str) -> list[Token]:
    """Cut a file into tokens, the last of which is its end; the list is shared and must not be changed."""
    try:
        found = list(scan(_TOKEN, text, 1, lambda rest: f"{rest[0]!r} is no part of the language here"))
    except Fault as fault:
        raise ProgramError(file, fault.line, fault.sentence) from None
    made = [Token(kind, part, line, _key(kind, part)) for kind, part, line in found]
    return [*made, Token("end", "", text.count("\n") + 1, "")]


def _key(kind: str, text: str) -> str:
    if kind == "sign":
        return "AND" if text == "&" else text
    return text.upper() if kind == "name" and text.upper() in _WORDS else ""


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
        """Return the value of a variable before any assignment."""
        return {"bool": False, "int": 0, "real": 0.0, "text": "", "time": 0, "address": None}[self.kind]


@dataclass(frozen=True, eq=False)
class Array:
    """Elements of one type by one or several whole numbers."""

    lows: tuple[int, ...]
    sizes: tuple[int, ...]
    of: "Type"

    @property
    def length(self) -> int:
        """Number of elements."""
        n = 1
        for size in self.sizes:
            n *= size
        return n

    @property
    def inline(self) -> bool:
        """True if its elements are stored in the frame itself."""
        return isinstance(self.of, Scalar)


@dataclass(eq=False)
class Variable:
    """A variable or a member: its slot in the frame, and its initial value (None: zero)."""

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
        """Build a frame of initial values."""
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
    """A function: its parameters (name, type, by reference), its result, and its implementation."""

    name: str
    parameters: tuple[tuple[str, Type, bool], ...]
    result: Type | None
    run: Callable[..., Any]


def span(type: Type) -> int:
    """Count the slots of a frame that a type takes."""
    return type.length if isinstance(type, Array) and type.inline else 1


def begin(variable: Variable) -> list[Any]:
    """Return a variable's initial values, one per slot."""
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
        return runtime.single(value)
    except OverflowError:
        return float("inf") if value > 0.0 else float("-inf")


def wrapped(value: int, type: Scalar) -> int:
    """Keep the bits that a whole number of a type has."""
    if type.low <= value <= type.high:
        return value
    return (value - type.low) % (type.high - type.low + 1) + type.low


def bytes_of(type: Type) -> int:
    """Count the bytes that SIZEOF counts, at least; members are not padded."""
    if isinstance(type, Array):
        return type.length * bytes_of(type.of)
    if isinstance(type, Record):
        return sum(bytes_of(variable.type) for variable in type.variables.values())
    if type.kind == "int":
        return (type.high - type.low).bit_length() // 8
    return {"bool": 1, "text": type.length + 1, "time": 4, "address": 8}.get(type.kind, 4 if type.name == "REAL" else 8)


Run = Callable[[Frame], Any]
NOT_CONSTANT: Any = object()


@dataclass(slots=True)
class Code:
    """A compiled expression."""

    type: Type
    run: Run
    constant: Any = NOT_CONSTANT
    slot: int | None = None  # a scalar of the frame itself
    place: "Place | None" = None  # of a variable
    terms: tuple[tuple[int, int], ...] = ()  # slots whose products it sums up, which may follow on
    begin: int | None = None  # the slot that they are added to

    @property
    def fixed(self) -> bool:
        """True if its value is known before the program runs."""
        return self.constant is not NOT_CONSTANT

    @property
    def operand(self) -> Operand:
        """What an operator joins."""
        return Operand(self.run, self.slot, self.fixed, self.constant)


@dataclass(slots=True)
class Place:
    """Storage of a variable: an index into the list that `holder` finds (None: the frame itself)."""

    type: Type
    index: int | Run
    holder: Run | None = None
    constant: Any = NOT_CONSTANT
    writable: bool = True
    method: Callable[[Frame], None] | None = None  # of the record there, which is called
    path: tuple[int, ...] | None = ()  # to the holder, by known indices; None: otherwise

    @property
    def whole_path(self) -> tuple[int, ...] | None:
        """The way to the value itself, where all of it is known."""
        return (*self.path, self.index) if self.path is not None and isinstance(self.index, int) else None


def constant(type: Type, value: Any) -> Code:
    """Make an expression of a known value."""
    return Code(type, lambda F: value, value)


def same(a: Type, b: Type) -> bool:
    """Return True if two types are the same."""
    if isinstance(a, Array) and isinstance(b, Array):
        return a.lows == b.lows and a.sizes == b.sizes and same(a.of, b.of)
    return a is b or (isinstance(a, Scalar) and a == b)


def type_name(type: Type) -> str:
    """Name a type in a sentence."""
    if isinstance(type, Array):
        return f"an array of {type_name(type.of)}"
    return type.name


def converted(code: Code, to: Type) -> Code:
    """Check that a value may be assigned to a type, and fit it in."""
    have = code.type
    if not (isinstance(to, Scalar) and isinstance(have, Scalar)):
        if not same(have, to):
            raise Fault(f"{type_name(have)} is given, expected {type_name(to)}")
        return code
    run = code.run
    if to.kind == "real" and (have.kind == "real" or have is WHOLE):
        return _as_real(code, to)
    if to.kind == "int" and have.kind == "int":
        if code.fixed:
            if not to.low <= code.constant <= to.high:
                raise Fault(f"{code.constant} does not fit into {to.name}")
            return constant(to, code.constant)
        if have.low < to.low or have.high > to.high:
            raise Fault(f"{have.name} does not fit into {to.name}; write {have.name}_TO_{to.name}")
        return Code(to, run, slot=code.slot)
    if to.kind == "text" and have.kind == "text":
        return Code(to, (lambda F: run(F)[: to.length]))
    if to.kind != have.kind or to.kind in ("int", "real"):
        advice = f"; write {have.name}_TO_{to.name}" if {to.kind, have.kind} == {"int", "real"} else ""
        raise Fault(f"{have.name} is given, expected {to.name}{advice}")
    return code


def _as_real(code: Code, to: Scalar) -> Code:
    if code.fixed:
        return constant(to, single(code.constant) if to.name == "REAL" else float(code.constant))
    if to.name == "REAL" and isinstance(code.type, Scalar) and code.type.name == "LREAL":
        raise Fault("LREAL does not fit into REAL; write LREAL_TO_REAL")
    return code


Work = Callable[[Frame], None]


def store(at: Place, code: Code) -> Work:
    """Write a value to a place."""
    index, holder, run = at.index, at.holder, code.run
    if isinstance(at.type, Array) and at.type.inline and isinstance(index, int):
        n = at.type.length

        def copy(F: Frame) -> None:
            (holder(F) if holder else F)[index : index + n] = run(F)

        return copy
    if isinstance(at.type, Record | Array):
        run = copied(run)
    if holder is None and isinstance(index, int):
        summed = code.terms and code.begin == index
        return Sum(index, run, operator.itemgetter(index), code.terms) if summed else Assign(index, run)
    find = index if callable(index) else lambda F: index

    def assign_there(F: Frame) -> None:
        value = run(F)
        (holder(F) if holder else F)[find(F)] = value

    return assign_there


@dataclass(frozen=True, slots=True)
class Sum(Assign):
    """Adds products of slots to what is found first."""

    begin: Run
    terms: tuple[tuple[int, int], ...]

    @property
    def apart(self) -> bool:
        """True if no product is one of the sum itself."""
        return all(self.slot not in pair for pair in self.terms)


def summed(steps: list[tuple[int, Run]]) -> list[tuple[int, Run]]:
    """Join sums that go on from statement to statement, as those of a loop that is written out."""
    made: list[tuple[int, Run]] = []
    for line, step in steps:
        first, before = made[-1] if made else (line, None)
        if isinstance(step, Sum) and step.apart and isinstance(before, Assign) and before.slot == step.slot:
            begin, terms = (before.begin, before.terms) if isinstance(before, Sum) else (before.value, ())
            terms += step.terms
            made[-1] = first, Sum(step.slot, _total(begin, terms), begin, terms)
        else:
            made.append((line, step))
    return made


def _total(begin: Run, terms: tuple[tuple[int, int], ...]) -> Run:
    def run(F: Frame) -> float:
        total: float = begin(F)
        for i, j in terms:
            total = total + F[i] * F[j]
        return total

    return run


def copied(run: Callable[[Frame], Any]) -> Callable[[Frame], Any]:
    """Copy a structure or an array of them, so that its two owners change it separately."""

    def deep(value: Any) -> Any:
        return [deep(item) for item in value] if isinstance(value, list) else value

    return lambda F: deep(run(F))


Found = tuple[Scalar, Callable[..., Any]]

_ANALYTIC: dict[str, Callable[[float], float]] = {
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log10,
}  # fmt: skip
_COUNTS = {"abs": 1, "trunc": 1, "expt": 2, "limit": 3, "sel": 3, "atan2": 2, "floor": 1, "len": 1, "fabs": 1}


def find(name: str, types: list[Type]) -> Found | str:
    """Find a function for arguments of some types; return a sentence where there is none."""
    scalars = [type for type in types if isinstance(type, Scalar)]
    if len(scalars) != len(types):
        return f"{name.upper()} wants values, not arrays or structures"
    conversion = re.fullmatch(r"(?:([a-z]+)_)?to_([a-z]+)", name)
    if conversion and conversion[2].upper() in SCALARS:
        return _conversion(name, conversion[1], SCALARS[conversion[2].upper()], scalars)
    wanted = 1 if name in _ANALYTIC else _COUNTS.get(name)
    if wanted is not None and len(types) != wanted:
        return f"{name.upper()} wants {wanted} arguments, {len(types)} are given"
    if name in _ANALYTIC:
        return _analytic(name, scalars[0])
    if name in ("min", "max", "limit"):
        return _chosen(name, scalars)
    other = _others(name, scalars)
    return other if other is not None else f"{name.upper()} is not known"


def _analytic(name: str, type: Scalar) -> Found | str:
    work = _ANALYTIC[name]
    if type.kind != "real" and type is not WHOLE:
        return f"{name.upper()} wants REAL or LREAL, {type.name} is given"
    if type.name == "REAL":
        return type, lambda x: single(work(x))
    return LREAL, work


def _chosen(name: str, types: list[Scalar]) -> Found | str:
    if not types or len({type.kind for type in types if type is not WHOLE}) > 1:
        return f"{name.upper()} wants values of one kind"
    widest = max(types, key=lambda type: (type not in (WHOLE, FRACTION), type.high, type.name == "LREAL"))
    works: dict[str, Callable[..., Any]] = {
        "min": min, "max": max, "limit": _limited,
    }  # fmt: skip
    work = works[name]
    return widest, (lambda *values: single(work(*values))) if widest is REAL else work


def _limited(low: Any, x: Any, high: Any) -> Any:
    return x if low <= x <= high else min(max(x, low), high)


def _others(name: str, types: list[Scalar]) -> Found | None:
    kinds = [type.kind for type in types]
    if name in ("abs", "fabs") and kinds[0] in ("real", "int"):
        return types[0], abs
    if name == "trunc" and kinds[0] == "real":
        return DINT, lambda x: wrapped(math.trunc(x), DINT)
    if name == "floor" and kinds[0] == "real":
        return DINT, lambda x: wrapped(math.floor(x), DINT)
    if name == "expt" and set(kinds) <= {"real", "int"}:
        return (REAL if types[0].name == "REAL" else LREAL), lambda x, y: float(float(x) ** y)
    if name == "atan2" and set(kinds) == {"real"}:
        return LREAL, math.atan2
    if name == "sel" and kinds[0] == "bool" and kinds[1] == kinds[2]:
        return types[2] if types[1] is WHOLE else types[1], lambda g, a, b: b if g else a
    if name == "len" and kinds[0] == "text":
        return INT, len
    if name == "concat" and len(types) >= 2 and set(kinds) == {"text"}:
        return Scalar("STRING", "text", length=255), lambda *parts: "".join(parts)[:255]
    return None


def _conversion(name: str, source: str | None, to: Scalar, types: list[Scalar]) -> Found | str:
    if len(types) != 1:
        return f"{name.upper()} wants 1 argument, {len(types)} are given"
    have = types[0]
    if source is not None:
        if source.upper() not in SCALARS:
            return f"{name.upper()} is not known"
        wanted = SCALARS[source.upper()]
        fits = have.kind == wanted.kind and (
            have.kind != "int" or have is WHOLE or (wanted.low <= have.low and have.high <= wanted.high)
        )
        if not (fits or (have is WHOLE and wanted.kind == "real")) or (have.name == "LREAL" and wanted is REAL):
            return f"{name.upper()} wants {wanted.name}, {have.name} is given"
    if have.kind == "text" and to.kind != "text":
        return f"{name.upper()} reads texts; that is not known here"
    return to, float if to is LREAL else lambda x: _convert(x, to)


def _convert(x: Any, to: Scalar) -> Any:
    if to.kind == "real":
        return single(float(x)) if to.name == "REAL" else float(x)
    if to.kind == "int" or to.kind == "time":
        whole = x if isinstance(x, int) else math.floor(abs(x) + 0.5) * (1 if x >= 0.0 else -1)
        return wrapped(int(whole), to) if to.kind == "int" else int(whole)
    if to.kind == "bool":
        return bool(x)
    return _as_text(x)


def _as_text(x: Any) -> str:
    if isinstance(x, bool):
        return "TRUE" if x else "FALSE"
    return f"{x:.6g}" if isinstance(x, float) else str(x)
