"""Closed-loop input error: truth without noise, less error than its start with it, honest when it fails."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.identify.closed_loop import differences, input_error, replay_runs, set_up_replay
from excitor.identify.regression import Rows
from excitor.identify.samples import Samples
from excitor.identify.signals import decimate, differentiate
from excitor.robots.base import base_parameters
from excitor.robots.load import load
from excitor.robots.robot import Motion
from excitor.robots.simulate import Servo, follow, servo_for

RATE, SECONDS = 200.0, 2.0
ROWS = Rows(decimate=lambda x: decimate(x, 4))


@pytest.fixture(scope="module")
def arm():
    """Three joints under their servo, and what a log of them holds: noisy encoders and torques."""
    robot, rng = load("rotradi"), np.random.default_rng(3)
    t = np.arange(int(SECONDS * RATE))[:, None] / RATE
    w = 2.0 * np.pi * np.array([0.5, 0.75, 1.0])
    q = np.array([0.8, 0.7, 0.9]) * np.sin(w * t) + np.array([0.4, 0.3, 0.5]) * np.sin(1.7 * w[::-1] * t)
    dq = np.gradient(q, 1.0 / RATE, axis=0)
    reference = Motion(q, dq, np.gradient(dq, 1.0 / RATE, axis=0))
    tuned = servo_for(robot, reference, bandwidth_hz=4.0, rate_hz=RATE)
    servo = Servo(tuned.kp, tuned.kd, RATE)
    seen = rng.normal(scale=1e-5, size=q.shape)
    done = follow(robot, reference, servo, position_noise=seen)
    positions = done.motion.q + seen
    dq = differentiate(positions, sample_rate_hz=RATE)
    motion = Motion(positions, dq, differentiate(dq, sample_rate_hz=RATE))
    tau = done.tau + rng.normal(size=q.shape) * [0.5, 1.5, 0.15]
    truth = base_parameters(robot).values(robot.chi)
    clean = follow(robot, reference, servo)
    return (
        robot,
        Samples("noisy", motion, tau, RATE),
        Samples("clean", clean.motion, clean.tau, RATE),
        reference,
        servo,
        truth,
    )


def test_the_truth_is_found_without_noise(arm):
    robot, _, run, reference, servo, truth = arm
    start = base_parameters(robot).standard(truth * np.random.default_rng(0).uniform(0.8, 1.25, truth.size))
    found = input_error(
        set_up_replay(robot, [run], servo, references={"clean": reference}, rows=ROWS),
        start=start,
        sensitivity="regressor",
    )
    assert found.converged, found.sentence
    assert found.method == found.estimate.method == "input-error"
    assert found.history[0].residual > 20.0 * found.history[-1].residual
    assert np.median(np.abs(found.estimate.values / truth - 1.0)) < 1e-3


def test_a_start_at_the_truth_leaves_nothing_to_do(arm):
    """Two runs without noise, fitted exactly: groups of both, and nothing is divided by what is left."""
    robot, _, run, reference, servo, _ = arm
    runs, told = [run, replace(run, run="again")], {"clean": reference, "again": reference}
    found = input_error(
        set_up_replay(robot, runs, servo, references=told, rows=ROWS), start=robot.chi, sensitivity="regressor"
    )
    assert found.converged, found.sentence
    np.testing.assert_allclose(found.chi, robot.chi, rtol=1e-9)
    assert [step.residual for step in found.history] == [0.0]
    assert set(found.estimate.group_sigma) == {(j, r) for j in range(3) for r in range(2)}


@pytest.mark.slow
def test_noise_leaves_what_the_covariance_says(arm):
    robot, run, _, reference, servo, truth = arm
    found = input_error(set_up_replay(robot, [run], servo, references={"noisy": reference}, rows=ROWS))
    assert found.converged, found.sentence
    score = (found.estimate.values - truth) / found.estimate.sigma
    assert np.sqrt(np.mean(score**2)) < 2.0
    assert np.median(np.abs(found.estimate.values / truth - 1.0)) < 0.15
    assert "converged in" in found.sentence


def test_sensitivities_are_those_of_the_torques(arm):
    """The Jacobian that the search uses against central differences of the simulation, for a strong parameter."""
    from excitor.identify.closed_loop import _simulated_sensitivities

    robot, _, run, reference, servo, truth = arm
    columns = base_parameters(robot).kept[[0, 5, -2]]
    replay = set_up_replay(robot, [run], servo, references={"clean": reference}, rows=ROWS, columns=columns)
    chi = base_parameters(robot).standard(truth)
    equations = replay_runs(replay, chi, servo)
    J = _simulated_sensitivities(replay, chi, equations.W, equations.y)
    for c, column in enumerate(columns):
        step = np.zeros(len(chi))
        step[column] = 1e-4
        central = (differences(replay, chi - step, servo) - differences(replay, chi + step, servo)) / 2e-4
        assert np.linalg.norm(J[:, c] - central) < 0.03 * np.linalg.norm(central)


def test_a_servo_that_cannot_hold_the_robot_is_reported(arm):
    robot, run, _, reference, servo, _ = arm
    wild = replace(servo, kp=1e4 * servo.kp, kd=1e4 * servo.kd)
    found = input_error(set_up_replay(robot, [run], wild, references={"noisy": reference}, rows=ROWS))
    assert not found.converged
    assert found.status == "out of control"
    assert found.estimate is None
    assert "did not converge: from its start" in found.sentence


def test_too_few_steps_are_no_convergence(arm):
    robot, _, run, reference, servo, truth = arm
    start = base_parameters(robot).standard(0.8 * truth)
    found = input_error(
        set_up_replay(robot, [run], servo, references={"clean": reference}, rows=ROWS),
        start=start,
        sensitivity="regressor",
        max_iterations=1,
    )
    assert found.status == "iterations"
    assert "did not converge" in found.sentence
