"""TwinCAT blocks that feed external set points: what they make axes do, and when they refuse to."""

import re
from dataclasses import replace

import blark.parse
import numpy as np
import pytest
from lark import UnexpectedInput

from excitor.design.programs.interpolate import differences
from excitor.design.programs.plan import marks
from excitor.design.programs.registry import executor
from excitor.design.programs.target import Machine, ProgramError, check, program_names, to_axes, units
from excitor.design.programs.twincat.plc import Cell
from excitor.design.programs.twincat.setpoints import TARGET, emit
from excitor.design.programs.twincat.setpoints_controller import execute
from excitor.design.programs.verify import Judge, verify
from tests.mutations.twincat import mutations


def machine(plan, **given):
    axes = given.pop("axes", to_axes(plan.robot, TARGET, plan.home))
    return Machine(axes, plan.sample_time, **{"payload": plan.payload or 0.0, **given})


def dry(plan, share=0.15):
    return replace(plan, body=plan.body.scaled(share), dry=True)


@pytest.fixture(scope="module")
def small(plan_of, gantry):
    return plan_of(gantry, period=2.0, step=0.01, ramp=1.5, harmonics=(1, 2, 4), payload=1.5)


PLANS = {
    "five harmonics": {"step": 0.01},
    "one harmonic": {"harmonics": (1,), "period": 2.0, "ramp": 1.0, "step": 0.01},
    "skipped harmonics, ramp of its own": {"harmonics": (2, 5, 12), "ramp": 3.2, "warm_up": 0, "step": 0.008},
    "moves": {"moves": True, "step": 0.01},
    "seven joints, three lines": {"robot": "iiwa", "way": 3, "payload": 2.5, "step": 0.008},
    "already there": {"way": 0, "period": 2.0, "ramp": 1.0, "step": 0.01},
    "tiny": {"swing": 1e-7, "period": 2.0, "ramp": 1.0, "step": 0.01},
    "huge": {"swing": 40.0, "period": 8.0, "ramp": 4.0, "measured": 1, "step": 0.01},
}


@pytest.mark.parametrize("given", PLANS.values(), ids=PLANS)
def test_axes_do_what_was_planned(plan_of, given):
    plan = plan_of(**given)
    check(plan, TARGET)
    execution = execute(emit(plan, "exc", None), "exc", machine(plan))
    assert differences(plan, TARGET, execution, plan.sample_time) == []
    scale = units(plan.robot, TARGET)
    for stretch in execution.stretches:
        assert len(stretch.t) == round(plan.stretch(stretch.name).duration / plan.sample_time) + 1
        for order, values in enumerate((stretch.axes, stretch.rates, stretch.accelerations)):
            wanted = to_axes(plan.robot, TARGET, plan.stretch(stretch.name).at(stretch.t, order), order)
            reach = np.abs(wanted).max()
            assert np.abs(values - wanted).max() <= 1e-12 * max(reach, scale.max()), (stretch.name, order)
    assert np.array(execution.marks) == pytest.approx(np.array(marks(plan)), abs=1e-9)


def test_sliding_axes_are_fed_in_mm(plan_of, gantry):
    plan = plan_of(gantry, period=2.0, step=0.01, ramp=1.0, harmonics=(1, 3))
    execution = execute(emit(plan, "exc", None), "exc", machine(plan))
    assert differences(plan, TARGET, execution, plan.sample_time) == []
    main = execution.stretches[1]
    assert main.axes[0, 0] == pytest.approx(1000.0 * plan.body.series.center[0])


def test_zero_coefficients_stand_still(plan_of):
    plan = plan_of(period=2.0, ramp=1.0)
    plan = replace(plan, body=plan.body.scaled(0.0))
    execution = execute(emit(plan, "exc", None), "exc", machine(plan))
    assert differences(plan, TARGET, execution, plan.sample_time) == []


def test_the_core_accepts_programs_and_dry_runs(small):
    for plan in (small, dry(small)):
        files = emit(plan, "exc", None)
        assert verify(plan, TARGET, executor("twincat"), files=files, name="exc", judge=Judge()).problems == ()
        assert ("DRY RUN" in files["exc.st"]) == plan.dry


@pytest.mark.slow
def test_a_public_parser_accepts_a_run_of_moves(plan_of, gantry):
    (text,) = emit(plan_of(gantry, step=0.01, moves=True), "exc", None).values()
    assert blark.parse.parse_source_code(text).exception is None


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["gantry", "tx40"])
def test_a_public_parser_accepts_a_series(plan_of, gantry, robot):
    plan = plan_of(gantry if robot == "gantry" else robot, period=2.0, step=0.01, ramp=1.0, payload=1.0)
    text = emit(plan, "exc", None)["exc.st"]
    assert blark.parse.parse_source_code(text).exception is None
    assert isinstance(blark.parse.parse_source_code(text.replace("END_FOR;", "END_FR;", 1)).exception, UnexpectedInput)


def test_size_does_not_grow_with_periods(plan_of):
    few, many = (len(emit(plan_of(measured=k), "exc", None)["exc.st"]) for k in (2, 500))
    assert abs(many - few) <= 10
    assert few < 20_000


HOSTILE = ["a*) bRun := TRUE; (*", "END_PROGRAM", "x'; y := 'z", "$N$R\nFOR", "über räum", "n" * 300, "", "{attribute}"]


@pytest.mark.parametrize("text", HOSTILE)
def test_names_stay_names(plan_of, gantry, text):
    plan = plan_of(gantry, period=2.0, step=0.01, ramp=1.0, run=text, campaign=text)
    (name,) = program_names([text], TARGET)
    files = emit(plan, name, None)
    assert list(files) == [f"{name}.st"]
    code = re.sub(r"\(\*.*?\*\)", "", files[f"{name}.st"])
    assert "(*" not in code
    assert code.count("END_PROGRAM") == 1
    execution = execute(files, name, machine(plan))
    assert differences(plan, TARGET, execution, plan.sample_time) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"override": 0.5}, "Set the override to 100 percent at axis 2"),
        ({"automatic": False}, "Switch power on; not ready is axis 2"),
        ({"payload": 3.0}, "Hang 1500 g on the flange, and say so in nPayloadGrams."),
        ({"off": (0.0, 0.6)}, "Move to the home pose first; away is axis 2"),
        ({"off": (-1.1, 0.0)}, "Move to the home pose first; away is axis 1"),
    ],
)
def test_nothing_moves_where_something_is_wrong(small, given, says):
    given = dict(given)
    home = to_axes(small.robot, TARGET, small.home)
    execution = execute(emit(small, "exc", None), "exc", machine(small, axes=home + given.pop("off", 0.0), **given))
    assert execution.halted == says
    assert execution.stretches == ()
    assert "log on" not in execution.events


def test_another_task_cycle_is_refused(small):
    files = emit(small, "exc", None)
    execution = execute(files, "exc", replace(machine(small), step=0.005))
    assert execution.halted == "Call this block in a task whose cycle is fTick."
    assert execution.stretches == ()


def test_a_robot_near_home_goes_home_first(small):
    home = to_axes(small.robot, TARGET, small.home)
    execution = execute(emit(small, "exc", None), "exc", machine(small, axes=home + np.array([0.9, -0.45])))
    assert differences(small, TARGET, execution, small.sample_time) == []


@pytest.mark.parametrize("at", [2.3, 4.6, 6.011, 8.0, 10.7], ids=str)
@pytest.mark.parametrize("why", ["bRun", "axis"])
def test_a_stop_is_smooth_and_final(small, at, why):
    fed, seen = [], []

    def operator(cell):
        fed.append([axis.to_nc[:3] for axis in cell.axes])
        seen.append((cell.get("bLog"), cell.get("nMark")))
        t = cell.cycle * small.sample_time
        if why == "bRun" and t >= at:
            cell.set("bRun", t > at + 2.0)  # TRUE again does not go on
        if why == "axis" and t >= at:
            cell.axes[1].failed = True

    execution = execute(emit(small, "exc", None), "exc", machine(small), operator)
    assert execution.halted.startswith("Stopped")
    rows, h = np.array(fed), small.sample_time
    p, v = rows[:, :, 0], rows[:, :, 1]
    k = round(at / h)
    stopped = np.flatnonzero(np.abs(v[k:]).max(axis=1) == 0.0)
    assert stopped[0] * h <= 0.35
    assert np.abs(v[k + stopped[0] :]).max() == 0.0
    moving = slice(k - 5, k + 40)
    smooth = np.abs(np.diff(p[moving], axis=0) - 0.5 * h * (v[moving][1:] + v[moving][:-1]))
    assert smooth.max() <= 1e-3 * max(1.0, np.abs(v).max())


def test_an_axis_that_takes_no_set_points_ends_the_start(small):
    text = emit(small, "exc", None)["exc.st"].replace("Execute := nStep >= 5, Position", "Execute := FALSE, Position")
    execution = execute({"exc.st": text}, "exc", machine(small))
    assert execution.halted == "An axis takes no external set points."


def test_a_scope_that_still_records_is_refused(small, monkeypatch):
    monkeypatch.setattr(Cell, "_record", lambda cell: cell.set("bLoggerRunning", True))
    execution = execute(emit(small, "exc", None), "exc", machine(small))
    assert execution.halted == "Set bLoggerRunning to FALSE first."
    assert execution.stretches == ()


@pytest.mark.parametrize(("late", "says"), [(50, ""), (10_000, "External set points cannot be switched off at axis 2")])
def test_axes_are_fed_until_they_take_no_set_points(small, late, says):
    cells, put_off = [], []

    def operator(cell):
        cells.append((cell.get("nMark"), cell.axes[1].external))
        pending = cell.axes[1].pending
        if pending and not pending[0][1] and not put_off:
            pending[0] = (pending[0][0] + late, False)
            put_off.append(cell.cycle)

    execution = execute(emit(small, "exc", None), "exc", machine(small), operator)
    assert execution.halted == says
    after = [external for mark, external in cells if mark == 7]
    assert after.count(True) > 50
    assert says or after[-9:] == [False] * 9


def test_a_run_starts_again_only_by_another_rising_edge(small):
    cell = Cell(emit(small, "exc", None), "exc", machine(small))

    def until(condition, most=10_000):
        for _ in range(most):
            cell.one_cycle()
            cell.controller.advance()
            if condition():
                return True
        return False

    assert until(lambda: cell.get("bDone"))
    assert not until(lambda: cell.get("nMark") != 7, 500)
    cell.set("bRun", False)
    assert not until(lambda: cell.get("nMark") != 7, 500)
    cell.set("bRun", True)
    assert until(lambda: cell.get("nMark") == 1, 500)
    assert until(lambda: cell.get("bDone"))
    assert cell.events == ["log on", "log off", "log on", "log off"]


@pytest.mark.slow
def test_every_mutation_is_caught(small):
    files = emit(small, "exc", None)
    made = list(mutations(files, "exc"))
    assert len(made) >= 35
    assert [label for label, changed in made if not _caught(small, changed)] == []


def _caught(plan, files):
    """Whether the core finds a program out; it is asked for refusals only where the motion is right."""
    try:
        if differences(plan, TARGET, execute(files, "exc", machine(plan)), plan.sample_time):
            return True
    except ProgramError:
        return True
    return not verify(plan, TARGET, executor("twincat"), files=files, name="exc", judge=Judge()).good


def test_missing_pieces_are_named(small):
    files = emit(small, "exc", None)
    with pytest.raises(ProgramError, match="the file is missing"):
        execute({}, "exc", machine(small))
    with pytest.raises(ProgramError, match="there is no PROGRAM PRG_exc"):
        execute({"exc.st": files["exc.st"].replace("PRG_exc", "PRG_other")}, "exc", machine(small))
    text = files["exc.st"].replace("nMarks := fbRun.nMarks;\n", "")
    text = re.sub(r"  nMarks : DINT;\n  nPeriod : DINT;\n  bDone", "  nPeriod : DINT;\n  bDone", text)
    with pytest.raises(ProgramError, match="the program has no nMarks"):
        execute({"exc.st": text}, "exc", machine(small))
    with pytest.raises(ProgramError, match="declares no 3 axes"):
        execute(files, "exc", Machine(np.zeros(3), 0.01))


@pytest.mark.slow
def test_a_long_run_at_two_milliseconds(plan_of):
    plan = plan_of(period=10.0, step=0.002, measured=10, ramp=10.0)
    execution = execute(emit(plan, "exc", None), "exc", machine(plan))
    assert differences(plan, TARGET, execution, plan.sample_time) == []


@pytest.mark.parametrize("step", [0.008, 0.04])
def test_cycles_of_any_length_verify(plan_of, step):
    """Time-outs are counted in cycles, and what is fed in a stop is compared with differences over cycles."""
    plan = plan_of(step=step, period=4.0, ramp=2.0, measured=1, warm_up=0)
    assert (
        verify(plan, TARGET, executor("twincat"), files=emit(plan, "p", None), name="p", judge=Judge()).problems == ()
    )
