"""Closed chains, compiled: assemble them by Newton's method, complete a motion, project the opened tree's columns.

Coordinates are those of the opened tree, n_all of them. Some are `given`, the rest `sought`; closures are as many
equations as coordinates are sought, and A their Jacobian: A_sought dq_sought = -A_given dq_given.
"""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.closure import WORLD_ROWS, Loops, acceleration_rows, locate, residual_rows, to_world
from excitor.robots.kernel.columns import BLOCK_ROWS, torque_columns
from excitor.robots.kernel.compile import LANES, LINK_ROWS, PITCH, SCREW_ROWS, compiled, inner
from excitor.robots.kernel.recursion import recursion, start_at_base

_SINGULAR = 1e-13  # of the largest entry: a pivot as small is none
_FINAL_ITERATIONS = 25
_MOST_LEGS = 100.0


@compiled
def assemble(chain: Chain, loops: Loops, split: Any, start: Any, out: Any) -> None:
    """Find the sought coordinates of every sample by Newton's method, led from home by steps of the given ones.

    split = (given, sought); start = (home (n_all,), longest step of each coordinate (n_all,), tolerance);
    out = (q (n_all, n_samples), its given rows filled; residual (n_samples,)).
    """
    given, sought = split
    home, stride, tolerance = start
    q, residual = out
    n_all, n_samples = q.shape
    n = sought.size
    room = np.empty((n_all, LANES))
    links = np.empty((chain.parents.size + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    world = np.empty((chain.parents.size + 1) * WORLD_ROWS)
    scratch = np.empty(9 * LANES)
    f = np.empty((n, LANES))
    A = np.empty((n, n_all, LANES))
    square = np.empty((n, n))
    right = np.empty(n)
    legs = np.empty(LANES, dtype=np.int64)
    done = np.empty(LANES, dtype=np.bool_)
    start_at_base(chain, links)
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        for i in range(n_all):
            for lane in range(LANES):
                room[i, lane] = home[i]
        most = 1
        for lane in range(m):
            done[lane] = False
            legs[lane] = 1
            for g in given:
                away = min(_MOST_LEGS, abs(q[g, first + lane] - home[g]) / stride[g])
                legs[lane] = max(legs[lane], int(np.ceil(away)))
            most = max(most, legs[lane])
        for turn in range(2 * (most - 1) + _FINAL_ITERATIONS):
            lead(room, q, (home, given), legs, turn, (first, m))
            locate(chain, (room, room, room), 0, m, links, screws)
            to_world(chain, links, world, m)
            residual_rows(chain, loops, world, screws, (f, A), scratch, m)
            settled = True
            for lane in range(m):
                if done[lane]:
                    continue
                worst = 0.0
                for k in range(n):
                    worst = max(worst, abs(f[k, lane]))
                    right[k] = f[k, lane]
                    for i in range(n):
                        square[k, i] = A[k, sought[i], lane]
                residual[first + lane] = worst
                last = turn - 2 * (legs[lane] - 1)
                done[lane] = last >= 0 and (worst <= tolerance or last + 1 == _FINAL_ITERATIONS)
                settled = settled and done[lane]
                if eliminate(square, right):  # also where it is done: one step more squares the error
                    shrink = 1.0
                    for i in range(n):
                        shrink = max(shrink, abs(right[i]) / stride[sought[i]])
                    for i in range(n):
                        room[sought[i], lane] -= right[i] / shrink
            if settled:
                break
        for i in sought:
            for lane in range(m):
                q[i, first + lane] = room[i, lane]


@inner
def lead(room: FloatArray, q: FloatArray, start: Any, legs: IntArray, turn: int, block: tuple[int, int]) -> None:
    """Move the given coordinates of a block on from home: two iterations a leg of the way, each sample by itself."""
    home, given = start
    first, m = block
    for g in given:
        for lane in range(m):
            share = min(turn // 2 + 1, legs[lane]) / legs[lane]
            room[g, lane] = home[g] + share * (q[g, first + lane] - home[g])


@inner
def eliminate(square: FloatArray, right: FloatArray) -> bool:
    """Solve square · x = right in place by Gaussian elimination with row pivots; False if the matrix is singular."""
    n = right.size
    largest = 0.0
    for i in range(n):
        for k in range(n):
            largest = max(largest, abs(square[i, k]))
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(square[i, k]) > abs(square[pivot, k]):
                pivot = i
        if not abs(square[pivot, k]) > _SINGULAR * largest:
            return False
        if pivot != k:
            for c in range(k, n):
                square[k, c], square[pivot, c] = square[pivot, c], square[k, c]
            right[k], right[pivot] = right[pivot], right[k]
        for i in range(k + 1, n):
            factor = square[i, k] / square[k, k]
            if factor != 0.0:
                for c in range(k + 1, n):
                    square[i, c] -= factor * square[k, c]
                right[i] -= factor * right[k]
    for k in range(n - 1, -1, -1):
        total = right[k]
        for c in range(k + 1, n):
            total -= square[k, c] * right[c]
        right[k] = total / square[k, k]
    return True


@inner
def invert(square: FloatArray, inverse: FloatArray) -> float:
    """Write the inverse by Gauss and Jordan with row pivots, return the determinant; 0: the inverse is not finite."""
    n = square.shape[0]
    determinant = 1.0
    inverse[:, :] = 0.0
    for k in range(n):
        inverse[k, k] = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(square[i, k]) > abs(square[pivot, k]):
                pivot = i
        if square[pivot, k] == 0.0:
            inverse[:, :] = np.inf
            return 0.0
        if pivot != k:
            determinant = -determinant
            for c in range(n):
                square[k, c], square[pivot, c] = square[pivot, c], square[k, c]
                inverse[k, c], inverse[pivot, c] = inverse[pivot, c], inverse[k, c]
        determinant *= square[k, k]
        scale = 1.0 / square[k, k]
        for c in range(n):
            square[k, c] *= scale
            inverse[k, c] *= scale
        for i in range(n):
            factor = square[i, k]
            if i != k and factor != 0.0:
                for c in range(n):
                    square[i, c] -= factor * square[k, c]
                    inverse[i, c] -= factor * inverse[k, c]
    return determinant


@compiled
def complete(chain: Chain, loops: Loops, split: Any, motion: Any, out: Any) -> None:
    """Complete a motion: J with dq_all = J dq_given, velocities and accelerations of the sought coordinates.

    split = (given, sought); motion = (q, dq, ddq), each (n_all, n_samples), all of q and the given rows of dq and
    ddq filled; out = (J (n_all, n_given, n_samples), determinant of A_sought (n_samples,)).
    A_sought ddq_sought = -(A_given ddq_given + dA dq_all), the bracket as the tree's accelerations give it.
    """
    given, sought = split
    q, dq, ddq = motion
    J, determinant = out
    n_all, n_samples = q.shape
    n = sought.size
    links = np.empty((chain.parents.size + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    world = np.empty((chain.parents.size + 1) * WORLD_ROWS)
    scratch = np.empty(9 * LANES)
    f = np.empty((n, LANES))
    A = np.empty((n, n_all, LANES))
    G = np.empty((LANES, n, n))
    square = np.empty((n, n))
    start_at_base(chain, links)
    J[:, :, :] = 0.0
    for c in range(given.size):
        J[given[c], c, :] = 1.0
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        locate(chain, motion, first, m, links, screws)
        to_world(chain, links, world, m)
        residual_rows(chain, loops, world, screws, (f, A), scratch, m)
        for lane in range(m):
            for k in range(n):
                for i in range(n):
                    square[k, i] = A[k, sought[i], lane]
            determinant[first + lane] = invert(square, G[lane])
            for i in range(n):
                velocity = 0.0
                for c in range(given.size):
                    entry = 0.0
                    for k in range(n):
                        entry -= G[lane, i, k] * A[k, given[c], lane]
                    J[sought[i], c, first + lane] = entry
                    velocity += entry * dq[given[c], first + lane]
                dq[sought[i], first + lane] = velocity
                ddq[sought[i], first + lane] = 0.0
        recursion(chain, motion, first, m, links, screws)
        acceleration_rows(loops, links, world, f, scratch, m)
        for lane in range(m):
            for i in range(n):
                entry = 0.0
                for k in range(n):
                    entry -= G[lane, i, k] * f[k, lane]
                ddq[sought[i], first + lane] = entry


@compiled
def fill_closures(chain: Chain, loops: Loops, q: FloatArray, f: FloatArray, A: FloatArray) -> None:
    """Write the closures' residual f (n_rows, n_samples) and Jacobian A (n_rows, n_all, n_samples) at q_all."""
    n_samples = q.shape[1]
    links = np.empty((chain.parents.size + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    world = np.empty((chain.parents.size + 1) * WORLD_ROWS)
    scratch = np.empty(9 * LANES)
    f_block = np.empty((f.shape[0], LANES))
    A_block = np.empty((A.shape[0], A.shape[1], LANES))
    start_at_base(chain, links)
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        locate(chain, (q, q, q), first, m, links, screws)
        to_world(chain, links, world, m)
        residual_rows(chain, loops, world, screws, (f_block, A_block), scratch, m)
        f[:, first : first + m] = f_block[:, :m]
        A[:, :, first : first + m] = A_block[:, :, :m]


@compiled
def fill_projected(chain: Chain, motion: Any, J: FloatArray, bodies: IntArray, out: FloatArray) -> None:
    """Write Jᵀ Y of the opened tree into out (10 n_bodies, n_given, at least n_samples).

    bodies (n_links,) numbers the links that carry parameters, -1 for those that do not.
    """
    n_given, n_samples = J.shape[1], J.shape[2]
    links = np.empty((chain.parents.size + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    block = np.empty(BLOCK_ROWS)
    start_at_base(chain, links)
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        recursion(chain, motion, first, m, links, screws)
        for j in range(chain.parents.size):
            body = bodies[j]
            if body < 0:
                continue
            for k in range(10):
                for g in range(n_given):
                    for lane in range(m):
                        out[10 * body + k, g, first + lane] = 0.0
            link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
            for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
                torque_columns(block, screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS], link, m)
                c = chain.pair_joint[pair]
                for g in range(n_given):
                    share = J[c, g, first : first + m]
                    for k in range(10):
                        add_product(out[10 * body + k, g, first : first + m], share, block[k * PITCH : k * PITCH + m])


@inner
def add_product(target: FloatArray, x: FloatArray, y: FloatArray) -> None:
    """Add x · y, lane by lane."""
    for lane in range(target.size):
        target[lane] += x[lane] * y[lane]
