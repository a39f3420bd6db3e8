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
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread, shaped
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.gram import drive_along, packing, selection
from excitor.robots.kernel.accumulate import fill_rows
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree, chain
from excitor.robots.tree import samples as kernel_samples

By = Literal["joint", "joint and run"]
RANK_TOLERANCE = 1e-10  # of column-normalised singular values; below, a parameter is not in the data
CHUNK = 3960  # samples at once; no power of two, so that rows do not fall on each other in the caches
_PART = 1024  # rows of a group at once, about
_DEPENDENT = 1e5  # square of the scaled condition number, about, above which a Gram matrix loses too many digits
_GROWTH = 10.0  # mean square of rows in units of the earlier ones', up to which they are merged by Cholesky


@dataclass(frozen=True, eq=False, slots=True)
@shaped(values="n_params", covariance="n_params n_params", singular_values="n_params")
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
    parts = by_joint(factors) if by == "joint" else factors
    start = ols(parts)
    sigma = group_sigma(parts, start.values, by)
    estimate = _solve(parts, 1.0 / sigma, "wls", {"weights by": by})
    if parts is factors:
        return estimate
    own = dict(zip(parts.joint.tolist(), sigma.tolist(), strict=True))
    groups = zip(factors.joint.tolist(), factors.run.tolist(), strict=True)
    return replace(estimate, group_sigma={(j, run): own[j] for j, run in groups})


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
    return np.maximum(sigma, sigma_floor(factors))


def sigma_floor(factors: Factors) -> float:
    """Return the least deviation that rows are weighted with: residuals of rounding say nothing."""
    return 1e-12 * max(float(np.sqrt((factors.R[:, :, -1] ** 2).sum() / factors.n_rows.sum())), 1e-100)


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
    labels, group_of = np.unique(np.column_stack([regression.joint, regression.run]), axis=0, return_inverse=True)
    order = np.argsort(group_of.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(group_of.ravel(), minlength=len(labels)))
    R = np.zeros((len(labels), regression.W.shape[1] + 1, regression.W.shape[1] + 1))
    for k, index in enumerate(np.split(order, ends[:-1])):
        whole = index[-1] - index[0] + 1 == len(index)  # a view, where rows follow each other
        rows = slice(int(index[0]), int(index[-1]) + 1) if whole else index
        W, y = regression.W[rows], regression.y[rows]
        own = np.flatnonzero(W.any(axis=0))
        found: FloatArray | None = None
        n_parts = max(1, len(index) // _PART)
        for part in range(n_parts):  # each part has rows of all times, so that the first is like the others
            system = np.empty((len(own) + 1, len(y[part::n_parts])))
            system[:-1] = W[part::n_parts].T[own]
            system[-1] = y[part::n_parts]
            if row_weights is not None:
                system *= row_weights[rows][part::n_parts]
            found = update(found, system.T)
        if found is not None:
            R[k] = _widened(found, own, len(regression.names))
    n_rows, names = np.diff(ends, prepend=0), regression.names
    return Factors(names=names, units=regression.units, joint=labels[:, 0], run=labels[:, 1], n_rows=n_rows, R=R)


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


def by_joint(factors: Factors) -> Factors:
    """Merge the runs of each joint."""
    joints, place = np.unique(factors.joint, return_inverse=True)
    if len(joints) == len(factors.joint):
        return factors
    R = np.zeros((len(joints), *factors.R.shape[1:]))
    for k in range(len(joints)):
        rows = factors.R[place == k].reshape(-1, factors.R.shape[2])
        own, found = np.flatnonzero(rows[:, :-1].any(axis=0)), None
        rows = rows[rows.any(axis=1)][:, [*own, factors.n_columns]]
        for part in np.array_split(rows, max(1, len(rows) // _PART)):
            found = update(found, np.asfortranarray(part))
        if found is not None:
            R[k] = _widened(found, own, factors.n_columns)
    n_rows = np.bincount(place, factors.n_rows).astype(np.int64)
    return replace(factors, joint=joints, run=np.zeros(len(joints), dtype=np.int64), n_rows=n_rows, R=R)


def triangle(rows: FloatArray) -> FloatArray:
    """Upper triangular factor of rows, square whatever their count."""
    size = rows.shape[1]
    R = np.triu(scipy.linalg.lapack.dgeqrf(np.array(rows, order="F"), overwrite_a=1)[0][:size]) if len(rows) else rows
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
    rows = JointRows(robot, columns, CHUNK)
    runs: dict[str, int] = {}
    triangles: dict[tuple[int, int], FloatArray] = {}
    counts: dict[tuple[int, int], int] = {}
    for samples in chunks:
        run = runs.setdefault(samples.run, len(runs))
        for block in blocks(samples):
            for j, system in enumerate(rows.fill(block.motion, block.tau)):
                triangles[j, run] = update(triangles.get((j, run)), system)
                counts[j, run] = counts.get((j, run), 0) + len(block)
    return _scatter(robot, columns, rows.own, triangles, counts)


def blocks(samples: Samples) -> Iterator[Samples]:
    """Cut samples into chunks."""
    for first in range(0, len(samples), CHUNK):
        rows = slice(first, first + CHUNK)
        motion = Motion(samples.motion.q[rows], samples.motion.dq[rows], samples.motion.ddq[rows])
        yield Samples(samples.run, motion, samples.tau[rows], samples.sample_rate_hz)


class JointRows:
    """Non-zero rows of each joint of chosen columns, with a row to spare for the torques; its room is used again."""

    def __init__(self, robot: Robot, columns: IntArray, n_samples: int) -> None:
        self.robot, self.columns, self.own = robot, columns, own_columns(robot, columns)
        self.ends = np.cumsum([len(own) + 1 for own in self.own])
        self.room = np.empty((int(self.ends[-1]), n_samples))
        if isinstance(robot.mechanism, Tree):
            self.packed = packing(robot, *selection(robot, columns, None))
            row = {(j, int(k)): int(r) for j, own in enumerate(self.own) for r, k in enumerate(own, self._start(j))}
            joint = np.repeat(np.arange(robot.n_joints), np.diff(self.packed.start))
            held = zip(joint.tolist(), self.packed.column.tolist(), strict=True)
            self.places = np.array([row.get(key, -1) for key in held], dtype=np.int64)

    def fill(self, motion: Motion, tau: FloatArray) -> list[FloatArray]:
        """Write [W τ] of each joint, (n_samples, n_own + 1) in columns; valid until the next call."""
        mechanism, n = self.robot.mechanism, len(motion)
        room = self.room[:, :n] if n == self.room.shape[1] else np.empty((len(self.room), n))
        if isinstance(mechanism, Tree):
            states = kernel_samples(motion, self.robot.n_joints)
            fill_rows(chain(mechanism), drive_along(self.robot, motion), self.packed, states, self.places, room)
        else:
            Y = regressor(self.robot, motion).transpose(2, 1, 0)
            for j, own in enumerate(self.own):
                room[self._start(j) : self.ends[j] - 1] = Y[self.columns[own], j]
        room[self.ends - 1] = tau.T
        return [room[self._start(j) : self.ends[j]].T for j in range(self.robot.n_joints)]

    def _start(self, j: int) -> int:
        return int(self.ends[j]) - len(self.own[j]) - 1


def own_columns(robot: Robot, columns: IntArray) -> list[IntArray]:
    """Find the columns that can be non-zero in each joint's rows."""
    Y = regressor(robot, random_motion(robot, 20))[:, :, columns]
    return [np.flatnonzero(np.any(Y[:, j] != 0.0, axis=0)) for j in range(robot.n_joints)]


def update(R: FloatArray | None, rows: FloatArray) -> FloatArray:
    """Triangle of an earlier triangle R stacked on further rows (Fortran order: they may be overwritten).

    With B = rows R⁻¹ and C the Cholesky factor of 1 + BᵀB it is C R, twice as fast as by reflections and as exact while
    B stays small: B does not inherit the condition number of the rows. By reflections otherwise.
    """
    if R is not None and R.shape[0] == R.shape[1] and R.diagonal().all():
        S = _relative_gram(R, rows)
        if S.trace() <= _GROWTH * len(S):
            S[np.diag_indices(len(S))] += 1.0
            return np.asarray(scipy.linalg.lapack.dpotrf(S, overwrite_a=1)[0] @ R)
    stacked = rows if R is None else np.asfortranarray(np.concatenate([R, rows]))
    return np.triu(scipy.linalg.lapack.dgeqrf(stacked, overwrite_a=1)[0][: rows.shape[1]])


def _relative_gram(R: FloatArray, rows: FloatArray) -> FloatArray:
    """Upper triangle of BᵀB, B = rows R⁻¹, or of R⁻ᵀ rowsᵀ rows R⁻¹ where the columns are far from dependent.

    The last column may well depend on the others: what R predicts of it, which changes no B, is taken off first.
    """
    n = len(R) - 1
    inverse = scipy.linalg.lapack.dtrtri(R)[0]
    if np.sum((np.linalg.norm(R[:, :n], axis=0)[:, None] * inverse[:n, :n]) ** 2) > _DEPENDENT:
        return np.asarray(scipy.linalg.blas.dsyrk(1.0, scipy.linalg.blas.dtrsm(1.0, R, rows, side=1), trans=1))
    last = rows[:, n].copy()
    rows[:, n] += rows[:, :n] @ (inverse[:n, n] * R[n, n])
    S = scipy.linalg.blas.dsyrk(1.0, rows, trans=1)
    rows[:, n] = last
    inverse[:n, n] = 0.0
    return np.asarray(np.triu(inverse.T @ (S + np.triu(S, 1).T) @ inverse))


def _widened(small: FloatArray, own: IntArray, n_columns: int) -> FloatArray:
    """Write a triangle of some columns, and the right-hand side, to the columns of all: upper triangular, too."""
    wide = np.zeros((n_columns + 1, n_columns + 1))
    columns = [*own.tolist(), n_columns]
    wide[np.ix_(columns[: len(small)], columns)] = small  # each row at its own diagonal
    return wide


def _scatter(
    robot: Robot,
    columns: IntArray,
    own: list[IntArray],
    triangles: dict[tuple[int, int], FloatArray],
    counts: dict[tuple[int, int], int],
) -> Factors:
    """Write each joint's triangle to the columns of all."""
    if not triangles:
        raise ValueError("there are no samples to compress")
    groups = sorted(triangles)
    params = layout(robot)
    return Factors(
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint=np.array([j for j, _ in groups]),
        run=np.array([run for _, run in groups]),
        n_rows=np.array([counts[group] for group in groups]),
        R=np.array([_widened(triangles[j, run], own[j], len(columns)) for j, run in groups]),
    )
