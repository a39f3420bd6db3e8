"""The verb `robots`: list them, show one, write its model as code."""

import json
from pathlib import Path

import typer


def show_model(source: str, export: str | None, equations: bool, out: Path | None, as_json: bool) -> None:
    """Write code, equations or operation counts of a robot's model."""
    from excitor.experiments import robot_code

    robot, warnings = robot_code.model(source)
    for warning in warnings:
        typer.echo(warning, err=True)
    if export is not None:
        write(robot_code.code(robot, export), out, as_json)
    elif equations:
        write(robot_code.equations(robot), out, as_json)
    elif as_json:
        typer.echo(json.dumps(robot_code.counts(robot), indent=2))
    else:
        robot_code.print_counts(robot_code.counts(robot), typer.echo)


def list_robots(as_json: bool) -> None:
    """List the catalogue."""
    from excitor.robots.load import catalog_names, load

    found = [load(name) for name in catalog_names()]
    if as_json:
        rows = [{"name": robot.name, "title": robot.title, "n_joints": robot.n_joints} for robot in found]
        typer.echo(json.dumps({"robots": rows}, indent=2))
        return
    for robot in found:
        typer.echo(f"{robot.name:10} {robot.n_joints} joints   {robot.title}")
    typer.echo("\nShow one with: excitor robots NAME. Your own: a .toml or .urdf file.")


def show_robot(source: str, lock: list[str], as_json: bool) -> bool:
    """Show one robot; False if it should not be used as it is."""
    from excitor.experiments.robot_page import as_data, print_page, robot_page

    page = robot_page(source, lock)
    if as_json:
        typer.echo(json.dumps(as_data(page), indent=2, allow_nan=False))
    else:
        print_page(page)
    return not page.has_errors


def write(text: str, out: Path | None, as_json: bool) -> None:
    """Write text to a file or to the screen."""
    from excitor.experiments.files import write_atomically

    if out is not None:
        write_atomically(out, text)
        typer.echo(f"wrote {out}", err=True)
    if as_json:
        typer.echo(json.dumps({"out": None if out is None else str(out), "text": text}, indent=2))
    elif out is None:
        typer.echo(text)
