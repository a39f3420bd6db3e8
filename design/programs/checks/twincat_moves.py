"""Beckhoff's moves from point to point (Tc2_MC2) over ideal axes: speeding up, cruising, slowing down."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from excitor.design.programs.checks.twincat_axes import FULL, Axis, Controller, block, done, edge
from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.st_types import BOOL, LREAL, Frame, Record

SOFT = 0.5  # an axis' own jerk, as a multiple of the acceleration, where a command states none


@dataclass(frozen=True)
class Ramp:
    """Speeding up from rest to a velocity by a limited acceleration and jerk."""

    velocity: float
    acceleration: float
    jerk: float

    @property
    def rise(self) -> float:
        """How long the acceleration itself rises."""
        return min(self.acceleration / self.jerk, sqrt(self.velocity / self.jerk))

    @property
    def time(self) -> float:
        """How long it takes; half of it times the velocity is the way."""
        return self.velocity / (self.jerk * self.rise) + self.rise if self.velocity > 0.0 else 0.0

    def at(self, t: float) -> tuple[float, float, float]:
        """Way, velocity and acceleration after a time."""
        v, j, rise, left = self.velocity, self.jerk, self.rise, self.time - t
        if left <= 0.0:
            return v * (t - 0.5 * self.time), v, 0.0
        if left < rise:
            return v * (0.5 * self.time - left) + j * left**3 / 6.0, v - 0.5 * j * left * left, j * left
        early, u = min(t, rise), max(t - rise, 0.0)
        speed = 0.5 * j * early * early
        return j * early**3 / 6.0 + speed * u + 0.5 * j * rise * u * u, speed + j * rise * u, j * early


class Travel:
    """A move from rest to a position; the override slows its time down."""

    def __init__(self, axis: Axis, target: float, ramp: Ramp, step: float) -> None:
        self.begin, self.target, self.step, self.t = axis.position, target, step, 0.0
        self.way = abs(target - axis.position)
        self.ramp = _reachable(ramp, self.way)
        speed = self.ramp.velocity
        self.time = self.ramp.time + self.way / speed if self.way > 1e-12 else 0.0

    def advance(self, axis: Axis) -> None:
        """Move for a cycle."""
        rate = axis.to_nc[4] / FULL
        self.t += self.step * rate
        if self.t >= self.time - 1e-12:
            axis.position, axis.velocity, axis.acceleration, axis.job = self.target, 0.0, 0.0, None
            return
        side = 1.0 if self.target > self.begin else -1.0
        late = self.t > 0.5 * self.time
        way, speed, change = self.ramp.at(self.time - self.t if late else self.t)
        axis.position = self.target - side * way if late else self.begin + side * way
        axis.velocity, axis.acceleration = side * rate * speed, side * rate * rate * (-change if late else change)


def _reachable(ramp: Ramp, way: float) -> Ramp:
    """Lower the velocity until speeding up and slowing down fit into the way."""
    low, high = 0.0, ramp.velocity
    if ramp.time * ramp.velocity <= way:
        return ramp
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = Ramp(middle, ramp.acceleration, ramp.jerk).time * middle <= way
        low, high = (middle, high) if fits else (low, middle)
    return Ramp(max(low, 1e-12), ramp.acceleration, ramp.jerk)


class Halt:
    """Slowing down from any velocity by a limited deceleration and jerk."""

    def __init__(self, axis: Axis, deceleration: float, jerk: float, step: float) -> None:
        self.side = 1.0 if axis.velocity > 0.0 else -1.0
        speed = abs(axis.velocity)
        slowing = min(max(-self.side * axis.acceleration, 0.0), deceleration, sqrt(2.0 * jerk * speed))
        self.ramp = Ramp(speed + 0.5 * slowing * slowing / jerk, deceleration, jerk)  # one that is here right now
        self.left, self.step = self.ramp.time - slowing / jerk, step
        self.end = axis.position + self.side * self.ramp.at(self.left)[0]

    def advance(self, axis: Axis) -> None:
        """Slow down for a cycle."""
        self.left -= self.step
        if self.left <= 1e-12:
            axis.position, axis.velocity, axis.acceleration, axis.job = self.end, 0.0, 0.0, None
            return
        way, speed, change = self.ramp.at(self.left)
        axis.position, axis.velocity = self.end - self.side * way, self.side * speed
        axis.acceleration = -self.side * change


def move_block(controller: Controller) -> Record:
    """Make MC_MoveAbsolute."""

    def start(B: Frame, axis: Axis) -> Callable[[Axis], None]:
        if axis.coupled or axis.external or axis.velocity != 0.0:
            raise ProgramError("PLC", None, "MC_MoveAbsolute finds an axis that is not ready for it")
        if min(B[2:5]) <= 0.0 or B[3] != B[4]:
            raise ProgramError("PLC", None, "MC_MoveAbsolute wants a velocity, and the same acceleration both ways")
        return Travel(axis, B[1], Ramp(B[2], B[3], B[5] or SOFT * B[3]), controller.step).advance

    def move(B: Frame) -> None:
        axis = controller.of(B[6])
        if edge(B):
            B[11] = not axis.ready
            B[8] = axis.ready
            if axis.ready:
                B[-3] = axis.job = start(B, axis)
        _finish(B, axis, 7)

    inputs = {"Execute": BOOL, "Position": LREAL, "Velocity": LREAL, "Acceleration": LREAL, "Deceleration": LREAL,
              "Jerk": LREAL}  # fmt: skip
    return block("MC_MoveAbsolute", inputs, {"Axis": controller.axis_ref}, done(), move)


def halt_block(controller: Controller, name: str = "MC_Halt") -> Record:
    """Make MC_Halt or MC_Stop: both uncouple an axis and slow it down, whatever it does."""

    def halt(B: Frame) -> None:
        axis = controller.of(B[3])
        if edge(B):
            if B[1] <= 0.0:
                raise ProgramError("PLC", None, f"{name} wants a deceleration")
            axis.coupled = False
            B[-3] = axis.job = Halt(axis, B[1], B[2] or SOFT * B[1], controller.step).advance
            B[5] = True
        _finish(B, axis, 4)

    inputs = {"Execute": BOOL, "Deceleration": LREAL, "Jerk": LREAL}
    return block(name, inputs, {"Axis": controller.axis_ref}, done(), halt)


def _finish(B: Frame, axis: Axis, first: int) -> None:
    """Tell by Done, at `first`, and those behind it, how far a command is."""
    if not B[0]:
        B[first : first + 5] = [False] * 5
    elif B[first + 1] and axis.job is None:
        B[first], B[first + 1] = True, False
    elif B[first + 1] and axis.job is not B[-3]:
        B[first + 1], B[first + 3] = False, True
