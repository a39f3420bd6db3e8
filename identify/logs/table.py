"""Tables of numbers in text, read fast; a bad cell is reported with its row.

CSV files are read with a column map of quantities, sides and units; only the dialect is guessed. Formats with known
headings have rules by heading. Tables with other headings give channels by name, without meaning until it is declared.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from excitor.identify.log import (
    Channel,
    ChannelSide,
    Clock,
    Log,
    Quantity,
    Recording,
    Role,
    Signal,
    Span,
    bridge_spikes,
    check_measured,
    check_stamps,
    common_grid,
    gaps_of,
    on_grid,
    unwrap_turns,
)
from excitor.identify.logs.declared import SECONDS, UNITS, ColumnMap, Columns, scale_matrix, unit_factor
from excitor.identify.logs.opened import Head, LogFormat, read_lines
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.errors import InvalidLog, did_you_mean

_AT_ROW = re.compile(r"at row (\d+)")
_MISSING = frozenset({"", "nan", "-nan", "null", "none"})
LARGEST_VALUE = 1e12  # in any unit anybody writes
_POINTS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")  # thousands by points, decimals by a comma
_COMMAS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # and the other way round
_DATE = re.compile(
    r"(?:(\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.\d{4})[T ])?(\d{1,2}):(\d\d):(\d\d(?:[.,]\d+)?)(?:Z|[-+]\d\d:?\d\d)?"
)
_TOP, _ALIKE = 200, 5  # lines that may stand above a table's rows, and rows that are alike where it begins
_SIGNS = {"°": "deg", "grad": "deg", "°/s": "deg/s", "%": "%", "1/min": "rpm", "u/min": "rpm"}  # of units
MODELLED = re.compile(r"target|model|desired|command|setpoint|reference", re.IGNORECASE)
FASTEST, SLOWEST = 2e-5, 2.0  # s between samples
_LAYOUTS = tomllib.loads((resources.files("excitor.identify.logs") / "layouts.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Dialect:
    """Separator of a file's cells, its decimal mark, and whether a cell may be empty."""

    separator: str | None  # None: blanks
    decimal_comma: bool
    missing: bool = False

    def split(self, line: str) -> list[str]:
        """Split a line into cells; a separator at its end starts none."""
        if self.separator is None:
            return line.split()
        cells = line.split(self.separator)
        return cells[:-1] if len(cells) > 1 and not cells[-1].strip() and self.separator != "," else cells

    def number(self, cell: str) -> float:
        """Read a number."""
        return float(cell.strip().replace(",", ".") if self.decimal_comma else cell.strip())


ANY_NUMBER = Dialect(";", True)  # reads a decimal comma and a decimal point


@dataclass(frozen=True)
class TextTable:
    """A file's numbers, its headings, and the row of the file that each came from."""

    path: Path
    headings: tuple[str, ...]
    values: FloatArray  # (n_rows, n_columns); no number where a cell is missing, or text
    rows: IntArray
    words: frozenset[int] = frozenset()  # columns of text
    notes: tuple[str, ...] = ()
    units: tuple[str, ...] = ()  # of a line of units below the headings


def find_dialect(lines: list[str]) -> Dialect:
    """Find the separator that splits all lines; beside another separator, a comma within a number is a decimal one."""
    for separator in (";", "\t"):
        if all(separator in line for line in lines):
            return Dialect(separator, any(re.search(r"\d,\d", line) for line in lines))
    return Dialect(",", False) if all("," in line for line in lines) else Dialect(None, False)


def table_top(lines: list[str]) -> tuple[int, int]:
    """Find the line of a table's headings, and its first row, among its first lines that are not blank.

    They are the first two, unless those do not fit together and later lines do: a block of other text stands above, or
    a line of units between.
    """
    for first in range(1, min(len(lines) - 1, _TOP)):
        rows = lines[first : first + _ALIKE]
        dialect = find_dialect(rows)
        cells = [dialect.split(line) for line in rows]
        width = len(cells[0])
        alike = width > 1 and all(len(row) == width for row in cells)
        if not alike or not all(2 * _count_numbers(row, dialect) > width for row in cells):
            continue
        above = [dialect.split(line) for line in lines[:first]]
        if any(len(row) > 1 and _count_numbers(row, dialect) == len(row) for row in above[:-1]):
            break  # rows of numbers, with a damaged one among them
        head = first - 1
        if head and len(above[head - 1]) == width and _are_units(above[head]):
            head -= 1
        return (head, first) if len(above[head]) == width else (0, 1)
    return 0, 1


def _count_numbers(cells: Sequence[str], dialect: Dialect) -> int:
    return sum(is_number(cell, dialect) for cell in cells)


def _are_units(cells: Sequence[str]) -> bool:
    """Return True for a line of units, of which some may be empty."""
    units = [_unit(cell) for cell in cells]
    return any(units) and all(unit in _ALL_UNITS for unit in units)


def _unit(cell: str) -> str:
    """Spell a unit as declarations do."""
    plain = cell.strip().strip('"').strip("[]()").strip()
    return _SIGNS.get(plain.lower(), plain)


MEASURED = {"%", *(unit for units in UNITS.values() for unit in units)}
_ALL_UNITS = {"", "-", "1", *SECONDS, *MEASURED}


def is_number(cell: str, dialect: Dialect) -> bool:
    """Return True if a cell is a number."""
    try:
        dialect.number(cell)
    except ValueError:
        return False
    return True


def headings_of(line: str, dialect: Dialect) -> tuple[str, ...]:
    """Split a line of headings."""
    return tuple(cell.strip().strip('"') for cell in dialect.split(line))


def read_text_table(
    path: Path,
    *,
    header: bool = True,
    missing: bool = False,
    text: bool = True,
    wanted: Sequence[str | int] | None = None,
) -> TextTable:
    """Read a table; `missing`: a cell may be empty, as the format says; `text`: columns of text are left out.

    `wanted`: the columns to read, by heading or by number from 1; what the others hold is not judged.
    """
    filled = [(number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
    if not filled:
        raise InvalidLog(path, "is empty")
    head, first = table_top([line for _, line in filled[: _TOP + _ALIKE]]) if header else (0, 0)
    body = filled[first:]
    if not body:
        raise InvalidLog(path, "has headings but no samples")
    lines = [line for _, line in body]
    dialect = replace(find_dialect(lines[:50]), missing=missing)
    headings = headings_of(filled[head][1], dialect) if header else ()
    units = tuple(_unit(cell) for cell in dialect.split(filled[head + 1][1])) if first - head == 2 else ()
    width = len(headings) or len(dialect.split(lines[0]))
    notes = [f"{head} lines above the headings are left out"] if head else []
    if len(lines) > 1 and len(dialect.split(lines[-1])) < width:
        notes.append(f"row {body[-1][0]} is cut short; it is left out")
        lines.pop()
    dated = [k for k, cell in enumerate(dialect.split(lines[0])) if _DATE.fullmatch(cell.strip().strip('"'))]
    if dated:
        notes.append(f"column {dated[0] + 1} holds times of day, read in s")
        lines = [_in_seconds(line, dialect, dated) for line in lines]
    rows = np.array([number for number, _ in body[: len(lines)]], dtype=np.int64)
    left = None if text else frozenset[int]()
    if wanted is not None:
        names = headings or ("",) * width
        left = frozenset(k for k in range(width) if k + 1 not in wanted and names[k] not in wanted)
    columns = [k for k in range(width) if k not in (left or ())]
    lines, dialect, marks = _plain_marks(path, lines, rows, columns, dialect)
    notes += marks
    values, words = numbers(path, lines, rows, width, dialect, left)
    return TextTable(path, headings, values, rows, words, tuple(notes), units)


def _in_seconds(line: str, dialect: Dialect, columns: Sequence[int]) -> str:
    """Write the dates and times of some columns in s, from 1970 on where they have a day."""
    cells = dialect.split(line)
    for k in columns:
        found = _DATE.fullmatch(cells[k].strip().strip('"')) if k < len(cells) else None
        if found is not None:
            day, hours, minutes, seconds = found.groups()
            parts = [int(part) for part in re.findall(r"\d+", day)] if day else [1, 1, 1970]
            year, month, date = parts if day and "-" in day else parts[::-1]
            midnight = np.datetime64(f"{year:04}-{month:02}-{date:02}", "s").astype(float) if day else 0.0
            whole = midnight + 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds.replace(",", "."))
            cells[k] = f"{whole:.6f}".replace(".", "," if dialect.decimal_comma else ".")
    return (dialect.separator or " ").join(cells)


def _plain_marks(
    path: Path, lines: list[str], rows: IntArray, columns: Sequence[int], dialect: Dialect
) -> tuple[list[str], Dialect, list[str]]:
    """Take marks of thousands out of numbers, and find their decimal mark; refuse where a mark may be either."""
    if dialect.separator in (",", None) or not columns:
        return lines, dialect, []
    text = "\n".join(lines)
    comma, point = "," in text and re.search(r"\d,\d", text), "." in text and re.search(r"\d\.\d", text)
    if not comma or not point:
        return lines, replace(dialect, decimal_comma=bool(comma)), ["read with a decimal comma"] if comma else []
    cells = [(row, split[k].strip()) for line, row in zip(lines, rows, strict=True)
             if len(split := dialect.split(line)) > columns[-1] for k in columns]  # fmt: skip
    commas, points = ([one for one in cells if mark in one[1]] for mark in (",", "."))
    whole = [all(form.fullmatch(cell) for _, cell in own) for form, own in ((_POINTS, points), (_COMMAS, commas))]
    if points and whole[0] and not whole[1]:
        notes = ["read with points between thousands and a decimal comma"]
        return [line.replace(".", "") for line in lines], replace(dialect, decimal_comma=True), notes
    if commas and whole[1] and not whole[0]:
        notes = ["read with commas between thousands"]
        return [line.replace(",", "") for line in lines], replace(dialect, decimal_comma=False), notes
    if points and commas:
        either = [(row, cell) for row, cell in cells if _POINTS.fullmatch(cell) or _COMMAS.fullmatch(cell)]
        if either:
            sentence = (
                f"{either[0][1]!r} may be thousands or a decimal fraction; write numbers without marks of thousands"
            )
            raise InvalidLog(path, sentence, int(either[0][0]))
    return lines, replace(dialect, decimal_comma=bool(commas)), ["read with a decimal comma"] if commas else []


def numbers(
    path: Path, lines: list[str], rows: IntArray, width: int, dialect: Dialect, left: frozenset[int] | None
) -> tuple[FloatArray, frozenset[int]]:
    """Read lines of cells but for the columns that are `left`; if None, but for those that begin with a word."""
    for line, row in zip(lines, rows, strict=True):
        count = len(dialect.split(line))
        if count != width:
            raise InvalidLog(path, f"has {count} entries, expected {width}", int(row))
    if left is None:
        left = frozenset(k for k, cell in enumerate(dialect.split(lines[0])) if not _is_value(cell, dialect))
    values = np.full((len(lines), width), np.nan)
    kept = [k for k in range(width) if k not in left]
    if kept:
        values[:, kept] = _parsed(path, lines, rows, kept, dialect)
    return values, left


def _is_value(cell: str, dialect: Dialect) -> bool:
    return is_number(cell, dialect) or (dialect.missing and cell.strip().lower() in _MISSING)


def _parsed(path: Path, lines: list[str], rows: IntArray, kept: list[int], dialect: Dialect) -> FloatArray:
    clean = [line.replace(",", ".") for line in lines] if dialect.decimal_comma else lines
    if dialect.missing and dialect.separator is not None:
        gap = re.compile(rf"(?:^|(?<={re.escape(dialect.separator)}))[ ]*(?={re.escape(dialect.separator)}|$)")
        clean = [gap.sub("nan", line) for line in clean]
    try:
        return np.loadtxt(clean, delimiter=dialect.separator, ndmin=2, usecols=kept, comments=None)
    except ValueError as error:
        table = {int(rows[k]): dialect.split(lines[k]) for k in _suspects(str(error), len(lines))}
        sentence = f"is no table of numbers: {str(error)[:120]}"
        raise _bad_cell(path, table, kept, dialect) or InvalidLog(path, sentence) from None


def _suspects(message: str, n_lines: int) -> list[int]:
    """Lines to search for a bad cell: first those near the row that the parser names."""
    found = _AT_ROW.search(message)
    near = range(max(int(found[1]) - 2, 0), min(int(found[1]) + 2, n_lines)) if found else range(0)
    return [*near, *range(min(n_lines, 10_000))]


def _bad_cell(path: Path, table: Mapping[int, Sequence[str]], kept: list[int], dialect: Dialect) -> InvalidLog | None:
    """Find the first cell that is no number; the keys of the table are rows of the file."""
    for row, cells in table.items():
        for column in kept:
            if not _is_value(cells[column], dialect):
                what = f"is {cells[column].strip()[:40]!r}" if cells[column].strip() else "is empty"
                return InvalidLog(path, f"column {column + 1} {what}, expected a number", row)
    return None


def read_csv(path: Path, columns: ColumnMap, span: Span | None = None) -> Log:
    """Read a log; faults are raised with their row, repairs are listed in the log's notes."""
    if columns.time is None and columns.sample_rate_hz is None:
        raise InvalidLog(path, "the column map needs either time or sample_rate_hz")
    if not columns.signals:
        raise InvalidLog(path, "is read by a column map, which declares no signals; add [[log.signals]]")
    tables = {
        name: read_table(_file(path, name), columns.header, _wanted(columns, name), columns.time)
        for name in _files(columns)
    }
    main = next(iter(tables.values()))
    notes = [note for table in tables.values() for note in table.notes]
    clock, name = Clock(np.arange(len(main.rows)) / (columns.sample_rate_hz or 1.0), main.rows), "time"
    if columns.time is not None:
        at, name = _index(path, main, columns.time), f"{columns.time}"
        check_measured(path, f"time {name!r}", main.values[:, at], main.rows)
        clock = Clock(main.values[:, at] * SECONDS[columns.time_unit], main.rows)
    places = [entry for entry in columns.signals if entry.kind == "position" and not entry.file]
    moving = [_index(path, main, column) for entry in places for column in entry.columns]
    stamps, mended = check_stamps(str(path), name, clock, span, main.values[:, moving] if moving else None)
    grid = common_grid(str(path), [stamps], columns.sample_rate_hz if columns.time is not None else None)
    signals = []
    for entry in columns.signals:
        table = tables[entry.file or ""]
        if len(table.values) != len(main.values):
            sentence = f"{entry.file} has {len(table.values)} rows, expected {len(main.values)}: sample both together"
            raise InvalidLog(path, sentence)
        if entry.side is None or entry.unit is None:
            raise InvalidLog(path, f"a table of numbers does not define side and unit of {entry.kind}; declare both")
        values, spikes = _signal(path, table, entry)
        signals.append(Signal(entry.kind, entry.side, on_grid(stamps, values, grid)))
        notes += spikes
    rate = grid.rate if columns.time is not None or columns.sample_rate_hz is None else columns.sample_rate_hz
    notes += [*mended, *grid.notes]
    raw = _marked(path, columns, main)
    return Log(str(path), rate, float(grid.t[0]), tuple(signals), tuple(notes), raw, gaps_of([stamps]), stamps.skipped)


def _wanted(columns: ColumnMap, file: str) -> Sequence[str | int]:
    """List the columns of a file that are declared; others are not judged."""
    named = [column for entry in columns.signals if (entry.file or "") == file for column in entry.columns]
    return [*named, *([] if columns.time is None else [columns.time]), "mark"]


def _marked(path: Path, columns: ColumnMap, table: TextTable) -> Recording | None:
    """Keep a column called `mark`, the program's position."""
    if columns.time is None or "mark" not in table.headings:
        return None
    stamps = table.values[:, _index(path, table, columns.time)] * SECONDS[columns.time_unit]
    mark = Channel("mark", table.values[:, table.headings.index("mark")], Clock(stamps, table.rows), "marker")
    return Recording(str(path), "csv", (mark,))


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


def _signal(path: Path, table: TextTable, entry: Columns) -> tuple[FloatArray, list[str]]:
    factor = unit_factor(path, entry.kind, entry.unit)
    indices = [_index(path, table, column) for column in entry.columns]
    if len(set(indices)) < len(indices):
        raise InvalidLog(path, f"the column map names a column of {entry.kind} twice: {entry.columns}")
    for k in indices:
        if table.headings and entry.kind in ("torque", "current") and MODELLED.search(table.headings[k]):
            sentence = f"column {table.headings[k]!r} sounds like a model's {entry.kind}, not a measured one"
            raise InvalidLog(path, f"{sentence}; rename it if it is measured")
    matrix, notes, found = scale_matrix(path, entry, len(indices)), [], table.values[:, indices]
    for j, k in enumerate(indices):
        name = table.headings[k] if table.headings else f"column {k + 1} of {entry.kind}"
        found[:, j], spikes = bridge_spikes(name, found[:, j], table.rows)
        notes += [spikes] if spikes else []
        if entry.kind == "position":
            found[:, j], turns = unwrap_turns(name, found[:, j], table.rows)
            notes += [turns] if turns else []
    return np.asarray(found * factor @ matrix.T), notes


def _index(path: Path, table: TextTable, column: str | int) -> int:
    if isinstance(column, int):
        if not 1 <= column <= table.values.shape[1]:
            raise InvalidLog(path, f"has {table.values.shape[1]} columns; the column map asks for number {column}")
        return column - 1
    if column not in table.headings:
        known = ", ".join(table.headings[:12]) or "none: it has no headings"
        near = did_you_mean(column, table.headings)
        raise InvalidLog(path, f"has no column {column!r}; its columns are {known}{near}")
    return table.headings.index(column)


def read_table(
    path: Path, header: bool = True, wanted: Sequence[str | int] | None = None, time: str | int | None = None
) -> TextTable:
    """Read a table that holds numbers alone, each one that a robot may measure; `wanted`: the columns that are read.

    Those of `time` may count µs or ns from 1970 on.
    """
    table = read_text_table(path, header=header, text=False, wanted=wanted)
    if header and all(is_number(name, ANY_NUMBER) for name in table.headings):
        raise InvalidLog(path, "has numbers where headings were expected; say header = false in the column map", 1)
    stamps = {time, table.headings.index(time) + 1 if time in table.headings else time}
    read = [k for k in range(table.values.shape[1]) if k not in table.words and k + 1 not in stamps]
    bad = np.argwhere(~(np.abs(table.values[:, read]) < LARGEST_VALUE))
    if len(bad):
        row, column = int(bad[0][0]), read[int(bad[0][1])]
        sentence = f"column {column + 1} is {table.values[row, column]:g}, which no robot measures; leave the row out"
        raise InvalidLog(path, sentence, int(table.rows[row]))
    return table


@dataclass(frozen=True)
class Rule:
    """Heading pattern of one quantity, joint as `(?P<joint>...)`, with the format's kind, unit, role and side."""

    pattern: str
    kind: Quantity | None = None
    unit: str | None = None
    role: Role = "unknown"
    side: ChannelSide = "unknown"


@dataclass(frozen=True)
class Layout:
    """A known table: patterns of its headings of time and of others that it surely has, and rules of its columns."""

    time: str
    needed: tuple[str, ...]
    rules: tuple[Rule, ...]
    unit: str | None = "s"  # of its time; None: s or ms, whichever its steps allow
    alone: bool = False  # it has no headings but these

    def fits(self, headings: Sequence[str]) -> bool:
        """Return True if every pattern has its heading."""
        patterns = (self.time, *self.needed)
        found = all(any(re.fullmatch(pattern, name) for name in headings) for pattern in patterns)
        others = [name for name in headings if not any(re.fullmatch(pattern, name) for pattern in patterns)]
        return found and not (self.alone and others)


def layout_named(name: str) -> Layout:
    """Take a layout of layouts.toml."""
    entry = _LAYOUTS[name]
    rows: list[Any] = [[word or None for word in row] for row in entry["rules"]]
    rules, unit = tuple(Rule(*row) for row in rows), entry.get("unit", "s") or None
    return Layout(entry.get("time", ""), tuple(entry.get("needed", ())), rules, unit, entry.get("alone", False))


def layout_of(head: Head, layouts: Sequence[Layout]) -> Layout | None:
    """Find the layout whose headings the first line of a file holds."""
    if not head.lines:
        return None
    headings = headings_of(head.lines[0], find_dialect(head.lines[:1]))
    return next((layout for layout in layouts if layout.fits(headings)), None)


def known_tables(
    name: str,
    names: Sequence[str],
    example: Callable[[Path], object],
    *,
    missing: bool = False,
    grows: bool = False,
    note: str = "",
) -> LogFormat:
    """Make the format of tables with headings in one of the layouts of these names; `missing`: cells may be empty."""
    layouts = [layout_named(one) for one in names]

    def fits(head: Head) -> int:
        return 2 if layout_of(head, layouts) else 0

    def read(path: Path) -> Recording:
        table = read_text_table(path, missing=missing)
        layout = next((layout for layout in layouts if layout.fits(table.headings)), None)
        if layout is None and len(layouts) > 1:
            raise InvalidLog(path, f"has none of the headings of {name}; it has {', '.join(table.headings[:12])}")
        found = recording_of(table, name, layout or layouts[0], missing=missing)
        return replace(found, notes=(*found.notes, note)) if note else found

    return LogFormat(name, fits, read, example, table=True, grows=grows)


def recording_of(table: TextTable, format: str, layout: Layout, *, missing: bool = False) -> Recording:
    """Build a recording by the layout's rules; columns without a rule keep their names alone.

    `missing`: a cell that is not a number counts as missing, where the format allows it; elsewhere it is refused.
    """
    at = next((k for k, name in enumerate(table.headings) if re.fullmatch(layout.time, name)), None)
    if at is None:
        raise InvalidLog(table.path, f"has no column of time, as {format} has")
    if at in table.words:
        raise _word(table, at)
    check_measured(table.path, f"time {table.headings[at]!r}", table.values[:, at], table.rows)
    clock = Clock(_seconds(table, format, layout, table.values[:, at]), table.rows)
    counts: dict[Rule, int] = {}
    channels: list[Channel] = []
    notes = list(table.notes)
    for k, name in enumerate(table.headings):
        if k == at:
            continue
        rule = next((rule for rule in layout.rules if re.fullmatch(rule.pattern, name)), Rule(".*"))
        if k in table.words:
            if rule.kind is not None:
                raise _word(table, k)
            continue
        joint, stem = None, ""
        if "(?P<joint>" in rule.pattern:
            stem = _stem(rule, name)
            joint = counts[rule] = counts.get(rule, -1) + 1
        values, own = _present(table.values[:, k], clock) if missing else (table.values[:, k], clock)
        if not len(own):
            notes.append(f"{name} is empty")
            continue
        if len(own) < len(clock):
            notes.append(f"{name} is missing in {len(clock) - len(own)} rows")
        channels.append(Channel(name, values, own, rule.kind, joint, rule.role, rule.side, rule.unit, stem))
    return Recording(str(table.path), format, tuple(channels), tuple(_joined(notes)))


def _seconds(table: TextTable, format: str, layout: Layout, stamps: FloatArray) -> FloatArray:
    """Refuse a time that must be in another unit than the format's: no controller samples so slowly or so fast."""
    step = float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0
    unit = layout.unit or ("ms" if step >= 0.5 else "s")
    if len(stamps) > 2 and not FASTEST <= step * SECONDS[unit] <= SLOWEST and step > 0.0:
        sentence = f"time goes in steps of {step:g}, which cannot be {unit} as {format} has it"
        raise InvalidLog(table.path, f'{sentence}; declare the columns and time_unit with format = "csv"')
    return stamps * SECONDS[unit]


def _stem(rule: Rule, name: str) -> str:
    """Name a group by what stands before the joint: `pos` of `pos_A1_deg`."""
    found = re.fullmatch(rule.pattern, name)
    return name[: found.start("joint")].rstrip("_[:") if found else ""


def _present(values: FloatArray, clock: Clock) -> tuple[FloatArray, Clock]:
    """Remove missing values; a channel keeps its own time base."""
    there = ~np.isnan(values)
    if there.all() or clock.t is None:
        return values, clock
    return values[there], Clock(clock.t[there], clock.rows[there])


def _joined(notes: list[str]) -> list[str]:
    """Join notes `is empty` of several columns into one."""
    empty = [note.removesuffix(" is empty") for note in notes if note.endswith(" is empty")]
    others = [note for note in notes if not note.endswith(" is empty")]
    return [*others, *([f"without values: {', '.join(empty)}"] if empty else [])]


def _word(table: TextTable, column: int) -> InvalidLog:
    name = table.headings[column] if table.headings else str(column + 1)
    return InvalidLog(table.path, f"column {name!r} is not a number here", int(table.rows[0]))


def fits(head: Head) -> int:
    """1 where text is split into cells."""
    lines = head.lines
    if len(lines) < 2:
        return 0
    first = lines[table_top(lines)[1]]
    dialect = find_dialect([first])
    return int(any(is_number(cell, dialect) for cell in dialect.split(first)))


def read(path: Path) -> Recording:
    """Read a table; columns without headings are named by their numbers, from 1."""
    table = read_text_table(path)
    if all(is_number(name, ANY_NUMBER) for name in table.headings):
        table = read_text_table(path, header=False)
    clock = Clock(None, table.rows)
    channels = []
    for k in range(table.values.shape[1]):
        name = table.headings[k] if table.headings else str(k + 1)
        if k not in table.words:
            unit = table.units[k] if table.units and table.units[k] in MEASURED else None
            channels.append(Channel(name, table.values[:, k], clock, unit=unit))
    return Recording(str(path), "csv", tuple(channels), table.notes)


def example_table(headings: str, step: float) -> Callable[[Path], object]:
    """Make an example of a format: lines of headings, then rows of time and small numbers, separated like headings."""
    separator = next(mark for mark in (";", "\t", ",") if mark in headings)
    width = headings.splitlines()[-1].count(separator)
    rows = [[step * k, *(0.01 * (k + 1) * (j + 1) for j in range(width))] for k in range(24)]
    lines = [headings, *(separator.join(f"{x:.6g}" for x in row) for row in rows)]
    return lambda path: path.write_text("\n".join(lines) + "\n", "utf-8")


FORMAT = LogFormat("csv", fits, read, example_table("t;a;b", 0.01), table=True, grows=True)
