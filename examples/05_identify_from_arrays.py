"""Identify from plain numpy arrays: positions and torques that were measured anyhow."""

import numpy as np

import excitor as ex

robot = ex.load_robot("rotradi")
rng = np.random.default_rng(0)
t = np.arange(0.0, 30.0, 0.005)[:, None]
w = np.array([0.9, 1.7, 2.6])
q = np.sin(w * t) + 0.4 * np.sin(2.3 * w * t)
dq = w * np.cos(w * t) + 0.92 * w * np.cos(2.3 * w * t)
ddq = -(w**2) * np.sin(w * t) - 2.116 * w**2 * np.sin(2.3 * w * t)
tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + 0.2 * rng.normal(size=q.shape)

log = ex.Log.from_arrays(q + 1e-5 * rng.normal(size=q.shape), tau, sample_rate_hz=200.0, name="my arrays")
samples = ex.samples(log, robot, lowpass_hz=10.0)
model = ex.fit(samples)
print(samples, model, sep="\n")
print("torque at rest, N m:", model.torque(np.zeros(3), np.zeros(3), np.zeros(3)).round(2))
