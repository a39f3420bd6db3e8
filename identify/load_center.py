"""A load as people know it: mass, centre of gravity, and inertia about it, each with its interval."""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import Consistency, check_consistency, tensor

CENTER_NAMES = ("m", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
CENTER_UNITS = ("kg", "m", "m", "m", *("kg m2",) * 6)
REACH = 1.959963984540054  # standard deviations of a 95 % interval
_ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


@dataclass(frozen=True, eq=False, slots=True)
class LoadAtCenter:
    """m, c and the tensor's entries about the centre of gravity, axes of the link's frame (Ixy is the entry itself)."""

    values: FloatArray  # (10,), as CENTER_NAMES
    covariance: FloatArray  # (10, 10)
    consistency: Consistency  # whether a body could have these values

    def __post_init__(self) -> None:
        freeze(self, values="10", covariance="10 10")

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (10,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.values[0])

    @property
    def center(self) -> FloatArray:
        """Centre of gravity, (3,), m."""
        return self.values[1:4]

    @property
    def low(self) -> FloatArray:
        """Lower ends of the 95 % intervals, (10,)."""
        return np.asarray(self.values - REACH * self.sigma)

    @property
    def high(self) -> FloatArray:
        """Upper ends of the 95 % intervals, (10,)."""
        return np.asarray(self.values + REACH * self.sigma)


def at_center(phi: FloatArray, covariance: FloatArray) -> LoadAtCenter:
    """Move parameters at the frame's origin (10,), and their covariance, to the centre of gravity."""
    T = center_slope(phi)
    C = T @ covariance @ T.T
    return LoadAtCenter(center_values(phi), 0.5 * (C + C.T), check_consistency(phi))


def center_values(phi: FloatArray) -> FloatArray:
    """Evaluate c = h / m and I = I_0 - (hᵀh E - h hᵀ) / m, (10,) as CENTER_NAMES."""
    h, m = _moments(phi)
    inertia = tensor(phi) - (h @ h * np.eye(3) - np.outer(h, h)) / m
    return np.array([m, *(h / m), *(inertia[entry] for entry in _ENTRIES)])


def center_slope(phi: FloatArray) -> FloatArray:
    """Differentiate `center_values` by phi, (10, 10)."""
    h, m = _moments(phi)
    E = np.eye(3)
    T = np.zeros((10, 10))
    T[0, 9] = 1.0
    T[1:4, 6:9], T[1:4, 9] = E / m, -h / m**2
    for column, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):  # XX XY XZ YY YZ ZZ
        T[4 + _ENTRIES.index((a, b)), column] = 1.0
    for row, (a, b) in enumerate(_ENTRIES):
        T[4 + row, 6:9] = (E[a] * h[b] + E[b] * h[a] - 2.0 * h * E[a, b]) / m
        T[4 + row, 9] = (h @ h * E[a, b] - h[a] * h[b]) / m**2
    return T


def _moments(phi: FloatArray) -> tuple[FloatArray, float]:
    m = float(phi[9])
    if m == 0.0:
        raise ExcitorError("the load's mass is 0, so it has no centre of gravity; was the load on the robot?")
    return np.asarray(phi[6:9]), m
