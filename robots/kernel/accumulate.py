"""The Gram matrix WᵀW of selected regressor columns, without storing W; and population-wide Gram matrices and extremes.

A joint's row depends only on the links that it moves and its own drive: about half of W is zero by structure. So each
joint's non-zero columns are stored, a chunk of samples at a time, and only their products are summed. A whole
population of motions takes one call: Gram matrices, largest torques, largest speeds of the tool.
"""

from typing import Any, NamedTuple

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.kernel.columns import BLOCK_ROWS, clear, copy_row, link_wrench, torque_columns
from excitor.robots.kernel.compile import (
    AX,
    CHUNK,
    GX,
    LANES,
    LINK_ROWS,
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
    ROW1,
    ROW2,
    ROW3,
    ROW4,
    ROW5,
    SCREW_ROWS,
    SX,
    VX,
    VY,
    VZ,
    Chain,
    compiled,
    inner,
    inner_sums,
)
from excitor.robots.kernel.drive import LOAD, STATE, Elements, add_memory_and_load, element_values
from excitor.robots.kernel.recursion import add_scaled, drive_joint, move, place, recursion, sine_cosine, start_at_base

TILE = 4


class ColumnPacking(NamedTuple):
    """Map from each joint's selected columns to rows of the workspace.

    The workspace has ten rows a pair of link and coordinate, then one a drive element and joint that it acts on
    (tied elements share it), and last a row of zeros, with which every joint's rows are filled up to whole tiles.
    """

    n_columns: int
    n_rows: int
    start: IntArray  # (n_joints + 1,): where each joint's rows begin in the two lists below
    row: IntArray  # rows of the workspace
    column: IntArray  # the selected columns they hold, -1: zeros
    drive_row: IntArray  # (n_elements, n_joints): the row an element adds to, -1: none
    drive_first: BoolArray  # (n_elements, n_joints): it is the first to write that row
    weights: FloatArray  # (n_joints,)


class Drive(NamedTuple):
    """Drive elements with what they need besides the motion, see `kernel.drive.fill_drive`."""

    elements: Elements
    load: FloatArray
    states: FloatArray


def pack(chain: Chain, elements: Elements, columns: IntArray, weights: FloatArray) -> ColumnPacking:
    """Find the rows of the selected columns (indices into the parameter layout)."""
    n_links, n_joints = chain.coupling.shape
    place = {int(column): k for k, column in enumerate(columns)}
    pair_link = np.repeat(np.arange(n_links), np.diff(chain.pair_start))
    n_rows = 10 * len(pair_link)
    drive_row = np.full(elements.acts.shape, -1)
    drive_first = np.zeros(elements.acts.shape, dtype=bool)
    start, rows, held = [0], [], []
    for i in range(n_joints):
        for pair in np.flatnonzero(chain.pair_joint == i):
            for k in range(10):
                if 10 * int(pair_link[pair]) + k in place:
                    rows.append(10 * int(pair) + k)
                    held.append(place[10 * int(pair_link[pair]) + k])
        shared: dict[int, int] = {}
        for e in np.flatnonzero(elements.acts[:, i]):
            column = place.get(10 * n_links + int(elements.column[e]), -1)
            if column < 0:
                continue
            if column not in shared:
                drive_first[e, i] = True
                shared[column] = n_rows
                rows.append(n_rows)
                held.append(column)
                n_rows += 1
            drive_row[e, i] = shared[column]
        padding = -(len(rows) - start[-1]) % TILE
        rows += [-1] * padding
        held += [-1] * padding
        start.append(len(rows))
    row = np.array(rows, dtype=np.int64)
    return ColumnPacking(
        len(columns),
        n_rows + 1,
        np.array(start, dtype=np.int64),
        np.where(row < 0, n_rows, row),
        np.array(held, dtype=np.int64),
        drive_row.astype(np.int64),
        drive_first,
        np.ascontiguousarray(weights, dtype=float),
    )


class Tape(NamedTuple):
    """Work of a Gram matrix, chunk by chunk, for its gradient; what it is too short for overwrites the first chunks."""

    links: FloatArray  # (n_chunks, CHUNK / LANES, (n_links + 1) * LINK_ROWS)
    screws: FloatArray  # (n_chunks, CHUNK / LANES, n_pairs * SCREW_ROWS)
    rows: FloatArray  # (n_chunks, n_rows * PITCH)


def new_tape(chain: Chain, packing: ColumnPacking, n_chunks: int) -> Tape:
    """Make room for the work of chunks, with what is the same for all samples, see `recursion.start_at_base`."""
    shape = n_chunks, CHUNK // LANES
    links = np.zeros((*shape, chain.parents.size + 1, LINK_ROWS // LANES, LANES))
    for row, sign in ((SX, -1.0), (AX, -1.0), (GX, 1.0)):
        links[:, :, 0, row // LANES : row // LANES + 3] = sign * chain.gravity[:, None]
    links[:, :, 1:, R00 // LANES : R00 // LANES + 9] = chain.constants[:, :9, None]
    links[:, :, 1:, PX // LANES : PX // LANES + 3] = chain.constants[:, 27:30, None]
    rows = np.zeros((n_chunks, packing.n_rows * PITCH))
    return Tape(links.reshape(*shape, -1), np.zeros((*shape, chain.pair_joint.size * SCREW_ROWS)), rows)


@inner
def equal_part(n: int, most: int) -> int:
    """Return the size of equal parts of n samples, of whole vectors and at most `most`."""
    parts = max(1, (n + most - 1) // most)
    return 8 * ((n + 8 * parts - 1) // (8 * parts))


@inner
def record(
    chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, first: int, size: int, tape: Tape, place: int
) -> None:
    """Run a chunk of samples through the tree, and write its rows."""
    rows = tape.rows[place]
    part = equal_part(size, LANES)
    for offset in range(0, size, part):
        m, block = min(part, size - offset), offset // part
        recursion(chain, motion, first + offset, m, tape.links[place, block], tape.screws[place, block])
        fill_link_rows(chain, tape.links[place, block], tape.screws[place, block], rows[offset:], m)
    fill_drive_rows(drive, packing, motion, first, rows, size)


@inner
def sum_gram(chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, tape: Tape, out: FloatArray) -> None:
    """Write WᵀW of the packed columns into out (n_columns, n_columns), and the work into the tape."""
    n_samples = motion[0].shape[1]
    products = np.empty(TILE * TILE)
    out[:, :] = 0.0
    chunk = equal_part(n_samples, CHUNK)
    for first in range(0, n_samples, chunk):
        size, place = min(chunk, n_samples - first), (first // chunk) % len(tape.rows)
        record(chain, drive, packing, motion, first, size, tape, place)
        rows = tape.rows[place]
        for i in range(packing.weights.size):
            weight = packing.weights[i] ** 2
            for a in range(packing.start[i], packing.start[i + 1], TILE):
                for b in range(a, packing.start[i + 1], TILE):
                    multiply_tile(rows, packing.row[a : a + TILE], packing.row[b : b + TILE], size, products)
                    add_tile(packing, a, b, products, weight, out)
    for a in range(packing.n_columns):
        for b in range(a):
            out[a, b] = out[b, a] = out[a, b] + out[b, a]


def record_gram(chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, tape: Tape, out: FloatArray) -> None:
    """Write one motion's Gram matrix (n_columns, n_columns), and the work into the tape; from Python, compiled once."""
    fill_grams(chain, drive, packing, (motion[0][None], motion[1][None], motion[2][None]), tape, out[None])


def fill_gram(chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, out: FloatArray) -> None:
    """Write WᵀW of the packed columns into out (n_columns, n_columns)."""
    record_gram(chain, drive, packing, motion, new_tape(chain, packing, 1), out)


@compiled
def fill_rows(
    chain: Chain, drive: Drive, packing: ColumnPacking, motion: Any, places: IntArray, out: FloatArray
) -> None:
    """Write packed row k into out[places[k]], (n_rows, at least n_samples); rows of place -1 are left out."""
    n_samples = motion[0].shape[1]
    links = np.empty((chain.parents.size + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    rows = np.empty(packing.n_rows * PITCH)
    start_at_base(chain, links)
    for first in range(0, n_samples, LANES):
        m = min(LANES, n_samples - first)
        recursion(chain, motion, first, m, links, screws)
        fill_link_rows(chain, links, screws, rows, m)
        fill_drive_rows(drive, packing, motion, first, rows, m)
        for k in range(places.size):
            if places[k] >= 0:
                copy_row(out[places[k], first : first + m], rows[packing.row[k] * PITCH :])


@inner
def fill_link_rows(chain: Chain, links: FloatArray, screws: FloatArray, rows: FloatArray, m: int) -> None:
    """Write a block of m samples into the rows of links, by the recursion just run."""
    for j in range(chain.parents.size):
        link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
        for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
            torque_columns(rows[pair * BLOCK_ROWS :], screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS], link, m)


@inner
def fill_drive_rows(drive: Drive, packing: ColumnPacking, motion: Any, first: int, rows: FloatArray, m: int) -> None:
    """Write m samples into the rows of drives."""
    n_elements, n_joints = drive.elements.acts.shape
    value = np.empty(m)
    for e in range(n_elements):
        element_values(drive.elements, e, motion, first, value)
        if drive.elements.model[e] in (LOAD, STATE):
            add_memory_and_load(drive.elements, e, drive.load, drive.states, first, value)
        for i in range(n_joints):
            row = packing.drive_row[e, i]
            if row >= 0:
                share = drive.elements.acts[e, i]
                target = rows[row * PITCH : row * PITCH + m]
                if packing.drive_first[e, i]:
                    for k in range(m):
                        target[k] = share * value[k]
                else:
                    for k in range(m):
                        target[k] += share * value[k]


@inner_sums
def multiply_tile(rows: FloatArray, left: IntArray, right: IntArray, n: int, out: FloatArray) -> None:
    """Write the 4x4 inner products of four rows with four rows."""
    r0 = rows[left[0] * PITCH : left[0] * PITCH + n]
    r1 = rows[left[1] * PITCH : left[1] * PITCH + n]
    r2 = rows[left[2] * PITCH : left[2] * PITCH + n]
    r3 = rows[left[3] * PITCH : left[3] * PITCH + n]
    t0 = rows[right[0] * PITCH : right[0] * PITCH + n]
    t1 = rows[right[1] * PITCH : right[1] * PITCH + n]
    t2 = rows[right[2] * PITCH : right[2] * PITCH + n]
    t3 = rows[right[3] * PITCH : right[3] * PITCH + n]
    s00 = s01 = s02 = s03 = 0.0
    s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = 0.0
    s30 = s31 = s32 = s33 = 0.0
    for k in range(n):
        x0 = r0[k]
        x1 = r1[k]
        x2 = r2[k]
        x3 = r3[k]
        y0 = t0[k]
        y1 = t1[k]
        y2 = t2[k]
        y3 = t3[k]
        s00 += x0 * y0
        s01 += x0 * y1
        s02 += x0 * y2
        s03 += x0 * y3
        s10 += x1 * y0
        s11 += x1 * y1
        s12 += x1 * y2
        s13 += x1 * y3
        s20 += x2 * y0
        s21 += x2 * y1
        s22 += x2 * y2
        s23 += x2 * y3
        s30 += x3 * y0
        s31 += x3 * y1
        s32 += x3 * y2
        s33 += x3 * y3
    out[0], out[1], out[2], out[3] = s00, s01, s02, s03
    out[4], out[5], out[6], out[7] = s10, s11, s12, s13
    out[8], out[9], out[10], out[11] = s20, s21, s22, s23
    out[12], out[13], out[14], out[15] = s30, s31, s32, s33


@inner
def add_tile(packing: ColumnPacking, a: int, b: int, products: FloatArray, weight: float, out: FloatArray) -> None:
    """Add a tile's products to the Gram matrix, each unordered pair of rows once."""
    for x in range(TILE):
        for y in range(TILE):
            row, column = packing.column[a + x], packing.column[b + y]
            if row >= 0 and column >= 0 and (a < b or x <= y):
                out[row, column] += weight * products[TILE * x + y]


class Efforts(NamedTuple):
    """Parameters of a robot for torque evaluation; terms linear in the motion are summed by joint."""

    phi: FloatArray  # (n_links, 10)
    offset: FloatArray  # (n_joints,): constant torques
    damping: FloatArray  # (n_joints, n_joints): viscous friction
    inertia: FloatArray  # (n_joints, n_joints): rotors
    others: FloatArray  # (n_elements,): parameters of the other drive elements; 0 where counted above


WRENCH_ROWS = 6 * LANES  # moment about the link's origin, then force, in the link's frame


@compiled
def fill_grams(chain: Chain, drive: Drive, packing: ColumnPacking, motions: Any, tape: Tape, out: FloatArray) -> None:
    """Write each candidate's Gram matrix into out (n_candidates, n_columns, n_columns).

    `motions` is (q, dq, ddq), each (n_candidates, n_joints, n_samples); the tape is overwritten.
    """
    for b in range(out.shape[0]):
        motion = motions[0][b], motions[1][b], motions[2][b]
        sum_gram(chain, drive, packing, motion, tape, out[b])


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
    """Write the terms linear in a block's motion: offset + damping · dq + inertia · ddq."""
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
    """Propagate wrenches to the base, and add each joint's projection to the torques of its coordinates."""
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
    """Add the friction terms that are not linear to a block of torques."""
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
    """Update by lanes one joint's max |τ| with a block, and its sum of τ² with the block's first n_mean samples."""
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
    """Sum over lanes."""
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
