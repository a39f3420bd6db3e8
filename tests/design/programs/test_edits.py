"""Edits of emitted programs that nobody planned, and their execution alone must show."""

import re
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.programs.conformance import example
from excitor.design.programs.franka.emit import limits
from excitor.design.programs.interpolate import differences
from excitor.design.programs.package import operator_page, package
from excitor.design.programs.registry import emitter, executor, target
from excitor.design.programs.target import ProgramError, fitting_steps
from excitor.design.programs.verify import Judge, aborts, just_inside, verify
from excitor.robots.files.presets import geometry, presets
from excitor.robots.robot import Limits
from tests.mutations import emitters


def first_problem(name, pattern, by, ending):
    plan, where = example(target(name)), target(name)
    made = package(emitter(name), [plan])
    (file,) = [file for file in made.texts if file.endswith(ending)]
    text, count = re.subn(pattern, by, made.texts[file], count=1, flags=re.DOTALL)
    assert count
    files, program, runs = {**made.texts, file: text}, made.programs[0].name, executor(name)
    step = fitting_steps(plan, where)[0]
    machine = just_inside(plan, where, step)
    try:
        found = differences(plan, where, runs.execute(files, program, machine), step, machine.axes)
    except ProgramError as error:
        return str(error)
    return next(iter(found), "") or next(aborts(plan, where, runs, files, program), "")


MARK = r" ex_mark\(2\)"
EDITS = (
    ("urscript", MARK, " set_payload(5.0)\n ex_mark(2)", ".script", "set_payload is set to 5.0"),
    ("urscript", MARK, " set_tcp(p[0,0,0.3,0,0,0])\n ex_mark(2)", ".script", "set_tcp is set to"),
    ("urscript", MARK, " set_digital_out(0, True)\n ex_mark(2)", ".script", "set_digital_out is set to"),
    ("urscript", r"ex_y > 0\.0 or ", "", ".script", "where override is 50 %.* goes on"),
    ("urscript", r"ex_y > 0\.0 or ", "ex_y > 0.2 or ", ".script", "where override is 50 %.* goes on"),
    ("rapid", "EGM_STOP_HOLD", "EGM_STOP_RAMP_DOWN", ".mod", "stop is 1.0, the target's record states 0.0"),
    ("rapid", r"\\CondTime", r"\\NoWaitCond \\CondTime", ".mod", "nowaitcond"),
    ("rapid", r"\\RampInTime", r"\\PosCorrGain:=0 \\RampInTime", ".mod", "poscorrgain"),
    ("rapid", '"default"', '"path"', ".mod", "configuration is path"),
    ("rapid", r"        GetSysData exLoad;\n", "", ".mod", "Tool and payload"),
    ("rapid", r"exTool\.tload\.mass \+ exLoad\.mass", "exTool.tload.mass", ".mod", "Tool and payload"),
    ("rapid", r"        EGMGetId", r"        AccSet 20, 20;\n        EGMGetId", ".mod", "AccSet"),
    ("rapid", r"EGMActJoint exGuide \\Tool:=exTool ", "EGMActJoint exGuide ", ".mod", r"names no \\Tool"),
    ("rapid-move", r"\\T:=2\.0, fine", r"\\T:=1, fine", ".mod", "a way takes 1 s, planned are 2 s"),
    ("rapid-move", r"SetGO ex_mark, 1;", r"VelSet 20, 100;\n SetGO ex_mark, 1;", ".mod", "VelSet"),
    ("rapid-move", r"z5, exTool", r"z5 \\Z:=80, exTool", ".mod", "z is set to 80"),
    ("rapid-move", r"\\T:=0\.1, z5", r"\\V:=50 \\T:=0.1, z5", ".mod", "v is set to 50"),
    ("rapid-move", r"fine, exTool", "fine, tool0", ".mod", "moves with the data of a tool"),
    ("rapid-move", r"    ERROR\n", "    ERROR\n        RETRY;\n", ".mod", "where error is 1.*still moves the robot"),
    ("krl", r"#VEL_PTP,10", "#VEL_PTP,20", ".src", "homing VEL_PTP is 20"),
    ("krl", r"(#ACC_PTP,)\d+(\)\r\n  PTP [^\n]*\n  WAIT)", r"\g<1>20\2", ".src", "acceleration of .* on a way"),
    ("krl", "INTERRUPT ON 3", "INTERRUPT OFF 3", ".src", r"moves before INTERRUPT 3"),
    ("krl", r"    GLOBAL INTERRUPT DECL[^\n]*\n", "", ".src", r"moves before INTERRUPT 3"),
    ("krl-rsi", '("Precision" ParamID="8" ParamValue=)"4"', r'\1"1"', ".rsi.xml", "precision is 1"),
    ("fanuc", r"UTOOL_NUM=1 ;", "UTOOL_NUM=1 ;\n  39:  PAYLOAD[3] ;", ".ls", r"PAYLOAD is set to 3"),
    ("fanuc", r"UTOOL_NUM=1 ;", "UTOOL_NUM=1 ;\n  39:  DO[1]=ON ;", ".ls", r"DO\[1\] is set to 1"),
    ("fanuc", r"UTOOL_NUM=1 ;", "UTOOL_NUM=1 ;\n  39:  $MCR.$GENOVERRIDE=50 ;", ".ls", "GENOVERRIDE is set to 50"),
    ("fanuc", r"UTOOL_NUM=1 ;", "UTOOL_NUM=1 ;\n  39:  R[7]=1 ;", ".ls", r"R\[7\] is set to 1"),
    ("fanuc", r"1,\*,\*,\*,\* *;", "1,1,*,*,*;", ".ls", "moves the groups"),
    ("fanuc", r"(SET\?\] ;\n) *\d+:  PAUSE ;\n", r"\1", ".ls", "does not wait for an answer"),
    ("fanuc", r"!J1 AT 100%: \d+", "!J1 AT 100%: 999", ".ls", "axis 1 makes 999"),
    ("fanuc-j519", r"IBGN end\[1\]", "IBGN end[2]", ".ls", "stream is 2"),
    ("val3", r"resetMotion\(\)\n  nId=0", "nId=0", "start.pgx", r"moves before resetMotion\(\)"),
    ("val3", r"  resetMotion\(\)\n", "", "stop.pgx", "must discard all moves"),
    ("val3", r"resetMotion\(\)\n", "resetMotion()\n  movej(jHome,tNone,mSlow)\n", "stop.pgx", "must discard all moves"),
    ("twincat", "POSITIONTYPE_ABSOLUTE", "POSITIONTYPE_RELATIVE", ".st", "need an absolute position"),
    ("twincat", r"NcToPlc\.SetPos", "NcToPlc.ActPos", ".st", "jumps by 0.02"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "pattern", "by", "ending", "sentence"), EDITS)
def test_an_edit_that_nobody_planned_is_seen_by_execution(name, pattern, by, ending, sentence):
    assert re.search(sentence, first_problem(name, pattern, by, ending))


def panda(**changes):
    figures = presets()["panda"]
    keys = ("velocity", "acceleration", "jerk")
    values = {key: figures.values(key, 7) for key in keys} | changes
    return replace(
        geometry("panda"),
        limits=Limits(figures.values("position", 7, 2), *(values[key] for key in keys), np.full(7, np.inf)),
    )


def test_libfranka_s_limits_are_kept_with_a_tenth_to_spare_or_nothing_is_written():
    plan = replace(example(target("franka")), robot=panda())
    lines = {line.key: line for line in limits(plan)}
    assert {line.state for line in lines.values()} == {"holds"}
    assert len(lines) == 4 * 7
    peak = np.abs(plan.body.at(np.linspace(0.0, plan.body.duration, 2001), 2)).max(axis=0)
    assert lines["libfranka acceleration", 1].worst == pytest.approx(peak[1] / 7.5, rel=1e-3)
    fast = replace(plan, body=plan.body.scaled(0.95 / max(line.worst for line in lines.values())))
    made = package(emitter("franka"), [fast])
    given = {"files": made.texts, "name": made.programs[0].name, "judge": Judge()}
    problems = verify(fast, made.target, executor("franka"), **given).problems
    assert any(re.match("libfranka .*: the motion needs 95% of it, allowed are 90%", x) for x in problems)


def test_another_arm_s_limits_are_unknown_to_libfranka_s_record():
    assert {line.state for line in limits(example(target("franka")))} == {"unknown"}


def test_where_panda_and_fr3_are_not_told_apart_the_stricter_limits_hold():
    bare = replace(geometry("panda"), limits=replace(panda().limits, position=np.tile([-9.0, 9.0], (7, 1))))
    plan = replace(example(target("franka")), robot=bare)
    peak = np.abs(plan.body.at(np.linspace(0.0, plan.body.duration, 2001), 2)).max(axis=0)
    worst = {line.key: line.worst for line in limits(plan)}
    assert worst["libfranka acceleration", 5] >= peak[5] / 20.0


def test_registers_and_flags_of_the_site_are_in_programs_and_on_pages():
    site = {"first_register": 50, "position_register": 7, "flag": 12, "mark_register": 31}
    made = {name: package(emitter(name), [replace(example(target(name)), site=site)]) for name in ("fanuc", "urscript")}
    text = made["fanuc"].texts["example.ls"]
    assert re.search(r"\bR\[53:EX MARK\]", text)
    assert "PR[7]=JPOS" in text
    assert "F[12:EX LOG]" in text
    assert not re.search(r"\[(19[6-9]|99)", text)
    assert "overwrites R[50] to R[53], PR[7] and F[12]" in operator_page(made["fanuc"])
    script = made["urscript"].texts["example.script"]
    assert "register(31," in script
    assert "register(24," not in script
    assert "output_int_register_31" in operator_page(made["urscript"])


def test_a_page_says_that_way_points_watch_nothing_in_motion():
    page = operator_page(package(emitter("val3"), [example(target("val3"))]))
    assert "once started it looks at nothing but its own motion" in page


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("rapid", "to home in a tenth of the time"),
        ("franka", "a stretch from elsewhere"),
        ("fanuc-j519", "rests of half a second"),
    ],
)
def test_constants_of_clients_that_shape_the_motion_are_held_by_execution(name, label):
    """The robot stands a little off home, or off where a stretch begins; lists of commands are made anew."""
    plan, where = example(target(name)), target(name)
    step = fitting_steps(plan, where)[0]
    machine = just_inside(plan, where, step)

    def problems():
        made = package(emitter(name), [plan])
        try:
            found = executor(name).execute(made.texts, made.programs[0].name, machine)
            return [*differences(plan, where, found, step, machine.axes)]
        except ProgramError as error:
            return [str(error)]

    (change,) = [one for one in emitters.CHANGES[name] if one[0] == label]
    assert not problems()
    with emitters.applied(name, change):
        assert problems()
    assert not problems()
