"""Why no motion fits: constraints that block each other, by how much, and what to relax.

The set is irreducible: without any one of its members a motion fits, and that motion was found. That none fits with
all of them is the verdict of a search, not a proof. All is asked at the search's own margins: 4 mm of clearance and
half a percent of torque beyond what is required.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from excitor.design.elastic import (
    HOME,
    SELF,
    STILL,
    Aim,
    Answer,
    Elastic,
    Misses,
    Questions,
    make_elastic,
    worst_row,
)
from excitor.design.fourier import Trajectory
from excitor.design.problem import Candidates, Problem, trajectory
from excitor.design.relaxations import Relaxation, describe, keeps, proposals, relaxed, slack_of, unit_of
from excitor.robots.arrays import BoolArray, FloatArray, one_blas_thread
from excitor.robots.errors import ExcitorError

SMALLEST = 0.05  # of the joints' swing: a motion that is worth running
_HALVINGS = 5


@dataclass(frozen=True, eq=False, slots=True)
class Member:
    """A constraint that takes part in the blockade."""

    name: str
    words: str
    slack: float  # what is missing at the best compromise of the members, in `unit`; 0: the others give way there
    unit: str
    worst: str  # which row of the constraint is missed most
    relaxations: tuple[Relaxation, ...]  # each by itself


@dataclass(frozen=True, eq=False, slots=True)
class Blocked:
    """Why a problem has no solution; without members it has one, and the search has missed it."""

    members: tuple[Member, ...]
    amplitude: float  # the largest that fits, as a share of the swing that joint limits alone allow; 0: none does
    smallest: float  # the amplitude that was asked for
    standing: bool  # some pose keeps every constraint
    fits: Trajectory | None  # the motion of that amplitude, or standing still
    together: tuple[Relaxation, ...]  # where no single one is enough: these together are
    evaluations: int
    seed: int


class InfeasibleDesign(ExcitorError):
    """No motion keeps all constraints of a run; carries the report."""

    def __init__(self, where: str, blocked: Blocked) -> None:
        self.where = where
        self.blocked = blocked
        super().__init__("\n".join([f"{where}: no design.", *sentences(blocked)]))


def explain(problem: Problem, *, seed: int = 0, smallest: float = SMALLEST, evaluations: int = 10_000) -> Blocked:
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
            return Blocked((), amplitude, smallest, True, trajectory(problem, best), (), questions.spent, seed)
        still = questions.ask(everything, 0.0)
        amplitude, best = _largest(questions, 0.0, smallest, still) if still.fits else (0.0, still.candidate)
        members = tuple(_member(questions, smallest, core, g, answer) for g in np.flatnonzero(core).tolist())
        alone = any(relaxation.enough for member in members for relaxation in member.relaxations)
        together = () if alone else _together(questions, smallest)
        fits = trajectory(problem, best) if still.fits else None
        return Blocked(members, amplitude, smallest, still.fits, fits, together, questions.spent, seed)


def sentences(blocked: Blocked) -> list[str]:
    """Say it to people."""
    share = f"{100.0 * blocked.amplitude:.2g} %"
    if not blocked.members:
        return [
            f"A motion that swings {share} of what the joints' limits allow fits all constraints, but the search did "
            "not find one in its budget; give it more, or start from this motion."
        ]
    names = _listed([member.words for member in blocked.members])
    if not blocked.standing:
        lines = ["No motion fits: even standing still violates the constraints, whatever the pose."]
    elif blocked.amplitude > 0.0:
        lines = [
            f"No motion of a useful size fits: the largest found swings {share} of what the joints' limits "
            f"allow, and {100.0 * blocked.smallest:g} % were asked for."
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


def as_data(blocked: Blocked) -> dict[str, Any]:
    """Write the report as plain data for JSON."""
    return {
        "feasible": not blocked.members,
        "standing": blocked.standing,
        "amplitude": blocked.amplitude,
        "smallest": blocked.smallest,
        "members": [
            {
                "name": member.name,
                "what": member.words,
                "slack": member.slack,
                "unit": member.unit,
                "worst": member.worst,
                "relax": [_relaxation_data(relaxation) for relaxation in member.relaxations],
            }
            for member in blocked.members
        ],
        "together": [_relaxation_data(relaxation) for relaxation in blocked.together],
        "sentences": sentences(blocked),
        "evaluations": blocked.evaluations,
        "seed": blocked.seed,
    }


def _irreducible(questions: Questions, amplitude: float, answer: Answer) -> tuple[BoolArray, Answer]:
    """Grow a set of groups until nothing fits it, then leave out whatever can be; with the members' compromise.

    An answer that fits means that something fits everything after all.
    """
    names = questions.elastic.names
    core = _missed(questions.elastic, answer)
    while True:
        while (answer := questions.ask(core, amplitude)).fits:
            more = _missed(questions.elastic, answer) & ~core
            if not more.any():
                return core, answer
            size = np.maximum(answer.run, answer.way)
            core[np.argmax(np.where(more, np.maximum(size, 1e-12), 0.0))] = True
        size = np.maximum(answer.run, answer.way)
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
    """Tell which groups a motion misses; home is one if the way from there misses what the run does not."""
    missed = np.maximum(answer.run, answer.way) > 0.0
    if HOME in elastic.names:
        missed[elastic.names.index(HOME)] |= bool((answer.way > answer.run).any())
    if STILL in elastic.names and missed.any():
        missed[elastic.names.index(STILL)] = True
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
    """Find out how one member must give way, if nothing else does."""
    elastic = questions.elastic
    problem, name = elastic.problem, elastic.names[g]
    others = np.ones_like(core)
    others[g] = False
    found = questions.ask(others, amplitude, _aim(elastic, g, others))
    if not found.fits:
        others = core.copy()
        others[g] = False
        found = questions.ask(others, amplitude, _aim(elastic, g, others))
    relaxations = []
    if found.fits:
        miss = _miss(elastic, found, g, others)
        for relaxation in proposals(elastic, name, found.candidate, miss):
            changed = relaxed(problem, [relaxation])
            enough = keeps(changed, found.candidate)
            if enough or keeps(changed, found.candidate, [elastic.names[k] for k in np.flatnonzero(core)]):
                relaxations.append(replace(relaxation, enough=enough, motion=trajectory(problem, found.candidate)))
    worst_of_home = float(compromise.way.max(initial=0.0))
    miss = worst_of_home if name == HOME else _miss(elastic, compromise, g, core)
    return Member(
        name,
        describe(problem, name),
        slack_of(elastic, name, miss),
        "m" if name == HOME else unit_of(problem, name),
        worst_row(elastic, compromise.candidate, name),
        tuple(relaxations),
    )


def _aim(elastic: Elastic, g: int, active: BoolArray) -> Aim:
    """Make a group's miss small; of a pose, the distance from it."""
    problem, name = elastic.problem, elastic.names[g]
    with_way = HOME in elastic.names and bool(active[elastic.names.index(HOME)])
    half = 0.5 * np.ptp(elastic.hull, axis=1)

    def distance(candidates: Candidates, _: Misses) -> FloatArray:
        pose = problem.constraints.home if name == HOME else problem.pose
        assert pose is not None
        away = np.abs(candidates.center - pose) / half
        still = ~problem.excitation.moving & ~np.isnan(problem.pose)
        return np.asarray(away.max(axis=1) if name == HOME else away[:, still].max(axis=1))

    def miss(_: Candidates, missed: Misses) -> FloatArray:
        return np.asarray(np.maximum(missed.run[:, g], missed.way[:, g] if with_way else 0.0))

    return distance if name in (HOME, STILL) else miss


def _miss(elastic: Elastic, answer: Answer, g: int, active: BoolArray) -> float:
    """Take one group's miss; the way from home counts where home is active."""
    home = elastic.names.index(HOME) if HOME in elastic.names else -1
    return float(max(answer.run[g], answer.way[g] if home >= 0 and active[home] else 0.0))


def _together(questions: Questions, amplitude: float) -> tuple[Relaxation, ...]:
    """Relax everything that the best compromise of all constraints misses; nothing if that cannot be had."""
    elastic = questions.elastic
    everything = np.ones(len(elastic.names), dtype=bool)
    found = questions.ask(everything, amplitude, total=1)
    chosen = []
    missed = np.maximum(found.run, found.way) > 0.0
    if HOME in elastic.names and missed[elastic.names.index(HOME)]:  # it gives way itself, so the way does not count
        everything[elastic.names.index(HOME)] = False
        found = questions.ask(everything, amplitude, total=1)
        missed = (found.run > 0.0) | ~everything
    for g in np.flatnonzero(missed).tolist():
        offers = proposals(elastic, elastic.names[g], found.candidate, _miss(elastic, found, g, everything))
        chosen.append(offers[0])
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


def _relaxation_data(relaxation: Relaxation) -> dict[str, Any]:
    return {
        "constraint": relaxation.group,
        "action": relaxation.action,
        "amount": relaxation.amount,
        "unit": relaxation.unit,
        "before": relaxation.before.tolist(),
        "after": relaxation.after.tolist(),
        "enough": relaxation.enough,
        "words": relaxation.words,
    }


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
