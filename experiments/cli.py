"""The command line: verbs, options, exit codes. Each verb's work is elsewhere and imported when it is called."""

import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    name="excitor",
    help="Choose the motion whose measurements say most about the robot; run it; say what was learned, and how sure "
    "we are.\n\nExample: excitor robots tx40",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def main() -> None:
    """Run the command line: findings and bad input are sentences and exit code 1, never a traceback."""
    from excitor.robots.errors import ExcitorError

    try:
        app()
    except (ExcitorError, ValueError) as error:
        typer.echo(str(error), err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Handle options that stand before a verb."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"excitor {installed('excitor')}")
        raise typer.Exit


@app.command()
def robots(
    source: Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help="Catalogue name, .toml or .urdf.")] = None,
    lock: Annotated[list[str] | None, typer.Option(help="Show what locking this joint loses; repeatable.")] = None,
    export: Annotated[str | None, typer.Option(help="Write the inverse dynamics as code: c, st or python.")] = None,
    equations: Annotated[
        bool, typer.Option("--equations", help="Print M, c, g and friction (up to 4 joints).")
    ] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Count what the models cost to evaluate.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write --export or --equations to this file.")] = None,
    as_json: Json = False,
) -> None:
    """List robots; or show one: joints, limits, base parameters with their regroupings, and what looks wrong.

    Exit code 1 if the robot should not be used as it is.

    Examples:
      excitor robots
      excitor robots my-robot.urdf
      excitor robots tx40 --lock j1 --lock j2
      excitor robots tx40 --export c --out tx40.c
    """
    from excitor.experiments import robot_code

    if source is None:
        list_robots(as_json)
    elif export is not None:
        write(robot_code.code(source, export), out, as_json)
    elif equations:
        write(robot_code.equations(source), out, as_json)
    elif counts:
        data = robot_code.counts(source)
        typer.echo(json.dumps(data, indent=2)) if as_json else robot_code.print_counts(data, typer.echo)
    else:
        show_robot(source, lock or [], as_json)


def list_robots(as_json: bool) -> None:
    """List the catalogue."""
    from excitor.robots.description import catalog_names, load

    found = [load(name) for name in catalog_names()]
    if as_json:
        rows = [{"name": robot.name, "title": robot.title, "n_joints": robot.n_joints} for robot in found]
        typer.echo(json.dumps({"robots": rows}, indent=2))
        return
    for robot in found:
        typer.echo(f"{robot.name:10} {robot.n_joints} joints   {robot.title}")
    typer.echo("\nShow one with: excitor robots NAME. Your own: a .toml or .urdf file.")


def show_robot(source: str, lock: list[str], as_json: bool) -> None:
    """Show one robot; exit 1 if it should not be used as it is."""
    from excitor.experiments.robot_page import as_data, print_page, robot_page

    page = robot_page(source, lock)
    if as_json:
        typer.echo(json.dumps(as_data(page), indent=2, allow_nan=False))
    else:
        print_page(page)
    if page.has_errors:
        raise typer.Exit(1)


def write(text: str, out: Path | None, as_json: bool) -> None:
    """Write text to a file or to the screen."""
    if out is not None:
        write_atomically(out, text)
        typer.echo(f"wrote {out}", err=True)
    if as_json:
        typer.echo(json.dumps({"out": None if out is None else str(out), "text": text}, indent=2))
    elif out is None:
        typer.echo(text)


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    import os
    import tempfile

    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror or error}")


@app.command()
def demo(as_json: Json = False) -> None:
    """Show what exists so far on the built-in TX-40: its base parameters and one speed comparison.

    Example: excitor demo
    """
    from excitor.experiments import demo as demonstration
    from excitor.experiments.figures import to_json

    report = demonstration.run(quiet=as_json)
    if as_json:
        typer.echo(to_json(report))


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="What to measure: physics.")] = "physics",
    full: Annotated[bool, typer.Option("--full", help="Measure as often as the targets ask for.")] = False,
    as_json: Json = False,
) -> None:
    """Measure our speed against what is installed beside us, as ratios in one run; exit 1 if a target is missed.

    Example: excitor bench physics --json
    """
    from excitor.experiments.figures import print_table, to_json

    if name != "physics":
        fail(f"there is no bench {name!r}; expected: physics")
    from excitor.experiments.bench import physics

    report = physics.run(full)
    if as_json:
        typer.echo(to_json(report))
    else:
        print_table(report)
    if any(figure.holds is False for figure in report.figures):
        raise typer.Exit(1)


def fail(sentence: str) -> NoReturn:
    """Tell a finding and stop with exit code 1."""
    typer.echo(sentence, err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    main()
