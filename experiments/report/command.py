"""The verb `report`: identify a campaign and write its page, or compare the reports of two."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import typer

from excitor.experiments.campaign import OpenCampaign, open_campaign
from excitor.experiments.designing.file import FILE as DESIGN
from excitor.experiments.designing.file import read_design
from excitor.experiments.identification import identify
from excitor.experiments.processing import read_program
from excitor.experiments.report.compare import compare
from excitor.experiments.report.compare_page import write_comparison
from excitor.experiments.report.read import read_report
from excitor.experiments.report.write import DATA, pdf, write_report


def run_report(folder: Path, as_json: bool, **given: bool) -> None:
    """Identify from the logs and write the report; beside it a PDF where that is asked for."""
    campaign = open_campaign(folder)
    folder = campaign.folder
    result = identify(campaign, lambda sentence: typer.echo(sentence, err=True))
    design = read_design(folder) if (folder / DESIGN).exists() else None
    aligned = list(_alignments(campaign)) or None
    written = write_report(
        folder, result, design=design, alignment=aligned, commands=(f"excitor report {folder.name}",)
    )
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
    else:
        typer.echo(f"Look at {path}")


def _alignments(campaign: OpenCampaign) -> Iterator[dict[str, Any]]:
    """List what holding each program's log against its plan found."""
    for run in campaign.content.run:
        for check in read_program(campaign, run)[1].checks if run.program is not None else ():
            yield {
                "name": " ".join(filter(None, (f"{run.name}:", check.what, check.joint))),
                "found": check.figure,
                "expected": check.tolerance if np.isfinite(check.tolerance) else None,
                "unit": check.unit,
                "holds": check.holds,
                "sentence": str(check),
            }


def _verdict(data: Mapping[str, Any]) -> Iterator[str]:
    """Repeat the page's first words."""
    verdict = data["verdict"]
    yield verdict["headline"]
    for use in verdict["uses"]:
        yield f"{use['use']}: {' '.join(use['reasons'])}"
