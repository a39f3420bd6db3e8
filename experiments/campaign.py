"""campaign.toml, the only file a person writes: its keys, types and units. Read strictly, all errors at once."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)

from excitor.design.programs.registry import TARGETS
from excitor.experiments.files import mend
from excitor.identify.logs.declared import ColumnMap
from excitor.robots.errors import ExcitorError, InvalidRobot, choice, did_you_mean
from excitor.robots.files.bounded import open_bounded, parse_toml
from excitor.robots.files.folders import ALLOW, inside
from excitor.robots.files.schema import sentences
from excitor.robots.load import SUFFIXES, catalog_names, read_content, read_text, robot_of, unclear_part
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from excitor.identify.band import BandChoice
    from excitor.identify.logs.long import LongLog
    from excitor.identify.logs.timing import Timing

FILE = "campaign.toml"
Role = Literal["identify", "validate"]
Positive = Annotated[FiniteFloat, Field(gt=0.0)]
Name = Annotated[str, Field(min_length=1, max_length=80)]


class Table(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Matlab(Table):
    """Fields of MATLAB files that hold means over repeated runs, on the joint side; a dot reaches into a struct."""

    q: str  # positions
    dq: str  # velocities
    ddq: str  # accelerations
    tau: str  # torques
    time: str  # time stamps
    variance: str | None = None  # of the torques' means


class Run(Table):
    """One run: its log, and which part of it counts."""

    name: Annotated[str, Field(min_length=1, max_length=80)]  # as reports call it
    log: str  # the recording, in the campaign's folder
    role: Role = "identify"  # fitted, or held out to judge the model
    from_s: FiniteFloat | None = None  # where the part that counts begins
    to_s: FiniteFloat | None = None  # where it ends
    period_s: Positive | None = None  # of a planned, periodic run: whole periods are averaged
    drop_periods: Annotated[int, Field(ge=0)] = 0  # at the start, while the robot settles
    static: bool = False  # poses held: each is averaged over its approaches from both sides
    program: Annotated[str, Field(max_length=200)] | None = None  # TARGET/NAME of programs/: aligned with its plan
    cycle_s: Positive | None = None  # a process without a plan: cut into cycles at least this long, and averaged
    loaded: bool | None = None  # whether [payload] was on the tool; a program's manifest tells it too
    columns: ColumnMap | None = None  # what this run's log holds, where it is not as [log] says
    matlab: Matlab | None = None  # the fields of this run's file, where they are not those of [matlab]


Delay = Annotated[FiniteFloat, Field(ge=-0.5, le=0.5)]  # s


class Processing(Table):
    """Processing of the samples before regression."""

    lowpass_hz: Positive | None = None  # of the positions; none: from the plan's highest frequency, else from the data
    true_cutoff: bool = True  # the whole forward-backward filter is -3 dB at lowpass_hz
    drop_ends: Annotated[int, Field(ge=0)] = 50  # samples at both ends of a log, where the filter rings
    decimate: list[Annotated[int, Field(ge=2)]] = []  # factors, one after the other: keep every n-th filtered sample
    average_samples: Annotated[int, Field(ge=1)] = 1  # in a row, none near a reversal, whose mean is one equation
    dead_zone_percent: Annotated[FiniteFloat, Field(ge=0.0, lt=100.0)] = 1.0  # of each joint's speed limit
    settling_s: Annotated[FiniteFloat, Field(ge=0.0, le=1.0)] = 0.08  # left out before and after friction turns
    # When torques act: later than recorded by this, all or each joint's; and how they are held, or where in the
    # interval of its torque a motion lies, 0 to 1. Where one is stated, nothing is estimated.
    torque_delay_s: Delay | list[Delay] | None = None  # of torques behind the motion: one, or one for each joint
    torque_hold: Literal["none", "until next", "since last"] | None = None  # how a sampled torque acts over a period
    phase: Annotated[FiniteFloat, Field(ge=0.0, le=1.0)] | None = None  # where in its interval a motion lies, 0 to 1

    @property
    def times_torques(self) -> bool:
        """Whether the campaign states when torques act."""
        return not (self.torque_delay_s is None and self.torque_hold is None and self.phase is None)

    @model_validator(mode="after")
    def _one_hold(self) -> Self:
        if self.torque_hold is not None and self.phase is not None:
            raise ValueError("torque_hold and phase say the same in two ways; give one of them")
        return self


class StatedController(Table):
    """The robot's controller, for methods that simulate it: PD gains at the joints, or the bandwidth they are tuned to.

    Gains are in N m/rad and N m s/rad, or N/m and N s/m, an entry a joint.
    """

    kp: list[Positive] | None = None  # of each joint's position
    kd: list[Positive] | None = None  # of each joint's velocity
    bandwidth_hz: Positive | None = None  # that the gains follow from, instead of kp and kd
    damping_ratio: Positive = 0.7  # of the closed loop, with bandwidth_hz
    rate_hz: Positive | None = None  # a whole multiple of the logs'; none: about 1 kHz
    velocity_filter_s: Annotated[FiniteFloat, Field(ge=0.0, le=1.0)] = 0.0  # time constant
    lag_s: Annotated[FiniteFloat, Field(ge=0.0, le=1.0)] = 0.0  # of computation and current loop
    feedforward: Literal["model", "none"] = "model"  # what is added to the feedback

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.kp is None) != (self.kd is None) or (self.kp is None) == (self.bandwidth_hz is None):
            raise ValueError("give kp and kd, with an entry for each joint, or bandwidth_hz")
        return self


class Identification(Table):
    """Model and method of the identification."""

    method: Annotated[str, Field(max_length=80)] = "wls"  # of those that `excitor compare` compares
    # In-process: of a process as it is, what its data do not show leaves. None: in-process if a joint stands still.
    mode: Literal["full", "in-process"] | None = None
    essential: Annotated[list[Name], Field(max_length=200)] | None = None  # never leave; None: friction that is moved
    weights: Literal["joint", "joint and run"] = "joint"  # joints' noise: one figure for all runs, or one a run
    # drop parameters whose effect is this much smaller
    essential_ratio: Annotated[FiniteFloat, Field(gt=1.0)] | None = None
    # Reduce by sensitivity, judged on these data.
    acceptance: Literal["training", "validation", "cross-validated"] | None = None
    tolerance: Annotated[FiniteFloat, Field(ge=1.0)] = 1.05  # how much a joint's error may grow by the reduction
    consistent: bool = True  # bodies that can exist; false: plain least squares
    allow: Annotated[list[Annotated[str, Field(max_length=80)]], Field(max_length=40)] = []  # refusals to pass over
    controller: StatedController | None = None  # none: one is assumed
    friction: Literal["chosen", "as stated"] = "chosen"  # the form of joints' friction: by cross-validation
    # To a load: 1 by all base parameters, 2 with the known arm, 3 with gear losses as well. None: 3 where losses show.
    approach: Literal[1, 2, 3] | None = None


BoundedPositive = Annotated[FiniteFloat, Field(gt=0.0, le=1e9)]
NotNegative = Annotated[FiniteFloat, Field(ge=0.0, le=1e9)]
Percent = Annotated[FiniteFloat, Field(ge=0.1, le=100.0)]
Coordinate = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Vector = Annotated[list[Coordinate], Field(min_length=3, max_length=3)]
Whole = Annotated[int, Field(ge=0, le=10_000)]


class Zone(Table):
    """A solid to stay inside or outside of, in the robot's base frame; lengths in m.

    box: `low` and `high`, or `center`, `size` and `rpy_deg`; sphere: `center`, `radius`; cylinder: `center`, `axis`,
    `radius`, `height`; half-space: the solid is behind `point`, `normal` points out of it.
    """

    name: Name  # as pages and messages call it
    keep: Literal["in", "out"]  # "out": stay outside; "in": stay inside
    shape: Literal["box", "sphere", "cylinder", "half-space"]  # which keys give it: see above
    bodies: Literal["tool", "links", "all"] = "all"  # what of the robot is kept in or out
    clearance_m: NotNegative | None = None  # instead of that of [cell]
    low: Vector | None = None  # corner of a box
    high: Vector | None = None  # opposite corner of a box
    center: Vector | None = None  # of a box, sphere or cylinder
    size: Annotated[list[BoundedPositive], Field(min_length=3, max_length=3)] | None = None  # edges of a box
    rpy_deg: Vector | None = None  # turn of a box
    radius: BoundedPositive | None = None  # of a sphere or cylinder
    height: BoundedPositive | None = None  # of a cylinder
    axis: Vector | None = None  # of a cylinder
    point: Vector | None = None  # on the plane of a half-space
    normal: Vector | None = None  # of that plane, out of the solid

    @model_validator(mode="after")
    def _right_keys(self) -> Self:
        geometry = {"low", "high", "center", "size", "rpy_deg", "radius", "height", "axis", "point", "normal"}
        given = {key for key in geometry if getattr(self, key) is not None}
        none: set[str] = set()
        ways = {
            "box": [({"low", "high"}, none), ({"center", "size"}, {"rpy_deg"})],
            "sphere": [({"center", "radius"}, none)],
            "cylinder": [({"center", "radius", "height"}, {"axis"})],
            "half-space": [({"point", "normal"}, none)],
        }[self.shape]
        if not any(needed <= given <= needed | optional for needed, optional in ways):
            spelled = ", or ".join(" and ".join(sorted(needed)) for needed, _ in ways)
            raise ValueError(
                f"a {self.shape} is given by {spelled}; this one gives {', '.join(sorted(given)) or 'none'}"
            )
        if not all(a < b for a, b in zip(self.low or [], self.high or [], strict=True)):
            raise ValueError(f"low {self.low} is not below high {self.high} in every coordinate")
        for key in ("axis", "normal"):
            vector = getattr(self, key)
            if vector is not None and sum(x * x for x in vector) < 1e-12:
                raise ValueError(f"{key} is zero; give a direction")
        return self


class Cell(Table):
    """Keep-out and keep-in zones, and self-collision."""

    self_collision: bool = True  # keep the robot's links apart
    clearance_m: NotNegative = 0.02  # between surfaces, where a zone states no other
    tool_radius_m: NotNegative = 0.0  # of a ball about the tool point that holds the tool
    assumed_volumes: bool = False  # links whose shape is not known may move, in capsules of an assumed radius
    zone: Annotated[list[Zone], Field(max_length=200)] = []  # solids to stay outside or inside of


class JointLimits(Table):
    """Limits of one joint, tighter than the robot's own, or stated where those are not; torque in N m or N."""

    # lowest and highest; of a joint that turns
    position_deg: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)] | None = None
    # lowest and highest; of a joint that slides
    position_m: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)] | None = None
    velocity_deg_s: BoundedPositive | None = None  # highest; of a joint that turns
    velocity_m_s: BoundedPositive | None = None  # highest; of a joint that slides
    acceleration_deg_s2: BoundedPositive | None = None  # highest; of a joint that turns
    acceleration_m_s2: BoundedPositive | None = None  # highest; of a joint that slides
    jerk_deg_s3: BoundedPositive | None = None  # highest; of a joint that turns
    jerk_m_s3: BoundedPositive | None = None  # highest; of a joint that slides
    torque: BoundedPositive | None = None  # peak
    torque_rms: BoundedPositive | None = None  # over a period


class Limits(Table):
    """Share of the robot's limits that a design may use."""

    position_margin_deg: NotNegative = 2.0  # kept free at both ends; sliding joints: mm
    velocity_percent: Percent = 90.0  # of the robot's own limits
    acceleration_percent: Percent = 90.0  # of the robot's own limits
    acceleration_deg_s2: BoundedPositive | None = None  # of every joint that turns; tighter, or where none is stated
    acceleration_m_s2: BoundedPositive | None = None  # of every joint that slides
    jerk_percent: Percent = 90.0  # of the robot's own limits
    torque_percent: Percent = 80.0  # of the peak limit; by the prior model, friction and payload included
    torque_rms_percent: Percent | None = None  # of the peak limit, over a period
    tool_speed_m_s: BoundedPositive | None = None  # of the tool point
    joint: dict[Name, JointLimits] = {}  # by joint: [limits.joint.NAME]


class Body(Table):
    """A payload of known parameters in the tool's frame: mass kg, centre m, inertia about it (xx xy xz yy yz zz)."""

    mass: BoundedPositive  # kg
    center: Vector = [0.0, 0.0, 0.0]  # of mass, in the tool's frame, m
    # about the centre: xx xy xz yy yz zz, kg m2
    inertia: Annotated[list[FiniteFloat], Field(min_length=6, max_length=6)] = [0.0] * 6
    percent: Annotated[FiniteFloat, Field(ge=0.0, le=100.0)] = 2.0  # standard deviation of what is stated


class Arm(Table):
    """Standard deviations of the robot's own links and rotors, where no earlier campaign states them."""

    links_percent: Annotated[FiniteFloat, Field(ge=0.0, le=100.0)] = 5.0  # of masses, centres, inertias about them
    rotors_percent: Annotated[FiniteFloat, Field(ge=0.0, le=100.0)] = 5.0  # of rotor inertias


class DriveGains(Table):
    """What is known of a gains campaign's load, of its drives, and when a gain is answered."""

    known: Literal["mass", "center", "all"] = "mass"  # of [payload]; the rest only plans the motions
    powers: Annotated[list[Annotated[int, Field(ge=0, le=3)]], Field(max_length=4)] = []  # of currents; none: the law's
    gap: Annotated[FiniteFloat, Field(gt=1.0, le=1e3)] = 5.0  # least ratio of the last two singular values
    relative_sigma_percent: Percent = 1.0  # largest, but for the load's own doubt
    essential_ratio: Annotated[FiniteFloat, Field(gt=1.0)] = 30.0  # where the gap demands that parameters leave


class PayloadRating(Table):
    """Rated load from the robot's data sheet; inertias and moments about joints' axes, at the worst pose."""

    mass: BoundedPositive | None = None  # kg
    inertia: dict[Name, BoundedPositive] = {}  # kg m2
    moment: dict[Name, BoundedPositive] = {}  # N m, of the load's weight


class Noise(Table):
    """Measurement noise."""

    torque: Annotated[list[BoundedPositive], Field(max_length=100)] | None = None  # per joint, N m (N), one sample
    rate_hz: BoundedPositive = 100.0  # rows per second that are independent
    inflation: Annotated[FiniteFloat, Field(ge=1.0, le=1e3)] = 1.0  # how much wider intervals were than white ones
    model: str | None = None  # a model.json of earlier: its residuals are the noise

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.torque is not None and self.model is not None:
            raise ValueError("gives both torque and model; the noise comes from one of them")
        return self


class TorqueRuns(Table):
    """Torques that drive an arm without a controller: tau = c (1 - exp(-rate t^3)) + sum of a sin(w t + phase)."""

    duration_s: Annotated[FiniteFloat, Field(gt=0.0, le=600.0)] = 10.0  # of the measured part
    n_waves: Annotated[int, Field(ge=1, le=20)] = 2  # in each motor
    band_rad_s: Annotated[list[BoundedPositive], Field(min_length=2, max_length=2)] | None = None  # not given: 1 to 15
    rate: BoundedPositive = 0.5  # 1/s^3: how soon the constant part comes
    fade_s: Annotated[FiniteFloat, Field(ge=0.0, le=60.0)] = 1.0  # in which the torques vanish afterwards
    coast_s: Annotated[FiniteFloat, Field(ge=0.0, le=60.0)] = 2.0  # in which friction brings the arm to rest
    driven: Annotated[list[Name], Field(max_length=100)] = []  # joints whose motors push; none named: all
    torque_percent: Annotated[FiniteFloat, Field(gt=0.0, le=100.0)] | None = None  # of each rated torque; none: 30
    prior_percent: Annotated[FiniteFloat, Field(gt=0.0, le=50.0)] | None = None  # standard deviation of what the prior
    # states of bodies and rotors; of friction twice that; none: 10


def _one_host(text: str) -> str:
    """Refuse what is not the IPv4 address of one host."""
    numbers = text.split(".")
    if len(numbers) != 4 or not all(
        x.isascii() and x.isdigit() and len(x) < 4 and x == str(int(x)) and int(x) < 256 for x in numbers
    ):
        raise ValueError("is no address of four numbers, such as 192.168.1.100")
    if int(numbers[0]) in (0, 255) or int(numbers[0]) >= 224:
        raise ValueError("is no address of a single computer")
    return text


_Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,31}$")]


class Site(Table):
    """Numbers and names of the cell that programs refer to; none given: those that the pages state."""

    computer_address: Annotated[str, AfterValidator(_one_host)] = "192.168.1.100"  # KUKA RSI: of the computer
    port: Annotated[int, Field(ge=1024, le=65534)] = 59152  # KUKA RSI: at which the server listens
    tool: Annotated[int, Field(ge=1, le=10)] = 1  # KUKA TOOL, FANUC UTOOL_NUM
    base: Annotated[int, Field(ge=0, le=9)] = 0  # KUKA BASE, FANUC UFRAME_NUM
    first_register: Annotated[int, Field(ge=1, le=1000)] = 196  # FANUC: the first of four R[] that programs overwrite
    position_register: Annotated[int, Field(ge=1, le=100)] = 99  # FANUC PR[]
    flag: Annotated[int, Field(ge=1, le=1024)] = 99  # FANUC F[]: the logger's
    mark_register: Annotated[int, Field(ge=24, le=47)] = 24  # UR: output integer register of the marks
    device: _Identifier = "EXCITOR"  # ABB: of the UdpUc transmission protocol
    task: _Identifier = "T_ROB1"  # ABB: of the robot's motion; its page names it
    trace: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,23}\.XML$")] = (
        "EXCITOR.XML"  # KUKA trace configuration
    )


class Targets(Table):
    """Required accuracy; also reached by a parameter whose deviation no joint's torque shows."""

    relative_sigma_percent: Percent | None = None  # of each essential parameter; none: design's
    torque_share_percent: NotNegative = 1.0  # of a joint's rms torque: smaller effects of a deviation do not matter
    torque_error_percent: Percent = 5.0  # expected error of a joint's torque, of its rms
    parameters: list[Name] = []  # that are judged; none named: all that show above the noise


def _search_method(given: Any) -> Any:
    """Read searches that there were before as the one that has replaced them."""
    return "hybrid" if given in ("ga", "plain-ga") else given


class Design(Table):
    """Motions to design, and their criterion."""

    excitation: Literal["fourier", "torque"] = "fourier"  # positions for a controller, or torques without one
    torque: TorqueRuns | None = None  # settings of excitation = "torque"
    schedule: Literal["together", "single", "locked-sequence", "payload-pair", "static-pair", "gentle-first"] = (
        "together"  # which runs are planned, in which order
    )
    joints: list[Name] = []  # that move; none named: all
    locked_deg: dict[Name, Coordinate] = {}  # of joints that do not move (sliding: mm); else the search finds them
    base_frequency_hz: BoundedPositive = 0.1  # one over the period
    # how many, or which
    harmonics: Annotated[int, Field(ge=1, le=100)] | list[Annotated[int, Field(ge=1, le=1000)]] = 5
    max_frequency_hz: BoundedPositive | None = None  # below the first resonance
    controller_sample_s: BoundedPositive = 0.004  # between points of the program
    settle_s: NotNegative = 2.0  # at rest before the ramp
    ramp_s: BoundedPositive = 5.0  # from rest into the motion, and out of it
    warm_up_periods: Whole = 1  # driven, not measured
    measured_periods: Annotated[int, Field(ge=1, le=10_000)] = 5  # recorded for the fit
    hold_s: NotNegative = 2.0  # at rest after the run
    # what the search makes small
    criterion: Literal["condition", "weighted-condition", "d", "a", "e", "sigma", "path"] = "condition"
    parameters: list[Name] = []  # of the sigma criterion: base parameters
    task: str | None = None  # of the path criterion: a CSV of joint positions over time
    model: Literal["dynamic", "power", "load", "gains"] = "dynamic"  # whose parameters the motion is to show
    # objectives of several runs to pick from
    front: Annotated[list[Literal["condition", "duration", "torque", "tool speed"]], Field(max_length=4)] = []
    periods_s: Annotated[list[BoundedPositive], Field(max_length=10)] = []  # of a front over duration
    static_poses: Annotated[int, Field(ge=0, le=200)] = 0  # held and measured as well
    friction_sweeps: bool = False  # slow moves of each joint as well
    further: Annotated[
        list[Literal["static", "sweeps"] | Annotated[list[Name], Field(min_length=1)]], Field(max_length=20)
    ] = []  # runs after all others, or the parameters each is for
    warm_up_minutes: Annotated[FiniteFloat, Field(ge=0.0, le=240.0)] = 0.0  # of motion before the first run
    target_relative_sigma_percent: Percent = 5.0  # of each essential parameter; the forecast compares
    method: Annotated[Literal["hybrid", "restarts"], BeforeValidator(_search_method)] = "hybrid"  # of the search
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0  # of the search
    evaluations: Annotated[int, Field(ge=1, le=10**10)] | None = None  # budget of each search; repeats bit for bit
    seconds: BoundedPositive | None = None  # budget of each search instead, in CPU time

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.torque is not None and self.excitation != "torque":
            raise ValueError('gives a table torque, which goes with excitation = "torque"')
        if self.evaluations is not None and self.seconds is not None:
            raise ValueError("gives both evaluations and seconds; a budget is one of them")
        if isinstance(self.harmonics, list) and sorted(set(self.harmonics)) != self.harmonics:
            raise ValueError(f"harmonics are {self.harmonics}, expected rising numbers such as [1, 2, 4, 7]")
        if (self.criterion == "sigma") != bool(self.parameters):
            raise ValueError('parameters go with criterion = "sigma", and it needs them')
        if self.front and (self.front[0] != "condition" or len(set(self.front)) < max(2, len(self.front))):
            raise ValueError(f'front is {self.front}, expected "condition" first, then one or more other objectives')
        if self.periods_s and "duration" not in self.front:
            raise ValueError('periods_s goes with a front over "duration"')
        if self.further and (self.model == "load" or self.excitation == "torque"):
            raise ValueError('further goes with excitation = "fourier", and with model = "dynamic" or "power"')
        if self.model in ("load", "gains") and self.criterion != "condition":
            raise ValueError(
                f'criterion is "{self.criterion}"; model = "{self.model}" goes with criterion = "condition"'
            )
        if self.model == "load" and self.schedule == "locked-sequence":
            raise ValueError('schedule is "locked-sequence", whose runs move different joints; model = "load" does not')
        if (self.criterion == "path") != (self.task is not None):
            raise ValueError('task goes with criterion = "path", which needs it')
        return self


class Constraint(BaseModel):
    """A constraint of a registered kind; its other keys are those of the kind's own table."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    kind: Name  # a name of the table of kinds


class Campaign(Table):
    """The content of campaign.toml."""

    robot: str  # name of the catalogue, or a file in the campaign's folder
    preset: str | None = None  # of the arm: by the geometry of a URDF, else a name, or "none"
    task: Literal["arm", "payload", "gains"] = "arm"  # what is to be identified
    home_deg: Annotated[list[FiniteFloat], Field(max_length=100)] | None = None  # sliding joints: mm
    prior: str | None = None  # a model.json of earlier: what is known of the robot beforehand
    payload: Body | None = None  # on the tool, known; of a payload campaign a guess, to plan with
    arm: Arm = Arm()  # of a payload campaign without a prior
    rated: PayloadRating = PayloadRating()  # of a payload campaign: what the robot may carry
    gains: DriveGains = DriveGains()  # of drives, from runs with and without a weighed payload
    limits: Limits = Limits()  # shares of the robot's limits, and tighter ones
    cell: Cell = Cell()  # zones, clearances, self-collision
    constraint: Annotated[list[Constraint], Field(max_length=100)] = []  # further kinds, each with its own keys
    noise: Noise = Noise()  # of one torque sample
    design: Design = Design()  # schedule, excitation, criterion, budget
    log: ColumnMap | None = None  # what logs hold, where their format does not say it
    matlab: Matlab | None = None  # fields of MATLAB files
    # recordings that no program of Excitor made
    run: Annotated[list[Run], Field(default_factory=list, max_length=1000)]
    processing: Processing = Processing()  # of logs before the fit
    locked: Annotated[list[str], Field(default_factory=list)]  # joints that stand still in every run
    identify: Identification = Identification()  # method and form of the model
    targets: Targets = Targets()  # of `excitor next`: when enough is known
    site: Site = Site()  # of the cell's controller: what programs call it


class InvalidCampaign(ExcitorError):
    """A campaign that cannot be used; every problem found, each with its key path."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.path = str(path)
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))


@dataclass(frozen=True, eq=False, slots=True)
class LongRun:
    """A run whose log is read in parts, and the runs that are stretches of it."""

    run: Run
    log: "LongLog"
    stretches: tuple[str, ...]


@dataclass(frozen=True)
class OpenCampaign:
    """A campaign with its robot and its folder."""

    folder: Path
    content: Campaign
    robot: Robot
    robot_source: str | Path
    text: str  # of campaign.toml
    band: "BandChoice | None" = None  # of the motion: chosen from the logs, or compared with the stated one
    timing: "Timing | None" = None  # of torques that were recorded beside a motion: estimated, or stated
    friction: Mapping[str, Any] | None = None  # forms that the robot's friction was given, as in model.json
    long: tuple[LongRun, ...] = ()  # runs whose logs are read in parts

    @property
    def digest(self) -> str:
        """Digest what a design is made from: the texts of the robot, and the campaign without what is about logs."""
        left: dict[str, Any] = dict.fromkeys(_ABOUT_LOGS, True)
        if self.content.task == "arm":
            left["task"] = True
        if self.content.preset is None:
            left["preset"] = True
        if self.content.task != "gains":
            left["gains"] = True
        if not self.content.constraint:  # as in campaigns from before there were any
            left["constraint"] = True
        if not self.content.cell.assumed_volumes:
            left["cell"] = {"assumed_volumes"}
        later = ("acceleration_deg_s2", "acceleration_m_s2")  # keys that older campaigns did not know
        left["limits"] = {key for key in later if getattr(self.content.limits, key) is None}
        if self.content.design.torque is not None:
            own = self.content.design.torque
            left["design"] = {
                "torque": {key for key in ("torque_percent", "prior_percent") if getattr(own, key) is None}
            }
        if self.content.payload is not None:
            left["payload"] = {"percent"}  # motions are planned with what is stated
        robot = read_content(self.robot_source, self.content.preset).text
        inputs = self.content.model_dump_json(exclude=left) + "\0" + robot
        digest = hashlib.sha256(inputs.encode())
        for capsule in self.robot.capsules:
            if capsule.origin == "mesh":  # which the robot's text does not show
                digest.update(np.round([*capsule.start, *capsule.end, capsule.radius], 6).tobytes())
        for parts, reason in sorted((sorted(parts), reason) for parts, reason in self.robot.ignored_pairs.items()):
            digest.update("\0".join([*parts, reason]).encode())
        return digest.hexdigest()


_ABOUT_LOGS = ("site", "run", "log", "matlab", "processing", "identify", "locked", "targets", "rated", "arm")


def fields_of(content: Campaign, run: Run) -> Matlab | None:
    """Return the fields of a run's MATLAB file of means; None where its log has columns, or is a program's."""
    return run.matlab or (content.matlab if run.columns is None and run.program is None else None)


def in_memory(robot: Robot, content: Campaign) -> OpenCampaign:
    """Make a campaign that has no folder."""
    return OpenCampaign(Path(), content, robot, robot.name, "")


def open_campaign(folder: Path, stage: Literal["design", "identify"] = "identify") -> OpenCampaign:
    """Open a folder for a stage; InvalidCampaign lists everything that is wrong with its campaign.toml."""
    folder = folder.parent if folder.name == FILE else folder
    path = folder / FILE
    try:
        text = read_text(path)
        content = Campaign.model_validate(parse_toml(text))
    except InvalidRobot as error:
        raise InvalidCampaign(path, list(error.problems)) from None
    except ValidationError as error:
        problems = sentences(list(error.errors(include_url=False)), Campaign)
        raise InvalidCampaign(path, [REMEDIES.get(problem, problem) for problem in problems]) from None
    except (ValueError, RecursionError) as error:
        raise InvalidCampaign(path, [f"is not TOML: {str(error)[:300]}"]) from None
    mend(folder, folder / "programs", folder / "logs", folder / "exports")
    if stage == "identify" and not content.run:
        content = content.model_copy(update={"run": _runs_of_programs(folder)})
    problems = list(_problems(folder, content, stage))
    if problems:
        raise InvalidCampaign(path, problems)
    source = content.robot if content.robot in catalog_names() else folder / content.robot
    read = read_content(source, content.preset)
    branching = unclear_part(read)
    if branching:
        raise InvalidCampaign(path, [f"robot: {branching}"])
    robot = about_home(robot_of(read), content.home_deg)
    return OpenCampaign(folder, _without_plans(folder, content, robot), robot, source, text)


def about_home(robot: Robot, home_deg: list[float] | None) -> Robot:
    """Shift the assumed range of joints without stops: a turn each way about home, not about zero."""
    home = np.radians(home_deg) if home_deg and len(home_deg) == robot.n_joints else np.zeros(robot.n_joints)
    endless = np.isin(robot.joint_names, robot.continuous)
    position = robot.limits.position + np.where(endless, home, 0.0)[:, None]
    return replace(robot, limits=replace(robot.limits, position=position))


def _runs_of_programs(folder: Path) -> list[Run]:
    """List runs for the logs beside emitted programs, where the file names no runs."""
    from excitor.experiments.manifest import found_logs

    found = found_logs(folder)
    several = len({log.program.partition("/")[0] for log in found}) > 1
    return [
        Run(
            name=f"{log.run} ({log.program.partition('/')[0]})" if several else log.run,
            log=log.log,
            role="validate" if log.role == "validate" else "identify",
            program=log.program,
        )
        for log in found
    ]


def _without_plans(folder: Path, content: Campaign, robot: Robot) -> Campaign:
    """Read logs of torque programs like logs without a program: their motion is no plan's."""
    from excitor.experiments.log_formats import declared_for
    from excitor.experiments.manifest import MANIFEST, PROGRAMS, read_manifest

    def read(run: Run) -> Run:
        target, _, name = (run.program or "").partition("/")
        path = folder / PROGRAMS / target / MANIFEST
        if run.program is None or not path.is_file():
            return run
        entries = [entry for entry in read_manifest(path).programs if entry.name == name and entry.torques is not None]
        columns = content.log or ColumnMap.model_validate(declared_for(target, robot)) if entries else None
        return run.model_copy(update={"program": None, "columns": columns}) if entries else run

    if content.design.excitation != "torque":
        return content
    return content.model_copy(update={"run": [read(run) for run in content.run]})


def _problems(folder: Path, content: Campaign, stage: Literal["design", "identify"]) -> list[str]:
    """Check what types cannot; a campaign that is only being designed needs no logs yet."""
    logs_alone = bool(content.run) and not any(run.program for run in content.run) and content.task == "payload"
    problems = [*_robot_problems(folder, content.robot), *([] if logs_alone else planning_problems(content))]
    if stage == "design" and not content.run:
        return problems
    return [
        *problems,
        *_source_problems(content),
        *(problem for k, run in enumerate(content.run, start=1) for problem in _way_problems(folder, content, k, run)),
        *_signal_problems(content.log),
        *load_problems(folder, content),
        *_overwritten(content),
        *_measured_twice(folder, content),
        *_run_problems(folder, content.run),
        *_identify_problems(content),
    ]


def _robot_problems(folder: Path, robot: str) -> Iterator[str]:
    """Check that the robot can be found."""
    if robot in catalog_names():
        return
    if not inside(folder, robot):
        yield f"robot: {robot!r} is neither in the catalogue nor inside this folder{ALLOW}"
    elif not (folder / robot).is_file():
        files = [path.name for path in folder.iterdir() if path.suffix in SUFFIXES and path.name != FILE]
        listed = (
            f"({', '.join(catalog_names())}) nor a file in this folder{did_you_mean(robot, [*catalog_names(), *files])}"
        )
        yield f"robot: {robot!r} is neither in the catalogue {listed}"


def _source_problems(content: Campaign) -> Iterator[str]:
    """Check that there are runs, and that their logs' contents are declared."""
    if not content.run:
        yield "run: is missing, and there are no logs at logs/TARGET/PROGRAM.*; name each run and its log"
        return
    own = all(run.program or run.columns or run.matlab for run in content.run)
    neither = content.log is None and content.matlab is None
    if (content.log is None) == (content.matlab is None) and not (own and neither):
        yield "needs one of [log], what the logs hold, and [matlab], the fields of MATLAB files"


def _way_problems(folder: Path, content: Campaign, k: int, run: Run) -> Iterator[str]:
    """Check that a run is processed in one way, and that what goes with another is not stated."""
    if run.drop_periods and run.period_s is None:
        yield f"run[{k}].drop_periods: goes with period_s, which is not given"
    if (run.from_s, run.to_s) != (None, None) and (
        run.period_s or run.cycle_s or run.static or fields_of(content, run)
    ):
        yield f"run[{k}]: from_s and to_s go with plain runs only; cut this one's log instead"
    if run.program is not None:
        yield from _program_problems(folder, k, run.program)
    for keys in (("period_s", "cycle_s", "static", "program"), ("program", "columns", "matlab")):
        ways = [key for key in keys if getattr(run, key)]
        if len(ways) > 1:
            yield f"run[{k}]: gives {' and '.join(ways)}; a run is one of them"
    yield from _signal_problems(run.columns, f"run[{k}].columns")


def _signal_problems(log: ColumnMap | None, key: str = "log") -> Iterator[str]:
    """Check what is declared of logs."""
    if log is None:
        return
    if log.format is not None:
        from excitor.identify.logs.formats import FORMATS  # readers, which a design does not need

        if log.format not in FORMATS:
            yield f"{key}.format: is {log.format!r}, expected one of {choice(log.format, FORMATS)}"
    kinds = [entry.kind for entry in log.signals]
    if len(set(kinds)) < len(kinds) or {"torque", "current"} <= set(kinds):
        yield f"{key}.signals: are {', '.join(kinds)}; give each kind once, and torque or current"


def _run_problems(folder: Path, runs: list[Run]) -> Iterator[str]:
    """Check the names of runs, and where in which logs they lie."""
    names = [run.name for run in runs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"run: the name {name!r} is used more than once"
    for k, run in enumerate(runs, start=1):
        if not inside(folder, run.log):
            yield f"run[{k}].log: {run.log!r} leaves the folder of the campaign{ALLOW}"
        if run.from_s is not None and run.to_s is not None and run.from_s >= run.to_s:
            yield f"run[{k}]: goes from {run.from_s:g} to {run.to_s:g} s; the start comes first"


def _identify_problems(content: Campaign) -> Iterator[str]:
    """Check what is to be fitted, and that there are runs to fit it to."""
    settings = content.identify
    yield from method_problems(settings)
    if settings.essential_ratio is not None and settings.acceptance is not None:
        yield "identify: gives both essential_ratio and acceptance; reduce one way"
    if settings.essential_ratio is not None and settings.mode == "in-process":
        yield 'identify: gives essential_ratio and mode = "in-process", which reduces by sensitivity; leave one out'
    if settings.approach is not None and content.task != "payload":
        yield 'identify.approach: goes with task = "payload"'
    if settings.acceptance == "validation" and not any(run.role == "validate" for run in content.run):
        yield 'identify.acceptance: is "validation", but no run has role = "validate"'
    if content.run and not any(run.role == "identify" for run in content.run):
        yield 'run: none has role = "identify"; one must'


def _program_problems(folder: Path, k: int, program: str) -> list[str]:
    """Check that a run's program was emitted."""
    target, _, name = program.partition("/")
    where = f"programs/{target}/manifest.json"
    if target in list(TARGETS) and name and (folder / where).is_file():
        return []
    return [f"run[{k}].program: {program!r} is not TARGET/NAME of an emitted program; {where} would list it"]


REMEDIES = {
    "payload.mass: is missing": "payload.mass: is missing; state in kg what the load weighs, such as mass = 4.5"
}
WEIGH = "weigh the body that the loaded runs carry, and state its mass in kg: [payload] mass = …"


def planning_problems(content: Campaign) -> list[str]:
    """Check what a payload or gains campaign needs before it is designed, and that no other one asks for it."""
    problems = []
    if content.task != "payload":
        problems = [f'{key}: goes with task = "payload"' for key in ("arm", "rated") if key in content.model_fields_set]
        if content.design.schedule == "static-pair":
            problems.append('design.schedule: is "static-pair", which goes with task = "payload"')
    if (content.design.model == "gains") > (content.task == "gains"):
        problems.append('design.model: is "gains", which goes with task = "gains"')
    if content.task == "arm":
        return problems
    if content.task == "gains":
        if content.payload is None:
            problems.append(f"payload: is missing; {WEIGH}")
        if content.design.schedule != "payload-pair":
            problems.append(
                f'design.schedule: is {content.design.schedule!r}; with task = "gains" it is "payload-pair"'
            )
        return problems
    if content.payload is None:
        problems.append("payload: is missing; state a guess of the load, which the motions are planned with")
    if content.design.schedule not in ("payload-pair", "static-pair"):
        problems.append(
            f'design.schedule: is {content.design.schedule!r}; with task = "payload" it is "payload-pair" or '
            '"static-pair"'
        )
    if content.design.schedule == "static-pair" and not content.design.static_poses:
        problems.append('design.static_poses: is 0; "static-pair" needs some, such as 15')
    return problems


def load_problems(folder: Path, content: Campaign) -> list[str]:
    """Check that every run of a payload or gains campaign says whether the load was on, and none without a load."""
    if content.task == "arm":
        return [
            f"run[{k}].loaded: goes with [payload]; state what the tool carried"
            for k, run in enumerate(content.run, start=1)
            if run.loaded is not None and content.payload is None
        ]
    return [
        f"run[{k}].loaded: is missing; state whether the load was on (true or false)"
        for k, run in enumerate(content.run, start=1)
        if run.loaded is None and run.program is None
    ]


def method_problems(settings: Identification) -> list[str]:
    """Check that a method exists, and what goes with it."""
    if settings.method == "wls":
        return []
    from excitor.identify.methods import METHODS, SCHEMES

    if settings.method not in METHODS:
        known = f"expected one of {choice(settings.method, METHODS)}"
        return [f"identify.method: is {settings.method!r}, {known}"]
    others = ["acceptance", "mode", "essential"]
    if settings.method not in SCHEMES:
        others += ["weights", "essential_ratio"]
    return [
        f'identify.{key}: goes with method = "wls"; {settings.method} fits all base parameters in its own way'
        for key in others
        if key in settings.model_fields_set and getattr(settings, key) is not None
    ]


_WRITTEN = {
    "model": ("json", "c", "py", "urdf"),
    "design": ("json",),
    "plan": ("html",),
    "report": ("html", "json", "pdf"),
    "comparison": ("html",),
    "compare": ("html", "json"),
    "watch": ("json",),
    "gains": ("html", "json", "toml"),
}
OUTPUTS = tuple(f"{stem}.{suffix}" for stem, suffixes in _WRITTEN.items() for suffix in suffixes)


def _overwritten(content: Campaign) -> list[str]:
    """Refuse inputs with the name of an output, which would be lost."""
    inputs = {"robot": content.robot, **{f"run[{k}].log": run.log for k, run in enumerate(content.run, start=1)}}
    return [
        f"{key}: {name!r} is what excitor writes; rename the file"
        for key, name in inputs.items()
        if Path(name).as_posix().removeprefix("./") in OUTPUTS
    ]


def _measured_twice(folder: Path, content: Campaign) -> list[str]:
    """Refuse two runs on the same samples: training data would count as held out, or count twice."""
    problems = []
    windows: dict[bytes, list[tuple[str, float, float]]] = {}
    there = [(run, folder / run.log) for run in content.run if inside(folder, run.log)]
    sizes = [path.stat().st_size for _, path in there if path.is_file()]
    for run, path in there:
        if path.is_dir():
            digest = str(path.resolve()).encode()
        elif path.is_file() and sizes.count(path.stat().st_size) > 1:
            with open_bounded(path) as file:
                digest = hashlib.file_digest(file, "sha256").digest()
        else:
            continue  # different sizes are different samples, and a large file need not be read for it
        low, high = run.from_s or 0.0, float("inf") if run.to_s is None else run.to_s
        others = windows.setdefault(digest, [])
        for name, a, b in others:
            if low < b and a < high:
                problems.append(
                    f"run: {name!r} and {run.name!r} are the same samples; give them logs, or parts, of their own"
                )
        others.append((run.name, low, high))
    return problems
