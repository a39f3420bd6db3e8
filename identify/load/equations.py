"""Motor torques of an arm with a load as a function of the unknowns θ: F(θ) and its Jacobian.

    τ' = A (Y_arm χ + Y_load φ)                          torques of links and load at the motors, coupling included
    τ_M = τ' / R where τ' dq_M > 0, τ' R where < 0       the motor drives, or is driven
          + A (Y_rotor Ia + Y_friction f)

[Swevers2002] eqs (5)-(11) the other way round: R > 0 keeps signs, so τ' determines who drives, without iteration.
All of it is linear but R, so the regressor is evaluated once.

A run holds the joints' motion, motor torques and their noise; a task holds the unknown parameters, and what is known of
the arm with its covariance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.identify.diagnose import STILL
from excitor.identify.periods import average_periods, harmonic_motion
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import channels
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.dynamics import regressor
from excitor.robots.friction import joint_positions, torque_from_current
from excitor.robots.load_torques import (
    carried_from_joints,
    driving_side,
    friction_columns,
    gear_losses,
    motor_speeds,
    own_ratios,
)
from excitor.robots.parameters import LINK_COMPONENTS, LINK_UNITS, layout
from excitor.robots.robot import Motion, Robot

START_EFFICIENCY = 0.95  # not 1: it tells the two sides apart


Drift = Literal["none", "linear", "each run"]
_COUNTS = ("repetitions", "n_repetitions", "periods", "n_periods")
LOAD_NAMES = tuple(f"{component}L" for component in LINK_COMPONENTS)  # XXL … ML, at the origin of the link's frame


@dataclass(frozen=True, eq=False, slots=True)
class Arm:
    """Known model of the robot without the load: χ and its covariance, 0 for parameters that count as exact."""

    chi: FloatArray  # (n_params,) of the robot's layout
    covariance: FloatArray  # (n_params, n_params)
    own_drives: bool = False  # known by the same drives, so that errors of their current laws are in it too

    def __post_init__(self) -> None:
        freeze(self, chi="n_params", covariance="n_params n_params")


@dataclass(frozen=True, eq=False, slots=True)
class LoadTask:
    """The load to identify, the axes used and the model of the arm; built by `load_task`."""

    robot: Robot
    arm: Arm
    link: int  # that carries the load
    axes: BoolArray  # (n_joints,): whose equations count
    efficiency: FloatArray | None  # (n_joints,), known; None: unknown
    friction: IntArray  # columns of the layout that are unknown
    drift: Drift
    learn_arm: bool  # let the data correct the arm within its covariance, instead of trusting it as it is

    def __post_init__(self) -> None:
        n = freeze(self, axes="bool: n_joints", friction="int: n_friction")["n_joints"]
        if n != self.robot.n_joints:
            raise ValueError(f"axes has {n} entries, expected the robot's {self.robot.n_joints}")
        if self.efficiency is not None:
            freeze(self, efficiency=str(n))
            if not (self.efficiency > 0.0).all():
                raise ValueError(f"efficiency is {self.efficiency.tolist()}, expected positive numbers, 1 for no loss")


@dataclass(frozen=True, eq=False, slots=True)
class Unknowns:
    """The order of θ = [load, friction, efficiencies, deviations of the arm]."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    load: slice
    friction: slice
    efficiency: slice
    efficiency_axes: IntArray  # (n_efficiencies,)
    arm: slice  # in units of their standard deviations

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False, slots=True)
class Equations:
    """Data of F(θ), one row a sample, axis and run."""

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


@dataclass(frozen=True, eq=False, slots=True)
class LoadRun:
    """One run with the load on the robot, or without it."""

    run: str
    motion: Motion  # of the joints
    tau: FloatArray  # (n_samples, n_joints), of the motors, N m referred to the link side
    sigma: FloatArray  # (n_joints,), standard deviation of a row's noise
    loaded: bool = True
    time: float = 0.0  # when the run took place, in any unit: what drift is counted in
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        n_samples, n_joints = self.motion.q.shape
        freeze(self, tau=f"{n_samples} {n_joints}", sigma=str(n_joints))
        if not (self.sigma > 0.0).all():
            bad = int(np.flatnonzero(~(self.sigma > 0.0))[0])
            raise ValueError(
                f"run {self.run!r}: sigma[{bad}] is {self.sigma[bad]:g}, expected a positive standard deviation of the "
                "noise in that motor's torque"
            )

    def __len__(self) -> int:
        return len(self.motion)


def equations(task: LoadTask, runs: Sequence[LoadRun]) -> Equations:
    """Build the equations of runs with and without the load."""
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
    """Evaluate F(θ), (n_rows,), and ∂F/∂θ, (n_rows, n_unknowns); the sign of power counts as constant."""
    where = system.unknowns
    carried = system.carried + system.load @ theta[where.load]
    learns = where.arm.stop > where.arm.start
    if learns:
        carried = carried + system.arm_carried @ theta[where.arm]
    gain, slope = _losses(system, carried, efficiencies(system, theta))
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
    carried = system.carried + system.load @ theta[system.unknowns.load]
    gain, _ = _losses(system, carried, efficiencies(system, theta))
    return np.asarray(gain[:, None] * system.arm_carried + system.arm_driven)


def residual(system: Equations, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weight rows by their noise: r = (τ - F) / σ and J = ∂(F / σ)/∂θ; the arm's deviations have a prior at 0."""
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

    Friction is among the unknowns, so its covariance is left out.
    """
    C, friction = task.arm.covariance.copy(), list(layout(task.robot).friction_columns)
    C[friction], C[:, friction] = 0.0, 0.0
    scale = np.sqrt(np.diag(C))
    used = scale > 0.0
    values, V = np.linalg.eigh(C[np.ix_(used, used)] / np.outer(scale[used], scale[used]))
    if len(values) and values[0] < -1e-8 * values[-1]:
        raise ValueError("the arm's covariance is not positive semidefinite, so it is no covariance")
    kept = values > 1e-12 * max(float(values[-1]) if len(values) else 0.0, np.finfo(float).tiny)
    root = np.zeros((len(C), int(kept.sum())))
    root[used] = scale[used, None] * V[:, kept] * np.sqrt(values[kept])
    return root


def _losses(system: Equations, carried: FloatArray, R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gain of the carried torque, and ∂F/∂R, (n_rows,) each."""
    return gear_losses(carried, driving_side(carried, system.speed), R[system.axis])


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
    """Build functions of friction by run, (n_runs, n_functions): constant, with a part linear in time, or free."""
    if task.drift == "none":
        return np.ones((len(runs), 1))
    if task.drift == "each run":
        return np.eye(len(runs))
    times = np.array([run.time for run in runs])
    if np.ptp(times) == 0.0:
        raise ValueError("all runs have the same time, so no drift is identifiable; give the time of each run")
    return np.column_stack([np.ones(len(runs)), times - times.mean()])


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods of a recording: samples in a period, sample rate, and the harmonics of the motion."""

    n_per_period: int
    sample_rate_hz: float
    harmonics: int | Sequence[int]  # multiples of the base frequency that the motion has, or how many from the first
    drop_periods: int = 0


def run_from_currents(
    robot: Robot, q_motor: FloatArray, current: FloatArray, *, periods: Periods, run: str = "run"
) -> LoadRun:
    """Build a run from motor positions and currents of a repeated motion, (n_samples, n_joints) each.

    Currents go through each motor's polynomial first; periods are averaged sample by sample, which also gives
    the noise; positions are averaged and rebuilt from their excited harmonics, so that derivatives are exact.
    """
    current, law = channels(current, "current"), robot.drive.torque_from_current
    unknown = np.isnan(law).any(axis=1)
    if current[:, unknown].any():
        names = ", ".join(np.array(robot.joint_names)[unknown])
        raise ValueError(f"{robot.name}: no torque_from_current is given for the motors of {names}")
    known = replace(robot, drive=replace(robot.drive, torque_from_current=np.nan_to_num(law)))
    tau = torque_from_current(known, current) * own_ratios(robot)
    return run_from_torques(robot, joint_positions(robot, channels(q_motor, "q_motor")), tau, periods=periods, run=run)


def run_from_torques(robot: Robot, q: FloatArray, tau: FloatArray, *, periods: Periods, run: str = "run") -> LoadRun:
    """Average a repeated motion's joint positions and motor torques, the latter referred to the link side."""
    torque = average_periods(tau, periods.n_per_period, drop_periods=periods.drop_periods)
    position = average_periods(q, periods.n_per_period, drop_periods=periods.drop_periods)
    motion = harmonic_motion(position.mean, periods.harmonics, sample_rate_hz=periods.sample_rate_hz)
    sigma = np.sqrt(torque.noise_variance / torque.n_repetitions)
    still = sigma == 0.0  # a motor that was not recorded, or held by its brake
    counts = {"n_periods": torque.n_repetitions, "dropped": periods.drop_periods}
    settings: dict[str, float | str] = {key: float(count) for key, count in counts.items()}
    steps = (Step("average periods", settings), Step("harmonics", {"kept": str(periods.harmonics)}))
    return LoadRun(run, motion, torque.mean, np.where(still, 1.0, sigma), steps=steps)


def run_from_samples(robot: Robot, samples: Samples, *, sigma: FloatArray | None = None) -> LoadRun:
    """Build a run from processed samples, whose joint torques are converted to the motors' side.

    `sigma` (n_joints,) is the noise of its rows; by default that of the mean of repeated periods, else 1 everywhere.
    """
    A = carried_from_joints(robot)
    tau = samples.tau @ A.T
    if sigma is None and samples.variance is not None:
        n = max([float(s.settings[k]) for s in samples.steps for k in _COUNTS if k in s.settings], default=1.0)
        spread = samples.variance.mean(axis=0) @ (A.T**2) / n
        sigma = np.sqrt(np.where(spread > 0.0, spread, 1.0))
    return LoadRun(samples.run, samples.motion, tau, np.ones(robot.n_joints) if sigma is None else sigma)


def abba(n_blocks: int = 1) -> tuple[bool, ...]:
    """Order runs as bare, loaded, loaded, bare: whatever drifts steadily is then the same with the load as without."""
    if n_blocks < 1:
        raise ValueError(f"n_blocks is {n_blocks}, expected 1 or more")
    return (False, True, True, False) * n_blocks


def exact_arm(robot: Robot, chi: FloatArray | None = None) -> Arm:
    """Return the arm as exactly known, by default the robot's own prior with no payload."""
    chi = robot.chi if chi is None else np.asarray(chi, dtype=float)
    return Arm(chi, np.zeros((len(chi), len(chi))))


def load_task(
    robot: Robot,
    runs: Sequence[LoadRun],
    *,
    arm: Arm | None = None,
    efficiency: FloatArray | None = None,
    drift: Drift = "none",
    learn_arm: bool = False,
) -> LoadTask:
    """Ask for a load on the tool's link, from the axes that move in the runs.

    A payload that the robot states is left out of the arm: it may be the load to identify.
    """
    if not runs:
        raise ValueError("there are no runs to learn a load from; give at least one with the load on")
    for run in runs:
        if run.tau.shape[1] != robot.n_joints:
            sentence = f"run {run.run!r} has {run.tau.shape[1]} motors, expected {robot.n_joints} of {robot.name}"
            raise ValueError(sentence)
    if not any(run.loaded for run in runs):
        raise ValueError("no run has the load on; mark those that do as loaded")
    axes = np.any([np.ptp(run.motion.q, axis=0) > STILL for run in runs], axis=0)
    axes[list(robot.locked)] = False
    if not axes.any():
        raise ValueError("no axis moves in these runs; for poses held, use static_load")
    if learn_arm and not (arm is not None and arm.covariance.any()):
        raise ValueError("learn_arm needs an arm with a covariance that says how far it may be corrected")
    arm = exact_arm(robot) if arm is None else arm
    if len(arm.chi) != len(layout(robot)):
        raise ValueError(f"the arm has {len(arm.chi)} parameters, expected {len(layout(robot))} of {robot.name}")
    return LoadTask(robot, arm, robot.tool.link, axes, efficiency, friction_columns(robot, axes), drift, learn_arm)


def unknowns(task: LoadTask, runs: Sequence[LoadRun], n_arm: int) -> Unknowns:
    """Name what is unknown; `n_arm` deviations of the arm, if it may be corrected."""
    params, names, units = layout(task.robot), list(LOAD_NAMES), list(LINK_UNITS)
    each = tuple(f" in {run.run}" for run in runs)
    suffixes = {"none": ("",), "linear": ("", " drift"), "each run": each}[task.drift]
    for column in task.friction:
        names += [params.names[column] + suffix for suffix in suffixes]
        units += [params.units[column] + ("/time" if suffix == " drift" else "") for suffix in suffixes]
    friction = slice(10, len(names))
    axes = np.flatnonzero(task.axes) if task.efficiency is None else np.zeros(0, dtype=np.int64)
    names += [f"R {task.robot.joint_names[i]}" for i in axes]
    units += ["1"] * len(axes)
    efficiency = slice(friction.stop, len(names))
    count = n_arm if task.learn_arm else 0
    names += [f"arm {k + 1}" for k in range(count)]
    units += ["1"] * count
    load = slice(0, 10)
    return Unknowns(tuple(names), tuple(units), load, friction, efficiency, axes, slice(efficiency.stop, len(names)))
