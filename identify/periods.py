"""What whole periods of a repeated motion say: mean, noise, harmonics and exact derivatives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from excitor.identify.signals import channels, check_below_nyquist, positive
from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.robot import Motion

_ON_THE_LINE = 1e-9  # a cut-off this close below a line (relative) means the line: it was rounded on the way


@dataclass(frozen=True, eq=False, slots=True)
class Average:
    """Repetitions of one motion, averaged sample by sample. Units are those of the channels, squared for variances.

    `variance` is of a single repetition, divisor n - 1; that of the mean is n_repetitions times smaller.
    `noise_variance` pools it over the samples: Σ_k Σ_p (x_pk - mean_k)² / ((P - 1) N), unbiased.
    `noise_density` is that of the mean's noise on its lines, Σ_p |DFT_l(x_p - mean)|² / (P (P - 1) N): where noise is
    white, a P-th of its variance on every line.
    """

    mean: FloatArray  # (n_samples, n_channels)
    variance: FloatArray  # (n_samples, n_channels)
    noise_variance: FloatArray  # (n_channels,)
    n_repetitions: int
    noise_density: FloatArray  # (n_lines, n_channels)
    findings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, mean="n_samples n_channels", variance="n_samples n_channels", noise_variance="n_channels")
        freeze(self, noise_density="n_lines n_channels")


def average_periods(x: FloatArray, n_per_period: int, *, drop_periods: int = 0) -> Average:
    """Average channels (n_samples, n_channels) over whole periods of n_per_period samples.

    The first drop_periods are left out (the robot is still settling), an incomplete last one too, and both are said.
    [Swevers2002] divides the pooled variance by P N - 1, which is low by 1/P (10 % of ten periods): here (P - 1) N.
    Settings: n_per_period, drop_periods.
    """
    x = channels(x, "x")
    if int(n_per_period) != n_per_period or n_per_period < 1:
        raise ValueError(f"n_per_period is {n_per_period}, expected a whole number of samples; resample first")
    if drop_periods < 0:
        raise ValueError(f"drop_periods is {drop_periods}, expected 0 or more")
    n_periods = len(x) // n_per_period - drop_periods
    if n_periods < 2:
        raise ValueError(
            f"x has {len(x)} samples, which leaves {max(n_periods, 0)} whole periods of {n_per_period} after the first"
            f" {drop_periods}, expected at least 2 to tell noise from motion; record longer or drop fewer"
        )
    first, last = drop_periods * n_per_period, (drop_periods + n_periods) * n_per_period
    findings = []
    if drop_periods:
        findings.append(f"the first {drop_periods} periods ({first} samples) were left out")
    if last < len(x):
        findings.append(f"the last period is incomplete: {len(x) - last} of {n_per_period} samples were left out")
    return average(x[first:last].reshape(n_periods, n_per_period, x.shape[1]), tuple(findings))


def average(repetitions: FloatArray, findings: tuple[str, ...] = ()) -> Average:
    """Average (n_repetitions, n_samples, n_channels) over the first axis; needs at least two repetitions."""
    P, N, _ = repetitions.shape
    mean, variance = repetitions.mean(axis=0), repetitions.var(axis=0, ddof=1)
    power = np.sum(np.abs(np.fft.rfft(repetitions - mean, axis=1)) ** 2, axis=0)
    return Average(mean, variance, variance.mean(axis=0), P, power / (P * (P - 1) * N), findings)


@dataclass(frozen=True, eq=False, slots=True)
class FourierSeries:
    """x(t) = offset + Σ_l sine_l sin(2π n_l t / period) + cosine_l cos(2π n_l t / period), n_l in `harmonics`."""

    period: float  # s
    harmonics: IntArray  # (n_harmonics,)
    offset: FloatArray  # (n_channels,)
    sine: FloatArray  # (n_harmonics, n_channels)
    cosine: FloatArray  # (n_harmonics, n_channels)

    def __post_init__(self) -> None:
        freeze(self, harmonics="int: n_harmonics", offset="n_channels")
        freeze(
            self, sine=f"{len(self.harmonics)} {len(self.offset)}", cosine=f"{len(self.harmonics)} {len(self.offset)}"
        )


def fourier_coefficients(
    x: FloatArray, harmonics: int | Sequence[int], *, sample_rate_hz: float, n_periods: int = 1
) -> FourierSeries:
    """Find the Fourier series of n_periods whole periods (n_samples, n_channels) by DFT; t = 0 at the first sample.

    With Q(l) = Σ_k x(k) exp(-2πi l k / N): offset Q(0)/N, sine -2 Im Q(l)/N, cosine 2 Re Q(l)/N. `harmonics` lists the
    multiples of the base frequency to keep, or is how many from the first on. Settings: all keywords and harmonics.
    """
    x = channels(x, "x")
    positive(sample_rate_hz, "sample_rate_hz")
    if n_periods < 1 or len(x) % n_periods:
        raise ValueError(f"x has {len(x)} samples, expected n_periods = {n_periods} whole periods; cut it to these")
    n_per_period = len(x) // n_periods
    lines = np.arange(1, harmonics + 1) if isinstance(harmonics, int) else np.asarray(harmonics)
    highest = (n_per_period - 1) // 2
    if (
        lines.size == 0
        or not np.issubdtype(lines.dtype, np.integer)
        or not (1 <= lines.min() <= lines.max() <= highest)
        or len(np.unique(lines)) < len(lines)
    ):
        raise ValueError(
            f"harmonics is {harmonics}, expected different whole numbers from 1 to {highest}:"
            f" a period of {n_per_period} samples shows no others"
        )
    Q = np.fft.rfft(x, axis=0) / len(x)
    kept = Q[lines * n_periods]
    return FourierSeries(
        period=n_per_period / sample_rate_hz,
        harmonics=lines,
        offset=Q[0].real,
        sine=-2.0 * kept.imag,
        cosine=2.0 * kept.real,
    )


def evaluate_series(series: FourierSeries, t: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Evaluate q, q̇, q̈ and jerk, each (n_times, n_channels), analytically at times t (n_times,) in s."""
    times = np.asarray(t, dtype=np.float64)
    if times.ndim != 1 or not np.isfinite(times).all():
        raise ValueError(f"t has shape {times.shape}, expected finite times (n_times,)")
    n = series.harmonics
    turns = np.outer(times / series.period, n)
    angle = 2.0 * np.pi * (turns - np.rint(turns))  # of late times, the whole turns would eat digits
    sin, cos = np.sin(angle), np.cos(angle)
    w = (2.0 * np.pi / series.period * n)[:, None]
    a, b = series.sine, series.cosine
    q = series.offset + sin @ a + cos @ b
    dq = cos @ (w * a) - sin @ (w * b)
    ddq = -(sin @ (w**2 * a) + cos @ (w**2 * b))
    jerk = sin @ (w**3 * b) - cos @ (w**3 * a)
    return q, dq, ddq, jerk


def harmonic_motion(
    q: FloatArray, harmonics: int | Sequence[int], *, sample_rate_hz: float, n_periods: int = 1
) -> Motion:
    """Re-estimate a motion at its own samples from its excited harmonics: exact where q has no others.

    q (n_samples, n_joints) holds n_periods whole periods, best the averaged one. All other lines are taken for noise,
    and with them whatever the robot repeats there: vibration goes from the motion but stays in the torque.
    Settings: as `fourier_coefficients`.
    """
    series = fourier_coefficients(q, harmonics, sample_rate_hz=sample_rate_hz, n_periods=n_periods)
    position, velocity, acceleration, _ = evaluate_series(series, np.arange(len(q)) / sample_rate_hz)
    return Motion(position, velocity, acceleration)


def periodic_lowpass(q: FloatArray, *, sample_rate_hz: float, cutoff_hz: float) -> Motion:
    """Keep the lines up to cutoff_hz, inclusive, of whole periods (n_samples, n_joints), and differentiate them.

    By FFT: nothing at all is left above the cut-off, nothing is changed below, there are no ends, and derivatives are
    those of the trigonometric polynomial. Settings: sample_rate_hz, cutoff_hz.
    """
    q = channels(q, "q", least=3)
    positive(sample_rate_hz, "sample_rate_hz")
    check_below_nyquist(cutoff_hz, sample_rate_hz)
    n = len(q)
    n_lines = int(cutoff_hz * n / sample_rate_hz * (1.0 + _ON_THE_LINE)) + 1
    Q = np.fft.rfft(q, axis=0)
    Q[n_lines:] = 0.0
    iw = 2j * np.pi * np.fft.rfftfreq(n, 1.0 / sample_rate_hz)[:, None]
    return Motion(*(np.fft.irfft(Q * iw**order, n, axis=0) for order in range(3)))
