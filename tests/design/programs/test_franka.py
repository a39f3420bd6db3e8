"""The 1 kHz client against a robot on a virtual clock: it does what was planned, stops when it must, and refuses."""

import csv
import json
import math
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from excitor.design.programs.clients import franka_client as client
from excitor.design.programs.clients import run_motion
from excitor.design.programs.clients.run_motion import Run
from excitor.design.programs.franka import controller as check
from excitor.design.programs.franka import emit as franka
from excitor.design.programs.franka.controller import FakeRobot, JointPositions, RobotMode
from excitor.design.programs.franka.emit import TARGET
from excitor.design.programs.interpolate import differences, worst_position
from excitor.design.programs.plan import marks
from excitor.design.programs.target import CannotDrive, Machine, ProgramError
from excitor.design.programs.target import check as fits
from excitor.robots.dynamics import rigid_torque
from excitor.robots.robot import Motion
from tests.mutations.franka import mutations
from tests.mutations.run_file import full

HOSTILE = '"}\n\x1b]0;x\x07\u202e' + "y" * 300
SHORT = {"period": 2.0, "ramp": 1.0, "measured": 1, "warm_up": 0}

PLANS = {
    "five harmonics": {},
    "twelve with gaps": {"harmonics": (1, 3, 4, 7, 12), "period": 6.0, "measured": 1},
    "one harmonic": {**SHORT, "harmonics": (1,)},
    "moves": {"moves": True, "payload": 2.0},
    "three lines": {**SHORT, "way": 3},
    "no way": {"moves": True, "way": 0},
    "huge": {**SHORT, "swing": 1e3},
    "tiny": {**SHORT, "swing": 1e-9},
    "still": {**SHORT, "swing": 0.0},
    "hostile": {**SHORT, "run": HOSTILE, "campaign": HOSTILE},
    "odd step": {**SHORT, "period": 2.1, "step": 0.005, "ramp": 1.05},
}


def machine_of(plan, **changes):
    return replace(Machine(plan.home, 0.001, payload=plan.payload or 0.0), **changes)


def execute(plan, files=None, **changes):
    return check.execute(files or franka.emit(plan, "p", None), "p", machine_of(plan, **changes))


@pytest.mark.parametrize("name", PLANS)
def test_every_command_is_where_it_was_planned(plan_of, name):
    plan = plan_of("iiwa", **PLANS[name])
    execution = execute(plan)
    assert differences(plan, TARGET, execution, 0.001) == []
    assert worst_position(plan, TARGET, execution) <= (1e-12 if name != "huge" else 1e-10)
    assert [mark for _, mark in execution.marks] == [mark for _, mark in marks(plan)]
    assert [t for t, _ in execution.marks] == pytest.approx([t for t, _ in marks(plan)], abs=1e-9)
    for stretch in execution.stretches:
        steps = np.diff(stretch.axes[[0, 1, -2, -1]], axis=0)[[0, 2]]  # at rest at both ends
        assert np.abs(steps).max() <= 1e-8 * max(1.0, PLANS[name].get("swing", 1.0))


@pytest.mark.parametrize("seed", range(3))
def test_any_plan(plan_of, seed):
    random = np.random.default_rng(seed)
    harmonics = sorted(random.choice(np.arange(1, 13), random.integers(1, 6), replace=False).tolist())
    plan = plan_of(
        "iiwa", harmonics=harmonics, seed=seed, period=3.0, ramp=float(random.integers(1, 4)), measured=1, warm_up=1,
        way=int(random.integers(1, 4)), swing=float(10.0 ** random.uniform(-6, 1)),
    )  # fmt: skip
    assert differences(plan, TARGET, execute(plan), 0.001) == []


@pytest.mark.slow
def test_a_long_run_takes_less_than_25_us_a_step(plan_of):
    plan = plan_of("iiwa", period=10.0, measured=10, ramp=10.0)
    files = franka.emit(plan, "p", None)
    begun = time.process_time()
    execution = execute(plan, files)
    spent = time.process_time() - begun
    assert differences(plan, TARGET, execution, 0.001) == []
    assert spent / sum(len(stretch.t) for stretch in execution.stretches) < 25e-6


def test_its_size_does_not_grow_with_the_periods(plan_of):
    sizes = [len(franka.emit(plan_of("iiwa", measured=n), "p", None)["p.json"]) for n in (1, 9)]
    assert sizes[1] - sizes[0] < 400  # marks alone
    assert sizes[0] < 6000


def test_other_robots_are_refused_by_name(plan_of, gantry):
    for robot, words in (("tx40", "tx40 has 6 joints"), (gantry, "gantry has 2 joints")):
        with pytest.raises(CannotDrive, match=words):
            fits(plan_of(robot), TARGET)


def by_hand(**changes):
    data = {
        "format": "excitor-run", "version": 2, "campaign": "c", "run": "r", "dry": True, "axes": list("abcdefg"),
        "units": ["rad"] * 7, "payload_kg": None, "home": [0.0] * 7, "out": [],
        "main": {"series": {
            "period": 4.0, "harmonics": [1], "settle": 0.0, "ramp": 4.0, "warm_up": 0, "measured": 1, "hold": 0.0,
            "center": [0.0] * 7, "sines": [[0.5], *[[0.0]] * 6], "cosines": [[0.0]] * 7,
        }},
        "back": [], "marks": [[0.0, 3], [4.0, 1001], [8.0, 4]],
    }  # fmt: skip
    return {"h.json": json.dumps(full(data | changes))}


def test_a_run_typed_by_hand_does_what_it_says():
    (main,) = check.execute(by_hand(), "h", Machine([0.0] * 7, 0.001)).stretches
    assert len(main.t) == 12_001
    assert main.axes[[0, 2000, 5000, 6000, 7000, 10_000, 12_000], 0] == pytest.approx(
        [0.0, 0.0, 0.5, 0.0, -0.5, 0.0, 0.0], abs=1e-12
    )
    assert main.axes[1000, 0] == pytest.approx(0.5 * 0.070556640625, abs=1e-12)  # e(1/4) of the first quarter wave
    assert main.axes[11_000, 0] == pytest.approx(-0.5 * 0.070556640625, abs=1e-12)
    assert not main.axes[:, 1:].any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 1}, "no run of a known version"),
        ({"home": [0.0] * 6}, "segments.1.: pose has 6 entries, expected one for each of 7 joints"),
        ({"home": [0.0] * 6 + ["1"]}, "out.segments.1..pose.7.: is '1', expected"),
        ({"home": [0.0] * 6 + [10**400]}, "out.segments.1..pose.7."),
        ({"home": [0.0] * 6 + [True]}, "out.segments.1..pose.7.: is True"),
        ({"main": 3}, "main"),
        ({"main": {"moves": [{"to": [0.0] * 7, "duration": 1e6, "blend": 0.0}], "repeats": 1}}, "that is endless"),
        ({"out": [{"to": [0.0] * 7, "duration": 1.0, "blend": 0.6}]}, "out.segments.1.: a move .* blends of 0.6"),
        ({"marks": [[1.0, 3], [1.0, 4]]}, "marks do not rise"),
        ({"extra": 1}, "extra: is not a key"),
        ({"payload_kg": -1.0}, "payload_kg: is -1.0, expected greater"),
        ({"units": ["deg"] * 7}, None),
        ({"axes": ["a"], "units": ["rad"], "home": [0.0], "main": {"moves": [], "repeats": 1}}, None),
    ],
)  # fmt: skip
def test_files_that_are_no_run(changes, words):
    machine = Machine([0.0] * 7, 0.001)
    if words is None:
        assert "the robot has 7, in rad" in check.execute(by_hand(**changes), "h", machine).halted
    else:
        with pytest.raises(ProgramError, match=words):
            check.execute(by_hand(**changes), "h", machine)


@pytest.mark.parametrize("text", ["", "[", "[" * 10_000, "null", "[1]", '{"a": NaN}', '{"a": 1, "a": 2}', "9" * 5000])
def test_nonsense_is_an_error_not_a_crash(text):
    with pytest.raises(ProgramError):
        check.execute({"h.json": text}, "h", Machine([0.0] * 7, 0.001))


def test_each_situation_is_refused_before_anything_moves(plan_of):
    plan = plan_of("iiwa", payload=2.0, **SHORT)
    for changes, words in (
        ({"automatic": False}, "the robot is in mode UserStopped"),
        ({"axes": plan.home + np.radians(0.6)}, "from home"),
        ({"payload": 3.0}, "planned with 2 kg on the flange, the robot has been told 3 kg"),
    ):
        execution = execute(plan, **changes)
        assert words in execution.halted
        assert not execution.stretches


def caught(plan, files):
    try:
        if differences(plan, TARGET, execute(plan, files), 0.001):
            return True
        situations = [
            {"automatic": False},
            {"axes": plan.home + np.radians(5.0)},
            {"payload": (plan.payload or 0.0) + 1.0},
        ]
        return any(execute(plan, files, **changes).stretches for changes in situations[: 3 if plan.payload else 2])
    except ProgramError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("given", [SHORT, {"moves": True}], ids=["series", "moves"])
def test_every_mutation_is_caught(plan_of, given):
    plan = plan_of("iiwa", payload=2.0, **given)
    files = franka.emit(plan, "p", None)
    files |= {Path(module.__file__).name: Path(module.__file__).read_text() for module in (client, run_motion)}
    assert not caught(plan, files)
    found = {label: (changed != files, caught(plan, changed)) for label, changed in mutations(files, "p")}
    assert len(found) >= 35
    assert {label for label, (differs, seen) in found.items() if not (differs and seen)} == set()


def driving(plan, *, late=None, **says):
    """Run the client; the robot, the log, and with what it ended."""
    program = Run(json.loads(franka.emit(plan, "p", None)["p.json"]))
    robot = FakeRobot(says.pop("axes", plan.home), payload=plan.payload or 0.0)
    robot.success = says.pop("success", 1.0)
    robot.late = late or {}
    logs = []
    asked = says.pop("asked", lambda robot: False)
    given = {"confirm": lambda: True, "save": logs.append, "wait": lambda s: None, "say": lambda _: None} | says
    try:
        client.run(robot, program, robot, asked=lambda: asked(robot), **given)
    except (client.Refused, client.Stopped) as error:
        return robot, logs, f"{type(error).__name__}: {error}"
    return robot, logs, ""


def test_lost_packets_move_time_on_and_the_motion_with_it(plan_of):
    plan = plan_of("iiwa", **SHORT)
    robot, _, said = driving(plan, late={(2, 700): 3, (2, 701): 5})
    assert said == ""
    main = robot.sessions[2]
    t = 1e-3 * np.array(main.t)
    assert np.diff(main.t)[699:702].tolist() == [3, 5, 1]
    assert np.abs(np.array(main.q) - plan.body.at(t)).max() < 1e-12


@pytest.mark.parametrize(("session", "read"), [(1, 900), (2, 2100), (2, 2999), (3, 500), (0, 100)])
def test_a_gap_stops_the_motion_smoothly_for_good(plan_of, session, read):
    plan = plan_of("iiwa", swing=0.3, **SHORT)
    robot, logs, said = driving(plan, late={(session, read): 6})
    assert "no state for 6 ms" in said
    assert "brought to rest" in said
    assert len(robot.sessions) == session + 1  # nothing moves again
    assert len(logs) == (session >= 2)
    last = robot.sessions[-1]
    assert last.finished
    q, t = np.array(last.q), np.array(last.t)
    after = np.diff(q[read - 2 :], axis=0) / np.diff(t[read - 2 :])[:, None] / 1e-3
    speed = np.abs(after[1]).max()
    assert t[-1] - t[read] == max(300, math.ceil(1000.0 * 2.1875 * speed / 5.0))
    assert np.abs(after[-1]).max() <= 1e-5 * max(1.0, speed)
    own = max(np.abs(plan.stretch(name).at(np.linspace(0, 6, 6001), 2)).max() for name in ("out", "main", "back"))
    fastest = np.abs(after).max()
    accelerations = np.abs(np.diff(after[2:], axis=0)).max() / 1e-3
    assert accelerations <= own + 2.1875 * fastest / (1e-3 * (t[-1] - t[read]))  # no step of velocity: thousands


def test_an_interrupt_stops_it_too(plan_of):
    plan = plan_of("iiwa", **SHORT)
    robot, logs, said = driving(plan, asked=lambda robot: len(robot.sessions) == 3 and len(robot.sessions[2].q) > 1500)
    assert said.startswith("Stopped: asked to stop, 1.")
    assert len(robot.sessions) == 3
    assert len(logs) == 1
    assert len(robot.sessions[2].q) > 1501 + 300


def test_a_bad_link_is_found_before_the_way_out(plan_of):
    robot, _, said = driving(plan_of("iiwa", **SHORT), success=0.9)
    assert "only 90 % of the commands arrive" in said
    assert len(robot.sessions) == 1


def test_the_last_fraction_of_a_degree_to_home_is_made_smoothly(plan_of):
    plan = plan_of("iiwa", **SHORT)
    off = np.radians([0.4, -0.4, 0.1, 0.0, 0.3, -0.2, 0.45])
    robot, _, said = driving(plan, axes=plan.home + off)
    assert said == ""
    homing = np.array(robot.sessions[0].q)
    assert homing[:501] == pytest.approx(np.tile(plan.home + off, (501, 1)))  # holds still to try the link
    assert homing[-1] == pytest.approx(plan.home)
    assert np.abs(np.diff(homing, axis=0)).max() / 1e-3 < 0.03  # rad/s


def test_a_small_offset_at_a_segment_fades_and_a_large_one_stops(plan_of):
    for off, words in ((5e-4, ""), (2e-3, "nothing more will move")):
        robot = FakeRobot([off] * 7)
        try:
            client.stream(robot, robot, motion=lambda t: [0.0] * 7, duration=1.0)
            said = ""
        except client.Stopped as error:
            said = str(error)
        assert words in said
        if not words:
            q = np.array(robot.sessions[0].q)[:, 0]
            assert q[0] == off
            assert (np.diff(q) <= 0.0).all()
            assert q[500:] == pytest.approx(0.0, abs=1e-15)


def test_it_says_what_will_move_and_waits_for_a_word(plan_of):
    heard = []
    robot, _, said = driving(plan_of("iiwa", **PLANS["hostile"]), confirm=lambda: False, say=heard.append)
    assert said == "Refused: not confirmed"
    assert not robot.sessions
    assert len(heard[0].splitlines()) == 1 + 3 + 7
    assert "\x1b" not in heard[0]
    assert "DRY RUN" in client.summary(Run(json.loads(by_hand()["h.json"])))


def test_load_and_thresholds_are_set_before_anything_moves(plan_of):
    plan = plan_of("iiwa", payload=2.0, **SHORT)
    settings = client.Settings(load=(2.0, [0.0, 0.0, 0.05], [0.01, 0, 0, 0, 0.01, 0, 0, 0, 0.01]))
    rests = []
    robot, _, said = driving(plan, settings=settings, wait=rests.append)
    assert said == ""
    assert robot.configured == ["collision behaviour", "load"]
    assert rests == [1.0, 1.0]
    with pytest.raises(TypeError, match="expected 7"):
        JointPositions([0.0] * 6)


def test_nothing_is_set_before_the_word(plan_of):
    plan = plan_of("iiwa", payload=2.0, **SHORT)
    settings = client.Settings(load=(2.0, [0.0, 0.0, 0.05], [0.01, 0, 0, 0, 0.01, 0, 0, 0, 0.01]))
    program = Run(json.loads(franka.emit(plan, "p", None)["p.json"]))
    for axes, answer, words in ((plan.home, False, "not confirmed"), (plan.home + 0.1, True, "from home")):
        robot = FakeRobot(axes, payload=0.0)
        with pytest.raises(client.Refused, match=words):
            client.run(robot, program, robot, confirm=lambda: answer, save=print, settings=settings, say=lambda _: None)  # noqa: B023
        assert robot.configured == []
    robot = FakeRobot(plan.home, payload=0.0)  # told of no load: with --load that is no reason to refuse yet
    client.run(robot, program, robot, confirm=lambda: not robot.configured, save=lambda _: None, settings=settings,
               wait=lambda _: None, say=lambda _: None)  # fmt: skip
    assert robot.configured == ["collision behaviour", "load"]
    wrong = client.Settings(load=(3.0, [0.0] * 3, [0.0] * 9))
    robot = FakeRobot(plan.home, payload=0.0)
    with pytest.raises(client.Refused, match="has been told 3 kg"):
        client.run(robot, program, robot, confirm=lambda: True, save=print, settings=wrong, say=lambda _: None)
    assert not robot.sessions


def test_an_error_of_the_library_leaves_no_traceback(plan_of, tmp_path, monkeypatch, capsys):
    (tmp_path / "p.json").write_text(franka.emit(plan_of("iiwa", **SHORT), "p", None)["p.json"])

    class FrankaException(Exception):
        pass

    class NetworkException(FrankaException):
        pass

    def unreachable(address, config):
        raise NetworkException(f"{address} does not answer")

    library = ModuleType("pylibfranka")
    library.FrankaException, library.Robot = FrankaException, unreachable
    library.RealtimeConfig = SimpleNamespace(kEnforce=0)
    monkeypatch.setitem(sys.modules, "pylibfranka", library)
    assert client.main([str(tmp_path / "p.json"), "--robot", "192.0.2.1"]) == 1
    assert capsys.readouterr().err == "Stopped: 192.0.2.1 does not answer\n"
    monkeypatch.setitem(sys.modules, "pylibfranka", None)
    assert client.main([str(tmp_path / "p.json"), "--robot", "192.0.2.1"]) == 1


def test_errors_and_motion_are_refused(plan_of):
    plan = plan_of("iiwa", **SHORT)
    program = Run(json.loads(franka.emit(plan, "p", None)["p.json"]))
    robot = FakeRobot(plan.home)
    for field, value, words in (
        ("current_errors", "joint_reflex", "reports errors: joint_reflex"),
        ("robot_mode", RobotMode.Move, "in mode Move"),
        ("dq", [0.0] * 6 + [0.02], "joint 7 moves"),
        ("q", [math.nan] * 7, "from home"),
    ):
        state = robot.read_once()
        setattr(state, field, value)
        with pytest.raises(client.Refused, match=words):
            client.preflight(program, state, robot)


def test_the_log_has_every_state_with_its_part(plan_of, tmp_path):
    plan = plan_of("iiwa", **SHORT)
    robot, (log,), _ = driving(plan, late={(2, 700): 3})
    log.save(str(tmp_path / "log.csv"))
    with open(tmp_path / "log.csv") as file:
        heads, *rows = csv.reader(file)
    assert heads[:5] == ["time", "t", "part", "mark", "q[0]"]
    assert len(heads) == 4 + 10 * 7
    values = np.array(rows, dtype=float)
    assert len(values) == len(robot.sessions[2].q)
    assert values[:, 1] == pytest.approx(1e-3 * np.array(robot.sessions[2].t))
    assert values[1:, 4:11] == pytest.approx(np.array(robot.sessions[2].q)[:-1], rel=1e-11)  # follows a step later
    wanted = [(t, mark) for t, mark in marks(plan)]
    begun = np.flatnonzero(np.diff(values[:, 2], prepend=0.0))
    assert values[begun, 3].tolist() == [mark for _, mark in wanted]
    assert values[begun, 1] == pytest.approx([t for t, _ in wanted])


def test_the_client_needs_no_package(plan_of):
    text = Path(client.__file__).read_text()
    imported = set(re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE))
    assert {name for name in imported if not name.startswith("excitor")} <= {
        "__future__", "argparse", "gc", "json", "math", "signal", "struct", "sys", "time", "collections.abc",
        "dataclasses", "functools", "typing", "run_motion", "pylibfranka",
    }  # fmt: skip


def test_a_clock_that_slows_down_begins_at_full_rate_and_ends_at_rest():
    clock = client.Clock()
    clock.advance(1000)
    clock.stop("why", 0.0)
    times = [clock.time]
    for _ in range(client.SLOWDOWN):
        clock.advance(1)
        times.append(clock.time)
    rate = np.diff(times) / 1e-3
    assert times[0] == 1.0
    assert rate[0] == pytest.approx(1.0, abs=1e-6)
    assert (np.diff(rate) <= 1e-9).all()
    assert rate[-1] == pytest.approx(0.0, abs=1e-6)
    assert times[-1] == pytest.approx(1.0 + 0.5e-3 * client.SLOWDOWN)  # the envelope is symmetrical


def test_a_full_log_keeps_what_it_has(plan_of, tmp_path):
    plan = plan_of("iiwa", **SHORT)
    log = client.Log(Run(json.loads(franka.emit(plan, "p", None)["p.json"])), -4.998)  # room for two rows
    state = FakeRobot(plan.home).read_once()
    for t in (-1.0, 0.5, 0.6):
        log.add(t, state)
    log.save(str(tmp_path / "log.csv"))
    with open(tmp_path / "log.csv") as file:
        _, *rows = csv.reader(file)
    assert [row[1] for row in rows] == ["-1.000", "0.500"]
    assert rows[0][2:4] == ["0", "0"]  # before the first mark
    assert [len(row) for row in rows] == [len(client.COLUMNS)] * 2
    assert np.array(rows[0][4:11], dtype=float) == pytest.approx(plan.home, rel=1e-11)


def test_the_rate_of_torque_is_that_of_the_rigid_model_over_what_the_library_allows(plan_of):
    """1000 Nm/s, by differences of its own; of an arm that the library does not drive, nothing is known to hold."""
    plan = plan_of("iiwa", **SHORT)
    lines = {line.name: line for line in franka.limits(plan)}
    most = np.zeros(7)
    for name in ("out", "main", "back"):
        run = plan.stretch(name)
        t = np.linspace(0.0, run.duration, 4001)
        tau = rigid_torque(plan.robot, Motion(*(run.at(t, order) for order in range(3))))
        most = np.maximum(most, np.abs(np.diff(tau, axis=0) / np.diff(t)[:, None]).max(axis=0))
    names = [f"libfranka torque rate {joint}" for joint in plan.robot.joint_names]
    np.testing.assert_allclose([lines[name].worst for name in names], most / 1000.0, rtol=0.03, atol=1e-6)
    assert {lines[name].state for name in names} == {"unknown"}
