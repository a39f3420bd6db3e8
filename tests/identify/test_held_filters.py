"""Filters of held and of straight signals against scipy's continuous simulation, quadrature and finer sampling."""

import numpy as np
import pytest
import scipy.integrate
import scipy.signal

from excitor.identify.schemes import (
    first_order_hold,
    held_segments,
    integral,
    lagged,
    switching,
    times,
    zero_order_hold,
)

CUTOFF = 9.11
H = 0.0025
ROUNDING = 1e-12  # of the signals, which are of size 1


def signal(n=200, channels=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, channels))


def continuous(u, h, order, straight):
    """Simulate λ^m / (s + λ)^m as a chain of states."""
    A = CUTOFF * (np.eye(order, k=-1) - np.eye(order))
    B = np.zeros((order, 1))
    B[0] = CUTOFF
    system = (A, B, np.eye(order), np.zeros((order, 1)))
    t = np.arange(len(u)) * h
    return np.stack([scipy.signal.lsim(system, x, t, interp=straight)[1].reshape(len(u), order) for x in u.T], axis=-1)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("straight", [False, True])
def test_stages_are_those_of_the_continuous_chain(order, straight):
    u = signal()
    hold = first_order_hold if straight else zero_order_hold
    stages = lagged(hold(u, H), cutoff=CUTOFF, order=order)
    expected = continuous(u, H, order, straight)
    for i, stage in enumerate(stages):
        np.testing.assert_allclose(stage, expected[:, i], rtol=0.0, atol=ROUNDING)


def test_first_order_as_published():
    """y_k = a y_{k-1} + (1 - a) u_{k-1}, a = 0.97748; straight, y_k = a y_{k-1} + b0 u_k + b1 u_{k-1}."""
    u, a, x = signal(50), np.exp(-CUTOFF * H), CUTOFF * H
    assert a == pytest.approx(0.97748, abs=5e-6)
    held, straight = np.zeros_like(u), np.zeros_like(u)
    b0, b1 = 1.0 - (1.0 - a) / x, (1.0 - a) / x - a
    for k in range(1, 50):
        held[k] = a * held[k - 1] + (1.0 - a) * u[k - 1]
        straight[k] = a * straight[k - 1] + b0 * u[k] + b1 * u[k - 1]
    np.testing.assert_allclose(lagged(zero_order_hold(u, H), cutoff=CUTOFF)[0], held, atol=ROUNDING)
    np.testing.assert_allclose(lagged(first_order_hold(u, H), cutoff=CUTOFF)[0], straight, atol=ROUNDING)


@pytest.mark.parametrize("phase", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shift", [0.0, 0.3, 0.5, 1.1, 2.0, -0.4, -3.0])
@pytest.mark.parametrize("order", [1, 2])
def test_late_torques_are_those_of_a_ten_times_finer_grid(phase, shift, order):
    tau = signal(60)
    way = switching(len(tau), phase, shift)
    rows = slice(way.first, way.stop)
    ours = lagged(held_segments(tau, way, H, rows), cutoff=CUTOFF, order=order)[-1]
    fine = np.repeat(tau, 10, axis=0)
    start = round(10 * (way.first + phase - shift))
    assert start >= 0
    steps = 10 * (rows.stop - rows.start - 1)
    assert start + steps <= len(fine)
    assert start - 10 < 0 or way.first == 0  # no sample is given away at the start,
    assert start + steps + 10 > len(fine) or way.stop == len(tau)  # nor at the end
    cut = np.concatenate([fine[start : start + steps], [[0.0, 0.0]]])
    finer = lagged(zero_order_hold(cut, H / 10), cutoff=CUTOFF, order=order)[-1][::10]
    np.testing.assert_allclose(ours, finer, rtol=0.0, atol=ROUNDING)


def test_power_of_held_torques_on_straight_velocities():
    """Against quadrature of the convolution, with torques that switch at 0.7 of an interval."""
    tau, dq = signal(12, 1)[:, 0], signal(12, 1, seed=1)[:, 0]
    way = switching(12, 0.5, 0.2)
    rows = slice(way.first, way.stop)
    pieces = times(held_segments(tau, way, H, rows), dq[rows], H)
    filtered, work = lagged(pieces, cutoff=CUTOFF)[0], integral(pieces)
    t = np.arange(12) * H
    start = t[way.first]

    def power(s):
        return tau[int(np.floor(s / H + 0.3))] * np.interp(s, t, dq)

    for k in (1, 4, 9):
        end = start + k * H
        breaks = [s for s in np.concatenate([t, t + 0.7 * H]) if start < s < end]
        exact = scipy.integrate.quad(power, start, end, points=breaks, limit=200)[0]
        np.testing.assert_allclose(work[k], exact, atol=1e-12)
        exact = scipy.integrate.quad(
            lambda s, end=end: CUTOFF * np.exp(-CUTOFF * (end - s)) * power(s), start, end, points=breaks, limit=200
        )[0]
        np.testing.assert_allclose(filtered[k], exact, atol=1e-12)


def test_integrals():
    u = signal()
    np.testing.assert_allclose(integral(zero_order_hold(u, H))[1:], H * np.cumsum(u[:-1], axis=0), atol=ROUNDING)
    trapezoid = scipy.integrate.cumulative_trapezoid(u, dx=H, axis=0, initial=0.0)
    np.testing.assert_allclose(integral(first_order_hold(u, H)), trapezoid, atol=ROUNDING)


def test_work_of_torques_held_about_the_middle():
    """dq of mid-samples is a mean: the work over whole intervals is Σ τ (q_{k+1} - q_k), the ends halved."""
    tau, dq = signal(40, 1)[:, 0], signal(40, 1, seed=2)[:, 0]
    way = switching(40, 0.5, 0.0)
    mid = times(held_segments(tau, way, H, slice(0, 40)), np.full(40, 3.0), H)
    np.testing.assert_allclose(integral(mid)[-1], 3.0 * H * (tau.sum() - 0.5 * (tau[0] + tau[-1])), atol=ROUNDING)
    assert len(times(held_segments(tau, way, H, slice(0, 40)), dq, H)) == 2


def test_very_slow_filters_lose_no_digits():
    """λ h = 1e-8: F u = λ ∫ u, where 1 - exp(-λ h) would keep eight digits."""
    u = np.ones((1001, 1))
    slow = lagged(first_order_hold(u, 1e-3), cutoff=1e-5, order=2)
    t = np.arange(1001)[:, None] * 1e-3
    np.testing.assert_allclose(slow[0][1:], -np.expm1(-1e-5 * t[1:]), rtol=1e-11)
    np.testing.assert_allclose(slow[1][-1], 0.5e-10, rtol=1e-4)


def test_settings_are_checked():
    u = signal(5)
    with pytest.raises(ValueError, match="cutoff is -1"):
        lagged(zero_order_hold(u, H), cutoff=-1.0)
    with pytest.raises(ValueError, match="order is 0, expected 1 to 8"):
        lagged(zero_order_hold(u, H), cutoff=1.0, order=0)
