"""Which parameters the data determined, and which only the prior."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, freeze

Label = Literal["data-determined", "prior-dominated", "assumed zero"]
HALF = 0.5
_VAGUE = 1e-6  # of the prior's precision: what "nothing is believed of the others" is computed with


@dataclass(frozen=True, eq=False, slots=True)
class Shares:
    """What a belief became once data came in."""

    share: FloatArray  # (n_params,): part of the precision that data alone bring, 0 … 1
    covariance: FloatArray  # (n_params, n_params), of data and prior together

    def __post_init__(self) -> None:
        freeze(self, share="n_params", covariance="n_params n_params")


def shares(A: FloatArray, B: FloatArray, weight: float) -> Shares:
    """Compare what data alone and what the prior alone know of each parameter χ = B v.

    The prior gives v the covariance 1 / weight, data A v ≈ b of unit variance the information AᵀA. For parameter
    c = eᵀB, with nothing believed of all others, p_data = 1 / (c (AᵀA)⁻¹ cᵀ) and p_prior = weight / (c cᵀ); its share
    is p_data / (p_data + p_prior). A parameter that torques show only combined with others has p_data = 0, although
    data may have moved it. Constraints are not counted.
    """
    _, s, Vt = np.linalg.svd(A, full_matrices=True)
    information = np.zeros(B.shape[1])
    information[: len(s)] = s**2
    directions = B @ Vt.T
    squares = np.sum(B**2, axis=1)
    alone = np.sum(directions**2 / (information + _VAGUE * weight), axis=1)
    both = directions / np.sqrt(information + weight)
    return Shares((squares / weight) / (squares / weight + alone), both @ both.T)


def labels(share: FloatArray, assumed_zero: BoolArray) -> tuple[Label, ...]:
    """Name each parameter by who knows it better, data alone or the prior alone."""
    return tuple(
        "assumed zero" if zero else "data-determined" if part > HALF else "prior-dominated"
        for part, zero in zip(share, assumed_zero, strict=True)
    )
