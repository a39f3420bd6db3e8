"""What `excitor compare` shows a person: the recommendation, the table, what to believe."""

from collections.abc import Mapping
from typing import Any

from excitor.experiments.comparing.words import error_words, outcome
from excitor.experiments.page.words import NONE, entries, seen, show, table


def print_compared(data: Mapping[str, Any]) -> None:
    """Print a comparison, given as compare.json has it."""
    from rich.console import Console
    from rich.markup import escape

    console, advice = Console(), table(data, "recommendation")
    console.print(_table(data))
    for words, names in _outcomes(data).items():
        console.print(escape(f"{', '.join(names)}: {seen(words)}"), style="dim")
    console.print()
    colour = "red" if advice.get("method") is None else "yellow" if advice.get("careful") else "green"
    console.print(escape(seen(str(advice.get("headline", "")))), style=f"bold {colour}")
    for sentence in entries(advice, "reasons"):
        console.print(escape(seen(str(sentence))))
    substitute = table(data, "runs").get("substitute")
    if substitute:
        console.print(escape(f"{substitute}."), style="yellow")
    for sentence in entries(data, "beliefs"):
        console.print(f"- {escape(seen(str(sentence)))}")


def _table(data: Mapping[str, Any]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    title = "Errors |τ - τ̂| / |τ| on runs that no method was fitted to"
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("", "held out", "training", "parameters", "consistent", "CPU, s"):
        made.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for entry in entries(data, "methods"):
        words = [
            error_words(table(entry, "held_out").get("total")),
            error_words(table(entry, "training").get("total")),
            str(entry.get("n_parameters") or NONE),
            error_words(table(entry, "consistent").get("total")),
            show(entry.get("cpu_s"), 2),
        ]
        made.add_row(str(entry.get("name")), *(escape(seen(word)) for word in words))
    for name, found in table(data, "baselines").items():
        made.add_row(name, error_words(found.get("total")), style="dim")
    if data.get("noise"):
        made.add_row("noise alone", error_words(table(data, "noise").get("total")), style="dim")
    return made


def _outcomes(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Collect what came of methods, those of the same outcome together."""
    told: dict[str, list[str]] = {}
    for entry in entries(data, "methods"):
        if words := outcome(data, entry):
            told.setdefault(words, []).append(str(entry.get("name")))
    return told
