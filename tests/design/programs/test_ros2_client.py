"""The ROS 2 client: what it does in which order, what it refuses, where it stops, what it records."""

import json
import math
import signal
import sys
from types import ModuleType, SimpleNamespace

import pytest

from excitor.design.programs.clients import ros2_client as client
from excitor.design.programs.ros2 import emit as ros2

NAMED = ("--controller", "/joint_trajectory_controller")


class Robot:
    """A robot that moves at once, or fails as it is told."""

    def __init__(self, program, **says):
        self.program, self.says, self.done = program, says, []
        self.position = dict(zip(program.joints, program.home, strict=True))
        self.velocity = dict.fromkeys(program.joints, 0.0)

    def read(self):
        self.done.append("read")
        drift = self.says.get("drift", 0.0) * len(self.done)
        return client.Reading(0.0, {name: q + drift for name, q in self.position.items()}, dict(self.velocity))

    def scaling(self):
        scaling = self.says.get("scaling", 1.0)
        return scaling(self) if callable(scaling) else scaling

    def wait(self, seconds):
        self.done.append(f"wait {seconds:g}")

    def follow(self, name, goal):
        assert set(goal["tolerances"]) == set(goal["path"]) == set(self.program.joints)
        self.done.append(name)
        table = goal["trajectory"]
        share = self.says.get("share", {}).get(name, 1.0)
        for joint, q in zip(table["joint_names"], table["points"][-1]["positions"], strict=True):
            self.position[joint] += share * (q - self.position[joint])
        self.velocity = dict.fromkeys(self.program.joints, self.says.get("creep", {}).get(name, 0.0))
        return self.says.get(name, "")

    def log_on(self):
        self.done.append("log on")

    def log_off(self):
        self.done.append("log off")


def conduct(plan, *, payload=None, confirm=lambda: True, **says):
    files = ros2.emit(plan, "p", None)
    robot = Robot(client.Program(json.loads(files["p.json"]), files), **says)
    heard = []
    try:
        client.conduct(robot, robot.program, payload=payload, confirm=confirm, say=heard.append)
    except (client.Refused, client.Stopped) as error:
        return robot, f"{type(error).__name__}: {error}", heard
    return robot, "", heard


def test_the_client_does_one_thing_after_the_other(plan_of):
    robot, said, heard = conduct(plan_of())
    assert said == ""
    done = [word for word in robot.done if word not in ("read", "wait 0.5", "wait 0.1")]
    assert done == ["home", "out", "wait 1", "log on", "main", "log off", "wait 1", "back"]
    assert "joint1" in heard[0] or len(heard[0].splitlines()) == 4 + 6


def test_the_client_refuses_and_stops(plan_of):
    plan = plan_of()
    moved = {"home", "out", "main", "back"}
    for says, words in (
        ({"confirm": lambda: False}, "not confirmed"),
        ({"drift": 1e-3}, "wait until the robot stands still"),
        ({"scaling": 0.99}, "99 % of its speed"),
        ({"scaling": math.nan}, "of its speed"),
    ):
        robot, said, _ = conduct(plan, **says)
        assert said.startswith("Refused: ")
        assert words in said
        assert not moved & set(robot.done)
    robot, said, _ = conduct(plan_of(payload=3.0))
    assert "confirm them with --payload-kg" in said
    robot, said, _ = conduct(plan, main="code -5: goal tolerance")
    assert said == "Stopped: main: code -5: goal tolerance; nothing more will move"
    assert robot.done[-2:] == ["main", "log off"]
    robot, said, _ = conduct(plan, scaling=lambda robot: 0.3 if "out" in robot.done else 1.0)
    assert "the run was not started" in said
    assert "log on" not in robot.done
    robot, said, heard = conduct(plan, scaling=None)
    assert said == ""
    assert "see for yourself" in heard[1]


@pytest.mark.parametrize("ended", ["out", "main"])
def test_a_segment_begins_only_where_and_as_it_was_planned(plan_of, ended):
    plan = plan_of(moves=True)
    after = {"out": "main", "main": "back"}[ended]
    robot, said, _ = conduct(plan, share={"out": 0.5})  # as a cancelled goal that counts as reached leaves it
    assert said.startswith("Stopped: before main: ")
    assert "from where it begins; nothing more will move" in said
    assert "main" not in robot.done
    robot, said, _ = conduct(plan, creep={ended: 0.02})
    assert said.startswith(f"Stopped: before {after}: ")
    assert "moves; wait until" in said
    assert after not in robot.done


def test_the_client_wants_all_joints_at_rest(plan_of):
    plan = plan_of()
    files = ros2.emit(plan, "p", None)
    program = client.Program(json.loads(files["p.json"]), files)
    robot = Robot(program)
    name = program.joints[2]
    moving = robot.read()
    moving.velocity[name] = 0.02
    lost = robot.read()
    del lost.position[name]
    unknown = robot.read()
    unknown.position[name] = math.nan
    for reading, words in ((moving, f"{name} moves"), (lost, f"joint {name} is not among"), (unknown, "from home")):
        with pytest.raises(client.Refused, match=words):
            client.preflight(program, robot.read(), reading, 1.0, None)


def test_a_table_of_another_run_is_refused(plan_of, tmp_path):
    files, other = (ros2.emit(plan_of(seed=seed), "p", None) for seed in (0, 1))
    with pytest.raises(client.Refused, match="p_main.json is not the one that belongs to this program"):
        client.Program(json.loads(files["p.json"]), {**files, "p_main.json": other["p_main.json"]})
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert client.load_program(tmp_path / "p.json").tables["main"] == json.loads(files["p_main.json"])
    (tmp_path / "p_out.json").unlink()
    with pytest.raises(client.Refused, match="p_out.json is missing"):
        client.load_program(tmp_path / "p.json")


def test_the_recorder_writes_stamps_names_and_marks(tmp_path):
    recorder = client.Recorder(["b", "a"], [(0.0, 2), (1.0, 1001)])
    recorder.add(client.Reading(100.0, {"a": 1.0, "b": 2.0}), None)
    recorder.started = 100.5
    recorder.add(client.Reading(101.0, {"a": 1.5, "b": 2.5, "c": 9.0}, {"a": 0.1, "b": 0.2}, {"a": 7.0, "b": 8.0}), 1.0)
    recorder.add(client.Reading(101.75, {"a": 1.5, "b": 2.5}), 0.8)
    recorder.save(tmp_path / "log.csv")
    assert (tmp_path / "log.csv").read_text().splitlines() == [
        "time,t,speed_scaling,mark,position:b,position:a,velocity:b,velocity:a,effort:b,effort:a",
        "100.000000000,,,0,2.0,1.0,,,,",
        "101.000000000,0.500000000,1.0,2,2.5,1.5,0.2,0.1,8.0,7.0",
        "101.750000000,1.250000000,0.8,1001,2.5,1.5,,,,",
    ]
    assert recorder.slowest == 0.8


class Ros:
    """What of ROS 2 the client calls: modules, a node with a clock, and a controller that accepts every goal."""

    def __init__(self, program, code=0):
        self.clock, self.code, self.goals, self.cancelled = 50.0, code, [], []
        self.status, self.ends, self.late, self.agrees = 4, True, -1.0, True
        self.interrupt, self.full, self.names = (lambda: False), 100.0, program.joints
        self.publishers, self.accepts, self.answers = 1, True, True
        self.program, self.position = program, list(program.home)
        names = ("rclpy", "rclpy.action", "rclpy.qos", "rclpy.signals", "control_msgs.action", "control_msgs.msg",
                 "sensor_msgs.msg", "std_msgs.msg", "builtin_interfaces.msg", "trajectory_msgs.msg",
                 "action_msgs.srv")  # fmt: skip
        self.modules = {name: ModuleType(name) for name in names}
        ros = self.modules["rclpy"]
        ros.init, ros.create_node, ros.spin_once = (lambda **_: None), (lambda _: self), self.spin
        ros.spin_until_future_complete = self.spin_until
        self.modules["rclpy.action"].ActionClient = self.client_of
        self.modules["rclpy.qos"].QoSProfile, self.modules["rclpy.qos"].ReliabilityPolicy = SimpleNamespace, Name()
        self.modules["rclpy.signals"].SignalHandlerOptions = Name()
        goal = lambda: SimpleNamespace(trajectory=Name(joint_names=[], points=[]), goal_tolerance=[], path_tolerance=[])  # noqa: E731
        self.modules["control_msgs.action"].FollowJointTrajectory = Name(Goal=goal)
        self.modules["action_msgs.srv"].CancelGoal = Name(Request=SimpleNamespace)
        for name, kinds in (("control_msgs", ["JointTolerance"]), ("builtin_interfaces", ["Duration"]),
                            ("trajectory_msgs", ["JointTrajectoryPoint"]), ("sensor_msgs", ["JointState"]),
                            ("std_msgs", ["Float64"])):  # fmt: skip
            for kind in kinds:
                setattr(self.modules[f"{name}.msg"], kind, SimpleNamespace)

    def create_subscription(self, kind, topic, heard, profile):
        setattr(self, topic.strip("/").split("/")[0], heard)

    def client_of(self, node, kind, name):
        assert (node, kind.Goal, name) == (
            self,
            self.modules["control_msgs.action"].FollowJointTrajectory.Goal,
            "/joint_trajectory_controller/follow_joint_trajectory",
        )
        return self

    def spin_until(self, node, future, timeout_sec):
        assert callable(future.done), "as ROS calls it"
        self.spin(node, timeout_sec)

    def spin(self, node, timeout_sec):
        assert node is self
        self.clock += 0.01 if timeout_sec < 1.0 else timeout_sec  # a long wait that ends early is no matter here
        if self.interrupt():
            self.interrupt = lambda: False
            raise KeyboardInterrupt
        stamp = SimpleNamespace(sec=int(self.clock), nanosec=int(1e9 * (self.clock % 1.0)))
        names, n = self.names, len(self.names)
        self.joint_states(Name(header=Name(stamp=stamp), name=names, position=self.position, velocity=[math.nan] * n,
                               effort=[]))  # fmt: skip
        if self.full is not None:
            self.speed_scaling_state_broadcaster(Name(data=self.full))

    def get_clock(self):
        return Name(now=lambda: Name(nanoseconds=int(1e9 * self.clock)))

    def wait_for_server(self, timeout_sec):
        return self.answers

    def count_publishers(self, topic):
        return self.publishers

    def send_goal_async(self, goal):
        self.goals.append(goal)
        self.position = goal.trajectory.points[-1].positions
        main = len(self.goals) > 2
        result = Name(status=self.status if main else 4,
                      result=Name(error_code=self.code if main else 0, error_string="too far off"))  # fmt: skip
        future = Name(done=lambda: not main or self.ends, result=lambda: result)
        handle = Name(accepted=self.accepts or not main, get_result_async=lambda: future, cancel_goal_async=self.cancel)
        self.asked = self.clock
        return Name(done=lambda: not main or self.clock > self.asked + self.late, result=lambda: handle)

    def cancel(self):
        self.cancelled.append("goal")
        return Name(done=lambda: True, result=lambda: Name(goals_canceling=["it"] if self.agrees else []))

    def create_client(self, kind, service):
        def call(request):
            self.cancelled.append(service)
            return Name(done=lambda: False)

        return Name(call_async=call)


class Name(SimpleNamespace):
    """Has every attribute."""

    def __getattr__(self, name):
        return name


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (-5, 1)])
def test_the_whole_client_on_a_stand_in_for_ros(plan_of, tmp_path, monkeypatch, capsys, code, ends):
    plan = plan_of(way=1, measured=1, payload=2.0, period=4.0, ramp=2.0)
    files = ros2.emit(plan, "p", None)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    ros = Ros(client.load_program(tmp_path / "p.json"), code)
    for name, module in ros.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    assert client.main([str(tmp_path / "p.json"), *NAMED, "--payload-kg", "2"]) == ends
    assert len(ros.goals) == (4 if code == 0 else 3)
    main = ros.goals[2]
    assert main.trajectory.joint_names == ros.program.joints
    assert len(main.trajectory.points) == len(ros.program.tables["main"]["points"])
    assert vars(main.trajectory.points[0].time_from_start) == {"sec": 0, "nanosec": 40_000_000}
    assert [entry.name for entry in main.goal_tolerance] == ros.program.joints
    assert len((tmp_path / "p.csv").read_text().splitlines()) > 1
    told = capsys.readouterr()
    assert ("code -5: too far off" in told.err) == (code == -5)
    ros.position = ros.program.home
    assert client.main([str(tmp_path / "p.json"), *NAMED]) == 1
    assert "confirm them with --payload-kg" in capsys.readouterr().err


@pytest.fixture
def started(plan_of, tmp_path, monkeypatch):
    """A stand-in for ROS, a program of three stretches beside it, and the client's main."""
    files = ros2.emit(plan_of(way=1, measured=1), "p", None)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    ros = Ros(client.load_program(tmp_path / "p.json"))
    for name, module in ros.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    return ros, lambda: client.main([str(tmp_path / "p.json"), *NAMED])


@pytest.mark.parametrize(("status", "word"), [(5, "cancelled"), (6, "aborted"), (0, "in state 0")])
def test_only_a_goal_that_succeeded_counts(started, capsys, status, word):
    ros, main = started
    ros.status = status
    assert main() == 1
    assert len(ros.goals) == 3
    assert f"main: the controller ends it {word}, with code 0" in capsys.readouterr().err


def test_ctrl_c_cancels_the_goal_and_keeps_its_handler(started, capsys):
    ros, main = started
    before = signal.getsignal(signal.SIGINT)
    ros.ends, ros.interrupt = False, lambda: len(ros.goals) == 3
    assert main() == 1
    assert ros.cancelled == ["goal"]
    assert "interrupted; the controller was told to stop; nothing more will move" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("late", [5.0, 15.0])
def test_a_goal_that_is_accepted_late_is_cancelled(started, capsys, late):
    ros, main = started
    ros.late, ros.ends = late, False
    ros.interrupt = (lambda: len(ros.goals) == 3) if late < 10.0 else lambda: False
    assert main() == 1
    assert ros.cancelled == ["goal"]
    assert ("interrupted" if late < 10.0 else "no answer") in capsys.readouterr().err


def test_a_goal_that_is_never_accepted_is_cancelled_with_all_others(started, capsys):
    ros, main = started
    ros.late = 1e9
    assert main() == 1
    assert ros.cancelled == ["/joint_trajectory_controller/follow_joint_trajectory/_action/cancel_goal"]
    assert "stop the robot by hand" in capsys.readouterr().err


def test_a_cancellation_that_is_not_confirmed_is_reported(started, capsys):
    ros, main = started
    ros.ends = ros.agrees = False
    ros.interrupt = lambda: len(ros.goals) == 3
    assert main() == 1
    assert "stop the robot by hand" in capsys.readouterr().err


def test_a_robot_that_is_slowed_down_is_stopped(started, capsys):
    ros, main = started
    ros.ends = False
    ros.interrupt = lambda: setattr(ros, "full", 60.0 if len(ros.goals) == 3 else 100.0)  # never interrupts
    assert main() == 1
    assert ros.cancelled == ["goal"]
    assert "slowed down to 60 % of its speed; the controller was told to stop" in capsys.readouterr().err


@pytest.mark.parametrize(("publishers", "ends", "said"), [(0, 0, "see for yourself"), (1, 1, "is there, but silent")])
def test_a_driver_without_a_scaling_may_move_and_one_that_keeps_silent_may_not(started, capsys, publishers, ends, said):
    ros, main = started
    ros.full, ros.publishers = None, publishers
    assert main() == ends
    assert len(ros.goals) == (0 if ends else 4)
    told = capsys.readouterr()
    assert said in told.out + told.err


def test_a_controller_that_is_not_there_or_rejects_moves_nothing(started, capsys):
    ros, main = started
    ros.answers = False
    assert main() == 1
    assert "no controller answers at /joint_trajectory_controller; name it with --controller" in capsys.readouterr().err
    assert not ros.goals
    ros.answers, ros.accepts = True, False
    assert main() == 1
    assert len(ros.goals) == 3
    assert "main: the controller rejects it; nothing more will move" in capsys.readouterr().err
    assert ros.cancelled == []
    ros.position = list(ros.program.home)
    ros.goals, ros.late, ros.interrupt = [], 5.0, lambda: len(ros.goals) == 3
    assert main() == 1
    assert "interrupted; the controller had rejected it" in capsys.readouterr().err
    assert ros.cancelled == []


def test_the_controller_watches_the_way(started):
    ros, main = started
    assert main() == 0
    assert all(len(goal.path_tolerance) == len(ros.program.joints) for goal in ros.goals)
    assert {entry.position for goal in ros.goals for entry in goal.path_tolerance} == {0.2}


def test_messages_that_do_not_name_all_joints_are_not_read():
    header = Name(stamp=Name(sec=7, nanosec=500_000_000))
    arm = Name(header=header, name=["b", "a", "c"], position=[2.0, 1.0, math.nan], velocity=[math.nan, 0.1], effort=[])
    reading = client.whole(arm, ["a", "b"])
    assert (reading.stamp, reading.position, reading.velocity) == (7.5, {"a": 1.0, "b": 2.0}, {"a": 0.1})
    assert client.whole(arm, ["a", "c"]) is None
    assert client.whole(Name(header=header, name=["finger"], position=[0.0], velocity=[], effort=[]), ["a"]) is None


def test_joints_of_other_names_are_reported(started, capsys):
    ros, main = started
    ros.names = ["finger", *ros.program.joints[1:]]
    assert main() == 1
    told = capsys.readouterr().err
    assert "tells the positions of all of" in told
    assert "it names finger, " in told


def test_without_a_controllers_name_it_does_not_start(capsys):
    with pytest.raises(SystemExit) as error:
        client.main(["p.json"])
    assert error.value.code == 2
    assert "p.json --controller /joint_trajectory_controller" in capsys.readouterr().err


def test_the_help_says_how_it_stops(capsys):
    with pytest.raises(SystemExit):
        client.main(["--help"])
    told = capsys.readouterr().out
    for words in ("Ctrl-C cancels the goal", "stop abruptly", "decelerate_on_cancel", "stops nothing"):
        assert words in told
        assert words in " ".join(ros2.TARGET.loading)


def test_a_goal_that_does_not_end_is_cancelled(started, capsys):
    ros, main = started
    ros.ends = False
    assert main() == 1
    assert ros.cancelled == ["goal"]
    assert "the controller does not end" in capsys.readouterr().err


def test_a_missing_joint_is_answered_with_those_that_there_are(plan_of):
    files = ros2.emit(plan_of(), "p", None)
    program = client.Program(json.loads(files["p.json"]), files)
    first = Robot(program).read()
    for known, words in (({"b": 0.0, "a": 0.0}, "tells of: a, b$"), ({}, "tells of: none$")):
        with pytest.raises(client.Refused, match=words):
            client.preflight(program, first, client.Reading(0.0, known, {}), 1.0, None)
