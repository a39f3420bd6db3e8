"""The judge itself: an executor that plays a plan rightly passes, and each thing it does wrong is told."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.programs.package import package
from excitor.design.programs.plan import Stretches, marks
from excitor.design.programs.registry import emitter
from excitor.design.programs.target import Condition, Event, Execution, ProgramError, Stretch, Target, to_axes
from excitor.design.programs.verify import (
    DETECTION,
    LATER,
    NEAR_PATH,
    SLOWED,
    STEEPEST,
    Judge,
    Verdict,
    _on_path,
    _outside,
    abort_problems,
    just_inside,
    verify,
)
from excitor.experiments.emit import CheckedPlan, verify_contents
from excitor.experiments.verbs.emit import print_verified, verified_data
from excitor.robots.robot import ControllerAxes

TARGET = Target(
    "t", "a controller", "A", "streams", "deg", None, 6, 64, steps=(0.004,), marks=True,
    refuses=("override", "mode", "home", "payload"),
)  # fmt: skip


class Player:
    """Commands the plan, refuses what it must; `spoil` changes what it did, `careless` is what it lets pass."""

    def __init__(self, plan, spoil=lambda execution: execution, careless=(), silent=False):
        self.plan, self.spoil, self.careless, self.silent = plan, spoil, careless, silent

    def execute(self, files, name, machine):
        wrong = {
            "override": machine.override < 1.0,
            "mode": not machine.automatic,
            "payload": abs(machine.payload - self.plan.payload) > 0.05,
            "home": np.abs(machine.axes - to_axes(self.plan.robot, TARGET, self.plan.home)).max() > 0.5,
        }
        if any(wrong[word] for word in wrong if word not in self.careless):
            return Execution((), halted="" if self.silent else "no")
        stretches = []
        for stretch in Stretches:
            t = np.arange(round(self.plan.stretch(stretch).duration / 0.004) + 1) * 0.004
            axes = to_axes(self.plan.robot, TARGET, self.plan.stretch(stretch).at(t))
            stretches.append(Stretch(stretch, "commands", t, axes))
        events = ("out", "log on", "main", "log off", "back")
        return self.spoil(Execution(tuple(stretches), marks(self.plan), events))


@pytest.fixture(scope="module")
def plan(plan_of):
    return plan_of(payload=2.0)


def told(plan, **given):
    verdict = verify(plan, TARGET, Player(plan, **given), files={}, name="run", judge=Judge())
    return " ".join(verdict.problems)


def change(stretch, **how):
    return lambda x: replace(x, stretches=tuple(replace(s, **how) if s.name == stretch else s for s in x.stretches))


def moved(stretch, by, joint=2, place=slice(100, 101)):
    def spoil(execution):
        axes = {s.name: s.axes for s in execution.stretches}[stretch].copy()
        axes[place, joint] += by
        return change(stretch, axes=axes)(execution)

    return spoil


def test_a_right_program_passes(plan):
    assert told(plan) == ""


@pytest.mark.parametrize("careless", TARGET.refuses)
def test_every_refusal_is_demanded(plan, careless):
    assert "moves the robot; it must refuse" in told(plan, careless=(careless,))


def test_a_refusal_without_a_message_is_reported(plan):
    assert "ends without a message" in told(plan, silent=True)


@pytest.mark.parametrize("stretch", Stretches)
@pytest.mark.parametrize("by", [1e-6, -1e-6, np.nan], ids=str)
def test_one_wrong_command_is_reported(plan, stretch, by):
    if np.isnan(by):
        with pytest.raises(ValueError, match="finite"):
            told(plan, spoil=moved(stretch, by))
    else:
        assert "from its plan" in told(plan, spoil=moved(stretch, by))
        assert told(plan, spoil=moved(stretch, 1e-3 * by)) == ""  # 1e-9 deg is rounding


def test_lost_ends_parts_marks_and_logs_are_reported(plan):
    assert "planned is 0 to" in told(plan, spoil=lambda x: change("main", t=x.stretches[1].t * 1.01)(x))
    assert "planned are out, main, back" in told(plan, spoil=lambda x: replace(x, stretches=x.stretches[:2]))
    assert "marks are" in told(plan, spoil=lambda x: replace(x, marks=x.marks[:-1]))
    late = lambda x: replace(x, marks=(*x.marks[:-1], (x.marks[-1][0] + 0.1, x.marks[-1][1])))  # noqa: E731
    assert "is set at" in told(plan, spoil=late)
    assert "logger" in told(plan, spoil=lambda x: replace(x, events=("out", "main", "log off", "back")))
    assert "halts although nothing is wrong" in told(plan, spoil=lambda x: Execution((), halted="why not"))


def test_a_program_that_fails_where_it_must_refuse_is_reported(plan):
    class Failing(Player):
        def execute(self, files, name, machine):
            if machine.override < 1.0:
                raise ProgramError("run.txt", 3, "divides by zero")
            return super().execute(files, name, machine)

    verdict = verify(plan, TARGET, Failing(plan), files={}, name="run", judge=Judge())
    assert "fails rather than refuses: run.txt, line 3: divides by zero" in " ".join(verdict.problems)


WATCHES = {"override": Condition(100.0, "%", "slows", 1.2)}


def aborted(plan, *, pace=lambda s: np.clip(1.0 - s, 0.0, 1.0), off=0.0, silent=False, home=False, late=1.2, crawl=0.0):
    """Problems of a run that slows down from its middle: `pace` is the rate of time, `s` seconds after that moment."""
    after, step = 0.5 * plan.body.duration, 0.004
    target = replace(TARGET, conditions=WATCHES, stop_s=0.5)
    t = np.arange(round((after + late) / step) + 1) * step
    u = np.concatenate([[0.0], np.cumsum(step * np.where(t[1:] <= after, 1.0, pace(t[1:] - after)))])
    q = plan.body.at(u)
    q += off * np.clip((t - after - 0.1) / 0.4, 0.0, 1.0)[:, None]  # slowly, or its pace would be uneven
    q[-1] += crawl * step
    main = Stretch("main", "commands", t, to_axes(plan.robot, target, q))
    out = replace(main, name="out")
    execution = Execution(
        (out, main, replace(main, name="back")) if home else (out, main), halted="" if silent else "x"
    )
    return " ".join(abort_problems(plan, target, execution, Event("override", 50.0, after)))


def falls(to, again):
    """Rate of time that falls to one value, rises to another, and ends at rest."""
    return lambda s: np.where(
        s < 0.2, 1.0 - s / 0.2 * (1.0 - to), np.where(s < 0.4, again, np.clip(1.0 - s, 0.0, again))
    )


def creeps(until):
    """Rate of time that falls nearly to rest, and to rest much later."""
    return lambda s: np.where(s < until, np.clip(1.0 - s / 0.4, 0.04, 1.0), 0.0)


LATEST = (DETECTION + LATER + 0.5) / SLOWED


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"silent": True}, "the program goes on"),
        ({"home": True}, "still moves the robot home"),
        ({"pace": creeps(1.2), "late": 2.0}, ""),
        ({"pace": creeps(1.24), "late": 2.0}, "it slows down for 1.0"),
        ({"pace": creeps(LATEST + 0.008), "late": 2.0}, "the robot moves on for 1.7"),
        ({"pace": lambda s: np.clip(1.0 - 4.0 * s, 0.0, 1.0)}, "passes 0.123 s of its path before it stops"),
        ({"off": 0.5e-4}, ""),
        ({"off": 1.2e-4}, "leaves its path"),
        ({"off": -1.2e-4}, "leaves its path"),
        ({"pace": falls(0.6, 0.64)}, ""),
        ({"pace": falls(0.6, 0.66)}, "speeds up again"),
        ({"crawl": 0.009}, ""),
        ({"crawl": 0.012}, "when it gives up"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_an_abort_ends_in_time_on_its_path_and_at_rest(plan, given, words):
    said = aborted(plan, **given)
    assert (said == "") if words == "" else words in said, said


@pytest.mark.parametrize(("moved", "said"), [(False, ""), (True, "commands come for 1.00 s more")])
def test_commands_that_go_on_are_no_end_unless_the_robot_stood_before(plan, moved, said):
    """Holding a pose amid a motion is a step of velocity; holding one where the robot stood moves nothing."""
    target = replace(TARGET, conditions={"override": Condition(100.0, "%", "ends", 0.1)})
    after = 0.5 * plan.body.duration
    t = np.arange(0.0, after + 1.0 + 1e-9, 0.004)
    q = plan.body.at(np.minimum(t, after) if moved else 0.0 * t)
    stretch = Stretch("main", "commands", t, to_axes(plan.robot, target, q))
    found = " ".join(abort_problems(plan, target, Execution((stretch,), halted="x"), Event("override", 99.0, after)))
    assert (found == "") if not said else said[:17] in found


def test_an_abort_is_run_into_and_each_failure_reported(plan):
    target = replace(TARGET, conditions=WATCHES, stop_s=0.5)
    problems = verify(plan, target, Player(plan), files={}, name="run", judge=Judge()).problems
    assert any(one.startswith("where override is 50 %") and one.endswith("the program goes on") for one in problems)


@pytest.mark.parametrize(
    ("given", "text", "words"),
    [
        ({}, "a\nb\n", ""),
        ({"encoding": "utf-8"}, "ä\n", ""),
        ({"encoding": "ascii"}, "ä\n", "letter 'ä' is not ascii"),
        ({"encoding": "latin-1"}, "ä\n", "letter 'ä' is not latin-1"),
        ({"line_end": "\r\n"}, "a\r\nb\r\n", ""),
        ({"line_end": "\r\n"}, "a\r\nb\n", "end with CR LF"),
        ({}, "a\r\n", "LF alone"),
        ({"most_lines": 3}, "a\nb\n", ""),
        ({"most_lines": 2}, "a\nb\n", "has 3 lines, the controller takes 2"),
    ],
)
def test_texts_are_what_the_controller_reads(plan, given, text, words):
    verdict = verify(plan, replace(TARGET, **given), Player(plan), files={"f.txt": text}, name="run", judge=Judge())
    assert verdict.problems == () if words == "" else words in " ".join(verdict.problems)
    assert verdict.good is (words == "")
    files = {"f.py": text, "f.json": text}  # not the controller's
    assert verify(plan, replace(TARGET, **given), Player(plan), files=files, name="run", judge=Judge()).good


@pytest.mark.parametrize(("way", "within"), [(1, 2.0), (0, 2.0), (1, 1e3)])
def test_what_goes_wrong_in_motion_is_tried_on_the_way_and_where_the_run_is_fast(plan_of, way, within):
    """A slider falls to half and by 1 %; the latter is noticed late, so that it happens early enough to be seen."""
    plan = plan_of(way=way)
    conditions = {"override": Condition(100.0, "%", "slows", within), "mode": Condition(0.0, "flag", "ends", 0.1)}
    events = list(_outside(plan, replace(TARGET, conditions=conditions), 0, np.random.default_rng(0)))
    wanted = [("override", 50.0, "main"), ("override", 50.0, "out"), ("override", 99.0, "main")]
    wanted = [*wanted, ("mode", 1.0, "main"), ("mode", 1.0, "out")]
    impossible = [] if within < plan.body.duration else [("override", 99.0, "main")]
    assert [(each.name, each.value, each.stretch) for each in events] == [
        each for each in wanted if each not in impossible and (way or each[2] != "out")
    ]
    for each in events:
        run = plan.stretch(each.stretch)
        fastest = np.abs(run.at(np.linspace(0.0, min(run.duration, 5.0), 2000), 1)).max()
        here = np.abs(run.at(np.array([each.after]), 1)).max()
        assert here > 0.97 * fastest or each.after == pytest.approx(run.duration - within - 1.0)
        assert each.value != 99.0 or each.after <= run.duration - within - 1.0


@pytest.mark.parametrize("braking", [0.2, 0.5])
def test_a_stop_that_has_a_floor_is_tried_where_the_run_is_slow(plan, braking):
    """From 0.4 of the speed that the stated braking, at its steepest, ends in the time that is allowed."""
    target = replace(TARGET, stop_s=1.5, stop_braking=braking, conditions={"mode": Condition(0.0, does="ends")})
    two = replace(target, conditions={"link": Condition(0.0, does="ends"), **target.conditions})
    assert [each.name for each in _outside(plan, two, 0, np.random.default_rng(0))][:2] == ["mode", "link"], "once"
    slow, fast = list(_outside(plan, target, 0, np.random.default_rng(0)))[:2]
    t = np.linspace(0.0, min(plan.body.duration, 5.0), 2000)
    speeds = np.abs(plan.body.at(t, 1)).max(axis=1)
    wanted = 0.4 * 1.5 * braking / STEEPEST
    nearest = np.abs(speeds - wanted).min()
    at, most = (np.abs(plan.body.at(np.array([each.after]), 1)).max() for each in (slow, fast))
    assert abs(at - wanted) < nearest + 0.01 * speeds.max()
    assert at < 0.95 * most
    assert len(list(_outside(plan, target, 3, np.random.default_rng(0)))) == 3, "moments at random take its place"


def test_a_verdict_without_problems_is_good():
    assert Verdict("p", (), 0.0, None, None).good is True
    assert Verdict("p", ("x",), 0.0, None, None).good is False


def test_programs_find_the_robot_a_little_off_home_on_every_axis(plan):
    matrix = np.eye(6) + np.pad(np.ones((1, 2)), ((0, 5), (1, 3)))  # one axis adds up three joints
    coupled = ControllerAxes("t", tuple("abcdef"), matrix, np.zeros(6))
    changed = replace(plan, robot=replace(plan.robot, controllers={"t": coupled}))
    off = just_inside(changed, TARGET, 0.004).axes - to_axes(changed.robot, TARGET, plan.home)
    assert off == pytest.approx([0.49, -0.49, 0.49, -0.49, 0.49, -0.49])
    assert np.all(just_inside(plan, replace(TARGET, refuses=()), 0.004).axes == to_axes(plan.robot, TARGET, plan.home))


def test_commands_that_lag_are_found_where_the_path_is_slow(plan_of):
    """A stop is late on its path; where that is slow, a later point is nearly as near, and is not the one."""
    run = plan_of(ramp=8.0).body
    t = np.linspace(run.duration - 8.0, run.duration, 8001)
    slow = t[np.abs(np.abs(run.at(t, 1)).max(axis=1) - 0.004).argmin()]
    u = slow + np.linspace(-0.02, 0.02, 41)
    _, off, _ = _on_path(run, run.at(u), u + 0.2, (slow - 0.5, slow + 0.5))
    assert off.max() < NEAR_PATH


def test_errors_of_joints_that_slide_are_in_m_and_of_those_that_turn_in_rad(gantry, plan_of, capsys):
    plan = plan_of(gantry, step=0.01)
    made = package(emitter("csv"), [plan])
    head, *rows = made.texts["excitation.csv"].splitlines()
    cells = rows[80].split(",")
    cells[3], cells[4] = (f"{float(x) + off:.12g}" for x, off in zip(cells[3:5], (1e-3, 3e-4), strict=True))
    rows[80] = ",".join(cells)
    files = {**made.texts, "excitation.csv": "\n".join([head, *rows, ""])}
    judged = CheckedPlan(plan, Judge())
    verified = verify_contents(made.target, [judged], {k: x.encode() for k, x in files.items()}, lambda _: None)
    (entry,) = verified_data([verified])
    assert entry["max_position_error_m"] == pytest.approx(1e-3, rel=1e-3)
    assert entry["max_position_error_rad"] == pytest.approx(3e-4, rel=1e-3)
    assert entry["interpolated_position_error_m"] is None  # a program that is wrong is not looked at between its rows
    right = verify_contents(made.target, [judged], {k: x.encode() for k, x in made.texts.items()}, lambda _: None)
    (entry,), (verdict,) = verified_data([right]), right.verdicts
    between, slides = verdict.executed.position_errors, gantry.mechanism.prismatic
    assert entry["interpolated_position_error_m"] == between[slides].max() < 1e-3
    assert entry["interpolated_position_error_rad"] == between[~slides].max() < 1e-3
    assert len({*between}) == len(between)  # each joint has its own
    print_verified([verified])
    shown = capsys.readouterr().out
    assert "1.7e-02°" in shown
    assert "1.0e+00 mm" in shown
