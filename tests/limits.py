"""Constraints of a robot by its own limits."""

from dataclasses import dataclass

import numpy as np

from excitor.design.constraints.constraints import Constraints
from excitor.robots.robot import Limits


@dataclass(frozen=True, slots=True)
class Margins:
    """Shares of a robot's limits that a motion may use; 1 is the full limit."""

    velocity: float = 1.0
    acceleration: float = 1.0
    jerk: float = 1.0
    torque: float = 1.0
    position: float = 0.0  # rad or m kept free at both ends


def reduced(limits, margins):
    """Apply margins to a robot's limits."""
    position = limits.position + margins.position * np.array([1.0, -1.0])
    return Limits(
        position,
        limits.velocity * margins.velocity,
        limits.acceleration * margins.acceleration,
        limits.jerk * margins.jerk,
        limits.torque * margins.torque,
    )


def from_robot(robot, margins=None, scene=None):
    """Build constraints from a robot's own limits, reduced by margins."""
    limits = reduced(robot.limits, margins or Margins())
    return Constraints(limits, np.full(robot.n_joints, np.inf), scene)
