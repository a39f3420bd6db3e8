"""Simulation of a campaign's programs on a virtual robot: logs, and the true parameters.

Logs are in logs/<target>/, written atomically, and never replace recorded ones. Faults are given as `NAME`,
`NAME:joint`, `NAME:joint,joint` or `NAME:channel`, the same in every program.
"""

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from excitor.design.programs import registry
from excitor.design.programs.package import program_names_of
from excitor.design.programs.plan import MEASURED, Plan
from excitor.experiments.campaign import OpenCampaign, inside, open_campaign
from excitor.experiments.design_json import design_digest
from excitor.experiments.emit import plans_of, stale_programs
from excitor.experiments.files import new_folder, swap, write_atomically
from excitor.experiments.in_memory.solution import Run, program_name, runs_of
from excitor.experiments.log_formats import declared_for, format_of, refusal
from excitor.experiments.logs import declared_by
from excitor.experiments.manifest import MANIFEST, PROGRAMS
from excitor.experiments.virtual.loggers import settings_for, write
from excitor.experiments.virtual.machine import CHANNELS, FAULTS, Fault, RecordedRun, aimed, run_program
from excitor.experiments.virtual.robot import Settings, Truth, draw_truth, true_parameters, truth_data
from excitor.identify.log import Log
from excitor.identify.logs.read import read_log
from excitor.robots.base import base_parameters
from excitor.robots.errors import ExcitorError
from excitor.robots.robot import Robot

TRUTH = "truth.json"
Listen = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of a campaign's simulation."""

    seed: int = 0
    faults: tuple[str, ...] = ()
    dry: bool = False  # dry runs too
    fresh: bool = False  # earlier simulated logs are replaced
    format: str | None = None  # of the log, where a target has several
    settings: Settings | None = None


@dataclass(frozen=True, eq=False, slots=True)
class SimulationResult:
    """Result of a target: logs, or the reason why there are none."""

    target: str
    folder: Path | None
    data: dict[str, Any]  # as in simulated.json
    refused: str = ""


def simulate(
    folder: Path, targets: Sequence[str], options: SimulationOptions, listen: Listen
) -> list[SimulationResult]:
    """Run a campaign's emitted programs on a virtual robot; without targets, those of all controllers emitted for.

    Nothing is written unless every target's programs are up to date and its place is free.
    """
    campaign = open_campaign(folder, "design")
    plans = [judged.plan for judged in plans_of(campaign).programs]
    names = list(dict.fromkeys(targets)) or _emitted(campaign)
    for name in names:
        registry.target(name)
        problems = stale_programs(campaign, name)
        if problems:
            message = "; ".join(problems)
            raise ExcitorError(message if message.startswith(str(campaign.folder)) else f"programs/{name}: {message}")
    refused = {name: refusal(name, plans[0].robot, _form(name, options, names)) for name in names}
    for name in names:
        if not refused[name]:
            check_free(campaign.folder, name, options.fresh)
    faults = [aim(fault_of(text, plans[0].robot), plans, options.seed) for text in options.faults]
    truth = true_robot(campaign, plans, options)
    message = (
        json.dumps({**truth_data(truth), "faults": [_fault_data(fault, plans[0]) for fault in faults]}, indent=1) + "\n"
    )
    if not all(refused.values()):
        write_atomically(campaign.folder / TRUTH, message)
    digest = hashlib.sha256(message.encode()).hexdigest()
    return [
        SimulationResult(name, None, {}, refused[name])
        if refused[name]
        else _Stage(
            campaign, name, replace(options, format=_form(name, options, names)), truth, tuple(faults), digest
        ).run(plans, listen)
        for name in names
    ]


def simulate_run(
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
    (one,) = runs_of(run, robot)
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
        log = read_log(path, declared_by(target, plan.robot), plan.robot.joint_names)
    return replace(log, path=f"simulated {name}", target=target)


def true_robot(campaign: OpenCampaign, plans: Sequence[Plan], options: SimulationOptions) -> Truth:
    """Draw (random) the true robot; of a payload campaign, the arm of that seed, and a load unlike the guess."""
    if campaign.content.task == "arm":
        return draw_truth(plans[0].robot, options.seed, options.settings)
    from excitor.experiments.virtual.robot import draw_load

    guess = next((plan.robot.payload for plan in plans if plan.robot.payload is not None), None)
    assert guess is not None  # a payload campaign has runs with the load
    arm = draw_truth(replace(campaign.robot, payload=None), options.seed, options.settings)
    return replace(arm, load=draw_load(guess.phi, options.seed))


def _form(name: str, options: SimulationOptions, names: Sequence[str]) -> str | None:
    """Apply a log format to the one target that is requested."""
    if options.format is not None and len(names) > 1:
        raise ExcitorError(f"log format {options.format} goes with one target; name it with --target")
    return format_of(name, options.format).name


def _emitted(campaign: OpenCampaign) -> list[str]:
    parent = campaign.folder / PROGRAMS
    names = [name for name in registry.NAMES if (parent / name).is_dir()]
    if not names:
        raise ExcitorError(f"{parent}: has no programs; run excitor emit {campaign.folder} --target NAME first")
    return names


@dataclass(frozen=True, eq=False, slots=True)
class _Stage:
    """One target's logs."""

    campaign: OpenCampaign
    target: str
    options: SimulationOptions
    truth: Truth
    faults: tuple[Fault, ...]
    truth_digest: str

    def run(self, plans: Sequence[Plan], listen: Listen) -> SimulationResult:
        """Run the programs, and write their logs."""
        names = program_names_of(plans, registry.target(self.target))
        chosen = [(name, plan) for name, plan in zip(names, plans, strict=True) if self.options.dry or not plan.dry]
        with new_logs(self.campaign.folder, self.target) as folder:
            programs = []
            for k, (name, plan) in enumerate(chosen, start=1):
                listen(f"simulating {self.target}/{name}, {k} of {len(chosen)}")
                programs.append(self._program(folder, name, plan))
            data = {**self._head(plans[0]), "programs": programs}
            (folder / MARK).write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", "utf-8")
        return SimulationResult(self.target, self.campaign.folder / "logs" / self.target, data)

    def _program(self, folder: Path, name: str, plan: Plan) -> dict[str, Any]:
        form = format_of(self.target, self.options.format)
        truth = replace(self.truth, settings=settings_for(self.target, form, plan, self.truth.settings))
        seed = _seed(self.options.seed, f"{self.target}/{name}")
        recorded = run_program(truth, plan, seed=seed, faults=self.faults)
        paths = write(recorded, folder, name, target=self.target, format=form.name, seed=self.options.seed)
        return {
            "program": name,
            "run": plan.run,
            "role": plan.role,
            "dry": plan.dry,
            "log": paths[0].name,
            "rows": len(recorded.t),
            "seed": seed,
            "files": digests(folder, paths),
            "truth": _truth_while_measured(truth, recorded),
        }

    def _head(self, plan: Plan) -> dict[str, Any]:
        manifest = self.campaign.folder / PROGRAMS / self.target / MANIFEST
        return {
            **FORMAT,
            "excitor": version("excitor"),
            "target": self.target,
            "robot": plan.robot.name,
            "log_format": format_of(self.target, self.options.format).name,
            "log": declared_for(self.target, plan.robot, self.options.format),
            "seed": self.options.seed,
            "faults": [_fault_data(fault, plan) for fault in self.faults],
            "made_from_sha256": {
                "campaign": self.campaign.digest,
                "design.json": design_digest(self.campaign.folder),
                "manifest.json": hashlib.sha256(manifest.read_bytes()).hexdigest(),
            },
            "truth_sha256": self.truth_digest,
        }


def _truth_while_measured(truth: Truth, recorded: RecordedRun) -> list[dict[str, Any]]:
    """Write the true base parameters, friction at its mean temperature while the program measured."""
    measured = recorded.mark >= MEASURED
    warm = recorded.temperature[measured if measured.any() else slice(None)].mean(axis=0)
    base = base_parameters(recorded.robot)
    values = base.values(true_parameters(truth, recorded.robot, temperature=warm, sensed=truth.settings.joint_sensors))
    return [
        {"name": name, "unit": unit, "value": float(value)}
        for name, unit, value in zip(base.names, base.units, values, strict=True)
    ]


def _fault_data(fault: Fault, plan: Plan) -> dict[str, Any]:
    return {
        "name": fault.name,
        "sentence": fault.sentence,
        "channel": fault.channel,
        "joints": [plan.robot.joint_names[j] for j in fault.joints],
        "size": fault.size,
    }


def _seed(seed: int, name: str) -> int:
    """Return a program's own noise seed, independent of which others are run."""
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


FOLDER, MARK = "logs", "simulated.json"
FORMAT = {"format": "excitor-simulated", "version": 1}


def check_free(campaign: Path, target: str, fresh: bool) -> None:
    """Refuse to write where logs are, unless they are simulated, unchanged, and new ones are requested."""
    place = campaign / FOLDER / target
    if not inside(campaign, f"{FOLDER}/{target}"):
        raise ExcitorError(f"{place}: leads out of the campaign's folder; remove the link")
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    real = _not_simulated(place)
    if real:
        raise ExcitorError(
            f"{place}: holds {real}, which no simulation wrote; move it elsewhere, so that it is not lost"
        )
    if not fresh:
        raise ExcitorError(f"{place}: has simulated logs already; add --fresh to replace them")


@contextmanager
def new_logs(campaign: Path, target: str) -> Iterator[Path]:
    """Yield an empty folder to write to, which replaces the target's folder on success."""
    parent = campaign / FOLDER
    place = parent / target
    temporary = None
    try:
        parent.mkdir(exist_ok=True)
        temporary = new_folder(place)
        yield temporary
        swap(temporary, place)
    except OSError as error:
        raise ExcitorError(f"{place}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def digests(folder: Path, paths: list[Path]) -> list[dict[str, str]]:
    """List files, those in folders too, with their SHA-256."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [
        {"name": file.relative_to(folder).as_posix(), "sha256": _digest(file)} for file in files if not file.is_dir()
    ]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _not_simulated(place: Path) -> str:
    """Return a file that is not as recorded in simulated.json; empty where all are."""
    if not place.is_dir():
        return place.name
    listed = {MARK: ""} | _listed(place)
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() or name not in listed or (name != MARK and _digest(path) != listed[name]):
            return name
    return ""


def _listed(place: Path) -> dict[str, str]:
    try:
        data: dict[str, Any] = json.loads((place / MARK).read_text("utf-8"))
        return {str(file["name"]): str(file["sha256"]) for run in data["programs"] for file in run["files"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def fault_of(text: str, robot: Robot) -> Fault:
    """Parse a fault; an unknown one raises an error that lists all."""
    name, _, rest = text.partition(":")
    if name not in FAULTS:
        listed = "\n".join(f"  {fault.name}: {fault.sentence}" for fault in FAULTS.values())
        raise ExcitorError(f"there is no fault {name!r}; faults are\n{listed}")
    fault = FAULTS[name]
    for word in filter(None, rest.split(",")):
        if word in CHANNELS.get(name, ()):
            fault = replace(fault, channel=word)
        else:
            fault = replace(fault, joints=(*fault.joints, _joint(text, word, robot)))
    count = {"swapped-axes": 2}.get(name)
    if count and fault.joints and len(set(fault.joints)) != count:
        raise ExcitorError(f"--fault {text}: name the two joints that change places, such as {name}:A,B")
    return fault


def aim(fault: Fault, plans: Sequence[Plan], seed: int) -> Fault:
    """Choose joints and size once, in the first program where the fault can show; all programs use the same."""
    problem = ""
    for plan in sorted(plans, key=lambda plan: plan.dry):
        try:
            return aimed(fault, plan, seed)
        except ValueError as error:
            problem = problem or str(error)
    raise ExcitorError(f"{problem}, nor in any other; choose another fault")


def _joint(text: str, word: str, robot: Robot) -> int:
    """Find a joint by its name, or by its number from 1."""
    names = list(robot.joint_names)
    if word in names:
        return names.index(word)
    if word.isdecimal() and 1 <= int(word) <= len(names):
        return int(word) - 1
    channels = CHANNELS.get(text.partition(":")[0], ())
    expected = f"expected one of {', '.join(names)}" + (f", or how it shows: {', '.join(channels)}" if channels else "")
    raise ExcitorError(f"--fault {text}: {robot.name} has no joint {word!r}; {expected}")
