"""The verb `design`: progress of the search, then how good the design is, and how near the limits."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from excitor.design.certify.certify import failing
from excitor.design.pareto import Front
from excitor.design.search import Progress
from excitor.experiments.design_json import summary
from excitor.experiments.plan import CampaignDesign, Listener, SearchedRun
from excitor.experiments.setup import Overrides
from excitor.experiments.stages import design_stage
from excitor.experiments.verbs.printing import COMPACT, echo_json, echo_progress, table

INTERRUPTED = 130  # exit code of a command that SIGINT ended: 128 + 2


def run_design(folder: Path, as_json: bool, given: Overrides) -> int:
    """Run the stage, and return its exit code.

    1: a limit is not proven to hold, so that the design must not be run on a robot; 130: the search was interrupted.
    """
    designed = design_stage(folder, given, echo_progress, progress)
    if as_json:
        echo_json(summary(designed))
    else:
        print_designed(designed)
    if not designed.finished:
        return INTERRUPTED
    return 0 if designed.ready else 1


_SHOWN = 8  # of the tightest margins


@contextmanager
def progress() -> Iterator[Listener]:
    """Show a bar for each run on stderr: best so far, share of feasible candidates, time left."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        TextColumn("{task.fields[status]}", markup=False),
        TimeRemainingColumn(),
    )
    if not sys.stderr.isatty():
        yield _lines(console)
        return
    with Bars(*columns, console=console, transient=False) as bars:
        tasks: dict[str, Any] = {}

        def listen(run: str, report: Progress) -> None:
            if run not in tasks:
                tasks[run] = bars.add_task(run, total=1.0, status="")
            bars.update(tasks[run], completed=report.share, status=_status(report))

        yield listen


def _lines(console: Any) -> Listener:
    """Print the progress line by line, without a terminal: one line every few seconds."""
    last = [0.0]

    def listen(run: str, report: Progress) -> None:
        if time.monotonic() - last[0] > 5.0:
            last[0] = time.monotonic()
            console.print(f"{run}: {100 * report.share:.0f} %  {_status(report)}", markup=False, highlight=False)

    return listen


def _status(report: Progress) -> str:
    best = "none feasible yet" if report.best == float("inf") else f"best {report.best:.4g}"
    return f"{report.stage:7} {best}  feasible {100 * report.feasible_share:.0f} %  {report.evaluations} evaluations"


def print_designed(designed: CampaignDesign) -> None:
    """Print the runs, the tightest margins, the forecast's verdict, and what was assumed."""
    console = Console()
    console.print(_runs(designed))
    for plan in designed.waiting:
        console.print(f"waits: {escape(plan.name)}: {escape(plan.note)}", style="yellow")
    if designed.searched and designed.searched[0].front is not None:
        console.print(_front(designed.searched[0].front))
    elif designed.searched and len(designed.searched[0].family) > 1:
        console.print(_family(designed.searched[0]))
    console.print(_margins(designed))
    for name, certificate in designed.certificates.items():
        for item in failing(certificate)[:_SHOWN]:
            console.print(f"[red]✗[/] {escape(name)}: {escape(item.name)}: {escape(item.proof)}")
    for check in designed.checks:
        console.print(f"{_mark(check.holds)} {escape(check.sentence)}")
    load = designed.setup.campaign.content.task != "arm"  # the arm's parameters are not what it is about
    for advice in () if load else designed.forecast.advice:
        console.print(f"  {escape(advice.sentence)}", style="dim")
    for note in designed.notes:
        console.print(f"not checked, or not as stated: {escape(note)}", style="yellow")
    console.print("[bold green]Go.[/]" if designed.go else "[bold red]No-go:[/] see above, and plan.html.")
    if not designed.finished:
        console.print("The search was interrupted: this is the best so far. The same command goes on.", style="yellow")


def _runs(designed: CampaignDesign) -> Table:
    headings = ("run", "moves", "duration", "condition", "noise-weighted", "certified")
    made = table("Runs", headings, left=("run", "moves", "certified"), **COMPACT)

    def add(name: str, moves: str, seconds: float, certified: str, condition: str = "", weighted: str = "") -> None:
        made.add_row(escape(name), escape(moves), f"{seconds:.0f} s", condition, weighted, certified)

    joints = designed.setup.robot.joint_names
    for run in designed.searched:
        moving, mark = run.plan.moving, _mark(run.certificate.ready, " no")
        names = ", ".join(name for name, moves in zip(joints, moving, strict=True) if moves)
        what = "all joints" if moving.all() else names
        if run.torques is not None:
            driven = run.torques.excitation.driven
            what = "torques" if driven.all() else f"torques on {int(driven.sum())} joints"
            mark += " simulated" if run.certificate.ready else ""
        add(run.plan.name, what, run.run.duration, mark, f"{run.condition:.3f}", f"{run.condition_weighted:.3g}")
    for slow in designed.slow:
        add(slow.plan.name, slow.plan.kind, slow.run.duration, _mark(slow.certificate.ready, " no"))
    return made


def _mark(holds: bool, no: str = "") -> str:
    return "[green]✓[/]" if holds else f"[red]✗{no}[/]"


def _front(front: Front) -> Table:
    objectives = (f"{name} {unit}".strip() for name, unit in zip(front.objectives, front.units, strict=True))
    shown = sorted({*np.linspace(0, len(front) - 1, min(len(front), 10)).round().astype(int).tolist(), front.chosen})
    rows = [[f"{k}{' ←' if k == front.chosen else ''}", *(f"{x:.4g}" for x in front.points[k])] for k in shown]
    return table("Runs to pick from: excitor design --pick", ("pick", *objectives), rows, left=(), **COMPACT)


def _family(run: SearchedRun) -> Table:
    rows = [
        (
            f"{k}{' ←' if k == run.picked else ''}",
            f"{one.condition:.3f}",
            f"{one.duration:.0f} s",
            "" if one.torque is None else f"{one.torque:.0%}",
            "" if one.clearance is None else f"{1e3 * one.clearance:.0f} mm",
        )
        for k, one in enumerate(run.family)
    ]
    headings = ("pick", "condition", "duration", "torque", "clearance")
    return table(f"Designs of {run.plan.name}, to --pick", headings, rows, left=(), **COMPACT)


def _margins(designed: CampaignDesign) -> Table:
    again = {run.plan.name for run in designed.searched if run.plan.same_as is not None}
    lines = [(name, item) for name, c in designed.certificates.items() if name not in again for item in c.items]
    lines.sort(key=lambda line: (line[1].holds, line[1].margin / (abs(line[1].limit) or 1.0)))
    rows = [
        (escape(name), escape(m.name), f"{m.limit:.4g}", f"{m.worst:.4g}", m.unit, _mark(m.holds))
        for name, m in lines[:_SHOWN]
    ]
    headings = ("run", "limit", "allowed", "worst", "unit", "")
    return table(f"Tightest of {len(lines)} limits", headings, rows, left=("run", "limit", "unit", ""), **COMPACT)
