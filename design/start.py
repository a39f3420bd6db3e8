"""Where a search starts: motions that keep every constraint, as far as there are any."""

import numpy as np

from excitor.design.problem import Candidates, Problem, constraint_values, decode, motions
from excitor.robots.arrays import FloatArray, IntArray

_AMPLITUDES = (1.0, 0.6, 0.35, 0.2, 0.1, 0.05, 0.02)
_ROUNDS = 6


def feasible_start(problem: Problem, n: int, random: np.random.Generator) -> Candidates:
    """Draw n random motions inside the joints' limits, and shrink those that break another constraint.

    A motion that no shrinking saves swings about another pose in the next round. Whatever is still not feasible at
    the end stays as it is: the search goes on from it.
    """
    chosen = decode(problem, random.uniform(-1.0, 1.0, (n, problem.n_design)))
    if not problem.names:
        return chosen
    center, swing = chosen.center.copy(), chosen.swing.copy()
    open_ = np.arange(n)
    for _ in range(_ROUNDS):
        for amplitude in _AMPLITUDES:
            trial = Candidates(center[open_], amplitude * swing[open_])
            good = violation_of(problem, trial) <= 0.0
            swing[open_[good]] *= amplitude
            open_ = open_[~good]
            if not open_.size:
                return Candidates(center, swing)
        solved = np.setdiff1d(np.arange(n), open_)
        fresh = decode(problem, random.uniform(-1.0, 1.0, (open_.size, problem.n_design)))
        center[open_], swing[open_] = fresh.center, fresh.swing
        _gather(problem, center, open_, solved, random)
    return Candidates(center, swing)


def violation_of(problem: Problem, candidates: Candidates) -> FloatArray:
    """Sum what candidates violate, (n_candidates,)."""
    g = constraint_values(problem, candidates, *motions(problem, candidates))
    return np.asarray(np.maximum(g, 0.0).sum(axis=1))


def _gather(
    problem: Problem, center: FloatArray, open_: IntArray, solved: IntArray, random: np.random.Generator
) -> None:
    """Move half of the open centres near ones that are known to be good, or near home."""
    some = open_[: (open_.size + 1) // 2]
    spread = 0.15 * np.ptp(problem.position, axis=1) * problem.excitation.moving
    if solved.size:
        near = center[random.choice(solved, some.size)]
    elif problem.constraints.home is not None:
        near = np.where(problem.excitation.moving, problem.constraints.home, center[some])
    else:
        return
    center[some] = near + spread * random.normal(size=near.shape)
    low, high = problem.position.T
    center[some] = np.where(problem.excitation.moving, np.clip(center[some], low, high), center[some])
