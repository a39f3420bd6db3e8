"""A whole population of motions in one call: Gram matrices, largest torques, largest speeds of the tool."""

from typing import Any, NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.columns import clear, link_wrench
from excitor.robots.kernel.compile import (
    LANES,
    LINK_ROWS,
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
    ROW1,
    ROW2,
    ROW3,
    ROW4,
    ROW5,
    VX,
    VY,
    VZ,
    compiled,
    inner,
    inner_sums,
)
from excitor.robots.kernel.drive import Elements, element_values
from excitor.robots.kernel.gram import Drive, Packing, fill_gram
from excitor.robots.kernel.recursion import add_scaled, drive_joint, move, place, sine_cosine, start_at_base


class Efforts(NamedTuple):
    """Parameters of a robot, as torques need them: what is linear in the motion has been summed up by joints."""

    phi: FloatArray  # (n_links, 10)
    offset: FloatArray  # (n_joints,): constant torques
    damping: FloatArray  # (n_joints, n_joints): viscous friction
    inertia: FloatArray  # (n_joints, n_joints): rotors
    others: FloatArray  # (n_elements,): parameters of the other drive elements; 0 where counted above


WRENCH_ROWS = 6 * LANES  # moment about the link's origin, then force, in the link's frame


@compiled
def fill_grams(chain: Chain, drive: Drive, packing: Packing, motions: Any, out: FloatArray) -> None:
    """Write each candidate's Gram matrix into out (n_candidates, n_columns, n_columns).

    `motions` is (q, dq, ddq), each (n_candidates, n_joints, n_samples).
    """
    for b in range(out.shape[0]):
        fill_gram(chain, drive, packing, (motions[0][b], motions[1][b], motions[2][b]), out[b])


@compiled
def fill_torque_extremes(
    chain: Chain, elements: Elements, efforts: Efforts, motions: Any, n_mean: int, out: FloatArray
) -> None:
    """Write max |τ| over all samples and the mean of τ² over the first n_mean into out (2, n_candidates, n_joints)."""
    n_links, n_joints = chain.coupling.shape
    n_samples = motions[0].shape[2]
    links = np.empty((n_links + 1) * LINK_ROWS)
    wrenches = np.empty(n_links * WRENCH_ROWS)
    tau = np.empty(n_joints * LANES)
    value = np.empty(LANES)
    peaks = np.empty(n_joints * LANES)
    squares = np.empty(n_joints * LANES)
    start_at_base(chain, links)
    for b in range(out.shape[1]):
        motion = (motions[0][b], motions[1][b], motions[2][b])
        clear(peaks)
        clear(squares)
        for first in range(0, n_samples, LANES):
            m = min(LANES, n_samples - first)
            start_torques(efforts, motion, first, m, tau)
            for j in range(n_links):
                move_link(chain, motion, j, first, m, links)
                link_wrench(wrenches[j * WRENCH_ROWS :], links[(j + 1) * LINK_ROWS :], efforts.phi[j], m)
            lower_wrenches(chain, links, wrenches, value[:m], tau)
            add_drives(elements, efforts.others, motion, first, value[:m], tau)
            for i in range(n_joints):
                lanes = i * LANES
                keep_extremes(tau[lanes : lanes + m], n_mean - first, peaks[lanes:], squares[lanes:])
        for i in range(n_joints):
            out[0, b, i] = largest(peaks[i * LANES : (i + 1) * LANES])
            out[1, b, i] = total(squares[i * LANES : (i + 1) * LANES]) / n_mean


@inner
def move_link(chain: Chain, motion: Any, j: int, first: int, m: int, links: FloatArray) -> None:
    """Write a block of link j's motion, its parent's being written."""
    link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
    parent_row = chain.parents[j] + 1
    drive_joint(link, chain.coupling[j], chain.offset[j], motion, first, m)
    sine_cosine(link, m)
    place(link, chain.constants[j], m)
    move(link, links[parent_row * LINK_ROWS : (parent_row + 1) * LINK_ROWS], chain.constants[j], m)


@inner
def start_torques(efforts: Efforts, motion: Any, first: int, m: int, tau: FloatArray) -> None:
    """Write what is linear in a block's motion: offset + damping · dq + inertia · ddq."""
    for i in range(efforts.offset.size):
        block = tau[i * LANES : i * LANES + m]
        for lane in range(m):
            block[lane] = efforts.offset[i]
        for k in range(efforts.offset.size):
            if efforts.damping[i, k] != 0.0:
                add_scaled(block, efforts.damping[i, k], motion[1][k, first : first + m])
            if efforts.inertia[i, k] != 0.0:
                add_scaled(block, efforts.inertia[i, k], motion[2][k, first : first + m])


@inner
def lower_wrenches(chain: Chain, links: FloatArray, wrenches: FloatArray, effort: FloatArray, tau: FloatArray) -> None:
    """Bring wrenches down the tree, and add what each joint feels of them to the torques of its coordinates."""
    n_links, n_joints = chain.coupling.shape
    for back in range(n_links):
        j = n_links - 1 - back
        wrench = wrenches[j * WRENCH_ROWS : (j + 1) * WRENCH_ROWS]
        joint_effort(wrench, chain.constants[j], effort)
        for i in range(n_joints):
            if chain.coupling[j, i] != 0.0:
                add_scaled(tau[i * LANES : i * LANES + effort.size], chain.coupling[j, i], effort)
        parent = chain.parents[j]
        if parent >= 0:
            link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
            lower_wrench(wrenches[parent * WRENCH_ROWS : (parent + 1) * WRENCH_ROWS], wrench, link, effort.size)


@inner
def joint_effort(wrench: FloatArray, constants: FloatArray, effort: FloatArray) -> None:
    """Project a wrench on the link's own joint: u · moment + w · force."""
    ux, uy, uz = constants[39], constants[40], constants[41]
    wx, wy, wz = constants[42], constants[43], constants[44]
    for lane in range(effort.size):
        effort[lane] = (
            ux * wrench[lane]
            + uy * wrench[ROW1 + lane]
            + uz * wrench[ROW2 + lane]
            + wx * wrench[ROW3 + lane]
            + wy * wrench[ROW4 + lane]
            + wz * wrench[ROW5 + lane]
        )


@inner
def lower_wrench(below: FloatArray, wrench: FloatArray, link: FloatArray, m: int) -> None:
    """Add a link's wrench to its parent's: force += R f, moment += R n + r × R f."""
    for lane in range(m):
        n0 = wrench[lane]
        n1 = wrench[ROW1 + lane]
        n2 = wrench[ROW2 + lane]
        f0 = wrench[ROW3 + lane]
        f1 = wrench[ROW4 + lane]
        f2 = wrench[ROW5 + lane]
        c00 = link[R00 + lane]
        c01 = link[R01 + lane]
        c02 = link[R02 + lane]
        c10 = link[R10 + lane]
        c11 = link[R11 + lane]
        c12 = link[R12 + lane]
        c20 = link[R20 + lane]
        c21 = link[R21 + lane]
        c22 = link[R22 + lane]
        r0 = link[PX + lane]
        r1 = link[PY + lane]
        r2 = link[PZ + lane]
        t0 = c00 * f0 + c01 * f1 + c02 * f2
        t1 = c10 * f0 + c11 * f1 + c12 * f2
        t2 = c20 * f0 + c21 * f1 + c22 * f2
        below[lane] += c00 * n0 + c01 * n1 + c02 * n2 + r1 * t2 - r2 * t1
        below[ROW1 + lane] += c10 * n0 + c11 * n1 + c12 * n2 + r2 * t0 - r0 * t2
        below[ROW2 + lane] += c20 * n0 + c21 * n1 + c22 * n2 + r0 * t1 - r1 * t0
        below[ROW3 + lane] += t0
        below[ROW4 + lane] += t1
        below[ROW5 + lane] += t2


@inner
def add_drives(
    elements: Elements, parameters: FloatArray, motion: Any, first: int, value: FloatArray, tau: FloatArray
) -> None:
    """Add what the other friction takes to a block of torques."""
    for e in range(elements.model.size):
        if parameters[e] == 0.0:
            continue
        element_values(elements, e, motion, first, value)
        for i in range(elements.acts.shape[1]):
            share = elements.acts[e, i] * parameters[e]
            if share != 0.0:
                add_scaled(tau[i * LANES : i * LANES + value.size], share, value)


@inner
def keep_extremes(tau: FloatArray, n_mean: int, peaks: FloatArray, squares: FloatArray) -> None:
    """Take a block of one joint's torques into its largest, and the first n_mean of it into its squares, by lanes."""
    for k in range(tau.size):
        peaks[k] = max(peaks[k], abs(tau[k]))
    for k in range(min(tau.size, n_mean)):
        squares[k] += tau[k] * tau[k]


@inner
def largest(lanes: FloatArray) -> float:
    """Find the largest of LANES values, by halves: one running maximum would wait for itself."""
    width = LANES
    while width % 2 == 0:
        width //= 2
        for k in range(width):
            lanes[k] = max(lanes[k], lanes[width + k])
    top = lanes[0]
    for k in range(1, width):
        top = max(top, lanes[k])
    return float(top)


@inner_sums
def total(lanes: FloatArray) -> float:
    """Add up."""
    result = 0.0
    for k in range(lanes.size):
        result += lanes[k]
    return result


@compiled
def fill_top_speeds(chain: Chain, motions: Any, link: int, point: FloatArray, out: FloatArray) -> None:
    """Write the largest speed |v + ω × point| of a point on a link into out (n_candidates,)."""
    n_links = chain.coupling.shape[0]
    n_samples = motions[0].shape[2]
    links = np.empty((n_links + 1) * LINK_ROWS)
    x, y, z = point[0], point[1], point[2]
    start_at_base(chain, links)
    rows = links[(link + 1) * LINK_ROWS : (link + 2) * LINK_ROWS]
    for b in range(out.size):
        motion = (motions[0][b], motions[1][b], motions[2][b])
        fastest = 0.0
        for first in range(0, n_samples, LANES):
            m = min(LANES, n_samples - first)
            for j in range(link + 1):
                move_link(chain, motion, j, first, m, links)
            for lane in range(m):
                v0 = rows[VX + lane] + rows[OY + lane] * z - rows[OZ + lane] * y
                v1 = rows[VY + lane] + rows[OZ + lane] * x - rows[OX + lane] * z
                v2 = rows[VZ + lane] + rows[OX + lane] * y - rows[OY + lane] * x
                fastest = max(fastest, v0 * v0 + v1 * v1 + v2 * v2)
        out[b] = np.sqrt(fastest)
