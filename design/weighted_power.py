"""The power model of a run whose rows count by their noise: fast joints make the power noisier."""

from dataclasses import dataclass

import numpy as np

from excitor.design.models import PowerModel
from excitor.robots.arrays import FloatArray, IntArray, locked
from excitor.robots.dynamics import power_regressor
from excitor.robots.robot import Motion, Robot


@dataclass(frozen=True, eq=False, slots=True)
class WeightedPower:
    """Power rows divided by s, s² = mean over the run of Σ_j dq_j² σ_j²: as estimates weight them, run by run."""

    robot: Robot
    columns: IntArray
    sigma: FloatArray  # (n_joints,): standard deviation of torque rows

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", locked(self.columns, "int"))
        object.__setattr__(self, "sigma", locked(self.sigma))
        if self.sigma.shape != (self.robot.n_joints,) or not (self.sigma > 0.0).all():
            raise ValueError(f"sigma is {self.sigma}, expected {self.robot.n_joints} positive standard deviations")

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        """WᵀW of a population."""
        found = []
        for states in zip(q, dq, ddq, strict=True):
            W = self.observation(Motion(*(x[:, :n_samples].T for x in states)))
            found.append(W.T @ W)
        return np.array(found)

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by the motion: G = P / s², so dG = dP / s² - P ds² / s⁴."""
        variance = self._variance(motion)
        by_q, by_dq, by_ddq = PowerModel(self.robot, self.columns).gradient(motion, gram_bar / variance)
        P = power_regressor(self.robot, motion)[:, self.columns]
        lost = float(np.sum((P.T @ P) * gram_bar)) / variance**2
        by_speed = 2.0 * motion.dq * self.sigma**2 / len(motion)
        return by_q, by_dq - lost * by_speed, by_ddq

    def observation(self, motion: Motion) -> FloatArray:
        """W itself."""
        return np.asarray(power_regressor(self.robot, motion)[:, self.columns] / np.sqrt(self._variance(motion)))

    def _variance(self, motion: Motion) -> float:
        return float(np.mean(motion.dq**2 @ self.sigma**2))
