"""Confidence intervals of parameters: by white residuals, by effective sample size, spectra, or block bootstrap.

Residuals of real robots are model errors more than noise: they repeat, and neighbours are correlated. σ from
(WᵀΣ⁻¹W)⁻¹ then shrinks with the sampling rate, though no information is gained.

Spectral intervals weigh residuals band by band; whiteness is measured by residuals' correlation in time and their
effective number. Estimates that solve Zᵀ r = 0 are linearised as systems of the form of least squares.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.stats

from excitor.identify.estimate import (
    RANK_TOLERANCE,
    Estimate,
    Factors,
    column_spectrum,
    rows_of_groups,
    total,
    triangle,
)
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, IntArray, freeze, one_blas_thread, shaped
from excitor.robots.errors import RankDeficient

Method = Literal["white", "effective", "bootstrap", "spectral", "blocks"]
LINEAR = ("ols", "wls", "irls")  # estimates that solve WᵀWβ = Wᵀy, weights aside
CELLS_PER_BLOCK = 4  # blocks start at quarters of their length
LEAST_BLOCKS = 20  # a longest block's worth; fewer say little about how blocks differ
LEVEL = 0.95
DRAWS = 1000  # of the bootstrap
SINGULAR = 1e8  # condition from which a draw's normal equations are solved by their singular values
FIRST = 4  # lines of the lowest band, at least; each further one is as wide as all below it
LEAST_FREE = 20.0  # numbers that tell of a band: those that the fit left, and those of repetitions
CHANCE = 0.95  # up to here residuals that are larger than the noise of repetitions are taken for the same
LISTED_LAGS = 50
PASSES = 3  # of densities that are joined by lines
LEAST_SEGMENTS = 16  # of a long log, that are left out in turn
PIECES = 200  # of a run's time, over which whitened scores are summed


@dataclass(frozen=True, eq=False, slots=True)
class Intervals:
    """95 % intervals of parameters, with their method and settings."""

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


@one_blas_thread()
def block_bootstrap(
    regression: Regression,
    estimate: Estimate,
    *,
    system: "WhitenedSystem | None" = None,
    block: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Intervals:
    """Refit to blocks of time drawn at random, all joints of a block together, so that correlations are kept.

    Moving blocks that wrap around within their run ([Politis2004]'s circular bootstrap), `block` samples long: by
    default by the residuals of the most correlated joint, at most a twentieth of the data. Each draw sums the
    blocks' normal equations; rows are not used again. Weights stay those of the estimate. Estimates that are no
    plain least squares bring the `system`, their sensitivity to their rows' errors.
    """
    system = system or WhitenedSystem.of(regression, estimate)
    requested = max(entry.block for entry in whiteness(regression, system.residual)) if block is None else float(block)
    longest = max(count_samples(regression) // LEAST_BLOCKS, 1)
    length = int(np.ceil(requested)) if block is not None else int(min(np.ceil(requested), longest))
    cells = _Cells.of(regression, system, length)
    deviations = system.unwhiten(_refits(cells, cells.draw(draws, np.random.default_rng(seed))))
    n_blocks = cells.n_cells / CELLS_PER_BLOCK if cells.split else float(cells.n_cells)
    settings = {"block": float(length), "block asked for": requested, "blocks": n_blocks}
    settings |= {"draws": float(draws), "seed": float(seed)}
    covariance = np.atleast_2d(np.cov(deviations.T))
    return intervals_of(estimate, "bootstrap", covariance, max(n_blocks - 1.0, 1.0), settings)


@one_blas_thread()
def segment_intervals(segments: Sequence[Factors], estimate: Estimate) -> Intervals:
    """Find intervals by leaving out one stretch of time after the other, all joints together: the jackknife.

    (K - 1)/K Σ_k (β̂ - β̂_-k)², β̂ - β̂_-k = (A - A_k)⁻¹ W_kᵀr_k, weights those of the estimate. Stretches are joined by
    two and by four too, so that errors that last longer count: each parameter's widest interval holds.
    """
    own = {joint: sigma for (joint, _), sigma in estimate.group_sigma.items()}
    sigma = [np.array([own[j] for j in part.joint.tolist()]) for part in segments]
    triangles = np.array([total(part, 1.0 / s) for part, s in zip(segments, sigma, strict=True)])
    whole = triangle(triangles[:, :, :-1].reshape(-1, len(estimate.names)))
    B = np.array([scipy.linalg.solve_triangular(whole, one[:, :-1].T, trans="T").T for one in triangles])
    left = triangles @ np.append(-estimate.values, 1.0)
    gram, score = np.einsum("kij,kil->kjl", B, B), np.einsum("kij,ki->kj", B, left)
    found: Intervals | None = None
    while len(gram) >= LEAST_SEGMENTS:
        deviation = np.linalg.solve(np.eye(gram.shape[1]) - gram, score[:, :, None])[:, :, 0]
        deviation = scipy.linalg.solve_triangular(whole, deviation.T)
        covariance = (len(gram) - 1.0) / len(gram) * deviation @ deviation.T
        one = intervals_of(estimate, "blocks", covariance, len(gram) - 1.0, {"blocks": float(len(gram))})
        found = one if found is None else wider(found, one)
        even = len(gram) // 2 * 2
        gram, score = (x[:even].reshape(-1, 2, *x.shape[1:]).sum(axis=1) for x in (gram, score))
    if found is not None:
        return found
    free = float(max(estimate.n_rows - len(estimate.names), 1))  # too few stretches: residuals count as white
    return intervals_of(estimate, "white", estimate.covariance, free, {})


def wider(one: Intervals, other: Intervals) -> Intervals:
    """Return the wider interval of every parameter, with the correlations of the first."""
    grow = np.maximum(1.0, (other.high - other.low) / (one.high - one.low))
    settings = {**one.settings, f"widened by {other.method}": float(np.count_nonzero(grow > 1.0))}
    return replace(_grown(one, grow), covariance=one.covariance * np.outer(grow, grow), settings=settings)


def _grown(one: Intervals, grow: FloatArray) -> Intervals:
    """Widen every interval by its factor."""
    half = 0.5 * grow * (one.high - one.low)
    return replace(one, low=one.values - half, high=one.values + half, inflation=one.inflation * grow)


@dataclass(frozen=True, eq=False, slots=True)
class WhitenedSystem:
    """Weighted equations with orthonormal columns: y_w - W_w β = residual, W_w = Q R."""

    Q: FloatArray  # (n_rows, n_params)
    R: FloatArray
    residual: FloatArray  # (n_rows,)

    @classmethod
    def of(cls, regression: Regression, estimate: Estimate, row_weights: FloatArray | None = None) -> "WhitenedSystem":
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
        weights = 1.0 / rows_of_groups(regression, estimate)
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
    """Normal equations of short segments of time, all joints together; blocks are several consecutive cells."""

    run: IntArray  # (n_cells,), in the order of time within a run
    gram: FloatArray  # (n_cells, n_params, n_params)
    moment: FloatArray  # (n_cells, n_params)
    split: bool  # whether a block is several cells, or one

    @classmethod
    def of(cls, regression: Regression, system: WhitenedSystem, block: int) -> "_Cells":
        split = block >= CELLS_PER_BLOCK
        size = -(-block // CELLS_PER_BLOCK) if split else block
        keys = np.column_stack([regression.run, regression.sample // size])
        labels, place = np.unique(keys, axis=0, return_inverse=True)
        parts = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place.ravel()))[:-1])
        gram = np.array([system.Q[rows].T @ system.Q[rows] for rows in parts])
        moment = np.array([system.Q[rows].T @ system.residual[rows] for rows in parts])
        return cls(labels[:, 0], gram, moment, split)

    @property
    def n_cells(self) -> int:
        return len(self.run)

    def draw(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Count how often each cell takes part in each draw, (draws, n_cells)."""
        return drawn(self.run, CELLS_PER_BLOCK if self.split else 1, draws, rng)


def drawn(run: IntArray, width: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """Count how often each cell is drawn, (draws, n_cells), in blocks of cells that wrap around within their run."""
    counts = np.zeros((draws, len(run)))
    for number in np.unique(run):
        own = np.flatnonzero(run == number)
        starts = rng.integers(len(own), size=(draws, -(-len(own) // width)))
        for step in range(min(width, len(own))):
            np.add.at(counts, (np.arange(draws)[:, None], own[(starts + step) % len(own)]), 1.0)
    return counts


def _refits(cells: _Cells, counts: FloatArray) -> FloatArray:
    """Solve each draw's normal equations, (n_draws, n_params): deviations of R β from the estimate."""
    n = cells.moment.shape[1]
    grams = (counts @ cells.gram.reshape(cells.n_cells, -1)).reshape(-1, n, n)
    moments = counts @ cells.moment
    try:
        inverses = np.linalg.inv(grams)
    except np.linalg.LinAlgError:
        inverses = np.full_like(grams, np.inf)
    deviations = np.asarray(np.einsum("kij,kj->ki", inverses, moments))
    size = np.abs(grams).sum(axis=2).max(axis=1) * np.abs(inverses).sum(axis=2).max(axis=1)
    for k in np.flatnonzero(~(size < SINGULAR)):
        deviations[k] = np.linalg.lstsq(grams[k], moments[k], rcond=1e-12)[0]
    return deviations


def count_samples(regression: Regression) -> int:
    """Count the samples that a regression's rows are of."""
    return len(np.unique(np.column_stack([regression.run, regression.sample]), axis=0))


def intervals_of(
    estimate: Estimate, method: Method, covariance: FloatArray, dof: float | FloatArray, settings: Mapping[str, float]
) -> Intervals:
    """Compute intervals from a covariance estimated with `dof` degrees of freedom, one or each parameter's, by t."""
    reach = scipy.stats.t.ppf(0.5 + LEVEL / 2.0, dof)
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
        settings={"degrees of freedom": float(np.min(dof)), **settings},
    )


def _by_bands(
    regression: Regression, estimate: Estimate, runs: Sequence[Samples], system: WhitenedSystem
) -> tuple[Intervals, Intervals]:
    """Find intervals by bands; and, with the same densities, by blocks of time whose errors are whitened by them.

    By the residuals' density, joint by joint, the covariance is A⁻¹ (Σ_b s_b² A_b) A⁻¹: A_b = Σ s Q̃ᴴQ̃ over a band's
    lines, s_b² = Σ |r̃|²/s / (n_b - tr Σ Q̃ᴴQ̃), corrected for what the fit absorbed, where s(f) joins the bands'
    densities by straight lines in log f: slow errors are not taken for as large in all of the lowest band. A variance
    v = Σ_b v_b has v² / Σ_b v_b² / ν_b degrees of freedom ([Satterthwaite1946]): a band of few numbers counts where it
    decides. Where `runs`, those of the regression, were repeated, deviations between repetitions improve s_b². Joints'
    errors are taken to be independent of one another.

    Qᵀr = Σ_t z_t u_t holds also with z̃ = √s Q̃ and u = r̃/√s, which is white where errors are stationary and the same
    for all joints' products: the spread of sums over blocks shows where errors grow with what the columns see.
    """
    n = len(estimate.names)
    middle, square, fewest = np.zeros((n, n)), np.zeros(n), np.inf
    scores: dict[int, list[FloatArray]] = {}
    for joint in np.unique(regression.joint):
        spectra = list(_spectra(regression, system, int(joint), estimate, runs))
        bands, shapes = _densities(spectra)
        for gram, free in bands:
            middle += gram
            square += np.diag(system.back(gram)) ** 2 / free
            fewest = min(fewest, free)
        for spectrum, shape in zip(spectra, shapes, strict=True):
            scores.setdefault(spectrum.run, []).append(spectrum.scores(shape))
    covariance = system.back(middle)
    dof = np.maximum(np.diag(covariance) ** 2 / np.maximum(square, np.finfo(float).tiny), max(fewest, 1.0))
    settings = {"least degrees of freedom": float(fewest)}
    by_band = intervals_of(estimate, "spectral", covariance, dof, settings)
    blocks = np.concatenate([_block_sums(parts) for parts in scores.values()])
    by_block = intervals_of(estimate, "blocks", system.back(blocks.T @ blocks), dof, {"blocks": float(len(blocks))})
    return by_band, by_block


def spectral_covariance(regression: Regression, system: WhitenedSystem) -> FloatArray:
    """Find the covariance A⁻¹ (Σ_b s_b² A_b) A⁻¹ by bands of the residuals' densities alone, joint by joint."""
    middle = np.zeros(system.R.shape)
    for joint in np.unique(regression.joint):
        bands, _ = _densities(list(_spectra(regression, system, int(joint))))
        middle += sum(gram for gram, _ in bands)
    return system.back(middle)


def _block_sums(parts: Sequence[FloatArray]) -> FloatArray:
    """Sum one run's scores of all joints over blocks of time, (n_blocks, n_params)."""
    total = np.zeros((max(len(part) for part in parts), parts[0].shape[1]))
    for part in parts:
        total[: len(part)] += part
    return np.add.reduceat(total, np.arange(0, len(total), max(1, len(total) // PIECES)))


@dataclass(frozen=True, eq=False, slots=True)
class _Band:
    """Lines of one joint in one run within a band: the columns' Gram matrix, power of residuals and of noise."""

    gram: FloatArray  # (n_params, n_params), of columns times the root of a density
    taken: float  # numbers that the fit took up
    power: float  # of residuals, over that density
    free: float  # numbers that the fit left
    noise: float  # power of as many lines of noise; 0 where it is not known
    noise_free: float


@dataclass(frozen=True, eq=False, slots=True)
class _Spectrum:
    """Lines of columns and residuals of one joint in one run; rows that were left out count as 0."""

    run: int
    length: int  # of the series
    frequency: FloatArray  # (n_lines,), Hz
    twice: FloatArray  # (n_lines,): how many real numbers a line is
    columns: FloatArray  # (n_lines, n_params), complex
    residual: FloatArray  # (n_lines,), complex
    there: float  # share of the rows that were not left out
    noise: FloatArray | None  # (n_lines,): density of the noise of means
    repetitions: int

    def numbers(self, low: float, high: float) -> float:
        """Count the degrees of freedom of a band's density."""
        band = self.band(low, high)
        return max(band.free, 0.0) + band.noise_free

    def band(self, low: float, high: float, shape: FloatArray | None = None) -> _Band:
        """Sum over a band, with the lines divided by the density of a shape (n_lines,)."""
        lines = (self.frequency >= low) & (self.frequency < high)
        s = np.ones(np.count_nonzero(lines)) if shape is None else shape[lines]
        Q, twice = self.columns[lines], self.twice[lines]
        count, taken = self.there * float(twice.sum()), float(twice @ np.sum(np.abs(Q) ** 2, axis=1))
        noisy = self.noise is not None and lines.any()
        return _Band(
            gram=np.real((Q.conj() * (twice * s)[:, None]).T @ Q),
            taken=taken,
            power=float(twice @ (np.abs(self.residual[lines]) ** 2 / s)),
            free=count - taken,
            noise=self.there * float(twice @ (self.noise[lines] / s)) if self.noise is not None else 0.0,
            noise_free=count * (self.repetitions - 1) if noisy else 0.0,
        )

    def scores(self, shape: FloatArray) -> FloatArray:
        """Multiply columns by residuals whitened by a density, sample by sample; made up for what the fit took up."""
        whole, root = self.band(-1.0, np.inf), np.sqrt(shape)
        root_of_free = np.sqrt((whole.free + whole.taken) / max(whole.free, 1.0))
        u = np.fft.irfft(self.residual / root, self.length) * self.length * root_of_free  # of lines over √length
        return np.asarray(np.fft.irfft(self.columns * root[:, None], self.length, axis=0) * u[:, None])


def _spectra(
    regression: Regression,
    system: WhitenedSystem,
    joint: int,
    estimate: Estimate | None = None,
    runs: Sequence[Samples] = (),
) -> Iterator[_Spectrum]:
    """Transform a joint's rows, run by run."""
    for run in np.unique(regression.run):
        rows = np.flatnonzero((regression.run == run) & (regression.joint == joint))
        if rows.size < 2:
            continue
        samples = runs[run] if run < len(runs) and not runs[run].static else None
        sample: IntArray = regression.sample[rows]
        length = int(sample.max()) + 1
        if samples is not None and samples.noise is not None:  # whole periods: their lines are the noise's
            length = max(length, round(len(samples) / max(1, round(len(samples) / length))))
        full = np.zeros((length, system.Q.shape[1] + 1))
        full[sample, :-1], full[sample, -1] = system.Q[rows], system.residual[rows]
        lines = np.fft.rfft(full, axis=0) / np.sqrt(length)
        twice = np.full(len(lines), 2.0)
        twice[0] = 1.0
        if length % 2 == 0:
            twice[-1] = 1.0
        duration = float(length) if samples is None else len(samples) / samples.sample_rate_hz
        noise, repetitions = None, 0
        if estimate is not None and samples is not None and samples.noise is not None and joint >= 0:
            weight = 1.0 / estimate.group_sigma[(joint, int(run))]
            noise = weight**2 * length / len(samples) * samples.noise[: len(lines), joint]
            repetitions = samples.repetitions
        yield _Spectrum(
            run=int(run),
            length=length,
            frequency=np.arange(len(lines)) / duration,
            twice=twice,
            columns=lines[:, :-1],
            residual=lines[:, -1],
            there=len(rows) / length,
            noise=noise,
            repetitions=repetitions,
        )


def _edges(spectra: Sequence[_Spectrum]) -> Iterator[tuple[float, float]]:
    """Partition frequencies into bands in which the fit leaves enough degrees of freedom to estimate a density."""
    if not spectra:
        return
    top = max(float(spectrum.frequency[-1]) for spectrum in spectra)
    line = max(float(spectrum.frequency[1]) for spectrum in spectra)
    low, high = 0.0, FIRST * line
    while low <= top:
        high = np.inf if high + 0.5 * (high - low) > top else high
        while high < np.inf and sum(spectrum.numbers(low, high) for spectrum in spectra) < LEAST_FREE:
            high = high + FIRST * line if high + FIRST * line < top else np.inf
        yield low, high
        low, high = high, 2.0 * high


def _densities(spectra: Sequence[_Spectrum]) -> tuple[list[tuple[FloatArray, float]], list[FloatArray]]:
    """Estimate a joint's density: Σ s Q̃ᴴQ̃ of each band with its degrees of freedom, and s of each spectrum's lines."""
    edges = list(_edges(spectra))
    line = min((0.5 * float(spectrum.frequency[1]) for spectrum in spectra), default=1.0)
    top = max((float(spectrum.frequency[-1]) for spectrum in spectra), default=1.0)
    centre = np.array([0.5 * np.log(max(low, line) * min(high, top)) for low, high in edges])
    level, found, factor = np.zeros(len(edges)), list[tuple[FloatArray, float]](), np.ones(len(edges))
    shapes = [np.ones(len(spectrum.frequency)) for spectrum in spectra]
    for _ in range(PASSES):
        if level.any():
            shapes = [np.exp(_lines(np.log(np.maximum(one.frequency, line)), centre, level)) for one in spectra]
        parts = [[one.band(*edge, shape) for one, shape in zip(spectra, shapes, strict=True)] for edge in edges]
        densities = [_density(bands) for bands in parts]
        factor = np.array([density for density, _ in densities])
        level = level + np.log(np.maximum(factor, 1e-30))
        found = [
            (np.asarray(density * sum(band.gram for band in bands)), free)
            for bands, (density, free) in zip(parts, densities, strict=True)
        ]
    lows, factor = np.array([low for low, _ in edges]), np.maximum(factor, 1e-30)
    within = [np.searchsorted(lows, one.frequency, side="right") - 1 for one in spectra]
    return found, [shape * factor[place] for shape, place in zip(shapes, within, strict=True)]


def _lines(x: FloatArray, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Join values by straight lines, the first of which goes on below them, no steeper than a random walk's."""
    slope = np.clip((values[1] - values[0]) / (knots[1] - knots[0]), -2.0, 0.0) if len(knots) > 1 else 0.0
    return np.asarray(np.interp(x, knots, values) + slope * np.minimum(x - knots[0], 0.0))


def _density(bands: Sequence[_Band]) -> tuple[float, float]:
    """Estimate a band's density from residuals and from repetitions; return it with its degrees of freedom."""
    free = max(sum(band.free for band in bands), 1.0)
    left = sum(band.power for band in bands) / free
    noise_free = sum(band.noise_free for band in bands)
    if not noise_free:
        return left, free
    known = [band for band in bands if band.noise_free]
    noise = sum(band.noise for band in known) / sum(band.free + band.taken for band in known)
    if left > noise * float(scipy.stats.f.ppf(CHANCE, free, noise_free)):
        return left, free
    return (left * free + noise * noise_free) / (free + noise_free), free + noise_free


@dataclass(frozen=True, eq=False, slots=True)
@shaped(autocorrelation="n_lags")
class Whiteness:
    """Correlation in time of one joint's residuals, pooled over its runs; gaps in time are left out, not bridged."""

    joint: str
    n_rows: int
    autocorrelation: FloatArray  # (n_lags,), of lags 1, 2, … samples
    bound: float  # 95 % of a white sequence's autocorrelations are smaller
    n_effective: float  # white residuals that would tell a mean as well
    block: float  # samples in a block that keeps most of the correlation inside

    @property
    def inflation(self) -> float:
        """Ratio of the variance of a slowly changing parameter to that under white residuals."""
        return self.n_rows / self.n_effective

    @property
    def white(self) -> bool:
        """True if at most a tenth of the lags exceed the 95 % bound, and at least half of the rows are independent."""
        outside = float(np.mean(np.abs(self.autocorrelation) > self.bound)) if len(self.autocorrelation) else 0.0
        return outside <= 0.1 and self.inflation <= 2.0


def whiteness(regression: Regression, residual: FloatArray) -> tuple[Whiteness, ...]:
    """Measure each joint's residuals (n_rows,); joints without rows are left out."""
    found = []
    for joint in np.unique(regression.joint):
        rows = np.flatnonzero(regression.joint == joint)
        name, n = "power" if joint < 0 else regression.joint_names[joint], len(rows)
        correlation = autocorrelation(regression.run[rows], regression.sample[rows], residual[rows])
        effective, block = n / correlation_time(correlation), block_length(correlation, n)
        found.append(Whiteness(name, n, correlation[1 : LISTED_LAGS + 1], 1.96 / np.sqrt(n), effective, block))
    return tuple(found)


def autocorrelation(run: IntArray, sample: IntArray, residual: FloatArray) -> FloatArray:
    """ρ_k = Σ r_i r_(i+k) / Σ r_i², per pair, of lags 0 to a quarter of the longest run; pairs within one run only."""
    runs = [np.flatnonzero(run == number) for number in np.unique(run)]
    n_lags = max(max(int(np.ptp(sample[rows])) for rows in runs) // 4, 1) + 1
    products, pairs = np.zeros(n_lags), np.zeros(n_lags)
    for rows in runs:
        place = sample[rows] - sample[rows].min()
        values, there = np.zeros(place.max() + 1), np.zeros(place.max() + 1)
        values[place], there[place] = residual[rows], 1.0
        products += _lag_sums(values, n_lags)
        pairs += np.rint(_lag_sums(there, n_lags))
    if products[0] <= 0.0:
        return np.append(1.0, np.zeros(n_lags - 1))
    mean_product = np.divide(products, pairs, out=np.zeros(n_lags), where=pairs > 0.0)
    return np.asarray(mean_product / mean_product[0])


def correlation_time(correlation: FloatArray) -> float:
    """1 + 2 Σ ρ_k, summed while pairs stay positive; at least 1: by this variances of means of white residuals grow."""
    return max(1.0, 2.0 * float(positive_pairs(correlation).sum()) - 1.0)


def positive_pairs(correlation: FloatArray) -> FloatArray:
    """ρ_2m + ρ_(2m+1) while they stay positive, Geyer's initial positive sequence: farther sums are noise."""
    pairs = correlation[: len(correlation) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0.0)
    return np.asarray(pairs[: ends[0] if ends.size else len(pairs)])


def block_length(correlation: FloatArray, n: int) -> float:
    """Choose the samples in a block of a bootstrap: (3 G² n / 2 S²)^⅓, G = Σ |k| ρ_k, S = Σ ρ_k ([Politis2004]).

    Sums run over twice the lag from which five correlations in a row are within their bound, tapered beyond half.
    """
    small = np.abs(correlation[1:]) < 2.0 * np.sqrt(np.log10(max(n, 10)) / n)
    quiet = np.convolve(small, np.ones(5), mode="valid") == 5 if len(small) >= 5 else np.zeros(0, dtype=bool)
    first = int(np.argmax(quiet)) if quiet.any() else len(small)
    lags = np.arange(1, min(2 * first, len(small)) + 1)
    if not lags.size:
        return 1.0
    taper = np.minimum(1.0, 2.0 * (1.0 - lags / (lags[-1] + 1.0)))
    weighted = taper * correlation[1 : len(lags) + 1]
    total = max(1.0 + 2.0 * float(weighted.sum()), 0.1)
    return max(1.0, float((1.5 * (2.0 * (lags * weighted).sum()) ** 2 / total**2 * n) ** (1.0 / 3.0)))


def _lag_sums(x: FloatArray, n_lags: int) -> FloatArray:
    """Σ_i x_i x_(i+k) for k = 0 … n_lags - 1, by FFT."""
    size = int(2 ** np.ceil(np.log2(len(x) + n_lags)))
    sums = np.fft.irfft(np.abs(np.fft.rfft(x, size)) ** 2, size)
    return np.asarray(sums[:n_lags])


def influence(Z: FloatArray, W: FloatArray, residual: FloatArray, extra: FloatArray | None = None) -> WhitenedSystem:
    """Write β̂ - β = (Zᵀ W + extra)⁻¹ Zᵀ e with orthonormal columns; rows are weighted already."""
    Q_Z, R_Z = scipy.linalg.qr(Z, mode="economic", check_finite=False)
    A = Q_Z.T @ W
    if extra is not None:
        A = A + scipy.linalg.solve_triangular(R_Z, extra, trans="T")
    U, R = scipy.linalg.qr(A, check_finite=False)
    return WhitenedSystem(Q_Z @ U, R, residual)


def estimate_of(
    system: WhitenedSystem,
    regression: Regression,
    values: FloatArray,
    *,
    method: str,
    sigma: FloatArray,
    settings: dict[str, float | str],
) -> Estimate:
    """Build the estimate of values that a system was linearised about; the covariance is of white residuals.

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
    system: WhitenedSystem | None = None,
    row_weights: FloatArray | None = None,
) -> Intervals:
    """Find 95 % intervals that do not trust residuals to be white: by bands, widened by blocks of time.

    `row_weights` are those that the equations were compressed with, if any.
    """
    system = system or WhitenedSystem.of(regression, estimate, row_weights)
    return wider(*_by_bands(regression, estimate, runs, system))


def believing(intervals: Intervals, covariance: FloatArray) -> Intervals:
    """Add the uncertainty that comes from a prior used in the estimate."""
    grow = np.sqrt(1.0 + np.diag(covariance) / np.diag(intervals.covariance))
    return replace(_grown(intervals, grow), covariance=intervals.covariance + covariance)


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
