"""Standard functions of IEC 61131-3: which there are, for which types, and what they compute."""

import math
import re
from collections.abc import Callable
from typing import Any

from excitor.design.programs.languages.st_types import (
    DINT,
    FRACTION,
    INT,
    LREAL,
    REAL,
    SCALARS,
    WHOLE,
    Scalar,
    Type,
    single,
    wrapped,
)  # fmt: skip

Found = tuple[Scalar, Callable[..., Any]]

_ANALYTIC: dict[str, Callable[[float], float]] = {
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log10,
}  # fmt: skip
_COUNTS = {"abs": 1, "trunc": 1, "expt": 2, "limit": 3, "sel": 3, "atan2": 2, "floor": 1, "len": 1, "fabs": 1}


def find(name: str, types: list[Type]) -> Found | str:
    """Find a function for arguments of some types; a sentence where there is none."""
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
    if not types or len({type.kind for type in types} - {"int"}) > 1:
        return f"{name.upper()} wants values of one kind"
    kinds = {type.kind for type in types if type is not WHOLE}
    if len(kinds) > 1:
        return f"{name.upper()} wants values of one kind"
    widest = max(types, key=lambda type: (type not in (WHOLE, FRACTION), type.high, type.name == "LREAL"))
    works: dict[str, Callable[..., Any]] = {
        "min": min, "max": max, "limit": lambda low, x, high: min(max(x, low), high),
    }  # fmt: skip
    work = works[name]
    return widest, (lambda *values: single(work(*values))) if widest is REAL else work


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
        fits = have.kind == wanted.kind and (have.kind != "int" or have is WHOLE or _inside(have, wanted))
        if not (fits or (have is WHOLE and wanted.kind == "real")) or (have.name == "LREAL" and wanted is REAL):
            return f"{name.upper()} wants {wanted.name}, {have.name} is given"
    if have.kind == "text" and to.kind != "text":
        return f"{name.upper()} reads texts; that is not known here"
    return to, lambda x: _convert(x, to)


def _inside(a: Scalar, b: Scalar) -> bool:
    return b.low <= a.low and a.high <= b.high


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
