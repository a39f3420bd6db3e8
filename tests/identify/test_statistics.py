"""Estimates, covariances, intervals and tests against statsmodels, arch and linearmodels, on rows of their own."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from scipy.signal import lfilter

from excitor.identify.estimate import compress, irls, merge, ols, ridge, wls, wls_measured
from excitor.identify.instruments import durbin_wu_hausman, instrumental_variables
from excitor.identify.intervals import (
    autocorrelation,
    block_bootstrap,
    block_length,
    correlation_time,
    honest_intervals,
    segment_intervals,
)
from excitor.identify.noise import levinson, maximum_likelihood
from excitor.identify.recursive import batch, covariance, rls
from excitor.identify.regression import Regression
from tests.intervals import spectral_intervals, white_intervals

WHY = "is not installed: pip install -e '.[oracles]'"
sm = pytest.importorskip("statsmodels.api", reason=f"statsmodels {WHY}")
N, JOINTS, SIZES = 400, 2, np.array([0.3, 1.2])
BETA = np.array([2.0, -1.0, 0.5])


def rows(seed=0, *, rho=0.0, joints=JOINTS, n=N, column_noise=0.0):
    """Smooth columns of each joint, with errors of first-order autoregressions: the regression, and exact columns."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / n
    Z = np.concatenate(
        [[np.sin(2 * np.pi * (3 + 2 * k + j) * t + rng.uniform(0, 6)) for k in range(3)] for j in range(joints)], axis=1
    ).T.reshape(-1, 3)
    Z = Z + 0.5 * rng.normal(size=Z.shape) if not column_noise else Z
    white = rng.normal(size=(joints, n + 100)) * np.sqrt(1.0 - rho**2)
    errors = lfilter([1.0], [1.0, -rho], white, axis=1)[:, 100:] * SIZES[:joints, None]
    W = Z + column_noise * rng.normal(size=Z.shape)
    joint, sample = np.repeat(np.arange(joints), n), np.tile(np.arange(n), joints)
    names = ("j1", "j2")[:joints]
    parts = (W, Z @ BETA + errors.ravel(), joint, 0 * joint, sample, rng.uniform(0.5, 2.0, joints * n))
    return Regression("dynamic", ("a", "b", "c"), ("",) * 3, names, ("run",), *parts), Z


def sigma_of(regression, estimate):
    return np.array([estimate.group_sigma[int(j), 0] for j in regression.joint])


def agrees(ours, theirs, rtol=1e-8):
    np.testing.assert_allclose(ours.values, theirs.params, rtol=rtol)
    np.testing.assert_allclose(ours.covariance, theirs.cov_params(), rtol=rtol, atol=rtol * ours.covariance.max())


def test_least_squares_and_its_intervals():
    regression, _ = rows()
    plain, weighted = ols(compress(regression)), wls(compress(regression))
    agrees(plain, sm.OLS(regression.y, regression.W).fit())
    rest = sm.OLS(regression.y, regression.W).fit().resid.reshape(JOINTS, N)
    own = np.repeat(np.mean(rest**2, axis=1), N)
    theirs = sm.WLS(regression.y, regression.W, weights=1.0 / own).fit()
    agrees(weighted, theirs)
    ours = white_intervals(weighted)
    np.testing.assert_allclose(np.column_stack([ours.low, ours.high]), theirs.conf_int(0.05), rtol=1e-8)


def test_measured_variances_are_known_weights():
    regression, _ = rows(1)
    theirs = sm.WLS(regression.y, regression.W, weights=30 / regression.variance).fit(cov_type="fixed scale")
    agrees(wls_measured(regression, 30), theirs)


def test_a_prior_is_as_good_as_rows():
    """The mixed estimate of Theil and Goldberger: of weight 9, scale is three deviations."""
    from statsmodels.sandbox.regression.penalized import TheilGLS

    regression, _ = rows(2, joints=1)
    prior, scale = np.array([1.0, 0.0, 0.0]), np.array([0.5, 1.0, 2.0])
    ours = ridge(compress(regression), weight=9.0, prior=prior, scale=scale)
    y, W = (x / ours.group_sigma[0, 0] for x in (regression.y, regression.W))
    model = TheilGLS(y, W, r_matrix=np.eye(3), q_matrix=prior, sigma_prior=np.diag(scale**2))
    theirs = model.fit(pen_weight=9.0 / sm.OLS(y, W).fit().mse_resid)
    np.testing.assert_allclose(ours.values, theirs.params, rtol=1e-8)


def test_huber_is_that_of_rlm():
    regression, _ = rows(3, joints=1)
    y = regression.y.copy()
    y[::17] += 8.0
    regression = replace(regression, y=y)
    theirs = sm.RLM(y, regression.W, M=sm.robust.norms.HuberT(1.345)).fit(tol=1e-12, maxiter=200)
    np.testing.assert_allclose(irls(regression, steps=40).values, theirs.params, rtol=1e-5)  # of the MAD's 1.4826


def test_recursion_is_that_of_an_exact_diffuse_start():
    regression, _ = rows(4, joints=1)
    theirs = sm.RecursiveLS(regression.y, regression.W).fit()
    ours = rls(regression, every=1)
    np.testing.assert_allclose(ours.values[20:], theirs.recursive_coefficients.filtered.T[20:], rtol=1e-4)
    np.testing.assert_allclose(ours.state.values, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(batch(regression), theirs.params, rtol=1e-6)
    forgetful = rls(regression, forgetting=0.98).state
    older = sm.WLS(regression.y, regression.W, weights=0.98 ** np.arange(N)[::-1]).fit()
    np.testing.assert_allclose(forgetful.values, older.params, rtol=1e-6)
    np.testing.assert_allclose(covariance(forgetful), older.normalized_cov_params, rtol=1e-5, atol=1e-9)


def test_autocorrelations_and_predictors():
    x = lfilter([1.0], [1.0, -1.2, 0.5], np.random.default_rng(5).normal(size=900))
    there = np.random.default_rng(6).random(900) > 0.1
    gappy = np.where(there, x, np.nan)
    sample = np.flatnonzero(there)
    ours = autocorrelation(0 * sample, sample, x[there])
    theirs = sm.tsa.stattools.acovf(gappy, adjusted=True, demean=False, missing="conservative")[: len(ours)]
    np.testing.assert_allclose(ours, theirs / theirs[0], atol=1e-9)
    whole = sm.tsa.stattools.acovf(x, demean=False)
    _, a, _, variances, _ = sm.tsa.stattools.levinson_durbin(whole, nlags=8, isacov=True)
    predictors, shares = levinson((whole / whole[0])[:9])
    np.testing.assert_allclose(predictors[8], a, atol=1e-10)
    np.testing.assert_allclose(np.array(shares) * whole[0], np.append(whole[0], variances[1:]), rtol=1e-9)


@pytest.mark.parametrize("rho", [0.6, 0.9])
def test_how_long_errors_last(rho):
    """arch's automatic blocks, and its long-run variance by a quadratic-spectral kernel that is wide enough."""
    pytest.importorskip("arch", reason=f"arch {WHY}")
    from arch.bootstrap import optimal_block_length
    from arch.covariance.kernel import QuadraticSpectral

    ratios = []
    for seed in range(20):
        regression, Z = rows(seed, rho=rho, joints=1, n=1500)
        x = regression.y - Z @ BETA
        correlation = autocorrelation(regression.run, regression.sample, x)
        block = float(optimal_block_length(x)["circular"].iloc[0])
        long_run = QuadraticSpectral(x, bandwidth=60.0, center=False).cov.long_run.item() / np.mean(x**2)
        ratios.append([block_length(correlation, 1500) / block, correlation_time(correlation) / long_run])
    blocks, times = np.median(ratios, axis=0)
    assert 0.9 < blocks < 1.15
    assert 0.95 < times < 1.2


@pytest.mark.parametrize(("rho", "block"), [(0.0, 1), (0.8, 24)])
def test_blocks_are_drawn_as_arch_draws_them(rho, block):
    """Circular blocks of whole samples, refitted; one sample a block is statsmodels' covariance by clusters, too."""
    pytest.importorskip("arch", reason=f"arch {WHY}")
    from arch.bootstrap import CircularBlockBootstrap

    regression, _ = rows(7, rho=rho)
    estimate = wls(compress(regression))
    ours = block_bootstrap(regression, estimate, block=block, draws=4000)
    sigma = sigma_of(regression, estimate)
    table = np.column_stack([regression.W, regression.y]) / sigma[:, None]
    table = table.reshape(JOINTS, N, 4).transpose(1, 0, 2).reshape(N, -1)

    def refit(data):
        data = data.reshape(-1, 4)
        return np.linalg.lstsq(data[:, :3], data[:, 3], rcond=None)[0]

    theirs = CircularBlockBootstrap(block, table, seed=0).cov(refit, reps=1500)
    np.testing.assert_allclose(ours.sigma, np.sqrt(np.diag(theirs)), rtol=0.08)  # 0.02 of 1500 draws, and ends of runs
    if block == 1:
        fit = sm.WLS(regression.y, regression.W, weights=sigma**-2.0)
        clusters = fit.fit(cov_type="cluster", cov_kwds={"groups": regression.sample})
        np.testing.assert_allclose(ours.sigma, clusters.bse, rtol=0.05)


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_intervals_by_frequency_are_as_wide_as_by_lags(rho):
    """Newey and West's kernel underestimates a little where errors last: both are compared over twenty draws."""
    ratios = []
    for seed in range(20):
        regression, _ = rows(seed, rho=rho, joints=1, n=1500)
        estimate = wls(compress(regression))
        ours = [f(regression, estimate).sigma for f in (spectral_intervals, honest_intervals)]
        theirs = sm.OLS(regression.y, regression.W).fit(cov_type="HAC", cov_kwds={"maxlags": 40})
        ratios.append(ours / theirs.bse)
    spectral, honest = np.median(ratios, axis=(0, 2))
    assert 0.93 < spectral < 1.12
    assert 0.97 < honest < 1.25


def test_stretches_are_left_out_in_turn():
    regression, _ = rows(8, rho=0.5, joints=1)
    estimate = wls(compress(regression))
    stretch = regression.sample // 20
    arrays = ("W", "y", "joint", "run", "sample", "variance")
    parts = [
        compress(replace(regression, **{name: getattr(regression, name)[stretch == k] for name in arrays}))
        for k in range(20)
    ]
    agrees(wls(merge(parts)), sm.OLS(regression.y, regression.W).fit())
    left = [sm.OLS(regression.y[stretch != k], regression.W[stretch != k]).fit().params for k in range(20)]
    deviation = np.array(left) - estimate.values
    found = segment_intervals(parts, estimate)
    np.testing.assert_allclose(found.covariance, 19 / 20 * deviation.T @ deviation, rtol=1e-8)
    reach = scipy.stats.t.ppf(0.975, 19) * np.sqrt(np.diag(found.covariance))
    np.testing.assert_allclose(found.high - found.values, reach, rtol=1e-8)


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_coloured_errors_by_likelihood(rho):
    """SARIMAX with the columns as regressors finds the exact likelihood's greatest value by a Kalman filter."""
    regression, _ = rows(9, rho=rho, joints=1)
    start = wls(compress(regression))
    ours = maximum_likelihood(regression, start=start, max_order=1)
    theirs = sm.tsa.SARIMAX(regression.y, exog=regression.W, order=(1, 0, 0)).fit(disp=False)
    assert ours.orders == (1,)
    assert np.abs(ours.estimate.values - theirs.params[:3]).max() < 0.02 * theirs.bse[:3].max()
    np.testing.assert_allclose(ours.estimate.sigma, theirs.bse[:3], rtol=0.1)  # theirs is by outer products


def test_joints_that_err_together_are_seemingly_unrelated_regressions():
    pytest.importorskip("linearmodels", reason=f"linearmodels {WHY}")
    from linearmodels.system import SUR

    rng = np.random.default_rng(10)
    apart, _ = rows(10)
    W = np.zeros((JOINTS * N, 4))
    W[:N, :2], W[N:, 2:] = apart.W[:N, :2], apart.W[N:, :2]
    errors = rng.multivariate_normal([0, 0], [[0.09, 0.2], [0.2, 1.4]], size=N).T.ravel()
    y = W @ [2.0, -1.0, 0.5, 1.5] + errors
    regression = replace(apart, names=("a", "b", "c", "d"), units=("",) * 4, W=W, y=y)
    ours = maximum_likelihood(regression, start=wls(compress(regression)), max_order=0)
    parts = {
        f"j{j}": {"dependent": regression.y[at], "exog": W[at][:, [2 * j, 2 * j + 1]]}
        for j, at in enumerate((slice(0, N), slice(N, None)))
    }
    theirs = SUR(parts).fit(method="gls", iterate=True, iter_limit=100, cov_type="unadjusted")
    np.testing.assert_allclose(ours.estimate.values, theirs.params, atol=2e-3 * float(theirs.std_errors.max()))
    np.testing.assert_allclose(ours.estimate.sigma, theirs.std_errors, rtol=0.01)


def test_instruments_are_those_of_two_stage_least_squares():
    pytest.importorskip("linearmodels", reason=f"linearmodels {WHY}")
    from linearmodels.iv import IV2SLS

    regression, Z = rows(11, column_noise=0.3)
    fit = instrumental_variables(regression, lambda _: Z, start=wls(compress(regression)))
    sigma = sigma_of(regression, fit.estimate)
    y, W, Zw = regression.y / sigma, regression.W / sigma[:, None], Z / sigma[:, None]
    theirs = IV2SLS(y, None, W, Zw).fit(cov_type="unadjusted", debiased=True)
    np.testing.assert_allclose(fit.estimate.values, theirs.params, rtol=1e-8)
    np.testing.assert_allclose(fit.estimate.covariance, theirs.cov, rtol=1e-8)
    one = instrumental_variables(only(regression, 0), lambda _: Z[:, :1], start=wls(compress(only(regression, 0))))
    sigma = sigma_of(regression, one.estimate)
    first = sm.OLS(regression.W[:, 0] / sigma, Z[:, 0] / sigma).fit()
    np.testing.assert_allclose(one.strength.F, first.fvalue, rtol=1e-2)  # of the free rows' count


def only(regression, column):
    return replace(regression, names=(regression.names[column],), units=("",), W=regression.W[:, [column]])


def test_least_squares_are_doubted_as_by_wu_and_hausman():
    """Ours judges by few cosines, so that errors may last; where they are white, both tests rank and decide alike."""
    pytest.importorskip("linearmodels", reason=f"linearmodels {WHY}")
    from linearmodels.iv import IV2SLS

    found = []
    for seed in range(60):
        regression, Z = rows(seed, joints=1, column_noise=1e-3 + 0.01 * (seed % 4))
        y = BETA[0] * Z[:, 0] + regression.y - Z @ BETA
        regression, Z = replace(only(regression, 0), y=y), Z[:, :1]
        start = wls(compress(regression))
        fit = instrumental_variables(regression, lambda _, Z=Z: Z, start=start)
        ours = durbin_wu_hausman(regression, Z, start, fit.estimate.values).p_value
        found.append((ours, IV2SLS(y, None, regression.W, Z).fit().wu_hausman().pval))
    ours, theirs = np.array(found).T
    assert 5 <= np.count_nonzero(theirs < 0.02) <= 40
    assert scipy.stats.spearmanr(ours, theirs).statistic > 0.95
    assert np.mean((ours < 0.02) == (theirs < 0.02)) > 0.9
