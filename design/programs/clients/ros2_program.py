"""What a program consists of, and how a run of it is recorded; for ros2_client.py. Needs Python 3.10 alone."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOMING = 2  # s in which the last fraction of a degree to home is made
PATH = {"rad": 0.2, "m": 0.1}  # that a joint may be off its way before the controller gives up


class Refused(Exception):
    """Nothing has moved, and nothing will."""


class Program:
    """A program's files: what must be so beforehand, and the tables of its stretches."""

    def __init__(self, data: dict[str, Any], tables: dict[str, str]) -> None:
        if data.get("format") != "excitor-ros2" or data.get("version") != 1:
            raise Refused("this is no program of a known version; emit the programs again")
        self.joints: list[str] = data["joints"]
        self.units: list[str] = data["units"]
        self.home: list[float] = data["home"]
        self.home_tolerance: list[float] = data["home_tolerance"]
        self.goal_tolerance: list[float] = data["goal_tolerance"]
        self.goal_time: float = data["goal_time_tolerance"]
        self.payload: float | None = data["payload_kg"]
        self.rest: float = data["rest"]
        self.marks = [(float(t), int(mark)) for t, mark in data["marks"]]
        self.stretches: list[dict[str, Any]] = data["stretches"]
        self.dry: bool = data["dry"]
        self.title = f"{data['run']!a} of {data['campaign']!a}"
        self.any_speed = all(s["name"] != "main" for s in self.stretches)  # a first run, which depends on no time
        self.tables = {s["name"]: self._table(s, tables) for s in self.stretches}

    def _table(self, stretch: dict[str, Any], tables: dict[str, str]) -> dict[str, Any]:
        text = tables.get(stretch["file"])
        if text is None:
            raise Refused(f"{stretch['file']} is missing; copy the whole folder")
        if hashlib.sha256(text.encode()).hexdigest() != stretch["sha256"]:
            raise Refused(f"{stretch['file']} is not the one that belongs to this program; copy the whole folder")
        table: dict[str, Any] = json.loads(text)
        if sorted(table["joint_names"]) != sorted(self.joints):
            raise Refused(f"{stretch['file']} moves {table['joint_names']}, this program {self.joints}")
        return table

    def goal(self, name: str) -> dict[str, Any]:
        """Make a goal: the table of a stretch, or the way from within the tolerance to home itself."""
        table = self.tables[name] if name != "home" else self._homing()
        return {
            "trajectory": table,
            "tolerances": dict(zip(self.joints, self.goal_tolerance, strict=True)),
            "path": {joint: PATH[unit] for joint, unit in zip(self.joints, self.units, strict=True)},
            "time_tolerance": self.goal_time,
        }

    def end(self, name: str) -> dict[str, float]:
        """Tell where a stretch ends, by joint."""
        table = self.tables[name]
        return dict(zip(table["joint_names"], table["points"][-1]["positions"], strict=True))

    def _homing(self) -> dict[str, Any]:
        still = [0.0] * len(self.joints)
        point: dict[str, Any] = {"positions": self.home, "velocities": still, "accelerations": still, "effort": []}
        point["time_from_start"] = {"sec": HOMING, "nanosec": 0}
        header = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        return {"header": header, "joint_names": self.joints, "points": [point]}

    def summary(self) -> str:
        """Say what will move, and how long it takes."""
        kind = "DRY RUN, 15 % amplitude, of " if self.dry else ""
        kind = "FIRST RUN at reduced speed, of " if self.any_speed else kind
        lines = [f"{kind}run {self.title}"]
        for s in self.stretches:
            lines.append(f"  {s['name']:4s} {s['duration']:8.1f} s, {s['points']} points")
        for j, (joint, unit) in enumerate(zip(self.joints, self.units, strict=True)):
            seen = [point["positions"][table["joint_names"].index(joint)] for table in self.tables.values()
                    for point in table["points"]]  # fmt: skip
            lines.append(f"  {joint}: {min([*seen, self.home[j]]):.3f} to {max([*seen, self.home[j]]):.3f} {unit}")
        return "\n".join(lines)


def load_program(path: Path) -> Program:
    """Read a program and its tables, which lie beside it."""
    data = json.loads(path.read_text("utf-8"))
    names = [str(s["file"]) for s in data.get("stretches", [])]
    files = {name: path.parent / name for name in names if name == Path(name).name}
    return Program(data, {name: file.read_text("utf-8") for name, file in files.items() if file.is_file()})


@dataclass
class Reading:
    """What joint_states said last, by joint."""

    stamp: float = 0.0  # s
    position: dict[str, float] = field(default_factory=dict)
    velocity: dict[str, float] = field(default_factory=dict)
    effort: dict[str, float] = field(default_factory=dict)


def whole(message: Any, joints: Sequence[str]) -> Reading | None:
    """Read a JointState; None unless it names all joints of the program, with finite positions.

    A gripper tells of itself in messages of its own: they must not give the arm's values a later stamp.
    """
    told = (message.position, message.velocity, message.effort)
    # a driver may leave velocities or efforts out, or say that they are no number
    kinds = [{name: x for name, x in zip(message.name, values, strict=False) if math.isfinite(x)} for values in told]
    if not all(joint in kinds[0] for joint in joints):
        return None
    return Reading(message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec, *kinds)


class Recorder:
    """Rows of what joint_states says, with the part of the run that each belongs to."""

    def __init__(self, joints: Sequence[str], marks: Sequence[tuple[float, int]]) -> None:
        self.joints, self.marks = list(joints), list(marks)
        self.rows: list[list[float | int | str]] = []
        self.started: float | None = None  # stamp at which the controller accepted the goal
        self.slowest = 1.0

    @property
    def columns(self) -> list[str]:
        """Name the columns."""
        kinds = ("position", "velocity", "effort")
        return ["time", "t", "speed_scaling", "mark", *(f"{kind}:{joint}" for kind in kinds for joint in self.joints)]

    def add(self, reading: Reading, scaling: float | None) -> None:
        """Record a reading; what a driver does not tell stays empty."""
        t = None if self.started is None else reading.stamp - self.started
        mark = 0 if t is None else mark_at(self.marks, t)
        if scaling is not None:
            self.slowest = min(self.slowest, scaling)
        values = [source.get(joint, "") for source in (reading.position, reading.velocity, reading.effort)
                  for joint in self.joints]  # fmt: skip
        before: list[float | int | str] = [f"{reading.stamp:.9f}", "" if t is None else f"{t:.9f}"]
        self.rows.append([*before, "" if scaling is None else scaling, mark, *values])

    def save(self, path: Path) -> None:
        """Write everything as CSV."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)


def mark_at(marks: Sequence[tuple[float, int]], t: float) -> int:
    """Find which part of the run t belongs to; 0 before it."""
    found = 0
    for begin, mark in marks:
        if t < begin:
            break
        found = mark
    return found
