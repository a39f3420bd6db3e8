"""Programs of torques, class "unverified motion": tables with guards, and the client that plays them.

No controller follows a path: where the arm goes follows from its parameters, which are not known yet. What is proven is
the guards: the client is run against robots that leave each of them, at the threshold.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from excitor.design.programs import registry
from excitor.design.programs.clients import torque_client
from excitor.design.programs.clients.ros2_program import Reading, Refused
from excitor.design.programs.csv import part_of
from excitor.design.programs.plan import UNVERIFIED, Plan, Torques, marks
from excitor.design.programs.run_json import read_json
from excitor.design.programs.streams import check_clients
from excitor.design.programs.target import CannotDrive, ProgramError, Target, axes_of, file_in, file_text
from excitor.design.programs.verify import Verdict
from excitor.robots.arrays import FloatArray

CLIENTS = ("torque_client.py", "ros2_program.py")
HOME = np.radians(0.5), 1e-3  # rad, m: about home, where a program starts
_EDGE = 1e-6  # rad, m or per s: before a guard and beyond it, where the client is tried
_TARGETS = ("csv", "ros2")


def target(name: str) -> Target:
    """Describe a target that plays torques; CannotDrive where it plays none."""
    if name not in _TARGETS:
        raise CannotDrive(
            f'{name}: takes positions, and the design is of torques (excitation = "torque"); torque programs are '
            f"written for {' and '.join(_TARGETS)}"
        )
    own = tomllib.loads(file_text("effort.toml"))[name]
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
    return replace(
        registry.target(name),
        timing=UNVERIFIED,
        clients=CLIENTS,
        stop_s=0.0,
        conditions={},
        refuses=("home", "payload"),
        **own,
    )


@dataclass(slots=True)
class Effort:
    """Writes the torque programs of a target."""

    TARGET: Target

    def emit(self, plan: Plan, name: str, spacing: float | None) -> Mapping[str, str]:
        """Write the table, and the program with its guards."""
        if spacing is not None:
            raise CannotDrive(
                f"{self.TARGET.name}: torques are held for a sample each; --spacing does not apply to them"
            )
        torques, axes = _torques(plan), axes_of(plan.robot, self.TARGET)
        if not (np.array_equal(axes.matrix, np.eye(plan.robot.n_joints)) and not axes.zero.any()):
            raise CannotDrive(
                f"{self.TARGET.name}: axes of {plan.robot.name} are not its joints, and torque programs command joints"
            )
        table = "".join(_rows(plan, torques))
        slides = plan.robot.mechanism.prismatic
        data: dict[str, Any] = {
            "format": "excitor-torque",
            "version": 1,
            "class": UNVERIFIED,
            "campaign": plan.campaign,
            "run": plan.run,
            "dry": plan.dry,
            "dry_percent": 100.0 * torques.share,
            "joints": list(axes.names),
            "units": np.where(slides, "m", "rad").tolist(),
            "payload_kg": plan.payload,
            "sample_time": torques.sample_time,
            "home": plan.home.tolist(),
            "home_tolerance": np.where(slides, HOME[1], HOME[0]).tolist(),
            "table": f"{name}.csv",
            "sha256": hashlib.sha256(table.encode()).hexdigest(),
            **torques.guards,
            "marks": [[t, mark] for t, mark in marks(plan)],
        }
        return {f"{name}.csv": table, f"{name}.json": json.dumps(data, indent=1, allow_nan=False) + "\n"}


def _torques(plan: Plan) -> Torques:
    if plan.torques is None:
        raise CannotDrive(f"run {plan.run!r} is of positions, and not for a torque program")
    return plan.torques


def _rows(plan: Plan, torques: Torques) -> Iterator[str]:
    yield ",".join(["t", "phase", "period", *(f"tau{j}" for j in range(1, plan.robot.n_joints + 1))]) + "\n"
    starts = marks(plan)
    t = torques.sample_time * np.arange(len(torques.tau))
    which = np.searchsorted([start - 1e-9 for start, _ in starts], t, side="right") - 1
    for time, part, row in zip(t, which, torques.tau, strict=True):
        phase, period = part_of("main", starts[part][1])
        yield f"{time:.12g},{phase},{period}," + ",".join(f"{x:.12g}" for x in row) + "\n"


def verify(plan: Plan, target: Target, files: Mapping[str, str], name: str) -> Verdict:
    """Run a program against robots inside its guards, leaving each of them, and not to be pushed."""
    try:
        problems = tuple(_problems(plan, files, name))
    except (ProgramError, Refused) as error:
        problems = (str(error),)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        problems = (f"{name}.json: is no torque program: {error!r}",)
    return Verdict(name, problems, float("nan"), None, None)


def _problems(plan: Plan, files: Mapping[str, str], name: str) -> Iterator[str]:
    check_clients(files, CLIENTS)
    data = read_json(f"{name}.json", file_in(files, f"{name}.json"))
    program = torque_client.Program(data, file_in(files, f"{name}.csv"))
    torques = _torques(plan)
    wanted = {**torques.guards, "home": plan.home.tolist(), "sample_time": torques.sample_time}
    changed = [key for key, value in wanted.items() if data[key] != value]
    if changed or data["payload_kg"] != plan.payload:
        yield f"{name}.json: {', '.join(changed) or 'payload_kg'} differs from the plan's"
    tau = np.array(program.torques)
    if tau.shape != torques.tau.shape or np.abs(tau - torques.tau).max() > 1e-9 * max(1.0, np.abs(tau).max()):
        yield f"{name}.csv: torques differ from the design's"
        return
    if changed:
        return
    yield from _played(program, plan)
    yield from _guarded(program, plan)
    yield from _refused(program, plan)


def _played(program: torque_client.Program, plan: Plan) -> Iterator[str]:
    """Play to the end: a robot that does what the prior does is pushed by every row, and by zero at last."""
    robot = Rehearsal(program, plan)
    ended = robot.play(program)
    if ended:
        yield f"a robot that moves as simulated does not get to the end: {ended}"
    elif robot.commands != [*program.torques, *([0.0] * len(program.joints),) * torque_client.ZEROS]:
        yield "the torques that are commanded are not those of the table, each once, and zero at the end"


def _guarded(program: torque_client.Program, plan: Plan) -> Iterator[str]:
    """Leave each guard in the middle of the run, by as little as can be, and stay as little within it."""
    middle = len(program.torques) // 2
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        (f"{side} guard of {name}", {"joint": j, key: bound - sign * _EDGE}, {key: bound + sign * _EDGE})
        for j, name in enumerate(program.joints)
        for side, key, bound, sign in (
            ("lower position", "q", program.low[j], -1.0),
            ("upper position", "q", program.high[j], 1.0),
            ("speed", "dq", program.speed[j], 1.0),
            ("reverse speed", "dq", -program.speed[j], -1.0),
        )
    ]
    cases += [
        ("watchdog, of the last reading", {"age": program.watchdog - _EDGE}, {"age": program.watchdog + _EDGE}),
        ("watchdog, of the computer", {"late": program.watchdog - _EDGE}, {"late": program.watchdog + _EDGE}),
        ("reading that is no number", {}, {"joint": 0, "q": float("nan")}),
    ]
    for what, within, beyond in cases:
        joint = {"joint": within["joint"]} if "joint" in within else {}
        kept = Rehearsal(program, plan, at=middle, **within).play(program)
        robot = Rehearsal(program, plan, at=middle, **{**joint, **beyond})
        ended, after = robot.play(program), robot.commands[middle:]
        if kept:
            yield f"the {what} ends the run before it is reached: {kept}"
        if not ended:
            yield f"the {what} does not end the run"
        elif len(robot.commands) != middle + torque_client.ZEROS or any(any(row) for row in after):
            yield f"beyond the {what} the robot is still pushed"


def _refused(program: torque_client.Program, plan: Plan) -> Iterator[str]:
    """Start away from home, in motion, with another payload and without readings: nothing may be pushed."""
    situations: list[tuple[str, dict[str, Any]]] = [
        (f"{name} away from home", {"at": -1, "joint": j, "q": program.home[j] + 1.1 * program.near[j]})
        for j, name in enumerate(program.joints)
    ]
    situations += [("an arm in motion", {"at": -1, "joint": 0, "dq": 2.0 * torque_client.AT_REST})]
    situations += [("no fresh reading", {"at": -1, "age": 2.0 * program.watchdog})]
    if program.payload is not None:
        situations.append(("another payload", {"payload": program.payload + 1.0}))
    for what, state in situations:
        robot = Rehearsal(program, plan, **state)
        if not robot.play(program) or robot.commands:
            yield f"with {what} the program pushes the robot; it must refuse"


@dataclass(eq=False)
class Rehearsal:
    """A robot on a virtual clock that moves as simulated, but for what a case makes of one sample (-1: before all)."""

    program: torque_client.Program
    plan: Plan
    at: int | None = None
    joint: int = 0
    q: float | None = None
    dq: float | None = None
    age: float = 0.0
    late: float = 0.0
    payload: float | None = None
    commands: list[list[float]] = field(default_factory=list)
    time: float = 0.0
    begin: float | None = None
    motion: tuple[FloatArray, FloatArray] = field(init=False)

    def __post_init__(self) -> None:
        t = self.program.step * np.arange(len(self.program.torques))
        self.motion = self.plan.body.at(t), self.plan.body.at(t, 1)

    def play(self, program: torque_client.Program) -> str:
        """Conduct a program; why it ended early, or an empty string."""
        payload = program.payload if self.payload is None else self.payload
        try:
            torque_client.conduct(self, program, payload=payload, confirm=lambda: True, say=lambda _: None)
        except (torque_client.Stopped, Refused) as error:
            return str(error)
        return ""

    def now(self) -> float:
        """Return the virtual time; late in the sample of the case."""
        return self.time + (self.late if self.begin is not None and len(self.commands) == self.at else 0.0)

    def wait_until(self, t: float) -> None:
        """Let virtual time pass."""
        self.time = max(self.time, t)

    def read(self) -> tuple[Reading, float]:
        """Return the simulated state of this sample, changed in the sample of the case."""
        k = len(self.commands) if self.begin is not None else -1
        q, dq = (x[min(max(k, 0), len(x) - 1)].copy() for x in self.motion)
        here = k == self.at
        if here and self.q is not None:
            q[self.joint] = self.q
        if here and self.dq is not None:
            dq[self.joint] = self.dq
        names = self.program.joints
        reading = Reading(
            self.time, dict(zip(names, q.tolist(), strict=True)), dict(zip(names, dq.tolist(), strict=True))
        )
        return reading, self.age if here else 0.0

    def command(self, torques: Sequence[float]) -> None:
        """Keep what is commanded."""
        self.commands.append(list(torques))

    def log_on(self) -> None:
        """Begin the run."""
        self.begin = self.time

    def log_off(self) -> None:
        """End it."""
