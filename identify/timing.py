"""When is motion? Three ways to difference the positions of encoders.

Positions and torques were sampled together; torque k was held from sample k to sample k + 1. A difference quotient is
the mean velocity between its samples: where it is written down decides how late the motion is.
"""

import numpy as np

from excitor.identify.samples import Samples, Step
from excitor.identify.signals import differentiate
from excitor.robots.arrays import FloatArray, check_shape
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion


def backward(run: str, q: FloatArray, tau: FloatArray, rate: float) -> Samples:
    """Difference backward, twice: velocities come half a sample late, accelerations a whole one, as published.

    The first two samples, which have no such differences, are left out.
    """
    q, tau = _checked(run, q, tau)
    dq = np.diff(q, axis=0) * rate
    motion = Motion(q[2:], dq[1:], np.diff(dq, axis=0) * rate)
    return Samples(run, motion, tau[2:], rate, steps=_step("backward differences"), phase=0.0)


def central(run: str, q: FloatArray, tau: FloatArray, rate: float) -> Samples:
    """Difference about each sample: velocities and accelerations belong to its very instant, the ends are left out."""
    q, tau = _checked(run, q, tau)
    motion = Motion(q[1:-1], 0.5 * rate * (q[2:] - q[:-2]), np.diff(q, n=2, axis=0) * rate**2)
    return Samples(run, motion, tau[1:-1], rate, steps=_step("central differences"), phase=0.0)


def mid_sample(run: str, q: FloatArray, tau: FloatArray, rate: float) -> Samples:
    """Evaluate motion between samples, where the difference quotient lives, beside the torque held over there."""
    q, tau = _checked(run, q, tau)
    dq = np.diff(q, axis=0) * rate
    motion = Motion(0.5 * (q[1:] + q[:-1]), dq, differentiate(dq, sample_rate_hz=rate))
    return Samples(run, motion, tau[:-1], rate, steps=_step("mid-sample differences"), phase=0.5)


def _step(name: str) -> tuple[Step, ...]:
    return (Step(name, {}),)


def _checked(run: str, q: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    q, tau = np.asarray(q, dtype=float), np.asarray(tau, dtype=float)
    if q.ndim != 2 or len(q) < 4:
        raise ExcitorError(f"run {run!r}: positions have shape {q.shape}, expected 4 samples or more of every joint")
    check_shape(tau, f"{q.shape[0]} {q.shape[1]}", "tau")
    return q, tau
