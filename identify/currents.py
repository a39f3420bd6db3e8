"""Currents of drives without a law: the gain of every drive beside a reference drive's, so that one model fits all.

I_j = g_j Y_j β, with g = 1 at the reference: β and torques are then in A of the reference drive.
"""

from dataclasses import replace

import numpy as np

from excitor.identify.estimate import triangle
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

LAW_NEEDED = "state torque_from_current and torque_from_current_sigma under [drive] of the robot's file"
SPREAD = 0.5  # of the logarithms of gains about those that the prior model suggests
_ROUNDS = 50
_SETTLED = 1e-10


def why_not(robot: Robot) -> str:
    """Say why currents of a robot cannot go without a law; empty where they can."""
    if robot.mechanism.prismatic.any():
        return "joints slide and turn, whose currents have no common unit"
    gears = robot.drive.motor_from_joint
    return "" if np.array_equal(gears, np.diag(np.diagonal(gears))) else "motors are coupled, so currents do not add"


def in_amperes(robot: Robot) -> Robot:
    """Let currents stand for joint torques, 1 A per A, where the robot has no law; ExcitorError where they cannot."""
    if reason := why_not(robot):
        raise ExcitorError(f"{robot.name}: has no current law, and {reason}; {LAW_NEEDED}")
    law = np.zeros((robot.n_joints, 4))
    law[:, 1] = 1.0 / np.diagonal(robot.drive.motor_from_joint)
    return replace(robot, drive=replace(robot.drive, torque_from_current=law, in_amperes=True))


def rescaled(robot: Robot, relative: FloatArray, per_torque: float) -> Robot:
    """Set the drives' relative gains, (n_joints,), and convert priors and limits: A of the reference per N m."""
    units = layout(robot).units
    chi = robot.chi * np.where([unit == "1" for unit in units], 1.0, per_torque)
    payload = robot.payload if robot.payload is None else replace(robot.payload, phi=per_torque * robot.payload.phi)
    drive = replace(robot.drive, torque_from_current=robot.drive.torque_from_current * relative[:, None])
    limits = replace(robot.limits, torque=per_torque * robot.limits.torque)
    return replace(robot, chi=chi, payload=payload, drive=drive, limits=limits)


def relative_law(robot: Robot) -> list[float]:
    """Return A of the reference drive per A of each, of a robot whose torques are in A."""
    return [float(x) for x in robot.drive.torque_from_current[:, 1] * np.diagonal(robot.drive.motor_from_joint)]


def relative_gains(regression: Regression, prior: FloatArray) -> tuple[FloatArray, float, int]:
    """Fit β and the drives' gains to currents: (A of the reference per A, A of the reference per N m, the reference).

    Gauss-Newton on the joints' triangles, rows weighted by their residuals; log g has a wide prior, from the prior
    parameters' torques, so that a joint that shares nothing with the others keeps a gain. The reference is the joint
    with the largest torques.
    """
    size = np.linalg.norm(regression.W, axis=0)
    size[size == 0.0] = 1.0
    n, beta = len(regression.joint_names), prior * size
    rows = [regression.joint == j for j in range(n)]
    parts = [triangle(np.column_stack([regression.W[r] / size, regression.y[r]])) if r.any() else None for r in rows]
    A = [np.zeros((0, len(size))) if part is None else part[:, :-1] for part in parts]
    b = [np.zeros(0) if part is None else part[:, -1] for part in parts]
    power = np.array([np.sum((A_j @ beta) ** 2) for A_j in A])
    shared = np.array([(A_j @ beta) @ b_j for A_j, b_j in zip(A, b, strict=True)])
    if not (shared > 0.0).any():
        raise ExcitorError("the currents are not those of the prior model's torques; check their signs and the masses")
    per_torque = np.where(shared > 0.0, shared / np.where(power > 0.0, power, 1.0), np.nan)
    per_torque = np.where(np.isnan(per_torque), np.nanmedian(per_torque), per_torque)
    reference = int(np.argmax(np.where(shared > 0.0, power / np.maximum([r.sum() for r in rows], 1), -1.0)))
    first = np.log(per_torque / per_torque[reference])
    free = [j for j in range(n) if j != reference and len(b[j])]
    log_g, beta = first.copy(), beta * per_torque[reference]
    sigma = np.array([np.linalg.norm(b_j) / np.sqrt(max(r.sum(), 1)) or 1.0 for b_j, r in zip(b, rows, strict=True)])
    for _ in range(_ROUNDS):
        blocks, errors = [], []
        for j in range(n):
            model = np.exp(log_g[j]) * A[j]
            steps = np.outer(model @ beta, [float(k == j) for k in free])
            blocks.append(np.column_stack([model, steps]) / sigma[j])
            errors.append((b[j] - model @ beta) / sigma[j])
        blocks.append(np.column_stack([np.zeros((len(free), len(size))), np.eye(len(free)) / SPREAD]))
        errors.append((first - log_g)[free] / SPREAD)
        step = np.linalg.lstsq(np.concatenate(blocks), np.concatenate(errors), rcond=1e-10)[0]
        beta, change = beta + step[: len(size)], np.clip(step[len(size) :], -1.0, 1.0)
        log_g[free] += change
        left = [
            np.linalg.norm(b[j] - np.exp(log_g[j]) * A[j] @ beta) / np.sqrt(max(rows[j].sum(), 1)) for j in range(n)
        ]
        sigma = np.maximum(left, 1e-6 * sigma.max())
        if np.abs(change).max(initial=0.0) < _SETTLED:
            break
    return np.exp(-log_g), float(per_torque[reference]), reference
