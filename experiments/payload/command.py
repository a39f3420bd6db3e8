"""What `identify` and `report` do in a payload campaign."""

import json
from collections.abc import Iterator
from typing import Any

import typer

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.designing.file import FILE as DESIGN
from excitor.experiments.designing.file import read_design
from excitor.experiments.payload.identify import IdentifiedLoad, identify_payload
from excitor.experiments.payload.model_file import center_data, load_model_data, load_ratings, write_load
from excitor.experiments.payload.rating import answer_of
from excitor.experiments.payload.report import HEADLINES, write_load_report
from excitor.experiments.report.commands import chain_commands
from excitor.experiments.report.simulated import simulated_runs
from excitor.experiments.report.write import pdf


def run_identify(campaign: OpenCampaign, as_json: bool) -> None:
    """Identify the load, write model.json, and tell it."""
    result = identify_payload(campaign, lambda sentence: typer.echo(sentence, err=True))
    typer.echo(f"wrote {write_load(result)}", err=True)
    if as_json:
        typer.echo(json.dumps(load_model_data(result), indent=2, allow_nan=False))
        return
    print_load(result)


def run_report(campaign: OpenCampaign, as_json: bool, **given: bool) -> None:
    """Identify the load, and write its page."""
    result = identify_payload(campaign, lambda sentence: typer.echo(sentence, err=True))
    design = read_design(campaign.folder) if (campaign.folder / DESIGN).exists() else None
    data, page = write_load_report(result, chain_commands(campaign, design, simulated_runs(campaign)))
    for path in (data, page):
        typer.echo(f"wrote {path}", err=True)
    if given.get("pdf"):
        typer.echo(pdf(page).sentence, err=True)
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
