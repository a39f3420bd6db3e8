"""Joint limits between samples: Ehlich-Zeller on whole periods, samples and a bound of the curvature elsewhere.

Torque limits, peak and root mean square, are checked by the prior model, payload and friction included; torques are
enclosed inside intervals, with the jumps of friction at reversals.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.certify.bounds import Effort, Worst, links_curvature, worst_case
from excitor.design.certify.certificate import Margin, above, below, unproven
from excitor.design.motion import Segment, Spans, even_spans
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.dynamics import rigid_torque, rotor_matrix
from excitor.robots.friction import Range, friction_model, unbounded_terms
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import FrictionTerm, Limits, Robot
from excitor.robots.tree import Tree

_OVERSAMPLING = 256  # samples per cycle of the top harmonic, over 2π: the bound exceeds the samples by 0.0075 %
_EFFORT = Effort(n_first=512)
_QUANTITIES = ("position", "velocity", "acceleration", "jerk")
_UNITS = ("rad", "rad/s", "rad/s2", "rad/s3"), ("m", "m/s", "m/s2", "m/s3")


@dataclass(frozen=True, eq=False, slots=True)
class _Rows:
    """Limits and slacks of the rows q, -q, then |q̇|, |q̈|, |q⃛| of all joints."""

    limit: FloatArray  # (5 n_joints,)
    slack: FloatArray


def joint_margins(robot: Robot, pieces: tuple[Segment, ...], limits: Limits) -> dict[str, list[Margin]]:
    """Compare positions, velocities, accelerations and jerks with their limits, by quantity; unstated ones left out."""
    rows = _rows(limits)
    periodic = [piece for piece in pieces if piece.degree]
    smooth = tuple(piece for piece in pieces if not piece.degree)
    found = [ehlich_zeller(piece) for piece in periodic]
    if smooth:
        found.append(worst_case(smooth, _bound, limit=rows.limit, slack=rows.slack, effort=_EFFORT))
    largest = np.argmax(np.stack([worst.upper for worst in found]), axis=0)
    proof = "; ".join(
        [_period_proof(piece) for piece in periodic]
        + [f"{_names(smooth)}: grid of {found[-1].n_spans} + h²/8·max|f''|"] * bool(smooth)
    )
    margins: dict[str, list[Margin]] = {name: [] for name in _QUANTITIES}
    for row in map(int, np.flatnonzero(np.isfinite(rows.limit))):
        worst = found[largest[row]]
        kind, joint = divmod(row, robot.n_joints)
        order = max(0, kind - 1)
        unit = _UNITS[int(robot.mechanism.prismatic[joint])][order]
        name = f"{_QUANTITIES[order]} {robot.joint_names[joint]}"
        where = f"{worst.at[row]:.3f} s, {worst.where[row]}"
        limit, upper, seen = float(rows.limit[row]), float(worst.upper[row]), float(worst.seen[row])
        if kind == 1:
            item = above(f"{name} lower", unit, limit=-limit, lower=-upper, seen=-seen, proof=proof, where=where)
        else:
            item = below(
                f"{name} upper" if kind == 0 else name,
                unit,
                limit=limit,
                upper=upper,
                seen=seen,
                proof=proof,
                where=where,
            )
        margins[_QUANTITIES[order]].append(item)
    return margins


def ehlich_zeller(piece: Segment) -> Worst:
    """Bound q, -q, |q̇|, |q̈|, |q⃛| over a period: max|p| ≤ max_k |p(t_k)| / cos(πn/N), p of degree n, N > 2n samples.

    Positions are first shifted by the middle of their samples, so that only their amplitude is enlarged.
    """
    n_samples = _OVERSAMPLING * piece.degree
    t = np.arange(n_samples) * (piece.duration / n_samples)
    stretch = 1.0 / np.cos(np.pi * piece.degree / n_samples)
    q = piece.at(t, 0)
    middle, half = 0.5 * (q.max(axis=0) + q.min(axis=0)), 0.5 * (q.max(axis=0) - q.min(axis=0))
    sizes = [np.abs(piece.at(t, order)) for order in (1, 2, 3)]
    values = np.concatenate([q, -q, *sizes], axis=1)
    seen = values.max(axis=0)
    swung = half * stretch
    upper = np.concatenate([middle + swung, -middle + swung, *(size.max(axis=0) * stretch for size in sizes)])
    at = piece.start + t[np.argmax(values, axis=0)]
    return Worst(upper, seen, at, (piece.name,) * seen.size, n_samples, piece.duration / n_samples)


def _period_proof(piece: Segment) -> str:
    n_samples = _OVERSAMPLING * piece.degree
    return f"{piece.name}: Ehlich-Zeller, n={piece.degree}, N={n_samples}: grid maximum / cos(πn/N)"


def _names(pieces: tuple[Segment, ...]) -> str:
    return ", ".join(piece.name for piece in pieces)


def _rows(limits: Limits) -> _Rows:
    low, high = limits.position.T
    limit = np.concatenate([high, -low, limits.velocity, limits.acceleration, limits.jerk])
    scale = np.concatenate([high - low, high - low, limits.velocity, limits.acceleration, limits.jerk])
    return _Rows(limit, np.where(np.isfinite(limit) & np.isfinite(scale), 1e-3 * np.abs(scale), np.inf))


def _bound(part: Spans) -> tuple[FloatArray, FloatArray]:
    rates, h = part.rates(), part.h
    low, high = part.enclose(part.jets[0], rates[2])
    bends = [rates[3], rates[4], np.broadcast_to(part.segment.bounds(5), rates[4].shape)]
    inside = [
        part.worst_of_ends(np.abs(part.jets[order])) + h**2 / 8.0 * bend
        for order, bend in zip((1, 2, 3), bends, strict=True)
    ]
    at_ends = [np.abs(part.jets[order]) for order in (1, 2, 3)]
    q = part.jets[0]
    return np.concatenate([high, -low, *inside], axis=1), np.concatenate([q, -q, *at_ends], axis=1)


_TORQUE_EFFORT = Effort(n_first=2000)
_FIRST_RMS, _MOST_RMS = 4096, 32768


def has_torque_model(robot: Robot) -> bool:
    """Return True if the masses of all links are known beforehand."""
    masses = 10 * np.arange(robot.mechanism.n_links) + 9
    return bool(robot.known[masses].all())


def peak_margins(robot: Robot, pieces: tuple[Segment, ...], limit: FloatArray, trusted: bool) -> list[Margin]:
    """Compare peak torques with their limits, joint by joint; unstated ones left out.

    A model whose masses are not all known is used only where it is `trusted`.
    """
    stated = np.isfinite(limit)
    if not stated.any():
        return []
    reason = _no_model(robot, trusted)
    if reason:
        return _unproven("torque peak", robot, limit, reason)
    chi = prior(robot)

    def bound(part: Spans) -> tuple[FloatArray, FloatArray]:
        return largest_torques(robot, chi, part)

    slack = np.where(stated, 5e-3 * np.where(stated, limit, 0.0), np.inf)
    worst = worst_case(pieces, bound, limit=limit, slack=slack, effort=_TORQUE_EFFORT)
    proof = f"prior model, {worst.n_spans} intervals, smallest {1e3 * worst.smallest:.3g} ms: ends + h²/8·max|f''|"
    if robot.drive.friction:
        proof += ", friction by its range over each interval"
    return [
        below(
            f"torque peak {robot.joint_names[joint]}",
            _unit(robot, joint),
            limit=float(limit[joint]),
            upper=float(worst.upper[joint]),
            seen=float(worst.seen[joint]),
            proof=proof,
            where=f"{worst.at[joint]:.3f} s, {worst.where[joint]}",
        )
        for joint in map(int, np.flatnonzero(stated))
    ]


def rms_margins(robot: Robot, period: Segment, limit: FloatArray, trusted: bool) -> list[Margin]:
    """Compare root mean squares of the torques over a period with their limits; unstated ones left out."""
    stated = np.isfinite(limit)
    if not stated.any():
        return []
    reason = _no_model(robot, trusted)
    if reason:
        return _unproven("torque rms", robot, limit, reason)
    chi = prior(robot)
    n = _FIRST_RMS
    while True:
        part = even_spans(period, n)
        above, values = largest_torques(robot, chi, part)
        upper = root_mean_square(above, part)
        seen = np.sqrt((values[1:] ** 2).mean(axis=0))
        open_ = (upper > limit) & (seen <= limit)
        if n >= _MOST_RMS or not open_.any():
            break
        n *= 2
    return [
        below(
            f"torque rms {robot.joint_names[joint]}",
            _unit(robot, joint),
            limit=float(limit[joint]),
            upper=float(upper[joint]),
            seen=float(seen[joint]),
            proof=f"prior model, upper sum of {n} intervals: √(Σ h·sup τ² / period)",
            where=period.name,
        )
        for joint in map(int, np.flatnonzero(stated))
    ]


def torque_note(robot: Robot, stated: BoolArray) -> tuple[str, ...]:
    """Return a note that torque limits were not checked; empty where none is stated."""
    if not stated.any():
        return ()
    names = ", ".join(np.array(robot.joint_names)[stated])
    return (f"torque limits of {names} were not checked: no prior model is used, so plan a gentle run",)


def _no_model(robot: Robot, trusted: bool) -> str:
    if not isinstance(robot.mechanism, (Tree, ClosedLoop)):
        return f"no bound of the torque between samples is known for a {type(robot.mechanism).__name__}"
    if not trusted and not has_torque_model(robot):
        return (
            "no prior model: the masses of some links are unknown, so the torque is not proven; state them, "
            "or plan a gentle run without torque limits"
        )
    loose = ", ".join(f"{term.parameter!r} ({term.model})" for term in unbounded_terms(robot))
    if loose:
        return (
            f"friction {loose} is a registered law that states no bounds, so no torque between samples is bounded; "
            "state the bounds of its columns, or that they are rising"
        )
    return ""


def _unproven(name: str, robot: Robot, limit: FloatArray, reason: str) -> list[Margin]:
    return [
        unproven(f"{name} {robot.joint_names[joint]}", _unit(robot, joint), limit=float(limit[joint]), reason=reason)
        for joint in map(int, np.flatnonzero(np.isfinite(limit)))
    ]


def _unit(robot: Robot, joint: int) -> str:
    return "N" if robot.mechanism.prismatic[joint] else "N m"


_STANDSTILL = 1e-12  # of a joint's largest velocity


@dataclass(frozen=True, eq=False, slots=True)
class _FrictionRanges:
    """Inputs of friction terms (q, dq, rigid-body torque) as ranges over intervals; at samples these are points."""

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
    still = _STANDSTILL * part.segment.bounds(1)
    inside = _FrictionRanges(
        part.enclose(part.jets[0], rates[2]), part.enclose(part.jets[1], rates[3]), part.enclose(rigid, bend)
    )
    at_ends = _FrictionRanges(
        (part.jets[0], part.jets[0]), (part.jets[1] - still, part.jets[1] + still), (rigid, rigid)
    )
    over = part.enclose(smooth, bend + rates[3] @ np.abs(viscous).T)
    largest = np.where(known[:, None], _largest(robot, chi, over, inside), np.inf)
    return largest, _largest(robot, chi, (smooth, smooth), at_ends)


def root_mean_square(upper: FloatArray, part: Spans) -> FloatArray:
    """Bound the root mean square over all intervals: √(Σ h sup τ² / Σ h), (n_joints,)."""
    h = part.h
    return np.asarray(np.sqrt((h * upper**2).sum(axis=0) / h.sum()))


def _largest(robot: Robot, chi: FloatArray, smooth: Range, sensed: _FrictionRanges) -> FloatArray:
    low, high = smooth[0].copy(), smooth[1].copy()
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if friction_model(term).shape in ("linear", "constant"):
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
        shape = friction_model(term).shape
        if shape == "linear":
            viscous += chi[column] * np.outer(term.acts, term.senses)
        elif shape == "constant":
            offset += chi[column] * term.acts
    return viscous, offset


def _friction(term: FrictionTerm, sensed: _FrictionRanges) -> Range:
    """Enclose g of a friction term by its row of the friction table."""
    p, v = _combine(term.senses, sensed.q), _combine(term.senses, sensed.dq)
    return friction_model(term).enclose(term, p, v, _combine(term.acts, sensed.rigid))


def _combine(weights: FloatArray, values: Range) -> Range:
    rising, falling = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    return values[0] @ rising + values[1] @ falling, values[1] @ rising + values[0] @ falling


def _scale(factor: float, values: Range) -> Range:
    return (factor * values[0], factor * values[1]) if factor >= 0.0 else (factor * values[1], factor * values[0])
