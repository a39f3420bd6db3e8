"""Scope exports: tabs, blocks of headings, a time base for each group of channels, and a decimal comma at times."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from excitor.experiments.virtual.writers.format import Format, Shown, named
from excitor.robots.arrays import FloatArray, IntArray

_POSITION, _TORQUE = "MAIN.stAxes[{k}].NcToPlc.ActPos", "MAIN.aTorque[{k}]"
FORMATS = (
    Format(
        "twincat_scope", "the Scope", "twincat_scope", _POSITION, {"motor torque": _TORQUE},
        whole=False, lead=1.0, per_mille=True,
    ),
)  # fmt: skip
# 1 January 2000: a fixed day keeps files of one seed the same.
_DAY, _TICKS = ("Samstag, 1. Januar 2000", "00:00:00.000"), 125_911_584_000_000_000
_RARER = 4  # set positions are recorded every so many rows


@dataclass(frozen=True, eq=False)
class _Group:
    """Channels on one time base."""

    t: FloatArray  # (n,), s
    names: Sequence[str]
    units: Sequence[str]
    type: str
    values: FloatArray | IntArray  # (n, n_channels)
    form: str


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write an export; seeds that are odd have a decimal comma."""
    groups = _groups(shown)
    length = len(shown.t)
    head = [
        f"Name\t{name}",
        f"File\t{name}.svdx",
        "\t".join(("Starttime of export", str(_TICKS), *_DAY)),
        "\t".join(("Endtime of export", str(_TICKS + round(1e7 * float(shown.t[-1]))), *_DAY)),
        "",
        "",
        *(_titles(groups, title) for title in ("Name", "SymbolComment", "Data-Type", "SampleTime[ms]", "Unit")),
        "",
    ]
    blocks = [_cells(group, length) for group in groups]
    body = ("\t".join(cells) for cells in zip(*blocks, strict=True))
    comma = bool(shown.seed % 2)
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(line + "\n" for line in head)
        file.writelines((line.replace(".", ",") if comma else line) + "\n" for line in body)
        file.write("EOF\n")
    return [path]


def _groups(shown: Shown) -> list[_Group]:
    turning = ["mm" if slides else "deg" for slides in shown.robot.mechanism.prismatic]
    rare = slice(None, None, _RARER)
    n = len(shown.axes)
    set_position = named(_POSITION.replace("Act", "Set"), shown.axes)
    return [
        _Group(shown.t, named(_POSITION, shown.axes), turning, "REAL64", shown.position, "%.9f"),
        _Group(shown.t, named(_TORQUE, shown.axes), ["(None)"] * n, "INT16", np.round(shown.effort), "%.0f"),
        _Group(shown.t, ["MAIN.fbRun.nMark"], ["(None)"], "INT32", shown.mark[:, None], "%.0f"),
        _Group(shown.t[rare], set_position, turning, "REAL64", shown.reference[rare], "%.9f"),
    ]


def _titles(groups: Sequence[_Group], title: str) -> str:
    """Write a row of headings: its title over every time base, then what it says of each channel."""
    cells: list[str] = []
    for group in groups:
        step = f"{1e3 * float(np.median(np.diff(group.t))):.3g}"
        said = {
            "Name": group.names,
            "Data-Type": [group.type] * len(group.names),
            "SampleTime[ms]": [step] * len(group.names),
            "Unit": [unit if unit.startswith("(") else f"({unit})" for unit in group.units],
        }
        cells += [title, *said.get(title, [""] * len(group.names))]
    return "\t".join(cells)


def _cells(group: _Group, length: int) -> list[str]:
    """Write a group's part of every row; where it has ended, blanks."""
    line = "\t".join(["%.6f", *[group.form] * len(group.names)])
    rows = np.column_stack([1e3 * group.t, group.values]).tolist()
    blank = "\t".join([" "] * (1 + len(group.names)))
    return [line % tuple(row) for row in rows] + [blank] * (length - len(rows))
