"""Instrumental variables: estimates that noise of the motion does not bias.

    β = (Zᵀ Ω⁻¹ W)⁻¹ Zᵀ Ω⁻¹ y      Z: columns along a simulated, noise-free motion ([Janot2014]); Ω: variances by joint

Least squares assume an exact motion; noise in it, which a controller turns into torque as well, biases
them. Z is noise-free and nearly W, so Zᵀe has mean 0. Solved on QR: Z = Q R, then Qᵀ W β = Qᵀ y.

The test of Durbin, Wu and Hausman finds noise of the motion in the residuals, and so whether instruments are needed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.stats

from excitor.identify.estimate import Estimate, rows_of_groups
from excitor.identify.intervals import (
    WhitenedSystem,
    autocorrelation,
    correlation_time,
    estimate_of,
    influence,
    joint_sigma,
    require_rank,
)
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, check_shape, one_blas_thread, shaped
from excitor.robots.errors import ExcitorError

Instruments = Callable[[Estimate], FloatArray]  # a model -> Z (n_rows, n_columns), on the regression's rows
MAX_ITERATIONS = 10
SETTLED = 0.25  # of standard deviations: instruments of any of these models are as good
WEAK = 10.0  # the usual rule: of F below, IV keeps more than a tenth of least squares' bias
USELESS = 1.0  # what instruments that have nothing to do with the columns reach by chance
LEVEL = 0.02  # that the test rejects at: coloured errors of few independent samples raise its size to twice that
COSINES = 0.2  # times the independent samples to the power 2/3: half the usual, as errors of robots are slow
EXACT = 1e-9  # of the torques: what instruments leave that is smaller is rounding


@dataclass(frozen=True, eq=False, slots=True)
@shaped(correlation="n_columns")
class Strength:
    """Strength of instruments: how much of the measured columns they explain, in the direction where that is least.

    ρ are the canonical correlations of Z and W; F = (N - n) / n · ρ² / (1 - ρ²) at the least ρ ([Cragg1993]).
    """

    correlation: FloatArray  # (n_columns,), largest first
    F: float
    weakest: tuple[str, ...]  # the parameters of that direction

    @property
    def weak(self) -> bool:
        """True if the estimate may keep much of the bias that instruments are to remove."""
        return self.F < WEAK

    @property
    def sentence(self) -> str:
        """Sentence about the instruments' strength."""
        least = f"of the columns in their weakest direction instruments explain {100 * self.correlation[-1] ** 2:.0f} %"
        if not self.weak:
            return f"instruments are strong: {least} (F = {self.F:.3g})"
        return (
            f"instruments are weak: {least} (F = {self.F:.3g}, 10 is wanted), shown most by "
            f"{', '.join(self.weakest)}; estimates of these keep part of the bias: move what shows them more"
        )


@dataclass(frozen=True, eq=False, slots=True)
@shaped(Z="n_rows n_columns")
class InstrumentalFit:
    """An instrumental estimate, its sensitivity to its rows' errors, and the strength of its instruments."""

    estimate: Estimate
    system: WhitenedSystem
    Z: FloatArray  # (n_rows, n_columns), of the last iteration
    strength: Strength
    iterations: int
    converged: bool


@one_blas_thread()
def instrumental_variables(
    regression: Regression, instruments: Instruments, *, start: Estimate, max_iterations: int = MAX_ITERATIONS
) -> InstrumentalFit:
    """Iterate: instruments of the model found last, weights by joint from its residuals, until it settles.

    ExcitorError where instruments explain some direction no better than chance.
    """
    at, sigma = start, joint_sigma(regression, regression.y - regression.W @ start.values)
    for iteration in range(1, max_iterations + 1):
        Z = instruments(at)
        shape = {"n_rows": len(regression), "n_columns": len(regression.names)}
        check_shape(Z, "n_rows n_columns", "instruments", shape)
        found, system, strength = _solve(regression, Z, sigma, iteration)
        moved = float(np.max(np.abs(found.values - at.values) / found.sigma))
        sigma = joint_sigma(regression, regression.y - regression.W @ found.values)
        at = found
        if moved < SETTLED:
            break
    return InstrumentalFit(found, system, Z, strength, iteration, moved < SETTLED)


def _solve(
    regression: Regression, Z: FloatArray, sigma: FloatArray, iteration: int
) -> tuple[Estimate, WhitenedSystem, Strength]:
    W, y, Z = regression.W / sigma[:, None], regression.y / sigma, Z / sigma[:, None]
    Q_Z, R_Z = scipy.linalg.qr(Z, mode="economic", check_finite=False)
    require_rank(R_Z, regression.names, "simulated columns")
    strength = instrument_strength(Q_Z, W, regression.names)
    if strength.F < USELESS:
        raise ExcitorError(
            "the simulated motion explains no more of the measured columns than chance would, least those of "
            f"{', '.join(strength.weakest)}; check that reference, servo and time of the simulation are the robot's"
        )
    system = influence(Q_Z, W, y)  # of torques instead of residuals
    values = np.asarray(scipy.linalg.solve_triangular(system.R, system.Q.T @ y))
    system = WhitenedSystem(system.Q, system.R, y - W @ values)
    settings: dict[str, float | str] = {"weights by": "joint", "iterations": float(iteration), "F": strength.F}
    estimate = estimate_of(system, regression, values, method="iv", sigma=sigma, settings=settings)
    return estimate, system, strength


def instrument_strength(Q_Z: FloatArray, W: FloatArray, names: tuple[str, ...]) -> Strength:
    """Measure how much of the columns W instruments explain; Q_Z are theirs, orthonormal, rows weighted in both."""
    Q, R = scipy.linalg.qr(W, mode="economic", check_finite=False)
    _, correlation, directions = np.linalg.svd(Q_Z.T @ Q)
    least = min(float(correlation[-1]), 1.0)
    n_rows, n = W.shape
    explained = least**2
    F = (n_rows - n) / n * explained / (1.0 - explained) if explained < 1.0 else np.inf
    inverse = scipy.linalg.solve_triangular(R, np.eye(n))
    share = np.abs(inverse @ directions[-1]) / np.linalg.norm(inverse, axis=1)  # of each parameter's deviation
    order = np.argsort(share)[::-1]
    largest = [names[k] for k in order[:3] if share[k] > 0.5 * share[order[0]]]
    return Strength(np.minimum(correlation, 1.0), float(F), tuple(largest))


@dataclass(frozen=True, eq=False, slots=True)
class Exogeneity:
    """Result of the test: where p is small, least squares are biased by noise of the motion."""

    F: float
    dof: tuple[float, float]
    p_value: float
    by_joint: Mapping[str, float]  # p-value of each joint's rows alone

    @property
    def needed(self) -> bool:
        """True if the test rejects least squares at the 2 % level."""
        return self.p_value < LEVEL

    @property
    def sentence(self) -> str:
        """Sentence on whether instruments are needed."""
        p = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.2g}"
        if not self.needed:
            return f"instruments are not needed: noise of the motion does not show in the residuals ({p})"
        worst = sorted(self.by_joint, key=lambda joint: self.by_joint[joint])
        significant = [joint for joint in worst if self.by_joint[joint] < LEVEL] or worst[:1]
        return (
            f"instruments are needed: noise of the motion shows in the residuals of {', '.join(significant)} ({p}), so "
            "least squares are biased by more than chance"
        )


@one_blas_thread()
def durbin_wu_hausman(regression: Regression, Z: FloatArray, least_squares: Estimate, beta: FloatArray) -> Exogeneity:
    """Test the columns of least squares against instruments Z; `beta` is the alternative, best that by instruments.

    F = (ν - m + 1) / (ν m) · sᵀ Ω⁻¹ s, with s the scores' sum and Ω the mean square of their ν lowest cosines.
    """
    weights = 1.0 / rows_of_groups(regression, least_squares)
    W = regression.W * weights[:, None]
    residual = weights * (regression.y - regression.W @ least_squares.values)
    Q_Z = scipy.linalg.qr(Z * weights[:, None], mode="economic", check_finite=False)[0]
    Q_W = scipy.linalg.qr(W, mode="economic", check_finite=False)[0]
    noise = W @ beta - Q_Z @ (Q_Z.T @ (W @ beta))
    joints = np.unique(regression.joint)
    v = np.where(regression.joint[:, None] == joints, noise[:, None], 0.0)
    v = v - Q_W @ (Q_W.T @ v)
    names = ["power" if joint < 0 else regression.joint_names[joint] for joint in joints]
    endogenous = np.linalg.norm(v, axis=0) > EXACT * np.linalg.norm(weights * regression.y)
    if not endogenous.any():
        return Exogeneity(0.0, (float(len(joints)), np.inf), 1.0, dict.fromkeys(names, 1.0))
    scores = _by_time(regression, v[:, endogenous] * residual[:, None])
    tested = [name for name, there in zip(names, endogenous, strict=True) if there]
    by_joint = {name: _judge(scores[:, [k]])[2] for k, name in enumerate(tested)}
    F, dof, p_value = _judge(scores)
    return Exogeneity(F, dof, p_value, {name: by_joint.get(name, 1.0) for name in names})


def _by_time(regression: Regression, scores: FloatArray) -> FloatArray:
    """Sum the scores of all joints of a sample, in the order of time, (n_samples, n_scores)."""
    keys = np.column_stack([regression.run, regression.sample])
    places, place = np.unique(keys, axis=0, return_inverse=True)
    out = np.zeros((len(places), scores.shape[1]))
    np.add.at(out, place.ravel(), scores)
    return out


def _judge(scores: FloatArray) -> tuple[float, tuple[float, float], float]:
    """Compare the scores' sum with its distribution under their slow variation."""
    T, m = scores.shape
    rest, once = scores - scores.mean(axis=0), np.zeros(T, dtype=np.int64)
    times = [correlation_time(autocorrelation(once, np.arange(T), rest[:, k])) for k in range(m)]
    independent = T / max(times)  # samples: cosines must not reach beyond the band of their errors
    count = min(max(round(COSINES * independent ** (2.0 / 3.0)), m + 4), T - 1)
    if count < m + 1:
        return 0.0, (float(m), 1.0), 1.0
    phase = np.pi * (np.arange(T) + 0.5) / T
    cosines = np.sqrt(2.0 / T) * np.cos(np.arange(1, count + 1)[:, None] * phase) @ scores
    R = scipy.linalg.qr(cosines / np.sqrt(count), mode="economic", check_finite=False)[1]
    sized = np.abs(np.diag(R)) > 1e-12 * np.abs(R).max(initial=1e-300)
    if not sized.all():
        return 0.0, (float(m), float(count)), 1.0
    z = scipy.linalg.solve_triangular(R, scores.sum(axis=0) / np.sqrt(T), trans="T")
    free = float(count - m + 1)
    F = float(z @ z) * free / (count * m)
    return F, (float(m), free), float(scipy.stats.f.sf(F, m, free))
