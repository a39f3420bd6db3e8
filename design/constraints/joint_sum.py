"""Range of a sum of joint positions, as palletisers and coupled arms state it: low ≤ Σ w_j q_j ≤ high."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, FiniteFloat

from excitor.design.constraints.constraint import (
    ROOM,
    SEARCH,
    Compromise,
    Constraint,
    ConstraintKind,
    Relaxation,
    Reserve,
    Row,
    Trace,
)
from excitor.design.motion import Spans
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import did_you_mean
from excitor.robots.files.schema import Table
from excitor.robots.robot import Robot


@dataclass(frozen=True, eq=False, slots=True)
class JointSum(Constraint):
    """Range of a weighted sum of joint positions.

    Args:
        weights: by joint name, such as {"j2": 1.0, "j3": 1.0}.
        low: rad, or m where the joints slide.
        high: the same.
    """

    weights: Mapping[str, float]
    low: float
    high: float
    order: ClassVar[int] = 0
    everywhere: ClassVar[bool] = True
    quantity: ClassVar[str] = "the sum"
    method: ClassVar[str] = "{intervals}: ends + h²/8·Σ|w| max|q̈|"

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise ValueError(f"low is {self.low}, high {self.high}, expected two finite numbers, the lower first")
        if not self.weights or not all(np.isfinite(w) and w != 0.0 for w in self.weights.values()):
            raise ValueError(f"weights are {dict(self.weights)}, expected a number other than 0 for each joint named")

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        w = self._row(robot)
        sliding = robot.mechanism.prismatic[w != 0.0]
        unit = "m" if sliding.all() else "rad"
        group = f"joint sum {self._words()}"
        ends = ((" upper", self.high, False), (" lower", self.low, True))
        return tuple(Row(group + side, unit, limit, lower, "joint sum", group) for side, limit, lower in ends)

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate the sum, once for each limit."""
        total = trace.motion.q @ self._row(trace.robot)
        return np.column_stack([total, total])

    def violations(self, robot: Robot, values: FloatArray, reserve: Reserve = SEARCH) -> FloatArray:
        """Turn sums into shares of half the range."""
        middle, half = 0.5 * (self.high + self.low), 0.5 * (self.high - self.low)
        beyond = (values - middle) * np.array([1.0, -1.0]) / half
        return np.asarray(beyond / reserve.share - 1.0)

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound the sum by samples and |Σ w q̈| ≤ Σ |w| |q̈|."""
        w = self._row(robot)
        total = (part.jets[0] @ w)[:, None]
        low, high = part.enclose(total, (part.rates()[2] @ np.abs(w))[:, None])
        return np.concatenate([high, low], axis=1), np.concatenate([total, total], axis=1)

    def slacks(self, robot: Robot) -> FloatArray:
        return np.full(2, 1e-3 * (self.high - self.low))

    def describe(self, robot: Robot, group: str) -> str:
        return f"range of {self._words()} ({self._range(robot, self.low, self.high)})"

    def slack(self, robot: Robot, group: str, share: float) -> float:
        return share * 0.5 * (self.high - self.low)

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        """Widen the range to where the motion goes."""
        robot = compromise.robot
        total = np.einsum("j,jk->k", self._row(robot), compromise.population.places[0])
        middle, half = 0.5 * (self.high + self.low), 0.5 * (self.high - self.low)
        wider = max(total.max() - middle, middle - total.min(), half) * ROOM / SEARCH.share
        before, after = np.array([self.low, self.high]), np.array([middle - wider, middle + wider])
        words = f"widen the range of {self._words()} from {self._range(robot, *before)} to {self._range(robot, *after)}"
        unit = self.rows(robot)[0].unit
        return [Relaxation(group, "widen", unit, float(wider - half), before, after, words)]

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> "JointSum":
        return JointSum(self.weights, float(relaxation.after[0]), float(relaxation.after[1]))

    def _row(self, robot: Robot) -> FloatArray:
        """Weights of all joints, (n_joints,)."""
        unknown = [name for name in self.weights if name not in robot.joint_names]
        if unknown:
            names = ", ".join(robot.joint_names) + did_you_mean(unknown[0], robot.joint_names)
            raise ValueError(f"joint sum: {unknown[0]!r} is no joint of {robot.name}; its joints are {names}")
        w = np.array([self.weights.get(name, 0.0) for name in robot.joint_names])
        if len(set(robot.mechanism.prismatic[w != 0.0].tolist())) > 1:
            raise ValueError(f"joint sum {self._words()}: adds a joint that slides to one that turns")
        return w

    def _words(self) -> str:
        text = " ".join(
            f"{'-' if w < 0.0 else '+'} {'' if abs(w) == 1.0 else f'{abs(w):g} '}{name}"
            for name, w in self.weights.items()
        )
        return text.removeprefix("+ ")

    def _range(self, robot: Robot, low: float, high: float) -> str:
        if self.rows(robot)[0].unit == "m":
            return f"{low:.3f} … {high:.3f} m"
        return f"{np.degrees(low):.1f} … {np.degrees(high):.1f}°"


class JointSumTable(Table):
    """Keys of a joint sum in campaign.toml: degrees where the joints turn, metres where they slide."""

    weights: Annotated[dict[str, FiniteFloat], Field(min_length=1, max_length=100)]  # factor of each joint
    range_deg: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)] | None = None  # lowest and highest sum
    # the same where joints slide
    range_m: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)] | None = None


def _build(robot: Robot, table: JointSumTable) -> JointSum:
    found = JointSum(table.weights, -1.0, 1.0)
    slides = found.rows(robot)[0].unit == "m"
    wanted, other = (table.range_m, table.range_deg) if slides else (table.range_deg, table.range_m)
    if wanted is None or other is not None:
        raise ValueError(f"the joints {'slide' if slides else 'turn'}: give {'range_m' if slides else 'range_deg'}")
    low, high = np.array(wanted) * (1.0 if slides else np.pi / 180.0)
    return JointSum(table.weights, float(low), float(high))


def _example(robot: Robot) -> Mapping[str, Any]:
    turning = [name for name, slides in zip(robot.joint_names, robot.mechanism.prismatic, strict=True) if not slides]
    if len(turning) >= 2:
        return {"weights": {turning[0]: 1.0, turning[1]: -0.5}, "range_deg": [-40.0, 30.0]}
    return {"weights": {robot.joint_names[0]: 1.0}, "range_deg" if turning else "range_m": [-0.4, 0.3]}


KIND = ConstraintKind(
    "joint-sum", "A weighted sum of joint positions stays within a range.", JointSumTable, _build, _example
)
