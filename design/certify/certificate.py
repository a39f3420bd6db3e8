"""Certificate of a run: one line a limit, with the worst value that can occur and how that was proven."""

from dataclasses import dataclass

import numpy as np

from excitor.design.motion import Run


@dataclass(frozen=True, slots=True)
class Margin:
    """One limit, and how far the motion stays from it."""

    name: str  # "velocity j3"
    unit: str
    limit: float
    worst: float  # no sample, and nothing between samples, is worse
    margin: float  # left of the limit; negative where it is exceeded
    proof: str  # how, in words and numbers
    holds: bool
    where: str = ""  # when the worst sample occurs


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """Margins of all limits of a run; notes list what was not checked."""

    items: tuple[Margin, ...]
    notes: tuple[str, ...] = ()
    way: Run | None = None  # from the home pose to the start, and backwards at the end

    @property
    def ready(self) -> bool:
        """Return True if every limit is proven to hold."""
        return all(item.holds for item in self.items)


def failing(certificate: Certificate) -> tuple[Margin, ...]:
    """List the limits that are exceeded, or not proven to hold."""
    return tuple(item for item in certificate.items if not item.holds)


def below(name: str, unit: str, *, limit: float, upper: float, seen: float, proof: str, where: str) -> Margin:
    """State that a quantity stays below a limit: proven up to `upper`, seen up to `seen`."""
    holds = bool(upper <= limit + _rounding(limit))
    return Margin(name, unit, limit, upper, limit - upper, proof + _verdict(holds, seen, limit), holds, where)


def above(name: str, unit: str, *, limit: float, lower: float, seen: float, proof: str, where: str) -> Margin:
    """State that a quantity stays above a limit: proven down to `lower`, seen down to `seen`."""
    holds = bool(lower >= limit - _rounding(limit))
    return Margin(name, unit, limit, lower, lower - limit, proof + _verdict(holds, -seen, -limit), holds, where)


def unproven(name: str, unit: str, *, limit: float, reason: str) -> Margin:
    """Build the margin of a limit that could be neither proven nor refuted."""
    return Margin(name, unit, limit, np.nan, np.nan, reason, False)


def tightest(name: str, margins: list[Margin]) -> Margin:
    """Sum several limits up in the one that holds least."""

    def ease(item: Margin) -> tuple[bool, float]:
        scale = 1.0 if item.unit in ("rad", "m") else abs(item.limit)  # a distance is what it is
        return item.holds, item.margin / scale if np.isfinite(item.margin) else -np.inf

    worst = min(margins, key=ease)
    where = f"{worst.name}, {worst.where}" if worst.where else worst.name
    return Margin(name, worst.unit, worst.limit, worst.worst, worst.margin, worst.proof, worst.holds, where)


def _verdict(holds: bool, seen: float, limit: float) -> str:
    if holds:
        return ""
    if seen > limit:
        return "; a sample exceeds the limit"
    return "; undecided: no sample exceeds the limit, but between samples it cannot be excluded"


def _rounding(limit: float) -> float:
    return 1e-12 * max(1.0, abs(limit)) if np.isfinite(limit) else 0.0
