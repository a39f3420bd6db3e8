"""What an ABB program does that hands over to guided motion: the module is run, and the client over real sockets."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NoReturn

import numpy as np

from excitor.design.programs.checks.egm_robot import FakeController, guided
from excitor.design.programs.clients.egm_client import EgmClient, receive
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.execution import Execution, Machine, ProgramError, Stretch
from excitor.design.programs.languages.rapid import parse
from excitor.design.programs.languages.rapid_run import Program
from excitor.design.programs.languages.rapid_system import RapidError
from excitor.design.programs.languages.rapid_types import ERR_UDPUC_COMM
from excitor.design.programs.plan import Stretches

ENTRY = "main"  # what automatic mode starts
_STANDS = 0.01  # deg: a move to where the robot is
_DEFAULTS = {"commtimeout": 1.0, "condtime": 1.0, "maxspeeddeviation": 1.0, "samplerate": 4.0}  # RobotWare's own


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run a module and, where it asks for guidance, the client with its run."""
    file = f"{name}.mod"
    if file not in files:
        raise ProgramError(file, None, "this file is missing")
    cell = Cell(file, machine, lambda: client_of(files, f"{name}.json"))
    program = Program(file, parse(file, files[file]), cell)
    program.check()
    program.run(ENTRY)
    return cell.execution()


def client_of(files: Mapping[str, str], file: str) -> EgmClient:
    """Make the client that streams a run."""
    if file not in files:
        raise ProgramError(file, None, "this file is missing")
    try:
        return EgmClient(Run(json.loads(files[file], parse_constant=_no_number)))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise ProgramError(file, None, f"this is no run that can be streamed: {error!r}") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


class Cell:
    """The controller that a module finds; as much of it as guided motion needs."""

    def __init__(self, file: str, machine: Machine, client: Callable[[], EgmClient]) -> None:
        self.file, self.machine, self.make_client = file, machine, client
        self.time = 0.0
        self.texts: list[str] = []
        self.asked: dict[str, Any] = dict(_DEFAULTS)
        self.ready = 0  # how far guided motion has been prepared: id, setup, act
        self.client: EgmClient | None = None
        self.told: list[tuple[int, list[float]]] = []

    def override(self) -> float:
        """Tell the speed override, %."""
        return 100.0 * self.machine.override

    def automatic(self) -> bool:
        """Tell whether the controller is in automatic mode."""
        return self.machine.automatic

    def joints(self) -> list[float]:
        """Tell where the robot stands, deg."""
        return [float(x) for x in self.machine.axes]

    def mass(self) -> float:
        """Tell the load that the controller has been told of, kg."""
        return self.machine.payload

    def write(self, text: str) -> None:
        """Keep what the pendant shows."""
        self.texts.append(text)

    def move(self, axes: list[float], seconds: float | None, speed: float, fine: bool) -> None:
        """Allow the move to where the robot stands, which guided motion begins with, and no other."""
        if len(axes) != len(self.machine.axes) or np.abs(np.array(axes) - self.machine.axes).max() > _STANDS:
            raise ProgramError(self.file, None, "moves the robot itself; all motion belongs to the client")
        if not fine:
            raise ProgramError(self.file, None, "guided motion begins at a fine point")

    def wait(self, seconds: float, standing: bool) -> None:
        """Let time pass."""
        if not 0.0 <= seconds <= self.machine.longest:
            raise ProgramError(self.file, None, f"waits {seconds:g} s")
        self.time += seconds

    def signal(self, name: str, value: float) -> None:
        """Know no output."""
        raise ProgramError(self.file, None, f"the controller has no output {name}")

    def egm(self, step: str, values: dict[str, Any]) -> None:
        """Prepare guided motion, and run it."""
        order = ("reset", "id", "setup", "act", "run", "stop")
        at = order.index(step)
        if step == "reset":
            self.ready = 0
            return
        if at != self.ready + 1:
            raise ProgramError(self.file, None, f"EGM {step} comes before EGM {order[self.ready + 1]}")
        self.asked.update({key: value for key, value in values.items() if key not in ("values", "tool")})
        if step == "setup" and not values.get("joint"):
            raise ProgramError(self.file, None, "the client guides joints; EGMSetupUC needs \\Joint")
        axes = [f"j{k + 1}" for k in range(len(self.machine.axes))]
        if step in ("act", "run") and any(axis not in values for axis in axes):
            raise ProgramError(self.file, None, f"EGM {step} must name all joints, \\J1 to \\J{len(axes)}")
        if step == "act":
            self.near = [tuple(values[axis]) for axis in axes]
        if step == "run":
            self._guide()
        else:
            self.ready = at

    def _guide(self) -> None:
        if self.client is not None:
            raise ProgramError(self.file, None, "guided motion runs twice; a client answers once")
        asked, client = self.asked, self.make_client()
        seconds = 10.0 + sum(client.run.duration(name) for name in Stretches)
        if not seconds < self.machine.longest:
            raise ProgramError(self.file, None, f"the run takes {seconds:g} s")
        robot = FakeController(self.joints(), step=1e-3 * float(asked["samplerate"]))
        self.client = client
        with loopback(client) as exchange:
            end = guided(
                robot, exchange, self.near, settled=asked["condtime"], timeout=asked["commtimeout"],
                longest=seconds + 2.0 * asked["condtime"],
            )  # fmt: skip
        self.told, self.time = robot.told, self.time + robot.step * robot.sent
        if client.state == "waiting":
            raise ProgramError(self.file, None, f"guided motion begins although the client refuses: {client.reason}")
        self._check_speed(robot.step)
        if end == "silence":
            raise RapidError(ERR_UDPUC_COMM, client.reason or "the client fell silent")
        if end == "endless":
            raise ProgramError(self.file, None, f"guided motion does not end within {seconds:g} s and its CondTime")

    def _check_speed(self, step: float) -> None:
        axes = np.array([joints for _, joints in self.told]).reshape(len(self.told), -1)
        fastest = float(np.abs(np.diff(axes, axis=0)).max(initial=0.0)) / step
        if not fastest <= self.asked["maxspeeddeviation"]:
            raise ProgramError(
                self.file, None, f"the run needs {fastest:.3f} deg/s, \\MaxSpeedDeviation allows "
                f"{self.asked['maxspeeddeviation']:g}",
            )  # fmt: skip

    def execution(self) -> Execution:
        """Tell what was commanded, sorted by the client's own log."""
        client = self.client
        if client is None:
            return Execution((), halted=" ".join(self.texts))
        halted = "" if client.state == "done" else " ".join(filter(None, [client.reason, *self.texts])) or "stopped"
        stretches, marks = [], []
        events = ["log on"]
        if len(client.rows) != len(self.told):
            raise ProgramError(self.file, None, "the client's log and what the controller got differ")
        for name in Stretches:
            found = [(row, joints) for row, (_, joints) in zip(client.rows, self.told, strict=True) if row[2] == name]
            if not found:
                continue
            first = found[0][0][0]
            t = np.array([(row[0] - first) * 1e-3 * self.asked["samplerate"] for row, _ in found])
            stretches.append(Stretch(name, "commands", t, np.array([joints for _, joints in found])))
            events.append(name)
            if name == "main":
                marks = [(float(x), row[3]) for x, (row, _) in zip(t, found, strict=True)]
        return Execution(tuple(stretches), _changes(marks), (*events, "log off"), halted)


def _changes(given: list[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    return tuple(pair for k, pair in enumerate(given) if k == 0 or pair[1] != given[k - 1][1])


@contextmanager
def loopback(client: EgmClient) -> Iterator[Callable[[bytes], bytes | None]]:
    """Join a client to a controller over UDP, both in this thread; yields what hands over a packet for an answer."""
    with (
        closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as here,
        closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as there,
    ):
        for end in (here, there):
            end.bind(("127.0.0.1", 0))
        there.settimeout(5.0)
        here.connect(there.getsockname())
        here.setblocking(False)

        def exchange(packet: bytes) -> bytes | None:
            here.send(packet)
            receive(there, client, "127.0.0.1")
            try:
                return here.recv(4096)
            except BlockingIOError:
                return None

        yield exchange
