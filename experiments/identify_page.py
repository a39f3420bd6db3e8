"""What `excitor identify` shows a person: how well, how sure, and what to be careful about."""

from typing import Any

from excitor.experiments.identification import Identified


def print_identified(result: Identified) -> None:
    """Print errors beside the baselines, then the parameters with their intervals."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    console.print(_errors_table(result))
    console.print(_parameter_table(result))
    widest = max(result.intervals.inflation)
    console.print(
        f"Intervals are 95 %, as slow as the errors are: up to {widest:.1f} times those of white residuals.",
        style="dim",
    )
    for finding in result.findings:
        console.print(
            f"{finding.level}: {escape(str(finding))}", style="yellow" if finding.level == "doubtful" else "dim"
        )
    if result.smallest_inertia <= 0.0:
        console.print(
            f"The estimated mass matrix is not positive definite (smallest eigenvalue {result.smallest_inertia:.3g}): "
            "good for the torques of motions like these, not for simulation. The consistent model is.",
            style="yellow",
        )
    if result.consistent is None:
        console.print(f"No physically consistent model: {escape(str(result.refusal))}", style="yellow")
    else:
        console.print(
            f"Physically consistent model ({result.consistent.solver}, {result.consistent.status}); it costs "
            f"{100 * result.consistent.loss:.2f} % of residual."
        )
    if result.held_out is None:
        console.print('No run has role = "validate": nothing here says how well the model predicts.', style="yellow")


def _errors_table(result: Identified) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Torque errors |τ - τ̂| / |τ|", title_justify="left")
    for heading in ("", *result.training.joints, "all"):
        table.add_column(escape(heading), justify="right" if heading else "left")
    for validation in (result.training, result.held_out):
        if validation is None:
            continue
        rows = {validation.label: validation.model}
        if not validation.training:
            rows |= {f"  {name}": errors for name, errors in validation.baselines.items()}
        for name, errors in rows.items():
            table.add_row(name, *(f"{x:.4f}" for x in errors.relative), f"{errors.relative_total:.4f}")
    return table


def _parameter_table(result: Identified) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{len(result.estimate.names)} parameters", title_justify="left")
    for heading in ("name", "value", "95 % interval", "unit"):
        table.add_column(heading, justify="left" if heading in ("name", "unit") else "right")
    intervals = result.intervals
    for name, unit, value, low, high in zip(
        intervals.names, intervals.units, intervals.values, intervals.low, intervals.high, strict=True
    ):
        table.add_row(escape(name), f"{value:.5g}", f"{low:.4g} … {high:.4g}", unit)
    return table
