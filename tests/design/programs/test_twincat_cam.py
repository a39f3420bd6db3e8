"""TwinCAT cam tables and the block that couples axes to a virtual master: what the axes do, and when they refuse to."""

import re
from dataclasses import replace

import blark.parse
import numpy as np
import pytest

from excitor.design.programs.interpolate import differences
from excitor.design.programs.plan import duration, marks, planned
from excitor.design.programs.registry import executor
from excitor.design.programs.target import Machine, ProgramError, check, from_axes, program_names, to_axes
from excitor.design.programs.twincat.cam import TARGET, emit
from excitor.design.programs.twincat.cam_controller import execute
from excitor.design.programs.twincat.plc import Cam, Camming, Cell, quintic
from excitor.design.programs.verify import Judge, verify
from tests.mutations.twincat_cam import mutations


def machine(plan, **given):
    axes = given.pop("axes", to_axes(plan.robot, TARGET, plan.home))
    return Machine(axes, plan.sample_time, **{"payload": plan.payload or 0.0, **given})


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
    "times that are no round numbers": {
        "period": 10.0 / 7.0, "ramp": 10.0 / 7.0, "measured": 40, "step": 1.0 / 70.0, "way": 0, "harmonics": (1, 3),
    },
}  # fmt: skip


@pytest.mark.parametrize("given", PLANS.values(), ids=PLANS)
def test_axes_pass_the_planned_points(plan_of, given):
    plan = plan_of(**given)
    if given.get("period") == 10.0 / 7.0:
        excitation = replace(plan.body.excitation, settle=70.0 / 70.0, hold=70.0 / 70.0)
        plan = replace(plan, body=replace(plan.body, excitation=excitation))
    check(plan, TARGET)
    execution = execute(emit(plan, "exc", None), "exc", machine(plan))
    assert differences(plan, TARGET, execution, plan.sample_time) == []
    for stretch in execution.stretches:
        assert (stretch.kind, stretch.interpolation) == ("points", "quintic")
        for order, values in enumerate((stretch.axes, stretch.rates, stretch.accelerations)):
            wanted = to_axes(plan.robot, TARGET, planned(plan, stretch.name, stretch.t, order), order)
            assert np.abs(values - wanted).max() <= 0.6e-9 + 1e-12 * np.abs(wanted).max(), (stretch.name, order)
    assert np.array(execution.marks) == pytest.approx(np.array(marks(plan)), abs=1e-6)


def test_the_quintic_between_points_is_the_series(plan_of):
    plan = plan_of(step=0.01)
    execution = execute(emit(plan, "exc", None), "exc", machine(plan))
    main = next(stretch for stretch in execution.stretches if stretch.name == "main")
    t = np.linspace(0.0, main.t[-1], 2000)
    found = np.array([_between(main, x) for x in t])
    peak = np.abs(planned(plan, "main", t, 2)).max()
    position = from_axes(plan.robot, TARGET, found[:, 0])
    acceleration = from_axes(plan.robot, TARGET, found[:, 2], 2)
    assert np.abs(position - planned(plan, "main", t)).max() <= 1e-6
    assert np.abs(acceleration - planned(plan, "main", t, 2)).max() <= 1e-3 * peak


def _between(stretch, x):
    k = min(np.searchsorted(stretch.t, x, side="right"), len(stretch.t) - 1)
    rows = [np.stack([y[i] for y in (stretch.axes, stretch.rates, stretch.accelerations)]) for i in (k - 1, k)]
    ends = [[(t, *column) for column in row.T] for t, row in zip(stretch.t[k - 1 : k + 1], rows, strict=True)]
    return np.array([quintic(a, b, x) for a, b in zip(*ends, strict=True)]).T


def test_sliding_axes_are_in_mm(plan_of, gantry):
    plan = plan_of(gantry, period=2.0, step=0.01, ramp=1.0, harmonics=(1, 3), moves=True)
    execution = execute(emit(plan, "exc", None), "exc", machine(plan))
    assert differences(plan, TARGET, execution, plan.sample_time) == []


def test_the_core_accepts_programs_and_dry_runs(small):
    body = replace(small.body, sines=0.15 * small.body.sines, cosines=0.15 * small.body.cosines)
    for plan in (small, replace(small, body=body, dry=True)):
        files = emit(plan, "exc", None)
        assert verify(plan, TARGET, executor("twincat-cam"), files=files, name="exc", judge=Judge()).problems == ()
        assert ("DRY RUN" in files["exc.st"]) == plan.dry


def test_tables_do_not_grow_with_periods(plan_of, gantry):
    few, many = (_numbers(emit(plan_of(gantry, measured=k), "exc", None)["exc_points.st"]) for k in (2, 500))
    assert few.shape == many.shape
    assert many == pytest.approx(few, abs=1e-6)  # ramps out are evaluated at times that are a thousand seconds apart


def _numbers(text):
    return np.array(re.findall(r"-?\d+\.\d{2,}", text), dtype=float)


def test_points_are_as_dense_as_asked_and_never_fewer_than_ten_a_cycle(small):
    for spacing, most in ((0.01, 0.01), (0.05, 0.05), (1.0, 0.05)):
        execution = execute(emit(small, "exc", spacing), "exc", machine(small))
        main = execution.stretches[1]
        assert np.diff(main.t)[(main.t[1:] > 1.01) & (main.t[1:] < 10.0)].max() == pytest.approx(most)
        assert differences(small, TARGET, execution, small.sample_time) == []


def test_files_for_other_cam_editors_hold_the_same_points(small):
    files = emit(small, "exc", None)
    rows = [line.split(";") for line in files["exc_axis2.csv"].splitlines()]
    assert rows[0] == ["table", "master", "slave", "velocity", "acceleration"]
    table = np.array(rows[1:], dtype=float)
    period = table[table[:, 0] == 3.0]
    assert period[[0, -1], 1].tolist() == [0.0, 2.0]
    assert period[0, 2:].tolist() == period[-1, 2:].tolist()


@pytest.mark.parametrize("text", ["a*) bRun := TRUE; (*", "END_VAR", "$N$R\nFOR", "über räum", "n" * 300, ""])
def test_names_stay_names(plan_of, gantry, text):
    plan = plan_of(gantry, period=2.0, step=0.01, ramp=1.0, harmonics=(1,), run=text, campaign=text)
    (name,) = program_names([text], TARGET)
    files = emit(plan, name, None)
    assert all(file.startswith(name) for file in files)
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


def test_any_task_cycle_will_do(small):
    files = emit(small, "exc", None)
    for step in (0.001, 0.0037, 0.01):
        execution = execute(files, "exc", replace(machine(small), step=step))
        assert differences(small, TARGET, execution, small.sample_time) == []


def test_a_robot_near_home_goes_home_first(small):
    home = to_axes(small.robot, TARGET, small.home)
    execution = execute(emit(small, "exc", None), "exc", machine(small, axes=home + np.array([0.9, -0.45])))
    assert differences(small, TARGET, execution, small.sample_time) == []


@pytest.mark.parametrize("at", [1.9, 4.1, 9.53, 13.0, 17.2], ids=str)
@pytest.mark.parametrize("why", ["bRun", "override", "axis"])
def test_a_stop_is_smooth_and_final(small, at, why):
    places = []

    def operator(cell):
        places.append([axis.position for axis in cell.axes])
        t = cell.cycle * small.sample_time
        if t >= at and why == "bRun":
            cell.set("bRun", t > at + 2.0)  # TRUE again does not go on
        if t >= at and why == "axis":
            cell.axes[1].failed = True
        if t >= at and why == "override":
            cell.machine = replace(cell.machine, override=0.9)

    try:
        execution = execute(emit(small, "exc", None), "exc", machine(small), operator)
    except ProgramError as error:
        pytest.fail(str(error))
    assert execution.halted.startswith("Stopped")
    v = np.diff(np.array(places), axis=0) / small.sample_time
    k = round(at / small.sample_time)
    assert np.abs(v[k + 45 :]).max(initial=0.0) == 0.0
    peak = np.abs(v[: k + 1]).max()
    if why == "axis":  # each axis brakes by itself, as hard as from its highest speed in 0.3 s
        times = np.linspace(0.0, duration(small, "main"), 2000)
        peak = max(peak, 0.3 * np.abs(to_axes(small.robot, TARGET, planned(small, "main", times, 1), 1)).max())
    assert np.abs(np.diff(v[k - 2 :], axis=0)).max() <= 0.2 * peak + 1e-9


def test_a_scope_that_still_records_is_refused(small, monkeypatch):
    monkeypatch.setattr(Cell, "_record", lambda cell: cell.set("bLoggerRunning", True))
    execution = execute(emit(small, "exc", None), "exc", machine(small))
    assert execution.halted == "Set bLoggerRunning to FALSE first."
    assert execution.stretches == ()


def _failing(name, output, from_call=1):
    """Make a library whose block reports an error instead of working, from some rising edge on."""
    original, edges = Camming.library, []

    def library(camming):
        made = original(camming)
        record = made.types[name]
        work, execute_before = record.native(), {}

        def broken(B):
            if B[0] and not execute_before.get(id(B)):
                edges.append(id(B))
            execute_before[id(B)] = B[0]
            if len(edges) >= from_call and edges[-1] == id(B):
                B[output] = bool(B[0])
            else:
                work(B)

        record.native = lambda: broken
        return made

    return library


CAM_IN, MOVE, HALT, OUT = 12, 11, 8, 6  # the slots of Error


@pytest.mark.parametrize(
    ("block", "slot", "from_call", "says"),
    [
        ("MC_MoveAbsolute", MOVE, 1, "Stopped: no move home by axis"),
        ("MC_MoveAbsolute", MOVE, 3, "Stopped: the master axis does not take its move."),
        ("MC_CamIn", CAM_IN, 1, "Stopped: a cam table was refused by axis"),
        ("MC_CamIn", CAM_IN, 5, "Stopped: a cam table was refused by axis"),
        ("MC_CamOut", OUT, 1, "Stopped: still coupled is axis"),
    ],
)
def test_an_error_of_any_block_stops_everything(small, monkeypatch, block, slot, from_call, says):
    monkeypatch.setattr(Camming, "library", _failing(block, slot, from_call))
    speeds = []

    def operator(cell):
        speeds.append([axis.velocity for axis in _all(cell)])

    execution = execute(emit(small, "exc", None), "exc", machine(small), operator)
    assert execution.halted.startswith((says, "An axis is still coupled") if block == "MC_CamOut" else says)
    assert not np.any(speeds[-10:])


def _all(cell):
    return cell.controller.axes


@pytest.mark.parametrize("at", [0.9, 4.1, 10.5])
def test_where_halting_fails_every_axis_is_stopped_and_then_uncoupled(small, monkeypatch, at):
    monkeypatch.setattr(Camming, "library", _failing("MC_Halt", HALT))
    places = []

    def operator(cell):
        places.append([axis.position for axis in _all(cell)])
        cell.set("bRun", 0.5 <= cell.cycle * small.sample_time < at)

    home = to_axes(small.robot, TARGET, small.home)
    execution = execute(emit(small, "exc", None), "exc", machine(small, axes=home + np.array([0.9, -0.45])), operator)
    assert execution.halted == "Stopped, because bRun went FALSE."
    stopped = np.array(places)[round((at + 0.35) / small.sample_time) :]
    assert len(stopped) > 5
    assert np.ptp(stopped, axis=0).max() == 0.0


@pytest.mark.parametrize("lost", [1, 3])
def test_a_table_that_is_not_queued_stops_the_master_before_it_is_due(small, monkeypatch, lost):
    original, calls = Camming._queue, []

    def queue(slave, then):
        calls.append(then)
        if len(calls) != lost:
            original(slave, then)

    monkeypatch.setattr(Camming, "_queue", staticmethod(queue))
    execution = execute(emit(small, "exc", None), "exc", machine(small))
    assert execution.halted == "Stopped: the next cam table was not taken by axis 1"


def test_the_master_keeps_its_time(small):
    """It is at full speed 0.5 s after it has begun to move, and at rest 0.3 s after bRun has gone FALSE."""
    speeds = []

    def operator(cell):
        speeds.append(_all(cell)[-1].velocity)
        cell.set("bRun", 0.5 <= cell.cycle * small.sample_time < 9.0)

    execute(emit(small, "exc", None), "exc", machine(small), operator)
    speeds, h = np.array(speeds), small.sample_time
    begin = np.flatnonzero(speeds)[0]
    assert speeds[begin + round(0.5 / h)] == pytest.approx(1.0)
    assert speeds[round(8.9 / h)] == pytest.approx(1.0)
    assert speeds[round(9.36 / h) :].max() == 0.0
    assert np.abs(np.diff(speeds)).max() <= 5.0 * h * 1.001


@pytest.mark.slow
def test_every_mutation_is_caught(small):
    files = emit(small, "exc", None)
    made = list(mutations(files, "exc"))
    assert len(made) >= 34
    assert [label for label, changed in made if not _caught(small, changed)] == []


def _caught(plan, files):
    """Whether the core finds a program out; it is asked for refusals only where the motion is right."""
    try:
        if differences(plan, TARGET, execute(files, "exc", machine(plan)), plan.sample_time):
            return True
    except ProgramError:
        return True
    return not verify(plan, TARGET, executor("twincat-cam"), files=files, name="exc", judge=Judge()).good


@pytest.mark.slow
def test_a_public_parser_accepts_what_is_emitted(small):
    files = emit(small, "exc", None)
    assert blark.parse.parse_source_code(files["exc.st"]).exception is None
    shorter = re.sub(r"\[\n\s+((?:[^,\]]+, ){3}[^,\]]+)[^\]]*\]", r"[\1]", files["exc_points.st"])
    assert len(shorter) < 1000  # the parser takes minutes for arrays of hundreds of numbers
    assert blark.parse.parse_source_code(shorter).exception is None


def test_a_quintic_passes_its_ends_with_their_derivatives():
    a, b = (1.0, 2.0, -0.5, 3.0), (1.2, 1.5, 0.25, -4.0)
    assert quintic(a, b, 1.0) == pytest.approx(a[1:], abs=1e-12)
    assert quintic(a, b, 1.2) == pytest.approx(b[1:], abs=1e-12)
    x, d = 1.07, 1e-6
    for order in (0, 1):
        slope = (quintic(a, b, x + d)[order] - quintic(a, b, x - d)[order]) / (2.0 * d)
        assert slope == pytest.approx(quintic(a, b, x)[order + 1], rel=1e-6)


def test_a_periodic_cam_goes_on_and_another_ends():
    rows = ((0.0, 1.0, 0.0, 0.0), (1.0, 2.0, 0.5, 0.0), (2.0, 1.0, 0.0, 0.0))
    assert Cam(rows, True).at(7.0) == pytest.approx((2.0, 0.5, 0.0))
    with pytest.raises(ProgramError, match="the master is at 2.5, outside its cam table"):
        Cam(rows, False).at(2.5)
