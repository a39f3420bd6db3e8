"""The momentum form against the regressor along periodic motions, pinocchio, closed forms, and the energy's slopes."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
import sympy as sp

from excitor.robots.base import base_parameters, declared_transform, random_motion
from excitor.robots.dynamics import energy_regressor, has_load_friction, momentum_form, power_regressor, regressor
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, RotorInertia, posture

PARALLEL = ("3-rrr", "five-bar", "five-bar-vertical", "orthoglide", "delta", "delta-full", "palletiser")


def periodic_motion(n_joints, n_samples=256, seed=0):
    """Two harmonics in 2π s, about random positions."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 2.0 * np.pi, n_samples, endpoint=False)[:, None]
    a, b = rng.uniform(-0.25, 0.25, size=(2, 2, n_joints))
    q = np.tile(rng.uniform(-2.0, 2.0, size=n_joints), (n_samples, 1))
    dq, ddq = np.zeros_like(q), np.zeros_like(q)
    for k in (1, 2):
        s, c = np.sin(k * t), np.cos(k * t)
        q += a[k - 1] * s + b[k - 1] * c
        dq += k * (a[k - 1] * c - b[k - 1] * s)
        ddq -= k * k * (a[k - 1] * s + b[k - 1] * c)
    return Motion(q, dq, ddq)


def rate(x):
    """Differentiate what is periodic in 2π s, exactly as far as its spectrum ends before the samples' Nyquist rate."""
    n = len(x)
    k = np.fft.rfftfreq(n, 1.0 / n).reshape(-1, *[1] * (x.ndim - 1))
    spectrum = np.fft.rfft(x, axis=0)
    spectrum[-1] = 0.0
    return np.fft.irfft(1j * k * spectrum, n, axis=0)


def test_torque_is_the_rate_of_the_momentum_and_the_rest(any_robot):
    """Every column, rotors and friction included; where a column is 0, rounding of the largest remains."""
    motion = periodic_motion(any_robot.n_joints)
    form = momentum_form(any_robot, motion)
    Y = regressor(any_robot, motion)
    size = np.abs(Y).max(axis=(0, 1)) + np.abs(Y).max() * 1e-2
    assert (np.abs(rate(form.A) + form.B - Y).max(axis=(0, 1)) < 1e-10 * size).all()


def test_energy_rises_by_the_work_of_the_torques(any_robot):
    motion = periodic_motion(any_robot.n_joints, seed=3)
    form = momentum_form(any_robot, motion)
    work = np.einsum("sj,sjp->sp", motion.dq, rate(form.A) + form.B)
    power = power_regressor(any_robot, motion)
    frictionless = list(range(min(layout(any_robot).friction_columns, default=power.shape[1])))
    stored = rate(energy_regressor(any_robot, motion))[:, frictionless]
    size = np.abs(power).max(axis=0) + 1e-2 * np.abs(power).max()
    assert (np.abs(work - power).max(axis=0) < 1e-10 * size).all()
    assert (np.abs(work[:, frictionless] - stored).max(axis=0) < 1e-10 * size[frictionless]).all()


@pytest.mark.parametrize("name", ["tx40", "rotradi"])
def test_pinocchio_agrees_on_momentum_and_its_slopes(name):
    """M dq from the composite-body algorithm, ∂K/∂q = Cᵀ dq from its Coriolis matrix, gravity from its own."""
    robot = load(name)
    tree = robot.mechanism
    rng = np.random.default_rng(5)
    chi = prior(robot)
    for j in range(tree.n_links):
        spread = rng.normal(size=(3, 3)) * 0.2
        chi[layout(robot).link(j)] = from_center_of_mass(3.0, rng.normal(size=3) * 0.1, np.eye(3) + spread @ spread.T)
    chi[layout(robot).n_link_params :] = 0.0
    model = pin.Model()
    model.gravity.linear = np.array(tree.gravity)
    for j in range(tree.n_links):
        assert np.array_equal(tree.after[j], np.eye(4))
        assert tree.parents[j] == j - 1
        place = pin.SE3(tree.before[j][:3, :3].copy(), tree.before[j][:3, 3].copy())
        model.addJoint(j, pin.JointModelRevoluteUnaligned(tree.axis[j].copy()), place, f"joint{j}")
        XX, XY, XZ, YY, YZ, ZZ, *first, mass = chi[10 * j : 10 * j + 10]
        lever = np.array(first) / mass
        S = pin.skew(lever)
        inertia = np.array([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]]) + mass * S @ S
        model.inertias[j + 1] = pin.Inertia(mass, lever, inertia)
    data = model.createData()
    motion = random_motion(robot, 20, seed=1)
    form = momentum_form(robot, motion)
    for k in range(20):
        q, v = motion.q[k] @ tree.coupling.T + tree.offset, motion.dq[k] @ tree.coupling.T
        M = pin.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        slope = pin.computeCoriolisMatrix(model, data, q, v).T @ v
        gravity = pin.computeGeneralizedGravity(model, data, q)
        np.testing.assert_allclose(form.A[k] @ chi, tree.coupling.T @ M @ v, atol=1e-11 * np.abs(M @ v).max())
        expected = tree.coupling.T @ (gravity - slope)
        np.testing.assert_allclose(form.B[k] @ chi, expected, atol=1e-11 * np.abs(expected).max())


def test_three_joint_arm_in_closed_form():
    """The 21 columns of the energy written out by hand, differentiated by sympy; parameters T β in declared order."""
    q1, q2, q3, v1, v2, v3 = symbols = sp.symbols("q1:4 v1:4")
    L2, g = sp.Rational(9, 20), sp.Float("9.81")
    s2, c2, s23, c23, s3, c3 = -sp.cos(q2), sp.sin(q2), -sp.cos(q2 + q3), sp.sin(q2 + q3), sp.sin(q3), sp.cos(q3)
    d23 = v2 + v3
    K = [
        v1**2 / 2, s2**2 * v1**2 / 2, s2 * c2 * v1**2, s2 * v1 * v2, c2 * v1 * v2, v2**2 / 2, s23**2 * v1**2 / 2,
        s23 * c23 * v1**2, s23 * v1 * d23, c23 * v1 * d23, d23**2 / 2, L2 * (c3 * v2 * d23 + c2 * c23 * v1**2),
        -L2 * (s3 * v2 * d23 + c2 * s23 * v1**2), 0, 0,
    ]  # fmt: skip
    U = [0] * 11 + [g * s23, g * c23, s2, c2]
    friction = [[v if i == j else 0 for j, v in enumerate((v1, v2, v3))] for i in range(3)]
    friction += [[sp.sign(v) if i == j else 0 for j, v in enumerate((v1, v2, v3))] for i in range(3)]
    momentum = [[sp.diff(k, v) for v in (v1, v2, v3)] for k in K] + [[0] * 3] * 6
    rest = [[sp.diff(u - k, q) for q in (q1, q2, q3)] for k, u in zip(K, U, strict=True)] + friction
    columns = sp.lambdify(symbols, [momentum, rest], "numpy")
    robot = load("rotradi")
    motion = random_motion(robot, 30, seed=2)
    base = base_parameters(robot)
    form = momentum_form(robot, motion, columns=base.kept)
    T = declared_transform(robot, base)
    for k in range(30):
        A, B = (np.array(x, dtype=float).T for x in columns(*motion.q[k], *motion.dq[k]))
        np.testing.assert_allclose(form.A[k], A @ T, atol=1e-12 * np.abs(A).max())
        np.testing.assert_allclose(form.B[k], B @ T, atol=1e-12 * np.abs(B).max())


@pytest.mark.parametrize("name", PARALLEL)
def test_closed_loops_differentiate_the_energy(name):
    """A is the energy's slope by dq, which is exact of a quadratic; B of links that of U - K by q, to order six."""
    robot = load(name)
    motion = random_motion(robot, 15, seed=4)
    form = momentum_form(robot, motion)
    frictionless = np.array(
        [k for k in range(len(layout(robot))) if k not in layout(robot).friction_columns], dtype=np.int64
    )

    def lagrangian(q, dq):
        rest = energy_regressor(robot, posture(q))
        return energy_regressor(robot, Motion(q, dq, np.zeros_like(q))) - 2.0 * rest

    h, size = 2e-4, np.abs(form.B[:, :, frictionless]).max()
    for i in range(robot.n_joints):
        aside = np.zeros(robot.n_joints)
        aside[i] = 1.0
        up, down = (energy_regressor(robot, Motion(motion.q, motion.dq + s * aside, motion.ddq)) for s in (1, -1))
        A = (0.5 * (up - down))[:, frictionless]
        np.testing.assert_allclose(form.A[:, i, frictionless], A, rtol=0.0, atol=1e-10 * np.abs(A).max())
        B = -sum(
            w * (lagrangian(motion.q + k * h * aside, motion.dq) - lagrangian(motion.q - k * h * aside, motion.dq))
            for k, w in ((1, 45.0), (2, -9.0), (3, 1.0))
        ) / (60.0 * h)  # fmt: skip
        B = B[:, frictionless]
        np.testing.assert_allclose(form.B[:, i, frictionless], B, rtol=0.0, atol=1e-6 * size)


@pytest.mark.parametrize("name", ["tx40", "delta"])
def test_momentum_is_linear_in_velocity_and_half_of_it_is_energy(name):
    robot = load(name)
    motion = random_motion(robot, 40, seed=6)
    form = momentum_form(robot, motion)
    kinetic = energy_regressor(robot, motion) - energy_regressor(robot, posture(motion.q))
    np.testing.assert_allclose(
        0.5 * np.einsum("sj,sjp->sp", motion.dq, form.A), kinetic, atol=1e-11 * np.abs(kinetic).max()
    )


def test_accelerations_are_not_used():
    robot = load("tx40")
    assert not has_load_friction(robot)
    motion = random_motion(robot, 1500, seed=7)  # more than one block
    other = momentum_form(robot, replace(motion, ddq=motion.ddq * 3.0 + 1.0))
    form = momentum_form(robot, motion)
    assert np.array_equal(form.A, other.A)
    assert np.array_equal(form.B, other.B)
    some = np.array([3, 70, 5])
    picked = momentum_form(robot, motion, columns=some)
    assert np.array_equal(picked.A, form.A[:, :, some])
    assert np.array_equal(picked.B, form.B[:, :, some])


def test_a_rotor_may_act_elsewhere_than_it_senses():
    robot = load("rotradi")
    rotor = RotorInertia("Ia", np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.0, 1.0]))
    drive = replace(robot.drive, rotors=(rotor,))
    n_links = layout(robot).n_link_params
    flags = np.insert(robot.known, n_links, True)
    chi = np.insert(robot.chi, n_links, 0.1)
    robot = replace(robot, drive=drive, chi=chi, known=flags, assumed_zero=np.zeros(len(chi), dtype=bool))
    motion = periodic_motion(3)
    form = momentum_form(robot, motion)
    np.testing.assert_allclose(rate(form.A) + form.B, regressor(robot, motion), atol=1e-9)
