"""Logs of any length: equations compressed while they come, in memory that does not grow.

Structured TSQR: a joint's rows have zeros in the columns of links that it does not move, so each joint's triangle is
kept on its own columns only, and updated by the QR of itself on top of the next rows.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import scipy.linalg

from excitor.identify.factors import Factors
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, IntArray, one_blas_thread
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import regressor
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

CHUNK = 4096  # samples at once


@one_blas_thread()
def stream_factors(robot: Robot, chunks: Iterable[Samples], *, columns: IntArray | None = None) -> Factors:
    """Compress τ = W β of samples that come chunk by chunk; chunks of the same run name are one run."""
    columns = base_parameters(robot).kept if columns is None else columns
    own = own_columns(robot, columns)
    runs: dict[str, int] = {}
    triangles: dict[tuple[int, int], FloatArray] = {}
    counts: dict[tuple[int, int], int] = {}
    for samples in chunks:
        run = runs.setdefault(samples.run, len(runs))
        for piece in pieces(samples):
            Y = regressor(robot, piece.motion)
            for j in range(robot.n_joints):
                key = (j, run)
                rows = np.empty((len(own[j]) + 1, len(piece)))
                rows[:-1] = Y[:, j, columns[own[j]]].T
                rows[-1] = piece.tau[:, j]
                triangles[key] = update(triangles.get(key), rows.T)
                counts[key] = counts.get(key, 0) + len(piece)
    return _scatter(robot, columns, own, triangles, counts)


def pieces(samples: Samples) -> Iterator[Samples]:
    """Cut samples into chunks."""
    for first in range(0, len(samples), CHUNK):
        rows = slice(first, first + CHUNK)
        motion = Motion(samples.motion.q[rows], samples.motion.dq[rows], samples.motion.ddq[rows])
        yield Samples(samples.run, motion, samples.tau[rows], samples.sample_rate_hz)


def own_columns(robot: Robot, columns: IntArray) -> list[IntArray]:
    """Find which of the columns each joint's rows can touch."""
    Y = regressor(robot, random_motion(robot, 20))[:, :, columns]
    return [np.flatnonzero(np.any(Y[:, j] != 0.0, axis=0)) for j in range(robot.n_joints)]


def update(triangle: FloatArray | None, rows: FloatArray) -> FloatArray:
    """Triangle of what came before on top of further rows (Fortran order: it is overwritten)."""
    stacked = rows if triangle is None else np.asfortranarray(np.concatenate([triangle, rows]))
    factored = scipy.linalg.lapack.dgeqrf(stacked, overwrite_a=1)[0]
    return np.triu(factored[: rows.shape[1]])


def _scatter(
    robot: Robot,
    columns: IntArray,
    own: list[IntArray],
    triangles: dict[tuple[int, int], FloatArray],
    counts: dict[tuple[int, int], int],
) -> Factors:
    """Write each joint's triangle to the columns of all."""
    from excitor.identify.factors import triangle as square

    if not triangles:
        raise ValueError("there are no samples to compress")
    groups = sorted(triangles)
    full = []
    for j, run in groups:
        small = triangles[j, run]
        wide = np.zeros((len(small), len(columns) + 1))
        wide[:, [*own[j], len(columns)]] = small
        full.append(square(wide))
    params = layout(robot)
    return Factors(
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint=np.array([j for j, _ in groups]),
        run=np.array([run for _, run in groups]),
        n_rows=np.array([counts[group] for group in groups]),
        R=np.array(full),
    )
