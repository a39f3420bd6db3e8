"""From which parameters can a closed loop be simulated when none are known? Inertia for every joint, all else 0."""

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

_SOLID = ("XX", "YY", "ZZ", "M")  # alone, any of these gives kinetic energy that is never negative; so do rotors
_POSES = 100


def regular_start(robot: Robot, motion: Motion, inertia: FloatArray, columns: IntArray) -> FloatArray:
    """Give joints about the inertias (n_joints,) by non-negative principal moments, masses and rotors: chi (n_params,).

    The mass matrices along the motion are fitted to diag(inertia); every one of them is positive definite.
    """
    from scipy.optimize import nnls

    solid = solid_columns(robot, columns)
    q = motion.q[:: max(1, len(motion) // _POSES)]
    unit = 1.0 / np.sqrt(inertia)
    scale = np.outer(unit, unit)  # so that light joints count as much as heavy ones
    parts = [(mass_matrix(robot, q, _only(robot, k)) * scale).ravel() for k in solid]
    target = np.broadcast_to(np.eye(robot.n_joints), (len(q), robot.n_joints, robot.n_joints)).ravel()
    chi = np.zeros(len(layout(robot)))
    if parts:
        chi[solid] = nnls(np.column_stack(parts), target)[0]
    lightest = float(np.linalg.eigvalsh(mass_matrix(robot, q, chi) * scale).min())
    if not lightest > 1e-6:
        raise ExcitorError(
            f"{robot.name}: no inertias among the estimated parameters make its mass matrix positive definite, so it "
            "cannot be simulated from nothing; give a start, such as the prior model"
        )
    return chi


def solid_columns(robot: Robot, columns: IntArray) -> list[int]:
    """List those columns that alone make no mass matrix indefinite."""
    params = layout(robot)
    balanced = {
        column
        for rotor, column in zip(robot.drive.rotors, params.rotor_columns, strict=True)
        if np.array_equal(rotor.senses, rotor.acts)
    }
    solid = []
    for k in map(int, columns):
        if k in balanced or (k < params.n_link_params and params.names[k].rstrip("0123456789") in _SOLID):
            solid.append(k)
    return solid


def _only(robot: Robot, column: int) -> FloatArray:
    chi = np.zeros(len(layout(robot)))
    chi[column] = 1.0
    return chi
