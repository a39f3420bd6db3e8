"""Lines of a second RAPID task: time in ms, test signals 4000 (positions) and 4002 (torques), blanks between them."""

from pathlib import Path

import numpy as np

from excitor.experiments.virtual.writers.format import Format, Shown

FORMATS = (
    Format(
        "abb_text", "the task that sends test signals", "abb_text", "signal_{k}", {"motor torque": "signal_{m}"},
        suffix=".txt", marks=False, step=0.004,
    ),
)  # fmt: skip


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `t_ms q1 .. q6 tau1 .. tau6`, without headings."""
    path = folder / f"{name}.txt"
    table = np.column_stack([1e3 * shown.t, shown.position, shown.effort])
    line = " ".join(["%.3f", *["%.6f"] * (table.shape[1] - 1)]) + "\n"
    with path.open("w", encoding="ascii", newline="") as file:
        file.writelines(line % tuple(row) for row in table.tolist())
    return [path]
