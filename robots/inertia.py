"""Rigid-body inertia: ten parameters, the 4x4 pseudo-inertia they form, and its physical consistency; rigid transforms.

[Wensing2017]: P = [Σ h; hᵀ m] with Σ = tr(I)/2 · 1 - I is the second moment of the mass distribution, so a body
exists exactly when P is positive semidefinite. A change of frame is T P Tᵀ; bodies joined add up. Rigid transforms
are exact at quarter turns.
"""

import math
from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.kernel.compile import skew

_ROUNDING = 1e-12  # a thin rod, or a point, sits on the edge of what can exist
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def tensor(phi: FloatArray) -> FloatArray:
    """Inertia tensor about the frame's origin, (3, 3), from phi (10,)."""
    xx, xy, xz, yy, yz, zz = phi[:6]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def pseudo_inertia(phi: FloatArray) -> FloatArray:
    """P (4, 4) from phi (10,)."""
    inertia = tensor(phi)
    P = np.empty((4, 4))
    P[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    P[:3, 3] = P[3, :3] = phi[6:9]
    P[3, 3] = phi[9]
    return P


def parameters_of(P: FloatArray) -> FloatArray:
    """Invert `pseudo_inertia`: phi (10,) from P (4, 4)."""
    inertia = np.trace(P[:3, :3]) * np.eye(3) - P[:3, :3]
    return np.array([*(inertia[a, b] for a, b in _PAIRS), *P[:3, 3], P[3, 3]])


def change_frame(phi: FloatArray, T_new_old: FloatArray) -> FloatArray:
    """Express a body's parameters in another frame: P_new = T P Tᵀ."""
    return parameters_of(T_new_old @ pseudo_inertia(phi) @ T_new_old.T)


def frame_change_matrix(T_new_old: FloatArray) -> FloatArray:
    """Write `change_frame` as a matrix: phi_new = X phi_old, X (10, 10)."""
    return np.column_stack([change_frame(unit, T_new_old) for unit in np.eye(10)])


def from_center_of_mass(mass: float, center: FloatArray, inertia: FloatArray) -> FloatArray:
    """Build phi (10,) from mass, centre of mass (3,) and the inertia tensor (3, 3) about it, axes of the frame."""
    S = skew(np.asarray(center, dtype=float))
    at_origin = inertia - mass * S @ S
    return np.array([*(at_origin[a, b] for a, b in _PAIRS), *(mass * np.asarray(center)), mass])


def about_center_of_mass(phi: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Split phi into mass, centre of mass (3,) and the inertia tensor (3, 3) about it; the mass must not be 0."""
    mass = float(phi[9])
    if mass == 0.0:
        raise ValueError("the mass is 0: a body without mass has no centre of mass")
    S = skew(phi[6:9] / mass)
    return mass, phi[6:9] / mass, tensor(phi) + mass * S @ S


@dataclass(frozen=True, eq=False, slots=True)
class Consistency:
    """Physical consistency of a body's parameters, by margins; negative ones mean that no such body exists."""

    mass: float
    smallest_eigenvalue: float  # of the pseudo-inertia, mixed units
    relative_margin: float  # smallest eigenvalue of the pseudo-inertia scaled to unit diagonal
    triangle_margin: float  # least of I_a + I_b - I_c of the principal moments about the centre of mass, kg m²
    principal_moments: FloatArray  # about the centre of mass, ascending

    @property
    def holds(self) -> bool:
        """True if a rigid body with these parameters exists."""
        return self.mass > 0.0 and self.relative_margin >= -_ROUNDING


def check_consistency(phi: FloatArray) -> Consistency:
    """Compute the margins of physical consistency of phi (10,)."""
    P = pseudo_inertia(phi)
    smallest = float(np.linalg.eigvalsh(P)[0])
    diagonal = np.diag(P)
    if (diagonal > np.finfo(float).eps * diagonal.max()).all():  # else a direction without extent, up to rounding
        scale = 1.0 / np.sqrt(diagonal)
        relative = float(np.linalg.eigvalsh(P * np.outer(scale, scale))[0])
    else:
        relative = min(0.0, smallest / max(float(np.abs(P).max()), np.finfo(float).tiny))
    if phi[9] <= 0.0:
        return Consistency(float(phi[9]), smallest, min(relative, 0.0), np.nan, np.full(3, np.nan))
    moments = np.linalg.eigvalsh(about_center_of_mass(phi)[2])
    return Consistency(float(phi[9]), smallest, relative, float(moments[0] + moments[1] - moments[2]), moments)


def translation(x: float, y: float, z: float) -> FloatArray:
    """Shift by (x, y, z)."""
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def rotation(axis: str, angle: float) -> FloatArray:
    """Turn about "x", "y" or "z"; quarter turns have exact zeros and ones."""
    c, s = exact_cosine(angle), exact_cosine(angle - math.pi / 2)
    T = np.eye(4)
    a, b = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    T[a, a] = T[b, b] = c
    T[a, b], T[b, a] = -s, s
    return T


def exact_cosine(angle: float) -> float:
    """Evaluate cos, with 0 and ±1 exact at multiples of a quarter turn."""
    c = math.cos(angle)
    nearest = round(c)
    return float(nearest) if abs(c - nearest) < 1e-15 else c


def roll_pitch_yaw(roll: float, pitch: float, yaw: float) -> FloatArray:
    """Turn about the fixed axes x, y, z in this order, as URDF does: Rz(yaw) Ry(pitch) Rx(roll)."""
    return rotation("z", yaw) @ rotation("y", pitch) @ rotation("x", roll)


def roll_pitch_yaw_of(T: FloatArray) -> tuple[float, float, float]:
    """Angles with Rz(yaw) Ry(pitch) Rx(roll) = R; also where pitch is a quarter turn, and yaw may be anything."""
    R = T[:3, :3]
    yaw = math.atan2(R[1, 0], R[0, 0])
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    rest = (rotation("z", yaw) @ rotation("y", pitch))[:3, :3].T @ R
    return math.atan2(rest[2, 1], rest[1, 1]), pitch, yaw


def inverse(T: FloatArray) -> FloatArray:
    """Invert a rigid transform."""
    out = np.eye(4)
    out[:3, :3] = T[:3, :3].T
    out[:3, 3] = -T[:3, :3].T @ T[:3, 3]
    return out
