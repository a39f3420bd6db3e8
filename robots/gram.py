"""Gram matrix of the regressor of chosen parameters, its gradient by the motion, and condition numbers.

Mechanisms without an adjoint recursion are differentiated by finite differences.
"""

from functools import lru_cache

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray, check_shape
from excitor.robots.dynamics import drive_elements, foreign_terms, friction_load, regressor, slip_states
from excitor.robots.friction import friction_model
from excitor.robots.kernel.accumulate import ColumnPacking, Drive, Tape, fill_gram, new_tape, pack, record_gram
from excitor.robots.kernel.compile import CHUNK
from excitor.robots.kernel.drive import LOAD, OFFSET, STATE, element_slopes, signal
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree, chain, locked, samples

Gradient = tuple[FloatArray, FloatArray, FloatArray]
_STEP = 1e-5  # rad or m: errors of 1e-10 from the third derivative, 1e-11 from rounding


def gram(
    robot: Robot, motion: Motion, columns: IntArray | None = None, weights: FloatArray | None = None
) -> FloatArray:
    """WᵀW of selected parameters' columns, rows of joint i weighted by weights[i], (n_columns, n_columns)."""
    columns, weights = selection(robot, columns, weights)
    mechanism = robot.mechanism
    if not isinstance(mechanism, Tree):
        W = regressor(robot, motion)[:, :, columns] * weights[None, :, None]
        return np.asarray(np.tensordot(W, W, axes=((0, 1), (0, 1))))
    out = np.empty((columns.size, columns.size))
    drive = drive_along(robot, motion)
    fill_gram(chain(mechanism), drive, packing(robot, columns, weights), samples(motion, robot.n_joints), out)
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

    columns, weights = selection(robot, columns, weights)
    mechanism = robot.mechanism
    shape = (robot.n_joints, len(motion))
    check_shape(np.asarray(gram_bar), f"{columns.size} {columns.size}", "gram_bar")
    out = (np.empty(shape), np.empty(shape), np.empty(shape))
    symmetric = 0.5 * (gram_bar + gram_bar.T)
    if not isinstance(mechanism, Tree) or foreign_terms(robot):
        return gram_gradient_by_differences(robot, motion, columns, weights, symmetric)
    packed = packing(robot, columns, weights)
    fill_gram_gradient(
        chain(mechanism), drive_along(robot, motion), packed, samples(motion, robot.n_joints), symmetric, out
    )
    return out[0].T, out[1].T, out[2].T


class GramOf:
    """Gram matrix and gradient of many motions of one robot, (n_joints, n_samples) each, without checks of their form.

    Only for trees whose friction depends on each sample by itself: see `fits`.
    """

    def __init__(self, robot: Robot, columns: IntArray, weights: FloatArray) -> None:
        assert isinstance(robot.mechanism, Tree)
        columns, weights = selection(robot, columns, weights)
        self.chain, self.packed, self.n = chain(robot.mechanism), packing(robot, columns, weights), columns.size
        self.drive = Drive(drive_elements(robot), np.empty((0, robot.n_joints)), np.empty((0, 0)))
        self.tape: Tape | None = None

    @staticmethod
    def fits(robot: Robot) -> bool:
        """Return True for an open chain whose friction needs no more than a sample's motion."""
        rows = [friction_model(term) for term in robot.drive.friction]
        return isinstance(robot.mechanism, Tree) and not any(r.load or r.memory or r.compiled is None for r in rows)

    def gram(self, motion: Gradient) -> FloatArray:
        """WᵀW of a motion, whose work is kept for `gradient`."""
        n_chunks = -(-motion[0].shape[1] // CHUNK)
        if self.tape is None or len(self.tape.rows) < n_chunks:
            self.tape = new_tape(self.chain, self.packed, n_chunks)
        out = np.empty((self.n, self.n))
        self.motion = locked(*motion)
        record_gram(self.chain, self.drive, self.packed, self.motion, self.tape, out)
        return out

    def gradient(self, gram_bar: FloatArray) -> Gradient:
        """Gradient of J by q, dq, ddq of the last motion, given a symmetric ∂J/∂G."""
        from excitor.robots.kernel.adjoint import reverse_gram

        shape = self.motion[0].shape
        out = (np.empty(shape), np.empty(shape), np.empty(shape))
        assert self.tape is not None
        reverse_gram(self.chain, self.drive, self.packed, self.motion, self.tape, gram_bar, out)
        return out


def gram_condition(G: FloatArray) -> float:
    """Condition number of the column-normalised W from G = WᵀW, accurate below 1e6; inf where singular."""
    if not len(G):
        raise ValueError("G has no columns, so it has no condition number")
    scale = np.sqrt(np.diag(G))
    if not (scale > 0.0).all():
        return float("inf")
    values = np.linalg.eigvalsh(G / np.outer(scale, scale))
    singular = values[0] <= len(G) * np.finfo(float).eps * values[-1]
    return float("inf") if singular else float(np.sqrt(values[-1] / values[0]))


def condition_number(W: FloatArray) -> float:
    """Condition number of W (n_rows, n_columns), each column divided by its 2-norm, by SVD; inf where singular."""
    if not W.size:
        raise ValueError(f"W has shape {W.shape}; without rows and columns it has no condition number")
    norms = np.linalg.norm(W, axis=0)
    if not (norms > 0.0).all():
        return float("inf")
    values = np.linalg.svd(W / norms, compute_uv=False)
    singular = len(W) < W.shape[1] or values[-1] <= max(W.shape) * np.finfo(float).eps * values[0]
    return float("inf") if singular else float(values[0] / values[-1])


def stack(Y: FloatArray) -> FloatArray:
    """Stack a regressor joint by joint: all samples of joint 1, then joint 2, …: W (n_joints · n_samples, n_params)."""
    n_samples, n_joints, n_params = Y.shape
    return Y.transpose(2, 1, 0).reshape(n_params, n_joints * n_samples).T


def selection(robot: Robot, columns: IntArray | None, weights: FloatArray | None) -> tuple[IntArray, FloatArray]:
    """Check selected columns and joint weights, and fill in all columns and equal weights where not given."""
    n_params = len(layout(robot))
    chosen = np.arange(n_params) if columns is None else np.asarray(columns)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind != "i"):
        raise ValueError(f"columns is an array {chosen.shape} of {chosen.dtype}, expected a list of indices")
    if chosen.size and not 0 <= chosen.min() <= chosen.max() < n_params:
        raise ValueError(f"columns go from {chosen.min()} to {chosen.max()}, expected 0 to {n_params - 1}")
    if len(np.unique(chosen)) < chosen.size:
        raise ValueError("columns name one more than once")
    rows = np.ones(robot.n_joints) if weights is None else np.asarray(weights, dtype=float)
    check_shape(rows, str(robot.n_joints), "weights")
    return chosen.astype(np.int64), rows


def packing(robot: Robot, columns: IntArray, weights: FloatArray) -> ColumnPacking:
    """Pack selected columns for the kernel; packings are kept."""
    return _cached_packing(robot, columns.tobytes(), weights.tobytes())


@lru_cache(maxsize=64)
def _cached_packing(robot: Robot, columns: bytes, weights: bytes) -> ColumnPacking:
    assert isinstance(robot.mechanism, Tree)
    selected = np.frombuffer(columns, dtype=np.int64)
    return pack(chain(robot.mechanism), drive_elements(robot), selected, np.frombuffer(weights))


def drive_along(robot: Robot, motion: Motion) -> Drive:
    """Pack a robot's drives with what they need of a motion."""
    return Drive(drive_elements(robot), friction_load(robot, motion), slip_states(robot, motion))


def gram_gradient_by_differences(
    robot: Robot, motion: Motion, columns: IntArray, weights: FloatArray, gram_bar: FloatArray
) -> Gradient:
    """Gradient of J(gram(...)) by q, dq and ddq, each (n_samples, n_joints), given a symmetric gram_bar = ∂J/∂G."""
    Y = regressor(robot, motion)
    bar = np.zeros_like(Y)  # ∂J/∂Y = 2 w² Y ∂J/∂G
    bar[:, :, columns] = 2.0 * (Y[:, :, columns] * weights[None, :, None] ** 2) @ gram_bar
    n = layout(robot).n_link_params
    links = _of_links(robot, motion, bar[:, :, :n])
    drives = _of_drives(robot, motion, bar[:, :, n:])
    return links[0] + drives[0], links[1] + drives[1], links[2] + drives[2]


def _of_links(robot: Robot, motion: Motion, bar: FloatArray) -> Gradient:
    bar = np.ascontiguousarray(bar.transpose(2, 1, 0))
    out = (np.empty_like(motion.q), np.empty_like(motion.q), np.empty_like(motion.q))

    def value(kind: int, joint: int, step: float) -> FloatArray:
        parts = [motion.q, motion.dq, motion.ddq]
        parts[kind] = parts[kind].copy()
        parts[kind][:, joint] += step
        Y = np.empty(bar.shape)
        robot.mechanism.regressor(Motion(*parts), Y)
        return np.asarray(np.einsum("kis,kis->s", bar, Y))

    for joint in range(robot.n_joints):
        for kind, step in enumerate((_STEP, 1.0, 1.0)):
            out[kind][:, joint] = (value(kind, joint, step) - value(kind, joint, -step)) / (2.0 * step)
    return out


def _of_drives(robot: Robot, motion: Motion, bar: FloatArray) -> Gradient:
    out = (np.zeros_like(motion.q), np.zeros_like(motion.q), np.zeros_like(motion.q))
    elements, load = drive_elements(robot), friction_load(robot, motion)
    slope = np.empty(len(motion))
    for e, column in enumerate(elements.column):
        if elements.model[e] in (OFFSET, STATE):
            continue
        element_slopes(elements, e, samples(motion, robot.n_joints), 0, slope)
        if len(load) and elements.model[e] == LOAD:
            slope *= np.abs(load @ elements.acts[e])
        push = (bar[:, :, column] @ elements.acts[e]) * slope
        out[signal(elements.model[e])][:] += push[:, None] * elements.senses[e]
    _add_foreign(robot, motion, bar, out)
    return out


def _add_foreign(robot: Robot, motion: Motion, bar: FloatArray, out: Gradient) -> None:
    """Add slopes of registered friction laws by central differences; what they remember counts as given."""
    params = layout(robot)
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        row = friction_model(term)
        if row.compiled is not None or row.memory:
            continue
        p, v = motion.q @ term.senses, motion.dq @ term.senses
        push = bar[:, :, column - params.n_link_params] @ term.acts
        for kind, (dp, dv) in enumerate(((_STEP, 0.0), (0.0, _STEP))):
            change = row.column(term, p + dp, v + dv, v) - row.column(term, p - dp, v - dv, v)
            out[kind][:] += (push * change / (2.0 * _STEP))[:, None] * term.senses
