"""Evidence of a model: its runs with measured and predicted torques, processing steps, and provenance.

Curves are reduced to a bounded size by the least and greatest value of each segment. The commands of a report are
repeated from what each stage recorded; simulated logs are recognised by their digests.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments import identification
from excitor.experiments.align.nouns import Alignment
from excitor.experiments.campaign import OpenCampaign, Role, Run
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.model import Model
from excitor.experiments.report.html import Data, compact, percent, subtable
from excitor.experiments.simulate import FOLDER, MARK
from excitor.identify.consistent import Audit, Delivered, audit
from excitor.identify.diagnose import several
from excitor.identify.logs.formats import log_files
from excitor.identify.regression import Regression
from excitor.identify.samples import Samples, Step
from excitor.identify.validate import Validation, estimated_torques, thinning
from excitor.robots.arrays import FloatArray, finite, picked
from excitor.robots.dynamics import drive_columns, friction_load, friction_only, rotor_matrix
from excitor.robots.files.bounded import read_bounded
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot, posture

PARTS = ("inertia", "Coriolis and centrifugal", "gravity", "friction", "rotors")


@dataclass(frozen=True, eq=False)
class SeenRun:
    """One run as used in the equations: thinned like them, but with slow joints."""

    role: Role
    log: str
    samples: Samples
    time: FloatArray  # (n,), s since the log began; of static poses their number
    measured: FloatArray  # (n, n_joints)
    parts: dict[str, FloatArray]  # of the predicted torque, (n, n_joints) each
    alignment: Alignment | None = None  # with the plan of its program, where it is one's

    @property
    def predicted(self) -> FloatArray:
        """Predicted torque, (n, n_joints)."""
        return np.asarray(sum(self.parts.values()))

    @property
    def residual(self) -> FloatArray:
        """Measured less predicted torque, (n, n_joints)."""
        return self.measured - self.predicted


@dataclass(frozen=True, eq=False)
class ValidationEvidence:
    """A validation with its equations, and the model's residuals."""

    validation: Validation
    regression: Regression
    residual: FloatArray  # (n_rows,)


@dataclass(frozen=True, eq=False)
class Evidence:
    """All inputs of a report."""

    campaign: OpenCampaign  # its robot with the joints locked that stood still
    model: Model
    runs: tuple[SeenRun, ...]
    training: ValidationEvidence
    held_out: ValidationEvidence | None

    @property
    def robot(self) -> Robot:
        """The robot, with the joints locked that are held still."""
        return self.campaign.robot

    @property
    def samples(self) -> dict[str, Samples]:
        """Every run's samples, by its name."""
        return {run.samples.run: run.samples for run in self.runs}

    @property
    def alignments(self) -> dict[str, Alignment]:
        """Alignments of the runs of emitted programs with their plans, by run."""
        return {run.samples.run: run.alignment for run in self.runs if run.alignment is not None}

    @property
    def shown(self) -> SeenRun:
        """The most informative run: a moving one that the model was not fitted to, if there is one."""
        return min(self.runs, key=lambda run: (run.samples.static, run.role != "validate"))

    @cached_property
    def audit(self) -> Audit | None:
        """Audit of the physically consistent model, where there is one."""
        return None if self.model.standard is None else audit(self.robot, self.model.standard.values)


def gather(found: identification.IdentifiedModel) -> Evidence:
    """Collect the evidence of an identification."""
    held_out = None
    if found.unseen is not None and found.held_out is not None:
        held_out = judged(found.held_out, found.unseen, found.delivered)
    runs = seen_runs(found.campaign, found.model, found.samples, found.alignments)
    return Evidence(found.campaign, found.model, runs, judged(found.training, found.known, found.delivered), held_out)


def gather_on_file(campaign: OpenCampaign, model: Model, tell: identification.Tell = lambda _: None) -> Evidence | None:
    """Collect the evidence of a model on file; None where its errors differ from those it was written with."""
    runs = identification.read_runs(campaign, tell)
    known = identification.known_equations(runs).judging
    own = model.delivered
    training, held_out = judged(identification.judge(runs, known, own, training=True), known, own), None
    if runs.unseen:
        unseen = identification.judging_equations(runs.campaign, runs.unseen)
        held_out = judged(identification.judge(runs, unseen, own), unseen, own)
    for one, written in ((training, model.training), (held_out, model.held_out)):
        if (None if one is None else identification.validation_data(one.validation)) != written:
            return None
    seen = seen_runs(runs.campaign, model, runs.samples, runs.alignments)
    return Evidence(runs.campaign, model, seen, training, held_out)


def judged(validation: Validation, regression: Regression, model: Delivered) -> ValidationEvidence:
    """Combine a validation with its equations."""
    return ValidationEvidence(validation, regression, regression.y - estimated_torques(regression, model))


def seen_runs(
    campaign: OpenCampaign, model: Model, samples: Mapping[str, Samples], alignments: Mapping[str, Alignment]
) -> tuple[SeenRun, ...]:
    """Predict the torques of all runs."""
    chi = model.delivered.chi
    runs = []
    for run in campaign.content.run:
        own = samples[run.name]
        thin = thinning([own], identification.thinner(campaign))[0] or (lambda x: x)
        parts = {name: thin(tau) for name, tau in torque_split(campaign.robot, own.motion, chi).items()}
        measured = thin(own.tau)
        time = _time(own, len(own) / len(measured))
        runs.append(SeenRun(run.role, run.log, own, time[: len(measured)], measured, parts, alignments.get(run.name)))
    return tuple(runs)


def torque_split(robot: Robot, motion: Motion, chi: FloatArray) -> dict[str, FloatArray]:
    """Split a motion's torques by their cause, (n_samples, n_joints) each: they add up to τ = Y χ.

    Of a motion without velocities and one without accelerations, gravity taken off. A rotor's inertia that regroups
    with a link's counts as inertia.
    """
    params, mechanism = layout(robot), robot.mechanism
    phi = np.ascontiguousarray(chi[: params.n_link_params]).reshape(-1, 10)
    still = np.zeros_like(motion.q)
    gravity = mechanism.inverse_dynamics(posture(motion.q), phi)
    columns = np.empty((len(params) - params.n_link_params, robot.n_joints, len(motion)))
    if len(columns):
        drive_columns(robot, motion, friction_load(robot, motion), columns)
    friction = friction_only(robot, chi)[params.n_link_params :]
    torques = (
        mechanism.inverse_dynamics(Motion(motion.q, still, motion.ddq), phi) - gravity,
        mechanism.inverse_dynamics(Motion(motion.q, motion.dq, still), phi) - gravity,
        gravity,
        np.tensordot(columns, friction, axes=(0, 0)).T,
        motion.ddq @ rotor_matrix(robot, chi).T,
    )
    return dict(zip(PARTS, torques, strict=True))


def _time(samples: Samples, factor: float) -> FloatArray:
    """Return the times of thinned samples, s since the log began; of poses their numbers from 1."""
    if samples.static:
        return np.arange(1.0, len(samples) + 1.0)
    began = next((step.settings.get("from_s", 0.0) for step in samples.steps if step.name == "cut"), 0.0)
    return float(began) + np.arange(len(samples)) * round(factor) / samples.sample_rate_hz


BUDGET = 240_000  # stretches that all curves of a report may have together
FINEST, COARSEST = 1500, 60  # stretches of one curve
MOST_RUNS = 30  # that are drawn
SPLIT_STRETCHES = 500
NOTHING = 1e-9  # of a joint's torque: rounding


def runs_data(evidence: Evidence) -> list[dict[str, Any]]:
    """Describe every run, with the curves of as many as can be drawn, held-out ones first."""
    order = sorted(range(len(evidence.runs)), key=lambda k: evidence.runs[k].role != "validate")
    drawn = set(order[:MOST_RUNS])
    stretches = BUDGET // (3 * evidence.robot.n_joints * max(len(drawn), 1))
    size = int(np.clip(stretches, COARSEST, FINEST))
    return [_run_data(run, size if k in drawn else 0) for k, run in enumerate(evidence.runs)]


def split_data(evidence: Evidence) -> dict[str, Any]:
    """Write the predicted torques of one run by their cause: curves, and each one's root mean square."""
    run = evidence.shown
    size = NOTHING * np.sqrt(np.mean(run.predicted**2, axis=0))
    parts = {name: np.where(np.abs(tau) < size, 0.0, tau) for name, tau in run.parts.items()}
    return {
        "run": run.samples.run,
        "role": run.role,
        "static": run.samples.static,
        "time": compact(stretch_means(run.time, SPLIT_STRETCHES)),
        "joints": [
            {
                "measured": curve(run.measured[:, j], SPLIT_STRETCHES),
                "parts": {name: curve(tau[:, j], SPLIT_STRETCHES) for name, tau in parts.items()},
                "rms": {name: float(np.sqrt(np.mean(tau[:, j] ** 2))) for name, tau in parts.items()},
                "rms_predicted": float(np.sqrt(np.mean(run.predicted[:, j] ** 2))),
            }
            for j in range(evidence.robot.n_joints)
        ],
    }


def curve(values: FloatArray, size: int) -> dict[str, Any]:
    """Write a curve as it is, or as the least and greatest values of `size` segments."""
    if len(values) <= size:
        return {"value": compact(values)}
    starts = _starts(len(values), size)
    return {"low": compact(np.minimum.reduceat(values, starts)), "high": compact(np.maximum.reduceat(values, starts))}


def stretch_means(time: FloatArray, size: int) -> FloatArray:
    """Compute the mean time of each segment of `curve`."""
    if len(time) <= size:
        return time
    starts = _starts(len(time), size)
    return np.asarray(np.add.reduceat(time, starts) / np.diff(np.append(starts, len(time))))


def _starts(n: int, size: int) -> Any:
    return np.linspace(0, n, size, endpoint=False).astype(np.int64)


def _run_data(run: SeenRun, size: int) -> dict[str, Any]:
    samples = run.samples
    data = {
        "name": samples.run,
        "role": "training" if run.role == "identify" else "validation",
        "log": run.log,
        "static": samples.static,
        "n_samples": len(samples),
        "sample_rate_hz": samples.sample_rate_hz,
        "duration_s": None if samples.static else len(samples) / samples.sample_rate_hz,
        "n_drawn": len(run.measured),
    }
    if not size:
        return data
    curves = {"measured": run.measured, "predicted": run.predicted, "residual": run.residual}
    return data | {
        "time": compact(stretch_means(run.time, size)),
        "joints": [{name: curve(x[:, j], size) for name, x in curves.items()} for j in range(run.measured.shape[1])],
    }


def processing_data(evidence: Evidence) -> dict[str, Any]:
    """List each run's steps in order, then what was done to the equations of all."""
    settings, model, joints = evidence.campaign.content.processing, evidence.model, evidence.robot.joint_names
    width = settings.average_samples
    fitted, words = model.fitted, {"ols": "least squares", "wls": "weighted least squares"}
    method, slow = words.get(model.method, model.method), {"share_percent": settings.dead_zone_percent}
    assert fitted is not None  # older files are not reported from
    return {
        "runs": [
            {"run": run.samples.run, "log": run.log, "steps": [_step(step) for step in run.samples.steps]}
            for run in evidence.runs
        ],
        "equations": [
            *([_step(Step("thin", {"by": " x ".join(map(str, settings.decimate))}))] if settings.decimate else []),
            *([_step(Step("average samples", {"in_a_row": float(width)}))] if width > 1 else []),
            _step(Step("leave out joints slower than a share of their limit", slow)),
            _step(Step("leave out turns of friction", {"before_and_after_s": settings.settling_s})),
            {"name": f"fit by {method}", "settings": {**fitted.settings, "equations": float(fitted.equations)}},
            {"name": f"intervals by {fitted.intervals}", "settings": dict(fitted.interval_settings)},
        ],
        "weights": [
            {"joint": weight.joint, "run": evidence.training.regression.runs[weight.run], "sigma": finite(weight.sigma)}
            for weight in sorted(model.weights, key=lambda weight: (weight.run, joints.index(weight.joint)))
        ],
        "locked": [joints[i] for i in sorted(evidence.robot.locked)],
        "friction": model.friction,
    }


def provenance_data(evidence: Evidence, commands: Sequence[str], design: Data | None = None) -> dict[str, Any]:
    """List everything needed to reproduce this report."""
    campaign, known = evidence.campaign, dict(evidence.model.provenance)
    settings = {} if evidence.model.fitted is None else evidence.model.fitted.interval_settings
    file = campaign.folder / DESIGN
    if design is not None and file.is_file():
        known["sha256"] = known["sha256"] | {DESIGN: identification.digest(file)}
    return known | {
        **{name: _version(name) for name in ("scipy", "cvxpy")},
        "robot": str(campaign.content.robot),
        "seed": finite(settings.get("seed")),
        "design_seed": finite(subtable(design or {}, "settings").get("seed")),
        "campaign_sha256": campaign.digest,
        "commands": [str(command) for command in commands],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _step(step: Step) -> dict[str, Any]:
    return picked(step, "name settings")


def chain_commands(campaign: OpenCampaign, design: Data | None, simulated: Sequence[Data] = ()) -> tuple[str, ...]:
    """List the commands from the plan to the report, for this campaign's folder."""
    where = shlex.quote(campaign.folder.resolve().name)
    targets = dict.fromkeys(target for run in campaign.content.run if (target := target_of(campaign, run)))
    said = [] if design is None else [f"excitor design {where}{_search(subtable(design, 'settings'))}"]
    said += [f"excitor emit {where}" + "".join(f" --target {shlex.quote(name)}" for name in targets)] if targets else []
    said += list(dict.fromkeys(_simulation(where, run) for run in simulated))
    return (*said, f"excitor identify {where}", f"excitor report {where}")


def target_of(campaign: OpenCampaign, run: Run) -> str:
    """Return the target of a run's program; empty where it is of none."""
    if run.program is not None:
        return run.program.partition("/")[0]
    place = Path(run.log).parts  # of torque programs, whose logs are read without a plan
    return place[1] if campaign.content.design.excitation == "torque" and place[0] == FOLDER and len(place) > 2 else ""


def _search(settings: Mapping[str, Any]) -> str:
    """Return the options that determine a search: its seed and budget."""
    keys = ("seed", "evaluations", "seconds")
    return "".join(f" --{key} {settings[key]}" for key in keys if isinstance(settings.get(key), int | float))


def _simulation(where: str, run: Mapping[str, Any]) -> str:
    seed = "" if run.get("seed") is None else f" --seed {run['seed']}"
    sentence = "; ".join(run.get("faults", ()))
    wrong = f"  # faults: {sentence}" if sentence else ""
    return f"excitor simulate {where} --target {shlex.quote(str(run['target']))}{seed}{wrong}"


LARGEST = 4_000_000  # bytes of a simulated.json


def simulated_runs(campaign: OpenCampaign) -> list[dict[str, Any]]:
    """List the runs whose logs are simulated, with target, seed and faults."""
    found = []
    for run in campaign.content.run:
        target = target_of(campaign, run)
        mark = _mark(campaign.folder, target) if target else {}
        files = {identification.digest(path) for path in log_files(campaign.folder / run.log)} if mark else set()
        if files and files <= _written(mark):
            faults = mark.get("faults")
            found.append(
                {
                    "run": run.name,
                    "target": target,
                    "seed": mark.get("seed") if isinstance(mark.get("seed"), int) else None,
                    "faults": [_fault(fault) for fault in faults] if isinstance(faults, list) else [],
                }
            )
    return found


def _mark(folder: Path, target: str) -> dict[str, Any]:
    """Read a simulation's record of its logs; empty where it is missing or damaged."""
    path = folder / FOLDER / target / MARK
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return {}
        data = json.loads(read_bounded(path, LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _fault(fault: Any) -> str:
    """Describe an injected fault and its joints."""
    if not isinstance(fault, dict):
        return str(fault)
    joints = fault.get("joints")
    where = f" ({', '.join(map(str, joints))})" if isinstance(joints, list) and joints else ""
    return f"{fault.get('sentence', '')}{where}"


def _written(mark: dict[str, Any]) -> set[str]:
    """Collect the digests of all files that it wrote."""
    try:
        return {str(file["sha256"]) for run in mark["programs"] for file in run["files"]}
    except (KeyError, TypeError):
        return set()


def cost(loss: object) -> str:
    """Return the residual's increase due to consistency, rounded to 0 where it is within the solver's accuracy."""
    value = finite(loss)
    return "less than 0.01 %" if value is not None and abs(value) < 1e-4 else percent(loss)


def some(names: Sequence[str], most: int = 8) -> str:
    """List names; of many the first, and the number of others."""
    return (
        several(list(names))
        if len(names) <= most
        else f"{', '.join(names[:most])} and {len(names) - most} other{'s' * (len(names) > most + 1)}"
    )
