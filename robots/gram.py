"""How much a motion says about chosen parameters: the Gram matrix of the regressor, its gradient, conditioning."""

from functools import lru_cache

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.drive import drive_elements, slip_states
from excitor.robots.dynamics import friction_load, regressor
from excitor.robots.kernel.gram import Drive, Packing, fill_gram, pack
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree, chain, samples


def gram(
    robot: Robot, motion: Motion, columns: IntArray | None = None, weights: FloatArray | None = None
) -> FloatArray:
    """WᵀW of selected parameters' columns, rows of joint i weighted by weights[i], (n_columns, n_columns)."""
    columns, weights = _selection(robot, columns, weights)
    mechanism = robot.mechanism
    if not isinstance(mechanism, Tree):
        W = regressor(robot, motion)[:, :, columns] * weights[None, :, None]
        return np.asarray(np.tensordot(W, W, axes=((0, 1), (0, 1))))
    out = np.empty((columns.size, columns.size))
    fill_gram(chain(mechanism), _drive(robot, motion), _packing(robot, columns, weights), samples(motion), out)
    return out


def gram_gradient(
    robot: Robot,
    motion: Motion,
    *,
    gram_bar: FloatArray,
    columns: IntArray | None = None,
    weights: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gradient of J(gram(...)) by q, dq and ddq, each (n_samples, n_joints), given gram_bar = ∂J/∂G.

    Loads of load-dependent friction and states of Maxwell-slip elements count as given; a true sign has slope 0.
    """
    from excitor.robots.kernel.adjoint import fill_gram_gradient

    columns, weights = _selection(robot, columns, weights)
    mechanism = robot.mechanism
    if not isinstance(mechanism, Tree):
        raise NotImplementedError(f"{type(mechanism).__name__} has no gradient of the Gram matrix yet")
    shape = (robot.n_joints, len(motion))
    out = (np.empty(shape), np.empty(shape), np.empty(shape))
    symmetric = 0.5 * (gram_bar + gram_bar.T)
    packing = _packing(robot, columns, weights)
    fill_gram_gradient(chain(mechanism), _drive(robot, motion), packing, samples(motion), symmetric, out)
    return out[0].T, out[1].T, out[2].T


def gram_condition(G: FloatArray) -> float:
    """Condition number of the column-normalised W from G = WᵀW; inf where singular. Good below 1e6: G squares it.

    Final scores are `condition_number`.
    """
    scale = np.sqrt(np.diag(G))
    if not (scale > 0.0).all():
        return float("inf")
    values = np.linalg.eigvalsh(G / np.outer(scale, scale))
    return float(np.sqrt(values[-1] / values[0])) if values[0] > 0.0 else float("inf")


def condition_number(W: FloatArray) -> float:
    """Condition number of W (n_rows, n_columns), each column divided by its 2-norm, by SVD; inf where singular."""
    norms = np.linalg.norm(W, axis=0)
    if not (norms > 0.0).all():
        return float("inf")
    values = np.linalg.svd(W / norms, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0.0 else float("inf")


def stack(Y: FloatArray) -> FloatArray:
    """Stack a regressor joint by joint: all samples of joint 1, then joint 2, …: W (n_joints · n_samples, n_params)."""
    n_samples, n_joints, n_params = Y.shape
    return Y.transpose(2, 1, 0).reshape(n_params, n_joints * n_samples).T


def _selection(robot: Robot, columns: IntArray | None, weights: FloatArray | None) -> tuple[IntArray, FloatArray]:
    columns = np.arange(len(layout(robot))) if columns is None else np.asarray(columns, dtype=np.int64)
    weights = np.ones(robot.n_joints) if weights is None else np.asarray(weights, dtype=float)
    return columns, weights


def _packing(robot: Robot, columns: IntArray, weights: FloatArray) -> Packing:
    return _cached_packing(robot, columns.tobytes(), weights.tobytes())


@lru_cache(maxsize=64)
def _cached_packing(robot: Robot, columns: bytes, weights: bytes) -> Packing:
    assert isinstance(robot.mechanism, Tree)
    selected = np.frombuffer(columns, dtype=np.int64)
    return pack(chain(robot.mechanism), drive_elements(robot), selected, np.frombuffer(weights))


def _drive(robot: Robot, motion: Motion) -> Drive:
    return Drive(drive_elements(robot), friction_load(robot, motion), slip_states(robot, motion))
