"""Which run teaches most for its time: what is expected of each after it was made, ranked by gain per second.

The gain of a run is the share of what is missing that it would close, as the mean over what misses its target:
(σ² - max(σ_after, target)²) / (σ² - target²).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.experiments.next_run.aims import MET, Aim, deviation
from excitor.experiments.next_run.candidates import Candidate
from excitor.robots.information import Information, add, knowledge, repeated

MOST_TIMES = 1000  # that a run is repeated in thought
TEACHES = 0.25  # of what is missing of a parameter, from which on a run is said to teach it


@dataclass(frozen=True, eq=False, slots=True)
class Ranked:
    """A candidate, and what it would bring."""

    candidate: Candidate
    expected: tuple[float, ...]  # deviation of every aim afterwards
    gain: float  # 0 to 1: 1 closes all that is missing
    times: int | None  # how often until every target is met; None: more often than is worth counting
    teaches: tuple[str, ...]  # parameters and torques that it is for

    @property
    def rate(self) -> float:
        """Gain per second of robot time."""
        return self.gain / self.candidate.seconds


def ranked(given: Information, aims: Sequence[Aim], candidates: Sequence[Candidate]) -> list[Ranked]:
    """Rank candidates, best first."""
    found = [_judged(given, aims, candidate) for candidate in candidates]
    return sorted(found, key=lambda one: -one.rate)


def expected(given: Information, aims: Sequence[Aim], more: Information) -> list[float]:
    """Evaluate each aim's deviation once more is known."""
    C = knowledge(add([given, more])).covariance
    return [deviation(C, aim.weight) for aim in aims]


def _judged(given: Information, aims: Sequence[Aim], candidate: Candidate) -> Ranked:
    after = expected(given, aims, candidate.teaches)
    gains = {aim.name: _gain(aim, sigma) for aim, sigma in zip(aims, after, strict=True) if not aim.met}
    order = sorted(gains, key=lambda name: -gains[name])
    return Ranked(
        candidate,
        tuple(after),
        float(np.mean(list(gains.values()))),
        _times(given, aims, candidate.teaches),
        tuple(name for name in order if gains[name] >= TEACHES) or tuple(order[:1]),
    )


def _gain(aim: Aim, after: float) -> float:
    return (aim.now**2 - max(after, aim.target) ** 2) / (aim.now**2 - aim.target**2)


def _times(given: Information, aims: Sequence[Aim], more: Information) -> int | None:
    """Count repetitions until every target is met; information only grows, so bisection finds it."""

    def enough(k: int) -> bool:
        after = expected(given, aims, repeated(more, float(k)))
        return all(sigma <= MET * aim.target for aim, sigma in zip(aims, after, strict=True))

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if low >= MOST_TIMES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
