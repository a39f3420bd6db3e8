"""Logs of our EGM client: commands, measured and planned joints by packet, torques as test signals or as torqueRef."""

from pathlib import Path

import numpy as np

from excitor.design.programs.plan import BACK, END, OUT
from excitor.experiments.virtual.writers.format import Column, Format, Shown, named, write_rows

_STEP = 0.004  # s between the controller's packets
FORMATS = (
    Format(
        "egm", "the EGM client", "abb_text", "pos_{axis}_deg", {"motor torque": "test_{k}"}, even=True, step=_STEP
    ),
    Format(
        "egm_torque", "the EGM client", "abb_text", "pos_{axis}_deg", {"motor torque": "torque_{k}"}, even=True,
        step=_STEP,
    ),
)  # fmt: skip
FIRST_PACKET = 5000
_PHASES = {0: "rest", OUT: "out", BACK: "back", END: "done"}


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write a row a packet; packets are numbered, and their numbers are the time."""
    count = np.round((shown.t - shown.t[0]) / shown.step).astype(np.int64)
    pattern = shown.format.efforts["motor torque"]
    head = ["time_s", "controller_ms", "packet", "computer_s", "phase", "mark", "period"]
    head += [f"{kind}_{axis}_deg" for kind in ("ref", "pos", "planned") for axis in shown.axes]
    head += ["motors_on", "egm_running", "utilization_percent", *named(pattern, shown.axes)]
    columns: list[Column] = [
        ("%.3f", shown.step * count),
        ("%.0f", np.round(1e3 * shown.step * count) + 4 * FIRST_PACKET),
        ("%.0f", FIRST_PACKET + count),
        ("%.6f", shown.t + 100.0),
        ("%s", [_PHASES.get(mark, "main") for mark in shown.mark.tolist()]),
        ("%.0f", shown.mark),
        ("%.0f", shown.period),
        ("%.9f", np.hstack([shown.reference, shown.position, shown.reference])),
        ("%.0f", np.ones((len(count), 2))),
        ("%.6g", np.full(len(count), 10.0)),
        ("%.9g", shown.effort),
    ]
    return [write_rows(folder / f"{name}.csv", head, columns)]
