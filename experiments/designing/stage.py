"""`excitor design`: open the campaign, design it, write design.json and plan.html, tell the result."""

import json
from pathlib import Path
from typing import Any

import typer

from excitor.experiments.campaign import open_campaign
from excitor.experiments.designing.campaign_design import Designed, design
from excitor.experiments.designing.checkpoint import forget
from excitor.experiments.designing.file import summary, write_design
from excitor.experiments.designing.settings import settings_of
from excitor.experiments.designing.setup import set_up
from excitor.experiments.designing.terminal import print_designed, progress
from excitor.experiments.files import write_atomically

PAGE = "plan.html"


def run_design(folder: Path, as_json: bool, **given: Any) -> bool:
    """Run the stage; False where a limit is not proven to hold, so that the design must not be run on a robot."""
    setup = set_up(open_campaign(folder, "design"))
    settings = settings_of(setup.design, given)
    for remark in setup.remarks:
        typer.echo(f"note: {remark}", err=True)
    with progress() as listen:
        designed = design(setup, settings, listen)
    for path in write_all(designed):
        typer.echo(f"wrote {path}", err=True)
    if as_json:
        typer.echo(json.dumps(summary(designed), indent=2, allow_nan=False))
    else:
        print_designed(designed)
    return designed.ready


def write_all(designed: Designed) -> list[Path]:
    """Write the page, then the design; a finished design needs its checkpoints no longer."""
    from excitor.experiments.designing.plan_data import plan_data
    from excitor.experiments.plan_page.page import plan_page

    folder = designed.setup.campaign.folder
    page = folder / PAGE
    write_atomically(page, plan_page(plan_data(designed)))
    written = [write_design(designed), page]
    if designed.finished:
        forget(folder)
    return written
