"""Comparison of our numbers with a paper's tables: equal to every printed digit, or not.

* Figures of studies: drawn without a screen, saved, and closed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
                found.append(
                    Cell(
                        table=number,
                        row=row + 1,
                        column=column,
                        printed=text,
                        ours=ours[number][column][row],
                        other=None if alternative is None else alternative[row],
                        known_contradiction=(number, column, row + 1) in contradictions,
                    )
                )
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


def pyplot() -> Any:
    """Import matplotlib's plotting, for files alone."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, path: Path) -> Path:
    """Write a figure, and close it."""
    figure.savefig(path, dpi=120)
    pyplot().close(figure)
    return path
