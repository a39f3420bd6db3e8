"""ROS 2 tables: what is written is what was planned, everything wrong is caught, and the client refuses."""

import hashlib
import json
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore
from ruamel.yaml import YAML

from excitor.design.programs.clients import ros2_client as client
from excitor.design.programs.interpolate import differences, worst_position
from excitor.design.programs.plan import Stretches, marks
from excitor.design.programs.ros2 import controller as check
from excitor.design.programs.ros2 import emit as ros2
from excitor.design.programs.ros2.emit import TARGET
from excitor.design.programs.ros2.language import read_yaml
from excitor.design.programs.target import CannotDrive, Event, Machine, ProgramError, to_axes
from tests.mutations.ros2 import mutations
from tests.plans import there

FOREIGN = Path(__file__).parent / "foreign" / "ros2"
HOSTILE = 'x"]\n- !!python/object: {y: "\u202e}\'# */\n\x1b[2J' + "z" * 300

PLANS = {
    "one harmonic": {"harmonics": (1,)},
    "twelve with gaps": {"harmonics": (1, 3, 4, 7, 12), "period": 8.0, "measured": 3},
    "no warm-up, long ramp": {"warm_up": 0, "ramp": 8.0},
    "short ramp": {"ramp": 0.4, "measured": 1},
    "moves": {"moves": True},
    "no way": {"way": 0},
    "three lines": {"way": 3, "moves": True},
    "seven joints": {"robot": "iiwa", "payload": 3.0},
    "huge": {"swing": 1e4},
    "tiny": {"swing": 1e-9},
    "still": {"swing": 0.0},
    "hostile": {"run": HOSTILE, "campaign": HOSTILE},
    "odd period": {"period": 3.1, "step": 0.005, "ramp": 1.55},
}


def planning(plan_of, *arguments, **given):
    """Make a plan; where there is no way out, the series swings about home."""
    plan = plan_of(*arguments, **given)
    return plan if plan.out.duration or given.get("moves") else replace(plan, out=there(plan).out)


def machine_of(plan, **changes):
    return replace(Machine(to_axes(plan.robot, TARGET, plan.home), 0.004, payload=plan.payload or 0.0), **changes)


def run(plan, files=None, **changes):
    return check.execute(files or ros2.emit(plan, "p", None), "p", machine_of(plan, **changes))


def quintic(stretch, t):
    """Positions and accelerations of the polynomials that pass every point with its rate and acceleration."""
    k = np.clip(np.searchsorted(stretch.t, t, side="right") - 1, 0, len(stretch.t) - 2)
    h = (stretch.t[k + 1] - stretch.t[k])[:, None]
    i = np.arange(6.0)
    rows = [*np.eye(3, 6) * np.array([[1.0], [1.0], [2.0]]), i**0, i, i * (i - 1)]  # p, v, a at 0, then at 1
    ends = [(stretch.axes, 1), (stretch.rates, h), (stretch.accelerations, h * h)]
    values = np.array([x[k] * scale for x, scale in ends] + [x[k + 1] * scale for x, scale in ends])
    c = np.linalg.solve(np.array(rows), values.reshape(6, -1)).reshape(values.shape)
    s = (t - stretch.t[k])[:, None] / h
    place = sum(c[i] * s**i for i in range(6))
    return place, sum(i * (i - 1) * c[i] * s ** (i - 2) for i in range(2, 6)) / h**2


@pytest.fixture(scope="module")
def executed(plan_of):
    """Plan and execution of each of PLANS: reading YAML takes long."""

    @cache
    def of(name):
        plan = planning(plan_of, **PLANS[name])
        return plan, run(plan)

    return of


@pytest.mark.parametrize("name", PLANS)
def test_points_are_where_they_were_planned(executed, name):
    plan, execution = executed(name)
    assert differences(plan, TARGET, execution, 0.004) == []
    assert worst_position(plan, TARGET, execution) <= (1e-12 if name != "huge" else 2e-11)  # 16 digits of 1e5 rad
    assert execution.marks == marks(plan)
    for stretch in execution.stretches:
        assert set(np.round([t for t, _ in marks(plan)], 9)) <= set(np.round(stretch.t, 9)) or stretch.name != "main"
        for x in (stretch.rates, stretch.accelerations):
            assert not x[0].any()
            assert not x[-1].any()


def test_sliding_joints_move_in_metres(plan_of, gantry):
    plan = plan_of(gantry, way=2)
    assert differences(plan, TARGET, run(plan), 0.004) == []
    data = json.loads(ros2.emit(plan, "p", None)["p.json"])
    assert data["units"] == ["m", "rad"]
    assert data["home_tolerance"] == pytest.approx([1e-3, np.radians(0.5)])


@pytest.mark.parametrize("name", [name for name in PLANS if name not in ("huge", "still", "tiny")])
def test_quintics_between_points_follow_the_plan(executed, name):
    plan, execution = executed(name)
    for stretch in execution.stretches:
        t = np.linspace(0.0, stretch.t[-1], 12_001)
        place, acceleration = quintic(stretch, t)
        wanted = plan.stretch(stretch.name).at(t, 2)
        assert np.abs(place - plan.stretch(stretch.name).at(t)).max() <= 1e-6
        assert (np.abs(acceleration - wanted).max(axis=0) <= 1e-3 * np.abs(wanted).max(axis=0)).all()


@pytest.mark.parametrize("seed", range(6))
def test_any_plan(plan_of, seed):
    random = np.random.default_rng(seed)
    harmonics = sorted(random.choice(np.arange(1, 13), random.integers(1, 6), replace=False).tolist())
    plan = planning(
        plan_of, ["tx40", "ur10", "iiwa"][seed % 3], harmonics=harmonics, seed=seed, period=8.0,
        ramp=float(random.integers(1, 9)),
        measured=int(random.integers(1, 4)), warm_up=int(random.integers(0, 3)), moves=bool(seed % 4 == 3),
        way=int(random.integers(0, 4)), swing=float(10.0 ** random.uniform(-6, 1)),
    )  # fmt: skip
    files = ros2.emit(plan, "p", 0.2)  # few points, soon read; `PLANS` have all
    assert differences(plan, TARGET, run(plan, files), 0.004) == []


def test_spacing_is_a_tenth_of_a_second_or_finer_or_as_asked(plan_of):
    slow = plan_of(period=10.0, ramp=10.0, harmonics=(1, 2, 3))
    fast = plan_of(period=4.0, ramp=4.0, harmonics=(1, 10))
    assert ros2.fitting_spacing(slow, "main") == 0.1
    assert ros2.fitting_spacing(fast, "main") == pytest.approx(0.02)
    assert ros2.fitting_spacing(plan_of(period=4.0, ramp=1.0), "main") == pytest.approx(0.025)
    asked = json.loads(ros2.emit(slow, "p", 0.25)["p_main.json"])
    assert asked["points"][0]["time_from_start"] == {"sec": 0, "nanosec": 250_000_000}


def test_a_dry_run_states_it(plan_of):
    files = ros2.emit(replace(plan_of(), dry=True), "p", None)
    assert "# DRY RUN at 15 percent amplitude\n" in files["p_main.yaml"]
    assert "DRY RUN" in client.Program(json.loads(files["p.json"]), files).summary()


def test_names_of_joints_that_no_driver_has_are_refused(plan_of, gantry):
    plan = plan_of(replace(gantry, controllers={}))
    ros2.emit(plan, "p", None)
    for name in ("a b", 'x"', "", "turn"):
        renamed = replace(gantry.mechanism, joint_names=(name, "turn"))
        with pytest.raises(CannotDrive, match="cannot be the name of a driver's joint"):
            ros2.emit(replace(plan, robot=replace(plan.robot, mechanism=renamed)), "p", None)


def test_hostile_names_stay_comments(plan_of):
    files = ros2.emit(plan_of(**PLANS["hostile"]), "p", None)
    head = files["p_main.yaml"].split("header:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert all(text.isascii() for text in files.values())
    assert "\x1b" not in client.Program(json.loads(files["p.json"]), files).summary()


def test_public_readers_accept_what_is_written(plan_of):
    files = ros2.emit(plan_of(measured=1, warm_up=0), "p", None)
    data = YAML(typ="safe", pure=True).load(files["p_main.yaml"])
    assert data == json.loads(files["p_main.json"]) == read_yaml("p_main.yaml", files["p_main.yaml"])
    store = get_typestore(Stores.ROS2_HUMBLE)
    types = store.types
    stamp = types["builtin_interfaces/msg/Time"](**data["header"]["stamp"])
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id=data["header"]["frame_id"])
    points = [
        types["trajectory_msgs/msg/JointTrajectoryPoint"](
            *(np.array(point[field]) for field in ("positions", "velocities", "accelerations", "effort")),
            types["builtin_interfaces/msg/Duration"](**point["time_from_start"]),
        )
        for point in data["points"]
    ]
    kind = "trajectory_msgs/msg/JointTrajectory"
    wire = store.serialize_cdr(types[kind](header, data["joint_names"], points), kind)
    back = store.deserialize_cdr(wire, kind)
    assert [p.positions.tolist() for p in back.points] == [p["positions"] for p in data["points"]]


def by_hand():
    files = {path.name: path.read_text() for path in FOREIGN.glob("by_hand*")}
    program = {
        "format": "excitor-ros2", "version": 1, "campaign": "c", "run": "r", "dry": False,
        "joints": ["rail", "shoulder"], "units": ["m", "rad"], "payload_kg": 2.5,
        "home": [0.0, 0.0], "home_tolerance": [0.001, 0.008],
        "goal_tolerance": [0.001, 0.008], "goal_time_tolerance": 2.0, "rest": 1.0, "marks": [[0.0, 2], [1.0, 1001]],
        "stretches": [{
            "name": "main", "file": "by_hand_main.json", "yaml": "by_hand_main.yaml", "points": 2, "duration": 2.0,
            "sha256": hashlib.sha256(files["by_hand_main.json"].encode()).hexdigest(),
        }],
    }  # fmt: skip
    return {**files, "by_hand.json": json.dumps(program)}


def test_a_program_typed_by_hand_does_what_it_says():
    execution = check.execute(by_hand(), "by_hand", Machine([0.0005, 0.0], 0.01, payload=2.5))
    (main,) = execution.stretches
    assert (main.name, main.kind, main.interpolation) == ("main", "points", "quintic")
    assert main.t.tolist() == [0.0, 1.0, 2.0]
    assert main.axes.tolist() == [[0.0, 0.0], [0.25, 0.5], [0.5, 1.0]]  # the program's order of joints, not the table's
    assert main.rates.tolist() == [[0.0, 0.0], [0.46875, 0.9375], [0.0, 0.0]]
    assert not main.accelerations.any()
    assert execution.marks == ((0.0, 2), (1.0, 1001))
    assert execution.events == ("log on", "main", "log off")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"joints": []}, "joints must list names"),
        ({"joints": "ab"}, "joints must list names"),
        ({"joints": ["rail", 2]}, "joints must list names"),
        ({"units": "mm"}, "units must be 2 times rad or m"),
        ({"units": ["m"]}, "units must be 2 times rad or m"),
        ({"units": ["m", "deg"]}, "units must be 2 times rad or m"),
        ({"home": [0.0]}, "home must list 2 numbers"),
        ({"home": [0.0, 1]}, "home has 1, expected a number with a decimal point"),
        ({"home_tolerance": [0.0, 0.008]}, "home_tolerance must be above 0, and at most 0.5 degrees or 1 mm"),
        ({"home_tolerance": [0.0011, 0.008]}, "home_tolerance must be above 0"),
        ({"goal_tolerance": [0.001, 0.0088]}, "goal_tolerance must be above 0"),
        ({"rest": 0.99}, "rest must be 1 to 60 s"),
        ({"rest": 60.1}, "rest must be 1 to 60 s"),
        ({"goal_time_tolerance": 0.09}, "goal_time_tolerance must be 0.1 to 60 s"),
        ({"goal_time_tolerance": 60.1}, "goal_time_tolerance must be 0.1 to 60 s"),
        ({"payload_kg": True}, "payload_kg has True"),
        ({"dry": 0}, "dry must be true or false"),
        ({"campaign": 1}, "campaign and run must be texts"),
        ({"run": None}, "campaign and run must be texts"),
        ({"marks": 1}, "stretches and marks must be lists"),
        ({"marks": [[0.0]]}, "marks must be pairs of a time and a whole number"),
        ({"marks": [[0.0, 2.0]]}, "marks must be pairs of a time and a whole number"),
        ({"marks": [[0, 2]]}, "marks has 0, expected"),
        ({"stretches": {}}, "stretches and marks must be lists"),
        ({"main": {"duration": 2.0001}}, "does not have the points, or the duration"),
        ({"main": {"points": 1}}, "does not have the points, or the duration"),
        ({"main": {"duration": "2"}}, "duration has '2', expected"),
        ({"main": {"sha256": 1}}, "a stretch has a name, files and their sum as texts"),
        ({"main": {"name": "none"}}, "expected some of"),
    ],
)
def test_what_the_client_would_stumble_on_is_a_sentence(changes, words):
    files = by_hand()
    program = json.loads(files["by_hand.json"])
    program["stretches"][0] |= changes.get("main", {})
    program |= {key: value for key, value in changes.items() if key != "main"}
    with pytest.raises(ProgramError, match=words):
        check.execute({**files, "by_hand.json": json.dumps(program)}, "by_hand", Machine([0.0, 0.0], 0.01, payload=2.5))


@pytest.mark.parametrize(
    "changes", [{"rest": 60.0}, {"goal_time_tolerance": 0.1}, {"goal_time_tolerance": 60.0}, {"payload_kg": None}]
)
def test_what_the_client_can_do_is_done(changes):
    files = by_hand()
    program = json.loads(files["by_hand.json"]) | changes
    text = json.dumps(program)
    assert check.execute({**files, "by_hand.json": text}, "by_hand", Machine([0.0, 0.0], 0.01, payload=2.5)).stretches


RUNS = {"tidy.yaml": [[0.1, -0.25], [0.2, -0.5]], "json_in_yaml.yaml": [[0.25]]}
REJECTED = {
    "echo.yaml": "header must be empty",
    "one_line_goal.yaml": "the message must have header, joint_names, points, and has trajectory",
    "publisher_parameters.yaml": "and has publisher_joint_trajectory",
    "velocities_only.yaml": "point 1 must have .*accelerations",
    "ros_one.yaml": "header must have stamp, frame_id, and has seq",
    "decimal_comma.yaml": "positions must list 2 numbers",
    "exponent_without_point.yaml": "has '1e-3', expected a number with a decimal point",
    "whole_number.yaml": "has 1, expected a number with a decimal point",
    "ends_in_motion.yaml": "does not end at rest",
    "float_seconds.yaml": "must be whole seconds",
}
UNREADABLE = {
    "python_object.yaml": "line 2: .*tags, anchors, aliases",
    "anchors.yaml": "line 1: .*tags, anchors, aliases",
    "merge_key.yaml": "line 4: expected `key: value`",
    "tabs.yaml": "line 3: is indented by a tab",
    "two_documents.yaml": "line 5: begins a second document",
    "not_a_number.yaml": "line 4: has '.nan'",
    "octal.yaml": "line 4: has '010', which YAML takes for another number",
    "twice.yaml": "line 5: states 'positions' a second time",
    "literal_block.yaml": "line 1: .*block text",
    "unclosed.yaml": "expected a comma or ]",
    "hand_formatted.yaml": "line 1: is a YAML directive",
}


def test_the_corpus_is_complete():
    assert {*RUNS, *REJECTED, *UNREADABLE, "by_hand_main.yaml"} == {path.name for path in FOREIGN.glob("*.yaml")}


@pytest.mark.parametrize("name", [*RUNS, *REJECTED])
def test_foreign_messages_are_read_as_yaml_readers_do(name):
    text = (FOREIGN / name).read_text()
    oracle = YAML(typ="safe", pure=True)
    oracle.version = (1, 1)  # which ROS 2 reads with
    read = read_yaml(name, text)
    with warnings.catch_warnings(action="ignore"):
        expected = next(iter(oracle.load_all(text.replace("1e-3", "'1e-3'"))))  # a string to PyYAML alone
    assert repr(read) == repr(expected)
    if name in RUNS:
        assert check.trajectory(name, read).q.tolist() == RUNS[name]
    else:
        with pytest.raises(ProgramError, match=REJECTED[name]):
            check.trajectory(name, read)


@pytest.mark.parametrize("name", UNREADABLE)
def test_foreign_files_that_are_not_read(name):
    with pytest.raises(ProgramError, match=UNREADABLE[name]):
        read_yaml(name, (FOREIGN / name).read_text())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n",
        "[" * 5000,
        "a: " + "{b: " * 500,
        "- " * 500 + "x",
        '"\\ud800',
        "a: 'x",
        "{a}",
        "[1,,2]",
        "a: \0",
        "? [a]",
    ],
)
def test_nonsense_is_an_error_not_a_crash(text):
    with pytest.raises(ProgramError):
        check.trajectory("x.yaml", read_yaml("x.yaml", text))


def test_points_are_read_at_once_only_where_they_stand_as_points():
    row = "[1.0, -2.5]"
    rest = f"  velocities: {row}\n  accelerations: {row}\n  effort: []\n  time_from_start: {{sec: 1, nanosec: 20}}\n"
    point = f"- positions: {row}\n{rest}"
    read = {key: [1.0, -2.5] for key in ("positions", "velocities", "accelerations")}
    read |= {"effort": [], "time_from_start": {"sec": 1, "nanosec": 20}}
    assert read_yaml("x", f"points:\n{point}{point}") == {"points": [read, read]}
    octal = point.replace("sec: 1,", "sec: 010,")  # 8 to YAML 1.1: refused
    string = point.replace("1.0, -2.5", "1e-3, 2.0", 1)  # a string to YAML 1.1
    with pytest.raises(ProgramError, match="line 11.*010"):
        read_yaml("x", f"points:\n{point}{octal}")
    mixed = read_yaml("x", f"points:\n{point}{string}")
    assert mixed["points"] == [read, {**read, "positions": ["1e-3", 2.0]}]
    text = f'frame_id: "a\n{point}  b"\npoints: [1]\n'  # looks like a point, but is a part of a string
    assert read_yaml("x", text) == {"frame_id": "a " + " ".join(point.split()) + " b", "points": [1]}
    marked = read_yaml("x", f'points:\n{point}- "a point that was read"\n')
    assert marked["points"] == [read, "a point that was read"]


def test_escapes_beyond_unicode_are_refused():
    with pytest.raises(ProgramError, match="is not YAML"):
        read_yaml("x.yaml", '"\\UFFFFFFFF"')
    surrogate = (FOREIGN / "json_in_yaml.yaml").read_text().replace('["a"]', '["\\ud800"]')
    with pytest.raises(ProgramError, match="joint_names must list names"):
        check.trajectory("x.yaml", read_yaml("x.yaml", surrogate))


def test_each_situation_is_refused_before_anything_moves(plan_of):
    plan = plan_of(payload=2.0)
    assert not run(plan).halted
    away = to_axes(plan.robot, TARGET, plan.home + np.radians(0.6))
    for changes, words in (
        ({"override": 0.5}, "50 % of its speed"),
        ({"axes": away}, "drive the robot home"),
        ({"payload": 1.0}, "planned with 2 kg on the flange, not with 1 kg"),
    ):
        execution = run(plan, **changes)
        assert words in execution.halted
        assert not execution.stretches


@pytest.fixture
def stopping(monkeypatch):
    def stop(*_, **__):
        raise client.Stopped("main: aborted; nothing more will move")

    monkeypatch.setattr(client, "conduct", stop)


def test_a_stop_is_a_fault_of_the_program_unless_an_event_made_it(plan_of, stopping):
    plan = plan_of(payload=2.0)
    with pytest.raises(ProgramError, match="aborted"):
        run(plan)
    assert "aborted" in run(plan, events=(Event("override", 50.0, 0.1),)).halted


def test_one_joint_far_from_home_is_enough_to_refuse_the_way(plan_of):
    plan = plan_of()
    away = to_axes(plan.robot, TARGET, plan.home)
    away[1] += 0.03
    robot = check._Robot(list(plan.robot.joint_names), Machine(away, 0.004), {})
    goal = {"path": {}, "tolerances": {}, "time_tolerance": 0.5}
    point = {"positions": to_axes(plan.robot, TARGET, plan.home).tolist(), "time_from_start": {"sec": 5}}
    with pytest.raises(ProgramError, match="too far away"):
        robot.follow("home", goal | {"trajectory": {"points": [point]}})


def caught(plan, files):
    try:
        execution = run(plan, files)
        if differences(plan, TARGET, execution, 0.004):
            return True
        away = to_axes(plan.robot, TARGET, plan.home + np.radians(5.0))
        situations = [{"override": 0.5}, {"axes": away}, {"payload": (plan.payload or 0.0) + 1.0}]
        return any(run(plan, files, **changes).stretches for changes in situations[: 3 if plan.payload else 2])
    except ProgramError:
        return True


@pytest.mark.parametrize(
    "given", [{"payload": 2.0, "period": 2.0, "ramp": 1.0}, {"moves": True, "payload": 1.0}], ids=["series", "moves"]
)
@pytest.mark.slow
def test_every_mutation_is_caught(plan_of, given):
    plan = plan_of(**given)
    files = {**ros2.emit(plan, "p", 0.2), "ros2_client.py": Path(client.__file__).read_text()}
    assert not caught(plan, files)
    found = {label: (changed != files, caught(plan, changed)) for label, changed in mutations(files, "p")}
    assert len(found) >= 40
    assert {label for label, (differs, seen) in found.items() if not (differs and seen)} == set()


def test_durations_add_up(plan_of):
    plan = plan_of(way=2)
    data = json.loads(ros2.emit(plan, "p", None)["p.json"])
    assert [s["duration"] for s in data["stretches"]] == [plan.stretch(name).duration for name in Stretches]


def test_slow_ways_have_few_points(plan_of):
    plan = plan_of("tx40", period=4.0, ramp=1.0)
    ways = tuple(replace(move, time=15.0 * move.time) for move in plan.out.segments)
    plan = replace(plan, out=replace(plan.out, segments=ways))
    made = ros2.emit(plan, "excitation", None)
    points = len(json.loads(made["excitation_out.json"])["points"])
    assert points <= plan.out.duration / 0.5 + 1
    assert ros2.fitting_spacing(plan, "main") == pytest.approx(0.025)
