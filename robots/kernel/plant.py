"""Equations of motion of links, gears, rotors and friction in one state, for time steps of a closed loop.

Links contribute their mass matrix and bias torques, of one tree in one state, or of many trees that differ in their
parameters, each in a state of its own, for populations of simulated robots.
"""

from typing import Any, NamedTuple

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.kernel.columns import link_wrench, screw_momentum
from excitor.robots.kernel.compile import LANES, LINK_ROWS, SCREW_ROWS, Chain, compiled, inner, inner_views
from excitor.robots.kernel.drive import (
    LOAD,
    OFFSET,
    RIPPLE_COS,
    RIPPLE_SIN,
    SQRT,
    STATE,
    STRIBECK,
    VISCOUS,
    Elements,
    carried_load,
)
from excitor.robots.kernel.loops import (
    WORLD_ROWS,
    Loops,
    acceleration_rows,
    eliminate,
    invert,
    locate,
    residual_rows,
    to_world,
)
from excitor.robots.kernel.recursion import recursion, start_at_base

LEAST = 0.2  # share of friction that heat leaves at least

State = tuple[FloatArray, FloatArray]  # positions and velocities, each (n,)


class LoopClosure(NamedTuple):
    """Loop closures of an opened tree. None for open chains, so the loop-closure code is not compiled."""

    loops: Loops
    given: IntArray  # coordinates of the tree that are the robot's joints
    dependent: IntArray  # the others
    position: FloatArray  # (n_all,): where the tree was last, and from where it is led on
    stride: FloatArray  # (n_all,): how far coordinates are led at once
    tolerance: float


class Plant(NamedTuple):
    """The simulated robot; n joints, as many motors. Friction takes its velocities from the motors' side."""

    chain: Chain  # of the opened tree, where there are closed loops
    phi: FloatArray  # (n_links, 10), of that tree's links
    closing: LoopClosure | None
    rotors: FloatArray  # (n, n)
    elements: Elements  # of friction, every sign with a width
    friction: FloatArray  # (n_elements,): their parameters, cold
    warmth: FloatArray  # (n_elements,): share lost a kelvin
    seat: IntArray  # (n_elements,): the joint whose temperature counts
    gears: FloatArray  # (n, n): q_motor = gears @ q
    ungears: FloatArray  # its inverse
    loss: FloatArray  # (n, 2): of a motor that drives 1/R - 1, of one that is driven 1 - R
    width: FloatArray  # (n,): over which a motor's sense of turning changes
    stiffness: FloatArray  # (n,), none where gears are rigid
    damping: FloatArray
    stuck: BoolArray  # (n,)
    heat: FloatArray  # (n,), K/J: temperature that a joint's friction makes
    relief: float  # 1/s: how fast warmth leaves
    ambient: float
    temperature: FloatArray  # (n,): at the start


class Room(NamedTuple):
    """Workspace for one state of a tree, of an open or an opened chain."""

    links: FloatArray
    screws: FloatArray
    wrench: FloatArray
    motion: FloatArray  # (3, n_all, 1): positions, velocities, accelerations
    bias: FloatArray  # (n_all,)
    mass: FloatArray  # (n_all, n_all)
    world: FloatArray
    scratch: FloatArray
    f: FloatArray  # (n_sought, LANES)
    A: FloatArray  # (n_sought, n_all, LANES)
    square: FloatArray  # (n_sought, n_sought)
    inverse: FloatArray
    right: FloatArray  # (n_sought,)
    J: FloatArray  # (n_all, n_given)
    pulled: FloatArray  # (n_all, n_given): mass @ J


class Work(NamedTuple):
    """Workspace for one evaluation."""

    tree: Room
    bias: FloatArray  # (n,)
    mass: FloatArray  # (n, n), of links alone
    total: FloatArray  # (n, n): what accelerations are multiplied with
    chord: FloatArray  # (n, n): friction's damping
    push: FloatArray  # (n,): what is left for accelerations
    carry: FloatArray  # (n, n): links' torques, as motors feel them
    lift: FloatArray  # (n, n): rotors' torques, likewise
    rubbed: FloatArray  # (n,): torques of friction
    slip: FloatArray  # (n_elements,): states of Maxwell-slip elements
    felt: FloatArray  # (n,): torques that links took last
    load: FloatArray  # (n,): and those of links with rotors
    matrix: FloatArray  # (n, n), for elimination
    pulls: FloatArray  # (n,): of springs
    nothing: FloatArray  # (n, n) of zeros


@inner
def room(plant: Plant, n: int) -> Work:
    """Allocate the workspace of evaluations."""
    square, line = (n, n), np.zeros(n)
    return Work(
        make_room(plant.chain, plant.closing),
        line,
        np.zeros(square),
        np.zeros(square),
        np.zeros(square),
        np.zeros(n),
        np.zeros(square),
        np.zeros(square),
        np.zeros(n),
        np.zeros(plant.friction.size),
        np.zeros(n),
        np.zeros(n),
        np.zeros(square),
        np.zeros(n),
        np.zeros(square),
    )


@inner_views
def evaluate(plant: Plant, work: Work, motors: State, links: State, tau: FloatArray, warm: FloatArray) -> None:
    """Write `total` and `push` of total · ddq = push: (carry M + lift R) ddq = Nᵀ τ - carry h - friction.

    Over elastic gears they are those of the motors alone, lift R and the springs' torques in place of h; the links'
    terms are then in `mass` and `bias`. `links` are the motors' own state where gears are rigid.
    """
    weigh(plant.chain, plant.phi, plant.closing, work.tree, links, (work.bias, work.mass))
    rub(plant, work, motors, warm)
    mass, carried = work.mass, work.bias
    if plant.stiffness.size > 0:
        spring_torques(plant, motors, links, work.pulls)
        mass, carried = work.nothing, work.pulls
    add_products(work.carry, mass, work.lift, plant.rotors, work.total)
    balance(plant, work, tau, carried)
    hold_stuck(plant, work)


@inner_views
def add_products(A: FloatArray, B: FloatArray, C: FloatArray, D: FloatArray, out: FloatArray) -> None:
    """Write A B + C D."""
    n = out.shape[0]
    for i in range(n):
        for k in range(n):
            total = 0.0
            for c in range(n):
                total += A[i, c] * B[c, k] + C[i, c] * D[c, k]
            out[i, k] = total


@inner_views
def balance(plant: Plant, work: Work, tau: FloatArray, carried: FloatArray) -> None:
    """Write the torques left for acceleration: Nᵀ τ - carry · carried - friction."""
    for i in range(tau.size):
        left = -work.rubbed[i]
        for k in range(tau.size):
            left += plant.gears[k, i] * tau[k] - work.carry[i, k] * carried[k]
        work.push[i] = left


@inner_views
def spring_torques(plant: Plant, motors: State, links: State, out: FloatArray) -> None:
    """Write the torques of the springs and dampers between motors and links."""
    for i in range(out.size):
        out[i] = plant.stiffness[i] * (motors[0][i] - links[0][i]) + plant.damping[i] * (motors[1][i] - links[1][i])


@inner_views
def hold_stuck(plant: Plant, work: Work) -> None:
    """Replace the equations of joints with a closed brake by zero acceleration."""
    for i in range(plant.stuck.size):
        if plant.stuck[i]:
            work.total[i, :] = 0.0
            work.total[i, i] = 1.0
            work.chord[i, :] = 0.0
            work.push[i] = 0.0


@inner_views
def rub(plant: Plant, work: Work, motors: State, warm: FloatArray) -> None:
    """Write friction torques and chords, and how lossy gears and loads scale the torques carried (`lift`, `carry`)."""
    n = work.load.size
    elements = plant.elements
    work.rubbed[:] = 0.0
    work.chord[:] = 0.0
    work.lift[:] = 0.0
    work.carry[:] = 0.0
    for i in range(n):
        work.lift[i, i] = 1.0
        work.carry[i, i] = 1.0
    for e in range(plant.friction.size):
        F = plant.friction[e] * max(LEAST, 1.0 - plant.warmth[e] * (warm[plant.seat[e]] - plant.ambient))
        senses, acts = elements.senses[e], elements.acts[e]
        v = 0.0
        p = 0.0
        for i in range(n):
            v += senses[i] * motors[1][i]
            p += senses[i] * motors[0][i]
        g, chord = friction_value(elements, e, p, v, work.slip[e])
        if elements.model[e] == LOAD:
            carried = carried_load(elements, e, work.load)
            side = 1.0 if projected(acts, work.load) > 0.0 else -1.0
            for i in range(n):
                for k in range(n):
                    work.lift[i, k] += F * g * side * acts[i] * acts[k]
                    work.carry[i, k] += F * g * side * acts[i] * acts[k]
            g = 0.0
            chord *= carried
        for i in range(n):
            if acts[i] != 0.0:
                work.rubbed[i] += F * g * acts[i]
                for k in range(n):
                    work.chord[i, k] += F * chord * acts[i] * senses[k]
    lose(plant, work, motors)


@inner_views
def friction_value(elements: Elements, e: int, p: float, v: float, slip: float) -> tuple[float, float]:
    """Evaluate g of a friction element, without the load that one carries, and its chord g / v."""
    model = elements.model[e]
    if model == VISCOUS:
        return v, 1.0
    if model == OFFSET:
        return 1.0, 0.0
    if model == STATE:
        return slip, 0.0
    if model == RIPPLE_SIN:
        return np.sin(elements.scale[e] * p), 0.0
    if model == RIPPLE_COS:
        return np.cos(elements.scale[e] * p), 0.0
    width = elements.width[e]
    sign = np.tanh(v / width)
    steep = sign / v if abs(v) > 1e-9 * width else 1.0 / width
    size = 1.0
    if model == SQRT:
        size = np.sqrt(abs(v))
    elif model == STRIBECK:
        size = np.exp(-abs(v) / elements.scale[e])
    return sign * size, steep * size


@inner_views
def lose(plant: Plant, work: Work, motors: State) -> None:
    """Add gear losses: motor i carries λ_i (1 + loss) where it drives its links, λ_i (1 - loss) where they drive it."""
    n = work.felt.size
    for i in range(n):
        if plant.loss[i, 0] == 0.0 and plant.loss[i, 1] == 0.0:
            continue
        v = 0.0
        carried = 0.0
        for k in range(n):
            v += plant.gears[i, k] * motors[1][k]
            carried += plant.ungears[k, i] * work.felt[k]
        sign = np.tanh(v / plant.width[i])
        side = sign if carried > 0.0 else -sign
        share = side * (plant.loss[i, 0] if side > 0.0 else plant.loss[i, 1])
        steep = abs(share * carried / v) if abs(v) > 1e-9 * plant.width[i] else 0.0
        for k in range(n):
            for c in range(n):
                work.carry[k, c] += plant.gears[i, k] * share * plant.ungears[c, i]
                work.chord[k, c] += plant.gears[i, k] * steep * plant.gears[i, c]


@inner_views
def shift_slips(plant: Plant, work: Work, before: FloatArray, after: FloatArray) -> None:
    """Advance the states of Maxwell-slip elements."""
    elements = plant.elements
    for e in range(plant.friction.size):
        if elements.model[e] == STATE:
            moved = 0.0
            for i in range(before.size):
                moved += elements.senses[e, i] * (after[i] - before[i])
            work.slip[e] = min(1.0, max(-1.0, work.slip[e] + moved / elements.scale[e]))


@inner_views
def solve(matrix: FloatArray, A: FloatArray, b: FloatArray, x: FloatArray) -> None:
    """Solve A x = b by elimination in `matrix`, for a handful of unknowns; NaN if A is singular."""
    copy_into(x, b)
    for i in range(x.size):
        copy_into(matrix[i], A[i])
    if not eliminate(matrix, x):
        x[:] = np.nan


@inner_views
def same_sides(plant: Plant, work: Work, felt: FloatArray, load: FloatArray) -> bool:
    """Return True if gears and load-dependent friction carry torques of the same signs as before."""
    for i in range(felt.size):
        column = plant.ungears[:, i]
        if (projected(column, felt) > 0.0) != (projected(column, work.felt) > 0.0):
            return False
    for e in range(plant.friction.size):
        if plant.elements.model[e] == LOAD:
            acts = plant.elements.acts[e]
            if (projected(acts, load) > 0.0) != (projected(acts, work.load) > 0.0):
                return False
    return True


@inner_views
def copy_into(out: FloatArray, x: FloatArray) -> None:
    """Copy entries; an assignment of slices compiles for seconds, to name the shapes that do not fit."""
    for i in range(out.size):
        out[i] = x[i]


@inner_views
def projected(weights: FloatArray, x: FloatArray) -> float:
    """Compute weights · x."""
    total = 0.0
    for i in range(x.size):
        total += weights[i] * x[i]
    return total


_MOST_STEPS = 10  # of Newton's method, from the state before


@inner
def make_room(chain: Chain, closing: LoopClosure | None) -> Room:
    """Allocate the workspace of a tree's states."""
    n_all = chain.coupling.shape[1]
    n = 0 if closing is None else closing.dependent.size
    n_links = chain.parents.size
    links = np.empty((n_links + 1) * LINK_ROWS)
    start_at_base(chain, links)
    return Room(
        links,
        np.empty(chain.pair_joint.size * SCREW_ROWS),
        np.empty(6 * LANES),
        np.zeros((3, n_all, 1)),
        np.zeros(n_all),
        np.zeros((n_all, n_all)),
        np.empty((n_links + 1) * WORLD_ROWS),
        np.empty(9 * LANES),
        np.empty((n, LANES)),
        np.empty((n, n_all, LANES)),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty(n),
        np.zeros((n_all, n_all - n)),
        np.zeros((n_all, n_all - n)),
    )


@inner_views
def weigh(chain: Chain, phi: FloatArray, closing: LoopClosure | None, room: Room, state: Any, out: Any) -> None:
    """Write bias (n,) and mass (n, n) of the robot's own joints in a state (q, dq); out = (bias, mass)."""
    bias, mass = out
    q, dq = state
    if closing is None:
        for i in range(q.size):
            room.motion[0, i, 0], room.motion[1, i, 0] = q[i], dq[i]
        weigh_tree(chain, phi, room)
        copy_into(bias, room.bias)
        for i in range(q.size):
            copy_into(mass[i], room.mass[i])
    else:
        if close(chain, closing, room, q, dq):
            weigh_tree(chain, phi, room)
            acceleration_rows(closing.loops, room.links, room.world, room.f, room.scratch, 1)
            project(closing, room, bias, mass)
        else:
            bias[:] = np.nan
            mass[:] = np.nan


@inner_views
def weigh_tree(chain: Chain, phi: FloatArray, room: Room) -> None:
    """Write the tree's own bias and mass matrix for the positions and velocities in room.motion."""
    one: Any = np.int64(1)  # a literal would have all of it compiled for that number once more
    recursion(chain, (room.motion[0], room.motion[1], room.motion[2]), one - 1, one, room.links, room.screws)
    room.bias[:] = 0.0
    room.mass[:] = 0.0
    for j in range(chain.parents.size):
        begin, end = chain.pair_start[j], chain.pair_start[j + 1]
        link_wrench(room.wrench, room.links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS], phi[j], one)
        for pair in range(begin, end):
            room.bias[chain.pair_joint[pair]] += along(room.screws, pair, 0, room.wrench)
        for pair in range(begin, end):
            screw_momentum(room.wrench, room.screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS], phi[j], one)
            for other in range(begin, end):
                room.mass[chain.pair_joint[other], chain.pair_joint[pair]] += along(room.screws, other, 0, room.wrench)


@inner_views
def along(screws: FloatArray, pair: int, lane: int, wrench: FloatArray) -> float:
    """Project the wrench in lane 0 on a pair's screw in a lane."""
    power = 0.0
    for k in range(6):
        power += screws[pair * SCREW_ROWS + k * LANES + lane] * wrench[k * LANES]
    return power


@inner
def close(chain: Chain, closing: LoopClosure, room: Room, q: FloatArray, dq: FloatArray) -> bool:
    """Solve the closures at the joints' positions from the last state; write motion, J, inverse; False if it fails."""
    at = room.motion[0]
    legs = 1
    for i in range(closing.position.size):
        at[i, 0] = closing.position[i]
    for c in range(closing.given.size):
        i = closing.given[c]
        legs = max(legs, int(np.ceil(min(100.0, abs(q[c] - at[i, 0]) / closing.stride[i]))))
    for leg in range(1, legs + 1):
        for c in range(closing.given.size):
            i = closing.given[c]
            at[i, 0] = closing.position[i] + (q[c] - closing.position[i]) * leg / legs
        if not approach(chain, closing, room, at, 2 if leg < legs else _MOST_STEPS) and leg == legs:
            return False
    for i in range(closing.position.size):
        closing.position[i] = at[i, 0]
    n = closing.dependent.size
    for k in range(n):
        for i in range(n):
            room.square[k, i] = room.A[k, closing.dependent[i], 0]
    invert(room.square, room.inverse)
    for c in range(closing.given.size):
        room.J[closing.given[c], c] = 1.0
        room.motion[1, closing.given[c], 0] = dq[c]
    for i in range(n):
        velocity = 0.0
        for c in range(closing.given.size):
            entry = 0.0
            for k in range(n):
                entry -= room.inverse[i, k] * room.A[k, closing.given[c], 0]
            room.J[closing.dependent[i], c] = entry
            velocity += entry * dq[c]
        room.motion[1, closing.dependent[i], 0] = velocity
    return True


@inner
def approach(chain: Chain, closing: LoopClosure, room: Room, at: FloatArray, most: int) -> bool:
    """Solve the loop closures by Newton's method, with one step beyond tolerance; `room` holds A at the solution."""
    n = closing.dependent.size
    closed = False
    for step in range(most + 2):
        locate(chain, (at, at, at), 0, 1, room.links, room.screws)
        to_world(chain, room.links, room.world, 1)
        residual_rows(chain, closing.loops, room.world, room.screws, (room.f, room.A), room.scratch, 1)
        if closed or step > most:
            break
        for k in range(n):
            room.right[k] = room.f[k, 0]
            for i in range(n):
                room.square[k, i] = room.A[k, closing.dependent[i], 0]
        closed = True
        for k in range(n):
            closed = closed and abs(room.right[k]) <= closing.tolerance
        if not eliminate(room.square, room.right):
            return False
        for i in range(n):
            at[closing.dependent[i], 0] -= room.right[i]
    return closed


@inner
def project(closing: LoopClosure, room: Room, bias: FloatArray, mass: FloatArray) -> None:
    """Write Jᵀ M J, and Jᵀ (h + M γ); γ the others' accelerations at joint accelerations 0."""
    n_all, n = room.J.shape
    for i in range(closing.dependent.size):
        gamma = 0.0
        for k in range(closing.dependent.size):
            gamma -= room.inverse[i, k] * room.f[k, 0]
        for c in range(n_all):
            room.bias[c] += room.mass[c, closing.dependent[i]] * gamma
    for i in range(n_all):
        for c in range(n):
            entry = 0.0
            for k in range(n_all):
                entry += room.mass[i, k] * room.J[k, c]
            room.pulled[i, c] = entry
    for c in range(n):
        bias[c] = 0.0
        for i in range(n_all):
            bias[c] += room.J[i, c] * room.bias[i]
        for d in range(n):
            entry = 0.0
            for i in range(n_all):
                entry += room.J[i, c] * room.pulled[i, d]
            mass[c, d] = entry


@compiled
def fill_each(chain: Chain, motion: Any, phi: FloatArray, bias: FloatArray, mass: FloatArray) -> None:
    """Write torques bias (n_runs, n_joints) and mass matrices of runs whose links are phi (n_runs, n_links, 10).

    `motion` is (q, dq, ddq), each (n_joints, n_runs), a sample a run.
    """
    links = np.empty((chain.parents.size + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    wrench = np.empty(6 * LANES)
    start_at_base(chain, links)
    n_runs = bias.shape[0]
    bias[:, :] = 0.0
    mass[:, :, :] = 0.0
    for first in range(0, n_runs, LANES):
        m = min(LANES, n_runs - first)
        recursion(chain, motion, first, m, links, screws)
        for j in range(chain.parents.size):
            begin, end = chain.pair_start[j], chain.pair_start[j + 1]
            for lane in range(m):
                link_wrench(wrench, links[(j + 1) * LINK_ROWS + lane : (j + 2) * LINK_ROWS], phi[first + lane, j], 1)
                for pair in range(begin, end):
                    bias[first + lane, chain.pair_joint[pair]] += along(screws, pair, lane, wrench)
            for pair in range(begin, end):
                k = chain.pair_joint[pair]
                for lane in range(m):
                    screw = screws[pair * SCREW_ROWS + lane : (pair + 1) * SCREW_ROWS]
                    screw_momentum(wrench, screw, phi[first + lane, j], 1)
                    for other in range(begin, end):
                        mass[first + lane, chain.pair_joint[other], k] += along(screws, other, lane, wrench)
