"""Logs of our own clients: rows of time, mark, reference, measured positions and currents, torques or efforts."""

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

_MARKS = (Rule("mark", "marker", "1"),)
RSI = Layout(
    "client_csv",
    "time_s",
    1.0,
    (
        Rule("reference_(?P<joint>.+)", "position", "deg", "reference", "joint"),
        Rule("actual_(?P<joint>.+)", "position", "deg", "measured", "joint"),
        Rule("current_(?P<joint>.+)", "current", None, "measured", "motor"),  # the controller's unit
        *_MARKS,
    ),
)
ROS = Layout(
    "client_csv",
    "time",
    1.0,
    (
        Rule("position:(?P<joint>.+)", "position", "rad", "measured", "joint"),
        Rule("velocity:(?P<joint>.+)", "velocity", "rad/s", "measured", "joint"),
        Rule("effort:(?P<joint>.+)", "effort", None, "measured"),
        Rule("speed_scaling", "speed_scaling", None),
        Rule("t", "time", "s"),
        *_MARKS,
    ),
)
_LAYOUTS = (
    (RSI, ("time_s", "mark", "reference_.+", "actual_.+")),
    (ROS, ("time", "mark", "position:.+", "effort:.+")),
)


def fits(head: Head) -> int:
    """2 where the headings are a client's."""
    if not head.lines:
        return 0
    return 2 if _layout(headings_of(head.lines[0], find_dialect([head.lines[0]]))) else 0


def read(path: Path) -> Recording:
    """Read a client's log; quantities that a driver does not report are empty cells."""
    table = read_text_table(path, missing=True)
    layout = _layout(table.headings)
    if layout is None:
        raise InvalidLog(path, f"has none of a client's headings; it has {', '.join(table.headings[:12])}")
    return recording_of(table, layout, missing=True)


def _layout(headings: tuple[str, ...]) -> Layout | None:
    return next((layout for layout, needed in _LAYOUTS if headings_fit(headings, *needed)), None)


_EXAMPLE = "time,mark,speed_scaling,position:a,position:b,effort:a,effort:b"
FORMAT = LogFormat("client_csv", fits, read, example_table(_EXAMPLE, 0.01), table=True, grows=True)
