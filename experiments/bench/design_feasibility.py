"""Whether every seed ends in a certified design, and whether what is certified holds when it is looked at again.

Two robots in three cells each. What a certificate promises is evaluated on a grid ten times finer than the search's
over the whole execution (rests, ramps, the dry run, the ways from home and back), then with pinocchio's kinematics.
Then a cell in which nothing fits: how long until the report says so.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from excitor.design.approach import backwards, path_motion
from excitor.design.certify.certificate import failing
from excitor.design.certify.certify import DRY_RUN
from excitor.design.explain import InfeasibleDesign, sentences
from excitor.design.motion import executed, scaled
from excitor.design.search import Budget
from excitor.experiments.bench.pinocchio_cell import PinocchioCell
from excitor.experiments.campaign import FILE, open_campaign
from excitor.experiments.figures import Figure
from excitor.experiments.plan import DesignedRun, design_run, planned_runs
from excitor.experiments.setup import DEFAULT_EVALUATIONS, Settings, Setup, set_up
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import clearances, required, tool_speeds
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import Motion, Robot

ROBOTS = ("tx40", "iiwa")
CELLS = ("open", "box", "narrow")
SECONDS = 5.0  # CPU time of each search
FINER = 10  # than the search's grid
TOLERANCE = 1e-9

_HOME = {"tx40": "[0, 0, 90, 0, 45, 0]", "iiwa": "[0, 30, 0, -90, 0, 60, 0]"}
_CAMPAIGN = """
robot = "{robot}"
home_deg = {home}
[design]
schedule = "single"
warm_up_periods = 0
measured_periods = 1
[cell]
tool_radius_m = 0.04
{zones}
"""
_ZONE = '[[cell.zone]]\nname = "{name}"\nkeep = "{keep}"\nbodies = "{bodies}"\n{shape}\n'
_ZONES = {
    ("tx40", "box"): [
        ("cell", "in", "all", 'shape = "box"\nlow = [-0.65, -0.6, 0.0]\nhigh = [0.65, 0.6, 1.0]'),
        ("table", "out", "all", 'shape = "box"\nlow = [0.25, -0.4, -0.1]\nhigh = [0.8, 0.4, 0.15]'),
        ("wall", "out", "all", 'shape = "half-space"\npoint = [-0.4, 0, 0]\nnormal = [1, 0, 0]'),
    ],
    ("iiwa", "box"): [
        ("cell", "in", "all", 'shape = "box"\nlow = [-0.9, -0.9, 0.0]\nhigh = [0.9, 0.9, 1.5]'),
        ("table", "out", "all", 'shape = "box"\nlow = [0.35, -0.6, -0.1]\nhigh = [1.0, 0.6, 0.1]'),
        ("wall", "out", "all", 'shape = "half-space"\npoint = [-0.5, 0, 0]\nnormal = [1, 0, 0]'),
    ],
    ("tx40", "narrow"): [
        ("slot", "in", "tool", 'shape = "box"\nlow = [0.15, -0.15, 0.35]\nhigh = [0.45, 0.2, 0.65]'),
    ],
    ("iiwa", "narrow"): [
        ("slot", "in", "tool", 'shape = "box"\nlow = [0.4, -0.2, 0.2]\nhigh = [0.75, 0.2, 0.6]'),
    ],
}
_CAGE = {  # about the tool at home: a pose fits, a motion does not
    "tx40": ("cage", "in", "tool", 'shape = "sphere"\ncenter = [0.271, 0.035, 0.499]\nradius = 0.075'),
    "iiwa": ("cage", "in", "tool", 'shape = "sphere"\ncenter = [0.5564, 0.0, 0.3977]\nradius = 0.075'),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed came to."""

    seed: int
    condition: float
    certified: bool
    on_grid: int  # samples of limits that do not hold on the fine grid
    by_pinocchio: int
    largest_difference: float  # m, between our clearances and pinocchio's
    why: str  # what was not certified


def measure(full: bool = False) -> dict[str, Any]:
    """Measure the share certified, what is violated after all, and the time to a report where nothing fits."""
    start = time.process_time()
    seeds = range(20 if full else 2)
    outcomes = {(robot, cell): [outcome(robot, cell, seed) for seed in seeds] for robot in ROBOTS for cell in CELLS}
    every = [one for group in outcomes.values() for one in group]
    reports = {robot: report(robot) for robot in ROBOTS}
    figures = [
        Figure("design.feasibility.certified_share", float(np.mean([o.certified for o in every])), "", 1.0, "equal"),
        Figure(
            "design.feasibility.violations", float(sum(o.on_grid + o.by_pinocchio for o in every)), "", 0.0, "equal"
        ),
        Figure("design.feasibility.impossible_s", max(s for s, _ in reports.values()), "s CPU", 10.0, "at most"),
    ]
    figures += [
        Figure(f"design.feasibility.condition_median.{robot}.{cell}", median(o.condition for o in group))
        for (robot, cell), group in outcomes.items()
    ]
    context = {
        "what": f"{len(seeds)} seeds at {SECONDS:g} CPU-seconds; checked again {FINER} times finer, and by pinocchio",
        "largest_difference_m": max(one.largest_difference for one in every),
        "not_certified": [f"{r} {c} {o.seed}: {o.why}" for (r, c), group in outcomes.items() for o in group if o.why],
        "impossible": {robot: {"cpu_s": round(seconds, 2), "says": told} for robot, (seconds, told) in reports.items()},
        "cpu_s": time.process_time() - start,
    }
    return {"figures": figures, "context": context}


def outcome(robot: str, cell: str, seed: int) -> Outcome:
    """Design one campaign, and look again at what was certified."""
    with tempfile.TemporaryDirectory() as folder:
        setup = opened(Path(folder), robot, _ZONES.get((robot, cell), []))
        try:
            run = designed(setup, Budget(seconds=SECONDS), seed)
        except InfeasibleDesign as error:
            return Outcome(seed, float("inf"), False, 0, 0, 0.0, str(error))
    why = "; ".join(f"{item.name} {item.worst:.5g} of {item.limit:.5g}" for item in failing(run.certificate))
    peer, scene = PinocchioCell(run.robot, setup.constraints.scene), setup.constraints.scene
    on_grid, by_pinocchio, difference = 0, 0, 0.0
    for motion in motions(run):
        on_grid += grid_violations(run.robot, setup, motion)
        by_pinocchio += peer.violations(motion[0], TOLERANCE)
        if scene is not None:
            off = np.abs(peer.clearances(motion[0][::50]) - clearances(run.robot, scene, motion[0][::50]))
            difference = max(difference, float(off.max(initial=0.0)))
    return Outcome(seed, run.condition, run.certificate.ready, on_grid, by_pinocchio, difference, why)


def report(robot: str) -> tuple[float, str]:
    """Time the design of a campaign in which nothing fits, first search included: CPU s, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        setup = opened(Path(folder), robot, [*_ZONES[robot, "box"], _CAGE[robot]])
        start = time.process_time()
        try:
            designed(setup, Budget(evaluations=DEFAULT_EVALUATIONS), 0)
        except InfeasibleDesign as error:
            return time.process_time() - start, " ".join(sentences(error.blocked))
    return float("inf"), "a motion was found"


def opened(folder: Path, robot: str, zones: list[tuple[str, str, str, str]]) -> Setup:
    """Write a campaign and open it as the command line does."""
    listed = "".join(
        _ZONE.format(name=name, keep=keep, bodies=bodies, shape=shape) for name, keep, bodies, shape in zones
    )
    text = _CAMPAIGN.format(robot=robot, home=_HOME[robot], zones=listed)
    (folder / FILE).write_text(text, "utf-8")
    return set_up(open_campaign(folder, "design"))


def designed(setup: Setup, budget: Budget, seed: int) -> DesignedRun:
    """Design the campaign's only run."""
    (plan,), _ = planned_runs(setup)
    return design_run(setup, Settings(seed, budget, setup.design.method), index=0, plan=plan, before=[])


def motions(run: DesignedRun) -> list[FloatArray]:
    """Sample all that the robot does, each (4 derivatives, n_samples, n_joints)."""
    excitation = run.trajectory.excitation
    step = excitation.period / run.problem.n_period / FINER
    times = np.arange(0.0, excitation.duration + step, step)
    dry = scaled(run.trajectory, DRY_RUN)
    sampled = [np.stack([executed(each, times, order) for order in range(4)]) for each in (run.trajectory, dry)]
    way = run.certificate.way
    if way is not None and way.duration > 0.0:
        times = np.arange(0.0, way.duration + step, step)
        for each in (way, backwards(way)):
            sampled.append(np.stack([path_motion(each, times, order) for order in range(4)]))
    return sampled


def grid_violations(robot: Robot, setup: Setup, sampled: FloatArray) -> int:
    """Count limits that do not hold at samples."""
    constraints = setup.constraints
    limits, (q, dq, ddq, jerk) = constraints.limits, sampled
    motion = Motion(q, dq, ddq)
    over = [q - limits.position[:, 1], limits.position[:, 0] - q, np.abs(dq) - limits.velocity]
    over += [np.abs(ddq) - limits.acceleration, np.abs(jerk) - limits.jerk]
    over += [np.abs(inverse_dynamics(robot, motion)) - limits.torque]
    over += [tool_speeds(robot, motion) - constraints.tool_speed]
    if constraints.scene is not None:
        over.append(required(robot, constraints.scene) - clearances(robot, constraints.scene, q))
    return int(sum((x > TOLERANCE).sum() for x in over))
