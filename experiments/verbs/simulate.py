"""The verb `simulate`: simulate logs, print what was written and what was refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from excitor.experiments.simulate import TRUTH, SimulationOptions, SimulationResult, simulate
from excitor.experiments.verbs.printing import echo_json, running


def run_simulate(
    folder: Path,
    as_json: bool,
    *,
    targets: Sequence[str] = (),
    fault: Sequence[str] = (),
    log_format: str | None = None,
    **given: Any,
) -> bool:
    """Simulate with options as given; False where a target requested by name, or every one, cannot be logged."""
    options = SimulationOptions(faults=tuple(fault), format=log_format, **given)
    with running() as listen:
        made = simulate(folder, targets, options, listen)
    good = all(one.folder is not None for one in made if one.target in targets) and any(one.folder for one in made)
    if as_json:
        echo_json(simulated_data(folder, made, good))
    else:
        print_simulated(folder, made)
    return good


def simulated_data(folder: Path, made: Sequence[SimulationResult], good: bool) -> dict[str, Any]:
    """Write the result for scripts."""
    written = [one for one in made if one.folder is not None]
    return {
        "ok": good,
        "truth": str(folder / TRUTH) if written else None,
        "targets": [
            {
                "target": one.target,
                "folder": str(one.folder) if one.folder else None,
                "refused": one.refused,
                **{key: one.data.get(key) for key in ("log_format", "log", "seed", "engine")},
                "faults": one.data.get("faults", []),
                "logs": [
                    {key: run[key] for key in ("program", "run", "role", "dry", "rows")}
                    | {"log": str(one.folder / run["log"]) if one.folder else ""}
                    for run in one.data.get("programs", [])
                ],
            }
            for one in made
        ],
    }


def print_simulated(folder: Path, made: Sequence[SimulationResult]) -> None:
    """Print what was written, and the injected faults."""
    for one in made:
        if one.folder is None:
            typer.echo(one.refused)
            continue
        logs = one.data["programs"]
        typer.echo(f"wrote {one.folder}: {len(logs)} logs, {sum(run['rows'] for run in logs)} rows recorded")
    written = [one for one in made if one.folder is not None]
    for fault in written[0].data["faults"] if written else []:
        where = f" ({', '.join(fault['joints'])})" if fault["joints"] else ""
        typer.echo(f"fault: {fault['sentence']}{where}")
    if written:
        typer.echo(f"The truth is in {folder / TRUTH}; identification does not read it.")
