"""Logs of our Stream Motion client: commands, joint angles and motor currents, by time stamps of 2 ms."""

from pathlib import Path

import numpy as np

from excitor.design.programs.plan import BACK, END, OUT
from excitor.experiments.virtual.writers.format import Column, Format, Shown, named, write_rows

FORMATS = (
    Format(
        "j519", "the Stream Motion client", "fanuc_csv", "J{k}_deg", {"current": "current_J{k}_A"},
        step=0.008,
    ),
)  # fmt: skip
_RESOLUTION = 2.0  # ms of time stamps
_STRETCHES = {0: "rest", OUT: "out", BACK: "back", END: "rest"}


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `time_stamp_ms,sequence,stretch,part,mark,command_J1_deg,...`."""
    head = ["time_stamp_ms", "sequence", "stretch", "part", "mark"]
    head += [c for kind in ("command_J{k}_deg", "J{k}_deg", "current_J{k}_A") for c in named(kind, shown.axes)]
    head += ["safety_scale"]
    # The status carries 32-bit numbers: seven digits.
    columns: list[Column] = [
        ("%.0f", _RESOLUTION * np.round(1e3 * shown.t / _RESOLUTION)),
        ("%.0f", np.round((shown.t - shown.t[0]) / shown.step)),
        ("%s", [_STRETCHES.get(mark, "main") for mark in shown.mark.tolist()]),
        ("%.0f", shown.part),
        ("%.0f", shown.mark),
        ("%.9g", shown.reference),
        ("%.7g", np.hstack([shown.position, shown.effort, shown.scaling[:, None]])),
    ]
    return [write_rows(folder / f"{name}.csv", head, columns, "\r\n")]
