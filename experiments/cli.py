"""Command line: verbs, options, exit codes. Each verb's work is in another module, imported when it is called."""

import functools
import gc
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from excitor.experiments.figures import Report


app = typer.Typer(
    name="excitor",
    help="Design, run and evaluate identification experiments on robots: excitation, dynamic model, and its "
    "uncertainty.\n\nExample: excitor robots tx40",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Where = Path | None
Name = str | None
Names = list[str] | None
Files_ = list[Path] | None
Language = Literal["c", "st", "python"] | None
Form = Literal["toml"] | None
Task = Literal["arm", "payload", "gains"]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Cluster = Annotated[
    Name, typer.Option(metavar="ADDRESS", envvar="EXCITOR_CLUSTER", help="A dask scheduler, as tcp://HOST:8786.")
]
Files = Annotated[
    Where,
    typer.Option(exists=True, file_okay=False, metavar="DIR", help="Allow files of one more folder, for this call."),
]


def reads_files(verb: Callable[..., None]) -> Callable[..., None]:
    """Add a verb that has the option --files: a folder outside its own that files may be read from, this once."""

    @functools.wraps(verb)
    def read_files(*args: Any, files: Path | None = None, **options: Any) -> None:
        if files is None:
            return verb(*args, **options)
        from excitor.robots.files.folders import allow_folder

        with allow_folder(files):
            return verb(*args, **options)

    own = inspect.signature(verb)
    added = inspect.Parameter("files", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Files)
    read_files.__signature__ = own.replace(parameters=[*own.parameters.values(), added])  # type: ignore[attr-defined]
    read_files.__annotations__ = {**verb.__annotations__, "files": Files}
    return app.command(verb.__name__.partition("_")[0])(read_files)


_INTERRUPTED = 130


def main() -> None:
    """Run the command line: findings and bad input are reported as sentences with exit code 1, never as a traceback."""
    from excitor.robots.errors import ExcitorError

    gc.set_threshold(100_000, 20, 20)  # a tenth of compiling went into looking for cycles of objects that stay
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our letters must still show the page
    code: object = 1
    try:
        if (code := app(standalone_mode=False)) == _INTERRUPTED:
            print_error("interrupted")
        sys.stdout.flush()
    except BrokenPipeError:
        _close_output()  # whoever read us has stopped
    except (typer.Abort, KeyboardInterrupt):
        print_error("interrupted")
        code = _INTERRUPTED
    except (ExcitorError, ValueError, OSError) as error:
        print_error(str(error))
    except RecursionError:
        print_error("an input nests too deeply to be read")
    except Exception as error:
        if str(error).startswith("Symlink loop"):
            print_error(f"{error}: a symbolic link leads back to itself")
        elif hasattr(error, "format_message"):  # wrong usage
            error.show()  # type: ignore[attr-defined]
            print_error(error.format_message(), shown=True)
            code = getattr(error, "exit_code", 2)
        else:
            raise
    sys.exit(code if isinstance(code, int) else 0)


def print_error(sentence: str, *, shown: bool = False) -> None:
    """Print an error: on stderr, and for scripts as a JSON object on stdout; a full device keeps neither."""
    sentence = re.sub(r"\S{2000,}", lambda word: f"{word[0][:200]}…", sentence)  # a key of a damaged file
    try:
        if not shown:
            typer.echo(sentence, err=True)
        if {"--json", "--lines"} & set(sys.argv):
            typer.echo(json.dumps({"error": sentence.splitlines()}, indent=2))
        sys.stdout.flush()
    except OSError:
        _close_output()


def _close_output() -> None:
    """Let what is still to be written to stdout go nowhere, so that the end of the process does not fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Process options before a verb."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"excitor {installed('excitor')}")
        raise typer.Exit


@reads_files
def robots(
    source: Annotated[Name, typer.Argument(metavar="NAME|FILE", help="Catalogue name, or .toml, .urdf, .xml.")] = None,
    lock: Annotated[Names, typer.Option(metavar="JOINT", help="What locking it loses; repeatable.")] = None,
    export: Annotated[Language, typer.Option(help="Write the inverse dynamics as code.")] = None,
    equations: Annotated[bool, typer.Option("--equations", help="Print M, c, g, friction, energies.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Count what the models cost to evaluate.")] = False,
    to: Annotated[Form, typer.Option(help="Write the robot as a file, with where figures are from.")] = None,
    out: Annotated[Where, typer.Option(metavar="FILE", help="Where to write what is asked for.")] = None,
    parameters: Annotated[bool, typer.Option("--parameters", help="List base parameters and regroupings.")] = False,
    presets: Annotated[bool, typer.Option("--presets", help="List arms whose figures a URDF gets by default.")] = False,
    as_json: Json = False,
) -> None:
    """List robots, or show one: findings, joints, limits, volumes.

    With --parameters, its base parameters are listed with their regroupings.

    Exit code 1 if the robot should not be used as it is.

    \b
    Examples:
      excitor robots
      excitor robots my-robot.urdf
      excitor robots --presets --json
      excitor robots tx40 --lock j1 --lock j2
      excitor robots tx40 --export c --out tx40.c
      excitor robots my-cell --equations        (with the identified numbers)
      excitor robots my-robot.urdf --to toml --out my-robot.toml
    """
    options = {"--export": export, "--equations": equations, "--counts": counts, "--to": to}
    requested = [name for name, given in options.items() if given]
    if presets and (source or lock or out or requested):
        raise typer.BadParameter("--presets goes alone, or with --json")
    check_usage(requested, source, lock, out)
    announce_compilation()
    from excitor.experiments.verbs.robots import list_presets, list_robots, show_model, show_robot, write_robot

    if presets:
        list_presets(as_json)
    elif source is None:
        list_robots(as_json)
    elif to is not None:
        write_robot(source, out, as_json)
    elif requested:
        show_model(source, export, equations, out, as_json)
    elif not show_robot(source, lock or [], parameters, as_json):
        raise typer.Exit(1)


def check_usage(requested: list[str], source: str | None, lock: list[str] | None, out: Path | None) -> None:
    """Refuse options that exclude each other."""
    if len(requested) > 1:
        raise typer.BadParameter(f"{' and '.join(requested)} do not go together; use one at a time")
    if source is None and (requested or lock or out):
        raise typer.BadParameter("name a robot to show")
    if requested and lock:
        raise typer.BadParameter(f"--lock does not go with {requested[0]}; lock joints in the robot's file")
    if out is not None and requested not in (["--export"], ["--equations"], ["--to"]):
        raise typer.BadParameter("--out goes with --export, --equations or --to")
    if out is not None and source is not None and out.exists() and Path(source).exists() and out.samefile(source):
        raise typer.BadParameter("--out names the robot's own file, which would be lost")


def announce_compilation() -> None:
    """Print that the first use compiles the kernel."""
    from excitor.robots.kernel.compile import is_compiled

    if not is_compiled():
        typer.echo("Compiling the physics kernel, this once: some ten seconds of CPU time …", err=True)


@reads_files
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new, or has no campaign yet.")],
    more: Annotated[Files_, typer.Argument(metavar="[LOGS]", help="Further logs, after --from-logs.")] = None,
    robot: Annotated[Name, typer.Option(metavar="NAME|FILE", help="Catalogue name, or .toml, .urdf, .xml.")] = None,
    task: Annotated[
        Task, typer.Option(help="What to identify: the arm, what it carries, or its drives' gains.")
    ] = "arm",
    from_logs: Annotated[Where, typer.Option(metavar="FILE|DIR", help="Logs there are, instead of a design.")] = None,
    prior: Annotated[Where, typer.Option(metavar="FILE", help="The arm's model.json, for --task payload.")] = None,
    as_json: Json = False,
) -> None:
    """Create a campaign: a folder with a commented campaign.toml.

    It can be designed without changes: `excitor design`. With --from-logs it is one of logs that there are: columns,
    units and clock are judged by what robots do, what the logs do not show is named, and `excitor identify` is next.

    \b
    Examples:
      excitor init my-cell --robot tx40
      excitor init my-arm --robot my-arm.urdf --from-logs monday.csv tuesday.csv
      excitor init my-gripper --task payload --robot kr150 --prior my-cell/model.json
      excitor init my-drives --task gains --robot tx40
    """
    if from_logs is not None:
        from excitor.experiments.verbs.identify import run_from_logs

        run_from_logs(folder, [from_logs, *(more or ())], robot, task, as_json)
        return
    if robot is None or more:
        raise typer.BadParameter("name the robot: --robot NAME|FILE" if robot is None else "logs go with --from-logs")
    from excitor.experiments.files import typed
    from excitor.experiments.init import begin
    from excitor.experiments.plan import surely_wrong
    from excitor.robots.lint import gaps
    from excitor.robots.load import load

    path, described = begin(folder, robot, task, prior), load(robot)
    missing, wrong = gaps(described), surely_wrong(described)
    if as_json:
        typer.echo(json.dumps({"campaign": str(path), "missing": missing, "wrong": wrong}, indent=2))
        return
    typer.echo(f"wrote {path}")
    for sentence in wrong:
        typer.echo(sentence)
    if missing:
        typer.echo(f"What {robot} leaves out, the costliest first; in a robot file with base = {Path(robot).name!r}:")
    for gap in missing:
        typer.echo("  {what}: {costs}\n{line}".format(**gap).replace("\n", "\n      "))
    typer.echo(f"State the robot's surroundings in {path.name}, then: excitor design {typed(folder)}")


@reads_files
def design(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml.")],
    seed: Annotated[int | None, typer.Option(min=0, max=2**31, help="Seed of all random numbers.")] = None,
    evaluations: Annotated[int | None, typer.Option(min=1, help="Budget of each run, reproducible.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.01, help="Budget of each run, CPU seconds.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Local processes that search.")] = 1,
    cluster: Cluster = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Search anew.")] = False,
    pick: Annotated[
        int | None, typer.Option(min=0, help="Index of the motion to take, of those listed in plan.html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Design a campaign's motions: design.json and plan.html.

    Motions are searched and certified, and the accuracy of the parameters is forecast.

    An unfinished search is resumed, and one whose motion would not change is kept: --pick takes another of its
    motions, certified like the best. Exit code 1 if no motion is feasible, or a limit is not proven to hold; 130 if
    the search was interrupted, which makes the design a no-go until it is finished.

    With --evaluations, the result is the same for any number of workers; --seconds are CPU seconds of all of them.

    \b
    Examples:
      excitor design my-cell
      excitor design my-cell --evaluations 200000 --workers 4
      excitor design my-cell --seconds 30 --seed 1 --fresh
      excitor design my-cell --pick 2
    """
    from excitor.experiments.setup import Overrides
    from excitor.experiments.verbs.design import run_design

    if evaluations is not None and seconds is not None:
        raise typer.BadParameter("--evaluations and --seconds do not go together; a budget is one of them")
    announce_compilation()
    if code := run_design(folder, as_json, Overrides(seed, evaluations, seconds, workers, fresh, pick, cluster)):
        sys.exit(code)  # its result is printed, whatever the code is: not an error of its own


class Refusal(StrEnum):
    """Refusals of `excitor emit` that can be overridden deliberately."""

    no_go = "no-go"
    unknown_limits = "unknown-limits"


@reads_files
def emit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a design.json.")],
    target: Annotated[list[str], typer.Option("--target", metavar="NAME", help="Controller; repeatable; or all.")],
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Allow controllers that keep times only roughly.")
    ] = False,
    spacing: Annotated[
        float | None, typer.Option(min=1e-3, max=10.0, metavar="S", help="Interval between points of a table, s.")
    ] = None,
    loss: Annotated[
        float, typer.Option("--loss-percent", min=0.0, help="How much the condition number may grow in execution.")
    ] = 5.0,
    motion_only: Annotated[
        bool, typer.Option("--motion-only", help="Allow controllers whose logs cannot give a model of this robot.")
    ] = False,
    allow: Annotated[
        list[Refusal] | None,
        typer.Option(
            "--allow",
            help="Write programs of a no-go design, or of joints without acceleration limits, marked as such.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a design's programs for controllers: programs/NAME/.

    Each folder has the runs, their dry runs, and a page for the operator.

    Each program is run on a virtual clock first; one that deviates from its plan is not written. A no-go design is
    refused; with --allow no-go its pages, programs and manifests state it. Targets: urscript, rapid, twincat,
    franka, ros2, krl, krl-rsi, fanuc-j519, csv; with --approximate also rapid-move, val3, fanuc.

    Example: excitor emit my-cell --target urscript --target ros2
    """
    from excitor.experiments.emit import Request
    from excitor.experiments.verbs.emit import run_emit

    announce_compilation()
    request = Request(tuple(target), approximate, spacing, loss / 100.0, motion_only, tuple(map(str, allow or ())))
    if not run_emit(folder, request, as_json):
        raise typer.Exit(1)


@reads_files
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with programs/.")], as_json: Json = False
) -> None:
    """Verify emitted programs on a virtual clock against the plan.

    Exit code 1 if one fails.

    No check away from the robot proves that a controller accepts a program: the first run on hardware is the dry run.

    Example: excitor verify my-cell
    """
    from excitor.experiments.verbs.emit import run_verify

    announce_compilation()
    if not run_verify(folder, as_json):
        raise typer.Exit(1)


@reads_files
def identify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml and logs.")],
    method: Annotated[
        Name, typer.Option(metavar="NAME", help="As `excitor compare` names them; none: the campaign's, or wls.")
    ] = None,
    allow: Annotated[
        Names, typer.Option(metavar="NAME", help="A refusal of the data to pass over, as it names itself; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Identify a robot from a campaign's logs: model.json.

    Also written: model.c, model.py, and model.urdf for a URDF robot.

    Exit code 1, and no model, if the data are unusable; exit code 1 too if the model must not be used: one that is
    worse than gravity, or than the prior model beyond chance, on data that it was not fitted to.

    \b
    Examples:
      excitor identify my-cell
      excitor identify my-cell --method ridge
      excitor identify my-cell --allow friction
    """
    from excitor.experiments.verbs.identify import run_identify

    announce_compilation()
    if run_identify(folder, as_json, method, allow or ()) is False:
        raise typer.Exit(1)


@reads_files
def gains(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml and logs.")],
    as_json: Json = False,
) -> None:
    """Identify the drives' gains: gains.json, gains.toml, gains.html.

    Runs without and with a weighed body on the tool ([payload] mass, and `loaded` in each [[run]] that has no program)
    set the scale. A gain that the data do not determine is refused by name. gains.toml is the robot with the
    identified law and its deviations, to be named as the robot of later campaigns.

    Exit code 1 if no gain is answered.

    \b
    Examples:
      excitor init my-drives --task gains --robot tx40
      excitor gains my-drives
      excitor init my-cell --robot my-drives/gains.toml
    """
    from excitor.experiments.verbs.gains import run_gains

    announce_compilation()
    if not run_gains(folder, as_json):
        raise typer.Exit(1)


@reads_files
def fleet(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="A tree of campaign folders, or a table of arms.")],
    workers: Annotated[int, typer.Option(min=1, max=512, metavar="N", help="Local processes.")] = 1,
    cluster: Cluster = None,
    out: Annotated[Where, typer.Option(metavar="DIR", help="Where results go; none: fleet/ in or beside ROOT.")] = None,
    false_alarms: Annotated[
        float, typer.Option(min=1e-9, max=0.1, metavar="RATE", help="Share of good arms that may fail.")
    ] = 2e-4,
    reports: Annotated[bool, typer.Option("--reports", help="Write each newly identified arm's report.")] = False,
    as_json: Json = False,
) -> None:
    """Identify many arms, and compare each with its type: fleet.html.

    Arms whose inputs have not changed are not identified again. Results are appended to a Parquet dataset. A table
    (CSV, Parquet) has the columns arm and folder, or arm and log with a campaign.toml beside it; temperature_c or
    warm_up_minutes let friction be compared. type-ROBOT.json is the prior of the next arm of that type.

    Exit code 1 if an arm needs a look.

    \b
    Examples:
      excitor fleet line-3 --workers 4
      excitor fleet arms.csv --cluster tcp://10.0.0.5:8786 --json
    """
    from excitor.experiments.verbs.fleet import run_fleet

    announce_compilation()
    options = {"workers": workers, "cluster": cluster, "out": out, "false_alarms": false_alarms, "reports": reports}
    if not run_fleet(root, as_json, options):
        raise typer.Exit(1)


@reads_files
def simulate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with programs/.")],
    target: Annotated[
        Names,
        typer.Option("--target", metavar="NAME", help="Whose programs to run; none: all emitted, csv only if alone."),
    ] = None,
    fault: Annotated[
        Names, typer.Option("--fault", metavar="NAME[:JOINT]", help="Fault to inject; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Seed of the true robot and of noise.")] = 0,
    dry: Annotated[bool, typer.Option("--dry", help="Run the dry runs as well.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace simulated logs.")] = False,
    engine: Annotated[Literal["excitor", "mujoco"], typer.Option(help="Whose dynamics move the robot.")] = "excitor",
    payload: Annotated[float | None, typer.Option(metavar="KG", help="What the tool carries; none: as stated.")] = None,
    loss: Annotated[
        float, typer.Option(min=0.0, max=0.5, metavar="SHARE", help="Lost by gears of no stated efficiency, about.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Simulate emitted programs on a virtual robot: logs/.

    Logs are in the vendors' formats; the true parameters and the servo are in truth.json. Nothing is written where the
    robot does not follow its programs. The engine mujoco, an extra, shares no dynamics with Excitor's models; its dry
    friction creeps at rest.

    \b
    Examples:
      excitor simulate my-cell
      excitor simulate my-cell --target ros2 --fault flipped-sign:j2 --seed 3
      excitor simulate my-cell --engine mujoco
      excitor simulate my-cell --loss 0.05
    """
    from excitor.experiments.verbs.simulate import run_simulate

    announce_compilation()
    given: dict[str, Any] = {
        "seed": seed,
        "dry": dry,
        "fresh": fresh,
        "engine": engine,
        "payload_kg": payload,
        "loss": loss,
    }
    if not run_simulate(folder, as_json, targets=target or (), fault=fault or (), **given):
        raise typer.Exit(1)


@reads_files
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml.")], as_json: Json = False
) -> None:
    """List a campaign's results, stale ones, and the next step.

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


@reads_files
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml and logs.")],
    other: Annotated[
        Where, typer.Argument(metavar="OTHER", help="A second campaign, to compare with the first.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Print the page to report.pdf as well.")] = False,
    tracking: Annotated[bool, typer.Option("--tracking", help="Simulate the model as feed-forward.")] = False,
    figures: Annotated[Where, typer.Option(metavar="DIR", help="Write figures as well: SVG, PNG, PDF.")] = None,
    tables: Annotated[Where, typer.Option(metavar="DIR", help="Write tables as well: CSV, LaTeX.")] = None,
    as_json: Json = False,
) -> None:
    """Write report.html, or compare the reports of two campaigns.

    The report is of model.json; if that is stale or missing, the model is identified for the report only. With OTHER,
    two reports are compared.

    \b
    Examples:
      excitor report my-cell --pdf
      excitor report my-cell --figures paper/figures --tables paper/tables
      excitor report my-cell my-cell-a-year-later
    """
    from excitor.experiments.verbs.identify import run_comparison, run_report

    announce_compilation()
    if other is not None:
        run_comparison(folder, other, as_json)
    else:
        run_report(folder, as_json, pdf=pdf, tracking=tracking, figures=figures, tables=tables)


@reads_files
def next_run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a model.json.")],
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Seed of the search for a new motion.")] = 0,
    as_json: Json = False,
) -> None:
    """Recommend the next run, or print "stop: targets met".

    The run with the highest expected gain per second is listed with the commands to make it.

    Example: excitor next my-cell
    """
    from excitor.experiments.verbs.next import run_next

    announce_compilation()
    run_next(folder, as_json, seed=seed)


@app.command()
def demo(
    folder: Annotated[Where, typer.Argument(metavar="DIR", help="Where to write; none: a temporary folder.")] = None,
    as_json: Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print the tables of each stage, too.")] = False,
) -> None:
    """Run all stages on the built-in TX-40 in about a minute.

    A virtual robot replaces the real one. Each step is printed as its command, with what came of it.

    Example: excitor demo my-demo
    """
    from excitor.experiments import demo as demonstration
    from excitor.experiments.figures import to_json

    announce_compilation()
    report = demonstration.run(folder, as_json, verbose)
    if as_json:
        typer.echo(to_json(report))


@reads_files
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a model.json.")],
    format: Annotated[Names, typer.Option("--format", metavar="NAME", help="Repeatable; none: list them.")] = None,
    out: Annotated[Where, typer.Option(metavar="FOLDER", help="Where to write; none: DIR/exports.")] = None,
    mjcf: Annotated[Where, typer.Option(metavar="FILE", help="Your own MuJoCo file, to be filled.")] = None,
    from_link: Annotated[
        Name, typer.Option(metavar="NAME", help="Load: all that moves with this link, not the payload.")
    ] = None,
    flange: Annotated[Name, typer.Option(metavar="FRAME", help="Load: the robot's frame that is the flange.")] = None,
    point_mass: Annotated[bool, typer.Option("--point-mass", help="Load: without inertia.")] = False,
    allow: Annotated[
        Names, typer.Option(metavar="do-not-use", help="Export a model, too, that must not be used.")
    ] = None,
    with_tool: Annotated[
        bool, typer.Option("--with-tool/--without-tool", help="The arm with the load that campaign.toml states.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Export the identified model to simulators and controllers.

    Formats are MJCF, URDF, code, samples, and the payload's load data for controllers.

    Load data of a payload: kuka, abb, fanuc, ur. Impossible values, or ones below their uncertainty, are refused.

    \b
    Examples:
      excitor export my-cell
      excitor export my-cell --format mjcf --mjcf my-robot.xml --out filled
      excitor export my-cell --format kuka --format ur
    """
    from excitor.experiments.export.export import DO_NOT_USE, FORMATS, OPTIONS, ExportOptions, offers
    from excitor.experiments.export.export import export as run
    from excitor.experiments.export.load import LoadOptions
    from excitor.robots.errors import choice

    formats, allowed = list(format or ()), tuple(allow or ())
    if unknown := set(allowed) - {DO_NOT_USE}:
        raise typer.BadParameter(f"{min(unknown)!r} is not {DO_NOT_USE}", param_hint="--allow")
    for form in formats:
        if form not in FORMATS:
            raise typer.BadParameter(f"{form!r} is not one of {choice(form, FORMATS)}", param_hint="--format")
    given = (mjcf, from_link, flange, point_mass or None)
    for value, (name, needs) in zip(given, OPTIONS.items(), strict=True):
        if value is not None and formats and not set(needs) & set(formats):
            raise typer.BadParameter(f"{name} goes with --format {' or '.join(needs)}")
    options = ExportOptions(out, mjcf, LoadOptions(from_link, flange, point_mass), allowed, with_tool)
    if not formats:
        found = offers(folder, options)
        if as_json:
            listed = [
                {"format": x.format, "file": x.file or None, "notes": list(x.notes), "refused": x.refused or None}
                for x in found
            ]
            typer.echo(json.dumps({"formats": listed}, indent=2))
        for one in () if as_json else found:
            typer.echo(f"{one.format:8} {(one.refused and 'cannot be written: ' + one.refused) or one.file}")
        return
    written, doubts = run(folder, formats, options)
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


@app.command()
def study(
    name: Annotated[Name, typer.Argument(metavar="NAME", help="Which paper; none: list them.")] = None,
    data: Annotated[Where, typer.Option(metavar="DIR", help="Folder of the published recordings.")] = None,
    out: Annotated[Where, typer.Option(metavar="DIR", help="Where to write plots and tables.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Repeat randomised parts more often.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce a paper and compare with its printed numbers.

    Each figure is reproduced, not reproduced, or cannot be (no number or no recording is published), with the reason;
    a guard is a bound against regressions alone. Exit code 1 if a bound is missed. --out writes study.html too.

    \b
    Examples:
      excitor study
      excitor study qrc350-in-process --data recordings/ --out plots/
    """
    from excitor.experiments import studies

    if name is not None:
        show_report(studies.reproduce(name, data, out, full=full), as_json)
    elif as_json:
        listed = [{"name": key, "title": studies.title(key)} for key in studies.STUDIES]
        typer.echo(json.dumps({"studies": listed}, indent=2))
    else:
        for key in studies.STUDIES:
            typer.echo(f"{key:20} {studies.title(key)}")


def show_report(report: "Report", as_json: bool) -> None:
    """Print figures; exit 1 if a target is missed."""
    from excitor.experiments.figures import to_json
    from excitor.experiments.verbs.printing import print_figures

    if as_json:
        typer.echo(to_json(report))
    else:
        print_figures(report)
    if any(figure.holds is False for figure in report.figures):
        raise typer.Exit(1)


@reads_files
def compare(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a campaign.toml and logs.")],
    method: Annotated[Names, typer.Option("--method", metavar="NAME", help="Repeatable; none: all of them.")] = None,
    as_json: Json = False,
) -> None:
    """Fit with every estimator, and recommend one of the models.

    The methods are compared on held-out runs, and the recommendation is explained.

    Writes compare.html and compare.json. Methods: ols, wls, irls, ridge, tls, rls, ml, iv, didim, input-error, and wls
    on the filtered dynamic, energy, power and filtered power equations. Those that would take long are left out unless
    they are named. Exit code 1 if the data are unusable.

    \b
    Examples:
      excitor compare my-cell
      excitor compare my-cell --method wls --method input-error
    """
    from excitor.experiments.verbs.compare import run_compare

    announce_compilation()
    run_compare(folder, as_json, method or ())


@reads_files
def watch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A campaign's folder with a model.json.")],
    log: Annotated[
        Where,
        typer.Option(
            metavar="PATH", help="A text log that grows, or a folder of complete logs; none: what is new in DIR/logs."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Take what is there and end; exit 1 at an alarm or an unusable log.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.01, metavar="S", help="Interval between checks, s.")] = 1.0,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print one JSON object a cycle as they come, the summary as the last.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show it on a live page of this computer; its address is printed.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Watch once, and print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Follow logs, and report when the robot has changed.

    Each cycle updates the recursive estimate. Ctrl-C ends it.

    Cycles end as a [[run]] of campaign.toml states (period_s or cycle_s). The state is kept in DIR/watch.json.

    \b
    Examples:
      excitor watch my-cell --log /data/robot/today.csv
      excitor watch my-cell --serve
      excitor watch my-cell --log /data/robot --once --json
    """
    from excitor.experiments.verbs.watch import run_watch

    announce_compilation()
    if code := run_watch(folder, log, once=once, interval=interval, as_json=as_json, lines=lines, serve=serve):
        raise typer.Exit(code)


if __name__ == "__main__":
    main()
