"""Run one program on a ROS 2 trajectory controller: check, ask, move out, log the run, move back.

Needs Python 3.10, a sourced ROS 2 (Humble or later) with control_msgs, and ros2_program.py beside this file:

    python3 ros2_client.py PROGRAM.json --controller /joint_trajectory_controller

Ctrl-C cancels the goal. A joint_trajectory_controller may then stop abruptly: it decelerates only where its parameters
say so (decelerate_on_cancel). Closing the terminal, or losing the connection to it, stops nothing.

What decides is above `main` and needs no ROS; `RosRobot` alone talks to it.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

try:
    from ros2_program import Program, Reading, Recorder, Refused, load_program, whole
except ImportError:  # inside the package
    from excitor.design.programs.clients.ros2_program import Program, Reading, Recorder, Refused, load_program, whole

SETTLING = 0.5  # s in which a robot comes to rest after a stretch
AT_REST = 0.005  # rad/s or m/s
FULL_SPEED = 0.999  # share
SAME_PAYLOAD = 0.05  # kg
SUCCEEDED = 4  # status of a goal, as action_msgs/msg/GoalStatus numbers it
PATIENCE = 10.0  # s in which a controller must accept a goal, or a cancellation


class Stopped(Exception):
    """The run ended early; the robot stands where the controller left it."""


class _Cancelled(Exception):
    """Why a goal must not go on."""


class RobotLike(Protocol):
    """What the client needs of a robot."""

    def read(self) -> Reading: ...  # noqa: D102 - see RosRobot
    def scaling(self) -> float | None: ...  # noqa: D102
    def wait(self, seconds: float) -> None: ...  # noqa: D102
    def follow(self, name: str, goal: dict[str, Any]) -> str: ...  # noqa: D102
    def log_on(self) -> None: ...  # noqa: D102
    def log_off(self) -> None: ...  # noqa: D102


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
    if not program.any_speed:
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


def slowed(program: Program, scaling: float | None) -> str:
    """Say why a movement must be cancelled; empty where it may go on."""
    if program.any_speed or scaling is None or scaling >= FULL_SPEED:
        return ""
    return f"the robot was slowed down to {100.0 * scaling:.0f} % of its speed"


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
    if robot.scaling() is None and not program.any_speed:
        say("No speed scaling is published: see for yourself that the speed slider is at 100 %.")
    if not confirm():
        raise Refused("not confirmed")
    first = robot.read()
    robot.wait(0.1)
    preflight(program, first, robot.read(), robot.scaling(), payload)  # again: asking may have taken long
    _move(robot, program, "home")
    begin = dict(zip(program.joints, program.home, strict=True))
    for stretch in program.tables:
        say(f"{stretch} ...")
        if stretch == "main":
            _main(robot, program, begin)
        else:
            _stands(robot, program, stretch, begin)
            _move(robot, program, stretch)
        begin = program.end(stretch)
    say("done")


def _stands(robot: RobotLike, program: Program, stretch: str, begin: dict[str, float]) -> None:
    """Stop unless the robot stands still where a stretch begins: whatever the controller said of the one before."""
    robot.wait(SETTLING)
    first = robot.read()
    robot.wait(0.1)
    last = robot.read()
    try:
        _at_rest(program, first, last)
    except Refused as error:
        raise Stopped(f"before {stretch}: {error}; nothing more will move") from error
    for name, near, unit in zip(program.joints, program.goal_tolerance, program.units, strict=True):
        away = last.position[name] - begin[name]
        if not abs(away) <= near:
            raise Stopped(
                f"before {stretch}: {name} stands {away:+.4f} {unit} from where it begins; nothing more will move"
            )


def _main(robot: RobotLike, program: Program, begin: dict[str, float]) -> None:
    robot.wait(program.rest)
    _stands(robot, program, "main", begin)
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
        self.reading: Reading | None = None
        self.named: set[str] = set()  # by joint_states, in whatever message
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
        self.named.update(message.name)
        reading = whole(message, self.program.joints)
        if reading is None:
            return
        self.reading = reading
        if self.recorder is not None:
            self.recorder.add(reading, self._scaling)

    def _scaled(self, message: Any) -> None:
        self._scaling = message.data / self.options.full_scale

    def read(self) -> Reading:
        """Tell what joint_states said last."""
        if self.reading is None:
            raise Refused(
                f"no message of {self.options.joint_states} tells the positions of all of "
                f"{', '.join(self.program.joints)}; it names {', '.join(sorted(self.named)) or 'none'}"
            )
        return self.reading

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
        """Make a movement; an empty string, or why it failed. Whatever goes wrong, no goal outlives it."""
        asked: Any = None
        try:
            asked = self.client.send_goal_async(self._message(goal))
            return self._accompany(asked, 1.2 * goal["trajectory"]["points"][-1]["time_from_start"]["sec"] + 30.0)
        except (KeyboardInterrupt, _Cancelled) as error:
            return f"{str(error) or 'interrupted'}; {self._cancel(asked)}"

    def _accompany(self, asked: Any, longest: float) -> str:
        """Watch a goal until it ends."""
        self.ros.spin_until_future_complete(self.node, asked, timeout_sec=PATIENCE)
        if not asked.done():
            raise _Cancelled("the controller gives no answer")
        handle = asked.result()
        if not handle.accepted:
            return "the controller rejects it"
        if self.recorder is not None:
            self.recorder.started = self._now()
        result, end = handle.get_result_async(), self._now() + longest
        while not result.done():
            self.ros.spin_until_future_complete(self.node, result, timeout_sec=0.05)
            if self.program.any_speed:
                end = self._now() + longest  # at whatever speed
            if why := slowed(self.program, self._scaling):
                raise _Cancelled(why)
            if self._now() > end:
                raise _Cancelled("the controller does not end")
        status, ended = result.result().status, result.result().result
        if status == SUCCEEDED and ended.error_code == 0:
            return ""
        how = {5: "cancelled", 6: "aborted"}.get(status, f"in state {status}")
        return f"the controller ends it {how}, with code {ended.error_code}: {ended.error_string}"

    def _cancel(self, asked: Any) -> str:
        """Cancel a goal, also one whose acceptance is still to come; whether the controller agreed."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave the goal alone
        try:
            handle = None
            if asked is not None:
                self.ros.spin_until_future_complete(self.node, asked, timeout_sec=PATIENCE)
                handle = asked.result() if asked.done() else None
            if handle is not None and not handle.accepted:
                return "the controller had rejected it"
            told = self._cancel_all() if handle is None else handle.cancel_goal_async()
            self.ros.spin_until_future_complete(self.node, told, timeout_sec=PATIENCE)
            if told.done() and told.result().goals_canceling:
                return "the controller was told to stop"
            return "THE CONTROLLER DOES NOT CONFIRM THAT IT STOPS: stop the robot by hand"
        finally:
            signal.signal(signal.SIGINT, before)

    def _cancel_all(self) -> Any:
        from action_msgs.srv import CancelGoal  # type: ignore[import-not-found, unused-ignore]

        service = f"{self.options.controller}/follow_joint_trajectory/_action/cancel_goal"
        return self.node.create_client(CancelGoal, service).call_async(CancelGoal.Request())  # empty: all goals

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
        for joint, tolerance in goal["path"].items():
            made.path_tolerance.append(JointTolerance(name=joint, position=tolerance))
        span = goal["time_tolerance"]
        made.goal_time_tolerance = Duration(sec=int(span), nanosec=int(1e9 * (span % 1.0)))
        return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program; 0 if it ran to its end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="PROGRAM.json, with its tables beside it")
    parser.add_argument("--controller", help="name of the trajectory controller that is to move the robot, needed")
    parser.add_argument("--joint-states", default="/joint_states")
    parser.add_argument("--scaling-topic", default="/speed_scaling_state_broadcaster/speed_scaling")
    parser.add_argument("--full-scale", type=float, default=100.0, help="what the scaling topic says at full speed")
    parser.add_argument("--payload-kg", type=float, help="what is on the flange, and was set in the controller")
    parser.add_argument("--log", type=Path, help="CSV to write; by default PROGRAM.csv")
    options = parser.parse_args(arguments)
    if not options.controller:
        example = f"{parser.prog} {options.program} --controller /joint_trajectory_controller"
        parser.error(f"state the controller that is to move the robot with --controller, for example: {example}")
    options.log = options.log or options.program.with_suffix(".csv")
    try:
        program = load_program(options.program)
        robot = RosRobot(program, options)
        print(f"For a bag as well: ros2 bag record {options.joint_states} {options.controller}/controller_state")
        print("Ctrl-C cancels the goal, and the robot may then stop abruptly; closing the terminal stops nothing.")
        conduct(robot, program, payload=options.payload_kg, confirm=lambda: input("Type yes to move: ") == "yes")
    except (Refused, Stopped, OSError, ValueError, KeyError, KeyboardInterrupt) as error:
        print(f"{'Refused' if isinstance(error, Refused) else 'Stopped'}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
