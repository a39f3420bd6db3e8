"""Tables of a recorder of somebody's own: time, positions, and currents, or else torques, of the motors."""

from pathlib import Path

from excitor.experiments.virtual.writers.format import Column, Format, Shown, named, write_rows

FORMATS = (
    Format(
        "csv", "a recorder of your own", "csv", "q_{k}", {"current": "current_{k}", "motor torque": "tau_{k}"},
        time="t",
    ),
)  # fmt: skip


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write `t,mark,q_1,...,tau_1,...`."""
    assert shown.effort_kind is not None
    effort = shown.format.efforts[shown.effort_kind]
    head = ["t", "mark", *named("q_{k}", shown.axes), *named(effort, shown.axes)]
    columns: list[Column] = [
        ("%.9f", shown.t),
        ("%.0f", shown.mark),
        ("%.12g", shown.position),
        ("%.12g", shown.effort),
    ]
    return [write_rows(folder / f"{name}.csv", head, columns)]
