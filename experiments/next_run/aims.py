"""What is to be known, how well it is known now, and what is wanted: targets of parameters and of torques.

A deviation is √tr(C T), C the covariance: T = e eᵀ of a parameter, the mean of WᵀW over the runs so far of a joint's
torque. A parameter that the data show is known well enough at the stated relative deviation, or where its deviation
moves no joint's torque by more than the stated share.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.design.forecast import ESSENTIAL_CONTRIBUTION
from excitor.experiments.campaign import FILE, InvalidCampaign
from excitor.experiments.next_run.known import Known
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.information import counted, knowledge

MET = 1.0 + 1e-9
LEAST = 1e-6  # of a deviation: nobody asks for less


@dataclass(frozen=True, eq=False, slots=True)
class Aim:
    """Something that is to be known."""

    name: str
    kind: Literal["parameter", "torque"]
    unit: str
    size: float  # |value| of a parameter, rms of a torque
    now: float  # deviation
    target: float
    weight: FloatArray  # T, (n_names, n_names)

    def __post_init__(self) -> None:
        freeze(self, weight="n n")

    @property
    def met(self) -> bool:
        """Tell whether it is known well enough."""
        return self.now <= MET * self.target


def aims_of(known: Known) -> tuple[Aim, ...]:
    """List what is judged: parameters that show above the noise, or those named, then each joint's torque."""
    squares, torque = sizes_of(known)
    C = knowledge(known.given).covariance
    return (*_parameter_aims(known, C, squares, torque), *_torque_aims(known, C, squares, torque))


def _parameter_aims(known: Known, C: FloatArray, squares: list[FloatArray], torque: FloatArray) -> Iterator[Aim]:
    stated, design = known.campaign.content.targets, known.campaign.content.design
    percent = stated.relative_sigma_percent
    relative = (design.target_relative_sigma_percent if percent is None else percent) / 100.0
    values, units = known.values, base_parameters(known.robot).units
    sizes = np.sqrt(np.array([np.diag(T) for T in squares]))  # (n_joints, n_names): rms of each column
    shown = np.max(sizes * np.abs(values) / known.noise.sigma[:, None], axis=0) > ESSENTIAL_CONTRIBUTION
    each = np.divide(torque[:, None], sizes, out=np.full(sizes.shape, np.inf), where=sizes > 0.0)
    unseen = stated.torque_share_percent / 100.0 * each.min(axis=0)
    for k in named(known) or tuple(np.flatnonzero(shown)):
        size, now, e = abs(float(values[k])), float(np.sqrt(C[k, k])), np.eye(len(values))[k]
        target = max(relative * size, float(unseen[k]) if np.isfinite(unseen[k]) else 0.0, LEAST * now)
        yield Aim(known.names[k], "parameter", units[known.place[k]], size, now, target, np.outer(e, e))


def _torque_aims(known: Known, C: FloatArray, squares: list[FloatArray], torque: FloatArray) -> Iterator[Aim]:
    share = known.campaign.content.targets.torque_error_percent / 100.0
    sliding, sigma = known.robot.mechanism.prismatic, known.noise.sigma
    for j, name in enumerate(known.robot.joint_names):
        if torque[j] > 0.0:
            target = share * max(float(torque[j]), float(sigma[j]))
            unit, now = "N" if sliding[j] else "N m", deviation(C, squares[j])
            yield Aim(f"torque of {name}", "torque", unit, float(torque[j]), now, target, squares[j])


def deviation(C: FloatArray, weight: FloatArray) -> float:
    """Evaluate √tr(C T)."""
    return float(np.sqrt(max(float(np.sum(C * weight)), 0.0)))


def sizes_of(known: Known) -> tuple[list[FloatArray], FloatArray]:
    """Average WᵀW of each joint over the runs so far, and find the rms of its modelled torque, (n_joints,)."""
    n, n_joints = len(known.names), known.robot.n_joints
    sums: list[FloatArray]
    kept = base_parameters(known.robot).kept[known.place]
    sums, counts = [np.zeros((n, n)) for _ in range(n_joints)], np.zeros(n_joints)
    for run in known.runs:
        W = regressor(known.robot, run.motion)[:, :, kept]
        used = np.ones(W.shape[:2], dtype=bool) if run.static else counted(known.robot, run.motion, known.noise)
        used[:, list(known.robot.locked)] = False
        share = run.seconds / len(run.motion)
        for j in range(n_joints):
            rows = W[used[:, j], j]
            sums[j] += share * rows.T @ rows
            counts[j] += share * len(rows)
    least = np.finfo(float).tiny
    squares: list[FloatArray] = [total / max(count, least) for total, count in zip(sums, counts, strict=True)]
    torque = np.array([max(float(known.values @ T @ known.values), 0.0) for T in squares])
    return squares, np.sqrt(torque)


def named(known: Known) -> tuple[int, ...]:
    """Find the parameters that the campaign names; InvalidCampaign where the model has none of that name."""
    wanted = [name.removesuffix("R") for name in known.campaign.content.targets.parameters]
    own = [name.removesuffix("R") for name in known.names]
    strange = [name for name in wanted if name not in own]
    if strange:
        told = f"{', '.join(strange)} is no parameter of the model, which has {', '.join(own)}"
        raise InvalidCampaign(known.campaign.folder / FILE, [f"targets.parameters: {told}"])
    return tuple(own.index(name) for name in wanted)
