"""Recursive least squares: online and offline estimates by the same update.

    θ minimises  Σ λ^(age) ((y - ψ θ)/σ)² + (θ - θ0)ᵀ P0⁻¹ (θ - θ0)          P = U D Uᵀ, U unit triangular, D > 0

P is kept by its factors ([Bierman1977]), so it stays symmetric and positive definite whatever the rounding. A
forgetting factor λ < 1 is applied once an update; where nothing moves, P would grow without end, so parameters regain
in turn what they forget beyond P0: P stays below 2 P0 (λ ≥ ½) and the values are not pulled. With λ = 1 this is
exactly the regularised batch solution. Updates of U, D and the values, row after row, are compiled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.estimate import Estimate, column_spectrum, triangle
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, IntArray, locked, one_blas_thread, shaped
from excitor.robots.kernel.compile import compiled, inner

VARIANCE = 1e6  # of P0, where nothing is known
POINTS = 100  # of the history, where nobody says how many


@dataclass(frozen=True, eq=False, slots=True)
class Recursive:
    """State of the recursion; `update` returns the next one."""

    names: tuple[str, ...]
    values: FloatArray  # (n_params,)
    V: FloatArray  # (n_params, n_params): Uᵀ, unit lower triangular
    d: FloatArray  # (n_params,): diagonal of D
    variance: FloatArray  # (n_params,): of P0, which also bounds P
    squares: FloatArray  # (2,): weighted squares of prediction errors, and how many; both forget
    n_updates: int


@dataclass(frozen=True, eq=False, slots=True)
@shaped(
    updates="int: n_points",
    run="int: n_points",
    sample="int: n_points",
    values="n_points n_params",
    sigma="n_points n_params",
    eigenvalues="n_points n_params",
)
class Recursion:
    """An estimate with the history of the recursion."""

    estimate: Estimate
    state: Recursive
    updates: IntArray  # (n_points,): after how many updates
    run: IntArray  # (n_points,): of the update's rows
    sample: IntArray  # (n_points,), within its run
    values: FloatArray  # (n_points, n_params)
    sigma: FloatArray  # (n_points, n_params): square roots of the diagonal of P
    eigenvalues: FloatArray  # (n_points, n_params): of P, descending


def start(
    names: int | Sequence[str], *, variance: float | FloatArray = VARIANCE, values: FloatArray | None = None
) -> Recursive:
    """Begin with θ0 = values (0 where not given) and P0 = diag(variance)."""
    return _begin(names, variance, values)


def update(
    state: Recursive,
    psi: FloatArray,
    y: FloatArray,
    *,
    forgetting: float = 1.0,
    sigma: float | FloatArray | None = None,
) -> Recursive:
    """Update with the rows of one sample, y (n_rows,) = psi (n_rows, n_params) θ + e, e of standard deviation sigma."""
    psi, y = _rows(state, psi, y, sigma)
    return _grouped(state, psi, y, np.array([len(y)]), forgetting)


def update_many(
    state: Recursive,
    psi: FloatArray,
    y: FloatArray,
    *,
    ends: IntArray,
    forgetting: float = 1.0,
    sigma: float | FloatArray | None = None,
) -> Recursive:
    """Update with many samples at once: the rows of sample k end before ends[k]. Same as `update` for each."""
    psi, y = _rows(state, psi, y, sigma)
    ends = np.asarray(ends, dtype=np.int64)
    last = int(ends[-1]) if len(ends) else 0
    if np.any(np.diff(ends) < 0) or np.any(ends < 0) or last != len(y):
        raise ValueError(f"ends go up to {last}, expected numbers that rise to the {len(y)} rows")
    return _grouped(state, psi, y, ends, forgetting)


def covariance(state: Recursive) -> FloatArray:
    """P = U D Uᵀ, (n_params, n_params): the covariance where rows were divided by the σ of their noise."""
    root = _root(state)
    return np.asarray(root @ root.T)


@one_blas_thread()
def eigenvalues(state: Recursive) -> FloatArray:
    """Eigenvalues of P, descending: squared singular values of U √D, so that none is lost to rounding."""
    return np.asarray(np.linalg.svd(_root(state), compute_uv=False) ** 2)


def noise_scale(state: Recursive) -> float:
    """Estimate the ratio of prediction errors to those by P and σ: 1 where σ is right and errors white."""
    return float(np.sqrt(state.squares[0] / state.squares[1])) if state.squares[1] > 0.0 else 1.0


@one_blas_thread()
def rls(
    regression: Regression,
    *,
    variance: float | FloatArray = VARIANCE,
    start: Recursive | None = None,
    forgetting: float = 1.0,
    every: int | None = None,
    sigma: FloatArray | None = None,
) -> Recursion:
    """Process equations in the order of time, the rows of one sample at once, and keep the history.

    `every`: samples between points of the history; `sigma` (n_rows,): of each row's noise, 1 where not given.
    """
    state = _begin(regression.names, variance, None) if start is None else start
    if len(state.names) != len(regression.names):
        raise ValueError(f"the start has {len(state.names)} parameters, the equations {len(regression.names)}")
    if every is not None and every < 1:
        raise ValueError(f"every is {every}, expected 1 sample or more")
    order = np.lexsort((regression.joint, regression.sample, regression.run))
    labels = np.column_stack([regression.run, regression.sample])[order]
    ends = np.append(np.flatnonzero((labels[1:] != labels[:-1]).any(axis=1)) + 1, len(labels)).astype(np.int64)
    sigma = np.ones(len(regression)) if sigma is None else np.broadcast_to(sigma, len(regression))
    step = every or max(1, len(ends) // POINTS)
    points: list[tuple[int, Recursive]] = []
    row = 0
    for first in range(0, len(ends), step):
        part = ends[first : first + step]
        chosen = order[row : part[-1]]
        psi, y = _rows(state, regression.W[chosen], regression.y[chosen], sigma[chosen])
        state = _grouped(state, psi, y, part - row, forgetting)
        row = int(part[-1])
        points.append((row - 1, state))
    counts = np.minimum(step * np.arange(1, len(points) + 1), len(ends))
    last = [k for k, _ in points]
    return Recursion(
        estimate=_estimate(regression, state, sigma, forgetting),
        state=state,
        updates=counts,
        run=labels[last, 0],
        sample=labels[last, 1],
        values=np.array([each.values for _, each in points]),
        sigma=np.array([np.linalg.norm(_root(each), axis=1) for _, each in points]),
        eigenvalues=np.array([eigenvalues(each) for _, each in points]),
    )


@one_blas_thread()
def batch(
    regression: Regression,
    *,
    variance: float | FloatArray = VARIANCE,
    values: FloatArray | None = None,
    sigma: FloatArray | None = None,
) -> FloatArray:
    """Solve at once, by QR, what `rls` solves row by row with the same θ0 and P0, without forgetting."""
    n = len(regression.names)
    prior = _begin(regression.names, variance, values)
    weight = 1.0 / (np.ones(len(regression)) if sigma is None else np.broadcast_to(sigma, len(regression)))
    # about θ0, so that what the data leave open is θ0 exactly
    rest = regression.y - regression.W @ prior.values
    rows = np.column_stack([regression.W * weight[:, None], rest * weight])
    R = triangle(np.concatenate([np.column_stack([np.diag(1.0 / np.sqrt(prior.variance)), np.zeros(n)]), rows]))
    return np.asarray(prior.values + np.linalg.solve(R[:n, :n], R[:n, n]))


def _begin(names: int | Sequence[str], variance: float | FloatArray, values: FloatArray | None) -> Recursive:
    labels = tuple(f"theta{k + 1}" for k in range(names)) if isinstance(names, int) else tuple(names)
    n = len(labels)
    spread = np.broadcast_to(np.asarray(variance, dtype=float), n).copy()
    if n == 0 or not np.isfinite(spread).all() or not (spread > 0.0).all():
        raise ValueError(f"variance is {variance} for {n} parameters, expected positive numbers, one for each")
    theta = np.zeros(n) if values is None else np.array(values, dtype=float)
    if theta.shape != (n,) or not np.isfinite(theta).all():
        raise ValueError(f"values have shape {theta.shape}, expected {n} finite numbers")
    return Recursive(labels, locked(theta), locked(np.eye(n)), locked(spread), locked(spread), locked(np.zeros(2)), 0)


def _rows(
    state: Recursive, psi: FloatArray, y: FloatArray, sigma: float | FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Check rows, and divide them by the standard deviation of their noise."""
    psi, y = np.array(psi, dtype=np.float64, order="C"), np.array(y, dtype=np.float64)
    if psi.ndim != 2 or psi.shape[1] != len(state.d) or y.shape != psi.shape[:1]:
        raise ValueError(f"psi is {psi.shape} and y {y.shape}, expected (n_rows, {len(state.d)}) and (n_rows,)")
    if not (np.isfinite(psi).all() and np.isfinite(y).all()):
        raise ValueError("psi or y is not finite; leave out rows that were not measured")
    if sigma is None:
        return psi, y
    deviation = np.broadcast_to(np.asarray(sigma, dtype=float), y.shape)
    if not (np.isfinite(deviation).all() and (deviation > 0.0).all()):
        raise ValueError("sigma has entries that are not positive, expected the standard deviation of each row's noise")
    psi /= deviation[:, None]
    y /= deviation
    return psi, y


def _grouped(state: Recursive, psi: FloatArray, y: FloatArray, ends: IntArray, forgetting: float) -> Recursive:
    if not 0.0 < forgetting <= 1.0:
        raise ValueError(f"forgetting is {forgetting}, expected a factor above 0 and at most 1, such as 0.999")
    V, d, theta, squares = state.V.copy(), state.d.copy(), state.values.copy(), state.squares.copy()
    group_updates(V, d, theta, state.variance, psi, y, ends, float(forgetting), state.n_updates, squares)
    for array in (V, d, theta, squares):
        array.flags.writeable = False
    return Recursive(state.names, theta, V, d, state.variance, squares, state.n_updates + len(ends))


def _root(state: Recursive) -> FloatArray:
    return np.asarray(state.V.T * np.sqrt(state.d))


def _estimate(regression: Regression, state: Recursive, sigma: FloatArray, forgetting: float) -> Estimate:
    """Write the last state as an estimate; σ² of the noise is that of its residuals."""
    n, n_rows = len(state.names), len(regression)
    residual = float(np.linalg.norm((regression.y - regression.W @ state.values) / sigma))
    spectrum = column_spectrum(triangle(regression.W))
    groups = np.unique(np.column_stack([regression.joint, regression.run]), axis=0)
    deviation = {
        (int(j), int(r)): float(np.sqrt(np.mean(sigma[(regression.joint == j) & (regression.run == r)] ** 2)))
        for j, r in groups
    }
    largest = float(state.variance.max())
    return Estimate(
        method="rls",
        names=regression.names,
        units=regression.units,
        values=state.values,
        covariance=residual**2 / max(n_rows - n, 1) * covariance(state),
        group_sigma=deviation,
        n_rows=n_rows,
        condition=float(spectrum[0] / spectrum[-1]) if spectrum[-1] > 0.0 else float("inf"),
        singular_values=spectrum,
        weighted_residual=residual,
        settings={"variance": largest, "forgetting": float(forgetting), "updates": float(state.n_updates)},
    )


@inner
def row_update(
    V: FloatArray, d: FloatArray, theta: FloatArray, work: FloatArray, row: FloatArray, y: float, learns: bool
) -> float:
    """Update with y = row θ + e, e of variance 1 ([Bierman1977]); return ε²/(1 + row P rowᵀ), ε the prediction error.

    V = Uᵀ is unit lower triangular; only what lies below its diagonal is read and written. `work` is (2, n). All d
    stay positive: d_j is multiplied by a_{j-1} / a_j with a_j ≥ a_{j-1} > 0. Without `learns` θ stays as it is.
    """
    n = len(d)
    b, f = work[0], work[1]
    error = y
    for j in range(n):
        total = row[j]
        for i in range(j):
            total += V[j, i] * row[i]
        f[j] = total
        error -= row[j] * theta[j]
    a = 1.0
    for j in range(n):
        b[j] = 0.0
        if f[j] == 0.0:
            continue
        g = d[j] * f[j]
        before = a
        a = before + f[j] * g
        d[j] *= before / a
        c = -f[j] / before
        for i in range(j):
            u = V[j, i]
            V[j, i] = u + b[i] * c
            b[i] += u * g
        b[j] = g
    if learns:
        gain = error / a
        for j in range(n):
            theta[j] += gain * b[j]
    return error * error / a


@inner
def forget(
    V: FloatArray, d: FloatArray, theta: FloatArray, work: FloatArray, bound: FloatArray, forgetting: float, turn: int
) -> None:
    """Divide P by the factor, then keep it below twice diag(bound): parameters regain information in turn.

    Each gets (1 - λᵖ) / bound every p steps, p so short that no more than half is forgotten in between (one step at
    least). θ is not touched.
    """
    n = len(d)
    for j in range(n):
        d[j] /= forgetting
    longest = max(1, int(np.log(0.5) / np.log(forgetting)))
    several = (n + longest - 1) // longest
    period = (n + several - 1) // several
    regained = 1.0 - forgetting**period
    row = np.zeros(n)
    first = (turn % period) * several
    for j in range(first, min(first + several, n)):
        row[j] = np.sqrt(regained / bound[j])
        row_update(V, d, theta, work, row, 0.0, False)
        row[j] = 0.0


@compiled
def group_updates(
    V: FloatArray,
    d: FloatArray,
    theta: FloatArray,
    bound: FloatArray,
    rows: FloatArray,
    y: FloatArray,
    ends: IntArray,
    forgetting: float,
    turn: int,
    squares: FloatArray,
) -> None:
    """Update in place with groups of rows, group k ending before row ends[k]; forgets once before each group.

    squares = [Σ e²/(1 + row P rowᵀ), number of rows], both forgetting too.
    """
    work = np.empty((2, len(d)))
    first = 0
    for k in range(len(ends)):
        if forgetting < 1.0:
            forget(V, d, theta, work, bound, forgetting, turn + k)
            squares[0] *= forgetting
            squares[1] *= forgetting
        for r in range(first, ends[k]):
            squares[0] += row_update(V, d, theta, work, rows[r], y[r], True)
            squares[1] += 1.0
        first = ends[k]
