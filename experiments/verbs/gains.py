"""The verb `gains`: what torque each drive makes of its signal, or why that is refused."""

from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape

from excitor.experiments.gains import scale_line
from excitor.experiments.stages import gains_stage
from excitor.experiments.verbs.printing import echo_json, echo_progress, table


def run_gains(folder: Path, as_json: bool) -> bool:
    """Identify the gains and write them, print the answer first; return whether any is answered."""
    result, written = gains_stage(folder, echo_progress)
    data, console = result.to_json(), Console()
    if as_json:
        echo_json(data)
        return bool(result.answered)
    console.print(f"{result.headline}.", style="bold green" if result.answered else "bold red", highlight=False)
    rows = []
    for one in data["drives"]:
        believed, found = (", ".join(f"{x:.4g}" for x in one[key] or ()) for key in ("believed", "values"))
        spread = " … ".join(f"{x:.4f}" for x in one["interval"] or ())
        rows.append((escape(one["drive"]), believed, found or "refused", spread, escape(one["reason"])))
    headings = ("drive", "believed", "identified", "factor, 95 %", "reason")
    console.print(table(f"Gains: torque over {data['signals']}", headings, rows, left=("drive", "reason")))
    if line := scale_line(result):
        console.print(escape(line))
    typer.echo(f"\nLook at {written[-1]}")
    return bool(result.answered)
