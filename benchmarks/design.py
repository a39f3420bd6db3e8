"""Benchmark of the design: quality for CPU time, cost, feasibility, forecasts, robustness, the locked sequence.

Cost is per candidate and generation, against the same work in the usual way; quality is the condition number per CPU
second on a fixed six-axis problem and a peer's own benchmark. Certified designs are checked again with pinocchio;
forecasts are compared with the scatter of simulated campaigns; designs must be identical whenever they are repeated.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import scipy.linalg
import scipy.signal

from benchmarks.design_peers import (
    HYBRID,
    HYBRID_NARROW,
    Peer,
    cma_lbfgs,
    multistart_ipopt,
    multistart_lbfgs,
    multistart_slsqp,
    plain_ga,
    tuned_ga,
)
from benchmarks.physics import PinocchioPeer, bench_columns, six_axis
from excitor.design.certify.certify import DRY_RUN, certify, failing
from excitor.design.constraints.acceleration import ToolAcceleration
from excitor.design.constraints.constraint import Constraint
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.robust_torque import RobustTorque
from excitor.design.constraints.torque_envelope import TorqueEnvelope
from excitor.design.criteria import Criterion, DynamicModel, PowerModel
from excitor.design.explain import InfeasibleDesign, sentences
from excitor.design.forecast import Forecast, PlannedRun, forecast
from excitor.design.motion import Excitation, Run
from excitor.design.problem import Candidates, Problem, build_problem, decode, encode, evaluate, run_of
from excitor.design.problem import motions as search_motions
from excitor.design.schedule import locked_sequence
from excitor.design.search import FIRST, SCREEN, SHARP, WHOLE, Budget, Method, descend, solve
from excitor.experiments.campaign import FILE, open_campaign
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.figures import Figure, Report
from excitor.experiments.plan import DesignedRun, design_run, planned_runs
from excitor.experiments.setup import DEFAULT_EVALUATIONS, Settings, Setup, set_up
from excitor.experiments.stages import PAGE
from excitor.experiments.studies import tx40 as study
from excitor.experiments.studies.tx40 import CaseResult, Virtual
from excitor.experiments.virtual.machine import with_noise
from excitor.identify.estimate import Factors, compress, group_sigma, wls
from excitor.identify.intervals import whiteness
from excitor.identify.periods import average_periods
from excitor.identify.regression import Regression, dynamic_regression, power_regression
from excitor.identify.samples import Samples
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.belief import Prior, coordinates
from excitor.robots.cell import Scene, Shape, Zone, clearances, required, scene_rows, tool_speeds
from excitor.robots.dynamics import inverse_dynamics, regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import GramOf, condition_number
from excitor.robots.inertia import from_center_of_mass, translation
from excitor.robots.information import Noise
from excitor.robots.load import load, robot_from_toml
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Capsule, Limits, Motion, Robot
from excitor.robots.tree import Tree


@dataclass(frozen=True, eq=False, slots=True)
class Designed:
    """The designed runs, and the criterion after each."""

    runs: list[Run]
    values: list[float]
    cpu_s: float


def design_sequence(robot: Robot, evaluations: int) -> Designed:
    """Design one run after another, each for the parameters left uncertain; locked joints' poses are chosen, too.

    Speeds, positions and accelerations keep to those of the undesigned moves, torques to the robot's limits.
    """
    start = time.process_time()
    columns = base_parameters(robot).kept
    model = PowerModel(robot, columns, row_sigma(robot.n_joints))
    criterion = Criterion("path", task=task(robot))
    constraints = Constraints(moves_limits(robot), np.full(robot.n_joints, np.inf))
    runs: list[Run] = []
    earlier = np.zeros((columns.size, columns.size))
    values = []
    plans = [run for run in locked_sequence(robot) if run.role == "identify"]
    for seed, (period, plan) in enumerate(zip(PERIODS, plans, strict=True)):
        harmonics = tuple(range(1, round(HIGHEST_HZ * period) + 1))
        excitation = Excitation(period, 1.0 / study.VIRTUAL_RATE, harmonics, plan.moving, ramp=RAMP)
        problem = build_problem(robot, excitation, constraints=constraints, criterion=criterion, model=model)
        share = period * ROWS_HZ / problem.n_period
        problem = replace(problem, earlier=earlier, share=share)
        found = solve(problem, Budget(evaluations=evaluations), seed=seed)
        assert found.feasible, f"no feasible motion for {plan.name}"
        runs.append(run_of(problem, found.candidates))
        earlier = earlier + share * model.grams(*search_motions(problem, found.candidates), problem.n_period)[0]
        values.append(float(found.value[0]))
    return Designed(runs, values, time.process_time() - start)


def run(full: bool = False) -> Report:
    """Measure every part; `full` uses all seeds and campaigns that the targets require, else about a tenth.

    In full, what compares times is measured first, alone, and the other parts share all cores.
    """
    found = {"cost": part("cost", full)}
    others = [name for name in PARTS if name not in found]
    if full:
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of compiled code
        with ProcessPoolExecutor(min(os.cpu_count() or 1, 4), context) as pool:
            found |= zip(others, pool.map(part, others, [full] * len(others)), strict=True)
    else:
        found |= {name: part(name, full) for name in others}
    figures = [figure for measured in found.values() for figure in measured["figures"]]
    return Report("bench", "design", figures, {name: measured["context"] for name, measured in found.items()})


def part(name: str, full: bool) -> dict[str, Any]:
    """Measure one part, and what it takes."""
    start = time.process_time()
    measured = PARTS[name](full)
    return {**measured, "context": {**measured["context"], "cpu_s": round(time.process_time() - start, 1)}}


POPULATION = 200
_BOX = (np.array([0.0, 0.0, 0.2]), np.array([0.6, 0.6, 0.5]))  # centre, half extents


def measure_cost(full: bool) -> dict[str, Any]:
    """Compare one candidate with all constraints, then a generation of two hundred, in paired rounds."""
    try:
        import pinocchio
    except ImportError:
        raise ExcitorError(
            "the design bench compares with pinocchio, which is not installed; install it with: pip install pin"
        ) from None
    problem = constrained_problem()
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (POPULATION, problem.n_design))
    candidates = decode(problem, X)
    peer = _Peer(problem, pinocchio)
    rounds = 15 if full else 5
    with one_blas_thread():
        agreement = _agreement(problem, candidates, peer)
        few = range(8)
        one = _paired(
            lambda: [peer.evaluate(candidates, k) for k in few],
            lambda: evaluate(problem, candidates),
            rounds,
            (len(few), POPULATION),
        )
        theirs = _generation(problem, X, peer)[0]
        ours = [_generation(problem, X, None) for _ in range(rounds)]
    generation = median(theirs / total for total, _ in ours)
    overhead = median(own for _, own in ours)
    return {
        "figures": [
            Figure("design.candidate_ratio", one[0], "times", 12.0, "at least"),
            Figure("design.generation_ratio", generation, "times", 10.0, "at least"),
            Figure("design.gradient_ratio", gradient_ratio(20 * rounds), "times", 2.3, "at most"),
            Figure("design.pymoo_overhead_percent", 100.0 * overhead / median(total for total, _ in ours), "%"),
        ],
        "context": {
            "what": "192 samples, 52 columns, torques, a tool box, four capsule pairs; one thread, CPU time",
            "candidate_us": round(1e6 * one[1], 1),
            "peer": "pinocchio's regressor, RNEA and kinematics in a loop; SVD and distances in numpy at once",
            "generation_ms": round(1e3 * median(total for total, _ in ours), 1),
            "largest_difference": agreement,
        },
    }


def gradient_ratio(rounds: int) -> float:
    """Time of a Gram matrix's gradient, from the matrix just made, over that of the matrix, as a descent makes both."""
    problem = six_axis_problem()
    q, dq, ddq = (states[0] for states in search_motions(problem, _middle(problem, 0.3)))
    direct, bar, ratios = GramOf(problem.robot, problem.model.columns, np.ones(6)), np.eye(52), []
    for _ in range(rounds):
        matrix = _cpu(lambda: [direct.gram((q, dq, ddq)) for _ in range(20)])
        both = _cpu(lambda: [(direct.gram((q, dq, ddq)), direct.gradient(bar)) for _ in range(20)])
        ratios.append(both / matrix - 1.0)
    return median(ratios)


def constrained_problem() -> Problem:
    """Add masses, capsules and a box for its tool to the fixed robot, so that every kind of constraint is active."""
    free = six_axis_problem()
    robot = _dressed(free.robot)
    box = Zone("box", Shape("box", translation(*_BOX[0]), _BOX[1]), "in", "tool")
    limits = robot.limits
    torque = Limits(limits.position, limits.velocity, limits.acceleration, limits.jerk, np.full(6, 60.0))
    return build_problem(
        robot,
        free.excitation,
        constraints=Constraints(torque, np.full(6, np.inf), Scene((box,), True)),
        criterion=Criterion(),
        model=DynamicModel(robot, bench_columns(free.robot), np.ones(6)),
    )


def _dressed(robot: Robot) -> Robot:
    masses = (10.0, 4.0, 4.0, 3.5, 1.0, 0.3)
    chi, known = robot.chi.copy(), robot.known.copy()
    for j, mass in enumerate(masses):
        body = from_center_of_mass(mass, np.array([0.01, 0.0, -0.03]), 0.01 * mass * np.eye(3))
        chi[10 * j : 10 * j + 10], known[10 * j : 10 * j + 10] = body, True
    for k, name in enumerate(layout(robot).names[60:], start=60):
        chi[k], known[k] = {"Ia": 0.05, "Fv": 2.0, "Fc": 3.0}.get(name[:2], 0.0), True
    ends = {-1: (0.1, 0.2), 2: (0.0, 0.05), 3: (-0.15, -0.1), 5: (0.05, 0.1)}
    capsules = tuple(
        Capsule(link, np.array([0.0, 0.0, low]), np.array([0.0, 0.0, high]), 0.03) for link, (low, high) in ends.items()
    )
    return replace(robot, chi=chi, known=known, capsules=capsules)


class _Peer:
    """The usual way: a loop over samples through pinocchio, then numpy."""

    def __init__(self, problem: Problem, pinocchio: Any) -> None:
        self.problem, self.pin = problem, pinocchio
        self.columns = bench_columns(problem.robot)
        self.rows = scene_rows(problem.robot, problem.constraints.scene)
        motion = run_of(problem, _middle(problem)).periodic.motion(problem.excitation.grid(problem.n_period))
        self.base = PinocchioPeer(problem.robot, pinocchio, motion)
        assert isinstance(problem.robot.mechanism, Tree)
        self.offset = problem.robot.mechanism.offset
        self.links = sorted({int(link) for link in self.rows.volumes.link if link >= 0} | {problem.robot.tool.link})
        names, chi = layout(problem.robot).names, problem.robot.chi
        self.Ia, self.Fv, self.Fc = (
            np.array([chi[names.index(f"{part}{j}")] for j in range(1, 7)]) for part in ("Ia", "Fv", "Fc")
        )
        self._set_masses()

    def _set_masses(self) -> None:
        pin, robot = self.pin, self.problem.robot
        for j in range(6):
            phi = robot.chi[10 * j : 10 * j + 10]
            dynamic = np.array([phi[9], *phi[6:9], phi[0], phi[1], phi[3], phi[2], phi[4], phi[5]])
            self.base.model.inertias[j + 1] = pin.Inertia.FromDynamicParameters(dynamic)
        self.base.data = self.base.model.createData()

    def evaluate(self, candidates: Candidates, k: int) -> tuple[float, FloatArray, float, FloatArray]:
        """Evaluate one candidate: condition number, peak torques, tool in its box, clearances of capsule pairs.

        pinocchio is called sample by sample, as it must be; all that numpy does is done for all samples at once.
        """
        problem, pin, base = self.problem, self.pin, self.base
        motion = run_of(problem, candidates, k).periodic.motion(problem.excitation.grid(problem.n_period))
        base.states = [np.ascontiguousarray(x) for x in (motion.q + self.offset, motion.dq, motion.ddq)]
        W = base.observation(self.columns)
        tau = np.empty(motion.q.shape)
        R, p = np.empty((len(self.links), len(motion), 3, 3)), np.empty((len(self.links), len(motion), 3))
        model, data = base.model, base.data
        for n, (q, v, a) in enumerate(zip(*base.states, strict=True)):
            tau[n] = pin.rnea(model, data, q, v, a)
            pin.forwardKinematics(model, data, q)
            for row, link in enumerate(self.links):
                pose = data.oMi[link + 1]
                R[row, n], p[row, n] = pose.rotation, pose.translation
        tau += self.Ia * motion.ddq + self.Fv * motion.dq + self.Fc * np.sign(motion.dq)
        places = dict(zip(self.links, zip(R, p, strict=True), strict=True))
        return condition_number(W), np.abs(tau).max(axis=0), self._inside(places), self._clearances(places)

    def _inside(self, places: Mapping[int, tuple[FloatArray, FloatArray]]) -> float:
        tool = self.problem.robot.tool
        R, p = places[tool.link]
        return float(np.min(_BOX[1] - np.abs(R @ tool.T_link_frame[:3, 3] + p - _BOX[0])))

    def _clearances(self, places: Mapping[int, tuple[FloatArray, FloatArray]]) -> FloatArray:
        volumes = self.rows.volumes
        ends = []
        for link, both in zip(volumes.link, volumes.ends, strict=True):
            R, p = places.get(int(link), (np.eye(3), np.zeros(3)))
            ends.append((R @ both[:3] + p, R @ both[3:] + p))
        return np.array(
            [
                _segment_distances(*ends[a], *ends[b]).min() - volumes.radius[a] - volumes.radius[b]
                for a, b in volumes.pairs
            ]
        )


def _segment_distances(p: FloatArray, q: FloatArray, r: FloatArray, s: FloatArray) -> FloatArray:
    """Measure the distances of two segments as textbooks do, for all samples at once."""
    u, v, w = q - p, s - r, p - r
    a, b, c, d, e = (np.sum(x * y, axis=-1) for x, y in ((u, u), (u, v), (v, v), (u, w), (v, w)))
    determinant = a * c - b * b
    x = np.clip((b * e - c * d) / np.where(determinant > 1e-12, determinant, np.inf), 0.0, 1.0)
    y = np.clip((b * x + e) / np.maximum(c, 1e-12), 0.0, 1.0)
    x = np.clip((b * y - d) / np.maximum(a, 1e-12), 0.0, 1.0)
    return np.asarray(np.linalg.norm(w + x[..., None] * u - y[..., None] * v, axis=-1))


def _middle(problem: Problem, share: float = 0.0) -> Candidates:
    return decode(problem, np.full((1, problem.n_design), share))


def _agreement(problem: Problem, candidates: Candidates, peer: _Peer) -> float:
    """Compute the relative difference of both ways: they must be the same work."""
    found = evaluate(problem, candidates)
    worst = 0.0
    for k in range(3):
        condition, peak, inside, clear = peer.evaluate(candidates, k)
        worst = max(worst, abs(found.value[k] / condition - 1.0))
        g = found.g[k]
        torque = (g[:6] + 1.0) * 0.995 * problem.constraints.limits.torque
        worst = max(worst, float(np.abs(torque / peak - 1.0).max()))
        n = len(clear)
        worst = max(worst, float(np.maximum(0.0, (clear - (0.001 - 0.1 * g[7 : 7 + n]))).max()) if n else 0.0)
        worst = max(worst, max(0.0, inside - (0.001 - 0.1 * g[6])))
    return float(worst)


def _paired(
    theirs: Callable[[], Any], ours: Callable[[], Any], rounds: int, sizes: tuple[int, int]
) -> tuple[float, float]:
    """Measure the time ratio of theirs to ours for one candidate, and our time, s."""
    ratios, times = [], []
    for _ in range(rounds):
        slow = _cpu(theirs) / sizes[0]
        fast = _cpu(ours) / sizes[1]
        ratios.append(slow / fast)
        times.append(fast)
    return median(ratios), median(times)


def _cpu(task: Callable[[], Any]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def _generation(problem: Problem, X: FloatArray, peer: _Peer | None) -> tuple[float, float]:
    """Run one generation of pymoo's genetic algorithm: its CPU seconds, and those that were not evaluation."""
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination

    n = problem.n_design
    shape = PymooProblem(n_var=n, n_obj=1, n_ieq_constr=len(problem.names), xl=-np.ones(n), xu=np.ones(n))
    ga = GA(pop_size=POPULATION, sampling=X, eliminate_duplicates=False)
    ga.setup(shape, termination=NoTermination(), seed=1, verbose=False)
    total = inside = 0.0
    for generation in range(2):
        start = time.process_time()
        asked = ga.ask()
        begun = time.process_time()
        candidates = decode(problem, np.clip(encode(problem, decode(problem, asked.get("X"))), -1.0, 1.0))
        if peer is None or generation == 0:
            found = evaluate(problem, candidates)
            F, G = found.value, found.g
        else:
            judged = [peer.evaluate(candidates, k) for k in range(POPULATION)]
            F, G = np.array([x[0] for x in judged]), np.zeros((POPULATION, len(problem.names)))
        judging = time.process_time() - begun
        asked.set("F", F[:, None])
        asked.set("G", G)
        for individual in asked:
            individual.evaluated.update(("F", "G", "H"))
        ga.tell(infills=asked)
        total, inside = time.process_time() - start, judging
    return total, total - inside


ROBOTS = ("tx40", "iiwa")
CELLS = ("open", "box", "narrow")
SECONDS = 3.0  # CPU seconds of each search
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
    ("tx40", "narrow"): [("slot", "in", "tool", 'shape = "box"\nlow = [0.15, -0.15, 0.35]\nhigh = [0.45, 0.2, 0.65]')],
    ("iiwa", "narrow"): [("slot", "in", "tool", 'shape = "box"\nlow = [0.4, -0.2, 0.2]\nhigh = [0.75, 0.2, 0.6]')],
}
_CAGE = {  # about the tool at home: a pose fits, a motion does not
    "tx40": ("cage", "in", "tool", 'shape = "sphere"\ncenter = [0.271, 0.035, 0.499]\nradius = 0.075'),
    "iiwa": ("cage", "in", "tool", 'shape = "sphere"\ncenter = [0.5564, 0.0, 0.3977]\nradius = 0.075'),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one seed."""

    seed: int
    condition: float
    certified: bool
    on_grid: int  # samples of limits that do not hold on the fine grid
    by_pinocchio: int
    largest_difference: float  # m, between our clearances and pinocchio's
    why: str  # what was not certified


def measure_feasibility(full: bool = False) -> dict[str, Any]:
    """Measure the share certified, violations found afterwards, and the time to report an infeasible problem."""
    start = time.process_time()
    seeds = range(20 if full else 2)
    outcomes = {(robot, cell): [outcome(robot, cell, seed) for seed in seeds] for robot in ROBOTS for cell in CELLS}
    every = [one for group in outcomes.values() for one in group]
    reports = {robot: report(robot) for robot in ROBOTS}
    slowest = max(seconds for seconds, _ in reports.values())
    figures = [
        Figure("design.feasibility.certified_share", float(np.mean([o.certified for o in every])), "", 1.0, "equal"),
        Figure(
            "design.feasibility.violations", float(sum(o.on_grid + o.by_pinocchio for o in every)), "", 0.0, "equal"
        ),
        Figure("design.feasibility.impossible_s", slowest, "s CPU", 10.0, "at most"),
    ]
    figures += [
        Figure(f"design.feasibility.condition_median.{robot}.{cell}", median(o.condition for o in group))
        for (robot, cell), group in outcomes.items()
    ]
    context = {
        "what": f"{len(seeds)} seeds at {SECONDS:g} CPU seconds; checked {FINER} times finer, and by pinocchio",
        "largest_difference_m": max(one.largest_difference for one in every),
        "not_certified": [f"{r} {c} {o.seed}: {o.why}" for (r, c), group in outcomes.items() for o in group if o.why],
        "impossible": {robot: {"cpu_s": round(seconds, 2), "says": told} for robot, (seconds, told) in reports.items()},
        "cpu_s": time.process_time() - start,
    }
    return {"figures": figures, "context": context}


def measure_cells(full: bool = False) -> dict[str, Any]:
    """Search the six-axis arm beside table and wall, and the seven-joint arm in the narrow cell, as the hybrid did."""
    seeds = SEEDS[:3] if full else SEEDS[:1]
    cases = {"tx40_cell_10s": ("tx40", "box", 10.0), "iiwa_narrow_10s": ("iiwa", "narrow", 10.0)}
    if full:
        cases["tx40_cell_60s"] = ("tx40", "box", 60.0)
    found = {
        name: [outcome(robot, cell, seed, seconds) for seed in seeds] for name, (robot, cell, seconds) in cases.items()
    }
    every = [one for group in found.values() for one in group]
    conditions = {name: [one.condition for one in group] for name, group in found.items()}
    bars = {"tx40_cell_10s": 3.90, "tx40_cell_60s": 3.70}
    figures = [
        Figure(f"design.{name}", mean(conditions[name]), "", bar, "at most")
        for name, bar in bars.items()
        if name in found
    ]
    ratio = mean(conditions["iiwa_narrow_10s"]) / HYBRID_NARROW
    violations = sum(one.on_grid + one.by_pinocchio + (not one.certified) for one in every)
    figures += [
        Figure("design.iiwa_narrow_ratio", ratio, "", 0.95, "at most"),
        Figure("design.cell_violations", float(violations), "", 0.0, "equal"),
    ]
    context = {"what": f"seeds {seeds}", **{name: _rounded(values) for name, values in conditions.items()}}
    return {"figures": figures, "context": context}


def outcome(robot: str, cell: str, seed: int, seconds: float = SECONDS) -> Outcome:
    """Design one campaign, and check again what was certified."""
    with tempfile.TemporaryDirectory() as folder:
        setup = opened(Path(folder), robot, _ZONES.get((robot, cell), []))
        try:
            run = designed(setup, Budget(seconds=seconds), seed)
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
    """Time the design of an infeasible campaign, first search included: CPU s, and its message."""
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
    """Sample all motions of the robot, each (4 derivatives, n_samples, n_joints)."""
    excitation = run.run.excitation
    step = excitation.period / run.problem.n_period / FINER
    times = np.arange(0.0, excitation.duration + step, step)
    dry = run.run.scaled(DRY_RUN)
    sampled = [np.stack([each.at(times, order) for order in range(4)]) for each in (run.run, dry)]
    way = run.certificate.way
    if way is not None and way.duration > 0.0:
        times = np.arange(0.0, way.duration + step, step)
        for each in (way, way.reversed()):
            sampled.append(np.stack([each.at(times, order) for order in range(4)]))
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


N_CAMPAIGNS = 200
MOTIONS = 10  # a robot, in the full bench; otherwise 1
RANGE = (0.85, 1.18)  # of predicted over observed σ; an observed σ of 200 has a standard error of 5 %
PERIOD, RATE, N_PERIODS, HARMONICS = 10.0, 100.0, 4, 5
GRID = 640  # samples a period of the forecast; the log has PERIOD · RATE
NOISE = 0.03  # of each joint's rms torque
MEMORY = 0.8  # of coloured noise, from one sample to the next


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """One robot with one motion, its torques and the noise on them."""

    robot: Robot
    sampled: Motion  # one period at RATE
    planned: PlannedRun
    tau: FloatArray  # (n_samples, n_joints), of one period
    sigma: FloatArray  # (n_joints,)


@one_blas_thread()
def measure_forecast(full: bool = False) -> dict[str, Any]:
    """Compute shares of parameters whose forecast holds; `full` uses MOTIONS motions a robot, else one.

    Both simulate all 200 campaigns of a motion, which takes seconds: 20 would leave the observed σ uncertain by 16 %.
    """
    start = time.process_time()
    seeds = range(MOTIONS if full else 1)
    white = {name: np.concatenate([white_ratios(plan(name, seed)) for seed in seeds]) for name in ROBOTS}
    inflated, naive = (np.concatenate(r) for r in zip(*(coloured_ratios("tx40", s) for s in seeds), strict=True))
    shares = {name: share(ratios) for name, ratios in white.items()}
    return {
        "figures": [
            *(Figure(f"design.forecast.white.{name}", shares[name], "", 0.95, "at least") for name in ROBOTS),
            Figure("design.forecast.coloured.median", float(np.median(inflated)), "", 1.0, "within", tolerance=0.15),
            Figure("design.forecast.coloured.uninflated_median", float(np.median(naive))),
            Figure("design.forecast.coloured.share", share(inflated)),
        ],
        "context": {
            "what": f"predicted over observed sigma of base parameters; share within {RANGE[0]} to {RANGE[1]}",
            "campaigns": f"{N_CAMPAIGNS} of {N_PERIODS} periods of {PERIOD:g} s at {RATE:g} Hz, {len(seeds)} motions",
            "ratios": {name: _spread(ratios) for name, ratios in white.items()} | {"coloured": _spread(inflated)},
            "cpu_s": time.process_time() - start,
        },
    }


def share(ratios: FloatArray) -> float:
    """Compute the share of ratios within RANGE."""
    return float(np.mean((ratios >= RANGE[0]) & (ratios <= RANGE[1])))


def white_ratios(planned: Plan, n_campaigns: int = N_CAMPAIGNS) -> FloatArray:
    """Compare predicted and observed σ under white noise, (n_base,)."""
    noise = Noise(planned.sigma, RATE)
    expected = forecast(planned.robot, [planned.planned], noise)
    return predicted(expected) / observed_sigma(planned, memory=0.0, n_campaigns=n_campaigns)


def coloured_ratios(name: str, seed: int, n_campaigns: int = N_CAMPAIGNS) -> tuple[FloatArray, FloatArray]:
    """Compare under coloured noise whose size and inflation were estimated from an earlier log, of another motion."""
    planned = plan(name, seed)
    noise = learned_noise(replace(plan(name, 1000 + seed), sigma=planned.sigma), seed)
    expected = forecast(planned.robot, [planned.planned], noise)
    observed = observed_sigma(planned, memory=MEMORY, n_campaigns=n_campaigns)
    return predicted(expected) / observed, predicted(expected, inflated=False) / observed


def predicted(expected: Forecast, *, inflated: bool = True) -> FloatArray:
    """Read the expected standard deviations, (n_base,)."""
    return np.array([p.sigma_inflated if inflated else p.sigma for p in expected.parameters])


def learned_noise(earlier: Plan, seed: int) -> Noise:
    """Estimate noise from one log: residuals by joint, and the ratio of samples to effectively independent ones."""
    rng = np.random.default_rng(50_000 + seed)
    motion = Motion(*(np.tile(x, (N_PERIODS, 1)) for x in _arrays(earlier.sampled)))
    tau = np.tile(earlier.tau, (N_PERIODS, 1))
    regression = equations(earlier.robot, motion, tau + coloured(rng, tau.shape, MEMORY) * earlier.sigma)
    factors = compress(regression)
    estimate = wls(factors)
    entries = whiteness(regression, regression.y - regression.W @ estimate.values)
    inflation = np.sqrt([entry.inflation for entry in entries])
    return Noise(group_sigma(factors, estimate.values, "joint"), RATE, inflation, source="an earlier log")


def observed_sigma(planned: Plan, *, memory: float, n_campaigns: int) -> FloatArray:
    """Repeat the campaign with noise of seeds 0, 1, … and return how its estimates scatter, (n_base,)."""
    torques = np.array([averaged(planned, seed, memory) for seed in range(n_campaigns)])
    estimates = [wls(factors).values for factors in campaign_factors(planned, torques)]
    return np.asarray(np.std(estimates, axis=0, ddof=1))


def averaged(planned: Plan, seed: int, memory: float) -> FloatArray:
    """Measure one campaign's torques and average its periods, (n_samples, n_joints)."""
    tau = np.tile(planned.tau, (N_PERIODS, 1))
    noise = coloured(np.random.default_rng(seed), tau.shape, memory)
    return average_periods(tau + noise * planned.sigma, len(planned.tau)).mean


def campaign_factors(planned: Plan, torques: FloatArray) -> list[Factors]:
    """Compress the equations of all campaigns at once, as `compress` would one by one.

    QR of [W y_1 y_2 …] has in its first rows the triangle of W and every Qᵀy; what is below is residual.
    """
    first = equations(planned.robot, planned.sampled, torques[0])
    n, n_campaigns = first.W.shape[1], len(torques)
    joints = np.unique(first.joint)
    triangles = np.zeros((n_campaigns, len(joints), n + 1, n + 1))
    counts = np.zeros(len(joints), dtype=np.int64)
    for g, joint in enumerate(joints):
        rows = first.joint == joint
        Y = torques[:, first.sample[rows], joint].T
        R = np.asarray(scipy.linalg.qr(np.column_stack([first.W[rows], Y]), mode="r", check_finite=False)[0])
        triangles[:, g, :n, :n] = R[:n, :n]
        triangles[:, g, :n, n] = R[:n, n:].T
        triangles[:, g, n, n] = np.linalg.norm(R[n:, n:], axis=0)
        counts[g] = np.count_nonzero(rows)
    run = np.zeros(len(joints), dtype=np.int64)
    return [Factors(first.names, first.units, joints, run, counts, R) for R in triangles]


def equations(robot: Robot, motion: Motion, tau: FloatArray) -> Regression:
    """Build the equations of one run's base parameters."""
    return dynamic_regression(robot, [Samples("run", motion, tau, RATE)])


def coloured(rng: np.random.Generator, shape: tuple[int, ...], memory: float) -> FloatArray:
    """Draw x_k = m x_(k-1) + √(1 - m²) w_k of unit variance along the first axis; white where m is 0."""
    w = rng.normal(size=shape)
    w[0] /= np.sqrt(1.0 - memory**2)  # steady from the first sample on
    return np.asarray(np.sqrt(1.0 - memory**2) * scipy.signal.lfilter([1.0], [1.0, -memory], w, axis=0))


def plan(name: str, seed: int) -> Plan:
    """Plan a random motion of a robot, its torques by the prior model and its noise in proportion."""
    robot = load(name)
    sampled = random_series(robot, seed, int(PERIOD * RATE))
    tau = inverse_dynamics(robot, sampled)
    run = PlannedRun(f"motion {seed}", random_series(robot, seed, GRID), PERIOD, N_PERIODS)
    return Plan(robot, sampled, run, tau, NOISE * np.sqrt(np.mean(tau**2, axis=0)))


def random_series(robot: Robot, seed: int, n_samples: int) -> Motion:
    """Draw a Fourier series about the middle of each joint's range, as large as its limits allow; one period."""
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(2, HARMONICS, robot.n_joints)) / np.arange(1, HARMONICS + 1)[None, :, None]
    fine = _series(coefficients, 5000)
    limits = robot.limits
    room = np.array([0.5 * np.ptp(limits.position, axis=1), limits.velocity, limits.acceleration])
    size = 0.95 * np.min(room / np.abs(fine).max(axis=1), axis=0)
    q, dq, ddq = _series(coefficients * size, n_samples)
    return Motion(limits.position.mean(axis=1) + q, dq, ddq)


def _series(coefficients: FloatArray, n_samples: int) -> FloatArray:
    """Evaluate Σ_k a_k sin kωt + b_k cos kωt and two derivatives, (3, n_samples, n_joints)."""
    k = 2.0 * np.pi / PERIOD * np.arange(1, HARMONICS + 1)
    angle = np.outer(np.arange(n_samples) * PERIOD / n_samples, k)
    a, b = coefficients
    sin, cos = np.sin(angle), np.cos(angle)
    return np.array([sin @ a + cos @ b, (cos * k) @ a - (sin * k) @ b, -(sin * k**2) @ a - (cos * k**2) @ b])


def _arrays(motion: Motion) -> tuple[FloatArray, FloatArray, FloatArray]:
    return motion.q, motion.dq, motion.ddq


def _spread(ratios: FloatArray) -> dict[str, float]:
    low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
    return {"least": float(low), "median": float(middle), "largest": float(high), "within": share(ratios)}


SEEDS = tuple(range(15))
FEW_SEEDS = SEEDS[:5]  # where a search is compared with peers
FINE_SAMPLES = 2000
_FINALISTS = 4
_STARTS = 10  # random motions that are descended
AMPLITUDES = (1.0, 0.99)  # of a found motion, of which a design takes the first that is proven


def measure_quality(full: bool) -> dict[str, Any]:
    """Search for 3 and 10 CPU seconds, with and without evolution; in full for 60 as well, and with all seeds.

    Differences of means of two seeds are within the scatter of one: they are judged in full only.
    """
    problem = six_axis_problem()
    seeds = SEEDS if full else SEEDS[:2]
    times = {"3s": 3.0, "10s": 10.0, **({"60s": 60.0} if full else {})}
    both = {name: scored(problem, seconds, seeds) for name, seconds in times.items()}
    found = {name: [fine for fine, _ in pairs] for name, pairs in both.items()}
    off = max(abs(own / fine - 1.0) for pairs in both.values() for fine, own in pairs)
    restarts = runs(problem, 10.0, seeds, method="restarts")
    starts = descents(problem)
    bars, worst = {"3s": 3.20, "10s": 3.02, "60s": 2.93}, {"3s": 3.30, "10s": 3.10, "60s": 3.00}
    figures = [Figure(f"design.condition.{k}", mean(v), "", bars[k], "at most") for k, v in found.items()]
    figures += [Figure(f"design.condition.worst_{k}", max(v), "", worst[k], "at most") for k, v in found.items()]
    figures.append(Figure("design.condition.grid_error_percent", 100.0 * off, "%", 0.5, "at most"))
    gained = mean(restarts) - mean(found["10s"])
    figures += [
        Figure("design.condition.without_evolution_10s", mean(restarts), "", 3.15, "at most"),
        Figure(
            "design.condition.evolution_gain_10s", gained, "", 0.08 if full else None, "at least" if full else "none"
        ),
        Figure("design.condition.descents", mean(starts), "", 3.55, "at most"),
        *(Figure(f"design.condition.former_{k}", v) for k, v in HYBRID.items()),
    ]
    context: dict[str, Any] = {
        "what": "mean over seeds of the condition number, by SVD at 2000 samples; CPU seconds of one thread",
        **{name: _rounded(values) for name, values in found.items()},
        "without_evolution": _rounded(restarts),
        "descents": _rounded(starts),
    }
    if full:
        gain = mean(found["10s"]) - mean(found["60s"])
        figures.append(Figure("design.condition.gain_60s", gain, "", 0.05, "at least"))
    return {"figures": figures, "context": context}


def measure_ur10(full: bool) -> dict[str, Any]:
    """Search for the arm and the motions of a peer's own example, by its cost too."""
    seeds = FEW_SEEDS if full else SEEDS[:2]
    found = {"ten": runs(ur10_problem(), 10.0, seeds if full else SEEDS[:1]), "at_rest": [at_rest(k) for k in seeds]}
    figures = [
        Figure("design.ur10_figaroh_10s", mean(found["ten"]), "", 9.5, "at most"),
        Figure("design.ur10_figaroh_cost_10s", mean(found["at_rest"]), "", 9.0, "at most"),
    ]
    return {"figures": figures, "context": {name: _rounded(values) for name, values in found.items()}}


PEERS: dict[str, tuple[Peer, float]] = {  # each with the mean beyond which it is not itself
    "cma_lbfgs": (cma_lbfgs, 3.60),
    "multistart_lbfgs": (multistart_lbfgs, 3.30),
    "multistart_slsqp": (multistart_slsqp, 3.30),
    "multistart_ipopt": (multistart_ipopt, 3.60),
    "tuned_ga": (tuned_ga, 3.80),
    "plain_ga": (plain_ga, 5.00),
}


def measure_peers(full: bool) -> dict[str, Any]:
    """Let every peer search the fixed problem for 10 CPU seconds."""
    found: dict[str, list[float]] = {}
    absent: dict[str, str] = {}  # why it was left out
    for name, (peer, _) in PEERS.items():
        seeds = FEW_SEEDS if full and name in ("cma_lbfgs", "multistart_lbfgs") else SEEDS[: 3 if full else 1]
        try:
            found[name] = peers(six_axis_problem(), peer, 10.0, seeds)
        except ExcitorError as error:
            absent[name] = str(error)
            print(f"{name}: left out: {error}", file=sys.stderr)
    figures = [Figure(f"design.condition.{k}_10s", mean(v), "", PEERS[k][1], "at most") for k, v in found.items()]
    return {"figures": figures, "context": {**{k: _rounded(v) for k, v in found.items()}, "left_out": absent}}


def runs(problem: Problem, seconds: float, seeds: Sequence[int], method: Method = "hybrid") -> list[float]:
    """Search once for every seed and score the best of what was found; inf where nothing is feasible."""
    return [fine for fine, _ in scored(problem, seconds, seeds, method)]


def scored(
    problem: Problem, seconds: float, seeds: Sequence[int], method: Method = "hybrid"
) -> list[tuple[float, float]]:
    """Like `runs`, each with the criterion of the same motion on the search's own grid."""
    scores = []
    for seed in seeds:
        found = solve(problem, Budget(seconds=seconds), seed=seed, method=method)
        feasible = [k for k in range(len(found.value)) if found.violation[k] <= 0.0][:_FINALISTS]
        fine = [
            (fine_condition(problem, run_of(problem, found.candidates, k)), float(found.value[k])) for k in feasible
        ]
        scores.append(min(fine, default=(np.inf, np.inf)))
    return scores


def peers(problem: Problem, peer: Peer, seconds: float, seeds: Sequence[int]) -> list[float]:
    """Let a peer search once for every seed."""
    peer(problem, 0.2, 0)  # imports
    return [fine_condition(problem, run_of(problem, peer(problem, seconds, seed))) for seed in seeds]


def descents(problem: Problem, n: int = _STARTS) -> list[float]:
    """Descend fixed random motions once, coarse to fine as the search does, and score where they end."""
    random, none, scores = np.random.default_rng(0), np.empty(0), []
    for _ in range(n):
        x: FloatArray = random.uniform(-1.0, 1.0, problem.n_design)
        for step in (FIRST, SCREEN, WHOLE, SHARP):
            x = descend(problem.objective(step), x, step, none, lambda *_: False)[0]
        scores.append(fine_condition(problem, run_of(problem, decode(problem, x[None]))))
    return scores


def fine_condition(problem: Problem, candidate: Any) -> float:
    """Score a motion by SVD; raw where the problem's criterion is raw."""
    W = problem.model.observation(candidate.periodic.motion(candidate.periodic.grid(FINE_SAMPLES)))
    if problem.criterion.kind == "raw-condition":
        singular = np.linalg.svd(W, compute_uv=False)
        return float(singular[0] / singular[-1])
    return condition_number(W)


def six_axis_problem() -> Problem:
    """Build the fixed problem: five harmonics of 0.1 Hz, 52 columns, joint limits only."""
    robot = six_axis()
    return _free_problem(robot, 10.0, 5, DynamicModel(robot, bench_columns(robot), np.ones(6)), Criterion())


def ur10_problem() -> Problem:
    """Build the peer's problem: ten harmonics of 1/24 Hz, 36 columns in raw units."""
    text = Path(__file__).with_name("ur10_peer.toml").read_text("utf-8")
    robot = robot_from_toml(text, "ur10_peer.toml")
    names = ["ZZ1", *(f"{part}{j}" for j in range(2, 7) for part in ("XX", "XY", "XZ", "YZ", "ZZ", "MX", "MY"))]
    model = DynamicModel(robot, layout(robot).indices(names), np.ones(6))
    return _free_problem(robot, 24.0, 10, model, Criterion("raw-condition"))


def at_rest(seed: int, seconds: float = 10.0) -> float:
    """Search the peer's problem as a run of 24 s from rest to rest under its efforts; score the measured period."""
    free = ur10_problem()
    limits = replace(free.constraints.limits, torque=free.robot.limits.torque)
    everything = np.ones(6, dtype=bool)
    problem = build_problem(
        free.robot,
        Excitation(20.0, 0.002, tuple(range(1, 9)), everything, ramp=2.0),
        constraints=replace(free.constraints, limits=limits),
        criterion=free.criterion,
        model=free.model,
    )
    found = solve(problem, Budget(seconds=seconds), seed=seed)
    scores = []
    for k, amplitude in product(range(min(_FINALISTS, len(found.value))), AMPLITUDES):  # as a design is certified
        run = run_of(problem, found.candidates, k).scaled(amplitude)
        motion = run.motion(np.linspace(0.0, run.duration, FINER * FINE_SAMPLES))
        effort = np.abs(inverse_dynamics(free.robot, motion)) <= limits.torque
        speed = np.abs(motion.dq) <= limits.velocity + TOLERANCE
        still = not np.abs(motion.dq[[0, -1]]).max() > TOLERANCE
        if found.violation[k] <= 0.0 and effort.all() and speed.all() and still:
            scores.append(fine_condition(problem, run))
    return min(scores, default=np.inf)


def _free_problem(robot: Robot, period: float, n_harmonics: int, model: DynamicModel, criterion: Criterion) -> Problem:
    free = np.full(robot.n_joints, np.inf)
    limits = Limits(robot.limits.position, robot.limits.velocity, robot.limits.acceleration, free, free)
    everything = np.ones(robot.n_joints, dtype=bool)
    excitation = Excitation(period, 0.002, tuple(range(1, n_harmonics + 1)), everything)
    return build_problem(robot, excitation, constraints=Constraints(limits, free), criterion=criterion, model=model)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


EVALUATIONS = 12_000  # some ten seconds, and six checkpoints
SHARED = 30_000  # whose children two workers can share
KILLS = 10
SIMULTANEOUS = 3
_LONGEST = 600.0  # s of wall time that a design may take before it is given up

_ROBUST_CAMPAIGN = """
robot = "tx40"
home_deg = [0, 0, 90, 0, 45, 0]
[[cell.zone]]
name = "table"
keep = "out"
shape = "box"
low = [0.25, -0.4, -0.1]
high = [0.8, 0.4, 0.15]
"""
_SMALL = 'robot = "rotradi"\n[design]\nschedule = "single"\n'

Written = tuple[bytes, bytes]  # design.json, plan.html


def measure_robustness(full: bool = False) -> dict[str, Any]:
    """Measure whether designs are identical: repeated, killed and resumed, made at once, by several processes."""
    start, kills = time.process_time(), KILLS if full else 3
    random = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        first = finished(campaign(root / "first"))  # may compile
        began = time.monotonic()
        again = finished(campaign(root / "again"))
        took = time.monotonic() - began
        moments = random.uniform(0.1, 0.98, kills) * took
        resumed = [killed_and_resumed(root / f"killed {k}", float(t)) for k, t in enumerate(moments)]
        beside, left_over = made_at_once(root / "beside")
        alone = finished(campaign(root / "alone", _SMALL), evaluations=SHARED)
        shared = finished(campaign(root / "shared", _SMALL), "--workers", "2", evaluations=SHARED)
    figures = [
        Figure("design.robustness.identical", float(first == again), "", 1.0, "equal"),
        Figure("design.robustness.resumed", float(np.mean([made == first for made, _ in resumed])), "", 1.0, "equal"),
        Figure("design.robustness.simultaneous", float(beside == first and not left_over), "", 1.0, "equal"),
        Figure("design.robustness.workers", float(alone == shared), "", 1.0, "equal"),
    ]
    context = {
        "what": f"excitor design with {EVALUATIONS} evaluations, design.json and plan.html compared byte by byte",
        "kill_moments_s": [round(moment, 2) for _, moment in resumed],
        "uninterrupted_s": round(took, 2),
        "left_over": left_over,
        "cpu_s": time.process_time() - start,
    }
    return {"figures": figures, "context": context}


def campaign(place: Path, text: str = _ROBUST_CAMPAIGN) -> Path:
    """Write a campaign; all folders have the same name, which the page shows."""
    folder = place / "cell"
    folder.mkdir(parents=True)
    (folder / FILE).write_text(text, "utf-8")
    return folder


def begun(folder: Path, *options: str, evaluations: int = EVALUATIONS) -> "subprocess.Popen[bytes]":
    """Start `excitor design` in a process of its own."""
    command = [sys.executable, "-m", "excitor.experiments.cli", "design", str(folder)]
    return subprocess.Popen(
        [*command, "--evaluations", str(evaluations), "--json", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def finished(folder: Path, *options: str, evaluations: int = EVALUATIONS) -> Written:
    """Design to the end."""
    begun(folder, *options, evaluations=evaluations).wait(_LONGEST)
    return written(folder)


def written(folder: Path) -> Written:
    """Read what a design wrote."""
    for name in (DESIGN, PAGE):
        if not (folder / name).is_file():
            raise ExcitorError(f"{folder}: excitor design has not written {name}")
    return (folder / DESIGN).read_bytes(), (folder / PAGE).read_bytes()


def killed_and_resumed(place: Path, moment: float) -> tuple[Written, float]:
    """Kill a design some seconds after its start, resume it, and return when it was killed.

    A design that finishes earlier is repeated and killed sooner.
    """
    folder = campaign(place)
    while True:
        process = begun(folder)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        if process.wait(_LONGEST) == -signal.SIGKILL:
            return finished(folder), moment
        moment *= 0.7
        for name in (DESIGN, PAGE):
            (folder / name).unlink(missing_ok=True)


def made_at_once(place: Path) -> tuple[Written, list[str]]:
    """Design the same folder several times at once; return also files that should not remain."""
    folder = campaign(place)
    processes = [begun(folder) for _ in range(SIMULTANEOUS)]
    for process in processes:
        process.wait(_LONGEST)
    known = {FILE, DESIGN, PAGE}
    return written(folder), sorted(path.name for path in folder.iterdir() if path.name not in known)


REALISATIONS, FEW = 30, 20  # in full, and otherwise; of ten, the single run's median still moves by a fifth
SEQUENCE_EVALUATIONS, FEWER = 4000, 4000  # for the design of one run
PERIODS = (12.0, 12.0, 8.0, 8.0, 4.0, 4.0)  # s, each measured once: 48 s, as the undesigned six runs of 8 s
HIGHEST_HZ = 1.625  # where speed and acceleration limits meet
RAMP = 1.0
ROWS_HZ = 50.0
ACCELERATION = np.array([45.0, 45.0, 65.0, 57.0, 44.0, 95.0])  # rad/s², what the undesigned moves reach
TASK_SEED = 99_999


@one_blas_thread()
def measure_sequence(full: bool = False) -> dict[str, Any]:
    """Design the sequence, run it on the virtual robot and compare, each figure a median over seeds from 0."""
    known = study.virtual()
    designed = design_sequence(known.robot, SEQUENCE_EVALUATIONS if full else FEWER)
    seeds = range(REALISATIONS if full else FEW)
    results = [realise(known, designed.runs, seed) for seed in seeds]
    middle = {case: [median(getattr(r[case], f) for r in results) for f in ("torque_error", "parameter_error")]
              for case in results[0]}  # fmt: skip
    torque, parameters = middle["power, designed sequence"]
    random_torque, random_parameters = middle["power, undesigned sequence"]
    return {
        "figures": [
            Figure(
                "design.sequence.torque_ratio", torque / middle["dynamic, designed sequence"][0], "", 1.2, "at most"
            ),
            Figure("design.sequence.parameter_ratio", _parameter_ratio(results), "", 0.5, "at most"),
            Figure("design.sequence.torque_error", torque, "held out"),
            Figure("design.sequence.parameter_error", parameters),
            Figure("design.sequence.beats_undesigned", random_torque / torque, "times"),
            Figure("design.sequence.beats_undesigned_parameters", random_parameters / parameters, "times"),
        ],
        "context": {
            "what": f"virtual TX-40, medians of {len(seeds)} realisations; six runs of {sum(PERIODS):g} s",
            "parameter_ratio_by_tens": [_parameter_ratio(results[k : k + 10]) for k in range(0, len(results), 10)],
            "cases": {case: _spread_of_seeds([r[case] for r in results]) for case in middle},
            "criterion_after_each_run": designed.values,
            "share_of_limits_used": share_of_limits(known.robot, designed.runs),
            "design_cpu_s": designed.cpu_s,
        },
    }


def moves_limits(robot: Robot) -> Limits:
    """Collect the ranges and speeds of the undesigned moves; torques are the robot's own limits."""
    no_jerk = np.full(robot.n_joints, np.inf)
    return Limits(np.radians(study.BOX_DEG), study.SPEED, ACCELERATION, no_jerk, robot.limits.torque)


def share_of_limits(robot: Robot, runs: list[Run]) -> dict[str, float]:
    """Find the largest share of each limit in the whole runs, ramps included, at the controller's rate."""
    limits = moves_limits(robot)
    used: dict[str, list[float]] = {"position": [], "velocity": [], "acceleration": [], "torque": []}
    for run in runs:
        motion = run.motion(np.arange(0.0, run.duration, run.sample_time))
        middle, half = limits.position.mean(axis=1), 0.5 * np.ptp(limits.position, axis=1)
        used["position"].append(float((np.abs(motion.q - middle) / half).max()))
        used["velocity"].append(float((np.abs(motion.dq) / limits.velocity).max()))
        used["acceleration"].append(float((np.abs(motion.ddq) / limits.acceleration).max()))
        used["torque"].append(float((np.abs(inverse_dynamics(robot, motion)) / limits.torque).max()))
    return {name: max(shares) for name, shares in used.items()}


def task(robot: Robot) -> FloatArray:
    """Form the mean WᵀW of a task path: random moves like the test run's, which no run repeats."""
    motion = study.random_moves(np.random.default_rng(TASK_SEED), 20.0, 0)
    motion = Motion(*(x[::20] for x in (motion.q, motion.dq, motion.ddq)))
    W = regressor(robot, motion)[:, :, base_parameters(robot).kept]
    return np.asarray(np.einsum("kic,kid->cd", W, W) / len(motion))


def row_sigma(n_joints: int) -> FloatArray:
    """Measure the standard deviation of the torque noise that processing leaves, (n_joints,)."""
    rng = np.random.default_rng(TASK_SEED)
    noise = with_noise(np.zeros((60_000, n_joints)), rng, white=study.WHITE, slow=study.SLOW)
    return np.asarray(study.thin_virtual(noise).std(axis=0))


def realise(known: Virtual, runs: list[Run], seed: int) -> dict[str, CaseResult]:
    """Measure the undesigned runs, the designed ones and a test run once, and fit both models."""
    fitted = study.fit_cases(seed)
    rng = np.random.default_rng([seed, 1])
    logs = []
    for k, run in enumerate(runs):
        motion = run.periodic.motion(run.periodic.grid(round(run.periodic.period * study.VIRTUAL_RATE)))
        logs.append(study.measured(known.robot, known.chi, f"run {k}", rng, motion=motion))
    cases = {1: "dynamic, single run", 2: "dynamic, undesigned sequence"}
    cases |= {3: "power, single run", 4: "power, undesigned sequence"}
    estimates = {cases[case]: estimate for case, estimate in fitted.estimates.items()}
    estimates["dynamic, designed sequence"] = study.fit_essential(known, dynamic_regression, logs)
    estimates["power, designed sequence"] = study.fit_essential(known, power_regression, logs)
    return {case: study.judge(estimate, fitted.unseen, fitted.truth) for case, estimate in estimates.items()}


def _parameter_ratio(results: list[dict[str, CaseResult]]) -> float:
    designed, single = (
        median(result[f"power, {case}"].parameter_error for result in results)
        for case in ("designed sequence", "single run")
    )
    return designed / single


def _spread_of_seeds(results: list[CaseResult]) -> dict[str, list[float]]:
    """Least, median and largest of errors, and of how many parameters were kept."""
    fields = ("torque_error", "parameter_error", "kept")
    values = {field: sorted(getattr(result, field) for result in results) for field in fields}
    return {field: [found[0], median(found), found[-1]] for field, found in values.items()}


_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_STEPS = 50  # of golden section: 0.618⁵⁰ = 4e-11 of the segment

Segment = tuple[FloatArray, FloatArray, float]  # both ends (n_samples, 3), and the radius


class PinocchioCell:
    """Segments of a robot's capsules and its tool in the base frame, and their clearances."""

    def __init__(self, robot: Robot, scene: Scene | None) -> None:
        try:
            import pinocchio
        except ImportError:
            raise ExcitorError(
                "the feasibility bench compares with pinocchio, which is not installed; install it: pip install pin"
            ) from None
        tree = robot.mechanism
        assert isinstance(tree, Tree)
        self.robot, self.scene, self.tree, self.pin = robot, scene, tree, pinocchio
        self.model = pinocchio_model(tree, pinocchio)
        self.data = self.model.createData()

    def link_poses(self, q: FloatArray) -> FloatArray:
        """Place all links, (n_links, n_samples, 4, 4)."""
        tree, poses = self.tree, np.empty((self.tree.n_links, len(q), 4, 4))
        for k, theta in enumerate(np.ascontiguousarray(q @ tree.coupling.T + tree.offset)):
            self.pin.forwardKinematics(self.model, self.data, theta)
            for j in range(tree.n_links):
                poses[j, k] = self.data.oMi[j + 1].homogeneous
        return np.asarray(poses @ tree.after[:, None])

    def clearances(self, q: FloatArray) -> FloatArray:
        """Compute the clearances of every row, (n_samples, n_rows), in the order of `row_names`."""
        if self.scene is None:
            return np.empty((len(q), 0))
        robot, scene, poses = self.robot, self.scene, self.link_poses(q)
        bodies = [
            segment(poses, capsule.link, capsule.start, capsule.end, capsule.radius) for capsule in robot.capsules
        ]
        point = robot.tool.T_link_frame[:3, 3]
        tool = segment(poses, robot.tool.link, point, point, scene.tool_radius)
        links = [body for body, capsule in zip(bodies, robot.capsules, strict=True) if capsule.link >= 0]
        rows = []
        for zone in scene.zones:
            watched = {"tool": [tool], "links": links, "all": [*links, tool]}[zone.bodies]
            rows += [zone_clearance(zone, body) for body in watched]
        rows += [pair_clearance(bodies[a], bodies[b]) for a, b in scene_rows(robot, scene).volumes.pairs]
        return np.stack(rows, axis=1) if rows else np.empty((len(q), 0))

    def violations(self, q: FloatArray, tolerance: float) -> int:
        """Count the rows and samples with less clearance than required."""
        if self.scene is None:
            return 0
        return int((self.clearances(q) < required(self.robot, self.scene) - tolerance).sum())


def pinocchio_model(tree: Tree, pinocchio: Any) -> Any:
    """Build the same joints in pinocchio; bodies have no mass."""
    model = pinocchio.Model()
    for j in range(tree.n_links):
        T = tree.before[j]
        kind = pinocchio.JointModelPrismaticUnaligned if tree.sliding[j] else pinocchio.JointModelRevoluteUnaligned
        placement = pinocchio.SE3(T[:3, :3].copy(), T[:3, 3].copy())
        model.addJoint(int(tree.parents[j]) + 1, kind(tree.axis[j].copy()), placement, f"j{j}")
    return model


def segment(poses: FloatArray, link: int, start: FloatArray, end: FloatArray, radius: float) -> Segment:
    """Place a segment of a link, or of the base (link -1)."""
    T = poses[link] if link >= 0 else np.tile(np.eye(4), (poses.shape[1], 1, 1))
    return T[:, :3, :3] @ start + T[:, :3, 3], T[:, :3, :3] @ end + T[:, :3, 3], radius


def zone_clearance(zone: Zone, body: Segment) -> FloatArray:
    """Measure a capsule's distance from a solid, or how deep inside of it it stays, (n_samples,)."""
    a, b, radius = body
    shape, T = zone.shape, zone.shape.T_base_shape
    a, b = ((x - T[:3, 3]) @ T[:3, :3] for x in (a, b))
    if zone.keep == "in":
        return -np.maximum(signed_distance(shape, a), signed_distance(shape, b)) - radius
    return least_along(a, b, lambda p: signed_distance(shape, p)) - radius


def pair_clearance(one: Segment, other: Segment) -> FloatArray:
    """Measure the distance between two capsules, (n_samples,)."""
    a, b, radius = other
    direction = b - a
    square = np.maximum((direction**2).sum(axis=1), 1e-30)

    def distance(p: FloatArray) -> FloatArray:
        s = np.clip(((p - a) * direction).sum(axis=1) / square, 0.0, 1.0)
        return np.asarray(np.linalg.norm(p - a - s[:, None] * direction, axis=1))

    return least_along(one[0], one[1], distance) - one[2] - radius


def signed_distance(shape: Shape, p: FloatArray) -> FloatArray:
    """Measure points (n, 3) in a shape's own frame against its surface, negative inside."""
    if shape.kind == "half-space":
        return p[:, 2]
    if shape.kind == "sphere":
        return np.asarray(np.linalg.norm(p, axis=1) - shape.size[0])
    if shape.kind == "box":
        beyond = np.abs(p) - shape.size
    else:
        beyond = np.stack([np.hypot(p[:, 0], p[:, 1]) - shape.size[0], np.abs(p[:, 2]) - shape.size[1]], axis=1)
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
    return np.asarray(outside + np.minimum(beyond.max(axis=1), 0.0))


def least_along(a: FloatArray, b: FloatArray, distance: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Find the least of a convex function along the segments from a to b, (n,), by golden section."""
    low, high = np.zeros(len(a)), np.ones(len(a))

    def at(s: FloatArray) -> FloatArray:
        return distance(a + s[:, None] * (b - a))

    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        nearer = at(left) < at(right)
        low, high = np.where(nearer, low, left), np.where(nearer, right, high)
    return np.minimum(np.minimum(at(low), at(high)), np.minimum(at(0.0 * low), at(0.0 * low + 1.0)))


LIMITED = {  # designs under one further constraint each, tight enough to bind
    "tool acceleration": lambda robot: ToolAcceleration(6.0),
    "torque envelope": lambda robot: TorqueEnvelope(
        0.35 * robot.limits.torque, np.outer(robot.limits.velocity, [0.0, 0.3, 1.0]), np.array([1.0, 1.0, 0.4])
    ),
    "robust torque": lambda robot: RobustTorque(0.5 * robot.limits.torque, SPREAD, 0.999),
    "robust torque, box": lambda robot: RobustTorque(0.4 * robot.limits.torque, SPREAD, None),
}
SPREAD = 0.1
N_ROBOTS = 1000


def measure_constraints(full: bool = False) -> dict[str, Any]:
    """Check certified designs on a grid ten times finer, with robots drawn where parameters are doubtful."""
    inside, used, violations, uncertified = [], [], 0, []
    seeds = range(10 if full else 2)
    for (name, make), seed in product(LIMITED.items(), seeds):
        robot, run, ready = limited_design(make, seed)
        uncertified += [] if ready else [f"{name} {seed}"]
        item, nominal = make(robot), prior(robot)[None]
        violations += int((shares_of_limit(robot, run, item, nominal, FINER) > 1.0 + TOLERANCE).sum())
        if isinstance(item, RobustTorque):
            drawn = drawn_robots(robot, item.probability is None, np.random.default_rng(seed))
            most = shares_of_limit(robot, run, item, drawn, 1).max(axis=(0, 1))
            if item.probability is None:  # every corner of the box must hold
                violations += int((most > 1.0 + TOLERANCE).sum())
            else:
                inside.append(100.0 * float((most <= 1.0).mean()))
                used.append(float(np.quantile(most, item.probability)))
    return {
        "figures": [
            Figure("design.constraint_violations", float(violations + len(uncertified)), "", 0.0, "equal"),
            Figure("design.robust_inside_percent", min(inside), "%", 99.7, "at least"),
        ],
        "context": {
            "what": f"{len(seeds)} seeds of {len(LIMITED)} constraints, checked {FINER} times finer by pinocchio and "
            f"numpy; inside: the worst seed's share of {N_ROBOTS} robots drawn, of a stated 99.9 %",
            "not_certified": uncertified,
            "inside_percent": inside,
            "share_of_limit_at_99.9_percent": [round(share, 3) for share in used],
        },
    }


def limited_design(make: Callable[[Robot], Constraint], seed: int) -> tuple[Robot, Run, bool]:
    """Design a run of the TX-40 under one constraint, at the first amplitude that is certified; say whether one is."""
    robot = load("tx40")
    none = np.full(robot.n_joints, np.inf)
    limits = replace(robot.limits, torque=none, jerk=none)
    excitation = Excitation(10.0, 0.01, (1, 2, 3, 4, 5), np.ones(robot.n_joints, dtype=bool), ramp=2.0)
    constraints = Constraints(limits, none, others=(make(robot),))
    model = DynamicModel(robot, base_parameters(robot).kept, np.ones(robot.n_joints))
    problem = build_problem(robot, excitation, constraints=constraints, criterion=Criterion(), model=model)
    found = run_of(problem, solve(problem, Budget(evaluations=600), seed=seed).candidates)
    for amplitude in AMPLITUDES:
        run = found.scaled(amplitude)
        if ready := certify(robot, run, constraints).ready:
            break
    return robot, run, ready


def shares_of_limit(robot: Robot, run: Run, item: Any, chi: FloatArray, finer: int) -> FloatArray:
    """Evaluate each limit's used share by pinocchio and numpy, (n_samples, n_rows, n_robots)."""
    motion = run.motion(np.linspace(0.0, run.duration, finer * round(run.duration / 0.01)))
    if isinstance(item, ToolAcceleration):
        return tool_accelerations_by_pinocchio(robot, motion)[:, None, None] / item.limit
    tau = np.abs(torques_by_pinocchio(robot, motion, chi))
    if not isinstance(item, TorqueEnvelope):
        return np.asarray(tau / np.asarray(item.limit)[:, None])
    speed = np.abs(motion.dq)
    left = [np.interp(speed[:, j], item.speed[j], item.share) for j in range(robot.n_joints)]
    return np.asarray(tau / (np.asarray(item.limit) * np.transpose(left))[:, :, None])


def drawn_robots(robot: Robot, box: bool, rng: np.random.Generator) -> FloatArray:
    """Draw parameters about the prior's, (n_robots, n_params), or corners of their box.

    A link's pseudo-inertia is L (1 + s E) Lᵀ, E symmetric and normal, a drive's parameter p (1 + s e).
    """
    believed = coordinates(robot, Prior(), np.zeros(len(layout(robot))), level=None)
    nominal, bodies = prior(robot), {body.link: np.array(body.P0) for body in believed.bodies}
    changes = np.zeros((N_ROBOTS, len(nominal)))
    for link, P0 in bodies.items():
        L = np.linalg.cholesky(P0)
        E = rng.normal(size=(N_ROBOTS, 4, 4))
        P = L @ (0.5 * (E + E.transpose(0, 2, 1))) @ L.T  # unit variance on the diagonal, a half beside it
        xx, yy, zz = (P[:, k, k] for k in range(3))
        parts = (yy + zz, -P[:, 0, 1], -P[:, 0, 2], xx + zz, -P[:, 1, 2], xx + yy, P[:, 0, 3], P[:, 1, 3], P[:, 2, 3])
        changes[:, 10 * link : 10 * link + 10] = np.transpose([*parts, P[:, 3, 3]])
    drives = slice(10 * len(bodies), None)
    changes[:, drives] = nominal[drives] * rng.normal(size=(N_ROBOTS, len(nominal[drives])))
    changes[:, robot.assumed_zero] = 0.0
    if box:
        sizes = np.zeros(len(nominal))
        sizes[believed.columns] = np.linalg.norm(believed.B, axis=1) * (nominal[believed.columns] != 0.0)
        changes = sizes * rng.choice([-1.0, 1.0], size=changes.shape)
    return np.asarray(nominal + SPREAD * changes)


def torques_by_pinocchio(robot: Robot, motion: Motion, chi: FloatArray) -> FloatArray:
    """Torques of links by pinocchio, of drives by numpy, (n_samples, n_joints, n_robots)."""
    cell = PinocchioCell(robot, None)
    order, n = [4, 5, 7, 6, 8, 9, 1, 2, 3, 0], robot.n_joints
    cell.model.gravity.linear = np.array(cell.tree.gravity)
    tau = np.empty((len(motion), n, len(chi)))
    for k, (q, v, a) in enumerate(zip(motion.q + cell.tree.offset, motion.dq, motion.ddq, strict=True)):
        Y = cell.pin.computeJointTorqueRegressor(cell.model, cell.data, q, v, a).reshape(n, -1, 10)[:, :, order]
        tau[k] = Y.reshape(n, -1) @ chi[:, : 10 * cell.tree.n_links].T
    names = list(layout(robot).names)
    for rotor in robot.drive.rotors:
        value = chi[:, names.index(rotor.parameter)]
        tau += (motion.ddq @ rotor.senses)[:, None, None] * rotor.acts[:, None] * value
    for term in robot.drive.friction:
        sensed = motion.dq @ term.senses
        g = {"viscous": sensed, "coulomb": np.sign(sensed), "offset": np.ones(len(motion))}[term.model]
        tau += g[:, None, None] * term.acts[:, None] * chi[:, names.index(term.parameter)]
    return tau


def tool_accelerations_by_pinocchio(robot: Robot, motion: Motion) -> FloatArray:
    """Size of the tool point's acceleration by pinocchio, (n_samples,)."""
    cell = PinocchioCell(robot, None)
    tool, found = robot.tool, np.empty(len(motion))
    placement = cell.pin.SE3(cell.tree.after[tool.link] @ tool.T_link_frame)
    frame = cell.model.addFrame(cell.pin.Frame("tool", tool.link + 1, placement, cell.pin.FrameType.OP_FRAME))
    data = cell.model.createData()
    for k, (q, v, a) in enumerate(zip(motion.q + cell.tree.offset, motion.dq, motion.ddq, strict=True)):
        cell.pin.forwardKinematics(cell.model, data, q, v, a)
        moved = cell.pin.getFrameClassicalAcceleration(cell.model, data, frame, cell.pin.ReferenceFrame.LOCAL)
        found[k] = np.linalg.norm(moved.linear)
    return found


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {  # the longest first
    "constraints": measure_constraints,
    "quality": measure_quality,
    "feasibility": measure_feasibility,
    "peers": measure_peers,
    "ur10": measure_ur10,
    "cost": measure_cost,
    "cells": measure_cells,
    "forecast": measure_forecast,
    "robustness": measure_robustness,
    "sequence": measure_sequence,
}
