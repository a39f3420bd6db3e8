"""A controller that a RAPID module runs on: what every one answers."""

from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from excitor.design.programs.rapid.run import TOOL_SHARE, Controller, Program
from excitor.design.programs.target import Machine, ProgramError, file_in

_GRAMS = 0.0015  # kg, that the data of a tool without mass must state at least
ENTRY = "main"  # what automatic mode starts


class Cell(Controller):
    """State of the controller; how it moves is told by its classes."""

    def __init__(self, file: str, machine: Machine) -> None:
        self.file, self.machine = file, machine
        self.time = 0.0
        self.axes = np.array(machine.axes, dtype=float)
        self.texts: list[str] = []

    def hold(self, name: str, value: object) -> None:
        """Refuse a setting that the target's record does not state."""
        if problem := self.machine.strange(name, value):
            self.fail(problem)

    def carry(self, mass: float) -> None:
        """Refuse to move with the data of a tool that is not in use; nobody asks where nothing is stated."""
        used = TOOL_SHARE * self.machine.payload
        if self.machine.settings and abs(mass - used) > _GRAMS:
            self.fail(f"moves with the data of a tool of {mass:.3f} kg, the one in use has {used:.3f} kg")

    def override(self) -> float:
        """Return the speed override, %."""
        return 100.0 * self.machine.override

    def automatic(self) -> bool:
        """Return True if the controller is in automatic mode."""
        return self.machine.automatic

    def joints(self) -> list[float]:
        """Return the axis positions, deg."""
        return [float(x) for x in self.axes]

    def mass(self) -> float:
        """Return the load set in the controller, kg."""
        return self.machine.payload

    def write(self, text: str) -> None:
        """Record a line of the pendant."""
        self.texts.append(text)

    def fail(self, sentence: str) -> NoReturn:
        """Say what is wrong with the program."""
        raise ProgramError(self.file, None, sentence)


def run_module(files: Mapping[str, str], cell: Cell) -> None:
    """Run the module in a controller's file."""
    Program(cell.file, file_in(files, cell.file), cell).run(ENTRY)
