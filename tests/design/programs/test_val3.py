"""VAL3 applications: what is emitted does what was planned, and everything wrong is caught."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from excitor.design.programs.plan import marks
from excitor.design.programs.target import CannotDrive, Machine, ProgramError, to_axes
from excitor.design.programs.val3 import controller as check
from excitor.design.programs.val3 import emit as val3
from excitor.design.programs.val3.emit import TARGET
from excitor.design.programs.verify import Judge, verify
from tests.mutations.val3 import mutations
from tests.plans import there

FOREIGN = Path(__file__).parent / "foreign" / "val3"
HOSTILE = '"]]></Code>\r\nend\n<!ENTITY x>\u202e call stop() // */ ' + "z" * 300

PLANS = {
    "one harmonic": {"harmonics": (1,)},
    "twelve with gaps": {"harmonics": (1, 3, 4, 7, 12), "period": 8.0, "measured": 3},
    "no warm-up, long ramp": {"warm_up": 0, "ramp": 8.0},
    "short ramp": {"ramp": 0.4, "measured": 1},
    "moves": {"moves": True, "payload": 1.5},
    "no way": {"way": 0},
    "three lines": {"way": 3, "moves": True, "robot": "ur10"},
    "tiny": {"swing": 1e-4},
    "hostile": {"run": HOSTILE, "campaign": HOSTILE},
    "odd period": {"period": 3.1, "step": 0.005, "ramp": 1.55},
    "large robot": {"robot": "kr150", "payload": 120.0},
}


def planning(plan_of, **given):
    """Make a plan; where there is no way out, the series swings about home."""
    plan = plan_of(**given)
    return plan if plan.out.duration or given.get("moves") else replace(plan, out=there(plan).out)


def machine_of(plan, **changes):
    return replace(Machine(to_axes(plan.robot, TARGET, plan.home), 0.004), **changes)


def judged(plan, files, name="p"):
    return verify(plan, TARGET, check, files=files, name=name, judge=Judge())


@pytest.mark.parametrize("given", PLANS.values(), ids=PLANS)
def test_executed_is_planned(plan_of, given):
    plan = planning(plan_of, **given)
    files = val3.emit(plan, "p", None)
    assert all(file.startswith("p") for file in files)
    found = check.execute(files, "p", machine_of(plan))
    main = next(stretch for stretch in found.stretches if stretch.name == "main")
    assert main.t[-1] == pytest.approx(plan.body.duration, abs=1e-5)
    wanted = to_axes(plan.robot, TARGET, plan.body.at(main.t))
    assert main.axes == pytest.approx(wanted, abs=1e-5)  # six decimals; and 1 µs of rounded times
    assert [mark for _, mark in found.marks] == [mark for _, mark in marks(plan)]
    assert np.array([t for t, _ in found.marks]) == pytest.approx(np.array([t for t, _ in marks(plan)]), abs=1e-3)
    assert judged(plan, files).problems == ()


def test_size_does_not_grow_with_periods_and_points_go_with_spacing(plan_of):
    few, many = (val3.emit(plan_of(measured=n), "p", None) for n in (2, 40))
    assert [len(text) for text in few.values()] == pytest.approx([len(text) for text in many.values()], abs=4)
    plan = plan_of()
    assert judged(plan, val3.emit(plan, "p", 0.04)).problems == ()


def test_a_dry_plan_states_it(plan_of):
    assert "DRY RUN" in val3.emit(replace(plan_of(), dry=True), "p", None)["p/start.pgx"]


def test_refuses_before_anything_moves(plan_of):
    plan = plan_of(payload=2.0)
    files = val3.emit(plan, "p", None)
    away = machine_of(plan).axes + np.array([0, 0, 0, 0, 0, 0.6])
    for changes, said in (
        ({"override": 0.99}, "monitor speed"),
        ({"automatic": False}, "mode"),
        ({"axes": away}, "axis 6"),
    ):
        found = check.execute(files, "p", machine_of(plan, **changes))
        assert not found.stretches
        assert said in found.halted
    near = check.execute(files, "p", machine_of(plan, axes=machine_of(plan).axes + 0.4))
    assert near.stretches


def test_looks_again_after_every_question(plan_of):
    """Between a question and its answer somebody may turn the monitor speed or switch the mode."""
    for given in ({}, {"payload": 2.0}):
        plan = plan_of(**given)
        files = val3.emit(plan, "p", None)
        text = files["p/start.pgx"]
        assert text.count("get()") == text.count("userPage()") == 1 + len(given)
        assert text.index("get()") < text.index("getMonitorSpeed") or not given
        body = text.index("// again")
        for condition, said in (("getMonitorSpeed()!=100", "monitor speed 50 %"), ("workingMode()<3", "another mode")):
            blind = text[:body] + text[body:].replace(condition, "false")
            with pytest.raises(ProgramError, match=f"after a question with {said}"):
                check.execute({**files, "p/start.pgx": blind}, "p", machine_of(plan))
    assert "after a hold" in " ".join(TARGET.loading)


@pytest.mark.slow
def test_every_mutation_is_caught(plan_of):
    for given in ({}, {"moves": True, "robot": "ur10", "payload": 2.0}):
        plan = plan_of(**given)
        changed = dict(mutations(val3.emit(plan, "p", None), "p"))
        assert len(changed) >= 30
        assert [label for label, files in changed.items() if judged(plan, files).good] == []


def test_a_public_parser_reads_the_files(plan_of):
    for text in val3.emit(plan_of(campaign=HOSTILE), "p", None).values():
        etree.fromstring(text.encode(), etree.XMLParser(resolve_entities=False))


def test_refuses_what_it_cannot_write(plan_of, gantry):
    with pytest.raises(CannotDrive, match="% of the top speeds"):
        val3.emit(plan_of(swing=1e4), "p", None)
    with pytest.raises(CannotDrive, match="moves less"):
        val3.emit(plan_of(swing=1e-9), "p", None)
    plan = plan_of()
    limits = replace(plan.robot.limits, velocity=np.full(6, np.inf))
    with pytest.raises(CannotDrive, match="velocity limits"):
        val3.emit(replace(plan, robot=replace(plan.robot, limits=limits)), "p", None)


def application(name):
    """Make an application of a foreign program."""
    project = (
        '<?xml version="1.0"?><Project xmlns="http://www.staubli.com/robotics/VAL3/Project/3"><Programs>'
        '<Program file="start.pgx" /><Program file="stop.pgx" /></Programs><Database><Data file="cell.dtx" />'
        "</Database></Project>"
    )
    stop = (FOREIGN / "stop.pgx").read_text("utf-8")
    code = (FOREIGN / f"{name}.pgx").read_bytes().decode("utf-8")
    return {
        "c/c.pjx": project,
        "c/cell.dtx": (FOREIGN / "cell.dtx").read_text("utf-8"),
        "c/start.pgx": code,
        "c/stop.pgx": stop,
    }


def test_a_program_written_by_hand():
    found = check.execute(application("truth"), "c", Machine(np.zeros(6), 0.004))
    (stretch,) = found.stretches
    assert stretch.t == pytest.approx([0.0, 0.1, 0.1 + 0.41, 0.51 + 0.5, 1.01 + 0.205])
    assert stretch.axes[:, 0] == pytest.approx([0, 10, 10, 10, 0])
    assert stretch.axes[:, 1] == pytest.approx([0, 0, -20.5, -20.5, 0])
    found = check.execute(application("logged"), "c", Machine(np.zeros(6), 0.004))
    assert found.events == ("out", "log on", "main", "log off", "back")
    assert found.marks == ((0.0, 2), (pytest.approx(0.25), 1001))
    assert found.stretches[1].t == pytest.approx([0.0, 0.25, 0.455])


@pytest.mark.parametrize("name", ["counting", "angles", "conditions", "crlf"])
def test_foreign_programs_run(name):
    found = check.execute(application(name), "c", Machine(np.zeros(6), 0.004))
    assert found.stretches[0].axes[-1][0] == pytest.approx(10.0)


def test_locals_and_loops_backwards():
    found = check.execute(application("locals"), "c", Machine(np.zeros(6), 0.004))
    assert len(found.stretches[0].t) == 5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pick", "no instruction called 'movel'"),
        ("socket", "no instruction called 'sioGet'"),
        ("tasks", "tasks are not followed"),
        ("library", "library 'ioLib' is not there"),
        ("endless", "line 5: the loop does not end"),
        ("outside", "line 6: jCorner.4. is outside"),
        ("types", "found string, expected num"),
        ("entity", "entities are not read"),
        ("forever", "never comes true"),
        ("block", "expected elseif or else or endif"),
    ],
)
def test_foreign_programs_are_rejected(name, said):
    with pytest.raises(ProgramError, match=said):
        check.execute(application(name), "c", Machine(np.zeros(6), 0.004))


def test_data_must_be_data():
    files = application("truth")
    for old, new, said in (
        ('j1="10"', 'j1="1O"', "expected a number"),
        ('j1="10"', 'j7="10"', "has no j7"),
        ('key="3"', 'key="4"', "has a value with key"),
        ('vel="50"', 'speed="50"', "has no speed"),
        ('name="bDone"', 'name="aVeryLongNameOfADatum"', "at most 15"),
        ('name="bDone"', 'name="nLog"', "there twice"),
        ('key="0" value="100"', 'key="0" value="0"', "speed above 0"),
    ):
        changed = {**files, "c/cell.dtx": files["c/cell.dtx"].replace(old, new, 1)}
        with pytest.raises(ProgramError, match=said):
            check.execute(changed, "c", Machine(np.zeros(6), 0.004))
