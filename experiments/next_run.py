"""Recommendation of the next run: targets, candidates, and their information per second of robot time.

Targets are deviations of parameters and of torques. Candidates are repetitions, a new motion for the missed targets,
held poses and friction sweeps; their time is from home to home. The best is described by the lines of campaign.toml and
the commands.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.forecast import ESSENTIAL_CONTRIBUTION
from excitor.design.problem import run_of
from excitor.design.schedule import RunPlan, moving_mask
from excitor.design.search import Budget, solve
from excitor.design.slow import InfeasibleRun, measured_duration, measured_motion
from excitor.experiments.campaign import FILE as CAMPAIGN_FILE
from excitor.experiments.campaign import InvalidCampaign, OpenCampaign, Run, open_campaign
from excitor.experiments.design_json import FILE as DESIGN
from excitor.experiments.design_json import read_design
from excitor.experiments.files import typed
from excitor.experiments.identification import read_runs, rows_of
from excitor.experiments.manifest import MANIFEST, PROGRAMS, read_manifest
from excitor.experiments.model import FILE, Model, read_model
from excitor.experiments.plan import make_slow_run, run_problem
from excitor.experiments.report.html import entries, subtable
from excitor.experiments.setup import Setup, set_up
from excitor.experiments.status import advice, status
from excitor.identify.diagnose import several
from excitor.identify.samples import Samples
from excitor.robots import information as info
from excitor.robots.arrays import FloatArray, IntArray, finite, one_blas_thread, picked, shaped
from excitor.robots.base import base_parameters, lost_when_locked
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError, choice
from excitor.robots.friction import friction_model
from excitor.robots.parameters import LINK_COMPONENTS, layout
from excitor.robots.robot import Motion, Robot, posture

STOP = "stop: targets met"


@dataclass(frozen=True, eq=False, slots=True)
@shaped(weight="n n")
class Aim:
    """A target: a deviation, its present value and the wanted one."""

    name: str
    kind: Literal["parameter", "torque"]
    unit: str
    size: float  # |value| of a parameter, rms of a torque
    now: float  # deviation
    target: float
    weight: FloatArray  # T, (n_names, n_names)

    @property
    def met(self) -> bool:
        """True if the target is met."""
        return self.now <= MET * self.target


@dataclass(frozen=True, eq=False, slots=True)
class IdentifiedRun:
    """A run that the model was identified from."""

    run: Run
    motion: Motion
    static: bool
    seconds: float  # measured, all repetitions


@dataclass(frozen=True, eq=False, slots=True)
class PriorInformation:
    """The model's information about its base parameters, and the noise of further rows."""

    campaign: OpenCampaign
    robot: Robot  # with the joints held that the model holds
    model: Model
    place: IntArray  # (n_names,): of the model's parameters among the robot's base parameters
    names: tuple[str, ...]  # as base parameters, regrouped ones with their R
    given: info.Information  # of `names`
    noise: info.Noise
    expected: FloatArray  # (n_names, n_names), A
    map: FloatArray  # (n_names, n_names), L
    runs: tuple[IdentifiedRun, ...]

    @property
    def values(self) -> FloatArray:
        """The model's base parameters, (n_names,)."""
        return self.model.values


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """A run that could be made, and its duration, s."""

    what: str
    kind: str  # "again", "motion", "static", "sweeps"
    seconds: float  # of robot time, from home to home
    teaches: info.Information
    how: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class RankedCandidate:
    """A candidate, and its expected effect."""

    candidate: Candidate
    expected: tuple[float, ...]  # deviation of every aim afterwards
    gain: float  # 0 to 1: 1 closes all that is missing
    times: int | None  # repetitions until every target is met; None: too many to count
    teaches: tuple[str, ...]  # parameters and torques that it is for

    @property
    def rate(self) -> float:
        """Gain per second of robot time."""
        return self.gain / self.candidate.seconds


@dataclass(frozen=True, eq=False, slots=True)
class NextRunAdvice:
    """Recommended next runs."""

    prior: PriorInformation
    aims: tuple[Aim, ...]
    ranked: tuple[RankedCandidate, ...]  # best first; none where targets are met
    notes: tuple[str, ...]  # what stays open, and what was not checked

    @property
    def missing(self) -> tuple[Aim, ...]:
        """Missed targets, worst first."""
        return tuple(sorted((a for a in self.aims if not a.met), key=lambda a: -a.now / max(a.target, 1e-300)))

    @property
    def sentence(self) -> str:
        """Recommendation as one sentence."""
        if not self.missing:
            return STOP
        many = len(self.missing)
        what = f"{many} of {len(self.aims)} targets {'is' if many == 1 else 'are'} missed"
        if not self.ranked:
            return f"{what}, and no run was found that could be made"
        best = self.ranked[0]
        return f"{what}; next: {best.candidate.what}, {best.candidate.seconds / 60.0:.1f} min of robot time"


Tell = Callable[[str], None]


@one_blas_thread()
def advise(folder: Path, *, seed: int = 0, tell: Tell = lambda _: None, warn: Tell = lambda _: None) -> NextRunAdvice:
    """Recommend the next run for a campaign's model; ExcitorError where there is no usable model."""
    check_model(folder, warn)
    campaign = open_campaign(folder)
    tell("reading the model and the logs it was identified from …")
    prior = prior_information(campaign)
    aims = aims_of(prior)
    notes = open_by_held(prior)
    missing = [aim for aim in aims if not aim.met]
    if not missing:
        return NextRunAdvice(prior, aims, (), tuple(notes))
    try:
        setup: Setup | str = set_up(campaign)
    except InvalidCampaign as error:
        setup = "; ".join(error.problems[:3])  # recordings may come without a cell
    found, why_not = candidates(prior, setup, missing, seed=seed, tell=tell)
    repeats = "errors that repeat in every period are no noise: no repetition averages them away"
    return NextRunAdvice(prior, aims, tuple(ranked(prior.given, aims, found)), (*notes, *why_not, repeats))


def check_model(folder: Path, warn: Tell) -> None:
    """Refuse a campaign without a model, naming the missing stage; warn of a model that is older than its inputs."""
    stages = status(folder)
    model = next(stage for stage in stages if stage.name == FILE)
    if model.state == "missing":
        raise ExcitorError(f"{folder / FILE}: is missing, so nothing is known yet; {advice(stages)}")
    if model.state == "stale":
        warn(f"warning: {FILE} is stale: {model.reason}; what follows is of the model as it is. {model.remedy}")


def advised_data(advised: NextRunAdvice) -> dict[str, Any]:
    """Write it for scripts."""
    targets = advised.prior.campaign.content.targets.model_dump()
    if targets["relative_sigma_percent"] is None:
        targets["relative_sigma_percent"] = advised.prior.campaign.content.design.target_relative_sigma_percent
    return {
        "stop": not advised.missing,
        "sentence": advised.sentence,
        "targets": targets,
        "noise": advised.prior.noise.source,
        "aims": [picked(aim, "name kind unit size sigma=now target met") for aim in advised.aims],
        "candidates": [
            picked(one.candidate, "what kind robot_time_s=seconds")
            | picked(one, "gain gain_per_s=rate times_until_targets_are_met=times teaches")
            | {"expected_sigma": {a.name: x for a, x in zip(advised.aims, one.expected, strict=True)}}
            | {"how": list(one.candidate.how)}
            for one in advised.ranked
        ],
        "notes": list(advised.notes),
    }


MET = 1.0 + 1e-9
LEAST = 1e-6  # of a deviation: smaller ones do not matter


def aims_of(prior: PriorInformation) -> tuple[Aim, ...]:
    """List the targets: parameters that show above the noise, or those named, then each joint's torque."""
    return tuple(_aims(prior))


def _aims(prior: PriorInformation) -> Iterator[Aim]:
    (squares, torque), C = sizes_of(prior), info.knowledge(prior.given).covariance
    stated, design, sigma = prior.campaign.content.targets, prior.campaign.content.design, prior.noise.sigma
    percent = stated.relative_sigma_percent
    relative = (design.target_relative_sigma_percent if percent is None else percent) / 100.0
    values, units = prior.values, base_parameters(prior.robot).units
    sizes = np.sqrt(np.array([np.diag(T) for T in squares]))  # (n_joints, n_names): rms of each column
    shown = np.max(sizes * np.abs(values) / sigma[:, None], axis=0) > ESSENTIAL_CONTRIBUTION
    each = np.divide(torque[:, None], sizes, out=np.full(sizes.shape, np.inf), where=sizes > 0.0)
    unseen = stated.torque_share_percent / 100.0 * each.min(axis=0)
    for k in named(prior) or tuple(np.flatnonzero(shown)):
        size, now, e = abs(float(values[k])), float(np.sqrt(C[k, k])), np.eye(len(values))[k]
        target = max(relative * size, float(unseen[k]) if np.isfinite(unseen[k]) else 0.0, LEAST * now)
        yield Aim(prior.names[k], "parameter", units[prior.place[k]], size, now, target, np.outer(e, e))
    for j, name in enumerate(prior.robot.joint_names):
        if torque[j] > 0.0:
            target = stated.torque_error_percent / 100.0 * max(float(torque[j]), float(sigma[j]))
            unit, now = "N" if prior.robot.mechanism.prismatic[j] else "N m", deviation(C, squares[j])
            yield Aim(f"torque of {name}", "torque", unit, float(torque[j]), now, target, squares[j])


def deviation(C: FloatArray, weight: FloatArray) -> float:
    """Evaluate √tr(C T)."""
    return float(np.sqrt(max(float(np.sum(C * weight)), 0.0)))


def sizes_of(prior: PriorInformation) -> tuple[list[FloatArray], FloatArray]:
    """Average WᵀW of each joint over the runs so far, and find the rms of its modelled torque, (n_joints,)."""
    n, n_joints = len(prior.names), prior.robot.n_joints
    kept = base_parameters(prior.robot).kept[prior.place]
    sums, counts = np.zeros((n_joints, n, n)), np.zeros(n_joints)
    for run in prior.runs:
        W = regressor(prior.robot, run.motion)[:, :, kept]
        used = np.ones(W.shape[:2], dtype=bool) if run.static else info.counted(prior.robot, run.motion, prior.noise)
        used[:, list(prior.robot.locked)] = False
        share = run.seconds / len(run.motion)
        for j in range(n_joints):
            rows = W[used[:, j], j]
            sums[j] += share * rows.T @ rows
            counts[j] += share * len(rows)
    squares: list[FloatArray] = list(sums / np.maximum(counts, np.finfo(float).tiny)[:, None, None])
    torque = np.array([max(float(prior.values @ T @ prior.values), 0.0) for T in squares])
    return squares, np.sqrt(torque)


def named(prior: PriorInformation) -> tuple[int, ...]:
    """Find the parameters that the campaign names; InvalidCampaign where the model has none of that name."""
    required = [name.removesuffix("R") for name in prior.campaign.content.targets.parameters]
    own = [name.removesuffix("R") for name in prior.names]
    strange = [name for name in required if name not in own]
    if strange:
        problem = f"{', '.join(strange)} is no parameter of the model, which has {choice(strange[0], own)}"
        raise InvalidCampaign(prior.campaign.folder / CAMPAIGN_FILE, [f"targets.parameters: {problem}"])
    return tuple(own.index(name) for name in required)


EVALUATIONS = 3000  # of the search: a promise of what a longer one in the design stage finds
FINE = 600  # samples of a period
_STEP = 0.1  # s between the samples of a slow run
_GRAVITY = tuple(name for name in LINK_COMPONENTS if name.startswith("M"))


def candidates(
    prior: PriorInformation, setup: Setup | str, missing: Sequence[Aim], *, seed: int, tell: Tell
) -> tuple[list[Candidate], list[str]]:
    """List candidates, and why others are excluded; `setup` is a reason if there is no design problem.

    Targets that are met stay met: information only adds.
    """
    found = list(_repetitions(prior))
    if isinstance(setup, str):
        return found, [f"no new motion was sought: {setup}"]
    held, notes = set(prior.robot.locked) - set(prior.campaign.robot.locked), []
    slow = slow_kinds(prior, missing)
    if held and slow:
        notes.append("slow runs were not checked: they would be of other positions of the joints that are held")
    makers = [("motion", _motion), *((kind, _slow) for kind in slow if not held)]
    for kind, maker in makers:
        tell(f"trying {'a new motion' if kind == 'motion' else _SLOW[kind]} …")
        made = maker(prior, setup, missing, kind=kind, seed=seed)
        if isinstance(made, str):
            notes.append(made)
        else:
            found.append(made)
    return found, notes


def slow_kinds(prior: PriorInformation, missing: Sequence[Aim]) -> list[str]:
    """Choose the slow runs that show the missed parameters: poses for gravity and offsets, sweeps for friction."""
    params, base = layout(prior.robot), base_parameters(prior.robot)
    friction = {params.names[k] for k in params.friction_columns}
    offsets = {t.parameter for t in prior.robot.drive.friction if friction_model(t).shape == "constant"}
    names = [params.names[base.kept[prior.place[prior.names.index(a.name)]]] for a in missing if a.kind == "parameter"]
    links = params.names[: params.n_link_params]
    weight = any(name in links and name.startswith(_GRAVITY) for name in names) or bool(offsets & set(names))
    kinds = ["static"] if weight else []
    return kinds + (["sweeps"] if (friction - offsets) & set(names) else [])


def open_by_held(prior: PriorInformation) -> list[str]:
    """Describe what held joints leave open, and which joint to free."""
    sentences = []
    held = {i: at for i, at in prior.robot.locked.items() if i not in prior.campaign.robot.locked}
    names = prior.robot.joint_names
    for i in held:
        others = {k: at for k, at in prior.robot.locked.items() if k != i}
        lost = lost_when_locked(replace(prior.robot, locked=others), {i: held[i]}).lost
        if lost:
            sentences.append(
                f"{several(lost)} cannot show while {names[i]} is held: let it move, and take it out of `locked` in "
                "campaign.toml"
            )
    dropped = len(base_parameters(prior.robot)) - len(prior.names)
    if dropped:
        sentences.append(f"{dropped} base parameters were eliminated by the campaign's own rule, and are not rated")
    payload = prior.campaign.content.payload
    if payload is not None and prior.campaign.content.design.schedule != "payload-pair":
        sentences.append(
            "the stated load's uncertainty is part of its link's parameters; a pair of runs, with it and one without "
            '(schedule = "payload-pair"), separates the two'
        )
    return sentences


def _repetitions(prior: PriorInformation) -> Iterator[Candidate]:
    """Repeat each run so far; logs of the same program are the same run."""
    names: set[str] = set()
    for run in prior.runs:
        program = run.run.program
        if program is not None and program in names:
            continue
        names.add(program or "")
        seconds = None if program is None else program_seconds(prior.campaign.folder, program)
        yield Candidate(
            f"run {run.run.name!r} once more",
            "again",
            run.seconds if seconds is None else seconds,
            run_information(prior, run.motion, run.seconds, static=run.static),
            again(prior.campaign, run.run),
        )


def _motion(prior: PriorInformation, setup: Setup, missing: Sequence[Aim], *, kind: str, seed: int) -> Candidate | str:
    """Search a periodic motion that minimises the missed targets, Σ σ²/target², given all information so far.

    In the letters of `known.py`: tr (Lᵀ A L + Lᵀ G L)⁻¹ T = tr (A + G)⁻¹ L⁻ᵀ T L⁻¹.
    """
    if setup.design.excitation != "fourier" or setup.design.model != "dynamic":
        return 'no new motion was sought: that is done for excitation = "fourier" and model = "dynamic"'
    moving = moving_mask(setup.robot, setup.design.joints or None)
    moving[list(prior.robot.locked)] = False
    names = tuple(aim.name for aim in missing if aim.kind == "parameter")
    plan = RunPlan("further", "excitation", moving, "identify", "What is missing.")
    pose = setup.pose.copy()
    pose[list(prior.robot.locked)] = list(prior.robot.locked.values())
    plain = replace(setup, pose=pose, design=setup.design.model_copy(update={"criterion": "condition"}))
    problem = run_problem(plain, plan, ())
    task = np.sum([aim.weight / aim.target**2 for aim in missing], axis=0)
    task = np.linalg.solve(prior.map.T, np.linalg.solve(prior.map.T, task).T)
    columns = base_parameters(prior.robot).kept[prior.place]
    weights = np.where(plan.moving, 1.0 / prior.noise.sigma, 0.0)
    seconds = setup.excitation.measured * setup.excitation.period
    problem = replace(
        problem,
        criterion=Criterion("path", task=0.5 * (task + task.T)),
        model=DynamicModel(prior.robot, columns, weights),
        earlier=prior.expected,
        share=seconds * prior.noise.rate_hz / problem.n_period,
    )
    found = solve(problem, Budget(evaluations=EVALUATIONS), seed=seed)
    if not found.feasible:
        return (
            f"no new motion was found that keeps all limits within {EVALUATIONS} trials; excitor design searches longer"
        )
    chosen = run_of(problem, found.candidates, int(np.argmax(found.violation <= 0.0)))
    motion = chosen.periodic.motion(chosen.periodic.grid(FINE))
    return Candidate(
        "a new motion, sought for what is missing",
        "motion",
        chosen.duration + way_seconds(prior.campaign.folder),
        run_information(prior, motion, seconds),
        further(prior.campaign, list(names) or [aim.name for aim in worst_visible(prior, missing)]),
    )


def worst_visible(prior: PriorInformation, missing: Sequence[Aim]) -> list[Aim]:
    """Find the parameters that contribute most to torques that miss their targets, if only torques do."""
    C = info.knowledge(prior.given).covariance
    task = np.sum([aim.weight / aim.target**2 for aim in missing], axis=0)
    share = np.diag(C) * np.diag(task)
    units = np.eye(len(prior.names))
    return [
        Aim(prior.names[k], "parameter", "", 0.0, float(np.sqrt(C[k, k])), 0.0, np.outer(units[k], units[k]))
        for k in np.argsort(-share)[:5]
    ]


_SLOW = {"static": "poses held", "sweeps": "sweeps at constant speeds"}


def _slow(prior: PriorInformation, setup: Setup, missing: Sequence[Aim], *, kind: str, seed: int) -> Candidate | str:
    """Build a slow run as the design stage would."""
    moving = moving_mask(setup.robot, setup.design.joints or None)
    moving[list(prior.robot.locked)] = False
    plan = RunPlan("further", "static" if kind == "static" else "sweep", moving, "identify", "What is missing.")
    try:
        run = make_slow_run(setup, plan, seed)[1]
    except InfeasibleRun as error:
        return f"{_SLOW[kind]}: {error}"
    motion, seconds = measured_motion(run, _STEP), measured_duration(run)
    return Candidate(
        _SLOW[kind],
        kind,
        run.duration,
        run_information(prior, motion, seconds, static=kind == "static"),
        further(prior.campaign, kind),
    )


def program_seconds(folder: Path, program: str) -> float | None:
    """Return the duration of an emitted program, TARGET/NAME, s; None where its manifest does not state it."""
    target, _, name = program.partition("/")
    made = read_manifest(folder / PROGRAMS / target / MANIFEST).programs
    spans = (entry.durations_s for entry in made if entry.name == name)
    return next((float(span.out + span.main + span.back) for span in spans), None)


def way_seconds(folder: Path) -> float:
    """Return the mean duration of the ways to a start and back in the designed runs, s; 0 where unknown."""
    if not (folder / DESIGN).is_file():
        return 0.0
    runs = [run for run in entries(read_design(folder), "runs") if isinstance(run, dict)]
    ways = [[finite(T) or 0.0 for T in entries(subtable(run, "way"), "durations")] for run in runs]
    return float(np.mean([2.0 * sum(way) for way in ways])) if ways else 0.0


POSE_SECONDS = 2.0  # that a static pose was held: approached from both sides
MOST_SAMPLES = 1500  # of a run, that are used


def prior_information(campaign: OpenCampaign) -> PriorInformation:
    """Read the model and the logs of its runs; ExcitorError where it has no covariance."""
    if campaign.content.task != "arm":
        raise ExcitorError(f"{campaign.folder}: has task = {campaign.content.task!r}, whose runs are all planned")
    path = campaign.folder / FILE
    model = read_model(path)
    covariance = model.known_covariance()
    wanted = [run for run in campaign.content.run if run.role == "identify"]
    read = read_runs(replace(campaign, content=campaign.content.model_copy(update={"run": wanted})))
    samples, robot = read.training, read.campaign.robot
    if model.robot_name != robot.name:
        raise ExcitorError(f"{path}: is of {model.robot_name}, the campaign's robot is {robot.name}; identify again")
    try:
        full = info.information_from_covariance(robot, model.names, covariance)
    except ValueError as error:
        raise ExcitorError(f"{path}: {error}; identify the campaign again") from None
    params, base = layout(robot), base_parameters(robot)
    kept = {params.names[column]: k for k, column in enumerate(base.kept)} | {n: k for k, n in enumerate(base.names)}
    place = np.array([kept[name] for name in model.names], dtype=np.int64)
    given = restricted(full, place)
    runs = tuple(learned(run, one) for run, one in zip(wanted, samples, strict=True))
    zone = rows_of(campaign).dead_zone
    raw = info.Noise(model.residuals(robot.joint_names), 1.0, dead_zone=0.0 if zone is None else zone)
    once = restricted(
        info.add(rows_information(robot, run.motion, raw, run.seconds, run.static) for run in runs), place
    )
    noise, L = calibrated(raw, once, given)
    A = once.matrix * noise.rate_hz
    return PriorInformation(campaign, robot, model, place, given.names, given, noise, A, L, runs)


def run_information(
    prior: PriorInformation, motion: Motion, seconds: float, *, static: bool = False
) -> info.Information:
    """Compute the information of measuring a motion about the model's parameters: Lᵀ G L."""
    measured = restricted(rows_information(prior.robot, motion, prior.noise, seconds, static), prior.place)
    matrix = prior.map.T @ measured.matrix @ prior.map
    matrix = 0.5 * (matrix + matrix.T)
    return info.Information(measured.names, matrix, matrix)


def learned(run: Run, samples: Samples) -> IdentifiedRun:
    """Return a run's motion, thinned, and its measured time, all repetitions included."""
    once = POSE_SECONDS * len(samples) if samples.static else len(samples) / samples.sample_rate_hz
    every = max(1, len(samples) // MOST_SAMPLES)
    return IdentifiedRun(run, samples.motion[::every], samples.static, once * max(samples.repetitions, 1))


def calibrated(raw: info.Noise, once: info.Information, given: info.Information) -> tuple[info.Noise, FloatArray]:
    """Estimate the number of independent rows per second that explains the model's covariance; and the map L."""
    obtained, reported = info.sigmas(info.knowledge(given)), info.sigmas(info.knowledge(once))
    if not np.isfinite(reported).all():
        names = ", ".join(name for name, sigma in zip(once.names, reported, strict=True) if not np.isfinite(sigma))
        raise ExcitorError(
            f"the logs do not determine {names}, of which {FILE} is sure, so it is not of these logs; identify again"
        )
    rate = float(np.median(reported / obtained)) ** 2
    noise = replace(raw, rate_hz=rate, source=f"learned from {FILE}: {rate:.3g} independent rows a second")
    scale = np.outer(obtained, obtained)
    root, back = _roots(once.matrix * rate * scale)
    middle = _roots(root @ (given.matrix * scale) @ root)[0]
    return noise, back @ middle @ back * obtained[:, None] / obtained[None, :]


def _roots(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find A^(1/2) and A^(-1/2) of a positive definite matrix."""
    values, V = np.linalg.eigh(0.5 * (A + A.T))
    root = np.sqrt(np.maximum(values, values[-1] * np.finfo(float).eps))
    return (V * root) @ V.T, (V / root) @ V.T


def rows_information(robot: Robot, motion: Motion, noise: info.Noise, seconds: float, static: bool) -> info.Information:
    """Compute the information of rows about all base parameters; held poses have zero velocity."""
    return info.information(robot, posture(motion.q) if static else motion, noise, duration=seconds)


def restricted(full: info.Information, place: IntArray) -> info.Information:
    """Return the information about some parameters; the model has none about the others."""
    names = tuple(full.names[k] for k in place)
    block = np.ix_(place, place)
    return info.Information(names, full.matrix[block], full.scatter[block])


MOST_TIMES = 1000  # that a run is repeated in thought
TEACHES = 0.25  # of a parameter's missing accuracy, from which on a run is listed as informative about it


def ranked(given: info.Information, aims: Sequence[Aim], candidates: Sequence[Candidate]) -> list[RankedCandidate]:
    """Rank candidates, best first."""
    found = [_judged(given, aims, candidate) for candidate in candidates]
    return sorted(found, key=lambda one: -one.rate)


def expected(given: info.Information, aims: Sequence[Aim], more: info.Information) -> list[float]:
    """Compute each aim's deviation after more information."""
    C = info.knowledge(info.add([given, more])).covariance
    return [deviation(C, aim.weight) for aim in aims]


def _judged(given: info.Information, aims: Sequence[Aim], candidate: Candidate) -> RankedCandidate:
    after = expected(given, aims, candidate.teaches)
    gains = {aim.name: _gain(aim, sigma) for aim, sigma in zip(aims, after, strict=True) if not aim.met}
    order = sorted(gains, key=lambda name: -gains[name])
    return RankedCandidate(
        candidate,
        tuple(after),
        float(np.mean(list(gains.values()))),
        _times(given, aims, candidate.teaches),
        tuple(name for name in order if gains[name] >= TEACHES) or tuple(order[:1]),
    )


def _gain(aim: Aim, after: float) -> float:
    return (aim.now**2 - max(after, aim.target) ** 2) / (aim.now**2 - aim.target**2)


def _times(given: info.Information, aims: Sequence[Aim], more: info.Information) -> int | None:
    """Count repetitions until every target is met; information only grows, so bisection finds it."""

    def enough(k: int) -> bool:
        after = expected(given, aims, info.repeated(more, float(k)))
        return all(sigma <= MET * aim.target for aim, sigma in zip(aims, after, strict=True))

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if low >= MOST_TIMES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def again(campaign: OpenCampaign, run: Run) -> tuple[str, ...]:
    """Describe how to repeat a run and identify it together with the previous ones."""
    folder, (name, log) = campaign.folder, _free(campaign, run)
    first = (
        f"run program {run.program} on the robot again; keep its recording as {log}"
        if run.program
        else f"record {run.name!r} again in the same way; keep the recording as {log}"
    )
    added = run.model_copy(update={"name": name, "log": log})
    named = "[[run]]" in campaign.text.replace(" ", "")  # else logs are found by their paths
    lines = []
    for entry in [added] if named else [*campaign.content.run, added]:
        given = entry.model_dump(exclude_defaults=True)
        lines += ["[[run]]", *(f"{key} = {_toml(value)}" for key, value in given.items())]
    return (first, "in campaign.toml, at its end:", *lines, f"excitor identify {typed(folder)}")


def further(campaign: OpenCampaign, requested: Sequence[str] | str) -> tuple[str, ...]:
    """Describe how to design a further run without changing those measured."""
    folder = campaign.folder
    before = list(campaign.content.design.further)
    entry = requested if isinstance(requested, str) else list(requested)
    targets = sorted({run.program.partition("/")[0] for run in campaign.content.run if run.program})
    lines = [
        "in campaign.toml, under [design]:",
        f"further = {json.dumps([*before, entry], ensure_ascii=False)}",
        _design_command(folder),
        f"excitor emit {typed(folder)} --target {targets[0] if targets else 'NAME'}",
        f"run only the new program, further_{len(before) + 1}; put its recording beside the others",
    ]
    if isinstance(requested, str):
        lines += ['in campaign.toml, under [identify]: weights = "joint and run", as slow runs have noise of their own']
    return (*lines, f"excitor identify {typed(folder)}")


def _design_command(folder: Path) -> str:
    """Return the design command with the search's own budget and seed, which make the same motions again."""
    words = ["excitor", "design", str(folder)]
    if (folder / DESIGN).is_file():
        settings = subtable(read_design(folder), "settings")
        for key in ("seed", "evaluations"):
            if isinstance(settings.get(key), int):
                words += [f"--{key}", str(settings[key])]
        if settings.get("seconds") is not None:
            return (
                f"{' '.join(words)} --seconds {settings['seconds']:g}   (a budget in seconds does not make the same "
                "motions again: then all runs must be measured anew)"
            )
    return f"{' '.join(words)}   (the same seed and evaluations make the same motions again)"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _free(campaign: OpenCampaign, run: Run) -> tuple[str, str]:
    """Find a name for the run when it is repeated, and one for its recording beside the last one."""
    path, numbers = Path(run.log), range(2, 10_000)
    names, logs = ({getattr(entry, key) for entry in campaign.content.run} for key in ("name", "log"))
    beside = (path.with_name(f"{path.stem}_{k}{path.suffix}").as_posix() for k in numbers)
    log = next(log for log in beside if log not in logs and not (campaign.folder / log).exists())
    return next(name for name in (f"{run.name} {k}" for k in numbers) if name not in names), log
