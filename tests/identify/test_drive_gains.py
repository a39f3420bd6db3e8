"""Drive gains from runs without and with a weighed body: equations, answers, refusals."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitor.identify.drive_gains import (
    DriveRun,
    KnownLoad,
    Law,
    Trust,
    assembled,
    drive_gains,
    essential_parameters,
    frobenius_fit,
    gain_system,
    known_load_fit,
    signal_fit,
    without_faint_parameters,
)
from excitor.robots.base import base_parameters
from excitor.robots.errors import RankDeficient
from excitor.robots.load import load
from excitor.robots.robot import Motion

# An independent planar five-bar in a horizontal plane, from its energies: an oracle for the catalogue's.
a, L1, L2 = 0.1375, 0.20, 0.25
ZZ1, IA, ZZ2 = (0.012, 0.0125), (0.020, 0.021), (0.0075, 0.0078)
MX2, MY2, M2, M4 = (0.045, 0.046), (0.002, -0.001), (0.35, 0.36), 0.45
FV, FC = np.array([0.12, 0.13]), np.array([0.90, 0.95])
GAINS = np.array([1.82, 1.76])


def geometry(P):
    """Angles of the arms (elbows out) and of the distal bars for tool points P (n, 2)."""
    q, psi = np.empty((2, *P.shape[:-1])), np.empty((2, *P.shape[:-1]))
    for k, (x, side) in enumerate(((-a, 1.0), (a, -1.0))):
        dx, y = P[..., 0] - x, P[..., 1]
        r = np.hypot(dx, y)
        q[k] = np.arctan2(y, dx) + side * np.arccos((L1**2 + r**2 - L2**2) / (2.0 * L1 * r))
        psi[k] = np.arctan2(y - L1 * np.sin(q[k]), dx - L1 * np.cos(q[k]))
    return q, psi


def derivative(x, rate):
    spectrum = np.fft.rfft(x, axis=-1) * 2j * np.pi * np.fft.rfftfreq(x.shape[-1], 1.0 / rate)
    return np.fft.irfft(spectrum, x.shape[-1], axis=-1)


def figure(seed, *, seconds=2.0, rate=1000.0, harmonics=4):
    """A periodic figure of the tool, with all angles and derivatives of its series."""
    rng = np.random.default_rng(seed)
    phase = 2.0 * np.pi * np.arange(round(seconds * rate)) / round(seconds * rate)
    P = np.zeros((2, phase.size))
    for k in range(1, harmonics + 1):
        s, c = rng.normal(size=(2, 2, 1)) / k
        P += s * np.sin(k * phase) + c * np.cos(k * phase)
    P *= 0.055 / np.abs(P).max()
    P[1] += 0.30
    q, psi = np.unwrap(geometry(P.T), axis=-1)
    d = lambda x: derivative(x - x.mean(axis=-1, keepdims=True), rate)  # noqa: E731
    return SimpleNamespace(P=P, q=q, psi=psi, dq=d(q), dpsi=d(psi), dP=d(P), rate=rate, d=d)


def torques(m, load=0.0, coulomb=1.0):
    """τ dq = dK/dt + friction for two virtual speeds: momenta by the chain rule, (n, 2).

    K depends on (q, ψ, P); τ = Jᵀ (d/dt ∂K/∂v - ∂K/∂x) over all coordinates x, v with v = J dq.
    """
    c = np.array([np.cos(m.q), np.sin(m.q)])  # (xy, leg, n)
    n = np.array([-np.sin(m.q), np.cos(m.q)])
    u, w = np.array([np.cos(m.psi), np.sin(m.psi)]), np.array([-np.sin(m.psi), np.cos(m.psi)])
    force_q, force_psi = np.zeros_like(m.q), np.zeros_like(m.psi)
    for k in range(2):
        own = ZZ1[k] + IA[k] + L1**2 * M2[k]
        cross = L1 * (MX2[k] * (n[:, k] * w[:, k]).sum(0) - MY2[k] * (n[:, k] * u[:, k]).sum(0))
        by_q = L1 * (-MX2[k] * (c[:, k] * w[:, k]).sum(0) + MY2[k] * (c[:, k] * u[:, k]).sum(0))
        by_psi = L1 * (-MX2[k] * (n[:, k] * u[:, k]).sum(0) - MY2[k] * (n[:, k] * w[:, k]).sum(0))
        momentum_q, momentum_psi = own * m.dq[k] + cross * m.dpsi[k], ZZ2[k] * m.dpsi[k] + cross * m.dq[k]
        force_q[k] = m.d(momentum_q) - by_q * m.dq[k] * m.dpsi[k]
        force_psi[k] = m.d(momentum_psi) - by_psi * m.dq[k] * m.dpsi[k]
    force_P = (M4 + load) * m.d(m.dP)
    A = u.transpose(2, 1, 0)  # (n, leg, xy)
    B = L1 * (u * n).sum(0).T[:, :, None] * np.eye(2)
    J_P = np.linalg.solve(A, B)  # dP = J_P dq
    tau = force_q.T + np.einsum("nxj,xn->nj", J_P, force_P)
    for k in range(2):
        arm = np.zeros((len(J_P), 2, 2))
        arm[:, :, k] = L1 * n[:, k].T
        J_psi = np.einsum("xn,nxj->nj", w[:, k], J_P - arm) / L2
        tau += J_psi * force_psi[k][:, None]
    return tau + FV * m.dq.T + coulomb * FC * np.sign(m.dq.T)


MASS = np.arange(10) == 9
BODY = KnownLoad("disc", -1, 1.2 * MASS, MASS)


def oracle_runs(noise=0.0, rng=None, coulomb=1.0):
    """Runs of the independent five-bar without and with the body."""
    runs = []
    for seed, body in zip((0, 1), (None, BODY), strict=True):
        m = figure(seed)
        v = torques(m, 1.2 if body else 0.0, coulomb) / GAINS
        if noise:
            v = v + rng.normal(scale=noise, size=v.shape)
        runs.append(DriveRun("b" if body else "a", Motion(m.q.T, m.dq.T, m.d(m.dq).T), v, body))
    return runs


@pytest.fixture(scope="module")
def five_bar():
    return load("five-bar")


def believed(gains, off=0.1):
    return [Law((1,), np.array([g * (1.0 + off * (-1.0) ** k)])) for k, g in enumerate(gains)]


def noisy_five_bar(robot, seed=0, noise=0.02):
    runs = oracle_runs(noise, rng=np.random.default_rng(seed))
    return gain_system(robot, runs, believed(GAINS))


def test_equation_13_holds_for_an_independent_five_bar(five_bar):
    """W_tot [χ, g, 1] = 0 with torques from energies, and its blocks stand where the paper has them."""
    system = gain_system(five_bar, oracle_runs(), believed(GAINS))
    W = assembled(system)
    n = len(base_parameters(five_bar))
    assert W.shape[1] == n + 2 + 1
    x = np.concatenate([base_parameters(five_bar).values(five_bar.chi), GAINS, [1.0]])
    assert np.abs(W @ x).max() < 1e-8 * np.abs(W[:, n:-1] * GAINS).max()
    unloaded = system.run == 0
    assert not W[unloaded, -1].any()
    platform = list(system.names).index("M5R")
    assert -W[~unloaded, -1] == pytest.approx(-1.2 * W[~unloaded, platform], abs=1e-12)
    for j in range(2):
        assert not W[system.drive == j, n + 1 - j].any()


def test_without_noise_gains_and_parameters_are_the_truth(five_bar):
    system = gain_system(five_bar, oracle_runs(), believed(GAINS))
    truth = base_parameters(five_bar).values(five_bar.chi)
    for fit in (signal_fit(system), frobenius_fit(system), frobenius_fit(system, weighted=False)):
        assert fit.gains == pytest.approx(GAINS, rel=1e-6)
        assert fit.parameters == pytest.approx(truth, rel=1e-4, abs=1e-6)
        assert fit.gap > 1e4


def test_noisy_gains_lie_within_their_intervals_and_least_squares_is_low(five_bar):
    errors, plain, sigma = [], [], []
    for seed in range(12):
        system = noisy_five_bar(five_bar, seed, noise=0.25)
        fit = signal_fit(system)
        errors.append(fit.gains / GAINS - 1.0)
        plain.append(known_load_fit(system).gains / GAINS - 1.0)
        sigma.append(np.sqrt(np.diag(fit.covariance)[-2:]) / GAINS)
    scatter = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert np.all(np.abs(np.mean(errors, axis=0)) < 4.0 * scatter)
    assert np.all(np.mean(plain, axis=0) < -8.0 * scatter)
    ratio = np.sqrt(np.mean(np.square(errors))) / np.mean(sigma)
    assert 0.65 < ratio < 1.45  # 24 errors: their rms is known to 15 %


def test_correlated_noise_widens_intervals(five_bar):
    """Slow errors tell less than their number: predicted deviation must follow what is observed, not 1/√N."""
    rng = np.random.default_rng(0)
    errors, predicted, white = [], [], []
    for seed in range(12):
        runs = []
        for run in oracle_runs():
            walk = np.zeros_like(run.signal)
            for k in range(1, len(walk)):
                walk[k] = 0.9 * walk[k - 1] + rng.normal(scale=0.03, size=2)
            runs.append(replace(run, signal=run.signal + walk))
        system = gain_system(five_bar, runs, believed(GAINS))
        fit = signal_fit(system)
        errors.append(fit.gains / GAINS - 1.0)
        predicted.append(np.sqrt(np.diag(fit.covariance)[-2:]) / GAINS)
        J = np.column_stack([system.W, system.V])
        white.append(np.sqrt(np.diag(np.linalg.inv(J.T @ J))[-2:]) * np.nanmean(fit.noise) / GAINS)
        assert seed < 12
    observed = np.sqrt(np.mean(np.square(errors)))
    assert observed == pytest.approx(np.mean(predicted), rel=0.45)
    assert np.mean(predicted) > 2.0 * np.mean(white)


def test_answers_carry_reasons_and_nothing_is_left_out_of_a_good_model(five_bar):
    result = drive_gains(noisy_five_bar(five_bar))
    assert all(gain.answered for gain in result.gains), [gain.reason for gain in result.gains]
    assert result.removed == ()
    assert result.left_out == ()
    for gain, true in zip(result.gains, GAINS, strict=True):
        assert gain.values[0] == pytest.approx(true, rel=5.0 * gain.relative_sigma)
        assert "singular-value gap" in gain.reason
        assert 0.05 < gain.share < 1.0
    smaller, removed = without_faint_parameters(result.system, 15.0)
    assert removed
    assert len(smaller.names) == len(result.system.names) - len(removed)
    value, sigma = result.parameters["M5R"]
    truth = dict(zip(base_parameters(five_bar).names, base_parameters(five_bar).values(five_bar.chi), strict=True))
    assert value == pytest.approx(truth["M5R"], abs=4.0 * sigma)
    assert essential_parameters(result, ratio=1e3).estimate.value("M5R") == pytest.approx(truth["M5R"], rel=0.02)


def test_an_error_of_the_weighed_mass_goes_unchanged_into_every_gain(five_bar):
    runs = oracle_runs(0.05, rng=np.random.default_rng(3))
    heavier = [replace(run, load=replace(BODY, phi=1.01 * BODY.phi)) if run.load is not None else run for run in runs]
    right, wrong = (signal_fit(gain_system(five_bar, r, believed(GAINS))) for r in (runs, heavier))
    assert wrong.gains == pytest.approx(1.01 * right.gains, rel=1e-6)
    assert wrong.parameters == pytest.approx(1.01 * right.parameters, rel=1e-5)


def test_units_and_beliefs_do_not_matter(five_bar):
    runs = oracle_runs(0.05, rng=np.random.default_rng(4))
    first = signal_fit(gain_system(five_bar, runs, believed(GAINS)))
    milli = [replace(run, signal=1e3 * run.signal) for run in reversed(runs)]
    other = signal_fit(gain_system(five_bar, milli, believed(GAINS / 1e3, off=-0.3)))
    assert 1e3 * other.gains == pytest.approx(first.gains, rel=1e-6)
    assert other.gap == pytest.approx(first.gap, rel=0.2)  # the load's column is counted in believed noise


def test_a_current_polynomial_takes_the_gains_place(five_bar):
    """τ = c1 v + c3 v³: both come out of noisy signals, and a gain alone leaves more unexplained."""
    coefficients = np.array([[1.82, 0.04], [1.76, -0.03]])
    rng = np.random.default_rng(5)
    grid = np.linspace(-6.0, 6.0, 20001)
    runs = []
    for run in oracle_runs():
        tau = run.signal * GAINS
        v = np.array([np.interp(tau[:, j], c[0] * grid + c[1] * grid**3, grid) for j, c in enumerate(coefficients)]).T
        assert np.abs(v).max() < 3.0
        runs.append(replace(run, signal=v + rng.normal(scale=0.005, size=v.shape)))
    laws = [Law((1, 3), c * [1.1, 0.5]) for c in coefficients]
    result = drive_gains(gain_system(five_bar, runs, laws))
    assert all(gain.answered for gain in result.gains), [gain.reason for gain in result.gains]
    for gain, true in zip(result.gains, coefficients, strict=True):
        assert np.all(np.abs(gain.values - true) < 4.0 * gain.sigma + 2e-4)
        assert gain.sigma[0] < 0.01
    straight = signal_fit(gain_system(five_bar, runs, believed(GAINS)))
    assert np.all(straight.noise > 1.05 * result.fit.noise)


def test_a_step_at_zero_current_is_an_exact_column(five_bar):
    runs = []
    for run in oracle_runs(coulomb=0.1):
        tau = run.signal * GAINS
        moving = (np.abs(tau) > 0.2).all(axis=1)  # nothing flows below the step
        motion = Motion(run.motion.q[moving], run.motion.dq[moving], run.motion.ddq[moving])
        v = ((tau - 0.2 * np.sign(tau)) / GAINS)[moving]
        runs.append(DriveRun(run.name, motion, v, run.load))
    system = gain_system(five_bar, runs, [Law((0, 1), np.array([0.1, g])) for g in GAINS])
    fit = signal_fit(system)
    assert fit.gains.reshape(2, 2)[:, 1] == pytest.approx(GAINS, rel=1e-6)
    assert fit.gains.reshape(2, 2)[:, 0] == pytest.approx([0.2, 0.2], rel=1e-5)
    with pytest.raises(RankDeficient, match="drive q1: a step of torque at zero signal"):
        gain_system(five_bar, [steady(run) for run in runs], system.laws)


def steady(run):
    """Keep the samples in which the signal has the sign of the speed."""
    same = (np.sign(run.signal) == np.sign(run.motion.dq)).all(axis=1)
    motion = Motion(run.motion.q[same], run.motion.dq[same], run.motion.ddq[same])
    return DriveRun(run.name, motion, run.signal[same], run.load)


@pytest.mark.parametrize(
    ("change", "told"), [(lambda v: v * [1.0, -1.0], "wrong sign"), (lambda v: v * [1.0, 10.0], "0.1. of what was")]
)
def test_signs_and_sizes_are_checked(five_bar, change, told):
    runs = [replace(run, signal=change(run.signal)) for run in oracle_runs(0.02, rng=np.random.default_rng(6))]
    first, second = drive_gains(gain_system(five_bar, runs, believed(GAINS))).gains
    assert first.answered
    assert not second.answered
    assert second.values is None
    assert re.search(told, second.reason)


def test_mistakes_are_reported_in_sentences(five_bar):
    runs = oracle_runs()
    laws = believed(GAINS)
    with pytest.raises(ValueError, match="no run carries a known load"):
        gain_system(five_bar, [replace(run, load=None) for run in runs], laws)
    with pytest.raises(ValueError, match="every run carries the load"):
        gain_system(five_bar, [replace(run, load=BODY) for run in runs], laws)
    with pytest.raises(ValueError, match="2 drives"):
        gain_system(five_bar, runs, laws[:1])
    with pytest.raises(ValueError, match="weigh it"):
        KnownLoad("disc", -1, np.zeros(10), MASS)
    with pytest.raises(ValueError, match="on link 9"):
        gain_system(five_bar, [runs[0], replace(runs[1], load=replace(BODY, link=9))], laws)
    spin = KnownLoad("disc", -1, 0.1 * (np.arange(10) == 5), np.arange(10) == 5)  # no joint turns the tool point
    with pytest.raises(ValueError, match="cannot be separated"):
        gain_system(five_bar, [runs[0], replace(runs[1], load=spin)], laws)
    dead = [replace(run, signal=run.signal * [1.0, 0.0]) for run in runs]
    with pytest.raises(ValueError, match="drive q2 has no signal"):
        gain_system(five_bar, dead, laws)
    square = [replace(run, signal=np.sign(run.signal)) for run in runs]
    with pytest.raises(ValueError, match="does not separate the powers"):
        gain_system(five_bar, square, [Law((1, 2), np.ones(2)), Law((1, 2), np.ones(2))])
    with pytest.raises(ValueError, match="different whole numbers"):
        Law((1, 1), np.ones(2))
    with pytest.raises(ValueError, match="maker states"):
        Law((1,), np.zeros(1))
    with pytest.raises(ValueError, match="gap above 1"):
        Trust(gap=0.5)
