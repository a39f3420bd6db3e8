import numpy as np
import pytest

from excitor.design.criteria import Criterion, conditions, gradient, soft_condition, values
from excitor.robots.gram import condition_number

N = 7
RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=(60, N)) * np.logspace(-2, 2, N)
G = W.T @ W
TASK = RANDOM.normal(size=(20, N))
CRITERIA = {
    "condition": Criterion("condition"),
    "raw-condition": Criterion("raw-condition"),
    "d": Criterion("d"),
    "a": Criterion("a", scale=np.logspace(2, -2, N)),
    "e": Criterion("e", scale=np.logspace(2, -2, N)),
    "sigma": Criterion("sigma", scale=np.logspace(2, -2, N), chosen=(1, 4)),
    "path": Criterion("path", task=TASK.T @ TASK / 20),
}


def test_values_are_what_their_names_say():
    """Against definitions by singular values and inverses, none of which the code uses."""
    scale = np.logspace(2, -2, N)
    C = np.linalg.inv(G)
    relative = np.sqrt(np.diag(C)) / scale
    expected = {
        "condition": condition_number(W),
        "raw-condition": np.linalg.cond(W),
        "d": np.exp(-np.log(np.linalg.svd(W, compute_uv=False)).mean()),
        "a": np.sqrt(np.mean(relative**2)),
        "e": 1.0 / np.linalg.svd(W * scale, compute_uv=False)[-1],
        "sigma": np.sqrt(np.mean(relative[[1, 4]] ** 2)),
        "path": np.sqrt(np.mean(np.einsum("ki,ij,kj->k", TASK, C, TASK))),
    }
    for kind, criterion in CRITERIA.items():
        assert values(criterion, G[None])[0] == pytest.approx(expected[kind], rel=1e-7), kind


@pytest.mark.parametrize("kind", CRITERIA)
@pytest.mark.parametrize("softness", [4.0, 50.0])
def test_gradients_are_those_of_differences(kind, softness):
    criterion = CRITERIA[kind]
    direction = RANDOM.normal(size=(N, N)) * np.sqrt(np.outer(np.diag(G), np.diag(G)))
    direction = direction + direction.T
    _, slope = gradient(criterion, G, softness)
    step = 1e-6
    if kind in ("raw-condition", "path"):  # these depend on units: keep them near 1, where differences are exact
        scale = np.diag(np.logspace(2, -2, N))
        direction = np.linalg.inv(scale) @ direction @ np.linalg.inv(scale) * 1e-3
    up, down = (gradient(criterion, G + sign * step * direction, softness)[0] for sign in (1.0, -1.0))
    assert np.sum(slope * direction) == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("p", [4.0, 32.0, 200.0])
def test_the_soft_condition_bounds_the_condition(p):
    exact = np.log(condition_number(W))
    soft = soft_condition(G, p)[0]
    assert exact - 1e-9 <= soft <= exact + np.log(N) / p + 1e-9


def _with_eigenvalues(values):
    Q, _ = np.linalg.qr(np.random.default_rng(len(values)).normal(size=(len(values),) * 2))
    return (Q * values) @ Q.T


AWKWARD = {
    "of one column": np.array([[4.0]]),
    "of two columns": np.array([[4.0, 1.0], [1.0, 9.0]]),
    "diagonal": np.diag([3.0, 1.0, 1.0, 7.0]),
    "in blocks": np.kron(np.eye(5), np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])),
    "with a zero in its first row": np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.4], [0.0, 0.4, 5.0]]),
    "all eigenvalues but two alike": _with_eigenvalues(np.array([9.0, *[2.0] * 38, 0.5])),
    "two clusters": _with_eigenvalues(np.r_[np.linspace(9.0, 9.0 + 1e-9, 20), np.linspace(1.0, 1.0 + 1e-12, 32)]),
    "nearly singular": _with_eigenvalues(np.logspace(-9.0, 1.0, 25)),
    "of the usual size": _with_eigenvalues(np.linspace(0.1, 3.0, 52)),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("p", [8.0, 100.0, 400.0])
@pytest.mark.parametrize("normalised", [True, False])
def test_the_soft_condition_and_its_slope_are_those_of_numpys_eigenvalues(name, p, normalised):
    M = AWKWARD[name]
    D = np.diag(M) ** -0.5 if normalised else np.ones(len(M))
    size, V = np.linalg.eigh(M * np.outer(D, D))
    log_up, log_down = p * np.log(size / size[-1]), p * np.log(size[0] / size)
    up, down = np.exp(log_up), np.exp(log_down)
    J = 0.5 * (np.log(size[-1] / size[0]) + (np.log(up.sum()) + np.log(down.sum())) / p)
    by_normalised = (V * (0.5 / size * (up / up.sum() - down / down.sum()))) @ V.T
    slope = by_normalised * np.outer(D, D)
    if normalised:
        slope -= np.diag(np.sum(by_normalised * (M * np.outer(D, D)), axis=1) * D**2)
    before = M.copy()
    found, bar = soft_condition(M, p, normalised)
    assert np.array_equal(M, before)
    exact = 2e-5 if name == "nearly singular" else 1e-9  # the least eigenvalue is known to 2e-6 there
    assert found == pytest.approx(J, rel=exact, abs=1e-12)
    assert np.abs(bar - slope).max() <= exact * max(np.abs(slope).max(), 1e-3)


@pytest.mark.parametrize("kind", CRITERIA)
def test_a_singular_matrix_is_infinitely_bad(kind):
    broken = W.copy()
    broken[:, 2] = broken[:, 3] * 5.0
    zero = W.copy()
    zero[:, 0] = 0.0
    for bad in (broken, zero):
        assert values(CRITERIA[kind], (bad.T @ bad)[None])[0] == np.inf


def test_batches_are_single_matrices_side_by_side():
    stack = np.array([G, np.eye(N), 3.0 * G])
    both = values(CRITERIA["condition"], stack)
    assert both[0] == pytest.approx(both[2], rel=1e-12)
    assert both[1] == pytest.approx(1.0)
    assert np.array_equal(conditions(stack), both)


def test_criteria_that_lack_something_are_refused():
    with pytest.raises(ValueError, match="needs the chosen parameters"):
        Criterion("sigma")
    with pytest.raises(ValueError, match="needs a task"):
        Criterion("path")
    with pytest.raises(ValueError, match="scale must be positive"):
        Criterion("a", scale=np.array([1.0, 0.0]))
