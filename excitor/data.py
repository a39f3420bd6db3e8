"""Logs and samples in memory: read a log, bring it to the joints, align, filter, average."""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excitor.experiments.align.align import align
from excitor.experiments.campaign import Processing
from excitor.experiments.campaign import Run as RunOfLog
from excitor.experiments.logs import (
    HIGHEST,
    STATED,
    Cutoff,
    ProgramLog,
    average_plan,
    average_process,
    declared_by,
    lowpassed,
    measured_run,
    one_pass,
    planned_samples,
)
from excitor.experiments.manifest import expected_of
from excitor.identify.log import Log, joint_side
from excitor.identify.logs.frame import column_map
from excitor.identify.logs.read import read_log as _read_log
from excitor.identify.logs.table import ColumnMap
from excitor.identify.samples import Samples
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from excitor.solution import Run


def read_log(
    path: str | PathLike[str],
    columns: Mapping[str, Any] | None = None,
    *,
    robot: Robot | None = None,
    target: str | None = None,
    sample_rate_hz: float | None = None,
    format: str | None = None,
) -> Log:
    """Read a log of a robot.

    Args:
        path: file, or folder of a ROS bag.
        columns: `{"time": "t", "position": ["q1", ...], "torque": ["tau1", ...]}`; a list names one column a joint,
            in SI units on the joint side; `{"columns": [...], "unit": "deg", "side": "motor", "scale": 1.0}` says
            otherwise. Not needed where the format itself says what its channels are.
        robot: whose joints are meant, for formats that name joints, and with `target`.
        target: the controller whose logger wrote the file, see `emit`.
        sample_rate_hz: where the file has no time.
        format: a reader's name; by default it is found by the file's content.

    InvalidLog says what is wrong, with the row.

    >>> import excitor as ex, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.csv"
    ...     with path.open("w") as file:
    ...         print("t,q,tau", *(f"{k / 100},{k},{2 * k}" for k in range(9)), sep=chr(10), file=file)
    ...     ex.read_log(path, {"time": "t", "position": ["q"], "torque": ["tau"]}).sample_rate_hz
    100.0
    """
    names = robot.joint_names if robot is not None else ()
    if target is not None:
        if robot is None:
            raise ValueError("target is given without robot; the channels of its log are those of a robot's axes")
        declared = declared_by(target, robot)
    elif columns is not None:
        declared = column_map(columns, sample_rate_hz, str(path))
    else:
        declared = ColumnMap(signals=[], sample_rate_hz=sample_rate_hz)
    if format is not None:
        declared = declared.model_copy(update={"format": format})
    return _read_log(Path(path), declared, names)


def samples(
    log: Log,
    robot: Robot,
    run: "Run | None" = None,
    *,
    target: str = "csv",
    period: float | None = None,
    cycle: float | None = None,
    lowpass_hz: float | None = None,
    drop: int | None = None,
    name: str | None = None,
) -> Samples:
    """Bring a log to the joints and process it: aligned, filtered, averaged, differentiated.

    Args:
        log: as `read_log`, `Log.from_frame` or `Log.from_arrays` gives it.
        robot: whose drives lead from motors to joints.
        run: that the log is of; the log is aligned with it, and its measured periods are averaged.
        target: of the run's program: it tells what the log's axes are.
        period: s, of a periodic motion without a `run`: whole periods are averaged.
        cycle: s, least length of a cycle of a process that repeats: cycles are found and averaged.
        lowpass_hz: cut-off of the positions; needed where there is no `run`.
        drop: samples left out at both ends, by default 50; of periods: how many at the start, by default none.
        name: of the samples.

    Misaligned says where a log does not show its run.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> t = np.arange(1000)[:, None] / 100
    >>> q = np.sin(t + np.arange(3))
    >>> tau = ex.inverse_dynamics(robot, q, np.cos(t + np.arange(3)), -q)
    >>> len(ex.samples(ex.Log.from_arrays(q, tau, sample_rate_hz=100), robot, lowpass_hz=20))
    900
    """
    if len([given for given in (run, period, cycle) if given is not None]) > 1:
        raise ValueError("run, period and cycle are ways to average; give one of them")
    if run is not None:
        found = _aligned(log, robot, run, target, lowpass_hz)
    else:
        found = _plain(log, robot, lowpass_hz, _run_of_log(log, period, cycle, drop), 50 if drop is None else drop)
    return replace(found, robot=robot, run=name or found.run)


def _aligned(log: Log, robot: Robot, run: "Run", target: str, lowpass_hz: float | None) -> Samples:
    from excitor.programs import manifest_of, program_name

    manifest, program = manifest_of(run, target), program_name(run, target)
    measured, steps = measured_run(log, manifest, robot)
    alignment = align(expected_of(manifest, program), measured, robot)
    of_program = ProgramLog(f"{target}/{program}", log.path, run.plan.role, run.plan.run)
    return planned_samples(alignment, measured, steps, log=of_program, lowpass_hz=lowpass_hz)


def _run_of_log(log: Log, period: float | None, cycle: float | None, drop: int | None) -> RunOfLog:
    name = Path(log.path).name[:80] or "log"
    return RunOfLog(name=name, log=log.path, period_s=period, cycle_s=cycle, drop_periods=(drop or 0) if period else 0)


def _plain(log: Log, robot: Robot, lowpass_hz: float | None, run: RunOfLog, drop: int) -> Samples:
    if lowpass_hz is None:
        raise ValueError(
            "lowpass_hz is missing, and no run tells it: differentiated twice without a low-pass, the noise of "
            "positions would pass for accelerations; state about 10 times the highest frequency of the motion, Hz"
        )
    if not 0.0 < lowpass_hz < np.inf:
        raise ValueError(f"lowpass_hz is {lowpass_hz}, expected a positive frequency")
    measured = joint_side(robot, log)
    cutoff = Cutoff(min(lowpass_hz, HIGHEST * measured.sample_rate_hz), STATED.replace("in campaign.toml", "by hand"))
    settings = Processing(lowpass_hz=lowpass_hz, drop_ends=drop)
    try:
        if run.period_s is not None:
            return average_plan(run, cutoff, measured)
        measured = lowpassed(settings, cutoff, measured)
        return average_process(run, measured) if run.cycle_s is not None else one_pass(run, settings, measured)
    except ValueError as error:
        raise ExcitorError(f"{log.path}: cannot be processed: {error}") from None
