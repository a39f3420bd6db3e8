"""Poses in which joints stand: the home pose, with the straight way from there, and that of joints that do not move."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from excitor.design.constraints.constraint import CLEARANCE_SCALE, Compromise, Constraint, Relaxation, Row, place_words
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.robot import Robot

_STEPS = 192  # of the straight way on which a home pose is proposed
_NEAR = 0.008  # m or rad that a proposed home pose keeps of every limit


@dataclass(frozen=True, eq=False, slots=True)
class Standstill(Constraint):
    """Pose of the joints that do not move during a run."""

    pose: FloatArray  # (n_joints,)
    joints: BoolArray  # (n_joints,): those that stand there
    group: ClassVar[str] = "pose of the joints that stand still"
    words: ClassVar[str] = "pose of the joints that stand still"
    proposal: ClassVar[str] = "let the joints that do not move stand at"
    unit: ClassVar[str] = "rad"
    scale: ClassVar[float] = 0.0  # of a share, in `unit`

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        """Name the pose; what must hold there are the rows of other constraints."""
        return (Row(self.group, self.unit, 0.0, kind=self.group, group=self.group),)

    def describe(self, robot: Robot, group: str) -> str:
        return self.words

    def slack(self, robot: Robot, group: str, share: float) -> float:
        """Turn a violation on the way into m."""
        return share * self.scale

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        """Stand elsewhere: where the motion is, or as near to the old pose as the straight way is clear."""
        robot, joints = compromise.robot, np.flatnonzero(self.joints).tolist()
        before, after = np.where(np.isnan(self.pose), 0.0, self.pose), self._reached(compromise)
        amount = float(np.abs(after - before)[joints].max())
        where = ", ".join(f"{robot.joint_names[j]} {place_words(robot, j, after[j])}" for j in joints)
        return [Relaxation(group, "stand elsewhere", "rad", amount, before, after, f"{self.proposal} {where}")]

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> Self:
        return replace(self, pose=np.where(np.isnan(self.pose), self.pose, relaxation.after))

    def _reached(self, compromise: Compromise) -> FloatArray:
        return compromise.center


@dataclass(frozen=True, eq=False, slots=True)
class Home(Standstill):
    """Pose where the robot waits, with the straight way from there to a run's start."""

    group: ClassVar[str] = "home pose"
    words: ClassVar[str] = "home pose, with the straight way from there to the start"
    proposal: ClassVar[str] = "choose another home pose, such as"
    unit: ClassVar[str] = "m"
    scale: ClassVar[float] = CLEARANCE_SCALE
    states: ClassVar[Mapping[str, str]] = {"home": "pose"}

    def _reached(self, compromise: Compromise) -> FloatArray:
        """Go from a motion's centre straight towards home, as far as that is clear."""
        constraints = compromise.constraints
        low, high = constraints.limits.position.T
        s = np.linspace(0.0, 1.0, _STEPS)[:, None]
        way = compromise.center + s * (self.pose - compromise.center)
        lacking = constraints.pose_deficits(compromise.robot, way)[1]
        bad = ((way < low) | (way > high)).any(axis=1) | (lacking > -_NEAR).any(axis=1)
        last = int(np.argmax(bad)) - 1 if bad.any() else len(way) - 1
        return np.asarray(way[max(last, 0)])
