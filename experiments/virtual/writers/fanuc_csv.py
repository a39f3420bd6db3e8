"""Joint recordings of KAREL programs: ms and deg in padded cells; neither torques nor currents."""

from pathlib import Path

import numpy as np

from excitor.experiments.virtual.writers.format import Column, Format, Shown, named, write_rows

FORMATS = (Format("fanuc_csv", "the KAREL recorder", "fanuc_csv", "J{k}", marks=False, step=0.008),)


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `timestamp,J1,...`."""
    columns: list[Column] = [("%2.0f", np.round(1e3 * shown.t)), ("%9.4f", shown.position)]
    return [write_rows(folder / f"{name}.csv", ["timestamp", *named("J{k}", shown.axes)], columns)]
