"""What a diagnosis says: one finding, in sentences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.robot import Robot

Level = Literal["unusable", "doubtful", "note"]
STILL = 1e-3  # rad or m: a joint that covers less does not move
TURNING = 0.05  # of a joint's highest speed: slower is standstill, where the sign of a velocity is noise


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the data that an estimate would not show."""

    level: Level  # unusable: a number made of these data would mislead; doubtful: part of it would; note: worth knowing
    what: str  # the check that found it
    sentence: str
    remedy: str
    data: Mapping[str, float | str | tuple[str, ...]]

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}"


def moving_joints(robot: Robot, run: Samples) -> BoolArray:
    """Tell which joints move in a run, (n_joints,); those that the robot holds do not."""
    moves = np.ptp(run.motion.q, axis=0) > STILL
    moves[list(robot.locked)] = False
    return np.asarray(moves)


def fit_factor(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Fit y = f x: the factor, and the share of y's norm that it leaves."""
    power = float(x @ x)
    factor = float(x @ y) / power if power > 0.0 else 0.0
    size = float(np.linalg.norm(y))
    return factor, float(np.linalg.norm(y - factor * x)) / size if size > 0.0 else 0.0


def several(names: list[str] | tuple[str, ...]) -> str:
    """Write names as a list that can be read."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
