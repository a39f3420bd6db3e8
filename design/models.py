"""Which matrix a run must make well conditioned: that of the model to be fitted to it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray, locked
from excitor.robots.dynamics import power_regressor, regressor
from excitor.robots.gram import gram_gradient, stack
from excitor.robots.population import population_grams
from excitor.robots.robot import Motion, Robot

_STEP = 1e-6


class Model(Protocol):
    """A model linear in its columns: its observation matrix for a motion."""

    @property
    def columns(self) -> IntArray:
        """Parameters that are fitted, as columns of the robot's regressor."""

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        """WᵀW of a population, (n_candidates, n_columns, n_columns), of the first n_samples of each."""

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by q, dq, ddq, each (n_samples, n_joints), given that by WᵀW."""

    def observation(self, motion: Motion) -> FloatArray:
        """W itself, (n_rows, n_columns)."""


@dataclass(frozen=True, eq=False, slots=True)
class DynamicModel:
    """Joint torques: W stacks the rows of all joints, joint i's weighted by weights[i]."""

    robot: Robot
    columns: IntArray
    weights: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", locked(self.columns, "int"))
        object.__setattr__(self, "weights", locked(self.weights))

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        """WᵀW of a population."""
        return population_grams(self.robot, q, dq, ddq, columns=self.columns, weights=self.weights, n_samples=n_samples)

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by the motion, exactly."""
        return gram_gradient(self.robot, motion, gram_bar=gram_bar, columns=self.columns, weights=self.weights)

    def observation(self, motion: Motion) -> FloatArray:
        """W itself."""
        Y = regressor(self.robot, motion)[:, :, self.columns] * self.weights[None, :, None]
        return stack(Y)


@dataclass(frozen=True, eq=False, slots=True)
class PowerModel:
    """The robot's total power: one row a sample, ∑ dq τ.

    With `sigma`, standard deviations of torque rows (n_joints,), rows are divided by s, s² = mean over the run of
    Σ_j dq_j² σ_j²: as estimates weight them, run by run.
    """

    robot: Robot
    columns: IntArray
    sigma: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", locked(self.columns, "int"))
        if self.sigma is not None:
            object.__setattr__(self, "sigma", locked(self.sigma))
            if self.sigma.shape != (self.robot.n_joints,) or not (self.sigma > 0.0).all():
                raise ValueError(f"sigma is {self.sigma}, expected {self.robot.n_joints} positive standard deviations")

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        """WᵀW of a population."""
        return grams_one_by_one(self, (q, dq, ddq), n_samples)

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by the motion: of G = P / s², dG = dP / s² - P ds² / s⁴, P by differences."""
        P, variance = self._power(motion), self._variance(motion)
        rows = P @ (gram_bar + gram_bar.T) / variance
        by_q, by_dq, by_ddq = gradient_by_differences(self._power, motion, rows)
        if self.sigma is not None:
            lost = float(np.sum((P.T @ P) * gram_bar)) / variance**2
            by_dq = by_dq - lost * 2.0 * motion.dq * self.sigma**2 / len(motion)
        return by_q, by_dq, by_ddq

    def observation(self, motion: Motion) -> FloatArray:
        """W itself."""
        return np.asarray(self._power(motion) / np.sqrt(self._variance(motion)))

    def _power(self, motion: Motion) -> FloatArray:
        return power_regressor(self.robot, motion)[:, self.columns]

    def _variance(self, motion: Motion) -> float:
        return 1.0 if self.sigma is None else float(np.mean(motion.dq**2 @ self.sigma**2))


def grams_one_by_one(model: Model, states: tuple[FloatArray, FloatArray, FloatArray], n_samples: int) -> FloatArray:
    """Form WᵀW of a population (q, dq, ddq) from each candidate's W, (n_candidates, n_columns, n_columns)."""
    observed = [
        model.observation(Motion(*(x[:, :n_samples].T for x in candidate))) for candidate in zip(*states, strict=True)
    ]
    return np.array([W.T @ W for W in observed])


def gradient_by_differences(
    blocks: Callable[[Motion], FloatArray],
    motion: Motion,
    rows: FloatArray,
    joints: tuple[IntArray, IntArray, IntArray] | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Differentiate Σ rows · blocks(motion) by q, dq and ddq, sample by sample, each (n_samples, n_joints).

    A sample's blocks (n_samples, …) depend on its own state only; `joints` are those that may move, by order.
    """
    states = (motion.q, motion.dq, motion.ddq)
    n_joints = motion.q.shape[1]
    out = tuple(np.zeros(motion.q.shape) for _ in states)
    for order, state in enumerate(states):
        for j in range(n_joints) if joints is None else joints[order]:
            step = _STEP * max(1.0, float(np.abs(state[:, j]).max()))
            sides = []
            for sign in (1.0, -1.0):
                moved = list(states)
                moved[order] = state.copy()
                moved[order][:, j] += sign * step
                sides.append(blocks(Motion(*moved)))
            change = (sides[0] - sides[1]) / (2.0 * step)
            out[order][:, j] = np.sum((rows * change).reshape(len(motion), -1), axis=1)
    return out[0], out[1], out[2]
