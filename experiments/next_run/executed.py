"""How long does the robot take for a run: from home to home."""

from pathlib import Path

import numpy as np

from excitor.experiments.align.manifest_file import read_manifest
from excitor.experiments.designing.file import FILE, read_design
from excitor.experiments.page.words import entries, finite, table
from excitor.experiments.program_logs import MANIFEST, PROGRAMS


def program_seconds(folder: Path, program: str) -> float | None:
    """Tell how long an emitted program, TARGET/NAME, takes, s; None where its manifest does not say."""
    target, _, name = program.partition("/")
    for entry in read_manifest(folder / PROGRAMS / target / MANIFEST).programs:
        if entry.name == name:
            return float(sum(getattr(entry.durations_s, stretch) for stretch in ("out", "main", "back")))
    return None


def way_seconds(folder: Path) -> float:
    """Tell what moving to a start and back takes in the designed runs, s; 0 where nobody knows."""
    if not (folder / FILE).is_file():
        return 0.0
    runs = [run for run in entries(read_design(folder), "runs") if isinstance(run, dict)]
    ways = [[finite(T) or 0.0 for T in entries(table(run, "way"), "durations")] for run in runs]
    return float(np.mean([2.0 * sum(way) for way in ways])) if ways else 0.0
