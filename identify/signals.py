"""Signal processing of sampled channels: filters, differentiation, decimation and removal of standstill.

Time runs along the first axis. Every function takes its settings as keywords and returns new arrays; a caller
that reports what was done keeps a `Step` beside the result, with the function's name and those keywords.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import atan, inf, isfinite, pi, sqrt, tan
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from excitor.robots.arrays import BoolArray, FloatArray, freeze

Ends = Literal["second-order", "first-order", "periodic"]

SAME_POSE = 0.01  # rad or m: visits whose every joint agrees within this are visits of one pose
_CHEBYSHEV = (8, 0.05, 0.8)  # order, ripple (dB), cut-off as a fraction of the new Nyquist frequency
_BLOCK = 2**18  # elements filtered at once: 2 MB, several times, however wide the observation matrix is


def lowpass(
    x: FloatArray, *, sample_rate_hz: float, cutoff_hz: float, order: int = 4, true_cutoff: bool = True
) -> FloatArray:
    """Low-pass channels (n_samples, n_channels) by a Butterworth filter run forward and backward: no delay.

    With `true_cutoff`, `cutoff_hz` is where the whole, twice-run response is -3 dB. Without it, `cutoff_hz` is where
    a single run is -3 dB, as most publications mean it: the result is -6 dB there, and -3 dB well below.
    The ends are extended by four periods of the cut-off, reflected about the end point. What lies there is a guess:
    the first and last half period of the cut-off are better dropped unless the robot stands.
    Settings: sample_rate_hz, cutoff_hz, order, true_cutoff.
    """
    from scipy.signal import butter, sosfiltfilt

    x = channels(x, "x")
    if order < 1:
        raise ValueError(f"order is {order}, expected 1 or more")
    design_hz = lowpass_design_hz(
        sample_rate_hz=sample_rate_hz, cutoff_hz=cutoff_hz, order=order, true_cutoff=true_cutoff
    )
    sos = butter(order, design_hz, fs=sample_rate_hz, output="sos")
    _check_longer_than(len(x), 3 * (order + 1), f"a forward-backward filter of order {order}")
    extended = min(len(x) - 1, 3 * (order + 1) + int(4.0 * sample_rate_hz / cutoff_hz))  # scipy's own: 3 (order + 1)
    return np.asarray(sosfiltfilt(sos, x, axis=0, padlen=extended), dtype=np.float64)


def lowpass_design_hz(*, sample_rate_hz: float, cutoff_hz: float, order: int = 4, true_cutoff: bool = True) -> float:
    """Compute the -3 dB frequency of the single run behind `lowpass`, in Hz.

    Run twice, the gain is 1 / (1 + (Ω/Ωc)²ⁿ) with Ω = tan(π f / sample rate): 1/√2 at Ωc (√2 - 1)^(1/2n).
    """
    positive(sample_rate_hz, "sample_rate_hz")
    check_below_nyquist(cutoff_hz, sample_rate_hz)
    if not true_cutoff:
        return cutoff_hz
    warped = tan(pi * cutoff_hz / sample_rate_hz) * (sqrt(2.0) - 1.0) ** (-0.5 / order)
    return sample_rate_hz / pi * atan(warped)


def differentiate(x: FloatArray, *, sample_rate_hz: float, ends: Ends = "second-order") -> FloatArray:
    """Differentiate channels (n_samples, n_channels) by central differences, (x[k+1] - x[k-1]) rate / 2, per second.

    The velocity belongs to the very sample of the position: no half-sample delay. The ends are one-sided over three
    samples ("second-order": still no delay), over two ("first-order": half a sample late or early, as in many
    publications), or wrap round ("periodic": x holds whole periods). Settings: sample_rate_hz, ends.
    """
    x = channels(x, "x", least=3)
    positive(sample_rate_hz, "sample_rate_hz")
    dx = np.empty_like(x)
    dx[1:-1] = x[2:] - x[:-2]
    if ends == "periodic":
        dx[0], dx[-1] = x[1] - x[-1], x[0] - x[-2]
    elif ends == "first-order":
        dx[0], dx[-1] = 2.0 * (x[1] - x[0]), 2.0 * (x[-1] - x[-2])
    elif ends == "second-order":
        dx[0] = 4.0 * x[1] - 3.0 * x[0] - x[2]
        dx[-1] = 3.0 * x[-1] - 4.0 * x[-2] + x[-3]
    else:
        raise ValueError(f"ends is {ends!r}, expected 'second-order', 'first-order' or 'periodic'")
    dx *= 0.5 * sample_rate_hz
    return dx


def decimate(x: FloatArray, factors: int | Sequence[int], *, unit_gain: bool = False) -> FloatArray:
    """Low-pass without delay and keep each factor-th sample, the first included, stage by stage.

    A stage is a Chebyshev filter of the first kind, order 8, ripple 0.05 dB, cut-off 0.8 of the new Nyquist
    frequency, run forward and backward. x is (n_samples, …); the result has ceil(n / factor) samples per stage.
    A filter of even order lets a constant through at the bottom of its ripple: -0.1 dB (0.9886) per stage, which no
    estimate depends on if both sides of the equations are treated alike, but thresholds do.
    `unit_gain` corrects it; published row counts want it off. Settings: factors (spelled "10x10"), unit_gain.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 0 or x.size == 0:
        raise ValueError(f"x has shape {x.shape}, expected (n_samples, ...) with at least one channel")
    if not np.isfinite(x).all():
        raise ValueError("x holds values that are not finite; repair or cut out those samples first")
    rows = x.reshape(len(x), -1)
    for factor in _checked_factors(factors):
        rows = _decimate_stage(rows, factor, unit_gain)
    return rows.reshape(len(rows), *x.shape[1:])


def block_means(x: FloatArray, width: int) -> FloatArray:
    """Average samples in blocks along the first axis; what is left at the end is dropped. Settings: width."""
    whole = len(x) // width * width
    return np.asarray(x[:whole].reshape(-1, width, *x.shape[1:]).mean(axis=1))


def moving_mask(dq: FloatArray, threshold: ArrayLike) -> BoolArray:
    """Mark where |dq| > threshold, strictly, (n_samples, n_joints): the rows of each joint's torque to keep.

    dq in rad/s or m/s; threshold is one number or one per joint, same units. At rest friction may be anything below
    its breakaway and the sign of dq is noise. Settings: threshold.
    """
    dq = channels(dq, "dq")
    limit = np.asarray(threshold, dtype=np.float64)
    if limit.shape not in ((), (dq.shape[1],)) or not (limit >= 0.0).all() or np.isinf(limit).any():
        sentence = f"threshold is {limit.tolist()}, expected one speed ≥ 0 or {dq.shape[1]} of them, one for each joint"
        raise ValueError(sentence)
    return np.asarray(np.abs(dq) > limit, dtype=np.bool_)


def any_moving_mask(dq: FloatArray, threshold: ArrayLike) -> BoolArray:
    """Mark where at least one joint moves, (n_samples,): the rows of the power to keep. As `moving_mask`."""
    return np.asarray(moving_mask(dq, threshold).any(axis=1), dtype=np.bool_)


@dataclass(frozen=True, eq=False, slots=True)
class PoseAverages:
    """Static poses, each averaged over the visits from below and the visits from above."""

    q: FloatArray  # (n_poses, n_joints)
    tau: FloatArray  # (n_poses, n_joints): mean of both approaches where both exist: free of stiction
    stiction: FloatArray  # (n_poses, n_joints): half the difference, approach from below minus above; NaN if unknown
    both_sides: BoolArray  # (n_poses, n_joints)
    n_visits: tuple[int, ...]
    findings: tuple[str, ...]

    def __post_init__(self) -> None:
        freeze(self, q="n_poses n_joints", tau="n_poses n_joints", both_sides="bool: n_poses n_joints")
        freeze(self, finite=False, stiction="n_poses n_joints")


def pose_averages(
    q: FloatArray, tau: FloatArray, *, dq: FloatArray, threshold: ArrayLike, settle_samples: int
) -> PoseAverages:
    """Average torques over the dwells of a run declared static, τ = (τ from below + τ from above) / 2.

    q, tau, dq are (n_samples, n_joints). A dwell is where no joint exceeds threshold; settle_samples are left out at
    either end, where joints still settle or already break away, and at least as many must remain. A joint's approach
    is the sense in which it moved last. Where only one side was visited, tau is that side's mean, both_sides is False
    and a finding reports it.
    Settings: threshold, settle_samples.
    """
    q, tau, dq = (channels(x, name) for x, name in ((q, "q"), (tau, "tau"), (dq, "dq")))
    if not q.shape == tau.shape == dq.shape:
        raise ValueError(f"q, tau and dq have shapes {q.shape}, {tau.shape}, {dq.shape}, expected the same")
    if settle_samples < 1:
        raise ValueError(f"settle_samples is {settle_samples}, expected 1 or more")
    moving = moving_mask(dq, threshold)
    still = _runs(~any_moving_mask(dq, threshold))
    dwells = [(a + settle_samples, b - settle_samples) for a, b in still if b - a >= 3 * settle_samples]
    if not dwells:
        raise ValueError(
            f"no dwell of {3 * settle_samples} samples found; lower settle_samples or raise threshold above dq's noise"
        )
    sense = np.array([_last_sense(dq[:start], moving[:start]) for start, _ in dwells])
    q_dwell, tau_dwell = (np.array([x[a:b].mean(axis=0) for a, b in dwells]) for x in (q, tau))
    return _average_visits(q_dwell, tau_dwell, sense, _same_poses(q_dwell))


def channels(x: ArrayLike, name: str, *, least: int = 1) -> FloatArray:
    """Check that x is a finite (n_samples, n_channels) array of at least so many samples."""
    array: FloatArray = np.asarray(x, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}, expected (n_samples, n_channels); one channel is x[:, None]")
    if len(array) < least:
        raise ValueError(f"{name} has {len(array)} samples, expected at least {least}; record longer")
    if not np.isfinite(array).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"{name}[{row}, {column}] is {array[row, column]}, expected a finite number; repair or cut out that sample"
        )
    return array


def positive(value: float, name: str) -> None:
    """Check that a setting is a finite number above zero."""
    if not 0.0 < value < inf:
        raise ValueError(f"{name} is {value}, expected a finite number above 0")


def check_below_nyquist(cutoff_hz: float, sample_rate_hz: float) -> None:
    """Check that a cut-off frequency is positive and below half the sample rate."""
    if not (isfinite(cutoff_hz) and 0.0 < cutoff_hz < 0.5 * sample_rate_hz):
        raise ValueError(
            f"cutoff_hz is {cutoff_hz}, expected a frequency between 0 and half the sample rate,"
            f" {0.5 * sample_rate_hz:g} Hz; is sample_rate_hz right?"
        )


def _check_longer_than(n_samples: int, needed: int, what: str) -> None:
    if n_samples <= needed:
        raise ValueError(f"x has {n_samples} samples, expected more than {needed} for {what}; record longer")


def _checked_factors(factors: int | Sequence[int]) -> tuple[int, ...]:
    stages = (factors,) if isinstance(factors, int | np.integer) else tuple(factors)
    if not stages or any(int(stage) != stage or stage < 2 for stage in stages):
        raise ValueError(f"factors is {factors}, expected whole numbers of 2 or more, one for each stage")
    return tuple(int(stage) for stage in stages)


def _decimate_stage(rows: FloatArray, factor: int, unit_gain: bool) -> FloatArray:
    from scipy.signal import sosfiltfilt

    _check_longer_than(len(rows), 3 * (_CHEBYSHEV[0] + 1), "a stage of decimation")
    sos = np.array(_chebyshev(factor, unit_gain))
    kept = np.zeros((-(-len(rows) // factor), rows.shape[1]))
    width = max(1, _BLOCK // len(rows))
    own = np.flatnonzero(rows.any(axis=0))  # a joint's torque depends on no body before it: many columns are zero
    for first in range(0, len(own), width):
        some = own[first : first + width]
        block = np.ascontiguousarray(rows.T[some])
        kept[:, some] = sosfiltfilt(sos, block, axis=1)[:, ::factor].T
    return kept


@cache
def _chebyshev(factor: int, unit_gain: bool) -> tuple[tuple[float, ...], ...]:
    """Design the filter of a stage, second-order sections: for short cycles this would take longer than filtering."""
    from scipy.signal import cheby1

    order, ripple, cutoff = _CHEBYSHEV
    sos = np.asarray(cheby1(order, ripple, cutoff / factor, output="sos"), dtype=np.float64)
    if unit_gain:
        sos[0, :3] *= 10.0 ** (ripple / 20.0)
    return tuple(map(tuple, sos.tolist()))


def _runs(mask: BoolArray) -> list[tuple[int, int]]:  # where runs of True begin and end (exclusive)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _last_sense(dq: FloatArray, moving: BoolArray) -> FloatArray:  # +1, -1, or 0 for a joint that never moved
    last = len(moving) - 1 - np.argmax(moving[::-1], axis=0)
    return np.where(moving.any(axis=0), np.sign(dq[last, np.arange(dq.shape[1])]), 0.0)


def _same_poses(q: FloatArray) -> list[list[int]]:
    """Group dwells by pose, in the order of their first visit."""
    poses: list[list[int]] = []
    for k, position in enumerate(q):
        for visits in poses:
            if (np.abs(q[visits[0]] - position) <= SAME_POSE).all():
                visits.append(k)
                break
        else:
            poses.append([k])
    return poses


def _average_visits(q: FloatArray, tau: FloatArray, sense: FloatArray, poses: list[list[int]]) -> PoseAverages:
    shape = (len(poses), q.shape[1])
    mean, stiction, both = np.empty(shape), np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_)
    findings = []
    for p, visits in enumerate(poses):
        below, above = sense[visits] > 0.0, sense[visits] < 0.0
        both[p] = below.any(axis=0) & above.any(axis=0)
        for j in range(shape[1]):
            values = tau[visits, j]
            mean[p, j] = values.mean()
            if both[p, j]:
                up, down = values[below[:, j]].mean(), values[above[:, j]].mean()
                mean[p, j], stiction[p, j] = (up + down) / 2.0, (up - down) / 2.0
        if not both[p].all():
            joints = ", ".join(str(j + 1) for j in np.flatnonzero(~both[p]))
            findings.append(f"pose {p + 1} was not approached from both sides by joint {joints}: stiction stays in tau")
    return PoseAverages(
        q=np.array([q[visits].mean(axis=0) for visits in poses]),
        tau=mean,
        stiction=stiction,
        both_sides=both,
        n_visits=tuple(len(visits) for visits in poses),
        findings=tuple(findings),
    )
