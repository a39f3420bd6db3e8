"""Run one program on a ROS 2 trajectory controller: check, ask, move out, log the run, move back.

Needs Python 3.10 and a sourced ROS 2 (Humble or later) with control_msgs:

    python3 ros2_client.py PROGRAM.json --controller /joint_trajectory_controller

What decides is above `main` and needs no ROS; `RosRobot` alone talks to it.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

HOMING = 2  # s in which the last fraction of a degree to home is made
AT_REST = 0.005  # rad/s or m/s
FULL_SPEED = 0.999  # share
SAME_PAYLOAD = 0.05  # kg


class Refused(Exception):
    """Nothing has moved, and nothing will."""


class Stopped(Exception):
    """The run ended early; the robot stands where the controller left it."""


@dataclass
class Reading:
    """What joint_states said last, by joint."""

    stamp: float = 0.0  # s
    position: dict[str, float] = field(default_factory=dict)
    velocity: dict[str, float] = field(default_factory=dict)
    effort: dict[str, float] = field(default_factory=dict)


class RobotLike(Protocol):
    """What the client needs of a robot."""

    def read(self) -> Reading: ...  # noqa: D102 - see RosRobot
    def scaling(self) -> float | None: ...  # noqa: D102
    def wait(self, seconds: float) -> None: ...  # noqa: D102
    def follow(self, name: str, goal: dict[str, Any]) -> str: ...  # noqa: D102
    def log_on(self) -> None: ...  # noqa: D102
    def log_off(self) -> None: ...  # noqa: D102


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
            "time_tolerance": self.goal_time,
        }

    def _homing(self) -> dict[str, Any]:
        still = [0.0] * len(self.joints)
        point: dict[str, Any] = {"positions": self.home, "velocities": still, "accelerations": still, "effort": []}
        point["time_from_start"] = {"sec": HOMING, "nanosec": 0}
        header = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
        return {"header": header, "joint_names": self.joints, "points": [point]}

    def summary(self) -> str:
        """Say what will move, and how long it takes."""
        kind = "DRY RUN, 15 % amplitude, of " if self.dry else ""
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


def preflight(program: Program, first: Reading, last: Reading, scaling: float | None, payload: float | None) -> None:
    """Refuse unless the robot stands still at home, at full speed, with the payload that was planned."""
    wanted = zip(program.joints, program.home, program.home_tolerance, program.units, strict=True)
    for name, home, near, unit in wanted:
        if name not in last.position or name not in first.position:
            known = ", ".join(sorted(last.position)) or "none"
            raise Refused(f"joint {name} is not among those that joint_states tells of: {known}")
        away = last.position[name] - home
        if not abs(away) <= near:
            raise Refused(
                f"{name} stands at {last.position[name]:.4f} {unit}, {away:+.4f} from home; drive the robot home, to "
                f"within {near:.4f} {unit}"
            )
    _at_rest(program, first, last)
    _full_speed(scaling)
    if program.payload is not None:
        if payload is None:
            raise Refused(f"this run needs {program.payload:g} kg on the flange; confirm them with --payload-kg")
        if not abs(payload - program.payload) <= SAME_PAYLOAD:
            raise Refused(f"the run was planned with {program.payload:g} kg on the flange, not with {payload:g} kg")


def _at_rest(program: Program, first: Reading, last: Reading) -> None:
    for name, near in zip(program.joints, program.home_tolerance, strict=True):
        creeps = abs(last.position[name] - first.position[name]) > 0.2 * near
        if creeps or not abs(last.velocity.get(name, 0.0)) <= AT_REST:
            raise Refused(f"{name} moves; wait until the robot stands still")


def _full_speed(scaling: float | None) -> None:
    if scaling is not None and not scaling >= FULL_SPEED:
        raise Refused(f"the robot runs at {100.0 * scaling:.0f} % of its speed; put the speed slider to 100 %")


def conduct(
    robot: RobotLike,
    program: Program,
    *,
    payload: float | None,
    confirm: Callable[[], bool],
    say: Callable[[str], None] = print,
) -> None:
    """Run a program: Refused before anything moved, Stopped where a movement failed."""
    first = robot.read()
    robot.wait(0.5)
    preflight(program, first, robot.read(), robot.scaling(), payload)
    say(program.summary())
    if robot.scaling() is None:
        say("No speed scaling is published: see for yourself that the speed slider is at 100 %.")
    if not confirm():
        raise Refused("not confirmed")
    first = robot.read()
    robot.wait(0.1)
    preflight(program, first, robot.read(), robot.scaling(), payload)  # again: asking may have taken long
    _move(robot, program, "home")
    for stretch in program.tables:
        say(f"{stretch} ...")
        if stretch == "main":
            _main(robot, program)
        else:
            _move(robot, program, stretch)
    say("done")


def _main(robot: RobotLike, program: Program) -> None:
    robot.wait(program.rest)
    try:
        _full_speed(robot.scaling())
    except Refused as error:
        raise Stopped(f"{error}; the run was not started") from error
    robot.log_on()
    try:
        _move(robot, program, "main")
    finally:
        robot.log_off()
    robot.wait(program.rest)


def _move(robot: RobotLike, program: Program, name: str) -> None:
    failed = robot.follow(name, program.goal(name))
    if failed:
        raise Stopped(f"{name}: {failed}; nothing more will move")


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


class RosRobot:
    """A robot behind joint_states and a FollowJointTrajectory action; imports ROS."""

    def __init__(self, program: Program, options: argparse.Namespace) -> None:
        import rclpy  # type: ignore[import-not-found, unused-ignore]
        from control_msgs.action import FollowJointTrajectory  # type: ignore[import-not-found, unused-ignore]
        from rclpy.action import ActionClient  # type: ignore[import-not-found, unused-ignore]
        from rclpy.qos import QoSProfile, ReliabilityPolicy  # type: ignore[import-not-found, unused-ignore]
        from rclpy.signals import SignalHandlerOptions  # type: ignore[import-not-found, unused-ignore]
        from sensor_msgs.msg import JointState  # type: ignore[import-not-found, unused-ignore]
        from std_msgs.msg import Float64  # type: ignore[import-not-found, unused-ignore]

        self.ros, self.action = rclpy, FollowJointTrajectory
        self.program, self.options = program, options
        self.reading = Reading()
        self.recorder: Recorder | None = None
        self._scaling: float | None = None
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # Ctrl-C is ours: it cancels the goal
        self.node = rclpy.create_node("excitor")
        taken = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.node.create_subscription(JointState, options.joint_states, self._heard, taken)
        self.node.create_subscription(Float64, options.scaling_topic, self._scaled, taken)
        self.client = ActionClient(self.node, FollowJointTrajectory, f"{options.controller}/follow_joint_trajectory")
        if not self.client.wait_for_server(timeout_sec=10.0):
            raise Refused(f"no controller answers at {options.controller}; name it with --controller")
        self.wait(1.0)  # until the topics have been heard

    def _heard(self, message: Any) -> None:
        now = self.reading
        now.stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        told = ((now.position, message.position), (now.velocity, message.velocity), (now.effort, message.effort))
        for kind, values in told:  # a driver may leave velocities or efforts out, or say that they are no number
            kind.update((name, value) for name, value in zip(message.name, values, strict=False) if value == value)
        if self.recorder is not None:
            self.recorder.add(now, self._scaling)

    def _scaled(self, message: Any) -> None:
        self._scaling = message.data / self.options.full_scale

    def read(self) -> Reading:
        """Tell what joint_states said last."""
        now = self.reading
        return Reading(now.stamp, dict(now.position), dict(now.velocity), dict(now.effort))

    def scaling(self) -> float | None:
        """Tell the share of full speed; None where the driver publishes none."""
        if self._scaling is None and self.node.count_publishers(self.options.scaling_topic) > 0:
            raise Refused(f"{self.options.scaling_topic} is there, but silent; is the driver's program running?")
        return self._scaling

    def wait(self, seconds: float) -> None:
        """Let time pass, and messages come in."""
        end = self._now() + seconds
        while self._now() < end:
            self.ros.spin_once(self.node, timeout_sec=0.01)

    def follow(self, name: str, goal: dict[str, Any]) -> str:
        """Make a movement; an empty string, or why it failed."""
        asked = self.client.send_goal_async(self._message(goal))
        self.ros.spin_until_future_complete(self.node, asked, timeout_sec=10.0)
        handle = asked.result() if asked.done() else None
        if handle is None or not handle.accepted:
            return "the controller gives no answer" if handle is None else "the controller rejects it"
        if self.recorder is not None:
            self.recorder.started = self._now()
        last = goal["trajectory"]["points"][-1]["time_from_start"]["sec"]
        result = handle.get_result_async()
        try:
            self.ros.spin_until_future_complete(self.node, result, timeout_sec=1.2 * last + 30.0)
        except KeyboardInterrupt:
            self._cancel(handle)
            return "interrupted; the controller was told to stop"
        if not result.done():
            self._cancel(handle)
            return "the controller does not end; it was told to stop"
        ended = result.result().result
        return (
            "" if ended.error_code == 0 else f"the controller ends with code {ended.error_code}: {ended.error_string}"
        )

    def log_on(self) -> None:
        """Begin to record."""
        self.recorder = Recorder(self.program.joints, self.program.marks)

    def log_off(self) -> None:
        """End recording, and save."""
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.save(self.options.log)
            print(f"{len(recorder.rows)} rows in {self.options.log}")
            if recorder.slowest < FULL_SPEED:
                print(f"THE ROBOT WAS SLOWED DOWN to {100.0 * recorder.slowest:.0f} %: discard this run, repeat it.")

    def _cancel(self, handle: Any) -> None:
        self.ros.spin_until_future_complete(self.node, handle.cancel_goal_async(), timeout_sec=5.0)

    def _now(self) -> float:
        return float(1e-9 * self.node.get_clock().now().nanoseconds)

    def _message(self, goal: dict[str, Any]) -> Any:
        from builtin_interfaces.msg import Duration  # type: ignore[import-not-found, unused-ignore]
        from control_msgs.msg import JointTolerance  # type: ignore[import-not-found, unused-ignore]
        from trajectory_msgs.msg import JointTrajectoryPoint  # type: ignore[import-not-found, unused-ignore]

        made = self.action.Goal()
        made.trajectory.joint_names = list(goal["trajectory"]["joint_names"])
        for point in goal["trajectory"]["points"]:
            fields = {key: [float(x) for x in point[key]] for key in ("positions", "velocities", "accelerations")}
            made.trajectory.points.append(
                JointTrajectoryPoint(**fields, time_from_start=Duration(**point["time_from_start"]))
            )
        for joint, tolerance in goal["tolerances"].items():
            made.goal_tolerance.append(JointTolerance(name=joint, position=tolerance))
        span = goal["time_tolerance"]
        made.goal_time_tolerance = Duration(sec=int(span), nanosec=int(1e9 * (span % 1.0)))
        return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program; 0 if it ran to its end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program", type=Path, help="PROGRAM.json, with its tables beside it")
    parser.add_argument("--controller", default="/joint_trajectory_controller")
    parser.add_argument("--joint-states", default="/joint_states")
    parser.add_argument("--scaling-topic", default="/speed_scaling_state_broadcaster/speed_scaling")
    parser.add_argument("--full-scale", type=float, default=100.0, help="what the scaling topic says at full speed")
    parser.add_argument("--payload-kg", type=float, help="what is on the flange, and was set in the controller")
    parser.add_argument("--log", type=Path, help="CSV to write; by default PROGRAM.csv")
    options = parser.parse_args(arguments)
    options.log = options.log or options.program.with_suffix(".csv")
    try:
        program = load_program(options.program)
        robot = RosRobot(program, options)
        print(f"For a bag as well: ros2 bag record {options.joint_states} {options.controller}/controller_state")
        conduct(robot, program, payload=options.payload_kg, confirm=lambda: input("Type yes to move: ") == "yes")
    except (Refused, Stopped, OSError, ValueError, KeyError, KeyboardInterrupt) as error:
        print(f"{'Refused' if isinstance(error, Refused) else 'Stopped'}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
