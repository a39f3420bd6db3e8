"""Regressions, factors and linear estimates: recovery, invariances, and the classic ways to get them wrong."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.identify import regression as regression_file
from excitor.identify.estimate import (
    CHUNK,
    blocks,
    compress,
    irls,
    merge,
    ols,
    residual_norms,
    ridge,
    select,
    wls,
    wls_measured,
)
from excitor.identify.reduce import essential
from excitor.identify.regression import Rows, combine, dynamic_regression, pick_rows, power_regression
from excitor.identify.samples import Samples
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion

NOISE = np.array([2.0, 2.0, 1.0, 0.3, 0.4, 0.2])


@pytest.fixture
def robot():
    return load("tx40")


def test_rows_know_where_they_come_from(robot, simulate):
    runs = [simulate(robot, prior(robot), seed, n_samples=50) for seed in (0, 1)]
    regression = dynamic_regression(robot, runs)
    assert len(regression) == 2 * 50 * 6
    for row in (0, 49, 50, 299, 300, 599):
        samples = runs[regression.run[row]]
        assert regression.y[row] == samples.tau[regression.sample[row], regression.joint[row]]


def test_power_rows_are_the_power(robot, simulate):
    run = simulate(robot, prior(robot), n_samples=50)
    regression = power_regression(robot, [run])
    np.testing.assert_allclose(regression.y, np.sum(run.motion.dq * run.tau, axis=1))
    beta = base_parameters(robot).values(prior(robot))
    np.testing.assert_allclose(regression.W @ beta, regression.y, atol=1e-9)


def test_dead_zone_drops_rows_joint_by_joint(robot, simulate):
    run = simulate(robot, prior(robot), n_samples=200)
    threshold = 0.1 * robot.limits.velocity
    regression = dynamic_regression(robot, [run], rows=Rows(dead_zone=threshold))
    for j in range(6):
        expected = np.flatnonzero(np.abs(run.motion.dq[:, j]) > threshold[j])
        np.testing.assert_array_equal(regression.sample[regression.joint == j], expected)


def test_power_leaves_out_samples_where_no_joint_moves(robot, simulate):
    run = simulate(robot, prior(robot), n_samples=200)
    threshold = 0.8 * np.abs(run.motion.dq).max(axis=0)
    fast = np.abs(run.motion.dq) > threshold
    moving = fast.any(axis=1)
    assert fast.all(axis=1).sum() < moving.sum() < 200
    regression = power_regression(robot, [run], rows=Rows(dead_zone=threshold))
    np.testing.assert_array_equal(regression.sample, np.flatnonzero(moving))


def test_decimation_treats_torque_and_columns_alike(robot, simulate):
    run = simulate(robot, prior(robot), n_samples=200)
    regression = dynamic_regression(robot, [run], rows=Rows(decimate=lambda x: x[::4]))
    assert len(regression) == 50 * 6
    beta = base_parameters(robot).values(prior(robot))
    np.testing.assert_allclose(regression.W @ beta, regression.y, atol=1e-9)


def test_columns_of_many_samples_are_evaluated_in_parts(robot, simulate, monkeypatch):
    run = simulate(robot, prior(robot), n_samples=200)
    rows = Rows(decimate=lambda x: x[::4], dead_zone=0.1 * robot.limits.velocity)
    whole = dynamic_regression(robot, [run], rows=rows)
    monkeypatch.setattr(regression_file, "_AT_ONCE", 33)
    most = []
    monkeypatch.setattr(
        regression_file, "regressor", lambda r, motion: (most.append(len(motion)), regressor(r, motion))[1]
    )
    np.testing.assert_array_equal(dynamic_regression(robot, [run], rows=rows).W, whole.W)
    assert max(most) == 33
    assert sum(most) == 200


def test_noise_free_data_return_the_truth(robot, simulate):
    runs = [simulate(robot, prior(robot), seed) for seed in (0, 1)]
    truth = base_parameters(robot).values(prior(robot))
    for regression in (dynamic_regression(robot, runs), power_regression(robot, runs)):
        np.testing.assert_allclose(ols(compress(regression)).values, truth, atol=1e-8)


def test_ols_is_least_squares_on_the_rows(robot, simulate):
    regression = dynamic_regression(robot, [simulate(robot, prior(robot), noise=NOISE)])
    expected, rest, *_ = np.linalg.lstsq(regression.W, regression.y, rcond=None)
    estimate = ols(compress(regression))
    np.testing.assert_allclose(estimate.values, expected, rtol=1e-8)
    assert estimate.weighted_residual == pytest.approx(np.sqrt(rest[0]), rel=1e-10)
    variance = rest[0] / (len(regression) - len(expected))
    covariance = variance * np.linalg.inv(regression.W.T @ regression.W)
    np.testing.assert_allclose(estimate.covariance, covariance, rtol=1e-6, atol=1e-12 * np.abs(covariance).max())
    scaled = regression.W / np.linalg.norm(regression.W, axis=0)
    np.testing.assert_allclose(estimate.singular_values, np.linalg.svd(scaled, compute_uv=False), rtol=1e-8)
    assert estimate.condition == pytest.approx(np.linalg.cond(scaled), rel=1e-8)


def test_wls_is_least_squares_on_weighted_rows(robot, simulate):
    regression = dynamic_regression(robot, [simulate(robot, prior(robot), noise=NOISE)])
    start = np.linalg.lstsq(regression.W, regression.y, rcond=None)[0]
    residual = regression.y - regression.W @ start
    sigma = np.array([residual[regression.joint == j].std() for j in range(6)])
    weights = 1.0 / np.array([np.sqrt(np.mean(residual[regression.joint == j] ** 2)) for j in range(6)])
    w = weights[regression.joint]
    expected = np.linalg.lstsq(regression.W * w[:, None], regression.y * w, rcond=None)[0]
    estimate = wls(compress(regression))
    np.testing.assert_allclose(estimate.values, expected, rtol=1e-8)
    for j in range(6):
        assert estimate.group_sigma[(j, 0)] == pytest.approx(sigma[j], rel=0.01)


def test_weights_distinguish_noisy_joints_from_quiet_ones(robot, simulate):
    estimate = wls(
        compress(dynamic_regression(robot, [simulate(robot, prior(robot), s, noise=NOISE) for s in range(4)]))
    )
    found = [estimate.group_sigma[(j, 0)] for j in range(6)]
    np.testing.assert_allclose(found, NOISE, rtol=0.1)


def test_weights_by_joint_and_run(robot, simulate):
    quiet, loud = (
        simulate(robot, prior(robot), seed, noise=size * NOISE, n_samples=4000) for seed, size in ((0, 1.0), (1, 5.0))
    )
    estimate = wls(compress(dynamic_regression(robot, [quiet, loud])), by="joint and run")
    for j in range(6):
        assert estimate.group_sigma[(j, 1)] / estimate.group_sigma[(j, 0)] == pytest.approx(5.0, rel=0.15)


def test_measured_variances_weight_each_sample(robot, simulate):
    run = simulate(robot, prior(robot), noise=NOISE)
    variance = np.random.default_rng(1).uniform(0.5, 2.0, size=run.tau.shape)
    regression = dynamic_regression(robot, [replace(run, variance=variance)])
    weights = 1.0 / np.sqrt(regression.variance)
    expected = np.linalg.lstsq(regression.W * weights[:, None], regression.y * weights, rcond=None)[0]
    estimate = wls_measured(regression, repetitions=50)
    np.testing.assert_allclose(estimate.values, expected, rtol=1e-8)
    information = regression.W.T @ (regression.W / regression.variance[:, None])
    np.testing.assert_allclose(estimate.sigma, np.sqrt(np.diag(np.linalg.inv(information)) / 50), rtol=1e-7)
    with pytest.raises(ValueError, match="no measured variances"):
        wls_measured(dynamic_regression(robot, [run]), repetitions=50)


def test_order_of_rows_runs_and_joints_changes_nothing(robot, simulate):
    runs = [simulate(robot, prior(robot), seed, noise=NOISE) for seed in (0, 1)]
    regression = dynamic_regression(robot, runs)
    shuffled = np.random.default_rng(0).permutation(len(regression))
    mixed = pick_rows(regression, shuffled)
    first = wls(compress(regression))
    for other in (wls(compress(mixed)), wls(compress(dynamic_regression(robot, runs[::-1])))):
        np.testing.assert_allclose(other.values, first.values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.sigma, first.sigma, rtol=1e-9)


def test_order_of_joints_changes_nothing(robot, simulate):
    """The same arm with its coordinates listed the other way round, and the log's columns with them."""
    run = simulate(robot, prior(robot), noise=NOISE)
    turned = np.arange(6)[::-1]
    tree, drive = robot.mechanism, robot.drive

    def turn(element):
        return replace(element, senses=element.senses[turned], acts=element.acts[turned])

    other = replace(
        robot,
        mechanism=replace(tree, joint_names=tree.joint_names[::-1], coupling=tree.coupling[:, turned]),
        drive=replace(
            drive,
            motor_from_joint=drive.motor_from_joint[np.ix_(turned, turned)],
            rotors=tuple(map(turn, drive.rotors)),
            friction=tuple(map(turn, drive.friction)),
        ),
        limits=replace(robot.limits, position=robot.limits.position[turned], velocity=robot.limits.velocity[turned]),
    )
    motion = Motion(*(x[:, turned] for x in (run.motion.q, run.motion.dq, run.motion.ddq)))
    one = wls(compress(dynamic_regression(robot, [run])))
    two = wls(compress(dynamic_regression(other, [replace(run, motion=motion, tau=run.tau[:, turned])])))
    assert two.names == one.names
    np.testing.assert_allclose(two.values, one.values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(two.sigma, one.sigma, rtol=1e-9)


def test_units_of_torque_change_nothing_else(robot, simulate):
    run = simulate(robot, prior(robot), noise=NOISE)
    in_mnm = replace(run, tau=1000.0 * run.tau)
    one, other = (wls(compress(dynamic_regression(robot, [samples]))) for samples in (run, in_mnm))
    np.testing.assert_allclose(other.values, 1000.0 * one.values, rtol=1e-9)
    np.testing.assert_allclose(other.relative_sigma, one.relative_sigma, rtol=1e-9)


def test_streamed_factors_are_the_whole_ones(robot, simulate):
    run = simulate(robot, prior(robot), noise=NOISE)
    whole = compress(dynamic_regression(robot, [run]))
    parts = []
    for rows in (slice(0, 150), slice(150, 155), slice(155, 600)):
        motion = Motion(run.motion.q[rows], run.motion.dq[rows], run.motion.ddq[rows])
        parts.append(compress(dynamic_regression(robot, [Samples(run.run, motion, run.tau[rows], 100.0)])))
    merged = merge(parts)
    np.testing.assert_array_equal(merged.n_rows, whole.n_rows)
    np.testing.assert_allclose(wls(merged).values, wls(whole).values, rtol=1e-9, atol=1e-9)


def test_selected_factors_are_those_of_the_selected_columns(robot, simulate):
    regression = dynamic_regression(robot, [simulate(robot, prior(robot), noise=NOISE)])
    kept = np.random.default_rng(3).random(60) < 0.5
    direct = np.linalg.lstsq(regression.W[:, kept], regression.y, rcond=None)[0]
    np.testing.assert_allclose(ols(select(compress(regression), kept)).values, direct, rtol=1e-8)


def test_residual_norms_are_those_of_the_rows(robot, simulate):
    regression = dynamic_regression(robot, [simulate(robot, prior(robot), noise=NOISE)])
    factors = compress(regression)
    beta = np.random.default_rng(4).normal(size=60)
    residual = regression.y - regression.W @ beta
    expected = [np.linalg.norm(residual[regression.joint == j]) for j in range(6)]
    np.testing.assert_allclose(residual_norms(factors, beta), expected, rtol=1e-9)


@pytest.mark.parametrize("loss", ["huber", "l1"])
def test_robust_estimates_shrug_off_outliers(robot, simulate, loss):
    run = simulate(robot, prior(robot), noise=NOISE)
    tau = run.tau.copy()
    rng = np.random.default_rng(5)
    tau[rng.random(tau.shape) < 0.05] += 200.0
    regression = dynamic_regression(robot, [replace(run, tau=tau)])
    truth = base_parameters(robot).values(prior(robot))

    def error(estimate):
        return np.linalg.norm(estimate.values - truth) / np.linalg.norm(truth)

    assert error(irls(regression, loss)) < 0.2 * error(ols(compress(regression)))


def test_ridge_keeps_undetermined_parameters_at_the_prior(robot, simulate):
    """All 86 standard parameters, of which 60 combinations show."""
    run = simulate(robot, prior(robot), noise=NOISE)
    columns = np.arange(86)
    factors = compress(dynamic_regression(robot, [run], columns=columns))
    with pytest.raises(RankDeficient):
        ols(factors)
    start = 1.1 * prior(robot)
    estimate = ridge(factors, weight=1e-3, prior=start)
    unseen = estimate.names.index("M1")
    assert estimate.values[unseen] == pytest.approx(start[unseen])
    base = base_parameters(robot)
    best = wls(compress(dynamic_regression(robot, [run])))
    np.testing.assert_allclose(base.values(estimate.values), best.values, atol=4 * best.sigma.max())


def test_a_joint_that_never_moves_is_named(robot, simulate):
    run = simulate(robot, prior(robot))
    q, dq, ddq = (x.copy() for x in (run.motion.q, run.motion.dq, run.motion.ddq))
    q[:, 3], dq[:, 3], ddq[:, 3] = 0.3, 0.0, 0.0
    with pytest.raises(RankDeficient, match="Fv4"):
        ols(compress(dynamic_regression(robot, [replace(run, motion=Motion(q, dq, ddq))])))


def test_a_joint_that_never_reverses_is_named(robot, simulate):
    run = simulate(robot, prior(robot))
    dq = run.motion.dq.copy()
    dq[:, 2] = np.abs(dq[:, 2]) + 0.1
    regression = dynamic_regression(robot, [replace(run, motion=Motion(run.motion.q, dq, run.motion.ddq))])
    with pytest.raises(RankDeficient, match="Fc3.*off3|off3.*Fc3"):
        ols(compress(regression))


def test_declared_parameters_are_another_way_to_write_the_same_fit(robot, simulate):
    from excitor.robots.base import declared_transform

    regression = dynamic_regression(robot, [simulate(robot, prior(robot), noise=NOISE)])
    T = declared_transform(robot, base_parameters(robot))
    declared = combine(regression, T, robot.declared_base.names, [""] * 60)
    one, other = wls(compress(regression)), wls(compress(declared))
    np.testing.assert_allclose(other.values, T @ one.values, rtol=1e-7, atol=1e-7)
    assert other.weighted_residual == pytest.approx(one.weighted_residual, rel=1e-9)


def test_essential_parameters_drop_what_is_not_there(robot, simulate):
    truth = prior(robot).copy()
    names = list(base_parameters(robot).names)
    runs = [simulate(robot, truth, seed, noise=NOISE) for seed in range(3)]
    factors = compress(dynamic_regression(robot, runs))
    result = essential(factors, ratio=20.0)
    relative = result.estimate.relative_sigma
    assert relative.max() < 20.0 * relative.min()
    assert set(result.removed) | set(result.estimate.names) == set(factors.names)
    strong = {"ZZ1", "MX2", "Fv1", "Fc2"}
    assert strong <= set(result.estimate.names)
    assert len(result.estimate.names) < len(names)
    first_sigma = wls(factors)
    assert result.removed[0] == first_sigma.names[int(np.argmax(first_sigma.relative_sigma))]


def test_intervals_cover_the_truth(simulate):
    """95 % intervals over 200 draws of a small robot, pooled over its 21 parameters."""
    robot = load("rotradi")
    base = base_parameters(robot)
    truth = base.values(prior(robot))
    motion = simulate(robot, prior(robot), n_samples=400).motion
    clean = simulate(robot, prior(robot), n_samples=400)
    noise = np.array([0.5, 1.5, 0.15])
    regression = dynamic_regression(robot, [clean])
    hits = 0
    rng = np.random.default_rng(11)
    for _ in range(200):
        tau = clean.tau + rng.normal(size=clean.tau.shape) * noise
        y = tau[regression.sample, regression.joint]
        estimate = wls(compress(replace(regression, y=y)))
        hits += np.count_nonzero(np.abs(estimate.values - truth) < 1.959964 * estimate.sigma)
    assert motion.q.shape == (400, 3)
    assert 0.93 <= hits / (200 * len(truth)) <= 0.97


def test_bad_settings_are_sentences(robot, simulate):
    factors = compress(dynamic_regression(robot, [simulate(robot, prior(robot), noise=NOISE)]))
    with pytest.raises(ValueError, match="ratio is 0.5, expected more than 1"):
        essential(factors, ratio=0.5)
    with pytest.raises(ValueError, match="weight is 0.0, expected a positive number"):
        ridge(factors, weight=0.0)
    with pytest.raises(ValueError, match="sample_rate_hz is 0.0"):
        Samples("x", Motion([[0.0]], [[0.0]], [[0.0]]), [[0.0]], 0.0)


def test_robust_weights_scale_by_the_median_of_each_joints_residuals(robot, simulate):
    """Huber's equations hold at the fit: bounded residuals, over 1.4826 medians, are orthogonal to every column."""
    run = simulate(robot, prior(robot), noise=NOISE)
    tau = run.tau.copy()
    rng = np.random.default_rng(5)
    tau[rng.random(tau.shape) < 0.05] += 20.0
    regression = dynamic_regression(robot, [replace(run, tau=tau)])
    residual = regression.y - regression.W @ irls(regression, steps=40).values
    scale = np.empty(len(residual))
    for joint in range(6):
        rows = regression.joint == joint
        scale[rows] = 1.4826 * np.median(np.abs(residual[rows]))
    W = regression.W / scale[:, None]
    score = W.T @ np.clip(residual / scale, -1.345, 1.345)
    assert np.abs(score).max() < 1e-3 * (np.abs(W).T @ np.full(len(residual), 1.345)).max()


def test_blocks_are_all_samples_once(robot, simulate):
    run = simulate(robot, prior(robot))
    n = 2 * CHUNK + 7
    rows = np.arange(n) % len(run)
    motion = Motion(run.motion.q[rows], run.motion.dq[rows], run.motion.ddq[rows])
    long = replace(run, motion=motion, tau=run.tau[rows])
    parts = list(blocks(long))
    assert [len(part) for part in parts] == [CHUNK, CHUNK, 7]
    assert np.array_equal(np.concatenate([part.tau for part in parts]), long.tau)
    assert np.array_equal(np.concatenate([part.motion.ddq for part in parts]), motion.ddq)
