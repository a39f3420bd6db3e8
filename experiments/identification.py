"""Identification of a model from a campaign's logs: read, process, diagnose, fit, estimate uncertainty, validate."""

import hashlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import FILE, OpenCampaign
from excitor.experiments.files import write_atomically
from excitor.experiments.logs import band_findings, dead_zone, filter_sentences, read_run_aligned, settle
from excitor.experiments.manifest import MANIFEST, PROGRAMS
from excitor.experiments.model import FILE as MODEL
from excitor.experiments.model import Fitted, Model, Standard, Weight, read_model
from excitor.identify.closed_loop import set_up_replay, simulate_runs
from excitor.identify.consistent import ConsistentEstimate, consistent_fit, consistent_of, standard_columns
from excitor.identify.diagnose import Finding, diagnose, several, usable
from excitor.identify.estimate import Estimate, Factors, compress, wls
from excitor.identify.intervals import Intervals
from excitor.identify.logs.formats import log_files
from excitor.identify.methods import SIMULATING, Problem, Weighting, affordable_sensitivity, answer
from excitor.identify.reduce import Reduction, Rule
from excitor.identify.regression import Regression, Rows, dynamic_regression, pick_columns, settled, subset
from excitor.identify.samples import Samples, Step, pick_samples
from excitor.identify.signals import decimate
from excitor.identify.validate import (
    Baselines,
    Errors,
    Parameters,
    Validation,
    set_baselines,
    standard_parameters,
    torque_errors,
    validate,
)
from excitor.robots.arrays import FloatArray, IntArray, finite
from excitor.robots.base import base_parameters, random_motion, regroupings
from excitor.robots.codegen import inverse_dynamics_code
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, RankDeficient, SolverError
from excitor.robots.friction import friction_model
from excitor.robots.load import read_content, read_text
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import Servo, servo_for
from excitor.robots.tree import Tree

Tell = Callable[[str], None]
LEAST_ROWS = 3  # equations a parameter; fewer fit anything
STANDSTILL = 0.01  # rad or m: a locked joint's servo may still sway by this
COSTLIEST = 0.5  # of the residual: a consistent model that costs more contradicts the data


class UnusableData(ExcitorError):
    """Logs that cannot give a valid model, with the findings that explain why."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        reasons = [str(finding) for finding in findings if finding.level == "unusable"]
        super().__init__("no model is written, because of what the data show:\n" + "\n".join(reasons))


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
    training: Validation
    held_out: Validation | None
    samples: Mapping[str, Samples]  # of every run, by its name
    alignments: Mapping[str, Alignment]  # of the runs of emitted programs
    known: Regression  # equations of the runs fitted to, about reversals of friction too
    unseen: Regression | None  # likewise of the others

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


@dataclass(frozen=True)
class UsableRuns(Runs):
    """Runs that passed their diagnosis, with its findings."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Equations:
    """Equations of the runs that are fitted to, made from one set of columns."""

    fitted: Regression  # of the base parameters
    judging: Regression  # the same about reversals of friction too, where nothing is learned but a model is judged
    standard: Factors | None  # of all parameters, where they were asked for


def identify(campaign: OpenCampaign, tell: Tell = lambda _: None) -> IdentifiedModel:
    """Identify a campaign's robot; raise UnusableData if the data would bias the model."""
    return fit_examined(read_and_examine(campaign, tell), tell)


def fit_examined(examined: UsableRuns, tell: Tell = lambda _: None) -> IdentifiedModel:
    """Fit runs that were read and examined, with intervals, a consistent model and a validation."""
    campaign, settings = examined.campaign, examined.campaign.content.identify
    equations = known_equations(examined, standard=settings.consistent and settings.method == "wls")
    unseen = judging_equations(campaign, examined.unseen) if examined.unseen else None
    found = answer(settings.method, problem_of(examined, equations.fitted, unseen))
    if found.estimate is None or found.intervals is None:
        raise ExcitorError(f"{settings.method} refuses: {found.refused}")
    estimate, intervals = found.estimate, found.intervals
    tell(f"fitted {len(estimate.names)} parameters to {estimate.n_rows} equations by {settings.method}")
    findings = (*examined.findings, *impossible_friction(campaign.robot, intervals, examined.training))
    if not usable(findings):
        raise UnusableData(findings)
    consistent, refusal = fit_consistent(campaign, equations.standard, estimate)
    tell("physically consistent model found" if consistent else f"no physically consistent model: {refusal}")
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
        training=judge(examined, equations.judging, estimate, training=True),
        held_out=None if unseen is None else judge(examined, unseen, estimate),
        samples=examined.samples,
        alignments=examined.alignments,
        known=equations.judging,
        unseen=unseen,
    )


def read_runs(campaign: OpenCampaign, tell: Tell = lambda _: None) -> Runs:
    """Read all runs of a campaign."""
    campaign, logs = settle(campaign)
    read = {
        run.name: read_run_aligned(campaign, run, measured=logs.pop(run.name, None)) for run in campaign.content.run
    }
    runs = {name: samples for name, (samples, _) in read.items()}
    roles = {run.name: run.role for run in campaign.content.run}
    campaign = replace(campaign, robot=with_locked(campaign, list(runs.values())))
    tell(f"read {len(runs)} runs, {sum(len(samples) for samples in runs.values())} samples")
    for sentence in filter_sentences(runs):
        tell(sentence)
    return Runs(
        campaign=campaign,
        samples=runs,
        alignments={name: alignment for name, (_, alignment) in read.items() if alignment is not None},
        training=[samples for name, samples in runs.items() if roles[name] == "identify"],
        unseen=[samples for name, samples in runs.items() if roles[name] == "validate"],
    )


def read_and_examine(campaign: OpenCampaign, tell: Tell = lambda _: None) -> UsableRuns:
    """Read all runs and diagnose them; raise UnusableData if they would bias the model."""
    runs = read_runs(campaign, tell)
    robot = runs.campaign.robot
    findings = (*band_findings(runs.campaign), *examine(robot, runs.training), *doubts(examine(robot, runs.unseen)))
    for finding in findings:
        tell(f"{finding.level}: {finding}")
    if not usable(findings):
        raise UnusableData(findings)
    return UsableRuns(runs.campaign, runs.samples, runs.alignments, runs.training, runs.unseen, findings)


def known_equations(runs: Runs, *, standard: bool = False) -> Equations:
    """Build the equations to fit; ExcitorError where they are too few for the parameters."""
    campaign, rows = runs.campaign, rows_of(runs.campaign)
    robot, names = campaign.robot, layout(campaign.robot).names
    base = base_parameters(robot).kept
    columns = np.union1d(base, standard_columns(robot)) if standard else base
    whole = judging_equations(campaign, runs.training, columns)
    learned = settled(whole, robot, runs.training, rows)
    _check_left(learned)
    factors = compress(pick_columns(learned, [names[k] for k in standard_columns(robot)])) if standard else None
    judging = pick_columns(whole, [names[k] for k in base])
    fitted = settled(judging, robot, runs.training, rows)
    if len(fitted) < LEAST_ROWS * len(fitted.names):
        raise ExcitorError(
            f"{len(fitted)} equations are left for {len(fitted.names)} parameters; "
            "lower processing.decimate or dead_zone_percent, or record more"
        )
    return Equations(fitted, judging, factors)


def judging_equations(campaign: OpenCampaign, runs: list[Samples], columns: IntArray | None = None) -> Regression:
    """Build the equations for evaluating a model; ExcitorError where thinning and the dead zone leave none.

    They include the rows about reversals of friction, which are not fitted.
    """
    rows = replace(rows_of(campaign), settling=0.0)
    try:
        regression = dynamic_regression(campaign.robot, runs, columns=columns, rows=rows)
    except ValueError as error:
        names = ", ".join(samples.run for samples in runs)
        raise ExcitorError(f"{names}: cannot be thinned: {error}; see processing.decimate") from None
    _check_left(regression)
    return regression


def _check_left(regression: Regression) -> None:
    if not len(regression):
        raise ExcitorError(
            f"{', '.join(regression.runs)}: no equations are left; lower processing.decimate or dead_zone_percent"
        )


def examine(robot: Robot, runs: list[Samples]) -> tuple[Finding, ...]:
    """Diagnose runs that move; static poses are no series of time."""
    moving = [samples for samples in runs if not samples.static]
    return diagnose(robot, moving) if moving else ()


def doubts(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Downgrade unusable findings of validation runs to doubtful ones."""
    return tuple(
        replace(finding, level="doubtful", sentence=f"of the validation: {finding.sentence}")
        for finding in findings
        if finding.level == "unusable"
    )


def impossible_friction(robot: Robot, intervals: Intervals, runs: Sequence[Samples] = ()) -> tuple[Finding, ...]:
    """List friction whose interval is below 0: a wrong sign, scale or clock causes it where all friction drives.

    Where the friction of its joints resists on the whole, the data may be right: it is a doubt.
    """
    resists = {term.parameter for term in robot.drive.friction if friction_model(term).sign == "positive"}
    impossible = [
        (name, float(value), float(high))
        for name, value, high in zip(intervals.names, intervals.values, intervals.high, strict=True)
        if name in resists and high < 0.0
    ]
    drives = _driving(robot, intervals, runs) if impossible else {}
    return tuple(
        Finding(
            "unusable" if drives[name] else "doubtful",
            "friction",
            f"{name} is {value:.3g}, surely below 0 (95 % interval up to {high:.3g}): friction cannot drive a joint"
            + ("" if drives[name] else ", although all friction of the joint together resists"),
            "check the torque's sign and scale, the sample rate and which joints stand still",
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
    """Return the selection of equations: thinned, and without slow joints."""
    settings = campaign.content.processing
    return Rows(decimate=thinner(campaign), dead_zone=dead_zone(campaign), settling=settings.settling_s)


def thinner(campaign: OpenCampaign) -> Callable[[FloatArray], FloatArray] | None:
    """Build the common decimation of torques, columns and velocities."""
    factors = tuple(campaign.content.processing.decimate)
    return (lambda x: decimate(x, factors)) if factors else None


def weighting_of(campaign: OpenCampaign, unseen: Regression | None, runs: list[Samples]) -> Weighting:
    """Return the campaign's weighting of rows in wls, and its reduction of the model."""
    settings, robot = campaign.content.identify, campaign.robot
    if settings.acceptance is None:
        return Weighting(settings.weights, settings.essential_ratio)
    friction = {term.parameter for term in robot.drive.friction}
    names = layout(robot).names
    preset = tuple(names[k] for k in base_parameters(robot).kept if names[k] in friction)
    rule = Rule(settings.acceptance, tolerance=settings.tolerance, essential=preset)
    judging = None
    if settings.acceptance == "validation" and unseen is not None:
        judging = settled(unseen, robot, runs, rows_of(campaign))
    return Weighting(settings.weights, rule=rule, judging=judging)


def fit_consistent(
    campaign: OpenCampaign, standard: Factors | None, estimate: Estimate
) -> tuple[ConsistentEstimate | None, str | None]:
    """Fit physically consistent standard parameters, or return why there are none: a failed solve is never exported.

    They are fitted to the equations where these are given, else to the estimate.
    """
    if not campaign.content.identify.consistent:
        return None, "the campaign asks for none"
    robot = campaign.robot
    try:
        if standard is None:
            consistent = consistent_of(estimate, robot)
        else:
            consistent = consistent_fit(standard, robot, sigma=estimate.group_sigma)
    except (SolverError, ValueError) as error:
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


def judge(runs: Runs, regression: Regression, model: Parameters, *, training: bool = False) -> Validation:
    """Compare predicted with measured torques on a regression's rows, beside the baselines."""
    campaign, own = runs.campaign, runs.training if training else runs.unseen
    chi = standard_parameters(campaign.robot, model)
    baselines = set_baselines(campaign.robot, own, chi=chi, regression=regression, decimate=thinner(campaign))
    trained_on = [samples.run for samples in runs.training]
    return validate(regression, model, baselines=baselines, trained_on=trained_on, training=training)


def mean_noise(campaign: OpenCampaign, samples: Mapping[str, Samples], regression: Regression) -> FloatArray | None:
    """Compute the variance of each equation's torque, the mean of repetitions; None where unknown.

    σ² of an equation is that of a single repetition over their number; of thinned equations nobody knows it.
    """
    count = np.array([samples[name].repetitions for name in regression.runs], dtype=float)
    thinned = bool(campaign.content.processing.decimate)
    if regression.variance is None or thinned or not count.all():
        return None
    return np.asarray(regression.variance / count[regression.run])


def noise_share(identified: IdentifiedModel) -> float:
    """Compute the noise as a share of held-out torques, a lower bound of any model's error; NaN if unknown."""
    regression = identified.unseen
    variance = None if regression is None else mean_noise(identified.campaign, identified.samples, regression)
    if regression is None or variance is None:
        return np.nan
    return float(np.sqrt(np.sum(variance) / np.sum(regression.y**2)))


def write_model(result: IdentifiedModel) -> list[Path]:
    """Write the model's files into the campaign's folder, each atomically."""
    folder = result.campaign.folder
    robot = result.campaign.robot
    chi = standard_parameters(robot, result.estimate)
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
    robot = result.campaign.robot
    if not isinstance(robot.mechanism, Tree):
        return (
            f"no model.c and model.py: {robot.name} has closed loops, which are closed by iteration; "
            "code is written for open chains only, so use model.json"
        )
    rows = {term.parameter: friction_model(term) for term in robot.drive.friction}
    unwritten = [name for name, row in rows.items() if row.memory or row.compiled is None]
    if unwritten:
        return (
            f"no model.c and model.py: friction {', '.join(unwritten)} of {robot.name} remembers, or is a registered "
            "law; code holds formulas of one instant, so use model.json"
        )
    return ""


def model_of(result: IdentifiedModel) -> Model:
    """Describe an identification as in model.json."""
    robot, estimate, intervals = result.campaign.robot, result.estimate, result.intervals
    base = base_parameters(robot)
    forms = dict(zip((name.removesuffix("R") for name in base.names), regroupings(robot, base), strict=True))
    return Model(
        robot_name=robot.name,
        method=result.campaign.content.identify.method,
        names=estimate.names,
        units=estimate.units,
        regroupings=tuple(forms.get(name, name) for name in estimate.names),
        values=estimate.values,
        sigma_white=estimate.sigma,
        sigma=intervals.sigma,
        low=intervals.low,
        high=intervals.high,
        covariance=intervals.covariance,
        standard=None if result.consistent is None else standard_of(result.consistent, robot),
        refusal=result.refusal or "",
        condition=estimate.condition,
        smallest_inertia=result.smallest_inertia,
        singular_values=estimate.singular_values,
        weights=tuple(
            Weight(robot.joint_names[joint], run, sigma) for (joint, run), sigma in estimate.group_sigma.items()
        ),
        fitted=fitted_of(estimate, intervals),
        training=validation_data(result.training),
        held_out=None if result.held_out is None else validation_data(result.held_out),
        reduction=reduction_data(result),
        findings=findings_data(result.findings),
        processing=steps_data(result.steps),
        provenance=provenance(result.campaign),
        robot=robot,
    )


def standard_of(consistent: ConsistentEstimate, robot: Robot) -> Standard:
    """Describe the physically consistent parameters."""
    params, links = layout(robot), robot.mechanism.link_names
    return Standard(
        names=consistent.names,
        units=consistent.units,
        values=consistent.chi,
        labels=consistent.labels,
        status=consistent.status,
        solver=consistent.solver,
        loss=consistent.loss,
        eigenvalues=consistent.eigenvalue,
        covariances={name: consistent.covariance[params.link(j), params.link(j)] for j, name in enumerate(links)},
        sigma=np.sqrt(np.diag(consistent.covariance)),
        share=consistent.share,
        active=consistent.active,
        links=tuple(links[j] for j in consistent.links.tolist()),
    )


def fitted_of(estimate: Estimate, intervals: Intervals) -> Fitted:
    """Describe the settings of an estimate and its intervals; a setting that is not finite becomes None."""
    settings = {key: finite(x) if isinstance(x, float) else x for key, x in estimate.settings.items()}
    return Fitted(
        estimate.n_rows, settings, intervals.method, {key: finite(x) for key, x in intervals.settings.items()}
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
    changed = [name for name, digest in now["sha256"].items() if listed.get(name) != digest]
    changed += [name for name in listed if name not in now["sha256"]]
    if then.get("prior_sha256") != now.get("prior_sha256"):
        changed.append("the arm's model")
    payload, method = campaign.content.task == "payload", campaign.content.identify.method
    if changed:
        return None, f"{', '.join(changed[:3])} changed since {MODEL} was written"
    if then.get("excitor") != now["excitor"]:
        return None, f"{MODEL} was written by another version of excitor"
    if model.task != campaign.content.task:
        return None, f"{MODEL} is of task {model.task!r}"
    if payload:
        return model, ""
    if model.method != method:
        return None, f"{MODEL} was identified by {model.method}, and {FILE} asks for {method}"
    if model.fitted is None or (model.standard is not None and model.standard.sigma is None):
        return None, f"{MODEL} is of an older version, which does not hold all that a report shows"
    return model, ""


def reduction_data(result: IdentifiedModel) -> dict[str, Any] | None:
    """Write which parameters were eliminated by sensitivity, and on which data that was decided."""
    if result.reduction is None:
        return None
    return {
        "acceptance": result.reduction.rule.acceptance,
        "tolerance": result.reduction.rule.tolerance,
        "decisions": [asdict(decision) for decision in result.reduction.decisions],
    }


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
    """Collect versions and the digests of all files that were read."""
    return {
        "excitor": version("excitor"),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "sha256": file_digests(campaign) if campaign.text else {},  # data in memory come from no file
        **_arm_provenance(campaign),
    }


def file_digests(campaign: OpenCampaign) -> dict[str, str]:
    """Hash every file that an identification reads, named from the campaign's folder."""
    own = reversed(read_content(campaign.robot_source).files)
    logs = (file for run in campaign.content.run for file in log_files(campaign.folder / run.log))
    read = [campaign.folder / FILE, *own, *logs]
    targets = {run.program.partition("/")[0] for run in campaign.content.run if run.program is not None}
    read += [campaign.folder / PROGRAMS / target / MANIFEST for target in sorted(targets)]
    for entry in campaign.content.log.signals if campaign.content.log is not None else ():
        if entry.file:
            read += [(campaign.folder / run.log).parent / entry.file for run in campaign.content.run]
    return {str(path.relative_to(campaign.folder)): _digest(path) for path in dict.fromkeys(read)}


def _arm_provenance(campaign: OpenCampaign) -> dict[str, str]:
    """Return the name and digest of a payload campaign's arm model, which may be in another folder."""
    prior = campaign.content.prior
    if campaign.content.task != "payload" or prior is None:
        return {}
    return {"prior": prior, "prior_sha256": _digest(campaign.folder / prior)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
    if campaign.content.task == "payload":
        raise ExcitorError(
            'compare: the campaign has task = "payload", whose load has an estimator of its own; compare the methods '
            "on a campaign of the arm"
        )
    return prepare_examined(read_and_examine(campaign, tell), tell)


def prepare_examined(examined: UsableRuns, tell: Tell = lambda _: None) -> ComparisonProblem:
    """Pose one problem for all methods; without a validation run, keep back the last third of each."""
    substitute = ""
    if not examined.unseen:
        examined = kept_back(examined)
        substitute = SUBSTITUTE
        tell(substitute)
    campaign = examined.campaign
    equations = known_equations(examined)
    problem = simulating_problem(
        examined, Problem(campaign.robot, tuple(examined.training), rows_of(campaign), equations.fitted)
    )
    judging = judging_equations(campaign, examined.unseen)
    if not np.any(judging.y):
        names = several([repr(run.run) for run in examined.unseen])
        raise ExcitorError(f"{names} {JUDGELESS}")
    return ComparisonProblem(
        examined=examined,
        problem=problem,
        judging=judging,
        fitted=equations.judging,
        noise=mean_noise(campaign, examined.samples, judging),
        substitute=substitute,
    )


def problem_of(runs: Runs, regression: Regression, unseen: Regression | None) -> Problem:
    """Build the problem that the campaign's method solves."""
    campaign = runs.campaign
    weighting = weighting_of(campaign, unseen, runs.unseen)
    problem = Problem(campaign.robot, tuple(runs.training), rows_of(campaign), regression, weighting=weighting)
    return simulating_problem(runs, problem) if campaign.content.identify.method in SIMULATING else problem


def simulating_problem(runs: Runs, problem: Problem) -> Problem:
    """Add an assumed controller for methods that simulate, and the commanded motion."""
    servo = servo_of(problem.robot, runs.training, problem.regression)
    references = planned_references(runs.alignments, runs.training, None if servo is None else servo.rate_hz)
    return replace(problem, servo=servo, references=references)


def servo_of(robot: Robot, runs: list[Samples], regression: Regression) -> Servo | None:
    """Build a controller with the model of least squares, or else the prior; None where neither has a mass."""
    try:
        chi = standard_parameters(robot, wls(compress(regression)))
    except RankDeficient:
        return assumed_servo(robot, runs, prior(robot))
    return assumed_servo(robot, runs, chi) or assumed_servo(robot, runs, prior(robot))


def kept_back(examined: UsableRuns) -> UsableRuns:
    """Split every moving run: the first two thirds for training, the last third held out."""
    training: list[Samples] = [run for run in examined.training if run.static]
    unseen: list[Samples] = []
    for run in examined.training:
        if run.static:
            continue
        border, gap = int(LEARNED * len(run)), max(1, round(APART * run.sample_rate_hz))
        if border < 3 or len(run) - border - gap < 3:
            raise ExcitorError(
                f'run {run.run!r} has {len(run)} samples, too few to keep back a third; give a run role = "validate"'
            )
        training.append(part(run, slice(0, border), "first two thirds"))
        unseen.append(part(run, slice(border + gap, None), "last third"))
    if not unseen:
        raise ExcitorError(
            'every run holds poses, so nothing that moves can be kept back; give a moving run role = "validate"'
        )
    samples = {run.run: run for run in (*training, *unseen)}
    return replace(examined, samples=samples, training=training, unseen=unseen)


def part(run: Samples, span: slice, words: str) -> Samples:
    """Return a segment of a run, named accordingly."""
    named = f"{run.run} ({words})"
    return replace(pick_samples(run, span), run=named, steps=(*run.steps, Step("part", {"which": words})))


def beside(prepared: ComparisonProblem, chi: FloatArray) -> Baselines:
    """Predict the baselines on the same equations; gravity alone is that of a model."""
    campaign, unseen = prepared.examined.campaign, prepared.examined.unseen
    return set_baselines(campaign.robot, unseen, chi=chi, regression=prepared.judging, decimate=thinner(campaign))


def baseline_errors(prepared: ComparisonProblem, found: Baselines) -> Mapping[str, Errors]:
    """Compute the errors of the baselines on the same equations."""
    torques = {"zero": found.zero, "gravity only": found.gravity, "prior model": found.prior}
    return {name: torque_errors(prepared.judging, tau) for name, tau in torques.items()}


def noise_errors(prepared: ComparisonProblem) -> tuple[list[float], float] | None:
    """Compute the relative error due to noise alone, by joint and in total, a lower bound; None where unknown."""
    if prepared.noise is None:
        return None
    judging, variance = prepared.judging, prepared.noise
    rows = [judging.joint == j for j in np.unique(judging.joint)]
    shares = [float(np.sqrt(np.sum(variance[r]) / max(np.sum(judging.y[r] ** 2), 1e-300))) for r in rows]
    return shares, float(np.sqrt(np.sum(variance) / np.sum(judging.y**2)))


BANDWIDTH_HZ = 20.0
RATE_HZ = 1000.0  # at least
PROBED_S = 0.5  # s of a run that are simulated to estimate the time of all
PASSES = {"iv": 4, "didim": 10, "input-error": 10}  # how often methods simulate all runs
ITERATIONS = 4  # that input error needs at least where each parameter needs a simulation in each of them
ASSUMED = (
    f"the robot's controller is unknown, so one of {BANDWIDTH_HZ:g} Hz was assumed, which is fed "
    "forward the torques of a model"
)


def assumed_servo(robot: Robot, runs: Sequence[Samples], chi: FloatArray) -> Servo | None:
    """Build a stiff controller with a model, a whole multiple as fast as the logs; None where that is impossible."""
    moving = [run for run in runs if not run.static]
    rates = {run.sample_rate_hz for run in moving}
    if len(rates) != 1 or not positive(robot, moving, chi):
        return None
    rate = rates.pop()
    fast = rate * max(1, int(np.ceil(RATE_HZ / rate - 1e-9)))
    servo = servo_for(robot, moving[0].motion, bandwidth_hz=BANDWIDTH_HZ, chi=chi, rate_hz=fast)
    return Servo(servo.kp, servo.kd, fast, feedforward=chi, inertia=servo.inertia)


def positive(robot: Robot, runs: Sequence[Samples], chi: FloatArray) -> bool:
    """Return True if the mass matrix of a model is positive definite along runs: gains are tuned on it."""
    q = np.concatenate([run.motion.q[:: max(1, len(run) // 200)] for run in runs])
    return bool(np.linalg.eigvalsh(mass_matrix(robot, q, chi)).min() > 0.0)


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
    """Return the first seconds of a run."""
    n = max(3, int(seconds * run.sample_rate_hz))
    return run if len(run) <= n else pick_samples(run, slice(n))
