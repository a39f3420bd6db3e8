"""From a campaign's logs to a model: read, process, diagnose, fit, put in doubt, validate."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from excitor.experiments.campaign import OpenCampaign, Run
from excitor.identify.consistent import ConsistentEstimate, consistent_fit, standard_columns
from excitor.identify.diagnose import diagnose, usable
from excitor.identify.errors import InvalidLog, SolverFailed
from excitor.identify.estimate import Estimate, wls
from excitor.identify.factors import compress
from excitor.identify.finding import Finding
from excitor.identify.intervals import Intervals, block_bootstrap
from excitor.identify.log import joint_side
from excitor.identify.logs.csv_columns import read_csv
from excitor.identify.reduce import essential
from excitor.identify.regression import Regression, Rows, dynamic_regression
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import decimate, differentiate, lowpass
from excitor.identify.validate import Validation, set_baselines, standard_parameters, validate
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Motion

Tell = Callable[[str], None]


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
    consistent: ConsistentEstimate | None
    refusal: str | None  # why there is no consistent model, where there is none
    training: Validation
    held_out: Validation | None


def identify(campaign: OpenCampaign, tell: Tell = lambda _: None) -> Identified:
    """Identify a campaign's robot; UnusableData where the data would mislead."""
    runs = {run.name: read_run(campaign, run) for run in campaign.content.run}
    roles = {run.name: run.role for run in campaign.content.run}
    known = [samples for name, samples in runs.items() if roles[name] == "identify"]
    unseen = [samples for name, samples in runs.items() if roles[name] == "validate"]
    tell(f"read {len(runs)} runs, {sum(len(samples) for samples in runs.values())} samples")
    findings = diagnose(campaign.robot, known)
    for finding in findings:
        tell(f"{finding.level}: {finding}")
    if not usable(findings):
        raise UnusableData(findings)
    regression = dynamic_regression(campaign.robot, known, rows=rows_of(campaign))
    estimate = fit(campaign, regression)
    tell(f"fitted {len(estimate.names)} parameters to {estimate.n_rows} equations")
    intervals = block_bootstrap(regression, estimate)
    consistent, refusal = fit_consistent(campaign, known, estimate)
    tell("physically consistent model found" if consistent else f"no physically consistent model: {refusal}")
    return Identified(
        campaign=campaign,
        findings=findings,
        steps=tuple(step for samples in runs.values() for step in samples.steps),
        estimate=estimate,
        intervals=intervals,
        consistent=consistent,
        refusal=refusal,
        training=judge(campaign, known, estimate, known),
        held_out=judge(campaign, unseen, estimate, known) if unseen else None,
    )


def read_run(campaign: OpenCampaign, run: Run) -> Samples:
    """Read a run's log, bring it to the joint side, filter and differentiate it."""
    settings = campaign.content.processing
    path = campaign.folder / run.log
    measured = joint_side(campaign.robot, read_csv(path, campaign.content.log))
    rate = measured.sample_rate_hz
    try:
        q = lowpass(measured.q, sample_rate_hz=rate, cutoff_hz=settings.lowpass_hz, true_cutoff=settings.true_cutoff)
    except ValueError as error:
        raise InvalidLog(path, f"cannot be filtered: {error}") from None
    dq = differentiate(q, sample_rate_hz=rate)
    motion = Motion(q, dq, differentiate(dq, sample_rate_hz=rate))
    time = np.arange(len(q)) / rate
    low, high = run.from_s or 0.0, time[-1] if run.to_s is None else run.to_s
    edge = settings.drop_ends / rate
    kept = (time >= max(low, edge)) & (time <= min(high, time[-1] - edge))
    if np.count_nonzero(kept) < 3:
        raise InvalidLog(path, f"run {run.name!r} keeps fewer than 3 samples; see its from_s, to_s and drop_ends")
    steps = (
        *measured.steps,
        Step("lowpass", {"cutoff_hz": settings.lowpass_hz, "true_cutoff": str(settings.true_cutoff)}),
        Step("differentiate", {"ends": "second-order"}),
        Step("cut", {"from_s": float(time[kept][0]), "to_s": float(time[kept][-1])}),
    )
    part = Motion(motion.q[kept], motion.dq[kept], motion.ddq[kept])
    return Samples(run.name, part, measured.tau[kept], rate, steps=steps)


def rows_of(campaign: OpenCampaign) -> Rows:
    """Say which equations take part: thinned, and without slow joints."""
    settings = campaign.content.processing
    limits = campaign.robot.limits.velocity
    dead_zone = np.where(np.isfinite(limits), settings.dead_zone_percent / 100.0 * limits, 0.0)
    return Rows(decimate=thinner(campaign), dead_zone=dead_zone)


def thinner(campaign: OpenCampaign) -> Callable[[FloatArray], FloatArray] | None:
    """Make the one way in which torques, columns and velocities are thinned."""
    factors = tuple(campaign.content.processing.decimate)
    return (lambda x: decimate(x, factors)) if factors else None


def fit(campaign: OpenCampaign, regression: Regression) -> Estimate:
    """Fit base parameters, or the essential ones where the campaign asks for them."""
    settings = campaign.content.identify
    factors = compress(regression)
    if settings.essential_ratio is None:
        return wls(factors, settings.weights)
    return essential(factors, ratio=settings.essential_ratio, by=settings.weights).estimate


def fit_consistent(
    campaign: OpenCampaign, runs: list[Samples], estimate: Estimate
) -> tuple[ConsistentEstimate | None, str | None]:
    """Fit standard parameters that a body can have; if that fails, say why: a failed solve is never exported."""
    if not campaign.content.identify.consistent:
        return None, "the campaign asks for none"
    columns = standard_columns(campaign.robot)
    factors = compress(dynamic_regression(campaign.robot, runs, columns=columns, rows=rows_of(campaign)))
    try:
        return consistent_fit(factors, campaign.robot, sigma=estimate.group_sigma), None
    except (SolverFailed, ValueError) as error:
        return None, str(error)


def judge(campaign: OpenCampaign, runs: list[Samples], estimate: Estimate, known: list[Samples]) -> Validation:
    """Compare predicted with measured torques, beside the baselines."""
    robot, thin = campaign.robot, thinner(campaign)
    regression = dynamic_regression(robot, runs, rows=rows_of(campaign))
    chi = standard_parameters(robot, estimate)
    baselines = set_baselines(robot, runs, chi=chi, regression=regression, decimate=thin)
    trained_on = [samples.run for samples in known]
    return validate(regression, estimate, baselines=baselines, trained_on=trained_on, training=runs is known)
