"""Filters, derivatives, decimation and masks: measured with sines, and on the recorded TX-40."""

from pathlib import Path

import numpy as np
import pytest

from excitor.identify.samples import Step
from excitor.identify.signals import (
    any_moving_mask,
    decimate,
    differentiate,
    lowpass,
    lowpass_design_hz,
    moving_mask,
    pose_averages,
)
from excitor.robots.arrays import FloatArray

RECORDING = Path(__file__).parents[3] / "shared" / "data" / "tx40"
RATE = 1000.0
MIDDLE = slice(4000, 6000)  # of 10 000 samples: the ends' transients are below rounding there


def gain_and_delay(x: FloatArray, y: FloatArray, hz: float, rate: float = RATE) -> tuple[float, float]:
    """Fit y's amplitude and delay (samples) relative to x, both sines of a known frequency."""
    w = 2.0 * np.pi * hz / rate
    k = np.arange(len(x))
    columns = np.stack([np.sin(w * k), np.cos(w * k)], axis=1)
    a, b = (complex(*np.linalg.lstsq(columns, signal, rcond=None)[0]) for signal in (x, y))
    return abs(b / a), float(-np.angle(b / a) / w)


def sine(hz: float, n: int = 10_000, rate: float = RATE) -> FloatArray:
    return np.sin(2.0 * np.pi * hz / rate * np.arange(n) + 0.3)[:, None]


@pytest.mark.parametrize("order", [1, 2, 4, 5])
@pytest.mark.parametrize("cutoff", [20.0, 150.0, 430.0])
@pytest.mark.parametrize(("true_cutoff", "gain"), [(True, np.sqrt(0.5)), (False, 0.5)])
def test_lowpass_cuts_off_where_it_says(order, cutoff, true_cutoff, gain):
    x = sine(cutoff)
    y = lowpass(x, sample_rate_hz=RATE, cutoff_hz=cutoff, order=order, true_cutoff=true_cutoff)
    measured, delay = gain_and_delay(x[MIDDLE, 0], y[MIDDLE, 0], cutoff)
    # 1e-8: rounding through the recursive filter, poles close to 1 at 20 Hz
    assert measured == pytest.approx(gain, rel=1e-8)
    assert abs(delay) < 1e-8


def test_a_design_cutoff_is_minus_three_decibels_well_below():
    """What publications call a 50 Hz, order 4 filter run twice is -3 dB at 45 Hz."""
    hz = 50.0 * (np.sqrt(2.0) - 1.0) ** (1.0 / 8.0)
    x = sine(hz, rate=5000.0, n=40_000)
    y = lowpass(x, sample_rate_hz=5000.0, cutoff_hz=50.0, true_cutoff=False)
    measured, _ = gain_and_delay(x[15_000:25_000, 0], y[15_000:25_000, 0], hz, 5000.0)
    assert hz == pytest.approx(44.78, abs=0.01)
    assert measured == pytest.approx(np.sqrt(0.5), rel=3e-4)  # bilinear warping at 1 % of the rate


def test_lowpass_lets_polynomials_of_degree_one_through():
    line = np.outer(np.arange(500.0), [1.0, -2.0]) + 3.0
    y = lowpass(line, sample_rate_hz=RATE, cutoff_hz=50.0)
    np.testing.assert_allclose(y, line, atol=1e-3)  # slope 2 per sample, after four periods of extension
    np.testing.assert_allclose(y[100:-100], line[100:-100], atol=1e-4)


@pytest.mark.parametrize("ends", ["second-order", "first-order", "periodic"])
def test_differences_have_no_delay(ends):
    """Velocity and its sample belong together: at most 1e-9 of a sample, against half of one for x[k+1] - x[k]."""
    hz, n = 40.0, 1000
    x = sine(hz, n=n)
    dx = differentiate(x, sample_rate_hz=RATE, ends=ends)
    exact = 2.0 * np.pi * hz * np.cos(2.0 * np.pi * hz / RATE * np.arange(n) + 0.3)
    inside = slice(None) if ends == "periodic" else slice(25, -25)
    gain, delay = gain_and_delay(exact[inside], dx[inside, 0], hz)
    w = 2.0 * np.pi * hz / RATE
    assert gain == pytest.approx(np.sin(w) / w, rel=1e-12)
    assert abs(delay) < 1e-9
    forward = np.diff(x[:, 0]) * RATE
    assert gain_and_delay(exact[:-1], forward, hz)[1] == pytest.approx(-0.5, abs=1e-3)


def test_ends_of_differences():
    t = np.arange(20) / RATE
    parabola = np.stack([t**2, 1.0 - 3.0 * t**2], axis=1)
    slope = np.stack([2.0 * t, -6.0 * t], axis=1)
    np.testing.assert_allclose(differentiate(parabola, sample_rate_hz=RATE), slope, atol=1e-12)
    one_sided = differentiate(parabola, sample_rate_hz=RATE, ends="first-order")
    np.testing.assert_allclose(one_sided[1:-1], slope[1:-1], atol=1e-12)
    np.testing.assert_allclose(one_sided, np.gradient(parabola, 1.0 / RATE, axis=0), atol=1e-12)
    assert one_sided[0, 0] == pytest.approx(1.0 / RATE)  # half a sample late
    shifted = differentiate(np.roll(sine(40.0, n=1000), 7, axis=0), sample_rate_hz=RATE, ends="periodic")
    straight = differentiate(sine(40.0, n=1000), sample_rate_hz=RATE, ends="periodic")
    np.testing.assert_allclose(shifted, np.roll(straight, 7, axis=0), atol=1e-9)


def test_decimation_keeps_time_and_amplitude():
    x = sine(3.0, n=20_000)
    y = decimate(x, (5, 4), unit_gain=True)
    assert y.shape == (1000, 1)
    gain, delay = gain_and_delay(x[::20][250:750, 0], y[250:750, 0], 3.0, RATE / 20)
    assert 1.0 - 1e-9 <= gain <= 10.0 ** (2 * 2 * 0.05 / 20)  # ripple upwards only, two stages run twice
    assert abs(delay) < 1e-9
    assert decimate(np.ones((301, 2)), 10).shape == (31, 2)


def test_decimation_gain_at_rest_is_the_bottom_of_the_ripple():
    still = np.full((500, 1), 7.0)
    assert decimate(still, 10)[20:30] == pytest.approx(7.0 * 10.0 ** (-0.1 / 20.0), rel=1e-9)
    assert decimate(still, 10, unit_gain=True)[20:30] == pytest.approx(7.0, rel=1e-9)


def test_decimation_removes_what_would_alias():
    """A fifth above the new Nyquist frequency the Chebyshev filter, run twice, lets less than 1e-4 through."""
    hum = sine(60.0, n=20_000)  # new Nyquist frequency 50 Hz
    assert np.abs(decimate(hum, 10)[200:-200]).max() < 1e-4 < np.abs(hum[::10][200:-200]).max()


def test_a_stage_is_that_of_scipy():
    from scipy.signal import decimate as oracle

    x = np.random.default_rng(0).normal(size=(1234, 3)).cumsum(axis=0)
    np.testing.assert_allclose(decimate(x, 7), oracle(x, 7, axis=0), atol=1e-9)


def test_both_sides_decimated_together_still_agree():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3000, 3, 37)).cumsum(axis=0)
    chi = rng.normal(size=37)
    y, thin = decimate(W @ chi, (5, 2)), decimate(W, (5, 2))
    assert thin.shape == (300, 3, 37)
    np.testing.assert_allclose(thin @ chi, y, atol=1e-9 * np.abs(y).max())
    alone = decimate(W[:, 1, 8][:, None], (5, 2))
    np.testing.assert_array_equal(alone[:, 0], thin[:, 1, 8])


def test_columns_in_blocks_change_nothing(monkeypatch):
    x = np.random.default_rng(1).normal(size=(400, 9))
    whole = decimate(x, 4)
    monkeypatch.setattr("excitor.identify.signals._BLOCK", 1000)  # two columns at a time
    np.testing.assert_array_equal(decimate(x, 4), whole)


def test_masks_are_strict_and_per_joint():
    dq = np.array([[0.1, -0.3], [0.05, 0.2], [-0.11, 0.0]])
    np.testing.assert_array_equal(moving_mask(dq, [0.1, 0.2]), [[False, True], [False, False], [True, False]])
    np.testing.assert_array_equal(any_moving_mask(dq, [0.1, 0.2]), [True, False, True])
    np.testing.assert_array_equal(moving_mask(dq, 0.0), dq != 0.0)


def dwell_run(approaches: list[tuple[float, int]], rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """One joint comes to poses from the sense given, at 0.5 rad/s, and stays: gravity 3 sin q + stiction 0.8."""
    q, tau, dq = [], [], []
    for pose, sense in approaches:
        travel = pose - sense * np.linspace(0.4, 0.0, 80)
        q += [*travel, *np.full(100, pose)]
        dq += [*np.full(80, 0.5 * sense), *np.zeros(100)]
        tau += [*(3.0 * np.sin(travel) + 2.0 * sense), *(3.0 * np.sin(pose) + 0.8 * sense + rng.normal(0, 0.01, 100))]
        tau[-100:-90] = [9.0] * 10  # still swinging
    return tuple(np.array(x)[:, None] for x in (q, tau, dq))


def test_poses_approached_from_both_sides_lose_their_stiction():
    q, tau, dq = dwell_run([(0.5, 1), (1.0, 1), (0.5, -1), (1.0, -1), (0.5, 1)], np.random.default_rng(0))
    poses = pose_averages(q, tau, dq=dq, threshold=0.02, settle_samples=20)
    np.testing.assert_allclose(poses.q, [[0.5], [1.0]], atol=1e-12)
    # 0.006: four standard errors of noise 0.01 over 80 samples, twice
    np.testing.assert_allclose(poses.tau, 3.0 * np.sin([[0.5], [1.0]]), atol=0.006)
    np.testing.assert_allclose(poses.stiction, 0.8, atol=0.006)
    assert poses.both_sides.all()
    assert poses.n_visits == (3, 2)
    assert poses.findings == ()


def test_a_pose_approached_from_one_side_is_reported():
    q, tau, dq = dwell_run([(0.5, 1), (1.0, 1), (0.5, -1)], np.random.default_rng(0))
    poses = pose_averages(q, tau, dq=dq, threshold=0.02, settle_samples=20)
    assert poses.both_sides.ravel().tolist() == [True, False]
    assert np.isnan(poses.stiction[1, 0])
    assert poses.tau[1, 0] == pytest.approx(3.0 * np.sin(1.0) + 0.8, abs=0.006)
    assert poses.findings == ("pose 2 was not approached from both sides by joint 1: stiction stays in tau",)


@pytest.mark.parametrize("sense", [1, -1])
def test_a_pose_where_the_log_begins_was_approached_from_no_side(sense):
    moved = dwell_run([(1.0, 1), (0.5, sense)], np.random.default_rng(0))
    start = np.full((100, 1), 0.5), np.full((100, 1), 3.0 * np.sin(0.5)), np.zeros((100, 1))
    q, tau, dq = (np.concatenate(pair) for pair in zip(start, moved, strict=True))
    poses = pose_averages(q, tau, dq=dq, threshold=0.02, settle_samples=20)
    assert poses.n_visits == (2, 1)
    assert not poses.both_sides.any()
    assert np.isnan(poses.stiction).all()
    assert poses.tau[0, 0] == pytest.approx(3.0 * np.sin(0.5) + 0.4 * sense, abs=0.006)  # the mean of both visits


def test_steps_remember_names_and_settings():
    settings: dict[str, float | str] = {"factors": "10x10", "unit_gain": False}
    step = Step("decimate", settings)
    settings["factors"] = "2"
    assert step == Step("decimate", {"factors": "10x10", "unit_gain": 0})
    with pytest.raises(
        ValueError, match=r"setting factors of step decimate is \(10, 10\), expected a number or a text"
    ):
        Step("decimate", {"factors": (10, 10)})


GOOD = np.zeros((100, 2))
BAD = np.zeros((100, 2))
BAD[7, 1] = np.nan


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: lowpass(GOOD[:, 0], sample_rate_hz=10.0, cutoff_hz=1.0),
            r"x has shape \(100,\), expected .*x\[:, None\]",
        ),
        (
            lambda: lowpass(GOOD[:, :0], sample_rate_hz=10.0, cutoff_hz=1.0),
            r"x has shape \(100, 0\), expected \(n_samples, n_channels\)",
        ),
        (
            lambda: lowpass(BAD, sample_rate_hz=10.0, cutoff_hz=1.0),
            r"x\[7, 1\] is nan, expected a finite number; repair",
        ),
        (lambda: lowpass(GOOD, sample_rate_hz=10.0, cutoff_hz=5.0), r"cutoff_hz is 5.0, expected .* 5 Hz"),
        (lambda: lowpass(GOOD, sample_rate_hz=0.0, cutoff_hz=5.0), r"sample_rate_hz is 0.0, expected .* above 0"),
        (lambda: lowpass(GOOD, sample_rate_hz=10.0, cutoff_hz=1.0, order=0), "order is 0, expected 1 or more"),
        (lambda: lowpass(GOOD[:15], sample_rate_hz=10.0, cutoff_hz=1.0), "x has 15 samples, expected more than 15"),
        (lambda: lowpass_design_hz(sample_rate_hz=10.0, cutoff_hz=np.nan), "cutoff_hz is nan"),
        (lambda: differentiate(GOOD[:2], sample_rate_hz=10.0), "x has 2 samples, expected at least 3; record longer"),
        (lambda: differentiate(GOOD, sample_rate_hz=10.0, ends="wrap"), "ends is 'wrap', expected 'second-order'"),
        (lambda: decimate(GOOD, 1), "factors is 1, expected whole numbers of 2 or more"),
        (lambda: decimate(GOOD, ()), r"factors is \(\), expected"),
        (lambda: decimate(GOOD, (10, 2.5)), r"factors is \(10, 2.5\), expected"),
        (lambda: decimate(GOOD, (10, 10)), "x has 10 samples, expected more than 27 for a stage of decimation"),
        (lambda: decimate(BAD, 2), "x holds values that are not finite; repair"),
        (lambda: decimate(np.array(1.0), 2), r"x has shape \(\), expected \(n_samples, ...\)"),
        (lambda: moving_mask(GOOD, [0.1, 0.1, 0.1]), "threshold is .*, expected one speed ≥ 0 or 2 of them"),
        (lambda: moving_mask(GOOD, -0.1), "threshold is -0.1, expected one speed ≥ 0"),
        (lambda: moving_mask(GOOD, np.nan), "threshold is nan, expected one speed ≥ 0"),
        (
            lambda: pose_averages(GOOD, GOOD, dq=GOOD[:, :1], threshold=0.1, settle_samples=5),
            r"shapes \(100, 2\), \(100, 2\), \(100, 1\), expected the same",
        ),
        (lambda: pose_averages(GOOD, GOOD, dq=GOOD, threshold=0.1, settle_samples=0), "settle_samples is 0"),
        (lambda: pose_averages(GOOD, GOOD, dq=GOOD + 1.0, threshold=0.1, settle_samples=5), "no dwell of 15 samples"),
    ],
)
def test_mistakes_are_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.skipif(not RECORDING.is_dir(), reason=f"no recording in {RECORDING}")
def test_rows_of_the_recorded_tx40():
    """Fact sheet of the TX-40 §7: scipy's default padding, first sample kept, gain of the filter left as it is."""
    from excitor.robots.friction import joint_positions, joint_torques
    from excitor.robots.load import load

    robot = load("tx40")
    q_motor, tau_motor = (
        np.loadtxt(RECORDING / f"{name}.csv", delimiter=",", skiprows=1) for name in ("pos_read_data", "curr_data")
    )
    q = lowpass(joint_positions(robot, q_motor), sample_rate_hz=5000.0, cutoff_hz=50.0, true_cutoff=False)
    dq = differentiate(q, sample_rate_hz=5000.0)
    tau, dq = (decimate(x[50:-50], (10, 10)) for x in (joint_torques(robot, tau_motor), dq))
    threshold = 0.01 * robot.limits.velocity
    kept = moving_mask(dq, threshold)
    assert kept.sum(axis=0).tolist() == [349, 347, 344, 346, 346, 342]
    assert kept.sum() == 2074
    assert any_moving_mask(dq, threshold).sum() == 354
    rms = [np.sqrt(np.mean(tau[kept[:, j], j] ** 2)) for j in range(6)]
    np.testing.assert_allclose(rms, [34.70, 34.09, 13.52, 6.35, 9.14, 5.55], atol=0.005)


def test_channels_that_are_zero_are_not_filtered(monkeypatch):
    """Most columns of a regressor are zero at a joint: they stay so, and cost nothing."""
    import scipy.signal

    filtered, plain = [], scipy.signal.sosfiltfilt
    monkeypatch.setattr(
        scipy.signal, "sosfiltfilt", lambda sos, x, axis: (filtered.append(len(x)), plain(sos, x, axis))[1]
    )
    x = np.random.default_rng(0).normal(size=(200, 2, 3))
    whole = decimate(x, 4)
    filtered.clear()
    x[:, 0, 1:] = 0.0
    found = decimate(x, 4)
    assert sum(filtered) == 4
    assert not found[:, 0, 1:].any()
    np.testing.assert_array_equal(found[:, 1], whole[:, 1])
    np.testing.assert_array_equal(found[:, 0, 0], whole[:, 0, 0])
