"""Which controllers there are, by name; modules are imported when they are asked for."""

from importlib import import_module
from typing import cast

from excitor.design.programs.execution import Executor
from excitor.design.programs.target import Emitter, Target
from excitor.robots.errors import ExcitorError

NAMES = (
    "csv",
    "urscript",
    "rapid",
    "twincat",
    "franka",
    "ros2",
    "krl",
    "krl-rsi",
    "twincat-cam",
    "fanuc-j519",
    "rapid-move",
    "val3",
    "fanuc",
)


def emitter(name: str) -> Emitter:
    """Find what writes a target's programs."""
    return cast(Emitter, import_module(f"excitor.design.programs.targets.{_module(name)}"))


def executor(name: str) -> Executor:
    """Find what runs a target's programs on a virtual clock."""
    return cast(Executor, import_module(f"excitor.design.programs.checks.{_module(name)}"))


def target(name: str) -> Target:
    """Look up a controller's capabilities."""
    return emitter(name).TARGET


def _module(name: str) -> str:
    if name not in NAMES:
        raise ExcitorError(f"there is no target {name!r}; targets are {', '.join(NAMES)}")
    return name.replace("-", "_")
