"""What torque sensors and encoders of a virtual robot add to the truth."""

import numpy as np
import scipy.signal

from excitor.robots.arrays import FloatArray

MEMORY = 0.98  # of the slow error from one sample to the next


def with_noise(tau: FloatArray, rng: np.random.Generator, *, white: FloatArray, slow: FloatArray) -> FloatArray:
    """Add white noise and a slowly varying error, with the given standard deviations a joint, to (n_samples, n_joints).

    The slow error is x_k = m x_{k-1} + (1 - m) w_k, scaled to its standard deviation.
    """
    drive = rng.normal(size=tau.shape)
    walk = scipy.signal.lfilter([1.0 - MEMORY], [1.0, -MEMORY], drive, axis=0)
    stationary = (1.0 - MEMORY) / np.sqrt(1.0 - MEMORY**2)
    return np.asarray(tau + rng.normal(size=tau.shape) * white + walk / stationary * slow)
