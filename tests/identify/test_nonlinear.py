"""Levenberg-Marquardt: known minima, a peer's answer, units, and what it says when it fails."""

import numpy as np
import pytest

from excitor.identify.load.fit import covariance, levenberg_marquardt, require_converged, undetermined_names
from excitor.robots.errors import RankDeficient, SolverError

T = np.linspace(0.0, 4.0, 60)
TRUTH = np.array([2.0, 0.7, 0.3])


def decay(x):
    """a exp(-b t) + c and its Jacobian."""
    e = np.exp(-x[1] * T)
    return x[0] * e + x[2], np.column_stack([e, -x[0] * T * e, np.ones_like(T)])


def against(y, sigma=1.0):
    def evaluate(x):
        F, J = decay(x)
        return (y - F) / sigma, J / sigma

    return evaluate


def test_exact_data_give_the_truth():
    fit = levenberg_marquardt(against(decay(TRUTH)[0]), np.array([1.0, 2.0, 0.0]))
    assert fit.converged
    assert fit.iterations == len(fit.history) - 1
    np.testing.assert_allclose(fit.x, TRUTH, rtol=1e-9)


def test_agrees_with_a_peer():
    from scipy.optimize import least_squares

    y = decay(TRUTH)[0] + np.random.default_rng(0).normal(size=len(T)) * 0.05
    fit = levenberg_marquardt(against(y, 0.05), np.array([1.0, 2.0, 0.0]), tolerance=1e-7)
    peer = least_squares(lambda x: against(y, 0.05)(x)[0], [1.0, 2.0, 0.0], xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(fit.x, peer.x, rtol=1e-6)
    np.testing.assert_allclose(covariance(fit, "abc"), np.linalg.inv(peer.jac.T @ peer.jac), rtol=1e-4)
    assert list(fit.history) == sorted(fit.history, reverse=True)
    assert fit.iterations == len(fit.history) - 1


def test_default_tolerance_is_far_below_the_noise():
    y = decay(TRUTH)[0] + np.random.default_rng(1).normal(size=len(T)) * 0.05
    rough, fine = (levenberg_marquardt(against(y, 0.05), np.ones(3), tolerance=tol) for tol in (1e-3, 1e-8))
    assert (np.abs(rough.x - fine.x) < 2e-3 * np.sqrt(np.diag(covariance(fine, "abc")))).all()


def test_a_curved_valley_is_followed():
    """Rosenbrock's: the start is far, the valley bent."""

    def evaluate(x):
        return np.array([1.0 - x[0], 10.0 * (x[0] ** 2 - x[1])]), np.array([[1.0, 0.0], [-20.0 * x[0], 10.0]])

    fit = levenberg_marquardt(evaluate, np.array([-1.2, 1.0]))
    np.testing.assert_allclose(fit.x, [1.0, 1.0], atol=1e-8)


def test_units_do_not_matter():
    y = decay(TRUTH)[0] + np.random.default_rng(2).normal(size=len(T)) * 0.05
    units = np.array([1e6, 1e-3, 1.0])

    def scaled(x):
        r, J = against(y)(x * units)
        return r, J * units

    one, other = levenberg_marquardt(against(y), np.ones(3)), levenberg_marquardt(scaled, 1.0 / units)
    np.testing.assert_allclose(other.x * units, one.x, rtol=1e-7)
    assert one.iterations == other.iterations


def test_what_is_not_reported_is_named():
    def evaluate(x):
        return np.array([1.0, 2.0, 3.0]) - (x[0] + x[1]) * np.ones(3), np.ones((3, 2))

    fit = levenberg_marquardt(evaluate, np.zeros(2))
    assert fit.converged
    assert fit.x.sum() == pytest.approx(2.0)
    with pytest.raises(RankDeficient, match="do not separate left, right"):
        covariance(fit, ("left", "right"))
    assert undetermined_names(np.array([[1.0, 0.0], [0.0, 0.0]]), ("seen", "unseen")) == ("unseen",)


def test_failures_are_sentences():
    stuck = levenberg_marquardt(against(decay(TRUTH)[0]), np.array([1.0, 2.0, 0.0]), max_iterations=2)
    assert stuck.status == "iterations"
    assert stuck.iterations == len(stuck.history) - 1 == 2
    with pytest.raises(SolverError, match="the arm: the search .* after 2 iterations because the limit"):
        require_converged(stuck, "the arm")
    lost = levenberg_marquardt(lambda x: (np.array([np.nan]), np.ones((1, 1))), np.ones(1))
    assert lost.status == "not finite"
    assert not lost.converged


def test_a_step_out_of_the_domain_is_taken_back():
    """log x is not finite where a full step from far away would go."""

    def evaluate(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.array([1.0 - np.log(x[0])]), np.array([[1.0 / x[0]]])

    fit = levenberg_marquardt(evaluate, np.array([20.0]))
    assert fit.x[0] == pytest.approx(np.e)


def test_iterations_are_steps_that_were_taken():
    noisy = against(decay(TRUTH)[0] + 0.05 * np.random.default_rng(0).normal(size=len(T)), 0.05)
    found = [levenberg_marquardt(noisy, np.ones(3), max_iterations=most) for most in (1, 60)]
    found.append(levenberg_marquardt(lambda x: (np.ones(2), np.array([[1.0], [0.0]])), np.zeros(1)))
    found.append(levenberg_marquardt(lambda x: (np.ones(2), np.array([[1.0], [-1.0]])), np.zeros(1)))
    flat = np.array([np.sqrt(1.02e-3)])  # its step gains 0.975e-6 of the cost
    found.append(
        levenberg_marquardt(
            lambda x: (np.array([x[0] ** 2, 1.0]), np.array([[-2.0 * x[0]], [0.0]])), flat, tolerance=1e-3
        )
    )
    assert [fit.status for fit in found] == ["iterations", "gradient", "cost", "gradient", "cost"]
    assert [fit.iterations for fit in found] == [len(fit.history) - 1 for fit in found]
    assert [found[k].iterations for k in (0, 2, 3, 4)] == [1, 0, 0, 1]
