"""The verbs `identify` and `report`: logs into a model and its page, with printed summaries."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from excitor.experiments.identification import IdentifiedModel
from excitor.experiments.model import Model
from excitor.experiments.report.compare import compare, write_comparison
from excitor.experiments.report.data import DATA, read_report
from excitor.experiments.stages import identify_stage, report_stage
from excitor.experiments.verbs.printing import COMPACT, echo_json, echo_progress, table
from excitor.identify.validate import Errors
from excitor.identify.verdict import Verdict

COLOURS = {True: "green", None: "yellow", False: "red"}
MARKS = {True: "✓", None: "!", False: "✗"}


def run_identify(folder: Path, as_json: bool, method: str | None = None, allow: Sequence[str] = ()) -> bool | None:
    """Identify, and write the model; return whether it may be used (None: with care)."""
    result = identify_stage(folder, method, echo_progress, allow=allow)
    if as_json:
        echo_json(result.model.to_json())
    elif isinstance(result, IdentifiedModel):
        print_identified(result)
    else:
        print_load(result.model)
    return result.verdict.go if isinstance(result, IdentifiedModel) else None


def run_from_logs(folder: Path, logs: Sequence[Path], robot: str | None, task: Any, as_json: bool) -> None:
    """Begin a campaign of logs, and print what they showed and what they did not."""
    from excitor.experiments.from_logs import READ_BY, begin_from_logs

    path, found = begin_from_logs(folder, logs, robot, task)
    if as_json:
        return echo_json({"campaign": str(path), "found": found.known, "unknown": found.unknown})
    said = (f"wrote {path}", *found.known, *(f"unknown: {line}" for line in found.unknown))
    typer.echo("\n  ".join(said))
    typer.echo(
        f"{'Complete what is unknown' if found.unknown else 'Look through it'}, then: excitor {READ_BY[task]} {folder}"
    )
    return None


def print_identified(result: IdentifiedModel) -> None:
    """Print errors beside the baselines, then the parameters with their intervals."""
    console = Console()
    console.print(_errors_table(result))
    if len(result.model.by_run) > 1:
        console.print(_runs_table(result))
    console.print(_parameter_table(result))
    widest = max(result.intervals.inflation)
    console.print(
        f"Intervals are 95 %, as slow as the errors are: up to {widest:.1f} times those of white residuals.",
        style="dim",
    )
    for finding in result.findings:
        style = "yellow" if finding.level == "doubtful" else "dim"
        console.print(f"{finding.level}: {escape(str(finding))}", style=style)
    if result.consistent is not None:
        console.print(
            f"Physically consistent model ({result.consistent.solver}, {result.consistent.status}); it costs "
            f"{100 * result.consistent.loss:.2f} % of residual."
        )
    print_verdict(console, result.verdict)


def print_verdict(console: Console, verdict: Verdict) -> None:
    """Print what a model may be used for, and why."""
    console.print(verdict.headline, style=f"bold {COLOURS[verdict.go]}")
    for use in verdict.uses:
        console.print(f"{MARKS[use.go]} {use.use}: {escape(' '.join(use.reasons))}", style=COLOURS[use.go])


def _errors_table(result: IdentifiedModel) -> Table:
    """Errors of each joint: on the identification's data, on held-out data, and of the baselines there."""
    judged = {"training": result.training, "held out": result.held_out, "same run": result.same_run}
    columns: dict[str, Errors] = {}
    of: dict[str, dict[str, float]] = {}  # a held-out run may leave a joint without equations
    for label, validation in judged.items():
        if validation is not None:
            columns[label] = validation.model
            if not validation.training:
                columns.update(validation.baselines)
            for name in columns.keys() - of.keys():
                of[name] = dict(zip(validation.joints, columns[name].relative.tolist(), strict=True))
    made = table("Torque errors |τ - τ̂| / |τ|", ("joint", *columns), left=("joint",), **COMPACT)
    for joint in result.training.joints:
        made.add_row(escape(joint), *(f"{of[label].get(joint, np.nan):.4f}" for label in columns))
    made.add_row("all", *(f"{errors.relative_total:.4f}" for errors in columns.values()), style="bold")
    return made


def _runs_table(result: IdentifiedModel) -> Table:
    """Errors of each run, and of its worst joint."""
    made = table("Errors of each run", ("run", "role", "all", "worst joint", ""), left=("run", "role", ""), **COMPACT)
    for run in result.model.by_run:
        joints = {name: error for name, error in run["joints"].items() if error is not None}
        worst = max(joints, key=lambda name: joints[name], default="")
        words = [f"{x:.4f}" if x is not None else "-" for x in (run["total"], joints.get(worst))]
        made.add_row(escape(str(run["run"])), run["role"], *words, escape(worst))
    return made


def _parameter_table(result: IdentifiedModel) -> Table:
    found = result.intervals
    listed = zip(found.names, found.units, found.values, found.low, found.high, strict=True)
    rows = [(escape(name), f"{x:.5g}", f"{low:.4g} … {high:.4g}", unit) for name, unit, x, low, high in listed]
    title = f"{len(result.estimate.names)} parameters"
    return table(title, ("name", "value", "95 % interval", "unit"), rows, left=("name", "unit"))


def run_report(folder: Path, as_json: bool, **given: Any) -> None:
    """Write the report; beside it a PDF where that is asked for."""
    report = report_stage(folder, echo_progress, **given)
    if as_json:
        typer.echo(json.dumps(report.data, allow_nan=False))
        return
    for sentence in report.sentences:
        typer.echo(sentence)
    typer.echo(f"\nLook at {report.written[-1]}")


def run_comparison(folder: Path, other: Path, as_json: bool) -> None:
    """Compare two reports: what is repeatable, what has changed."""
    result = compare(*(read_report((path.parent if path.is_file() else path) / DATA) for path in (folder, other)))
    path = write_comparison(folder, result)
    echo_progress(f"wrote {path}")
    if as_json:
        echo_json(result)
        return
    for sentence in (result["verdict"]["headline"], *result["sentences"]):
        typer.echo(sentence)
    typer.echo(f"\nOpen {path}")


def print_load(model: Model) -> None:
    """Print the load with its intervals and ratings."""
    console, load = Console(), model.load or {}
    title = f"The load on link {model.payload['link']}, about its centre of gravity"
    rows = [
        (row["name"], f"{row['value']:.4g}", "{:.4g} … {:.4g}".format(*row["interval"]), row["unit"])
        for row in load["at_center"]
    ]
    console.print(table(title, ("", "value", "95 % interval", "unit"), rows, left=("", "unit")))
    for sentence in _sentences(load):
        console.print(sentence, markup=False, highlight=False)


def _sentences(load: Mapping[str, Any]) -> Iterator[str]:
    yield f"Carried: {load['answer']}."
    static = load["static"] or {}
    if "mass" in static and load["method"] == "motion":
        center = ", ".join(f"{1e3 * x:.1f}" for x in static["center"])
        yield f"By poses held alone: {static['mass']:.4g} ± {static['sigma'][0]:.2g} kg, centre ({center}) mm."
    if "refusal" in static:
        yield f"Poses held: {static['refusal']}"
    if load["refusal"]:
        yield f"No body has these data: {load['refusal']}"
    for one in load["rating"]["quantities"]:
        yield f"{one['sentence']}."
