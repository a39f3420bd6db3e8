"""Whether a design is the same whenever, however often and beside whomever it is made: by the command line itself."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import FILE
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.figures import Figure
from excitor.experiments.verbs.design import PAGE
from excitor.robots.errors import ExcitorError

EVALUATIONS = 12_000  # some ten seconds, and six checkpoints
SHARED = 60_000  # two chains, which two workers can share
KILLS = 10
SIMULTANEOUS = 3
_LONGEST = 600.0  # s of wall time that a design may take before it is given up

_CAMPAIGN = """
robot = "tx40"
home_deg = [0, 0, 90, 0, 45, 0]
[[cell.zone]]
name = "table"
keep = "out"
shape = "box"
low = [0.25, -0.4, -0.1]
high = [0.8, 0.4, 0.15]
"""
_SMALL = 'robot = "rotradi"\n[design]\nschedule = "single"\n'

Written = tuple[bytes, bytes]  # design.json, plan.html


def measure(full: bool = False) -> dict[str, Any]:
    """Measure whether designs are identical: repeated, killed and resumed, made at once, by several processes."""
    start, kills = time.process_time(), KILLS if full else 3
    random = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        first = finished(campaign(root / "first"))  # may compile
        began = time.monotonic()
        again = finished(campaign(root / "again"))
        took = time.monotonic() - began
        moments = random.uniform(0.1, 0.98, kills) * took
        resumed = [killed_and_resumed(root / f"killed {k}", float(t)) for k, t in enumerate(moments)]
        beside, left_over = made_at_once(root / "beside")
        alone = finished(campaign(root / "alone", _SMALL), evaluations=SHARED)
        shared = finished(campaign(root / "shared", _SMALL), "--workers", "2", evaluations=SHARED)
    figures = [
        Figure("design.robustness.identical", float(first == again), "", 1.0, "equal"),
        Figure("design.robustness.resumed", float(np.mean([made == first for made, _ in resumed])), "", 1.0, "equal"),
        Figure("design.robustness.simultaneous", float(beside == first and not left_over), "", 1.0, "equal"),
        Figure("design.robustness.workers", float(alone == shared), "", 1.0, "equal"),
    ]
    context = {
        "what": f"excitor design with {EVALUATIONS} evaluations, design.json and plan.html compared byte by byte",
        "kill_moments_s": [round(moment, 2) for _, moment in resumed],
        "uninterrupted_s": round(took, 2),
        "left_over": left_over,
        "cpu_s": time.process_time() - start,
    }
    return {"figures": figures, "context": context}


def campaign(place: Path, text: str = _CAMPAIGN) -> Path:
    """Write a campaign; all folders have the same name, which the page shows."""
    folder = place / "cell"
    folder.mkdir(parents=True)
    (folder / FILE).write_text(text, "utf-8")
    return folder


def begun(folder: Path, *options: str, evaluations: int = EVALUATIONS) -> "subprocess.Popen[bytes]":
    """Start `excitor design` in a process of its own."""
    command = [sys.executable, "-m", "excitor.experiments.cli", "design", str(folder)]
    return subprocess.Popen(
        [*command, "--evaluations", str(evaluations), "--json", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def finished(folder: Path, *options: str, evaluations: int = EVALUATIONS) -> Written:
    """Design to the end."""
    begun(folder, *options, evaluations=evaluations).wait(_LONGEST)
    return written(folder)


def written(folder: Path) -> Written:
    """Read what a design wrote."""
    for name in (DESIGN, PAGE):
        if not (folder / name).is_file():
            raise ExcitorError(f"{folder}: excitor design has not written {name}")
    return (folder / DESIGN).read_bytes(), (folder / PAGE).read_bytes()


def killed_and_resumed(place: Path, moment: float) -> tuple[Written, float]:
    """Kill a design some seconds after its start, go on with it, and tell when it was killed.

    One that was faster than before is begun anew and killed earlier.
    """
    folder = campaign(place)
    while True:
        process = begun(folder)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        if process.wait(_LONGEST) == -signal.SIGKILL:
            return finished(folder), moment
        moment *= 0.7
        for name in (DESIGN, PAGE):
            (folder / name).unlink(missing_ok=True)


def made_at_once(place: Path) -> tuple[Written, list[str]]:
    """Design the same folder several times at once; also name the files that should not be left."""
    folder = campaign(place)
    processes = [begun(folder) for _ in range(SIMULTANEOUS)]
    for process in processes:
        process.wait(_LONGEST)
    known = {FILE, DESIGN, PAGE}
    return written(folder), sorted(path.name for path in folder.iterdir() if path.name not in known)
