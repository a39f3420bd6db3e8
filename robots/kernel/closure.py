"""Where the bodies of an opened chain must meet: what is left open, its Jacobian, and how it accelerates.

A closure compares a point of link a with a point of link b, world axes, gap d = p_a - p_b:

    point  rows · d = 0          rod  (|d|² - L²) / 2L = 0          turn  rows · ½ Σ_i b_i × (R_a C)_i = 0

`rows` are directions that must close: three, or two and one in a plane. Base links are -1.
"""

from typing import Any, NamedTuple

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.compile import (
    AX,
    LANES,
    LINK_ROWS,
    LX,
    OX,
    PX,
    R00,
    SCREW_ROWS,
    UX,
    VX,
    WX,
    inner,
)
from excitor.robots.kernel.recursion import add_joint_screw, carry_screw, drive_joint, place, sine_cosine, start_screw

POINT, ROD, TURN = 0, 1, 2
WORLD_ROWS = 12 * LANES  # R_base_link, then the origin's position


class Loops(NamedTuple):
    """Closures as the flat arrays that compiled code reads."""

    kind: IntArray  # (n_closures,)
    link: IntArray  # (n_closures, 2): a and b
    point: FloatArray  # (n_closures, 2, 3), in the links' frames
    rows: FloatArray  # (n_closures, 3, 3): the first count rows close
    first: IntArray  # (n_closures + 1,): number of the closure's first equation
    length: FloatArray  # (n_closures,), of a rod
    turn: FloatArray  # (n_closures, 3, 3): C, the orientation of b in a


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
    """Write the vector that a closure is about, world axes: p_a - p_b, or the turn of a against b."""
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
    """Write what a coordinate's unit rate does to one side of a closure, world axes; side b counts negative."""
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
    """Write how the closures' residual accelerates along the motion that `links` holds, f (n_rows, LANES).

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
