"""Search for torques: a genetic algorithm from repaired starts, then CMA-ES, both pymoo's, each candidate simulated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from excitor.design.budget import STAGES, Listener, Progress
from excitor.design.torque_mode import TorqueProblem, TorqueTrajectory, decode, evaluate, repair
from excitor.robots.arrays import FloatArray, freeze, one_blas_thread

POPULATION = 100  # simulating a hundred costs about twice what one does
CMA_POPULATION = 32
GENETIC_SHARE = 0.5  # of the budget, repair included
CMA_SIGMA = 0.02  # of the variables' box: how an arm swings depends sharply on its torques
VIOLATION_WEIGHT = 10.0  # of violated shares of limits against log of the condition number
_GENETIC, _EVOLUTION = STAGES.index("ga"), STAGES.index("cma-es")
_UNBOUNDED = 30.0  # stands for the logarithm of an infinite condition number


@dataclass(frozen=True, eq=False, slots=True)
class FoundTorques:
    """The end of a search."""

    trajectory: TorqueTrajectory
    condition: float  # on the search's grid, of column-normalised columns
    g: FloatArray  # (n_names,): constraints of the best, feasible where all g ≤ 0
    evaluations: int
    history: FloatArray  # (n_rows, 4): evaluations, best feasible condition, feasible share of that population, stage
    stopped: Literal["budget spent", "interrupted"] = "budget spent"

    def __post_init__(self) -> None:
        freeze(self, g="n_names")
        freeze(self, finite=False, history="n_rows 4")

    @property
    def feasible(self) -> bool:
        """Tell whether the best keeps every limit."""
        return bool((self.g <= 0.0).all())


@dataclass(slots=True)
class _Ledger:
    """Counts candidates, remembers the best."""

    problem: TorqueProblem
    left: int
    listen: Listener | None = None
    stage: int = _GENETIC
    evaluations: int = 0
    x: FloatArray = field(default_factory=lambda: np.empty(0))
    best: tuple[float, float] = (np.inf, np.inf)  # violation, condition
    g: FloatArray = field(default_factory=lambda: np.empty(0))
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)

    def record(self, X: FloatArray, F: FloatArray, G: FloatArray, cost: int) -> None:
        """Count a population and keep its best."""
        self.left -= cost
        self.evaluations += cost
        violation = np.maximum(G, 0.0).sum(axis=1)
        k = int(np.lexsort((F, violation))[0])
        if not len(self.x) or (violation[k], F[k]) < self.best:
            self.best, self.x, self.g = (float(violation[k]), float(F[k])), X[k].copy(), G[k].copy()
        best = self.best[1] if self.best[0] <= 0.0 else np.inf
        share = float((violation <= 0.0).mean())
        self.rows.append((float(self.evaluations), best, share, float(self.stage)))
        if self.listen is not None:
            spent = self.evaluations / max(1, self.evaluations + self.left)
            self.listen(Progress(STAGES[self.stage], 0, 1, self.evaluations, spent, best, share))


def search_torques(
    problem: TorqueProblem, *, evaluations: int, seed: int = 0, listen: Listener | None = None
) -> FoundTorques:
    """Search with a budget of simulated candidates; the same seed and budget give the same result, bit for bit.

    Check `feasible` of what comes back: where no candidate keeps every limit, it is the one that breaks them least.
    Ctrl-C ends the search with the best so far.
    """
    if evaluations < 1:
        raise ValueError(f"evaluations is {evaluations}, expected at least 1")
    ledger = _Ledger(problem, evaluations, listen)
    random = np.random.default_rng(seed)
    stopped: Literal["budget spent", "interrupted"] = "budget spent"
    try:
        with one_blas_thread():
            start = _start(ledger, random, int(GENETIC_SHARE * evaluations))
            _genetic(ledger, random, start, keep=evaluations - int(GENETIC_SHARE * evaluations))
            _evolution(ledger, random)
    except KeyboardInterrupt:
        if not len(ledger.x):
            raise
        stopped = "interrupted"
    history = np.array(ledger.rows)
    best = decode(problem, ledger.x[None])[0]
    return FoundTorques(best, ledger.best[1], ledger.g, ledger.evaluations, history, stopped)


def _start(ledger: _Ledger, random: np.random.Generator, allowance: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw candidates and shrink them into the limits, on at most half of the allowance."""
    n = max(1, min(POPULATION, ledger.left, allowance // 12))
    X: FloatArray = random.uniform(-1.0, 1.0, size=(n, ledger.problem.n_design))
    rounds = max(0, min(12, allowance // (2 * n) - 1))
    X, F, G = repair(ledger.problem, X, rounds=rounds)
    ledger.record(X, F, G, min(n * (1 + rounds), ledger.left))
    return X, F, G


def _genetic(
    ledger: _Ledger, random: np.random.Generator, start: tuple[FloatArray, FloatArray, FloatArray], keep: int
) -> None:
    """Run pymoo's genetic algorithm, which prefers feasible candidates, until `keep` evaluations are left."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.population import Population
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM

    X, F, G = start
    if len(X) < 4:
        return
    first = Population.new("X", X)
    _tell_values(first, F, G)
    ga = GA(
        pop_size=len(X),
        sampling=first,
        crossover=SBX(eta=5, prob=0.9),
        mutation=PM(eta=10, prob_var=0.1),
        eliminate_duplicates=False,
    )
    _run(ledger, ga, random, keep=keep, n_limits=G.shape[1], judge=lambda F, G: (F, G))


def _evolution(ledger: _Ledger, random: np.random.Generator) -> None:
    """Run CMA-ES from the best so far; where it has converged, again and wider."""
    from pymoo.algorithms.soo.nonconvex.cmaes import CMAES

    def penalised(F: FloatArray, G: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(divide="ignore"):
            size = np.minimum(np.log(F), _UNBOUNDED)
        return size + VIOLATION_WEIGHT * np.maximum(G, 0.0).sum(axis=1), np.empty((len(F), 0))

    sigma, ledger.stage = CMA_SIGMA, _EVOLUTION
    while ledger.left >= CMA_POPULATION:
        es = CMAES(x0=ledger.x, sigma=sigma, pop_size=CMA_POPULATION, restarts=0, tolfun=1e-4, tolx=1e-6)
        _run(ledger, es, random, keep=0, n_limits=0, judge=penalised)
        sigma = min(2.0 * sigma, 0.4)


def _run(
    ledger: _Ledger,
    algorithm: Any,
    random: np.random.Generator,
    *,
    keep: int,
    n_limits: int,
    judge: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
) -> None:
    """Ask a pymoo algorithm for candidates and tell it what they are worth, down to `keep` evaluations."""
    from pymoo.core.problem import Problem
    from pymoo.core.termination import NoTermination

    n = ledger.problem.n_design
    box = Problem(n_var=n, n_obj=1, n_ieq_constr=n_limits, xl=-np.ones(n), xu=np.ones(n))
    algorithm.setup(box, termination=NoTermination(), seed=int(random.integers(2**31)), verbose=False)
    while algorithm.has_next():
        asked = algorithm.ask()
        known = all("F" in individual.evaluated for individual in asked)  # the repaired start
        if not known:
            X = np.asarray(asked.get("X"), dtype=float)
            if len(X) > ledger.left - keep:
                return
            F, G = evaluate(ledger.problem, X)
            ledger.record(X, F, G, len(X))
            _tell_values(asked, *judge(F, G))
        algorithm.tell(infills=asked)


def _tell_values(population: Any, F: FloatArray, G: FloatArray) -> None:
    population.set("F", F[:, None])
    population.set("G", G)
    for individual in population:
        individual.evaluated.update(("F", "G", "H"))
