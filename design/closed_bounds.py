"""How fast points of a mechanism and its links' torques can possibly change, be its chain open or closed.

A closed chain's torque is τ = Jᵀ τ_tree, so |τ̈| ≤ |J̈|ᵀ |τ_tree| + 2 |J̇|ᵀ |τ̇_tree| + |J|ᵀ |τ̈_tree|. Its singularities
are where singular values of J are 0 or infinite, and a singular value changes no faster than ‖J̇‖.
"""

from functools import lru_cache

import numpy as np

from excitor.design.bounds import link_rates, point_rates, torque_curvature, torque_rates
from excitor.design.closed_rates import ClosedSpans, closed_spans
from excitor.design.pieces import Spans
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.cell import Scene, scene_rows
from excitor.robots.closed_chain import ClosedLoop, scaled
from excitor.robots.robot import Mechanism, Robot
from excitor.robots.tree import Tree


@lru_cache(maxsize=1)
def enclosed(loop: ClosedLoop, part: Spans) -> ClosedSpans:
    """Keep what is known of the last intervals: several limits ask in turn."""
    return closed_spans(loop, part)


def links_curvature(mechanism: Mechanism, phi: FloatArray, part: Spans) -> tuple[FloatArray, BoolArray]:
    """Bound |τ̈| of the links' torques inside intervals, (n_spans, n_joints), and tell where that is known."""
    if isinstance(mechanism, Tree):
        return torque_curvature(mechanism, phi, part.rates()), np.ones(part.left.size, dtype=bool)
    assert isinstance(mechanism, ClosedLoop)
    closed = enclosed(mechanism, part)
    phi_tree = mechanism.tree_parameters(phi)
    torque = torque_rates(mechanism.tree, phi_tree, closed.links)
    at_samples = np.abs(mechanism.tree.inverse_dynamics(closed.whole.motion, phi_tree))
    torque[0] = np.minimum(torque[0], part.worst_of_ends(at_samples) + part.h**2 / 8.0 * torque[2])
    bend = sum(
        share * np.einsum("scg,sc->sg", closed.J[2 - order], torque[order])
        for order, share in enumerate((1.0, 2.0, 1.0))
    )
    return np.asarray(bend), closed.valid


def body_point_rates(mechanism: Mechanism, body: int, point: FloatArray, part: Spans) -> FloatArray:
    """Bound a point of a body, and its derivatives, as seen from the base's origin, (5, n_spans); inf: not known."""
    if isinstance(mechanism, Tree):
        return point_rates(mechanism, body, point, link_rates(mechanism, part.rates()))
    assert isinstance(mechanism, ClosedLoop)
    closed = enclosed(mechanism, part)
    link = int(mechanism.bodies[body]) if body >= 0 else -1
    return np.where(closed.valid, point_rates(mechanism.tree, link, point, closed.links), np.inf)


def closed_row_speeds(robot: Robot, scene: Scene, part: Spans) -> FloatArray:
    """Bound how fast each row's clearance can change inside intervals, m/s, (n_spans, n_rows).

    It changes no faster than the ends of the body's segment move, of a pair both bodies': |ṗ| ≤ max(|ṗ_a|, |ṗ_b|) +
    h²/8 · max|p⃛|.
    """
    loop, volumes = robot.mechanism, scene_rows(robot, scene).volumes
    assert isinstance(loop, ClosedLoop)
    whole = enclosed(loop, part).whole.motion
    poses, jacobians = loop.tree.poses(whole.q), loop.tree.jacobians(whole.q)
    speeds = np.zeros((len(volumes.link), part.left.size))
    for k, (body, ends) in enumerate(zip(map(int, volumes.link), volumes.ends, strict=True)):
        if body < 0:
            continue
        link = int(loop.bodies[body])
        twist = np.einsum("ska,sa->sk", jacobians[:, link], whole.dq)
        for point in ends.reshape(2, 3):
            velocity = twist[:, :3] + np.cross(twist[:, 3:], poses[:, link, :3, :3] @ point)
            rates = body_point_rates(loop, body, point, part)
            inside = part.worst_of_ends(np.linalg.norm(velocity, axis=1)) + part.h[:, 0] ** 2 / 8.0 * rates[3]
            speeds[k] = np.maximum(speeds[k], np.minimum(inside, rates[1]))
    zones = speeds[volumes.zone_body]
    pairs = speeds[volumes.pairs[:, 0]] + speeds[volumes.pairs[:, 1]]
    return np.concatenate([zones, pairs]).T


def singularity_bounds(loop: ClosedLoop, part: Spans) -> tuple[FloatArray, FloatArray]:
    """Bound distances to singularities from below inside intervals (n_spans, n_types), and tell them at the samples.

    With s a singular value at both ends, s ≤ (s_a + s_b)/2 + h/2 · ‖J̇‖ between, and the least no less than the like.
    """
    closed = enclosed(loop, part)
    at_samples = loop.singularity_distances(part.jets[0])
    by_platform, by_passive = scaled(loop, closed.J[1])
    least = np.minimum(at_samples[part.left], at_samples[part.right])
    apart = (least > 0.0).all(axis=1) & closed.valid
    ends = np.where(apart[None, :, None], np.stack([at_samples[part.left], at_samples[part.right]]), 1.0)
    stray = [np.linalg.norm(by_platform, axis=(1, 2)), np.linalg.norm(by_passive, axis=(1, 2))]
    lowest = [0.5 * ends[:, :, 0].sum(axis=0) - 0.5 * part.h[:, 0] * stray[0]]
    for kind in range(1, at_samples.shape[1]):
        lowest.append(1.0 / (0.5 * (1.0 / ends[:, :, kind]).sum(axis=0) + 0.5 * part.h[:, 0] * stray[kind - 1]))
    return np.where(apart[:, None], np.minimum(np.column_stack(lowest), least), -np.inf), at_samples
