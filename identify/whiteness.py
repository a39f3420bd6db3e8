"""How far residuals are from white: their correlation in time, and how many independent ones they are worth."""

from dataclasses import dataclass

import numpy as np

from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, IntArray, freeze

LISTED_LAGS = 50


@dataclass(frozen=True, eq=False, slots=True)
class Whiteness:
    """Correlation in time of one joint's residuals, pooled over its runs; gaps in time are left out, not bridged."""

    joint: str
    n_rows: int
    autocorrelation: FloatArray  # (n_lags,), of lags 1, 2, … samples
    bound: float  # 95 % of a white sequence's autocorrelations are smaller
    n_effective: float  # white residuals that would tell a mean as well
    block: float  # samples in a block that keeps most of the correlation inside

    def __post_init__(self) -> None:
        freeze(self, autocorrelation="n_lags")

    @property
    def inflation(self) -> float:
        """How many times larger the variance of a slowly changing parameter is than white residuals make believe."""
        return self.n_rows / self.n_effective

    @property
    def white(self) -> bool:
        """Whether at most a tenth of the lags exceed the 95 % bound, and the residuals are worth half their number."""
        outside = float(np.mean(np.abs(self.autocorrelation) > self.bound)) if len(self.autocorrelation) else 0.0
        return outside <= 0.1 and self.inflation <= 2.0


def whiteness(regression: Regression, residual: FloatArray) -> tuple[Whiteness, ...]:
    """Measure each joint's residuals (n_rows,); joints without rows are left out."""
    return tuple(
        _whiteness(
            "power" if joint < 0 else regression.joint_names[joint],
            regression.run[rows],
            regression.sample[rows],
            residual[rows],
        )
        for joint in np.unique(regression.joint)
        for rows in [np.flatnonzero(regression.joint == joint)]
    )


def _whiteness(name: str, run: IntArray, sample: IntArray, residual: FloatArray) -> Whiteness:
    correlation = autocorrelation(run, sample, residual)
    n = len(residual)
    return Whiteness(
        joint=name,
        n_rows=n,
        autocorrelation=correlation[1 : LISTED_LAGS + 1],
        bound=1.96 / np.sqrt(n),
        n_effective=n / correlation_time(correlation),
        block=block_length(correlation, n),
    )


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
    """1 + 2 Σ ρ_k, summed while pairs ρ_2m + ρ_(2m+1) stay positive; at least 1.

    Variances of means of white residuals grow by this factor. The rule to stop is Geyer's initial positive sequence:
    farther sums are noise.
    """
    pairs = correlation[: len(correlation) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0.0)
    return max(1.0, 2.0 * float(pairs[: ends[0] if ends.size else len(pairs)].sum()) - 1.0)


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
