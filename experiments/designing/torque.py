"""Torque runs of a campaign, for direct-drive arms without a controller: searched, certified by simulation.

A search takes seconds to minutes and keeps no checkpoints: one that was killed begins again, and the same seed and
evaluations give the same design.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.certify.certificate import Certificate
from excitor.design.certify.limits import has_torque_model
from excitor.design.forecast import PlannedRun
from excitor.design.schedule import VALIDATION_SEED, RunPlan, Schedule, checked
from excitor.design.search import Progress
from excitor.design.slow import InfeasibleRun
from excitor.design.torque import (
    CLEARANCE_SCALE,
    CONDITION_SAMPLES,
    SEARCH_SHARE,
    SHARP_WIDTH,
    FoundTorques,
    Robustness,
    TorqueCertificate,
    TorqueExcitation,
    TorqueProblem,
    TorqueTrajectory,
    certify_torques,
    measured_motion,
    scaled,
    search_torques,
    torque_problem,
)
from excitor.experiments.campaign import FILE, InvalidCampaign
from excitor.experiments.designing.periodic import VALIDATION_SHARE
from excitor.experiments.designing.run_search import Stopped
from excitor.experiments.designing.schema import Design, TorqueRuns
from excitor.experiments.designing.settings import Settings
from excitor.experiments.designing.setup import Setup
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import condition_number, stack
from excitor.robots.robot import Motion
from excitor.robots.simulate import with_friction_width

MOST_SAMPLES = 30_000  # of a run: a hundred candidates of six joints then fill a gigabyte
BAND = (1.0, 15.0)  # rad/s, where the campaign states none
_SHRINK = (1.0, 0.97, 0.9, 0.75)  # amplitudes tried until the finer simulation keeps every limit
_FEWEST = 100  # candidates of a validation, as far as the budget has them
_REASONS = 5  # told of a search that found nothing
_KEYS = {  # of the campaign, by how an error of the designer begins
    "duration": "design.torque.duration_s",
    "fade": "design.torque.fade_s",
    "coast": "design.torque.coast_s",
    "rate": "design.torque.rate",
    "band": "design.torque.band_rad_s",
    "sample_time": "design.controller_sample_s",
    "start": "home_deg",
    "torque limits": "limits.joint",
    "a locked joint": "robot",
}
_WITHOUT_MEANING = (  # keys of periodic runs
    "base_frequency_hz",
    "harmonics",
    "settle_s",
    "ramp_s",
    "warm_up_periods",
    "measured_periods",
    "hold_s",
    "method",
)


@dataclass(frozen=True, eq=False, slots=True)
class DesignedTorqueRun:
    """One run of torques, how good its simulated motion is, and what is known of it."""

    plan: RunPlan
    trajectory: TorqueTrajectory
    problem: TorqueProblem
    found: FoundTorques
    proven: TorqueCertificate
    certificate: Certificate  # the same in the form that all runs have; a simulation that ends well is no limit
    condition_weighted: float
    spectrum: FloatArray  # singular values of the column-normalised matrix
    correlation: FloatArray
    columns: tuple[str, ...]

    @property
    def condition(self) -> float:
        """Condition number by SVD of the column-normalised matrix, finely simulated."""
        return self.proven.condition

    @property
    def duration(self) -> float:
        """How long the whole run takes, s."""
        return float(self.proven.run.t[-1])


def design_torque_runs(
    setup: Setup, settings: Settings, listen: Callable[[str, Progress], None] | None = None
) -> tuple[Setup, Schedule, tuple[DesignedTorqueRun, ...]]:
    """Design all torque runs; the setup comes back with remarks on what they may be trusted with."""
    problems = list(_conflicts(setup, settings))
    if problems:
        raise InvalidCampaign(setup.campaign.folder / FILE, problems)
    problem = _problem(setup)
    plans = planned_torque_runs(setup, problem.excitation.driven)
    runs: list[DesignedTorqueRun] = []
    for index, plan in enumerate(plans):
        tell = None if listen is None else _named(plan.name, listen)
        try:
            runs.append(_design(setup, settings, problem, plan=plan, index=index, listen=tell))
        except (KeyboardInterrupt, Stopped):
            if not runs:
                raise Stopped(
                    f"run {plan.name!r}: stopped before it was designed; the same command begins again"
                ) from None
            break  # asked to stop: the runs before are what there is
        if runs[-1].found.stopped == "interrupted":
            break
    remarks = [f"run {run.plan.name!r}: {robustness_sentence(run.proven.robustness)}" for run in runs]
    remarks = [*setup.remarks, *_ignored(setup.design), runs[0].proven.wording, *remarks]
    return replace(setup, remarks=tuple(remarks)), plans, tuple(runs)


def planned_torque_runs(setup: Setup, driven: BoolArray) -> Schedule:
    """Plan an excitation, and a validation unless a single run is asked for; joints that do not push swing along."""
    names = [name for name, pushes in zip(setup.robot.joint_names, driven, strict=True) if pushes]
    who = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    everything = np.ones(driven.size, dtype=bool)
    first = RunPlan(
        "excitation", "excitation", everything, "identify", f"Torques in {who}, from rest, without a controller."
    )
    note = "Other torques, whose motion no estimate has seen: does the model predict it?"
    second = replace(first, name="validation", role="validate", note=note, seed_offset=VALIDATION_SEED)
    return checked((first,) if setup.design.schedule == "single" else (first, second))


def planned_torque_run(run: DesignedTorqueRun, samples: int) -> PlannedRun:
    """Say what identification will have of a run: its measured part as simulated, once."""
    motion = measured_motion(run.problem, run.proven.run, samples)
    return PlannedRun(run.plan.name, motion, run.trajectory.excitation.duration, 1)


def robustness_sentence(robust: Robustness) -> str:
    """Say how many wrong models keep the limits, and what the others break."""
    keep = round(robust.share * robust.n_models)
    text = (
        f"{keep} of {robust.n_models} models whose parameters are off by up to {robust.spread:.0%} keep every limit "
        "under these torques"
    )
    if robust.breaks:
        often = ", ".join(f"{name} ({share:.0%})" for name, share in robust.breaks[:3])
        text += f"; broken most often: {often}. Smaller percentages in [limits] make more of them keep it"
    return text + "."


def _named(name: str, listen: Callable[[str, Progress], None]) -> Callable[[Progress], None]:
    return lambda progress: listen(name, progress)


def _design(
    setup: Setup,
    settings: Settings,
    problem: TorqueProblem,
    *,
    plan: RunPlan,
    index: int,
    listen: Callable[[Progress], None] | None,
) -> DesignedTorqueRun:
    """Search one run's torques, and take them a little smaller where the finer simulation breaks a limit."""
    found = search_torques(
        problem, evaluations=_evaluations(settings, plan), seed=settings.seed + 1_000_003 * index, listen=listen
    )
    if not found.feasible and found.stopped == "interrupted":
        raise Stopped(plan.name)
    if not found.feasible:
        raise InfeasibleRun(
            f"run {plan.name!r}: no candidate of {found.evaluations} keeps every limit; the best breaks",
            [*_broken(problem, found), "search longer, or widen what is broken most"],
        )
    best: tuple[TorqueTrajectory, TorqueCertificate] | None = None
    for amplitude in _SHRINK:
        trial = scaled(found.trajectory, amplitude)
        proven = certify_torques(problem, trial)
        if best is None or proven.ready:
            best = trial, proven
        if proven.ready:
            break
    assert best is not None
    return _described(setup, plan, problem, found, *best)


def _evaluations(settings: Settings, plan: RunPlan) -> int:
    """Take a run's part of the budget; a validation is worth less search, but must be found at all."""
    whole = round(settings.budget.amount)
    return whole if plan.role != "validate" else min(whole, max(_FEWEST, round(VALIDATION_SHARE * whole)))


def _described(
    setup: Setup,
    plan: RunPlan,
    problem: TorqueProblem,
    found: FoundTorques,
    trajectory: TorqueTrajectory,
    proven: TorqueCertificate,
) -> DesignedTorqueRun:
    """Evaluate what the simulated motion shows of the base parameters."""
    motion: Motion = measured_motion(problem, proven.run, CONDITION_SAMPLES)
    W = regressor(with_friction_width(problem.sharp, SHARP_WIDTH), motion)[:, :, problem.columns]
    rows = stack(W)
    norms = np.linalg.norm(rows, axis=0)
    unit = rows / np.where(norms > 0.0, norms, 1.0)
    notes = (proven.wording, robustness_sentence(proven.robustness), "The run ends where friction stops the arm.")
    return DesignedTorqueRun(
        plan,
        trajectory,
        problem,
        found,
        proven,
        Certificate(tuple(item for item in proven.items if item.name != "simulation" or not item.holds), notes),
        condition_number(stack(W / setup.noise.sigma[:, None])),
        np.linalg.svd(unit, compute_uv=False),
        unit.T @ unit,
        base_parameters(problem.robot).names,
    )


def _conflicts(setup: Setup, settings: Settings) -> Iterator[str]:
    """Tell every setting that torque mode has no meaning for, each with its key path."""
    design, robot = setup.design, setup.robot
    given = design.torque or TorqueRuns()
    if settings.budget.seconds is not None:
        path = "design.seconds" if design.seconds is not None else "seconds"
        yield f"{path}: torque runs are searched by evaluations, so that they can be made again; give evaluations"
    for key, meant in (("schedule", ("together", "single")), ("criterion", ("condition",)), ("model", ("dynamic",))):
        if getattr(design, key) not in meant:
            words = " or ".join(f'"{word}"' for word in meant)
            yield f'design.{key}: is "{getattr(design, key)}"; excitation = "torque" goes with {words}'
    for key in ("joints", "locked_deg", "front", "static_poses", "friction_sweeps", "warm_up_minutes"):
        if getattr(design, key):
            other = "; name the joints that push in design.torque.driven" if key == "joints" else ""
            yield f'design.{key}: needs a position controller, which excitation = "torque" goes without{other}'
    for name in given.driven:
        if name not in robot.joint_names:
            known = ", ".join(robot.joint_names)
            yield f"design.torque.driven: {name!r} is no joint of {robot.name}; its joints are {known}"
    if not has_torque_model(robot):
        yield (
            f"prior: torque mode simulates the arm, and the masses of {robot.name} are not all stated; "
            "give a prior model, or state them in the robot's file"
        )
    top = np.inf if design.max_frequency_hz is None else 2.0 * np.pi * design.max_frequency_hz
    if given.band_rad_s is not None and given.band_rad_s[1] > top:
        yield (
            f"design.torque.band_rad_s: ends at {given.band_rad_s[1]:g} rad/s, above max_frequency_hz = "
            f"{design.max_frequency_hz:g}, which is {top:.4g} rad/s"
        )


def _problem(setup: Setup) -> TorqueProblem:
    """Set up the search problem; errors name the key that they are about."""
    try:
        excitation = _excitation(setup)
        if excitation.n_samples > MOST_SAMPLES:
            raise ValueError(
                f"duration, fade and coast are {excitation.n_samples - 1} controller samples, expected fewer than "
                f"{MOST_SAMPLES}; make the run shorter"
            )
        return torque_problem(setup.robot, excitation, constraints=setup.constraints)
    except (ValueError, ExcitorError) as error:
        sentence = str(error)
        key = next((key for word, key in _KEYS.items() if sentence.startswith(word)), "design.torque")
        raise InvalidCampaign(setup.campaign.folder / FILE, [f"{key}: {sentence}"]) from None


def _excitation(setup: Setup) -> TorqueExcitation:
    """Take what the campaign states; times that it does not state become whole numbers of controller samples."""
    design, given = setup.design, setup.design.torque or TorqueRuns()
    step, top = design.controller_sample_s, 2.0 * np.pi * (design.max_frequency_hz or np.inf)
    times = {}
    for name in ("duration", "fade", "coast"):
        key = f"{name}_s"
        time = getattr(given, key)
        whole = round(time / step) * step
        times[name] = time if key in given.model_fields_set and abs(time - whole) > 1e-9 * time else whole
    names = setup.robot.joint_names
    home = setup.constraints.home
    assert home is not None
    return TorqueExcitation(
        sample_time=step,
        driven=np.array([not given.driven or name in given.driven for name in names]),
        start=home,
        n_waves=given.n_waves,
        band=(given.band_rad_s[0], given.band_rad_s[1]) if given.band_rad_s else (BAND[0], min(BAND[1], top)),
        rate=given.rate,
        **times,
    )


def _ignored(design: Design) -> list[str]:
    stated = [key for key in _WITHOUT_MEANING if key in design.model_fields_set]
    if not stated:
        return []
    return [f'excitation = "torque" makes no periodic run: {", ".join(stated)} of [design] do not count']


def _broken(problem: TorqueProblem, found: FoundTorques) -> list[str]:
    """Say which constraints the best candidate breaks most, and by how much."""
    order = [int(k) for k in np.argsort(-found.g, kind="stable") if found.g[k] > 0.0]
    return [_excess(problem.names[k], float(found.g[k])) for k in order[:_REASONS]]


def _excess(name: str, g: float) -> str:
    """Put one constraint's excess, a share of its limit, in words."""
    if name == "simulation":
        return "the simulation: the arm runs away"
    if name.startswith("clearance"):
        return f"{name}, by {1e3 * CLEARANCE_SCALE * g:.0f} mm"
    if "position" in name:
        return f"{name}, by {g:.0%} of half the joint's range"
    if name.startswith("speed at the end"):
        return f"{name}: the arm has not come to rest yet; design.torque.coast_s gives it more time"
    over = f"{1.0 + g:.0f} times" if g > 1.0 else f"{1.0 + g:.0%} of"
    return f"{name}: {over} what the search uses, which is {SEARCH_SHARE:.0%} of the limit"
