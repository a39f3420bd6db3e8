"""What campaign.toml says about the cell, the limits and the design: keys, types, units."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator


class Table(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Positive = Annotated[FiniteFloat, Field(gt=0.0, le=1e9)]
NotNegative = Annotated[FiniteFloat, Field(ge=0.0, le=1e9)]
Percent = Annotated[FiniteFloat, Field(ge=0.1, le=100.0)]
Coordinate = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Vector = Annotated[list[Coordinate], Field(min_length=3, max_length=3)]
Name = Annotated[str, Field(min_length=1, max_length=80)]
Whole = Annotated[int, Field(ge=0, le=10_000)]


class Zone(Table):
    """A solid to stay inside or outside of, in the robot's base frame; lengths in m.

    box: `low` and `high`, or `center`, `size` and `rpy_deg`; sphere: `center`, `radius`; cylinder: `center`, `axis`,
    `radius`, `height`; half-space: the solid lies behind `point`, `normal` points out of it.
    """

    name: Name
    keep: Literal["in", "out"]
    shape: Literal["box", "sphere", "cylinder", "half-space"]
    bodies: Literal["tool", "links", "all"] = "all"
    clearance_m: NotNegative | None = None
    low: Vector | None = None
    high: Vector | None = None
    center: Vector | None = None
    size: Annotated[list[Positive], Field(min_length=3, max_length=3)] | None = None
    rpy_deg: Vector | None = None
    radius: Positive | None = None
    height: Positive | None = None
    axis: Vector | None = None
    point: Vector | None = None
    normal: Vector | None = None

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
    """What the robot must not touch."""

    self_collision: bool = True
    clearance_m: NotNegative = 0.02  # between surfaces, where a zone states no other
    tool_radius_m: NotNegative = 0.0  # of a ball about the tool point that holds the tool
    zone: Annotated[list[Zone], Field(max_length=200)] = []


class JointLimits(Table):
    """Limits of one joint, tighter than the robot's own, or stated where those are not; torque in N m or N."""

    position_deg: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)] | None = None
    position_m: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)] | None = None
    velocity_deg_s: Positive | None = None
    velocity_m_s: Positive | None = None
    acceleration_deg_s2: Positive | None = None
    acceleration_m_s2: Positive | None = None
    jerk_deg_s3: Positive | None = None
    jerk_m_s3: Positive | None = None
    torque: Positive | None = None
    torque_rms: Positive | None = None


class Limits(Table):
    """How much of the robot's limits a design may use."""

    position_margin_deg: NotNegative = 2.0  # kept free at both ends; sliding joints: mm
    velocity_percent: Percent = 90.0
    acceleration_percent: Percent = 90.0
    jerk_percent: Percent = 90.0
    torque_percent: Percent = 80.0
    torque_rms_percent: Percent | None = None  # of the peak limit, over a period
    tool_speed_m_s: Positive | None = None
    joint: dict[Name, JointLimits] = {}


class Body(Table):
    """A payload of known parameters in the tool's frame: mass kg, centre m, inertia about it (xx xy xz yy yz zz)."""

    mass: Positive
    center: Vector = [0.0, 0.0, 0.0]
    inertia: Annotated[list[FiniteFloat], Field(min_length=6, max_length=6)] = [0.0] * 6


class Arm(Table):
    """How far off the robot's own links and rotors may be, where no earlier campaign tells: standard deviations."""

    links_percent: Annotated[FiniteFloat, Field(ge=0.0, le=100.0)] = 5.0  # of masses, centres, inertias about them
    rotors_percent: Annotated[FiniteFloat, Field(ge=0.0, le=100.0)] = 5.0


class Rated(Table):
    """What the robot may carry, from its data sheet; inertias and moments about joints' axes, at the worst pose."""

    mass: Positive | None = None  # kg
    inertia: dict[Name, Positive] = {}  # kg m2
    moment: dict[Name, Positive] = {}  # N m, of the load's weight


class Noise(Table):
    """What the measurements will be like."""

    torque: Annotated[list[Positive], Field(max_length=100)] | None = None  # per joint, N m (N), one sample
    rate_hz: Positive = 100.0  # rows per second that are independent
    inflation: Annotated[FiniteFloat, Field(ge=1.0, le=1e3)] = 1.0  # how much wider intervals were than white ones
    model: str | None = None  # a model.json of earlier: its residuals are the noise

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.torque is not None and self.model is not None:
            raise ValueError("gives both torque and model; the noise comes from one of them")
        return self


class TorqueRuns(Table):
    """What torques drive an arm without a controller: tau = c (1 - exp(-rate t^3)) + sum of a sin(w t + phase)."""

    duration_s: Annotated[FiniteFloat, Field(gt=0.0, le=600.0)] = 10.0  # of the measured part
    n_waves: Annotated[int, Field(ge=1, le=20)] = 2  # in each motor
    band_rad_s: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None  # not given: 1 to 15
    rate: Positive = 0.5  # 1/s^3: how soon the constant part comes
    fade_s: Annotated[FiniteFloat, Field(ge=0.0, le=60.0)] = 1.0  # in which the torques vanish afterwards
    coast_s: Annotated[FiniteFloat, Field(ge=0.0, le=60.0)] = 2.0  # in which friction brings the arm to rest
    driven: Annotated[list[Name], Field(max_length=100)] = []  # joints whose motors push; none named: all


class Targets(Table):
    """When enough is known; a parameter is, too, whose deviation no joint's torque shows."""

    relative_sigma_percent: Percent | None = None  # of each essential parameter; none: design's
    torque_share_percent: NotNegative = 1.0  # of a joint's rms torque: smaller effects of a deviation do not matter
    torque_error_percent: Percent = 5.0  # expected error of a joint's torque, of its rms
    parameters: list[Name] = []  # that are judged; none named: all that show above the noise


class Design(Table):
    """Which motions are sought."""

    excitation: Literal["fourier", "torque"] = "fourier"  # positions for a controller, or torques without one
    torque: TorqueRuns | None = None
    schedule: Literal["together", "single", "locked-sequence", "payload-pair", "static-pair", "gentle-first"] = (
        "together"
    )
    joints: list[Name] = []  # that move; none named: all
    locked_deg: dict[Name, Coordinate] = {}  # where joints stand that do not move (sliding: mm); else the search tells
    base_frequency_hz: Positive = 0.1
    harmonics: Annotated[int, Field(ge=1, le=100)] | list[Annotated[int, Field(ge=1, le=1000)]] = 5
    max_frequency_hz: Positive | None = None  # below the first resonance
    controller_sample_s: Positive = 0.004
    settle_s: NotNegative = 2.0
    ramp_s: Positive = 5.0
    warm_up_periods: Whole = 1
    measured_periods: Annotated[int, Field(ge=1, le=10_000)] = 5
    hold_s: NotNegative = 2.0
    criterion: Literal["condition", "d", "a", "e", "sigma", "path"] = "condition"
    parameters: list[Name] = []  # of the sigma criterion: base parameters
    task: str | None = None  # of the path criterion: a CSV of joint positions over time
    model: Literal["dynamic", "power", "load"] = "dynamic"
    front: Annotated[list[Literal["condition", "duration", "torque", "tool speed"]], Field(max_length=4)] = []
    periods_s: Annotated[list[Positive], Field(max_length=10)] = []  # of a front over duration
    static_poses: Annotated[int, Field(ge=0, le=200)] = 0
    friction_sweeps: bool = False
    further: Annotated[
        list[Literal["static", "sweeps"] | Annotated[list[Name], Field(min_length=1)]], Field(max_length=20)
    ] = []  # runs after all others, or the parameters each is for
    warm_up_minutes: Annotated[FiniteFloat, Field(ge=0.0, le=240.0)] = 0.0
    target_relative_sigma_percent: Percent = 5.0
    method: Literal["hybrid", "ga", "plain-ga"] = "hybrid"
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    evaluations: Annotated[int, Field(ge=1, le=10**10)] | None = None
    seconds: Positive | None = None

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
        if self.model == "load" and self.criterion != "condition":
            raise ValueError(f'criterion is "{self.criterion}"; model = "load" goes with criterion = "condition"')
        if self.model == "load" and self.schedule == "locked-sequence":
            raise ValueError('schedule is "locked-sequence", whose runs move different joints; model = "load" does not')
        if (self.criterion == "path") != (self.task is not None):
            raise ValueError('task goes with criterion = "path", which needs it')
        return self
