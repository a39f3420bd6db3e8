"""A rigid robot under torques that are held between control samples: a digital servo's, or recorded ones.

Under a servo, steps are those of the closed loop, implicit in friction (see `kernel.closed_loop`); recorded torques
are integrated by Runge and Kutta's steps of order four.
"""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.closed_loop import LOST, advance, settle
from excitor.robots.kernel.compile import compiled, inner
from excitor.robots.kernel.plant import Plant, State, Work, room, shift_slips

POSITION, VELOCITY, ACCELERATION, TORQUE = range(4)
N_SIGNALS = 4


class Gains(NamedTuple):
    """PD of joint positions and their backward difference, once a step; the step is integrated in equal parts."""

    kp: FloatArray  # (n,)
    kd: FloatArray
    forget: float  # share of the old velocity estimate that a new one keeps
    step: float  # s
    substeps: int


@compiled
def run_servo(
    plant: Plant,
    gains: Gains,
    reference: tuple[FloatArray, FloatArray, FloatArray],
    seen_noise: FloatArray,
    start: State,
    out: FloatArray,
) -> int:
    """Follow a reference (q, dq, torques fed forward; each (n_steps, n)); what is seen is off by seen_noise.

    Writes signals (N_SIGNALS, n_steps, n) as each step begins. Returns how many steps made sense.
    """
    n_steps, n = reference[0].shape
    work = room(plant, n)
    q, v, warm = start[0].copy(), start[1].copy(), np.zeros(n)
    before, rate = q.copy(), v.copy()
    h = gains.step / gains.substeps
    for k in range(n_steps):
        seen = q + seen_noise[k]
        if k > 0:
            rate = gains.forget * rate + (1.0 - gains.forget) * (seen - before) / gains.step
        before = seen
        tau = reference[2][k] + gains.kp * (reference[0][k] - seen) + gains.kd * (reference[1][k] - rate)
        acceleration = settle(plant, work, (q, v), (q, v), tau, warm)
        out[POSITION, k], out[VELOCITY, k], out[ACCELERATION, k], out[TORQUE, k] = q, v, acceleration, tau
        if not made_sense(v, acceleration):
            return k
        for part in range(gains.substeps):
            advance(plant, work, (q, v), (tau, tau), h, warm, part == 0)
    return int(n_steps)


@compiled
def run_held(plant: Plant, torques: FloatArray, start: State, step: float, substeps: int, out: FloatArray) -> int:
    """Integrate under torques (n_steps, n), each held for a step; signals and return as `run_servo`."""
    n_steps, n = torques.shape
    work = room(plant, n)
    q, v, warm = start[0].copy(), start[1].copy(), np.zeros(n)
    h = step / substeps
    for k in range(n_steps):
        tau = torques[k]
        a1 = settle(plant, work, (q, v), (q, v), tau, warm)
        out[POSITION, k], out[VELOCITY, k], out[ACCELERATION, k], out[TORQUE, k] = q, v, a1, tau
        if not made_sense(v, a1):
            return k
        for part in range(substeps):
            if part > 0:
                a1 = settle(plant, work, (q, v), (q, v), tau, warm)
            runge_kutta(plant, work, (q, v), tau, h, warm, a1)
    return int(n_steps)


@compiled
def accelerations_at(plant: Plant, state: State, tau: FloatArray) -> FloatArray:
    """Find the accelerations of one state; for integrators that are not compiled."""
    return settle(plant, room(plant, tau.size), state, state, tau, np.zeros(tau.size))


@inner
def made_sense(v: FloatArray, acceleration: FloatArray) -> bool:
    """Tell whether velocities are within reason and accelerations finite."""
    return bool(np.abs(v).max() < LOST) and bool(np.isfinite(acceleration).all())


@inner
def runge_kutta(
    plant: Plant, work: Work, state: State, tau: FloatArray, h: float, warm: FloatArray, a1: FloatArray
) -> None:
    """Take a step of order four; the first stage's accelerations are known. Maxwell-slip states move once a step."""
    q, v = state
    q2, v2 = q + 0.5 * h * v, v + 0.5 * h * a1
    a2 = settle(plant, work, (q2, v2), (q2, v2), tau, warm)
    q3, v3 = q + 0.5 * h * v2, v + 0.5 * h * a2
    a3 = settle(plant, work, (q3, v3), (q3, v3), tau, warm)
    q4, v4 = q + h * v3, v + h * a3
    a4 = settle(plant, work, (q4, v4), (q4, v4), tau, warm)
    before = q.copy()
    for i in range(q.size):
        q[i] += h / 6.0 * (v[i] + 2.0 * (v2[i] + v3[i]) + v4[i])
        v[i] += h / 6.0 * (a1[i] + 2.0 * (a2[i] + a3[i]) + a4[i])
    shift_slips(plant, work, before, q)
