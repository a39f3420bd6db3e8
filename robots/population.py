"""Whole populations of motions at once: Gram matrices, torques, clearances and tool speeds of every candidate.

q, dq and ddq are (n_candidates, n_joints, n_samples). Open chains run in compiled code; other mechanisms, and
friction with a state or a load, are evaluated candidate by candidate through `excitor.robots.dynamics`.
A candidate that leaves a closed chain's workspace has no information, and violates every limit.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from excitor.robots.kernel.accumulate import Efforts

from excitor.robots.arrays import FloatArray, IntArray, check_shape
from excitor.robots.cell import Scene, clearances, scene_rows, tool_speeds
from excitor.robots.dynamics import drive_elements, inverse_dynamics, rotor_matrix
from excitor.robots.errors import AssemblyError
from excitor.robots.friction import friction_model
from excitor.robots.gram import GramOf, gram, packing, selection
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree, chain

OUT_OF_REACH = 1e6  # N m, m/s, m: what a motion takes that leaves a closed chain's workspace; finite, for optimisers
Candidates = tuple[FloatArray, FloatArray, FloatArray]


def population_grams(
    robot: Robot,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    columns: IntArray | None = None,
    weights: FloatArray | None = None,
    n_samples: int | None = None,
) -> FloatArray:
    """WᵀW of each candidate's first n_samples (all by default), see `gram`: (n_candidates, n_columns, n_columns)."""
    from excitor.robots.kernel.accumulate import Drive, fill_grams, new_tape

    columns, weights = selection(robot, columns, weights)
    count = _first_samples(n_samples, np.shape(q)[-1], "n_samples")
    motions = _candidates(robot, count, q=q, dq=dq, ddq=ddq)
    out = np.empty((len(motions[0]), columns.size, columns.size))
    mechanism = robot.mechanism
    if not (isinstance(mechanism, Tree) and GramOf.fits(robot)):
        for b, motion in enumerate(_one_by_one(motions)):
            out[b] = 0.0  # what cannot be assembled tells nothing
            with suppress(AssemblyError):
                out[b] = gram(robot, motion, columns, weights)
        return out
    drive = Drive(drive_elements(robot), np.empty((0, robot.n_joints)), np.empty((0, 0)))
    flat, packed = chain(mechanism), packing(robot, columns, weights)
    fill_grams(flat, drive, packed, motions, new_tape(flat, packed, 1), out)
    return out


def population_torques(
    robot: Robot,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
    chi: FloatArray | None = None,
    n_mean: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """max |τ| over all samples, and the mean of τ² over the first n_mean (all by default): (n_candidates, n_joints).

    τ = Y χ as `inverse_dynamics` has it: links, rotors and friction, of the prior model where χ is not given.
    """
    from excitor.robots.kernel.accumulate import fill_torque_extremes

    chi = prior(robot) if chi is None else np.asarray(chi, dtype=float)
    check_shape(chi, "n_params", "chi", {"n_params": len(layout(robot))})
    motions = _candidates(robot, None, q=q, dq=dq, ddq=ddq)
    count = _first_samples(n_mean, motions[0].shape[2], "n_mean")
    out = np.empty((2, len(motions[0]), robot.n_joints))
    mechanism = robot.mechanism
    if not (isinstance(mechanism, Tree) and GramOf.fits(robot)):
        for b, motion in enumerate(_one_by_one(motions)):
            out[:, b] = OUT_OF_REACH
            with suppress(AssemblyError):
                tau = inverse_dynamics(robot, motion, chi)
                out[0, b], out[1, b] = np.abs(tau).max(axis=0), np.mean(tau[:count] ** 2, axis=0)
        return out[0], out[1]
    fill_torque_extremes(chain(mechanism), drive_elements(robot), _efforts(robot, chi), motions, count, out)
    return out[0], out[1]


def population_clearances(robot: Robot, scene: Scene, q: FloatArray, enough: FloatArray | float = np.inf) -> FloatArray:
    """Least clearance of each row over a candidate's samples, see `scene.clearances`: (n_candidates, n_rows).

    Rows whose clearance is above `enough` (n_rows,) everywhere are said to have that, in less time.
    """
    from excitor.robots.kernel.distances import fill_clearances

    (candidates,) = _candidates(robot, None, q=q)
    mechanism, rows = robot.mechanism, scene_rows(robot, scene)
    out = np.full((len(candidates), 1, len(rows.names)), -OUT_OF_REACH)
    if not isinstance(mechanism, Tree):
        for b, positions in enumerate(candidates):
            with suppress(AssemblyError):
                out[b, 0] = clearances(robot, scene, positions.T).min(axis=0)
        return np.asarray(np.minimum(out[:, 0], enough))
    out[:] = enough
    fill_clearances(chain(mechanism), rows.volumes, candidates, np.empty((0, 0, 4, 4)), out)
    return np.asarray(np.minimum(out[:, 0], enough))


def population_tool_speeds(robot: Robot, q: FloatArray, dq: FloatArray) -> FloatArray:
    """Largest speed of the tool's origin over a candidate's samples, m/s, (n_candidates,)."""
    from excitor.robots.kernel.accumulate import fill_top_speeds

    motions = _candidates(robot, None, q=q, dq=dq, ddq=dq)  # the recursion wants accelerations, speeds do not
    out = np.empty(len(motions[0]))
    mechanism = robot.mechanism
    if not isinstance(mechanism, Tree):
        for b, motion in enumerate(_one_by_one(motions)):
            out[b] = OUT_OF_REACH
            with suppress(AssemblyError):
                out[b] = tool_speeds(robot, motion).max()
        return out
    if robot.tool.link < 0:
        return np.zeros(len(motions[0]))
    fill_top_speeds(chain(mechanism), motions, robot.tool.link, robot.tool.T_link_frame[:3, 3].copy(), out)
    return out


def _candidates(robot: Robot, count: int | None, **arrays: FloatArray) -> tuple[FloatArray, ...]:
    """Check a population's arrays, and return their first samples read-only, as single motions are."""
    sizes = {"n_joints": robot.n_joints}
    views = []
    for name, given in arrays.items():
        array = np.asarray(given, dtype=float)
        check_shape(array, "n_candidates n_joints n_samples", name, sizes)
        if not array.size:
            raise ValueError(f"{name} has shape {array.shape}; a population needs candidates, joints and samples")
        if not np.isfinite(array.sum()) and not np.isfinite(array).all():
            bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"{name}{list(bad)} is {array[bad]}, expected a finite number")
        view = np.ascontiguousarray(array[:, :, :count]).view()
        view.flags.writeable = False
        views.append(view)
    return tuple(views)


def _efforts(robot: Robot, chi: FloatArray) -> "Efforts":
    """Collect the linear part of drive torques, τ = offset + damping · dq + inertia · ddq, and the rest by elements."""
    from excitor.robots.kernel.accumulate import Efforts

    params, n = layout(robot), robot.n_joints
    offset, damping = np.zeros(n), np.zeros((n, n))
    others = np.zeros(len(robot.drive.rotors) + len(robot.drive.friction))
    elements = zip(robot.drive.friction, params.friction_columns, strict=True)
    for e, (term, column) in enumerate(elements, start=len(robot.drive.rotors)):
        shape = friction_model(term).shape
        if shape == "constant":
            offset += chi[column] * term.acts
        elif shape == "linear":
            damping += chi[column] * np.outer(term.acts, term.senses)
        else:
            others[e] = chi[column]
    phi = np.ascontiguousarray(chi[: params.n_link_params].reshape(-1, 10))
    return Efforts(phi, offset, damping, rotor_matrix(robot, chi), others)


def _first_samples(count: int | None, n_samples: int, name: str) -> int:
    if count is None:
        return n_samples
    if not 1 <= count <= n_samples:
        raise ValueError(f"{name} is {count}, expected 1 to the {n_samples} samples that each candidate has")
    return int(count)


def _one_by_one(motions: tuple[FloatArray, ...]) -> list[Motion]:
    q, dq, ddq = motions
    return [Motion(q[b].T, dq[b].T, ddq[b].T) for b in range(len(q))]
