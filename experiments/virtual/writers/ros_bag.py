"""ROS 2 bags, MCAP or SQLite: joint states, what the trajectory controller says, and the speed scaling."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.virtual.writers.format import Format, Shown
from excitor.robots.arrays import FloatArray

_EFFORT = "/joint_states effort:{axis}"
_CHANNELS = ("/joint_states position:{axis}", {"torque sensor": _EFFORT, "joint torque": _EFFORT})
FORMATS = (
    Format("ros_mcap", "a bag", "ros_bag", *_CHANNELS, suffix="", marks=False),  # type: ignore[arg-type]
    Format("ros_sqlite3", "a bag", "ros_bag", *_CHANNELS, suffix="", marks=False),  # type: ignore[arg-type]
)
STARTED = 10**18  # ns since 1970, fixed: files of one seed are the same
_RARER, _RAREST = 2, 10  # controller states and speed scaling come every so many joint states

_STATE = "control_msgs/msg/JointTrajectoryControllerState"
_POINTS = ("reference", "feedback", "error", "output")
# As control_msgs has defined it since Jazzy.
_DEFINITION = "\n".join(
    [
        "std_msgs/Header header",
        "string[] joint_names",
        *(f"trajectory_msgs/JointTrajectoryPoint {name}" for name in _POINTS),
        "string[] multi_dof_joint_names",
        *(f"trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_{name}" for name in _POINTS),
        "float64 speed_scaling_factor",
        "",
    ]
)


def write(shown: Shown, folder: Path, name: str) -> list[Path]:
    """Write a folder with a bag."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    plugin = StoragePlugin.MCAP if shown.format.name == "ros_mcap" else StoragePlugin.SQLITE3
    make = _Messages(_store(), list(shown.axes))
    stamps = [STARTED + round(1e9 * t) for t in shown.t.tolist()]
    empty = np.zeros(0)
    with Writer(folder / name, version=9, storage_plugin=plugin) as bag:
        topics = {
            kind: bag.add_connection(topic, kind, typestore=make.store)
            for topic, kind in (
                ("/joint_states", "sensor_msgs/msg/JointState"),
                ("/joint_trajectory_controller/controller_state", _STATE),
                ("/speed_scaling_state_broadcaster/speed_scaling", "std_msgs/msg/Float64"),
            )
        }
        for k, stamp in enumerate(stamps):
            position, velocity = shown.position[k], shown.velocity[k]
            told = {"sensor_msgs/msg/JointState": make.joint_state(stamp, position, velocity, shown.effort[k])}
            if k % _RARER == 0:
                wanted = make.point(shown.reference[k], shown.reference_velocity[k])
                error = make.point(shown.reference[k] - position, shown.reference_velocity[k] - velocity)
                points = (wanted, make.point(position, velocity), error, make.point(empty, empty))
                told[_STATE] = make.state(stamp, points, float(shown.scaling[k]))
            if k % _RAREST == 0:
                told["std_msgs/msg/Float64"] = make.number(100.0 * float(shown.scaling[k]))
            for kind, message in told.items():
                bag.write(topics[kind], stamp, make.store.serialize_cdr(message, kind))
    return [folder / name]


@cache
def _store() -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(get_types_from_msg(_DEFINITION, _STATE))
    return store


@dataclass(frozen=True)
class _Messages:
    """Makes messages of the joints that a driver names."""

    store: Any
    names: list[str]

    def header(self, stamp: int) -> Any:
        time = self._type("builtin_interfaces/msg/Time")(sec=stamp // 10**9, nanosec=stamp % 10**9)
        return self._type("std_msgs/msg/Header")(stamp=time, frame_id="")

    def joint_state(self, stamp: int, *values: FloatArray) -> Any:
        return self._type("sensor_msgs/msg/JointState")(self.header(stamp), self.names, *values)

    def point(self, positions: FloatArray, velocities: FloatArray) -> Any:
        none = np.zeros(0)
        start = self._type("builtin_interfaces/msg/Duration")(sec=0, nanosec=0)
        return self._type("trajectory_msgs/msg/JointTrajectoryPoint")(positions, velocities, none, none, start)

    def state(self, stamp: int, points: tuple[Any, ...], scaling: float) -> Any:
        start = self._type("builtin_interfaces/msg/Duration")(sec=0, nanosec=0)
        free = self._type("trajectory_msgs/msg/MultiDOFJointTrajectoryPoint")([], [], [], start)
        return self._type(_STATE)(self.header(stamp), self.names, *points, [], free, free, free, free, scaling)

    def number(self, value: float) -> Any:
        return self._type("std_msgs/msg/Float64")(value)

    def _type(self, name: str) -> Any:
        return self.store.types[name]
