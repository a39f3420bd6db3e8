"""What a robot's links, gears, rotors and friction ask of its motors in one state, for steps of a closed loop."""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.compile import inner
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
from excitor.robots.kernel.weigh import Closing, Room, make_room, weigh

LEAST = 0.2  # share of friction that heat leaves at least

State = tuple[FloatArray, FloatArray]  # positions and velocities, each (n,)


class Plant(NamedTuple):
    """The robot as it is; n joints, as many motors. Friction takes its velocities from the motors' side."""

    chain: Chain  # of the opened tree, where there are closed loops
    phi: FloatArray  # (n_links, 10), of that tree's links
    closing: Closing | None
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


class Work(NamedTuple):
    """Room for one evaluation."""

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
    """Make room for evaluations."""
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


@inner
def evaluate(
    plant: Plant,
    work: Work,
    motors: State,
    tau: FloatArray,
    warm: FloatArray,
) -> None:
    """Write `total` and `push` of total · ddq = push: (carry M + lift R) ddq = Nᵀ τ - carry h - friction."""
    weigh_links(plant, work, motors)
    rub(plant, work, motors, warm)
    add_products(work.carry, work.mass, work.lift, plant.rotors, work.total)
    balance(plant, work, tau, work.bias)
    hold_stuck(plant, work)


@inner
def evaluate_elastic(
    plant: Plant,
    work: Work,
    motors: State,
    links: State,
    tau: FloatArray,
    warm: FloatArray,
) -> None:
    """Write `total` and `push` of the motors alone; what links need is in `mass` and `bias`."""
    weigh_links(plant, work, links)
    rub(plant, work, motors, warm)
    add_products(work.lift, plant.rotors, work.lift, work.nothing, work.total)
    stretch(plant, motors, links, work.pulls)
    balance(plant, work, tau, work.pulls)
    hold_stuck(plant, work)


@inner
def add_products(A: FloatArray, B: FloatArray, C: FloatArray, D: FloatArray, out: FloatArray) -> None:
    """Write A B + C D."""
    n = out.shape[0]
    for i in range(n):
        for k in range(n):
            total = 0.0
            for c in range(n):
                total += A[i, c] * B[c, k] + C[i, c] * D[c, k]
            out[i, k] = total


@inner
def balance(plant: Plant, work: Work, tau: FloatArray, carried: FloatArray) -> None:
    """Write what motor torques leave for accelerations: Nᵀ τ - carry · carried - friction."""
    for i in range(tau.size):
        left = -work.rubbed[i]
        for k in range(tau.size):
            left += plant.gears[k, i] * tau[k] - work.carry[i, k] * carried[k]
        work.push[i] = left


@inner
def stretch(plant: Plant, motors: State, links: State, out: FloatArray) -> None:
    """Write the torques of the springs and dampers between motors and links."""
    for i in range(out.size):
        out[i] = plant.stiffness[i] * (motors[0][i] - links[0][i]) + plant.damping[i] * (motors[1][i] - links[1][i])


@inner
def hold_stuck(plant: Plant, work: Work) -> None:
    """Let no joint accelerate whose brake is closed."""
    for i in range(plant.stuck.size):
        if plant.stuck[i]:
            work.total[i, :] = 0.0
            work.total[i, i] = 1.0
            work.chord[i, :] = 0.0
            work.push[i] = 0.0


@inner
def weigh_links(plant: Plant, work: Work, state: State) -> None:
    """Write the links' mass matrix and the torques that hold and turn them without acceleration."""
    weigh(plant.chain, plant.phi, plant.closing, work.tree, state, (work.bias, work.mass))


@inner
def rub(plant: Plant, work: Work, motors: State, warm: FloatArray) -> None:
    """Write what friction takes, and how gears and loads let it grow with the torque they carry."""
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


@inner
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


@inner
def lose(plant: Plant, work: Work, motors: State) -> None:
    """Let gears lose torque: motor i feels λ_i (1 + loss) where it drives its links, λ_i (1 - loss) where they do."""
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


@inner
def shift_slips(plant: Plant, work: Work, before: FloatArray, after: FloatArray) -> None:
    """Move the states of Maxwell-slip elements along."""
    elements = plant.elements
    for e in range(plant.friction.size):
        if elements.model[e] == STATE:
            moved = 0.0
            for i in range(before.size):
                moved += elements.senses[e, i] * (after[i] - before[i])
            work.slip[e] = min(1.0, max(-1.0, work.slip[e] + moved / elements.scale[e]))


@inner
def solve(matrix: FloatArray, A: FloatArray, b: FloatArray, x: FloatArray) -> None:
    """Solve A x = b by elimination with row pivots, in `matrix`; for a handful of unknowns."""
    n = b.size
    matrix[:] = A
    x[:] = b
    for c in range(n):
        best = c
        for r in range(c + 1, n):
            if abs(matrix[r, c]) > abs(matrix[best, c]):
                best = r
        if best != c:
            for k in range(c, n):
                matrix[c, k], matrix[best, k] = matrix[best, k], matrix[c, k]
            x[c], x[best] = x[best], x[c]
        for r in range(c + 1, n):
            factor = matrix[r, c] / matrix[c, c]
            for k in range(c + 1, n):
                matrix[r, k] -= factor * matrix[c, k]
            x[r] -= factor * x[c]
    for c in range(n - 1, -1, -1):
        for k in range(c + 1, n):
            x[c] -= matrix[c, k] * x[k]
        x[c] /= matrix[c, c]


@inner
def same_sides(plant: Plant, work: Work, felt: FloatArray, load: FloatArray) -> bool:
    """Tell whether gears and load-dependent friction still carry torques of the signs they had."""
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


@inner
def projected(weights: FloatArray, x: FloatArray) -> float:
    """Add up weights times x."""
    total = 0.0
    for i in range(x.size):
        total += weights[i] * x[i]
    return total
