"""Motor torques of an arm with a load, and how they depend on what is unknown: F(θ) and its Jacobian.

    τ' = A (Y_arm χ + Y_load φ)                          what links and load ask of the motors, coupling included
    τ_M = τ' / R where τ' dq_M > 0, τ' R where < 0       the motor drives, or is driven
          + A (Y_rotor Ia + Y_friction f)

[Swevers2002] eqs (5)-(11) the other way round: R > 0 keeps signs, so τ' tells who drives and no iteration is needed.
All of it is linear but R, so the regressor is evaluated once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.load_runs import LoadRun, carried_from_joints, motor_speeds
from excitor.identify.load_task import Arm, LoadTask, Unknowns, unknowns
from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.dynamics import regressor
from excitor.robots.parameters import layout

START_EFFICIENCY = 0.95  # not 1: it tells the two sides apart


@dataclass(frozen=True, eq=False, slots=True)
class Equations:
    """Everything that F(θ) needs, one row a sample, axis and run."""

    task: LoadTask
    runs: tuple[str, ...]
    unknowns: Unknowns
    arm_root: FloatArray  # (n_params, n_arm): χ - arm.chi = arm_root @ z with z ~ N(0, 1)
    tau: FloatArray  # (n_rows,)
    sigma: FloatArray  # (n_rows,)
    speed: FloatArray  # (n_rows,), of the motor
    axis: IntArray  # (n_rows,)
    run: IntArray
    sample: IntArray
    carried: FloatArray  # (n_rows,): τ' of the arm as it is known
    driven: FloatArray  # (n_rows,): what its rotors take
    load: FloatArray  # (n_rows, 10)
    friction: FloatArray  # (n_rows, n_friction)
    arm_carried: FloatArray  # (n_rows, n_arm)
    arm_driven: FloatArray

    def __post_init__(self) -> None:
        freeze(self, tau="n_rows", sigma="n_rows", speed="n_rows", carried="n_rows", driven="n_rows")
        n = freeze(self, load="n_rows 10", friction="n_rows n_friction")["n_rows"]
        freeze(self, axis=f"int: {n}", run=f"int: {n}", sample=f"int: {n}")
        freeze(self, arm_carried=f"{n} n_arm", arm_driven=f"{n} n_arm")

    def __len__(self) -> int:
        return len(self.tau)


def equations(task: LoadTask, runs: Sequence[LoadRun]) -> Equations:
    """Set up the equations of runs with and without the load."""
    root = covariance_root(task)
    basis = _drift_basis(task, runs)
    blocks = [_block(task, run, root, basis[k]) for k, run in enumerate(runs)]
    joined = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
    numbers = np.repeat(np.arange(len(runs)), [len(block["tau"]) for block in blocks])
    axis, sample = (joined.pop(key).astype(np.int64) for key in ("axis", "sample"))
    return Equations(
        task=task,
        runs=tuple(run.run for run in runs),
        unknowns=unknowns(task, runs, root.shape[1]),
        arm_root=root,
        axis=axis,
        run=numbers,
        sample=sample,
        **joined,
    )


def motor_torque(system: Equations, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evaluate F(θ), (n_rows,), and ∂F/∂θ, (n_rows, n_unknowns); the side that drives counts as settled."""
    where = system.unknowns
    carried = system.carried + system.load @ theta[where.load]
    learns = where.arm.stop > where.arm.start
    if learns:
        carried = carried + system.arm_carried @ theta[where.arm]
    gain, slope = _transmission(system, carried, efficiencies(system, theta))
    F = gain * carried + system.driven + system.friction @ theta[where.friction]
    J = np.empty((len(system), len(where)))
    J[:, where.load] = gain[:, None] * system.load
    J[:, where.friction] = system.friction
    J[:, where.efficiency] = slope[:, None] * (system.axis[:, None] == where.efficiency_axes)
    if learns:
        J[:, where.arm] = gain[:, None] * system.arm_carried + system.arm_driven
        F += system.arm_driven @ theta[where.arm]
    return F, J


def arm_slope(system: Equations, theta: FloatArray) -> FloatArray:
    """∂F/∂z of the arm's deviations in units of their standard deviations, (n_rows, n_arm)."""
    where = system.unknowns
    carried = system.carried + system.load @ theta[where.load]
    gain, _ = _transmission(system, carried, efficiencies(system, theta))
    return np.asarray(gain[:, None] * system.arm_carried + system.arm_driven)


def residual(system: Equations, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weigh rows by their noise: r = (τ - F) / σ and J = ∂(F / σ)/∂θ; the arm's deviations are pulled to 0."""
    F, J = motor_torque(system, theta)
    r, J = (system.tau - F) / system.sigma, J / system.sigma[:, None]
    where = system.unknowns
    count = where.arm.stop - where.arm.start
    if count:
        pull = np.zeros((count, len(where)))
        pull[:, where.arm] = np.eye(count)
        r, J = np.append(r, -theta[where.arm]), np.vstack([J, pull])
    return r, J


def linear_start(system: Equations) -> FloatArray:
    """Solve without losses, where the model is linear, and start efficiencies below 1: [Swevers2002] §3.2."""
    where = system.unknowns
    theta = np.zeros(len(where))
    theta[where.efficiency] = 1.0
    F, J = motor_torque(system, theta)
    columns = np.r_[where.load, where.friction]
    theta[columns] = scipy.linalg.lstsq(J[:, columns] / system.sigma[:, None], (system.tau - F) / system.sigma)[0]
    theta[where.efficiency] = START_EFFICIENCY
    return theta


def efficiencies(system: Equations, theta: FloatArray) -> FloatArray:
    """Collect each axis' efficiency, (n_joints,)."""
    task, where = system.task, system.unknowns
    R = np.ones(task.robot.n_joints) if task.efficiency is None else task.efficiency.copy()
    R[where.efficiency_axes] = theta[where.efficiency]
    return np.asarray(R)


def covariance_root(task: LoadTask) -> FloatArray:
    """Find a root of the arm's covariance, C = root rootᵀ, with no more columns than needed, (n_params, n_arm).

    Friction is unknown anyway, so what is thought of it does not count.
    """
    C = arm_uncertainty(task.arm, layout(task.robot).friction_columns)
    scale = np.sqrt(np.diag(C))
    used = scale > 0.0
    values, V = np.linalg.eigh(C[np.ix_(used, used)] / np.outer(scale[used], scale[used]))
    if len(values) and values[0] < -1e-8 * values[-1]:
        raise ValueError("the arm's covariance is not positive semidefinite, so it is no covariance")
    kept = values > 1e-12 * max(float(values[-1]) if len(values) else 0.0, np.finfo(float).tiny)
    root = np.zeros((len(C), int(kept.sum())))
    root[used] = scale[used, None] * V[:, kept] * np.sqrt(values[kept])
    return root


def arm_uncertainty(arm: Arm, friction: Sequence[int]) -> FloatArray:
    """Keep the covariance of links and rotors."""
    C = arm.covariance.copy()
    C[list(friction)], C[:, list(friction)] = 0.0, 0.0
    return C


def _transmission(system: Equations, carried: FloatArray, R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tell what a carried torque is multiplied by, and ∂F/∂R, (n_rows,) each; at standstill there is no loss."""
    power, r = carried * system.speed, R[system.axis]
    gain = np.where(power > 0.0, 1.0 / r, np.where(power < 0.0, r, 1.0))
    slope = np.where(power > 0.0, -carried / r**2, np.where(power < 0.0, carried, 0.0))
    return gain, slope


def _block(task: LoadTask, run: LoadRun, root: FloatArray, drift: FloatArray) -> dict[str, FloatArray]:
    params, axes = layout(task.robot), np.flatnonzero(task.axes)
    n_links, rotors = params.n_link_params, sorted(set(params.rotor_columns))
    A = carried_from_joints(task.robot)[axes]
    Y = np.einsum("ai,nip->anp", A, regressor(task.robot, run.motion))  # axis by axis
    W = Y.reshape(-1, len(params))
    friction = W[:, task.friction]
    return {
        "tau": run.tau[:, axes].T.ravel(),
        "sigma": np.repeat(run.sigma[axes], len(run)),
        "speed": motor_speeds(task.robot, run.motion.dq)[:, axes].T.ravel(),
        "axis": np.repeat(axes, len(run)),
        "sample": np.tile(np.arange(len(run)), len(axes)),
        "carried": W[:, :n_links] @ task.arm.chi[:n_links],
        "driven": W[:, rotors] @ task.arm.chi[rotors],
        "load": W[:, params.link(task.link)] * float(run.loaded),
        "friction": (friction[:, :, None] * drift).reshape(len(W), -1),
        "arm_carried": W[:, :n_links] @ root[:n_links],
        "arm_driven": W[:, rotors] @ root[rotors],
    }


def _drift_basis(task: LoadTask, runs: Sequence[LoadRun]) -> FloatArray:
    """How friction is made up in each run, (n_runs, n_functions): alike, in proportion to time, or free."""
    if task.drift == "none":
        return np.ones((len(runs), 1))
    if task.drift == "each run":
        return np.eye(len(runs))
    times = np.array([run.time for run in runs])
    if np.ptp(times) == 0.0:
        raise ValueError("all runs have the same time, so no drift shows; say when each took place")
    return np.column_stack([np.ones(len(runs)), times - times.mean()])
