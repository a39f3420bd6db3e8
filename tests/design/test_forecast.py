"""Forecasts: what is predicted before the robot moves is what identification then finds."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from benchmarks.design import N_PERIODS, RATE, campaign_factors, equations, observed_sigma, plan, random_series
from benchmarks.design import measure_forecast as measure
from excitor.design.forecast import PlannedRun, forecast, forecast_data, periods_needed, reversals
from excitor.identify.estimate import compress, wls
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.inertia import pseudo_inertia
from excitor.robots.information import Noise, information, knowledge, sigmas
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Payload, posture


@pytest.fixture(scope="module")
def planned():
    return plan("tx40", 0)


@pytest.fixture(scope="module")
def noise(planned):
    return Noise(planned.sigma, RATE, inflation=2.0)


@pytest.fixture(scope="module")
def told(planned, noise):
    return forecast(planned.robot, [planned.planned], noise, task=random_series(planned.robot, 7, 200))


def only(motion, moving):
    """Let other joints stand."""
    arrays = [np.array(x) for x in (motion.q, motion.dq, motion.ddq)]
    for i in set(range(motion.q.shape[1])) - set(moving):
        for x, value in zip(arrays, (0.3, 0.0, 0.0), strict=True):
            x[:, i] = value
    return Motion(*arrays)


def test_identification_scatters_by_what_was_predicted(planned):
    """Of 40 campaigns, (n - 1) s² / σ² is χ² with 39 degrees: at 1e-4 a side, none of 60 should be outside."""
    n = 40
    expected = forecast(planned.robot, [planned.planned], Noise(planned.sigma, RATE))
    ratio = observed_sigma(planned, memory=0.0, n_campaigns=n) / [p.sigma for p in expected.parameters]
    low, high = np.sqrt(scipy.stats.chi2.ppf([1e-4, 1.0 - 1e-4], n - 1) / (n - 1))
    assert (ratio > low).all()
    assert (ratio < high).all()
    assert np.sqrt(np.mean(ratio**2)) == pytest.approx(1.0, abs=0.1)


def test_campaigns_factored_together_are_those_factored_one_by_one(planned):
    torques = planned.tau + np.random.default_rng(0).normal(size=(2, *planned.tau.shape)) * planned.sigma
    for tau, factors in zip(torques, campaign_factors(planned, torques), strict=True):
        alone = wls(compress(equations(planned.robot, planned.sampled, tau)))
        together = wls(factors)
        np.testing.assert_allclose(together.values, alone.values, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(together.sigma, alone.sigma, rtol=1e-8)


@pytest.mark.slow
def test_the_bench_holds():
    figures = {figure.name: figure for figure in measure()["figures"]}
    assert all(figure.holds in (True, None) for figure in figures.values())
    assert len(figures) == 5


def test_figures_are_consistent(told):
    for p in told.parameters:
        assert p.sigma_inflated == pytest.approx(2.0 * p.sigma)
        assert p.relative == pytest.approx(p.sigma / abs(p.value)) if p.value else p.relative == np.inf
    for s in told.standard:
        assert s.sigma <= s.sigma_inflated * (1.0 + 1e-9) <= s.sigma_prior * (1.0 + 1e-6)
    assert told.go == all(check.holds for check in told.checks)
    assert told.duration == pytest.approx(40.0)


def test_four_times_the_periods_halve_sigma_and_periods_for_a_target_do_what_they_say(planned, noise, told):
    longer = replace(planned.planned, n_periods=4 * N_PERIODS)
    more = forecast(planned.robot, [longer], noise)
    np.testing.assert_allclose([p.sigma * 2.0 for p in more.parameters], [p.sigma for p in told.parameters], rtol=1e-7)
    index = next(k for k, p in enumerate(told.parameters) if N_PERIODS < p.periods < 50)
    wanted = int(told.parameters[index].periods)
    for count, enough in ((wanted, True), (wanted - 1, False)):
        again = forecast(planned.robot, [replace(planned.planned, n_periods=count)], noise)
        assert (again.parameters[index].relative_inflated <= told.target) == enough


def test_periods_needed_follow_the_square_of_sigma(planned, noise):
    once = information(planned.robot, planned.planned.motion, noise, duration=10.0)
    sigma = sigmas(knowledge(once), inflated=True)
    np.testing.assert_allclose(periods_needed(once, sigma / 2.0), 4.0, rtol=1e-9)
    assert np.isinf(periods_needed(once, 0.0 * sigma)).all()


def test_task_error_is_the_scatter_of_predicted_torques(planned, noise, told):
    """Monte Carlo of parameters drawn from the forecast's covariance; rms over 2000 draws is known to 2 %."""
    robot = planned.robot
    task = random_series(robot, 7, 200)
    known = knowledge(information(robot, planned.planned.motion, noise, duration=10.0, repeats=N_PERIODS))
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(60), known.covariance, size=2000, method="cholesky")
    errors = regressor(robot, task)[:, :, base_parameters(robot).kept] @ draws.T
    rms = np.sqrt(np.mean(errors**2, axis=(0, 2)))
    np.testing.assert_allclose([t.task_error for t in told.torques], rms, rtol=0.05)
    np.testing.assert_allclose([t.task_error_inflated for t in told.torques], 2.0 * rms, rtol=0.05)


def test_expected_torque_errors_obey_the_count_of_parameters(planned):
    """Over the run itself, Σ_rows var(W β) / σ² is the number of parameters."""
    expected = forecast(planned.robot, [planned.planned], Noise(planned.sigma, RATE))
    rows = 10.0 * RATE * N_PERIODS
    total = sum(rows * (t.error / s) ** 2 for t, s in zip(expected.torques, planned.sigma, strict=True))
    assert total == pytest.approx(60.0, rel=1e-6)


def test_units_of_torque_do_not_matter(planned):
    """Twice the noise on everything doubles every σ and changes no condition."""
    a, b = (forecast(planned.robot, [planned.planned], Noise(k * planned.sigma, RATE)) for k in (1.0, 2.0))
    np.testing.assert_allclose([p.sigma * 2.0 for p in a.parameters], [p.sigma for p in b.parameters], rtol=1e-8)
    assert a.condition == b.condition
    assert a.condition_weighted == pytest.approx(b.condition_weighted)


def test_a_joint_that_stands_is_named_with_what_it_takes(planned, noise):
    run = replace(planned.planned, motion=only(planned.planned.motion, (2, 3, 4, 5)))
    told = forecast(planned.robot, [run], noise)
    sentences = [advice.sentence for advice in told.advice]
    assert "Fv1, Fc1 and off1 need joint j1 to move back and forth, which it does in no run" in sentences
    assert any("j1 and j2 move together with the others" in text for text in sentences)
    assert any(text.endswith("no motion of this robot shows them") and "MZ2" in text for text in sentences)
    advised = {name for advice in told.advice for name in advice.names}
    assert set(told.unidentifiable) <= advised
    essential = next(check for check in told.checks if check.name == "essential parameters")
    assert essential.holds, "what joints that move cannot show is a choice, no failure of the motion"
    fv1 = next(p for p in told.parameters if p.name == "Fv1")
    assert fv1.sigma == fv1.periods == np.inf
    locked = replace(planned.robot, locked={0: 0.3, 1: 0.3})
    assert forecast(locked, [run], noise).unidentifiable == ()


def test_a_task_that_needs_what_stays_open_is_infinitely_uncertain(planned, noise):
    run = replace(planned.planned, motion=only(planned.planned.motion, (5,)))
    told = forecast(planned.robot, [run], noise, task=planned.planned.motion)
    assert all(t.task_error == np.inf for t in told.torques)
    assert json.loads(json.dumps(forecast_data(told), allow_nan=False))["torques"][0]["task_error"] is None


def test_no_reversal_is_no_go(planned, noise):
    motion = planned.planned.motion
    dq = np.array(motion.dq)
    dq[:, 2] = np.abs(dq[:, 2]) + 0.05
    told = forecast(planned.robot, [replace(planned.planned, motion=Motion(motion.q, dq, motion.ddq))], noise)
    assert not told.go
    assert "j3 would reverse less than 2 times" in next(c.sentence for c in told.checks if c.name == "reversals")
    assert told.advice[0].sentence.startswith("Fc3 and off3 need joint j3 to reverse")
    assert told.open_combinations in (("Fc3 - off3",), ("off3 - Fc3",))


def test_little_time_is_no_go_for_a_reason(planned):
    told = forecast(planned.robot, [planned.planned], Noise(100.0 * planned.sigma, RATE))
    assert not told.go
    failed = {check.name: check.sentence for check in told.checks if not check.holds}
    assert "exceeds 5% of the rms torque" in failed["torque error"]


def test_poses_alone_ask_for_motion(planned, noise):
    poses = PlannedRun("poses", posture(planned.planned.motion.q[::10]), 64.0, 1)
    told = forecast(planned.robot, [poses], noise)
    assert "Fv1 and Fc1 need joint j1 to move back and forth, which it does in no run" in [
        advice.sentence for advice in told.advice
    ]
    both = forecast(planned.robot, [poses, planned.planned], noise)
    alone = forecast(planned.robot, [planned.planned], noise)
    assert both.unidentifiable == ()
    pairs = zip(both.parameters, alone.parameters, strict=True)
    assert all(a.sigma <= b.sigma * (1.0 + 1e-9) for a, b in pairs)


def test_a_payload_asks_for_a_pair_of_runs(planned, noise):
    phi = np.array([0.01, 0.0, 0.0, 0.01, 0.0, 0.01, 0.0, 0.0, 0.05, 1.0])
    loaded = replace(planned.robot, payload=Payload(5, phi))
    sentences = [advice.sentence for advice in forecast(loaded, [planned.planned], noise).advice]
    assert any("a pair of runs, with it and without" in text for text in sentences)


def test_labels_follow_what_torques_show(planned, told):
    """What no torque shows stays the prior's, with its width; rotors and friction of moving joints become data's."""
    labels = {s.name: s for s in told.standard}
    assert {labels[name].label for name in ("M1", "MZ2", "XX1")} == {"prior-dominated"}
    assert {labels[name].label for name in ("Fv1", "Fc3", "Ia5", "off2")} == {"data-determined"}
    j = layout(planned.robot).link(4)
    assert labels["M5"].sigma_prior == pytest.approx(abs(prior(planned.robot)[j][9]), rel=1e-6)
    assert labels["M5"].share == pytest.approx(0.0, abs=1e-4)


def test_belief_is_the_metric_of_the_entropic_prior(planned):
    """The covariance of the belief is the inverse Hessian of tr X - log det X, here by differences."""
    from excitor.robots.belief import Prior, coordinates

    robot, h = planned.robot, 1e-4
    believed = coordinates(robot, Prior(), np.zeros(len(layout(robot))), level=None)
    B = np.zeros((len(layout(robot)), len(believed.columns)))
    B[believed.columns] = believed.B
    j = layout(robot).link(3)
    phi = prior(robot)[j]
    C = (B @ B.T)[j, j]
    half = np.linalg.cholesky(C)

    def cost(v):
        X = np.linalg.solve(pseudo_inertia(phi), pseudo_inertia(phi + half @ v))
        return np.trace(X) - np.linalg.slogdet(X)[1]

    unit = np.eye(10) * h
    hessian = [[(cost(a + b) - cost(a - b) - cost(b - a) + cost(-a - b)) / (4 * h * h) for b in unit] for a in unit]
    np.testing.assert_allclose(hessian, np.eye(10), atol=1e-4)


def test_reversals_close_the_period():
    t = np.linspace(0.0, 2.0 * np.pi, 100, endpoint=False)
    dq = np.column_stack([np.sin(t), np.sin(3.0 * t + 1.0), np.ones_like(t), np.zeros_like(t)])
    assert reversals(Motion(dq, dq, dq)).tolist() == [2.0, 6.0, 0.0, 0.0]


def test_forecast_is_a_pure_function(planned, noise, told):
    again = forecast(planned.robot, [planned.planned], noise, task=random_series(planned.robot, 7, 200))
    assert json.dumps(forecast_data(again)) == json.dumps(forecast_data(told))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"period": 0.0}, "period is 0"), ({"n_periods": 0}, "n_periods is 0"), ({"n_periods": 1.5}, "whole number")],
)
def test_bad_runs_are_refused(planned, change, message):
    with pytest.raises(ValueError, match=message):
        replace(planned.planned, **change)


def test_bad_questions_are_refused(planned, noise):
    with pytest.raises(ValueError, match="no run is planned"):
        forecast(planned.robot, [], noise)
    two = Motion(*np.zeros((3, 5, 2)))
    with pytest.raises(ValueError, match="task has shape"):
        forecast(planned.robot, [planned.planned], noise, task=two)
    with pytest.raises(ValueError, match="noise is of 6 joints and the motion of 2"):
        forecast(planned.robot, [PlannedRun("short", two, 1.0, 1)], noise)
