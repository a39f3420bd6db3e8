"""What a robot does that goes from way-point to way-point, cut into stretches by its logger.

A program may state how far apart in time its way-points are. Then these are the times that count, and the speeds must
fit to them; without them, times are what the speeds say on paper.
"""

import numpy as np

from excitor.design.programs.execution import Execution, Machine, ProgramError, Stretch
from excitor.design.programs.plan import OUT, Stretches, StretchName
from excitor.robots.arrays import FloatArray

SHORTEST = 1e-9  # s
_MOST = 200_000  # corners of a stretch


class WayRecorder:
    """Corners, marks and events; all times are those that count, in s."""

    def __init__(self, file: str, machine: Machine) -> None:
        self.file, self.machine = file, machine
        self.pose = machine.axes.astype(float)
        self.corners: list[tuple[float, FloatArray]] = [(0.0, self.pose)]  # of the present stretch
        self.stretch = 0
        self.opened: float | None = None  # since when the present stretch goes on
        self.stretches: list[Stretch] = []
        self.marks: list[tuple[float, int]] = []
        self.events: list[str] = []
        self.messages: list[str] = []

    def go(self, begin: float, end: float, to: FloatArray) -> None:
        """Go from where the robot is to the next way-point."""
        self.opened = begin if self.opened is None else self.opened
        self._corner(begin)
        self.corners.append((max(end, begin), to))
        self.pose = to
        if len(self.corners) > _MOST:
            raise ProgramError(self.file, None, f"the program makes more than {_MOST} moves; it does not end")
        if end > self.machine.longest:
            raise ProgramError(self.file, None, f"the program takes more than {self.machine.longest:g} s")

    def mark(self, at: float, value: float, *, resting: bool) -> None:
        """Keep marks of the main stretch; others tell when the way out or back begins, and what was none of it."""
        if self.stretch == 0 and value == OUT:
            self.corners, self.opened = [(at, self.pose)], at
        self.opened = at if self.opened is None else self.opened
        if self.stretch == 1:
            self.marks.append((at - self.opened, int(value)))
            if resting:
                self._corner(at)

    def log(self, at: float, on: bool) -> None:
        """Begin or end the main stretch."""
        if self.stretch != (0 if on else 1):
            return
        self._close(at)
        self.events.append("log on" if on else "log off")
        self.opened = at if on else None

    def execution(self, at: float) -> Execution:
        """Say what happened; the first message is a refusal where nothing moved."""
        self._close(at)
        halted = "" if self.stretches or not self.messages else self.messages[0]
        return Execution(tuple(self.stretches), tuple(self.marks), tuple(self.events), halted)

    def _corner(self, at: float) -> None:
        if at > self.corners[-1][0] + SHORTEST:
            self.corners.append((at, self.pose))

    def _close(self, at: float) -> None:
        name: StretchName = Stretches[min(self.stretch, 2)]
        if name == "main":
            self._corner(at)
        self.stretch += 1
        corners, self.corners = self.corners, [(at, self.pose)]
        if len(corners) == 1 or self.opened is None:
            return
        t = np.array([corner[0] for corner in corners]) - self.opened
        t[0] = 0.0
        poses = np.array([corner[1] for corner in corners])
        self.stretches.append(Stretch(name, "way-points", t, poses, interpolation="blend"))
        self.events.append(name)


def check_speed(percent: float, seconds: float, stated: float, tolerance: float) -> None:
    """Refuse a speed that does not fit to the stated time of a way that it makes in `seconds`."""
    fitting = percent * seconds / stated
    if abs(fitting - percent) > tolerance:
        raise ValueError(f"a speed of {percent:g} % does not fit to a way of {stated:g} s, {fitting:.3g} % would")
