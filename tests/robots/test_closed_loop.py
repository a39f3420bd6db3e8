"""The compiled closed loop against the open simulation, against itself, and against closed forms."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from excitor.experiments.virtual.robot import QUIET, draw_truth, plant_of
from excitor.robots.closed_chain import inverse_geometry
from excitor.robots.dynamics import inverse_dynamics, mass_matrix, rotor_matrix
from excitor.robots.kernel.steps import ACCELERATION, LINK_TORQUE, MOTOR_TORQUE, POSITION, VELOCITY, Controller
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import posture
from excitor.robots.simulate import Steps, run_controlled, simulate, with_friction_width

STEP = 0.002


def blind(n, substeps=1, **changes):
    """A controller that sees nothing: what is fed forward is what motors give."""
    nothing = np.zeros(n)
    controller = Controller(
        kp=nothing, kd=nothing, limit=np.full(n, np.inf), quantum=nothing, lag=0.0, forget=0.0, step=STEP,
        substeps=substeps,
    )  # fmt: skip
    return controller._replace(**changes)


def run(plant, controller, q, forward):
    return run_controlled(plant, controller, posture(np.tile(q, (len(forward), 1))), forward)


@pytest.fixture(scope="module")
def arm():
    """Three joints with friction as wide as explicit integration can follow."""
    robot = with_friction_width(load("rotradi"), 0.3)
    return robot, draw_truth(robot, 1, QUIET)


def torques(n_steps):
    t = STEP * np.arange(n_steps)[:, None]
    return np.array([6.0, 30.0, 2.0]) * np.sin(np.array([3.0, 5.0, 7.0]) * t)


@pytest.mark.parametrize("name", ["five-bar-vertical", "3-rrr"])
def test_a_closed_chain_falls_as_its_open_simulation_says(name):
    """The plant leads its loops on from step to step; the simulation assembles every state anew from home."""
    robot = with_friction_width(load(name), 0.3)
    truth = draw_truth(robot, 1, QUIET)
    n = robot.n_joints
    q = inverse_geometry(robot.mechanism, robot.mechanism.home[None, robot.mechanism.platform] + 0.02)[0]
    forward = 1.5 * np.sin(np.arange(1, n + 1) * 10.0 * STEP * np.arange(60)[:, None])
    start, steps = posture(q[None]), Steps(STEP, 60, substeps=8, held=True)
    simulated = simulate(truth.robot, forward.T[None], start=start, steps=steps, chi=truth.chi)
    errors = []
    for substeps in (4, 16):
        done, out = run(plant_of(truth, robot), blind(n, substeps), q, forward)
        assert done == 60
        errors.append(np.abs(out[POSITION] - simulated.q[0].T).max() / np.abs(simulated.q[0].T - q).max())
    assert np.abs(simulated.dq).max() > 0.3
    assert errors[0] < 1e-3
    assert errors[1] < 0.15 * errors[0]  # of second order: a sixteenth


@pytest.mark.parametrize("name", ["rotradi", "five-bar-vertical"])
def test_compiled_steps_free_all_arrays_that_they_make(name):
    """Most of their functions are compiled without counting who uses an array: those that make arrays must count."""
    robot = with_friction_width(load(name), 0.3)
    truth, n = draw_truth(robot, 1, QUIET), robot.n_joints
    q = np.zeros(n) if name == "rotradi" else robot.mechanism.home[robot.mechanism.platform]
    plant, sensing = plant_of(truth, robot), blind(n, 2, kp=np.full(n, 5.0), quantum=np.full(n, 1e-4))
    if name != "rotradi":
        q = inverse_geometry(robot.mechanism, q[None] + 0.02)[0]
    steps = Steps(STEP, 20, substeps=2, held=True)
    _nrt_python.memsys_enable_stats()
    kept = []
    try:
        for _ in range(3):
            run(plant, sensing, q, np.zeros((20, n)))
            simulate(truth.robot, np.zeros((1, n, 20)), start=posture(q[None]), steps=steps, chi=truth.chi)
            gc.collect()
            counted = rtsys.get_allocation_stats()
            kept.append(counted.alloc - counted.free)
    finally:
        _nrt_python.memsys_disable_stats()
    assert counted.alloc > 100
    assert kept[1] == kept[2]


def test_without_feedback_it_is_the_open_simulation(arm):
    robot, truth = arm
    q = np.array([0.3, 0.8, -0.5])
    forward = torques(500)
    expected = simulate(truth.robot, forward.T[None], start=posture(q[None]), steps=Steps(STEP, 500, 10), chi=truth.chi)
    errors = []
    for substeps in (1, 2, 4):
        done, out = run(plant_of(truth, robot), blind(3, substeps), q, forward)
        assert done == 500
        errors.append(np.abs(out[POSITION] - expected.q[0].T).max())
    assert np.abs(out[ACCELERATION] - expected.ddq[0].T).max() < 0.02 * np.abs(expected.ddq).max()
    assert errors[0] < 1e-3
    assert errors[0] / errors[1] > 3.0  # of second order
    assert errors[1] / errors[2] > 3.0


def test_stiff_friction_holds_a_joint_without_chatter():
    """Friction twice as strong as the push, its width far below what a step changes: nothing moves or trembles."""
    robot = load("rotradi")
    truth = draw_truth(robot, 1, QUIET)
    plant = plant_of(truth, robot)
    q = np.array([0.1, 0.0, 0.0])
    push = np.zeros((400, 3))
    push[50:, 0] = 0.5 * plant.friction[1]
    _, out = run(plant, blind(3), q, push)
    assert np.abs(out[VELOCITY, 300:, 0]).max() < 2.0 * plant.elements.width[1]
    assert np.abs(np.diff(out[VELOCITY, 100:, 0])).max() < 1e-6


def test_motors_give_no_more_than_they_can(arm):
    robot, truth = arm
    limit = np.array([3.0, 10.0, 1.0])
    _, out = run(plant_of(truth, robot), blind(3, limit=limit), np.array([0.3, 0.8, -0.5]), torques(500))
    size = np.abs(out[MOTOR_TORQUE]).max(axis=0)
    assert size == pytest.approx(limit)


def test_the_current_loop_lags(arm):
    robot, truth = arm
    forward = np.zeros((100, 3))
    forward[10:, 0] = 1.0
    _, out = run(plant_of(truth, robot), blind(3, lag=0.01), np.zeros(3), forward)
    t = STEP * np.arange(90)
    assert out[MOTOR_TORQUE, 10:, 0] == pytest.approx(1.0 - np.exp(-t / 0.01), abs=1e-12)


def test_links_behind_closed_brakes_swing_in_their_modes():
    """Poles of M ddq + D dq + K q = 0 about the pose where gravity is borne, found in the torque of a spring."""
    robot = load("ur10")
    truth = draw_truth(robot, 1, replace(QUIET, resonance_hz=9.0, stuck=tuple(range(6))))
    plant = plant_of(truth, robot)
    q = np.array([0.0, -1.0, 1.0, 0.0, 0.5, 0.0])
    chi = truth.chi[: len(robot.chi)]
    still = inverse_dynamics(robot, posture(q[None]), friction_free(robot, chi))[0]
    forward = np.tile(still, (2000, 1))
    forward[0, 0] += 0.5  # the springs begin under this torque, and find it gone
    _, out = run(plant, blind(6, 8), q, forward)
    assert np.ptp(out[POSITION], axis=0).max() == 0.0
    swing = out[LINK_TORQUE, :, 0] - out[LINK_TORQUE, -1, 0]
    M = mass_matrix(robot, q[None], chi)[0] - rotor_matrix(robot, chi)
    sunk = q - still / truth.stiffness
    around = posture(np.concatenate([sunk + 1e-5 * np.eye(6), sunk - 1e-5 * np.eye(6)]))
    weights = inverse_dynamics(robot, around, friction_free(robot, chi))
    K = np.diag(truth.stiffness) + (weights[:6] - weights[6:]).T / 2e-5
    system = np.block(
        [[np.zeros((6, 6)), np.eye(6)], [-np.linalg.solve(M, K), -np.linalg.solve(M, np.diag(truth.damping))]]
    )
    shapes = np.exp(np.outer(STEP * np.arange(2000), np.linalg.eigvals(system)))
    fit = shapes @ np.linalg.lstsq(shapes, swing.astype(complex), rcond=None)[0]
    assert np.linalg.norm(fit.real - swing) < 0.02 * np.linalg.norm(swing)


def friction_free(robot, chi):
    """Keep links and rotors."""
    return np.where(np.arange(len(chi)) < layout(robot).n_link_params, chi, 0.0)


def test_a_robot_out_of_control_is_stopped(arm):
    robot, truth = arm
    wild = blind(3, kp=np.full(3, -1e9))
    done, _ = run(plant_of(truth, robot), wild, np.zeros(3), torques(500))
    assert done < 500
