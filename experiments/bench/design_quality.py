"""How good a condition number a CPU second buys: the fixed six-axis problem, and a peer's own benchmark."""

from collections.abc import Sequence
from importlib import resources
from statistics import mean
from typing import Any

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.motion import Excitation, period_grid, steady
from excitor.design.problem import Problem, build_problem, trajectory
from excitor.design.search import Budget, Method, solve
from excitor.experiments.bench.physics import bench_columns, six_axis
from excitor.experiments.figures import Figure
from excitor.robots.gram import condition_number
from excitor.robots.load import robot_from_toml
from excitor.robots.parameters import layout
from excitor.robots.robot import Limits, Robot

SEEDS = (1, 2, 3)
FINE_SAMPLES = 2000
_FINALISTS = 4


def measure(full: bool) -> dict[str, Any]:
    """Search for 3, 10 and 60 CPU seconds; in full, every budget with three seeds."""
    problem, peer = six_axis_problem(), ur10_problem()
    three, ten = runs(problem, 3.0, SEEDS), runs(problem, 10.0, SEEDS)
    minute = runs(problem, 60.0, SEEDS if full else SEEDS[:1])
    plain = runs(problem, 10.0, SEEDS if full else SEEDS[:1], method="plain-ga")
    peer_ten = runs(peer, 10.0, SEEDS if full else SEEDS[:1])
    figures = [
        Figure("design.condition.3s", mean(three), "", 3.80, "at most"),
        Figure("design.condition.10s", mean(ten), "", 3.50, "at most"),
        Figure("design.condition.60s", mean(minute), "", 3.42, "at most"),
        Figure("design.condition.plain_ga_10s", mean(plain)),
        Figure("design.ur10_figaroh_10s", mean(peer_ten), "", 9.5, "at most"),
    ]
    context: dict[str, Any] = {
        "what": "mean over seeds of the condition number, by SVD at 2000 samples; CPU seconds of one thread",
        "three": _rounded(three),
        "ten": _rounded(ten),
        "sixty": _rounded(minute),
        "plain_ga": _rounded(plain),
        "ur10_ten": _rounded(peer_ten),
    }
    if full:
        longer = runs(peer, 41.0, SEEDS)
        figures.append(Figure("design.ur10_figaroh_41s", mean(longer)))
        context["ur10_forty_one"] = _rounded(longer)
    return {"figures": figures, "context": context}


def runs(problem: Problem, seconds: float, seeds: Sequence[int], method: Method = "hybrid") -> list[float]:
    """Search once for every seed and score the best of what was found; inf where nothing is feasible."""
    scores = []
    for seed in seeds:
        found = solve(problem, Budget(seconds=seconds), seed=seed, method=method)
        feasible = [k for k in range(len(found.value)) if found.violation[k] <= 0.0][:_FINALISTS]
        scores.append(
            min((fine_condition(problem, trajectory(problem, found.candidates, k)) for k in feasible), default=np.inf)
        )
    return scores


def fine_condition(problem: Problem, candidate: Any) -> float:
    """Score a motion by SVD; raw where the problem's criterion is raw."""
    W = problem.model.observation(steady(candidate, period_grid(candidate.excitation, FINE_SAMPLES)))
    if problem.criterion.kind == "raw-condition":
        singular = np.linalg.svd(W, compute_uv=False)
        return float(singular[0] / singular[-1])
    return condition_number(W)


def six_axis_problem() -> Problem:
    """Set up the fixed problem: five harmonics of 0.1 Hz, 52 columns, joint limits only."""
    robot = six_axis()
    return _free_problem(robot, 10.0, 5, DynamicModel(robot, bench_columns(robot), np.ones(6)), Criterion())


def ur10_problem() -> Problem:
    """Set up the peer's problem: ten harmonics of 1/24 Hz, 36 columns in raw units."""
    text = (resources.files("excitor.experiments.bench") / "ur10_peer.toml").read_text("utf-8")
    robot = robot_from_toml(text, "ur10_peer.toml")
    names = ["ZZ1", *(f"{part}{j}" for j in range(2, 7) for part in ("XX", "XY", "XZ", "YZ", "ZZ", "MX", "MY"))]
    model = DynamicModel(robot, layout(robot).indices(names), np.ones(6))
    return _free_problem(robot, 24.0, 10, model, Criterion("raw-condition"))


def _free_problem(robot: Robot, period: float, n_harmonics: int, model: DynamicModel, criterion: Criterion) -> Problem:
    free = np.full(robot.n_joints, np.inf)
    limits = Limits(robot.limits.position, robot.limits.velocity, robot.limits.acceleration, free, free)
    everything = np.ones(robot.n_joints, dtype=bool)
    excitation = Excitation(period, 0.002, tuple(range(1, n_harmonics + 1)), everything)
    return build_problem(robot, excitation, constraints=Constraints(limits, free), criterion=criterion, model=model)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]
