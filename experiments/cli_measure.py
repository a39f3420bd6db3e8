"""The verbs that measure: `bench` against what is installed beside us, `study` against what papers print."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from excitor.experiments.figures import Report

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


class Bench(StrEnum):
    """What can be measured."""

    physics = "physics"
    identify = "identify"
    design = "design"
    programs = "programs"
    chain = "chain"
    faults = "faults"
    readers = "readers"
    payload = "payload"
    estimators = "estimators"
    compare = "compare"
    watch = "watch"


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    for verb in (bench, study):
        app.command()(verb)


def bench(
    name: Annotated[Bench, typer.Argument(help="What to measure.")] = Bench.physics,
    full: Annotated[bool, typer.Option("--full", help="Measure as often as the targets ask for.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of compare: folder of the published recordings.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure our speed against what is installed beside us, as ratios in one run; exit 1 if a target is missed.

    \b
    Examples:
      excitor bench physics --json
      excitor bench compare --data recordings/
    """
    from importlib import import_module

    if data is not None and name is not Bench.compare:
        raise typer.BadParameter("--data goes with compare")
    given = {} if data is None else {"data": data}
    show_report(import_module(f"excitor.experiments.bench.{name.value}").run(full, **given), as_json)


def study(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which paper; none: list them.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the published recordings.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to write plots and tables.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Repeat randomised parts more often.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce a paper, side by side with its printed numbers; exit 1 if a target is missed.

    \b
    Examples:
      excitor study
      excitor study qrc350-in-process --data recordings/ --out plots/
    """
    from excitor.experiments import studies

    if name is not None:
        show_report(studies.find(name).run(data, out, full=full), as_json)
    elif as_json:
        listed = [{"name": key, "title": studies.title(key)} for key in studies.STUDIES]
        typer.echo(json.dumps({"studies": listed}, indent=2))
    else:
        for key in studies.STUDIES:
            typer.echo(f"{key:20} {studies.title(key)}")


def show_report(report: "Report", as_json: bool) -> None:
    """Show figures; exit 1 if a target is missed."""
    from excitor.experiments.figures import print_table, to_json

    if as_json:
        typer.echo(to_json(report))
    else:
        print_table(report)
    if any(figure.holds is False for figure in report.figures):
        raise typer.Exit(1)
