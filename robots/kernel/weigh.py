"""What links need in one state: their mass matrix, and the torques that hold and turn them without acceleration."""

from typing import Any, NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.closure import WORLD_ROWS, Loops, acceleration_rows, locate, residual_rows, to_world
from excitor.robots.kernel.columns import link_wrench, screw_momentum
from excitor.robots.kernel.compile import LANES, LINK_ROWS, SCREW_ROWS, inner
from excitor.robots.kernel.loops import eliminate, invert
from excitor.robots.kernel.recursion import recursion, start_at_base

_MOST_STEPS = 10  # of Newton's method, from the state before


class Closing(NamedTuple):
    """How an opened tree closes. Open chains have None, for whom nothing of closing is compiled."""

    loops: Loops
    given: IntArray  # coordinates of the tree that are the robot's joints
    sought: IntArray  # the others
    position: FloatArray  # (n_all,): where the tree was last, and from where it is led on
    stride: FloatArray  # (n_all,): how far coordinates are led at once
    tolerance: float


class Room(NamedTuple):
    """Room for one state of a tree, opened or not."""

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


@inner
def make_room(chain: Chain, closing: Closing | None) -> Room:
    """Make room for the states of a tree."""
    n_all = chain.coupling.shape[1]
    n = 0 if closing is None else closing.sought.size
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


@inner
def weigh(chain: Chain, phi: FloatArray, closing: Closing | None, room: Room, state: Any, out: Any) -> None:
    """Write bias (n,) and mass (n, n) of the robot's own joints in a state (q, dq); out = (bias, mass)."""
    bias, mass = out
    q, dq = state
    if closing is None:
        for i in range(q.size):
            room.motion[0, i, 0], room.motion[1, i, 0] = q[i], dq[i]
        weigh_tree(chain, phi, room)
        bias[:] = room.bias
        mass[:] = room.mass
    else:
        if close(chain, closing, room, q, dq):
            weigh_tree(chain, phi, room)
            acceleration_rows(closing.loops, room.links, room.world, room.f, room.scratch, 1)
            project(closing, room, bias, mass)
        else:
            bias[:] = np.nan
            mass[:] = np.nan


@inner
def weigh_tree(chain: Chain, phi: FloatArray, room: Room) -> None:
    """Write the tree's own bias and mass matrix for the positions and velocities in room.motion."""
    recursion(chain, (room.motion[0], room.motion[1], room.motion[2]), 0, 1, room.links, room.screws)
    room.bias[:] = 0.0
    room.mass[:] = 0.0
    for j in range(chain.parents.size):
        begin, end = chain.pair_start[j], chain.pair_start[j + 1]
        link_wrench(room.wrench, room.links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS], phi[j], 1)
        for pair in range(begin, end):
            room.bias[chain.pair_joint[pair]] += along(room.screws, pair, room.wrench)
        for pair in range(begin, end):
            screw_momentum(room.wrench, room.screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS], phi[j], 1)
            for other in range(begin, end):
                room.mass[chain.pair_joint[other], chain.pair_joint[pair]] += along(room.screws, other, room.wrench)


@inner
def along(screws: FloatArray, pair: int, wrench: FloatArray) -> float:
    """Project a wrench on a pair's screw."""
    power = 0.0
    for k in range(6):
        power += screws[pair * SCREW_ROWS + k * LANES] * wrench[k * LANES]
    return power


@inner
def close(chain: Chain, closing: Closing, room: Room, q: FloatArray, dq: FloatArray) -> bool:
    """Lead the tree to the joints' positions from where it was last; write its motion, J and inverse; False if lost."""
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
    n = closing.sought.size
    for k in range(n):
        for i in range(n):
            room.square[k, i] = room.A[k, closing.sought[i], 0]
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
            room.J[closing.sought[i], c] = entry
            velocity += entry * dq[c]
        room.motion[1, closing.sought[i], 0] = velocity
    return True


@inner
def approach(chain: Chain, closing: Closing, room: Room, at: FloatArray, most: int) -> bool:
    """Take steps of Newton's method until the loops close, and one more; room holds A of where that leads."""
    n = closing.sought.size
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
                room.square[k, i] = room.A[k, closing.sought[i], 0]
        closed = bool(np.abs(room.right).max() <= closing.tolerance)
        if not eliminate(room.square, room.right):
            return False
        for i in range(n):
            at[closing.sought[i], 0] -= room.right[i]
    return closed


@inner
def project(closing: Closing, room: Room, bias: FloatArray, mass: FloatArray) -> None:
    """Write Jᵀ M J, and Jᵀ (h + M γ); γ is what closures ask of the others where the joints do not accelerate."""
    n_all, n = room.J.shape
    for i in range(closing.sought.size):
        gamma = 0.0
        for k in range(closing.sought.size):
            gamma -= room.inverse[i, k] * room.f[k, 0]
        for c in range(n_all):
            room.bias[c] += room.mass[c, closing.sought[i]] * gamma
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
