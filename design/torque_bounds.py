"""Between which torques a motion stays inside intervals of time, friction that jumps at reversals included.

Links, rotors, viscous friction and offsets are smooth: samples and a bound of the second derivative enclose them.
The other friction terms are enclosed by what they sense: where a velocity may cross zero inside an interval, both
signs count, and at standstill friction may point either way.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.closed_bounds import links_curvature
from excitor.design.pieces import Spans
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import rigid_torque, rotor_matrix
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Robot

Range = tuple[FloatArray, FloatArray]  # lowest, highest

_STANDSTILL = 1e-12  # of a joint's largest velocity


@dataclass(frozen=True, eq=False, slots=True)
class _Sensed:
    """What friction terms sense, as ranges: of intervals, or of samples, whose ranges are points."""

    q: Range
    dq: Range
    rigid: Range


def largest_torques(robot: Robot, chi: FloatArray, part: Spans) -> tuple[FloatArray, FloatArray]:
    """Bound |τ| over intervals (n_spans, n_joints), and evaluate it at their samples (n_t, n_joints)."""
    rates = part.rates()
    rigid = rigid_torque(robot, part.motion, chi)
    phi = chi[: layout(robot).n_link_params].reshape(-1, 10)
    links_bend, known = links_curvature(robot.mechanism, phi, part)
    bend = links_bend + rates[4] @ np.abs(rotor_matrix(robot, chi)).T
    viscous, offset = _linear_friction(robot, chi)
    smooth = rigid + part.jets[1] @ viscous.T + offset
    still = _STANDSTILL * part.piece.most[1]
    inside = _Sensed(
        part.enclose(part.jets[0], rates[2]), part.enclose(part.jets[1], rates[3]), part.enclose(rigid, bend)
    )
    at_ends = _Sensed((part.jets[0], part.jets[0]), (part.jets[1] - still, part.jets[1] + still), (rigid, rigid))
    over = part.enclose(smooth, bend + rates[3] @ np.abs(viscous).T)
    largest = np.where(known[:, None], _largest(robot, chi, over, inside), np.inf)
    return largest, _largest(robot, chi, (smooth, smooth), at_ends)


def root_mean_square(upper: FloatArray, part: Spans) -> FloatArray:
    """Bound the root mean square over all intervals: √(Σ h sup τ² / Σ h), (n_joints,)."""
    h = part.h
    return np.asarray(np.sqrt((h * upper**2).sum(axis=0) / h.sum()))


def _largest(robot: Robot, chi: FloatArray, smooth: Range, sensed: _Sensed) -> FloatArray:
    low, high = smooth[0].copy(), smooth[1].copy()
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if term.model in ("viscous", "offset"):
            continue
        g = _friction(term, sensed)
        for joint in np.flatnonzero(term.acts):
            share = _scale(float(term.acts[joint] * chi[column]), g)
            low[:, joint] += share[0]
            high[:, joint] += share[1]
    return np.maximum(-low, high)


def _linear_friction(robot: Robot, chi: FloatArray) -> Range:
    """Collect viscous friction as a matrix on dq, and offsets as a vector."""
    viscous, offset = np.zeros((robot.n_joints, robot.n_joints)), np.zeros(robot.n_joints)
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if term.model == "viscous":
            viscous += chi[column] * np.outer(term.acts, term.senses)
        elif term.model == "offset":
            offset += chi[column] * term.acts
    return viscous, offset


def _friction(term: FrictionTerm, sensed: _Sensed) -> Range:
    """Enclose g of a friction term (`robots.robot.FrictionTerm`)."""
    n = len(sensed.dq[0])
    if term.model == "maxwell-slip":  # its state depends on all that went before
        return np.full(n, -1.0), np.full(n, 1.0)
    if term.model in ("ripple-sin", "ripple-cos"):
        low, high = _combine(term.scale * term.senses, sensed.q)
        shift = 0.0 if term.model == "ripple-cos" else -0.5 * np.pi
        return _cosine(low + shift, high + shift)
    low, high = _combine(term.senses, sensed.dq)
    if term.model == "sqrt":  # rises with v
        return _sign(low, term.width) * np.sqrt(np.abs(low)), _sign(high, term.width) * np.sqrt(np.abs(high))
    sign = _sign(low, term.width), _sign(high, term.width)
    if term.model == "coulomb":
        return sign
    if term.model == "stribeck":
        size = _magnitude((low, high))
        return _product(sign, (np.exp(-size[1] / term.scale), np.exp(-size[0] / term.scale)))
    return _product(sign, _magnitude(_combine(term.acts, sensed.rigid)))


def _combine(weights: FloatArray, values: Range) -> Range:
    rising, falling = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    return values[0] @ rising + values[1] @ falling, values[1] @ rising + values[0] @ falling


def _scale(factor: float, values: Range) -> Range:
    return (factor * values[0], factor * values[1]) if factor >= 0.0 else (factor * values[1], factor * values[0])


def _magnitude(values: Range) -> Range:
    low, high = values
    return np.maximum(0.0, np.maximum(low, -high)), np.maximum(np.abs(low), np.abs(high))


def _product(x: Range, y: Range) -> Range:
    products = np.stack([x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]])
    return products.min(axis=0), products.max(axis=0)


def _sign(v: FloatArray, width: float) -> FloatArray:
    return np.sign(v) if width == 0.0 else np.tanh(v / width)


def _cosine(low: FloatArray, high: FloatArray) -> Range:
    """Enclose cos over [low, high]: 1 where a multiple of 2π lies inside, -1 where an odd multiple of π does."""
    ends = np.cos(low), np.cos(high)
    turn = 2.0 * np.pi
    crest = np.floor(high / turn) >= np.ceil(low / turn)
    trough = np.floor((high - np.pi) / turn) >= np.ceil((low - np.pi) / turn)
    return np.where(trough, -1.0, np.minimum(*ends)), np.where(crest, 1.0, np.maximum(*ends))
