"""Which parameters do least squares give? Plain, weighted, robust, held to a prior, or row after row."""

from dataclasses import replace

import numpy as np
import scipy.linalg

from excitor.identify.estimate import Estimate, irls, ols, ridge, wls
from excitor.identify.factors import Factors, compress, merge, residual_norms, total, triangle
from excitor.identify.influence import believing, honest_intervals, influence
from excitor.identify.intervals import Whitened
from excitor.identify.ladder_nouns import Answer, Problem
from excitor.identify.recursive import rls
from excitor.identify.regression import Regression, pick_rows
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.parameters import layout, prior

FOLDS = 5  # stretches of time of every run
WEIGHTS = np.logspace(-4.0, 4.0, 17)  # of the prior against rows divided by their deviation
LEAST_SIZE = 1e-3  # of what a parameter would be if it made all torque: a prior is never believed more closely
VARIANCE = 1e8  # of P0, in units of each parameter's own size squared: nothing is known


def ols_answer(problem: Problem) -> Answer:
    """Least squares, every row alike."""
    estimate = ols(compress(problem.regression))
    return Answer("ols", estimate, honest_intervals(problem.regression, estimate, problem.runs))


def wls_answer(problem: Problem) -> Answer:
    """Least squares, rows divided by the deviation of their joint."""
    estimate = wls(compress(problem.regression))
    return Answer("wls", estimate, honest_intervals(problem.regression, estimate, problem.runs))


def irls_answer(problem: Problem) -> Answer:
    """Least squares with Huber's weights."""
    regression = problem.regression
    estimate = irls(regression)
    weights, scale = huber(regression, estimate)
    intervals = honest_intervals(regression, estimate, problem.runs, row_weights=weights / scale)
    lowered = float(np.mean(weights < 1.0))
    note = f"{100 * lowered:.0f} % of the rows count less than fully; of normal errors 18 % would"
    return Answer("irls", estimate, intervals, notes=(note,), evidence={"rows_lowered": lowered})


def huber(regression: Regression, estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    """Find the rows' weights and scales at an estimate, each (n_rows,)."""
    residual = regression.y - regression.W @ estimate.values
    scale = np.ones(len(regression))
    for joint in np.unique(regression.joint):
        rows = regression.joint == joint
        scale[rows] = max(1.4826 * float(np.median(np.abs(residual[rows]))), np.finfo(float).tiny)
    size = np.maximum(np.abs(residual) / scale, 1e-12)
    return np.sqrt(np.minimum(1.0, 1.345 / size)), scale


def ridge_answer(problem: Problem) -> Answer:
    """Least squares held to the robot's prior model as strongly as predicting other stretches of time asks."""
    regression = problem.regression
    factors = compress(regression)
    sigma = wls_sigma(factors)
    believed, known = prior_values(problem)
    scale = prior_scale(regression, believed)
    weight, errors = choose_weight(regression, sigma, believed, scale)
    estimate = ridge(factors, weight=weight, prior=believed, scale=scale)
    weights = 1.0 / rows_of_groups(regression, estimate)
    W, residual = regression.W * weights[:, None], weights * (regression.y - regression.W @ estimate.values)
    belief = np.diag(weight / scale**2)
    system = influence(W, W, residual, belief)
    intervals = honest_intervals(regression, estimate, problem.runs, system=system)
    half = scipy.linalg.solve_triangular(system.R, _lifted(W, belief, system))
    intervals = believing(intervals, half @ half.T)
    notes: tuple[str, ...] = (
        f"held to {'the prior model' if known else 'zero, as the robot states no masses'} within its own size, with "
        f"weight {weight:.2g}: of {len(WEIGHTS)} tried the one that best predicts stretches of the runs left out in "
        "turn",
    )
    if weight == WEIGHTS[0]:
        notes = (*notes, "the least weight predicts best: the data need no prior")
    gained = float(1.0 - min(errors) / errors[0]) if errors[0] > 0.0 else 0.0
    return Answer("ridge", estimate, intervals, notes=notes, evidence={"weight": weight, "gained": gained})


def rls_answer(problem: Problem) -> Answer:
    """Weighted least squares row after row, without forgetting, from next to no belief."""
    regression = problem.regression
    weighted = wls(compress(regression))
    sigma = rows_of_groups(regression, weighted)
    size = torque_size(regression)
    found = rls(regression, variance=VARIANCE * size**2, sigma=sigma).estimate
    intervals = honest_intervals(regression, replace(found, method="wls"), problem.runs)
    apart = float(np.max(np.abs(found.values - weighted.values) / weighted.sigma))
    notes = (
        "rows are weighted by the deviations that wls finds, which an online run would have to know beforehand; "
        f"without forgetting it ends {apart:.1g} standard deviations from wls",
    )
    return Answer("rls", found, intervals, notes=notes, evidence={"from_wls_sigma": apart})


def rows_of_groups(regression: Regression, estimate: Estimate) -> FloatArray:
    """Look up what an estimate divided each row by, (n_rows,)."""
    groups = zip(regression.joint.tolist(), regression.run.tolist(), strict=True)
    return np.array([estimate.group_sigma[group] for group in groups])


def wls_sigma(factors: Factors) -> dict[tuple[int, int], float]:
    """Find the deviation of each group's rows as wls does."""
    return dict(wls(factors).group_sigma)


def prior_values(problem: Problem) -> tuple[FloatArray, bool]:
    """Write the robot's prior model in the regression's parameters; zeros where it states no mass."""
    robot, names = problem.robot, problem.regression.names
    params, base = layout(robot), base_parameters(robot)
    masses = [10 * link + 9 for link in range(params.n_links)]
    if not any(robot.known[k] and robot.chi[k] > 0.0 for k in masses):
        return np.zeros(len(names)), False
    of_base = dict(zip((params.names[k] for k in base.kept), base.values(prior(robot)), strict=True))
    return np.array([of_base.get(name, 0.0) for name in names]), True


def torque_size(regression: Regression) -> FloatArray:
    """Say how large each parameter would be if it alone made the torques of its rows, (n_columns,)."""
    seen = regression.W != 0.0
    torque = (regression.y**2) @ seen
    motion = np.sum(regression.W**2, axis=0)
    return np.asarray(np.sqrt(torque / np.where(motion > 0.0, motion, 1.0)) + 1e-300)


def prior_scale(regression: Regression, believed: FloatArray) -> FloatArray:
    """Say within what a prior holds: its own size, or where it is 0 what would make a tenth of the torques."""
    size = torque_size(regression)
    return np.where(believed == 0.0, 0.1 * size, np.maximum(np.abs(believed), LEAST_SIZE * size))


def choose_weight(
    regression: Regression, sigma: dict[tuple[int, int], float], believed: FloatArray, scale: FloatArray
) -> tuple[float, list[float]]:
    """Choose the prior's weight that best predicts stretches of time left out in turn."""
    parts = [compress(pick_rows(regression, rows)) for rows in stretches(regression)]
    n = len(believed)
    errors = []
    for weight in WEIGHTS:
        extra = np.column_stack([np.diag(np.sqrt(weight) / scale), np.sqrt(weight) * believed / scale])
        squares = 0.0
        for k, part in enumerate(parts):
            others = merge([other for i, other in enumerate(parts) if i != k])
            deviations = np.array([sigma[group] for group in zip(others.joint, others.run, strict=True)])
            R = triangle(np.concatenate([total(others, 1.0 / deviations), extra]))
            beta = scipy.linalg.solve_triangular(R[:n, :n], R[:n, n])
            own = np.array([sigma[group] for group in zip(part.joint, part.run, strict=True)])
            squares += float(np.sum((residual_norms(part, beta) / own) ** 2))
        errors.append(squares)
    return float(WEIGHTS[int(np.argmin(errors))]), errors


def stretches(regression: Regression) -> list[BoolArray]:
    """Cut every run into as many stretches of time: (n_rows,) masks."""
    place = np.zeros(len(regression), dtype=np.int64)
    for run in np.unique(regression.run):
        rows = regression.run == run
        sample = regression.sample[rows]
        place[rows] = np.minimum(FOLDS * sample // (int(sample.max()) + 1), FOLDS - 1)
    return [place == k for k in range(FOLDS) if (place == k).any()]


def _lifted(W: FloatArray, belief: FloatArray, system: Whitened) -> FloatArray:
    """Write A⁻¹ √belief as R⁻¹ (Uᵀ R_W⁻ᵀ √belief): Q = Q_W U, so Uᵀ R_W⁻ᵀ = (Wᵀ Q)⁻¹."""
    return np.linalg.solve(W.T @ system.Q, np.sqrt(belief)) if belief.any() else np.zeros_like(belief)
