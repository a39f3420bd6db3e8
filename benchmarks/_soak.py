"""Work that goes on for long: cycles of a watch, arms of a fleet, designs of random robots; what grows or is left.

A tenth of each part comes first, so that caches are filled and code is compiled before anything is compared.
"""

import contextlib
import gc
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from excitor.experiments.campaign import open_campaign
from excitor.experiments.fleet.fleet import fleet
from excitor.experiments.setup import Overrides
from excitor.experiments.stages import design_stage, identify_stage
from excitor.experiments.watch.session import begin_session, open_basis, take
from excitor.identify.samples import Samples
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from tests.campaigns import RATE, motion_of, true_robot, write_campaign
from tests.random_arms import tree_urdf

PERIOD = 1.0  # s of a cycle
ARMS = 5  # of a fleet
CAMPAIGN = """robot = "tree.urdf"
[design]
schedule = "single"
base_frequency_hz = 0.5
harmonics = 2
ramp_s = 1.0
measured_periods = 1
warm_up_periods = 0
controller_sample_s = 0.01
"""


def soak(full: bool) -> tuple[dict[str, float], list[str]]:
    """Growth of the resident memory by part, MB, and the handles, processes and files that a part leaves behind."""
    parts = {"cycles": (cycles, 1_000_000), "arms": (arms, 1000 // ARMS), "designs": (designs, 300)}
    grown, left = {}, []
    for name, (part, rounds) in parts.items():
        with _folder() as folder, _folder() as temporary, _files_go_to(temporary):
            once, n = part(folder), rounds if full else rounds // 20
            for k in range(n // 10 + 1):
                once(k)
            memory, handles, processes = _resident(), _handles(), _processes()
            for k in range(n // 10 + 1, n):
                once(k)
            grown[name] = _resident() - memory
            for what, before, after in (
                ("handles", handles, _handles()),
                ("processes", processes, _processes()),
                ("temporary files", 0, len(list(temporary.rglob("*")))),
            ):
                left += [f"{name}: {after - before} {what}"] if after > before else []
    return grown, left


def cycles(folder: Path) -> Callable[[int], None]:
    """Take cycles of one motion with noise of their own, a watch of a Rotradi."""
    write_campaign(folder, seconds=20.0)
    identify_stage(folder, None, _silent)
    robot, rng = true_robot(), np.random.default_rng(0)
    motion = motion_of(robot, PERIOD, 0, base_hz=1.0 / PERIOD, harmonics=3)[1][::4]
    tau = inverse_dynamics(robot, motion)
    session = begin_session(open_basis(open_campaign(folder)))

    def once(k: int) -> None:
        noisy = Samples("live", motion, tau + 0.1 * rng.normal(size=tau.shape), RATE / 4.0)
        take(session, noisy, process="a", log="live.csv", t=k * PERIOD, clock=k * PERIOD)

    return once


def arms(folder: Path) -> Callable[[int], None]:
    """Identify all arms of a fleet anew."""
    for k in range(ARMS):
        unit = folder / "line" / f"unit {k}"
        unit.mkdir(parents=True)
        write_campaign(unit, seconds=6.0, noise_seed=lambda run, k=k: 10 * k + run)

    def once(k: int) -> None:
        for path in (folder / "line").glob("*/model.json"):
            path.unlink()
        assert len(fleet(folder / "line", out=folder / f"fleet {k}").rows) == ARMS

    return once


def designs(folder: Path) -> Callable[[int], None]:
    """Design a motion of a random robot, another one each time; what no motion fits is refused."""
    (folder / "campaign.toml").write_text(CAMPAIGN, "utf-8")

    def once(k: int) -> None:
        (folder / "tree.urdf").write_text(tree_urdf(k), "utf-8")
        with contextlib.suppress(ExcitorError):
            design_stage(folder, Overrides(evaluations=300, fresh=True), _silent)

    return once


def _silent(_: str) -> None:
    return None


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="excitor-soak-") as name:
        yield Path(name)


@contextlib.contextmanager
def _files_go_to(folder: Path) -> Iterator[None]:
    """Let temporary files be made in a folder, so that those that stay are seen."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _handles() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def _processes() -> int:
    """Count the processes that this one began."""
    lists = Path("/proc/self/task").glob("*/children")
    return sum(len(each.read_text().split()) for each in lists)


def _resident() -> float:
    """Resident memory, MB; where /proc is missing, its peak."""
    gc.collect()
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
