"""What every point of a descent needs besides a Gram matrix: the repair into limits, and the softened condition.

Points are cheap, so that calls of small array functions would take half of their time.
"""

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.kernel.compile import compiled, inner, inner_sums
from excitor.robots.kernel.recursion import add_scaled

_SWEEPS = 60  # for one eigenvalue; 2 are usual
_NEGLIGIBLE = 1e-14  # share of the largest weight


@compiled
def repair(
    basis: FloatArray, room: FloatArray, swing: FloatArray, reach: FloatArray, worst: IntArray, share: FloatArray
) -> None:
    """Find how far each joint's swing goes, and the largest share of a limit that it takes, 1 at least.

    `basis` is (n_orders, n_waves, n_samples), `room` (n_joints, n_orders): the width of the range, then rates; 0 of
    joints that do not move. `reach` (n_joints, 2) is the highest and lowest position. `worst` (n_joints, 4) holds the
    samples of these two, then the order that takes the largest share (-1: none takes more than 1) and its sample.
    """
    n_orders, n_waves, n_samples = basis.shape
    row = np.empty(n_samples)
    at = np.empty(2, dtype=np.int64)
    for j in range(swing.shape[0]):
        share[j], worst[j, 2], worst[j, 3] = 1.0, -1, 0
        for order in range(n_orders):
            for k in range(n_samples):
                row[k] = 0.0
            for wave in range(n_waves):
                add_scaled(row, swing[j, wave], basis[order, wave])
            extremes(row, at)
            high, low = row[at[0]], row[at[1]]
            if order == 0:
                worst[j, 0], worst[j, 1] = at[0], at[1]
                high, low = max(high, 0.0), min(low, 0.0)
                reach[j, 0], reach[j, 1] = high, low
                taken, sample = high - low, 0
            else:
                taken, sample = max(high, -low), at[0] if high >= -low else at[1]
            if room[j, order] > 0.0 and taken > share[j] * room[j, order]:
                share[j], worst[j, 2], worst[j, 3] = taken / room[j, order], order, sample


@inner
def extremes(row: FloatArray, at: IntArray) -> None:
    """Find the samples of the largest and the smallest value."""
    high = low = row[0]
    at[0] = at[1] = 0
    for k in range(row.size):
        if row[k] > high:
            high, at[0] = row[k], k
        if row[k] < low:
            low, at[1] = row[k], k


@compiled
def pull_back(
    basis: FloatArray,
    room: FloatArray,
    swing: FloatArray,
    held: IntArray,
    worst: IntArray,
    share: FloatArray,
    slope: FloatArray,
) -> None:
    """Turn a slope by repaired coefficients (n_joints, 1 + n_waves) into one by the coefficients before the repair.

    `held` is 1 where the centre lies at its upper end, -1 at its lower one: there it moves with the swing.
    """
    n_waves = basis.shape[1]
    for j in range(swing.shape[0]):
        up, down, order, sample = worst[j]
        if held[j] != 0:
            for wave in range(n_waves):
                slope[j, 1 + wave] -= slope[j, 0] * basis[0, wave, up if held[j] > 0 else down]
            slope[j, 0] = 0.0
        along = 0.0
        for wave in range(n_waves):
            along += slope[j, 1 + wave] * swing[j, wave]
        along /= share[j] ** 2
        side = 0.0
        for wave in range(n_waves):
            slope[j, 1 + wave] /= share[j]
            if order > 0:
                side += swing[j, wave] * basis[order, wave, sample]
        for wave in range(n_waves):
            if order == 0:
                grows = basis[0, wave, up] - basis[0, wave, down]
            elif order > 0:
                grows = basis[order, wave, sample] if side > 0.0 else -basis[order, wave, sample]
            else:
                break
            slope[j, 1 + wave] -= along * grows / room[j, order]


@compiled
def soft_condition(G: FloatArray, p: float, floor: float, normalised: bool, bar: FloatArray) -> float:
    """Evaluate J = (log Σ λᵖ + log Σ λ⁻ᵖ) / 2p of a Gram matrix with a positive diagonal; write dJ/dG into `bar`.

    With D = diag(G)^(-1/2), or 1, and D G D = Vᵀ λ V: dJ/dG = D Vᵀ w V D, whose diagonal loses d_k² Σ_i V_ik² w_i λ_i.
    inf where eigenvalues are not found.
    """
    n = len(G)
    d, values, off, w = np.ones(n), np.empty(n), np.empty(n), np.empty(n)
    if normalised:
        for i in range(n):
            d[i] = 1.0 / np.sqrt(G[i, i])
    M, V = np.empty((n, n)), np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            M[i, k] = G[i, k] * (d[i] * d[k])
    tridiagonal(M, values, off, V)
    bar[:, :] = 0.0
    if not rotate_to_diagonal(values, off, V):
        return np.inf
    J = spectral_weights(values, p, floor, w)
    most = 0.0
    for k in range(n):
        most = max(most, abs(w[k]))
    least = _NEGLIGIBLE * most
    for k in range(n):
        if abs(w[k]) > least:
            for i in range(n):
                add_scaled(bar[i], w[k] * V[k, i], V[k])
    for i in range(n):
        for k in range(n):
            bar[i, k] *= d[i] * d[k]
    if normalised:
        for k in range(n):
            for i in range(n):
                bar[i, i] -= d[i] * d[i] * V[k, i] * V[k, i] * w[k] * values[k]
    return J


@inner
def spectral_weights(values: FloatArray, p: float, floor: float, w: FloatArray) -> float:
    """Evaluate J of eigenvalues, none below `floor` of the largest, and w = dJ/dλ."""
    largest = values[0]
    for k in range(1, values.size):
        largest = max(largest, values[k])
    smallest = largest
    for k in range(values.size):
        values[k] = max(values[k], floor * largest)
        smallest = min(smallest, values[k])
    ups = downs = 0.0
    down = np.empty(values.size)
    for k in range(values.size):
        w[k], down[k] = (values[k] / largest) ** p, (smallest / values[k]) ** p
        ups, downs = ups + w[k], downs + down[k]
    for k in range(values.size):
        w[k] = 0.5 / values[k] * (w[k] / ups - down[k] / downs)
    return float(0.5 * (np.log(largest / smallest) + (np.log(ups) + np.log(downs)) / p))


@inner
def tridiagonal(M: FloatArray, diagonal: FloatArray, off: FloatArray, V: FloatArray) -> None:
    """Reduce a symmetric matrix, which is overwritten, to tridiagonal form T by reflections: M = Vᵀ T V."""
    n = len(M)
    scale, w = np.zeros(n), np.empty(n)
    for k in range(n - 2):  # its row keeps the reflection x: 1 - scale x xᵀ
        x = M[k, k + 1 :]
        norm = np.sqrt(dot(x, x))
        off[k] = -norm if x[0] > 0.0 else norm
        diagonal[k] = M[k, k]
        if norm == 0.0:
            continue
        x[0] -= off[k]
        scale[k] = 2.0 / dot(x, x)
        z = w[k + 1 :]
        for i in range(z.size):
            z[i] = scale[k] * dot(M[k + 1 + i, k + 1 :], x)
        add_scaled(z, -0.5 * scale[k] * dot(z, x), x)
        for i in range(z.size):
            add_two(M[k + 1 + i, k + 1 :], -x[i], z, -z[i], x)
    for k in range(max(0, n - 2), n):
        diagonal[k] = M[k, k]
        off[k] = M[k, k + 1] if k + 1 < n else 0.0
    for i in range(n):
        V[i, i] = 1.0
    for back in range(n - 2):
        k = n - 3 - back
        x = M[k, k + 1 :]
        for row in range(k + 1, n):
            v = V[row, k + 1 :]
            add_scaled(v, -scale[k] * dot(v, x), x)


@inner
def rotate_to_diagonal(d: FloatArray, e: FloatArray, V: FloatArray) -> bool:
    """Find the eigenvalues of a tridiagonal matrix (diagonal d, off it e) by implicit QL sweeps, which turn V's rows.

    False where one takes too many sweeps.
    """
    n = d.size
    for first in range(n):
        for sweep in range(_SWEEPS + 1):
            last = first
            while last < n - 1 and abs(e[last]) > np.finfo(np.float64).eps * (abs(d[last]) + abs(d[last + 1])):
                last += 1
            if last == first:
                break
            if sweep == _SWEEPS:
                return False
            ql_sweep(d, e, V, first, last)
    return True


@inner
def ql_sweep(d: FloatArray, e: FloatArray, V: FloatArray, first: int, last: int) -> None:
    """Make one implicit QL sweep over a block that does not fall apart, with Wilkinson's shift."""
    g = (d[first + 1] - d[first]) / (2.0 * e[first])
    r = np.sqrt(g * g + 1.0)
    g = d[last] - d[first] + e[first] / (g + (r if g >= 0.0 else -r))
    s = c = 1.0
    p = 0.0
    for back in range(last - first):
        i = last - 1 - back
        f, b = s * e[i], c * e[i]
        r = np.sqrt(f * f + g * g)
        e[i + 1] = r
        if r == 0.0:  # the block falls apart here
            d[i + 1] -= p
            e[last] = 0.0
            return
        s, c = f / r, g / r
        g = d[i + 1] - p
        r = (d[i] - g) * s + 2.0 * c * b
        p = s * r
        d[i + 1] = g + p
        g = c * r - b
        turn(V[i], V[i + 1], c, s)
    d[first] -= p
    e[first] = g
    e[last] = 0.0


@inner
def turn(one: FloatArray, other: FloatArray, c: float, s: float) -> None:
    """Rotate two rows in their plane."""
    for k in range(one.size):
        x, y = one[k], other[k]
        other[k] = s * x + c * y
        one[k] = c * x - s * y


@inner
def add_two(target: FloatArray, a: float, x: FloatArray, b: float, y: FloatArray) -> None:
    """Add a · x + b · y."""
    for k in range(target.size):
        target[k] += a * x[k] + b * y[k]


@inner_sums
def dot(x: FloatArray, y: FloatArray) -> float:
    """Sum products."""
    total = 0.0
    for k in range(x.size):
        total += x[k] * y[k]
    return total
