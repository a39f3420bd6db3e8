"""Whether any motion keeps a chosen set of a problem's constraints, and how nearly: constraints that can be left out.

Constraints are taken by groups with a name: a zone with all bodies it is about, a joint's torque, the home pose.
A motion swings about a pose with a share (`amplitude`) of what the joints' limits alone allow.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.problem import (
    CLEARANCE_SCALE,
    SEARCH_CLEARANCE,
    Candidates,
    Problem,
    constraint_values,
    motions,
    way_shares,
)
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.cell import required
from excitor.robots.population import population_clearances

SELF = "self-collision"
HOME = "home pose"
STILL = "pose of the joints that stand still"

_SHAPES = 12  # ways to swing, drawn at random
_MEMBERS = 40
_DRAWN = 400  # random motions at the start of each question
_PATIENCE = 40  # generations without improvement
_KEPT = 480  # motions remembered from question to question
_BROKEN = 1e3  # stands before whatever a motion that breaks an active constraint is worth


@dataclass(frozen=True, eq=False, slots=True)
class Elastic:
    """A problem whose constraints can be left out, group by group."""

    problem: Problem
    names: tuple[str, ...]  # of the groups
    group: IntArray  # (n_rows,): which group each row of `problem.names` belongs to
    fine: Problem  # without home: the way from there is looked at by itself
    coarse: Problem  # the same with fewer samples, which are among the fine ones
    hull: FloatArray  # (n_joints, 2): where joints go if their position limits are left out
    shapes: FloatArray  # (n_shapes, n_joints, 2 n_harmonics): swings that use up the joints' limits


@dataclass(frozen=True, eq=False, slots=True)
class Spots:
    """Motions: where they swing about, and in which shape."""

    center: FloatArray  # (n, n_joints)
    shape: IntArray  # (n,)


@dataclass(frozen=True, eq=False, slots=True)
class Misses:
    """By how much each group is missed, ≥ 0 in shares of its limit: in the run, and on the way from home."""

    run: FloatArray  # (n, n_groups)
    way: FloatArray

    def of(self, active: BoolArray, home: int) -> FloatArray:
        """Take the active groups' misses, (n, n_groups); the way counts where home is active."""
        with_way = np.maximum(self.run, self.way) if home >= 0 and active[home] else self.run
        return np.where(active, with_way, 0.0)


@dataclass(frozen=True, eq=False, slots=True)
class Answer:
    """The best motion a question found."""

    fits: bool  # all active constraints hold
    candidate: Candidates
    run: FloatArray  # (n_groups,), as `Misses`
    way: FloatArray


Aim = Callable[[Candidates, Misses], FloatArray]  # what to make small among motions that fit, (n,), each ≥ 0


def make_elastic(problem: Problem, random: np.random.Generator) -> Elastic:
    """Group a problem's constraints, and prepare a cheaper copy."""
    names, group = _groups(problem)
    hull = _hull(problem)
    robot, own = problem.robot, problem.constraints.limits.position
    narrower = (hull[:, 0] < own[:, 0] - 1e-9) | (hull[:, 1] > own[:, 1] + 1e-9)
    names += [f"position {robot.joint_names[j]}" for j in np.flatnonzero(narrower & _placed(problem))]
    if problem.constraints.home is not None:
        names.append(HOME)
    if not _placed(problem).all():
        names.append(STILL)
    fine = replace(problem, constraints=replace(problem.constraints, home=None))
    return Elastic(problem, tuple(names), group, fine, _thinned(fine), hull, _full_swings(problem, random))


def candidates_at(elastic: Elastic, spots: Spots, amplitude: float) -> Candidates:
    """Take spots as a population."""
    return Candidates(spots.center, amplitude * elastic.shapes[spots.shape])


def misses(elastic: Elastic, candidates: Candidates, *, fine: bool = True) -> Misses:
    """Measure by how much a population misses each group."""
    problem = elastic.fine if fine else elastic.coarse
    q, dq, ddq = motions(problem, candidates)
    rows = constraint_values(problem, candidates, q, dq, ddq)
    run = np.zeros((len(q), len(elastic.names)))
    for g in range(int(elastic.group.max(initial=-1)) + 1):
        run[:, g] = rows[:, elastic.group == g].max(axis=1)
    for g, j in _position_groups(elastic):
        low, high = problem.position[j]
        run[:, g] = np.maximum(q[:, j].max(axis=1) - high, low - q[:, j].min(axis=1)) / (0.5 * (high - low))
    # rounding of the interval that centres are drawn from is no miss
    run = np.where(run > 1e-12, run, 0.0)
    return Misses(run, _way_misses(elastic, candidates, run.shape))


def worst_row(elastic: Elastic, candidate: Candidates, group: str) -> str:
    """Name the row of a group that a motion misses most, the way from home included."""
    rows = np.flatnonzero(elastic.group == elastic.names.index(group))
    if not rows.size:
        return group
    problem = elastic.problem
    found = constraint_values(problem, candidate, *motions(problem, candidate))[0]
    return str(problem.names[rows[int(np.argmax(found[rows]))]])


def joint_of(elastic: Elastic, group: str) -> int:
    """Find the joint that a group is about: its name's last part."""
    joints = elastic.problem.robot.joint_names
    return joints.index(next(name for name in joints if group in [f"{kind} {name}" for kind in _JOINT_KINDS]))


_JOINT_KINDS = ("torque peak", "torque rms", "position")


class Questions:
    """Ask whether motions exist, each question starting from what those before it found."""

    def __init__(self, elastic: Elastic, *, seed: int, evaluations: int) -> None:
        self.elastic = elastic
        self.budget = evaluations  # of each question
        self.spent = 0
        self._random = np.random.default_rng([seed, 1])
        n_joints = elastic.problem.robot.n_joints
        self._known = Spots(np.empty((0, n_joints)), np.empty(0, dtype=np.int64))

    def ask(self, active: BoolArray, amplitude: float, aim: Aim | None = None, total: int = 2) -> Answer:
        """Look for a motion that keeps the active groups, and among those for one with the smallest aim.

        Without one, the answer is the compromise: the smallest `total`-norm of what is missed. Differential
        evolution ([Zhang2009], current to p-best) on few samples, then, if a motion fits those, on all of them.
        """
        low, high = self._intervals(active, amplitude)

        def judge(spots: Spots, fine: bool) -> FloatArray:
            self.spent += len(spots.shape)
            candidates = candidates_at(self.elastic, spots, amplitude)
            missed = misses(self.elastic, candidates, fine=fine)
            broken = np.linalg.norm(missed.of(active, self._home), ord=total, axis=1)
            if aim is None:
                return np.asarray(broken)
            return np.where(broken > 0.0, _BROKEN + broken, aim(candidates, missed))

        enough = 0.0 if aim is None else -1.0
        good = 0.0 if aim is None else np.nextafter(_BROKEN, 0.0)
        start = self._start(low, high, judge, fresh=False)
        spots, worth = self._evolve(start, (low, high), judge, fine=False, enough=enough)
        if worth.min() > good:  # before that is believed, once more without what is known
            start = self._start(low, high, judge, fresh=True)
            again = self._evolve(start, (low, high), judge, fine=False, enough=enough)
            spots, worth = min((spots, worth), again, key=lambda found: float(found[1].min()))
        if worth.min() <= good:
            worth = judge(spots, True)
            spots, worth = self._evolve((spots, worth), (low, high), judge, fine=True, enough=enough)
        self._remember(spots)
        k = int(np.argmin(worth))
        best = candidates_at(self.elastic, Spots(spots.center[k : k + 1], spots.shape[k : k + 1]), amplitude)
        found = misses(self.elastic, best)
        fits = not found.of(active, self._home).any()
        return Answer(fits, best, found.run[0], found.way[0])

    @property
    def _home(self) -> int:
        return self.elastic.names.index(HOME) if HOME in self.elastic.names else -1

    def _intervals(self, active: BoolArray, amplitude: float) -> tuple[FloatArray, FloatArray]:
        """Bound centres for each shape, (n_shapes, n_joints), by the position limits that are active."""
        elastic = self.elastic
        problem = elastic.problem
        limits = problem.position.copy()
        for g, j in _position_groups(elastic):
            if not active[g]:
                limits[j] = _shrunk(problem, elastic.hull, j)
        still = ~_placed(problem)
        if still.any():
            stands = active[elastic.names.index(STILL)]
            limits[still] = problem.pose[still, None] if stands else elastic.hull[still]
        q = amplitude * (elastic.shapes @ problem.basis[0])
        low, high = limits[:, 0] - q.min(axis=2), limits[:, 1] - q.max(axis=2)
        return np.minimum(low, high), np.maximum(low, high)

    def _start(
        self, low: FloatArray, high: FloatArray, judge: Callable[[Spots, bool], FloatArray], *, fresh: bool
    ) -> tuple[Spots, FloatArray]:
        known = slice(0, 0) if fresh else slice(None)
        shape = self._random.integers(_SHAPES, size=_DRAWN)
        drawn = low[shape] + self._random.random((_DRAWN, low.shape[1])) * (high - low)[shape]
        shape = np.concatenate([self._known.shape[known], shape])
        center = np.clip(np.concatenate([self._known.center[known], drawn]), low[shape], high[shape])
        worth = judge(Spots(center, shape), False)
        best = np.argsort(worth, kind="stable")[:_MEMBERS]
        return Spots(center[best], shape[best]), worth[best]

    def _evolve(
        self,
        start: tuple[Spots, FloatArray],
        bounds: tuple[FloatArray, FloatArray],
        judge: Callable[[Spots, bool], FloatArray],
        *,
        fine: bool,
        enough: float,
    ) -> tuple[Spots, FloatArray]:
        center, shape, worth = start[0].center.copy(), start[0].shape.copy(), start[1].copy()
        n, n_joints = center.shape
        best, waited = worth.min(), 0
        for _ in range(self.budget // (n * (4 if fine else 1))):
            if worth.min() <= enough or waited > _PATIENCE:
                break
            good = np.argsort(worth, kind="stable")[: max(2, n // 6)]
            lead, a, b = self._random.choice(good, n), *self._random.integers(n, size=(2, n))
            step = self._random.uniform(0.3, 0.95, (n, 1))
            moved = center + step * (center[lead] - center) + step * (center[a] - center[b])
            keep = self._random.random((n, n_joints)) > 0.9
            moved = np.where(keep, center, moved)
            kind = np.where(self._random.random(n) < 0.5, shape[lead], shape)
            kind = np.where(self._random.random(n) < 0.05, self._random.integers(_SHAPES, size=n), kind)
            moved = np.clip(moved, bounds[0][kind], bounds[1][kind])
            found = judge(Spots(moved, kind), fine)
            better = found <= worth
            center[better], shape[better], worth[better] = moved[better], kind[better], found[better]
            waited = 0 if worth.min() < best - 1e-4 * abs(best - (_BROKEN if best >= _BROKEN else 0.0)) else waited + 1
            best = min(best, worth.min())
        return Spots(center, shape), worth

    def _remember(self, spots: Spots) -> None:
        """Keep some of what a question ended with, and let the oldest go."""
        few = slice(0, None, 3)
        center = np.concatenate([self._known.center, spots.center[few]])[-_KEPT:]
        self._known = Spots(center, np.concatenate([self._known.shape, spots.shape[few]])[-_KEPT:])


def _groups(problem: Problem) -> tuple[list[str], IntArray]:
    """Name the groups of `problem.names`, and tell which each row belongs to."""
    labels = list(problem.names)
    scene, capsules = problem.constraints.scene, problem.robot.capsules
    if scene is not None:
        n_links = sum(capsule.link >= 0 for capsule in capsules)
        counts = {"tool": 1, "links": n_links, "all": n_links + 1}
        owners = [f"clearance: {zone.name}" for zone in scene.zones for _ in range(counts[zone.bodies])]
        first = next((k for k, name in enumerate(labels) if name.startswith("clearance: ")), len(labels))
        n_rows = sum(name.startswith("clearance: ") for name in labels)
        labels[first : first + n_rows] = owners + [SELF] * (n_rows - len(owners))
    names = list(dict.fromkeys(labels))
    return names, np.array([names.index(label) for label in labels], dtype=np.int64)


def _placed(problem: Problem) -> BoolArray:
    """Tell which joints' places are chosen by the search."""
    return np.asarray(problem.excitation.moving | np.isnan(problem.pose))


def _position_groups(elastic: Elastic) -> list[tuple[int, int]]:
    """List the groups that are position limits, with their joints."""
    return [(g, joint_of(elastic, name)) for g, name in enumerate(elastic.names) if name.startswith("position ")]


def _hull(problem: Problem) -> FloatArray:
    """Find where joints can go by the robot's own limits, or about half a turn or metre where it states none."""
    own = problem.constraints.limits.position
    reach = np.where(problem.robot.mechanism.prismatic, 1.0, np.pi)
    middle = np.where(np.isfinite(own).all(axis=1), own.sum(axis=1) / 2.0, 0.0)
    low, high = problem.robot.limits.position.T
    low = np.where(np.isfinite(low), low, np.minimum(middle - reach, own[:, 0]))
    high = np.where(np.isfinite(high), high, np.maximum(middle + reach, own[:, 1]))
    finite = np.isfinite(own)
    return np.stack(
        [
            np.where(finite[:, 0], np.minimum(low, own[:, 0]), low),
            np.where(finite[:, 1], np.maximum(high, own[:, 1]), high),
        ],
        axis=1,
    )


def _shrunk(problem: Problem, hull: FloatArray, j: int) -> FloatArray:
    """Take from a wider range what `build_problem` takes from the narrower one, for what happens between samples."""
    share = np.ptp(problem.position[j]) / np.ptp(problem.constraints.limits.position[j])
    return np.asarray(hull[j].mean() + 0.5 * share * np.ptp(hull[j]) * np.array([-1.0, 1.0]))


def _thinned(problem: Problem) -> Problem:
    """Take every few samples of a problem's grid."""
    n = problem.n_period
    step = max(1, n // max(24, 5 * problem.excitation.harmonics[-1]))
    kept = np.concatenate([np.arange(0, n, step), np.arange(n, problem.basis[0].shape[1], step)])
    basis = tuple(np.ascontiguousarray(b[:, kept]) for b in problem.basis)
    return replace(problem, basis=basis, n_period=int((kept < n).sum()))


def _full_swings(problem: Problem, random: np.random.Generator) -> FloatArray:
    """Draw swings that use all that joint limits allow a joint, (n_shapes, n_joints, 2 n_harmonics)."""
    raw = random.normal(size=(_SHAPES, *problem.amplitude.shape)) * problem.amplitude
    width = problem.position[:, 1] - problem.position[:, 0]
    moving = problem.excitation.moving
    swing = raw[:, moving]
    share = np.ptp(swing @ problem.basis[0], axis=2) / width[moving]
    for rate, basis in zip(problem.rates, problem.basis[1:], strict=True):
        share = np.maximum(share, np.abs(swing @ basis).max(axis=2) / rate[moving])
    out = np.zeros_like(raw)
    out[:, moving] = swing / share[:, :, None]
    return out


def _way_misses(elastic: Elastic, candidates: Candidates, shape: tuple[int, int]) -> FloatArray:
    """Measure what the straight way from home misses: zones, the robot itself, position limits."""
    way = np.zeros(shape)
    problem = elastic.problem
    home, scene = problem.constraints.home, problem.constraints.scene
    if home is None:
        return way
    own, hull = problem.constraints.limits.position, elastic.hull
    half = 0.5 * np.where(np.isfinite(np.ptp(own, axis=1)), np.ptp(own, axis=1), 2.0)
    way[:, elastic.names.index(HOME)] = max(0.0, float((np.maximum(home - hull[:, 1], hull[:, 0] - home) / half).max()))
    for g, j in _position_groups(elastic):
        way[:, g] = max(0.0, home[j] - own[j, 1], own[j, 0] - home[j]) / half[j]
    if scene is None:
        return way
    start = home[None, :, None]
    places = start + way_shares(problem) * (candidates.center[:, :, None] - start)
    left = population_clearances(problem.robot, scene, np.ascontiguousarray(places))
    short = (required(problem.robot, scene) + SEARCH_CLEARANCE - left) / CLEARANCE_SCALE
    rows = np.array([name.startswith("clearance: ") for name in problem.names])
    for g in np.unique(elastic.group[rows]):
        way[:, g] = np.maximum(short[:, elastic.group[rows] == g].max(axis=1), 0.0)
    return way
