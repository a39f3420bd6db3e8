"""Which runs could be made next: those so far once more, a motion sought for what is missing, poses, sweeps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.motion import period_grid, steady
from excitor.design.problem import trajectory
from excitor.design.schedule import RunPlan, moving_mask
from excitor.design.search import Budget, solve
from excitor.design.slow import InfeasibleRun, measured_duration, measured_motion
from excitor.experiments.designing.periodic import run_problem
from excitor.experiments.designing.setup import Setup
from excitor.experiments.designing.slow import make_slow_run
from excitor.experiments.next_run.aims import Aim
from excitor.experiments.next_run.executed import program_seconds, way_seconds
from excitor.experiments.next_run.known import Known, taught
from excitor.experiments.next_run.recipes import again, further
from excitor.robots.base import base_parameters, lost_when_locked
from excitor.robots.information import Information, knowledge
from excitor.robots.parameters import LINK_COMPONENTS, layout

EVALUATIONS = 3000  # of the search: a promise of what a longer one in the design stage finds
FINE = 600  # samples of a period
_STEP = 0.1  # s between the samples of a slow run
_GRAVITY = tuple(name for name in LINK_COMPONENTS if name.startswith("M"))

Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """A run that could be made: once, of so many seconds."""

    what: str
    kind: str  # "again", "motion", "static", "sweeps"
    seconds: float  # of robot time, from home to home
    teaches: Information
    how: tuple[str, ...]


def candidates(
    known: Known, setup: Setup | str, missing: Sequence[Aim], *, seed: int, tell: Tell
) -> tuple[list[Candidate], list[str]]:
    """List what could be done, and why what else comes to mind could not; without a setup, it says why there is none.

    Targets that are met stay met: information only adds.
    """
    found = list(_repetitions(known))
    if isinstance(setup, str):
        return found, [f"no new motion was sought: {setup}"]
    held, notes = set(known.robot.locked) - set(known.campaign.robot.locked), []
    slow = slow_kinds(known, missing)
    if held and slow:
        notes.append("slow runs were not looked at: they would be of other positions of the joints that are held")
    makers = [("motion", _motion), *((kind, _slow) for kind in slow if not held)]
    for kind, maker in makers:
        tell(f"trying {'a new motion' if kind == 'motion' else _SLOW[kind]} …")
        made = maker(known, setup, missing, kind=kind, seed=seed)
        if isinstance(made, str):
            notes.append(made)
        else:
            found.append(made)
    return found, notes


def slow_kinds(known: Known, missing: Sequence[Aim]) -> list[str]:
    """Choose the slow runs that show what is missing: poses gravity and offsets, sweeps friction."""
    params, base = layout(known.robot), base_parameters(known.robot)
    friction = {params.names[k] for k in params.friction_columns}
    offsets = {t.parameter for t in known.robot.drive.friction if t.model == "offset"}
    names = [params.names[base.kept[known.place[known.names.index(a.name)]]] for a in missing if a.kind == "parameter"]
    links = params.names[: params.n_link_params]
    weight = any(name in links and name.startswith(_GRAVITY) for name in names) or bool(offsets & set(names))
    kinds = ["static"] if weight else []
    return kinds + (["sweeps"] if (friction - offsets) & set(names) else [])


def open_by_held(known: Known) -> list[str]:
    """Say what stays open because joints were held, and which joint would free it."""
    told = []
    held = {i: at for i, at in known.robot.locked.items() if i not in known.campaign.robot.locked}
    names = known.robot.joint_names
    for i in held:
        others = {k: at for k, at in known.robot.locked.items() if k != i}
        lost = lost_when_locked(replace(known.robot, locked=others), {i: held[i]}).lost
        if lost:
            told.append(
                f"{_listed(lost)} cannot show while {names[i]} is held: let it move, and take it out of `locked` in "
                "campaign.toml"
            )
    dropped = len(base_parameters(known.robot)) - len(known.names)
    if dropped:
        told.append(f"{dropped} base parameters left the model by the campaign's own rule, and are not judged")
    payload = known.campaign.content.payload
    if payload is not None and known.campaign.content.design.schedule != "payload-pair":
        told.append(
            'the payload is part of its link\'s parameters; schedule = "payload-pair", a run with it and one without, '
            "tells the two apart"
        )
    return told


def _repetitions(known: Known) -> Iterator[Candidate]:
    """Repeat each run so far; logs of the same program are the same run."""
    seen: set[str] = set()
    for run in known.runs:
        program = run.run.program
        if program is not None and program in seen:
            continue
        seen.add(program or "")
        told = None if program is None else program_seconds(known.campaign.folder, program)
        yield Candidate(
            f"run {run.run.name!r} once more",
            "again",
            run.seconds if told is None else told,
            taught(known, run.motion, run.seconds, static=run.static),
            again(known.campaign, run.run),
        )


def _motion(known: Known, setup: Setup, missing: Sequence[Aim], *, kind: str, seed: int) -> Candidate | str:
    """Search a periodic motion that minimises what is missing, Σ σ²/target², given all that is known.

    In the letters of `known.py`: tr (Lᵀ A L + Lᵀ G L)⁻¹ T = tr (A + G)⁻¹ L⁻ᵀ T L⁻¹.
    """
    if setup.design.excitation != "fourier" or setup.design.model != "dynamic":
        return 'no new motion was sought: that is done for excitation = "fourier" and model = "dynamic"'
    moving = moving_mask(setup.robot, setup.design.joints or None)
    moving[list(known.robot.locked)] = False
    names = tuple(aim.name for aim in missing if aim.kind == "parameter")
    plan = RunPlan("further", "excitation", moving, "identify", "What is missing.")
    pose = setup.pose.copy()
    pose[list(known.robot.locked)] = list(known.robot.locked.values())
    plain = replace(setup, pose=pose, design=setup.design.model_copy(update={"criterion": "condition"}))
    problem = run_problem(plain, plan, ())
    task = np.sum([aim.weight / aim.target**2 for aim in missing], axis=0)
    task = np.linalg.solve(known.map.T, np.linalg.solve(known.map.T, task).T)
    columns = base_parameters(known.robot).kept[known.place]
    weights = np.where(plan.moving, 1.0 / known.noise.sigma, 0.0)
    seconds = setup.excitation.measured * setup.excitation.period
    problem = replace(
        problem,
        criterion=Criterion("path", task=0.5 * (task + task.T)),
        model=DynamicModel(known.robot, columns, weights),
        earlier=known.expected,
        share=seconds * known.noise.rate_hz / problem.n_period,
    )
    found = solve(problem, Budget(evaluations=EVALUATIONS), seed=seed)
    if not found.feasible:
        return (
            f"no new motion was found that keeps all limits within {EVALUATIONS} trials; excitor design searches longer"
        )
    chosen = trajectory(problem, found.candidates, int(np.argmax(found.violation <= 0.0)))
    motion = steady(chosen, period_grid(chosen.excitation, FINE))
    return Candidate(
        "a new motion, sought for what is missing",
        "motion",
        chosen.excitation.duration + way_seconds(known.campaign.folder),
        taught(known, motion, seconds),
        further(known.campaign, list(names) or [aim.name for aim in worst_shown(known, missing)]),
    )


def worst_shown(known: Known, missing: Sequence[Aim]) -> list[Aim]:
    """Where only torques miss their targets, find the parameters that contribute most to them."""
    C = knowledge(known.given).covariance
    task = np.sum([aim.weight / aim.target**2 for aim in missing], axis=0)
    share = np.diag(C) * np.diag(task)
    units = np.eye(len(known.names))
    order = np.argsort(-share)[:5]
    return [
        Aim(known.names[k], "parameter", "", 0.0, float(np.sqrt(C[k, k])), 0.0, np.outer(units[k], units[k]))
        for k in order
    ]


_SLOW = {"static": "poses held", "sweeps": "sweeps at constant speeds"}


def _slow(known: Known, setup: Setup, missing: Sequence[Aim], *, kind: str, seed: int) -> Candidate | str:
    """Make a slow run as the design stage would."""
    moving = moving_mask(setup.robot, setup.design.joints or None)
    moving[list(known.robot.locked)] = False
    plan = RunPlan("further", "static" if kind == "static" else "sweep", moving, "identify", "What is missing.")
    try:
        run = make_slow_run(setup, plan, seed)[1]
    except InfeasibleRun as error:
        return f"{_SLOW[kind]}: {error}"
    motion, seconds = measured_motion(run, _STEP), measured_duration(run)
    return Candidate(
        f"{_SLOW[kind]}",
        kind,
        run.duration,
        taught(known, motion, seconds, static=kind == "static"),
        further(known.campaign, kind),
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
