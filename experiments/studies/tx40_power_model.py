"""Study: dynamic against power identification model on a Stäubli TX-40, [Gautier2013].

On the public recording: the dynamic model, its essential parameters, the failing power model on a single trajectory,
joint 1 alone; the paper's own Table II applied unchanged. On a virtual TX-40: what the locked-joint set cures.
"""

import tomllib
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from excitor.experiments.figures import Figure, Report
from excitor.experiments.studies import tx40_recording, tx40_virtual
from excitor.experiments.studies.tx40_recording import Fits, Recording, halves, joint_errors, named, torque_error
from excitor.identify.estimate import compress
from excitor.identify.reduce import essential
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

REALISATIONS = 10
RANGES = {1: (0.0602, 0.0682), 2: (0.0589, 0.0686), 3: (0.0790, 0.1198), 4: (0.0662, 0.1091)}  # of the torque errors


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Reproduce the paper; `data` is the folder of the recording, without which only the simulated part runs."""
    figures: list[Figure] = []
    context: dict[str, Any] = {}
    if data is not None:
        figures += recorded(data, context, out)
    else:
        context["recording"] = "skipped: give its folder with --data"
    figures += simulated(context, 3 * REALISATIONS if full else REALISATIONS)
    if out is not None:
        from excitor.experiments.studies.tx40_plots import draw_virtual

        drawn = draw_virtual(tx40_virtual.fit_cases(seed=0), out)
        context["plots"] = [*context.get("plots", []), *(str(path) for path in drawn)]
    return Report("study", "tx40-power-model", figures, context)


def recorded(folder: Path, context: dict[str, Any], out: Path | None) -> list[Figure]:
    """Fit the recording and compare with what the paper prints."""
    if not folder.is_dir():
        raise ExcitorError(f"{folder}: is not a folder; --data takes the one with pos_read_data.csv and curr_data.csv")
    robot = load("tx40")
    recording = tx40_recording.regress(robot, tx40_recording.read_recording(robot, folder))
    fits = tx40_recording.fit(robot, recording)
    context |= recording_context(robot, recording, fits)
    if out is not None:
        from excitor.experiments.studies.tx40_plots import draw

        context["plots"] = [str(path) for path in draw(recording, fits, out)]
    return [*dynamic_figures(recording, fits), *power_figures(recording, fits)]


def dynamic_figures(recording: Recording, fits: Fits) -> list[Figure]:
    """Judge the dynamic model: all base parameters, the essential ones, held out, physically consistent."""
    dynamic, (_, unseen), (_, unseen_standard) = (
        recording.dynamic,
        halves(recording.dynamic),
        halves(recording.standard),
    )
    twenty, thirty = fits.essential[20].estimate, fits.essential[30].estimate
    held_out = torque_error(unseen, named(fits.holdout))
    consistent = dict(zip(fits.consistent.names, fits.consistent.chi.tolist(), strict=True))
    consistent_error = torque_error(unseen_standard, consistent)
    paper = printed_values()["table4"]["case1"]
    return [
        Figure("tx40.base_parameters", float(len(dynamic.names)), "", 60.0, "equal", 60.0),
        Figure("tx40.wls_error", torque_error(dynamic, named(fits.wls)), "training", 0.0505, "at most", paper),
        Figure("tx40.essential20_error", torque_error(dynamic, named(twenty)), "training", 0.0555, "at most", paper),
        Figure("tx40.essential20_parameters", float(len(twenty.names)), "", 25.0, "within", 23.0, 1.0),
        Figure("tx40.essential30_error", torque_error(dynamic, named(thirty)), "training", 0.053, "at most"),
        Figure("tx40.holdout_error", held_out, "held out", 0.073, "at most"),
        Figure("tx40.consistent_holdout_error", consistent_error, "held out", held_out + 0.003, "at most"),
    ]


def power_figures(recording: Recording, fits: Fits) -> list[Figure]:
    """Judge the power model on one trajectory, and joint 1 alone: they fit what they see, and no torques."""
    power = torque_error(recording.power, named(fits.power))
    torques = torque_error(recording.dynamic, named(fits.power))
    alone = torque_error(recording.dynamic, fits.joint1)
    paper = printed_values()["table4"]
    return [
        Figure("tx40.power.power_error", power, "training", 0.018, "at most"),
        Figure("tx40.power.torque_error", torques, "", 0.44, "within", paper["case3"], 0.06),
        Figure("tx40.joint1_only_error", alone, "", 0.72, "within", paper["case5"], 0.04),
    ]


def recording_context(robot: Robot, recording: Recording, fits: Fits) -> dict[str, Any]:
    """Tell what stands behind the figures: tables, processing, the physical form of the consistent fit."""
    dynamic, printed = recording.dynamic, printed_values()
    twenty = fits.essential[20].estimate
    power_essential = fits.power_essential.estimate
    return {
        "rows": {"torque": len(dynamic), "power": len(recording.power)},
        "processing": [f"{step.name} {dict(step.settings)}" for step in recording.samples.steps],
        "condition": {"normalised": fits.wls.condition},
        "wls_by_joint": joint_errors(dynamic, named(fits.wls)),
        "table2": table2(printed, named(twenty), twenty.names, twenty.relative_sigma),
        "table2_applied_unchanged": {
            case: torque_error(dynamic, physical(values)) for case, values in printed["table2"].items()
        },
        "table3_percent": table3(printed["table2"]),
        "essential": {ratio: len(fit.estimate.names) for ratio, fit in fits.essential.items()},
        "power_essential": {
            "parameters": len(power_essential.names),
            "torque_error": torque_error(dynamic, named(power_essential)),
        },
        "printed_wrist_friction": printed_form(robot, recording),
        "consistent": {
            "status": fits.consistent.status,
            "smallest_eigenvalues": fits.consistent.eigenvalue.tolist(),
            "mass_over_prior": mass_ratios(robot, fits.consistent.chi),
        },
        "note": "errors are unweighted relative 2-norms over the training rows, except the held-out one",
    }


def printed_form(robot: Robot, recording: Recording) -> dict[str, float]:
    """Fit the essential parameters with the wrist friction as printed, for its Fs6 and Fsm6."""
    other = tx40_recording.regress(tx40_recording.printed_wrist(robot), recording.samples).dynamic
    estimate = essential(compress(other), ratio=20.0).estimate
    return {
        "parameters": len(estimate.names),
        "error": torque_error(other, named(estimate)),
        "Fs6": estimate.value("Fs6"),
        "Fsm6": estimate.value("Fsm6"),
    }


def mass_ratios(robot: Robot, chi: FloatArray) -> list[float]:
    """Compare masses with the prior's, link by link."""
    masses = [layout(robot).index(f"M{j + 1}") for j in range(robot.mechanism.n_links)]
    return [float(chi[k] / prior(robot)[k]) for k in masses]


def simulated(context: dict[str, Any], count: int) -> list[Figure]:
    """Run the four cases on the virtual robot: medians over seeds 0 … count - 1."""
    results = [tx40_virtual.realise(seed) for seed in range(count)]
    printed = printed_values()["table4"]
    figures = []
    for case, bound in RANGES.items():
        errors = [result[case].torque_error for result in results]
        name = f"tx40.virtual.case{case}_error"
        middle, reach = (bound[0] + bound[1]) / 2, (bound[1] - bound[0]) / 2
        figures.append(Figure(name, median(errors), "held out", middle, "within", printed[f"case{case}"], reach))
        context[f"virtual_case{case}"] = {
            "torque_error_range": [min(errors), max(errors)],
            "parameter_error_median": median(result[case].parameter_error for result in results),
            "kept": [min(r[case].kept for r in results), max(r[case].kept for r in results)],
        }
    medians = [median(result[case].torque_error for result in results) for case in (1, 2, 3, 4)]
    context["virtual_order_holds"] = max(medians[:2]) < medians[3] < medians[2]
    context["virtual"] = f"medians of {count} realisations, seeds 0 to {count - 1}"
    return figures


def printed_values() -> dict[str, Any]:
    """Read what the paper prints."""
    text = (resources.files("excitor.experiments.studies.printed") / "tx40.toml").read_text("utf-8")
    return tomllib.loads(text)


def physical(values: dict[str, list[float]]) -> dict[str, float]:
    """Turn a printed column's wrist friction into the physical form: Fs6 = printed Fs6 - Fsm6, an exact rewriting."""
    named = {name: value for name, (value, _) in values.items()}
    if "Fs6" in named and "Fsm6" in named:
        named["Fs6"] -= named["Fsm6"]
    return named


def table2(
    printed: dict[str, Any], ours: dict[str, float], names: tuple[str, ...], relative_sigma: Any
) -> dict[str, dict[str, float | None]]:
    """Put our essential parameters beside the paper's case 1, with relative σ in percent and the difference."""
    case1 = {name: tuple(pair) for name, pair in printed["table2"]["case1"].items()}
    percent = dict(zip(names, (100.0 * float(s) for s in relative_sigma), strict=True))
    table: dict[str, dict[str, float | None]] = {}
    for name in dict.fromkeys([*case1, *ours]):
        paper = case1.get(name)
        mine = ours.get(name)
        both = paper is not None and mine is not None
        table[name] = {
            "paper": None if paper is None else paper[0],
            "paper_sigma_percent": None if paper is None else paper[1],
            "ours": mine,
            "sigma_percent": percent.get(name),
            "difference_percent": 100.0 * abs(mine - paper[0]) / abs(paper[0]) if both else None,  # type: ignore[index]
        }
    return table


def table3(table: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Recompute the lost Table III: mean |e| in percent of cases 3 and 4 against 1 and 2, over common parameters."""
    means = {}
    for case, reference in (("case3", "case1"), ("case3", "case2"), ("case4", "case1"), ("case4", "case2")):
        common = [name for name in table[case] if name in table[reference]]
        errors = [abs(table[case][n][0] - table[reference][n][0]) / abs(table[reference][n][0]) for n in common]
        means[f"{case} against {reference}"] = 100.0 * sum(errors) / len(errors)
    return means
