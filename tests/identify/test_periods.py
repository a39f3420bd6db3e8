"""Averages are unbiased, harmonics exact, spectral derivatives true."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.identify.periods import (
    FourierSeries,
    average_periods,
    evaluate_series,
    fourier_coefficients,
    harmonic_motion,
    periodic_lowpass,
)
from excitor.identify.signals import differentiate

RECORDING = Path(__file__).parents[3] / "shared" / "data" / "qrc350"
N, P = 400, 10


def test_average_and_variances_are_unbiased():
    """Over 300 draws of known noise; the paper's divisor P N - 1 would be 10 % low with ten periods."""
    rng = np.random.default_rng(0)
    sigma = np.array([0.5, 2.0])
    motion = np.sin(2.0 * np.pi * np.arange(50) / 50)[:, None] * [1.0, -3.0]
    draws = [average_periods(np.tile(motion, (P, 1)) + rng.normal(0, sigma, (50 * P, 2)), 50) for _ in range(300)]
    pooled = np.mean([draw.noise_variance for draw in draws], axis=0)
    # 300 draws of 450 degrees of freedom: relative standard error sqrt(2 / 135 000) = 0.4 %, three of them
    np.testing.assert_allclose(pooled, sigma**2, rtol=0.012)
    of_mean = np.var([draw.mean - motion for draw in draws], axis=(0, 1))
    np.testing.assert_allclose(of_mean, sigma**2 / P, rtol=0.04)  # 15 000 values: 1.2 % each
    one = draws[0]
    assert one.n_repetitions == P
    assert one.mean.shape == one.variance.shape == (50, 2)
    np.testing.assert_allclose(one.noise_variance, one.variance.mean(axis=0))


def test_average_by_hand_and_what_is_left_out_is_reported():
    x = np.array([9.0, 9.0, 1.0, 2.0, 3.0, 6.0, 8.0])[:, None]
    average = average_periods(x, 2, drop_periods=1)
    np.testing.assert_allclose(average.mean[:, 0], [2.0, 4.0])
    np.testing.assert_allclose(average.variance[:, 0], [2.0, 8.0])  # divisor n - 1 = 1
    assert average.noise_variance == pytest.approx(5.0)
    assert average.findings == (
        "the first 1 periods (2 samples) were left out",
        "the last period is incomplete: 1 of 2 samples were left out",
    )
    assert average_periods(x[:6], 2).findings == ()


def series(harmonics: list[int], seed: int = 0) -> FourierSeries:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, len(harmonics), 3)) / np.array(harmonics)[:, None]
    return FourierSeries(period=10.0, harmonics=harmonics, offset=rng.normal(size=3), sine=a, cosine=b)


@pytest.mark.parametrize("n_periods", [1, 3])
def test_harmonics_of_a_band_limited_motion_are_exact(n_periods):
    truth = series([1, 2, 5, 9])
    rate = N / truth.period
    t = np.arange(N * n_periods) / rate
    q, dq, ddq, _ = evaluate_series(truth, t)
    found = fourier_coefficients(q, [1, 2, 5, 9], sample_rate_hz=rate, n_periods=n_periods)
    assert found.period == truth.period
    for name in ("offset", "sine", "cosine"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), atol=1e-12)
    motion = harmonic_motion(q, 9, sample_rate_hz=rate, n_periods=n_periods)
    for ours, exact in ((motion.q, q), (motion.dq, dq), (motion.ddq, ddq)):
        np.testing.assert_allclose(ours, exact, atol=1e-12 * np.abs(exact).max())
    lowpassed = periodic_lowpass(q[:N], sample_rate_hz=rate, cutoff_hz=0.9)
    for ours, exact in ((lowpassed.q, q[:N]), (lowpassed.dq, dq[:N]), (lowpassed.ddq, ddq[:N])):
        np.testing.assert_allclose(ours, exact, atol=1e-12 * np.abs(exact).max())


def test_derivatives_by_hand_and_by_differences():
    one = FourierSeries(period=2.0, harmonics=[3], offset=[7.0], sine=[[2.0]], cosine=[[0.0]])
    w, t = 3.0 * np.pi, np.array([0.0, 0.123, 55.7])
    exact = [7.0 + 2 * np.sin(w * t), 2 * w * np.cos(w * t), -2 * w**2 * np.sin(w * t), -2 * w**3 * np.cos(w * t)]
    for ours, value in zip(evaluate_series(one, t), exact, strict=True):
        np.testing.assert_allclose(ours[:, 0], value, atol=1e-11 * w**3)  # sin of the large plain angle rounds
    h, t = 1e-5, np.linspace(0.0, 10.0, 40)
    here, ahead, behind = (evaluate_series(series([1, 4]), t + step) for step in (0.0, h, -h))
    for order in range(3):
        np.testing.assert_allclose((ahead[order] - behind[order]) / (2 * h), here[order + 1], atol=1e-7)


def test_late_times_lose_no_digits():
    truth = replace(series([1, 2, 5, 9]), period=8.0)
    t = np.arange(100) / 16.0  # exact in binary, as are the shift and the number of turns
    for now, later in zip(evaluate_series(truth, t), evaluate_series(truth, t + 8.0 * 2**30), strict=True):
        np.testing.assert_allclose(later, now, atol=1e-13 * np.abs(now).max())


def test_re_estimation_keeps_only_the_lines_requested():
    truth = series([1, 2, 3, 30])
    q = evaluate_series(truth, np.arange(N) * truth.period / N)[0]
    found = fourier_coefficients(q, 3, sample_rate_hz=N / truth.period)
    assert found.harmonics.tolist() == [1, 2, 3]
    np.testing.assert_allclose(found.sine, truth.sine[:3], atol=1e-12)


def test_periodic_lowpass_keeps_the_line_at_the_cutoff_and_none_above():
    """Lines every 0.1 Hz: cut-off 0.9 Hz keeps harmonic 9 in spite of rounding, 0.89 Hz does not."""
    q = evaluate_series(series([9]), np.arange(N) * 10.0 / N)[0]
    offset = q.mean(axis=0)
    for cutoff, kept in ((0.9, q), (0.899, offset + 0.0 * q), (15.0, q)):
        motion = periodic_lowpass(q, sample_rate_hz=N / 10.0, cutoff_hz=cutoff)
        np.testing.assert_allclose(motion.q, kept, atol=1e-12)
    for n in (399, 400):
        noise = np.random.default_rng(0).normal(size=(n, 2))
        spectrum = np.abs(np.fft.rfft(periodic_lowpass(noise, sample_rate_hz=100.0, cutoff_hz=30.0).q, axis=0))
        assert np.flatnonzero(spectrum[:, 0] > 1e-9).max() == n * 30 // 100


GOOD = np.zeros((100, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average_periods(GOOD, 60), "leaves 1 whole periods of 60 after the first 0, expected at least 2"),
        (lambda: average_periods(GOOD, 20, drop_periods=7), "leaves 0 whole periods of 20 after the first 7"),
        (lambda: average_periods(GOOD, 20, drop_periods=-1), "drop_periods is -1, expected 0 or more"),
        (lambda: average_periods(GOOD, 33.3), "n_per_period is 33.3, expected a whole number of samples; resample"),
        (
            lambda: fourier_coefficients(GOOD, 3, sample_rate_hz=1.0, n_periods=3),
            "expected n_periods = 3 whole periods",
        ),
        (lambda: fourier_coefficients(GOOD, 50, sample_rate_hz=1.0), "harmonics is 50, expected .* from 1 to 49"),
        (lambda: fourier_coefficients(GOOD, [1, 1], sample_rate_hz=1.0), r"harmonics is \[1, 1\], expected different"),
        (lambda: fourier_coefficients(GOOD, [0, 1], sample_rate_hz=1.0), r"harmonics is \[0, 1\], expected"),
        (lambda: fourier_coefficients(GOOD, [1.5], sample_rate_hz=1.0), r"harmonics is \[1.5\], expected"),
        (lambda: fourier_coefficients(GOOD, 0, sample_rate_hz=1.0), "harmonics is 0, expected"),
        (lambda: fourier_coefficients(GOOD, 3, sample_rate_hz=-1.0), "sample_rate_hz is -1.0, expected"),
        (lambda: evaluate_series(series([1]), np.zeros((2, 2))), r"t has shape \(2, 2\), expected finite times"),
        (lambda: periodic_lowpass(GOOD, sample_rate_hz=10.0, cutoff_hz=5.0), "cutoff_hz is 5.0, expected"),
    ],
)
def test_mistakes_are_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.skipif(not RECORDING.is_dir(), reason=f"no recording in {RECORDING}")
def test_published_motion_of_the_qrc350():
    """Fact sheet of the QRC 350 §4: six lines of 5001 points, the sixth halved; then periodic central differences."""
    from scipy.io import loadmat

    data = loadmat(RECORDING / "trajectory_a.mat", squeeze_me=True, struct_as_record=False)
    q, published = data["q_meas"].average, data["q_meas"].average_rect
    found = fourier_coefficients(q, 6, sample_rate_hz=500.0)
    half = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.5])[:, None]
    series = FourierSeries(found.period, found.harmonics, found.offset, found.sine * half, found.cosine * half)
    ours = evaluate_series(series, np.arange(len(q)) / 500.0)[0]
    np.testing.assert_allclose(ours, published, atol=2e-14)
    dq = differentiate(published, sample_rate_hz=500.0, ends="periodic")
    np.testing.assert_allclose(dq, data["dq_meas"].average_rect, atol=1e-12)


@pytest.mark.skipif(not RECORDING.is_dir(), reason=f"no recording in {RECORDING}")
def test_published_velocities_of_the_qrc350_process():
    """One-sided over two samples at the ends, as published."""
    from scipy.io import loadmat

    data = loadmat(RECORDING / "identification_process2.mat", squeeze_me=True, struct_as_record=False)
    dq = differentiate(data["q_meas"].average, sample_rate_hz=500.0, ends="first-order")
    np.testing.assert_allclose(dq, data["dq_meas"].average, atol=1e-12)
