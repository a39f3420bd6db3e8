"""Loads that a body could have: the bound holds, the optimum is that of a convex solver, nothing is lost inside."""

import numpy as np
import pytest

from excitor.identify.load.equations import LoadRun, equations, load_task, motor_torque
from excitor.identify.load.fit import identify_consistent_load, identify_load, nearest_body
from excitor.robots.dynamics import regressor
from excitor.robots.inertia import check_consistency, from_center_of_mass, pseudo_inertia
from excitor.robots.load import load
from excitor.robots.load_torques import carried_from_joints
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion

ROD = from_center_of_mass(30.0, np.array([0.05, 0.0, 0.1]), np.diag([0.4, 0.4, 1e-4]))
THICK = from_center_of_mass(120.0, np.array([0.09, -0.03, 0.14]), np.diag([30.0, 25.0, 20.0]))
NOISE = np.array([1.0, 1.0, 120.0, 60.0, 60.0, 50.0])


@pytest.fixture(scope="module")
def robot():
    return load("kr150")


def motion(n=160):
    t = np.linspace(0.0, 20.0, n, endpoint=False)[:, None]
    w = 2.0 * np.pi / 20.0 * np.array([0, 0, 13, 1, 2, 3])
    v = 2.0 * np.pi / 20.0 * np.array([0, 0, 5, 9, 10, 7])
    a, b = np.array([0, 0, 0.06, 1.3, 0.9, 1.5]), np.array([0, 0, 0.05, 0.4, 0.3, 0.5])
    q = np.array([0, 0, 1.5, 0, 0.2, 0]) + a * np.sin(w * t) + b * np.cos(v * t)
    return Motion(
        q, a * w * np.cos(w * t) - b * v * np.sin(v * t), -a * w**2 * np.sin(w * t) - b * v**2 * np.cos(v * t)
    )


def noisy_run(robot, phi, seed, noise=NOISE):
    """Lossless gears: losses are what other tests are about."""
    chi = robot.chi.copy()
    chi[layout(robot).link(5)] += phi
    tau = np.einsum("ai,nip,p->na", carried_from_joints(robot), regressor(robot, motion()), chi)
    return LoadRun("run", motion(), tau + noise * np.random.default_rng(seed).normal(size=tau.shape), noise)


def chi2(estimate, run, task):
    system = equations(task, [run])
    return float(np.sum(((system.tau - motor_torque(system, estimate.values)[0]) / system.sigma) ** 2))


def test_a_rod_in_noise_stays_a_body(robot):
    impossible = 0
    for seed in range(6):
        run = noisy_run(robot, ROD, seed)
        task = load_task(robot, [run])
        found = identify_consistent_load(task, [run]).load.consistency
        assert found.holds
        assert found.relative_margin > 0.0
        assert found.triangle_margin > -1e-9
        impossible += not identify_load(task, [run], max_iterations=300).load.consistency.holds
    assert impossible > 3  # or the bound had nothing to do


@pytest.mark.slow
def test_thin_loads_of_any_kind_stay_bodies(robot):
    """Rods and plates, light and heavy, anywhere; some are estimated as lighter than nothing without the bound."""
    rng = np.random.default_rng(80)
    for seed in range(80):
        axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        spread = axes @ np.diag(10.0 ** rng.uniform(-8, -1, size=3)) @ axes.T  # second moments per kg
        mass = 10.0 ** rng.uniform(-0.5, 2)
        inertia = mass * (np.trace(spread) * np.eye(3) - spread)
        run = noisy_run(robot, from_center_of_mass(mass, rng.normal(size=3) * 0.15, inertia), seed)
        found = identify_consistent_load(load_task(robot, [run]), [run]).load.consistency
        assert found.holds
        assert found.relative_margin > 0.0


def test_a_body_inside_is_the_free_answer(robot):
    run = noisy_run(robot, THICK, 0, NOISE / 10.0)
    task = load_task(robot, [run])
    free, bound = identify_load(task, [run]), identify_consistent_load(task, [run])
    np.testing.assert_allclose(bound.values, free.values, rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_optimum_is_that_of_a_convex_solver(robot, seed):
    """With the efficiencies given the problem is a small SDP, which another solver knows."""
    import cvxpy as cp

    run = noisy_run(robot, ROD, seed)
    task = load_task(robot, [run], efficiency=np.ones(6))
    estimate = identify_consistent_load(task, [run])
    system = equations(task, [run])
    F, J = motor_torque(system, np.zeros(len(system.unknowns)))
    A, b = J / system.sigma[:, None], (system.tau - F) / system.sigma
    R, z = np.linalg.qr(A)[1], np.linalg.qr(A)[0].T @ b
    x = cp.Variable(A.shape[1])
    basis = [pseudo_inertia(unit) for unit in np.eye(10)]
    P = sum(x[k] * basis[k] for k in range(10))
    problem = cp.Problem(cp.Minimize(cp.sum_squares(R @ x - z)), [P >> 0])
    problem.solve(solver="CLARABEL")
    best = float(problem.value + b @ b - z @ z)
    ours = chi2(estimate, run, task)
    assert best - 1e-5 * best <= ours <= best + 0.02  # less than 2 · 4 · the last barrier, 1e-3, and its own slack


def test_any_parameters_have_a_body_near():
    rng = np.random.default_rng(0)
    for phi in [*rng.normal(size=(50, 10)), np.zeros(10), -ROD]:
        assert check_consistency(nearest_body(phi)).relative_margin > 0.0
    lifted = nearest_body(THICK)
    np.testing.assert_allclose(lifted, THICK, rtol=1e-9, atol=1e-9)
