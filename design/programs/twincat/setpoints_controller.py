"""Run a TwinCAT program that feeds external set points: cycle by cycle, with axes that follow exactly."""

from collections.abc import Callable, Mapping

import numpy as np

from excitor.design.programs.plan import StretchName
from excitor.design.programs.streams import STILL
from excitor.design.programs.target import Execution, Machine, Mishaps, ProgramError, Stretch
from excitor.design.programs.twincat.plc import IDLE, Cell, stretch_of

HOMING = 2.5  # deg/s or mm/s to home itself, from within half a degree or a millimetre


def execute(
    files: Mapping[str, str], name: str, machine: Machine, operator: Callable[[Cell], None] | None = None
) -> Execution:
    """Run the program called `name`; `operator` may change the cell before each cycle."""
    cell = Cell(_own(files, name), name, machine)
    notes = _Notes(cell)
    mishaps = Mishaps(machine.events)
    while not cell.over:
        for event in mishaps.due(notes.now or "", len(notes.rows.get(notes.now or "main", [])) * cell.time_step):
            if event.name == "run":
                cell.set("bRun", event.value == 0.0)
            elif event.name == "drive":
                cell.axes[-1].failed = event.value > 0.0
            elif event.name == "mode":
                cell.unpowered = event.value > 0.0
        if operator is not None:
            operator(cell)
        cell.one_cycle()
        notes.take()
        cell.pass_cycle()
    if not cell.halted and any(axis.external for axis in cell.axes):
        raise ProgramError(cell.file, None, "the program ends while axes still take external set points")
    return notes.execution()


def _own(files: Mapping[str, str], name: str) -> dict[str, str]:
    """Select the files of one program."""
    if f"{name}.st" not in files:
        raise ProgramError(f"{name}.st", None, "the file is missing")
    return {f"{name}.st": files[f"{name}.st"]}


class _Notes:
    """Records set points by motion segment."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.rows: dict[StretchName, list[list[list[float]]]] = {}
        self.marks: list[tuple[float, int]] = []
        self.now: StretchName | None = None
        self.mark, self.count = 0, 0
        self.moved = self.ended = 0  # cycles: of the last change, of the last stretch's end
        self.last: list[list[float]] = []
        self.fed = [axis.to_nc for axis in cell.axes]

    def take(self) -> None:
        """Record the set points of a cycle."""
        cell = self.cell
        row = [fed[:3] for fed in self.fed]
        mark, count = cell.get("nMark"), cell.get("nMarks")
        if mark != self.mark or row != self.last:
            self.moved = cell.cycle
        elif (cell.cycle - self.moved) * cell.time_step > IDLE:
            raise ProgramError(
                cell.file, None, f"the program stands still for {IDLE:g} s; it waits for what never comes"
            )
        self.last = row
        stretch = self.now if mark == self.mark else stretch_of(mark)
        if stretch != self.now and stretch is not None:
            still = (cell.cycle - self.ended) * cell.time_step
            if self.rows and not self.now and still < STILL - 1e-6:
                raise ProgramError(cell.file, None, f"stands still for {still:.3g} s before {stretch!r}")
            if stretch in self.rows:
                raise ProgramError(cell.file, None, f"the segment {stretch!r} is executed twice")
            if not all(axis.external for axis in cell.axes):
                raise ProgramError(cell.file, None, f"{stretch!r} begins before the axes take external set points")
            self.rows[stretch] = []
            cell.events.append(stretch)
        if not self.rows and max(abs(fed[1]) for fed in row) > HOMING:
            raise ProgramError(cell.file, None, f"goes home at more than {HOMING:g} deg/s or mm/s")
        self.ended = cell.cycle if self.now is not None and stretch is None else self.ended
        self.now = stretch
        if stretch is not None:
            if stretch == "main" and ((mark, count) != (self.mark, self.count) or not self.rows["main"]):
                self.marks.append((len(self.rows["main"]) * cell.time_step, mark))
            self.rows[stretch].append(row)
        self.mark, self.count = mark, count

    def execution(self) -> Execution:
        """Return the execution."""
        stretches = []
        for name, rows in self.rows.items():
            table = np.array(rows, dtype=float)
            t = np.arange(len(rows)) * self.cell.time_step
            p, v, a = (np.ascontiguousarray(table[:, :, k]) for k in range(3))
            stretches.append(Stretch(name, "commands", t, p, v, a))
        return Execution(tuple(stretches), tuple(self.marks), tuple(self.cell.events), self.cell.halted)
