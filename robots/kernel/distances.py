"""Distances: a segment to a box, half-space, sphere or cylinder, with sign, and a segment to a segment.

All four shapes are one formula: with

    q0 = √(x² + a y² + b z²) - s0,   q1 = |y| - s1,   q2 = |z| - s2  (or z - s2 where one-sided),

the signed distance is the length of max(q, 0) outside and the largest q inside. A box has a = b = 0; a sphere
a = b = 1 and s1 = s2 = ∞; a cylinder a = 1, b = 0 and s1 = ∞; a half-space keeps only z. It is convex.

Clearances of moving bodies are evaluated sample by sample, or as the minimum over each candidate of a population.
"""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.kernel.columns import clear
from excitor.robots.kernel.compile import ANGLE, LANES, LINK_ROWS, PX, PY, PZ, Chain, compiled, inner
from excitor.robots.kernel.recursion import add_scaled, place, sine_cosine, start_at_base

# Columns of a zone's constants: rows of R and p with x_shape = R x_base + p, then a, b, one-sided, s0, s1, s2.
ZONE_CONSTANTS = 18

# Rows of a body's workspace: the ends of its segment in the base frame.
BODY_ROWS = 6 * LANES
X0, Y0, Z0, X1, Y1, Z1 = (k * LANES for k in range(6))

TOLERANCE = 1e-10  # m


@inner
def signed_distance(zone: FloatArray, point: tuple[float, ...], along: tuple[float, ...]) -> tuple[float, float]:
    """Evaluate the signed distance of a point in the shape's frame, and a slope of it along a direction."""
    x, y, z = point
    dx, dy, dz = along
    a, b, one_sided = zone[12], zone[13], zone[14]
    round_ = np.sqrt(x * x + a * y * y + b * z * z)
    q0 = round_ - zone[15]
    q1 = abs(y) - zone[16]
    q2 = (z if one_sided > 0.0 else abs(z)) - zone[17]
    g0 = (x * dx + a * y * dy + b * z * dz) / (round_ if round_ > 0.0 else 1.0)
    g1 = -dy if y < 0.0 else dy
    g2 = -dz if (z < 0.0 and one_sided == 0.0) else dz
    v0 = q0 if q0 > 0.0 else 0.0
    v1 = q1 if q1 > 0.0 else 0.0
    v2 = q2 if q2 > 0.0 else 0.0
    outside = np.sqrt(v0 * v0 + v1 * v1 + v2 * v2)
    slope = (v0 * g0 + v1 * g1 + v2 * g2) / (outside if outside > 0.0 else 1.0)
    inside = q0
    depth_slope = g0
    depth_slope = g1 if q1 > inside else depth_slope
    inside = q1 if q1 > inside else inside
    depth_slope = g2 if q2 > inside else depth_slope
    inside = q2 if q2 > inside else inside
    return (outside if outside > 0.0 else inside), (slope if outside > 0.0 else depth_slope)


@inner
def into_shape(zone: FloatArray, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Write a point of the base frame in the shape's."""
    return (
        zone[0] * x + zone[1] * y + zone[2] * z + zone[9],
        zone[3] * x + zone[4] * y + zone[5] * z + zone[10],
        zone[6] * x + zone[7] * y + zone[8] * z + zone[11],
    )


@inner
def turn_into_shape(zone: FloatArray, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Write a direction of the base frame in the shape's."""
    return (
        zone[0] * x + zone[1] * y + zone[2] * z,
        zone[3] * x + zone[4] * y + zone[5] * z,
        zone[6] * x + zone[7] * y + zone[8] * z,
    )


@inner
def zone_row(
    zone: FloatArray, inward: bool, body: FloatArray, radius: float, gap: FloatArray, open_: FloatArray
) -> None:
    """Write a body's clearance inside or outside a shape, for as many samples as `gap` has.

    A convex distance is largest at an end of the segment: staying inside is exact. Staying outside gets a lower
    bound, where tangents at the ends meet; open_ is 0 where it is exact, because an end is nearest, 1 elsewhere.
    """
    for lane in range(gap.size):
        x, y, z = body[X0 + lane], body[Y0 + lane], body[Z0 + lane]
        start = into_shape(zone, x, y, z)
        end = into_shape(zone, body[X1 + lane], body[Y1 + lane], body[Z1 + lane])
        along = turn_into_shape(zone, body[X1 + lane] - x, body[Y1 + lane] - y, body[Z1 + lane] - z)
        f, f_slope = signed_distance(zone, start, along)
        g, g_slope = signed_distance(zone, end, along)
        rises = f_slope >= 0.0
        falls = g_slope <= 0.0
        fall = f_slope - g_slope
        s = (g - f - g_slope) / (fall if fall < 0.0 else -1.0)
        nearest_end = f if rises else g
        outside = nearest_end if (rises or falls) else f + f_slope * s
        gap[lane] = (-(f if f > g else g) if inward else outside) - radius
        open_[lane] = 0.0 if (rises or falls or inward) else 1.0


@inner
def nearest(zone: FloatArray, body: FloatArray, lane: int, enough: float) -> float:
    """Find min over a segment of the signed distance, by tangents; stop where it is proven to be enough or more.

    Of two points that enclose the minimum, tangents meet at a lower bound: the next point is there. The result is
    never above the minimum, and within TOLERANCE below it.
    """
    x, y, z = body[X0 + lane], body[Y0 + lane], body[Z0 + lane]
    p0, p1, p2 = into_shape(zone, x, y, z)
    d0, d1, d2 = turn_into_shape(zone, body[X1 + lane] - x, body[Y1 + lane] - y, body[Z1 + lane] - z)
    along = (d0, d1, d2)
    a = 0.0
    b = 1.0
    f, f_slope = signed_distance(zone, (p0, p1, p2), along)
    g, g_slope = signed_distance(zone, (p0 + d0, p1 + d1, p2 + d2), along)
    if f_slope >= 0.0:
        return f
    if g_slope <= 0.0:
        return g
    bound = f
    for _ in range(100):
        s = (g - f + f_slope * a - g_slope * b) / (f_slope - g_slope)
        bound = f + f_slope * (s - a)
        if bound >= enough:
            return bound
        h, h_slope = signed_distance(zone, (p0 + s * d0, p1 + s * d1, p2 + s * d2), along)
        if h - bound <= TOLERANCE or h_slope == 0.0:
            return min(h, bound)
        if h_slope < 0.0:
            a, f, f_slope = s, h, h_slope
        else:
            b, g, g_slope = s, h, h_slope
    return bound


@inner
def pair_row(one: FloatArray, other: FloatArray, radius: float, gap: FloatArray) -> None:
    """Write the distance of two segments, less their radii.

    The nearest points lie inside both segments, or one is an end: the least of five candidates, each a true distance.
    """
    for lane in range(gap.size):
        ux = one[X1 + lane] - one[X0 + lane]
        uy = one[Y1 + lane] - one[Y0 + lane]
        uz = one[Z1 + lane] - one[Z0 + lane]
        vx = other[X1 + lane] - other[X0 + lane]
        vy = other[Y1 + lane] - other[Y0 + lane]
        vz = other[Z1 + lane] - other[Z0 + lane]
        rx = other[X0 + lane] - one[X0 + lane]
        ry = other[Y0 + lane] - one[Y0 + lane]
        rz = other[Z0 + lane] - one[Z0 + lane]
        uu = ux * ux + uy * uy + uz * uz
        vv = vx * vx + vy * vy + vz * vz
        uv = ux * vx + uy * vy + uz * vz
        ur = ux * rx + uy * ry + uz * rz
        vr = vx * rx + vy * ry + vz * rz
        per_u = 1.0 / (uu if uu > 0.0 else 1.0)
        per_v = 1.0 / (vv if vv > 0.0 else 1.0)
        square = uu * vv - uv * uv
        s = clamped((vv * ur - uv * vr) / (square if square > 0.0 else 1.0))
        best = gap_square(rx, ry, rz, ux, uy, uz, vx, vy, vz, s, clamped((s * uv - vr) * per_v))
        best = least(best, gap_square(rx, ry, rz, ux, uy, uz, vx, vy, vz, 0.0, clamped(-vr * per_v)))
        best = least(best, gap_square(rx, ry, rz, ux, uy, uz, vx, vy, vz, 1.0, clamped((uv - vr) * per_v)))
        best = least(best, gap_square(rx, ry, rz, ux, uy, uz, vx, vy, vz, clamped(ur * per_u), 0.0))
        best = least(best, gap_square(rx, ry, rz, ux, uy, uz, vx, vy, vz, clamped((ur + uv) * per_u), 1.0))
        gap[lane] = np.sqrt(best) - radius


@inner
def gap_square(
    rx: float,
    ry: float,
    rz: float,
    ux: float,
    uy: float,
    uz: float,
    vx: float,
    vy: float,
    vz: float,
    s: float,
    t: float,
) -> float:
    """Square the distance of the points at s along u and, from r on, at t along v."""
    x = rx + t * vx - s * ux
    y = ry + t * vy - s * uy
    z = rz + t * vz - s * uz
    return x * x + y * y + z * z


@inner
def clamped(s: float) -> float:
    """Clamp to 0 … 1."""
    s = s if s > 0.0 else 0.0
    return s if s < 1.0 else 1.0


@inner
def least(a: float, b: float) -> float:
    """Return the smaller of two numbers."""
    return a if a < b else b


POSE_ROWS = 12 * LANES  # a link's R and origin in the base frame


class Volumes(NamedTuple):
    """Bodies (capsules; the tool is a short one), zones, and pairs of bodies to check, as flat arrays."""

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

    Where it is one deep, clearances above those that it holds are not looked for. q is (n_candidates, n_joints,
    n_samples). Where `poses` (n_samples, n_links, 4, 4) is not empty, T_base_link is taken from it, for a single
    candidate, and the chain is not used.
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
    for b in range(out.shape[0]):
        for first in range(0, n_samples, LANES):
            m = min(LANES, n_samples - first)
            if given:
                load_links(poses, first, m, rows)
            else:
                place_links(chain, q[b], first, m, links, rows)
            place_bodies(volumes, rows, bodies, m)
            for row in range(out.shape[2]):
                if out.shape[1] < n_samples and far_apart(volumes, row, bodies, m, out[b, 0, row]):
                    continue
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
    """Copy a block of link poses from given ones (n_samples, n_links, 4, 4)."""
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
    """Write a row's clearances for a block; where open_ is 1, they are lower bounds."""
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
def far_apart(volumes: Volumes, row: int, bodies: FloatArray, m: int, enough: float) -> bool:
    """Return True if the spheres about two bodies leave more than `enough` between them in a whole block."""
    pair = row - volumes.zone_body.size
    if pair < 0:
        return False
    one, other = volumes.pairs[pair, 0], volumes.pairs[pair, 1]
    away = (
        enough + volumes.radius[one] + volumes.radius[other] + half_length(volumes, one) + half_length(volumes, other)
    )
    a, b = bodies[one * BODY_ROWS :], bodies[other * BODY_ROWS :]
    nearest_square = np.inf
    for lane in range(m):
        x = a[X0 + lane] + a[X1 + lane] - b[X0 + lane] - b[X1 + lane]
        y = a[Y0 + lane] + a[Y1 + lane] - b[Y0 + lane] - b[Y1 + lane]
        z = a[Z0 + lane] + a[Z1 + lane] - b[Z0 + lane] - b[Z1 + lane]
        nearest_square = least(nearest_square, x * x + y * y + z * z)
    return bool(away < 0.0 or nearest_square > 4.0 * away * away * (1.0 + TOLERANCE))


@inner
def half_length(volumes: Volumes, body: int) -> float:
    """Return half the length of a body's segment."""
    square = 0.0
    for k in range(3):
        d = volumes.ends[body, 3 + k] - volumes.ends[body, k]
        square += d * d
    return float(0.5 * np.sqrt(square))


@inner
def settle(volumes: Volumes, row: int, bodies: FloatArray, lane: int, enough: float) -> float:
    """Compute a clearance of which only a lower bound is known, or a lower bound of at least `enough`."""
    body = volumes.zone_body[row]
    radius = volumes.radius[body]
    return float(nearest(volumes.zone[row], bodies[body * BODY_ROWS :], lane, enough + radius) - radius)


@inner
def least_clearance(
    volumes: Volumes, row: int, bodies: FloatArray, gap: FloatArray, open_: FloatArray, least: float
) -> float:
    """Update a row's least clearance with a block; lower bounds are refined only where they are below it."""
    for lane in range(gap.size):
        if open_[lane] == 0.0 and gap[lane] < least:
            least = float(gap[lane])
    for lane in range(gap.size):
        if open_[lane] > 0.0 and gap[lane] < least:
            closer = settle(volumes, row, bodies, lane, least)
            least = closer if closer < least else least
    return least
