"""Odd closed chains: home outside the limits, limits outside the workspace, rods that are none."""

from collections.abc import Iterator

import numpy as np

from excitor.robots.lint_numbers import Odd
from excitor.robots.parallel import ClosedLoop
from excitor.robots.robot import Robot

_DRAWS = 500
_SLENDER = 0.05  # of a rod's own: what is off it by more is no rod


def closed_workspace(robot: Robot) -> Iterator[Odd]:
    """Look at where a closed chain can be assembled: home, and how much of its joint limits."""
    loop = robot.mechanism
    if not isinstance(loop, ClosedLoop):
        return
    low, high = robot.limits.position.T
    for name, at, least, most in zip(loop.joint_names, loop.home[loop.actuated], low, high, strict=True):
        if not least <= at <= most:
            sentence = f"stands at {at:.4g} at home, outside its limits {least:.4g} to {most:.4g}; move one of them"
            yield "warning", f"joint {name!r}", sentence
    if not np.isfinite(robot.limits.position).all():
        return
    q = np.random.default_rng(0).uniform(low, high, size=(_DRAWS, robot.n_joints))
    share = float((loop.singularity_distances(q) > 0.0).all(axis=1).mean())
    if share < 1.0:
        sentence = (
            f"hold positions of which {100 * share:.0f} % can be assembled; let a design keep its distance to "
            "singularities"
        )
        yield "note", "position limits", sentence


def slender_rods(robot: Robot) -> Iterator[Odd]:
    """Find bodies taken for slender rods that are none: what a rod leaves out would be lost."""
    loop = robot.mechanism
    if not isinstance(loop, ClosedLoop):
        return
    for b in np.flatnonzero(loop.slender):
        phi = robot.chi[10 * b : 10 * b + 10]
        if not robot.known[10 * b : 10 * b + 10].all():
            continue
        across = 0.5 * (phi[3] + phi[5])
        lost = max(abs(phi[0]), abs(phi[3] - phi[5]), *np.abs(phi[[1, 2, 4]]))
        aside = float(np.hypot(phi[7], phi[8]))
        if lost > _SLENDER * across or aside > _SLENDER * abs(phi[6]):
            sentence = (
                f"counts as a slender rod along x, but its inertia is off that by {lost:.3g} of {across:.3g} kg m², "
                f"its first moment by {aside:.3g} of {abs(phi[6]):.3g} kg m; these are left out: check its frame, "
                "or leave out `slender`"
            )
            yield "warning", f"link {loop.link_names[b]!r}", sentence
