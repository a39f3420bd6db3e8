"""Beckhoff's moves from point to point (Tc2_MC2) over ideal axes: speeding up, cruising, slowing down."""

from dataclasses import dataclass

from excitor.design.programs.checks.twincat_axes import FULL, Axis, Controller, block, done, edge
from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.st_types import BOOL, LREAL, Frame, Record


@dataclass
class Travel:
    """A move to a position, by whole cycles."""

    target: float
    velocity: float
    acceleration: float
    deceleration: float
    step: float

    def advance(self, axis: Axis) -> None:
        """Move for a cycle."""
        h, left = self.step, self.target - axis.position
        side = 1.0 if left >= 0.0 else -1.0
        top = self.velocity * axis.to_nc[4] / FULL
        d = self.deceleration
        braking = -0.5 * d * h + (0.25 * d * d * h * h + 2.0 * d * abs(left)) ** 0.5
        speed = min(abs(axis.velocity) + self.acceleration * h, top, braking, abs(left) / h)
        if abs(left) <= max(0.5 * d * h * h, 1e-12):
            axis.position, axis.velocity, axis.acceleration, axis.job = self.target, 0.0, 0.0, None
            return
        axis.acceleration = (side * speed - axis.velocity) / h
        axis.position, axis.velocity = axis.position + side * speed * h, side * speed


@dataclass
class Halt:
    """Slowing down at a constant rate, by whole cycles."""

    deceleration: float
    step: float

    def advance(self, axis: Axis) -> None:
        """Slow down for a cycle."""
        less = self.deceleration * self.step
        if abs(axis.velocity) <= less:
            axis.velocity, axis.acceleration, axis.job = 0.0, 0.0, None
            return
        side = 1.0 if axis.velocity > 0.0 else -1.0
        axis.acceleration = -side * self.deceleration
        axis.velocity -= side * less
        axis.position += axis.velocity * self.step


def move_block(controller: Controller) -> Record:
    """Make MC_MoveAbsolute."""

    def move(B: Frame) -> None:
        axis = controller.of(B[6])
        if edge(B):
            if not axis.ready or axis.coupled or axis.external:
                raise ProgramError("PLC", None, "MC_MoveAbsolute finds an axis that is not ready for it")
            if min(B[2:5]) <= 0.0:
                raise ProgramError("PLC", None, "MC_MoveAbsolute wants velocity, acceleration and deceleration")
            axis.job = Travel(B[1], B[2], B[3], B[4], controller.step).advance
            B[8] = True
        _finish(B, axis, 7)

    inputs = {"Execute": BOOL, "Position": LREAL, "Velocity": LREAL, "Acceleration": LREAL, "Deceleration": LREAL,
              "Jerk": LREAL}  # fmt: skip
    return block("MC_MoveAbsolute", inputs, {"Axis": controller.axis_ref}, done(), move)


def halt_block(controller: Controller) -> Record:
    """Make MC_Halt."""

    def halt(B: Frame) -> None:
        axis = controller.of(B[3])
        if edge(B):
            if B[1] <= 0.0:
                raise ProgramError("PLC", None, "MC_Halt wants a deceleration")
            axis.job = Halt(B[1], controller.step).advance
            B[5] = True
        _finish(B, axis, 4)

    inputs = {"Execute": BOOL, "Deceleration": LREAL, "Jerk": LREAL}
    return block("MC_Halt", inputs, {"Axis": controller.axis_ref}, done(), halt)


def _finish(B: Frame, axis: Axis, first: int) -> None:
    """Tell by Done, at `first`, and Busy behind it, how far a command is."""
    if not B[0]:
        B[first] = B[first + 1] = False
    elif B[first + 1] and axis.job is None:
        B[first], B[first + 1] = True, False
