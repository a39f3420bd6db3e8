"""Noise of measurements and the information of runs about base parameters, shared by design and identification.

Least squares weighted with 1/σ² has the normal matrix A = Σ_runs W_bᵀ Σ⁻¹ W_b. Were rows white, its covariance would
be A⁻¹. Real residuals are autocorrelated, which `inflation` k describes: then it is A⁻¹ S A⁻¹ with the
scatter S = Σ_runs W_bᵀ Σ⁻¹ K² W_b. Both add up over runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from excitor.robots.arrays import BoolArray, FloatArray, freeze
from excitor.robots.base import Base, base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.gram import gram
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

RANK_TOLERANCE = 1e-6  # of column-normalised singular values of W; a Gram matrix shows little below
OPEN = 1e-3  # of a combination's normalised length; with more of it along an open direction, it is open itself
_ROUNDING = 1e-10  # of the largest link column's norm: below, a column is zero but for rounding


@dataclass(frozen=True, eq=False, slots=True)
class Noise:
    """Noise of processed joint torques, row by row, and the rows that count."""

    sigma: FloatArray  # (n_joints,), N m or N: standard deviation of a row
    rate_hz: float  # of rows that count as independent
    inflation: FloatArray | float = 1.0  # (n_joints,): real standard deviations of parameters by those of white rows
    dead_zone: FloatArray | float = 0.0  # (n_joints,), rad/s or m/s: rows of joints no faster than this are left out
    source: str = "typed"

    def __post_init__(self) -> None:
        n = freeze(self, sigma="n_joints")["n_joints"]
        for field in ("inflation", "dead_zone"):
            value = np.asarray(getattr(self, field), dtype=float)
            object.__setattr__(self, field, np.full(n, value) if value.ndim == 0 else value)
        freeze(self, inflation=str(n), dead_zone=str(n))
        _expect(self.sigma, self.sigma > 0.0, "sigma", "a positive standard deviation")
        _expect(self.per_joint("inflation"), self.per_joint("inflation") >= 1.0, "inflation", "1 (white rows) or more")
        _expect(self.per_joint("dead_zone"), self.per_joint("dead_zone") >= 0.0, "dead_zone", "0 or more")
        if not 0.0 < self.rate_hz < np.inf:
            raise ValueError(f"Noise.rate_hz is {self.rate_hz}, expected the positive rate of independent rows")

    def per_joint(self, field: str) -> FloatArray:
        """Read inflation or dead_zone as an array, (n_joints,)."""
        return np.asarray(getattr(self, field))


def noise_data(noise: Noise) -> dict[str, Any]:
    """Write noise as plain data."""
    return {
        "sigma": noise.sigma.tolist(),
        "rate_hz": float(noise.rate_hz),
        "inflation": noise.per_joint("inflation").tolist(),
        "dead_zone": noise.per_joint("dead_zone").tolist(),
        "source": noise.source,
    }


@dataclass(frozen=True, eq=False, slots=True)
class Information:
    """Information of runs about base parameters: A and S of the module's docstring."""

    names: tuple[str, ...]
    matrix: FloatArray  # (n_base, n_base), A
    scatter: FloatArray  # (n_base, n_base), S; equal to A where rows are white

    def __post_init__(self) -> None:
        n = len(self.names)
        freeze(self, matrix=f"{n} {n}", scatter=f"{n} {n}")


def information(robot: Robot, motion: Motion, noise: Noise, *, duration: float, repeats: float = 1.0) -> Information:
    """Compute the information about base parameters of a motion that takes `duration` s and is repeated.

    A = (duration · rate_hz / n_samples) · repeats · Σ_j W_bjᵀ W_bj / σ_j²: the samples are a grid of any density. A
    joint's rows count where it moves; where no joint does, the samples are static poses, and all rows count.
    """
    if not 0.0 < duration < np.inf or not 0.0 < repeats < np.inf:
        raise ValueError(f"duration is {duration} s and repeats are {repeats}, expected positive numbers")
    if not len(motion):
        raise ValueError("motion has no samples, expected at least one")
    base, rows, inflation = base_parameters(robot), counted(robot, motion, noise), noise.per_joint("inflation")
    count = duration * noise.rate_hz / len(motion) * repeats
    matrix = count * _gram(robot, base, motion, rows=rows, weight=1.0 / noise.sigma)
    if (inflation == inflation[0]).all():
        return Information(base.names, matrix, matrix * inflation[0] ** 2)
    scatter = count * _gram(robot, base, motion, rows=rows, weight=inflation / noise.sigma)
    return Information(base.names, matrix, scatter)


def counted(robot: Robot, motion: Motion, noise: Noise) -> BoolArray:
    """Mark the rows that count, (n_samples, n_joints): of joints that move, or all of static poses."""
    if len(noise.sigma) != robot.n_joints or motion.q.shape[1] != robot.n_joints:
        raise ValueError(
            f"noise is of {len(noise.sigma)} joints and the motion of {motion.q.shape[1]}, expected {robot.n_joints}: "
            f"one value for each joint of {robot.name}"
        )
    rows = np.abs(motion.dq) > noise.per_joint("dead_zone")
    if not motion.dq.any():
        rows = np.ones_like(rows)
    rows[:, list(robot.locked)] = False
    return np.asarray(rows)


def _gram(robot: Robot, base: Base, motion: Motion, *, rows: BoolArray, weight: FloatArray) -> FloatArray:
    """W_bᵀW_b of weighted rows, with columns that are zero but for rounding set to 0."""
    if (rows == rows[0]).all():
        G = gram(robot, motion, base.kept, weight * rows[0])
    else:
        W = regressor(robot, motion)[:, :, base.kept][rows] * np.broadcast_to(weight, rows.shape)[rows][:, None]
        G = W.T @ W
    norms, links = np.sqrt(np.diag(G)), base.kept < layout(robot).n_link_params
    gone = links & (norms <= _ROUNDING * norms[links].max(initial=0.0))
    G[gone], G[:, gone] = 0.0, 0.0
    return np.asarray(G)


def add(parts: Iterable[Information]) -> Information:
    """Add the information of several runs."""
    parts = list(parts)
    if not parts:
        raise ValueError("there is no information to add; give that of at least one run")
    if any(part.names != parts[0].names for part in parts):
        raise ValueError(
            "information is of different parameters; all of it must be of the same robot with the same joints locked"
        )
    matrix = np.sum([part.matrix for part in parts], axis=0)
    return Information(parts[0].names, matrix, np.sum([part.scatter for part in parts], axis=0))


def repeated(once: Information, times: float) -> Information:
    """Return the information of the same runs measured `times` as long."""
    return Information(once.names, once.matrix * times, once.scatter * times)


def information_from_covariance(robot: Robot, names: Sequence[str], covariance: FloatArray) -> Information:
    """Turn an estimate's covariance into information; of base parameters that it left out, nothing is known.

    `names` are those of base parameters, with or without the R of regrouped ones, of this robot with the same joints
    locked. The covariance is used as given: any inflation it contains is not applied again.
    """
    base, params = base_parameters(robot), layout(robot)
    place = {params.names[column]: k for k, column in enumerate(base.kept)}
    place |= {name: k for k, name in enumerate(base.names)}
    strange = [name for name in names if name not in place]
    if strange or len({place[name] for name in names}) < len(names):
        problem = f"{', '.join(strange)} no base parameter" if strange else "one named twice"
        sentence = f"of the covariance's parameters, there is {problem} of {robot.name} ({', '.join(base.names)})"
        raise ValueError(sentence)
    C = np.asarray(covariance, dtype=float)
    if C.shape != (len(names), len(names)):
        raise ValueError(f"covariance has shape {C.shape}, expected {len(names)} x {len(names)}, one row a name")
    scale = np.sqrt(np.diag(C)) if (np.diag(C) > 0.0).all() else np.ones(len(C))
    try:
        factor = scipy.linalg.cho_factor(0.5 * (C + C.T) / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        raise ValueError("covariance is not positive definite, so it is no covariance of these parameters") from None
    rows = [place[name] for name in names]
    matrix = np.zeros((len(base), len(base)))
    matrix[np.ix_(rows, rows)] = scipy.linalg.cho_solve(factor, np.eye(len(C))) / np.outer(scale, scale)
    return Information(base.names, matrix, matrix)


@dataclass(frozen=True, eq=False, slots=True)
class Knowledge:
    """Eigendecomposition of information: determined directions, their accuracy, and undetermined directions."""

    names: tuple[str, ...]
    covariance: FloatArray  # (n_base, n_base), of white rows; means something across no open direction
    inflated: FloatArray  # (n_base, n_base), the same with the inflation
    scale: FloatArray  # (n_base,): column norms of the weighted W, 1 where a column is 0
    open_directions: FloatArray  # (n_base, n_open), orthonormal, of scale · β
    condition: float  # of the weighted W, columns normalised; inf where a direction is open

    def __post_init__(self) -> None:
        n = len(self.names)
        freeze(self, covariance=f"{n} {n}", inflated=f"{n} {n}", scale=str(n), open_directions=f"{n} n_open")

    @property
    def unidentifiable(self) -> tuple[str, ...]:
        """Parameters that are not determined, at least not individually."""
        open_ = np.isinf(deviations(self, np.eye(len(self.names))))
        return tuple(name for name, is_open in zip(self.names, open_, strict=True) if is_open)


def knowledge(given: Information) -> Knowledge:
    """Solve: D V Λ⁻¹ Vᵀ D from the eigenvalues of A normalised by D, those below RANK_TOLERANCE² left out as open."""
    norms = np.sqrt(np.maximum(np.diag(given.matrix), 0.0))
    scale = np.where(norms > 0.0, norms, 1.0)
    values, V = np.linalg.eigh(given.matrix / np.outer(scale, scale))
    determined = values > RANK_TOLERANCE**2 * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    half = V[:, determined] / np.sqrt(values[determined]) / scale[:, None]
    C = half @ half.T
    inflated = half @ (half.T @ given.scatter @ half) @ half.T
    whole = bool(determined.all()) and len(values) > 0
    condition = float(np.sqrt(values[-1] / values[0])) if whole else float("inf")
    return Knowledge(given.names, C, 0.5 * (inflated + inflated.T), scale, V[:, ~determined], condition)


def deviations(eigen: Knowledge, rows: FloatArray, *, inflated: bool = False) -> FloatArray:
    """Evaluate standard deviations of combinations rows @ β, (n_rows,): √diag(R C Rᵀ), inf where a row is open."""
    C = eigen.inflated if inflated else eigen.covariance
    sigma = np.sqrt(np.maximum(np.sum((rows @ C) * rows, axis=1), 0.0))
    scaled = rows / eigen.scale
    along = np.linalg.norm(scaled @ eigen.open_directions, axis=1)
    return np.asarray(np.where(along > OPEN * np.linalg.norm(scaled, axis=1), np.inf, sigma))


def sigmas(eigen: Knowledge, *, inflated: bool = False) -> FloatArray:
    """Evaluate each parameter's standard deviation, (n_base,), inf where it is not determined."""
    return deviations(eigen, np.eye(len(eigen.names)), inflated=inflated)


def as_white(given: Information) -> Information:
    """Write inflated information as that of white rows: A S⁺ A, whose inverse is the inflated covariance."""
    norms = np.sqrt(np.maximum(np.diag(given.matrix), 0.0))
    scale = np.outer(*[np.where(norms > 0.0, norms, 1.0)] * 2)
    A = given.matrix / scale
    matrix = A @ np.linalg.pinv(given.scatter / scale, rcond=RANK_TOLERANCE**2, hermitian=True) @ A * scale
    return Information(given.names, matrix, matrix)


def open_combinations(eigen: Knowledge) -> tuple[str, ...]:
    """Write the open directions as combinations of names, such as `Fc3 - off3`: along these, no torque changes."""
    directions = eigen.open_directions.T
    if not len(directions):
        return ()
    order = scipy.linalg.qr(directions, mode="r", pivoting=True)[1][: len(directions)]
    reduced = np.linalg.solve(directions[:, order], directions)
    texts = []
    for pivot, row in sorted(zip(order, reduced, strict=True), key=lambda pair: int(pair[0])):
        factors = np.where(np.abs(row) > OPEN, row / eigen.scale * eigen.scale[pivot], 0.0)
        factors[pivot] = 1.0
        others = [k for k in np.flatnonzero(factors) if k != pivot]
        texts.append("".join([eigen.names[pivot], *(_term(factors[k], eigen.names[k]) for k in others)]))
    return tuple(texts)


def _term(factor: float, name: str) -> str:
    size = f"{abs(factor):.3g}"
    return f" {'-' if factor < 0.0 else '+'} {'' if size == '1' else size + ' '}{name}"


def _expect(values: FloatArray, fine: BoolArray, field: str, expected: str) -> None:
    if not fine.all():
        bad = int(np.flatnonzero(~fine)[0])
        raise ValueError(f"Noise.{field}[{bad}] is {values[bad]:g}, expected {expected}")
