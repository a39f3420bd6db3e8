"""Time integration of a robot under torques held between control samples: of a servo or controller, or recorded.

Under a servo, steps are those of the closed loop, implicit in friction (see `advance`); recorded torques are integrated
by Runge and Kutta's steps of order four. Dry friction with a true sign either slides in one direction or sticks; its
events are located. A position controller with elastic gears and thermal friction is simulated step by step.
"""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
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
    position_noise: FloatArray,
    start: State,
    out: FloatArray,
) -> int:
    """Follow a reference (q, dq, torques fed forward; each (n_steps, n)); measured positions are off by position_noise.

    Writes signals (N_SIGNALS, n_steps, n) as each step begins. Returns the number of valid steps.
    """
    n_steps, n = reference[0].shape
    work = room(plant, n)
    q, v, warm = start[0].copy(), start[1].copy(), np.zeros(n)
    before, rate = q.copy(), v.copy()
    h = gains.step / gains.substeps
    for k in range(n_steps):
        measured = q + position_noise[k]
        if k > 0:
            rate = gains.forget * rate + (1.0 - gains.forget) * (measured - before) / gains.step
        before = measured
        tau = reference[2][k] + gains.kp * (reference[0][k] - measured) + gains.kd * (reference[1][k] - rate)
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
    """Return True if velocities are below LOST and accelerations finite."""
    return bool(np.abs(v).max() < LOST) and bool(np.isfinite(acceleration).all())


@inner
def runge_kutta(
    plant: Plant, work: Work, state: State, tau: FloatArray, h: float, warm: FloatArray, a1: FloatArray
) -> None:
    """Integrate one step of order four from known first accelerations a1. Maxwell-slip states advance once a step."""
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


AT_REST = 1e-9  # rad/s or m/s
_SWEEPS = 2000
_EXACT = 1e-13  # of the largest force
_SLACK = 1e-9  # of the largest force: less than that missing, a friction still holds
_SPARE = 1e-12  # of G's largest entry: smaller pivots are 0
_HALVINGS = 50
_MOST_EVENTS = 200  # in one sample: more would be an accumulation


class Dry(NamedTuple):
    """Dry friction: a torque acts · sgn(v) (level + more · exp(-|v| / scale)), v = senses · dq."""

    senses: FloatArray  # (n_dry, n)
    acts: FloatArray
    level: FloatArray  # (n_dry,)
    more: FloatArray
    scale: FloatArray


class FrictionWorkspace(NamedTuple):
    """Workspace for sticking: one entry, row or column for each dry friction."""

    force: FloatArray  # (n_dry,): λ of those that stick
    free: FloatArray  # (n_dry,): accelerations without them
    G: FloatArray  # (n_dry, n_dry)
    small: FloatArray  # (n_dry, n_dry)
    spread: FloatArray  # (n, n_dry): M⁻¹ Bᵀ
    ddq: FloatArray  # (n,)


@compiled
def run_sticking(
    plant: Plant,
    dry: Dry,
    torques: FloatArray,
    start: State,
    step: float,
    substeps: int,
    out: FloatArray,
    mode: IntArray,
) -> int:
    """Integrate under torques (n_steps, n), each held for a step; `plant` has no dry friction.

    Writes signals as `run_servo`, and each dry friction's direction, (n_steps, n_dry): -1, 1, or 0 where it sticks.
    Returns the number of valid steps; accumulating events end the simulation too.
    """
    n_steps, n = torques.shape
    work, held = room(plant, n), make_held(n, dry.level.size)
    q, v, sense = start[0].copy(), start[1].copy(), np.zeros(dry.level.size, dtype=np.int64)
    ahead = (q.copy(), v.copy())
    for e in range(sense.size):
        speed = projected(dry.senses[e], v)
        sense[e] = 0 if abs(speed) <= AT_REST else (1 if speed > 0.0 else -1)
    for k in range(n_steps):
        tau = torques[k]
        respond(plant, work, dry, held, (q, v), tau, sense, True)
        out[POSITION, k], out[VELOCITY, k], out[ACCELERATION, k], out[TORQUE, k] = q, v, held.ddq, tau
        mode[k] = sense
        left, events = step, 0
        while left > 1e-12 * step:
            if not made_sense(v, held.ddq) or events > _MOST_EVENTS:
                return k
            h = min(step / substeps, left)
            if step_ahead(plant, work, dry, held, (q, v), tau, sense, h, ahead):
                low, high = 0.0, h
                for _ in range(_HALVINGS):
                    h = 0.5 * (low + high)
                    if step_ahead(plant, work, dry, held, (q, v), tau, sense, h, ahead):
                        high = h
                    else:
                        low = h
                h = high
                step_ahead(plant, work, dry, held, (q, v), tau, sense, h, ahead)
                stop(dry, ahead[1], sense)
                respond(plant, work, dry, held, ahead, tau, sense, True)
                events += 1
            q[:], v[:] = ahead[0], ahead[1]
            left -= h
    return int(n_steps)


@inner
def make_held(n: int, n_dry: int) -> FrictionWorkspace:
    """Allocate the workspace."""
    square = (n_dry, n_dry)
    return FrictionWorkspace(
        np.zeros(n_dry), np.zeros(n_dry), np.zeros(square), np.zeros(square), np.zeros((n, n_dry)), np.zeros(n)
    )


@inner
def stop(dry: Dry, v: FloatArray, sense: IntArray) -> None:
    """Mark dry frictions that have come to rest as sticking, and remove their residual velocities."""
    for e in range(sense.size):
        speed = projected(dry.senses[e], v)
        if sense[e] != 0 and speed * sense[e] <= AT_REST:
            sense[e] = 0
            across = projected(dry.senses[e], dry.senses[e])
            for i in range(v.size):
                v[i] -= dry.senses[e, i] * speed / across


@inner
def step_ahead(
    plant: Plant,
    work: Work,
    dry: Dry,
    held: FrictionWorkspace,
    state: State,
    tau: FloatArray,
    sense: IntArray,
    h: float,
    ahead: State,
) -> bool:
    """Integrate one step of order four without change of any friction's direction; return True if one would change."""
    q, v = state
    at, moved, pushed = (q.copy(), v.copy()), np.zeros(q.size), np.zeros(q.size)
    for stage in range(4):
        respond(plant, work, dry, held, at, tau, sense, False)
        weight = 1.0 / 6.0 if stage in (0, 3) else 1.0 / 3.0
        reach = 0.5 * h if stage < 2 else h
        for i in range(q.size):
            moved[i] += weight * at[1][i]
            pushed[i] += weight * held.ddq[i]
            at[0][i] = q[i] + reach * at[1][i]
            at[1][i] = v[i] + reach * held.ddq[i]
    for i in range(q.size):
        ahead[0][i] = q[i] + h * moved[i]
        ahead[1][i] = v[i] + h * pushed[i]
    for e in range(sense.size):
        if sense[e] != 0 and projected(dry.senses[e], ahead[1]) * sense[e] < -AT_REST:
            return True
    respond(plant, work, dry, held, ahead, tau, sense, False)
    for e in range(sense.size):
        if sense[e] == 0:
            beyond = abs(held.force[e]) > (dry.level[e] + dry.more[e]) * (1.0 + 1e-12)
            if beyond or abs(missing(dry, held, e)) > 2.0 * _SLACK * largest_force(dry):
                return True
    return False


@inner
def respond(
    plant: Plant,
    work: Work,
    dry: Dry,
    held: FrictionWorkspace,
    state: State,
    tau: FloatArray,
    sense: IntArray,
    choosing: bool,
) -> None:
    """Write accelerations and the forces of sticking frictions; where `choosing`, decide first which of them stick."""
    n, n_dry = tau.size, sense.size
    evaluate(plant, work, state, tau, np.zeros(n))
    for e in range(n_dry):
        if sense[e] != 0:
            speed = abs(projected(dry.senses[e], state[1]))
            force = sense[e] * (dry.level[e] + dry.more[e] * np.exp(-speed / dry.scale[e]))
            for i in range(n):
                work.push[i] -= dry.acts[e, i] * force
    solve(work.matrix, work.total, work.push, held.ddq)
    column = np.empty(n)
    for e in range(n_dry):
        held.free[e] = projected(dry.senses[e], held.ddq) if sense[e] == 0 else 0.0
        solve(work.matrix, work.total, dry.acts[e], column)
        for i in range(n):
            held.spread[i, e] = column[i]
    for e in range(n_dry):
        for f in range(n_dry):
            both = sense[e] == 0 and sense[f] == 0
            held.G[e, f] = projected(dry.senses[e], held.spread[:, f]) if both else (1.0 if e == f else 0.0)
    spare = not independent(held)
    if choosing or spare:
        share_out(held, dry, sense)
    elif n_dry > 0:
        solve(held.small, held.G, held.free, held.force)
    for i in range(n):
        for e in range(n_dry):
            held.ddq[i] -= held.spread[i, e] * held.force[e]
    if choosing:
        for e in range(n_dry):
            side = 1 if held.force[e] > 0.0 else -1
            at_limit = sense[e] == 0 and side * held.force[e] >= dry.level[e] + dry.more[e]
            if at_limit and (not spare or side * missing(dry, held, e) > _SLACK * largest_force(dry)):
                sense[e] = side


@inner
def share_out(held: FrictionWorkspace, dry: Dry, sense: IntArray) -> None:
    """Solve for the forces of frictions at rest within their limits, by sweeps over them until none changes."""
    largest = largest_force(dry)
    held.force[:] = 0.0
    for _ in range(_SWEEPS):
        moved = 0.0
        for e in range(sense.size):
            if sense[e] == 0:
                limit = dry.level[e] + dry.more[e]
                left = held.free[e] - projected(held.G[e], held.force)
                force = min(limit, max(-limit, held.force[e] + left / held.G[e, e]))
                moved = max(moved, abs(force - held.force[e]))
                held.force[e] = force
        if moved <= _EXACT * largest:
            break


@inner
def largest_force(dry: Dry) -> float:
    """Find the largest limit of any dry friction."""
    largest = 0.0
    for e in range(dry.level.size):
        largest = max(largest, dry.level[e] + dry.more[e])
    return largest


@inner
def missing(dry: Dry, held: FrictionWorkspace, e: int) -> float:
    """Compute the additional force that would keep a friction at rest from accelerating."""
    return float(projected(dry.senses[e], held.ddq) / held.G[e, e])


@inner
def independent(held: FrictionWorkspace) -> bool:
    """Return True if G, of the frictions at rest, is regular: by elimination with row pivots."""
    A, n = held.small, held.free.size
    A[:] = held.G
    least = _SPARE * np.abs(A).max() if n > 0 else 0.0
    for c in range(n):
        best = c
        for r in range(c + 1, n):
            if abs(A[r, c]) > abs(A[best, c]):
                best = r
        if abs(A[best, c]) <= least:
            return False
        for k in range(c, n):
            A[c, k], A[best, k] = A[best, k], A[c, k]
        for r in range(c + 1, n):
            factor = A[r, c] / A[c, c]
            for k in range(c, n):
                A[r, k] -= factor * A[c, k]
    return True


GAMMA = 1.0 + np.sqrt(0.5)
LOST = 1e4  # rad or m per s: a robot this fast has left all sense

MOTOR_TORQUE, LINK_TORQUE, VELOCITY_ESTIMATE, TEMPERATURE = range(3, 7)  # after POSITION, VELOCITY, ACCELERATION
N_CONTROLLER_SIGNALS = 7


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

    Writes signals (N_CONTROLLER_SIGNALS, n_steps, n) as each step begins; out[TEMPERATURE, 0] is the temperature
    at the start. Returns the number of valid steps.
    """
    n_steps, n = reference[0].shape
    elastic = plant.stiffness.size > 0
    work = room(plant, n)
    q, v = reference[0][0].copy(), np.zeros(n)
    links = (q.copy(), np.zeros(n))
    warm = out[TEMPERATURE, 0].copy()
    tau = motor_torques(plant, reference[2][0])
    measured, rate = see(plant, controller, q), np.zeros(n)
    h = controller.step / controller.substeps
    fade = np.exp(-h / controller.lag) if controller.lag > 0.0 else 0.0
    settle_springs(plant, links, q, reference[2][0])
    for k in range(n_steps):
        now = see(plant, controller, q)
        if k > 0:
            rate = controller.forget * rate + (1.0 - controller.forget) * (now - measured) / controller.step
        measured = now
        u = reference[2][k] + controller.kp * (reference[0][k] - measured) + controller.kd * (reference[1][k] - rate)
        target = motor_torques(plant, u)
        target = np.minimum(np.maximum(target, -controller.limit), controller.limit)
        if controller.lag == 0.0:
            tau = target
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
            ready = part == 0  # settled just now
            later = target + (tau - target) * fade
            if elastic:
                advance_elastic(plant, work, (q, v), links, (tau, later), h, warm, ready)
            else:
                advance(plant, work, (q, v), (tau, later), h, warm, ready)
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
    """Deflect the springs by the first torque, so that links begin at rest."""
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

    What gears lose depends on the direction of the torque they carry, which is found by iteration.
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
    """Add the damping of friction to the matrix of accelerations."""
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
def advance(plant: Plant, work: Work, motors: State, torques: State, h: float, warm: FloatArray, ready: bool) -> None:
    """Integrate one step of a robot with rigid gears; `ready`: the state it starts in has been evaluated."""
    q, v = motors
    first, second = np.empty_like(q), np.empty_like(q)
    if not ready:
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
    plant: Plant, work: Work, motors: State, links: State, torques: State, h: float, warm: FloatArray, ready: bool
) -> None:
    """Integrate one step of a robot with elastic gears: motors implicit in friction, links by Heun's method."""
    q, v = motors
    first, second, pulled, drawn = np.empty_like(q), np.empty_like(q), np.empty_like(q), np.empty_like(q)
    if not ready:
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
