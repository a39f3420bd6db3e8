"""What the QRC 350 study reports: numbers beside the printed ones and the bars, and the sentences around them."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from excitor.experiments.figures import Figure
from excitor.experiments.studies.cells import Cell, count, rounds_to
from excitor.experiments.studies.qrc350_beyond import CUTOFF_HZ, Beyond, Outcome
from excitor.experiments.studies.qrc350_decisions import agreement
from excitor.experiments.studies.qrc350_path import extremes, overshoot_mm
from excitor.experiments.studies.qrc350_tables import Models
from excitor.identify.reduce import Reduction
from excitor.robots.arrays import FloatArray

CONDITIONS = {  # bar, and half of its last digit
    "p1_full": (61.70, 5e-3),
    "p1_reduced": (8.456, 5e-4),
    "p2_full": (1632.2, 5e-2),
    "p2_reduced": (2.735, 5e-4),
}
LEAK = {"p1": (26.0, 54.91), "p2": (19.0, 23.48)}  # kept parameters, condition
PAPER_WLS = 14.915
FIVE_HARMONIC, CONSISTENT, EXTENDED = 13.6, 9.4, 8.8  # bars, %


def cell_figures(found: Sequence[Cell]) -> list[Figure]:
    """Count the table cells: all, equal to every printed digit, not equal, and known contradictions of the paper."""
    contradicted = count(found, "contradicted")
    return [
        Figure("qrc350.cells_total", count(found)),
        Figure("qrc350.cells_equal", count(found, "equal"), "", count(found) - contradicted, "equal"),
        Figure("qrc350.cells_unequal", count(found, "unequal"), "", 0.0, "equal"),
        Figure("qrc350.cells_contradicted", contradicted),
    ]


def decision_figures(printed: Mapping[str, Any], models: Models) -> list[Figure]:
    """Count the decisions of the reductions that equal the published ones in place, verdict, ratio and joint."""
    logs = agreement(printed["decisions"], models)
    return [
        Figure("qrc350.decisions_total", logs.total),
        Figure("qrc350.decisions_equal", logs.equal, "", logs.total, "equal"),
    ]


def condition_figures(printed: Mapping[str, Any], models: Models) -> list[Figure]:
    """Compare the condition numbers of both processes, full and reduced."""
    ours = {
        "p1_full": models.process1.full.condition,
        "p1_reduced": models.process1.estimate.condition,
        "p2_full": models.process2.full.condition,
        "p2_reduced": models.process2.estimate.condition,
    }
    return [
        Figure(f"qrc350.condition.{key}", ours[key], "", bar, "within", float(printed["condition"][key]), half)
        for key, (bar, half) in CONDITIONS.items()
    ]


def leak_figures(reductions: Mapping[str, Reduction]) -> list[Figure]:
    """Show what remains when the training set accepts: the published reductions owe much to the validation set."""
    figures = []
    for process, (kept, condition) in LEAK.items():
        estimate = reductions[process].estimate
        name = f"qrc350.leak.{process}"
        figures += [
            Figure(f"{name}_kept", len(estimate.names), "", kept, "equal"),
            Figure(f"{name}_condition", estimate.condition, "", condition, "within", tolerance=5e-3),
        ]
    return figures


def path_figures(printed: Mapping[str, Any], paths: Mapping[str, FloatArray]) -> list[Figure]:
    """Compare how far the paths of Figure 4 reach."""
    reached = {run: extremes(path) for run, path in paths.items()}
    pairs = [(reached[run][key], text) for run, texts in printed["figure4"].items() for key, text in texts.items()]
    equal = sum(rounds_to(value, text) for value, text in pairs)
    over = overshoot_mm(paths)
    return [
        Figure("qrc350.figure4.extremes_total", len(pairs)),
        Figure("qrc350.figure4.extremes_equal", equal, "", len(pairs), "equal"),
        *(
            Figure(f"qrc350.figure4.max_x.{run}", reach["max_x"], "mm", float(wanted), "within", tolerance=5e-5)
            for run, reach in reached.items()
            for wanted in [printed["figure4"][run]["max_x"]]
        ),
        *(Figure(f"qrc350.figure4.overshoot_x.{run}", reach["+x"], "mm") for run, reach in over.items()),
    ]


def uncertainty_figures(disagreement: Mapping[str, float]) -> list[Figure]:
    """Tell how far models A and B lie apart in σ, median over the parameters; about 0.7 where σ is right."""
    return [
        Figure("qrc350.a_minus_b.printed_sigma", disagreement["printed"], "sigma", 150.0, "within", tolerance=0.5),
        Figure("qrc350.a_minus_b.white_sigma", disagreement["white"], "sigma"),
        Figure("qrc350.a_minus_b.bootstrap_sigma", disagreement["bootstrap"], "sigma", 2.0, "at most"),
    ]


def error_figures(printed: Mapping[str, Any], paper: FloatArray, harmonic: Beyond, vibrating: Beyond) -> list[Figure]:
    """Compare errors from A to C: means over the joints of the mean absolute error over the mean absolute torque."""
    column = next(table for table in printed["table"] if table["number"] == "II")
    of_paper = fmean(float(row[column["columns"].index("A on C %")]) for row in column["cells"])
    name = "qrc350.a_to_c"
    return [
        Figure(f"{name}.paper_wls", float(paper.mean()), "%", PAPER_WLS, "within", of_paper, 5e-4),
        Figure(f"{name}.five_harmonic_linear", mean_on_c(harmonic.linear), "%"),
        Figure(f"{name}.five_harmonic_consistent", mean_on_c(harmonic.consistent), "%"),
        Figure(f"{name}.five_harmonic_best", mean_on_c(harmonic.chosen), "%", FIVE_HARMONIC, "at most"),
        Figure(f"{name}.linear_15hz", mean_on_c(vibrating.linear), "%"),
        Figure(f"{name}.consistent_15hz", mean_on_c(vibrating.consistent), "%", CONSISTENT, "at most"),
        Figure(f"{name}.extended_15hz", mean_on_c(vibrating.chosen), "%", EXTENDED, "at most"),
    ]


def mean_on_c(outcome: Outcome) -> float:
    """Mean error on trajectory C over the joints."""
    return float(outcome.validation_C.mean())


def beyond_told(harmonic: Beyond, vibrating: Beyond) -> dict[str, Any]:
    """List what was tried beyond the paper: fitted on A, chosen on B, reported on C."""
    return {
        f"tried, {motion}": {
            "friction models, error % on A (training), B (chosen by), C": [_trial(each) for each in tried.friction],
            "chosen": f"{tried.chosen.model}, {tried.chosen.n_parameters} parameters",
            "on C by joint, %": {
                each.model: [round(float(e), 2) for e in each.validation_C]
                for each in (tried.linear, tried.consistent, tried.chosen)
            },
            "residual on A (training) added by consistency, fraction": tried.consistency_loss,
        }
        for motion, tried in (("five harmonics", harmonic), (f"up to {CUTOFF_HZ:g} Hz", vibrating))
    }


def contradictions(printed: Mapping[str, Any], models: Models, conditions: Mapping[str, float]) -> list[str]:
    """Say where the paper contradicts itself or its data."""
    table_iv, table_v = models.process2.estimate, models.process2_preset.estimate
    negative = [
        name for name in ("theta13", "theta15", "theta16", "theta20", "theta22", "theta23") if models.A.value(name) < 0
    ]
    return [
        f"Tables IV and V, process 2, are of different models: {len(table_iv.names)} parameters, condition "
        f"{table_iv.condition:.4g}, and {len(table_v.names)}, condition {table_v.condition:.4g} (friction preset).",
        *(
            f"The printed condition of trajectory {run}, {printed['condition'][f'trajectory_{run.lower()}']}, is not "
            f"reproducible: ours, on the measured motion, is {value:.3f}."
            for run, value in conditions.items()
        ),
        "Algorithm 1, line 10 prints 'for all joints': any joint is meant, or hardly anything but friction stays.",
        "Table V is measured on the data that accepted the reduction: it is not held out.",
        f"Parameters said to be positive inertias: in model A {', '.join(negative)} is negative; theta8 and theta10 "
        "are off-diagonal and may be.",
        "Parameter 3 prints J2xy, which is assumed zero; J2xz is right.",
        "Friction is printed with sgn; the tables need tanh(1000 dq).",
    ]


def _trial(outcome: Outcome) -> str:
    A, B, C = (float(e.mean()) for e in (outcome.training_A, outcome.selection_B, outcome.validation_C))
    return f"{outcome.model}: {outcome.n_parameters} parameters, {A:.3f}, {B:.3f}, {C:.3f}"
