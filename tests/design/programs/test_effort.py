"""Torque programs: tables with guards; a client that does not stop at each threshold is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.motion import Run, Table, line_run
from excitor.design.programs import effort
from excitor.design.programs.clients import torque_client
from excitor.design.programs.package import encoded_files, package
from excitor.design.programs.plan import Plan, Torques
from excitor.design.programs.target import CannotDrive
from excitor.robots.load import load

STEP, SAMPLES = 0.005, 41


@pytest.fixture(scope="module")
def plan():
    robot, t = load("rotradi"), STEP * np.arange(SAMPLES)
    swing = np.outer(1.0 - np.cos(2.0 * np.pi * t / t[-1]), [0.2, -0.1, 0.3])
    rates = np.outer(np.sin(2.0 * np.pi * t / t[-1]), [0.2, -0.1, 0.3]) * 2.0 * np.pi / t[-1]
    body = Run(robot.joint_names, STEP, (Table(
        name="measured", measured=True, t=t, q=swing, interpolation="cubic", dq=rates),))  # fmt: skip
    tau = np.sin(np.outer(t, [7.0, 11.0, 13.0]))
    tau[-1] = 0.0
    near = np.full(3, 15.0)
    torques = Torques(
        tau, STEP, np.array([15.0, 45.0, 4.5]), np.full(3, -1.0), np.full(3, 1.5), near,
        (swing.min(axis=0), swing.max(axis=0), np.abs(rates).max(axis=0)), 200, 0.1, 0.02,
    )  # fmt: skip
    out = line_run(robot.joint_names, STEP, np.zeros((1, 3)), ())
    return Plan("cell", "push", "identify", robot, out, body, torques=torques)


@pytest.fixture(scope="module", params=["csv", "ros2"])
def made(request, plan):
    return package(effort.Effort(effort.target(request.param)), [plan])


def problems(made, plan, **changed):
    return effort.verify(plan, made.target, dict(made.texts) | changed, "push").problems


def test_a_program_is_proven_and_its_page_says_what_it_is(made, plan):
    assert problems(made, plan) == ()
    page = encoded_files(made)["README.md"].decode()
    assert "UNVERIFIED MOTION" in page
    assert "200 robots drawn within ±10% of the prior" in page
    assert {"push.csv", "push.json", "torque_client.py", "ros2_program.py"} <= set(made.texts)
    rows = made.texts["push.csv"].splitlines()
    assert len(rows) == SAMPLES + 1
    assert [float(x) for x in rows[5].split(",")[3:]] == pytest.approx(plan.torques.tau[4])


@pytest.mark.parametrize(
    ("quantity", "words"),
    [("low", "lower position guard"), ("high", "upper position guard"), ("speed", "speed guard"),
     ("watchdog", "watchdog, of the last reading")],
)  # fmt: skip
def test_a_client_whose_guard_does_not_hold_is_no_program(made, plan, monkeypatch, quantity, words):
    true = torque_client.broken_guard

    def blind(program, reading, age, before):
        wide = torque_client.Program(program.data, made.texts["push.csv"])
        value = getattr(wide, quantity)
        setattr(wide, quantity, [2.0 * x for x in value] if isinstance(value, list) else 2.0 * value)
        return true(wide, reading, age, before)

    monkeypatch.setattr(torque_client, "broken_guard", blind)
    assert any(words in problem and "does not end the run" in problem for problem in problems(made, plan))


def test_a_client_that_does_not_end_with_zero_torque_is_found(made, plan, monkeypatch):
    sent = effort.Rehearsal.command
    monkeypatch.setattr(effort.Rehearsal, "command", lambda self, torques: any(torques) and sent(self, torques))
    found = problems(made, plan)
    assert any("are not those of the table, each once, and zero at the end" in problem for problem in found)
    assert any("is still pushed" in problem for problem in found)


def test_changed_files_are_no_program(made, plan):
    assert (
        "is not the table"
        in problems(made, plan, **{"push.csv": made.texts["push.csv"].replace("0.005,", "0.006,")})[0]
    )
    data = json.loads(made.texts["push.json"])
    data["high"][0] = 3.0
    assert "high differs" in problems(made, plan, **{"push.json": json.dumps(data)})[0]
    data = {key: value for key, value in data.items() if key != "watchdog"}
    assert "no torque program" in problems(made, plan, **{"push.json": json.dumps(data)})[0]
    assert "is missing" in effort.verify(plan, made.target, {}, "push").problems[0]


def test_targets_that_take_positions_refuse(plan):
    with pytest.raises(CannotDrive, match="torque programs are written for csv and ros2"):
        effort.target("urscript")
    turned = replace(plan.robot.controllers["csv"], zero=np.array([0.1, 0.0, 0.0]))
    robot = replace(plan.robot, controllers={"csv": turned})
    with pytest.raises(CannotDrive, match="axes of rotradi are not its joints"):
        package(effort.Effort(effort.target("csv")), [replace(plan, robot=robot)])


def test_a_reading_without_speeds_is_guarded_by_its_differences(made):
    program = torque_client.Program(json.loads(made.texts["push.json"]), made.texts["push.csv"])
    names = program.joints
    before, now = (torque_client.Reading(t, dict.fromkeys(names, q), {}) for t, q in ((0.0, 0.0), (0.01, 0.2)))
    assert "turns at 20" in torque_client.broken_guard(program, now, 0.0, (before, 0.01))
    assert torque_client.broken_guard(program, now, 0.0, (before, 0.1)) == ""
