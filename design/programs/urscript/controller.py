"""A Universal Robots controller on a virtual clock: a script -> its commands, marks and refusals.

Register 24 holds the part of a program that runs: OUT, a part of the run, BACK; 0 and END while the robot stands still.
Command k of a segment is the position after k control steps, so that the last one is the pose at which it ends.
Arithmetic, text and list functions of a script, and calls that change no motion, need no controller state.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from excitor.design.programs.plan import BACK, END, OUT, Stretches, StretchName
from excitor.design.programs.runtime import Fault
from excitor.design.programs.target import Execution, Machine, ProgramError, Stretch, file_in
from excitor.design.programs.urscript.language import (
    LONGEST,
    Array,
    Builtin,
    Clock,
    Halt,
    Pose,
    Runtime,
    Struct,
    Text,
    Thread,
    integer,
    load,
    number,
    shown,
)


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the script called `name`."""
    file = f"{name}.script"
    controller, runtime = _compiled(file_in(files, file), file)
    controller.begin(machine)
    steps = runtime.start()
    clock = Clock(runtime.passes, machine.longest / machine.step)
    runtime.spawn = clock.spawn
    controller.clock = clock
    halted = False
    try:
        if not clock.run(steps):
            raise ProgramError(file, None, f"the program does not end within {machine.longest:g} s")
    except Halt:
        halted = True
    except RecursionError:
        raise ProgramError(file, None, "functions call one another without end") from None
    return _told(file, controller, halted)


@lru_cache(maxsize=2)  # a program is run again and again, in every situation that it must refuse
def _compiled(text: str, file: str) -> "tuple[Controller, Runtime]":
    """Compile a program for a controller, which runs it once at a time."""
    controller = Controller(Machine(np.zeros(0), 1.0))
    return controller, load(text, file, controller.builtins())[0]


class Controller:
    """Controller functions of a script; sets the clock's pace and records commands, marks and events."""

    clock: Clock

    def __init__(self, machine: Machine) -> None:
        self.begin(machine)

    def begin(self, machine: Machine) -> None:
        """Begin anew on a machine."""
        self.machine = machine
        self.axes = [float(x) for x in machine.axes]
        self.stood = list(self.axes)  # at the last rest
        self.payload = machine.payload
        self.address = machine.settings.get("mark_register", REGISTER)
        self.register: int | None = None
        self.message = ""
        self.events: list[str] = []
        self.marks: list[tuple[int, int]] = []
        self.begins: dict[str, int] = {}
        self.commands: dict[StretchName, list[tuple[int, list[float]]]] = {"out": [], "main": [], "back": []}
        self.rates: list[list[float]] = []  # of the moves out, rad/s at their fastest
        self.rises: list[list[float]] = []  # of the same, rad/s2
        self.targets: dict[StretchName, list[tuple[int, list[float]]]] = {"out": [], "main": [], "back": []}
        self.registers: dict[tuple[str, int], Any] = {}
        self._rested = 0  # when the last stretch ended, put off by what people took
        self._mover: tuple[Thread | None, int] = (None, 0)
        self._ahead = 0.0  # control steps that the last motion was given too many
        self._servo: tuple[Any, Any] = (None, None)  # look-ahead time and gain of servoj that were found right

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
            **{name: Builtin(lambda *_, **__: None) for name in SILENT},
            **{name: Builtin(self._setter(name)) for name in SETTING},
            **{name: Builtin(_not_followed(name)) for name in NOT_FOLLOWED},
            **{name: Builtin(call, waits=True) for name, call in waiting.items()},
        }

    def positions(self) -> Array:
        """Return the axis positions; axes follow their commands at once."""
        return Array(self.axes)

    def override(self) -> float:
        """Return the slider's share now."""
        share = self.machine.override
        for event in self.machine.events:
            begun = self.begins.get(event.stretch, np.inf)
            if event.name == "override" and (self.clock.now - begun) * self.machine.step >= event.after:
                share = 0.01 * event.value
        return share

    def servoj(self, q: Any, a: Any = 0, v: Any = 0, t: Any = 0.002, lookahead_time: Any = 0.1, gain: Any = 300) -> int:
        """Record the next set point; return its control steps, more of them where the slider is below 100 %."""
        target = self._joints(q)
        span = number(t, "the time t of servoj")
        if span <= 0.0:
            raise Fault(f"servoj is given {span:g} s, expected a time above 0")
        number(a, "a"), number(v, "v")
        if self._servo != (lookahead_time, gain):
            if not 0.03 <= number(lookahead_time, "lookahead_time") <= 0.2:
                raise Fault(f"lookahead_time is {shown(lookahead_time)}, expected 0.03 to 0.2 s")
            if not 100 <= number(gain, "gain") <= 2000:
                raise Fault(f"gain is {shown(gain)}, expected 100 to 2000")
            self._hold(lookahead_time=lookahead_time, gain=gain)
            self._servo = (lookahead_time, gain)
        frames = self._occupy(span)
        self._record(self.commands, target, frames)
        return frames

    def movej(self, pose: Any, a: Any = 1.4, v: Any = 1.05, t: Any = 0, r: Any = 0) -> int:
        """Move to a pose of the joints; the duration is an estimate."""
        if isinstance(pose, Pose):
            raise Fault("cannot be followed: a pose; where the joints are then is the controller's own kinematics")
        target = self._joints(pose)
        speed, rise = number(v, "v"), number(a, "a")
        number(r, "r")
        span = number(t, "t")
        ways = [x - y for x, y in zip(target, self.axes, strict=True)]
        way = max(map(abs, ways))
        if span <= 0.0:
            if speed <= 0.0 or rise <= 0.0:
                raise Fault(f"a motion with v = {speed:g} and a = {rise:g} never ends")
            peak = min(speed, math.sqrt(way * rise)) / max(way, 1e-12)
            span = way / speed + speed / rise if way > speed**2 / rise else 2.0 * math.sqrt(way / rise)
        else:
            peak = 2.0 / span  # of a trapezoid, at most
        if self.register in STANDING:
            self._hold(homing_v=v, homing_a=a)
        if self.register == OUT:
            if r:
                raise Fault("a blend radius in a way from pose to pose: none is rounded off")
            self.rates = [*(self.rates or [[0.0] * len(ways)]), [peak * self.override() * x for x in ways]]
            self.rises = [*(self.rises or [[0.0] * len(ways)]), [rise / max(way, 1e-12) * x for x in ways]]
        frames = self._occupy(span)
        self._record(self.targets, target, frames)
        return frames

    def stopj(self, a: Any = 20.0) -> int:
        """Stop: axes that follow at once need a step for it."""
        if number(a, "a") <= 0.0:
            raise Fault(f"a deceleration of {shown(a)}, expected one above 0")
        self._hold(stopj=a)
        return self._occupy(self.machine.step)

    def _hold(self, **values: Any) -> None:
        for name, value in values.items():
            if problem := self.machine.strange(name, value):
                raise Fault(problem)

    def sleep(self, t: Any) -> int:
        """Wait for a time."""
        return max(1, round(number(t, "t") / self.machine.step))

    def popup(
        self, s: Any, title: Any = "Popup", warning: Any = False, error: Any = False, blocking: Any = False
    ) -> int:
        """Show a message to the operator; a blocking one is confirmed after `READING` s."""
        for flag in (warning, error, blocking):
            if type(flag) is not bool:
                raise Fault(f"a flag of popup is {shown(flag)}, expected True or False")
        self.message = shown(s)
        if blocking and self.message.lower().startswith("start the recorder"):
            self.events.append("log on")
        if not blocking:
            return 0
        frames = max(1, round(READING / self.machine.step))
        self._rested += frames
        return frames

    def _setter(self, name: str) -> Callable[..., None]:
        """Make a function that changes the arm or what is wired to it; a record of the target states none."""

        def change(*values: Any, m: Any = None, **_: Any) -> None:
            self._hold(**{name: ", ".join(map(shown, values)) or "its default"})
            if name in ("set_payload", "set_target_payload", "set_payload_mass"):
                self.payload = number(values[0] if values else m, "m")

        return change

    def write_integer(self, address: Any, value: Any) -> None:
        """Write a register; number 24 holds the part of the program that runs."""
        self._writer("integer", int)(address, value)
        if address != self.address:
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
                raise Fault(f"the robot stands still for {rest:.3g} s before the next segment, expected {REST:g} s")

    def _stretch(self, register: int | None) -> StretchName | None:
        if register in STANDING:
            return None
        return "out" if register in (None, OUT) else "back" if register == BACK else "main"

    def _joints(self, q: Any) -> list[float]:
        if not isinstance(q, Array) or len(q) != len(self.axes):
            raise Fault(f"{shown(q)} are no {len(self.axes)} joint positions")
        if isinstance(q, Pose):
            raise Fault("cannot be followed: a pose instead of joint positions")
        if all(type(x) is float for x in q) and math.isfinite(sum(q)):
            return list(q)
        return [number(x, f"joint {k}") for k, x in enumerate(q)]

    def _occupy(self, span: float) -> int:
        """Reserve the arm for a time in s; return the number of control steps at this override."""
        thread, until = self._mover
        if thread is not None and thread.alive and thread is not self.clock.current and until > self.clock.now:
            raise Fault("another thread already moves the robot")
        work = span / self.machine.step - self._ahead
        override = self.override()
        frames = max(1, math.ceil(work / override - 1e-6))
        self._ahead = min(1.0, max(0.0, frames * override - work))
        self._mover = (self.clock.current, self.clock.now + frames)
        return frames

    def _record(self, kept: dict[StretchName, list[tuple[int, list[float]]]], target: list[float], frames: int) -> None:
        begins, ends = self.clock.now, self.clock.now + frames
        name = self._stretch(self.register)
        if name is None:
            far = max(abs(x - y) for x, y in zip(target, self.stood, strict=True))
            if far > NEAR:
                raise Fault(f"moves by {far:.3g} rad while register {self.address} says that the robot stands")
        else:
            other = self.targets if kept is self.commands else self.commands
            if other[name]:
                raise Fault("servoj and movej within one segment are not supported")
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
                raise Fault(f"what is written is {shown(value)}, expected True or False")
            if not 0 <= integer(address, "the register") < 128:
                raise Fault(f"there is no register {address}")
            self.registers[kind, address] = value

        return write

    def _reader(self, kind: str, default: Any) -> Callable[[Any], Any]:
        return lambda address: self.registers.get((kind, integer(address, "the register")), default)


def _told(file: str, controller: Controller, halted: bool) -> Execution:
    over = controller.register == END
    if controller.register is not None and not over and not halted:
        raise ProgramError(file, None, f"the program ends without its end mark, {END} in register 24")
    if over and not halted:
        raise ProgramError(
            file, None, "the program does not halt at its end; a robot program that loops would repeat it"
        )
    if halted and controller.register not in (None, END, ABORTED):
        raise ProgramError(file, None, f"gives up and leaves {controller.register} in register 24, expected {ABORTED}")
    message = "" if over or not halted else controller.message or "halt"
    stretches = tuple(stretch for name in Stretches if (stretch := _stretch(controller, name)) is not None)
    begin = controller.begins.get("main", 0)
    step = controller.machine.step
    marks = tuple(((frame - begin) * step, mark) for frame, mark in controller.marks)
    return Execution(stretches, marks, tuple(controller.events), message)


def _stretch(controller: Controller, name: StretchName) -> Stretch | None:
    commands, targets = controller.commands[name], controller.targets[name]
    step = controller.machine.step
    if commands:
        frames = np.array([frame for frame, _ in commands]) - controller.begins[name]
        return Stretch(name, "commands", frames * step, np.array([q for _, q in commands]))
    if targets:
        frames = np.array([frame for frame, _ in targets]) - controller.begins[name]
        stated = name == "out" and len(controller.rates) == len(targets)
        rates, rises = (np.array(x) if stated else None for x in (controller.rates, controller.rises))
        return Stretch(name, "way-points", frames * step, np.array([q for _, q in targets]), rates, rises)
    return None


REGISTER = 24  # of output integers; those below belong to fieldbuses
ABORTED = -1  # what a program leaves behind that gave up
STANDING = (0, END, ABORTED)
NEAR = math.radians(0.5)  # within which a robot that stands is led to where it ought to stand
READING = 1.0  # s, that a person takes to confirm a message
REST = 1.0  # s, that the robot stands still between one stretch and the next, whatever people do


def _not_followed(name: str) -> Callable[..., None]:
    def refuse(*values: Any, **named: Any) -> None:
        raise Fault(f"cannot be followed: {name}")

    return refuse


def norm(a: Any) -> float:
    """Absolute value of a number, or length of a vector."""
    return math.sqrt(sum(number(x) ** 2 for x in a)) if isinstance(a, Array) else abs(number(a))


def length(v: Any) -> int:
    """Count the items of a list or the letters of a text."""
    if not isinstance(v, Array | Text):
        raise Fault(f"{shown(v)} has no length")
    return len(v)


def join_text(op1: Any, op2: Any) -> Text:
    """Write two values one after the other."""
    text = "".join(op if isinstance(op, Text) else shown(op) for op in (op1, op2))
    if len(text) > LONGEST:
        raise Fault(f"a text of more than {LONGEST} characters")
    return Text(text)


def make_list(length: Any, initial_value: Any, capacity: Any = None) -> Array:
    """Make a list of equal items."""
    n = integer(length, "the length")
    if not 0 <= n <= LONGEST:
        raise Fault(f"a list of {n} items")
    return Array([initial_value] * n)


def _real(function: Callable[[float], float]) -> Callable[[Any], float]:
    return lambda f: function(f if type(f) is float else number(f))


_REAL = ("sin", "cos", "tan", "asin", "acos", "atan", "sqrt", "floor", "ceil")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _real(getattr(math, name)) for name in _REAL},
    "atan2": lambda x, y: math.atan2(number(x), number(y)),
    "pow": lambda base, exponent: math.pow(number(base), number(exponent)),
    "log": lambda b, f: math.log(number(f), number(b)),
    "d2r": _real(math.radians),
    "r2d": _real(math.degrees),
    "norm": norm,
    "length": length,
    "str_cat": join_text,
    "str_len": length,
    "to_str": lambda val: Text(shown(val)),
    "make_list": make_list,
    "struct": lambda **members: Struct(members),
}

_SETTING = (
    "set_payload set_target_payload set_payload_mass set_digital_out set_standard_digital_out "
    "set_configurable_digital_out set_tool_digital_out set_standard_analog_out set_analog_out set_flag set_tcp "
    "set_gravity set_tool_voltage set_tool_communication set_input_actions_to_default "
    "set_runstate_tool_digital_output_to_value set_standard_analog_input_domain set_analog_outputdomain "
    "set_analog_inputrange set_tool_analog_input_domain set_safety_mode_transition_hardness set_payload_cog "
    "zero_ftsensor request_boolean_from_primary_client modbus_set_runstate_dependent_choice "
    "reset_revolution_counter position_deviation_warning"
)
SETTING = tuple(_SETTING.split())
SILENT = ("textmsg", "varmsg")

_NOT_FOLLOWED = (
    "speedj speedl servoc movec force_mode end_force_mode freedrive_mode teach_mode end_teach_mode "
    "end_freedrive_mode get_inverse_kin get_forward_kin get_actual_tcp_pose get_target_tcp_pose "
    "get_inverse_kin_has_solution pose_trans pose_inv pose_add pose_sub interpolate_pose get_tcp_force force "
    "socket_open socket_close socket_send_string socket_send_line socket_read_string socket_read_ascii_float "
    "socket_read_binary_integer socket_send_int socket_get_var socket_set_var rpc_factory rtde_set_watchdog "
    "conveyor_pulse_decode set_conveyor_tick_count get_conveyor_tick_count track_conveyor_linear "
    "stop_conveyor_tracking path_offset_enable direct_torque torque_command get_standard_analog_in "
    "get_standard_digital_in get_digital_in get_analog_in get_configurable_digital_in get_tool_digital_in "
    "get_flag read_input_integer_register read_input_float_register read_input_boolean_register modbus_add_signal "
    "modbus_get_signal_status get_actual_joint_torques get_joint_torques get_joint_temp get_controller_temp "
    "powerdown"
)
NOT_FOLLOWED = tuple(_NOT_FOLLOWED.split())
