"""Scalar criteria of an information matrix, to be minimised, and their gradients.

All take G = WᵀW (…, n, n) of the chosen columns; a singular matrix is `inf`. Letters: λ eigenvalues of the scaled
matrix S G S, V its eigenvectors, s the diagonal of S.

W is the observation matrix of the model to be fitted: joint torques, total power, joint torques in a base set that the
robot declares (such as a paper's), or the Jacobian of a payload, with friction and efficiencies as unknowns.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, locked
from excitor.robots.base import TOLERANCE, base_parameters, declared_transform, independent_columns, random_motion
from excitor.robots.dynamics import power_regressor, regressor
from excitor.robots.errors import AssemblyError
from excitor.robots.friction import friction_model, has_true_sign
from excitor.robots.gram import gram_gradient, stack
from excitor.robots.kernel import descent as kernel
from excitor.robots.load_torques import carried_from_joints, driving_side, friction_columns, gear_losses, motor_speeds
from excitor.robots.parameters import layout, prior
from excitor.robots.population import population_grams
from excitor.robots.robot import Motion, Robot

Kind = Literal["condition", "weighted-condition", "raw-condition", "d", "a", "e", "sigma", "path"]

SOFT_FLOOR = 1e-13  # of eigenvalues of a normalised matrix


@dataclass(frozen=True, eq=False, slots=True)
class Criterion:
    """Criterion to be minimised.

    condition  √(λ_max / λ_min) of the column-normalised matrix
    weighted-condition  the same of rows in units of their noise, which is up to the model
    raw-condition  the first without normalising: it depends on the units, and is here to compare with those who use it
    d          exp(-mean log λ / 2): the geometric mean of the standard deviations
    a          √ mean diag F⁻¹: the quadratic mean of the standard deviations
    e          1 / √λ_min: the largest standard deviation of any combination
    sigma      √ mean diag F⁻¹ over chosen parameters, each by its own scale: expected relative deviation
    path       √ tr(F⁻¹ T): expected torque deviation on a task path whose mean WᵀW is T

    `scale` turns parameters into comparable ones (expected magnitudes); the condition number needs none.

    Columns of length one do not show how far a joint moves. With a `size`, descents of `condition` prefer motions of
    longer columns: log κ - size · mean log |W_k|. Candidates are judged by κ alone.
    """

    kind: Kind = "condition"
    scale: FloatArray | None = None  # (n,)
    chosen: tuple[int, ...] = ()  # of sigma: indices into the columns
    task: FloatArray | None = None  # of path: (n, n)
    size: float = 0.0  # of condition: share of its logarithm that columns longer by a factor e are worth

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", locked(self.scale))
            if not (np.isfinite(self.scale).all() and (self.scale > 0.0).all()):
                raise ValueError("scale must be positive for every column; give each parameter its expected magnitude")
        if self.task is not None:
            object.__setattr__(self, "task", locked(self.task))
        if (self.kind == "sigma") != bool(self.chosen):
            raise ValueError("the sigma criterion, and no other, needs the chosen parameters")
        if (self.kind == "path") != (self.task is not None):
            raise ValueError("the path criterion, and no other, needs a task")
        if not 0.0 <= self.size < np.inf or (self.size and self.kind != "condition"):
            raise ValueError(f"size is {self.size}, expected a share ≥ 0, and 0 for all criteria but condition")


def values(criterion: Criterion, G: FloatArray) -> FloatArray:
    """Evaluate the criterion of a stack of matrices, (n_matrices,)."""
    if criterion.kind.endswith("condition"):
        return conditions(G, criterion.kind != "raw-condition")
    F = _scaled(G, criterion.scale)
    scale = np.sqrt(np.einsum("bii->bi", F))
    good = (scale > 0.0).all(axis=1) & np.isfinite(scale).all(axis=1)
    out = np.full(len(G), np.inf)
    if good.any():
        out[good] = _values(criterion, F[good])
    return out


def conditions(G: FloatArray, normalised: bool = True) -> FloatArray:
    """Find the condition numbers of (column-normalised) matrices from their Gram matrices; inf where singular."""
    n = G.shape[-1]
    square = np.einsum("bii->bi", G)
    good = (square > 0.0).all(axis=1) & np.isfinite(square).all(axis=1)
    out = np.full(len(G), np.inf)
    if not good.any():
        return out
    d = 1.0 / np.sqrt(square[good]) if normalised else np.ones((int(good.sum()), n))
    eigenvalues = np.linalg.eigvalsh(G[good] * d[:, :, None] * d[:, None, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = eigenvalues[:, -1] / eigenvalues[:, 0]
    singular = eigenvalues[:, 0] <= n * np.finfo(float).eps * eigenvalues[:, -1]
    out[good] = np.where(singular, np.inf, np.sqrt(np.where(singular, 1.0, ratio)))
    return out


def gradient(criterion: Criterion, G: FloatArray, softness: float = 200.0) -> tuple[float, FloatArray]:
    """Evaluate the (softened) criterion's logarithm and its derivative by symmetric G; (inf, 0) if singular."""
    if criterion.kind.endswith("condition"):
        return soft_condition(G, softness, criterion.kind != "raw-condition")
    F = _scaled(G[None], criterion.scale)[0]
    value, dF = _gradient(criterion, F)
    if criterion.scale is not None:
        dF = dF * np.outer(criterion.scale, criterion.scale)
    return value, dF


def soft_condition(G: FloatArray, p: float, normalised: bool = True) -> tuple[float, FloatArray]:
    """Evaluate J = (log Σ λᵖ + log Σ λ⁻ᵖ) / 2p ≥ log of the condition number, and dJ/dG.

    log cond ≤ J ≤ log cond + log(n) / p.
    """
    bar = np.zeros_like(G)
    if not (np.diag(G) > 0.0).all() or not np.isfinite(G).all():
        return float("inf"), bar
    return kernel.soft_condition(G, p, SOFT_FLOOR, normalised, bar), bar


def _scaled(G: FloatArray, scale: FloatArray | None) -> FloatArray:
    return G if scale is None else np.asarray(G * scale[:, None] * scale[None, :])


def _values(criterion: Criterion, F: FloatArray) -> FloatArray:
    """Evaluate on matrices normalised by d = diag(F)^(-1/2) first, so that units do not make them look singular."""
    n = F.shape[-1]
    d = 1.0 / np.sqrt(np.einsum("bii->bi", F))
    eigenvalues, V = np.linalg.eigh(F * d[:, :, None] * d[:, None, :])
    singular = eigenvalues[:, 0] <= n * np.finfo(float).eps * eigenvalues[:, -1]
    safe = np.where(singular[:, None], 1.0, eigenvalues)
    if criterion.kind == "d":
        found = np.exp(np.log(d).mean(axis=1) - 0.5 * np.log(safe).mean(axis=1))
    elif criterion.kind == "e":
        smallest = np.linalg.eigvalsh(F)[:, 0]
        singular |= smallest <= 0.0
        found = 1.0 / np.sqrt(np.where(singular, 1.0, smallest))
    else:
        DV = V * d[:, :, None]
        found = np.sqrt(np.einsum("bki,kl,bli,bi->b", DV, _weight_matrix(criterion, n), DV, 1.0 / safe, optimize=True))
    return np.where(singular, np.inf, found)


def _gradient(criterion: Criterion, F: FloatArray) -> tuple[float, FloatArray]:
    """Differentiate log values: d tr(F⁻¹ S) = -tr(F⁻¹ S F⁻¹ dF)."""
    n = len(F)
    if not ((np.diag(F) > 0.0).all() and np.isfinite(F).all()):
        return float("inf"), np.zeros_like(F)
    d = 1.0 / np.sqrt(np.diag(F))
    eigenvalues, V = np.linalg.eigh(F * np.outer(d, d))
    if not eigenvalues[0] > n * np.finfo(float).eps * eigenvalues[-1]:
        return float("inf"), np.zeros_like(F)
    inverse = (V / eigenvalues) @ V.T * np.outer(d, d)
    if criterion.kind == "d":
        return float(np.log(d).mean() - 0.5 * np.log(eigenvalues).mean()), -0.5 / n * inverse
    if criterion.kind == "e":
        own, U = np.linalg.eigh(F)
        if own[0] <= 0.0:
            return float("inf"), np.zeros_like(F)
        return float(-0.5 * np.log(own[0])), -0.5 / own[0] * np.outer(U[:, 0], U[:, 0])
    S = _weight_matrix(criterion, n)
    total = float(np.sum(inverse * S))
    return 0.5 * float(np.log(total)), -0.5 / total * (inverse @ S @ inverse)


def _weight_matrix(criterion: Criterion, n: int) -> FloatArray:
    """Write S of tr(F⁻¹ S)."""
    if criterion.kind == "path":
        assert criterion.task is not None
        scale = np.ones(n) if criterion.scale is None else criterion.scale
        return np.asarray(criterion.task * np.outer(scale, scale))
    chosen = np.arange(n) if criterion.kind == "a" else np.array(criterion.chosen)
    weights = np.zeros(n)
    weights[chosen] = 1.0 / len(chosen)
    return np.diag(weights)


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
        return population_grams(self.robot, q, dq, ddq, columns=self.columns, weights=self.weights, n_samples=n_samples)

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return gram_gradient(self.robot, motion, gram_bar=gram_bar, columns=self.columns, weights=self.weights)

    def observation(self, motion: Motion) -> FloatArray:
        Y = regressor(self.robot, motion)[:, :, self.columns] * self.weights[None, :, None]
        return stack(Y)


class _OneByOne(ABC):
    """A model whose WᵀW is formed candidate by candidate; NaN of motions that leave a closed chain's workspace."""

    __slots__ = ()
    columns: IntArray

    @abstractmethod
    def observation(self, motion: Motion) -> FloatArray:
        """W itself, (n_rows, n_columns)."""

    def grams(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, n_samples: int) -> FloatArray:
        out = np.full((len(q), len(self.columns), len(self.columns)), np.nan)
        for k, candidate in enumerate(zip(q, dq, ddq, strict=True)):
            with suppress(AssemblyError):
                W = self.observation(Motion(*(x[:, :n_samples].T for x in candidate)))
                out[k] = W.T @ W
        return out


@dataclass(frozen=True, eq=False, slots=True)
class PowerModel(_OneByOne):
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
        return np.asarray(self._power(motion) / np.sqrt(self._variance(motion)))

    def _power(self, motion: Motion) -> FloatArray:
        return power_regressor(self.robot, motion)[:, self.columns]

    def _variance(self, motion: Motion) -> float:
        return 1.0 if self.sigma is None else float(np.mean(motion.dq**2 @ self.sigma**2))


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


@dataclass(frozen=True, eq=False, slots=True)
class LoadModel(_OneByOne):
    """Motor torques of the axes that move, referred to the link side; built by `load_model`.

    `columns` number the robot's own parameters; the efficiency of axis i is column n_params + i.
    """

    robot: Robot
    link: int  # that carries the load
    moving: BoolArray  # (n_joints,)
    weights: FloatArray  # (n_joints,): of rows; 1 / σ makes them count by their noise
    columns: IntArray
    efficiencies: bool  # unknown too

    def __post_init__(self) -> None:
        n_joints = freeze(self, moving="bool: n_joints", weights="n_joints", columns="int: n_columns")["n_joints"]
        if n_joints != self.robot.n_joints:
            raise ValueError(f"moving has {n_joints} axes, expected the robot's {self.robot.n_joints}")

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient by the motion at fixed signs and fixed directions of power flow; the rest by central differences.

        Joints at standstill enter through their position q only, not through dq and ddq.
        """
        side = _driving(self, motion)
        rows = 2.0 * _blocks(self, motion, side) @ (0.5 * (gram_bar + gram_bar.T))
        still = np.arange(self.robot.n_joints), np.flatnonzero(self.moving), np.flatnonzero(self.moving)
        rows = rows * ~_stepped(self)
        return gradient_by_differences(lambda moved: _blocks(self, moved, side), motion, rows, still)

    def observation(self, motion: Motion) -> FloatArray:
        """W itself, rows of the axes that move."""
        return stack(_blocks(self, motion, _driving(self, motion)))


def load_model(
    robot: Robot, link: int, *, moving: BoolArray, weights: FloatArray | None = None, efficiencies: bool = True
) -> LoadModel:
    """Build the model of a load on a link; friction of the moving axes and, by choice, efficiencies are unknowns.

    The robot's prior, its payload included, stands for the expected load: it decides the directions of power flow.
    """
    moving = locked(moving, "bool")
    if not 0 <= link < robot.mechanism.n_links:
        raise ValueError(f"link is {link}, expected 0 to {robot.mechanism.n_links - 1} of {robot.name}")
    if not moving.any():
        raise ValueError("no axis moves, so no load shows; let some move")
    own = [10 * link + np.arange(10), friction_columns(robot, moving)]
    if efficiencies:
        own.append(len(layout(robot)) + np.flatnonzero(moving))
    rows = np.ones(robot.n_joints) if weights is None else np.asarray(weights, dtype=float)
    return LoadModel(robot, link, moving, rows, np.concatenate(own), efficiencies)


@dataclass(frozen=True, eq=False, slots=True)
class GainModel(_OneByOne):
    """Drive gains from a motion without and with a load: V g - W χ = w, [Briot2012] eq. (13); built by `gain_model`.

    `columns` number the robot's parameters, then unknown ones of the load (n_params + k), then, last, the gains
    relative to the believed ones (n_params + 10 + j). Rows are motors' torques referred to the links.
    """

    robot: Robot  # its payload is the load
    known: BoolArray  # (10,): the load's weighed parameters
    weights: FloatArray  # (n_joints,): of rows
    columns: IntArray

    def gradient(self, motion: Motion, gram_bar: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows = _gain_blocks(self, motion) @ (gram_bar + gram_bar.T)
        return gradient_by_differences(lambda moved: _gain_blocks(self, moved), motion, rows)

    def observation(self, motion: Motion) -> FloatArray:
        """W itself, rows without and with the load."""
        return stack(_gain_blocks(self, motion))


def gain_model(robot: Robot, columns: IntArray, *, known: BoolArray, moving: BoolArray, sigma: FloatArray) -> GainModel:
    """Build the model of gains of the drives that move; sigma are joints' torque deviations, (n_joints,)."""
    if robot.payload is None:
        raise ValueError("no load is stated, which sets the scale of the gains")
    n, carried = len(layout(robot)), carried_from_joints(robot)
    weights = np.where(moving, 1.0 / np.sqrt(carried**2 @ sigma**2), 0.0)
    whole = [columns, n + np.flatnonzero(~known), n + 10 + np.flatnonzero(moving)]
    model = GainModel(robot, locked(known, "bool"), weights, np.concatenate(whole))
    motion = random_motion(robot, 200, {int(j): 0.0 for j in np.flatnonzero(~moving)})
    W = model.observation(motion)
    norms = np.linalg.norm(W, axis=0)
    kept = independent_columns(W / np.where(norms > TOLERANCE * norms.max(), norms, np.inf))[0]
    return replace(model, columns=model.columns[kept])


def _gain_blocks(model: GainModel, motion: Motion) -> FloatArray:
    """Stack [Y, Y_L, τ] of each motor, first without, then with the load, (n_samples, 2 n_joints, n_columns)."""
    robot, load = model.robot, model.robot.payload
    assert load is not None
    n, N = len(layout(robot)), carried_from_joints(robot)
    Y = np.einsum("ij,kjc->kic", N, regressor(robot, motion))
    link = Y[:, :, 10 * load.link : 10 * load.link + 10]
    bare = Y @ robot.chi
    own, part = model.columns[model.columns < n], model.columns[(model.columns >= n) & (model.columns < n + 10)] - n
    drives = model.columns[model.columns >= n + 10] - n - 10
    W = np.zeros((2, *Y.shape[:2], len(model.columns)))
    W[:, :, :, : len(own)] = Y[:, :, own]
    W[1, :, :, len(own) : len(own) + len(part)] = link[:, :, part]
    place = len(own) + len(part) + np.arange(len(drives))
    W[0][:, drives, place] = bare[:, drives]
    W[1][:, drives, place] = (bare + link @ load.phi)[:, drives]
    return np.asarray((W * model.weights[:, None]).swapaxes(0, 1).reshape(len(motion), -1, len(model.columns)))


def carried_torques(robot: Robot, motion: Motion) -> FloatArray:
    """Compute τ', the motor torques that links and load require before losses, (n_samples, n_joints).

    Referred to the link side: times how often a motor turns for one turn of its own axis.
    """
    params = layout(robot)
    phi = prior(robot)[: params.n_link_params].reshape(-1, 10)
    return np.asarray(robot.mechanism.inverse_dynamics(motion, phi) @ carried_from_joints(robot).T)


def _blocks(model: LoadModel, motion: Motion, driving: FloatArray) -> FloatArray:
    """Stack [φ, friction, R] of each sample and moving axis, (n_samples, n_moving, n_columns).

    ∂τ_M/∂φ = ∂τ'/∂φ / R or · R, ∂τ_M/∂R = -τ' / R² or τ'; neither is reached at standstill.
    """
    robot, moving = model.robot, model.moving
    n_params = len(layout(robot))
    n_own = int((model.columns < n_params).sum())
    Y = regressor(robot, motion)[:, :, model.columns[:n_own]]
    W = np.zeros((len(motion), int(moving.sum()), len(model.columns)))
    W[:, :, :n_own] = np.einsum("ij,kjc->kic", carried_from_joints(robot)[moving], Y)
    R = np.broadcast_to(robot.drive.efficiency, driving.shape)
    gain, slope = gear_losses(carried_torques(robot, motion), driving, R)
    W[:, :, :10] *= gain[:, moving, None]
    if model.efficiencies:
        own = np.arange(int(moving.sum()))
        W[:, own, n_own + own] = slope[:, moving]
    return np.asarray(W * model.weights[None, moving, None])


def _driving(model: LoadModel, motion: Motion) -> FloatArray:
    """Which motors drive (1), are driven (-1) or stand still (0), by the prior, (n_samples, n_joints)."""
    return driving_side(carried_torques(model.robot, motion), motor_speeds(model.robot, motion.dq))


def _stepped(model: LoadModel) -> BoolArray:
    """Mark columns that hold a true sign, whose slope counts as 0, (n_columns,)."""
    params = layout(model.robot)
    stepped = [
        column
        for term, column in zip(model.robot.drive.friction, params.friction_columns, strict=True)
        if friction_model(term).shape == "sign" and has_true_sign(term)
    ]
    return np.isin(model.columns, stepped)
