"""Were torques cut off? A drive that asks for more than it gives, against one that gives what it asks for.

A controller asks for what the planned motion needs, and for more where its joint is behind:
τ = clip(W β + k e + d ė, -L, L), W of the plan and e its tracking error, with an L of its own; or without an end.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.align.nouns import Alignment, Check, MeasuredRun
from excitor.experiments.align.positions import Channels
from excitor.experiments.align.samples import Followed, followed
from excitor.experiments.align.torques import on_side
from excitor.identify.diagnose import check_clipping
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.robot import Motion, Robot

EVIDENCE = 15.0  # logarithm of the residual's power that an end must save, times the samples: chance saves 9
BEYOND = 0.1  # of the end: what must be asked for beyond it, in the mean
LITTLE = 0.05  # ... where the joint is left behind as well
CLEAR = 0.1  # saved, from where on an end is one even where no joint is behind: what measures is at its end, then
BEHIND = 6.0  # times the joint's usual scatter about the plan: a drive at its end leaves its joint behind
EXPLAINED = 0.7  # of the torque's variance, by the model and its end
AFFECTED = 0.3  # of what the clearest end saves: a drive beside a saturated one is disturbed, not at its end
LEAST = 6  # samples that are cut off
SHARES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6)  # of the samples, that a search supposes to be cut off
PILED = 0.35  # of the samples, that stay at the end of a drive whose joint does not follow
ROUNDS = 8
RIDGE = 1e-3
SLOW = 0.02  # of a motor's highest speed, below which its friction may hold it with any torque


@dataclass(frozen=True, slots=True)
class _Cut:
    """A channel's end, if there is one."""

    level: float = 0.0
    saved: float = 0.0  # logarithm of the residual's power
    beyond: float = 0.0  # share of the end that is asked for beyond it
    share: float = 0.0  # of the samples that are cut off
    explained: float = 0.0  # share of the variance
    behind: float = 0.0  # how far the joint is behind where its drive is at its end, in its usual tracking error


def check_saturation(found: Alignment, run: MeasuredRun, robot: Robot, channels: Channels) -> list[Check]:
    """Look for an end of every motor's torque; a joint that is stuck has its drive at its end for another reason."""
    told = followed(found, run, channels.q)
    tau = on_side(robot, "motor", told.tau)
    asked, held = _asked(robot, told), _held(robot, run)
    series = isinstance(found.expected.body, Trajectory)
    moving = found.expected.moving() & (channels.sound | channels.strays)
    turns = _turning(robot, told)
    cuts = {
        j: _cut(asked[j][0][on], asked[j][1][on], tau[on, j], told.error[on, j])
        for j in np.flatnonzero(moving)
        for on in [turns[:, j]]
    }
    clearest = max((cut.saved for cut in cuts.values()), default=0.0)
    checks = []
    for j, cut in cuts.items():
        name = found.expected.joints[j]
        ends = _sure(cut, int(turns[:, j].sum()), series) and cut.saved > AFFECTED * clearest
        if not ends and channels.strays[j]:
            cut, ends = _stays(on_side(robot, "motor", run.tau)[:, j])
        checks.append(_check(name, cut, ends, name in held))
    return checks


def _asked(robot: Robot, told: Followed) -> list[tuple[FloatArray, FloatArray]]:
    """Collect what each motor's controller may ask for: the plan's columns, and errors of the joints that it moves.

    Errors have the sense in which a controller asks for more.
    """
    ungeared = np.linalg.inv(robot.drive.motor_from_joint.T)
    W = regressor(robot, told.motion)[:, :, list(base_parameters(robot).kept)]
    W = np.einsum("ij,njk->ink", ungeared, W)
    return [
        (W[j], np.hstack([told.error[:, own], told.error_rate[:, own]]) * np.tile(np.sign(ungeared[j, own]), 2))
        for j, own in enumerate(np.abs(ungeared) > 0.0)
    ]


def _turning(robot: Robot, told: Followed) -> BoolArray:
    """Leave out motors while they stand, (n, n_joints): what friction holds there is in no model."""
    speed = np.abs(told.motion.dq @ robot.drive.motor_from_joint.T)
    return np.asarray(speed > SLOW * speed.max(axis=0))


def _stays(tau: FloatArray) -> tuple[_Cut, bool]:
    """Tell whether a drive whose joint does not follow stays at its end, whatever the motion needs."""
    level, share = _piled(np.abs(tau))
    return _Cut(level, np.inf, np.inf, share), share > PILED


def _piled(size: FloatArray) -> tuple[float, float]:
    """Find where torques pile up at their largest, and which share of all but the small ones does."""
    noise = 1.5 * float(np.median(np.abs(np.diff(size)))) / np.sqrt(2.0)
    width = max(2.5 * noise, 0.01 * float(size.max()))
    highest = float(np.quantile(size, 0.995)) - width
    near = size[np.abs(size - highest) < 2.0 * width]
    level = float(np.median(near)) if near.size else highest
    large = size > 0.3 * level
    return level, float(np.mean(np.abs(size[large] - level) < width)) if large.any() else 0.0


def _held(robot: Robot, run: MeasuredRun) -> set[str]:
    """Find channels that repeat their extreme, sample by sample, in the raw log."""
    tau = on_side(robot, run.effort_side, run.tau)
    still = np.zeros_like(tau)
    found = check_clipping(robot, [Samples("run", Motion(still, still, still), tau, 1.0)])
    return {str(finding.data["joint"]) for finding in found if finding.level == "unusable"}


def _cut(W: FloatArray, behind: FloatArray, tau: FloatArray, error: FloatArray) -> _Cut:
    """Find the end that explains a channel best, of those that a few suppositions lead to."""
    Q = _basis(np.hstack([W, behind]))
    if len(tau) < 2 * Q.shape[1]:
        return _Cut()
    fitted, straight = Q @ (Q.T @ tau), _straight(W, behind, tau)
    varies = float(np.sum((tau - tau.mean()) ** 2))
    signs = (np.abs(tau), np.abs(fitted), error * np.sign(fitted), -error * np.sign(fitted))
    starts = [x >= float(np.quantile(x, 1.0 - share)) for x in signs for share in SHARES]
    tried = [_searched(Q, tau, (straight, varies), (cut, error)) for cut in starts]
    return max(tried, key=lambda one: one.saved)


def _basis(A: FloatArray) -> FloatArray:
    """Span the columns that are not lost among the others, orthonormal."""
    norms = np.linalg.norm(A, axis=0)
    shown = norms > 1e-9 * norms.max(initial=1e-300)
    U, values, _ = np.linalg.svd(A[:, shown] / norms[shown], full_matrices=False)
    return np.asarray(U[:, values > RIDGE * values.max(initial=0.0)])


def _straight(W: FloatArray, behind: FloatArray, tau: FloatArray) -> float:
    """Tell what a drive without an end leaves, squared: where its joint is behind it gives more, never less."""
    from scipy.optimize import nnls

    U = _basis(W)
    E, rest = behind - U @ (U.T @ behind), tau - U @ (U.T @ tau)
    norms = np.linalg.norm(E, axis=0)
    return float(nnls(E / np.where(norms > 0.0, norms, 1.0), rest)[1] ** 2)


def _searched(Q: FloatArray, tau: FloatArray, power: tuple[float, float], start: tuple[BoolArray, FloatArray]) -> _Cut:
    """Fit what is asked for and the end in turns, from samples supposed to be cut off; Q has orthonormal columns."""
    (straight, varies), (cut, error) = power, start
    best = _Cut()
    for _ in range(ROUNDS):
        if np.count_nonzero(cut) < LEAST or np.count_nonzero(~cut) < Q.shape[1]:
            break
        R = Q[cut]
        normal = np.eye(Q.shape[1]) * (1.0 + RIDGE) - R.T @ R
        wanted = Q @ np.linalg.solve(normal, Q[~cut].T @ tau[~cut])
        level = float(np.mean(tau[cut] * np.sign(wanted[cut])))
        if level <= 0.0:
            break
        cut = np.abs(wanted) > level
        left = float(np.sum((tau - np.clip(wanted, -level, level)) ** 2))
        if not cut.any() or min(left, straight, varies) <= 0.0:
            break
        saved = float(np.log(straight / left))
        if saved > best.saved:
            beyond = float(np.mean(np.abs(wanted[cut]) - level)) / level
            best = _Cut(
                level, saved, beyond, float(np.mean(cut)), 1.0 - left / varies, _behind(error * np.sign(wanted), cut)
            )
    return best


def _behind(error: FloatArray, cut: BoolArray) -> float:
    usual = error[~cut]
    return float((error[cut].mean() - usual.mean()) / (usual.std() or 1.0))


def _sure(cut: _Cut, n: int, series: bool) -> bool:
    """Trust an end that torques show clearly; or one that they show, where the joint is left behind as well."""
    if n * cut.saved < EVIDENCE or cut.explained < EXPLAINED:
        return False
    clear = series and cut.saved > CLEAR and cut.beyond > 2.0 * BEYOND
    return clear or (cut.beyond > LITTLE and cut.behind > BEHIND)


def _check(name: str, cut: _Cut, ends: bool, held: bool) -> Check:
    holds = not ends and not held
    told = f"the torque of joint {name} shows no end"
    if not holds:
        told = f"the torque of joint {name} ends at {cut.level:.4g} at its motor, where the motion needs "
        known = np.isfinite(cut.beyond) and cut.beyond < 1.0
        more = f"{100 * cut.beyond:.3g} % more in" if known else "far more: it stays there for"
        told += f"{more} {100 * cut.share:.2g} % of the samples; its drive is saturated"
    return Check(
        "saturation",
        cut.beyond if ends else 0.0,
        "1",
        BEYOND,
        holds,
        told,
        name,
        "unusable",
        "" if holds else "saturation",
        "" if holds else "repeat the run with less acceleration, or raise the drive's current limit",
    )
