"""The verbs `emit` and `verify`, and their output: a table for people, one object for scripts."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from excitor.design.programs.plan import Plan
from excitor.experiments.emit import CampaignPlans, EmitResult, Request, Verification, emit, verify_folder
from excitor.experiments.verbs.printing import echo_json, running
from excitor.robots.arrays import FloatArray, finite, picked


def run_emit(folder: Path, request: Request, as_json: bool) -> bool:
    """Write programs; False where a target cannot run the design, or a program fails its check."""
    with running() as listen:
        planned, emitted = emit(folder, request, listen)
    if as_json:
        echo_json(emitted_data(planned, emitted))
    else:
        print_emitted(planned, emitted)
    return all(one.good for one in emitted)


def run_verify(folder: Path, as_json: bool) -> bool:
    """Run programs again; False where one fails."""
    with running() as listen:
        _, found = verify_folder(folder, listen)
    good = all(verified.good for verified in found)
    if as_json:
        echo_json({"ok": good, "files": verified_data(found)})
    else:
        print_verified(found)
    return good


def verified_data(found: Sequence[Verification]) -> list[dict[str, Any]]:
    """List programs for scripts."""
    return [entry for verified in found for entry in _entries(verified)]


def _entries(verified: Verification) -> Iterator[dict[str, Any]]:
    for judged, verdict in zip(verified.judged, verified.verdicts, strict=True):
        done = verdict.executed
        bounds, between = (done.conditions, done.position_errors) if done is not None else (None, None)
        yield {
            "file": f"{verified.target.name}/{verdict.program}",
            "target": verified.target.name,
            "timing_class": verified.target.timing,
            **picked(judged.plan, "run dry"),
            "poses": bool(judged.plan.poses),
            "ok": verdict.good and not verified.problems,
            "problems": [*verified.problems, *verdict.problems],
            "max_position_error_rad": _worst(judged.plan, verdict.position_errors, slides=False),
            "max_position_error_m": _worst(judged.plan, verdict.position_errors, slides=True),
            "interpolated_position_error_rad": _worst(judged.plan, between, slides=False),
            "interpolated_position_error_m": _worst(judged.plan, between, slides=True),
            "acceleration_error": finite(done.acceleration_error) if done else None,
            "limits_hold": done.limits_hold if done is not None else None,
            "condition_planned": finite(verdict.condition_planned),
            "condition_executed": finite(bounds[1]) if bounds else None,
            "condition_executed_range": [finite(x) for x in bounds] if bounds else None,
            "assumed": done.assumed if done is not None else "",
        }


def _worst(plan: Plan, errors: FloatArray | None, *, slides: bool) -> float | None:
    """Worst position error of the joints that turn, rad, or of those that slide, m; None where there are none."""
    kind = plan.robot.mechanism.prismatic == slides
    return None if errors is None or not kind.any() else finite(errors[kind].max())


def emitted_data(planned: CampaignPlans, emitted: Sequence[EmitResult]) -> dict[str, Any]:
    """Write the result of `emit` for scripts."""
    return {
        "ok": all(one.good for one in emitted),
        **picked(planned, "go reasons=no_go notes"),
        "targets": [
            {"target": one.name, "folder": str(one.folder) if one.folder else None, **picked(one, "refused note")}
            for one in emitted
        ],
        "files": verified_data([one.verified for one in emitted if one.verified is not None]),
    }


def print_emitted(planned: CampaignPlans, emitted: Sequence[EmitResult]) -> None:
    """Print the written programs, and the result of each check."""
    print_verified([one.verified for one in emitted if one.verified is not None])
    for one in emitted:
        typer.echo(f"wrote {one.folder}" if one.folder else one.refused)
        if one.note:
            typer.echo(f"note: {one.note}")
    for note in planned.notes:
        typer.echo(f"note: {note}")
    if not planned.go:
        typer.echo("note: the design is a no-go, emitted on purpose; its pages, programs and manifests state it")
        for reason in planned.no_go:
            typer.echo(f"  {reason}")
    written = [one.folder for one in emitted if one.folder is not None]
    if written:
        typer.echo(f"\nRead {_page(written)} before anything runs. The dry run comes first.")


def print_verified(found: Sequence[Verification]) -> None:
    """Show a row per program, and every problem in words."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("program", no_wrap=True)
    for head in ("class", "error", "limits", "condition", "executed", ""):
        table.add_column(head)
    for entry in verified_data(found):
        done = entry["condition_executed_range"]
        table.add_row(
            entry["file"],
            entry["timing_class"],
            _shown_errors(entry["max_position_error_rad"], entry["max_position_error_m"]),
            {True: "hold", False: "broken", None: "not checked"}[entry["limits_hold"]],
            "" if entry["condition_planned"] is None else f"{entry['condition_planned']:.3f}",
            "" if not done else f"{done[0]:.3f}" if done[1] - done[0] < 5e-4 else f"{done[0]:.3f} to {done[1]:.3f}",
            "✓" if entry["ok"] else "fails",
        )
    Console().print(table)
    for verified in found:
        for problem in verified.problems:
            typer.echo(f"{verified.target.name}: {problem}")
        for verdict in verified.verdicts:
            for problem in verdict.problems:
                typer.echo(f"{verified.target.name}/{verdict.program}: {problem}")
        assumed = {verdict.executed.assumed for verdict in verified.verdicts if verdict.executed is not None}
        for sentence in sorted(assumed - {""}):
            typer.echo(f"{verified.target.name}: assumed: {sentence}")


def _shown_errors(turning: float | None, sliding: float | None) -> str:
    """Write errors in degrees, and in mm for joints that slide."""
    parts = ((turning, math.degrees(1.0), "°"), (sliding, 1e3, " mm"))
    return ", ".join(f"{factor * error:.1e}{unit}" for error, factor, unit in parts if error is not None)


def _page(folders: Sequence[Path]) -> str:
    """Return the operator's page, or the common name of several."""
    own = [folder for folder in folders if folder.name != "csv"] or list(folders)
    return str(own[0] / "README.md") if len(own) == 1 else f"{own[0].parent}/NAME/README.md"
