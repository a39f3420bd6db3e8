"""A tree as the flat arrays that compiled code reads."""

from typing import NamedTuple

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.kernel.compile import JOINT_CONSTANTS


class Chain(NamedTuple):
    """Joints as constants, and which coordinate moves which link.

    Links come after their parents. A pair is a link and a coordinate that moves it; the pairs of link j are
    numbered pair_start[j] … pair_start[j + 1] - 1; pair_above is the same coordinate's pair at the parent (-1: none).
    """

    parents: IntArray
    constants: FloatArray  # (n_links, JOINT_CONSTANTS)
    coupling: FloatArray  # (n_links, n_joints)
    offset: FloatArray
    gravity: FloatArray
    supports: BoolArray  # (n_links, n_joints)
    pair_start: IntArray
    pair_joint: IntArray
    pair_above: IntArray


def joint_constants(before: FloatArray, axis: FloatArray, after: FloatArray, sliding: bool) -> FloatArray:
    """Write T_parent_link(θ) as C0 + C1 sin θ + C2 cos θ (and c3 θ), then the joint's screw in the link's frame.

    Rot(a, θ) = a aᵀ + sin θ S(a) + cos θ (1 - a aᵀ).
    """
    A, p = before[:3, :3], before[:3, 3]
    B, b = after[:3, :3], after[:3, 3]
    along = np.outer(axis, axis)
    still = (np.eye(3), np.zeros((3, 3)), np.zeros((3, 3)))
    terms = still if sliding else (along, skew(axis), np.eye(3) - along)
    slide = A @ axis if sliding else np.zeros(3)
    angular = np.zeros(3) if sliding else B.T @ axis
    linear = B.T @ (axis if sliding else np.cross(axis, b))
    rotation = [(A @ term @ B).ravel() for term in terms]
    origin = [p + A @ terms[0] @ b, A @ terms[1] @ b, A @ terms[2] @ b]
    constants = np.concatenate([*rotation, *origin, slide, angular, linear])
    assert constants.size == JOINT_CONSTANTS
    return constants


def pairs(parents: IntArray, coupling: FloatArray) -> tuple[BoolArray, IntArray, IntArray, IntArray]:
    """Find which coordinates move which links: supports, pair_start, pair_joint, pair_above."""
    n_links, n_joints = coupling.shape
    supports = coupling != 0.0
    for j, parent in enumerate(parents):
        if parent >= 0:
            supports[j] |= supports[parent]
    number = np.full((n_links, n_joints), -1)
    number[supports] = np.arange(supports.sum())
    link, joint = np.nonzero(supports)
    above = [number[parents[j], i] if parents[j] >= 0 else -1 for j, i in zip(link, joint, strict=True)]
    start = np.concatenate([[0], np.cumsum(supports.sum(axis=1))])
    return supports, start.astype(np.int64), joint.astype(np.int64), np.array(above, dtype=np.int64)


def skew(a: FloatArray) -> FloatArray:
    """Write the matrix of a cross product: skew(a) @ b = a × b."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
