"""Constraints of a motion as rows value ≤ limit: joint limits, torque, clearance in the cell, tool speed."""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, check_shape, locked
from excitor.robots.cell import Scene, clearances, required, row_names, tool_speeds
from excitor.robots.robot import Limits, Motion, Robot


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
    """Shares of a robot's limits that a motion may use; 1 is the full limit."""

    velocity: float = 1.0
    acceleration: float = 1.0
    jerk: float = 1.0
    torque: float = 1.0
    position: float = 0.0  # rad or m kept free at both ends


def reduced(limits: Limits, margins: Margins) -> Limits:
    """Apply margins to a robot's limits."""
    position = limits.position + margins.position * np.array([1.0, -1.0])
    return Limits(
        position,
        limits.velocity * margins.velocity,
        limits.acceleration * margins.acceleration,
        limits.jerk * margins.jerk,
        limits.torque * margins.torque,
    )


def from_robot(robot: Robot, margins: Margins | None = None, scene: Scene | None = None) -> Constraints:
    """Build constraints from a robot's own limits, reduced by margins."""
    limits = reduced(robot.limits, margins or Margins())
    return Constraints(limits, np.full(robot.n_joints, np.inf), scene)


@dataclass(frozen=True, eq=False, slots=True)
class RowLimits:
    """All rows of a robot's constraints; rows with sign -1 are lower limits, negated."""

    kinds: tuple[str, ...]  # "position", "velocity", "acceleration", "jerk", "torque", "clearance", "tool speed"
    names: tuple[str, ...]
    units: tuple[str, ...]
    limits: FloatArray
    signs: FloatArray

    def of_kind(self, kind: str) -> BoolArray:
        """Mark the rows of a kind."""
        return np.array([own == kind for own in self.kinds])


def row_limits(robot: Robot, constraints: Constraints) -> RowLimits:
    """List the rows, in the order of `row_values`."""
    limits, scene = constraints.limits, constraints.scene
    lengths = np.where(robot.mechanism.prismatic, "m", "rad").tolist()
    pushes = np.where(robot.mechanism.prismatic, "N", "N m").tolist()
    rows: list[tuple[str, str, str, float, float]] = []
    for kind, word, suffix, limit, sign in (
        ("position", "highest position", "", limits.position[:, 1], 1.0),
        ("position", "lowest position", "", -limits.position[:, 0], -1.0),
        ("velocity", "velocity", "/s", limits.velocity, 1.0),
        ("acceleration", "acceleration", "/s²", limits.acceleration, 1.0),
        ("jerk", "jerk", "/s³", limits.jerk, 1.0),
        ("torque", "torque peak", None, limits.torque, 1.0),
    ):
        units = pushes if suffix is None else [unit + suffix for unit in lengths]
        joints = zip(robot.joint_names, units, limit.tolist(), strict=True)
        rows += [(kind, f"{word} {name}", unit, number, sign) for name, unit, number in joints]
    if scene is not None:
        distances = zip(row_names(robot, scene), (-required(robot, scene)).tolist(), strict=True)
        rows += [("clearance", f"clearance: {name}", "m", number, -1.0) for name, number in distances]
    rows.append(("tool speed", "tool speed", "m/s", float(constraints.tool_speed), 1.0))
    kinds, names, units, numbers, signs = zip(*rows, strict=True)
    return RowLimits(kinds, names, units, np.array(numbers), np.array(signs))


def row_values(
    robot: Robot, constraints: Constraints, motion: Motion, *, jerk: FloatArray, tau: FloatArray
) -> FloatArray:
    """Evaluate each row's worst over the samples."""
    sizes = [np.abs(x).max(axis=0) for x in (motion.dq, motion.ddq, jerk, tau)]
    parts = [motion.q.max(axis=0), -motion.q.min(axis=0), *sizes]
    if constraints.scene is not None:
        parts.append(-clearances(robot, constraints.scene, motion.q).min(axis=0))
    speed = tool_speeds(robot, motion).max() if np.isfinite(constraints.tool_speed) else 0.0
    return np.concatenate([*parts, [speed]])


def row_excesses(rows: RowLimits, worst: FloatArray, allowed: FloatArray) -> dict[int, str]:
    """Name each row that is beyond its limit by more than what is allowed, with its worst: row -> sentence."""
    entries = zip(rows.names, rows.units, rows.limits, worst, rows.signs, allowed, strict=True)
    return {
        k: f"{name} reaches {sign * value:.4g} {unit}, limit {sign * limit:.4g}"
        for k, (name, unit, limit, value, sign, slack) in enumerate(entries)
        if value > limit + slack
    }
