"""Maximum likelihood where the model is not linear: Levenberg-Marquardt on residuals with an analytic Jacobian.

    minimise ‖r(x)‖²,  r = (y - F(x)) / σ        step: (JᵀJ + μ D²) Δ = Jᵀ r,  J = ∂(F / σ)/∂x

D are the largest column norms of J so far, so that units do not matter; each step is solved on the triangle of QR.
It is done where a full step would move no parameter by more than `tolerance` of its standard deviation, as the
residuals tell it: ‖z‖ ≤ tolerance · ‖r‖ / √(n_rows - n_params), z = Qᵀr. More digits would be of noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.identify.factors import triangle
from excitor.robots.arrays import BoolArray, FloatArray, freeze, one_blas_thread
from excitor.robots.errors import RankDeficient, SolverFailed

Evaluate = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # x -> residual (n_rows,), J (n_rows, n_params)
Status = Literal["gradient", "step", "cost", "iterations", "not finite"]
MEANING: dict[Status, str] = {
    "gradient": "no direction lowers the cost",
    "step": "steps no longer change the parameters",
    "cost": "steps no longer lower the cost",
    "iterations": "the limit of iterations was reached",
    "not finite": "the model is not finite at the start",
}
TOLERANCE = 1e-3  # of a parameter's standard deviation
ROUNDING = 1e-12  # of the parameters: smaller steps are rounding
RANK_TOLERANCE = 1e-7  # of column-normalised singular values of J
_CRAWL_STEPS, _CRAWL = 5, 30.0  # so many steps that together gain less than one of that many tolerances
_STEPS_UPHILL = 30  # in a row: the damping has then grown beyond any use


@dataclass(frozen=True, eq=False, slots=True)
class NonlinearFit:
    """Where the search ended, and how."""

    x: FloatArray  # (n_params,)
    R: FloatArray  # (n_params, n_params), triangle with RᵀR = JᵀJ there
    residual: FloatArray  # (n_rows,), weighted
    status: Status
    iterations: int
    evaluations: int
    history: tuple[float, ...]  # ‖r‖ after each iteration, the start's first

    def __post_init__(self) -> None:
        freeze(self, x="n_params", R="n_params n_params", residual="n_rows")

    @property
    def converged(self) -> bool:
        """Tell whether the search ended at a minimum."""
        return self.status in ("gradient", "step", "cost")

    @property
    def message(self) -> str:
        """Say what the status means."""
        return MEANING[self.status]


@dataclass(frozen=True, eq=False, slots=True)
class _Point:
    x: FloatArray
    residual: FloatArray
    R: FloatArray
    z: FloatArray  # Qᵀ r: what a full step could take away

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.residual))


@one_blas_thread()
def levenberg_marquardt(
    evaluate: Evaluate, start: FloatArray, *, max_iterations: int = 60, tolerance: float = TOLERANCE
) -> NonlinearFit:
    """Search a minimum of ‖r(x)‖² from a start; the damping follows how well the linear model foretold each step."""
    point = _at(evaluate, np.asarray(start, dtype=float))
    history, evaluations, damping, growth = [point.size], 1, 1e-6, 2.0
    if not np.isfinite(point.size):
        return _ended(point, "not finite", 0, evaluations, history)
    D = _norms(point.R)
    uphill = 0
    while len(history) <= max_iterations:
        unit = tolerance * point.size / np.sqrt(max(len(point.residual) - len(point.x), 1))
        if np.linalg.norm(point.z) <= unit:
            return _ended(point, "gradient", len(history) - 1, evaluations, history)
        step = _step(point, D, damping)
        if np.linalg.norm(D * step) <= ROUNDING * np.linalg.norm(D * point.x):
            return _ended(point, "step", len(history) - 1, evaluations, history)
        trial = _at(evaluate, point.x + step)
        evaluations += 1
        foretold = float(point.z @ point.z - np.sum((point.z - point.R @ step) ** 2))
        gained = point.size**2 - trial.size**2 if np.isfinite(trial.size) else -np.inf
        if gained <= 0.0:
            damping, growth, uphill = damping * growth, 2.0 * growth, uphill + 1
            if uphill == _STEPS_UPHILL or foretold <= unit**2:
                return _ended(point, "cost", len(history) - 1, evaluations, history)
            continue
        ratio = gained / foretold
        damping *= max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)
        growth, uphill = 2.0, 0
        point = trial
        D = np.maximum(D, _norms(point.R))
        history.append(point.size)
        if gained <= unit**2 or _crawls(history, unit):
            return _ended(point, "cost", len(history) - 1, evaluations, history)
    return _ended(point, "iterations", len(history) - 1, evaluations, history)


def covariance(fit: NonlinearFit, names: Sequence[str]) -> FloatArray:
    """(JᵀJ)⁻¹ of rows divided by their noise, (n_params, n_params); RankDeficient names what J does not tell apart."""
    undetermined = undetermined_names(fit.R, names)
    if undetermined:
        raise RankDeficient(
            f"the data do not separate {', '.join(undetermined)}; know one beforehand, or add a motion that tells them "
            "apart",
            undetermined,
        )
    norms = np.linalg.norm(fit.R, axis=0)
    inverse = scipy.linalg.solve_triangular(fit.R / norms, np.eye(len(norms))) / norms[:, None]
    return np.asarray(inverse @ inverse.T)


def undetermined_names(J: FloatArray, names: Sequence[str], tolerance: float = RANK_TOLERANCE) -> tuple[str, ...]:
    """Name the parameters that take part in directions along which J is 0; none if its rank is full."""
    norms = np.linalg.norm(J, axis=0)
    _, values, directions = np.linalg.svd(J / np.where(norms > 0.0, norms, 1.0))
    flat = directions[np.append(values, np.zeros(len(directions) - len(values))) <= tolerance * values[0]]
    if not len(flat):
        return ()
    part = np.abs(flat).max(axis=0)
    strong: BoolArray = part > 0.05 * part.max()
    return tuple(name for name, there in zip(names, strong, strict=True) if there)


def require_converged(fit: NonlinearFit, what: str) -> None:
    """Refuse a search that did not end at a minimum."""
    if not fit.converged:
        raise SolverFailed(
            f"{what}: the search for the parameters ended after {fit.iterations} iterations because {fit.message}; "
            "check units and signs of motion and torque, or start nearer",
            fit.status,
        )


def _crawls(history: Sequence[float], unit: float) -> bool:
    """Tell whether several steps together gained next to nothing: kinks of F make a search crawl at its end."""
    if len(history) <= _CRAWL_STEPS:
        return False
    return history[-1 - _CRAWL_STEPS] ** 2 - history[-1] ** 2 <= (_CRAWL * unit) ** 2


def _at(evaluate: Evaluate, x: FloatArray) -> _Point:
    residual, J = evaluate(x)
    n = len(x)
    if not (np.isfinite(residual).all() and np.isfinite(J).all()):
        return _Point(x, np.full(len(residual), np.inf), np.zeros((n, n)), np.zeros(n))
    T = triangle(np.column_stack([J, residual]))
    return _Point(x, residual, T[:n, :n], T[:n, n])


def _step(point: _Point, D: FloatArray, damping: float) -> FloatArray:
    """Solve the damped equations as least squares: [R; √μ D] Δ = [z; 0]."""
    n = len(point.x)
    T = triangle(
        np.column_stack([np.vstack([point.R, np.sqrt(damping) * np.diag(D)]), np.append(point.z, np.zeros(n))])
    )
    return np.asarray(scipy.linalg.solve_triangular(T[:n, :n], T[:n, n]))


def _norms(R: FloatArray) -> FloatArray:
    norms = np.linalg.norm(R, axis=0)
    return np.asarray(np.where(norms > 0.0, norms, 1.0))


def _ended(point: _Point, status: Status, iterations: int, evaluations: int, history: list[float]) -> NonlinearFit:
    residual = np.where(np.isfinite(point.residual), point.residual, 0.0)
    return NonlinearFit(point.x, point.R, residual, status, iterations, evaluations, tuple(history))
