"""Search for the best motion: genetic algorithm, then CMA-ES, then SLSQP, in chains that differ in their seed only.

A stage is a pure function of the problem, the seed, the chain and what the stage before left. So a search can go on
after any stage, chains can run in processes of their own, and neither changes what is found.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from excitor.design.budget import STAGES, Budget, Found, Listener, Method, State, empty_state
from excitor.design.problem import Candidates, Problem, evaluate
from excitor.design.stages import VIOLATION_WEIGHT, Ledger, evolution, genetic, polishing
from excitor.robots.arrays import one_blas_thread

SHARES = {"hybrid": (0.10, 0.50, 0.40), "ga": (1.0, 0.0, 0.0), "plain-ga": (1.0, 0.0, 0.0)}
_HISTORY_ROWS = 120  # of a stage

Keeper = Callable[[int, State], None]


def solve(
    problem: Problem,
    budget: Budget,
    *,
    seed: int = 0,
    method: Method = "hybrid",
    states: Mapping[int, State] | None = None,
    listen: Listener | None = None,
    keep: Keeper | None = None,
    workers: int = 1,
) -> Found:
    """Search within a budget.

    `states` are those of chains begun earlier, to go on from; `keep` hears of every stage that is finished. Workers
    are processes: they share counted evaluations, and spend seconds each. A keyboard interrupt ends the search with
    what it has.
    """
    states, budget = dict(states or {}), budget.for_size(problem.n_design)
    n_chains = budget.chains * (1 if budget.counted else workers)
    interrupted = False
    if workers > 1 and n_chains > 1:
        from excitor.design.workers import run_chains

        interrupted = run_chains(problem, budget, seed, method, states, n_chains, workers, keep)
    else:
        with one_blas_thread():
            for chain in range(n_chains):
                states[chain], whole = run_chain(
                    problem,
                    budget,
                    seed=seed,
                    method=method,
                    chain=chain,
                    state=states.get(chain),
                    listen=listen,
                    keep=keep,
                    known=_best(states.values()),
                )
                if not whole:
                    interrupted = True
                    break
    return _collected(problem, [states[chain] for chain in sorted(states)], interrupted)


def run_chain(
    problem: Problem,
    budget: Budget,
    *,
    seed: int,
    method: Method,
    chain: int,
    state: State | None = None,
    listen: Listener | None = None,
    keep: Keeper | None = None,
    known: float = float("inf"),
) -> tuple[State, bool]:
    """Run a chain to its end; False tells that it was interrupted."""
    state = empty_state(problem) if state is None else state
    while state.done < len(STAGES):
        state, whole = advance(
            problem, budget, seed=seed, method=method, chain=chain, state=state, listen=listen, known=known
        )
        if not whole:
            return state, False
        if keep is not None:
            keep(chain, state)
    return state, True


def advance(
    problem: Problem,
    budget: Budget,
    *,
    seed: int,
    method: Method,
    chain: int,
    state: State,
    listen: Listener | None = None,
    known: float = float("inf"),
) -> tuple[State, bool]:
    """Run the next stage of a chain; False tells that it was interrupted."""
    stage = state.done
    ledger = Ledger(problem, budget, stage, chain, _allowance(budget, method, state), state, listen, known)
    random = np.random.default_rng([seed, chain, stage])
    start = _leader(state)
    whole = True
    try:
        if ledger.allowance > 0.0:
            if stage == 0:
                genetic(ledger, random, method)
            elif start is not None:
                (evolution if stage == 1 else polishing)(ledger, random, start)
    except KeyboardInterrupt:
        whole = False
    return _after(state, ledger), whole


def _allowance(budget: Budget, method: Method, state: State) -> float:
    """Share a chain's part of the budget among its stages: what one does not use, later ones have."""
    shares = SHARES[method]
    if shares[state.done] == 0.0:
        return 0.0
    spent = state.evaluations if budget.counted else state.seconds
    return float(budget.amount / budget.chains * sum(shares[: state.done + 1]) - spent)


def _leader(state: State) -> Candidates | None:
    """Take what a chain's next stage goes on from: the least of value and penalty together."""
    if not len(state.value):
        return None
    with np.errstate(divide="ignore"):
        k = int(np.argmin(np.log(state.value) + VIOLATION_WEIGHT * state.violation))
    return Candidates(state.center[k : k + 1], state.swing[k : k + 1])


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
    found = evaluate(ledger.problem, Candidates(center, swing))
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


def _collected(problem: Problem, states: list[State], interrupted: bool) -> Found:
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
    return Found(
        Candidates(center, swing),
        value[order],
        violation[order],
        evaluations,
        sum(state.seconds for state in states),
        stopped,
        np.concatenate(history),
    )
