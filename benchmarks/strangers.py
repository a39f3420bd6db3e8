"""Benchmark of robots from URDF files: how tight volumes fitted to meshes are, and whether a link goes unwatched."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from excitor.experiments.campaign import open_campaign
from excitor.experiments.figures import Figure, Report
from excitor.experiments.init import begin
from excitor.experiments.plan import volume_checks
from excitor.experiments.setup import Setup, set_up
from excitor.robots.base import random_motion
from excitor.robots.cell import Scene, clearances
from excitor.robots.files.meshes import read_mesh
from excitor.robots.files.urdf import companions
from excitor.robots.load import load
from excitor.robots.volumes import cover_triangles
from tests.meshes import PANDA, UR5, Meshes, deepest, mesh_arm, volume_ratio

POSES = 20_000
ZONE = '\n[[cell.zone]]\nname = "far"\nkeep = "out"\nshape = "box"\nlow = [5, 5, 5]\nhigh = [6, 6, 6]\n'


def run(full: bool = False) -> Report:
    """Measure a made arm, and the public files where they are; `full` takes ten times as many poses."""
    with tempfile.TemporaryDirectory(prefix="excitor-strangers-") as name:
        folder = Path(name)
        sources = [mesh_arm(folder), *(path for path in (UR5, PANDA) if path.is_file())]
        fitted = [_fitted(path) for source in sources for path, _ in companions(source) if path.suffix == ".stl"]
        poses = [_poses(source, POSES if full else POSES // 10, folder) for source in sources]
        removed = [go for k, source in enumerate(sources) for go in _unwatched(source, folder / f"cell{k}")]
    ratios, outside = np.array(fitted).T
    free, missed = np.array(poses).T
    figures = [
        Figure("strangers.volume_ratio.median", float(np.median(ratios)), "", 2.0, "at most"),
        Figure("strangers.volume_ratio.worst", float(ratios.max()), "", 4.0, "at most"),
        Figure("strangers.vertices_outside", int((outside > 0.0).sum()), "", 0, "equal"),
        Figure("strangers.free_poses_percent", 100.0 * float(free.min()), "%", 50.0, "at least"),
        Figure("strangers.missed_collisions", int(missed.sum()), "", 0, "equal"),
        Figure("strangers.unwatched_go", sum(removed), "", 0, "equal"),
    ]
    context = {"robots": [path.name for path in sources], "meshes": len(fitted), "volumes_removed": len(removed)}
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
