"""The verbs that take a second look at a model: `compare` how it was estimated, `watch` whether it still holds."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    for verb in (compare, watch):
        app.command()(verb)


def compare(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml and logs.")],
    method: Annotated[
        list[str] | None, typer.Option("--method", metavar="NAME", help="Repeatable; none: all of them.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit with every estimator, judge each on runs that none has seen, and say which model to take, and why.

    Writes compare.html and compare.json. Methods: ols, wls, irls, ridge, tls, rls, ml, iv, didim, input-error, and wls
    on the filtered dynamic, energy, power and filtered power equations. Those that would take long are left out unless
    they are named. Exit code 1 where the data would mislead.

    \b
    Examples:
      excitor compare my-cell
      excitor compare my-cell --method wls --method input-error
    """
    from excitor.experiments.cli import announce_compilation
    from excitor.experiments.comparing.command import run_compare

    announce_compilation()
    run_compare(folder, as_json, method or ())


def watch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A campaign's folder with a model.json.")],
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="A text log that grows, or a folder of complete logs; none: what is new in DIR/logs."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Take what is there and end; exit 1 at an alarm or an unusable log.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.01, metavar="S", help="Between looks, s.")] = 1.0,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print one JSON object a cycle as they come, the summary as the last.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Watch once, and print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Follow logs, learn from each cycle, and say when the robot is not what its model says. Ctrl-C ends it.

    Cycles end as a [[run]] of campaign.toml says (period_s or cycle_s). What was learned is kept in DIR/watch.json.

    \b
    Examples:
      excitor watch my-cell --log /data/robot/today.csv
      excitor watch my-cell --log /data/robot --once --json
    """
    from excitor.experiments.cli import announce_compilation
    from excitor.experiments.watching.command import run_watch

    announce_compilation()
    code = run_watch(folder, log, once=once, interval=interval, as_json=as_json, lines=lines)
    if code:
        raise typer.Exit(code)
