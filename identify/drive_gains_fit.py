"""Gains and parameters from the homogeneous equations: total least squares, and least squares beside it.

`signal_fit` lets only the drives' signals be noisy: columns of motion are exact, and each drive's rows are weighted by
its torque's noise; `frobenius_fit` is the paper's, every column equally noisy. Least squares with the known load on
the right takes noisy signals for exact regressors, which pulls gains low.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.drive_gains_system import GainSystem
from excitor.identify.estimate import Estimate, wls
from excitor.identify.factors import compress, triangle
from excitor.identify.regression import Regression
from excitor.identify.total_least_squares import NullVector, mixed_total_least_squares, total_least_squares
from excitor.identify.whiteness import autocorrelation
from excitor.robots.arrays import FloatArray, IntArray, freeze, one_blas_thread

STEPS = 20  # reweightings; three to six are usual
FAR = 10.0  # from the believed gain, beyond which weights no longer follow: an unseen gain may come out as 0
SETTLED = 1e-10  # relative change of the noise that ends them


@dataclass(frozen=True, eq=False, slots=True)
class GainFit:
    """Parameters and gains with their covariance, before anyone asks whether to believe them."""

    method: str
    parameters: FloatArray  # (n_params,): χ, then χ_uL
    gains: FloatArray  # (n_terms,)
    noise: FloatArray  # (n_drives,): standard deviation of each drive's torque error, motor side; NaN without rows
    covariance: FloatArray  # (n_params + n_terms,) squared; rows and columns of gains without rows are 0
    singular_values: FloatArray  # of what decides the gap; none for least squares
    gap: float

    def __post_init__(self) -> None:
        freeze(self, parameters="n_params", gains="n_terms", singular_values="n_values")
        freeze(self, finite=False, noise="n_drives", covariance="n n")


@one_blas_thread()
def signal_fit(system: GainSystem) -> GainFit:
    """Total least squares with noise in the signals only, each drive's of its own size.

    minimise Σ_j ‖V_j g_j - W_j χ - w_j‖² / s_j², s_j the torque that the noise of v_j makes: reweighted until s_j
    settle. The gap is that of V and the load's column beside what W explains of them, in units of noise.
    """
    used, scale = _used_terms(system), _prior_scale(system)
    triangles, slopes = _triangles(system, used, scale), _slope_grams(system, used, scale)
    n = len(system.names)
    noisy = np.concatenate([np.zeros(n, dtype=bool), system.slope[:, used].any(axis=0), [False]])
    against = np.concatenate([noisy[:-1], [True]])
    rows = np.array([[len(system.W) / len(system.drives)]])  # the load's column beside the noise of a drive's rows
    believed = _slope_sizes(system, slopes, system.prior[used] / scale)
    noise, sizes = _prior_noise(system), dict(believed)
    for _ in range(STEPS):
        M = triangle(np.concatenate([triangles[j] / noise[j] for j in system.drives]))
        C = scipy.linalg.block_diag(*(slopes[j] / sizes[j] ** 2 for j in system.drives))
        C = C[np.ix_(noisy[n:-1], noisy[n:-1])]
        x = _scaled(mixed_total_least_squares(M, noisy, C).x)
        judged = mixed_total_least_squares(M, against, scipy.linalg.block_diag(C, rows))
        residual, found, before = _residual_noise(system, triangles, x), _slope_sizes(system, slopes, x[n:-1]), noise
        noise, sizes = _reweighted(system, (noise, sizes), residual, found, believed)
        if np.nanmax(np.abs(noise / before - 1.0)) < SETTLED:
            break
    return _told(system, "noise in signals", x[:n], _all_terms(system, used, x[n:-1] * scale), noise, judged)


def _reweighted(
    system: GainSystem,
    old: tuple[FloatArray, dict[int, float]],
    residual: FloatArray,
    found: Mapping[int, float],
    believed: Mapping[int, float],
) -> tuple[FloatArray, dict[int, float]]:
    """Find the noise of each drive's torque anew: that of its signal, times how much torque a unit of it makes."""
    noise, sizes = old[0].copy(), dict(old[1])
    for j in system.drives:
        of_signal = residual[j] / found[j] if found[j] > 1e-9 * believed[j] else noise[j] / sizes[j]
        sizes[j] = min(max(found[j], believed[j] / FAR), believed[j] * FAR)
        noise[j] = of_signal * sizes[j]
    return noise, sizes


@one_blas_thread()
def frobenius_fit(system: GainSystem, *, weighted: bool = True) -> GainFit:
    """Total least squares of [Briot2012] §3.2: rows over each drive's error level, unit columns, one SVD."""
    used, scale = _used_terms(system), _prior_scale(system)
    noise = _prior_noise(system) if weighted else np.ones(len(system.laws))
    triangles = _triangles(system, used, scale)
    M = triangle(np.concatenate([triangles[j] / noise[j] for j in system.drives]))
    norms = np.linalg.norm(M, axis=0)
    found = total_least_squares(M / np.where(norms > 0.0, norms, 1.0))
    x = _scaled(found.x / np.where(norms > 0.0, norms, 1.0))
    n = len(system.names)
    gains = _all_terms(system, used, x[n:-1] * scale)
    return _told(system, "all columns noisy", x[:n], gains, _residual_noise(system, triangles, x), found)


@one_blas_thread()
def known_load_fit(system: GainSystem) -> GainFit:
    """Weighted least squares with the known load on the right: signals count as exact."""
    used, scale = _used_terms(system), _prior_scale(system)
    noise = _prior_noise(system)
    triangles = _triangles(system, used, scale)
    R = triangle(np.concatenate([triangles[j] / noise[j] for j in system.drives]))
    x = np.append(np.linalg.lstsq(R[:, :-1], -R[:, -1], rcond=None)[0], 1.0)
    n = len(system.names)
    gains = _all_terms(system, used, x[n:-1] * scale)
    return _told(system, "least squares", x[:n], gains, _residual_noise(system, triangles, x), None)


def prior_fit(system: GainSystem) -> Estimate:
    """Fit parameters alone with a-priori gains, by weighted least squares."""
    return wls(compress(prior_regression(system)))


def prior_regression(system: GainSystem) -> Regression:
    """Write the equations with a-priori gains: V g - w = W χ + e."""
    return Regression(
        kind="dynamic",
        names=system.names,
        units=system.units,
        joint_names=system.drive_names,
        runs=tuple(f"run {k + 1}" for k in range(int(system.run.max()) + 1)),
        W=system.W,
        y=system.V @ system.prior - system.known,
        joint=system.drive,
        run=system.run,
        sample=system.sample,
        variance=None,
    )


def _prior_noise(system: GainSystem) -> FloatArray:
    """Level of each drive's torque error when a-priori gains are believed, (n_drives,)."""
    estimate = prior_fit(system)
    sigma = {joint: value for (joint, _), value in estimate.group_sigma.items()}
    return np.array([sigma.get(j, np.nan) for j in range(len(system.laws))])


def _used_terms(system: GainSystem) -> IntArray:
    """Columns of V that belong to drives with rows."""
    return np.concatenate([np.arange(*system.terms[j].indices(system.V.shape[1])) for j in system.drives])


def _prior_scale(system: GainSystem) -> FloatArray:
    """Size by which each used term is measured: its a-priori gain, or its drive's largest where that is 0."""
    prior = np.abs(system.prior)
    largest = np.concatenate([np.full(len(law.powers), np.abs(law.prior).max()) for law in system.laws])
    return np.asarray(np.where(prior > 0.0, prior, largest)[_used_terms(system)])


def _all_terms(system: GainSystem, used: IntArray, values: FloatArray) -> FloatArray:
    gains = np.zeros(system.V.shape[1])
    gains[used] = values
    return gains


def _triangles(system: GainSystem, used: IntArray, scale: FloatArray) -> dict[int, FloatArray]:
    """Triangular factors of each drive's rows of [-W, V, -w], columns of V by a-priori gain."""
    rows = np.column_stack([-system.W, system.V[:, used] * scale, -system.known])
    return {j: triangle(rows[system.drive == j]) for j in system.drives}


def _residual_noise(system: GainSystem, triangles: dict[int, FloatArray], x: FloatArray) -> FloatArray:
    noise = np.full(len(system.laws), np.nan)
    for j in system.drives:
        size = float(np.linalg.norm(triangles[j] @ x)) / np.sqrt(np.count_nonzero(system.drive == j))
        noise[j] = max(size, 1e-13 * float(np.linalg.norm(triangles[j])))
    return noise


def _slope_grams(system: GainSystem, used: IntArray, scale: FloatArray) -> dict[int, FloatArray]:
    """Σ f′ f′ᵀ of each drive's used terms: how noise of its signal shows in them."""
    grams = {}
    for j in system.drives:
        own = np.isin(used, np.arange(*system.terms[j].indices(system.V.shape[1])))
        slope = system.slope[np.ix_(system.drive == j, used[own])] * scale[own]
        grams[j] = slope.T @ slope
    return grams


def _slope_sizes(system: GainSystem, grams: dict[int, FloatArray], g: FloatArray) -> dict[int, float]:
    """Root mean square of f′ᵀ g: how much torque noise a unit of the signal's noise makes."""
    sizes, at = {}, 0
    for j in system.drives:
        own = g[at : at + len(grams[j])]
        at += len(own)
        square = float(own @ grams[j] @ own) / np.count_nonzero(system.drive == j)
        sizes[j] = float(np.sqrt(max(square, 0.0)))
    return sizes


def _scaled(x: FloatArray) -> FloatArray:
    """Let the last entry be 1: the load is known; a direction without it has no scale and comes out as it can."""
    least = 1e-14 * float(np.abs(x).max())
    return np.asarray(x / (x[-1] if abs(x[-1]) > least else least))


def _told(
    system: GainSystem, method: str, chi: FloatArray, gains: FloatArray, noise: FloatArray, judged: NullVector | None
) -> GainFit:
    return GainFit(
        method=method,
        parameters=chi,
        gains=gains,
        noise=noise,
        covariance=_covariance(system, chi, gains, noise),
        singular_values=np.zeros(0) if judged is None else judged.singular_values,
        gap=np.nan if judged is None else judged.gap,
    )


def _covariance(system: GainSystem, chi: FloatArray, gains: FloatArray, noise: FloatArray) -> FloatArray:
    """A⁻¹ (Σ_j Σ_k ρ_jk J_tᵀ J_(t+k)) A⁻¹ with J the weighted rows, their signals freed of noise, and A = JᵀJ.

    ρ_j are the autocorrelations of drive j's residuals: neighbours tell less than their number. Signals freed of noise
    are V - f′ n, n the residual over the torque's slope; noisy ones would make weak gains look sure.
    """
    used = _used_terms(system)
    residual = system.V @ gains - system.W @ chi - system.known
    slope = system.slope @ gains
    steep = np.abs(slope) > 1e-9 * np.abs(slope).max(initial=0.0)
    n_v = np.divide(residual, slope, out=np.zeros_like(residual), where=steep)
    weight = 1.0 / noise[system.drive]
    J = np.column_stack([-system.W, (system.V - system.slope * n_v[:, None])[:, used]]) * weight[:, None]
    norms = np.linalg.norm(J, axis=0)
    norms[norms == 0.0] = 1.0
    _, values, directions = np.linalg.svd(triangle(J / norms))
    inverse = (directions.T / np.maximum(values, 1e-15 * values[0])) / norms[:, None]
    U = J @ (inverse @ inverse.T)
    middle = sum(_correlated(system, U, residual * weight, j) for j in system.drives)
    dof = max(len(J) - J.shape[1], 1)
    n, total = len(chi), len(chi) + len(gains)
    place = np.concatenate([np.arange(n), n + used])
    covariance = np.zeros((total, total))
    covariance[np.ix_(place, place)] = middle * (len(J) / dof)
    silent = place[~J.any(axis=0)]
    covariance[silent, silent] = np.inf
    return covariance


def _correlated(system: GainSystem, U: FloatArray, residual: FloatArray, drive: int) -> FloatArray:
    """Σ_k ρ_k U_tᵀ U_(t+k) of one drive, its runs apart, gaps in time left out."""
    rows = np.flatnonzero(system.drive == drive)
    rho = autocorrelation(system.run[rows], system.sample[rows], residual[rows])
    rho = rho[: _memory(rho)]
    middle = np.zeros((U.shape[1], U.shape[1]))
    for run in np.unique(system.run[rows]):
        own = rows[system.run[rows] == run]
        place = system.sample[own] - system.sample[own].min()
        grid = np.zeros((int(place.max()) + 1, U.shape[1]))
        grid[place] = U[own]
        smooth = rho[0] * grid
        for k in range(1, min(len(rho), len(grid))):
            smooth[k:] += rho[k] * grid[:-k]
            smooth[:-k] += rho[k] * grid[k:]
        middle += grid.T @ smooth
    return middle


def _memory(rho: FloatArray) -> int:
    """Count the lags before pairs of correlations turn negative: farther ones are noise."""
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0.0)
    return 2 * int(ends[0] if ends.size else len(pairs)) or 1
