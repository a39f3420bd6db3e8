"""Comparison of our numbers with a paper's tables: equal to every printed digit, or not.

* Printed values, and equations in the parameters that a paper declares.
* Figures of studies: drawn without a screen, saved, and closed.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np

from excitor.identify.regression import Regression, combine
from excitor.identify.signals import decimate
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.robot import Robot

Verdict = Literal["equal", "unequal", "contradicted"]
Value = float | None  # None: nothing stands there, printed as "-"
Columns = Mapping[str, Mapping[str, Sequence[Value]]]  # table -> column -> rows
LEFT_OUT = "-"


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed number beside ours; `other` is ours by the procedure that a contradicting cell belongs to."""

    table: str
    row: int  # from 1
    column: str
    printed: str
    ours: Value
    other: Value = None
    known_contradiction: bool = False

    @property
    def verdict(self) -> Verdict:
        """Compare to the printed digits; a known contradiction must agree with the other procedure."""
        if rounds_to(self.ours, self.printed):
            return "equal"
        if self.known_contradiction and rounds_to(self.other, self.printed):
            return "contradicted"
        return "unequal"


def rounds_to(value: Value, printed: str) -> bool:
    """Return True if a value, rounded to the printed number of decimals, equals the printed one."""
    return as_printed(value, printed) == printed


def as_printed(value: Value, printed: str) -> str:
    """Write a value with as many decimals as a printed number has."""
    if value is None:
        return LEFT_OUT
    return f"{value:.{len(printed.partition('.')[2])}f}"


def cells(printed: Mapping[str, Any], ours: Columns, other: Columns) -> list[Cell]:
    """List every printed cell with our value; `printed` has `table` and `contradiction` lists as the TOML files do."""
    contradictions = {
        (entry["number"], entry["column"], row) for entry in printed.get("contradiction", []) for row in entry["rows"]
    }
    found = []
    for table in printed["table"]:
        number = table["number"]
        for row, texts in enumerate(table["cells"]):
            for column, text in zip(table["columns"], texts, strict=True):
                alternative = other.get(number, {}).get(column)
                place, known = (number, row + 1, column), (number, column, row + 1) in contradictions
                another = None if alternative is None else alternative[row]
                found.append(Cell(*place, text, ours[number][column][row], another, known))
    return found


def count(found: Iterable[Cell], verdict: Verdict | None = None) -> int:
    """Count cells, all or those of one verdict."""
    return sum(verdict is None or cell.verdict == verdict for cell in found)


def summary(found: Sequence[Cell]) -> dict[str, str]:
    """Describe, for each table, how many cells are equal, and which are not."""
    counts = {}
    for table in dict.fromkeys(cell.table for cell in found):
        own = [cell for cell in found if cell.table == table]
        sentence = f"{count(own, 'equal')} of {len(own)} equal"
        others = [cell for cell in own if cell.verdict != "equal"]
        if others:
            sentence += "; " + "; ".join(
                f"{cell.verdict}: {cell.column}, row {cell.row}, ours {as_printed(cell.ours, cell.printed)}"
                f", printed {cell.printed}"
                for cell in others
            )
        counts[table] = sentence
    return counts


def as_csv(found: Iterable[Cell]) -> str:
    """Write all cells side by side."""
    lines = ["table,row,column,printed,ours,ours_by_the_other_procedure,verdict"]
    for cell in found:
        ours, other = ("" if value is None else f"{value:.8g}" for value in (cell.ours, cell.other))
        lines.append(f"{cell.table},{cell.row},{cell.column},{cell.printed},{ours},{other},{cell.verdict}")
    return "\n".join(lines) + "\n"


def printed_values(study: str) -> dict[str, Any]:
    """Read the values that a study's paper prints."""
    return tomllib.loads((resources.files("excitor.experiments.studies.printed") / f"{study}.toml").read_text("utf-8"))


def declared_names(robot: Robot) -> tuple[str, ...]:
    """Name the parameters that a robot's paper declares."""
    assert robot.declared_base is not None
    return robot.declared_base.names


def declared(robot: Robot, regression: Regression, units: Sequence[str] | None = None) -> Regression:
    """Write equations of base parameters in the parameters that a robot's paper declares."""
    names = declared_names(robot)
    T = declared_transform(robot, base_parameters(robot))
    return combine(regression, T, names, [""] * len(names) if units is None else units)


def declared_chi(robot: Robot, values: Mapping[str, float]) -> FloatArray:
    """Find standard parameters, (n_params,), of declared ones; those without a value are 0."""
    base = base_parameters(robot)
    theta = np.array([values.get(name, 0.0) for name in declared_names(robot)])
    return base.standard(np.linalg.solve(declared_transform(robot, base), theta))


def thinned(x: FloatArray, factors: tuple[int, ...]) -> FloatArray:
    """Decimate rows, whatever the shape of each, in stages."""
    flat = decimate(x.reshape(len(x), -1), factors)
    return flat.reshape(len(flat), *x.shape[1:])


def panels(*shape: int, xlabel: str = "", **settings: Any) -> tuple[Any, Any]:
    """Make a figure of rows and columns of axes; `xlabel` stands below the last row."""
    figure, axes = pyplot().subplots(*shape, layout="constrained", **settings)
    for axis in np.ravel(axes)[-(shape[1] if len(shape) > 1 else 1) :] if xlabel else ():
        axis.set_xlabel(xlabel)
    return figure, axes


def pyplot() -> Any:
    """Import matplotlib's plotting, for files alone."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, path: Path, title: str = "") -> Path:
    """Write a figure under a title, and close it."""
    if title:
        figure.suptitle(title)
    figure.savefig(path, dpi=120)
    pyplot().close(figure)
    return path
