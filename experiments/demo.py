"""A first look on a robot everybody can load: what is identifiable, and how fast we find out."""

import time

import numpy as np

from excitor.experiments.figures import Figure, Report
from excitor.experiments.robot_page import print_page, robot_page
from excitor.robots.dynamics import regressor
from excitor.robots.gram import condition_number, gram, gram_condition, stack
from excitor.robots.kernel.reference import reference_regressor
from excitor.robots.robot import Motion
from excitor.robots.tree import Tree

N_SAMPLES = 1000


def run(quiet: bool = False) -> Report:
    """Show the TX-40 and compare the compiled regressor with plain numpy."""
    from threadpoolctl import threadpool_limits

    page = robot_page("tx40")
    if not quiet:
        print_page(page)
    robot, kept = page.robot, page.base.kept
    assert isinstance(robot.mechanism, Tree)
    motion = Motion(*np.random.default_rng(0).normal(size=(3, N_SAMPLES, robot.n_joints)))
    Y = regressor(robot, motion)
    condition = gram_condition(gram(robot, motion, kept))
    with threadpool_limits(1):
        compiled = _cpu_seconds(lambda: regressor(robot, motion), 20)
        plain = _cpu_seconds(lambda: reference_regressor(robot.mechanism, motion), 3)
    figures = [
        Figure("demo.base_parameters", float(len(page.base)), "", 60.0, "equal", 60.0),
        Figure("demo.regressor_ratio", plain / compiled, "times plain numpy"),
    ]
    if not quiet:
        _tell(condition, condition_number(stack(Y)[:, kept]), compiled, plain)
    return Report("demo", "demo", figures, {"samples": N_SAMPLES, "regressor_us": 1e6 * compiled})


def _tell(by_gram: float, by_svd: float, compiled: float, plain: float) -> None:
    from rich.console import Console

    console = Console()
    console.print(
        f"\nCondition number of {N_SAMPLES} random states: {by_svd:.4f} by SVD, {by_gram:.4f} by the Gram matrix"
    )
    console.print(
        f"Regressor of {N_SAMPLES} samples: {1e3 * compiled:.2f} ms compiled, {1e3 * plain:.1f} ms in plain numpy, "
        f"{plain / compiled:.0f} times as long"
    )
    console.print("Next: excitor robots, excitor robots YOUR-ROBOT.urdf, excitor bench physics")


def _cpu_seconds(task: object, repeats: int) -> float:
    assert callable(task)
    task()
    start = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - start) / repeats
