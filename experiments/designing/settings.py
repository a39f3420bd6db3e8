"""How long is searched, and from which seed: the campaign's settings, and what the command line states instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from excitor.design.search import Budget, Method
from excitor.experiments.designing.schema import Design

DEFAULT_EVALUATIONS = 20_000
DEFAULT_SIMULATIONS = 2_000  # of a torque run, each of whose candidates is simulated


@dataclass(frozen=True, slots=True)
class Settings:
    """Seed, budget of each run, method, and whether an unfinished search is forgotten."""

    seed: int
    budget: Budget
    method: Method
    fresh: bool = False
    workers: int = 1
    pick: int | None = None  # which run of a front


def settings_of(design: Design, given: Mapping[str, Any]) -> Settings:
    """Take the campaign's settings, and instead of them what is given and not None."""
    stated = {name: value for name, value in given.items() if value is not None}
    evaluations, seconds = design.evaluations, design.seconds
    if "evaluations" in stated or "seconds" in stated:
        evaluations, seconds = stated.get("evaluations"), stated.get("seconds")
    if evaluations is None and seconds is None:
        evaluations = DEFAULT_SIMULATIONS if design.excitation == "torque" else DEFAULT_EVALUATIONS
    return Settings(
        seed=stated.get("seed", design.seed),
        budget=Budget(evaluations, seconds),
        method=design.method,
        fresh=stated.get("fresh", False),
        workers=stated.get("workers", 1),
        pick=stated.get("pick"),
    )
