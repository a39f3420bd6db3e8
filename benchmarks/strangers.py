"""Benchmark of robots that we did not make: volumes, unwatched links, the virtual servo, and what hangs on the tool.

Volumes: how tight those fitted to meshes are. Loads: four robots carry nothing, the stated tool, another, or one that
nobody stated; each run must be accepted, or refused with the figures. Chains: public robots in a cell, with a tool,
from init to a model, simulated again and again, with both engines.
"""

import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from benchmarks.chain import Pair, aligned, judged, truth_of
from excitor.experiments.align.nouns import REACH_95, Misalignment
from excitor.experiments.campaign import open_campaign
from excitor.experiments.emit import Request, emit
from excitor.experiments.figures import Figure, Report
from excitor.experiments.identification import IdentifiedModel, identify, read_and_examine
from excitor.experiments.init import begin
from excitor.experiments.log_formats import torque_scale
from excitor.experiments.plan import design, volume_checks
from excitor.experiments.setup import Setup, set_up, settings_of
from excitor.experiments.simulate import TRUTH, Engine, SimulationOptions, simulate
from excitor.experiments.stages import write_all
from excitor.experiments.virtual.machine import run_program
from excitor.experiments.virtual.robot import Settings, draw_truth
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import random_motion
from excitor.robots.cell import Scene, clearances
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.files.meshes import read_mesh
from excitor.robots.files.urdf import companions
from excitor.robots.load import load
from excitor.robots.robot import Motion
from excitor.robots.simulate import with_friction_width
from excitor.robots.volumes import cover_triangles
from tests.meshes import GRIPPER, PANDA, UR5, Meshes, deepest, mesh_arm, volume_ratio
from tests.random_arms import tree_plan

POSES = 20_000
TREES = 60
OFF, CHATTER = 0.03, 5.0  # of a joint's travel; of the planned torque's steps, with the noise
ZONE = '\n[[cell.zone]]\nname = "far"\nkeep = "out"\nshape = "box"\nlow = [5, 5, 5]\nhigh = [6, 6, 6]\n'
TARGETS, SEEDS, TENTH = ("ros2", "csv"), range(3), 11  # every eleventh case without --full
LOADS = {"no tool": (0, 0), "as stated": (2, 2), "heavier": (2, 4), "not stated": (0, 2)}  # kg stated and carried
EDITS = {
    'schedule = "together"': 'schedule = "single"',
    "evaluations = 20000": "evaluations = 400",
    "measured_periods = 5": "measured_periods = 2",
}
TOOL = "[payload]\nmass = 2.0\ncenter = [0.01, -0.02, 0.07]\ninertia = [0.006, 0, 0, 0.005, 0, 0.004]\n\n[limits]"
CELL = """
[[cell.zone]]
name = "table"
keep = "out"
shape = "box"
low = [-1.0, -1.0, -0.15]
high = [1.0, 1.0, -0.03]

[[cell.zone]]
name = "wall"
keep = "out"
shape = "half-space"
point = [-0.6, 0.0, 0.0]
normal = [1.0, 0.0, 0.0]

[[cell.zone]]
name = "workspace"
keep = "in"
shape = "box"
low = [-1.0, -1.2, -0.3]
high = [1.2, 1.2, 1.6]
bodies = "tool"
"""
CHAINS = {UR5: ("urscript", "ros2"), GRIPPER: ("urscript", "ros2"), PANDA: ("franka", "ros2")}
ENGINES: tuple[Engine, ...] = ("excitor", "mujoco")
REPETITIONS = 20  # of one design; without --full 2 of the first robot, our engine, a short search
WIDER = 1.5  # than the scatter asks for


def run(full: bool = False) -> Report:
    """Measure a made arm, and the public files where they are; `full` takes ten times as many poses and loads."""
    with tempfile.TemporaryDirectory(prefix="excitor-strangers-") as name:
        folder = Path(name)
        sources = [mesh_arm(folder), *(path for path in (UR5, PANDA) if path.is_file())]
        fitted = [_fitted(path) for source in sources for path, _ in companions(source) if path.suffix == ".stl"]
        poses = [_poses(source, POSES if full else POSES // 10, folder) for source in sources]
        loads, chains = _campaigns(folder, full)
        removed = [go for k, source in enumerate(sources) for go in _unwatched(source, folder / f"cell{k}")]
    trees = range(TREES) if full else range(3, TREES, 11)
    servo = [_servo(seed) for seed in trees]
    ratios, outside = np.array(fitted).T
    free, missed = np.array(poses).T
    figures = [
        Figure("strangers.volume_ratio.median", float(np.median(ratios)), "", 2.0, "at most"),
        Figure("strangers.volume_ratio.worst", float(ratios.max()), "", 4.0, "at most"),
        Figure("strangers.vertices_outside", int((outside > 0.0).sum()), "", 0, "equal"),
        Figure("strangers.free_poses_percent", 100.0 * float(free.min()), "%", 50.0, "at least"),
        Figure("strangers.missed_collisions", int(missed.sum()), "", 0, "equal"),
        Figure("strangers.unwatched_go", sum(removed), "", 0, "equal"),
        Figure("strangers.servo_tracked", servo.count("tracked"), "", 0.9 * len(trees), "at least"),
        Figure("strangers.servo_bad", servo.count("bad"), "", 0, "equal"),
        Figure(
            "strangers.load_matrix_right_percent",
            100.0 * sum(not wrong for wrong in loads.values()) / len(loads),
            "%",
            100.0,
            "at least",
        ),
        *_figures_of(chains),
    ]
    context = {"robots": [path.name for path in sources], "meshes": len(fitted), "volumes_removed": len(removed)}
    context |= {"trees": len(trees), "refused": servo.count("refused")}
    context |= {"load_cases": len(loads), "loads_wrong": {case: wrong for case, wrong in loads.items() if wrong}}
    context |= {"chains": {case: [round(pair.noise_ratio, 3) for pair, _ in made] for case, made in chains.items()}}
    return Report("bench", "strangers", figures, context)


def _campaigns(folder: Path, full: bool) -> tuple[dict[str, str], dict[str, list[tuple[Pair, FloatArray]]]]:
    """Go through load matrix and chains, a process each robot."""
    robots = [*([str(UR5)] if UR5.is_file() else []), "ur10", "tx40", "iiwa"]
    wanted = list(product(robots, LOADS, TARGETS, SEEDS))[:: None if full else TENTH]
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of compiled code
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4), context) as pool:
        paths = [path for path in CHAINS if path.is_file()][: None if full else 1]
        chains = [pool.submit(_alone, _chains, folder, path, full) for path in reversed(paths)]  # the longest first
        loads = [
            pool.submit(_alone, _load_matrix, folder, robot, [case for first, *case in wanted if first == robot])
            for robot in robots
        ]
        return {k: v for one in loads for k, v in one.result().items()}, {
            k: v for one in chains for k, v in one.result().items()
        }


@one_blas_thread()
def _alone(work: Callable[..., Any], *given: Any) -> Any:
    return work(*given)


def _figures_of(chains: dict[str, list[tuple[Pair, FloatArray]]]) -> list[Figure]:
    """Sum up chains: held-out errors over the noise, and errors over the half-widths of their intervals.

    Repetitions are of one design of each robot, over its targets and engines; the worst robot counts. Half-widths are
    compared with those that the scatter of a parameter's errors asks for. Errors of one repetition depend on each
    other. So a few repetitions bound the coverage from below only, and their width is that of the whole confidence
    ellipsoid: sqrt(parameters / chi square).
    """
    if not chains:
        return []
    worst = max(float(np.sqrt(np.mean([pair.noise_ratio**2 for pair, _ in made]))) for made in chains.values())
    robots: dict[str, list[tuple[Pair, FloatArray]]] = {}
    for case, made in chains.items():
        robots.setdefault(case.partition(" ")[0], []).extend(made)
    errors = [np.array([errors for _, errors in made]) for made in robots.values()]
    shares = [100.0 * float(np.mean(np.abs(one) <= 1.0)) for one in errors]
    covered = max(shares, key=lambda share: abs(share - 94.85))
    coverage = Figure("strangers.coverage_percent", covered, "%", 94.85, "within", tolerance=4.85)
    width = max(float(np.median(1.0 / (REACH_95 * np.sqrt(np.mean(one**2, axis=0))))) for one in errors)
    if min(map(len, errors)) < REPETITIONS:
        coverage = Figure(coverage.name, covered, "%", 90.0, "at least")
        done = [one for made in robots.values() for one in made]
        width = float(np.sqrt(sum(len(one) for _, one in done) / sum(pair.chi_square for pair, _ in done)))
    return [
        Figure("strangers.heldout_ratio.worst", worst, "times", 1.15, "at most"),
        coverage,
        Figure("strangers.width_ratio", width, "times", WIDER, "at most"),
    ]


def _chains(folder: Path, path: Path, full: bool) -> dict[str, list[tuple[Pair, FloatArray]]]:
    """Design a robot once, and repeat what follows: results by target and engine, which share the repetitions."""
    edits = {"[limits]": TOOL} | ({} if full else {"evaluations = 20000": "evaluations = 400"})
    place = begun(folder / f"chain-{path.stem}", str(path), edits, CELL)
    cases = list(product(CHAINS[path], ENGINES)) if full else [(CHAINS[path][-1], ENGINES[0])]
    for target in {target for target, _ in cases}:
        emit(place, Request((target,)), lambda _: None)
    made: dict[str, list[tuple[Pair, FloatArray]]] = {}
    for seed in range(REPETITIONS if full else 2):
        target, engine = cases[seed % len(cases)]
        made.setdefault(f"{path.stem} {target} {engine}", []).append(chained(place, target, engine, seed))
    return made


def chained(folder: Path, target: str, engine: Engine, seed: int) -> tuple[Pair, FloatArray]:
    """Simulate and identify once; errors of base parameters are those over the half-widths of their intervals."""
    shutil.rmtree(folder / "logs", ignore_errors=True)
    (made,) = simulate(folder, [target], SimulationOptions(seed, engine=engine), lambda _: None)
    identified = identify(open_campaign(folder, "identify"))
    per_unit = unit_of(identified, folder)
    intervals = identified.intervals
    truth, unseen = (
        aligned(truth_of(made.data, role), intervals.names) / per_unit for role in ("identify", "validate")
    )
    errors = 2.0 * (intervals.values - truth) / (intervals.high - intervals.low)
    return judged(Pair(folder.name, target, ""), identified, truth, unseen), errors


def unit_of(identified: IdentifiedModel, folder: Path) -> float:
    """Return a unit of a model's torques in N m: 1, or that of 1 A of the drive whose currents it is in."""
    if not identified.campaign.robot.drive.in_amperes:
        return 1.0
    steps = [step for run in identified.samples.values() for step in run.steps if "drive" in step.settings]
    drive = identified.campaign.robot.joint_names.index(str(steps[0].settings["drive"]))
    return float(json.loads((folder / TRUTH).read_text())["torque_from_current"][drive][1])


def _fitted(path: Path) -> tuple[float, float]:
    """Volume of a mesh's capsules over its hull's, and how far the worst vertex lies outside of them."""
    triangles, _ = read_mesh(path)
    capsules = cover_triangles(triangles)
    return volume_ratio(triangles, capsules), deepest(triangles.reshape(-1, 3), capsules)


def _poses(source: Path, n: int, folder: Path) -> tuple[float, int]:
    """Share of the poses free on the meshes that are free of ours too, and how many of ours collide on the meshes."""
    robot = load(source)
    q = random_motion(robot, n, seed=1).q
    free = ~Meshes(source, robot, folder).collide(q)
    ours = (clearances(robot, Scene(), q) >= 0.0).all(axis=1)
    return float(ours[free].mean()), int((ours & ~free).sum())


def _unwatched(source: Path, folder: Path) -> Iterator[bool]:
    """Whether a campaign is go with the volumes of one link removed, for each; and with none of its meshes."""
    path = begin(folder, str(source))
    path.write_text(path.read_text() + ZONE)
    setup = set_up(open_campaign(folder, "design"))
    for link in sorted({capsule.link for capsule in setup.robot.capsules} - {-1}):
        left = tuple(capsule for capsule in setup.robot.capsules if capsule.link != link)
        yield _goes(replace(setup, robot=replace(setup.robot, capsules=left)))
    for mesh in folder.rglob("*.stl"):
        mesh.unlink()
    path.write_text(path.read_text().replace("self_collision = true", "self_collision = false"))
    yield _goes(set_up(open_campaign(folder, "design")))


def _goes(setup: Setup) -> bool:
    return all(check.holds for check in volume_checks(setup))


def _servo(seed: int) -> str:
    """Run a random tree: whether its log shows that it tracked, or it was refused with the reason."""
    plan = tree_plan(seed)
    truth = draw_truth(plan.robot, seed, Settings(standing=(0.3, 0.4), jitter=0.0))
    try:
        log = run_program(truth, plan, seed=seed)
    except ExcitorError as refused:
        return "refused" if any(name in str(refused) for name in plan.robot.joint_names) else "bad"
    late = CubicSpline(log.t, log.q_reference)(log.t - truth.settings.command_lag)
    lost = np.abs(log.q - late).max(axis=0) > np.maximum(OFF * np.ptp(late, axis=0), 2e-3)
    motion = Motion(*(CubicSpline(log.t, late)(log.t, order) for order in range(3)))
    planned = inverse_dynamics(with_friction_width(plan.robot, 0.01), motion)
    jumps, allowed = (np.sqrt(np.mean(np.diff(tau, axis=0) ** 2, axis=0)) for tau in (log.torque_motor, planned))
    shaken = jumps > CHATTER * (allowed + truth.settings.white * torque_scale(plan.robot))
    return "bad" if (lost | shaken).any() else "tracked"


def _load_matrix(folder: Path, robot: str, cases: list[tuple[str, str, int]]) -> dict[str, str]:
    """Find what is wrong with the answer of each case of a robot; it is empty where it is right."""
    designed: dict[int, Path] = {}
    wrong: dict[str, str] = {}
    for name, target, seed in cases:
        stated, carried = LOADS[name]
        if stated not in designed:
            designed[stated] = designed_with(folder / f"load-{Path(robot).stem}-{stated}", robot, stated)
        case = f"{Path(robot).stem}, {name}, {target}, seed {seed}"
        wrong[case] = wrong_answer(designed[stated], target, seed, (stated, carried))
    return wrong


def designed_with(folder: Path, robot: str, stated: int) -> Path:
    """Design one short run of a robot with a tool of so many kg stated, or none, and write its programs."""
    begun(folder, robot, EDITS | ({"[limits]": TOOL} if stated else {}))
    for target in TARGETS:
        emit(folder, Request((target,), allow=("no-go",)), lambda _: None)
    return folder


def begun(folder: Path, robot: str, edits: dict[str, str], cell: str = "") -> Path:
    """Begin a campaign, edit its file, and design it."""
    path = begin(folder, robot)
    text = path.read_text()
    for old, new in edits.items():
        text = text.replace(old, new, 1)
    path.write_text(text + cell)
    setup = set_up(open_campaign(folder, "design"))
    write_all(design(setup, settings_of(setup.design)))
    return folder


def wrong_answer(folder: Path, target: str, seed: int, load: tuple[int, int]) -> str:
    """Simulate a campaign that states a load and carries another; return what is wrong with the answer, if anything."""
    stated, carried = load
    shutil.rmtree(folder / "logs", ignore_errors=True)
    simulate(folder, [target], SimulationOptions(seed, payload_kg=float(carried)), lambda _: None)
    try:
        known = read_and_examine(open_campaign(folder)).load
    except Misalignment as error:
        found = next((check for check in error.checks if check.cause == "wrong payload"), None)
        named = found is not None and abs(stated + found.figure - carried) <= 0.2 * carried
        both = not stated or f"{stated} ± " in str(error)
        return "" if named and both and stated != carried else str(error)
    if stated != carried:
        return "accepted"
    if not stated:
        return "" if known is None else known.sentence
    if known is None or known.found is None:
        return "not weighed"
    mass, sigma = known.found.confirmed
    return "" if abs(mass - carried) <= min(0.1 * carried, REACH_95 * sigma) else known.sentence
