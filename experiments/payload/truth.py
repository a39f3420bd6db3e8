"""What does a virtual robot truly carry? A body near the guess, and unlike it."""

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.inertia import about_center_of_mass, from_center_of_mass, parameters_of, pseudo_inertia

SPREAD = 0.3  # of mass and centre at most; lengths stretch by half of it
DENSITY = 2000.0  # kg/m³, of a load whose guess has no size


def draw_load(guess: FloatArray, seed: int) -> FloatArray:
    """Stretch, turn and shift the guess: P' = s A P Aᵀ of its pseudo-inertia, so that it stays a body; (10,).

    A = [[E + S, d], [0, 1]] about the guessed centre.
    """
    rng = np.random.default_rng([seed, 0x6C6F6164])
    mass, center, inertia = about_center_of_mass(guess)
    if not np.linalg.eigvalsh(inertia)[0] > 0.0:
        radius = (3.0 * mass / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
        inertia = inertia + 0.4 * mass * radius**2 * np.eye(3)
    stretch = np.eye(3) + 0.5 * SPREAD * np.diag(rng.uniform(-1.0, 1.0, 3))
    a, b, c = 0.25 * SPREAD * rng.uniform(-1.0, 1.0, 3)
    stretch += np.array([[0.0, a, b], [a, 0.0, c], [b, c, 0.0]])
    affine = np.eye(4)
    affine[:3, :3] = stretch
    shift = SPREAD * np.linalg.norm(center) * rng.uniform(-1.0, 1.0, 3) / np.sqrt(3.0)
    affine[:3, 3] = center + shift
    centered = pseudo_inertia(from_center_of_mass(mass, np.zeros(3), inertia))
    scale = 1.0 + SPREAD * rng.uniform(-1.0, 1.0)
    return np.asarray(parameters_of(scale * affine @ centered @ affine.T))
