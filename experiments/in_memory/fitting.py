"""Logs, samples and models in memory: read a log, process it, fit, validate, compare; plug-ins of one's own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from excitor.design.constraints.constraint import ConstraintKind
from excitor.design.constraints.registry import CONSTRAINTS
from excitor.experiments import identification, logs
from excitor.experiments.align.align import align
from excitor.experiments.campaign import Campaign, Identification, Processing, in_memory
from excitor.experiments.campaign import Run as RunOfLog
from excitor.experiments.compare import Comparison, compare_prepared
from excitor.experiments.export.export import FORMATS, Export
from excitor.experiments.in_memory.solution import Run, manifest_of, program_name
from excitor.experiments.manifest import ProgramLog, expected_of
from excitor.experiments.model import Model
from excitor.experiments.report.page import SECTIONS, Section
from excitor.identify import validate as _validating
from excitor.identify.band import HIGHEST, choose_band
from excitor.identify.diagnose import usable
from excitor.identify.log import Log, MeasuredSignals, joint_side
from excitor.identify.logs.declared import ColumnMap, column_map
from excitor.identify.logs.formats import FORMATS as LOG_FORMATS
from excitor.identify.logs.opened import LogFormat
from excitor.identify.logs.read import read_log as _read_log
from excitor.identify.methods import METHODS, Method
from excitor.identify.samples import Samples
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.friction import TABLE, FrictionLaw, forget_friction, register_friction
from excitor.robots.plugins import Members
from excitor.robots.robot import Robot

LEARNED = "wls"
ENDS = 50  # samples left out at both ends of a run, where filters settle


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
        format: a name that `excitor.log_formats()` lists; by default it is found by the file's content.

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
        declared = logs.declared_by(target, robot)
    elif columns is not None:
        declared = column_map(columns, sample_rate_hz, str(path))
    else:
        declared = ColumnMap(signals=[], sample_rate_hz=sample_rate_hz)
    if format is not None:
        declared = declared.model_copy(update={"format": format})
    return replace(_read_log(Path(path), declared, names), target=target or "")


def samples(
    log: Log,
    robot: Robot,
    run: Run | None = None,
    *,
    period: float | None = None,
    lowpass_hz: float | None = None,
    name: str | None = None,
) -> Samples:
    """Bring a log to the joints and process it: aligned, filtered, averaged, differentiated.

    Args:
        log: as `read_log`, `Log.from_frame` or `Log.from_arrays` gives it.
        robot: whose drives lead from motors to joints.
        run: that the log is of; the log is aligned with it, and its measured periods are averaged.
        period: s, of a periodic motion without a `run`: whole periods are averaged.
        lowpass_hz: cut-off of the positions; by default that of the `run`'s plan, else the one that predicts the
            torques of held-out blocks best.
        name: of the samples.

    Misaligned says where a log does not show its run.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> t = np.arange(1000)[:, None] / 100
    >>> q = np.sin(t + np.arange(3))
    >>> tau = ex.inverse_dynamics(robot, ex.Motion(q, np.cos(t + np.arange(3)), -q))
    >>> len(ex.samples(ex.Log.from_arrays(q, tau, sample_rate_hz=100), robot, lowpass_hz=20))
    900
    """
    if run is not None and period is not None:
        raise ValueError("run and period are ways to average; give one of them")
    found = _plain(log, robot, lowpass_hz, period) if run is None else _aligned(log, robot, run, lowpass_hz)
    return replace(found, robot=robot, run=name or found.run)


def _aligned(log: Log, robot: Robot, run: Run, lowpass_hz: float | None) -> Samples:
    target = log.target or "csv"
    manifest, program = manifest_of(run, target), program_name(run, target)
    measured, steps = logs.measured_run(log, manifest, robot)
    alignment = align(expected_of(manifest, program), measured, robot)
    of_program = ProgramLog(f"{target}/{program}", log.path, run.plan.role, run.plan.run)
    return logs.planned_samples(alignment, measured, steps, log=of_program, lowpass_hz=lowpass_hz)


def _plain(log: Log, robot: Robot, lowpass_hz: float | None, period: float | None) -> Samples:
    measured = joint_side(robot, log)
    rate = measured.sample_rate_hz
    if lowpass_hz is None:
        cutoff = _chosen(robot, measured, period)
    elif 0.0 < lowpass_hz < np.inf:
        cutoff = logs.Cutoff(min(lowpass_hz, HIGHEST * rate), logs.STATED.replace("in campaign.toml", "by hand"))
    else:
        raise ValueError(f"lowpass_hz is {lowpass_hz}, expected a frequency in Hz, about 10 times the motion's highest")
    run = RunOfLog(name=Path(log.path).name[:80] or "log", log=log.path, period_s=period)
    settings = Processing(lowpass_hz=cutoff.hz, drop_ends=ENDS)
    try:
        if period is not None:
            return logs.average_plan(run, cutoff, measured)
        return logs.one_pass(run, settings, logs.lowpassed(settings, cutoff, replace(measured, dq=None)))
    except ValueError as error:
        raise ExcitorError(f"{log.path}: cannot be processed: {error}") from None


def _chosen(robot: Robot, measured: MeasuredSignals, period: float | None) -> logs.Cutoff:
    """Choose the band of a log without a plan by its torques."""
    run = RunOfLog(name="log", log="log", period_s=period)
    band = choose_band(robot, [logs.raw_run(run, replace(measured, dq=None))])
    if band is None:
        raise ValueError(
            "lowpass_hz is missing, and the log is too short or too still to choose it by; state about 10 times the "
            "highest frequency of the motion, Hz"
        )
    return logs.Cutoff(band.hz, band.sentence)


def fit(
    samples: Samples | Sequence[Samples],
    robot: Robot | None = None,
    *,
    method: str = LEARNED,
    consistent: bool = True,
    unseen: Samples | Sequence[Samples] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Model:
    """Fit a model: base parameters with 95 % intervals, and physically consistent parameters.

    Args:
        samples: of one run or several, of different names.
        robot: by default the one that the samples were processed for, with the form of friction that they show; one
            that is given keeps its friction.
        method: "wls" or another name that `excitor.estimators()` lists, registered ones included.
        consistent: whether parameters that bodies can have are fitted, too.
        unseen: samples to validate on.
        tell: called with each sentence about progress.

    UnusableData says why no honest model can be made of the data.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> t = np.arange(0, 20, 0.01)[:, None]
    >>> w = np.array([0.9, 1.7, 2.6])
    >>> q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    >>> tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + 0.05 * np.random.default_rng(0).normal(size=q.shape)
    >>> model = ex.fit(ex.Samples("run", ex.Motion(q, dq, ddq), tau, 100.0, robot=robot), consistent=False)
    >>> model.error < 0.05
    True
    """
    training, others = _listed(samples), _listed(unseen)
    content = Identification(method=method, consistent=consistent, friction=_friction(robot))
    return identification.fit_examined(_examined(_robot(training, robot), training, others, content, tell), tell).model


def validate(model: Model, unseen: Samples | Sequence[Samples]) -> _validating.Validation:
    """Compare a model's torques with those of samples that it was not fitted to, beside the baselines.

    Args:
        model: as `fit` or `load_model` gives it.
        unseen: samples of other runs.

    The result has `model.relative_total`, errors by joint, and `baselines`: zero, gravity only, prior model.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> def run(name, w):
    ...     t, rng = np.arange(0, 20, 0.01)[:, None], np.random.default_rng(0)
    ...     q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    ...     tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + 0.05 * rng.normal(size=q.shape)
    ...     return ex.Samples(name, ex.Motion(q, dq, ddq), tau, 100.0, robot=robot)
    >>> model = ex.fit(run("one", np.array([0.9, 1.7, 2.6])), consistent=False)
    >>> ex.validate(model, run("two", np.array([1.1, 1.4, 2.1]))).model.relative_total < 0.05
    True
    """
    runs, robot = _listed(unseen), model.own_robot()
    regression = identification.judging_equations(in_memory(robot, Campaign(robot=robot.name, run=[], locked=[])), runs)
    own = model.delivered
    baselines = _validating.set_baselines(robot, runs, chi=own.chi, regression=regression)
    return _validating.validate(regression, own, baselines=baselines, trained_on=model.trained_on)


def compare(
    samples: Samples | Sequence[Samples],
    robot: Robot | None = None,
    *,
    methods: Sequence[str] = (),
    unseen: Samples | Sequence[Samples] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit with several estimators and judge each on what none has seen.

    Args:
        samples: of one run or several, of different names.
        robot: by default the one that the samples were processed for, with the form of friction that they show; one
            that is given keeps its friction.
        methods: names; none: all that answer fast.
        unseen: samples to judge on; without them the last third of each run is kept back.
        tell: called with each sentence about progress.

    >>> import numpy as np, excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> t, w = np.arange(0, 20, 0.01)[:, None], np.array([0.9, 1.7, 2.6])
    >>> q, dq, ddq = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    >>> tau = ex.inverse_dynamics(robot, ex.Motion(q, dq, ddq)) + 0.05 * np.random.default_rng(0).normal(size=q.shape)
    >>> samples = ex.Samples("run", ex.Motion(q, dq, ddq), tau, 100.0, robot=robot)
    >>> sorted(ex.compare(samples, methods=["ols", "wls"]).errors)
    ['ols', 'wls']
    """
    training, others = _listed(samples), _listed(unseen)
    content = Identification(method=LEARNED, friction=_friction(robot))
    examined = _examined(_robot(training, robot), training, others, content, tell)
    prepared = identification.prepare_examined(examined, tell)
    return compare_prepared(prepared, methods, tell)


def estimators() -> tuple[str, ...]:
    """Name all estimators: built-in, registered and of installed packages.

    >>> import excitor as ex
    >>> "wls" in ex.estimators()
    True
    """
    return tuple(METHODS)


def log_formats() -> tuple[str, ...]:
    """Name all log formats: built-in, registered and of installed packages.

    >>> import excitor as ex
    >>> "csv" in ex.log_formats()
    True
    """
    return tuple(LOG_FORMATS)


def _registries() -> dict[type, Members[Any]]:
    """Map each type that can be registered to its members."""
    return {Method: METHODS, Export: FORMATS, LogFormat: LOG_FORMATS, ConstraintKind: CONSTRAINTS, Section: SECTIONS}


def register(member: Method | Export | FrictionLaw | LogFormat | ConstraintKind | Section) -> None:
    """Make an estimator, an export, a friction law, a log format, a kind of constraint or a report section known.

    Args:
        member: a Method (see `estimator`), an Export, a FrictionLaw, a LogFormat, a ConstraintKind or a Section.

    It is known by its name in this process. It must pass its conformance suite; a built-in name is refused.
    An installed package brings members without this call: by entry points of the groups excitor.estimators,
    excitor.exports, excitor.friction, excitor.log_formats, excitor.constraints and excitor.report_sections.

    >>> import numpy as np, excitor as ex
    >>> ex.register(ex.estimator("lstsq", "Plain least squares.", lambda W, y: np.linalg.lstsq(W, y)[0]))
    >>> "lstsq" in ex.estimators()
    True
    >>> ex.unregister("lstsq")
    """
    members = _registries().get(type(member))
    if isinstance(member, FrictionLaw):
        register_friction(member)
    elif members is not None:
        members.add(member.name, member)
    else:
        kinds = ", ".join(["FrictionLaw", *(kind.__name__ for kind in _registries())])
        raise ValueError(f"{type(member).__name__} cannot be registered; expected one of {kinds}")


def unregister(name: str) -> None:
    """Forget a registered estimator, export, friction law, log format, kind of constraint or report section.

    Args:
        name: as it was registered; an unknown one is ignored.

    >>> import excitor as ex
    >>> ex.unregister("no-such-estimator")
    """
    for members in _registries().values():
        members.remove(name)
    if any(row.element == name and row.compiled is None for row in TABLE.values()):
        forget_friction(name)


def _friction(robot: Robot | None) -> Literal["chosen", "as stated"]:
    return "chosen" if robot is None else "as stated"


def _examined(
    robot: Robot, training: list[Samples], unseen: list[Samples], settings: Identification, tell: Callable[[str], None]
) -> identification.UsableRuns:
    if settings.method not in METHODS:
        known = choice(settings.method, METHODS)
        raise ExcitorError(f"no estimator is called {settings.method!r}; expected one of {known}")
    names = [run.run for run in (*training, *unseen)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two runs are named {twice[0]!r}; name samples differently: samples(log, robot, name=...)")
    runs = [RunOfLog(name=run.run[:80], log="memory", role="identify") for run in training]
    runs += [RunOfLog(name=run.run[:80], log="memory", role="validate") for run in unseen]
    content = Campaign(robot=robot.name, run=runs, locked=[], identify=settings)
    again, samples = identification.repeated_motions(unseen, training), {run.run: run for run in (*training, *unseen)}
    unseen = [run for run in unseen if run.run not in again]
    runs_read = identification.Runs(in_memory(robot, content), samples, {}, training, unseen, again)
    runs_read = identification.with_friction_form(runs_read, tell)
    findings = identification.examine_all(runs_read)
    if not usable(findings):
        raise identification.UnusableData(findings)
    findings = (*findings, *identification.noise_findings(runs_read))
    return identification.UsableRuns(runs_read.campaign, samples, {}, training, unseen, again, findings)


def _listed(samples: Samples | Sequence[Samples]) -> list[Samples]:
    runs = [samples] if isinstance(samples, Samples) else list(samples)
    for run in runs:
        if not isinstance(run, Samples):
            raise ValueError(f"samples are {type(run).__name__}, expected Samples as `excitor.samples` gives them")
    return runs


def _robot(runs: list[Samples], robot: Robot | None) -> Robot:
    if not runs:
        raise ValueError("samples are empty; give at least one run")
    found = robot if robot is not None else runs[0].robot
    if found is None:
        raise ValueError("no robot is given, and the samples name none; give robot=load_robot(...)")
    return found
