"""What hangs on the flange, and how sure is that? Mass, centre of gravity and inertia about it, however they came."""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import (
    about_center_of_mass,
    change_frame,
    check_consistency,
    frame_change_matrix,
    from_center_of_mass,
)

PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
NAMES = ("xx", "xy", "xz", "yy", "yz", "zz")
NORMAL_95 = 1.96
_ROUNDING = 1e-12  # relative: a covariance may miss being positive by this


@dataclass(frozen=True, eq=False, slots=True)
class Load:
    """A body on the flange; SI units, all in the flange frame."""

    name: str
    source: str  # where its data come from
    frame: str  # which frame is taken for the flange
    mass: float
    center: FloatArray  # (3,)
    inertia: FloatArray  # (3, 3), about the centre of gravity
    covariance: FloatArray | None = None  # (10, 10) of mass, centre, inertia (xx xy xz yy yz zz); None: as stated

    def __post_init__(self) -> None:
        freeze(self, center="3", inertia="3 3")
        if self.covariance is not None:
            freeze(self, covariance="10 10")

    @property
    def sigma(self) -> FloatArray | None:
        """Standard deviations of mass, centre and inertia."""
        return None if self.covariance is None else np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class Principal:
    """Principal axes of inertia, right-handed, and the moments about them."""

    moments: FloatArray  # (3,)
    axes: FloatArray  # (3, 3): columns, in the flange frame
    sigma: FloatArray | None  # (3,)


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """What is said of a load besides its parameters."""

    name: str
    source: str
    frame: str
    T_flange_frame: FloatArray  # of the frame that its parameters are given in
    point: bool = False  # its inertia is dropped


def load_of(phi: FloatArray, covariance: FloatArray | None, origin: Origin) -> Load:
    """Turn ten parameters about a frame's origin into a load in the flange frame; ExcitorError if no body has them.

    c = h / m,  I = I_o + S(h) S(h) / m,  covariances by the derivatives of both.
    """
    if origin.point and phi[9] > 0.0:
        phi = from_center_of_mass(float(phi[9]), phi[6:9] / phi[9], np.zeros((3, 3)))
    own = check_consistency(phi)
    if not own.mass > 0.0:
        raise ExcitorError(f"{origin.name}: its mass is {own.mass:.4g} kg, so that it is no load")
    if not own.holds:
        told = ", ".join(f"{x:.3g}" for x in own.principal_moments)
        raise ExcitorError(
            f"{origin.name}: no body can have these data: its principal inertias are {told} kg m2, of which none may "
            "be below 0 or exceed the sum of the others; excite it more, or export its mass alone with --point-mass"
        )
    moved = change_frame(phi, origin.T_flange_frame)
    mass, center, inertia = about_center_of_mass(moved)
    inertia = np.zeros((3, 3)) if origin.point else 0.5 * (inertia + inertia.T)
    if covariance is not None:
        J = _derivative(moved) @ frame_change_matrix(origin.T_flange_frame)
        covariance = J @ covariance @ J.T
        if origin.point:
            covariance[4:] = covariance[:, 4:] = 0.0
    return Load(origin.name, origin.source, origin.frame, mass, center, inertia, covariance)


def check_known(load: Load) -> None:
    """Refuse what is less sure than it is large: such numbers do more harm on a controller than none."""
    sigma = load.sigma
    if sigma is None:
        return
    if sigma[0] >= load.mass:
        raise ExcitorError(f"{load.name}: its mass is {load.mass:.4g} ± {sigma[0]:.2g} kg, which says nothing")
    found = principal(load)
    reach = float(np.linalg.norm(load.center)) + float(np.sqrt(found.moments.sum() / load.mass))
    if sigma[1:4].max() >= reach:
        told = ", ".join(f"{c:.4g} ± {s:.2g}" for c, s in zip(load.center, sigma[1:4], strict=True))
        raise ExcitorError(f"{load.name}: its centre of gravity is at {told} m, which says nothing")
    assert found.sigma is not None
    if (found.sigma >= found.moments).any() and found.moments.any():
        told = ", ".join(f"{x:.3g} ± {s:.2g}" for x, s in zip(found.moments, found.sigma, strict=True))
        raise ExcitorError(
            f"{load.name}: its principal inertias are {told} kg m2, not all of which say anything; excite it more, "
            "or export its mass alone with --point-mass"
        )


def principal(load: Load) -> Principal:
    """Find the principal axes, named so that they lie as near to the flange's as they can.

    To first order an axis' moment changes by aᵀ dI a.
    """
    moments, axes = np.linalg.eigh(load.inertia)
    order = _nearest(axes)
    axes = axes[:, order]
    axes = axes * np.where(np.diag(axes) < 0.0, -1.0, 1.0)
    if np.linalg.det(axes) < 0.0:
        axes[:, np.argmin(np.abs(np.diag(axes)))] *= -1.0
    moments = np.maximum(moments[order], 0.0)
    if load.covariance is None:
        return Principal(moments, axes, None)
    rows = np.array([[(1.0 if a == b else 2.0) * x[a] * x[b] for a, b in PAIRS] for x in axes.T])
    variance = np.einsum("ka,ab,kb->k", rows, load.covariance[4:, 4:], rows)
    return Principal(moments, axes, np.sqrt(np.maximum(variance, 0.0)))


def check_covariance(covariance: FloatArray, where: str) -> None:
    """Refuse what is no covariance."""
    size = float(np.abs(covariance).max())
    if not np.allclose(covariance, covariance.T, rtol=0.0, atol=1e-9 * size):
        raise ExcitorError(f"{where}: is not symmetric, as a covariance is")
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scaled = covariance / np.outer(*(np.where(scale > 0.0, scale, 1.0),) * 2)
    if (np.diag(covariance) < 0.0).any() or np.linalg.eigvalsh(scaled)[0] < -1e-6:
        raise ExcitorError(f"{where}: has a negative variance, which no covariance has")


def _nearest(axes: FloatArray) -> list[int]:
    from itertools import permutations

    return list(max(permutations(range(3)), key=lambda order: sum(abs(axes[k, j]) for k, j in enumerate(order))))


def _derivative(phi: FloatArray) -> FloatArray:
    """Differentiate mass, centre and inertia about it by phi: (10, 10)."""
    m, h = phi[9], phi[6:9]
    J = np.zeros((10, 10))
    J[0, 9] = 1.0
    J[1:4, 6:9] = np.eye(3) / m
    J[1:4, 9] = -h / m**2
    J[4:, :6] = np.eye(6)
    for k in range(3):
        e = np.eye(3)[k]
        J[4:, 6 + k] = _entries(-(2.0 * h[k] * np.eye(3) - np.outer(e, h) - np.outer(h, e)) / m)
    J[4:, 9] = _entries((h @ h * np.eye(3) - np.outer(h, h)) / m**2)
    return J


def _entries(matrix: FloatArray) -> FloatArray:
    return np.array([matrix[a, b] for a, b in PAIRS])
