"""Is one method's held-out error better than another's, or was it chance? A bootstrap of blocks of time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.intervals import whiteness
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, IntArray

DRAWS = 2000
SEED = 0
LEAST_BLOCKS = 20  # a longest block's worth; fewer say little about how blocks differ
SHOWN = 5e-5  # of the torques: what a person is shown of an error has no further digits
CELLS_PER_BLOCK = 4  # blocks start at quarters of their length


@dataclass(frozen=True, slots=True)
class Difference:
    """How much larger a method's held-out error is than that of the best, as other stretches of time would show it."""

    value: float
    low: float  # 95 %
    high: float

    @property
    def within_noise(self) -> bool:
        """Whether other stretches of time could have turned it round, or nobody would see it."""
        return self.low <= 0.0 or self.value < SHOWN


def differences(judging: Regression, residuals: Sequence[FloatArray], best: int) -> list[Difference]:
    """Compare each method's relative error with that of one, on blocks of time drawn at random.

    All joints of a block stay together, and all methods see the same blocks: what they have in common cancels.
    """
    labels, cell = cells(judging, block_samples(judging, residuals[best]))
    squares = np.array([np.bincount(cell, r**2, len(labels)) for r in residuals])
    size = np.bincount(cell, judging.y**2, len(labels))
    counts = drawn(labels[:, 0])
    drawn_size = np.maximum(counts @ size, np.finfo(float).tiny)
    errors = np.sqrt(squares @ counts.T / drawn_size)  # (n_methods, n_draws)
    whole = np.sqrt(squares.sum(axis=1) / max(size.sum(), np.finfo(float).tiny))
    low, high = np.percentile(errors - errors[best], [2.5, 97.5], axis=1)
    return [Difference(float(x - whole[best]), float(a), float(b)) for x, a, b in zip(whole, low, high, strict=True)]


def block_samples(judging: Regression, residual: FloatArray) -> int:
    """Choose a block's length, in samples, as the most correlated joint asks for."""
    asked = max(entry.block for entry in whiteness(judging, residual))
    n_samples = len(np.unique(np.column_stack([judging.run, judging.sample]), axis=0))
    return max(1, int(min(np.ceil(asked), n_samples // LEAST_BLOCKS)))


def cells(judging: Regression, block: int) -> tuple[IntArray, IntArray]:
    """Cut time into quarters of blocks: (run, number) of each, and to which one every row belongs."""
    size = max(1, -(-block // CELLS_PER_BLOCK))
    labels, cell = np.unique(np.column_stack([judging.run, judging.sample // size]), axis=0, return_inverse=True)
    return labels, np.asarray(cell.ravel(), dtype=np.int64)


def drawn(run: IntArray) -> FloatArray:
    """Count how often each cell is drawn, in blocks that wrap around within their run, (n_draws, n_cells)."""
    rng = np.random.default_rng(SEED)
    counts = np.zeros((DRAWS, len(run)))
    for number in np.unique(run):
        own = np.flatnonzero(run == number)
        width = min(CELLS_PER_BLOCK, len(own))
        starts = rng.integers(len(own), size=(DRAWS, -(-len(own) // width)))
        for step in range(width):
            np.add.at(counts, (np.arange(DRAWS)[:, None], own[(starts + step) % len(own)]), 1.0)
    return counts
