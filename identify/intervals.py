"""How sure are the parameters? Intervals that trust white residuals, and two kinds that do not.

Residuals of real robots are model errors more than noise: they repeat, and neighbours are alike. σ from
(WᵀΣ⁻¹W)⁻¹ then shrinks with the sampling rate, though nothing more is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.stats

from excitor.identify.estimate import Estimate
from excitor.identify.factors import triangle
from excitor.identify.regression import Regression
from excitor.identify.whiteness import whiteness
from excitor.robots.arrays import FloatArray, IntArray, freeze, one_blas_thread

Method = Literal["white", "effective", "bootstrap", "spectral"]
LINEAR = ("ols", "wls", "irls")  # estimates that solve WᵀWβ = Wᵀy, weights aside
CELLS_PER_BLOCK = 4  # blocks start at quarters of their length
LEAST_BLOCKS = 20  # a longest block's worth; fewer say little about how blocks differ
LEVEL = 0.95


@dataclass(frozen=True, eq=False, slots=True)
class Intervals:
    """95 % intervals of parameters, and how they were found."""

    method: Method
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: FloatArray  # (n_params,)
    covariance: FloatArray  # (n_params, n_params)
    low: FloatArray  # (n_params,)
    high: FloatArray
    inflation: FloatArray  # (n_params,): σ over that of white residuals
    settings: Mapping[str, float]

    def __post_init__(self) -> None:
        freeze(self, values="n_params", covariance="n_params n_params", low="n_params", high="n_params")
        freeze(self, inflation=str(len(self.values)))

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (n_params,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


def white_intervals(estimate: Estimate, *, noise_known: bool = False) -> Intervals:
    """Trust that residuals are white and alike within each group: σ² = r²/(N - n) (WᵀΣ⁻¹W)⁻¹, Student's t.

    `noise_known`: rows were divided by the known standard deviation of their noise before; then σ² is 1 and the
    interval normal.
    """
    dof = max(estimate.n_rows - len(estimate.names), 1)
    covariance = estimate.covariance
    if noise_known:
        covariance = covariance * dof / estimate.weighted_residual**2
    return intervals_of(estimate, "white", covariance, np.inf if noise_known else float(dof), {})


@one_blas_thread()
def effective_intervals(
    regression: Regression, estimate: Estimate, *, row_weights: FloatArray | None = None
) -> Intervals:
    """Let each joint's residuals count as the white ones they are worth: A⁻¹ (Σ_j s_j² f_j A_j) A⁻¹.

    A_j = W_jᵀΣ⁻¹W_j of joint j's rows, A their sum, s_j² the variance of its weighted residuals, f_j how many times
    fewer independent ones there are. Careful where columns change faster than residuals: then it is too wide.
    `row_weights` are those that the equations were compressed with, if any.
    """
    system = Whitened.of(regression, estimate, row_weights)
    n = len(estimate.names)
    middle = np.zeros((n, n))
    worth = 0.0
    for entry in whiteness(regression, system.residual):
        rows = regression.joint == (-1 if entry.joint == "power" else regression.joint_names.index(entry.joint))
        variance = float(np.mean(system.residual[rows] ** 2)) * len(regression) / max(len(regression) - n, 1)
        middle += variance * entry.inflation * (system.Q[rows].T @ system.Q[rows])
        worth += entry.n_effective
    dof = max(worth - n, 1.0)
    return intervals_of(estimate, "effective", system.back(middle), dof, {"effective rows": worth})


@one_blas_thread()
def block_bootstrap(
    regression: Regression,
    estimate: Estimate,
    *,
    row_weights: FloatArray | None = None,
    system: "Whitened | None" = None,
    block: int | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Intervals:
    """Refit to blocks of time drawn at random, all joints of a block together: what correlates stays together.

    Moving blocks that wrap around within their run ([Politis2004]'s circular bootstrap), `block` samples long: by
    default as the residuals of the most correlated joint ask, at most a twentieth of the data. Each draw adds up the
    blocks' normal equations; rows are never touched again. Weights stay those of the estimate. Estimates that are no
    plain least squares bring the `system` that tells how they move with their rows' errors.
    """
    system = system or Whitened.of(regression, estimate, row_weights)
    asked = max(entry.block for entry in whiteness(regression, system.residual)) if block is None else float(block)
    longest = max(_n_samples(regression) // LEAST_BLOCKS, 1)
    length = int(np.ceil(asked)) if block is not None else int(min(np.ceil(asked), longest))
    cells = _Cells.of(regression, system, length)
    counts = cells.draw(draws, np.random.default_rng(seed))
    deviations = system.unwhiten(_refits(cells, counts))
    n_blocks = cells.n_cells / CELLS_PER_BLOCK if cells.split else float(cells.n_cells)
    settings = {
        "block": float(length),
        "block asked for": asked,
        "blocks": n_blocks,
        "draws": float(draws),
        "seed": float(seed),
    }
    covariance = np.atleast_2d(np.cov(deviations.T))
    return intervals_of(estimate, "bootstrap", covariance, max(n_blocks - 1.0, 1.0), settings)


def wider(one: Intervals, other: Intervals) -> Intervals:
    """Take the wider interval of every parameter, with the correlations of the first."""
    grow = np.maximum(1.0, (other.high - other.low) / (one.high - one.low))
    half = 0.5 * grow * (one.high - one.low)
    return replace(
        one,
        covariance=one.covariance * np.outer(grow, grow),
        low=one.values - half,
        high=one.values + half,
        inflation=one.inflation * grow,
        settings={**one.settings, f"widened by {other.method}": float(np.count_nonzero(grow > 1.0))},
    )


@dataclass(frozen=True, eq=False, slots=True)
class Whitened:
    """Weighted equations with orthonormal columns: y_w - W_w β = residual, W_w = Q R."""

    Q: FloatArray  # (n_rows, n_params)
    R: FloatArray
    residual: FloatArray  # (n_rows,)

    @classmethod
    def of(cls, regression: Regression, estimate: Estimate, row_weights: FloatArray | None) -> "Whitened":
        """Weight a regression's rows as the estimate did."""
        if estimate.method not in LINEAR:
            raise ValueError(
                f"the estimate's method is {estimate.method!r}, whose intervals are not those of a linear fit; "
                f"expected one of {', '.join(LINEAR)}"
            )
        if estimate.n_rows != len(regression):
            raise ValueError(
                f"the estimate is of {estimate.n_rows} rows and the regression has {len(regression)}; "
                "give the regression that the estimate was made from"
            )
        columns = [regression.names.index(name) for name in estimate.names]
        groups = zip(regression.joint.tolist(), regression.run.tolist(), strict=True)
        weights = 1.0 / np.array([estimate.group_sigma[group] for group in groups])
        if row_weights is not None:
            weights = weights * row_weights
        W = regression.W[:, columns]
        residual = weights * (regression.y - W @ estimate.values)
        W = W * weights[:, None]
        R = triangle(W)
        return cls(scipy.linalg.solve_triangular(R, W.T, trans="T").T, R, residual)

    def unwhiten(self, deviations: FloatArray) -> FloatArray:
        """Turn deviations of R β, (n_draws, n_params), into those of β."""
        return np.asarray(scipy.linalg.solve_triangular(self.R, deviations.T).T)

    def back(self, covariance: FloatArray) -> FloatArray:
        """Turn a covariance of R β into that of β."""
        half = scipy.linalg.solve_triangular(self.R, covariance)
        return np.asarray(scipy.linalg.solve_triangular(self.R, half.T))


@dataclass(frozen=True, eq=False, slots=True)
class _Cells:
    """Normal equations of short stretches of time, all joints together; blocks are several cells in a row."""

    run: IntArray  # (n_cells,), in the order of time within a run
    gram: FloatArray  # (n_cells, n_params, n_params)
    moment: FloatArray  # (n_cells, n_params)
    split: bool  # whether a block is several cells, or one

    @classmethod
    def of(cls, regression: Regression, system: Whitened, block: int) -> "_Cells":
        split = block >= CELLS_PER_BLOCK
        size = -(-block // CELLS_PER_BLOCK) if split else block
        keys = np.column_stack([regression.run, regression.sample // size])
        labels, place = np.unique(keys, axis=0, return_inverse=True)
        order = np.argsort(place, kind="stable")
        pieces = np.split(order, np.cumsum(np.bincount(place.ravel()))[:-1])
        gram = np.array([system.Q[rows].T @ system.Q[rows] for rows in pieces])
        moment = np.array([system.Q[rows].T @ system.residual[rows] for rows in pieces])
        return cls(labels[:, 0], gram, moment, split)

    @property
    def n_cells(self) -> int:
        return len(self.run)

    def draw(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Count how often each cell takes part in each draw, (draws, n_cells)."""
        counts = np.zeros((draws, self.n_cells))
        width = CELLS_PER_BLOCK if self.split else 1
        for number in np.unique(self.run):
            cells = np.flatnonzero(self.run == number)
            starts = rng.integers(len(cells), size=(draws, -(-len(cells) // width)))
            for step in range(min(width, len(cells))):
                taken = cells[(starts + step) % len(cells)]
                np.add.at(counts, (np.arange(draws)[:, None], taken), 1.0)
        return counts


def _refits(cells: _Cells, counts: FloatArray) -> FloatArray:
    """Solve each draw's normal equations, (n_draws, n_params): deviations of R β from the estimate."""
    n = cells.moment.shape[1]
    grams = (counts @ cells.gram.reshape(cells.n_cells, -1)).reshape(-1, n, n)
    moments = counts @ cells.moment
    return np.array(
        [np.linalg.lstsq(gram, moment, rcond=1e-12)[0] for gram, moment in zip(grams, moments, strict=True)]
    )


def _n_samples(regression: Regression) -> int:
    return len(np.unique(np.column_stack([regression.run, regression.sample]), axis=0))


def intervals_of(
    estimate: Estimate, method: Method, covariance: FloatArray, dof: float, settings: Mapping[str, float]
) -> Intervals:
    """Draw intervals from a covariance that is known as well as so many degrees of freedom know it."""
    reach = float(scipy.stats.t.ppf(0.5 + LEVEL / 2.0, dof)) if np.isfinite(dof) else 1.959963984540054
    sigma = np.sqrt(np.diag(covariance))
    return Intervals(
        method=method,
        names=estimate.names,
        units=estimate.units,
        values=estimate.values,
        covariance=covariance,
        low=estimate.values - reach * sigma,
        high=estimate.values + reach * sigma,
        inflation=sigma / estimate.sigma,
        settings={"degrees of freedom": dof, **settings},
    )
