"""Forecasts against simulated campaigns: whether repeated identification scatters by the σ that was predicted.

Each campaign is measured with fresh noise, averaged over its periods and identified by weighted least squares, weights
estimated anew. The motion is the same in all: its equations are factored once, with one right-hand side a campaign.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.signal

from excitor.design.forecast import Forecast, PlannedRun, forecast
from excitor.experiments.figures import Figure
from excitor.identify.estimate import Factors, compress, group_sigma, wls
from excitor.identify.intervals import whiteness
from excitor.identify.periods import average_periods
from excitor.identify.regression import Regression, dynamic_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.information import Noise
from excitor.robots.load import load
from excitor.robots.robot import Motion, Robot

ROBOTS = ("tx40", "iiwa")
N_CAMPAIGNS = 200
MOTIONS = 10  # a robot, in the full bench; otherwise 1
RANGE = (0.85, 1.18)  # of predicted over observed σ; an observed σ of 200 has a standard error of 5 %
PERIOD, RATE, N_PERIODS, HARMONICS = 10.0, 100.0, 4, 5
GRID = 640  # samples a period that the forecast looks at; the log has PERIOD · RATE
NOISE = 0.03  # of each joint's rms torque
MEMORY = 0.8  # of coloured noise, from one sample to the next


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """One robot with one motion, its torques and the noise on them."""

    robot: Robot
    sampled: Motion  # one period at RATE
    planned: PlannedRun
    tau: FloatArray  # (n_samples, n_joints), of one period
    sigma: FloatArray  # (n_joints,)


@one_blas_thread()
def measure(full: bool = False) -> dict[str, Any]:
    """Measure shares of parameters whose forecast holds; `full` takes MOTIONS motions a robot, else one.

    Both simulate all 200 campaigns of a motion, which takes seconds: 20 would leave the observed σ uncertain by 16 %.
    """
    start = time.process_time()
    seeds = range(MOTIONS if full else 1)
    white = {name: np.concatenate([white_ratios(plan(name, seed)) for seed in seeds]) for name in ROBOTS}
    inflated, naive = (np.concatenate(r) for r in zip(*(coloured_ratios("tx40", s) for s in seeds), strict=True))
    shares = {name: share(ratios) for name, ratios in white.items()}
    return {
        "figures": [
            *(Figure(f"design.forecast.white.{name}", shares[name], "", 0.95, "at least") for name in ROBOTS),
            Figure("design.forecast.coloured.median", float(np.median(inflated)), "", 1.0, "within", tolerance=0.15),
            Figure("design.forecast.coloured.uninflated_median", float(np.median(naive))),
            Figure("design.forecast.coloured.share", share(inflated)),
        ],
        "context": {
            "what": f"predicted over observed sigma of base parameters; share within {RANGE[0]} to {RANGE[1]}",
            "campaigns": f"{N_CAMPAIGNS} of {N_PERIODS} periods of {PERIOD:g} s at {RATE:g} Hz, {len(seeds)} motions",
            "ratios": {name: _spread(ratios) for name, ratios in white.items()} | {"coloured": _spread(inflated)},
            "cpu_s": time.process_time() - start,
        },
    }


def share(ratios: FloatArray) -> float:
    """Tell how many ratios are within RANGE."""
    return float(np.mean((ratios >= RANGE[0]) & (ratios <= RANGE[1])))


def white_ratios(planned: Plan, n_campaigns: int = N_CAMPAIGNS) -> FloatArray:
    """Compare predicted and observed σ under white noise, (n_base,)."""
    noise = Noise(planned.sigma, RATE)
    expected = forecast(planned.robot, [planned.planned], noise)
    return predicted(expected) / observed_sigma(planned, memory=0.0, n_campaigns=n_campaigns)


def coloured_ratios(name: str, seed: int, n_campaigns: int = N_CAMPAIGNS) -> tuple[FloatArray, FloatArray]:
    """Compare under coloured noise whose size and inflation an earlier log, of another motion, has told."""
    planned = plan(name, seed)
    noise = learned_noise(replace(plan(name, 1000 + seed), sigma=planned.sigma), seed)
    expected = forecast(planned.robot, [planned.planned], noise)
    observed = observed_sigma(planned, memory=MEMORY, n_campaigns=n_campaigns)
    return predicted(expected) / observed, predicted(expected, inflated=False) / observed


def predicted(expected: Forecast, *, inflated: bool = True) -> FloatArray:
    """Read the expected standard deviations, (n_base,)."""
    return np.array([p.sigma_inflated if inflated else p.sigma for p in expected.parameters])


def learned_noise(earlier: Plan, seed: int) -> Noise:
    """Learn noise from one log: residuals by joint, and how many times fewer independent ones they are worth."""
    rng = np.random.default_rng(50_000 + seed)
    motion = Motion(*(np.tile(x, (N_PERIODS, 1)) for x in _arrays(earlier.sampled)))
    tau = np.tile(earlier.tau, (N_PERIODS, 1))
    regression = equations(earlier.robot, motion, tau + coloured(rng, tau.shape, MEMORY) * earlier.sigma)
    factors = compress(regression)
    estimate = wls(factors)
    entries = whiteness(regression, regression.y - regression.W @ estimate.values)
    inflation = np.sqrt([entry.inflation for entry in entries])
    return Noise(group_sigma(factors, estimate.values, "joint"), RATE, inflation, source="an earlier log")


def observed_sigma(planned: Plan, *, memory: float, n_campaigns: int) -> FloatArray:
    """Repeat the campaign with noise of seeds 0, 1, … and return how its estimates scatter, (n_base,)."""
    torques = np.array([averaged(planned, seed, memory) for seed in range(n_campaigns)])
    estimates = [wls(factors).values for factors in campaign_factors(planned, torques)]
    return np.asarray(np.std(estimates, axis=0, ddof=1))


def averaged(planned: Plan, seed: int, memory: float) -> FloatArray:
    """Measure one campaign's torques and average its periods, (n_samples, n_joints)."""
    tau = np.tile(planned.tau, (N_PERIODS, 1))
    noise = coloured(np.random.default_rng(seed), tau.shape, memory)
    return average_periods(tau + noise * planned.sigma, len(planned.tau)).mean


def campaign_factors(planned: Plan, torques: FloatArray) -> list[Factors]:
    """Compress the equations of all campaigns at once, as `compress` would one by one.

    QR of [W y_1 y_2 …] has in its first rows the triangle of W and every Qᵀy; what is below is residual.
    """
    first = equations(planned.robot, planned.sampled, torques[0])
    n, n_campaigns = first.W.shape[1], len(torques)
    joints = np.unique(first.joint)
    triangles = np.zeros((n_campaigns, len(joints), n + 1, n + 1))
    counts = np.zeros(len(joints), dtype=np.int64)
    for g, joint in enumerate(joints):
        rows = first.joint == joint
        Y = torques[:, first.sample[rows], joint].T
        R = np.asarray(scipy.linalg.qr(np.column_stack([first.W[rows], Y]), mode="r", check_finite=False)[0])
        triangles[:, g, :n, :n] = R[:n, :n]
        triangles[:, g, :n, n] = R[:n, n:].T
        triangles[:, g, n, n] = np.linalg.norm(R[n:, n:], axis=0)
        counts[g] = np.count_nonzero(rows)
    run = np.zeros(len(joints), dtype=np.int64)
    return [Factors(first.names, first.units, joints, run, counts, R) for R in triangles]


def equations(robot: Robot, motion: Motion, tau: FloatArray) -> Regression:
    """Set up the equations of one run's base parameters."""
    return dynamic_regression(robot, [Samples("run", motion, tau, RATE)])


def coloured(rng: np.random.Generator, shape: tuple[int, ...], memory: float) -> FloatArray:
    """Draw x_k = m x_(k-1) + √(1 - m²) w_k of unit variance along the first axis; white where m is 0."""
    w = rng.normal(size=shape)
    w[0] /= np.sqrt(1.0 - memory**2)  # steady from the first sample on
    return np.asarray(np.sqrt(1.0 - memory**2) * scipy.signal.lfilter([1.0], [1.0, -memory], w, axis=0))


def plan(name: str, seed: int) -> Plan:
    """Plan a random motion of a robot, its torques by the prior model and its noise in proportion."""
    robot = load(name)
    sampled = random_series(robot, seed, int(PERIOD * RATE))
    tau = inverse_dynamics(robot, sampled)
    run = PlannedRun(f"motion {seed}", random_series(robot, seed, GRID), PERIOD, N_PERIODS)
    return Plan(robot, sampled, run, tau, NOISE * np.sqrt(np.mean(tau**2, axis=0)))


def random_series(robot: Robot, seed: int, n_samples: int) -> Motion:
    """Draw a Fourier series about the middle of each joint's range, as large as its limits allow; one period."""
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(2, HARMONICS, robot.n_joints)) / np.arange(1, HARMONICS + 1)[None, :, None]
    fine = _series(coefficients, 5000)
    limits = robot.limits
    room = np.array([0.5 * np.ptp(limits.position, axis=1), limits.velocity, limits.acceleration])
    size = 0.95 * np.min(room / np.abs(fine).max(axis=1), axis=0)
    q, dq, ddq = _series(coefficients * size, n_samples)
    return Motion(limits.position.mean(axis=1) + q, dq, ddq)


def _series(coefficients: FloatArray, n_samples: int) -> FloatArray:
    """Evaluate Σ_k a_k sin kωt + b_k cos kωt and two derivatives, (3, n_samples, n_joints)."""
    k = 2.0 * np.pi / PERIOD * np.arange(1, HARMONICS + 1)
    angle = np.outer(np.arange(n_samples) * PERIOD / n_samples, k)
    a, b = coefficients
    sin, cos = np.sin(angle), np.cos(angle)
    return np.array([sin @ a + cos @ b, (cos * k) @ a - (sin * k) @ b, -(sin * k**2) @ a - (cos * k**2) @ b])


def _arrays(motion: Motion) -> tuple[FloatArray, FloatArray, FloatArray]:
    return motion.q, motion.dq, motion.ddq


def _spread(ratios: FloatArray) -> dict[str, float]:
    low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
    return {"least": float(low), "median": float(middle), "largest": float(high), "within": share(ratios)}
