"""Orientation of the tool: its axis stays inside a cone, so that nothing is spilled and no hose is twisted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, FiniteFloat

from excitor.design.certify.bounds import body_direction_rates
from excitor.design.constraints.constraint import ROOM, Compromise, Constraint, ConstraintKind, Relaxation, Row, Trace
from excitor.design.motion import Spans
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.dynamics import frame_pose
from excitor.robots.files.schema import Table
from excitor.robots.robot import Robot

Vector = Annotated[list[FiniteFloat], Field(min_length=3, max_length=3)]
GROUP = "tool cone"


@dataclass(frozen=True, eq=False, slots=True)
class ToolCone(Constraint):
    """Largest angle between an axis of the tool and a direction of the base frame.

    Args:
        angle: rad, above 0 and below π.
        direction: in the base frame; by default downwards.
        axis: in the tool frame; by default its z axis.
    """

    angle: float
    direction: FloatArray | Sequence[float] = (0.0, 0.0, -1.0)
    axis: FloatArray | Sequence[float] = field(default=(0.0, 0.0, 1.0))
    order: ClassVar[int] = 0
    everywhere: ClassVar[bool] = True
    quantity: ClassVar[str] = "the tool's orientation"
    method: ClassVar[str] = "{intervals}: cosine at ends - h²/8·max|ü|"

    def __post_init__(self) -> None:
        if not 0.0 < self.angle < np.pi:
            raise ValueError(f"angle is {self.angle} rad, expected above 0 and below pi")
        for word in ("direction", "axis"):
            vector = np.asarray(getattr(self, word), dtype=float)
            if vector.shape != (3,) or not np.isfinite(vector).all() or not vector.any():
                raise ValueError(f"{word} is {getattr(self, word)}, expected three numbers that are not all 0")
            object.__setattr__(self, word, vector / np.linalg.norm(vector))
        freeze(self, direction="3", axis="3")

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        return (Row(GROUP, "rad", self.angle, kind=GROUP, group=GROUP),)

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate the angle, arccos(a · R u)."""
        return np.arccos(np.clip(self._cosine(trace.robot, trace.motion.q), -1.0, 1.0))[:, None]

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound the cosine from below by samples and |d²/dt² a · R u| ≤ |ü|."""
        cosine = self._cosine(robot, part.jets[0])
        low, _ = part.enclose(cosine[:, None], body_direction_rates(robot.mechanism, robot.tool.link, part)[2][:, None])
        return np.arccos(np.clip(low, -1.0, 1.0)), np.arccos(np.clip(cosine, -1.0, 1.0))[:, None]

    def describe(self, robot: Robot, group: str) -> str:
        return f"tool cone of {np.degrees(self.angle):g}° about {_vector_words(np.asarray(self.direction))}"

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        before = np.degrees(self.angle)
        after = np.ceil(before * (1.0 + ROOM * share) * 10.0) / 10.0
        if after >= 180.0:
            return []
        words = f"widen the tool cone from {before:g} to {after:g}°"
        ends = np.radians([before]), np.radians([after])
        return [Relaxation(group, "widen", "rad", float(np.radians(after - before)), *ends, words)]

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> "ToolCone":
        return ToolCone(float(relaxation.after[0]), self.direction, self.axis)

    def _cosine(self, robot: Robot, q: FloatArray) -> FloatArray:
        return np.asarray(frame_pose(robot, q)[:, :3, :3] @ self.axis @ self.direction)


class ToolConeTable(Table):
    """Keys of a tool cone in campaign.toml."""

    angle_deg: Annotated[float, Field(gt=0.0, lt=180.0)]  # largest angle
    direction: Vector = Field(default=[0.0, 0.0, -1.0])  # in the base frame
    axis: Vector = Field(default=[0.0, 0.0, 1.0])  # in the tool frame


KIND = ConstraintKind(
    "tool-cone",
    "An axis of the tool stays within an angle of a direction of the base frame.",
    ToolConeTable,
    lambda robot, table: ToolCone(np.radians(table.angle_deg), table.direction, table.axis),
    lambda robot: {"angle_deg": 100.0, "direction": [0.2, 0.1, 1.0]},
)


def _vector_words(direction: FloatArray) -> str:
    return "(" + ", ".join(f"{x:g}" for x in direction.round(3)) + ")"
