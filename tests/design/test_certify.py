"""The certificate against dense grids and independent kinematics: never optimistic, and sharp."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from excitor.design.certify.bounds import Effort, all_hold, link_rates, point_rates, torque_rates, worst_case
from excitor.design.certify.certify import DRY_RUN, certify, failing
from excitor.design.constraints.clearance import Clearance
from excitor.design.constraints.constraint import Margin, tightest
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.joint_limits import JointLimits
from excitor.design.constraints.tool_speed import ToolSpeed
from excitor.design.constraints.torque import TorquePeak, TorqueRms, largest_torques
from excitor.design.motion import RISE_MOST, Excitation, Move, Run, Table, even_spans, periodic_run, rise
from excitor.robots.cell import Scene, Shape, SkippedPair, Zone, clearances, required, row_names
from excitor.robots.dynamics import frame_pose, inverse_dynamics, rigid_torque
from excitor.robots.load import load, robot_from_toml
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Frame, Limits, Motion, posture
from tests.limits import from_robot
from tests.random_robots import N_RANDOM_TREES, make_random_robot

ROUNDING = 1e-9


def by_kind(limits, robot, pieces):
    """Margins of joint limits by kind of row."""
    margins = {}
    for row, margin in zip(limits.rows(robot), limits.margins(robot, pieces), strict=True):
        margins.setdefault(row.kind, []).append(margin)
    return margins


def make_trajectory(robot, seed, *, period=4.0, ramp=1.0, size=0.4, **options):
    """A random run whose steady part uses `size` of the joint limits."""
    rng = np.random.default_rng(seed)
    settings = {"settle": 0.2, "hold": 0.2, "warm_up": 1, "measured": 1} | options
    harmonics = tuple(sorted(rng.choice(np.arange(1, 7), size=4, replace=False).tolist()))
    n = robot.n_joints
    excitation = Excitation(period, 0.004, harmonics, np.ones(n, dtype=bool), ramp=ramp, **settings)
    low, high = np.where(np.isfinite(robot.limits.position), robot.limits.position, [-1.0, 1.0]).T
    center = low + rng.uniform(0.4, 0.6, size=n) * (high - low)
    trajectory = periodic_run(excitation, center, *rng.normal(size=(2, n, 4)))
    motion = trajectory.periodic.motion(np.linspace(0.0, period, 500))
    share = np.max(
        [
            2.0 * np.abs(motion.q - center).max(axis=0) / (high - low),
            np.abs(motion.dq).max(axis=0) / np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 2.0),
            np.abs(motion.ddq).max(axis=0)
            / np.where(np.isfinite(robot.limits.acceleration), robot.limits.acceleration, 10.0),
        ],
        axis=0,
    )
    stretch = (size / share)[:, None]
    return periodic_run(excitation, center, trajectory.series.sines * stretch, trajectory.series.cosines * stretch)


def dense_times(trajectory, n=20_000):
    return np.linspace(0.0, trajectory.duration, n)


def limits_of(n, **given):
    free = np.full(n, np.inf)
    values = dict.fromkeys(("velocity", "acceleration", "jerk", "torque"), free) | given
    position = values.pop("position", np.column_stack([-free, free]))
    return Limits(position, **values)


def at(x, y, z):
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def post_at(place, radius):
    return Scene((Zone("post", Shape("sphere", at(*place), np.array([radius, 0, 0])), "out", "tool"),), False)


def scene_below(robot, trajectory, depth):
    """A floor `depth` below all that the tool does."""
    heights = frame_pose(robot, trajectory.at(dense_times(trajectory)))[:, 2, 3]
    return Scene((Zone("floor", Shape("half-space", at(0, 0, heights.min() - depth)), "out", "tool"),), False)


@pytest.fixture(scope="module")
def arm():
    return load("tx40")


# Pieces and their bounds


def test_envelope_derivatives_have_the_stated_maxima():
    s = np.linspace(0.0, 1.0, 100_001)
    found = [np.abs(rise(s, order)).max() for order in range(RISE_MOST.size)]
    np.testing.assert_allclose(found, RISE_MOST, rtol=1e-8)


@pytest.mark.parametrize("order", range(4))
def test_pieces_are_the_executed_run(arm, order):
    trajectory = make_trajectory(arm, 3)
    starts = {phase.name: phase.start for phase in trajectory.phases}
    for piece in trajectory.pieces():
        assert piece.start == pytest.approx(starts[piece.name])
        t = np.linspace(0.0, piece.duration, 300)
        theirs = trajectory.at(piece.start + t, order)
        np.testing.assert_allclose(piece.at(t, order), theirs, atol=1e-8 * piece.most[order].max())


@pytest.mark.parametrize("seed", range(5))
def test_no_derivative_exceeds_what_coefficients_allow(arm, seed):
    for piece in make_trajectory(arm, seed).pieces():
        t = np.linspace(0.0, piece.duration, 2000)
        for order in range(7):
            assert (np.abs(piece.at(t, order)).max(axis=0) <= piece.most[order] * (1.0 + ROUNDING)).all()


@pytest.mark.parametrize("seed", range(12))
def test_rates_hold_inside_intervals(arm, seed):
    for piece in make_trajectory(arm, seed).pieces():
        part = even_spans(piece, 37)
        rates = part.rates()
        inside = np.linspace(0.0, piece.duration, 37 * 50 + 1)
        for order in range(5):
            values = np.abs(piece.at(inside, order))
            largest = np.stack([values[50 * k : 50 * k + 51].max(axis=0) for k in range(37)])
            assert (largest <= rates[order] * (1.0 + ROUNDING) + ROUNDING).all()


def few_of(n):
    """Numbers of blocks of random trajectories: the first two are fast."""
    return [k if k < 2 else pytest.param(k, marks=pytest.mark.slow) for k in range(n)]


# Joint limits


@pytest.mark.parametrize("block", few_of(10))
def test_joint_limits_are_never_optimistic_and_sharp(arm, block):
    for seed in range(20 * block, 20 * block + 20):
        trajectory = make_trajectory(arm, seed)
        t = dense_times(trajectory)
        q = trajectory.at(t)
        largest = [np.abs(trajectory.at(t, order)).max(axis=0) for order in (1, 2, 3)]
        swing = np.ptp(q, axis=0)
        limits = Limits(np.column_stack([q.min(axis=0), q.max(axis=0)]), *largest, np.full(6, np.inf))
        margins = by_kind(JointLimits(limits), arm, trajectory.pieces())
        assert [len(group) for group in margins.values()] == [12, 6, 6, 6]
        scale = np.concatenate([swing, swing, *largest])
        excess = np.array([-item.margin for group in margins.values() for item in group]) / scale
        assert (excess >= -1e-5).all(), "a dense sample exceeds what was proven"  # the dense grid misses this much
        assert (excess < 5e-3).all()


def test_joint_limits_a_little_wider_hold_and_a_little_tighter_fail(arm):
    trajectory = make_trajectory(arm, 1)
    largest = np.abs(trajectory.at(dense_times(trajectory), 1)).max(axis=0)
    for share, holds in ((1.002, True), (0.9999, False)):
        margins = by_kind(JointLimits(limits_of(6, velocity=share * largest)), arm, trajectory.pieces())["velocity"]
        assert [item.holds for item in margins] == [holds] * 6


def test_a_position_limit_on_one_side_only_is_checked(arm):
    trajectory = make_trajectory(arm, 1)
    position = np.tile([-np.inf, np.inf], (6, 1))
    position[2, 1] = trajectory.series.center[2]
    found = by_kind(JointLimits(limits_of(6, position=position)), arm, trajectory.pieces())["position"]
    assert [item.name for item in found] == ["position j3 upper"]
    assert not found[0].holds


def test_a_ramp_that_accelerates_more_than_the_steady_part_is_found(arm):
    for seed in range(50):
        trajectory = make_trajectory(arm, seed, ramp=0.4)
        steady_most = np.abs(trajectory.at(np.linspace(0.6, 4.6, 5000), 2)).max(axis=0)
        all_most = np.abs(trajectory.at(dense_times(trajectory), 2)).max(axis=0)
        joint = int(np.argmax(all_most / steady_most))
        if all_most[joint] < 1.05 * steady_most[joint]:
            continue
        limits = limits_of(6, acceleration=1.01 * steady_most)
        item = by_kind(JointLimits(limits), arm, trajectory.pieces())["acceleration"][joint]
        assert not item.holds
        assert "ramp" in item.where
        assert "a sample exceeds" in item.proof
        return
    pytest.fail("no random ramp exceeds its steady part")


# Torques


@pytest.mark.parametrize("seed", range(N_RANDOM_TREES))
def test_torque_curvature_bounds_finite_differences(seed):
    robot = make_random_robot(seed)
    phi = prior(robot)[: layout(robot).n_link_params].reshape(-1, 10)
    mechanism = robot.mechanism
    for piece in make_trajectory(robot, seed, size=1.0).pieces():
        part = even_spans(piece, 40)
        bound = torque_rates(mechanism, phi, link_rates(mechanism, part.rates()))[2]
        n = 40 * 100
        t = np.linspace(0.0, piece.duration, n + 1)
        tau = mechanism.inverse_dynamics(Motion(*(piece.at(t, order) for order in range(3))), phi)
        h = piece.duration / n
        bend = np.abs(tau[2:] - 2.0 * tau[1:-1] + tau[:-2]) / h**2
        noise = 1e-14 * np.abs(tau).max() / h**2
        largest = np.stack([bend[100 * k : 100 * k + 99].max(axis=0) for k in range(40)])
        assert (largest <= bound * (1.0 + 1e-6) + noise).all()


WHEEL = """name = "wheel"
[[joint]]
name = "turn"
placement = { axis = [0, 0, 1] }
limits = { position_deg = [-90, 90], velocity_deg_s = 90, acceleration_deg_s2 = 300 }
link = { mass = 1.0, center = [0, 0, 0], inertia = INERTIA }
"""


@pytest.mark.parametrize("inertia", [(1.0, 1.0, 2.0), (1.0, 1.5, 2.4), (1.2, 0.6, 1.2), (2.0, 1.0, 1.0)])
def test_torque_bounds_of_a_wheel_are_its_inertia_times_the_motions_derivatives(inertia):
    """Turning slowly about z, τ⁽ᵏ⁾ = Jzz q⁽²⁺ᵏ⁾; bounds do not know the axis, and take the largest moment."""
    text = [inertia[0], 0, 0, inertia[1], 0, inertia[2]]
    robot = robot_from_toml(WHEEL.replace("INERTIA", str(text)), "wheel.toml")
    phi = prior(robot)[: layout(robot).n_link_params].reshape(-1, 10)
    piece = make_trajectory(robot, 0, size=1e-3).pieces()[0]
    rates = even_spans(piece, 8).rates()
    bound = torque_rates(robot.mechanism, phi, link_rates(robot.mechanism, rates))
    np.testing.assert_allclose(bound[..., 0], max(inertia) * rates[2:, :, 0], rtol=0.02)


def test_the_tools_speed_between_samples_is_bounded_by_its_second_derivative():
    """On a slow wheel of radius r, |p⃛| = r |q⃛|: a chord of h is exceeded by h²/8 of it at most, and not by less."""
    robot = robot_from_toml(WHEEL.replace("INERTIA", "[1, 0, 0, 1, 0, 1]"), "wheel.toml")
    robot = replace(robot, tool=Frame("tool", 0, at(0.5, 0.0, 0.0)))
    piece = make_trajectory(robot, 0, size=1e-3, period=40.0, ramp=10.0).pieces()[0]
    part = even_spans(piece, 8)
    inside, speed = ToolSpeed(1.0).bound(robot, part)
    slack = inside[:, 0] - part.worst_of_ends(speed)[:, 0]
    np.testing.assert_allclose(slack, part.h.ravel() ** 2 / 8.0 * 0.5 * part.rates()[3, :, 0], rtol=0.02)
    np.testing.assert_allclose(speed[:, 0], 0.5 * np.abs(part.motion.dq[:, 0]), atol=1e-12)


def test_a_proof_by_bisection_needs_every_interval():
    """Margins of 1 - t below 1, with a bound that is loose by the interval's length."""

    def margins(a, b):
        return None if (b > end).any() else (1.0 - b - (b - a))[:, None]

    end = 0.9
    assert all_hold(margins, np.array([0.0, 0.5, 0.9]))
    assert not all_hold(margins, np.array([0.0, 0.5, 0.95])), "a sample violates one"
    end = 2.0
    assert not all_hold(margins, np.array([0.0, 0.5, 1.0])), "the last interval stays open"


@pytest.mark.parametrize("seed", range(N_RANDOM_TREES))
def test_point_rates_bound_a_tool(seed):
    robot = make_random_robot(seed)
    tool = robot.tool
    piece = make_trajectory(robot, seed, size=1.0).pieces()[0]
    part = even_spans(piece, 20)
    rates = point_rates(robot.mechanism, tool.link, tool.T_link_frame[:3, 3], link_rates(robot.mechanism, part.rates()))
    t = np.linspace(0.0, piece.duration, 20 * 200 + 1)
    p = frame_pose(robot, piece.at(t, 0))[:, :3, 3]
    for order in range(4):
        size = np.linalg.norm(p, axis=1)
        largest = np.stack([size[200 * k : 200 * k + 200 - order].max() for k in range(20)])
        noise = 1e-15 * 10.0 / (t[1] - t[0]) ** order
        assert (largest <= rates[order] * (1.0 + 1e-6) + noise).all()
        p = np.diff(p, axis=0) / (t[1] - t[0])


@pytest.mark.parametrize("seed", range(N_RANDOM_TREES))
def test_torques_with_every_kind_of_friction_stay_inside_their_intervals(seed):
    robot = make_random_robot(seed)
    chi = prior(robot)
    for piece in make_trajectory(robot, seed, size=1.0).pieces():
        above, values = largest_torques(robot, chi, even_spans(piece, 60))
        t = np.linspace(0.0, piece.duration, 60 * 30 + 1)
        tau = np.abs(inverse_dynamics(robot, Motion(*(piece.at(t, order) for order in range(3)))))
        largest = np.stack([tau[30 * k : 30 * k + 31].max(axis=0) for k in range(60)])
        assert (largest <= above * (1.0 + ROUNDING)).all()
        assert (tau[::30] <= values * (1.0 + ROUNDING)).all()  # a Maxwell-slip state is taken at its worst


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("qrc350", 15),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (("iiwa", 15), ("tx40", 120), ("qrc350", 40), ("iiwa", 40))
        ),
    ],
)
def test_peak_torques_are_never_optimistic_and_sharp(name, n):
    robot = load(name)
    excess = []
    for seed in range(n):
        trajectory = make_trajectory(robot, seed)
        motion = trajectory.motion(dense_times(trajectory))
        peak = np.abs(inverse_dynamics(robot, motion)).max(axis=0)
        margins = TorquePeak(1.02 * peak).margins(robot, trajectory.pieces(), trusted=False)
        excess.append([item.worst for item in margins] / peak - 1.0)
    assert np.min(excess) >= -1e-5  # what the dense grid can miss
    # At standstill friction may point either way, which samples do not show: not every peak can be sharp.
    assert np.mean(np.array(excess) < 0.02) >= 0.9
    assert np.median(excess) < 6e-3


def test_friction_that_reverses_between_samples_is_found(arm):
    """All samples of a coarse grid miss the reversal; the torque is largest just before it."""
    excitation = Excitation(4.0, 0.004, (1,), np.arange(6) == 0, ramp=1.0)
    sines, cosines = np.zeros((6, 1)), np.zeros((6, 1))
    sines[0], cosines[0] = 0.4, 0.3
    trajectory = periodic_run(excitation, np.zeros(6), sines, cosines)
    motion = trajectory.motion(dense_times(trajectory, 200_001))
    peak = np.abs(inverse_dynamics(arm, motion)).max(axis=0)
    item = TorquePeak(peak).margins(arm, trajectory.pieces(), trusted=False)[0]
    assert item.worst >= peak[0]
    assert item.worst <= 1.005 * peak[0]


def test_friction_that_reverses_twice_between_two_samples_is_found(arm):
    """Joint 2 moves with dq = (t - 1/2)² - 1e-4: both samples around t = 1/2 are positive, what lies between is not."""
    speed = np.polynomial.Polynomial([0.25 - 1e-4, -1.0, 1.0])
    ways = [speed.integ(), speed, *(speed.deriv(k) for k in range(1, 6))]
    center = np.array([0.0, 1.0, 0.5, 0.0, 0.0, 0.0])  # leans forward: the weight and backward friction add up

    def evaluate(t, order):
        return np.where(np.arange(6) == 1, ways[order](t)[:, None], 0.0) + (center if order == 0 else 0.0)

    t, ends = np.linspace(0.0, 1.0, 31 * 200 + 1), np.array([0.0, 1.0])
    piece = Table(ends, evaluate(ends, 0), "quintic", evaluate(ends, 1), evaluate(ends, 2), name="turn")
    part = even_spans(piece, 31)
    assert (part.jets[1][:, 1] > 0.0).all(), "no sample shows the reversal"
    above, values = largest_torques(arm, prior(arm), part)
    truth = np.abs(inverse_dynamics(arm, Motion(*(evaluate(t, order) for order in range(3)))))[:, 1]
    assert truth.max() > values[:, 1].max() + 10.0
    assert truth[15 * 200 : 16 * 200].max() <= above[15, 1] <= truth.max() * 1.001


@pytest.mark.parametrize("seed", range(5))
def test_root_mean_squares_are_never_optimistic_and_sharp(arm, seed):
    trajectory = make_trajectory(arm, seed)
    t = (np.arange(50_000) + 0.5) * (trajectory.series.period / 50_000)
    truth = np.sqrt((inverse_dynamics(arm, trajectory.periodic.motion(t)) ** 2).mean(axis=0))
    period = next(piece for piece in trajectory.pieces() if piece.degree)
    for share, holds in ((1.001, True), (0.999, False)):
        items = TorqueRms(share * truth).margins(arm, (period,), trusted=False)
        assert [item.holds for item in items] == [holds] * 6
        worst = np.array([item.worst for item in items])
        assert (worst >= truth * (1.0 - 1e-6)).all()
        assert (worst <= 1.01 * truth).all()


def test_without_masses_the_torque_is_not_proven(arm):
    unknown = replace(arm, known=np.zeros_like(arm.known))
    trajectory = make_trajectory(arm, 0)
    constraints = from_robot(unknown)
    items = [item for item in certify(unknown, trajectory, constraints).items if item.name.startswith("torque")]
    assert len(items) == 6
    assert not any(item.holds for item in items)
    assert "masses of some links are unknown" in items[0].proof
    gentle = certify(unknown, trajectory, constraints, torque_model=False)
    assert gentle.ready
    assert any("torque limits of j1" in note and "gentle" in note for note in gentle.notes)
    trusting = certify(unknown, trajectory, constraints, torque_model=True)
    assert any(item.name == "torque peak j1" and item.holds for item in trusting.items)
    free = replace(constraints, limits=replace(constraints.limits, torque=np.full(6, np.inf)))
    assert certify(unknown, trajectory, free).ready


# The cell


@pytest.mark.parametrize("seed", range(8))
def test_clearances_are_never_optimistic_and_sharp(arm, seed):
    """The oracle is a floor under the tool: its distance is a height."""
    trajectory = make_trajectory(arm, seed)
    pieces = trajectory.pieces()
    for depth, holds in ((0.002, True), (-0.002, False)):
        item = Clearance(scene_below(arm, trajectory, depth), arm.limits).margins(arm, pieces)[0]
        assert item.holds == holds
        assert depth - 0.004 < item.worst <= depth + 1e-6
        assert "Lipschitz" in item.proof


@pytest.mark.parametrize("name", ["tx40", "iiwa", "qrc350"])
def test_no_row_of_a_cell_comes_nearer_than_proven(name):
    robot = load(name)
    zones = (
        Zone("table", Shape("half-space", at(0, 0, -0.2)), "out", clearance=0.01),
        Zone("cabinet", Shape("box", at(0.9, 0.3, 0.5), np.array([0.2, 0.3, 0.4])), "out", clearance=0.02),
        Zone("drum", Shape("cylinder", at(-0.5, 0.6, 0.3), np.array([0.2, 0.3, 0.0])), "out", "links"),
        Zone("cell", Shape("box", at(0, 0, 1.0), np.array([1.5, 1.5, 1.5])), "in", "tool"),
    )
    scene = Scene(zones, self_collision=True, tool_radius=0.03)
    for seed in range(4):
        trajectory = make_trajectory(robot, seed)
        margins = Clearance(scene, robot.limits).margins(robot, trajectory.pieces())
        nearest = clearances(robot, scene, trajectory.at(dense_times(trajectory))).min(axis=0)
        worst = np.array([item.worst for item in margins])
        need = required(robot, scene)
        assert (worst <= nearest + 1e-6).all()
        assert (nearest - worst <= 3e-3 + 0.26 * np.abs(nearest - need)).all()
        assert [item.holds for item in margins] == (nearest >= need).tolist()


def test_a_sliding_joint_without_limits_is_bounded_by_its_own_motion():
    robot = make_random_robot(3)
    assert robot.mechanism.sliding.any()
    trajectory = make_trajectory(robot, 0)
    tools = frame_pose(robot, trajectory.at(dense_times(trajectory)))[:, :3, 3]
    scene = replace(post_at(tools.max(axis=0) + 0.3, 0.1), self_collision=False)
    item = Clearance(scene, robot.limits).margins(robot, trajectory.pieces())[0]
    nearest = np.linalg.norm(tools - tools.max(axis=0) - 0.3, axis=1).min() - 0.1
    assert 0.7 * nearest - 0.003 < item.worst <= nearest + 1e-6


def test_a_post_between_two_samples_is_found(arm):
    """A thin sphere where the tool flies by in a few milliseconds: samples of a search's grid miss it."""
    trajectory = make_trajectory(arm, 4, size=0.9)
    excitation = trajectory.excitation
    begin = excitation.settle + excitation.ramp
    grid = begin + np.arange(192) * (excitation.period / 192)
    tools = frame_pose(arm, trajectory.at(grid))[:, :3, 3]
    strides = np.linalg.norm(np.diff(tools, axis=0), axis=1)
    moment = grid[np.argmax(strides)] + 0.5 * (grid[1] - grid[0])
    target = frame_pose(arm, trajectory.at(np.array([moment])))[0, :3, 3]
    radius = 0.05 * strides.max()
    assert np.linalg.norm(tools - target, axis=1).min() > radius, "the search's samples must miss the post"
    item = Clearance(post_at(target, radius), arm.limits).margins(arm, trajectory.pieces())[0]
    assert not item.holds
    assert item.worst < 0.0


def test_clearances_hold_for_pinocchio(arm):
    """Proven distances of the tool to a post and of a run's tool speed, against another kinematics."""
    trajectory = make_trajectory(arm, 7, size=0.6)
    model = pin.Model()
    tree = arm.mechanism
    for j in range(tree.n_links):
        place = tree.before[j] if j == 0 else tree.after[j - 1] @ tree.before[j]
        kind = pin.JointModelRevoluteUnaligned(tree.axis[j].copy())
        model.addJoint(j, kind, pin.SE3(place[:3, :3].copy(), place[:3, 3].copy()), f"joint{j}")
    data = model.createData()
    tool = tree.after[-1] @ arm.tool.T_link_frame
    post, radius = np.array([0.3, 0.2, 0.1]), 0.03
    scene = post_at(post, radius)
    t = dense_times(trajectory, 6000)
    q, dq = trajectory.at(t), trajectory.at(t, 1)
    nearest, fastest = np.inf, 0.0
    for angles, rates in zip(q @ tree.coupling.T + tree.offset, dq @ tree.coupling.T, strict=True):
        pin.forwardKinematics(model, data, angles, rates)
        place = data.oMi[6].act(tool[:3, 3])
        twist = pin.getVelocity(model, data, 6, pin.ReferenceFrame.LOCAL)
        speed = np.linalg.norm(twist.linear + np.cross(twist.angular, tool[:3, 3]))
        nearest, fastest = min(nearest, np.linalg.norm(place - post) - radius), max(fastest, speed)
    pieces = trajectory.pieces()
    clear = Clearance(scene, arm.limits).margins(arm, pieces)[0]
    assert 0.7 * nearest - 0.003 < clear.worst <= nearest + 1e-6
    speed = ToolSpeed(1.01 * fastest).margins(arm, pieces)[0]
    assert fastest <= speed.worst * (1.0 + 1e-6)
    assert speed.holds
    assert not ToolSpeed(0.999 * fastest).margins(arm, pieces)[0].holds


def test_what_cannot_be_decided_does_not_hold():
    """A quantity that touches its limit, with a bound that never gets there."""
    piece = Move(np.zeros(1), np.ones(1), 1.0, name="swing")

    def bound(part):
        return 1.0 + 0.0 * part.h + 1e-9, np.full((part.t.size, 1), 0.5)

    worst = worst_case((piece,), bound, limit=np.ones(1), slack=np.full(1, np.inf), effort=Effort(8, most_spans=500))
    assert worst.upper > 1.0 > worst.seen
    assert worst.n_spans <= 600


# The whole


def test_a_certificate_names_and_proves_everything(arm):
    trajectory = make_trajectory(arm, 0)
    constraints = Constraints(
        replace(arm.limits, jerk=np.full(6, 5e3)),
        torque_rms=arm.limits.torque,
        scene=scene_below(arm, trajectory, 0.2),
        tool_speed=6.0,
        home=trajectory.series.center + 0.05,
    )
    certificate = certify(arm, trajectory, constraints)
    assert certificate.ready, failing(certificate)
    names = {item.name for item in certificate.items}
    assert {
        "position j1 upper",
        "position j1 lower",
        "velocity j3",
        "acceleration j6",
        "jerk j2",
        "torque peak j2",
        "torque rms j2",
        "clearance: floor / tool",
        "tool speed",
        "start at rest",
        "end at rest",
        "dry run: clearance",
        "way from home: clearance",
        "way from home: torque peak",
        "way back: clearance",
        "way back: torque peak",
    } <= names
    for item in certificate.items:
        assert item.proof
        assert item.unit
        assert item.margin >= 0.0
    by_name = {item.name: item for item in certificate.items}
    top = trajectory.excitation.harmonics[-1]
    assert f"Ehlich-Zeller, n={top}, N={256 * top}: grid maximum / cos(πn/N)" in by_name["velocity j3"].proof
    assert "h²/8·max|f''|" in by_name["velocity j3"].proof
    assert "smallest" in by_name["clearance: floor / tool"].proof
    dry = by_name["dry run: velocity"]
    assert dry.worst == pytest.approx(DRY_RUN * by_name[dry.where.split(",")[0]].worst, rel=1e-3)
    again = certify(arm, trajectory, constraints)
    assert again.items == certificate.items


@pytest.mark.parametrize("mutation", ["no ramp", "other centre at the end"])
def test_a_run_that_is_not_at_rest_is_refused(arm, mutation, monkeypatch):
    trajectory = make_trajectory(arm, 0)
    if mutation == "no ramp":
        steady = tuple(segment for segment in trajectory.segments if not segment.name.startswith("ramp"))
        trajectory = replace(trajectory, segments=steady)
    else:
        right = Run.at
        off = lambda run, t, order=0: right(run, t, order) + (1e-6 * t[:, None] if order == 0 else 0.0)  # noqa: E731
        monkeypatch.setattr(Run, "at", off)
    certificate = certify(arm, trajectory, from_robot(arm))
    failed = {item.name for item in failing(certificate)}
    assert failed == ({"start at rest", "end at rest"} if mutation == "no ramp" else {"end at rest"})
    assert not certificate.ready


def test_the_dry_run_is_checked_for_itself(arm):
    """A post near the centre that the full swing avoids only by being elsewhere all the time."""
    trajectory = make_trajectory(arm, 2)
    small = trajectory.scaled(DRY_RUN).at(dense_times(trajectory))
    tools = frame_pose(arm, small)[:, :3, 3]
    far = tools[np.argmax(np.linalg.norm(tools - tools[0], axis=1))]
    scene = post_at(far, 0.002)
    certificate = certify(arm, trajectory, replace(from_robot(arm), scene=scene))
    assert "dry run: clearance" in {item.name for item in failing(certificate)}


def test_what_is_not_stated_is_noted(arm):
    certificate = certify(arm, make_trajectory(arm, 0), from_robot(arm))
    assert any("no home pose" in note for note in certificate.notes)
    assert any("no cell" in note for note in certificate.notes)
    assert any("no jerk limit is stated for j1" in note for note in certificate.notes)
    assert certificate.way is None
    with_cell = certify(arm, make_trajectory(arm, 0), replace(from_robot(arm), scene=Scene()))
    assert any("not kept apart" in note for note in with_cell.notes)
    free = arm.limits.position.copy()
    free[4, 1] = np.inf
    one = certify(arm, make_trajectory(arm, 0), from_robot(replace(arm, limits=replace(arm.limits, position=free))))
    assert "no position limit is stated for j5" in one.notes


def test_pairs_left_out_for_one_reason_are_listed_together(arm, monkeypatch):
    left = tuple(
        SkippedPair(name, reason) for name, reason in (("a / b", "touch"), ("a / c", "far"), ("b / c", "touch"))
    )
    monkeypatch.setattr("excitor.design.certify.certify.unchecked_pairs", lambda robot, scene: left)
    notes = certify(arm, make_trajectory(arm, 0, period=2.0), replace(from_robot(arm), scene=Scene())).notes
    assert "3 pairs of links are not kept apart: a / b, b / c: touch; a / c: far" in notes


def test_neighbours_that_keep_less_than_the_cell_are_named(arm):
    wide = replace(from_robot(arm), scene=Scene(self_clearance=0.05))
    notes = certify(arm, make_trajectory(arm, 0, period=2.0), wide).notes
    said = next(note for note in notes if note.startswith("neighbours that are never far apart"))
    need = dict(zip(row_names(arm, wide.scene), required(arm, wide.scene), strict=True))
    assert {name for name in need if f"{name} (" in said} == {name for name, least in need.items() if least < 0.05}
    assert any(least == 0.05 for least in need.values())


@pytest.mark.parametrize(("share", "holds"), [(0.9e-9, True), (1.1e-9, False)])
def test_rest_is_what_rounding_allows(arm, share, holds, monkeypatch):
    trajectory = make_trajectory(arm, 0)
    most, right = trajectory.periodic.swings[0], Run.at

    def off(run, t, order=0):
        return right(run, t, order) + (share * most * (t[:, None] == 0.0) if order == 0 else 0.0)

    monkeypatch.setattr(Run, "at", off)
    constraints = Constraints(replace(arm.limits, torque=np.full(6, np.inf)), np.full(6, np.inf))
    items = {item.name: item for item in certify(arm, trajectory, constraints).items}
    assert items["start at rest"].holds is holds


def test_means_over_a_period_are_not_asked_of_the_dry_run(arm):
    constraints = Constraints(arm.limits, torque_rms=arm.limits.torque)
    names = {item.name for item in certify(arm, make_trajectory(arm, 0), constraints).items}
    assert "torque rms j2" in names
    assert not [name for name in names if name.startswith("dry run: torque rms")]


def test_sums_show_what_is_tightest():
    def item(name, limit, margin, holds=True):
        return Margin(name, "rad/s", limit, limit - margin, margin, "because", holds, "1 s")

    wide, near = item("velocity j1", 10.0, 2.0), item("velocity j2", 1.0, 0.3)
    broken = item("velocity j3", 1.0, -0.1, False)
    assert tightest("dry run: velocity", [near, wide]).where.startswith("velocity j1")
    assert tightest("dry run: velocity", [near, wide, broken]).where.startswith("velocity j3")
    assert not tightest("dry run: velocity", [near, wide, broken]).holds


def test_a_posture_held_still_takes_its_weight_and_the_friction_that_may_add(arm):
    """A joint that starts from rest may meet its friction from either side."""
    trajectory = make_trajectory(arm, 5).scaled(1e-3)
    weight = np.abs(rigid_torque(arm, posture(trajectory.series.center[None, :])))[0]
    worst = [item.worst for item in TorquePeak(arm.limits.torque).margins(arm, trajectory.pieces(), trusted=False)]
    assert (worst >= weight).all()


def test_moves_are_cut_less_finely_first_and_proven_as_sharply(monkeypatch):
    robot = load("tx40")
    run = Run(tuple(robot.joint_names), 0.004, (Move(np.zeros(6), np.full(6, 0.4), 1.0, 0.3, name="there"),))
    limit = ToolSpeed(1.0)
    (coarse,) = limit.margins(robot, run.pieces(), trusted=True)
    monkeypatch.setattr(Effort, "first_cut", lambda effort, piece: effort.n_first)
    (fine,) = limit.margins(robot, run.pieces(), trusted=True)
    assert coarse.holds == fine.holds
    assert coarse.worst == pytest.approx(fine.worst, abs=float(limit.slacks(robot)[0]))
    assert int(coarse.proof.split(" intervals")[0].split()[-1]) < int(fine.proof.split(" intervals")[0].split()[-1]) / 4
