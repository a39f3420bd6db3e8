"""The verb `compare`: all methods on one campaign's data, into compare.html and compare.json."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from excitor.experiments.campaign import FILE
from excitor.experiments.compare import error_words, outcome
from excitor.experiments.report.html import NONE, entries, seen, show, subtable
from excitor.experiments.stages import compare_stage
from excitor.experiments.verbs.printing import COMPACT, echo_json, echo_progress, table


def run_compare(folder: Path, as_json: bool, methods: Sequence[str] = ()) -> None:
    """Compare methods, by default all, and write the results."""
    compared, data, page = compare_stage(folder, methods, echo_progress)
    campaign = compared.prepared.examined.campaign
    if as_json:
        echo_json(data)
        return
    print_compared(data)
    typer.echo(f"\nLook at {page}")
    taken = compared.recommendation.method
    if taken is not None and taken != campaign.content.identify.method:
        once = shlex.join(["excitor", "identify", str(folder), "--method", taken])
        typer.echo(f'To take this model: method = "{taken}" under [identify] in {FILE}; or, once, {once}')


def print_compared(data: Mapping[str, Any]) -> None:
    """Print a comparison, given as compare.json has it."""
    console, advice = Console(), subtable(data, "recommendation")
    console.print(_table(data))
    outcomes: dict[str, list[str]] = {}
    for entry in entries(data, "methods"):
        outcomes.setdefault(outcome(data, entry), []).append(str(entry.get("name")))
    outcomes.pop("", None)
    for words, names in outcomes.items():
        console.print(escape(f"{', '.join(names)}: {seen(words)}"), style="dim")
    console.print()
    colour = "red" if advice.get("method") is None else "yellow" if advice.get("careful") else "green"
    console.print(escape(seen(str(advice.get("headline", "")))), style=f"bold {colour}")
    for sentence in entries(advice, "reasons"):
        console.print(escape(seen(str(sentence))))
    substitute = subtable(data, "runs").get("substitute")
    if substitute:
        console.print(escape(f"{substitute}."), style="yellow")
    for sentence in entries(data, "beliefs"):
        console.print(f"- {escape(seen(str(sentence)))}")


def _table(data: Mapping[str, Any]) -> Table:
    title = "Errors |τ - τ̂| / |τ| on runs that no method was fitted to"
    headings = ("", "held out", "training", "parameters", "consistent", "CPU, s")
    made = table(title, headings, left=("",), no_wrap=True, **COMPACT)
    for entry in entries(data, "methods"):
        words = [
            error_words(subtable(entry, "held_out").get("total")),
            error_words(subtable(entry, "training").get("total")),
            str(entry.get("n_parameters") or NONE),
            error_words(subtable(entry, "consistent").get("total")),
            show(entry.get("cpu_s"), 2),
        ]
        made.add_row(str(entry.get("name")), *(escape(seen(word)) for word in words))
    for name, found in subtable(data, "baselines").items():
        made.add_row(name, error_words(found.get("total")), style="dim")
    if data.get("noise"):
        made.add_row("noise alone", error_words(subtable(data, "noise").get("total")), style="dim")
    return made
