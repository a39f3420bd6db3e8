"""Beckhoff's camming (Tc2_MC2_Camming) over ideal axes: tables and couplings."""

from dataclasses import dataclass, field
from typing import Any

from excitor.design.programs.checks.twincat_axes import ENABLING, Axis, Controller, block, done, edge, structure
from excitor.design.programs.checks.twincat_moves import halt_block, move_block
from excitor.design.programs.execution import ProgramError
from excitor.design.programs.languages.st import Library
from excitor.design.programs.languages.st_types import ADDRESS, BOOL, INT, LREAL, UDINT, Frame, Record, Scalar, Type

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
