"""Which digits of a load does a controller get? Rounded to the safe side: no lighter, no shorter, never impossible."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from excitor.design.programs.target import comment
from excitor.experiments.exporting.load import NAMES, NORMAL_95, PAIRS, Load, Principal, principal
from excitor.robots.arrays import FloatArray

MASS, CENTER, INERTIA = 3, 5, 6  # decimals of kg, m, kg m2: what a controller can use
_SHARE = 0.1  # of a standard deviation: finer digits say nothing


@dataclass(frozen=True, eq=False, slots=True)
class Numbers:
    """A load as it is written: SI units, rounded."""

    mass: float
    center: FloatArray  # (3,)
    moments: FloatArray  # (3,), about the principal axes
    axes: FloatArray  # (3, 3)
    tensor: FloatArray  # (3, 3), about the centre in the flange's axes
    told: tuple[str, ...]  # what it rests on, a line each


def numbers_of(load: Load) -> Numbers:
    """Round a load: masses, inertias and distances up, by no more than a tenth of a standard deviation."""
    found = principal(load)
    sigma = np.zeros(10) if load.sigma is None else load.sigma
    inner = np.zeros(3) if found.sigma is None else found.sigma
    moments = np.array([_up(x, _decimals(s, INERTIA)) for x, s in zip(found.moments, inner, strict=True)])
    if load.inertia.any():
        moments = _possible(moments, 10.0 ** -_decimals(float(inner.max()), INERTIA))
    return Numbers(
        mass=_up(load.mass, _decimals(sigma[0], MASS)),
        center=np.array([_up(x, _decimals(s, CENTER)) for x, s in zip(load.center, sigma[1:4], strict=True)]),
        moments=moments,
        axes=found.axes,
        tensor=_tensor(load, sigma[4:]),
        told=tuple(_told(load, found)),
    )


def _decimals(sigma: float, most: int) -> int:
    """Count decimals: as many as are known, and no more than can be used."""
    if sigma <= 0.0:
        return most
    return max(0, min(most, math.ceil(-math.log10(_SHARE * sigma))))


def _up(value: float, decimals: int) -> float:
    """Round away from 0; what is 0 but for rounding errors stays 0."""
    steps = abs(value) * 10.0**decimals
    return math.copysign(round(math.ceil(steps - 1e-6) / 10.0**decimals, decimals), value) + 0.0


def _possible(moments: FloatArray, step: float) -> FloatArray:
    """Raise the smaller moments until the largest does not exceed their sum."""
    lack = moments.max() - (moments.sum() - moments.max())
    if lack > 0.0:
        small = np.argsort(moments)[:2]
        moments = moments.copy()
        moments[small] += math.ceil(0.5 * lack / step - 1e-6) * step
    return np.round(moments, INERTIA)


def _tensor(load: Load, sigma: FloatArray) -> FloatArray:
    """Round the diagonal up and the products to the nearest; then up again until a body can have it."""
    if not load.inertia.any():
        return np.zeros((3, 3))
    decimals = _decimals(float(sigma.max()), INERTIA)
    tensor = np.round(load.inertia, decimals)
    for k in range(3):
        tensor[k, k] = _up(load.inertia[k, k], decimals)
    while np.linalg.eigvalsh(0.5 * np.trace(tensor) * np.eye(3) - tensor)[0] < 0.0:
        tensor = tensor + 10.0**-decimals * np.eye(3)
    return np.round(tensor, decimals) + 0.0


def _told(load: Load, found: Principal) -> Iterator[str]:
    """Say where it comes from, and between which values it lies."""
    yield f"Written by Excitor {version('excitor')}: {comment(load.name)}, {comment(load.source)}"
    yield f"In the frame {comment(load.frame)}; compare its axes with the controller's flange before use"
    if load.sigma is None:
        yield "As stated, without uncertainty; rounded up"
        return
    sides = NORMAL_95 * load.sigma
    yield "95 percent intervals, before rounding up:"
    yield _interval("mass", load.mass, sides[0], "kg")
    for k, axis in enumerate("xyz"):
        yield _interval(f"centre {axis}", 1e3 * load.center[k], 1e3 * sides[1 + k], "mm")
    if not load.inertia.any():
        yield "a point mass: its inertia was not asked for"
        return
    assert found.sigma is not None
    for k, axis in enumerate("xyz"):
        yield _interval(f"principal inertia {axis}", found.moments[k], NORMAL_95 * found.sigma[k], "kg m2")
    for k, (a, b) in enumerate(PAIRS):
        yield _interval(f"inertia {NAMES[k]}", load.inertia[a, b], sides[4 + k], "kg m2")


def _interval(what: str, value: float, side: float, unit: str) -> str:
    return f"{what} {value:.5g}, from {value - side:.5g} to {value + side:.5g} {unit}"
