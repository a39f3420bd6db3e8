"""Linear estimates: least squares, plain, weighted, robust or with a ridge; all from triangular factors.

σ comes from (WᵀΣ⁻¹W)⁻¹ and so holds for white residuals; `intervals` has some that do not assume whiteness.

Equations are compressed to triangular factors by joint and run. Logs of any length are compressed chunk by chunk, in
constant memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.identify.regression import Regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

By = Literal["joint", "joint and run"]
RANK_TOLERANCE = 1e-10  # of column-normalised singular values; below, a parameter is not in the data
CHUNK = 4096  # samples at once


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """Parameters with their covariance, method and settings."""

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
        """Return a parameter's value by name; 0 if it was left out."""
        return float(self.values[self.names.index(name)]) if name in self.names else 0.0


@dataclass(frozen=True, eq=False, slots=True)
class Factors:
    """Upper triangles R with Rᵀ R = [W y]ᵀ [W y], one for each group of rows of one joint in one run."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    joint: IntArray  # (n_groups,), -1 for power
    run: IntArray  # (n_groups,)
    n_rows: IntArray  # (n_groups,)
    R: FloatArray  # (n_groups, n_columns + 1, n_columns + 1)

    def __post_init__(self) -> None:
        sizes = freeze(self, R="n_groups n_size n_size", joint="int: n_groups", run="int: n_groups")
        freeze(self, n_rows="int: n_groups")
        if len(self.names) + 1 != sizes["n_size"]:
            raise ValueError(f"Factors.names has {len(self.names)} entries, expected {sizes['n_size'] - 1}")

    @property
    def n_columns(self) -> int:
        """Count the parameters."""
        return len(self.names)


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
    return _solve(factors, 1.0 / group_sigma(factors, start.values, by), "wls", {"weights by": by})


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
    condition = float(spectrum[0] / spectrum[-1])
    return replace(estimate, covariance=_inverse_gram(R) / repetitions, condition=condition, singular_values=spectrum)


@one_blas_thread()
def ridge(
    factors: Factors, *, weight: float, prior: FloatArray | None = None, scale: FloatArray | None = None
) -> Estimate:
    """Weighted least squares plus weight · ‖(β - prior) / scale‖²; undetermined directions keep the prior's values."""
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
    """Fit by iteratively reweighted least squares: rows with large residuals count less.

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


def rows_of_groups(regression: Regression, estimate: Estimate) -> FloatArray:
    """Return the deviation that an estimate divided each row by, (n_rows,)."""
    groups = zip(regression.joint.tolist(), regression.run.tolist(), strict=True)
    return np.array([estimate.group_sigma[group] for group in groups])


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
        message = f"no equation contains {', '.join(absent)}; leave them out, or move what shows them"
        raise RankDeficient(message, absent)
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


@one_blas_thread()
def compress(regression: Regression, row_weights: FloatArray | None = None) -> Factors:
    """Compress equations, each row multiplied by its weight first."""
    labels = np.column_stack([regression.joint, regression.run])
    groups = np.unique(labels, axis=0)
    system = np.column_stack([regression.W, regression.y])
    if row_weights is not None:
        system = system * row_weights[:, None]
    chosen = [(labels == group).all(axis=1) for group in groups]
    n_rows = np.array([np.count_nonzero(rows) for rows in chosen])
    R = np.array([triangle(system[rows]) for rows in chosen])
    names = regression.names
    return Factors(names=names, units=regression.units, joint=groups[:, 0], run=groups[:, 1], n_rows=n_rows, R=R)


@one_blas_thread()
def merge(parts: Iterable[Factors]) -> Factors:
    """Merge factors of further rows of the same model, group by group."""
    merged: dict[tuple[int, int], tuple[int, FloatArray]] = {}
    first: Factors | None = None
    for part in parts:
        first = first or part
        if part.names != first.names:
            raise ValueError("the factors are of different parameters; compress the same columns everywhere")
        for key, n_rows, R in zip(zip(part.joint, part.run, strict=True), part.n_rows, part.R, strict=True):
            group = (int(key[0]), int(key[1]))
            count, before = merged.get(group, (0, np.zeros((0, R.shape[1]))))
            merged[group] = (count + int(n_rows), triangle(np.concatenate([before, R])))
    if first is None:
        raise ValueError("there are no factors to merge")
    groups = sorted(merged)
    return Factors(
        names=first.names,
        units=first.units,
        joint=np.array([joint for joint, _ in groups]),
        run=np.array([run for _, run in groups]),
        n_rows=np.array([merged[group][0] for group in groups]),
        R=np.array([merged[group][1] for group in groups]),
    )


def triangle(rows: FloatArray) -> FloatArray:
    """Upper triangular factor of rows, square whatever their count."""
    size = rows.shape[1]
    R = scipy.linalg.qr(rows, mode="r", check_finite=False)[0][:size]
    return np.concatenate([R, np.zeros((size - len(R), size))]) if len(R) < size else R


def select(factors: Factors, kept: BoolArray) -> Factors:
    """Keep some parameters; the others are 0."""
    columns = np.append(kept, True)
    names = tuple(name for name, keep in zip(factors.names, kept, strict=True) if keep)
    units = tuple(unit for unit, keep in zip(factors.units, kept, strict=True) if keep)
    R = np.array([triangle(R[:, columns]) for R in factors.R])
    return Factors(names, units, factors.joint, factors.run, factors.n_rows, R)


def total(factors: Factors, weights: FloatArray) -> FloatArray:
    """Merge all groups into one triangle, the rows of group g multiplied by weights[g]."""
    scaled = factors.R * weights[:, None, None]
    return triangle(scaled.reshape(-1, scaled.shape[2]))


def residual_norms(factors: Factors, beta: FloatArray) -> FloatArray:
    """Norm of y - W β in each group, (n_groups,)."""
    return np.asarray(np.linalg.norm(factors.R @ np.append(-beta, 1.0), axis=1))


@one_blas_thread()
def stream_factors(robot: Robot, chunks: Iterable[Samples], *, columns: IntArray | None = None) -> Factors:
    """Compress τ = W β of samples that come chunk by chunk; chunks of the same run name are one run."""
    columns = base_parameters(robot).kept if columns is None else columns
    own = own_columns(robot, columns)
    runs: dict[str, int] = {}
    triangles: dict[tuple[int, int], FloatArray] = {}
    counts: dict[tuple[int, int], int] = {}
    for samples in chunks:
        run = runs.setdefault(samples.run, len(runs))
        for block in blocks(samples):
            Y = regressor(robot, block.motion)
            for j in range(robot.n_joints):
                key = (j, run)
                rows = np.empty((len(own[j]) + 1, len(block)))
                rows[:-1] = Y[:, j, columns[own[j]]].T
                rows[-1] = block.tau[:, j]
                triangles[key] = update(triangles.get(key), rows.T)
                counts[key] = counts.get(key, 0) + len(block)
    return _scatter(robot, columns, own, triangles, counts)


def blocks(samples: Samples) -> Iterator[Samples]:
    """Cut samples into chunks."""
    for first in range(0, len(samples), CHUNK):
        rows = slice(first, first + CHUNK)
        motion = Motion(samples.motion.q[rows], samples.motion.dq[rows], samples.motion.ddq[rows])
        yield Samples(samples.run, motion, samples.tau[rows], samples.sample_rate_hz)


def own_columns(robot: Robot, columns: IntArray) -> list[IntArray]:
    """Find the columns that can be non-zero in each joint's rows."""
    Y = regressor(robot, random_motion(robot, 20))[:, :, columns]
    return [np.flatnonzero(np.any(Y[:, j] != 0.0, axis=0)) for j in range(robot.n_joints)]


def update(triangle: FloatArray | None, rows: FloatArray) -> FloatArray:
    """Triangle of an earlier triangle stacked on further rows (Fortran order: it is overwritten)."""
    stacked = rows if triangle is None else np.asfortranarray(np.concatenate([triangle, rows]))
    return np.triu(scipy.linalg.lapack.dgeqrf(stacked, overwrite_a=1)[0][: rows.shape[1]])


def _scatter(
    robot: Robot,
    columns: IntArray,
    own: list[IntArray],
    triangles: dict[tuple[int, int], FloatArray],
    counts: dict[tuple[int, int], int],
) -> Factors:
    """Write each joint's triangle to the columns of all."""
    square = triangle

    if not triangles:
        raise ValueError("there are no samples to compress")
    groups = sorted(triangles)
    full = []
    for j, run in groups:
        small = triangles[j, run]
        wide = np.zeros((len(small), len(columns) + 1))
        wide[:, [*own[j], len(columns)]] = small
        full.append(square(wide))
    params = layout(robot)
    return Factors(
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint=np.array([j for j, _ in groups]),
        run=np.array([run for _, run in groups]),
        n_rows=np.array([counts[group] for group in groups]),
        R=np.array(full),
    )
