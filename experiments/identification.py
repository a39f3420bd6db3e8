"""From a campaign's logs to a model: read, process, diagnose, fit, put in doubt, validate.

* What an identification leaves behind: model.json, code of the model, and the robot's URDF with inertials filled.
* Which data do all methods get? The runs as `identify` reads them, and something kept back to judge by.
* Which controller and which reference do methods simulate that need them? A stiff one: no campaign states its own.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from excitor.design.motion import Trajectory
from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import FILE, OpenCampaign
from excitor.experiments.files import write_atomically
from excitor.experiments.logs import MANIFEST, PROGRAMS, filter_sentences, read_run_aligned
from excitor.experiments.model import SCHEMA
from excitor.identify.closed_loop import set_up_replay, simulate_runs
from excitor.identify.consistent import ConsistentEstimate, consistent_fit, consistent_of, standard_columns
from excitor.identify.diagnose import Finding, diagnose, several, usable
from excitor.identify.estimate import Estimate, compress, select, wls
from excitor.identify.intervals import Intervals, block_bootstrap, spectral_intervals, wider
from excitor.identify.logs.read import log_files
from excitor.identify.methods import Problem, affordable_sensitivity
from excitor.identify.reduce import Reduction, Rule, backward_selection, essential
from excitor.identify.regression import Regression, Rows, dynamic_regression
from excitor.identify.samples import Samples, Step
from excitor.identify.signals import decimate
from excitor.identify.validate import (
    Baselines,
    Errors,
    Validation,
    set_baselines,
    standard_parameters,
    torque_errors,
    validate,
)
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, random_motion, regroupings
from excitor.robots.codegen import inverse_dynamics_code
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, RankDeficient, SolverFailed
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import Servo, servo_for
from excitor.robots.tree import Tree

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
    return fit_examined(read_and_examine(campaign, tell), tell)


def fit_examined(examined: Examined, tell: Tell = lambda _: None) -> Identified:
    """Fit runs that were read and examined, with intervals, a consistent model and a validation."""
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


def write_model(result: Identified) -> list[Path]:
    """Write everything into the campaign's folder; each file whole or not at all."""
    folder = result.campaign.folder
    robot = result.campaign.robot
    chi = standard_parameters(robot, result.estimate)
    texts = {"model.json": json.dumps(model_data(result), indent=2, allow_nan=False) + "\n"}
    if isinstance(robot.mechanism, Tree):
        texts["model.c"] = inverse_dynamics_code(robot, "c", chi=chi)
        texts["model.py"] = inverse_dynamics_code(robot, "python", chi=chi)
    if Path(str(result.campaign.robot_source)).suffix.lower() in (".urdf", ".xml") and result.consistent is not None:
        from excitor.robots.files.urdf import filled_urdf

        source = Path(result.campaign.robot_source)
        texts["model.urdf"] = filled_urdf(source.read_text("utf-8-sig"), robot, result.consistent.chi)
    for name in reversed(texts):  # model.json last: it tells that the others are up to date
        write_atomically(folder / name, texts[name])
    return [folder / name for name in texts]


def code_note(result: Identified) -> str:
    """Say why no code of the model is written, if so."""
    if isinstance(result.campaign.robot.mechanism, Tree):
        return ""
    return (
        f"no model.c and model.py: {result.campaign.robot.name} has closed loops, which are closed by iteration; "
        "code is written for open chains only, so use model.json"
    )


def model_data(result: Identified) -> dict[str, Any]:
    """Write a model for scripts, with what it rests on."""
    robot, estimate, intervals = result.campaign.robot, result.estimate, result.intervals
    base = base_parameters(robot)
    forms = dict(zip((base_name.removesuffix("R") for base_name in base.names), regroupings(robot, base), strict=True))
    return {
        "schema": SCHEMA,
        "robot": robot.name,
        "method": result.campaign.content.identify.method,
        "parameters": [
            {
                "name": name,
                "regrouping": forms.get(name, name),
                "unit": unit,
                "value": float(value),
                "sigma_white": float(white),
                "sigma": float(robust),
                "interval": [float(low), float(high)],
            }
            for name, unit, value, white, robust, low, high in zip(
                estimate.names,
                estimate.units,
                estimate.values,
                estimate.sigma,
                intervals.sigma,
                intervals.low,
                intervals.high,
                strict=True,
            )
        ],
        "covariance": [[float(x) for x in row] for row in intervals.covariance],
        "standard": standard_data(result),
        "rank": len(estimate.names),
        "condition": estimate.condition,
        "smallest_mass_matrix_eigenvalue": result.smallest_inertia,
        "singular_values": [float(x) for x in estimate.singular_values],
        "weights": [
            {"joint": robot.joint_names[joint], "run": run, "sigma": sigma}
            for (joint, run), sigma in estimate.group_sigma.items()
        ],
        "training": validation_data(result.training),
        "held_out": None if result.held_out is None else validation_data(result.held_out),
        "reduction": reduction_data(result),
        "findings": [
            {"level": finding.level, "what": finding.what, "sentence": str(finding)} for finding in result.findings
        ],
        "processing": [{"step": step.name, **step.settings} for step in result.steps],
        "provenance": provenance(result.campaign),
    }


def reduction_data(result: Identified) -> dict[str, Any] | None:
    """Write which parameters left by sensitivity, and on which data that was judged."""
    if result.reduction is None:
        return None
    return {
        "acceptance": result.reduction.rule.acceptance,
        "tolerance": result.reduction.rule.tolerance,
        "decisions": [
            {"name": d.name, "sensitivity": d.sensitivity, "ratio": d.ratio, "joint": d.joint, "kept": d.kept}
            for d in result.reduction.decisions
        ],
    }


def standard_data(result: Identified) -> dict[str, Any]:
    """Write the physically consistent parameters, or why there are none."""
    consistent = result.consistent
    if consistent is None:
        return {"status": "none", "reason": result.refusal}
    params = layout(result.campaign.robot)
    return {
        "status": consistent.status,
        "solver": consistent.solver,
        "loss": consistent.loss,
        "smallest_eigenvalues": [float(x) for x in consistent.eigenvalue],
        "parameters": [
            {"name": name, "unit": unit, "value": float(value), "label": label}
            for name, unit, value, label in zip(
                consistent.names, consistent.units, consistent.chi, consistent.labels, strict=True
            )
        ],
        "link_covariances": {
            name: [[float(x) for x in row] for row in consistent.covariance[params.link(j), params.link(j)]]
            for j, name in enumerate(result.campaign.robot.mechanism.link_names)
        },
    }


def validation_data(validation: Validation) -> dict[str, Any]:
    """Write errors beside the baselines."""
    return {
        "runs": list(validation.runs),
        "figures": {name: finite(value) for name, value in validation.figures.items()},
        "joints": {
            joint: {
                "relative": finite(validation.model.relative[k]),
                "mean_absolute": finite(validation.model.mean_absolute[k]),
                "rmse": finite(validation.model.rmse[k]),
            }
            for k, joint in enumerate(validation.joints)
        },
    }


def provenance(campaign: OpenCampaign) -> dict[str, Any]:
    """Name versions and the hashes of everything that was read."""
    return {
        "excitor": version("excitor"),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "sha256": file_digests(campaign) if campaign.text else {},  # data in memory come from no file
    }


def file_digests(campaign: OpenCampaign) -> dict[str, str]:
    """Hash every file that an identification reads, named from the campaign's folder."""
    robot_file = Path(campaign.robot_source)
    own = [robot_file] if robot_file.is_file() else []
    logs = (file for run in campaign.content.run for file in log_files(campaign.folder / run.log))
    read = [campaign.folder / FILE, *own, *logs]
    targets = {run.program.partition("/")[0] for run in campaign.content.run if run.program is not None}
    read += [campaign.folder / PROGRAMS / target / MANIFEST for target in sorted(targets)]
    for entry in campaign.content.log.signals if campaign.content.log is not None else ():
        if entry.file:
            read += [(campaign.folder / run.log).parent / entry.file for run in campaign.content.run]
    return {
        str(path.relative_to(campaign.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in dict.fromkeys(read)
    }


def finite(value: Any) -> float | None:
    """JSON has no infinity."""
    return float(value) if np.isfinite(value) else None


LEARNED = 2.0 / 3.0  # of each run, where no run was kept back: the rest judges
SUBSTITUTE = (
    'No run has role = "validate", so the last third of every moving run was kept back to judge by, and the methods '
    "were fitted to the rest. It was recorded in the same minutes, and of a motion that repeats it is the same motion "
    "again, so a recommendation that counts needs a run of its own"
)
JUDGELESS = (
    "cannot judge a model: no joint moves there while a torque is measured; check that its channels were recorded, or "
    'give another run role = "validate"'
)
APART = 0.1  # s left out between the two: filters look ahead and back


@dataclass(frozen=True)
class Prepared:
    """One problem for all methods, and equations that none of them was fitted to."""

    examined: Examined
    problem: Problem
    judging: Regression  # of what no method has seen
    fitted: Regression  # of what all were fitted to, about reversals too
    noise: FloatArray | None  # variance of the judging equations, where repetitions tell
    servo: Servo | None  # assumed, for methods that simulate
    substitute: str  # how the judging data were kept back, where the campaign keeps back none; else ""


def prepare(campaign: OpenCampaign, tell: Tell = lambda _: None) -> Prepared:
    """Read and examine a campaign's runs; without a validation run, keep back the last third of each."""
    if campaign.content.task == "payload":
        raise ExcitorError(
            'compare: the campaign has task = "payload", whose load has an estimator of its own; compare the methods '
            "on a campaign of the arm"
        )
    return prepare_examined(read_and_examine(campaign, tell), tell)


def prepare_examined(examined: Examined, tell: Tell = lambda _: None) -> Prepared:
    """Pose one problem for all methods; without a validation run, keep back the last third of each."""
    substitute = ""
    if not examined.unseen:
        examined = kept_back(examined)
        substitute = SUBSTITUTE
        tell(substitute)
    campaign = examined.campaign
    regression = enough_equations(campaign, examined.known)
    problem = problem_of(examined, regression)
    judging = equations(campaign, examined.unseen, judging=True)
    if not np.any(judging.y):
        names = several([repr(run.run) for run in examined.unseen])
        raise ExcitorError(f"{names} {JUDGELESS}")
    return Prepared(
        examined=examined,
        problem=problem,
        judging=judging,
        fitted=equations(campaign, examined.known, judging=True),
        noise=mean_noise(examined, judging),
        servo=problem.servo,
        substitute=substitute,
    )


def problem_of(examined: Examined, regression: Regression) -> Problem:
    """Pose the problem that methods solve: a controller is assumed for those that simulate."""
    robot, runs = examined.campaign.robot, examined.known
    servo = servo_of(robot, runs, regression)
    references = planned_references(examined.alignments, runs, None if servo is None else servo.rate_hz)
    return Problem(robot, tuple(runs), rows_of(examined.campaign), regression, servo, references)


def servo_of(robot: Robot, runs: list[Samples], regression: Regression) -> Servo | None:
    """Assume a controller that knows the model of least squares, or else the prior; None where neither has a mass."""
    try:
        chi = standard_parameters(robot, wls(compress(regression)))
    except RankDeficient:
        return assumed_servo(robot, runs, prior(robot))
    return assumed_servo(robot, runs, chi) or assumed_servo(robot, runs, prior(robot))


def kept_back(examined: Examined) -> Examined:
    """Split every moving run: the first two thirds to learn from, the last third to judge by."""
    known: list[Samples] = [run for run in examined.known if run.static]
    unseen: list[Samples] = []
    for run in examined.known:
        if run.static:
            continue
        border, gap = int(LEARNED * len(run)), max(1, round(APART * run.sample_rate_hz))
        if border < 3 or len(run) - border - gap < 3:
            raise ExcitorError(
                f'run {run.run!r} has {len(run)} samples, too few to keep back a third; give a run role = "validate"'
            )
        known.append(part(run, slice(0, border), "first two thirds"))
        unseen.append(part(run, slice(border + gap, None), "last third"))
    if not unseen:
        raise ExcitorError(
            'every run holds poses, so nothing that moves can be kept back; give a moving run role = "validate"'
        )
    samples = {run.run: run for run in (*known, *unseen)}
    return replace(examined, samples=samples, known=known, unseen=unseen)


def part(run: Samples, span: slice, words: str) -> Samples:
    """Take a stretch of a run under a name that says so; the noise's spectrum, of the whole, does not come along."""
    motion = Motion(run.motion.q[span], run.motion.dq[span], run.motion.ddq[span])
    return replace(
        run,
        run=f"{run.run} ({words})",
        motion=motion,
        tau=run.tau[span],
        variance=None if run.variance is None else run.variance[span],
        noise=None,
        steps=(*run.steps, Step("part", {"which": words})),
    )


def beside(prepared: Prepared, chi: FloatArray) -> Baselines:
    """Predict what needs no identification on the same equations; gravity alone is that of a model."""
    campaign = prepared.examined.campaign
    return set_baselines(
        campaign.robot,
        prepared.examined.unseen,
        chi=chi,
        regression=prepared.judging,
        decimate=thinner(campaign),
    )


def baseline_errors(prepared: Prepared, found: Baselines) -> Mapping[str, Errors]:
    """Judge the baselines on the same equations."""
    torques = {"zero": found.zero, "gravity only": found.gravity, "prior model": found.prior}
    return {name: torque_errors(prepared.judging, tau) for name, tau in torques.items()}


def noise_errors(prepared: Prepared) -> tuple[list[float], float] | None:
    """Tell what noise alone would leave, by joint and in total: no model leaves less. None where nobody knows."""
    if prepared.noise is None:
        return None
    judging, variance = prepared.judging, prepared.noise
    rows = [judging.joint == j for j in np.unique(judging.joint)]
    shares = [float(np.sqrt(np.sum(variance[r]) / max(np.sum(judging.y[r] ** 2), 1e-300))) for r in rows]
    return shares, float(np.sqrt(np.sum(variance) / np.sum(judging.y**2)))


BANDWIDTH_HZ = 20.0
RATE_HZ = 1000.0  # at least
PROBED_S = 0.5  # s of a run that are simulated to tell what all would take
PASSES = {"iv": 4, "didim": 10, "input-error": 10}  # how often methods simulate all runs
ITERATIONS = 4  # that input error needs at least where each parameter asks for a simulation in each of them
ASSUMED = (
    f"no campaign tells the robot's controller, so one of {BANDWIDTH_HZ:g} Hz was assumed, which is fed "
    "forward the torques of a model"
)


def assumed_servo(robot: Robot, runs: Sequence[Samples], chi: FloatArray) -> Servo | None:
    """Assume a stiff controller that knows a model, a whole multiple as fast as the logs; None where that cannot be."""
    moving = [run for run in runs if not run.static]
    rates = {run.sample_rate_hz for run in moving}
    if len(rates) != 1 or not positive(robot, moving, chi):
        return None
    rate = rates.pop()
    fast = rate * max(1, int(np.ceil(RATE_HZ / rate - 1e-9)))
    servo = servo_for(robot, moving[0].motion, bandwidth_hz=BANDWIDTH_HZ, chi=chi, rate_hz=fast)
    return Servo(servo.kp, servo.kd, fast, feedforward=chi, inertia=servo.inertia)


def positive(robot: Robot, runs: Sequence[Samples], chi: FloatArray) -> bool:
    """Tell whether the mass matrix of a model is positive definite along runs: gains are tuned on it."""
    q = np.concatenate([run.motion.q[:: max(1, len(run) // 200)] for run in runs])
    return bool(np.linalg.eigvalsh(mass_matrix(robot, q, chi)).min() > 0.0)


def planned_references(
    alignments: Mapping[str, Alignment], runs: Sequence[Samples], rate_hz: float | None
) -> Mapping[str, Motion] | None:
    """Say what runs of planned series were told, at a servo's rate or their own; None where no run was planned."""
    found = {}
    for run in runs:
        alignment = alignments.get(run.run)
        if alignment is None or run.static or not isinstance(alignment.expected.body, Trajectory):
            continue
        excitation = alignment.expected.body.excitation
        first = alignment.expected.steady_span[0] + excitation.warm_up * excitation.period
        stride = 1 if rate_hz is None else round(rate_hz / run.sample_rate_hz)
        n = stride * len(run)
        t = first + excitation.period * np.arange(n) / n
        found[run.run] = Motion(*(alignment.expected.planned(t, order) for order in range(3)))
    return found or None


def seconds_of(method: str, problem: Problem) -> float:
    """Estimate what a method that simulates will take, CPU s; 0 if unknown."""
    moving = [run for run in problem.runs if not run.static]
    if problem.servo is None or not moving:
        return 0.0
    run = beginning(moving[0], PROBED_S)
    try:
        replay = set_up_replay(problem.robot, [run], problem.servo)
    except ExcitorError:
        return 0.0
    chi = problem.servo.feedforward
    assert chi is not None
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
    """Take the first seconds of a run."""
    n = max(3, int(seconds * run.sample_rate_hz))
    if len(run) <= n:
        return run
    motion = Motion(run.motion.q[:n], run.motion.dq[:n], run.motion.ddq[:n])
    variance = None if run.variance is None else run.variance[:n]
    return replace(run, motion=motion, tau=run.tau[:n], variance=variance, noise=None)
