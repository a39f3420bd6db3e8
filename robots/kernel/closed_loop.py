"""A robot under its position controller, step by step: what a virtual machine does along a commanded motion.

Friction is far stiffer than all else near standstill. Steps are therefore Verwer's second-order W-method with
γ = 1 + 1/√2, implicit in friction alone, whose damping is the chord g(v)/v: velocities come to rest, they do not
chatter. Where gears give way, a spring and a damper stand between each motor, which has the rotor and the friction,
and its link; springs are integrated explicitly.
"""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.compile import compiled, inner
from excitor.robots.kernel.plant import (
    Plant,
    State,
    Work,
    evaluate,
    evaluate_elastic,
    hold_stuck,
    projected,
    room,
    same_sides,
    shift_slips,
    solve,
)

GAMMA = 1.0 + np.sqrt(0.5)
LOST = 1e4  # rad or m per s: a robot this fast has left all sense

POSITION, VELOCITY, ACCELERATION, MOTOR_TORQUE, LINK_TORQUE, VELOCITY_ESTIMATE, TEMPERATURE = range(7)
N_SIGNALS = 7


class Controller(NamedTuple):
    """Feedforward, and PD of the motors' encoders seen at the joints, once a step; then a current loop."""

    kp: FloatArray  # (n,)
    kd: FloatArray
    limit: FloatArray  # (n,): of motor torques
    quantum: FloatArray  # (n,): of encoders; 0 where they are exact
    lag: float  # s, of the current loop
    forget: float  # share of the old velocity estimate that a new one keeps
    step: float  # s
    substeps: int


@compiled
def run_closed_loop(
    plant: Plant, controller: Controller, reference: tuple[FloatArray, FloatArray, FloatArray], out: FloatArray
) -> int:
    """Follow a reference (q, dq, joint torques fed forward; each (n_steps, n)), from rest at its first row.

    Writes signals (N_SIGNALS, n_steps, n) as they are when each step begins; out[TEMPERATURE, 0] is where warmth
    starts. Returns how many steps made sense.
    """
    n_steps, n = reference[0].shape
    elastic = plant.stiffness.size > 0
    work = room(plant, n)
    q, v = reference[0][0].copy(), np.zeros(n)
    links = (q.copy(), np.zeros(n))
    warm = out[TEMPERATURE, 0].copy()
    tau = motor_torques(plant, reference[2][0])
    seen, rate = see(plant, controller, q), np.zeros(n)
    h = controller.step / controller.substeps
    fade = np.exp(-h / controller.lag) if controller.lag > 0.0 else 0.0
    settle_springs(plant, links, q, reference[2][0])
    for k in range(n_steps):
        now = see(plant, controller, q)
        if k > 0:
            rate = controller.forget * rate + (1.0 - controller.forget) * (now - seen) / controller.step
        seen = now
        asked = reference[2][k] + controller.kp * (reference[0][k] - seen) + controller.kd * (reference[1][k] - rate)
        wish = motor_torques(plant, asked)
        wish = np.minimum(np.maximum(wish, -controller.limit), controller.limit)
        if controller.lag == 0.0:
            tau = wish
        acceleration = settle(plant, work, (q, v), links, tau, warm)
        out[POSITION, k], out[VELOCITY, k], out[ACCELERATION, k] = q, v, acceleration
        out[MOTOR_TORQUE, k], out[LINK_TORQUE, k] = tau, work.felt
        out[VELOCITY_ESTIMATE, k], out[TEMPERATURE, k] = rate, warm
        if not (np.abs(v).max() < LOST):
            return k
        for i in range(n):
            gained = plant.heat[i] * abs(work.rubbed[i] * v[i])
            warm[i] += controller.step * (gained - plant.relief * (warm[i] - plant.ambient))
        for part in range(controller.substeps):
            known = part == 0  # settled just now
            later = wish + (tau - wish) * fade
            if elastic:
                advance_elastic(plant, work, (q, v), links, (tau, later), h, warm, known)
            else:
                advance(plant, work, (q, v), (tau, later), h, warm, known)
            tau = later
    return int(n_steps)


@inner
def motor_torques(plant: Plant, torque: FloatArray) -> FloatArray:
    """Divide joint torques among the motors: N⁻ᵀ τ."""
    out = np.empty_like(torque)
    for i in range(torque.size):
        out[i] = projected(plant.ungears[:, i], torque)
    return out


@inner
def see(plant: Plant, controller: Controller, q: FloatArray) -> FloatArray:
    """Read encoders and turn them into joint positions."""
    motor, out = np.empty_like(q), np.empty_like(q)
    for i in range(q.size):
        motor[i] = projected(plant.gears[i], q)
        if controller.quantum[i] > 0.0:
            motor[i] = np.round(motor[i] / controller.quantum[i]) * controller.quantum[i]
    for i in range(q.size):
        out[i] = projected(plant.ungears[i], motor)
    return out


@inner
def settle_springs(plant: Plant, links: State, q: FloatArray, torque: FloatArray) -> None:
    """Let springs carry the first torque, so that links begin at rest."""
    for i in range(plant.stiffness.size):
        links[0][i] = q[i] - torque[i] / plant.stiffness[i]


@inner
def settle(
    plant: Plant,
    work: Work,
    motors: State,
    links: State,
    tau: FloatArray,
    warm: FloatArray,
) -> FloatArray:
    """Find the motors' accelerations, and the torques that links, and links with rotors, take (`felt`, `load`).

    What gears lose depends on the direction of the torque they carry, which is looked for.
    """
    acceleration = np.zeros(tau.size)
    for _ in range(4):
        felt, load = work.felt.copy(), work.load.copy()
        if plant.stiffness.size > 0:
            evaluate_elastic(plant, work, motors, links, tau, warm)
            solve(work.matrix, work.total, work.push, acceleration)
            work.felt[:] = work.pulls
        else:
            evaluate(plant, work, motors, tau, warm)
            solve(work.matrix, work.total, work.push, acceleration)
            for i in range(tau.size):
                work.felt[i] = work.bias[i] + projected(work.mass[i], acceleration)
        for i in range(tau.size):
            work.load[i] = work.felt[i] + projected(plant.rotors[i], acceleration)
        if same_sides(plant, work, felt, load):
            break
    return acceleration


@inner
def implicit(work: Work, h: float, chord: FloatArray) -> None:
    """Add the damping of friction to what accelerations are multiplied with."""
    for i in range(chord.shape[0]):
        for k in range(chord.shape[0]):
            work.total[i, k] += GAMMA * h * chord[i, k]


@inner
def step_velocity(plant: Plant, work: Work, h: float, chord: FloatArray, first: FloatArray, second: FloatArray) -> None:
    """Find the second slope of velocities from the first one: (total + γ h chord) k₂ = push - 2 total k₁."""
    for i in range(first.size):
        work.push[i] -= 2.0 * projected(work.total[i], first)
    hold_stuck(plant, work)
    implicit(work, h, chord)
    solve(work.matrix, work.total, work.push, second)


@inner
def advance(plant: Plant, work: Work, motors: State, torques: State, h: float, warm: FloatArray, known: bool) -> None:
    """Take a step of a rigid robot; `known`: the state it starts in has been evaluated."""
    q, v = motors
    first, second = np.empty_like(q), np.empty_like(q)
    if not known:
        evaluate(plant, work, motors, torques[0], warm)
    chord = work.chord.copy()
    implicit(work, h, chord)
    solve(work.matrix, work.total, work.push, first)
    ahead = (q + h * v, v + h * first)
    slipped = work.slip.copy()
    shift_slips(plant, work, q, ahead[0])
    evaluate(plant, work, ahead, torques[1], warm)
    step_velocity(plant, work, h, chord, first, second)
    work.slip[:] = slipped
    before = q.copy()
    for i in range(q.size):
        q[i] += 0.5 * h * (v[i] + ahead[1][i])
        v[i] += h * (1.5 * first[i] + 0.5 * second[i])
    shift_slips(plant, work, before, q)


@inner
def advance_elastic(
    plant: Plant, work: Work, motors: State, links: State, torques: State, h: float, warm: FloatArray, known: bool
) -> None:
    """Take a step of a robot whose gears give way: motors implicit in their friction, links by Heun's method."""
    q, v = motors
    first, second, pulled, drawn = np.empty_like(q), np.empty_like(q), np.empty_like(q), np.empty_like(q)
    if not known:
        evaluate_elastic(plant, work, motors, links, torques[0], warm)
    chord = work.chord.copy()
    solve(work.matrix, work.mass, work.pulls - work.bias, pulled)
    implicit(work, h, chord)
    solve(work.matrix, work.total, work.push, first)
    ahead = (q + h * v, v + h * first)
    beyond = (links[0] + h * links[1], links[1] + h * pulled)
    slipped = work.slip.copy()
    shift_slips(plant, work, q, ahead[0])
    evaluate_elastic(plant, work, ahead, beyond, torques[1], warm)
    solve(work.matrix, work.mass, work.pulls - work.bias, drawn)
    step_velocity(plant, work, h, chord, first, second)
    work.slip[:] = slipped
    before = q.copy()
    for i in range(q.size):
        q[i] += 0.5 * h * (v[i] + ahead[1][i])
        v[i] += h * (1.5 * first[i] + 0.5 * second[i])
        links[0][i] += 0.5 * h * (links[1][i] + beyond[1][i])
        links[1][i] += 0.5 * h * (pulled[i] + drawn[i])
    shift_slips(plant, work, before, q)
