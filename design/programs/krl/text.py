"""Text shared by both KUKA targets: the module's frame, the checks before anything moves, and the slow ways."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from excitor.design.motion import Move
from excitor.design.programs.plan import Plan, StretchName
from excitor.design.programs.target import AT_HOME, Target, comment, filled, fixed, in_axes, no_go_lines, to_axes
from excitor.design.programs.way_points import top_speeds
from excitor.robots.arrays import FloatArray

LIGHT = 0.1  # kg: by which the payload may differ
DEFAULT_SPEED, SLOWEST, FASTEST = 10, 1, 20  # %
_PEAK, _BEND = 2.1875, 7.5132  # largest slope and curvature of the envelope that a planned move follows


def program(plan: Plan, target: Target, name: str, values: Mapping[str, Any]) -> str:
    """Fill in the module: its checks keep the program halted, whatever is pressed, unless they hold."""
    home, mass = in_axes(plan, target).home, plan.payload or 0.0
    common = {
        "name": name, "no_go": no_go_lines(plan, "; "), "speed": DEFAULT_SPEED, "begin": pose(home),
        "kind": plan.kind or "real run", "run": comment(plan.run, 60),
        "campaign": comment(plan.campaign, 60), "robot": comment(plan.robot.name, 60),
        "home": [fixed(float(x), target.decimals) for x in home], "near": f"{AT_HOME[0]:.1f}",
        "poses": bool(plan.poses),
        "payload": plan.payload is not None, "mass": f"{mass:.6f}", "kg": f"{mass:.3f}", "light": f"{LIGHT:.1f}",
        "tool": plan.site.get("tool", 1), "base": plan.site.get("base", 0),
        "config": plan.site.get("trace", "EXCITOR.XML"),
    }  # fmt: skip
    return crlf(filled("krl/program.src", {**common, **values}))


def first_run(plan: Plan, target: Target, name: str) -> dict[str, str]:
    """Write the module of a first run, whose speeds are shares of the axes' own."""
    top_speeds(plan.robot, target)  # refuses a robot of unknown speeds
    return {f"{name}.src": program(plan, target, name, {"rsi": False, "out": way(plan, target, "out")})}


def crlf(lines: Iterable[str]) -> str:
    """Join lines with the language's line ends."""
    return "".join(line + "\r\n" for line in lines)


def way(plan: Plan, target: Target, stretch: StretchName) -> list[str]:
    """Write the slow moves out or back, each no faster than it was certified."""
    lines: list[str] = []
    for move in plan.stretch(stretch).moves:
        if not move.still:
            speed, acceleration = _percentages(plan, move)
            lines += [f"BAS (#VEL_PTP,{speed})", f"BAS (#ACC_PTP,{acceleration})"]
            lines += [f"PTP {pose(to_axes(plan.robot, target, move.goal))}"]
    return lines


def pose(axes: FloatArray) -> str:
    """Write axis values."""
    return "{" + ",".join(f"A{k} {fixed(float(x), 6)}" for k, x in enumerate(axes, start=1)) + "}"


def _percentages(plan: Plan, move: Move) -> tuple[int, int]:
    """Choose per cent of speed and acceleration: a move takes no less time, and bends no harder, than planned.

    All axes travel together: the one with the longest way for its limit sets the pace. Limits are the robot file's.
    """
    limits, way = plan.robot.limits, np.abs(move.goal - move.origin)
    speed = float(np.max(way / limits.velocity)) / move.duration  # a robot that runs at this share takes the time
    bend = (_BEND if move.blend == 0.0 else _PEAK) / move.duration**2
    if move.blend > 0.0:
        bend = _PEAK / (move.blend * (move.duration - move.blend))
    acceleration = bend * float(np.max(way / limits.acceleration))
    return _percent(speed), _percent(acceleration)


def _percent(share: float) -> int:
    """Round down; 10 % where the robot's limit is not known."""
    if share <= 0.0:
        return DEFAULT_SPEED
    return int(np.clip(np.floor(100.0 * share + 1e-9), SLOWEST, FASTEST))
