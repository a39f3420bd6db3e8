"""What certified motions may use of their limits when executed, what 1 % more does, and what noise must not."""

import time
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.constraints.constraints import Constraints
from excitor.design.programs.interpolate import alike, evaluate, executed, looked_at, part_of, spacing_for
from excitor.design.programs.plan import Stretches
from excitor.design.programs.target import Execution, Stretch, Target, rounded, table_times, to_axes
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, Shape, Zone, clearances, tool_speeds
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.gram import condition_number, stack
from excitor.robots.inertia import translation
from excitor.robots.load import load
from excitor.robots.robot import ControllerAxes, Limits, Motion

SERVO = Target("servo", "a servo loop", "A", "", "rad", "rad", 9, 32, slides=True)
TABLE = Target("table", "a table", "B", "", "rad", None, 12, 64, spacing=0.05, slides=True)
SPLINE = Target("spline", "a spline of positions", "B", "", "deg", None, 6, 64, spacing=0.05, slides=True)
BLEND = Target("blend", "blended way-points", "C", "", "deg", None, 6, 64, spacing=0.05, slides=True)
TARGETS = {"commands": SERVO, "quintic": TABLE, "cubic": TABLE, "spline": SPLINE, "blend": BLEND}


def played(plan, kind, *, step=0.004, spacing=0.05, noise=0.0, target=None):
    """Do what a faultless emitter and executor would do."""
    target = target or TARGETS[kind]
    made = []
    for name in Stretches:
        if plan.stretch(name).duration == 0.0:
            continue
        commands = kind == "commands"
        t = (
            np.arange(round(plan.stretch(name).duration / step) + 1) * step
            if commands
            else table_times(plan, name, spacing)
        )
        axes, *rates = (to_axes(plan.robot, target, plan.stretch(name).at(t, order), order) for order in range(3))
        axes = axes + np.random.default_rng(5).uniform(-noise, noise, axes.shape)
        axes = axes if commands else rounded(axes, target.decimals)
        if kind == "blend" and name != "main":  # the corners alone, where the controller comes to rest
            t = plan.stretch(name).edges
            made.append(Stretch(name, "way-points", t, to_axes(plan.robot, target, plan.stretch(name).at(t))))
        elif kind == "blend":
            made.append(Stretch(name, "way-points", t, axes, interpolation="blend"))
        elif commands:
            made.append(Stretch(name, "commands", t, axes))
        else:
            stated = {"quintic": rates, "cubic": [rates[0], None], "spline": [None, None]}[kind]
            made.append(Stretch(name, "points", t, axes, *stated, kind))
    return Execution(tuple(made))


def run(plan, kind, *, constraints=None, score=None, **how):
    return executed(
        plan, how.get("target") or TARGETS[kind], played(plan, kind, **how), constraints=constraints, score=score
    )


def score_of(robot):
    columns = base_parameters(robot).kept
    return lambda motion: condition_number(stack(regressor(robot, motion)[:, :, columns]))


@pytest.fixture(scope="module")
def plan(plan_of):
    return plan_of("tx40", period=10.0, ramp=5.0, measured=3, swing=0.15, way=2)


@pytest.fixture(scope="module")
def unbounded(plan):
    n = plan.robot.n_joints
    free = np.full(n, np.inf)
    return Constraints(Limits(np.tile([-np.inf, np.inf], (n, 1)), free, free, free, free), free)


@pytest.fixture(scope="module")
def peaks(plan, unbounded):
    """Largest values of the planned motion on a fine grid, by kind of row."""
    worst = []
    for name in Stretches:
        t = np.linspace(0.0, plan.stretch(name).duration, 20_001)
        motion = Motion(*(plan.stretch(name).at(t, order) for order in range(3)))
        jerk, tau = plan.stretch(name).at(t, 3), inverse_dynamics(plan.robot, motion)
        sizes = [np.abs(x).max(axis=0) for x in (motion.dq, motion.ddq, jerk, tau)]
        position = np.concatenate([motion.q.max(axis=0), -motion.q.min(axis=0)])
        worst.append([position, *sizes, tool_speeds(plan.robot, motion).max(keepdims=True)])
    kinds = ("position", "velocity", "acceleration", "jerk", "torque", "tool speed")
    return {kind: np.max([values[k] for values in worst], axis=0) for k, kind in enumerate(kinds)}


def limited(unbounded, kind, values):
    if kind == "tool speed":
        return replace(unbounded, tool_speed=float(values[0]))
    return replace(unbounded, limits=replace(unbounded.limits, **{kind: values}))


@pytest.mark.parametrize("kind", ["velocity", "acceleration", "jerk", "torque", "tool speed"])
@pytest.mark.parametrize("how", [*TARGETS])
def test_a_motion_may_use_all_of_a_limit_but_not_one_percent_more(plan, unbounded, peaks, how, kind):
    noise = 1e-7 if how == "commands" else 0.0  # of 24 bits
    all_of_it = run(plan, how, constraints=limited(unbounded, kind, peaks[kind]), noise=noise)
    assert all_of_it.limits_hold, all_of_it.broken
    assert all_of_it.broken == ()
    beyond = run(plan, how, constraints=limited(unbounded, kind, peaks[kind] / 1.01), noise=noise)
    word = {"torque": "torque peak"}.get(kind, kind)
    found = [sentence for sentence in beyond.broken if sentence.startswith(f"main: {word}") and "limit" in sentence]
    assert bool(found) == (kind != "jerk" or how not in ("cubic", "blend"))  # these have none: accelerations jump
    assert beyond.limits_hold == (not beyond.broken)


@pytest.mark.parametrize("how", [*TARGETS])
def test_positions_may_touch_their_limits(plan, unbounded, peaks, how):
    high, low = np.split(peaks["position"], 2)
    touching = np.stack([-low, high], axis=1)
    assert run(plan, how, constraints=limited(unbounded, "position", touching)).limits_hold
    narrow = touching + (1e-3 if how in ("spline", "blend") else 3e-5) * np.array([1.0, -1.0])
    broken = run(plan, how, constraints=limited(unbounded, "position", narrow)).broken
    assert any(" upper reaches" in sentence and "rad, limit" in sentence for sentence in broken)
    assert any(" lower reaches" in sentence for sentence in broken)


@pytest.mark.parametrize(("how", "seen"), [("commands", 5e-4), ("quintic", 5e-4), ("spline", 5e-4), ("blend", 0.01)])
def test_clearances_may_be_used_up(plan, unbounded, how, seen):
    def cell(clearance):
        zone = Zone("table", Shape("half-space", translation(0.0, 0.0, -3.0)), "out", "tool", clearance)
        return Scene((zone,), self_collision=False)

    q = np.concatenate(
        [plan.stretch(name).at(np.linspace(0.0, plan.stretch(name).duration, 20_001)) for name in Stretches]
    )
    nearest = float(clearances(plan.robot, cell(0.0), q).min())
    assert run(plan, how, constraints=replace(unbounded, scene=cell(nearest))).limits_hold
    broken = run(plan, how, constraints=replace(unbounded, scene=cell(nearest + seen))).broken
    assert broken
    assert all("clearance: table / tool reaches" in sentence and " m, limit" in sentence for sentence in broken)


def test_torques_are_held_to_their_mean_squares(plan, unbounded):
    motion = plan.body.periodic.motion(plan.body.periodic.grid(4000))
    rms = np.sqrt(np.square(inverse_dynamics(plan.robot, motion)).mean(axis=0))
    for how in ("commands", "spline"):
        assert run(plan, how, constraints=replace(unbounded, torque_rms=1.001 * rms)).limits_hold
        broken = run(plan, how, constraints=replace(unbounded, torque_rms=rms / 1.01)).broken
        assert len({s.split("reaches")[0] for s in broken}) == plan.robot.n_joints


def test_errors_are_those_that_were_made(plan):
    grown = replace(plan, body=plan.body.scaled(1.01))
    wrong = executed(plan, SERVO, played(grown, "commands"), constraints=None, score=None)
    t = np.linspace(0.0, plan.body.duration, 20_001)
    swing = np.abs(plan.body.at(t) - plan.start).max()
    np.testing.assert_allclose(wrong.max_position_error, 0.01 * swing, rtol=1e-3)
    np.testing.assert_allclose(wrong.acceleration_error, 0.01, rtol=0.05)  # what a servo keeps of the difference
    right = run(plan, "commands")
    assert right.max_position_error == right.interpolated_position_error == right.acceleration_error == 0.0
    assert right.limits_hold
    assert right.assumed == ""


def test_more_than_planned_breaks_limits(plan, unbounded, peaks):
    grown = replace(plan, body=plan.body.scaled(1.01))
    for kind in ("velocity", "acceleration"):
        constraints = limited(unbounded, kind, peaks[kind])
        found = executed(plan, SERVO, played(grown, "commands"), constraints=constraints, score=None)
        assert any(sentence.startswith(f"main: {kind}") for sentence in found.broken)


def test_rounding_to_24_bits_is_not_taken_for_motion(plan, unbounded, peaks):
    """1e-6 rad at 2 ms makes 1 rad/s² by differences; peaks here are of that size."""
    constraints = limited(unbounded, "acceleration", peaks["acceleration"])
    noisy = run(plan, "commands", step=0.002, noise=1e-6, constraints=constraints, score=score_of(plan.robot))
    assert noisy.limits_hold, noisy.broken
    assert noisy.acceleration_error < 1e-3
    commands = played(plan, "commands", step=0.002, noise=1e-6).stretches[1].axes
    assert np.abs(np.diff(commands, 2, axis=0)).max() / 0.002**2 > 0.5 * peaks["acceleration"].max()
    planned_value = score_of(plan.robot)(plan.body.periodic.motion(plan.body.periodic.grid(2003)))
    np.testing.assert_allclose(noisy.conditions, planned_value, rtol=1e-3)


def test_default_spacings_meet_their_bars(plan):
    quintics = run(plan, "quintic", spacing=0.05)
    assert quintics.interpolated_position_error < 1e-6
    assert quintics.acceleration_error < 1e-3
    assert quintics.assumed == ""
    finer = run(plan, "quintic", spacing=0.025)
    assert finer.acceleration_error < quintics.acceleration_error / 10.0  # the fourth power of the spacing
    cubics = [run(plan, "cubic", spacing=spacing).acceleration_error for spacing in (0.1, 0.05)]
    assert 3.0 < cubics[0] / cubics[1] < 5.0  # its square


def test_what_is_not_known_is_a_range(plan):
    score = score_of(plan.robot)
    value = score(plan.body.periodic.motion(plan.body.periodic.grid(2003)))
    for how in ("commands", "quintic", "cubic"):
        low, high = run(plan, how, score=score).conditions
        assert low == high
        np.testing.assert_allclose(high, value, rtol=1e-3)
    spline = run(plan, "spline", spacing=0.1, score=score)
    blend = run(plan, "blend", score=score)
    for found in (spline, blend):
        assert found.conditions[0] < found.conditions[1]
        np.testing.assert_allclose(found.conditions, value, rtol=0.05)
    assert spline.assumed.startswith("out, main, back: points joined by a C2 cubic spline")
    assert "Catmull-Rom" in spline.assumed
    assert "blends over 10, 50, 100 %" in blend.assumed
    assert "out, back: straight lines" in blend.assumed
    assert blend.interpolated_position_error > 1e-4  # corners are cut
    assert 0.01 < blend.acceleration_error < 0.3


def test_decimals_matter_more_than_density(plan):
    """Facts/controllers.md 1.2: rounding to r makes an acceleration noise of r / (sqrt 2 dt²)."""
    errors = [
        run(plan, "spline", spacing=0.02, target=replace(SPLINE, decimals=decimals)).acceleration_error
        for decimals in (2, 3, 6)
    ]
    assert errors[0] > 2.0 * errors[1] > 2.0 * errors[2]
    assert errors[0] > 5.0 * errors[2]


def test_periods_that_differ_are_looked_at_each(plan, unbounded, peaks):
    execution = played(plan, "commands")
    out, main, back = execution.stretches
    excitation = plan.body.excitation
    third = excitation.settle + excitation.ramp + 3.0 * excitation.period
    wrong = bumped(plan, main, third + 4.0)
    told = Execution((out, wrong, back))
    assert not alike(plan, SERVO, part_of(plan, SERVO, wrong))
    part = part_of(plan, SERVO, main)
    assert alike(plan, SERVO, part)
    assert looked_at(plan, SERVO, part).size < 0.6 * looked_at(plan, SERVO, part_of(plan, SERVO, wrong)).size
    constraints = limited(unbounded, "velocity", peaks["velocity"])
    score = score_of(plan.robot)
    found = executed(plan, SERVO, told, constraints=constraints, score=score)
    assert not found.limits_hold
    right = executed(plan, SERVO, execution, constraints=constraints, score=score)
    assert right.limits_hold
    assert found.conditions != right.conditions


def bumped(plan, main, begin, size=0.3):
    """Push all axes aside and back within 2 s."""
    bump = 0.5 * (1.0 - np.cos(2.0 * np.pi * np.clip((main.t - begin) / 2.0, 0.0, 1.0)))
    return replace(main, axes=main.axes + size * bump[:, None])


def test_the_way_into_rest_is_held_to_limits_too(plan, unbounded, peaks):
    out, main, back = played(plan, "commands").stretches
    constraints = limited(unbounded, "velocity", peaks["velocity"])
    for begin in (0.1, plan.body.duration - 5.0):  # neither is a part of a period
        told = Execution((out, bumped(plan, main, begin), back))
        assert not executed(plan, SERVO, told, constraints=constraints, score=None).limits_hold


def test_warm_up_periods_are_not_scored(plan):
    out, main, back = played(plan, "commands").stretches
    excitation = plan.body.excitation
    told = Execution((out, bumped(plan, main, excitation.settle + excitation.ramp + 4.0), back))
    score = score_of(plan.robot)
    found = executed(plan, SERVO, told, constraints=None, score=score)
    right = executed(plan, SERVO, Execution((out, main, back)), constraints=None, score=score)
    assert found.max_position_error > 0.2
    np.testing.assert_allclose(found.conditions, right.conditions, rtol=1e-9)


def test_between_commands_the_motion_goes_on(plan):
    main = played(plan, "commands").stretches[1]
    wrong = bumped(plan, main, 20.0)
    course = part_of(plan, SERVO, wrong).courses[0]
    middle = 0.5 * (main.t[1:] + main.t[:-1])
    off = [evaluate(course, t) - plan.body.at(t) for t in (main.t, middle)]
    np.testing.assert_allclose(off[1], 0.5 * (off[0][1:] + off[0][:-1]), atol=1e-12)
    np.testing.assert_allclose(off[0], wrong.axes - main.axes, atol=1e-12)


def test_ways_are_held_to_limits_too(plan_of, unbounded):
    """The way out is the only part that goes beyond its limit."""
    plan = plan_of("tx40", period=10.0, ramp=5.0, way=1, swing=0.01)
    t = np.linspace(0.0, plan.out.duration, 2001)
    speed = np.abs(plan.out.at(t, 1)).max(axis=0)
    constraints = limited(unbounded, "velocity", np.maximum(0.9 * speed, 0.05))
    for how in TARGETS:
        names = {sentence.split(":")[0] for sentence in run(plan, how, constraints=constraints).broken}
        assert names == {"out", "back"}, how


@pytest.mark.parametrize("robot", ["tx40", "gantry", "iiwa"])
@pytest.mark.parametrize("how", [*TARGETS])
def test_robots_and_couplings(plan_of, gantry, robot, how):
    robot = gantry if robot == "gantry" else load(robot)
    n = robot.n_joints
    matrix = np.diag(np.where(np.arange(n) % 2, -1.0, 1.0))
    if n > 3:
        matrix[3, 2] = 1.0
    zero = np.linspace(-1.0, 1.0, n)
    coupled = ControllerAxes("strange", robot.joint_names, matrix, zero)
    robot = replace(robot, controllers={target.name: coupled for target in TARGETS.values()})
    plan = plan_of(robot, period=10.0, ramp=5.0, swing=0.1)
    found = run(plan, how)
    assert found.max_position_error < (3e-8 if how in ("spline", "blend") else 1e-12)
    assert found.conditions is None
    assert found.interpolated_position_error < {"blend": 0.02, "spline": 1e-3, "cubic": 1e-5}.get(how, 1e-6)


@pytest.mark.parametrize("how", [*TARGETS])
def test_runs_of_moves_have_no_condition(plan_of, unbounded, how):
    plan = plan_of("tx40", moves=True)
    constraints = replace(unbounded, limits=replace(unbounded.limits, velocity=np.full(6, 10.0)))
    found = run(plan, how, constraints=constraints, score=lambda motion: 1.0)
    assert found.conditions is None
    assert found.limits_hold, found.broken
    assert found.max_position_error < 1e-7


def test_corners_alone_are_lines_from_rest_to_rest(plan_of):
    plan = plan_of("tx40", moves=True, way=3)
    made = []
    for name in Stretches:
        t = plan.stretch(name).edges
        made.append(Stretch(name, "way-points", t, to_axes(plan.robot, BLEND, plan.stretch(name).at(t))))
        course = part_of(plan, BLEND, made[-1]).courses[0]
        at = np.linspace(0.0, plan.stretch(name).duration, 501)
        for order in range(3):
            np.testing.assert_allclose(evaluate(course, at, order), plan.stretch(name).at(at, order), atol=1e-9)
    found = executed(plan, BLEND, Execution(tuple(made)), constraints=None, score=None)
    assert found.max_position_error < 1e-9
    assert found.assumed.startswith("out, main, back: straight lines")


def test_spacing_that_would_do(plan):
    score = score_of(plan.robot)
    value = score(plan.body.periodic.motion(plan.body.periodic.grid(2003)))
    like = played(plan, "spline", spacing=0.4).stretches[1]
    found = {loss: spacing_for(plan, SPLINE, loss, score, like=like) for loss in (0.05, 0.001)}
    assert 0.0 < found[0.001] <= found[0.05]
    for loss, spacing in found.items():
        assert run(plan, "spline", spacing=spacing, score=score).conditions[1] < value * (1.0 + 1.5 * loss)


def test_spacing_that_keeps_limits(plan, unbounded, peaks):
    like = played(plan, "cubic", spacing=0.4).stretches[1]
    constraints = limited(unbounded, "acceleration", peaks["acceleration"])
    free = spacing_for(plan, TABLE, 0.5, score_of(plan.robot), like=like)
    splines = replace(like, rates=None, interpolation="spline")
    held = spacing_for(plan, SPLINE, 0.5, score_of(plan.robot), like=splines, constraints=constraints)
    assert 0.0 < held < free
    half = limited(unbounded, "acceleration", 0.5 * peaks["acceleration"])
    assert spacing_for(plan, TABLE, 0.5, score_of(plan.robot), like=like, constraints=half) == 0.0
    with pytest.raises(ValueError, match="no condition number"):
        spacing_for(replace(plan, body=plan.out), TABLE, 0.1, lambda motion: 1.0, like=like)


def test_points_that_no_motion_passes_are_refused(plan):
    main = played(plan, "spline").stretches[1]
    t = main.t.copy()
    t[7] = t[6]
    with pytest.raises(ValueError, match="main: times do not rise after 0.3 s"):
        part_of(plan, SPLINE, replace(main, t=t))
    with pytest.raises(ValueError, match="has 1 point; a motion takes two"):
        part_of(plan, SPLINE, replace(main, t=t[:1], axes=main.axes[:1]))


@pytest.mark.parametrize("how", ["commands", "quintic", "spline", "blend"])
def test_a_long_run_is_judged_quickly(plan_of, how):
    plan = plan_of("tx40", period=10.0, ramp=10.0, measured=10, warm_up=1)
    zone = Zone("table", Shape("half-space", translation(0.0, 0.0, -3.0)), "out", "all", 0.01)
    limits = Limits(plan.robot.limits.position + np.array([-9.0, 9.0]), *np.full((4, 6), 1e6))
    constraints = Constraints(limits, np.full(6, 1e6), Scene((zone,), True, 0.0), 100.0)
    execution, score = played(plan, how, step=0.002), score_of(plan.robot)
    if how == "commands":
        assert len(execution.stretches[1].t) > 65_000
    started = time.process_time()
    executed(plan, TARGETS[how], execution, constraints=constraints, score=score)
    assert time.process_time() - started < 1.5  # s; 0.05 to 0.2 s where nothing else runs
