"""Intervals cover the truth as often as they claim, with white residuals and with coloured ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from excitor.identify.estimate import compress, irls, ols, ridge, select, wls
from excitor.identify.intervals import (
    WhitenedSystem,
    autocorrelation,
    block_bootstrap,
    block_length,
    correlation_time,
    whiteness,
)
from excitor.identify.regression import Rows, dynamic_regression
from excitor.robots.base import base_parameters
from excitor.robots.load import load
from excitor.robots.parameters import prior
from tests.intervals import white_intervals

SIGMA = np.array([1.0, 2.0, 0.3])
N = 500


@pytest.fixture(scope="module")
def robot():
    return load("rotradi")


@pytest.fixture
def truth(robot):
    return base_parameters(robot).values(prior(robot))


@pytest.fixture
def equations(robot, simulate):
    return dynamic_regression(robot, [simulate(robot, prior(robot), 1, n_samples=N)])


def noisy(regression, rng, rho=0.0):
    """The same equations with AR(1) noise of standard deviation SIGMA a joint."""
    noise = rng.normal(size=(N + 200, 3))
    noise = lfilter([np.sqrt(1.0 - rho**2)], [1.0, -rho], noise, axis=0)[200:] * SIGMA
    return replace(regression, y=regression.y + noise[regression.sample, regression.joint])


def covers(intervals, truth):
    return np.mean((intervals.low < truth) & (truth < intervals.high))


def test_white_intervals_cover_what_they_claim(equations, truth):
    """200 draws of 21 parameters: the pooled share is 0.95 ± 0.005 or so."""
    rng = np.random.default_rng(0)
    estimated, known = [], []
    for _ in range(200):
        regression = noisy(equations, rng)
        estimated.append(covers(white_intervals(wls(compress(regression))), truth))
        weighted = ols(compress(regression, 1.0 / SIGMA[regression.joint]))
        known.append(covers(white_intervals(weighted, noise_known=True), truth))
    assert 0.93 <= np.mean(estimated) <= 0.97
    assert 0.93 <= np.mean(known) <= 0.97


def test_robust_intervals_cover_white_residuals_too(equations, truth):
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(40):
        regression = noisy(equations, rng)
        estimate = wls(compress(regression))
        bootstrap = block_bootstrap(regression, estimate, draws=200)
        shares.append(covers(bootstrap, truth))
    assert 0.92 < np.mean(shares) < 0.98


def test_coloured_residuals_need_robust_intervals(equations, truth):
    rng = np.random.default_rng(2)
    shares = []
    for _ in range(100):
        regression = noisy(equations, rng, rho=0.9)
        estimate = wls(compress(regression))
        shares.append(
            [covers(white_intervals(estimate), truth), covers(block_bootstrap(regression, estimate, draws=200), truth)]
        )
    white, bootstrap = np.mean(shares, axis=0)
    assert white < 0.6
    assert bootstrap >= 0.88


def test_inflation_is_that_of_the_correlation(equations):
    """AR(1) with ρ = 0.9 is worth 19 times fewer samples: σ of a slow parameter grows by √19 = 4.4."""
    regression = noisy(equations, np.random.default_rng(3), rho=0.9)
    estimate = wls(compress(regression))
    intervals = block_bootstrap(regression, estimate)
    assert 2.0 < np.median(intervals.inflation) < 6.0
    np.testing.assert_allclose(intervals.sigma, intervals.inflation * estimate.sigma)
    np.testing.assert_allclose(white_intervals(estimate).inflation, 1.0)


def test_bootstrap_resamples_whole_moments_of_all_joints(equations):
    """One torque error common to all joints and slow in time: joints must not count as independent."""
    rng = np.random.default_rng(4)
    common = rng.normal(size=N)
    regression = replace(equations, y=equations.y + (common[:, None] * SIGMA)[equations.sample, equations.joint])
    estimate = wls(compress(regression))
    together = block_bootstrap(regression, estimate, block=1).sigma
    apart = np.sqrt(np.diag(_sandwich(regression, estimate, regression.sample * 3 + regression.joint)))
    exact = np.sqrt(np.diag(_sandwich(regression, estimate, regression.sample)))
    assert np.median(np.abs(together / exact - 1.0)) < 0.06
    assert np.median(np.abs(apart / exact - 1.0)) > 0.06


def _sandwich(regression, estimate, cluster):
    """Cluster-robust covariance, written out on raw rows."""
    weights = 1.0 / np.array([estimate.group_sigma[int(j), 0] for j in regression.joint])
    W = regression.W * weights[:, None]
    score = W * (weights * (regression.y - regression.W @ estimate.values))[:, None]
    bread = np.linalg.inv(W.T @ W)
    sums = np.zeros((cluster.max() + 1, W.shape[1]))
    np.add.at(sums, cluster, score)
    return bread @ sums.T @ sums @ bread


def test_a_draw_is_the_refit_of_its_blocks(equations):
    """Adding up normal equations gives what a fit to the drawn rows gives."""
    from excitor.identify import intervals as module

    regression = noisy(equations, np.random.default_rng(5))
    estimate = wls(compress(regression))
    system = module.WhitenedSystem.of(regression, estimate, None)
    cells = module._Cells.of(regression, system, 40)
    counts = cells.draw(3, np.random.default_rng(0))
    assert (counts.sum(axis=1) == 52).all()  # 50 cells of 10 samples: 13 blocks of 4 cover them
    deviations = system.unwhiten(module._refits(cells, counts))
    weights = 1.0 / np.array([estimate.group_sigma[int(j), 0] for j in regression.joint])
    for count, deviation in zip(counts, deviations, strict=True):
        rows = np.sqrt(count[regression.sample // 10]) * weights
        expected = np.linalg.lstsq(regression.W * rows[:, None], regression.y * rows, rcond=None)[0]
        np.testing.assert_allclose(estimate.values + deviation, expected, rtol=1e-7, atol=1e-8)


def test_seeds_repeat_and_differ(equations):
    regression = noisy(equations, np.random.default_rng(6), rho=0.5)
    estimate = wls(compress(regression))
    first, again, other = (block_bootstrap(regression, estimate, draws=50, seed=seed).low for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_order_of_rows_does_not_matter(equations):
    regression = noisy(equations, np.random.default_rng(7), rho=0.5)
    estimate = wls(compress(regression))
    order = np.random.default_rng(0).permutation(len(regression))
    fields = ("W", "y", "joint", "run", "sample")
    shuffled = replace(regression, **{field: getattr(regression, field)[order] for field in fields})
    low, again = (block_bootstrap(rows, estimate).low for rows in (regression, shuffled))
    np.testing.assert_allclose(low, again, rtol=1e-8)


def test_essential_parameters_and_row_weights(equations):
    regression = noisy(equations, np.random.default_rng(8))
    kept = np.ones(len(regression.names), dtype=bool)
    kept[[0, 5]] = False
    part = wls(select(compress(regression), kept))
    assert block_bootstrap(regression, part, draws=50).names == part.names
    weights = 1.0 / SIGMA[regression.joint]
    weighted = ols(compress(regression, weights))
    a = block_bootstrap(regression, weighted, system=WhitenedSystem.of(regression, weighted, weights))
    b = block_bootstrap(regression, wls(compress(regression)))
    np.testing.assert_allclose(a.sigma, b.sigma, rtol=0.2)


def test_robust_fit_has_intervals_and_ridge_has_none(equations):
    regression = noisy(equations, np.random.default_rng(9))
    assert np.isfinite(block_bootstrap(regression, irls(regression), draws=50).sigma).all()
    with pytest.raises(ValueError, match=r"method is 'ridge', whose intervals are not those of a linear fit"):
        block_bootstrap(regression, ridge(compress(regression), weight=1e-3))
    fields = ("W", "y", "joint", "run", "sample")
    fewer = replace(regression, **{field: getattr(regression, field)[:1200] for field in fields})
    estimate = wls(compress(regression))
    with pytest.raises(ValueError, match=r"is of 1500 rows and the regression has 1200"):
        block_bootstrap(fewer, estimate)


def test_autocorrelation_of_a_known_process():
    rng = np.random.default_rng(10)
    x = lfilter([1.0], [1.0, -0.8], rng.normal(size=40_000))
    place = np.arange(len(x))
    rho = autocorrelation(np.zeros(len(x), dtype=int), place, x)
    np.testing.assert_allclose(rho[:6], 0.8 ** np.arange(6), atol=0.03)
    assert correlation_time(rho) == pytest.approx(9.0, rel=0.15)  # (1 + ρ) / (1 - ρ)
    assert block_length(rho, len(x)) == pytest.approx((1.5 * (2 * 0.8 / 0.04 / 9.0) ** 2 * len(x)) ** (1 / 3), rel=0.2)


def test_gaps_and_runs_are_not_bridged():
    rng = np.random.default_rng(11)
    x = lfilter([1.0], [1.0, -0.8], rng.normal(size=40_000))
    kept = np.flatnonzero(rng.random(40_000) < 0.5)
    rho = autocorrelation(kept // 20_000, kept, x[kept])
    np.testing.assert_allclose(rho[:6], 0.8 ** np.arange(6), atol=0.04)
    alternating = np.tile([1.0, -1.0], 50)
    runs = np.repeat(np.arange(50), 2)  # two samples each: no pair farther than one
    assert autocorrelation(runs, np.tile([0, 1], 50), alternating)[1] == -1.0


def test_whiteness_distinguishes_white_from_coloured(robot, equations, truth):
    rng = np.random.default_rng(12)
    for rho, white in ((0.0, True), (0.6, False)):
        regression = noisy(equations, rng, rho)
        entries = whiteness(regression, regression.y - regression.W @ truth)
        assert [entry.white for entry in entries] == [white] * 3
        assert [entry.joint for entry in entries] == list(robot.joint_names)
    assert entries[0].inflation == pytest.approx(4.0, rel=0.5)


def test_dead_zones_leave_whole_joints_fewer_rows(robot, simulate):
    run = simulate(robot, prior(robot), 1, n_samples=N, noise=SIGMA)
    regression = dynamic_regression(robot, [run], rows=Rows(dead_zone=0.1 * robot.limits.velocity))
    intervals = block_bootstrap(regression, wls(compress(regression)), draws=200)
    assert np.isfinite(intervals.sigma).all()
    assert 0.7 < np.median(intervals.inflation) < 1.3
