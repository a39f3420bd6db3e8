"""Speed of the tool point."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from excitor.design.certify.bounds import body_point_rates
from excitor.design.constraints.constraint import (
    ROOM,
    Compromise,
    Constraint,
    Population,
    Relaxation,
    Row,
    Trace,
    number_changed,
    three_digits,
)
from excitor.design.motion import Spans
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import tool_speeds
from excitor.robots.population import population_tool_speeds
from excitor.robots.robot import Robot


@dataclass(frozen=True, eq=False, slots=True)
class ToolLimit(Constraint):
    """Largest rate of the tool point."""

    limit: float
    kind: ClassVar[str] = ""
    unit: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not 0.0 < self.limit < np.inf:
            what = self.kind.removeprefix("tool ")
            raise ValueError(f"limit is {self.limit}, expected a positive {what} in {self.unit}")

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        return (Row(self.kind, self.unit, self.limit, kind=self.kind, group=self.kind),)

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        after = three_digits(self.limit * (1.0 + ROOM * share))
        words = f"raise {self.quantity} limit from {self.limit:g} to {after:g} {self.unit}"
        return [number_changed(group, "raise", self.unit, before=self.limit, after=after, words=words)]

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> Self:
        return replace(self, limit=float(relaxation.after[0]))


class ToolSpeed(ToolLimit):
    """Largest speed of the tool point.

    Args:
        limit: m/s.
    """

    kind: ClassVar[str] = "tool speed"
    unit: ClassVar[str] = "m/s"
    order: ClassVar[int] = 1
    quantity: ClassVar[str] = "the tool's speed"
    method: ClassVar[str] = "{intervals}: ends + h²/8·max|p⃛|"
    states: ClassVar[Mapping[str, str]] = {"tool_speed": "limit"}

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate |ṗ| of the tool point: of a population of motions of one sample."""
        q, dq = trace.motion.q[:, :, None], trace.motion.dq[:, :, None]
        return population_tool_speeds(trace.robot, q, dq)[:, None]

    def population(self, population: Population) -> FloatArray:
        speed = population_tool_speeds(population.robot, population.q, population.dq)
        return self.violations(population.robot, speed[:, None], population.reserve)

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound |ṗ| ≤ max(|ṗ_a|, |ṗ_b|) + h²/8 · max|p⃛|."""
        tool, speed = robot.tool, tool_speeds(robot, part.motion)
        rates = body_point_rates(robot.mechanism, tool.link, tool.T_link_frame[:3, 3], part)
        inside = part.worst_of_ends(speed)[:, None] + part.h**2 / 8.0 * rates[3][:, None]
        return inside, speed[:, None]
