"""Targets: a controller's capabilities as data, and the map from joints to its axes.

The result of a program on a virtual clock is an `Execution`: commands, points or way-points, marks, and the reason of a
halt. Names, comments and numbers are made safe for any program. Table times begin every part of a run with a point.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from excitor.design.motion import Run
from excitor.design.programs.plan import MARKS, Plan, StretchName, marks
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import ControllerAxes, Robot

if TYPE_CHECKING:
    from jinja2 import Environment

# evaluated at servo rate; time-stamped table; way-points, time only approximate; torques, which nothing leads anywhere
# unverified: nothing runs its programs before they are loaded
Timing = Literal["A", "B", "C", "unverified motion", "unverified"]
Refusal = Literal["override", "mode", "home", "payload", "drive", "cycle", "logger", "axes"]

_JOINED = 1e-9  # rad or m: how far apart the end of a way and the start of its run may be


class CannotDrive(ExcitorError):
    """A controller that cannot run what is planned, with the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold, with the last value that is good; what follows in motion where it is broken, and how soon."""

    limit: float
    unit: Literal["%", "deg", "kg", "packets", "ms", "s", "flag"] = "flag"  # packets in a row; a flag is 0 where good
    does: Literal["", "slows", "ends"] = ""  # slows down along the path; or commands no more: the controller stops
    within: float = 0.0  # s until that begins
    says: str = ""  # for the operator's page
    counts: Sequence[int] = ()  # lost control steps that it notices, among how many, and after how many it counts anew

    @property
    def sides(self) -> tuple[float, float]:
        """A value just inside of the limit, and one just outside; sliders and counters know whole numbers."""
        if self.unit == "%":
            return self.limit, self.limit - 1.0
        if self.unit in ("packets", "ms", "flag"):
            return self.limit, self.limit + 1.0
        off = 0.05 if self.unit in ("kg", "s") else 0.02  # a controller's own tool may weigh a gram, a cycle last 40 ms
        return (1.0 - off) * self.limit, (1.0 + off) * self.limit


AT_HOME = 0.5, 1.0  # deg, mm: how far from home an axis may be at the start
LOAD_SLACK = 0.05  # kg, between the payload that is planned and what the controller has been told
STARTS: Mapping[str, Condition] = {  # before anything moves, unless a target states its own
    "override": Condition(100.0, "%"),
    "mode": Condition(0.0),
    "home": Condition(AT_HOME[0], "deg"),
    "payload": Condition(LOAD_SLACK, "kg"),
    "drive": Condition(0.0),
    "cycle": Condition(0.0),
    "logger": Condition(0.0),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A controller's capabilities. Sentences are for the operator's page, in the order of doing."""

    name: str
    title: str
    timing: Timing
    scheme: str  # how the motion reaches the drives
    angle_unit: Literal["rad", "deg"]  # of axes; sliding ones are in m or mm accordingly
    sine_unit: Literal["rad", "deg"] | None  # of the language's own sine; None: it evaluates none
    decimals: int  # that positions are written with, in the unit of axes
    float_bits: Literal[32, 64]
    line_end: Literal["\n", "\r\n"] = "\n"
    encoding: str = "utf-8"
    longest_name: int = 32
    reserved: frozenset[str] = frozenset()  # lower case
    most_lines: int | None = None
    most_points: int | None = None
    joints: int | None = None  # that it drives; None: any number
    slides: bool = False  # whether joints may slide
    steps: tuple[float, ...] = ()  # s: control steps it may run at, all of them tried; none: the plan's own
    spacing: float | None = None  # s between the points of a table, by default; None: no table
    approximate: bool = False  # only with --approximate
    refuses: tuple[Refusal, ...] = ("override", "home")  # before anything moves, each proven by running the program
    marks: bool = False  # whether the program tells a logger which part of the run begins
    controller: str = ""  # key of [controllers.*] in robots' files; empty: the target's name
    clients: tuple[str, ...] = ()  # files of `excitor.design.programs.clients` that are given out beside the programs
    logs: tuple[str, ...] = ("csv", "npz")  # formats of its loggers; the first is the one that its page asks for
    needs: tuple[str, ...] = ()  # options and settings
    loading: tuple[str, ...] = ()
    logging: tuple[str, ...] = ()  # how logging starts, stops, and how the log comes back
    advice: str = ""  # what identification must do with what comes back
    assumed: str = ""  # what no public document says, and was taken for granted
    safety: str = "limits of speed, space and stopping"  # the controller's safety functions, as its maker calls them
    stop_s: float = 0.0  # s in which the program's own stop slows time down along its path; 0: the controller's stop
    makers: bool = False  # whether it drives its maker's arms alone, which state it under [controllers]
    poses: bool = False  # whether it writes a first run at reduced speed
    poses_allow: tuple[Refusal, ...] = ("override", "logger")  # what that program need not refuse
    first_run: str = ""  # what the operator must know of that program
    manual: bool = False  # whether its controller has a manual reduced mode, in which that program must run
    conditions: Mapping[str, Condition] = field(default_factory=dict)  # with thresholds of their own, or kept in motion
    settings: Mapping[str, Any] = field(default_factory=dict)  # what shapes the motion beside it; executors hold it
    limits: Callable[[Plan], Iterable[Any]] | None = None  # `LimitLine`s that the controller itself enforces
    stop_braking: float = 0.0  # rad/s2: longer, where the fastest joint would otherwise slow down by more; 0: never

    def condition(self, name: str) -> Condition:
        """Find a condition of the program, by name."""
        return self.conditions.get(name) or STARTS[name]


def stated(file: str, name: str, **own: Any) -> Target:
    """Read a target from a data file of this folder; `own`: what its module computes."""
    data = tomllib.loads(file_text(file))[name]
    data |= {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    reserved = frozenset(data.get("reserved", "").split())
    conditions = {key: Condition(**value) for key, value in data.get("conditions", {}).items()}
    return Target(**{"name": name, "sine_unit": None, **data, "reserved": reserved, "conditions": conditions, **own})


@cache
def file_text(file: str) -> str:
    """Read a file of this folder: a description, a template, a client."""
    return resources.files("excitor.design.programs").joinpath(*file.split("/")).read_text("utf-8")


class Emitter(Protocol):
    """A module of `targets`: writes the files of one program; their names start with the program's own."""

    TARGET: Target

    def emit(self, plan: Plan, name: str, spacing: float | None) -> Mapping[str, str]:
        """Write a program called `name`, already safe in the language; file names -> texts with the target's ends."""


def axes_of(robot: Robot, target: Target) -> ControllerAxes:
    """Return a controller's axes as the robot's file states them; where it states none, axes are the joints."""
    stated = robot.controllers.get(target.controller or target.name)
    if stated is not None:
        return stated
    n = robot.n_joints
    return ControllerAxes(target.name, robot.joint_names, np.eye(n), np.zeros(n))


def units(robot: Robot, target: Target) -> FloatArray:
    """Compute the controller's units per rad or m, (n_joints,)."""
    if target.angle_unit == "rad":
        return np.ones(robot.n_joints)
    return np.where(robot.mechanism.prismatic, 1e3, 180.0 / np.pi)


def to_axes(robot: Robot, target: Target, q: FloatArray, order: int = 0) -> FloatArray:
    """Map joint positions (order 0) or their derivatives, (..., n_joints), to the controller's axes in its units.

    A sliding joint shares no axis with a turning one, so that units stay with the rows.
    """
    axes = axes_of(robot, target)
    return np.asarray((q @ axes.matrix.T + (axes.zero if order == 0 else 0.0)) * units(robot, target))


def from_axes(robot: Robot, target: Target, axes: FloatArray, order: int = 0) -> FloatArray:
    """Map the controller's axes back to joints, (..., n_joints)."""
    stated = axes_of(robot, target)
    values = np.asarray(axes) / units(robot, target) - (stated.zero if order == 0 else 0.0)
    return np.asarray(np.linalg.solve(stated.matrix, values.T).T)


def in_axes(plan: Plan, target: Target) -> Plan:
    """Rewrite a plan's motion in the controller's axes and units, in which it is linear."""

    def mapped(run: Run) -> Run:
        return run.mapped(lambda x, order: to_axes(plan.robot, target, x, order), axes_of(plan.robot, target).names)

    return replace(plan, out=mapped(plan.out), body=mapped(plan.body))


def check(plan: Plan, target: Target) -> None:
    """Refuse a robot that the controller cannot drive, and times that are no whole number of its steps."""
    robot, hint = plan.robot, ", or hold joints: moving = [...] in the robot's file"
    if target.joints is not None and robot.n_joints != target.joints:
        raise CannotDrive(
            f"{target.name}: {robot.name} has {robot.n_joints} joints, {target.title} drives {target.joints}; "
            f"choose another target, such as csv, ros2 or twincat{hint * (robot.n_joints > target.joints)}"
        )
    sliding = [name for name, slides in zip(robot.joint_names, robot.mechanism.prismatic, strict=True) if slides]
    if sliding and not target.slides:
        raise CannotDrive(
            f"{target.name}: {', '.join(sliding)} of {robot.name} slides, {target.title} programs turn joints only; "
            "choose another target, such as csv, ros2 or twincat"
        )
    begin = plan.body.end if plan.body.series is None else plan.body.series.center
    if np.abs(plan.start - begin).max() > _JOINED:
        raise CannotDrive(f"{target.name}: run {plan.run!r} does not begin where its way from home ends; design again")
    if target.spacing is None:
        _check_steps(plan, target)


def _check_steps(plan: Plan, target: Target) -> None:
    fitting = [step for step in target.steps or (plan.sample_time,) if _fits(plan, step)]
    if not fitting:
        steps = " or ".join(f"{1e3 * step:g}" for step in target.steps)
        raise CannotDrive(
            f"{target.name}: times of run {plan.run!r} are no whole numbers of the controller's steps of {steps} ms; "
            f"set design.controller_sample_s = {(target.steps or (plan.sample_time,))[-1]:g} and design again"
        )


def fitting_steps(plan: Plan, target: Target) -> tuple[float, ...]:
    """List the control steps of a target of which all times of a plan are whole multiples."""
    return tuple(step for step in target.steps or (plan.sample_time,) if _fits(plan, step))


def _fits(plan: Plan, step: float) -> bool:
    segments = [*plan.out.segments, *plan.body.segments]
    n = np.array([*(span for one in segments for span in one.turns), plan.body.duration]) / step
    return bool((np.abs(n - n.round()) < 1e-6 * np.maximum(1.0, n)).all())


Kind = Literal["commands", "points", "way-points"]


class ProgramError(ExcitorError):
    """A program that does not run: which file, which line, what is wrong."""

    def __init__(self, file: str, line: int | None, sentence: str) -> None:
        self.file, self.line, self.sentence = file, line, sentence
        super().__init__(f"{file}{'' if line is None else f', line {line}'}: {sentence}")


def file_in(files: Mapping[str, str], file: str) -> str:
    """Find a file of a program."""
    if file not in files:
        raise ProgramError(file, None, "is missing: there is no such file")
    return files[file]


@dataclass(frozen=True, slots=True)
class Event:
    """A condition's value that is met from a time of a stretch on, or before anything moves."""

    name: str
    value: float
    after: float = 0.0  # s into the stretch
    stretch: StretchName | Literal["start"] = "main"


@dataclass(frozen=True, eq=False, slots=True)
class Machine:
    """State of the controller that a program runs on; axes in its own units."""

    axes: FloatArray  # (n_axes,): where the robot stands
    step: float  # s, of control
    override: float = 1.0  # of speed: the slider, a share
    automatic: bool = True  # in the mode that the program needs
    payload: float = 0.0  # kg, that the controller has been told
    names: tuple[str, ...] = ()  # of its axes, where the language speaks of names
    longest: float = 1e5  # s of virtual time after which a program counts as endless
    top: FloatArray | None = None  # (n_axes,), per s: speeds of axes at 100 %; None: unknown
    rise: FloatArray | None = None  # (n_axes,), per s2: their accelerations
    events: tuple[Event, ...] = ()  # beside the state above
    settings: Mapping[str, Any] = field(default_factory=dict)  # what the target's record states

    def __post_init__(self) -> None:
        freeze(self, axes="n_axes")

    def strange(self, name: str, value: Any) -> str:
        """Say that a setting is not the one that the target's record states; empty without a record."""
        if self.settings and name not in self.settings:
            return f"{name} is set to {value}, the target's record states none"
        stated = self.settings.get(name, value)
        same = stated == value
        if isinstance(stated, int | float) and isinstance(value, int | float):
            same = abs(stated - value) <= 1e-6 * abs(stated)  # as a controller's single precision has it
        return "" if same else f"{name} is {value}, the target's record states {stated}"

    def at_start(self, name: str) -> float:
        """Value of a condition before anything moves; 0 where nothing is said."""
        return next((event.value for event in self.events if event.name == name and event.stretch == "start"), 0.0)


class Mishaps:
    """Events of a program's motion, each handed out once, when it is due."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.waiting = [event for event in events if event.stretch != "start"]

    def due(self, stretch: str, t: float) -> list[Event]:
        """List the events that are due t seconds into a stretch and have not been handed out."""
        found = [event for event in self.waiting if event.stretch == stretch and t >= event.after - 1e-9]
        if not found:
            return found
        self.waiting = [event for event in self.waiting if event not in found]
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """Motion from rest to rest. Times in s from its start; axes in the controller's units.

    Commands are set points of every control step, points of a table are passed at their times, way-points are
    joined by lines whose times only the controller knows (t is then the program's own estimate, or counts them).
    Tables and way-points list the pose at which the segment begins as well, at t = 0.
    """

    name: StretchName
    kind: Kind
    t: FloatArray  # (n,)
    axes: FloatArray  # (n, n_axes)
    rates: FloatArray | None = None  # (n, n_axes), where the program states them: per s
    accelerations: FloatArray | None = None
    interpolation: str = ""  # of points: "quintic", "cubic", "spline", "blend"
    stops: FloatArray | None = None  # s: when way-points are not passed, but stopped at; None: unknown

    def __post_init__(self) -> None:
        sizes = freeze(self, t="n", axes="n n_axes")
        shape = f"{sizes['n']} {sizes['n_axes']}"
        if self.rates is not None:
            freeze(self, rates=shape)
        if self.accelerations is not None:
            freeze(self, accelerations=shape)


@dataclass(frozen=True, eq=False, slots=True)
class Execution:
    """Result of a program's execution: motion segments, marks, events, and the reason of a halt."""

    stretches: tuple[Stretch, ...]
    marks: tuple[tuple[float, int], ...] = ()  # s from the main stretch's start, mark
    events: tuple[str, ...] = ()  # in order: "log on", "log off", "out", "main", "back"
    halted: str = ""  # the message with which it refused to go on; empty where it ran to its end


class Executor(Protocol):
    """A module of `checks`: runs the files of one program, or raises ProgramError."""

    def execute(self, files: Mapping[str, str], name: str, machine: Machine) -> Execution:
        """Run the program called `name`; `files` are its files and the target's shared ones, by name."""


DRY, POSES = "_dry", "_pos"  # after the name of a run
ENDINGS = (DRY, POSES, "_out", "_main", "_back")  # of the files of one program: no program's name has them
PREFIX = "ex_"  # of every name in a program: none of ours is a word of the language


UNPROVEN, HEAD = "UNVERIFIED PROGRAM", 500  # stated in so many letters at the head of each file that nothing runs
NO_GO = "NO-GO DESIGN EMITTED ON PURPOSE"  # short enough for the remarks of every controller


def no_go_lines(plan: Plan, mark: str = "", end: str = "") -> list[str]:
    """Comment lines for the head of a file that the design is a no-go; empty where it is not."""
    return [f"{mark}{NO_GO}{end}"] if plan.no_go else []


def program_names(runs: Iterable[str], target: Target) -> list[str]:
    """Make names of runs safe and different in the target's language; room is left for a suffix of four letters."""
    made: list[str] = []
    for run in runs:
        name = safe_name(run, target.longest_name - 4, target.reserved)
        if name.endswith(ENDINGS):  # of the files of another program
            name = name[: target.longest_name - 8] + "_run"
        k = 2
        while name.lower() in (other.lower() for other in made):
            tail = f"_{k}"
            name = safe_name(run, target.longest_name - 4 - len(tail), target.reserved) + tail
            k += 1
        made.append(name)
    return made


def safe_name(text: str, longest: int, reserved: Collection[str] = ()) -> str:
    """Keep a to z, 0 to 9 and single underscores of a name, which begins with a letter and is no reserved word."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[: max(1, longest)].strip("_")
    if not name or not name[0].isalpha() or name in reserved:
        name = (PREFIX + name)[: max(len(PREFIX), longest)].strip("_")
    return name


def comment(text: str, longest: int = 100) -> str:
    """Keep letters, digits and harmless marks of a text: no quote, bracket, line end or escape survives."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    harmless = re.sub(r"[^A-Za-z0-9 .,:+=_/-]", " ", plain)
    return re.sub(r"\s+", " ", re.sub(r"--+|//+", " ", harmless)).strip()[:longest]


def fixed(value: float, decimals: int) -> str:
    """Write a number with a fixed count of decimals, never as -0."""
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def precise(value: float, digits: int = 17) -> str:
    """Write a number so that it reads back; always with a decimal point, which some languages want in a real."""
    text = f"{float(value):.{digits}g}"
    if "e" in text:
        head, exponent = text.split("e")
        return f"{head if '.' in head else head + '.0'}e{int(exponent)}"
    return text if "." in text else f"{text}.0"


def rounded(values: FloatArray, decimals: int) -> FloatArray:
    """Round as `fixed` writes."""
    return np.array([float(fixed(float(x), decimals)) for x in np.ravel(values)]).reshape(np.shape(values))


_NUMBERED = re.compile(
    r"(?<!\w)(?:(R)\[19([6-9])|(PR|F)\[99|([Oo]utput integer register|output_int_register_|--register) ?24)"
)


def site_numbers(text: str, site: Mapping[str, Any]) -> str:
    """Put the numbers of registers and flags that [site] states for R[196] to R[199], PR[99], F[99] and UR's 24."""

    def number(found: re.Match[str]) -> str:
        if found[1]:
            return f"R[{site.get('first_register', 196) + int(found[2]) - 6}"
        if found[3]:
            return f"{found[3]}[{site.get('position_register' if found[3] == 'PR' else 'flag', 99)}"
        gap = "" if found[4].endswith("_") else " "
        return f"{found[4]}{gap}{site.get('mark_register', 24)}"

    return _NUMBERED.sub(number, text)


def filled(file: str, values: Mapping[str, Any]) -> list[str]:
    """Fill in a template of this folder, with the marks and other values; return its lines."""
    return _templates().get_template(file).render({**MARKS, **values}).splitlines()


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    loader = FunctionLoader(file_text)
    return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def part_edges(plan: Plan, stretch: StretchName) -> FloatArray:
    """Start times of the parts of a segment, and the end of the last one, (n_parts + 1,), s."""
    if stretch == "main":
        return np.array([t for t, _ in marks(plan)] + [plan.stretch(stretch).duration])
    return plan.stretch(stretch).edges


_PER_LINE = 24  # points of a line of a first run, on which no time matters


def table_times(plan: Plan, stretch: StretchName, spacing: float) -> FloatArray:
    """Divide every part evenly, into steps of at most `spacing` s, or lines of a first run; from 0, (n_points,)."""
    edges = part_edges(plan, stretch)
    parts = []
    for start, end in pairwise(edges):
        n = _PER_LINE if plan.poses else max(1, int(np.ceil((end - start) / spacing - 1e-9)))
        parts.append(start + np.arange(n) * ((end - start) / n))
    return np.concatenate([*parts, edges[-1:]])
