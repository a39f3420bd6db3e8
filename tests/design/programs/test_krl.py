"""KRL programs: executed against planned, refusals, programs written by others, mutations."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.design.programs.interpolate import worst_position
from excitor.design.programs.krl import spline as krl
from excitor.design.programs.krl import spline_controller as check
from excitor.design.programs.krl.language import parse, run
from excitor.design.programs.krl.spline_controller import KrlRobot
from excitor.design.programs.target import CannotDrive, Machine, ProgramError, to_axes
from excitor.design.programs.target import check as check_plan
from excitor.design.programs.verify import Judge, verify
from tests.mutations.krl import mutations
from tests.plans import lines, there

FOREIGN = Path(__file__).parent / "foreign" / "krl"
HOSTILE = 'x"\r\nEND\r\n;FOLD "); PTP {A1 0} é END ' + "long " * 60


def emitted(plan, name="excitation", spacing=None):
    return krl.emit(plan, name, spacing)


def machine_of(plan, **given):
    return Machine(
        **{"axes": to_axes(plan.robot, krl.TARGET, plan.home), "step": 0.004, "payload": plan.payload or 0.0} | given
    )


def verified(plan, files=None, name="excitation"):
    return verify(plan, krl.TARGET, check, files=files or emitted(plan, name), name=name, judge=Judge())


def scaled(plan, by):
    return replace(plan, body=plan.body.scaled(by))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"way": 3, "payload": 2.5},
        {"moves": True, "way": 2},
        {"robot": "kr150", "period": 6.3, "harmonics": range(1, 13), "swing": 0.05},
        {"robot": "kr150", "harmonics": (2, 5), "measured": 4, "warm_up": 0, "ramp": 3.2},
        {"robot": "ur10", "seed": 5},
    ],
    ids=str,
)
def test_programs_do_what_was_planned(plan_of, given):
    plan = plan_of(**given)
    verdict = verified(plan)
    assert not verdict.problems
    assert verdict.max_position_error <= np.radians(1.2e-5)  # REAL: half a unit in the last place of 180 degrees


@pytest.mark.parametrize("by", [0.0, 1e-9, -1.0, 100.0])
def test_coefficients_of_any_size(plan_of, by):
    assert not verified(scaled(plan_of(), by)).problems


def test_dry_runs_and_hostile_names(plan_of):
    plan = plan_of(run=HOSTILE, campaign=HOSTILE)
    dry = replace(plan, dry=True)
    for each in (plan, dry):
        text = emitted(each)["excitation.src"]
        assert not verified(each).problems
        assert max(map(len, text.split("\r\n"))) < 130
        assert text.isascii()
        assert "\n" not in text.replace("\r\n", "")
    assert "DRY RUN" in emitted(dry)["excitation.src"]


def test_a_program_without_ways(plan_of):
    plan = plan_of()
    plan = there(plan)
    assert not verified(plan).problems
    execution = check.execute(emitted(plan), "excitation", machine_of(plan))
    assert [stretch.name for stretch in execution.stretches] == ["main"]


@pytest.mark.parametrize("spacing", [0.02, 0.25])
def test_points_divide_every_part_of_the_run(plan_of, spacing):
    plan = plan_of(period=4.1, ramp=2.2)
    execution = check.execute(emitted(plan, spacing=spacing), "excitation", machine_of(plan))
    (main,) = [stretch for stretch in execution.stretches if stretch.name == "main"]
    gaps = np.diff(main.t)
    assert gaps.max() <= spacing + 0.1
    for begin in (3.2, 7.3, 11.4):  # of the periods
        assert np.abs(main.t - begin).min() < 1e-9
    assert main.t[-1] == pytest.approx(plan.body.duration)
    assert worst_position(plan, krl.TARGET, execution) < 1e-7


def test_ways_are_no_faster_than_they_were_certified(plan_of):
    plan = plan_of("kr150", way=3)
    lines = emitted(plan)["excitation.src"].split("\r\n")
    speeds = [int(line.split(",")[1][:-1]) for line in lines if "VEL_PTP" in line]
    assert len(speeds) == 1 + 3 + 1 + 3
    for move, speed in zip(plan.out.moves, speeds[1:4], strict=True):
        least = np.max(np.abs(move.goal - move.origin) / plan.robot.limits.velocity) / (speed / 100.0)
        assert least >= move.duration or speed == 1


def test_ways_of_robots_without_limits_run_at_ten_per_cent(plan_of):
    plan = plan_of()
    object.__setattr__(plan.robot.limits, "velocity", np.full(6, np.inf))
    object.__setattr__(plan.robot.limits, "acceleration", np.full(6, np.inf))
    text = emitted(plan)["excitation.src"]
    assert text.count("BAS (#VEL_PTP,10)") == 3
    assert text.count("BAS (#ACC_PTP,10)") == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"override": 0.5}, "override must be 100 percent"),
        ({"automatic": False}, "T1 limits the speed"),
        ({"payload": 6.0}, "load data of tool 1 must say 5.000 kg"),
        ({"axes": None}, "axis A1 is not within 0.5 degrees"),
    ],
)
def test_refusals_come_before_any_motion(plan_of, given, told):
    plan = plan_of(payload=5.0)
    if "axes" in given:
        given = {"axes": to_axes(plan.robot, krl.TARGET, plan.home + np.radians(0.6))}
    execution = check.execute(emitted(plan), "excitation", machine_of(plan, **given))
    assert told in execution.halted
    assert not execution.stretches
    assert not execution.events


@pytest.mark.parametrize(("delay", "halted"), [(0.25, ""), (9.9, ""), (np.inf, "the trace does not start")])
def test_a_trace_that_does_not_start_is_reported(plan_of, monkeypatch, delay, halted):
    plan = plan_of()
    monkeypatch.setattr(KrlRobot, "trace_delay", delay)
    execution = check.execute(emitted(plan), "excitation", machine_of(plan))
    assert halted in execution.halted
    if halted:
        assert [stretch.name for stretch in execution.stretches] == ["out"]
    else:
        assert not execution.halted
        assert worst_position(plan, krl.TARGET, execution) < 1e-7


def test_traces_have_short_names_of_their_own(plan_of):
    names = [f"excitation_{k}" for k in range(50)]
    assert len({krl.trace_name(name) for name in names}) == 50
    for name in names[:2]:
        text = emitted(plan_of(), name)[f"{name}.src"]
        assert f'$TRACE.NAME[]="{krl.trace_name(name)}"\r\n' in text
        assert f"; The trace is called {krl.trace_name(name)}.\r\n" in text
        assert re.fullmatch(r"EX[0-9A-F]{5}", krl.trace_name(name))
    told = " ".join(krl.TARGET.loading)
    assert told.index("(BCO). Press start again") < told.index("Start alone must not go on")


def test_a_robot_almost_at_home_goes_there_first(plan_of):
    plan = plan_of()
    near = to_axes(plan.robot, krl.TARGET, plan.home + np.radians(0.3))
    out = check.execute(emitted(plan), "excitation", machine_of(plan, axes=near)).stretches[0]
    assert out.axes[0] == pytest.approx(to_axes(plan.robot, krl.TARGET, plan.home), abs=1e-5)
    without = {"excitation.src": emitted(plan)["excitation.src"].replace("  PTP {", "  ; PTP {", 1)}
    assert verified(plan, without).problems


def test_robots_it_cannot_drive(plan_of, gantry):
    with pytest.raises(CannotDrive, match="7 joints"):
        check_plan(plan_of("iiwa"), krl.TARGET)
    with pytest.raises(CannotDrive, match="2 joints"):
        check_plan(plan_of(gantry), krl.TARGET)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"period": 2.0}, {"moves": True, "way": 3}], ids=str)
def test_every_mutation_is_noticed(plan_of, given):
    plan = plan_of(payload=3.0, **given)
    found = list(mutations(emitted(plan), "excitation"))
    assert len(found) >= 40
    assert not [label for label, files in found if not verified(plan, files).problems]


def test_an_emitter_that_errs_is_noticed(plan_of, monkeypatch):
    right = krl.in_axes

    def wrong(plan, target):
        axes = right(plan, target)
        return replace(axes, body=axes.body.mapped(lambda x, order: 1.001 * x))

    monkeypatch.setattr(krl, "in_axes", wrong)
    assert verified(plan_of()).problems


# Programs written by others


def foreign(name, axes=(0.0,) * 6, **given):
    text = (FOREIGN / f"{name}.src").read_bytes().decode("cp1252")
    robot = KrlRobot(Machine(np.array(axes, dtype=float), 0.004, **given))
    module = parse(text, f"{name}.src", (), robot.routines)
    check.drive(module, robot)
    return robot


def test_a_program_written_by_hand():
    home = (0.0, -90.0, 90.0, 0.0, 0.0, 0.0)
    robot = foreign("truth", home)
    out, main, back = robot.stretches()
    assert (out.kind, main.kind, back.kind) == ("way-points", "points", "way-points")
    assert out.axes.tolist() == [list(home), [10.5, -80.0, 85.25, 1.0, -2.0, 3.0]]
    assert main.t == pytest.approx([0.0, 0.1, 0.2, 2.2, 7.2, 8.2])
    assert main.axes[:, 0].tolist() == [10.5, 10.5, 10.5, 11.5, 12.5, 12.0]
    assert main.axes[:, 5].tolist() == [3.0, 3.0, 3.0, 3.0, 3.5, 3.0]
    assert back.axes.tolist() == [[12.0, -79.0, 85.25, 1.0, -2.0, 3.0], list(home)]
    assert robot.events == ["out", "log on", "main", "log off", "back"]
    assert foreign("truth", home, override=0.99).halted == "not ready"


def test_foreign_arithmetic():
    third, half = float(np.float32(1.0) / np.float32(3.0)), 19.5 + 0.5 + 4.0
    # 1 + 4 + 7 + 10 = 22, less five halves is 19.5
    assert foreign("arithmetic").pose.tolist() == pytest.approx([3.0, -8.0, third, half, 45.0, 3.0], abs=1e-5)
    assert foreign("arithmetic").pose[2] == third


def test_foreign_routines():
    ways = foreign("routines").ways["out"]
    assert [pose.tolist() for pose in ways] == [[0.0] * 6, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0, 0, 0, 0, 7.0, 2.0]]


def test_foreign_text():
    robot = foreign("text")
    assert robot.pose.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert robot.message.startswith("semicolons; and")


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("cartesian", 3, "LIN needs the robot's geometry"),
        ("dense", 4, "a rounded corner is passed at no stated place and time"),
        ("cp_spline", 2, "the spline block runs without the trace"),
        ("durations", 6, "shares of the time block sum to 0.1 %"),
        ("late_start", 5, "TIME_BLOCK PART is out of order"),
        ("jump", 2, "cannot read|'=' is expected"),
        ("data", 1, "DEFDAT declares data"),
        ("gate", 6, "moves when start is pressed again"),
        ("spin", 4, "100000 passes without waiting or moving"),
        ("forever", 3, "still running after 100000 s"),
        ("depth", 2, "calls nest deeper than 50"),
        ("trigger", 2, "TRIGGER switches on the way"),
        ("sensor", 3, "there is no routine RSI_CREATE"),
        ("precedence", 2, "stands where TRUE or FALSE is expected"),
        ("initial", 2, "declares without a value"),
    ],
)
def test_foreign_programs_are_refused_with_a_sentence(name, line, told):
    with pytest.raises(ProgramError, match=told) as caught:
        foreign(name)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("X=1", "X is not declared"),
        ("BAS(#VEL_PTP,5)\nBAS(#ACC_PTP,5)\nPTP {A1 1,A2 2}", "every axis once"),
        ("PTP {A1 1,A1 1,A2 0,A3 0,A4 0,A5 0,A6 0}", "twice"),
        ("WAIT SEC TRUE", "a number is expected"),
        ("WAIT SEC -1", "waits for -1 s"),
        ("IF 1 THEN\nENDIF", "TRUE or FALSE is expected"),
        ("IF 1/0==1 THEN\nENDIF", "divides by zero"),
        ("IF 3.5E38==1 THEN\nENDIF", "too large for a REAL"),
        ("IF 2147483648==1 THEN\nENDIF", "too large for an INT"),
        ("IF SQRT(-1)==1 THEN\nENDIF", "not defined for"),
        ("IF $FOO THEN\nENDIF", "not among the system variables"),
        ("IF #T1==1 THEN\nENDIF", "compares"),
        ("$OV_PRO=100", "must not be written"),
        ("WAIT FOR $OV_PRO==50", "waits for what does not come"),
        ("BAS(#VEL_PTP,10.5)", "BAS does not know"),
        ("EXIT", "stands in none"),
        ("ENDIF", "stands where END"),
        ("PTP {A1 1,000,A2 0,A3 0,A4 0,A5 0,A6 0}", "name is expected"),
        ("$TRACE.MODE=#T_START", "without a name"),
        ('$TRACE.NAME[]="EIGHTEEN"', "more than 7 letters"),
        ("DECL INT I\nI=1\nDECL INT K", "before the first statement"),
        ("NOWHERE()", "no routine NOWHERE"),
        ("HALT\nHALT\nHALT\nRETURN\nFOO BAR", "is expected|too much"),
        ("(" * 3000 + "1" + ")" * 3000, "name is expected"),
        ("IF " + "(" * 3000 + "1" + ")" * 3000 + "==1 THEN\nENDIF", "nests too deep"),
    ],
)
def test_wrong_statements_are_refused_with_a_sentence(body, told):
    robot = KrlRobot(Machine(np.zeros(6), 0.004))
    with pytest.raises(ProgramError, match=told):
        run(parse(f"DEF X1( )\n{body}\nEND\n", "x.src", (), robot.routines), robot)


def test_ways_wait_for_a_move_that_leads_nowhere(plan_of):
    plan = plan_of()
    longer = replace(plan, out=lines(plan.robot.joint_names, 0.004, plan.home, (plan.home, 1.0)) + plan.out)
    assert not verified(longer).problems
