"""Whether a closed chain stays assembled, away from singularities, and clear of its cell along a stretch of motion."""

import numpy as np

from excitor.design.closed_bounds import closed_row_speeds, singularity_bounds
from excitor.design.constraints import Constraints
from excitor.design.pieces import Piece, Spans, spans
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import clearances, required
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.robot import Robot

_FIRST = 8
_SHORTEST = 1.0 / 4096.0  # of the stretch: below that it is given up


def closed_line_is_clear(robot: Robot, constraints: Constraints, piece: Piece) -> bool:
    """Prove it by bisection, until the bounds decide or a sample is in the way."""
    edges = np.linspace(0.0, piece.duration, _FIRST + 1)
    left, right = edges[:-1], edges[1:]
    while left.size:
        spare = _spare(robot, constraints, spans(piece, left, right))
        if spare is None:
            return False
        open_ = ~(spare >= 0.0).all(axis=1)
        if (right - left)[open_].size and (right - left)[open_].min() <= _SHORTEST * piece.duration:
            return False
        middle = 0.5 * (left[open_] + right[open_])
        left, right = np.concatenate([left[open_], middle]), np.concatenate([middle, right[open_]])
    return True


def _spare(robot: Robot, constraints: Constraints, part: Spans) -> FloatArray | None:
    """Bound from below what is left of every limit inside intervals; None where a sample already lacks it."""
    loop, scene = robot.mechanism, constraints.scene
    assert isinstance(loop, ClosedLoop)
    least = max(0.0, constraints.singularity)
    at_samples = loop.singularity_distances(part.jets[0])
    if not ((at_samples >= least) & (at_samples > 0.0)).all():
        return None
    lowest, _ = singularity_bounds(loop, part)
    if scene is None:
        return lowest - least
    d = clearances(robot, scene, part.jets[0]) - required(robot, scene)
    if (d < 0.0).any():
        return None
    between = 0.5 * (d[part.left] + d[part.right]) - 0.5 * part.h * closed_row_speeds(robot, scene, part)
    return np.concatenate([lowest - least, between], axis=1)
