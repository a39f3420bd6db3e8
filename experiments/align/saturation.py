"""Were torques cut off? A model that is cut off at some torque, against the same model without an end.

Both are fitted to the channel: τ = clip(W β, -L, L) with an L of its own, and τ = W β.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from excitor.experiments.align.nouns import Check, Expected, MeasuredRun
from excitor.experiments.align.samples import thinned
from excitor.experiments.align.torques import on_side
from excitor.identify.diagnose_torque import check_clipping
from excitor.identify.samples import Samples
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.robot import Motion, Robot

BETTER = 0.06  # logarithm of the residual's power that the cut must save ...
EVIDENCE = 40.0  # ... and that, times the number of samples
SUSPECTED = 8.5  # the same of a joint that falls behind the plan
BEHIND = 5.0  # times the usual tracking error
BEYOND = 0.03  # of the end: what the model must ask for beyond the cut, in the mean
LEAST = 6  # samples that are cut off
MOST = 1500  # samples that the model is fitted to
SHARES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6)  # of the samples, that a search supposes to be cut off
PILED = 0.35  # of the samples, that stay at the end of a drive whose joint does not follow
ROUNDS = 8
RIDGE = 1e-3


@dataclass(frozen=True, slots=True)
class _Cut:
    """A channel's end, if there is one."""

    level: float = 0.0
    saved: float = 0.0  # logarithm of the residual's power
    beyond: float = 0.0  # share of the end that the model asks for beyond the cut
    share: float = 0.0  # of the samples that are cut off


def check_saturation(
    expected: Expected, run: MeasuredRun, robot: Robot, samples: Samples, errors: Mapping[str, float]
) -> list[Check]:
    """Look for an end of every motor's torque, where motors have their limits.

    A joint whose drive ends falls behind: where its tracking error, one of `errors`, is far beyond the others', less
    evidence is enough.
    """
    usual = float(np.median(list(errors.values()))) if errors else np.inf
    data = thinned(samples, MOST)
    tau = on_side(robot, "motor", data.tau)
    W = regressor(robot, data.motion)[:, :, list(base_parameters(robot).kept)]
    W = np.einsum("ij,njk->ink", np.linalg.inv(robot.drive.motor_from_joint.T), W)
    held, moving = _held(robot, run), expected.moving()
    return [
        _check(name, _cut(W[j], tau[:, j]), _needed(len(data), errors.get(name, 0.0) > BEHIND * usual), name in held)
        for j, name in enumerate(expected.joints)
        if moving[j]
    ]


def check_strays(expected: Expected, run: MeasuredRun, robot: Robot, strays: BoolArray) -> list[Check]:
    """Look for drives at their end in joints that do not follow: there torques stay, whatever the motion needs."""
    tau = on_side(robot, "motor", run.tau)
    checks = []
    for j in np.flatnonzero(strays):
        level, share = _piled(np.abs(tau[:, j]))
        if share > PILED:
            cut = _Cut(level, np.inf, np.inf, share)
            checks.append(_check(expected.joints[j], cut, (0.0, 0.0), False))
    return checks


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


def _cut(W: FloatArray, tau: FloatArray) -> _Cut:
    """Find the end that explains a channel best, of those that a few shares of cut samples lead to."""
    norms = np.linalg.norm(W, axis=0)
    shown = norms > 1e-9 * norms.max()
    U, values, _ = np.linalg.svd(W[:, shown] / norms[shown], full_matrices=False)
    Q = U[:, values > RIDGE * values[0]]
    if len(tau) < 2 * Q.shape[1]:
        return _Cut()
    straight = float(np.sum((tau - Q @ (Q.T @ tau)) ** 2))
    tried = [_searched(Q, tau, straight, share) for share in SHARES]
    return max(tried, key=lambda one: one.saved)


def _searched(Q: FloatArray, tau: FloatArray, straight: float, share: float) -> _Cut:
    """Fit model and end in turns, from a supposed share of samples that are cut off; Q has orthonormal columns."""
    cut = np.abs(tau) >= float(np.quantile(np.abs(tau), 1.0 - share))
    level, wanted = 0.0, tau
    for _ in range(ROUNDS):
        if np.count_nonzero(cut) < LEAST or np.count_nonzero(~cut) < Q.shape[1]:
            return _Cut()
        R = Q[cut]
        normal = np.eye(Q.shape[1]) * (1.0 + RIDGE) - R.T @ R
        wanted = Q @ np.linalg.solve(normal, Q[~cut].T @ tau[~cut])
        level = float(np.mean(tau[cut] * np.sign(wanted[cut])))
        if level <= 0.0:
            return _Cut()
        cut = np.abs(wanted) > level
    left = float(np.sum((tau - np.clip(wanted, -level, level)) ** 2))
    if not cut.any() or left <= 0.0 or straight <= 0.0:
        return _Cut()
    beyond = float(np.mean(np.abs(wanted[cut]) - level)) / level
    return _Cut(level, float(np.log(straight / left)), beyond, float(np.mean(cut)))


def _needed(n: int, behind: bool) -> tuple[float, float]:
    """How much of the residual's power, as a logarithm, an end must save; and what must be asked for beyond it."""
    return (SUSPECTED / n, 2.0 * BEYOND) if behind else (max(BETTER, EVIDENCE / n), BEYOND)


def _check(name: str, cut: _Cut, needed: tuple[float, float], held: bool) -> Check:
    found = cut.saved > needed[0] and cut.beyond > needed[1]
    holds = not found and not held
    told = f"the torque of joint {name} shows no end"
    if not holds:
        told = f"the torque of joint {name} ends at {cut.level:.4g} at its motor, where the motion needs "
        more = f"{100 * cut.beyond:.3g} % more in" if np.isfinite(cut.beyond) else "more: it stays there for"
        told += f"{more} {100 * cut.share:.2g} % of the samples; its drive is saturated"
    return Check(
        "saturation",
        cut.beyond if found else 0.0,
        "1",
        BEYOND,
        holds,
        told,
        name,
        "unusable",
        "" if holds else "saturation",
        "" if holds else "repeat the run with less acceleration, or raise the drive's current limit",
    )
