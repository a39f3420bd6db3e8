"""Benchmark of robots from URDF files: volumes fitted to meshes, unwatched links, and the virtual robot's servo."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure, Report
from excitor.experiments.init import begin
from excitor.experiments.log_formats import torque_scale
from excitor.experiments.plan import volume_checks
from excitor.experiments.setup import Setup, set_up
from excitor.experiments.virtual.machine import run_program
from excitor.experiments.virtual.robot import Settings, draw_truth
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
from tests.meshes import PANDA, UR5, Meshes, deepest, mesh_arm, volume_ratio
from tests.random_arms import tree_plan

POSES = 20_000
TREES = 60
OFF, CHATTER = 0.03, 5.0  # of a joint's travel; of the planned torque's steps, with the noise
ZONE = '\n[[cell.zone]]\nname = "far"\nkeep = "out"\nshape = "box"\nlow = [5, 5, 5]\nhigh = [6, 6, 6]\n'


def run(full: bool = False) -> Report:
    """Measure a made arm, and the public files where they are; `full` takes ten times as many poses."""
    with tempfile.TemporaryDirectory(prefix="excitor-strangers-") as name:
        folder = Path(name)
        sources = [mesh_arm(folder), *(path for path in (UR5, PANDA) if path.is_file())]
        fitted = [_fitted(path) for source in sources for path, _ in companions(source) if path.suffix == ".stl"]
        poses = [_poses(source, POSES if full else POSES // 10, folder) for source in sources]
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
    ]
    context = {"robots": [path.name for path in sources], "meshes": len(fitted), "volumes_removed": len(removed)}
    context |= {"trees": len(trees), "refused": servo.count("refused")}
    return Report("bench", "strangers", figures, context)


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
