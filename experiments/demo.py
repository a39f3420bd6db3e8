"""A first look on a robot everybody can load: what is identifiable, and a certified motion that identifies it."""

import tempfile
import time
from pathlib import Path

import numpy as np

from excitor.experiments.campaign import open_campaign
from excitor.experiments.designing.campaign_design import Designed, design
from excitor.experiments.designing.init import begin
from excitor.experiments.designing.settings import settings_of
from excitor.experiments.designing.setup import set_up
from excitor.experiments.designing.stage import write_all
from excitor.experiments.designing.terminal import print_designed, progress
from excitor.experiments.figures import Figure, Report
from excitor.experiments.robot_page import print_page, robot_page
from excitor.robots.dynamics import regressor
from excitor.robots.kernel.reference import reference_regressor
from excitor.robots.robot import Motion
from excitor.robots.tree import Tree

N_SAMPLES = 1000
EVALUATIONS = 8000
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


def run(folder: Path | None, quiet: bool = False) -> Report:
    """Show the TX-40, design its campaign in a small cell, and compare the compiled regressor with plain numpy."""
    from threadpoolctl import threadpool_limits

    page = robot_page("tx40")
    if not quiet:
        print_page(page)
    robot = page.robot
    assert isinstance(robot.mechanism, Tree)
    motion = Motion(*np.random.default_rng(0).normal(size=(3, N_SAMPLES, robot.n_joints)))
    with threadpool_limits(1):
        compiled = _cpu_seconds(lambda: regressor(robot, motion), 20)
        plain = _cpu_seconds(lambda: reference_regressor(robot.mechanism, motion), 3)
    folder = Path(tempfile.mkdtemp(prefix="excitor-demo-")) / "tx40" if folder is None else folder
    designed, written = _designed(folder, quiet)
    figures = [
        Figure("demo.base_parameters", float(len(page.base)), "", 60.0, "equal", 60.0),
        Figure("demo.certified", float(designed.ready), "", 1.0, "equal"),
        Figure("demo.condition", designed.runs[0].condition),
        Figure("demo.design_s", designed.cpu_seconds, "s CPU"),
        Figure("demo.regressor_ratio", plain / compiled, "times plain numpy"),
    ]
    if not quiet:
        _tell(written)
    return Report("demo", "demo", figures, {"folder": str(folder), "evaluations": EVALUATIONS})


def _designed(folder: Path, quiet: bool) -> tuple[Designed, list[Path]]:
    """Begin a campaign in a cell with a table and a wall, and design it."""
    path = begin(folder, "tx40")
    path.write_text(path.read_text("utf-8").replace("\n[noise]", f"{_CELL}\n[noise]", 1), "utf-8")
    setup = set_up(open_campaign(folder, "design"))
    settings = settings_of(setup.design, {"evaluations": EVALUATIONS})
    if quiet:
        designed = design(setup, settings)
    else:
        with progress() as listen:
            designed = design(setup, settings, listen)
        print_designed(designed)
    return designed, write_all(designed)


def _tell(written: list[Path]) -> None:
    from rich.console import Console

    console = Console()
    page = next(path for path in written if path.suffix == ".html")
    console.print(f"\nLook at the motion in its cell: {page}", markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"Its programs: excitor emit {page.parent} --target all", markup=False, highlight=False, soft_wrap=True
    )
    console.print("Next: excitor init my-cell --robot YOUR-ROBOT.urdf, then excitor design my-cell")


def _cpu_seconds(task: object, repeats: int) -> float:
    assert callable(task)
    task()
    start = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - start) / repeats
