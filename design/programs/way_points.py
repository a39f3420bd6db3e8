"""Motion as way-points for controllers without time stamps: the next pose, and the percentage of the top speeds.

The axis that needs longest goes at that percent of its top speed, and the others arrive with it. Way-points divide
every part of a run evenly, as those of a table. The times that follow from their speeds keep to the plan as well as
speeds can be written: where the plan is slower than the slowest one, the way begins later and ends earlier.

`WayRecorder` records a robot's motion from way-point to way-point, divided into segments by its logger.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.programs.plan import MEASURED, OUT, SETTLE, Plan, Stretches, StretchName
from excitor.design.programs.target import (
    CannotDrive,
    Execution,
    Machine,
    ProgramError,
    Stretch,
    Target,
    axes_of,
    in_axes,
    rounded,
    units,
)
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Robot

_STILL = 1e-3  # percent: below it, decimals of poses are all that moves


@dataclass(frozen=True, slots=True)
class Speeds:
    """The speeds and poses that a language can write."""

    top: FloatArray  # (n_axes,), at 100 %, per s
    decimals: int  # of a pose
    percent_decimals: int
    least: float  # percent


@dataclass(frozen=True, eq=False, slots=True)
class Leg:
    """Way-points after the pose that it begins at, `step` s apart."""

    poses: FloatArray  # (n, n_axes), rounded
    percents: FloatArray  # (n,)
    step: float
    pause: float  # s at rest before it sets out
    idle: float  # s at rest after it
    stops: bool  # comes to a full stop at its end


@dataclass(frozen=True, slots=True)
class Rest:
    """A stop."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Part:
    """Motion or stop that one mark denotes. Counted marks are `mark` + the number of counted parts so far."""

    mark: int
    body: Leg | Rest
    counted: bool = False


def top_speeds(robot: Robot, target: Target) -> FloatArray:
    """Top speed of each axis, at 100 %, (n_axes,), in the controller's units per s."""
    top, missing = tops(robot, target, robot.limits.velocity)
    if missing:
        raise CannotDrive(
            f"{target.name}: speeds are percents of the axes' own, and {robot.name} states none of {missing}; "
            "add velocity limits to the robot's file"
        )
    return top


def tops(robot: Robot, target: Target, limits: FloatArray) -> tuple[FloatArray, str]:
    """Map limits of joints to axes, (n_axes,), in the controller's units; name the joints that have none."""
    matrix = np.abs(axes_of(robot, target).matrix)
    diagonal = np.diag(matrix)
    share = np.where(diagonal > 0.0, diagonal, matrix.max(axis=1))
    joint = np.where(diagonal > 0.0, np.arange(len(matrix)), matrix.argmax(axis=1))
    top = share * limits[joint] * units(robot, target)
    return np.asarray(top), ", ".join(robot.joint_names[i] for i in joint[~np.isfinite(top)])


def way(plan: Plan, target: Target, speeds: Speeds, *, back: bool) -> tuple[Leg | Rest, ...]:
    """Make the way out or back: a single move for every line."""
    axes = in_axes(plan, target)
    legs: list[Leg | Rest] = [
        _leg(np.array([move.origin, move.goal]), move.duration, speeds, starts=True, stops=True)
        for move in (axes.back if back else axes.out).moves
    ]
    for leg in legs:
        _not_too_fast(leg, plan, target)
    return tuple(legs)


def rounds(plan: Plan, target: Target, speeds: Speeds, spacing: float) -> tuple[Part, ...]:
    """Make one round of a body that consists of moves."""
    axes = in_axes(plan, target)
    parts = []
    for move in axes.body.repeats()[0]:
        times = _times(move.duration, spacing)
        leg = _leg(move.at(times), move.duration, speeds, starts=True, stops=True)
        if isinstance(leg, Leg) and leg.percents.max() <= speeds.least and leg.pause + leg.idle > 0.0:
            raise CannotDrive(
                f"{target.name}: run {plan.run!r} has moves slower than {speeds.least:g} % of the top speeds, "
                "which this language cannot write; choose fanuc-j519, csv or another target"
            )
        _not_too_fast(leg, plan, target)
        parts.append(Part(MEASURED if move.measured else SETTLE, leg, move.measured))
    return tuple(parts)


def series_legs(plan: Plan, target: Target, speeds: Speeds, spacing: float) -> tuple[Leg | None, Leg, Leg | None]:
    """Make the ramp into the series, one period, and the ramp out of it; no ramps where the plan has none."""
    e = plan.body.excitation
    full = e.settle + e.ramp
    ramps = e.ramp > 0.0
    one = _piece(plan, target, speeds, (full, e.period, spacing), starts=False, stops=False)
    if not ramps:
        return None, one, None
    leave = full + (e.warm_up + e.measured) * e.period
    into = _piece(plan, target, speeds, (e.settle, e.ramp, spacing), starts=True, stops=False)
    return into, one, _piece(plan, target, speeds, (leave, e.ramp, spacing), starts=False, stops=True)


def _piece(
    plan: Plan, target: Target, speeds: Speeds, span: tuple[float, float, float], *, starts: bool, stops: bool
) -> Leg:
    """Build a segment of the series; `span`: its begin, its duration and the spacing, s."""
    axes = in_axes(plan, target)
    begin, T, spacing = span
    leg = _leg(axes.body.at(begin + _times(T, spacing)), T, speeds, starts=starts, stops=stops)
    if isinstance(leg, Rest) or leg.percents.max() <= max(speeds.least, _STILL):
        raise CannotDrive(
            f"{target.name}: run {plan.run!r} moves less or slower than this language can state; choose another target"
        )
    _not_too_fast(leg, plan, target)
    return leg


def _times(T: float, spacing: float) -> FloatArray:
    return np.linspace(0.0, T, max(1, int(np.ceil(T / spacing - 1e-9))) + 1)


def _not_too_fast(leg: Leg | Rest, plan: Plan, target: Target) -> None:
    if isinstance(leg, Leg) and leg.percents.max() > 100.0:
        raise CannotDrive(f"{target.name}: run {plan.run!r} needs {leg.percents.max():.0f} % of the top speeds")


def _leg(poses: FloatArray, T: float, speeds: Speeds, *, starts: bool, stops: bool) -> Leg | Rest:
    """Choose the speed of every way so that late and early arrivals do not add up."""
    q = rounded(poses, speeds.decimals)
    seconds = 100.0 * (np.abs(np.diff(q, axis=0)) / speeds.top).max(axis=1)  # at 1 %
    if not seconds.any():
        return Rest(T)
    step = T / len(seconds)
    slow, pause = _slow_start(seconds, step, speeds) if starts else (0, 0.0)
    clock, percents = pause, np.full(len(seconds), speeds.least)
    for k, way_time in enumerate(seconds):
        if k >= slow:
            late = min(max(clock - k * step, -0.5 * step), 0.5 * step) if speeds.percent_decimals == 0 else 0.0
            fitting = round(way_time / step, speeds.percent_decimals)  # one percent off is enough to catch up
            percent = min(max(round(way_time / (step - late), speeds.percent_decimals), fitting - 1.0), fitting + 1.0)
            percents[k] = max(percent, speeds.least)
        clock += way_time / percents[k]
    return Leg(q[1:], percents, step, pause, max(T - clock, 0.0) if stops else 0.0, stops)


def _slow_start(seconds: FloatArray, step: float, speeds: Speeds) -> tuple[int, float]:
    """Count the first ways for which the slowest speed is too fast; return that and the delay of the start, s."""
    spare = step - seconds / speeds.least
    fast = np.flatnonzero(spare <= 0.0)
    slow = int(fast[0]) if fast.size else 0
    return slow, float(spare[:slow].sum())


SHORTEST = 1e-9  # s
_MOST = 200_000  # corners of a stretch


class WayRecorder:
    """Corners, marks and events; all times are those that count, in s."""

    def __init__(self, file: str, machine: Machine) -> None:
        self.file, self.machine = file, machine
        self.pose = machine.axes.astype(float)
        self.corners: list[tuple[float, FloatArray]] = [(0.0, self.pose)]  # of the present stretch
        self.stretch = 0
        self.opened: float | None = None  # since when the present stretch goes on
        self.stretches: list[Stretch] = []
        self.marks: list[tuple[float, int]] = []
        self.events: list[str] = []
        self.messages: list[str] = []

    def go(self, begin: float, end: float, to: FloatArray) -> None:
        """Go from where the robot is to the next way-point."""
        self.opened = begin if self.opened is None else self.opened
        self._corner(begin)
        self.corners.append((max(end, begin), to))
        self.pose = to
        if len(self.corners) > _MOST:
            raise ProgramError(self.file, None, f"the program makes more than {_MOST} moves; it does not end")
        if end > self.machine.longest:
            raise ProgramError(self.file, None, f"the program takes more than {self.machine.longest:g} s")

    def mark(self, at: float, value: float, *, resting: bool) -> None:
        """Record marks of the main segment; others start the way out or back."""
        if self.stretch == 0 and value == OUT:
            self.corners, self.opened = [(at, self.pose)], at
        self.opened = at if self.opened is None else self.opened
        if self.stretch == 1:
            self.marks.append((at - self.opened, int(value)))
            if resting:
                self._corner(at)

    def log(self, at: float, on: bool) -> None:
        """Begin or end the main segment."""
        if self.stretch != (0 if on else 1):
            return
        self._close(at)
        self.events.append("log on" if on else "log off")
        self.opened = at if on else None

    def execution(self, at: float) -> Execution:
        """Return the execution; the first message is a refusal where nothing moved."""
        self._close(at)
        halted = "" if self.stretches or not self.messages else self.messages[0]
        return Execution(tuple(self.stretches), tuple(self.marks), tuple(self.events), halted)

    def _corner(self, at: float) -> None:
        if at > self.corners[-1][0] + SHORTEST:
            self.corners.append((at, self.pose))

    def _close(self, at: float) -> None:
        name: StretchName = Stretches[min(self.stretch, 2)]
        if name == "main":
            self._corner(at)
        self.stretch += 1
        corners, self.corners = self.corners, [(at, self.pose)]
        if len(corners) == 1 or self.opened is None:
            return
        t = np.array([corner[0] for corner in corners]) - self.opened
        t[0] = 0.0
        poses = np.array([corner[1] for corner in corners])
        self.stretches.append(Stretch(name, "way-points", t, poses, interpolation="blend"))
        self.events.append(name)


def check_speed(percent: float, seconds: float, stated: float, tolerance: float) -> None:
    """Refuse a speed that does not fit to the stated time of a way that it makes in `seconds`."""
    fitting = percent * seconds / stated
    if abs(fitting - percent) > tolerance:
        raise ValueError(f"a speed of {percent:g} % does not fit to a way of {stated:g} s, {fitting:.3g} % would")


def check_tops(file: str, stated: FloatArray | None, machine: Machine) -> None:
    """Refuse speeds of axes at 100 %, by which a program tells its times, that are not the robot's."""
    if stated is not None and machine.top is not None and np.abs(stated / machine.top - 1.0).max() > _TOPS:
        k = int(np.argmax(np.abs(stated / machine.top - 1.0)))
        raise ProgramError(file, None, f"axis {k + 1} makes {stated[k]:g} at 100 %, the robot {machine.top[k]:g}")


_TOPS = 1e-6  # share
