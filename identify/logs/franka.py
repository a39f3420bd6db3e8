"""States of 1 kHz joint interfaces: headings `q[0]` to `tau_ext_hat_filtered[6]`, as libfranka and our client write."""

import re
from pathlib import Path

import numpy as np

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

_TIME = r"(?:.*\.)?time"
_J = r"\[(?P<joint>\d+)\]"
# theta is the motor's angle already divided by the gear ratio in some versions: its side is asked for.
_RULES = (
    Rule(rf"(?:.*\.)?q{_J}", "position", "rad", "measured", "joint"),
    Rule(rf"(?:.*\.)?dq{_J}", "velocity", "rad/s", "measured", "joint"),
    Rule(rf"(?:.*\.)?tau_J{_J}", "torque", "N m", "measured", "joint"),
    Rule(rf"(?:.*\.)?q_d{_J}", "position", "rad", "reference", "joint"),
    Rule(rf"(?:.*\.)?dq_d{_J}", "velocity", "rad/s", "reference", "joint"),
    Rule(rf"(?:.*\.)?ddq_d{_J}", "acceleration", "rad/s2", "reference", "joint"),
    Rule(rf"(?:.*\.)?tau_J_d{_J}", "torque_model", "N m", "reference", "joint"),
    Rule(rf"(?:.*\.)?tau_ext_hat_filtered{_J}", "torque_model", "N m", "unknown", "joint"),
    Rule(rf"(?:.*\.)?theta{_J}", "position", "rad", "measured"),
    Rule(rf"(?:.*\.)?dtheta{_J}", "velocity", "rad/s", "measured"),
    Rule("mark", "marker", "1"),
    Rule("t", "time", "s"),
)


def fits(head: Head) -> int:
    """2 where the headings are those of a state."""
    if not head.lines:
        return 0
    headings = headings_of(head.lines[0], find_dialect([head.lines[0]]))
    return 2 if headings_fit(headings, _TIME, r"(.*\.)?(q|theta)\[0\]") else 0


def read(path: Path) -> Recording:
    """Read a recording; whether times are in ms or s is inferred from their steps."""
    table = read_text_table(path)
    at = next((k for k, name in enumerate(table.headings) if re.fullmatch(_TIME, name)), None)
    steps = np.diff(table.values[:, at]) if at is not None else np.zeros(0)
    in_ms = steps.size > 0 and float(np.median(steps)) >= 0.5  # a state comes every millisecond
    return recording_of(table, Layout("franka_csv", _TIME, 1e-3 if in_ms else 1.0, _RULES))


_EXAMPLE = "time,q[0],q[1],tau_J[0],tau_J[1]"
FORMAT = LogFormat("franka_csv", fits, read, example_table(_EXAMPLE, 0.001), table=True, grows=True)
