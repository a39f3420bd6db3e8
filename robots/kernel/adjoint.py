"""The gradient of a function of the Gram matrix by the motion, by reverse-mode differentiation of the recursion.

Each step of the recursion is reversed link by link: adjoints of its results are propagated to its arguments.
"""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.accumulate import TILE, ColumnPacking, Drive, Tape, equal_part, new_tape, record_gram
from excitor.robots.kernel.columns import BLOCK_ROWS, MX, MY, MZ, XX, XY, XZ, YY, YZ, ZZ, M, clear, copy_row
from excitor.robots.kernel.compile import (
    ANGLE,
    AX,
    AY,
    AZ,
    CHUNK,
    GX,
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
    ROW3,
    ROW4,
    ROW5,
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
from excitor.robots.kernel.drive import LOAD, carried_load, element_slopes, flat, signal
from excitor.robots.kernel.recursion import add_scaled


def fill_gram_gradient(
    chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, gram_bar: FloatArray, out: Any
) -> None:
    """Write ∂J/∂q, ∂J/∂dq, ∂J/∂ddq into the three arrays of out, for symmetric gram_bar = ∂J/∂G.

    The arrays are (n_joints, n_samples), like the motion's. The work of all samples is kept meanwhile, about 5 kB each.
    """
    tape = new_tape(chain, packing, -(-motion[0].shape[1] // CHUNK))
    record_gram(chain, drive, packing, motion, tape, np.empty(gram_bar.shape))
    reverse_gram(chain, drive, packing, motion, tape, gram_bar, out)


@compiled
def reverse_gram(
    chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, tape: Tape, gram_bar: FloatArray, out: Any
) -> None:
    """Like `fill_gram_gradient`, from the tape of `record_gram`, which holds all chunks of the same motion."""
    n_links, n_samples = chain.parents.size, motion[0].shape[1]
    links_b = np.empty((n_links + 1) * LINK_ROWS)
    screws_b = np.empty(chain.pair_joint.size * SCREW_ROWS)
    rows_b = np.zeros(packing.n_rows * PITCH)
    work, shares = np.empty(12 * LANES), packed_shares(packing, gram_bar)
    for array in out:
        array[:, :] = 0.0
    chunk = equal_part(n_samples, CHUNK)
    for first in range(0, n_samples, chunk):
        size, place = min(chunk, n_samples - first), first // chunk
        part = equal_part(size, LANES)
        for offset in range(0, size, part):
            m, block = min(part, size - offset), offset // part
            links, screws = tape.links[place, block], tape.screws[place, block]
            differentiate_rows(packing, shares, tape.rows[place][offset:], rows_b, m)
            for start in range(0, links_b.size, LINK_ROWS):  # rows that sums go to
                clear(links_b[start : start + 3 * LANES])
                clear(links_b[start + PX : start + GX])
            screws_b[:] = 0.0
            for j in range(n_links - 1, -1, -1):
                reverse_link(chain, j, links, links_b, screws, screws_b, rows_b, work, m)
                add_to_coordinates(chain, j, links_b, first + offset, m, out)
            reverse_drive(drive, packing, motion, first + offset, rows_b, m, out)


@inner
def packed_shares(packing: ColumnPacking, gram_bar: FloatArray) -> FloatArray:
    """Write 2 weight² Ḡ as each joint's list of rows meets it, a joint's square after the other; zeros have none."""
    size = 0
    for i in range(packing.weights.size):
        size += (packing.start[i + 1] - packing.start[i]) ** 2
    shares = np.empty(size)
    k = 0
    for i in range(packing.weights.size):
        factor = 2.0 * packing.weights[i] ** 2
        for a in range(packing.start[i], packing.start[i + 1]):
            row = packing.column[a]
            for b in range(packing.start[i], packing.start[i + 1]):
                column = packing.column[b]
                shares[k] = factor * gram_bar[row, column] if row >= 0 and column >= 0 else 0.0
                k += 1
    return shares


@inner
def differentiate_rows(
    packing: ColumnPacking, shares: FloatArray, rows: FloatArray, rows_b: FloatArray, m: int
) -> None:
    """Write ∂J/∂Y = 2 weight² Ḡ Y, joint by joint; rows that hold no selected column stay 0."""
    sums = np.empty(TILE * LANES)
    first = 0
    for i in range(packing.weights.size):
        n = packing.start[i + 1] - packing.start[i]
        own = packing.row[packing.start[i] : packing.start[i + 1]]
        for a in range(0, n, TILE):
            sums[:] = 0.0
            for b in range(0, n, TILE):
                add_products(rows, own[b : b + TILE], shares[first + a * n + b :], n, sums, m)
            for k in range(TILE):
                copy_row(rows_b[own[a + k] * PITCH : own[a + k] * PITCH + m], sums[k * LANES :])
        first += n * n


@inner
def add_products(rows: FloatArray, own: IntArray, shares: FloatArray, n: int, sums: FloatArray, m: int) -> None:
    """Add a tile's shares of four rows to four sums."""
    r0 = rows[own[0] * PITCH : own[0] * PITCH + m]
    r1 = rows[own[1] * PITCH : own[1] * PITCH + m]
    r2 = rows[own[2] * PITCH : own[2] * PITCH + m]
    r3 = rows[own[3] * PITCH : own[3] * PITCH + m]
    a0, a1, a2, a3 = shares[0], shares[1], shares[2], shares[3]
    b0, b1, b2, b3 = shares[n], shares[n + 1], shares[n + 2], shares[n + 3]
    c0, c1, c2, c3 = shares[2 * n], shares[2 * n + 1], shares[2 * n + 2], shares[2 * n + 3]
    d0, d1, d2, d3 = shares[3 * n], shares[3 * n + 1], shares[3 * n + 2], shares[3 * n + 3]
    for lane in range(m):
        x0 = r0[lane]
        x1 = r1[lane]
        x2 = r2[lane]
        x3 = r3[lane]
        sums[lane] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
        sums[ROW1 + lane] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        sums[ROW2 + lane] += c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
        sums[ROW3 + lane] += d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3


@inner
def reverse_link(
    chain: Chain,
    j: int,
    links: FloatArray,
    links_b: FloatArray,
    screws: FloatArray,
    screws_b: FloatArray,
    rows_b: FloatArray,
    work: FloatArray,
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
            inherited = screws[above * SCREW_ROWS : (above + 1) * SCREW_ROWS]
            inherited_b = screws_b[above * SCREW_ROWS : (above + 1) * SCREW_ROWS]
            reverse_carry(screw_b, inherited, inherited_b, link, link_b, work, m)
    reverse_move(link, link_b, parent, parent_b, chain.constants[j], work, m)


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
    slopes, push = np.empty(m), np.empty(m)
    q_b, dq_b, ddq_b = out
    for e in range(n_elements):
        if flat(drive.elements.model[e], drive.elements.width[e]):
            continue
        element_slopes(drive.elements, e, motion, first, slopes)
        kind = signal(drive.elements.model[e])
        target = q_b if kind == 0 else (dq_b if kind == 1 else ddq_b)
        push[:] = 0.0
        for i in range(n_joints):
            if packing.drive_row[e, i] >= 0:
                start = packing.drive_row[e, i] * PITCH
                add_scaled(push, drive.elements.acts[e, i], rows_b[start : start + m])
        for lane in range(m):
            push[lane] *= slopes[lane]
        if drive.elements.model[e] == LOAD:
            for lane in range(m):
                push[lane] *= carried_load(drive.elements, e, drive.load[first + lane])
        for k in range(n_joints):
            if drive.elements.senses[e, k] != 0.0:
                add_scaled(target[k, first : first + m], drive.elements.senses[e, k], push)


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
def reverse_carry(
    yb: FloatArray, x: FloatArray, xb: FloatArray, link: FloatArray, link_b: FloatArray, work: FloatArray, m: int
) -> None:
    """Reverse (u, w) → (y, z) = (Rᵀ u, Rᵀ (w + u × r)), as `recursion.carry_screw` and `recursion.move` have it.

    With s = R ȳ and t = R z̄: ū += s + r × t, w̄ += t, r̄ += t × u, c += ȳ × y + z̄ × z. Results are written to `work`
    first: few arrays in a loop are what lets it run in vector lanes.
    """
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
        u0 = x[lane]
        u1 = x[ROW1 + lane]
        u2 = x[ROW2 + lane]
        w0 = x[ROW3 + lane] + u1 * r2 - u2 * r1
        w1 = x[ROW4 + lane] + u2 * r0 - u0 * r2
        w2 = x[ROW5 + lane] + u0 * r1 - u1 * r0
        d0 = yb[lane]
        d1 = yb[ROW1 + lane]
        d2 = yb[ROW2 + lane]
        e0 = yb[ROW3 + lane]
        e1 = yb[ROW4 + lane]
        e2 = yb[ROW5 + lane]
        y0 = c00 * u0 + c10 * u1 + c20 * u2
        y1 = c01 * u0 + c11 * u1 + c21 * u2
        y2 = c02 * u0 + c12 * u1 + c22 * u2
        z0 = c00 * w0 + c10 * w1 + c20 * w2
        z1 = c01 * w0 + c11 * w1 + c21 * w2
        z2 = c02 * w0 + c12 * w1 + c22 * w2
        t0 = c00 * e0 + c01 * e1 + c02 * e2
        t1 = c10 * e0 + c11 * e1 + c12 * e2
        t2 = c20 * e0 + c21 * e1 + c22 * e2
        work[lane] = c00 * d0 + c01 * d1 + c02 * d2 + r1 * t2 - r2 * t1
        work[ROW1 + lane] = c10 * d0 + c11 * d1 + c12 * d2 + r2 * t0 - r0 * t2
        work[ROW2 + lane] = c20 * d0 + c21 * d1 + c22 * d2 + r0 * t1 - r1 * t0
        work[ROW3 + lane] = t0
        work[ROW4 + lane] = t1
        work[ROW5 + lane] = t2
        work[6 * LANES + lane] = d1 * y2 - d2 * y1 + e1 * z2 - e2 * z1
        work[7 * LANES + lane] = d2 * y0 - d0 * y2 + e2 * z0 - e0 * z2
        work[8 * LANES + lane] = d0 * y1 - d1 * y0 + e0 * z1 - e1 * z0
        work[9 * LANES + lane] = t1 * u2 - t2 * u1
        work[10 * LANES + lane] = t2 * u0 - t0 * u2
        work[11 * LANES + lane] = t0 * u1 - t1 * u0
    add_rows(xb, work, 6, m)
    add_rows(link_b[TX:], work[6 * LANES :], 3, m)
    add_rows(link_b[PX:], work[9 * LANES :], 3, m)


@inner
def add_rows(target: FloatArray, rows: FloatArray, n_rows: int, m: int) -> None:
    """Add rows of a block."""
    for k in range(n_rows):
        for lane in range(m):
            target[k * LANES + lane] += rows[k * LANES + lane]


@inner
def reverse_move(
    link: FloatArray,
    link_b: FloatArray,
    parent: FloatArray,
    parent_b: FloatArray,
    constants: FloatArray,
    work: FloatArray,
    m: int,
) -> None:
    """Reverse `recursion.move`, then `place`: from acceleration down to velocity, then the joint's own angle."""
    reverse_rates(link, link_b, constants, m)
    reverse_carry(link_b[LX:], parent[LX:], parent_b[LX:], link, link_b, work, m)
    reverse_carry(link_b[OX:], parent[OX:], parent_b[OX:], link, link_b, work, m)
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
