"""How good an information matrix is: one number, small is good, and its gradient.

All take G = WᵀW (…, n, n) of the chosen columns; a singular matrix is `inf`. Letters: λ eigenvalues of the scaled
matrix S G S, V its eigenvectors, s the diagonal of S.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.robots.arrays import FloatArray, locked

Kind = Literal["condition", "raw-condition", "d", "a", "e", "sigma", "path"]

SOFT_FLOOR = 1e-13  # of eigenvalues of a normalised matrix


@dataclass(frozen=True, eq=False, slots=True)
class Criterion:
    """Which number is to be made small.

    condition  √(λ_max / λ_min) of the column-normalised matrix
    raw-condition  the same without normalising: it depends on the units, and is here to compare with those who use it
    d          exp(-mean log λ / 2): the geometric mean of the standard deviations
    a          √ mean diag F⁻¹: the quadratic mean of the standard deviations
    e          1 / √λ_min: the largest standard deviation of any combination
    sigma      √ mean diag F⁻¹ over chosen parameters, each by its own scale: expected relative deviation
    path       √ tr(F⁻¹ T): expected torque deviation on a task path whose mean WᵀW is T

    `scale` turns parameters into comparable ones (expected magnitudes); the condition number needs none.
    """

    kind: Kind = "condition"
    scale: FloatArray | None = None  # (n,)
    chosen: tuple[int, ...] = ()  # of sigma: indices into the columns
    task: FloatArray | None = None  # of path: (n, n)

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", locked(self.scale))
            if not (np.isfinite(self.scale).all() and (self.scale > 0.0).all()):
                raise ValueError("scale must be positive for every column; give each parameter its expected magnitude")
        if self.task is not None:
            object.__setattr__(self, "task", locked(self.task))
        if (self.kind == "sigma") != bool(self.chosen):
            raise ValueError("the sigma criterion, and no other, needs the chosen parameters")
        if (self.kind == "path") != (self.task is not None):
            raise ValueError("the path criterion, and no other, needs a task")


def values(criterion: Criterion, G: FloatArray) -> FloatArray:
    """Evaluate the criterion of a stack of matrices, (n_matrices,)."""
    if criterion.kind in ("condition", "raw-condition"):
        return conditions(G, criterion.kind == "condition")
    F = _scaled(G, criterion.scale)
    scale = np.sqrt(np.einsum("bii->bi", F))
    good = (scale > 0.0).all(axis=1) & np.isfinite(scale).all(axis=1)
    out = np.full(len(G), np.inf)
    if good.any():
        out[good] = _values(criterion, F[good])
    return out


def conditions(G: FloatArray, normalised: bool = True) -> FloatArray:
    """Find the condition numbers of (column-normalised) matrices from their Gram matrices; inf where singular."""
    n = G.shape[-1]
    square = np.einsum("bii->bi", G)
    good = (square > 0.0).all(axis=1) & np.isfinite(square).all(axis=1)
    out = np.full(len(G), np.inf)
    if not good.any():
        return out
    d = 1.0 / np.sqrt(square[good]) if normalised else np.ones((int(good.sum()), n))
    eigenvalues = np.linalg.eigvalsh(G[good] * d[:, :, None] * d[:, None, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = eigenvalues[:, -1] / eigenvalues[:, 0]
    singular = eigenvalues[:, 0] <= n * np.finfo(float).eps * eigenvalues[:, -1]
    out[good] = np.where(singular, np.inf, np.sqrt(np.where(singular, 1.0, ratio)))
    return out


def gradient(criterion: Criterion, G: FloatArray, softness: float = 200.0) -> tuple[float, FloatArray]:
    """Evaluate the criterion's logarithm and its derivative by G (symmetric); the condition number softened.

    A singular matrix is (inf, 0).
    """
    if criterion.kind in ("condition", "raw-condition"):
        return soft_condition(G, softness, criterion.kind == "condition")
    F = _scaled(G[None], criterion.scale)[0]
    value, dF = _gradient(criterion, F)
    if criterion.scale is not None:
        dF = dF * np.outer(criterion.scale, criterion.scale)
    return value, dF


def soft_condition(G: FloatArray, p: float, normalised: bool = True) -> tuple[float, FloatArray]:
    """Evaluate J = (log Σ λᵖ + log Σ λ⁻ᵖ) / 2p ≥ log of the condition number, and dJ/dG.

    log cond ≤ J ≤ log cond + log(n) / p. The column norms move too: with D = diag(G)^(-1/2), M = D V w Vᵀ D, the
    diagonal loses d_k² Σ_i V_ki² w_i λ_i.
    """
    square = np.diag(G)
    if not (square > 0.0).all() or not np.isfinite(G).all():
        return float("inf"), np.zeros_like(G)
    d = 1.0 / np.sqrt(square) if normalised else np.ones(len(G))
    eigenvalues, V = np.linalg.eigh(G * np.outer(d, d))
    eigenvalues = np.maximum(eigenvalues, SOFT_FLOOR * eigenvalues[-1])
    largest, smallest = eigenvalues[-1], eigenvalues[0]
    up, down = (eigenvalues / largest) ** p, (smallest / eigenvalues) ** p
    value = 0.5 * (np.log(largest / smallest) + (np.log(up.sum()) + np.log(down.sum())) / p)
    w = 0.5 / eigenvalues * (up / up.sum() - down / down.sum())
    M = (V * w) @ V.T * np.outer(d, d)
    if normalised:
        M[np.diag_indices_from(M)] -= d * d * ((V * V) @ (w * eigenvalues))
    return float(value), M


def _scaled(G: FloatArray, scale: FloatArray | None) -> FloatArray:
    return G if scale is None else np.asarray(G * scale[:, None] * scale[None, :])


def _values(criterion: Criterion, F: FloatArray) -> FloatArray:
    """Evaluate on matrices normalised by d = diag(F)^(-1/2) first, so that units do not make them look singular."""
    n = F.shape[-1]
    d = 1.0 / np.sqrt(np.einsum("bii->bi", F))
    eigenvalues, V = np.linalg.eigh(F * d[:, :, None] * d[:, None, :])
    singular = eigenvalues[:, 0] <= n * np.finfo(float).eps * eigenvalues[:, -1]
    safe = np.where(singular[:, None], 1.0, eigenvalues)
    if criterion.kind == "d":
        found = np.exp(np.log(d).mean(axis=1) - 0.5 * np.log(safe).mean(axis=1))
    elif criterion.kind == "e":
        smallest = np.linalg.eigvalsh(F)[:, 0]
        singular |= smallest <= 0.0
        found = 1.0 / np.sqrt(np.where(singular, 1.0, smallest))
    else:
        DV = V * d[:, :, None]
        found = np.sqrt(np.einsum("bki,kl,bli,bi->b", DV, _sought(criterion, n), DV, 1.0 / safe, optimize=True))
    return np.where(singular, np.inf, found)


def _gradient(criterion: Criterion, F: FloatArray) -> tuple[float, FloatArray]:
    """Differentiate log values: d tr(F⁻¹ S) = -tr(F⁻¹ S F⁻¹ dF)."""
    n = len(F)
    if not ((np.diag(F) > 0.0).all() and np.isfinite(F).all()):
        return float("inf"), np.zeros_like(F)
    d = 1.0 / np.sqrt(np.diag(F))
    eigenvalues, V = np.linalg.eigh(F * np.outer(d, d))
    if not eigenvalues[0] > n * np.finfo(float).eps * eigenvalues[-1]:
        return float("inf"), np.zeros_like(F)
    inverse = (V / eigenvalues) @ V.T * np.outer(d, d)
    if criterion.kind == "d":
        return float(np.log(d).mean() - 0.5 * np.log(eigenvalues).mean()), -0.5 / n * inverse
    if criterion.kind == "e":
        own, U = np.linalg.eigh(F)
        if own[0] <= 0.0:
            return float("inf"), np.zeros_like(F)
        return float(-0.5 * np.log(own[0])), -0.5 / own[0] * np.outer(U[:, 0], U[:, 0])
    sought = _sought(criterion, n)
    total = float(np.sum(inverse * sought))
    return 0.5 * float(np.log(total)), -0.5 / total * (inverse @ sought @ inverse)


def _sought(criterion: Criterion, n: int) -> FloatArray:
    """Write S of tr(F⁻¹ S)."""
    if criterion.kind == "path":
        assert criterion.task is not None
        scale = np.ones(n) if criterion.scale is None else criterion.scale
        return np.asarray(criterion.task * np.outer(scale, scale))
    chosen = np.arange(n) if criterion.kind == "a" else np.array(criterion.chosen)
    weights = np.zeros(n)
    weights[chosen] = 1.0 / len(chosen)
    return np.diag(weights)
