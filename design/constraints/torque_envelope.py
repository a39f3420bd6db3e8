"""Speed-dependent torque limits, as characteristics of drives state them: less torque is left at high speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, FiniteFloat

from excitor.design.certify.bounds import Effort
from excitor.design.constraints.constraint import SEARCH, Constraint, ConstraintKind, Population, States, Trace
from excitor.design.constraints.torque import TorqueLimits, form_slopes, largest_torques
from excitor.design.motion import Spans
from excitor.robots.arrays import FloatArray, IntArray, locked
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import did_you_mean
from excitor.robots.files.schema import Table
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, Robot

Percent = Annotated[FiniteFloat, Field(ge=0.0, le=1000.0)]


@dataclass(frozen=True, eq=False, slots=True)
class TorqueEnvelope(TorqueLimits):
    """Largest torque of each joint, |τ| ≤ limit · share(|dq|): what its drive has at its speed, driving or braking.

    Args:
        limit: at standstill, (n_joints,) in N m or N; inf where a joint has no such limit.
        speed: of the points of the characteristic, (n_joints, n_points), rising from 0; rad/s, m/s.
        share: of the standstill torque that is left at each point, (n_points,), from 1 and never rising; straight
            lines join the points, and the last share holds at any higher speed.
    """

    speed: FloatArray | Sequence[Sequence[float]] = ()
    share: FloatArray | Sequence[float] = ()
    kind: ClassVar[str] = "torque envelope"
    short: ClassVar[str] = "standstill"
    effort: ClassVar[Effort] = Effort(n_first=2000)
    method: ClassVar[str] = "prior model, {intervals}: max|τ| over the share of torque left at max|q̇|"

    def __post_init__(self) -> None:
        for name in ("limit", "speed", "share"):
            object.__setattr__(self, name, locked(np.asarray(getattr(self, name), dtype=float)))
        speed, share = np.asarray(self.speed), np.asarray(self.share)
        if speed.shape != (self.limit.size, share.size) or share.size < 2:
            raise ValueError(f"speed has shape {speed.shape}, expected {self.limit.size} joints x the points of share")
        stated = speed[self.stated]
        if not (np.isfinite(stated).all() and (stated[:, 0] == 0.0).all() and (np.diff(stated) > 0.0).all()):
            raise ValueError("speeds of a torque envelope do not rise from 0; list its points from standstill upwards")
        if not (share[0] == 1.0 and (np.diff(share) <= 0.0).all() and share[-1] > 0.0):
            raise ValueError(f"shares are {share.tolist()}, expected 1 at standstill, then falling, all above 0")
        if not (self.limit > 0.0).all():
            raise ValueError(f"limits are {self.limit.tolist()}, expected positive torques at standstill")

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate |τ| / share(|dq|): the torque at standstill that such a drive would need to have."""
        return np.asarray(np.abs(trace.torque[:, self.stated]) / self._left(np.abs(trace.motion.dq))[0])

    def population(self, population: Population) -> FloatArray:
        return Constraint.population(self, population)

    def slopes(self, robot: Robot, motion: Motion, rows: IntArray) -> States:
        """Differentiate |τ| / share by d(τ²) = d(χᵀ G χ), G of one row, and by the speed."""
        joints, k, chi = self.stated[rows], np.arange(len(rows)), prior(robot)
        size = np.maximum(np.abs(inverse_dynamics(robot, motion)[k, joints]), 1e-12)
        left, fall = (part[k, rows] for part in self._left(np.abs(motion.dq)))
        scale = 1.0 / (SEARCH.share * self.limit[joints] * left)
        bars = form_slopes(robot, motion, joints, np.outer(chi, chi)) * (0.5 * scale / size)[:, None]
        bars[1, k, joints] -= scale * size / left * fall * np.sign(motion.dq[k, joints])
        return bars[0], bars[1], bars[2]

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound |τ| and |dq| inside intervals; the share never rises with the speed."""
        inside, at_samples = largest_torques(robot, prior(robot), part)
        left, at = self._left(part.rates()[1])[0], self._left(np.abs(part.jets[1]))[0]
        return inside[:, self.stated] / left, at_samples[:, self.stated] / at

    def describe(self, robot: Robot, group: str) -> str:
        row = self.row_of(robot, group)
        unit = "m/s" if robot.mechanism.prismatic[row.joint] else "rad/s"
        points = zip(np.asarray(self.speed)[row.joint], row.limit * np.asarray(self.share), strict=True)
        line = ", ".join(f"{torque:.4g} {row.unit} at {speed:.3g} {unit}" for speed, torque in points)
        return f"torque envelope of {robot.joint_names[row.joint]} ({line})"

    def _left(self, speed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Share of the torque left at speeds (n, n_joints) of the stated joints, and its slope by the speed."""
        share = np.asarray(self.share)
        left, fall = np.empty((2, len(speed), self.stated.size))
        for k, j in enumerate(self.stated):
            points = np.asarray(self.speed)[j]
            left[:, k] = np.interp(speed[:, j], points, share)
            steps = np.append(np.diff(share) / np.diff(points), 0.0)
            fall[:, k] = steps[np.searchsorted(points, speed[:, j], side="right") - 1]
        return left, fall


class TorqueEnvelopeTable(Table):
    """Keys of a torque envelope in campaign.toml: points, in percent of the joints' own limits."""

    # of the joints' velocity limits, rising
    speed_percent: Annotated[list[Percent], Field(min_length=2, max_length=20)]
    # of the joints' torque limits at these speeds
    torque_percent: Annotated[list[Percent], Field(min_length=2, max_length=20)]
    joints: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None  # all by default


def _build(robot: Robot, table: TorqueEnvelopeTable) -> TorqueEnvelope:
    names = robot.joint_names if table.joints is None else table.joints
    unknown = [name for name in names if name not in robot.joint_names]
    if unknown:
        raise ValueError(
            f"joints: {unknown[0]!r} is no joint of {robot.name}{did_you_mean(unknown[0], robot.joint_names)}"
        )
    if len(table.speed_percent) != len(table.torque_percent):
        raise ValueError("speed_percent and torque_percent have different lengths; each point needs both")
    own, top = robot.limits.torque, robot.limits.velocity
    for name, torque, speed in zip(robot.joint_names, own, top, strict=True):
        if name in names and not np.isfinite([torque, speed]).all():
            raise ValueError(f"{name} has no limit of torque and velocity, of which the points are percent; state both")
    torques = np.array(table.torque_percent) / 100.0
    if not torques[0] > 0.0:
        raise ValueError("torque_percent starts with 0, expected the torque at standstill first")
    chosen = np.isin(robot.joint_names, names)
    speeds = np.where(chosen, top, 1.0)[:, None] * np.array(table.speed_percent) / 100.0
    return TorqueEnvelope(np.where(chosen, own * torques[0], np.inf), speeds, torques / torques[0])


KIND = ConstraintKind(
    "torque-envelope",
    "The torque stays within what the drives have at their speed.",
    TorqueEnvelopeTable,
    _build,
    lambda robot: {"speed_percent": [0.0, 10.0, 100.0], "torque_percent": [40.0, 40.0, 10.0]},
)
