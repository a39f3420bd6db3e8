"""The verb `fleet`: identify many arms, and compare each with its type and with its past."""

from pathlib import Path
from typing import Any

import typer

from excitor.experiments.fleet.fleet import DATA, fleet
from excitor.experiments.verbs.printing import echo_json, echo_progress

_MOST = 40  # sentences that are printed


def run_fleet(root: Path, as_json: bool, options: dict[str, Any]) -> bool:
    """Evaluate a fleet and print the verdict first; return whether no arm needs a look."""
    found = fleet(root, echo_progress, **options)
    data = found.data
    good = not set(data["counts"]) - {"good", "not compared"}
    if as_json:
        echo_json(data)
        return good
    sentences = [sentence for arm in data["arms"] for sentence in arm["sentences"]]
    typer.echo(data["verdict"])
    for sentence in sentences[:_MOST]:
        typer.echo(f"  {sentence}")
    if len(sentences) > _MOST:
        typer.echo(f"  {len(sentences) - _MOST} more are in {found.page.with_name(DATA)}")
    for one in data["types"]:
        for note in one["notes"]:
            typer.echo(f"note: {one['robot']}: {note}")
    typer.echo(f"\nLook at {found.page}")
    return good
