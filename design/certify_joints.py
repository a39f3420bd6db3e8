"""Joint limits between samples: Ehlich-Zeller on whole periods, samples and a bound of the curvature elsewhere."""

from dataclasses import dataclass

import numpy as np

from excitor.design.certificate import Margin, above, below
from excitor.design.pieces import Piece, Spans
from excitor.design.worst_case import Effort, Worst, worst_case
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Limits, Robot

_OVERSAMPLING = 256  # samples per cycle of the top harmonic, over 2π: the bound exceeds the samples by 0.0075 %
_EFFORT = Effort(n_first=512)
_QUANTITIES = ("position", "velocity", "acceleration", "jerk")
_UNITS = ("rad", "rad/s", "rad/s2", "rad/s3"), ("m", "m/s", "m/s2", "m/s3")


@dataclass(frozen=True, eq=False, slots=True)
class _Rows:
    """What is compared with which limit: q, -q, then |q̇|, |q̈|, |q⃛| of all joints."""

    limit: FloatArray  # (5 n_joints,)
    slack: FloatArray


def joint_margins(robot: Robot, pieces: tuple[Piece, ...], limits: Limits) -> dict[str, list[Margin]]:
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


def ehlich_zeller(piece: Piece) -> Worst:
    """Bound q, -q, |q̇|, |q̈|, |q⃛| over a period: max|p| ≤ max_k |p(t_k)| / cos(πn/N), p of degree n, N > 2n samples.

    Positions are first shifted by the middle of their samples, so that only their swing is stretched.
    """
    n_samples = _OVERSAMPLING * piece.degree
    t = np.arange(n_samples) * (piece.duration / n_samples)
    stretch = 1.0 / np.cos(np.pi * piece.degree / n_samples)
    q = piece.evaluate(t, 0)
    middle, half = 0.5 * (q.max(axis=0) + q.min(axis=0)), 0.5 * (q.max(axis=0) - q.min(axis=0))
    sizes = [np.abs(piece.evaluate(t, order)) for order in (1, 2, 3)]
    values = np.concatenate([q, -q, *sizes], axis=1)
    seen = values.max(axis=0)
    swung = half * stretch
    upper = np.concatenate([middle + swung, -middle + swung, *(size.max(axis=0) * stretch for size in sizes)])
    at = piece.start + t[np.argmax(values, axis=0)]
    return Worst(upper, seen, at, (piece.name,) * seen.size, n_samples, piece.duration / n_samples)


def _period_proof(piece: Piece) -> str:
    n_samples = _OVERSAMPLING * piece.degree
    return f"{piece.name}: Ehlich-Zeller, n={piece.degree}, N={n_samples}: grid maximum / cos(πn/N)"


def _names(pieces: tuple[Piece, ...]) -> str:
    return ", ".join(piece.name for piece in pieces)


def _rows(limits: Limits) -> _Rows:
    low, high = limits.position.T
    limit = np.concatenate([high, -low, limits.velocity, limits.acceleration, limits.jerk])
    scale = np.concatenate([high - low, high - low, limits.velocity, limits.acceleration, limits.jerk])
    return _Rows(limit, np.where(np.isfinite(limit) & np.isfinite(scale), 1e-3 * np.abs(scale), np.inf))


def _bound(part: Spans) -> tuple[FloatArray, FloatArray]:
    rates, h = part.rates(), part.h
    low, high = part.enclose(part.jets[0], rates[2])
    bends = [rates[3], rates[4], np.broadcast_to(part.piece.most[5], rates[4].shape)]
    inside = [
        part.worst_of_ends(np.abs(part.jets[order])) + h**2 / 8.0 * bend
        for order, bend in zip((1, 2, 3), bends, strict=True)
    ]
    at_ends = [np.abs(part.jets[order]) for order in (1, 2, 3)]
    q = part.jets[0]
    return np.concatenate([high, -low, *inside], axis=1), np.concatenate([q, -q, *at_ends], axis=1)
