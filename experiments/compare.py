"""Comparison of all estimators on one campaign: held-out errors, agreement, simulation, and recommendation.

Held-out errors are compared by a block bootstrap in time. The recommended method is the best held out, unless a
preferable one is as good within noise. Models are checked for physical consistency and simulated: in open loop for
direct drives, under a controller for geared robots. Dissenting methods are explained by the Durbin-Wu-Hausman test and
by symptoms in the data: delays, outliers and friction that the model does not have.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from excitor.experiments import identification
from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.identification import ComparisonProblem, Tell, UnusableData, prepare, seconds_of
from excitor.experiments.model import new_axes
from excitor.experiments.report.evidence import some
from excitor.experiments.report.html import MINUS, entries, percent, show, subtable
from excitor.identify import validate
from excitor.identify.consistent import ConsistentEstimate, Delivered, delivered
from excitor.identify.diagnose import Finding, delay, several, usable
from excitor.identify.estimate import Estimate
from excitor.identify.instruments import LEVEL
from excitor.identify.intervals import LINEAR, Intervals, whiteness
from excitor.identify.methods import METHODS, SIMULATING, Answer, answer
from excitor.identify.regression import Regression, subset
from excitor.identify.samples import Samples
from excitor.identify.verdict import Difference, Scores, Verdict, differences, verdict
from excitor.robots.arrays import FloatArray, finite, picked, plain
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

LONGEST_S = 15.0  # s of CPU that a method may take unasked
UNCONTROLLED = (
    "no controller is known to simulate, and none could be assumed: runs differ in their sample rates, or the mass "
    "matrix is not positive definite, neither of least squares nor of the prior model"
)
REFERENCE = "wls"  # what `identify` fits: data that would mislead it are refused here as well


@dataclass(frozen=True)
class MethodResult:
    """One method's result, and its residuals on held-out data."""

    answer: Answer
    estimate: Estimate
    held_out: validate.Errors
    training: validate.Errors
    residual: FloatArray  # (n_rows,) of the judging equations
    smallest_inertia: float  # eigenvalue of M(q) over random poses
    driving: tuple[str, ...]  # friction estimated below 0, which would drive its joint

    @property
    def name(self) -> str:
        """The method's name."""
        return self.answer.method

    @property
    def error(self) -> float:
        """‖τ - τ̂‖ / ‖τ‖ over all joints, held out."""
        return self.held_out.relative_total

    @property
    def possible(self) -> bool:
        """True if the model passes two physical checks: M(q) positive definite, friction resists."""
        return self.smallest_inertia > 0.0 and not self.driving


Results = Sequence[MethodResult]  # of the methods that answered
Differences = Mapping[str, Difference]  # to the least held-out error, by method


@dataclass(frozen=True)
class Pair:
    """Distance between two methods, on the same motion."""

    one: str
    other: str
    torque: float  # ‖W (β - β')‖ / ‖τ‖ on the judging equations
    apart: tuple[str, ...] | None  # parameters each outside the other's 95 % interval; None where one gives no interval
    compared: int  # parameters that both give


@dataclass(frozen=True)
class Bodies:
    """A method's physically consistent version, or why there is none; and the model that would be delivered."""

    total: float  # held-out error; NaN where there is none
    delivered: Delivered
    refused: str = ""
    found: ConsistentEstimate | None = None

    def data(self) -> dict[str, Any]:
        """Write it for scripts."""
        chi = None if self.found is None else dict(zip(self.found.names, map(float, self.found.chi), strict=True))
        return {"total": finite(self.total), "refused": self.refused, "parameters": chi}


@dataclass(frozen=True)
class SimulatedRun:
    """One model simulated along one run."""

    method: str
    run: str
    role: str  # "fitted" or "held out"
    error: float = np.nan  # open loop: rms of positions over the joints, rad or m; closed loop: of torques, as a share
    error_first: float = np.nan  # open loop: of the first second; closed loop: rms of positions
    until: float = np.nan  # s that the simulation followed
    sentence: str = ""  # why there is none


@dataclass(frozen=True)
class ModelSimulations:
    """Simulations of all models in one of the two ways."""

    kind: str
    sentence: str
    error_title: str
    first_title: str
    rows: tuple[SimulatedRun, ...]

    def data(self) -> dict[str, Any]:
        """Write it for scripts."""
        rows = [plain(asdict(row)) for row in self.rows]
        return picked(self, "kind sentence error_title first_title") | {"rows": rows}


@dataclass(frozen=True)
class Recommendation:
    """A method and its reasons, in sentences."""

    method: str | None  # None: none of them predicts better than no identification
    best: str  # least held-out error
    headline: str
    reasons: tuple[str, ...]
    within: tuple[str, ...]  # methods whose error other stretches of time could have made the least
    careful: bool = False  # whether something speaks against the model, or the judgement
    verdict: Verdict | None = None  # on the recommended model, or the best where none is

    @property
    def is_best(self) -> bool:
        """True if the recommended method has the least held-out error."""
        return self.method == self.best


@dataclass(frozen=True, slots=True)
class Bias:
    """The verdict of the test."""

    p_value: float
    statistic: float
    strong: bool = True  # the instruments are independent of the measured motion: the commanded one is known

    @property
    def found(self) -> bool:
        """True if instruments give significantly different parameters from least squares."""
        return self.p_value < LEVEL

    def concerns(self, method: str) -> bool:
        """Return True if a method is among those that the test, with strong instruments, finds biased."""
        return self.found and self.strong and method in EXACT

    def suspects(self, method: str) -> bool:
        """Return True if the test finds a method biased, but with weak instruments."""
        return self.found and not self.strong and method in EXACT

    @property
    def sentence(self) -> str:
        """Result of the test as a sentence."""
        verdict = "finds least squares biased" if self.found else "finds no bias of least squares"
        said = f"The Durbin-Wu-Hausman test {verdict} (p = {self.p_value:.2g})"
        if not self.strong:
            shown = "would have shown" if not self.found else "is free of them, and iv itself is uncertain"
            return (
                f"{said}. The commanded motion is not known here, and instruments simulated along the measured "
                f"motion share its slow errors: only fast errors {shown}."
            )
        if not self.found:
            return f"{said}: noise in the measured motion does not matter, and instruments are not needed."
        return (
            f"{said}: instruments, which are independent of the noise of the measured motion, give significantly other "
            "parameters. Noise in velocities and accelerations is one cause, a model that lacks something (a friction "
            "term, a delay) is another."
        )

    def advice(self, method: str) -> str:
        """Describe what a biased method can still be used for."""
        if not self.strong:
            return (
                f"The Durbin-Wu-Hausman test suspects {method} of bias (p = {self.p_value:.2g}), and a small held-out "
                "error does not refute it: that motion is as noisy as the motion learned from, and favours the bias. "
                "Use it for torques of motions measured like these; for the parameters themselves, filter positions "
                "more (processing.lowpass_hz), compare again, and see whether they stay."
            )
        return (
            f"The Durbin-Wu-Hausman test finds {method} biased (p = {self.p_value:.2g}). Held-out motion is as noisy "
            "as the training motion, and that favours the bias: for torques of measured motions it is the "
            "better model, but for simulation, or the parameters themselves, believe iv."
        )


@dataclass(frozen=True)
class Comparison:
    """Results of all methods, and the conclusions."""

    prepared: ComparisonProblem
    answers: tuple[Answer, ...]
    judged: tuple[MethodResult, ...]  # of the methods that answered
    bodies: Mapping[str, Bodies]  # physically consistent versions, by method
    pairs: tuple[Pair, ...]
    differences: Differences
    baselines: Mapping[str, validate.Errors]
    bias: Bias | None
    recommendation: Recommendation
    beliefs: tuple[str, ...]
    simulated: ModelSimulations | None
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> dict[str, float]:
        """Held-out torque error ‖τ - τ̂‖ / ‖τ‖ of each method that answered."""
        return {judged.name: judged.error for judged in self.judged}

    def to_frame(self) -> "DataFrame":
        """List the methods: held-out and training error, number of parameters, CPU time, refusal."""
        import pandas as pd

        training = {judged.name: judged.training.relative_total for judged in self.judged}
        rows = [
            {
                "method": answer.method,
                "held_out": self.errors.get(answer.method, np.nan),
                "training": training.get(answer.method, np.nan),
                "parameters": len(answer.estimate.names) if answer.estimate is not None else 0,
                "cpu_s": answer.cpu_s,
                "refused": answer.refused,
            }
            for answer in self.answers
        ]
        return pd.DataFrame(rows)

    def to_latex(self) -> str:
        """Write the methods as a LaTeX table (package booktabs)."""
        return str(self.to_frame().to_latex(index=False, escape=True, float_format="%.4g"))

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the held-out error of each method."""
        axes = new_axes() if ax is None else ax
        axes.barh(list(self.errors), [100.0 * error for error in self.errors.values()])
        axes.set_xlabel("held-out torque error, %")
        return axes

    def __repr__(self) -> str:
        return f"<Compared {len(self.answers)} estimators: recommended {self.recommendation.method or 'none'}>"


def compare(campaign: OpenCampaign, methods: Sequence[str] = (), tell: Tell = lambda _: None) -> Comparison:
    """Run methods, by default all, on the same data; UnusableData where these would mislead."""
    named(methods)  # before the logs are read
    return compare_prepared(prepare(campaign, tell), methods, tell)


def compare_prepared(
    prepared: ComparisonProblem, methods: Sequence[str] = (), tell: Tell = lambda _: None
) -> Comparison:
    """Run methods, all of them unless some are named, on one problem."""
    chosen = named(methods)
    answers: tuple[Answer, ...] = ()
    judged: list[MethodResult] = []
    for name in chosen:
        answers = (*answers, found := answered(name, prepared, requested=bool(methods)))
        result = judge_answer(prepared, found)
        judged += [] if result is None else [result]
        said = f"refused: {found.refused}" if result is None else f"{error_words(result.error)} held out"
        tell(f"{found.method}: {said} ({found.cpu_s:.1f} s)")
    check_values(prepared, answers)
    if not judged:
        reasons = "; ".join(f"{entry.method}: {entry.refused}" for entry in answers)
        raise ExcitorError(f"no method gave an answer ({reasons})")
    return concluded(prepared, answers, judged, tell)


def named(methods: Sequence[str]) -> list[str]:
    """Check the names of methods; none selects all."""
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ExcitorError(f"--method: {unknown[0]!r} is not a method; expected some of {choice(unknown[0], METHODS)}")
    return list(dict.fromkeys(methods)) or list(METHODS)


def answered(method: str, prepared: ComparisonProblem, *, requested: bool) -> Answer:
    """Run a method; one that would take minutes only if it is requested."""
    problem = prepared.problem
    if method in SIMULATING and not requested:
        seconds = seconds_of(method, problem)
        if seconds > LONGEST_S:
            words = f"left out, as it would take some {seconds:.0f} s; request it with --method {method}"
            return Answer(method, None, None, refused=words)
    if method in SIMULATING and problem.servo is None and not problem.references:
        return Answer(method, None, None, refused=UNCONTROLLED)
    found = answer(method, problem)
    if method in SIMULATING and problem.servo is not None and found.estimate is not None:
        return replace(found, notes=(*found.notes, identification.controller_words(prepared.examined.campaign)))
    return found


def check_values(prepared: ComparisonProblem, answers: Sequence[Answer]) -> None:
    """Refuse data that show impossible parameters, as `identify` does."""
    reference = next((entry for entry in answers if entry.method == REFERENCE), None)
    if reference is None:
        reference = answer(REFERENCE, prepared.problem)
    if reference.intervals is None:
        return
    robot, settings = prepared.problem.robot, prepared.examined.campaign.content.identify
    findings = identification.allowed(
        identification.impossible_values(robot, reference.intervals, prepared.examined.training), settings.allow
    )
    if not usable(findings):
        raise UnusableData((*prepared.examined.findings, *findings))


def concluded(prepared: ComparisonProblem, answers: tuple[Answer, ...], judged: Results, tell: Tell) -> Comparison:
    """Build the comparison's conclusions."""
    robot, bias = prepared.problem.robot, bias_of(answers, prepared.problem.references is not None)
    best = min(range(len(judged)), key=lambda k: judged[k].error)
    found = differences(prepared.judging, [entry.residual for entry in judged], best)
    compared = {entry.name: difference for entry, difference in zip(judged, found, strict=True)}
    model = identification.baselines_of(prepared.examined, prepared.judging, judged[best].estimate)
    baselines = identification.baseline_errors(prepared, model)
    tell("looking for the nearest parameters that bodies can have")
    weight = identification.chosen_weight(prepared.examined.campaign, prepared.problem.regression)
    bodies = {entry.name: nearest(prepared, entry, weight) for entry in judged}
    late = lateness(prepared)
    context = Context(
        others={name: errors.relative_total for name, errors in baselines.items()},
        bodies={name: found.total for name, found in bodies.items() if not found.refused},
        substitute=bool(prepared.substitute),
        joints=joints_of(prepared.judging),
        late=late,
        verdicts=verdicts_of(prepared, judged, bodies),
    )
    advice = recommend(judged, compared, bias, context)
    chosen = next(entry for entry in judged if entry.name == (advice.method or advice.best))
    every = pairs(prepared.judging, judged)
    signs = replace(symptoms(prepared, chosen, model.velocity, late), bias=bias)
    dissenting = dissents(judged, every, chosen.name)
    said = beliefs(robot, judged, chosen, found=dissenting, compared=compared, signs=signs)
    tell(advice.headline)
    return Comparison(
        prepared=prepared,
        answers=answers,
        judged=tuple(judged),
        bodies=bodies,
        pairs=every,
        differences=compared,
        baselines=baselines,
        bias=bias,
        recommendation=advice,
        beliefs=tuple(said) if advice.method is not None else (),  # all are wrong, so none is preferred
        simulated=simulate(prepared, judged, tell),
        findings=prepared.examined.findings,
    )


def verdicts_of(prepared: ComparisonProblem, judged: Results, bodies: Mapping[str, Bodies]) -> dict[str, Verdict]:
    """Decide over the models that the methods would deliver, by the evidence that `identify` has of its own."""
    judging, fitted, examined = prepared.judging, prepared.fitted, prepared.examined
    noise = identification.noise_errors(prepared)
    found = {}
    for entry in judged:
        own, version = bodies[entry.name].delivered, bodies[entry.name].found
        unseen, over, spread = identification.against_prior(examined, judging, own)
        assert unseen is not None
        scores = Scores(
            training=validate.torque_errors(fitted, validate.estimated_torques(fitted, own)).relative_total,
            same_run=bool(prepared.substitute),
            over_prior=over,
            spread=spread,
            noise=None if noise is None else noise[1],
            loss=version.loss if version is not None and version.audit.holds else None,
            in_amperes=prepared.problem.robot.drive.in_amperes,
            refusal=bodies[entry.name].refused,
            smallest_inertia=entry.smallest_inertia,
            open_friction=identification.open_friction(prepared.problem.robot, entry.answer.intervals),
            doubts=identification.data_doubts(
                (*examined.findings, *value_findings(prepared, entry)), examined.alignments
            ),
            **identification.scores_of_unseen(unseen),
        )
        found[entry.name] = verdict(scores)
    return found


def value_findings(prepared: ComparisonProblem, entry: MethodResult) -> tuple[Finding, ...]:
    """Find impossible parameters of a method's result, as `identify` does of its own."""
    examined, intervals = prepared.examined, entry.answer.intervals
    if intervals is None:
        return ()
    if entry.estimate.method in LINEAR and len(prepared.problem.regression) == entry.estimate.n_rows:
        return identification.with_doubts(examined, prepared.problem.regression, entry.estimate, intervals)[2]
    allow = examined.campaign.content.identify.allow
    found = identification.impossible_values(prepared.problem.robot, intervals, examined.training)
    return identification.allowed(found, allow)


def judge_answer(prepared: ComparisonProblem, answer: Answer) -> MethodResult | None:
    """Evaluate a method's result on the held-out data; None where it refused."""
    estimate = answer.estimate
    if estimate is None:
        return None
    robot, judging, fitted = prepared.problem.robot, prepared.judging, prepared.fitted
    predicted = validate.estimated_torques(judging, estimate)
    return MethodResult(
        answer=answer,
        estimate=estimate,
        held_out=validate.torque_errors(judging, predicted),
        training=validate.torque_errors(fitted, validate.estimated_torques(fitted, estimate)),
        residual=judging.y - predicted,
        smallest_inertia=identification.smallest_inertia(robot, estimate),
        driving=driving(robot, estimate),
    )


def driving(robot: Robot, estimate: Estimate) -> tuple[str, ...]:
    """List friction parameters whose estimate is below 0."""
    resists = {term.parameter for term in robot.drive.friction if friction_model(term).sign == "positive"}
    return tuple(name for name in estimate.names if name in resists and estimate.value(name) < 0.0)


def pairs(judging: Regression, judged: Results) -> tuple[Pair, ...]:
    """Compare every two methods."""
    size = float(np.linalg.norm(judging.y))
    return tuple(
        Pair(
            one.name,
            other.name,
            float(np.linalg.norm(one.residual - other.residual)) / size if size > 0.0 else float("inf"),
            apart(one.answer.intervals, other.answer.intervals),
            len(set(one.estimate.names) & set(other.estimate.names)),
        )
        for one, other in combinations(judged, 2)
    )


def apart(one: Intervals | None, other: Intervals | None) -> tuple[str, ...] | None:
    """List the parameters whose values are outside each other's intervals."""
    if one is None or other is None:
        return None
    first, second = by_name(one), by_name(other)
    return tuple(
        name
        for name, (value, low, high) in first.items()
        if name in second and not low <= second[name][0] <= high and not second[name][1] <= value <= second[name][2]
    )


def by_name(intervals: Intervals) -> Mapping[str, tuple[float, float, float]]:
    """Return value, low and high of every parameter, by its name."""
    numbers = np.column_stack([intervals.values, intervals.low, intervals.high]).tolist()
    return dict(zip(intervals.names, map(tuple, numbers), strict=True))


def joints_of(regression: Regression) -> list[str]:
    """List the joints that have equations."""
    return [regression.joint_names[j] for j in np.unique(regression.joint)]


def pair_of(found: Sequence[Pair], one: str, other: str) -> Pair | None:
    """Find a pair whatever its order."""
    return next((pair for pair in found if {pair.one, pair.other} == {one, other}), None)


def nearest(prepared: ComparisonProblem, entry: MethodResult, weight: float) -> Bodies:
    """Compute the consistent parameters nearest to an estimate, and evaluate them as the estimate was."""
    robot, judging = prepared.problem.robot, prepared.judging
    found, refused = identification.fit_consistent(prepared.examined.campaign, entry.estimate, weight)
    covariance = None if entry.answer.intervals is None else entry.answer.intervals.covariance
    own = delivered(robot, entry.estimate, covariance, found)
    if found is None:
        return Bodies(np.nan, own, refused or "")
    values = dict(zip((layout(robot).names[k] for k in base_parameters(robot).kept), found.beta, strict=True))
    beta = np.array([values[name] for name in judging.names])
    return Bodies(validate.torque_errors(judging, judging.W @ beta).relative_total, own, found=found)


FIRST_S = 1.0  # s over which open-loop errors are reported, too: later ones are of the integration more than the model
SPAN_S = 2.0  # s of each run that are simulated


def simulate(prepared: ComparisonProblem, judged: Results, tell: Tell) -> ModelSimulations | None:
    """Simulate every model along the first moving run of each kind; None where none moves."""
    runs = {
        role: identification.beginning(next(run for run in found if not run.static), SPAN_S)
        for role, found in (("fitted", prepared.examined.training), ("held out", prepared.examined.unseen))
        if any(not run.static for run in found)
    }
    if not runs:
        return None
    geared = bool(prepared.problem.robot.drive.rotors)
    tell(f"simulating the models {'under a controller' if geared else 'open loop'}")
    return in_closed_loop(prepared, judged, runs) if geared else in_open_loop(prepared, judged, runs)


def in_open_loop(prepared: ComparisonProblem, judged: Results, runs: Mapping[str, Samples]) -> ModelSimulations:
    """Integrate every model under the measured torques alone."""
    robot, rows = prepared.problem.robot, []
    for entry in judged:
        chi = validate.standard_parameters(robot, entry.estimate)
        found = validate.open_loop(robot, chi, list(runs.values()), first_s=FIRST_S)
        if found.refused:
            rows += [SimulatedRun(entry.name, run.run, role, sentence=found.refused) for role, run in runs.items()]
            continue
        for (role, measured), run in zip(runs.items(), found.runs, strict=True):
            whole = len(measured) / measured.sample_rate_hz
            errors, lost = (mean_square(run.rms), mean_square(run.first_rms)), run.diverged_at
            sentence = f"lost after {lost:.2g} s" if lost < np.inf else ""
            rows.append(SimulatedRun(entry.name, run.run, role, *errors, min(lost, whole), sentence))
    said = (
        f"From the measured state at its start, up to {SPAN_S:g} s of a run were integrated under the measured torques "
        "alone. Nothing corrects such a simulation: the smallest bias grows, and the first second says more of a model "
        "than the rest."
    )
    return ModelSimulations(
        "open loop", said, "position error, rms, rad or m", f"in the first {FIRST_S:g} s, rad or m", tuple(rows)
    )


def in_closed_loop(
    prepared: ComparisonProblem, judged: Results, runs: Mapping[str, Samples]
) -> ModelSimulations | None:
    """Simulate every model under one assumed controller along the measured motion."""
    problem, robot, servo = prepared.problem, prepared.problem.robot, prepared.problem.servo
    if servo is None:
        return None
    rows, words = [], identification.controller_words(prepared.examined.campaign)
    thin = problem.rows.decimate or (lambda x: x)
    for entry in judged:
        chi = validate.standard_parameters(robot, entry.estimate)
        for role, run in runs.items():
            try:
                found = validate.closed_loop(robot, chi, [run], servo, rows=problem.rows)
                refused = found.refused
            except ExcitorError as error:
                refused = str(error)
            if refused:
                rows.append(SimulatedRun(entry.name, run.run, role, sentence=refused))
                continue
            done = found.runs[0]
            left, size = (float(np.linalg.norm(thin(tau))) for tau in (run.tau - done.tau, run.tau))
            errors = left / size if size > 0.0 else np.inf, mean_square(done.position_rms)
            rows.append(SimulatedRun(entry.name, run.run, role, *errors, len(run) / run.sample_rate_hz))
    said = (
        f"Up to {SPAN_S:g} s of a run were simulated along the measured motion: {words}. Open loop would show how "
        "far errors integrate through a geared drive, not how good a model is."
    )
    return ModelSimulations("closed loop", said, "torque error", "position error, rms, rad or m", tuple(rows))


def mean_square(values: FloatArray) -> float:
    """Root mean square over the joints."""
    return float(np.sqrt(np.mean(np.square(values))))


SIMPLEST = ("wls", "ols", "irls", "rls", "ridge", "ml", "tls", "iv", "input-error", "didim")  # then all others
AS_GOOD = 1.01  # times the error: being consistent costs nothing
FITTED = 0.5  # times the held-out error: then the runs differ more than any estimator can be wrong
NONE_TAKEN = "Take none of these models"
POOR = 0.3  # of the torques: the best of poor models
LATE = 1e-3  # s: a delay that matters
WEAK = 1.1  # times the error that wls leaves at a joint: what ols gives up there


@dataclass(frozen=True)
class Context:
    """Inputs of a recommendation besides the methods' own errors."""

    others: Mapping[str, float]  # errors of the baselines
    bodies: Mapping[str, float] = field(default_factory=dict)  # errors of the physically consistent versions
    substitute: bool = False  # no run was held out
    joints: Sequence[str] = ()  # names of those that are evaluated
    late: float | None = None  # s, significant delay of torques behind their motion
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)  # by method


def recommend(judged: Results, compared: Differences, bias: Bias | None, context: Context) -> Recommendation:
    """Choose among methods; `compared` has each one's difference to the best."""
    others, bodies = context.others, context.bodies
    best = min(judged, key=lambda entry: entry.error)
    within = [entry for entry in judged if compared[entry.name].within_noise]
    chosen = min(within, key=lambda entry: preference(entry, bias))
    names = tuple(entry.name for entry in sorted(within, key=lambda entry: entry.error))
    judgement = context.verdicts.get(best.name)
    if said := _useless(best, others, judgement):
        return Recommendation(None, best.name, NONE_TAKEN, (said,), names, verdict=judgement)
    why = _best(chosen, judged, compared) if chosen is best else _instead(chosen, best, compared[chosen.name], bias)
    judgement = context.verdicts.get(chosen.name)
    torques = judgement.uses[0].reasons if judgement is not None and judgement.go is not True else ()
    doubts = [
        *(reason for reason in torques if not context.substitute or "same run" not in reason),
        *_doubts(chosen, bias, bodies),
        *filter(None, (_unweighted(chosen, judged, context.joints), _late(context.late))),
    ]
    headline = f"Take the model of {chosen.name}"
    headline += ", for now" if context.substitute else ", with care" if doubts else ""
    reasons = (why, *doubts, PRIOR if chosen.name == "ridge" else "", _version(chosen, bodies))
    careful = bool(doubts) or context.substitute
    return Recommendation(chosen.name, best.name, headline, tuple(filter(None, reasons)), names, careful, judgement)


def _useless(best: MethodResult, others: Mapping[str, float], judgement: Verdict | None) -> str:
    """Say why even the best model must not be used: it is worse than none, or its verdict says so; else ""."""
    worse = [name for name in ("zero", "gravity only") if best.error >= others.get(name, float("inf"))]
    if not worse:
        against = judgement is not None and judgement.go is False
        reasons = " ".join(judgement.uses[0].reasons) if judgement is not None else ""
        return f"Even the best of them, {best.name}, must not be used. {reasons}" if against else ""
    said = (
        f"Even the best of them, {best.name}, leaves {percent(best.error)} of torques that it was not fitted to: "
        f"no better than {several([BASELINES[name] for name in worse])}. The data or the robot's model are wrong, "
        "and another estimator will not correct that."
    )
    if best.training.relative_total < FITTED * best.error:
        said += (
            f" Torques that it was fitted to it leaves {error_words(best.training.relative_total)} of, so check "
            "what differs in the held-out runs: signs, units, load."
        )
    return said


PRIOR = (
    "ridge relies on the robot's prior model where data have little information: values with a wide interval in wls "
    "depend on the prior as much as on the data."
)
BASELINES = {"zero": "no model at all", "gravity only": "gravity alone", "prior model": "the prior model"}


def preference(entry: MethodResult, bias: Bias | None) -> tuple[bool, bool, int]:
    """Sort key of equally good methods: physically possible first, then unbiased, then simple."""
    place = SIMPLEST.index(entry.name) if entry.name in SIMPLEST else len(SIMPLEST)
    return not entry.possible, bias is not None and bias.concerns(entry.name), place


def _best(chosen: MethodResult, judged: Results, compared: Differences) -> str:
    rest = [entry for entry in judged if entry is not chosen]
    others = sorted(rest, key=lambda entry: (round(entry.error, 6), preference(entry, None)))
    error = error_words(chosen.error)
    if not others:
        return f"It is the only method that gave an answer; of torques that it was not fitted to it leaves {error}."
    said = f"Of torques that none of the {len(judged)} methods was fitted to, it leaves {error}: the least of all."
    second, difference = others[0], compared[others[0].name]
    if difference.within_noise:
        return f"{said} {second.name} is as good within noise ({error_words(second.error)}), and no preferable choice."
    return (
        f"{said} The next, {second.name}, leaves {error_words(second.error)}; over other segments of time it would be "
        f"{points(difference.low)} to {points(difference.high)} more than the best, which is beyond noise."
    )


def _instead(chosen: MethodResult, best: MethodResult, difference: Difference, bias: Bias | None) -> str:
    """Explain why the best method is not recommended."""
    said = f"It leaves {error_words(chosen.error)} of torques that it was not fitted to. {best.name} leaves"
    if difference.low > 0.0:
        said += f" less by {points(difference.value)}, which is negligible."
    else:
        said += (
            f" a little less, {error_words(best.error)}, but the difference of {points(difference.value)} is within "
            f"the noise of these data: over other segments of time it would be between {points(difference.low)} and "
            f"{points(difference.high)}."
        )
    return f"{said} {_why(chosen, best, bias)}"


def _why(chosen: MethodResult, best: MethodResult, bias: Bias | None) -> str:
    if chosen.possible and not best.possible:
        return f"And the model of {chosen.name} is physically possible: {impossible(best)}."
    if bias is not None and bias.concerns(best.name) and not bias.concerns(chosen.name):
        return (
            f"And the Durbin-Wu-Hausman test (p = {bias.p_value:.2g}) rejects {best.name}, which assumes exact "
            f"measured motion; {chosen.name} does not."
        )
    return f"{chosen.name} is the simpler of the two: it assumes less, and is easier to check."


def impossible(entry: MethodResult) -> str:
    """Describe in what a model contradicts physics."""
    said = []
    if not entry.smallest_inertia > 0.0:
        said.append(
            f"the mass matrix that {entry.name} gives is not positive definite (smallest eigenvalue "
            f"{entry.smallest_inertia:.2g}), so a simulation of it would diverge"
        )
    if entry.driving:
        said.append(f"{entry.name} gives friction below 0 ({', '.join(entry.driving)}), which would drive its joint")
    return several(said)


def _doubts(chosen: MethodResult, bias: Bias | None, bodies: Mapping[str, float]) -> Iterator[str]:
    """List remaining doubts about the chosen method."""
    if not chosen.possible:
        said = f"Use it for torques of motions like these, not for simulation: {impossible(chosen)}."
        if chosen.name in bodies:
            said += f" Its physically consistent version, which leaves {error_words(bodies[chosen.name])}, is for that."
        yield said
    if chosen.error > POOR:
        yield (
            f"{percent(chosen.error)} is large: it is the best of poor models. Check the data first (rate, filter of "
            "positions, units) and to the robot's file."
        )
    if bias is not None and (bias.concerns(chosen.name) or bias.suspects(chosen.name)):
        yield bias.advice(chosen.name)


def _late(late: float | None) -> str:
    """Warn that a delay biases every method's parameters alike."""
    if late is None or abs(late) < LATE:
        return ""
    return (
        f"The equations fit best with torques moved by {1e3 * abs(late):.2g} ms {'back' if late > 0.0 else 'on'} in "
        "time. If that is a delay of the log, no method's parameters are right before it is compensated; if "
        "positions are hardly filtered, their noise can have the same effect."
    )


def _unweighted(chosen: MethodResult, judged: Results, joints: Sequence[str]) -> str:
    """List joints where ols, best in total error, is worse than wls: the total weights large torques, as ols does."""
    weighted = next((entry for entry in judged if entry.name == "wls"), None)
    if chosen.name != "ols" or weighted is None:
        return ""
    errors = zip(joints, weighted.held_out.relative.tolist(), chosen.held_out.relative.tolist(), strict=False)
    weak = [f"{joint} {error_words(other)} (ols {error_words(own)})" for joint, other, own in errors
            if own > WEAK * other]  # fmt: skip
    said = "But the error in total counts large torques most, and so does ols. Joint by joint wls leaves less at"
    return f"{said} {several(weak)}: take wls where those joints' torques or parameters matter." if weak else ""


def _version(chosen: MethodResult, bodies: Mapping[str, float]) -> str:
    """Recommend the physically consistent version where it costs nothing."""
    if not chosen.possible or chosen.name not in bodies or bodies[chosen.name] > AS_GOOD * chosen.error:
        return ""
    return (
        f"Its physically consistent version leaves {error_words(bodies[chosen.name])}, so it costs nothing: take that "
        "for simulation and control design."
    )


def points(difference: float) -> str:
    """Write a difference of errors, in percentage points."""
    return f"{100 * difference:.2g} points".replace("-", "\N{MINUS SIGN}")


CHANCE = 0.05  # of the parameters may differ by chance
LATE_BEYOND_RESOLUTION = 1e-4  # s
VAGUE = 1.5  # times the error of the model taken: far worse
REWARDED = 1.3  # times the error: instruments that predict worse than that are wrong, not unbiased
MEASURED = ("plain", "outliers", "weights", "prior")  # take the measured motion for the true one, and differ from iv
UNWEIGHTED = ("plain", "outliers", "prior")  # weigh joints, and differ from ols
SMOOTH = ("iv", "didim", "input-error", "filtered dynamic", "energy", "filtered power")  # use no measured acceleration
FRICTION = 0.4  # of what differs: then it is about friction


@dataclass(frozen=True)
class Dissent:
    """A method that disagrees with the one recommended."""

    method: MethodResult
    pair: Pair
    names: tuple[str, ...]  # of the parameters that are apart

    chosen: str  # the one recommended

    @property
    def kind(self) -> str:
        """Main difference between the two methods: of this method, or of the chosen one, against least squares."""
        own, other = kind_of(self.method.name), kind_of(self.chosen)
        if other == "instruments" and own in MEASURED:
            return "measured"
        return "unweighted" if other == "weights" and own in UNWEIGHTED else own


def kind_of(method: str) -> str:
    """Return the kind of a method: its main difference from least squares."""
    if any(word in method for word in ("energy", "power", "filtered")):
        return "timing"
    kinds = {"iv": "instruments", "didim": "simulated", "input-error": "simulated", "irls": "outliers"}
    return (kinds | {"tls": "columns", "ridge": "prior", "ols": "weights", "ml": "colour"}).get(method, "plain")


def dissents(judged: Results, pairs: Sequence[Pair], chosen: str) -> list[Dissent]:
    """Find the methods that differ from one in more parameters than expected within noise."""
    found = []
    for entry in judged:
        pair = pair_of(pairs, entry.name, chosen)
        if pair is not None and pair.apart is not None and len(pair.apart) > max(1.0, CHANCE * pair.compared):
            found.append(Dissent(entry, pair, pair.apart, chosen))
    return found


@dataclass(frozen=True)
class Symptoms:
    """Symptoms in the data of the causes for which estimators disagree."""

    late: float | None  # s, by which torques come after the motion; None where it is not sharp
    tails: tuple[str, ...]  # joints whose residuals have outliers
    friction: tuple[str, ...]  # joints whose residuals follow the velocity
    bias: Bias | None = None


def beliefs(
    robot: Robot,
    judged: Results,
    chosen: MethodResult,
    *,
    found: Sequence[Dissent],
    compared: Differences,
    signs: Symptoms,
) -> list[str]:
    """Describe which methods disagree with the recommended one, why, and which to believe."""
    said = [] if signs.bias is None else [signs.bias.sentence]
    said += filter(None, [_vague(judged, chosen, found)])
    if len(judged) == 1:
        return said
    if not found:
        return [*said, f"No other method contradicts {chosen.name}: parameters lie within each other's intervals."]
    for kind, explain in EXPLANATIONS.items():
        group = [dissent for dissent in found if dissent.kind == kind]
        if group:
            why = explain if isinstance(explain, str) else explain(signs)
            said.append(f"{_who(chosen, group)} {why} {_decided(chosen, group, compared, signs.bias)}")
    return [*said, *filter(None, [_friction(robot, chosen, found, signs)])]


def _vague(judged: Results, chosen: MethodResult, found: Sequence[Dissent]) -> str:
    """List methods that contradict nothing only because their intervals are wide."""
    loud = {dissent.method.name for dissent in found}
    vague = [e for e in judged if e.error > VAGUE * chosen.error and e.name not in loud]
    if not vague:
        return ""
    rows, one = max(entry.estimate.n_rows for entry in vague), len(vague) == 1
    fewer = rows < chosen.estimate.n_rows
    why = f"with {rows} equations for {len(chosen.estimate.names)} parameters " if fewer else ""
    return (
        f"{several([entry.name for entry in vague])} predict{'s' * one} far worse "
        f"({several([error_words(entry.error) for entry in vague])}) and still hardly contradict{'s' * one} anything: "
        f"{why}{'its' if one else 'their'} intervals are so wide that they have little information."
    )


def _who(chosen: MethodResult, group: Sequence[Dissent]) -> str:
    widest = max(group, key=lambda dissent: len(dissent.names))
    names, one = several([dissent.method.name for dissent in group]), len(group) == 1
    return (
        f"{names} contradict{'s' * one} {chosen.name} in {'up to ' * (not one)}{len(widest.names)} of "
        f"{widest.pair.compared} parameters "
        f"({some(widest.names, 5)}), by {percent(max(dissent.pair.torque for dissent in group))} of the torques."
    )


def _timing(signs: Symptoms) -> str:
    said = (
        "Momentum, energy and power weigh the same samples in another way than torques do, and so what filters left "
        "and the moment at which a torque was sampled."
    )
    if signs.late is not None and abs(signs.late) > LATE_BEYOND_RESOLUTION:
        when = "after" if signs.late > 0.0 else "before"
        return (
            f"{said} Torques seem to come {show(1e3 * abs(signs.late), 2)} ms {when} their motion, which alone can "
            "make them disagree: see to that first, and compare again."
        )
    return (
        f"{said} No common delay shows; then it is the weights, strong joints and fast motion counting most, or noise "
        "in accelerations, which only torques and power need."
    )


def _outliers(signs: Symptoms) -> str:
    if signs.tails:
        verb = "has" if len(signs.tails) == 1 else "have"
        return (
            f"It trusts samples less the worse they fit, and {several(signs.tails)} {verb} far more large residuals "
            "than noise makes: moments, such as reversals or contacts, in which the model lacks something."
        )
    return "It trusts samples less the worse they fit, though residuals show no outliers; so it discards good data."


def _instruments(signs: Symptoms) -> str:
    cause = " That is the difference which the test found." if signs.bias is not None and signs.bias.found else ""
    return f"It uses the measured motion only through a simulation, which fast noise does not pass.{cause}"


EXPLANATIONS: Mapping[str, str | Callable[[Symptoms], str]] = {
    "measured": "Least squares assume exact measured motion, despite its noise; iv uses it only through a simulation, "
    "which fast noise does not pass.",
    "unweighted": "ols does without weights, so that joints with large torques decide also over the parameters of the "
    "others.",
    "instruments": _instruments,
    "simulated": "Such methods fit torques simulated under a controller in place of measured motion; they are right "
    "only as far as that controller, and what was filtered, are those of the robot.",
    "timing": _timing,
    "outliers": _outliers,
    "weights": "Without weights, joints with large torques decide also over the parameters of the small ones.",
    "colour": "It treats the residuals as coloured noise that joints share, and weights fast changes of torque more "
    "than slow ones. Model errors are no noise, and then its parameters move to where they matter least.",
    "columns": "It assumes noise in the columns of the equations, too. Believe it where positions are hardly filtered; "
    "where they are, model errors are no such noise.",
    "prior": "It pulls poorly determined parameters towards the prior: their values are the prior's.",
    "plain": "Plain least squares trusts every sample of a joint alike, also those that fit badly.",
}


def _decided(chosen: MethodResult, group: Sequence[Dissent], compared: Differences, bias: Bias | None) -> str:
    """Describe which methods to believe; held-out errors do not decide over those that noisy motion may disfavour."""
    if group[0].kind == "unweighted":
        return (
            f"The held-out error in total ({_errors([d.method for d in group], chosen)}) counts large torques most "
            f"too: believe {chosen.name} for their joints, and compare the others joint by joint."
        )
    behind = [dissent for dissent in group if _misled(chosen, dissent, bias)]
    others = [dissent for dissent in group if not _misled(chosen, dissent, bias)]
    said = [_whom(chosen, others, compared, alone=not behind)] if others else []
    if behind:
        surely = bias is not None and bias.concerns(chosen.name)
        said.append(_either(chosen, behind) if surely else _open(chosen, behind))
    return " ".join(said)


def _errors(entries: Results, chosen: MethodResult) -> str:
    """List the errors of methods, and then that of the chosen one."""
    listed = several([f"{entry.name} {error_words(entry.error)}" for entry in entries])
    return f"{listed}, {chosen.name} {error_words(chosen.error)}"


def _misled(chosen: MethodResult, dissent: Dissent, bias: Bias | None) -> bool:
    """Return True if the held-out error is no criterion: noisy motion favours the bias that it causes."""
    if bias is None or dissent.method.error > REWARDED * chosen.error:
        return False
    if bias.concerns(chosen.name):
        return dissent.kind == "instruments"
    return bias.suspects(chosen.name) and dissent.method.name in SMOOTH


def _open(chosen: MethodResult, group: Sequence[Dissent]) -> str:
    return (
        f"The held-out error ({_errors([d.method for d in group], chosen)}) does not settle it: that motion is noisy "
        f"too, and favours the bias that the test suspects in {chosen.name}. Until positions are filtered more, take "
        "such parameters for known only as far as both intervals together."
    )


def _either(chosen: MethodResult, group: Sequence[Dissent]) -> str:
    name = group[0].method.name
    return (
        f"Held out {name} leaves {error_words(group[0].method.error)} and {chosen.name} {error_words(chosen.error)}, "
        f"but that motion is noisy too and favours the bias: believe {chosen.name} for torques along measured motion, "
        f"and {name} for the parameters themselves, for simulation and for feed-forward along planned motion."
    )


def _whom(chosen: MethodResult, group: Sequence[Dissent], compared: Differences, *, alone: bool = True) -> str:
    """Choose by the held-out errors; `alone`: these are all that were named before."""
    as_good = {d.method.name for d in group if compared[d.method.name].within_noise or d.method.error <= chosen.error}
    near = [d.method for d in group if d.method.name in as_good]
    far = [d.method for d in group if d.method.name not in as_good]
    said = []
    if far:
        verb = f"{several([m.name for m in far])} {'predicts' if len(far) == 1 else 'predict'}"
        if alone and not near:
            verb = "it is" if len(far) == 1 else "they are"
        said.append(f"Held out {verb} worse ({_errors(far, chosen)}), so believe {chosen.name}.")
    if near:
        said.append(
            f"Held out, {several([entry.name for entry in near])} and {chosen.name} predict equally well, so these "
            "motions do not decide: take such parameters for known only as far as both intervals together."
        )
    return " ".join(said)


def _friction(robot: Robot, chosen: MethodResult, found: Sequence[Dissent], signs: Symptoms) -> str:
    """Describe where estimators differ in friction."""
    friction = {term.parameter for term in robot.drive.friction}
    names = [name for dissent in found for name in dissent.names]
    about = sum(name in friction for name in names) >= FRICTION * len(names)
    said = "Much of what differs is friction." if about else ""
    if signs.friction:
        said += (
            f" Residuals of {chosen.name} at {several(signs.friction)} follow the velocity: friction there has another "
            "form than the robot's model, and every method changes other parameters to compensate."
        )
    return said.strip()


EXACT = ("ols", "wls", "irls", "ridge", "rls", "ml")  # take the measured motion for the true one


def bias_of(answers: Sequence[Answer], strong: bool) -> Bias | None:
    """Find the test's result among the methods' evidence; `strong`: the commanded motion is known."""
    evidence = next((one.evidence for one in answers if one.evidence.get("dwh_p") is not None), None)
    if evidence is None:
        return None
    return Bias(float(evidence["dwh_p"]), float(evidence.get("dwh_statistic", np.nan)), strong)


HEAVY = 3.0  # times as many residuals beyond three robust deviations as a normal distribution has
NORMAL_TAIL = 0.0027
TREND = 0.3  # of a joint's residuals, as a trend over velocity: friction that the model does not have
BINS = 12


def symptoms(prepared: ComparisonProblem, chosen: MethodResult, speed: FloatArray, late: float | None) -> Symptoms:
    """Find delay, outliers and wrong friction in a method's residuals; `speed` is of each equation's joint."""
    robot, judging, residual = prepared.problem.robot, prepared.judging, chosen.residual
    joints = [int(j) for j in np.unique(judging.joint)]
    worth = {entry.joint: entry.n_effective for entry in whiteness(judging, residual)}
    return Symptoms(
        late=late,
        tails=tuple(robot.joint_names[j] for j in joints if heavy(residual[judging.joint == j])),
        friction=tuple(
            robot.joint_names[j]
            for j in joints
            if trend(speed[judging.joint == j], residual[judging.joint == j], worth[judging.joint_names[j]]) > TREND
        ),
    )


def lateness(prepared: ComparisonProblem) -> float | None:
    """Estimate the delay of torques behind their motion, where it is well determined."""
    moving = [run for run in prepared.examined.training if not run.static]
    found = delay(prepared.problem.robot, moving, subset(prepared.problem.robot, moving)) if moving else None
    return found.late if found is not None and found.sharp else None


def heavy(residual: FloatArray) -> bool:
    """Return True if residuals have outliers: many more beyond 3 σ than a normal distribution."""
    scale = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    beyond = float(np.mean(np.abs(residual - np.median(residual)) > 3.0 * scale)) if scale > 0.0 else 0.0
    return beyond > HEAVY * NORMAL_TAIL


def trend(speed: FloatArray, residual: FloatArray, worth: float) -> float:
    """Compute the share of the residuals' rms explained by their mean over velocity, beyond the share due to noise.

    `worth`: their effective number of independent samples; means over BINS bins explain BINS / worth of noise.
    """
    edges = np.quantile(speed, np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    place = np.searchsorted(edges, speed)
    mean = np.bincount(place, residual, BINS) / np.maximum(np.bincount(place, minlength=BINS), 1)
    size = float(np.mean(residual**2))
    explained = float(np.mean(mean[place] ** 2)) / size if size > 0.0 else 0.0
    return float(np.sqrt(max(explained - BINS / max(worth, 1.0), 0.0)))


def error_words(value: Any) -> str:
    """Write an error with enough digits to distinguish methods."""
    number = finite(value)
    if number is None or abs(number) >= 10.0:
        return percent(number)
    digits = 2 if abs(number) < 0.995 else 0
    return f"{100 * number:.{digits}f} %".replace("-", MINUS)


def contradictions(data: Mapping[str, Any], entry: Mapping[str, Any]) -> int | None:
    """Count the parameters in which a method contradicts the chosen one, or the best; None where unknown."""
    advice = subtable(data, "recommendation")
    chosen = advice.get("method") or advice.get("best")
    for pair in entries(data, "pairs"):
        if {pair.get("one"), pair.get("other")} == {chosen, entry.get("name")} and pair.get("apart") is not None:
            return len(pair["apart"])
    return None


def outcome(data: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Describe a method's result in a few words."""
    if not entry.get("parameters"):
        refused = str(entry.get("refused") or "no reason given")
        return refused if refused.startswith("left out") else f"refused: {refused}"
    said = []
    eigenvalue = finite(entry.get("smallest_mass_matrix_eigenvalue"))
    if eigenvalue is not None and eigenvalue <= 0.0:
        said.append("its mass matrix is not positive definite")
    below = entries(entry, "friction_below_zero")
    if below:
        said.append(f"friction below 0: {', '.join(map(str, below))}")
    total = subtable(entry, "held_out").get("total")
    nothing = subtable(subtable(data, "baselines"), "zero").get("total")
    if total is not None and nothing is not None and total >= nothing:
        said.insert(0, "predicts worse than no model at all")
    behind = subtable(entry, "behind_the_best")
    if behind.get("value") == 0.0:
        said.insert(0, "least held-out error")
    elif behind.get("within_noise"):
        said.insert(0, "as good as the best within noise")
    bodies = subtable(entry, "consistent")
    if bodies.get("refused"):
        said.append(f"no consistent version: {bodies['refused']}")
    return "; ".join(said)
