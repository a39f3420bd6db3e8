"""ROS 2: a table of positions, velocities and accelerations per motion segment, joined by a trajectory controller."""

import hashlib
import json
import re

import numpy as np

from excitor.design.programs.plan import Plan, Stretches, StretchName, marks
from excitor.design.programs.target import (
    AT_HOME,
    CannotDrive,
    axes_of,
    comment,
    fixed,
    in_axes,
    no_go_lines,
    stated,
    table_times,
    to_axes,
)
from excitor.robots.arrays import FloatArray

TARGET = stated("ros2/targets.toml", "ros2")

REST = 1.0  # s of standing still before and after the run
HOME = (np.radians(AT_HOME[0]), 1e-3 * AT_HOME[1])  # rad, m
GOAL = (np.radians(0.5), 1e-3)
GOAL_TIME = 2.0  # s that the controller may take longer to arrive

_PER_CYCLE, _PER_RAMP, _PER_MOVE, _PER_BLEND = 20, 40, 24, 20  # points, where 0.1 s would be coarser
_ON_WAYS = 0.5  # s at most between points of a way
_RATE_DECIMALS = 9  # of velocities and accelerations
MESSAGE = "trajectory_msgs/msg/JointTrajectory"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_/.-]*")


def emit(plan: Plan, name: str, spacing: float | None) -> dict[str, str]:
    """Write each segment that takes time, as YAML and as JSON, and the client's JSON file."""
    joints = _joints(plan)
    files: dict[str, str] = {}
    stretches: list[dict[str, object]] = []
    for stretch in Stretches:
        if plan.stretch(stretch).duration > 0.0:
            points = _points(plan, stretch, spacing or fitting_spacing(plan, stretch))
            yaml, table = f"{name}_{stretch}.yaml", f"{name}_{stretch}.json"
            files[yaml] = _yaml(plan, stretch, joints, points)
            files[table] = _json(joints, points)
            stretches.append(
                {
                    "name": stretch,
                    "file": table,
                    "sha256": hashlib.sha256(files[table].encode()).hexdigest(),
                    "yaml": yaml,
                    "points": len(points),
                    "duration": float(plan.stretch(stretch).duration),
                }
            )
    files[f"{name}.json"] = json.dumps(_program(plan, joints, stretches), indent=1, allow_nan=False) + "\n"
    return files


def fitting_spacing(plan: Plan, stretch: StretchName) -> float:
    """Choose the time between points: 0.1 s, or less where a quintic could not follow the motion; ways take few."""
    needs = [TARGET.spacing or 0.1] if stretch == "main" else [_ON_WAYS]
    series = plan.stretch(stretch).series
    if series is not None:
        needs.append(series.period / (_PER_CYCLE * series.harmonics[-1]))
        if plan.body.excitation.ramp > 0.0:
            needs.append(plan.body.excitation.ramp / _PER_RAMP)
    else:
        moves = plan.stretch(stretch).moves
        needs += [m.blend / _PER_BLEND if m.blend > 0.0 else m.duration / _PER_MOVE for m in moves]
    return min(needs)


def _joints(plan: Plan) -> list[str]:
    names = list(axes_of(plan.robot, TARGET).names)
    for name in names:
        if not _NAME.fullmatch(name) or names.count(name) > 1:
            like = json.dumps([re.sub(r"[^A-Za-z0-9_/.-]+", "_", one) for one in names])
            raise CannotDrive(
                f"ros2: joint {name!r} of {plan.robot.name} cannot be the name of a driver's joint; state those of the "
                "driver, of letters, digits, _ - . and /, each once, in a robot file (base = the present one): "
                f"[controllers.ros2] axes = {like}"
            )
    return names


def _points(plan: Plan, stretch: StretchName, spacing: float) -> list[str]:
    """Write the points of a segment; times are rounded first, so that the written values hold at them."""
    nanoseconds = np.round(1e9 * table_times(plan, stretch, spacing)[1:]).astype(np.int64)
    t = 1e-9 * nanoseconds
    values = [to_axes(plan.robot, TARGET, plan.stretch(stretch).at(t, order), order) for order in range(3)]
    values[1][-1] = values[2][-1] = 0.0
    return [_point(int(n), *rows) for n, *rows in zip(nanoseconds, *values, strict=True)]


def _point(nanoseconds: int, *rows: FloatArray) -> str:
    """Write a point as text that is valid both as YAML and as JSON."""
    places = (TARGET.decimals, _RATE_DECIMALS, _RATE_DECIMALS)
    p, v, a = ("[" + ", ".join(_number(float(x), n) for x in row) + "]" for row, n in zip(rows, places, strict=True))
    seconds, rest = divmod(nanoseconds, 10**9)
    return (
        f'"positions": {p},\n "velocities": {v},\n "accelerations": {a},\n "effort": [],\n '
        f'"time_from_start": {{"sec": {seconds}, "nanosec": {rest}}}'
    )


def _number(value: float, decimals: int) -> str:
    text = fixed(value, decimals).rstrip("0")
    return text + "0" if text.endswith(".") else text


def _yaml(plan: Plan, stretch: StretchName, joints: list[str], points: list[str]) -> str:
    heads = [
        f"# Excitor: {stretch} of run {comment(plan.run)}, campaign {comment(plan.campaign)}",
        f"# {plan.stretch(stretch).duration:.12g} s, {len(points)} points, rad and m; {MESSAGE}",
        *no_go_lines(plan, "# "),
        *([f"# {plan.kind}"] if plan.dry else []),
        'header: {stamp: {sec: 0, nanosec: 0}, frame_id: ""}',
        f"joint_names: {json.dumps(joints)}",
        "points:",
    ]
    blocks = [point.replace(",\n ", "\n  ").replace('"', "") for point in points]
    return "\n".join([*heads, *(f"- {block}" for block in blocks)]) + "\n"


def _json(joints: list[str], points: list[str]) -> str:
    body = ",\n".join(f"{{{point}}}" for point in points)
    return (
        '{"header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""},\n'
        f'"joint_names": {json.dumps(joints)},\n"points": [\n{body}\n]}}\n'
    )


def _program(plan: Plan, joints: list[str], stretches: list[dict[str, object]]) -> dict[str, object]:
    slides = plan.robot.mechanism.prismatic
    return {
        "format": "excitor-ros2",
        "version": 1,
        "campaign": plan.campaign,
        "run": plan.run,
        "dry": plan.dry,
        "joints": joints,
        "units": np.where(slides, "m", "rad").tolist(),
        "payload_kg": None if plan.payload is None else float(plan.payload),
        "home": in_axes(plan, TARGET).home.tolist(),
        "home_tolerance": np.where(slides, HOME[1], HOME[0]).tolist(),
        "goal_tolerance": np.where(slides, GOAL[1], GOAL[0]).tolist(),
        "goal_time_tolerance": GOAL_TIME,
        "rest": REST,
        "stretches": stretches,
        "marks": [[float(t), mark] for t, mark in marks(plan)],
    }
