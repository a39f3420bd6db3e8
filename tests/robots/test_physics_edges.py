"""Edges of the physics: what survived mutation once, and the misuses that compiled code does not forgive."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.robots import base as bases
from excitor.robots import dynamics
from excitor.robots.base import (
    base_parameters,
    closed_form,
    declared_transform,
    lost_when_locked,
    observation,
    random_motion,
)
from excitor.robots.errors import RankDeficient
from excitor.robots.inertia import check_consistency, from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout, layout_of
from excitor.robots.robot import DriveTrain, FrictionTerm, Limits, RotorInertia
from tests.random_robots import make_random_robot


def test_held_joints_stand_still_where_they_are_held():
    robot = load("tx40")
    motion = random_motion(robot, 20, {1: 0.3})
    assert (motion.q[:, 1] == 0.3).all()
    assert not motion.dq[:, 1].any()
    assert not motion.ddq[:, 1].any()
    assert len(observation(robot, {1: 0.3, 4: 0.0})) % 4 == 0  # rows of the four moving joints only


def test_the_caller_overrides_where_the_robot_is_locked():
    robot = replace(load("tx40"), locked={4: 0.0})
    other = base_parameters(replace(robot, locked={}), locked={4: 1.0})
    np.testing.assert_allclose(base_parameters(robot, locked={4: 1.0}).regrouping, other.regrouping, atol=1e-9)
    assert len(base_parameters(robot)) != len(base_parameters(replace(robot, locked={})))


def test_what_is_lost_when_joints_are_locked():
    """Joints 5 and 6 held: their drives and the last link's own inertia are lost, joint 1's drive and ZZ1R are not."""
    loss = lost_when_locked(load("tx40"), {4: 0.0, 5: 0.0})
    assert {"Fv5", "Fv6", "Ia6", "XX6R", "ZZ6", "MX6"} <= set(loss.lost)
    assert not {"ZZ1R", "Fv1", "Fv4", "Ia3", "XX2R"} & set(loss.lost)
    assert len(loss.base) + len(loss.lost) >= 60
    everything = lost_when_locked(load("tx40"), dict.fromkeys(range(6), 0.0))
    assert len(everything.base) == 0
    assert len(everything.lost) == 60


def test_almost_a_combination_is_not_one():
    row = np.array([1.0, 0.001])
    assert not bases._within(row, np.array([[1.0, 0.0]]))


def test_counts_that_disagree_are_refused():
    W = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 4)))[0]
    bases._confirm_rank(W, 4, 1e-7, "r")
    for wrong in (3, 5):
        with pytest.raises(RankDeficient, match="one way"):
            bases._confirm_rank(W, wrong, 1e-7, "r")


def test_assumed_zeros_are_no_parameters_without_effect():
    robot = load("qrc350")
    zero = {layout(robot).names[k] for k in np.flatnonzero(robot.assumed_zero)}
    assert zero
    assert not zero & {*base_parameters(robot).without_effect, *base_parameters(robot).only_combined}


def test_parameters_without_effect_take_part_in_no_base_parameter():
    robot = load("tx40")
    base = base_parameters(robot)
    hidden = {n for n, column in zip(layout(robot).names, base.regrouping.T, strict=True) if not column.any()}
    assert hidden == set(base.without_effect)


def test_a_declared_set_with_a_row_twice_is_refused():
    robot = load("tx40")
    d = robot.declared_base
    twice = replace(d, names=(*d.names, "again"), combination=np.vstack([d.combination, d.combination[:1]]))
    with pytest.raises(RankDeficient, match="declared, of which"):
        declared_transform(replace(robot, declared_base=twice), base_parameters(robot))


def test_load_friction_is_identifiable_without_a_prior():
    robot = load("rotradi")
    e = np.eye(3)
    term = FrictionTerm("Fl2", "load", e[1], e[1])
    more = replace(
        robot,
        drive=replace(robot.drive, friction=(*robot.drive.friction, term)),
        declared_base=None,
        chi=np.zeros(len(robot.chi) + 1),
        known=np.zeros(len(robot.chi) + 1, bool),
        assumed_zero=np.append(robot.assumed_zero, False),
    )
    assert "Fl2" in base_parameters(more).names


def test_random_states_stay_within_a_turn_or_a_metre(random_robot):
    q = random_motion(random_robot, 500).q
    slides = random_robot.mechanism.prismatic
    assert (np.abs(q[:, slides]) <= 1.0).all()
    assert (np.abs(q[:, ~slides]).max(axis=0) > 2.5).all()


def test_sliding_links_keep_their_mass_and_let_inertia_regroup():
    """Polar arm R R P: of the sliding link the mass stays, of its inertia nothing."""
    robot = polar_arm()
    base = base_parameters(robot)
    kept = {layout(robot).names[k] for k in base.kept}
    assert "M3" in kept
    assert not kept & {"XX3", "XY3", "XZ3", "YY3", "YZ3", "ZZ3"}


def polar_arm():
    from excitor.robots.files.toml import robot_from_data

    def joint(name, kind, alpha, r):
        return {"name": name, "kind": kind, "mdh": {"alpha_deg": alpha, "d": 0, "theta_deg": 0, "r": r}}

    return robot_from_data(
        {
            "name": "polar",
            "joint": [joint("a", "revolute", 0, 0), joint("b", "revolute", 90, 0), joint("c", "prismatic", 90, 0.1)],
        },
        "polar",
    )


def test_closed_forms_of_three_squares_and_their_signs():
    one, two = {"a": 0.3, "b": 0.5, "c": 0.7}, {"a": 0.33, "b": 0.47, "c": 0.69}

    def found(f, degree=2):
        factor = closed_form((f(**one), f(**two)), (one, two), degree)
        return None if factor is None else (factor.negative, factor.size)

    assert found(lambda a, b, c: a**2 + b**2 + c**2) == (False, "(a^2 + b^2 + c^2)")
    assert found(lambda a, b, c: -(a**2) - b**2) == (True, "(a^2 + b^2)")
    assert found(lambda a, b, c: b**2 - a**2) == (False, "(b^2 - a^2)")
    assert found(lambda a, b, c: a**2 - b**2) == (False, "(a^2 - b^2)")
    assert found(lambda a, b, c: np.pi * a**2) is None


def test_consistency_in_every_direction():
    body = from_center_of_mass(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.02, 0.03, 0.04]))
    sound = check_consistency(body)
    assert sound.holds
    assert 0.0 < sound.relative_margin < 1.0
    P = [[0.025, 0, 0], [0, 0.015, 0], [0, 0, 0.005]] + 2.0 * np.outer([0.1, -0.2, 0.3], [0.1, -0.2, 0.3])
    P = np.block([[P, np.array([[0.2], [-0.4], [0.6]])], [np.array([[0.2, -0.4, 0.6]]), 2.0]])
    assert sound.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(P)[0], rel=1e-9)
    scaled = P / np.sqrt(np.outer(np.diag(P), np.diag(P)))
    assert sound.relative_margin == pytest.approx(np.linalg.eigvalsh(scaled)[0], rel=1e-9)
    assert not check_consistency(from_center_of_mass(2.0, np.zeros(3), np.diag([0.02, 0.03, 0.06]))).holds
    assert not check_consistency(np.zeros(10)).holds
    assert not check_consistency(-body).holds


def test_units_follow_the_joint_that_an_element_acts_on():
    e = np.eye(2)
    drive = DriveTrain(
        e,
        np.full((2, 4), np.nan),
        np.ones(2),
        (RotorInertia("Ia1", e[0], e[0]), RotorInertia("Ia2", e[1], e[1])),
        (FrictionTerm("Fv1", "viscous", e[0], e[0]), FrictionTerm("Fc2", "coulomb", e[1], e[1])),
    )
    assert layout_of(2, np.array([False, True]), drive).units[20:] == ("kg m2", "kg", "N m s/rad", "N")


@pytest.mark.parametrize("seed", [2, 4, 9])
def test_gradient_of_columns_that_rest_on_loads_and_memory(seed):
    """With loads and states held, differences agree for load and slip columns too, beyond one chunk of samples."""
    from excitor.robots.dynamics import drive_elements, slip_states
    from excitor.robots.gram import packing
    from excitor.robots.kernel.accumulate import Drive, fill_gram
    from excitor.robots.kernel.adjoint import fill_gram_gradient
    from excitor.robots.robot import Motion
    from excitor.robots.tree import chain, samples

    robot = make_random_robot(seed)
    n, n_params, rng = robot.n_joints, len(layout(robot)), np.random.default_rng(seed)
    state = rng.uniform(0.3, 2.0, (3, 300, n)) * rng.choice([-1.0, 1.0], (3, 300, n))
    drive = Drive(drive_elements(robot), rng.normal(size=(300, n)), slip_states(robot, Motion(*state)))
    packed = packing(robot, np.arange(n_params), rng.uniform(0.5, 2.0, n))
    bar = rng.normal(size=(n_params, n_params))
    bar = bar + bar.T

    def value(x):
        G = np.empty((n_params, n_params))
        fill_gram(chain(robot.mechanism), drive, packed, samples(Motion(*x), n), G)
        return np.sum(bar * G)

    out = tuple(np.empty((n, 300)) for _ in range(3))
    fill_gram_gradient(chain(robot.mechanism), drive, packed, samples(Motion(*state), n), bar, out)
    direction, h = rng.normal(size=(3, 300, n)), 1e-6
    slope = (value(state + h * direction) - value(state - h * direction)) / (2 * h)
    assert sum(np.sum(g.T * d) for g, d in zip(out, direction, strict=False)) == pytest.approx(slope, rel=1e-6)
    only = [k for k, name in enumerate(layout(robot).names) if name in ("Fl", "Fz")]
    G = np.empty((2, 2))
    fill_gram(chain(robot.mechanism), drive, packing(robot, np.array(only), np.ones(n)), samples(Motion(*state), n), G)
    W = np.stack([_column(robot, name, state, drive) for name in ("Fz", "Fl")])
    names = [layout(robot).names[k] for k in only]
    W = W[[("Fz", "Fl").index(name) for name in names]]
    np.testing.assert_allclose(G, W @ W.T, rtol=1e-10)


def _column(robot, name, state, drive):
    e = len(robot.drive.rotors) + [t.parameter for t in robot.drive.friction].index(name)
    term = robot.drive.friction[e - len(robot.drive.rotors)]
    if name == "Fz":
        g = drive.states[e]
    else:
        g = np.tanh(state[1] @ term.senses / term.width) * np.abs(drive.load @ term.acts)
    return np.outer(term.acts, g).ravel()


def test_the_gradient_takes_the_symmetric_part(random_motion):
    from excitor.robots.gram import gram_gradient

    robot = load("rotradi")
    bar = np.random.default_rng(0).normal(size=(36, 36))
    bar = bar[: len(layout(robot)), : len(layout(robot))]
    motion = random_motion(robot, 10)
    for ours, mirrored in zip(
        gram_gradient(robot, motion, gram_bar=bar), gram_gradient(robot, motion, gram_bar=bar.T), strict=False
    ):
        np.testing.assert_allclose(ours, mirrored, atol=1e-9)


def test_gradient_heeds_the_weights(random_motion):
    from excitor.robots.gram import gram_gradient

    robot = load("rotradi")
    motion, bar = random_motion(robot, 10), np.eye(36)[: len(layout(robot)), : len(layout(robot))]
    w = np.array([0.5, 2.0, 3.0])
    single = [gram_gradient(robot, motion, gram_bar=bar, weights=np.eye(3)[i]) for i in range(3)]
    for k, ours in enumerate(gram_gradient(robot, motion, gram_bar=bar, weights=w)):
        np.testing.assert_allclose(ours, sum(w[i] ** 2 * single[i][k] for i in range(3)), atol=1e-9)


def test_singular_information_has_condition_inf():
    from excitor.robots.gram import condition_number, gram_condition

    assert condition_number(np.array([[1.0, 0.0], [2.0, 0.0]])) == np.inf
    assert gram_condition(np.diag([1.0, 0.0])) == np.inf
    assert gram_condition(np.array([[1.0, 2.0], [2.0, 1.0]])) == np.inf  # not even positive
    W = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 1e3, 1e-3]
    assert condition_number(W) < 3.0
    assert gram_condition(W.T @ W) == pytest.approx(condition_number(W), rel=1e-9)


def test_frames_of_the_base(random_motion):
    from excitor.robots.robot import Frame

    robot, T = load("tx40"), np.eye(4)
    T[:3, 3] = [1.0, 2.0, 3.0]
    frame = Frame("table", -1, T)
    np.testing.assert_array_equal(dynamics.frame_pose(robot, np.ones((2, 6)), frame), [T, T])
    assert not dynamics.frame_jacobian(robot, np.ones((2, 6)), frame).any()


def test_a_rotor_that_acts_elsewhere_has_power_and_torque_but_no_energy(random_motion):
    robot, e = load("rotradi"), np.eye(3)
    crossed = replace(
        robot,
        drive=replace(robot.drive, rotors=(RotorInertia("Ia1", e[0], e[1]),)),
        declared_base=None,
        chi=np.append(robot.chi, 0.0)[: len(robot.chi) + 1],
        known=np.ones(len(robot.chi) + 1, bool),
        assumed_zero=np.zeros(len(robot.chi) + 1, bool),
    )
    motion = random_motion(robot, 5)
    k = layout(crossed).index("Ia1")
    chi = np.zeros(len(layout(crossed)))
    chi[k] = 2.0
    tau = dynamics.rigid_torque(crossed, motion, chi)
    np.testing.assert_allclose(tau, 2.0 * motion.ddq[:, [0]] * e[1])
    np.testing.assert_allclose(dynamics.power_regressor(crossed, motion)[:, k], motion.ddq[:, 0] * motion.dq[:, 1])
    np.testing.assert_allclose(
        dynamics.mass_matrix(crossed, motion.q, chi), np.broadcast_to(2.0 * np.outer(e[1], e[0]), (5, 3, 3))
    )
    with pytest.raises(ValueError, match="no energy"):
        dynamics.energy_regressor(crossed, motion)


def test_tied_rotors_add(random_motion):
    robot, e = load("rotradi"), np.eye(3)
    rotors = (RotorInertia("Ia", e[0], e[0]), RotorInertia("Ia", e[1], e[1]))
    tied = replace(
        robot,
        drive=replace(robot.drive, rotors=rotors),
        declared_base=None,
        chi=np.append(robot.chi, 0.0),
        known=np.ones(len(robot.chi) + 1, bool),
        assumed_zero=np.zeros(len(robot.chi) + 1, bool),
    )
    motion, k = random_motion(robot, 5), layout(tied).index("Ia")
    np.testing.assert_allclose(
        dynamics.energy_regressor(tied, motion)[:, k], 0.5 * np.sum(motion.dq[:, :2] ** 2, axis=1)
    )
    np.testing.assert_allclose(
        dynamics.power_regressor(tied, motion)[:, k], np.sum((motion.dq * motion.ddq)[:, :2], axis=1)
    )


def test_default_load_is_the_prior_without_friction(random_motion):
    robot = make_random_robot(4)
    motion = random_motion(robot, 5)
    rigid = dynamics.rigid_torque(robot, motion)
    np.testing.assert_array_equal(dynamics.regressor(robot, motion), dynamics.regressor(robot, motion, rigid))


def test_wrong_shapes_are_sentences(random_motion):
    robot = load("tx40")
    motion, q = random_motion(robot, 5), np.zeros((5, 6))
    with pytest.raises(ValueError, match="chi has shape"):
        dynamics.inverse_dynamics(robot, motion, np.zeros(85))
    with pytest.raises(ValueError, match="tau has shape"):
        dynamics.forward_dynamics(robot, q, dq=q, tau=np.zeros((1, 6)))
    with pytest.raises(ValueError, match="load has shape"):
        dynamics.regressor(robot, motion, np.zeros((5, 5)))


def test_current_law_with_an_offset():
    from excitor.robots import friction as drive

    robot = load("kr150")
    law = np.tile([0.5, 2.0, 3.0, 4.0], (6, 1))
    robot = replace(robot, drive=replace(robot.drive, torque_from_current=law))
    tau = drive.torque_from_current(robot, np.array([[2.0, -2.0, 0.0, 1.0, -1.0, 0.0]]))
    np.testing.assert_allclose(tau, [[48.5, -48.5, 0.0, 9.5, -9.5, 0.0]])
    law[3, 2] = np.nan  # one coefficient missing is a law missing
    partly = replace(robot, drive=replace(robot.drive, torque_from_current=law))
    with pytest.raises(ValueError, match=robot.joint_names[3]):
        drive.torque_from_current(partly, np.zeros((1, 6)))


def test_sine_and_cosine_to_the_last_digit():
    from excitor.robots.tree import Tree

    one = np.eye(4)
    tree = Tree(("q",), ("l",), [-1], [one], [[0.0, 0.0, 1.0]], [one], [False], [[1.0]], [0.0], [0.0, 0.0, 0.0])
    q = np.concatenate([np.linspace(-50.0, 50.0, 4001), np.random.default_rng(0).uniform(-1e5, 1e5, 4001)])
    R = tree.poses(q[:, None])[:, 0]
    np.testing.assert_allclose(R[:, 0, 0], np.cos(q), rtol=0.0, atol=4e-16)
    np.testing.assert_allclose(R[:, 1, 0], np.sin(q), rtol=0.0, atol=4e-16)


def test_losses_follow_the_power_of_the_motor_not_of_the_joint():
    """TX-40: motor 6 turns at 32 (q5 + q6); joint 6 brakes while its motor drives."""
    from excitor.robots import friction as drive

    robot = load("tx40")
    R = np.full(6, 0.8)
    lossy = replace(robot, drive=replace(robot.drive, efficiency=R))
    dq = np.array([[0.0, 0.0, 0.0, 0.0, 2.0, -1.0]])
    tau = np.array([[0.0, 0.0, 0.0, 0.0, 10.0, 4.0]])
    ideal = drive.motor_torques(lossy, tau)
    power = ideal * drive.motor_positions(lossy, dq)
    assert power[0, 5] > 0.0 > tau[0, 5] * dq[0, 5]
    np.testing.assert_allclose(drive.motor_torques(lossy, tau, dq)[0, 5], ideal[0, 5] / 0.8)


def test_load_friction_weighs_the_load_where_it_acts(random_motion):
    robot, e = load("rotradi"), np.eye(3)
    term = FrictionTerm("Fl", "load", e[0], e[1], width=0.1)
    n = len(robot.chi) + 1
    robot = replace(
        robot,
        drive=replace(robot.drive, friction=(*robot.drive.friction, term)),
        declared_base=None,
        chi=np.zeros(n),
        known=np.zeros(n, bool),
        assumed_zero=np.zeros(n, bool),
    )
    motion, tau = random_motion(robot, 5), np.random.default_rng(1).normal(size=(5, 3))
    g = np.tanh(motion.dq[:, 0] / 0.1) * np.abs(tau[:, 1])
    np.testing.assert_allclose(dynamics.regressor(robot, motion, tau)[:, 1, -1], g, rtol=1e-12)
    np.testing.assert_allclose(dynamics.power_regressor(robot, motion, tau)[:, -1], motion.dq[:, 1] * g, rtol=1e-12)


def one_joint(*terms):
    from excitor.robots.robot import Frame, Robot
    from excitor.robots.tree import Tree

    unit, one = np.eye(4), np.ones(1)
    tree = Tree(("q",), ("l",), [-1], [unit], [[0.0, 0.0, 1.0]], [unit], [False], [[1.0]], [0.0], [0.0, 0.0, 0.0])
    drive = DriveTrain(np.eye(1), np.zeros((1, 4)), one, (), tuple(FrictionTerm(m, m, one, one, **k) for m, k in terms))
    n, inf = 10 + len(terms), np.full(1, np.inf)
    return Robot(
        "one",
        tree,
        drive,
        Limits(np.array([[-np.inf, np.inf]]), inf, inf, inf, inf),
        Frame("tool", 0, unit),
        None,
        np.zeros(n),
        np.ones(n, bool),
        np.zeros(n, bool),
    )


def test_true_signs_and_their_slopes_at_rest():
    from excitor.robots.gram import gram_gradient
    from excitor.robots.robot import Motion

    robot = one_joint(("sqrt", {}), ("stribeck", {"scale": 0.5}), ("coulomb", {}))
    v = np.array([[-4.0], [0.0], [9.0]])
    Y = dynamics.regressor(robot, Motion(0 * v, v, 0 * v))[:, 0, 10:]
    np.testing.assert_allclose(Y, [[-2, -np.exp(-8), -1], [0, 0, 0], [3, np.exp(-18), 1]], rtol=1e-12)
    for g in gram_gradient(robot, Motion(0 * v, v, 0 * v), gram_bar=np.ones((13, 13))):
        assert np.isfinite(g).all()


@pytest.mark.parametrize("warm_up", [0, 1, 3])
def test_memory_warms_up_as_often_as_it_says(warm_up):
    """It saturates: the first pass differs from those after it."""
    from excitor.robots.robot import Motion

    q = np.array([[0.0], [0.3], [0.2]])
    z = dynamics.regressor(one_joint(("maxwell-slip", {"scale": 0.16, "warm_up": warm_up})), Motion(q, 0 * q, 0 * q))
    state, before = 0.0, 0.0
    for _ in range(warm_up + 1):
        seen = []
        for p in q[:, 0]:
            state, before = min(1.0, max(-1.0, state + (p - before) / 0.16)), p
            seen.append(state)
    np.testing.assert_allclose(z[:, 0, -1], seen, atol=1e-14)


def test_rows_are_stacked_joint_by_joint():
    from excitor.robots.gram import stack

    Y = np.arange(24.0).reshape(2, 3, 4)  # 2 samples, 3 joints, 4 parameters
    np.testing.assert_array_equal(stack(Y)[[0, 1, 2, 5]], [Y[0, 0], Y[1, 0], Y[0, 1], Y[1, 2]])


def test_a_coordinate_is_what_the_link_of_its_name_does():
    """Coordinate b slides its own link, though it also turns the link a before it."""
    from excitor.robots.tree import Tree

    one = [np.eye(4)] * 2
    tree = Tree(
        ("a", "b"),
        ("a", "b"),
        [-1, 0],
        one,
        [[0.0, 0.0, 1.0]] * 2,
        one,
        [False, True],
        [[1.0, 0.5], [0.0, 1.0]],
        [0.0, 0.0],
        [0.0, 0.0, -9.81],
    )
    assert tree.prismatic.tolist() == [False, True]


def test_a_motion_of_another_robot_is_refused(random_motion):
    """Compiled code checks no bounds, so whoever calls it must."""
    robot, other = load("tx40"), random_motion(load("rotradi"), 5)
    from excitor.robots.gram import gram

    for call in (dynamics.regressor, dynamics.inverse_dynamics, dynamics.energy_regressor, gram):
        with pytest.raises(ValueError, match="the motion has 3 joints, expected the robot's 6"):
            call(robot, other)
    with pytest.raises(ValueError, match="has 3 joints, expected the robot's 6"):
        dynamics.link_poses(robot, other.q)


@pytest.mark.parametrize(
    ("columns", "words"),
    [([5, 5], "more than once"), ([-1], "expected 0 to 85"), ([86], "expected 0 to 85"), ([1.5], "list of indices")],
)
def test_gram_refuses_columns_that_are_none(random_motion, columns, words):
    from excitor.robots.gram import gram

    robot = load("tx40")
    with pytest.raises(ValueError, match=words):
        gram(robot, random_motion(robot, 5), np.array(columns))


def test_gram_refuses_weights_and_derivatives_of_the_wrong_shape(random_motion):
    from excitor.robots.gram import gram, gram_gradient

    robot = load("tx40")
    motion = random_motion(robot, 5)
    with pytest.raises(ValueError, match="weights has shape"):
        gram(robot, motion, weights=np.ones(5))
    with pytest.raises(ValueError, match="gram_bar has shape"):
        gram_gradient(robot, motion, gram_bar=np.eye(3))


def test_too_few_samples_have_no_condition():
    from excitor.robots.gram import condition_number

    assert condition_number(np.random.default_rng(0).normal(size=(2, 5))) == np.inf
    x = np.random.default_rng(1).normal(size=(9, 1))
    assert condition_number(np.column_stack([x, 3.0 * x])) == np.inf


@pytest.mark.parametrize("tilt", [1e-4, 1e-3, 0.1])
def test_a_tilted_axis_keeps_its_own_inertia(tilt):
    """A hair of tilt must not make XX1 of ten thousand times ZZ1."""
    from excitor.robots.files.toml import robot_from_data

    axis = [float(np.sin(tilt)), 0.0, float(np.cos(tilt))]
    joints = [{"name": "a", "placement": {"axis": axis}}, {"name": "b", "mdh": {"alpha_deg": 90, "d": 0.1, "r": 0.2}}]
    base = base_parameters(robot_from_data({"name": "tilted", "joint": joints}, "tilted"))
    assert "ZZ1R" in base.names
    row = base.regrouping[base.names.index("ZZ1R")]
    assert np.abs(row).max() < 1.5


def test_a_ball_screws_rotor_hides_nothing():
    """Its column is ten million times a link's: rounding of one kind is not compared with another."""
    from excitor.robots.files.toml import robot_from_data

    def count(turns):
        joints = [
            {"name": "x", "kind": "prismatic", "mdh": {"alpha_deg": 90}},
            {"name": "a", "mdh": {"alpha_deg": -90, "d": 0.1, "r": 0.1}},
            {"name": "b", "mdh": {"alpha_deg": 90, "d": 0.1, "r": 0.1}},
        ]
        drive = {"rotor": [{"parameter": "Ia1", "senses": {"x": turns}}]}
        return len(base_parameters(robot_from_data({"name": "screw", "joint": joints, "drive": drive}, "screw")))

    assert count(6283.0) == count(1.0)


@pytest.mark.parametrize("factor", [0.3, 0.75, 0.95])
def test_forward_dynamics_under_strong_load_friction(random_motion, factor):
    from excitor.robots.robot import FrictionTerm

    robot = load("rotradi")
    e = np.eye(3)
    terms = tuple(FrictionTerm(f"Fl{i}", "load", e[i], e[i], width=0.01) for i in range(3))
    robot = replace(
        robot,
        drive=replace(robot.drive, friction=terms),
        chi=np.append(robot.chi[:30], [factor] * 3),
        known=np.ones(33, dtype=bool),
        assumed_zero=np.zeros(33, dtype=bool),
    )
    motion = random_motion(robot, 40)
    tau = dynamics.inverse_dynamics(robot, motion)
    ddq = dynamics.forward_dynamics(robot, motion.q, dq=motion.dq, tau=tau)
    again = dynamics.inverse_dynamics(robot, replace(motion, ddq=ddq))
    np.testing.assert_allclose(again, tau, atol=1e-7 * np.abs(tau).max())


def test_parameters_of_different_kinds_need_different_names():
    from excitor.robots.robot import DriveTrain, FrictionTerm, RotorInertia

    e = np.ones(1)

    def drive(rotors, friction):
        return DriveTrain(np.eye(1), np.full((1, 4), np.nan), e, rotors, friction)

    sliding = np.array([False])
    with pytest.raises(ValueError, match="'XX1' is a link's parameter"):
        layout_of(1, sliding, drive((RotorInertia("XX1", e, e),), ()))
    with pytest.raises(ValueError, match="both a rotor inertia and friction"):
        layout_of(1, sliding, drive((RotorInertia("A", e, e),), (FrictionTerm("A", "viscous", e, e),)))


def test_slip_states_of_one_joint_are_distinguished():
    from excitor.robots.robot import FrictionTerm

    robot = load("rotradi")
    e = np.eye(3)[1]
    slips = tuple(FrictionTerm(f"Fz{k}", "maxwell-slip", e, e, scale=scale) for k, scale in enumerate((0.001, 0.004)))
    robot = replace(
        robot,
        drive=replace(robot.drive, friction=(*robot.drive.friction, *slips)),
        chi=np.append(robot.chi, [0.0, 0.0]),
        known=np.append(robot.known, [True, True]),
        assumed_zero=np.append(robot.assumed_zero, [False, False]),
    )
    assert {"Fz0", "Fz1"} <= set(base_parameters(robot).names)
