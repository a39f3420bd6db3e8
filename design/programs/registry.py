"""Registry of controllers by name: built in, registered by a script, or brought by an installed package.

Modules are imported on request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from excitor.design.programs.target import Emitter, Executor, Target
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.plugins import Members


@dataclass(frozen=True, slots=True)
class Controller:
    """The two modules of a target: the one writes its programs, the other runs them on a virtual clock.

    Without the second its timing is "unverified": nothing runs its programs, and each of their files says so.
    """

    name: str
    writes: str
    runs: str = ""

    @property
    def emitter(self) -> Emitter:
        """Import the module that writes programs."""
        return cast(Emitter, import_module(self.writes))

    @property
    def executor(self) -> Executor:
        """Import the module that runs them."""
        if not self.runs:
            raise ExcitorError(f"target {self.name!r} is unverified: nothing runs its programs")
        return cast(Executor, import_module(self.runs))


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
_MOVING = {"rapid": "rapid-move", "krl-rsi": "krl", "fanuc-j519": "fanuc"}  # without a stream
_REMOVED = {
    "twincat-cam": "twincat-cam was removed; twincat commands the same motion at every cycle: use --target twincat"
}


def check_target(controller: Controller) -> None:
    """Run the conformance suite of targets; ExcitorError says what a target does not do."""
    from excitor.design.programs.conformance import problems

    runs = controller.executor if controller.runs else None
    found = next(problems(controller.name, controller.emitter, runs), None)
    if found:
        raise ExcitorError(f"target {controller.name!r}: {found}")


def _builtin() -> Mapping[str, Controller]:
    home = "excitor.design.programs"
    return {name: Controller(name, f"{home}.{writes}", f"{home}.{runs}") for name, (writes, runs) in _MODULES.items()}


TARGETS: Members[Controller] = Members("excitor.targets", _builtin(), check_target)


def emitter(name: str) -> Emitter:
    """Import the module that writes a target's programs."""
    return _controller(name).emitter


def executor(name: str, *, poses: bool = False) -> Executor:
    """Import the module that runs a target's programs, or its first runs, on a virtual clock."""
    return _controller(_MOVING.get(name, name) if poses else name).executor


def unverified(name: str) -> bool:
    """Return True if nothing runs a target's programs."""
    return not _controller(name).runs


def target(name: str) -> Target:
    """Return a controller's capabilities."""
    return emitter(name).TARGET


def _controller(name: str) -> Controller:
    if name in _REMOVED:
        raise ExcitorError(_REMOVED[name])
    try:
        return TARGETS[name]
    except KeyError:
        raise ExcitorError(f"there is no target {name!r}; targets are {choice(name, TARGETS)}") from None
