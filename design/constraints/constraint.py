"""Constraints of a motion: rows with names, units and limits, their values, and bounds between samples.

A constraint states its `values` for samples of a motion and a `bound` of them inside intervals. Search, gradient,
certificate, ways, executed motion and explanation go through these; a kind overrides what it can do faster or must
do otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from excitor.design.certify.bounds import Effort, Worst, worst_case
from excitor.design.motion import Run, Segment, Spans
from excitor.robots.arrays import FloatArray, IntArray, shaped
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.files.schema import Table
from excitor.robots.population import population_torques
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

CLEARANCE_SCALE = 0.1  # m of missing clearance that weigh like a limit doubled
ROOM = 1.05  # times the least relaxation, so that a search can move at all

Action = Literal["raise", "widen", "reduce clearance", "grow", "shrink", "move", "remove", "stand elsewhere"]
States = tuple[FloatArray, FloatArray, FloatArray]  # q, dq, ddq


@dataclass(frozen=True, slots=True)
class Row:
    """One limit of a constraint: values stay below it, or above it where it is a lower one."""

    name: str  # "torque peak j2"
    unit: str
    limit: float
    lower: bool = False
    kind: str = ""  # "torque peak": rows of one kind are summed up together
    group: str = ""  # rows that are relaxed together
    joint: int = -1  # that it is about; -1: none

    @property
    def label(self) -> str:
        """Name in sentences about poses: "table / link j3"."""
        return self.name.removeprefix("clearance: ")

    @property
    def side(self) -> float:
        """1 for an upper limit, -1 for a lower one."""
        return -1.0 if self.lower else 1.0


@dataclass(frozen=True, slots=True)
class Margin:
    """One limit, and how far the motion stays from it."""

    name: str  # "velocity j3"
    unit: str
    limit: float
    worst: float  # no sample, and nothing between samples, is worse
    margin: float  # left of the limit; negative where it is exceeded
    proof: str  # how, in words and numbers
    holds: bool
    where: str = ""  # when the worst sample occurs


def sides(rows: Sequence[Row]) -> FloatArray:
    """1 for each upper limit, -1 for each lower one, (n_rows,)."""
    return np.array([row.side for row in rows])


def beyond(rows: Sequence[Row], values: FloatArray) -> FloatArray:
    """By how much values (…, n_rows) exceed their upper limits, or fall short of their lower ones."""
    return np.asarray(sides(rows) * (values - np.array([row.limit for row in rows])))


def margin_of(row: Row, proven: float, seen: float, *, proof: str, where: str = "") -> Margin:
    """State that a quantity keeps its limit: no value is worse than `proven`, and `seen` is the worst sample."""
    side = row.side
    rounding = 1e-12 * max(1.0, abs(row.limit)) if np.isfinite(row.limit) else 0.0
    holds = bool(side * proven <= side * row.limit + rounding)
    verdict = "" if holds else _EXCEEDED if side * seen > side * row.limit else _UNDECIDED
    text = proof + verdict
    return Margin(row.name, row.unit, row.limit, proven, side * (row.limit - proven), text, holds, where)


def unproven(row: Row, reason: str) -> Margin:
    """Build the margin of a limit that could be neither proven nor refuted."""
    return Margin(row.name, row.unit, row.limit, np.nan, np.nan, reason, False)


def tightest(name: str, margins: list[Margin]) -> Margin:
    """Sum several limits up in the one that holds least."""

    def ease(item: Margin) -> tuple[bool, float]:
        scale = 1.0 if item.unit in ("rad", "m") else abs(item.limit)  # a distance is what it is
        return item.holds, item.margin / scale if np.isfinite(item.margin) else -np.inf

    worst = min(margins, key=ease)
    where = f"{worst.name}, {worst.where}" if worst.where else worst.name
    return Margin(name, worst.unit, worst.limit, worst.worst, worst.margin, worst.proof, worst.holds, where)


_EXCEEDED = "; a sample exceeds the limit"
_UNDECIDED = "; undecided: no sample exceeds the limit, but between samples it cannot be excluded"


@dataclass(frozen=True, slots=True)
class Reserve:
    """Parts of the limits that a search leaves unused, for what happens between its samples."""

    share: float = 0.995  # of a limit that is used
    clearance: float = 0.001  # m beyond what is required


SEARCH = Reserve()


class Population:
    """Sampled motions of candidates, (n_candidates, n_joints, n_samples), with what several constraints share."""

    def __init__(
        self,
        robot: Robot,
        states: States,
        n_period: int,
        quiet: Callable[[], list[FloatArray]],
        *,
        violations_only: bool = False,
    ) -> None:
        self.robot, self.reserve = robot, SEARCH
        self.violations_only = violations_only  # how far from a limit those are that keep it does not matter
        self.q, self.dq, self.ddq = states
        self.n_period = n_period  # samples of the measured period, which come first
        self._quiet = quiet

    @cached_property
    def torques(self) -> tuple[FloatArray, FloatArray]:
        """Peak torques over all samples, and mean squares over the period, (n_candidates, n_joints)."""
        return population_torques(self.robot, self.q, self.dq, self.ddq, n_mean=self.n_period)

    @cached_property
    def places(self) -> FloatArray:
        """Positions in the run, its dry run and on the straight way from home, (n_candidates, n_joints, n)."""
        return np.ascontiguousarray(np.concatenate([self.q, *self._quiet()], axis=2))


class Trace:
    """Samples of one motion, (n_samples, n_joints), with its jerk and, computed when it is needed, its torque."""

    def __init__(self, robot: Robot, motion: Motion, jerk: FloatArray | None = None) -> None:
        self.robot, self.motion, self.jerk = robot, motion, jerk

    @cached_property
    def torque(self) -> FloatArray:
        """Joint torques by the prior model."""
        return inverse_dynamics(self.robot, self.motion)


@dataclass(frozen=True, eq=False, slots=True)
@shaped(before="n", after="n")
class Relaxation:
    """Relaxation of one group of rows: its value before and after."""

    group: str
    action: Action
    unit: str
    amount: float  # how far: m, rad, N m, m/s
    before: FloatArray  # (n,): a limit, a range, a size, a place, a pose
    after: FloatArray
    words: str  # "raise the torque limit of j2 from 30 to 41 N m"
    enough: bool = False  # with every other constraint as it is, a motion fits then: it was evaluated
    motion: Run | None = None  # that motion; it keeps at least the other constraints that block


@dataclass(frozen=True, eq=False, slots=True)
class Compromise:
    """A motion that violates a group of rows, for which the group is to be relaxed."""

    population: Population  # of that one motion
    used: FloatArray  # (n_joints,): share of its position range that the search gives a joint
    center: FloatArray  # (n_joints,): pose that the motion swings about
    constraints: Any = None  # all of them, as `Constraints`

    @property
    def robot(self) -> Robot:
        """The robot that moves."""
        return self.population.robot


class Constraint:
    """Base of all kinds of constraints."""

    order: ClassVar[int] = 2  # highest derivative of q that the values depend on
    everywhere: ClassVar[bool] = False  # the search also keeps it in the dry run and on the way from home
    needs_model: ClassVar[bool] = False  # of torques
    per_period: ClassVar[bool] = False  # a mean over the measured period, not a value of each sample
    effort: ClassVar[Effort] = Effort(n_first=1000)
    quantity: ClassVar[str] = "the value"  # in sentences
    method: ClassVar[str] = "{intervals}: ends + h²/8·max|f''|"  # of the proof
    tolerance: ClassVar[float | None] = None  # of a bound where the margin is small; None: 0.5 % of the limit
    states: ClassVar[Mapping[str, str]] = {}  # fields of `Constraints` that it states: by which of its own

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        """List the limits, in the order of `values`."""
        raise NotImplementedError

    def values(self, trace: Trace) -> FloatArray:
        """Evaluate every row at the samples of a motion, (n_samples, n_rows)."""
        raise NotImplementedError

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound every row inside intervals from the side of its limit (n_spans, n_rows); its values at the samples."""
        raise NotImplementedError

    def searched(self, robot: Robot) -> bool:
        """Return True if the search treats the rows as constraints g ≤ 0."""
        return bool(self.rows(robot))

    def violations(self, robot: Robot, values: FloatArray, reserve: Reserve = SEARCH) -> FloatArray:
        """Turn values (…, n_rows) into g ≤ 0: in shares of the limit, upper or lower, less a reserve."""
        rows = self.rows(robot)
        limits, lower = np.array([row.limit for row in rows]), [row.lower for row in rows]
        return np.where(lower, 1.0 - reserve.share * values / limits, values / (reserve.share * limits) - 1.0)

    def population(self, population: Population) -> FloatArray:
        """Evaluate g ≤ 0 of every row at its worst sample, (n_candidates, n_rows)."""
        robot, n = population.robot, len(population.q)
        if self.everywhere:
            zero = np.zeros_like(population.places)
            states: States = (population.places, zero, zero)
        else:
            states = (population.q, population.dq, population.ddq)
        flat = Motion(*(x.transpose(0, 2, 1).reshape(-1, robot.n_joints) for x in states))
        found = self.violations(robot, self.values(Trace(robot, flat)), population.reserve)
        return np.asarray(found.reshape(n, -1, found.shape[1]).max(axis=1))

    def means(self, robot: Robot, motion: Motion) -> FloatArray:
        """Evaluate g ≤ 0 of every row over a period's samples, where it is a mean over them, (n_rows,)."""
        raise NotImplementedError

    def mean_slopes(self, robot: Robot, motion: Motion, rows: IntArray) -> list[States]:
        """Differentiate g of some rows by q, dq, ddq, where it is a mean over a period's samples."""
        raise NotImplementedError

    def slopes(self, robot: Robot, motion: Motion, rows: IntArray) -> States | None:
        """Differentiate g of row rows[k] by sample k's q, dq, ddq, (n_samples, n_joints) each; None: by differences."""
        return None

    def margins(self, robot: Robot, pieces: tuple[Segment, ...], *, trusted: bool = False) -> list[Margin]:
        """Prove every row over motion segments, between samples too; unproven where no bound is known.

        A model of torques whose masses are not all known is used only where it is `trusted`.
        """
        rows = self.rows(robot)
        if not rows or not pieces:
            return []
        reason = self.unprovable(robot, trusted)
        if reason:
            return [unproven(row, reason) for row in rows]
        limits, lower = np.array([row.limit for row in rows]), np.array([row.lower for row in rows])

        def deficit(values: FloatArray) -> FloatArray:
            return np.where(lower, limits - values, values)

        def bound(part: Spans) -> tuple[FloatArray, FloatArray]:
            inside, at_samples = self.bound(robot, part)
            return deficit(inside), deficit(at_samples)

        zeroed = np.where(lower, 0.0, limits)
        worst = worst_case(pieces, bound, limit=zeroed, slack=self.slacks(robot), effort=self.effort)
        proof = self.proof(robot, worst)
        return [
            margin_of(row, proven, seen, proof=proof, where=f"{at:.3f} s, {where}")
            for row, proven, seen, at, where in zip(
                rows,
                np.where(lower, limits - worst.upper, worst.upper).tolist(),
                np.where(lower, limits - worst.seen, worst.seen).tolist(),
                worst.at,
                worst.where,
                strict=True,
            )
        ]

    def unprovable(self, robot: Robot, trusted: bool) -> str:
        """Return why no bound between samples is known; empty where one is."""
        if isinstance(robot.mechanism, (Tree, ClosedLoop)):
            return ""
        return f"no bound of {self.quantity} between samples is known for a {type(robot.mechanism).__name__}"

    def slacks(self, robot: Robot) -> FloatArray:
        """Return how sharply each row is bounded where the margin is small, (n_rows,)."""
        limits = np.abs([row.limit for row in self.rows(robot)])
        return np.asarray(5e-3 * limits if self.tolerance is None else np.full(limits.size, self.tolerance))

    def proof(self, robot: Robot, worst: Worst) -> str:
        """Describe the proof."""
        return self.method.format(intervals=f"{worst.n_spans} intervals, smallest {1e3 * worst.smallest:.3g} ms")

    def worst(self, trace: Trace) -> FloatArray:
        """Evaluate every row at the worst of a motion's samples, (n_rows,)."""
        lower = np.array([row.lower for row in self.rows(trace.robot)], dtype=bool)
        values = self.values(trace)
        return np.asarray(np.where(lower, values.min(axis=0), values.max(axis=0)))

    def describe(self, robot: Robot, group: str) -> str:
        """Describe a group of rows in words, with its limit."""
        row = self.row_of(robot, group)
        whose = f" of {robot.joint_names[row.joint]}" if row.joint >= 0 else ""
        return f"{row.kind} limit{whose} ({row.limit:g} {row.unit})"

    def slack(self, robot: Robot, group: str, share: float) -> float:
        """Turn a violation of a group, g, into the unit of its limit."""
        return share * self.row_of(robot, group).limit

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        """List ways to relax a group so that a motion which violates it by g = `share` keeps it."""
        return []

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> "Constraint":
        """Apply a relaxation of one of the groups."""
        raise NotImplementedError

    def into(self, constraints: Any) -> Any:
        """Replace the constraint of this kind in `Constraints`."""
        return replace(constraints, **{name: getattr(self, own) for name, own in self.states.items()})

    def row_of(self, robot: Robot, group: str) -> Row:
        """Return the first row of a group."""
        return next(row for row in self.rows(robot) if row.group == group)


def number_changed(group: str, action: Action, unit: str, *, before: float, after: float, words: str) -> Relaxation:
    """Build the relaxation of a single number."""
    return Relaxation(group, action, unit, abs(after - before), np.array([before]), np.array([after]), words)


def three_digits(value: float) -> float:
    """Round up to three digits."""
    if not value > 0.0:
        return value
    digit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return float(np.round(np.ceil(value / digit - 1e-9) * digit, 12))


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def place_words(robot: Robot, j: int, q: float) -> str:
    """Write a joint's position for the reader."""
    return f"{q:.3f} m" if robot.mechanism.prismatic[j] else f"{np.degrees(q):.1f}°"


def excesses(rows: tuple[Row, ...], worst: FloatArray, allowed: FloatArray) -> dict[int, str]:
    """Name each row whose worst value is beyond its limit by more than is allowed: row -> sentence."""
    return {
        int(k): f"{rows[k].name} reaches {worst[k]:.4g} {rows[k].unit}, limit {rows[k].limit:.4g}"
        for k in np.flatnonzero(beyond(rows, worst) > allowed)
    }


@dataclass(frozen=True, slots=True)
class ConstraintKind:
    """A kind of constraint that campaign.toml may name: [[constraint]] with kind = name, and the keys of its table."""

    name: str
    summary: str  # a line for the reference
    table: type[Table]  # its keys, checked by pydantic
    build: Callable[[Robot, Any], Constraint]  # from the robot and a validated table; ValueError where it does not fit
    example: Callable[[Robot], Mapping[str, Any]]  # keys of one, for its conformance suite
