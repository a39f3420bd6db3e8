"""Time integration of a robot over control steps: `track` under a digital controller, `run` under recorded torques.

Under a controller, steps are implicit in friction (see `advance`), and gears may be elastic. Recorded torques, each
held until the next, are integrated by Runge and Kutta's steps of order four; dry friction with a true sign either
slides in one direction or sticks, and its events are located. What is None is not compiled.
"""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.compile import compiled, inner, inner_views
from excitor.robots.kernel.loops import eliminate
from excitor.robots.kernel.plant import (
    Plant,
    State,
    Work,
    copy_into,
    evaluate,
    hold_stuck,
    projected,
    room,
    same_sides,
    shift_slips,
    solve,
)

POSITION, VELOCITY, ACCELERATION, TORQUE = range(4)

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


class Dry(NamedTuple):
    """Dry friction: a torque acts · sgn(v) (level + more · exp(-|v| / scale)), v = senses · dq; and workspace."""

    senses: FloatArray  # (n_dry, n)
    acts: FloatArray
    level: FloatArray  # (n_dry,)
    more: FloatArray
    scale: FloatArray
    sense: IntArray  # (n_dry,): sliding direction -1, 1, or 0 where it sticks
    force: FloatArray  # (n_dry,): λ of those that stick
    free: FloatArray  # (n_dry,): accelerations without them
    G: FloatArray  # (n_dry, n_dry)
    small: FloatArray  # (n_dry, n_dry)
    spread: FloatArray  # (n, n_dry): M⁻¹ Bᵀ


@compiled
def track(
    plant: Plant,
    controller: Controller,
    inputs: tuple[FloatArray, ...],
    start: State,
    clock: tuple[float, int],
    out: FloatArray,
) -> int:
    """Integrate a robot under a controller over n_steps of `clock`, (step, substeps of it); count the valid steps.

    `inputs` are torques fed forward, its reference's positions and velocities, and errors of measured positions, each
    (n_steps, n). Writes signals (N_CONTROLLER_SIGNALS, n_steps, n) as each step begins.
    """
    n_steps, n = inputs[0].shape
    step, substeps = clock
    h = step / substeps
    work, warm = room(plant, n), plant.temperature.copy()
    q, v, memory = start[0].copy(), start[1].copy(), np.zeros((2, n))
    links = settled_springs(plant, (q, v), inputs[0][0])
    copy_into(memory[1], v)
    tau, later = motor_torques(plant, inputs[0][0]), np.empty(n)
    fade = np.exp(-h / controller.lag) if controller.lag > 0.0 else 0.0
    for k in range(n_steps):
        target = command(plant, controller, inputs, k, step, q, memory)
        if controller.lag == 0.0:
            copy_into(tau, target)
        copy_into(out[VELOCITY_ESTIMATE, k], memory[1])
        acceleration = settle(plant, None, work, (q, v), links, tau, warm, True)
        write_signals(out, k, (q, v), acceleration, tau, work, warm)
        if not made_sense(v, acceleration):
            return k
        heat_up(plant, work, v, step, warm)
        for part in range(substeps):
            for i in range(n):
                later[i] = target[i] + (tau[i] - target[i]) * fade
            advance(plant, work, (q, v), links, (tau, later), h, warm, part == 0)
            copy_into(tau, later)
    return int(n_steps)


@compiled
def run(
    plant: Plant,
    dry: Dry | None,
    torques: FloatArray,
    start: State,
    clock: tuple[float, int],
    out: FloatArray,
    modes: IntArray,
) -> int:
    """Integrate a robot under recorded torques (n_steps, n) over steps of `clock`; return the number of valid steps.

    A plant with `dry` has no dry friction of its own; `modes` (n_steps, n_dry) are its sliding directions, and
    accumulating events end a simulation too. Writes the signals that `track` writes, without a velocity estimate.
    """
    n_steps, n = torques.shape
    step, substeps = clock
    h = step / substeps
    work, warm = room(plant, n), plant.temperature.copy()
    q, v = start[0].copy(), start[1].copy()
    links, ahead = settled_springs(plant, (q, v), torques[0]), (q.copy(), v.copy(), np.zeros(n))
    if dry is not None:
        stop(dry, v, True)
    for k in range(n_steps):
        tau = torques[k]
        acceleration = settle(plant, dry, work, (q, v), links, tau, warm, True)
        write_signals(out, k, (q, v), acceleration, tau, work, warm)
        if not made_sense(v, acceleration):
            return k
        if dry is not None:
            for e in range(dry.sense.size):
                modes[k, e] = dry.sense[e]
            if not pass_events(plant, dry, work, (q, v), tau, clock, warm, acceleration, ahead):
                return k
        else:
            for part in range(substeps):
                if part > 0:
                    acceleration = settle(plant, dry, work, (q, v), links, tau, warm, False)
                runge_kutta(plant, dry, work, (q, v), tau, h, warm, acceleration, ahead)
                shift_slips(plant, work, q, ahead[0])
                copy_into(q, ahead[0])
                copy_into(v, ahead[1])
    return int(n_steps)


@inner_views
def write_signals(
    out: FloatArray, k: int, state: State, acceleration: FloatArray, tau: FloatArray, work: Work, warm: FloatArray
) -> None:
    """Write the signals of sample k."""
    for i in range(tau.size):
        out[POSITION, k, i], out[VELOCITY, k, i], out[ACCELERATION, k, i] = state[0][i], state[1][i], acceleration[i]
        out[TORQUE, k, i], out[LINK_TORQUE, k, i], out[TEMPERATURE, k, i] = tau[i], work.felt[i], warm[i]


@compiled
def accelerations_at(plant: Plant, state: State, tau: FloatArray) -> FloatArray:
    """Find the accelerations of one state; for integrators that are not compiled."""
    return settle(plant, None, room(plant, tau.size), state, state, tau, np.zeros(tau.size), False)


@inner_views
def made_sense(v: FloatArray, acceleration: FloatArray) -> bool:
    """Return True if velocities are below LOST and accelerations finite."""
    made = True
    for i in range(v.size):
        made = made and abs(v[i]) < LOST and np.isfinite(acceleration[i])
    return made


@inner
def command(
    plant: Plant,
    controller: Controller,
    inputs: tuple[FloatArray, ...],
    k: int,
    step: float,
    q: FloatArray,
    memory: FloatArray,
) -> FloatArray:
    """Compute motor torques of control step k; `memory` holds the measured positions and the velocity estimate."""
    forward, position, velocity, noise = inputs
    measured = read_encoders(plant, controller, q, noise[k])
    wanted = np.empty(q.size)
    for i in range(q.size):
        if k > 0:
            slope = (measured[i] - memory[0, i]) / step
            memory[1, i] = controller.forget * memory[1, i] + (1.0 - controller.forget) * slope
        memory[0, i] = measured[i]
        wanted[i] = forward[k, i] + controller.kp[i] * (position[k, i] - measured[i])
        wanted[i] += controller.kd[i] * (velocity[k, i] - memory[1, i])
    out = motor_torques(plant, wanted)
    for i in range(q.size):
        out[i] = min(max(out[i], -controller.limit[i]), controller.limit[i])
    return out


@inner_views
def heat_up(plant: Plant, work: Work, v: FloatArray, step: float, warm: FloatArray) -> None:
    """Add to the joints' temperatures what friction makes in a step, less what leaves."""
    for i in range(v.size):
        gained = plant.heat[i] * abs(work.rubbed[i] * v[i])
        warm[i] += step * (gained - plant.relief * (warm[i] - plant.ambient))


@inner
def motor_torques(plant: Plant, torque: FloatArray) -> FloatArray:
    """Divide joint torques among the motors: N⁻ᵀ τ."""
    out = np.empty_like(torque)
    for i in range(torque.size):
        out[i] = projected(plant.ungears[:, i], torque)
    return out


@inner
def read_encoders(plant: Plant, controller: Controller, q: FloatArray, noise: FloatArray) -> FloatArray:
    """Read encoders of joint positions with errors, and turn them into joint positions."""
    motor, out = np.empty_like(q), np.empty_like(q)
    for i in range(q.size):
        out[i] = q[i] + noise[i]
    for i in range(q.size):
        motor[i] = projected(plant.gears[i], out)
        if controller.quantum[i] > 0.0:
            motor[i] = np.round(motor[i] / controller.quantum[i]) * controller.quantum[i]
    for i in range(q.size):
        out[i] = projected(plant.ungears[i], motor)
    return out


@inner
def settled_springs(plant: Plant, motors: State, torque: FloatArray) -> State:
    """Return the links' state: the motors' own, or deflected by the first torque and at rest over elastic gears."""
    if plant.stiffness.size == 0:
        return motors
    q = np.empty(torque.size)
    for i in range(torque.size):
        q[i] = motors[0][i] - torque[i] / plant.stiffness[i]
    return q, np.zeros(torque.size)


@inner
def settle(
    plant: Plant,
    dry: Dry | None,
    work: Work,
    motors: State,
    links: State,
    tau: FloatArray,
    warm: FloatArray,
    choosing: bool,
) -> FloatArray:
    """Find the motors' accelerations, and the torques that links, and links with rotors, take (`felt`, `load`).

    What gears lose depends on the direction of the torque they carry, which is found by iteration. Dry friction slides
    or sticks as before, or as found anew when `choosing`.
    """
    acceleration = np.zeros(tau.size)
    for _ in range(4):
        felt, load = work.felt.copy(), work.load.copy()
        evaluate(plant, work, motors, links, tau, warm)
        if dry is not None:
            slide(dry, motors[1], work.push)
        solve(work.matrix, work.total, work.push, acceleration)
        if dry is not None:
            stick(dry, work, acceleration, choosing)
            break
        for i in range(tau.size):
            if plant.stiffness.size > 0:
                work.felt[i] = work.pulls[i]
            else:
                work.felt[i] = work.bias[i] + projected(work.mass[i], acceleration)
        for i in range(tau.size):
            work.load[i] = work.felt[i] + projected(plant.rotors[i], acceleration)
        if same_sides(plant, work, felt, load):
            break
    return acceleration


@inner
def runge_kutta(
    plant: Plant,
    dry: Dry | None,
    work: Work,
    state: State,
    tau: FloatArray,
    h: float,
    warm: FloatArray,
    a1: FloatArray,
    ahead: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Write the state one step of order four ahead, from known first accelerations a1; Maxwell-slip states stay."""
    q, v = state
    q2, v2 = moved(q, 0.5 * h, v), moved(v, 0.5 * h, a1)
    a2 = settle(plant, dry, work, (q2, v2), (q2, v2), tau, warm, False)
    q3, v3 = moved(q, 0.5 * h, v2), moved(v, 0.5 * h, a2)
    a3 = settle(plant, dry, work, (q3, v3), (q3, v3), tau, warm, False)
    q4, v4 = moved(q, h, v3), moved(v, h, a3)
    a4 = settle(plant, dry, work, (q4, v4), (q4, v4), tau, warm, False)
    for i in range(q.size):
        ahead[0][i] = q[i] + h / 6.0 * (v[i] + 2.0 * (v2[i] + v3[i]) + v4[i])
        ahead[1][i] = v[i] + h / 6.0 * (a1[i] + 2.0 * (a2[i] + a3[i]) + a4[i])


@inner
def moved(x: FloatArray, h: float, slope: FloatArray) -> FloatArray:
    """Compute x + h slope."""
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = x[i] + h * slope[i]
    return out


AT_REST = 1e-9  # rad/s or m/s
_SWEEPS = 2000
_EXACT = 1e-13  # of the largest force
_SLACK = 1e-9  # of the largest force: less than that missing, a friction still holds
_HALVINGS = 50
_MOST_EVENTS = 200  # in one sample: more would be an accumulation


@inner
def pass_events(
    plant: Plant,
    dry: Dry,
    work: Work,
    state: State,
    tau: FloatArray,
    clock: tuple[float, int],
    warm: FloatArray,
    a1: FloatArray,
    ahead: tuple[FloatArray, FloatArray, FloatArray],
) -> bool:
    """Integrate a control step from one change of sticking or sliding to the next; False if it diverges."""
    q, v = state
    left, events = clock[0], 0
    while left > 1e-12 * clock[0]:
        if not made_sense(v, a1) or events > _MOST_EVENTS:
            return False
        h = min(clock[0] / clock[1], left)
        if step_ahead(plant, dry, work, state, tau, h, warm, a1, ahead):
            low, high = 0.0, h
            for _ in range(_HALVINGS):
                h = 0.5 * (low + high)
                if step_ahead(plant, dry, work, state, tau, h, warm, a1, ahead):
                    high = h
                else:
                    low = h
            h = high
            step_ahead(plant, dry, work, state, tau, h, warm, a1, ahead)
            stop(dry, ahead[1], False)
            at = (ahead[0], ahead[1])
            copy_into(ahead[2], settle(plant, dry, work, at, at, tau, warm, True))
            events += 1
        copy_into(q, ahead[0])
        copy_into(v, ahead[1])
        copy_into(a1, ahead[2])
        left -= h
    return True


@inner
def step_ahead(
    plant: Plant,
    dry: Dry,
    work: Work,
    state: State,
    tau: FloatArray,
    h: float,
    warm: FloatArray,
    a1: FloatArray,
    ahead: tuple[FloatArray, FloatArray, FloatArray],
) -> bool:
    """Integrate one step without change of any friction's direction; return True if one would change."""
    runge_kutta(plant, dry, work, state, tau, h, warm, a1, ahead)
    for e in range(dry.sense.size):
        if dry.sense[e] != 0 and projected(dry.senses[e], ahead[1]) * dry.sense[e] < -AT_REST:
            return True
    at = (ahead[0], ahead[1])
    copy_into(ahead[2], settle(plant, dry, work, at, at, tau, warm, False))
    for e in range(dry.sense.size):
        if dry.sense[e] == 0:
            beyond = abs(dry.force[e]) > (dry.level[e] + dry.more[e]) * (1.0 + 1e-12)
            if beyond or abs(missing(dry, ahead[2], e)) > 2.0 * _SLACK * largest_force(dry):
                return True
    return False


@inner
def stop(dry: Dry, v: FloatArray, first: bool) -> None:
    """Mark dry frictions that have come to rest as sticking, and remove their residual velocities; first: find all."""
    for e in range(dry.sense.size):
        speed = projected(dry.senses[e], v)
        if first:
            dry.sense[e] = 0 if abs(speed) <= AT_REST else (1 if speed > 0.0 else -1)
        elif dry.sense[e] != 0 and speed * dry.sense[e] <= AT_REST:
            dry.sense[e] = 0
            across = projected(dry.senses[e], dry.senses[e])
            for i in range(v.size):
                v[i] -= dry.senses[e, i] * speed / across


@inner
def slide(dry: Dry, v: FloatArray, push: FloatArray) -> None:
    """Subtract the torques of sliding frictions."""
    for e in range(dry.sense.size):
        if dry.sense[e] != 0:
            speed = abs(projected(dry.senses[e], v))
            force = dry.sense[e] * (dry.level[e] + dry.more[e] * np.exp(-speed / dry.scale[e]))
            for i in range(v.size):
                push[i] -= dry.acts[e, i] * force


@inner
def stick(dry: Dry, work: Work, ddq: FloatArray, choosing: bool) -> None:
    """Find the forces of sticking frictions and correct accelerations; `choosing`: then let those at a limit slide."""
    n, n_dry = ddq.size, dry.sense.size
    column = np.zeros(n)
    for e in range(n_dry):
        dry.free[e] = 0.0
        dry.spread[:, e] = 0.0
        if dry.sense[e] == 0:
            dry.free[e] = projected(dry.senses[e], ddq)
            solve(work.matrix, work.total, dry.acts[e], column)
            copy_into(dry.spread[:, e], column)
    for e in range(n_dry):
        dry.force[e] = dry.free[e]
        for f in range(n_dry):
            both = dry.sense[e] == 0 and dry.sense[f] == 0
            dry.G[e, f] = projected(dry.senses[e], dry.spread[:, f]) if both else (1.0 if e == f else 0.0)
            dry.small[e, f] = dry.G[e, f]
    spare = not eliminate(dry.small, dry.force)
    if choosing or spare:
        share_out(dry)
    for i in range(n):
        ddq[i] -= projected(dry.spread[i], dry.force)
    if choosing:
        for e in range(n_dry):
            side = 1 if dry.force[e] > 0.0 else -1
            at_limit = dry.sense[e] == 0 and side * dry.force[e] >= dry.level[e] + dry.more[e]
            if at_limit and (not spare or side * missing(dry, ddq, e) > _SLACK * largest_force(dry)):
                dry.sense[e] = side


@inner
def share_out(dry: Dry) -> None:
    """Solve for the forces of frictions at rest within their limits, by sweeps over them until none changes."""
    largest = largest_force(dry)
    dry.force[:] = 0.0
    for _ in range(_SWEEPS):
        moved = 0.0
        for e in range(dry.sense.size):
            if dry.sense[e] == 0:
                limit = dry.level[e] + dry.more[e]
                left = dry.free[e] - projected(dry.G[e], dry.force)
                force = min(limit, max(-limit, dry.force[e] + left / dry.G[e, e]))
                moved = max(moved, abs(force - dry.force[e]))
                dry.force[e] = force
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
def missing(dry: Dry, ddq: FloatArray, e: int) -> float:
    """Compute the additional force that would keep a friction at rest from accelerating."""
    return float(projected(dry.senses[e], ddq) / dry.G[e, e])


@inner_views
def implicit(work: Work, h: float, chord: FloatArray) -> None:
    """Add the damping of friction to the matrix of accelerations."""
    for i in range(chord.shape[0]):
        for k in range(chord.shape[0]):
            work.total[i, k] += GAMMA * h * chord[i, k]


@inner_views
def step_velocity(plant: Plant, work: Work, h: float, chord: FloatArray, first: FloatArray, second: FloatArray) -> None:
    """Find the second slope of velocities from the first one: (total + γ h chord) k₂ = push - 2 total k₁."""
    for i in range(first.size):
        work.push[i] -= 2.0 * projected(work.total[i], first)
    hold_stuck(plant, work)
    implicit(work, h, chord)
    solve(work.matrix, work.total, work.push, second)


@inner
def advance(
    plant: Plant, work: Work, motors: State, links: State, torques: State, h: float, warm: FloatArray, ready: bool
) -> None:
    """Integrate one step, motors implicit in friction, links over elastic gears by Heun's method.

    `ready`: the state it starts in has been evaluated.
    """
    q, v = motors
    elastic = plant.stiffness.size > 0
    first, second, pulled, drawn = np.empty_like(q), np.empty_like(q), np.empty_like(q), np.empty_like(q)
    if not ready:
        evaluate(plant, work, motors, links, torques[0], warm)
    chord = work.chord.copy()
    if elastic:
        solve(work.matrix, work.mass, moved(work.pulls, -1.0, work.bias), pulled)
    implicit(work, h, chord)
    solve(work.matrix, work.total, work.push, first)
    ahead = (moved(q, h, v), moved(v, h, first))
    beyond = (moved(links[0], h, links[1]), moved(links[1], h, pulled)) if elastic else ahead
    slipped = work.slip.copy()
    shift_slips(plant, work, q, ahead[0])
    evaluate(plant, work, ahead, beyond, torques[1], warm)
    if elastic:
        solve(work.matrix, work.mass, moved(work.pulls, -1.0, work.bias), drawn)
    step_velocity(plant, work, h, chord, first, second)
    copy_into(work.slip, slipped)
    before = q.copy()
    for i in range(q.size):
        q[i] += 0.5 * h * (v[i] + ahead[1][i])
        v[i] += h * (1.5 * first[i] + 0.5 * second[i])
        if elastic:
            links[0][i] += 0.5 * h * (links[1][i] + beyond[1][i])
            links[1][i] += 0.5 * h * (pulled[i] + drawn[i])
    shift_slips(plant, work, before, q)
