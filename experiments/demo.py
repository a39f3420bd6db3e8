"""Demonstration of all stages on the built-in TX-40: plan, programs, simulated logs, a model, a report."""

import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from excitor.experiments.emit import Request, emit, verify_folder
from excitor.experiments.figures import Figure, Report
from excitor.experiments.files import typed
from excitor.experiments.identification import IdentifiedModel, noise_share
from excitor.experiments.init import begin
from excitor.experiments.plan import CampaignDesign
from excitor.experiments.report.data import write_report
from excitor.experiments.report.evidence import chain_commands, simulated_runs
from excitor.experiments.setup import Overrides
from excitor.experiments.simulate import SimulationOptions, simulate
from excitor.experiments.stages import PAGE, design_stage, identify_stage
from excitor.experiments.verbs.design import print_designed, progress
from excitor.experiments.verbs.identify import print_identified, print_verdict
from excitor.experiments.verbs.robots import print_page, robot_page
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.kernel.reference import reference_regressor
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

N_SAMPLES = 1000
EVALUATIONS = 6000
TARGET = "ros2"
STEPS = 6
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


@dataclass
class Story:
    """Printed lines about the stages: each one's command, its CPU time and what came of it."""

    quiet: bool
    verbose: bool
    steps: int = 0

    @contextmanager
    def step(self, command: str) -> Iterator[None]:
        """Print the command of a stage, then its duration."""
        start = time.process_time()
        self.steps += 1
        self._print(f"\n{self.steps} of {STEPS}  $ {command}", "bold")
        yield
        self._print(f"        {time.process_time() - start:.1f} s", "dim")

    def say(self, sentence: str) -> None:
        """Print what came of a stage."""
        self._print(textwrap.indent(textwrap.fill(sentence, 72, break_long_words=False), " " * 8))

    def show(self, printer: Callable[..., object], *given: object, always: bool = False) -> None:
        """Print a stage's tables where they are asked for."""
        if not self.quiet and (self.verbose or always):
            printer(*given)

    def end(self, folder: Path, pages: list[Path]) -> None:
        """Print what to open, and what to do next."""
        self._print("\nNothing of this has been on a robot: the logs are a virtual one's. Open")
        contents = ("the motion in its cell", "what the operator reads", "what was learned")
        for path, what in zip(pages, contents, strict=True):
            self._print(f"  {path}   {what}")
        self._print(f"What is up to date: excitor status {typed(folder)}")
        self._print("Next: excitor init my-cell --robot YOUR-ROBOT.urdf, then excitor design my-cell")

    def _print(self, text: str, style: str | None = None) -> None:
        if not self.quiet:
            Console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def run(folder: Path | None, quiet: bool = False, verbose: bool = False) -> Report:
    """Run all stages on the TX-40, each as its command does; tables of the stages only if verbose."""
    from threadpoolctl import threadpool_limits

    start = time.process_time()
    folder = Path(tempfile.mkdtemp(prefix="excitor-demo-")) / "tx40" if folder is None else folder
    story = Story(quiet, verbose)
    with threadpool_limits(1):
        with story.step("excitor robots tx40"):
            page = robot_page("tx40")
            ratio = _ratio(page.robot)
            story.show(print_page, page)
            story.say(f"{page.robot.n_joints} joints; {len(page.base)} base parameters, which is what motion can show.")
        designed, plan = _designed(folder, story)
        programs = _programs(folder, story)
        with story.step(f"excitor simulate {typed(folder)} --target {TARGET}"):
            simulate(folder, [TARGET], SimulationOptions(), lambda _: None)
            story.say("A virtual arm ran them and wrote its logs; its true parameters stay in truth.json.")
        identified = _model(folder, story)
        report = _report(folder, identified, story)
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
    story.show(print_verdict, Console(), identified.verdict, always=True)
    story.end(folder, pages)
    return Report("demo", "demo", figures, {"folder": str(folder), "pages": [str(path) for path in pages]})


def _designed(folder: Path, story: Story) -> tuple[CampaignDesign, Path]:
    """Write a campaign in a cell with a table and a wall, and design it."""
    quoted = typed(folder)
    with story.step(f"excitor init {quoted} --robot tx40; excitor design {quoted}"):
        path = begin(folder, "tx40")
        text = path.read_text("utf-8")
        for there, new in _EDITS:
            if there not in text:
                raise ExcitorError(f"{path}: the demo cannot write {new!r}, as {there!r} is not in it")
            text = text.replace(there, new, 1)
        path.write_text(text, "utf-8")
        given = Overrides(evaluations=EVALUATIONS)
        designed = design_stage(folder, given, lambda _: None, nullcontext if story.quiet else progress)
        story.show(print_designed, designed)
        limits = sum(len(certificate.items) for certificate in designed.certificates.values())
        held = "all proven between the samples, too" if designed.ready else "not all of them proven"
        story.say(
            f"Motions past a table and a wall: {limits} limits, {held}; condition number "
            f"{designed.searched[0].condition:.2f}. See the arm move: {folder / PAGE}"
        )
    return designed, folder / PAGE


def _programs(folder: Path, story: Story) -> Path:
    """Write programs, and verify them from their files."""
    quoted = typed(folder)
    with story.step(f"excitor emit {quoted} --target {TARGET}; excitor verify {quoted}"):
        _, emitted = emit(folder, Request((TARGET,)), lambda _: None)
        made = next(one for one in emitted if one.name == TARGET)
        if made.folder is None:
            raise ExcitorError(f"{folder}: {made.refused}")
        _, found = verify_folder(folder, lambda _: None)
        if not all(verified.good for verified in found):
            raise ExcitorError(f"{folder}: programs fail their check; excitor verify {folder} lists the errors")
        page = made.folder / "README.md"
        story.say(f"Programs, executed from their files and compared with the plan. For the operator: {page}")
    return page


def _model(folder: Path, story: Story) -> IdentifiedModel:
    with story.step(f"excitor identify {typed(folder)}"):
        identified = identify_stage(folder, None, lambda _: None)
        assert isinstance(identified, IdentifiedModel)
        story.show(print_identified, identified)
        story.say(f"{len(identified.estimate.names)} parameters with 95 % intervals, and a model of possible bodies.")
    return identified


def _report(folder: Path, identified: IdentifiedModel, story: Story) -> Path:
    from excitor.experiments.design_json import read_design

    with story.step(f"excitor report {typed(folder)}"):
        design_data = read_design(folder)
        commands = chain_commands(identified.campaign, design_data, simulated_runs(identified.campaign))
        written = write_report(folder, identified, design=design_data, commands=commands)
        page = next(path for path in written if path.suffix == ".html")
        story.say(f"What was learned, how sure it is, and what it may be used for: {page}")
    return page


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
