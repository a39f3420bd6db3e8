"""Robots and their equations: load one, its base parameters, inverse dynamics and regressor of plain arrays."""

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from excitor.robots import base as _base
from excitor.robots import dynamics as _dynamics
from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.base import Base
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot


def load_robot(source: str | PathLike[str]) -> Robot:
    """Load a robot.

    Args:
        source: name in the catalogue (`excitor robots` lists it), or path of a .toml or .urdf file.

    InvalidRobot lists every problem of the file with its key.

    >>> import excitor as ex
    >>> ex.load_robot("tx40").n_joints
    6
    """
    return load(source if isinstance(source, str) else Path(source))


def base_parameters(robot: Robot) -> Base:
    """Find the base parameters: the combinations of inertial parameters that joint torques depend on.

    Args:
        robot: as `load_robot` gives it.

    The result has `names`, `units`, `values(chi)`, and `to_frame()`: name, regrouping, unit.

    >>> import excitor as ex
    >>> len(ex.base_parameters(ex.load_robot("tx40")))
    60
    """
    return _base.base_parameters(robot)


def inverse_dynamics(
    robot: Robot, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, parameters: ArrayLike | None = None
) -> FloatArray:
    """τ = Y(q, q̇, q̈) χ: joint torques of a motion, (n_samples, n_joints), N m or N.

    Args:
        robot: as `load_robot` gives it.
        q, dq, ddq: positions, velocities, accelerations, (n_samples, n_joints) or (n_joints,), in rad or m.
        parameters: χ (n_params,); by default those that the robot's file states.

    >>> import numpy as np, excitor as ex
    >>> ex.inverse_dynamics(ex.load_robot("rotradi"), np.zeros(3), np.zeros(3), np.zeros(3)).shape
    (1, 3)
    """
    chi = None if parameters is None else np.asarray(parameters, dtype=float)
    if chi is not None:
        check_shape(chi, str(len(layout(robot))), "parameters")
    return _dynamics.inverse_dynamics(robot, motion_of(robot, q, dq, ddq), chi)


def regressor(robot: Robot, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> FloatArray:
    """Y of τ = Y(q, q̇, q̈) χ, (n_samples, n_joints, n_params).

    Args:
        robot: as `load_robot` gives it.
        q, dq, ddq: positions, velocities, accelerations, (n_samples, n_joints) or (n_joints,), in rad or m.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> q, dq, ddq = np.ones(3), np.ones(3), np.zeros(3)
    >>> bool(np.allclose(ex.regressor(robot, q, dq, ddq) @ robot.chi, ex.inverse_dynamics(robot, q, dq, ddq)))
    True
    """
    return _dynamics.regressor(robot, motion_of(robot, q, dq, ddq))


def motion_of(robot: Robot, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> Motion:
    """Collect a motion of arrays, (n_samples, n_joints) or (n_joints,)."""
    arrays = [np.atleast_2d(np.asarray(x, dtype=float)) for x in (q, dq, ddq)]
    for name, array in zip(("q", "dq", "ddq"), arrays, strict=True):
        check_shape(array, "n_samples n_joints", name, {"n_joints": robot.n_joints, "n_samples": len(arrays[0])})
    return Motion(*arrays)
