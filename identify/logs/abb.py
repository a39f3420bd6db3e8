"""ABB recordings: what our EGM client writes, joints of a recorder, and plain text lines of test signals."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from excitor.identify.log import Recording
from excitor.identify.logs.opened import Head, LogFormat
from excitor.identify.logs.table import (
    TextTable,
    example_table,
    find_dialect,
    is_number,
    layout_named,
    layout_of,
    read_text_table,
    recording_of,
)

_LAYOUTS = (layout_named("abb client"), layout_named("abb recorder"))
_UNKNOWN = (
    "lines of time in ms and signals; which test signals they are, and on which side, the text does not say "
    "(4000 position deg, 4001 speed deg/s, 4002 torque N m)"
)


def fits(head: Head) -> int:
    """2 where the headings are a client's or a recorder's, 1 for bare lines of time in ms and signals."""
    lines = head.lines
    if not lines:
        return 0
    if layout_of(head, _LAYOUTS):
        return 2
    dialect = find_dialect(lines[:50])
    cells = dialect.split(lines[0])
    bare = 2 <= len(cells) <= 13 and all(is_number(cell, dialect) for cell in cells)
    if not bare or dialect.separator is not None or len(lines) < 3:
        return 0
    stamps = [line.split()[0] for line in lines[:20]]
    steps = np.diff([float(stamp) if is_number(stamp, dialect) else np.nan for stamp in stamps])
    return int(float(np.median(steps)) >= 0.5)  # ms: in seconds no robot is recorded so slowly


def read(path: Path) -> Recording:
    """Read a recording."""
    table = read_text_table(path, missing=True)
    for layout in _LAYOUTS:
        if layout.fits(table.headings):
            return recording_of(table, FORMAT.name, layout, missing=True)
    table = read_text_table(path, header=False)
    names = ("t_ms", *(f"signal_{k}" for k in range(1, table.values.shape[1])))
    table = TextTable(path, names, table.values, table.rows, table.words, table.notes)
    recording = recording_of(table, FORMAT.name, layout_named("abb signals"))
    return replace(recording, notes=(*recording.notes, _UNKNOWN))


_EXAMPLE = "time_s,mark,ref_A1_deg,ref_A2_deg,pos_A1_deg,pos_A2_deg,torque_1,torque_2"
FORMAT = LogFormat("abb_text", fits, read, example_table(_EXAMPLE, 0.004), table=True)
