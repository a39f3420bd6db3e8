"""Demonstration of all stages on the built-in TX-40: plan, programs, simulated logs, a model, a report."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from excitor.experiments.emit import Request, emit, verify_folder
from excitor.experiments.figures import Figure, Report
from excitor.experiments.identification import IdentifiedModel, noise_share
from excitor.experiments.init import begin
from excitor.experiments.plan import CampaignDesign
from excitor.experiments.report.data import write_report
from excitor.experiments.report.evidence import chain_commands, simulated_runs
from excitor.experiments.setup import Overrides
from excitor.experiments.simulate import SimulationOptions, simulate
from excitor.experiments.stages import PAGE, design_stage, identify_stage
from excitor.experiments.verbs.design import print_designed, progress
from excitor.experiments.verbs.identify import print_identified
from excitor.experiments.verbs.robots import print_page, robot_page
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.kernel.reference import reference_regressor
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

N_SAMPLES = 1000
EVALUATIONS = 6000
TARGET = "ros2"
FLOOR_RATIO = 1.15  # of the error on torques that were not used, over the noise of those torques
_CELL = """
[[cell.zone]]
name = "table"
keep = "out"
shape = "half-space"
point = [0.0, 0.0, 0.0]
normal = [0.0, 0.0, 1.0]
clearance_m = 0.05

[[cell.zone]]
name = "wall"
keep = "out"
shape = "box"
low = [-0.7, 0.35, 0.0]
high = [0.7, 0.45, 1.2]
"""
_EDITS = (  # of the campaign.toml that init writes
    ("\n[noise]", f"{_CELL}\n[noise]"),
    ("base_frequency_hz = 0.1 ", "base_frequency_hz = 0.2 "),  # half as long: it is a demo
    ("one period takes 10 s", "one period takes 5 s"),
)


def run(folder: Path | None, quiet: bool = False) -> Report:
    """Run all stages on the TX-40, each as its command does."""
    from threadpoolctl import threadpool_limits

    start = time.process_time()
    folder = Path(tempfile.mkdtemp(prefix="excitor-demo-")) / "tx40" if folder is None else folder
    page = robot_page("tx40")
    if not quiet:
        print_page(page)
    with threadpool_limits(1):
        ratio = _ratio(page.robot)
        designed, plan = _designed(folder, quiet)
        programs = _programs(folder, quiet)
        with _stage(f"excitor simulate {folder} --target {TARGET}", quiet):
            simulate(folder, [TARGET], SimulationOptions(), lambda _: None)
        identified = _model(folder, quiet)
        report = _report(folder, identified, quiet)
    assert identified.held_out is not None
    error, floor = identified.held_out.model.relative_total, noise_share(identified)
    spent = time.process_time() - start
    figures = [
        Figure("demo.base_parameters", float(len(page.base)), "", 60.0, "equal", 60.0),
        Figure("demo.certified", float(designed.ready), "", 1.0, "equal"),
        Figure("demo.condition", designed.searched[0].condition),
        Figure("demo.heldout_error", error, "of the torque", FLOOR_RATIO * floor, "at most"),
        Figure("demo.noise_floor", floor, "of the torque"),
        Figure("demo.regressor_ratio", ratio, "times plain numpy"),
        Figure("demo.design_s", designed.cpu_seconds, "s CPU"),
        Figure("demo.cpu_s", spent, "s CPU", 90.0, "at most"),
    ]
    pages = [plan, programs, report]
    if not quiet:
        _print_pages(folder, pages)
    return Report("demo", "demo", figures, {"folder": str(folder), "pages": [str(path) for path in pages]})


def _designed(folder: Path, quiet: bool) -> tuple[CampaignDesign, Path]:
    """Write a campaign in a cell with a table and a wall, and design it."""
    with _stage(f"excitor init {folder} --robot tx40, then excitor design {folder}", quiet):
        path = begin(folder, "tx40")
        text = path.read_text("utf-8")
        for there, new in _EDITS:
            if there not in text:
                raise ExcitorError(f"{path}: the demo cannot write {new!r}, as {there!r} is not in it")
            text = text.replace(there, new, 1)
        path.write_text(text, "utf-8")
        given = Overrides(evaluations=EVALUATIONS)
        designed = design_stage(folder, given, lambda _: None, nullcontext if quiet else progress)
    if not quiet:
        print_designed(designed)
    return designed, folder / PAGE


def _programs(folder: Path, quiet: bool) -> Path:
    """Write programs, and verify them from their files."""
    with _stage(f"excitor emit {folder} --target {TARGET}, then excitor verify {folder}", quiet):
        _, emitted = emit(folder, Request((TARGET,)), lambda _: None)
        made = next(one for one in emitted if one.name == TARGET)
        if made.folder is None:
            raise ExcitorError(f"{folder}: {made.refused}")
        _, found = verify_folder(folder, lambda _: None)
        if not all(verified.good for verified in found):
            raise ExcitorError(f"{folder}: programs fail their check; excitor verify {folder} lists the errors")
    return made.folder / "README.md"


def _model(folder: Path, quiet: bool) -> IdentifiedModel:
    with _stage(f"excitor identify {folder}", quiet):
        identified = identify_stage(folder, None, lambda _: None)
    assert isinstance(identified, IdentifiedModel)
    if not quiet:
        print_identified(identified)
    return identified


def _report(folder: Path, identified: IdentifiedModel, quiet: bool) -> Path:
    from excitor.experiments.design_json import read_design

    with _stage(f"excitor report {folder}", quiet):
        design_data = read_design(folder)
        commands = chain_commands(identified.campaign, design_data, simulated_runs(identified.campaign))
        written = write_report(folder, identified, design=design_data, commands=commands)
    return next(path for path in written if path.suffix == ".html")


@contextmanager
def _stage(command: str, quiet: bool) -> Iterator[None]:
    """Print the command of a stage, and its duration."""
    from rich.console import Console

    console = Console(stderr=True)
    start = time.process_time()
    if not quiet:
        console.print(f"\n$ {command}", style="bold", markup=False, highlight=False, soft_wrap=True)
    yield
    if not quiet:
        console.print(f"  {time.process_time() - start:.1f} s", style="dim")


def _print_pages(folder: Path, pages: list[Path]) -> None:
    from rich.console import Console

    console = Console()
    console.print("\nNothing of this has been on a robot: the logs are a virtual one's. Open")
    contents = ("the motion in its cell", "what the operator reads", "what was learned")
    for path, what in zip(pages, contents, strict=True):
        console.print(f"  {path}   {what}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"What is up to date: excitor status {folder}", markup=False, highlight=False, soft_wrap=True)
    console.print("Next: excitor init my-cell --robot YOUR-ROBOT.urdf, then excitor design my-cell")


def _ratio(robot: Robot) -> float:
    """Compare the compiled regressor with plain numpy."""
    assert isinstance(robot.mechanism, Tree)
    mechanism = robot.mechanism
    motion = Motion(*np.random.default_rng(0).normal(size=(3, N_SAMPLES, robot.n_joints)))
    compiled = _cpu_seconds(lambda: regressor(robot, motion), 20)
    return _cpu_seconds(lambda: reference_regressor(mechanism, motion), 3) / compiled


def _cpu_seconds(task: Callable[[], object], repeats: int) -> float:
    task()
    start = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - start) / repeats
