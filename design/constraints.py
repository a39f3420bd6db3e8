"""What a motion must keep to: joint limits after margins, torque, the cell, the tool's speed; names and units."""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape, locked
from excitor.robots.cell import Scene
from excitor.robots.robot import Limits, Robot


@dataclass(frozen=True, eq=False, slots=True)
class Constraints:
    """All limits of a run; margins have been taken off already."""

    limits: Limits
    torque_rms: FloatArray  # (n_joints,), over the measured period; inf where nothing is stated
    scene: Scene | None = None
    tool_speed: float = np.inf  # m/s
    home: FloatArray | None = None  # (n_joints,): where the robot waits; the way to the start is kept clear too
    singularity: float = 0.15  # distance that a mechanism keeps from each of its singularities, in its own measure

    def __post_init__(self) -> None:
        object.__setattr__(self, "torque_rms", locked(self.torque_rms))
        n_joints = self.limits.velocity.size
        check_shape(self.torque_rms, str(n_joints), "torque_rms")
        if self.home is not None:
            object.__setattr__(self, "home", locked(self.home))
            check_shape(self.home, str(n_joints), "home")
        if not self.tool_speed > 0.0:
            raise ValueError(f"tool_speed is {self.tool_speed}, expected a positive speed in m/s")


@dataclass(frozen=True, slots=True)
class Margins:
    """How much of a robot's limits a motion may use; 1 is all of it."""

    velocity: float = 1.0
    acceleration: float = 1.0
    jerk: float = 1.0
    torque: float = 1.0
    position: float = 0.0  # rad or m kept free at both ends


def reduced(limits: Limits, margins: Margins) -> Limits:
    """Take margins off a robot's limits."""
    position = limits.position + margins.position * np.array([1.0, -1.0])
    return Limits(
        position,
        limits.velocity * margins.velocity,
        limits.acceleration * margins.acceleration,
        limits.jerk * margins.jerk,
        limits.torque * margins.torque,
    )


def from_robot(robot: Robot, margins: Margins | None = None, scene: Scene | None = None) -> Constraints:
    """Take a robot's own limits."""
    limits = reduced(robot.limits, margins or Margins())
    return Constraints(limits, np.full(robot.n_joints, np.inf), scene)
