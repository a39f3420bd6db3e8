"""Study: load identification on a KUKA KR150, [Swevers2002].

Three approaches on fourteen virtual experiments with the published load: all base parameters and no gear losses; the
load with a known arm and no losses; the load with efficiencies. Then what the paper leaves open: which motions tell the
load at all, loads that a body could have, and runs with and without the load while the robot warms up.
"""

import time
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.studies import kr150_recipe as recipe
from excitor.experiments.studies.kr150_cells import order_errors, physical_loads
from excitor.identify.load.equations import Arm, equations, linear_start, load_task
from excitor.identify.load.fit import identify_load, load_from_base, load_rank, rank_sentence
from excitor.robots.arrays import FloatArray
from excitor.robots.load import load
from excitor.robots.robot import Robot

DRAWS = 8
MASS_TARGET, INERTIA_TARGET = 1.3, 1.0  # kg, kg m²
INERTIAS = {"ixx": 4, "iyy": 5, "izz": 6}
PRINTED_UNITS = np.array([1.0, *[1000.0] * 3, *[1.0] * 6])  # centre of gravity in mm


@dataclass(frozen=True)
class Outcome:
    """One approach on all experiments of one draw."""

    error: FloatArray  # (n_experiments, 10), in printed units
    sigma: FloatArray  # (n_experiments, 10), as estimated
    rms: FloatArray  # (n_experiments, 4), N m
    efficiency_error: FloatArray  # (n_experiments, 4); zeros where none was estimated


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Repeat the paper's experiments on a virtual robot; no recordings are published, so `data` is not needed."""
    robot, printed = load("kr150"), printed_values()
    count = 2 * DRAWS if full else DRAWS
    draws = [draw(robot, printed, seed) for seed in range(count)]
    context: dict[str, Any] = {"note": f"medians over {count} draws of a-priori errors, experiments, noise and warmth"}
    if data is not None:
        context["recording"] = "none is published for this robot; --data is not used"
    figures = [
        *approach_figures(draws, printed, context),
        *rank_figures(robot, printed, context),
        *cell_figures(robot, printed, context, full),
        Figure("kr150.cpu_seconds", cpu_seconds(robot, printed), "s an experiment", 1.5, "at most"),
    ]
    if out is not None:
        from excitor.experiments.studies.kr150_plots import draw_all

        context["plots"] = [str(path) for path in draw_all(robot, printed, draws, out)]
    return Report("study", "kr150-load", figures, context)


def draw(robot: Robot, printed: dict[str, Any], seed: int) -> dict[str, Outcome]:
    """Run all experiments of one draw through the approaches; `learned` is 3 with an arm that data may correct."""
    arm = recipe.arm_of(robot, recipe.draw_prior(seed))
    done = recipe.experiments(robot, printed, seed=seed)
    return {name: outcome(robot, printed, done, arm, name) for name in ("1", "2", "3", "learned")}


def outcome(robot: Robot, printed: dict[str, Any], done: list[recipe.Experiment], arm: Arm, approach: str) -> Outcome:
    """Run one approach on all experiments."""
    exact = np.array(printed["table2"]["exact"])
    axes = list(recipe.MOVED)
    errors, sigmas, rms, efficiency = [], [], [], []
    for experiment in done:
        runs = [experiment.run]
        given = np.ones(robot.n_joints) if approach == "2" else None
        task = load_task(robot, runs, arm=arm, efficiency=given, learn_arm=approach == "learned")
        if approach == "1":
            base = load_from_base(task, runs)
            found, fitted = base.load, base.rms
        else:
            estimate = identify_load(task, runs)
            found, fitted = estimate.load, estimate.rms
            efficiency.append(estimate.efficiency[axes] - experiment.motors.efficiency[axes])
        errors.append(found.values * PRINTED_UNITS - exact)
        sigmas.append(found.sigma * PRINTED_UNITS)
        rms.append([fitted[robot.joint_names[i]] for i in axes])
    wrong = np.array(efficiency) if approach in ("3", "learned") else np.zeros((len(done), len(axes)))
    return Outcome(np.array(errors), np.array(sigmas), np.array(rms), wrong)


def approach_figures(draws: list[dict[str, Outcome]], printed: dict[str, Any], context: dict[str, Any]) -> list[Figure]:
    """Compare the approaches: mean absolute errors over the experiments, medians over the draws."""
    table2, table3 = printed["table2"], printed["table3"]
    mean = {name: np.median([np.abs(d[name].error).mean(axis=0) for d in draws], axis=0) for name in draws[0]}
    figures = [
        error_figure(k, name, place, float(mean[str(k)][place]), printed)
        for k in (1, 2, 3)
        for name, place in {"mass": 0, **INERTIAS}.items()
    ]
    rms = {name: np.median([d[name].rms.mean(axis=0) for d in draws], axis=0) for name in draws[0]}
    worst = median(float(np.abs(d["3"].efficiency_error).max()) for d in draws)
    ratio = float(mean["1"][0] / mean["3"][0])
    printed_ratio = table2["approach1"][0][0] / table2["approach3"][0][0]
    fit_ratio = float(np.max(rms["1"] / rms["2"]))
    printed_fit = max(a / b for a, b in zip(table3["approach1"], table3["approach2"], strict=True))
    figures += [
        Figure("kr150.efficiency_error", worst, "", 0.015, "at most"),
        Figure("kr150.mass_error_ratio_1_to_3", ratio, "", 5.0, "at least", printed_ratio),
        Figure("kr150.torque_ratio_1_to_2", fit_ratio, "largest axis", 1.02, "at most", printed_fit),
    ]
    context["table2"] = tabled2(draws, table2)
    context["table3"] = tabled3(draws, table3)
    context["coverage_percent"] = {name: coverage(draws, name) for name in ("3", "learned")}
    return figures


def error_figure(approach: int, name: str, place: int, value: float, printed: dict[str, Any]) -> Figure:
    """Put an error beside the printed one; approach 3 has targets."""
    full_name, paper = f"kr150.approach{approach}.{name}_error", printed["table2"][f"approach{approach}"][place][0]
    unit = printed["table2"]["units"][place]
    if approach < 3:
        return Figure(full_name, value, unit, paper=paper)
    return Figure(full_name, value, unit, MASS_TARGET if place == 0 else INERTIA_TARGET, "at most", paper)


def tabled2(draws: list[dict[str, Outcome]], table: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Put our mean absolute errors and standard deviations beside the printed ones."""
    rows: dict[str, dict[str, str]] = {}
    for place, (name, unit) in enumerate(zip(table["names"], table["units"], strict=True)):
        row = {"exact": f"{table['exact'][place]:g} {unit}"}
        for approach in draws[0]:
            error = median(float(np.abs(d[approach].error[:, place]).mean()) for d in draws)
            spread = median(float(d[approach].error[:, place].std()) for d in draws)
            row[f"approach {approach}" if approach.isdigit() else "3, arm corrected"] = f"{error:.2f} ± {spread:.2f}"
            if approach.isdigit():
                paper = table[f"approach{approach}"][place]
                row[f"paper {approach}"] = f"{paper[0]:g} ± {paper[1]:g}"
        rows[name] = row
    return rows


def tabled3(draws: list[dict[str, Outcome]], table: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Put our rms torque errors (training) of the first experiment beside the printed ones, N m."""
    rows: dict[str, dict[str, str]] = {}
    for place, axis in enumerate(table["axes"]):
        rows[axis] = {}
        for k in ("1", "2", "3"):
            rows[axis][f"approach {k}"] = f"{median(float(d[k].rms[0, place]) for d in draws):.0f}"
            rows[axis][f"paper {k}"] = f"{table[f'approach{k}'][place]:g}"
    return rows


def coverage(draws: list[dict[str, Outcome]], name: str) -> float:
    """Count how often the 95 % intervals, doubt about the arm included, hold the truth, in percent."""
    inside = [np.abs(d[name].error) < 1.96 * d[name].sigma for d in draws]
    return 100.0 * float(np.mean(inside))


def rank_figures(robot: Robot, printed: dict[str, Any], context: dict[str, Any]) -> list[Figure]:
    """Count what axes 3 to 6 tell, and what the wrist alone does not."""
    first = recipe.table1(printed)
    wrist = recipe.Series(first.offset, tuple(line for line in first.lines if line[0] != recipe.MOVED[0]))
    body = recipe.load_body(printed["table2"]["exact"])
    figures = []
    for name, series, rank in (("rank_axes_3_to_6", first, 22.0), ("rank_wrist_only", wrist, 18.0)):
        recording = recipe.record(printed, series, recipe.TRUE_MOTORS, body, np.random.default_rng(0))
        runs = [recipe.processed(robot, recording)]
        system = equations(load_task(robot, runs, arm=recipe.arm_of(robot, recipe.true_prior())), runs)
        found = load_rank(system, linear_start(system))
        context[name] = rank_sentence(found)
        figures.append(Figure(f"kr150.{name}", float(found.rank), f"of {len(found.names)}", rank, "equal", rank))
    return figures


def cell_figures(robot: Robot, printed: dict[str, Any], context: dict[str, Any], full: bool) -> list[Figure]:
    """Judge what a cell needs beyond the paper: possible bodies, and a robot that warms up between runs."""
    draws = physical_loads(robot, printed, draws=200)
    abba, aabb = (order_errors(robot, printed, order, seeds=8 if full else 4) for order in ("ABBA", "AABB"))
    context["possible_bodies"] = {
        "draws": draws.count,
        "free estimates that no body has": f"{draws.free_impossible} of the first {draws.free_count}",
        "smallest margin of the consistent ones": draws.smallest_margin,
    }
    context["warming_up"] = {"ABBA, median mass error in kg": median(abba), "AABB": median(aabb)}
    return [
        Figure("kr150.consistent_impossible", float(draws.impossible), f"of {draws.count}", 0.0, "equal"),
        Figure("kr150.abba_to_aabb_mass_error", median(abba) / median(aabb), "", 0.5, "at most"),
    ]


def cpu_seconds(robot: Robot, printed: dict[str, Any]) -> float:
    """Time approach 3 from ten periods of currents to a load with intervals, compiled code being warm."""
    body, motors = recipe.load_body(printed["table2"]["exact"]), recipe.TRUE_MOTORS
    recording = recipe.record(printed, recipe.table1(printed), motors, body, np.random.default_rng(0))
    arm = recipe.arm_of(robot, recipe.draw_prior(0))
    start = time.process_time()
    runs = [recipe.processed(robot, recording)]
    identify_load(load_task(robot, runs, arm=arm), runs)
    return time.process_time() - start


def printed_values() -> dict[str, Any]:
    """Read what the paper prints."""
    text = (resources.files("excitor.experiments.studies.printed") / "kr150.toml").read_text("utf-8")
    return tomllib.loads(text)
