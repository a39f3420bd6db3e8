"""Bounds on the rates of torques and points inside time intervals, from bounds of the joints' derivatives alone.

Norms are propagated along the tree, in base axes. With ω the angular velocity of a link and u any vector fixed in it,
u̇ = ω × u, so bounds W_k of |ω⁽ᵏ⁾| bound the derivatives of u by |u| D_k:

    D_0 = 1,   D_{k+1} = Σ_i C(k, i) W_i D_{k-i}.

A revolute joint turns about an axis a fixed in its parent, ω = ω_parent + a θ̇: W_k gains Σ_i C(k, i) D_i |θ⁽ᵏ⁺¹⁻ⁱ⁾|.
Products of any kind (number, dot, cross, matrix on vector) follow Leibniz: (x y)⁽ᵏ⁾ ≤ Σ_i C(k, i) x_i y_{k-i}, written
`leibniz`. Positions add up along the chain; a body of mass m, first moment R h and inertia R J Rᵀ about its frame's
origin p needs, there, the force f and the moment n

    f = m (p̈ - g) + (R h)¨,      n = d/dt (R J Rᵀ ω) + (R h) × (p̈ - g),

and the torque of a joint with axis a at pivot c is Σ a · ((p - c) × f + n) over the bodies it carries, a · Σ f if it
slides. Every sequence below is an array (order, n_spans): one bound for each order and each interval of time.

A closed chain's passive coordinates are bounded from its drives' bounds. `worst_case` bounds the largest value of a
quantity, between samples too, by bisecting time until the upper bound is sharp enough.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import comb

import numpy as np

from excitor.design.motion import N_ORDERS, Move, Segment, Spans, spans
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.cell import Scene, scene_rows
from excitor.robots.closed_chain import (
    ClosedLoop,
    Closure,
    OpenTreeMotion,
    closures_at,
    complete,
    dependents,
    scaled,
    strides,
)
from excitor.robots.inertia import tensor
from excitor.robots.robot import Mechanism, Robot
from excitor.robots.tree import Tree


@dataclass(frozen=True, eq=False, slots=True)
class LinkRates:
    """Bounds of how the links of a tree move, one row a link; the last row is the base, so that -1 finds it."""

    turn: FloatArray  # (n_links + 1, 4, n_spans): |ω⁽ᵏ⁾|
    direction: FloatArray  # (n_links + 1, 5, n_spans): |u⁽ᵏ⁾| of a unit vector u fixed in the link
    arm: FloatArray  # (n_links + 1, 5, n_spans): from the joint's pivot to the link's origin
    step: FloatArray  # (n_links + 1, 5, n_spans): from the parent's origin to the link's
    origin: FloatArray  # (n_links + 1, 5, n_spans): from the base's origin to the link's


def leibniz(x: FloatArray, y: FloatArray, n_orders: int) -> FloatArray:
    """Bound the derivatives of a product, (n_orders, n_spans)."""
    return np.stack([sum(comb(k, i) * x[i] * y[k - i] for i in range(k + 1)) for k in range(n_orders)])


def link_rates(tree: Tree, rates: FloatArray) -> LinkRates:
    """Propagate bounds of |q⁽ᵏ⁾|, (5, n_spans, n_joints), along the tree."""
    theta = np.einsum("kni,ji->jkn", rates, np.abs(tree.coupling))
    theta[:, 0] += np.abs(tree.offset)[:, None]
    shape = (tree.n_links + 1, N_ORDERS, rates.shape[1])
    turn, direction = np.zeros((shape[0], N_ORDERS - 1, shape[2])), np.zeros(shape)
    arm, step, origin = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    direction[:, 0] = 1.0
    for j, parent in enumerate(tree.parents):
        turn[j] = turn[parent]
        if not tree.sliding[j]:
            turn[j] += leibniz(direction[parent], theta[j, 1:], N_ORDERS - 1)
        for k in range(N_ORDERS - 1):
            direction[j, k + 1] = sum(comb(k, i) * turn[j, i] * direction[j, k - i] for i in range(k + 1))
        before, after = tree.before[j, :3, 3], tree.after[j, :3, 3]
        if tree.sliding[j]:
            constant = before + tree.before[j, :3, :3] @ after
            step[j] = np.linalg.norm(constant) * direction[parent] + leibniz(direction[parent], theta[j], N_ORDERS)
        else:
            arm[j] = _fixed(tree, j, tree.after[j, :3, :3].T @ after, direction)
            step[j] = np.linalg.norm(before) * direction[parent] + arm[j]
        origin[j] = origin[parent] + step[j]
    return LinkRates(turn, direction, arm, step, origin)


def point_rates(tree: Tree, link: int, point: FloatArray, links: LinkRates) -> FloatArray:
    """Bound a point of a link, and its derivatives, as seen from the base's origin, (5, n_spans)."""
    return np.asarray(links.origin[link] + _fixed(tree, link, point, links.direction))


def torque_rates(tree: Tree, phi: FloatArray, links: LinkRates) -> FloatArray:
    """Bound |τ|, |τ̇|, |τ̈| of the links' torques, without rotors and friction, (3, n_spans, n_joints)."""
    moment = np.zeros((tree.n_links, 3, links.turn.shape[2]))  # at each joint: of what it carries, orders 0 to 2
    for j in np.flatnonzero(phi.any(axis=1)).tolist():
        force, moment_at_origin = _body(tree, j, phi[j], links)
        way = np.zeros((N_ORDERS, links.turn.shape[2]))
        i = j
        while i >= 0:
            if tree.sliding[i]:
                moment[i] += force
            else:
                moment[i] += leibniz(way + links.arm[i], force, 3) + moment_at_origin
            way = way + links.step[i]
            i = int(tree.parents[i])
    along = np.stack([leibniz(links.direction[p], moment[i], 3) for i, p in enumerate(tree.parents)])
    return np.asarray(along.transpose(1, 2, 0) @ np.abs(tree.coupling))


def _body(tree: Tree, j: int, phi: FloatArray, links: LinkRates) -> tuple[FloatArray, FloatArray]:
    """Bound force and moment about the frame's origin that a body needs, orders 0 to 2."""
    first_moment = _fixed(tree, j, phi[6:9], links.direction)
    acceleration = links.origin[j, 2:].copy()
    acceleration[0] += np.linalg.norm(tree.gravity)
    force = abs(phi[9]) * acceleration + first_moment[2:]
    moments = np.linalg.eigvalsh(tensor(phi))
    # J = c 1 + J': the first part does not turn with the link.
    c, spread = 0.5 * (moments[-1] + moments[0]), 0.5 * (moments[-1] - moments[0])
    turned = leibniz(links.direction[j], links.direction[j], 4)
    momentum = abs(c) * links.turn[j] + spread * leibniz(turned, links.turn[j], 4)
    return force, momentum[1:] + leibniz(first_moment, acceleration, 3)


def _fixed(tree: Tree, link: int, vector: FloatArray, direction: FloatArray) -> FloatArray:
    """Bound a fixed vector's derivative; its part along the joint's axis counts as fixed in the parent if smaller."""
    plain = np.asarray(np.linalg.norm(vector) * direction[link])
    if link < 0 or tree.sliding[link]:
        return plain
    axis = tree.after[link, :3, :3].T @ tree.axis[link]
    along = axis @ vector
    across = np.linalg.norm(vector - along * axis)
    return np.asarray(np.minimum(plain, abs(along) * direction[tree.parents[link]] + across * direction[link]))


@dataclass(frozen=True, eq=False, slots=True)
class ClosedSpans:
    """Bounds of a closed chain's motion inside intervals; no bound exists where `valid` is False."""

    valid: BoolArray  # (n_spans,)
    whole: OpenTreeMotion  # at the samples
    rates: FloatArray  # (5, n_spans, n_all): |q⁽ᵏ⁾| of the opened tree's coordinates
    links: LinkRates  # of the opened tree
    J: FloatArray  # (3, n_spans, n_all, n_joints): |J⁽ᵏ⁾|, dq_all = J dq


def links_curvature(mechanism: Mechanism, phi: FloatArray, part: Spans) -> tuple[FloatArray, BoolArray]:
    """Bound |τ̈| of the links' torques inside intervals, (n_spans, n_joints); the mask marks valid ones (n_spans,)."""
    if isinstance(mechanism, Tree):
        torque = torque_rates(mechanism, phi, link_rates(mechanism, part.rates()))
        return np.asarray(torque[2]), np.ones(part.left.size, dtype=bool)
    assert isinstance(mechanism, ClosedLoop)
    closed = closed_spans(mechanism, part)
    phi_tree = mechanism.tree_parameters(phi)
    torque = torque_rates(mechanism.tree, phi_tree, closed.links)
    at_samples = np.abs(mechanism.tree.inverse_dynamics(closed.whole.motion, phi_tree))
    torque[0] = np.minimum(torque[0], part.worst_of_ends(at_samples) + part.h**2 / 8.0 * torque[2])
    bend = sum(
        share * np.einsum("scg,sc->sg", closed.J[2 - order], torque[order])
        for order, share in enumerate((1.0, 2.0, 1.0))
    )
    return np.asarray(bend), closed.valid


def links_curvatures(mechanism: Mechanism, phis: FloatArray, part: Spans) -> tuple[FloatArray, BoolArray]:
    """Bound |τ̈| of several sets of link parameters, (n_sets, n_spans, n_joints), and mark where that is valid."""
    if isinstance(mechanism, Tree):
        links = link_rates(mechanism, part.rates())
        return np.stack([torque_rates(mechanism, phi, links)[2] for phi in phis]), np.ones(part.left.size, dtype=bool)
    bends, valid = zip(*(links_curvature(mechanism, phi, part) for phi in phis), strict=True)
    return np.stack(bends), valid[0]


def body_point_rates(mechanism: Mechanism, body: int, point: FloatArray, part: Spans) -> FloatArray:
    """Bound a point of a body, and its derivatives, as seen from the base's origin, (5, n_spans); inf: not known."""
    tree, link, links, valid = _body_links(mechanism, body, part)
    return np.where(valid, point_rates(tree, link, point, links), np.inf)


def body_direction_rates(mechanism: Mechanism, body: int, part: Spans) -> FloatArray:
    """Bound the derivatives of a unit vector that is fixed in a body, (5, n_spans); inf: not known."""
    _, link, links, valid = _body_links(mechanism, body, part)
    return np.where(valid, links.direction[link], np.inf)


def _body_links(mechanism: Mechanism, body: int, part: Spans) -> tuple[Tree, int, LinkRates, BoolArray]:
    """Return the tree that carries a body, its link there, bounds of the links, and where they are valid."""
    if isinstance(mechanism, Tree):
        return mechanism, body, link_rates(mechanism, part.rates()), np.ones(part.left.size, dtype=bool)
    assert isinstance(mechanism, ClosedLoop)
    closed = closed_spans(mechanism, part)
    return mechanism.tree, int(mechanism.bodies[body]) if body >= 0 else -1, closed.links, closed.valid


def closed_row_speeds(robot: Robot, scene: Scene, part: Spans) -> FloatArray:
    """Bound how fast each row's clearance can change inside intervals, m/s, (n_spans, n_rows).

    It changes no faster than the ends of the body's segment move, of a pair both bodies': |ṗ| ≤ max(|ṗ_a|, |ṗ_b|) +
    h²/8 · max|p⃛|.
    """
    loop, volumes = robot.mechanism, scene_rows(robot, scene).volumes
    assert isinstance(loop, ClosedLoop)
    whole = closed_spans(loop, part).whole.motion
    poses, jacobians = loop.tree.poses(whole.q), loop.tree.jacobians(whole.q)
    speeds = np.zeros((len(volumes.link), part.left.size))
    for k, (body, ends) in enumerate(zip(map(int, volumes.link), volumes.ends, strict=True)):
        if body < 0:
            continue
        link = int(loop.bodies[body])
        twist = np.einsum("ska,sa->sk", jacobians[:, link], whole.dq)
        for point in ends.reshape(2, 3):
            velocity = twist[:, :3] + np.cross(twist[:, 3:], poses[:, link, :3, :3] @ point)
            rates = body_point_rates(loop, body, point, part)
            inside = part.worst_of_ends(np.linalg.norm(velocity, axis=1)) + part.h[:, 0] ** 2 / 8.0 * rates[3]
            speeds[k] = np.maximum(speeds[k], np.minimum(inside, rates[1]))
    zones = speeds[volumes.zone_body]
    pairs = speeds[volumes.pairs[:, 0]] + speeds[volumes.pairs[:, 1]]
    return np.concatenate([zones, pairs]).T


def singularity_bounds(loop: ClosedLoop, part: Spans) -> tuple[FloatArray, FloatArray]:
    """Bound distances to singularities from below inside intervals (n_spans, n_types); return those at samples too.

    With s a singular value at both ends, s ≤ (s_a + s_b)/2 + h/2 · ‖J̇‖ between, and the least no less than the like.
    """
    closed = closed_spans(loop, part)
    at_samples = loop.singularity_distances(part.jets[0])
    by_platform, by_passive = scaled(loop, closed.J[1])
    least = np.minimum(at_samples[part.left], at_samples[part.right])
    apart = (least > 0.0).all(axis=1) & closed.valid
    ends = np.where(apart[None, :, None], np.stack([at_samples[part.left], at_samples[part.right]]), 1.0)
    stray = [np.linalg.norm(by_platform, axis=(1, 2)), np.linalg.norm(by_passive, axis=(1, 2))]
    lowest = [0.5 * ends[:, :, 0].sum(axis=0) - 0.5 * part.h[:, 0] * stray[0]]
    for kind in range(1, at_samples.shape[1]):
        lowest.append(1.0 / (0.5 * (1.0 / ends[:, :, kind]).sum(axis=0) + 0.5 * part.h[:, 0] * stray[kind - 1]))
    return np.where(apart[:, None], np.minimum(np.column_stack(lowest), least), -np.inf), at_samples


_SPARE, _FLOOR = 1.25, 0.1  # the speeds that are supposed: so much above the left end's, and of the fastest one
_CONTRACTS = 0.9  # row sums of E, coordinates in their strides: below 1 the Neumann series converges
_ROUNDING = 1e-9


@lru_cache(maxsize=1)
def closed_spans(loop: ClosedLoop, part: Spans) -> ClosedSpans:
    """Bound all coordinates of the opened tree, and their Jacobian by the drives; kept, as several limits need them."""
    whole = complete(loop, part.motion)
    free, given, h = dependents(loop, loop.actuated), loop.actuated, part.h
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
    way = _fixed(tree, j, closure.points[side], links.direction)
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
    """Bound a derivative of the dependent coordinates by lower ones, (n_spans, n_dependent)."""
    G, N, A = pull
    bent = np.zeros_like(rates[order][:, free])
    for i in range(1, order):
        bent += comb(order - 1, i) * _times(A[i], rates[order - i])
    return _times(G, rates[order][:, given]) + _times(N, bent)


def _tighten(rates: FloatArray, order: int, part: Spans, values: FloatArray, free: IntArray) -> None:
    """Bound a derivative by the ends and its own second derivative, where that is less."""
    inside = part.worst_of_ends(np.abs(values)) + part.h**2 / 8.0 * rates[order + 2]
    rates[order][:, free] = np.minimum(rates[order], inside)[:, free]


def _jacobian(loop: ClosedLoop, pull: list[FloatArray], part: Spans, whole: OpenTreeMotion) -> FloatArray:
    """Bound J and its derivatives: A_d J⁽ᵏ⁾ = -A_g⁽ᵏ⁾ - Σ_{i≥1} C(k, i) A_d⁽ⁱ⁾ J⁽ᵏ⁻ⁱ⁾."""
    G, N, A = pull
    free, given = dependents(loop, loop.actuated), loop.actuated
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


_SHORTEST = 1.0 / 4096.0  # of a line: shorter intervals are not bisected
_SHORTEST_SPAN = 1e-5  # s
_BATCH = 4096  # intervals at a time: enough for numpy, little memory

# Upper bounds over each interval (n_spans, n_rows), and values that occur at its samples (n_t, n_rows).
Bound = Callable[[Spans], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True)
class Effort:
    """Settings of the bisection: intervals of the first cut of a motion segment, and when to stop."""

    n_first: int
    share: float = 0.0  # of the distance to the limit that may stay unresolved
    most_spans: int = 400_000

    def first_cut(self, piece: Segment) -> int:
        """Count intervals of the first cut; a part of a move is short and bends little, so a sixteenth will do."""
        return max(1, self.n_first // 16) if isinstance(piece, Move) else self.n_first


@dataclass(frozen=True, eq=False, slots=True)
class Worst:
    """The largest values of several quantities: proven above, seen below."""

    upper: FloatArray  # (n_rows,): no value exceeds it
    seen: FloatArray  # (n_rows,): a value that occurs
    at: FloatArray  # (n_rows,): when, in s from the motion's start
    where: tuple[str, ...]  # (n_rows,): in which piece
    n_spans: int
    smallest: float  # s


@dataclass(eq=False, slots=True)
class _Bisection:
    """Running state: upper bounds, largest sampled values with time and segment, and counts."""

    bound: Bound
    limit: FloatArray
    slack: FloatArray
    effort: Effort
    upper: FloatArray
    seen: FloatArray
    at: FloatArray
    where: list[str]
    n_decided: int = 0
    n_evaluated: int = 0
    lengths: list[float] = field(default_factory=list)

    def evaluate(self, piece: Segment, a: FloatArray, b: FloatArray) -> FloatArray:
        """Bound the intervals from a to b, and note the largest values at their ends."""
        part = spans(piece, a, b)
        above, values = self.bound(part)
        top = values.max(axis=0)
        for row in np.flatnonzero(top > self.seen):
            self.seen[row] = top[row]
            self.at[row] = piece.start + part.t[np.argmax(values[:, row])]
            self.where[row] = piece.name
        self.n_evaluated += a.size
        return above

    def undecided(self, a: FloatArray, b: FloatArray, above: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Note the intervals whose bounds are sharp enough or that are given up, and halve the others."""
        room = np.where(np.isfinite(self.limit), np.abs(self.limit - self.seen), 0.0)
        sharp = self.seen + self.slack + self.effort.share * room
        target = np.where(self.seen > self.limit, sharp, np.minimum(sharp, self.limit))
        given_up = (b - a <= _SHORTEST_SPAN) | (self.n_evaluated > self.effort.most_spans)
        decided = (above <= target).all(axis=1) | given_up
        if decided.any():
            np.maximum(self.upper, above[decided].max(axis=0), out=self.upper)
            self.n_decided += int(decided.sum())
            self.lengths.append(float((b - a)[decided].min()))
        middle = 0.5 * (a + b)[~decided]
        left, right = np.concatenate([a[~decided], middle]), np.concatenate([middle, b[~decided]])
        return [(left[k : k + _BATCH], right[k : k + _BATCH]) for k in range(0, left.size, _BATCH)]


def worst_case(
    pieces: tuple[Segment, ...], bound: Bound, *, limit: FloatArray, slack: FloatArray, effort: Effort
) -> Worst:
    """Bound the largest values over several motion segments by bisecting intervals until every row is decided.

    A row is decided in an interval once its upper bound is within `slack` of a value that occurs somewhere, and not
    above `limit` unless a value above it has been seen.
    """
    upper, seen = (np.full(limit.size, -np.inf) for _ in range(2))
    work = _Bisection(bound, limit, slack, effort, upper, seen, np.zeros(limit.size), [""] * limit.size)
    # All pieces are surveyed before any is bisected: what occurs elsewhere spares work.
    edges = [np.linspace(0.0, piece.duration, effort.first_cut(piece) + 1) for piece in pieces]
    surveyed = [(t[:-1], t[1:], work.evaluate(piece, t[:-1], t[1:])) for piece, t in zip(pieces, edges, strict=True)]
    for piece, (a, b, above) in zip(pieces, surveyed, strict=True):
        waiting = work.undecided(a, b, above)
        while waiting:
            left, right = waiting.pop()
            waiting += work.undecided(left, right, work.evaluate(piece, left, right))
    return Worst(upper, seen, work.at, tuple(work.where), work.n_decided, min(work.lengths))


def all_hold(margins: Callable[[FloatArray, FloatArray], FloatArray | None], edges: FloatArray) -> bool:
    """Prove margins ≥ 0 between edges by bisection; False where a sample violates one, or a short interval is open.

    `margins` bounds them inside intervals from below, (n_spans, n_rows), or returns None where a sample violates one.
    """
    left, right = edges[:-1], edges[1:]
    shortest = _SHORTEST * (edges[-1] - edges[0])
    while left.size:
        lowest = margins(left, right)
        if lowest is None:
            return False
        open_ = ~(lowest >= 0.0).all(axis=1)
        if ((right - left)[open_] <= shortest).any():
            return False
        middle = 0.5 * (left[open_] + right[open_])
        left, right = np.concatenate([left[open_], middle]), np.concatenate([middle, right[open_]])
    return True
