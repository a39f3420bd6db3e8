"""A rigid robot under held torques whose dry friction is a true sign: it slides one way or the other, or it sticks.

A joint that sticks is a constraint, senses · ddq = 0, held by a torque λ of at most F. Where torques jump, where a
sliding joint comes to rest and where a sticking one can no longer be held, forces and accelerations are found together:

    a = A ddq:   |λ| ≤ F and a = 0,   or   λ = F sgn(a);        M ddq = τ - h - Bᵀ λ

which is the minimum of ½ λᵀ G λ - bᵀ λ in a box, G = A M⁻¹ Bᵀ, found by sweeps of one force at a time. Where more
frictions rest than joints, as those of coupled drives may, G is singular: forces are then any that hold, and what rests
slides only where none do. Between events nothing jumps, and steps are Runge and Kutta's of order four; the instant of
an event is bisected.
"""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.compile import compiled, inner
from excitor.robots.kernel.held import ACCELERATION, POSITION, TORQUE, VELOCITY, made_sense
from excitor.robots.kernel.plant import Plant, State, Work, evaluate, projected, room, solve

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


class Held(NamedTuple):
    """Room for sticking: one entry, row or column for each dry friction."""

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

    Writes signals as `run_servo`, and how each dry friction moves, (n_steps, n_dry): -1, 1, or 0 where it sticks.
    Returns how many steps made sense; events that accumulate end them too.
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
def make_held(n: int, n_dry: int) -> Held:
    """Make room."""
    square = (n_dry, n_dry)
    return Held(np.zeros(n_dry), np.zeros(n_dry), np.zeros(square), np.zeros(square), np.zeros((n, n_dry)), np.zeros(n))


@inner
def stop(dry: Dry, v: FloatArray, sense: IntArray) -> None:
    """Call those at rest that have come to rest, and take away what is left of their velocities."""
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
    held: Held,
    state: State,
    tau: FloatArray,
    sense: IntArray,
    h: float,
    ahead: State,
) -> bool:
    """Write where a step of order four leads if no friction changes how it moves; tell whether one would have."""
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
    held: Held,
    state: State,
    tau: FloatArray,
    sense: IntArray,
    choosing: bool,
) -> None:
    """Write accelerations and the forces of what rests; where `choosing`, decide what of that sticks first."""
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
def share_out(held: Held, dry: Dry, sense: IntArray) -> None:
    """Find the forces of frictions at rest, none beyond its limit: one after another, until none moves."""
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
    """Find the most that any dry friction holds."""
    largest = 0.0
    for e in range(dry.level.size):
        largest = max(largest, dry.level[e] + dry.more[e])
    return largest


@inner
def missing(dry: Dry, held: Held, e: int) -> float:
    """Tell what force more would keep a friction at rest from accelerating."""
    return float(projected(dry.senses[e], held.ddq) / held.G[e, e])


@inner
def independent(held: Held) -> bool:
    """Tell whether G, of the frictions at rest, is regular: by elimination with row pivots."""
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
