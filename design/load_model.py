"""What a payload run must make well conditioned: the Jacobian of a load, with friction and efficiencies as unknowns.

[Swevers2002] eqs (1)-(14): with τ' = motor_from_jointᵀ⁻¹ Y φ the torque that links and load ask of the motors,
τ_M = τ' / R where a motor drives (τ' dq_M > 0), τ' R where it is driven, plus rotor and friction. Unknown are the ten
parameters of the load, friction and the efficiencies R of the axes that move. Links and rotors are known.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.models import gradient_by_differences, grams_one_by_one
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, locked
from excitor.robots.dynamics import regressor
from excitor.robots.gram import stack
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot


@dataclass(frozen=True, eq=False, slots=True)
class LoadModel:
    """Motor torques of the axes that move, referred to the link side; built by `load_model`.

    `columns` number the robot's own parameters; the efficiency of axis i is column n_params + i.
    """

    robot: Robot
    link: int  # that carries the load
    moving: BoolArray  # (n_joints,)
    weights: FloatArray  # (n_joints,): of rows; 1 / σ makes them count by their noise
    columns: IntArray
    efficiencies: bool  # unknown too

    def __post_init__(self) -> None:
        n_joints = freeze(self, moving="bool: n_joints", weights="n_joints", columns="int: n_columns")["n_joints"]
        if n_joints != self.robot.n_joints:
            raise ValueError(f"moving has {n_joints} axes, expected the robot's {self.robot.n_joints}")

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        """WᵀW of a population."""
        return grams_one_by_one(self, (q, dq, ddq), n_samples)

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by the motion: signs, and who drives whom, held as they are; the rest by central differences.

        Joints that stand still may be moved elsewhere (q), but not set in motion.
        """
        side = _driving(self, motion)
        rows = 2.0 * _blocks(self, motion, side) @ (0.5 * (gram_bar + gram_bar.T))
        still = np.arange(self.robot.n_joints), np.flatnonzero(self.moving), np.flatnonzero(self.moving)
        rows = rows * ~_stepped(self)
        return gradient_by_differences(lambda moved: _blocks(self, moved, side), motion, rows, still)

    def observation(self, motion: Motion) -> FloatArray:
        """W itself, rows of the axes that move."""
        return stack(_blocks(self, motion, _driving(self, motion)))


def load_model(
    robot: Robot,
    link: int,
    *,
    moving: BoolArray,
    weights: FloatArray | None = None,
    efficiencies: bool = True,
) -> LoadModel:
    """Set up the model of a load on a link; friction of the axes that move is unknown, and so are efficiencies.

    The robot's prior, its payload included, stands for the load that is expected: it tells who drives whom.
    """
    moving = locked(moving, "bool")
    if not 0 <= link < robot.mechanism.n_links:
        raise ValueError(f"link is {link}, expected 0 to {robot.mechanism.n_links - 1} of {robot.name}")
    if not moving.any():
        raise ValueError("no axis moves, so no load shows; let some move")
    params = layout(robot)
    reach = np.abs(_motor_from_torque(robot))[moving]
    friction = [
        column
        for term, column in zip(robot.drive.friction, params.friction_columns, strict=True)
        if (reach @ term.acts != 0.0).any() and (term.senses[moving] != 0.0).any()
    ]
    own = [10 * link + np.arange(10), np.array(sorted(set(friction)), dtype=np.int64)]
    if efficiencies:
        own.append(len(params) + np.flatnonzero(moving))
    rows = np.ones(robot.n_joints) if weights is None else np.asarray(weights, dtype=float)
    return LoadModel(robot, link, moving, rows, np.concatenate(own), efficiencies)


def unknown_names(model: LoadModel) -> tuple[str, ...]:
    """Name the unknowns in the order of the columns; efficiencies are called R and their axis."""
    params = layout(model.robot)
    axes = [f"R {name}" for name in model.robot.joint_names]
    return tuple((*params.names, *axes)[column] for column in model.columns)


def carried_torques(robot: Robot, motion: Motion) -> FloatArray:
    """Compute τ', what links and load ask of the motors before losses, (n_samples, n_joints).

    Referred to the link side: times how often a motor turns for one turn of its own axis.
    """
    params = layout(robot)
    phi = prior(robot)[: params.n_link_params].reshape(-1, 10)
    return np.asarray(robot.mechanism.inverse_dynamics(motion, phi) @ _motor_from_torque(robot).T)


def _blocks(model: LoadModel, motion: Motion, driving: FloatArray) -> FloatArray:
    """Stack [φ, friction, R] of each sample and moving axis, (n_samples, n_moving, n_columns).

    ∂τ_M/∂φ = ∂τ'/∂φ / R or · R, ∂τ_M/∂R = -τ' / R² or τ'; neither is reached at standstill.
    """
    robot, moving = model.robot, model.moving
    n_params = len(layout(robot))
    n_own = int((model.columns < n_params).sum())
    Y = regressor(robot, motion)[:, :, model.columns[:n_own]]
    W = np.zeros((len(motion), int(moving.sum()), len(model.columns)))
    W[:, :, :n_own] = np.einsum("ij,kjc->kic", _motor_from_torque(robot)[moving], Y)
    R = np.broadcast_to(robot.drive.efficiency, driving.shape)
    loss = np.where(driving > 0.0, 1.0 / R, np.where(driving < 0.0, R, 1.0))
    W[:, :, :10] *= loss[:, moving, None]
    if model.efficiencies:
        tau = carried_torques(robot, motion)
        slope = np.where(driving > 0.0, -tau / R**2, np.where(driving < 0.0, tau, 0.0))[:, moving]
        own = np.arange(slope.shape[1])
        W[:, own, n_own + own] = slope
    return np.asarray(W * model.weights[None, moving, None])


def _driving(model: LoadModel, motion: Motion) -> FloatArray:
    """Tell which motors drive (1), are driven (-1) or stand still (0), by the prior, (n_samples, n_joints)."""
    speed = motion.dq @ model.robot.drive.motor_from_joint.T
    speed = speed * np.sign(np.diag(_ratios(model.robot)))
    return np.asarray(np.sign(carried_torques(model.robot, motion) * speed))


def _motor_from_torque(robot: Robot) -> FloatArray:
    """Take joint torques to motor torques referred to the link side: τ' = A τ, A = ratio · N⁻ᵀ."""
    return np.asarray(_ratios(robot) @ np.linalg.inv(robot.drive.motor_from_joint.T))


def _ratios(robot: Robot) -> FloatArray:
    """Collect how often each motor turns for one turn of its own axis, as a diagonal matrix; 1 if it has none."""
    own = np.diag(robot.drive.motor_from_joint)
    return np.diag(np.where(own != 0.0, own, 1.0))


def _stepped(model: LoadModel) -> BoolArray:
    """Mark columns that hold a true sign, whose slope counts as 0, (n_columns,)."""
    params = layout(model.robot)
    stepped = [
        column
        for term, column in zip(model.robot.drive.friction, params.friction_columns, strict=True)
        if term.model == "coulomb" and term.width == 0.0
    ]
    return np.isin(model.columns, stepped)
