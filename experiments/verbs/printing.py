"""Output that verbs share: JSON objects, tables, progress, and the figures of studies and benches."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from excitor.experiments.figures import Figure, Report

COMPACT: Mapping[str, Any] = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0)}  # a table without vertical lines


def echo_json(data: Any) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def echo_progress(sentence: str) -> None:
    """Print a sentence on stderr."""
    typer.echo(sentence, err=True)


def table(
    title: str,
    headings: Iterable[str],
    rows: Iterable[Sequence[Any]] = (),
    *,
    left: Collection[str],
    no_wrap: bool = False,
    **style: Any,
) -> Table:
    """Make a table; columns that are not listed as `left` are aligned to the right."""
    made = Table(title=title, title_justify="left", **style)
    for heading in headings:
        made.add_column(heading, justify="left" if heading in left else "right", no_wrap=no_wrap)
    for row in rows:
        made.add_row(*row)
    return made


@contextmanager
def running() -> Iterator[Callable[[str], None]]:
    """Show on stderr what runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda sentence: status.update(sentence)


def print_figures(report: Report) -> None:
    """Print a report as a table."""
    made = Table(title=f"{report.kind} {report.name}", title_justify="left", **COMPACT)
    for heading in ("figure", "ours", "paper", "target", "unit", ""):
        right, whole = heading in ("ours", "paper"), heading not in ("figure", "unit")
        made.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=whole)
    for figure in report.figures:
        verdict = {True: "[green]✓[/]", False: "[red]✗ missed[/]", None: ""}[figure.holds]
        verdict = f"{figure.verdict} {verdict}" if report.kind == "study" else verdict
        paper = "" if figure.paper is None else f"{figure.paper:.4g}"
        made.add_row(figure.name, f"{figure.ours:.4g}", paper, _target(figure), figure.unit, verdict)
    console = Console()
    console.print(made)
    for reason, names in _reasons(report).items():
        console.print(f"{reason}: {', '.join(names)}", markup=False, highlight=False)
    for line in _outline(report.context, 1):
        console.print(line, style="dim", markup=False, highlight=False)


def _reasons(report: Report) -> dict[str, list[str]]:
    """Collect the reasons of a study's verdicts, each with its figures; what is reproduced needs none."""
    found: dict[str, list[str]] = {}
    for figure in report.figures if report.kind == "study" else ():
        if figure.verdict != "reproduced":
            found.setdefault(f"{figure.verdict}, {figure.reason}", []).append(figure.name)
    return found


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
