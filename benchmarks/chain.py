"""Benchmark of the whole chain: programs of any controller, run by a virtual robot, give its true parameters."""

import json
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from excitor.design.programs import registry
from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.emit import Request, emit
from excitor.experiments.figures import Figure, Report
from excitor.experiments.identification import IdentifiedModel, identify, noise_share
from excitor.experiments.plan import design
from excitor.experiments.setup import Overrides, set_up, settings_of
from excitor.experiments.simulate import SimulationOptions, simulate
from excitor.experiments.stages import write_all
from excitor.identify.logs.declared import ColumnMap
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.errors import ExcitorError

ROBOTS = ("tx40", "qrc350", "iiwa")  # six joints, six coupled by their gears, seven
PARTS = 4  # without --full one of so many is measured, another one each day
EVALUATIONS = 2000
BOUND = 0.99
FLOOR_RATIO = 1.15
CAMPAIGN = """robot = "{robot}"
[design]
base_frequency_hz = 0.25
measured_periods = 5
controller_sample_s = 0.008
"""


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """A controller, one of its log formats, and a robot; and the result of the chain."""

    robot: str
    target: str
    format: str
    refused: str = ""
    failed: str = ""
    chi_square: float = np.nan  # of the base parameters
    bound: float = np.nan  # below which it must be
    covered: int = 0  # parameters whose interval holds the truth
    parameters: int = 0
    heldout_ratio: float = np.nan  # error of torques that were not used, over what the truth itself leaves of them
    noise_ratio: float = np.nan  # the same over their noise alone: without joints that stick where friction turns


def run(full: bool = False) -> Report:
    """Run all pairs; without `full` a quarter of them, by the day."""
    start = time.monotonic()
    part = None if full else datetime.now(UTC).toordinal() % PARTS
    with tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
        pairs = measured(Path(folder), part)
    done = [pair for pair in pairs if not pair.refused]
    chained = [pair for pair in done if not pair.failed]
    outside = [pair for pair in chained if not pair.chi_square <= pair.bound]
    worst = max((pair.heldout_ratio for pair in chained), default=np.nan)
    noise = [pair.noise_ratio for pair in chained] or [np.nan]
    count = sum(pair.parameters for pair in chained)
    covered = 100.0 * sum(pair.covered for pair in chained) / max(count, 1)
    figures = [
        Figure("chain.pairs", float(len(done))),
        Figure("chain.refused", float(len(pairs) - len(done))),
        Figure("chain.failed", float(len(done) - len(chained)), "", 0.0, "equal"),
        Figure("chain.outside_99_percent", float(len(outside)), "pairs", _allowed(len(chained)), "at most"),
        Figure("chain.coverage_percent", covered, "%", 94.0, "within", tolerance=4.0),
        Figure("chain.heldout_over_truth", worst, "times, worst pair", FLOOR_RATIO, "at most"),
        Figure("chain.heldout_over_noise", float(np.median(noise)), "times, median", FLOOR_RATIO, "at most"),
        Figure("chain.heldout_over_noise_worst", max(noise), "times, worst pair"),
        Figure("chain.wall_s", time.monotonic() - start, "s", 480.0 if full else None, "at most" if full else "none"),
    ]
    told = {f"{pair.robot} {pair.target} {pair.format}": _told(pair) for pair in pairs}
    return Report("bench", "chain", figures, {"part": "all" if full else f"{part} of {PARTS}", "pairs": told})


def measured(folder: Path, part: int | None) -> list[Pair]:
    """Run the chain for every pair of this part, on all cores."""
    wanted = [
        (robot, target, form) for robot in ROBOTS for target in registry.NAMES for form in registry.target(target).logs
    ]
    chosen: dict[tuple[str, str], list[str]] = {}
    for k, (robot, target, form) in enumerate(wanted):
        if part is None or k % PARTS == part:
            chosen.setdefault((robot, target), []).append(form)
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of compiled code
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4), context) as pool:
        places = {robot: folder / robot for robot in ROBOTS}
        for made in [pool.submit(designed, where, robot) for robot, where in places.items()]:
            made.result()
        tasks = [pool.submit(of_target, places[r], r, target, forms) for (r, target), forms in chosen.items()]
        return [pair for task in tasks for pair in task.result()]


@one_blas_thread()
def designed(where: Path, robot: str) -> Path:
    """Design a short campaign: one motion, and another one for validation."""
    where.mkdir(parents=True)
    (where / "campaign.toml").write_text(CAMPAIGN.format(robot=robot), "utf-8")
    setup = set_up(open_campaign(where, "design"))
    write_all(design(setup, settings_of(setup.design, Overrides(evaluations=EVALUATIONS))))
    return where


@one_blas_thread()
def of_target(campaign: Path, robot: str, target: str, forms: list[str]) -> list[Pair]:
    """Run the chain for a controller's log formats, in a copy of the campaign."""
    where = campaign.with_name(f"{robot}-{target}")
    shutil.copytree(campaign, where)
    _, emitted = emit(where, Request((target,), approximate=True, loss=1.0, allow=("no-go",)), lambda _: None)
    made = next(one for one in emitted if one.name == target)
    pairs = [Pair(robot, target, form) for form in forms]
    if made.folder is not None:
        return [chained(where, pair) for pair in pairs]
    if made.verified is None:
        return [replace(pair, refused=made.refused) for pair in pairs]
    return [replace(pair, failed=made.refused) for pair in pairs]


def chained(where: Path, pair: Pair, seed: int = 0) -> Pair:
    """Simulate, read, align, identify, and compare the model with the truth."""
    shutil.rmtree(where / "logs", ignore_errors=True)
    try:
        (made,) = simulate(where, [pair.target], SimulationOptions(seed=seed, format=pair.format), lambda _: None)
        if made.folder is None:
            return replace(pair, refused=made.refused)
        identified = identify(with_log(open_campaign(where, "identify"), made.data["log"]))
    except ExcitorError as error:
        return replace(pair, failed=str(error))
    names = identified.intervals.names
    truth, unseen = (aligned(truth_of(made.data, role), names) for role in ("identify", "validate"))
    return judged(pair, identified, truth, unseen)


def with_log(campaign: OpenCampaign, log: dict[str, Any]) -> OpenCampaign:
    """Declare a log format, as a person would in campaign.toml."""
    content = campaign.content.model_copy(update={"log": ColumnMap.model_validate(log)})
    return replace(campaign, content=content)


def truth_of(simulated: dict[str, Any], role: str) -> dict[str, float]:
    """Read the true base parameters during the runs of a role, from simulated.json."""
    rows = [run["truth"] for run in simulated["programs"] if run["role"] == role and not run["dry"]]
    means = np.mean([[entry["value"] for entry in row] for row in rows], axis=0)
    return {entry["name"]: float(value) for entry, value in zip(rows[0], means, strict=True)}


def aligned(truth: dict[str, float], names: Sequence[str]) -> FloatArray:
    """Order true parameters as a model's; NaN for terms that the model found and the robot's file does not have."""
    return np.array([truth.get(name, truth.get(f"{name}R", np.nan)) for name in names])


def judged(pair: Pair, identified: IdentifiedModel, truth: FloatArray, unseen: FloatArray) -> Pair:
    """Compare estimates with the truth, and held-out errors with those of the true parameters."""
    intervals, known = identified.intervals, np.isfinite(truth)
    error, covariance = (intervals.values - truth)[known], intervals.covariance[np.ix_(known, known)]
    assert identified.held_out is not None
    left = identified.held_out.model.relative_total
    return replace(
        pair,
        chi_square=float(error @ np.linalg.solve(covariance, error)),
        bound=float(scipy.stats.chi2.ppf(BOUND, len(error))),
        covered=int(np.count_nonzero((intervals.low <= truth) & (truth <= intervals.high))),
        parameters=len(error),
        heldout_ratio=left / truth_leaves(identified, unseen),
        noise_ratio=left / noise_share(identified),
    )


def truth_leaves(identified: IdentifiedModel, truth: FloatArray) -> float:
    """Compute the share of held-out torques that the true parameters do not predict."""
    regression = identified.unseen
    assert regression is not None  # every chain keeps a run back
    left = regression.y - regression.W @ np.nan_to_num(truth)
    return float(np.linalg.norm(left) / np.linalg.norm(regression.y))


def _allowed(pairs: int) -> float:
    """Count the pairs that may be outside a 99 % bound within noise, with probability 0.99."""
    return float(scipy.stats.binom.ppf(0.99, pairs, 1.0 - BOUND))


def _told(pair: Pair) -> str:
    if pair.refused or pair.failed:
        return f"refused: {pair.refused}" if pair.refused else f"failed: {pair.failed}"
    return json.dumps(
        {
            "chi_square": round(pair.chi_square, 1),
            "bound": round(pair.bound, 1),
            "covered": f"{pair.covered} of {pair.parameters}",
            "heldout_over_truth": round(pair.heldout_ratio, 3),
            "heldout_over_noise": round(pair.noise_ratio, 3),
        }
    )
