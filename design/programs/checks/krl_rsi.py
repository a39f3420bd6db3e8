"""Run KRL programs that hand the robot to RSI: the package's own server answers over loopback, on a virtual clock."""

import json
import socket
from collections.abc import Mapping, Sequence

import numpy as np

from excitor.design.programs.checks.krl import drive, read
from excitor.design.programs.checks.krl_robot import NEAR, KrlRobot
from excitor.design.programs.checks.rsi_robot import AXES, Break, RsiRobot, read_flow
from excitor.design.programs.clients.rsi_server import RsiServer
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.execution import Execution, Machine, ProgramError, Stretch
from excitor.design.programs.languages.krl_expressions import Argument
from excitor.design.programs.languages.krl_values import Fault, Value, Word
from excitor.design.programs.plan import Stretches, StretchName

MARGIN = 2.0  # deg by which limits of corrections may be wider than the motion
_CYCLES = {(): 0.004, ("#IPO_FAST",): 0.004}  # s; at 12 ms (#IPO) not every version corrects axes
_ROUTINES = frozenset({"RSI_CREATE", "RSI_ON", "RSI_MOVECORR", "RSI_OFF", "RSI_DELETE"})
_Row = tuple[str, int, np.ndarray]  # stretch, mark, commanded axes


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the program called `name`, at the step that it asks RSI for."""
    robot = RsiKrlRobot(machine, files, name)
    module = read(files, name, robot)
    drive(module, robot)
    if not robot.halted and not robot.rows:
        raise ProgramError(module.file, None, "ends without RSI_MOVECORR")
    return robot.execution()


class RsiKrlRobot(KrlRobot):
    """A controller that has RSI."""

    known: Mapping[str, Value] = {"RSIOK": 0}
    routines = KrlRobot.routines | _ROUTINES

    def __init__(self, machine: Machine, files: Mapping[str, str], name: str) -> None:
        super().__init__(machine)
        self.files, self.name = files, name
        self.context, self.on, self.step = "", False, 0.0
        self.rows: list[_Row] = []

    def call(self, name: str, arguments: Sequence[Argument]) -> Value:
        """Call a routine of the controller."""
        if name not in _ROUTINES:
            return super().call(name, arguments)
        self.not_halted()
        steps = {"RSI_CREATE": self._create, "RSI_ON": self._on, "RSI_MOVECORR": self._correct}
        steps.get(name, self._off)(list(arguments))
        return 0

    def travel(self, pose: np.ndarray) -> None:
        """Go home exactly; everything else is RSI's."""
        if np.abs(pose - self.pose).max() > NEAR or self.rows or self.on:
            raise Fault("PTP moves the robot elsewhere than to its home pose before RSI begins")
        self._moved(pose)

    def spline(self, block: object) -> None:
        """Refuse: RSI moves the robot."""
        raise Fault("a spline block in a program for RSI")

    def finish(self) -> None:
        """Demand that RSI is off again."""
        super().finish()
        if self.on:
            raise Fault("ends without RSI_OFF")

    def execution(self) -> Execution:
        """List what was done."""
        made = []
        for stretch in Stretches:
            poses = np.array([pose for name, _, pose in self.rows if name == stretch])
            if len(poses):
                t = np.arange(len(poses)) * self.step
                made.append(Stretch(stretch, "commands", t, poses))
        events = tuple(self.events)
        return Execution(tuple(made), tuple(self._marks()), events, self.halted)

    def _marks(self) -> list[tuple[float, int]]:
        marks = [mark for name, mark, _ in self.rows if name == "main"]
        return [(k * self.step, m) for k, m in enumerate(marks) if k == 0 or m != marks[k - 1]]

    def _create(self, given: list[Argument]) -> None:
        if len(given) != 3 or given[1].write is None or given[2].read() is not True:
            raise Fault("RSI_CREATE takes a file, a variable for the number, and TRUE")
        self.context = str(given[0].read())
        given[1].write(1)
        self.flow = read_flow(self.files, self.context)

    def _on(self, given: list[Argument]) -> None:
        words = [argument.read() for argument in given]
        if not self.context:
            raise Fault("RSI_ON comes before RSI_CREATE")
        if not words or words[0] != "#ABSOLUTE" or not all(isinstance(word, Word) for word in words):
            raise Fault("corrections are distances from the start pose: RSI_ON(#ABSOLUTE)")
        if tuple(words[1:]) not in _CYCLES:
            raise Fault(f"RSI_ON does not know {words[1]}")
        self.step, self.on = _CYCLES[tuple(words[1:])], True

    def _off(self, given: list[Argument]) -> None:
        self.on = False

    def _correct(self, given: list[Argument]) -> None:
        if given or not self.on or self.rows:
            raise Fault("RSI_MOVECORR() comes once, after RSI_ON")
        robot, server = RsiRobot(self.flow, self.pose, self.step), self._server()
        self.events.append("log on")
        try:
            self.rows = _converse(robot, server, self.machine.longest)
            _check_limits(robot)
        except (Break, OSError) as problem:  # a loopback that does not deliver is a finding as well
            raise Fault(str(problem)) from None
        passed: list[StretchName] = [name for name in Stretches if any(row[0] == name for row in self.rows)]
        self.events += [*passed, "log off"]
        self._moved(robot.pose)

    def _server(self) -> RsiServer:
        file = f"{self.name}.json"
        if file not in self.files:
            raise ProgramError(file, None, "is missing")
        try:
            return RsiServer(Run(json.loads(self.files[file])))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ProgramError(file, None, f"is no run: {error}") from None


def _converse(robot: RsiRobot, server: RsiServer, longest: float) -> list[_Row]:
    """Let both talk in lock-step over loopback until the server ends the motion."""
    rows: list[_Row] = []
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as theirs,
    ):
        for end in (ours, theirs):
            end.bind(("127.0.0.1", 0))
            end.settimeout(5.0)
        ours.connect(theirs.getsockname())
        theirs.connect(ours.getsockname())
        cycle = 1e-3 * robot.step
        for k in range(int(longest / cycle)):
            ours.send(robot.packet())
            reply = _answered(server, theirs.recv(4096), k * cycle)
            if reply is not None:
                theirs.send(reply)
            robot.take(ours.recv(4096) if reply is not None else None)
            if robot.ended:
                return rows
            if server.state in ("refused", "stopping"):
                raise Break(f"the server stops: {server.reason}")
            rows.append((server.stretch, server.mark, robot.pose))
    raise Break(f"is still running after {longest:g} s")


def _answered(server: RsiServer, data: bytes, now: float) -> bytes | None:
    try:
        return server.answer(data, now)
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise Break(f"the server fails on the run's numbers: {error}") from None


def _check_limits(robot: RsiRobot) -> None:
    """Limits of corrections are as wide as the motion, and not much wider."""
    low, high = robot.widest
    for k, axis in enumerate(AXES):
        needed = max(-low[k], high[k])
        wide = (low[k] - robot.flow.lower[k], robot.flow.upper[k] - high[k], robot.flow.most[k] - needed)
        if max(wide) > MARGIN:
            raise Break(
                f"limits of {axis} are {max(wide):.3g} deg wider than the motion; at most {MARGIN:g} are sensible"
            )
