"""The verb `next`: print the most informative next run, or that all targets are met."""

from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from excitor.design.forecast import first_of
from excitor.experiments.next_run import Aim, NextRunAdvice, advise, advised_data
from excitor.experiments.report.html import NONE, show
from excitor.experiments.verbs.printing import echo_json, echo_progress, running

_MOST_ROWS = 12  # rows of what is missing


def run_next(folder: Path, as_json: bool, *, seed: int = 0) -> None:
    """Find the best next run, and print it."""
    with running() as tell:
        advised = advise(folder, seed=seed, tell=tell, warn=echo_progress)
    if as_json:
        echo_json(advised_data(advised))
    else:
        print_advised(advised)


def print_advised(advised: NextRunAdvice) -> None:
    """Print the recommendation, the candidates, their expected deviations, and how to make the best one."""
    if advised.ranked:
        console = Console()
        if not console.is_terminal:
            console.width = max(console.width, 140)
        console.print(_candidates(advised))
        console.print(_missing(advised))
    typer.echo(advised.sentence)
    if advised.ranked:
        typer.echo("\nHow:")
        for line in advised.ranked[0].candidate.how:
            typer.echo(f"  {line}")
    for note in advised.notes:
        typer.echo(f"note: {note}.")


def _candidates(advised: NextRunAdvice) -> Table:
    table = Table(title="What could be run, most gain per second first")
    for heading in ("what", "robot time", "closes of what is missing", "a minute", "times until met", "teaches"):
        table.add_column(heading)
    for one in advised.ranked:
        table.add_row(
            Text(one.candidate.what),
            f"{one.candidate.seconds / 60.0:.1f} min",
            f"{100.0 * one.gain:.0f} %",
            f"{6000.0 * one.rate:.2g} %",
            NONE if one.times is None else str(one.times),
            Text(first_of(one.teaches, 6)),
        )
    return table


def _missing(advised: NextRunAdvice) -> Table:
    """List missed targets, with their deviations now and as expected after each run."""
    table = Table(title="What misses its target: standard deviations")
    best = advised.ranked[:3]
    for heading in ("", "size", "now", "target", *(f"after {one.candidate.what}" for one in best), "unit"):
        table.add_column(Text(heading))
    index = {aim.name: k for k, aim in enumerate(advised.aims)}
    for aim in advised.missing[:_MOST_ROWS]:
        after = [_marked(aim, one.expected[index[aim.name]]) for one in best]
        table.add_row(Text(aim.name), show(aim.size, 3), show(aim.now, 3), show(aim.target, 3), *after, aim.unit)
    rest = len(advised.missing) - _MOST_ROWS
    if rest > 0:
        table.caption = f"and {rest} more; --json lists all"
    return table


def _marked(aim: Aim, sigma: float) -> Text:
    return Text(show(sigma, 3), style="green" if sigma <= aim.target else "")
