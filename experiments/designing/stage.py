"""`excitor design`: open the campaign, design it, write design.json and plan.html, tell the result."""

import json
from pathlib import Path
from typing import Any

import typer

from excitor.design.explain import InfeasibleDesign
from excitor.experiments.campaign import open_campaign
from excitor.experiments.designing.campaign_design import Designed, design
from excitor.experiments.designing.checkpoint import forget
from excitor.experiments.designing.file import FILE, summary, write_design
from excitor.experiments.designing.settings import settings_of
from excitor.experiments.designing.setup import Setup, set_up
from excitor.experiments.designing.terminal import print_designed, progress
from excitor.experiments.files import write_atomically
from excitor.robots.errors import ExcitorError

PAGE = "plan.html"


INTERRUPTED = 130  # exit code of a command that SIGINT ended: 128 + 2


def run_design(folder: Path, as_json: bool, **given: Any) -> int:
    """Run the stage, and return its exit code.

    1: a limit is not proven to hold, so that the design must not be run on a robot; 130: the search was interrupted.
    """
    setup = set_up(open_campaign(folder, "design"))
    settings = settings_of(setup.design, given)
    for remark in setup.remarks:
        typer.echo(f"note: {remark}", err=True)
    try:
        with progress() as listen:
            designed = design(setup, settings, listen)
    except InfeasibleDesign as error:
        set_aside(folder)
        raise ExcitorError(f"{error}\n{_margins_told(setup)}") from None
    for path in write_all(designed):
        typer.echo(f"wrote {path}", err=True)
    if as_json:
        typer.echo(json.dumps(summary(designed), indent=2, allow_nan=False))
    else:
        print_designed(designed)
    if not designed.finished:
        return INTERRUPTED
    return 0 if designed.ready else 1


def set_aside(folder: Path) -> None:
    """Rename an earlier design: it is of another campaign, and its go is no go of this one."""
    folder = folder.parent if folder.is_file() else folder
    for name in (FILE, PAGE):
        path = folder / name
        if path.exists():
            old = path.with_stem(f"{path.stem}.old")
            path.replace(old)
            typer.echo(f"{path} was of an earlier campaign; it is {old.name} now", err=True)


def _margins_told(setup: Setup) -> str:
    """Say that figures are of limits after their margins, which is not what the file states."""
    limits = setup.campaign.content.limits
    return (
        f"All limits are those left by [limits]: {limits.velocity_percent:g} % of velocities, "
        f"{limits.acceleration_percent:g} % of accelerations, {limits.torque_percent:g} % of torques. To type a limit "
        "of a joint there, divide by that share."
    )


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
