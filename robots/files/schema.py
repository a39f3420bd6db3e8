"""What a robot file may say: the keys of the TOML format, their types and units."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, model_validator

MOST_JOINTS = 100
LARGEST = 1e12  # no robot needs more, in any unit; products of such numbers do not overflow
_SMALLEST = 1e-100  # less is 0: its square, or its inverse, could not be written


def _check_size(value: float) -> float:
    if abs(value) > LARGEST:
        raise ValueError(f"is {value:g}, expected a number of at most {LARGEST:g} in size")
    return value if abs(value) >= _SMALLEST else 0.0


def _check_number(value: float | str) -> float | str:
    if isinstance(value, str) and not 0 < len(value) <= 200:
        raise ValueError("expected a number or a short expression such as 'd3' or '227/1200'")
    return value


Finite = Annotated[FiniteFloat, AfterValidator(_check_size)]
# A number, or an expression of named lengths: `0.225`, "d3", "227/1200".
Number = Annotated[Finite | str, Field(union_mode="left_to_right"), AfterValidator(_check_number)]
Name = Annotated[str, Field(min_length=1, max_length=80)]
Vector = Annotated[list[Number], Field(min_length=3, max_length=3)]
Interval = Annotated[list[Finite], Field(min_length=2, max_length=2)]
NotNegative = Annotated[Finite, Field(ge=0.0)]
Positive = Annotated[Finite, Field(gt=0.0)]
Combination = Annotated[dict[Name, Number], Field(min_length=1)]
Model = Literal["viscous", "coulomb", "offset", "sqrt", "stribeck", "load", "maxwell-slip", "ripple"]


class Table(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModifiedDH(Table):
    """T = Rot(x, alpha) Trans(x, d) Rot(z, theta) Trans(z, r), Khalil and Kleinfinger."""

    alpha_deg: Number = 0.0
    d: Number = 0.0
    theta_deg: Number = 0.0
    r: Number = 0.0


class StandardDH(Table):
    """T = Rot(z, theta) Trans(z, d) Trans(x, a) Rot(x, alpha), Denavit and Hartenberg."""

    theta_deg: Number = 0.0
    d: Number = 0.0
    a: Number = 0.0
    alpha_deg: Number = 0.0


class Placement(Table):
    """A free placement: T = Trans(xyz) Rot(z, yaw) Rot(y, pitch) Rot(x, roll), as in URDF; then the joint's axis."""

    xyz: Vector = [0.0, 0.0, 0.0]
    rpy_deg: Vector | None = None
    rpy_rad: Vector | None = None
    axis: Vector = [0.0, 0.0, 1.0]

    @model_validator(mode="after")
    def _one_angle(self) -> Self:
        if self.rpy_deg is not None and self.rpy_rad is not None:
            raise ValueError("gives both rpy_deg and rpy_rad; keep one")
        return self


class Limits(Table):
    """What a joint may do, in the unit that the key names; torque in N m, or N for a sliding joint."""

    position_deg: Interval | None = None
    position_rad: Interval | None = None
    position_m: Interval | None = None
    velocity_deg_s: Positive | None = None
    velocity_rad_s: Positive | None = None
    velocity_m_s: Positive | None = None
    acceleration_deg_s2: Positive | None = None
    acceleration_rad_s2: Positive | None = None
    acceleration_m_s2: Positive | None = None
    jerk_deg_s3: Positive | None = None
    jerk_rad_s3: Positive | None = None
    jerk_m_s3: Positive | None = None
    torque: Positive | None = None


class Body(Table):
    """A body: mass, centre of mass, inertia about the centre of mass as xx, xy, xz, yy, yz, zz (tensor entries)."""

    mass: Finite
    center: Vector = [0.0, 0.0, 0.0]
    inertia: Annotated[list[Finite], Field(min_length=6, max_length=6)] | None = None


class Joint(Table):
    """A joint and the link it moves. It hangs on the joint before it unless `parent` names another, or "base".

    Its position is its own coordinate, or what it `follows`, plus the offset. In a closed chain it may be `passive`;
    `home` is roughly where it stands when the platform is at home. A `massless` link is a frame between two axes,
    a `slender` one a rod along x: of its inertia only that across counts.
    """

    name: Name
    parent: Name | None = None
    kind: Literal["revolute", "prismatic", "fixed"] = "revolute"
    mdh: ModifiedDH | None = None
    dh: StandardDH | None = None
    placement: Placement | None = None
    follows: Combination | None = None
    offset_deg: Finite | None = None
    offset_m: Finite | None = None
    locked_deg: Finite | None = None
    locked_m: Finite | None = None
    limits: Limits = Limits()
    link: Body | None = None
    passive: bool = False
    home_deg: Finite | None = None
    home_m: Finite | None = None
    massless: bool = False
    slender: bool = False

    @model_validator(mode="after")
    def _one_geometry(self) -> Self:
        given = [key for key in ("mdh", "dh", "placement") if getattr(self, key) is not None]
        if len(given) != 1:
            said = " and ".join(given) or "none"
            raise ValueError(f"needs exactly one of mdh, dh and placement; it gives {said}")
        return self


class Platform(Table):
    """The free platform of a closed chain: how it moves in the base frame, and where it is at home (m, degrees)."""

    name: Name = "platform"
    moves: Annotated[list[Literal["x", "y", "z", "rx", "ry", "rz"]], Field(min_length=1, max_length=6)]
    home: list[Number]
    at: Vector = [0.0, 0.0, 0.0]
    link: Body | None = None


class Closure(Table):
    """Two links that meet: at points, at a distance, or so that neither moves against the other.

    Points are in the links' frames. With a `normal`, base frame, only what lies in that plane must agree.
    """

    kind: Literal["point", "rod", "weld"] = "point"
    between: Annotated[list[Name], Field(min_length=2, max_length=2)]
    points: Annotated[list[Vector], Field(min_length=2, max_length=2)] = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    normal: Vector | None = None
    length: Number | None = None
    rpy_deg: Vector | None = None


class Element(Table):
    """A rotor or friction element of its own: it senses a combination of joint velocities and acts through another."""

    parameter: Name
    senses: Combination
    acts: Combination | None = None


class FrictionElement(Element):
    """A friction element; `scale` is a velocity (stribeck), a stiffness length (maxwell-slip) or a count (ripple)."""

    model: Model
    sign_width: NotNegative | None = None
    scale: Positive | None = None
    warm_up: Annotated[int, Field(ge=0, le=10)] = 0


class Drive(Table):
    """Motors and gears: q_motor = motor_from_joint q, with one of three ways to say it."""

    ratios: list[Number] | None = None
    motor_from_joint: list[list[Number]] | None = None
    joint_from_motor: list[list[Number]] | None = None
    rotors: Literal["none", "motors", "joints"] | list[Name] = "none"
    rotor: list[Element] = []
    torque_from_current: list[Finite | list[Finite]] | None = None
    efficiency: list[Annotated[Finite, Field(gt=0.0, le=1.0)]] | None = None


class Friction(Table):
    """Friction of every joint (or of every motor, felt at the joints), and elements of their own."""

    at: Literal["joints", "motors"] = "joints"
    terms: list[Literal["viscous", "coulomb", "offset", "sqrt"]] = []
    sign_width: NotNegative = 0.0
    element: list[FrictionElement] = []


class NamedFrame(Table):
    """A frame that rides on a link."""

    name: Name
    link: Name | None = None
    xyz: Vector = [0.0, 0.0, 0.0]
    rpy_deg: Vector = [0.0, 0.0, 0.0]


class Tool(Table):
    """The tool's frame, on the last link unless it names another."""

    link: Name | None = None
    xyz: Vector = [0.0, 0.0, 0.0]
    rpy_deg: Vector = [0.0, 0.0, 0.0]


class Payload(Body):
    """A body of known parameters, in the tool's frame."""


class Capsule(Table):
    """A collision volume around the segment from start to end, in the link's frame."""

    link: Name
    start: Vector
    end: Vector
    radius: Positive


class Pose(Table):
    """What the pendant shows, and where the tool must then be (base frame, m)."""

    shows: list[Finite]
    tool: Annotated[list[Finite], Field(min_length=3, max_length=3)]


class Controller(Table):
    """A controller's axes = matrix q + zero; `zero` and `shows` in degrees, millimetres for sliding joints."""

    axes: list[Name]
    signs: list[Literal[1, -1]] | None = None
    matrix: list[list[Number]] | None = None
    zero: list[Finite] | None = None
    pose: list[Pose] = []


class Declared(Table):
    """A paper's base parameters as combinations of the robot's standard parameters.

    `frames` turns and shifts the frames of the paper's links into ours where they differ.
    """

    source: str = ""
    parameters: Annotated[dict[Name, str], Field(min_length=1)]
    frames: dict[Name, Tool] = {}


class Description(Table):
    """A robot file."""

    name: Name
    title: str = ""
    gravity: Vector = [0.0, 0.0, -9.81]
    lengths: dict[Name, Finite] = {}
    joint: Annotated[list[Joint], Field(min_length=1, max_length=MOST_JOINTS)]
    platform: Platform | None = None
    closure: list[Closure] = []
    drive: Drive = Drive()
    friction: Friction = Friction()
    parameters: dict[Name, Finite] = {}
    assumed_zero: list[Name] = []
    tool: Tool = Tool()
    payload: Payload | None = None
    frame: list[NamedFrame] = []
    capsule: list[Capsule] = []
    controllers: dict[Name, Controller] = {}
    declared_base: Declared | None = None


def sentences(errors: list[Any]) -> list[str]:
    """Turn pydantic's errors into sentences, each starting with its key path; one sentence a key."""
    told: dict[str, str] = {}
    for error in errors:
        told.setdefault(_key_path(error["loc"]), _sentence(error))
    return [f"{path}: {sentence}" for path, sentence in told.items()]


# What pydantic appends to a path where a key may have one of several types.
_TYPE_TAGS = ("float", "int", "str", "literal[", "list[", "function-", "constrained-")


def _key_path(loc: tuple[str | int, ...]) -> str:
    path = ""
    for k, part in enumerate(loc):
        if isinstance(part, int):
            path += f"[{part + 1}]"
        elif k == 0 or not (part.startswith(_TYPE_TAGS) and k == len(loc) - 1):
            path += f".{part}" if path else part
    return path or "the file"


def _sentence(error: Any) -> str:
    given = repr(error.get("input"))
    given = given if len(given) <= 60 else given[:57] + "…"
    kind = error["type"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is not a key that this table knows; check its spelling, or remove it"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind in ("too_long", "too_short"):
        length, most, least = (error["ctx"].get(key) for key in ("actual_length", "max_length", "min_length"))
        return f"has {length} entries, expected " + (f"at most {most}" if kind == "too_long" else f"at least {least}")
    expected = error["msg"].removeprefix("Input should be ").removeprefix("String should have ")
    return f"is {given}, expected {expected}"
