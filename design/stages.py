"""The stages of a search. The one file that knows pymoo's single-objective algorithms."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from excitor.design.budget import STAGES, Budget, Listener, Method, Progress, State
from excitor.design.fit import fitted
from excitor.design.polish import BudgetSpent, polish
from excitor.design.problem import (
    Candidates,
    Evaluation,
    Problem,
    coefficients,
    decode,
    encode,
    evaluate,
    motions,
)
from excitor.design.start import feasible_start
from excitor.robots.arrays import FloatArray

POINT_COST = 3  # evaluations that a point of SLSQP takes, its share of the gradients included
POPULATION = 200
CMA_POPULATION = 24
CMA_SIGMA = 0.1  # of the variables' box
VIOLATION_WEIGHT = 10.0  # of violated shares of limits against log of the criterion
_UNBOUNDED = 30.0  # stands for the logarithm of an infinite criterion
_HOP = 0.03  # of the variables' box: how far from the best SLSQP starts again
_ROAMING = 300  # iterations
_LOOK = 4  # points of roaming, one of which is fitted into the limits and scored
_HARDEST = 400.0  # softness at which the smooth criterion is the true one, but for rounding


@dataclass(slots=True)
class Ledger:
    """Counts what is spent, remembers the best, and says when a stage must end."""

    problem: Problem
    budget: Budget
    stage: int
    chain: int
    allowance: float  # of this stage, in evaluations or seconds
    before: State
    listen: Listener | None
    known: float  # best of other chains, to tell
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
        """Tell how much of the allowance is gone, in its unit."""
        if self.budget.counted:
            return self.evaluations
        return time.process_time() - self.started

    def check(self) -> None:
        """Raise BudgetSpent when the stage's allowance is gone."""
        if self.spent() >= self.allowance:
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
            min(best, before, self.known),
            feasible_share,
        )


def merit(found: Evaluation) -> FloatArray:
    """Weigh the criterion's logarithm and what is violated, (n_candidates,)."""
    with np.errstate(divide="ignore"):
        size = np.minimum(np.log(found.value), _UNBOUNDED)
    return np.asarray(size + VIOLATION_WEIGHT * found.violation)


def genetic(ledger: Ledger, random: np.random.Generator, method: Method) -> None:
    """Run pymoo's genetic algorithm from a feasible start."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.repair import Repair
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM

    problem = ledger.problem
    if method == "plain-ga":
        _run(ledger, GA(pop_size=100), random, _plain)
        return

    class Scale(Repair):  # type: ignore[misc, unused-ignore]
        """Scale offspring into the joints' limits."""

        def _do(self, _: Any, X: FloatArray, **__: Any) -> FloatArray:
            return np.clip(encode(problem, decode(problem, X)), -1.0, 1.0)  # the cell's limits are not scaled into

    start = feasible_start(problem, POPULATION, random)
    first = evaluate(problem, start)
    ledger.record(start, first)
    if (first.violation <= 0.0).any():
        ledger.anchor = start.center[int(np.lexsort((first.value, first.violation))[0])]
    ga = GA(
        pop_size=POPULATION,
        sampling=np.clip(encode(problem, start), -1.0, 1.0),
        crossover=SBX(eta=5, prob=0.9),
        mutation=PM(eta=10, prob_var=1.0 / 20.0),
        repair=Scale(),
        eliminate_duplicates=False,
    )
    _run(ledger, ga, random, _repaired)


def evolution(ledger: Ledger, random: np.random.Generator, start: Candidates) -> None:
    """Run CMA-ES from the best so far; when it has converged, again and wider."""
    from pymoo.algorithms.soo.nonconvex.cmaes import CMAES

    sigma, ledger.anchor = CMA_SIGMA, start.center[0]
    try:
        while True:
            x0 = np.clip(encode(ledger.problem, start)[0], -1.0, 1.0)
            es = CMAES(x0=x0, sigma=sigma, pop_size=CMA_POPULATION, restarts=0, tolfun=1e-5, tolx=1e-7)
            _run(ledger, es, random, _penalised)
            ledger.check()
            start, sigma = ledger.leader or start, min(2.0 * sigma, 0.4)
    except BudgetSpent:
        return


def polishing(ledger: Ledger, random: np.random.Generator, start: Candidates) -> None:
    """Run SLSQP in trust regions from the best so far; when it has converged, from places near it."""
    problem = ledger.problem
    ledger.anchor = start.center[0]
    x, hop = encode(problem, start)[0], _HOP
    try:
        _roam(ledger, x)
        x = encode(problem, ledger.leader or start)[0]
        while True:
            _descend(ledger, x)
            best = encode(problem, ledger.leader or start)[0]
            x = best + hop * random.normal(size=best.size)
            hop = min(1.3 * hop, 0.2)
    except BudgetSpent:
        return


def _roam(ledger: Ledger, x: FloatArray) -> None:
    """Go where the smooth criterion leads, if need be through what is not allowed; score a point now and then."""
    points = count(1)

    def spend(x: FloatArray) -> None:
        ledger.evaluations += POINT_COST
        if next(points) % _LOOK == 0:
            _score(ledger, x)
        ledger.check()

    for softness in (32.0, 200.0):
        x = polish(ledger.problem, x, softness=softness, reach=None, spend=spend, iterations=_ROAMING)
        _score(ledger, x)


def _descend(ledger: Ledger, x: FloatArray) -> None:
    """Go downhill, each step as far as constraints near the last point can be trusted to be all that matter."""
    problem, reach, softness = ledger.problem, 0.1, 16.0

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
    """Fit a point into all limits, count what it is worth, and weigh it."""
    candidates, found = fitted(ledger.problem, decode(ledger.problem, x[None]), ledger.anchor)
    ledger.record(candidates, found)
    ledger.check()
    return float(merit(found)[0])


def _run(
    ledger: Ledger,
    algorithm: Any,
    random: np.random.Generator,
    judge: Callable[[Ledger, FloatArray], dict[str, FloatArray]],
) -> None:
    """Ask a pymoo algorithm for populations and tell it what they are worth, while the allowance lasts."""
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination

    n = ledger.problem.n_design
    n_limits = 0 if judge is _penalised else len(ledger.problem.names)
    n_limits += 4 * int(ledger.problem.excitation.moving.sum()) if judge is _plain else 0
    shape = PymooProblem(n_var=n, n_obj=1, n_ieq_constr=n_limits, xl=-np.ones(n), xu=np.ones(n))
    algorithm.setup(shape, termination=NoTermination(), seed=int(random.integers(2**31)), verbose=False)
    while algorithm.has_next():
        asked = algorithm.ask()
        for key, values in judge(ledger, asked.get("X")).items():
            asked.set(key, values)
        for individual in asked:
            individual.evaluated.update(("F", "G", "H"))
        algorithm.evaluator.n_eval += len(asked)
        algorithm.tell(infills=asked)
        if ledger.spent() >= ledger.allowance:
            break


def _repaired(ledger: Ledger, X: FloatArray) -> dict[str, FloatArray]:
    candidates, found = fitted(ledger.problem, decode(ledger.problem, X), ledger.anchor)
    ledger.record(candidates, found)
    return {"F": found.value[:, None], "G": found.g}


def _penalised(ledger: Ledger, X: FloatArray) -> dict[str, FloatArray]:
    candidates, found = fitted(ledger.problem, decode(ledger.problem, X), ledger.anchor)
    ledger.record(candidates, found)
    return {"F": merit(found)[:, None], "G": np.empty((len(X), 0))}


def _plain(ledger: Ledger, X: FloatArray) -> dict[str, FloatArray]:
    """Judge without repair: joint limits are constraints like all others."""
    problem = ledger.problem
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
