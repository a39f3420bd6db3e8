"""The verb `gains`: what torque each drive makes of its signal, or why that is refused."""

from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape

from excitor.experiments.gains import REACH, IdentifiedGains, scale_line
from excitor.experiments.stages import gains_stage
from excitor.experiments.verbs.printing import echo_json, echo_progress, table


def run_gains(folder: Path, as_json: bool) -> bool:
    """Identify the gains and write them; return whether any is answered."""
    result, written = gains_stage(folder, echo_progress)
    if as_json:
        echo_json(result.to_json())
    else:
        print_gains(result)
        typer.echo(f"\nLook at {written[-1]}")
    return bool(result.answered)


def print_gains(result: IdentifiedGains) -> None:
    """Print the answer, then a row a drive, then what the answer rests on."""
    console, data = Console(), result.to_json()
    console.print(f"{result.headline}.", style="bold green" if result.answered else "bold red", highlight=False)
    rows = []
    for one in data["drives"]:
        believed, found = (", ".join(f"{x:.4g}" for x in one[key] or ()) for key in ("believed", "values"))
        spread = "" if one["factor"] is None else f"{one['factor']:.4f} ± {REACH * one['relative_sigma']:.4f}"
        plain = "" if one["least_squares"] is None else f"{one['least_squares']:.4f}"
        rows.append((escape(one["drive"]), believed, found or "refused", spread, plain, escape(one["reason"])))
    headings = ("drive", "believed", "identified", "factor, 95 %", "least squares", "reason")
    console.print(table(f"Gains: torque over {data['signals']}", headings, rows, left=("drive", "reason")))
    gap = f"Singular-value gap {data['gap']:.3g}, at least {data['least_gap']:g} is required."
    removed = f" Left out: {', '.join(data['removed'])}." if data["removed"] else ""
    console.print(gap + removed, style="dim", highlight=False)
    if line := scale_line(result):
        console.print(escape(line))
