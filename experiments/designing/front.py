"""A run picked from a front: condition against duration, torque and tool speed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from excitor.design.motion import Excitation
from excitor.design.pareto import Front, Objective, front
from excitor.design.problem import Candidates, Problem
from excitor.design.schedule import RunPlan
from excitor.design.search import Found, Progress
from excitor.experiments.campaign import FILE, InvalidCampaign
from excitor.experiments.designing.settings import Settings
from excitor.experiments.designing.setup import Setup

_PERIODS = (0.5, 1.0, 2.0)  # of the campaign's own, where it lists none


def search_front(
    setup: Setup,
    settings: Settings,
    *,
    plan: RunPlan,
    problem_of: Callable[[Setup, RunPlan], Problem],
    listen: Callable[[Progress], None] | None = None,
) -> tuple[Front, Problem, Found]:
    """Search the front that a campaign asks for, and take the run that is picked, or its knee."""
    objectives: Sequence[Objective] = setup.design.front
    problems = [problem_of(replace(setup, excitation=each), plan) for each in _excitations(setup)]
    found = front(problems, objectives, settings.budget, seed=settings.seed, listen=listen)
    if not len(found):
        return found, problems[0], _as_found(found, 0, feasible=False)
    k = found.chosen if settings.pick is None else settings.pick
    if not 0 <= k < len(found):
        raise InvalidCampaign(
            setup.campaign.folder / FILE, [f"pick {k} is not on the front, which has runs 0 to {len(found) - 1}"]
        )
    return replace(found, chosen=k), problems[found.which[k]], _as_found(found, k)


def _excitations(setup: Setup) -> list[Excitation]:
    """List the excitations that differ in their period, whole numbers of controller samples."""
    own, design = setup.excitation, setup.design
    if "duration" not in design.front:
        return [own]
    made = []
    for period in design.periods_s or [share * own.period for share in _PERIODS]:
        whole = round(period / own.sample_time) * own.sample_time
        if design.periods_s and abs(whole - period) > 1e-9 * period:
            raise InvalidCampaign(
                setup.campaign.folder / FILE,
                [f"design.periods_s: {period:g} is no whole number of controller samples; {whole:g} would be"],
            )
        try:
            made.append(replace(own, period=whole))
        except ValueError as error:
            raise InvalidCampaign(setup.campaign.folder / FILE, [f"design.periods_s: {error}"]) from None
    return made


def _as_found(found: Front, k: int, feasible: bool = True) -> Found:
    """Take one run of a front as the end of a search."""
    one = slice(k, k + 1) if feasible else slice(0, 0)
    n = 1 if feasible else 0
    return Found(
        Candidates(found.center[one], found.swing[one]),
        found.points[one, 0],
        np.zeros(n),
        found.evaluations,
        found.seconds,
        found.stopped,
        np.empty((0, 4)),
    )
