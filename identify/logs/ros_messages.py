"""ROS 2 messages that tell of joints, decoded by definitions of our own: a bag's text is compared, never compiled."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

JOINT_STATE = "sensor_msgs/msg/JointState"
CONTROLLER_STATE = "control_msgs/msg/JointTrajectoryControllerState"
NUMBER = "std_msgs/msg/Float64"
TYPES = (JOINT_STATE, CONTROLLER_STATE, NUMBER)
SPEED_SCALING = "speed_scaling"  # in the name of a topic of numbers

_POINT, _MULTI = "trajectory_msgs/JointTrajectoryPoint", "trajectory_msgs/MultiDOFJointTrajectoryPoint"
_HEADER = "std_msgs/Header header\nstring[] joint_names\n"


def _states(names: str, multi: str = "") -> str:
    text = _HEADER + "".join(f"{_POINT} {name}\n" for name in names.split())
    if multi:
        text += "string[] multi_dof_joint_names\n"
        text += "".join(f"{_MULTI} multi_dof_{name}\n" for name in multi.split())
    return text


# As the package control_msgs defined the message from release to release, the newest first.
_NEW = "reference feedback error output"
VARIANTS = (
    _states(_NEW, _NEW) + "float64 speed_scaling_factor\n",
    _states(_NEW, _NEW),
    _states(_NEW + " desired actual", _NEW + " desired actual"),
    _states("desired actual error"),
)


@dataclass(frozen=True)
class Point:
    """What a message says of joints: names, and by quantity one number a joint."""

    stamp: int  # ns; 0 where it is not told
    names: tuple[str, ...]
    values: dict[str, Any]


@cache
def _store(variant: int) -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    store.register(get_types_from_msg(VARIANTS[variant], CONTROLLER_STATE))
    return store


def variants_of(definition: str) -> tuple[int, ...]:
    """Find the variant of the controller's state that a bag's text defines; all of them where it has none."""
    if not definition.strip():
        return tuple(range(len(VARIANTS)))
    told = _fields(definition)
    return tuple(k for k, text in enumerate(VARIANTS) if _fields(text) == told)


def _fields(definition: str) -> list[str]:
    """List a definition's own fields, up to where it quotes others."""
    own = re.split(r"^=+\s*$", definition, maxsplit=1, flags=re.MULTILINE)[0]
    lines = (re.sub(r"#.*", "", line).split() for line in own.splitlines())
    return [words[1] for words in lines if len(words) >= 2 and "=" not in words[1]]


def decode(kind: str, data: memoryview, variant: int) -> Point:
    """Decode a message; ValueError where its bytes are not what its type says."""
    try:
        message = _store(variant).deserialize_cdr(bytes(data), kind)
    except Exception as error:  # generated code meets bytes of strangers, and fails in many ways
        raise ValueError(str(error)[:100] or type(error).__name__) from None
    if kind == NUMBER:
        return Point(0, (), {"speed_scaling": message.data})
    stamp = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
    if kind == JOINT_STATE:
        parts = {name: getattr(message, name) for name in ("position", "velocity", "effort")}
        return Point(stamp, tuple(message.name), parts)
    parts = {}
    for name in _fields(VARIANTS[variant]):
        part = getattr(message, name)
        if name in ("reference", "feedback", "error", "output", "desired", "actual"):
            for quantity in ("positions", "velocities", "accelerations", "effort"):
                parts[f"{name}.{quantity}"] = getattr(part, quantity)
    if hasattr(message, "speed_scaling_factor"):
        parts["speed_scaling"] = message.speed_scaling_factor
    return Point(stamp, tuple(message.joint_names), parts)
