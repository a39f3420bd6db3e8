"""Simulated runs with a known truth."""

import numpy as np
import pytest

from excitor.identify.samples import Samples
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import Motion

RATE = 100.0


def fourier_motion(robot, n_samples, seed, harmonics=5):
    """A random periodic motion around the middle of the joints' ranges."""
    rng = np.random.default_rng(seed)
    w = 2 * np.pi * RATE / n_samples
    t = np.arange(n_samples) / RATE
    limits = robot.limits
    q = np.tile(limits.position.mean(axis=1), (n_samples, 1))
    dq, ddq = np.zeros_like(q), np.zeros_like(q)
    for k in range(1, harmonics + 1):
        size = np.minimum(np.diff(limits.position, axis=1)[:, 0] / 4, limits.velocity / (2 * k * w)) / harmonics
        a, b = rng.uniform(-1, 1, size=(2, robot.n_joints)) * size
        s, c = np.sin(k * w * t)[:, None], np.cos(k * w * t)[:, None]
        q += a * s + b * c
        dq += k * w * (a * c - b * s)
        ddq -= (k * w) ** 2 * (a * s + b * c)
    return Motion(q, dq, ddq)


def simulated_run(robot, chi, seed=0, *, n_samples=600, noise=0.0, run=None):
    """Measure a simulated robot: torques of its model, with white noise of the given size a joint."""
    motion = fourier_motion(robot, n_samples, seed)
    rng = np.random.default_rng(10_000 + seed)
    tau = inverse_dynamics(robot, motion, chi)
    tau = tau + rng.normal(size=tau.shape) * noise
    return Samples(run or f"run {seed}", motion, tau, RATE)


@pytest.fixture
def simulate():
    return simulated_run
