"""What if the motion is noisy too, or errors are coloured? Total least squares, and maximum likelihood."""

import numpy as np

from excitor.identify.coloured import maximum_likelihood
from excitor.identify.columns_along import columns_along, processed_as
from excitor.identify.estimate import wls
from excitor.identify.factors import compress
from excitor.identify.influence import estimate_of, honest_intervals, influence
from excitor.identify.ladder_linear import rows_of_groups
from excitor.identify.ladder_nouns import Answer, Problem
from excitor.identify.samples import Samples
from excitor.identify.total_least_squares import mixed_total_least_squares
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion

CLEAR = 2.0  # times nearer to the torques than to a dependence among columns, at least
DRAWS = 4  # of noise, from which that of the columns is found


def tls_answer(problem: Problem) -> Answer:
    """Total least squares of rows weighted as by wls: noise in columns and torque, offsets exact."""
    regression = problem.regression
    weighted = wls(compress(regression))
    sigma = rows_of_groups(regression, weighted)
    W, y = regression.W / sigma[:, None], regression.y / sigma
    noisy = ~exact_columns(problem)
    C, told = column_noise(problem, W, sigma)
    y_noise = float(len(y)) if problem.position_noise is not None else float(y @ y)
    inside = np.ix_(noisy, noisy)
    scale = np.zeros((np.count_nonzero(noisy) + 1,) * 2)
    scale[:-1, :-1], scale[-1, -1] = C[inside], y_noise
    M = np.column_stack([W, -y])
    found = mixed_total_least_squares(M, np.append(noisy, True), scale)
    among = mixed_total_least_squares(W, noisy, C[inside])
    gap = float(among.singular_values[-1] / max(found.singular_values[-1], 1e-300))
    if gap < CLEAR or abs(found.x[-1]) < 1e-9 * np.abs(found.x).max():
        raise ExcitorError(
            f"the columns nearly depend on one another, given so much noise in them ({gap:.3g} times farther off than "
            f"the torques, {CLEAR} is the least), so no one vector is nearest: {told}; move what keeps them apart, or "
            "state the noise of positions"
        )
    beta = found.x[:-1] / found.x[-1]
    residual = y - W @ beta
    size = y_noise + float(beta @ C @ beta)
    corrected = W + np.outer(residual, C @ beta) / size
    system = influence(corrected, W, residual, _curvature(W, corrected, C, residual, size))
    settings: dict[str, float | str] = {"weights by": "joint", "noise of columns": told, "gap": gap}
    estimate = estimate_of(system, regression, beta, method="tls", sigma=sigma, settings=settings)
    moved = float(np.max(np.abs(beta - weighted.values) / weighted.sigma))
    names = [name for name, inexact in zip(regression.names, noisy, strict=True) if not inexact]
    notes = (told, f"exact columns: {', '.join(names) or 'none'}", f"gap {gap:.3g}: so much farther off is no torque")
    intervals = honest_intervals(regression, estimate, problem.runs, system=system)
    return Answer("tls", estimate, intervals, notes=notes, evidence={"gap": gap, "from_wls_sigma": moved})


def _curvature(W: FloatArray, corrected: FloatArray, C: FloatArray, residual: FloatArray, size: float) -> FloatArray:
    """Complete Ŵᵀ W to the derivative of the equations Ŵᵀ r = 0: WᵀW - (rᵀr / size) C in all."""
    return np.asarray((W - corrected).T @ W - float(residual @ residual) / size * C)


def exact_columns(problem: Problem) -> BoolArray:
    """Mark columns that hold no motion: those of offsets, (n_columns,)."""
    offsets = {term.parameter for term in problem.robot.drive.friction if term.model == "offset"}
    return np.array([name in offsets for name in problem.regression.names])


def column_noise(problem: Problem, W: FloatArray, sigma: FloatArray) -> tuple[FloatArray, str]:
    """Find how much noise columns hold, (n_columns, n_columns), and say where that is from.

    The noise of positions, where it is stated, goes the way of the data: differences, filter, thinning; torques then
    hold what wls leaves. Otherwise columns and torques are as noisy as they are large.
    """
    if problem.position_noise is None:
        return np.diag(
            np.sum(W**2, axis=0)
        ), "every column is taken to be as noisy as the torques, relative to its norm"
    rng = np.random.default_rng(0)
    robot, regression, thin = problem.robot, problem.regression, problem.rows.decimate
    clean = columns_along(robot, problem.runs, [run.motion for run in problem.runs], regression, thin)
    C = np.zeros((W.shape[1],) * 2)
    for _ in range(DRAWS):
        motions = [_disturbed(run, problem.position_noise, rng) for run in problem.runs]
        change = (columns_along(robot, problem.runs, motions, regression, thin) - clean) / sigma[:, None]
        C += change.T @ change / DRAWS
    size = np.sqrt(np.diag(C)).max(initial=0.0)
    if not size > 0.0:
        raise ExcitorError("the stated noise of positions does not reach any column; least squares are the answer")
    floor = 1e-12 * np.sum(W**2, axis=0)  # columns that noise hardly reaches still need a size
    return C + np.diag(floor), "noise of positions as stated, gone the way of the data; torques hold what wls leaves"


def _disturbed(run: Samples, deviation: FloatArray, rng: np.random.Generator) -> Motion:
    """Add noise of encoders to a run's motion, processed as the run says it was."""
    noise = rng.normal(size=run.motion.q.shape) * deviation
    if run.static:
        return run.motion
    change = processed_as(run, noise)
    motion = run.motion
    return Motion(motion.q + change.q, motion.dq + change.dq, motion.ddq + change.ddq)


def ml_answer(problem: Problem) -> Answer:
    """Gaussian maximum likelihood with errors coloured in time and shared between joints."""
    regression = problem.regression
    unordered = [k for k, run in enumerate(problem.runs) if run.static]
    fit = maximum_likelihood(regression, start=wls(compress(regression)), unordered=unordered)
    intervals = honest_intervals(regression, fit.estimate, system=fit.system)
    joints = np.unique(regression.joint)
    orders = ", ".join(f"{regression.joint_names[j]} {order}" for j, order in zip(joints, fit.orders, strict=True))
    notes: tuple[str, ...] = (f"errors are autoregressive, of order {orders} by BIC, in each stretch without gaps",)
    if not fit.converged:
        notes = (*notes, f"parameters and colour together still became more likely after {fit.iterations} iterations")
    evidence = {"iterations": float(fit.iterations), "largest_order": float(max(fit.orders))}
    return Answer("ml", fit.estimate, intervals, notes=notes, evidence=evidence)
