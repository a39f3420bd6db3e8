"""The search for one run's motion; where its first stage finds nothing that fits, it is asked why before going on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from excitor.design.problem import Problem, candidates_of, evaluate
from excitor.design.search import Budget, Found, Keeper, Progress, State, solve
from excitor.experiments.designing.settings import Settings
from excitor.robots.errors import ExcitorError

WHY_EVALUATIONS = 3000  # of each question why nothing fits: a report within ten seconds


class Stopped(ExcitorError):
    """A search that was interrupted before it had found anything that fits."""


class _Begun(Exception):
    """The first stage of a search is done."""

    def __init__(self, state: State) -> None:
        self.state = state


def search_run(
    problem: Problem,
    budget: Budget,
    settings: Settings,
    *,
    where: str,
    seed: int,
    states: Mapping[int, State],
    keep: Keeper,
    listen: Callable[[Progress], None] | None = None,
) -> Found:
    """Search a motion, going on from earlier states; InfeasibleDesign tells what blocks where there is none.

    The first stage is a pure function of the problem and the seed like all others, so it may be run by itself.
    """
    search = partial(solve, problem, budget, seed=seed, method=settings.method, listen=listen)
    known = dict(states)

    def begun(chain: int, state: State) -> None:
        keep(chain, state)
        raise _Begun(state)

    try:
        found = None if 0 in known else search(keep=begun)
    except _Begun as first:
        found, known[0] = None, first.state
    if found is None:
        known[0] = _helped(problem, known[0], where, settings.seed)
        found = search(states=known, keep=keep, workers=settings.workers)
    if not found.feasible:
        if found.stopped == "interrupted":
            raise Stopped(f"{where}: stopped before a motion was found that fits; the same command goes on")
        raise_infeasible(problem, where, settings.seed)
    return found


def _helped(problem: Problem, first: State, where: str, seed: int) -> State:
    """Where the first stage found nothing that fits, end in a report of why, or go on from what does fit."""
    if first.done != 1 or (first.violation <= 0.0).any():
        return first
    from excitor.design.explain import InfeasibleDesign, explain

    blocked = explain(problem, seed=seed, evaluations=WHY_EVALUATIONS)
    if blocked.members or blocked.fits is None:
        raise InfeasibleDesign(where, blocked)
    fits = candidates_of([blocked.fits])
    found = evaluate(problem, fits)
    return replace(
        first,
        center=np.concatenate([first.center, fits.center]),
        swing=np.concatenate([first.swing, fits.swing]),
        value=np.append(first.value, found.value),
        violation=np.append(first.violation, found.violation),
    )


def raise_infeasible(problem: Problem, where: str, seed: int) -> None:
    """End a search without a feasible candidate in a report of what blocks."""
    from excitor.design.explain import InfeasibleDesign, explain

    raise InfeasibleDesign(where, explain(problem, seed=seed, evaluations=WHY_EVALUATIONS))
