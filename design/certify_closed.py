"""Whether a closed chain stays assembled and away from its singularities, between samples too."""

import numpy as np

from excitor.design.certificate import Margin, above, unproven
from excitor.design.closed_bounds import singularity_bounds
from excitor.design.pieces import Piece, Spans
from excitor.design.worst_case import Effort, worst_case
from excitor.robots.arrays import FloatArray
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.robot import CanBeSingular, Robot

_EFFORT = Effort(n_first=1000, share=0.25, most_spans=20_000)
_CLOSE = 1e-2  # how sharply a distance is bounded where little is spare


def singularity_margins(robot: Robot, pieces: tuple[Piece, ...], least: float) -> list[Margin]:
    """Compare the distance to each type of singularity with what must be kept; more than 0 in any case."""
    mechanism = robot.mechanism
    if not isinstance(mechanism, CanBeSingular) or not pieces:
        return []
    limit = max(0.0, least)
    names = [f"singularity: {name}" for name in mechanism.singularity_names]
    if not isinstance(mechanism, ClosedLoop):
        reason = f"no bound of the distance to singularities between samples is known for a {type(mechanism).__name__}"
        return [unproven(name, "1", limit=limit, reason=reason) for name in names]

    def bound(part: Spans) -> tuple[FloatArray, FloatArray]:
        lowest, at_samples = singularity_bounds(mechanism, part)
        return limit - lowest, limit - at_samples

    none = np.zeros(len(names))
    worst = worst_case(pieces, bound, limit=none, slack=none + _CLOSE, effort=_EFFORT)
    return [
        above(
            name,
            "1",
            limit=limit,
            lower=float(limit - worst.upper[row]),
            seen=float(limit - worst.seen[row]),
            proof=f"Lipschitz, {worst.n_spans} intervals, smallest {1e3 * worst.smallest:.3g} ms; it stays assembled",
            where=f"{worst.at[row]:.3f} s, {worst.where[row]}",
        )
        for row, name in enumerate(names)
    ]
