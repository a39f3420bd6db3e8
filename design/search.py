"""Search for the best motion: genetic algorithm, then CMA-ES, then SLSQP, in chains that differ in their seed only.

A stage is a pure function of the problem, the seed, the chain and what the stage before left. So a search can go on
after any stage, chains can run in processes of their own, and neither changes what is found. This is the one file
that knows pymoo's single-objective algorithms.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal, Protocol

import numpy as np

from excitor.design.criteria import gradient
from excitor.design.problem import (
    Active,
    Candidates,
    Evaluation,
    Problem,
    active_set,
    active_slopes,
    active_values,
    by_design,
    coefficient_slope,
    coefficients,
    evaluate,
    motions,
)
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.errors import AssemblyError
from excitor.robots.robot import Motion

_HISTORY_ROWS = 120  # of a stage


class Searchable(Protocol):
    """What a search needs of a problem; joint motions (`Problem`) have slopes, too, which the last stage takes."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the constraints."""

    @property
    def n_design(self) -> int:
        """Count the design variables, each within ±1."""

    def decode(self, X: FloatArray) -> Candidates:
        """Turn design variables (n_candidates, n_design) into candidates."""

    def encode(self, candidates: Candidates) -> FloatArray:
        """Turn candidates into design variables."""

    def evaluate(self, candidates: Candidates) -> Evaluation:
        """Evaluate candidates as they are."""

    def start(self, n: int, random: np.random.Generator, allowance: float) -> tuple[Candidates, Evaluation, int]:
        """Draw at most n candidates, their evaluation, and how many evaluations each of them took."""

    def fitted(self, candidates: Candidates, anchor: FloatArray | None) -> tuple[Candidates, Evaluation]:
        """Change candidates to keep the constraints, towards an anchor where they are kept; evaluate them."""


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """State of a chain as arrays: finished stages, spent budget, finalists and history."""

    done: int  # stages finished
    evaluations: int
    seconds: float
    center: FloatArray  # (n_finalists, n_joints): the best of each finished stage
    swing: FloatArray
    value: FloatArray  # (n_finalists,), on the search's grid
    violation: FloatArray
    history: FloatArray  # (n_rows, 4): evaluations, best feasible value, feasible share, stage


Keeper = Callable[[int, State], None]


Method = Literal["hybrid", "ga", "plain-ga"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the stages."""

    shares: tuple[float, float, float]  # of a chain's budget
    plain: bool = False  # without repair
    sparing: bool = False  # start known, offspring as drawn, and no population that exceeds the allowance
    population: int = 200
    mutation: float = 1.0 / 20.0  # probability of a variable
    cma_population: int = 24
    cma_sigma: float = 0.1  # of the variables' box
    tolfun: float = 1e-5
    tolx: float = 1e-7


TUNING = {
    "hybrid": Tuning((0.10, 0.50, 0.40)),
    "ga": Tuning((1.0, 0.0, 0.0)),
    "plain-ga": Tuning((1.0, 0.0, 0.0), plain=True),
}
# Simulated candidates: a hundred cost about twice what one does, and how an arm swings depends sharply on its torques.
SIMULATED = Tuning((0.5, 0.5, 0.0), False, True, 100, 0.1, 32, 0.02, 1e-4, 1e-6)


@dataclass(frozen=True, slots=True)
class Budget:
    """Budget of a search: evaluations (reproducible bit for bit) or seconds of CPU time."""

    evaluations: int | None = None
    seconds: float | None = None
    chain: float | None = None  # of either, that a chain is given; more is shared by several

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
    def chains(self) -> int:
        """Count the chains that share it."""
        return max(1, round(self.amount / (self.chain or self._usual)))

    @property
    def _usual(self) -> float:
        return CHAIN_EVALUATIONS if self.counted else CHAIN_SECONDS

    def for_size(self, n_design: int) -> "Budget":
        """Scale a chain's budget to `n_design` design variables, unless it is stated."""
        more = max(1.0, n_design / USUAL_SIZE) ** 2
        return self if self.chain is not None else replace(self, chain=self._usual * more)


@dataclass(frozen=True, eq=False, slots=True)
class SearchResult:
    """The end of a search: its finalists, best first, and how it went."""

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
    chain: int
    chains: int
    evaluations: int  # of this chain
    share: float  # of the whole budget
    best: float  # criterion of the best feasible candidate; inf before there is one
    feasible_share: float  # of the last population


Listener = Callable[[Progress], None]


@dataclass(frozen=True, eq=False, slots=True)
class Search:
    """Everything that decides what is found, whoever runs the chains and in how many parts."""

    problem: Searchable
    budget: Budget
    seed: int = 0
    method: Method = "hybrid"  # of problems with slopes

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", self.budget.for_size(self.problem.n_design))

    @property
    def tuning(self) -> Tuning:
        """Settings of the stages."""
        return TUNING[self.method] if isinstance(self.problem, Problem) else SIMULATED


@dataclass(frozen=True, eq=False, slots=True)
class Observer:
    """Who hears of a search: `listen` of its progress, `keep` of a chain's state after every stage."""

    listen: Listener | None = None
    keep: Keeper | None = None


def solve(
    problem: Searchable,
    budget: Budget,
    *,
    seed: int = 0,
    method: Method = "hybrid",
    listen: Listener | None = None,
    workers: int = 1,
) -> SearchResult:
    """Search within a budget; see `run_search`."""
    return run_search(Search(problem, budget, seed, method), observer=Observer(listen), workers=workers)


def run_search(
    search: Search,
    states: Mapping[int, State] | None = None,
    *,
    observer: Observer | None = None,
    workers: int = 1,
    until_stage: int | None = None,
) -> SearchResult:
    """Run a search, or go on with one whose chains have `states`.

    With `until_stage`, only the first chain is run, and no further than to the end of that stage (1 is the first).
    Workers are processes: they share counted evaluations, and spend seconds each. A keyboard interrupt ends the
    search with what it has.
    """
    states, observer = dict(states or {}), observer or Observer()
    n_chains = search.budget.chains * (1 if search.budget.counted else workers) if until_stage is None else 1
    interrupted = False
    if workers > 1 and n_chains > 1:
        interrupted = run_chains(search, states, n_chains, workers, observer.keep)
    else:
        with one_blas_thread():
            for chain in range(n_chains):
                state = states.get(chain) or empty_state(search.problem)
                heard = replace(observer, listen=_with_best(observer.listen, _best(states.values())))
                states[chain], whole = run_chain(search, chain, state, heard, until_stage)
                if not whole:
                    interrupted = True
                    break
    return _collected(search.problem, [states[chain] for chain in sorted(states)], interrupted)


def _with_best(listen: Listener | None, best: float) -> Listener | None:
    """Let a listener to one chain hear of the best value of the chains before it, too."""
    return None if listen is None else lambda progress: listen(replace(progress, best=min(progress.best, best)))


def run_chain(
    search: Search, chain: int, state: State, observer: Observer, until_stage: int | None = None
) -> tuple[State, bool]:
    """Run a chain to its end, or to that of a stage; False tells that it was interrupted."""
    while state.done < (len(STAGES) if until_stage is None else until_stage):
        state, whole = advance(search, chain, state, observer.listen)
        if not whole:
            return state, False
        if observer.keep is not None:
            observer.keep(chain, state)
    return state, True


def advance(search: Search, chain: int, state: State, listen: Listener | None = None) -> tuple[State, bool]:
    """Run the next stage of a chain; the flag is False if it was interrupted."""
    stage = state.done
    allowance = _allowance(search.budget, search.tuning.shares, state)
    ledger = Ledger(search.problem, search.budget, stage, chain, allowance, state, listen, search.tuning)
    random = np.random.default_rng([search.seed, chain, stage])
    start = _leader(state)
    whole = True
    try:
        if ledger.allowance > 0.0:
            if stage == 0:
                genetic(ledger, random)
            elif start is not None:
                (evolution if stage == 1 else polishing)(ledger, random, start)
    except BudgetSpent:
        pass
    except KeyboardInterrupt:
        whole = False
    return _after(state, ledger), whole


def _allowance(budget: Budget, shares: Sequence[float], state: State) -> float:
    """Divide a chain's budget among its stages; unused budget goes to later stages."""
    if shares[state.done] == 0.0:
        return 0.0
    spent = state.evaluations if budget.counted else state.seconds
    return float(budget.amount / budget.chains * sum(shares[: state.done + 1]) - spent)


def _leader(state: State) -> Candidates | None:
    """Start of a chain's next stage: the finalist of least log value plus weighted violation; None without any."""
    if not len(state.value):
        return None
    with np.errstate(divide="ignore"):
        k = int(np.argmin(np.log(state.value) + VIOLATION_WEIGHT * state.violation))
    return Candidates(state.center[k : k + 1], state.swing[k : k + 1])


@dataclass(slots=True)
class Ledger:
    """Account of a stage: spent budget, best candidates, and the end of its allowance."""

    problem: Searchable
    budget: Budget
    stage: int
    chain: int
    allowance: float  # of this stage, in evaluations or seconds
    before: State
    listen: Listener | None
    tuning: Tuning = TUNING["hybrid"]
    anchor: FloatArray | None = None  # a pose about which small motions keep all constraints
    evaluations: int = 0
    started: float = field(default_factory=time.process_time)
    best: Candidates | None = None
    value: float = float("inf")
    violation: float = float("inf")
    leader: Candidates | None = None  # least of value and penalty together, feasible or not
    merit: float = float("inf")
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)

    def spent(self) -> float:
        """Return the spent part of the allowance, in evaluations or s of CPU time."""
        if self.budget.counted:
            return self.evaluations
        return time.process_time() - self.started

    def check(self, n: int = 0) -> None:
        """Raise BudgetSpent when the stage's allowance is gone, or too small for n candidates."""
        if self.spent() >= self.allowance or (self.budget.counted and self.spent() + n > self.allowance):
            raise BudgetSpent

    def record(self, candidates: Candidates, found: Evaluation, cost: int = 1) -> None:
        """Count a population and keep its best."""
        self.evaluations += cost * len(found.value)
        violation = found.violation
        feasible = violation <= 0.0
        order = np.lexsort((found.value, np.where(feasible, 0.0, violation)))
        k = int(order[0])
        mine = (max(violation[k], 0.0), found.value[k])
        if mine < (self.violation, self.value):
            self.violation, self.value = float(mine[0]), float(mine[1])
            self.best = _one(candidates, k)
        merits = merit(found)
        first = int(np.argmin(merits))
        if merits[first] < self.merit:
            self.merit, self.leader = float(merits[first]), _one(candidates, first)
        total = self.before.evaluations + self.evaluations
        best = self.value if self.violation <= 0.0 else float("inf")
        self.rows.append((float(total), best, float(feasible.mean()), float(self.stage)))
        if self.listen is not None:
            self.listen(self._progress(total, best, float(feasible.mean())))

    def _progress(self, total: int, best: float, feasible_share: float) -> Progress:
        done = total if self.budget.counted else self.before.seconds + self.spent()
        before = float(np.min(self.before.value[self.before.violation <= 0.0], initial=np.inf))
        return Progress(
            STAGES[self.stage],
            self.chain,
            self.budget.chains,
            total,
            min((self.chain + done / (self.budget.amount / self.budget.chains)) / self.budget.chains, 1.0),
            min(best, before),
            feasible_share,
        )


def _after(state: State, ledger: Ledger) -> State:
    rows = np.array(ledger.rows).reshape(-1, 4)
    if len(rows):
        rows[:, 1] = np.minimum(np.minimum.accumulate(rows[:, 1]), _best([state]))
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, _HISTORY_ROWS).round().astype(int))]
    changed = replace(
        state,
        done=state.done + 1,
        evaluations=state.evaluations + ledger.evaluations,
        seconds=state.seconds + time.process_time() - ledger.started,
        history=np.concatenate([state.history, rows]),
    )
    finalists = [c for c in (ledger.best, ledger.leader) if c is not None]
    if not finalists:
        return changed
    center = np.concatenate([c.center for c in finalists])
    swing = np.concatenate([c.swing for c in finalists])
    found = ledger.problem.evaluate(Candidates(center, swing))
    return replace(
        changed,
        center=np.concatenate([state.center, center]),
        swing=np.concatenate([state.swing, swing]),
        value=np.append(state.value, found.value),
        violation=np.append(state.violation, found.violation),
    )


def _best(states: Iterable[State]) -> float:
    """Find the best feasible value of chains; inf where there is none."""
    return float(min((np.min(state.value[state.violation <= 0.0], initial=np.inf) for state in states), default=np.inf))


def _collected(problem: Searchable, states: list[State], interrupted: bool) -> SearchResult:
    """Join chains, in their order: finalists, best first, and one history."""
    stopped: Literal["budget spent", "interrupted"] = "interrupted" if interrupted else "budget spent"
    if not states:
        states = [empty_state(problem)]
    value = np.concatenate([state.value for state in states])
    violation = np.concatenate([state.violation for state in states])
    order = np.lexsort((value, violation))
    center = np.concatenate([state.center for state in states])[order]
    swing = np.concatenate([state.swing for state in states])[order]
    evaluations, best, history = 0, np.inf, []
    for state in states:
        rows = state.history.copy()
        rows[:, 0] += evaluations
        rows[:, 1] = np.minimum(rows[:, 1], best)
        history.append(rows)
        evaluations += state.evaluations
        best = min(best, _best([state]))
    return SearchResult(
        Candidates(center, swing),
        value[order],
        violation[order],
        evaluations,
        sum(state.seconds for state in states),
        stopped,
        np.concatenate(history),
    )


POINT_COST = 3  # evaluations that a point of SLSQP takes, its share of the gradients included
VIOLATION_WEIGHT = 10.0  # of violated shares of limits against log of the criterion
_UNBOUNDED = 30.0  # stands for the logarithm of an infinite criterion
_HOP = 0.03  # of the variables' box: how far from the best SLSQP starts again
_ROAMING = 300  # iterations
_LOOK = 4  # points of roaming, one of which is fitted into the limits and scored
_HARDEST = 400.0  # softness at which the smooth criterion is the true one, but for rounding


def merit(found: Evaluation) -> FloatArray:
    """Penalised objective: the criterion's logarithm plus weighted violations, (n_candidates,)."""
    with np.errstate(divide="ignore"):
        size = np.minimum(np.log(found.value), _UNBOUNDED)
    return np.asarray(size + VIOLATION_WEIGHT * found.violation)


def genetic(ledger: Ledger, random: np.random.Generator) -> None:
    """Run pymoo's genetic algorithm from a feasible start."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.population import Population
    from pymoo.core.repair import Repair
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM

    problem, tuning = ledger.problem, ledger.tuning
    if tuning.plain:
        _run(ledger, GA(pop_size=100), random, _plain)
        return

    class Scale(Repair):  # type: ignore[misc, unused-ignore]
        """Scale offspring into the joints' limits."""

        def _do(self, _: Any, X: FloatArray, **__: Any) -> FloatArray:
            return np.clip(problem.encode(problem.decode(X)), -1.0, 1.0)  # the cell's limits are not scaled into

    start, first, cost = problem.start(tuning.population, random, ledger.allowance if ledger.budget.counted else np.inf)
    ledger.record(start, first, cost)
    if (first.violation <= 0.0).any():
        ledger.anchor = start.center[int(np.lexsort((first.value, first.violation))[0])]
    if len(start.center) < 4:  # parents of different offspring
        return
    X: Any = np.clip(problem.encode(start), -1.0, 1.0)
    if tuning.sparing:
        X = with_values(Population.new("X", X), {"F": first.value[:, None], "G": first.g})
    ga = GA(
        pop_size=len(X),
        sampling=X,
        crossover=SBX(eta=5, prob=0.9),
        mutation=PM(eta=10, prob_var=tuning.mutation),
        repair=None if tuning.sparing else Scale(),
        eliminate_duplicates=False,
    )
    _run(ledger, ga, random, _repaired)


def evolution(ledger: Ledger, random: np.random.Generator, start: Candidates) -> None:
    """Run CMA-ES from the best so far; when it has converged, again and wider."""
    from pymoo.algorithms.soo.nonconvex.cmaes import CMAES

    tuning = ledger.tuning
    sigma, ledger.anchor = tuning.cma_sigma, start.center[0]
    while True:
        x0 = np.clip(ledger.problem.encode(start)[0], -1.0, 1.0)
        form = {"pop_size": tuning.cma_population, "tolfun": tuning.tolfun, "tolx": tuning.tolx}
        _run(ledger, CMAES(x0=x0, sigma=sigma, restarts=0, **form), random, _penalised)
        ledger.check()
        start, sigma = ledger.leader or start, min(2.0 * sigma, 0.4)


def polishing(ledger: Ledger, random: np.random.Generator, start: Candidates) -> None:
    """Run SLSQP in trust regions from the best so far; when it has converged, from places near it."""
    problem = ledger.problem
    ledger.anchor = start.center[0]
    x, hop = problem.encode(start)[0], _HOP
    _roam(ledger, x)
    x = problem.encode(ledger.leader or start)[0]
    while True:
        _descend(ledger, x)
        best = problem.encode(ledger.leader or start)[0]
        x = best + hop * random.normal(size=best.size)
        hop = min(1.3 * hop, 0.2)


def _with_slopes(ledger: Ledger) -> Problem:
    assert isinstance(ledger.problem, Problem)  # the others have no share of their budget here
    return ledger.problem


def _roam(ledger: Ledger, x: FloatArray) -> None:
    """Minimise the smooth criterion, through infeasible points if need be; score a point now and then."""
    points = count(1)

    def spend(x: FloatArray) -> None:
        ledger.evaluations += POINT_COST
        if next(points) % _LOOK == 0:
            _score(ledger, x)
        ledger.check()

    for softness in (32.0, 200.0):
        x = polish(_with_slopes(ledger), x, softness=softness, reach=None, spend=spend, iterations=_ROAMING)
        _score(ledger, x)


def _descend(ledger: Ledger, x: FloatArray) -> None:
    """Descend in trust regions, within which the constraints active near the last point are sufficient."""
    problem, reach, softness = _with_slopes(ledger), 0.1, 16.0

    def spend(_: FloatArray) -> None:
        ledger.evaluations += POINT_COST
        ledger.check()

    here = _score(ledger, x)
    while softness <= _HARDEST:
        trial = polish(problem, x, softness=softness, reach=reach, spend=spend)
        there = _score(ledger, trial)
        if there < here - 1e-5:
            softness *= 2.0 if here - there < 2e-3 else 1.0
            x, here, reach = trial, there, min(1.6 * reach, 0.3)
        else:
            reach *= 0.35
        if reach < 1e-3:
            softness, reach = 4.0 * softness, 0.03


def _score(ledger: Ledger, x: FloatArray) -> float:
    """Repair a point into all limits, record its evaluation, and return its penalised objective."""
    candidates, found = ledger.problem.fitted(ledger.problem.decode(x[None]), ledger.anchor)
    ledger.record(candidates, found)
    ledger.check()
    return float(merit(found)[0])


def _run(
    ledger: Ledger,
    algorithm: Any,
    random: np.random.Generator,
    judge: Callable[[Ledger, FloatArray], dict[str, FloatArray]],
) -> None:
    """Run a pymoo algorithm's ask-and-tell loop, evaluating its populations while the allowance lasts."""
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination

    n = ledger.problem.n_design
    n_limits = 0 if judge is _penalised else len(ledger.problem.names)
    n_limits += 4 * int(_with_slopes(ledger).excitation.moving.sum()) if judge is _plain else 0
    shape = PymooProblem(n_var=n, n_obj=1, n_ieq_constr=n_limits, xl=-np.ones(n), xu=np.ones(n))
    algorithm.setup(shape, termination=NoTermination(), seed=int(random.integers(2**31)), verbose=False)
    while algorithm.has_next():
        offspring = algorithm.ask()
        if not all("F" in individual.evaluated for individual in offspring):
            if ledger.tuning.sparing:
                ledger.check(len(offspring))
            with_values(offspring, judge(ledger, np.asarray(offspring.get("X"), dtype=float)))
        algorithm.evaluator.n_eval += len(offspring)
        algorithm.tell(infills=offspring)
        if ledger.spent() >= ledger.allowance:
            break


def with_values(population: Any, found: Mapping[str, FloatArray]) -> Any:
    """Put values into a population, as evaluated."""
    for key, value in found.items():
        population.set(key, value)
    for individual in population:
        individual.evaluated.update(("F", "G", "H"))
    return population


def _repaired(ledger: Ledger, X: FloatArray) -> dict[str, FloatArray]:
    found = _fitted(ledger, X)
    return {"F": found.value[:, None], "G": found.g}


def _penalised(ledger: Ledger, X: FloatArray) -> dict[str, FloatArray]:
    return {"F": merit(_fitted(ledger, X))[:, None], "G": np.empty((len(X), 0))}


def _fitted(ledger: Ledger, X: FloatArray) -> Evaluation:
    candidates, found = ledger.problem.fitted(ledger.problem.decode(X), ledger.anchor)
    ledger.record(candidates, found)
    return found


def _plain(ledger: Ledger, X: FloatArray) -> dict[str, FloatArray]:
    """Judge without repair: joint limits are constraints like all others."""
    problem = _with_slopes(ledger)
    candidates = coefficients(problem, X)
    found = evaluate(problem, candidates)
    found = Evaluation(found.value, np.concatenate([found.g, joint_excess(problem, candidates)], axis=1))
    ledger.record(candidates, found)
    return {"F": found.value[:, None], "G": found.g}


def _one(candidates: Candidates, k: int) -> Candidates:
    return Candidates(candidates.center[k : k + 1].copy(), candidates.swing[k : k + 1].copy())


def joint_excess(problem: Problem, candidates: Candidates) -> FloatArray:
    """Measure joint limits as constraints: highest and lowest position, velocity, acceleration of each moving joint."""
    moving = problem.excitation.moving
    q, dq, ddq = motions(problem, candidates)
    half = 0.5 * np.ptp(problem.position, axis=1)
    parts = [
        (q.max(axis=2) - problem.position[:, 1]) / half,
        (problem.position[:, 0] - q.min(axis=2)) / half,
        np.abs(dq).max(axis=2) / problem.rates[0] - 1.0,
        np.abs(ddq).max(axis=2) / problem.rates[1] - 1.0,
    ]
    return np.concatenate([part[:, moving] for part in parts], axis=1)


STAGES = ("ga", "cma-es", "slsqp")
CHAIN_EVALUATIONS = 40_000
CHAIN_SECONDS = 5.0
USUAL_SIZE = 70  # design variables that such a chain is enough for


def empty_state(problem: Searchable) -> State:
    """Begin a chain."""
    nothing, none = problem.decode(np.empty((0, problem.n_design))), np.empty(0)
    return State(0, 0, 0.0, nothing.center, nothing.swing, none, none, np.empty((0, 4)))


_search: list[Search] = []  # of a worker process, sent once


def run_chains(
    search: Search, states: dict[int, State], n_chains: int, workers: int, keep: Keeper | None = None
) -> bool:
    """Run all chains that are not finished, filling `states`; return True if they were interrupted."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of compiled code
    pool = ProcessPoolExecutor(min(workers, n_chains), context, _receive, (search,))
    open_: dict[Future[State], int] = {}
    try:
        for chain in range(n_chains):
            state = states.get(chain)
            if state is None or state.done < len(STAGES):
                open_[pool.submit(_run_in_worker, chain, state)] = chain
        while open_:
            finished, _ = wait(open_, return_when=FIRST_COMPLETED)
            for future in finished:
                chain = open_.pop(future)
                states[chain] = future.result()
                if keep is not None:
                    keep(chain, states[chain])
    except KeyboardInterrupt:
        for child in multiprocessing.active_children():
            child.terminate()  # what they had not finished is lost
        return True
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return False


def _receive(search: Search) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is asked to stop, and ends its children
    _search[:] = [search]


def _run_in_worker(chain: int, state: State | None) -> State:
    search = _search[0]
    with one_blas_thread():
        return run_chain(search, chain, state or empty_state(search.problem), Observer())[0]


RESERVE = 2e-4  # of each limit: SLSQP ends on a constraint's edge, or a little beyond
_SINGULAR = 50.0  # stands for the logarithm of an infinite criterion


class BudgetSpent(Exception):
    """The search's budget ran out inside a stage."""


def polish(
    problem: Problem,
    x: FloatArray,
    *,
    softness: float,
    reach: float | None,
    spend: Callable[[FloatArray], None],
    iterations: int = 30,
) -> FloatArray:
    """Improve one design from x by sequential quadratic programming on the constraints near x; returns the last x.

    No variable moves further than `reach`, because constraints that are far from their limits are not evaluated.
    With reach = None every variable is free, and each limit is evaluated at its worst sample of the time: less
    reliable steps, which leave local minima that the other does not.
    `spend` is called with every point that is evaluated, and raises BudgetSpent to end the iteration.
    """
    import scipy.optimize

    minimize: Any = scipy.optimize.minimize  # its stubs know no arrays of ours
    try:
        chosen = active_set(problem, x)
    except AssemblyError:  # a leap led out of a closed chain's workspace
        return x

    def active(x: FloatArray) -> Active:
        return active_set(problem, x, near=-np.inf, most=1) if reach is None else chosen

    def value(x: FloatArray) -> float:
        spend(x)
        return objective(problem, x, softness)

    try:
        found = minimize(
            value,
            x,
            jac=lambda x: objective_slope(problem, x, softness)[1],
            method="SLSQP",
            bounds=None if reach is None else np.stack([x - reach, x + reach], axis=1),
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda x: -active_values(problem, active(x), x) - RESERVE,
                    "jac": lambda x: -active_slopes(problem, active(x), x),
                }
            ],
            options={"maxiter": iterations, "ftol": 1e-7},
        )
    except AssemblyError:  # it stepped out of a closed chain's workspace; the best so far is known
        return x
    return np.asarray(found.x)


def objective(problem: Problem, x: FloatArray, softness: float) -> float:
    """Evaluate the logarithm of the (softened) criterion."""
    candidate = coefficients(problem, x[None])
    G = problem.earlier + problem.share * problem.model.grams(*motions(problem, candidate), problem.n_period)[0]
    return min(gradient(problem.criterion, G, softness)[0], _SINGULAR)


def objective_slope(problem: Problem, x: FloatArray, softness: float) -> tuple[float, FloatArray]:
    """Evaluate the logarithm of the (softened) criterion and its gradient by design variables."""
    candidate = coefficients(problem, x[None])
    n = problem.n_period
    q, dq, ddq = (x[:, :, :n] for x in motions(problem, candidate))
    G = problem.earlier + problem.share * problem.model.grams(q, dq, ddq, n)[0]
    value, bar = gradient(problem.criterion, G, softness)
    if not np.isfinite(value):
        return _SINGULAR, np.zeros_like(x)
    bars = problem.model.gradient(Motion(q[0].T, dq[0].T, ddq[0].T), problem.share * bar)
    return value, by_design(problem, coefficient_slope(problem, bars)[None])[0]
