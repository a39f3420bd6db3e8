"""Warm-up, friction sweeps and static poses: smooth, at rest at both ends, inside every limit, worth their time."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from excitor.design.constraints.clearance import Clearance
from excitor.design.constraints.joint_limits import JointLimits
from excitor.design.slow import (
    InfeasibleRun,
    SlowPlan,
    clear_range,
    d_optimal,
    excesses,
    friction_sweeps,
    measured_duration,
    measured_motion,
    measured_times,
    static_columns,
    static_poses,
    static_rows,
    warm_up,
)
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, Shape, Zone, clearances, required, tool_speeds
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.gram import condition_number, gram, stack
from excitor.robots.load import load
from excitor.robots.robot import posture
from tests.limits import Margins, from_robot

STEP = 0.004
HOME = np.array([0.0, -0.3, 1.6, 0.0, 0.5, 0.0])
SWEEPS = SlowPlan(STEP, speeds=(0.02, 0.1, 0.3), longest=2.0)


def by_kind(limits, robot, pieces):
    """Margins of joint limits by kind of row."""
    margins = {}
    for row, margin in zip(limits.rows(robot), limits.margins(robot, pieces), strict=True):
        margins.setdefault(row.kind, []).append(margin)
    return margins


def at(x, y, z):
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def cell():
    table = Zone("table", Shape("half-space", at(0.0, 0.0, 0.0)), "out", "tool", 0.05)
    wall = Zone("wall", Shape("box", at(0.6, 0.0, 0.5), [0.05, 1.0, 1.0]), "out", "all", 0.02)
    return Scene((table, wall))


@pytest.fixture(scope="module")
def robot():
    return load("tx40")


@pytest.fixture(scope="module")
def constraints(robot):
    return replace(from_robot(robot, Margins(velocity=0.9, torque=0.8), cell()), tool_speed=1.5)


@pytest.fixture(scope="module")
def runs(robot, constraints):
    return {
        "warm-up": warm_up(robot, constraints, home=HOME, plan=SlowPlan(STEP, minutes=1.0, legs=5)),
        "friction": friction_sweeps(robot, constraints, home=HOME, plan=SWEEPS)[0],
        "static": static_poses(robot, constraints, home=HOME, plan=SlowPlan(STEP, n_poses=8, dwell=0.4)),
    }


@pytest.fixture(params=["warm-up", "friction", "static"])
def run(request, runs):
    return runs[request.param]


def test_runs_start_and_end_at_rest_at_home(run):
    ends = np.array([0.0, run.duration])
    assert np.abs(run.at(ends) - HOME).max() < 1e-12
    for order in (1, 2, 3):
        assert np.abs(run.at(ends, order)).max() < 1e-9
    assert np.abs(run.at(np.array([-1.0, run.duration + 1.0])) - HOME).max() < 1e-12


def test_durations_are_whole_controller_samples(run):
    steps = np.diff(run.edges) / run.sample_time
    assert np.abs(steps - steps.round()).max() < 1e-6


def test_derivatives_are_those_of_the_positions(run):
    t = np.random.default_rng(0).uniform(0.0, run.duration, 3000)
    h = 1e-5
    for order in (1, 2, 3, 4):
        slope = (run.at(t + h, order - 1) - run.at(t - h, order - 1)) / (2.0 * h)
        exact = run.at(t, order)
        assert np.abs(slope - exact).max() < 1e-5 * max(1.0, np.abs(exact).max()), order


def test_limits_hold_on_a_ten_times_finer_grid(robot, constraints, run):
    limits = constraints.limits
    for t in np.array_split(np.arange(0.0, run.duration, 0.001), 20):
        motion = run.motion(t)
        assert (motion.q >= limits.position[:, 0] - 1e-9).all()
        assert (motion.q <= limits.position[:, 1] + 1e-9).all()
        assert (np.abs(motion.dq) <= limits.velocity * (1 + 1e-9)).all()
        assert (np.abs(motion.ddq) <= limits.acceleration * (1 + 1e-9)).all()
        assert (np.abs(inverse_dynamics(robot, motion)) <= 1.001 * limits.torque).all()  # a grid may miss a peak
        assert (clearances(robot, constraints.scene, motion.q) >= required(robot, constraints.scene) - 1e-4).all()
        assert tool_speeds(robot, motion).max() <= 1.501
    assert excesses(robot, run, constraints, step=0.01) == ()


def test_pieces_are_the_run_and_their_bounds_hold(run):
    for piece in run.pieces()[:40]:
        t = np.linspace(0.0, piece.duration, 60)
        for order in range(5):
            values = piece.at(t, order)
            assert (np.abs(values).max(axis=0) <= piece.most[order] * (1.0 + 1e-9) + 1e-9).all()
        inside = t[1:-1]
        assert np.abs(piece.at(inside, 0) - run.at(piece.start + inside)).max() < 1e-9
        assert np.abs(piece.at(inside, 2) - run.at(piece.start + inside, 2)).max() < 1e-6


def test_the_certificate_proves_them(robot, constraints, runs):
    """The bound between samples decides for a run that was only looked at on a grid."""
    pieces = runs["static"].pieces()[:30]
    for group in by_kind(JointLimits(constraints.limits), robot, pieces).values():
        assert all(margin.holds for margin in group)
    assert all(margin.holds for margin in Clearance(constraints.scene, constraints.limits).margins(robot, pieces))


def test_sweeps_cruise_at_their_speeds_both_ways(robot, constraints, runs):
    run = runs["friction"]
    motion, notes = measured_motion(run, 0.02), friction_sweeps(robot, constraints, home=HOME, plan=SWEEPS)[1]
    assert np.abs(motion.ddq).max() < 1e-9
    moving = np.abs(motion.dq) > 0.0
    assert (moving.sum(axis=1) == 1).all()
    for i in range(robot.n_joints):
        speeds = np.unique(motion.dq[moving[:, i], i].round(4))
        assert np.allclose(speeds, -speeds[::-1])
        wanted = np.array([0.02, 0.1, 0.3]) * constraints.limits.velocity[i]
        reached = speeds[speeds > 0.0]
        assert len(reached) + sum(note.startswith(robot.joint_names[i]) for note in notes) == 3
        assert all(np.abs(speed / wanted - 1.0).min() < 0.02 for speed in reached)


def test_sweeps_tell_friction(robot, runs):
    """Viscous and Coulomb columns, joint by joint, are well separated by several speeds both ways."""
    params = base_parameters(robot)
    columns = np.array([k for k, name in zip(params.kept, params.names, strict=True) if name[:2] in ("Fv", "Fs")])
    G = gram(robot, measured_motion(runs["friction"], 0.05), columns)
    scale = np.sqrt(np.diag(G))
    assert np.linalg.cond(G / np.outer(scale, scale)) < 400.0


def test_sweeps_shrink_to_what_is_clear(robot, constraints):
    low, high, reason = clear_range(robot, constraints, HOME, 1)
    assert high < constraints.limits.position[1, 1]
    assert "wall" in reason or "table" in reason
    q = np.tile(HOME, (500, 1))
    q[:, 1] = np.linspace(low, high, 500)
    assert (clearances(robot, constraints.scene, q) >= required(robot, constraints.scene)).all()
    q[:, 1] = high + 0.03
    assert (clearances(robot, constraints.scene, q[:1]) < required(robot, constraints.scene)).any()


def test_static_poses_are_approached_from_both_sides(runs):
    run = runs["static"]
    held = [k for k, segment in enumerate(run.segments) if segment.measured]
    assert len(held) == 16
    assert all(run.segments[k].still for k in held)
    arrivals = np.sign([run.knots[k] - run.knots[k - 1] for k in held])
    assert (arrivals[::2] == 1.0).all()
    assert (arrivals[1::2] == -1.0).all()
    assert measured_duration(run) == pytest.approx(16 * 0.4)
    motion = measured_motion(run, 0.1)
    assert len(motion) == 64
    assert not motion.dq.any()


def static_condition(robot, q, columns):
    """Condition number of the column-normalised regressor at rest in the poses q."""
    return condition_number(stack(regressor(robot, posture(q))[:, :, columns]))


def test_chosen_poses_beat_random_ones(robot, runs):
    q = np.array([segment.goal for segment in runs["static"].segments if segment.measured])[::2]
    rng = np.random.default_rng(0)
    low, high = np.maximum(robot.limits.position.T, [[-np.pi], [-np.inf]])
    columns = static_columns(robot, rng.uniform(low, high, size=(200, 6)))
    others = [static_condition(robot, rng.uniform(low, high, size=(8, 6)), columns) for _ in range(40)]
    assert static_condition(robot, q, columns) < np.median(others)


def test_exchange_finds_the_best_choice_of_a_small_set():
    rng = np.random.default_rng(2)
    W = rng.normal(size=(9, 2, 4))

    def log_det(chosen):
        return np.linalg.slogdet(sum(W[k].T @ W[k] for k in chosen))[1]

    best = max(log_det(chosen) for chosen in combinations(range(9), 4))
    assert log_det(d_optimal(W, 4)) == pytest.approx(best, rel=0.02)


def test_static_columns_are_independent_and_complete(robot):
    q = np.random.default_rng(0).uniform(-2.0, 2.0, size=(100, 6))
    W = static_rows(robot, q).reshape(-1, len(static_columns(robot, q)))
    assert np.linalg.matrix_rank(W) == W.shape[1]
    chi = robot.chi
    tau = inverse_dynamics(robot, posture(q), chi).ravel()
    assert np.abs(W @ np.linalg.lstsq(W, tau, rcond=None)[0] - tau).max() < 1e-8 * np.abs(tau).max()


def test_a_warm_up_lasts_and_moves_far(constraints, runs):
    run = runs["warm-up"]
    assert 60.0 <= run.duration < 90.0
    assert measured_duration(run) == 0.0
    assert len(measured_times(run, 0.1)) == 0
    swing = np.ptp(run.knots, axis=0) / np.ptp(constraints.limits.position, axis=1)
    assert (swing > 0.25).all()
    assert (swing > 0.5).sum() >= 3


def test_the_same_seed_gives_the_same_run(robot, constraints, runs):
    plan = SlowPlan(STEP, n_poses=8, dwell=0.4)
    again = static_poses(robot, constraints, home=HOME, plan=plan)
    assert np.array_equal(again.knots, runs["static"].knots)
    assert np.array_equal(again.edges, runs["static"].edges)
    other = static_poses(robot, constraints, home=HOME, plan=replace(plan, seed=1))
    assert not np.array_equal(other.knots, runs["static"].knots)


def test_locked_joints_stay(constraints):
    robot = replace(load("tx40"), locked={4: 0.5})
    run = static_poses(robot, constraints, home=HOME, plan=SlowPlan(STEP, n_poses=6, dwell=0.2))
    assert (run.knots[:, 4] == 0.5).all()
    sweeps, _ = friction_sweeps(robot, constraints, home=HOME, plan=SlowPlan(STEP, speeds=(0.1,), longest=1.0))
    assert (sweeps.knots[:, 4] == 0.5).all()


@pytest.mark.parametrize(
    "plan",
    [
        lambda r, c, h: warm_up(r, c, home=h, plan=SlowPlan(STEP)),
        lambda r, c, h: friction_sweeps(r, c, home=h, plan=SlowPlan(STEP)),
        lambda r, c, h: static_poses(r, c, home=h, plan=SlowPlan(STEP)),
    ],
)
def test_a_blocked_home_is_named(robot, constraints, plan):
    q = np.random.default_rng(0).uniform(-2.0, 2.0, size=(2000, 6))
    left = (clearances(robot, constraints.scene, q) - required(robot, constraints.scene)).min(axis=1)
    inside = q[np.argmin(left)]
    with pytest.raises(InfeasibleRun, match="blocked by .* / ") as caught:
        plan(robot, constraints, inside)
    assert caught.value.reasons


def test_what_stands_in_the_way_is_named(robot):
    around = Zone("pillar", Shape("sphere", at(*tool_at(robot)), [0.02, 0.0, 0.0]), "in", "tool")
    narrow = from_robot(robot, scene=Scene((around,), self_collision=False))
    with pytest.raises(InfeasibleRun, match="pillar / tool forbids 100%"):
        static_poses(robot, narrow, home=HOME, plan=SlowPlan(STEP))
    with pytest.raises(InfeasibleRun, match=r"blocked by pillar / tool"):
        warm_up(robot, narrow, home=HOME, plan=SlowPlan(STEP, legs=2))
    with pytest.raises(InfeasibleRun, match=r"j1 cannot be swept.*pillar / tool"):
        friction_sweeps(robot, narrow, home=HOME, plan=SlowPlan(STEP, speeds=(0.3,)))


def tool_at(robot):
    from excitor.robots.dynamics import frame_pose

    return frame_pose(robot, HOME[None])[0, :3, 3]


def test_torques_that_no_speed_cures_are_named(robot):
    weak = from_robot(robot, Margins(torque=0.02))
    with pytest.raises(InfeasibleRun, match="torque peak j2 reaches"):
        warm_up(robot, weak, home=HOME, plan=SlowPlan(STEP, legs=2))
    with pytest.raises(InfeasibleRun, match="holding torque of j2"):
        static_poses(robot, weak, home=HOME, plan=SlowPlan(STEP))


def test_every_excess_is_reported(robot, constraints, runs):
    """Each limit in turn is set below what the run uses, and only it is named."""
    run = runs["static"]
    motion = run.motion(np.arange(0.0, run.duration, 0.01))
    limits = constraints.limits
    for field, used in (
        ("velocity", motion.dq),
        ("acceleration", motion.ddq),
        ("torque", inverse_dynamics(robot, motion)),
    ):
        tight = getattr(limits, field).copy()
        tight[2] = 0.9 * np.abs(used[:, 2]).max()
        found = excesses(robot, run, replace(constraints, limits=replace(limits, **{field: tight})))
        assert len(found) == 1
        assert f"{field}" in found[0]
        assert "j3" in found[0]
    slow = excesses(robot, run, replace(constraints, tool_speed=0.01))
    assert len(slow) == 1
    assert slow[0].startswith("tool speed reaches")
    near = Zone("near", Shape("sphere", at(*tool_at(robot)), [0.3, 0.0, 0.0]), "out", "tool")
    hit = excesses(robot, run, replace(constraints, scene=Scene((near,), self_collision=False)))
    assert len(hit) == 1
    assert hit[0].startswith("clearance: near / tool reaches -")
    rms = np.full(6, np.inf)
    rms[1] = 0.1
    assert excesses(robot, run, replace(constraints, torque_rms=rms))[0].startswith("torque rms j2")


def test_bad_plans_are_refused():
    with pytest.raises(ValueError, match="speeds are"):
        SlowPlan(STEP, speeds=(0.0,))
    with pytest.raises(ValueError, match="minutes is 0"):
        SlowPlan(STEP, minutes=0.0)
    with pytest.raises(ValueError, match="dwell is 0.001 s, expected at least three samples"):
        SlowPlan(STEP, dwell=0.001)
    with pytest.raises(ValueError, match="n_poses is 0"):
        SlowPlan(STEP, n_poses=0)
