"""Rigid transforms: 4x4 matrices from angles and lengths, exact where the angles are."""

import math

import numpy as np

from excitor.robots.arrays import FloatArray


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


def inverse(T: FloatArray) -> FloatArray:
    """Invert a rigid transform."""
    out = np.eye(4)
    out[:3, :3] = T[:3, :3].T
    out[:3, 3] = -T[:3, :3].T @ T[:3, 3]
    return out
