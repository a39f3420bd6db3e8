"""Play one table of torques, an UNVERIFIED MOTION: no controller follows a path, and the arm goes where they push it.

Needs Python 3.10, the program's JSON and CSV files and ros2_program.py beside this file, and a sourced ROS 2 (Humble or
later) with an effort controller: forward_command_controller of interface "effort", or JointGroupEffortController.

    python3 torque_client.py PROGRAM.json --controller /effort_controller

Before every torque the guards are checked: positions, speeds, the age of the last reading, and this computer's own
delay. Where one fails, on Ctrl-C, and at the end, the torques are zero: the arm coasts, nothing brakes it.
The controller holds the last torque it got: where this computer or the network fails, only the emergency stop helps.

What decides is above `main` and needs no ROS; any object with the methods of `RobotLike` can be driven.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

try:
    from ros2_program import Reading, Recorder, Refused, whole
except ImportError:  # inside the package
    from excitor.design.programs.clients.ros2_program import Reading, Recorder, Refused, whole

AT_REST = 0.02  # rad/s or m/s
SAME_PAYLOAD = 0.05  # kg
ZEROS = 5  # times that zero torque is sent at the end


class Stopped(Exception):
    """A guard ended the run; the torques are zero."""


class RobotLike(Protocol):
    """What the client needs of a robot; times in s of one clock that never jumps."""

    def now(self) -> float: ...  # noqa: D102 - see RosRobot
    def wait_until(self, t: float) -> None: ...  # noqa: D102
    def read(self) -> tuple[Reading, float]: ...  # noqa: D102
    def command(self, torques: Sequence[float]) -> None: ...  # noqa: D102
    def log_on(self) -> None: ...  # noqa: D102
    def log_off(self) -> None: ...  # noqa: D102


class Program:
    """A table of torques with its guards; Refused where a file is not what it was written as."""

    def __init__(self, data: dict[str, Any], table: str) -> None:
        if data.get("format") != "excitor-torque" or data.get("version") != 1:
            raise Refused("this is no torque program of a known version; emit the programs again")
        if hashlib.sha256(table.encode()).hexdigest() != data["sha256"]:
            raise Refused(f"{data['table']} is not the table that was written with this program; copy both again")
        self.data = data
        self.joints: list[str] = data["joints"]
        self.home, self.near, self.low, self.high, self.speed, self.limit = (
            [float(x) for x in data[key]] for key in ("home", "home_tolerance", "low", "high", "speed", "limit")
        )
        self.step, self.watchdog = float(data["sample_time"]), float(data["watchdog"])
        self.payload: float | None = data["payload_kg"]
        self.marks = [(float(t), int(mark)) for t, mark in data["marks"]]
        rows = list(csv.reader(io.StringIO(table)))[1:]
        self.torques = [[float(x) for x in row[3:]] for row in rows]
        n = len(self.joints)
        guards = (self.home, self.near, self.low, self.high, self.speed, self.limit)
        if any(len(each) != n or not all(map(math.isfinite, each)) for each in (*guards, *self.torques)):
            raise Refused(f"needs {n} numbers in every row of its table and of its guards")
        if not (0.0 < self.step <= self.watchdog <= 0.2):
            raise Refused(f"its watchdog is {self.watchdog:g} s, expected one step of {self.step:g} s to 0.2 s")
        if any(abs(x) > most for row in self.torques for x, most in zip(row, self.limit, strict=True)):
            raise Refused("a torque of its table is beyond its limit")
        if len(self.torques) < 2 or any(self.torques[-1]):
            raise Refused("its table does not end with zero torque")

    def summary(self) -> str:
        """Say what will be pushed, and what ends it."""
        kind = f"{self.data['dry_percent']:g} % of the torques of " if self.data["dry"] else ""
        lines = [f"UNVERIFIED MOTION: {kind}run {self.data['run']!r}, {self.step * len(self.torques):.1f} s"]
        for j, name in enumerate(self.joints):
            unit, peak = self.data["units"][j], max(abs(row[j]) for row in self.torques)
            push = f"{peak:.3g} {'N' if unit == 'm' else 'N m'}"
            guards = f"{self.low[j]:.3f} to {self.high[j]:.3f} {unit}, {self.speed[j]:.3g} {unit}/s"
            lines.append(f"  {name}: up to {push}; ends outside {guards}")
        return "\n".join(lines)


def load_program(path: Path) -> Program:
    """Read a program and its table, which lies beside it."""
    data = json.loads(path.read_text("utf-8"))
    return Program(data, (path.parent / Path(str(data.get("table", ""))).name).read_bytes().decode("utf-8"))


def preflight(program: Program, first: Reading, last: Reading, payload: float | None) -> None:
    """Refuse unless the arm rests at home with the payload that was planned."""
    for name, home, near, unit in zip(program.joints, program.home, program.near, program.data["units"], strict=True):
        if name not in last.position or name not in first.position:
            raise Refused(
                f"joint {name} is not among those that are read: {', '.join(sorted(last.position)) or 'none'}"
            )
        away = last.position[name] - home
        if not abs(away) <= near:
            raise Refused(f"{name} stands {away:+.4f} {unit} from home; bring it there, to within {near:.4f} {unit}")
        if not (abs(last.position[name] - first.position[name]) <= 0.2 * near):
            raise Refused(f"{name} moves; wait until the arm hangs still")
        if not abs(last.velocity.get(name, 0.0)) <= AT_REST:
            raise Refused(f"{name} moves; wait until the arm hangs still")
    if program.payload is not None:
        if payload is None:
            raise Refused(f"this run needs {program.payload:g} kg on the flange; confirm them with --payload-kg")
        if not abs(payload - program.payload) <= SAME_PAYLOAD:
            raise Refused(f"the run was planned with {program.payload:g} kg on the flange, not with {payload:g} kg")


def broken_guard(program: Program, reading: Reading, age: float, before: tuple[Reading, float] | None) -> str:
    """Name the guard that a reading breaks; empty where it breaks none. NaN breaks every guard."""
    if not age <= program.watchdog:
        return f"the last reading is {1e3 * age:.0f} ms old, more than the watchdog's {1e3 * program.watchdog:.0f} ms"
    for j, name in enumerate(program.joints):
        q = reading.position.get(name, math.nan)
        if not program.low[j] <= q <= program.high[j]:
            return f"{name} at {q:.4f} leaves its guard of {program.low[j]:.4f} to {program.high[j]:.4f}"
        rate = reading.velocity.get(name)
        if rate is None and before is not None and before[1] > 0.0:  # drivers may leave velocities out
            rate = (q - before[0].position[name]) / before[1]
        if not abs(rate or 0.0) <= program.speed[j]:
            return f"{name} turns at {rate:.4f}, beyond its guard of {program.speed[j]:.4f}"
    return ""


def conduct(
    robot: RobotLike,
    program: Program,
    *,
    payload: float | None,
    confirm: Callable[[], bool],
    say: Callable[[str], None] = print,
) -> None:
    """Play a program: Refused before anything is pushed, Stopped where a guard ended it. Zero torque ends it always."""
    for asked in (False, True):  # again after asking, which may take long
        first, _ = robot.read()
        robot.wait_until(robot.now() + 0.5)
        last, age = robot.read()
        if not age <= program.watchdog:
            raise Refused(f"the last reading is {age:.3g} s old; does the robot's driver run?")
        preflight(program, first, last, payload)
        if not asked:
            say(program.summary())
            if not confirm():
                raise Refused("not confirmed")
    robot.log_on()
    try:
        broken = _play(robot, program)
    finally:
        for _ in range(ZEROS):
            robot.command([0.0] * len(program.joints))
        robot.log_off()
    if broken:
        raise Stopped(f"{broken}; the torques are zero and the arm coasts")
    say("done")


def _play(robot: RobotLike, program: Program) -> str:
    """Command each torque at its time, after all guards; why it ended early, or an empty string."""
    begin, before, then = robot.now(), None, 0.0
    for k, torques in enumerate(program.torques):
        due = begin + k * program.step
        robot.wait_until(due)
        reading, age = robot.read()
        now = robot.now()
        if not now - due <= program.watchdog:
            return f"this computer is {1e3 * (now - due):.0f} ms late, more than the watchdog allows"
        earlier = None if before is None else (before, reading.stamp - then)
        broken = broken_guard(program, reading, age, earlier)
        if broken:
            return broken
        if before is None or reading.stamp > then:
            before, then = reading, reading.stamp
        robot.command(torques)
    return ""


class RosRobot:
    """An arm behind joint_states and the commands of an effort controller; imports ROS."""

    def __init__(self, program: Program, options: argparse.Namespace) -> None:
        import rclpy  # type: ignore[import-not-found, unused-ignore]
        from rclpy.qos import QoSProfile, ReliabilityPolicy  # type: ignore[import-not-found, unused-ignore]
        from rclpy.signals import SignalHandlerOptions  # type: ignore[import-not-found, unused-ignore]
        from sensor_msgs.msg import JointState  # type: ignore[import-not-found, unused-ignore]
        from std_msgs.msg import Float64MultiArray  # type: ignore[import-not-found, unused-ignore]

        self.ros, self.message, self.program, self.options = rclpy, Float64MultiArray, program, options
        self.reading: Reading | None = None
        self.heard, self.pushed = -math.inf, [0.0] * len(program.joints)
        self.recorder: Recorder | None = None
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # Ctrl-C is ours: it ends with zero torque
        self.node = rclpy.create_node("excitor")
        taken = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.node.create_subscription(JointState, options.joint_states, self._heard, taken)
        self.publisher = self.node.create_publisher(Float64MultiArray, f"{options.controller}/commands", 1)
        self._check_controller()
        self.wait_until(self.now() + 1.0)
        if self.reading is None:
            raise Refused(f"{options.joint_states} does not tell the positions of {', '.join(program.joints)}")

    def _check_controller(self) -> None:
        """Refuse a controller of other joints, of another order, or of another interface."""
        from rcl_interfaces.srv import GetParameters  # type: ignore[import-not-found, unused-ignore]

        name = self.options.controller
        service = self.node.create_client(GetParameters, f"{name}/get_parameters")
        if not service.wait_for_service(timeout_sec=10.0):
            raise Refused(f"no controller answers at {name}; name it with --controller")
        answers = []
        for key in ("joints", "interface_name"):
            asked = service.call_async(GetParameters.Request(names=[key]))
            self.ros.spin_until_future_complete(self.node, asked, timeout_sec=10.0)
            answers.append(asked.result().values[0] if asked.done() and asked.result().values else None)
        joints = [] if answers[0] is None else list(answers[0].string_array_value)
        if joints != self.program.joints:
            raise Refused(
                f"{name} commands {', '.join(joints) or 'unknown joints'}, not {', '.join(self.program.joints)}"
            )
        kind = "" if answers[1] is None else answers[1].string_value  # JointGroupEffortController may state none
        if kind not in ("", "effort"):
            raise Refused(f"{name} commands {kind}, not effort")

    def _heard(self, message: Any) -> None:
        reading = whole(message, self.program.joints)
        if reading is not None:
            if not reading.effort:  # of drivers that measure none: what is commanded
                reading = replace(reading, effort=dict(zip(self.program.joints, self.pushed, strict=True)))
            self.reading, self.heard = reading, self.now()
            if self.recorder is not None:
                self.recorder.add(reading, None)

    def now(self) -> float:
        """Return a time that no clock synchronisation moves, s."""
        return time.monotonic()

    def wait_until(self, t: float) -> None:
        """Let messages come in until a time."""
        self.ros.spin_once(self.node, timeout_sec=0.0)
        while (left := t - self.now()) > 0.0:
            self.ros.spin_once(self.node, timeout_sec=min(left, 0.001))

    def read(self) -> tuple[Reading, float]:
        """Return what joint_states said last, and how long ago that was heard, s."""
        return self.reading or Reading(), self.now() - self.heard

    def command(self, torques: Sequence[float]) -> None:
        """Publish torques; the controller holds them until the next."""
        if self.recorder is not None and self.recorder.started is None and self.reading is not None:
            self.recorder.started = self.reading.stamp
        self.pushed = [float(x) for x in torques]
        self.publisher.publish(self.message(data=self.pushed))

    def log_on(self) -> None:
        """Begin to record."""
        self.recorder = Recorder(self.program.joints, self.program.marks)

    def log_off(self) -> None:
        """Record for another second, and save."""
        self.wait_until(self.now() + 1.0)
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.save(self.options.log)
            print(f"{len(recorder.rows)} rows in {self.options.log}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Play a program; 0 if it ran to its end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="PROGRAM.json, with its table beside it")
    parser.add_argument("--controller", required=True, help="name of the effort controller, as /effort_controller")
    parser.add_argument("--joint-states", default="/joint_states")
    parser.add_argument("--payload-kg", type=float, help="what is on the flange")
    parser.add_argument("--log", type=Path, help="CSV to write; by default PROGRAM_log.csv")
    options = parser.parse_args(arguments)
    options.log = options.log or options.program.with_name(f"{options.program.stem}_log.csv")
    try:
        program = load_program(options.program)
        robot = RosRobot(program, options)
        ask = "A hand on the emergency stop? Nothing else brakes the arm. Type yes to push: "
        conduct(robot, program, payload=options.payload_kg, confirm=lambda: input(ask) == "yes")
    except (Refused, Stopped, OSError, ValueError, KeyError, KeyboardInterrupt) as error:
        print(f"{'Refused' if isinstance(error, Refused) else 'Stopped'}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
