"""Logs of emitted programs: which there are, whether they show their plan, and what of them counts."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.design.fourier import Trajectory
from excitor.design.programs import registry
from excitor.experiments.align.align import align
from excitor.experiments.align.manifest_file import Manifest, expected_of, read_manifest
from excitor.experiments.align.nouns import Alignment, MeasuredRun
from excitor.experiments.align.windows import AlignedPeriods, aligned_samples, aligned_windows, usable
from excitor.experiments.virtual.formats import declared_for
from excitor.identify.errors import InvalidLog
from excitor.identify.log import Log, joint_side
from excitor.identify.logs.csv_columns import ColumnMap
from excitor.identify.logs.readers import read_log
from excitor.identify.logs.recording import Quantity, Recording
from excitor.identify.periods import periodic_lowpass
from excitor.identify.samples import Samples, Step, repeated
from excitor.identify.signals import differentiate
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Motion, Robot, posture

PROGRAMS, LOGS, MANIFEST = "programs", "logs", "manifest.json"
_CUTOFF = 4.0  # times the highest planned frequency: what the robot adds to its plan while it follows
_LEAST_CUTOFF = 2.0  # Hz


@dataclass(frozen=True, slots=True)
class ProgramLog:
    """A program's run, and where its log lies; paths from the campaign's folder."""

    program: str  # target/name
    log: str
    role: str
    run: str


def found_logs(folder: Path) -> list[ProgramLog]:
    """List the logs that lie where they are expected: logs/TARGET/PROGRAM.*, beside programs/TARGET."""
    found: list[ProgramLog] = []
    for target in registry.NAMES:
        logs, manifest = folder / LOGS / target, folder / PROGRAMS / target / MANIFEST
        if not logs.is_dir() or not manifest.is_file():
            continue
        for entry in read_manifest(manifest).programs:
            if entry.dry or entry.role == "none":
                continue
            logged = sorted(path for path in logs.iterdir() if path.name == entry.name or path.stem == entry.name)
            if len(logged) > 1:
                names = ", ".join(path.name for path in logged)
                raise InvalidLog(str(logs), f"has more than one log of {entry.name}: {names}; keep one of them here")
            found += [
                ProgramLog(f"{target}/{entry.name}", path.relative_to(folder).as_posix(), entry.role, entry.run)
                for path in logged
            ]
    return found


def declared_by(target: str, robot: Robot) -> ColumnMap:
    """Declare what a target's log format leaves open, where the campaign declares nothing: as its client records it."""
    return ColumnMap.model_validate(declared_for(target, robot))


def read_aligned(
    folder: Path,
    log: ProgramLog,
    robot: Robot,
    *,
    declared: ColumnMap,
    lowpass_hz: float | None = None,
    unknown_load: bool = False,
) -> tuple[Samples, Alignment]:
    """Read a program's log, hold it against the plan, and average what counts; Misaligned tells what is wrong.

    `unknown_load`: that the robot carries something else than its payload is what is to be found out.
    """
    target, _, program = log.program.partition("/")
    manifest = read_manifest(folder / PROGRAMS / target / MANIFEST)
    expected = expected_of(manifest, program, folder / PROGRAMS / target / MANIFEST)
    read = read_log(folder / log.log, declared, robot.joint_names)
    measured, steps = measured_run(read, manifest, robot)
    alignment = align(expected, measured, robot)
    if unknown_load:
        checks = tuple(check for check in alignment.checks if check.what != "payload")
        alignment = replace(alignment, checks=checks)
    told = usable(alignment, name=log.log)
    steps = (*steps, *told.steps, _aligned_step(alignment))
    if isinstance(expected.body, Trajectory):
        highest = expected.body.excitation.harmonics[-1] / expected.body.excitation.period
        cutoff = lowpass_hz or max(_CUTOFF * highest, _LEAST_CUTOFF)
        return _averaged(log.run, aligned_samples(alignment, measured), cutoff, steps), alignment
    cut = aligned_windows(told.windows, measured, rate=told.rate, delay=told.delay)
    kinds = [window.kind for window in told.windows]
    return _of_moves(log.run, list(zip(kinds, cut, strict=True)), told.rate, steps), alignment


def measured_run(log: Log, manifest: Manifest, robot: Robot) -> tuple[MeasuredRun, tuple[Step, ...]]:
    """Bring a log to the joints: through the drives, and from the controller's axes where the robot's file says so."""
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
        position_side=position.side,
        effort_side=effort.side,
        mark=_channel(log.raw, "marker", log.start_s + t),
        speed_scaling=_channel(log.raw, "speed_scaling", log.start_s + t),
    )
    return run, steps


def _channel(raw: Recording | None, kind: Quantity, t: FloatArray) -> FloatArray | None:
    """Take a channel's last value at each time, where the log has one of that kind."""
    channels = [channel for channel in (raw.channels if raw is not None else ()) if channel.kind == kind]
    if not channels or channels[0].t is None:
        return None
    k = np.clip(np.searchsorted(channels[0].t, t + 1e-9, side="right") - 1, 0, len(channels[0].values) - 1)
    return np.asarray(channels[0].values[k])


def _aligned_step(alignment: Alignment) -> Step:
    told = "; ".join(check.sentence for check in alignment.faults)
    return Step("align with the plan", {"start_s": alignment.start, "stretch": alignment.stretch, "findings": told})


def _averaged(run: str, periods: AlignedPeriods, cutoff: float, steps: tuple[Step, ...]) -> Samples:
    """Average whole periods; their motion is what lies below the cut-off, exactly."""
    q, tau = periods.averages()
    motion = periodic_lowpass(q.mean, sample_rate_hz=periods.rate, cutoff_hz=min(cutoff, 0.49 * periods.rate))
    findings: dict[str, float | str] = {"repetitions": float(tau.n_repetitions), "findings": "; ".join(tau.findings)}
    steps = (*steps, Step("average periods", findings), Step("periodic lowpass", {"cutoff_hz": cutoff}))
    return repeated(run, motion, tau, periods.rate, steps)


_Cut = tuple[FloatArray, FloatArray, FloatArray]


def _of_moves(run: str, windows: list[tuple[str, _Cut]], rate: float, steps: tuple[Step, ...]) -> Samples:
    """Average each stop; of moves that cruise, take every sample, at the speed of a straight line through it."""
    stops = [(q.mean(axis=0), tau.mean(axis=0)) for kind, (_, q, tau) in windows if kind == "stop"]
    if stops and all(kind == "stop" for kind, _ in windows):
        q, tau = (np.array(column) for column in zip(*stops, strict=True))
        return Samples(run, posture(q), tau, rate, steps=(*steps, Step("average stops", {})), static=True)
    cruises = [(q, differentiate(q, sample_rate_hz=rate), tau) for kind, (_, q, tau) in windows if kind == "cruise"]
    q, dq, tau = (np.concatenate(column) for column in zip(*cruises, strict=True))
    speed = np.concatenate([np.tile(v.mean(axis=0), (len(v), 1)) for _, v, _ in cruises])
    return Samples(run, Motion(q, speed, np.zeros_like(dq)), tau, rate, steps=(*steps, Step("cruises", {})))
