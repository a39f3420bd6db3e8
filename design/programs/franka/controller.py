"""Run the distributed client for a 1 kHz joint interface against a robot on a virtual clock.

`FakeRobot` has pylibfranka's interface; it follows its commands and records them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from excitor.design.programs.clients import franka_client
from excitor.design.programs.clients.franka_client import COLUMNS, Log, Refused, Stopped
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.plan import Stretches, StretchName
from excitor.design.programs.run_json import read_program
from excitor.design.programs.streams import check_clients
from excitor.design.programs.target import Execution, Machine, ProgramError, Stretch, file_in

CLIENTS = ("franka_client.py", "run_motion.py")

_SAME_POSE, _FADE = 1e-3, 0.5  # rad, s: how far from where it begins a stretch is run, and how soon that vanishes
_SUDDEN = 1e-5  # rad, in a tick
_NEAR_HOME = 0.02  # rad: as far as the first session may move, which makes the last bit to home
_REST = 1.0  # s


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the client on the run's file and a robot that follows it."""
    check_clients(files, CLIENTS)
    file = f"{name}.json"
    text = file_in(files, file)
    if not _settles(0.9 * _SAME_POSE) or _settles(1.1 * _SAME_POSE):
        raise ProgramError(file, None, "the client begins a stretch elsewhere, and does not correct that smoothly")
    run = Run(read_program(file, text, longest=machine.longest))
    mode = RobotMode.Idle if machine.automatic else RobotMode.UserStopped
    robot = FakeRobot(machine.axes.tolist(), payload=machine.payload, mode=mode)
    robot.settings = machine.settings
    robot.errors = "drive" if machine.at_start("drive") else ""
    witness = _Witness(robot)
    asked = _mishaps(robot, run, machine)
    try:
        franka_client.run(
            robot, run, robot, confirm=lambda: True, save=witness.save, start=witness.start, wait=witness.wait,
            asked=asked, say=lambda _: None,
        )  # fmt: skip
    except Refused as error:
        if robot.sessions:
            raise ProgramError(file, None, f"refuses after it has moved: {error}") from error
        return Execution((), halted=str(error))
    except (Stopped, RuntimeError, TypeError) as error:
        if isinstance(error, Stopped) and machine.events:
            return replace(witness.execution(file, run, stopped=True), halted=str(error))
        raise ProgramError(file, None, str(error)) from error
    return witness.execution(file, run)


def _settles(off: float) -> bool:
    """Tell whether the client comes smoothly to a stretch that begins elsewhere."""
    robot = FakeRobot([off] * JOINTS)
    try:
        franka_client.stream(robot, robot, motion=lambda _: [0.0] * JOINTS, duration=_FADE)
    except Stopped:
        return False
    q = np.array(robot.sessions[0].q)
    return not q[-1].any() and float(np.abs(np.diff(q, axis=0)).max()) < _SUDDEN


def _mishaps(robot: "FakeRobot", run: Run, machine: Machine) -> Callable[[], bool]:
    """Delay the states that a machine's events delay; return whether Ctrl-C is pressed."""
    sessions = ["home", *(name for name in Stretches if run.duration(name) > 0.0)]
    for event in machine.events:
        if event.name == "packets":
            robot.late |= {(sessions.index(event.stretch), round(1e3 * event.after) + 1): round(event.value)}

    def asked() -> bool:
        session = robot.sessions[-1]
        now = 1e-3 * (robot.clock - session.begun)
        stops = [event for event in machine.events if event.name == "stop" and event.value]
        return any(event.stretch == sessions[session.number] and now >= event.after - 1e-9 for event in stops)

    return asked


class JointPositions:
    """A command; as in pylibfranka it takes seven floats and nothing else."""

    def __init__(self, q: Sequence[float]) -> None:
        if len(q) != JOINTS:
            raise TypeError(f"a command has {len(q)} positions, expected {JOINTS}")
        self.q = list(map(float, q))
        self.motion_finished = False


class ControllerMode:
    """Controller modes of pylibfranka."""

    JointImpedance = "JointImpedance"


class RobotMode:
    """Robot modes of pylibfranka."""

    Idle, Move, UserStopped = "Idle", "Move", "UserStopped"


class State:
    """Robot state, reported once a millisecond; the robot follows its commands without error."""

    def __init__(self, q: Sequence[float], milliseconds: int, robot: "FakeRobot") -> None:
        self.q = self.q_d = self.theta = list(q)
        still = [0.0] * JOINTS
        self.dq = self.dq_d = self.dtheta = self.tau_J = self.tau_J_d = self.dtau_J = still
        self.tau_ext_hat_filtered = still
        self.time = Span(milliseconds)
        self.robot_mode = robot.mode
        self.current_errors: Any = robot.errors
        self.m_total = robot.payload
        self.control_command_success_rate = robot.success


class FakeRobot:
    """Fake of pylibfranka.Robot and of the module itself; `late`: ms of late reads, by (session, read)."""

    JointPositions, ControllerMode, RobotMode = JointPositions, ControllerMode, RobotMode

    def __init__(self, axes: Sequence[float], *, payload: float = 0.0, mode: str = RobotMode.Idle) -> None:
        self.pose = list(map(float, axes))
        self.payload, self.mode = payload, mode
        self.errors = ""
        self.success = 1.0
        self.late: dict[tuple[int, int], int] = {}  # (session, read) -> ms
        self.clock = 0  # ms
        self.settings: Mapping[str, Any] = {}
        self.configured: list[str] = []
        self.sessions: list[Session] = []

    def set_collision_behavior(self, *thresholds: Sequence[float]) -> None:
        """Set collision thresholds, while nothing moves."""
        self._configure("collision behaviour", [len(part) for part in thresholds] == [JOINTS, JOINTS, 6, 6])
        told = dict(zip(("torques", "torques", "forces", "forces"), thresholds, strict=True))
        if any(list(told[key]) != list(self.settings.get(key, told[key])) for key in told):
            raise RuntimeError("collision thresholds are not those that the target's record states")

    def set_load(self, mass: float, center: Sequence[float], inertia: Sequence[float]) -> None:
        """Set the load, while nothing moves."""
        self._configure("load", len(center) == 3 and len(inertia) == 9)
        self.payload = mass

    def _configure(self, what: str, fits: bool) -> None:
        if not fits:
            raise TypeError(f"the {what} has the wrong sizes")
        if self.sessions and not self.sessions[-1].finished:
            raise RuntimeError(f"the {what} cannot be set while the robot moves")
        self.configured.append(what)

    def read_once(self) -> State:
        """Return the robot's state."""
        return State(self.pose, self.clock, self)

    def start_joint_position_control(self, mode: str) -> "Session":
        """Start a session of joint position commands."""
        if mode != ControllerMode.JointImpedance or self.mode != RobotMode.Idle:
            raise RuntimeError("the robot does not take commands")
        if self.sessions and not self.sessions[-1].finished:
            raise RuntimeError("the robot is moving already")
        self.sessions.append(Session(self, len(self.sessions)))
        return self.sessions[-1]


class _Witness:
    """Records when the client logs and waits, and the robot's sessions meanwhile."""

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

    def execution(self, file: str, run: Run, stopped: bool = False) -> Execution:
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
            if main and not stopped and min(self.rested[number], self.rested[number + 1]) < _REST:
                raise ProgramError(file, None, "does not stand still for a second before and after the run")
            stretches.append(Stretch(name, "commands", 1e-3 * np.array(session.t, dtype=float), np.array(session.q)))
            events += ["log on", name, "log off"] if main else [name]
        return Execution(tuple(stretches), self._marks(), tuple(events))

    def _marks(self) -> tuple[tuple[float, int], ...]:
        if self.log is None:
            return ()
        rows = np.frombuffer(self.log.memory, dtype="<f8", count=self.log.rows * len(COLUMNS)).reshape(-1, len(COLUMNS))
        t, part, mark = (rows[:, COLUMNS.index(column)] for column in ("t", "part", "mark"))
        begun = np.flatnonzero(np.diff(part, prepend=0.0) != 0.0)
        return tuple((float(t[k]), int(mark[k])) for k in begun)


class Span:
    """A time in whole milliseconds, as libfranka has it."""

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds

    def to_sec(self) -> float:
        """Convert to seconds."""
        return 0.001 * self.milliseconds


class Session:
    """Fake of the control object: reads and writes alternate, and the first command is the robot's pose."""

    def __init__(self, robot: FakeRobot, number: int) -> None:
        self.robot, self.number = robot, number
        self.finished = False
        self.reads = 0
        self.begun = robot.clock
        self.pose = list(robot.pose)
        self.t: list[int] = []  # ms since the session began, of each command
        self.q: list[list[float]] = []

    def readOnce(self) -> tuple[State, Span]:
        """Return the state, and the time since the last one."""
        if self.finished or self.reads != len(self.q):
            raise RuntimeError("a state is read without a command after the last one")
        step = self.robot.late.get((self.number, self.reads), TICK) if self.reads else 0
        self.robot.clock += step
        self.reads += 1
        return State(self.robot.pose, self.robot.clock, self.robot), Span(step)

    def writeOnce(self, command: JointPositions) -> None:
        """Apply a command."""
        if self.finished or self.reads != len(self.q) + 1:
            raise RuntimeError("a command is written without a state before it")
        if not self.q and command.q != self.pose:
            raise RuntimeError("the first command is not the last commanded pose: a jump")
        self.t.append(self.robot.clock - self.begun)
        self.q.append(command.q)
        self.robot.pose = command.q
        self.finished = command.motion_finished


JOINTS = 7
TICK = 1  # ms
