"""What motions do not tell about a load, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from excitor.identify.finding import Finding, several
from excitor.identify.load_equations import Equations, equations, linear_start, motor_torque
from excitor.identify.load_runs import LoadRun
from excitor.identify.load_task import LOAD_NAMES, LoadTask
from excitor.identify.nonlinear import RANK_TOLERANCE
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.errors import RankDeficient
from excitor.robots.inertia import pseudo_inertia

POOR_CONDITION = 1e3
ALIKE = 0.98  # correlation from which a friction and an efficiency can hardly be told apart
EFFICIENCIES = (0.3, 1.05)  # beyond, something else is called efficiency
_SMALL = 1e-6  # of the largest entry of a direction, in normalised columns


@dataclass(frozen=True, eq=False, slots=True)
class LoadRank:
    """The Jacobian's rank at some θ: the number of unknowns that the motions tell."""

    names: tuple[str, ...]
    rank: int
    singular_values: FloatArray  # of the column-normalised, weighted Jacobian
    open_directions: FloatArray  # (n_unknowns - rank, n_unknowns), along which no torque changes; largest mass 1
    combinations: tuple[str, ...]  # the same in words

    def __post_init__(self) -> None:
        freeze(self, singular_values="n_values", open_directions=f"n_open {len(self.names)}")

    @property
    def condition(self) -> float:
        """Condition number of the column-normalised, weighted Jacobian."""
        return float(self.singular_values[0] / self.singular_values[-1]) if self.rank == len(self.names) else np.inf


def load_rank(system: Equations, theta: FloatArray) -> LoadRank:
    """Count what the Jacobian tells at θ, and name what it does not."""
    names = system.unknowns.names
    J = motor_torque(system, theta)[1] / system.sigma[:, None]
    arm = system.unknowns.arm
    if arm.stop > arm.start:  # bounded by their prior
        names, J = names[: arm.start], J[:, : arm.start]
    norms = np.linalg.norm(J, axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    values, V = np.linalg.svd(np.linalg.qr(J / scale, mode="r"))[1:]
    flat = V[values <= RANK_TOLERANCE * values[0]]
    directions = _reduced(flat) / scale
    return LoadRank(
        names=names,
        rank=len(names) - len(flat),
        singular_values=values,
        open_directions=np.array([_normalised(row, names) for row in directions]).reshape(-1, len(names)),
        combinations=tuple(_told(row, names, scale) for row in directions),
    )


def rank_words(W: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    """Say which combinations of columns a matrix does not tell; none if its rank is full."""
    norms = np.linalg.norm(W, axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    padded = np.vstack([W / scale, np.zeros((max(0, W.shape[1] - len(W)), W.shape[1]))])
    values, V = np.linalg.svd(padded, full_matrices=False)[1:]
    return tuple(_told(row, names, scale) for row in _reduced(V[values <= RANK_TOLERANCE * values[0]]) / scale)


def rank_sentence(found: LoadRank) -> str:
    """Say how much of the unknowns is told, and which combinations are not."""
    n = len(found.names)
    if found.rank == n:
        return f"all {n} unknowns are told: the Jacobian has full rank, condition {found.condition:.1f}"
    return f"rank {found.rank} of {n}: the motions do not tell {several(list(found.combinations))}"


def check_load_rank(system: Equations, theta: FloatArray) -> LoadRank:
    """Raise RankDeficient, in words, unless all unknowns are told."""
    found = load_rank(system, theta)
    if found.rank < len(found.names):
        names = [name for name, open_ in zip(found.names, found.open_directions.T, strict=True) if open_.any()]
        raise RankDeficient(f"{rank_sentence(found)}; {_remedy(system, found)}", names)
    return found


def diagnose_load(task: LoadTask, runs: Sequence[LoadRun], theta: FloatArray | None = None) -> tuple[Finding, ...]:
    """Examine what runs tell about a load, at an estimate, or before there is one."""
    system = equations(task, runs)
    theta = linear_start(system) if theta is None else theta
    found = load_rank(system, theta)
    if found.rank < len(found.names):
        data: dict[str, float | str | tuple[str, ...]] = {
            "rank": float(found.rank),
            "unknowns": float(len(found.names)),
            "combinations": found.combinations,
        }
        return (Finding("unusable", "load rank", rank_sentence(found), _remedy(system, found), data),)
    findings = []
    if found.condition > POOR_CONDITION:
        sentence = f"the motions hardly separate the unknowns: condition {found.condition:.0f}"
        findings.append(
            Finding(
                "doubtful",
                "load condition",
                sentence,
                "let the axis before the wrist move too, and the wrist cover its range",
                {"condition": found.condition},
            )
        )
    return (*findings, *_alike(system, theta), *_impossible(system, theta))


def _alike(system: Equations, theta: FloatArray) -> list[Finding]:
    """Find axes whose gravity never changes sign: their losses look like Coulomb friction."""
    where, J = system.unknowns, motor_torque(system, theta)[1]
    found = []
    for k, axis in enumerate(where.efficiency_axes):
        rows = system.axis == axis
        loss = J[rows, where.efficiency.start + k]
        for column in range(where.friction.start, where.friction.stop):
            friction = J[rows, column]
            size = float(np.linalg.norm(loss) * np.linalg.norm(friction))
            alike = abs(float(loss @ friction)) / size if size > 0.0 else 0.0
            if alike > ALIKE:
                name, other = where.names[where.efficiency.start + k], where.names[column]
                found.append(
                    Finding(
                        "note",
                        "load losses",
                        f"{name} and {other} look alike (correlation {alike:.2f}): the torque carried hardly changes",
                        "their sum is told well and the load does not suffer; do not quote either alone",
                        {"correlation": alike, "parameters": (name, other)},
                    )
                )
    return found


def _impossible(system: Equations, theta: FloatArray) -> list[Finding]:
    where = system.unknowns
    found = []
    for k in range(where.efficiency.start, where.efficiency.stop):
        if not EFFICIENCIES[0] <= theta[k] <= EFFICIENCIES[1]:
            found.append(
                Finding(
                    "doubtful",
                    "load losses",
                    f"{where.names[k]} comes out as {theta[k]:.2f}, which no gear has",
                    "check the sign and scale of that motor's current, or give the efficiencies",
                    {"value": float(theta[k])},
                )
            )
    return found


def _remedy(system: Equations, found: LoadRank) -> str:
    load_only = all(not np.any(np.abs(row[10:]) > _SMALL) for row in found.open_directions)
    if load_only:
        still = [name for name, moves in zip(system.task.robot.joint_names, system.task.axes, strict=True) if not moves]
        if still:
            return f"let another axis move a little too, such as {still[-1]}, or know the mass beforehand"
        return "let the axes cover more of their range, or know the mass beforehand"
    return "let each axis turn both ways, at different speeds and under different torques"


def _reduced(flat: FloatArray) -> FloatArray:
    """Turn a basis of directions into one that shares as few parameters as possible: echelon form by columns."""
    import scipy.linalg

    if not len(flat):
        return flat
    order = scipy.linalg.qr(flat, mode="r", pivoting=True)[1][: len(flat)]
    reduced = np.linalg.solve(flat[:, order], flat)
    return np.where(np.abs(reduced) > _SMALL * np.abs(reduced).max(axis=1, keepdims=True), reduced, 0.0)


def _normalised(direction: FloatArray, names: Sequence[str]) -> FloatArray:
    """Count a direction by its mass, or by its largest entry where it has none."""
    mass = direction[names.index("ML")]
    return np.asarray(direction / (mass if mass != 0.0 else direction[np.argmax(np.abs(direction))]))


def _told(direction: FloatArray, names: Sequence[str], scale: FloatArray) -> str:
    row = _normalised(direction, names)
    part = np.abs(row * scale)
    kept = [k for k in np.argsort(-part) if part[k] > 1e-4 * part.max()]
    mass = names.index("ML")
    kept.sort(key=lambda k: (k != mass, -part[k]))
    text = "".join(_term(row[k], names[k], first=place == 0) for place, k in enumerate(kept))
    if tuple(names[:10]) != LOAD_NAMES or any(k >= 10 for k in kept) or mass not in kept:
        return text
    point = row[6:9]
    P = pseudo_inertia(row[:10])
    if np.abs(P[:3, :3] - np.outer(point, point)).max() > 1e-3 * max(float(point @ point), 1e-6):
        return text
    there = ", ".join(f"{x:.3f}" for x in np.where(np.abs(point) < 5e-4, 0.0, point))
    return f"{text}, which is a point mass at ({there}) m of the link's frame"


def _term(factor: float, name: str, *, first: bool) -> str:
    size = f"{abs(factor):.3g}"
    sign = ("-" if factor < 0.0 else "") if first else f" {'-' if factor < 0.0 else '+'} "
    return f"{sign}{'' if size == '1' else size + ' '}{name}"
