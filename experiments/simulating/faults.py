"""Which fault is asked for: `NAME`, `NAME:joint`, `NAME:joint,joint` or `NAME:channel`, the same in every program."""

from collections.abc import Sequence
from dataclasses import replace

from excitor.design.programs.plan import Plan
from excitor.experiments.virtual.faults import CHANNELS, FAULTS, Fault, aimed
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot


def fault_of(text: str, robot: Robot) -> Fault:
    """Read a fault; an unknown one is answered with all that there are."""
    name, _, rest = text.partition(":")
    if name not in FAULTS:
        listed = "\n".join(f"  {fault.name}: {fault.sentence}" for fault in FAULTS.values())
        raise ExcitorError(f"there is no fault {name!r}; faults are\n{listed}")
    fault = FAULTS[name]
    for word in filter(None, rest.split(",")):
        if word in CHANNELS.get(name, ()):
            fault = replace(fault, channel=word)
        else:
            fault = replace(fault, joints=(*fault.joints, _joint(text, word, robot)))
    wanted = {"swapped-axes": 2}.get(name)
    if wanted and fault.joints and len(set(fault.joints)) != wanted:
        raise ExcitorError(f"--fault {text}: name the two joints that change places, such as {name}:A,B")
    return fault


def aim(fault: Fault, plans: Sequence[Plan], seed: int) -> Fault:
    """Choose joints and size once, in the first program where the fault can show, so that all have the same."""
    told = ""
    for plan in sorted(plans, key=lambda plan: plan.dry):
        try:
            return aimed(fault, plan, seed)
        except ValueError as error:
            told = told or str(error)
    raise ExcitorError(f"{told}, nor in any other; choose another fault")


def _joint(text: str, word: str, robot: Robot) -> int:
    """Find a joint by its name, or by its number from 1."""
    names = list(robot.joint_names)
    if word in names:
        return names.index(word)
    if word.isdecimal() and 1 <= int(word) <= len(names):
        return int(word) - 1
    channels = CHANNELS.get(text.partition(":")[0], ())
    known = f"expected one of {', '.join(names)}" + (f", or how it shows: {', '.join(channels)}" if channels else "")
    raise ExcitorError(f"--fault {text}: {robot.name} has no joint {word!r}; {known}")
