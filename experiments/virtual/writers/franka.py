"""States of 1 kHz joint interfaces, as our client keeps them: the run alone, torque sensors at the joints."""

from pathlib import Path

import numpy as np

from excitor.experiments.virtual.writers.format import Column, Format, Shown, write_rows

FORMATS = (
    Format(
        "franka", "the 1 kHz client", "franka_csv", "q[{j}]", {"torque sensor": "tau_J[{j}]"},
        whole=False, lead=0.0, step=0.001,
    ),
)  # fmt: skip
STARTED = 500.0  # s: how long the controller had been on


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `time,t,part,mark,q[0],...`; motors' angles are divided by their gears, as such controllers show them."""
    zero = np.zeros_like(shown.effort)
    tables = {
        "q": shown.position,
        "dq": shown.velocity,
        "q_d": shown.reference,
        "dq_d": shown.reference_velocity,
        "tau_J": shown.effort,
        "tau_J_d": shown.model,
        "dtau_J": np.gradient(shown.effort, shown.t, axis=0),
        "theta": shown.position,
        "dtheta": shown.velocity,
        "tau_ext_hat_filtered": zero,
    }
    head = ["time", "t", "part", "mark", *(f"{name}[{j}]" for name in tables for j in range(len(shown.axes)))]
    columns: list[Column] = [
        ("%.3f", STARTED + shown.t),
        ("%.3f", shown.since),
        ("%.0f", shown.part),
        ("%.0f", shown.mark),
        ("%.12g", np.hstack(list(tables.values()))),
    ]
    return [write_rows(folder / f"{name}.csv", head, columns)]
