"""How sure are the parameters where errors are slow? σ from the spectrum of residuals, band by band.

Motions that identify a robot are slow, and so are many errors: drifts, ripples of gears, what the model lacks. White
residuals then promise too much, and the fit hides most of the error where it matters, for that is where its columns
are. What it took up there is known: the share of each band that the columns span.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from excitor.identify.estimate import Estimate
from excitor.identify.intervals import Intervals, Whitened, intervals_of
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, IntArray, one_blas_thread

FIRST = 4  # lines of the lowest band, at least; each further one is as wide as all below it
LEAST_FREE = 20.0  # numbers that tell of a band: those that the fit left, and those of repetitions
CHANCE = 0.95  # up to here residuals that are larger than the noise of repetitions are taken for the same


@one_blas_thread()
def spectral_intervals(
    regression: Regression,
    estimate: Estimate,
    runs: Sequence[Samples] = (),
    *,
    row_weights: FloatArray | None = None,
    system: Whitened | None = None,
) -> Intervals:
    """Let each band of each joint's residuals count by its own density: A⁻¹ (Σ_b s_b² A_b) A⁻¹.

    A_b = Σ Q̃ᴴQ̃ over the band's lines, s_b² = Σ |r̃|² / (n_b - tr A_b): what the fit took up is made up for.
    Where `runs`, those of the regression, were repeated, what differs from one repetition to the next sharpens s_b².
    Joints' errors are taken to be independent of one another. Estimates that are no plain least squares bring the
    `system` that tells how they move with their rows' errors.
    """
    system = system or Whitened.of(regression, estimate, row_weights)
    n = len(estimate.names)
    middle = np.zeros((n, n))
    fewest = np.inf
    for joint in np.unique(regression.joint):
        spectra = list(_spectra(regression, system, int(joint), estimate, runs))
        for low, high in _edges(spectra):
            bands = [spectrum.band(low, high) for spectrum in spectra]
            density, free = _density(bands)
            middle += density * sum(band.gram for band in bands)
            fewest = min(fewest, free)
    settings = {"least degrees of freedom": float(fewest)}
    return intervals_of(estimate, "spectral", system.back(middle), max(float(fewest), 1.0), settings)


@dataclass(frozen=True, eq=False, slots=True)
class _Band:
    """Lines of one joint in one run: what columns have there, how large residuals are, and what repetitions tell."""

    gram: FloatArray  # (n_params, n_params)
    power: float  # of residuals
    free: float  # numbers that the fit left
    noise: float  # power of as many lines of noise; 0 where it is not known
    noise_free: float


@dataclass(frozen=True, eq=False, slots=True)
class _Spectrum:
    """Lines of columns and residuals of one joint in one run; rows that were left out count as silence."""

    frequency: FloatArray  # (n_lines,), Hz
    twice: FloatArray  # (n_lines,): how many real numbers a line is
    columns: FloatArray  # (n_lines, n_params), complex
    residual: FloatArray  # (n_lines,), complex
    there: float  # share of the rows that were not left out
    noise: FloatArray | None  # (n_lines,): density of the noise of means
    repetitions: int

    def numbers(self, low: float, high: float) -> float:
        """Count what tells of a band's density."""
        band = self.band(low, high)
        return max(band.free, 0.0) + band.noise_free

    def band(self, low: float, high: float) -> _Band:
        lines = (self.frequency >= low) & (self.frequency < high)
        Q, twice = self.columns[lines], self.twice[lines]
        gram = np.real((Q.conj() * twice[:, None]).T @ Q)
        count = self.there * float(twice.sum())
        known = self.noise is not None and lines.any()
        return _Band(
            gram=gram,
            power=float(twice @ np.abs(self.residual[lines]) ** 2),
            free=count - float(np.trace(gram)),
            noise=self.there * float(twice @ self.noise[lines]) if self.noise is not None else 0.0,
            noise_free=count * (self.repetitions - 1) if known else 0.0,
        )


def _spectra(
    regression: Regression, system: Whitened, joint: int, estimate: Estimate, runs: Sequence[Samples]
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
        duration = 1.0 if samples is None else len(samples) / samples.sample_rate_hz
        noise, repetitions = None, 0
        if samples is not None and samples.noise is not None and joint >= 0:
            weight = 1.0 / estimate.group_sigma[(joint, int(run))]
            noise = weight**2 * length / len(samples) * samples.noise[: len(lines), joint]
            repetitions = samples.repetitions
        yield _Spectrum(
            frequency=np.arange(len(lines)) / duration,
            twice=twice,
            columns=lines[:, :-1],
            residual=lines[:, -1],
            there=len(rows) / length,
            noise=noise,
            repetitions=repetitions,
        )


def _edges(spectra: Sequence[_Spectrum]) -> Iterator[tuple[float, float]]:
    """Cut frequencies into bands in which the fit leaves enough to tell a density."""
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


def _density(bands: Sequence[_Band]) -> tuple[float, float]:
    """Find the density of a band from what the fit left and from what repetitions tell; and its degrees of freedom."""
    free = max(sum(band.free for band in bands), 1.0)
    left = sum(band.power for band in bands) / free
    noise_free = sum(band.noise_free for band in bands)
    if not noise_free:
        return left, free
    known = [band for band in bands if band.noise_free]
    noise = sum(band.noise for band in known) / sum(_count(band) for band in known)
    if left > noise * float(scipy.stats.f.ppf(CHANCE, free, noise_free)):
        return left, free
    return (left * free + noise * noise_free) / (free + noise_free), free + noise_free


def _count(band: _Band) -> float:
    """Count the numbers in a band, whether the fit left them free or not."""
    return band.free + float(np.trace(band.gram))
