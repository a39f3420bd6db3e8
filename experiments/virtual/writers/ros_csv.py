"""Logs of our ROS 2 client: joint states of the run by their stamps, and when it began."""

from pathlib import Path

import numpy as np

from excitor.experiments.virtual.writers.format import Column, Format, Shown, named, write_rows

FORMATS = (
    Format(
        "ros2_csv", "the ROS 2 client", "client_csv", "position:{axis}",
        {"torque sensor": "effort:{axis}", "joint torque": "effort:{axis}"}, whole=False,
    ),
)  # fmt: skip
STARTED = 10**9  # s: stamps count from 1970, and a fixed time keeps files the same


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `time,t,speed_scaling,mark,position:a,...`; before the run `t` is empty."""
    head = ["time", "t", "speed_scaling", "mark"]
    head += [cell for kind in ("position", "velocity", "effort") for cell in named(kind + ":{axis}", shown.axes)]
    begun = shown.t >= shown.t[np.argmax(shown.running)]
    columns: list[Column] = [
        ("%.9f", STARTED + shown.t),
        ("%s", [f"{t:.9f}" if there else "" for t, there in zip(shown.since.tolist(), begun.tolist(), strict=True)]),
        ("%.17g", shown.scaling),
        ("%.0f", shown.mark),
        ("%.17g", np.hstack([shown.position, shown.velocity, shown.effort])),
    ]
    return [write_rows(folder / f"{name}.csv", head, columns, "\r\n")]
