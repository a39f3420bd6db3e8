"""Tables of numbers in text, read fast; a bad cell is told with its row."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.logs.opened import read_lines
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.errors import InvalidLog

_AT_ROW = re.compile(r"at row (\d+)")
_MISSING = frozenset({"", "nan", "-nan", "null", "none"})


@dataclass(frozen=True)
class Dialect:
    """How a file cuts its lines and writes its numbers."""

    separator: str | None  # None: blanks
    decimal_comma: bool

    def split(self, line: str) -> list[str]:
        """Cut a line into cells; a separator at its end starts none."""
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


def find_dialect(lines: list[str]) -> Dialect:
    """Find the separator that cuts all lines; beside another separator, a comma within a number is a decimal one."""
    for separator in (";", "\t"):
        if all(separator in line for line in lines):
            return Dialect(separator, any(re.search(r"\d,\d", line) for line in lines))
    if all("," in line for line in lines):
        return Dialect(",", False)
    return Dialect(None, False)


def is_number(cell: str, dialect: Dialect) -> bool:
    """Whether a cell is a number."""
    try:
        dialect.number(cell)
    except ValueError:
        return False
    return True


def headings_of(line: str, dialect: Dialect) -> tuple[str, ...]:
    """Cut a line of headings."""
    return tuple(cell.strip().strip('"') for cell in dialect.split(line))


def read_text_table(path: Path, *, header: bool = True, missing: bool = False) -> TextTable:
    """Read a table; `missing`: a cell may be empty, where the format says that it can be."""
    filled = [(number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
    if not filled:
        raise InvalidLog(path, "is empty")
    body = filled[header:]
    if not body:
        raise InvalidLog(path, "has headings but no samples")
    lines = [line for _, line in body]
    dialect = find_dialect(lines[:50])
    headings = headings_of(filled[0][1], dialect) if header else ()
    width = len(headings) or len(dialect.split(lines[0]))
    notes = ["read with a decimal comma"] if dialect.decimal_comma else []
    if len(lines) > 1 and len(dialect.split(lines[-1])) < width:
        notes.append(f"row {body[-1][0]} is cut short; it is left out")
        lines.pop()
    rows = np.array([number for number, _ in body[: len(lines)]], dtype=np.int64)
    values, words = numbers(path, lines, rows, width, dialect, missing=missing)
    return TextTable(path, headings, values, rows, words, tuple(notes))


def numbers(
    path: Path, lines: list[str], rows: IntArray, width: int, dialect: Dialect, *, missing: bool = False
) -> tuple[FloatArray, frozenset[int]]:
    """Read lines of cells; columns that begin with a word are text, and hold no numbers."""
    for line, row in zip(lines, rows, strict=True):
        count = len(dialect.split(line))
        if count != width:
            raise InvalidLog(path, f"has {count} entries, expected {width}", int(row))
    first = dialect.split(lines[0])
    words = frozenset(k for k, cell in enumerate(first) if not _is_value(cell, dialect, missing))
    values = np.full((len(lines), width), np.nan)
    kept = [k for k in range(width) if k not in words]
    if kept:
        values[:, kept] = _parsed(path, lines, rows, kept, dialect, missing)
    return values, words


def _is_value(cell: str, dialect: Dialect, missing: bool) -> bool:
    return is_number(cell, dialect) or (missing and cell.strip().lower() in _MISSING)


def _parsed(
    path: Path, lines: list[str], rows: IntArray, kept: list[int], dialect: Dialect, missing: bool
) -> FloatArray:
    clean = [line.replace(",", ".") for line in lines] if dialect.decimal_comma else lines
    if missing and dialect.separator is not None:
        gap = re.compile(rf"(?:^|(?<={re.escape(dialect.separator)}))[ ]*(?={re.escape(dialect.separator)}|$)")
        clean = [gap.sub("nan", line) for line in clean]
    try:
        return np.loadtxt(clean, delimiter=dialect.separator, ndmin=2, usecols=kept, comments=None)
    except ValueError as error:
        raise _bad_cell(path, lines, rows, kept, dialect, missing, str(error)) from None


def _bad_cell(
    path: Path,
    lines: list[str],
    rows: IntArray,
    kept: list[int],
    dialect: Dialect,
    missing: bool,
    told: str,
) -> InvalidLog:
    """Find the cell that is no number, near the row that the parser names."""
    found = _AT_ROW.search(told)
    near = range(max(int(found[1]) - 2, 0), min(int(found[1]) + 2, len(lines))) if found else range(0)
    for k in [*near, *range(min(len(lines), 10_000))]:
        cells = dialect.split(lines[k])
        for column in kept:
            if not _is_value(cells[column], dialect, missing):
                what = f"is {cells[column].strip()[:40]!r}" if cells[column].strip() else "is empty"
                return InvalidLog(path, f"column {column + 1} {what}, expected a number", int(rows[k]))
    return InvalidLog(path, f"is no table of numbers: {told[:120]}")
