"""A simulated servo against the exact recursion of a linear joint, the open simulation, and the model's own torques."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

from excitor.robots.closed_chain import inverse_geometry
from excitor.robots.dynamics import inverse_dynamics, mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Motion, Robot, RotorInertia, posture
from excitor.robots.simulate import (
    Servo,
    Steps,
    design_inertia,
    dry_friction,
    fitting_inertia,
    follow,
    servo_for,
    simulate,
    smoothed,
)
from excitor.robots.tree import Tree

INERTIA, VISCOUS = 0.4, 1.5


def turntable(terms=("viscous",), values=(VISCOUS,)):
    """One joint about a vertical axis whose inertia is a rotor's: linear, no gravity."""
    tree = Tree(
        joint_names=("q",),
        link_names=("link",),
        parents=[-1],
        before=np.eye(4)[None],
        axis=[[0.0, 0.0, 1.0]],
        after=np.eye(4)[None],
        sliding=[False],
        coupling=[[1.0]],
        offset=[0.0],
        gravity=[0.0, 0.0, -9.81],
    )
    friction = tuple(FrictionTerm(f"F{k}", term, [1.0], [1.0]) for k, term in enumerate(terms))
    rotors = (RotorInertia("Ia", [1.0], [1.0]),)
    drive = DriveTrain(np.eye(1), np.full((1, 4), np.nan), np.ones(1), rotors, friction)
    chi = np.concatenate([np.zeros(10), [INERTIA], values])
    free = np.array([np.inf])
    limits = Limits(np.array([[-np.inf, np.inf]]), free, free, free, free)
    known = np.ones(len(chi), dtype=bool)
    return Robot("turntable", tree, drive, limits, Frame("tool", 0, np.eye(4)), None, chi, known, ~known)


def sines(robot, n_samples, rate, size=0.5, middle=0.0):
    """Motion from rest: each joint a sine that grows."""
    t = np.arange(n_samples)[:, None] / rate
    omega = 3.0 + np.arange(robot.n_joints)
    grow = 1.0 - np.exp(-((2.0 * t) ** 3))
    q = middle + size * grow * np.sin(omega * t)
    dq = np.gradient(q, 1.0 / rate, axis=0)
    dq[0] = 0.0
    return Motion(q, dq, np.gradient(dq, 1.0 / rate, axis=0))


def test_a_linear_joint_does_what_the_exact_recursion_says():
    """x[k+1] = exp(A T) x[k] + ∫ exp(A s) ds B τ[k]: τ held, positions read at the samples, differences backward."""
    robot, rate = turntable(), 250.0
    reference = sines(robot, 400, rate)
    servo = Servo([60.0], [6.0], rate)
    noise = np.random.default_rng(0).normal(scale=1e-3, size=(400, 1))
    whole = expm(np.array([[0.0, 1.0, 0.0], [0.0, -VISCOUS / INERTIA, 1.0 / INERTIA], [0.0, 0.0, 0.0]]) / rate)
    q, dq, before, rows = reference.q[0, 0], 0.0, None, []
    for k in range(400):
        seen = q + noise[k, 0]
        v = 0.0 if before is None else (seen - before) * rate
        tau = 60.0 * (reference.q[k, 0] - seen) + 6.0 * (reference.dq[k, 0] - v)
        rows.append([q, dq, tau])
        q, dq = (whole @ [q, dq, tau])[:2]
        before = seen
    done = follow(robot, reference, servo, position_noise=noise)
    expected = np.array(rows)
    found = np.column_stack([done.motion.q, done.motion.dq, done.tau])
    scale = np.abs(expected).max(axis=0)
    assert np.abs((found - expected) / scale).max() < 2e-5  # second-order steps of 0.5 ms
    assert not done.diverged
    assert done.diverged_at == np.inf


def test_a_filtered_velocity_keeps_its_share_of_the_old():
    robot, rate = turntable(), 250.0
    reference = sines(robot, 50, rate)
    servo = Servo([0.0], [1.0], rate, velocity_filter=0.02)
    done = follow(robot, reference, servo)
    v, keep = 0.0, np.exp(-1.0 / (0.02 * rate))
    for k in range(1, 50):
        v = keep * v + (1.0 - keep) * (done.motion.q[k, 0] - done.motion.q[k - 1, 0]) * rate
        assert done.tau[k, 0] == pytest.approx(reference.dq[k, 0] - v, abs=1e-12)


def test_torques_are_those_of_the_model_along_the_motion():
    """Accelerations are those right after the torque's jump: τ = Y χ at every sample."""
    robot = load("rotradi")
    reference = sines(robot, 300, 400.0)
    servo = servo_for(robot, reference, bandwidth_hz=4.0, rate_hz=400.0)
    done = follow(robot, reference, servo)
    expected = inverse_dynamics(smoothed(robot), done.motion)
    assert np.abs(done.tau - expected).max() < 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize(("name", "size"), [("rotradi", 0.5), ("five-bar-vertical", 0.1)])
def test_the_open_simulation_agrees(name, size):
    """The same law, held, in the simulation that Python steps: serial arm and closed chain."""
    robot = smoothed(load(name), 0.3)
    rate, n = 200.0, 60
    middle = 0.0
    if name != "rotradi":
        middle = inverse_geometry(robot.mechanism, robot.mechanism.home[None, robot.mechanism.platform] + 0.02)[0]
    reference = sines(robot, n, rate, size=size, middle=middle)
    servo = Servo([30.0] * robot.n_joints, [2.0] * robot.n_joints, rate)
    done = follow(robot, reference, servo)
    before = reference.q[:1].copy()

    def law(t, q, dq):
        k = round(t * rate)
        v = (q - before) * rate
        before[:] = q
        return servo.kp * (reference.q[k] - q) + servo.kd * (reference.dq[k] - v)

    expected = simulate(robot, law, start=posture(reference.q[:1]), steps=Steps(1.0 / rate, n, substeps=10, held=True))
    moved = np.ptp(expected.q[0], axis=1).max()
    assert moved > 0.01
    assert np.abs(done.motion.q - expected.q[0].T).max() < 2e-3 * moved
    assert np.abs(done.tau - expected.tau[0].T).max() < 2e-3 * np.abs(expected.tau).max()


def test_what_encoders_hide_is_followed_too():
    """Encoders that read c too much hold a joint c too low."""
    robot = turntable()
    still = posture(np.zeros((600, 1)))
    done = follow(robot, still, Servo([60.0], [6.0], 250.0), position_noise=np.full((600, 1), 0.01))
    assert done.motion.q[-1, 0] == pytest.approx(-0.01, abs=1e-6)


def test_feedforward_of_the_true_model_leaves_little_to_feedback():
    robot = load("rotradi")
    reference = sines(robot, 500, 500.0)
    servo = servo_for(robot, reference, bandwidth_hz=3.0, rate_hz=500.0)
    errors = [
        np.abs(follow(robot, reference, replace(servo, feedforward=chi)).motion.q - reference.q).max()
        for chi in (None, robot.chi)
    ]
    assert errors[1] < 0.1 * errors[0]


def test_it_starts_at_the_velocity_of_the_reference():
    robot = turntable()
    t = np.arange(100)[:, None] / 250.0
    done = follow(robot, Motion(2.0 * t, 0.0 * t + 2.0, 0.0 * t), Servo([500.0], [50.0], 250.0))
    assert done.motion.dq[0, 0] == 2.0
    assert done.tau[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_gains_follow_from_bandwidth_and_inertia():
    robot = load("rotradi")
    motion = sines(robot, 200, 400.0)
    servo = servo_for(robot, motion, bandwidth_hz=5.0, damping=0.6)
    largest = np.diagonal(mass_matrix(robot, motion.q), axis1=1, axis2=2).max(axis=0)
    omega = 10.0 * np.pi
    assert servo.kp == pytest.approx(omega**2 * largest, rel=1e-3)
    assert servo.kd == pytest.approx(1.2 * omega * largest, rel=1e-3)


@pytest.mark.parametrize("name", ["five-bar", "delta"])
def test_a_closed_chain_is_held(name):
    robot = load(name)
    home = robot.mechanism.home[robot.mechanism.actuated]
    reference = sines(robot, 300, 1000.0, size=0.05, middle=home)
    servo = servo_for(robot, reference, bandwidth_hz=8.0)
    assert (servo.inertia <= np.diagonal(mass_matrix(robot, reference.q), axis1=1, axis2=2).max(axis=0)).all()
    done = follow(robot, reference, servo)
    assert not done.diverged
    assert np.abs(done.motion.q - reference.q).max() < 0.05


def test_a_robot_out_of_control_is_reported_and_stands_still():
    robot = turntable()
    reference = sines(robot, 400, 250.0)
    done = follow(robot, reference, Servo([6e6], [6e4], 250.0))
    k = round(done.diverged_at * 250.0)
    assert done.diverged
    assert 0 < k < 400
    assert np.isfinite(done.motion.q).all()
    assert np.array_equal(done.motion.q[k:], np.tile(done.motion.q[k - 1], (400 - k, 1)))
    assert not done.tau[k:].any()


def test_what_cannot_be_is_refused():
    robot = turntable()
    with pytest.raises(ValueError, match="rate_hz is 0"):
        Servo([1.0], [1.0], 0.0)
    with pytest.raises(ValueError, match="velocity_filter is -1"):
        Servo([1.0], [1.0], 100.0, velocity_filter=-1.0)
    with pytest.raises(ValueError, match="bandwidth_hz is 0"):
        servo_for(robot, posture(np.zeros((2, 1))), bandwidth_hz=0.0)
    with pytest.raises(ValueError, match=r"servo\.kp has shape \(2,\)"):
        follow(robot, posture(np.zeros((2, 1))), Servo([1.0, 1.0], [1.0, 1.0], 100.0))
    with pytest.raises(ValueError, match="position_noise"):
        follow(robot, posture(np.zeros((2, 1))), Servo([1.0], [1.0], 100.0), position_noise=np.zeros((3, 1)))
    assert len(layout(robot)) == len(robot.chi)
    assert design_inertia(robot, posture(np.zeros((2, 1)))) == pytest.approx([INERTIA])


def test_single_joints_take_what_inertia_all_poses_leave_them():
    """M - D stays positive, in any unit; what is wanted is given where it fits, and most of what is left otherwise."""
    masses = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.5, -0.3], [-0.3, 1.2]]])
    np.testing.assert_allclose(fitting_inertia(np.array([0.4, 0.2]), masses), [0.4, 0.2], rtol=1e-9)
    for wanted in (np.array([10.0, 10.0]), np.array([0.5, 10.0])):
        D = fitting_inertia(wanted, masses)
        left = np.linalg.eigvalsh(masses - np.diag(D)).min()
        assert 0.0 < left < 0.05
        assert (wanted >= D).all()
        np.testing.assert_allclose(fitting_inertia(1e3 * wanted, 1e3 * masses), 1e3 * D, rtol=1e-9)


def test_inertias_of_single_joints_are_possible_before_they_are_raised(monkeypatch):
    monkeypatch.setattr("excitor.robots.simulate._SWEEPS", 0)
    masses = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.5, -0.3], [-0.3, 1.2]]])
    D = fitting_inertia(np.array([10.0, 10.0]), masses)
    assert (D > 0.0).all()
    assert np.linalg.eigvalsh(masses - np.diag(D)).min() > 0.0


def test_dry_friction_of_one_joint_is_one_group_with_a_level_and_a_falling_part():
    """F sign v and (F + G exp(-|v| / scale)) sign v of the same joint; what does not stick is no dry friction."""
    robot = turntable(("coulomb", "viscous", "stribeck"), (0.7, VISCOUS, 0.4))
    falling = replace(robot.drive.friction[2], scale=0.05)
    robot = replace(robot, drive=replace(robot.drive, friction=(*robot.drive.friction[:2], falling)))
    names, dry = dry_friction(robot, robot.chi)
    assert len(names) == 1
    assert (dry.level.tolist(), dry.more.tolist(), dry.scale.tolist()) == ([0.7], [0.4], [0.05])
    plain = turntable(("coulomb", "viscous"), (0.7, VISCOUS))
    _, dry = dry_friction(plain, plain.chi)
    assert (dry.level.tolist(), dry.more.tolist()) == ([0.7], [0.0])
    free = turntable(("coulomb", "viscous"), (0.0, VISCOUS))
    assert len(dry_friction(free, free.chi)[0]) == 0
    twice = turntable(("stribeck", "stribeck"), (0.1, 0.2))
    with pytest.raises(ExcitorError, match="'F1' is a second stribeck term of one joint"):
        dry_friction(twice, twice.chi)
    with pytest.raises(ExcitorError, match="nothing sticks by negative friction"):
        dry_friction(plain, np.where(plain.chi == 0.7, -0.7, plain.chi))
