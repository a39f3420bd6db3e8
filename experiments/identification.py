"""From a campaign's logs to a model: read, process, diagnose, fit, put in doubt, validate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.processing import filter_sentences, read_run_aligned
from excitor.identify.consistent import ConsistentEstimate, consistent_fit, consistent_of, standard_columns
from excitor.identify.diagnose import Finding, diagnose, usable
from excitor.identify.estimate import Estimate, compress, select, wls
from excitor.identify.intervals import Intervals, block_bootstrap, spectral_intervals, wider
from excitor.identify.reduce import Reduction, Rule, backward_selection, essential
from excitor.identify.regression import Regression, Rows, dynamic_regression
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import decimate
from excitor.identify.validate import Validation, set_baselines, standard_parameters, validate
from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, SolverFailed
from excitor.robots.robot import Robot

Tell = Callable[[str], None]
LEAST_ROWS = 3  # equations a parameter; fewer fit anything
STANDSTILL = 0.01  # rad or m: a locked joint's servo may still sway by this
COSTLIEST = 0.5  # of the residual: a consistent model that costs more contradicts the data


class UnusableData(ExcitorError):
    """Logs of which no honest model can be made, with the findings that say why."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        reasons = [str(finding) for finding in findings if finding.level == "unusable"]
        super().__init__("no model is written, because of what the data show:\n" + "\n".join(reasons))


@dataclass(frozen=True)
class Identified:
    """A model, how sure it is, and how it does on runs that it has not seen."""

    campaign: OpenCampaign
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]
    estimate: Estimate
    intervals: Intervals
    reduction: Reduction | None  # what left by sensitivity, where the campaign asks for it
    consistent: ConsistentEstimate | None
    refusal: str | None  # why there is no consistent model, where there is none
    smallest_inertia: float  # of the estimated M(q) over random poses, as an eigenvalue; a robot's is above 0
    training: Validation
    held_out: Validation | None
    samples: Mapping[str, Samples]  # of every run, by its name
    alignments: Mapping[str, Alignment]  # of the runs of emitted programs


@dataclass(frozen=True)
class Examined:
    """Runs that were read and found fit to learn from, with what their diagnosis says."""

    campaign: OpenCampaign  # its robot with the joints locked that stand still
    findings: tuple[Finding, ...]
    samples: Mapping[str, Samples]  # of every run, by its name
    alignments: Mapping[str, Alignment]  # of the runs of emitted programs
    known: list[Samples]  # to fit to
    unseen: list[Samples]  # to validate on


def identify(campaign: OpenCampaign, tell: Tell = lambda _: None) -> Identified:
    """Identify a campaign's robot; UnusableData where the data would mislead."""
    examined = read_and_examine(campaign, tell)
    campaign, known, unseen = examined.campaign, examined.known, examined.unseen
    regression = enough_equations(campaign, known)
    reduction = None
    if campaign.content.identify.method == "wls":
        estimate, reduction = fit(campaign, regression, unseen)
        intervals = wider(spectral_intervals(regression, estimate, known), block_bootstrap(regression, estimate))
    else:
        estimate, intervals = fit_otherwise(examined, regression)
    tell(
        f"fitted {len(estimate.names)} parameters to {estimate.n_rows} equations by {campaign.content.identify.method}"
    )
    findings = (*examined.findings, *impossible_friction(campaign.robot, intervals))
    if not usable(findings):
        raise UnusableData(findings)
    consistent, refusal = fit_consistent(campaign, known, estimate)
    tell("physically consistent model found" if consistent else f"no physically consistent model: {refusal}")
    return Identified(
        campaign=campaign,
        findings=findings,
        steps=tuple(step for samples in examined.samples.values() for step in samples.steps),
        estimate=estimate,
        intervals=intervals,
        reduction=reduction,
        consistent=consistent,
        refusal=refusal,
        smallest_inertia=smallest_inertia(campaign.robot, estimate),
        training=judge(campaign, known, estimate, known),
        held_out=judge(campaign, unseen, estimate, known) if unseen else None,
        samples=examined.samples,
        alignments=examined.alignments,
    )


def read_and_examine(campaign: OpenCampaign, tell: Tell = lambda _: None) -> Examined:
    """Read all runs and diagnose them; UnusableData where they would mislead."""
    read = {run.name: read_run_aligned(campaign, run) for run in campaign.content.run}
    runs = {name: samples for name, (samples, _) in read.items()}
    roles = {run.name: run.role for run in campaign.content.run}
    known = [samples for name, samples in runs.items() if roles[name] == "identify"]
    unseen = [samples for name, samples in runs.items() if roles[name] == "validate"]
    campaign = replace(campaign, robot=with_locked(campaign, list(runs.values())))
    tell(f"read {len(runs)} runs, {sum(len(samples) for samples in runs.values())} samples")
    for sentence in filter_sentences(runs):
        tell(sentence)
    findings = (*examine(campaign.robot, known), *doubts(examine(campaign.robot, unseen)))
    for finding in findings:
        tell(f"{finding.level}: {finding}")
    if not usable(findings):
        raise UnusableData(findings)
    alignments = {name: alignment for name, (_, alignment) in read.items() if alignment is not None}
    return Examined(campaign, findings, runs, alignments, known, unseen)


def enough_equations(campaign: OpenCampaign, runs: list[Samples]) -> Regression:
    """Set up the equations to fit; ExcitorError where they are too few for the parameters."""
    regression = equations(campaign, runs)
    if len(regression) < LEAST_ROWS * len(regression.names):
        raise ExcitorError(
            f"{len(regression)} equations are left for {len(regression.names)} parameters; "
            "lower processing.decimate or dead_zone_percent, or record more"
        )
    return regression


def examine(robot: Robot, runs: list[Samples]) -> tuple[Finding, ...]:
    """Diagnose runs that move; static poses are no series of time."""
    moving = [samples for samples in runs if not samples.static]
    return diagnose(robot, moving) if moving else ()


def doubts(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Take what is wrong with validation runs as doubts about the validation."""
    return tuple(
        replace(finding, level="doubtful", sentence=f"of the validation: {finding.sentence}")
        for finding in findings
        if finding.level == "unusable"
    )


def equations(campaign: OpenCampaign, runs: list[Samples], *, judging: bool = False) -> Regression:
    """Set up the equations of runs; ExcitorError where thinning and the dead zone leave none.

    A model is judged about reversals of friction too, from where it does not learn.
    """
    names = ", ".join(samples.run for samples in runs)
    try:
        rows = rows_of(campaign)
        regression = dynamic_regression(campaign.robot, runs, rows=replace(rows, settling=0.0) if judging else rows)
    except ValueError as error:
        raise ExcitorError(f"{names}: cannot be thinned: {error}; see processing.decimate") from None
    if not len(regression):
        raise ExcitorError(f"{names}: no equations are left; lower processing.decimate or dead_zone_percent")
    return regression


def impossible_friction(robot: Robot, intervals: Intervals) -> tuple[Finding, ...]:
    """Refuse friction that drives: its interval lies below 0, as a wrong sign, scale or clock makes it."""
    resists = {term.parameter for term in robot.drive.friction if term.model in ("viscous", "coulomb")}
    return tuple(
        Finding(
            "unusable",
            "friction",
            f"{name} is {value:.3g}, surely below 0 (95 % interval up to {high:.3g}): friction cannot drive a joint",
            "check the torque's sign and scale, the sample rate and which joints stand still",
            {"value": float(value), "high": float(high)},
        )
        for name, value, high in zip(intervals.names, intervals.values, intervals.high, strict=True)
        if name in resists and high < 0.0
    )


def with_locked(campaign: OpenCampaign, runs: list[Samples]) -> Robot:
    """Hold the joints that the campaign declares still, where they stand."""
    robot = campaign.robot
    held = dict(robot.locked)
    for name in campaign.content.locked:
        if name not in robot.joint_names:
            raise ExcitorError(f"locked: no joint is named {name!r}; expected some of {', '.join(robot.joint_names)}")
        i = robot.joint_names.index(name)
        travel = max(float(np.ptp(samples.motion.q[:, i])) for samples in runs)
        if travel > STANDSTILL:
            raise ExcitorError(f"locked: {name!r} moves by {travel:.3g} rad or m in the logs; take it out of the list")
        held[i] = float(np.mean([samples.motion.q[:, i].mean() for samples in runs]))
    if len(held) == robot.n_joints:
        raise ExcitorError("locked: every joint is locked, so nothing is left to identify")
    return replace(robot, locked=held)


def rows_of(campaign: OpenCampaign) -> Rows:
    """Say which equations take part: thinned, and without slow joints."""
    settings = campaign.content.processing
    limits = campaign.robot.limits.velocity
    dead_zone = np.where(np.isfinite(limits), settings.dead_zone_percent / 100.0 * limits, 0.0)
    return Rows(decimate=thinner(campaign), dead_zone=dead_zone, settling=settings.settling_s)


def thinner(campaign: OpenCampaign) -> Callable[[FloatArray], FloatArray] | None:
    """Make the one way in which torques, columns and velocities are thinned."""
    factors = tuple(campaign.content.processing.decimate)
    return (lambda x: decimate(x, factors)) if factors else None


def fit(campaign: OpenCampaign, regression: Regression, unseen: list[Samples]) -> tuple[Estimate, Reduction | None]:
    """Fit base parameters, or a smaller model where the campaign asks for one.

    Intervals are those of the parameters that stayed: that others were judged dispensable is not counted in.
    """
    settings = campaign.content.identify
    if settings.acceptance is not None:
        friction = {term.parameter for term in campaign.robot.drive.friction}
        preset = tuple(name for name in regression.names if name in friction)
        rule = Rule(settings.acceptance, tolerance=settings.tolerance, essential=preset)
        judged = None
        if settings.acceptance == "validation":
            judged = dynamic_regression(campaign.robot, unseen, rows=rows_of(campaign))
        reduction = backward_selection(regression, rule, judged)
        kept = np.isin(regression.names, reduction.estimate.names)
        return wls(select(compress(regression), kept), settings.weights), reduction
    factors = compress(regression)
    if settings.essential_ratio is None:
        return wls(factors, settings.weights), None
    return essential(factors, ratio=settings.essential_ratio, by=settings.weights).estimate, None


def fit_otherwise(examined: Examined, regression: Regression) -> tuple[Estimate, Intervals]:
    """Fit by another method of the ladder, as `excitor compare` does; ExcitorError where it refuses."""
    from excitor.experiments.comparing.prepare import problem_of
    from excitor.identify.methods import answer

    method = examined.campaign.content.identify.method
    found = answer(method, problem_of(examined, regression))
    if found.estimate is None or found.intervals is None:
        raise ExcitorError(f"{method} refuses: {found.refused}")
    return found.estimate, found.intervals


def fit_consistent(
    campaign: OpenCampaign, runs: list[Samples], estimate: Estimate
) -> tuple[ConsistentEstimate | None, str | None]:
    """Fit standard parameters that a body can have; if that fails, say why: a failed solve is never exported."""
    if not campaign.content.identify.consistent:
        return None, "the campaign asks for none"
    robot = campaign.robot
    try:
        if campaign.content.identify.method == "wls":
            standard = dynamic_regression(robot, runs, columns=standard_columns(robot), rows=rows_of(campaign))
            consistent = consistent_fit(compress(standard), robot, sigma=estimate.group_sigma)
        else:
            consistent = consistent_of(estimate, robot)
    except (SolverFailed, ValueError) as error:
        return None, str(error)
    if consistent.loss > COSTLIEST:
        return (
            None,
            f"it would leave {100 * consistent.loss:.0f} % more of the torques; the data fit no body like the prior",
        )
    return consistent, None


def smallest_inertia(robot: Robot, estimate: Estimate) -> float:
    """Find the smallest eigenvalue of the estimated mass matrix over random poses."""
    q = random_motion(robot, 500).q
    return float(np.linalg.eigvalsh(mass_matrix(robot, q, standard_parameters(robot, estimate))).min())


def judge(campaign: OpenCampaign, runs: list[Samples], estimate: Estimate, known: list[Samples]) -> Validation:
    """Compare predicted with measured torques, beside the baselines."""
    robot, thin = campaign.robot, thinner(campaign)
    regression = equations(campaign, runs, judging=True)
    chi = standard_parameters(robot, estimate)
    baselines = set_baselines(robot, runs, chi=chi, regression=regression, decimate=thin)
    trained_on = [samples.run for samples in known]
    return validate(regression, estimate, baselines=baselines, trained_on=trained_on, training=runs is known)


def mean_noise(measured: Identified | Examined, regression: Regression) -> FloatArray | None:
    """Find the variance of each equation's torque, the mean of repetitions; None where it is not known.

    σ² of an equation is that of a single repetition over their number; of thinned equations nobody knows it.
    """
    count = np.array([measured.samples[name].repetitions for name in regression.runs], dtype=float)
    thinned = bool(measured.campaign.content.processing.decimate)
    if regression.variance is None or thinned or not count.all():
        return None
    return np.asarray(regression.variance / count[regression.run])


def held_out_equations(identified: Identified) -> Regression:
    """Set up the equations of the runs that a model was not fitted to."""
    roles = {run.name: run.role for run in identified.campaign.content.run}
    runs = [samples for name, samples in identified.samples.items() if roles[name] == "validate"]
    return equations(identified.campaign, runs, judging=True)


def noise_share(identified: Identified) -> float:
    """Find what noise is of the torques that a model was not fitted to: no model can leave less. NaN if not known."""
    regression = held_out_equations(identified)
    variance = mean_noise(identified, regression)
    return np.nan if variance is None else float(np.sqrt(np.sum(variance) / np.sum(regression.y**2)))
