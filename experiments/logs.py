"""Processing of a run's log into samples: aligned with its plan, filtered, averaged, differentiated, cut."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from pathlib import Path

import numpy as np

from excitor.experiments.align.align import align
from excitor.experiments.align.nouns import Alignment, Check, ExpectedMotion, MeasuredRun
from excitor.experiments.align.windows import aligned_samples, aligned_windows, usable
from excitor.experiments.campaign import FILE, InvalidCampaign, LongRun, OpenCampaign, Processing, Run, fields_of
from excitor.experiments.log_formats import declared_for
from excitor.experiments.manifest import (
    MANIFEST,
    PROGRAMS,
    Manifest,
    ProgramLog,
    expected_of,
    manifests_of,
    read_manifest,
)
from excitor.experiments.setup import loaded
from excitor.identify.band import HIGHEST, BandChoice, RawRun, choose_band, low_passed, power_band, thinning_factor
from excitor.identify.diagnose import Finding, several
from excitor.identify.log import CURRENT, Log, MeasuredSignals, Quantity, Recording, joint_side
from excitor.identify.logs.declared import SECONDS, ColumnMap
from excitor.identify.logs.long import ROWS, LongLog, open_long, read_rows
from excitor.identify.logs.matlab import Fields, read_matlab_means
from excitor.identify.logs.read import read_log
from excitor.identify.logs.timing import Timing, choose_timing, shifted, stated_timing
from excitor.identify.periods import Average, average_cycles, average_periods, find_cycles, periodic_lowpass
from excitor.identify.regression import Rows, near_reversals
from excitor.identify.samples import Samples, Step, repeated
from excitor.identify.signals import block_means, differentiate, lowpass, pose_averages
from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import rigid_torque
from excitor.robots.errors import ExcitorError, InvalidLog
from excitor.robots.friction import torque_from_current
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Payload, Robot, posture

STRETCH, LEAST_STRETCHES, MOST_STRETCHES = 4.0, 5, 20  # s at least, of a long log, by which all is chosen; and how many
SAMPLED = 80_000  # rows in them
FILTER_PERIODS = 8.0  # of the cut-off: what lies farther away does not change a low-pass
STATED = "stated in campaign.toml"  # why a cut-off is what it is
_CUTOFF = 4.0  # times the highest planned frequency: what the robot adds to its plan while it follows
_LEAST_CUTOFF = 2.0  # Hz
_SEGMENT = 0.1  # rad or m of a cruise that one row is the mean of: gravity's curvature within is 1e-3 of it at most
_LEAST_OF_SEGMENT = 3  # samples


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Cut-off frequency of a run's positions, and its reason."""

    hz: float
    reason: str


def declared_by(target: str, robot: Robot) -> ColumnMap:
    """Return the declaration of a target's log format, as recorded by its client, if the campaign has none."""
    return ColumnMap.model_validate(declared_for(target, robot))


def read_plan(
    folder: Path, log: ProgramLog, robot: Robot, declared: ColumnMap
) -> tuple[ExpectedMotion, MeasuredRun, tuple[Step, ...]]:
    """Read a program's plan, and its log on the joint side with the steps of its processing."""
    target, _, program = log.program.partition("/")
    path = folder / PROGRAMS / target / MANIFEST
    manifest = read_manifest(path)
    expected = expected_of(manifest, program, path)
    return expected, *measured_run(read_log(folder / log.log, declared, robot.joint_names), manifest, robot)


def planned_samples(
    alignment: Alignment,
    measured: MeasuredRun,
    steps: tuple[Step, ...],
    *,
    log: ProgramLog,
    lowpass_hz: float | None = None,
) -> Samples:
    """Average what of an aligned run counts; Misaligned where the run does not show its plan."""
    parts = usable(alignment, name=log.log)
    faults = "; ".join(check.sentence for check in alignment.faults)
    found: dict[str, float | str] = {"start_s": alignment.start, "stretch": alignment.stretch, "findings": faults}
    steps = (*steps, *parts.steps, Step("align with the plan", found))
    series = alignment.expected.run.series
    if series is not None:
        highest, periods = series.harmonics[-1] / series.period, aligned_samples(alignment, measured)
        reason = f"{_CUTOFF:g} times {highest:g} Hz, the highest planned frequency, and at least {_LEAST_CUTOFF:g} Hz"
        cutoff = Cutoff(max(_CUTOFF * highest, _LEAST_CUTOFF), reason)
        cutoff = Cutoff(lowpass_hz, STATED) if lowpass_hz else cutoff
        cutoff = replace(cutoff, hz=min(cutoff.hz, 0.49 * periods.rate))
        return _averaged(log.run, periods.averages(), periods.rate, cutoff, steps)
    cut = aligned_windows(parts.windows, measured, rate=parts.rate, delay=parts.delay)
    kinds = [window.kind for window in parts.windows]
    return _of_moves(log.run, list(zip(kinds, cut, strict=True)), parts.rate, steps)


def measured_run(log: Log, manifest: Manifest, robot: Robot) -> tuple[MeasuredRun, tuple[Step, ...]]:
    """Convert a log to the joints: through the drives, and from the controller's axes where the robot has them."""
    measured = joint_side(robot, log)
    effort, position = log.signal("torque", "current"), log.signal("position")
    assert effort is not None
    assert position is not None
    q, tau = measured.q, measured.tau
    t = np.arange(len(q)) / log.sample_rate_hz  # s from the log's begin: stamps may count from 1970
    steps = measured.steps
    if manifest.axes.stated_by_the_robot and position.side == "joint":
        matrix, zero = np.array(manifest.axes.matrix), np.array(manifest.axes.zero)
        q = np.linalg.solve(matrix, (q - zero).T).T
        tau = tau @ matrix if effort.side == "joint" else tau
        steps = (*steps, Step("controller axes to joints", {}))
    run = MeasuredRun(
        Path(log.path).name,
        t,
        q,
        tau,
        effort="current" if effort.kind == "current" and robot.drive.in_amperes else "torque",
        position_side=position.side,
        effort_side=effort.side,
        mark=_channel(log.raw, "marker", log.start_s + t),
        speed_scaling=_channel(log.raw, "speed_scaling", log.start_s + t),
        gains=_gains(robot, effort.values) if effort.kind == "current" else None,
    )
    return run, steps


def _gains(robot: Robot, current: FloatArray) -> FloatArray:
    """Compute the torque per unit of current of each law at its rms current, (n_joints,)."""
    usual = np.sqrt(np.mean(current**2, axis=0, keepdims=True))
    usual = np.where(usual > 0.0, usual, 1.0)
    return np.asarray((torque_from_current(robot, usual) / usual)[0])


def _channel(raw: Recording | None, kind: Quantity, t: FloatArray) -> FloatArray | None:
    """Return a channel's last value at each time, where the log has one of that kind."""
    channels = [channel for channel in (raw.channels if raw is not None else ()) if channel.kind == kind]
    if not channels or channels[0].t is None:
        return None
    k = np.clip(np.searchsorted(channels[0].t, t + 1e-9, side="right") - 1, 0, len(channels[0].values) - 1)
    return np.asarray(channels[0].values[k])


def _averaged(
    run: str, averages: tuple[Average, Average], rate: float, cutoff: Cutoff, steps: tuple[Step, ...], **stated: float
) -> Samples:
    """Take averages of whole periods; the motion has the frequencies below the cut-off, exactly."""
    q, tau = averages
    motion = periodic_lowpass(q.mean, sample_rate_hz=rate, cutoff_hz=cutoff.hz)
    findings: dict[str, float | str] = {
        **stated,
        "repetitions": float(tau.n_repetitions),
        "findings": "; ".join(tau.findings),
    }
    filtering = Step("periodic lowpass", {"cutoff_hz": cutoff.hz, "chosen_as": cutoff.reason})
    return repeated(run, motion, tau, rate, (*steps, Step("average periods", findings), filtering))


_Cut = tuple[FloatArray, FloatArray, FloatArray]


def _of_moves(run: str, windows: list[tuple[str, _Cut]], rate: float, steps: tuple[Step, ...]) -> Samples:
    """Average each stop, and short segments of a cruise at the cruise's speed: rows that are no time series."""
    rows: list[_Cut] = []
    for kind, (t, q, tau) in windows:
        if kind == "stop":
            rows.append((q.mean(axis=0), np.zeros(q.shape[1]), tau.mean(axis=0)))
            continue
        speed = differentiate(q, sample_rate_hz=rate).mean(axis=0)
        travel = float(np.abs(speed).max() * (t[-1] - t[0]))
        count = max(1, min(int(np.ceil(travel / _SEGMENT)), len(t) // _LEAST_OF_SEGMENT))
        segments = zip(np.array_split(q, count), np.array_split(tau, count), strict=True)
        rows += [(a.mean(axis=0), speed, b.mean(axis=0)) for a, b in segments]
    q, dq, tau = (np.array(column) for column in zip(*rows, strict=True))
    steps = (*steps, Step("average stops and segments of cruises", {}))
    return Samples(run, Motion(q, dq, np.zeros_like(dq)), tau, rate, steps=steps, static=True)


MARGIN = 10.0  # cut-off over the highest frequency of a motion: reversals of friction lie above it, and count
POSES_HZ = 10.0  # for held poses: such a filter rings for 0.1 s, half of what is left out where a dwell begins
FASTER = 2.0  # times the plan's highest frequency, that a motion of this plan may show
RATES = 4.0, 5e4  # Hz of logs that a robot is identified from
FASTEST_JOINT = 25.0  # rad/s or m/s, where no limit is known
_SHORTEST = 1.0  # s between two gaps, that are worth a run
EQUATIONS = 10  # a parameter, that thinning leaves at least


def is_loaded(campaign: OpenCampaign, run: Run) -> bool:
    """Return True if the payload was on, from the run's own entry or its program's manifest."""
    if run.program is None:
        return run.loaded is not False
    target, _, name = run.program.partition("/")
    path = campaign.folder / PROGRAMS / target / MANIFEST
    planned = next((entry for entry in read_manifest(path).programs if entry.name == name), None)
    if planned is None or planned.payload_kg is None:
        if campaign.content.task == "arm":  # the payload was stated later
            return run.loaded is not False
        raise ExcitorError(f"{path}: does not say whether {name!r} is run with the load; emit the programs again")
    planned_load = planned.payload_kg > 0.0
    if run.loaded is not None and run.loaded != planned_load:
        raise ExcitorError(
            f"run {run.name!r}: loaded is {str(run.loaded).lower()}, but its program was planned "
            f"{'with' if planned_load else 'without'} the load; one of them is wrong"
        )
    return planned_load


def robot_of_run(campaign: OpenCampaign, run: Run) -> Robot:
    """Return the robot with what it carries in a run: the payload that campaign.toml states, unless it was off."""
    stated = campaign.content.payload
    if stated is None or campaign.content.task != "arm":
        return campaign.robot
    return loaded(campaign.robot, stated) if is_loaded(campaign, run) else replace(campaign.robot, payload=None)


SUBTRACTED = "subtract the stated load"


def without_load(campaign: OpenCampaign, run: Run, samples: Samples) -> Samples:
    """Subtract the torques of the stated payload, so that those of the bare arm are left: τ - Y φ."""
    robot = robot_of_run(campaign, run)
    if robot.payload is None or campaign.content.payload is None or campaign.content.task != "arm":
        return samples
    if robot.drive.in_amperes and any(step.name == CURRENT for step in samples.steps):  # which tell nothing in N m
        return samples
    tau = samples.tau - load_torques(robot, robot.payload, samples.motion)
    step = Step(SUBTRACTED, {"mass": float(robot.payload.phi[9])})
    return replace(samples, tau=tau, steps=(*samples.steps, step))


def load_torques(robot: Robot, load: Payload, motion: Motion) -> FloatArray:
    """Joint torques of a load alone, Y φ, (n_samples, n_joints)."""
    phi = np.zeros(len(layout(robot)))
    phi[layout(robot).link(load.link)] = load.phi
    return rigid_torque(robot, motion, phi)


def settle(campaign: OpenCampaign) -> tuple[OpenCampaign, dict[str, MeasuredSignals]]:
    """Choose from the logs what a campaign leaves open of its processing; return also the logs that were read.

    Without a stated low-pass, runs without a plan get the band that predicts the torques of held-out blocks best, and
    their equations are thinned to it. A stated low-pass is compared with that band. Torques that surely act later than
    recorded, or are stated to, are evaluated when they act, and the band is chosen again.
    """
    campaign, read = _read_apart(campaign)
    if campaign.content.processing.times_torques:
        return _settled(*_timed(campaign, read, _stated_timing(campaign, read)))[:2]
    settled, own, timing = _settled(campaign, read)
    return (settled, own) if timing is None else _settled(*_timed(campaign, read, timing))[:2]


def _stated_timing(campaign: OpenCampaign, read: Mapping[str, MeasuredSignals]) -> Timing | None:
    """Build the timing that a campaign states, of the slowest log."""
    settings, rates = campaign.content.processing, [measured.sample_rate_hz for measured in read.values()]
    given = settings.torque_delay_s or 0.0, settings.torque_hold or "none", settings.phase
    try:
        return stated_timing(campaign.robot, *given, min(rates)) if rates else None
    except ValueError as error:
        raise ExcitorError(f"{campaign.folder / FILE}: processing.torque_delay_s: {error}") from None


def _timed(
    campaign: OpenCampaign, read: Mapping[str, MeasuredSignals], timing: Timing | None
) -> tuple[OpenCampaign, dict[str, MeasuredSignals]]:
    """Evaluate the torques of runs that move when they act."""
    moving = {run.name for run in campaign.content.run if not run.static}
    done = {name: _acting(one, timing if name in moving else None) for name, one in read.items()}
    return replace(campaign, timing=timing), done


def _acting(measured: MeasuredSignals, timing: Timing | None) -> MeasuredSignals:
    """Evaluate torques when they act."""
    if timing is None:
        return measured
    tau = shifted(measured.tau, measured.sample_rate_hz, timing.delay)
    return replace(measured, tau=tau, steps=(*measured.steps, Step("time the torques", timing.settings)))


def _settled(
    campaign: OpenCampaign, read: dict[str, MeasuredSignals]
) -> tuple[OpenCampaign, dict[str, MeasuredSignals], Timing | None]:
    """Choose the band of runs whose logs are read, and find when their torques act, if that is not known."""
    settings = campaign.content.processing
    open_runs = [run for run in campaign.content.run if run.name in read and not run.static]
    if settings.lowpass_hz is None:
        open_runs = [run for run in open_runs if _planned(campaign, run, read[run.name]) is None]
    training = [run for run in open_runs if run.role == "identify"] or open_runs
    if settings.lowpass_hz is not None or any(read[run.name].dq is None or not _once(run) for run in open_runs):
        read = {name: replace(measured, dq=None) for name, measured in read.items()}
    raws = [raw_run(run, read[run.name]) for run in training]
    rows = Rows(dead_zone=dead_zone(campaign), settling=settings.settling_s)
    choice = choose_band(campaign.robot, raws, rows=rows, stated=settings.lowpass_hz) if raws else None
    timing = None
    if choice is not None and campaign.timing is None:
        hz, width = settings.lowpass_hz or choice.hz, _averaged_samples(campaign.robot, raws, choice, rows)
        timing = choose_timing(campaign.robot, raws, hz, choice.source, rows, width)
    if choice is None or settings.lowpass_hz is not None:
        return replace(campaign, band=choice), read, timing
    alone = len(open_runs) == len(campaign.content.run) and all(_once(run) for run in open_runs)
    if alone and not settings.decimate and "average_samples" not in settings.model_fields_set:
        width = _averaged_samples(campaign.robot, raws, choice, rows)
        settings = settings.model_copy(update={"average_samples": width})
    content = campaign.content.model_copy(update={"processing": settings})
    return replace(campaign, content=content, band=choice), read, timing


def _read_apart(campaign: OpenCampaign) -> tuple[OpenCampaign, dict[str, MeasuredSignals]]:
    """Read all logs without a program; a run with gaps becomes several, each of which ends at the next gap."""
    runs: list[Run] = []
    long: list[LongRun] = []
    read: dict[str, MeasuredSignals] = {}
    for run in campaign.content.run:
        if run.program is not None or fields_of(campaign.content, run) is not None:
            runs.append(run)
            continue
        path, declared = campaign.folder / run.log, run.columns or campaign.content.log
        log = None
        if declared is not None and _once(run) and not run.static:
            log = open_long(path, declared, campaign.robot.joint_names)
        whole = [run] if log is None else _stretches(run, log)
        parts: list[Run] = []
        for one in whole:
            for part, own in _between_gaps(one, read_measured(campaign, one, log), path):
                parts.append(part)
                read[part.name] = own
        runs += parts
        long += [] if log is None else [LongRun(run, log, tuple(part.name for part in parts))]
    if runs == list(campaign.content.run):
        return campaign, read
    return replace(campaign, content=campaign.content.model_copy(update={"run": runs}), long=tuple(long)), read


def _stretches(run: Run, log: LongLog) -> list[Run]:
    """Choose stretches of a long log, spread over the part that counts, each a run of its own."""
    since, until = run.from_s or 0.0, min(log.seconds, np.inf if run.to_s is None else run.to_s)
    length = max(STRETCH, SAMPLED / MOST_STRETCHES / log.rate)
    count = int(np.clip(SAMPLED / (length * log.rate), LEAST_STRETCHES, MOST_STRETCHES))
    if until - since < length:
        return [run.model_copy(update={"from_s": since, "to_s": until})]
    begins = np.linspace(since, until - length, count)
    names = [f"{run.name} (stretch {k} of {count})" for k in range(1, count + 1)]
    return [
        run.model_copy(update={"name": name, "from_s": float(a), "to_s": float(a + length)})
        for name, a in zip(names, begins, strict=True)
    ]


def whole_name(words: str) -> str:
    """Name long runs where words name a stretch of them."""
    return re.sub(r" \(stretch \d+ of \d+\)", "", words)


def all_samples(campaign: OpenCampaign, long: LongRun) -> Iterator[Samples]:
    """Process a long log part by part: parts overlap by what the filter needs, and each row is in one of them."""
    run, log, rate = long.run, long.log, long.log.rate
    cutoff = cutoff_of(campaign, run.model_copy(update={"name": long.stretches[0]}), rate)
    overlap = ceil((FILTER_PERIODS / cutoff.hz + campaign.content.processing.settling_s) * rate)
    overlap += campaign.content.processing.drop_ends
    count, since = max(ROWS, 6 * overlap), run.from_s or 0.0
    for first in range(0, log.n_rows, count - 2 * overlap):
        last = first + count >= log.n_rows
        measured = joint_side(campaign.robot, read_rows(log, min(first, log.n_rows - count), count))
        measured = _acting(measured, campaign.timing)
        until = measured.start + (len(measured.q) - 1) / rate - (0 if last else overlap) / rate
        until = until if run.to_s is None else min(until, run.to_s)
        if until - since >= _SHORTEST / 2.0:
            part = run.model_copy(update={"name": long.stretches[0], "from_s": since, "to_s": until - 0.25 / rate})
            for one, own in _between_gaps(part, measured, log.path, none=True):
                yield without_load(campaign, run, _read_run(campaign, one, own))
            since = until
        if last:
            return


def _between_gaps(
    run: Run, measured: MeasuredSignals, path: Path, none: bool = False
) -> list[tuple[Run, MeasuredSignals]]:
    """Cut a run at the gaps of its log, each part with what was recorded between two gaps; `none`: it may be empty."""
    if not measured.gaps:
        return [(run, measured)]
    rate, end = measured.sample_rate_hz, measured.start + (len(measured.q) - 1) / measured.sample_rate_hz
    begins = [measured.start, *(b for _, b in measured.gaps)]
    spans = zip(begins, [*(a for a, _ in measured.gaps), end], strict=True)
    whole = [(a, b, max(a, run.from_s or 0.0), min(b, end if run.to_s is None else run.to_s)) for a, b in spans]
    parts = [(a, b, since, until) for a, b, since, until in whole if until - since >= _SHORTEST]
    if (not parts and not none) or (len(parts) > 1 and (run.static or not _once(run))):
        gaps = ", ".join(f"{a:.6g} to {b:.6g} s" for a, b in measured.gaps[:4])
        raise InvalidLog(path, f"run {run.name!r}: rows are missing from {gaps}; state from_s and to_s between them")
    found = []
    for k, (a, b, since, until) in enumerate(parts, start=1):
        rows = slice(ceil((a - measured.start) * rate - 1e-6), floor((b - measured.start) * rate + 1e-6) + 1)
        name = run.name if len(parts) == 1 else f"{run.name} (part {k})"
        part = run.model_copy(update={"name": name, "from_s": since, "to_s": until})
        dq = None if measured.dq is None else measured.dq[rows]
        start = measured.start + rows.start / rate
        found.append((part, replace(measured, q=measured.q[rows], tau=measured.tau[rows], dq=dq, gaps=(), start=start)))
    return found


def dead_zone(campaign: OpenCampaign) -> FloatArray:
    """Compute the speeds below which joints' equations are left out, (n_joints,)."""
    limits, share = campaign.robot.limits.velocity, campaign.content.processing.dead_zone_percent / 100.0
    return share * np.where(np.isfinite(limits), limits, 0.0)


def band_findings(campaign: OpenCampaign) -> tuple[Finding, ...]:
    """Find whether the data contradict the stated low-pass."""
    band, stated = campaign.band, campaign.content.processing.lowpass_hz
    if band is None or band.stated is None or stated is None or not band.contradicted:
        return ()
    remedy = f"write lowpass_hz = {band.hz:g} in [processing], or leave the line out"
    data = {"stated_hz": stated, "best_hz": band.hz, "error": band.stated.error, "doubt": band.stated.doubt}
    return (Finding("unusable", "band", f"processing.{band.refusal}", remedy, data),)


def _once(run: Run) -> bool:
    return run.period_s is None and run.cycle_s is None


def _planned(campaign: OpenCampaign, run: Run, measured: MeasuredSignals) -> Cutoff | None:
    return planned_cutoff(campaign.folder, run, measured.sample_rate_hz, measured.q)


def raw_run(run: Run, measured: MeasuredSignals) -> RawRun:
    """Cut a run to the part that counts; of a planned period, average its repetitions."""
    rate = measured.sample_rate_hz
    if run.period_s is not None:
        n = _whole_period(run.period_s, rate)
        q, tau = (average_periods(x, n, drop_periods=run.drop_periods).mean for x in (measured.q, measured.tau))
        return RawRun(q, tau, rate, filter=lambda x, hz: periodic_lowpass(x, sample_rate_hz=rate, cutoff_hz=hz))
    q, tau = (_counted(run, x, rate, measured.start) for x in (measured.q, measured.tau))
    dq = None if measured.dq is None else _counted(run, measured.dq, rate, measured.start)
    return RawRun(q, tau, rate, dq)


def _counted(run: Run, x: FloatArray, rate: float, start: float = 0.0) -> FloatArray:
    """Cut samples, the first of which is at `start`, to the part of a run that counts."""
    begin = max(0, round(((run.from_s or 0.0) - start) * rate))
    return x[begin : None if run.to_s is None else max(0, round((run.to_s - start) * rate) + 1)]


def _averaged_samples(robot: Robot, runs: Sequence[RawRun], band: BandChoice, rows: Rows) -> int:
    """Choose of how many samples an equation is the mean: torques end where the motion explains them.

    A filter that rings would spread what friction does at its reversals over rows far from them; means don't.
    """
    least, hz = EQUATIONS * len(base_parameters(robot)), min(band.hz, band.explained_hz)
    motions = [low_passed(run, band.hz, band.source).dq for run in runs]
    near = [
        near_reversals(robot, dq, run.rate, within=rows.settling, slow=rows.dead_zone).astype(float)
        for dq, run in zip(motions, runs, strict=True)
    ]
    total = sum(len(run.q) for run in runs)
    width = min(thinning_factor(run.rate, hz, total, least // robot.n_joints) for run in runs)
    while width > 1 and sum(int(np.sum(block_means(one, width) == 0.0)) for one in near) < least // 2:
        width = width * 2 // 3
    return width


def read_run(campaign: OpenCampaign, run: Run, measured: MeasuredSignals | None = None) -> Samples:
    """Read and process one run as the campaign declares it; torques are those of the arm without a stated payload.

    `measured`: its log, where it was read already.
    """
    if run.program is not None:
        return read_program(campaign, run)[0]
    return without_load(campaign, run, _read_run(campaign, run, measured))


def _read_run(campaign: OpenCampaign, run: Run, measured: MeasuredSignals | None) -> Samples:
    path = campaign.folder / run.log
    fields = fields_of(campaign.content, run)
    if fields is not None:
        return read_matlab_means(path, Fields(**fields.model_dump()), run=run.name)
    settings = campaign.content.processing
    if measured is None:
        parts = _between_gaps(run, read_measured(campaign, run), path)
        if len(parts) > 1:
            raise InvalidLog(path, f"run {run.name!r} has gaps; write a run for each part between them: from_s, to_s")
        ((run, measured),) = parts
    cutoff = cutoff_of(campaign, run, measured.sample_rate_hz, measured.q)
    band = campaign.band
    if band is not None and cutoff.reason == band.sentence:
        measured = replace(measured, steps=(*measured.steps, Step("choose the band", band.settings)))
    try:
        if run.period_s is not None:
            return average_plan(run, cutoff, measured)
        measured = lowpassed(settings, cutoff, measured)
        if run.cycle_s is not None:
            return average_process(run, measured)
        if run.static:
            return static_poses(campaign, run, measured)
        by_velocity = band is not None and band.source == "velocities" and cutoff.reason == band.sentence
        return one_pass(run, settings, measured if by_velocity else replace(measured, dq=None))
    except ValueError as error:
        raise InvalidLog(path, f"run {run.name!r} cannot be processed: {error}") from None


def read_run_aligned(
    campaign: OpenCampaign,
    run: Run,
    *,
    unknown_load: bool = False,
    found: Alignment | None = None,
    measured: MeasuredSignals | None = None,
) -> tuple[Samples, Alignment | None]:
    """Read a run, and its alignment where it has a plan, see `read_program`; files are named from the folder."""
    if run.program is None:
        samples, alignment = read_run(campaign, run, measured), None
    else:
        samples, alignment = read_program(campaign, run, unknown_load=unknown_load, found=found)
    return replace(samples, steps=tuple(_from_folder(step, campaign.folder) for step in samples.steps)), alignment


def read_program(
    campaign: OpenCampaign, run: Run, *, unknown_load: bool = False, found: Alignment | None = None
) -> tuple[Samples, Alignment]:
    """Align the log of an emitted program with its plan, and average the usable part; Misaligned lists what is wrong.

    `unknown_load`: the load differs from the robot's payload, and is to be identified. `found`: the alignment, where it
    is known already.
    """
    assert run.program is not None
    log = ProgramLog(run.program, run.log, run.role, run.name)
    declared = campaign.content.log or declared_by(run.program.partition("/")[0], campaign.robot)
    lowpass_hz = campaign.content.processing.lowpass_hz
    try:
        expected, measured, steps = read_plan(campaign.folder, log, campaign.robot, declared)
        alignment = align(expected, measured, robot_of_run(campaign, run)) if found is None else found
        alignment = replace(alignment, checks=passed_over(alignment.checks, campaign.content.identify.allow))
        if unknown_load:
            checks = tuple(check for check in alignment.checks if check.what != "payload")
            alignment = replace(alignment, checks=checks)
        samples = planned_samples(alignment, measured, steps, log=log, lowpass_hz=lowpass_hz)
        return without_load(campaign, run, samples), alignment
    except ValueError as error:
        raise InvalidLog(campaign.folder / run.log, f"run {run.name!r} cannot be processed: {error}") from None


def passed_over(checks: Sequence[Check], names: Sequence[str]) -> tuple[Check, ...]:
    """Downgrade failed checks whose cause is allowed by name to doubtful ones."""
    plain = {name.replace("-", " ") for name in names} - {"another program"}
    return tuple(replace(c, level="doubtful") if not c.holds and c.cause in plain else c for c in checks)


def _from_folder(step: Step, folder: Path) -> Step:
    """Return a step with its file relative to a folder, if the file is in it."""
    file = step.settings.get("file")
    if not isinstance(file, str) or not Path(file).is_relative_to(folder):
        return step
    return Step(step.name, {**step.settings, "file": Path(file).relative_to(folder).as_posix()})


def read_measured(campaign: OpenCampaign, run: Run, long: LongLog | None = None) -> MeasuredSignals:
    """Read the log of a run without a program, on the joint side; of a long one what counts, and little more."""
    declared, robot, path = run.columns or campaign.content.log, campaign.robot, campaign.folder / run.log
    assert declared is not None
    span = (run.from_s or 0.0, np.inf if run.to_s is None else run.to_s)
    if long is None:
        log = read_log(path, declared, robot.joint_names, span)
    else:
        a, b = (round(long.n_rows * t / long.seconds) for t in span)
        log = read_rows(long, a, b - a)
    measured = joint_side(robot, log)
    problem = "" if run.static else implausible(robot, declared, measured)
    if problem:
        raise InvalidLog(path, problem)
    return measured


def implausible(robot: Robot, declared: ColumnMap, measured: MeasuredSignals) -> str:
    """Describe the line that a column map lacks, where the clock or the angles are surely in another unit; else "".

    Speeds are those over 20 ms at least, beside the limits of joints, or what no joint does.
    """
    rate = measured.sample_rate_hz
    lag = max(1, round(0.02 * rate))
    if len(measured.q) < 10 * lag:
        return ""
    speed = np.quantile(np.abs(measured.q[lag:] - measured.q[:-lag]), 0.99, axis=0) * rate / lag
    turning = ~robot.mechanism.prismatic
    limits = np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, FASTEST_JOINT)
    odd = "time_unit" not in declared.model_fields_set and not RATES[0] <= rate <= RATES[1]
    if declared.time is not None and odd:
        for unit, seconds in SECONDS.items():
            if unit != "s" and RATES[0] <= rate / seconds <= RATES[1] and (speed / seconds <= 3.0 * limits).all():
                return (
                    f"stamps are {1.0 / rate:.4g} s apart and joints no faster than {speed.max():.2g} rad/s: they look "
                    f'like {unit}; add this line to [log]: time_unit = "{unit}" (or "s", if that is what they are)'
                )
    position = next((entry for entry in declared.signals if entry.kind == "position"), None)
    fast = turning & (speed > 5.0 * limits)
    in_degrees = (speed * np.pi / 180.0 <= 1.5 * limits)[turning].all()
    if position is not None and position.unit == "rad" and fast.any() and in_degrees:
        joint = robot.joint_names[int(np.argmax(speed / limits))]
        return (
            f"joint {joint} moves at {speed.max():.3g} rad/s: its positions look like degrees; in [[log.signals]] of "
            'kind = "position" write unit = "deg" (or correct the limits of the robot)'
        )
    return ""


def cutoff_of(campaign: OpenCampaign, run: Run, rate: float, q: FloatArray | None = None) -> Cutoff:
    """Choose the cut-off of a run's positions, sampled at `rate` in Hz; InvalidCampaign where nothing determines it.

    The campaign states it; else it is 10 times the highest frequency that the run's plan declares; else it is what
    `settle` chose. Held poses enter by their means: their filter only finds where the robot stands. `q` are positions
    that must agree with the plan.
    """
    stated = campaign.content.processing.lowpass_hz
    if stated is not None:
        return Cutoff(stated, STATED)
    chosen = Cutoff(POSES_HZ, "poses are held") if run.static else planned_cutoff(campaign.folder, run, rate, q)
    if chosen is None and campaign.band is not None:
        chosen = Cutoff(campaign.band.hz, campaign.band.sentence)
    if chosen is None:
        raise InvalidCampaign(campaign.folder / FILE, [missing_lowpass(campaign)])
    if chosen.hz > HIGHEST * rate:
        return Cutoff(HIGHEST * rate, f"{chosen.reason}, but at most {HIGHEST:g} of the sampling rate")
    return chosen


def check_cutoffs(campaign: OpenCampaign, runs: Sequence[Run]) -> None:
    """Refuse runs whose low-pass is neither stated nor follows from a plan, before any log is read."""
    chosen = campaign.content.processing.lowpass_hz is not None or campaign.band is not None
    if not chosen and any(planned_cutoff(campaign.folder, run) is None for run in runs):
        raise InvalidCampaign(campaign.folder / FILE, [missing_lowpass(campaign)])


def planned_cutoff(folder: Path, run: Run, rate: float = 0.0, q: FloatArray | None = None) -> Cutoff | None:
    """Choose a cut-off from the plan of a run: of the run of its name, else of the fastest Fourier run.

    A run of another name must show no frequencies beyond the plan's. A process (`cycle_s`) has no plan.
    """
    if run.cycle_s is not None:
        return None
    series, moves = planned_bands(folder)
    bands = moves | series
    name = run.name if run.name in bands else max(series, key=lambda name: series[name], default=None)
    if name is None:
        return None
    hz = bands[name]
    if name != run.name and q is not None and power_band(_counted(run, q, rate), rate) > FASTER * (hz + rate / len(q)):
        return None
    whose = "" if name == run.name else f" of the run {name!r}"
    return Cutoff(MARGIN * hz, f"{MARGIN:g} times {hz:.4g} Hz, the highest planned frequency{whose}")


def planned_bands(folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Find the highest frequency of each planned run, Hz: of Fourier series, and of moves.

    It is that of the highest harmonic. Moves that are measured as they go speed up within a blend B, as half a period
    of 1 / (2 B) does. They come from design.json; where there is none, from the manifests of programs.
    """
    from excitor.experiments.design_json import FILE as DESIGN
    from excitor.experiments.design_json import parse_design

    if (folder / DESIGN).is_file():
        design = parse_design(folder)
        try:
            bodies = [(run.name, run.motion(design.joints)) for run in (*design.runs, *design.slow_runs)]
        except ValueError as error:
            raise ExcitorError(f"{folder / DESIGN}: {error}; design the campaign again") from None
    else:
        manifests = [read_manifest(path) for path in manifests_of(folder).values()]
        programs = ((one, entry) for one in manifests for entry in one.programs if not entry.dry)
        bodies = [(entry.run, expected_of(one, entry.name).run) for one, entry in programs]
    series: dict[str, float] = {}
    moves: dict[str, float] = {}
    for name, body in bodies:
        if body.series is not None:
            series[name] = body.series.harmonics[-1] / body.series.period
        elif blends := [move.edge for move in body.moves if move.measured and not move.still]:
            moves[name] = 0.5 / min(blends)
    return series, moves


def missing_lowpass(campaign: OpenCampaign) -> str:
    """Describe which line of campaign.toml is missing, where neither a plan nor the logs say it."""
    table = "" if "processing" in campaign.content.model_fields_set else "[processing]\n"
    place = "add this line to its table [processing]" if not table else "add these lines at its end"
    return (
        "processing.lowpass_hz: is missing; no plan (design.json, or a manifest.json of programs) declares the motion, "
        "and the logs are too short, too slow or too still to choose it by. Differentiated twice without a low-pass, "
        f"the positions' noise would appear as accelerations. Nothing was written; {place}, and run the "
        f"command again:\n{table}lowpass_hz = HZ  # {MARGIN:g} times the highest frequency of the commanded motion"
    )


def lowpassed(settings: Processing, cutoff: Cutoff, measured: MeasuredSignals) -> MeasuredSignals:
    """Low-pass the positions of a run without delay."""
    details: dict[str, float | str] = {"cutoff_hz": cutoff.hz, "chosen_as": cutoff.reason}
    details["true_cutoff"] = str(settings.true_cutoff)
    rate, steps = measured.sample_rate_hz, (*measured.steps, Step("lowpass", details))
    q, dq = (None if x is None else filtered(x, rate, cutoff, settings) for x in (measured.q, measured.dq))
    assert q is not None
    return replace(measured, q=q, dq=dq, steps=steps)


def filtered(q: FloatArray, rate: float, cutoff: Cutoff, settings: Processing) -> FloatArray:
    """Low-pass positions without delay."""
    return lowpass(q, sample_rate_hz=rate, cutoff_hz=cutoff.hz, true_cutoff=settings.true_cutoff)


def filter_sentences(runs: Mapping[str, Samples]) -> list[str]:
    """Describe the low-pass of the positions of runs, and its reason."""
    alike: dict[tuple[float, str], list[str]] = {}
    for name, samples in runs.items():
        for step in samples.steps:
            if "cutoff_hz" in step.settings and "chosen_as" in step.settings:
                key = float(step.settings["cutoff_hz"]), str(step.settings["chosen_as"])
                alike.setdefault(key, []).append(repr(whole_name(name)))
    said = {key: several(list(dict.fromkeys(names))) for key, names in alike.items()}
    return [f"low-pass of positions at {hz:g} Hz, {why}: {names}" for (hz, why), names in said.items()]


def one_pass(run: Run, settings: Processing, measured: MeasuredSignals) -> Samples:
    """Differentiate a run, its measured velocities if it has them, and cut it to the part that counts."""
    rate, dq = measured.sample_rate_hz, measured.dq
    motion = differentiated(measured.q, rate)
    if dq is not None:
        motion = Motion(measured.q, dq, differentiate(dq, sample_rate_hz=rate))
    time = measured.start + np.arange(len(measured.q)) / rate
    edge = settings.drop_ends / rate
    kept = time >= max(run.from_s or 0.0, measured.start + edge)
    kept &= time <= min(time[-1] if run.to_s is None else run.to_s, time[-1] - edge)
    if np.count_nonzero(kept) < 3:
        raise ValueError("fewer than 3 samples are left; see its from_s, to_s and drop_ends")
    steps = (
        *measured.steps,
        Step("differentiate", {"ends": "second-order"} | ({} if dq is None else {"of": "measured velocities"})),
        Step("cut", {"from_s": float(time[kept][0]), "to_s": float(time[kept][-1])}),
    )
    return Samples(run.name, motion[kept], measured.tau[kept], rate, steps=steps)


def average_plan(run: Run, cutoff: Cutoff, measured: MeasuredSignals) -> Samples:
    """Average whole periods of a planned run; the motion has the frequencies below the cut-off, exactly."""
    assert run.period_s is not None
    rate = measured.sample_rate_hz
    n = _whole_period(run.period_s, rate)
    q, tau = (average_periods(x, n, drop_periods=run.drop_periods) for x in (measured.q, measured.tau))
    return _averaged(run.name, (q, tau), rate, cutoff, measured.steps, period_s=run.period_s)


def _whole_period(period_s: float, rate: float) -> int:
    n = round(period_s * rate)
    if abs(n - period_s * rate) > 0.05:
        raise ValueError(
            f"period_s is {period_s}, not a whole number of samples at {rate:g} Hz; state a sample_rate_hz to resample "
            "to in [log] of which it is"
        )
    return n


def average_process(run: Run, measured: MeasuredSignals) -> Samples:
    """Cut a process log into its cycles, exclude those that deviate, and average the others."""
    assert run.cycle_s is not None
    q, rate = measured.q, measured.sample_rate_hz
    cycles = find_cycles(q, sample_rate_hz=rate, min_period_s=run.cycle_s)
    tau = average_cycles(measured.tau, cycles)
    details: dict[str, float | str] = {
        "period_s": cycles.period,
        "repetitions": float(tau.n_repetitions),
        "left_out": "; ".join(cycles.findings),
    }
    motion = differentiated(average_cycles(q, cycles).mean, rate)
    return repeated(run.name, motion, tau, rate, (*measured.steps, Step("average cycles", details)))


def static_poses(campaign: OpenCampaign, run: Run, measured: MeasuredSignals) -> Samples:
    """Average each pose over its approaches from both sides, against stiction."""
    q, rate = measured.q, measured.sample_rate_hz
    dq = differentiate(q, sample_rate_hz=rate)
    limits = campaign.robot.limits.velocity
    share = max(campaign.content.processing.dead_zone_percent, 0.1) / 100.0
    threshold = np.where(np.isfinite(limits), share * limits, 1e-2)
    poses = pose_averages(q, measured.tau, dq=dq, threshold=threshold, settle_samples=max(1, round(0.2 * rate)))
    details: dict[str, float | str] = {"poses": float(len(poses.q)), "findings": "; ".join(poses.findings)}
    steps = (*measured.steps, Step("static poses", details))
    return Samples(run.name, posture(poses.q), poses.tau, rate, steps=steps, static=True)


def differentiated(q: FloatArray, rate: float) -> Motion:
    """Differentiate positions twice."""
    dq = differentiate(q, sample_rate_hz=rate)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=rate))
