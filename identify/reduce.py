"""Smaller models: parameters that the data do not show, or that torques do not need, leave one by one."""

from dataclasses import dataclass

import numpy as np

from excitor.identify.estimate import By, Estimate, ols, wls
from excitor.identify.factors import Factors, select
from excitor.robots.arrays import one_blas_thread


@dataclass(frozen=True, eq=False, slots=True)
class Essential:
    """The essential parameters, and the others in the order in which they left."""

    estimate: Estimate
    removed: tuple[str, ...]
    ratio: float


@one_blas_thread()
def essential(factors: Factors, *, ratio: float = 20.0, weighted: bool = True, by: By = "joint") -> Essential:
    """Remove the parameter with the largest relative σ and refit, until max / min relative σ < ratio.

    [Gautier2013] §II.C, ratio 10 to 30. Weights and σ are estimated anew at every step; `weighted=False` refits by
    ordinary least squares, as for a power model.
    """
    if not ratio > 1.0:
        raise ValueError(f"ratio is {ratio}, expected more than 1; 10 to 30 are usual")
    kept = np.ones(factors.n_columns, dtype=bool)
    removed: list[str] = []
    while True:
        part = select(factors, kept)
        estimate = wls(part, by) if weighted else ols(part)
        relative = estimate.relative_sigma
        if relative.max() < ratio * relative.min() or len(relative) == 1:
            return Essential(estimate, tuple(removed), ratio)
        worst = estimate.names[int(np.argmax(relative))]
        removed.append(worst)
        kept[factors.names.index(worst)] = False
