"""Noise models: total least squares of noisy homogeneous equations M x ≈ 0 ([VanHuffel1991]); coloured errors.

    minimise ‖M x‖² / xᵀ C x       C: covariance of the noise of M's columns, 0 for columns that are exact

C = 1 is the nearest rank-deficient matrix in the Frobenius norm ([Briot2012] §3.2). Where it is not, exact columns are
projected out by QR and the rest is scaled by the Cholesky factor of C: mixed, or generalised, total least squares.

Errors that are coloured in time are fitted by Gaussian maximum likelihood: rows are whitened iteratively.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.estimate import Estimate, triangle
from excitor.identify.intervals import WhitenedSystem, estimate_of, influence, joint_sigma, require_rank
from excitor.identify.regression import Regression
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, one_blas_thread, shaped

MAX_ORDER = 20
MAX_ITERATIONS = 20
ENOUGH = 0.01  # of the likelihood's logarithm: smaller gains end the search
CLOSE = 0.99  # correlation of two joints' innovations beyond which they count as this


@dataclass(frozen=True, eq=False, slots=True)
@shaped(x="n_columns", singular_values="n_noisy")
class NullVector:
    """The vector of least residual, and the singular values that show whether it is unique."""

    x: FloatArray  # (n_columns,), scaled so that xᵀ C x = 1
    singular_values: FloatArray  # (n_noisy,), of the scaled noisy columns; the last is ‖M x‖

    @property
    def gap(self) -> float:
        """Ratio of the last two singular values: how much worse the next direction is; 1 where there is none."""
        if len(self.singular_values) < 2:
            return 1.0
        last, before = float(self.singular_values[-1]), float(self.singular_values[-2])
        return before / last if last > 0.0 else (np.inf if before > 0.0 else 1.0)


def total_least_squares(M: FloatArray) -> NullVector:
    """Find the right singular vector of the smallest singular value: all columns are equally noisy."""
    _, values, directions = np.linalg.svd(triangle(np.asarray(M, dtype=float)))
    return NullVector(directions[-1], values)


def mixed_total_least_squares(M: FloatArray, noisy: BoolArray, C: FloatArray) -> NullVector:
    """Find the vector where only some columns hold noise; C is theirs, (n_noisy, n_noisy), positive definite.

    [E B] = Q R with E the exact columns: the bottom right block of R holds what of B no exact column explains.
    Exact columns must be independent.
    """
    n_exact = int(np.count_nonzero(~noisy))
    R = triangle(np.column_stack([M[:, ~noisy], M[:, noisy]]))
    L = np.linalg.cholesky(C)
    rest = scipy.linalg.solve_triangular(L, R[n_exact:, n_exact:].T, lower=True).T
    _, values, directions = np.linalg.svd(rest)
    b = scipy.linalg.solve_triangular(L, directions[-1], lower=True, trans="T")
    x = np.empty(M.shape[1])
    x[noisy] = b
    if n_exact:
        x[~noisy] = -scipy.linalg.solve_triangular(R[:n_exact, :n_exact], R[:n_exact, n_exact:] @ b)
    return NullVector(x, values)


@dataclass(frozen=True, eq=False, slots=True)
class Predictors:
    """One joint's autoregression: predictors of order 0, 1, …, p, with the standard deviation each leaves."""

    a: tuple[FloatArray, ...]  # a[m] (m,), of the last m errors, newest first
    sigma: FloatArray  # (p + 1,)

    @property
    def order(self) -> int:
        """Order of the autoregression."""
        return len(self.a) - 1


@dataclass(frozen=True, eq=False, slots=True)
class ColouredFit:
    """Maximum-likelihood parameters, the autoregressions of their errors, and the sensitivity to these."""

    estimate: Estimate
    system: WhitenedSystem  # of white rows
    orders: tuple[int, ...]  # of each joint with rows
    iterations: int
    converged: bool


@one_blas_thread()
def maximum_likelihood(
    regression: Regression, *, start: Estimate, unordered: Collection[int] = (), max_order: int = MAX_ORDER
) -> ColouredFit:
    """Fit parameters and autoregressions in turn while the likelihood increases.

    Orders are chosen twice, by BIC, and kept. Runs in `unordered` are no series of time, as static poses are not.
    """
    history = _neighbours(regression, unordered, max_order)
    colour = _colour_of(regression, start.values, history, {})
    values, system = _refit(regression, colour, history)
    colour = _colour_of(regression, values, history, {})
    likely, done = -np.inf, False
    for iteration in range(2, MAX_ITERATIONS + 1):  # noqa: B007
        trial = _refit(regression, colour, history)
        following = _colour_of(regression, trial[0], history, colour.predictors)
        if following.likelihood <= likely + ENOUGH:
            done = True
            break
        likely, (values, system), colour = following.likelihood, trial, following
    orders = tuple(own.order for own in colour.predictors.values())
    settings: dict[str, float | str] = {
        "errors": "autoregressive, order by BIC",
        "orders": ", ".join(str(order) for order in orders),
        "iterations": float(iteration),
    }
    sigma = joint_sigma(regression, regression.y - regression.W @ values)
    estimate = estimate_of(system, regression, values, method="ml", sigma=sigma, settings=settings)
    return ColouredFit(estimate, system, orders, iteration, done)


@dataclass(frozen=True, eq=False, slots=True)
class _Colour:
    """Error model at some parameters: autoregressions, covariance of innovations, and likelihood."""

    predictors: dict[int, Predictors]
    S: FloatArray  # (n_joints, n_joints), of innovations over their deviations
    likelihood: float  # its logarithm, but for a constant


def _colour_of(regression: Regression, beta: FloatArray, history: IntArray, before: dict[int, Predictors]) -> _Colour:
    """Fit the error model at some parameters, with the orders found before, if any."""
    residual = regression.y - regression.W @ beta
    predictors = {
        int(j): fit_predictors(regression, residual, int(j), history, before.get(int(j)))
        for j in np.unique(regression.joint)
    }
    u, sizes = _innovations(regression, residual[:, None], predictors, history)
    S = _correlation(_table(regression), u[:, 0])
    parted, determinant = _parted(_table(regression), u, S)
    likelihood = -float(np.sum(np.log(sizes))) - determinant - 0.5 * float(np.sum(parted**2))
    return _Colour(predictors, S, likelihood)


def _refit(regression: Regression, colour: _Colour, history: IntArray) -> tuple[FloatArray, WhitenedSystem]:
    """Solve the whitened equations."""
    both = np.column_stack([regression.W, regression.y])
    white, _ = _parted(_table(regression), _innovations(regression, both, colour.predictors, history)[0], colour.S)
    W, y, n = white[:, :-1], white[:, -1], len(regression.names)
    R = triangle(white)
    require_rank(R[:n, :n], regression.names, "whitened equations")
    values = np.asarray(scipy.linalg.solve_triangular(R[:n, :n], R[:n, n]))
    return values, influence(W, W, y - W @ values)


def fit_predictors(
    regression: Regression, residual: FloatArray, joint: int, history: IntArray, before: Predictors | None = None
) -> Predictors:
    """Find a joint's autoregression, of the order before or by BIC among those up to a tenth of its rows.

    Correlations are means over the pairs of rows that are there, tapered so that they belong to a stable series.
    """
    rows = np.flatnonzero(regression.joint == joint)
    errors, n = residual[rows], len(rows)
    most = min(history.shape[1], n // 10) if before is None else before.order
    variance = max(float(np.mean(errors**2)), 1e-300)
    correlation = np.zeros(most + 1)
    correlation[0] = 1.0
    for lag in range(1, most + 1):
        pairs = history[rows, lag - 1] >= 0
        if pairs.any():
            product = float(np.mean(errors[pairs] * residual[history[rows[pairs], lag - 1]]))
            correlation[lag] = (1.0 - lag / n) * product / variance
    a, shares = levinson(correlation)
    scores = [n * np.log(share) + m * np.log(n) for m, share in enumerate(shares)]
    order = int(np.argmin(scores)) if before is None else len(a) - 1
    return Predictors(tuple(a[: order + 1]), np.sqrt(variance * np.array(shares[: order + 1])))


def levinson(correlation: FloatArray) -> tuple[list[FloatArray], list[float]]:
    """Find the best predictors of all orders, up to the last valid one, and the variance left ([Levinson1947])."""
    a: list[FloatArray] = [np.zeros(0)]
    shares = [1.0]
    for m in range(1, len(correlation)):
        last = a[-1]
        reflection = (correlation[m] - last @ correlation[m - 1 : 0 : -1]) / shares[-1]
        if not abs(reflection) < 1.0 - 1e-9:
            break
        a.append(np.append(last - reflection * last[::-1], reflection))
        shares.append(shares[-1] * (1.0 - reflection**2))
    return a, shares


def _neighbours(regression: Regression, unordered: Collection[int], max_order: int) -> IntArray:
    """Find for each row the rows 1, 2, … samples before it, (n_rows, max_order); -1 from the first gap on."""
    out = np.full((len(regression), max_order), -1, dtype=np.int64)
    for joint in np.unique(regression.joint):
        for run in np.unique(regression.run):
            if run in unordered:
                continue
            rows = np.flatnonzero((regression.joint == joint) & (regression.run == run))
            if not rows.size:
                continue
            sample = regression.sample[rows]
            place = np.full(int(sample.max()) + 1, -1, dtype=np.int64)
            place[sample] = rows
            there: BoolArray = np.ones(len(rows), dtype=bool)
            for lag in range(1, max_order + 1):
                before = np.where(sample >= lag, place[np.maximum(sample - lag, 0)], -1)
                there &= before >= 0
                out[rows[there], lag - 1] = before[there]
    return out


def _innovations(
    regression: Regression, columns: FloatArray, predictors: dict[int, Predictors], history: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Subtract from each row its prediction from earlier ones, divided by the innovation's deviation, also returned."""
    out, sizes = np.empty_like(columns), np.empty(len(columns))
    counts = np.count_nonzero(history >= 0, axis=1)
    for joint, own in predictors.items():
        reach = np.minimum(counts, own.order)
        for m in range(own.order + 1):
            rows = np.flatnonzero((regression.joint == joint) & (reach == m))
            out[rows] = columns[rows]
            for lag in range(1, m + 1):
                out[rows] -= own.a[m][lag - 1] * columns[history[rows, lag - 1]]
            out[rows] /= own.sigma[m]
            sizes[rows] = own.sigma[m]
    return out, sizes


def _table(regression: Regression) -> IntArray:
    """Find the row of every joint in every sample, (n_samples, n_joints); -1 where it was left out."""
    joints = np.unique(regression.joint)
    keys = np.column_stack([regression.run, regression.sample])
    _, place = np.unique(keys, axis=0, return_inverse=True)
    table = np.full((int(place.max()) + 1, len(joints)), -1, dtype=np.int64)
    table[place.ravel(), np.searchsorted(joints, regression.joint)] = np.arange(len(regression))
    return table


def _parted(table: IntArray, u: FloatArray, S: FloatArray) -> tuple[FloatArray, float]:
    """Make joints' rows of each sample uncorrelated: L⁻¹ times the rows that are there, S = L Lᵀ; and Σ log det L."""
    out, determinant = u.copy(), 0.0
    patterns, which = np.unique(table >= 0, axis=0, return_inverse=True)
    for k, there in enumerate(patterns):
        L = np.linalg.cholesky(S[np.ix_(there, there)])
        rows = table[which.ravel() == k][:, there]  # (n_samples, n_there)
        block = u[rows].transpose(1, 0, 2).reshape(len(L), -1)
        parted = scipy.linalg.solve_triangular(L, block, lower=True)
        out[rows] = parted.reshape(len(L), len(rows), -1).transpose(1, 0, 2)
        determinant += len(rows) * float(np.sum(np.log(np.diag(L))))
    return out, determinant


def _correlation(table: IntArray, u: FloatArray) -> FloatArray:
    """Covariance of the joints' innovations over the samples where both are there, made positive definite."""
    n = table.shape[1]
    S = np.eye(n)
    for i in range(n):
        for j in range(i + 1):
            both = (table[:, i] >= 0) & (table[:, j] >= 0)
            if np.count_nonzero(both) > n:
                S[i, j] = S[j, i] = float(np.mean(u[table[both, i]] * u[table[both, j]]))
    sizes = np.sqrt(np.maximum(np.diag(S), 1e-12))
    values, vectors = np.linalg.eigh(S / np.outer(sizes, sizes))
    values = np.maximum(values, 1.0 - CLOSE)
    return np.asarray((vectors * values) @ vectors.T * np.outer(sizes, sizes))
