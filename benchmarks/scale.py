"""Fleets of virtual arms: outliers found and named, false alarms, results after kills, time an arm."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.fleet.arms import ArmTask, find_arms, identify_arm
from excitor.experiments.fleet.dataset import Row, read_rows, row, write_rows
from excitor.experiments.fleet.fleet import evaluate, fleet
from excitor.experiments.fleet.type_model import FALSE_ALARMS
from excitor.robots.load import load
from tests.campaigns import CAMPAIGN, motion_of, write_log

ARMS, OUTLIERS, SIGMAS, SCATTER = 1000, 30, 6.0, 0.03
PIPELINE, SECONDS, SEEDS = 20, 6.0, 9
MORE = '\n[identify]\nfriction = "as stated"\n[design]\nwarm_up_minutes = 20.0\n'


def run(full: bool) -> Report:
    """Judge 1000 arms, of which 20 went through the pipeline; kill a fleet three times, in full ten."""
    with tempfile.TemporaryDirectory() as place:
        root = make_tree(Path(place) / "line", PIPELINE)
        took = time.process_time()
        rows = [identify_arm(ArmTask(arm, frozenset(), False)) for arm in find_arms(root, root / "fleet")]
        first = time.process_time() - took
        for path in root.glob("*/model.json"):
            path.unlink()
        took = time.process_time()
        rows = [identify_arm(ArmTask(arm, frozenset(), False)) for arm in find_arms(root, root / "fleet")]
        warm = (time.process_time() - took) / PIPELINE
        real = next(one for one in rows if one is not None and one["status"] == "identified")
        found = np.array([judged(Path(place) / str(seed), real, seed) for seed in range(SEEDS)])
        figures = [
            Figure("scale.outliers_found", float(np.median(found[:, 0])), f"of {OUTLIERS}", 27, "at least"),
            Figure("scale.outliers_found.worst", float(found[:, 0].min()), f"of {OUTLIERS}"),
            Figure("scale.outliers_named", float(np.median(found[:, 1])), f"of {OUTLIERS}", 24, "at least"),
            Figure("scale.false_alarms", float(found[:, 2].max()), "arms, worst seed", 1, "at most"),
            Figure("scale.wrong_logs_found", float(found[:, 3].min()), "of 2", 2, "equal"),
        ]
        kills = 10 if full else 3
        equal = killed(make_tree(Path(place) / "killed", 12), kills)
    figures += [
        Figure("scale.killed_equal", float(equal), "", 1.0, "equal"),
        Figure("scale.fleet_s_per_arm", warm, "s of CPU", 1.0, "at most"),
    ]
    return Report(
        "bench", "scale", figures, {"kills": kills, "pipeline_arms": PIPELINE, "seeds": SEEDS, "first_pass_s": first}
    )


def make_tree(root: Path, n: int) -> Path:
    """Write campaigns of arms of one type, whose parameters scatter."""
    rng, base = np.random.default_rng(0), load("rotradi")
    for i in range(n):
        robot = replace(base, chi=base.chi * (1.0 + SCATTER * rng.normal(size=len(base.chi))))
        folder = root / f"unit {i:04}"
        (folder / "logs").mkdir(parents=True)
        for k, name in enumerate(("first", "second")):
            write_log(folder / "logs" / f"{name}.csv", robot, *motion_of(robot, SECONDS, k), 10 * i + k)
        (folder / "campaign.toml").write_text(CAMPAIGN + MORE)
    return root


def judged(place: Path, like: Row, seed: int) -> tuple[int, int, int, int]:
    """Add virtual arms about a real one, outliers, a wrong and a truncated log, and count what is found."""
    rng = np.random.default_rng(seed)
    mean, n = np.array(like["values"]), len(like["values"])
    S = np.array(like["covariance"]).reshape(n, n)
    spread = np.sqrt((SCATTER * mean) ** 2 + np.diagonal(S))
    Y = mean * (1.0 + SCATTER * rng.normal(size=(ARMS, n))) + rng.multivariate_normal(np.zeros(n), S, ARMS)
    who, which = rng.choice(ARMS - 2, OUTLIERS, replace=False), rng.integers(n, size=OUTLIERS)
    Y[who, which] += SIGMAS * spread[which] * rng.choice([-1.0, 1.0], OUTLIERS)
    Y[-2] = rng.normal(size=n) * np.abs(mean) * 3.0  # another robot's log
    made = [_virtual(like, k, y) for k, y in enumerate(Y)]
    refused = {"arm": "unit truncated", "inputs": "t", "status": "refused", "reason": "the log ends too early"}
    write_rows(place, [*made, row(**refused)])
    data, _ = evaluate(read_rows(place), FALSE_ALARMS)
    arms = {one["arm"]: one for one in data["arms"]}
    names = dict(zip((f"arm {k:04}" for k in who), (like["names"][j] for j in which), strict=True))
    beyond = {name: one for name, one in arms.items() if one["verdict"] == "outlier"}
    found = [name for name in names if name in beyond]
    named = [name for name in found if beyond[name]["parameter"] == names[name]]
    wrong = f"arm {ARMS - 2:04}"
    false = set(beyond) - set(names) - {wrong}
    strange = (wrong in beyond) + (arms["unit truncated"]["verdict"] == "refused")
    return len(found), len(named), len(false), strange


def _virtual(like: Row, k: int, values: Any) -> Row:
    return {**like, "arm": f"arm {k:04}", "inputs": str(k), "files": "{}", "values": values.tolist()}


def killed(root: Path, kills: int) -> bool:
    """Kill a fleet's process at random moments, and compare its dataset with an uninterrupted one."""
    rng = np.random.default_rng(0)
    code = "import sys; from excitor.experiments.cli import main; main()"
    verb = [sys.executable, "-c", code, "fleet", str(root), "--workers", "2"]
    for _ in range(kills):
        process = subprocess.Popen(verb, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(1.0, 12.0))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    fleet(root)
    once = fleet(root, out=root.parent / "uninterrupted")
    return _content(read_rows(root / "fleet")) == _content(once.rows)


def _content(rows: Any) -> str:
    plain = [{key: x.tolist() if hasattr(x, "tolist") else x for key, x in one.items()} for one in rows]
    return json.dumps(plain, sort_keys=True)
