"""Logs of our RSI server: reference, measured axes and motor currents by the controller's clock, in ms."""

from pathlib import Path

from excitor.experiments.virtual.writers.format import Column, Format, Shown, named, write_rows

FORMATS = (Format("rsi", "the RSI server", "client_csv", "actual_{axis}", {"current": "current_{axis}"}),)


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `time_s,mark,period,reference_A1,...`."""
    head = ["time_s", "mark", "period"]
    head += [cell for kind in ("reference", "actual", "current") for cell in named(kind + "_{axis}", shown.axes)]
    columns: list[Column] = [
        ("%.3f", shown.t),
        ("%.0f", shown.mark),
        ("%.0f", shown.period),
        ("%.9f", shown.reference),
        ("%.6f", shown.position),
        ("%.6f", shown.effort),
    ]
    return [write_rows(folder / f"{name}.csv", head, columns)]
