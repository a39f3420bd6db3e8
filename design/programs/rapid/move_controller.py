"""Run an ABB program of MoveAbsJ way-points by its own times; the true blends and times are the controller's."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from excitor.design.programs.plan import BACK, END, OUT, StretchName
from excitor.design.programs.rapid.cell import Cell, run_module
from excitor.design.programs.rapid.run import RapidError
from excitor.design.programs.target import POSES, Execution, Machine, Stretch
from excitor.robots.arrays import FloatArray

LOG, MARK = "ex_log", "ex_mark"
_NEAR = 0.51  # deg: a first move within this leads home, and belongs to no stretch
_PEAK = 2.0  # of the mean speed of a move, at most: of one that only speeds up and slows down
_REST = 0.999  # s at standstill, before the logger starts and after it stops
_ANY_ERROR = 1.0  # its number
_MOST_MARK = 65535  # of a group output of 16 bits


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run a module."""
    cell = MovingCell(f"{name}.mod", machine)
    run_module(files, cell)
    return cell.execution()


class MovingCell(Cell):
    r"""Controller that a module runs on: it follows moves by their \T, and has a digital and a group output."""

    def __init__(self, file: str, machine: Machine) -> None:
        super().__init__(file, machine)
        self.fine = True
        self.poses = file.endswith(f"{POSES}.mod")  # a first run, without marks and a logger
        self.stretch: StretchName = "out"
        self.begun = 0.0  # when the stretch began
        self.points: dict[StretchName, list[tuple[float, FloatArray]]] = {"out": [], "main": [], "back": []}
        self.stops: dict[StretchName, list[float]] = {"out": [], "main": [], "back": []}
        self.marks: list[tuple[float, int]] = []
        self.events: list[str] = []
        self.failed = 0  # instructions since one met an error
        self.mark, self.stood = 0, 0.0  # the last one told; since when the robot stands

    def move(self, axes: list[float], seconds: float | None, speed: float, fine: bool) -> None:
        """Go to a way-point; before the first mark, go home."""
        to = np.array(axes)
        if len(to) != len(self.axes):
            self.fail(f"a pose has {len(to)} axes, the robot {len(self.axes)}")
        if self.poses and not fine:
            self.fail("a first run stops at every pose")
        if seconds is None or not seconds > 0.0:
            self.fail("a move without \\T takes an unknown time")
        if self.mark == 0 and fine and np.abs(to - self.axes).max() <= _NEAR:
            self.hold("homing", seconds)
            self.axes, self.time = to, self.time + seconds
            self.mark = OUT if self.poses else self.mark
            return
        self._begin()
        self._meet_error(to, seconds)
        self._spend(seconds)
        self.axes, self.fine, self.stood = to, fine, self.time
        self._point()
        self.stops[self.stretch] += [self.time - self.begun] * fine

    def wait(self, seconds: float, standing: bool) -> None:
        """Advance the clock at a pose."""
        if not self.fine:
            self.fail("the program waits, but its last move does not end at a fine point")
        if seconds < 0.0:
            self.fail(f"waits {seconds:g} s")
        if seconds and self.stretch == "main":
            self._begin()
            self._spend(seconds)
            self._point()
        else:
            self._spend(seconds)

    def signal(self, name: str, value: float) -> None:
        """Set the logger's output, or record a mark."""
        if name.lower() == LOG and value in (0.0, 1.0):
            self._log(bool(value))
        elif name.lower() == MARK and value == int(value) and 0 <= value <= _MOST_MARK:
            self.mark = int(value)
            if self.stretch == "main":
                self._begin()
                self.marks.append((self.time - self.begun, int(value)))
        else:
            self.fail(f"the controller has no output {name} that could be set to {value:g}")

    def egm(self, step: str, values: dict[str, Any]) -> None:
        """Raise an error: the controller has no guided motion."""
        self.fail("externally guided motion needs an option that this controller has not")

    def execution(self) -> Execution:
        """Return the execution."""
        ended = not self.failed and self.mark == (OUT if self.poses else END) and not (self.poses and self.texts)
        halted = "" if ended else " ".join(self.texts) or "the program ends without its last mark"
        stretches = []
        for name, points in self.points.items():
            if points:
                t, axes = (np.array(column) for column in zip(*points, strict=True))
                mean = np.diff(axes, axis=0, prepend=axes[:1]) / np.diff(t, prepend=-1.0)[:, None]
                rates = _PEAK * self.machine.override * mean if self.poses else None
                stops = np.array(self.stops[name])
                stretches.append(Stretch(name, "way-points", t, axes, rates, interpolation="blend", stops=stops))
        if not self.fine and not self.failed:
            self.fail("the program ends, but its last move does not end at a fine point")
        return Execution(tuple(stretches), tuple(self.marks), tuple(self.events), halted)

    def _meet_error(self, to: FloatArray, seconds: float) -> None:
        """Raise the error that a move is to meet on its way; what moves after it is recorded."""
        for event in self.machine.events:
            share = (event.after - self.time + self.begun) / seconds
            if event.name == "error" and event.value and event.stretch == self.stretch and share < 1.0:
                self.failed += 1
                if self.failed == 1:
                    self.axes = self.axes + max(share, 0.0) * (to - self.axes)
                    self._spend(max(share, 1e-6) * seconds)
                    self._point()
                    raise RapidError(_ANY_ERROR, "an instruction meets an error")

    def _log(self, on: bool) -> None:
        if not self.fine:
            self.fail("the logger is switched while the robot moves")
        if on and self.time - self.stood < _REST:
            self.fail("the robot does not stand still for 1 s before the logger starts")
        if on != (self.stretch == "out"):
            self.fail(f"the logger is switched {'on' if on else 'off'} in the segment {self.stretch}")
        self.stretch = "main" if on else "back"
        self.events.append("log on" if on else "log off")
        self.stood = self.time

    def _begin(self) -> None:
        if not self.points[self.stretch]:
            if self.mark != {"out": OUT, "back": BACK}.get(self.stretch, self.mark):
                self.fail(f"the way {self.stretch} begins without its mark")
            if self.stretch == "back" and self.time - self.stood < _REST:
                self.fail("the robot does not stand still for 1 s after the logger stops")
            self.begun = self.time
            self.points[self.stretch].append((0.0, self.axes))
            self.events.append(self.stretch)

    def _spend(self, seconds: float) -> None:
        self.time += seconds
        if self.time > self.machine.longest:
            self.fail(f"the program runs for more than {self.machine.longest:g} s")

    def _point(self) -> None:
        self.points[self.stretch].append((self.time - self.begun, self.axes))
