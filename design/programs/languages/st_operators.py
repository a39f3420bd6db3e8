"""What operators of structured text do with values of their types."""

from collections.abc import Callable
from typing import Any

from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.st_scope import NOT_CONSTANT, Code, Run, Scope, constant, line_of, type_name
from excitor.design.programs.languages.st_types import (
    BOOL,
    FRACTION,
    LINT,
    LREAL,
    TIME,
    WHOLE,
    Scalar,
    single,
    wrapped,
)  # fmt: skip

_COMPARE: dict[str, Callable[[Run, Run], Run]] = {
    "=": lambda a, b: lambda F: a(F) == b(F),
    "<>": lambda a, b: lambda F: a(F) != b(F),
    "<": lambda a, b: lambda F: a(F) < b(F),
    ">": lambda a, b: lambda F: a(F) > b(F),
    "<=": lambda a, b: lambda F: a(F) <= b(F),
    ">=": lambda a, b: lambda F: a(F) >= b(F),
}
_COMPARE_SLOT: dict[str, Callable[[int, Any], Run]] = {
    "=": lambda i, c: lambda F: F[i] == c,
    "<>": lambda i, c: lambda F: F[i] != c,
    "<": lambda i, c: lambda F: F[i] < c,
    ">": lambda i, c: lambda F: F[i] > c,
    "<=": lambda i, c: lambda F: F[i] <= c,
    ">=": lambda i, c: lambda F: F[i] >= c,
}
# Sums, differences and products of LREAL: s a slot of the frame, c a constant, g anything.
_FAST: dict[str, dict[str, Callable[[Any, Any], Run]]] = {
    "+": {
        "ss": lambda a, b: lambda F: F[a] + F[b],
        "sc": lambda a, b: lambda F: F[a] + b,
        "cs": lambda a, b: lambda F: a + F[b],
        "sg": lambda a, b: lambda F: F[a] + b(F),
        "gs": lambda a, b: lambda F: a(F) + F[b],
        "cg": lambda a, b: lambda F: a + b(F),
        "gc": lambda a, b: lambda F: a(F) + b,
        "gg": lambda a, b: lambda F: a(F) + b(F),
    },
    "-": {
        "ss": lambda a, b: lambda F: F[a] - F[b],
        "sc": lambda a, b: lambda F: F[a] - b,
        "cs": lambda a, b: lambda F: a - F[b],
        "sg": lambda a, b: lambda F: F[a] - b(F),
        "gs": lambda a, b: lambda F: a(F) - F[b],
        "cg": lambda a, b: lambda F: a - b(F),
        "gc": lambda a, b: lambda F: a(F) - b,
        "gg": lambda a, b: lambda F: a(F) - b(F),
    },
    "*": {
        "ss": lambda a, b: lambda F: F[a] * F[b],
        "sc": lambda a, b: lambda F: F[a] * b,
        "cs": lambda a, b: lambda F: a * F[b],
        "sg": lambda a, b: lambda F: F[a] * b(F),
        "gs": lambda a, b: lambda F: a(F) * F[b],
        "cg": lambda a, b: lambda F: a * b(F),
        "gc": lambda a, b: lambda F: a(F) * b,
        "gg": lambda a, b: lambda F: a(F) * b(F),
    },
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
    """Compute now what is known now."""
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
    if a.slot is not None and b.fixed:
        return Code(BOOL, _COMPARE_SLOT[symbol](a.slot, b.constant))
    return Code(BOOL, _COMPARE[symbol](a.run, b.run))


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
    joined = _FAST[symbol]["gg"](f, g)
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
        run = _divided(a, b, scope, node) if symbol == "/" else _FAST[symbol]["gg"](a.run, b.run)
        real = a.type if type_name(a.type) == "REAL" else b.type
        return Code(real, lambda F: single(run(F)))
    result = LREAL if "LREAL" in names else FRACTION
    if symbol == "/":
        return Code(result, _divided(a, b, scope, node))
    (p, x), (q, y) = _operand(a), _operand(b)
    if p + q == "cc":
        return Code(result, _FAST[symbol]["gg"](a.run, b.run))
    code = Code(result, _FAST[symbol][p + q](x, y))
    if symbol == "*" and p + q == "ss":
        code.product = (x, y)
    if symbol == "+" and p == "s" and b.product is not None:
        code.total = (x, *b.product)
    return code


def _as_single(code: Code) -> Code:
    return constant(code.type, single(code.constant)) if code.fixed else code


def _operand(code: Code) -> tuple[str, Any]:
    if code.fixed:
        return "c", float(code.constant)
    return ("s", code.slot) if code.slot is not None else ("g", code.run)


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
        return Code(TIME, _FAST[symbol]["gg"](f, g))
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
