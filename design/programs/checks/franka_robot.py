"""A robot with pylibfranka's interface on a virtual clock: follows what it is told, and keeps a list of it."""

from collections.abc import Mapping, Sequence
from typing import Any

JOINTS = 7
TICK = 1  # ms


class Span:
    """A time in whole milliseconds, as libfranka has it."""

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds

    def to_sec(self) -> float:
        """Convert to seconds."""
        return 0.001 * self.milliseconds


class JointPositions:
    """A command; as in pylibfranka it takes seven floats and nothing else."""

    def __init__(self, q: Sequence[float]) -> None:
        if len(q) != JOINTS:
            raise TypeError(f"a command has {len(q)} positions, expected {JOINTS}")
        self.q = list(map(float, q))
        self.motion_finished = False


class ControllerMode:
    """Of the robot's own controller."""

    JointImpedance = "JointImpedance"


class RobotMode:
    """What the robot is doing."""

    Idle, Move, UserStopped = "Idle", "Move", "UserStopped"


class State:
    """What the robot tells once a millisecond; it follows its commands without error."""

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
    """Stands for pylibfranka.Robot, and for the module itself; `late` says which reads of which session come late."""

    JointPositions, ControllerMode, RobotMode = JointPositions, ControllerMode, RobotMode

    def __init__(self, axes: Sequence[float], *, payload: float = 0.0, mode: str = RobotMode.Idle) -> None:
        self.pose = list(map(float, axes))
        self.payload, self.mode = payload, mode
        self.errors = ""
        self.success = 1.0
        self.late: Mapping[tuple[int, int], int] = {}  # (session, read) -> ms
        self.clock = 0  # ms
        self.configured: list[str] = []
        self.sessions: list[Session] = []

    def set_collision_behavior(self, *thresholds: Sequence[float]) -> None:
        """Take thresholds, while nothing moves."""
        self._configure("collision behaviour", [len(part) for part in thresholds] == [JOINTS, JOINTS, 6, 6])

    def set_load(self, mass: float, center: Sequence[float], inertia: Sequence[float]) -> None:
        """Take a load, while nothing moves."""
        self._configure("load", len(center) == 3 and len(inertia) == 9)
        self.payload = mass

    def _configure(self, what: str, fits: bool) -> None:
        if not fits:
            raise TypeError(f"the {what} has the wrong sizes")
        if self.sessions and not self.sessions[-1].finished:
            raise RuntimeError(f"the {what} cannot be set while the robot moves")
        self.configured.append(what)

    def read_once(self) -> State:
        """Tell how the robot stands."""
        return State(self.pose, self.clock, self)

    def start_joint_position_control(self, mode: str) -> "Session":
        """Begin to take commands."""
        if mode != ControllerMode.JointImpedance or self.mode != RobotMode.Idle:
            raise RuntimeError("the robot does not take commands")
        if self.sessions and not self.sessions[-1].finished:
            raise RuntimeError("the robot is moving already")
        self.sessions.append(Session(self, len(self.sessions)))
        return self.sessions[-1]


class Session:
    """Stands for the control object: reads and writes take turns, and the first command is where the robot is."""

    def __init__(self, robot: FakeRobot, number: int) -> None:
        self.robot, self.number = robot, number
        self.finished = False
        self.reads = 0
        self.begun = robot.clock
        self.pose = list(robot.pose)
        self.t: list[int] = []  # ms since the session began, of each command
        self.q: list[list[float]] = []

    def readOnce(self) -> tuple[State, Span]:
        """Tell the state, and the time since the last one."""
        if self.finished or self.reads != len(self.q):
            raise RuntimeError("a state is read without a command after the last one")
        step = self.robot.late.get((self.number, self.reads), TICK) if self.reads else 0
        self.robot.clock += step
        self.reads += 1
        return State(self.robot.pose, self.robot.clock, self.robot), Span(step)

    def writeOnce(self, command: JointPositions) -> None:
        """Take a command."""
        if self.finished or self.reads != len(self.q) + 1:
            raise RuntimeError("a command is written without a state before it")
        if not self.q and command.q != self.pose:
            raise RuntimeError("the first command is not where the robot was told to be: a jump")
        self.t.append(self.robot.clock - self.begun)
        self.q.append(command.q)
        self.robot.pose = command.q
        self.finished = command.motion_finished
