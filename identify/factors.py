"""Equations compressed: triangular factors by joint and run, from which every linear estimate follows.

QR of [W y] keeps all that least squares needs in a triangle of n + 1 rows; factors of parts are merged by another QR
(TSQR), so memory does not grow with the log. Keeping one factor a joint and run lets weights be chosen afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.regression import Regression
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, one_blas_thread


@dataclass(frozen=True, eq=False, slots=True)
class Factors:
    """Upper triangles R with Rᵀ R = [W y]ᵀ [W y], one for each group of rows of one joint in one run."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    joint: IntArray  # (n_groups,), -1 for power
    run: IntArray  # (n_groups,)
    n_rows: IntArray  # (n_groups,)
    R: FloatArray  # (n_groups, n_columns + 1, n_columns + 1)

    def __post_init__(self) -> None:
        sizes = freeze(self, R="n_groups n_size n_size", joint="int: n_groups", run="int: n_groups")
        freeze(self, n_rows="int: n_groups")
        if len(self.names) + 1 != sizes["n_size"]:
            raise ValueError(f"Factors.names has {len(self.names)} entries, expected {sizes['n_size'] - 1}")

    @property
    def n_columns(self) -> int:
        """Count the parameters."""
        return len(self.names)


@one_blas_thread()
def compress(regression: Regression, row_weights: FloatArray | None = None) -> Factors:
    """Compress equations, each row multiplied by its weight first."""
    labels = np.column_stack([regression.joint, regression.run])
    groups = np.unique(labels, axis=0)
    system = np.column_stack([regression.W, regression.y])
    if row_weights is not None:
        system = system * row_weights[:, None]
    chosen = [(labels == group).all(axis=1) for group in groups]
    return Factors(
        names=regression.names,
        units=regression.units,
        joint=groups[:, 0],
        run=groups[:, 1],
        n_rows=np.array([np.count_nonzero(rows) for rows in chosen]),
        R=np.array([triangle(system[rows]) for rows in chosen]),
    )


@one_blas_thread()
def merge(parts: Iterable[Factors]) -> Factors:
    """Merge factors of further rows of the same model, group by group."""
    merged: dict[tuple[int, int], tuple[int, FloatArray]] = {}
    first: Factors | None = None
    for part in parts:
        first = first or part
        if part.names != first.names:
            raise ValueError("the factors are of different parameters; compress the same columns everywhere")
        for key, n_rows, R in zip(zip(part.joint, part.run, strict=True), part.n_rows, part.R, strict=True):
            group = (int(key[0]), int(key[1]))
            count, before = merged.get(group, (0, np.zeros((0, R.shape[1]))))
            merged[group] = (count + int(n_rows), triangle(np.concatenate([before, R])))
    if first is None:
        raise ValueError("there are no factors to merge")
    groups = sorted(merged)
    return Factors(
        names=first.names,
        units=first.units,
        joint=np.array([joint for joint, _ in groups]),
        run=np.array([run for _, run in groups]),
        n_rows=np.array([merged[group][0] for group in groups]),
        R=np.array([merged[group][1] for group in groups]),
    )


def triangle(rows: FloatArray) -> FloatArray:
    """Upper triangular factor of rows, square whatever their count."""
    size = rows.shape[1]
    R = scipy.linalg.qr(rows, mode="r", check_finite=False)[0][:size]
    return np.concatenate([R, np.zeros((size - len(R), size))]) if len(R) < size else R


def select(factors: Factors, kept: BoolArray) -> Factors:
    """Keep some parameters; the others are 0."""
    columns = np.append(kept, True)
    names = tuple(name for name, keep in zip(factors.names, kept, strict=True) if keep)
    units = tuple(unit for unit, keep in zip(factors.units, kept, strict=True) if keep)
    R = np.array([triangle(R[:, columns]) for R in factors.R])
    return Factors(names, units, factors.joint, factors.run, factors.n_rows, R)


def total(factors: Factors, weights: FloatArray) -> FloatArray:
    """Merge all groups into one triangle, the rows of group g multiplied by weights[g]."""
    scaled = factors.R * weights[:, None, None]
    return triangle(scaled.reshape(-1, scaled.shape[2]))


def residual_norms(factors: Factors, beta: FloatArray) -> FloatArray:
    """Norm of y - W β in each group, (n_groups,)."""
    return np.asarray(np.linalg.norm(factors.R @ np.append(-beta, 1.0), axis=1))
