"""Joint limits: positions, velocities, accelerations, jerks.

The search keeps them by the way its design variables are decoded. Between samples: Ehlich-Zeller on whole periods,
samples and a bound of the curvature elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from excitor.design.certify.bounds import Effort, Worst, worst_case
from excitor.design.constraints.constraint import (
    ROOM,
    SEARCH,
    Compromise,
    Constraint,
    Margin,
    Relaxation,
    Reserve,
    Row,
    Trace,
    margin_of,
    place_words,
)
from excitor.design.motion import Segment, Spans
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Limits, Robot

QUANTITIES = ("position", "velocity", "acceleration", "jerk")
_UNITS = ("rad", "rad/s", "rad/s2", "rad/s3"), ("m", "m/s", "m/s2", "m/s3")
_OVERSAMPLING = 256  # samples per cycle of the top harmonic, over 2π: the bound exceeds the samples by 0.0075 %


@dataclass(frozen=True, eq=False, slots=True)
class JointLimits(Constraint):
    """Ranges of positions and largest rates of all joints; infinite ones are not stated."""

    limits: Limits
    effort: ClassVar[Effort] = Effort(n_first=512)
    states: ClassVar[Mapping[str, str]] = {"limits": "limits"}

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        """List the stated limits: highest positions, lowest positions, then velocities, accelerations, jerks."""
        limit, order = self._limits(), [0, 0, 1, 2, 3]
        rows = []
        for row in map(int, np.flatnonzero(np.isfinite(limit))):
            kind, joint = divmod(row, robot.n_joints)
            quantity, name = QUANTITIES[order[kind]], robot.joint_names[joint]
            unit = _UNITS[int(robot.mechanism.prismatic[joint])][order[kind]]
            side = (" upper", " lower", "", "", "")[kind]
            value = -float(limit[row]) if kind == 1 else float(limit[row])
            rows.append(Row(f"{quantity} {name}{side}", unit, value, kind == 1, quantity, f"{quantity} {name}", joint))
        return tuple(rows)

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate the stated rows; jerks count as none where the trace has none."""
        motion = trace.motion
        jerk = np.zeros_like(motion.q) if trace.jerk is None else trace.jerk
        sizes = [np.abs(x) for x in (motion.dq, motion.ddq, jerk)]
        return np.concatenate([motion.q, motion.q, *sizes], axis=1)[:, np.isfinite(self._limits())]

    def searched(self, robot: Robot) -> bool:
        """Return False: decoding keeps them."""
        return False

    def violations(self, robot: Robot, values: FloatArray, reserve: Reserve = SEARCH) -> FloatArray:
        """Turn values into shares: positions of half their range, rates of their limits."""
        g = np.empty_like(values)
        for k, row in enumerate(self.rows(robot)):
            if row.kind != "position":
                g[:, k] = values[:, k] / (reserve.share * row.limit) - 1.0
                continue
            width = np.ptp(self.limits.position[row.joint])
            half = 0.5 * width if np.isfinite(width) else 1.0
            g[:, k] = (row.side * (values[:, k] - row.limit) + (1.0 - reserve.share) * half) / half
        return g

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound positions from above and below, and the sizes of their derivatives."""
        n, stated = robot.n_joints, np.isfinite(self._limits())
        side = np.repeat([1.0, -1.0, 1.0, 1.0, 1.0], n)[stated]
        inside, at_samples = _bound(part)
        return side * inside[:, stated], side * at_samples[:, stated]

    def margins(self, robot: Robot, pieces: tuple[Segment, ...], *, trusted: bool = False) -> list[Margin]:
        """Prove the rows: whole periods by Ehlich-Zeller, what is smooth by bisection."""
        limit = self._limits()
        periodic = [piece for piece in pieces if piece.degree]
        smooth = tuple(piece for piece in pieces if not piece.degree)
        found = [ehlich_zeller(piece) for piece in periodic]
        if smooth:
            found.append(worst_case(smooth, _bound, limit=limit, slack=self._slack(), effort=self.effort))
        largest = np.argmax(np.stack([worst.upper for worst in found]), axis=0)
        proofs = [
            f"{piece.name}: Ehlich-Zeller, n={piece.degree}, N={worst.n_spans}: grid maximum / cos(πn/N)"
            for piece, worst in zip(periodic, found, strict=False)
        ]
        if smooth:
            names = ", ".join(piece.name for piece in smooth)
            proofs.append(f"{names}: grid of {found[-1].n_spans} + h²/8·max|f''|")
        proof = "; ".join(proofs)
        margins = []
        for row, k in zip(self.rows(robot), map(int, np.flatnonzero(np.isfinite(limit))), strict=True):
            worst, side = found[largest[k]], row.side
            where = f"{worst.at[k]:.3f} s, {worst.where[k]}"
            margins.append(
                margin_of(row, side * float(worst.upper[k]), side * float(worst.seen[k]), proof=proof, where=where)
            )
        return margins

    def describe(self, robot: Robot, group: str) -> str:
        j = self.row_of(robot, group).joint
        return f"position limits of {robot.joint_names[j]} ({self._range_words(robot, j, self.limits.position[j])})"

    def slack(self, robot: Robot, group: str, share: float) -> float:
        return share * 0.5 * float(np.ptp(self.limits.position[self.row_of(robot, group).joint]))

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        """Widen the range to where the motion goes."""
        robot = compromise.robot
        j = self.row_of(robot, group).joint
        before, q = self.limits.position[j], compromise.population.q[0, j]
        low, high = min(before[0], q.min()), max(before[1], q.max())
        low, high = before[0] + ROOM * (low - before[0]), before[1] + ROOM * (high - before[1])
        margin = (1.0 / compromise.used[j] - 1.0) * 0.5 * (high - low) * 1.01 + 1e-9
        after = np.array([low - margin if low < before[0] else low, high + margin if high > before[1] else high])
        own = robot.limits.position[j]
        after = np.clip(after, min(own[0], before[0]), max(own[1], before[1]))
        words = (
            f"widen the range of {robot.joint_names[j]} from {self._range_words(robot, j, before)} "
            f"to {self._range_words(robot, j, after)}"
        )
        unit = _UNITS[int(robot.mechanism.prismatic[j])][0]
        return [Relaxation(group, "widen", unit, float(np.abs(after - before).max()), before, after, words)]

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> "JointLimits":
        position = self.limits.position.copy()
        position[self.row_of(robot, relaxation.group).joint] = relaxation.after
        return JointLimits(replace(self.limits, position=position))

    def _limits(self) -> FloatArray:
        """Limits of the rows q, -q, then |q̇|, |q̈|, |q⃛| of all joints, (5 n_joints,)."""
        low, high = self.limits.position.T
        return np.concatenate([high, -low, self.limits.velocity, self.limits.acceleration, self.limits.jerk])

    def _slack(self) -> FloatArray:
        limits = self.limits
        width = np.ptp(limits.position, axis=1)
        scale = np.concatenate([width, width, limits.velocity, limits.acceleration, limits.jerk])
        return np.where(np.isfinite(self._limits()) & np.isfinite(scale), 1e-3 * np.abs(scale), np.inf)

    def _range_words(self, robot: Robot, j: int, ends: FloatArray) -> str:
        return f"{place_words(robot, j, float(ends[0]))} … {place_words(robot, j, float(ends[1]))}"


def ehlich_zeller(piece: Segment) -> Worst:
    """Bound q, -q, |q̇|, |q̈|, |q⃛| over a period: max|p| ≤ max_k |p(t_k)| / cos(πn/N), p of degree n, N > 2n samples.

    Positions are first shifted by the middle of their samples, so that only their amplitude is enlarged.
    """
    n_samples = _OVERSAMPLING * piece.degree
    t = np.arange(n_samples) * (piece.duration / n_samples)
    stretch = 1.0 / np.cos(np.pi * piece.degree / n_samples)
    q = piece.at(t, 0)
    middle, half = 0.5 * (q.max(axis=0) + q.min(axis=0)), 0.5 * (q.max(axis=0) - q.min(axis=0))
    sizes = [np.abs(piece.at(t, order)) for order in (1, 2, 3)]
    values = np.concatenate([q, -q, *sizes], axis=1)
    seen = values.max(axis=0)
    swung = half * stretch
    upper = np.concatenate([middle + swung, -middle + swung, *(size.max(axis=0) * stretch for size in sizes)])
    at = piece.start + t[np.argmax(values, axis=0)]
    return Worst(upper, seen, at, (piece.name,) * seen.size, n_samples, piece.duration / n_samples)


def _bound(part: Spans) -> tuple[FloatArray, FloatArray]:
    """Bound q, -q, |q̇|, |q̈|, |q⃛| inside intervals, and evaluate them at the samples."""
    rates, h = part.rates(), part.h
    low, high = part.enclose(part.jets[0], rates[2])
    bends = [rates[3], rates[4], np.broadcast_to(part.segment.bounds(5), rates[4].shape)]
    inside = [
        part.worst_of_ends(np.abs(part.jets[order])) + h**2 / 8.0 * bend
        for order, bend in zip((1, 2, 3), bends, strict=True)
    ]
    at_ends = [np.abs(part.jets[order]) for order in (1, 2, 3)]
    q = part.jets[0]
    return np.concatenate([high, -low, *inside], axis=1), np.concatenate([q, -q, *at_ends], axis=1)
