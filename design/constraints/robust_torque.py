"""Torque limits that hold although the model is doubtful: for all parameters of a box, or with a stated probability.

Parameters are χ = χ0 + A ε, by the prior's own coordinates (`robots.belief`): an ε of `spread` changes a link by that
share of its prior body, a drive parameter by that share of its size. The torque of joint i is Y_i χ, so that

    |Y_i χ| ≤ |Y_i χ0| + ‖Aᵀ Y_iᵀ‖_1                 for every χ in the box |ε| ≤ 1 of the standard parameters,
    |Y_i χ| ≤ |Y_i χ0| + k ‖Aᵀ Y_iᵀ‖_2  at all times  with the stated probability, where ε is standard normal.

Whole runs of all joints count, not single samples: with γ the unit vector along Aᵀ Y_iᵀ and Λ the length of its path,
P(sup_t |γ·ε| > k) ≤ 2 (Φ(-k) + Λ / 2π · exp(-k²/2)) [Knowles1989], summed over the joints, gives k.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import brentq
from scipy.special import ndtr

from excitor.design.certify.bounds import Effort, Worst, links_curvatures
from excitor.design.constraints.constraint import SEARCH, ConstraintKind, Margin, Population, States, Trace, unproven
from excitor.design.constraints.torque import (
    TorqueLimits,
    form_slopes,
    friction_range,
    friction_ranges,
    largest_torques,
)
from excitor.design.motion import Segment, Spans, even_spans
from excitor.robots.arrays import FloatArray, IntArray, locked, shaped
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.belief import Prior, coordinates, unknown_friction
from excitor.robots.dynamics import has_load_friction, inverse_dynamics, regressor, rigid_torque
from excitor.robots.files.schema import Table
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import FrictionTerm, Motion, Robot, RotorInertia

PATH = 500.0  # rad: Λ that a run may have; k hardly depends on it
_SAMPLES = 2000  # of each motion segment, for Λ
_LONG = (
    "the direction of its torque in the parameters turns by {:.0f} rad, more than the "
    f'{PATH:g} that the probability is computed for; choose fewer harmonics or a shorter run, or set = "box"'
)


@dataclass(frozen=True, eq=False, slots=True)
class RobustTorque(TorqueLimits):
    """Largest torque of each joint for parameters that differ from the prior's.

    Args:
        limit: (n_joints,), N m or N; inf where a joint has none.
        spread: of the parameters, as a share of the prior: standard deviation, or half the width of the box.
        probability: that a robot drawn stays inside over a whole run, all joints; None: each robot of the box does.
    """

    spread: float = 0.1
    probability: float | None = 0.999
    kind: ClassVar[str] = "robust torque"
    short: ClassVar[str] = "robust"
    effort: ClassVar[Effort] = Effort(n_first=500)
    method: ClassVar[str] = "{intervals}: norms at ends + h²/8·max of the rows' curvature"

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", locked(np.asarray(self.limit, dtype=float)))
        if not (self.limit > 0.0).all():
            raise ValueError(f"limits are {self.limit.tolist()}, expected positive torques")
        if not 0.0 < self.spread <= 0.5:
            raise ValueError(f"spread is {self.spread}, expected a share above 0 and at most 0.5, such as 0.1 for 10 %")
        if self.probability is not None and not 0.5 <= self.probability < 1.0:
            raise ValueError(f"probability is {self.probability}, expected from 0.5 to below 1, such as 0.999")

    @property
    def factor(self) -> float:
        """Multiples of a standard deviation that count; 1 for a box."""
        return 1.0 if self.probability is None else normal_factor(self.probability, self.stated.size)

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate |Y_i χ0| and what the parameters' deviations add."""
        added = _added(doubts(trace.robot, self.spread, self.probability is None), trace.robot, trace.motion)
        return np.asarray((np.abs(trace.torque) + self.factor * added)[:, self.stated])

    def population(self, population: Population) -> FloatArray:
        """Evaluate the worst sample, candidate by candidate."""
        robot, states = population.robot, zip(population.q, population.dq, population.ddq, strict=True)
        worst = np.array([self.worst(Trace(robot, Motion(*(x.T for x in candidate)))) for candidate in states])
        return self.violations(robot, worst, population.reserve)

    def slopes(self, robot: Robot, motion: Motion, rows: IntArray) -> States:
        """Differentiate |Y χ0| by (Y χ0)², the 2-norm by Y A Aᵀ Yᵀ, the 1-norm by 2 F Yᵀ = ∂/∂Yᵀ with F diagonal."""
        joints, k, chi = self.stated[rows], np.arange(len(rows)), prior(robot)
        doubt = doubts(robot, self.spread, self.probability is None)
        size = np.maximum(np.abs(inverse_dynamics(robot, motion)[k, joints]), 1e-12)
        bars = form_slopes(robot, motion, joints, np.outer(chi, chi)) * (0.5 / size)[:, None]
        if self.probability is None:
            for n, row in enumerate(regressor(robot, motion)[k, joints]):
                form = np.diag(0.5 * np.diag(doubt.A) / np.where(row == 0.0, np.inf, np.abs(row)))
                one = Motion(*(x[n : n + 1] for x in (motion.q, motion.dq, motion.ddq)))
                bars[:, n] += form_slopes(robot, one, joints[n : n + 1], form)[:, 0]
        else:
            added = np.maximum(_added(doubt, robot, motion)[k, joints], 1e-12)
            bars += form_slopes(robot, motion, joints, doubt.A @ doubt.A.T) * (0.5 * self.factor / added)[:, None]
        bars /= SEARCH.share * self.limit[joints][:, None]
        return bars[0], bars[1], bars[2]

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound both terms: a norm of Aᵀ Y_iᵀ is convex, and friction enters by its range."""
        nominal = largest_torques(robot, prior(robot), part)
        added = _largest_added(doubts(robot, self.spread, self.probability is None), robot, part)
        inside, at_samples = (a + self.factor * b for a, b in zip(nominal, added, strict=True))
        return inside[:, self.stated], at_samples[:, self.stated]

    def proof(self, robot: Robot, worst: Worst) -> str:
        whom = "all of a box" if self.probability is None else f"{100.0 * self.probability:g} %, k = {self.factor:.3g}"
        return f"prior model ± {100.0 * self.spread:g} % ({whom}), {TorqueLimits.proof(self, robot, worst)}"

    def unprovable(self, robot: Robot, trusted: bool) -> str:
        """Return why torques of other parameters are not bounded."""
        if has_load_friction(robot):
            return "load-dependent friction multiplies uncertain parameters, so torques are not linear in them"
        return TorqueLimits.unprovable(self, robot, trusted)

    def margins(self, robot: Robot, pieces: tuple[Segment, ...], *, trusted: bool = False) -> list[Margin]:
        """Prove the rows, and check that the paths of their directions are no longer than counted."""
        found = TorqueLimits.margins(self, robot, pieces, trusted=trusted)
        if self.probability is None or not all(np.isfinite(margin.worst) for margin in found):
            return found
        length = sum((_path(doubts(robot, self.spread, False), robot, piece) for piece in pieces), np.zeros(()))
        return [
            unproven(row, _LONG.format(turn)) if turn > PATH else margin
            for row, margin, turn in zip(self.rows(robot), found, np.atleast_1d(length)[self.stated], strict=True)
        ]

    def describe(self, robot: Robot, group: str) -> str:
        whom = "every robot" if self.probability is None else f"{100.0 * self.probability:g} % of robots"
        text = TorqueLimits.describe(self, robot, group)
        return f"{text} for {whom} whose parameters differ by {100.0 * self.spread:g} % of the prior's"


@lru_cache(maxsize=16)
def normal_factor(probability: float, n_joints: int) -> float:
    """Find k with 2 n (Φ(-k) + Λ / 2π · exp(-k²/2)) = 1 - probability, Λ = `PATH`."""

    def excess(k: float) -> float:
        out = ndtr(-k) + PATH / (2.0 * np.pi) * np.exp(-0.5 * k * k)
        return float(np.log(2.0 * n_joints * out) - np.log1p(-probability))

    return float(brentq(excess, 0.0, 37.0))


@dataclass(frozen=True, eq=False, slots=True)
@shaped(A="n_params n_directions", reduced="n m", columns="int: m")
class Doubts:
    """χ = χ0 + A ε: columns of A that links, rotors and linear friction have, and sizes of the other friction."""

    box: bool
    A: FloatArray  # (n_params, n_directions)
    reduced: FloatArray  # (n_directions or n_base, n_rows): of the columns below, with the same norm
    columns: IntArray  # that `reduced` multiplies

    def norm(self, values: FloatArray) -> FloatArray:
        """1-norm or 2-norm along the first axis."""
        return np.asarray(np.abs(values).sum(axis=0) if self.box else np.sqrt(np.square(values).sum(axis=0)))


@lru_cache(maxsize=16)
def doubts(robot: Robot, spread: float, box: bool) -> Doubts:
    """Build A from the prior's coordinates; friction of unknown size may be as large as its joint's other torque."""
    params, chi = layout(robot), prior(robot)
    believed = coordinates(robot, Prior(), _friction_sizes(robot), level=None)
    sure = (chi == 0.0) & robot.known
    sure[: params.n_link_params] = False
    B = np.zeros((len(params), believed.columns.size))
    B[believed.columns] = spread * believed.B
    B[sure] = 0.0
    if box:
        sizes = np.linalg.norm(B, axis=1)
        return Doubts(box, np.diag(sizes), np.diag(sizes), np.arange(len(params)))
    base = base_parameters(robot)
    return Doubts(box, B, np.asarray(np.linalg.qr((base.regrouping @ B).T, mode="r")), base.kept)


def _friction_sizes(robot: Robot) -> FloatArray:
    """Size of friction that is not stated, (n_params,): that of its joint's torque; 0 for all other parameters."""
    sizes, unknown = np.zeros(len(layout(robot))), unknown_friction(robot)
    if not unknown.any():
        return sizes
    motion = random_motion(robot, 50, robot.locked)
    Y, tau = regressor(robot, motion), rigid_torque(robot, motion)
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if not robot.known[column] and (unknown & (term.acts != 0.0)).any():
            acts = term.acts != 0.0
            scale = np.sqrt(np.mean(Y[:, acts, column] ** 2))
            sizes[column] = np.sqrt(np.mean(tau[:, acts] ** 2)) / scale if scale > 0.0 else 0.0
    return sizes


def _added(doubt: Doubts, robot: Robot, motion: Motion) -> FloatArray:
    """Evaluate ‖Aᵀ Y_iᵀ‖ of every joint, (n_samples, n_joints)."""
    Y = regressor(robot, motion).transpose(2, 1, 0)[doubt.columns]
    if doubt.box:
        return np.asarray(np.einsum("pis,p->si", np.abs(Y), np.diag(doubt.reduced)))
    return doubt.norm(np.tensordot(doubt.reduced, Y, axes=1)).T


def _largest_added(doubt: Doubts, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
    """Bound ‖Aᵀ Y_iᵀ‖ inside intervals (n_spans, n_joints), and at their samples, both sides of a reversal."""
    params, A, rates = layout(robot), doubt.A.copy(), part.rates()
    n_links = params.n_link_params
    of_links = np.flatnonzero(A[:n_links].any(axis=0))
    bend = np.zeros((A.shape[1], part.left.size, robot.n_joints))
    phis = A[:n_links, of_links].T.reshape(of_links.size, -1, 10)
    bend[of_links], known = links_curvatures(robot.mechanism, phis, part)
    curves: list[tuple[FrictionTerm, float]] = []
    linear: list[tuple[RotorInertia | FrictionTerm, int, FloatArray]] = [
        (rotor, column, rates[4]) for rotor, column in zip(robot.drive.rotors, params.rotor_columns, strict=True)
    ]
    for term, column in zip(robot.drive.friction, params.friction_columns, strict=True):
        shape = friction_model(term).shape
        if shape == "linear":
            linear.append((term, column, rates[3]))
        elif shape != "constant":
            curves.append((term, float(np.linalg.norm(A[column]))))
            A[column] = 0.0
    for element, column, rate in linear:
        push = np.outer(rate @ np.abs(element.senses), np.abs(element.acts))
        bend += np.abs(A[column])[:, None, None] * push
    Y = regressor(robot, part.motion)
    smooth = np.einsum("tip,pd->dti", Y, A, optimize=True)
    at_samples = doubt.norm(smooth)
    inside = part.worst_of_ends(at_samples) + part.h**2 / 8.0 * doubt.norm(bend)
    none = np.zeros_like(part.jets[0])
    found = []
    for plain, sensed in zip((inside, at_samples), friction_ranges(part, none, 0.0 * rates[0]), strict=True):
        parts = [plain]
        for term, size in curves:
            low, high = friction_range(term, sensed)
            parts.append(size * np.maximum(np.abs(low), np.abs(high))[:, None] * np.abs(term.acts))
        found.append(doubt.norm(np.stack(parts)))
    return np.where(known[:, None], found[0], np.inf), found[1]


def _path(doubt: Doubts, robot: Robot, piece: Segment) -> FloatArray:
    """Measure the length of the path of each joint's direction on the unit sphere, (n_joints,)."""
    Y = regressor(robot, even_spans(piece, _SAMPLES).motion).transpose(2, 1, 0)[doubt.columns]
    w = np.tensordot(doubt.reduced, Y, axes=1)
    w /= np.maximum(np.linalg.norm(w, axis=0), 1e-300)
    chords = np.linalg.norm(np.diff(w, axis=2), axis=0)
    return np.asarray(2.0 * np.arcsin(np.minimum(0.5 * chords, 1.0)).sum(axis=1))


class RobustTorqueTable(Table):
    """Keys of a robust torque limit in campaign.toml."""

    spread_percent: Annotated[float, Field(gt=0.0, le=50.0)]  # standard deviation of the model's parameters
    set: Literal["chance", "box"] = "chance"  # how doubtful models are drawn
    probability: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.999  # of "chance"
    torque_percent: Annotated[float, Field(gt=0.0, le=1000.0)] = 100.0  # of the joints' own limits


def _build(robot: Robot, table: RobustTorqueTable) -> RobustTorque:
    limit = robot.limits.torque * table.torque_percent / 100.0
    if not np.isfinite(limit).any():
        raise ValueError(f"{robot.name} states no torque limits; add torque to the limits of its joints")
    return RobustTorque(limit, table.spread_percent / 100.0, None if table.set == "box" else table.probability)


KIND = ConstraintKind(
    "robust-torque",
    "The torque stays within its limits although the model's parameters differ from the prior's.",
    RobustTorqueTable,
    _build,
    lambda robot: {"spread_percent": 10.0, "torque_percent": 50.0},
)
