"""Torques of motors that carry a load over gears with losses.

    τ'  = A τ                         torques of links and load, referred to the link side of each motor, A = n N⁻ᵀ
    τ_M = τ' / R where τ' dq_M > 0    the motor drives its gear
          τ' R where τ' dq_M < 0      the motor is driven
          τ'   at standstill

[Swevers2002] eqs (5)-(11): N takes joint positions to motor positions, n is the diagonal of N, R the efficiency of
each gear. R > 0 keeps signs, so τ' decides which side drives.
"""

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.friction import motor_torques
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

_REACHES = 1e-9  # of a torque's share that arrives at a motor: below, rounding errors of N⁻ᵀ


def own_ratios(robot: Robot) -> FloatArray:
    """Count turns of each motor for one turn of its own axis, (n_joints,); 1 where it has none."""
    own = np.diag(robot.drive.motor_from_joint)
    return np.asarray(np.where(own != 0.0, own, 1.0))


def carried_from_joints(robot: Robot) -> FloatArray:
    """Matrix A of τ' = A τ, from joint torques to those of motors referred to the link side: [Swevers2002] eq. (10)."""
    return motor_torques(robot, np.eye(robot.n_joints)).T * own_ratios(robot)[:, None]


def motor_speeds(robot: Robot, dq: FloatArray) -> FloatArray:
    """Speeds of the motors referred to the link side, (n_samples, n_joints)."""
    return np.asarray(dq @ robot.drive.motor_from_joint.T / own_ratios(robot))


def driving_side(carried: FloatArray, speed: FloatArray) -> FloatArray:
    """1 where the motor drives its gear, -1 where it is driven, 0 at standstill."""
    return np.asarray(np.sign(carried * speed))


def gear_losses(carried: FloatArray, side: FloatArray, R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gain of τ_M = gain τ', and ∂τ_M/∂R; all arrays of one shape."""
    gain = np.where(side > 0.0, 1.0 / R, np.where(side < 0.0, R, 1.0))
    return gain, np.where(side > 0.0, -carried / R**2, np.where(side < 0.0, carried, 0.0))


def friction_columns(robot: Robot, axes: BoolArray) -> IntArray:
    """Friction parameters that show in the motors of some axes while these move, in the layout's order."""
    A = carried_from_joints(robot)[axes]
    found = [
        column
        for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True)
        if (np.abs(A @ term.acts) > _REACHES).any() and (term.senses[axes] != 0.0).any()
    ]
    return np.array(sorted(set(found)), dtype=np.int64)
