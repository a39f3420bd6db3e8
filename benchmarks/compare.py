"""Benchmark of comparing all estimators on recordings of real robots: CPU time, and the recommended method."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from excitor.experiments.figures import Figure, Report
from excitor.experiments.files import write_atomically
from excitor.experiments.report.comparison import SCHEMA
from excitor.robots.errors import ExcitorError

BUDGET_S = 60.0
BESIDE = Path("..") / "shared" / "data"  # of the folder that a developer works in
LONGEST_S = 900.0

_COMPARE = """
import json, sys, time
from pathlib import Path
from excitor.experiments.campaign import open_campaign
from excitor.experiments.compare import compare
from excitor.experiments.report.comparison import compare_data, compare_page
folder = Path(sys.argv[1])
begun = time.process_time()
data = compare_data(compare(open_campaign(folder)))
compare_page(data)
json.dump({"cpu_s": time.process_time() - begun, "data": data}, sys.stdout)
"""
_TX40 = """robot = "tx40"
[log]
sample_rate_hz = 5000.0
[[log.signals]]
kind = "position"
side = "motor"
unit = "rad"
columns = ["Joint_1", "Joint_2", "Joint_3", "Joint_4", "Joint_5", "Joint_6"]
[[log.signals]]
kind = "torque"
side = "motor"
unit = "N m"
columns = ["Joint_1", "Joint_2", "Joint_3", "Joint_4", "Joint_5", "Joint_6"]
file = "curr_data.csv"
[[run]]
name = "first half"
log = "pos_read_data.csv"
to_s = 4.7
[[run]]
name = "second half"
log = "pos_read_data.csv"
role = "validate"
from_s = 4.7
[processing]
lowpass_hz = 50.0
true_cutoff = false
decimate = [10, 10]
"""
_QRC350 = """robot = "qrc350"
[matlab]
q = "q_meas.average_rect"
dq = "dq_meas.average_rect"
ddq = "ddq_meas.average_rect"
tau = "tau_meas.average"
time = "time_vec_save"
variance = "tau_meas.variance"
[processing]
dead_zone_percent = 0.0
[[run]]
name = "trajectory A"
log = "trajectory_a.mat"
[[run]]
name = "trajectory C"
log = "trajectory_c.mat"
role = "validate"
"""


@dataclass(frozen=True)
class Recorded:
    """A recording as a campaign."""

    text: str  # of its campaign.toml
    files: tuple[str, ...]


RECORDINGS = {
    "tx40": Recorded(_TX40, ("pos_read_data.csv", "curr_data.csv")),
    "qrc350": Recorded(_QRC350, ("trajectory_a.mat", "trajectory_c.mat")),
}


def run(full: bool = False, data: Path | None = None) -> Report:
    """Compare on each recording, whatever `full` says; `data` holds their folders, by default ../shared/data."""
    folder = BESIDE if data is None else data
    figures: list[Figure] = []
    context: dict[str, Any] = {
        "what": "all methods, their judgement and the page, in a process whose kernel is compiled; CPU time"
    }
    for name, recorded in RECORDINGS.items():
        missing = [file for file in recorded.files if not (folder / name / file).is_file()]
        if missing:
            context[name] = f"skipped: {missing[0]} is not in {folder / name}"
            continue
        found = measured(folder / name, recorded)
        figures += [
            Figure(f"compare.{name}.cpu_s", found["cpu_s"], "s CPU", BUDGET_S, "at most"),
            Figure(f"compare.{name}.recommended_is_best", float(found["data"]["recommendation"]["is_best"])),
        ]
        context[name] = told(found["data"])
    if not figures and data is not None:
        raise ExcitorError(f"{data}: holds none of the folders {', '.join(RECORDINGS)}; give the folder of recordings")
    return Report("bench", "compare", figures, context)


def measured(folder: Path, recorded: Recorded) -> Mapping[str, Any]:
    """Compare in a process of its own, in a folder of its own."""
    with tempfile.TemporaryDirectory() as place:
        cell = Path(place)
        for file in recorded.files:
            shutil.copy(folder / file, cell / file)
        write_atomically(cell / "campaign.toml", recorded.text)
        command = [sys.executable, "-c", _COMPARE, str(cell)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if done.returncode != 0:
        raise ExcitorError(f"{folder}: comparing failed: {done.stderr.strip()[-300:]}")
    found: Mapping[str, Any] = json.loads(done.stdout)
    assert found["data"]["schema"] == SCHEMA
    return found


def told(data: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the recommendation, its reasons, and each method's result."""
    advice = data["recommendation"]
    return {
        "recommended": advice["method"],
        "best": advice["best"],
        "why": list(advice["reasons"]),
        "held out, percent": {
            entry["name"]: round(100.0 * entry["held_out"]["total"], 2) if "held_out" in entry else entry["refused"]
            for entry in data["methods"]
        },
    }
