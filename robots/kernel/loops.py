"""Closed chains, compiled: assemble them by Newton's method, complete a motion, project the opened tree's columns.

Coordinates are those of the opened tree, n_all of them. Some are `given`, the rest `dependent`; closures are as many
equations as coordinates are dependent, and A their Jacobian: A_dependent dq_dependent = -A_given dq_given.

Residual, Jacobian and acceleration of the closures are evaluated in blocks of samples.
"""

from typing import Any, NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.columns import BLOCK_ROWS, torque_columns
from excitor.robots.kernel.compile import (
    AX,
    LANES,
    LINK_ROWS,
    LX,
    OX,
    PITCH,
    PX,
    R00,
    SCREW_ROWS,
    UX,
    VX,
    WX,
    Chain,
    compiled,
    inner,
    inner_views,
)
from excitor.robots.kernel.recursion import (
    add_joint_screw,
    carry_screw,
    drive_joint,
    place,
    recursion,
    sine_cosine,
    start_at_base,
    start_screw,
)

_SINGULAR = 1e-13  # of the largest entry: a pivot as small is none
_FINAL_ITERATIONS = 25
_MOST_LEGS = 100.0


class Loops(NamedTuple):
    """Closures as the flat arrays that compiled code reads."""

    kind: IntArray  # (n_closures,)
    link: IntArray  # (n_closures, 2): a and b
    point: FloatArray  # (n_closures, 2, 3), in the links' frames
    rows: FloatArray  # (n_closures, 3, 3): the first count rows close
    first: IntArray  # (n_closures + 1,): number of the closure's first equation
    length: FloatArray  # (n_closures,), of a rod
    turn: FloatArray  # (n_closures, 3, 3): C, the orientation of b in a


@compiled
def assemble(chain: Chain, loops: Loops, split: Any, start: Any, out: Any) -> None:
    """Find the dependent coordinates of every sample by Newton's method, led from home by steps of the given ones.

    split = (given, dependent); start = (home (n_all,), longest step of each coordinate (n_all,), tolerance);
    out = (q (n_all, n_samples), its given rows filled; residual (n_samples,)).
    """
    given, dependent = split
    home, stride, tolerance = start
    q, residual = out
    n_all, n_samples = q.shape
    n = dependent.size
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
                        square[k, i] = A[k, dependent[i], lane]
                residual[first + lane] = worst
                last = turn - 2 * (legs[lane] - 1)
                done[lane] = last >= 0 and (worst <= tolerance or last + 1 == _FINAL_ITERATIONS)
                settled = settled and done[lane]
                if eliminate(square, right):  # also where it is done: one step more squares the error
                    shrink = 1.0
                    for i in range(n):
                        shrink = max(shrink, abs(right[i]) / stride[dependent[i]])
                    for i in range(n):
                        room[dependent[i], lane] -= right[i] / shrink
            if settled:
                break
        for i in dependent:
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


@inner_views
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
    """Complete a motion: J with dq_all = J dq_given, velocities and accelerations of the dependent coordinates.

    split = (given, dependent); motion = (q, dq, ddq), each (n_all, n_samples), all of q and the given rows of dq and
    ddq filled; out = (J (n_all, n_given, n_samples), determinant of A_sought (n_samples,)).
    A_sought ddq_sought = -(A_given ddq_given + dA dq_all), the bracket as the tree's accelerations give it.
    """
    given, dependent = split
    q, dq, ddq = motion
    J, determinant = out
    n_all, n_samples = q.shape
    n = dependent.size
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
                    square[k, i] = A[k, dependent[i], lane]
            determinant[first + lane] = invert(square, G[lane])
            for i in range(n):
                velocity = 0.0
                for c in range(given.size):
                    entry = 0.0
                    for k in range(n):
                        entry -= G[lane, i, k] * A[k, given[c], lane]
                    J[dependent[i], c, first + lane] = entry
                    velocity += entry * dq[given[c], first + lane]
                dq[dependent[i], first + lane] = velocity
                ddq[dependent[i], first + lane] = 0.0
        recursion(chain, motion, first, m, links, screws)
        acceleration_rows(loops, links, world, f, scratch, m)
        for lane in range(m):
            for i in range(n):
                entry = 0.0
                for k in range(n):
                    entry -= G[lane, i, k] * f[k, lane]
                ddq[dependent[i], first + lane] = entry


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


POINT, ROD, TURN = 0, 1, 2
WORLD_ROWS = 12 * LANES  # R_base_link, then the origin's position


@inner
def locate(chain: Chain, motion: Any, first: int, m: int, links: FloatArray, screws: FloatArray) -> None:
    """Run a block through the tree for its geometry alone: R and r of every link, and every coordinate's screws."""
    for j in range(chain.parents.size):
        link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
        constants = chain.constants[j]
        drive_joint(link, chain.coupling[j], chain.offset[j], motion, first, m)
        sine_cosine(link, m)
        place(link, constants, m)
        for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
            screw = screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS]
            above = chain.pair_above[pair]
            share = chain.coupling[j, chain.pair_joint[pair]]
            if above < 0:
                start_screw(screw, constants, share, m)
                continue
            carry_screw(screw, screws[above * SCREW_ROWS : (above + 1) * SCREW_ROWS], link, m)
            if share != 0.0:
                add_joint_screw(screw, constants, share, m)


@inner
def to_world(chain: Chain, links: FloatArray, world: FloatArray, m: int) -> None:
    """Chain the links' R and r up to the base; row 0 of `world` is the base."""
    for lane in range(m):
        for k in range(12):
            world[k * LANES + lane] = 1.0 if k in (0, 4, 8) else 0.0
    for j in range(chain.parents.size):
        link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
        own = world[(j + 1) * WORLD_ROWS : (j + 2) * WORLD_ROWS]
        row = chain.parents[j] + 1
        above = world[row * WORLD_ROWS : (row + 1) * WORLD_ROWS]
        for a in range(3):
            for lane in range(m):
                x = above[(3 * a) * LANES + lane]
                y = above[(3 * a + 1) * LANES + lane]
                z = above[(3 * a + 2) * LANES + lane]
                for c in range(3):
                    own[(3 * a + c) * LANES + lane] = (
                        x * link[R00 + c * LANES + lane]
                        + y * link[R00 + (3 + c) * LANES + lane]
                        + z * link[R00 + (6 + c) * LANES + lane]
                    )
                own[(9 + a) * LANES + lane] = (
                    above[(9 + a) * LANES + lane]
                    + x * link[PX + lane]
                    + y * link[PX + LANES + lane]
                    + z * link[PX + 2 * LANES + lane]
                )


@inner
def measure_gap(loops: Loops, c: int, world: FloatArray, gap: FloatArray, m: int) -> None:
    """Write a closure's residual vector, world axes: p_a - p_b, or the rotation of a relative to b."""
    a = world[(loops.link[c, 0] + 1) * WORLD_ROWS : (loops.link[c, 0] + 2) * WORLD_ROWS]
    b = world[(loops.link[c, 1] + 1) * WORLD_ROWS : (loops.link[c, 1] + 2) * WORLD_ROWS]
    if loops.kind[c] != TURN:
        for k in range(3):
            for lane in range(m):
                d = a[(9 + k) * LANES + lane] - b[(9 + k) * LANES + lane]
                for i in range(3):
                    d += a[(3 * k + i) * LANES + lane] * loops.point[c, 0, i]
                    d -= b[(3 * k + i) * LANES + lane] * loops.point[c, 1, i]
                gap[k * LANES + lane] = d
        return
    C = loops.turn[c]
    for lane in range(m):
        for k in range(3):
            gap[k * LANES + lane] = 0.0
        for i in range(3):
            t0 = a[lane] * C[0, i] + a[LANES + lane] * C[1, i] + a[2 * LANES + lane] * C[2, i]
            t1 = a[3 * LANES + lane] * C[0, i] + a[4 * LANES + lane] * C[1, i] + a[5 * LANES + lane] * C[2, i]
            t2 = a[6 * LANES + lane] * C[0, i] + a[7 * LANES + lane] * C[1, i] + a[8 * LANES + lane] * C[2, i]
            b0 = b[i * LANES + lane]
            b1 = b[(3 + i) * LANES + lane]
            b2 = b[(6 + i) * LANES + lane]
            gap[lane] += 0.5 * (b1 * t2 - b2 * t1)
            gap[LANES + lane] += 0.5 * (b2 * t0 - b0 * t2)
            gap[2 * LANES + lane] += 0.5 * (b0 * t1 - b1 * t0)


@inner
def close_row(loops: Loops, c: int, k: int, gap: FloatArray, vector: FloatArray, out: FloatArray, m: int) -> None:
    """Write a vector's part along a closure's k-th direction; of a rod, along the rod, in units of its length."""
    for lane in range(m):
        out[lane] = 0.0
    add_row(loops, c, k, gap, vector, out, m)


@inner
def add_row(loops: Loops, c: int, k: int, gap: FloatArray, vector: FloatArray, out: FloatArray, m: int) -> None:
    """Add a vector's part along a closure's k-th direction to a row of lanes."""
    for lane in range(m):
        if loops.kind[c] == ROD:
            d0, d1, d2 = gap[lane], gap[LANES + lane], gap[2 * LANES + lane]
            e0, e1, e2 = d0 / loops.length[c], d1 / loops.length[c], d2 / loops.length[c]
        else:
            e0, e1, e2 = loops.rows[c, k, 0], loops.rows[c, k, 1], loops.rows[c, k, 2]
        out[lane] += e0 * vector[lane] + e1 * vector[LANES + lane] + e2 * vector[2 * LANES + lane]


@inner
def screw_vector(
    loops: Loops, c: int, side: int, screw: FloatArray, pose: FloatArray, vector: FloatArray, m: int
) -> None:
    """Write the velocity of one side of a closure per unit rate of a coordinate, world axes; negative for side b."""
    sign = 1.0 - 2.0 * side
    r0, r1, r2 = loops.point[c, side, 0], loops.point[c, side, 1], loops.point[c, side, 2]
    for lane in range(m):
        u0, u1, u2 = screw[UX + lane], screw[UX + LANES + lane], screw[UX + 2 * LANES + lane]
        if loops.kind[c] == TURN:
            v0, v1, v2 = u0, u1, u2
        else:
            v0 = screw[WX + lane] + u1 * r2 - u2 * r1
            v1 = screw[WX + LANES + lane] + u2 * r0 - u0 * r2
            v2 = screw[WX + 2 * LANES + lane] + u0 * r1 - u1 * r0
        for k in range(3):
            vector[k * LANES + lane] = sign * (
                pose[(3 * k) * LANES + lane] * v0
                + pose[(3 * k + 1) * LANES + lane] * v1
                + pose[(3 * k + 2) * LANES + lane] * v2
            )


@inner
def residual_rows(
    chain: Chain, loops: Loops, world: FloatArray, screws: FloatArray, out: Any, scratch: FloatArray, m: int
) -> None:
    """Write the closures' residual and Jacobian of a block: out = (f (n_rows, LANES), A (n_rows, n_all, LANES))."""
    f, A = out
    gap, vector = scratch[: 3 * LANES], scratch[3 * LANES : 6 * LANES]
    A[:, :, :m] = 0.0
    for c in range(loops.kind.size):
        measure_gap(loops, c, world, gap, m)
        for k in range(loops.first[c + 1] - loops.first[c]):
            row = loops.first[c] + k
            close_row(loops, c, k, gap, gap, f[row], m)
            if loops.kind[c] == ROD:
                for lane in range(m):
                    f[row, lane] = 0.5 * (f[row, lane] - loops.length[c])
        for side in range(2):
            j = loops.link[c, side]
            if j < 0:
                continue
            pose = world[(j + 1) * WORLD_ROWS : (j + 2) * WORLD_ROWS]
            for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
                screw = screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS]
                screw_vector(loops, c, side, screw, pose, vector, m)
                for k in range(loops.first[c + 1] - loops.first[c]):
                    add_row(loops, c, k, gap, vector, A[loops.first[c] + k, chain.pair_joint[pair]], m)


@inner
def acceleration_rows(
    loops: Loops, links: FloatArray, world: FloatArray, f: FloatArray, scratch: FloatArray, m: int
) -> None:
    """Write the second derivative of the closures' residual along the motion in `links`, f (n_rows, LANES).

    Of a rod: (d · Δa + |Δv|²) / L.
    """
    gap, vector, speed = scratch[: 3 * LANES], scratch[3 * LANES : 6 * LANES], scratch[6 * LANES : 9 * LANES]
    for c in range(loops.kind.size):
        measure_gap(loops, c, world, gap, m)
        for k in range(6 * LANES):
            scratch[3 * LANES + k] = 0.0
        for side in range(2):
            j = loops.link[c, side]
            link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
            pose = world[(j + 1) * WORLD_ROWS : (j + 2) * WORLD_ROWS]
            _add_acceleration(loops, c, side, link, pose, vector, m)
            if loops.kind[c] == ROD:
                _add_velocity(loops, c, side, link, pose, speed, m)
        for k in range(loops.first[c + 1] - loops.first[c]):
            row = loops.first[c] + k
            close_row(loops, c, k, gap, vector, f[row], m)
            if loops.kind[c] == ROD:
                for lane in range(m):
                    s0, s1, s2 = speed[lane], speed[LANES + lane], speed[2 * LANES + lane]
                    f[row, lane] += (s0 * s0 + s1 * s1 + s2 * s2) / loops.length[c]


@inner
def _add_acceleration(
    loops: Loops, c: int, side: int, link: FloatArray, pose: FloatArray, vector: FloatArray, m: int
) -> None:
    """Add a side's acceleration, linear or angular, world axes: a + α × r + ω × (ω × r)."""
    sign = 1.0 - 2.0 * side
    r0, r1, r2 = loops.point[c, side, 0], loops.point[c, side, 1], loops.point[c, side, 2]
    for lane in range(m):
        l0, l1, l2 = link[LX + lane], link[LX + LANES + lane], link[LX + 2 * LANES + lane]
        if loops.kind[c] == TURN:
            a0, a1, a2 = l0, l1, l2
        else:
            o0, o1, o2 = link[OX + lane], link[OX + LANES + lane], link[OX + 2 * LANES + lane]
            along = o0 * r0 + o1 * r1 + o2 * r2
            square = o0 * o0 + o1 * o1 + o2 * o2
            a0 = link[AX + lane] + l1 * r2 - l2 * r1 + o0 * along - square * r0
            a1 = link[AX + LANES + lane] + l2 * r0 - l0 * r2 + o1 * along - square * r1
            a2 = link[AX + 2 * LANES + lane] + l0 * r1 - l1 * r0 + o2 * along - square * r2
        for k in range(3):
            vector[k * LANES + lane] += sign * (
                pose[(3 * k) * LANES + lane] * a0
                + pose[(3 * k + 1) * LANES + lane] * a1
                + pose[(3 * k + 2) * LANES + lane] * a2
            )


@inner
def _add_velocity(
    loops: Loops, c: int, side: int, link: FloatArray, pose: FloatArray, speed: FloatArray, m: int
) -> None:
    """Add a side's velocity, world axes: v + ω × r."""
    sign = 1.0 - 2.0 * side
    r0, r1, r2 = loops.point[c, side, 0], loops.point[c, side, 1], loops.point[c, side, 2]
    for lane in range(m):
        o0, o1, o2 = link[OX + lane], link[OX + LANES + lane], link[OX + 2 * LANES + lane]
        v0 = link[VX + lane] + o1 * r2 - o2 * r1
        v1 = link[VX + LANES + lane] + o2 * r0 - o0 * r2
        v2 = link[VX + 2 * LANES + lane] + o0 * r1 - o1 * r0
        for k in range(3):
            speed[k * LANES + lane] += sign * (
                pose[(3 * k) * LANES + lane] * v0
                + pose[(3 * k + 1) * LANES + lane] * v1
                + pose[(3 * k + 2) * LANES + lane] * v2
            )
