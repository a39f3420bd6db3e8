"""Memetic search for the best motion: a population of local optima, varied by pymoo, each child descended.

Ask, descend, tell: pymoo's genetic algorithm asks for children of a population (`variation`); each is descended by
quasi-Newton steps within its joints' limits (`descend`), first coarsely, and on only where that promises something; it
is judged with true signs on a fine grid; and told. The population keeps the best of each niche, modulo the
problem's symmetries. At the end the best members are descended on finer grids.

A stage is a pure function of the problem, the seed and what the stage before left. So a search can go on after any
stage, children can be descended in processes of their own, and neither changes what is found. This is the one file
that knows pymoo's single-objective algorithms.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from excitor.design.problem import Candidates, Evaluation, Fidelity, Genes, Objective, Problem, joined, limit_rows
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, one_blas_thread
from excitor.robots.errors import ExcitorError
from excitor.robots.executor import Executor, Job, Lost

if TYPE_CHECKING:
    from excitor.design.torque import Simulated, TorqueProblem

_HISTORY_ROWS = 120  # of a stage
VIOLATION_WEIGHT = 10.0  # of violated shares of limits against log of the criterion
_UNBOUNDED = 30.0  # stands for the logarithm of an infinite criterion


# What a search needs of a problem: names of its constraints, n_design variables each within about ±1, `genes`, `decode`
# and `encode`, the `objective` that a descent minimises, `evaluate`, the same problem on a `finer` grid for judgements,
# `point_cost`, `start` (a population, its evaluation, the cost of each) and `fitted` (changed to keep the constraints).
Searchable: TypeAlias = "Problem | TorqueProblem"


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """State of a search as arrays: finished stages, spent budget, population and history."""

    done: int  # stages finished
    evaluations: int
    seconds: float
    center: FloatArray  # (n_members, n_joints): the population, best first, then what waits aside
    swing: FloatArray
    value: FloatArray  # (n_members,), with true signs on a fine grid
    violation: FloatArray
    screened: FloatArray  # (n, n_gates): J of the latest children at each of GATES
    history: FloatArray  # (n_rows, 4): evaluations, best feasible value, feasible share, kind of stage
    aside: int = 0  # members, the last ones, that wait for the end of the islands

    @property
    def candidates(self) -> Candidates:
        """The population, and what waits aside."""
        return Candidates(self.center, self.swing)

    @property
    def best(self) -> float:
        """The best feasible value; inf where there is none."""
        return float(np.min(self.value[self.violation <= 0.0], initial=np.inf))


Keeper = Callable[[State], None]
Method = Literal["hybrid", "restarts"]  # evolution and descents, or descents of random motions, for comparison

STAGES = ("start", "evolution", "polish")
PER_SECOND = 6000  # evaluations of a free six-axis motion that a CPU second usually makes
_STAGE_SECONDS = 5.0  # of an evolution, between two checkpoints
_LONG = 30.0  # s: from here on there are islands, and the evolution of all together descends further
_ISLAND_SECONDS = 20.0  # of the budget, for each island
_APART = 0.6  # of the budget, for all islands
_MEMORY = 40  # children that a child's screening is compared with
_FEW = 6  # children, without which nothing is dropped
_DEAR = 10  # evaluations of a gradient
_GRADIENTS = 20  # fewer in the whole budget are worth nothing
_CHILDREN, _UNDESCENDED = 4, 20  # of a generation
_FINALISTS = 8
FAMILY = 12  # distinct motions that a search returns, if it has found as many
_USUAL = 0.6  # of all iterations of a descent: many are dropped, or converge before
_TOGETHER = 0.55  # of the last stage, for all finalists; the rest is for the best ones
_CURVATURE = 0.06  # times J has a curvature of about 1, from which SLSQP begins
_QUADRATIC = 130  # variables, up to which quadratic steps are worth their cost
_DRAWN = 24  # first candidates of a constrained problem
_HOPELESS = 2  # first descents without a feasible motion, after which it is asked why there is none

FIRST = Fidelity(0.5, 0.5, 8.0, 3.0, 100, 3e-5, 40)
SCREEN = Fidelity(0.5, 0.4, 24.0, 10.0, 60, 3e-5, 30)
WHOLE = Fidelity(1.0, 0.25, 100.0, 100.0, 120, 3e-6, 40)
CHILD = replace(WHOLE, quadratic=41)  # near its parents: it needs no other step, and is compared early
ALONE = tuple(replace(step, quadratic=n) for step, n in ((FIRST, 65), (SCREEN, 50), (WHOLE, 85)))  # has no children
GATES = (  # points, or the end of a descent, at which J is compared with that of the latest others
    *((FIRST, np.inf), (SCREEN, np.inf), (CHILD, 20)),
    *((ALONE[0], np.inf), (ALONE[1], np.inf)),
)
SHARP = Fidelity(1.0, 0.08, 150.0, 300.0, 100, 3e-6, 30)
FINE = Fidelity(2.0, 0.15, 200.0, 300.0, 120, 1e-7, 50)
LAST = tuple(Fidelity(4.0, width, 400.0, 3000.0, 150, 1e-8, 50) for width in (0.15, 0.1))


@dataclass(frozen=True, slots=True)
class Budget:
    """Budget of a search: evaluations (reproducible bit for bit) or seconds of CPU time."""

    evaluations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.evaluations is None) == (self.seconds is None):
            raise ValueError("a budget is evaluations or seconds, one of them")
        if self.evaluations is not None and self.evaluations < 1:
            raise ValueError(f"evaluations is {self.evaluations}, expected at least 1")
        if self.seconds is not None and not 0.0 < self.seconds < np.inf:
            raise ValueError(f"seconds is {self.seconds}, expected a positive time")

    @property
    def counted(self) -> bool:
        """True if evaluations are counted, not time."""
        return self.evaluations is not None

    @property
    def amount(self) -> float:
        """Evaluations or seconds."""
        return float(self.evaluations if self.evaluations is not None else self.seconds or 0.0)

    @property
    def size(self) -> float:
        """Seconds, or about those that the evaluations take."""
        return self.amount / PER_SECOND if self.counted else self.amount


@dataclass(frozen=True, eq=False, slots=True)
class SearchResult:
    """The end of a search: its population of distinct motions, best first, and how it went."""

    candidates: Candidates
    value: FloatArray
    violation: FloatArray
    evaluations: int
    seconds: float
    stopped: Literal["budget spent", "interrupted"]
    history: FloatArray

    @property
    def feasible(self) -> bool:
        """True if any candidate keeps all constraints."""
        return bool((self.violation <= 0.0).any())


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress report of a running search."""

    stage: str
    evaluations: int
    share: float  # of the whole budget
    best: float  # criterion of the best feasible candidate; inf before there is one
    feasible_share: float  # of the candidates judged last


Listener = Callable[[Progress], None]


@dataclass(frozen=True, eq=False, slots=True)
class Search:
    """Everything that decides what is found, whoever makes the descents and in how many parts."""

    problem: Searchable
    budget: Budget
    seed: int = 0
    method: Method = "hybrid"

    @property
    def islands(self) -> int:
        """Count the populations that evolve one after another from motions of their own, then together."""
        if self.blind or self.budget.size < _LONG:
            return 1
        return int(np.clip(round(self.budget.size / _ISLAND_SECONDS), 2, 6))

    def apart(self, stage: int) -> bool:
        """Return True if a stage belongs to one of several islands."""
        return stage < self.islands * self._each + self.islands and self.islands > 1

    @property
    def _each(self) -> int:
        """Count the stages of evolution of an island."""
        return max(1, round(_APART * self._evolutions / self.islands))

    @property
    def _evolutions(self) -> int:
        return int(np.clip(round(self.budget.size / _STAGE_SECONDS), 1, 24))

    def _size(self, stage: int) -> float:
        """Return the seconds, or about those, of the island of a stage, or of all."""
        return self.budget.size * (_APART / self.islands if self.apart(stage) else 1.0)

    def population(self, stage: int) -> int:
        """Count the members: more for a larger budget, fewer where constraints make a descent take longer."""
        usual = 12.0 if self.problem.names else 20.0
        return int(np.clip(round(usual * (self._size(stage) / 10.0) ** 0.4), 4, 40))

    @property
    def starts(self) -> int:
        """Count the random motions that a population begins with."""
        most = self.population(0)
        return most if self.problem.names else int(min(round(4.0 + self._size(0)), most))

    @property
    def stages(self) -> tuple[int, ...]:
        """List the kinds of stages, by their place in STAGES."""
        n, k = self._evolutions, self.islands
        if k == 1:
            return (0, *(1,) * n, 2)
        return (*(0, *(1,) * self._each) * k, *(1,) * max(1, n - k * self._each), 2)

    @property
    def blind(self) -> bool:
        """Return True where a gradient takes so many evaluations that only the best members are descended."""
        return self.problem.point_cost > _DEAR

    def until(self, stage: int) -> float:
        """Return the share of the budget that is spent at the end of a stage."""
        if self.blind:
            few = self.budget.counted and self.budget.amount < _GRADIENTS * self.problem.point_cost
            evolved = 1.0 if few else 0.5
            return float((0.25, *np.linspace(0.25, evolved, len(self.stages) - 1)[1:], 1.0)[stage])
        last = (0.12 if self.budget.size > 1.5 else 0.3) * (1.5 if self.problem.names else 1.0)
        last *= 10.0 / max(10.0, self.budget.size)
        first, each = 0.35 if self.budget.size > 1.5 and not self.problem.names else 0.6, self._each
        if self.apart(stage):
            island, k = divmod(stage, 1 + each)
            return float(_APART * (1.0 - last) * (island + first + (1.0 - first) * k / each) / self.islands)
        begun = 0 if self.islands == 1 else self.islands * (1 + each) - 1  # the last stage before all are together
        share = first if self.islands == 1 else _APART * (1.0 - last)
        n = len(self.stages) - 2 - begun
        return float((*np.linspace(share, 1.0 - last, n + 1), 1.0)[stage - begun])

    def sharpens(self, stage: int) -> bool:
        """Return True if a stage of evolution descends its children further: after the islands of a long search."""
        return self.islands > 1 and not self.apart(stage)


@dataclass(frozen=True, eq=False, slots=True)
class Observer:
    """Who hears of a search: `listen` of its progress, `keep` of its state after every stage."""

    listen: Listener | None = None
    keep: Keeper | None = None


def solve(
    problem: Searchable,
    budget: Budget,
    *,
    seed: int = 0,
    method: Method = "hybrid",
    listen: Listener | None = None,
    executor: Executor | None = None,
) -> SearchResult:
    """Search within a budget; see `run_search`."""
    return run_search(Search(problem, budget, seed, method), observer=Observer(listen), executor=executor)


def run_search(
    search: Search,
    state: State | None = None,
    *,
    observer: Observer | None = None,
    executor: Executor | None = None,
    until_stage: int | None = None,
) -> SearchResult:
    """Run a search, or go on with one from its `state`; with `until_stage`, to the end of that stage (1 is the first).

    An executor's workers descend the children of a generation: with counted evaluations they find the same, in less
    time. Seconds are CPU seconds of all; each worker then gets its next child when it is free, so that none waits for
    the slowest of a generation. A keyboard interrupt ends the search with what it has.
    """
    state, observer = state or empty_state(search.problem), observer or Observer()
    whole, last = True, len(search.stages) if until_stage is None else until_stage
    with one_blas_thread():
        crew = _Crew(search, executor)
        if not search.budget.counted and state.done < last:
            _warm_up(search)
        while whole and state.done < last:
            state, whole = advance(search, state, crew, observer.listen)
            if whole and observer.keep is not None:
                observer.keep(state)
    order = np.lexsort((state.value, state.violation))
    return SearchResult(
        state.candidates.some(order),
        state.value[order],
        state.violation[order],
        state.evaluations,
        state.seconds,
        "budget spent" if whole else "interrupted",
        state.history,
    )


def empty_state(problem: Searchable) -> State:
    """Begin a search."""
    nothing, none = problem.decode(np.empty((0, problem.n_design))), np.empty(0)
    empty = np.empty((0, len(GATES)))
    return State(0, 0, 0.0, nothing.center, nothing.swing, none, none, empty, np.empty((0, 4)))


def advance(
    search: Search, state: State, crew: "_Crew | None" = None, listen: Listener | None = None
) -> tuple[State, bool]:
    """Run the next stage; the flag is False if it was interrupted."""
    ledger = Ledger(search, state, crew or _Crew(search), listen)
    random = np.random.default_rng([search.seed, state.done])
    whole = True
    try:
        if ledger.left() > 0.0:
            (start, evolution, polishing)[search.stages[state.done]](ledger, random)
    except BudgetSpent:
        pass
    except KeyboardInterrupt:
        whole = False
    return ledger.closed(), whole


class BudgetSpent(Exception):
    """The stage's share of the budget ran out."""


@dataclass(frozen=True, eq=False, slots=True)
class Descent:
    """A child to be descended: from where, through which fidelities, and how far it may go."""

    x: FloatArray
    steps: tuple[Fidelity, ...]
    gates: tuple[float, ...] = (np.inf,) * len(GATES)  # J at each of GATES, above which the child is dropped
    anchor: FloatArray | None = None
    room: float = np.inf  # evaluations or seconds


@dataclass(frozen=True, eq=False, slots=True)
class Landing:
    """Where a descent ended: nothing where it was dropped."""

    screened: FloatArray  # J at each of GATES; NaN where it did not come to one
    evaluations: int
    seconds: float
    candidates: Candidates | None = None
    found: Evaluation | None = None


class _Descender:
    """Descends motions of one problem; what each fidelity needs is built once."""

    def __init__(self, problem: Searchable, counted: bool) -> None:
        self.problem, self.finer, self.counted = problem, problem.finer(), counted
        self.objectives: dict[Fidelity, Objective | Simulated] = {}

    def objective(self, fidelity: Fidelity) -> "Objective | Simulated":
        if fidelity not in self.objectives:
            self.objectives[fidelity] = self.problem.objective(fidelity)
        return self.objectives[fidelity]

    def run(self, task: Descent) -> Landing:
        """Descend through the steps while there is room, then fit into the limits and judge."""
        started, spent, x = time.process_time(), 0, task.x
        shift, screened = np.zeros(len(self.problem.names)), np.full(len(GATES), np.nan)
        for step, following in zip(task.steps, (*task.steps[1:], None), strict=False):
            objective = self.objective(step)

            def used(points: int, J: float, step: Fidelity = step, before: int = spent) -> bool:
                if self.counted:
                    cost = self.problem.point_cost
                    over = before + cost * (points + 1) + 1 > task.room  # 1 for the judgement
                else:
                    over = time.process_time() - started > task.room
                return over or _dropped(task, screened, step, points, J)

            if used(0, np.inf):
                break
            x, value, points = descend(objective, x, step, shift, used)
            spent += self.problem.point_cost * points
            if _dropped(task, screened, step, np.inf, value):
                return Landing(screened, spent, time.process_time() - started)
            if len(shift) and following is not None:  # the method of multipliers
                over = shift + self.finer.evaluate(self.problem.decode(x[None])).g[0]
                shift = np.maximum(0.0, over) * step.weight / following.weight
        if not spent:
            return Landing(screened, 0, time.process_time() - started)
        candidates, found = self.finer.fitted(self.problem.decode(x[None]), task.anchor)
        return Landing(screened, spent + 1, time.process_time() - started, candidates, found)


def _dropped(task: Descent, screened: FloatArray, step: Fidelity, points: float, J: float) -> bool:
    """Note J at the gates that a descent has come to; True if it ends at one."""
    for k, (fidelity, look) in enumerate(GATES):
        if fidelity == step and points >= look and np.isnan(screened[k]) and not (screened > task.gates).any():
            screened[k] = J
    return bool((screened > task.gates).any())


def descend(
    objective: "Objective | Simulated",
    x: FloatArray,
    step: Fidelity,
    shift: FloatArray,
    used: Callable[[int, float], bool],
) -> tuple[FloatArray, float, int]:
    """Minimise J from x, until `used(points, lowest J)` tells that the budget is: the best point, its J, all points.

    L-BFGS goes through the repair into the joints' limits, whose kinks stop it early. SLSQP has those that x nearly
    reaches as linear constraints; a step costs it more, the more variables there are. Other limits weigh on J in both.
    """
    import scipy.optimize

    best, lowest, points = x, np.inf, 0

    def value(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, lowest, points
        if points and used(points, lowest):
            raise BudgetSpent
        J, slope = objective(x, shift)
        points += 1
        if lowest > J:
            best, lowest = x.copy(), J
        return J, slope

    minimize: Any = scipy.optimize.minimize  # its stubs know no arrays of ours
    form = {"maxiter": step.iterations, "maxfun": 2 * step.iterations, "maxcor": 20, "ftol": step.tolerance}
    with suppress(BudgetSpent):
        if step.quadratic and isinstance(objective, Objective) and x.size <= _QUADRATIC:
            problem = objective.problem
            x = problem.encode(problem.decode(x[None]))[0]
            A = limit_rows(problem, x)
            inside = {"type": "ineq", "fun": lambda x: 1.0 - A @ x, "jac": lambda _: -A}
            form = {"maxiter": step.quadratic, "ftol": _CURVATURE * step.tolerance}
            flat = {"jac": True, "constraints": inside if len(A) else (), "options": form}
            minimize(lambda x: tuple(_CURVATURE * part for part in value(x)), x, method="SLSQP", **flat)
        else:
            minimize(value, x, jac=True, method="L-BFGS-B", options={**form, "gtol": 1e-6})
    return best, lowest, points


@dataclass(slots=True)
class Ledger:
    """Account of a stage: what was judged, the spent budget, and the end of its allowance."""

    search: Search
    before: State
    crew: "_Crew"
    listen: Listener | None = None
    evaluations: int = 0
    started: float = field(default_factory=time.process_time)
    made: list[tuple[Candidates, Evaluation]] = field(default_factory=list)
    screened: list[FloatArray] = field(default_factory=list)
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    best: float = np.inf

    def __post_init__(self) -> None:
        self.best, self.screened, self.crew.seconds = self.before.best, list(self.before.screened), 0.0
        if self.search.stages[self.before.done] == 0:  # its first descents are not to be compared with better ones
            self.screened = []

    @property
    def problem(self) -> Searchable:
        """The problem that is searched."""
        return self.search.problem

    def spent(self) -> float:
        """Return what the whole search has spent, in evaluations or s of CPU time."""
        if self.search.budget.counted:
            return self.before.evaluations + self.evaluations
        return self.before.seconds + self.seconds()

    def seconds(self) -> float:
        """Return the CPU time of the stage, s."""
        return time.process_time() - self.started + self.crew.seconds

    def left(self, share: float = 1.0) -> float:
        """Return what is left of the stage's allowance, or of a share of it."""
        end = self.search.until(self.before.done)
        begun = self.search.until(self.before.done - 1) if self.before.done else 0.0
        return self.search.budget.amount * (begun + share * (end - begun)) - self.spent()

    def record(self, candidates: Candidates, found: Evaluation, cost: int) -> None:
        """Count judged candidates, and keep them."""
        self.evaluations += cost
        self.made.append((candidates, found))
        feasible = found.violation <= 0.0
        self.best = min(self.best, float(np.min(found.value[feasible], initial=np.inf)))
        total, kind = self.before.evaluations + self.evaluations, self.search.stages[self.before.done]
        self.rows.append((float(total), self.best, float(feasible.mean()), float(kind)))
        if self.listen is not None:
            share = min(1.0, self.spent() / self.search.budget.amount)
            self.listen(Progress(STAGES[kind], total, share, self.best, float(feasible.mean())))

    def descended(
        self, X: Sequence[FloatArray], steps: tuple[Fidelity, ...], *, gated: bool = False, share: float = 1.0
    ) -> list[float]:
        """Descend a generation and judge it: the penalised objective of each, inf of those that were dropped."""
        room, count = self.left(share), len(X)
        if room < (1.0 + self.problem.point_cost * bool(steps) if self.search.budget.counted else 1e-9):
            raise BudgetSpent
        if not steps:
            return self._judged(X[: int(min(room, count))] if self.search.budget.counted else X, count)
        each = room / min(count, self.crew.workers)
        if self.search.budget.counted:
            usual = _USUAL * self.problem.point_cost * sum(step.iterations for step in steps)
            n = int(np.clip(room / max(1.0, usual), 1, len(X)))
            X, each = X[:n], room / n
        gates, anchor, merits = self._gates(gated), self._anchor(), []
        for landing in self.crew.run([Descent(x, steps, gates, anchor, each) for x in X]):
            merits.append(self._landed(landing))
            if not self.search.budget.counted and self.left() <= 0.0:
                raise BudgetSpent
        return merits + [np.inf] * (count - len(merits))

    def one_by_one(
        self, X: Iterable[FloatArray], steps: tuple[Fidelity, ...], *, gated: bool = False, share: float = 1.0
    ) -> None:
        """Descend motions, each with what was learned from those before, until a share of the allowance is spent."""
        if self.flows:
            for _ in self.flowing(X, steps, gated=gated, share=share):
                pass
            return
        for x in X:
            self.descended([x], steps, gated=gated)
            if self.left(share) <= 0.0:
                break

    @property
    def flows(self) -> bool:
        """True if nobody waits for a generation: where seconds are spent by workers."""
        return not self.search.budget.counted and self.crew.executor is not None

    def flowing(
        self, X: Iterable[FloatArray], steps: tuple[Fidelity, ...], *, gated: bool = False, share: float = 1.0
    ) -> Iterator[tuple[int, float]]:
        """Descend motions as workers are free, while there is room: the place and the penalised objective of each."""

        def tasks() -> Iterator[Descent]:
            for x in takewhile(lambda _: self.left(share) > 0.0, X):
                yield Descent(x, steps, self._gates(gated), self._anchor(), self.left() / self.crew.workers)

        for k, landing in self.crew.flow(tasks()):
            yield k, self._landed(landing)

    def _landed(self, landing: Landing) -> float:
        """Count a descent, and keep what it found: the penalised objective, inf where it was dropped."""
        self.screened.append(landing.screened)
        if landing.candidates is None or landing.found is None:
            self.evaluations += landing.evaluations
            return np.inf
        self.record(landing.candidates, landing.found, landing.evaluations)
        return float(merit(landing.found)[0])

    def _anchor(self) -> FloatArray | None:
        """Return the centre of the best feasible motion so far."""
        parts = [(self.before.value, self.before.violation, self.before.center)]
        parts += [(found.value, found.violation, candidates.center) for candidates, found in self.made]
        value, violation, center = (np.concatenate(column) for column in zip(*parts, strict=True))
        good = np.flatnonzero(violation <= 0.0)
        return np.asarray(center[good[np.argmin(value[good])]]) if good.size else None

    def _judged(self, X: Sequence[FloatArray], count: int) -> list[float]:
        """Judge a generation as it is, at once."""
        candidates, found = self.crew.own.finer.fitted(self.problem.decode(np.array(X)), None)
        self.record(candidates, found, len(X))
        return [*merit(found).tolist(), *[np.inf] * (count - len(X))]

    def _gates(self, gated: bool) -> tuple[float, ...]:
        return tuple(self._gate(k) if gated else np.inf for k in range(len(GATES)))

    def _gate(self, k: int) -> float:
        """Return the median J of the latest children that came to GATES[k]: the halving of a generation."""
        latest = [row[k] for row in self.screened if np.isfinite(row[k])][-_MEMORY:]
        return float(np.median(latest)) if len(latest) > _FEW else np.inf

    def members(self) -> State:
        """Return the population of the stage before with what was judged since, one of each niche, best first.

        At the beginning of another island the best of the one before go aside; after the last one all come together.
        """
        state, made, search, done = self.before, self.made, self.search, self.before.done
        if not len(state.value) + len(made):
            return state
        candidates = joined([state.candidates, *(one for one, _ in made)])
        value = np.concatenate([state.value, *(found.value for _, found in made)])
        violation = np.concatenate([state.violation, *(found.violation for _, found in made)])
        X, order, end = self.problem.encode(candidates), ranked(value, violation), len(state.value)
        own, waits, left = end - state.aside, np.zeros(len(value), dtype=bool), np.zeros(len(value), dtype=bool)
        if search.apart(done):
            waits[own:end] = True
            if search.stages[done] == 0:
                few = min(own, max(2, -(-search.population(done) // search.islands)))
                waits[:few], left[few:own] = True, True
        most = max(search.population(done), FAMILY)
        kept = distinct(self.crew.genes, X, order[~(waits | left)[order]], most)
        aside = order[waits[order]].tolist()
        best = candidates.some([*kept, *aside])
        return replace(
            state,
            center=best.center,
            swing=best.swing,
            value=value[[*kept, *aside]],
            violation=violation[[*kept, *aside]],
            aside=len(aside),
        )

    def closed(self) -> State:
        """Return the state after the stage."""
        rows = np.array(self.rows).reshape(-1, 4)
        if len(rows):
            rows = rows[np.unique(np.linspace(0, len(rows) - 1, _HISTORY_ROWS).round().astype(int))]
        return replace(
            self.members(),
            done=self.before.done + 1,
            evaluations=self.before.evaluations + self.evaluations,
            seconds=self.before.seconds + self.seconds(),
            screened=np.array(self.screened[-2 * _MEMORY :]).reshape(-1, len(GATES)),
            history=np.concatenate([self.before.history, rows]),
        )


def merit(found: Evaluation) -> FloatArray:
    """Penalised objective: the criterion's logarithm plus weighted violations, (n_candidates,)."""
    with np.errstate(divide="ignore"):
        size = np.minimum(np.log(found.value), _UNBOUNDED)
    return np.asarray(size + VIOLATION_WEIGHT * found.violation)


def ranked(value: FloatArray, violation: FloatArray) -> IntArray:
    """Order candidates: feasible ones by value, then the others by their penalised objective."""
    with np.errstate(divide="ignore"):
        size = np.minimum(np.log(value), _UNBOUNDED)
    return np.lexsort((size + VIOLATION_WEIGHT * violation, violation > 0.0))


def start(ledger: Ledger, random: np.random.Generator) -> None:
    """Draw motions, repaired into the limits, and descend the best of them."""
    search, problem, allowance = ledger.search, ledger.problem, ledger.left()
    few = 100 if search.blind else _DRAWN if problem.names else search.starts
    n = int(np.clip(allowance / 8, 1, few)) if search.budget.counted else few
    drawn, found, cost = problem.start(n, random, allowance if search.budget.counted else np.inf)
    ledger.record(drawn, ledger.crew.own.finer.evaluate(drawn), cost * len(found.value))
    X = problem.encode(drawn)[ranked(found.value, found.violation)]
    hopeful = takewhile(
        lambda _: len(ledger.screened) < _HOPELESS or np.isfinite(ledger.best), X[: search.starts * (not search.blind)]
    )
    ledger.one_by_one(hopeful, (FIRST, SCREEN, WHOLE), gated=True)


def evolution(ledger: Ledger, random: np.random.Generator) -> None:
    """Let pymoo vary the population, and descend its children, until the stage's allowance is spent."""
    search = ledger.search
    further = (SHARP,) if search.sharpens(ledger.before.done) else ()
    if further and not search.sharpens(ledger.before.done - 1):
        X = list(ledger.problem.encode(ledger.members().candidates))
        if ledger.flows:
            ledger.one_by_one(X, further)
        else:
            ledger.descended(X, further)
    if search.method == "restarts":
        while True:
            drawn, found, cost = ledger.problem.start(_CHILDREN, random, np.inf)
            ledger.evaluations += cost * len(found.value)
            ledger.descended(list(ledger.problem.encode(drawn)), (*ALONE, *further), gated=True)
    steps = (SCREEN, WHOLE, *further) if ledger.problem.names else (CHILD, *further)
    _evolve(ledger, random, () if search.blind else steps)


def _evolve(ledger: Ledger, random: np.random.Generator, steps: tuple[Fidelity, ...]) -> None:
    """Run pymoo's ask-and-tell loop."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination

    members, n = ledger.members(), ledger.problem.n_design
    size = ledger.search.population(ledger.before.done)
    most = min(size, len(members.value) - members.aside)
    first = Evaluation(members.value[:most], members.violation[:most, None])
    X = ledger.problem.encode(members.candidates.some(slice(0, most)))
    draws = 2 if ledger.search.blind else 1  # descents favour the best already; with both, all soon end in one region
    mating, survival = _operators(ledger.crew.genes, draws)
    algorithm: Any = GA(
        pop_size=size,
        n_offsprings=_UNDESCENDED if ledger.search.blind else _CHILDREN,
        sampling=with_values(Population.new("X", X), {"F": merit(first)[:, None]}),
        mating=mating,
        survival=survival,
        eliminate_duplicates=False,
    )
    shape = PymooProblem(n_var=n, n_obj=1, xl=-np.ones(n), xu=np.ones(n))
    algorithm.setup(shape, termination=NoTermination(), seed=int(random.integers(2**31)), verbose=False)
    algorithm.tell(infills=algorithm.ask())
    if ledger.flows and steps:
        _stream(ledger, algorithm, steps)
        return
    while True:
        children = algorithm.ask()
        n_before = len(ledger.made)
        merits = ledger.descended(list(np.asarray(children.get("X"), dtype=float)), steps, gated=True)
        landed = np.concatenate([ledger.problem.encode(made) for made, _ in ledger.made[n_before:]] or [X[:0]])
        for child, x in zip(children[np.isfinite(merits)], landed, strict=True):
            child.set("X", x)
        algorithm.tell(infills=with_values(children, {"F": np.array(merits)[:, None]}))


def _stream(ledger: Ledger, algorithm: Any, steps: tuple[Fidelity, ...]) -> None:
    """Run the loop without a barrier: children are told when they have landed, while others are descended."""
    from pymoo.core.population import Population

    sent: list[Any] = []
    landed: list[Any] = []

    def children() -> Iterator[FloatArray]:
        while True:
            if landed:
                algorithm.tell(infills=Population.create(*landed))
                landed.clear()
            for child in algorithm.ask():
                sent.append(child)
                yield np.asarray(child.X, dtype=float)

    for k, value in ledger.flowing(children(), steps, gated=True):
        if np.isfinite(value):
            sent[k].set("X", ledger.problem.encode(ledger.made[-1][0])[0])
        sent[k].set("F", np.array([value]))
        sent[k].evaluated.update(("F", "G", "H"))
        landed.append(sent[k])


def _operators(genes: Genes, draws: int) -> tuple[Any, Any]:
    """Build pymoo's mating and survival of motions; a parent is the best of so many members drawn."""
    from pymoo.core.infill import InfillCriterion
    from pymoo.core.population import Population
    from pymoo.core.survival import Survival

    class Mating(InfillCriterion):  # type: ignore[misc, unused-ignore]
        """Children of parents chosen by tournament: members come best first."""

        def _do(self, _: Any, members: Any, n: int, random_state: Any = None, **__: Any) -> Any:
            X = np.asarray(members.get("X"), dtype=float)
            made = []
            for _k in range(n):
                a, b = (int(min(random_state.integers(len(X), size=draws))) for _parent in range(2))
                if a == b and len(X) > 1:
                    b = int((a + random_state.integers(1, len(X))) % len(X))
                made.append(varied(genes, X[a], X[b] if a != b else None, random_state))
            return Population.new("X", np.array(made))

    class Niches(Survival):  # type: ignore[misc, unused-ignore]
        """The best of each niche."""

        def _do(self, _: Any, members: Any, *__: Any, n_survive: int, **___: Any) -> Any:
            F, X = members.get("F")[:, 0], np.asarray(members.get("X"), dtype=float)
            order = np.argsort(F, kind="stable")
            return members[distinct(genes, X, order[np.isfinite(F[order])], n_survive)]

    return Mating(), Niches(filter_infeasible=False)


def polishing(ledger: Ledger, random: np.random.Generator) -> None:
    """Descend the best members on finer grids, then the best of those on the finest, until the budget is spent."""
    members = ledger.members()
    X = ledger.problem.encode(members.candidates)
    most = 1 if ledger.search.blind else _FINALISTS
    if ledger.search.budget.counted:
        most = int(np.clip(ledger.left(_TOGETHER) / (FINE.iterations * ledger.problem.point_cost), 1, most))
        ledger.descended(list(X[:most]), (FINE,), share=_TOGETHER)
    else:
        ledger.one_by_one(X[:most], (FINE,), share=_TOGETHER)
    ledger.one_by_one(ledger.problem.encode(ledger.members().candidates), LAST)


def with_values(population: Any, found: Mapping[str, FloatArray]) -> Any:
    """Put values into a population, as evaluated."""
    for key, value in found.items():
        population.set(key, value)
    for individual in population:
        individual.evaluated.update(("F", "G", "H"))
    return population


def _warm_up(search: Search) -> None:
    """Compile and import what a search needs, so that a budget of seconds is spent on the search."""
    import scipy.optimize  # noqa: F401

    problem = search.problem
    start, _, _ = problem.start(1, np.random.default_rng(0), 1.0)
    problem.objective(SCREEN)(problem.encode(start)[0], np.ones(len(problem.names)))
    problem.fitted(start, None)


class _Crew:
    """Who descends: this process, or an executor's workers; the order of the landings is that of the tasks."""

    def __init__(self, search: Search, executor: Executor | None = None) -> None:
        self.own, self.job = _Descender(search.problem, search.budget.counted), Job(_descending, search)
        self.executor = executor if executor is not None and executor.away else None
        self.workers = 1 if self.executor is None else self.executor.count
        self.seconds = 0.0  # of CPU time that workers took in a stage

    @cached_property
    def genes(self) -> Genes:
        """The problem's genes, found once."""
        return self.own.problem.genes

    def run(self, tasks: list[Descent]) -> Iterator[Landing]:
        """Descend all tasks."""
        if self.executor is None or len(tasks) == 1:
            yield from map(self.own.run, tasks)
            return
        yield from map(self._counted, self.executor.ordered(self.job, tasks))

    def flow(self, tasks: Iterator[Descent]) -> Iterator[tuple[int, Landing]]:
        """Descend what `tasks` yields when a worker is free: the place and the landing of each, as they come."""
        assert self.executor is not None
        with closing(self.executor.run(self.job, tasks)) as done:
            for place, landing in done:
                yield place, self._counted(landing)

    def _counted(self, landing: Landing | Lost) -> Landing:
        if isinstance(landing, Lost):
            raise ExcitorError(
                f"a descent could not be made by a worker: {landing.reason}; finished stages are kept, and the "
                "same command goes on from there, with another number of workers too"
            )
        self.seconds += landing.seconds
        return landing


def _descending(search: Search) -> Callable[[Descent], Landing]:
    """Prepare a worker for the descents of a search."""
    descender = _Descender(search.problem, search.budget.counted)
    with one_blas_thread():
        _warm_up(search)

    def run(task: Descent) -> Landing:
        with one_blas_thread():
            return descender.run(task)

    return run


Operator = Callable[[Genes, FloatArray, FloatArray, np.random.Generator], FloatArray]

_PHASES = 48  # of a period, from the best of which an alignment is refined
_CROSSED = 0.6  # of all children


def distances(genes: Genes, x: FloatArray, others: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Measure how far x is from others (n, n_design), over all shifts and symmetries of x: distance, map, phase."""
    images = genes.signs * x + genes.offsets
    rest = (genes.wave < 0) | (not genes.sines.size)
    square = np.sum(((images[:, None] - others) * genes.weight)[:, :, rest] ** 2, axis=2)
    phase = np.zeros(square.shape)
    if genes.sines.size:
        ours, theirs, k = genes.phasors(images), genes.phasors(others), genes.harmonics
        product = np.einsum("nmh,vmh->vnh", np.conj(theirs), ours)
        grid = np.linspace(0.0, 2.0 * np.pi, _PHASES, endpoint=False)
        phase = grid[(product @ np.exp(1j * np.outer(k, grid))).real.argmax(axis=2)]
        turned = product * np.exp(1j * k * phase[:, :, None])
        bend = -(turned.real @ k**2)
        phase -= np.where(bend < 0.0, -(turned.imag @ k) / np.where(bend < 0.0, bend, 1.0), 0.0)  # Newton's step
        square += np.sum(np.abs(ours) ** 2, axis=(1, 2))[:, None] + np.sum(np.abs(theirs) ** 2, axis=(1, 2))
        square -= 2.0 * (product * np.exp(1j * k * phase[:, :, None])).real.sum(axis=2)
    image = square.argmin(axis=0)
    column = np.arange(len(others))
    return np.sqrt(np.maximum(square[image, column], 0.0)), image, phase[image, column]


def aligned(genes: Genes, x: FloatArray, other: FloatArray) -> FloatArray:
    """Return the image of x that is nearest to another motion."""
    _, (image,), (phase,) = distances(genes, x, other[None])
    moved = genes.signs[image] * x + genes.offsets[image]
    return genes.shifted(moved, phase) if genes.sines.size else moved


def distinct(genes: Genes, X: FloatArray, order: IntArray, most: int) -> list[int]:
    """Choose the first of each niche, in the given order (best first), at most so many."""
    kept: list[int] = []
    for k in order.tolist():
        if len(kept) == most:
            break
        if not kept or distances(genes, X[k], X[kept])[0].min() > genes.radius:
            kept.append(k)
    return kept


def varied(genes: Genes, a: FloatArray, b: FloatArray | None, random: np.random.Generator) -> FloatArray:
    """Make a child of a: with parts of b, aligned to it, or by a mutation."""
    if b is not None and random.random() < _CROSSED:
        return CROSSOVERS[random.integers(len(CROSSOVERS))](genes, a, aligned(genes, b, a), random)
    return MUTATIONS[random.integers(len(MUTATIONS))](genes, a, a, random)


def _some(random: np.random.Generator, n: int) -> BoolArray:
    """Draw about half of n, neither none nor all where n > 1."""
    chosen = random.random(n) < 0.5
    if chosen.all() or not chosen.any():
        chosen[random.integers(n)] ^= True
    return chosen


def _places(of: IntArray) -> tuple[IntArray, IntArray]:
    """Return the different numbers, and the place of each variable's among them."""
    found, place = np.unique(of, return_inverse=True)
    return found, place


def _joints(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take whole joints of b."""
    found, place = _places(genes.joint)
    return np.where(_some(random, found.size)[place], b, a)


def _block(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take the wrist of b: all joints from some joint on."""
    found, place = _places(genes.joint)
    return np.where(place >= random.integers(1, max(2, found.size)), b, a)


def _harmonics(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take whole harmonics of b."""
    chosen = np.append(_some(random, int(genes.wave.max()) + 1), False)
    return np.where(chosen[genes.wave], b, a)


def _cells(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Take single harmonics of single joints, and single centres, of b."""
    cell = (int(genes.wave.max()) + 2) * genes.joint + genes.wave
    found, place = _places(cell)
    return np.where((random.random(found.size) < 0.3)[place], b, a)


def _line(genes: Genes, a: FloatArray, b: FloatArray, random: np.random.Generator) -> FloatArray:
    """Blend the motions."""
    return np.asarray(a + random.uniform(0.25, 0.75) * (b - a))


def _swung(genes: Genes, random: np.random.Generator) -> BoolArray:
    """Mark the waves of one joint."""
    return np.asarray((genes.joint == random.choice(genes.joint[genes.wave >= 0])) & (genes.wave >= 0))


def _delay(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Shift one joint in time."""
    if not genes.sines.size:
        return _gauss(0.1)(genes, a, a, random)
    return np.where(_swung(genes, random), genes.shifted(a, random.uniform(0.3, 2.0 * np.pi - 0.3)), a)


def _flip(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Turn one joint's swing round."""
    return np.where(_swung(genes, random), -a, a)


def _swap(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Exchange two harmonics of one joint."""
    out, own, count = a.copy(), _swung(genes, random), int(genes.wave.max()) + 1
    if count > 1:
        i, k = random.choice(count, 2, replace=False)
        one, other = own & (genes.wave == i), own & (genes.wave == k)
        out[one], out[other] = a[other], a[one]
    return out


def _anew(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Draw one joint's swing anew."""
    return np.where(_swung(genes, random), random.uniform(-1.0, 1.0, a.size), a)


def _recentre(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
    """Move one centre that matters."""
    out, centres = a.copy(), np.flatnonzero((genes.wave < 0) & (genes.weight > 0.0))
    if centres.size:
        out[random.choice(centres)] = random.uniform(-0.7, 0.7)
    return out


def _gauss(size: float) -> Operator:
    def disturb(genes: Genes, a: FloatArray, _: FloatArray, random: np.random.Generator) -> FloatArray:
        return np.asarray(a + size * random.normal(size=a.size))

    return disturb


CROSSOVERS: tuple[Operator, ...] = (_joints, _block, _harmonics, _cells, _line)
MUTATIONS: tuple[Operator, ...] = (_delay, _flip, _swap, _anew, _recentre, _gauss(0.05), _gauss(0.1))
