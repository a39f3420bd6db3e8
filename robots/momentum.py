"""How do torques depend on parameters without accelerations: through the momentum, τ = d(A χ)/dt + B χ.

A χ is the generalised momentum M dq of links and rotors, B χ is -∂K/∂q plus gravity plus friction [Hsu1987]. Nothing is
differenced: both come from the regressor, at velocities and accelerations that are put in for the purpose.
"""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.drive import drive_columns
from excitor.robots.dynamics import friction_load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

_BLOCK = 1_000  # samples at once: closed chains remember where motions of up to this length lead


@dataclass(frozen=True, eq=False, slots=True)
class MomentumForm:
    """τ = d(A χ)/dt + B χ by chosen columns of χ."""

    A: FloatArray  # (n_samples, n_joints, n_columns): of the momentum
    B: FloatArray  # the same: of what else acts

    def __post_init__(self) -> None:
        sizes = freeze(self, A="n_samples n_joints n_columns")
        freeze(self, B=" ".join(str(size) for size in sizes.values()))


def momentum_form(
    robot: Robot, motion: Motion, load: FloatArray | None = None, *, columns: IntArray | None = None
) -> MomentumForm:
    """Find A and B of τ = d(A χ)/dt + B χ along a motion, whose accelerations are not used.

    With Y(q, dq, ddq) χ the torque of links, A = Y(q, 0, dq) - Y(q, 0, 0). Velocity terms c(v, v) = Y(q, v, 0) -
    Y(q, 0, 0) are a form in Christoffel's symbols, whence ∂K/∂q_i = dqᵀ c(e_i, dq), and 4 c(e_i, dq) is what c of
    dq + e_i and of dq - e_i differ by. Load-dependent friction needs the torques that joints carry, as `regressor`
    does: where not given, those of the prior along the motion, accelerations and all.
    """
    columns = np.arange(len(layout(robot))) if columns is None else columns
    shape = (len(motion), robot.n_joints, len(columns))
    A, B = np.empty(shape), np.empty(shape)
    for first in range(0, len(motion), _BLOCK):
        rows = slice(first, first + _BLOCK)
        block = Motion(motion.q[rows], motion.dq[rows], motion.ddq[rows])
        momentum, rest = _links(robot, block)
        A[rows], B[rows] = momentum[:, :, columns], rest[:, :, columns]
    _add_rotors(robot, motion, columns, A)
    _add_friction(robot, motion, load, columns, B)
    return MomentumForm(A, B)


def _links(robot: Robot, motion: Motion) -> tuple[FloatArray, FloatArray]:
    """Find what links contribute to A and B, columns of drives left 0, each (n_samples, n_joints, n_params)."""
    q, dq, still = motion.q, motion.dq, np.zeros_like(motion.q)
    n_samples, n_joints = q.shape
    params = layout(robot)

    def columns(velocity: FloatArray, acceleration: FloatArray) -> FloatArray:
        out = np.empty((params.n_link_params, n_joints, n_samples))
        robot.mechanism.regressor(Motion(q, velocity, acceleration), out)
        return out

    A, B = np.zeros((2, n_samples, n_joints, len(params)))
    gravity = columns(still, still)
    A[:, :, : params.n_link_params] = (columns(still, dq) - gravity).transpose(2, 1, 0)
    rest = gravity
    stride = float(np.abs(dq).max(initial=0.0)) or 1.0  # any length does: a form is quadratic exactly
    for i in range(n_joints):
        beside = np.zeros_like(q)
        beside[:, i] = stride
        twice = columns(dq + beside, still) - columns(dq - beside, still)  # 4 stride c(e_i, dq)
        rest[:, i] -= np.einsum("sj,pjs->ps", dq, twice) / (4.0 * stride)
    B[:, :, : params.n_link_params] = rest.transpose(2, 1, 0)
    return A, B


def _add_rotors(robot: Robot, motion: Motion, columns: IntArray, A: FloatArray) -> None:
    for rotor, column in zip(robot.drive.rotors, layout(robot).rotor_columns, strict=True):
        for k in np.flatnonzero(columns == column):
            A[:, :, k] += np.outer(motion.dq @ rotor.senses, rotor.acts)


def _add_friction(robot: Robot, motion: Motion, load: FloatArray | None, columns: IntArray, B: FloatArray) -> None:
    """Add friction; rotors, whose columns stand beside it, take nothing without accelerations."""
    params = layout(robot)
    of_drives = np.flatnonzero(columns >= params.n_link_params)
    if not len(of_drives):
        return
    out = np.empty((len(params) - params.n_link_params, robot.n_joints, len(motion)))
    steady = Motion(motion.q, motion.dq, np.zeros_like(motion.q))
    drive_columns(robot, steady, friction_load(robot, motion, load), out)
    B[:, :, of_drives] += out[columns[of_drives] - params.n_link_params].transpose(2, 1, 0)
