"""How far a closed chain is from where it cannot be: out of reach, or singular.

J_p is the platform's velocity by the drives', J_t the passive joints'. S scales units so that a unit rate of each drive
alone moves the platform by 1 at home.

    type 1   least singular value of S J_p: a leg is stretched or folded
    type 2   1 / largest singular value of S J_p: the platform moves while drives stand still
    passive  the same of J_t, by home's: a leg's joints move while drives stand still

All are of the order of 1 at home. Beyond a singularity distances are negative: type 1 where a leg holds the platform
the other way (another working mode), all in another assembly mode. Out of reach all are: minus what stays open, by
the robot's size.
"""

from functools import lru_cache

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.legs import find_legs, solve_legs
from excitor.robots.parallel import (
    ClosedLoop,
    Opened,
    closures_at,
    complete,
    size,
    sought,
    strides,
    tolerance,
)
from excitor.robots.robot import posture

_ITERATIONS = 30
_SAME = 1e-6  # rad or m: a working mode's joints agree to rounding, the other's are apart


def singularity_distances(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Measure distances to singularities, (n_samples, n_types); negative beyond them and out of reach."""
    whole = complete(loop, posture(np.asarray(q, dtype=float)))
    out = np.empty((len(q), len(loop.singularity_names)))
    found = whole.residual <= tolerance(loop)
    side = np.where(whole.closes, 1.0, -1.0)
    out[found] = side[found, None] * _distances(loop, whole.J[:, :, found].transpose(2, 0, 1))
    turned = _other_working_mode(loop, whole)
    out[:, 0] = np.where(turned & found, -np.abs(out[:, 0]), out[:, 0])
    if not found.all():
        out[~found] = -least_gap(loop, np.asarray(q, dtype=float)[~found])[:, None] / size(loop)
    return out


def _other_working_mode(loop: ClosedLoop, whole: Opened) -> BoolArray:
    """Tell where a leg has passed a singularity of type 1, and holds the platform the other way than at home."""
    q = whole.motion.q
    legs = find_legs(loop)
    if legs is None:
        J_p, home = whole.J[loop.platform].transpose(2, 0, 1), _home_jacobian(loop)[loop.platform]
        return np.asarray(np.linalg.det(J_p) * np.linalg.det(home) < 0.0)
    meant, _ = solve_legs(loop, legs, q[:, loop.platform])
    off = np.abs(meant - q[:, loop.actuated])
    whole_turns = np.where(loop.prismatic, 0.0, 2.0 * np.pi * np.round(off / (2.0 * np.pi)))
    return np.asarray((np.abs(off - whole_turns) > _SAME).any(axis=1))


def _distances(loop: ClosedLoop, J: FloatArray) -> FloatArray:
    J_p, J_t = scaled(loop, J)
    values = np.linalg.svd(J_p, compute_uv=False)
    columns = [values[:, -1], 1.0 / values[:, 0]]
    if loop.passive.size:
        columns.append(1.0 / np.linalg.svd(J_t, compute_uv=False)[:, 0])
    return np.column_stack(columns)


def scaled(loop: ClosedLoop, J: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale J, or its derivatives, (n, n_all, n_joints), to what distances are singular values of: S J_p and J_t."""
    to_platform, to_drives, passive_at_home = _scales(loop)
    J_p = J[:, loop.platform] * to_platform[:, None] * to_drives
    return J_p, J[:, loop.passive] * to_drives / passive_at_home


@lru_cache(maxsize=64)
def _scales(loop: ClosedLoop) -> tuple[FloatArray, FloatArray, float]:
    """Units: the platform's turns by the reach of its closures, drives by what they do to it at home."""
    J = _home_jacobian(loop)
    turns = ~loop.tree.prismatic[loop.platform]
    to_platform = np.where(turns, _platform_reach(loop), 1.0)
    to_drives = 1.0 / np.linalg.norm(J[loop.platform] * to_platform[:, None], axis=0)
    passive = np.linalg.norm(J[loop.passive] * to_drives, 2) if loop.passive.size else 1.0
    return to_platform, to_drives, float(passive)


def _home_jacobian(loop: ClosedLoop) -> FloatArray:
    return complete(loop, posture(loop.home[None, loop.actuated])).J[:, :, 0]


def _platform_reach(loop: ClosedLoop) -> float:
    """Measure how far from its origin the platform is held, m; the robot's size if at the origin alone."""
    moved = np.flatnonzero(np.any(loop.tree.coupling[:, loop.platform] != 0.0, axis=1))
    held = [
        float(np.linalg.norm(point))
        for closure in loop.closures
        for link, point in zip(closure.links, closure.points, strict=True)
        if link in moved
    ]
    return max(held, default=0.0) or size(loop)


def least_gap(loop: ClosedLoop, q: FloatArray) -> FloatArray:
    """Find how little the closures can stay open with the drives at q, m, (n_samples,): Levenberg and Marquardt."""
    free, scale = sought(loop, loop.actuated), strides(loop)
    x = np.tile(loop.home, (len(q), 1))
    x[:, loop.actuated] = q
    damping = np.full(len(q), 1e-2)
    f, A = closures_at(loop, x)
    for _ in range(_ITERATIONS):
        slope = A[:, :, free] * scale[free]
        normal = slope.swapaxes(1, 2) @ slope
        diagonal = np.trace(normal, axis1=1, axis2=2) / free.size
        damped = normal + (damping * diagonal)[:, None, None] * np.eye(free.size)
        step = np.linalg.solve(damped, (slope.swapaxes(1, 2) @ f[:, :, None]))[:, :, 0]
        trial = x.copy()
        trial[:, free] -= step * scale[free]
        f_trial, A_trial = closures_at(loop, trial)
        better = np.einsum("sk,sk->s", f_trial, f_trial) < np.einsum("sk,sk->s", f, f)
        x[better], f[better], A[better] = trial[better], f_trial[better], A_trial[better]
        damping = np.where(better, 0.3 * damping, 5.0 * damping)
    return np.asarray(np.linalg.norm(f, axis=1))
