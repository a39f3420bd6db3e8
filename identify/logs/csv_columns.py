"""CSV files with a column map: which columns are what, on which side, in which unit; only the dialect is guessed."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from excitor.identify.log import Kind, Log, Side, Signal, even_rate
from excitor.identify.logs.opened import read_lines
from excitor.identify.logs.recording import Channel, Clock, Recording
from excitor.identify.logs.text_table import Dialect, find_dialect, is_number
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

LARGEST_VALUE = 1e12  # in any unit anybody writes

# Units by kind, with what turns them into SI.
UNITS: dict[str, dict[str, float]] = {
    "position": {"rad": 1.0, "deg": math.pi / 180.0, "rev": 2.0 * math.pi, "m": 1.0, "mm": 1e-3},
    "velocity": {"rad/s": 1.0, "deg/s": math.pi / 180.0, "rpm": math.pi / 30.0, "m/s": 1.0, "mm/s": 1e-3},
    "acceleration": {"rad/s2": 1.0, "deg/s2": math.pi / 180.0, "m/s2": 1.0},
    "torque": {"N m": 1.0, "Nm": 1.0, "mN m": 1e-3, "N": 1.0},
    "current": {"A": 1.0, "mA": 1e-3},
}


class Columns(BaseModel):
    """The columns of one quantity, one a joint, by heading or by number (1 is the first)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Kind
    side: Side | None = None  # where the format does not say it
    unit: str | None = None  # likewise
    columns: Annotated[list[str | int], Field(min_length=1, max_length=100)]
    scale: list[list[FiniteFloat]] | list[FiniteFloat] | FiniteFloat = 1.0  # a matrix where axes are coupled
    file: str | None = None


class ColumnMap(BaseModel):
    """What a log's columns are, where its format does not say it. Measured quantities only: no model's torque."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    format: str | None = None  # a reader's name; none: found by the file's content
    signals: Annotated[list[Columns], Field(default_factory=list, max_length=100)]
    joints: list[str] | None = None  # in joint order, as a log calls them that names its joints
    time: str | int | None = None  # the column of time stamps
    time_unit: Literal["s", "ms", "us", "ns"] = "s"
    sample_rate_hz: Annotated[FiniteFloat, Field(gt=0.0)] | None = None  # without such a column; else to resample to
    header: bool = True


SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Table:
    """A file's numbers, its headings, and the row of the file that each came from."""

    headings: tuple[str, ...]
    values: FloatArray
    rows: tuple[int, ...]
    notes: tuple[str, ...]


MODELLED = re.compile(r"target|model|desired|command|setpoint|reference", re.IGNORECASE)


def read_csv(path: Path, columns: ColumnMap) -> Log:
    """Read a log; whatever is wrong is told with its row, whatever was mended is told in the log's notes."""
    if (columns.time is None) == (columns.sample_rate_hz is None):
        raise InvalidLog(path, "the column map needs either time or sample_rate_hz")
    if not columns.signals:
        raise InvalidLog(path, "is read by a column map, which declares no signals; add [[log.signals]]")
    tables = {name: read_table(_file(path, name), columns.header) for name in _files(columns)}
    main = next(iter(tables.values()))
    notes = [note for table in tables.values() for note in table.notes]
    kept, rate = np.ones(len(main.values), dtype=bool), columns.sample_rate_hz
    start = 0.0
    if columns.time is not None:
        stamps = main.values[:, _index(path, main, columns.time)] * SECONDS[columns.time_unit]
        start = float(stamps[0])
        kept, rate, mended = even_rate(str(path), stamps, main.rows)
        notes += mended
    assert rate is not None
    signals = []
    for entry in columns.signals:
        table = tables[entry.file or ""]
        if len(table.values) != len(main.values):
            raise InvalidLog(
                path,
                f"{entry.file} has {len(table.values)} rows, expected {len(main.values)}: sample both together",
            )
        if entry.side is None or entry.unit is None:
            raise InvalidLog(path, f"a table of numbers does not tell side and unit of {entry.kind}; declare both")
        signals.append(Signal(entry.kind, entry.side, _signal(path, table, entry)[kept]))
    return Log(str(path), rate, start, tuple(signals), tuple(notes), _marked(path, columns, main))


def _marked(path: Path, columns: ColumnMap, table: Table) -> Recording | None:
    """Keep a column called `mark`: where its program was."""
    if columns.time is None or "mark" not in table.headings:
        return None
    stamps = table.values[:, _index(path, table, columns.time)] * SECONDS[columns.time_unit]
    values, rows = table.values[:, table.headings.index("mark")], np.array(table.rows, dtype=np.int64)
    if not np.isfinite(values).all():
        return None
    return Recording(str(path), "csv", (Channel("mark", values, Clock(stamps, rows), "marker"),))


def _files(columns: ColumnMap) -> list[str]:
    names = list(dict.fromkeys(entry.file or "" for entry in columns.signals))
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise InvalidLog(name, "leaves the folder of the log; keep all of its files together")
    return sorted(names)


def _file(path: Path, name: str) -> Path:
    if not name:
        return path
    other = path.parent / name
    if not other.resolve().is_relative_to(path.parent.resolve()):
        raise InvalidLog(path, f"{name} leads out of the folder of the log; keep all of its files together")
    return other


def _signal(path: Path, table: Table, entry: Columns) -> FloatArray:
    units = UNITS[entry.kind]
    if entry.unit is None or entry.unit not in units:
        raise InvalidLog(path, f"{entry.kind} in {entry.unit!r} is not known; expected one of {', '.join(units)}")
    indices = [_index(path, table, column) for column in entry.columns]
    if len(set(indices)) < len(indices):
        raise InvalidLog(path, f"the column map names a column of {entry.kind} twice: {entry.columns}")
    for k in indices:
        if table.headings and entry.kind in ("torque", "current") and MODELLED.search(table.headings[k]):
            told = f"column {table.headings[k]!r} sounds like a model's {entry.kind}, not a measured one"
            raise InvalidLog(path, f"{told}; rename it if it is measured")
    matrix = scale_matrix(path, entry, len(indices))
    return np.asarray(table.values[:, indices] * units[entry.unit] @ matrix.T)


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
    told = f"scale of {entry.kind} is {entry.scale}, expected a number other than 0 for each column"
    raise InvalidLog(path, f"{told}, or a matrix that can be inverted")


def _index(path: Path, table: Table, column: str | int) -> int:
    if isinstance(column, int):
        if not 1 <= column <= table.values.shape[1]:
            raise InvalidLog(path, f"has {table.values.shape[1]} columns; the column map asks for number {column}")
        return column - 1
    if column not in table.headings:
        known = ", ".join(table.headings[:12]) or "none: it has no headings"
        raise InvalidLog(path, f"has no column {column!r}; its columns are {known}")
    return table.headings.index(column)


def read_table(path: Path, header: bool = True) -> Table:
    """Read a table of numbers, separated by commas, semicolons, tabs or blanks; a decimal comma is understood."""
    filled = [(number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
    if not filled:
        raise InvalidLog(path, "is empty")
    body = filled[header:]
    if not body:
        raise InvalidLog(path, "has headings but no samples")
    dialect = find_dialect([line for _, line in body[:50]])
    headings = tuple(cell.strip().strip('"') for cell in dialect.split(filled[0][1])) if header else ()
    if header and all(is_number(cell, dialect) for cell in headings):
        raise InvalidLog(path, "has numbers where headings were expected; say header = false in the column map", 1)
    width = len(headings) or len(dialect.split(body[0][1]))
    notes = ["read with a decimal comma"] if dialect.decimal_comma else []
    if len(body) > 1 and len(dialect.split(body[-1][1])) < width:
        notes.append(f"row {body[-1][0]} is cut short; it is left out")
        body = body[:-1]
    values = np.array([_numbers(path, number, line, width, dialect) for number, line in body])
    return Table(headings, values, tuple(number for number, _ in body), tuple(notes))


def _numbers(path: Path, row: int, line: str, width: int, dialect: Dialect) -> list[float]:
    cells = dialect.split(line)
    if len(cells) != width:
        raise InvalidLog(path, f"has {len(cells)} entries, expected {width}", row)
    out = []
    for column, cell in enumerate(cells, start=1):
        try:
            value = dialect.number(cell)
        except ValueError:
            what = f"is {cell.strip()[:40]!r}" if cell.strip() else "is empty"
            raise InvalidLog(path, f"column {column} {what}, expected a number", row) from None
        if not abs(value) < LARGEST_VALUE:
            raise InvalidLog(path, f"column {column} is {cell.strip()[:40]}, which no robot measures", row)
        out.append(value)
    return out
