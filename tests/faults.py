"""Which campaigns are tried? Random runs of catalogue robots, emitted, simulated and logged as their targets log.

* Does a refusal name the fault that was put in? By a table of what people must be able to read in its first line.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.design.motion import Excitation, Run, periodic_run
from excitor.design.programs import registry
from excitor.design.programs.package import package, program_names_of
from excitor.design.programs.plan import Plan
from excitor.experiments.align.align import align
from excitor.experiments.log_formats import declared_for, format_of
from excitor.experiments.logs import planned_samples, read_plan
from excitor.experiments.manifest import LOGS, MANIFEST, PROGRAMS, ProgramLog, manifest_data
from excitor.experiments.virtual.loggers import settings_for, write
from excitor.experiments.virtual.machine import Fault, run_program
from excitor.experiments.virtual.robot import Settings, draw_truth
from excitor.identify.logs.declared import ColumnMap
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.robot import Robot
from tests.plans import Go, lines, with_swing

CELLS = (  # robot, target, log format
    ("tx40", "ros2", "ros2_csv"),
    ("iiwa", "franka", "franka"),
    ("kr150", "krl", "kuka_trace"),
    ("ur10", "twincat", "twincat_scope"),
    ("qrc350", "csv", "npz"),
    ("tx40", "val3", "csv"),
    ("iiwa", "ros2", "ros_mcap"),
    ("kr150", "krl-rsi", "rsi"),
    ("ur10", "rapid", "egm"),
    ("kr150", "urscript", "ur_rtde"),
    ("qrc350", "rapid-move", "abb_text"),
)
REACH = (0.3, 0.9)  # of each joint's range that it swings over, if it gets there
USED = 0.85  # of what joints can do, in speed, acceleration and torque
SHARE = 1.0 / 3.0  # of the campaigns have a run of moves, too


@dataclass(frozen=True, eq=False, slots=True)
class Campaign:
    """Runs of a robot that one controller makes and logs, and how the robot differs from its file."""

    seed: int
    robot: Robot
    target: str
    form: str
    plans: tuple[Plan, ...]
    settings: Settings

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"{self.robot.name}, {self.target} as {self.form}, seed {self.seed}"


def campaign(seed: int) -> Campaign:
    """Draw a campaign."""
    rng = np.random.default_rng([seed, 0x63])
    name, target, form = CELLS[rng.integers(len(CELLS))]
    robot = load(name)
    step = {"franka": 0.001, "krl-rsi": 0.004, "rapid": 0.004}.get(target, 0.008)
    plans = [series(robot, rng, step)]
    if rng.uniform() < SHARE:
        plans.insert(int(rng.integers(2)), poses(robot, rng, step, plans[0].home))
    return Campaign(seed, robot, target, form, tuple(plans), quirks(rng, target, form))


def quirks(rng: np.random.Generator, target: str, form: str) -> Settings:
    """Draw how a robot and its logger differ from what is known of them."""
    return Settings(
        friction=rng.uniform(0.05, 0.2),
        current_law=rng.uniform(0.0, 0.1),
        stribeck=rng.uniform(0.0, 0.2),
        warm=rng.uniform(0.0, 1.0),
        heating_time=rng.uniform(300.0, 1800.0),
        sensor_lag=rng.uniform(0.0, 0.004),
        command_lag=rng.uniform(0.002, 0.02),
        white=rng.uniform(0.005, 0.02),
        clock_drift=rng.uniform(-5e-5, 5e-5),
        dropped=0.0 if format_of(target, form).even or form == "csv" else rng.uniform(0.0, 0.001),
        standing=(0.5, 1.5),
    )


def series(robot: Robot, rng: np.random.Generator, step: float) -> Plan:
    """Draw a periodic run within the limits of the robot, as its file states them."""
    moving = np.ones(robot.n_joints, dtype=bool)
    period = float(rng.choice([4.0, 4.8, 6.0, 8.0]))
    harmonics = tuple(range(1, int(rng.integers(3, 6)) + 1))
    measured = max(3, round(14.0 / period))
    excitation = Excitation(
        period, step, harmonics, moving, ramp=2.0, settle=0.4, hold=0.4, warm_up=int(rng.integers(2)), measured=measured
    )
    body = _within(robot, rng, excitation)
    center = body.periodic.center
    home = center + rng.uniform(-0.1, 0.1, robot.n_joints)
    out = lines(robot.joint_names, step, home, (center, 1.6))
    return Plan("bench", "excitation", "identify", robot, out, body)


def poses(robot: Robot, rng: np.random.Generator, step: float, home: FloatArray) -> Plan:
    """Draw a run of poses that are held and measured, with ways between them that are not."""
    low, high = _range(robot)
    moves: list[Go] = []
    here = home
    for _ in range(8):
        there = np.clip(here + rng.uniform(-0.25, 0.25, robot.n_joints) * (high - low), low, high)
        moves += [_way(robot, here, there), (there, 1.2, 0.4, True)]
        here = there
    moves.append(_way(robot, here, home))
    names = robot.joint_names
    body = lines(names, step, home, *moves)
    return Plan("bench", "poses", "identify", robot, lines(names, step, home), body)


def log_campaign(folder: Path, drawn: Campaign, faults: tuple[Fault, ...] = ()) -> list[ProgramLog]:
    """Emit a campaign's programs, let the virtual robot run them, and write its logs, as the verbs do."""
    target = registry.target(drawn.target)
    made = package(registry.emitter(drawn.target), drawn.plans)
    programs, logs = folder / PROGRAMS / drawn.target, folder / LOGS / drawn.target
    programs.mkdir(parents=True)
    logs.mkdir(parents=True)
    (programs / MANIFEST).write_text(json.dumps(manifest_data(made, {})), "utf-8")
    form, truth = format_of(drawn.target, drawn.form), draw_truth(drawn.robot, drawn.seed, drawn.settings)
    found = []
    for k, (name, plan) in enumerate(zip(program_names_of(drawn.plans, target), drawn.plans, strict=True)):
        there = replace(truth, settings=settings_for(drawn.target, form, plan, truth.settings))
        recorded = run_program(there, plan, seed=1000 * drawn.seed + k, faults=faults)
        path = write(recorded, logs, name, target=drawn.target, format=form.name, seed=drawn.seed)[0]
        log = path.relative_to(folder).as_posix()
        found.append(ProgramLog(f"{drawn.target}/{name}", log, plan.role, plan.run))
    return found


def read_campaign(folder: Path, drawn: Campaign, logs: list[ProgramLog]) -> list[Samples]:
    """Read the logs as identification does: Misaligned where one of them does not show its program."""
    declared = ColumnMap.model_validate(declared_for(drawn.target, drawn.robot, drawn.form))
    found = []
    for log in logs:
        expected, measured, steps = read_plan(folder, log, drawn.robot, declared)
        alignment = align(expected, measured, drawn.robot)
        found.append(planned_samples(alignment, measured, steps, log=log))
    return found


def _within(robot: Robot, rng: np.random.Generator, excitation: Excitation) -> Run:
    """Draw a series and shrink it until joints keep to their ranges, speeds, accelerations and torques."""
    low, high = _range(robot)
    n, k = robot.n_joints, len(excitation.harmonics)
    center = low + rng.uniform(0.35, 0.65, n) * (high - low)
    sines, cosines = (excitation.moving[:, None] * rng.normal(size=(n, k)) for _ in range(2))
    drawn = periodic_run(excitation, center, sines, cosines, robot.joint_names)
    grid = excitation.grid(400)
    motion, span = drawn.periodic.motion(grid), rng.uniform(*REACH, n)
    room = span * np.minimum(high - center, center - low) / _most(motion.q - center)
    room = np.minimum(room, USED * robot.limits.velocity / _most(motion.dq))
    room = np.minimum(room, USED * robot.limits.acceleration / _most(motion.ddq))
    body = with_swing(drawn, room[:, None] * sines, room[:, None] * cosines)
    for _ in range(30):
        if (np.abs(inverse_dynamics(robot, body.periodic.motion(grid))) <= USED * robot.limits.torque).all():
            break
        body = body.scaled(0.9)
    return body


def _most(x: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(np.abs(x).max(axis=0), 1e-12))


def _range(robot: Robot) -> tuple[FloatArray, FloatArray]:
    """Take each joint's range, no wider than people let it be in a cell."""
    low, high = robot.limits.position.T
    return np.maximum(low, -2.2), np.minimum(high, 2.2)


def _way(robot: Robot, here: FloatArray, there: FloatArray) -> Go:
    """Go from pose to pose at no more than half the speed that joints can have, in whole controller steps."""
    slowest = float((np.abs(there - here) / (0.3 * robot.limits.velocity)).max())
    duration = max(1.2, 0.04 * np.ceil((slowest + 0.4) / 0.04))
    return there, duration, 0.4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the first line of a refusal must say of a fault, besides the joints that it is in."""

    words: str  # a pattern
    channels: Mapping[str, str] | None = None  # what it must say of each kind of signal that may be wrong
    joints: bool = True  # whether one line must name all joints that the fault is in


_SIGNALS = {"torque": "torque", "position": "position"}
WANTED: Mapping[str, Wanted] = {
    "swapped-axes": Wanted(r"exchanged|swapped", {"torque": "torque", "all": "position"}),
    "degrees": Wanted(r"in degrees", joints=False),
    "flipped-sign": Wanted(r"sign is reversed|wrong sign", _SIGNALS),
    "missing-gear": Wanted(r"gear ratio", _SIGNALS),
    "half-speed": Wanted(r"speed (slider|scaling).* 50(\.0+)? %", joints=False),
    "dropped-samples": Wanted(r"\b(samples|rows)\b.*\bmissing\b|\bs are missing\b", joints=False),
    "stuck-joint": Wanted(r"\bis stuck\b"),
    "saturated-current": Wanted(r"drive is saturated"),
    "wrong-payload": Wanted(r"torques indicate .* kg at the flange", joints=False),
}


def named(fault: Fault, joints: Sequence[str], refusal: str) -> bool:
    """Tell whether the first line of a refusal names a fault, the kind of signal, and every joint it is in."""
    wanted, first = WANTED[fault.name], refusal.partition("\n")[0]
    words = [wanted.words]
    if wanted.channels:
        words.append(rf"\b{wanted.channels[fault.channel]}s?\b")
    if wanted.joints:
        words += [rf"(?<!\w){re.escape(joints[j])}(?!\w)" for j in fault.joints]
    return all(re.search(word, first) for word in words)
