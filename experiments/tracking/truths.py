"""The virtual robot that follows: the one a campaign was simulated with, or one drawn from what the model leaves open.

A drawn robot has base parameters β̂ + ε, ε of the model's covariance, and ripple that no model has.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.simulating.simulate import TRUTH
from excitor.experiments.virtual.settings import Settings
from excitor.experiments.virtual.truth import Truth, draw_truth, springs, with_unmodelled
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

POSES = 300  # in which a drawn robot's mass matrix is looked at
LEAST = 1e-4  # smallest eigenvalue of a mass matrix of unit diagonal
_DRAWS = 40
_CLOSER = 0.5  # by which draws come closer to the estimate where none of them is a robot
_LARGEST = 10_000_000  # bytes


class ImpossibleMasses(ExcitorError):
    """Base parameters whose mass matrix is not positive."""


def simulated_truth(folder: Path, robot: Robot) -> Truth | None:
    """Take the robot that the campaign's logs were simulated with; None where they were not, or it is another robot."""
    data = _read(folder / TRUTH)
    if data is None or data.get("robot") != robot.name:
        return None
    try:
        given: dict[str, Any] = dict(data["settings"])
        given = {key: tuple(x) if isinstance(x, list) else x for key, x in given.items()}
        truth = draw_truth(robot, int(data["seed"]), Settings(**given))
        written = np.array([entry["value"] for entry in data["parameters"]], dtype=float)
    except (KeyError, TypeError, ValueError, ExcitorError):
        return None
    same = written.shape == truth.chi.shape and np.allclose(written, truth.chi, rtol=1e-9, atol=1e-12)
    return truth if same else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _LARGEST:
            return None
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def drawn_truth(robot: Robot, beta: FloatArray, covariance: FloatArray, *, seed: int) -> Truth:
    """Draw a robot from the model's uncertainty; ExcitorError where the model's masses are none a robot can have.

    `beta` (n_base,) are all base parameters of the robot, without a payload of its own; `covariance` is theirs.
    """
    settings = Settings(stuck=tuple(robot.locked))
    rng = np.random.default_rng([seed, 0x7472])
    chi = _possible(robot, beta, covariance, rng)
    n = len(layout(robot))
    full, all_chi = with_unmodelled(robot, chi, rng, settings)
    loss = (1.0 - robot.drive.efficiency)[:, None] * np.exp(settings.loss * rng.normal(size=(robot.n_joints, 2)))
    stiffness, damping = springs(robot, chi[:n], settings)
    return Truth(
        full,
        all_chi,
        np.clip(1.0 - loss, 0.05, 1.0),
        robot.drive.torque_from_current,
        stiffness,
        damping,
        np.full(robot.n_joints, settings.ambient),
        settings,
        seed,
    )


def _possible(robot: Robot, beta: FloatArray, covariance: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw parameters whose mass matrix is positive and whose friction resists."""
    if not isinstance(robot.mechanism, Tree):
        raise ExcitorError(f"{robot.name}: closed chains cannot be simulated under a controller yet")
    base = base_parameters(robot)
    poses = random_motion(robot, POSES, robot.locked).q
    if not _is_robot(robot, base.standard(beta), poses):
        raise ImpossibleMasses(
            f"{robot.name}: the identified masses make no positive mass matrix in every pose, so no virtual robot has "
            "them; measure more, or reduce the model"
        )
    values, V = np.linalg.eigh(0.5 * (covariance + covariance.T))
    half = V * np.sqrt(np.maximum(values, 0.0))
    for share in (1.0, _CLOSER, _CLOSER**2, _CLOSER**3, 0.0):
        for _ in range(_DRAWS):
            chi = _resisting(robot, base.standard(beta + share * half @ rng.normal(size=len(beta))))
            if _is_robot(robot, chi, poses):
                return chi
    return _resisting(robot, base.standard(beta))


def _is_robot(robot: Robot, chi: FloatArray, poses: FloatArray) -> bool:
    moving = [i for i in range(robot.n_joints) if i not in robot.locked]
    M = mass_matrix(robot, poses, chi)[:, moving][:, :, moving]
    size = np.einsum("bii->bi", M)
    if not (size > 0.0).all():
        return False
    unit = M / np.sqrt(size[:, :, None] * size[:, None, :])
    return bool(np.linalg.eigvalsh(0.5 * (unit + unit.transpose(0, 2, 1)))[:, 0].min() > LEAST)


def _resisting(robot: Robot, chi: FloatArray) -> FloatArray:
    """Let no friction drive a joint."""
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if term.model in ("viscous", "coulomb", "sqrt", "stribeck", "maxwell-slip"):
            chi[column] = max(chi[column], 0.0)
    return chi
