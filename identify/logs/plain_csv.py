"""Tables of numbers with headings of somebody's own: channels by name, and no meaning before it is declared."""

from pathlib import Path

from excitor.identify.logs.opened import Head
from excitor.identify.logs.recording import Channel, Clock, Recording, check_measured, distinct
from excitor.identify.logs.text_table import ANY_NUMBER, find_dialect, is_number, read_text_table


def fits(head: Head) -> int:
    """1 where text is cut into cells."""
    lines = head.lines
    if len(lines) < 2:
        return 0
    dialect = find_dialect(lines[1:50])
    return int(any(is_number(cell, dialect) for cell in dialect.split(lines[1])))


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
            check_measured(path, name, table.values[:, k], table.rows)
            channels.append(Channel(name, table.values[:, k], clock))
    return Recording(str(path), "csv", distinct(path, channels), table.notes)
