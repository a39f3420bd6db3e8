"""The verbs `identify` and `report`: logs into a model and its page, with printed summaries."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from excitor.experiments.identification import IdentifiedModel
from excitor.experiments.model import Model
from excitor.experiments.report.compare import compare, write_comparison
from excitor.experiments.report.data import DATA, read_report
from excitor.experiments.stages import identify_stage, report_stage


def run_identify(folder: Path, as_json: bool, method: str | None = None) -> None:
    """Identify, and write the model; by another method than the campaign's where one is named."""
    result = identify_stage(folder, method, _echo)
    if as_json:
        typer.echo(json.dumps(result.model.to_json(), indent=2, allow_nan=False))
    elif isinstance(result, IdentifiedModel):
        print_identified(result)
    else:
        print_load(result.model)


def _echo(sentence: str) -> None:
    typer.echo(sentence, err=True)


def print_identified(result: IdentifiedModel) -> None:
    """Print errors beside the baselines, then the parameters with their intervals."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    console.print(_errors_table(result))
    console.print(_parameter_table(result))
    widest = max(result.intervals.inflation)
    console.print(
        f"Intervals are 95 %, as slow as the errors are: up to {widest:.1f} times those of white residuals.",
        style="dim",
    )
    for finding in result.findings:
        console.print(
            f"{finding.level}: {escape(str(finding))}", style="yellow" if finding.level == "doubtful" else "dim"
        )
    if result.smallest_inertia <= 0.0:
        console.print(
            f"The estimated mass matrix is not positive definite (smallest eigenvalue {result.smallest_inertia:.3g}): "
            "good for the torques of motions like these, not for simulation. The consistent model is.",
            style="yellow",
        )
    if result.consistent is None:
        console.print(f"No physically consistent model: {escape(str(result.refusal))}", style="yellow")
    else:
        console.print(
            f"Physically consistent model ({result.consistent.solver}, {result.consistent.status}); it costs "
            f"{100 * result.consistent.loss:.2f} % of residual."
        )
    if result.held_out is None:
        console.print('No run has role = "validate": prediction errors of the model are unknown.', style="yellow")


def _errors_table(result: IdentifiedModel) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Torque errors |τ - τ̂| / |τ|", title_justify="left")
    for heading in ("", *result.training.joints, "all"):
        table.add_column(escape(heading), justify="right" if heading else "left")
    for validation in (result.training, result.held_out):
        if validation is None:
            continue
        rows = {validation.label: validation.model}
        if not validation.training:
            rows |= {f"  {name}": errors for name, errors in validation.baselines.items()}
        for name, errors in rows.items():
            table.add_row(name, *(f"{x:.4f}" for x in errors.relative), f"{errors.relative_total:.4f}")
    return table


def _parameter_table(result: IdentifiedModel) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{len(result.estimate.names)} parameters", title_justify="left")
    for heading in ("name", "value", "95 % interval", "unit"):
        table.add_column(heading, justify="left" if heading in ("name", "unit") else "right")
    intervals = result.intervals
    for name, unit, value, low, high in zip(
        intervals.names, intervals.units, intervals.values, intervals.low, intervals.high, strict=True
    ):
        table.add_row(escape(name), f"{value:.5g}", f"{low:.4g} … {high:.4g}", unit)
    return table


def run_report(folder: Path, as_json: bool, **given: bool) -> None:
    """Write the report; beside it a PDF where that is asked for."""
    report = report_stage(folder, _echo, **given)
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
    typer.echo(f"wrote {path}", err=True)
    if as_json:
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
        return
    for sentence in (result["verdict"]["headline"], *result["sentences"]):
        typer.echo(sentence)
    typer.echo(f"\nOpen {path}")


def print_load(model: Model) -> None:
    """Print the load with its intervals and ratings."""
    from rich.console import Console

    console = Console()
    console.print(_table(model))
    for sentence in _sentences(model.load or {}):
        console.print(sentence, markup=False, highlight=False)


def _table(model: Model) -> Any:
    from rich.table import Table

    title = f"The load on link {model.payload['link']}, about its centre of gravity"
    made = Table(title=title, title_justify="left")
    for heading in ("", "value", "95 % interval", "unit"):
        made.add_column(heading, justify="left" if heading in ("", "unit") else "right")
    for row in (model.load or {})["at_center"]:
        low, high = row["interval"]
        made.add_row(row["name"], f"{row['value']:.4g}", f"{low:.4g} … {high:.4g}", row["unit"])
    return made


def _sentences(load: Mapping[str, Any]) -> Iterator[str]:
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
