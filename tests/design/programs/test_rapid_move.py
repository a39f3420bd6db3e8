"""RAPID way-points: the program executed against its plan, refusals, mutations."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.programs.interpolate import differences
from excitor.design.programs.rapid import move_controller as check
from excitor.design.programs.rapid.move import TARGET, emit
from excitor.design.programs.target import (
    CannotDrive,
    Event,
    Machine,
    ProgramError,
    in_axes,
    program_names,
    table_times,
    to_axes,
)
from excitor.design.programs.target import check as check_target
from excitor.design.programs.verify import Judge, verify
from tests.mutations.rapid_move import mutations
from tests.plans import there

SHORT = {"period": 0.8, "ramp": 0.4, "measured": 1, "swing": 0.02}


def machine(plan, **given):
    return Machine(to_axes(plan.robot, TARGET, plan.home), 0.004, payload=plan.payload or 0.0, **given)


def executed(plan, name="excitation", spacing=None):
    check_target(plan, TARGET)
    return check.execute(emit(plan, name, spacing), name, machine(plan))


@pytest.mark.parametrize(
    "given",
    [
        {"payload": 3.0},
        {"harmonics": (1, 4, 12), "period": 7.0, "measured": 5, "warm_up": 2, "way": 3, "seed": 1},
        {"harmonics": (3,), "warm_up": 0, "robot": "kr150", "ramp": 3.2},
        {"moves": True, "way": 2, "robot": "ur10"},
        {"swing": 0.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("spacing", [None, 0.05, 0.13])
def test_way_points_are_those_of_the_plan(plan_of, given, spacing):
    plan = plan_of(**given)
    found = executed(plan, spacing=spacing)
    assert not differences(plan, TARGET, found, 0.004)
    assert {stretch.kind for stretch in found.stretches} == {"way-points"}
    main = next(stretch for stretch in found.stretches if stretch.name == "main")
    due = table_times(plan, "main", spacing or 0.1)  # times of the program are summed in 24 bits
    t = due[np.abs(due - main.t[:, None]).argmin(axis=1)]
    assert np.abs(t - main.t).max() < 1e-5
    off = np.abs(main.axes - to_axes(plan.robot, TARGET, plan.body.at(t)))
    assert off.max() < 2e-5  # deg: six decimals, kept in 24 bits


def test_where_the_robot_stands_at_the_start_there_is_no_way(plan_of):
    plan = plan_of(**SHORT)
    plan = replace(there(plan), dry=True)
    found = executed(plan)
    assert [stretch.name for stretch in found.stretches] == ["main"]
    assert not differences(plan, TARGET, found, 0.004)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"override": 0.5}, "override to 100"),
        ({"automatic": False}, "automatic mode"),
        ({"away": 0.6}, "does not stand at home"),
        ({"payload": 3.2}, "must weigh 3.000 kg"),
    ],
)
def test_it_refuses_before_anything_moves(plan_of, given, said):
    plan = plan_of(payload=3.0)
    found, away = machine(plan), given.pop("away", 0.0)
    found = replace(found, axes=found.axes - away * (found.axes == found.axes.min()), **given)
    execution = check.execute(emit(plan, "a", None), "a", found)
    assert not execution.stretches
    assert said in execution.halted


def test_any_error_ends_the_program_with_a_message(plan_of):
    plan = plan_of(**SHORT)
    text = emit(plan, "a", None)["a.mod"].replace("SetDO ex_log, 1;", "fails;")
    text = text.replace("ENDMODULE", "PROC fails()\nRAISE 99;\nENDPROC\nENDMODULE")
    found = check.execute({"a.mod": text}, "a", machine(plan))
    assert found.halted == "Stopped by error 99 Jog home, begin again."
    assert [stretch.name for stretch in found.stretches] == ["out"]


def test_core_verify_is_content(plan_of):
    plan = plan_of(payload=2.0)
    assert verify(plan, TARGET, check, files=emit(plan, "a", None), name="a", judge=Judge()).good


def test_what_does_not_fit_is_refused(plan_of, gantry):
    with pytest.raises(CannotDrive, match="joints"):
        check_target(plan_of("iiwa"), TARGET)
    with pytest.raises(CannotDrive, match=r"lines, a module takes 5000; points 0\.\d+ s apart would do"):
        emit(plan_of(period=40.0), "a", 0.002)
    assert emit(plan_of(period=40.0, measured=20), "a", None)["a.mod"].count("\n") < 700


def test_hostile_names(plan_of):
    hostile = ['"; EXIT; !', "x\nENDMODULE\n", "MoveAbsJ", "exPeriod1", "exMove1_1", "ex_log", "ÄÖ", "b" * 300]
    for run, name in zip(hostile, program_names(hostile, TARGET), strict=True):
        plan = plan_of(run=run, campaign=run, **SHORT)
        assert not differences(plan, TARGET, executed(plan, name), 0.004)


def caught(plan, files):
    """Run it as it should be run, and only if nothing is wrong in every other situation too."""
    try:
        if differences(plan, TARGET, check.execute(files, "a", machine(plan)), 0.004):
            return True
    except ProgramError:
        return True
    return not verify(plan, TARGET, check, files=files, name="a", judge=Judge()).good


@pytest.mark.slow
@pytest.mark.parametrize("body", [{}, {"moves": True}], ids=["series", "moves"])
def test_every_mutation_is_caught(plan_of, body):
    plan = plan_of(payload=2.0, **body)
    files = emit(plan, "a", None)
    made = list(mutations(files, "a"))
    assert len(made) >= 34
    missed = [label for label, changed in made if changed == files or not caught(plan, changed)]
    assert not missed


@pytest.mark.filterwarnings("ignore")  # its parser's library is newer than it is
def test_the_public_checker_accepts_the_module(plan_of):
    checker = pytest.importorskip("rapidchecker.check")
    config = pytest.importorskip("rapidchecker.config").CONFIG
    config.indentation_check = False
    for body in (SHORT, {"moves": True}):
        text = emit(plan_of(payload=1.0, **body), "a", 0.4)["a.mod"]
        assert not checker.check_format(text)
        assert checker.check_format(text.replace("ENDFOR", "", 1))


MODULE = """MODULE a
VAR num n := 1;
PROC main()
  SetGO ex_mark, 1;
  MoveAbsJ [[0,0,0,0,0,10],[9E9,9E9,9E9,9E9,9E9,9E9]] \\NoEOffs, v1000 \\T:=2, fine, tool0;
  WaitTime 1;
  SetDO ex_log, 1;
  {body}
  SetDO ex_log, 0;
  WaitTime 1;
  SetGO ex_mark, 6;
  MoveAbsJ [[0,0,0,0,0,0],[9E9,9E9,9E9,9E9,9E9,9E9]], v1000 \\T:=2, fine, tool0;
  SetGO ex_mark, 7;
ENDPROC
ENDMODULE
"""


def by_hand(body, **given):
    return check.execute({"a.mod": MODULE.replace("{body}", body)}, "a", Machine(np.zeros(6), 0.004, **given))


def test_a_program_written_by_hand():
    found = by_hand(
        "SetGO ex_mark, 3; MoveAbsJ [[1,0,0,0,0,10],[9E9,9E9,9E9,9E9,9E9,9E9]], v5 \\T:=0.5, z5, tool0;"
        "SetGO ex_mark, 4; MoveAbsJ [[0,0,0,0,0,10],[9E9,9E9,9E9,9E9,9E9,9E9]], v5 \\T:=0.5, fine, tool0;"
    )
    out, main, back = found.stretches
    assert (out.name, main.name, back.name) == ("out", "main", "back")
    assert main.t.tolist() == [0.0, 0.5, 1.0]
    assert main.axes[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert found.marks == ((0.0, 3), (0.5, 4))
    assert found.events == ("out", "log on", "main", "log off", "back")
    assert not found.halted


@pytest.mark.parametrize(
    ("after", "t", "axis"),
    [
        (0.125, [0.0, 0.125], [0.0, 0.25]),
        (0.75, [0.0, 0.5, 0.75], [0.0, 1.0, 0.5]),
        (1.2, [0.0, 0.5, 1.0], [0.0, 1.0, 0.0]),  # of what comes after the motion it knows nothing
    ],
)
def test_an_error_is_met_on_the_way(after, t, axis):
    moves = (
        "SetGO ex_mark, 3; MoveAbsJ [[1,0,0,0,0,10],[9E9,9E9,9E9,9E9,9E9,9E9]], v5 \\T:=0.5, z5, tool0;"
        "SetGO ex_mark, 4; MoveAbsJ [[0,0,0,0,0,10],[9E9,9E9,9E9,9E9,9E9,9E9]], v5 \\T:=0.5, fine, tool0;"
    )
    text = MODULE.replace("{body}", moves).replace("ENDPROC", "ERROR\n  EXIT;\nENDPROC")
    found = check.execute({"a.mod": text}, "a", Machine(np.zeros(6), 0.004, events=(Event("error", 1.0, after),)))
    main = found.stretches[1]
    np.testing.assert_allclose(main.t, t)
    np.testing.assert_allclose(main.axes[:, 0], axis, atol=1e-12)
    assert found.events[-1] == ("main" if after < 1.0 else "back")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("SetDO ex_gripper, 1;", "no output ex_gripper"),
        ("SetGO ex_mark, 1.5;", "could be set to 1.5"),
        ("MoveAbsJ [[1,0,0,0,0,0],[9E9,9E9,9E9,9E9,9E9,9E9]], v5, z5, tool0;", "an unknown time"),
        ("MoveAbsJ [[1,0,0,0,0,0],[9E9,9E9,9E9,9E9,9E9,9E9]], v5 \\T:=1, z5, tool0; WaitTime 1;", "fine point"),
        ("WHILE TRUE DO WaitTime 1; ENDWHILE", "runs for more than 1000 s"),
        ("WaitTime 1; SetDO ex_log, 1;", "switched on in the segment main"),
        ("WaitTime -1;", "waits -1 s"),
        ("VAR egmident e;", "expected a statement"),
    ],
)
def test_what_a_controller_would_not_do(body, sentence):
    with pytest.raises(ProgramError, match=sentence):
        by_hand(body, longest=1000.0)


def test_home_is_written_in_degrees(plan_of):
    plan = plan_of()
    assert f"exHome := [[{in_axes(plan, TARGET).home[0]:.6f}," in emit(plan, "a", None)["a.mod"]
