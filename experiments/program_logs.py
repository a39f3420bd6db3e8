"""Logs of emitted programs: which there are, whether they show their plan, and what of them counts."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.design.motion import Trajectory
from excitor.design.programs import registry
from excitor.experiments.align.align import align
from excitor.experiments.align.manifest_file import Manifest, expected_of, read_manifest
from excitor.experiments.align.nouns import Alignment, MeasuredRun
from excitor.experiments.align.windows import AlignedPeriods, aligned_samples, aligned_windows, usable
from excitor.experiments.virtual.formats import declared_for
from excitor.identify.log import Log, Quantity, Recording, joint_side
from excitor.identify.logs.read import read_log
from excitor.identify.logs.table import ColumnMap
from excitor.identify.periods import periodic_lowpass
from excitor.identify.samples import Samples, Step, repeated
from excitor.identify.signals import differentiate
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidLog
from excitor.robots.friction import torque_from_current
from excitor.robots.robot import Motion, Robot

PROGRAMS, LOGS, MANIFEST = "programs", "logs", "manifest.json"
STATED = "stated in campaign.toml"  # why a cut-off is what it is
_CUTOFF = 4.0  # times the highest planned frequency: what the robot adds to its plan while it follows
_LEAST_CUTOFF = 2.0  # Hz
_PIECE = 0.1  # rad or m of a cruise that one row is the mean of: gravity's curvature within is 1e-3 of it at most
_LEAST_OF_PIECE = 3  # samples


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Where the positions of a run are low-passed, and why there."""

    hz: float
    reason: str


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
    found: Alignment | None = None,
) -> tuple[Samples, Alignment]:
    """Read a program's log, hold it against the plan, and average what counts; Misaligned tells what is wrong.

    `unknown_load`: that the robot carries something else than its payload is what is to be found out. `found`: the
    alignment, where it is known already.
    """
    target, _, program = log.program.partition("/")
    manifest = read_manifest(folder / PROGRAMS / target / MANIFEST)
    expected = expected_of(manifest, program, folder / PROGRAMS / target / MANIFEST)
    read = read_log(folder / log.log, declared, robot.joint_names)
    measured, steps = measured_run(read, manifest, robot)
    alignment = align(expected, measured, robot) if found is None else found
    if unknown_load:
        checks = tuple(check for check in alignment.checks if check.what != "payload")
        alignment = replace(alignment, checks=checks)
    told = usable(alignment, name=log.log)
    steps = (*steps, *told.steps, _aligned_step(alignment))
    if isinstance(expected.body, Trajectory):
        highest = expected.body.excitation.harmonics[-1] / expected.body.excitation.period
        cutoff = Cutoff(lowpass_hz, STATED) if lowpass_hz else _cutoff_of_plan(highest)
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
        gains=_gains(robot, effort.values) if effort.kind == "current" else None,
    )
    return run, steps


def _gains(robot: Robot, current: FloatArray) -> FloatArray:
    """Tell the torque a unit of current that each law gives at what usually flows, (n_joints,)."""
    usual = np.sqrt(np.mean(current**2, axis=0, keepdims=True))
    usual = np.where(usual > 0.0, usual, 1.0)
    return np.asarray((torque_from_current(robot, usual) / usual)[0])


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


def _cutoff_of_plan(highest: float) -> Cutoff:
    """Choose the cut-off for averaged periods of a program, whose highest planned frequency is given in Hz."""
    reason = f"{_CUTOFF:g} times {highest:g} Hz, the highest planned frequency, and at least {_LEAST_CUTOFF:g} Hz"
    return Cutoff(max(_CUTOFF * highest, _LEAST_CUTOFF), reason)


def _averaged(run: str, periods: AlignedPeriods, cutoff: Cutoff, steps: tuple[Step, ...]) -> Samples:
    """Average whole periods; their motion is what lies below the cut-off, exactly."""
    q, tau = periods.averages()
    hz = min(cutoff.hz, 0.49 * periods.rate)
    motion = periodic_lowpass(q.mean, sample_rate_hz=periods.rate, cutoff_hz=hz)
    findings: dict[str, float | str] = {"repetitions": float(tau.n_repetitions), "findings": "; ".join(tau.findings)}
    steps = (
        *steps,
        Step("average periods", findings),
        Step("periodic lowpass", {"cutoff_hz": hz, "chosen_as": cutoff.reason}),
    )
    return repeated(run, motion, tau, periods.rate, steps)


_Cut = tuple[FloatArray, FloatArray, FloatArray]


def _of_moves(run: str, windows: list[tuple[str, _Cut]], rate: float, steps: tuple[Step, ...]) -> Samples:
    """Average each stop, and each short piece of a cruise at the cruise's speed: rows that are no series of time."""
    rows: list[_Cut] = []
    for kind, (t, q, tau) in windows:
        if kind == "stop":
            rows.append((q.mean(axis=0), np.zeros(q.shape[1]), tau.mean(axis=0)))
            continue
        speed = differentiate(q, sample_rate_hz=rate).mean(axis=0)
        travel = float(np.abs(speed).max() * (t[-1] - t[0]))
        count = max(1, min(int(np.ceil(travel / _PIECE)), len(t) // _LEAST_OF_PIECE))
        pieces = zip(np.array_split(q, count), np.array_split(tau, count), strict=True)
        rows += [(a.mean(axis=0), speed, b.mean(axis=0)) for a, b in pieces]
    q, dq, tau = (np.array(column) for column in zip(*rows, strict=True))
    steps = (*steps, Step("average stops and pieces of cruises", {}))
    return Samples(run, Motion(q, dq, np.zeros_like(dq)), tau, rate, steps=steps, static=True)
