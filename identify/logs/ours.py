"""Logs of our own clients: rows of time, mark, reference, measured positions and currents, torques or efforts."""

from excitor.identify.logs.table import Layout, Rule, example_table, known_tables

_MARKS = (Rule("mark", "marker", "1"),)
RSI = Layout(
    "time_s",
    ("mark", "reference_.+", "actual_.+"),
    (
        Rule("reference_(?P<joint>.+)", "position", "deg", "reference", "joint"),
        Rule("actual_(?P<joint>.+)", "position", "deg", "measured", "joint"),
        Rule("current_(?P<joint>.+)", "current", None, "measured", "motor"),  # the controller's unit
        *_MARKS,
    ),
)
ROS = Layout(
    "time",
    ("mark", "position:.+", "effort:.+"),
    (
        Rule("position:(?P<joint>.+)", "position", "rad", "measured", "joint"),
        Rule("velocity:(?P<joint>.+)", "velocity", "rad/s", "measured", "joint"),
        Rule("effort:(?P<joint>.+)", "effort", None, "measured"),
        Rule("speed_scaling", "speed_scaling", None),
        Rule("t", "time", "s"),
        *_MARKS,
    ),
)
_EXAMPLE = example_table("time,mark,speed_scaling,position:a,position:b,effort:a,effort:b", 0.01)
FORMAT = known_tables("client_csv", (RSI, ROS), _EXAMPLE, missing=True, grows=True)  # empty: the driver reports none
