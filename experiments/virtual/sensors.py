"""What the sensors and the logger of a virtual robot make of what truly happened."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from excitor.experiments.virtual.course import Course, commanded, marked
from excitor.experiments.virtual.measure import with_noise
from excitor.experiments.virtual.plant import encoder_steps, noise_scale
from excitor.experiments.virtual.recorded import Recorded
from excitor.experiments.virtual.truth import Truth, torque_scale
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.friction import joint_positions, motor_positions, torque_from_current
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from excitor.experiments.virtual.machine import Driven


def record(truth: Truth, course: Course, driven: "Driven", rng: np.random.Generator) -> Recorded:
    """Sample, quantise and blur what happened, on the logger's clock."""
    settings, plan = truth.settings, course.plan
    step = settings.log_step or plan.sample_time
    t = step * np.arange(int(driven.t[-1] / step + 1e-9) + 1)
    wobble = np.clip(rng.normal(size=len(t)), -3.0, 3.0) * min(settings.jitter, 0.16) * step
    t = np.clip(t + wobble, 0.0, driven.t[-1])
    q_motor = motor_positions(plan.robot, hermite(driven, t))
    quantum = encoder_steps(truth, plan.robot)
    exact = quantum == 0.0
    q_motor = np.where(exact, q_motor, np.round(q_motor / np.where(exact, 1.0, quantum)) * quantum)
    current, torque_motor = motor_side(truth, plan.robot, sampled(driven, "torque_motor", t - settings.sensor_lag), rng)
    shown = settings.speed if settings.speed_told else 1.0
    recorded = Recorded(
        program=plan.run,
        robot=plan.robot,
        t=t * (1.0 + settings.clock_drift),
        mark=marked(course, t),
        q_reference=commanded(course, t),
        dq_reference=commanded(course, t, 1),
        q=joint_positions(plan.robot, q_motor),
        dq=sampled(driven, "dq_estimate", t),
        q_motor=q_motor,
        current=current,
        torque_motor=torque_motor,
        torque_joint=joint_sensors(truth, sampled(driven, "torque_link", t - settings.sensor_lag), rng),
        temperature=sampled(driven, "temperature", t),
        speed_scaling=np.full(len(t), shown),
    )
    lost = rng.uniform(size=len(t)) < settings.dropped
    return with_rows(recorded, ~lost) if lost.any() else recorded


def with_rows(recorded: Recorded, rows: BoolArray) -> Recorded:
    """Keep some rows of every signal."""
    signals = [field.name for field in fields(Recorded) if field.name not in ("program", "robot")]
    return replace(recorded, **{name: getattr(recorded, name)[rows] for name in signals})


def sampled(driven: "Driven", name: str, t: FloatArray) -> FloatArray:
    """Interpolate a signal between the controller's steps, linearly."""
    values = getattr(driven, name)
    k, share = _place(driven, t)
    return np.asarray(values[k] + share * (values[k + 1] - values[k]))


def hermite(driven: "Driven", t: FloatArray) -> FloatArray:
    """Interpolate positions by cubics that have the velocities at the controller's steps."""
    k, s = _place(driven, t)
    h = driven.t[1] - driven.t[0]
    q0, q1, v0, v1 = driven.q[k], driven.q[k + 1], h * driven.dq[k], h * driven.dq[k + 1]
    rise = s * s * (3.0 - 2.0 * s)
    return np.asarray(q0 + rise * (q1 - q0) + s * (1.0 - s) * ((1.0 - s) * v0 - s * v1))


def _place(driven: "Driven", t: FloatArray) -> tuple[IntArray, FloatArray]:
    h = driven.t[1] - driven.t[0]
    k = np.clip(np.floor(t / h + 1e-9).astype(np.int64), 0, len(driven.t) - 2)
    share = np.clip(t / h - k, 0.0, 1.0)
    return k, np.where(np.abs(share) < 1e-9, 0.0, share)[:, None]


def motor_side(
    truth: Truth, robot: Robot, torque: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Measure currents and the motor torques that the controller makes of them, its law being the prior's.

    Where there is no law, there are no currents, and torques are what the drives say. Noise is of currents.
    """
    scale = noise_scale(robot)
    white, slow = truth.settings.white * scale, truth.settings.slow * scale
    if np.isnan(truth.torque_from_current).any():
        return np.full(torque.shape, np.nan), with_noise(torque, rng, white=white, slow=slow)
    slope = truth.torque_from_current[:, 1]
    current = with_noise(currents(truth.torque_from_current, torque), rng, white=white / slope, slow=slow / slope)
    return current, torque_from_current(robot, current)


def currents(law: FloatArray, torque: FloatArray) -> FloatArray:
    """Invert τ = sgn(I) (c0 + c1 |I| + c2 I² + c3 |I|³) on its rising branch; beyond, the current of its top."""
    out = np.empty_like(torque)
    for i, (c0, c1, c2, c3) in enumerate(law):
        size = np.maximum(np.abs(torque[:, i]) - c0, 0.0)
        turns = np.roots([3.0 * c3, 2.0 * c2, c1]) if c3 or c2 else np.zeros(0)
        tops = [float(root.real) for root in turns if abs(root.imag) < 1e-12 and root.real > 0.0]
        top = min(tops, default=2.0 * float(size.max(initial=1.0)) / c1)
        found = np.minimum(size / c1, top)
        low, high = np.zeros_like(size), np.full_like(size, top)
        for _ in range(60):
            error = found * (c1 + found * (c2 + found * c3)) - size
            low, high = np.where(error < 0.0, found, low), np.where(error < 0.0, high, found)
            slope = c1 + found * (2.0 * c2 + found * 3.0 * c3)
            newton = found - error / np.where(slope > 0.0, slope, 1.0)
            inside = (newton >= low) & (newton <= high) & (slope > 0.0)
            found = np.where(inside, newton, 0.5 * (low + high))
        out[:, i] = np.sign(torque[:, i]) * found
    return out


def joint_sensors(truth: Truth, torque: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Measure torques at the joints, where there are sensors."""
    if not truth.settings.joint_sensors:
        return np.full(torque.shape, np.nan)
    return np.asarray(torque + rng.normal(size=torque.shape) * truth.settings.sensor_white * torque_scale(truth.robot))
