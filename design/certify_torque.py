"""Torque limits between samples, peak and root mean square, by the prior model, friction and payload included."""

import numpy as np

from excitor.design.certificate import Margin, below, unproven
from excitor.design.pieces import Piece, Spans, even_spans
from excitor.design.torque_bounds import largest_torques, root_mean_square
from excitor.design.worst_case import Effort, worst_case
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.parameters import prior
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

_EFFORT = Effort(n_first=2000)
_FIRST_RMS, _MOST_RMS = 4096, 32768


def has_torque_model(robot: Robot) -> bool:
    """Tell whether the masses of all links are known beforehand."""
    masses = 10 * np.arange(robot.mechanism.n_links) + 9
    return bool(robot.known[masses].all())


def peak_margins(robot: Robot, pieces: tuple[Piece, ...], limit: FloatArray, trusted: bool) -> list[Margin]:
    """Compare peak torques with their limits, joint by joint; unstated ones left out.

    A model whose masses are not all known is used only where it is `trusted`.
    """
    stated = np.isfinite(limit)
    if not stated.any():
        return []
    reason = _no_model(robot, trusted)
    if reason:
        return _unproven("torque peak", robot, limit, reason)
    chi = prior(robot)

    def bound(part: Spans) -> tuple[FloatArray, FloatArray]:
        return largest_torques(robot, chi, part)

    slack = np.where(stated, 5e-3 * np.where(stated, limit, 0.0), np.inf)
    worst = worst_case(pieces, bound, limit=limit, slack=slack, effort=_EFFORT)
    proof = f"prior model, {worst.n_spans} intervals, smallest {1e3 * worst.smallest:.3g} ms: ends + h²/8·max|f''|"
    if robot.drive.friction:
        proof += ", friction by its range over each interval"
    return [
        below(
            f"torque peak {robot.joint_names[joint]}",
            _unit(robot, joint),
            limit=float(limit[joint]),
            upper=float(worst.upper[joint]),
            seen=float(worst.seen[joint]),
            proof=proof,
            where=f"{worst.at[joint]:.3f} s, {worst.where[joint]}",
        )
        for joint in map(int, np.flatnonzero(stated))
    ]


def rms_margins(robot: Robot, period: Piece, limit: FloatArray, trusted: bool) -> list[Margin]:
    """Compare root mean squares of the torques over a period with their limits; unstated ones left out."""
    stated = np.isfinite(limit)
    if not stated.any():
        return []
    reason = _no_model(robot, trusted)
    if reason:
        return _unproven("torque rms", robot, limit, reason)
    chi = prior(robot)
    n = _FIRST_RMS
    while True:
        part = even_spans(period, n)
        above, values = largest_torques(robot, chi, part)
        upper = root_mean_square(above, part)
        seen = np.sqrt((values[1:] ** 2).mean(axis=0))
        open_ = (upper > limit) & (seen <= limit)
        if n >= _MOST_RMS or not open_.any():
            break
        n *= 2
    return [
        below(
            f"torque rms {robot.joint_names[joint]}",
            _unit(robot, joint),
            limit=float(limit[joint]),
            upper=float(upper[joint]),
            seen=float(seen[joint]),
            proof=f"prior model, upper sum of {n} intervals: √(Σ h·sup τ² / period)",
            where=period.name,
        )
        for joint in map(int, np.flatnonzero(stated))
    ]


def torque_note(robot: Robot, stated: BoolArray) -> tuple[str, ...]:
    """Say that torque limits were not looked at."""
    if not stated.any():
        return ()
    names = ", ".join(np.array(robot.joint_names)[stated])
    return (f"torque limits of {names} were not checked: no prior model is used, so let this run be gentle",)


def _no_model(robot: Robot, trusted: bool) -> str:
    if not isinstance(robot.mechanism, (Tree, ClosedLoop)):
        return f"no bound of the torque between samples is known for a {type(robot.mechanism).__name__}"
    if not trusted and not has_torque_model(robot):
        return (
            "no prior model: the masses of some links are unknown, so the torque is not proven; state them, "
            "or let this run be gentle and do without torque limits"
        )
    return ""


def _unproven(name: str, robot: Robot, limit: FloatArray, reason: str) -> list[Margin]:
    return [
        unproven(f"{name} {robot.joint_names[joint]}", _unit(robot, joint), limit=float(limit[joint]), reason=reason)
        for joint in map(int, np.flatnonzero(np.isfinite(limit)))
    ]


def _unit(robot: Robot, joint: int) -> str:
    return "N" if robot.mechanism.prismatic[joint] else "N m"
