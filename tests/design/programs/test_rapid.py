"""RAPID with guided motion: the program executed against its plan, refusals, mutations."""

import re
from dataclasses import replace

import pytest

from excitor.design.programs.interpolate import differences, worst_position
from excitor.design.programs.rapid import egm_controller as check
from excitor.design.programs.rapid import move
from excitor.design.programs.rapid.egm import TARGET, emit
from excitor.design.programs.rapid.run import Program
from excitor.design.programs.target import CannotDrive, Machine, ProgramError, in_axes, program_names, to_axes
from excitor.design.programs.target import check as check_target
from excitor.design.programs.verify import Judge, verify
from tests.mutations.rapid import mutations
from tests.plans import there

SHORT = {"period": 0.8, "ramp": 0.4, "measured": 1, "swing": 0.02}
HOSTILE = ['"; EXIT; !', "x\nENDMODULE\n", "PROC", "v100", "fine", "ß-Ω-日本", "a" * 300, "42", "!", "exHome", "%%%"]


def machine(plan, **given):
    return Machine(to_axes(plan.robot, TARGET, plan.home), 0.004, payload=plan.payload or 0.0, **given)


def executed(plan, name="excitation"):
    check_target(plan, TARGET)
    return check.execute(emit(plan, name, None), name, machine(plan))


@pytest.mark.parametrize(
    "given",
    [
        {"payload": 3.0},
        {"harmonics": (1, 4, 12), "period": 3.2, "measured": 3, "warm_up": 2, "way": 3, "seed": 1},
        {"moves": True, "way": 2, "robot": "kr150"},
        {"harmonics": (2,), "period": 1.0, "ramp": 1.6, "measured": 1, "warm_up": 0, "swing": 1e-9, "robot": "ur10"},
    ],
    ids=str,
)
def test_the_run_is_streamed_as_planned(plan_of, given):
    plan = plan_of(**given)
    found = executed(plan)
    assert not differences(plan, TARGET, found, 0.004)
    assert worst_position(plan, TARGET, found) < 1e-12


def test_where_the_robot_stands_at_the_start_there_is_no_way(plan_of):
    plan = plan_of(**SHORT)
    plan = replace(there(plan), dry=True)
    found = executed(plan)
    assert [stretch.name for stretch in found.stretches] == ["main"]
    assert not differences(plan, TARGET, found, 0.004)
    assert "DRY RUN" in emit(plan, "x", None)["x.mod"]


@pytest.mark.parametrize("instruction", ["EGMSetupUC", "EGMRunJoint"])
def test_any_error_ends_the_program_with_a_message(plan_of, instruction):
    plan = plan_of(**SHORT)
    files = emit(plan, "a", None)
    text = re.sub(rf"(?m)^ *{instruction}[^;]*;", "fails;", files["a.mod"])
    text = text.replace("ENDMODULE", "PROC fails()\nRAISE 99;\nENDPROC\nENDMODULE")
    found = check.execute({**files, "a.mod": text}, "a", machine(plan))
    assert found.halted == "Stopped by error 99 Jog home, begin again."
    assert not found.stretches


def test_automatic_mode_starts_main_and_nothing_goes_on(plan_of):
    for target in (TARGET, move.TARGET):
        told = " ".join(target.loading)
        assert "only program module" in told
        assert "pointer to Main" in told
        assert "Start alone must not go on" in told
    text = emit(plan_of(**SHORT), "a", None)["a.mod"]
    assert "    PROC main()\n        a_run;\n    ENDPROC\n" in text


@pytest.mark.slow
def test_core_verify_is_content(plan_of):
    plan = plan_of(payload=2.0, **SHORT)
    assert verify(plan, TARGET, check, files=emit(plan, "a", None), name="a", judge=Judge()).good


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"override": 0.5}, "override to 100"),
        ({"automatic": False}, "automatic mode"),
        ({"away": 5.0}, "does not stand at home"),
        ({"away": -0.6}, "does not stand at home"),
        ({"payload": 3.2}, "must weigh 3.000 kg"),
        ({"payload": 0.0}, "must weigh 3.000 kg"),
    ],
)
def test_it_refuses_before_anything_moves(plan_of, given, said):
    plan = plan_of(payload=3.0, **SHORT)
    found, away = machine(plan), given.pop("away", 0.0)
    found = replace(found, axes=found.axes + away * (found.axes == found.axes.max()), **given)
    execution = check.execute(emit(plan, "a", None), "a", found)
    assert not execution.stretches
    assert said in execution.halted


def test_a_robot_almost_at_home_is_led_there(plan_of):
    plan = plan_of(**SHORT)
    near = replace(machine(plan), axes=machine(plan).axes + 0.4)
    assert not differences(plan, TARGET, check.execute(emit(plan, "a", None), "a", near), 0.004)


def test_only_robots_it_can_drive(plan_of, gantry):
    for robot in ("iiwa", gantry):
        with pytest.raises(CannotDrive, match="rapid"):
            check_target(plan_of(robot), TARGET)
    with pytest.raises(CannotDrive, match="4 ms"):
        check_target(plan_of(step=0.005, period=4.005), TARGET)


def test_names_of_people_cannot_say_anything_in_the_language(plan_of):
    names = program_names(HOSTILE, TARGET)
    assert len(set(names)) == len(HOSTILE)
    for hostile, name in zip(HOSTILE, names, strict=True):
        plan = plan_of(run=hostile, campaign=hostile, **SHORT)
        text = emit(plan, name, None)[f"{name}.mod"]
        assert text.isascii()
        bare = emit(plan_of(run="r", campaign="c", **SHORT), name, None)[f"{name}.mod"]
        assert [line for line in text.split("\n") if not line.strip().startswith("!")] == [
            line for line in bare.split("\n") if not line.strip().startswith("!")
        ]
        assert Program(f"{name}.mod", text, None).routines
        assert all(len(word) <= 32 for word in (name + "_run",))


def test_the_module_does_not_grow_with_the_periods(plan_of):
    short, long = (emit(plan_of(measured=n), "a", None)["a.mod"] for n in (2, 500))
    assert abs(len(long) - len(short)) < 10
    assert len(long) < 4000


@pytest.mark.filterwarnings("ignore")  # its parser's library is newer than it is
def test_the_public_checker_accepts_the_module(plan_of):
    checker = pytest.importorskip("rapidchecker.check")
    config = pytest.importorskip("rapidchecker.config").CONFIG
    config.indentation_check = False
    text = emit(plan_of(payload=3.0, **SHORT), "a", None)["a.mod"]
    assert not checker.check_format(text)
    assert checker.check_format(text.replace("ENDIF", "", 1))


def caught(plan, files):
    """Run it as it should be run, and only if nothing is wrong in every other situation too."""
    try:
        if differences(plan, TARGET, check.execute(files, "a", machine(plan)), 0.004):
            return True
    except ProgramError:
        return True
    return not verify(plan, TARGET, check, files=files, name="a", judge=Judge()).good


@pytest.mark.slow
@pytest.mark.parametrize("body", [{}, pytest.param({"moves": True}, marks=pytest.mark.slow)], ids=["series", "moves"])
def test_every_mutation_is_caught(plan_of, body):
    plan = plan_of(payload=2.0, **(body or SHORT))
    if not body:  # many runs: a short way
        plan = there(plan, plan.start + 0.02, 0.4)
    files = emit(plan, "a", None)
    made = list(mutations(files, "a"))
    assert len(made) >= 40
    missed = [label for label, changed in made if changed == files or not caught(plan, changed)]
    assert not missed


def test_files_that_are_no_program_are_refused(plan_of):
    files = emit(plan_of(**SHORT), "a", None)
    here = machine(plan_of(**SHORT))
    for broken, sentence in (
        ({}, "a.mod: is missing"),
        ({**files, "a.json": "[]"}, "a.json: this is no run"),
        ({**files, "a.json": files["a.json"].replace('"version": 2', '"version": 9')}, "known version"),
        ({**files, "a.json": files["a.json"].replace('"periods": 1', '"periods": 1e9')}, "takes"),
        ({**files, "a.mod": files["a.mod"].replace("exHere \\NoEOffs", "exHome \\NoEOffs")}, None),
    ):
        if sentence is None:
            away = replace(here, axes=here.axes + 0.3)
            with pytest.raises(ProgramError, match="moves the robot itself"):
                check.execute(broken, "a", away)
            continue
        with pytest.raises(ProgramError, match=sentence):
            check.execute(broken, "a", here)


def test_axes_of_the_controller_are_the_programs(plan_of):
    plan = plan_of(robot="tx40", **SHORT)
    home = in_axes(plan, TARGET).home
    assert f"{home[0]:.6f}" in emit(plan, "a", None)["a.mod"]
