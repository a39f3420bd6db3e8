"""Log formats of each target: vendors' formats as data, and the [log] declarations of campaign.toml for them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from types import MappingProxyType
from typing import Literal

import numpy as np

from excitor.design.programs.registry import target as target_of
from excitor.design.programs.target import Target, axes_of
from excitor.identify.currents import LAW_NEEDED, why_not
from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot


class CannotLog(ExcitorError):
    """A robot whose drives lack the signals of a log format."""


EFFORT = "effort"  # a column's heading: the channels of the effort that is written
# What drives tell: motors' currents; torques at the motors; those brought to the joints by the gears; sensors there.
Effort = Literal["current", "motor torque", "joint torque", "torque sensor"]


@dataclass(frozen=True, slots=True)
class Format:
    """A logger's format. Patterns of channels hold {axis}, its number {k} from 1, {j} from 0, or {m}: n_joints + k."""

    name: str
    title: str  # of the logger, for sentences
    reader: str  # as `excitor.identify.logs.read` calls it
    position: str  # channels of measured positions, as the reader names them
    efforts: Mapping[Effort, str] = field(default_factory=dict)  # the first that a robot has is written
    suffix: str = ".csv"  # after the program's name: of the file or folder that is handed to the reader
    whole: bool = True  # ways out and back are logged too
    lead: float = 0.3  # s logged before and after the run, where they are not
    even: bool = False  # the file has no time stamps that could tell jitter
    marks: bool = True
    step: float | None = None  # s between rows; None: the controller's own
    per_mille: bool = False  # torques are in thousandths of `rated_torque`
    time: str | None = None  # the column of time, where the reader does not know it
    columns: Sequence[tuple[str, str, str] | tuple[str, str, str, float]] = ()  # heading, cell, quantity, its offset
    separator: str = ","
    end: str = "\n"  # of a line


_TABLES = tomllib.loads((resources.files("excitor.experiments") / "log_formats.toml").read_text("utf-8"))
FORMATS: Mapping[str, Format] = MappingProxyType({name: Format(name, **table) for name, table in _TABLES.items()})


def format_of(target: str, name: str | None = None) -> Format:
    """Return a target's log format; by default the first of the target's formats."""
    known = target_of(target).logs
    if name is not None and name not in known:
        raise ExcitorError(f"{target}: has no log format {name!r}; it has {', '.join(known)}")
    return FORMATS[name or known[0]]


def refusal(target: str, robot: Robot, name: str | None = None) -> str:
    """Return why a target's logs of a robot cannot give a model; empty where they can."""
    try:
        promised_effort(target, format_of(target, name), robot)
    except CannotLog as error:
        return str(error)
    return ""


def remark(target: str, robot: Robot) -> str:
    """Say what is wrong with a target's logs, or what comes of currents without a law; empty where all is well."""
    wrong = refusal(target, robot)
    if wrong or not in_amperes_of(target, None, robot):
        return wrong
    return (
        f"{robot.name} has no current law: currents are logged and identified in A, relative to one drive's; masses, "
        f"inertias, torques and physical consistency are not claimed. For those {LAW_NEEDED}"
    )


def declared_for(target: str, robot: Robot, name: str | None = None) -> dict[str, object]:
    """Write the [log] table of campaign.toml for a target's logs; CannotLog where they hold no torque.

    What is read is along the controller's axes, as of real logs; programs/TARGET/manifest.json defines them.
    """
    form = format_of(target, name)
    return declared(form, target_of(target), robot, promised_effort(target, form, robot))


def in_amperes_of(target: str, name: str | None, robot: Robot) -> bool:
    """Whether a target's log is of currents without a law."""
    return not robot.drive.has_current_law and promised_effort(target, format_of(target, name), robot) == "current"


def promised_effort(target: str, form: Format, robot: Robot) -> Effort:
    """Choose the drive signal of a virtual robot's log; sensors at joints only where nothing else is logged."""
    for kind in form.efforts:
        if kind in ("motor torque", "joint torque") or (kind == "current" and robot.drive.has_current_law):
            return kind
    if "torque sensor" in form.efforts:
        return "torque sensor"
    if "current" in form.efforts and not why_not(robot):
        return "current"  # A for want of a law
    raise lacking_effort(target, form, robot)


def lacking_effort(target: str, form: Format, robot: Robot) -> CannotLog:
    """Describe the drive signal that a format needs and a robot does not have."""
    others = "choose another target, such as csv"
    if not form.efforts:
        sentence = f"{target}: {form.title} writes positions only, which give no model; use another of its logs"
        return CannotLog(f"{sentence} ({', '.join(target_of(target).logs)}), or {others}")
    if "current" in form.efforts:
        return CannotLog(
            f"{target} logs motor currents; {robot.name}'s file has no current law, so they give no torque, and "
            f"{why_not(robot)}; {LAW_NEEDED}, or {others}"
        )
    return CannotLog(
        f"{target} logs torque sensors at the joints, which {robot.name} was simulated without; set joint_sensors, "
        f"or {others}"
    )


def named(pattern: str, axes: Sequence[str]) -> list[str]:
    """Format a channel's name for every axis."""
    return [pattern.format(axis=axis, k=j + 1, j=j, m=len(axes) + j + 1) for j, axis in enumerate(axes)]


def declared(form: Format, target: Target, robot: Robot, kind: Effort | None) -> dict[str, object]:
    """Write the [log] table with which identification reads a format: what its files do not state themselves.

    Positions, and torques at the joints, are along the controller's axes; the manifest defines those.
    """
    axes = axes_of(robot, target)
    position: dict[str, object] = {"kind": "position", "side": "joint", "columns": named(form.position, axes.names)}
    if target.angle_unit == "rad" or not robot.mechanism.prismatic.any():
        position["unit"] = target.angle_unit
    table: dict[str, object] = {"format": form.reader, "signals": [position]}
    if form.time is not None:
        table["time"] = form.time
    if kind is not None:
        columns = named(form.efforts[kind], axes.names)
        table["signals"] = [position, _effort_entry(form, robot, kind, columns)]
    return table


def _effort_entry(form: Format, robot: Robot, kind: Effort, columns: list[str]) -> dict[str, object]:
    at_joints = kind in ("joint torque", "torque sensor")
    entry: dict[str, object] = {
        "kind": "current" if kind == "current" else "torque",
        "side": "joint" if at_joints else "motor",
        "unit": "A" if kind == "current" else "N m",
        "columns": columns,
    }
    if form.per_mille:
        entry["scale"] = (1e-3 * rated_torque(robot)).tolist()
    return entry


def rated_torque(robot: Robot) -> FloatArray:
    """Return the rated torque of a virtual robot's drives, N m at the motors, (n_joints,)."""
    return motor_torque_scale(replace(robot, payload=None, locked={}))


def motor_torque_scale(robot: Robot) -> FloatArray:
    """Return each joint's torque scale, at its motor."""
    gears = np.abs(robot.drive.motor_from_joint)
    own = np.where(np.diagonal(gears) > 0.0, np.diagonal(gears), gears.max(axis=1))
    return np.asarray(torque_scale(robot) / own)


def torque_scale(robot: Robot) -> FloatArray:
    """Return each joint's torque limit, or else three times the rms of the prior's torque in random states."""
    typical = 3.0 * np.sqrt(np.mean(inverse_dynamics(robot, random_motion(robot, 100), robot.chi) ** 2, axis=0))
    return np.where(np.isfinite(robot.limits.torque), robot.limits.torque, np.maximum(typical, 1e-3))
