"""The verb `report`: identify a campaign and write its page, or compare the reports of two."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from excitor.experiments.campaign import open_campaign
from excitor.experiments.designing.file import FILE as DESIGN
from excitor.experiments.designing.file import read_design
from excitor.experiments.identification import identify
from excitor.experiments.report.commands import chain_commands
from excitor.experiments.report.compare import compare
from excitor.experiments.report.compare_page import write_comparison
from excitor.experiments.report.read import read_report
from excitor.experiments.report.simulated import simulated_runs
from excitor.experiments.report.write import DATA, pdf, write_report


def run_report(folder: Path, as_json: bool, **given: bool) -> None:
    """Identify from the logs and write the report; beside it a PDF where that is asked for."""
    campaign = open_campaign(folder)
    folder = campaign.folder
    if campaign.content.task == "payload":
        from excitor.experiments.payload.command import run_report as run_load_report

        run_load_report(campaign, as_json, **given)
        return
    result = identify(campaign, lambda sentence: typer.echo(sentence, err=True))
    design = read_design(folder) if (folder / DESIGN).exists() else None
    commands = chain_commands(campaign, design, simulated_runs(result.campaign))
    written = write_report(folder, result, design=design, commands=commands, tracking=given.get("tracking", False))
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    if given.get("pdf"):
        typer.echo(pdf(written[-1]).sentence, err=True)
    data = read_report(folder / DATA)
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
