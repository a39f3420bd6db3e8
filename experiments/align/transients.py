"""Which measured periods are alike? What still settles, or was disturbed, is left out; drift of friction is told."""

from dataclasses import dataclass

import numpy as np

from excitor.experiments.align.nouns import Check, Expected
from excitor.experiments.align.windows import AlignedPeriods
from excitor.robots.arrays import FloatArray

APART = 5.0  # times the usual distance between periods
NEGLIGIBLE = 0.01  # of a channel's motion or torque: periods that differ less are alike
DRIFT = 0.1  # of a joint's torque (rms) that its friction may change by, from the first period to the last
SLOW = 0.1  # of a joint's highest speed, below which friction is not looked at


@dataclass(frozen=True, slots=True)
class Kept:
    """Usable periods in a row, counted among those given."""

    first: int
    count: int


def repeating(periods: AlignedPeriods, planned: int) -> tuple[Kept, list[Check]]:
    """Find the longest row of periods that are like their median; tell how many are left out."""
    far = np.maximum(_distance(periods.q), _distance(periods.tau))
    alike = far <= 1.0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], alike, [False]]).astype(np.int8)))
    kept = Kept(0, 0)
    for a, b in edges.reshape(-1, 2):
        if b - a > kept.count:
            kept = Kept(int(a), int(b - a))
    lost = planned - kept.count
    holds = lost <= max(1, planned // 3)
    told = f"{kept.count} of {planned} measured periods repeat each other"
    remedy = "" if holds else "look for what disturbed the run, and warm up longer"
    cause = "" if holds else "transients"
    return kept, [Check("usable periods", float(kept.count), "1", 0.0, holds, told, "", "doubtful", cause, remedy)]


def check_friction_drift(expected: Expected, periods: AlignedPeriods) -> list[Check]:
    """Tell how friction changes from the first period to the last: the trend of what follows the sign of the speed."""
    if len(periods.tau) < 3:
        return []
    mean_q = periods.q.mean(axis=0)
    dq = np.gradient(mean_q, axis=0) * periods.rate
    checks = []
    for j in np.flatnonzero(expected.moving()):
        fast = np.abs(dq[:, j]) > SLOW * np.abs(dq[:, j]).max()
        s = np.where(fast, np.sign(dq[:, j]), 0.0)
        s = s - s.mean()
        if not s.any():
            continue
        parts = periods.tau[:, :, j] @ s / float(s @ s)
        k = np.arange(len(parts)) - 0.5 * (len(parts) - 1)
        slope = float(k @ parts / (k @ k))
        size = float(np.sqrt(np.mean(periods.tau[:, :, j] ** 2))) or 1.0
        share = slope * (len(parts) - 1) / size
        holds = abs(share) <= DRIFT or not _trend(k, parts)
        name = expected.joints[j]
        told = (
            f"friction of joint {name} changes by {100 * share:.3g} % of its torque (rms) from the first measured "
            "period to the last"
        )
        remedy = "" if holds else "warm the robot up longer before it is measured"
        cause = "" if holds else "warming up"
        checks.append(Check("friction drift", share, "1", DRIFT, holds, told, name, "note", cause, remedy))
    return checks


def _trend(k: FloatArray, parts: FloatArray) -> bool:
    """Tell whether a slope is more than the scatter about it makes by chance once in ten thousand times."""
    from scipy.stats import t as student

    slope = float(k @ parts / (k @ k))
    left, free = parts - parts.mean() - slope * k, len(parts) - 2
    error = float(np.sqrt(left @ left / free / (k @ k)))
    return abs(slope) > error * float(student.ppf(1.0 - 0.5e-4, free))


def _distance(x: FloatArray) -> FloatArray:
    """How far each period is from the median one, over what is still alike; the worst channel counts."""
    middle = np.median(x, axis=0)
    rms = np.sqrt(np.mean((x - middle) ** 2, axis=1))
    usual = np.median(rms, axis=0)
    limits = np.maximum(APART * usual, NEGLIGIBLE * middle.std(axis=0) + 1e-12)
    return np.asarray((rms / limits).max(axis=1))
