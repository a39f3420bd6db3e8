"""The consistent model nearest to an estimate is the one the data give, and a body whatever the estimate."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.identify.consistent import COSTLY, consistent_fit, consistent_of, delivered, standard_columns
from excitor.identify.estimate import compress, wls
from excitor.identify.regression import dynamic_regression
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import check_consistency
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior


@pytest.fixture(scope="module")
def arm():
    return load("rotradi")


@pytest.fixture
def runs(arm, simulate):
    return [simulate(arm, prior(arm), seed, n_samples=300, noise=np.array([0.5, 1.0, 0.2])) for seed in (0, 1)]


def test_of_weighted_least_squares_it_is_the_fit_to_the_data(arm, runs):
    estimate = wls(compress(dynamic_regression(arm, runs)))
    factors = compress(dynamic_regression(arm, runs, columns=standard_columns(arm)))
    of_data = consistent_fit(factors, arm, sigma=estimate.group_sigma)
    of_estimate = consistent_of(estimate, arm)
    # friction's prior has another size in either, of which data-determined parameters feel next to nothing
    apart = np.abs(of_data.beta - of_estimate.beta) / estimate.sigma
    assert apart.max() < 0.01
    assert np.max(np.abs(of_data.chi - of_estimate.chi) / np.maximum(np.abs(of_data.chi), 1e-2)) < 0.01
    assert of_estimate.data_residual / np.sqrt(of_estimate.n_rows) == pytest.approx(
        of_data.data_residual / of_data.wls_residual * of_estimate.wls_residual / np.sqrt(of_data.n_rows), rel=1e-4
    )


def test_an_impossible_estimate_becomes_a_body(arm, runs):
    estimate = wls(compress(dynamic_regression(arm, runs)))
    k = estimate.names.index("ZZ3")
    values = estimate.values.copy()
    values[k] = -0.05
    found = consistent_of(replace(estimate, values=values), arm)
    params = layout(arm)
    for link in range(params.n_links):
        assert check_consistency(found.chi[params.link(link)]).smallest_eigenvalue > 0.0
    assert found.beta[k] > 0.0


def test_rows_of_the_estimate_are_counted(arm, runs):
    estimate = wls(compress(dynamic_regression(arm, runs)))
    n, found = len(estimate.names), consistent_of(estimate, arm)
    assert (found.n_rows, found.wls_residual) == (estimate.n_rows, pytest.approx(np.sqrt(estimate.n_rows - n)))
    few = consistent_of(replace(estimate, n_rows=3), arm)
    assert (few.n_rows, few.wls_residual) == (n + 1, pytest.approx(1.0))


def test_consistent_parameters_are_delivered_where_they_are_cheap_and_whole(arm, runs):
    estimate, base = wls(compress(dynamic_regression(arm, runs))), base_parameters(arm)
    found = consistent_of(estimate, arm)
    model = delivered(arm, estimate, None, found)
    C = base.regrouping @ found.covariance @ base.regrouping.T
    scale = np.sqrt(np.diag(C))
    assert model.consistent
    np.testing.assert_array_equal(model.chi, found.chi)
    np.testing.assert_allclose(
        model.root @ model.root.T / np.outer(scale, scale), C / np.outer(scale, scale), atol=1e-9
    )
    np.testing.assert_allclose(model.values, found.beta)
    seen = np.zeros(len(found.chi))
    seen[base.kept[0]] = 1.0  # nothing else is doubtful
    thin = delivered(arm, estimate, None, replace(found, covariance=np.outer(seen, seen)))
    np.testing.assert_allclose(np.abs(thin.root[:, -1]), np.abs(base.regrouping @ seen), atol=1e-6)
    for loss, taken in ((0.99 * COSTLY, True), (1.01 * COSTLY, False)):
        costly = replace(found, data_residual=(1.0 + loss) * found.wls_residual)
        assert delivered(arm, estimate, None, costly).consistent == taken
    own = delivered(arm, estimate, estimate.covariance, costly)
    np.testing.assert_array_equal(own.values, estimate.values)
    np.testing.assert_array_equal(own.chi[layout(arm).indices(own.names)], estimate.values)
    np.testing.assert_allclose(own.root @ own.root.T, estimate.covariance, atol=1e-9 * estimate.covariance.max())
    assert not delivered(
        arm, estimate, None, replace(found, audit=replace(found.audit, relative_margin=0.0))
    ).consistent


def test_what_is_known_well_moves_less(arm, runs):
    """The metric counts: the same error in a parameter that is known a hundred times better stays."""
    estimate = wls(compress(dynamic_regression(arm, runs)))
    believed = base_parameters(arm).values(prior(arm))
    k = estimate.names.index("Fv2")
    values = believed.copy()
    values[k] = believed[k] + 0.5
    C = np.diag((0.05 * np.abs(believed) + 0.01) ** 2)
    vague, sharp = C.copy(), C.copy()
    vague[k, k], sharp[k, k] = 50.0**2, 1e-3**2
    moved = [
        abs(consistent_of(replace(estimate, values=values), arm, covariance=cov).beta[k] - values[k])
        for cov in (vague, sharp)
    ]
    assert moved[1] < 0.01 * moved[0]


def test_some_parameters_suffice(arm, runs):
    estimate = wls(compress(dynamic_regression(arm, runs)))
    few = slice(0, 5)
    part = replace(
        estimate,
        names=estimate.names[few],
        units=estimate.units[few],
        values=estimate.values[few],
        covariance=estimate.covariance[few, few],
        singular_values=estimate.singular_values[few],
    )
    assert consistent_of(part, arm).status == "optimal"


def test_what_is_not_the_robots_is_reported(arm, runs):
    estimate = wls(compress(dynamic_regression(arm, runs)))
    with pytest.raises(ExcitorError, match="no base parameters of rotradi"):
        consistent_of(replace(estimate, names=("wrong", *estimate.names[1:])), arm)
    flat = replace(estimate, covariance=np.zeros_like(estimate.covariance))
    with pytest.raises(ExcitorError, match="not positive definite"):
        consistent_of(flat, arm)
