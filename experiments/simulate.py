"""Simulation of a campaign's programs on a virtual robot: logs, and the true parameters.

Logs are in logs/<target>/, written atomically, and never replace recorded ones. Faults are given as `NAME`,
`NAME:joint`, `NAME:joint,joint` or `NAME:channel`, the same in every program.
"""

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from excitor.design.programs import registry
from excitor.design.programs.package import program_names_of
from excitor.design.programs.plan import MEASURED, Plan
from excitor.experiments.campaign import Body, OpenCampaign, open_campaign
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.design_json import design_digest
from excitor.experiments.emit import plans_of, stale_programs
from excitor.experiments.files import new_folder, swap, typed, write_atomically
from excitor.experiments.in_memory.solution import Run, program_name, runs_of
from excitor.experiments.log_formats import declared_for, format_of, in_amperes_of, refusal
from excitor.experiments.logs import declared_by
from excitor.experiments.manifest import MANIFEST, PROGRAMS
from excitor.experiments.setup import loaded
from excitor.experiments.virtual import robot as virtual
from excitor.experiments.virtual.loggers import settings_for, write
from excitor.experiments.virtual.machine import CHANNELS, FAULTS, Engine, Fault, RecordedRun, aimed, run_program
from excitor.identify.log import Log
from excitor.identify.logs.read import read_log
from excitor.robots.arrays import FloatArray, one_blas_thread
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError, did_you_mean
from excitor.robots.files.bounded import open_bounded, read_bounded
from excitor.robots.friction import friction_model
from excitor.robots.inertia import about_center_of_mass, from_center_of_mass
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.simulate import run_controlled
from excitor.robots.tree import Tree

TRUTH = "truth.json"
Listen = Callable[[str], None]
Servos = dict[str, dict[str, Any]]  # of programs: gains, and how well they were followed


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of a campaign's simulation."""

    seed: int = 0
    faults: tuple[str, ...] = ()
    dry: bool = False  # dry runs too
    fresh: bool = False  # earlier simulated logs are replaced
    format: str | None = None  # of the log, where a target has several
    settings: virtual.Settings | None = None
    engine: Engine = "excitor"  # whose plant moves
    payload_kg: float | None = None  # on the tool, whatever the campaign states; None: as stated
    loss: float = 0.0  # mean share that gears lose whose efficiency the robot's file does not state

    @property
    def drawing(self) -> virtual.Settings:
        """Settings that the true robot is drawn with."""
        settings = self.settings or virtual.Settings()
        return replace(settings, unstated_loss=self.loss) if self.loss else settings


@dataclass(frozen=True, eq=False, slots=True)
class SimulationResult:
    """Result of a target: logs, or the reason why there are none."""

    target: str
    folder: Path | None
    data: dict[str, Any]  # as in simulated.json
    refused: str = ""


def simulate(folder: Path, targets: Sequence[str], asked: SimulationOptions, listen: Listen) -> list[SimulationResult]:
    """Run a campaign's emitted programs on a virtual robot; without targets, those of all controllers emitted for.

    The table csv, which every emit writes beside a controller's programs, is then run only where it is alone.
    Nothing is written unless every target's programs are up to date and its place is free.
    """
    campaign = open_campaign(folder, "design")
    plans = [judged.plan for judged in plans_of(campaign, poses=False, n_robots=1).programs]
    names = list(dict.fromkeys(targets)) or _emitted(campaign)
    for name in names:
        registry.target(name)
        problems = stale_programs(campaign, name)
        if problems:
            sentence = "; ".join(problems)
            raise ExcitorError(
                sentence if sentence.startswith(str(campaign.folder)) else f"programs/{name}: {sentence}"
            )
    refused = {name: refusal(name, plans[0].robot, _form(name, asked, names)) for name in names}
    for name in names:
        if not refused[name]:
            check_free(campaign.folder, name, asked.fresh)
    faults = [aim(fault_of(text, plans[0].robot), plans, asked.seed) for text in asked.faults]
    truth = true_robot(campaign, plans, asked)
    stages = [
        _Stage(campaign, name, replace(asked, format=_form(name, asked, names)), truth, tuple(faults))
        for name in names
        if not refused[name]
    ]
    with ExitStack() as stack:
        folders = [stack.enter_context(new_logs(campaign.folder, stage.target)) for stage in stages]
        programs = [stage.programs(folder, plans, listen) for stage, folder in zip(stages, folders, strict=True)]
        aimed = [_said(fault, plans[0]) for fault in faults]
        drawn = virtual.truth_data(truth) | {"engine": asked.engine, "faults": aimed}
        drawn["servos"] = {name: servo for _, servos in programs for name, servo in servos.items()}
        sentence = json.dumps(drawn, indent=1) + "\n"
        digest = hashlib.sha256(sentence.encode()).hexdigest()
        made = {
            stage.target: stage.close(folder, plans[0], logs, digest)
            for stage, folder, (logs, _) in zip(stages, folders, programs, strict=True)
        }
        if stages:
            write_atomically(campaign.folder / TRUTH, sentence)
    return [made.get(name) or SimulationResult(name, None, {}, refused[name]) for name in names]


def _emitted(campaign: OpenCampaign) -> list[str]:
    parent = campaign.folder / PROGRAMS
    names = [name for name in registry.TARGETS if (parent / name).is_dir()]
    if not names:
        raise ExcitorError(f"{parent}: has no programs; run excitor emit {typed(campaign.folder)} --target NAME first")
    return [name for name in names if name != "csv"] or names  # every emit writes the table as well


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
    truth = virtual.draw_truth(plan.robot, seed)
    truth = replace(truth, settings=settings_for(target, form, plan, truth.settings))
    wrong = [aim(fault_of(text, plan.robot), [plan], seed) for text in faults]
    recorded = run_program(truth, plan, seed=_seed(seed, f"{target}/{name}"), faults=wrong)
    with TemporaryDirectory() as folder:
        path = write(recorded, Path(folder), name, target=target, seed=seed)[0]
        log = read_log(path, declared_by(target, plan.robot), plan.robot.joint_names)
    return replace(log, path=f"simulated {name}", target=target)


def true_robot(campaign: OpenCampaign, plans: Sequence[Plan], asked: SimulationOptions) -> virtual.Truth:
    """Draw (random) the true robot; of a payload campaign, the arm of that seed, and a load unlike the guess."""
    if campaign.content.task == "gains":
        return _true_gains(campaign, plans, asked)
    if campaign.content.task == "arm":
        truth = virtual.draw_truth(plans[0].robot, asked.seed, asked.drawing)
        return truth if asked.payload_kg is None else replace(truth, load=_hung(campaign, asked.payload_kg))
    if asked.payload_kg is not None:
        raise ExcitorError("--payload: goes with campaigns of the arm; others draw the load about [payload]")
    from excitor.experiments.virtual.robot import draw_load

    guess = next((plan.robot.payload for plan in plans if plan.robot.payload is not None), None)
    assert guess is not None  # a payload campaign has runs with the load
    arm = virtual.draw_truth(replace(campaign.robot, payload=None), asked.seed, asked.drawing)
    return replace(arm, load=draw_load(guess.phi, asked.seed))


GAINS_OFF = 0.1  # of the believed ones, up or down at random


def _true_gains(campaign: OpenCampaign, plans: Sequence[Plan], asked: SimulationOptions) -> virtual.Truth:
    """Draw (random) an arm whose gains are off, and a load of which only what was weighed is as stated."""
    if asked.payload_kg is not None:
        raise ExcitorError("--payload: goes with campaigns of the arm; here the loaded runs carry what was weighed")
    guess = next((plan.robot.payload.phi for plan in plans if plan.robot.payload is not None), None)
    assert guess is not None  # a gains campaign has runs with the load
    truth = virtual.draw_truth(replace(campaign.robot, payload=None), asked.seed, asked.settings)
    signs = np.random.default_rng([asked.seed, 0x6761696E]).choice([-1.0, 1.0], len(truth.torque_from_current))
    law = truth.torque_from_current * (1.0 + GAINS_OFF * signs)[:, None]
    drawn = virtual.draw_load(guess, asked.seed)
    mass, center, inertia = about_center_of_mass(guess)
    if campaign.content.gains.known == "mass":
        center = about_center_of_mass(drawn)[1]
    if campaign.content.gains.known != "all":
        inertia = about_center_of_mass(drawn * (mass / drawn[9]))[2]
    return replace(truth, torque_from_current=law, load=from_center_of_mass(mass, center, inertia))


def _hung(campaign: OpenCampaign, mass: float) -> FloatArray:
    """Parameters of another mass at the place of the stated payload, or of a ball at the flange, (10,)."""
    if not 0.0 <= mass <= 1e5:
        raise ExcitorError(f"--payload: is {mass:g} kg, expected 0 to 100000")
    stated = campaign.content.payload or Body(mass=1.0, center=[0.0, 0.0, 0.05], inertia=[1e-3, 0, 0, 1e-3, 0, 1e-3])
    payload = loaded(campaign.robot, stated).payload
    assert payload is not None
    return payload.phi * (mass / stated.mass)


def carrying(truth: virtual.Truth, plan: Plan) -> virtual.Truth:
    """Hang a load that nobody stated on the links; one in the place of a stated load hangs where that is on."""
    if truth.load is None or plan.payload is not None:
        return truth
    chi = truth.chi.copy()
    chi[layout(plan.robot).link(plan.robot.tool.link)] += truth.load
    return replace(truth, chi=chi, load=None)


def _form(name: str, asked: SimulationOptions, names: Sequence[str]) -> str | None:
    """Apply a log format to the one target that is requested."""
    if asked.format is not None and len(names) > 1:
        raise ExcitorError(f"log format {asked.format} goes with one target; name it with --target")
    return format_of(name, asked.format).name


@dataclass(frozen=True, eq=False, slots=True)
class _Stage:
    """One target's logs."""

    campaign: OpenCampaign
    target: str
    asked: SimulationOptions
    truth: virtual.Truth
    faults: tuple[Fault, ...]

    def programs(self, folder: Path, plans: Sequence[Plan], listen: Listen) -> tuple[list[dict[str, Any]], Servos]:
        """Run the programs and write their logs; describe each, and its servo."""
        names = program_names_of(plans, registry.target(self.target))
        chosen = [(name, plan) for name, plan in zip(names, plans, strict=True) if self.asked.dry or not plan.dry]
        logs, servos = [], {}
        for k, (name, plan) in enumerate(chosen, start=1):
            listen(f"simulating {self.target}/{name}, {k} of {len(chosen)}")
            log, servos[f"{self.target}/{name}"] = self._program(folder, name, plan)
            logs.append(log)
        return logs, servos

    def close(self, folder: Path, plan: Plan, logs: list[dict[str, Any]], truth_digest: str) -> SimulationResult:
        """Write what the logs are."""
        data = {**self._head(plan), "truth_sha256": truth_digest, "programs": logs}
        (folder / MARK).write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", "utf-8")
        return SimulationResult(self.target, self.campaign.folder / "logs" / self.target, data)

    def _program(self, folder: Path, name: str, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
        form = format_of(self.target, self.asked.format)
        truth = replace(carrying(self.truth, plan), settings=settings_for(self.target, form, plan, self.truth.settings))
        seed = _seed(self.asked.seed, f"{self.target}/{name}")
        bare = self.campaign.content.task == "arm" and self.campaign.content.payload is not None  # as models are
        bare = bare and not in_amperes_of(self.target, form.name, plan.robot)  # from which no load is subtracted
        recorded = run_program(truth, plan, seed=seed, faults=self.faults, engine=self.asked.engine)
        paths = write(recorded, folder, name, target=self.target, format=form.name, seed=self.asked.seed)
        described = {
            "program": name,
            **{key: getattr(plan, key) for key in ("run", "role", "dry")},
            "log": paths[0].name,
            "rows": len(recorded.t),
            "seed": seed,
            "files": digests(folder, paths),
            "truth": _truth_while_measured(truth, recorded, bare=bare),
        }
        return described, recorded.tracking.data()

    def _head(self, plan: Plan) -> dict[str, Any]:
        manifest = self.campaign.folder / PROGRAMS / self.target / MANIFEST
        return {
            **FORMAT,
            "excitor": version("excitor"),
            "target": self.target,
            "robot": plan.robot.name,
            "log_format": format_of(self.target, self.asked.format).name,
            "log": declared_for(self.target, plan.robot, self.asked.format),
            "seed": self.asked.seed,
            "engine": self.asked.engine,
            "faults": [_said(fault, plan) for fault in self.faults],
            "made_from_sha256": {
                "campaign": self.campaign.digest,
                DESIGN: design_digest(self.campaign.folder),
                MANIFEST: hashlib.sha256(manifest.read_bytes()).hexdigest(),
            },
        }


def _truth_while_measured(truth: virtual.Truth, recorded: RecordedRun, *, bare: bool) -> list[dict[str, Any]]:
    """Write the true base parameters, friction at its mean temperature in the run; `bare`: without the payload."""
    measured = recorded.mark >= MEASURED
    warm = recorded.temperature[measured if measured.any() else slice(None)].mean(axis=0)
    base = base_parameters(recorded.robot)
    robot = replace(recorded.robot, payload=None) if bare else recorded.robot
    values = base.values(virtual.true_parameters(truth, robot, temperature=warm, sensed=truth.settings.joint_sensors))
    return [
        {"name": name, "unit": unit, "value": float(value)}
        for name, unit, value in zip(base.names, base.units, values, strict=True)
    ]


def _said(fault: Fault, plan: Plan) -> dict[str, Any]:
    return asdict(fault) | {"joints": [plan.robot.joint_names[j] for j in fault.joints]}


def _seed(seed: int, name: str) -> int:
    """Return a program's own noise seed, independent of which others are run."""
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


FOLDER, MARK = "logs", "simulated.json"
FORMAT = {"format": "excitor-simulated", "version": 1}


def check_free(campaign: Path, target: str, fresh: bool) -> None:
    """Refuse to write where logs are, unless they are simulated, unchanged, and new ones are requested."""
    place = campaign / FOLDER / target
    if not place.resolve().is_relative_to(campaign.resolve()):
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
    with open_bounded(path) as file:
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
        data: dict[str, Any] = json.loads(read_bounded(place / MARK, LARGEST_TRUTH))
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
    wanted = {"swapped-axes": 2}.get(name)
    if wanted and fault.joints and len(set(fault.joints)) != wanted:
        raise ExcitorError(f"--fault {text}: name the two joints that change places, such as {name}:A,B")
    return fault


def aim(fault: Fault, plans: Sequence[Plan], seed: int) -> Fault:
    """Choose joints and size once, in the first program where the fault can show; all programs use the same."""
    sentence = ""
    for plan in sorted(plans, key=lambda plan: plan.dry):
        try:
            return aimed(fault, plan, seed)
        except ValueError as error:
            sentence = sentence or str(error)
    raise ExcitorError(f"{sentence}, nor in any other; choose another fault")


def _joint(text: str, word: str, robot: Robot) -> int:
    """Find a joint by its name, or by its number from 1."""
    names = list(robot.joint_names)
    if word in names:
        return names.index(word)
    if word.isdecimal() and 1 <= int(word) <= len(names):
        return int(word) - 1
    channels = CHANNELS.get(text.partition(":")[0], ())
    known = f"expected one of {', '.join(names)}" + (f", or how it shows: {', '.join(channels)}" if channels else "")
    raise ExcitorError(
        f"--fault {text}: {robot.name} has no joint {word!r}; {known}{did_you_mean(word, [*names, *channels])}"
    )


POSES = 300  # in which a drawn robot's mass matrix is checked
LARGEST_TRUTH = 10_000_000  # bytes
LEAST = 1e-4  # smallest eigenvalue of a mass matrix of unit diagonal
_DRAWS = 40
_CLOSER = 0.5  # by which draws come closer to the estimate where none of them is a robot


class ImpossibleMasses(ExcitorError):
    """Base parameters whose mass matrix is not positive."""


@dataclass(frozen=True, eq=False, slots=True)
class VirtualRobot:
    """A virtual robot that follows commanded motions."""

    truth: virtual.Truth
    robot: Robot  # carries what the virtual robot carries

    @one_blas_thread()
    def follow(self, motion: Motion, forward: FloatArray, gains: FloatArray, step: float) -> FloatArray:
        """Simulate the closed loop, PD with feedforward torques; positions (n_steps, n_joints).

        The controller's gains are tuned on the parameters `gains`; ExcitorError where the robot gets out of control.
        """
        tuned = replace(self.robot, chi=gains, payload=None, declared_base=None)
        controller = virtual.controller_of(self.truth, tuned, motion, forward, step)
        done, signals = run_controlled(virtual.plant_of(self.truth, self.robot), controller, motion, forward)
        if done < len(motion):
            raise ExcitorError(f"{self.robot.name}: got out of control {done * step:.3g} s after it had begun")
        return np.asarray(signals[0])


def simulated_robot(folder: Path, robot: Robot) -> VirtualRobot | None:
    """Read the robot that the campaign's logs were simulated with; None if they were not, or for another robot."""
    try:
        data = json.loads(read_bounded(folder / TRUTH, LARGEST_TRUTH))
        if data["robot"] != robot.name:
            return None
        given: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in data["settings"].items()}
        truth = virtual.draw_truth(robot, int(data["seed"]), virtual.Settings(**given))
        if robot.payload is not None and "load" in data:
            truth = replace(truth, load=np.array(data["load"], dtype=float))
        written = np.array([entry["value"] for entry in data["parameters"]], dtype=float)
    except (OSError, RecursionError, KeyError, TypeError, AttributeError, ValueError, ExcitorError):
        return None
    same = written.shape == truth.chi.shape and np.allclose(written, truth.chi, rtol=1e-9, atol=1e-12)
    return VirtualRobot(truth, robot) if same else None


def drawn_robot(robot: Robot, beta: FloatArray, covariance: FloatArray, *, seed: int) -> VirtualRobot:
    """Draw a robot from the model's uncertainty; ExcitorError where the model's masses are impossible.

    `beta` (n_base,) are all base parameters of the robot, without a payload of its own; `covariance` is theirs.
    """
    settings = virtual.Settings(stuck=tuple(robot.locked))
    rng = np.random.default_rng([seed, 0x7472])
    chi = _possible(robot, beta, covariance, rng)
    n = len(layout(robot))
    full, all_chi = virtual.with_unmodelled(robot, chi, rng, settings)
    loss = (1.0 - robot.drive.efficiency)[:, None] * np.exp(settings.loss * rng.normal(size=(robot.n_joints, 2)))
    stiffness, damping = virtual.springs(robot, chi[:n], settings)
    efficiency, start = np.clip(1.0 - loss, 0.05, 1.0), np.full(robot.n_joints, settings.ambient)
    law = robot.drive.torque_from_current
    return VirtualRobot(virtual.Truth(full, all_chi, efficiency, law, stiffness, damping, start, settings, seed), robot)


def _possible(robot: Robot, beta: FloatArray, covariance: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw parameters whose mass matrix is positive and whose friction resists."""
    if not isinstance(robot.mechanism, Tree):
        raise ExcitorError(f"{robot.name}: closed chains cannot be simulated under a controller yet")
    base = base_parameters(robot)
    poses = random_motion(robot, POSES, robot.locked).q
    if not _is_robot(robot, base.standard(beta), poses):
        raise ImpossibleMasses(
            f"{robot.name}: the identified masses make no positive mass matrix in every pose, so no virtual robot has "
            "them; measure more, or reduce the model"
        )
    values, V = np.linalg.eigh(0.5 * (covariance + covariance.T))
    half = V * np.sqrt(np.maximum(values, 0.0))
    for share in (1.0, _CLOSER, _CLOSER**2, _CLOSER**3, 0.0):
        for _ in range(_DRAWS):
            chi = _resisting(robot, base.standard(beta + share * half @ rng.normal(size=len(beta))))
            if _is_robot(robot, chi, poses):
                return chi
    return _resisting(robot, base.standard(beta))


def _is_robot(robot: Robot, chi: FloatArray, poses: FloatArray) -> bool:
    moving = [i for i in range(robot.n_joints) if i not in robot.locked]
    M = mass_matrix(robot, poses, chi)[:, moving][:, :, moving]
    size = np.einsum("bii->bi", M)
    if not (size > 0.0).all():
        return False
    unit = M / np.sqrt(size[:, :, None] * size[:, None, :])
    return bool(np.linalg.eigvalsh(0.5 * (unit + unit.transpose(0, 2, 1)))[:, 0].min() > LEAST)


def _resisting(robot: Robot, chi: FloatArray) -> FloatArray:
    """Replace negative friction by 0, which would drive a joint."""
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if friction_model(term).dissipates:
            chi[column] = max(chi[column], 0.0)
    return chi
