"""Study: sensitivity-based model reduction for in-process identification of a CLOOS QRC 350, [Volkmann2020].

Every table to the printed digits, the decisions of the reduction, Figure 4; what the published numbers owe to
choosing on the validation set, and how sure the parameters are; then smaller errors from trajectory A to C, and
designed trajectories within what A and B used.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from excitor.experiments.figures import Figure, Report
from excitor.experiments.files import write_atomically
from excitor.experiments.studies import (
    qrc350_beyond,
    qrc350_decisions,
    qrc350_design,
    qrc350_design_figures,
    qrc350_figures,
    qrc350_path,
    qrc350_tables,
)
from excitor.experiments.studies.cells import Cell, as_csv, cells, summary
from excitor.experiments.studies.qrc350_beyond import Beyond
from excitor.experiments.studies.qrc350_data import Recordings, absolute_errors, read_recordings
from excitor.experiments.studies.qrc350_uncertainty import disagreement
from excitor.identify.reduce import Reduction
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError


@dataclass(frozen=True, eq=False, slots=True)
class Results:
    """All that the study computes."""

    models: qrc350_tables.Models
    cells: Sequence[Cell]
    reductions: Mapping[str, Reduction]  # by process and acceptance set
    paths: Mapping[str, FloatArray]  # of Figure 4, mm
    disagreement: Mapping[str, float]
    paper_on_C: FloatArray  # (n_joints,), %
    harmonic: Beyond
    vibrating: Beyond
    designs: qrc350_design.Designs


def run(data: Path | None, out: Path | None = None, *, full: bool = False) -> Report:
    """Reproduce the paper from the folder of its published recordings; with `out`, write plots and all cells there."""
    if data is None:
        raise ExcitorError("the study needs the published recordings (.mat): give their folder with --data")
    printed = printed_values()
    recordings = read_recordings(data)
    results = compute(recordings, printed, full=full)
    context = tell(recordings, results, printed)
    if out is not None:
        context["written"] = write_files(out, recordings, results)
    return Report("study", "qrc350-in-process", figures(results, printed), context)


def printed_values() -> dict[str, Any]:
    """Load what the paper prints."""
    return tomllib.loads((resources.files("excitor.experiments.studies.printed") / "qrc350.toml").read_text("utf-8"))


def compute(recordings: Recordings, printed: Mapping[str, Any], *, full: bool = False) -> Results:
    """Compute the tables, the paths, what goes beyond, and designs."""
    models = qrc350_tables.fit(recordings)
    ours = qrc350_tables.tables(recordings, models)
    return Results(
        models=models,
        cells=cells(printed, ours, qrc350_tables.other_tables(recordings, models)),
        reductions=qrc350_decisions.by_acceptance(recordings),
        paths=qrc350_path.paths_mm(recordings),
        disagreement=disagreement(recordings, models),
        paper_on_C=absolute_errors(recordings.equations["C"], models.A.values)[1],
        harmonic=qrc350_beyond.harmonic(recordings),
        vibrating=qrc350_beyond.vibrating(recordings),
        designs=qrc350_design.design(
            recordings,
            {"A": models.A.values, "B": models.B.values},
            qrc350_design.FULL if full else qrc350_design.QUICK,
        ),
    )


def figures(results: Results, printed: Mapping[str, Any]) -> list[Figure]:
    """List the figures in the order of the paper, then beyond it."""
    on_training = {f"p{k}": results.reductions[f"process {k}, training"] for k in (1, 2)}
    return [
        *qrc350_figures.cell_figures(results.cells),
        *qrc350_figures.decision_figures(printed, results.models),
        *qrc350_figures.condition_figures(printed, results.models),
        *qrc350_figures.leak_figures(on_training),
        *qrc350_figures.path_figures(printed, results.paths),
        *qrc350_figures.uncertainty_figures(results.disagreement),
        *qrc350_figures.error_figures(printed, results.paper_on_C, results.harmonic, results.vibrating),
        *qrc350_design_figures.figures(results.designs),
    ]


def tell(recordings: Recordings, results: Results, printed: Mapping[str, Any]) -> dict[str, Any]:
    """Say what stands behind the figures."""
    models = results.models
    conditions = {"A": models.A.condition, "B": models.B.condition}
    return {
        "what": "condition numbers are of column-normalised matrices, by SVD, on the measured samples",
        "tables": summary(results.cells),
        "contradictions": qrc350_figures.contradictions(printed, models, conditions),
        "decisions": {
            "process 1": qrc350_decisions.spelled(models.process1),
            "process 2": qrc350_decisions.spelled(models.process2),
            "process 2, friction preset": qrc350_decisions.spelled(models.process2_preset),
        },
        "kept, by acceptance set": {key: qrc350_decisions.outcome(each) for key, each in results.reductions.items()},
        "Figure 4, overshoot over the desired path in mm": qrc350_path.overshoot_mm(results.paths),
        **qrc350_figures.beyond_told(results.harmonic, results.vibrating),
        "designs": qrc350_design_figures.told(results.designs),
        "published with the data, not printed": qrc350_tables.unprinted(recordings, models),
    }


def write_files(out: Path, recordings: Recordings, results: Results) -> list[str]:
    """Write the plots, and all cells side by side."""
    from excitor.experiments.studies import qrc350_plots as plots

    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "qrc350_cells.csv", as_csv(results.cells))
    drawn = {
        "qrc350_figure4.png": plots.figure4(results.paths),
        "qrc350_torques_on_c.png": plots.torques(recordings, results.models.A, results.vibrating),
        "qrc350_errors_on_c.png": plots.errors(results.paper_on_C, results.harmonic, results.vibrating),
    }
    for name, plot in drawn.items():
        plot.savefig(out / name, dpi=150)
    return [str(out / name) for name in ("qrc350_cells.csv", *drawn)]
