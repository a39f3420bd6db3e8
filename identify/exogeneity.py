"""Are instruments needed? The test of Durbin, Wu and Hausman, which looks for noise of the motion in the residuals.

In the augmented equations y = W b + V γ + e, V what instruments Z leave of W, γ is 0 where columns are exogenous and
-β where they hold noise. The direction being known, V β of each joint's rows is one column: as many degrees of
freedom as joints, instead of one a parameter. Scores Σ v⊥ r are judged against their own slow variation, by cosines
with equal weights ([Lazarus2018]), so that coloured residuals do not raise alarms.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.stats

from excitor.identify.estimate import Estimate
from excitor.identify.regression import Regression
from excitor.identify.whiteness import autocorrelation, correlation_time
from excitor.robots.arrays import FloatArray, one_blas_thread

LEVEL = 0.02  # that the test rejects at: coloured errors of few independent samples raise its size to twice that
COSINES = 0.2  # times the independent samples to the power 2/3: half the usual, as errors of robots are slow
EXACT = 1e-9  # of the torques: what instruments leave that is smaller is rounding


@dataclass(frozen=True, eq=False, slots=True)
class Exogeneity:
    """The test's outcome: p small, and least squares are misled by noise in the motion."""

    F: float
    dof: tuple[float, float]
    p_value: float
    by_joint: Mapping[str, float]  # p-value of each joint's rows alone

    @property
    def needed(self) -> bool:
        """Tell whether least squares must not be believed, at the 2 % level."""
        return self.p_value < LEVEL

    @property
    def sentence(self) -> str:
        """Say whether instruments are needed."""
        p = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.2g}"
        if not self.needed:
            return f"instruments are not needed: noise of the motion does not show in the residuals ({p})"
        worst = sorted(self.by_joint, key=lambda joint: self.by_joint[joint])
        shown = [joint for joint in worst if self.by_joint[joint] < LEVEL] or worst[:1]
        return (
            f"instruments are needed: noise of the motion shows in the residuals of {', '.join(shown)} ({p}), so "
            "least squares are biased by more than chance"
        )


@one_blas_thread()
def durbin_wu_hausman(regression: Regression, Z: FloatArray, least_squares: Estimate, beta: FloatArray) -> Exogeneity:
    """Test the columns of least squares against instruments Z; `beta` points the way, best the instrumental estimate.

    F = (ν - m + 1) / (ν m) · sᵀ Ω⁻¹ s, with s the scores' sum and Ω the mean square of their ν lowest cosines.
    """
    groups = zip(regression.joint.tolist(), regression.run.tolist(), strict=True)
    weights = 1.0 / np.array([least_squares.group_sigma[group] for group in groups])
    W = regression.W * weights[:, None]
    residual = weights * (regression.y - regression.W @ least_squares.values)
    Q_Z = scipy.linalg.qr(Z * weights[:, None], mode="economic", check_finite=False)[0]
    Q_W = scipy.linalg.qr(W, mode="economic", check_finite=False)[0]
    noise = W @ beta - Q_Z @ (Q_Z.T @ (W @ beta))
    joints = np.unique(regression.joint)
    v = np.where(regression.joint[:, None] == joints, noise[:, None], 0.0)
    v = v - Q_W @ (Q_W.T @ v)
    names = ["power" if joint < 0 else regression.joint_names[joint] for joint in joints]
    seen = np.linalg.norm(v, axis=0) > EXACT * np.linalg.norm(weights * regression.y)
    if not seen.any():
        return Exogeneity(0.0, (float(len(joints)), np.inf), 1.0, dict.fromkeys(names, 1.0))
    scores = _by_time(regression, v[:, seen] * residual[:, None])
    told = [name for name, there in zip(names, seen, strict=True) if there]
    by_joint = {name: _judge(scores[:, [k]])[2] for k, name in enumerate(told)}
    F, dof, p_value = _judge(scores)
    return Exogeneity(F, dof, p_value, {name: by_joint.get(name, 1.0) for name in names})


def _by_time(regression: Regression, scores: FloatArray) -> FloatArray:
    """Add up the scores of all joints of a sample, in the order of time, (n_samples, n_scores)."""
    keys = np.column_stack([regression.run, regression.sample])
    places, place = np.unique(keys, axis=0, return_inverse=True)
    out = np.zeros((len(places), scores.shape[1]))
    np.add.at(out, place.ravel(), scores)
    return out


def _independent(scores: FloatArray) -> float:
    """Count the independent samples that scores are worth: cosines must not reach beyond the band of their errors."""
    T = len(scores)
    rest, once = scores - scores.mean(axis=0), np.zeros(T, dtype=np.int64)
    times = [correlation_time(autocorrelation(once, np.arange(T), rest[:, k])) for k in range(scores.shape[1])]
    return T / max(times)


def _judge(scores: FloatArray) -> tuple[float, tuple[float, float], float]:
    """Compare the scores' sum with what their slow variation makes likely."""
    T, m = scores.shape
    count = min(max(round(COSINES * _independent(scores) ** (2.0 / 3.0)), m + 4), T - 1)
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
