"""Do torques belong to their joints: sign, scale, unit, order, clipping? The prior model is asked, not trusted.

Each channel is fitted by a multiple of the prior's rigid torque and by friction of any size. A prior off by half does
no harm; where it explains too little of a channel, that channel is not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.identify.finding import Finding, moving_joints, several
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import regressor, rigid_torque
from excitor.robots.errors import NotAssembled
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

SCALES = (0.25, 4.0)  # a prior may be off so far
PERHAPS = (0.1, 10.0)  # a prior might be off so far, if no unit explains it
TELLING = 0.5  # share of a channel's power, friction apart, from which the prior's torque tells its scale
DEAD = 1e-3  # of the prior's torque: a channel that varies less says nothing
CLIPPED = 0.05  # of the samples: from here on, unusable


@dataclass(frozen=True, slots=True)
class Fit:
    """One torque channel by a multiple of one joint's prior torque and that joint's friction."""

    factor: float
    explained: float  # share of the channel's power, friction apart, that the multiple explains
    share: float  # norm of the prior's torque over that of the channel, friction apart
    misfit: float  # share of the channel's variance left by friction and a multiple between SCALES
    dissipation: float  # power of the friction part over the product of norms, negative if it drives the joint


def check_clipping(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Find torques that stay at their extreme for several samples, or at the joint's limit."""
    found = []
    for run in runs:
        for j, name in enumerate(robot.joint_names):
            tau, limit = run.tau[:, j], float(robot.limits.torque[j])
            count = _held_extreme(tau)
            at_limit = int(np.count_nonzero(np.abs(np.abs(tau) - limit) < 1e-3 * limit)) if np.isfinite(limit) else 0
            if count == 0 and at_limit < max(3.0, 0.005 * len(tau)):
                continue
            share = max(count, at_limit) / len(tau)
            found.append(
                Finding(
                    "unusable" if share > CLIPPED else "doubtful",
                    "clipped",
                    f"run {run.run!r}: torque of joint {name} stays at {np.abs(tau).max():.4g} for "
                    f"{max(count, at_limit)} of {len(tau)} samples: it is clipped",
                    "leave these samples out, or repeat the run with less acceleration",
                    {"run": run.run, "joint": name, "share": share},
                )
            )
    return found


def check_dead(robot: Robot, runs: Sequence[Samples]) -> list[Finding]:
    """Find torque channels that do not change while their joint moves."""
    found = []
    for j, name in enumerate(robot.joint_names):
        active = [run for run in runs if moving_joints(robot, run)[j]]
        if not active:
            continue
        tau = np.concatenate([run.tau[:, j] for run in active])
        model = np.concatenate([rigid_torque(robot, run.motion)[:, j] for run in active])
        if np.ptp(tau) <= DEAD * 1e-3 * np.ptp(model) or np.ptp(tau) == 0.0:
            found.append(
                Finding(
                    "unusable",
                    "dead channel",
                    f"torque of joint {name} stays at {tau[0]:.4g} while the joint moves",
                    "check that its channel was recorded and converted",
                    {"joint": name},
                )
            )
    return found


def check_order(robot: Robot, motion: Motion, tau: FloatArray) -> list[Finding]:
    """Try whether exchanging two joints, in torque or motion or both, explains the torques much better."""
    n = robot.n_joints
    usual = cross_fits(robot, motion, tau)
    own = np.array([usual[i][i].misfit for i in range(n)])
    trials: dict[tuple[str, int, int], float] = {}
    for i in range(n):
        for j in range(i + 1, n):
            order = np.arange(n)
            order[[i, j]] = j, i
            trials["torques", i, j] = _gain(own, np.array([usual[order[k]][k].misfit for k in range(n)]))
            if robot.mechanism.prismatic[i] != robot.mechanism.prismatic[j]:
                continue
            swapped = Motion(motion.q[:, order], motion.dq[:, order], motion.ddq[:, order])
            try:
                fits = cross_fits(robot, swapped, tau)
            except NotAssembled:  # a closed chain cannot have been there
                continue
            trials["positions", i, j] = _gain(own, np.array([fits[k][k].misfit for k in range(n)]))
            trials["torques and positions", i, j] = _gain(own, np.array([fits[order[k]][k].misfit for k in range(n)]))
    best = min(trials, key=lambda key: trials[key], default=None)
    if best is None or trials[best] > np.log(0.2):
        return []
    what, i, j = best
    names = (robot.joint_names[i], robot.joint_names[j])
    return [
        Finding(
            "unusable",
            "swapped",
            f"{what} of joints {several(names)} seem exchanged: the prior model explains them "
            f"{np.exp(-0.5 * trials[best]):.2g} times better the other way round",
            "correct the order of columns",
            {"channels": what, "joints": names, "gain": float(np.exp(-0.5 * trials[best]))},
        )
    ]


def check_scale(robot: Robot, motion: Motion, tau: FloatArray) -> list[Finding]:
    """Find torques of wrong sign, unit or side of the gear, joint by joint."""
    found = []
    fits = cross_fits(robot, motion, tau)
    links = replace(robot, chi=np.where(np.arange(len(robot.chi)) < layout(robot).n_link_params, robot.chi, 0.0))
    felt = cross_fits(links, motion, tau)  # by sensors at the joints, beyond rotors
    for j, name in enumerate(robot.joint_names):
        fit = fits[j][j]
        if felt[j][j].explained > TELLING and SCALES[0] < felt[j][j].factor < SCALES[1]:
            fit = felt[j][j]
        if fit.explained > TELLING:
            if not SCALES[0] < fit.factor < SCALES[1]:
                found.append(_scale_finding(robot, j, fit.factor))
        elif fit.dissipation < -0.5:
            found.append(
                Finding(
                    "unusable",
                    "sign",
                    f"torque of joint {name} has the wrong sign: friction would drive the joint",
                    "reverse the sign of the torque, or of the position",
                    {"joint": name, "factor": fit.factor},
                )
            )
        elif fit.share > 1.0 and fit.explained < 0.1:
            found.append(
                Finding(
                    "doubtful",
                    "unrelated",
                    f"torque of joint {name} has nothing of what the prior model expects ({fit.factor:.2g} of it)",
                    "check which channel this is, its unit, and the prior masses",
                    {"joint": name, "factor": fit.factor},
                )
            )
    return found


def cross_fits(robot: Robot, motion: Motion, tau: FloatArray) -> list[list[Fit]]:
    """Fit every torque channel by every joint's model: fits[channel][joint]."""
    model = rigid_torque(robot, motion)
    n_links = layout(robot).n_link_params
    columns = regressor(robot, motion)[:, :, n_links:]
    by_joint = []
    for j in range(robot.n_joints):
        friction = _friction_columns(robot, motion, j, columns[:, j])
        basis, values, _ = np.linalg.svd(friction, full_matrices=False)
        by_joint.append(
            [
                _fit(tau[:, i], model[:, j], basis[:, values > 1e-9 * values[0]], motion.dq[:, j])
                for i in range(robot.n_joints)
            ]
        )
    return [[by_joint[j][i] for j in range(robot.n_joints)] for i in range(robot.n_joints)]


def _friction_columns(robot: Robot, motion: Motion, j: int, columns: FloatArray) -> FloatArray:
    """Collect what may be of any size in joint j's torque, (n_samples, n_columns): friction, unknown rotors."""
    params = layout(robot)
    chi = robot.chi[params.n_link_params :]
    rotors = set(params.rotor_columns)
    free = [k for k in range(columns.shape[1]) if k + params.n_link_params not in rotors or chi[k] == 0.0]
    dq = motion.dq[:, j]
    own = np.column_stack([dq, np.sign(dq), np.ones(len(dq)), columns[:, free]])
    size = np.linalg.norm(own, axis=0)
    return np.asarray(own[:, size > 0.0] / size[size > 0.0])


def _fit(tau: FloatArray, model: FloatArray, basis: FloatArray, dq: FloatArray) -> Fit:
    t, m = tau - basis @ (basis.T @ tau), model - basis @ (basis.T @ model)
    power, both, left = float(m @ m), float(m @ t), float(t @ t)
    varies = float(np.sum((tau - tau.mean()) ** 2))
    if power <= 1e-12 * float(model @ model) or left <= 0.0 or varies <= 0.0:
        return Fit(0.0, 0.0, 0.0, min(left / varies, 1.0) if varies > 0.0 else 1.0, 0.0)
    factor = both / power
    allowed = float(np.clip(factor, *SCALES))
    friction = basis @ (basis.T @ (tau - factor * model))
    size = float(np.linalg.norm(friction) * np.linalg.norm(dq))
    telling = float(np.linalg.norm(friction)) > 0.3 * float(np.linalg.norm(tau))
    return Fit(
        factor=factor,
        explained=both**2 / (power * left),
        share=float(np.sqrt(power / left)),
        misfit=min(1.0, max(float(np.sum((t - allowed * m) ** 2)) / varies, 1e-6)),
        dissipation=float(dq @ friction) / size if size > 0.0 and telling else 0.0,
    )


def _gain(before: FloatArray, after: FloatArray) -> float:
    """Sum the logarithms of how the joints' misfits change; below 0.1 % a misfit is as good as none."""
    return float(np.log(np.maximum(after, 1e-3) / np.maximum(before, 1e-3)).sum())


def _scale_finding(robot: Robot, j: int, factor: float) -> Finding:
    name = robot.joint_names[j]
    gear, limit = float(np.abs(robot.drive.motor_from_joint[j, j])), float(robot.limits.torque[j])
    meanings = {1.0: "", 1e3: "it is in N mm", 1e-3: "it is in kN m"}
    if np.isfinite(limit):
        meanings |= {100.0 / limit: "it is in percent of the torque limit", 1.0 / limit: "it is a share of the limit"}
    if gear > 3.0:
        meanings |= {1.0 / gear: "it is the motor's torque, before the gear", gear: "the gear was applied twice"}
    nearest = min(meanings, key=lambda scale: abs(np.log(abs(factor) / scale)))
    off = abs(np.log(abs(factor) / nearest)) > np.log(2.0)
    meaning = "no unit explains it: is it a current?" if off else meanings[nearest]
    sign = "has the wrong sign" if factor < 0.0 else ""
    scale = "" if nearest == 1.0 and not off else f"is {abs(factor):.3g} times what the prior model expects ({meaning})"
    wrong = " and ".join(part for part in (sign, scale) if part)
    prior_perhaps = off and PERHAPS[0] < factor < PERHAPS[1]
    return Finding(
        "doubtful" if prior_perhaps else "unusable",
        "sign" if factor < 0.0 else "scale",
        f"torque of joint {name} {wrong or f'is {factor:.2g} times what the prior model expects'}",
        "correct the conversion of this channel" if scale else "reverse its sign" if sign else "check unit and masses",
        {"joint": name, "factor": factor, "meaning": meaning},
    )


def _held_extreme(tau: FloatArray) -> int:
    """Count samples in runs of identical values at either extreme, if such runs are longer than elsewhere."""
    if np.ptp(tau) == 0.0:
        return 0
    starts = np.flatnonzero(np.concatenate([[True], np.diff(tau) != 0.0]))
    lengths = np.diff(np.append(starts, len(tau)))
    values = tau[starts]
    extreme = (values == tau.max()) | (values == tau.min())
    usual = int(lengths[~extreme].max()) if (~extreme).any() else 1
    held = lengths[extreme & (lengths >= max(4, 2 * usual))]
    return int(held.sum())
