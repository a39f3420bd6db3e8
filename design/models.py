"""Which matrix a run must make well conditioned: that of the model to be fitted to it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray, locked
from excitor.robots.dynamics import power_regressor, regressor
from excitor.robots.gram import gram_gradient, stack
from excitor.robots.population import population_grams
from excitor.robots.robot import Motion, Robot


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
    """The robot's total power: one row a sample, ∑ dq τ."""

    robot: Robot
    columns: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", locked(self.columns, "int"))

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        """WᵀW of a population."""
        found = []
        for states in zip(q, dq, ddq, strict=True):
            W = self.observation(Motion(*(x[:, :n_samples].T for x in states)))
            found.append(W.T @ W)
        return np.array(found)

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by the motion, by central differences sample by sample: 2 rows Ḡ against each state's change."""
        rows = 2.0 * self.observation(motion) @ (0.5 * (gram_bar + gram_bar.T))
        states = (motion.q, motion.dq, motion.ddq)
        out = tuple(np.zeros(motion.q.shape) for _ in states)
        for order, state in enumerate(states):
            for j in range(state.shape[1]):
                step = 1e-6 * max(1.0, float(np.abs(state[:, j]).max()))
                sides = []
                for sign in (1.0, -1.0):
                    moved = list(states)
                    moved[order] = state.copy()
                    moved[order][:, j] += sign * step
                    sides.append(self.observation(Motion(*moved)))
                out[order][:, j] = np.einsum("kc,kc->k", rows, (sides[0] - sides[1]) / (2.0 * step))
        return out[0], out[1], out[2]

    def observation(self, motion: Motion) -> FloatArray:
        """W itself."""
        return power_regressor(self.robot, motion)[:, self.columns]
