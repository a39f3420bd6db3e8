"""TwinCAT Scope exports: tabs, blocks of headings, a column of time before the channels that share it."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.identify.log import Channel, Clock, Quantity, Recording
from excitor.identify.logs.opened import Head, LogFormat, read_lines
from excitor.identify.logs.table import Dialect, example_table, numbers
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.errors import InvalidLog

_UNITS = {
    "deg": "deg", "°": "deg", "rad": "rad", "mm": "mm", "m": "m", "deg/s": "deg/s", "°/s": "deg/s", "rad/s": "rad/s",
    "mm/s": "mm/s", "m/s": "m/s", "rpm": "rpm", "a": "A", "ma": "mA", "nm": "N m", "n m": "N m", "n": "N",
}  # fmt: skip
_SCALES = (("Offset", "0"), ("ScaleFactor", "1"), ("Unit ScaleFactor", "1"), ("Unit Offset", "0"))
_MOST = 5000  # columns


@dataclass(frozen=True)
class _Column:
    name: str
    unit: str | None  # none where a scale stands in the headings: whether it is in the numbers, they do not say
    scaled: str


def fits(head: Head) -> int:
    """2 where headings form blocks, each beginning with its own title."""
    lines = head.lines[:40]
    return 2 if any(line.startswith("Name\t") for line in lines[:1]) and _block(lines) is not None else 0


def read(path: Path) -> Recording:
    """Read all channels, each on its own time base, in s."""
    lines = read_lines(path)
    block = _block(lines[:200])
    if block is None:
        raise InvalidLog(path, "has no block of headings (Name, then SampleTime[ms] or Unit), as a Scope export has")
    start, end = block
    columns = _columns(path, lines[start:end])
    body = [(number, line) for number, line in enumerate(lines[end:], start=end + 1) if line.strip()]
    notes = []
    if body and body[-1][1].strip() == "EOF":
        body.pop()
    if not body:
        raise InvalidLog(path, "has headings but no samples")
    width = len(columns)
    longest = max(line.count("\t") + 1 for _, line in body)
    if longest > width:
        row = next(number for number, line in body if line.count("\t") + 1 == longest)
        raise InvalidLog(path, f"has {longest} entries, expected {width}", row)
    table, rows, comma = _table(path, body, width)
    if comma:
        notes.append("read with a decimal comma")
    channels, found = _channels(path, columns, table, rows)
    return Recording(str(path), "twincat_scope", tuple(channels), (*notes, *found))


def _block(lines: list[str]) -> tuple[int, int] | None:
    """Find the rows of headings of the channels: they have titles in every column group, and a blank row after."""
    for start, line in enumerate(lines):
        if not line.startswith("Name\t"):
            continue
        end = start
        titles = []
        while end < len(lines) and lines[end].strip() and not re.match(r"\s*-?\d", lines[end]):
            titles.append(lines[end].split("\t")[0].strip())
            end += 1
        if {"SampleTime[ms]", "Unit", "Data-Type"} & set(titles):
            return start, end
    return None


def _columns(path: Path, lines: list[str]) -> list[_Column | None]:
    """Read the headings of each column; None where a column is a time base: it repeats the titles of the rows."""
    cells = {line.split("\t")[0].strip(): [cell.strip() for cell in line.split("\t")] for line in lines}
    width = len(cells["Name"])
    if width > _MOST:
        raise InvalidLog(path, f"has {width} columns, more than the {_MOST} that are read; export fewer channels")

    def cell(title: str, k: int) -> str:
        row = cells.get(title, [])
        return row[k] if k < len(row) else ""

    def is_time(k: int) -> bool:
        titles = [title for title in cells if k < len(cells[title])]
        return all(cell(title, k) == title for title in titles)

    columns: list[_Column | None] = []
    for k in range(width):
        unit = cell("Unit", k).split(" (")[0].strip("()")
        known = None if unit in ("", "None") else _UNITS.get(unit.lower(), unit)
        scaled = ", ".join(f"{title} {cell(title, k)}" for title, plain in _SCALES if cell(title, k) not in ("", plain))
        columns.append(None if is_time(k) else _Column(cell("Name", k), None if scaled else known, scaled))
    if columns[0] is not None:
        raise InvalidLog(path, "has no column of time before its channels; export it with time stamps")
    return columns


def _table(path: Path, body: list[tuple[int, str]], width: int) -> tuple[FloatArray, IntArray, bool]:
    """Read the cells; channels of lower rates end earlier, and leave blanks or shorter rows."""
    lines = [line.rstrip("\r\n") + "\t" * (width - 1 - line.count("\t")) for _, line in body]
    rows = np.array([number for number, _ in body], dtype=np.int64)
    comma = any("," in line for line in lines)
    table, _ = numbers(path, lines, rows, width, _Tabs("\t", comma, missing=True), left=frozenset())
    return table, rows, comma


class _Tabs(Dialect):
    """Every tab starts a cell, the last one too."""

    def split(self, line: str) -> list[str]:
        return line.split("\t")


def _channels(
    path: Path, columns: list[_Column | None], table: FloatArray, rows: IntArray
) -> tuple[list[Channel], list[str]]:
    channels: list[Channel] = []
    notes: list[str] = []
    time = table[:, 0]
    for k, column in enumerate(columns):
        if column is None:
            time = 1e-3 * table[:, k]
            continue
        there = ~np.isnan(time) & ~np.isnan(table[:, k])
        halves = np.flatnonzero(np.isnan(time) != np.isnan(table[:, k]))
        if halves.size and (halves.size > 1 or halves[0] != len(table) - 1):
            raise InvalidLog(path, f"{column.name} has a time without a value, or the other way", int(rows[halves[0]]))
        if halves.size:
            notes.append(f"row {rows[halves[0]]} is cut short; {column.name} ends before it")
        if not there.any():
            notes.append(f"{column.name} is empty")
            continue
        kind: Quantity | None = (
            "marker" if re.fullmatch(r"(.*\.)?nMark", column.name) else None
        )  # as our own programs call it
        if column.scaled:
            sentence = f"{column.name} has {column.scaled} in its headings; whether its numbers do, they do not say"
            notes.append(sentence)
        channels.append(Channel(column.name, table[there, k], Clock(time[there], rows[there]), kind, unit=column.unit))
    return channels, notes


_EXAMPLE = "Name\tscope\n\nName\ta\tb\nSampleTime[ms]\t1\t1\nUnit\tdeg\tNm\n"
FORMAT = LogFormat("twincat_scope", fits, read, example_table(_EXAMPLE, 1.0))
