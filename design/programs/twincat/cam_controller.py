"""Run a TwinCAT program that couples axes to cam tables over a virtual master, and list the points that it passes."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from excitor.design.programs.plan import StretchName
from excitor.design.programs.target import Execution, Machine, ProgramError, Stretch
from excitor.design.programs.twincat.plc import IDLE, Axis, Cam, Camming, Cell, Controller, Coupling, stretch_of
from excitor.design.programs.twincat.run import Library
from excitor.robots.arrays import FloatArray

NEAR = 1e-6  # s on the master: the same point
ROW = re.compile(r"(\d+)" + r";(-?\d+\.\d+)" * 4)


def execute(
    files: Mapping[str, str], name: str, machine: Machine, operator: Callable[[Cell], None] | None = None
) -> Execution:
    """Run the program called `name`; `operator` may meddle with the cell before each cycle."""
    own = {file: files[file] for file in (f"{name}.st", f"{name}_points.st") if file in files}
    if len(own) < 2:
        raise ProgramError(f"{name}.st", None, f"{name}.st or {name}_points.st is missing")
    made: list[Camming] = []

    def library(controller: Controller) -> Library:
        made.append(Camming(controller))
        return made[0].library()

    cell = Cell(own, name, machine, library)
    notes = _Notes(cell, _master(cell))
    while not cell.over:
        if operator is not None:
            operator(cell)
        cell.one_cycle()
        notes.take()
        cell.pass_cycle()
    if made[0].cams:
        _compare_csv(files, name, made[0].cams, len(cell.axes))
    return notes.execution(made[0])


def _master(cell: Cell) -> Axis:
    robot = {id(axis) for axis in cell.axes}
    others = [axis for axis in cell.controller.axes if id(axis) not in robot]
    if len(others) != 1:
        raise ProgramError(
            cell.file, None, f"the program declares {len(others)} axes besides the robot's, expected one"
        )
    return others[0]


@dataclass
class _Visit:
    """A stretch: where the master was last before it, and at its first and last cycle and the one after it."""

    name: StretchName
    before: float
    begin: float
    last: float
    end: float
    marks: list[tuple[float, float, int]] = field(default_factory=list)  # seen between two positions


class _Notes:
    """Where the master was when marks changed."""

    def __init__(self, cell: Cell, master: Axis) -> None:
        self.cell, self.master = cell, master
        self.visits: list[_Visit] = []
        self.before = master.position
        self.mark, self.count, self.moved = 0, 0, 0
        self.seen: tuple[object, ...] = ()
        self.inside: _Visit | None = None

    def take(self) -> None:
        """Note a cycle: marks follow from where the master was seen."""
        cell, x = self.cell, self.master.position
        mark, count = cell.get("nMark"), cell.get("nMarks")
        seen = (x, mark, count, len(cell.events), tuple(axis.position for axis in cell.axes))
        if seen != self.seen:
            self.moved, self.seen = cell.cycle, seen
        elif (cell.cycle - self.moved) * cell.time_step > IDLE:
            raise ProgramError(
                cell.file, None, f"the program stands still for {IDLE:g} s; it waits for what never comes"
            )
        name = stretch_of(mark)
        if self.inside is not None and name != self.inside.name:
            self.inside.last, self.inside.end = self.before, x
            self.inside = None
        if self.inside is None and name is not None:
            self._enter(name, x)
        if self.inside is not None and abs(self.master.velocity - 1.0) > 1e-9:
            speed = self.master.velocity
            raise ProgramError(cell.file, None, f"the master passes {speed:g} s in a second during {name!r}")
        if self.inside is not None and ((mark, count) != (self.mark, self.count) or not self.inside.marks):
            self.inside.marks.append((self.before, x, mark))
        self.mark, self.count, self.before = mark, count, x

    def _enter(self, name: StretchName, x: float) -> None:
        if any(other.name == name for other in self.visits):
            raise ProgramError(self.cell.file, None, f"the stretch {name!r} is made twice")
        self.inside = _Visit(name, self.before, x, x, x)
        self.visits.append(self.inside)
        self.cell.events.append(name)

    def execution(self, camming: Camming) -> Execution:
        """List the points of all stretches."""
        cell, stretches = self.cell, []
        marks: list[tuple[float, int]] = []
        if self.inside is not None:
            self.inside.end = self.before
        for visit in self.visits:
            rows = _points(cell, camming, visit)
            t = rows[0][:, 0]
            table = np.stack([x[:, 1:] for x in rows], axis=1)
            p, v, a = (np.ascontiguousarray(table[:, :, k]) for k in range(3))
            stretches.append(Stretch(visit.name, "points", t - t[0], p, v, a, "quintic"))
            if visit.name == "main":
                marks = [(_snapped(low, high, t) - float(t[0]), mark) for low, high, mark in visit.marks]
        return Execution(tuple(stretches), tuple(marks), tuple(cell.events), cell.halted)


def _snapped(low: float, high: float, knots: FloatArray) -> float:
    """Find the first knot between where the master was and where it is; it is there itself if there is none."""
    k = int(np.searchsorted(knots, low + NEAR))
    return float(knots[k]) if k < len(knots) and knots[k] <= high + NEAR else high


def _points(cell: Cell, camming: Camming, visit: _Visit) -> list[FloatArray]:
    """List (master, position, velocity, acceleration) of every axis at the points that the master passes."""
    found: list[FloatArray] = []
    for axis in cell.axes:
        slave = camming.slaves.get(id(axis))
        past = slave.past if slave is not None else []
        rows = [row for k, coupling in enumerate(past) for row in _passed(coupling, _until(past, k), visit)]
        if len(rows) < 2:
            raise ProgramError(cell.file, None, f"an axis is not coupled during {visit.name!r}")
        keep = [rows[0]]
        keep.extend(row for before, row in pairwise(rows) if row[0] > before[0] + NEAR)
        found.append(np.array(keep))
    if any(x.shape != found[0].shape or np.abs(x[:, 0] - found[0][:, 0]).max() > NEAR for x in found):
        raise ProgramError(cell.file, None, f"the axes' tables of {visit.name!r} have points at different times")
    knots = found[0][:, 0]
    begin, end = _snapped(visit.before, visit.begin, knots), _snapped(visit.last, visit.end, knots)
    inside = (knots > begin - NEAR) & (knots < end + NEAR)
    if inside.sum() < 2:
        raise ProgramError(cell.file, None, f"the master passes no points during {visit.name!r}")
    return [x[inside] for x in found]


def _until(past: list[Coupling], k: int) -> float:
    return past[k + 1].begin if k + 1 < len(past) else math.inf


def _passed(coupling: Coupling, until: float, visit: _Visit) -> list[tuple[float, ...]]:
    """List a table's points, again and again if it is periodic, as far as the stretch and the table's use go."""
    low, high = max(coupling.begin, visit.before) - NEAR, min(until, visit.end) + NEAR
    cam: Cam = coupling.cam
    rounds = range(1)
    if cam.periodic and high > low:
        rounds = range(int((low - coupling.offset) // cam.span), int((high - coupling.offset) // cam.span) + 1)
    rows: list[tuple[float, ...]] = []
    for k in rounds:
        shift = coupling.offset + k * cam.span
        rows += [(row[0] + shift, *row[1:]) for row in cam.rows if low <= row[0] + shift <= high]
    return rows


def _compare_csv(files: Mapping[str, str], name: str, cams: dict[int, Cam], n: int) -> None:
    """Refuse tables for other cam editors that are not those which were loaded."""
    for axis in range(n):
        file = f"{name}_axis{axis + 1}.csv"
        if file not in files:
            raise ProgramError(file, None, "the file is missing")
        lines = files[file].splitlines()
        if not lines or lines[0] != "table;master;slave;velocity;acceleration":
            raise ProgramError(file, 1, "the columns are not table;master;slave;velocity;acceleration")
        wanted = [(k // n + 1, *row) for k in range(axis, len(cams), n) for row in cams[k + 1].rows]
        if len(wanted) != len(lines) - 1:
            raise ProgramError(file, None, f"there are {len(lines) - 1} points, the program has {len(wanted)}")
        for number, (line, row) in enumerate(zip(lines[1:], wanted, strict=True), 2):
            match = ROW.fullmatch(line)
            if match is None or any(abs(float(x) - y) > 1e-9 for x, y in zip(match.groups(), row, strict=True)):
                raise ProgramError(file, number, "this point is not the program's")
