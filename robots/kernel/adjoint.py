"""The gradient of a function of the Gram matrix by the motion, by reverse-mode differentiation of the recursion.

Each step of the recursion is reversed link by link: adjoints of its results are propagated to its arguments.
"""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.accumulate import TILE, ColumnPacking, Drive, fill_drive_rows, fill_link_rows
from excitor.robots.kernel.columns import BLOCK_ROWS, MX, MY, MZ, XX, XY, XZ, YY, YZ, ZZ, M
from excitor.robots.kernel.compile import (
    ANGLE,
    AX,
    AY,
    AZ,
    JOINT_ACCELERATION,
    LANES,
    LINK_ROWS,
    LX,
    LY,
    LZ,
    OX,
    OY,
    OZ,
    PITCH,
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
    ROW1,
    ROW2,
    SCREW_ROWS,
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
    compiled,
    inner,
)
from excitor.robots.kernel.drive import LOAD, carried_load, element_slopes, signal
from excitor.robots.kernel.recursion import recursion, start_at_base


@compiled
def fill_gram_gradient(
    chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, gram_bar: FloatArray, out: Any
) -> None:
    """Write ∂J/∂q, ∂J/∂dq, ∂J/∂ddq into the three arrays of out, for symmetric gram_bar = ∂J/∂G.

    The arrays are (n_joints, n_samples), like the motion's.
    """
    n_links = chain.parents.size
    n_samples = motion[0].shape[1]
    links = np.empty((n_links + 1) * LINK_ROWS)
    links_b = np.empty((n_links + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    screws_b = np.empty(chain.pair_joint.size * SCREW_ROWS)
    rows = np.zeros(packing.n_rows * PITCH)
    rows_b = np.zeros(packing.n_rows * PITCH)
    start_at_base(chain, links)
    for array in out:
        array[:, :] = 0.0
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        recursion(chain, motion, first, m, links, screws)
        fill_link_rows(chain, links, screws, rows, m)
        fill_drive_rows(drive, packing, motion, first, rows, m)
        differentiate_rows(packing, gram_bar, rows, rows_b, m)
        links_b[:] = 0.0
        screws_b[:] = 0.0
        for j in range(n_links - 1, -1, -1):
            reverse_link(chain, j, links, links_b, screws, screws_b, rows_b, m)
            add_to_coordinates(chain, j, links_b, first, m, out)
        reverse_drive(drive, packing, motion, first, rows_b, m, out)


@inner
def differentiate_rows(
    packing: ColumnPacking, gram_bar: FloatArray, rows: FloatArray, rows_b: FloatArray, m: int
) -> None:
    """Write ∂J/∂Y = 2 weight² Ḡ Y, joint by joint; rows that hold no selected column stay 0."""
    for i in range(packing.weights.size):
        factor = 2.0 * packing.weights[i] ** 2
        for a in range(packing.start[i], packing.start[i + 1]):
            if packing.column[a] < 0:
                continue
            target = rows_b[packing.row[a] * PITCH : packing.row[a] * PITCH + m]
            for lane in range(m):
                target[lane] = 0.0
            for b in range(packing.start[i], packing.start[i + 1], TILE):
                f0 = factor * entry(packing, gram_bar, a, b)
                f1 = factor * entry(packing, gram_bar, a, b + 1)
                f2 = factor * entry(packing, gram_bar, a, b + 2)
                f3 = factor * entry(packing, gram_bar, a, b + 3)
                r0 = rows[packing.row[b] * PITCH : packing.row[b] * PITCH + m]
                r1 = rows[packing.row[b + 1] * PITCH : packing.row[b + 1] * PITCH + m]
                r2 = rows[packing.row[b + 2] * PITCH : packing.row[b + 2] * PITCH + m]
                r3 = rows[packing.row[b + 3] * PITCH : packing.row[b + 3] * PITCH + m]
                for lane in range(m):
                    target[lane] += f0 * r0[lane] + f1 * r1[lane] + f2 * r2[lane] + f3 * r3[lane]


@inner
def entry(packing: ColumnPacking, gram_bar: FloatArray, a: int, b: int) -> float:
    """Read Ḡ by list entries; zeros have none."""
    column = packing.column[b]
    return gram_bar[packing.column[a], column] if column >= 0 else 0.0


@inner
def reverse_link(
    chain: Chain,
    j: int,
    links: FloatArray,
    links_b: FloatArray,
    screws: FloatArray,
    screws_b: FloatArray,
    rows_b: FloatArray,
    m: int,
) -> None:
    """Run link j's part of the recursion backwards."""
    link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
    link_b = links_b[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
    parent_row = chain.parents[j] + 1
    parent = links[parent_row * LINK_ROWS : (parent_row + 1) * LINK_ROWS]
    parent_b = links_b[parent_row * LINK_ROWS : (parent_row + 1) * LINK_ROWS]
    for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
        screw = screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS]
        screw_b = screws_b[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS]
        reverse_torque_columns(rows_b[pair * BLOCK_ROWS : (pair + 1) * BLOCK_ROWS], screw, screw_b, link, link_b, m)
        above = chain.pair_above[pair]
        if above >= 0:
            reverse_carry_screw(
                screw_b,
                screws[above * SCREW_ROWS : (above + 1) * SCREW_ROWS],
                screws_b[above * SCREW_ROWS : (above + 1) * SCREW_ROWS],
                link,
                link_b,
                m,
            )
    reverse_move(link, link_b, parent, parent_b, chain.constants[j], m)


@inner
def add_to_coordinates(chain: Chain, j: int, links_b: FloatArray, first: int, m: int, out: Any) -> None:
    """Add a joint's derivatives to the coordinates that drive it."""
    link_b = links_b[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
    q_b, dq_b, ddq_b = out
    for i in range(chain.coupling.shape[1]):
        share = chain.coupling[j, i]
        if share != 0.0:
            for lane in range(m):
                q_b[i, first + lane] += share * link_b[ANGLE + lane]
                dq_b[i, first + lane] += share * link_b[RATE + lane]
                ddq_b[i, first + lane] += share * link_b[JOINT_ACCELERATION + lane]


@inner
def reverse_drive(
    drive: Drive, packing: ColumnPacking, motion: Any, first: int, rows_b: FloatArray, m: int, out: Any
) -> None:
    """Add the adjoints of drive elements; loads and slip states count as constant."""
    n_elements, n_joints = drive.elements.acts.shape
    slopes = np.empty(m)
    q_b, dq_b, ddq_b = out
    for e in range(n_elements):
        element_slopes(drive.elements, e, motion, first, slopes)
        kind = signal(drive.elements, e)
        target = q_b if kind == 0 else (dq_b if kind == 1 else ddq_b)
        for i in range(n_joints):
            row = packing.drive_row[e, i]
            if row < 0:
                continue
            for lane in range(m):
                push = drive.elements.acts[e, i] * rows_b[row * PITCH + lane] * slopes[lane]
                if drive.elements.model[e] == LOAD:
                    push *= carried_load(drive.elements, e, drive.load[first + lane])
                for k in range(n_joints):
                    target[k, first + lane] += drive.elements.senses[e, k] * push


TX, TY, TZ = R00, R01, R02  # the derivatives of R need no rows of their own: c stands there


@inner
def reverse_torque_columns(
    block_b: FloatArray, screw: FloatArray, screw_b: FloatArray, link: FloatArray, link_b: FloatArray, m: int
) -> None:
    """Reverse `columns.torque_columns`: K is the inertia block_b would be, h its first moments, f its mass.

    J = u·Kα + (u × ω)·Kω + h·(w × α + ω (ω·w) - |ω|² w + a × u) + f w·a.
    """
    for lane in range(m):
        xx = block_b[XX + lane]
        xy = block_b[XY + lane]
        xz = block_b[XZ + lane]
        yy = block_b[YY + lane]
        yz = block_b[YZ + lane]
        zz = block_b[ZZ + lane]
        h0 = block_b[MX + lane]
        h1 = block_b[MY + lane]
        h2 = block_b[MZ + lane]
        f = block_b[M + lane]
        u0 = screw[UX + lane]
        u1 = screw[UY + lane]
        u2 = screw[UZ + lane]
        w0 = screw[WX + lane]
        w1 = screw[WY + lane]
        w2 = screw[WZ + lane]
        o0 = link[OX + lane]
        o1 = link[OY + lane]
        o2 = link[OZ + lane]
        l0 = link[LX + lane]
        l1 = link[LY + lane]
        l2 = link[LZ + lane]
        a0 = link[AX + lane]
        a1 = link[AY + lane]
        a2 = link[AZ + lane]
        b0 = u1 * o2 - u2 * o1
        b1 = u2 * o0 - u0 * o2
        b2 = u0 * o1 - u1 * o0
        ko0 = xx * o0 + xy * o1 + xz * o2
        ko1 = xy * o0 + yy * o1 + yz * o2
        ko2 = xz * o0 + yz * o1 + zz * o2
        oh = o0 * h0 + o1 * h1 + o2 * h2
        ow = o0 * w0 + o1 * w1 + o2 * w2
        oo = o0 * o0 + o1 * o1 + o2 * o2
        wh = w0 * h0 + w1 * h1 + w2 * h2

        screw_b[UX + lane] += xx * l0 + xy * l1 + xz * l2 + o1 * ko2 - o2 * ko1 + h1 * a2 - h2 * a1
        screw_b[UY + lane] += xy * l0 + yy * l1 + yz * l2 + o2 * ko0 - o0 * ko2 + h2 * a0 - h0 * a2
        screw_b[UZ + lane] += xz * l0 + yz * l1 + zz * l2 + o0 * ko1 - o1 * ko0 + h0 * a1 - h1 * a0
        screw_b[WX + lane] += f * a0 + l1 * h2 - l2 * h1 + o0 * oh - oo * h0
        screw_b[WY + lane] += f * a1 + l2 * h0 - l0 * h2 + o1 * oh - oo * h1
        screw_b[WZ + lane] += f * a2 + l0 * h1 - l1 * h0 + o2 * oh - oo * h2

        link_b[LX + lane] += xx * u0 + xy * u1 + xz * u2 + h1 * w2 - h2 * w1
        link_b[LY + lane] += xy * u0 + yy * u1 + yz * u2 + h2 * w0 - h0 * w2
        link_b[LZ + lane] += xz * u0 + yz * u1 + zz * u2 + h0 * w1 - h1 * w0
        link_b[AX + lane] += f * w0 + u1 * h2 - u2 * h1
        link_b[AY + lane] += f * w1 + u2 * h0 - u0 * h2
        link_b[AZ + lane] += f * w2 + u0 * h1 - u1 * h0
        link_b[OX + lane] += xx * b0 + xy * b1 + xz * b2 + ko1 * u2 - ko2 * u1 + w0 * oh + h0 * ow - 2.0 * o0 * wh
        link_b[OY + lane] += xy * b0 + yy * b1 + yz * b2 + ko2 * u0 - ko0 * u2 + w1 * oh + h1 * ow - 2.0 * o1 * wh
        link_b[OZ + lane] += xz * b0 + yz * b1 + zz * b2 + ko0 * u1 - ko1 * u0 + w2 * oh + h2 * ow - 2.0 * o2 * wh


@inner
def reverse_carry_screw(
    screw_b: FloatArray, inherited: FloatArray, inherited_b: FloatArray, link: FloatArray, link_b: FloatArray, m: int
) -> None:
    """Reverse `recursion.carry_screw`: u = Rᵀ u_p, w = Rᵀ (w_p + u_p × r)."""
    turn_back(screw_b[UX:], inherited[UX:], inherited_b[UX:], link, link_b, m)
    turn_back_moment(screw_b[WX:], inherited[WX:], inherited_b[WX:], inherited[UX:], inherited_b[UX:], link, link_b, m)


@inner
def reverse_move(
    link: FloatArray, link_b: FloatArray, parent: FloatArray, parent_b: FloatArray, constants: FloatArray, m: int
) -> None:
    """Reverse `recursion.move`, then `place`: from acceleration down to velocity, then the joint's own angle."""
    reverse_rates(link, link_b, constants, m)
    turn_back_moment(link_b[SX:], parent[SX:], parent_b[SX:], parent[LX:], parent_b[LX:], link, link_b, m)
    turn_back(link_b[LX:], parent[LX:], parent_b[LX:], link, link_b, m)
    turn_back_moment(link_b[VX:], parent[VX:], parent_b[VX:], parent[OX:], parent_b[OX:], link, link_b, m)
    turn_back(link_b[OX:], parent[OX:], parent_b[OX:], link, link_b, m)
    ux, uy, uz = constants[39], constants[40], constants[41]
    wx, wy, wz = constants[42], constants[43], constants[44]
    for lane in range(m):
        t0 = link_b[PX + lane]
        t1 = link_b[PY + lane]
        t2 = link_b[PZ + lane]
        along = ux * link_b[TX + lane] + uy * link_b[TY + lane] + uz * link_b[TZ + lane]
        along += wx * (link[R00 + lane] * t0 + link[R10 + lane] * t1 + link[R20 + lane] * t2)
        along += wy * (link[R01 + lane] * t0 + link[R11 + lane] * t1 + link[R21 + lane] * t2)
        along += wz * (link[R02 + lane] * t0 + link[R12 + lane] * t1 + link[R22 + lane] * t2)
        link_b[ANGLE + lane] = along


@inner
def reverse_rates(link: FloatArray, link_b: FloatArray, constants: FloatArray, m: int) -> None:
    """Reverse the terms of `recursion.move` in θ̇ and θ̈, and a = s + ω × v."""
    ux, uy, uz = constants[39], constants[40], constants[41]
    wx, wy, wz = constants[42], constants[43], constants[44]
    for lane in range(m):
        rate = link[RATE + lane]
        o0 = link[OX + lane]
        o1 = link[OY + lane]
        o2 = link[OZ + lane]
        v0 = link[VX + lane]
        v1 = link[VY + lane]
        v2 = link[VZ + lane]
        a0 = link_b[AX + lane]
        a1 = link_b[AY + lane]
        a2 = link_b[AZ + lane]
        s0 = link_b[SX + lane] + a0
        s1 = link_b[SY + lane] + a1
        s2 = link_b[SZ + lane] + a2
        l0 = link_b[LX + lane]
        l1 = link_b[LY + lane]
        l2 = link_b[LZ + lane]
        link_b[SX + lane] = s0
        link_b[SY + lane] = s1
        link_b[SZ + lane] = s2

        vb0 = link_b[VX + lane] + a1 * o2 - a2 * o1 + rate * (uy * s2 - uz * s1)
        vb1 = link_b[VY + lane] + a2 * o0 - a0 * o2 + rate * (uz * s0 - ux * s2)
        vb2 = link_b[VZ + lane] + a0 * o1 - a1 * o0 + rate * (ux * s1 - uy * s0)
        ob0 = link_b[OX + lane] + v1 * a2 - v2 * a1 + rate * (wy * s2 - wz * s1 + uy * l2 - uz * l1)
        ob1 = link_b[OY + lane] + v2 * a0 - v0 * a2 + rate * (wz * s0 - wx * s2 + uz * l0 - ux * l2)
        ob2 = link_b[OZ + lane] + v0 * a1 - v1 * a0 + rate * (wx * s1 - wy * s0 + ux * l1 - uy * l0)
        link_b[VX + lane] = vb0
        link_b[VY + lane] = vb1
        link_b[VZ + lane] = vb2
        link_b[OX + lane] = ob0
        link_b[OY + lane] = ob1
        link_b[OZ + lane] = ob2

        link_b[JOINT_ACCELERATION + lane] = wx * s0 + wy * s1 + wz * s2 + ux * l0 + uy * l1 + uz * l2
        link_b[RATE + lane] = (
            s0 * (o1 * wz - o2 * wy + v1 * uz - v2 * uy)
            + s1 * (o2 * wx - o0 * wz + v2 * ux - v0 * uz)
            + s2 * (o0 * wy - o1 * wx + v0 * uy - v1 * ux)
            + l0 * (o1 * uz - o2 * uy)
            + l1 * (o2 * ux - o0 * uz)
            + l2 * (o0 * uy - o1 * ux)
            + wx * vb0
            + wy * vb1
            + wz * vb2
            + ux * ob0
            + uy * ob1
            + uz * ob2
        )


@inner
def turn_back(yb: FloatArray, xs: FloatArray, xb: FloatArray, link: FloatArray, link_b: FloatArray, m: int) -> None:
    """Reverse y = Rᵀ x: x̄ += R ȳ, c += ȳ × y."""
    for lane in range(m):
        d0 = yb[lane]
        d1 = yb[ROW1 + lane]
        d2 = yb[ROW2 + lane]
        x0 = xs[lane]
        x1 = xs[ROW1 + lane]
        x2 = xs[ROW2 + lane]
        y0 = link[R00 + lane] * x0 + link[R10 + lane] * x1 + link[R20 + lane] * x2
        y1 = link[R01 + lane] * x0 + link[R11 + lane] * x1 + link[R21 + lane] * x2
        y2 = link[R02 + lane] * x0 + link[R12 + lane] * x1 + link[R22 + lane] * x2
        link_b[TX + lane] += d1 * y2 - d2 * y1
        link_b[TY + lane] += d2 * y0 - d0 * y2
        link_b[TZ + lane] += d0 * y1 - d1 * y0
        xb[lane] += link[R00 + lane] * d0 + link[R01 + lane] * d1 + link[R02 + lane] * d2
        xb[ROW1 + lane] += link[R10 + lane] * d0 + link[R11 + lane] * d1 + link[R12 + lane] * d2
        xb[ROW2 + lane] += link[R20 + lane] * d0 + link[R21 + lane] * d1 + link[R22 + lane] * d2


@inner
def turn_back_moment(
    yb: FloatArray,
    xs: FloatArray,
    xb: FloatArray,
    zs: FloatArray,
    zb: FloatArray,
    link: FloatArray,
    link_b: FloatArray,
    m: int,
) -> None:
    """Reverse y = Rᵀ (x + z × r): x̄ += t, z̄ += r × t, r̄ += t × z with t = R ȳ; c += ȳ × y."""
    for lane in range(m):
        d0 = yb[lane]
        d1 = yb[ROW1 + lane]
        d2 = yb[ROW2 + lane]
        r0 = link[PX + lane]
        r1 = link[PY + lane]
        r2 = link[PZ + lane]
        z0 = zs[lane]
        z1 = zs[ROW1 + lane]
        z2 = zs[ROW2 + lane]
        x0 = xs[lane] + z1 * r2 - z2 * r1
        x1 = xs[ROW1 + lane] + z2 * r0 - z0 * r2
        x2 = xs[ROW2 + lane] + z0 * r1 - z1 * r0
        y0 = link[R00 + lane] * x0 + link[R10 + lane] * x1 + link[R20 + lane] * x2
        y1 = link[R01 + lane] * x0 + link[R11 + lane] * x1 + link[R21 + lane] * x2
        y2 = link[R02 + lane] * x0 + link[R12 + lane] * x1 + link[R22 + lane] * x2
        t0 = link[R00 + lane] * d0 + link[R01 + lane] * d1 + link[R02 + lane] * d2
        t1 = link[R10 + lane] * d0 + link[R11 + lane] * d1 + link[R12 + lane] * d2
        t2 = link[R20 + lane] * d0 + link[R21 + lane] * d1 + link[R22 + lane] * d2
        link_b[TX + lane] += d1 * y2 - d2 * y1
        link_b[TY + lane] += d2 * y0 - d0 * y2
        link_b[TZ + lane] += d0 * y1 - d1 * y0
        link_b[PX + lane] += t1 * z2 - t2 * z1
        link_b[PY + lane] += t2 * z0 - t0 * z2
        link_b[PZ + lane] += t0 * z1 - t1 * z0
        xb[lane] += t0
        xb[ROW1 + lane] += t1
        xb[ROW2 + lane] += t2
        zb[lane] += r1 * t2 - r2 * t1
        zb[ROW1 + lane] += r2 * t0 - r0 * t2
        zb[ROW2 + lane] += r0 * t1 - r1 * t0
