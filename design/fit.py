"""How motions that break a constraint are made to keep it: drawn together about a pose that is known to be good."""

import numpy as np

from excitor.design.criteria import values
from excitor.design.problem import Candidates, Evaluation, Problem, constraint_values, motions
from excitor.robots.arrays import FloatArray, IntArray

_SAFE = (0.99, 0.99, 0.85, 0.7, 0.5)  # of the amplitude that interpolation promises, round after round
_STILL = 0.01  # amplitude that stands for standing still: friction has its sign already


def fitted(problem: Problem, candidates: Candidates, anchor: FloatArray | None) -> tuple[Candidates, Evaluation]:
    """Draw each motion together, q → a + s (q - a), until it keeps all constraints; then evaluate it.

    s comes from interpolating each violated constraint between the anchor a (n_joints,), where all hold, and the
    motion. What cannot be mended so stays violated.
    """
    q, dq, ddq = motions(problem, candidates)
    g = constraint_values(problem, candidates, q, dq, ddq)
    if anchor is None or not g.shape[1] or not (g > 0.0).any():
        return candidates, Evaluation(_values(problem, candidates), g)
    scale = np.ones(len(g))
    for safe in _SAFE:
        bad = np.flatnonzero((g > 0.0).any(axis=1))
        if not bad.size:
            break
        low = _at_anchor(problem, candidates, anchor, bad)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(g[bad] > 0.0, np.maximum(-low, 0.0) / (g[bad] + np.maximum(-low, 0.0)), 1.0)
        scale[bad] *= safe * share.min(axis=1)
        trial = drawn(candidates, anchor, scale, bad)
        g[bad] = constraint_values(problem, trial, *motions(problem, trial))
    chosen = drawn(candidates, anchor, scale, np.arange(len(g)))
    return chosen, Evaluation(_values(problem, chosen), g)


def drawn(candidates: Candidates, anchor: FloatArray, scale: FloatArray, which: IntArray) -> Candidates:
    """Draw chosen motions together about the anchor, each by its own factor."""
    s = scale[which]
    center = anchor + s[:, None] * (candidates.center[which] - anchor)
    return Candidates(center, s[:, None, None] * candidates.swing[which])


def _at_anchor(problem: Problem, candidates: Candidates, anchor: FloatArray, which: IntArray) -> FloatArray:
    """Evaluate constraints of the motions drawn together to almost nothing, (n_which, n_constraints)."""
    still = drawn(candidates, anchor, np.full(len(candidates.center), _STILL), which[:1])
    return np.tile(constraint_values(problem, still, *motions(problem, still)), (which.size, 1))


def _values(problem: Problem, candidates: Candidates) -> FloatArray:
    G = problem.earlier + problem.share * problem.model.grams(*motions(problem, candidates), problem.n_period)
    return values(problem.criterion, G)
