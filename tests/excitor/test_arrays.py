"""Logs from plain arrays."""

import numpy as np
import pytest

import excitor as ex
from excitor.robots.errors import InvalidLog

Q = np.random.default_rng(0).normal(size=(100, 3))


def test_arrays_become_a_log():
    log = ex.Log.from_arrays(Q, 2 * Q, sample_rate_hz=50.0)
    assert np.array_equal(log.signal("torque").values, 2 * Q)
    assert repr(log) == "<Log arrays: 100 samples at 50 Hz; position (3 joints), torque (3 joints)>"


@pytest.mark.parametrize(
    ("q", "tau", "rate", "match"),
    [
        (Q[:, 0], Q, 50.0, "q has shape .100,., expected 3 samples or more"),
        (Q, Q[:-1], 50.0, r"torque has shape \(99, 3\), expected \(100, 3\)"),
        (Q, np.where(np.arange(300).reshape(100, 3) == 52, np.nan, Q), 50.0, "torque of joint 2 is nan"),
        (Q, Q, 0.0, "sample_rate_hz is 0.0, expected a positive frequency"),
    ],
)
def test_wrong_arrays_are_refused(q, tau, rate, match):
    with pytest.raises(InvalidLog, match=match):
        ex.Log.from_arrays(q, tau, sample_rate_hz=rate)


def test_samples_without_a_plan_choose_their_band():
    robot, rng, t = ex.load_robot("rotradi"), np.random.default_rng(0), np.arange(0.0, 20.0, 0.002)[:, None]
    w = np.array([0.9, 1.7, 2.6])
    q = np.round(np.sin(w * t), 4)
    tau = ex.inverse_dynamics(robot, ex.Motion(np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)))
    found = ex.samples(ex.Log.from_arrays(q, tau + 0.05 * rng.normal(size=q.shape), sample_rate_hz=500.0), robot)
    step = next(step.settings for step in found.steps if step.name == "lowpass")
    assert step["chosen_as"].startswith("chosen by the torques of held-out blocks")
    assert 1.0 <= step["cutoff_hz"] <= 20.0
    with pytest.raises(ValueError, match="lowpass_hz is missing, and the log is too short or too still"):
        ex.samples(ex.Log.from_arrays(Q, Q, sample_rate_hz=50.0), robot)
