"""Where friction changes its direction: there the sign of a measured velocity says little about the torque.

A joint sticks, the controller pulls, the joint follows: until it has settled, the friction of the model comes early.
"""

from collections.abc import Iterator

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.robot import SIGNED, FrictionTerm, Robot

SETTLES = 0.08  # s that a servo takes, typically


def near_reversals(
    robot: Robot, dq: FloatArray, rate: float, *, within: float = SETTLES, slow: FloatArray | None = None
) -> BoolArray:
    """Mark samples of joints, (n_samples, n_joints), whose friction turns within that time, or hardly moves.

    Friction turns where its own velocity does, which for coupled joints is not theirs. `slow` are speeds of the
    joints (n_joints,) at which the direction is not known any more.
    """
    marked = np.zeros(dq.shape, dtype=bool)
    reach = int(np.ceil(within * rate))
    for term in _turning(robot):
        v = dq @ term.senses
        turns = _widened(v[1:] * v[:-1] <= 0.0, reach)
        if slow is not None:
            turns |= np.abs(v) <= np.abs(term.senses) @ slow
        marked |= turns[:, None] & (term.acts != 0.0)
    return marked


def _turning(robot: Robot) -> Iterator[FrictionTerm]:
    """Take each direction of friction once."""
    known: set[bytes] = set()
    for term in robot.drive.friction:
        key = term.senses.tobytes() + term.acts.tobytes()
        if term.model in SIGNED and key not in known:
            known.add(key)
            yield term


def _widened(turns: BoolArray, reach: int) -> BoolArray:
    """Mark the samples between which something turns, and `reach` more on either side."""
    steps = np.zeros(len(turns) + 2)
    for k in np.flatnonzero(turns).tolist():
        steps[max(k - reach, 0)] += 1.0
        steps[min(k + 1 + reach, len(turns)) + 1] -= 1.0
    return np.asarray(np.cumsum(steps)[:-1] > 0.0)
