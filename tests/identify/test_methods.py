"""Every estimator through one interface: agreement with plain algebra, valid intervals, reports of bad data."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.identify import methods
from excitor.identify.estimate import compress, ridge, wls
from excitor.identify.methods import METHODS, Problem, Weighting, answer, prior_scale, prior_values
from excitor.identify.noise import levinson, maximum_likelihood
from excitor.identify.regression import Regression, Rows, dynamic_regression, pick_rows
from excitor.identify.samples import Samples
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion
from excitor.robots.simulate import follow, servo_for, smoothed

NOISE = np.array([0.5, 1.0, 0.2])
LOOPS = ("iv", "didim", "input-error")
LINEAR = ("ols", "wls", "irls", "ridge", "rls", "ml", "filtered dynamic", "power", "filtered power", "energy")


@pytest.fixture(scope="module")
def robot():
    return smoothed(load("rotradi"))


@pytest.fixture(scope="module")
def problem(robot):
    """Three joints under a servo along smooth moves, torques measured with noise; motion known exactly."""
    rate, n = 250.0, 1000
    t = np.arange(n) / rate
    q, dq, ddq = (np.zeros((n, 3)) for _ in range(3))
    for j, size in enumerate((0.8, 0.6, 0.9)):
        for k, f in enumerate((0.5 + 0.1 * j, 1.0, 1.6 + 0.2 * j)):
            w, a = 2 * np.pi * f, size / (k + 1)
            q[:, j] += a * (1 - np.cos(w * t))
            dq[:, j] += a * w * np.sin(w * t)
            ddq[:, j] += a * w**2 * np.cos(w * t)
    reference = Motion(q, dq, ddq)
    servo = servo_for(robot, reference, bandwidth_hz=5.0, rate_hz=rate)
    done = follow(robot, reference, servo)
    tau = done.tau + NOISE * np.random.default_rng(0).normal(size=done.tau.shape)
    run = Samples("run", done.motion, tau, rate)
    rows = Rows(dead_zone=np.full(3, 0.05))
    return Problem(robot, [run], rows, dynamic_regression(robot, [run], rows=rows), servo, {"run": reference})


@pytest.fixture(scope="module")
def answers(problem):
    return {name: answer(name, problem) for name in METHODS if name != "input-error"}


@pytest.mark.slow
def test_all_answer_in_the_same_parameters(problem, answers):
    for name, told in answers.items():
        if told.estimate is None:
            assert (name, bool(told.refused)) == ("tls", True)
            continue
        assert told.method == name
        assert told.estimate.names == problem.regression.names
        assert told.intervals is not None
        assert told.intervals.names == told.estimate.names
        np.testing.assert_array_equal(told.intervals.values, told.estimate.values)
        assert np.all(told.intervals.low < told.intervals.high)
        assert told.cpu_s > 0.0
        assert all(note[-1] not in " ," for note in told.notes)


@pytest.mark.slow
def test_input_error_agrees_with_didim(problem, answers):
    """Both fit the same torques; on exact references their estimates are one another's."""
    found = answer("input-error", problem)
    assert found.refused == ""
    sigma = answers["didim"].estimate.sigma
    assert np.max(np.abs(found.estimate.values - answers["didim"].estimate.values) / sigma) < 1.0
    np.testing.assert_allclose(found.intervals.sigma, answers["didim"].intervals.sigma, rtol=0.3)


@pytest.mark.parametrize("name", [*LINEAR, "iv", "didim"])
def test_intervals_hold_the_truth(name, problem, answers):
    truth = base_parameters(problem.robot).values(prior(problem.robot))
    told = answers[name].intervals
    inside = np.mean((told.low <= truth) & (truth <= told.high))
    # 21 parameters, one draw; motion between samples is not quite straight for what integrates it
    assert inside >= (0.6 if name in ("energy", "power", "filtered power", "filtered dynamic") else 0.8), inside


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["filtered dynamic", "filtered power"])
def test_filters_are_those_whose_model_simulates_best(problem, kind, monkeypatch):
    """Of the cut-offs tried none simulates better; where nothing can be simulated, the motion's band decides."""
    tried = {}
    ask = methods.simulated_error

    def judged(*given):
        error = tried[given[2].cutoff] = ask(*given)
        return error

    monkeypatch.setattr(methods, "simulated_error", judged)
    scheme, note = methods.choose_scheme(kind, problem, problem.runs)
    assert scheme.cutoff == min(tried, key=tried.get)
    assert len(tried) >= 3
    assert len({round(error, 9) for error in tried.values()}) == len(tried)
    assert f"{scheme.cutoff / 2 / np.pi:.2g} Hz" in note
    assert "simulates the beginning of 'run' best" in note
    assert answer(kind, problem).evidence["cutoff_hz"] == pytest.approx(scheme.cutoff / 2 / np.pi)
    monkeypatch.setattr(methods, "simulated_error", lambda *_: float("inf"))
    scheme, note = methods.choose_scheme(kind, problem, problem.runs)
    assert scheme.cutoff == pytest.approx(2 * np.pi * methods.velocity_band(problem.runs))
    assert "no model could be simulated" in note


def test_the_power_model_leaves_parameters_out_and_weights_runs(problem):
    weighting = Weighting("joint and run", essential_ratio=5.0)
    told = answer("power", replace(problem, weighting=weighting))
    assert told.refused == ""
    assert 0 < len(told.estimate.names) < len(problem.regression.names)
    assert told.intervals.names == told.estimate.names
    assert told.estimate.settings["weights by"] == "joint and run"
    spread = told.estimate.sigma / np.abs(told.estimate.values)
    assert spread.max() / spread.min() < 5.0


def test_titles_are_sentences():
    for method in METHODS.values():
        assert method.title.startswith("Assumes ")
        assert method.title.endswith(".")


def test_wls_and_rls_agree(answers):
    assert answers["rls"].evidence["from_wls_sigma"] < 1e-3
    sigma = answers["wls"].intervals.sigma
    np.testing.assert_allclose(answers["rls"].intervals.sigma, sigma, rtol=1e-3)


def test_ridge_is_the_ridge_it_says(problem, answers):
    believed, known = prior_values(problem)
    assert known
    np.testing.assert_allclose(believed, base_parameters(problem.robot).values(prior(problem.robot)))
    told = answers["ridge"]
    scale = prior_scale(problem.regression, believed)
    expected = ridge(compress(problem.regression), weight=told.evidence["weight"], prior=believed, scale=scale)
    np.testing.assert_array_equal(told.estimate.values, expected.values)


def test_ridge_believes_prior_and_data_together(problem, answers):
    """σ² = diag (WᵀΣ⁻¹W + weight S⁻²)⁻¹ where residuals are white and the prior is right."""
    told = answers["ridge"]
    scale = prior_scale(problem.regression, prior_values(problem)[0])
    sigma = np.array([told.estimate.group_sigma[int(j), 0] for j in problem.regression.joint])
    W = problem.regression.W / sigma[:, None]
    posterior = np.linalg.inv(W.T @ W + told.evidence["weight"] * np.diag(scale**-2.0))
    ratio = told.intervals.sigma / np.sqrt(np.diag(posterior))
    assert 0.8 < np.median(ratio) < 1.3
    assert ratio.max() < 2.0


def test_a_wrong_prior_is_hardly_trusted(problem, answers):
    wrong = replace(problem.robot, chi=problem.robot.chi * 5.0)
    told = answer("ridge", replace(problem, robot=wrong))
    assert told.evidence["weight"] < 1e-2 * answers["ridge"].evidence["weight"]


def linear_toy(seed, *, colour=0.0, shared=0.0, column_noise=0.0, n=400):
    """Two joints, three slow columns of the robot's own names; errors coloured in time and shared between joints."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / n
    W = np.concatenate(
        [np.column_stack([np.sin(2 * np.pi * (2 + 3 * k + j) * t + k) for k in range(3)]) for j in range(2)]
    )
    innovations = np.linalg.cholesky([[1.0, shared], [shared, 1.0]]) @ rng.normal(size=(2, n))
    error = np.zeros((2, n))
    error[:, 0] = innovations[:, 0] / np.sqrt(1 - colour**2)
    for k in range(1, n):
        error[:, k] = colour * error[:, k - 1] + innovations[:, k]
    truth = np.array([2.0, -1.0, 0.5])
    y = W @ truth + 0.3 * error.ravel()
    W = W + column_noise * rng.normal(size=W.shape)
    labels = np.repeat([0, 1], n)
    run, sample = np.zeros(2 * n, dtype=int), np.tile(np.arange(n), 2)
    names = ("ZZ1", "Fv1", "Fv2")
    return Regression("dynamic", names, ("",) * 3, ("j1", "j2"), ("run",), W, y, labels, run, sample, None), truth


def whitening(colour, shared, n):
    """Dense inverse covariance of the toy's errors, by definition."""
    T = colour ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / (1 - colour**2)
    return np.linalg.inv(np.kron([[1.0, shared], [shared, 1.0]], T))


def test_likelihood_is_generalised_least_squares():
    """With the true covariance, dense: the estimate differs by the little that colour is misjudged."""
    n, colour, shared = 400, 0.7, 0.6
    regression, _ = linear_toy(0, colour=colour, shared=shared, n=n)
    P = whitening(colour, shared, n)
    exact = np.linalg.solve(regression.W.T @ P @ regression.W, regression.W.T @ P @ regression.y)
    sigma = 0.3 * np.sqrt(np.diag(np.linalg.inv(regression.W.T @ P @ regression.W)))
    start = wls(compress(regression))
    fit = maximum_likelihood(regression, start=start)
    assert fit.converged
    assert fit.orders == (1, 1)
    assert np.all(np.abs(fit.estimate.values - exact) < 0.35 * sigma)
    assert np.any(np.abs(start.values - exact) > 0.5 * sigma)
    np.testing.assert_allclose(fit.estimate.sigma, sigma, rtol=0.15)


def test_gaps_are_not_bridged():
    """Rows left out: the exact covariance of what is left, against predictors that begin afresh."""
    n, colour, shared = 400, 0.8, 0.5
    kept = np.ones(2 * n, dtype=bool)
    for first in range(20, n, 40):
        kept[first : first + 6] = False
        kept[n + first + 9 : n + first + 15] = False
    T = colour ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / (1 - colour**2)
    P = np.linalg.inv(np.kron([[1.0, shared], [shared, 1.0]], T)[np.ix_(kept, kept)])
    apart, ratio, follow_on = [], [], []
    for seed in range(6):
        part = pick_rows(linear_toy(seed, colour=colour, shared=shared, n=n)[0], kept)
        exact = np.linalg.solve(part.W.T @ P @ part.W, part.W.T @ P @ part.y)
        sigma = 0.3 * np.sqrt(np.diag(np.linalg.inv(part.W.T @ P @ part.W)))
        fit = maximum_likelihood(part, start=wls(compress(part)))
        apart.append((fit.estimate.values - exact) / sigma)
        ratio.append(fit.estimate.sigma / sigma)
        rows = np.flatnonzero(part.joint == 0)
        next_to = rows[1:][np.diff(part.sample[rows]) == 1]
        follow_on.append(np.corrcoef(fit.system.residual[next_to], fit.system.residual[next_to - 1])[0, 1])
    assert np.sqrt(np.mean(np.square(apart))) < 0.6
    assert 0.85 < np.mean(ratio) < 1.15
    assert abs(np.mean(follow_on)) < 0.06


def test_levinson_solves_the_normal_equations():
    correlation = np.array([1.0, 0.8, 0.5, 0.3])
    a, shares = levinson(correlation)
    for m in range(1, 4):
        T = correlation[np.abs(np.subtract.outer(np.arange(m), np.arange(m)))]
        np.testing.assert_allclose(a[m], np.linalg.solve(T, correlation[1 : m + 1]), rtol=1e-12)
        assert shares[m] == pytest.approx(1.0 - a[m] @ correlation[1 : m + 1])
    assert len(levinson(np.array([1.0, 1.5, 0.0]))[0]) == 1


def test_likelihood_is_better_than_least_squares_and_says_how_well():
    ml, ls, inside = [], [], []
    for seed in range(20):
        regression, truth = linear_toy(seed, colour=-0.6, shared=0.8)
        told = answer("ml", Problem(load("rotradi"), [], Rows(), regression))
        ml.append(told.estimate.values - truth)
        ls.append(wls(compress(regression)).values - truth)
        inside.append((told.intervals.low <= truth) & (truth <= told.intervals.high))
    assert np.all(np.std(ml, axis=0) < 0.9 * np.std(ls, axis=0))
    assert np.mean(inside) >= 0.86


def test_poses_are_no_series(problem, robot):
    rng = np.random.default_rng(3)
    q = rng.uniform(-1, 1, size=(200, 3))
    still = np.zeros_like(q)
    tau = inverse_dynamics(robot, Motion(q, still, still)) + 0.1 * rng.normal(size=q.shape)
    poses = Samples("poses", Motion(q, still, still), tau, 1.0, static=True)
    runs = [*problem.runs, poses]
    mixed = replace(problem, runs=runs, regression=dynamic_regression(robot, runs, rows=problem.rows))
    for name in ("ml", "ols", "ridge", "power"):
        told = answer(name, mixed)
        assert told.refused == "", told.refused


def test_tls_removes_the_bias_of_proportional_noise(robot):
    """Columns and torques equally noisy relative to their norms, as the default takes them."""
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        regression, truth = linear_toy(seed, n=300)
        exact = regression.W @ truth
        relative = 0.3
        W = regression.W + relative * np.sqrt(np.mean(regression.W**2, axis=0)) * rng.normal(size=regression.W.shape)
        y = exact + relative * np.sqrt(np.mean(exact**2)) * rng.normal(size=len(exact))
        told = answer("tls", Problem(robot, [], Rows(), replace(regression, W=W, y=y)))
        assert told.refused == ""
        assert told.evidence["gap"] > 2.0
        found.append(told.estimate.values)
    spread = np.std(found, axis=0) / np.sqrt(30)
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * spread + 0.01)


def test_tls_with_stated_noise_of_positions_leaves_exact_motion_alone(problem, answers):
    told = answer("tls", replace(problem, position_noise=np.full(3, 1e-9)))
    assert told.refused == ""
    sigma = answers["wls"].estimate.sigma
    assert np.max(np.abs(told.estimate.values - answers["wls"].estimate.values) / sigma) < 0.01
    np.testing.assert_allclose(told.intervals.sigma, answers["wls"].intervals.sigma, rtol=0.02)
    assert "as stated" in told.notes[0]


def test_tls_refuses_what_has_no_nearest_vector(robot):
    rng = np.random.default_rng(0)
    regression, _ = linear_toy(0)
    W = regression.W.copy()
    W[:, 2] = W[:, 1] + 0.01 * rng.normal(size=len(W))
    told = answer("tls", Problem(robot, [], Rows(), replace(regression, W=W)))
    assert told.estimate is None
    assert "nearly depend on one another" in told.refused


def test_bad_data_are_reported_never_raised(problem):
    regression = problem.regression
    empty = replace(regression, W=np.zeros_like(regression.W))
    few = pick_rows(regression, np.arange(len(regression)) < 10)
    zero = replace(regression, y=np.zeros_like(regression.y))
    twice = regression.W.copy()
    twice[:, 1] = twice[:, 0]
    for name in METHODS:
        for bad in (empty, few, replace(regression, W=twice)):
            told = answer(name, replace(problem, regression=bad, servo=None, references=None))
            if name not in ("filtered dynamic", "energy", "power", "filtered power") or bad is few:
                assert told.estimate is None, name
                assert told.refused, name
        assert isinstance(answer(name, replace(problem, regression=zero, servo=None)).refused, str)
    for name in ("didim", "input-error"):
        assert "controller is not known" in answer(name, replace(problem, servo=None)).refused
    with pytest.raises(ExcitorError, match="no estimator is called"):
        answer("magic", problem)


def test_a_servo_that_loses_the_robot_is_reported(problem):
    wild = replace(problem.servo, kp=problem.servo.kp * 1e4, kd=problem.servo.kd * 1e4)
    for name in LOOPS:
        told = answer(name, replace(problem, servo=wild))
        assert told.estimate is None, name
        assert told.refused[0] != "'", name
