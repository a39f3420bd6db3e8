"""Register an estimator of your own and compare it with others, on samples that none was fitted to."""

import numpy as np

import excitor as ex


def median_of_blocks(W, y, blocks=9):
    """Take the median of least squares over interleaved blocks of rows."""
    fits = [np.linalg.lstsq(W[k::blocks], y[k::blocks], rcond=None)[0] for k in range(blocks)]
    return np.median(fits, axis=0)


ex.register(ex.estimator("median", "Assumes that fewer than half of the blocks are spoiled.", median_of_blocks))

robot = ex.load_robot("rotradi")
rng = np.random.default_rng(0)
t, w = np.arange(0.0, 30.0, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + 0.2 * rng.normal(size=q.shape)
samples = ex.Samples("run", ex.Motion(q, dq, ddq), tau, 100.0, robot=robot)

comparison = ex.compare(samples, methods=["ols", "wls", "median"])
print(comparison)
for name, error in comparison.errors.items():
    print(f"{name:8} {100 * error:.2f} % held-out torque error")
