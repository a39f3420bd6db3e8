"""Identification of a model from a campaign's logs: read, process, diagnose, fit, estimate uncertainty, validate."""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from excitor.experiments import logs
from excitor.experiments.align.channels import check_payload, payload_check, pooled_load
from excitor.experiments.align.nouns import REACH_95, Alignment, Check, Load, MeasuredRun, Misalignment
from excitor.experiments.campaign import FILE, LongRun, OpenCampaign, StatedController
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.files import write_atomically
from excitor.experiments.manifest import MANIFEST, PROGRAMS
from excitor.experiments.model import FILE as MODEL
from excitor.experiments.model import Fitted, Model, Standard, Weight, read_model
from excitor.identify import validate
from excitor.identify.band import paired_doubt
from excitor.identify.between import check_between, independent_weights
from excitor.identify.closed_loop import set_up_replay, simulate_runs
from excitor.identify.consistent import ConsistentEstimate, Delivered, consistent_of, delivered, prior_weight
from excitor.identify.currents import (
    LAW_NEEDED,
    LawDoubt,
    doubt_of_gains,
    gear_losses,
    in_amperes,
    law_doubt,
    law_sentence,
    one_current,
    response,
    why_not,
)
from excitor.identify.diagnose import Finding, check_moving, diagnose, moving_joints, several, usable
from excitor.identify.estimate import Estimate, Factors, compress, merge, select, wls
from excitor.identify.friction_form import BLOCKS, SURE, choose_friction, formed, sentence_of, with_load
from excitor.identify.instruments import durbin_wu_hausman, instrumental_variables
from excitor.identify.intervals import Intervals, believing, honest_intervals, segment_intervals
from excitor.identify.log import CURRENT
from excitor.identify.logs.formats import log_files
from excitor.identify.logs.long import ROWS
from excitor.identify.methods import SIMULATING, Problem, Weighting, affordable_sensitivity, answer, folds, wls_sigma
from excitor.identify.periods import other_repetition, repetition, same_motion
from excitor.identify.reduce import Reduction, Rule
from excitor.identify.regression import (
    Regression,
    Rows,
    columns_along,
    commanded_motion,
    dynamic_regression,
    pick_columns,
    pick_rows,
    segments,
    settled,
    subset,
)
from excitor.identify.samples import Samples, Step, pick_samples
from excitor.identify.signals import block_means, decimate
from excitor.identify.validate import Baselines, Errors, Parameters, Validation
from excitor.identify.verdict import Difference, Scores, Verdict, differences, verdict
from excitor.robots.arrays import FloatArray, finite, picked, plain
from excitor.robots.base import base_parameters, declared_names, random_motion, regroupings
from excitor.robots.belief import Prior
from excitor.robots.codegen import inverse_dynamics_code
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, RankDeficient, SolverError, choice
from excitor.robots.files.bounded import open_bounded
from excitor.robots.friction import friction_model
from excitor.robots.load import read_content, read_text
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Payload, Robot
from excitor.robots.simulate import Servo, dampings, servo_for, steady_servo
from excitor.robots.tree import Tree

Tell = Callable[[str], None]
LEAST_ROWS = 3  # equations a parameter; fewer fit anything
STANDSTILL = 0.01  # rad or m: a locked joint's servo may still sway by this
POSSIBLE = 0.99  # that no parameter of a sound robot is found to be below 0
CLEARLY = 1.5  # times the half-width of its 95 % interval: a loss that is modelled
COSTLIEST = 0.5  # of the residual: a consistent model that costs more contradicts the data
IN_PROCESS = "in-process"
SEGMENTS = 64  # of long logs at least, by which intervals are found
MANY = 10  # repetitions: the variances of fewer make poor weights
FATAL = ("values", "workspace", "absent", "rank")  # findings that no --allow overrides: there is nothing to fit


class UnusableData(ExcitorError):
    """Logs that cannot give a valid model, with the findings that explain why."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        wrong = [finding for finding in findings if finding.level == "unusable"]
        reasons = [str(finding) for finding in wrong]
        names = [finding.what for finding in wrong]
        if not set(names) & set(FATAL):
            words = " ".join(f"--allow {name.replace(' ', '-')}" for name in dict.fromkeys(names))
            reasons += [f"To go on all the same, with the doubt written into the model: excitor identify DIR {words}"]
        super().__init__("no model is written, because of what the data show:\n" + "\n".join(reasons))


@dataclass(frozen=True, eq=False, slots=True)
class StatedLoad:
    """The payload that campaign.toml states, whose torques were subtracted, and what the torques say of it."""

    payload: Payload
    runs: tuple[str, ...]  # made with it
    found: Load | None  # by torques, where they could weigh it
    wrong: tuple[Check, ...] = ()  # of runs without a program: what contradicts it

    @property
    def sentence(self) -> str:
        """What is stated, what was found, and what the model is of."""
        mass, sigma = float(self.payload.phi[9]), float(np.sqrt(self.payload.covariance[9, 9]))
        text = f"a load of {_kg(mass, sigma)} is stated on the tool"
        if self.found is None:
            text += "; its weight could not be checked"
        else:
            sees = self.found.total > REACH_95 * self.found.sigma
            verdict = f"confirmed, {_kg(*self.found.confirmed)} together" if sees else "too light to be told from none"
            text += f", torques indicate {_kg(self.found.total, self.found.sigma)}: {verdict}"
        return f"{text}; its torques were subtracted, so the model is of the arm without it"

    def to_json(self, robot: Robot) -> dict[str, Any]:
        """Convert to plain data as in model.json."""
        both = None if self.found is None else dict(zip(("mass", "sigma"), self.found.confirmed, strict=True))
        return {
            "link": robot.mechanism.link_names[self.payload.link],
            "frame": "link",
            **picked(self.payload, "phi covariance"),
            "runs": list(self.runs),
            "found": None if self.found is None else picked(self.found, "mass=total sigma"),
            "together": both,
            "sentence": self.sentence,
        }


def _kg(mass: float, sigma: float) -> str:
    return f"{mass:.3g} kg ({mass - REACH_95 * sigma:.3g} to {mass + REACH_95 * sigma:.3g})"


@dataclass(frozen=True)
class IdentifiedModel:
    """A model, its uncertainty, and its validation on held-out runs."""

    campaign: OpenCampaign
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]
    estimate: Estimate
    intervals: Intervals
    reduction: Reduction | None  # what left by sensitivity, where the campaign asks for it
    consistent: ConsistentEstimate | None
    refusal: str | None  # why there is no consistent model, where there is none
    smallest_inertia: float  # of the estimated M(q) over random poses, as an eigenvalue; a robot's is above 0
    delivered: Delivered  # what model.json hands out: the consistent parameters, or the estimate
    training: Validation  # of that model, as are the others
    held_out: Validation | None
    samples: Mapping[str, Samples]  # of every run, by its name
    alignments: Mapping[str, Alignment]  # of the runs of emitted programs
    load: StatedLoad | None  # that was subtracted
    known: Regression  # equations of the runs fitted to, about reversals of friction too
    unseen: Regression | None  # likewise of the others
    same_run: Validation | None = None  # where there are no others: of stretches kept back from a fit of its own
    over_prior: Difference | None = None  # of the held-out error, or that of the same run, over the prior's
    spread: float = 0.0  # share of those torques that the estimate's own covariance explains
    laws: LawDoubt | None = None  # of the currents that torques come from

    @cached_property
    def verdict(self) -> Verdict:
        """Decide what the model may be used for."""
        return verdict(scores_of(self))

    @cached_property
    def model(self) -> Model:
        """Build the model as in model.json."""
        return model_of(self)


@dataclass(frozen=True)
class Runs:
    """A campaign's runs as they were read."""

    campaign: OpenCampaign  # its robot with the joints locked that stand still
    samples: Mapping[str, Samples]  # of every run, by its name
    alignments: Mapping[str, Alignment]  # of the runs of emitted programs
    training: list[Samples]  # to fit to
    unseen: list[Samples]  # to validate on
    again: Mapping[str, str] = field(default_factory=dict)  # runs to validate on that repeat a motion fitted to: which

    @cached_property
    def load(self) -> StatedLoad | None:
        """The payload that campaign.toml states, as the runs show it; None where none carried it."""
        if self.campaign.content.payload is None:
            return None
        robots = {run.name: logs.robot_of_run(self.campaign, run) for run in self.campaign.content.run}
        off = {name for name, run in self.samples.items() if all(step.name != logs.SUBTRACTED for step in run.steps)}
        on = {name: robot.payload for name, robot in robots.items() if robot.payload is not None and name not in off}
        weighed = [self._weighed(name, payload) for name, payload in on.items()]
        loads = [load for load, _ in weighed if load is not None]
        found = pooled_load(loads) if loads else None
        wrong = tuple(check for _, checks in weighed for check in checks if not check.holds)
        return StatedLoad(next(iter(on.values())), tuple(on), found, wrong) if on else None

    def _weighed(self, name: str, payload: Payload) -> tuple[Load | None, list[Check]]:
        """Weigh the load of a run; where it is a program's, its alignment did."""
        run, robot = self.samples.get(name), replace(self.campaign.robot, payload=payload)
        if name in self.alignments or run is None or run.static:
            return self.alignments[name].load if name in self.alignments else None, []
        run = replace(run, tau=run.tau + logs.load_torques(robot, payload, run.motion))
        t = np.arange(len(run)) / run.sample_rate_hz
        return check_payload(MeasuredRun(name, t, run.motion.q, run.tau), robot, run)


@dataclass(frozen=True)
class UsableRuns(Runs):
    """Runs that passed their diagnosis, with its findings."""

    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Equations:
    """Equations of the runs that are fitted to, made from one set of columns."""

    fitted: Regression  # of the base parameters
    judging: Regression  # the same about reversals of friction too, where nothing is learned but a model is judged


def identify(campaign: OpenCampaign, tell: Tell = lambda _: None) -> IdentifiedModel:
    """Identify a campaign's robot; raise UnusableData if the data would bias the model."""
    return fit_examined(read_and_examine(campaign, tell), tell)


def fit_examined(examined: UsableRuns, tell: Tell = lambda _: None) -> IdentifiedModel:
    """Fit runs that were read and examined, with intervals, a consistent model and a validation."""
    campaign, settings = examined.campaign, examined.campaign.content.identify
    equations = known_equations(examined)
    unseen = judging_equations(campaign, examined.unseen) if examined.unseen else None
    found = answer(settings.method, problem_of(examined, equations.fitted, unseen))
    if found.estimate is None or found.intervals is None:
        raise ExcitorError(f"{settings.method} refuses: {found.refused}")
    estimate, intervals, parts = of_all_rows(examined, equations.fitted, found.estimate, found.intervals)
    tell(_fitted(estimate, settings.method, found.reduction))
    intervals, laws, found_now = with_doubts(examined, equations.fitted, estimate, intervals)
    findings = (*examined.findings, *parts, *found_now)
    if not usable(findings):
        raise UnusableData(findings)
    consistent, refusal = fit_consistent(campaign, estimate, chosen_weight(campaign, equations.fitted))
    model = delivered(campaign.robot, estimate, intervals.covariance, consistent)
    tell("physically consistent model found" if consistent else f"no physically consistent model: {refusal}")
    same_run = unseen is None
    judged = within_runs(examined, tell) if unseen is None else against_prior(examined, unseen, model)
    return IdentifiedModel(
        campaign=campaign,
        findings=findings,
        steps=tuple(step for samples in examined.samples.values() for step in samples.steps),
        estimate=estimate,
        intervals=intervals,
        reduction=found.reduction,
        consistent=consistent,
        refusal=refusal,
        smallest_inertia=smallest_inertia(campaign.robot, estimate),
        delivered=model,
        training=judge(examined, equations.judging, model, training=True),
        held_out=None if same_run else judged[0],
        samples=examined.samples,
        alignments=examined.alignments,
        load=examined.load,
        known=equations.judging,
        unseen=unseen,
        same_run=judged[0] if same_run else None,
        over_prior=judged[1],
        spread=judged[2],
        laws=laws,
    )


def of_all_rows(
    runs: Runs, regression: Regression, estimate: Estimate, intervals: Intervals
) -> tuple[Estimate, Intervals, tuple[Finding, ...]]:
    """Fit a model's parameters to all rows of long logs, part by part; a note says what stretches of them decided."""
    campaign, settings = runs.campaign, runs.campaign.content.identify
    if not campaign.long:
        return estimate, intervals, ()
    training = [one for one in campaign.long if one.run.role == "identify"]
    rows = sum(one.log.n_rows for one in campaign.long)
    said = f"{several([repr(one.run.name) for one in campaign.long])}: logs of some {rows} rows are read in parts; "
    chosen = "timing, band, form of friction, findings and errors are those of stretches spread over them"
    plain = settings.method == "wls" and settings.weights == "joint" and settings.mode != IN_PROCESS
    if not training or not plain or campaign.robot.drive.in_amperes:
        alone = "" if not training else ", as are parameters: only wls of a whole arm, from torques, takes all rows"
        return estimate, intervals, (Finding("note", "long log", f"{said}{chosen}{alone}", "nothing is to do", {}),)
    segments = list(_segments(runs, training, regression))
    kept = np.isin(regression.names, estimate.names)
    segments = [one if kept.all() else select(one, kept) for one in segments]
    found = wls(merge(segments))
    own = {joint: sigma for (joint, _), sigma in found.group_sigma.items()}
    groups = {(j, k): own[j] for j in own for k in range(len(regression.runs))}
    found = replace(found, group_sigma=groups)
    sentence = f"{said}parameters and intervals are those of all rows, {found.n_rows} equations; {chosen}"
    note = Finding("note", "long log", sentence, "nothing is to do", {"rows": rows, "equations": found.n_rows})
    return found, segment_intervals(segments, found), (note,)


def _segments(runs: Runs, long: Sequence[LongRun], regression: Regression) -> list[Factors]:
    """Compress equations of long logs, then those of other runs, by stretches of time; at most so many are kept."""
    campaign, rows = runs.campaign, rows_of(runs.campaign)
    found: list[Factors] = []
    width, held = 1, 0
    number = max(1, round(SEGMENTS * ROWS / sum(one.log.n_rows for one in long)))
    for samples in (samples for one in long for samples in logs.all_samples(campaign, one)):
        if len(samples) < 4 * campaign.content.processing.average_samples:
            continue
        for factors in _by_time(dynamic_regression(campaign.robot, [samples], rows=rows), number):
            if held < width and found:
                found[-1], held = merge([found[-1], factors]), held + 1
            else:
                found, held = [*found, factors], 1
            if len(found) == 2 * SEGMENTS and held == width:
                found, width = [merge(found[k : k + 2]) for k in range(0, len(found), 2)], 2 * width
                held = width
    stretches = {name for one in long for name in one.stretches}
    other = np.array([name not in stretches for name in regression.runs])[regression.run]
    return [*found, compress(pick_rows(regression, other))] if other.any() else found


def _by_time(equations: Regression, number: int) -> Iterator[Factors]:
    """Compress equations by stretches of time; they are not kept while the next ones are set up."""
    place = segments(equations, number)
    for k in np.unique(place):
        yield compress(pick_rows(equations, place == k))


def _fitted(estimate: Estimate, method: str, reduction: Reduction | None) -> str:
    said = f"fitted {len(estimate.names)} parameters to {estimate.n_rows} equations by {method}"
    left = "; {} are hidden by the motion, and its torques do not need {}"
    return said if reduction is None else said + left.format(len(reduction.hidden), len(reduction.removed))


# on unseen data: errors, their excess over the prior's, and what the estimate's own covariance explains of them
Judged = tuple[Validation | None, Difference | None, float]


def within_runs(examined: UsableRuns, tell: Tell) -> Judged:
    """Judge the method on stretches of its own runs, fitted without them; None where none can be kept back.

    Methods that simulate would take too long.
    """
    if examined.campaign.content.identify.method in SIMULATING:
        return None, None, 0.0
    try:
        parts = kept_back(examined)
        equations, unseen = known_equations(parts), judging_equations(parts.campaign, parts.unseen)
        found = answer(examined.campaign.content.identify.method, problem_of(parts, equations.fitted, unseen))
    except ExcitorError as error:
        tell(f"no stretch of the runs can be kept back to judge by: {error}")
        return None, None, 0.0
    if found.estimate is None:
        return None, None, 0.0
    consistent, _ = fit_consistent(parts.campaign, found.estimate, chosen_weight(parts.campaign, equations.fitted))
    covariance = None if found.intervals is None else found.intervals.covariance
    return against_prior(parts, unseen, delivered(parts.campaign.robot, found.estimate, covariance, consistent))


def scores_of(result: IdentifiedModel) -> Scores:
    """Collect the evidence that decides what a model may be used for."""
    judged = result.held_out or result.same_run
    unseen = {} if judged is None else scores_of_unseen(judged)
    noise = None if result.held_out is None else noise_share(result)
    consistent = result.consistent
    sound = consistent is not None and consistent.audit.holds
    return Scores(
        training=result.training.model.relative_total,
        same_run=result.held_out is None and result.same_run is not None,
        over_prior=result.over_prior,
        spread=result.spread,
        noise=noise if noise is not None and np.isfinite(noise) else None,
        loss=consistent.loss if sound and consistent is not None else None,
        in_amperes=result.campaign.robot.drive.in_amperes,
        refusal=result.refusal or "the consistent parameters failed their audit",
        smallest_inertia=result.smallest_inertia,
        open_friction=open_friction(result.campaign.robot, result.intervals),
        doubts=data_doubts(result.findings, result.alignments),
        **unseen,
    )


def data_doubts(findings: Sequence[Finding], alignments: Mapping[str, Alignment]) -> tuple[str, ...]:
    """List what is doubtful of the data, as sentences."""
    return (
        *(f"Of the data: {finding.sentence}" for finding in findings if finding.level == "doubtful"),
        *(
            f"The log of {name} hardly fits its plan: {check.sentence}"
            for name, alignment in alignments.items()
            for check in alignment.faults
            if check.level == "doubtful"
        ),
    )


def open_friction(robot: Robot, intervals: Intervals | None) -> tuple[str, ...]:
    """List friction parameters that cannot be negative, and whose interval holds 0."""
    if intervals is None:
        return ()
    friction = {term.parameter for term in robot.drive.friction if friction_model(term).sign == "positive"}
    ends = zip(intervals.names, intervals.low, intervals.high, strict=True)
    return tuple(name for name, low, high in ends if name in friction and low <= 0.0 <= high)


def scores_of_unseen(judged: Validation) -> dict[str, Any]:
    """Return the scores that held-out data give."""
    return {
        "held_out": judged.model.relative_total,
        "joints": dict(zip(judged.joints, map(float, judged.model.relative), strict=True)),
        "gravity": judged.baselines["gravity only"].relative_total,
        "prior": judged.baselines["prior model"].relative_total,
    }


def against_prior(runs: Runs, regression: Regression, model: Delivered) -> Judged:
    """Judge a model on held-out runs, and its error's excess over the prior's; None where there is no prior."""
    judged, explained = judge(runs, regression, model), pick_columns(regression, model.names).W @ model.root
    spread = float(np.linalg.norm(explained) / max(float(np.linalg.norm(regression.y)), np.finfo(float).tiny))
    if not runs.campaign.robot.known.any():
        return judged, None, spread
    prior = baselines_of(runs, regression, model).prior
    residuals = [regression.y - prior, regression.y - validate.estimated_torques(regression, model)]
    return judged, differences(regression, residuals, 0)[1], spread


def read_runs(campaign: OpenCampaign, tell: Tell = lambda _: None) -> Runs:
    """Read all runs of a campaign; currents without a law become those of one drive."""
    unlawful = not campaign.robot.drive.has_current_law and not why_not(campaign.robot)
    own, measured = logs.settle(replace(campaign, robot=in_amperes(campaign.robot)) if unlawful else campaign)
    campaign = replace(own, robot=campaign.robot)
    try:
        read = {
            run.name: logs.read_run_aligned(own, run, measured=measured.pop(run.name, None)) for run in own.content.run
        }
    except Misalignment as error:
        raise _of_all_runs(own, error) from None
    campaign, runs = with_mode(campaign, {name: samples for name, (samples, _) in read.items()})
    roles = {run.name: run.role for run in campaign.content.run}
    robot = with_locked(campaign, list(runs.values()))
    bare = robot if campaign.content.payload is None else replace(robot, payload=None)
    campaign = replace(campaign, robot=bare)
    tell(f"read {len(runs)} runs, {sum(len(samples) for samples in runs.values())} samples")
    for sentence in logs.filter_sentences(runs):
        tell(sentence)
    if own.timing is not None:
        tell(own.timing.sentence)
    training = [samples for name, samples in runs.items() if roles[name] == "identify"]
    again = repeated_motions([run for name, run in runs.items() if roles[name] == "validate"], training)
    found = Runs(
        campaign=campaign,
        samples=runs,
        alignments={name: alignment for name, (_, alignment) in read.items() if alignment is not None},
        training=training,
        unseen=[samples for name, samples in runs.items() if roles[name] == "validate" and name not in again],
        again=again,
    )
    return with_friction_form(_in_one_current(found, tell) if unlawful else found, tell)


def _of_all_runs(campaign: OpenCampaign, error: Misalignment) -> Misalignment:
    """Weigh a load that contradicts what is stated by all runs of programs; the error itself where that is not all."""
    if {check.cause for check in error.checks} != {"wrong payload"}:
        return error
    found = {
        run.name: (alignment.load, payload_check(logs.robot_of_run(campaign, run), alignment.load))
        for run in campaign.content.run
        if run.program is not None
        for alignment in [logs.read_run_aligned(campaign, run, unknown_load=True)[1]]
        if alignment is not None and alignment.load is not None
    }
    first = next((run for run in campaign.content.run if run.name in found and not found[run.name][1].holds), None)
    if first is None:
        return error
    one = found.pop(first.name)[0]
    alike = {name: load for name, (load, _) in found.items() if load.stated == one.stated}
    check = payload_check(logs.robot_of_run(campaign, first), pooled_load([one, *alike.values()]))
    return error if check.holds else Misalignment(several([first.name, *alike]), [check])


def with_friction_form(runs: Runs, tell: Tell) -> Runs:
    """Choose the form of each joint's friction from the runs to fit to, unless it stays as the robot's file has it."""
    campaign = runs.campaign
    if campaign.content.identify.friction == "as stated":
        return runs
    try:
        equations = known_equations(runs)
    except ExcitorError:  # said where they are fitted
        return runs
    laps = [0 if run.static else repetition(run.motion.q) for run in runs.training]
    given = equations.judging, equations.fitted
    choice = choose_friction(campaign.robot, runs.training, *given, rows_of(campaign), laps)
    if choice is None:
        return runs
    robot = formed(campaign.robot, choice)
    chosen = replace(runs, campaign=replace(campaign, robot=robot, friction=choice))
    chosen = with_losses(chosen, campaign.robot) or chosen
    tell(sentence_of(chosen.campaign.friction or choice))
    return chosen


def with_losses(runs: Runs, stated: Robot) -> Runs | None:
    """Give joints whose gears surely lose torque friction that grows with the torque they carry; None where none do.

    It is the one model of losses: a stated efficiency is estimated by it. Equations of held-out blocks decide.
    """
    campaign = runs.campaign
    robot, gears = campaign.robot, campaign.robot.drive.motor_from_joint
    if campaign.friction is None or not robot.known.any() or not np.array_equal(gears, np.diag(np.diagonal(gears))):
        return None
    tested = replace(robot, drive=replace(robot.drive, efficiency=np.ones(robot.n_joints)))
    try:
        plain = known_equations(runs).fitted
        estimate = wls(compress(plain))
        found = gear_losses(tested, as_measured(runs, runs.training), plain, estimate, thinner(campaign))
        lossy = [] if found is None else [name for name, (x, s) in _shares(found) if x > CLEARLY * s]
        if not lossy:
            return None
        robot = formed(stated, with_load(robot, campaign.friction, lossy, 1.0, 0.0))
        robot = replace(robot, drive=replace(robot.drive, efficiency=np.ones(robot.n_joints)))
        loaded = known_equations(replace(runs, campaign=replace(campaign, robot=robot))).fitted
        if len(plain) != len(loaded):
            return None
        before, after = (_block_errors(one, independent_weights(plain)) for one in (plain, loaded))
    except (ExcitorError, ValueError, np.linalg.LinAlgError):  # said where they are fitted
        return None
    doubt = paired_doubt(before, after)
    if after.sum() >= before.sum() or doubt < SURE:
        return None
    ratio = float(np.sqrt(before.sum() / after.sum()))
    choice = with_load(campaign.robot, campaign.friction, lossy, ratio, doubt)
    return replace(runs, campaign=replace(campaign, robot=robot, friction=choice))


def _shares(found: Finding) -> list[tuple[str, tuple[float, float]]]:
    """Return the share that each joint's gear loses, with the half-width of its 95 % interval, %."""
    pairs = [(name, value) for name, value in found.data.items() if isinstance(value, tuple)]
    return [(name, (float(value[0]), float(value[1]))) for name, value in pairs]


def losses_note(robot: Robot, intervals: Intervals) -> Finding | None:
    """Say which losses of gears are in the model, or that stated ones are not; None where there are neither."""
    load = [term for term in robot.drive.friction if friction_model(term).load and term.parameter in intervals.names]
    data: dict[str, Any] = {}
    for term in load:
        k = intervals.names.index(term.parameter)
        half = 50.0 * float(intervals.high[k] - intervals.low[k])
        data[robot.joint_names[int(np.argmax(np.abs(term.acts)))]] = (100.0 * float(intervals.values[k]), half)
    if data:
        words = ", ".join(f"{name} {x:.2g} ± {half:.2g} %" for name, (x, half) in data.items())
        sentence = f"gears lose torque by the direction of power, which the model has as friction by load: {words}"
        return Finding("note", "losses", sentence, "state no efficiency beside it", data)
    if (robot.drive.efficiency == 1.0).all():
        return None
    sentence = (
        "the stated efficiency of gears is not in the model: these torques do not surely tell losses from friction"
    )
    return Finding("note", "losses", sentence, "record motors' torques of longer or faster motions", data)


def _block_errors(regression: Regression, weight: FloatArray) -> FloatArray:
    """Squared errors of each block of motion, weighted, by parameters fitted to all other blocks."""
    block, W, y = segments(regression, BLOCKS), weight[:, None] * regression.W, weight * regression.y
    errors = np.zeros(BLOCKS)
    for k in np.unique(block):
        kept = block == k
        errors[k] = np.sum((y[kept] - W[kept] @ np.linalg.lstsq(W[~kept], y[~kept])[0]) ** 2)
    return errors


def _in_one_current(runs: Runs, tell: Tell) -> Runs:
    """Bring currents without a law to one drive's, by gains that make one model fit all joints."""
    measured = [samples for samples in runs.samples.values() if any(step.name == CURRENT for step in samples.steps)]
    if not measured:
        return runs
    if len(measured) < len(runs.samples):
        raise ExcitorError(f"{FILE}: some runs log torques and others currents without a law; {LAW_NEEDED}")
    robot = in_amperes(runs.campaign.robot)
    equations = judging_equations(replace(runs.campaign, robot=robot), runs.training)
    robot, gains, reference = one_current(robot, equations)
    step = Step("currents in A of one drive", {"drive": robot.joint_names[reference]})
    said = ", ".join(f"{gain:.3g}" for gain in gains)
    tell(f"no current law: currents in A of {robot.joint_names[reference]}, of which 1 A of each drive is {said}")
    if runs.campaign.content.payload is not None:
        tell("the stated load is in kg and cannot be subtracted from currents: the model is of the arm with it")

    def scaled(samples: Samples) -> Samples:
        squared = {key: getattr(samples, key) for key in ("variance", "noise") if getattr(samples, key) is not None}
        squared = {key: values * gains**2 for key, values in squared.items()}
        return replace(samples, tau=samples.tau * gains, steps=(*samples.steps, step), robot=robot, **squared)

    made = {key: scaled(samples) for key, samples in runs.samples.items()}
    training, unseen = ([made[samples.run] for samples in some] for some in (runs.training, runs.unseen))
    return Runs(replace(runs.campaign, robot=robot), made, runs.alignments, training, unseen, runs.again)


def with_mode(campaign: OpenCampaign, runs: dict[str, Samples]) -> tuple[OpenCampaign, dict[str, Samples]]:
    """Settle the mode of an identification; in-process, hold joints where they stand still in a run.

    It is in-process by default where joints stand still in all logs of a campaign that has no plan. All equations count
    then where friction is smooth, and parameters leave by what runs to validate on, or held-out stretches, show. A
    process shows too little friction to choose its form: it stays as stated unless the campaign asks for the choice.
    """
    settings, processing, robot = campaign.content.identify, campaign.content.processing, campaign.robot
    mode = settings.mode or (IN_PROCESS if _is_process(campaign, runs) else "full")
    update: dict[str, Any] = {"mode": mode}
    if mode == IN_PROCESS:
        validated = any(run.role == "validate" for run in campaign.content.run)
        update["acceptance"] = settings.acceptance or ("validation" if validated else "cross-validated")
        update["consistent"] = False
        update["friction"] = settings.friction if "friction" in settings.model_fields_set else "as stated"
        if all(term.width > 0.0 for term in robot.drive.friction if friction_model(term).reverses):
            rows = {"dead_zone_percent", "settling_s"} - processing.model_fields_set
            processing = processing.model_copy(update=dict.fromkeys(rows, 0.0))
        runs = {name: _held(robot, run) for name, run in runs.items()}
    content = {"identify": settings.model_copy(update=update), "processing": processing}
    return replace(campaign, content=campaign.content.model_copy(update=content)), runs


def _is_process(campaign: OpenCampaign, runs: Mapping[str, Samples]) -> bool:
    """Find whether joints stand still in all runs to fit to: not merely in the log, which may lack their positions."""
    content, robot = campaign.content, campaign.robot
    own = [runs[run.name] for run in content.run if run.role == "identify" and not run.static]
    planned = any(run.program or run.period_s for run in content.run) or (campaign.folder / DESIGN).exists()
    settings = content.identify
    if planned or not own or settings.method != "wls" or settings.essential_ratio is not None:
        return False
    moving = np.any([moving_joints(robot, run) for run in own], axis=0)
    moving |= np.isin(robot.joint_names, [*content.locked, *(robot.joint_names[j] for j in robot.locked)])
    live = moving | np.any([np.ptp(run.motion.q, axis=0) > 0.0 for run in own], axis=0)
    return bool(moving.any() and not moving.all() and live.all())


def _held(robot: Robot, run: Samples) -> Samples:
    still = ~moving_joints(robot, run)
    if run.static or not still.any():
        return run
    q, *rest = (np.where(still, at, getattr(run.motion, key)) for key, at in
                (("q", run.motion.q.mean(axis=0)), ("dq", 0.0), ("ddq", 0.0)))  # fmt: skip
    names = ", ".join(name for name, at_rest in zip(robot.joint_names, still, strict=True) if at_rest)
    return replace(run, motion=Motion(q, *rest), steps=(*run.steps, Step("hold joints at rest", {"joints": names})))


def read_and_examine(campaign: OpenCampaign, tell: Tell = lambda _: None) -> UsableRuns:
    """Read all runs and diagnose them; raise UnusableData if they would bias the model."""
    runs = read_runs(campaign, tell)
    allow = campaign.content.identify.allow
    findings = (*allowed(logs.band_findings(runs.campaign), allow), *load_findings(runs), *examine_all(runs))
    for finding in findings:
        tell(f"{finding.level}: {finding}")
    if not usable(findings):
        raise UnusableData(findings)
    findings = (*findings, *noise_findings(runs))
    own = (runs.campaign, runs.samples, runs.alignments, runs.training, runs.unseen, runs.again)
    return UsableRuns(*own, findings=findings)


def noise_findings(runs: Runs) -> tuple[Finding, ...]:
    """Test whether noise of the motion biases least squares; nothing where no run has instruments.

    They are columns along the commanded motion, or along another repetition of the same motion in the same run.
    """
    commanded = planned_references(runs.alignments, runs.training, None) or {}
    motions, sources = list[Motion](), set[str]()
    for run in runs.training:
        if run.static:
            motions.append(run.motion)
        elif run.run in commanded:
            motions.append(commanded_motion(run, commanded, run.sample_rate_hz))
            sources.add("the commanded motion")
        elif period := repetition(run.motion.q):
            motions.append(other_repetition(run.motion, period))
            sources.add("other repetitions of the motion")
        else:
            return ()
    try:
        fitted = known_equations(runs).fitted
        fitted = pick_rows(fitted, fitted.sample % -(-len(fitted) // MOST_TESTED) == 0)
        Z = columns_along(runs.campaign.robot, runs.training, motions, fitted, thinner(runs.campaign))
        squares = wls(compress(fitted))
    except ExcitorError:  # too few equations: nothing can be said by them
        return ()
    try:
        found = instrumental_variables(fitted, lambda _: Z, start=squares)
    except ExcitorError as error:
        if commanded or isinstance(error, RankDeficient):
            return ()
        sentence = "repetitions of the motion do not show the same accelerations: most of these are noise of positions"
        return (Finding("doubtful", "noisy regressors", sentence, "state a lower lowpass_hz in [processing]", {}),)
    test, own = durbin_wu_hausman(fitted, Z, squares, found.estimate.values), honest_intervals(fitted, squares)
    moved = float(np.max(np.abs(found.estimate.values - squares.values) / (own.high - squares.values)))
    needed = test.needed and moved > 1.0  # weak instruments are no excuse: noise makes those of a repetition weak
    sentence = f"with {' and '.join(sorted(sources))} as instruments: {test.sentence}"
    sentence += f"; by them, parameters move by up to {moved:.2g} of their intervals' half-widths"
    remedy = "compare with `excitor compare --method iv`, or record more repetitions" if needed else "nothing to do"
    data = {"p_value": test.p_value, "moved": moved, "strength": found.strength.F}
    return (Finding("doubtful" if needed else "note", "noisy regressors", sentence, remedy, data),)


def known_equations(runs: Runs) -> Equations:
    """Build the equations to fit; ExcitorError where they are too few for the parameters."""
    campaign, rows = runs.campaign, rows_of(runs.campaign)
    judging = judging_equations(campaign, runs.training)
    fitted = settled(judging, campaign.robot, runs.training, rows)
    _check_left(fitted)
    if len(fitted) < LEAST_ROWS * len(fitted.names):
        raise ExcitorError(
            f"{len(fitted)} equations are left for {len(fitted.names)} parameters; "
            "lower processing.decimate or dead_zone_percent, or record more"
        )
    return Equations(fitted, judging)


def judging_equations(campaign: OpenCampaign, runs: list[Samples]) -> Regression:
    """Build the equations for evaluating a model; ExcitorError where thinning and the dead zone leave none.

    They include the rows about reversals of friction, which are not fitted.
    """
    rows = replace(rows_of(campaign), settling=0.0)
    try:
        regression = dynamic_regression(campaign.robot, runs, rows=rows)
    except ValueError as error:
        names = ", ".join(samples.run for samples in runs)
        raise ExcitorError(f"{names}: cannot be thinned: {error}; see processing.decimate") from None
    if campaign.content.identify.mode == IN_PROCESS:  # torques of joints at rest are those of their dry friction
        moves = np.array([moving_joints(campaign.robot, run) | run.static for run in runs])
        regression = pick_rows(regression, moves[regression.run, regression.joint])
    _check_left(regression)
    return regression


def _check_left(regression: Regression) -> None:
    if not len(regression):
        raise ExcitorError(
            f"{', '.join(regression.runs)}: no equations are left; lower processing.decimate or dead_zone_percent"
        )


def as_measured(runs: Runs, some: list[Samples]) -> list[Samples]:
    """Add the torques of a subtracted load again: drives gave them, and their faults show in the sum."""
    load, robot = runs.load, runs.campaign.robot
    if load is None:
        return some
    more = [(run.run in load.runs) * logs.load_torques(robot, load.payload, run.motion) for run in some]
    return [replace(run, tau=run.tau + tau) for run, tau in zip(some, more, strict=True)]


def with_doubt(runs: Runs, regression: Regression, estimate: Estimate, intervals: Intervals) -> Intervals:
    """Add the uncertainty of what torques rest on: relative gains of currents without a law, or the subtracted load φ.

    ∂β/∂φ = - W⁺ W_loaded B, with B φ the load's base parameters.
    """
    drives = [str(step.settings["drive"]) for run in runs.training for step in run.steps if "drive" in step.settings]
    if drives:  # of which the load stays part of the arm
        drive, white = runs.campaign.robot.joint_names.index(drives[0]), float(np.median(intervals.inflation))
        return believing(intervals, doubt_of_gains(regression, estimate, drive, white))
    load = runs.load
    if load is None:
        return intervals
    base, link = base_parameters(runs.campaign.robot), layout(runs.campaign.robot).link(load.payload.link)
    B = np.column_stack([base.values(unit) for unit in np.eye(len(layout(runs.campaign.robot)))[link]])
    on = np.isin(regression.runs, load.runs)[regression.run]
    S = B[[regression.names.index(name) for name in estimate.names]]
    if not on.all():
        S = response(regression, estimate, (regression.W * on[:, None]) @ B)
    return believing(intervals, S @ load.payload.covariance @ S.T)


def with_doubts(
    runs: Runs, regression: Regression, estimate: Estimate, intervals: Intervals
) -> tuple[Intervals, LawDoubt | None, tuple[Finding, ...]]:
    """Add the doubts about a subtracted load and current laws; find impossible values, and what gears lose."""
    robot = runs.campaign.robot
    intervals = with_doubt(runs, regression, estimate, intervals)
    given = robot, as_measured(runs, runs.training), regression, estimate, thinner(runs.campaign)
    laws, lost = law_doubt(*given), gear_losses(*given)
    intervals = intervals if laws is None else believing(intervals, laws.covariance)
    lost = lost or losses_note(robot, intervals)
    found = allowed(impossible_values(robot, intervals, runs.training), runs.campaign.content.identify.allow)
    if laws is not None:
        remedy = "a weighed load gives the laws themselves"
        found = (*found, Finding("note", "current laws", law_sentence(laws.sigma, laws.what), remedy, {}))
    return intervals, laws, (*found, *(() if lost is None else (lost,)))


def examine(robot: Robot, runs: list[Samples]) -> tuple[Finding, ...]:
    """Diagnose runs that move; static poses are no series of time."""
    moving = [samples for samples in runs if not samples.static]
    return diagnose(robot, moving) if moving else ()


def load_findings(runs: Runs) -> tuple[Finding, ...]:
    """State what the runs show of the stated load."""
    load = runs.load
    if load is None:
        return ()
    wrong = tuple(Finding("unusable", "payload", check.sentence, check.remedy, {}) for check in load.wrong)
    known = Finding("note", "payload", load.sentence, "excitor export --with-tool adds it", {})
    return allowed(wrong, runs.campaign.content.identify.allow) or (known,)


def examine_all(runs: Runs) -> tuple[Finding, ...]:
    """Diagnose the runs to fit to and those to validate on, and compare all with each other."""
    campaign = runs.campaign
    robot = campaign.robot if runs.load is None else replace(campaign.robot, payload=runs.load.payload)
    again = [runs.samples[name] for name in runs.again]
    training, unseen = (as_measured(runs, some) for some in (runs.training, [*runs.unseen, *again]))
    at_rest: tuple[Finding, ...] = ()
    if campaign.content.identify.mode == IN_PROCESS:
        robot, at_rest = without_rest(robot, training)
    seen = *allowed(examine(robot, training), campaign.content.identify.allow), *doubts(examine(robot, unseen))
    if campaign.content.identify.mode == IN_PROCESS:  # what its motion does not show leaves the model
        held = [finding.data["joint"] for finding in at_rest]
        seen = tuple(f for f in seen if f.what not in ("rank", "absent") and f.data.get("joint") not in held)
    found = (*at_rest, *seen)
    if campaign.long:  # what each of its stretches shows is said once
        found = tuple(
            {logs.whole_name(f.sentence): replace(f, sentence=logs.whole_name(f.sentence)) for f in found}.values()
        )
    if not usable(found):
        return found
    moving = [run for run in (*runs.training, *runs.unseen, *again) if not run.static]
    return (*found, *again_findings(runs), *check_between(campaign.robot, moving, rows_of(campaign)))


def again_findings(runs: Runs) -> tuple[Finding, ...]:
    """Say which runs to validate on count as no unseen ones; a doubt where no other is left."""
    if not runs.again:
        return ()
    named = several([f"{name!r} that of {which!r}" for name, which in runs.again.items()])
    sentence = f"runs to validate on repeat a motion that was fitted to, {named}: they count as no unseen ones"
    remedy = "nothing to do, as others are" if runs.unseen else 'give a run of another motion role = "validate"'
    return (Finding("note" if runs.unseen else "doubtful", "again", sentence, remedy, {"runs": tuple(runs.again)}),)


def without_rest(robot: Robot, runs: Sequence[Samples]) -> tuple[Robot, tuple[Finding, ...]]:
    """Lock the joints that stand still in all runs, and say what the runs therefore do not show."""
    moving = [run for run in runs if not run.static]
    still = list(check_moving(robot, moving)) if moving else []
    more = ", and its own torque is not modelled: the model is of motions that leave it there"
    remedy = "record a run that moves it to model it as well"
    found = (replace(f, level="doubtful", what="at rest", sentence=f.sentence + more, remedy=remedy) for f in still)
    places = [robot.joint_names.index(str(f.data["joint"])) for f in still]
    return replace(robot, locked={**robot.locked, **{j: float(moving[0].motion.q[0, j]) for j in places}}), tuple(found)


def doubts(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Downgrade unusable findings of validation runs to doubtful ones."""
    return tuple(_doubtful(finding, "of the validation") for finding in findings if finding.level == "unusable")


def _doubtful(finding: Finding, why: str) -> Finding:
    return replace(finding, level="doubtful", sentence=f"{why}: {finding.sentence}")


def allowed(findings: tuple[Finding, ...], names: Sequence[str]) -> tuple[Finding, ...]:
    """Downgrade unusable findings that a campaign allows by name to doubtful ones."""
    known = {name.replace("-", " ") for name in names} - set(FATAL)
    return tuple(
        _doubtful(finding, "allowed") if finding.level == "unusable" and finding.what in known else finding
        for finding in findings
    )


def impossible_values(robot: Robot, intervals: Intervals, runs: Sequence[Samples] = ()) -> tuple[Finding, ...]:
    """List friction and rotor inertias surely below 0: a wrong sign, scale, filter or clock causes it.

    Many are asked at once, and of a sensor behind the gears friction is 0: the bound is one of all of them together.
    Of a rotor it is a doubt, and of friction where all of the joint's together resists: the torques may be right.
    """
    base = base_parameters(robot)
    plain = {name for name, form in zip(base.names, regroupings(robot, base), strict=True) if name == form}
    positive = {term.parameter: "friction cannot drive a joint" for term in robot.drive.friction
                if friction_model(term).sign == "positive"}  # fmt: skip
    positive |= {rotor.parameter: "no rotor has that" for rotor in robot.drive.rotors if rotor.parameter in plain}
    asked = max(1, sum(name in positive for name in intervals.names))
    wider = NormalDist().inv_cdf(1.0 - (1.0 - POSSIBLE) / asked) / REACH_95
    bounds = intervals.values + wider * (intervals.high - intervals.values)
    impossible = [
        (name, float(value), float(high))
        for name, value, high in zip(intervals.names, intervals.values, bounds, strict=True)
        if name in positive and high < 0.0
    ]
    friction = {term.parameter for term in robot.drive.friction}
    drives = dict.fromkeys(positive, False) | (_driving(robot, intervals, runs) if impossible else {})
    return tuple(
        Finding(
            "unusable" if drives[name] else "doubtful",
            "friction" if name in friction else "inertia",
            f"{name} is {value:.3g}, surely below 0 (at most {high:.3g}, with {100.0 * POSSIBLE:g} % for all {asked} "
            f"parameters that cannot be): {positive[name]}"
            + ", although all of its joint together resists"
            * (name in friction and not drives[name]),
            "check the torque's sign and scale, the sample rate, the low-pass and which joints stand still",
            {"value": value, "high": high},
        )
        for name, value, high in impossible
    )


def _driving(robot: Robot, intervals: Intervals, runs: Sequence[Samples]) -> dict[str, bool]:
    """Find, for each friction parameter, whether all friction of a joint that it acts on drives it along the runs."""
    moving = [run for run in runs if not run.static]
    own = {term.parameter for term in robot.drive.friction if friction_model(term).sign == "positive"}
    values = {name: value for name, value in zip(intervals.names, intervals.values, strict=True) if name in own}
    if not moving:
        return dict.fromkeys(values, True)
    seen = subset(robot, moving)
    columns = {name: seen.W[:, :, seen.names.index(name)] for name in values if name in seen.names}
    torque = sum((values[name] * column for name, column in columns.items()), np.zeros(seen.tau.shape))
    power = np.sum(torque * seen.motion.dq, axis=0)
    acts = {name: np.any(column != 0.0, axis=0) for name, column in columns.items()}
    return {name: name not in acts or bool((power[acts[name]] < 0.0).any()) for name in values}


def with_locked(campaign: OpenCampaign, runs: list[Samples]) -> Robot:
    """Lock the joints that the campaign declares still at their measured positions."""
    robot = campaign.robot
    held = dict(robot.locked)
    for name in campaign.content.locked:
        if name not in robot.joint_names:
            some = f"expected some of {choice(name, robot.joint_names)}"
            raise ExcitorError(f"locked: no joint is named {name!r}; {some}")
        i = robot.joint_names.index(name)
        travel = max(float(np.ptp(samples.motion.q[:, i])) for samples in runs)
        if travel > STANDSTILL:
            raise ExcitorError(f"locked: {name!r} moves by {travel:.3g} rad or m in the logs; take it out of the list")
        held[i] = float(np.mean([samples.motion.q[:, i].mean() for samples in runs]))
    if len(held) == robot.n_joints:
        raise ExcitorError("locked: every joint is locked, so nothing is left to identify")
    return replace(robot, locked=held)


def rows_of(campaign: OpenCampaign) -> Rows:
    """Return the selection of equations: thinned, and without slow joints."""
    settings = campaign.content.processing
    every = campaign.content.identify.mode == IN_PROCESS and not settings.dead_zone_percent  # rows at rest as well
    zone = None if every else logs.dead_zone(campaign)
    spoiled = 0.0 if settings.average_samples > 1 else 0.5
    return Rows(thinner(campaign), zone, settings.settling_s, spoiled)


def thinner(campaign: OpenCampaign) -> Callable[[FloatArray], FloatArray] | None:
    """Build the common decimation of torques, columns and velocities."""
    factors, width = tuple(campaign.content.processing.decimate), campaign.content.processing.average_samples
    if width > 1:
        return lambda x: block_means(x, width)
    return (lambda x: decimate(x, factors)) if factors else None


def weighting_of(
    campaign: OpenCampaign, training: Sequence[Samples], unseen: Regression | None, runs: list[Samples]
) -> Weighting:
    """Return the campaign's weighting of rows in wls, and its reduction of the model."""
    settings, robot = campaign.content.identify, campaign.robot
    if settings.acceptance is None:
        return Weighting(settings.weights, settings.essential_ratio)
    rule = Rule(settings.acceptance, tolerance=settings.tolerance, essential=preset(campaign, training))
    in_process = settings.mode == IN_PROCESS
    if in_process and all(run.variance is not None and not 0 < run.repetitions < MANY for run in training):
        rule = replace(rule, weights="sample")
    judging = None
    if settings.acceptance == "validation" and unseen is not None:
        judging = settled(unseen, robot, runs, rows_of(campaign))
    return Weighting(settings.weights, rule=rule, judging=judging, in_process=in_process)


def preset(campaign: OpenCampaign, training: Sequence[Samples]) -> tuple[str, ...]:
    """Return the parameters that never leave: those that the campaign names, or all friction that some run moves."""
    robot, stated = campaign.robot, campaign.content.identify.essential
    names = [layout(robot).names[k] for k in base_parameters(robot).kept]
    moves = np.any([moving_joints(robot, run) for run in training], axis=0) if training else np.zeros(robot.n_joints)
    moved = {term.parameter for term in robot.drive.friction if np.any(moves * term.senses)}
    if stated is None:
        return tuple(name for name in names if name in moved)
    called = {**{declared: name for name, declared in declared_names(robot).items()}, **{name: name for name in names}}
    for name in stated:
        if name not in called:
            more = f"expected base parameters: {choice(name, list(called))}"
            raise ExcitorError(f"identify.essential: no parameter is named {name!r}; {more}")
    return tuple(name for name in names if name in {called[one] for one in stated})


def fit_consistent(
    campaign: OpenCampaign, estimate: Estimate, weight: float
) -> tuple[ConsistentEstimate | None, str | None]:
    """Find the consistent parameters nearest to an estimate in the metric of its covariance, or return why not.

    A failed solve is never exported.
    """
    if not campaign.content.identify.consistent:
        in_process = campaign.content.identify.mode == IN_PROCESS
        return None, "it is of a process, and parameters left it" if in_process else "the campaign asks for none"
    try:
        consistent = consistent_of(estimate, campaign.robot, prior=Prior(weight=weight))
    except (SolverError, ValueError) as error:
        return None, str(error)
    if consistent.loss > COSTLIEST:
        more = f"{100 * consistent.loss:.0f} % more of the torques"
        return None, f"it would leave {more}; the data fit no body like the prior"
    return consistent, None


def chosen_weight(campaign: OpenCampaign, regression: Regression) -> float:
    """Choose the weight of the prior in consistent fits by cross-validation on stretches of the runs."""
    if not campaign.content.identify.consistent or campaign.robot.drive.in_amperes:
        return 1.0
    parts = [compress(pick_rows(regression, rows)) for rows in folds(regression)]
    return prior_weight(parts, campaign.robot, wls_sigma(compress(regression)))


def smallest_inertia(robot: Robot, estimate: Estimate) -> float:
    """Find the smallest eigenvalue of the estimated mass matrix over random poses."""
    q = random_motion(robot, 500).q
    return float(np.linalg.eigvalsh(mass_matrix(robot, q, validate.standard_parameters(robot, estimate))).min())


def judge(runs: Runs, regression: Regression, model: Parameters, *, training: bool = False) -> Validation:
    """Compare predicted with measured torques on a regression's rows, beside the baselines."""
    baselines = baselines_of(runs, regression, model, training=training)
    trained_on = [samples.run for samples in runs.training]
    return validate.validate(regression, model, baselines=baselines, trained_on=trained_on, training=training)


def baselines_of(runs: Runs, regression: Regression, model: Parameters, *, training: bool = False) -> Baselines:
    """Predict torques without identification on a regression's rows; gravity alone is that of a model."""
    campaign, own = runs.campaign, runs.training if training else runs.unseen
    chi = validate.standard_parameters(campaign.robot, model)
    return validate.set_baselines(campaign.robot, own, chi=chi, regression=regression, decimate=thinner(campaign))


def mean_noise(campaign: OpenCampaign, samples: Mapping[str, Samples], regression: Regression) -> FloatArray | None:
    """Compute the variance of each equation's torque, the mean of repetitions; None where unknown.

    σ² of an equation is that of a single repetition over their number; of thinned equations nobody knows it.
    """
    count = np.array([samples[name].repetitions for name in regression.runs], dtype=float)
    thinned = thinner(campaign) is not None
    if regression.variance is None or thinned or not count.all():
        return None
    return np.asarray(regression.variance / count[regression.run])


def noise_share(identified: IdentifiedModel) -> float:
    """Compute the noise as a share of held-out torques, a lower bound of any model's error; NaN if unknown."""
    one = identified.unseen
    variance = None if one is None else mean_noise(identified.campaign, identified.samples, one)
    return np.nan if one is None or variance is None else noise_of(one, variance)


def noise_of(regression: Regression, variance: FloatArray) -> float:
    """Compute noise as a share of all torques of a regression."""
    return float(np.sqrt(np.sum(variance) / np.sum(regression.y**2)))


def write_model(result: IdentifiedModel) -> list[Path]:
    """Write the model's files into the campaign's folder, each atomically."""
    folder = result.campaign.folder
    robot = result.campaign.robot
    chi = result.delivered.chi
    texts = {}
    if not code_note(result):
        texts["model.c"] = inverse_dynamics_code(robot, "c", chi=chi)
        texts["model.py"] = inverse_dynamics_code(robot, "python", chi=chi)
    urdf = read_content(result.campaign.robot_source).urdf_file if result.campaign.text else None
    if urdf is not None and result.consistent is not None:
        from excitor.robots.files.urdf import filled_urdf

        texts["model.urdf"] = filled_urdf(read_text(urdf), robot, result.consistent.chi)[0]
    for name in reversed(texts):
        write_atomically(folder / name, texts[name])
    path = result.model.save(folder)  # last: it tells that the others are up to date
    return [path, *(folder / name for name in texts)]


def code_note(result: IdentifiedModel) -> str:
    """Return why no code of the model is written; empty if it is."""
    robot, none = result.campaign.robot, "no model.c and model.py:"
    if robot.drive.in_amperes:
        return f"{none} {robot.name}'s currents have no law, so its torques are unknown; {LAW_NEEDED}"
    if not isinstance(robot.mechanism, Tree):
        loops = f"{robot.name} has closed loops, which are closed by iteration"
        return f"{none} {loops}; code is written for open chains only, so use model.json"
    rows = {term.parameter: friction_model(term) for term in robot.drive.friction}
    unwritten = ", ".join(name for name, row in rows.items() if row.memory or row.compiled is None)
    laws = f"friction {unwritten} of {robot.name} remembers, or is a registered law"
    return f"{none} {laws}; code holds formulas of one instant, so use model.json" if unwritten else ""


def model_of(result: IdentifiedModel) -> Model:
    """Describe an identification as in model.json."""
    robot, estimate, intervals = result.campaign.robot, result.estimate, result.intervals
    law = (robot.drive.torque_from_current[:, 1] * np.diagonal(robot.drive.motor_from_joint)).tolist()
    base = base_parameters(robot)
    forms = dict(zip((name.removesuffix("R") for name in base.names), regroupings(robot, base), strict=True))
    settings = {key: finite(x) for key, x in intervals.settings.items()}
    return Model(
        robot_name=robot.name,
        method=result.campaign.content.identify.method,
        **{key: getattr(estimate, key) for key in ("names", "units", "values", "condition", "singular_values")},
        **{key: getattr(intervals, key) for key in ("sigma", "low", "high", "covariance")},
        regroupings=tuple(forms.get(name, name) for name in estimate.names),
        sigma_white=estimate.sigma,
        standard=None if result.consistent is None else standard_of(result.consistent, robot, result.load, result.laws),
        refusal=result.refusal or "",
        smallest_inertia=result.smallest_inertia,
        weights=tuple(Weight(robot.joint_names[j], run, sigma) for (j, run), sigma in estimate.group_sigma.items()),
        fitted=Fitted(estimate.n_rows, plain(estimate.settings), intervals.method, settings),
        training=validation_data(result.training),
        held_out=None if result.held_out is None else validation_data(result.held_out),
        same_run=None if result.same_run is None else validation_data(result.same_run),
        by_run=by_run_data(result),
        unconstrained=unconstrained_data(result),
        verdict={**result.verdict.data(), "scores": scores_of(result).data()},
        reduction=reduction_data(result),
        findings=findings_data(result.findings),
        processing=steps_data(result.steps),
        provenance=provenance(result.campaign),
        currents=dict(zip(robot.joint_names, law, strict=True)) if robot.drive.in_amperes else None,
        robot=robot,
        load=None if result.load is None else result.load.to_json(robot),
        friction=result.campaign.friction,
        laws=None if result.laws is None else result.laws.to_json(),
    )


def by_run_data(result: IdentifiedModel) -> tuple[dict[str, Any], ...]:
    """Write the errors of every run apart."""
    return tuple(
        {
            "run": name,
            "role": role,
            "total": finite(errors.relative_total),
            "joints": {
                regression.joint_names[j]: finite(x)
                for j, x in zip(np.unique(own.joint), errors.relative.tolist(), strict=True)
            },
        }
        for role, regression in (("identify", result.known), ("validate", result.unseen))
        if regression is not None
        for number, name in enumerate(regression.runs)
        if (regression.run == number).any()
        for own in [pick_rows(regression, regression.run == number)]
        for errors in [validate.torque_errors(own, validate.estimated_torques(own, result.delivered))]
    )


def unconstrained_data(result: IdentifiedModel) -> dict[str, float | None]:
    """Write the errors of the estimate without consistency, which stands beside the model."""
    regressions = {"training": result.known, "held_out": result.unseen}
    return {
        name: None
        if one is None
        else validate.torque_errors(one, validate.estimated_torques(one, result.estimate)).relative_total
        for name, one in regressions.items()
    }


def standard_of(
    consistent: ConsistentEstimate, robot: Robot, load: StatedLoad | None = None, laws: LawDoubt | None = None
) -> Standard:
    """Describe the physically consistent parameters, with the doubt about current laws.

    The uncertainty of a subtracted load is its link's, too.
    """
    params, links = layout(robot), robot.mechanism.link_names
    if laws is not None:  # as the parameters follow their base parameters
        C, B = consistent.covariance, np.column_stack([base_parameters(robot).values(x) for x in np.eye(len(params))])
        follow = C @ B.T @ np.linalg.pinv(B @ C @ B.T, hermitian=True)
        consistent = replace(consistent, covariance=C + follow @ laws.covariance @ follow.T)
    if load is not None:
        C, own = consistent.covariance.copy(), params.link(load.payload.link)
        C[own, own] += load.payload.covariance
        consistent = replace(consistent, covariance=C)
    same = ("names", "units", "labels", "status", "solver", "loss", "share", "active")
    return Standard(
        **{key: getattr(consistent, key) for key in same},
        values=consistent.chi,
        eigenvalues=consistent.eigenvalue,
        covariances={name: consistent.covariance[params.link(j), params.link(j)] for j, name in enumerate(links)},
        sigma=np.sqrt(np.diag(consistent.covariance)),
        links=tuple(links[j] for j in consistent.links.tolist()),
    )


def findings_data(findings: Sequence[Finding]) -> tuple[dict[str, Any], ...]:
    """Write findings for scripts."""
    return tuple({"level": f.level, "what": f.what, "sentence": str(f)} for f in findings)


def steps_data(steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Write processing steps for scripts."""
    return tuple({"step": step.name, **step.settings} for step in steps)


def fresh_model(campaign: OpenCampaign) -> tuple[Model | None, str]:
    """Read the model on file if it is up to date and by the campaign's method; else return why not."""
    path = campaign.folder / MODEL
    if not path.exists():
        return None, f"there is no {MODEL}"
    try:
        model = read_model(path, campaign.robot)
    except ExcitorError as error:
        return None, str(error)
    now, then = provenance(campaign), model.provenance
    read = then.get("sha256")
    listed = read if isinstance(read, dict) else {}
    changed = [name for name, one in now["sha256"].items() if listed.get(name) != one]
    changed += [name for name in listed if name not in now["sha256"]]
    if then.get("prior_sha256") != now.get("prior_sha256"):
        changed.append("the arm's model")
    arm, method = campaign.content.task != "payload", campaign.content.identify.method
    whole = model.fitted and model.verdict and (model.standard is None or model.standard.sigma is not None)
    reasons = (
        (changed, f"{', '.join(changed[:3])} changed since {MODEL} was written"),
        (then.get("excitor") != now["excitor"], f"{MODEL} was written by another version of excitor"),
        (model.task != campaign.content.task, f"{MODEL} is of task {model.task!r}"),
        (arm and model.method != method, f"{MODEL} was identified by {model.method}, and {FILE} asks for {method}"),
        (arm and not whole, f"{MODEL} is of an older version, which does not hold all that a report shows"),
    )
    reason = next((sentence for stale, sentence in reasons if stale), "")
    return None if reason else model, reason


def reduction_data(result: IdentifiedModel) -> dict[str, Any] | None:
    """Write which parameters were eliminated by sensitivity, and on which data that was decided."""
    if result.reduction is None:
        return None
    declared, found = declared_names(result.campaign.robot), result.reduction
    decisions = [{**asdict(one), "declared": declared.get(one.name)} for one in found.decisions]
    said = picked(found.rule, "acceptance tolerance weights essential") | picked(found, "hidden")
    return {"mode": result.campaign.content.identify.mode, **said, "decisions": decisions}


def validation_data(validation: Validation) -> dict[str, Any]:
    """Write errors beside the baselines."""
    return {
        "runs": list(validation.runs),
        "figures": {name: finite(value) for name, value in validation.figures.items()},
        "joints": {
            joint: {key: finite(getattr(validation.model, key)[k]) for key in ("relative", "mean_absolute", "rmse")}
            for k, joint in enumerate(validation.joints)
        },
    }


def provenance(campaign: OpenCampaign) -> dict[str, Any]:
    """Collect versions and the digests of all files that were read; a payload's arm may be in another folder."""
    prior = campaign.content.prior if campaign.content.task == "payload" else None
    arm = {} if prior is None else {"prior": prior, "prior_sha256": digest(campaign.folder / prior)}
    return {
        "excitor": version("excitor"),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "sha256": file_digests(campaign) if campaign.text else {},  # data in memory come from no file
        **arm,
    }


def file_digests(campaign: OpenCampaign) -> dict[str, str]:
    """Hash every file that an identification reads, named from the campaign's folder."""
    own = reversed(read_content(campaign.robot_source).files)
    recorded = (file for run in campaign.content.run for file in log_files(campaign.folder / run.log))
    read = [campaign.folder / FILE, *own, *recorded]
    targets = {run.program.partition("/")[0] for run in campaign.content.run if run.program is not None}
    read += [campaign.folder / PROGRAMS / target / MANIFEST for target in sorted(targets)]
    for run in campaign.content.run:
        columns = run.columns or campaign.content.log
        for entry in columns.signals if columns is not None and run.matlab is None else ():
            read += [(campaign.folder / run.log).parent / entry.file] if entry.file else []
    return {str(path.relative_to(campaign.folder)): digest(path) for path in dict.fromkeys(read)}


def digest(path: Path) -> str:
    """Compute the digest of a file's content."""
    with open_bounded(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


LEARNED = 2.0 / 3.0  # of each run, where no run was kept back: the rest judges
SUBSTITUTE = (
    'No run has role = "validate", so the last third of every moving run, or of each of its repetitions, was kept back '
    "to judge by, and the methods were fitted to the rest. It was recorded in the same minutes, so a recommendation "
    "that counts needs a run of its own"
)
JUDGELESS = (
    "cannot judge a model: no joint moves there while a torque is measured; check that its channels were recorded, or "
    'give another run role = "validate"'
)
MOST_REPETITIONS = 10
MOST_TESTED = 20_000  # equations, among which noise of the motion is looked for
COMPARED_HZ = 100.0  # at which motions of runs are compared
APART = 0.1  # s left out between the two: filters look ahead and back


@dataclass(frozen=True)
class ComparisonProblem:
    """One problem for all methods, and held-out equations."""

    examined: UsableRuns
    problem: Problem
    judging: Regression  # of what no method has seen
    fitted: Regression  # of what all were fitted to, about reversals too
    noise: FloatArray | None  # variance of the judging equations, where repetitions tell
    substitute: str  # how the judging data were kept back, where the campaign keeps back none; else ""


def prepare(campaign: OpenCampaign, tell: Tell = lambda _: None) -> ComparisonProblem:
    """Read and examine a campaign's runs; without a validation run, hold out the last third of each."""
    if campaign.content.task != "arm":
        raise ExcitorError(
            f"compare: the campaign has task = {campaign.content.task!r}, which has an estimator of its own; compare "
            "the methods on a campaign of the arm"
        )
    return prepare_examined(read_and_examine(campaign, tell), tell)


def prepare_examined(examined: UsableRuns, tell: Tell = lambda _: None) -> ComparisonProblem:
    """Pose one problem for all methods; without a validation run, keep back the last third of each."""
    if examined.campaign.content.identify.mode == IN_PROCESS:
        raise ExcitorError(
            "compare: the mode is in-process, so these logs do not show all parameters that the methods fit; compare "
            'them on logs that move every joint, or write mode = "full" in [identify]'
        )
    substitute = ""
    if not examined.unseen:
        examined = kept_back(examined)
        substitute = SUBSTITUTE
        tell(substitute)
    campaign = examined.campaign
    equations = known_equations(examined)
    problem = Problem(campaign.robot, tuple(examined.training), rows_of(campaign), equations.fitted)
    judging = judging_equations(campaign, examined.unseen)
    if not np.any(judging.y):
        names = several([repr(run.run) for run in examined.unseen])
        raise ExcitorError(f"{names} {JUDGELESS}")
    return ComparisonProblem(
        examined=examined,
        problem=simulating_problem(examined, problem),
        judging=judging,
        fitted=equations.judging,
        noise=mean_noise(campaign, examined.samples, judging),
        substitute=substitute,
    )


def problem_of(runs: Runs, regression: Regression, unseen: Regression | None) -> Problem:
    """Build the problem that the campaign's method solves."""
    campaign = runs.campaign
    weighting = weighting_of(campaign, runs.training, unseen, runs.unseen)
    problem = Problem(campaign.robot, tuple(runs.training), rows_of(campaign), regression, weighting=weighting)
    return simulating_problem(runs, problem) if campaign.content.identify.method in SIMULATING else problem


def simulating_problem(runs: Runs, problem: Problem) -> Problem:
    """Add an assumed controller for methods that simulate, and the commanded motion."""
    servo = servo_of(problem.robot, runs.training, problem.regression, runs.campaign.content.identify.controller)
    references = planned_references(runs.alignments, runs.training, None if servo is None else servo.rate_hz)
    return replace(problem, servo=servo, references=references)


def servo_of(
    robot: Robot, runs: list[Samples], regression: Regression, stated: StatedController | None = None
) -> Servo | None:
    """Build a controller with the model of least squares, or else the prior; None where neither has a mass."""
    try:
        chi = validate.standard_parameters(robot, wls(compress(regression)))
    except RankDeficient:
        chi = prior(robot)
    return tuned_servo(robot, runs, chi, stated) or tuned_servo(robot, runs, prior(robot), stated)


def kept_back(examined: UsableRuns) -> UsableRuns:
    """Split every moving run: the first two thirds for training, the last third held out.

    Of a motion that repeats, it is the last third of each repetition: the same motion again is no unseen one.
    """
    training: list[Samples] = [run for run in examined.training if run.static]
    unseen: list[Samples] = []
    for run in examined.training:
        if run.static:
            continue
        period = repetition(run.motion.q)
        count = min(len(run) // period, MOST_REPETITIONS) if period else 1
        gap = max(1, round(APART * run.sample_rate_hz))
        for k in range(count):
            start, end = (k * period, (k + 1) * period) if period else (0, len(run))
            border = start + int(LEARNED * (end - start))
            if border - start < 3 or end - border - gap < 3:
                raise ExcitorError(
                    f"run {run.run!r} has {end - start} samples, too few to keep back a third; "
                    'give a run role = "validate"'
                )
            of = f" of repetition {k + 1}" if count > 1 else ""
            training.append(part(run, slice(start, border), f"first two thirds{of}"))
            unseen.append(part(run, slice(border + gap, end), f"last third{of}"))
    if not unseen:
        raise ExcitorError(
            'every run holds poses, so nothing that moves can be kept back; give a moving run role = "validate"'
        )
    samples = {run.run: run for run in (*training, *unseen)}
    return replace(examined, samples=samples, training=training, unseen=unseen)


def repeated_motions(runs: Sequence[Samples], others: Sequence[Samples]) -> dict[str, str]:
    """Name the runs whose motion one of the others shows too, at whatever time its log begins: and which."""
    pairs = [(run, other) for run in runs for other in others if not (run.static or other.static)]
    return {run.run: other.run for run, other in reversed(pairs) if _alike(run, other)}


def _alike(run: Samples, other: Samples) -> bool:
    rate = min(run.sample_rate_hz, other.sample_rate_hz, COMPARED_HZ)
    q = [one.motion.q[np.arange(0.0, len(one) - 0.5, one.sample_rate_hz / rate).astype(int)] for one in (run, other)]
    return same_motion(*q)


def part(run: Samples, span: slice, words: str) -> Samples:
    """Return a segment of a run, named accordingly."""
    named = f"{run.run} ({words})"
    return replace(pick_samples(run, span), run=named, steps=(*run.steps, Step("part", {"which": words})))


def baseline_errors(prepared: ComparisonProblem, found: Baselines) -> Mapping[str, Errors]:
    """Compute the errors of the baselines on the same equations."""
    torques = {"zero": found.zero, "gravity only": found.gravity, "prior model": found.prior}
    return {name: validate.torque_errors(prepared.judging, tau) for name, tau in torques.items()}


def noise_errors(prepared: ComparisonProblem) -> tuple[list[float], float] | None:
    """Compute the relative error due to noise alone, by joint and in total, a lower bound; None where unknown."""
    if prepared.noise is None:
        return None
    judging, variance = prepared.judging, prepared.noise
    rows = [judging.joint == j for j in np.unique(judging.joint)]
    shares = [float(np.sqrt(np.sum(variance[r]) / max(np.sum(judging.y[r] ** 2), 1e-300))) for r in rows]
    return shares, noise_of(judging, variance)


BANDWIDTH_HZ = 20.0
RATE_HZ = 1000.0  # at least
PROBED_S = 0.5  # s of a run that are simulated to estimate the time of all
PASSES = {"iv": 4, "didim": 10, "input-error": 10}  # how often methods simulate all runs
ITERATIONS = 4  # that input error needs at least where each parameter needs a simulation in each of them
ASSUMED = (
    f"the robot's controller is unknown, so one of {BANDWIDTH_HZ:g} Hz was assumed, which is fed "
    "forward the torques of a model"
)
STATED = "the controller is that of [identify] controller"


def controller_words(campaign: OpenCampaign) -> str:
    """Say which controller is simulated."""
    return ASSUMED if campaign.content.identify.controller is None else STATED


def tuned_servo(
    robot: Robot, runs: Sequence[Samples], chi: FloatArray, stated: StatedController | None
) -> Servo | None:
    """Build the stated controller, or a stiff one with a model; None where that is impossible.

    It is a whole multiple as fast as the logs. Gains that are not stated are lowered where they make no stable loop.
    """
    moving = [run for run in runs if not run.static]
    rates = {run.sample_rate_hz for run in moving}
    if len(rates) != 1 or not positive(robot, moving, chi):
        return None
    rate = rates.pop()
    fast = rate * max(1, int(np.ceil(RATE_HZ / rate - 1e-9)))
    if stated is None:
        stated = StatedController(bandwidth_hz=BANDWIDTH_HZ)
    masses, damping = mass_matrix(robot, poses_of(moving), chi), stated.damping_ratio
    bandwidth, rate = stated.bandwidth_hz or BANDWIDTH_HZ, stated.rate_hz or fast
    if stated.kp is not None and {len(stated.kp), len(stated.kd or ())} != {robot.n_joints}:
        raise ExcitorError(
            f"[identify] controller: kp has {len(stated.kp)} entries and kd {len(stated.kd or ())}, expected "
            f"{robot.n_joints}, one for each of {', '.join(robot.joint_names)}"
        )
    tuned = servo_for(robot, moving[0].motion, bandwidth_hz=bandwidth, damping=damping, chi=chi, rate_hz=rate)
    servo = replace(
        tuned,
        kp=tuned.kp if stated.kp is None else np.array(stated.kp),
        kd=tuned.kd if stated.kd is None else np.array(stated.kd),
        feedforward=chi if stated.feedforward == "model" else None,
        velocity_filter=stated.velocity_filter_s,
        lag=stated.lag_s,
    )
    if stated.kp is None:
        return steady_servo(servo, masses, masses)
    if dampings(servo, masses).min() <= 0.0:
        raise ExcitorError(
            f"[identify] controller: these gains make no stable loop of {servo.rate_hz:g} Hz with the identified "
            "masses; gains are at the joints, in N m/rad and N m s/rad: check them, rate_hz and lag_s"
        )
    return servo


def positive(robot: Robot, runs: Sequence[Samples], chi: FloatArray) -> bool:
    """Return True if the mass matrix of a model is positive definite along runs: gains are tuned on it."""
    return bool(np.linalg.eigvalsh(mass_matrix(robot, poses_of(runs), chi)).min() > 0.0)


def poses_of(runs: Sequence[Samples]) -> FloatArray:
    """Pick positions along runs, some 200 of each."""
    return np.concatenate([run.motion.q[:: max(1, len(run) // 200)] for run in runs])


def planned_references(
    alignments: Mapping[str, Alignment], runs: Sequence[Samples], rate_hz: float | None
) -> Mapping[str, Motion] | None:
    """Compute the commanded motion of runs of planned series, at a servo's rate or their own; None without a plan."""
    found = {}
    for run in runs:
        alignment = alignments.get(run.run)
        series = None if alignment is None else alignment.expected.run.series
        if alignment is None or run.static or series is None:
            continue
        stride = 1 if rate_hz is None else round(rate_hz / run.sample_rate_hz)
        n = stride * len(run)
        t = series.start + series.period * np.arange(n) / n
        found[run.run] = Motion(*(alignment.expected.run.at(t, order) for order in range(3)))
    return found or None


def seconds_of(method: str, problem: Problem) -> float:
    """Estimate the time of a method that simulates, CPU s; 0 if unknown."""
    moving = [run for run in problem.runs if not run.static]
    if problem.servo is None or not moving:
        return 0.0
    run = beginning(moving[0], PROBED_S)
    try:
        replay = set_up_replay(problem.robot, [run], problem.servo)
    except ExcitorError:
        return 0.0
    chi = prior(problem.robot) if problem.servo.feedforward is None else problem.servo.feedforward
    simulate_runs(replay, chi, problem.servo)  # compiled
    begun = time.process_time()
    simulate_runs(replay, chi, problem.servo)
    taken = time.process_time() - begun
    samples = sum(len(entry) for entry in moving)
    passes = PASSES[method]
    if method == "input-error" and affordable_sensitivity(problem, problem.servo) == "simulated":
        passes = (len(problem.regression.names) + 1) * ITERATIONS
    return taken * samples / len(run) * passes


def beginning(run: Samples, seconds: float) -> Samples:
    """Return the first seconds of a run."""
    n = max(3, int(seconds * run.sample_rate_hz))
    return run if len(run) <= n else pick_samples(run, slice(n))
