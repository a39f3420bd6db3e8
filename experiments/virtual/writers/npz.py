"""numpy archives of a recorder of somebody's own: arrays of all joints."""

from pathlib import Path

import numpy as np

from excitor.experiments.virtual.writers.format import Format, Shown

FORMATS = (
    Format(
        "npz", "a recorder of your own", "npz", "q[{j}]", {"current": "current[{j}]", "motor torque": "tau[{j}]"},
        suffix=".npz", time="t",
    ),
)  # fmt: skip


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write t, mark, q, dq, and current or tau."""
    path = folder / f"{name}.npz"
    drives = {"current" if shown.effort_kind == "current" else "tau": shown.effort}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, t=shown.t, mark=shown.mark, q=shown.position, dq=shown.velocity, **drives)
    return [path]
