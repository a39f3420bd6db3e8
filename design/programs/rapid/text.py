"""Text shared by all emitted RAPID modules: reserved names, and the template."""

from collections.abc import Mapping
from typing import Any

from excitor.design.programs.plan import Plan, Stretches
from excitor.design.programs.rapid.parse import PREDECLARED, WORDS
from excitor.design.programs.target import (
    AT_HOME,
    LOAD_SLACK,
    Target,
    axes_of,
    comment,
    filled,
    fixed,
    in_axes,
    no_go_lines,
    precise,
    stated,
    to_axes,
)
from excitor.robots.arrays import FloatArray

_STATED = stated("rapid/targets.toml", "rapid")
DECIMALS = _STATED.decimals  # of a degree
NOWHERE = "[9E9,9E9,9E9,9E9,9E9,9E9]"

_TABLES = [f"{table}{j}" for table in ("exin", "experiod", "exout") for j in range(1, 7)]
RESERVED = frozenset(
    [*(word.lower() for word in WORDS), *_STATED.reserved, *_TABLES]
    + [f"exmove{k}_{j}" for k in range(1, 100) for j in range(1, 7)]
    + [name for name in PREDECLARED if name[1:].isdigit()]  # v5 and z10, say
)


def module(plan: Plan, target: Target, name: str, values: Mapping[str, Any]) -> str:
    """Fill in the module: it refuses to start at a wrong speed or mode, away from home, or with another load."""
    payload = plan.payload or 0.0
    common = {
        "name": name, "header": _header(plan, target), "home": jointtarget(to_axes(plan.robot, target, plan.home)),
        "poses": bool(plan.poses), "device": plan.site.get("device", "EXCITOR"),
        "payload": plan.payload is not None, "mass": precise(round(payload, 4), 9), "kg": f"{payload:.3f}",
        "AT_HOME": f"{AT_HOME[0]:g}", "LOAD_SLACK": f"{LOAD_SLACK:g}",
    }  # fmt: skip
    return "\n".join(filled("rapid/module.mod", {**common, **values})) + "\n"


def first_run(plan: Plan, target: Target, name: str) -> dict[str, str]:
    """Write the module of a first run: no move is faster at its peak, twice its mean, than planned."""
    moves = in_axes(plan, target).out.moves
    lines = [move_line(jointtarget(move.goal), 2.0 * (move.duration - move.blend), "fine") for move in moves]
    values = {"guided": False, "tables": [], "body": [], "out": lines, "back": []}
    return {f"{name}.mod": module(plan, target, name, values)}


def move_line(pose: str, seconds: float, zone: str, indent: int = 8) -> str:
    """Write a move to a pose that takes some seconds."""
    return f"{' ' * indent}MoveAbsJ {pose} \\NoEOffs, v1000 \\T:={precise(seconds, 9)}, {zone}, exTool;"


def jointtarget(axes: FloatArray) -> str:
    """Write a pose, deg."""
    return f"[[{','.join(fixed(x, DECIMALS) for x in axes)}],{NOWHERE}]"


def _header(plan: Plan, target: Target) -> list[str]:
    """Write comments that describe a module."""
    series = plan.body.series
    kind = (
        f"slow moves, made {1 if plan.poses else plan.body.repeats()[1]} times"
        if series is None
        else f"a series of period {series.period:g} s, {series.periods} periods measured"
    )
    seconds = ", ".join(f"{name} {plan.stretch(name).duration:g} s" for name in Stretches)
    said = [f"campaign {comment(plan.campaign)}, run {comment(plan.run)}, robot {comment(plan.robot.name)}"]
    said += [f"{kind}; {seconds}", f"axes: {', '.join(comment(name) for name in axes_of(plan.robot, target).names)}"]
    if plan.dry:
        said.insert(0, f"{plan.kind}, to be tried before the run itself")
    said = [*no_go_lines(plan), "Written by Excitor. No check away from the robot replaces a dry run.", *said]
    return [f"    ! {line}" for line in said]
