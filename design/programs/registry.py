"""Registry of controllers by name; modules are imported on request."""

from importlib import import_module
from types import ModuleType
from typing import cast

from excitor.design.programs.target import Emitter, Executor, Target
from excitor.robots.errors import ExcitorError

# The modules that write a target's programs and that run them on a virtual clock.
_MODULES = {
    "csv": ("csv", "csv"),
    "urscript": ("urscript.emit", "urscript.controller"),
    "rapid": ("rapid.egm", "rapid.egm_controller"),
    "twincat": ("twincat.setpoints", "twincat.setpoints_controller"),
    "franka": ("franka.emit", "franka.controller"),
    "ros2": ("ros2.emit", "ros2.controller"),
    "krl": ("krl.spline", "krl.spline_controller"),
    "krl-rsi": ("krl.rsi", "krl.rsi_controller"),
    "fanuc-j519": ("fanuc.stream", "fanuc.stream_controller"),
    "rapid-move": ("rapid.move", "rapid.move_controller"),
    "val3": ("val3.emit", "val3.controller"),
    "fanuc": ("fanuc.tp", "fanuc.tp_controller"),
}
NAMES = tuple(_MODULES)
_REMOVED = {
    "twincat-cam": "twincat-cam was removed; twincat commands the same motion at every cycle: use --target twincat",
}


def emitter(name: str) -> Emitter:
    """Import the module that writes a target's programs."""
    return cast(Emitter, _module(name, 0))


def executor(name: str) -> Executor:
    """Import the module that runs a target's programs on a virtual clock."""
    return cast(Executor, _module(name, 1))


def target(name: str) -> Target:
    """Return a controller's capabilities."""
    return emitter(name).TARGET


def _module(name: str, role: int) -> ModuleType:
    if name in _REMOVED:
        raise ExcitorError(_REMOVED[name])
    if name not in NAMES:
        raise ExcitorError(f"there is no target {name!r}; targets are {', '.join(NAMES)}")
    return import_module(f"excitor.design.programs.{_MODULES[name][role]}")
