"""Where an opened chain closes: which points, or orientations, of two links must agree."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.kernel.closure import POINT, ROD, TURN, Loops

ClosureKind = Literal["point", "rod", "turn"]
_KINDS = {"point": POINT, "rod": ROD, "turn": TURN}


@dataclass(frozen=True, eq=False, slots=True)
class Closure:
    """A condition between links a and b (-1: the base), points in their frames, directions in the base's.

    point  p_a - p_b vanishes along each direction         rod  |p_a - p_b| = length
    turn   R_aᵀ R_b = turn, about each direction
    """

    kind: ClosureKind
    links: tuple[int, int]
    points: FloatArray  # (2, 3)
    directions: FloatArray  # (n_equations, 3), orthonormal; of a rod, one that is not read
    length: float = 1.0
    turn: FloatArray = field(default_factory=lambda: np.eye(3))

    def __post_init__(self) -> None:
        freeze(self, points="2 3", directions="n_equations 3", turn="3 3")

    def __len__(self) -> int:
        """Count its equations."""
        return len(self.directions)


def pack(closures: Sequence[Closure]) -> Loops:
    """Write closures as the flat arrays that compiled code reads."""
    rows = np.zeros((len(closures), 3, 3))
    for row, closure in zip(rows, closures, strict=True):
        row[: len(closure)] = closure.directions
    return Loops(
        kind=np.array([_KINDS[closure.kind] for closure in closures], dtype=np.int64),
        link=np.array([closure.links for closure in closures], dtype=np.int64).reshape(-1, 2),
        point=np.array([closure.points for closure in closures]).reshape(-1, 2, 3),
        rows=rows,
        first=np.concatenate([[0], np.cumsum([len(closure) for closure in closures])]).astype(np.int64),
        length=np.array([closure.length for closure in closures]),
        turn=np.array([closure.turn for closure in closures]).reshape(-1, 3, 3),
    )
