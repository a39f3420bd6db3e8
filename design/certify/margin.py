"""Margin of a limit: the worst value that can occur, and how that was proven."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Row:
    """One limit of a constraint: values stay below it, or above it where it is a lower one."""

    name: str  # "torque peak j2"
    unit: str
    limit: float
    lower: bool = False
    kind: str = ""  # "torque peak": rows of one kind are summed up together
    group: str = ""  # rows that are relaxed together
    joint: int = -1  # that it is about; -1: none

    @property
    def label(self) -> str:
        """Name in sentences about poses: "table / link j3"."""
        return self.name.removeprefix("clearance: ")

    @property
    def side(self) -> float:
        """1 for an upper limit, -1 for a lower one."""
        return -1.0 if self.lower else 1.0


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


def sides(rows: Sequence[Row]) -> FloatArray:
    """1 for each upper limit, -1 for each lower one, (n_rows,)."""
    return np.array([row.side for row in rows])


def beyond(rows: Sequence[Row], values: FloatArray) -> FloatArray:
    """By how much values (…, n_rows) exceed their upper limits, or fall short of their lower ones."""
    return np.asarray(sides(rows) * (values - np.array([row.limit for row in rows])))


def margin_of(row: Row, proven: float, seen: float, *, proof: str, where: str = "") -> Margin:
    """State that a quantity keeps its limit: no value is worse than `proven`, and `seen` is the worst sample."""
    side = row.side
    holds = bool(side * proven <= side * row.limit + _rounding(row.limit))
    text = proof + _verdict(holds, side * seen > side * row.limit)
    return Margin(row.name, row.unit, row.limit, proven, side * (row.limit - proven), text, holds, where)


def unproven(row: Row, reason: str) -> Margin:
    """Build the margin of a limit that could be neither proven nor refuted."""
    return Margin(row.name, row.unit, row.limit, np.nan, np.nan, reason, False)


def tightest(name: str, margins: list[Margin]) -> Margin:
    """Sum several limits up in the one that holds least."""

    def ease(item: Margin) -> tuple[bool, float]:
        scale = 1.0 if item.unit in ("rad", "m") else abs(item.limit)  # a distance is what it is
        return item.holds, item.margin / scale if np.isfinite(item.margin) else -np.inf

    worst = min(margins, key=ease)
    where = f"{worst.name}, {worst.where}" if worst.where else worst.name
    return Margin(name, worst.unit, worst.limit, worst.worst, worst.margin, worst.proof, worst.holds, where)


def _verdict(holds: bool, exceeded: bool) -> str:
    if holds:
        return ""
    if exceeded:
        return "; a sample exceeds the limit"
    return "; undecided: no sample exceeds the limit, but between samples it cannot be excluded"


def _rounding(limit: float) -> float:
    return 1e-12 * max(1.0, abs(limit)) if np.isfinite(limit) else 0.0
