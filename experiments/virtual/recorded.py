"""What a virtual controller recorded of one program: all it could offer, before a vendor's format picks from it."""

from dataclasses import dataclass

from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.robot import Robot


@dataclass(frozen=True, eq=False, slots=True)
class Recorded:
    """Signals on the controller's clock, in SI units; one that this robot's drives do not have is NaN throughout."""

    program: str
    robot: Robot  # as the campaign knows it, not as it truly is
    t: FloatArray  # (n,), s: stamps of the controller's clock, uneven where sampling jitters
    mark: IntArray  # (n,): as programs set them; 0 where none is set
    q_reference: FloatArray  # (n, n_joints), joint side: what was commanded
    dq_reference: FloatArray
    q: FloatArray  # (n, n_joints), joint side, from the motors' encoders
    dq: FloatArray
    q_motor: FloatArray  # (n, n_joints)
    current: FloatArray  # (n, n_joints), A
    torque_motor: FloatArray  # (n, n_joints), N m at the motors
    torque_joint: FloatArray  # (n, n_joints), N m or N: of a sensor at the joint
    temperature: FloatArray  # (n, n_joints), °C of the motors
    speed_scaling: FloatArray  # (n,): share of the planned speed

    def __post_init__(self) -> None:
        each = dict.fromkeys(
            ("q_reference", "dq_reference", "q", "dq", "q_motor", "current", "torque_motor", "torque_joint"),
            "n n_joints",
        )
        freeze(self, finite=False, order="C", t="n", mark="int: n", temperature="n n_joints", speed_scaling="n", **each)
