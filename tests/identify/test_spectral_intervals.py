"""Intervals from the spectrum of residuals: do they hold the truth where noise is slow, and is little, and repeats?"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from excitor.identify.estimate import compress, wls
from excitor.identify.intervals import _lines, _Spectrum, block_bootstrap, honest_intervals, wider
from excitor.identify.periods import average
from excitor.identify.regression import Rows, dynamic_regression
from excitor.identify.samples import repeated
from excitor.robots.base import base_parameters
from excitor.robots.load import load
from excitor.robots.parameters import prior
from tests.intervals import spectral_intervals, white_intervals

N, PERIODS = 1000, 5
SIGMA = np.array([1.0, 0.5, 0.2])


@pytest.fixture(scope="module")
def robot():
    return load("rotradi")


@pytest.fixture(scope="module")
def truth(robot):
    return base_parameters(robot).values(prior(robot))


@pytest.fixture
def clean(robot, simulate):
    return simulate(robot, prior(robot), 1, n_samples=N)


def periods_of(clean, rng, slow, memory=0.98):
    """Mean of periods whose noise is white, with a slow part of `slow` times its size that white residuals hide."""
    shape = (PERIODS * N + 500, 3)
    walk = lfilter([1.0], [1.0, -memory], rng.normal(size=shape), axis=0)[500:] * np.sqrt(1.0 - memory**2)
    noise = (rng.normal(size=(PERIODS * N, 3)) + slow * walk) * SIGMA
    taken = average((np.tile(clean.tau, (PERIODS, 1)) + noise).reshape(PERIODS, N, 3))
    return repeated(clean.run, clean.motion, taken, clean.sample_rate_hz, ())


def share(intervals, truth):
    return np.mean((intervals.low < truth) & (truth < intervals.high))


@pytest.mark.parametrize("slow", [0.0, 0.2, pytest.param(1.0, marks=pytest.mark.slow)])
def test_they_cover_what_they_claim(robot, truth, clean, slow):
    """60 draws of 21 parameters: the pooled share is within 0.02 of 0.95 by chance alone; white ones fail at 0.2."""
    rng = np.random.default_rng(3)
    spectral, white, chi = [], [], []
    for _ in range(60):
        run = periods_of(clean, rng, slow)
        regression = dynamic_regression(robot, [run])
        estimate = wls(compress(regression))
        found = spectral_intervals(regression, estimate, [run])
        error = estimate.values - truth
        chi.append(error @ np.linalg.solve(found.covariance, error))
        spectral.append(share(found, truth))
        white.append(share(white_intervals(estimate), truth))
    assert 0.925 <= np.mean(spectral) <= 0.98
    assert np.median(chi) == pytest.approx(len(truth), rel=0.3)
    assert (np.mean(white) < 0.9) == (slow > 0.0)


def test_a_random_walk_is_not_taken_for_as_large_at_all_slow_frequencies(robot, truth, clean):
    rng, widths, values, inside = np.random.default_rng(4), [], [], []
    for _ in range(40):
        noise = rng.normal(size=clean.tau.shape) + 0.1 * np.cumsum(rng.normal(size=clean.tau.shape), axis=0)
        regression = dynamic_regression(robot, [replace(clean, tau=clean.tau + SIGMA * noise)])
        estimate = wls(compress(regression))
        found = honest_intervals(regression, estimate)
        widths.append(0.5 * (found.high - found.low))
        values.append(estimate.values)
        inside.append(share(found, truth))
    assert 0.9 <= np.mean(inside) <= 0.997
    assert np.median(np.mean(widths, axis=0) / (1.96 * np.std(values, axis=0))) < 1.5


@pytest.mark.parametrize(("values", "below"), [((5.0, 4.0), 6.0), ((10.0, 0.0), 14.0), ((0.0, 5.0), 0.0)])
def test_below_its_first_knot_a_density_rises_no_steeper_than_a_random_walks(values, below):
    x, knots = np.array([0.0, 2.0, 3.0, 9.0]), np.array([2.0, 4.0])
    np.testing.assert_allclose(_lines(x, knots, np.array(values)), [below, values[0], np.mean(values), values[1]])
    np.testing.assert_array_equal(_lines(x, knots[:1], np.array(values[:1])), values[0])


def test_scores_are_columns_times_residuals_larger_by_what_the_fit_took_up():
    """A fit of p orthonormal columns leaves (n - p) / n of the power of white errors: scores make up for it."""
    rng, n, p = np.random.default_rng(3), 64, 16
    columns, errors = np.linalg.qr(rng.normal(size=(n, p)))[0], rng.normal(size=n)
    lines, residual = (np.fft.rfft(x, axis=0) / np.sqrt(n) for x in (columns, errors))
    twice = np.array([1.0, *[2.0] * (n // 2 - 1), 1.0])
    spectrum = _Spectrum(0, n, np.arange(n // 2 + 1.0), twice, lines, residual, 1.0, None, 1)
    wanted = columns * errors[:, None] * np.sqrt(n / (n - p))
    np.testing.assert_allclose(spectrum.scores(np.ones(n // 2 + 1)), wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(spectrum.scores(np.full(n // 2 + 1, 9.0)), wanted, rtol=1e-9, atol=1e-12)


def test_what_the_fit_took_up_is_made_up_for(robot, truth, clean):
    """Without repetitions residuals alone must do, though most of the slow error is in what was fitted."""
    rng = np.random.default_rng(4)
    shares = []
    for _ in range(40):
        run = replace(periods_of(clean, rng, 0.5, 0.9), noise=None, repetitions=1)
        regression = dynamic_regression(robot, [run])
        shares.append(share(spectral_intervals(regression, wls(compress(regression)), [run]), truth))
    assert 0.91 <= np.mean(shares) <= 0.99


def test_rows_left_out_and_thinned_ones_change_little(robot, clean):
    run = periods_of(clean, np.random.default_rng(5), 0.3)
    whole = dynamic_regression(robot, [run])
    sigma = spectral_intervals(whole, wls(compress(whole)), [run]).sigma
    for rows in (Rows(settling=0.05), Rows(decimate=lambda x: x.reshape(-1, 4, *x.shape[1:]).mean(axis=1))):
        regression = dynamic_regression(robot, [run], rows=rows)
        found = spectral_intervals(regression, wls(compress(regression)), [run]).sigma
        assert np.median(found / sigma) == pytest.approx(1.0, abs=0.25)


def test_the_wider_of_two_is_taken_parameter_by_parameter(robot, clean):
    run = periods_of(clean, np.random.default_rng(6), 0.3)
    regression = dynamic_regression(robot, [run])
    estimate = wls(compress(regression))
    one, other = spectral_intervals(regression, estimate, [run]), block_bootstrap(regression, estimate)
    both = wider(one, other)
    np.testing.assert_allclose(both.high - both.low, np.maximum(one.high - one.low, other.high - other.low))
    correlations = [x.covariance / np.outer(x.sigma, x.sigma) for x in (one, both)]
    np.testing.assert_allclose(correlations[0], correlations[1], atol=1e-12)
