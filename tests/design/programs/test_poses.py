"""First runs at reduced speed: which poses, how fast by differences of places, and what their judge finds."""

import re
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.constraints.constraints import Constraints
from excitor.design.programs import registry
from excitor.design.programs.package import package
from excitor.design.programs.poses import SPEED, fast, poses_plan, slowed
from excitor.design.programs.target import POSES, CannotDrive, Machine, to_axes
from excitor.design.programs.verify import Judge, verify
from excitor.robots.dynamics import frame_pose

MANUAL = ("urscript", "rapid", "krl", "krl-rsi", "fanuc-j519", "rapid-move", "fanuc")


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


OTHERS = ("csv", *slow("ros2", "twincat", "val3"))


def constraints_of(robot):
    n = robot.n_joints
    limits = replace(robot.limits, torque=np.full(n, np.inf))
    return Constraints(limits, np.full(n, np.inf))


def first_run(plan):
    made = poses_plan(plan, constraints_of(plan.robot), False)
    assert not isinstance(made, str), made
    return made


@pytest.fixture(scope="module")
def planned(plan_of):
    plan = plan_of("tx40", payload=2.0, step=0.008)
    return plan, first_run(plan)


def speeds(robot, q, t):
    """Return the peak speeds of the tool point and of the origin of its link, by differences of their places, m/s."""
    flange = replace(robot, tool=replace(robot.tool, T_link_frame=np.eye(4)))
    places = [frame_pose(each, q)[:, :3, 3] for each in (robot, flange)]
    return [float((np.linalg.norm(np.diff(p, axis=0), axis=1) / np.diff(t)).max()) for p in places]


@pytest.mark.parametrize("name", ["rotradi", *slow("tx40", "qrc350", "kr150", "ur10", "iiwa")])
def test_it_visits_all_extremes_below_the_speed(plan_of, name):
    plan = plan_of(name, harmonics=(1, 2), swing=0.2)
    made = first_run(plan)
    robot, knots = plan.robot, made.out.knots
    t = np.arange(0.0, made.out.duration, 0.005)
    reached = speeds(robot, made.out.at(t), t)
    assert max(reached) <= SPEED
    assert max(reached) > 0.5 * SPEED
    body = plan.body.at(np.linspace(0.0, plan.body.duration, 4001))
    for extreme in (np.min, np.max):
        np.testing.assert_allclose(extreme(knots[1:-1], axis=0), extreme(body, axis=0), atol=np.radians(1.1))
        tools = [extreme(frame_pose(robot, q)[:, :3, 3], axis=0) for q in (knots[1:-1], body)]
        np.testing.assert_allclose(*tools, atol=0.06)
    np.testing.assert_array_equal(knots[[0, -1]], [plan.home, plan.home])
    words = ", ".join(made.poses)
    assert all(f"lowest {joint}" in words and f"highest {joint}" in words for joint in robot.joint_names)
    assert len(made.poses) == len(knots)
    assert made.role == "none"


def test_ways_of_dry_runs_are_slowed_down_on_the_same_lines(planned):
    plan, _ = planned
    quick = replace(plan.out, segments=tuple(replace(one, time=0.4, blend=0.0) for one in plan.out.segments))
    slow = slowed(plan.robot, quick)
    t = np.arange(0.0, slow.duration, 0.001)
    assert fast(plan.robot, quick)
    assert not fast(plan.robot, slow)
    assert max(speeds(plan.robot, slow.at(t), t)) <= SPEED
    np.testing.assert_array_equal(slow.knots, quick.knots)
    assert slowed(plan.robot, slow) is not None
    assert slowed(plan.robot, slow).duration == slow.duration


def judged(plan, target, files):
    emitter, executor = registry.emitter(target), registry.executor(target, poses=True)
    return verify(plan, emitter.TARGET, executor, files=files, name=f"excitation{POSES}", judge=Judge())


def files_of(plan, target):
    made = package(registry.emitter(target), [plan])
    assert [program.name for program in made.programs] == [f"excitation{POSES}"]
    return made.texts


@pytest.mark.parametrize("target", [*MANUAL, *OTHERS])
def test_every_target_makes_it_and_one_too_fast_or_short_is_found(planned, target):
    _, made = planned
    assert judged(made, target, files_of(made, target)).problems == ()
    times = [0.008 * round(one.time / 0.016) for one in made.out.segments]
    quicker = tuple(replace(one, time=T, blend=T / 3.0) for one, T in zip(made.out.segments, times, strict=True))
    quick = replace(made, out=replace(made.out, segments=quicker))
    verdict = judged(made, target, files_of(quick, target))
    assert any("mm/s" in problem for problem in verdict.problems)
    short = made.out.segments[:-2]
    last = replace(made.out.segments[-1], origin=short[-1].goal)
    short = replace(made, out=replace(made.out, segments=(*short, last)))
    assert judged(made, target, files_of(short, target)).problems


@pytest.mark.slow
def test_the_seven_joint_client_makes_it(plan_of):
    made = first_run(plan_of("iiwa", step=0.001))
    assert judged(made, "franka", files_of(made, "franka")).problems == ()


EDITS = {
    "urscript": [
        ("a blend", r"(movej\(\[.*), v=", r"\1, r=0.05, v="),
        ("too fast", r"a=[\d.]+, v=[\d.]+\)(?=\n movej)", "a=3.0, v=3.0)"),
        ("not home", r"norm\(ex_q\[2\] - ex_h\[2\]\) > 0.0087", "norm(ex_q[2] - ex_h[2]) > 0.2"),
        ("a pose less", r"(movej\(\[.*\n)( movej\(\[.*\n)", r"\1"),
    ],
    "rapid": [
        ("a zone", r"fine, exTool;(?=\s+EXIT)", "z10, exTool;"),
        ("too fast", r"\\T:=[\d.]+, fine, exTool;(?=\s+EXIT)", r"\\T:=0.1, fine, exTool;"),
        ("override", r"        GetSysData exTool;", "        IF CSpeedOverride() < 100 THEN\n EXIT;\n ENDIF\n\\g<0>"),
        ("mode", r"        GetSysData exTool;", "        IF OpMode() <> OP_AUTO THEN\n EXIT;\n ENDIF\n\\g<0>"),
    ],
    "krl": [
        ("too fast", r"#VEL_PTP,\d+\)(?=\r\n  BAS \(#ACC_PTP,\d+\)\r\n  PTP)", "#VEL_PTP,20)"),
        ("a pose less", r"(  PTP \{.*\r\n)(  BAS.*\r\n  BAS.*\r\n  PTP \{.*\r\n)", r"\1"),
        ("override", r"  BAS \(#TOOL,1\)", "  IF $OV_PRO<100 THEN\r\n  HALT\r\n  ENDIF\r\n\\g<0>"),
        ("mode", r"  BAS \(#TOOL,1\)", "  IF $MODE_OP==#T1 THEN\r\n  HALT\r\n  ENDIF\r\n\\g<0>"),
    ],
    "fanuc": [("rounded", r"(J P\[3\] \d+% )FINE", r"\1CNT100"), ("too fast", r"(J P\[5\] )\d+%", r"\g<1>60%")],
    "val3": [("rounded", "waitEndMove\\(\\)\n  nStep=0", "nStep=0")],
    "csv": [("another line", r"\n(?P<t>[\d.]+),out,0,([-\d.]+),", r"\n\g<t>,out,0,0.5,")],
}  # fmt: skip


@pytest.mark.parametrize(("target", "edit"), [(t, edit) for t, edits in EDITS.items() for edit in edits])
def test_edits_of_files_are_found(planned, target, edit):
    _, made = planned
    _, pattern, by = edit
    files = dict(files_of(made, target))
    changed = {name: re.sub(pattern, by, text) for name, text in files.items()}
    assert changed != files
    assert judged(made, target, changed).problems


def test_moves_of_a_script_by_another_integration(planned):
    """Ramp the joint with the longest way by what each movej states, the others along, and difference the places."""
    plan, made = planned
    text = files_of(made, "urscript")[f"excitation{POSES}.script"]
    here, dt = plan.home, 1e-3
    for q, a, v in re.findall(r"movej\(\[(.*)\], a=([\d.]+), v=([\d.]+)\)", text):
        goal, a, v = np.array(q.split(", "), float), float(a), float(v)
        longest, rate, gone, path = np.abs(goal - here).max(), 0.0, 0.0, [0.0]
        while gone < longest - 1e-6:
            rate = min(rate + a * dt, v, np.sqrt(2.0 * a * max(longest - gone, 1e-9)))
            gone = min(gone + rate * dt, longest)
            path.append(gone)
        q = here + np.array(path)[:, None] / longest * (goal - here)
        assert max(speeds(plan.robot, q, dt * np.arange(len(q)))) <= SPEED
        here = goal
    np.testing.assert_allclose(here, plan.home, atol=1e-9)


def test_a_target_that_cannot_says_so(planned, monkeypatch):
    plan, made = planned
    emitter = registry.emitter("csv")
    monkeypatch.setattr(emitter, "TARGET", replace(emitter.TARGET, poses=False))
    with pytest.raises(CannotDrive, match="first run"):
        package(emitter, [made])
    assert Machine(to_axes(plan.robot, emitter.TARGET, plan.home), 0.004).top is None
