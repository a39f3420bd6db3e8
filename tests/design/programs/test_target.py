"""Joints become a controller's axes and come back; what a controller cannot do is refused in a sentence."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

from excitor.design.programs import registry, target
from excitor.design.programs.plan import MEASURED, Stretches
from excitor.design.programs.target import (
    CannotDrive,
    Target,
    axes_of,
    check,
    filled,
    fitting_steps,
    from_axes,
    in_axes,
    stated,
    to_axes,
    units,
)
from excitor.robots.dynamics import frame_pose
from excitor.robots.load import load
from excitor.robots.robot import ControllerAxes
from tests.plans import reformed, there

DEGREES = Target("degrees", "a six-axis controller", "B", "", "deg", "deg", 6, 64, spacing=0.05, joints=6)
RADIANS = Target("radians", "a servo", "A", "", "rad", "rad", 9, 64, steps=(0.002, 0.008), slides=True)


def coupled(robot, *targets, seed=0):
    """Give a robot signs, a coupling between two turning joints, and zeros."""
    random = np.random.default_rng(seed)
    matrix = np.diag(random.choice([-1.0, 1.0], robot.n_joints))
    turning = np.flatnonzero(~robot.mechanism.prismatic)
    if turning.size > 2:
        matrix[turning[2], turning[1]] = -1.0
    axes = ControllerAxes("strange", robot.joint_names, matrix, random.uniform(-2.0, 2.0, robot.n_joints))
    return replace(robot, controllers={target.controller or target.name: axes for target in targets})


@pytest.fixture(params=["tx40", "iiwa", "kr150", "gantry"])
def robot(request, gantry):
    return gantry if request.param == "gantry" else load(request.param)


@pytest.mark.parametrize("target", [DEGREES, RADIANS])
def test_axes_come_back_as_joints(robot, target):
    robot = coupled(robot, target)
    q = np.random.default_rng(1).normal(size=(40, robot.n_joints))
    for order in range(4):
        there = to_axes(robot, target, q, order)
        np.testing.assert_allclose(from_axes(robot, target, there, order), q, atol=1e-13)
        np.testing.assert_allclose(to_axes(robot, target, q[0], order), there[0], atol=1e-12)  # one pose alone
        np.testing.assert_allclose(from_axes(robot, target, there[0], order), q[0], atol=1e-13)


def test_derivatives_of_axes_are_those_of_their_positions(robot):
    robot = coupled(robot, DEGREES)
    q, dq = np.random.default_rng(2).normal(size=(2, robot.n_joints))
    step = 1e-6
    there = [to_axes(robot, DEGREES, q + sign * step * dq) for sign in (1.0, -1.0)]
    slope = (there[0] - there[1]) / (2.0 * step)
    np.testing.assert_allclose(to_axes(robot, DEGREES, dq, order=1), slope, rtol=1e-7, atol=1e-5)


def test_turning_axes_are_in_degrees_and_sliding_ones_in_millimetres(gantry):
    np.testing.assert_array_equal(units(gantry, DEGREES), [1e3, 180.0 / np.pi])
    np.testing.assert_array_equal(units(gantry, RADIANS), [1.0, 1.0])
    np.testing.assert_allclose(to_axes(gantry, DEGREES, np.array([0.25, np.pi / 6.0])), [250.0, 30.0])


def test_the_pendant_of_a_known_robot():
    """Poses in a robot's file: what its pendant shows, and where its tool is then."""
    robot = load("kr150")
    target = replace(DEGREES, name="krl")
    poses = robot.controllers["krl"].poses
    assert len(poses) >= 3
    for pose in poses:
        shown = to_axes(robot, target, from_axes(robot, target, pose.axes * units(robot, target)))
        np.testing.assert_allclose(shown, pose.axes * units(robot, target), atol=1e-9)
        q = from_axes(robot, target, shown)
        np.testing.assert_allclose(frame_pose(robot, q[None])[0, :3, 3], pose.position, atol=1e-5)


def test_a_target_may_name_another_key_and_none_means_the_joints():
    robot = coupled(load("tx40"), replace(DEGREES, controller="other"))
    assert axes_of(robot, replace(DEGREES, controller="other")).controller == "strange"
    plain = axes_of(robot, DEGREES)
    assert plain.names == robot.joint_names
    np.testing.assert_array_equal(plain.matrix, np.eye(6))
    np.testing.assert_array_equal(plain.zero, 0.0)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("way", [0, 1, 3])
def test_a_plan_in_axes_is_the_plan_seen_in_axes(plan_of, robot, moves, way):
    robot = coupled(robot, DEGREES, seed=3)
    plan = plan_of(robot, moves=moves, way=way)
    there = in_axes(plan, DEGREES)
    for name in Stretches:
        t = np.linspace(0.0, plan.stretch(name).duration, 101)
        assert there.stretch(name).duration == plan.stretch(name).duration
        for order in range(4):
            seen = to_axes(robot, DEGREES, plan.stretch(name).at(t, order), order)
            np.testing.assert_allclose(there.stretch(name).at(t, order), seen, atol=1e-9 * max(1.0, np.abs(seen).max()))


def test_robots_that_a_controller_cannot_drive_are_refused(plan_of, gantry):
    check(plan_of("tx40"), DEGREES)
    with pytest.raises(CannotDrive, match=r"degrees: \S+ has 7 joints, a six-axis controller drives 6; choose another"):
        check(plan_of("iiwa"), DEGREES)
    with pytest.raises(CannotDrive, match="x of gantry slides, a six-axis controller programs turn joints only"):
        check(plan_of(gantry), replace(DEGREES, joints=None))
    check(plan_of(gantry), RADIANS)


def test_times_must_be_whole_steps(plan_of):
    plan = plan_of("tx40", step=0.004)
    assert fitting_steps(plan, RADIANS) == (0.002, 0.008)
    assert fitting_steps(plan, replace(RADIANS, steps=())) == (0.004,)
    odd = there(plan, plan.home, 2.002)
    assert fitting_steps(odd, RADIANS) == (0.002,)
    check(odd, RADIANS)
    none = there(plan, plan.home, 2.001)
    assert fitting_steps(none, RADIANS) == ()
    sentence = r"'excitation' are no whole numbers .* of 2 or 8 ms; set design.controller_sample_s = 0.008 and design"
    with pytest.raises(CannotDrive, match=sentence):
        check(none, RADIANS)
    check(none, replace(RADIANS, spacing=0.05))  # a table's points divide what there is


def test_every_time_of_a_plan_counts(plan_of):
    plan = plan_of("tx40", step=0.002, period=4.0)
    fast = replace(RADIANS, steps=(0.002, 0.004))
    assert fitting_steps(plan, fast) == (0.002, 0.004)
    for name in ("period", "ramp", "settle", "hold"):
        changed = replace(plan, body=reformed(plan.body, **{name: getattr(plan.body.excitation, name) + 0.002}))
        assert fitting_steps(changed, fast) == (0.002,), name
    slow = plan_of("tx40", step=0.002, moves=True)
    first, *others = slow.body.repeats()[0]
    longer = (replace(first, time=first.time + 0.002), *others)
    twice = replace(slow.body, segments=longer * 2)  # an even number of odd times adds up to even
    assert fitting_steps(replace(slow, body=twice), fast) == (0.002,)


TEMPLATE = """{% for line in head %}
{{ line }}
{% endfor %}
def {{ name }}_run():
{% if fast %}
 quick()
{% endif %}
 mark({{ MEASURED }})
"""


def test_a_template_is_filled_in(monkeypatch):
    monkeypatch.setattr(target, "file_text", {"a": TEMPLATE}.__getitem__)
    target._templates.cache_clear()
    try:
        values = {"head": ["# 1 < 2", "# {{ name }}"], "name": "x", "fast": False}
        first, last = ["# 1 < 2", "# {{ name }}", "def x_run():"], f" mark({MEASURED})"  # values are no templates
        assert filled("a", values) == [*first, last]
        assert filled("a", {**values, "fast": True, "head": []}) == ["def x_run():", " quick()", last]
        with pytest.raises(UndefinedError, match="fast"):
            filled("a", {"name": "x", "head": []})
    finally:
        target._templates.cache_clear()


def test_every_target_is_stated_in_a_data_file():
    folder = Path(target.__file__).parent
    files = {
        name: path.relative_to(folder)
        for path in folder.rglob("*.toml")
        if path.name not in ("effort.toml", "limits.toml")  # what torque programs change; what a controller enforces
        for name in tomllib.loads(path.read_text())
    }
    assert set(files) == set(registry.NAMES)
    for name, file in files.items():
        made, plain = registry.emitter(name).TARGET, stated(file.as_posix(), name)
        assert made == replace(plain, reserved=made.reserved, limits=made.limits)
        assert made.reserved >= plain.reserved
        assert all(sentence.strip() == sentence for sentence in (*made.needs, *made.loading, *made.logging))
