"""Study: drive gains and parameters of parallel robots from runs without and with a weighed body, [Briot2012].

The paper is theory and prints no numbers: virtual robots with a known truth, a-priori gains 10 % off. A five-bar, an
Orthoglide as rod model and with full legs, a Delta with published CAD values; a serial robot where joints are refused.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.studies import parallel_tx40
from excitor.experiments.studies.parallel_compare import (
    ALL,
    ESSENTIAL,
    OURS,
    PAPER,
    PLAIN,
    Draw,
    bias,
    compare,
    coverage,
    table,
)
from excitor.identify.drive_gains import Trust

SEEDS = 16
DRAWS = 200
PER_FIGURE = 10
UNIT = "%, |mean| of the worst axis"


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Run the study on seeds 0 to 15; `full` draws every figure of the coverage anew. It needs no data."""
    seeds = range(SEEDS)
    context: dict[str, Any] = {
        "setting": f"seeds 0 to {SEEDS - 1}; a-priori gains 8 to 10 % off; the paper prints no results",
        "methods": {
            OURS: "mixed total least squares, columns of motion exact, rows weighted by drives' noise: the default",
            PAPER: "weighted total least squares of eq. (13) with unit columns",
            PLAIN: "weighted least squares with the known load on the right",
        },
    }
    drawn = {name: compare(name, seeds) for name in ("five_bar", "orthoglide_rod", "orthoglide_full", "delta")}
    for name, draws in drawn.items():
        context[name] = table(draws)
    serial = [parallel_tx40.realise(seed) for seed in seeds]
    context["tx40"] = serial_table(serial)
    figures = [*gain_figures(drawn), *full_leg_figures(drawn["orthoglide_full"])]
    figures += [*serial_figures(serial), *coverage_figures(context, full)]
    if out is not None:
        from excitor.experiments.studies.parallel_plots import draw

        context["plots"] = [str(path) for path in draw(drawn, serial, out)]
    return Report("study", "parallel-drive-gains", figures, context)


def gain_figures(drawn: dict[str, list[Draw]]) -> list[Figure]:
    """Judge the gains of well-conditioned models, and show the bias of least squares beside them."""
    figures = [
        Figure(f"parallel.{name}.gain_error_percent", bias(drawn[name], (ALL, OURS)), UNIT, bound, "at most")
        for name, bound in (("five_bar", 0.2), ("orthoglide_rod", 0.5), ("delta", 0.5))
    ]
    low = {name: bias(drawn[name], (ALL, PLAIN)) for name in drawn}
    name = "parallel.{}_least_squares.gain_error_percent"
    figures.append(Figure(name.format("orthoglide_rod"), low.pop("orthoglide_rod"), UNIT, 2.0, "within", tolerance=1.0))
    figures += [Figure(name.format(robot), error, UNIT) for robot, error in low.items()]
    return figures


def full_leg_figures(draws: Sequence[Draw]) -> list[Figure]:
    """Judge full legs: total least squares of all columns fails and its gap says so; elimination cures it."""
    flagged = [draw.gaps[ALL, PAPER] < Trust().gap for draw in draws]
    worst = float(np.median([np.abs(draw.gain_errors[ALL, PAPER]).max() for draw in draws]))
    error = float(np.median([draw.parameter_errors[ESSENTIAL, OURS] for draw in draws]))
    believed = float(np.median([draw.believed[ESSENTIAL] for draw in draws]))
    afterwards = float(np.median([draw.afterwards for draw in draws]))
    name = "parallel.orthoglide_full"
    return [
        Figure(f"{name}.gain_error_percent", bias(draws, (ESSENTIAL, OURS)), UNIT, 2.5, "at most"),
        Figure(f"{name}.parameter_error_percent", error, "% of the vector, median", 3.0, "at most"),
        Figure(
            f"{name}.identified_gains.parameter_error_percent", afterwards, "% of the vector, median", 3.0, "at most"
        ),
        Figure(f"{name}.believed_gains.parameter_error_percent", believed, "% of the vector, median"),
        Figure(f"{name}.without_elimination.gain_error_percent", bias(draws, (ALL, OURS)), UNIT),
        Figure(f"{name}.all_columns_without_elimination.gain_error_percent", worst, "%, worst axis, median"),
        Figure(f"{name}.all_columns_without_elimination.flagged", float(np.mean(flagged)), "of draws", 1.0, "equal"),
    ]


def serial_figures(serial: Sequence[parallel_tx40.Outcome]) -> list[Figure]:
    """Judge the serial robot: every answer, and that the joints that carry most are answered."""
    largest = max(abs(error) for outcome in serial for error in outcome.answered.values())
    both = np.mean([{"j2", "j3"} <= set(outcome.answered) for outcome in serial])
    untouched = max(float(np.abs(outcome.errors[PAPER]).max()) for outcome in serial)
    return [
        Figure("parallel.tx40.gain_error_percent", largest, "%, worst of all answers", 1.5, "at most"),
        Figure("parallel.tx40.joints_2_and_3_answered", float(both), "of draws", 1.0, "equal"),
        Figure("parallel.tx40.all_columns_untouched.gain_error_percent", untouched, "%, worst of all joints"),
    ]


def serial_table(serial: Sequence[parallel_tx40.Outcome]) -> dict[str, Any]:
    """Tell which joints are answered how often and how well, and why others are not."""
    rows: dict[str, Any] = {}
    for j, name in enumerate(gain.drive for gain in serial[0].result.gains):
        errors = [outcome.answered[name] for outcome in serial if name in outcome.answered]
        gains = [outcome.result.gains[j] for outcome in serial]
        refusals = [gain.reason for gain in gains if not gain.answered]
        rows[name] = {
            "answered": f"{len(errors)} of {len(serial)}",
            "largest error %": round(max((abs(error) for error in errors), default=float("nan")), 2) if errors else "-",
            "predicted deviation %": round(100.0 * float(np.median([gain.relative_sigma for gain in gains])), 2),
            "refused because": refusals[0] if refusals else "-",
        }
    for method in (OURS, PAPER, PLAIN):
        every = np.array([outcome.errors[method] for outcome in serial])
        rows[f"all joints and parameters, {method}"] = {
            "mean error %": [round(float(x), 2) for x in every.mean(axis=0)],
            "largest": [round(float(x), 2) for x in np.abs(every).max(axis=0)],
        }
    return rows


def coverage_figures(context: dict[str, Any], full: bool) -> list[Figure]:
    """Count how often 95 % intervals of gains hold the truth."""
    found = {name: coverage(name, DRAWS, 1 if full else PER_FIGURE) for name in ("five_bar", "orthoglide_rod")}
    context["coverage_of_parameters_percent"] = {name: round(pair[1], 1) for name, pair in found.items()}
    worst = max((pair[0] for pair in found.values()), key=lambda share: abs(share - 95.0))
    shares = {"parallel": worst, **{f"parallel.{name}": pair[0] for name, pair in found.items()}}
    unit = f"% of gains' 95 % intervals, {DRAWS} draws"
    return [
        Figure(f"{name}.coverage_percent", share, unit, 94.5, "within", tolerance=4.5) for name, share in shares.items()
    ]
