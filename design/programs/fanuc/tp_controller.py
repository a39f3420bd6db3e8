"""A FANUC controller on a virtual clock: it runs TP programs, and each motion takes its nominal time."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from excitor.design.programs.fanuc.language import Program, Runner, number_in, parse
from excitor.design.programs.target import POSES, Execution, Machine, ProgramError, file_in
from excitor.design.programs.way_points import WayRecorder, check_speed, check_tops
from excitor.robots.arrays import FloatArray

LOG, MARK = "EX LOG", "EX MARK"  # comments of the flag and of the register that tell a recorder
_TOP = re.compile(r"!J(\d) AT 100%: ([\d.]+) DEG/S")
_WAYS, _REST = re.compile(r"!WAYS OF ([\d.]+) S"), re.compile(r"!REST OF ([\d.]+) S")
_GROUP = "1,*,*,*,*"  # of axes, that the program moves
_END_OF_WAYS = "!END OF WAYS"
_MEANWHILE: dict[str, dict[str, Any]] = {"override 50 %": {"override": 0.5}, "another mode": {"automatic": False}}
_MOVED = {f"J{k + 1} moved by {side:g} deg": (k, side) for k in range(6) for side in (-2.0, 2.0)}
_STILL = 0.999  # s that the arm stands before the log begins and after it ends
_HUNDREDTH = 0.00501  # s, that a wait may miss its rest by
_POINTS, _SHARE = 1.5, 0.05  # percents, and share, by which a whole percent may miss the stated time of its way


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the program called `name` from its first line to its end."""
    program = program_of(files, name)
    unused = set(program.positions) - {number_in(x.parts["to"]) for x in program.statements if "to" in x.parts}
    if unused:
        raise ProgramError(program.file, None, f"nothing goes to P[{min(unused)}]")
    arm = Arm(program, machine)
    execution = arm.execution(Runner(program, arm).run())
    for pause in range(1, arm.pauses + 1):
        for change in (*_MEANWHILE, *_MOVED):
            Runner(program, _Meanwhile(program, machine, pause, change)).run()
    return execution


def program_of(files: Mapping[str, str], name: str) -> Program:
    """Parse the TP program called `name`."""
    file = f"{name}.ls"
    text = file_in(files, file)
    program = parse(text, file)
    if program.name != name.upper():
        raise ProgramError(file, 1, f"it holds a program called {program.name!r}")
    return program


class Arm:
    """The arm. Without top speeds in the program's remarks, every move in percent takes a second.

    After the remark "WAYS OF x S" every move counts for x seconds, and waits for nothing, up to "END OF WAYS".
    After "REST OF x S" the next wait counts for x seconds: TP programs wait for hundredths.
    """

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program, self.machine = program, machine
        if len(machine.axes) != 6:
            raise ProgramError(program.file, None, f"the arm has 6 axes, not {len(machine.axes)}")
        stated = dict(x for statement in program.statements for x in _TOP.findall(statement.text))
        self.top = np.array([float(stated[k]) for k in "123456"]) if set(stated) == set("123456") else None
        if self.top is not None and not (self.top > 0.0).all():
            raise ProgramError(program.file, None, "top speeds must be above 0")
        check_tops(program.file, self.top, machine)
        self.recorder = WayRecorder(program.file, machine)
        self.now = 0.0  # of the times that count
        self.step = self.rest = 0.0  # what a move, and the next wait, count for, if above 0
        self.moving = False  # the last motion does not stop
        self.first, self.ridden = True, False  # no motion yet; a way-point among others was a stop
        self.stood, self.off = -np.inf, -np.inf  # when the last motion, and the log, ended
        self.pauses, self.question = 0, ""
        if machine.settings and program.group != _GROUP:
            raise ProgramError(program.file, None, f"moves the groups {program.group!r}, expected {_GROUP!r}")

    def move(self, to: FloatArray, speed: float, unit: str, stops: bool) -> None:
        """Go to a position in a line through joint space."""
        self.answered()
        if not stops and self.program.name.endswith(POSES.upper()):
            raise ValueError("a first run stops at every pose")
        if self.ridden and self.step > 0.0:
            raise ValueError("stops between way-points that are passed")
        if self.first and not self.program.name.endswith(POSES.upper()):
            self.hold("slow", speed)
        self.first = False
        if self.machine.settings and self.now - self.off < _STILL:
            raise ValueError("moves within 1 s after the logger was switched off")
        self.ridden, self.stood = stops and self.step > 0.0, np.inf
        seconds = {"sec": speed, "msec": 1e-3 * speed, "%": 1.0}[unit]
        if unit == "%" and self.top is not None:
            seconds = float((np.abs(to - self.recorder.pose) / self.top).max()) * 100.0 / speed
            if self.step > 0.0:
                check_speed(speed, seconds, self.step, _POINTS + _SHARE * speed)
        begin, self.now = self.now, self.now + (self.step or seconds)
        self.moving, self.stood = not stops, self.now
        self.recorder.go(begin, self.now, to)

    def hold(self, name: str, value: object) -> None:
        """Refuse a setting that the target's record does not state."""
        if problem := self.machine.strange(name, value):
            raise ValueError(problem)

    def wait(self, seconds: float) -> None:
        """Stand still."""
        if self.rest > 0.0 and abs(seconds - self.rest) > _HUNDREDTH:
            raise ValueError(f"a wait of {seconds:g} s does not fit to a rest of {self.rest:g} s")
        if self.moving:
            raise ValueError("a wait comes after a motion that does not stop")
        self.now += 0.0 if self.step > 0.0 else self.rest or seconds
        self.rest = 0.0

    def remark(self, text: str) -> None:
        """Apply the times of moves that the program's remarks state."""
        found = _WAYS.fullmatch(text)
        if found:
            self.step = float(found.group(1))
        if text == _END_OF_WAYS:
            self.step, self.ridden = 0.0, False
        found = _REST.fullmatch(text)
        if found:
            self.rest = float(found.group(1))

    def read(self, name: str) -> float | None:
        """Return the override or the teach pendant's switch."""
        known = {"$MCR.$GENOVERRIDE": 100.0 * self.machine.override, "UO[8]": 0.0 if self.machine.automatic else 1.0}
        if name in known:
            return known[name]
        return 0.0 if name.startswith(("DI[", "DO[", "RI[", "RO[", "GI[", "GO[")) else None

    def here(self) -> FloatArray:
        """Return the axis positions, deg, in single precision."""
        return self.recorder.pose.astype(np.float32).astype(float)

    def message(self, text: str) -> None:
        """Show a message."""
        self.answered()
        self.question = text if text.endswith("?") else ""
        self.recorder.messages.append(text)

    def pause(self) -> None:
        """Count a pause, after which somebody starts the program again."""
        self.pauses, self.question = self.pauses + 1, ""

    def answered(self) -> None:
        """Refuse to go on where a question to the operator is not followed by a pause."""
        if self.question:
            raise ValueError(f"does not wait for an answer to {self.question!r}")

    def stream(self, which: str) -> None:
        """Refuse: this is a controller without streams."""
        raise ValueError("stream motion has no place in this program")

    def write(self, name: str, comment: str, value: float) -> None:
        """Apply the logger's flag and the mark's register to the recorder; refuse outputs and system variables."""
        stated = self.machine.settings
        first, own = stated.get("first_register", 196), {f"F[{stated.get('flag', 99)}]"}
        if name not in own | {f"R[{k}]" for k in range(first, first + 4)}:
            self.hold(name, value)
        if comment == LOG:
            if self.moving:
                raise ValueError("the logger is switched while the arm moves")
            if self.machine.settings and value != 0.0 and self.now - self.stood < _STILL:
                raise ValueError("the logger is switched on before the arm has stood still for 1 s")
            self.off = self.now if value == 0.0 else -np.inf
            self.recorder.log(self.now, value != 0.0)
        if comment == MARK:
            self.recorder.mark(self.now, value, resting=not self.moving)

    def execution(self, to_its_end: bool) -> Execution:
        """Return the execution."""
        if self.moving:
            raise ProgramError(self.program.file, None, "the program ends in the middle of a motion")
        execution = self.recorder.execution(self.now)
        return execution if to_its_end else replace(execution, halted=(self.recorder.messages or ["ABORT"])[-1])


class _Meanwhile(Arm):
    """The arm with a change of state during a pause, after which the run must not begin."""

    def __init__(self, program: Program, machine: Machine, pause: int, change: str) -> None:
        super().__init__(program, machine)
        self.last, self.change = pause, change
        self.changed = False

    def pause(self) -> None:
        """Apply the change of state."""
        super().pause()
        if self.pauses == self.last:
            self.changed = True
            self.machine = replace(self.machine, **_MEANWHILE.get(self.change, {}))
            axis, side = _MOVED.get(self.change, (0, 0.0))
            self.recorder.pose = self.recorder.pose + side * (np.arange(6) == axis)

    def write(self, name: str, comment: str, value: float) -> None:
        """Raise an error if the run begins after a change; ignore changes after the run."""
        if comment == LOG and value != 0.0 and self.changed:
            raise ValueError(f"the run begins after a PAUSE with {self.change}")
        super().write(name, comment, value)
