"""State of a watch: update of the recursive estimate by each cycle, and its comparison with healthy cycles.

Samples are cut into cycles as they come: by the plan's period, or where the motion repeats itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from excitor.experiments.campaign import OpenCampaign, Run
from excitor.experiments.identification import digest, rows_of
from excitor.experiments.logs import check_cutoffs, cutoff_of, declared_by, differentiated, filtered, without_load
from excitor.experiments.model import FILE, Model, read_model
from excitor.identify import change
from excitor.identify.band import BandChoice
from excitor.identify.diagnose import several
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.periods import find_cycles, match_cycles
from excitor.identify.recursive import Recursive, covariance, noise_scale, start, update
from excitor.identify.regression import Regression, Rows
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, picked
from excitor.robots.errors import ExcitorError, InvalidLog

FORGETTING = 0.98  # a cycle: the estimate is of the last fifty
DOUBT = 10.0  # times the model's own standard deviation, that the estimate may be off from the model at the start
LEAST_DOUBT = 1e-3  # of a parameter's value, where the model is surer
BREAK = 120.0  # s without a cycle, in which a robot cools (or a clock that was set back)
GLITCH = 1.0  # s that a cycle may begin before the last one has ended: rounding, and overlapping cuts
FOREIGN = 5.0  # times what the model left unexplained when it was identified
MOST_ALARMS = 100  # that are remembered


@dataclass(frozen=True, eq=False, slots=True)
class Basis:
    """Fixed reference of a watch: campaign, model, watched quantities and row settings."""

    campaign: OpenCampaign
    model: Model
    model_digest: str
    what: change.MonitoredRobot
    rows: Rows


@dataclass(frozen=True, eq=False, slots=True)
class CycleReport:
    """Result of one cycle."""

    cycle: int  # of all, from 1
    process: str
    log: str
    t: float  # s of the log's time
    verdict: change.Verdict
    foreign: tuple[str, ...] = ()  # while learning: joints whose torques the model does not explain at all


@dataclass(slots=True)
class Session:
    """State learned so far."""

    basis: Basis
    estimate: Recursive
    detectors: dict[str, change.Detector] = field(default_factory=dict)  # by process
    cycles: int = 0
    left_out: int = 0
    alarms: list[dict[str, Any]] = field(default_factory=list)  # the last ones, as data
    ended: dict[str, float] = field(default_factory=dict)  # s: when each process' last cycle ended


def open_basis(campaign: OpenCampaign) -> Basis:
    """Read the model that cycles are compared with."""
    if campaign.content.task != "arm":
        task = campaign.content.task
        raise ExcitorError(f"{campaign.folder}: has task = {task!r}, whose model is no arm's; watch the arm's campaign")
    if campaign.content.matlab is not None:
        raise ExcitorError(f"{campaign.folder}: has means of MATLAB files, which show no single cycles; watch logs")
    path = campaign.folder / FILE
    robot = campaign.robot
    model = read_model(path, robot)
    robot = model.own_robot()
    campaign = replace(campaign, robot=robot)
    chosen = next((step["chosen_hz"] for step in model.processing if "chosen_hz" in step), None)
    if chosen is not None:
        campaign = replace(campaign, band=BandChoice(float(chosen), "positions", ()))
    check_cutoffs(campaign, [run for run in campaign.content.run if run.period_s or run.cycle_s])
    model.known_sigma()
    if model.robot_name != robot.name:
        raise ExcitorError(
            f"{path}: is of {model.robot_name!r}, this campaign's robot is {robot.name!r}; identify again"
        )
    sigma = model.residuals(robot.joint_names)
    still = {robot.joint_names.index(name): 0.0 for name in campaign.content.locked if name in robot.joint_names}
    held = replace(robot, locked={**still, **robot.locked}) if still else robot
    try:
        what = change.watched(held, model.names, model.values, sigma)
    except ValueError as error:
        raise ExcitorError(f"{path}: {error}; identify again") from None
    return Basis(campaign, model, digest(path), what, rows_of(campaign))


def begin_session(basis: Basis) -> Session:
    """Start from the model's parameters, with an inflated covariance."""
    values = basis.model.values
    size = np.maximum(np.abs(values), np.abs(values).max(initial=1.0) * 1e-3)
    doubt = np.maximum(DOUBT * basis.model.sigma, LEAST_DOUBT * size)
    return Session(basis, start(basis.model.names, variance=doubt**2, values=values))


@dataclass(frozen=True, eq=False, slots=True)
class CutCycle:
    """One cycle, with some samples before and after it for filters to settle in."""

    t: float  # s, where it begins
    q: FloatArray
    tau: FloatArray
    rate: float
    inner: slice  # the cycle itself


def samples_of(campaign: OpenCampaign, run: Run, cycle: CutCycle) -> Samples:
    """Filter and differentiate a cycle of a run, its margins with it."""
    q = filtered(cycle.q, cycle.rate, cutoff_of(campaign, run, cycle.rate), campaign.content.processing)
    motion = differentiated(q, cycle.rate)[cycle.inner]
    return without_load(campaign, run, Samples(run.name, motion, cycle.tau[cycle.inner], cycle.rate))


def take(session: Session, cycle: Samples, *, process: str, log: str, t: float, clock: float) -> CycleReport:
    """Update the session with a cycle, and return the result; `t` is the log's time, `clock` is common to all logs."""
    basis = session.basis
    try:
        regression = change.cycle_equations(basis.what, cycle, basis.rows)
    except ValueError as error:
        raise InvalidLog(log, f"a cycle at {t:.3f} s cannot be processed: {error}") from None
    if not len(regression):
        raise InvalidLog(
            log, f"nothing moves in the cycle at {t:.3f} s; lower processing.dead_zone_percent or settling_s"
        )
    R, z = change.base_equations(basis.what, regression)
    session.estimate = update(session.estimate, R, z, forgetting=FORGETTING)
    detector = session.detectors.get(process) or change.begin(basis.what.groups)
    stood = not -GLITCH <= clock - session.ended.get(process, clock) <= BREAK
    session.ended[process] = clock + len(cycle) / cycle.sample_rate_hz
    found = change.features(basis.what, regression)
    session.detectors[process], verdict = change.observe(detector, found, after_break=stood)
    session.cycles += 1
    foreign = unexplained(basis.what, regression) if verdict.learning else ()
    report = CycleReport(session.cycles, process, log, t, verdict, foreign)
    if verdict.alarms or verdict.confirmed:
        session.alarms = [*session.alarms, cycle_data(basis, report)][-MOST_ALARMS:]
    return report


def unexplained(what: change.MonitoredRobot, regression: Regression) -> tuple[str, ...]:
    """List joints whose torques the model on file predicts worse than no model, and far beyond its residuals."""
    base = np.searchsorted(what.columns, what.base)
    residual = regression.y - regression.W[:, base] @ what.beta
    found = []
    for j in np.unique(regression.joint):
        rows = regression.joint == j
        left, size = (float(np.sqrt(np.mean(x[rows] ** 2))) for x in (residual, regression.y))
        if left > max(size, FOREIGN * float(what.sigma[j])):
            found.append(what.robot.joint_names[j])
    return tuple(found)


def doubt_sentence(report: CycleReport) -> str:
    """Describe the warning that a cycle learned from may not be healthy, or not of this robot."""
    return (
        f"{report.log}: in the cycle at {report.t:.1f} s the model on file predicts the torques of "
        f"{several(list(report.foreign))} worse than no model would, and yet it is learned from as healthy; check that "
        "the log is this robot's, its channels live, and their units, signs, sides and order as [log] states"
    )


def run_of(campaign: OpenCampaign, path: Path) -> Run:
    """Find the run that states how a log's cycles are cut: its own, or the only way that any run states."""
    own = [run for run in campaign.content.run if (campaign.folder / run.log).resolve() == path.resolve()]
    ends = "-_."  # before a date or a number
    named = [
        run
        for run in campaign.content.run
        if run.program is not None and f"{path.stem}-".startswith(tuple(f"{Path(run.log).stem}{end}" for end in ends))
    ]
    named.sort(key=lambda run: -len(run.log))
    for run in (*own, *named):
        if run.period_s is not None or run.cycle_s is not None or run.program is not None:
            return run
    telling = [run for run in campaign.content.run if run.period_s is not None or run.cycle_s is not None]
    ways = {(run.period_s, run.cycle_s) for run in telling}
    if len(ways) == 1:
        return telling[0]
    problem = "state different ones" if ways else "state none"
    raise ExcitorError(
        f"{path}: the end of its cycles is unknown: the runs of campaign.toml {problem}; give one [[run]] with this "
        "log and period_s, or cycle_s (the shortest a cycle can be)"
    )


def declared_of(campaign: OpenCampaign, run: Run) -> ColumnMap:
    """Return the declared columns of a log."""
    if campaign.content.log is not None:
        return campaign.content.log
    if run.program is not None:
        return declared_by(run.program.partition("/")[0], campaign.robot)
    raise ExcitorError(f"{campaign.folder}: campaign.toml has no [log], which must declare the log's columns")


def drift(session: Session) -> list[dict[str, Any]]:
    """List each parameter's value, standard deviation σ, and deviation from the model in units of both σ.

    σ² = P s² with s the ratio of prediction errors to those for white noise, at least 1.
    """
    model, estimate = session.basis.model, session.estimate
    sigma = np.sqrt(np.diag(covariance(estimate))) * max(1.0, noise_scale(estimate))
    both = np.sqrt(sigma**2 + model.sigma**2)
    away = np.divide(estimate.values - model.values, both, out=np.zeros_like(both), where=both > 0.0)
    columns = (array.tolist() for array in (estimate.values, sigma, model.values, away))
    keys = ("name", "unit", "value", "sigma", "model", "drift_sigmas")
    return [dict(zip(keys, row, strict=True)) for row in zip(model.names, model.units, *columns, strict=True)]


def cycle_data(basis: Basis, report: CycleReport) -> dict[str, Any]:
    """Write a cycle for scripts."""
    verdict, names = report.verdict, [_name(group.kind, group.joint) for group in basis.what.groups]
    return picked(report, "cycle process log at_s=t") | {
        "learning": verdict.learning,
        "surprise": {} if verdict.learning else dict(zip(names, map(float, verdict.surprise), strict=True)),
        "alarms": [alarm_data(alarm) for alarm in verdict.alarms],
        "confirmed": [alarm_data(alarm) for alarm in verdict.confirmed],
        "passed": verdict.passed,
    }


def alarm_data(alarm: change.Alarm) -> dict[str, Any]:
    """Write an alarm for scripts."""
    names = alarm.group.names
    return {
        "kind": alarm.kind,
        "what": _name(alarm.group.kind, alarm.group.joint),
        "sentence": alarm.sentence,
        "surprise": float(alarm.surprise),
        **{key: dict(zip(names, getattr(alarm, key).tolist(), strict=True)) for key in ("change", "sigma")},
    }


def _name(kind: str, joint: str) -> str:
    return {"load": "load at the tool", "friction": f"friction of {joint}", "unexplained": f"residual of {joint}"}[kind]


TRIES = 1.4  # each look for a period waits for so many times the samples of the last
LONGEST = 60.0  # shortest cycles, in which a period must have shown
MOST_SAMPLES = 2_000_000  # that are kept while a period is looked for
DIFFERS = 0.02  # power of a cycle's difference from the first, over the power of its motion: not the same motion
STILL = 1e-3  # rad or m: where no joint goes farther, the robot stands
GAP = 1.5  # sampling intervals that may lie between two samples


@dataclass(slots=True)
class Cutter:
    """Samples that are not cut yet, and the settings of the cut."""

    period: float | None  # s: exactly; None: to be found
    shortest: float  # s, of a cycle that is to be found
    margin: int  # samples kept around a cycle
    drop: int = 0  # cycles at the start that do not count
    rate: float = 0.0
    template: FloatArray | None = None  # (n_samples, n_joints)
    sure: bool = False  # whether a second planned cycle was like it; the first may have begun before the process did
    begins: float | None = None  # s: of the next planned cycle
    lost: bool = False  # where the next planned cycle begins must be looked for
    tried: int = 0  # samples when a period was last looked for
    left_out: int = 0
    gone: int = 0  # samples that wait no more
    t: FloatArray = field(default_factory=lambda: np.zeros(0))
    q: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    tau: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def waiting(self) -> int:
        """Count the samples that wait for their cycle to end."""
        return len(self.t)


def follows(cutter: Cutter, t: FloatArray) -> bool:
    """Return True if samples continue where the last ended."""
    return not cutter.waiting or bool(0.0 < t[0] - cutter.t[-1] <= GAP / cutter.rate)


def begin_segment(cutter: Cutter, *, same_log: bool = False) -> None:
    """Discard waiting samples: the next ones do not follow. A new log begins where its plan begins."""
    cutter.gone += cutter.waiting
    cutter.t, cutter.q, cutter.tau = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
    cutter.begins, cutter.tried = None, 0
    if same_log and not cutter.sure and cutter.period is not None:
        cutter.template = None
    cutter.lost = same_log and cutter.template is not None


def add(cutter: Cutter, t: FloatArray, q: FloatArray, tau: FloatArray, rate: float, *, name: str) -> None:
    """Append samples."""
    if cutter.rate and abs(rate / cutter.rate - 1.0) > 0.02:
        raise InvalidLog(
            name, f"is sampled at {rate:g} Hz, at first it was {cutter.rate:g} Hz; watch one rate at a time"
        )
    cutter.rate = cutter.rate or float(f"{rate:.6g}")  # stamps are rounded: no part is to differ for that
    if not cutter.waiting:
        cutter.t, cutter.q, cutter.tau = t, q, tau
        return
    cutter.t = np.concatenate([cutter.t, t])
    cutter.q = np.concatenate([cutter.q, q])
    cutter.tau = np.concatenate([cutter.tau, tau])


def cut(cutter: Cutter, *, ended: bool = False) -> Iterator[CutCycle]:
    """Yield the complete cycles, each once; `ended`: no more samples follow."""
    yield from _planned(cutter, ended) if cutter.period is not None else _found(cutter, ended)


def _planned(cutter: Cutter, ended: bool) -> Iterator[CutCycle]:
    """Cut by the clock, period after period from the first sample on; after a gap, from where the motion is found."""
    assert cutter.period is not None
    while cutter.waiting:
        if cutter.lost and not _found_again(cutter, ended):
            return
        if cutter.begins is None:
            cutter.begins = float(cutter.t[0]) + cutter.drop * cutter.period
        half = 0.5 / cutter.rate
        n = round(cutter.period * cutter.rate)
        first = int(np.searchsorted(cutter.t, cutter.begins - half))
        if first + n + (0 if ended else cutter.margin) > cutter.waiting:
            _forget_before(cutter, min(first, cutter.waiting) - cutter.margin)
            return
        cutter.begins += cutter.period
        good = list(_checked(cutter, first, n))
        yield from good
        _forget_before(cutter, first + n - cutter.margin)
        cutter.lost = not good and cutter.template is not None


def _found_again(cutter: Cutter, ended: bool) -> bool:
    """Find a planned cycle by its motion."""
    assert cutter.template is not None
    n = len(cutter.template)
    if cutter.waiting < 2 * n and not (ended and cutter.waiting >= n + 2):
        return False
    for first in match_cycles(cutter.q - cutter.q.mean(axis=0), cutter.template, n):
        if _difference(cutter, cutter.q[first : first + n]) <= DIFFERS:
            cutter.begins, cutter.lost = float(cutter.t[first]), False
            return True
    _forget_before(cutter, cutter.waiting - n)
    return False


def _found(cutter: Cutter, ended: bool) -> Iterator[CutCycle]:
    """Cut where the motion of the first cycles comes again."""
    if cutter.template is None and not _learned(cutter, ended):
        return
    assert cutter.template is not None
    n = len(cutter.template)
    while cutter.waiting >= n + 2:
        starts = match_cycles(cutter.q - cutter.q.mean(axis=0), cutter.template, n)
        later = n // 4 + cutter.margin  # a better place could still come
        whole = [int(s) for s in starts if s + n + (0 if ended else later) <= cutter.waiting]
        if not whole:
            if not len(starts):
                _forget_before(cutter, cutter.waiting - 2 * n)
            return
        yield from _checked(cutter, whole[0], n)
        _forget_before(cutter, whole[0] + n - min(cutter.margin, n // 4))


def _learned(cutter: Cutter, ended: bool) -> bool:
    """Find the period once there are enough samples, from where the robot begins to move."""
    if cutter.waiting:
        away = np.abs(cutter.q - cutter.q[0]).max(axis=1) > STILL
        begins = int(np.argmax(away)) if away.any() else cutter.waiting - 1
        _forget_before(cutter, begins - cutter.margin)
    if cutter.waiting < max(TRIES * cutter.tried, 4.0 * cutter.shortest * cutter.rate) and not ended:
        return False
    cutter.tried = cutter.waiting
    try:
        cycles = find_cycles(cutter.q, sample_rate_hz=cutter.rate, min_period_s=cutter.shortest)
    except ValueError as error:
        if cutter.waiting > min(LONGEST * cutter.shortest * cutter.rate, MOST_SAMPLES):
            raise ValueError(f"{error}; see cycle_s of its run") from None
        return False
    stacked = np.array([cutter.q[s : s + cycles.n_samples] for s in cycles.starts])
    cutter.template = np.median(stacked, axis=0)
    return True


def _checked(cutter: Cutter, first: int, n: int) -> Iterator[CutCycle]:
    """Yield a cycle of the same motion as the first; count the others."""
    own = cutter.q[first : first + n]
    if cutter.template is None and _stands(own):
        cutter.left_out += 1
        return
    first_ever = cutter.template is None
    if cutter.template is None:
        cutter.template = own.copy()
    if _difference(cutter, own) > DIFFERS:
        if cutter.sure or cutter.period is None or _stands(own):
            cutter.left_out += 1
            return
        cutter.template = own.copy()
    cutter.sure = not first_ever
    a, b = max(first - cutter.margin, 0), min(first + n + cutter.margin, cutter.waiting)
    yield CutCycle(float(cutter.t[first]), cutter.q[a:b], cutter.tau[a:b], cutter.rate, slice(first - a, first - a + n))


def _stands(q: FloatArray) -> bool:
    """Return True if nothing moves."""
    return bool(np.ptp(q, axis=0).max(initial=0.0) < STILL)


def _difference(cutter: Cutter, own: FloatArray) -> float:
    """Compute the power of a motion's difference from the first cycle over its own power, each about its mean."""
    assert cutter.template is not None
    size = min(len(own), len(cutter.template))
    template = cutter.template[:size] - cutter.template[:size].mean(axis=0)
    difference = own[:size] - own[:size].mean(axis=0) - template
    return float(np.sum(difference**2) / max(float(np.sum(template**2)), 1e-12))


def _forget_before(cutter: Cutter, k: int) -> None:
    if k > 0:
        cutter.gone += k
        cutter.t, cutter.q, cutter.tau = (x[k:].copy() for x in (cutter.t, cutter.q, cutter.tau))
