"""The compiled physics against pinocchio, on the catalogue and on random trees; identities; gradients."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.robots import dynamics
from excitor.robots import friction as drive
from excitor.robots.dynamics import regressor
from excitor.robots.gram import condition_number, gram, gram_condition, gram_gradient, stack
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion
from tests.oracles import Oracle
from tests.random_robots import with_drive

RELATIVE = 1e-9  # the bar; rounding leaves about 1e-14


def relative(ours, reference):
    scale = np.abs(reference).max()
    return np.abs(ours - reference).max() / (scale if scale > 0 else 1.0)


def link_columns_of(robot, array):
    return array[..., : layout(robot).n_link_params]


def test_regressor_matches_pinocchio(any_robot, random_motion):
    motion = random_motion(any_robot, 80)
    Y = link_columns_of(any_robot, dynamics.regressor(any_robot, motion))
    assert relative(Y, Oracle(any_robot.mechanism).regressor(motion)) < RELATIVE


def test_rigid_inverse_dynamics_matches_pinocchio_with_any_parameters(any_robot, random_motion):
    motion = random_motion(any_robot)
    params = layout(any_robot)
    chi = np.zeros(len(params))
    chi[: params.n_link_params] = np.random.default_rng(5).normal(size=params.n_link_params)
    expected = Oracle(any_robot.mechanism).regressor(motion) @ chi[: params.n_link_params]
    assert relative(dynamics.inverse_dynamics(any_robot, motion, chi), expected) < RELATIVE


def test_energy_matches_pinocchio(any_robot, random_motion):
    motion = random_motion(any_robot)
    h = link_columns_of(any_robot, dynamics.energy_regressor(any_robot, motion))
    assert relative(h, Oracle(any_robot.mechanism).energy_regressor(motion)) < RELATIVE


def test_forward_dynamics_matches_pinocchio(random_robot, random_motion):
    motion = random_motion(random_robot)
    params = layout(random_robot)
    chi = np.where(np.arange(len(params)) < params.n_link_params, random_robot.chi, 0.0)
    tau = motion.ddq
    oracle = Oracle(random_robot.mechanism)
    phi = chi[: params.n_link_params].reshape(-1, 10)
    expected = [
        np.linalg.solve(M, t - bias) for (M, bias), t in zip(oracle.mass_matrix_and_bias(motion, phi), tau, strict=True)
    ]
    ours = dynamics.forward_dynamics(random_robot, motion.q, dq=motion.dq, tau=tau, chi=chi)
    assert relative(ours, np.array(expected)) < RELATIVE


def test_forward_dynamics_is_that_of_the_articulated_bodies(random_robot, random_motion):
    tree = random_robot.mechanism
    tree = replace(tree, joint_names=tree.link_names, coupling=np.eye(tree.n_links))  # ABA knows no gearing
    robot = with_drive(tree, np.random.default_rng(tree.n_links))
    motion, params = random_motion(robot), layout(robot)
    chi = np.where(np.arange(len(params)) < params.n_link_params, robot.chi, 0.0)
    oracle = Oracle(robot.mechanism)
    expected = oracle.articulated_bodies(motion, chi[: params.n_link_params].reshape(-1, 10), motion.ddq)
    ours = dynamics.forward_dynamics(robot, motion.q, dq=motion.dq, tau=motion.ddq, chi=chi)
    assert relative(ours, expected) < RELATIVE


def test_poses_match_pinocchio(any_robot, random_motion):
    motion = random_motion(any_robot, 70)
    assert relative(dynamics.link_poses(any_robot, motion.q), Oracle(any_robot.mechanism).poses(motion)) < 1e-12


def test_jacobian_is_the_derivative_of_the_pose(any_robot, random_motion):
    q = random_motion(any_robot).q
    J = dynamics.frame_jacobian(any_robot, q)
    h = 1e-6
    for i in range(any_robot.n_joints):
        step = h * np.eye(any_robot.n_joints)[i]
        plus, minus = dynamics.frame_pose(any_robot, q + step), dynamics.frame_pose(any_robot, q - step)
        change = (plus - minus) / (2 * h)
        spin = change[:, :3, :3] @ dynamics.frame_pose(any_robot, q)[:, :3, :3].transpose(0, 2, 1)
        angular = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
        # central differences: h² of truncation, 1e-16 / h of rounding
        np.testing.assert_allclose(J[:, :3, i], change[:, :3, 3], atol=1e-8)
        np.testing.assert_allclose(J[:, 3:, i], angular, atol=1e-8)


def test_inverse_dynamics_is_regressor_times_parameters(any_robot, random_motion):
    motion = random_motion(any_robot, 70)
    chi = np.random.default_rng(2).normal(size=len(layout(any_robot)))
    load = dynamics.rigid_torque(any_robot, motion, chi)
    expected = dynamics.regressor(any_robot, motion, load) @ chi
    assert relative(dynamics.inverse_dynamics(any_robot, motion, chi), expected) < 1e-12


def test_forward_dynamics_inverts_inverse_dynamics(any_robot, random_motion):
    motion = random_motion(any_robot)
    tau = dynamics.inverse_dynamics(any_robot, motion)
    ddq = dynamics.forward_dynamics(any_robot, motion.q, dq=motion.dq, tau=tau)
    assert relative(ddq, motion.ddq) < 1e-8  # condition of the mass matrix times rounding


def test_power_regressor_is_power(any_robot, random_motion):
    motion = random_motion(any_robot, 70)
    load = np.random.default_rng(3).normal(size=motion.q.shape)
    power = np.einsum("ni,nip->np", motion.dq, dynamics.regressor(any_robot, motion, load))
    assert relative(dynamics.power_regressor(any_robot, motion, load), power) < RELATIVE


def test_power_is_the_derivative_of_energy(any_robot):
    rng = np.random.default_rng(4)
    q, dq, ddq = rng.uniform(-1.0, 1.0, size=(3, 10, any_robot.n_joints))
    h = 1e-5

    def energy_at(t):
        return dynamics.energy_regressor(any_robot, Motion(q + t * dq + t**2 / 2 * ddq, dq + t * ddq, ddq))

    slope = (energy_at(h) - energy_at(-h)) / (2 * h)
    params = layout(any_robot)
    stored = [*range(params.n_link_params), *params.rotor_columns]
    power = dynamics.power_regressor(any_robot, Motion(q, dq, ddq))
    np.testing.assert_allclose(power[:, stored], slope[:, stored], rtol=1e-6, atol=1e-6)  # h² truncation


def test_mass_matrix_is_symmetric_and_positive(random_robot, random_motion):
    M = dynamics.mass_matrix(random_robot, random_motion(random_robot).q)
    np.testing.assert_allclose(M, M.transpose(0, 2, 1), atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > 0.0


@pytest.mark.parametrize("n_samples", [1, 119, 120, 121, 239, 240, 241, 481, 512])
def test_sample_counts_around_the_block_size(n_samples, random_motion):
    from excitor.robots.load import load

    robot = load("tx40")
    motion = random_motion(robot, n_samples)
    Y = dynamics.regressor(robot, motion)
    assert Y.shape == (n_samples, 6, 86)
    last = Motion(motion.q[-1:], motion.dq[-1:], motion.ddq[-1:])
    np.testing.assert_allclose(Y[-1:], dynamics.regressor(robot, last), atol=1e-13)
    W = stack(Y)
    np.testing.assert_allclose(gram(robot, motion), W.T @ W, atol=1e-9 * n_samples)


def test_large_angles_keep_their_sine(random_motion):
    from excitor.robots.load import load

    robot = load("tx40")
    motion = random_motion(robot, 64)
    far = Motion(motion.q + 2 * np.pi * 1000, motion.dq, motion.ddq)
    # adding 6283 rad rounds the angle itself to 5e-13
    np.testing.assert_allclose(dynamics.regressor(robot, far), dynamics.regressor(robot, motion), atol=1e-10)


def test_gram_is_the_product_of_the_stacked_regressor(any_robot, random_motion):
    motion = random_motion(any_robot, 150)
    rng = np.random.default_rng(6)
    n_params = len(layout(any_robot))
    columns = np.sort(rng.choice(n_params, size=max(1, 2 * n_params // 3), replace=False))
    weights = rng.uniform(0.5, 2.0, size=any_robot.n_joints)
    W = stack(dynamics.regressor(any_robot, motion)[:, :, columns] * weights[None, :, None])
    assert relative(gram(any_robot, motion, columns, weights), W.T @ W) < 1e-12


def test_gram_condition_agrees_with_svd(random_motion):
    from excitor.robots.base import base_parameters
    from excitor.robots.load import load

    robot = load("tx40")
    motion = random_motion(robot, 300)
    kept = base_parameters(robot).kept
    by_svd = condition_number(stack(dynamics.regressor(robot, motion))[:, kept])
    assert gram_condition(gram(robot, motion, kept)) == pytest.approx(by_svd, rel=1e-9)


def test_gram_gradient_matches_differences(any_robot):
    """The bar is 1e-6; loads and Maxwell-slip states count as given, so columns that rest on them are left out."""
    rng = np.random.default_rng(7)
    n = any_robot.n_joints
    q, dq, ddq = rng.uniform(0.3, 2.0, size=(3, 90, n)) * rng.choice([-1.0, 1.0], size=(3, 90, n))
    params = layout(any_robot)
    given = {name for name in ("Fl", "Fz") if name in params.names}
    columns = np.array([k for k, name in enumerate(params.names) if name not in given])
    bar = rng.normal(size=(columns.size, columns.size))
    bar = bar + bar.T
    gradient = gram_gradient(any_robot, Motion(q, dq, ddq), gram_bar=bar, columns=columns)

    def value(state):
        return float(np.sum(bar * gram(any_robot, Motion(*state), columns)))

    direction = rng.normal(size=(3, 90, n))
    # steps small enough not to cross a velocity's sign; one direction tests all entries at once
    h = 1e-5
    state = np.array([q, dq, ddq])
    difference = (value(state + h * direction) - value(state - h * direction)) / (2 * h)
    by_adjoint = float(sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True)))
    assert by_adjoint == pytest.approx(difference, rel=1e-6)


def test_gram_gradient_entry_by_entry(random_motion):
    from excitor.robots.load import load

    robot = load("qrc350")
    motion = random_motion(robot, 70)
    columns = np.arange(60)
    rng = np.random.default_rng(8)
    bar = rng.normal(size=(60, 60))
    gradient = gram_gradient(robot, motion, gram_bar=bar, columns=columns)
    scale = max(np.abs(g).max() for g in gradient)
    for which in range(3):
        for k, i in [(0, 0), (1, 1), (5, 2), (63, 3), (64, 4), (69, 5)]:
            values = []
            for sign in (1, -1):
                state = [motion.q.copy(), motion.dq.copy(), motion.ddq.copy()]
                state[which][k, i] += sign * 1e-5
                values.append(np.sum(bar * gram(robot, Motion(*state), columns)))
            difference = (values[0] - values[1]) / 2e-5
            assert abs(gradient[which][k, i] - difference) < 1e-6 * scale


def test_friction_and_rotors_follow_their_formulas(random_robot, random_motion):
    robot = random_robot
    motion = random_motion(robot, 40)
    params = layout(robot)
    load = np.random.default_rng(9).normal(size=motion.q.shape)
    expected = np.zeros((40, robot.n_joints, len(params)))
    for rotor, column in zip(robot.drive.rotors, params.rotor_columns, strict=True):
        expected[:, :, column] += (motion.ddq @ rotor.senses)[:, None] * rotor.acts
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        v, p = motion.dq @ term.senses, motion.q @ term.senses
        s = np.sign(v) if term.width == 0 else np.tanh(v / term.width)
        g = {
            "viscous": v,
            "coulomb": s,
            "offset": np.ones(40),
            "sqrt": s * np.sqrt(np.abs(v)),
            "stribeck": s * np.exp(-np.abs(v) / term.scale),
            "load": s * np.abs(load @ term.acts),
            "maxwell-slip": slip_by_hand(p, term.scale),
            "ripple-sin": np.sin(term.scale * p),
            "ripple-cos": np.cos(term.scale * p),
        }[term.model]
        expected[:, :, column] += g[:, None] * term.acts
    n = params.n_link_params
    np.testing.assert_allclose(dynamics.regressor(robot, motion, load)[:, :, n:], expected[:, :, n:], atol=1e-13)


def slip_by_hand(position, delta):
    z, out = 0.0, []
    twice = np.concatenate([position, position])
    for step in np.diff(twice, prepend=twice[0]):
        z = float(np.clip(z + step / delta, -1.0, 1.0))
        out.append(z)
    return np.array(out[len(position) :])


def test_motor_and_joint_sides_agree():
    from excitor.robots.load import load

    robot = load("tx40")
    rng = np.random.default_rng(10)
    q_motor, tau_motor = rng.normal(size=(2, 5, 6))
    q, tau = drive.joint_positions(robot, q_motor), drive.joint_torques(robot, tau_motor)
    # tx40 fact: q4 = -qm4/48, q6 = qm6/32 - qm5/45; tau5 = 45 tm5 + 32 tm6
    np.testing.assert_allclose(q[:, 3], -q_motor[:, 3] / 48, rtol=1e-12)
    np.testing.assert_allclose(q[:, 5], q_motor[:, 5] / 32 - q_motor[:, 4] / 45, rtol=1e-12)
    np.testing.assert_allclose(tau[:, 4], 45 * tau_motor[:, 4] + 32 * tau_motor[:, 5], rtol=1e-12)
    np.testing.assert_allclose(np.sum(q * tau, axis=1), np.sum(q_motor * tau_motor, axis=1), rtol=1e-12)
    np.testing.assert_allclose(drive.motor_positions(robot, q), q_motor, atol=1e-14)
    np.testing.assert_allclose(drive.motor_torques(robot, tau), tau_motor, atol=1e-14)


def test_efficiency_costs_the_driving_side():
    from excitor.robots.load import load

    robot = load("kr150")
    R = robot.drive.efficiency
    dq = np.zeros((3, 6))
    dq[0], dq[1] = 1.0, -1.0
    tau = np.full((3, 6), 100.0)
    ideal = drive.motor_torques(robot, tau)
    with_losses = drive.motor_torques(robot, tau, dq)
    power = ideal * drive.motor_positions(robot, dq)
    np.testing.assert_allclose(with_losses[power > 0], (ideal / R)[power > 0])
    np.testing.assert_allclose(with_losses[power < 0], (ideal * R)[power < 0])
    np.testing.assert_allclose(with_losses[2], ideal[2])


def test_current_law_is_odd_and_cubic():
    from excitor.robots.load import load

    robot = load("kr150")
    current = np.array([[10.0] * 6, [-10.0] * 6])
    tau = drive.torque_from_current(robot, current)
    assert tau[0, 0] == pytest.approx(1.4 * 10 + 4e-3 * 100 - 2.2e-4 * 1000)
    np.testing.assert_allclose(tau[0], -tau[1])
    with pytest.raises(ValueError, match="no torque_from_current"):
        drive.torque_from_current(load("rotradi"), current[:, :3])


@pytest.mark.parametrize("n_samples", [7, 512])
def test_a_regressor_is_written_into_an_earlier_array(n_samples):
    robot = load("tx40")
    first, second = (random_states(robot, n_samples, seed) for seed in (0, 1))
    out = regressor(robot, first)
    again = regressor(robot, second, out=out)
    assert again is out
    np.testing.assert_array_equal(again, regressor(robot, second))
    with pytest.raises(ValueError, match="expected an array"):
        regressor(robot, second[:3], out=out)
    with pytest.raises(ValueError, match="expected an array"):
        regressor(robot, second, out=np.empty(out.shape))


def random_states(robot, n_samples, seed):
    return Motion(*np.random.default_rng(seed).normal(size=(3, n_samples, robot.n_joints)))
