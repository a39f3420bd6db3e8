"""Whole periods of a repeated motion: mean, noise, harmonics and exact derivatives.

Where a log without a plan repeats itself, its cycles are found and aligned, without those that deviate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from excitor.identify.signals import channels, check_below_nyquist, positive
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, shaped
from excitor.robots.robot import Motion

REPEATS = 0.98  # correlation of a motion with itself one repetition later
AGAIN = 0.999  # likeness of two motions from which they are one: 4 % of it apart
_ON_THE_LINE = 1e-9  # a cut-off this close below a line (relative) means the line: it was rounded on the way
_LEAST_CYCLES = 3  # with two, nobody can tell which one deviates
_DRIFT_DEGREE = 3  # slow drift is a cubic over the whole log
_PERIODIC = 0.5  # autocorrelation from which a lag counts as a repetition
_AS_GOOD = 0.05  # a shorter lag is the period if its autocorrelation is within this of the best
_MATCH = 0.5  # correlation from which a stretch of the log counts as a cycle, good or deviating
_CLOSEST = 0.75  # no two cycles begin closer than this, in periods
_SAME = 0.01  # power of the good cycles' deviation over the power of their motion, above which nothing repeats
_OUTLYING = 6.0  # a cycle deviates beyond the median by more than so many robust standard deviations ...
_NEGLIGIBLE = 1e-3  # ... and this fraction of the largest channel's motion
_QUIET_CUTS = 6  # how many of the slowest moments are tried as the place to cut


@dataclass(frozen=True, eq=False, slots=True)
@shaped(
    mean="n_samples n_channels",
    variance="n_samples n_channels",
    noise_variance="n_channels",
    noise_density="n_lines n_channels",
)
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


def average_periods(x: FloatArray, n_per_period: int, *, drop_periods: int = 0) -> Average:
    """Average channels (n_samples, n_channels) over whole periods of n_per_period samples.

    The first drop_periods are left out (the robot is still settling), an incomplete last one too, both with a finding.
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
        sine = f"{len(self.harmonics)} {len(self.offset)}"
        freeze(self, sine=sine, cosine=f"{len(self.harmonics)} {len(self.offset)}")


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
    whole = lines.size > 0 and np.issubdtype(lines.dtype, np.integer)
    if not whole or not (1 <= lines.min() <= lines.max() <= highest) or len(np.unique(lines)) < len(lines):
        raise ValueError(
            f"harmonics is {harmonics}, expected different whole numbers from 1 to {highest}:"
            f" a period of {n_per_period} samples shows no others"
        )
    Q = np.fft.rfft(x, axis=0) / len(x)
    kept = Q[lines * n_periods]
    period = n_per_period / sample_rate_hz
    sine = -2.0 * kept.imag
    return FourierSeries(period=period, harmonics=lines, offset=Q[0].real, sine=sine, cosine=2.0 * kept.real)


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


def repetition(q: FloatArray) -> int:
    """Find the number of samples after which a motion (n_samples, n_joints) repeats; 0 where it does not.

    The first lag beyond a change of sign at which positions correlate with themselves as they do with no other motion.
    """
    x = q - q.mean(axis=0)
    n = len(x)
    power = np.abs(np.fft.rfft(x, 2 * n, axis=0)) ** 2
    along = np.fft.irfft(power.sum(axis=1))[:n]
    squares = np.concatenate([[0.0], np.cumsum((x**2).sum(axis=1))])
    k = np.arange(n)
    norm = np.sqrt(np.maximum(squares[n - k] * (squares[n] - squares[k]), np.finfo(float).tiny))
    alike = along / norm  # of the motion with itself, k samples later
    turned = np.flatnonzero(alike[: n // 2] < 0.5)
    if not turned.size:
        return 0
    first = int(turned[0])
    again = first + int(np.argmax(alike[first : n // 2 + 1]))
    return again if alike[again] > REPEATS else 0


def same_motion(one: FloatArray, other: FloatArray) -> bool:
    """Slide the shorter motion's middle, sampled alike, over the longer one: 2 xᵀy / (xᵀx + yᵀy) at its best."""
    short, long = sorted((one, other), key=len)
    edge = len(short) // 10
    x = short[edge : len(short) - edge] - short.mean(axis=0)
    y = long - short.mean(axis=0)
    n, m = len(x), len(y)
    size = m + n
    product = np.fft.irfft((np.fft.rfft(y, size, axis=0) * np.fft.rfft(x, size, axis=0).conj()).sum(axis=1), size)
    squares = np.concatenate([[0.0], np.cumsum((y**2).sum(axis=1))])
    power = squares[n:] - squares[:-n] + np.sum(x**2)
    return bool((2.0 * product[: m - n + 1] > AGAIN * power).any()) if power.any() else False


def other_repetition(motion: Motion, period: int) -> Motion:
    """Read a motion that repeats one repetition later, or earlier at its end."""
    later = np.arange(len(motion)) + period
    return motion[np.where(later < len(motion), later, later - 2 * period)]


@dataclass(frozen=True, eq=False, slots=True)
@shaped(starts="int: n_cycles", left_out="int: n_left_out")
class Cycles:
    """Repetitions found in a log: cycle k is the n_samples from starts[k] on."""

    period: float  # s, from start to start
    n_samples: int  # of one cycle: no longer than the shortest distance between two starts
    starts: IntArray  # (n_cycles,), sample indices
    left_out: IntArray  # (n_left_out,), where the deviating cycles start
    findings: tuple[str, ...]  # what was left out, and why


@dataclass(frozen=True, eq=False, slots=True)
class _Cut:
    """A segmentation of the log: the cycles' starts, which are good, and each one's distance from the median one."""

    starts: IntArray
    n_samples: int
    distances: FloatArray  # (n_cycles, n_channels), rms
    limits: FloatArray  # (n_channels,)
    residual: float  # power of the good cycles' deviation / power of their motion
    worst: float  # the same at the sample where they deviate most: where the cut goes through a motion, it shows

    @property
    def good(self) -> BoolArray:
        return np.asarray((self.distances <= self.limits).all(axis=1))


def find_cycles(x: FloatArray, *, sample_rate_hz: float, min_period_s: float) -> Cycles:
    """Cut position channels (n_samples, n_channels) into the cycles they repeat.

    The period is the shortest lag, from min_period_s on, whose autocorrelation (without slow drift) is as good as the
    best. A cycle is where the correlation with the median cycle peaks, to the sample. Of several places to cut (the
    slowest moments: where the robot waits) the one is taken where the cycles differ least at their worst sample. A
    cycle is left out whose rms distance from the median one exceeds the others' by six robust standard deviations
    (1.48 median absolute deviations).
    The channels should share a unit. Settings: sample_rate_hz, min_period_s.
    """
    x = channels(x, "x", least=_LEAST_CYCLES * 2)
    positive(sample_rate_hz, "sample_rate_hz")
    positive(min_period_s, "min_period_s")
    period = _period(_without_drift(x), max(2, round(min_period_s * sample_rate_hz)), sample_rate_hz)
    x = x - x.mean(axis=0)
    cuts = [cut for phase in _places_to_cut(x, period) if (cut := _cut(x, phase, period)) is not None]
    if not cuts or min(cut.residual for cut in cuts) > _SAME:
        sentence = _aperiodic(f"pieces {period / sample_rate_hz:.3f} s long look alike but are not the same motion")
        raise ValueError(sentence)
    enough = 1.5 * min(cut.worst for cut in cuts) + 1e-9
    best = max((cut for cut in cuts if cut.worst <= enough), key=lambda cut: int(cut.good.sum()))
    if best.good.sum() < _LEAST_CYCLES:
        raise ValueError(_aperiodic(f"only {best.good.sum()} cycles of {period / sample_rate_hz:.3f} s agree"))
    return _report(best, len(x), sample_rate_hz)


def average_cycles(x: FloatArray, cycles: Cycles) -> Average:
    """Average any channels (n_samples, n_channels) of the log over the cycles found in its positions.

    Starts are whole samples: the variance includes the motion within ± half a sample.
    """
    x = channels(x, "x")
    if cycles.starts[-1] + cycles.n_samples > len(x):
        raise ValueError(f"x has {len(x)} samples, but cycles were found up to {cycles.starts[-1] + cycles.n_samples}")
    return average(_stack(x, cycles.starts, cycles.n_samples), cycles.findings)


def _without_drift(x: FloatArray) -> FloatArray:
    drift = np.polynomial.legendre.legvander(np.linspace(-1.0, 1.0, len(x)), _DRIFT_DEGREE)
    return x - drift @ np.linalg.lstsq(drift, x, rcond=None)[0]


def _period(x: FloatArray, shortest: int, sample_rate_hz: float) -> int:
    """Find the shortest lag that repeats, ρ(k) = 1 - Σ (x[t+k] - x[t])² / Σ (x[t+k]² + x[t]²)."""
    from scipy.signal import find_peaks

    longest = len(x) // 2
    if shortest > len(x) // _LEAST_CYCLES:
        raise ValueError(
            f"min_period_s is {shortest / sample_rate_hz:g}, expected at most a third of the log's"
            f" {len(x) / sample_rate_hz:g} s: at least {_LEAST_CYCLES} cycles are needed"
        )
    power = np.concatenate([[0.0], np.cumsum((x**2).sum(axis=1))])
    if power[-1] <= 1e-20 * len(x):
        raise ValueError("no channel of x moves, expected positions that repeat")
    n_fft = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.zeros(n_fft // 2 + 1)
    for column in x.T:
        spectrum += np.abs(np.fft.rfft(column, n_fft)) ** 2
    lags = np.arange(longest + 1)
    both = power[len(x) - lags] + power[-1] - power[lags]
    rho = 2.0 * np.fft.irfft(spectrum, n_fft)[: longest + 1] / np.maximum(both, 1e-12 * power[-1])
    peaks, _ = find_peaks(rho, height=_PERIODIC, prominence=0.1)
    peaks = peaks[(peaks >= shortest) & (peaks <= len(x) // _LEAST_CYCLES)]
    if not peaks.size:
        peak = rho[shortest : len(x) // _LEAST_CYCLES + 1].max()
        sentence = _aperiodic(f"no lag from {shortest / sample_rate_hz:g} s on repeats it (at most {peak:.2f} of 1)")
        raise ValueError(sentence)
    return int(peaks[rho[peaks] >= rho[peaks].max() - _AS_GOOD][0])


def _places_to_cut(x: FloatArray, period: int) -> list[int]:
    """Propose starts of a cycle: the slowest moments within the segment that best repeats itself."""
    from scipy.ndimage import uniform_filter1d
    from scipy.signal import find_peaks

    change = _moving_sum(((x[period:] - x[:-period]) ** 2).sum(axis=1), period)
    motion = _moving_power(x, period)[: len(change)]
    best = int(np.argmin(np.where(motion > 0.1 * np.median(motion), change / np.maximum(motion, 1e-300), np.inf)))
    speed = np.abs(np.diff(x[best : best + 2 * period], axis=0)).sum(axis=1)
    for _ in range(2):  # noise must not scatter the minimum over the pause: twice averaged, it lies in the middle
        speed = uniform_filter1d(speed, max(3, period // 25))
    slow, _ = find_peaks(-speed[: period + 1], distance=max(1, period // 12))
    slowest = slow[np.argsort(speed[slow], kind="stable")][:_QUIET_CUTS]
    return [*(best + int(k) for k in slowest if best + k + period <= len(x)), best, best - best % period]


def _cut(x: FloatArray, phase: int, period: int) -> _Cut | None:
    """Find all cycles like the one at `phase`, then all like the median of these, and measure how they deviate."""
    template = x[phase : phase + period]
    for _ in range(2):
        starts = match_cycles(x, template, period)
        if len(starts) < _LEAST_CYCLES:
            return None
        template = np.median(_level(_stack(x, starts, period)), axis=0)
    good = _measured(x, starts, period).good
    steps = np.diff(starts)[good[:-1] & good[1:]]
    n_samples = int(min(steps.min(), period)) if len(steps) else period
    cut = _measured(x, match_cycles(x, template[:n_samples], period), n_samples)
    whole = cut.good | ((cut.starts > 0) & (cut.starts < len(x) - n_samples))  # at the ends of the log: cut off
    return _measured(x, cut.starts[whole], n_samples) if whole.sum() >= _LEAST_CYCLES else None


def match_cycles(x: FloatArray, template: FloatArray, period: int) -> IntArray:
    """Find where the correlation of channels (n_samples, n_channels) with a cycle peaks, period samples apart."""
    from scipy.signal import find_peaks

    match = np.concatenate([[-1.0], _correlation(x, template), [-1.0]])
    peaks, _ = find_peaks(match, height=_MATCH, distance=max(1, int(_CLOSEST * period)))
    return np.asarray(peaks - 1, dtype=np.int64)


def _measured(x: FloatArray, starts: IntArray, n_samples: int) -> _Cut:
    cycles = _level(_stack(x, starts, n_samples))
    typical = np.median(cycles, axis=0)
    distances = np.sqrt(((cycles - typical) ** 2).mean(axis=1))
    middle = np.median(distances, axis=0)
    sigma = 1.4826 * np.median(np.abs(distances - middle), axis=0)
    motion = (typical**2).mean(axis=0)
    limits = middle + _OUTLYING * sigma + _NEGLIGIBLE * np.sqrt(motion.max())
    good = (distances <= limits).all(axis=1)
    deviation = ((cycles[good] - typical) ** 2).sum(axis=2).mean(axis=0) / max(motion.sum(), 1e-300)
    return _Cut(starts, n_samples, distances, limits, float(deviation.mean()), float(deviation.max()))


def _correlation(x: FloatArray, template: FloatArray) -> FloatArray:
    """Σ template · x[s:] / (‖template‖ ‖x[s:]‖), each window and channel about its own mean, for every start s."""
    from scipy.signal import oaconvolve

    template = template - template.mean(axis=0)
    product = oaconvolve(x, template[::-1], mode="valid", axes=0).sum(axis=1)
    power = _moving_power(x, len(template))
    size = np.sqrt((template**2).sum() * power)
    return np.where(power > 1e-6 * power.max(), product / np.maximum(size, 1e-300), 0.0)


def _moving_power(x: FloatArray, width: int) -> FloatArray:
    """Sum the squared distance of each window from its own mean, over all channels, for every start."""
    power = _moving_sum((x**2).sum(axis=1), width)
    for column in x.T:
        power -= _moving_sum(column, width) ** 2 / width
    return np.maximum(power, 0.0)


def _moving_sum(values: FloatArray, width: int) -> FloatArray:
    total = np.concatenate([[0.0], np.cumsum(values)])
    sums: FloatArray = total[width:] - total[:-width]
    return sums


def _stack(x: FloatArray, starts: IntArray, n_samples: int) -> FloatArray:
    stacked: FloatArray = x[starts[:, None] + np.arange(n_samples)]
    return stacked


def _level(cycles: FloatArray) -> FloatArray:
    """Remove mean and slope of each cycle (n_cycles, n_samples, n_channels): slow drift is no deviation."""
    line = np.linspace(-1.0, 1.0, cycles.shape[1])[:, None]
    level: FloatArray = cycles - cycles.mean(axis=1, keepdims=True)
    level -= line * ((level * line).sum(axis=1, keepdims=True) / (line**2).sum())
    return level


def _report(cut: _Cut, n_samples: int, sample_rate_hz: float) -> Cycles:
    good, findings = cut.good, []
    for k in np.flatnonzero(~good):
        excess = cut.distances[k] / cut.limits
        c = int(np.argmax(excess))
        findings.append(
            f"the cycle at {cut.starts[k] / sample_rate_hz:.3f} s was left out: channel {c + 1} is"
            f" {cut.distances[k, c]:.3g} rms from the median cycle, the limit is {cut.limits[c]:.3g}"
        )
    steps = np.diff(cut.starts)
    period = float(np.median(steps[good[:-1] & good[1:]] if (good[:-1] & good[1:]).any() else steps))
    for start, step in zip(cut.starts, steps, strict=False):
        if step > 1.5 * period:
            findings.append(
                f"from {(start + period) / sample_rate_hz:.3f} s to {(start + step) / sample_rate_hz:.3f} s"
                " nothing like the cycle was found: left out"
            )
    before, after = int(cut.starts[0]), int(n_samples - cut.starts[-1] - cut.n_samples)
    if before + after:
        findings.append(f"{before} samples before the first cycle and {after} after the last were left out")
    return Cycles(period / sample_rate_hz, cut.n_samples, cut.starts[good], cut.starts[~good], tuple(findings))


def _aperiodic(why: str) -> str:
    return f"x does not repeat itself: {why}; expected a log of a repeated process, of {_LEAST_CYCLES} cycles or more"
