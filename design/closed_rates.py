"""How fast a closed chain's passive coordinates can possibly move inside intervals of time, from its drives' bounds.

With A(q) the closures' Jacobian by all coordinates of the opened tree, split in A_d (the sought ones) and A_g (the
drives), every motion has A q̇ = 0, and so

    q_d⁽ᵏ⁺¹⁾ = -A_d⁻¹ (A_g q_g⁽ᵏ⁺¹⁾ + Σ_{i≥1} C(k, i) A⁽ⁱ⁾ q⁽ᵏ⁺¹⁻ⁱ⁾).

Let C = A_d⁻¹ at an interval's left end, and suppose speeds V of the sought coordinates. Then |A - A_left| ≤ h |Ȧ|, with
|Ȧ| from V by the tree's own bounds, and with E = |C| h |Ȧ_d| of spectral radius below 1

    |A_d⁻¹| ≤ (1 - E)⁻¹ |C|,    |q̇_d| ≤ (1 - E)⁻¹ (|C A_g| + |C| h |Ȧ_g|) |q̇_g|.

Where this is no more than V, V holds in the whole interval: the first time at which it did not cannot come. In the box
that V allows the closures have one solution only, so the assembly at the right end continues that at the left. All
inequalities are entry by entry.
"""

from dataclasses import dataclass
from math import comb

import numpy as np

from excitor.design.bounds import LinkRates, fixed_vector, leibniz, link_rates, point_rates
from excitor.design.pieces import N_ORDERS, Spans
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.closed_chain import ClosedLoop, Closure, Opened, closures_at, complete, sought, strides

_SPARE, _FLOOR = 1.25, 0.1  # the speeds that are supposed: so much above the left end's, and of the fastest one
_CONTRACTS = 0.9  # row sums of E, coordinates in their strides: below 1 the Neumann series converges
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class ClosedSpans:
    """What is known of a closed chain inside intervals; nothing where `valid` is False."""

    valid: BoolArray  # (n_spans,)
    whole: Opened  # at the samples
    rates: FloatArray  # (5, n_spans, n_all): |q⁽ᵏ⁾| of the opened tree's coordinates
    links: LinkRates  # of the opened tree
    J: FloatArray  # (3, n_spans, n_all, n_joints): |J⁽ᵏ⁾|, dq_all = J dq


def closed_spans(loop: ClosedLoop, part: Spans) -> ClosedSpans:
    """Bound all coordinates of the opened tree, and their Jacobian by the drives, inside intervals."""
    whole = complete(loop, part.motion)
    free, given, h = sought(loop, loop.actuated), loop.actuated, part.h
    q_ends = whole.motion.q
    assembled = whole.closes[part.left] & whole.closes[part.right]
    A_left = np.where(assembled[:, None, None], closures_at(loop, q_ends)[1][:, :, free][part.left], np.eye(free.size))
    C = np.abs(np.linalg.inv(A_left))
    J_left = np.abs(whole.J.transpose(2, 0, 1)[part.left][:, free])

    rates = np.zeros((N_ORDERS, part.left.size, loop.tree.n_joints))
    rates[:, :, given] = part.rates()
    at_left = _times(J_left, rates[1][:, given])
    scale = strides(loop)[free]
    V = _SPARE * at_left + _FLOOR * scale * (at_left / scale).max(axis=1, keepdims=True)
    rates[0][:, free] = np.abs(q_ends[part.left][:, free]) + h * V
    rates[1][:, free] = V
    A = closure_rates(loop, link_rates(loop.tree, rates), h)
    E = C @ (h[:, :, None] * A[1][:, :, free])
    contracts = ((E @ scale) / scale).max(axis=1) < _CONTRACTS
    M = np.linalg.inv(np.eye(free.size) - np.where(contracts[:, None, None], E, 0.0))
    G = M @ (J_left + C @ (h[:, :, None] * A[1][:, :, given]))  # |J| inside
    N = M @ C
    speeds = _times(G, rates[1][:, given])
    travelled = np.abs(q_ends[part.right] - q_ends[part.left])[:, free]
    valid = assembled & contracts & (speeds <= V).all(axis=1) & (travelled <= h * V + _ROUNDING * scale).all(axis=1)

    rates[1][:, free] = speeds
    pull = [G, N, A]
    rates[2][:, free] = _order(pull, rates, 2, free, given)
    pull[2] = closure_rates(loop, link_rates(loop.tree, rates), h)
    rates[3][:, free] = _order(pull, rates, 3, free, given)
    _tighten(rates, 1, part, whole.motion.dq, free)
    pull[2] = closure_rates(loop, link_rates(loop.tree, rates), h)
    rates[4][:, free] = _order(pull, rates, 4, free, given)
    _tighten(rates, 2, part, whole.motion.ddq, free)
    _tighten(rates, 0, part, q_ends, free)
    links = link_rates(loop.tree, rates)
    pull[2] = closure_rates(loop, links, h)
    for order in (3, 4):
        rates[order][:, free] = np.minimum(rates[order][:, free], _order(pull, rates, order, free, given))
    return ClosedSpans(valid, whole, rates, link_rates(loop.tree, rates), _jacobian(loop, pull, part, whole))


def closure_rates(loop: ClosedLoop, links: LinkRates, h: FloatArray) -> FloatArray:
    """Bound the closures' Jacobian and its derivatives, (4, n_spans, n_equations, n_all).

    A rod's direction is d / L, |d| ≤ L + h |ḋ| wherever the coordinates may be within h of an assembled position.
    """
    n_equations, n_spans = sum(len(closure) for closure in loop.closures), h.size
    out = np.zeros((N_ORDERS - 1, n_equations, loop.tree.n_joints, n_spans))
    first = 0
    for closure in loop.closures:
        rows = slice(first, first + len(closure))
        first += len(closure)
        along = _along(loop, closure, links, h[:, 0])
        for side in (0, 1):
            for coordinate, column in _columns(loop, closure, side, links):
                entry = leibniz(along, column, N_ORDERS - 1)
                if closure.kind == "turn":  # A is the closures' slope where they close, and differs from it by this
                    entry[1] += 1.5 * sum(links.turn[link][0] for link in closure.links) * column[0]
                out[:, rows, coordinate] += entry[:, None]
    return out.transpose(0, 3, 1, 2)


def _along(loop: ClosedLoop, closure: Closure, links: LinkRates, h: FloatArray) -> FloatArray:
    """Bound the directions that a closure joins, (4, n_spans)."""
    along = np.zeros((N_ORDERS - 1, h.size))
    along[0] = 1.0
    if closure.kind == "rod":
        for link, point in zip(closure.links, closure.points, strict=True):
            if link >= 0:
                along[1:] += point_rates(loop.tree, link, point, links)[1 : N_ORDERS - 1] / closure.length
        along[0] += h * along[1]
    return along


def _columns(loop: ClosedLoop, closure: Closure, side: int, links: LinkRates) -> list[tuple[int, FloatArray]]:
    """Bound what a unit rate of each coordinate does to one side of a closure: coordinates, (5, n_spans)."""
    tree, j, found = loop.tree, closure.links[side], []
    way = fixed_vector(tree, j, closure.points[side], links)
    while j >= 0:
        parent = int(tree.parents[j])
        if tree.sliding[j] or closure.kind == "turn":
            column = links.direction[parent]
        else:
            column = leibniz(links.direction[parent], way + links.arm[j], N_ORDERS)
        if not (closure.kind == "turn" and tree.sliding[j]):
            found += [(int(c), abs(tree.coupling[j, c]) * column) for c in np.flatnonzero(tree.coupling[j])]
        way = way + links.step[j]
        j = parent
    return found


def _order(pull: list[FloatArray], rates: FloatArray, order: int, free: IntArray, given: IntArray) -> FloatArray:
    """Bound a derivative of the sought coordinates by lower ones, (n_spans, n_sought)."""
    G, N, A = pull
    bent = np.zeros_like(rates[order][:, free])
    for i in range(1, order):
        bent += comb(order - 1, i) * _times(A[i], rates[order - i])
    return _times(G, rates[order][:, given]) + _times(N, bent)


def _tighten(rates: FloatArray, order: int, part: Spans, values: FloatArray, free: IntArray) -> None:
    """Bound a derivative by the ends and its own second derivative, where that is less."""
    inside = part.worst_of_ends(np.abs(values)) + part.h**2 / 8.0 * rates[order + 2]
    rates[order][:, free] = np.minimum(rates[order], inside)[:, free]


def _jacobian(loop: ClosedLoop, pull: list[FloatArray], part: Spans, whole: Opened) -> FloatArray:
    """Bound J and its derivatives: A_d J⁽ᵏ⁾ = -A_g⁽ᵏ⁾ - Σ_{i≥1} C(k, i) A_d⁽ⁱ⁾ J⁽ᵏ⁻ⁱ⁾."""
    G, N, A = pull
    free, given = sought(loop, loop.actuated), loop.actuated
    first = N @ (A[1][:, :, given] + A[1][:, :, free] @ G)
    second = N @ (A[2][:, :, given] + 2.0 * A[1][:, :, free] @ first + A[2][:, :, free] @ G)
    J = np.zeros((3, part.left.size, loop.tree.n_joints, loop.n_joints))
    J[0][:, given] = np.eye(loop.n_joints)
    at_ends = part.worst_of_ends(np.abs(whole.J.transpose(2, 0, 1)[:, free]))
    J[0][:, free] = np.minimum(G, at_ends + part.h[:, :, None] ** 2 / 8.0 * second)
    J[1][:, free], J[2][:, free] = first, second
    return J


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])
