"""Where does a cycle end while samples still come? By the plan's period, or where the motion repeats itself."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from excitor.identify.periods import find_cycles, match_cycles
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog

TRIES = 1.4  # each look for a period waits for so many times the samples of the last
LONGEST = 60.0  # shortest cycles, in which a period must have shown
MOST_SAMPLES = 2_000_000  # that are kept while a period is looked for
DIFFERS = 0.02  # power of a cycle's difference from the first, over the power of its motion: not the same motion
STILL = 1e-3  # rad or m: where no joint goes farther, the robot stands
GAP = 1.5  # sampling intervals that may lie between two samples


@dataclass(frozen=True, eq=False, slots=True)
class CutCycle:
    """One cycle, with some samples before and after it for filters to settle in."""

    t: float  # s, where it begins
    q: FloatArray
    tau: FloatArray
    rate: float
    inner: slice  # the cycle itself


@dataclass(slots=True)
class Cutter:
    """Samples that are not cut yet, and how to cut them."""

    period: float | None  # s: exactly; None: to be found
    shortest: float  # s, of a cycle that is to be found
    margin: int  # samples kept around a cycle
    drop: int = 0  # cycles at the start that do not count
    rate: float = 0.0
    template: FloatArray | None = None  # (n_samples, n_joints)
    sure: bool = False  # whether a second planned cycle was like it; the first may have begun before the process did
    begins: float | None = None  # s: of the next planned cycle
    lost: bool = False  # where the next planned cycle begins must be looked for
    tried: int = 0  # samples when a period was last looked for
    left_out: int = 0
    gone: int = 0  # samples that wait no more
    t: FloatArray = field(default_factory=lambda: np.zeros(0))
    q: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    tau: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def waiting(self) -> int:
        """Count the samples that wait for their cycle to end."""
        return len(self.t)


def follows(cutter: Cutter, t: FloatArray) -> bool:
    """Tell whether samples go on where the last ended."""
    return not cutter.waiting or bool(0.0 < t[0] - cutter.t[-1] <= GAP / cutter.rate)


def begin_stretch(cutter: Cutter, *, same_log: bool = False) -> None:
    """Forget what waits: the next samples do not follow. A new log begins where its plan begins."""
    cutter.gone += cutter.waiting
    cutter.t, cutter.q, cutter.tau = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
    cutter.begins, cutter.tried = None, 0
    if same_log and not cutter.sure and cutter.period is not None:
        cutter.template = None
    cutter.lost = same_log and cutter.template is not None


def add(cutter: Cutter, t: FloatArray, q: FloatArray, tau: FloatArray, rate: float, *, name: str) -> None:
    """Append samples."""
    if cutter.rate and abs(rate / cutter.rate - 1.0) > 0.02:
        raise InvalidLog(
            name, f"is sampled at {rate:g} Hz, at first it was {cutter.rate:g} Hz; watch one rate at a time"
        )
    cutter.rate = cutter.rate or float(f"{rate:.6g}")  # stamps are rounded: no piece is to differ for that
    if not cutter.waiting:
        cutter.t, cutter.q, cutter.tau = t, q, tau
        return
    cutter.t = np.concatenate([cutter.t, t])
    cutter.q = np.concatenate([cutter.q, q])
    cutter.tau = np.concatenate([cutter.tau, tau])


def cut(cutter: Cutter, *, ended: bool = False) -> Iterator[CutCycle]:
    """Give the cycles that are whole, each once; `ended`: no more samples follow."""
    yield from _planned(cutter, ended) if cutter.period is not None else _found(cutter, ended)


def _planned(cutter: Cutter, ended: bool) -> Iterator[CutCycle]:
    """Cut by the clock, period after period from the first sample on; after a gap, from where the motion is found."""
    assert cutter.period is not None
    while cutter.waiting:
        if cutter.lost and not _found_again(cutter, ended):
            return
        if cutter.begins is None:
            cutter.begins = float(cutter.t[0]) + cutter.drop * cutter.period
        half = 0.5 / cutter.rate
        n = round(cutter.period * cutter.rate)
        first = int(np.searchsorted(cutter.t, cutter.begins - half))
        if first + n + (0 if ended else cutter.margin) > cutter.waiting:
            _forget_before(cutter, min(first, cutter.waiting) - cutter.margin)
            return
        cutter.begins += cutter.period
        good = list(_checked(cutter, first, n))
        yield from good
        _forget_before(cutter, first + n - cutter.margin)
        cutter.lost = not good and cutter.template is not None


def _found_again(cutter: Cutter, ended: bool) -> bool:
    """Look for a planned cycle by its motion."""
    assert cutter.template is not None
    n = len(cutter.template)
    if cutter.waiting < 2 * n and not (ended and cutter.waiting >= n + 2):
        return False
    for start in match_cycles(cutter.q - cutter.q.mean(axis=0), cutter.template, n):
        if _difference(cutter, cutter.q[start : start + n]) <= DIFFERS:
            cutter.begins, cutter.lost = float(cutter.t[start]), False
            return True
    _forget_before(cutter, cutter.waiting - n)
    return False


def _found(cutter: Cutter, ended: bool) -> Iterator[CutCycle]:
    """Cut where the motion of the first cycles comes again."""
    if cutter.template is None and not _learned(cutter, ended):
        return
    assert cutter.template is not None
    n = len(cutter.template)
    while cutter.waiting >= n + 2:
        starts = match_cycles(cutter.q - cutter.q.mean(axis=0), cutter.template, n)
        later = n // 4 + cutter.margin  # a better place could still come
        whole = [int(s) for s in starts if s + n + (0 if ended else later) <= cutter.waiting]
        if not whole:
            if not len(starts):
                _forget_before(cutter, cutter.waiting - 2 * n)
            return
        yield from _checked(cutter, whole[0], n)
        _forget_before(cutter, whole[0] + n - min(cutter.margin, n // 4))


def _learned(cutter: Cutter, ended: bool) -> bool:
    """Look for the period once there is enough to see it in, from where the robot begins to move."""
    if cutter.waiting:
        away = np.abs(cutter.q - cutter.q[0]).max(axis=1) > STILL
        begins = int(np.argmax(away)) if away.any() else cutter.waiting - 1
        _forget_before(cutter, begins - cutter.margin)
    if cutter.waiting < max(TRIES * cutter.tried, 4.0 * cutter.shortest * cutter.rate) and not ended:
        return False
    cutter.tried = cutter.waiting
    try:
        cycles = find_cycles(cutter.q, sample_rate_hz=cutter.rate, min_period_s=cutter.shortest)
    except ValueError as error:
        if cutter.waiting > min(LONGEST * cutter.shortest * cutter.rate, MOST_SAMPLES):
            raise ValueError(f"{error}; see cycle_s of its run") from None
        return False
    stacked = np.array([cutter.q[s : s + cycles.n_samples] for s in cycles.starts])
    cutter.template = np.median(stacked, axis=0)
    return True


def _checked(cutter: Cutter, first: int, n: int) -> Iterator[CutCycle]:
    """Give a cycle that is the same motion as the first; count the others."""
    own = cutter.q[first : first + n]
    if cutter.template is None and _stands(own):
        cutter.left_out += 1
        return
    first_ever = cutter.template is None
    if cutter.template is None:
        cutter.template = own.copy()
    if _difference(cutter, own) > DIFFERS:
        if cutter.sure or cutter.period is None or _stands(own):
            cutter.left_out += 1
            return
        cutter.template = own.copy()
    cutter.sure = not first_ever
    a, b = max(first - cutter.margin, 0), min(first + n + cutter.margin, cutter.waiting)
    yield CutCycle(float(cutter.t[first]), cutter.q[a:b], cutter.tau[a:b], cutter.rate, slice(first - a, first - a + n))


def _stands(q: FloatArray) -> bool:
    """Tell whether nothing moves."""
    return bool(np.ptp(q, axis=0).max(initial=0.0) < STILL)


def _difference(cutter: Cutter, own: FloatArray) -> float:
    """Power of what a motion differs from the first cycle by, over the power of its motion, each about its mean."""
    assert cutter.template is not None
    size = min(len(own), len(cutter.template))
    template = cutter.template[:size] - cutter.template[:size].mean(axis=0)
    difference = own[:size] - own[:size].mean(axis=0) - template
    return float(np.sum(difference**2) / max(float(np.sum(template**2)), 1e-12))


def _forget_before(cutter: Cutter, k: int) -> None:
    if k > 0:
        cutter.gone += k
        cutter.t, cutter.q, cutter.tau = (x[k:].copy() for x in (cutter.t, cutter.q, cutter.tau))
