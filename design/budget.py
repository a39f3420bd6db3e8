"""What a search may spend, where it stands, and what it has found."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.design.problem import Candidates, Problem
from excitor.robots.arrays import FloatArray

Method = Literal["hybrid", "ga", "plain-ga"]
STAGES = ("ga", "cma-es", "slsqp")
CHAIN_EVALUATIONS = 40_000
CHAIN_SECONDS = 5.0
USUAL_SIZE = 70  # design variables that such a chain is enough for


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a search may spend: evaluations (reproducible bit for bit) or seconds of CPU time."""

    evaluations: int | None = None
    seconds: float | None = None
    chain: float | None = None  # of either, that a chain is given; more is shared by several

    def __post_init__(self) -> None:
        if (self.evaluations is None) == (self.seconds is None):
            raise ValueError("a budget is evaluations or seconds, one of them")
        if self.evaluations is not None and self.evaluations < 1:
            raise ValueError(f"evaluations is {self.evaluations}, expected at least 1")
        if self.seconds is not None and not 0.0 < self.seconds < np.inf:
            raise ValueError(f"seconds is {self.seconds}, expected a positive time")

    @property
    def counted(self) -> bool:
        """Tell whether evaluations are counted, not time."""
        return self.evaluations is not None

    @property
    def amount(self) -> float:
        """Evaluations or seconds."""
        return float(self.evaluations if self.evaluations is not None else self.seconds or 0.0)

    @property
    def chains(self) -> int:
        """Count the chains that share it."""
        return max(1, round(self.amount / (self.chain or self._usual)))

    @property
    def _usual(self) -> float:
        return CHAIN_EVALUATIONS if self.counted else CHAIN_SECONDS

    def for_size(self, n_design: int) -> "Budget":
        """Give chains as much as so many design variables need, unless that is stated."""
        more = max(1.0, n_design / USUAL_SIZE) ** 2
        return self if self.chain is not None else replace(self, chain=self._usual * more)


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """What a chain has found so far, as arrays: where to go on from, and what to return."""

    done: int  # stages finished
    evaluations: int
    seconds: float
    center: FloatArray  # (n_finalists, n_joints): the best of each finished stage
    swing: FloatArray
    value: FloatArray  # (n_finalists,), on the search's grid
    violation: FloatArray
    history: FloatArray  # (n_rows, 4): evaluations, best feasible value, feasible share, stage


@dataclass(frozen=True, slots=True)
class Progress:
    """What a search tells while it runs."""

    stage: str
    chain: int
    chains: int
    evaluations: int  # of this chain
    share: float  # of the whole budget
    best: float  # criterion of the best feasible candidate; inf before there is one
    feasible_share: float  # of the last population


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """The end of a search: its finalists, best first, and how it went."""

    candidates: Candidates
    value: FloatArray
    violation: FloatArray
    evaluations: int
    seconds: float
    stopped: Literal["budget spent", "interrupted"]
    history: FloatArray

    @property
    def feasible(self) -> bool:
        """Tell whether any candidate keeps all constraints."""
        return bool((self.violation <= 0.0).any())


Listener = Callable[[Progress], None]


def empty_state(problem: Problem) -> State:
    """Begin a chain."""
    n_joints, n_waves = problem.amplitude.shape
    none = np.empty(0)
    center, swing = np.empty((0, n_joints)), np.empty((0, n_joints, n_waves))
    return State(0, 0, 0.0, center, swing, none, none, np.empty((0, 4)))
