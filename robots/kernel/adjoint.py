"""The gradient of a function of the Gram matrix by the motion: the recursion run backwards, link by link."""

from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.columns import BLOCK_ROWS
from excitor.robots.kernel.compile import (
    ANGLE,
    JOINT_ACCELERATION,
    LANES,
    LINK_ROWS,
    PITCH,
    RATE,
    SCREW_ROWS,
    compiled,
    inner,
)
from excitor.robots.kernel.drive import LOAD, carried_load, element_slopes, signal
from excitor.robots.kernel.gram import TILE, Drive, Packing, fill_drive_rows, fill_link_rows
from excitor.robots.kernel.recursion import recursion, start_at_base
from excitor.robots.kernel.reverse import reverse_carry_screw, reverse_move, reverse_torque_columns


@compiled
def fill_gram_gradient(
    chain: Chain, drive: Drive, packing: Packing, motion: Any, gram_bar: FloatArray, out: Any
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
def differentiate_rows(packing: Packing, gram_bar: FloatArray, rows: FloatArray, rows_b: FloatArray, m: int) -> None:
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
def entry(packing: Packing, gram_bar: FloatArray, a: int, b: int) -> float:
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
    drive: Drive, packing: Packing, motion: Any, first: int, rows_b: FloatArray, m: int, out: Any
) -> None:
    """Add what drive elements contribute; a load and a memory count as given."""
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
