"""What a controller can do, as data; and how joints become the axes that it knows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from excitor.design.fourier import Trajectory
from excitor.design.programs.plan import Move, Plan, Rounds, Stretches, duration
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import ControllerAxes, Robot

Timing = Literal["A", "B", "C"]  # evaluated at servo rate; time-stamped table; way-points, time only approximate
Refusal = Literal["override", "mode", "home", "payload"]


_JOINED = 1e-9  # rad or m: how far apart the end of a way and the start of its run may be


class CannotDrive(ExcitorError):
    """A controller that cannot run what is planned, with the reason and the remedy."""


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
    needs: tuple[str, ...] = ()  # options and settings
    loading: tuple[str, ...] = ()
    logging: tuple[str, ...] = ()  # how logging starts, stops, and how the log comes back
    advice: str = ""  # what identification must do with what comes back
    assumed: str = ""  # what no public document says, and was taken for granted


class Emitter(Protocol):
    """A module of `targets`: writes the files of one program; their names start with the program's own."""

    TARGET: Target

    def emit(self, plan: Plan, name: str, spacing: float | None) -> Mapping[str, str]:
        """Write a program called `name`, already safe in the language; file names -> texts with the target's ends."""


def axes_of(robot: Robot, target: Target) -> ControllerAxes:
    """Take a controller's axes from the robot's file; where it has none, axes are the joints."""
    stated = robot.controllers.get(target.controller or target.name)
    if stated is not None:
        return stated
    n = robot.n_joints
    return ControllerAxes(target.name, robot.joint_names, np.eye(n), np.zeros(n))


def units(robot: Robot, target: Target) -> FloatArray:
    """How many of the controller's units make a rad or a m, (n_joints,)."""
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
    """Rewrite a plan's positions in the controller's axes and units; everything in a plan is linear in them."""

    def moves(given: tuple[Move, ...]) -> tuple[Move, ...]:
        return tuple(replace(move, to=to_axes(plan.robot, target, move.to)) for move in given)

    body: Trajectory | Rounds
    if isinstance(plan.body, Trajectory):
        waves = (to_axes(plan.robot, target, x.T, order=1).T for x in (plan.body.sines, plan.body.cosines))
        body = Trajectory(plan.body.excitation, to_axes(plan.robot, target, plan.body.center), *waves)
    else:
        body = replace(plan.body, moves=moves(plan.body.moves))
    return replace(plan, home=to_axes(plan.robot, target, plan.home), out=moves(plan.out), body=body)


def check(plan: Plan, target: Target) -> None:
    """Refuse a robot that the controller cannot drive, and times that are no whole number of its steps."""
    robot = plan.robot
    if target.joints is not None and robot.n_joints != target.joints:
        raise CannotDrive(
            f"{target.name}: {robot.name} has {robot.n_joints} joints, {target.title} drives {target.joints}; "
            "choose another target, such as csv, ros2 or twincat"
        )
    sliding = [name for name, slides in zip(robot.joint_names, robot.mechanism.prismatic, strict=True) if slides]
    if sliding and not target.slides:
        raise CannotDrive(
            f"{target.name}: {', '.join(sliding)} of {robot.name} slides, {target.title} programs turn joints only; "
            "choose another target, such as csv, ros2 or twincat"
        )
    begin = plan.body.center if isinstance(plan.body, Trajectory) else plan.body.moves[-1].to
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
    times = [move.duration for name in Stretches if name != "main" for move in plan.moves(name)]
    if isinstance(plan.body, Trajectory):
        excitation = plan.body.excitation
        times += [excitation.period, excitation.ramp, excitation.settle, excitation.hold]
    else:
        times += [move.duration for move in plan.moves("main")]
    n = np.array([*times, duration(plan, "main")]) / step
    return bool((np.abs(n - n.round()) < 1e-6 * np.maximum(1.0, n)).all())
