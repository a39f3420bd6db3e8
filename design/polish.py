"""The last stage of a search: SLSQP on the smooth criterion with exact gradients, on constraints that are near."""

from collections.abc import Callable
from typing import Any

import numpy as np

from excitor.design.active import Active, active_set, active_slopes, active_values, by_design, coefficient_slope
from excitor.design.criteria import gradient
from excitor.design.problem import Problem, coefficients, motions
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import NotAssembled
from excitor.robots.robot import Motion

RESERVE = 2e-4  # of each limit: SLSQP ends on a constraint's edge, or a little beyond
_SINGULAR = 50.0  # stands for the logarithm of an infinite criterion


class BudgetSpent(Exception):
    """The search's budget ran out inside a stage."""


def polish(
    problem: Problem,
    x: FloatArray,
    *,
    softness: float,
    reach: float | None,
    spend: Callable[[FloatArray], None],
    iterations: int = 30,
) -> FloatArray:
    """Improve one design from x by sequential quadratic programming on the constraints near x; returns the last x.

    No variable moves further than `reach`, because constraints that are far from their limits are not looked at.
    With reach = None every variable is free, and each limit is looked at where it is worst at the time: a wilder way,
    which leaves valleys that the other does not.
    `spend` hears of every point that is evaluated, and raises BudgetSpent when it must end.
    """
    import scipy.optimize

    minimize: Any = scipy.optimize.minimize  # its stubs know no arrays of ours
    try:
        chosen = active_set(problem, x)
    except NotAssembled:  # a leap led out of a closed chain's workspace
        return x

    def active(x: FloatArray) -> Active:
        return active_set(problem, x, near=-np.inf, most=1) if reach is None else chosen

    def value(x: FloatArray) -> float:
        spend(x)
        return objective(problem, x, softness)

    try:
        found = minimize(
            value,
            x,
            jac=lambda x: objective_slope(problem, x, softness)[1],
            method="SLSQP",
            bounds=None if reach is None else np.stack([x - reach, x + reach], axis=1),
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda x: -active_values(problem, active(x), x) - RESERVE,
                    "jac": lambda x: -active_slopes(problem, active(x), x),
                }
            ],
            options={"maxiter": iterations, "ftol": 1e-7},
        )
    except NotAssembled:  # it stepped out of a closed chain's workspace; the best so far is known
        return x
    return np.asarray(found.x)


def objective(problem: Problem, x: FloatArray, softness: float) -> float:
    """Evaluate the logarithm of the (softened) criterion."""
    candidate = coefficients(problem, x[None])
    G = problem.earlier + problem.share * problem.model.grams(*motions(problem, candidate), problem.n_period)[0]
    return min(gradient(problem.criterion, G, softness)[0], _SINGULAR)


def objective_slope(problem: Problem, x: FloatArray, softness: float) -> tuple[float, FloatArray]:
    """Evaluate the logarithm of the (softened) criterion and its gradient by design variables."""
    candidate = coefficients(problem, x[None])
    n = problem.n_period
    q, dq, ddq = (x[:, :, :n] for x in motions(problem, candidate))
    G = problem.earlier + problem.share * problem.model.grams(q, dq, ddq, n)[0]
    value, bar = gradient(problem.criterion, G, softness)
    if not np.isfinite(value):
        return _SINGULAR, np.zeros_like(x)
    bars = problem.model.gradient(Motion(q[0].T, dq[0].T, ddq[0].T), problem.share * bar)
    return value, by_design(problem, coefficient_slope(problem, bars)[None])[0]
