"""Margins of clearance in the cell, of the tool's speed and of distances to singularities, between samples too."""

import numpy as np

from excitor.design.approach import slides
from excitor.design.certify.bounds import (
    Effort,
    Worst,
    body_point_rates,
    closed_row_speeds,
    singularity_bounds,
    worst_case,
)
from excitor.design.certify.certificate import Margin, above, below, unproven
from excitor.design.motion import Segment, Spans
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import Scene, clearances, required, row_names, row_speed_bounds, tool_speeds
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.robot import CanBeSingular, Limits, Robot
from excitor.robots.tree import Tree

_CLEARANCES = Effort(n_first=1000, share=0.25)
_SPEED = Effort(n_first=1000)
_CLOSE = 2e-3  # m: how sharply a clearance is bounded where little is spare


def clearance_margins(robot: Robot, pieces: tuple[Segment, ...], scene: Scene, limits: Limits) -> list[Margin]:
    """Compare every row's distance with what it must keep.

    Between samples h apart, d ≥ (d_a + d_b)/2 - L h/2 with L how fast the distance can change at the joints' speeds.
    """
    need, names = required(robot, scene), row_names(robot, scene)
    if not isinstance(robot.mechanism, (Tree, ClosedLoop)):
        reason = f"no bound of the distance between samples is known for a {type(robot.mechanism).__name__}"
        return [
            unproven(f"clearance: {name}", "m", limit=float(row), reason=reason)
            for name, row in zip(names, need, strict=True)
        ]
    if not need.size or not pieces:
        return []
    reach = np.max([piece.bounds(0) for piece in pieces], axis=0)
    is_tree = isinstance(robot.mechanism, Tree)
    travel = slides(robot, limits, -reach, reach) if is_tree else np.zeros((robot.n_joints, 2))

    def bound(part: Spans) -> tuple[FloatArray, FloatArray]:
        d = clearances(robot, scene, part.jets[0])
        if is_tree:
            L = row_speed_bounds(robot, scene, part.rates()[1], travel)
        else:
            L = closed_row_speeds(robot, scene, part)
        lowest = 0.5 * (d[part.left] + d[part.right]) - 0.5 * part.h * L
        return need - lowest, need - d

    slack = np.full(need.size, _CLOSE)
    worst = worst_case(pieces, bound, limit=np.zeros(need.size), slack=slack, effort=_CLEARANCES)
    return [
        above(
            f"clearance: {name}",
            "m",
            limit=float(need[row]),
            lower=float(need[row] - worst.upper[row]),
            seen=float(need[row] - worst.seen[row]),
            proof=f"Lipschitz, {worst.n_spans} intervals, smallest {1e3 * worst.smallest:.3g} ms",
            where=_where(worst, row),
        )
        for row, name in enumerate(names)
    ]


def tool_speed_margins(robot: Robot, pieces: tuple[Segment, ...], limit: float) -> list[Margin]:
    """Compare the tool's speed with its limit: |ṗ| ≤ max(|ṗ_a|, |ṗ_b|) + h²/8 · max|p⃛|."""
    if not np.isfinite(limit):
        return []
    mechanism, tool = robot.mechanism, robot.tool
    if not isinstance(mechanism, (Tree, ClosedLoop)):
        reason = f"no bound of the tool's speed between samples is known for a {type(mechanism).__name__}"
        return [unproven("tool speed", "m/s", limit=limit, reason=reason)]

    def bound(part: Spans) -> tuple[FloatArray, FloatArray]:
        speed = tool_speeds(robot, part.motion)
        rates = body_point_rates(mechanism, tool.link, tool.T_link_frame[:3, 3], part)
        inside = part.worst_of_ends(speed)[:, None] + part.h**2 / 8.0 * rates[3][:, None]
        return inside, speed[:, None]

    worst = worst_case(pieces, bound, limit=np.array([limit]), slack=np.array([5e-3 * limit]), effort=_SPEED)
    return [
        below(
            "tool speed",
            "m/s",
            limit=limit,
            upper=float(worst.upper[0]),
            seen=float(worst.seen[0]),
            proof=f"{worst.n_spans} intervals, smallest {1e3 * worst.smallest:.3g} ms: ends + h²/8·max|p⃛|",
            where=_where(worst, 0),
        )
    ]


def _where(worst: Worst, row: int) -> str:
    return f"{worst.at[row]:.3f} s, {worst.where[row]}"


_EFFORT = Effort(n_first=1000, share=0.25, most_spans=20_000)
_DISTANCE_TOLERANCE = 1e-2  # how sharply a distance is bounded where little is spare


def singularity_margins(robot: Robot, pieces: tuple[Segment, ...], least: float) -> list[Margin]:
    """Compare the distance to each type of singularity with what must be kept; more than 0 in any case."""
    mechanism = robot.mechanism
    if not isinstance(mechanism, CanBeSingular) or not pieces:
        return []
    limit = max(0.0, least)
    names = [f"singularity: {name}" for name in mechanism.singularity_names]
    if not isinstance(mechanism, ClosedLoop):
        reason = f"no bound of the distance to singularities between samples is known for a {type(mechanism).__name__}"
        return [unproven(name, "1", limit=limit, reason=reason) for name in names]

    def bound(part: Spans) -> tuple[FloatArray, FloatArray]:
        lowest, at_samples = singularity_bounds(mechanism, part)
        return limit - lowest, limit - at_samples

    none = np.zeros(len(names))
    worst = worst_case(pieces, bound, limit=none, slack=none + _DISTANCE_TOLERANCE, effort=_EFFORT)
    return [
        above(
            name,
            "1",
            limit=limit,
            lower=float(limit - worst.upper[row]),
            seen=float(limit - worst.seen[row]),
            proof=f"Lipschitz, {worst.n_spans} intervals, smallest {1e3 * worst.smallest:.3g} ms; it stays assembled",
            where=f"{worst.at[row]:.3f} s, {worst.where[row]}",
        )
        for row, name in enumerate(names)
    ]
