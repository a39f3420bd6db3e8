"""The verb `identify`: a campaign's logs into a model, and what a person is shown of it.

* What `excitor identify` shows a person: how well, how sure, and what to be careful about.
* The verb `report`: identify a campaign and write its page, or compare the reports of two.
* What `identify` and `report` do in a payload campaign.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from excitor.experiments.identification import Identified, code_note, model_data
from excitor.experiments.payload import (
    IdentifiedLoad,
    answer_of,
    center_data,
    load_model_data,
    load_ratings,
)
from excitor.experiments.report.compare import compare, write_comparison
from excitor.experiments.report.data import DATA, read_report
from excitor.experiments.report.payload import HEADLINES
from excitor.experiments.stages import by_method as by_method
from excitor.experiments.stages import identify_stage, report_stage


def run_identify(folder: Path, as_json: bool, method: str | None = None) -> None:
    """Identify, and write the model; by another method than the campaign's where one is named."""
    result, written = identify_stage(folder, method, lambda sentence: typer.echo(sentence, err=True))
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    if isinstance(result, IdentifiedLoad):
        show_load(result, as_json)
        return
    if note := code_note(result):
        typer.echo(note, err=True)
    if as_json:
        typer.echo(json.dumps(model_data(result), indent=2, allow_nan=False))
    else:
        print_identified(result)


def print_identified(result: Identified) -> None:
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
        console.print('No run has role = "validate": nothing here says how well the model predicts.', style="yellow")


def _errors_table(result: Identified) -> Any:
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


def _parameter_table(result: Identified) -> Any:
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
    """Identify from the logs and write the report; beside it a PDF where that is asked for."""
    result, written, notes = report_stage(folder, lambda sentence: typer.echo(sentence, err=True), **given)
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    for note in notes:
        typer.echo(note, err=True)
    if isinstance(result, IdentifiedLoad):
        show_load_report(result, written, as_json)
        return
    data = read_report(written[0].parent / DATA)
    if as_json:
        typer.echo(json.dumps(data, allow_nan=False))
        return
    for sentence in _verdict(data):
        typer.echo(sentence)
    typer.echo(f"\nLook at {written[-1]}")


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
    typer.echo(f"\nLook at {path}")


def _verdict(data: Mapping[str, Any]) -> Iterator[str]:
    """Repeat the page's first words."""
    verdict = data["verdict"]
    yield verdict["headline"]
    for use in verdict["uses"]:
        yield f"{use['use']}: {' '.join(use['reasons'])}"


def show_load(result: IdentifiedLoad, as_json: bool) -> None:
    """Print the load that was identified."""
    if as_json:
        typer.echo(json.dumps(load_model_data(result), indent=2, allow_nan=False))
        return
    print_load(result)


def show_load_report(result: IdentifiedLoad, written: Sequence[Path], as_json: bool) -> None:
    """Print what the page of a load says first."""
    data, page = written
    if as_json:
        typer.echo(data.read_text("utf-8").strip())
        return
    found = load_ratings(result)
    typer.echo(HEADLINES[answer_of(found)])
    for one in found:
        typer.echo(f"  {one.sentence}")
    typer.echo(f"\nLook at {page}")


def print_load(result: IdentifiedLoad) -> None:
    """Print the load with its intervals, and what it means."""
    from rich.console import Console

    console = Console()
    console.print(_table(result))
    for sentence in _sentences(result):
        console.print(sentence, markup=False, highlight=False)


def _table(result: IdentifiedLoad) -> Any:
    from rich.table import Table

    link = result.robot.mechanism.link_names[result.link]
    made = Table(title=f"The load on link {link}, about its centre of gravity", title_justify="left")
    for heading in ("", "value", "95 % interval", "unit"):
        made.add_column(heading, justify="left" if heading in ("", "unit") else "right")
    for row in center_data(result):
        low, high = row["interval"]
        made.add_row(row["name"], f"{row['value']:.4g}", f"{low:.4g} … {high:.4g}", row["unit"])
    return made


def _sentences(result: IdentifiedLoad) -> Iterator[str]:
    static = result.static
    if static is not None and result.estimate is not None:
        center = ", ".join(f"{1e3 * x:.1f}" for x in static.center)
        yield f"By poses held alone: {static.mass:.4g} ± {static.sigma[0]:.2g} kg, centre ({center}) mm."
    if result.static_refusal:
        yield f"Poses held: {result.static_refusal}"
    if result.refusal:
        yield f"No body has these data: {result.refusal}"
    for one in load_ratings(result):
        yield f"{one.sentence}."
