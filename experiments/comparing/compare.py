"""All methods side by side on one campaign: answers, judgement, agreement, recommendation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.comparing.believe import beliefs, dissents
from excitor.experiments.comparing.bias import Bias, bias_of
from excitor.experiments.comparing.bodies import Bodies, bodies_of
from excitor.experiments.comparing.difference import Difference, differences
from excitor.experiments.comparing.judge import Judged, Pair, judge_answer, pairs
from excitor.experiments.comparing.loops import ASSUMED, seconds_of
from excitor.experiments.comparing.prepare import Prepared, baseline_errors, beside, prepare
from excitor.experiments.comparing.recommend import Recommendation, recommend
from excitor.experiments.comparing.simulated import Simulated, simulate
from excitor.experiments.comparing.symptoms import lateness, symptoms
from excitor.experiments.comparing.words import error_words
from excitor.experiments.identification import Tell, UnusableData, impossible_friction
from excitor.identify.diagnose import Finding
from excitor.identify.methods import METHODS, Answer, answer
from excitor.identify.validate import Errors, standard_parameters
from excitor.robots.errors import ExcitorError

SIMULATING = ("iv", "didim", "input-error")  # under a controller
LONGEST_S = 15.0  # s of CPU that a method may take unasked
UNCONTROLLED = (
    "no controller is known to simulate, and none could be assumed: runs differ in their sample rates, or the mass "
    "matrix is not positive definite, neither of least squares nor of the prior model"
)
REFERENCE = "wls"  # what `identify` fits: data that would mislead it are refused here as well


@dataclass(frozen=True)
class Compared:
    """Every method's answer and what is to be made of them."""

    prepared: Prepared
    answers: tuple[Answer, ...]
    judged: tuple[Judged, ...]  # of the methods that answered
    bodies: Mapping[str, Bodies]  # physically consistent versions, by method
    pairs: tuple[Pair, ...]
    differences: Mapping[str, Difference]  # to the least held-out error, by method
    baselines: Mapping[str, Errors]
    bias: Bias | None
    recommendation: Recommendation
    beliefs: tuple[str, ...]
    simulated: Simulated | None
    findings: tuple[Finding, ...]


def compare(campaign: OpenCampaign, methods: Sequence[str] = (), tell: Tell = lambda _: None) -> Compared:
    """Run methods, all of them unless some are named, on the same data; UnusableData where these would mislead."""
    chosen = named(methods)
    prepared = prepare(campaign, tell)
    answers = tuple(told(answered(name, prepared, asked=bool(methods)), prepared, tell) for name in chosen)
    check_friction(prepared, answers)
    judged = [found for entry in answers if (found := judge_answer(prepared, entry)) is not None]
    if not judged:
        reasons = "; ".join(f"{entry.method}: {entry.refused}" for entry in answers)
        raise ExcitorError(f"no method gave an answer ({reasons})")
    return concluded(prepared, answers, judged, tell)


def named(methods: Sequence[str]) -> list[str]:
    """Check the names of methods; none means all."""
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ExcitorError(f"--method: {unknown[0]!r} is not a method; expected some of {', '.join(METHODS)}")
    return list(dict.fromkeys(methods)) or list(METHODS)


def answered(method: str, prepared: Prepared, *, asked: bool) -> Answer:
    """Run a method; one that would take minutes only where it is asked for."""
    problem = prepared.problem
    if method in SIMULATING and not asked:
        seconds = seconds_of(method, problem)
        if seconds > LONGEST_S:
            words = f"left out, as it would take some {seconds:.0f} s; ask for it with --method {method}"
            return Answer(method, None, None, refused=words)
    if method in SIMULATING and problem.servo is None and not problem.references:
        return Answer(method, None, None, refused=UNCONTROLLED)
    found = answer(method, problem)
    if method in SIMULATING and problem.servo is not None and found.estimate is not None:
        return replace(found, notes=(*found.notes, ASSUMED))
    return found


def told(found: Answer, prepared: Prepared, tell: Tell) -> Answer:
    """Say how a method did."""
    judged = judge_answer(prepared, found)
    said = f"refused: {found.refused}" if judged is None else f"{error_words(judged.error)} held out"
    tell(f"{found.method}: {said} ({found.cpu_s:.1f} s)")
    return found


def check_friction(prepared: Prepared, answers: Sequence[Answer]) -> None:
    """Refuse data that show friction which drives, as `identify` does."""
    reference = next((entry for entry in answers if entry.method == REFERENCE), None)
    if reference is None:
        reference = answer(REFERENCE, prepared.problem)
    if reference.intervals is None:
        return
    findings = impossible_friction(prepared.problem.robot, reference.intervals)
    if findings:
        raise UnusableData((*prepared.examined.findings, *findings))


def concluded(prepared: Prepared, answers: tuple[Answer, ...], judged: Sequence[Judged], tell: Tell) -> Compared:
    """Draw the conclusions."""
    robot, bias = prepared.problem.robot, bias_of(answers, prepared.problem.references is not None)
    best = min(range(len(judged)), key=lambda k: judged[k].error)
    found = differences(prepared.judging, [entry.residual for entry in judged], best)
    compared = {entry.name: difference for entry, difference in zip(judged, found, strict=True)}
    model = beside(prepared, standard_parameters(robot, judged[best].estimate))
    baselines = baseline_errors(prepared, model)
    bodies = bodies_of(prepared, judged, tell)
    late = lateness(prepared)
    advice = recommend(
        judged,
        compared,
        bias=bias,
        others={name: errors.relative_total for name, errors in baselines.items()},
        bodies={name: found.total for name, found in bodies.items() if not found.refused},
        substitute=bool(prepared.substitute),
        joints=[prepared.judging.joint_names[j] for j in np.unique(prepared.judging.joint)],
        late=late,
    )
    chosen = next(entry for entry in judged if entry.name == (advice.method or advice.best))
    every = pairs(prepared.judging, judged)
    signs = symptoms(prepared, chosen, model.velocity, late)
    dissenting = dissents(judged, every, chosen.name)
    said = beliefs(robot, judged, chosen, found=dissenting, compared=compared, signs=signs, bias=bias)
    if advice.method is None:  # whom to believe of those that are all wrong is no question
        said = []
    tell(f"{advice.headline}")
    return Compared(
        prepared=prepared,
        answers=answers,
        judged=tuple(judged),
        bodies=bodies,
        pairs=every,
        differences=compared,
        baselines=baselines,
        bias=bias,
        recommendation=advice,
        beliefs=tuple(said),
        simulated=simulate(prepared, judged, tell),
        findings=prepared.examined.findings,
    )
