"""The verb that hands a model on: `export`."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


class Form(StrEnum):
    """What a model can be exported as."""

    mjcf = "mjcf"
    urdf = "urdf"
    py = "py"
    c = "c"
    parquet = "parquet"
    kuka = "kuka"
    abb = "abb"
    fanuc = "fanuc"
    ur = "ur"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command()(export)


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a model.json.")],
    format: Annotated[list[Form] | None, typer.Option("--format", help="Repeatable; none: list them.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where to write; none: DIR/exports.")] = None,
    mjcf: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own MuJoCo file, to be filled.")] = None,
    from_link: Annotated[
        str | None, typer.Option(metavar="NAME", help="Load: all that moves with this link, not the payload.")
    ] = None,
    flange: Annotated[
        str | None, typer.Option(metavar="FRAME", help="Load: the robot's frame that is the flange.")
    ] = None,
    point_mass: Annotated[bool, typer.Option("--point-mass", help="Load: without inertia.")] = False,
    as_json: Json = False,
) -> None:
    """Write the identified model for others: simulators, code, samples, and the payload for controllers.

    Load data of a payload: kuka, abb, fanuc, ur. What no body can have, or is less sure than it is large, is refused.

    \b
    Examples:
      excitor export my-cell
      excitor export my-cell --format mjcf --mjcf my-robot.xml --out filled
      excitor export my-cell --format kuka --format ur
    """
    from excitor.experiments.exporting.load_source import Wanted
    from excitor.experiments.exporting.stage import LOADS, Asked, offers
    from excitor.experiments.exporting.stage import export as run

    formats = [form.value for form in format or ()]
    for name, given, needs in (
        ("--mjcf", mjcf is not None, ("mjcf",)),
        ("--from-link", from_link is not None, LOADS),
        ("--flange", flange is not None, LOADS),
        ("--point-mass", point_mass, LOADS),
    ):
        if given and formats and not set(needs) & set(formats):
            raise typer.BadParameter(f"{name} goes with --format {' or '.join(needs)}")
    asked = Asked(out, mjcf, Wanted(from_link, flange, point_mass))
    if not formats:
        found = offers(folder, asked)
        if as_json:
            listed = [
                {"format": x.format, "file": x.file or None, "notes": list(x.notes), "refused": x.refused or None}
                for x in found
            ]
            typer.echo(json.dumps({"formats": listed}, indent=2))
            return
        for one in found:
            typer.echo(f"{one.format:8} {(one.refused and 'cannot be written: ' + one.refused) or one.file}")
        return
    written, doubts = run(folder, formats, asked)
    for sentence in doubts:
        typer.echo(f"note: {sentence}", err=True)
    if as_json:
        files = [{"format": x.format, "file": x.file, "notes": list(x.notes)} for x in written]
        typer.echo(json.dumps({"written": files, "doubts": doubts}, indent=2))
        return
    for one in written:
        typer.echo(f"wrote {one.file}")
        for note in one.notes:
            typer.echo(f"  {note}")
