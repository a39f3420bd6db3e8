"""Ways through a cell: clear between samples, slow, at rest where they turn; or a reason why there is none."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitor.design.approach import (
    NoPath,
    _blocking,
    _grow,
    _shortened,
    _trunk,
    approach,
    blocked,
    is_clear,
    search_box,
    timed,
)
from excitor.design.certify.certify import certify, failing
from excitor.design.constraints import clearance as clearance_file
from excitor.design.constraints.constraints import Constraints
from excitor.design.motion import Excitation, Run, line_run, periodic_run
from excitor.robots.cell import Scene, Shape, Zone, clearances, required, tool_speeds
from excitor.robots.dynamics import frame_pose, inverse_dynamics
from excitor.robots.load import load
from excitor.robots.robot import Limits, Motion
from tests.limits import from_robot

LEFT = np.array([1.1, 1.0, 0.9, 0.0, -0.4, 0.0])
RIGHT = np.array([-1.3, 1.0, 0.9, 0.0, -0.4, 0.0])


@pytest.fixture(scope="module")
def arm():
    return load("tx40")


def at(x, y, z):
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def wall(height=0.6):
    """A wall that stands between the arm's left and right."""
    return Zone("wall", Shape("box", at(0.5, 0.0, height - 0.5), np.array([0.25, 0.01, 0.5])), "out", "all", 0.01)


def walled(arm, height=0.6):
    return replace(from_robot(arm), scene=Scene((wall(height),)))


def excitation(moving=6):
    return Excitation(4.0, 0.004, (1, 2), np.arange(6) < moving, ramp=1.0)


def dense(path, n=20_000):
    return np.linspace(0.0, path.duration, n)


def test_a_clear_way_is_straight(arm):
    way = approach(arm, LEFT, RIGHT, replace(from_robot(arm), scene=Scene()))
    assert isinstance(way, Run)
    np.testing.assert_array_equal(way.knots, [LEFT, RIGHT])


def test_a_way_leads_around_a_wall(arm):
    constraints = walled(arm)
    assert not is_clear(arm, constraints, LEFT, RIGHT)
    way = approach(arm, LEFT, RIGHT, constraints)
    assert isinstance(way, Run)
    assert len(way.knots) > 2
    np.testing.assert_array_equal(way.knots[[0, -1]], [LEFT, RIGHT])
    q = way.at(dense(way))
    low, high = arm.limits.position.T
    assert ((q >= low) & (q <= high)).all()
    assert (clearances(arm, constraints.scene, q) >= required(arm, constraints.scene)).all()
    # An independent look at the same: the tool never enters the wall.
    p = frame_pose(arm, q)[:, :3, 3] - wall().shape.T_base_shape[:3, 3]
    assert not (np.abs(p) <= wall().shape.size + 0.01).all(axis=1).any()


def test_a_way_is_deterministic(arm):
    one, same = (approach(arm, LEFT, RIGHT, walled(arm)) for _ in range(2))
    np.testing.assert_array_equal(one.knots, same.knots)
    np.testing.assert_array_equal(one.edges, same.edges)


def test_a_way_is_slow_smooth_and_takes_whole_samples(arm):
    way = approach(arm, LEFT, RIGHT, walled(arm), sample_time=0.004)
    samples = np.diff(way.edges) / 0.004
    np.testing.assert_allclose(samples, samples.round(), atol=1e-6)
    t = dense(way)
    assert (np.abs(way.at(t, 1)) <= 0.25 * arm.limits.velocity * (1 + 1e-9)).all()
    assert (np.abs(way.at(t, 2)) <= 0.25 * arm.limits.acceleration * (1 + 1e-9)).all()
    turns = way.edges
    for order in (1, 2, 3):
        assert np.abs(way.at(turns, order)).max() < 1e-6
    np.testing.assert_allclose(way.at(turns), way.knots, atol=1e-12)
    np.testing.assert_allclose(way.at(np.array([way.duration + 1.0])), way.knots[-1:], atol=1e-12)


@pytest.mark.parametrize("order", range(4))
def test_pieces_are_the_way(arm, order):
    way = approach(arm, LEFT, RIGHT, walled(arm))
    for piece in way.pieces():
        t = np.linspace(0.0, piece.duration, 100)[1:-1]
        rounding = 1e-9 * (1.0 + piece.most[order].max())
        values = piece.at(t, order)
        np.testing.assert_allclose(values, way.at(piece.start + t, order), atol=rounding)
        assert (np.abs(values) <= piece.most[order] * (1 + 1e-9)).all()


def test_velocity_sums_to_the_way(arm):
    way = approach(arm, LEFT, RIGHT, walled(arm))
    t = dense(way)
    moved = np.trapezoid(way.at(t, 1), t, axis=0)
    np.testing.assert_allclose(moved, RIGHT - LEFT, atol=1e-5)


def test_the_way_back_is_the_same_backwards(arm):
    way = approach(arm, LEFT, RIGHT, walled(arm))
    t = np.linspace(0.0, way.duration, 500)
    np.testing.assert_allclose(way.reversed().at(t), way.at(way.duration - t), atol=1e-9)


def test_the_tools_speed_is_kept_on_the_way(arm):
    constraints = replace(from_robot(arm), tool_speed=0.1)
    way = approach(arm, LEFT, RIGHT, constraints)
    t = dense(way)
    motion = Motion(*(way.at(t, order) for order in range(3)))
    assert 0.08 < tool_speeds(arm, motion).max() <= 0.1


def test_a_blocked_home_is_reported_with_what_blocks_it(arm):
    inside = np.array([0.0, 1.0, 0.9, 0.0, -0.4, 0.0])
    constraints = walled(arm)
    assert blocked(arm, inside, constraints)
    none = approach(arm, inside, RIGHT, constraints)
    assert isinstance(none, NoPath)
    assert none.reason.startswith("the start of the way is blocked by wall / ")
    far = RIGHT.copy()
    far[1] = 3.0
    assert "the goal of the way is blocked by position j2" in approach(arm, LEFT, far, constraints).reason


def test_a_certificate_says_that_home_is_blocked(arm):
    trajectory = periodic_run(excitation(), RIGHT, 0.02 * np.ones((6, 2)), np.zeros((6, 2)))
    inside = np.array([0.0, 1.0, 0.9, 0.0, -0.4, 0.0])
    certificate = certify(arm, trajectory, replace(walled(arm), home=inside))
    assert [item.name for item in failing(certificate)] == ["way from home"]
    assert "wall / " in failing(certificate)[0].proof
    assert certificate.way is None


def test_where_no_way_leads_the_obstacle_is_named(arm):
    endless = Zone("wall", Shape("box", at(0.0, 0.0, 0.0), np.array([3.0, 0.01, 3.0])), "out", "tool")
    constraints = replace(from_robot(arm), scene=Scene((endless,), False))
    found = approach(arm, LEFT, RIGHT, constraints, attempts=50)
    assert isinstance(found, NoPath)
    assert "50 attempts" in found.reason
    assert "wall / tool" in found.reason


def test_what_a_clear_line_comes_nearest_to_is_named(arm):
    far = Zone("far", Shape("box", at(0.0, 0.0, -3.0), np.full(3, 0.1)), "out", "tool")
    constraints = replace(from_robot(arm), scene=Scene((far, wall(0.2)), False))
    assert is_clear(arm, constraints, LEFT, RIGHT)
    assert _blocking(arm, constraints, LEFT, RIGHT) == ["wall / link j5"]


def test_the_way_around_a_wall_is_certified_both_ways(arm):
    trajectory = periodic_run(excitation(), RIGHT, 0.02 * np.ones((6, 2)), np.zeros((6, 2)))
    constraints = replace(walled(arm), home=LEFT)
    certificate = certify(arm, trajectory, constraints)
    assert certificate.ready, failing(certificate)
    assert certificate.way is not None
    assert len(certificate.way.knots) > 2
    straight = line_run(arm.joint_names, 0.004, np.stack([LEFT, RIGHT]), [2.0])
    through = certify(arm, trajectory, constraints, way=straight)
    assert {item.name for item in failing(through)} == {"way from home: clearance", "way back: clearance"}
    assert "wall / " in failing(through)[0].where
    elsewhere = line_run(arm.joint_names, 0.004, np.stack([LEFT, LEFT + 0.01]), [2.0])
    lost = certify(arm, trajectory, constraints, way=elsewhere)
    assert "way from home: arrives" in {item.name for item in failing(lost)}
    unfound = certify(arm, trajectory, constraints, way=NoPath("because"))
    assert failing(unfound)[0].proof == "because"


def test_home_where_the_run_starts_needs_no_way(arm):
    trajectory = periodic_run(excitation(), RIGHT, 0.02 * np.ones((6, 2)), np.zeros((6, 2)))
    certificate = certify(arm, trajectory, replace(walled(arm), home=RIGHT))
    assert certificate.ready
    assert certificate.way.duration == 0.0
    np.testing.assert_array_equal(certificate.way.at(np.array([0.0, 1.0])), [RIGHT, RIGHT])


def test_joints_that_the_robot_holds_stay_where_they_are(arm):
    held = replace(arm, locked={5: 0.0})
    way = approach(held, LEFT, RIGHT, walled(held))
    assert isinstance(way, Run)
    assert (way.knots[:, 5] == 0.0).all()


def test_a_line_that_only_grazes_is_not_called_clear(arm, monkeypatch):
    """Where the bound cannot decide, the answer is no."""
    constraints = replace(from_robot(arm), scene=Scene((wall(),)))
    monkeypatch.setattr(
        clearance_file, "clearances", lambda robot, scene, q: np.tile(required(robot, scene), (len(q), 1))
    )
    assert not is_clear(arm, constraints, LEFT, RIGHT)


def test_unlimited_joints_get_a_gentle_way(arm):
    free = np.full(6, np.inf)
    limits = replace(arm.limits, velocity=free, acceleration=free)
    way = approach(arm, LEFT, RIGHT, Constraints(limits, free))
    assert np.abs(way.at(dense(way), 1)).max() == pytest.approx(0.5, rel=1e-2)


@pytest.mark.parametrize("binding", ["velocity", "acceleration", "jerk", "torque", "tool_speed"])
def test_every_line_is_as_fast_as_one_limit_allows(arm, binding):
    """A quarter of velocity, acceleration or jerk, 98 % of torque, 95 % of the tool's speed.

    Torque does not scale with time, which is stretched by 1.3 until it fits: 1.3 times as fast is too fast.
    """
    free = np.full(6, np.inf)
    t = np.linspace(0.0, 1.0, 4001)
    usual = arm.limits
    share, limit = {
        "velocity": ((0.249, 0.25), 0.1 * usual.velocity),
        "acceleration": ((0.249, 0.25), 0.01 * usual.acceleration),
        "jerk": ((0.249, 0.25), np.full(6, 3.0)),
        "torque": ((0.9, 0.98), np.array([10.0, 1e6, 1e6, 1e6, 1e6, 1e6])),
        "tool_speed": ((0.94, 0.951), 0.02),
    }[binding]
    fast = np.full(6, 20.0) if binding == "torque" else free
    limits = replace(usual, velocity=fast, acceleration=free, jerk=free, torque=free)
    tight = Constraints(limits if binding == "tool_speed" else replace(limits, **{binding: limit}), free)
    if binding == "tool_speed":
        tight = replace(tight, tool_speed=limit)
    poses = LEFT + np.array([[0.0] * 6, [0.02, 0.3, -0.1, 0.2, 0.0, 0.5], [-0.5, 0.0, 0.4, 0.0, 0.1, 0.0]])
    sample_time = 1e-4
    way = timed(arm, poses, tight, sample_time)
    for begin, end in zip(way.edges[:-1], way.edges[1:], strict=True):
        motion = [way.at(begin + t * (end - begin), order) for order in range(4)]
        used = {
            "velocity": lambda m: np.abs(m[1]) / limit,
            "acceleration": lambda m: np.abs(m[2]) / limit,
            "jerk": lambda m: np.abs(m[3]) / limit,
            "torque": lambda m: np.abs(inverse_dynamics(arm, Motion(*m[:3]))) / limit,
            "tool_speed": lambda m: tool_speeds(arm, Motion(*m[:3])) / limit,
        }[binding](motion).max()
        assert share[0] <= used <= share[1] * (1.0 + 1e-6)
        if binding == "torque":
            faster = Motion(motion[0], 1.3 * motion[1], 1.69 * motion[2])
            assert np.abs(inverse_dynamics(arm, faster) / limit).max() > 0.98


def test_where_no_limit_says_how_far_poses_are_drawn_around_the_ends():
    """The box of a search: the limits; half a turn, or so many metres, about the ends where there are none; or held."""
    free = np.full(3, np.inf)
    robot = SimpleNamespace(mechanism=SimpleNamespace(prismatic=np.array([False, False, True])), locked={1: 0.5})
    limits = Limits(np.array([[-1.0, np.inf], [-9.0, 9.0], [-np.inf, 0.3]]), free, free, free, free)
    ends = np.array([[0.2, 0.5, 0.1], [-0.4, 0.5, 0.2]])
    low, high = search_box(robot, Constraints(limits, free), ends, slide=0.7)
    np.testing.assert_allclose(low, [-1.0, 0.5, 0.1 - 0.7])
    np.testing.assert_allclose(high, [0.2 + np.pi, 0.5, 0.3])


def test_a_tree_grows_by_steps_from_the_nearest_pose(arm):
    """A step is 0.08 of the joint ranges, measured as the norm over joints; what is nearer is reached."""
    constraints = replace(from_robot(arm), scene=Scene())
    width = np.diff(arm.limits.position).T[0]
    nodes, above = [LEFT, LEFT + 0.1 * width], [-1, 0]
    far = LEFT + [0.5, 0.1, 0.0, 0.0, 0.0, 0.0] * width
    new = _grow(arm, constraints, nodes, above, far, width)
    way = (far - nodes[1]) / width
    np.testing.assert_allclose((new - nodes[1]) / width, 0.08 * way / np.linalg.norm(way), rtol=1e-9)
    assert above == [-1, 0, 1]
    near = new + 0.03 * width / np.sqrt(6.0)
    np.testing.assert_array_equal(_grow(arm, constraints, nodes, above, near, width), near)
    assert above == [-1, 0, 1, 2]
    np.testing.assert_array_equal(_trunk(nodes, above), [near, new, nodes[1], LEFT])
    assert _grow(arm, walled(arm), [LEFT], [-1], RIGHT, 100.0 * width) is None, "the wall is in the way"


def test_a_way_is_shortened_until_no_pose_can_be_left_out(arm):
    """Every line is clear, no pose stands twice, and no one between can be left out."""
    constraints = walled(arm)
    found = approach(arm, LEFT, RIGHT, constraints).knots
    detour = np.concatenate([found[:1], found[:1], 0.5 * (found[:-1] + found[1:]), found[1:], found[-1:]])
    short = _shortened(arm, constraints, detour, np.random.default_rng(3))
    np.testing.assert_array_equal(short[[0, -1]], [LEFT, RIGHT])
    assert (np.abs(np.diff(short, axis=0)).max(axis=1) > 1e-9).all()
    for k in range(1, len(short) - 1):
        assert not is_clear(arm, constraints, short[k - 1], short[k + 1])


def test_a_way_checks_its_shape():
    with pytest.raises(ValueError, match="one fewer than the 2 poses"):
        line_run(("a", "b", "c"), 0.004, np.zeros((2, 3)), np.zeros(2))
    with pytest.raises(ValueError, match="expected a positive time"):
        line_run(("a", "b", "c"), 0.004, np.zeros((2, 3)), np.zeros(1))
