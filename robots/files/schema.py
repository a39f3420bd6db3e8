"""Schema of robot files: the keys of the TOML format, their types and units.

Numbers and linear combinations are read as people write them: `227/1200`, `-l2`,
`ZZ1 + Ia1 + 0.07 MZ3 + d3^2 (M3 + M4)`.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from excitor.robots.errors import did_you_mean

MOST_JOINTS = 100
LARGEST = 1e12  # no robot needs more, in any unit; products of such numbers do not overflow
_SMALLEST = 1e-100  # less is 0: its square, or its inverse, could not be written
# What pydantic appends to a path where a key may have one of several types.
_TYPE_TAGS = ("float", "int", "str", "literal[", "list[", "function-", "constrained-")
LONGEST = 4000
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(.))", re.DOTALL | re.ASCII
)
_CONSTANT = ""  # the key of a combination's constant term
_DIGITS, _POWERS = tuple("0123456789"), tuple("123456789")
Terms = dict[str, float]


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


def _check_model(value: str) -> str:
    return _one_of(value, at_every_joint=False)


def _check_term(value: str) -> str:
    return _one_of(value, at_every_joint=True)


def _one_of(value: str, *, at_every_joint: bool) -> str:
    from excitor.robots.friction import element_names, element_rows

    element_rows(value)  # an installed package's law is loaded when it is named
    names = element_names(at_every_joint=at_every_joint)
    if value not in names:
        expected = ", ".join(f"'{name}'" for name in names[:-1])
        raise ValueError(f"is {value!r:.60}, expected {expected} or '{names[-1]}'{did_you_mean(value, names)}")
    return value


Model = Annotated[str, AfterValidator(_check_model)]
Term = Annotated[str, AfterValidator(_check_term)]


class Table(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModifiedDH(Table):
    """T = Rot(x, alpha) Trans(x, d) Rot(z, theta) Trans(z, r), Khalil and Kleinfinger."""

    alpha_deg: Number = 0.0  # twist of the previous axis
    d: Number = 0.0  # along the previous x, m
    theta_deg: Number = 0.0  # added to the joint's angle
    r: Number = 0.0  # along z, m


class StandardDH(Table):
    """T = Rot(z, theta) Trans(z, d) Trans(x, a) Rot(x, alpha), Denavit and Hartenberg."""

    theta_deg: Number = 0.0  # added to the joint's angle
    d: Number = 0.0  # along z, m
    a: Number = 0.0  # along x, m
    alpha_deg: Number = 0.0  # twist to the next axis


class After(Table):
    """What comes between the joint and the frame of its link."""

    xyz: Vector = [0.0, 0.0, 0.0]  # shift
    rpy_rad: Vector = [0.0, 0.0, 0.0]  # turn


class Placement(Table):
    """A free placement: T = Trans(xyz) Rot(z, yaw) Rot(y, pitch) Rot(x, roll), as in URDF; then the joint's axis."""

    xyz: Vector = [0.0, 0.0, 0.0]  # of the joint in the parent's frame
    rpy_deg: Vector | None = None  # turn of the joint's frame
    rpy_rad: Vector | None = None  # the same in rad
    axis: Vector = [0.0, 0.0, 1.0]  # along or about which it moves
    after: After = After()  # between the joint and its link's frame

    @model_validator(mode="after")
    def _one_angle(self) -> Self:
        if self.rpy_deg is not None and self.rpy_rad is not None:
            raise ValueError("gives both rpy_deg and rpy_rad; keep one")
        return self


class Limits(Table):
    """Limits of a joint, in the unit that the key names; torque in N m, or N for a sliding joint."""

    position_deg: Interval | None = None  # lowest and highest
    position_rad: Interval | None = None  # lowest and highest
    position_m: Interval | None = None  # lowest and highest; sliding joints
    velocity_deg_s: Positive | None = None  # highest
    velocity_rad_s: Positive | None = None  # highest
    velocity_m_s: Positive | None = None  # highest; sliding joints
    acceleration_deg_s2: Positive | None = None  # highest
    acceleration_rad_s2: Positive | None = None  # highest
    acceleration_m_s2: Positive | None = None  # highest; sliding joints
    jerk_deg_s3: Positive | None = None  # highest
    jerk_rad_s3: Positive | None = None  # highest
    jerk_m_s3: Positive | None = None  # highest; sliding joints
    torque: Positive | None = None  # peak


class Body(Table):
    """A body: mass, centre of mass, inertia about the centre of mass as xx, xy, xz, yy, yz, zz (tensor entries)."""

    mass: Finite  # of the link
    center: Vector = [0.0, 0.0, 0.0]  # of mass, in the link's frame
    # xx xy xz yy yz zz about the centre
    inertia: Annotated[list[Finite], Field(min_length=6, max_length=6)] | None = None


class Joint(Table):
    """A joint and the link it moves. It hangs on the joint before it unless `parent` names another, or "base".

    Its position is its own coordinate, or what it `follows`, plus the offset. `locked`, it stands still in every run;
    `held`, it is no joint of the robot: what it carries belongs to its parent. In a closed chain it may be `passive`;
    `home` is roughly where it stands when the platform is at home. A `massless` link is a frame between two axes,
    a `slender` one a rod along x: of its inertia only that across counts.
    """

    name: Name  # unique
    parent: Name | None = None  # the link it hangs on; none: the joint before it
    kind: Literal["revolute", "continuous", "prismatic", "fixed"] = "revolute"  # how it moves
    mdh: ModifiedDH | None = None  # modified Denavit-Hartenberg parameters
    dh: StandardDH | None = None  # standard Denavit-Hartenberg parameters
    placement: Placement | None = None  # a free placement and axis
    follows: Combination | None = None  # other joints, with factors
    offset_deg: Finite | None = None  # added to its position
    offset_m: Finite | None = None  # added to its position
    locked_deg: Finite | None = None  # where it stands in every run
    locked_m: Finite | None = None  # where it stands in every run
    held_deg: Finite | None = None  # where it is held; then it is no joint
    held_m: Finite | None = None  # where it is held; then it is no joint
    limits: Limits = Limits()  # of position, velocity, acceleration, jerk, torque
    link: Body | None = None  # the body it moves
    passive: bool = False  # without a motor, in a closed chain
    home_deg: Finite | None = None  # about where it is at the platform's home
    home_m: Finite | None = None  # about where it is at the platform's home
    massless: bool = False  # a frame between two axes
    slender: bool = False  # a rod along x

    @model_validator(mode="after")
    def _one_geometry(self) -> Self:
        given = [key for key in ("mdh", "dh", "placement") if getattr(self, key) is not None]
        if len(given) != 1:
            listed = " and ".join(given) or "none"
            raise ValueError(f"needs exactly one of mdh, dh and placement; it gives {listed}")
        return self


class Platform(Table):
    """The free platform of a closed chain: how it moves in the base frame, and where it is at home (m, degrees)."""

    name: Name = "platform"  # as parameters call it
    # its free coordinates
    moves: Annotated[list[Literal["x", "y", "z", "rx", "ry", "rz"]], Field(min_length=1, max_length=6)]
    home: list[Number]  # those coordinates at home: m, degrees
    at: Vector = [0.0, 0.0, 0.0]  # its frame's place in the base at home, m
    link: Body | None = None  # its body


class Closure(Table):
    """Two links that meet: at points, at a distance, or so that neither moves against the other.

    Points are in the links' frames. With a `normal`, base frame, only components in that plane must agree.
    """

    kind: Literal["point", "rod", "weld"] = "point"  # what the two links share
    between: Annotated[list[Name], Field(min_length=2, max_length=2)]  # the two links
    # one in each link's frame, m
    points: Annotated[list[Vector], Field(min_length=2, max_length=2)] = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    normal: Vector | None = None  # of the plane in which points must agree
    length: Number | None = None  # of a rod, m
    rpy_deg: Vector | None = None  # of a weld: second link in the first


class Element(Table):
    """A rotor or friction element of its own: it senses a combination of joint velocities and acts through another."""

    parameter: Name  # its name
    senses: Combination  # joint velocities, with factors
    acts: Combination | None = None  # on joints, with factors; none: as it senses


class FrictionElement(Element):
    """A friction element; `scale` is a velocity (stribeck), a stiffness length (maxwell-slip) or a count (ripple)."""

    model: Model  # of the element
    sign_width: NotNegative | None = None  # over which the sign turns, rad/s
    scale: Positive | None = None  # see above
    warm_up: Annotated[int, Field(ge=0, le=10)] = 0  # order of its dependence on temperature


class Drive(Table):
    """Motors and gears: q_motor = motor_from_joint q, stated in one of three ways."""

    ratios: list[Number] | None = None  # of gears, one a motor
    motor_from_joint: list[list[Number]] | None = None  # matrix, motors by joints
    joint_from_motor: list[list[Number]] | None = None  # its inverse
    rotors: Literal["none", "motors", "joints"] | list[Name] = "none"  # whose inertia is a parameter, or their names
    rotor: list[Element] = []  # rotor elements of their own
    torque_from_current: list[Finite | list[Finite]] | None = None  # []: that motor's is unknown
    torque_from_current_sigma: NotNegative | list[NotNegative] | None = None  # relative
    ratio_sigma: NotNegative | list[NotNegative] | None = None  # relative, of the gears' ratios
    efficiency: list[Annotated[Finite, Field(gt=0.0, le=1.0)]] | None = None  # of gears, one a motor


class Friction(Table):
    """Friction of every joint (or of every motor, felt at the joints), and elements of their own."""

    at: Literal["joints", "motors"] = "joints"  # where it acts
    terms: list[Term] = []  # of every joint or motor
    sign_width: NotNegative = 0.0  # over which the sign turns, rad/s (m/s)
    element: list[FrictionElement] = []  # others than those


class NamedFrame(Table):
    """A frame that rides on a link."""

    name: Name  # as exports call it
    link: Name | None = None  # that it rides on; none: the last
    xyz: Vector = [0.0, 0.0, 0.0]  # in that link's frame
    rpy_deg: Vector = [0.0, 0.0, 0.0]  # in that link's frame


class Tool(Table):
    """The tool's frame, on the last link unless it names another."""

    link: Name | None = None  # that it rides on; none: the last
    xyz: Vector = [0.0, 0.0, 0.0]  # in that link's frame
    rpy_deg: Vector = [0.0, 0.0, 0.0]  # in that link's frame


class Payload(Body):
    """A body of known parameters, in the tool's frame."""


class Capsule(Table):
    """A collision volume around the segment from start to end, in the link's frame."""

    link: Name  # that it belongs to
    start: Vector  # of its segment, m
    end: Vector  # of its segment, m
    radius: Positive  # about the segment
    origin: Literal["stated", "mesh", "assumed"] = "stated"  # how it was found
    part: str = ""  # what it is of, where several bodies make a link
    corners: list[Vector] = []  # of the convex hull of what it contains, if known


class IgnoredPair(Table):
    """Two parts that are not kept apart."""

    parts: Annotated[list[str], Field(min_length=2, max_length=2)]  # the two
    reason: str = "left out by the robot file"  # as plan pages give it


class Pose(Table):
    """Axis values shown by the pendant, and the tool position they must give (base frame, m)."""

    shows: list[Finite]  # axis values, degrees (mm)
    tool: Annotated[list[Finite], Field(min_length=3, max_length=3)]  # tool position that they give, m


class Controller(Table):
    """A controller's axes = matrix q + zero; `zero` and `shows` in degrees, millimetres for sliding joints."""

    axes: list[Name]  # their names on the pendant
    signs: list[Literal[1, -1]] | None = None  # against the joints, one an axis
    matrix: list[list[Number]] | None = None  # axes by joints, where they are coupled
    zero: list[Finite] | None = None  # axis values where joints are at 0
    pose: list[Pose] = []  # that prove the figures


class PublishedParameters(Table):
    """A paper's base parameters as combinations of the robot's standard parameters.

    `frames` turns and shifts the frames of the paper's links into ours where they differ.
    """

    source: str = ""  # the paper
    parameters: Annotated[dict[Name, str], Field(min_length=1)]  # expression of each base parameter
    frames: dict[Name, Tool] = {}  # of the paper's links in ours


class Description(Table):
    """A robot file."""

    name: Name  # as messages call it
    title: str = ""  # a line for lists
    gravity: Vector = [0.0, 0.0, -9.81]  # in the base frame
    lengths: dict[Name, Finite] = {}  # named, for use in expressions, m
    joint: Annotated[list[Joint], Field(min_length=1, max_length=MOST_JOINTS)]  # from base to tool
    moving: Annotated[list[Name], Field(min_length=1)] | None = None  # all other joints are held
    platform: Platform | None = None  # of a parallel robot
    closure: list[Closure] = []  # where branches meet again
    drive: Drive = Drive()  # motors, gears, rotors, current laws
    friction: Friction = Friction()  # terms of every joint, and others
    parameters: dict[Name, Finite] = {}  # values of rotors and friction by name
    assumed_zero: list[Name] = []  # standard parameters that a source leaves out
    tool: Tool = Tool()  # the tool's frame
    payload: Payload | None = None  # what the tool always carries: part of the arm
    frame: list[NamedFrame] = []  # further named frames
    capsule: list[Capsule] = []  # collision volumes
    ignored_pair: list[IgnoredPair] = []  # parts that need not be kept apart
    controllers: dict[Name, Controller] = {}  # axes as pendants show them, by target
    declared_base: PublishedParameters | None = None  # a paper's base parameters, to be checked


def sentences(errors: list[Any], model: type[BaseModel] | None = None) -> list[str]:
    """Turn pydantic's errors into sentences, each starting with its key path; one sentence a key.

    With the model that was read into, misspelt keys are answered with the nearest valid one.
    """
    messages: dict[str, str] = {}
    for error in errors:
        hint = ""
        if error["type"] == "extra_forbidden" and model is not None:
            hint = did_you_mean(error["loc"][-1], _keys(error["loc"], model))
        elif error["type"] == "literal_error":
            hint = did_you_mean(error["input"], re.findall("'([^']*)'", error["ctx"]["expected"]))
        messages.setdefault(_key_path(error["loc"]), _sentence(error) + hint)
    return [f"{path}: {sentence}" for path, sentence in messages.items()]


def _keys(loc: tuple[str | int, ...], model: type[BaseModel]) -> list[str]:
    """List the keys of the table at a path."""
    kind: Any = model
    for part in loc[:-1]:
        if isinstance(kind, type) and issubclass(kind, BaseModel) and part in kind.model_fields:
            kind = kind.model_fields[str(part)].annotation
        inner = [kind]
        while inner and not (isinstance(inner[0], type) and issubclass(inner[0], BaseModel)):
            inner = [*get_args(inner[0]), *inner[1:]]
        kind = inner[0] if inner else None
    return [] if kind is None else list(kind.model_fields)


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


def number(text: str, constants: Mapping[str, float] | None = None) -> float:
    """Read a number: digits, fractions, products, named constants. ValueError states the fault and its position."""
    return _Reader(text, constants or {}, frozenset()).read().get(_CONSTANT, 0.0)


def combination(text: str, names: frozenset[str], constants: Mapping[str, float] | None = None) -> Terms:
    """Read a linear combination of names: {name: factor}."""
    terms = _Reader(text, constants or {}, names).read()
    if terms.pop(_CONSTANT, 0.0) != 0.0:
        raise ValueError(f"{text!r} has a constant term; every term needs one parameter")
    return {name: factor for name, factor in terms.items() if factor != 0.0}


class _Reader:
    def __init__(self, text: str, constants: Mapping[str, float], names: frozenset[str]) -> None:
        if len(text) > LONGEST:
            raise ValueError(f"the expression is {len(text)} characters long, expected at most {LONGEST}")
        self.text, self.constants, self.names = text, constants, names
        self.tokens = [match for match in _TOKEN.finditer(text.rstrip()) if match.group().strip()]
        self.at = 0
        self.depth = 0

    def read(self) -> Terms:
        if not self.tokens:
            raise ValueError("the expression is empty")
        terms = self.sum()
        if self.at < len(self.tokens):
            raise self.wrong("an operator or the end")
        if not all(math.isfinite(factor) for factor in terms.values()):
            raise ValueError(f"{self.text!r} is too large")
        return terms

    def sum(self) -> Terms:
        terms = self.product()
        while self.peek() in ("+", "-"):
            for name, factor in self.product().items():
                terms[name] = terms.get(name, 0.0) + factor
        return terms

    def product(self) -> Terms:
        terms = self.factor()
        while self.peek() not in ("", "+", "-", ")"):
            divide = self.peek() == "/"
            if self.peek() in ("*", "/"):
                self.next()
            terms = self.quotient(terms, self.factor()) if divide else self.times(terms, self.factor())
        return terms

    def factor(self) -> Terms:
        sign = 1.0
        while self.peek() in ("+", "-"):
            sign = -sign if self.next() == "-" else sign
        return _scale(self.power(), sign)

    def power(self) -> Terms:
        terms = self.atom()
        if self.peek() == "^":
            self.next()
            token = self.next()
            base = _plain(terms)
            if base is None or token not in _POWERS:
                raise ValueError(f"{self.text!r}: ^ takes a number or length to a whole power up to 9")
            terms = {_CONSTANT: math.prod([base] * int(token))}
        return terms

    def atom(self) -> Terms:
        token = self.next()
        if token == "(":
            self.depth += 1
            if self.depth > 50:
                raise ValueError(f"{self.text[:40]!r}…: parentheses nest deeper than 50")
            terms = self.sum()
            if self.next() != ")":
                raise ValueError(f"{self.text!r}: a parenthesis is not closed")
            self.depth -= 1
            return terms
        if token[:1] in _DIGITS or (token[:1] == "." and token != "."):
            return {_CONSTANT: float(token)}
        if token in self.constants:
            return {_CONSTANT: self.constants[token]}
        if token in self.names:
            return {token: 1.0}
        self.at -= 1
        names = ", ".join([*self.constants, *sorted(self.names)][:8]) or "no names here"
        raise self.wrong(f"a number, a parenthesis or a known name ({names})")

    def times(self, left: Terms, right: Terms) -> Terms:
        for a, b in ((left, right), (right, left)):
            factor = _plain(b)
            if factor is not None:
                return _scale(a, factor)
        raise ValueError(f"{self.text!r} multiplies parameters with each other; expected a linear combination")

    def quotient(self, left: Terms, right: Terms) -> Terms:
        divisor = _plain(right)
        if divisor is None or divisor == 0.0:
            raise ValueError(f"{self.text!r} divides by something that is not a number other than 0")
        return _scale(left, 1.0 / divisor)

    def peek(self) -> str:
        return self.tokens[self.at].group().strip() if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def wrong(self, expected: str) -> ValueError:
        if self.at >= len(self.tokens):
            return ValueError(f"{self.text!r} ends where {expected} was expected")
        column = self.tokens[self.at].end() - len(self.peek()) + 1
        return ValueError(f"{self.text!r} has {self.peek()!r} at column {column}, expected {expected}")


def _scale(terms: Terms, factor: float) -> Terms:
    return {name: factor * value for name, value in terms.items()}


def _plain(terms: Terms) -> float | None:
    return terms.get(_CONSTANT, 0.0) if set(terms) <= {_CONSTANT} else None
