"""Pareto front of runs: condition against duration, torque and tool speed, by NSGA-II or NSGA-III.

The only file besides `search` that imports pymoo. A candidate is the design variables of a problem, and one number
more, the index of the problem (period) that they belong to. The front keeps nondominated points and chooses a knee.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from excitor.design.constraints.constraint import SEARCH
from excitor.design.motion import Run
from excitor.design.problem import (
    POINT_COST,
    Candidates,
    Problem,
    decode,
    encode,
    evaluate,
    feasible_start,
    joined,
    motions,
    run_of,
)
from excitor.design.search import SHARP, WHOLE, Budget, Listener, Progress, SearchResult, descend, solve, with_values
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, one_blas_thread, shaped
from excitor.robots.executor import Executor
from excitor.robots.population import population_tool_speeds

Objective = Literal["condition", "duration", "torque", "tool speed"]

SCOUTING = 0.15  # of the budget, shared by all periods: for a first good condition of each
SEARCHING = 0.5  # for the most promising period's best condition, where the front begins
POLISHING = 0.15  # for descents from points of the front
ELITES = 8
POPULATION = 100
LONGEST = 200  # points that a front keeps
USELESS = 20.0  # times the best condition: where a front ends
_PARTITIONS = {1: 99, 2: 99, 3: 12, 4: 6}  # of the reference directions, by the number of objectives
_SHRUNK = (0.9, 0.8, 0.65, 0.5)  # amplitudes of the extremes that the population begins with
_UNITS = {"condition": "", "duration": "s", "torque": "of the limit", "tool speed": "m/s"}


@dataclass(frozen=True, eq=False, slots=True)
@shaped(points="n_points n_objectives", which="int: n_points")
class Front:
    """Feasible runs of which none is better than another in every objective; the first objective rises."""

    problems: tuple[Problem, ...]  # one for each period
    objectives: tuple[Objective, ...]
    units: tuple[str, ...]
    points: FloatArray  # (n_points, n_objectives): all of them small is good
    which: IntArray  # (n_points,): the problem each belongs to
    center: FloatArray  # (n_points, n_joints)
    swing: FloatArray  # (n_points, n_joints, 2 n_harmonics)
    chosen: int  # the knee: nearest to the best of everything; -1 where there is no point
    evaluations: int
    seconds: float
    stopped: Literal["budget spent", "interrupted"]

    def __len__(self) -> int:
        return len(self.points)


@dataclass(slots=True)
class _Archive:
    """Nondominated points evaluated so far, and the spent budget."""

    problems: tuple[Problem, ...]
    objectives: tuple[Objective, ...]
    budget: Budget
    listen: Listener | None
    points: FloatArray
    which: IntArray
    candidates: Candidates
    executor: Executor | None = None
    evaluations: int = 0
    started: float = field(default_factory=time.process_time)

    def spent(self, more: int = 0) -> float:
        """Return the spent share of the budget, and of so many more evaluations."""
        done = self.evaluations + more if self.budget.counted else time.process_time() - self.started
        return done / self.budget.amount

    def add(self, points: FloatArray, which: IntArray, candidates: Candidates) -> None:
        """Add candidates and keep the nondominated ones."""
        merged = np.concatenate([self.points, points])
        keep = np.flatnonzero(nondominated(merged))
        keep = keep[np.unique(merged[keep], axis=0, return_index=True)[1]]
        keep = keep[spread(comparable_points(self.objectives, merged[keep]), LONGEST)]
        self.points = merged[keep]
        self.which = np.concatenate([self.which, which])[keep]
        self.candidates = joined([self.candidates, candidates]).some(keep)

    def tell(self, stage: str, feasible_share: float) -> None:
        """Report progress."""
        if self.listen is not None:
            best = float(self.points[:, 0].min(initial=np.inf)) if self.objectives[0] == "condition" else np.inf
            self.listen(Progress(stage, self.evaluations, min(self.spent(), 1.0), best, feasible_share))


def front(
    problems: Sequence[Problem],
    objectives: Sequence[Objective],
    budget: Budget,
    *,
    seed: int = 0,
    listen: Listener | None = None,
    executor: Executor | None = None,
) -> Front:
    """Search the front of several objectives over problems that differ in their period.

    Searches of the condition alone, whose descents an executor's workers share, give the front its end of good
    condition, where "condition" is the problems' criterion; NSGA-II (up to two objectives) or NSGA-III spreads from
    there; at last points of the front are descended. A keyboard interrupt ends it with the front so far.
    """
    problems, objectives = tuple(problems), tuple(objectives)
    _check(problems, objectives)
    none, no_points = np.empty(0, dtype=np.int64), np.empty((0, len(objectives)))
    nothing = decode(problems[0], np.empty((0, problems[0].n_design)))
    archive = _Archive(problems, objectives, budget, listen, no_points, none, nothing, executor)
    stopped: Literal["budget spent", "interrupted"] = "budget spent"
    with one_blas_thread():
        try:
            extremes = _extremes(archive, seed)
            _genetic(archive, np.random.default_rng([seed, len(problems)]), extremes)
            _polish(archive)
        except KeyboardInterrupt:
            stopped = "interrupted"
    return _finished(archive, stopped)


def pick(found: Front, k: int | None = None) -> Run:
    """Return the k-th run of a front, or the chosen one."""
    if not len(found):
        raise ValueError("the front is empty: no feasible run was found; explain the problem, or give it more budget")
    k = found.chosen if k is None else k
    if not 0 <= k < len(found):
        raise ValueError(f"k is {k}, expected 0 to {len(found) - 1}: the front has {len(found)} runs")
    return run_of(found.problems[found.which[k]], Candidates(found.center, found.swing), k)


def measure(problem: Problem, objectives: Sequence[Objective], candidates: Candidates) -> tuple[FloatArray, FloatArray]:
    """Evaluate objectives (n, n_objectives) and constraints g ≤ 0 (n, n_constraints) of a population."""
    found = evaluate(problem, candidates)
    columns = []
    for objective in objectives:
        if objective == "condition":
            columns.append(found.value)
        elif objective == "duration":
            columns.append(np.full(len(found.value), problem.excitation.duration))
        elif objective == "torque":
            peaks = [k for k, name in enumerate(problem.names) if name.startswith("torque peak ")]
            columns.append(SEARCH.share * (found.g[:, peaks].max(axis=1) + 1.0))
        elif "tool speed" in problem.names:
            share = found.g[:, problem.names.index("tool speed")] + 1.0
            columns.append(SEARCH.share * problem.constraints.tool_speed * share)
        else:
            columns.append(population_tool_speeds(problem.robot, *motions(problem, candidates)[:2]))
    return np.stack(columns, axis=1), found.g


def _check(problems: tuple[Problem, ...], objectives: tuple[Objective, ...]) -> None:
    allowed = get_args(Objective)
    if not problems:
        raise ValueError("problems is empty, expected one for each period")
    if not objectives or len(set(objectives)) != len(objectives) or not set(objectives) <= set(allowed):
        raise ValueError(f"objectives are {objectives}, expected different ones of {', '.join(allowed)}")
    first = problems[0]
    for other in problems[1:]:
        if other.n_design != first.n_design or other.names != first.names:
            raise ValueError(
                "problems differ in more than their period; they need the same joints, harmonics and constraints"
            )
    if "torque" in objectives and not any(name.startswith("torque peak ") for name in first.names):
        raise ValueError("no joint has a torque limit, so torque has no share of it; leave the objective out")


def _extremes(archive: _Archive, seed: int) -> list[Candidates]:
    """Find the best condition of every problem: a short search each, then a longer one where it promises most."""
    n = len(archive.problems)
    if n == 1:
        return [_search(archive, 0, SCOUTING + SEARCHING, seed).candidates]
    found = [_search(archive, k, SCOUTING / n, seed + 1 + k) for k in range(n)]
    k = min(range(n), key=lambda k: (found[k].violation[0], found[k].value[0]))
    longer = _search(archive, k, SEARCHING, seed)
    if (longer.violation[0], longer.value[0]) < (found[k].violation[0], found[k].value[0]):
        found[k] = longer
    return [one.candidates for one in found]


def _search(archive: _Archive, k: int, share: float, seed: int) -> SearchResult:
    """Search one problem with a share of the budget."""
    problem, budget = archive.problems[k], archive.budget
    part = Budget(seconds=share * budget.amount)
    if budget.counted:
        part = Budget(evaluations=max(1, int(share * budget.amount)))
    begun = archive.spent()

    def listen(progress: Progress) -> None:
        if archive.listen is not None:
            stage = f"period {problem.excitation.period:g} s: {progress.stage}"
            archive.listen(replace(progress, stage=stage, share=min(begun + share * progress.share, 1.0)))

    own = time.process_time()
    found = solve(problem, part, seed=seed, listen=listen, executor=archive.executor)
    archive.started -= max(0.0, found.seconds - (time.process_time() - own))  # what workers took
    archive.evaluations += found.evaluations
    good = np.flatnonzero(found.violation <= 0.0)
    if good.size:
        candidates = found.candidates.some(good)
        archive.add(measure(problem, archive.objectives, candidates)[0], np.full(good.size, k), candidates)
    if found.stopped == "interrupted":
        raise KeyboardInterrupt
    return found


def _genetic(archive: _Archive, random: np.random.Generator, extremes: list[Candidates]) -> None:
    """Run pymoo's algorithm for many objectives until the budget is spent."""
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination

    problems = archive.problems
    n = problems[0].n_design + 1
    low, high = np.append(-np.ones(n - 1), 0.0), np.append(np.ones(n - 1), 1.0)
    shape = PymooProblem(n_var=n, n_obj=len(archive.objectives), n_ieq_constr=len(problems[0].names), xl=low, xu=high)
    algorithm = _algorithm(archive, _beginning(archive, random, extremes))
    algorithm.setup(shape, termination=NoTermination(), seed=int(random.integers(2**31)), verbose=False)
    while algorithm.has_next() and archive.spent() < 1.0 - POLISHING:
        offspring = algorithm.ask()
        with_values(offspring, _judge(archive, np.asarray(offspring.get("X"), dtype=float)))
        algorithm.evaluator.n_eval += len(offspring)
        algorithm.tell(infills=offspring)


def _polish(archive: _Archive) -> None:
    """Descend points spread over the front: the condition, at no more of the other objectives than they take."""
    if archive.objectives[0] != "condition":
        return
    points, which, best = archive.points, archive.which, archive.candidates
    for k in spread(comparable_points(archive.objectives, points), ELITES):
        if archive.spent() >= 1.0:
            break
        problem, objectives = archive.problems[which[k]], archive.objectives
        bounded = _bounded(problem, dict(zip(objectives, points[k].tolist(), strict=True)))
        x = encode(problem, best.some([k]))[0]
        for fidelity in (WHOLE, SHARP):
            objective, shift = bounded.objective(fidelity), np.zeros(len(bounded.names))
            x, _, n = descend(objective, x, fidelity, shift, lambda n, _: archive.spent(n * POINT_COST) >= 1.0)
            archive.evaluations += n * POINT_COST
        made, found = bounded.fitted(decode(bounded, x[None]), None)
        value, g = measure(problem, objectives, made)
        if (g <= 0.0).all() and np.isfinite(value).all() and found.violation[0] <= 0.0:
            archive.add(value, which[k : k + 1], made)
    archive.tell("polish", 1.0)


def _bounded(problem: Problem, point: dict[str, float]) -> Problem:
    """Limit torque and tool speed to what a point of the front takes of them."""
    constraints = problem.constraints
    if "torque" in point:
        torque = constraints.limits.torque * min(1.0, point["torque"] / SEARCH.share)
        constraints = replace(constraints, limits=replace(constraints.limits, torque=torque))
    if "tool speed" in point:
        constraints = replace(constraints, tool_speed=min(constraints.tool_speed, point["tool speed"] / SEARCH.share))
    names = tuple(row.name for item in constraints.searched(problem.robot) for row in item.rows(problem.robot))
    return replace(problem, constraints=constraints, names=names)


def _algorithm(archive: _Archive, sampling: FloatArray) -> Any:
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.algorithms.moo.nsga3 import NSGA3
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM
    from pymoo.util.ref_dirs import get_reference_directions

    common = {
        "pop_size": len(sampling),
        "sampling": sampling,
        "crossover": SBX(eta=10, prob=0.9),
        "mutation": PM(eta=15, prob_var=1.0 / 20.0),
        "eliminate_duplicates": False,
    }
    n_objectives = len(archive.objectives)
    if n_objectives <= 2:
        return NSGA2(**common)
    directions = get_reference_directions("das-dennis", n_objectives, n_partitions=_PARTITIONS[n_objectives])
    return NSGA3(ref_dirs=directions, **common)


def _beginning(archive: _Archive, random: np.random.Generator, extremes: list[Candidates]) -> FloatArray:
    """Begin with each period's best, the same swinging less, and random feasible motions."""
    problems = archive.problems
    each = POPULATION // len(problems)
    parts = []
    for k, (problem, best) in enumerate(zip(problems, extremes, strict=True)):
        best = best.some(slice(0, 1))
        smaller = [Candidates(best.center, share * best.swing) for share in (1.0, *_SHRUNK)][:each]
        drawn = feasible_start(problem, max(1, each - len(smaller)), random)
        X = np.concatenate([encode(problem, candidates) for candidates in (*smaller, drawn)])
        place = np.full((len(X), 1), (k + 0.5) / len(problems))
        parts.append(np.concatenate([np.clip(X, -1.0, 1.0), place], axis=1))
    return np.concatenate(parts)


def _judge(archive: _Archive, X: FloatArray) -> dict[str, FloatArray]:
    """Scale a population into the joints' limits, each at its period, evaluate it, and keep its best."""
    X = X.copy()
    F = np.empty((len(X), len(archive.objectives)))
    G = np.empty((len(X), len(archive.problems[0].names)))
    which = np.minimum((X[:, -1] * len(archive.problems)).astype(int), len(archive.problems) - 1)
    for k in np.unique(which).tolist():
        problem, rows = archive.problems[k], np.flatnonzero(which == k)
        candidates = decode(problem, X[rows, :-1])
        X[rows, :-1] = np.clip(encode(problem, candidates), -1.0, 1.0)
        F[rows], G[rows] = measure(problem, archive.objectives, candidates)
        good = np.flatnonzero((G[rows] <= 0.0).all(axis=1) & np.isfinite(F[rows]).all(axis=1))
        archive.add(F[rows][good], np.full(good.size, k), candidates.some(good))
    archive.evaluations += len(X)
    archive.tell("front", float((G <= 0.0).all(axis=1).mean()))
    return {"X": X, "F": comparable_points(archive.objectives, F), "G": G}


def _finished(archive: _Archive, stopped: Literal["budget spent", "interrupted"]) -> Front:
    order = np.argsort(archive.points[:, 0], kind="stable")
    order = order[np.isfinite(archive.points[order]).all(axis=1)]
    if "condition" in archive.objectives and order.size:
        condition = archive.points[:, archive.objectives.index("condition")]
        order = order[condition[order] <= USELESS * condition.min()]
    points = archive.points[order]
    return Front(
        problems=archive.problems,
        objectives=archive.objectives,
        units=tuple(_UNITS[objective] for objective in archive.objectives),
        points=points,
        which=archive.which[order],
        center=archive.candidates.center[order],
        swing=archive.candidates.swing[order],
        chosen=knee(archive.objectives, points),
        evaluations=archive.evaluations,
        seconds=time.process_time() - archive.started,
        stopped=stopped,
    )


def nondominated(points: FloatArray) -> BoolArray:
    """Mark nondominated points, (n,) bool: no other is as good in every objective and better in one."""
    if not len(points):
        return np.zeros(0, dtype=bool)
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
    better = (points[:, None, :] < points[None, :, :]).any(axis=2)
    return np.asarray(~(no_worse & better).any(axis=0))


def knee(objectives: Sequence[str], points: FloatArray) -> int:
    """Choose the point nearest to the best of everything, each objective by its range on the front; -1 of none.

    A condition ten times the best is as far off as the end of another objective's range.
    """
    if not len(points):
        return -1
    comparable = comparable_points(objectives, points)
    box = _unit_box(comparable)
    if "condition" in objectives:
        k = list(objectives).index("condition")
        box[:, k] = (comparable[:, k] - comparable[:, k].min()) / np.log(10.0)
    return int(np.argmin(np.linalg.norm(box, axis=1)))


def spread(points: FloatArray, most: int) -> IntArray:
    """Choose at most so many points, far from each other, the best of each objective among them."""
    if len(points) <= most:
        return np.arange(len(points))
    box = _unit_box(points)
    chosen = list(dict.fromkeys(np.argmin(box, axis=0).tolist()))
    away = np.min([np.linalg.norm(box - box[k], axis=1) for k in chosen], axis=0)
    while len(chosen) < most:
        k = int(np.argmax(away))
        chosen.append(k)
        away = np.minimum(away, np.linalg.norm(box - box[k], axis=1))
    return np.sort(np.array(chosen))


def comparable_points(objectives: Sequence[str], points: FloatArray) -> FloatArray:
    """Replace the condition number by its logarithm, so that bad values do not dominate its range."""
    points = points.copy()
    for k, objective in enumerate(objectives):
        if objective == "condition":
            points[:, k] = np.log(np.minimum(points[:, k], 1e12))
    return points


def _unit_box(points: FloatArray) -> FloatArray:
    span = np.ptp(points, axis=0)
    return np.asarray((points - points.min(axis=0)) / np.where(span > 0.0, span, 1.0))
