"""What a Universal Robots controller offers a script, and what it makes of its commands."""

import math
from collections.abc import Callable
from typing import Any

from excitor.design.programs.checks.urscript_functions import FUNCTIONS, NOT_FOLLOWED, SILENT
from excitor.design.programs.execution import Machine
from excitor.design.programs.languages.urscript_expressions import Builtin
from excitor.design.programs.languages.urscript_threads import Clock, Thread
from excitor.design.programs.languages.urscript_values import Array, Pose, Trouble, integer, number, shown
from excitor.design.programs.plan import BACK, END, OUT, StretchName

REGISTER = 24  # of output integers; those below belong to fieldbuses
ABORTED = -1  # what a program leaves behind that gave up
STANDING = (0, END, ABORTED)
NEAR = math.radians(0.5)  # within which a robot that stands is led to where it ought to stand
READING = 1.0  # s, that a person takes to confirm a message
REST = 1.0  # s, that the robot stands still between one stretch and the next, whatever people do


class Controller:
    """Sets the clock's pace, keeps what was commanded, and answers what a script asks."""

    clock: Clock

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.axes = [float(x) for x in machine.axes]
        self.stood = list(self.axes)  # at the last rest
        self.payload = machine.payload
        self.register: int | None = None
        self.message = ""
        self.events: list[str] = []
        self.marks: list[tuple[int, int]] = []
        self.begins: dict[str, int] = {}
        self.commands: dict[StretchName, list[tuple[int, list[float]]]] = {"out": [], "main": [], "back": []}
        self.targets: dict[StretchName, list[tuple[int, list[float]]]] = {"out": [], "main": [], "back": []}
        self.registers: dict[tuple[str, int], Any] = {}
        self._rested = 0  # when the last stretch ended, put off by what people took
        self._mover: tuple[Thread | None, int] = (None, 0)
        self._ahead = 0.0  # control steps that the last motion was given too many

    def builtins(self) -> dict[str, Builtin]:
        """List the functions of the controller."""
        waiting: dict[str, Callable[..., Any]] = {
            "servoj": self.servoj,
            "movej": self.movej,
            "movel": self.movej,
            "movep": self.movej,
            "stopj": self.stopj,
            "stopl": self.stopj,
            "sync": lambda: 1,
            "sleep": self.sleep,
            "popup": self.popup,
        }
        plain: dict[str, Callable[..., Any]] = {
            "get_steptime": lambda: self.machine.step,
            "get_actual_joint_positions": self.positions,
            "get_target_joint_positions": self.positions,
            "get_joint_positions": self.positions,
            "get_actual_joint_speeds": lambda: Array([0.0] * len(self.axes)),
            "get_target_payload": lambda: self.payload,
            "set_payload": self.set_payload,
            "set_target_payload": self.set_payload,
            "set_payload_mass": self.set_payload,
            "is_steady": lambda: True,
            "write_output_integer_register": self.write_integer,
            "write_output_float_register": self._writer("float", float),
            "write_output_boolean_register": self._writer("boolean", bool),
            "read_output_integer_register": self._reader("integer", 0),
            "read_output_float_register": self._reader("float", 0.0),
            "read_output_boolean_register": self._reader("boolean", False),
        }
        return {
            **{name: Builtin(call) for name, call in (FUNCTIONS | plain).items()},
            **{name: Builtin(_nothing) for name in SILENT},
            **{name: Builtin(_not_followed(name)) for name in NOT_FOLLOWED},
            **{name: Builtin(call, waits=True) for name, call in waiting.items()},
        }

    def positions(self) -> Array:
        """Tell where the axes stand; they follow their commands at once."""
        return Array(self.axes)

    def servoj(self, q: Any, a: Any = 0, v: Any = 0, t: Any = 0.002, lookahead_time: Any = 0.1, gain: Any = 300) -> int:
        """Take the next set point; a slider below 100 % stretches the time it has."""
        target = self._joints(q)
        span = number(t, "the time t of servoj")
        if span <= 0.0:
            raise Trouble(f"servoj is given {span:g} s, expected a time above 0")
        if not 0.03 <= number(lookahead_time, "lookahead_time") <= 0.2:
            raise Trouble(f"lookahead_time is {shown(lookahead_time)}, expected 0.03 to 0.2 s")
        if not 100 <= number(gain, "gain") <= 2000:
            raise Trouble(f"gain is {shown(gain)}, expected 100 to 2000")
        number(a, "a"), number(v, "v")
        frames = self._occupy(span)
        self._record(self.commands, target, frames)
        return frames

    def movej(self, pose: Any, a: Any = 1.4, v: Any = 1.05, t: Any = 0, r: Any = 0) -> int:
        """Move to a pose of the joints; how long it takes is a guess."""
        if isinstance(pose, Pose):
            raise Trouble("cannot be followed: a pose; where the joints are then is the controller's own kinematics")
        target = self._joints(pose)
        speed, rise = number(v, "v"), number(a, "a")
        number(r, "r")
        span = number(t, "t")
        if span <= 0.0:
            if speed <= 0.0 or rise <= 0.0:
                raise Trouble(f"a motion with v = {speed:g} and a = {rise:g} never ends")
            way = max(abs(x - y) for x, y in zip(target, self.axes, strict=True))
            span = way / speed + speed / rise if way > speed**2 / rise else 2.0 * math.sqrt(way / rise)
        frames = self._occupy(span)
        self._record(self.targets, target, frames)
        return frames

    def stopj(self, a: Any = 20.0) -> int:
        """Stop: axes that follow at once need a step for it."""
        if number(a, "a") <= 0.0:
            raise Trouble(f"a deceleration of {shown(a)}, expected one above 0")
        return self._occupy(self.machine.step)

    def sleep(self, t: Any) -> int:
        """Wait for a time."""
        return max(1, round(number(t, "t") / self.machine.step))

    def popup(
        self, s: Any, title: Any = "Popup", warning: Any = False, error: Any = False, blocking: Any = False
    ) -> int:
        """Tell the operator; one that blocks is confirmed after a while."""
        for flag in (warning, error, blocking):
            if type(flag) is not bool:
                raise Trouble(f"a flag of popup is {shown(flag)}, expected True or False")
        self.message = shown(s)
        if blocking and self.message.lower().startswith("start the recorder"):
            self.events.append("log on")
        if not blocking:
            return 0
        frames = max(1, round(READING / self.machine.step))
        self._rested += frames
        return frames

    def set_payload(self, m: Any, cog: Any = None, inertia: Any = None) -> None:
        """Tell the controller what the flange carries."""
        self.payload = number(m, "m")

    def write_integer(self, address: Any, value: Any) -> None:
        """Write a register; number 24 tells which part of the program runs."""
        self._writer("integer", int)(address, value)
        if address != REGISTER:
            return
        was, self.register = self.register, value
        main = value not in (OUT, BACK, *STANDING)
        if main:
            self.marks.append((self.clock.now, value))
        if self._stretch(was) == "main" and not main and value == 0:
            self.events.append("log off")
        name = self._stretch(value)
        if name is not None and (was is None or name != self._stretch(was)):
            self.events.append(name)
        if name is None and self._stretch(was) is not None:
            self.stood, self._rested = list(self.axes), self.clock.now
        elif name is not None and self._stretch(was) is None and self.begins:
            rest = (self.clock.now - self._rested) * self.machine.step
            if rest < REST - 1e-6:
                raise Trouble(f"the robot stands still for {rest:.3g} s before the next stretch, expected {REST:g} s")

    def _stretch(self, register: int | None) -> StretchName | None:
        if register in STANDING:
            return None
        return "out" if register in (None, OUT) else "back" if register == BACK else "main"

    def _joints(self, q: Any) -> list[float]:
        if not isinstance(q, Array) or len(q) != len(self.axes):
            raise Trouble(f"{shown(q)} are no {len(self.axes)} joint positions")
        if isinstance(q, Pose):
            raise Trouble("cannot be followed: a pose instead of joint positions")
        return [number(x, f"joint {k}") for k, x in enumerate(q)]

    def _occupy(self, span: float) -> int:
        """Take the arm for a time in s; how many control steps that is at this override."""
        thread, until = self._mover
        if thread is not None and thread.alive and thread is not self.clock.current and until > self.clock.now:
            raise Trouble("another thread already moves the robot")
        work = span / self.machine.step - self._ahead
        frames = max(1, math.ceil(work / self.machine.override - 1e-6))
        self._ahead = min(1.0, max(0.0, frames * self.machine.override - work))
        self._mover = (self.clock.current, self.clock.now + frames)
        return frames

    def _record(self, kept: dict[StretchName, list[tuple[int, list[float]]]], target: list[float], frames: int) -> None:
        begins, ends = self.clock.now, self.clock.now + frames
        name = self._stretch(self.register)
        if name is None:
            far = max(abs(x - y) for x, y in zip(target, self.stood, strict=True))
            if far > NEAR:
                raise Trouble(f"moves by {far:.3g} rad while register {REGISTER} says that the robot stands")
        else:
            other = self.targets if kept is self.commands else self.commands
            if other[name]:
                raise Trouble("servoj and movej within one stretch cannot be followed")
            if not kept[name]:
                self.begins[name] = begins
                if kept is self.targets:
                    kept[name].append((begins, list(self.axes)))
            kept[name].append((ends, target))
        self.axes = target

    def _writer(self, kind: str, expected: type) -> Callable[[Any, Any], None]:
        def write(address: Any, value: Any) -> None:
            if expected is int:
                integer(value, "what is written")
            elif expected is float:
                number(value, "what is written")
            elif type(value) is not bool:
                raise Trouble(f"what is written is {shown(value)}, expected True or False")
            if not 0 <= integer(address, "the register") < 128:
                raise Trouble(f"there is no register {address}")
            self.registers[kind, address] = value

        return write

    def _reader(self, kind: str, default: Any) -> Callable[[Any], Any]:
        return lambda address: self.registers.get((kind, integer(address, "the register")), default)


def _nothing(*values: Any, **named: Any) -> None:
    """Do what moves no joint and answers nothing."""


def _not_followed(name: str) -> Callable[..., None]:
    def refuse(*values: Any, **named: Any) -> None:
        raise Trouble(f"cannot be followed: {name}")

    return refuse
