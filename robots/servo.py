"""What does a robot with given parameters do under a digital PD along a reference? `follow`, in compiled code.

The controller reads joint positions once a sample, takes their backward difference for velocity, and holds its joint
torques until the next sample:

    τ_k = τ_ff(q_r, dq_r, ddq_r)_k + kp (q_r - q)_k + kd (dq_r - v)_k,   v_k = φ v_{k-1} + (1 - φ) (q_k - q_{k-1}) / T

Gears lose nothing, nothing gives way, nothing warms up. True signs of friction are smoothed to tanh(v / width), the
same in the robot, in its feedforward, and in any regressor that is set up for `smoothed(robot)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape, freeze
from excitor.robots.dynamics import inverse_dynamics, mass_matrix
from excitor.robots.mechanism import CanBeSingular
from excitor.robots.parameters import prior
from excitor.robots.plant import plain_plant
from excitor.robots.robot import SIGNED, Motion, Robot
from excitor.robots.simulate import with_friction_width

if TYPE_CHECKING:
    from excitor.robots.kernel.held import Gains

WIDTH = 0.005  # rad/s or m/s, over which a true sign of friction changes
LONGEST_STEP = 5e-4  # s, of integration
LIGHTEST = 3.0  # times less than what a closed chain's gains are tuned to may move without making them unstable


@dataclass(frozen=True, eq=False, slots=True)
class Servo:
    """A digital PD of joint torques, with the torques of a model fed forward or none."""

    kp: FloatArray  # (n_joints,), N m/rad or N/m
    kd: FloatArray  # (n_joints,), N m s/rad or N s/m
    rate_hz: float
    feedforward: FloatArray | None = None  # (n_params,)
    inertia: FloatArray | None = None  # (n_joints,): what the gains were tuned on, where that is known
    velocity_filter: float = 0.0  # s: time constant of the velocity estimate; 0 for the bare backward difference

    def __post_init__(self) -> None:
        freeze(self, kp="n_joints", kd="n_joints")
        if self.inertia is not None:
            freeze(self, inertia=str(self.kp.size))
        if self.feedforward is not None:
            freeze(self, feedforward="n_params")
        if not 0.0 < self.rate_hz < np.inf:
            raise ValueError(f"rate_hz is {self.rate_hz}, expected a positive frequency")
        if not 0.0 <= self.velocity_filter < np.inf:
            raise ValueError(f"velocity_filter is {self.velocity_filter}, expected 0 s or a time constant")


@dataclass(frozen=True, eq=False, slots=True)
class Followed:
    """What truly happened at the control samples; from where it got lost on, the robot stands still."""

    motion: Motion  # accelerations right after the torque's jump: τ = Y χ holds at every sample
    tau: FloatArray  # (n_samples, n_joints): commanded, each held until the next
    diverged_at: float  # s; inf where it did not

    def __post_init__(self) -> None:
        freeze(self, tau=f"{len(self.motion)} n_joints")

    @property
    def diverged(self) -> bool:
        """Tell whether the robot got out of control."""
        return bool(self.diverged_at < np.inf)


def servo_for(
    robot: Robot,
    motion: Motion,
    *,
    bandwidth_hz: float,
    damping: float = 0.7,
    chi: FloatArray | None = None,
    rate_hz: float = 1000.0,
) -> Servo:
    """Tune gains joint by joint on the inertia of a model along a motion: kp = ω² J, kd = 2 ζ ω J."""
    if not bandwidth_hz > 0.0 or not damping > 0.0:
        raise ValueError(f"bandwidth_hz is {bandwidth_hz}, damping {damping}, expected positive numbers")
    inertia = design_inertia(robot, motion, chi)
    omega = 2.0 * np.pi * bandwidth_hz
    return Servo(omega**2 * inertia, 2.0 * damping * omega * inertia, rate_hz, inertia=inertia)


def design_inertia(robot: Robot, motion: Motion, chi: FloatArray | None = None) -> FloatArray:
    """Find the largest inertia of each joint along a motion, (n_joints,).

    Joints of a closed chain that move together weigh many times more near a singularity than elsewhere: all inertias
    are lowered there so far that the lightest motion keeps its damping.
    """
    M = mass_matrix(robot, motion.q[:: max(1, len(motion) // 200)], chi)
    inertia = np.asarray(np.diagonal(M, axis1=1, axis2=2).max(axis=0))
    if isinstance(robot.mechanism, CanBeSingular):
        lightness = np.linalg.eigvals(np.linalg.solve(M, np.diag(inertia)[None]))
        inertia = inertia * min(1.0, LIGHTEST / float(np.abs(lightness).max()))
    return inertia


def follow(
    robot: Robot,
    reference: Motion,
    servo: Servo,
    *,
    chi: FloatArray | None = None,
    seen_noise: FloatArray | None = None,
    width: float = WIDTH,
) -> Followed:
    """Simulate a robot with parameters chi (the prior where not given) under its servo.

    `reference` is sampled at servo.rate_hz; the robot starts on it, at its velocity. `seen_noise` (n_samples,
    n_joints) is added to the positions that the controller reads.
    """
    return follow_many(
        robot,
        reference,
        servo,
        chis=[prior(robot) if chi is None else chi],
        seen_noises=None if seen_noise is None else [seen_noise],
        width=width,
    )[0]


def follow_many(
    robot: Robot,
    reference: Motion,
    servo: Servo,
    *,
    chis: Sequence[FloatArray] | FloatArray,
    seen_noises: Sequence[FloatArray] | None = None,
    width: float = WIDTH,
) -> list[Followed]:
    """Simulate robots that differ in their parameters, each with noise of its own, along one reference."""
    from excitor.robots.kernel import held

    shape = reference.q.shape
    check_shape(servo.kp, str(robot.n_joints), "servo.kp")
    robot = smoothed(robot, width)
    rows = (_own(reference.q), _own(reference.dq), _own(fed_forward(robot, reference, servo)))
    start, gains = (reference.q[0].copy(), reference.dq[0].copy()), _gains(servo)
    done = []
    for k, chi in enumerate(chis):
        noise = np.zeros(shape) if seen_noises is None else _own(seen_noises[k])
        check_shape(noise, f"{shape[0]} {shape[1]}", "seen_noise")
        out = np.zeros((held.N_SIGNALS, *shape))
        good = held.run_servo(plain_plant(robot, chi), gains, rows, noise, start, out)
        done.append(until_lost(out, good, 1.0 / servo.rate_hz))
    return done


def smoothed(robot: Robot, width: float = WIDTH) -> Robot:
    """Smooth true signs of friction, where there are any: the robot that `follow` simulates."""
    if any(term.model in SIGNED and term.width == 0.0 for term in robot.drive.friction):
        return with_friction_width(robot, width)
    return robot


def fed_forward(robot: Robot, reference: Motion, servo: Servo) -> FloatArray:
    """Find the torques that the servo feeds forward, of what is commanded, (n_samples, n_joints)."""
    if servo.feedforward is None:
        return np.zeros(reference.q.shape)
    return inverse_dynamics(robot, reference, servo.feedforward)


def _own(x: FloatArray) -> FloatArray:
    """Copy for compiled code, to which locked arrays, and those by columns, are of other types."""
    return np.array(x, dtype=float, order="C")


def _gains(servo: Servo) -> "Gains":
    from excitor.robots.kernel.held import Gains

    step = 1.0 / servo.rate_hz
    return Gains(
        kp=servo.kp.copy(),
        kd=servo.kd.copy(),
        forget=float(np.exp(-step / servo.velocity_filter)) if servo.velocity_filter > 0.0 else 0.0,
        step=step,
        substeps=max(1, int(np.ceil(step / LONGEST_STEP - 1e-9))),
    )


def until_lost(out: FloatArray, good: int, step: float) -> Followed:
    """Take signals of the first `good` samples; after them a robot that got lost stands still."""
    lost = good < out.shape[1]
    if lost:
        out[:, good:] = 0.0
        out[0, good:] = out[0, max(good - 1, 0)]
    return Followed(Motion(out[0], out[1], out[2]), out[3], good * step if lost else np.inf)
