"""The observation matrix in the parameters that a robot declares as its base set, such as a paper's."""

from dataclasses import dataclass

import numpy as np

from excitor.design.models import DynamicModel, Model
from excitor.robots.arrays import FloatArray, IntArray, locked
from excitor.robots.base import base_parameters, declared_transform
from excitor.robots.robot import Motion, Robot


@dataclass(frozen=True, eq=False, slots=True)
class DeclaredModel:
    """A model in other parameters β' = T β: W' = W T⁻¹, W'ᵀW' = T⁻ᵀ (WᵀW) T⁻¹."""

    model: Model
    inverse: FloatArray  # (n_columns, n_columns), T⁻¹

    def __post_init__(self) -> None:
        object.__setattr__(self, "inverse", locked(self.inverse))
        n = len(self.model.columns)
        if self.inverse.shape != (n, n):
            raise ValueError(f"inverse has shape {self.inverse.shape}, expected {n} x {n}: a row for each column of W")

    @property
    def columns(self) -> IntArray:
        """Columns of the robot's regressor that are combined; as many as there are declared parameters."""
        return self.model.columns

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        """W'ᵀW' of a population."""
        return np.asarray(self.inverse.T @ self.model.grams(q, dq, ddq, n_samples) @ self.inverse)

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by the motion: ∂J/∂(WᵀW) = T⁻¹ (∂J/∂(W'ᵀW')) T⁻ᵀ."""
        return self.model.gradient(motion, self.inverse @ gram_bar @ self.inverse.T)

    def observation(self, motion: Motion) -> FloatArray:
        """W' itself."""
        return np.asarray(self.model.observation(motion) @ self.inverse)


def declared_model(robot: Robot, weights: FloatArray | None = None) -> DeclaredModel:
    """Write joint torques in a robot's declared parameters, rows of joint i weighted by weights[i] (1 by default)."""
    base = base_parameters(robot)
    rows = np.ones(robot.n_joints) if weights is None else weights
    return DeclaredModel(DynamicModel(robot, base.kept, rows), np.linalg.inv(declared_transform(robot, base)))
