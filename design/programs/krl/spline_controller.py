"""Run KRL programs with a spline block on a virtual clock.

`KrlRobot` is a KUKA controller with system variables, axis motions and the trace; it refuses everything else.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from excitor.design.programs.krl.language import Argument, Module, Spline, Value, Word, parse, run, single
from excitor.design.programs.plan import StretchName
from excitor.design.programs.runtime import Fault
from excitor.design.programs.target import Execution, Machine, ProgramError, Stretch, file_in

LONGEST_NAME = 24


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the program called `name`."""
    robot = KrlRobot(machine)
    module = read(files, name, robot)
    drive(module, robot)
    return Execution(robot.stretches(), (), tuple(robot.events), robot.halted)


_STOPMESS = {"GLOBALINTERRUPTDECL3WHEN$STOPMESS==TRUEDOIR_STOPM()", "INTERRUPTON3"}
_MESSAGES = frozenset({"MSGNOTIFY", "MSGQUIT"})


class KrlRobot:
    """Six axes in degrees; moves on a virtual clock, and records its motion."""

    known: Mapping[str, Value] = {}
    routines: frozenset[str] = _MESSAGES | {"BAS", "IR_STOPM"}
    trace_delay = 0.0  # s until the trace runs

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.trace_delay = machine.at_start("logger") or self.trace_delay
        self.pose = np.array([single(float(x)) for x in machine.axes])
        self.names = [f"A{k}" for k in range(1, len(self.pose) + 1)]
        self.clock = 0.0
        self.still = 0.0  # s since the last motion ended
        self.ahead = False  # whether statements run while the robot still moves
        self.speed = {"VEL_PTP": 100, "ACC_PTP": 100}  # %
        self.tool = False
        self.trace: dict[str, Value] = {"STATE": Word("#T_END")}
        self.traced, self.started = False, 0.0
        self.message = self.halted = ""
        self.presses = 0
        self.events: list[str] = []
        self.moved = False
        self.interrupts: set[str] = set()  # statements that hold
        self.ways: dict[StretchName, list[np.ndarray]] = {"out": [], "back": []}
        self.paces: dict[StretchName, list[np.ndarray]] = {"out": [], "back": []}  # deg/s, deg/s2 of moves, at most
        self.main: list[tuple[float, np.ndarray]] = []

    def read(self, name: str) -> Value:
        """Read a system variable."""
        if name == "$AXIS_ACT":
            self.ahead = False  # reading it stops the advance run
            return {axis: float(x) for axis, x in zip(self.names, self.pose, strict=True)}
        if name == "$LOAD":
            if not self.tool:
                raise Fault("$LOAD has no value before a tool is chosen")
            return {"M": single(self.machine.payload)}
        values: dict[str, Value] = {
            "$OV_PRO": round(100.0 * self.machine.override),
            "$MODE_OP": Word("#AUT" if self.machine.automatic else "#T1"),
            "$STOPMESS": False,
            "$TRACE": {**self.trace, "STATE": Word("#T_END")} if self._trace_comes() else self.trace,
        }
        if name not in values:
            raise Fault(f"{name} is not among the system variables that are known here")
        return values[name]

    def write(self, path: tuple[str, ...], value: Value) -> None:
        """Write a system variable: only the trace's."""
        if len(path) != 2 or path[0] != "$TRACE":
            raise Fault(f"{'.'.join(path)} must not be written")
        if path[1] == "NAME" and isinstance(value, str) and len(value) > LONGEST_TRACE_NAME:
            raise Fault(f"a trace's name of more than {LONGEST_TRACE_NAME} letters may be cut")
        if path[1] == "CONFIG" and (problem := self.machine.strange("trace", value)):
            raise Fault(problem)
        if path[1] in ("NAME", "CONFIG") and isinstance(value, str) and value and not isinstance(value, Word):
            self.trace[path[1]] = value
        elif path[1] == "MODE" and value in ("#T_START", "#T_STOP") and isinstance(value, Word):
            self._switch_trace(value == "#T_START")
        else:
            raise Fault(f"$TRACE.{path[1]} does not take this value")

    def call(self, name: str, arguments: Sequence[Argument]) -> Value:
        """Call a routine of the controller."""
        given = [argument.read() for argument in arguments]
        if name in _MESSAGES:
            if not given or not isinstance(given[0], str):
                raise Fault(f"{name} shows a text")
            self.message = given[0]
        elif name == "BAS":
            self._basics(given)
        return None

    def move(self, kind: str, target: Value, rounded: bool) -> None:
        """Move to a pose; only PTP to axis values is understood, and only slowly."""
        if kind != "PTP":
            raise Fault(
                f"{kind} needs the robot's geometry or blends into a spline; only PTP to axis values is run here"
            )
        if rounded:
            raise Fault("a rounded corner is passed at no stated place and time")
        self.not_halted()
        if self.traced:
            raise Fault("PTP while the trace runs: the run is one spline block")
        if not (self.speed["VEL_PTP"] <= SLOWEST and self.speed["ACC_PTP"] <= SLOWEST):
            raise Fault(f"PTP at more than {SLOWEST} % of speed or acceleration; choose less with BAS before it")
        self.travel(self.axes(target))

    def travel(self, pose: np.ndarray) -> None:
        """Go to a pose on the way out or back."""
        homing = not self.moved and np.abs(pose - self.pose).max() <= NEAR
        self.hold_homing()
        if not homing and np.abs(pose - self.pose).max() > SAME:
            stretch: StretchName = "back" if "main" in self.events else "out"
            if not self.ways[stretch]:
                if stretch == "back" and self.still < STILL - 1e-6:
                    raise Fault(f"the way back begins before the robot has stood still for {STILL:g} s")
                self.ways[stretch].append(self.pose)
                self.events.append(stretch)
            self.ways[stretch].append(pose)
            self.paces[stretch].append(self._pace(pose - self.pose))
        self._moved(pose)

    def hold_homing(self) -> None:
        """Refuse another speed or acceleration of the first motion, to home, than the record states."""
        for name, value in {} if self.moved else self.speed.items():
            if problem := self.machine.strange(f"homing {name}", value):
                raise Fault(problem)

    def _pace(self, way: np.ndarray) -> np.ndarray:
        """Return rates and accelerations, (2, n_axes), by the slowest axis' share of its top; nan: unknown."""
        shares = 0.01 * self.speed["VEL_PTP"] * self.machine.override, 0.01 * self.speed["ACC_PTP"]
        tops = (np.full(len(way), np.nan) if top is None else top for top in (self.machine.top, self.machine.rise))
        return np.array([share * way / (np.abs(way) / top).max() for share, top in zip(shares, tops, strict=True)])

    def spline(self, block: Spline) -> None:
        """Run the block: every point at its time."""
        self.not_halted()
        if not self.traced:
            raise Fault("the spline block runs without the trace")
        if "main" in self.events:
            raise Fault("a second spline block: the run is a single one")
        if block.kind != "PTP_SPLINE" or block.times is None:
            raise Fault("the run is a PTP_SPLINE block with a time block")
        if block.times.start != 1:
            raise Fault("TIME_BLOCK START follows the first segment")
        if self.speed != {"VEL_PTP": 100, "ACC_PTP": 100}:
            raise Fault("the block needs BAS (#VEL_PTP,100) and BAS (#ACC_PTP,100), or it is slowed down")
        for segment in block.segments:
            if not segment.constant:
                raise Fault(f"line {segment.line}: a variable inside a spline block is frozen when the block begins")
        points = np.array([self.axes(segment.target) for segment in block.segments])
        if np.abs(points[0] - self.pose).max() > SAME:
            raise Fault("the block does not begin where the robot stands")
        self.events.append("main")
        timed = list(zip(self.clock + _times(block), points, strict=True))
        self.main += timed[1:] if self.main else timed
        self.clock = self.main[-1][0]
        self._moved(points[-1])

    def wait(self, seconds: float | None) -> None:
        """Stand still."""
        self.ahead = False
        if seconds is None:
            return
        if not 0.0 <= seconds <= self.machine.longest:
            raise Fault(f"waits for {seconds:g} s")
        if self.traced and seconds > 0.0 and not self._trace_comes():
            n = max(1, int(np.ceil(seconds / REST_STEP - 1e-6)))
            self.main += [(self.clock + k * seconds / n, self.pose) for k in range(0 if not self.main else 1, n + 1)]
        self.still += seconds
        self.clock += seconds
        if self.clock > self.machine.longest:
            raise Fault(f"is still running after {self.machine.longest:g} s")

    def halt(self) -> None:
        """Stop; start is pressed again a few times, and nothing may move then."""
        self.halted = self.halted or self.message or "halts without a message"
        self.presses += 1
        if self.presses > PRESSES:
            raise ProgramHalt

    def interrupt(self, text: str) -> None:
        """Declare the interrupt on stop messages, or switch it."""
        self.interrupts |= {text}
        self.interrupts -= {text.replace("INTERRUPTOFF", "INTERRUPTON")} if "INTERRUPTOFF" in text else set()

    def not_halted(self) -> None:
        """Raise an error if the program has halted before, or moves without the interrupt that stop messages need."""
        if self.machine.settings and not self.interrupts >= _STOPMESS:
            raise Fault("moves before INTERRUPT 3, on $STOPMESS, is declared and switched on")
        if self.halted:
            raise Fault(f"moves when start is pressed again after it has halted: {self.halted}")

    def finish(self) -> None:
        """Check the state at the end of a program that has not halted."""
        if self.traced:
            raise Fault("ends while the trace still runs")

    def stretches(self) -> tuple[Stretch, ...]:
        """List the executed motion segments."""
        ways = [_way(name, poses, self.paces[name]) for name, poses in self.ways.items() if poses]
        made = [way for way in ways if way.name == "out"]
        if "main" in self.events:
            t, axes = np.array([t for t, _ in self.main]), np.array([q for _, q in self.main])
            made.append(Stretch("main", "points", t - t[0], axes, interpolation="spline"))
        return (*made, *(way for way in ways if way.name == "back"))

    def axes(self, target: Value) -> np.ndarray:
        """Return a target's axis values, deg; raise Fault unless it states all axes and no others."""
        if not isinstance(target, dict) or sorted(target) != self.names:
            raise Fault(f"a pose here is {{{', '.join(self.names)}}}, every axis once and nothing else")
        return np.array([float(target[axis]) for axis in self.names])

    def _moved(self, pose: np.ndarray) -> None:
        self.pose, self.still, self.ahead, self.moved = pose, 0.0, True, True

    def _trace_comes(self) -> bool:
        """Return True if the trace has been started, and does not run yet."""
        return self.traced and self.clock - self.started < self.trace_delay - 1e-9

    def _switch_trace(self, on: bool) -> None:
        if self.ahead:
            raise Fault("the trace is switched while the robot still moves; WAIT SEC stops the advance run before it")
        if on == self.traced:
            raise Fault("the trace is already " + ("running" if on else "stopped"))
        if on and not {"NAME", "CONFIG"} <= set(self.trace):
            raise Fault("the trace starts without a name or a configuration")
        if on and self.still < STILL - 1e-6:
            raise Fault(f"the trace starts before the robot has stood still for {STILL:g} s")
        if not on and "main" not in self.events:
            raise Fault("the trace stops before anything was run")
        self.traced, self.started = on, self.clock
        self.trace["STATE"] = Word("#TRIGGERED" if on else "#T_WRITING")
        self.still = 0.0
        self.events.append("log on" if on else "log off")

    def _basics(self, given: Sequence[Value]) -> None:
        word = given[0] if len(given) == 2 and isinstance(given[0], Word) else Word("#?")
        number = given[1] if len(given) == 2 and type(given[1]) is int else -1
        if word in ("#VEL_PTP", "#ACC_PTP") and 1 <= number <= 100:
            self.speed[word[1:]] = number
        elif word == "#INITMOV" and number == 0:
            self.speed = {"VEL_PTP": 100, "ACC_PTP": 100}
            self.tool = False
        elif word in ("#TOOL", "#BASE") and (problem := self.machine.strange(word[1:].lower(), number)):
            raise Fault(problem)
        elif word == "#TOOL" and 1 <= number <= 16:
            self.tool = True
        elif word != "#BASE" or not 0 <= number <= 32:
            raise Fault(f"BAS does not know {word} with this number")


def read(files: Mapping[str, str], name: str, robot: KrlRobot) -> Module:
    """Read the program's module, which bears its file's name."""
    file = f"{name}.src"
    text = file_in(files, file)
    if len(name) > LONGEST_NAME:
        raise ProgramError(file, None, f"names of modules have at most {LONGEST_NAME} letters")
    module = parse(text, file, tuple(robot.known.items()), robot.routines)
    if module.main.name != name.upper():
        raise ProgramError(file, module.main.line, f"defines {module.main.name}, expected the file's own name")
    return module


def drive(module: Module, robot: KrlRobot) -> None:
    """Run a program until it ends or stays halted."""
    try:
        run(module, robot)
    except ProgramHalt:
        return
    if not robot.halted:
        try:
            robot.finish()
        except Fault as fault:
            raise ProgramError(module.file, None, str(fault)) from None


SLOWEST = 20  # %: of the axes' speed that the way to the start and back may take
PRESSES = 3  # of start, after a program has halted
STILL = 1.0  # s that the robot stands before the trace starts
NEAR = 0.5001  # deg: a first motion this short brings the robot home exactly, and is no way out
SAME = 1e-5  # deg: poses that differ by less are one
LONGEST_TRACE_NAME = 7  # letters that are safe
REST_STEP = 0.1  # s between the points that stand for a rest
_DIGITS = 40  # of a share, which is written with nine decimals


class ProgramHalt(Exception):
    """Start was pressed often enough: the program stays halted."""


def _way(name: StretchName, poses: list[np.ndarray], paces: list[np.ndarray]) -> Stretch:
    """Build a segment of way-points with their numbers as times: only the controller knows when it passes them."""
    made = np.array([0.0 * paces[0], *paces]).swapaxes(0, 1)
    rates, rises = (None if np.isnan(values).any() else values for values in made)
    return Stretch(name, "way-points", np.arange(float(len(poses))), np.array(poses), rates, rises)


def _times(block: Spline) -> np.ndarray:
    """Return the times at which the points of a block are passed, (n_points,), s from its start."""
    assert block.times is not None
    shares = [float(part) for part in block.times.parts]
    # Decimals are summed as whole numbers: the shares are 100 % exactly, or the controller takes them for weights.
    decimals = max(len(part.partition(".")[2]) for part in block.times.parts)
    if any("e" in part.lower() or len(part) > _DIGITS for part in block.times.parts) or min(shares) <= 0.0:
        raise Fault(f"shares of a time block are positive, and written without an exponent in {_DIGITS} digits at most")
    total = sum(int(part.partition(".")[0] + part.partition(".")[2].ljust(decimals, "0")) for part in block.times.parts)
    if total != 100 * 10**decimals:
        raise Fault(f"shares of the time block sum to {total / 10**decimals:.9g} %, expected exactly 100 %")
    seconds = float(block.times.seconds)
    if not 0.0 < seconds < np.inf:
        raise Fault("the time block takes no time, or endless time")
    # Times are taken as written: rounded to REAL they were off by 6e-8 of the whole, as is any clock.
    passed = np.concatenate([[0.0], np.cumsum(shares)]) * (seconds / 100.0)
    passed[-1] = seconds
    return passed
