"""Irreducible infeasible sets of a motion problem: conflicting constraints, their violation, and relaxations.

The set is irreducible: without any one of its members a motion is feasible, and that motion was found. That none is
feasible with all of them is the result of a search, not a proof. Everything is evaluated at the search's own margins:
4 mm of clearance and half a percent of torque beyond what is required. A relaxed problem, whose constraint groups can
be left out, decides feasibility; proposals then state what to relax and by how much, and build the resulting problem.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.constraints.clearance import SELF
from excitor.design.constraints.constraint import Compromise, Constraint, Population, Relaxation, listed
from excitor.design.constraints.home import Home, Standstill
from excitor.design.motion import Run
from excitor.design.problem import (
    Candidates,
    Problem,
    build_problem,
    constraint_values,
    motions,
    population_of,
    reach,
    run_of,
)
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, one_blas_thread
from excitor.robots.errors import ExcitorError

SMALLEST = 0.05  # of the joints' swing: a motion that is worth running
_HALVINGS = 5


@dataclass(frozen=True, eq=False, slots=True)
class Member:
    """A constraint of the irreducible infeasible set."""

    name: str
    words: str
    slack: float  # what is missing at the best compromise of the members, in `unit`; 0: the others give way there
    unit: str
    worst: str  # which row of the constraint is missed most
    relaxations: tuple[Relaxation, ...]  # each by itself


@dataclass(frozen=True, eq=False, slots=True)
class Infeasibility:
    """Report on infeasibility: the irreducible infeasible set; without members the problem is feasible after all."""

    members: tuple[Member, ...]
    amplitude: float  # the largest that fits, as a share of the swing that joint limits alone allow; 0: none does
    smallest: float  # the required amplitude
    standing: bool  # some pose keeps every constraint
    fits: Run | None  # the motion of that amplitude, or standing still
    together: tuple[Relaxation, ...]  # where no single one is enough: these together are


class InfeasibleDesign(ExcitorError):
    """No motion keeps all constraints of a run; carries the report. `doubts`: what is surely wrong in its inputs."""

    def __init__(self, where: str, blocked: Infeasibility, doubts: Sequence[str] = ()) -> None:
        self.where = where
        self.blocked = blocked
        first = [f"{where}: no design.", *doubts, *(["Correct that first; with it as it is:"] if doubts else [])]
        super().__init__("\n".join([*first, *sentences(blocked)]))


def explain(problem: Problem, *, seed: int = 0, smallest: float = SMALLEST, evaluations: int = 10_000) -> Infeasibility:
    """Find an irreducible set of constraints that blocks, and what to relax; `evaluations` go into each question."""
    if not 0.0 < smallest <= 1.0:
        raise ValueError(f"smallest is {smallest}, expected a share of the joints' swing between 0 and 1")
    with one_blas_thread():
        elastic = make_elastic(problem, np.random.default_rng([seed, 0]))
        questions = Questions(elastic, seed=seed, evaluations=evaluations)
        everything = np.ones(len(elastic.names), dtype=bool)
        answer = questions.ask(everything, smallest)
        core = np.zeros_like(everything)
        if not answer.fits:
            core, answer = _irreducible(questions, smallest, answer)
        if answer.fits:
            amplitude, best = _largest(questions, smallest, 1.0, answer)
            return Infeasibility((), amplitude, smallest, True, run_of(problem, best), ())
        still = questions.ask(everything, 0.0)
        amplitude, best = _largest(questions, 0.0, smallest, still) if still.fits else (0.0, still.candidate)
        members = tuple(_member(questions, smallest, core, g, answer) for g in np.flatnonzero(core).tolist())
        alone = any(relaxation.enough for member in members for relaxation in member.relaxations)
        together = () if alone else _together(questions, smallest)
        fits = run_of(problem, best) if still.fits else None
        return Infeasibility(members, amplitude, smallest, still.fits, fits, together)


def sentences(blocked: Infeasibility) -> list[str]:
    """Write the report as sentences for the reader."""
    share = f"{100.0 * blocked.amplitude:.2g} %"
    if not blocked.members:
        return [
            f"A motion that swings {share} of what the joints' limits allow fits all constraints, but the search did "
            "not find one in its budget; give it more, or start from this motion."
        ]
    names = listed([member.words for member in blocked.members])
    if not blocked.standing:
        lines = ["No motion fits: even standing still violates the constraints, whatever the pose."]
    elif blocked.amplitude > 0.0:
        lines = [
            f"No motion of a useful size fits: the largest found swings {share} of what the joints' limits "
            f"allow, and {100.0 * blocked.smallest:g} % are required."
        ]
    else:
        lines = ["No motion fits: there is a pose to stand in, but even the smallest motion violates a constraint."]
    if len(blocked.members) == 1:
        lines.append(f"One constraint blocks by itself: {names}.")
    else:
        lines.append(f"These block each other: {names}. Without any one of them a motion fits.")
        if blocked.together:
            lines[-1] = f"These block each other: {names}. They are not the only ones."
    lines += [sentence for member in blocked.members for sentence in _member_sentences(member)]
    if blocked.together:
        lines.append(f"No single change is enough. Together these are: {'; '.join(r.words for r in blocked.together)}.")
    return lines


@dataclass(frozen=True, eq=False, slots=True)
class Misses:
    """By how much each group is violated, ≥ 0 in shares of its limit: in the run, and on the way from home."""

    run: FloatArray  # (n, n_groups)
    way: FloatArray
    home: int  # group of the home pose; -1: none

    def counted(self, active: BoolArray) -> FloatArray:
        """Return violations of all groups, (n, n_groups); the way counts where home is active."""
        return np.maximum(self.run, self.way) if self.home >= 0 and active[self.home] else self.run

    def of(self, active: BoolArray) -> FloatArray:
        """Return violations of the active groups, 0 elsewhere."""
        return np.where(active, self.counted(active), 0.0)

    @property
    def largest(self) -> FloatArray:
        """Violations of the first motion, on the way or not, (n_groups,)."""
        return np.asarray(np.maximum(self.run, self.way)[0])


@dataclass(frozen=True, eq=False, slots=True)
class Answer:
    """Best motion of one feasibility search."""

    fits: bool  # all active constraints hold
    candidate: Candidates
    missed: Misses


@dataclass(frozen=True, eq=False, slots=True)
class Elastic:
    """Relaxed problem whose constraints can be left out, group by group."""

    problem: Problem
    owners: dict[str, Constraint]  # of the groups, by name
    group: IntArray  # (n_rows,): which group each row of `problem.names` belongs to
    fine: Problem  # without home: the way from there is looked at by itself
    coarse: Problem  # the same with fewer samples, which are among the fine ones
    hull: FloatArray  # (n_joints, 2): where joints go if their position limits are left out
    shapes: FloatArray  # (n_shapes, n_joints, 2 n_harmonics): swings that use up the joints' limits

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(self.owners)

    def find(self, name: str) -> int:
        """Return the index of a group; -1: there is none."""
        return self.names.index(name) if name in self.owners else -1


@dataclass(frozen=True, eq=False, slots=True)
class Spots:
    """Motions: where they swing about, and in which shape."""

    center: FloatArray  # (n, n_joints)
    shape: IntArray  # (n,)


Aim = Callable[[Candidates, Misses], FloatArray]  # what to make small among motions that fit, (n,), each ≥ 0


class Questions:
    """Feasibility searches over sets of constraint groups, each started from the results of earlier ones."""

    def __init__(self, elastic: Elastic, *, seed: int, evaluations: int) -> None:
        self.elastic = elastic
        self.budget = evaluations  # of each question
        self._random = np.random.default_rng([seed, 1])
        n_joints = elastic.problem.robot.n_joints
        self._known = Spots(np.empty((0, n_joints)), np.empty(0, dtype=np.int64))

    def ask(self, active: BoolArray, amplitude: float, aim: Aim | None = None, total: int = 2) -> Answer:
        """Search for a motion that keeps the active groups, and among those for one with the smallest aim.

        Without one, the result is the compromise: the smallest `total`-norm of the violations. Differential
        evolution ([Zhang2009], current to p-best) on few samples, then, if a motion fits those, on all of them.
        """
        low, high = self._intervals(active, amplitude)

        def judge(spots: Spots, fine: bool) -> FloatArray:
            candidates = candidates_at(self.elastic, spots, amplitude)
            missed = misses(self.elastic, candidates, fine=fine)
            broken = np.linalg.norm(missed.of(active), ord=total, axis=1)
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
        return Answer(not found.of(active).any(), best, found)

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
            stands = active[elastic.find(STILL)]
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
        """Store every third motion of a search's final population, and drop the oldest beyond `_KEPT`."""
        few = slice(0, None, 3)
        center = np.concatenate([self._known.center, spots.center[few]])[-_KEPT:]
        self._known = Spots(center, np.concatenate([self._known.shape, spots.shape[few]])[-_KEPT:])


def _irreducible(questions: Questions, amplitude: float, answer: Answer) -> tuple[BoolArray, Answer]:
    """Find an irreducible infeasible set: grow it until infeasible, then filter by deletion; with its compromise.

    An answer that fits means that some motion keeps all constraints after all.
    """
    names = questions.elastic.names
    core = _missed(questions.elastic, answer)
    while True:
        while (answer := questions.ask(core, amplitude)).fits:
            more = _missed(questions.elastic, answer) & ~core
            if not more.any():
                return core, answer
            core[np.argmax(np.where(more, np.maximum(answer.missed.largest, 1e-12), 0.0))] = True
        size = answer.missed.largest
        # who can least be asked to give way goes first, then who gives way least
        for g in sorted(np.flatnonzero(core), key=lambda g: (names[g] != SELF, size[g], g)):
            trial = core.copy()
            trial[g] = False
            if trial.any() and not (found := questions.ask(trial, amplitude)).fits:
                core, answer = trial, found
        answer = questions.ask(core, amplitude)
        if not answer.fits:
            return core, answer


def _missed(elastic: Elastic, answer: Answer) -> BoolArray:
    """Mark violated groups, (n_groups,); home counts if the way from it violates more than the run does."""
    missed = answer.missed.largest > 0.0
    if HOME in elastic.owners:
        missed[elastic.find(HOME)] |= bool((answer.missed.way > answer.missed.run).any())
    if STILL in elastic.owners and missed.any():
        missed[elastic.find(STILL)] = True
    return np.asarray(missed)


def _largest(questions: Questions, low: float, high: float, answer: Answer) -> tuple[float, Candidates]:
    """Find the largest amplitude that fits everything, between one that does and one that need not."""
    everything = np.ones(len(questions.elastic.names), dtype=bool)
    best = answer.candidate
    tries = [high, *[0.0] * _HALVINGS] if high == 1.0 else [0.0] * _HALVINGS
    for fixed in tries:
        amplitude = fixed or 0.5 * (low + high)
        found = questions.ask(everything, amplitude)
        if found.fits:
            low, best = amplitude, found.candidate
        else:
            high = amplitude
        if low >= 1.0:
            break
    return low, best


def _member(questions: Questions, amplitude: float, core: BoolArray, g: int, compromise: Answer) -> Member:
    """Find relaxations of one member with every other constraint unchanged."""
    elastic = questions.elastic
    problem, name = elastic.problem, elastic.names[g]
    owner, relaxations = elastic.owners[name], []
    for others in (np.ones_like(core), core.copy()):
        others[g] = False
        found = questions.ask(others, amplitude, _aim(elastic, g, others))
        if found.fits:
            break
    if found.fits:
        for relaxation in proposals(elastic, name, found.candidate, float(found.missed.counted(others)[0, g])):
            changed = relaxed(problem, [relaxation])
            enough = keeps(changed, found.candidate)
            if enough or keeps(changed, found.candidate, [elastic.names[k] for k in np.flatnonzero(core)]):
                relaxations.append(replace(relaxation, enough=enough, motion=run_of(problem, found.candidate)))
    missed = compromise.missed.way.max(initial=0.0) if name == HOME else compromise.missed.counted(core)[0, g]
    return Member(
        name,
        owner.describe(problem.robot, name),
        owner.slack(problem.robot, name, float(missed)),
        owner.row_of(problem.robot, name).unit,
        worst_row(elastic, compromise.candidate, name),
        tuple(relaxations),
    )


def _aim(elastic: Elastic, g: int, active: BoolArray) -> Aim:
    """Make a group's violation small; of a pose, the distance from it."""
    owner, half = elastic.owners[elastic.names[g]], 0.5 * np.ptp(elastic.hull, axis=1)
    if isinstance(owner, Standstill):
        pose, joints = owner.pose, owner.joints
        return lambda candidates, _: np.asarray((np.abs(candidates.center - pose) / half)[:, joints].max(axis=1))
    return lambda _, missed: np.asarray(missed.counted(active)[:, g])


def _together(questions: Questions, amplitude: float) -> tuple[Relaxation, ...]:
    """Propose relaxations of all groups that the best compromise violates; empty if they do not make it feasible."""
    elastic = questions.elastic
    everything = np.ones(len(elastic.names), dtype=bool)
    found = questions.ask(everything, amplitude, total=1)
    missed = found.missed.largest > 0.0
    if HOME in elastic.owners and missed[elastic.find(HOME)]:  # it gives way itself, so the way does not count
        everything[elastic.find(HOME)] = False
        found = questions.ask(everything, amplitude, total=1)
        missed = (found.missed.run[0] > 0.0) | ~everything
    sizes = found.missed.counted(everything)[0]
    chosen = [proposals(elastic, elastic.names[g], found.candidate, sizes[g])[0] for g in np.flatnonzero(missed)]
    return tuple(chosen) if keeps(relaxed(elastic.problem, chosen), found.candidate) else ()


def _member_sentences(member: Member) -> list[str]:
    missing = f"{member.words[0].upper()}{member.words[1:]}"
    if member.slack > 0.0:
        at = "" if member.worst in (member.name, "") else f", worst at {member.worst.removeprefix('clearance: ')}"
        missing += f": {member.slack:.3g} {member.unit} missing at the best compromise{at}."
    else:
        missing += ": it just holds at the best compromise, at the cost of the others."
    if not member.relaxations:
        return [missing]
    ways = "; or ".join(relaxation.words for relaxation in member.relaxations)
    enough = any(relaxation.enough for relaxation in member.relaxations)
    return [missing, f"  To relax it alone: {ways}." + ("" if enough else " Other constraints still block then.")]


HOME, STILL = Home.group, Standstill.group

_SHAPES = 12  # ways to swing, drawn at random
_MEMBERS = 40
_DRAWN = 400  # random motions at the start of each question
_PATIENCE = 40  # generations without improvement
_KEPT = 480  # motions remembered from question to question
_BROKEN = 1e3  # stands before whatever a motion that breaks an active constraint is worth


def make_elastic(problem: Problem, random: np.random.Generator) -> Elastic:
    """Group a problem's constraints, and prepare a cheaper copy."""
    robot, constraints = problem.robot, problem.constraints
    labels = [row.group for item in constraints.searched(robot) for row in item.rows(robot)]
    known, hull, own = constraints.owners(robot), _hull(problem), constraints.limits.position
    narrower = (hull[:, 0] < own[:, 0] - 1e-9) | (hull[:, 1] > own[:, 1] + 1e-9)
    names = [*labels, *(f"position {robot.joint_names[j]}" for j in np.flatnonzero(narrower & _placed(problem)))]
    owners = {name: known[name] for name in names}
    if constraints.way is not None:
        owners[HOME] = constraints.way
    if not _placed(problem).all():
        owners[STILL] = Standstill(problem.pose, ~_placed(problem))
    group = np.array([list(owners).index(label) for label in labels], dtype=np.int64)
    fine = replace(problem, constraints=replace(constraints, home=None))
    return Elastic(problem, owners, group, fine, _thinned(fine), hull, _full_swings(problem, random))


def candidates_at(elastic: Elastic, spots: Spots, amplitude: float) -> Candidates:
    """Convert spots to a population of candidates at an amplitude."""
    return Candidates(spots.center, amplitude * elastic.shapes[spots.shape])


def misses(elastic: Elastic, candidates: Candidates, *, fine: bool = True) -> Misses:
    """Measure by how much a population misses each group."""
    problem = elastic.fine if fine else elastic.coarse
    q, dq, ddq = motions(problem, candidates)
    rows = constraint_values(problem, candidates, (q, dq, ddq), violations_only=True)
    run = np.zeros((len(q), len(elastic.names)))
    for g in range(int(elastic.group.max(initial=-1)) + 1):
        run[:, g] = rows[:, elastic.group == g].max(axis=1)
    for g, j in _position_groups(elastic):
        low, high = problem.position[j]
        run[:, g] = np.maximum(q[:, j].max(axis=1) - high, low - q[:, j].min(axis=1)) / (0.5 * (high - low))
    # rounding of the interval that centres are drawn from is no miss
    run = np.where(run > 1e-12, run, 0.0)
    return Misses(run, _way_misses(elastic, candidates, run.shape), elastic.find(HOME))


def worst_row(elastic: Elastic, candidate: Candidates, group: str) -> str:
    """Name the row of a group that a motion misses most, the way from home included."""
    rows = np.flatnonzero(elastic.group == elastic.find(group))
    if not rows.size:
        return group
    problem = elastic.problem
    found = constraint_values(problem, candidate)[0]
    return str(problem.names[rows[int(np.argmax(found[rows]))]])


def _placed(problem: Problem) -> BoolArray:
    """Mark joints whose pose the search chooses: those that move and those without a stated pose, (n_joints,)."""
    return np.asarray(problem.excitation.moving | np.isnan(problem.pose))


def _position_groups(elastic: Elastic) -> list[tuple[int, int]]:
    """List the groups that are position limits, with their joints."""
    joints = {f"position {name}": j for j, name in enumerate(elastic.problem.robot.joint_names)}
    return [(g, joints[name]) for g, name in enumerate(elastic.names) if name in joints]


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
    """Reduce the hull of joint j by the share that `build_problem` reserves between samples, (2,)."""
    share = np.ptp(problem.position[j]) / np.ptp(problem.constraints.limits.position[j])
    return np.asarray(hull[j].mean() + 0.5 * share * np.ptp(hull[j]) * np.array([-1.0, 1.0]))


def _thinned(problem: Problem) -> Problem:
    """Reduce a problem's period grid to every few samples."""
    n = problem.n_period
    step = max(1, n // max(24, 5 * problem.excitation.harmonics[-1]))
    kept = np.concatenate([np.arange(0, n, step), np.arange(n, problem.basis[0].shape[1], step)])
    basis = tuple(np.ascontiguousarray(b[:, kept]) for b in problem.basis)
    return replace(problem, basis=basis, n_period=int((kept < n).sum()))


def _full_swings(problem: Problem, random: np.random.Generator) -> FloatArray:
    """Draw swings that use all that joint limits allow a joint, (n_shapes, n_joints, 2 n_harmonics)."""
    raw = random.normal(size=(_SHAPES, *problem.amplitude.shape)) * problem.amplitude
    share, moving = reach(problem, raw)[2], problem.excitation.moving
    return np.divide(raw, share[:, :, None], out=np.zeros_like(raw), where=moving[:, None])


def _way_misses(elastic: Elastic, candidates: Candidates, shape: tuple[int, int]) -> FloatArray:
    """Violations along the straight way from home: zones, self-collision, position limits."""
    way = np.zeros(shape)
    problem = elastic.problem
    stated = problem.constraints.way
    if stated is None:
        return way
    home = stated.pose
    own, hull = problem.constraints.limits.position, elastic.hull
    half = 0.5 * np.where(np.isfinite(np.ptp(own, axis=1)), np.ptp(own, axis=1), 2.0)
    way[:, elastic.find(HOME)] = max(0.0, float((np.maximum(home - hull[:, 1], hull[:, 0] - home) / half).max()))
    for g, j in _position_groups(elastic):
        way[:, g] = max(0.0, home[j] - own[j, 1], own[j, 0] - home[j]) / half[j]
    column, places = 0, problem.constraints.ways(candidates.center)
    for item in problem.constraints.searched(problem.robot):
        n_rows = len(item.rows(problem.robot))
        if item.everywhere:
            groups = elastic.group[column : column + n_rows]
            short = item.population(Population(problem.robot, (places, places, places), 0, list, violations_only=True))
            for g in np.unique(groups):
                way[:, g] = np.maximum(short[:, groups == g].max(axis=1), 0.0)
        column += n_rows
    return way


def relaxed(problem: Problem, relaxations: Sequence[Relaxation]) -> Problem:
    """Build the problem with relaxations applied."""
    constraints, pose = problem.constraints, problem.pose
    for relaxation in relaxations:
        if relaxation.group == STILL:
            pose = np.where(np.isnan(pose), pose, relaxation.after)
        else:
            constraints = constraints.relaxed(problem.robot, relaxation)
    changed = build_problem(
        problem.robot,
        problem.excitation,
        constraints=constraints,
        criterion=problem.criterion,
        model=problem.model,
        pose=pose,
    )
    return replace(changed, earlier=problem.earlier, share=problem.share)


def keeps(problem: Problem, candidate: Candidates, groups: Sequence[str] | None = None) -> bool:
    """Return True if a motion keeps all of a problem's constraints, or the named groups of them."""
    elastic = make_elastic(problem, np.random.default_rng(0))
    active = np.array([groups is None or name in groups for name in elastic.names], dtype=bool)
    return not misses(elastic, candidate).of(active).any()


def proposals(elastic: Elastic, group: str, candidate: Candidates, miss: float) -> list[Relaxation]:
    """List ways to relax a group so that a motion keeps it; `miss` is its share that is missing."""
    problem = elastic.problem
    used = np.ptp(problem.position, axis=1) / np.ptp(problem.constraints.limits.position, axis=1)
    compromise = Compromise(population_of(problem, candidate), used, candidate.center[0], problem.constraints)
    return elastic.owners[group].proposals(compromise, group, miss)
