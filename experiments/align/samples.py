"""What do torques and motion of an aligned log look like, free of noise? One mean period, or what moves measure."""

from dataclasses import dataclass, replace

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.align.nouns import Alignment, MeasuredRun
from excitor.experiments.align.windows import AlignedPeriods, aligned_samples, resampled
from excitor.identify.periods import average, periodic_lowpass
from excitor.identify.samples import Samples
from excitor.identify.signals import differentiate, lowpass
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.robot import Motion

HARMONICS = 5  # times the highest planned one: what controllers add to the motion lies below
MOST = 4000  # samples of a run of moves that are enough to judge torques by
RAW_HARMONICS = 10  # the same for a motion that strays from the plan
SMOOTH = 9  # samples over which torques of moves are averaged
BINS = 1500  # of a run, over which torques and tracking errors are averaged


@dataclass(frozen=True, eq=False, slots=True)
class Seen:
    """Motion and torques of an aligned log for checks against the prior model."""

    samples: Samples
    periods: AlignedPeriods | None  # where there are any


@dataclass(frozen=True, eq=False, slots=True)
class Followed:
    """What drives were to do, how far joints were behind, and what drives gave, averaged over short times."""

    motion: Motion  # planned, (n, n_joints)
    error: FloatArray  # (n, n_joints), planned less measured
    error_rate: FloatArray
    tau: FloatArray


def followed(alignment: Alignment, run: MeasuredRun, q: FloatArray) -> Followed:
    """Average the steady part of a run over bins of the plan's time, by which noise shrinks and no feature does."""
    begin, end = alignment.expected.steady_span
    stretch = alignment.stretch
    width = max((end - begin) / BINS, 2.0 * alignment.interval / stretch)
    u = (run.t - alignment.start) / stretch
    place = np.floor((u - begin) / width).astype(np.int64)
    late = np.floor((u - alignment.delay / stretch - begin) / width).astype(np.int64)
    count = int((end - begin) / width)
    here = np.column_stack([u, alignment.expected.planned(u) - q])
    (means, first), (tau, second) = _binned(place, here, count), _binned(late, run.tau, count)
    kept = first & second
    u, error = means[kept, 0], means[kept, 1:]
    motion = Motion(*(alignment.expected.planned(u, order) / stretch**order for order in range(3)))
    rate = np.gradient(error, u * stretch, axis=0) if len(u) > 2 else np.zeros_like(error)
    return Followed(motion, error, rate, tau[kept])


def _binned(place: IntArray, values: FloatArray, count: int) -> tuple[FloatArray, BoolArray]:
    """Average rows by their bin; also which bins have any."""
    inside = (place >= 0) & (place < count)
    n = np.bincount(place[inside], minlength=count)
    sums = [np.bincount(place[inside], column[inside], count) for column in values.T]
    return np.column_stack(sums) / np.maximum(n, 1)[:, None], n > 0


def seen(alignment: Alignment, run: MeasuredRun, q: FloatArray) -> Seen:
    """Average a series over its periods; of moves, take the planned motion and torques as logged."""
    if isinstance(alignment.expected.body, Trajectory):
        periods = aligned_samples(alignment, run, q=q)
        return Seen(mean_samples(alignment, periods), periods)
    t = np.linspace(*alignment.expected.moving_span, MOST + 2)[1:-1]
    stretch = alignment.stretch
    motion = Motion(*(alignment.expected.planned(t, order) / stretch**order for order in range(3)))
    kernel = np.ones(SMOOTH) / SMOOTH
    smooth = np.column_stack([np.convolve(column, kernel, mode="same") for column in run.tau.T])
    tau = resampled(run.t, smooth, alignment.log_time(t) + alignment.delay)
    return Seen(Samples(alignment.expected.program, motion, tau, 1.0 / float((t[1] - t[0]) * stretch)), None)


def raw_samples(alignment: Alignment, run: MeasuredRun, q: FloatArray) -> Samples:
    """Take what was measured as it went, for a motion that does not repeat; filtered alike, without delay."""
    begin, end = alignment.log_time(np.array(alignment.expected.steady_span))
    rate = 1.0 / alignment.interval
    grid = np.arange(max(begin, run.t[0]), min(end, run.t[-1]), 1.0 / rate)
    body = alignment.expected.body
    top = (
        RAW_HARMONICS * body.excitation.harmonics[-1] / body.excitation.period if isinstance(body, Trajectory) else 5.0
    )
    cutoff = min(top / alignment.stretch, 0.2 * rate)
    smooth, tau = (lowpass(resampled(run.t, x, grid), sample_rate_hz=rate, cutoff_hz=cutoff) for x in (q, run.tau))
    dq = differentiate(smooth, sample_rate_hz=rate)
    motion = Motion(smooth, dq, differentiate(dq, sample_rate_hz=rate))
    edge = round(rate / cutoff)
    inner = Motion(*(part[edge:-edge] for part in (motion.q, motion.dq, motion.ddq)))
    return Samples(alignment.expected.program, inner, tau[edge:-edge], rate)


def mean_samples(alignment: Alignment, periods: AlignedPeriods) -> Samples:
    """Average periods, and differentiate what lies below a few times the highest planned harmonic."""
    body = alignment.expected.body
    assert isinstance(body, Trajectory)
    q, tau = periods.q.mean(axis=0), periods.tau.mean(axis=0)
    highest = HARMONICS * body.excitation.harmonics[-1] / (alignment.stretch * body.excitation.period)
    motion = periodic_lowpass(q, sample_rate_hz=periods.rate, cutoff_hz=min(highest, 0.4 * periods.rate))
    variance = np.broadcast_to(average(periods.tau).noise_variance, tau.shape) if len(periods.tau) > 1 else None
    return Samples(alignment.expected.program, motion, tau, periods.rate, variance=variance)


def thinned(samples: Samples, most: int) -> Samples:
    """Keep every so many samples."""
    step = max(1, len(samples) // most)
    motion = Motion(*(part[::step] for part in (samples.motion.q, samples.motion.dq, samples.motion.ddq)))
    variance = None if samples.variance is None else samples.variance[::step]
    return replace(samples, motion=motion, tau=samples.tau[::step], variance=variance)
