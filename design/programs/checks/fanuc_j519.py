"""Runs the TP program of a stream, and the client that is given out, against a controller over loopback UDP."""

import json
import socket
from collections.abc import Callable, Mapping

import numpy as np

from excitor.design.programs.checks.fanuc import Arm, program_of
from excitor.design.programs.checks.j519_robot import J519Robot
from excitor.design.programs.clients.j519_client import STEP, J519Client
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.execution import Execution, Machine, ProgramError, Stretch
from excitor.design.programs.languages.fanuc import Program
from excitor.design.programs.languages.fanuc_run import Runner
from excitor.design.programs.plan import Stretches

Fault = Callable[[int], str]  # number of a status packet -> "", "lost" or "late"


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the TP program called `name`; where it gives the motion to a stream, run the client as well."""
    if machine.step != STEP:
        raise ProgramError(f"{name}.json", None, f"the stream runs at {1e3 * STEP:g} ms, not at {1e3 * machine.step:g}")
    program = program_of(files, name)
    client = client_of(files, name)
    arm = _Streaming(program, machine, client)
    Runner(program, arm).run()
    if arm.begun != arm.ended:
        raise ProgramError(program.file, None, "the motion is given to a stream and never taken back")
    if arm.robot is None or client.state == "refused":
        return Execution((), halted=client.message or (arm.recorder.messages or [""])[-1])
    return _execution(client, arm.robot, program)


def client_of(files: Mapping[str, str], name: str) -> J519Client:
    """Read the run, and make the client that streams it."""
    file = f"{name}.json"
    if file not in files:
        raise ProgramError(file, None, "there is no such file")
    try:
        return J519Client(Run(json.loads(files[file])))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise ProgramError(file, getattr(error, "lineno", None), f"it is no run: {error}") from None


class _Streaming(Arm):
    """The arm, given to a stream between IBGN start and IBGN end."""

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
        self.begun += 1
        if self.robot is not None:
            raise ProgramError(self.program.file, None, "the program gives the motion to a stream twice")
        self.robot = J519Robot(self.machine)
        over_loopback(self.client, self.robot)
        if self.robot.alarm:
            raise ProgramError(self.program.file, None, f"the controller's alarm: {self.robot.alarm}")


def over_loopback(client: J519Client, robot: J519Robot, fault: Fault | None = None) -> None:
    """Let client and controller talk over UDP, one period after the other, until the client is done."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far,
    ):
        for end in (near, far):
            end.bind(("127.0.0.1", 0))
            end.settimeout(5.0)
        near.connect(far.getsockname())
        far.connect(near.getsockname())
        _deliver(client.start(robot.now), near, far, robot, client)
        sent = 0
        while client.state not in ("done", "refused"):
            if robot.now > robot.machine.longest:
                raise ProgramError("client", None, f"the stream takes more than {robot.machine.longest:g} s")
            status = robot.status()
            sent += 1
            what = fault(sent) if fault else ""
            if status is None or what == "lost":
                _deliver(client.quiet(robot.now), near, far, robot, client)
                continue
            far.send(status)
            late = 0.4 * robot.machine.step if what == "late" else 0.0
            _deliver(client.answer(near.recv(2048), robot.now + late), near, far, robot, client)


def _deliver(
    packets: list[bytes], near: socket.socket, far: socket.socket, robot: J519Robot, client: J519Client
) -> None:
    """Send what the client says, and what the controller answers at once."""
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
    """Cut what the controller was told into stretches, by what the client's log says of each packet."""
    if client.message:
        raise ProgramError(program.file, None, f"the client gave up: {client.message}")
    if len(client.rows) != len(robot.commands):
        raise ProgramError(program.file, None, "the client's log and the controller's packets differ in number")
    told = np.array([command[2] for command in robot.commands])
    labels = np.array([str(row[2]) for row in client.rows])
    parts = np.array([int(str(row[3])) for row in client.rows])
    stretches: list[Stretch] = []
    marks: list[tuple[float, int]] = []
    events: list[str] = []
    for name in Stretches:
        at = np.flatnonzero(labels == name)
        if not at.size:
            continue
        events += ["log on", name, "log off"] if name == "main" else [name]
        stretches.append(Stretch(name, "commands", np.arange(at.size) * STEP, told[at]))
        if name == "main":
            changes = np.flatnonzero(np.diff(parts[at], prepend=0))
            marks = [(float(k * STEP), int(str(client.rows[at[k]][4]))) for k in changes]
    return Execution(tuple(stretches), tuple(marks), tuple(events))
