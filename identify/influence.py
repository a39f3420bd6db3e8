"""How does an estimate move when its rows' errors do? Estimates that solve Zᵀ r = 0, written as least squares are.

    β̂ - β = A⁻¹ Zᵀ e = R⁻¹ Qᵀ e,   A = Zᵀ W + extra        Z = Q_Z R_Z,  R_Z⁻ᵀ A = U R,  Q = Q_Z U

With Q orthonormal and R triangular, all that is known of intervals for least squares holds for instruments, total
least squares, a ridge or whitened equations too.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg

from excitor.identify.estimate import RANK_TOLERANCE, Estimate, column_spectrum
from excitor.identify.factors import triangle
from excitor.identify.intervals import Intervals, Whitened, block_bootstrap, wider
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples
from excitor.identify.spectral_intervals import spectral_intervals
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import RankDeficient

DRAWS = 200


def influence(Z: FloatArray, W: FloatArray, residual: FloatArray, extra: FloatArray | None = None) -> Whitened:
    """Write β̂ - β = (Zᵀ W + extra)⁻¹ Zᵀ e with orthonormal columns; rows are weighted already."""
    Q_Z, R_Z = scipy.linalg.qr(Z, mode="economic", check_finite=False)
    A = Q_Z.T @ W
    if extra is not None:
        A = A + scipy.linalg.solve_triangular(R_Z, extra, trans="T")
    U, R = scipy.linalg.qr(A, check_finite=False)
    return Whitened(Q_Z @ U, R, residual)


def estimate_of(
    system: Whitened,
    regression: Regression,
    values: FloatArray,
    *,
    method: str,
    sigma: FloatArray,
    settings: dict[str, float | str],
) -> Estimate:
    """Describe values that a system was linearised about; the covariance is of white residuals.

    `sigma` (n_rows,) is what rows were divided by, alike within each group of joint and run.
    """
    n_rows, n = len(regression), len(values)
    rest = float(np.linalg.norm(system.residual))
    inverse = scipy.linalg.solve_triangular(system.R, np.eye(n))
    spectrum = column_spectrum(triangle(regression.W))
    groups = np.column_stack([regression.joint, regression.run])
    labels, first = np.unique(groups, axis=0, return_index=True)
    return Estimate(
        method=method,
        names=regression.names,
        units=regression.units,
        values=values,
        covariance=rest**2 / max(n_rows - n, 1) * (inverse @ inverse.T),
        group_sigma={(int(j), int(r)): float(sigma[k]) for (j, r), k in zip(labels, first, strict=True)},
        n_rows=n_rows,
        condition=float(spectrum[0] / spectrum[-1]) if spectrum[-1] > 0.0 else float("inf"),
        singular_values=spectrum,
        weighted_residual=rest,
        settings=settings,
    )


def honest_intervals(
    regression: Regression,
    estimate: Estimate,
    runs: Sequence[Samples] = (),
    *,
    system: Whitened | None = None,
    row_weights: FloatArray | None = None,
) -> Intervals:
    """Find 95 % intervals that do not trust residuals to be white: by bands, widened by blocks of time."""
    by_band = spectral_intervals(regression, estimate, runs, row_weights=row_weights, system=system)
    by_block = block_bootstrap(regression, estimate, row_weights=row_weights, system=system, draws=DRAWS)
    return wider(by_band, by_block)


def believing(intervals: Intervals, covariance: FloatArray) -> Intervals:
    """Add to intervals what a belief that was used leaves uncertain."""
    grow = np.sqrt(1.0 + np.diag(covariance) / np.diag(intervals.covariance))
    half = 0.5 * grow * (intervals.high - intervals.low)
    return replace(
        intervals,
        covariance=intervals.covariance + covariance,
        low=intervals.values - half,
        high=intervals.values + half,
        inflation=intervals.inflation * grow,
    )


def joint_sigma(regression: Regression, residual: FloatArray) -> FloatArray:
    """Root mean square of the residuals of each row's joint, (n_rows,); never 0."""
    sigma = np.empty(len(regression))
    floor = 1e-12 * max(float(np.sqrt(np.mean(regression.y**2))), 1e-100)
    for joint in np.unique(regression.joint):
        rows = regression.joint == joint
        sigma[rows] = max(float(np.sqrt(np.mean(residual[rows] ** 2))), floor)
    return sigma


def require_rank(R: FloatArray, names: Sequence[str], what: str) -> None:
    """Refuse a triangle whose normalised columns depend on one another, naming them."""
    norms = np.linalg.norm(R, axis=0)
    _, values, directions = np.linalg.svd(R / np.where(norms > 0.0, norms, 1.0))
    if values[-1] > RANK_TOLERANCE * values[0]:
        return
    part = np.abs(directions[-1])
    mixed = [name for name, size in zip(names, part, strict=True) if size > 0.2 * part.max()]
    raise RankDeficient(f"{what} do not separate {', '.join(mixed)}; leave one out, or move what shows them", mixed)
