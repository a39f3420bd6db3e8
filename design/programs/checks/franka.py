"""A run on a robot with a 1 kHz joint interface: the client as it is given out, against a robot on a virtual clock."""

import math
from collections.abc import Mapping
from functools import cache
from importlib import resources

import numpy as np

from excitor.design.programs.checks.franka_robot import FakeRobot, RobotMode, Session
from excitor.design.programs.checks.run_data import read_run
from excitor.design.programs.clients import franka_client
from excitor.design.programs.clients.franka_client import COLUMNS, Log, Refused, Stopped
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.execution import Execution, Machine, ProgramError, Stretch
from excitor.design.programs.plan import StretchName

CLIENTS = ("franka_client.py", "run_motion.py")

_NEAR_HOME = 0.02  # rad: as far as the first session may move, which makes the last bit to home
_REST = 1.0  # s


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the client on the run's file and a robot that follows it."""
    for client in CLIENTS:
        if client in files and files[client] != _client_text(client):
            raise ProgramError(client, None, "is not the client as it is given out; emit the programs again")
    file = f"{name}.json"
    if file not in files:
        raise ProgramError(file, None, "is missing")
    run = Run(read_run(file, files[file], longest=machine.longest))
    robot = FakeRobot(
        machine.axes.tolist(),
        payload=machine.payload,
        mode=RobotMode.Idle if machine.automatic else RobotMode.UserStopped,
    )
    witness = _Witness(robot)
    try:
        franka_client.run(
            robot,
            run,
            robot,
            confirm=lambda: True,
            save=witness.save,
            start=witness.start,
            wait=witness.wait,
            say=lambda _: None,
        )
    except Refused as error:
        if robot.sessions:
            raise ProgramError(file, None, f"refuses after it has moved: {error}") from error
        return Execution((), halted=str(error))
    except (Stopped, RuntimeError, TypeError) as error:
        raise ProgramError(file, None, str(error)) from error
    return witness.execution(file, run)


@cache
def _client_text(client: str) -> str:
    return resources.files("excitor.design.programs.clients").joinpath(client).read_text("utf-8")


class _Witness:
    """Notes when the client logs and waits, and what the robot did meanwhile."""

    def __init__(self, robot: FakeRobot) -> None:
        self.robot = robot
        self.log: Log | None = None
        self.on = self.off = -1  # sessions that had been when the log began, and when it was saved
        self.rested = [0.0]  # s before each session

    def start(self, run: Run, longest: float) -> Log:
        if self.log is not None:
            raise RuntimeError("the log begins a second time")
        self.log, self.on = Log(run, longest), len(self.robot.sessions)
        return self.log

    def save(self, log: Log) -> None:
        self.off = len(self.robot.sessions)

    def wait(self, seconds: float) -> None:
        if not 0.0 <= seconds < math.inf:
            raise RuntimeError(f"the client waits {seconds} s")
        self.rested += [0.0] * (len(self.robot.sessions) + 1 - len(self.rested))
        self.rested[-1] += seconds

    def execution(self, file: str, run: Run) -> Execution:
        """Name the sessions by the log: before it, during it, after it."""
        homing, *moves = self.robot.sessions
        if np.abs(np.array(homing.q) - np.array(run.home)).max() > _NEAR_HOME:
            raise ProgramError(file, None, "moves before it is at home")
        self.rested += [0.0] * (len(self.robot.sessions) + 1 - len(self.rested))
        stretches: list[Stretch] = []
        events: list[str] = []
        for number, session in enumerate(moves, start=1):
            main = self.on <= number < self.off
            name: StretchName = "main" if main else "back" if 0 <= self.off <= number else "out"
            if main and min(self.rested[number], self.rested[number + 1]) < _REST:
                raise ProgramError(file, None, "does not stand still for a second before and after the run")
            stretches.append(_stretch(name, session))
            events += ["log on", name, "log off"] if main else [name]
        return Execution(tuple(stretches), self._marks(), tuple(events))

    def _marks(self) -> tuple[tuple[float, int], ...]:
        if self.log is None:
            return ()
        rows = np.frombuffer(self.log.memory, dtype="<f8", count=self.log.rows * len(COLUMNS)).reshape(-1, len(COLUMNS))
        t, part, mark = (rows[:, COLUMNS.index(column)] for column in ("t", "part", "mark"))
        begun = np.flatnonzero(np.diff(part, prepend=0.0) != 0.0)
        return tuple((float(t[k]), int(mark[k])) for k in begun)


def _stretch(name: StretchName, session: Session) -> Stretch:
    return Stretch(name, "commands", 0.001 * np.array(session.t, dtype=float), np.array(session.q))
