"""Instruments on equations whose columns hold noise: bias removed, the test's size and power, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from scipy import stats
from scipy.fft import dct

from excitor.identify.estimate import compress, wls
from excitor.identify.instruments import (
    Exogeneity,
    Strength,
    _judge,
    durbin_wu_hausman,
    instrument_strength,
    instrumental_variables,
)
from excitor.identify.intervals import honest_intervals, joint_sigma
from excitor.identify.methods import Problem, answer
from excitor.identify.regression import (
    Regression,
    Rows,
    columns_along,
    dynamic_regression,
    power_regression,
    processed_as,
)
from excitor.identify.samples import Samples, Step, backward, central, mid_sample
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError, RankDeficient
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion
from excitor.robots.simulate import follow, servo_for, smoothed
from tests.intervals import white_intervals

TRUTH = np.array([2.0, -1.0, 0.5])
N = 400


def toy(seed, *, column_noise=0.0, colour=0.0, joints=2, weak=False):
    """Slow columns Z, measured with noise; errors of the two joints' rows coloured as asked."""
    rng = np.random.default_rng(seed)
    t = np.arange(N) / N
    Z = np.concatenate(
        [
            np.column_stack([np.sin(2 * np.pi * (3 + k + joint) * t + rng.uniform(0, 6)) for k in range(3)])
            for joint in range(joints)
        ]
    )
    error = rng.normal(size=(joints, N))
    for k in range(1, N):
        error[:, k] = colour * error[:, k - 1] + np.sqrt(1 - colour**2) * error[:, k]
    size = np.repeat([0.2, 0.5][:joints], N)
    y = Z @ TRUTH + size * error.ravel()
    W = Z + column_noise * rng.normal(size=Z.shape)
    if weak:
        Z = rng.normal(size=Z.shape)
    labels = np.repeat(np.arange(joints), N)
    names = ("a", "b", "c")
    run, sample = np.zeros(joints * N, dtype=int), np.tile(np.arange(N), joints)
    regression = Regression("dynamic", names, ("",) * 3, ("j1", "j2"), ("run",), W, y, labels, run, sample, None)
    return regression, Z


def fitted(regression, Z):
    start = wls(compress(regression))
    return start, instrumental_variables(regression, lambda _: Z, start=start)


def test_it_solves_the_instrumental_equations():
    """(Zᵀ Ω⁻¹ W)⁻¹ Zᵀ Ω⁻¹ y by plain algebra, weights iterated to their fixed point."""
    regression, Z = toy(0, column_noise=0.4)
    _, fit = fitted(regression, Z)
    sigma = np.array([fit.estimate.group_sigma[j, 0] for j in regression.joint])
    Zw = Z / sigma[:, None] ** 2
    expected = np.linalg.solve(Zw.T @ regression.W, Zw.T @ regression.y)
    np.testing.assert_allclose(fit.estimate.values, expected, rtol=1e-9)
    A = np.linalg.inv((Z / sigma[:, None]).T @ (regression.W / sigma[:, None]))
    gram = (Z / sigma[:, None]).T @ (Z / sigma[:, None])
    rest = (regression.y - regression.W @ expected) / sigma
    variance = rest @ rest / (len(rest) - 3)
    np.testing.assert_allclose(fit.estimate.covariance, variance * A @ gram @ A.T, rtol=1e-8)


def test_the_bias_of_least_squares_is_removed():
    ls, iv = [], []
    for seed in range(40):
        start, fit = fitted(*toy(seed, column_noise=0.5))
        ls.append(start.values)
        iv.append(fit.estimate.values)
    spread = np.std(iv, axis=0) / np.sqrt(40)
    assert np.all(np.abs(np.mean(iv, axis=0) - TRUTH) < 4 * spread)
    # attenuation by 0.5 / (0.5 + 0.25): a third is lost
    np.testing.assert_allclose(np.mean(ls, axis=0), TRUTH * 2 / 3, rtol=0.06)


@pytest.mark.parametrize("colour", [0.0, 0.9])
def test_intervals_hold_the_truth_as_often_as_they_say(colour):
    inside = []
    for seed in range(60):
        regression, Z = toy(seed, column_noise=0.3, colour=colour)
        _, fit = fitted(regression, Z)
        intervals = honest_intervals(regression, fit.estimate, system=fit.system)
        inside.append((intervals.low <= TRUTH) & (intervals.high >= TRUTH))
    assert 0.88 <= np.mean(inside) <= 1.0


@pytest.mark.parametrize("colour", [pytest.param(0.0, marks=pytest.mark.slow), 0.9])
def test_size_and_power_of_the_test(colour):
    alarms, found = 0, 0
    for seed in range(100):
        regression, Z = toy(seed, column_noise=0.0, colour=colour)
        # exact columns, but instruments of another motion: what they leave of W is slow, and no noise
        slow = np.tile(np.cos(2 * np.pi * 1.5 * np.arange(N) / N), 2)
        other = Z + 0.2 * slow[:, None] * [1.0, 0.5, -1.0]
        start, fit = fitted(regression, other)
        alarms += durbin_wu_hausman(regression, other, start, fit.estimate.values).needed
        regression, Z = toy(seed, column_noise=0.3, colour=colour)
        start, fit = fitted(regression, Z)
        found += durbin_wu_hausman(regression, Z, start, fit.estimate.values).needed
    assert alarms <= 12
    assert found >= 95


def test_few_samples_raise_no_more_alarms_than_many():
    """Three scores of sixty samples are judged by seven cosines: Hotelling's distribution, not that of χ²."""
    rng = np.random.default_rng(4)
    alarms = np.mean([_judge(rng.normal(size=(60, 3)))[2] < 0.05 for _ in range(600)])
    assert 0.02 <= alarms <= 0.08


@pytest.mark.parametrize(("n", "cosines"), [(4, 0), (5, 4), (6, 5), (9, 7), (60, 7)])
def test_scores_are_judged_by_their_slow_cosines(n, cosines):
    """Four more cosines than scores at least, all that there are at most; fewer than four do not judge three."""
    scores = np.random.default_rng(n).normal(size=(n, 3))
    F, dof, p = _judge(scores)
    if not cosines:
        assert (F, dof, p) == (0.0, (3.0, 1.0), 1.0)
        return
    slow = dct(scores, axis=0, norm="ortho")[1 : cosines + 1]
    whole = scores.sum(axis=0) / np.sqrt(n)
    T2 = whole @ np.linalg.solve(slow.T @ slow / cosines, whole)
    assert dof == (3.0, cosines - 2.0)
    assert pytest.approx(T2 * dof[1] / (3.0 * cosines)) == F
    assert p == pytest.approx(stats.f.sf(F, *dof))
    assert _judge(scores * [1.0, 1.0, 0.0])[0::2] == (0.0, 1.0)


@pytest.mark.parametrize(("moved", "iterations"), [(0.2, 1), (0.3, 2), (-0.3, 2)])
def test_it_settles_when_every_parameter_has(moved, iterations):
    """Started where one parameter alone is off, by so many deviations: a quarter of one is settled."""
    regression, Z = toy(5, column_noise=0.1)
    start = fitted(regression, Z)[1].estimate
    start = replace(start, values=start.values + moved * start.sigma * [0.0, 1.0, 0.0])
    found = instrumental_variables(regression, lambda _: Z, start=start)
    assert (found.iterations, found.converged) == (iterations, True)
    once = instrumental_variables(regression, lambda _: Z, start=start, max_iterations=1)
    assert once.converged == (iterations == 1)


@pytest.mark.parametrize(("share", "exact"), [(0.2, True), (5.0, False)])
def test_columns_are_exact_up_to_rounding_of_the_torques(share, exact):
    regression, Z = toy(6)
    start = wls(compress(regression))
    weights = 1.0 / np.array([start.group_sigma[joint, 0] for joint in regression.joint])
    noise = np.random.default_rng(0).normal(size=Z.shape)
    size = np.linalg.norm(weights * (noise @ TRUTH)) / np.linalg.norm(weights * regression.y)
    noisy = replace(regression, W=Z + share * 1e-9 / size * noise)
    assert (durbin_wu_hausman(noisy, Z, start, TRUTH).F == 0.0) == exact


def test_torques_of_nothing_are_fitted_by_nothing():
    regression, _ = toy(0)
    regression = replace(regression, y=np.zeros_like(regression.y))
    start = wls(compress(regression))
    np.testing.assert_array_equal(start.values, 0.0)
    assert np.all(np.isfinite(regression.W / joint_sigma(regression, regression.y)[:, None]))


@pytest.mark.parametrize("how", [backward, mid_sample])
def test_positions_go_the_way_of_a_runs_differences(how):
    rng = np.random.default_rng(0)
    q = np.cumsum(rng.normal(size=(40, 2)), axis=0)
    run = how("run", q, np.zeros_like(q), 100.0)
    first = 2 if how is backward else 0
    found = processed_as(run, q[first : first + len(run)], run.motion)
    for name in ("q", "dq", "ddq"):
        np.testing.assert_allclose(getattr(found, name)[2:-2], getattr(run.motion, name)[2:-2], rtol=1e-9)


@pytest.mark.parametrize("how", [backward, central, mid_sample, None])
def test_a_steady_motion_is_steady_to_its_ends(how):
    q = np.outer(np.arange(30.0), [1.0, -2.0])
    run = (how or central)("run", q, np.zeros_like(q), 10.0)
    if how is None:
        run = replace(run, steps=())
    found = processed_as(run, q)
    np.testing.assert_allclose(found.q, q + (np.array([0.5, -1.0]) if how is mid_sample else 0.0))
    np.testing.assert_allclose(found.dq, np.tile([10.0, -20.0], (30, 1)))
    np.testing.assert_allclose(found.ddq, 0.0, atol=1e-9)


def test_motions_of_no_stated_differences_are_taken_as_they_are():
    q = np.cumsum(np.random.default_rng(0).normal(size=(30, 2)), axis=0)
    run = central("run", q, np.zeros_like(q), 10.0)
    exact = Motion(q, q + 1.0, q + 2.0)
    assert processed_as(replace(run, steps=()), q, exact) is exact
    differenced = processed_as(replace(run, steps=(Step("differentiate", {}),)), q, exact)
    np.testing.assert_array_equal(differenced.q, q)
    assert not np.allclose(differenced.dq, exact.dq)


def test_the_test_names_the_joint_and_says_what_follows():
    regression, Z = toy(3, column_noise=0.5)
    W = regression.W.copy()
    W[regression.joint == 0] = Z[regression.joint == 0]
    regression = replace(regression, W=W)
    start, fit = fitted(regression, Z)
    test = durbin_wu_hausman(regression, Z, start, fit.estimate.values)
    assert test.by_joint["j2"] < 0.01
    assert test.by_joint.keys() == {"j1", "j2"}
    assert test.sentence.startswith("instruments are needed")
    assert "j2" in test.sentence
    exact = durbin_wu_hausman(replace(regression, W=Z), Z, start, TRUTH)
    assert exact.p_value == 1.0
    assert exact.sentence.startswith("instruments are not needed")


def test_weak_instruments_are_reported_and_useless_ones_refused():
    regression, Z = toy(4, column_noise=0.1)
    assert not fitted(regression, Z)[1].strength.weak
    rng = np.random.default_rng(0)
    hardly = Z.copy()
    hardly[:, 2] = 0.15 * Z[:, 2] + rng.normal(size=len(Z))
    strength = fitted(regression, hardly)[1].strength
    assert strength.weak
    assert strength.weakest[0] == "c"
    assert "instruments are weak" in strength.sentence
    with pytest.raises(ExcitorError, match="no more of the measured columns than chance"):
        fitted(*toy(4, weak=True))
    same = np.column_stack([Z[:, 0], Z[:, 0], Z[:, 2]])
    with pytest.raises(RankDeficient, match="simulated columns do not separate a, b"):
        fitted(regression, same)


@pytest.fixture(scope="module")
def loop():
    """Three joints under a servo that reads noisy encoders; positions differenced without a filter."""
    robot = smoothed(load("rotradi"))
    chi, rate, n = prior(robot), 500.0, 1500
    t = np.arange(n) / rate
    q, dq, ddq = (np.zeros((n, 3)) for _ in range(3))
    for j, size in enumerate((0.8, 0.6, 0.9)):
        for k, f in enumerate((0.5 + 0.1 * j, 1.3, 2.1 + 0.2 * j)):
            w, a = 2 * np.pi * f, size / (k + 1)
            q[:, j] += a * (1 - np.cos(w * t))
            dq[:, j] += a * w * np.sin(w * t)
            ddq[:, j] += a * w**2 * np.cos(w * t)
    reference = Motion(q, dq, ddq)
    servo = servo_for(robot, reference, bandwidth_hz=6.0, chi=chi, rate_hz=rate)
    rng = np.random.default_rng(1)
    noise = 3e-5 * rng.normal(size=q.shape)
    done = follow(robot, reference, servo, chi=chi, position_noise=noise)
    tau = done.tau + rng.normal(size=q.shape) * [0.3, 0.6, 0.05]
    run = central("run", done.motion.q + noise, 0.5 * (tau + np.roll(tau, 1, axis=0)), rate)
    run = replace(run, phase=0.5)
    rows = Rows(dead_zone=np.full(3, 0.05))
    told = Motion(q[1:], dq[1:], ddq[1:])
    return Problem(robot, [run], rows, dynamic_regression(robot, [run], rows=rows), servo, {"run": told})


def test_in_closed_loop_instruments_find_what_least_squares_miss(loop):
    truth = base_parameters(loop.robot).values(prior(loop.robot))
    ls, iv = answer("wls", loop), answer("iv", loop)
    assert iv.refused == ""
    assert iv.evidence["dwh_p"] < 1e-3
    assert any("instruments are needed" in note for note in iv.notes)
    k = iv.estimate.names.index("ZZ3")
    assert truth[k] > white_intervals(ls.estimate).high[k]  # noise in accelerations pulls inertia down
    assert iv.intervals.low[k] <= truth[k] <= iv.intervals.high[k]
    assert np.mean((iv.intervals.low <= truth) & (truth <= iv.intervals.high)) >= 0.85


def test_a_reference_alone_makes_instruments_and_nothing_at_all_none(loop):
    alone = answer("iv", replace(loop, servo=None))
    assert alone.refused == ""
    assert any("servo is not known" in note for note in alone.notes)
    assert "give the runs' references" in answer("iv", replace(loop, servo=None, references=None)).refused
    assert (
        "must last" in answer("iv", replace(loop, servo=None, references={"run": Motion(*np.zeros((3, 9, 3)))})).refused
    )


def test_equations_of_power_have_no_columns_along_other_motions(loop):
    run = loop.runs[0]
    with pytest.raises(ExcitorError, match="no columns along other motions; use the dynamic model"):
        columns_along(loop.robot, [run], [run.motion], power_regression(loop.robot, [run]), None)


def test_columns_along_its_own_motion_are_the_regressions(loop):
    run = loop.runs[0]
    rows = Rows(decimate=lambda x: x[::3], dead_zone=np.full(3, 0.1))
    regression = dynamic_regression(loop.robot, [run, run], rows=rows)
    found = columns_along(loop.robot, [run, run], [run.motion] * 2, regression, rows.decimate)
    np.testing.assert_array_equal(found, regression.W)
    again = processed_as(replace(run, steps=run.steps), run.motion.q)
    inner = slice(1, -1)  # central differences of what was seen are the run's own motion
    np.testing.assert_allclose(again.dq[inner], run.motion.dq[inner], atol=1e-9)
    np.testing.assert_allclose(again.ddq[inner], run.motion.ddq[inner], atol=1e-6)


def test_static_runs_keep_their_own_columns(loop):
    held = loop.runs[0].motion.q[::100]
    still = np.zeros_like(held)
    poses = Samples("poses", Motion(held, still, still), np.ones(held.shape), 500.0, static=True)
    runs = [*loop.runs, poses]
    regression = dynamic_regression(loop.robot, runs, rows=loop.rows)
    assert answer("iv", replace(loop, runs=runs, regression=regression)).refused == ""


@pytest.mark.parametrize(("F", "weak"), [(9.99, True), (10.0, False), (20.0, False)])
def test_instruments_are_weak_below_an_f_of_ten(F, weak):
    assert Strength(np.array([0.5]), F, ("a",)).weak is weak


def test_strength_is_the_angle_between_instruments_and_columns():
    rng = np.random.default_rng(3)
    W, Z = rng.normal(size=(2, 50, 3))
    found = instrument_strength(np.linalg.qr(W + Z)[0], W, ("a", "b", "c"))
    expected = np.cos(scipy.linalg.subspace_angles(W + Z, W))[::-1]
    assert found.correlation == pytest.approx(expected)
    assert pytest.approx((50 - 3) / 3 * expected[-1] ** 2 / (1.0 - expected[-1] ** 2)) == found.F


@pytest.mark.parametrize(
    ("p", "by_joint", "words"),
    [
        (0.001, {"j1": 0.5, "j2": 0.001, "j3": 0.01}, "residuals of j2, j3 (p = 0.001)"),
        (1e-9, {"j1": 0.5, "j2": 0.03}, "residuals of j2 (p < 0.0001)"),
        (0.5, {"j1": 0.5}, "not needed: noise of the motion does not show in the residuals (p = 0.5)"),
    ],
)
def test_joints_beyond_the_level_are_named_or_else_the_worst(p, by_joint, words):
    assert words in Exogeneity(5.0, (1.0, 9.0), p, by_joint).sentence
