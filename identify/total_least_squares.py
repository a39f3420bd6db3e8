"""Which vector do noisy homogeneous equations M x ≈ 0 have? Total least squares by singular values ([VanHuffel1991]).

    minimise ‖M x‖² / xᵀ C x       C: how much noise each column of M holds, 0 for columns that are exact

C = 1 is the nearest rank-deficient matrix in the Frobenius norm ([Briot2012] §3.2). Where it is not, exact columns are
projected out by QR and the rest is scaled by the Cholesky factor of C: mixed, or generalised, total least squares.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.factors import triangle
from excitor.robots.arrays import BoolArray, FloatArray, freeze


@dataclass(frozen=True, eq=False, slots=True)
class NullVector:
    """The direction that equations come closest to, and how clearly it is the only one."""

    x: FloatArray  # (n_columns,), scaled so that xᵀ C x = 1
    singular_values: FloatArray  # (n_noisy,), of the scaled noisy columns; the last is ‖M x‖

    def __post_init__(self) -> None:
        freeze(self, x="n_columns", singular_values="n_noisy")

    @property
    def gap(self) -> float:
        """Ratio of the last two singular values: how much worse the next direction is; 1 where there is none."""
        if len(self.singular_values) < 2:
            return 1.0
        last, before = float(self.singular_values[-1]), float(self.singular_values[-2])
        return before / last if last > 0.0 else (np.inf if before > 0.0 else 1.0)


def total_least_squares(M: FloatArray) -> NullVector:
    """Find the right singular vector of the smallest singular value: all columns are equally noisy."""
    _, values, directions = np.linalg.svd(triangle(np.asarray(M, dtype=float)))
    return NullVector(directions[-1], values)


def mixed_total_least_squares(M: FloatArray, noisy: BoolArray, C: FloatArray) -> NullVector:
    """Find the vector where only some columns hold noise; C is theirs, (n_noisy, n_noisy), positive definite.

    [E B] = Q R with E the exact columns: the bottom right block of R holds what of B no exact column explains.
    Exact columns must be independent.
    """
    n_exact = int(np.count_nonzero(~noisy))
    R = triangle(np.column_stack([M[:, ~noisy], M[:, noisy]]))
    L = np.linalg.cholesky(C)
    rest = scipy.linalg.solve_triangular(L, R[n_exact:, n_exact:].T, lower=True).T
    _, values, directions = np.linalg.svd(rest)
    b = scipy.linalg.solve_triangular(L, directions[-1], lower=True, trans="T")
    x = np.empty(M.shape[1])
    x[noisy] = b
    if n_exact:
        x[~noisy] = -scipy.linalg.solve_triangular(R[:n_exact, :n_exact], R[:n_exact, n_exact:] @ b)
    return NullVector(x, values)
