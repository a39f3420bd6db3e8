"""Run an ABB program with Externally Guided Motion: the module on a virtual clock, the client over real sockets.

`FakeController` is a controller guided by EGM: it sends packets by its own clock and follows the answers.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from excitor.design.programs.clients.egm_client import EgmClient, receive
from excitor.design.programs.plan import Stretches
from excitor.design.programs.rapid.cell import Cell, run_module
from excitor.design.programs.rapid.parse import ERR_UDPUC_COMM
from excitor.design.programs.rapid.run import RapidError
from excitor.design.programs.streams import client_of, socket_pair, streamed
from excitor.design.programs.target import Event, Execution, Machine, Mishaps

_STANDS = 0.01  # deg: a move to where the robot is
_WIDER = 1.3  # share by which the fastest motion may be exceeded
_OWN = frozenset({"joint", *(f"j{k}" for k in range(1, 8))})  # arguments that are judged by themselves
_DEFAULTS = {"commtimeout": 1.0, "condtime": 1.0, "maxspeeddeviation": 1.0, "samplerate": 4.0}  # RobotWare's own


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run a module and, where it requests guided motion, the client with its run."""
    cell = GuidedCell(f"{name}.mod", machine, lambda: client_of(files, name, EgmClient))
    run_module(files, cell)
    return cell.execution()


class GuidedCell(Cell):
    """Controller that a module runs on, limited to the features that guided motion needs."""

    def __init__(self, file: str, machine: Machine, client: Callable[[], EgmClient]) -> None:
        super().__init__(file, machine)
        self.make_client = client
        self.asked: dict[str, Any] = dict(_DEFAULTS)
        self.ready = 0  # how far guided motion has been prepared: id, setup, act
        self.client: EgmClient | None = None
        self.commanded: list[tuple[int, list[float]]] = []

    def move(self, axes: list[float], seconds: float | None, speed: float, fine: bool) -> None:
        """Accept only the move to the current pose, with which guided motion begins."""
        if len(axes) != len(self.machine.axes) or np.abs(np.array(axes) - self.axes).max() > _STANDS:
            self.fail("moves the robot itself; all motion belongs to the client")
        if not fine:
            self.fail("guided motion begins at a fine point")

    def wait(self, seconds: float, standing: bool) -> None:
        """Advance the clock."""
        if not 0.0 <= seconds <= self.machine.longest:
            self.fail(f"waits {seconds:g} s")
        self.time += seconds

    def signal(self, name: str, value: float) -> None:
        """Raise an error: the controller has no outputs."""
        self.fail(f"the controller has no output {name}")

    def egm(self, step: str, values: dict[str, Any]) -> None:
        """Prepare guided motion, and run it."""
        order = ("reset", "id", "setup", "act", "run", "stop")
        at = order.index(step)
        if step == "reset":
            self.ready = 0
            return
        if at != self.ready + 1:
            self.fail(f"EGM {step} comes before EGM {order[self.ready + 1]}")
        self.asked.update({key: value for key, value in values.items() if key not in ("values", "tool", *_OWN)})
        words = {"setup": ("configuration", "device"), "run": ("stop",)}.get(step, ())
        for word, value in zip(words, values["values"][-len(words) :] if words else (), strict=True):
            self.hold(word, value)
        if step == "act" and self.machine.settings and "tool" not in values:
            self.fail("EGMActJoint names no \\Tool; the one that is in use may be another")
        if step == "setup" and not values.get("joint"):
            self.fail("the client guides joints; EGMSetupUC needs \\Joint")
        axes = [f"j{k + 1}" for k in range(len(self.machine.axes))]
        if step in ("act", "run") and any(axis not in values for axis in axes):
            self.fail(f"EGM {step} must name all joints, \\J1 to \\J{len(axes)}")
        if step == "act":
            self.near = [tuple(values[axis]) for axis in axes]
        if step == "run":
            self._guide()
        else:
            self.ready = at

    def _guide(self) -> None:
        if self.client is not None:
            self.fail("guided motion runs twice; a client answers once")
        asked, client = self.asked, self.make_client()
        near = max(max(map(abs, pair)) for pair in self.near)
        for name, value in {**asked, "near": near}.items():
            if name in ("condtime", "maxspeeddeviation"):
                continue  # held against the run itself
            if problem := self.machine.strange(name, value):
                self.fail(problem)
        seconds = 10.0 + sum(client.run.duration(name) for name in Stretches)
        if not seconds < self.machine.longest:
            self.fail(f"the run takes {seconds:g} s")
        robot = FakeController(self.joints(), step=1e-3 * float(asked["samplerate"]))
        self.client = client
        with loopback(client) as exchange:
            end = guided(
                robot, spoilt(exchange, robot, client, self.machine.events), self.near,
                settled=asked["condtime"], timeout=asked["commtimeout"],
                longest=seconds + 2.0 * asked["condtime"],
            )  # fmt: skip
        self.commanded, self.time = robot.commanded, self.time + robot.step * robot.sent
        if robot.commanded and np.abs(np.array(robot.commanded[0][1]) - self.joints()).max() > _STANDS:
            self.fail("the first command jumps away from where the robot stands")
        if client.state == "waiting":
            self.fail(f"guided motion begins although the client refuses: {client.reason}")
        self._check_speed(robot.step)
        if end == "silence":
            raise RapidError(ERR_UDPUC_COMM, client.reason or "the client fell silent")
        if end == "endless":
            self.fail(f"guided motion does not end within {seconds:g} s and its CondTime")

    def _check_speed(self, step: float) -> None:
        axes = np.array([joints for _, joints in self.commanded]).reshape(len(self.commanded), -1)
        steps = np.diff([sequence for sequence, _ in self.commanded])[:, None]
        fastest = float((np.abs(np.diff(axes, axis=0)) / steps).max(initial=0.0)) / step
        allowed = self.asked["maxspeeddeviation"]
        if not fastest <= allowed <= _WIDER * fastest + 5.0 and not self.machine.events:
            self.fail(f"the run needs {fastest:.3f} deg/s, \\MaxSpeedDeviation allows {allowed:g}")

    def execution(self) -> Execution:
        """Return the commanded motion, divided into segments by the client's log."""
        client = self.client
        if client is None:
            return Execution((), halted=" ".join(self.texts))
        halted = "" if client.state == "done" else " ".join(filter(None, [client.reason, *self.texts])) or "stopped"
        if len(client.rows) != len(self.commanded):
            self.fail("the client's log and what the controller got differ")
        rows = (
            (row[2], row[3], row[3], sequence, joints)
            for row, (sequence, joints) in zip(client.rows, self.commanded, strict=True)
        )
        stretches, marks = streamed(rows, 1e-3 * self.asked["samplerate"])
        return Execution(stretches, marks, ("log on", *(one.name for one in stretches), "log off"), halted)


@contextmanager
def loopback(client: EgmClient) -> Iterator[Callable[[bytes], bytes | None]]:
    """Connect a client to a controller over UDP, both in this thread; yield a function from packet to answer."""
    with socket_pair(addresses=True) as (here, there):

        def exchange(packet: bytes) -> bytes | None:
            here.send(packet)
            receive(there, client, "127.0.0.1")
            try:
                return here.recv(4096)
            except BlockingIOError:
                return None

        yield exchange


def spoilt(
    exchange: Callable[[bytes], bytes | None], robot: "FakeController", client: EgmClient, events: Sequence[Event]
) -> Callable[[bytes], bytes | None]:
    """Exchange packets until an event is due: packets are lost, joints lag, clocks jump, motors go off, Ctrl-C."""
    mishaps, lost = Mishaps(events), 0

    def exchanged(packet: bytes) -> bytes | None:
        nonlocal lost
        count = client.steps
        first, state = max(part for part in client.parts if part[0] <= count)
        due = [*mishaps.due(state, (count - first) * robot.step)]
        if not (due or lost) and robot.astray is None:
            return exchange(packet)
        robot.astray = None
        for event in due:
            if event.name == "stop" and event.value:
                client.stop("stopped from this computer")
            lost += round(event.value) if event.name == "packets" else 0
            if event.name == "tracking":
                robot.astray = max(pose[0] for pose in client.told) + event.value
            robot.jump += round(event.value) if event.name == "clock" else 0
            if event.name == "drive":
                robot.motors = MOTORS_OFF if event.value else MOTORS_ON
            if event.name == "program":
                robot.task = TASK_STOPPED if event.value else TASK_RUNS
        if lost:
            lost -= 1
            return None
        return exchange(robot.message())

    return exchanged


LAG = 5  # packets until a joint is at its commanded position
MOTORS_ON, MOTORS_OFF = 1, 2
TASK_STOPPED, TASK_RUNS = 1, 2  # of the RAPID program
STOPPED, RUNNING = 2, 3  # of mciState
STANDS = 1e-6  # deg
FIRST_PACKET, FIRST_MS = 4711, 987_654  # a controller that has been on for a while


def _number(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    parts = []
    while True:
        parts.append(value % 128 | (128 if value >= 128 else 0))
        value //= 128
        if not value:
            return bytes(parts)


def _inside(number: int, message: bytes) -> bytes:
    return _number(number * 8 + 2) + _number(len(message)) + message


def _doubles(values: Sequence[float]) -> bytes:
    return struct.pack("<" + "Bd" * len(values), *(x for value in values for x in (9, value)))


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
        + _inside(8, still + _number(TASK_RUNS))
        + b"\x51"
        + struct.pack("<d", 42.0)
    )


def sensor_message(data: bytes) -> tuple[int, int, list[float]]:
    """Read an EgmSensor: the packet that it answers, its type, and the commanded joints, deg; raise ValueError."""
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
    """Guided controller that counts its packets and records its commands: (packet answered, joints in deg)."""

    position: list[float]
    step: float = 0.004  # s
    motors: int = MOTORS_ON
    egm: int = STOPPED
    task: int = TASK_RUNS
    jump: int = 0  # ms, by which the clock is off
    astray: float | None = None  # deg, where the first joint is instead
    sent: int = 0
    commanded: list[tuple[int, list[float]]] = field(default_factory=list)
    _coming: list[list[float]] = field(default_factory=list)

    @property
    def reference(self) -> list[float]:
        """Return the last commanded joints, deg."""
        return self.commanded[-1][1] if self.commanded else self.position

    def packet(self) -> bytes:
        """Advance by a control step and return its packet."""
        self._coming.append(self.reference)
        if len(self._coming) > LAG:
            self.position = self._coming.pop(0)
        self.sent += 1
        return self.message()

    def message(self) -> bytes:
        """Write the packet of this step."""
        ms = FIRST_MS + round(1e3 * self.step * (self.sent - 1)) + self.jump
        at = self.position if self.astray is None else [self.astray, *self.position[1:]]
        states = {"motors": self.motors, "egm": self.egm}
        packet = robot_message(FIRST_PACKET + self.sent - 1, ms, at, self.reference, **states)
        told, task = (_inside(8, b"\x08" + _number(each)) for each in (TASK_RUNS, self.task))
        return packet.replace(told, task)

    def take(self, answer: bytes) -> None:
        """Apply an answer."""
        sequence, kind, joints = sensor_message(answer)
        if kind != 3 or len(joints) != len(self.position):
            raise ValueError(f"a message of type {kind} with {len(joints)} joints")
        if self.egm != RUNNING:  # what starts it is no command yet
            if max(abs(q - wanted) for q, wanted in zip(self.position, joints, strict=True)) > STANDS:
                raise ValueError("the first answer leads away from where the robot stands")
            self.egm = RUNNING
            return
        self.commanded.append((sequence, joints))

    def at_rest(self, near: Sequence[tuple[float, float]]) -> bool:
        """Return True if every joint is at its commanded position, within `near`, deg."""
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
    """Run guided motion until the joints have been at rest for `settled` s; return how it ended.

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
