"""How fast torques and points can possibly change, from bounds of the joints' derivatives alone.

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
"""

from dataclasses import dataclass
from math import comb

import numpy as np

from excitor.design.pieces import N_ORDERS
from excitor.robots.arrays import FloatArray
from excitor.robots.inertia import tensor
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


def fixed_vector(tree: Tree, link: int, vector: FloatArray, links: LinkRates) -> FloatArray:
    """Bound the derivatives of a vector fixed in a link, (5, n_spans)."""
    return _fixed(tree, link, vector, links.direction)


def point_rates(tree: Tree, link: int, point: FloatArray, links: LinkRates) -> FloatArray:
    """Bound a point of a link, and its derivatives, as seen from the base's origin, (5, n_spans)."""
    return np.asarray(links.origin[link] + fixed_vector(tree, link, point, links))


def torque_curvature(tree: Tree, phi: FloatArray, rates: FloatArray) -> FloatArray:
    """Bound |τ̈| of the links' torques, without rotors and friction, (n_spans, n_joints); phi is (n_links, 10)."""
    return np.asarray(torque_rates(tree, phi, link_rates(tree, rates))[2])


def torque_rates(tree: Tree, phi: FloatArray, links: LinkRates) -> FloatArray:
    """Bound |τ|, |τ̇|, |τ̈| of the links' torques, (3, n_spans, n_joints)."""
    moment = np.zeros((tree.n_links, 3, links.turn.shape[2]))  # at each joint: of what it carries, orders 0 to 2
    for j in range(tree.n_links):
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
    first_moment = fixed_vector(tree, j, phi[6:9], links)
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
    """Take the part along the joint's axis as fixed in the parent, where that is the smaller bound."""
    plain = np.asarray(np.linalg.norm(vector) * direction[link])
    if link < 0 or tree.sliding[link]:
        return plain
    axis = tree.after[link, :3, :3].T @ tree.axis[link]
    along = axis @ vector
    across = np.linalg.norm(vector - along * axis)
    return np.asarray(np.minimum(plain, abs(along) * direction[tree.parents[link]] + across * direction[link]))
