"""Distance that a mechanism keeps from its singularities."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from excitor.design.certify.bounds import Effort, singularity_bounds
from excitor.design.constraints.constraint import Compromise, Constraint, Population, Relaxation, Row, Trace
from excitor.design.motion import Spans
from excitor.robots.arrays import FloatArray
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.robot import CanBeSingular, Robot


@dataclass(frozen=True, eq=False, slots=True)
class Singularity(Constraint):
    """Least distance to each type of singularity, in its own measure; the certificate wants more than 0 anyhow."""

    least: float
    order: ClassVar[int] = 0
    effort: ClassVar[Effort] = Effort(n_first=1000, share=0.25, most_spans=20_000)
    quantity: ClassVar[str] = "the distance to singularities"
    method: ClassVar[str] = "Lipschitz, {intervals}; it stays assembled"
    tolerance: ClassVar[float | None] = 1e-2
    states: ClassVar[Mapping[str, str]] = {"singularity": "least"}

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        """List the types of singularity that the mechanism has."""
        if not isinstance(robot.mechanism, CanBeSingular):
            return ()
        names = [f"singularity: {name}" for name in robot.mechanism.singularity_names]
        limit = max(0.0, self.least)
        return tuple(Row(name, "1", limit, lower=True, kind="singularity", group=name) for name in names)

    def values(self, trace: Trace) -> FloatArray:
        assert isinstance(trace.robot.mechanism, CanBeSingular)
        return trace.robot.mechanism.singularity_distances(trace.motion.q)

    def searched(self, robot: Robot) -> bool:
        """Return True if a distance is required."""
        return self.least > 0.0 and isinstance(robot.mechanism, CanBeSingular)

    def population(self, population: Population) -> FloatArray:
        mechanism = population.robot.mechanism
        assert isinstance(mechanism, CanBeSingular)
        least = np.array([mechanism.singularity_distances(q.T).min(axis=0) for q in population.q])
        return self.violations(population.robot, least, population.reserve)

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        assert isinstance(robot.mechanism, ClosedLoop)
        return singularity_bounds(robot.mechanism, part)

    def unprovable(self, robot: Robot, trusted: bool) -> str:
        """Return why no bound is known: closed chains have one."""
        if isinstance(robot.mechanism, ClosedLoop):
            return ""
        return f"no bound of {self.quantity} between samples is known for a {type(robot.mechanism).__name__}"

    def describe(self, robot: Robot, group: str) -> str:
        return f"distance to the {group.removeprefix('singularity: ')} singularity (at least {self.least:g})"

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        after = max(0.0, float(np.floor(1e3 * self.least * (1.0 - share)) / 1e3))
        words = (
            f"come nearer to the {group.removeprefix('singularity: ')} singularity: {after:g} instead of {self.least:g}"
        )
        before = np.array([self.least])
        return [Relaxation(group, "reduce clearance", "1", self.least - after, before, np.array([after]), words)]

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> "Singularity":
        return Singularity(float(relaxation.after[0]))
