"""A robot as the compiled plant reads it: a tree, and how it closes; its friction; the whole of one without gears."""

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.drive import drive_elements
from excitor.robots.dynamics import rotor_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.kernel.chain import Chain
from excitor.robots.kernel.drive import Elements
from excitor.robots.kernel.weigh import Closing
from excitor.robots.parallel import ClosedLoop, loops, sought, strides, tolerance
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree, chain

if TYPE_CHECKING:
    from excitor.robots.kernel.plant import Plant


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


def plain_plant(robot: Robot, chi: FloatArray) -> "Plant":
    """Pack a robot whose gears neither lose torque nor give way, and which does not warm up: joint torques drive it."""
    from excitor.robots.kernel.plant import Plant

    params, n = layout(robot), robot.n_joints
    chi = np.array(chi, dtype=float)  # of its own: what is locked would be compiled as a type of its own
    check_shape(chi, str(len(params)), "chi")
    friction = chi[list(params.friction_columns)]
    return Plant(
        **links_of(robot, chi[: params.n_link_params].reshape(-1, 10)),
        rotors=rotor_matrix(robot, chi),
        elements=friction_elements(robot),
        friction=friction,
        warmth=np.zeros(friction.size),
        seat=np.zeros(friction.size, dtype=np.int64),
        gears=np.eye(n),
        ungears=np.eye(n),
        loss=np.zeros((n, 2)),
        width=np.ones(n),
        stiffness=np.zeros(0),
        damping=np.zeros(0),
        stuck=np.zeros(n, dtype=np.bool_),
        heat=np.zeros(n),
        relief=0.0,
        ambient=0.0,
    )


def friction_elements(robot: Robot) -> Elements:
    """Take the friction terms out of a robot's packed drive elements."""
    packed, n_rotors = drive_elements(robot), len(robot.drive.rotors)
    return packed._replace(**{name: np.ascontiguousarray(part[n_rotors:]) for name, part in packed._asdict().items()})
