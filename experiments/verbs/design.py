"""The verb `design`: progress of the search, then how good the design is, and how near the limits."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer

from excitor.design.certify.certificate import Margin, failing
from excitor.design.pareto import Front
from excitor.design.search import Progress
from excitor.experiments.design_json import summary
from excitor.experiments.plan import CampaignDesign, Listener
from excitor.experiments.setup import Overrides
from excitor.experiments.stages import design_stage

INTERRUPTED = 130  # exit code of a command that SIGINT ended: 128 + 2


def run_design(folder: Path, as_json: bool, given: Overrides) -> int:
    """Run the stage, and return its exit code.

    1: a limit is not proven to hold, so that the design must not be run on a robot; 130: the search was interrupted.
    """
    designed = design_stage(folder, given, lambda sentence: typer.echo(sentence, err=True), progress)
    if as_json:
        typer.echo(json.dumps(summary(designed), indent=2, allow_nan=False))
    else:
        print_designed(designed)
    if not designed.finished:
        return INTERRUPTED
    return 0 if designed.ready else 1


_SHOWN = 8  # of the tightest margins


@contextmanager
def progress() -> Iterator[Listener]:
    """Show a bar for each run on stderr: best so far, share of feasible candidates, time left."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        TextColumn("{task.fields[told]}", markup=False),
        TimeRemainingColumn(),
    )
    if not sys.stderr.isatty():
        yield _lines(console)
        return
    with Bars(*columns, console=console, transient=False) as bars:
        tasks: dict[str, Any] = {}

        def listen(run: str, told: Progress) -> None:
            if run not in tasks:
                tasks[run] = bars.add_task(run, total=1.0, told="")
            bars.update(tasks[run], completed=told.share, told=_told(told))

        yield listen


def _lines(console: Any) -> Listener:
    """Print the progress line by line, without a terminal: one line every few seconds."""
    last = [0.0]

    def listen(run: str, told: Progress) -> None:
        if time.monotonic() - last[0] > 5.0:
            last[0] = time.monotonic()
            console.print(f"{run}: {100 * told.share:.0f} %  {_told(told)}", markup=False, highlight=False)

    return listen


def _told(told: Progress) -> str:
    best = "none feasible yet" if told.best == float("inf") else f"best {told.best:.4g}"
    return f"{told.stage:7} {best}  feasible {100 * told.feasible_share:.0f} %  {told.evaluations} evaluations"


def print_designed(designed: CampaignDesign) -> None:
    """Print the runs, the tightest margins, the forecast's verdict, and what was assumed."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(title="Runs", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("run", "moves", "duration", "condition", "noise-weighted", "certified"):
        table.add_column(heading, justify="right" if heading in ("duration", "condition", "noise-weighted") else "left")
    for run in designed.runs:
        moving = run.plan.moving
        names = (
            "all joints"
            if moving.all()
            else ", ".join(name for name, moves in zip(designed.setup.robot.joint_names, moving, strict=True) if moves)
        )
        table.add_row(
            escape(run.plan.name),
            escape(names),
            f"{run.run.duration:.0f} s",
            f"{run.condition:.3f}",
            f"{run.condition_weighted:.3g}",
            "[green]✓[/]" if run.certificate.ready else "[red]✗ no[/]",
        )
    for pushed in designed.torque_runs:
        driven = pushed.trajectory.excitation.driven
        table.add_row(
            escape(pushed.plan.name),
            "torques" if driven.all() else f"torques on {int(driven.sum())} joints",
            f"{pushed.duration:.0f} s",
            f"{pushed.condition:.3f}",
            f"{pushed.condition_weighted:.3g}",
            "[green]✓[/] simulated" if pushed.certificate.ready else "[red]✗ no[/]",
        )
    for slow in designed.slow_runs:
        mark = "[green]✓[/]" if slow.certificate.ready else "[red]✗ no[/]"
        table.add_row(escape(slow.plan.name), slow.plan.kind, f"{slow.run.duration:.0f} s", "", "", mark)
    console.print(table)
    for plan in designed.waiting:
        console.print(f"waits: {escape(plan.name)}: {escape(plan.note)}", style="yellow")
    if designed.runs and designed.runs[0].front is not None:
        console.print(_front(designed.runs[0].front))
    console.print(_margins(designed))
    for name, certificate in designed.certificates.items():
        for item in failing(certificate)[:_SHOWN]:
            console.print(f"[red]✗[/] {escape(name)}: {escape(item.name)}: {escape(item.proof)}")
    for check in designed.checks:
        console.print(f"{'[green]✓[/]' if check.holds else '[red]✗[/]'} {escape(check.sentence)}")
    load = designed.setup.campaign.content.task == "payload"  # the arm's parameters are not what it is about
    for advice in () if load else designed.forecast.advice:
        console.print(f"  {escape(advice.sentence)}", style="dim")
    for remark in designed.setup.remarks:
        console.print(f"note: {escape(remark)}", style="yellow")
    for note in designed.notes:
        console.print(f"not checked, or not as stated: {escape(note)}", style="yellow")
    go = designed.go
    console.print("[bold green]Go.[/]" if go else "[bold red]No-go:[/] see above, and plan.html.")
    if not designed.finished:
        again = "begins again" if designed.torque_runs else "goes on"
        console.print(f"The search was interrupted: this is the best so far. The same command {again}.", style="yellow")


def _front(front: Front) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title="Runs to pick from: excitor design --pick", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for heading in (
        "pick",
        *(f"{name} {unit}".strip() for name, unit in zip(front.objectives, front.units, strict=True)),
    ):
        table.add_column(heading, justify="right")
    shown = sorted({*np.linspace(0, len(front) - 1, min(len(front), 10)).round().astype(int).tolist(), front.chosen})
    for k in shown:
        table.add_row(f"{k}{' ←' if k == front.chosen else ''}", *(f"{x:.4g}" for x in front.points[k]))
    return table


def _margins(designed: CampaignDesign) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    again = {run.plan.name for run in designed.runs if run.plan.same_as is not None}
    lines = [(name, item) for name, c in designed.certificates.items() if name not in again for item in c.items]
    lines.sort(key=lambda line: (line[1].holds, _tightness(line[1])))
    table = Table(title=f"Tightest of {len(lines)} limits", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("run", "limit", "allowed", "worst", "unit", ""):
        table.add_column(heading, justify="right" if heading in ("allowed", "worst") else "left")
    for name, item in lines[:_SHOWN]:
        mark = "[green]✓[/]" if item.holds else "[red]✗[/]"
        table.add_row(escape(name), escape(item.name), f"{item.limit:.4g}", f"{item.worst:.4g}", item.unit, mark)
    return table


def _tightness(item: Margin) -> float:
    size = abs(item.limit)
    return item.margin / size if size > 0.0 else item.margin
