"""How do rows of equations update P = U D Uᵀ and the values, a row after another? The compiled part of `recursive`."""

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.compile import compiled, inner


@inner
def row_update(
    V: FloatArray, d: FloatArray, theta: FloatArray, work: FloatArray, row: FloatArray, y: float, learns: bool
) -> float:
    """Take in one equation y = row θ + e of variance 1 ([Bierman1977]); return e²/(1 + row P rowᵀ) of the prediction.

    V = Uᵀ is unit lower triangular; only what lies below its diagonal is read and written. `work` is (2, n). All d
    stay positive: d_j is multiplied by a_{j-1} / a_j with a_j ≥ a_{j-1} > 0. Without `learns` θ stays as it is.
    """
    n = len(d)
    b, f = work[0], work[1]
    error = y
    for j in range(n):
        total = row[j]
        for i in range(j):
            total += V[j, i] * row[i]
        f[j] = total
        error -= row[j] * theta[j]
    a = 1.0
    for j in range(n):
        b[j] = 0.0
        if f[j] == 0.0:
            continue
        g = d[j] * f[j]
        before = a
        a = before + f[j] * g
        d[j] *= before / a
        c = -f[j] / before
        for i in range(j):
            u = V[j, i]
            V[j, i] = u + b[i] * c
            b[i] += u * g
        b[j] = g
    if learns:
        gain = error / a
        for j in range(n):
            theta[j] += gain * b[j]
    return error * error / a


@inner
def forget(
    V: FloatArray, d: FloatArray, theta: FloatArray, work: FloatArray, bound: FloatArray, forgetting: float, turn: int
) -> None:
    """Divide P by the factor, then keep it below twice diag(bound): parameters regain information in turn.

    Each gets (1 - λᵖ) / bound every p steps, p so short that no more than half is forgotten in between (one step at
    least). θ is not touched.
    """
    n = len(d)
    for j in range(n):
        d[j] /= forgetting
    longest = max(1, int(np.log(0.5) / np.log(forgetting)))
    several = (n + longest - 1) // longest
    period = (n + several - 1) // several
    regained = 1.0 - forgetting**period
    row = np.zeros(n)
    first = (turn % period) * several
    for j in range(first, min(first + several, n)):
        row[j] = np.sqrt(regained / bound[j])
        row_update(V, d, theta, work, row, 0.0, False)
        row[j] = 0.0


@compiled
def group_updates(
    V: FloatArray,
    d: FloatArray,
    theta: FloatArray,
    bound: FloatArray,
    rows: FloatArray,
    y: FloatArray,
    ends: IntArray,
    forgetting: float,
    turn: int,
    squares: FloatArray,
) -> None:
    """Update in place with groups of rows, group k ending before row ends[k]; forgets once before each group.

    squares = [Σ e²/(1 + row P rowᵀ), number of rows], both forgetting too.
    """
    work = np.empty((2, len(d)))
    first = 0
    for k in range(len(ends)):
        if forgetting < 1.0:
            forget(V, d, theta, work, bound, forgetting, turn + k)
            squares[0] *= forgetting
            squares[1] *= forgetting
        for r in range(first, ends[k]):
            squares[0] += row_update(V, d, theta, work, rows[r], y[r], True)
            squares[1] += 1.0
        first = ends[k]
