"""The programs' bench: mutations that must be caught, what emitting and verifying costs, what streaming keeps to."""

import importlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from excitor.design.programs import registry
from excitor.design.programs.package import Package, package
from excitor.design.programs.verify import verify
from excitor.experiments.campaign import open_campaign
from excitor.experiments.emit import Judged, emit, own_files, plans_of
from excitor.experiments.figures import Figure, Report
from excitor.experiments.plan import design
from excitor.experiments.setup import set_up, settings_of
from excitor.experiments.verbs.design import write_all
from excitor.robots.arrays import one_blas_thread
from excitor.robots.load import load

LEAST = 15  # mutations of each target
SHORT = """robot = "{robot}"
home_deg = {home}
[payload]
mass = 1.0
center = [0.0, 0.0, 0.05]
inertia = [0.002, 0, 0, 0.002, 0, 0.002]
[design]
schedule = "single"
base_frequency_hz = 0.5
harmonics = 3
ramp_s = 1.0
settle_s = 0.4
hold_s = 0.4
warm_up_periods = 1
measured_periods = 2
controller_sample_s = 0.008
"""
HOME = [10.0, 20.0, -30.0, 15.0, 25.0, -20.0, 5.0]  # deg: all different, so that swapping any two is an error
LONG = """robot = "tx40"
[design]
schedule = "single"
measured_periods = 10
controller_sample_s = 0.008
"""


def run(full: bool = False) -> Report:
    """Measure mutations, cost and streams; `full` tries every mutation and streams for 20 s, else a part of it."""
    figures: list[Figure] = []
    context: dict[str, Any] = {}
    with one_blas_thread(), tempfile.TemporaryDirectory(prefix="excitor-bench-") as folder:
        for name, part in (("mutations", mutations), ("cost", cost)):
            start = time.process_time()
            measured = part(Path(folder), full)
            figures += measured["figures"]
            context[name] = {**measured["context"], "cpu_s": round(time.process_time() - start, 1)}
    measured = streams(full)
    return Report("bench", "programs", [*figures, *measured["figures"]], context | {"streams": measured["context"]})


def mutations(folder: Path, full: bool) -> dict[str, Any]:
    """Change each target's programs in many ways, and count how often `verify` notices; no digest helps it."""
    total, caught = 0, 0
    told: dict[str, Any] = {}
    for name in registry.NAMES:
        robot = "iiwa" if registry.target(name).joints == 7 else "tx40"
        made, judged = short_package(folder / robot, robot, name)
        found = list(noticed(made, judged, mutated(made, full)))
        missed, count = [label for label, noticed in found if not noticed], len(found)
        told[name] = {"mutations": count, "missed": missed}
        total, caught = total + count, caught + count - len(missed)
    return {
        "figures": [
            Figure("programs.mutations_total", float(total), "", float(LEAST * len(registry.NAMES)), "at least"),
            Figure("programs.mutations_caught", float(caught), "", float(total), "equal"),
        ],
        "context": told,
    }


def cost(folder: Path, full: bool) -> dict[str, Any]:
    """Emit and verify a 10 s, 10-period design of six joints for every target that can drive it."""
    where = _designed(folder / "long", LONG)
    start = time.process_time()
    _, emitted = emit(where, ["all"], approximate=True, spacing=None, loss=1.0, listen=lambda _: None, allow=["no-go"])
    spent = time.process_time() - start
    bad = [one.refused for one in emitted if one.folder is None and one.name != "franka"]
    script = where / "programs" / "urscript" / "excitation.script"
    size = float(script.stat().st_size) if script.exists() else float("nan")
    return {
        "figures": [
            Figure("programs.emit_verify_cpu_s", spent, "s CPU", 60.0, "at most"),
            Figure("programs.refused", float(len(bad)), "", 0.0, "equal"),
            Figure("programs.urscript_bytes", size, "bytes", 6000.0, "at most"),
        ],
        "context": {"refused": bad, "written": [one.name for one in emitted if one.folder is not None], "full": full},
    }


def streams(full: bool) -> dict[str, Any]:
    """Talk to fake controllers over loopback in real time, some packets late and some lost."""
    figures: list[Figure] = []
    told: dict[str, Any] = {}
    for name in ("egm", "rsi"):
        part = importlib.import_module(f"excitor.experiments.bench.programs_{name}")
        found = part.measure(20.0 if full else 3.0, 0.05, 0.01, 0)
        told[name] = found
        figures += [
            Figure(f"programs.{name}.error_deg", found["max_error_deg"], "deg", 1e-4, "at most"),
            Figure(f"programs.{name}.stops_on_silence", float(found["stopped"]), "", 1.0, "equal"),
            Figure(f"programs.{name}.resumes_by_itself", float(found["resumed"]), "", 0.0, "equal"),
            Figure(f"programs.{name}.turnaround_us", found["turnaround_us_median"], "µs"),
            Figure(f"programs.{name}.turnaround_us_p999", found["turnaround_us_p999"], "µs"),
        ]
    return {"figures": figures, "context": told}


def noticed(
    made: Package, judged: Judged, changed: Iterable[tuple[str, Mapping[str, str]]]
) -> Iterator[tuple[str, bool]]:
    """Tell of each changed program whether running it shows that it is wrong."""
    executor, name = registry.executor(made.target.name), made.programs[0].name
    for label, files in changed:
        own = own_files(files, name, [name], made.target)
        verdict = verify(judged.plan, made.target, executor, files=own, name=name, judge=judged.judge)
        yield label, not verdict.good


def mutated(made: Package, full: bool) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Take every mutation; a run that is not full takes the first fifteen of each target."""
    module = made.target.name.replace("-", "_")
    source = importlib.import_module(f"excitor.experiments.bench.mutations.{module}")
    yield from islice(source.mutations(made.texts, made.programs[0].name), None if full else LEAST)


def short_package(folder: Path, robot: str, name: str) -> tuple[Package, Judged]:
    """Write the program of one short run, not its dry run."""
    where = (
        folder
        if (folder / "design.json").exists()
        else _designed(folder, SHORT.format(robot=robot, home=HOME[: load(robot).n_joints]))
    )
    judged = next(one for one in plans_of(open_campaign(where, "design")).programs if not one.plan.dry)
    return package(registry.emitter(name), [judged.plan]), judged


def _designed(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "campaign.toml").write_text(text, "utf-8")
    setup = set_up(open_campaign(folder, "design"))
    write_all(design(setup, settings_of(setup.design, {"evaluations": 2000})))
    return folder
