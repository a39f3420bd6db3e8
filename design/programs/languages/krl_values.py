"""Values of KRL: REAL is a float of 24 bits, INT has 32, angles are degrees; operators check what they are given."""

import math
import struct
from collections.abc import Callable
from typing import Any

Value = Any  # int, float (of 24 bits), bool, str, Word, or a structure: dict of its members
Operator = Callable[[Value, Value], Value]


class Fault(Exception):
    """What is wrong with a line; whoever reads or runs the line knows where it stands."""


class Word(str):
    """A constant of an enumeration, such as #T1; upper case."""


def single(x: float) -> float:
    """Round to a REAL."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        raise Fault(f"{x:g} is too large for a REAL") from None


def whole(x: int) -> int:
    """Check that an INT holds a number."""
    if not -(2**31) <= x < 2**31:
        raise Fault(f"{x} is too large for an INT")
    return x


def stored(kind: str, value: Value) -> Value:
    """Convert a value to a variable's type, as an assignment does."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "REAL" and number:
        return single(value)
    if kind == "INT" and number:
        return whole(value if isinstance(value, int) else math.floor(abs(value) + 0.5) * (-1 if value < 0 else 1))
    fits = {
        "BOOL": isinstance(value, bool),
        "CHAR": isinstance(value, str) and not isinstance(value, Word),
        "ENUM": isinstance(value, Word),
        "STRUCTURE": isinstance(value, dict),
    }
    if fits.get(kind if kind in fits else "ENUM" if isinstance(value, Word) else "STRUCTURE", False):
        return value
    raise Fault(f"{shown(value)} is no {kind}")


def shown(value: Value) -> str:
    """Tell a value."""
    return "a structure" if isinstance(value, dict) else repr(value)[:40]


def number(value: Value) -> Value:
    """Demand a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fault(f"{shown(value)} stands where a number is expected")
    return value


def real(value: Value) -> Value:
    """Round numbers to REAL."""
    return value if isinstance(value, str | bool | dict) else single(value)


def integer(value: Value) -> int:
    """Demand an INT."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Fault(f"{shown(value)} stands where an INT is expected")
    return value


def truth(value: Value) -> bool:
    """Demand TRUE or FALSE."""
    if not isinstance(value, bool):
        raise Fault(f"{shown(value)} stands where TRUE or FALSE is expected")
    return value


def _calculated(operate: Operator) -> Operator:
    def both(a: Value, b: Value) -> Value:
        result = operate(number(a), number(b))
        return whole(result) if isinstance(result, int) else single(result)

    return both


def _quotient(a: Value, b: Value) -> Value:
    if b == 0:
        raise Fault("divides by zero")
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def _compared(operate: Callable[[Value, Value], bool], ordered: bool) -> Callable[[Value, Value], bool]:
    def both(a: Value, b: Value) -> bool:
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b))
        if not numbers and (ordered or type(a) is not type(b)):
            raise Fault(f"compares {shown(a)} with {shown(b)}")
        return operate(a, b)

    return both


COMPARED: dict[str, Operator] = {
    "==": _compared(lambda a, b: bool(a == b), False),
    "<>": _compared(lambda a, b: bool(a != b), False),
    "<": _compared(lambda a, b: bool(a < b), True),
    ">": _compared(lambda a, b: bool(a > b), True),
    "<=": _compared(lambda a, b: bool(a <= b), True),
    ">=": _compared(lambda a, b: bool(a >= b), True),
}
LEVELS: tuple[dict[str, Operator], ...] = (  # from the weakest on
    {"OR": lambda a, b: truth(a) | truth(b), "B_OR": lambda a, b: integer(a) | integer(b)},
    {"EXOR": lambda a, b: truth(a) ^ truth(b), "B_EXOR": lambda a, b: integer(a) ^ integer(b)},
    {"AND": lambda a, b: truth(a) & truth(b), "B_AND": lambda a, b: integer(a) & integer(b)},
    {"+": _calculated(lambda a, b: a + b), "-": _calculated(lambda a, b: a - b)},
    {"*": _calculated(lambda a, b: a * b), "/": _calculated(_quotient)},
)
FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "ABS": (1, abs),
    "SQRT": (1, math.sqrt),
    "SIN": (1, lambda x: math.sin(math.radians(x))),
    "COS": (1, lambda x: math.cos(math.radians(x))),
    "TAN": (1, lambda x: math.tan(math.radians(x))),
    "ACOS": (1, lambda x: math.degrees(math.acos(x))),
    "ATAN2": (2, lambda y, x: math.degrees(math.atan2(y, x))),
}
