"""A load that a body could have: the same maximum likelihood over pseudo-inertias P ≻ 0 only.

    minimise ½ ‖r(θ)‖² - μ log det P(φ),  μ → 0

An interior-point method: Gauss-Newton on the residuals, Newton on the barrier, every step inside. With efficiencies
given the problem is convex, and what is left on the table is less than 4 μ. Nothing is projected afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.factors import triangle
from excitor.identify.load import LoadEstimate, described
from excitor.identify.load_diagnosis import check_load_rank
from excitor.identify.load_equations import Equations, equations, linear_start, residual
from excitor.identify.load_runs import LoadRun
from excitor.identify.load_task import LoadTask
from excitor.identify.nonlinear import NonlinearFit, levenberg_marquardt
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.errors import SolverFailed
from excitor.robots.inertia import check_consistency, parameters_of, pseudo_inertia

INSIDE = 1e-9  # relative margin of the pseudo-inertia from which a load counts as a body without further ado
BARRIERS = (1.0, 0.1, 1e-2, 1e-3)  # μ, in units of ½ χ²
DECREMENT = 1e-2  # of μ: what one more step would gain, when it is time for the next μ
STEPS = 40  # for each μ
_BASIS = np.array([pseudo_inertia(unit) for unit in np.eye(10)])


@dataclass(frozen=True, eq=False, slots=True)
class _Point:
    theta: FloatArray
    residual: FloatArray
    J: FloatArray
    P: FloatArray

    def cost(self, mu: float) -> float:
        return float(0.5 * self.residual @ self.residual - mu * np.linalg.slogdet(self.P)[1])


@one_blas_thread()
def identify_consistent_load(task: LoadTask, runs: Sequence[LoadRun]) -> LoadEstimate:
    """Find the body that explains the motor torques best, with friction and efficiencies.

    Where the free optimum is a body already it is the answer. The covariance does not count the bound either way.
    """
    system = equations(task, runs)
    free = levenberg_marquardt(lambda theta: residual(system, theta), linear_start(system))
    check_load_rank(system, free.x)
    where = system.unknowns
    if free.converged and check_consistency(free.x[where.load]).relative_margin > INSIDE:
        return described(system, free, "maximum likelihood of a body")
    start = free.x.copy()
    start[where.load] = nearest_body(free.x[where.load])
    fit = inside(system, start)
    found = check_consistency(fit.x[where.load])
    if not found.holds:
        raise SolverFailed(
            f"{task.robot.name}: the search ended at a load that no body has (margin {found.relative_margin:.1e}); "
            "it is refused: check that the load was on the robot",
            "not a body",
        )
    return described(system, fit, "maximum likelihood of a body")


def inside(system: Equations, start: FloatArray) -> NonlinearFit:
    """Follow the barrier's minima from a body, μ by μ."""
    point = _at(system, start)
    history, evaluations = [float(np.linalg.norm(point.residual))], 1
    for mu in BARRIERS:
        for _ in range(STEPS):
            step, decrement = _newton(system, point, mu)
            moved, tried = _line_search(system, point, step, mu) if decrement > DECREMENT * mu else (None, 0)
            evaluations += tried
            if moved is None:
                break
            point = moved
            history.append(float(np.linalg.norm(point.residual)))
    R = triangle(point.J)
    return NonlinearFit(point.theta, R, point.residual, "cost", len(history) - 1, evaluations, tuple(history))


def nearest_body(phi: FloatArray) -> FloatArray:
    """Start from a body that resembles parameters which no body has: mass and second moments lifted above 0."""
    P = pseudo_inertia(phi)
    size = max(float(np.abs(P[:3, :3]).max()), 1e-6)
    mass = max(float(phi[9]), 1e-3 * float(np.abs(phi).max()), 1e-6)
    center = P[:3, 3] / mass
    reach = np.sqrt(size / mass)  # no farther off than the second moments allow
    center = center * min(1.0, reach / max(float(np.linalg.norm(center)), 1e-12))
    values, V = scipy.linalg.eigh(P[:3, :3] - mass * np.outer(center, center))
    spread = V @ np.diag(np.maximum(values, 1e-2 * size)) @ V.T
    body = np.zeros((4, 4))
    body[:3, :3] = spread + mass * np.outer(center, center)
    body[:3, 3] = body[3, :3] = mass * center
    body[3, 3] = mass
    return parameters_of(body)


def _at(system: Equations, theta: FloatArray) -> _Point:
    r, J = residual(system, theta)
    return _Point(theta, r, J, pseudo_inertia(theta[system.unknowns.load]))


def _newton(system: Equations, point: _Point, mu: float) -> tuple[FloatArray, float]:
    """Solve (JᵀJ + μ B) Δ = Jᵀr - μ b: the step, and twice what the quadratic model says that it gains."""
    inverse = np.linalg.inv(point.P)
    turned = inverse @ _BASIS
    H, g = point.J.T @ point.J, point.J.T @ point.residual
    load = system.unknowns.load
    H[load, load] += mu * np.einsum("iab,jba->ij", turned, turned)
    g[load] += mu * np.trace(turned, axis1=1, axis2=2)
    scale = 1.0 / np.sqrt(np.diag(H))
    step = scale * scipy.linalg.solve(H * np.outer(scale, scale), scale * g, assume_a="pos")
    return step, float(step @ g)


def _line_search(system: Equations, point: _Point, step: FloatArray, mu: float) -> tuple[_Point | None, int]:
    """Go as far along a step as keeps the load a body and lowers the cost; None where it cannot be lowered."""
    before, slope = point.cost(mu), 0.0
    for tried in range(1, 31):
        share = 0.5 ** (tried - 1)
        theta = point.theta + share * step
        if check_consistency(theta[system.unknowns.load]).relative_margin <= 0.0:
            continue
        trial = _at(system, theta)
        slope = before - trial.cost(mu)
        if slope > 0.0:
            return trial, tried
    return None, 30
