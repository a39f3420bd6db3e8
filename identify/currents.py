"""Currents of drives without a law: the gain of every drive beside a reference drive's, so that one model fits all.

I_j = g_j Y_j β, with g = 1 at the reference: β and torques are then in A of the reference drive.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares

from excitor.identify.estimate import Estimate, compress, rows_of_groups
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Robot

LAW_NEEDED = "state torque_from_current and torque_from_current_sigma under [drive] of the robot's file"
SPREAD = 0.5  # of the logarithms of gains about those that the prior model suggests
_ROUNDS = 3  # of weights


def why_not(robot: Robot) -> str:
    """Say why currents of a robot cannot go without a law; empty where they can."""
    if robot.mechanism.prismatic.any():
        return "joints slide and turn, whose currents have no common unit"
    gears = robot.drive.motor_from_joint
    return "" if np.array_equal(gears, np.diag(np.diagonal(gears))) else "motors are coupled, so currents do not add"


def in_amperes(robot: Robot) -> Robot:
    """Let currents stand for joint torques, 1 A per A, where the robot has no law and `why_not` no reason."""
    law = np.outer(1.0 / np.diagonal(robot.drive.motor_from_joint), [0.0, 1.0, 0.0, 0.0])
    return replace(robot, drive=replace(robot.drive, torque_from_current=law, in_amperes=True))


def rescaled(robot: Robot, relative: FloatArray, per_torque: float) -> Robot:
    """Set the drives' relative gains, (n_joints,), and convert priors and limits: A of the reference per N m."""
    chi = robot.chi * np.where([unit == "1" for unit in layout(robot).units], 1.0, per_torque)
    payload = robot.payload if robot.payload is None else replace(robot.payload, phi=per_torque * robot.payload.phi)
    drive = replace(robot.drive, torque_from_current=robot.drive.torque_from_current * relative[:, None])
    limits = replace(robot.limits, torque=per_torque * robot.limits.torque)
    return replace(robot, chi=chi, payload=payload, drive=drive, limits=limits)


def one_current(robot: Robot, regression: Regression) -> tuple[Robot, FloatArray, int]:
    """Fit a robot to currents: the robot in A of one drive, A of that drive per A (n_joints,), and the drive."""
    gains, per_torque, reference = relative_gains(regression, base_parameters(robot).values(prior(robot)))
    return rescaled(robot, gains, per_torque), gains, reference


def doubt_of_gains(regression: Regression, estimate: Estimate, reference: int, inflation: float) -> FloatArray:
    """Covariance that β has from the gains fitted with it: ∂β/∂log g_j = W⁺ (W β)_j, log g as far as W leaves it.

    `inflation` is that of σ over white residuals'.
    """
    sigma = rows_of_groups(regression, estimate)[:, None]
    W = regression.W[:, [regression.names.index(name) for name in estimate.names]] / sigma
    fitted, drives = W @ estimate.values, np.delete(np.arange(len(regression.joint_names)), reference)
    scaled = fitted[:, None] * (regression.joint[:, None] == drives)
    S = np.linalg.lstsq(W, scaled)[0]
    left = (scaled - W @ S) / inflation
    return np.asarray(S @ np.linalg.inv(left.T @ left + np.eye(len(drives)) / SPREAD**2) @ S.T)


def relative_gains(regression: Regression, prior: FloatArray) -> tuple[FloatArray, float, int]:
    """Fit β and the drives' gains to currents: (A of the reference per A, A of the reference per N m, the reference).

    β is eliminated (variable projection), rows are weighted by their residuals; log g has a wide prior, from the prior
    parameters' torques, for joints that share nothing with others. The reference has the largest torques.
    """
    n, factors = len(regression.joint_names), compress(regression)
    size = np.linalg.norm(regression.W, axis=0)
    A, b = factors.R[:, :, :-1] / np.where(size > 0.0, size, 1.0), factors.R[:, :, -1]
    joint, rows = factors.joint, np.maximum(factors.n_rows, 1)
    model = A @ (prior * size)
    power, shared = (np.bincount(joint, np.sum(model * x, axis=1), n) for x in (model, b))
    if not (shared > 0.0).any():
        raise ExcitorError("the currents are not those of the prior model's torques; check their signs and the masses")
    per_torque = np.where(shared > 0.0, shared, np.nan) / np.where(power > 0.0, power, 1.0)
    per_torque = np.where(np.isnan(per_torque), np.nanmedian(per_torque), per_torque)
    reference = int(np.argmax(np.where(shared > 0.0, power, -1.0)))
    first = np.log(per_torque / per_torque[reference])
    free = np.delete(np.arange(n), reference)
    sigma = np.sqrt(np.sum(b**2, axis=1) / rows) + 1e-300

    def residuals(log_g: FloatArray) -> FloatArray:
        g = np.exp(np.insert(log_g, reference, 0.0))[joint]
        W, y = A * (g / sigma)[:, None, None], b / sigma[:, None]
        beta = np.linalg.lstsq(W.reshape(-1, len(size)), y.ravel(), rcond=1e-10)[0]
        return np.concatenate([(y - W @ beta).ravel(), (log_g - first[free]) / SPREAD])

    log_g = first[free]
    for _ in range(_ROUNDS):
        log_g = least_squares(residuals, log_g).x
        left = sigma * np.sqrt(np.sum(residuals(log_g)[: b.size].reshape(b.shape) ** 2, axis=1) / rows)
        sigma = np.maximum(left, 1e-6 * left.max() + 1e-300)
    return np.exp(-np.insert(log_g, reference, 0.0)), float(per_torque[reference]), reference
