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


def test_nothing_to_stream_is_reported():
    with pytest.raises(ValueError, match="no samples"):
        stream.stream_factors(load("rotradi"), [])
