"""A load's mass and centre of gravity from gravity torques in static poses, without fast motion.

    τ_M = ½ (R + 1/R) A (Y_arm χ + Y_load φ)        mean of poses approached slowly from either side

Friction cancels between the two approaches; so do gear losses, to first order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.diagnose import several
from excitor.identify.load.equations import Arm, exact_arm
from excitor.identify.load.fit import rank_words
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.dynamics import regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.load_torques import carried_from_joints
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot, posture

STATIC_NAMES = ("MXL", "MYL", "MZL", "ML")
_COLUMNS = slice(6, 10)  # of the ten


@dataclass(frozen=True, eq=False, slots=True)
class Poses:
    """Static poses, with or without the load: mean motor torques of both approaches, referred to the link side."""

    q: FloatArray  # (n_poses, n_joints)
    tau: FloatArray  # (n_poses, n_joints)
    loaded: bool = True

    def __post_init__(self) -> None:
        freeze(self, q="n_poses n_joints", tau="n_poses n_joints")


@dataclass(frozen=True, eq=False, slots=True)
class StaticLoad:
    """Mass and centre of gravity, with intervals; static poses do not determine the inertia."""

    values: FloatArray  # (4,): MX, MY, MZ, M at the origin of the link's frame
    covariance: FloatArray  # (4, 4), with doubt about the arm
    mass: float
    center: FloatArray  # (3,), m
    center_covariance: FloatArray  # (4, 4) of mass and centre
    rms: float  # of the training residual, in units of the noise that was given
    n_rows: int

    def __post_init__(self) -> None:
        freeze(self, values="4", covariance="4 4", center="3", center_covariance="4 4")

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations of mass and centre, (4,)."""
        return np.asarray(np.sqrt(np.diag(self.center_covariance)))


def poses_from_samples(robot: Robot, samples: Samples, *, loaded: bool = True) -> Poses:
    """Build static poses from processed samples, whose joint torques are converted to the motors' side."""
    if not samples.static:
        raise ValueError(f"run {samples.run!r} is no run of static poses; declare it static, or use identify_load")
    return Poses(samples.motion.q, samples.tau @ carried_from_joints(robot).T, loaded)


def static_load(
    robot: Robot,
    sets: Sequence[Poses],
    *,
    sigma: FloatArray,
    arm: Arm | None = None,
    link: int | None = None,
    efficiency: FloatArray | None = None,
) -> StaticLoad:
    """Solve for the load's mass and first moments by weighted least squares.

    `sigma` (n_joints,) is the noise of a pose's mean torque, inf for motors to leave out. Poses without the load
    correct the arm within its covariance; the same poses with and without it cancel it.
    """
    arm = exact_arm(robot) if arm is None else arm
    link = robot.tool.link if link is None else link
    if not any(poses.loaded for poses in sets):
        raise ValueError("no pose has the load on; mark those that do as loaded")
    R = np.ones(robot.n_joints) if efficiency is None else np.asarray(efficiency, dtype=float)
    gain = 0.5 * (R + 1.0 / R)
    load, torque, doubt = zip(*(_rows(robot, poses, arm, link, gain, sigma) for poses in sets), strict=True)
    W, y, Z = np.concatenate(load), np.concatenate(torque), np.concatenate(doubt)
    words = rank_words(W, STATIC_NAMES)
    if words:
        raise RankDeficient(
            f"these poses do not determine {several(list(words))} of the load; add poses in which other axes carry it, "
            "or weigh the load beforehand",
            STATIC_NAMES,
        )
    count = Z.shape[1]  # deviations of the arm, in units of their standard deviations, pulled to 0
    system = np.vstack([np.column_stack([W, Z]), np.column_stack([np.zeros((count, 4)), np.eye(count)])])
    solution = scipy.linalg.lstsq(system, np.append(y, np.zeros(count)))[0]
    inverse = scipy.linalg.pinv(system)
    r = y - np.column_stack([W, Z]) @ solution
    scatter = np.append(np.full(len(y), max(1.0, float(r @ r) / max(len(y) - 4, 1))), np.ones(count))
    C = ((inverse * scatter) @ inverse.T)[:4, :4]
    return _static_load(solution[:4], C, float(np.sqrt(np.mean(r**2))), len(y))


def _rows(
    robot: Robot, poses: Poses, arm: Arm, link: int, gain: FloatArray, sigma: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    params = layout(robot)
    links = slice(0, params.n_link_params)
    axes = np.flatnonzero(np.isfinite(sigma))
    A = carried_from_joints(robot)[axes] * gain[axes, None] / np.asarray(sigma)[axes, None]
    W = np.einsum("ai,nip->nap", A, regressor(robot, posture(poses.q))[:, :, links]).reshape(-1, links.stop)
    y = (poses.tau[:, axes] / np.asarray(sigma)[axes]).ravel() - W @ arm.chi[links]
    C = arm.covariance[links, links]
    scale = np.sqrt(np.diag(C))
    used = scale > 0.0
    values, V = np.linalg.eigh(C[np.ix_(used, used)] / np.outer(scale[used], scale[used]))
    root = scale[used, None] * V * np.sqrt(np.maximum(values, 0.0))
    return W[:, params.link(link)][:, _COLUMNS] * float(poses.loaded), y, W[:, used] @ root


def _static_load(values: FloatArray, C: FloatArray, rms: float, n_rows: int) -> StaticLoad:
    m = float(values[3])
    center = values[:3] / m
    T = np.zeros((4, 4))
    T[0, 3] = 1.0
    T[1:, :3], T[1:, 3] = np.eye(3) / m, -center / m
    return StaticLoad(values, C, m, center, T @ C @ T.T, rms, n_rows)
