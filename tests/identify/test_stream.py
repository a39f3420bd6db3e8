"""Streaming gives the estimate of the whole, and remembers nothing of the log's length."""

import numpy as np
import pytest

from excitor.identify import estimate as stream
from excitor.identify.estimate import compress, wls
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion


@pytest.mark.parametrize("name", ["tx40", "qrc350", "rotradi"])
def test_streamed_estimate_is_the_whole_one(name, simulate, monkeypatch):
    robot = load(name)
    chi = np.where(robot.assumed_zero, 0.0, prior(robot))
    runs = [simulate(robot, chi, seed, noise=0.5, n_samples=300) for seed in (0, 1)]
    whole = wls(compress(dynamic_regression(robot, runs)))
    monkeypatch.setattr(stream, "CHUNK", 37)
    streamed = wls(stream.stream_factors(robot, runs))
    assert streamed.names == whole.names
    assert streamed.n_rows == whole.n_rows
    # the information matrix of 300 samples has a condition of 1e6 or so: rounding is multiplied by it
    np.testing.assert_allclose(streamed.values, whole.values, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(streamed.sigma, whole.sigma, rtol=1e-8)


def test_chunks_of_one_run_may_come_one_by_one(simulate):
    robot = load("tx40")
    run = simulate(robot, prior(robot), noise=0.5, n_samples=300)
    parts = []
    for rows in (slice(0, 7), slice(7, 200), slice(200, 300)):
        motion = Motion(run.motion.q[rows], run.motion.dq[rows], run.motion.ddq[rows])
        parts.append(Samples(run.run, motion, run.tau[rows], run.sample_rate_hz))
    one, other = (wls(stream.stream_factors(robot, chunks)) for chunks in ([run], iter(parts)))
    np.testing.assert_allclose(other.values, one.values, rtol=1e-8, atol=1e-8)


def test_a_joint_touches_only_its_own_columns():
    """The columns left out for a joint are 0 in its rows, whatever it does."""
    from excitor.robots.base import base_parameters, random_motion
    from excitor.robots.dynamics import regressor

    robot = load("qrc350")
    columns = base_parameters(robot).kept
    Y = regressor(robot, random_motion(robot, 50, seed=7))[:, :, columns]
    for j, own in enumerate(stream.own_columns(robot, columns)):
        others = np.setdiff1d(np.arange(len(columns)), own)
        assert others.size > 0
        assert not Y[:, j, others].any()


@pytest.mark.parametrize("exponent", [0, 6])
def test_triangles_merged_by_cholesky_are_those_by_reflections(exponent):
    """Also where columns nearly depend on each other: the earlier triangle takes the condition number away."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(3000, 12)) @ (np.eye(12) + (1.0 - 10.0**-exponent) * rng.normal(size=(12, 12)) / 4)
    rows[:, -2] = rows[:, 0] + 10.0**-exponent * rows[:, -2]
    R = None
    for part in np.split(rows, 6):
        R = stream.update(R, np.asfortranarray(part))
    by_reflections = np.linalg.qr(rows, mode="r")
    sign = np.sign(np.diag(R)) * np.sign(np.diag(by_reflections))
    error = np.abs(sign[:, None] * R - by_reflections).max(axis=0) / np.linalg.norm(rows, axis=0)
    assert error.max() < 1e-15 * 10.0**exponent + 1e-14
    assert not np.tril(R, -1).any()


def test_many_runs_of_a_joint_weigh_like_one(simulate):
    robot = load("rotradi")
    whole = simulate(robot, prior(robot), noise=0.5, n_samples=300)
    parts = [Samples(f"run {k}", whole.motion[k::3], whole.tau[k::3], whole.sample_rate_hz) for k in range(3)]
    one, many = (wls(stream.stream_factors(robot, runs)) for runs in ([whole], parts))
    np.testing.assert_allclose(many.values, one.values, rtol=1e-9, atol=1e-10)
    assert len(many.group_sigma) == 9
    assert {key: many.group_sigma[key] for key in [(j, 2) for j in range(3)]} == pytest.approx(
        {(j, 2): one.group_sigma[j, 0] for j in range(3)}
    )


def test_nothing_to_stream_is_reported():
    with pytest.raises(ValueError, match="no samples"):
        stream.stream_factors(load("rotradi"), [])
