"""Regressor columns of one link: the ten columns of torque, energy and power."""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.compile import (
    AX,
    AY,
    AZ,
    GRAVITY_WORK,
    GX,
    GY,
    GZ,
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
    inner_views,
)
from excitor.robots.kernel.recursion import recursion, start_at_base, weigh

# Order of a link's parameters: XX XY XZ YY YZ ZZ MX MY MZ M (`parameters.LINK_COMPONENTS`).
XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = (k * PITCH for k in range(10))
BLOCK_ROWS = 10 * PITCH


@inner
def torque_columns(block: FloatArray, screw: FloatArray, link: FloatArray, m: int) -> None:
    """Project a link's wrench on a screw, parameter by parameter.

    force = m a + H ms,  moment = J α + ω × J ω + ms × a,  column = u · moment + w · force,  H = S(α) + S(ω)²: the
    coefficients of the inertia in the moment are sums of two of H's entries, or one of them.
    """
    for lane in range(m):
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
        p01 = o0 * o1
        p02 = o0 * o2
        p12 = o1 * o2
        s0 = o0 * o0
        s1 = o1 * o1
        s2 = o2 * o2
        h01 = p01 - l2
        h10 = p01 + l2
        h02 = p02 + l1
        h20 = p02 - l1
        h12 = p12 - l0
        h21 = p12 + l0
        block[XX + lane] = u0 * l0 + u1 * p02 - u2 * p01
        block[XY + lane] = u1 * h21 - u0 * h20 + u2 * (s0 - s1)
        block[XZ + lane] = u0 * h10 - u2 * h12 + u1 * (s2 - s0)
        block[YY + lane] = u1 * l1 + u2 * p01 - u0 * p12
        block[YZ + lane] = u2 * h02 - u1 * h01 + u0 * (s1 - s2)
        block[ZZ + lane] = u2 * l2 + u0 * p12 - u1 * p02
        block[MX + lane] = w1 * h10 + w2 * h20 - w0 * (s1 + s2) + a1 * u2 - a2 * u1
        block[MY + lane] = w0 * h01 + w2 * h21 - w1 * (s0 + s2) + a2 * u0 - a0 * u2
        block[MZ + lane] = w0 * h02 + w1 * h12 - w2 * (s0 + s1) + a0 * u1 - a1 * u0
        block[M + lane] = w0 * a0 + w1 * a1 + w2 * a2


@inner
def energy_columns(block: FloatArray, link: FloatArray, m: int) -> None:
    """Kinetic and potential energy of a link: ω·Jω/2 + m v²/2 + ms·(v × ω) - g·(m p + R ms)."""
    for lane in range(m):
        o0 = link[OX + lane]
        o1 = link[OY + lane]
        o2 = link[OZ + lane]
        v0 = link[VX + lane]
        v1 = link[VY + lane]
        v2 = link[VZ + lane]
        block[XX + lane] = 0.5 * o0 * o0
        block[XY + lane] = o0 * o1
        block[XZ + lane] = o0 * o2
        block[YY + lane] = 0.5 * o1 * o1
        block[YZ + lane] = o1 * o2
        block[ZZ + lane] = 0.5 * o2 * o2
        block[MX + lane] = v1 * o2 - v2 * o1 - link[GX + lane]
        block[MY + lane] = v2 * o0 - v0 * o2 - link[GY + lane]
        block[MZ + lane] = v0 * o1 - v1 * o0 - link[GZ + lane]
        block[M + lane] = 0.5 * (v0 * v0 + v1 * v1 + v2 * v2) - link[GRAVITY_WORK + lane]


@inner
def power_columns(block: FloatArray, link: FloatArray, m: int) -> None:
    """Time derivative of the energy: ω·Jα + m v·s + ms·(s × ω + v × α), s the spatial acceleration less gravity."""
    for lane in range(m):
        o0 = link[OX + lane]
        o1 = link[OY + lane]
        o2 = link[OZ + lane]
        v0 = link[VX + lane]
        v1 = link[VY + lane]
        v2 = link[VZ + lane]
        l0 = link[LX + lane]
        l1 = link[LY + lane]
        l2 = link[LZ + lane]
        s0 = link[SX + lane]
        s1 = link[SY + lane]
        s2 = link[SZ + lane]
        block[XX + lane] = o0 * l0
        block[XY + lane] = o0 * l1 + o1 * l0
        block[XZ + lane] = o0 * l2 + o2 * l0
        block[YY + lane] = o1 * l1
        block[YZ + lane] = o1 * l2 + o2 * l1
        block[ZZ + lane] = o2 * l2
        block[MX + lane] = s1 * o2 - s2 * o1 + v1 * l2 - v2 * l1
        block[MY + lane] = s2 * o0 - s0 * o2 + v2 * l0 - v0 * l2
        block[MZ + lane] = s0 * o1 - s1 * o0 + v0 * l1 - v1 * l0
        block[M + lane] = v0 * s0 + v1 * s1 + v2 * s2


@inner
def copy_row(target: FloatArray, row: FloatArray) -> None:
    """Copy as many lanes as the target takes."""
    for lane in range(target.size):
        target[lane] = row[lane]


@inner
def clear(row: FloatArray) -> None:
    """Fill a row with 0."""
    for k in range(row.size):
        row[k] = 0.0


@compiled
def fill_regressor(chain: Chain, motion: Any, out: FloatArray) -> None:
    """Write the dynamic regressor of all links into out (10 n_links, n_joints, at least n_samples)."""
    n_links, n_joints = chain.coupling.shape
    n_samples = motion[0].shape[1]
    links = np.empty((n_links + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    block = np.empty(BLOCK_ROWS)
    start_at_base(chain, links)
    for j in range(n_links):
        for i in range(n_joints):
            if not chain.supports[j, i]:
                for k in range(10):
                    clear(out[10 * j + k, i])
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        recursion(chain, motion, first, m, links, screws)
        for j in range(n_links):
            link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
            for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
                torque_columns(block, screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS], link, m)
                i = chain.pair_joint[pair]
                for k in range(10):
                    copy_row(out[10 * j + k, i, first : first + m], block[k * PITCH : (k + 1) * PITCH])


@compiled
def fill_energy(chain: Chain, motion: Any, derivative: bool, out: FloatArray) -> None:
    """Write the energy regressor, or its time derivative, into out (10 n_links, n_samples)."""
    n_links = chain.coupling.shape[0]
    n_samples = out.shape[1]
    links = np.empty((n_links + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    block = np.empty(BLOCK_ROWS)
    start_at_base(chain, links)
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        recursion(chain, motion, first, m, links, screws)
        for j in range(n_links):
            link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
            if derivative:
                power_columns(block, link, m)
            else:
                weigh_link(chain, links, j, m)
                energy_columns(block, link, m)
            for k in range(10):
                copy_row(out[10 * j + k, first : first + m], block[k * PITCH : (k + 1) * PITCH])


@inner
def weigh_link(chain: Chain, links: FloatArray, j: int, m: int) -> None:
    """Write gravity and its work into link j's rows."""
    parent_row = chain.parents[j] + 1
    weigh(
        links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS],
        links[parent_row * LINK_ROWS : (parent_row + 1) * LINK_ROWS],
        m,
    )


@compiled
def fill_torque_and_mass(chain: Chain, motion: Any, phi: FloatArray, torque: FloatArray, mass: FloatArray) -> None:
    """Write joint torques (n_samples, n_joints) and mass matrices (n_samples, n_joints, n_joints).

    `phi` are link parameters (n_links, 10). M_ik = Σ_links screw_iᵀ I screw_k. An output without samples is left out.
    """
    n_links = chain.coupling.shape[0]
    n_samples = motion[0].shape[1]
    links = np.empty((n_links + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    wrench = np.empty(6 * LANES)
    start_at_base(chain, links)
    torque[:, :] = 0.0
    mass[:, :, :] = 0.0
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        recursion(chain, motion, first, m, links, screws)
        for j in range(n_links):
            if torque.size > 0:
                link_wrench(wrench, links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS], phi[j], m)
                for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
                    add_powers(screws[pair * SCREW_ROWS :], wrench, torque[first:, chain.pair_joint[pair]], m)
            if mass.size > 0:
                for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
                    screw_momentum(wrench, screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS], phi[j], m)
                    k = chain.pair_joint[pair]
                    for other in range(chain.pair_start[j], chain.pair_start[j + 1]):
                        add_powers(screws[other * SCREW_ROWS :], wrench, mass[first:, chain.pair_joint[other], k], m)


@inner_views
def add_powers(screw: FloatArray, wrench: FloatArray, out: FloatArray, m: int) -> None:
    """Add the power of a wrench, or the momentum, along a screw."""
    for lane in range(m):
        power = 0.0
        for k in range(6):
            power += screw[k * LANES + lane] * wrench[k * LANES + lane]
        out[lane] += power


@inner_views
def link_wrench(wrench: FloatArray, link: FloatArray, phi: FloatArray, m: int) -> None:
    """Write the moment about a link's origin and the force that its motion needs."""
    xx, xy, xz, yy, yz, zz = phi[0], phi[1], phi[2], phi[3], phi[4], phi[5]
    h0, h1, h2, mass = phi[6], phi[7], phi[8], phi[9]
    for lane in range(m):
        o0 = link[OX + lane]
        o1 = link[OY + lane]
        o2 = link[OZ + lane]
        l0 = link[LX + lane]
        l1 = link[LY + lane]
        l2 = link[LZ + lane]
        a0 = link[AX + lane]
        a1 = link[AY + lane]
        a2 = link[AZ + lane]
        s0 = xx * o0 + xy * o1 + xz * o2
        s1 = xy * o0 + yy * o1 + yz * o2
        s2 = xz * o0 + yz * o1 + zz * o2
        wrench[lane] = xx * l0 + xy * l1 + xz * l2 + o1 * s2 - o2 * s1 + h1 * a2 - h2 * a1
        wrench[ROW1 + lane] = xy * l0 + yy * l1 + yz * l2 + o2 * s0 - o0 * s2 + h2 * a0 - h0 * a2
        wrench[ROW2 + lane] = xz * l0 + yz * l1 + zz * l2 + o0 * s1 - o1 * s0 + h0 * a1 - h1 * a0
        along = o0 * h0 + o1 * h1 + o2 * h2
        square = o0 * o0 + o1 * o1 + o2 * o2
        wrench[ROW3 + lane] = mass * a0 + l1 * h2 - l2 * h1 + o0 * along - square * h0
        wrench[ROW4 + lane] = mass * a1 + l2 * h0 - l0 * h2 + o1 * along - square * h1
        wrench[ROW5 + lane] = mass * a2 + l0 * h1 - l1 * h0 + o2 * along - square * h2


@inner_views
def screw_momentum(momentum: FloatArray, screw: FloatArray, phi: FloatArray, m: int) -> None:
    """Write the angular and linear momentum of a link that moves along a screw."""
    for lane in range(m):
        u0 = screw[UX + lane]
        u1 = screw[UY + lane]
        u2 = screw[UZ + lane]
        w0 = screw[WX + lane]
        w1 = screw[WY + lane]
        w2 = screw[WZ + lane]
        h0, h1, h2 = phi[6], phi[7], phi[8]
        momentum[lane] = phi[0] * u0 + phi[1] * u1 + phi[2] * u2 + h1 * w2 - h2 * w1
        momentum[ROW1 + lane] = phi[1] * u0 + phi[3] * u1 + phi[4] * u2 + h2 * w0 - h0 * w2
        momentum[ROW2 + lane] = phi[2] * u0 + phi[4] * u1 + phi[5] * u2 + h0 * w1 - h1 * w0
        momentum[ROW3 + lane] = phi[9] * w0 + u1 * h2 - u2 * h1
        momentum[ROW4 + lane] = phi[9] * w1 + u2 * h0 - u0 * h2
        momentum[ROW5 + lane] = phi[9] * w2 + u0 * h1 - u1 * h0


@compiled
def fill_frames(chain: Chain, motion: Any, poses: FloatArray, screws: FloatArray) -> None:
    """Write T_base_link of every link (n_samples, n_links, 4, 4), and screws (n_samples, n_links, 6, n_joints).

    A coordinate's screw at a link is in the link's frame. Screws without samples are left out.
    """
    n_links = chain.coupling.shape[0]
    n_samples = poses.shape[0]
    links = np.empty((n_links + 1) * LINK_ROWS)
    rows = np.empty(chain.pair_joint.size * SCREW_ROWS)
    start_at_base(chain, links)
    screws[:, :, :, :] = 0.0
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        recursion(chain, motion, first, m, links, rows)
        for j in range(n_links):
            link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
            parent = chain.parents[j]
            for lane in range(m):
                T = poses[first + lane, j]
                for k in range(3):
                    for c in range(3):
                        T[k, c] = link[(3 * k + c) * LANES + lane]
                    T[k, 3] = link[PX + k * LANES + lane]
                    T[3, k] = 0.0
                T[3, 3] = 1.0
                if parent >= 0:
                    compose(poses[first + lane, parent], T)
            if screws.size > 0:
                for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
                    for lane in range(m):
                        for k in range(6):
                            at = pair * SCREW_ROWS + k * LANES + lane
                            screws[first + lane, j, k, chain.pair_joint[pair]] = rows[at]


@inner
def compose(T_base_parent: FloatArray, T: FloatArray) -> None:
    """Replace T_parent_link by T_base_link."""
    for c in range(4):
        x, y, z, one = T[0, c], T[1, c], T[2, c], T[3, c]
        for k in range(3):
            T[k, c] = (
                T_base_parent[k, 0] * x + T_base_parent[k, 1] * y + T_base_parent[k, 2] * z + T_base_parent[k, 3] * one
            )
