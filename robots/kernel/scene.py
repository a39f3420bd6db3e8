"""Clearances of moving bodies: sample by sample, or the least of each candidate of a population."""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.columns import clear
from excitor.robots.kernel.compile import ANGLE, LANES, LINK_ROWS, PX, PY, PZ, compiled, inner
from excitor.robots.kernel.distances import BODY_ROWS, nearest, pair_row, zone_row
from excitor.robots.kernel.recursion import add_scaled, place, sine_cosine, start_at_base

POSE_ROWS = 12 * LANES  # a link's R and origin in the base frame


class Volumes(NamedTuple):
    """Bodies (capsules; the tool is a short one), zones they keep to, and pairs that keep apart, as flat arrays."""

    link: IntArray  # (n_bodies,), -1: the base
    ends: FloatArray  # (n_bodies, 6): start and end of the segment, in the link's frame
    radius: FloatArray  # (n_bodies,)
    zone_body: IntArray  # (n_zone_rows,)
    zone_inward: BoolArray  # (n_zone_rows,): the body stays inside
    zone: FloatArray  # (n_zone_rows, ZONE_CONSTANTS)
    pairs: IntArray  # (n_pairs, 2): bodies


@compiled
def fill_clearances(chain: Chain, volumes: Volumes, q: FloatArray, poses: FloatArray, out: FloatArray) -> None:
    """Write each row's clearances into out (n_candidates, n_samples, n_rows), or the least ones where it is one deep.

    q is (n_candidates, n_joints, n_samples). Where `poses` (n_samples, n_links, 4, 4) is not empty, T_base_link is
    taken from it, for a single candidate, and the chain means nothing.
    """
    given = poses.shape[0] > 0
    n_links = poses.shape[1] if given else chain.parents.size
    n_samples = q.shape[2]
    links = np.empty((chain.parents.size + 1) * LINK_ROWS)
    rows = np.empty((n_links + 1) * POSE_ROWS)
    bodies = np.empty(volumes.link.size * BODY_ROWS)
    gap = np.empty(LANES)
    open_ = np.empty(LANES)
    start_at_base(chain, links)
    base_pose(rows)
    out[:, :, :] = np.inf
    for b in range(out.shape[0]):
        for first in range(0, n_samples, LANES):
            m = min(LANES, n_samples - first)
            if given:
                load_links(poses, first, m, rows)
            else:
                place_links(chain, q[b], first, m, links, rows)
            place_bodies(volumes, rows, bodies, m)
            for row in range(out.shape[2]):
                fill_row(volumes, row, bodies, gap[:m], open_)
                if out.shape[1] < n_samples:
                    out[b, 0, row] = least_clearance(volumes, row, bodies, gap[:m], open_, out[b, 0, row])
                    continue
                for lane in range(m):
                    if open_[lane] > 0.0:
                        gap[lane] = settle(volumes, row, bodies, lane, np.inf)
                    out[b, first + lane, row] = gap[lane]


@inner
def base_pose(rows: FloatArray) -> None:
    """Write the base's own pose: it stands at the origin."""
    for k in range(12):
        for lane in range(LANES):
            rows[k * LANES + lane] = 1.0 if k in (0, 4, 8) else 0.0


@inner
def load_links(poses: FloatArray, first: int, m: int, rows: FloatArray) -> None:
    """Take the poses of all links from those given."""
    for lane in range(m):
        for j in range(poses.shape[1]):
            target = rows[(j + 1) * POSE_ROWS + lane :]
            for k in range(3):
                for c in range(3):
                    target[(3 * k + c) * LANES] = poses[first + lane, j, k, c]
                target[PX + k * LANES] = poses[first + lane, j, k, 3]


@inner
def place_links(chain: Chain, q: FloatArray, first: int, m: int, links: FloatArray, rows: FloatArray) -> None:
    """Write the poses of all links in the base frame for a block of positions."""
    for j in range(chain.parents.size):
        link = links[(j + 1) * LINK_ROWS : (j + 2) * LINK_ROWS]
        for lane in range(m):
            link[ANGLE + lane] = chain.offset[j]
        for i in range(q.shape[0]):
            if chain.coupling[j, i] != 0.0:
                add_scaled(link[ANGLE : ANGLE + m], chain.coupling[j, i], q[i, first : first + m])
        sine_cosine(link, m)
        place(link, chain.constants[j], m)
        parent_row = chain.parents[j] + 1
        compose_rows(
            rows[(j + 1) * POSE_ROWS : (j + 2) * POSE_ROWS],
            rows[parent_row * POSE_ROWS : (parent_row + 1) * POSE_ROWS],
            link,
            m,
        )


@inner
def compose_rows(pose: FloatArray, parent: FloatArray, link: FloatArray, m: int) -> None:
    """Write T_base_link = T_base_parent T_parent_link."""
    for k in range(3):
        a = 3 * k * LANES
        for lane in range(m):
            x = parent[a + lane]
            y = parent[a + LANES + lane]
            z = parent[a + 2 * LANES + lane]
            for c in range(3):
                pose[a + c * LANES + lane] = (
                    x * link[c * LANES + lane] + y * link[(3 + c) * LANES + lane] + z * link[(6 + c) * LANES + lane]
                )
            pose[PX + k * LANES + lane] = (
                parent[PX + k * LANES + lane] + x * link[PX + lane] + y * link[PY + lane] + z * link[PZ + lane]
            )


@inner
def place_bodies(volumes: Volumes, rows: FloatArray, bodies: FloatArray, m: int) -> None:
    """Write the ends of all bodies in the base frame."""
    for body in range(volumes.link.size):
        pose = rows[(volumes.link[body] + 1) * POSE_ROWS : (volumes.link[body] + 2) * POSE_ROWS]
        for end in range(2):
            x = volumes.ends[body, 3 * end]
            y = volumes.ends[body, 3 * end + 1]
            z = volumes.ends[body, 3 * end + 2]
            for k in range(3):
                target = bodies[body * BODY_ROWS + (3 * end + k) * LANES :]
                a = 3 * k * LANES
                for lane in range(m):
                    target[lane] = (
                        pose[PX + k * LANES + lane]
                        + x * pose[a + lane]
                        + y * pose[a + LANES + lane]
                        + z * pose[a + 2 * LANES + lane]
                    )


@inner
def fill_row(volumes: Volumes, row: int, bodies: FloatArray, gap: FloatArray, open_: FloatArray) -> None:
    """Write a row's clearances for a block; where open_ is 1, they are lower bounds yet."""
    n_zone_rows = volumes.zone_body.size
    if row < n_zone_rows:
        body = volumes.zone_body[row]
        rows = bodies[body * BODY_ROWS : (body + 1) * BODY_ROWS]
        zone_row(volumes.zone[row], volumes.zone_inward[row], rows, volumes.radius[body], gap, open_)
        return
    one, other = volumes.pairs[row - n_zone_rows, 0], volumes.pairs[row - n_zone_rows, 1]
    radius = volumes.radius[one] + volumes.radius[other]
    pair_row(bodies[one * BODY_ROWS :], bodies[other * BODY_ROWS :], radius, gap)
    clear(open_)


@inner
def settle(volumes: Volumes, row: int, bodies: FloatArray, lane: int, enough: float) -> float:
    """Find an open clearance, or a bound of it that is enough."""
    body = volumes.zone_body[row]
    radius = volumes.radius[body]
    return float(nearest(volumes.zone[row], bodies[body * BODY_ROWS :], lane, enough + radius) - radius)


@inner
def least_clearance(
    volumes: Volumes, row: int, bodies: FloatArray, gap: FloatArray, open_: FloatArray, least: float
) -> float:
    """Take a block into a row's least clearance; open ones are settled only where their bound is below it."""
    for lane in range(gap.size):
        if open_[lane] == 0.0 and gap[lane] < least:
            least = float(gap[lane])
    for lane in range(gap.size):
        if open_[lane] > 0.0 and gap[lane] < least:
            closer = settle(volumes, row, bodies, lane, least)
            least = closer if closer < least else least
    return least
