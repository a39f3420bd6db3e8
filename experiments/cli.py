"""The command line: verbs, options, exit codes. Each verb's work is elsewhere and imported when it is called."""

import io
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from excitor.experiments.cli_export import register as register_export
from excitor.experiments.cli_measure import register
from excitor.experiments.cli_second import register as register_second

app = typer.Typer(
    name="excitor",
    help="Choose the motion whose measurements say most about the robot; run it; say what was learned, and how sure "
    "we are.\n\nExample: excitor robots tx40",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def main() -> None:
    """Run the command line: findings and bad input are sentences and exit code 1, never a traceback."""
    from excitor.robots.errors import ExcitorError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our letters must still show the page
    try:
        app()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has stopped
        sys.exit(1)
    except (ExcitorError, ValueError, OSError) as error:
        tell_error(str(error))
        sys.exit(1)


def tell_error(sentence: str) -> None:
    """Tell what went wrong: on stderr, and for scripts as a JSON object on stdout."""
    typer.echo(sentence, err=True)
    if {"--json", "--lines"} & set(sys.argv):
        typer.echo(json.dumps({"error": sentence.splitlines()}, indent=2))


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Handle options that stand before a verb."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"excitor {installed('excitor')}")
        raise typer.Exit


class Language(StrEnum):
    """Languages that the inverse dynamics are written in."""

    c = "c"
    st = "st"
    python = "python"


@app.command()
def robots(
    source: Annotated[str | None, typer.Argument(metavar="NAME|FILE", help="Catalogue name, .toml or .urdf.")] = None,
    lock: Annotated[list[str] | None, typer.Option(metavar="JOINT", help="What locking it loses; repeatable.")] = None,
    export: Annotated[Language | None, typer.Option(help="Write the inverse dynamics as code.")] = None,
    equations: Annotated[bool, typer.Option("--equations", help="Print M, c, g, friction (up to 4 joints).")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Count what the models cost to evaluate.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write --export or --equations.")] = None,
    as_json: Json = False,
) -> None:
    """List robots; or show one: joints, limits, base parameters with their regroupings, and what looks wrong.

    Exit code 1 if the robot should not be used as it is.

    \b
    Examples:
      excitor robots
      excitor robots my-robot.urdf
      excitor robots tx40 --lock j1 --lock j2
      excitor robots tx40 --export c --out tx40.c
    """
    asked = [name for name, given in (("--export", export), ("--equations", equations), ("--counts", counts)) if given]
    check_usage(asked, source, lock, out)
    announce_compilation()
    from excitor.experiments.robot_command import list_robots, show_model, show_robot

    if source is None:
        list_robots(as_json)
    elif asked:
        show_model(source, None if export is None else export.value, equations, out, as_json)
    elif not show_robot(source, lock or [], as_json):
        raise typer.Exit(1)


def check_usage(asked: list[str], source: str | None, lock: list[str] | None, out: Path | None) -> None:
    """Refuse options that do not go together."""
    if len(asked) > 1:
        raise typer.BadParameter(f"{' and '.join(asked)} do not go together; ask for one at a time")
    if source is None and (asked or lock or out):
        raise typer.BadParameter("name a robot to show")
    if asked and lock:
        raise typer.BadParameter(f"--lock does not go with {asked[0]}; lock joints in the robot's file")
    if out is not None and asked not in (["--export"], ["--equations"]):
        raise typer.BadParameter("--out goes with --export or --equations")
    if out is not None and source is not None and out.exists() and Path(source).exists() and out.samefile(source):
        raise typer.BadParameter("--out names the robot's own file, which would be lost")


def announce_compilation() -> None:
    """Say why the first use takes its time."""
    from excitor.robots.kernel.compile import is_compiled

    if not is_compiled():
        typer.echo("Compiling the physics kernel, this once: some ten seconds of CPU time …", err=True)


class Task(StrEnum):
    """What a campaign is to identify."""

    arm = "arm"
    payload = "payload"


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new, or has no campaign yet.")],
    robot: Annotated[str, typer.Option(metavar="NAME|FILE", help="Catalogue name, .toml or .urdf.")],
    task: Annotated[Task, typer.Option(help="What to identify: the arm, or what it carries.")] = Task.arm,
    prior: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The arm's model.json, for --task payload.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Begin a campaign: a folder with a commented campaign.toml for a robot, ready for `excitor design`.

    \b
    Examples:
      excitor init my-cell --robot tx40
      excitor init my-gripper --task payload --robot kr150 --prior my-cell/model.json
    """
    from excitor.experiments.designing.init import begin

    path = begin(folder, robot, task.value, prior)
    if as_json:
        typer.echo(json.dumps({"campaign": str(path)}, indent=2))
    else:
        typer.echo(f"wrote {path}\nSay in it what stands around the robot, then: excitor design {folder}")


@app.command()
def design(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml.")],
    seed: Annotated[int | None, typer.Option(min=0, max=2**31, help="Of everything random.")] = None,
    evaluations: Annotated[int | None, typer.Option(min=1, help="Budget of each run, reproducible.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.01, help="Budget of each run, CPU seconds.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that search.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget an unfinished search.")] = False,
    pick: Annotated[int | None, typer.Option(min=0, help="Which run of the front, if one is asked for.")] = None,
    as_json: Json = False,
) -> None:
    """Search, certify and forecast the motions of a campaign: design.json and plan.html.

    An unfinished search is resumed. Exit code 1 where no motion fits, or a limit is not proven to hold; 130 where
    the search was interrupted, which makes the design a no-go until it is finished.

    \b
    Examples:
      excitor design my-cell
      excitor design my-cell --seconds 30 --seed 1 --fresh
    """
    from excitor.experiments.designing.stage import run_design

    if evaluations is not None and seconds is not None:
        raise typer.BadParameter("--evaluations and --seconds do not go together; a budget is one of them")
    announce_compilation()
    code = run_design(
        folder, as_json, seed=seed, evaluations=evaluations, seconds=seconds, workers=workers, fresh=fresh, pick=pick
    )
    if code:
        raise typer.Exit(code)


class Refusal(StrEnum):
    """Refusals of `excitor emit` that can be overridden on purpose."""

    no_go = "no-go"


@app.command()
def emit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a design.json.")],
    target: Annotated[
        list[str], typer.Option("--target", metavar="NAME", help="Controller; repeat it for several, or say all.")
    ],
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Allow controllers that keep times only roughly.")
    ] = False,
    spacing: Annotated[
        float | None, typer.Option(min=1e-3, max=10.0, metavar="S", help="Between points of a table, s.")
    ] = None,
    loss: Annotated[
        float, typer.Option("--loss-percent", min=0.0, help="How much the condition number may grow in execution.")
    ] = 5.0,
    motion_only: Annotated[
        bool, typer.Option("--motion-only", help="Allow controllers whose logs can become no model of this robot.")
    ] = False,
    allow: Annotated[
        list[Refusal] | None, typer.Option("--allow", help="Write a no-go design's programs, which then say so.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write controllers' programs of a campaign's design: programs/NAME/, with dry runs and a page for the operator.

    Each program is run on a virtual clock first; one that is not what was planned is not written. A no-go design is
    refused; with --allow no-go its pages, programs and manifests say that it is one. Targets: urscript, rapid, twincat,
    twincat-cam, franka, ros2, krl, krl-rsi, fanuc-j519, csv; with --approximate also rapid-move, val3, fanuc.

    Example: excitor emit my-cell --target urscript --target ros2
    """
    from excitor.experiments.programming.command import run_emit

    announce_compilation()
    given = {"approximate": approximate, "spacing": spacing, "loss": loss / 100.0, "motion_only": motion_only}
    if not run_emit(folder, target, as_json, allow=[one.value for one in allow or ()], **given):
        raise typer.Exit(1)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with programs/.")],
    as_json: Json = False,
) -> None:
    """Run all emitted programs on a virtual clock against the plan. Exit code 1 where one fails.

    No check away from the robot proves that a controller accepts a program: the first run on hardware is the dry run.

    Example: excitor verify my-cell
    """
    from excitor.experiments.programming.command import run_verify

    announce_compilation()
    if not run_verify(folder, as_json):
        raise typer.Exit(1)


@app.command()
def identify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml and logs.")],
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="As `excitor compare` names them; none: the campaign's, or wls.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Identify a robot from a campaign's logs: model.json, model.c, model.py, and model.urdf for a URDF robot.

    Exit code 1, and no model, where the data would mislead.

    \b
    Examples:
      excitor identify my-cell
      excitor identify my-cell --method ridge
    """
    from excitor.experiments.identify_command import run_identify

    announce_compilation()
    run_identify(folder, as_json, method)


@app.command()
def simulate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with programs/.")],
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="NAME", help="Whose programs to run; none: all emitted.")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="NAME[:JOINT]", help="What is wrong; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Of the true robot and of noise.")] = 0,
    dry: Annotated[bool, typer.Option("--dry", help="Run the dry runs as well.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace simulated logs.")] = False,
    as_json: Json = False,
) -> None:
    """Run the emitted programs on a virtual robot: logs/ in the vendors' formats, and truth.json apart.

    \b
    Examples:
      excitor simulate my-cell
      excitor simulate my-cell --target ros2 --fault flipped-sign:j2 --seed 3
    """
    from excitor.experiments.simulating.command import run_simulate

    announce_compilation()
    if not run_simulate(folder, as_json, targets=target or (), fault=fault or (), seed=seed, dry=dry, fresh=fresh):
        raise typer.Exit(1)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml.")],
    as_json: Json = False,
) -> None:
    """Say what a campaign's folder holds, what of it is stale, and what to do next.

    Example: excitor status my-cell
    """
    from excitor.experiments.status import advice, status_data
    from excitor.experiments.status import status as look

    stages = look(folder)
    if as_json:
        typer.echo(json.dumps(status_data(stages), indent=2))
        return
    for stage in stages:
        typer.echo(f"{stage.name:24} {stage.state:11} {stage.reason}".rstrip())
    typer.echo(advice(stages))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml and logs.")],
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="A second campaign, to compare with the first.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Print the page to report.pdf as well.")] = False,
    tracking: Annotated[bool, typer.Option("--tracking", help="Simulate the model as feed-forward.")] = False,
    as_json: Json = False,
) -> None:
    """Identify, and write what was learned: report.html and report.json; with OTHER, compare two campaigns' reports.

    \b
    Examples:
      excitor report my-cell --pdf
      excitor report my-cell my-cell-a-year-later
    """
    from excitor.experiments.report.command import run_comparison, run_report

    announce_compilation()
    if other is not None:
        run_comparison(folder, other, as_json)
    else:
        run_report(folder, as_json, pdf=pdf, tracking=tracking)


@app.command("next")
def next_run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a model.json.")],
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Of the search for a new motion.")] = 0,
    as_json: Json = False,
) -> None:
    """Say which run would teach most now, and how to make it, or "stop: targets met".

    Example: excitor next my-cell
    """
    from excitor.experiments.next_run.command import run_next

    announce_compilation()
    run_next(folder, as_json, seed=seed)


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Where to write; none: a temporary folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take the built-in TX-40 from a plan to a report in about a minute; a virtual robot stands in for the real one.

    Example: excitor demo my-demo
    """
    from excitor.experiments import demo as demonstration
    from excitor.experiments.figures import to_json

    announce_compilation()
    report = demonstration.run(folder, quiet=as_json)
    if as_json:
        typer.echo(to_json(report))


register_export(app)
register(app)
register_second(app)

if __name__ == "__main__":
    main()
