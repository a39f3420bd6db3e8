"""What are the parameters when the motion is noisy too? Instrumental variables: columns that noise has not touched.

    β = (Zᵀ Ω⁻¹ W)⁻¹ Zᵀ Ω⁻¹ y      Z: columns along a simulated, noise-free motion ([Janot2014]); Ω: variances by joint

Least squares take the measured motion for exact; noise in it, which a controller turns into torque as well, pulls
them off. Z is noise-free and nearly W, so Zᵀe has mean 0. Solved on QR: Z = Q R, then Qᵀ W β = Qᵀ y.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.estimate import Estimate
from excitor.identify.influence import estimate_of, influence, joint_sigma, require_rank
from excitor.identify.intervals import Whitened
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, check_shape, freeze, one_blas_thread
from excitor.robots.errors import ExcitorError

Instruments = Callable[[Estimate], FloatArray]  # a model -> Z (n_rows, n_columns), on the regression's rows
MAX_ITERATIONS = 10
SETTLED = 0.25  # of standard deviations: instruments of any of these models are as good
WEAK = 10.0  # the usual rule: of F below, IV keeps more than a tenth of least squares' bias
USELESS = 1.0  # what instruments that have nothing to do with the columns reach by chance


@dataclass(frozen=True, eq=False, slots=True)
class Strength:
    """How much of the measured columns instruments explain, in the direction where that is least.

    ρ are the canonical correlations of Z and W; F = (N - n) / n · ρ² / (1 - ρ²) at the least ρ ([Cragg1993]).
    """

    correlation: FloatArray  # (n_columns,), largest first
    F: float
    weakest: tuple[str, ...]  # the parameters of that direction

    def __post_init__(self) -> None:
        freeze(self, correlation="n_columns")

    @property
    def weak(self) -> bool:
        """Tell whether the estimate may keep much of the bias that instruments are to remove."""
        return self.F < WEAK

    @property
    def sentence(self) -> str:
        """Say how strong the instruments are."""
        least = f"of the columns in their weakest direction instruments explain {100 * self.correlation[-1] ** 2:.0f} %"
        if not self.weak:
            return f"instruments are strong: {least} (F = {self.F:.3g})"
        return (
            f"instruments are weak: {least} (F = {self.F:.3g}, 10 is wanted), shown most by "
            f"{', '.join(self.weakest)}; estimates of these keep part of the bias: move what shows them more"
        )


@dataclass(frozen=True, eq=False, slots=True)
class InstrumentalFit:
    """An instrumental estimate, how it moves with its rows' errors, and how good its instruments are."""

    estimate: Estimate
    system: Whitened
    Z: FloatArray  # (n_rows, n_columns), of the last iteration
    strength: Strength
    iterations: int
    converged: bool

    def __post_init__(self) -> None:
        freeze(self, Z="n_rows n_columns")


@one_blas_thread()
def instrumental_variables(
    regression: Regression,
    instruments: Instruments,
    *,
    start: Estimate,
    max_iterations: int = MAX_ITERATIONS,
) -> InstrumentalFit:
    """Iterate: instruments of the model found last, weights by joint from its residuals, until it settles.

    ExcitorError where instruments tell no more of some direction than chance would.
    """
    at, sigma = start, joint_sigma(regression, regression.y - regression.W @ start.values)
    for iteration in range(1, max_iterations + 1):
        Z = instruments(at)
        shape = {"n_rows": len(regression), "n_columns": len(regression.names)}
        check_shape(Z, "n_rows n_columns", "instruments", shape)
        found = _solve(regression, Z, sigma, iteration)
        moved = float(np.max(np.abs(found.estimate.values - at.values) / found.estimate.sigma))
        sigma = joint_sigma(regression, regression.y - regression.W @ found.estimate.values)
        at = found.estimate
        if moved < SETTLED:
            break
    return InstrumentalFit(found.estimate, found.system, Z, found.strength, iteration, moved < SETTLED)


@dataclass(frozen=True, eq=False, slots=True)
class _Solved:
    estimate: Estimate
    system: Whitened
    strength: Strength


def _solve(regression: Regression, Z: FloatArray, sigma: FloatArray, iteration: int) -> _Solved:
    W, y, Z = regression.W / sigma[:, None], regression.y / sigma, Z / sigma[:, None]
    Q_Z, R_Z = scipy.linalg.qr(Z, mode="economic", check_finite=False)
    require_rank(R_Z, regression.names, "simulated columns")
    strength = instrument_strength(Q_Z, W, regression.names)
    if strength.F < USELESS:
        raise ExcitorError(
            "the simulated motion explains no more of the measured columns than chance would, least those of "
            f"{', '.join(strength.weakest)}; check that reference, servo and time of the simulation are the robot's"
        )
    system = influence(Q_Z, W, y)  # of torques instead of residuals
    values = np.asarray(scipy.linalg.solve_triangular(system.R, system.Q.T @ y))
    system = Whitened(system.Q, system.R, y - W @ values)
    settings: dict[str, float | str] = {"weights by": "joint", "iterations": float(iteration), "F": strength.F}
    estimate = estimate_of(system, regression, values, method="iv", sigma=sigma, settings=settings)
    return _Solved(estimate, system, strength)


def instrument_strength(Q_Z: FloatArray, W: FloatArray, names: tuple[str, ...]) -> Strength:
    """Measure how much of the columns W instruments explain; Q_Z are theirs, orthonormal, rows weighted in both."""
    Q, R = scipy.linalg.qr(W, mode="economic", check_finite=False)
    _, correlation, directions = np.linalg.svd(Q_Z.T @ Q)
    least = min(float(correlation[-1]), 1.0)
    n_rows, n = W.shape
    explained = least**2
    F = (n_rows - n) / n * explained / (1.0 - explained) if explained < 1.0 else np.inf
    inverse = scipy.linalg.solve_triangular(R, np.eye(n))
    share = np.abs(inverse @ directions[-1]) / np.linalg.norm(inverse, axis=1)  # of each parameter's deviation
    order = np.argsort(share)[::-1]
    shown = [names[k] for k in order[:3] if share[k] > 0.5 * share[order[0]]]
    return Strength(np.minimum(correlation, 1.0), float(F), tuple(shown))
