"""FANUC TP programs: what is emitted does what was planned, and everything wrong is caught."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.design.programs.fanuc import tp
from excitor.design.programs.fanuc import tp_controller as check
from excitor.design.programs.fanuc.tp import TARGET
from excitor.design.programs.plan import marks
from excitor.design.programs.target import CannotDrive, Machine, ProgramError, to_axes
from excitor.design.programs.verify import Judge, verify
from excitor.design.programs.way_points import Speeds, _leg, series_legs, top_speeds
from excitor.robots.robot import ControllerAxes
from tests.mutations.fanuc import mutations
from tests.plans import there

FOREIGN = Path(__file__).parent / "foreign" / "fanuc"
HOSTILE = '] ;\n  99:J P[1] 100% FINE ;\n/END"\u202e' + "z" * 300

PLANS = {
    "one harmonic": {"harmonics": (1,)},
    "twelve with gaps": {"harmonics": (1, 3, 4, 7, 12), "period": 8.0, "measured": 3},
    "no warm-up, long ramp": {"warm_up": 0, "ramp": 8.0},
    "short ramp": {"ramp": 0.4, "measured": 1},
    "moves": {"moves": True, "payload": 1.5},
    "no way": {"way": 0},
    "three lines": {"way": 3, "moves": True, "robot": "ur10"},
    "hostile": {"run": HOSTILE, "campaign": HOSTILE},
    "odd period": {"period": 3.1, "step": 0.005, "ramp": 1.55},
    "large robot": {"robot": "kr150", "payload": 120.0},
}


def planning(plan_of, **given):
    """Make a plan; where there is no way out, the series swings about home."""
    plan = plan_of(**{"period": 4.0, "ramp": 2.0, "swing": 0.15} | given)
    return plan if plan.out.duration or given.get("moves") else replace(plan, out=there(plan).out)


def machine_of(plan, **changes):
    return replace(Machine(to_axes(plan.robot, TARGET, plan.home), 0.004, longest=500.0), **changes)


def judged(plan, files):
    return verify(plan, TARGET, check, files=files, name="p", judge=Judge())


def coupled(plan):
    """Give the robot a controller whose J3 follows J2, with signs and offsets."""
    matrix = np.diag([1.0, 1.0, -1.0, 1.0, 1.0, -1.0])
    matrix[2, 1] = -1.0
    axes = ControllerAxes("fanuc", tuple(f"J{k}" for k in range(1, 7)), matrix, np.array([0, 0.5, -0.3, 0, 0, 1.0]))
    return replace(plan, robot=replace(plan.robot, controllers={"fanuc": axes}))


@pytest.mark.parametrize("given", PLANS.values(), ids=PLANS)
def test_executed_is_planned(plan_of, given):
    plan = planning(plan_of, **given)
    files = tp.emit(plan, "p", None)
    found = check.execute(files, "p", machine_of(plan))
    main = next(stretch for stretch in found.stretches if stretch.name == "main")
    assert main.t[-1] == pytest.approx(plan.body.duration, abs=1e-5)
    wanted = to_axes(plan.robot, TARGET, plan.body.at(main.t))
    assert main.axes == pytest.approx(wanted, abs=5.1e-4)  # three decimals
    assert [mark for _, mark in found.marks] == [mark for _, mark in marks(plan)]
    assert judged(plan, files).problems == ()


def test_coupled_axes_go_through_the_robots_map(plan_of):
    plan = coupled(plan_of())
    assert judged(plan, tp.emit(plan, "p", None)).problems == ()
    assert judged(plan_of(), tp.emit(plan, "p", None)).problems


@pytest.mark.parametrize("given", [{}, {"period": 10.0, "ramp": 10.0}, {"robot": "kr150", "swing": 0.05}], ids=str)
def test_whole_percents_keep_to_the_planned_times(plan_of, given):
    """Late and early arrivals on paper do not add up over a period, or over a ramp up to its slow end."""
    plan = plan_of(**given)
    speeds = Speeds(top_speeds(plan.robot, TARGET), 3, 0, 1.0)
    into, one, out = series_legs(plan, TARGET, speeds, 0.1)
    begin = to_axes(plan.robot, TARGET, plan.start)
    for leg, start, late in ((into, begin, 0.02), (one, one.poses[-1], 0.02)):
        ways = np.abs(np.diff(np.vstack([start, leg.poses]), axis=0)) / speeds.top
        clock = leg.pause + np.cumsum(100.0 * ways.max(axis=1) / leg.percents)
        assert abs(clock[-1] - leg.step * len(leg.poses)) < late
    assert 0.0 < into.pause < 0.35 * into.step * len(into.poses)
    assert 0.0 < out.idle < 0.35 * out.step * len(out.poses)


@pytest.mark.parametrize("size", [0.3, 2.0, 20.0])
def test_whole_percents_fit_to_their_ways_at_any_speed_and_catch_up(size):
    """Slow ways arrive half a step late by rounding: a speed that makes up for all of it fits to no way."""
    for seed in range(100):
        random = np.random.default_rng(seed)
        waves = size * np.sin(np.outer(np.linspace(0.0, 1.0, 101), 2 * np.pi * random.uniform(1.0, 4.0, 5)))
        poses = np.cumsum(waves @ random.normal(size=(5, 6)), axis=0) * 1e-2
        leg = _leg(poses, 10.0, Speeds(np.full(6, 10.0), 3, 0, 1.0), starts=False, stops=False)
        ways = 10.0 * np.abs(np.diff(np.round(poses, 3), axis=0)).max(axis=1)  # s at 1 %
        fitting = ways / leg.step
        assert np.abs(leg.percents - np.maximum(fitting, 1.0)).max() <= 1.5
        behind = np.cumsum(ways / leg.percents - leg.step)[fitting >= 1.0]
        assert behind.max(initial=0.0) <= leg.step


def test_size_does_not_grow_with_periods(plan_of):
    few, many = (tp.emit(plan_of(measured=n), "p", None)["p.ls"] for n in (2, 40))
    assert abs(len(few) - len(many)) <= 2


def test_refuses_what_it_cannot_write(plan_of):
    for given, spacing, said in (
        ({}, 0.02, "too close"),
        ({"swing": 1e4}, None, "% of the top speeds"),
        ({"swing": 1e-4}, None, "moves less or slower"),
        ({"period": 1000.0, "ramp": 1000.0, "swing": 15.0, "measured": 1}, 0.05, "lines, a program has 9999"),
    ):
        with pytest.raises(CannotDrive, match=said):
            tp.emit(plan_of(**given), "p", spacing)
    slow = plan_of(moves=True)
    slow = replace(slow, body=replace(slow.body, segments=tuple(replace(one, time=90.0) for one in slow.body.segments)))
    with pytest.raises(CannotDrive, match="slower than 1 %"):
        tp.emit(slow, "p", None)


def test_a_dry_plan_states_it(plan_of):
    assert "DRY RUN" in tp.emit(replace(plan_of(), dry=True), "p", None)["p.ls"]


def test_refuses_before_anything_moves(plan_of):
    plan = plan_of(payload=2.0)
    files = tp.emit(plan, "p", None)
    for changes, said in (
        ({"override": 0.99}, "OVERRIDE"),
        ({"automatic": False}, "AUTO"),
        ({"axes": machine_of(plan).axes + np.array([0, 0, 0, 0, 0, 0.6])}, "HOME"),
        ({"axes": machine_of(plan).axes - np.array([0.6, 0, 0, 0, 0, 0])}, "HOME"),
    ):
        found = check.execute(files, "p", machine_of(plan, **changes))
        assert not found.stretches
        assert said in found.halted
    assert check.execute(files, "p", machine_of(plan, axes=machine_of(plan).axes + 0.4)).stretches


def test_looks_again_after_every_pause(plan_of):
    """Between a question and its answer somebody may turn the override, switch the mode or move the arm."""
    for given in ({}, {"payload": 2.0}):
        plan = plan_of(**given)
        text = tp.emit(plan, "p", None)["p.ls"]
        assert text.index("PAUSE") < text.index("GENOVERRIDE") or not given
        body = text.index("!AGAIN")
        for label, said in ((901, "override 50 %"), (902, "another mode"), (904, "J1 moved by -2 deg")):
            blind = text[:body] + re.sub(rf"IF [^\n]*JMP LBL\[{label}\]", "!", text[body:])
            with pytest.raises(ProgramError, match=f"after a PAUSE with .*{said}"):
                check.execute({"p.ls": blind}, "p", machine_of(plan))
    assert "ABORT ALL" in " ".join(TARGET.loading)


@pytest.mark.slow
def test_every_mutation_is_caught(plan_of):
    for given in ({}, {"moves": True, "robot": "ur10", "payload": 2.0}):
        plan = plan_of(**given)
        changed = dict(mutations(tp.emit(plan, "p", None), "p"))
        assert len(changed) >= 30
        assert [label for label, files in changed.items() if judged(plan, files).good] == []


def foreign(name, **changes):
    files = {f"{name}.ls": (FOREIGN / f"{name}.ls").read_text("ascii")}
    return check.execute(files, name, replace(Machine(np.zeros(6), 0.004, longest=500.0), **changes))


def test_a_program_written_by_hand():
    (stretch,) = foreign("truth").stretches
    assert stretch.t == pytest.approx([0.0, 0.1, 0.1 + 0.41, 0.51 + 0.5, 1.01 + 0.205])
    assert stretch.axes[:, 0] == pytest.approx([0, 10, 10, 10, 0])
    assert stretch.axes[:, 1] == pytest.approx([0, 0, -20.5, -20.5, 0])
    found = foreign("logged")
    assert found.events == ("out", "log on", "main", "log off", "back")
    assert found.marks == ((0.0, 2), (pytest.approx(0.25), 1001))
    assert found.stretches[1].t == pytest.approx([0.0, 0.25, 0.455])


@pytest.mark.parametrize(
    ("name", "first_axis"),
    [("pallet", [0, 0, 10, 0]), ("reckons", [0, 0]), ("register", [0, 10, 0]), ("backup", [0, 0])],
)
def test_foreign_programs_run(name, first_axis):
    found = foreign(name)
    assert not found.halted
    assert found.stretches[0].axes[:, 0] == pytest.approx(first_axis)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("waits", "this condition never becomes true"),
        ("linear", "only joint motion"),
        ("calls", "other programs are not there"),
        ("choice", "unknown instruction"),
        ("offset", "motion options are not followed"),
        ("unended", "must hold /PROG, /MN, /POS and /END"),
        ("cartesian", "must state J1 to J6"),
        ("rail", "must state J1 to J6"),
        ("slider", "must not change the override"),
        ("jumps", "the program does not end"),
        ("nowhere", "no such label"),
        ("openblock", "no ENDIF"),
        ("flowing", "in the middle of a motion"),
        ("unset", "never set"),
        ("halves", "the program does not end"),  # registers have 24 bits: 0.1 + 0.1 + 0.1 is not 0.3
    ],
)
def test_foreign_programs_are_rejected(name, said):
    with pytest.raises(ProgramError, match=said):
        foreign(name)
