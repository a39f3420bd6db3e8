"""What a campaign declares of its logs: the reader of their format, and what their columns mean."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

Kind = Literal["position", "velocity", "acceleration", "torque", "current"]
Side = Literal["joint", "motor"]
# Units by kind, with what turns them into SI.
UNITS: dict[str, dict[str, float]] = {
    "position": {"rad": 1.0, "deg": math.pi / 180.0, "rev": 2.0 * math.pi, "m": 1.0, "mm": 1e-3},
    "velocity": {"rad/s": 1.0, "deg/s": math.pi / 180.0, "rpm": math.pi / 30.0, "m/s": 1.0, "mm/s": 1e-3},
    "acceleration": {"rad/s2": 1.0, "deg/s2": math.pi / 180.0, "m/s2": 1.0},
    "torque": {"N m": 1.0, "Nm": 1.0, "mN m": 1e-3, "N": 1.0},
    "current": {"A": 1.0, "mA": 1e-3},
}
SHARES = ("%", "percent")  # of a rated torque or current that each drive has of its own
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
KINDS = get_args(Kind)
_ALIASES = {"q": "position", "dq": "velocity", "ddq": "acceleration", "tau": "torque"}
_SI = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s2", "torque": "N m", "current": "A"}
_OTHERS = ("time", "time_unit")


class Columns(BaseModel):
    """The columns of one quantity, one a joint, by heading or by number (1 is the first)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Kind  # the quantity
    side: Side | None = None  # where the format does not say it
    unit: str | None = None  # likewise
    columns: Annotated[list[str | int], Field(min_length=1, max_length=100)]  # one a joint: headings, or numbers from 1
    scale: list[list[FiniteFloat]] | list[FiniteFloat] | FiniteFloat = 1.0  # a matrix where axes are coupled
    file: str | None = None  # where the quantity has a file of its own


class ColumnMap(BaseModel):
    """What a log's columns are, where its format does not say it. Measured quantities only: no model's torque."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    format: str | None = None  # a reader's name; none: found by the file's content
    signals: Annotated[list[Columns], Field(default_factory=list, max_length=100)]  # the columns of each quantity
    joints: list[str] | None = None  # in joint order, as a log calls them that names its joints
    time: str | int | None = None  # the column of time stamps
    time_unit: Literal["s", "ms", "us", "ns"] = "s"  # of the time stamps
    sample_rate_hz: Annotated[FiniteFloat, Field(gt=0.0)] | None = None  # without such a column; else to resample to
    header: bool = True  # whether the first row holds headings


def unit_factor(path: Path | str, kind: Kind, unit: str | None) -> float:
    """Find a unit's factor to SI."""
    if unit in SHARES:
        remedy = 'write unit = "N m" and scale = [rated torque / 100, ...], a value a joint'
        raise InvalidLog(path, f"{kind} in {unit!r} is a share of rated values, which the log does not hold; {remedy}")
    if unit not in UNITS[kind]:
        raise InvalidLog(path, f"{kind} in {unit!r} is not known; expected one of {', '.join(UNITS[kind])}")
    return UNITS[kind][unit]


def scale_matrix(path: Path | str, entry: Columns, count: int) -> FloatArray:
    """Write an entry's scale as a matrix: joints = matrix @ columns."""
    given = entry.scale if isinstance(entry.scale, list) else [entry.scale] * count
    rows = [row for row in given if isinstance(row, list)]
    if rows and len(given) == len(rows) == count and all(len(row) == count for row in rows):
        matrix = np.array(rows)
        if np.linalg.matrix_rank(matrix) == count:
            return matrix
    elif not rows and len(given) == count and all(given):
        return np.diag(np.array(given, dtype=np.float64))
    sentence = f"scale of {entry.kind} is {entry.scale}, expected a number other than 0 for each column"
    raise InvalidLog(path, f"{sentence}, or a matrix that can be inverted")


def column_map(columns: Mapping[str, Any], sample_rate_hz: float | None = None, where: str = "columns") -> ColumnMap:
    """Write a full column map from its short form.

    `{"time": "t", "position": ["q1", "q2"], "torque": {"columns": ["i1", "i2"], "unit": "N m", "side": "motor"}}`:
    a plain list is in SI units on the joint side. `q` and `tau` stand for position and torque.
    """
    signals: list[Columns] = []
    for key, value in columns.items():
        if key in _OTHERS:
            continue
        kind = _ALIASES.get(key, key)
        if kind not in KINDS:
            raise InvalidLog(where, f"{key!r} is no quantity; expected one of {', '.join((*_OTHERS, *KINDS))}")
        entry = dict(value) if isinstance(value, Mapping) else {"columns": value}
        names = entry.pop("columns", None)
        names = [names] if isinstance(names, str | int) else list(names or ())
        unknown = set(entry) - {"unit", "side", "scale"}
        if unknown or not names:
            sentence = f"has the key {sorted(unknown)[0]!r}" if unknown else "names no columns"
            raise InvalidLog(where, f"{key!r} {sentence}; expected columns, and unit, side and scale where they differ")
        unit = entry.get("unit", _SI[kind])
        side = entry.get("side", "joint")
        scale = entry.get("scale", 1.0)
        signals.append(Columns(kind=cast(Kind, kind), columns=names, unit=unit, side=side, scale=scale))
    time = columns.get("time")
    return ColumnMap(signals=signals, time=time, time_unit=columns.get("time_unit", "s"), sample_rate_hz=sample_rate_hz)
