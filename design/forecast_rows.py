"""The equations that planned runs will give: how large their columns and torques are, and how well they are known."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.gram import condition_number
from excitor.robots.information import Knowledge, Noise, counted, deviations
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

REVERSAL_DEAD_ZONE = 0.01  # of a joint's largest speed in the run


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """The regressor of one run on a grid, which of its rows count, and for how many each."""

    W: FloatArray  # (n_samples, n_joints, n_base)
    tau: FloatArray  # (n_samples, n_joints), of the prior model
    used: BoolArray  # (n_samples, n_joints)
    count: float


def rows_of(robot: Robot, motion: Motion, noise: Noise, duration: float) -> Rows:
    """Set up the rows of a run that measures for `duration` s in all."""
    rows = all_rows(robot, motion)
    return Rows(rows.W, rows.tau, counted(robot, motion, noise), duration * noise.rate_hz / len(motion))


def all_rows(robot: Robot, motion: Motion) -> Rows:
    """Set up the rows of all joints that are not locked, each counting once."""
    W = regressor(robot, motion)[:, :, base_parameters(robot).kept]
    used = np.ones(motion.q.shape, dtype=bool)
    used[:, list(robot.locked)] = False
    return Rows(W, inverse_dynamics(robot, motion), used, 1.0)


def column_rms(rows: Sequence[Rows], noise: Noise) -> FloatArray:
    """Evaluate the largest rms of each column on a joint, divided by the joint's noise, (n_base,)."""
    counts = np.sum([r.count * r.used.sum(axis=0) for r in rows], axis=0)
    mean = _column_squares(rows) / np.where(counts > 0.0, counts, 1.0)[:, None]
    return np.asarray(np.max(np.sqrt(mean) / noise.sigma[:, None], axis=0))


def torque_sizes(robot: Robot, rows: Sequence[Rows], noise: Noise) -> FloatArray:
    """Say how large each parameter would be if it alone made its joints' torques, (n_params,); 0 where not seen."""
    columns = _column_squares(rows) / noise.sigma[:, None] ** 2
    torques = np.sum([r.count * np.sum(r.tau**2 * r.used, axis=0) for r in rows], axis=0) / noise.sigma**2
    seen = columns > 1e-20 * columns.max(initial=0.0)
    size = np.sqrt(torques @ seen / np.where(seen.any(axis=0), np.sum(columns * seen, axis=0), 1.0))
    sizes = np.zeros(len(layout(robot)))
    sizes[base_parameters(robot).kept] = size
    return sizes


def torque_errors(known: Knowledge, rows: Sequence[Rows]) -> list[tuple[float, float, float]]:
    """Evaluate rms torque, √mean diag(W C Wᵀ) and the same inflated for each joint; 0 for joints without rows."""
    out = []
    for j in range(rows[0].W.shape[1]):
        parts = [(r.W[r.used[:, j], j], r.tau[r.used[:, j], j], r.count) for r in rows if r.used[:, j].any()]
        n = sum(count * len(tau) for _, tau, count in parts)
        sums = np.zeros(3)
        for W, tau, count in parts:
            errors = [np.sum(deviations(known, W, inflated=k) ** 2) for k in (False, True)]
            sums += count * np.array([np.sum(tau**2), *errors])
        mean = np.sqrt(sums / n) if n else sums
        out.append((float(mean[0]), float(mean[1]), float(mean[2])))
    return out


def condition_of(rows: Sequence[Rows], identifiable: BoolArray) -> float:
    """Evaluate the condition of all unweighted rows, identifiable columns divided by their norms, by SVD."""
    if not identifiable.any():
        return float("inf")
    parts = [_triangle(np.sqrt(r.count) * r.W[r.used][:, identifiable]) for r in rows]
    return condition_number(_triangle(np.concatenate(parts)))


def reversals(motion: Motion, dead_zone: FloatArray | float = 0.0) -> FloatArray:
    """Count how often each joint's velocity changes sign in one period, which closes on itself, (n_joints,).

    Speeds within the dead zone, or within REVERSAL_DEAD_ZONE of the joint's largest, have no sign.
    """
    speed = np.abs(motion.dq)
    least = np.maximum(dead_zone, REVERSAL_DEAD_ZONE * speed.max(axis=0))
    counts = np.zeros(motion.dq.shape[1])
    for j in range(len(counts)):
        signs = np.sign(motion.dq[speed[:, j] > least[j], j])
        counts[j] = np.count_nonzero(signs != np.roll(signs, 1))
    return counts


def _column_squares(rows: Sequence[Rows]) -> FloatArray:
    """Sum the squares of each column over a joint's rows, (n_joints, n_base)."""
    return np.asarray(np.sum([r.count * np.sum((r.W * r.used[:, :, None]) ** 2, axis=0) for r in rows], axis=0))


def _triangle(W: FloatArray) -> FloatArray:
    return np.asarray(scipy.linalg.qr(W, mode="r", check_finite=False)[0][: W.shape[1]])
