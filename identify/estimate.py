"""Linear estimates: least squares, plain, weighted, robust or with a ridge; all from triangular factors.

σ comes from (WᵀΣ⁻¹W)⁻¹ and so holds for white residuals; `validate` has intervals that do not trust them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.identify.factors import Factors, compress, residual_norms, total
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.errors import RankDeficient

By = Literal["joint", "joint and run"]
RANK_TOLERANCE = 1e-10  # of column-normalised singular values; below, a parameter is not in the data


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """Parameters with their covariance, and how they came about."""

    method: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: FloatArray  # (n_params,)
    covariance: FloatArray  # (n_params, n_params), of white residuals
    group_sigma: Mapping[tuple[int, int], float]  # (joint, run) -> standard deviation that weighted its rows
    n_rows: int
    condition: float  # of the column-normalised, unweighted matrix
    singular_values: FloatArray  # of the same
    weighted_residual: float  # norm of the weighted residuals
    settings: Mapping[str, float | str]

    def __post_init__(self) -> None:
        freeze(self, values="n_params", covariance="n_params n_params", singular_values="n_params")

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (n_params,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def relative_sigma(self) -> FloatArray:
        """Standard deviations as fractions of the values; inf where a value is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(self.values == 0.0, np.inf, self.sigma / np.abs(self.values)))

    def value(self, name: str) -> float:
        """Look a parameter up; 0 if it was left out."""
        return float(self.values[self.names.index(name)]) if name in self.names else 0.0


@one_blas_thread()
def ols(factors: Factors) -> Estimate:
    """Ordinary least squares: every row counts the same."""
    return _solve(factors, np.ones(len(factors.n_rows)), "ols", {})


@one_blas_thread()
def wls(factors: Factors, by: By = "joint") -> Estimate:
    """Weighted least squares: rows divided by the standard deviation of the residuals that OLS leaves in their group.

    σ_g² = ‖y_g - W_g β‖² / n_g over the groups of one joint, or of one joint in one run.
    """
    start = ols(factors)
    sigma = group_sigma(factors, start.values, by)
    return _solve(factors, 1.0 / sigma, "wls", {"weights by": by})


@one_blas_thread()
def wls_measured(regression: Regression, repetitions: int) -> Estimate:
    """Weight each row by its measured variance; the data are means of that many repetitions.

    For reproducing published results, or from 30 repetitions up: few repetitions make poor weights.
    """
    if regression.variance is None:
        raise ValueError("the regression has no measured variances; average repeated runs, or weight by joint")
    if repetitions < 2:
        raise ValueError(f"repetitions is {repetitions}, expected at least 2")
    factors = compress(regression, 1.0 / np.sqrt(regression.variance))
    settings: dict[str, float | str] = {"weights by": "sample", "repetitions": float(repetitions)}
    estimate = _solve(factors, np.ones(len(factors.n_rows)), "wls", settings)
    R = total(factors, np.ones(len(factors.n_rows)))[:-1, :-1]
    spectrum = column_spectrum(total(compress(regression), np.ones(len(factors.n_rows)))[:-1, :-1])
    return replace(
        estimate,
        covariance=_inverse_gram(R) / repetitions,
        condition=float(spectrum[0] / spectrum[-1]),
        singular_values=spectrum,
    )


@one_blas_thread()
def ridge(
    factors: Factors, *, weight: float, prior: FloatArray | None = None, scale: FloatArray | None = None
) -> Estimate:
    """Weighted least squares with weight · ‖(β - prior) / scale‖² added; what data do not tell stays at the prior."""
    if not weight > 0.0:
        raise ValueError(f"weight is {weight}, expected a positive number")
    n = factors.n_columns
    prior = np.zeros(n) if prior is None else np.asarray(prior, dtype=float)
    scale = np.ones(n) if scale is None else np.asarray(scale, dtype=float)
    rows = np.column_stack([np.diag(np.sqrt(weight) / scale), np.sqrt(weight) * prior / scale])
    start = _solve(factors, np.ones(len(factors.n_rows)), "ols", {}, extra=rows)
    sigma = group_sigma(factors, start.values, "joint")
    return _solve(factors, 1.0 / sigma, "ridge", {"weight": weight}, extra=rows)


@one_blas_thread()
def irls(regression: Regression, loss: Literal["huber", "l1"] = "huber", steps: int = 12) -> Estimate:
    """Reweight rows again and again: rows with large residuals count less.

    Residuals are scaled by each joint's robust deviation s; weights² are min(1, k / |r|) (huber, k = 1.345) or
    1 / max(|r|, 0.01) (l1), r = residual / s.
    """
    scale = np.ones(len(regression))
    weights = np.ones(len(regression))
    for _ in range(steps + 1):
        factors = compress(regression, weights / scale)
        beta = _solve(factors, np.ones(len(factors.n_rows)), "irls", {}).values
        residual = regression.y - regression.W @ beta
        for joint in np.unique(regression.joint):
            rows = regression.joint == joint
            scale[rows] = max(1.4826 * float(np.median(np.abs(residual[rows]))), np.finfo(float).tiny)
        size = np.abs(residual) / scale
        weights = np.sqrt(
            np.minimum(1.0, 1.345 / np.maximum(size, 1e-12)) if loss == "huber" else 1.0 / np.maximum(size, 0.01)
        )
    return _solve(factors, np.ones(len(factors.n_rows)), "irls", {"loss": loss, "steps": float(steps)})


def group_sigma(factors: Factors, beta: FloatArray, by: By) -> FloatArray:
    """Estimate the standard deviation that each group's rows are weighted with, (n_groups,)."""
    squares = residual_norms(factors, beta) ** 2
    labels = factors.joint if by == "joint" else np.arange(len(factors.joint))
    sigma = np.empty(len(labels))
    for label in np.unique(labels):
        rows = labels == label
        sigma[rows] = np.sqrt(squares[rows].sum() / factors.n_rows[rows].sum())
    floor = 1e-12 * max(float(np.sqrt((factors.R[:, :, -1] ** 2).sum() / factors.n_rows.sum())), 1e-100)
    return np.maximum(sigma, floor)


def column_spectrum(R: FloatArray) -> FloatArray:
    """Singular values of a matrix with its columns divided by their 2-norms, from its triangular factor."""
    norms = np.linalg.norm(R, axis=0)
    return np.asarray(np.linalg.svd(R / np.where(norms > 0.0, norms, 1.0), compute_uv=False))


def _solve(
    factors: Factors,
    weights: FloatArray,
    method: str,
    settings: Mapping[str, float | str],
    extra: FloatArray | None = None,
) -> Estimate:
    n = factors.n_columns
    n_rows = int(factors.n_rows.sum())
    full = total(factors, weights)
    if extra is not None:
        from excitor.identify.factors import triangle

        full = triangle(np.concatenate([full, extra]))
    R, z, rest = full[:n, :n], full[:n, n], abs(float(full[n, n]))
    _check_rank(R, factors.names)
    variance = rest**2 / max(n_rows - n, 1)
    spectrum = column_spectrum(total(factors, np.ones(len(weights)))[:n, :n])
    groups = zip(factors.joint, factors.run, strict=True)
    return Estimate(
        method=method,
        names=factors.names,
        units=factors.units,
        values=scipy.linalg.solve_triangular(R, z),
        covariance=variance * _inverse_gram(R),
        group_sigma={(int(j), int(r)): float(1.0 / w) for (j, r), w in zip(groups, weights, strict=True)},
        n_rows=n_rows,
        condition=float(spectrum[0] / spectrum[-1]) if spectrum[-1] > 0.0 else float("inf"),
        singular_values=spectrum,
        weighted_residual=rest,
        settings=dict(settings),
    )


def _inverse_gram(R: FloatArray) -> FloatArray:
    inverse = scipy.linalg.solve_triangular(R, np.eye(len(R)))
    return np.asarray(inverse @ inverse.T)


def _check_rank(R: FloatArray, names: tuple[str, ...]) -> None:
    norms = np.linalg.norm(R, axis=0)
    absent = [name for name, norm in zip(names, norms, strict=True) if norm == 0.0]
    if absent:
        raise RankDeficient(
            f"no equation contains {', '.join(absent)}; leave them out, or move what shows them", absent
        )
    _, values, directions = np.linalg.svd(R / norms)
    if values[-1] > RANK_TOLERANCE * values[0]:
        return
    strong = np.abs(directions[-1]) > 0.2 * np.abs(directions[-1]).max()
    mixed = [name for name, part in zip(names, strong, strict=True) if part]
    raise RankDeficient(
        f"the data do not separate {', '.join(mixed)} (smallest singular value {values[-1] / values[0]:.1e} of the "
        "largest); leave one out, or add a run that moves them apart",
        mixed,
    )


def indices_of(estimate: Estimate, names: tuple[str, ...]) -> IntArray:
    """Find an estimate's parameters in a list of names."""
    return np.array([names.index(name) for name in estimate.names], dtype=np.int64)
