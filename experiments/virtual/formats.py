"""Which logger belongs to which controller, what it needs of a robot, and what must be declared to read its logs."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from excitor.design.programs.plan import Plan
from excitor.design.programs.registry import target as target_of
from excitor.design.programs.target import fitting_steps
from excitor.experiments.virtual.recorded import Recorded
from excitor.experiments.virtual.settings import Settings
from excitor.experiments.virtual.writers.format import Effort, Format, Writer, declared, measured, show
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot

# The first is what the target's page asks for.
OF_TARGET: Mapping[str, tuple[str, ...]] = {
    "csv": ("csv", "npz"),
    "urscript": ("ur_rtde",),
    "rapid": ("egm", "egm_torque"),
    "rapid-move": ("abb_text",),
    "twincat": ("twincat_scope",),
    "twincat-cam": ("twincat_scope",),
    "franka": ("franka",),
    "ros2": ("ros2_csv", "ros_mcap", "ros_sqlite3"),
    "krl": ("kuka_trace",),
    "krl-rsi": ("rsi",),
    "fanuc-j519": ("j519",),
    "val3": ("csv", "npz"),
    "fanuc": ("csv", "fanuc_csv"),
}
_MODULES = {
    "ur_rtde": "ur_rtde",
    "egm": "egm",
    "egm_torque": "egm",
    "abb_text": "abb_text",
    "twincat_scope": "twincat_scope",
    "franka": "franka",
    "ros2_csv": "ros_csv",
    "ros_mcap": "ros_bag",
    "ros_sqlite3": "ros_bag",
    "kuka_trace": "kuka_trace",
    "rsi": "rsi",
    "j519": "j519",
    "fanuc_csv": "fanuc_csv",
    "csv": "plain_csv",
    "npz": "npz",
}


class CannotLog(ExcitorError):
    """A robot whose drives do not have what a logger carries."""


def format_of(target: str, name: str | None = None) -> Format:
    """Look up a target's log format; by default the one that its page asks for."""
    known = OF_TARGET[target_of(target).name]
    if name is not None and name not in known:
        raise ExcitorError(f"{target}: has no log format {name!r}; it has {', '.join(known)}")
    wanted = name or known[0]
    return next(form for form in _writer(wanted).FORMATS if form.name == wanted)


def refusal(target: str, robot: Robot, name: str | None = None) -> str:
    """Say why no model can come of a target's logs of a robot; empty where one can."""
    try:
        _promised(target, format_of(target, name), robot)
    except CannotLog as error:
        return str(error)
    return ""


def declared_for(target: str, robot: Robot, name: str | None = None) -> dict[str, object]:
    """Write what campaign.toml's [log] must say for a target's logs to be read; CannotLog where no torque is in them.

    What is read is along the controller's axes, as of real logs; programs/TARGET/manifest.json tells what they are.
    """
    form = format_of(target, name)
    return declared(form, target_of(target), robot, _promised(target, form, robot))


def settings_for(target: str, form: Format, plan: Plan, settings: Settings) -> Settings:
    """Let a virtual robot's logger keep the time of a format, and its joints have the sensors that it carries."""
    step = form.step
    if step is None and target_of(target).spacing is None:
        step = fitting_steps(plan, target_of(target))[0]
    return replace(
        settings,
        log_step=step if settings.log_step is None else settings.log_step,
        jitter=0.0 if form.even else settings.jitter,
        joint_sensors=settings.joint_sensors or list(form.efforts) == ["torque sensor"],
    )


def write(
    recorded: Recorded, folder: Path, name: str, *, target: str, format: str | None = None, seed: int = 0
) -> list[Path]:
    """Write a program's log as a target's logger does; the first path is the one to read.

    CannotLog where the format carries what this robot's drives do not tell. A format without torques is written.
    """
    form = format_of(target, format)
    kind = _there(target, form, recorded)
    return _writer(form.name).write(show(recorded, target_of(target), form, seed, kind), folder, name)


def _there(target: str, form: Format, recorded: Recorded) -> Effort | None:
    """Choose the first effort that was recorded."""
    if not form.efforts:
        return None
    for kind in form.efforts:
        if not np.isnan(measured(recorded, kind)).any():
            return kind
    raise _lacking(target, form, recorded.robot)


def _promised(target: str, form: Format, robot: Robot) -> Effort:
    """Choose the effort that a virtual robot's log will have; sensors at joints only where nothing else will do."""
    known = not np.isnan(robot.drive.torque_from_current).any()
    for kind in form.efforts:
        if kind in ("motor torque", "joint torque") or (kind == "current" and known):
            return kind
    if "torque sensor" in form.efforts:
        return "torque sensor"
    raise _lacking(target, form, robot)


def _lacking(target: str, form: Format, robot: Robot) -> CannotLog:
    others = "choose another target, such as csv"
    if not form.efforts:
        told = f"{target}: {form.title} writes positions only, and no model can come of them; use another of its logs"
        return CannotLog(f"{told} ({', '.join(OF_TARGET[target_of(target).name])}), or {others}")
    if "current" in form.efforts:
        return CannotLog(
            f"{target} logs motor currents; {robot.name}'s file has no current law, so no torque can come of them; "
            f"state torque_from_current in its drives, or {others}"
        )
    return CannotLog(
        f"{target} logs torque sensors at the joints, which {robot.name} was simulated without; set joint_sensors, "
        f"or {others}"
    )


def _writer(name: str) -> Writer:
    return cast(Writer, cast(Any, import_module(f"excitor.experiments.virtual.writers.{_MODULES[name]}")))
