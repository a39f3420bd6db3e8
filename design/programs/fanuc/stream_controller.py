"""Run the TP program of a stream, and the distributed client, against a controller over sockets of this process.

`J519Robot` is the FANUC controller's side of Stream Motion on a virtual clock.
"""

import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from excitor.design.programs.clients.j519_client import J519Client
from excitor.design.programs.clients.j519_packets import ERROR, PENDANT
from excitor.design.programs.fanuc.language import Program, Runner
from excitor.design.programs.fanuc.tp_controller import Arm, program_of
from excitor.design.programs.streams import client_of, socket_pair, streamed
from excitor.design.programs.target import Execution, Machine, Mishaps, ProgramError
from excitor.robots.arrays import FloatArray

Fault = Callable[[int], str]  # number of a status packet -> "", "lost" or "late"


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the TP program called `name`; where it hands the motion over to a stream, run the client as well."""
    program = program_of(files, name)
    client = client_of(files, name, J519Client)
    arm = _Streaming(program, machine, client)
    Runner(program, arm).run()
    if arm.begun != arm.ended:
        raise ProgramError(program.file, None, "the motion is given to a stream and never taken back")
    if arm.robot is None or client.state == "refused":
        return Execution((), halted=client.message or (arm.recorder.messages or [""])[-1])
    return _execution(client, arm.robot, program)


class _Streaming(Arm):
    """The arm, controlled by a stream between IBGN start and IBGN end."""

    def __init__(self, program: Program, machine: Machine, client: J519Client) -> None:
        super().__init__(program, machine)
        self.client = client
        self.robot: J519Robot | None = None
        self.begun = self.ended = 0

    def stream(self, which: str) -> None:
        """Run the client to its end."""
        if which == "end":
            self.ended += 1
            if self.robot is None:
                raise ProgramError(self.program.file, None, "IBGN end comes before IBGN start")
            return
        self.answered()
        self.begun += 1
        if self.robot is not None:
            raise ProgramError(self.program.file, None, "the program gives the motion to a stream twice")
        self.robot = J519Robot(self.machine)
        over_loopback(self.client, self.robot)
        if self.robot.alarm:
            raise ProgramError(self.program.file, None, f"the controller's alarm: {self.robot.alarm}")


@dataclass(slots=True)
class J519Robot:
    """Waits at IBGN start, follows commands, ends in an alarm where the protocol is broken."""

    machine: Machine
    limits: tuple[float, float, float] = (1e12, 1e12, 1e12)  # deg/s, deg/s^2, deg/s^3, slow and without load
    at_full_load: float = 0.5  # share of the limits with a full load
    scale: float = 1.0  # of speeds, that the controller has taken back for safety
    waiting: bool = True  # at IBGN start
    sequence: int = 0
    now: float = 0.0
    connected: bool = False
    moving: bool = False
    finished: bool = False  # the last command was there
    stopped: bool = False  # the client has said goodbye
    alarm: str = ""
    trouble: int = 0  # bits: error, teach pendant enabled, emergency stop
    slip: float = 0.0  # deg, by which J6 is elsewhere
    capable: bool = True  # of telling its period and version
    limits_version: int = 3  # of the requests for limits that it answers
    received: set[int] = field(default_factory=set)  # types of packets so far
    starved: int = 0
    joints: FloatArray = field(default_factory=lambda: np.zeros(6))
    commands: list[tuple[int, float, tuple[float, ...]]] = field(default_factory=list)  # sequence, s, J1 to J6

    def __post_init__(self) -> None:
        self.joints = self.machine.axes.astype(float)

    def receive(self, packet: bytes) -> bytes | None:
        """Process a packet; return a table if the packet requests one."""
        kind, version = struct.unpack_from(">II", packet)
        self.received.add(kind)
        if kind == 2:
            self.stopped, self.connected = len(self.received) > 1, False  # the first ones only clear the line
        elif kind == 3:
            return self._table(*struct.unpack_from(">II", packet, 8)) if version == self.limits_version else None
        elif version != 3:
            self.fail(f"a packet of version {version}")
        elif kind == 7 and len(packet) == 28:
            return struct.pack(">7I", 7, 3, 1, round(1e3 * self.machine.step), 1, 3, 0) if self.capable else None
        elif kind == 200:
            self.connected, self.stopped = True, False
        elif kind == 201 and len(packet) == _COMMAND.size:
            self._command(*_COMMAND.unpack(packet))
        else:
            self.fail(f"a packet of type {kind} and {len(packet)} bytes")
        return None

    def status(self) -> bytes | None:
        """Advance the clock by a control period, and return the status packet; None without a connection."""
        self.now += self.machine.step
        if not self.connected:
            return None
        self.sequence += 1
        if self.moving and not self.finished:
            self.starved += 1
            if self.starved > _LONGEST_STARVED:
                self.fail("no command came in time")
        ready = not self.alarm
        bits = int(self.waiting and ready) | 2 * self.moving | 4 * ready | 8 * self.moving
        joints = (*self.joints[:5].astype(float), float(self.joints[5]) + self.slip, 0.0, 0.0, 0.0)
        currents = (*(AMPERE * self.joints), 0.0, 0.0, 0.0)
        stamp = 2 * round(500.0 * self.now)  # ms, of 2 ms resolution
        return _STATUS.pack(
            202, 3, self.sequence, bits, self.trouble, 0, 0, stamp, *_NOWHERE, *joints, *currents, self.scale
        )

    def fail(self, reason: str) -> None:
        """End the motion in an alarm."""
        self.alarm = self.alarm or reason

    def _table(self, axis: int, kind: int) -> bytes:
        falling = np.linspace(1.0, 0.9, 20) * self.limits[kind]
        return _TABLE.pack(3, 3, axis, kind, 2000, 5, *falling, *(self.at_full_load * falling))

    def _command(self, kind: int, version: int, sequence: int, last: int, motion: int, style: int, *to: float) -> None:
        if not self.waiting or self.finished:
            self.fail("a command, but no stream is active")
        if self.commands and sequence not in (self.commands[-1][0] + 1, self.sequence):
            self.fail(f"command {sequence} after {self.commands[-1][0]}")
        if style != 0xFFFF:
            self.fail(f"a command whose data style {style} is not that of joint angles")
        if not motion or any(to[6:]) or not np.isfinite(to).all():
            self.fail("a command without motion of six axes")
        if not self.commands and np.abs(np.array(to[:6]) - self.joints).max() > 1e-3:
            self.fail("the first command jumps away from where the robot stands")
        self.joints = np.array(to[:6])
        self.commands.append((sequence, self.now, to[:6]))
        self.moving, self.starved = True, 0
        self.finished = bool(last)


def over_loopback(client: J519Client, robot: J519Robot, fault: Fault | None = None) -> None:
    """Exchange packets of client and controller, period by period, until the client is done."""
    with socket_pair() as (near, far):
        _deliver(client.start(robot.now), near, far, robot, client)
        sent, lost, mishaps = 0, 0, Mishaps(robot.machine.events)
        while client.state not in ("done", "refused"):
            if robot.now > robot.machine.longest:
                raise ProgramError("client", None, f"the stream takes more than {robot.machine.longest:g} s")
            lost = max(0, lost - 1) + _meet(robot, client, mishaps)
            status = robot.status()
            sent += 1
            what = "lost" if lost else fault(sent) if fault else ""
            if status is None or what == "lost":
                _deliver(client.quiet(robot.now), near, far, robot, client)
                continue
            far.send(status)
            late = 0.4 * robot.machine.step if what == "late" else 0.0
            _deliver(client.answer(near.recv(2048), robot.now + late), near, far, robot, client)


def _meet(robot: J519Robot, client: J519Client, mishaps: Mishaps) -> int:
    """Let the events happen that are due; return how many status packets are lost from now on."""
    lost = 0
    robot.slip = 0.0 if robot.machine.events else robot.slip
    stretch, t, _ = client.steps[min(client.k, len(client.steps) - 1)]
    for event in mishaps.due(stretch if client.state == "running" else "", t):
        lost += round(event.value) if event.name == "packets" else 0
        client.interrupted |= event.name == "stop" and event.value > 0.0
        robot.scale = 0.01 * event.value if event.name == "override" else robot.scale
        bit = {"drive": ERROR, "mode": PENDANT}.get(event.name, 0)
        robot.trouble = robot.trouble | bit if event.value > 0.0 else robot.trouble & ~bit
        if event.name == "tracking":
            robot.slip = max(pose[5] for pose in client.told) + event.value - float(robot.joints[5])
    return lost


def _deliver(
    packets: list[bytes], near: socket.socket, far: socket.socket, robot: J519Robot, client: J519Client
) -> None:
    """Send the client's packets, and the controller's immediate answers."""
    while packets:
        following: list[bytes] = []
        for packet in packets:
            near.send(packet)
            reply = robot.receive(far.recv(2048))
            if reply:
                far.send(reply)
                following += client.answer(near.recv(2048), robot.now)
        packets = following


def _execution(client: J519Client, robot: J519Robot, program: Program) -> Execution:
    """Divide the received commands into motion segments by the client's log of each packet."""
    if client.message and not robot.machine.events:
        raise ProgramError(program.file, None, f"the client gave up: {client.message}")
    if len(client.rows) != len(robot.commands):
        raise ProgramError(program.file, None, "the client's log and the controller's packets differ in number")
    commanded = (command[2] for command in robot.commands)
    steps = enumerate(zip(client.rows, commanded, strict=True))
    moved = [str(row[2]) for row in client.rows if row[2] != "stop"]  # what it stops in counts as well
    rows = (
        (moved[-1] if row[2] == "stop" else str(row[2]), int(str(row[3])), int(str(row[4])), k, q)
        for k, (row, q) in steps
    )
    stretches, marks = streamed(rows, robot.machine.step)
    names = [one.name for one in stretches]
    events = [word for name in names for word in (("log on", name, "log off") if name == "main" else (name,))]
    return Execution(stretches, marks, tuple(events), client.message)


_COMMAND = struct.Struct(">IIIBBH9d256x")
_STATUS = struct.Struct(">IIIBBBBI9f9f9ff256x")
_TABLE = struct.Struct(">IIIIII20f20f")
_NOWHERE = (0.0,) * 9  # X, Y, Z, W, P, R and more
_LONGEST_STARVED = 10  # periods without a command after which the motion ends in an alarm
AMPERE = 0.1  # per deg: some current, by which logs differ
