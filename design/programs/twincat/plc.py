"""A PLC with an operator and a Scope on a virtual clock: ideal NC axes as the library Tc2_MC2 shows them.

The emitted program is called in every cycle.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from excitor.design.programs.plan import BACK, HOLD, OUT, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, StretchName
from excitor.design.programs.target import Machine, ProgramError
from excitor.design.programs.twincat.parse import (
    BOOL,
    DINT,
    INT,
    LREAL,
    TIME,
    UDINT,
    WHOLES,
    Array,
    Frame,
    Record,
    Role,
    Routine,
    Scalar,
    Type,
)
from excitor.design.programs.twincat.run import Library, Project

SWITCHING, STARTING, RECORDING = 0.2, 0.5, 1.0  # s until power is on, bRun is set, the Scope runs once asked to
MOST_CYCLES = 3_000_000  # of any program
AROUND = 60.0  # s that loading, resting and waiting may take beside the motion
LAG = 0.02  # deg or mm from where an axis ought to stand to where it stands
IDLE = 30.0  # s at rest with nothing new: the program waits for what never comes
_TEXTS = ("bPower", "bRun", "bLoggerRunning", "fOverride", "bLog", "nMark", "nMarks", "bDone", "bError", "sMessage")


def stretch_of(mark: int) -> StretchName | None:
    """Return the motion segment that a mark belongs to; None for other marks."""
    if mark in (SETTLE, RAMP_IN, RAMP_OUT, HOLD) or mark > WARM_UP:
        return "main"
    return {OUT: "out", BACK: "back"}.get(mark)  # type: ignore[return-value]


@dataclass(slots=True)
class Axis:
    """One axis: its commands and its state."""

    to_plc: Frame
    to_nc: Frame
    status: Frame
    position: float = 0.0
    velocity: float = 0.0
    acceleration: float = 0.0
    powered: int = 0  # cycles
    failed: bool = False
    external: bool = False
    pending: list[tuple[int, bool]] = field(default_factory=list)  # switching of external set points
    fed: int = -1  # the cycle of the last external set point

    @property
    def ready(self) -> bool:
        """True if it accepts commands."""
        return self.powered >= READY and not self.failed


def read_status(frame: Frame) -> None:
    """Update Status of an AXIS_REF, as the action ReadStatus does."""
    axis: Axis = frame[-1]
    status, failed, still = axis.status, axis.failed, axis.velocity == 0.0
    ready = axis.powered >= READY and not failed
    status[_WORKS], status[_MOVES] = (ready, failed), (still, not still)
    status[_TAKES] = axis.external, not ready, still


class Controller:
    """The NC: all axes that the PLC has declared, in that order."""

    def __init__(self, step: float, automatic: bool) -> None:
        self.step = step
        self.axes: list[Axis] = []
        self.begin(automatic)
        self.axis_ref = Record("AXIS_REF")
        self.axis_ref.add("NcToPlc", TO_PLC)
        self.axis_ref.add("PlcToNc", TO_NC)
        self.axis_ref.add("Status", STATUS)
        self.axis_ref.add(NC, Scalar("POINTER", "address"))
        self.axis_ref.born = self._born
        self.axis_ref.methods["readstatus"] = read_status

    def begin(self, automatic: bool, slow: int = 0) -> None:
        """Begin anew without axes, which take set points some cycles later where they are slow."""
        self.automatic, self.slow, self.cycle = automatic, slow, 0
        self.axes.clear()

    def _born(self, frame: Frame) -> None:
        frame[-1] = Axis(frame[0], frame[1], frame[2])
        self.axes.append(frame[-1])

    def advance(self) -> None:
        """Advance by a cycle; axes follow their set points exactly."""
        self.cycle += 1
        cycle, follow = self.cycle, self._follow
        for axis in self.axes:
            while axis.pending and axis.pending[0][0] <= cycle:
                axis.external = axis.pending.pop(0)[1]
            if axis.external:
                follow(axis)
            position, velocity = axis.position, axis.velocity
            axis.to_plc[_ACTUAL] = position + LAG, position, velocity, velocity, axis.acceleration

    def _follow(self, axis: Axis) -> None:
        p, v, a, direction = axis.to_nc[_FED]
        if axis.failed or axis.powered < READY:
            axis.external = False
            return
        if axis.fed != self.cycle - 1 and axis.fed >= 0:
            raise ProgramError("PLC", None, "an axis is fed no set point while it still takes external ones")
        h = self.step
        expected = 0.5 * h * (axis.velocity + v)
        off = abs(p - axis.position - expected)
        if off > JUMP and off > JUMP + 0.05 * (abs(expected) + h * h * (abs(a) + abs(axis.acceleration))):
            number, way = self.axes.index(axis) + 1, p - axis.position
            raise ProgramError("PLC", None, f"axis {number} jumps by {way:g} in one cycle, where its velocity is {v:g}")
        if direction != (1 if v > 0.0 else -1 if v < 0.0 else 0):
            raise ProgramError("PLC", None, f"direction {direction} is fed at a velocity of {v:g}")
        axis.position, axis.velocity, axis.acceleration = p, v, a

    def library(self) -> Library:
        """List the supported part of the libraries Tc2_MC2, Tc2_System and Tc2_Standard."""
        task = structure("PlcTaskSystemInfo", {"CycleTime": UDINT, "CycleCount": UDINT, "FirstCycle": BOOL})
        tasks = structure("TwinCAT_SystemInfoVarList", {"_TaskInfo": Array((1,), (4,), task)})
        blocks = [self._power(), self._enable(), self._disable(), self._read_status(), *standard_blocks(self.step)]
        feed = Routine(
            "MC_ExtSetPointGenFeed",
            (("Position", LREAL, False), ("Velocity", LREAL, False), ("Acceleration", LREAL, False),
             ("Direction", DINT, False), ("Axis", self.axis_ref, True)),
            BOOL,
            self._feed,
        )  # fmt: skip
        index = Routine("GETCURTASKINDEXEX", (), DINT, lambda: 1)
        types: dict[str, Type] = {"AXIS_REF": self.axis_ref, **{block.name: block for block in blocks}}
        types[POSITION_TYPE.name] = POSITION_TYPE
        shared: dict[str, tuple[Type, Any]] = {"TwinCAT_SystemInfoVarList": (tasks, None)}
        return Library(types, {feed.name: feed, index.name: index}, dict(CONSTANTS), shared)

    def _feed(self, position: float, velocity: float, acceleration: float, direction: int, axis: Frame) -> bool:
        axis[-1].fed = self.cycle
        axis[-1].to_nc[_FED] = position, velocity, acceleration, direction
        return False

    def _power(self) -> Record:
        def power(B: Frame) -> None:
            axis: Axis = B[4][-1]
            on, share = B[0] and B[1] and B[2] and self.automatic, B[3]
            axis.powered = axis.powered + 1 if on else 0
            axis.to_nc[_OVERRIDE] = FULL if share == 100.0 else round(min(max(share, 0.0), 100.0) * FULL / 100.0)
            B[5] = axis.powered >= READY and not axis.failed

        inputs = {"Enable": BOOL, "Enable_Positive": BOOL, "Enable_Negative": BOOL, "Override": LREAL}
        outputs = {"Status": BOOL, "Busy": BOOL, "Active": BOOL, "Error": BOOL, "ErrorID": UDINT}
        record = block("MC_Power", inputs, {"Axis": self.axis_ref}, outputs, power)
        record.variables["override"].initial = 100.0
        return record

    def _switch(self, axis: Axis, on: bool) -> None:
        axis.pending.append((self.cycle + ENABLING + (self.slow if on else 0), on))

    def _enable(self) -> Record:
        def enable(B: Frame) -> None:
            axis: Axis = B[3][-1]
            if B[0] and B[2] != ABSOLUTE:
                raise ProgramError("PLC", None, "external set points need an absolute position")
            if edge(B) and axis.ready:
                self._switch(axis, True)
            B[4] = B[5] = axis.external

        inputs: dict[str, Type] = {"Execute": BOOL, "Position": LREAL, "PositionType": POSITION_TYPE}
        outputs = {"Done": BOOL, "Enabled": BOOL, "Busy": BOOL, "Error": BOOL, "ErrorID": UDINT}
        return block("MC_ExtSetPointGenEnable", inputs, {"Axis": self.axis_ref}, outputs, enable)

    def _disable(self) -> Record:
        def disable(B: Frame) -> None:
            axis: Axis = B[1][-1]
            if edge(B):
                self._switch(axis, False)
            B[2] = not axis.external
            B[3] = axis.external

        outputs = {"Done": BOOL, "Enabled": BOOL, "Busy": BOOL, "Error": BOOL, "ErrorID": UDINT}
        return block("MC_ExtSetPointGenDisable", {"Execute": BOOL}, {"Axis": self.axis_ref}, outputs, disable)

    def _read_status(self) -> Record:
        def read(B: Frame) -> None:
            axis: Axis = B[1][-1]
            if B[0]:
                read_status(B[1])
            B[2:7] = [True, axis.failed, axis.failed, not axis.ready, axis.velocity == 0.0]

        outputs = {"Valid": BOOL, "Error": BOOL, "ErrorStop": BOOL, "Disabled": BOOL, "StandStill": BOOL}
        return block("MC_ReadStatus", {"Enable": BOOL}, {"Axis": self.axis_ref}, outputs, read)


@lru_cache(maxsize=2)  # a program is run again and again, in every situation that it must refuse
def _compiled(files: tuple[tuple[str, str], ...], step: float) -> tuple[Controller, Project]:
    """Compile a program for a controller, which runs it once at a time."""
    controller = Controller(step, automatic=True)
    return controller, Project(dict(files), controller.library())


class Cell:
    """One program on one controller."""

    def __init__(self, files: Mapping[str, str], name: str, machine: Machine) -> None:
        self.machine = machine
        self.controller, project = _compiled(tuple(files.items()), machine.step)
        self.controller.begin(machine.automatic, round(machine.at_start("axes") / machine.step))
        self.project = project
        self.file = f"{name}.st"
        wanted = f"prg_{name}".lower()
        if wanted not in project.programs:
            raise ProgramError(self.file, None, f"there is no PROGRAM PRG_{name}")
        self._program: Record = project.programs[wanted]
        missing = sorted(name for name in _TEXTS if name.lower() not in self._program.variables)
        if missing:
            raise ProgramError(self.file, None, f"the program has no {', '.join(missing)}")
        self._frame: Frame = project.start(wanted)
        self._slots = {name: self._program.variables[name.lower()].slot for name in _TEXTS}
        if "npayloadgrams" in self._program.variables:
            self._slots["nPayloadGrams"] = self._program.variables["npayloadgrams"].slot
        self._tell_cycle(project)
        self.axes = self._robot()
        self.time_step = machine.step
        self.events: list[str] = []
        self.cycle = 0
        self._asked = -1
        self.unpowered = False  # by the operator on the way
        self._override, self._grams = 100.0 * machine.override, round(1000.0 * machine.payload)
        self._starting = round(STARTING / machine.step)  # cycle
        self._recording = bool(machine.at_start("logger"))  # before it is asked to
        self._longest = min(machine.longest + AROUND, MOST_CYCLES * machine.step)

    def _tell_cycle(self, project: Project) -> None:
        info = project.shared("TwinCAT_SystemInfoVarList")[0]
        for task in info:
            task[0] = round(self.machine.step * 1e7)

    def _robot(self) -> list[Axis]:
        """Find the axes of the robot: those of the first array of AXIS_REF."""
        n = len(self.machine.axes)
        for variable in self._program.variables.values():
            frames = self._frame[variable.slot]
            if getattr(variable.type, "of", None) is self.controller.axis_ref and len(frames) == n:
                axes: list[Axis] = [frame[-1] for frame in frames]
                for axis, position in zip(axes, self.machine.axes, strict=True):
                    axis.position = float(position) - LAG
                    axis.to_plc[_ACTUAL] = float(position), axis.position, 0.0, 0.0, 0.0
                return axes
        raise ProgramError(self.file, None, f"the program declares no {n} axes")

    def get(self, name: str) -> Any:
        """Read a variable of the program."""
        return self._frame[self._slots[name]]

    def set(self, name: str, value: Any) -> None:
        """Write a variable of the program, as an operator's panel does."""
        self._frame[self._slots[name]] = value

    def one_cycle(self) -> None:
        """Apply the operator's and the Scope's actions, and call the program."""
        frame, slots, t = self._frame, self._slots, self.cycle * self.time_step
        frame[slots["bPower"]] = t >= SWITCHING and not self.unpowered
        frame[slots["fOverride"]] = self._override
        if "nPayloadGrams" in slots:
            frame[slots["nPayloadGrams"]] = self._grams
        if self.cycle == self._starting:
            self.set("bRun", True)
            self.axes[-1].failed |= self.machine.at_start("drive") > 0.0
        self._record()
        assert self._program.body is not None
        self.project.passes.count = 0
        self._program.body(self._frame)
        self.cycle += 1

    def _record(self) -> None:
        asked = self.get("bLog")
        self._asked = (self._asked if self._asked >= 0 else self.cycle) if asked else -1
        running = asked and (self.cycle - self._asked) * self.time_step >= RECORDING
        if self._recording:
            self.set("bLoggerRunning", True)
        elif running != self.get("bLoggerRunning"):
            self.set("bLoggerRunning", running)
            self.events.append("log on" if running else "log off")

    def pass_cycle(self) -> None:
        """Advance the axes by a cycle; raise ProgramError for a program that does not end."""
        self.controller.advance()
        if self.cycle * self.time_step > self._longest:
            raise ProgramError(self.file, None, f"the program has not ended after {self._longest:g} s")

    @property
    def over(self) -> bool:
        """True if the program has ended, by bDone or bError."""
        return bool(self.get("bDone") or self.get("bError"))

    @property
    def halted(self) -> str:
        """The program's message where it ended in an error; empty otherwise."""
        if not self.get("bError"):
            return ""
        return str(self.get("sMessage")) or "bError without a message"


READY = 5  # cycles from power to an axis that is ready
ENABLING = 2  # cycles from a command to its effect
JUMP = 1e-2  # deg or mm that a set point may lie off what velocities announce: more is a jump
FULL = 1_000_000  # PlcToNc.Override of 100 %

ABSOLUTE = 1  # of MC_ExtSetPointGenEnable
POSITION_TYPE = Scalar("E_PositionType", "int", INT.low, INT.high)
CONSTANTS: dict[str, tuple[Type, Any]] = {
    "POSITIONTYPE_ABSOLUTE": (POSITION_TYPE, ABSOLUTE),
    "POSITIONTYPE_RELATIVE": (POSITION_TYPE, 2),
}


def structure(name: str, members: dict[str, Type]) -> Record:
    """Make a structure."""
    record = Record(name)
    for key, type in members.items():
        record.add(key, type)
    return record


TO_PLC = structure("NCTOPLC_AXIS_REF", {
    "ActPos": LREAL, "SetPos": LREAL, "ActVelo": LREAL, "SetVelo": LREAL, "SetAcc": LREAL, "PosDiff": LREAL,
    "ActTorque": LREAL, "ErrorCode": WHOLES["DWORD"], "AxisState": WHOLES["DWORD"], "StateDWord": WHOLES["DWORD"],
})  # fmt: skip
TO_NC = structure(
    "PLCTONC_AXIS_REF",
    {"ExtSetPos": LREAL, "ExtSetVelo": LREAL, "ExtSetAcc": LREAL, "ExtSetDirection": DINT, "Override": UDINT},
)
STATUS = structure(
    "ST_AxisStatus",
    {"Operational": BOOL, "Error": BOOL, "ErrorID": UDINT, "Homed": BOOL, "NotMoving": BOOL, "Moving": BOOL,
     "HasJob": BOOL, "InPositionArea": BOOL, "InTargetPosition": BOOL, "Coupled": BOOL, "ExtSetPointGenEnabled": BOOL,
     "Disabled": BOOL, "StandStill": BOOL, "ErrorStop": BOOL, "CamTableQueued": BOOL},
)  # fmt: skip


def neighbours(record: Record, first: str, last: str) -> slice:
    """Find the slots from a member to another."""
    return slice(record.variables[first.lower()].slot, record.variables[last.lower()].slot + 1)


_ACTUAL, _WORKS = neighbours(TO_PLC, "ActPos", "SetAcc"), neighbours(STATUS, "Operational", "Error")
_MOVES, _TAKES = neighbours(STATUS, "NotMoving", "Moving"), neighbours(STATUS, "ExtSetPointGenEnabled", "StandStill")
_FED, _OVERRIDE = neighbours(TO_NC, "ExtSetPos", "ExtSetDirection"), TO_NC.variables["override"].slot
NC = "$nc"  # where an AXIS_REF keeps its axis, last of all: no text can name it


def block(
    name: str,
    inputs: dict[str, Any],
    references: dict[str, Any],
    outputs: dict[str, Any],
    work: Callable[[Frame], None],
) -> Record:
    """Build a library block: `work` reads and writes its frame, which keeps internal state behind the variables."""
    record = Record(name, block=True)
    roles: tuple[tuple[Role, dict[str, Any]], ...] = (("input", inputs), ("in-out", references), ("output", outputs))
    for role, members in roles:
        for key, type in members.items():
            record.add(key, type, role)
    record.add("$since", DINT)
    record.add("$before", BOOL)
    record.native = lambda: work
    return record


def edge(B: Frame) -> bool:
    """Return True if the first input has just become TRUE."""
    rising, B[-2] = B[0] and not B[-2], B[0]
    return bool(rising)


def standard_blocks(step: float) -> list[Record]:
    """Make the edge detectors, timers and the counter of the standard library."""
    milliseconds = 1000.0 * step

    def rising(B: Frame) -> None:
        B[1], B[-2] = B[0] and not B[-2], B[0]

    def falling(B: Frame) -> None:
        B[1], B[-2] = not B[0] and bool(B[-2]), B[0]

    def on_delay(B: Frame) -> None:
        B[-2] = (B[-2] + milliseconds if B[-2] else milliseconds) if B[0] else 0.0
        elapsed = max(B[-2] - milliseconds, 0.0)
        B[2], B[3] = B[0] and elapsed >= B[1] - 1e-9, int(min(elapsed, B[1]))

    def off_delay(B: Frame) -> None:
        B[-2] = 0.0 if B[0] else (B[-2] + milliseconds if B[2] else 0.0)
        B[2], B[3] = B[0] or (B[2] and B[-2] < B[1] - 1e-9), int(min(B[-2], B[1]))

    def count_up(B: Frame) -> None:
        B[4] = 0 if B[1] else B[4] + (1 if B[0] and not B[-2] else 0)
        B[3], B[-2] = B[4] >= B[2], B[0]

    timer, times = {"IN": BOOL, "PT": TIME}, {"Q": BOOL, "ET": TIME}
    return [
        block("R_TRIG", {"CLK": BOOL}, {}, {"Q": BOOL}, rising),
        block("F_TRIG", {"CLK": BOOL}, {}, {"Q": BOOL}, falling),
        block("TON", timer, {}, times, on_delay),
        block("TOF", timer, {}, times, off_delay),
        block("CTU", {"CU": BOOL, "RESET": BOOL, "PV": INT}, {}, {"Q": BOOL, "CV": INT}, count_up),
    ]
