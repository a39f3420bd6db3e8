"""Run ROS 2 tables as a trajectory controller does: read, check as a message, serialise, read back and follow them."""

import math
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore

from excitor.design.programs.clients import ros2_client
from excitor.design.programs.clients.ros2_client import Stopped, slowed
from excitor.design.programs.clients.ros2_program import Program, Reading, Refused
from excitor.design.programs.interpolate import joined
from excitor.design.programs.plan import Stretches, StretchName
from excitor.design.programs.ros2.language import read_yaml
from excitor.design.programs.run_json import read_json
from excitor.design.programs.streams import check_clients
from excitor.design.programs.target import Execution, Machine, ProgramError, Stretch
from excitor.robots.arrays import FloatArray

CLIENT = "ros2_client.py"
CLIENTS = (CLIENT, "ros2_program.py")

_MESSAGE = "trajectory_msgs/msg/JointTrajectory"
_FIELDS = ("positions", "velocities", "accelerations")
_WAKES = 0.05  # s after which the client looks at the speed scaling again
_FAR = 0.02  # rad or m: what the client makes to reach home itself


def execute(files: Mapping[str, str], name: str, machine: Machine) -> Execution:
    """Run the client on the program's tables and a robot that follows them."""
    check_clients(files, CLIENTS)
    data = read_json(f"{name}.json", _text(files, f"{name}.json"))
    check_program(f"{name}.json", data)
    tables = {}
    for stretch in data["stretches"]:
        tables[stretch["name"]] = _table(files, stretch, f"{name}.json")
    try:
        program = Program(data, dict(files))
    except Refused as error:
        raise ProgramError(f"{name}.json", None, str(error)) from error
    robot = _Robot(list(machine.names) or program.joints, machine, tables)
    robot.program = program
    try:
        ros2_client.conduct(robot, program, payload=machine.payload, confirm=lambda: True, say=lambda _: None)
    except Refused as error:
        return Execution(tuple(robot.made), halted=str(error))
    except Stopped as error:
        if machine.events:
            return Execution(tuple(robot.made), tuple(program.marks), tuple(robot.events), str(error))
        raise ProgramError(f"{name}.json", None, str(error)) from error
    return Execution(tuple(robot.made), tuple(program.marks), tuple(robot.events))


def _table(files: Mapping[str, str], stretch: Mapping[str, Any], program: str) -> "Table":
    file, yaml = stretch["file"], stretch["yaml"]
    table = _read(file, _text(files, file), yaml, _text(files, yaml))
    if stretch["points"] != len(table.t) or abs(float(table.t[-1]) - stretch["duration"]) > 1e-8:
        raise ProgramError(file, None, f"does not have the points, or the duration, that {program} states")
    return table


@lru_cache(maxsize=16)  # a program is executed in several situations, and reading takes most of the time
def _read(file: str, text: str, yaml: str, yaml_text: str) -> "Table":
    table = trajectory(file, read_json(file, text))
    if trajectory(yaml, read_yaml(yaml, yaml_text)).wire != table.wire:
        raise ProgramError(yaml, None, f"differs from {file}")
    return table


class Table:
    """A trajectory message after serialisation."""

    def __init__(self, wire: bytes) -> None:
        message: Any = _store().deserialize_cdr(wire, _MESSAGE)
        self.wire = wire
        self.names: list[str] = list(message.joint_names)
        stamps = [(p.time_from_start.sec, p.time_from_start.nanosec) for p in message.points]
        self.nanoseconds = np.array([sec * 10**9 + rest for sec, rest in stamps], dtype=np.int64)
        self.t: FloatArray = 1e-9 * self.nanoseconds
        self.q, self.v, self.a = (np.array([getattr(p, name) for p in message.points]) for name in _FIELDS)


def trajectory(file: str, data: Any) -> Table:
    """Check a message's fields and values, then serialise it and read it back."""
    message = _message(file, data)
    table = Table(bytes(_store().serialize_cdr(message, _MESSAGE)))
    if table.nanoseconds[0] <= 0 or (np.diff(table.nanoseconds) <= 0).any():
        k = int(np.argmax(np.diff(table.nanoseconds, prepend=0) <= 0))
        raise ProgramError(file, None, f"point {k + 1}: its time is not after the one before")
    if np.abs([table.v[-1], table.a[-1]]).max() > 0.0:
        raise ProgramError(file, None, "does not end at rest; a controller refuses that")
    return table


def _message(file: str, data: Any) -> Any:
    types = _store().types
    _keys(file, data, "the message", ("header", "joint_names", "points"))
    _keys(file, data["header"], "header", ("stamp", "frame_id"))
    stamp = _time(file, data["header"]["stamp"], "header.stamp", types["builtin_interfaces/msg/Time"])
    if stamp.sec or stamp.nanosec or data["header"]["frame_id"] != "":
        raise ProgramError(file, None, "header must be empty: the trajectory starts when it arrives")
    names = data["joint_names"]
    if not (isinstance(names, list) and names and all(isinstance(x, str) and x.isprintable() and x for x in names)):
        raise ProgramError(file, None, "joint_names must list names")
    if len(set(names)) < len(names):
        raise ProgramError(file, None, "joint_names has a name twice")
    if not (isinstance(data["points"], list) and data["points"]):
        raise ProgramError(file, None, "has no points")
    points = [_point(file, point, k, len(names)) for k, point in enumerate(data["points"], start=1)]
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
    return types[_MESSAGE](header=header, joint_names=names, points=points)


def _point(file: str, point: Any, k: int, n: int) -> Any:
    types = _store().types
    _keys(file, point, f"point {k}", (*_FIELDS, "effort", "time_from_start"))
    if point["effort"] != []:
        raise ProgramError(file, None, f"point {k}: effort must be empty")
    arrays = {field: _numbers(file, point[field], f"point {k}: {field}", n) for field in _FIELDS}
    time = _time(
        file, point["time_from_start"], f"point {k}: time_from_start", types["builtin_interfaces/msg/Duration"]
    )
    return types["trajectory_msgs/msg/JointTrajectoryPoint"](**arrays, effort=np.empty(0), time_from_start=time)


def _keys(file: str, data: Any, where: str, names: tuple[str, ...]) -> None:
    if not isinstance(data, dict) or set(data) != set(names):
        found = ", ".join(map(str, data)) if isinstance(data, dict) else repr(data)[:40]
        raise ProgramError(file, None, f"{where} must have {', '.join(names)}, and has {found[:200]}")


def _numbers(file: str, data: Any, where: str, n: int | None) -> FloatArray:
    if not isinstance(data, list) or (n is not None and len(data) != n):
        raise ProgramError(file, None, f"{where} must list {n} numbers")
    for x in data:
        if type(x) is not float or not math.isfinite(x):  # a ROS message wants floats, written with their point
            raise ProgramError(file, None, f"{where} has {x!r:.40}, expected a number with a decimal point")
    return np.array(data, dtype=np.float64)


def _time(file: str, data: Any, where: str, kind: Any) -> Any:
    _keys(file, data, where, ("sec", "nanosec"))
    sec, nanosec = data["sec"], data["nanosec"]
    if type(sec) is not int or type(nanosec) is not int or not (0 <= sec < 2**31 and 0 <= nanosec < 10**9):
        raise ProgramError(file, None, f"{where} must be whole seconds and less than 1e9 whole nanoseconds")
    return kind(sec=sec, nanosec=nanosec)


def check_program(file: str, data: Any) -> None:
    """Check the client's input, so that running it can only refuse, not fail."""
    names = ("format", "version", "campaign", "run", "dry", "joints", "units", "payload_kg", "home", "home_tolerance")
    _keys(file, data, "the program", (*names, "goal_tolerance", "goal_time_tolerance", "rest", "stretches", "marks"))
    joints = data["joints"]
    if not (isinstance(joints, list) and joints and all(isinstance(x, str) for x in joints)):
        raise ProgramError(file, None, "joints must list names")
    n = len(joints)
    units = data["units"]
    if not (isinstance(units, list) and len(units) == n and all(unit in ("rad", "m") for unit in units)):
        raise ProgramError(file, None, f"units must be {n} times rad or m")
    _numbers(file, data["home"], "home", n)
    for field in ("home_tolerance", "goal_tolerance"):
        allowed = np.where(np.array(data["units"]) == "m", 1e-3, np.radians(0.5)) * (1.0 + 1e-9)
        values = _numbers(file, data[field], field, n)
        if not ((values > 0.0) & (values <= allowed)).all():
            raise ProgramError(file, None, f"{field} must be above 0, and at most 0.5 degrees or 1 mm")
    limits = {"rest": (1.0, 60.0), "goal_time_tolerance": (0.1, 60.0)}
    for field, (low, high) in limits.items():
        if not low <= float(_numbers(file, [data[field]], field, 1)[0]) <= high:
            raise ProgramError(file, None, f"{field} must be {low:g} to {high:g} s")
    if data["payload_kg"] is not None:
        _numbers(file, [data["payload_kg"]], "payload_kg", 1)
    if type(data["dry"]) is not bool or not all(isinstance(data[x], str) for x in ("campaign", "run", "format")):
        raise ProgramError(file, None, "dry must be true or false; campaign and run must be texts")
    _check_stretches(file, data)


def _check_stretches(file: str, data: Any) -> None:
    stretches, marks = data["stretches"], data["marks"]
    if not isinstance(stretches, list) or not isinstance(marks, list):
        raise ProgramError(file, None, "stretches and marks must be lists")
    for stretch in stretches:
        _keys(file, stretch, "a stretch", ("name", "file", "sha256", "yaml", "points", "duration"))
        _numbers(file, [stretch["duration"]], "duration", 1)
        if not all(isinstance(stretch[x], str) for x in ("name", "file", "sha256", "yaml")):
            raise ProgramError(file, None, "a stretch has a name, files and their sum as texts")
    order = [stretch["name"] for stretch in stretches]
    if order != [name for name in Stretches if name in order]:
        raise ProgramError(file, None, f"stretches are {order}, expected some of {', '.join(Stretches)}, in this order")
    for entry in marks:
        if not (isinstance(entry, list) and len(entry) == 2 and type(entry[1]) is int):
            raise ProgramError(file, None, "marks must be pairs of a time and a whole number")
        _numbers(file, entry[:1], "marks", 1)


def _text(files: Mapping[str, str], file: str) -> str:
    if not re.fullmatch(r"[\w.-]+", file) or file not in files:
        raise ProgramError(file[:80], None, "is missing")
    return files[file]


@cache
def _store() -> Any:
    return get_typestore(Stores.ROS2_JAZZY)


class _Robot:
    """A robot that follows its commands exactly and records them."""

    program: Program

    def __init__(self, joints: list[str], machine: Machine, tables: dict[str, Table]) -> None:
        if len(joints) != len(machine.axes):
            raise ProgramError("joints", None, f"are {len(joints)}, the controller has {len(machine.axes)}")
        self.joints, self.machine, self.tables = joints, machine, tables
        self.pose = np.array(machine.axes)
        self.made: list[Stretch] = []
        self.events: list[str] = []

    def read(self) -> Reading:
        return Reading(0.0, dict(zip(self.joints, self.pose.tolist(), strict=True)), dict.fromkeys(self.joints, 0.0))

    def scaling(self) -> float | None:
        return self.machine.override

    def wait(self, seconds: float) -> None:
        if not seconds >= 0.0:
            raise ProgramError(CLIENT, None, f"waits {seconds:g} s")

    def follow(self, name: str, goal: dict[str, Any]) -> str:
        for key in ("path", "tolerances"):
            for joint, value in goal[key].items():
                unit = self.program.units[self.program.joints.index(joint)]
                if problem := self.machine.strange(f"{key} in {unit}", round(value, 9)):
                    raise ProgramError(CLIENT, None, f"{joint}: {problem}")
        if problem := self.machine.strange("time_tolerance", goal["time_tolerance"]):
            raise ProgramError(CLIENT, None, problem)
        if name == "home":
            if problem := self.machine.strange("homing", goal["trajectory"]["points"][0]["time_from_start"]["sec"]):
                raise ProgramError(CLIENT, None, problem)
            home = np.array(goal["trajectory"]["points"][0]["positions"])
            if np.abs(home - self.pose).max() > _FAR:
                raise ProgramError(CLIENT, None, "goes home from too far away")
            self.pose = home
            return ""
        stretch: StretchName = next(word for word in Stretches if word == name)
        table = self.tables[name]
        order = [table.names.index(joint) for joint in self.joints]
        if table.t[-1] > self.machine.longest:
            raise ProgramError(CLIENT, None, f"{name} takes {table.t[-1]:g} s; that is endless")
        still = np.zeros((1, len(self.joints)))
        q, v, a = (
            np.concatenate([first, values[:, order]])
            for first, values in ((self.pose[None], table.q), (still, table.v), (still, table.a))
        )
        t = np.concatenate([[0.0], table.t])
        why, end = "", float(t[-1])
        for event in self.machine.events:
            if event.name == "override" and event.stretch == name:
                why = slowed(self.program, 0.01 * event.value)
                end = min(end, event.after + _WAKES) if why else end
        if end < t[-1]:  # between two points
            run = joined(t, q, "quintic", v, a).run
            t = np.append(t[t < end], end)
            q, v, a = (run.at(t, k) for k in range(3))
        self.made.append(Stretch(stretch, "points", t, q, v, a, "quintic"))
        self.events.append(name)
        self.pose = q[-1]
        return why and f"{why}; cancelled"

    def log_on(self) -> None:
        self.events.append("log on")

    def log_off(self) -> None:
        self.events.append("log off")
