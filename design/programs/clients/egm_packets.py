"""The packets of Externally Guided Motion, protobuf messages EgmRobot and EgmSensor, read and written by hand."""

from __future__ import annotations

import math
import struct

_JOINTS = struct.Struct("<" + "Bd" * 6)
_DOUBLE = struct.Struct("<d")
_KEYS = (9,) * 6
_STATES = (4, 5, 8)  # motorState, mciState, rapidExecState
_SIGNALS = (7, 9)  # testSignals, measuredForce
_WORDS = 2**32  # of the header's numbers


class Robot:
    """A packet from the controller (EgmRobot); ValueError where a part of it cannot be read.

    Header and measured joints must be there; the other parts may be missing. Reading from a packet that was accepted
    never fails.
    """

    __slots__ = ("ms", "parts", "planned", "position", "sequence", "states")

    def __init__(self, packet: bytes) -> None:
        self.parts: dict[int, int | bytes] = dict(fields(packet))
        header = dict(fields(_bytes(self.parts.get(1))))
        self.sequence = _int(header.get(1))
        self.ms = _int(header.get(2))
        self.position = _six(dict(fields(_bytes(self.parts.get(2)))).get(1))
        if not all(map(math.isfinite, self.position)):
            raise ValueError("a packet has joints that are no numbers")
        self.states = {k: _int(dict(fields(_bytes(self.parts[k]))).get(1)) for k in _STATES if k in self.parts}
        planned = dict(fields(_bytes(self.parts.get(3, b"")))).get(1)
        self.planned: list[float] = _six(planned) if planned else []  # where the controller wants the joints, deg
        for number in _SIGNALS:
            fields(_bytes(self.parts.get(number, b"")))

    def state(self, number: int) -> int:
        """Read motorState (4), mciState (5) or rapidExecState (8); 0 where it is not told."""
        return self.states.get(number, 0)

    @property
    def runs(self) -> bool:
        """Tell whether guided motion runs; a controller that does not tell is taken to."""
        return 5 not in self.states or self.state(5) == 3

    @property
    def utilization(self) -> float:
        """Tell how much of what the drives can do is asked for, %."""
        data = self.parts.get(10)
        return float(_DOUBLE.unpack(data)[0]) if isinstance(data, bytes) and len(data) == 8 else math.nan

    def numbers(self, number: int) -> list[float]:
        """Read all doubles of a part: testSignals (7), measuredForce (9), or one that your RobotWare adds.

        Empty where the part is missing, or where the number that the user gave is that of another kind of part.
        """
        data = self.parts.get(number)
        try:
            found = fields(data) if isinstance(data, bytes) else []
        except ValueError:
            return []
        return [x for _, value in found if isinstance(value, bytes) for x in _doubles(value)]


def fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """Cut a protobuf message into (number, value) pairs; ValueError where it is none."""
    found: list[tuple[int, int | bytes]] = []
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            whole, at = _varint(data, at)
            found.append((key >> 3, whole))
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} in a packet")
        if at + size > end:
            raise ValueError("a packet is cut short")
        found.append((key >> 3, data[at : at + size]))
        at += size
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a packet is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def joints(data: int | bytes | None) -> list[float]:
    """Read an EgmJoints: six doubles, each with its key or all together."""
    if isinstance(data, bytes) and len(data) == _JOINTS.size:
        whole = _JOINTS.unpack(data)
        if whole[::2] == _KEYS:
            return list(whole[1::2])
    return [x for _, value in fields(_bytes(data)) for x in _doubles(_bytes(value))]


def _six(data: int | bytes | None) -> list[float]:
    found = joints(data)
    if len(found) != 6:
        raise ValueError(f"a packet has {len(found)} joints instead of six")
    return found


def _doubles(data: bytes) -> list[float]:
    return [x for (x,) in _DOUBLE.iter_unpack(data)] if len(data) % 8 == 0 else []


def _bytes(value: int | bytes | None) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a packet lacks a part")
    return value


def _int(value: int | bytes | None) -> int:
    if not isinstance(value, int) or value >= _WORDS:
        raise ValueError("a packet lacks a number of 32 bits")
    return value


def command(sequence: int, ms: int, position: list[float]) -> bytes:
    """Write an EgmSensor: header {seqno, tm, mtype = 3}, planned {joints}."""
    header = b"\x08" + _written(sequence) + b"\x10" + _written(ms) + b"\x18\x03"
    body = b"".join(b"\x09" + _DOUBLE.pack(x) for x in position)
    planned = b"\x0a" + _written(len(body)) + body
    return b"\x0a" + _written(len(header)) + header + b"\x12" + _written(len(planned)) + planned


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
