"""Figures that studies, benches and the demo report: one form for scripts, one for people."""

import json
from collections.abc import Iterator, Mapping, Sequence
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
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{report.kind} {report.name}", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("figure", "ours", "paper", "target", "unit", ""):
        right = heading in ("ours", "paper")
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", no_wrap=heading not in ("figure", "unit")
        )
    for figure in report.figures:
        verdict = {True: "[green]✓[/]", False: "[red]✗ missed[/]", None: ""}[figure.holds]
        paper = "" if figure.paper is None else f"{figure.paper:.4g}"
        table.add_row(figure.name, f"{figure.ours:.4g}", paper, _target(figure), figure.unit, verdict)
    console = Console()
    console.print(table)
    for line in _outline(report.context, 1):
        console.print(line, style="dim", markup=False, highlight=False)


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = {"at least": "≥ ", "at most": "≤ ", "equal": "= ", "within": "≈ "}.get(figure.bound, "")
    return f"{sign}{figure.target:g}"


def _outline(value: Any, depth: int) -> Iterator[str]:
    """Write nested context as indented lines."""
    indent = "  " * depth
    for key, entry in value.items() if isinstance(value, Mapping) else enumerate(value):
        label = f"{key}: " if isinstance(value, Mapping) else ""
        if isinstance(entry, Mapping) or (isinstance(entry, list) and entry and isinstance(entry[0], str)):
            yield f"{indent}{label}".rstrip()
            yield from _outline(entry, depth + 1)
        else:
            yield f"{indent}{label}{entry}"
