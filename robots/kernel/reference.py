"""The recursion, rotors and friction in plain Python, for any kind of number: reference of the kernel, and for symbols.

A scalar may be a float, a numpy array over samples, a sympy expression or a node of `codegen`. Constants
that are 0 or 1 take no part, so symbolic results are as sparse as the mechanism. Unlike the kernel, a joint is walked
in steps (before, joint, after), and torques come back down the tree as wrenches.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.parameters import layout

if TYPE_CHECKING:
    from excitor.robots.robot import FrictionTerm, Motion, Robot, RotorInertia
    from excitor.robots.tree import Tree


Scalar = Any
Vector = Sequence[Scalar]
Coordinates = tuple[Vector, Vector, Vector]  # q, dq, ddq: one scalar a joint

_NEGLIGIBLE = 1e-14  # what rounding leaves of an exact 0 or 1 in a pose
_ZERO: Vector = (0.0, 0.0, 0.0)
_UPRIGHT: Sequence[Vector] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_CYCLES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
_UNIT_LINKS = [[float(k == i) for k in range(10)] for i in range(10)]


@dataclass(frozen=True, slots=True)
class Algebra:
    """Operations of a kind of number besides + - *: conversion of constants and lengths, sine and cosine."""

    number: Callable[[float], Scalar]
    length: Callable[[float], Scalar]
    sin: Callable[[Scalar], Scalar]
    cos: Callable[[Scalar], Scalar]


NUMERIC = Algebra(number=float, length=float, sin=np.sin, cos=np.cos)


class Step(NamedTuple):
    """A frame reached from the one before it: shifted by p, then turned by R; it moves along its own screw."""

    R: Sequence[Vector]  # rows; turns the new frame's coordinates into the old one's
    p: Vector
    spin: Vector = _ZERO
    slide: Vector = _ZERO


class Twist(NamedTuple):
    """Angular and linear velocity of a frame, in its own axes."""

    omega: Vector
    v: Vector


class Acceleration(NamedTuple):
    """Angular velocity, angular acceleration, and acceleration of the origin less gravity, in the frame's axes."""

    omega: Vector
    alpha: Vector
    a: Vector


class Wrench(NamedTuple):
    """Moment about a frame's origin, and force, in its axes."""

    moment: Vector
    force: Vector


class Arm(NamedTuple):
    """A tree at one position: the steps to each link from its parent, and its constants as scalars."""

    parents: Sequence[int]
    steps: Sequence[Sequence[Step]]
    coupling: Sequence[Vector]
    gravity: Vector

    @property
    def n_joints(self) -> int:
        """Count the independent coordinates."""
        return len(self.coupling[0])


def regressor_columns(tree: "Tree", at: Coordinates, algebra: Algebra = NUMERIC) -> list[list[Scalar]]:
    """Write Y by column and joint, (10 n_links, n_joints): each parameter's wrench on each coordinate's screw."""
    arm = pose(tree, at[0], algebra)
    screws = [twists(arm, [float(i == k) for k in range(arm.n_joints)]) for i in range(arm.n_joints)]
    columns = []
    for j, body in enumerate(accelerations(arm, at[1], at[2])):
        for unit in _UNIT_LINKS:
            wrench = link_wrench(body, unit)
            columns.append([_work(wrench, *screw[j]) for screw in screws])
    return columns


def torques(tree: "Tree", at: Coordinates, phi: Sequence[Vector], algebra: Algebra = NUMERIC) -> list[Scalar]:
    """Write inverse dynamics by Newton and Euler: motions out along the tree, wrenches back, one pass each."""
    arm = pose(tree, at[0], algebra)
    bodies = accelerations(arm, at[1], at[2])
    wrenches = [link_wrench(body, link) for body, link in zip(bodies, phi, strict=True)]
    tau: list[Scalar] = [0.0] * arm.n_joints
    for j in reversed(range(len(wrenches))):
        wrench, joint = _bring_back(arm.steps[j], wrenches[j])
        for i, share in enumerate(arm.coupling[j]):
            tau[i] = add(tau[i], times(share, joint))
        parent = arm.parents[j]
        if parent >= 0:
            wrenches[parent] = Wrench(*(_sum(own, child) for own, child in zip(wrenches[parent], wrench, strict=True)))
    return tau


def energy_columns(tree: "Tree", at: Coordinates, algebra: Algebra = NUMERIC) -> list[Scalar]:
    """Write h with H = h φ: ω·Jω/2 + m v²/2 + ms·(v × ω) - g·(m p + R ms), link by link."""
    arm = pose(tree, at[0], algebra)
    columns: list[Scalar] = []
    for (omega, v), (gravity, work) in zip(twists(arm, at[1]), _falls(arm), strict=True):
        columns += [times(0.5, x) if i in (0, 3, 5) else x for i, x in enumerate(_products(omega, omega))]
        columns += _difference(cross(v, omega), gravity)
        columns.append(sub(times(0.5, dot(v, v)), work))
    return columns


def power_columns(tree: "Tree", at: Coordinates, algebra: Algebra = NUMERIC) -> list[Scalar]:
    """Write dh/dt: ω·Jα + m v·a + ms·((a - ω × v) × ω + v × α), link by link."""
    arm = pose(tree, at[0], algebra)
    columns: list[Scalar] = []
    for (omega, v), (_, alpha, a) in zip(twists(arm, at[1]), accelerations(arm, at[1], at[2]), strict=True):
        columns += _symmetric_products(omega, alpha)
        columns += _sum(cross(_difference(a, cross(omega, v)), omega), cross(v, alpha))
        columns.append(dot(v, a))
    return columns


def reference_regressor(tree: "Tree", motion: "Motion") -> FloatArray:
    """Y with τ = Y φ, (n_samples, n_joints, 10 n_links)."""
    columns = regressor_columns(tree, _samples(motion))
    return np.stack([_stacked(column, len(motion)) for column in columns], axis=-1)


def reference_torque(tree: "Tree", motion: "Motion", phi: FloatArray) -> FloatArray:
    """Joint torques for link parameters phi (n_links, 10), (n_samples, n_joints)."""
    return _stacked(torques(tree, _samples(motion), phi.tolist()), len(motion))


def reference_energy_regressor(tree: "Tree", motion: "Motion") -> FloatArray:
    """Kinetic plus potential energy by parameter, (n_samples, 10 n_links)."""
    return _stacked(energy_columns(tree, _samples(motion)), len(motion))


def reference_power_regressor(tree: "Tree", motion: "Motion") -> FloatArray:
    """Time derivative of the energy by parameter, (n_samples, 10 n_links)."""
    return _stacked(power_columns(tree, _samples(motion)), len(motion))


def pose(tree: "Tree", q: Vector, algebra: Algebra) -> Arm:
    """Write the steps from each link's parent to the link; identities are left out."""
    coupling = [[_constant(share, algebra.number) for share in row] for row in tree.coupling]
    steps = []
    for j in range(tree.n_links):
        axis = [_constant(x, algebra.number) for x in tree.axis[j]]
        moved = dot(coupling[j], q)
        if tree.sliding[j]:
            theta = add(moved, _constant(tree.offset[j], algebra.length))
            joint = Step(_UPRIGHT, [times(x, theta) for x in axis], slide=axis)
        else:
            joint = Step(_rotation(axis, *_sine_cosine(moved, tree.offset[j], algebra)), _ZERO, spin=axis)
        steps.append([*_fixed_step(tree.before[j], algebra), joint, *_fixed_step(tree.after[j], algebra)])
    return Arm(tree.parents.tolist(), steps, coupling, [_constant(x, algebra.number) for x in tree.gravity])


def twists(arm: Arm, dq: Vector) -> list[Twist]:
    """Write each link's velocity: ω = Rᵀ ω_p + spin θ̇,  v = Rᵀ (v_p + ω_p × p) + slide θ̇."""
    found: list[Twist] = []
    for j, parent in enumerate(arm.parents):
        omega, v = found[parent] if parent >= 0 else (_ZERO, _ZERO)
        rate = dot(arm.coupling[j], dq)
        for R, p, spin, slide in arm.steps[j]:
            v = _sum(turn_back(R, _sum(v, cross(omega, p))), _scaled(slide, rate))
            omega = _sum(turn_back(R, omega), _scaled(spin, rate))
        found.append(Twist(omega, v))
    return found


def accelerations(arm: Arm, dq: Vector, ddq: Vector) -> list[Acceleration]:
    """Write each link's acceleration; the base accelerates by -gravity, so that weight needs no term of its own.

    a = Rᵀ (a_p + (S(α_p) + S(ω_p)²) p) + slide θ̈ + 2 ω × slide θ̇,   α = Rᵀ α_p + spin θ̈ + ω × spin θ̇.
    """
    found: list[Acceleration] = []
    at_base = Acceleration(_ZERO, _ZERO, _difference(_ZERO, arm.gravity))
    for j, parent in enumerate(arm.parents):
        omega, alpha, a = found[parent] if parent >= 0 else at_base
        rate, push = dot(arm.coupling[j], dq), dot(arm.coupling[j], ddq)
        for R, p, spin, slide in arm.steps[j]:
            a = turn_back(R, _sum(a, turn(swing(omega, alpha), p)))
            omega, alpha = turn_back(R, omega), turn_back(R, alpha)
            a = _sum(a, _sum(_scaled(slide, push), cross(omega, _scaled(slide, times(2.0, rate)))))
            alpha = _sum(alpha, _sum(_scaled(spin, push), cross(omega, _scaled(spin, rate))))
            omega = _sum(omega, _scaled(spin, rate))
        found.append(Acceleration(omega, alpha, a))
    return found


def swing(omega: Vector, alpha: Vector) -> list[list[Scalar]]:
    """Write U = S(α) + S(ω)²: a point p fixed to the body accelerates by U p relative to the origin."""
    U: list[list[Scalar]] = [[0.0] * 3 for _ in range(3)]
    for i, j, k in _CYCLES:
        product = times(omega[i], omega[j])
        U[i][i] = negative(add(times(omega[j], omega[j]), times(omega[k], omega[k])))
        U[i][j] = sub(product, alpha[k])
        U[j][i] = add(product, alpha[k])
    return U


def link_wrench(body: Acceleration, phi: Vector) -> Wrench:
    """Write the wrench that moves a link: force = m a + U ms, moment = J α + ω × J ω + ms × a, in U's entries."""
    omega, alpha, a = body
    xx, xy, xz, yy, yz, zz, *first, mass = phi
    J = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
    U = swing(omega, alpha)
    moment: list[Scalar] = list(cross(first, a))
    for i, j, k in _CYCLES:
        diagonal = add(times(J[i][i], alpha[i]), times(sub(J[k][k], J[j][j]), times(omega[j], omega[k])))
        products = sub(times(J[i][k], U[j][i]), times(J[i][j], U[k][i]))
        opposite = times(J[j][k], sub(U[j][j], U[k][k]))
        moment[i] = add(moment[i], add(diagonal, add(products, opposite)))
    return Wrench(moment, _sum(_scaled(a, mass), turn(U, first)))


def add(x: Scalar, y: Scalar) -> Scalar:
    """Add, with terms of 0 left out."""
    if _is(x, 0.0):
        return y
    return x if _is(y, 0.0) else x + y


def sub(x: Scalar, y: Scalar) -> Scalar:
    """Subtract, with terms of 0 left out."""
    if _is(x, 0.0):
        return negative(y)
    return x if _is(y, 0.0) else x - y


def negative(x: Scalar) -> Scalar:
    """Change the sign; a 0 stays as it is."""
    return x if _is(x, 0.0) else -x


def times(x: Scalar, y: Scalar) -> Scalar:
    """Multiply, with factors of 0, 1 and -1 folded."""
    for one, other in ((x, y), (y, x)):
        if _is(one, 0.0):
            return 0.0
        if _is(one, 1.0):
            return other
        if _is(one, -1.0):
            return negative(other)
    return x * y


def dot(x: Vector, y: Vector) -> Scalar:
    """Multiply element by element and add up."""
    total: Scalar = 0.0
    for a, b in zip(x, y, strict=True):
        total = add(total, times(a, b))
    return total


def cross(x: Vector, y: Vector) -> list[Scalar]:
    """Write x × y."""
    return [sub(times(x[j], y[k]), times(x[k], y[j])) for _, j, k in _CYCLES]


def turn(R: Sequence[Vector], x: Vector) -> list[Scalar]:
    """Write R x."""
    return [dot(row, x) for row in R]


def turn_back(R: Sequence[Vector], x: Vector) -> list[Scalar]:
    """Write Rᵀ x."""
    return [dot(column, x) for column in zip(*R, strict=True)]


def _bring_back(steps: Sequence[Step], wrench: Wrench) -> tuple[Wrench, Scalar]:
    """Transform a wrench to the parent's frame; also return its projection on the joint's screw."""
    joint: Scalar = 0.0
    for R, p, spin, slide in reversed(steps):
        joint = add(joint, _work(wrench, spin, slide))
        force = turn(R, wrench.force)
        wrench = Wrench(_sum(turn(R, wrench.moment), cross(p, force)), force)
    return wrench, joint


def _falls(arm: Arm) -> list[tuple[Vector, Scalar]]:
    """Write gravity in each link's frame, and its work g·p on the link's origin."""
    found: list[tuple[Vector, Scalar]] = []
    for j, parent in enumerate(arm.parents):
        gravity, work = found[parent] if parent >= 0 else (arm.gravity, 0.0)
        for R, p, *_ in arm.steps[j]:
            work = add(work, dot(gravity, p))
            gravity = turn_back(R, gravity)
        found.append((gravity, work))
    return found


def _sine_cosine(moved: Scalar, offset: float, algebra: Algebra) -> tuple[Scalar, Scalar]:
    """Write sin and cos of moved + offset; quarter turns are taken off the offset exactly."""
    quarters = round(offset / (np.pi / 2.0))
    rest = offset - quarters * (np.pi / 2.0)
    theta = add(moved, 0.0 if abs(rest) < _NEGLIGIBLE else algebra.number(float(rest)))
    s, c = algebra.sin(theta), algebra.cos(theta)
    return ((s, c), (c, negative(s)), (negative(s), negative(c)), (negative(c), s))[quarters % 4]


def _rotation(axis: Vector, s: Scalar, c: Scalar) -> list[list[Scalar]]:
    """Write a aᵀ + sin θ S(a) + cos θ (1 - a aᵀ)."""
    R: list[list[Scalar]] = [[0.0] * 3 for _ in range(3)]
    for i, j, k in _CYCLES:
        square, product = times(axis[i], axis[i]), times(axis[i], axis[j])
        R[i][i] = add(square, times(sub(1.0, square), c))
        tilt = 0.0 if _is(product, 0.0) else times(product, sub(1.0, c))
        R[i][j] = sub(tilt, times(axis[k], s))
        R[j][i] = add(tilt, times(axis[k], s))
    return R


def _fixed_step(T: FloatArray, algebra: Algebra) -> list[Step]:
    """Write a constant pose as a step, or as none."""
    if np.abs(T - np.eye(4)).max() < _NEGLIGIBLE:
        return []
    R = [[_constant(x, algebra.number) for x in row] for row in T[:3, :3]]
    return [Step(R, [_constant(x, algebra.length) for x in T[:3, 3]])]


def _constant(x: float, enter: Callable[[float], Scalar]) -> Scalar:
    """Convert a constant of the tree: 0, 1 and -1 stay floats, others go through `enter`."""
    near = float(round(x)) if abs(x) < 1.5 else x
    return float(near) if near in (0.0, 1.0, -1.0) and abs(x - near) < _NEGLIGIBLE else enter(float(x))


def _products(x: Vector, y: Vector) -> list[Scalar]:
    """Write x_i y_j in the order XX XY XZ YY YZ ZZ."""
    return [times(x[i], y[j]) for i in range(3) for j in range(i, 3)]


def _symmetric_products(x: Vector, y: Vector) -> list[Scalar]:
    """Write x_i y_j + x_j y_i, once on the diagonal, in the order XX XY XZ YY YZ ZZ."""
    mirrored = [0.0 if i == j else times(x[j], y[i]) for i in range(3) for j in range(i, 3)]
    return _sum(_products(x, y), mirrored)


def _work(wrench: Wrench, spin: Vector, slide: Vector) -> Scalar:
    return add(dot(spin, wrench.moment), dot(slide, wrench.force))


def _sum(x: Vector, y: Vector) -> list[Scalar]:
    return [add(a, b) for a, b in zip(x, y, strict=True)]


def _difference(x: Vector, y: Vector) -> list[Scalar]:
    return [sub(a, b) for a, b in zip(x, y, strict=True)]


def _scaled(x: Vector, factor: Scalar) -> list[Scalar]:
    return [times(a, factor) for a in x]


def _is(x: Scalar, value: float) -> bool:
    return isinstance(x, float | int) and x == value


def _samples(motion: "Motion") -> Coordinates:
    return tuple(motion.q.T), tuple(motion.dq.T), tuple(motion.ddq.T)


def _stacked(scalars: Sequence[Scalar], n_samples: int) -> FloatArray:
    """Stack scalars over samples, or constants, as columns: (n_samples, number of scalars)."""
    return np.stack([np.broadcast_to(np.asarray(x, dtype=float), (n_samples,)) for x in scalars], axis=-1)


Given = Callable[["FrictionTerm"], Scalar]


@dataclass(frozen=True, slots=True)
class DriveAlgebra(Algebra):
    """Algebra with the functions that friction needs."""

    tanh: Callable[[Scalar], Scalar]
    exp: Callable[[Scalar], Scalar]
    sqrt: Callable[[Scalar], Scalar]
    abs: Callable[[Scalar], Scalar]
    sign: Callable[[Scalar], Scalar]


NUMERIC_DRIVE = DriveAlgebra(float, float, np.sin, np.cos, np.tanh, np.exp, np.sqrt, np.abs, np.sign)


@dataclass(frozen=True, slots=True)
class Element:
    """A rotor or a friction term in one state: torque on joint i = chi[column] · acts[i] · value."""

    source: "RotorInertia | FrictionTerm"
    column: int
    acts: Vector
    value: Scalar

    @property
    def torque(self) -> list[Scalar]:
        """Write the column's share of each joint."""
        return [times(share, self.value) for share in self.acts]


def rotor_elements(
    robot: "Robot", at: Coordinates, selected: Collection[int], *, algebra: Algebra = NUMERIC_DRIVE
) -> list[Element]:
    """Write value = senses @ ddq of every rotor whose column is selected."""
    return [
        Element(rotor, column, numbers(rotor.acts, algebra), dot(numbers(rotor.senses, algebra), at[2]))
        for rotor, column in zip(robot.drive.rotors, layout(robot).rotor_columns, strict=True)
        if column in selected
    ]


def friction_elements(
    robot: "Robot", at: Coordinates, selected: Collection[int], *, given: Given, algebra: DriveAlgebra = NUMERIC_DRIVE
) -> list[Element]:
    """Write value = g of every friction term whose column is selected.

    `given` is what one instant's motion does not determine: the load |acts @ τ|, or a Maxwell-slip element's state.
    """
    return [
        Element(term, column, numbers(term.acts, algebra), _friction_value(term, at, given, algebra))
        for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True)
        if column in selected
    ]


def numbers(x: "FloatArray", algebra: Algebra) -> list[Scalar]:
    """Convert constants by the algebra; 0, 1 and -1 stay floats, and take no part in products."""
    return [float(value) if value in (0.0, 1.0, -1.0) else algebra.number(float(value)) for value in x]


def _friction_value(term: "FrictionTerm", at: Coordinates, given: Given, algebra: DriveAlgebra) -> Scalar:
    """Evaluate g as `robot.FrictionTerm` defines it."""
    if term.model == "offset":
        return 1.0
    if term.model == "maxwell-slip":
        return given(term)
    senses = numbers(term.senses, algebra)
    if term.model in ("ripple-sin", "ripple-cos"):
        angle = times(algebra.number(term.scale), dot(senses, at[0]))
        return algebra.sin(angle) if term.model == "ripple-sin" else algebra.cos(angle)
    v = dot(senses, at[1])
    if term.model == "viscous":
        return v
    sign = algebra.sign(v) if term.width == 0.0 else algebra.tanh(times(algebra.number(1.0 / term.width), v))
    if term.model == "sqrt":
        return times(sign, algebra.sqrt(algebra.abs(v)))
    if term.model == "stribeck":
        return times(sign, algebra.exp(times(algebra.number(-1.0 / term.scale), algebra.abs(v))))
    return times(sign, given(term)) if term.model == "load" else sign
