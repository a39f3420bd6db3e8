"""Whether a set of parameters is a robot that could exist: measured afresh, trusting nobody."""

from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.dynamics import mass_matrix
from excitor.robots.inertia import Consistency, check_consistency
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot


@dataclass(frozen=True, eq=False, slots=True)
class Audit:
    """What was found: each link's body, and the mass matrix in random poses."""

    links: tuple[Consistency, ...]
    smallest_eigenvalue: float  # of M(q) over the poses, mixed units
    relative_margin: float  # the same of M(q) scaled to unit diagonal; negative where M(q) is indefinite
    n_poses: int

    @property
    def holds(self) -> bool:
        """Tell whether every link could exist and M(q) > 0 in every pose."""
        return all(link.holds for link in self.links) and self.relative_margin > 0.0


def audit(robot: Robot, chi: FloatArray, *, n_poses: int = 200, seed: int = 0) -> Audit:
    """Check that every link is consistent and that M(q) > 0 in random poses within the joint limits.

    Links whose ten parameters are all assumed zero have no body and are not asked for one.
    """
    params = layout(robot)
    bodies = [params.link(j) for j in range(params.n_links) if not robot.assumed_zero[params.link(j)].all()]
    M = mass_matrix(robot, random_motion(robot, n_poses, robot.locked, seed).q, chi)
    moving = [i for i in range(robot.n_joints) if i not in robot.locked]
    M = M[:, moving][:, :, moving]
    diagonal = np.diagonal(M, axis1=1, axis2=2)
    if (diagonal > 0.0).all():
        scale = 1.0 / np.sqrt(diagonal)
        relative = float(np.linalg.eigvalsh(M * scale[:, :, None] * scale[:, None, :]).min())
    else:
        relative = float(min(diagonal.min() / max(np.abs(diagonal).max(), np.finfo(float).tiny), 0.0))
    return Audit(
        links=tuple(check_consistency(chi[columns]) for columns in bodies),
        smallest_eigenvalue=float(np.linalg.eigvalsh(M).min()),
        relative_margin=relative,
        n_poses=n_poses,
    )
