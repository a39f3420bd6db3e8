"""Figures that studies, benches and the demo report.

A study judges each figure against the print: reproduced, not reproduced, or it cannot be, where no number or no
recording is published. A bound without a printed number only guards against regressions, and counts for nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Bound = Literal["at least", "at most", "equal", "within", "none"]
Verdict = Literal["reproduced", "not reproduced", "cannot be", "guard"]
REASONS: Mapping[Verdict, str] = {  # where a figure has no reason of its own
    "reproduced": "within the tolerance of the printed number",
    "not reproduced": "no reason is known",
    "cannot be": "no such number is printed",
    "guard": "no such number is printed; the bound guards against regressions",
}


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
    spread: float = 0.0  # of the printed number: half of its last digit, or the spread that the paper states
    reason: str = ""  # of the verdict

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

    @property
    def verdict(self) -> Verdict:
        """Compare with the printed number: |ours - paper| ≤ spread."""
        if self.paper is not None:
            near = abs(self.ours - self.paper) <= self.spread + 1e-9 * abs(self.paper)
            return "reproduced" if near else "not reproduced"
        return "cannot be" if self.holds is None else "guard"


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one study or bench."""

    kind: Literal["study", "bench", "demo"]
    name: str
    figures: Sequence[Figure]
    context: Mapping[str, Any]


def to_json(report: Report) -> str:
    """Write a report as one JSON object."""
    keys = ["name", "ours", "paper", "target", "unit", "holds"]
    keys += ["verdict", "spread", "reason"] if report.kind == "study" else []
    figures = [{key: getattr(figure, key) for key in keys} for figure in report.figures]
    return json.dumps({report.kind: report.name, "figures": figures, "context": dict(report.context)}, indent=2)
