"""Joint recordings of FANUC controllers: `timestamp,J1..` in ms and deg, and what our Stream Motion client writes."""

from dataclasses import replace
from pathlib import Path

from excitor.identify.log import Recording
from excitor.identify.logs.opened import Head, LogFormat
from excitor.identify.logs.table import (
    Layout,
    Rule,
    example_table,
    find_dialect,
    headings_fit,
    headings_of,
    read_text_table,
    recording_of,
)
from excitor.robots.errors import InvalidLog

RECORDER = Layout("fanuc_csv", "timestamp", 1e-3, (Rule(r"J(?P<joint>\d+)", "position", "deg", "measured", "joint"),))
CLIENT = Layout(
    "fanuc_csv",
    "time_stamp_ms",
    1e-3,
    (
        Rule(r"command_J(?P<joint>\d+)_deg", "position", "deg", "reference", "joint"),
        Rule(r"J(?P<joint>\d+)_deg", "position", "deg", "measured", "joint"),
        Rule(r"current_J(?P<joint>\d+)_A", "current", "A", "measured", "motor"),
        Rule("mark", "marker", "1"),
        Rule("safety_scale", "speed_scaling", "1"),
    ),
)
_COUPLED = (
    "a controller may count J3 from the horizontal, a recorder may add J2 to it: where the robot's joints do "
    "not, declare the positions with scale as a matrix"
)


def fits(head: Head) -> int:
    """2 where the headings are the recorder's or the client's."""
    return 2 if head.lines and _layout(_headings(head.lines[0])) else 0


def read(path: Path) -> Recording:
    """Read a recording."""
    table = read_text_table(path)
    layout = _layout(table.headings)
    if layout is None:
        told = ", ".join(table.headings[:12])
        raise InvalidLog(path, f"has the headings {told}, expected timestamp, J1, J2 and so on, or the client's")
    recording = recording_of(table, layout)
    return replace(recording, notes=(*recording.notes, _COUPLED))


def _headings(line: str) -> tuple[str, ...]:
    return headings_of(line, find_dialect([line]))


def _layout(headings: tuple[str, ...]) -> Layout | None:
    if headings_fit(headings, "time_stamp_ms", r"J\d+_deg", "mark"):
        return CLIENT
    if headings[:1] == ("timestamp",) and all(name[:1] == "J" and name[1:].isdigit() for name in headings[1:]):
        return RECORDER
    return None


FORMAT = LogFormat("fanuc_csv", fits, read, example_table("timestamp,J1,J2", 8.0), table=True)
