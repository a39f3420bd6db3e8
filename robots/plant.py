"""A robot's links as the compiled plant reads them: a tree, and how it closes."""

from typing import TypedDict

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.weigh import Closing
from excitor.robots.parallel import ClosedLoop, loops, sought, strides, tolerance
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree, chain


class Links(TypedDict):
    """What of `kernel.plant.Plant` the mechanism settles."""

    chain: Chain
    phi: FloatArray
    closing: Closing | None


def links_of(robot: Robot, phi: FloatArray) -> Links:
    """Pack a robot's mechanism with the parameters of its bodies, (n_links, 10)."""
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop):
        closing = Closing(
            loops=loops(mechanism),
            given=mechanism.actuated,
            sought=sought(mechanism, mechanism.actuated),
            position=mechanism.home.copy(),
            stride=strides(mechanism),
            tolerance=tolerance(mechanism),
        )
        return Links(chain=chain(mechanism.tree), phi=mechanism.tree_parameters(phi), closing=closing)
    if not isinstance(mechanism, Tree):
        raise ExcitorError(f"{robot.name}: {type(mechanism).__name__} cannot be simulated under a controller")
    return Links(chain=chain(mechanism), phi=np.ascontiguousarray(phi), closing=None)
