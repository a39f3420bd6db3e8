"""The outward recursion over a tree: poses and motions of links, and the screws of the coordinates."""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.compile import (
    ANGLE,
    AX,
    AY,
    AZ,
    COSINE,
    GRAVITY_WORK,
    GX,
    GY,
    GZ,
    JOINT_ACCELERATION,
    LANES,
    LINK_ROWS,
    LX,
    LY,
    LZ,
    OX,
    OY,
    OZ,
    PX,
    PY,
    PZ,
    R00,
    R01,
    R02,
    R10,
    R11,
    R12,
    R20,
    R21,
    R22,
    RATE,
    SCREW_ROWS,
    SINE,
    SX,
    SY,
    SZ,
    UX,
    UY,
    UZ,
    VX,
    VY,
    VZ,
    WX,
    WY,
    WZ,
    Chain,
    inner_views,
)

# π/2 in three parts, the first two short enough for exact products (Cody and Waite), and 2/π.
_HALF_PI_HIGH = 1.5707963267341256e00
_HALF_PI_MIDDLE = 6.0771005063039660e-11
_HALF_PI_LOW = 2.0222662487959506e-21
_TWO_OVER_PI = 0.6366197723675814


@inner_views
def sine_cosine(link: FloatArray, m: int) -> None:
    """Write sin θ and cos θ of a block: reduce to ±π/4, then the minimax polynomials of fdlibm; good to |θ| < 1e5."""
    for lane in range(m):
        x = link[ANGLE + lane]
        turns = np.floor(x * _TWO_OVER_PI + 0.5)
        y = ((x - turns * _HALF_PI_HIGH) - turns * _HALF_PI_MIDDLE) - turns * _HALF_PI_LOW
        z = y * y
        s = 1.58969099521155010221e-10 * z - 2.50507602534068634195e-08
        s = s * z + 2.75573137070700676789e-06
        s = s * z - 1.98412698298579493134e-04
        s = s * z + 8.33333333332248946124e-03
        s = s * z - 1.66666666666666324348e-01
        s = y + y * z * s
        c = -1.13596475577881948265e-11 * z + 2.08757232129817482790e-09
        c = c * z - 2.75573143513906633035e-07
        c = c * z + 2.48015872894767294178e-05
        c = c * z - 1.38888888888741095749e-03
        c = c * z + 4.16666666666666019037e-02
        c = 1.0 - 0.5 * z + z * z * c
        odd = turns - 2.0 * np.floor(0.5 * turns)
        half = np.floor(0.5 * turns)
        sine_sign = 1.0 - 2.0 * (half - 2.0 * np.floor(0.5 * half))
        cosine_sign = sine_sign * (1.0 - 2.0 * odd)
        link[SINE + lane] = sine_sign * (c if odd > 0.5 else s)
        link[COSINE + lane] = cosine_sign * (s if odd > 0.5 else c)


@inner_views
def place(link: FloatArray, constants: FloatArray, m: int) -> None:
    """Write R and r of a link from its joint's constants, as far as they change with the joint."""
    for k in range(9):
        a = constants[k]
        b = constants[9 + k]
        c = constants[18 + k]
        if b != 0.0 or c != 0.0:
            for lane in range(m):
                link[R00 + k * LANES + lane] = a + b * link[SINE + lane] + c * link[COSINE + lane]
    for k in range(3):
        a = constants[27 + k]
        b = constants[30 + k]
        c = constants[33 + k]
        d = constants[36 + k]
        if b != 0.0 or c != 0.0 or d != 0.0:
            for lane in range(m):
                link[PX + k * LANES + lane] = (
                    a + b * link[SINE + lane] + c * link[COSINE + lane] + d * link[ANGLE + lane]
                )


@inner_views
def move(link: FloatArray, parent: FloatArray, constants: FloatArray, m: int) -> None:
    """Write the velocities and accelerations of a link from its parent's.

    ω = Rᵀ ω_p + u θ̇,   v = Rᵀ (v_p + ω_p × r) + w θ̇,   (u, w) the joint's screw in the link's frame,
    α and the spatial acceleration likewise with θ̈, plus (ω × u) θ̇ and (ω × w + v × u) θ̇;  a = spatial + ω × v.
    """
    ux, uy, uz = constants[39], constants[40], constants[41]
    wx, wy, wz = constants[42], constants[43], constants[44]
    for lane in range(m):
        r0 = link[PX + lane]
        r1 = link[PY + lane]
        r2 = link[PZ + lane]
        c00 = link[R00 + lane]
        c01 = link[R01 + lane]
        c02 = link[R02 + lane]
        c10 = link[R10 + lane]
        c11 = link[R11 + lane]
        c12 = link[R12 + lane]
        c20 = link[R20 + lane]
        c21 = link[R21 + lane]
        c22 = link[R22 + lane]
        rate = link[RATE + lane]
        push = link[JOINT_ACCELERATION + lane]

        p0 = parent[OX + lane]
        p1 = parent[OY + lane]
        p2 = parent[OZ + lane]
        o0 = c00 * p0 + c10 * p1 + c20 * p2 + ux * rate
        o1 = c01 * p0 + c11 * p1 + c21 * p2 + uy * rate
        o2 = c02 * p0 + c12 * p1 + c22 * p2 + uz * rate
        t0 = parent[VX + lane] + p1 * r2 - p2 * r1
        t1 = parent[VY + lane] + p2 * r0 - p0 * r2
        t2 = parent[VZ + lane] + p0 * r1 - p1 * r0
        v0 = c00 * t0 + c10 * t1 + c20 * t2 + wx * rate
        v1 = c01 * t0 + c11 * t1 + c21 * t2 + wy * rate
        v2 = c02 * t0 + c12 * t1 + c22 * t2 + wz * rate

        p0 = parent[LX + lane]
        p1 = parent[LY + lane]
        p2 = parent[LZ + lane]
        c0 = o1 * uz - o2 * uy
        c1 = o2 * ux - o0 * uz
        c2 = o0 * uy - o1 * ux
        l0 = c00 * p0 + c10 * p1 + c20 * p2 + ux * push + c0 * rate
        l1 = c01 * p0 + c11 * p1 + c21 * p2 + uy * push + c1 * rate
        l2 = c02 * p0 + c12 * p1 + c22 * p2 + uz * push + c2 * rate
        t0 = parent[SX + lane] + p1 * r2 - p2 * r1
        t1 = parent[SY + lane] + p2 * r0 - p0 * r2
        t2 = parent[SZ + lane] + p0 * r1 - p1 * r0
        c0 = o1 * wz - o2 * wy + v1 * uz - v2 * uy
        c1 = o2 * wx - o0 * wz + v2 * ux - v0 * uz
        c2 = o0 * wy - o1 * wx + v0 * uy - v1 * ux
        s0 = c00 * t0 + c10 * t1 + c20 * t2 + wx * push + c0 * rate
        s1 = c01 * t0 + c11 * t1 + c21 * t2 + wy * push + c1 * rate
        s2 = c02 * t0 + c12 * t1 + c22 * t2 + wz * push + c2 * rate

        link[OX + lane] = o0
        link[OY + lane] = o1
        link[OZ + lane] = o2
        link[VX + lane] = v0
        link[VY + lane] = v1
        link[VZ + lane] = v2
        link[LX + lane] = l0
        link[LY + lane] = l1
        link[LZ + lane] = l2
        link[SX + lane] = s0
        link[SY + lane] = s1
        link[SZ + lane] = s2
        link[AX + lane] = s0 + o1 * v2 - o2 * v1
        link[AY + lane] = s1 + o2 * v0 - o0 * v2
        link[AZ + lane] = s2 + o0 * v1 - o1 * v0


@inner_views
def weigh(link: FloatArray, parent: FloatArray, m: int) -> None:
    """Write gravity in the link's frame, and its work g·p on the link's origin."""
    for lane in range(m):
        g0 = parent[GX + lane]
        g1 = parent[GY + lane]
        g2 = parent[GZ + lane]
        link[GRAVITY_WORK + lane] = (
            parent[GRAVITY_WORK + lane] + g0 * link[PX + lane] + g1 * link[PY + lane] + g2 * link[PZ + lane]
        )
        link[GX + lane] = link[R00 + lane] * g0 + link[R10 + lane] * g1 + link[R20 + lane] * g2
        link[GY + lane] = link[R01 + lane] * g0 + link[R11 + lane] * g1 + link[R21 + lane] * g2
        link[GZ + lane] = link[R02 + lane] * g0 + link[R12 + lane] * g1 + link[R22 + lane] * g2


@inner_views
def carry_screw(screw: FloatArray, inherited: FloatArray, link: FloatArray, m: int) -> None:
    """Write a coordinate's screw at a link from its screw at the parent: u = Rᵀ u_p, w = Rᵀ (w_p + u_p × r)."""
    for lane in range(m):
        u0 = inherited[UX + lane]
        u1 = inherited[UY + lane]
        u2 = inherited[UZ + lane]
        r0 = link[PX + lane]
        r1 = link[PY + lane]
        r2 = link[PZ + lane]
        t0 = inherited[WX + lane] + u1 * r2 - u2 * r1
        t1 = inherited[WY + lane] + u2 * r0 - u0 * r2
        t2 = inherited[WZ + lane] + u0 * r1 - u1 * r0
        c00 = link[R00 + lane]
        c01 = link[R01 + lane]
        c02 = link[R02 + lane]
        c10 = link[R10 + lane]
        c11 = link[R11 + lane]
        c12 = link[R12 + lane]
        c20 = link[R20 + lane]
        c21 = link[R21 + lane]
        c22 = link[R22 + lane]
        screw[UX + lane] = c00 * u0 + c10 * u1 + c20 * u2
        screw[UY + lane] = c01 * u0 + c11 * u1 + c21 * u2
        screw[UZ + lane] = c02 * u0 + c12 * u1 + c22 * u2
        screw[WX + lane] = c00 * t0 + c10 * t1 + c20 * t2
        screw[WY + lane] = c01 * t0 + c11 * t1 + c21 * t2
        screw[WZ + lane] = c02 * t0 + c12 * t1 + c22 * t2


@inner_views
def start_screw(screw: FloatArray, constants: FloatArray, share: float, m: int) -> None:
    """Write the link's own joint screw, as far as the coordinate drives that joint."""
    for k in range(6):
        own = share * constants[39 + k]
        for lane in range(m):
            screw[k * LANES + lane] = own


@inner_views
def add_joint_screw(screw: FloatArray, constants: FloatArray, share: float, m: int) -> None:
    """Add the link's own joint screw, as far as the coordinate drives that joint."""
    for k in range(6):
        own = share * constants[39 + k]
        for lane in range(m):
            screw[k * LANES + lane] += own


@inner_views
def drive_joint(link: FloatArray, coupling: FloatArray, offset: float, motion: Any, first: int, m: int) -> None:
    """Write a joint's angle, velocity and acceleration: θ = coupling · q + offset."""
    for lane in range(m):
        link[ANGLE + lane] = offset
        link[RATE + lane] = 0.0
        link[JOINT_ACCELERATION + lane] = 0.0
    for i in range(coupling.size):
        if coupling[i] != 0.0:
            add_scaled(link[ANGLE : ANGLE + m], coupling[i], motion[0][i, first : first + m])
            add_scaled(link[RATE : RATE + m], coupling[i], motion[1][i, first : first + m])
            add_scaled(link[JOINT_ACCELERATION : JOINT_ACCELERATION + m], coupling[i], motion[2][i, first : first + m])


@inner_views
def add_scaled(target: FloatArray, factor: float, x: FloatArray) -> None:
    """Add factor · x."""
    for k in range(x.size):
        target[k] += factor * x[k]


@inner_views
def set_scaled(target: FloatArray, factor: float, x: FloatArray) -> None:
    """Write factor · x."""
    for k in range(x.size):
        target[k] = factor * x[k]


@inner_views
def recursion(chain: Chain, motion: Any, first: int, m: int, links: FloatArray, screws: FloatArray) -> None:
    """Run a block of m samples through the tree: every link's motion and every coordinate's screws.

    `motion` is (q, dq, ddq), each (n_joints, n_samples); row 0 of `links` is the base.
    """
    for j in range(chain.parents.size):
        link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
        parent_row = chain.parents[j] + 1
        parent = links[parent_row * LINK_ROWS : (parent_row + 1) * LINK_ROWS]
        constants = chain.constants[j]
        drive_joint(link, chain.coupling[j], chain.offset[j], motion, first, m)
        sine_cosine(link, m)
        place(link, constants, m)
        move(link, parent, constants, m)
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


@inner_views
def start_at_base(chain: Chain, links: FloatArray) -> None:
    """Write what is the same for all samples: constant parts of R and r, and the base.

    The base is at rest and accelerates by -gravity, so that weight needs no term of its own.
    """
    links[:LINK_ROWS] = 0.0
    for k in range(3):
        for lane in range(LANES):
            links[SX + k * LANES + lane] = -chain.gravity[k]
            links[AX + k * LANES + lane] = -chain.gravity[k]
            links[GX + k * LANES + lane] = chain.gravity[k]
    for j in range(chain.parents.size):
        link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
        for lane in range(LANES):
            for k in range(9):
                link[R00 + k * LANES + lane] = chain.constants[j, k]
            for k in range(3):
                link[PX + k * LANES + lane] = chain.constants[j, 27 + k]
