"""All constraints of a run: the limits that campaigns state, as numbers, and what they are as constraint objects."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from excitor.design.constraints.clearance import Clearance
from excitor.design.constraints.constraint import Constraint, Relaxation, Row, Trace, beyond, sides
from excitor.design.constraints.home import Home
from excitor.design.constraints.joint_limits import JointLimits
from excitor.design.constraints.singularity import Singularity
from excitor.design.constraints.tool_speed import ToolSpeed
from excitor.design.constraints.torque import TorquePeak, TorqueRms
from excitor.robots.arrays import FloatArray, check_shape, locked
from excitor.robots.cell import Scene
from excitor.robots.robot import Limits, Robot, posture

N_WAY = 24  # samples of a straight way from home
_CHUNK = 20_000  # samples that are evaluated at once


@dataclass(frozen=True, eq=False, slots=True)
class Constraints:
    """All limits of a run; margins have been taken off already."""

    limits: Limits
    torque_rms: FloatArray  # (n_joints,), over the measured period; inf where nothing is stated
    scene: Scene | None = None
    tool_speed: float = np.inf  # m/s
    home: FloatArray | None = None  # (n_joints,): where the robot waits; the way to the start is kept clear too
    singularity: float = 0.15  # distance that a mechanism keeps from each of its singularities, in its own measure
    others: tuple[Constraint, ...] = ()  # of further kinds
    items: tuple[Constraint, ...] = field(init=False, repr=False)  # those on a motion's samples, as objects
    way: Home | None = field(init=False, repr=False)  # home, as an object

    def __post_init__(self) -> None:
        object.__setattr__(self, "torque_rms", locked(self.torque_rms))
        n_joints = self.limits.velocity.size
        check_shape(self.torque_rms, str(n_joints), "torque_rms")
        if self.home is not None:
            object.__setattr__(self, "home", locked(self.home))
            check_shape(self.home, str(n_joints), "home")
        way = None if self.home is None else Home(self.home, np.ones(n_joints, dtype=bool))
        object.__setattr__(self, "way", way)
        if not self.tool_speed > 0.0:
            raise ValueError(f"tool_speed is {self.tool_speed}, expected a positive speed in m/s")
        object.__setattr__(self, "items", tuple(self._built_in()) + self.others)

    def _built_in(self) -> Iterator[Constraint]:
        yield JointLimits(self.limits)
        if np.isfinite(self.limits.torque).any():
            yield TorquePeak(self.limits.torque)
        if np.isfinite(self.torque_rms).any():
            yield TorqueRms(self.torque_rms)
        if self.scene is not None:
            yield Clearance(self.scene, self.limits)
        if np.isfinite(self.tool_speed):
            yield ToolSpeed(self.tool_speed)
        yield Singularity(self.singularity)

    def searched(self, robot: Robot) -> tuple[Constraint, ...]:
        """List the constraints that a search treats as g ≤ 0."""
        return tuple(item for item in self.items if item.searched(robot))

    def of_poses(self, robot: Robot) -> tuple[Constraint, ...]:
        """List the constraints that a pose alone can violate, positions aside."""
        return tuple(item for item in self.items if item.order == 0 and (item.everywhere or item.rows(robot)))

    def ways(self, centers: FloatArray) -> FloatArray:
        """Sample the straight ways from home to several starts (n, n_joints), (n, n_joints, N_WAY)."""
        assert self.home is not None
        home = self.home[None, :, None]
        return np.asarray(home + np.linspace(0.0, 1.0, N_WAY) * (centers[:, :, None] - home))

    def owners(self, robot: Robot) -> dict[str, Constraint]:
        """Map each group of rows to the constraint that it belongs to."""
        items = (*self.items, self.way) if self.way is not None else self.items
        return {row.group: item for item in reversed(items) for row in item.rows(robot)}

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> "Constraints":
        """Apply a relaxation of one of the constraints."""
        old = self.owners(robot)[relaxation.group]
        new = old.relaxed(robot, relaxation)
        if old in self.others:
            return replace(self, others=tuple(new if item is old else item for item in self.others))
        changed: Constraints = new.into(self)
        return changed

    def pose_deficits(self, robot: Robot, q: FloatArray) -> tuple[list[Row], FloatArray]:
        """Evaluate what poses lack of the limits that poses alone can violate: rows, (n_poses, n_rows), > 0: violated.

        Positions are left out: their limits are known as numbers.
        """
        found: list[Row] = []
        deficits: list[FloatArray] = [np.empty((len(q), 0))]
        for item in self.of_poses(robot):
            rows = item.rows(robot)
            deficits.append(beyond(rows, item.values(Trace(robot, posture(q)))))
            found += rows
        return found, np.concatenate(deficits, axis=1)


def worst_rows(
    robot: Robot, constraints: Constraints, trace_at: Callable[[FloatArray], Trace], t: FloatArray
) -> tuple[tuple[Row, ...], FloatArray]:
    """Evaluate every row that each sample has, at the worst of a motion's samples: rows, (n_rows,)."""
    items = [item for item in constraints.items if not item.per_period and item.rows(robot)]
    rows = tuple(row for item in items for row in item.rows(robot))
    worst = []
    for first in range(0, len(t), _CHUNK):
        trace = trace_at(t[first : first + _CHUNK])
        worst.append(sides(rows) * np.concatenate([np.empty(0), *(item.worst(trace) for item in items)]))
    return rows, sides(rows) * np.max(worst, axis=0)
