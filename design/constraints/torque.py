"""Torque limits, peak and root mean square over the period, by the prior model, payload and friction included.

Torques are enclosed inside intervals, with the jumps of friction at reversals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from excitor.design.certify.bounds import Effort, Worst, links_curvature
from excitor.design.constraints.constraint import (
    ROOM,
    SEARCH,
    Compromise,
    Constraint,
    Margin,
    Population,
    Relaxation,
    Row,
    States,
    Trace,
    margin_of,
    number_changed,
    three_digits,
    unproven,
)
from excitor.design.motion import Segment, Spans, even_spans
from excitor.robots.arrays import FloatArray, IntArray, locked
from excitor.robots.dynamics import rigid_torque, rotor_matrix
from excitor.robots.friction import Range, friction_model, unbounded_terms
from excitor.robots.gram import gram_gradient
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import FrictionTerm, Motion, Robot

_FIRST_RMS, _MOST_RMS = 4096, 32768  # intervals of a period
_STANDSTILL = 1e-12  # of a joint's largest velocity


@dataclass(frozen=True, eq=False, slots=True)
class TorqueLimits(Constraint):
    """Largest torque of each joint; infinite ones are not stated."""

    limit: FloatArray  # (n_joints,)
    kind: ClassVar[str] = ""
    short: ClassVar[str] = ""
    needs_model: ClassVar[bool] = True
    quantity: ClassVar[str] = "the torque"

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", locked(self.limit))

    @property
    def stated(self) -> IntArray:
        """Joints whose limit is finite."""
        return np.flatnonzero(np.isfinite(self.limit))

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        units = np.where(robot.mechanism.prismatic, "N", "N m").tolist()
        names = {j: f"{self.kind} {robot.joint_names[j]}" for j in self.stated.tolist()}
        return tuple(
            Row(name, units[j], float(self.limit[j]), kind=self.kind, group=name, joint=j) for j, name in names.items()
        )

    def values(self, trace: Trace) -> FloatArray:
        return np.asarray(np.abs(trace.torque[:, self.stated]))

    def population(self, population: Population) -> FloatArray:
        """Evaluate the peaks over all samples, or the root mean squares over the period."""
        peaks, squares = population.torques
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.sqrt(squares) if self.per_period else peaks
            return self.violations(population.robot, values[:, self.stated], population.reserve)

    def unprovable(self, robot: Robot, trusted: bool) -> str:
        """Return why the torque is not bounded between samples."""
        reason = Constraint.unprovable(self, robot, trusted)
        if not reason and not trusted and not has_torque_model(robot):
            reason = (
                "no prior model: the masses of some links are unknown, so the torque is not proven; state them, "
                "or plan a gentle run without torque limits"
            )
        loose = ", ".join(f"{term.parameter!r} ({term.model})" for term in unbounded_terms(robot))
        if not reason and loose:
            reason = (
                f"friction {loose} is a registered law that states no bounds, so no torque between samples is bounded; "
                "state the bounds of its columns, or that they are rising"
            )
        return reason

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        robot, row = compromise.robot, self.row_of(compromise.robot, group)
        after, own = three_digits(row.limit * (1.0 + ROOM * share)), robot.limits.torque[row.joint]
        words = f"raise the {self.short} torque limit of {robot.joint_names[row.joint]}"
        words += f" from {row.limit:g} to {after:g} {row.unit}"
        words += f" (the robot's own is {own:g} {row.unit}), or carry less" if after > own else ", or carry less"
        return [number_changed(group, "raise", row.unit, before=row.limit, after=after, words=words)]

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> Self:
        limit = self.limit.copy()
        limit[self.row_of(robot, relaxation.group).joint] = relaxation.after[0]
        return replace(self, limit=limit)


class TorquePeak(TorqueLimits):
    """Largest torque of each joint at any time."""

    kind: ClassVar[str] = "torque peak"
    short: ClassVar[str] = "peak"
    effort: ClassVar[Effort] = Effort(n_first=2000)

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        inside, at_samples = largest_torques(robot, prior(robot), part)
        return inside[:, self.stated], at_samples[:, self.stated]

    def proof(self, robot: Robot, worst: Worst) -> str:
        rubs = ", friction by its range over each interval" if robot.drive.friction else ""
        return f"prior model, {Constraint.proof(self, robot, worst)}{rubs}"

    def into(self, constraints: Any) -> Any:
        return replace(constraints, limits=replace(constraints.limits, torque=self.limit))


class TorqueRms(TorqueLimits):
    """Largest root mean square of each joint's torque over the measured period."""

    kind: ClassVar[str] = "torque rms"
    short: ClassVar[str] = "RMS"
    per_period: ClassVar[bool] = True
    states: ClassVar[Mapping[str, str]] = {"torque_rms": "limit"}

    def worst(self, trace: Trace) -> FloatArray:
        return np.asarray(np.sqrt(np.mean(self.values(trace) ** 2, axis=0)))

    def means(self, robot: Robot, motion: Motion) -> FloatArray:
        return self.violations(robot, self.worst(Trace(robot, motion)))

    def mean_slopes(self, robot: Robot, motion: Motion, rows: IntArray) -> list[States]:
        """Differentiate √mean τ_i² by Σ_k τ_ik² = χᵀ G_i χ, G_i the Gram matrix of joint i."""
        found, chi, slopes = self.worst(Trace(robot, motion)), prior(robot), []
        for row in rows:
            joint, weights = self.stated[row], np.zeros(robot.n_joints)
            weights[joint] = 1.0
            bars = gram_gradient(robot, motion, gram_bar=np.outer(chi, chi), weights=weights)
            scale = 2.0 * len(motion) * max(found[row], 1e-12) * SEARCH.share * self.limit[joint]
            slopes.append((bars[0] / scale, bars[1] / scale, bars[2] / scale))
        return slopes

    def margins(self, robot: Robot, pieces: tuple[Segment, ...], *, trusted: bool = False) -> list[Margin]:
        """Prove an upper sum over the measured period: √(Σ h·sup τ² / period)."""
        rows, period = self.rows(robot), next((piece for piece in pieces if piece.degree), None)
        if not rows or period is None:
            return []
        reason = self.unprovable(robot, trusted)
        if reason:
            return [unproven(row, reason) for row in rows]
        n, chi = _FIRST_RMS, prior(robot)
        while True:
            part = even_spans(period, n)
            above, values = largest_torques(robot, chi, part)
            upper = root_mean_square(above, part)
            seen = np.sqrt((values[1:] ** 2).mean(axis=0))
            open_ = (upper > self.limit) & (seen <= self.limit)
            if n >= _MOST_RMS or not open_.any():
                break
            n *= 2
        proof = f"prior model, upper sum of {n} intervals: √(Σ h·sup τ² / period)"
        return [
            margin_of(row, float(upper[row.joint]), float(seen[row.joint]), proof=proof, where=period.name)
            for row in rows
        ]


def has_torque_model(robot: Robot) -> bool:
    """Return True if the masses of all links are known beforehand."""
    masses = 10 * np.arange(robot.mechanism.n_links) + 9
    return bool(robot.known[masses].all())


@dataclass(frozen=True, eq=False, slots=True)
class FrictionRanges:
    """Inputs of friction terms (q, dq, rigid-body torque) as ranges over intervals; at samples these are points."""

    q: Range
    dq: Range
    rigid: Range


def largest_torques(robot: Robot, chi: FloatArray, part: Spans) -> tuple[FloatArray, FloatArray]:
    """Bound |τ| over intervals (n_spans, n_joints), and evaluate it at their samples (n_t, n_joints)."""
    rates = part.rates()
    rigid = rigid_torque(robot, part.motion, chi)
    phi = chi[: layout(robot).n_link_params].reshape(-1, 10)
    links_bend, known = links_curvature(robot.mechanism, phi, part)
    bend = links_bend + rates[4] @ np.abs(rotor_matrix(robot, chi)).T
    viscous, offset = _linear_friction(robot, chi)
    smooth = rigid + part.jets[1] @ viscous.T + offset
    inside, at_samples = friction_ranges(part, rigid, bend)
    over = part.enclose(smooth, bend + rates[3] @ np.abs(viscous).T)
    largest = np.where(known[:, None], _largest(robot, chi, over, inside), np.inf)
    return largest, _largest(robot, chi, (smooth, smooth), at_samples)


def friction_ranges(part: Spans, rigid: FloatArray, bend: FloatArray) -> tuple[FrictionRanges, FrictionRanges]:
    """Enclose what friction senses, inside intervals and at samples, given rigid-body torques and their curvature."""
    rates, still = part.rates(), _STANDSTILL * part.segment.bounds(1)
    inside = FrictionRanges(
        part.enclose(part.jets[0], rates[2]), part.enclose(part.jets[1], rates[3]), part.enclose(rigid, bend)
    )
    at_samples = FrictionRanges(
        (part.jets[0], part.jets[0]), (part.jets[1] - still, part.jets[1] + still), (rigid, rigid)
    )
    return inside, at_samples


def form_slopes(robot: Robot, motion: Motion, joints: IntArray, form: FloatArray) -> FloatArray:
    """Differentiate Y_j F Y_jᵀ, Y_j the row of joint joints[k], by the states of sample k, (3, n_samples, n_joints).

    A form is a Gram matrix's product with F, and depends on each sample by itself.
    """
    out = np.zeros((3, *motion.q.shape))
    for joint in np.unique(joints):
        at, weights = np.flatnonzero(joints == joint), np.zeros(robot.n_joints)
        weights[joint] = 1.0
        states = Motion(motion.q[at], motion.dq[at], motion.ddq[at])
        out[:, at] = gram_gradient(robot, states, gram_bar=form, weights=weights)
    return out


def root_mean_square(upper: FloatArray, part: Spans) -> FloatArray:
    """Bound the root mean square over all intervals: √(Σ h sup τ² / Σ h), (n_joints,)."""
    h = part.h
    return np.asarray(np.sqrt((h * upper**2).sum(axis=0) / h.sum()))


def _largest(robot: Robot, chi: FloatArray, smooth: Range, sensed: FrictionRanges) -> FloatArray:
    low, high = smooth[0].copy(), smooth[1].copy()
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if friction_model(term).shape in ("linear", "constant"):
            continue
        g = friction_range(term, sensed)
        for joint in np.flatnonzero(term.acts):
            share = _scale(float(term.acts[joint] * chi[column]), g)
            low[:, joint] += share[0]
            high[:, joint] += share[1]
    return np.maximum(-low, high)


def _linear_friction(robot: Robot, chi: FloatArray) -> Range:
    """Collect viscous friction as a matrix on dq, and offsets as a vector."""
    viscous, offset = np.zeros((robot.n_joints, robot.n_joints)), np.zeros(robot.n_joints)
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        shape = friction_model(term).shape
        if shape == "linear":
            viscous += chi[column] * np.outer(term.acts, term.senses)
        elif shape == "constant":
            offset += chi[column] * term.acts
    return viscous, offset


def friction_range(term: FrictionTerm, sensed: FrictionRanges) -> Range:
    """Enclose g of a friction term by its row of the friction table."""
    p, v = _combine(term.senses, sensed.q), _combine(term.senses, sensed.dq)
    return friction_model(term).enclose(term, p, v, _combine(term.acts, sensed.rigid))


def _combine(weights: FloatArray, values: Range) -> Range:
    rising, falling = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    return values[0] @ rising + values[1] @ falling, values[1] @ rising + values[0] @ falling


def _scale(factor: float, values: Range) -> Range:
    return (factor * values[0], factor * values[1]) if factor >= 0.0 else (factor * values[1], factor * values[0])
