"""Figures that studies, benches and the demo report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Bound = Literal["at least", "at most", "equal", "within", "none"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number, the printed one, and its target."""

    name: str  # dotted and stable: scripts read it
    ours: float
    unit: str = ""
    target: float | None = None
    bound: Bound = "none"
    paper: float | None = None
    tolerance: float = 0.0  # of "within": how far from the target is near enough

    @property
    def holds(self) -> bool | None:
        """True if the target is met; None where there is none."""
        if self.target is None or self.bound == "none":
            return None
        return {
            "at least": self.ours >= self.target,
            "at most": self.ours <= self.target,
            "equal": self.ours == self.target,
            "within": abs(self.ours - self.target) <= self.tolerance,
        }[self.bound]


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one study or bench."""

    kind: Literal["study", "bench", "demo"]
    name: str
    figures: Sequence[Figure]
    context: Mapping[str, Any]


def to_json(report: Report) -> str:
    """Write a report as one JSON object."""
    keys = ("name", "ours", "paper", "target", "unit", "holds")
    figures = [{key: getattr(figure, key) for key in keys} for figure in report.figures]
    return json.dumps({report.kind: report.name, "figures": figures, "context": dict(report.context)}, indent=2)
