"""The forecast of a design and the consistent model of its data rest on one prior belief and one rule of labels."""

import numpy as np
import pytest

from excitor.design.forecast import PlannedRun, forecast
from excitor.identify.consistent import pose, standard_columns
from excitor.identify.estimate import compress
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.base import random_motion
from excitor.robots.belief import Prior, coordinates, labels, shares
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.information import Noise
from excitor.robots.load import catalog_names, load
from excitor.robots.parameters import layout

RATE, N = 100.0, 800


@pytest.fixture(scope="module", params=catalog_names())
def case(request):
    """Simulate the very rows that were planned, with white noise; also set the fit up on them."""
    robot = load(request.param)
    motion = random_motion(robot, N, robot.locked, 7)
    tau = inverse_dynamics(robot, motion)
    sigma = 0.01 * np.maximum(tau.std(axis=0), 1e-3 * tau.std())
    noise = np.random.default_rng(0).normal(size=tau.shape) * sigma
    told = forecast(robot, [PlannedRun("run", motion, N / RATE, 1)], Noise(sigma, RATE))
    samples = Samples("run", motion, tau + noise, RATE)
    factors = compress(dynamic_regression(robot, [samples], columns=standard_columns(robot)))
    groups = {(int(j), int(k)): float(sigma[j]) for j, k in zip(factors.joint, factors.run, strict=True)}
    return robot, told.standard, pose(factors, robot, sigma=groups)


def test_prior_bodies_and_widths_are_equal(case):
    robot, planned, task = case
    before = coordinates(robot, Prior(), np.zeros(len(layout(robot))), level=None)
    for planned_body, fitted_body in zip(before.bodies, task.coordinates.bodies, strict=True):
        np.testing.assert_array_equal(planned_body.P0, fitted_body.P0)
    links = task.coordinates.columns < layout(robot).n_link_params
    fitted = np.zeros(len(layout(robot)))
    fitted[task.coordinates.columns] = np.linalg.norm(task.coordinates.B, axis=1)
    widths = np.array([parameter.sigma_prior for parameter in planned])
    link_columns = task.coordinates.columns[links]
    np.testing.assert_allclose(widths[link_columns], fitted[link_columns], rtol=1e-12)
    # friction is as wide as what would explain the torques: planned without noise, measured with 1 %
    np.testing.assert_allclose(widths, fitted, rtol=0.02)


def test_labels_are_equal(case):
    robot, planned, task = case
    share = np.zeros(len(layout(robot)))
    share[task.coordinates.columns] = shares(task.A, task.coordinates.B, task.prior.weight).share
    np.testing.assert_allclose([parameter.share for parameter in planned], share, atol=0.03)
    clear = np.abs(share - 0.5) > 0.03
    assert clear.mean() > 0.9
    fitted = np.array(labels(share, robot.assumed_zero))
    assert np.array([parameter.label for parameter in planned])[clear].tolist() == fitted[clear].tolist()
