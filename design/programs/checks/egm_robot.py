"""A controller that can be guided by EGM, imitated: it sends packets by its own clock and follows what is answered.

It follows `LAG` packets late, and runs from the first answer on. Written from the message definitions, apart from the
client that it talks to.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LAG = 5  # packets until a joint is where it was told to be
MOTORS_ON, MOTORS_OFF = 1, 2
STOPPED, RUNNING = 2, 3  # of mciState
STANDS = 1e-6  # deg
FIRST_PACKET, FIRST_MS = 4711, 987_654  # a controller that has been on for a while


def _number(value: int) -> bytes:
    parts = []
    while True:
        parts.append(value % 128 | (128 if value >= 128 else 0))
        value //= 128
        if not value:
            return bytes(parts)


def _inside(number: int, message: bytes) -> bytes:
    return _number(number * 8 + 2) + _number(len(message)) + message


def _doubles(values: Sequence[float]) -> bytes:
    return b"".join(b"\x09" + struct.pack("<d", x) for x in values)


def robot_message(
    sequence: int, ms: int, position: Sequence[float], planned: Sequence[float], *, motors: int, egm: int
) -> bytes:
    """Write an EgmRobot as RobotWare sends it: joints in degrees, time stamps, states, six test signals."""
    header = b"\x08" + _number(sequence) + b"\x10" + _number(ms) + b"\x18\x02"
    clock = b"\x08" + _number(1_700_000_000 + ms // 1000) + b"\x10" + _number(1000 * (ms % 1000))
    still = b"\x08"
    return (
        _inside(1, header)
        + _inside(2, _inside(1, _doubles(position)) + _inside(4, clock))
        + _inside(3, _inside(1, _doubles(planned)) + _inside(4, clock))
        + _inside(4, still + _number(motors))
        + _inside(5, still + _number(egm))
        + b"\x30\x00"
        + _inside(7, _doubles([0.5 * x for x in position]))
        + _inside(8, still + b"\x02")
        + b"\x51"
        + struct.pack("<d", 42.0)
    )


def sensor_message(data: bytes) -> tuple[int, int, list[float]]:
    """Read an EgmSensor: the packet that it answers, its type, and the joints it asks for; ValueError where not."""
    header, planned = _only(data, 1), _only(data, 2)
    numbers = {k: v for k, v in _parts(header) if isinstance(v, int)}
    found = [v for k, v in _parts(_only(planned, 1)) if k == 1]
    if any(not isinstance(v, bytes) or len(v) != 8 for v in found):
        raise ValueError("joints are no doubles")
    return numbers[1], numbers[3], [struct.unpack("<d", v)[0] for v in found if isinstance(v, bytes)]


def _only(data: bytes, number: int) -> bytes:
    found = [value for k, value in _parts(data) if k == number]
    if len(found) != 1 or not isinstance(found[0], bytes):
        raise ValueError(f"field {number} is there {len(found)} times")
    return found[0]


def _parts(data: bytes) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    while data:
        key, data = _take(data)
        if key % 8 == 0:
            value, data = _take(data)
            found.append((key // 8, value))
            continue
        size, data = (8, data) if key % 8 == 1 else _take(data)
        if key % 8 not in (1, 2) or size > len(data):
            raise ValueError("no EgmSensor")
        found.append((key // 8, data[:size]))
        data = data[size:]
    return found


def _take(data: bytes) -> tuple[int, bytes]:
    value = 0
    for k, byte in enumerate(data):
        value += (byte % 128) << (7 * k)
        if byte < 128:
            return value, data[k + 1 :]
    raise ValueError("no EgmSensor")


@dataclass(slots=True)
class FakeController:
    """Counts its packets, and remembers what it was told: (packet answered, joints in deg)."""

    position: list[float]
    step: float = 0.004  # s
    motors: int = MOTORS_ON
    egm: int = STOPPED
    sent: int = 0
    told: list[tuple[int, list[float]]] = field(default_factory=list)
    _coming: list[list[float]] = field(default_factory=list)

    @property
    def reference(self) -> list[float]:
        """Tell what was commanded last."""
        return self.told[-1][1] if self.told else self.position

    def packet(self) -> bytes:
        """Let a step pass and say what is told of it."""
        self._coming.append(self.reference)
        if len(self._coming) > LAG:
            self.position = self._coming.pop(0)
        ms = FIRST_MS + round(1e3 * self.step * self.sent)
        self.sent += 1
        return robot_message(
            FIRST_PACKET + self.sent - 1, ms, self.position, self.reference, motors=self.motors, egm=self.egm
        )

    def take(self, answer: bytes) -> None:
        """Follow an answer."""
        sequence, kind, joints = sensor_message(answer)
        if kind != 3 or len(joints) != len(self.position):
            raise ValueError(f"a message of type {kind} with {len(joints)} joints")
        if self.egm != RUNNING:  # what starts it is no command yet
            if max(abs(q - wanted) for q, wanted in zip(self.position, joints, strict=True)) > STANDS:
                raise ValueError("the first answer leads away from where the robot stands")
            self.egm = RUNNING
            return
        self.told.append((sequence, joints))

    def at_rest(self, near: Sequence[tuple[float, float]]) -> bool:
        """Say whether every joint is where it was told to be, within its limits."""
        pairs = zip(self.position, self.reference, near, strict=True)
        return all(low <= q - wanted <= high for q, wanted, (low, high) in pairs)


def guided(
    robot: FakeController,
    exchange: Callable[[bytes], bytes | None],
    near: Sequence[tuple[float, float]],
    *,
    settled: float,
    timeout: float,
    longest: float,
) -> str:
    """Run guided motion until the joints have been at rest for `settled` s; say how it ended.

    "converged", "silence" (no answer for `timeout` s) or "endless".
    """
    rest = silence = 0
    for _ in range(round(longest / robot.step)):
        answer = exchange(robot.packet())
        if answer is None:
            silence += 1
            if silence * robot.step >= timeout:
                return "silence"
            continue
        robot.take(answer)
        silence = 0
        rest = rest + 1 if robot.at_rest(near) else 0
        if rest * robot.step >= settled:
            return "converged"
    return "endless"
