"""A VAL3 controller on a virtual clock: moves wait in its buffer while the program runs ahead."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from excitor.design.programs.target import POSES, Execution, Machine, ProgramError
from excitor.design.programs.val3.language import Application, Function, Runner, read
from excitor.design.programs.way_points import SHORTEST, WayRecorder, check_speed, check_tops
from excitor.robots.arrays import FloatArray

_LOG, _MARK, _STEP, _TOP = "nLog", "nMark", "nStep", "nTopSpeed"  # what the data tell a recorder, and a reader
_MEANWHILE: dict[str, dict[str, Any]] = {"monitor speed 50 %": {"override": 0.5}, "another mode": {"automatic": False}}
_SPEED = 2e-3  # share by which a speed may miss the stated time of its way


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the application called `name` from its start program to its end."""
    application = read(files, name)
    if len(machine.axes) != 6:
        raise ProgramError(f"{name}/{name}.pjx", None, f"the arm has 6 axes, not {len(machine.axes)}")
    arm = Arm(application, name, machine)
    _run(application, arm)
    _check_stop(application, name, machine)
    for key in range(1, arm.keys + 1):
        for change in _MEANWHILE:
            _run(application, _Meanwhile(application, name, machine, key, change))
    return arm.recorder.execution(arm.now + arm.ahead)


def _run(application: Application, arm: "Arm") -> None:
    runner = Runner(application, arm.functions(), arm.wait, {_LOG: arm.log, _MARK: arm.mark, _STEP: arm.state})
    runner.run("start", [])
    arm.settle()


def _check_stop(application: Application, name: str, machine: Machine) -> None:
    """Run the program that the stop key starts: it discards the moves that wait, and makes none."""
    if "stop" not in application.programs or not machine.settings:
        return
    arm = Arm(application, name, machine)
    Runner(application, arm.functions(), arm.wait, {}).run("stop", [])
    if arm.ends or not arm.ready:
        raise ProgramError(f"{name}/stop.pgx", None, "must discard all moves by resetMotion(), and make none")


class Arm:
    """The arm and its buffer of moves. Without top speeds in the data, every move takes a second.

    While the datum nStep is above 0, every move counts for so many seconds, and delays count for nothing.
    """

    def __init__(self, application: Application, name: str, machine: Machine) -> None:
        top = application.data.get(_TOP)
        self.top = None if top is None else np.array(top.values, dtype=float)
        if self.top is not None and not (self.top.shape == (6,) and (self.top > 0.0).all()):
            raise ProgramError(f"{name}/{name}.dtx", None, f"{_TOP} needs a speed above 0 for each of 6 axes")
        check_tops(f"{name}/{name}.dtx", self.top, machine)
        self.machine, self.stops = machine, name.endswith(POSES)
        self.recorder = WayRecorder(f"{name}/start.pgx", machine)
        self.now = 0.0  # on the controller's clock
        self.ahead = 0.0  # of the times that count, after the last move in the buffer
        self.keys = 0  # pressed
        self.ready = not machine.settings  # no moves wait from before
        self.step = 0.0  # that a move counts for, if above 0
        self.begins: list[float] = []  # of the moves since the last reset, s
        self.ends: list[float] = []
        self.counted: list[float] = []  # ends in the times that count
        self.poses: list[FloatArray] = [machine.axes.astype(float)]

    def functions(self) -> dict[str, Function]:
        """List the instructions that the arm answers."""
        return {
            "movej": Function(("jointRx", "tool", "mdesc"), "num", self.movej),
            "waitendmove": Function((), "", self.settle),
            "resetmotion": Function((), "", self.reset),
            "getmoveid": Function((), "num", self.move_id),
            "herej": Function((), "jointRx", self.here),
            "issettled": Function((), "bool", lambda: self.now >= self.end()),
            "ispowered": Function((), "bool", lambda: True),
            "workingmode": Function((), "num", lambda: 3.0 if self.machine.automatic else 2.0),
            "getmonitorspeed": Function((), "num", lambda: 100.0 * self.machine.override),
            "esstatus": Function((), "num", lambda: 0.0),
            "delay": Function(("num",), "", self.delay),
            "clock": Function((), "num", lambda: self.now),
            "get": Function((), "num", self.key),
            "userpage": Function(("bool",), "", lambda *fixed: None, more=True),
            "popupmsg": Function(("string",), "", self.recorder.messages.append),
            "putln": Function(("*",), "", lambda text: None),
            "put": Function(("*",), "", lambda text: None),
            "cls": Function((), "", lambda: None),
        }

    def key(self) -> float:
        """Press a key."""
        self.keys += 1
        return 270.0

    def end(self) -> float:
        """Time at which the buffer will be empty, s."""
        return self.ends[-1] if self.ends else self.now

    def movej(self, joint: list[float], tool: str, how: dict[str, float]) -> float:
        """Append a move to the buffer; it begins when those before it have ended; return its number."""
        to = np.array(joint)
        for key in ("accel", "decel", "leave", "reach", "tmax", "rmax"):
            if problem := self.machine.strange(f"{key} of {how['blend']}", how[key]):
                raise ValueError(problem)
        if str(how["blend"]) == "off" and (problem := self.machine.strange("slow", how["vel"])) and not self.stops:
            raise ValueError(problem)
        if not self.ready:
            raise ValueError("moves before resetMotion() has discarded what may wait in the buffer")
        if not how["vel"] > 0.0:
            raise ValueError(f"a move at {how['vel']:g} % never ends")
        if self.stops and self.now < self.end() - SHORTEST:
            raise ValueError("a first run stops at every pose")
        begin, seconds = max(self.now, self.end()), 1.0
        start = begin + self.ahead
        if self.top is not None:
            seconds = float((np.abs(to - self.poses[-1]) / self.top).max()) * 100.0 / how["vel"]
        if self.step > 0.0:
            if seconds > 0.0:
                check_speed(how["vel"], seconds, self.step, _SPEED * how["vel"])
            start = min(start, self.recorder.corners[-1][0]) if self.now < self.end() else start
            self.ahead = start + self.step - begin - seconds
        self.recorder.go(start, begin + seconds + self.ahead, to)
        self.begins.append(begin)
        self.ends.append(begin + seconds)
        self.counted.append(self.ends[-1] + self.ahead)
        self.poses.append(to)
        return float(len(self.ends))

    def move_id(self) -> float:
        """Count finished moves, and the share done of the present one."""
        k = self._finished()
        if k == len(self.ends):
            return float(k)
        span = max(self.ends[k] - self.begins[k], SHORTEST)
        return k + min(max((self.now - self.begins[k]) / span, 0.0), 1.0 - SHORTEST)

    def here(self) -> list[float]:
        """Return the present axis positions, deg."""
        k = self._finished()
        pose = self.poses[k]
        if k < len(self.ends):
            pose = pose + (self.move_id() - k) * (self.poses[k + 1] - pose)
        return [float(x) for x in pose]

    def settle(self) -> None:
        """Wait until the buffer is empty."""
        self.now = max(self.now, self.end())

    def reset(self) -> None:
        """Discard the finished moves."""
        if self.now < self.end() - SHORTEST:
            raise ValueError("resetMotion in the middle of a move is not followed")
        self.begins, self.ends, self.counted, self.poses = [], [], [], self.poses[-1:]
        self.ready = True

    def delay(self, seconds: float) -> None:
        """Wait for a time."""
        if not 0.0 <= seconds <= self.machine.longest:
            raise ValueError(f"delay takes {seconds:g} s, expected 0 or more and no ages")
        self.now += seconds
        if self.step > 0.0:
            self.ahead -= seconds

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait from one end of a move to the next until a condition holds."""
        while not condition():
            k = self._finished()
            if k == len(self.ends):
                raise ValueError("the condition never comes true")
            self.now = self.ends[k]

    def state(self, value: float) -> None:
        """Apply the program's datum for the times of its moves."""
        self.step = max(value, 0.0)

    def log(self, value: float) -> None:
        """Switch the recorder's logger on or off."""
        if self.now < self.end() - SHORTEST:
            raise ProgramError(self.recorder.file, None, "the logger is switched while the arm moves")
        self.recorder.log(self.now + self.ahead, value != 0.0)

    def mark(self, value: float) -> None:
        """Record a mark; in motion, it belongs to the last move that has ended."""
        resting = self.now >= self.end() - SHORTEST
        k = self._finished()
        at = self.now + self.ahead if resting else self.counted[max(k - 1, 0)]
        self.recorder.mark(at, value, resting=resting)

    def _finished(self) -> int:
        return int(np.searchsorted(self.ends, self.now + SHORTEST, side="right"))


class _Meanwhile(Arm):
    """The arm with a change of state before a key is pressed, after which the run must not begin."""

    def __init__(self, application: Application, name: str, machine: Machine, key: int, change: str) -> None:
        super().__init__(application, name, machine)
        self.last, self.change = key, change
        self.changed = False

    def key(self) -> float:
        """Apply the change of state, and press the key."""
        if self.keys + 1 == self.last:
            self.changed = True
            self.machine = replace(self.machine, **_MEANWHILE[self.change])
        return super().key()

    def log(self, value: float) -> None:
        """Raise an error if the run begins after the change."""
        if value != 0.0 and self.changed:
            raise ProgramError(self.recorder.file, None, f"the run begins after a question with {self.change}")
        super().log(value)
