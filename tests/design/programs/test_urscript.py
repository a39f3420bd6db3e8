"""Scripts for Universal Robots: executed against planned, refused where they must be, and mistakes in them found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.design.programs.plan import Stretches, marks
from excitor.design.programs.target import CannotDrive, Event, Machine, ProgramError, check, fitting_steps, in_axes
from excitor.design.programs.urscript.controller import Controller, _compiled, execute
from excitor.design.programs.urscript.emit import TARGET, emit
from excitor.design.programs.urscript.language import Clock, Halt, load
from excitor.design.programs.verify import abort_problems
from tests.mutations.urscript import mutations
from tests.plans import lines, there

FOREIGN = Path(__file__).parent / "foreign" / "urscript"
TOLERANCE = 1e-8  # rad: the bar of class A in float64
EVENTS = ("out", "log on", "main", "log off", "back")
STANCE = np.array([0.0, -1.5, 1.5, 0.0, 0.0, 0.0])


def script(plan):
    check(plan, TARGET)
    return emit(plan, "prog", None)["prog.script"]


def run(text, axes=STANCE, step=0.008, name="prog", **kw):
    return execute({f"{name}.script": text}, name, Machine(np.asarray(axes), step, **{"longest": 2000.0, **kw}))


def run_plan(plan, text, step, **kw):
    return run(text, **{"axes": plan.home, "step": step, "payload": plan.payload or 0.0, **kw})


def deviation(plan, execution, step):
    """The largest deviation from the plan, or why there is none to tell."""
    if execution.halted:
        return f"halted: {execution.halted}"
    axes = in_axes(plan, TARGET)
    moving = [name for name in Stretches if axes.stretch(name).duration > 0.0]
    expected = tuple(e for e in EVENTS if e not in Stretches or e in moving)
    if execution.events != expected:
        return f"events are {execution.events}"
    due = marks(axes)
    if [m for _, m in execution.marks] != [m for _, m in due] or not np.allclose(
        [t for t, _ in execution.marks], [t for t, _ in due], atol=1e-6
    ):
        return "marks differ"
    if [s.name for s in execution.stretches] != moving:
        return "stretches differ"
    worst = 0.0
    for stretch in execution.stretches:
        if (
            stretch.kind != "commands"
            or abs(stretch.t[0]) > 1.001 * step
            or abs(stretch.t[-1] - axes.stretch(stretch.name).duration) > 1e-6
            or np.ptp(np.diff(stretch.t)) > 1e-9
        ):
            return f"times of {stretch.name} differ"
        worst = max(worst, np.abs(stretch.axes - axes.stretch(stretch.name).at(stretch.t)).max())
    return worst


def still(plan):
    """A plan that needs no way: it starts from home."""
    return there(plan)


@pytest.mark.parametrize(
    "of",
    [
        {},
        {"harmonics": range(1, 13), "period": 4.0, "measured": 1},
        {"harmonics": (2, 5, 9), "measured": 1},
        {"harmonics": (1,), "warm_up": 0, "ramp": 4.0},
        {"harmonics": (7,), "way": 3, "measured": 1},
        {"moves": True},
        {"moves": True, "way": 3},
        {"swing": 1e-9, "measured": 1},
        {"swing": 0.0, "measured": 1},
        {"swing": 50.0, "measured": 1},
    ],
    ids=str,
)
def test_executes_what_is_planned(plan_of, of):
    plan = plan_of(step=0.008, seed=3, payload=2.5, **of)
    assert fitting_steps(plan, TARGET) == (0.002, 0.008)
    assert deviation(plan, run_plan(plan, script(plan), 0.008), 0.008) <= TOLERANCE


def test_executes_at_both_control_steps(plan_of):
    plan = plan_of(step=0.008, measured=1, warm_up=0)
    assert deviation(plan, run_plan(plan, script(plan), 0.002), 0.002) <= TOLERANCE


def test_runs_where_the_step_fits(plan_of):
    plan = plan_of(step=0.002, period=1.002, ramp=1.002, measured=1, warm_up=0)
    assert fitting_steps(plan, TARGET) == (0.002,)
    assert deviation(plan, run_plan(plan, script(plan), 0.002), 0.002) <= TOLERANCE
    halted = run_plan(plan, script(plan), 0.008)
    assert "step" in halted.halted
    assert not halted.stretches


def test_plan_from_home(plan_of):
    plan = still(plan_of(step=0.008, measured=1))
    text = script(plan)
    assert deviation(plan, run_plan(plan, text, 0.008), 0.008) <= TOLERANCE


def test_robot_a_little_off_home_is_led_there(plan_of):
    plan = plan_of(step=0.008, measured=1)
    off = run_plan(plan, script(plan), 0.008, axes=plan.home + 0.008)
    assert deviation(plan, off, 0.008) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_executes_any_plan(plan_of, seed):
    random = np.random.default_rng(seed)
    harmonics = sorted(random.choice(np.arange(1, 13), size=random.integers(1, 9), replace=False).tolist())
    plan = plan_of(
        random.choice(["tx40", "kr150", "ur10", "qrc350"]),
        step=0.008,
        seed=seed,
        harmonics=harmonics,
        swing=10.0 ** random.uniform(-12, 1),
        way=int(random.integers(1, 4)),
        moves=bool(random.random() < 0.3),
        measured=int(random.integers(1, 4)),
        warm_up=int(random.integers(0, 3)),
    )
    for step in TARGET.steps:
        assert deviation(plan, run_plan(plan, script(plan), step), step) <= TOLERANCE


def test_size_does_not_depend_on_the_periods(plan_of):
    few, many = (script(plan_of(step=0.008, way=2, measured=n, payload=12.5)) for n in (1, 9))
    assert len(few) == len(many) <= 6000
    assert few.isascii()


def test_numbers_have_no_exponents(plan_of):
    text = script(plan_of(step=0.008, swing=1e-11))
    assert not [word for word in text.split() if word[0].isdigit() and "e" in word]


@pytest.mark.parametrize(
    "hostile",
    [
        'a"b',
        "x\nhalt\n",
        "end\rend",
        "# def f():",
        "p[1]",
        "while",
        "Grüße 中文 \u2028 \x00",
        "x" * 300,
        '$ 1 "a"',
        "'''\\n",
    ],
)
def test_names_inject_nothing(plan_of, hostile):
    plan = plan_of(step=0.008, harmonics=(1,), measured=1, warm_up=0)
    named = replace(plan, run=hostile, campaign=hostile)
    plain, text = (script(each).split("\n") for each in (plan, named))
    assert plain[1:] == text[1:]
    assert text[0].startswith("# ")
    assert len(text[0]) < 130
    assert "\r" not in text[0]


def test_a_dry_run_states_it(plan_of):
    plan = replace(plan_of(step=0.008, measured=1, swing=0.02), dry=True)
    text = script(plan)
    assert "DRY RUN at 15 percent amplitude" in text
    assert deviation(plan, run_plan(plan, text, 0.008), 0.008) <= TOLERANCE


@pytest.mark.parametrize("of", [{}, {"moves": True}], ids=str)
@pytest.mark.parametrize("step", TARGET.steps)
def test_refuses_before_anything_moves(plan_of, of, step):
    plan = plan_of(step=0.008, payload=3.0, **of)
    text = script(plan)
    cases = {
        "Speed": [{"override": share} for share in (0.99, 0.5, 0.1)],
        "Payload": [{"payload": 0.0}, {"payload": 3.2}],
        "home": [{"axes": plan.home + np.radians(5.0) * row} for row in np.eye(6)],
    }
    for word, machines in cases.items():
        for machine in machines:
            refused = run_plan(plan, text, step, **machine)
            assert word in refused.halted
            assert not refused.stretches
            assert not refused.events


def test_watches_the_speed_while_it_runs(plan_of):
    plan = plan_of(step=0.008, measured=1)
    unchecked = script(plan).replace(" ex_rest(3.0)\n ex_move(ex_h, 1.0)\n", "")
    refused = run_plan(plan, unchecked, 0.008, override=0.9)
    assert "Speed" in refused.halted
    assert refused.stretches[0].t[-1] < 0.5 + TARGET.stop_s / 0.9


@pytest.mark.parametrize("share", [0.2, pytest.param(0.5, marks=pytest.mark.slow), 0.9])
@pytest.mark.parametrize("step", [pytest.param(0.002, marks=pytest.mark.slow), 0.008])
def test_slows_down_along_its_path_where_the_slider_falls(plan_of, share, step):
    """Commands after the fall lie on the planned path, ever more slowly, and end at rest; checked by dense samples."""
    plan = plan_of(step=step, measured=2, swing=0.3)
    text, rng = script(plan), np.random.default_rng(7)
    for after in rng.uniform(0.05, 0.9, 2) * plan.body.duration:
        machine = Machine(
            plan.home,
            step,
            payload=plan.payload or 0.0,
            longest=2000.0,
            events=(Event("override", 100.0 * share, after),),
        )
        execution = execute({"prog.script": text}, "prog", machine)
        assert "Speed" in execution.halted
        assert list(abort_problems(plan, TARGET, execution, machine.events[0])) == []
        main = execution.stretches[-1]
        assert main.name == "main"
        dense = np.linspace(after - 0.1, after + 1.0, 50_000)
        path, tail = plan.body.at(dense), main.axes[main.t > after]
        at = [dense[np.argmin(np.abs(path - q).max(axis=1))] for q in tail[:: max(1, len(tail) // 40)]]
        assert max(np.abs(path - q).max(axis=1).min() for q in tail[:: max(1, len(tail) // 40)]) < 1e-4
        assert at == sorted(at)
        assert np.abs(np.diff(main.axes[-2:], axis=0)).max() < 0.01 * step


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("or ex_t - ex_n >", "or ex_t - ex_n > 1000000 +", "goes on"),
        ("ex_y = ex_y + ex_dt / 0.3", "ex_y = ex_y + ex_dt / 3.0", "moves on"),
        ("   ex_v = 1.0 - ex_y", "   ex_v = 1.0 + 0.0 * ex_y", "rad/s"),
        ("  ex_o = ex_i - ex_m\n", "", "speeds up again"),
        ("   if ex_y > 1.0:\n    stopj(3.0)\n    ex_stop", "   if ex_y > 0.1:\n    stopj(3.0)\n    ex_stop", "rad/s"),
    ],
)
def test_edits_of_the_stop_are_seen(plan_of, old, new, word):
    plan = plan_of(step=0.008, measured=3, swing=0.3)
    text = script(plan)
    assert text.count(old) == 1
    edited = text.replace(old, new)
    found = []
    for after in 1.0 + 1.2 + 2.4 - np.array([0.08, 0.12, 0.2]):  # stops across the end of a period
        machine = Machine(
            plan.home, 0.008, payload=plan.payload or 0.0, longest=2000.0, events=(Event("override", 50.0, after),)
        )
        found += abort_problems(plan, TARGET, execute({"prog.script": edited}, "prog", machine), machine.events[0])
    assert any(word in problem for problem in found), found


def test_gives_up_with_a_mark_and_starts_from_its_target(plan_of):
    plan = plan_of(step=0.008, payload=3.0)
    text = script(plan)
    machine = Machine(plan.home, 0.008, payload=0.0, longest=2000.0)
    controller = Controller(machine)
    runtime, steps = load(text, "prog.script", controller.builtins())
    controller.clock = clock = Clock(runtime.passes, 1e6)
    runtime.spawn = clock.spawn
    with pytest.raises(Halt):
        clock.run(steps)
    assert controller.register == -1
    assert "Payload" in controller.message
    checked, led, first = (text.index(word) for word in ("not at home", "get_target_joint_pos", "ex_rest(3.0)"))
    assert checked < led < first
    assert "start anew; never resume" in " ".join(TARGET.loading)


def test_payload_that_is_not_known_is_not_requested(plan_of):
    assert "payload" not in script(plan_of(step=0.008)).lower()


def test_refuses_robots_it_cannot_drive(plan_of, gantry):
    with pytest.raises(CannotDrive, match="iiwa.* has 7 joints"):
        check(plan_of("iiwa", step=0.008), TARGET)
    with pytest.raises(CannotDrive, match="2 joints"):
        check(plan_of(gantry, step=0.008), TARGET)
    with pytest.raises(CannotDrive, match="no whole numbers"):
        check(plan_of(step=0.005, period=4.005), TARGET)


def test_refuses_more_moves_than_a_controller_holds(plan_of):
    plan = plan_of(step=0.008, moves=True)
    poses = [(plan.start + 1e-5 * k, 0.8, 0.4) for k in range(949)]
    body = lines(plan.robot.joint_names, 0.008, plan.start, *poses, (plan.start, 0.8, 0.4))
    with pytest.raises(CannotDrive, match="split the run"):
        emit(replace(plan, body=body), "prog", None)


@pytest.mark.slow
@pytest.mark.parametrize("of", [{}, {"moves": True}], ids=str)
def test_finds_every_mistake(plan_of, of):
    plan = plan_of(step=0.008, payload=3.0, harmonics=(1, 2, 3), period=2.0, ramp=1.6, measured=1, warm_up=0, **of)
    text = script(plan)
    assert deviation(plan, run_plan(plan, text, 0.008), 0.008) <= TOLERANCE
    missed, count = [], 0
    for label, files in mutations({"prog.script": text}, "prog"):
        assert files["prog.script"] != text
        count += 1
        if not found(plan, files["prog.script"]):
            missed.append(label)
    assert not missed
    assert count >= 30


def found(plan, text):
    """Whether a run, or a refusal that fails, shows that a script does not do what is planned."""
    try:
        worst = deviation(plan, run_plan(plan, text, 0.008), 0.008)
        if isinstance(worst, str) or worst > TOLERANCE:
            return True
        machines = [
            {"override": 0.5},
            {"payload": 9.0},
            *({"axes": plan.home + np.radians(5.0) * e} for e in np.eye(6)),
        ]
        refusals = [run_plan(plan, text, 0.008, **machine) for machine in machines]
    except ProgramError:
        return True
    return any(not refused.halted or refused.stretches for refused in refusals)


# the language, by programs of others


def foreign(name, **kw):
    return run((FOREIGN / f"{name}.script").read_text(), name=name, **kw)


def test_hand_written_truth():
    done = foreign("truth", payload=1.5)
    (main,) = done.stretches
    i = np.concatenate([np.arange(125, 251), np.arange(1, 251), np.arange(1, 251)])
    expected = np.tile([0.0, -1.5, 1.5, 0.0, 0.5, 0.25], (626, 1))
    expected[:, 0] = 0.25 * np.sin(2 * np.pi * i / 250)
    expected[:, 3] = np.sin(np.pi * i / 250) ** 2
    assert main.name == "main"
    assert np.abs(main.axes - expected).max() < 1e-14
    assert np.allclose(main.t, 0.008 * np.arange(1, 627), atol=1e-12)
    assert done.marks == ((0.0, 3), (pytest.approx(126 * 0.008), 1001), (pytest.approx(376 * 0.008), 1002))
    assert done.events == ("log on", "main", "log off")
    assert not done.halted
    refused = foreign("truth", payload=0.0)
    assert refused.halted == "Tell the controller its payload"
    assert not refused.stretches


@pytest.mark.parametrize(
    ("name", "kind", "last"),
    [
        ("one_line_blocks", "way-points", [0.5, -1.5, 1.5, 0.0, 0.0, 0.0]),
        ("post_processor", "way-points", [-1.570796, -1.570796, 1.570796, -1.570796, -1.570796, 0.0]),
        ("polyscope", "way-points", [0.0, -1.2, 1.2, -1.5, -1.5, 0.0]),
        ("streaming_driver", "commands", [0.2, -1.5, 1.5, 0.0, 0.0, 0.0]),
        ("members", "way-points", [0.4, 0.5, 2.0, 0.0, 0.0, 0.0]),
        ("scopes", "way-points", [0.12, 1.5, 2.0, -3.0, 8.0, np.pi / 4]),
        ("table_of_points", "commands", [0.004, -1.5, 1.5, 0.0, 0.0, 0.0]),
    ],
)
def test_runs_programs_of_others(name, kind, last):
    done = foreign(name)
    (stretch,) = done.stretches
    assert (stretch.name, stretch.kind, done.halted) == ("out", kind, "")
    assert stretch.axes[-1] == pytest.approx(last, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "line", "sentence"),
    [
        ("cartesian", 5, "cannot be followed: a pose"),
        ("sockets", 2, "cannot be followed: socket_open"),
        ("remote_procedure", 3, "outside of the controller"),
        ("idle_loop", 3, "without motion, sync or sleep"),
        ("integer_division", 5, "1 / 8 divides integers"),
        ("copied_list", 4, "whether that copies"),
        ("two_masters", 9, "another thread already moves"),
    ],
)
def test_rejects_programs_of_others_clearly(name, line, sentence):
    with pytest.raises(ProgramError, match=sentence) as error:
        foreign(name)
    assert error.value.line == line


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no program"),
        ("def f():\n sync()\n", "a block lacks its end"),
        ("sync()\nend\n", "a block lacks its end, or has one too many"),
        ("movej([0,1,2,3,4])", "are no 6 joint positions"),
        ("movej([0,1,2,3,4,True])", "joint 5 is True"),
        ("servoj([0,0,0,0,0,0], 0, 0, 0.008, 0.03, 1000, 7)", "servoj takes q, a, v, t"),
        ("servoj([0,0,0,0,0,0], tt=1)", "servoj takes q, a, v, t"),
        ("servoj([0,0,0,0,0,0], 0, 0, 0.008, 0.3, 1000)", "lookahead_time is 0.3"),
        ("servoj([0,0,0,0,0,0], 0, 0, 0.008, 0.029, 1000)", "lookahead_time is 0.029"),
        ("servoj([0,0,0,0,0,0], 0, 0, 0.008, 0.1, 99)", "gain is 99, expected 100 to 2000"),
        ("servoj([0,0,0,0,0,0], 0, 0, 0.008, 0.1, 2001)", "gain is 2001, expected 100 to 2000"),
        ("servoj([0,0,0,0,0,0], t=0)", "servoj is given 0 s, expected a time above 0"),
        ("movej([1,0,0,0,0,0], v=0)", "a motion with v = 0 and a = 1.4 never ends"),
        ("movej([1,0,0,0,0,0], a=0)", "a motion with v = 1.05 and a = 0 never ends"),
        ("stopj(0)", "a deceleration of 0, expected one above 0"),
        ("x = y + 1", "nothing is called 'y'"),
        ("frobnicate(1)", "no function is called 'frobnicate'"),
        ("f()\ndef f():\n sync()\nend", "before its definition"),
        ("def f(a):\n sync()\nend\nf()", "f lacks a"),
        ("def f(a):\n sync()\nend\nf(1, 2)", "f takes a"),
        ("def f():\n x = 1\nend\ndef f():\n x = 2\nend\nf()", "defined twice"),
        ("def f():\n local k = 1\n def g():\n  return k\n end\n return g()\nend\nf()", "nothing is called 'k'"),
        ("sin = 3", "is a function, and is assigned"),
        ("x = 1\nif x:\n sync()\nend", "expected True or False"),
        ("while 1:\n sync()\nend", "expected True or False"),
        ("x = True + 1", "for numbers"),
        ('x = "a" * 3', "for numbers"),
        ("x = 1.0 / 0.0", "division by zero"),
        ("x = [1, 2]\ny = x[2]", "item 2 of a list of 2"),
        ("x = [1, 2]\ny = x[-1]", "item -1 of a list of 2"),
        ("x = [1, 2] + [1, 2, 3]", "do not fit each other"),
        ("x = sqrt(-1.0)", "do not fit this operation"),
        ("x = sync()", "returns nothing"),
        ("x = 3000000000", "exceeds the 32 bits"),
        ("x = 2000000000\nx = x + x", "exceeds the 32 bits"),
        ("break", "outside of a loop"),
        ("write_output_integer_register(24, 1.5)", "expected an integer"),
        ("write_output_integer_register(24, 1001)\nsync()", "without its end mark"),
        ("write_output_integer_register(24, 7)", "does not halt at its end"),
        ("write_output_integer_register(24, 0)\nhalt", "leaves 0 in register 24, expected -1"),
        ("write_output_integer_register(24, 0)\nmovej([1,0,0,0,0,0])", "says that the robot stands"),
        ("movej([1,0,0,0,0,0])\nservoj([1,0,0,0,0,0], 0, 0, 0.008, 0.03, 500)", "within one segment"),
        ("while True:\n sync()\nend", "does not end within 2000 s"),
        ("def f():\n f()\nend\nf()", "without end|too much"),
        ("thread t():\n sync()\nend\nt()", "start it with run"),
        ("sec s():\n sleep(1.0)\nend", "secondary program"),
        ("x = " + "-" * 3000 + "1", "too deep"),
        ('s = "abcdefgh"\nwhile True:\n s = str_cat(s, s)\nend', "more than 10000 characters"),
        ("sync()\n9", "nothing is done with"),
        ("x = 1 § 2", "no part of the language"),
    ],
)  # fmt: skip
def test_rejects_what_is_wrong(text, sentence):
    with pytest.raises(ProgramError, match=sentence):
        run(text)


@pytest.mark.parametrize(("lookahead", "gain"), [(0.03, 100), (0.2, 2000)])
def test_bounds_of_a_servo_are_still_in_it(lookahead, gain):
    moved = run(f"servoj([0,0,0,0,0,0.01], 0, 0, 0.008, {lookahead}, {gain})").stretches[0]
    assert moved.axes[-1].tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, 0.01]


def test_a_missing_file_is_reported():
    with pytest.raises(ProgramError, match="no such file"):
        execute({}, "prog", Machine(STANCE, 0.008))


def test_a_slider_stretches_time():
    loop = "while k < 100:\n servoj([0.0,0.0,0.0,0.0,0.0,0.01 * k], t=0.008)\n k = k + 1\nend"
    for share in (1.0, 0.9, 0.5, 0.25):
        assert run(f"k = 0\n{loop}", override=share).stretches[0].t[-1] == pytest.approx(0.8 / share, abs=0.008)


def test_a_script_that_was_stopped_on_another_machine_runs_as_a_fresh_one_does(plan_of):
    """It is compiled once: variables, functions and the controller begin anew each time."""
    plan, step = plan_of(), fitting_steps(plan_of(), TARGET)[0]
    text = script(plan)
    _compiled.cache_clear()
    fresh = run_plan(plan, text, step)
    stopped = run_plan(plan, text, 2.0 * step, events=(Event("override", 20.0, 1.0),))
    assert stopped.halted
    again = run_plan(plan, text, step)
    assert _compiled.cache_info().misses == 1
    assert (again.events, again.marks, again.halted) == (fresh.events, fresh.marks, "")
    for one, other in zip(again.stretches, fresh.stretches, strict=True):
        assert np.array_equal(one.t, other.t)
        assert np.array_equal(one.axes, other.axes)


def test_a_script_that_runs_again_knows_no_values_of_the_run_before():
    text = "q = get_actual_joint_positions()\nif q[0] > 1.0:\n known = 1.0\nend\nsleep(known)"
    assert not run(text, axes=STANCE + 2.0).halted
    with pytest.raises(ProgramError, match="without a value"):
        run(text, axes=0.0 * STANCE)


def test_a_script_holds_as_many_moves_as_it_says(plan_of, monkeypatch):
    """Each move of the way is written twice: out, and back."""
    plan = plan_of("ur10", way=3, measured=1)
    monkeypatch.setattr("excitor.design.programs.urscript.emit.MOST_MOVES", 6)
    assert emit(plan, "prog", None)
    monkeypatch.setattr("excitor.design.programs.urscript.emit.MOST_MOVES", 5)
    with pytest.raises(CannotDrive, match="consists of 6 moves, a script holds 5; split the run"):
        emit(plan, "prog", None)
