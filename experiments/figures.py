"""Figures that studies, benches and the demo report: one form for scripts, one for people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Bound = Literal["at least", "at most", "equal", "none"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number beside what a paper printed and what is asked for."""

    name: str  # dotted and stable: scripts read it
    ours: float
    unit: str = ""
    target: float | None = None
    bound: Bound = "none"
    paper: float | None = None

    @property
    def holds(self) -> bool | None:
        """Tell whether the target is met; None where there is none."""
        if self.target is None or self.bound == "none":
            return None
        return {
            "at least": self.ours >= self.target,
            "at most": self.ours <= self.target,
            "equal": self.ours == self.target,
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
    figures = [
        {
            "name": figure.name,
            "ours": figure.ours,
            "paper": figure.paper,
            "target": figure.target,
            "unit": figure.unit,
            "holds": figure.holds,
        }
        for figure in report.figures
    ]
    return json.dumps({report.kind: report.name, "figures": figures, "context": dict(report.context)}, indent=2)


def print_table(report: Report) -> None:
    """Print a report as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{report.kind} {report.name}", title_justify="left")
    for heading in ("figure", "ours", "paper", "target", "unit", ""):
        table.add_column(heading, justify="right" if heading in ("ours", "paper") else "left")
    words = {"at least": "≥", "at most": "≤", "equal": "=", "none": ""}
    for figure in report.figures:
        target = "" if figure.target is None else f"{words[figure.bound]} {figure.target:g}"
        verdict = {True: "[green]holds[/]", False: "[red]fails[/]", None: ""}[figure.holds]
        paper = "" if figure.paper is None else f"{figure.paper:g}"
        table.add_row(figure.name, f"{figure.ours:.4g}", paper, target, figure.unit, verdict)
    console = Console()
    console.print(table)
    for key, value in report.context.items():
        console.print(f"  {key}: {value}", style="dim", markup=False)
