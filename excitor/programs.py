"""Programs of runs in memory: written when their own execution passes, verified, run on a virtual robot."""

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from excitor.design.programs import registry
from excitor.design.programs.package import Package, Program, manifest_data, program_names_of
from excitor.experiments.emit import (
    NO_GO,
    Verified,
    checked_package,
    chosen,
    verify_target,
    write_package,
)
from excitor.experiments.logs import declared_by
from excitor.experiments.manifest import Manifest, parse_manifest
from excitor.experiments.simulate import aim, fault_of
from excitor.experiments.virtual.loggers import format_of, refusal, settings_for, write
from excitor.experiments.virtual.machine import run_program
from excitor.experiments.virtual.robot import draw_truth
from excitor.identify.log import Log
from excitor.identify.logs.read import read_log as _read_log
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot
from excitor.solution import Run


def emit(
    run: Run | Sequence[Run],
    robot: Robot,
    target: str,
    folder: str | PathLike[str],
    *,
    spacing: float | None = None,
    approximate: bool = False,
    motion_only: bool = False,
    allow: Collection[str] = (),
) -> Path:
    """Write the programs of runs for a controller, dry runs included; the folder of the target is returned.

    Args:
        run: one or several, as `Design.run` gives them.
        robot: that they were designed for.
        target: controller: "urscript", "rapid", "twincat", "franka", "ros2", "krl", "krl-rsi", "fanuc-j519", "csv";
            with `approximate` also "rapid-move", "val3", "fanuc".
        folder: where the target's folder goes; an earlier one of the same target is replaced.
        spacing: between points of a table, s.
        approximate: allow controllers that keep times only roughly.
        motion_only: allow controllers whose logs can become no model of this robot.
        allow: {"no-go"} to write the programs of a no-go design, which then say so.

    Every program is executed on a virtual clock first; one that does not do what was planned, or does not refuse what
    it must, is not written: ExcitorError says what is wrong.

    >>> import excitor as ex, tempfile
    >>> robot = ex.load_robot("rotradi")
    >>> design = ex.solve(ex.build_problem(robot, ex.Series(5, 3)), evaluations=300)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ex.emit(design.run, robot, "csv", folder, allow={"no-go"}).name
    'csv'
    """
    runs = _runs(run, robot)
    chosen([target], approximate)
    if unknown := [name for name in allow if name != NO_GO]:
        raise ExcitorError(f"allow: {unknown[0]!r} is no refusal that can be overridden; expected {NO_GO!r}")
    reasons = list(dict.fromkeys(reason for one in runs for reason in one.plan.no_go))
    if reasons and NO_GO not in allow:
        raise ExcitorError(f"the design is a no-go, so no program of it is written: {'; '.join(reasons)}")
    if not motion_only and (useless := refusal(target, robot)):
        raise ExcitorError(f"{useless}; or say motion_only=True, if the motion is all that is wanted")
    programs = [one for each in runs for one in each.programs]
    made, verified = checked_package(target, programs, spacing, lambda _: None)
    if not verified.good:
        raise ExcitorError(f"{target}: not written, because its own check fails: {'; '.join(_problems(verified))}")
    return write_package(made, Path(folder), {})


def verify(folder: str | PathLike[str], run: Run | Sequence[Run]) -> Verified:
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
    programs = [one for each in runs for one in each.programs]
    return verify_target(path, programs, lambda _: None)


def simulate(
    run: Run, robot: Robot, *, seed: int = 0, target: str = "csv", faults: Sequence[str] = (), dry: bool = False
) -> Log:
    """Run a program on a virtual robot, whose true parameters differ from the prior's, and give the log it records.

    Args:
        run: as `Design.run` gives it.
        robot: that it was designed for.
        seed: of the true robot and of noise.
        target: whose logger records, see `emit`.
        faults: what is wrong on purpose: "NAME" or "NAME:joint"; an unknown one is answered with the list of all.
        dry: the dry run instead of the run.

    >>> import excitor as ex
    >>> robot = ex.load_robot("rotradi")
    >>> run = ex.solve(ex.build_problem(robot, ex.Series(5, 3, measured=2)), evaluations=300).run
    >>> ex.simulate(run, robot, seed=1).signals[0].kind
    'position'
    """
    (one,) = _runs(run, robot)
    plan = one.programs[0 if dry else -1].plan
    name = program_name(one, target)
    form = format_of(target)
    truth = draw_truth(plan.robot, seed)
    truth = replace(truth, settings=settings_for(target, form, plan, truth.settings))
    own_seed = int(np.random.SeedSequence([seed, zlib.crc32(f"{target}/{name}".encode())]).generate_state(1)[0])
    wrong = [aim(fault_of(text, plan.robot), [plan], seed) for text in faults]
    recorded = run_program(truth, plan, seed=own_seed, faults=wrong)
    with TemporaryDirectory() as folder:
        path = write(recorded, Path(folder), name, target=target, seed=seed)[0]
        log = _read_log(path, declared_by(target, plan.robot), plan.robot.joint_names)
    return replace(log, path=f"simulated {name}")


def manifest_of(run: Run, target: str) -> Manifest:
    """Describe a run as manifest.json would: what reads its log aligns it by that."""
    plan = run.plan
    made = Package(registry.target(target), (Program(program_name(run, target), plan, {}),), {}, None)
    return parse_manifest(json.dumps(manifest_data(made, {}) | {"files": []}))


def program_name(run: Run, target: str) -> str:
    """Name the program of a run on a controller."""
    return program_names_of([run.plan], registry.target(target))[0]


def _runs(run: Run | Sequence[Run], robot: Robot) -> list[Run]:
    runs = [run] if isinstance(run, Run) else list(run)
    if not runs:
        raise ValueError("run is empty; give at least one run")
    for one in runs:
        if not isinstance(one, Run):
            raise ValueError(f"run is {type(one).__name__}, expected a Run, such as solve(problem).run")
        if one.robot.joint_names != robot.joint_names or one.robot.name != robot.name:
            raise ValueError(f"run {one.plan.run!r} was designed for {one.robot.name}, not for {robot.name}")
    return runs


def _problems(verified: Verified) -> list[str]:
    return [*verified.problems, *(f"{v.program}: {text}" for v in verified.verdicts for text in v.problems)]
