"""Tables in memory (pandas DataFrame, numpy arrays) to logs, and the short form of a column map.

A wrong table is refused with the column and the row. Values are copied once, into the log's own arrays.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from excitor.identify.log import UNINITIALISED, Kind, Log, Signal, even_rate
from excitor.identify.logs.table import SECONDS, UNITS, ColumnMap, Columns, scale_matrix
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

if TYPE_CHECKING:
    from pandas import DataFrame

KINDS = get_args(Kind)
_ALIASES = {"q": "position", "dq": "velocity", "ddq": "acceleration", "tau": "torque"}
_SI = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s2", "torque": "N m", "current": "A"}
_OTHERS = ("time", "time_unit")


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
            told = f"has the key {sorted(unknown)[0]!r}" if unknown else "names no columns"
            raise InvalidLog(where, f"{key!r} {told}; expected columns, and unit, side and scale where they differ")
        signals.append(
            Columns(
                kind=cast(Kind, kind),
                columns=names,
                unit=entry.get("unit", _SI[kind]),
                side=entry.get("side", "joint"),
                scale=entry.get("scale", 1.0),
            )
        )
    return ColumnMap(
        signals=signals,
        time=columns.get("time"),
        time_unit=columns.get("time_unit", "s"),
        sample_rate_hz=sample_rate_hz,
    )


def log_from_frame(
    frame: "DataFrame", columns: Mapping[str, Any], *, sample_rate_hz: float | None = None, name: str = "DataFrame"
) -> Log:
    """Read a log from a DataFrame; InvalidLog names the column and the row of what is wrong."""
    declared = column_map(columns, sample_rate_hz, name)
    if declared.time is None and sample_rate_hz is None:
        raise InvalidLog(name, 'has no time; name its column, {"time": ...}, or state sample_rate_hz')
    _check_index(frame, name)
    notes: list[str] = []
    rate, start, kept = sample_rate_hz or 0.0, 0.0, None
    if declared.time is not None:
        time = np.empty(len(frame))
        _fill(time, frame, declared.time, name)
        time *= SECONDS[declared.time_unit]
        kept, rate, notes = even_rate(name, time, range(len(frame)))
        start = float(time[0])
    widths = {entry.kind: len(entry.columns) for entry in declared.signals}
    if len(set(widths.values())) > 1:
        told = ", ".join(f"{count} of {kind}" for kind, count in widths.items())
        raise InvalidLog(name, f"has columns of different numbers of joints ({told}); name one a joint in each")
    signals = tuple(_signal(frame, entry, name, kept) for entry in declared.signals)
    return Log(name, rate, start, signals, tuple(notes))


def log_from_arrays(
    q: FloatArray, tau: FloatArray, *, sample_rate_hz: float, dq: FloatArray | None = None, name: str = "arrays"
) -> Log:
    """Make a log of joint positions and torques (n_samples, n_joints) in SI units, sampled evenly."""
    given = {"position": q, "torque": tau} | ({} if dq is None else {"velocity": dq})
    shape = np.shape(q)
    if len(shape) != 2 or shape[0] < 3:
        raise InvalidLog(name, f"q has shape {shape}, expected 3 samples or more, one column a joint")
    if not 0.0 < sample_rate_hz < np.inf:
        raise InvalidLog(name, f"sample_rate_hz is {sample_rate_hz}, expected a positive frequency")
    for kind, values in given.items():
        if np.shape(values) != shape:
            raise InvalidLog(name, f"{kind} has shape {np.shape(values)}, expected {shape} as the positions")
        bad = np.argwhere(~np.isfinite(np.asarray(values, dtype=float)))
        if len(bad):
            row, joint = (int(k) for k in bad[0])
            raise InvalidLog(name, f"{kind} of joint {joint + 1} is {np.asarray(values)[row, joint]}; cut it", row)
    signals = tuple(Signal(cast(Kind, kind), "joint", np.asarray(values)) for kind, values in given.items())
    return Log(name, sample_rate_hz, 0.0, signals)


def _check_index(frame: "DataFrame", name: str) -> None:
    if len(frame) < 3:
        raise InvalidLog(name, f"has {len(frame)} rows, expected at least 3")
    if not frame.index.is_unique:
        row = int(np.argmax(frame.index.duplicated()))
        told = f"its index has {frame.index[row]!r} twice, for the second time at this row"
        raise InvalidLog(name, f"{told}; use reset_index(drop=True), or leave out the repeated rows", row)


def _signal(frame: "DataFrame", entry: Columns, name: str, kept: Any) -> Signal:
    """Copy the columns of one quantity into one array, in SI units."""
    units = UNITS[entry.kind]
    if entry.unit not in units:
        raise InvalidLog(name, f"{entry.kind} in {entry.unit!r} is not known; expected one of {', '.join(units)}")
    repeated = [column for column in entry.columns if entry.columns.count(column) > 1]
    if repeated:
        raise InvalidLog(name, f"column {repeated[0]!r} is named twice for {entry.kind}; name one a joint")
    values = np.empty((len(frame), len(entry.columns)))
    for j, column in enumerate(entry.columns):
        _fill(values[:, j], frame, column, name)
    matrix = units[entry.unit] * scale_matrix(name, entry, len(entry.columns))
    if np.array_equal(matrix, np.diag(np.diag(matrix))):
        values *= np.diag(matrix)
    else:
        values = values @ matrix.T
    if kept is not None and not kept.all():
        values = values[kept]
    values.flags.writeable = False
    return Signal(entry.kind, entry.side or "joint", values)


def _fill(out: FloatArray, frame: "DataFrame", column: str | int, name: str) -> None:
    """Copy a column's numbers; text, missing values and what nothing measures are refused with their row."""
    found = _columns_of(frame, column)
    if len(found) != 1:
        shown = ", ".join(map(str, frame.columns[:24]))
        told = f"has no column {column!r}" if not found else f"has {len(found)} columns {column!r}"
        raise InvalidLog(name, f"{told}; its columns are {shown}")
    series = frame.iloc[:, found[0]]
    try:
        out[:] = series.to_numpy()
    except (TypeError, ValueError):
        row, value = next(_no_numbers(series))
        raise InvalidLog(name, f"column {column!r} holds {value!r}, expected a number", row) from None
    for start in range(0, len(out), 100_000):  # in parts: a mask of all rows would be another copy
        part = out[start : start + 100_000]
        bad = np.flatnonzero(~(np.abs(part) < UNINITIALISED))
        if bad.size:
            row = start + int(bad[0])
            raise InvalidLog(name, f"column {column!r} is {out[row]:g}, which nothing measures; cut it", row)


def _columns_of(frame: "DataFrame", column: str | int) -> list[int]:
    """Find a column by its name; else, where it is a number, by its place from 1."""
    found = [k for k, known in enumerate(frame.columns) if known == column]
    if not found and isinstance(column, int) and 1 <= column <= len(frame.columns):
        return [column - 1]
    return found


def _no_numbers(values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            yield row, value
    yield 0, values
