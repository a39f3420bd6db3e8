"""Recursive least squares: the batch solution at the end, and a covariance that never breaks."""

import numpy as np
import pytest
import scipy.linalg

from excitor.identify.recursive import batch, covariance, eigenvalues, noise_scale, rls, start, update, update_many
from excitor.identify.regression import Regression

JOINTS, SAMPLES = 3, 200


@pytest.fixture(scope="module")
def regression():
    """Equations of three joints over two runs, joint by joint as regressions are stacked, scaled over six decades."""
    rng = np.random.default_rng(1)
    n = 9
    scale = 10.0 ** rng.uniform(-3.0, 3.0, n)
    blocks = []
    for _ in range(2):
        W = rng.normal(size=(JOINTS, SAMPLES, n)) * scale
        W[0, :, 6:] = 0.0  # the first joint's rows do not contain the last parameters
        blocks.append(W.reshape(-1, n))
    W = np.concatenate(blocks)
    truth = rng.normal(size=n) / scale
    return Regression(
        kind="dynamic",
        names=tuple(f"p{k}" for k in range(n)),
        units=("1",) * n,
        joint_names=("a", "b", "c"),
        runs=("one", "two"),
        W=W,
        y=W @ truth + 0.1 * rng.normal(size=len(W)),
        joint=np.tile(np.repeat(np.arange(JOINTS), SAMPLES), 2),
        run=np.repeat([0, 1], JOINTS * SAMPLES),
        sample=np.tile(np.arange(SAMPLES), 2 * JOINTS),
        variance=None,
    )


def explicit(psi, y, values, variance, forgetting=1.0):
    """Solve the weighted normal equations in long double, samples (n, n_rows, n_params) in the order of time."""
    n = len(values)
    age = np.arange(len(y))[::-1]
    weight = np.longdouble(forgetting) ** age
    G = np.einsum("k,kri,krj->ij", weight, psi.astype(np.longdouble), psi.astype(np.longdouble))
    b = np.einsum("k,kri,kr->i", weight, psi.astype(np.longdouble), y.astype(np.longdouble))
    G += np.eye(n) * weight[0] * forgetting / variance
    b += weight[0] * forgetting / variance * values
    return np.linalg.solve(G.astype(float), b.astype(float)), G.astype(float)


def test_ends_at_the_batch_solution(regression):
    for variance in (1e6, np.logspace(-6, 6, 9)):
        recursion = rls(regression, variance=variance)
        expected = batch(regression, variance=variance)
        np.testing.assert_allclose(recursion.estimate.values, expected, rtol=1e-8)
        prior = np.diag(1.0 / np.sqrt(np.broadcast_to(variance, 9)))
        stacked = np.vstack([prior, regression.W])
        independent = scipy.linalg.lstsq(stacked, np.append(np.zeros(9), regression.y), lapack_driver="gelsy")[0]
        np.testing.assert_allclose(expected, independent, rtol=1e-7)
        information = stacked.T @ stacked
        scale = np.sqrt(np.diag(information))
        whitened = covariance(recursion.state) * np.outer(scale, scale)
        np.testing.assert_allclose(whitened @ (information / np.outer(scale, scale)), np.eye(9), atol=1e-8)


def test_online_is_offline(regression):
    recursion = rls(regression, variance=1e3, every=50, sigma=np.full(len(regression), 0.1))
    state = start(regression.names, variance=1e3)
    for run in range(2):
        for k in range(SAMPLES):
            rows = (regression.run == run) & (regression.sample == k)
            assert rows.sum() == JOINTS
            state = update(state, regression.W[rows], regression.y[rows], sigma=0.1)
            if run == 0 and k == 49:
                np.testing.assert_array_equal(recursion.values[0], state.values)
                np.testing.assert_array_equal(recursion.eigenvalues[0], eigenvalues(state))
    np.testing.assert_array_equal(state.values, recursion.estimate.values)
    assert state.n_updates == 2 * SAMPLES
    assert recursion.updates.tolist() == [50, 100, 150, 200, 250, 300, 350, 400]
    assert recursion.run.tolist() == [0] * 4 + [1] * 4
    assert recursion.sample.tolist() == [49, 99, 149, 199] * 2
    assert np.all(np.diff(recursion.eigenvalues, axis=0) <= 1e-12 * recursion.eigenvalues[1:])
    assert 0.9 < noise_scale(state) < 1.1


def test_order_of_a_samples_rows_does_not_matter(regression):
    rows = np.random.default_rng(0).permutation(len(regression))
    shuffled = Regression(
        **{
            name: getattr(regression, name)[rows]
            if name in ("W", "y", "joint", "run", "sample")
            else getattr(regression, name)
            for name in Regression.__dataclass_fields__
        }
    )
    np.testing.assert_array_equal(rls(shuffled).values, rls(regression).values)


def test_forgets_as_weights_do():
    """One parameter's turn to regain information comes after the end here, so nothing but λ acts."""
    rng = np.random.default_rng(2)
    n, count, forgetting = 40, 30, 0.99
    psi, values = rng.normal(size=(count, 2, n)), rng.normal(size=n)
    y = rng.normal(size=(count, 2))
    state = start(n, variance=10.0, values=values)
    for k in range(count):
        state = update(state, psi[k], y[k], forgetting=forgetting)
    _, G = explicit(psi, y, values, 10.0, forgetting)
    # by hand: what each turn adds, aged since
    longest = int(np.log(0.5) / np.log(forgetting))
    assert longest == 68
    period = n
    for k in range(count):
        G[k % period, k % period] += forgetting ** (count - 1 - k) * (1.0 - forgetting**period) / 10.0
    np.testing.assert_allclose(np.linalg.inv(covariance(state)), G, rtol=1e-8, atol=1e-8)


def test_forgetting_tracks_a_step():
    rng = np.random.default_rng(3)
    state = start(4, variance=1e4)
    truth = np.array([1.0, -2.0, 3.0, 0.5])
    for k in range(3000):
        if k == 1500:
            truth = truth + np.array([0.0, 1.0, 0.0, 0.0])
        psi = rng.normal(size=(2, 4))
        state = update(state, psi, psi @ truth + 0.01 * rng.normal(size=2), forgetting=0.98)
    np.testing.assert_allclose(state.values, truth, atol=0.02)


@pytest.mark.parametrize("forgetting", [1.0, 0.999, 0.9, 0.5])
def test_covariance_stays_positive_and_bounded_without_excitation(forgetting):
    """Only three of eight directions are ever excited, strongly: the textbook's case of windup."""
    rng = np.random.default_rng(4)
    count, variance = 20_000, 1e6
    state = start(8, variance=variance)
    mix = rng.normal(size=(3, 8)) * 100.0
    psi = rng.normal(size=(count, 3)) @ mix
    y = psi @ np.arange(8.0) + rng.normal(size=count)
    state = update_many(state, psi, y, ends=np.arange(1, count + 1), forgetting=forgetting)
    spectrum = eigenvalues(state)
    assert np.all(state.d > 0.0)
    assert spectrum[-1] > 0.0
    assert spectrum[0] <= 2.0 * variance * (1.0 + 1e-9)
    P = covariance(state)
    np.testing.assert_array_equal(P, P.T)
    np.testing.assert_allclose(mix @ state.values, mix @ np.arange(8.0), atol=3e3 * (1.0 - forgetting) + 0.2)


def test_estimate_reports_its_noise(regression):
    estimate = rls(regression).estimate
    assert estimate.method == "rls"
    assert estimate.n_rows == len(regression)
    residual = regression.y - regression.W @ estimate.values
    assert estimate.weighted_residual == pytest.approx(np.linalg.norm(residual))
    s2 = residual @ residual / (len(regression) - 9)
    expected = s2 * np.linalg.inv(regression.W.T @ regression.W + 1e-6 * np.eye(9))
    np.testing.assert_allclose(np.diag(estimate.covariance), np.diag(expected), rtol=1e-6)


def test_going_on_from_a_state(regression):
    whole = rls(regression)
    half = regression.run == 0
    fields = {name: getattr(regression, name) for name in Regression.__dataclass_fields__}
    parts = [
        Regression(**{k: v[rows] if k in ("W", "y", "joint", "run", "sample") else v for k, v in fields.items()})
        for rows in (half, ~half)
    ]
    second = rls(parts[1], start=rls(parts[0]).state)
    np.testing.assert_array_equal(second.state.values, whole.state.values)
    np.testing.assert_array_equal(second.state.V, whole.state.V)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: start(3, variance=0.0), "expected positive numbers"),
        (lambda: start(0), "for 0 parameters"),
        (lambda: start(3, values=np.ones(2)), "expected 3 finite numbers"),
        (lambda: update(start(3), np.ones((1, 2)), np.ones(1)), r"expected \(n_rows, 3\)"),
        (lambda: update(start(3), np.full((1, 3), np.nan), np.ones(1)), "not finite"),
        (lambda: update(start(3), np.ones((1, 3)), np.ones(1), forgetting=1.1), "above 0 and at most 1"),
        (lambda: update(start(3), np.ones((1, 3)), np.ones(1), sigma=0.0), "sigma"),
        (lambda: update_many(start(3), np.ones((2, 3)), np.ones(2), ends=np.array([1])), "rise to the 2 rows"),
        (lambda: update_many(start(3), np.ones((2, 3)), np.ones(2), ends=np.array([], int)), "rise to the 2 rows"),
    ],
)
def test_mistakes_are_reported(call, told):
    with pytest.raises(ValueError, match=told):
        call()
