"""Total least squares against eigenvectors, Deming's closed form and the nearest rank-deficient matrix."""

import numpy as np
import pytest
import scipy.linalg

from excitor.identify.noise import mixed_total_least_squares, total_least_squares


def noisy_equations(seed=0, rows=200, columns=5, noise=0.05):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=columns)
    M = rng.normal(size=(rows, columns))
    M -= np.outer(M @ x, x) / (x @ x)
    return M + noise * rng.normal(size=M.shape), x


def same_direction(a, b):
    return a / a[-1], pytest.approx(b / b[-1], rel=1e-8)


def test_all_noisy_is_the_eigenvector_of_the_smallest_eigenvalue():
    M, _ = noisy_equations()
    values, vectors = np.linalg.eigh(M.T @ M)
    found = total_least_squares(M)
    ours, theirs = same_direction(found.x, vectors[:, 0])
    assert ours == theirs
    assert found.singular_values == pytest.approx(np.sqrt(values[::-1]), rel=1e-9)
    assert found.gap == pytest.approx(np.sqrt(values[1] / values[0]), rel=1e-9)


def test_it_solves_the_nearest_compatible_system():
    """Eckart and Young: the correction has the smallest singular value as its norm, and no smaller one exists."""
    M, _ = noisy_equations(seed=1)
    found = total_least_squares(M)
    nearest = M - np.outer(M @ found.x, found.x)
    assert np.linalg.norm(nearest @ found.x) < 1e-12 * np.linalg.norm(M)
    assert np.linalg.norm(M - nearest) == pytest.approx(found.singular_values[-1], rel=1e-10)
    rng = np.random.default_rng(2)
    for other in rng.normal(size=(50, M.shape[1])):
        other = other / np.linalg.norm(other)
        assert np.linalg.norm(M @ other) >= found.singular_values[-1]


def test_mixed_is_demings_line_with_an_exact_intercept():
    """y = a + b x, noise of x and y in the ratio δ = σ_y² / σ_x²: the textbook's closed form."""
    rng = np.random.default_rng(3)
    t = rng.uniform(0.0, 10.0, 80)
    x, y = t + 0.4 * rng.normal(size=80), 1.5 + 0.7 * t + 0.2 * rng.normal(size=80)
    delta = 0.25
    sxx, syy, sxy = np.var(x), np.var(y), np.cov(x, y, ddof=0)[0, 1]
    slope = (syy - delta * sxx + np.sqrt((syy - delta * sxx) ** 2 + 4.0 * delta * sxy**2)) / (2.0 * sxy)
    M = np.column_stack([np.ones(80), x, -y])
    found = mixed_total_least_squares(M, np.array([False, True, True]), np.diag([1.0, delta])).x
    found = found / found[-1]
    assert found[1] == pytest.approx(slope, rel=1e-9)
    assert found[0] == pytest.approx(y.mean() - slope * x.mean(), rel=1e-9)


def test_mixed_is_the_limit_of_little_noise_in_the_exact_columns():
    M, _ = noisy_equations(seed=4)
    noisy = np.array([False, True, True, False, True])
    A = np.random.default_rng(5).normal(size=(3, 3))
    C = A @ A.T + np.eye(3)
    found = mixed_total_least_squares(M, noisy, C)
    whole = 1e-7 * np.eye(5)
    whole[np.ix_(noisy, noisy)] = C
    _, vectors = scipy.linalg.eigh(M.T @ M, whole)
    assert found.x / found.x[-1] == pytest.approx(vectors[:, 0] / vectors[-1, 0], rel=1e-5)
    quotient = np.sum((M @ found.x) ** 2) / (found.x[noisy] @ C @ found.x[noisy])
    assert quotient == pytest.approx(found.singular_values[-1] ** 2, rel=1e-9)


def test_units_of_exact_columns_change_nothing_but_their_entries():
    M, _ = noisy_equations(seed=6)
    noisy = np.array([False, True, True, False, True])
    scale = np.array([1e3, 1.0, 1.0, 1e-4, 1.0])
    here = mixed_total_least_squares(M, noisy, np.eye(3))
    there = mixed_total_least_squares(M * scale, noisy, np.eye(3))
    assert there.singular_values == pytest.approx(here.singular_values, rel=1e-9)
    assert there.x / there.x[-1] * scale == pytest.approx(here.x / here.x[-1], rel=1e-9)


def test_exact_equations_give_their_null_vector():
    M, x = noisy_equations(seed=7, noise=0.0)
    assert total_least_squares(M).x / total_least_squares(M).x[-1] == pytest.approx(x / x[-1], rel=1e-9)
    assert total_least_squares(M).gap > 1e10


def test_two_null_vectors_leave_no_gap():
    M, _ = noisy_equations(seed=8, rows=4000, noise=0.01)
    two = np.column_stack([M, 0.01 * np.random.default_rng(9).normal(size=len(M))])
    assert total_least_squares(M).gap > 20.0
    assert total_least_squares(two).gap < 1.2


def test_one_noisy_column_has_no_other_direction_to_compare_with():
    M, _ = noisy_equations(seed=10)
    assert mixed_total_least_squares(M, np.array([False] * 4 + [True]), np.eye(1)).gap == 1.0
