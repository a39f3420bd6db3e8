"""What a run with a load looks like to its motors: motion of the joints, motor torques and their noise.

Torques are referred to the link side, as [Swevers2002] has everything: times how often a motor turns for one turn of
its own axis.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.identify.finding import STILL
from excitor.identify.periods import average_periods, harmonic_motion
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import channels
from excitor.robots.arrays import BoolArray, FloatArray, freeze
from excitor.robots.friction import joint_positions, motor_torques, torque_from_current
from excitor.robots.robot import Motion, Robot


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


@dataclass(frozen=True, slots=True)
class Periods:
    """How a periodic recording is cut: samples in a period, how often, which harmonics each motion is made of."""

    n_per_period: int
    sample_rate_hz: float
    harmonics: int | Sequence[int]  # multiples of the base frequency that the motion has, or how many from the first
    drop_periods: int = 0


def run_from_currents(
    robot: Robot, q_motor: FloatArray, current: FloatArray, *, periods: Periods, run: str = "run"
) -> LoadRun:
    """Turn motor positions and currents of a repeated motion, (n_samples, n_joints) each, into a run.

    Currents go through each motor's polynomial first; periods are averaged sample by sample, which also tells the
    noise; positions are averaged and rebuilt from their excited harmonics, so that derivatives are exact.
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
    settings: dict[str, float | str] = {
        "n_periods": float(torque.n_repetitions),
        "dropped": float(periods.drop_periods),
    }
    steps = (Step("average periods", settings), Step("harmonics", {"kept": str(periods.harmonics)}))
    return LoadRun(run, motion, torque.mean, np.where(still, 1.0, sigma), steps=steps)


def run_from_samples(robot: Robot, samples: Samples, *, sigma: FloatArray | None = None) -> LoadRun:
    """Take a processed run, torques at the joints, to the motors' side.

    `sigma` (n_joints,) is the noise of its rows; by default that of the mean of repeated periods, else 1 everywhere.
    """
    A = carried_from_joints(robot)
    tau = samples.tau @ A.T
    if sigma is None and samples.variance is not None:
        n = max([float(s.settings[k]) for s in samples.steps for k in _COUNTS if k in s.settings], default=1.0)
        spread = samples.variance.mean(axis=0) @ (A.T**2) / n
        sigma = np.sqrt(np.where(spread > 0.0, spread, 1.0))
    return LoadRun(samples.run, samples.motion, tau, np.ones(robot.n_joints) if sigma is None else sigma)


def moving_axes(runs: Sequence[LoadRun]) -> BoolArray:
    """Tell which joints move in any of the runs, (n_joints,)."""
    return np.asarray(np.any([np.ptp(run.motion.q, axis=0) > STILL for run in runs], axis=0))


def own_ratios(robot: Robot) -> FloatArray:
    """Count how often each motor turns for one turn of its own axis, (n_joints,); 1 where it has none."""
    own = np.diag(robot.drive.motor_from_joint)
    return np.asarray(np.where(own != 0.0, own, 1.0))


def carried_from_joints(robot: Robot) -> FloatArray:
    """Matrix A of τ' = A τ, from joint torques to those of motors referred to the link side: [Swevers2002] eq. (10)."""
    return motor_torques(robot, np.eye(robot.n_joints)).T * own_ratios(robot)[:, None]


def motor_speeds(robot: Robot, dq: FloatArray) -> FloatArray:
    """Speeds of the motors referred to the link side, (n_samples, n_joints)."""
    return np.asarray(dq @ robot.drive.motor_from_joint.T / own_ratios(robot))


def abba(n_blocks: int = 1) -> tuple[bool, ...]:
    """Order runs as bare, loaded, loaded, bare: whatever drifts steadily is then the same with the load as without."""
    if n_blocks < 1:
        raise ValueError(f"n_blocks is {n_blocks}, expected 1 or more")
    return (False, True, True, False) * n_blocks


_COUNTS = ("repetitions", "n_repetitions", "periods", "n_periods")
