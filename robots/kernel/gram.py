"""The Gram matrix WᵀW of selected regressor columns, without ever storing W.

A joint's row touches only the links that it moves and its own drive: about half of W is zero by structure. So each
joint's non-zero columns are kept, a chunk of samples at a time, and only their products are added up.
"""

from typing import Any, NamedTuple

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.columns import BLOCK_ROWS, torque_columns
from excitor.robots.kernel.compile import CHUNK, LANES, LINK_ROWS, PITCH, SCREW_ROWS, compiled, inner, inner_sums
from excitor.robots.kernel.drive import Elements, add_memory_and_load, element_values
from excitor.robots.kernel.recursion import recursion, start_at_base

TILE = 4


class Packing(NamedTuple):
    """Which rows of the workspace each joint's selected columns are.

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


def pack(chain: Chain, elements: Elements, columns: IntArray, weights: FloatArray) -> Packing:
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
    return Packing(
        len(columns),
        n_rows + 1,
        np.array(start, dtype=np.int64),
        np.where(row < 0, n_rows, row),
        np.array(held, dtype=np.int64),
        drive_row.astype(np.int64),
        drive_first,
        np.ascontiguousarray(weights, dtype=float),
    )


@compiled
def fill_gram(chain: Chain, drive: Drive, packing: Packing, motion: Any, out: FloatArray) -> None:
    """Write WᵀW of the packed columns into out (n_columns, n_columns)."""
    n_links, n_joints = chain.coupling.shape
    n_samples = motion[0].shape[1]
    links = np.empty((n_links + 1) * LINK_ROWS)
    screws = np.empty(chain.pair_joint.size * SCREW_ROWS)
    rows = np.zeros(packing.n_rows * PITCH)
    products = np.empty(TILE * TILE)
    start_at_base(chain, links)
    out[:, :] = 0.0
    for chunk in range(0, n_samples, CHUNK):
        size = min(CHUNK, n_samples - chunk)
        for offset in range(0, size, LANES):
            m = min(LANES, size - offset)
            recursion(chain, motion, chunk + offset, m, links, screws)
            fill_link_rows(chain, links, screws, rows[offset:], m)
        fill_drive_rows(drive, packing, motion, chunk, rows, size)
        for i in range(n_joints):
            weight = packing.weights[i] ** 2
            for a in range(packing.start[i], packing.start[i + 1], TILE):
                for b in range(a, packing.start[i + 1], TILE):
                    multiply_tile(rows, packing.row[a : a + TILE], packing.row[b : b + TILE], size, products)
                    add_tile(packing, a, b, products, weight, out)
    for a in range(packing.n_columns):
        for b in range(a):
            out[a, b] = out[b, a] = out[a, b] + out[b, a]


@inner
def fill_link_rows(chain: Chain, links: FloatArray, screws: FloatArray, rows: FloatArray, m: int) -> None:
    """Write a block of m samples into the rows of links, by the recursion just run."""
    for j in range(chain.parents.size):
        link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
        for pair in range(chain.pair_start[j], chain.pair_start[j + 1]):
            torque_columns(rows[pair * BLOCK_ROWS :], screws[pair * SCREW_ROWS : (pair + 1) * SCREW_ROWS], link, m)


@inner
def fill_drive_rows(drive: Drive, packing: Packing, motion: Any, first: int, rows: FloatArray, m: int) -> None:
    """Write m samples into the rows of drives."""
    n_elements, n_joints = drive.elements.acts.shape
    value = np.empty(m)
    for e in range(n_elements):
        element_values(drive.elements, e, motion, first, value)
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
def add_tile(packing: Packing, a: int, b: int, products: FloatArray, weight: float, out: FloatArray) -> None:
    """Add a tile's products to the Gram matrix, each unordered pair of rows once."""
    for x in range(TILE):
        for y in range(TILE):
            row, column = packing.column[a + x], packing.column[b + y]
            if row >= 0 and column >= 0 and (a < b or x <= y):
                out[row, column] += weight * products[TILE * x + y]
