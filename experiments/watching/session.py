"""What does each cycle teach? The recursive estimate goes on, and the cycle is held against healthy ones."""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import OpenCampaign, Run
from excitor.experiments.identification import rows_of
from excitor.experiments.model_json import FILE
from excitor.experiments.next_run.model_read import ModelFile, read_model, residuals_of
from excitor.experiments.processing import check_cutoffs, cutoff_of, differentiated, filtered
from excitor.experiments.program_logs import declared_by
from excitor.experiments.watching.cutting import CutCycle
from excitor.identify.change import (
    Alarm,
    Detector,
    Verdict,
    Watched,
    base_equations,
    begin,
    cycle_equations,
    features,
    observe,
    watched,
)
from excitor.identify.diagnose import several
from excitor.identify.logs.table import ColumnMap
from excitor.identify.recursive import Recursive, covariance, noise_scale, start, update
from excitor.identify.regression import Regression, Rows
from excitor.identify.samples import Samples
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.robot import Motion, Robot

FORGETTING = 0.98  # a cycle: the estimate is of the last fifty
DOUBT = 10.0  # times the model's own standard deviation, that the estimate may be off from the model at the start
LEAST_DOUBT = 1e-3  # of a parameter's value, where the model is surer
BREAK = 120.0  # s without a cycle, in which a robot cools (or a clock that was set back)
GLITCH = 1.0  # s that a cycle may begin before the last one has ended: rounding, and overlapping cuts
FOREIGN = 5.0  # times what the model left unexplained when it was identified
MOST_ALARMS = 100  # that are remembered


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """What a watch holds cycles against; nothing of it changes."""

    campaign: OpenCampaign
    model: ModelFile
    model_digest: str
    what: Watched
    rows: Rows


@dataclass(frozen=True, eq=False, slots=True)
class Told:
    """What is told of one cycle."""

    cycle: int  # of all, from 1
    process: str
    log: str
    t: float  # s of the log's time
    verdict: Verdict
    foreign: tuple[str, ...] = ()  # while learning: joints whose torques the model does not explain at all


@dataclass(slots=True)
class Session:
    """What was learned so far."""

    basis: Basis
    estimate: Recursive
    detectors: dict[str, Detector] = field(default_factory=dict)  # by process
    cycles: int = 0
    left_out: int = 0
    alarms: list[dict[str, Any]] = field(default_factory=list)  # the last ones, as data
    ended: dict[str, float] = field(default_factory=dict)  # s: when each process' last cycle ended


def open_basis(campaign: OpenCampaign) -> Basis:
    """Read the model that cycles are held against."""
    if campaign.content.task == "payload":
        raise ExcitorError(
            f"{campaign.folder}: is a payload campaign, whose model is no arm's; watch the campaign of its arm"
        )
    if campaign.content.matlab is not None:
        raise ExcitorError(f"{campaign.folder}: has means of MATLAB files, which show no single cycles; watch logs")
    check_cutoffs(campaign, [run for run in campaign.content.run if run.period_s or run.cycle_s])
    path = campaign.folder / FILE
    model = read_model(campaign.folder)
    robot = campaign.robot
    if model.robot != robot.name:
        raise ExcitorError(f"{path}: is of {model.robot!r}, this campaign's robot is {robot.name!r}; identify again")
    sigma = residuals_of(model, robot.joint_names, path)
    try:
        what = watched(_with_held(campaign, robot), model.names, model.values, sigma)
    except ValueError as error:
        raise ExcitorError(f"{path}: {error}; identify again") from None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Basis(campaign, model, digest, what, rows_of(campaign))


def begin_session(basis: Basis) -> Session:
    """Start from the model: believed, but loosely."""
    values = basis.model.values
    spread = np.array([parameter.sigma for parameter in basis.model.parameters])
    doubt = np.maximum(DOUBT * spread, LEAST_DOUBT * np.maximum(np.abs(values), np.abs(values).max(initial=1.0) * 1e-3))
    return Session(basis, start(basis.model.names, variance=doubt**2, values=values))


def samples_of(campaign: OpenCampaign, run: Run, cycle: CutCycle) -> Samples:
    """Filter and differentiate a cycle of a run, its margins with it."""
    q = filtered(cycle.q, cycle.rate, cutoff_of(campaign, run, cycle.rate), campaign.content.processing)
    motion = differentiated(q, cycle.rate)
    inner = cycle.inner
    part = Motion(motion.q[inner], motion.dq[inner], motion.ddq[inner])
    return Samples(run.name, part, cycle.tau[inner], cycle.rate)


def take(session: Session, cycle: Samples, *, process: str, log: str, t: float, clock: float) -> Told:
    """Learn from a cycle, and say what is thought of it; `t` is the log's time, `clock` one that all logs share."""
    basis = session.basis
    try:
        regression = cycle_equations(basis.what, cycle, basis.rows)
    except ValueError as error:
        raise InvalidLog(log, f"a cycle at {t:.3f} s cannot be processed: {error}") from None
    if not len(regression):
        raise InvalidLog(
            log, f"nothing moves in the cycle at {t:.3f} s; lower processing.dead_zone_percent or settling_s"
        )
    R, z = base_equations(basis.what, regression)
    session.estimate = update(session.estimate, R, z, forgetting=FORGETTING)
    detector = session.detectors.get(process) or begin(basis.what.groups)
    stood = not -GLITCH <= clock - session.ended.get(process, clock) <= BREAK
    session.ended[process] = clock + len(cycle) / cycle.sample_rate_hz
    found = features(basis.what, regression)
    session.detectors[process], verdict = observe(detector, found, after_break=stood)
    session.cycles += 1
    foreign = unexplained(basis.what, regression) if verdict.learning else ()
    told = Told(session.cycles, process, log, t, verdict, foreign)
    if verdict.alarms or verdict.confirmed:
        session.alarms = [*session.alarms, told_data(basis, told)][-MOST_ALARMS:]
    return told


def unexplained(what: Watched, regression: Regression) -> tuple[str, ...]:
    """Name joints whose torques the model on file predicts worse than no model would, and far beyond what it leaves."""
    base = np.searchsorted(what.columns, what.base)
    residual = regression.y - regression.W[:, base] @ what.beta
    found = []
    for j in np.unique(regression.joint):
        rows = regression.joint == j
        left, size = (float(np.sqrt(np.mean(x[rows] ** 2))) for x in (residual, regression.y))
        if left > max(size, FOREIGN * float(what.sigma[j])):
            found.append(what.robot.joint_names[j])
    return tuple(found)


def doubt_sentence(told: Told) -> str:
    """Say that what is learned may not be healthy, or not of this robot."""
    return (
        f"{told.log}: in the cycle at {told.t:.1f} s the model on file predicts the torques of "
        f"{several(list(told.foreign))} worse than no model would, and yet it is learned from as healthy; see whether "
        "the log is this robot's, its channels live, and their units, signs, sides and order as [log] says"
    )


def run_of(campaign: OpenCampaign, path: Path) -> Run:
    """Find the run that says how a log's cycles are cut: its own, or the only way that any run tells."""
    own = [run for run in campaign.content.run if (campaign.folder / run.log).resolve() == path.resolve()]
    named = [run for run in campaign.content.run if run.program is not None and _is_named(path, Path(run.log).stem)]
    named.sort(key=lambda run: -len(run.log))
    for run in (*own, *named):
        if run.period_s is not None or run.cycle_s is not None or run.program is not None:
            return run
    telling = [run for run in campaign.content.run if run.period_s is not None or run.cycle_s is not None]
    ways = {(run.period_s, run.cycle_s) for run in telling}
    if len(ways) == 1:
        return telling[0]
    told = "tell different ones" if ways else "tell none"
    raise ExcitorError(
        f"{path}: nobody says where its cycles end: the runs of campaign.toml {told}; give one [[run]] with this log "
        "and period_s, or cycle_s (the shortest a cycle can be)"
    )


def _is_named(path: Path, program: str) -> bool:
    """Tell whether a log bears a program's name, perhaps with a date or a number behind."""
    return path.stem == program or path.stem.startswith((f"{program}-", f"{program}_", f"{program}."))


def declared_of(campaign: OpenCampaign, run: Run) -> ColumnMap:
    """Say what a log's columns are."""
    if campaign.content.log is not None:
        return campaign.content.log
    if run.program is not None:
        return declared_by(run.program.partition("/")[0], campaign.robot)
    raise ExcitorError(f"{campaign.folder}: campaign.toml has no [log], so nobody knows what a log's columns are")


def drift(session: Session) -> list[dict[str, Any]]:
    """Tell each parameter: what it is now, its standard deviation, and how far it is from the model in those of both.

    σ² = P s² with s how much more predictions miss than white noise would, at least 1.
    """
    model = session.basis.model
    sigma = np.sqrt(np.diag(covariance(session.estimate))) * max(1.0, noise_scale(session.estimate))
    on_file = np.array([parameter.sigma for parameter in model.parameters])
    both = np.sqrt(sigma**2 + on_file**2)
    away = np.divide(session.estimate.values - model.values, both, out=np.zeros_like(both), where=both > 0.0)
    return [
        {
            "name": parameter.name,
            "unit": parameter.unit,
            "value": float(value),
            "sigma": float(s),
            "model": parameter.value,
            "drift_sigmas": float(d),
        }
        for parameter, value, s, d in zip(model.parameters, session.estimate.values, sigma, away, strict=True)
    ]


def told_data(basis: Basis, told: Told) -> dict[str, Any]:
    """Write a cycle for scripts."""
    verdict = told.verdict
    surprise = {_name(group.kind, group.joint): float(s) for group, s in zip(basis.what.groups, verdict.surprise,
                                                                              strict=True)}  # fmt: skip
    return {
        "cycle": told.cycle,
        "process": told.process,
        "log": told.log,
        "at_s": told.t,
        "learning": verdict.learning,
        "surprise": {} if verdict.learning else surprise,
        "alarms": [alarm_data(alarm) for alarm in verdict.alarms],
        "confirmed": [alarm_data(alarm) for alarm in verdict.confirmed],
        "passed": verdict.passed,
    }


def alarm_data(alarm: Alarm) -> dict[str, Any]:
    """Write an alarm for scripts."""
    names = alarm.group.names
    return {
        "kind": alarm.kind,
        "what": _name(alarm.group.kind, alarm.group.joint),
        "sentence": alarm.sentence,
        "surprise": float(alarm.surprise),
        "change": {name: float(x) for name, x in zip(names, alarm.change, strict=True)},
        "sigma": {name: float(x) for name, x in zip(names, alarm.sigma, strict=True)},
    }


def _name(kind: str, joint: str) -> str:
    return {"load": "load at the tool", "friction": f"friction of {joint}", "unexplained": f"residual of {joint}"}[kind]


def _with_held(campaign: OpenCampaign, robot: Robot) -> Robot:
    """Leave joints out that the campaign declares still."""
    held = {robot.joint_names.index(name): 0.0 for name in campaign.content.locked if name in robot.joint_names}
    return replace(robot, locked={**held, **robot.locked}) if held else robot
