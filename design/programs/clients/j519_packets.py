"""The packets of FANUC Stream Motion (J519), version 3, big-endian; as FANUC's own driver lays them out."""

from __future__ import annotations

import struct

VERSION, OLDEST = 3, 1
STOP, LIMITS, CAPABILITY, START, COMMAND = 2, 3, 7, 200, 201
STATUS = {202: 388, 204: 416}  # packet type -> bytes
WAITING, READY = 1, 4  # status bits
AXES = 6
_JOINT_ANGLES = 0xFFFF  # style of the data in a command; with 0 they would be X, Y, Z, W, P, R
ERROR, PENDANT, EMERGENCY = 1, 2, 4  # bits of the robot's status

HEAD = struct.Struct(">II")
_REQUEST = struct.Struct(">IIII")
_CAPABILITY = struct.Struct(">7I")
_ABLE = struct.Struct(">6I")
_TABLE = struct.Struct(">IIIIII20f20f")
_STATUS = struct.Struct(">IIIBBBBI9f9f9ff")
_COMMAND = struct.Struct(">IIIBBH9d256x")

Table = tuple[float, "list[float]", "list[float]"]  # fastest tool, limits without load, limits with full load


class Status:
    """What the controller says of itself every period."""

    __slots__ = ("bits", "currents", "joints", "robot", "scale", "sequence", "stamp")

    def __init__(self, packet: bytes) -> None:
        _, _, self.sequence, self.bits, self.robot, _, _, self.stamp, *values = _STATUS.unpack_from(packet)
        self.joints: list[float] = values[9 : 9 + AXES]
        self.currents: list[float] = values[18 : 18 + AXES]
        self.scale: float = values[27]

    @property
    def trouble(self) -> str:
        """Say what keeps the robot from moving; empty where nothing does."""
        if self.robot & EMERGENCY:
            return "the emergency stop is pressed"
        if self.robot & ERROR:
            return "the controller is in error; read its alarm"
        return "the teach pendant is enabled; switch it off" if self.robot & PENDANT else ""


def stop(version: int = VERSION) -> bytes:
    """End the stream."""
    return HEAD.pack(STOP, version)


def start() -> bytes:
    """Ask for a status every period."""
    return HEAD.pack(START, VERSION)


def ask_capability() -> bytes:
    """Ask what the controller's Stream Motion can do."""
    return _CAPABILITY.pack(CAPABILITY, VERSION, 1, 0, 0, 0, 0)


def capability(packet: bytes) -> tuple[int, int] | None:
    """Read the answer, of 28 or 25 bytes: the period in ms, and the version; None where it is no answer."""
    if len(packet) not in (25, 28):
        return None
    kind, _, _, period, _, version = _ABLE.unpack_from(packet)
    return (period, version) if kind == CAPABILITY else None


def ask_limit(version: int, axis: int, kind: int) -> bytes:
    """Ask for a table of limits; axis from 1 on, kind 0 velocity, 1 acceleration, 2 jerk."""
    return _REQUEST.pack(LIMITS, version, axis, kind)


def limits(packet: bytes) -> tuple[tuple[int, int], Table] | None:
    """Read a table: axis and kind, and what it says; None where it is no table."""
    if len(packet) != _TABLE.size:
        return None
    number, _, axis, kind, fastest, _, *values = _TABLE.unpack(packet)
    return ((axis, kind), (float(fastest), values[:20], values[20:])) if number == LIMITS else None


def lowest(table: Table, tool_speed: float | None, load: float | None) -> float:
    """Read the lowest limit of all tool speeds up to one in mm/s, and of a share of the full load; None: of all."""
    fastest, empty, full = table
    entries = range(20)
    if tool_speed is not None and fastest > 0.0:
        entries = range(min(20, int(20.0 * tool_speed / fastest) + 1))
    low, high = (min(limits[i] for i in entries) for limits in (empty, full))
    return min(low, high) if load is None else low + min(max(load, 0.0), 1.0) * (high - low)


def command(sequence: int, pose: list[float], last: bool) -> bytes:
    """Send the arm to a pose, deg."""
    return _COMMAND.pack(COMMAND, VERSION, sequence, last, 1, _JOINT_ANGLES, *pose, 0.0, 0.0, 0.0)
