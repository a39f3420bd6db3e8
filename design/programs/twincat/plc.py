"""A PLC with an operator and a Scope: calls the emitted program in every cycle, and notes what happens.

* Beckhoff's NC axes as the library Tc2_MC2 shows them, ideal and on a virtual clock.
* Beckhoff's camming (Tc2_MC2_Camming) over ideal axes: tables and couplings.
* Beckhoff's moves from point to point (Tc2_MC2) over ideal axes: speeding up, cruising, slowing down.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from excitor.design.programs.plan import BACK, HOLD, OUT, RAMP_IN, RAMP_OUT, SETTLE, WARM_UP, StretchName
from excitor.design.programs.target import Machine, ProgramError
from excitor.design.programs.twincat.parse import (
    ADDRESS,
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
IDLE = 30.0  # s at rest with nothing new: the program waits for what never comes
_TEXTS = ("bPower", "bRun", "bLoggerRunning", "fOverride", "bLog", "nMark", "nMarks", "bDone", "bError", "sMessage")


def stretch_of(mark: int) -> StretchName | None:
    """Tell which stretch a mark belongs to."""
    if mark in (SETTLE, RAMP_IN, RAMP_OUT, HOLD) or mark > WARM_UP:
        return "main"
    return {OUT: "out", BACK: "back"}.get(mark)  # type: ignore[return-value]


@dataclass
class Axis:
    """One axis: what it has been told, and where it is."""

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
    job: "Callable[[Axis], None] | None" = None  # what moves it, each cycle
    coupled: bool = False
    queued: bool = False  # a cam table waits
    fed: int = -1  # the cycle of the last external set point

    @property
    def ready(self) -> bool:
        """Whether it takes commands."""
        return self.powered >= READY and not self.failed

    def show(self) -> None:
        """Write what the PLC sees."""
        to_plc = self.to_plc
        to_plc[_P["actpos"]] = to_plc[_P["setpos"]] = self.position
        to_plc[_P["actvelo"]] = to_plc[_P["setvelo"]] = self.velocity
        to_plc[_P["setacc"]] = self.acceleration

    def read_status(self) -> None:
        """Update Status, as the action ReadStatus does."""
        status, ready = self.status, self.ready
        status[_S["operational"]], status[_S["error"]], status[_S["disabled"]] = ready, self.failed, not ready
        status[_S["extsetpointgenenabled"]], status[_S["coupled"]] = self.external, self.coupled
        status[_S["camtablequeued"]] = self.coupled and self.queued
        still = self.velocity == 0.0 and (self.job is None or self.coupled)
        status[_S["notmoving"]] = status[_S["standstill"]] = still
        status[_S["moving"]], status[_S["hasjob"]] = not still, self.job is not None


class Controller:
    """The NC: all axes that the PLC has declared, in that order."""

    def __init__(self, step: float, automatic: bool) -> None:
        self.step, self.automatic = step, automatic
        self.axes: list[Axis] = []
        self.cycle = 0
        self.axis_ref = Record("AXIS_REF")
        self.axis_ref.add("NcToPlc", TO_PLC)
        self.axis_ref.add("PlcToNc", TO_NC)
        self.axis_ref.add("Status", STATUS)
        self._slot = self.axis_ref.add(NC, Scalar("POINTER", "address")).slot
        self.axis_ref.born = self._born
        self.axis_ref.methods["readstatus"] = lambda frame: self.of(frame).read_status()

    def _born(self, frame: Frame) -> None:
        frame[self._slot] = Axis(frame[0], frame[1], frame[2])
        self.axes.append(frame[self._slot])

    def of(self, frame: Frame) -> Axis:
        """Find the axis behind an AXIS_REF."""
        axis: Axis = frame[self._slot]
        return axis

    def advance(self) -> None:
        """Let a cycle pass: axes follow their set points exactly."""
        self.cycle += 1
        for axis in self.axes:
            while axis.pending and axis.pending[0][0] <= self.cycle:
                axis.external = axis.pending.pop(0)[1]
            if axis.external:
                self._follow(axis)
            elif axis.job is not None:
                axis.job(axis)
            axis.show()

    def _follow(self, axis: Axis) -> None:
        p, v, a, direction = axis.to_nc[:4]
        if not axis.ready:
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
        if direction != (v > 0.0) - (v < 0.0):
            raise ProgramError("PLC", None, f"direction {direction} is fed at a velocity of {v:g}")
        axis.position, axis.velocity, axis.acceleration = p, v, a

    def library(self) -> Library:
        """List what Tc2_MC2, Tc2_System and Tc2_Standard bring along, as far as it is known here."""
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
        types.update({type.name: type for type in (POSITION_TYPE, BUFFER_MODE, DIRECTION)})
        shared: dict[str, tuple[Type, Any]] = {"TwinCAT_SystemInfoVarList": (tasks, None)}
        return Library(types, {feed.name: feed, index.name: index}, dict(CONSTANTS), shared)

    def _feed(self, position: float, velocity: float, acceleration: float, direction: int, axis: Frame) -> bool:
        self.of(axis).fed = self.cycle
        axis[1][0:4] = position, velocity, acceleration, direction
        return False

    def _power(self) -> Record:
        def power(B: Frame) -> None:
            axis = self.of(B[4])
            on = B[0] and B[1] and B[2] and self.automatic
            axis.powered = axis.powered + 1 if on else 0
            axis.to_nc[_N["override"]] = round(min(max(B[3], 0.0), 100.0) * FULL / 100.0)
            B[5] = axis.ready

        inputs = {"Enable": BOOL, "Enable_Positive": BOOL, "Enable_Negative": BOOL, "Override": LREAL}
        outputs = {"Status": BOOL, "Busy": BOOL, "Active": BOOL, "Error": BOOL, "ErrorID": UDINT}
        record = block("MC_Power", inputs, {"Axis": self.axis_ref}, outputs, power)
        record.variables["override"].initial = 100.0
        return record

    def _switch(self, axis: Axis, on: bool) -> None:
        axis.pending.append((self.cycle + ENABLING, on))

    def _enable(self) -> Record:
        def enable(B: Frame) -> None:
            axis = self.of(B[3])
            if edge(B) and axis.ready:
                self._switch(axis, True)
            B[4] = B[5] = axis.external

        inputs: dict[str, Type] = {"Execute": BOOL, "Position": LREAL, "PositionType": POSITION_TYPE}
        outputs = {"Done": BOOL, "Enabled": BOOL, "Busy": BOOL, "Error": BOOL, "ErrorID": UDINT}
        return block("MC_ExtSetPointGenEnable", inputs, {"Axis": self.axis_ref}, outputs, enable)

    def _disable(self) -> Record:
        def disable(B: Frame) -> None:
            axis = self.of(B[1])
            if edge(B):
                self._switch(axis, False)
            B[2] = not axis.external
            B[3] = axis.external

        outputs = {"Done": BOOL, "Enabled": BOOL, "Busy": BOOL, "Error": BOOL, "ErrorID": UDINT}
        return block("MC_ExtSetPointGenDisable", {"Execute": BOOL}, {"Axis": self.axis_ref}, outputs, disable)

    def _read_status(self) -> Record:
        def read(B: Frame) -> None:
            axis = self.of(B[1])
            if B[0]:
                axis.read_status()
            B[2:7] = [True, axis.failed, axis.failed, not axis.ready, axis.velocity == 0.0]

        outputs = {"Valid": BOOL, "Error": BOOL, "ErrorStop": BOOL, "Disabled": BOOL, "StandStill": BOOL}
        return block("MC_ReadStatus", {"Enable": BOOL}, {"Axis": self.axis_ref}, outputs, read)


class Cell:
    """One program on one controller; `library` adds blocks to those of the axes."""

    def __init__(
        self,
        files: Mapping[str, str],
        name: str,
        machine: Machine,
        library: Callable[[Controller], Library] | None = None,
    ) -> None:
        self.machine = machine
        self.controller = Controller(machine.step, machine.automatic)
        made = library(self.controller) if library is not None else self.controller.library()
        project = Project(files, made)
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
                axes = [self.controller.of(frame) for frame in frames]
                for axis, position in zip(axes, self.machine.axes, strict=True):
                    axis.position = float(position)
                    axis.show()
                return axes
        raise ProgramError(self.file, None, f"the program declares no {n} axes")

    def get(self, name: str) -> Any:
        """Read a variable of the program."""
        return self._frame[self._slots[name]]

    def set(self, name: str, value: Any) -> None:
        """Write a variable of the program, as an operator's panel does."""
        self._frame[self._slots[name]] = value

    def one_cycle(self) -> None:
        """Let the operator and the Scope do their part, and call the program."""
        machine, t = self.machine, self.cycle * self.time_step
        self.set("bPower", t >= SWITCHING)
        self.set("fOverride", 100.0 * machine.override)
        if "nPayloadGrams" in self._slots:
            self.set("nPayloadGrams", round(1000.0 * machine.payload))
        if self.cycle == round(STARTING / self.time_step):
            self.set("bRun", True)
        self._record()
        assert self._program.body is not None
        self._program.body(self._frame)
        self.cycle += 1

    def _record(self) -> None:
        asked = self.get("bLog")
        self._asked = (self._asked if self._asked >= 0 else self.cycle) if asked else -1
        running = asked and (self.cycle - self._asked) * self.time_step >= RECORDING
        if running != self.get("bLoggerRunning"):
            self.set("bLoggerRunning", running)
            self.events.append("log on" if running else "log off")

    def pass_cycle(self) -> None:
        """Let the axes move, and end a program that does not end."""
        self.controller.advance()
        longest = min(self.machine.longest + AROUND, MOST_CYCLES * self.time_step)
        if self.cycle * self.time_step > longest:
            raise ProgramError(self.file, None, f"the program has not ended after {longest:g} s")

    @property
    def over(self) -> bool:
        """Whether the program has come to its end."""
        return bool(self.get("bDone") or self.get("bError"))

    @property
    def halted(self) -> str:
        """What it says where it did not reach its end."""
        if not self.get("bError"):
            return ""
        return str(self.get("sMessage")) or "bError without a message"


READY = 5  # cycles from power to an axis that is ready
ENABLING = 2  # cycles from a command to its effect
JUMP = 1e-2  # deg or mm that a set point may lie off what velocities announce: more is a jump
FULL = 1_000_000  # PlcToNc.Override of 100 %

POSITION_TYPE = Scalar("E_PositionType", "int", INT.low, INT.high)
BUFFER_MODE = Scalar("MC_BufferMode", "int", INT.low, INT.high)
DIRECTION = Scalar("MC_Direction", "int", INT.low, INT.high)
CONSTANTS: dict[str, tuple[Type, Any]] = {
    "POSITIONTYPE_ABSOLUTE": (POSITION_TYPE, 1),
    "POSITIONTYPE_RELATIVE": (POSITION_TYPE, 2),
    "MC_Aborting": (BUFFER_MODE, 0),
    "MC_Buffered": (BUFFER_MODE, 1),
    "MC_Positive_Direction": (DIRECTION, 1),
    "MC_Negative_Direction": (DIRECTION, 3),
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
_P = {name: variable.slot for name, variable in TO_PLC.variables.items()}
_N = {name: variable.slot for name, variable in TO_NC.variables.items()}
_S = {name: variable.slot for name, variable in STATUS.variables.items()}
NC = "$nc"  # where an AXIS_REF keeps its axis: no text can name it


def block(
    name: str,
    inputs: dict[str, Any],
    references: dict[str, Any],
    outputs: dict[str, Any],
    work: Callable[[Frame], None],
) -> Record:
    """Make a block of a library: `work` reads and writes its frame; behind its variables it remembers what it needs."""
    record = Record(name, block=True)
    roles: tuple[tuple[Role, dict[str, Any]], ...] = (("input", inputs), ("in-out", references), ("output", outputs))
    for role, members in roles:
        for key, type in members.items():
            record.add(key, type, role)
    record.add("$since", DINT)
    record.add("$before", BOOL)
    record.native = lambda: work
    return record


def done() -> dict[str, Scalar]:
    """List the outputs of a command."""
    return {"Done": BOOL, "Busy": BOOL, "Active": BOOL, "CommandAborted": BOOL, "Error": BOOL, "ErrorID": UDINT}


def edge(B: Frame) -> bool:
    """Whether the first input has just become TRUE."""
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


QUINTIC, MOTION_POINT, MOTION_FUNCTION = 15, 8, 22
AT_MASTER = 2  # MC_CAMACTIVATION_ATMASTERAXISPOS
_ENUMS = {
    "MC_MotionFunctionType": {"MOTIONFUNCTYPE_POLYNOM1": 1, "MOTIONFUNCTYPE_POLYNOM3": 3, "MOTIONFUNCTYPE_POLYNOM5": 5,
                              "MOTIONFUNCTYPE_POLYNOM5_MM": QUINTIC, "MOTIONFUNCTYPE_POLYNOM7_MM": 24},
    "MC_MotionPointType": {"MOTIONPOINTTYPE_IGNORE": 0, "MOTIONPOINTTYPE_REST": 1, "MOTIONPOINTTYPE_VELOCITY": 2,
                           "MOTIONPOINTTYPE_TURN": 4, "MOTIONPOINTTYPE_MOTION": MOTION_POINT},
    "MC_TableType": {"MC_TABLETYPE_EQUIDISTANT": 10, "MC_TABLETYPE_NONEQUIDISTANT": 11,
                     "MC_TABLETYPE_MOTIONFUNCTION": MOTION_FUNCTION},
    "MC_CamActivationMode": {"MC_CAMACTIVATION_INSTANTANEOUS": 0, "MC_CAMACTIVATION_ATMASTERCAMPOS": 1,
                             "MC_CAMACTIVATION_ATMASTERAXISPOS": AT_MASTER, "MC_CAMACTIVATION_NEXTCYCLE": 3},
    "MC_StartMode": {"MC_STARTMODE_ABSOLUTE": 1, "MC_STARTMODE_RELATIVE": 2, "MC_STARTMODE_MASTERABS_SLAVEREL": 3,
                     "MC_STARTMODE_MASTERREL_SLAVEABS": 4},
}  # fmt: skip
ENUMS = {name: Scalar(name, "int", INT.low, INT.high) for name in _ENUMS}


@dataclass(frozen=True)
class Cam:
    """A table: rows of master, position, velocity and acceleration."""

    rows: tuple[tuple[float, float, float, float], ...]
    periodic: bool

    @property
    def span(self) -> float:
        """How far the master goes in it."""
        return self.rows[-1][0] - self.rows[0][0]

    def at(self, master: float) -> tuple[float, float, float]:
        """Evaluate the quintic through the points next to a master position."""
        first = self.rows[0][0]
        x = first + (master - first) % self.span if self.periodic else master
        if not first - 1e-6 <= x <= self.rows[-1][0] + 1e-6:
            raise ProgramError("PLC", None, f"the master is at {x:g}, outside its cam table")
        low, high = 0, len(self.rows) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.rows[middle][0] <= x else (low, middle)
        return quintic(self.rows[low], self.rows[high], x)


def quintic(a: tuple[float, ...], b: tuple[float, ...], x: float) -> tuple[float, float, float]:
    """Join two points (x, p, v, a) by a polynomial of fifth order: position, velocity, acceleration at x."""
    h = b[0] - a[0]
    s = (x - a[0]) / h
    v0, v1, a0, a1 = a[2] * h, b[2] * h, a[3] * h * h, b[3] * h * h
    d = b[1] - a[1] - v0 - 0.5 * a0
    e, f = v1 - v0 - a0, a1 - a0
    c3, c4, c5 = 10.0 * d - 4.0 * e + 0.5 * f, -15.0 * d + 7.0 * e - f, 6.0 * d - 3.0 * e + 0.5 * f
    position = a[1] + s * (v0 + s * (0.5 * a0 + s * (c3 + s * (c4 + s * c5))))
    velocity = (v0 + s * (a0 + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)))) / h
    acceleration = (a0 + s * (6.0 * c3 + s * (12.0 * c4 + s * 20.0 * c5))) / (h * h)
    return position, velocity, acceleration


@dataclass
class Coupling:
    """A cam in use by an axis, or waiting: from which master position on, and where the master's 0 of it lies."""

    cam: Cam
    begin: float
    offset: float
    number: int


@dataclass
class Slave:
    """An axis that follows cams, and all those that it has followed."""

    axis: Axis
    master: Axis
    active: Coupling | None = None
    queued: list[Coupling] = field(default_factory=list)
    past: list[Coupling] = field(default_factory=list)

    def follow(self, axis: Axis) -> None:
        """Take the position that the cam has for the master."""
        x, v = self.master.position, self.master.velocity
        while self.queued and self.queued[0].begin <= x + 1e-12:
            self.active = self.queued.pop(0)
            self.past.append(self.active)
        axis.queued = bool(self.queued)
        if self.active is None:
            return
        p, slope, bend = self.active.cam.at(x - self.active.offset)
        axis.position, axis.velocity = p, slope * v
        axis.acceleration = bend * v * v + slope * self.master.acceleration


class Camming:
    """The tables and couplings of a controller."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.cams: dict[int, Cam] = {}
        self.slaves: dict[int, Slave] = {}  # by the axis' identity
        self.point = structure("MC_MotionFunctionPoint", {
            "PointIndex": UDINT, "FunctionType": ENUMS["MC_MotionFunctionType"],
            "PointType": ENUMS["MC_MotionPointType"], "RelIndexNextPoint": UDINT, "MasterPos": LREAL,
            "SlavePos": LREAL, "SlaveVelo": LREAL, "SlaveAcc": LREAL, "SlaveJerk": LREAL,
        })  # fmt: skip
        self.reference = structure("MC_CAM_REF", {
            "pArray": ADDRESS, "ArraySize": UDINT, "TableType": ENUMS["MC_TableType"], "NoOfRows": UDINT,
            "NoOfColumns": UDINT,
        })  # fmt: skip
        self.options = structure(
            "ST_CamInOptions", {"ActivationMode": ENUMS["MC_CamActivationMode"], "ActivationPosition": LREAL}
        )

    def library(self) -> Library:
        """Add camming to what the axes bring along."""
        made = self.controller.library()
        types: list[Any] = [self.point, self.reference, self.options, *ENUMS.values()]
        blocks = [self._select(), self._cam_in(), self._cam_out()]
        blocks += [move_block(self.controller), halt_block(self.controller)]
        blocks.append(halt_block(self.controller, "MC_Stop"))
        made.types.update({type.name: type for type in [*types, *blocks]})
        made.types["MC_CAM_ID"] = UDINT
        for name, values in _ENUMS.items():
            made.constants.update({key: (ENUMS[name], value) for key, value in values.items()})
        return made

    def _select(self) -> Record:
        def select(B: Frame) -> None:
            if edge(B):
                self.cams[B[2]] = self._read(B[3], B[1])
                B[5] = True
            elif B[0] and B[5]:
                B[4], B[5] = True, False
            if not B[0]:
                B[4] = B[5] = False

        inputs = {"Execute": BOOL, "Periodic": BOOL, "CamTableID": UDINT}
        return block("MC_CamTableSelect", inputs, {"CamTable": self.reference}, done(), select)

    def _read(self, table: Frame, periodic: bool) -> Cam:
        points, _, kind, rows, columns = table
        if not isinstance(points, list) or kind != MOTION_FUNCTION or columns != 1 or not 2 <= rows <= len(points):
            raise ProgramError("PLC", None, "a cam table is no motion function of at least 2 points within its array")
        found: list[tuple[float, float, float, float]] = []
        for k, point in enumerate(points[:rows]):
            index, function, what, following, master, position, velocity, acceleration, _ = point
            if (index, function, what, following) != (k + 1, QUINTIC, MOTION_POINT, 1):
                raise ProgramError("PLC", None, f"point {k + 1} of a cam table is no point of a quintic")
            if found and master <= found[-1][0]:
                raise ProgramError("PLC", None, f"the master does not rise at point {k + 1} of a cam table")
            found.append((master, position, velocity, acceleration))
        if periodic and any(abs(x - y) > 1e-6 for x, y in zip(found[0][1:], found[-1][1:], strict=True)):
            raise ProgramError("PLC", None, "a periodic cam table does not end as it begins")
        return Cam(tuple(found), periodic)

    def _cam_in(self) -> Record:
        def couple(B: Frame) -> None:
            if edge(B):
                axis = self.controller.of(B[7])
                B[12] = not axis.ready or not self.controller.of(B[6]).ready
                B[-3] = None if B[12] else (self._couple(B), self.controller.cycle + ENABLING)
            B[8] = bool(B[0] and B[-3] and self._in_use(B))
            B[9] = B[0] and not B[8]
            B[12] = B[0] and B[12]

        inputs: dict[str, Type] = {
            "Execute": BOOL, "MasterOffset": LREAL, "SlaveOffset": LREAL, "StartMode": ENUMS["MC_StartMode"],
            "CamTableID": UDINT, "Options": self.options,
        }  # fmt: skip
        references = {"Master": self.controller.axis_ref, "Slave": self.controller.axis_ref}
        outputs = {
            "InSync": BOOL,
            "Busy": BOOL,
            "Active": BOOL,
            "CommandAborted": BOOL,
            "Error": BOOL,
            "ErrorID": UDINT,
        }
        return block("MC_CamIn", inputs, references, outputs, couple)

    def _in_use(self, B: Frame) -> bool:
        """Whether an axis follows the cam that was commanded."""
        axis, (coupling, due) = self.controller.of(B[7]), B[-3]
        return axis.coupled and self.slaves[id(axis)].active is coupling and self.controller.cycle >= due

    def _couple(self, B: Frame) -> Coupling:
        _, offset, lift, mode, number, options = B[:6]
        master, axis = self.controller.of(B[6]), self.controller.of(B[7])
        if number not in self.cams:
            raise ProgramError("PLC", None, f"cam table {number} has not been loaded")
        if mode != 1 or lift != 0.0:
            raise ProgramError("PLC", None, "cams are coupled at absolute positions only here")
        slave = self.slaves.setdefault(id(axis), Slave(axis, master))
        later = options[0] == AT_MASTER
        coupling = Coupling(self.cams[number], options[1] if later else master.position, offset, number)
        if later:
            self._queue(slave, coupling)
        else:
            p, v, a = coupling.cam.at(master.position - offset)
            if abs(p - axis.position) > 1e-6 or abs(v) + abs(a) > 1e-6:
                raise ProgramError("PLC", None, f"coupling makes an axis jump from {axis.position:g} to {p:g}")
            slave.active = coupling
            slave.queued.clear()
            slave.past.append(coupling)
        slave.master, axis.coupled, axis.job = master, True, slave.follow
        return coupling

    @staticmethod
    def _queue(slave: Slave, then: Coupling) -> None:
        if slave.active is None:
            raise ProgramError("PLC", None, "a cam is queued where none is in use")
        if then.begin < slave.master.position:
            raise ProgramError("PLC", None, f"a cam is to begin at {then.begin:g}, which has passed")
        now = slave.queued[-1] if slave.queued else slave.active
        before, after = now.cam.at(then.begin - now.offset), then.cam.at(then.begin - then.offset)
        if any(abs(x - y) > 1e-5 * max(1.0, abs(x)) for x, y in zip(before, after, strict=True)):
            raise ProgramError("PLC", None, f"tables do not meet at {then.begin:g}: {before[0]:g} and {after[0]:g}")
        slave.queued.append(then)

    def _cam_out(self) -> Record:
        def uncouple(B: Frame) -> None:
            axis = self.controller.of(B[1])
            slave = self.slaves.get(id(axis))
            if edge(B) and slave is not None and axis.coupled:
                if axis.velocity != 0.0:
                    raise ProgramError("PLC", None, "an axis is uncoupled while it moves, and would go on for ever")
                slave.active, axis.job, axis.coupled = None, None, False
                slave.queued.clear()
            B[2] = B[0]

        return block("MC_CamOut", {"Execute": BOOL}, {"Slave": self.controller.axis_ref}, done(), uncouple)


SOFT = 0.5  # an axis' own jerk, as a multiple of the acceleration, where a command states none


@dataclass(frozen=True)
class Ramp:
    """Speeding up from rest to a velocity by a limited acceleration and jerk."""

    velocity: float
    acceleration: float
    jerk: float

    @property
    def rise(self) -> float:
        """How long the acceleration itself rises."""
        return min(self.acceleration / self.jerk, sqrt(self.velocity / self.jerk))

    @property
    def time(self) -> float:
        """How long it takes; half of it times the velocity is the way."""
        return self.velocity / (self.jerk * self.rise) + self.rise if self.velocity > 0.0 else 0.0

    def at(self, t: float) -> tuple[float, float, float]:
        """Way, velocity and acceleration after a time."""
        v, j, rise, left = self.velocity, self.jerk, self.rise, self.time - t
        if left <= 0.0:
            return v * (t - 0.5 * self.time), v, 0.0
        if left < rise:
            return v * (0.5 * self.time - left) + j * left**3 / 6.0, v - 0.5 * j * left * left, j * left
        early, u = min(t, rise), max(t - rise, 0.0)
        speed = 0.5 * j * early * early
        return j * early**3 / 6.0 + speed * u + 0.5 * j * rise * u * u, speed + j * rise * u, j * early


class Travel:
    """A move from rest to a position; the override slows its time down."""

    def __init__(self, axis: Axis, target: float, ramp: Ramp, step: float) -> None:
        self.begin, self.target, self.step, self.t = axis.position, target, step, 0.0
        self.way = abs(target - axis.position)
        self.ramp = _reachable(ramp, self.way)
        speed = self.ramp.velocity
        self.time = self.ramp.time + self.way / speed if self.way > 1e-12 else 0.0

    def advance(self, axis: Axis) -> None:
        """Move for a cycle."""
        rate = axis.to_nc[4] / FULL
        self.t += self.step * rate
        if self.t >= self.time - 1e-12:
            axis.position, axis.velocity, axis.acceleration, axis.job = self.target, 0.0, 0.0, None
            return
        side = 1.0 if self.target > self.begin else -1.0
        late = self.t > 0.5 * self.time
        way, speed, change = self.ramp.at(self.time - self.t if late else self.t)
        axis.position = self.target - side * way if late else self.begin + side * way
        axis.velocity, axis.acceleration = side * rate * speed, side * rate * rate * (-change if late else change)


def _reachable(ramp: Ramp, way: float) -> Ramp:
    """Lower the velocity until speeding up and slowing down fit into the way."""
    low, high = 0.0, ramp.velocity
    if ramp.time * ramp.velocity <= way:
        return ramp
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = Ramp(middle, ramp.acceleration, ramp.jerk).time * middle <= way
        low, high = (middle, high) if fits else (low, middle)
    return Ramp(max(low, 1e-12), ramp.acceleration, ramp.jerk)


class Halt:
    """Slowing down from any velocity by a limited deceleration and jerk."""

    def __init__(self, axis: Axis, deceleration: float, jerk: float, step: float) -> None:
        self.side = 1.0 if axis.velocity > 0.0 else -1.0
        speed = abs(axis.velocity)
        slowing = min(max(-self.side * axis.acceleration, 0.0), deceleration, sqrt(2.0 * jerk * speed))
        self.ramp = Ramp(speed + 0.5 * slowing * slowing / jerk, deceleration, jerk)  # one that is here right now
        self.left, self.step = self.ramp.time - slowing / jerk, step
        self.end = axis.position + self.side * self.ramp.at(self.left)[0]

    def advance(self, axis: Axis) -> None:
        """Slow down for a cycle."""
        self.left -= self.step
        if self.left <= 1e-12:
            axis.position, axis.velocity, axis.acceleration, axis.job = self.end, 0.0, 0.0, None
            return
        way, speed, change = self.ramp.at(self.left)
        axis.position, axis.velocity = self.end - self.side * way, self.side * speed
        axis.acceleration = -self.side * change


def move_block(controller: Controller) -> Record:
    """Make MC_MoveAbsolute."""

    def start(B: Frame, axis: Axis) -> Callable[[Axis], None]:
        if axis.coupled or axis.external or axis.velocity != 0.0:
            raise ProgramError("PLC", None, "MC_MoveAbsolute finds an axis that is not ready for it")
        if min(B[2:5]) <= 0.0 or B[3] != B[4]:
            raise ProgramError("PLC", None, "MC_MoveAbsolute wants a velocity, and the same acceleration both ways")
        return Travel(axis, B[1], Ramp(B[2], B[3], B[5] or SOFT * B[3]), controller.step).advance

    def move(B: Frame) -> None:
        axis = controller.of(B[6])
        if edge(B):
            B[11] = not axis.ready
            B[8] = axis.ready
            if axis.ready:
                B[-3] = axis.job = start(B, axis)
        _finish(B, axis, 7)

    inputs = {"Execute": BOOL, "Position": LREAL, "Velocity": LREAL, "Acceleration": LREAL, "Deceleration": LREAL,
              "Jerk": LREAL}  # fmt: skip
    return block("MC_MoveAbsolute", inputs, {"Axis": controller.axis_ref}, done(), move)


def halt_block(controller: Controller, name: str = "MC_Halt") -> Record:
    """Make MC_Halt or MC_Stop: both uncouple an axis and slow it down, whatever it does."""

    def halt(B: Frame) -> None:
        axis = controller.of(B[3])
        if edge(B):
            if B[1] <= 0.0:
                raise ProgramError("PLC", None, f"{name} wants a deceleration")
            axis.coupled = False
            B[-3] = axis.job = Halt(axis, B[1], B[2] or SOFT * B[1], controller.step).advance
            B[5] = True
        _finish(B, axis, 4)

    inputs = {"Execute": BOOL, "Deceleration": LREAL, "Jerk": LREAL}
    return block(name, inputs, {"Axis": controller.axis_ref}, done(), halt)


def _finish(B: Frame, axis: Axis, first: int) -> None:
    """Tell by Done, at `first`, and those behind it, how far a command is."""
    if not B[0]:
        B[first : first + 5] = [False] * 5
    elif B[first + 1] and axis.job is None:
        B[first], B[first + 1] = True, False
    elif B[first + 1] and axis.job is not B[-3]:
        B[first + 1], B[first + 3] = False, True
