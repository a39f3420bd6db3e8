"""RTDE recordings of Universal Robots: CSV with headings or in one of two known layouts without, commas or blanks."""

from itertools import pairwise
from pathlib import Path

from excitor.identify.log import Recording
from excitor.identify.logs.opened import Head, LogFormat
from excitor.identify.logs.table import (
    ANY_NUMBER,
    TextTable,
    example_table,
    find_dialect,
    headings_of,
    is_number,
    layout_named,
    read_text_table,
    recording_of,
)
from excitor.robots.errors import InvalidLog

_NAMES = ("actual_q", "actual_qd", "actual_current", "target_current", "target_moment")
LAYOUT = layout_named("ur")
# Without headings: time, then six columns each. Older recorders stop after the currents.
_LAYOUTS = {1 + 6 * n: ("timestamp", *(f"{name}_{k}" for name in _NAMES[:n] for k in range(6))) for n in (3, 5)}


def fits(head: Head) -> int:
    """2 where the headings are RTDE's, 1 where a table without headings has as many columns as a known layout."""
    lines = head.lines
    if not lines:
        return 0
    dialect = find_dialect(lines[1:50] or lines)
    headings = headings_of(lines[0], dialect)
    if LAYOUT.fits(headings):
        return 2
    cells = [dialect.split(line) for line in lines[:5]]
    if len(headings) not in _LAYOUTS or not all(is_number(cell, dialect) for row in cells for cell in row):
        return 0
    stamps = [dialect.number(row[0]) for row in cells]
    return int(all(0.0 < later - earlier < 1.0 for earlier, later in pairwise(stamps)))


def read(path: Path) -> Recording:
    """Read a recording."""
    table = read_text_table(path)
    if all(is_number(name, ANY_NUMBER) for name in table.headings):
        table = read_text_table(path, header=False)
        width = table.values.shape[1]
        if width not in _LAYOUTS:
            known = " or ".join(map(str, _LAYOUTS))
            raise InvalidLog(path, f"has {width} columns without headings, expected {known}; give it headings")
        notes = (f"without headings, {width} columns are taken as {', '.join(_NAMES[: (width - 1) // 6])}",)
        table = TextTable(path, _LAYOUTS[width], table.values, table.rows, table.words, table.notes + notes)
    return recording_of(table, FORMAT.name, LAYOUT)


_EXAMPLE = "timestamp,actual_q_0,actual_q_1,actual_current_0,actual_current_1"
FORMAT = LogFormat("ur_rtde", fits, read, example_table(_EXAMPLE, 0.008), table=True, grows=True)
