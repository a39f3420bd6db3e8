"""Solve a design problem in memory, write and verify the programs of its run, and simulate it."""

import json
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from excitor.design.certify import certify as _certify
from excitor.design.certify.certify import Certificate
from excitor.design.forecast import Forecast, PlannedRun
from excitor.design.forecast import forecast as _forecast
from excitor.design.motion import Run as Motions
from excitor.design.motion import line_run
from excitor.design.programs import registry
from excitor.design.programs.package import Package, Program, program_names_of
from excitor.design.programs.plan import Plan, Stretches
from excitor.experiments import emit as emission
from excitor.experiments.in_memory.problem import Problem
from excitor.experiments.log_formats import refusal
from excitor.experiments.manifest import Manifest, manifest_data, parse_manifest
from excitor.experiments.model import new_axes
from excitor.experiments.plan import FORECAST_SAMPLES, CampaignDesign, Choice, SearchedRun, design_alone, torque_model
from excitor.experiments.setup import Overrides, settings_of
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.executor import Workers, open_executor
from excitor.robots.robot import Robot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


OVERRIDES = (emission.NO_GO, emission.UNKNOWN_LIMITS, "approximate", "motion-only")
LOSS = 0.05  # share by which the condition number may grow in execution


@dataclass(frozen=True, eq=False)
class Run:
    """A motion from home through a series and back, and the dry run at small amplitude that comes before it."""

    # The dry run, then the run, each with what its execution is held against.
    programs: tuple[emission.CheckedPlan, ...]

    @property
    def plan(self) -> Plan:
        """The run at full amplitude."""
        return self.programs[-1].plan

    @property
    def robot(self) -> Robot:
        """The robot that the run was designed for."""
        return self.plan.robot

    @property
    def duration(self) -> float:
        """How long the run takes, s, the ways from home and back included."""
        return sum(self.plan.stretch(stretch).duration for stretch in Stretches)

    def at(self, t: FloatArray, order: int = 0) -> FloatArray:
        """Evaluate positions, or their `order`-th derivatives, (n_t, n_joints), t in s from the series' start."""
        return self.plan.body.at(np.atleast_1d(np.asarray(t, dtype=float)), order)

    def to_frame(self, step: float = 0.01) -> "DataFrame":
        """Tabulate the series as a pandas DataFrame: time, then position, velocity and acceleration of each joint."""
        import pandas as pd

        t = np.arange(0.0, self.plan.body.duration, step)
        held = {"time": t}
        for name, order in (("q", 0), ("dq", 1), ("ddq", 2)):
            held |= {f"{name}_{j + 1}": x for j, x in enumerate(self.at(t, order).T)}
        return pd.DataFrame(held)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw joint positions over time; degrees, or mm of sliding joints."""
        axes = new_axes() if ax is None else ax
        t = np.linspace(0.0, self.plan.body.duration, 1000)
        q, slides = self.at(t), self.robot.mechanism.prismatic
        for j, name in enumerate(self.robot.joint_names):
            axes.plot(t, q[:, j] * (1e3 if slides[j] else 180.0 / np.pi), label=name)
        axes.set_xlabel("time, s")
        axes.set_ylabel("position, mm" if slides.all() else "position, degrees" + (" or mm" if slides.any() else ""))
        axes.legend()
        return axes

    def __repr__(self) -> str:
        return f"<Run {self.plan.run!r} of {self.robot.name}: {self.duration:.1f} s>"


@dataclass(frozen=True, eq=False)
class Design:
    """A solved design problem."""

    designed: CampaignDesign
    run: Run

    @property
    def certificate(self) -> Certificate:
        """What is proven of the run: a line for each limit."""
        return self._run.certificate

    @property
    def forecast(self) -> Forecast:
        """What identification will learn from the run, before the robot moves."""
        return self.designed.forecast

    @property
    def condition(self) -> float:
        """Condition number of the column-normalised base regressor, by SVD."""
        return self._run.condition

    @property
    def family(self) -> tuple[Choice, ...]:
        """Distinct best motions, best first: condition, duration, torque, clearance of each; see `solve(pick=)`."""
        return self._run.family

    @property
    def go(self) -> bool:
        """Whether every limit is proven to hold and the run will teach enough."""
        return self.designed.go

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the design is a no-go, in sentences; empty where it is a go."""
        return self.designed.reasons

    @property
    def _run(self) -> SearchedRun:
        return self.designed.searched[0]

    def to_frame(self) -> "DataFrame":
        """Write the certificate as a pandas DataFrame: limit, unit, allowed, worst, margin, holds."""
        import pandas as pd

        keys = ("name", "unit", "limit", "worst", "margin", "holds", "where")
        return pd.DataFrame([{key: getattr(item, key) for key in keys} for item in self.certificate.items])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw joint positions over time."""
        return self.run.plot(ax)

    def __repr__(self) -> str:
        holding = sum(item.holds for item in self.certificate.items)
        verdict = "go" if self.go else "no-go"
        return (
            f"<Design of {self.run.robot.name}: condition {self.condition:.4g}, {holding} of "
            f"{len(self.certificate.items)} limits proven, {self.run.duration:.1f} s, {verdict}>"
        )


def solve(
    problem: Problem,
    seconds: float | None = None,
    seed: int = 0,
    *,
    evaluations: int | None = None,
    pick: int | None = None,
    **who: Unpack[Workers],
) -> Design:
    """Search the motion of a problem, certify it and forecast what it will teach.

    Args:
        problem: as `build_problem` gives it.
        seconds: budget, CPU seconds.
        seed: of everything random.
        evaluations: budget in evaluations instead: the same numbers on every machine.
        pick: which of the design's `family`; the best that can be certified without.
        who: `workers=` local processes that search, or `cluster=`, a dask scheduler's address or a dask client.

    InfeasibleDesign says what blocks where no motion fits.

    >>> import excitor as ex
    >>> problem = ex.build_problem(ex.load_robot("rotradi"), ex.Series(period=5, harmonics=3))
    >>> design = ex.solve(problem, evaluations=300)
    >>> design.certificate.ready
    True
    """
    if seconds is not None and evaluations is not None:
        raise ValueError("seconds and evaluations are both given; a budget is one of them")
    settings = settings_of(problem.setup.design, Overrides(seed, evaluations, seconds, pick=pick))
    with open_executor(**who) as executor:
        for note in executor.notes:
            warnings.warn(note, stacklevel=2)
        settings = replace(settings, executor=executor)
        designed = design_alone(problem.setup, settings, problem.plan, problem.search)
    found = designed.searched[0]
    return Design(designed, run_of(problem, found.run, found.certificate, designed.reasons))


def run_of(problem: Problem, body: Motions, certificate: Certificate, no_go: tuple[str, ...]) -> Run:
    """Lay a series out as a run, on the way from home that its certificate proves."""
    way = certificate.way
    if way is None:
        home = problem.setup.constraints.home
        pose = body.periodic.center if home is None else home
        way = line_run(body.joints, body.sample_time, pose[None], ())
    made = emission.periodic_programs(problem.setup, problem.plan, body, way)
    return Run(
        tuple(
            replace(
                one,
                plan=replace(one.plan, no_go=no_go),
                judge=one.judge if one.plan.dry else replace(one.judge, loss=LOSS),
            )
            for one in made
        )
    )


def certify(run: Run, problem: Problem) -> Certificate:
    """Prove whether a run keeps a problem's constraints, between the samples too.

    Args:
        run: as `solve` gives it, perhaps of another problem.
        problem: whose robot and constraints count.

    >>> import excitor as ex
    >>> problem = ex.build_problem(ex.load_robot("rotradi"), ex.Series(period=5, harmonics=3))
    >>> run = ex.solve(problem, evaluations=300).run
    >>> ex.certify(run, problem).ready
    True
    """
    return _certify.certify(
        problem.robot, run.plan.body, problem.setup.constraints, torque_model=torque_model(problem.robot)
    )


def forecast(runs: Run | Sequence[Run], problem: Problem) -> Forecast:
    """Forecast what identification will learn from runs: expected standard deviations, torque errors, checks.

    Args:
        runs: one or several.
        problem: whose robot and noise count.

    >>> import excitor as ex
    >>> problem = ex.build_problem(ex.load_robot("rotradi"), ex.Series(period=5, harmonics=3))
    >>> run = ex.solve(problem, evaluations=300).run
    >>> len(ex.forecast([run, run], problem).parameters) > 0
    True
    """
    planned_runs = []
    for run in [runs] if isinstance(runs, Run) else runs:
        series = run.plan.body.periodic
        motion = series.motion(series.grid(FORECAST_SAMPLES))
        planned_runs.append(PlannedRun(run.plan.run, motion, series.period, series.periods))
    setup = problem.setup
    return _forecast(
        problem.robot, planned_runs, setup.noise, target=setup.design.target_relative_sigma_percent / 100.0
    )


def emit(
    run: Run | Sequence[Run],
    robot: Robot,
    target: str,
    folder: str | PathLike[str],
    *,
    spacing: float | None = None,
    allow: Collection[str] = (),
) -> Path:
    """Write the programs of runs for a controller, with first runs at reduced speed and dry runs; return its folder.

    Args:
        run: one or several, as `Design.run` gives them.
        robot: that they were designed for.
        target: controller: "urscript", "rapid", "twincat", "franka", "ros2", "krl", "krl-rsi", "fanuc-j519", "csv";
            with allow={"approximate"} also "rapid-move", "val3", "fanuc".
        folder: where the target's folder goes; an earlier one of the same target is replaced.
        spacing: between points of a table, s.
        allow: "no-go": the programs of a no-go design, which then say so; "approximate": controllers that keep times
            only roughly; "motion-only": controllers whose logs can become no model of this robot; "unknown-limits":
            joints whose acceleration limit nobody states.

    Every program is executed on a virtual clock first; one that does not do what was planned, or does not refuse what
    it must, is not written: ExcitorError says what is wrong.

    >>> import excitor as ex, tempfile
    >>> robot = ex.load_robot("rotradi")
    >>> design = ex.solve(ex.build_problem(robot, ex.Series(5, 3)), evaluations=300)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ex.emit(design.run, robot, "csv", folder, allow={"no-go"}).name
    'csv'
    """
    runs = runs_of(run, robot)
    emission.chosen([target], "approximate" in allow)
    if unknown := [name for name in allow if name not in OVERRIDES]:
        raise ExcitorError(
            f"allow: {unknown[0]!r} is no refusal that can be overridden; expected some of {', '.join(OVERRIDES)}"
        )
    reasons = list(dict.fromkeys(reason for one in runs for reason in one.plan.no_go))
    if reasons and emission.NO_GO not in allow:
        raise ExcitorError(f"the design is a no-go, so no program of it is written: {'; '.join(reasons)}")
    if "motion-only" not in allow and (useless := refusal(target, robot)):
        raise ExcitorError(f"{useless}; or say allow={{'motion-only'}}, if the motion is all that is wanted")
    programs = list(emission.described(emission.with_first_runs(one.programs for one in runs)))
    if emission.UNKNOWN_LIMITS not in allow and (why := emission.unlimited(target, programs)):
        raise ExcitorError(why)
    made, verified = emission.checked_package(target, programs, spacing, lambda _: None)
    if not verified.good:
        problems = [*verified.problems, *(f"{v.program}: {text}" for v in verified.verdicts for text in v.problems)]
        raise ExcitorError(f"{target}: not written, because its own check fails: {'; '.join(problems)}")
    return emission.write_package(made, Path(folder), {})


def verify(folder: str | PathLike[str], run: Run | Sequence[Run]) -> emission.Verification:
    """Execute the programs in a target's folder on a virtual clock against the runs they were written for.

    Args:
        folder: of one target, as `emit` returns it.
        run: those that were emitted, in the same order.

    The result has `good`, and `verdicts` with the problems of each program.

    >>> import excitor as ex, tempfile
    >>> robot = ex.load_robot("rotradi")
    >>> design = ex.solve(ex.build_problem(robot, ex.Series(5, 3)), evaluations=300)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ex.verify(ex.emit(design.run, robot, "csv", folder, allow={"no-go"}), design.run).good
    True
    """
    path = Path(folder)
    if not path.is_dir():
        raise ExcitorError(f"{path}: is no folder of programs; give the folder of a target, such as programs/urscript")
    runs = [run] if isinstance(run, Run) else list(run)
    return emission.verify_target(path, emission.with_first_runs(one.programs for one in runs), lambda _: None)


def manifest_of(run: Run, target: str) -> Manifest:
    """Describe a run as manifest.json would: what reads its log aligns it by that."""
    plan = run.plan
    made = Package(registry.target(target), (Program(program_name(run, target), plan, {}),), {}, None)
    return parse_manifest(json.dumps(manifest_data(made, {}) | {"files": []}))


def program_name(run: Run, target: str) -> str:
    """Name the program of a run on a controller."""
    return program_names_of([run.plan], registry.target(target))[0]


def runs_of(run: Run | Sequence[Run], robot: Robot) -> list[Run]:
    """List runs; ValueError where there is none, or one of another robot."""
    runs = [run] if isinstance(run, Run) else list(run)
    if not runs:
        raise ValueError("run is empty; give at least one run")
    for one in runs:
        if not isinstance(one, Run):
            raise ValueError(f"run is {type(one).__name__}, expected a Run, such as solve(problem).run")
        if one.robot.joint_names != robot.joint_names or one.robot.name != robot.name:
            raise ValueError(f"run {one.plan.run!r} was designed for {one.robot.name}, not for {robot.name}")
    return runs
