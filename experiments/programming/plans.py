"""From a campaign's design to plans of programs, each with what its motion is held against."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from excitor.design.certify.certify import DRY_RUN, certify_slow
from excitor.design.constraints import Constraints
from excitor.design.criteria import Criterion
from excitor.design.motion import Excitation, Trajectory, scaled
from excitor.design.programs.plan import Move, Plan, Rounds
from excitor.design.programs.verify import Judge
from excitor.design.schedule import RunPlan, run_constraints
from excitor.design.slow import SlowKind, SlowRun
from excitor.experiments.campaign import OpenCampaign
from excitor.experiments.designing.file import FILE
from excitor.experiments.designing.periodic import carries, limits_of, model_of, run_problem, run_robot, torque_model
from excitor.experiments.designing.planned import planned_runs
from excitor.experiments.designing.setup import Setup, set_up
from excitor.experiments.programming.design_file import MovesRun, PeriodicRun, no_go_reasons, open_design
from excitor.robots.errors import ExcitorError
from excitor.robots.gram import condition_number
from excitor.robots.robot import Motion

_KINDS: dict[str, SlowKind] = {"static": "static", "sweep": "friction", "warm-up": "warm-up"}


@dataclass(frozen=True, eq=False, slots=True)
class Judged:
    """A plan, and what its executed motion is held against."""

    plan: Plan
    judge: Judge


@dataclass(frozen=True, eq=False, slots=True)
class Planned:
    """All that programs of a campaign are made of."""

    folder: Path
    programs: tuple[Judged, ...]
    no_go: tuple[str, ...]  # why the design is a no-go; empty where it is a go
    notes: tuple[str, ...]  # what was left out, and why

    @property
    def go(self) -> bool:
        """Whether the design is a go."""
        return not self.no_go


def plans_of(campaign: OpenCampaign, loss: float | None = None) -> Planned:
    """Plan a program, and its dry run, for every run of the design, in the order in which they are to be run."""
    design = open_design(campaign.folder, campaign.digest)
    setup = set_up(campaign)
    runs = {plan.name: plan for plan in planned_runs(setup)[0]} if not design.torque_runs else {}
    made: list[Judged] = []
    torques = [run.name for run in design.torque_runs]
    notes = [f"run {name!r} commands torques, which no position program can; it was left out" for name in torques]
    designed: dict[str, PeriodicRun | MovesRun] = {
        **{run.name: run for run in design.runs},
        **{run.name: run for run in design.slow_runs},
    }
    for name in design.order:
        if name in torques:
            continue
        if name not in runs or name not in designed:
            raise ExcitorError(f"{campaign.folder / FILE}: run {name!r} is not both planned and designed; design again")
        run = designed[name]
        with _told(campaign.folder, name):
            one = _periodic(setup, runs[name], run) if isinstance(run, PeriodicRun) else _moves(setup, runs[name], run)
        if len(one) == 1:
            notes.append(f"run {name!r} has no dry run: at small amplitude its moves are not proven to be clear")
        made += [
            one_of if one_of.plan.dry else replace(one_of, judge=replace(one_of.judge, loss=loss)) for one_of in one
        ]
    if not made:
        raise ExcitorError("; ".join(notes) or f"{campaign.folder / FILE}: has no runs; design the campaign first")
    no_go = no_go_reasons(design)
    made = [replace(one, plan=replace(one.plan, no_go=no_go)) for one in made]
    return Planned(campaign.folder, tuple(made), no_go, tuple(notes))


def _periodic(setup: Setup, run_plan: RunPlan, run: PeriodicRun) -> list[Judged]:
    """Plan the dry run, then the run."""
    spans = {phase.name: phase.end - phase.start for phase in run.phases}
    excitation = Excitation(
        run.period,
        run.sample_time,
        tuple(run.harmonics),
        np.array(run.moving),
        ramp=_whole(spans.get("ramp-in", 0.0), run.sample_time),
        settle=_whole(spans.get("settle", 0.0), run.sample_time),
        hold=_whole(spans.get("hold", 0.0), run.sample_time),
        warm_up=run.warm_up_periods,
        measured=run.measured_periods,
    )
    body = Trajectory(excitation, np.array(run.center), np.array(run.sines), np.array(run.cosines))
    if run.way is None:
        raise ValueError("has no certified way from home to the start; state home_deg, and design again")
    home, *poses = np.array(run.way.waypoints)
    out = tuple(Move(pose, T) for pose, T in zip(poses, run.way.durations, strict=True))
    plan = Plan(
        _campaign_name(setup.campaign.folder),
        run.name,
        run.role,
        run_robot(setup, run_plan),
        home,
        out,
        body,
        run.sample_time,
        _payload(setup, run_plan),
    )
    score = score_of(setup, run_plan)
    judge = Judge(limits_of(setup, run_plan), score)
    dry = replace(plan, body=scaled(body, DRY_RUN), dry=True)
    return [Judged(dry, judge), Judged(plan, judge)]


def _moves(setup: Setup, run_plan: RunPlan, run: MovesRun) -> list[Judged]:
    """Plan a run of moves; its dry run only if that is proven to be clear, which the design did not look at."""
    robot = run_robot(setup, run_plan)
    constraints = _slow_constraints(setup, run_plan)
    full = SlowRun(
        _KINDS[run.kind],
        run.sample_time,
        np.array(run.knots),
        np.array(run.durations),
        np.array(run.blends),
        np.array(run.measured, dtype=bool),
    )
    home = full.knots[0]
    small = replace(full, knots=home + DRY_RUN * (full.knots - home))
    plan = Plan(
        _campaign_name(setup.campaign.folder),
        run.name,
        run.role,
        robot,
        home,
        (),
        rounds(full),
        run.sample_time,
        _payload(setup, run_plan),
    )
    made = [Judged(plan, Judge(constraints))]
    if certify_slow(robot, small, constraints, torque_model=torque_model(robot)).ready:
        made.insert(0, Judged(replace(plan, body=rounds(small), dry=True), Judge(constraints)))
    return made


def rounds(run: SlowRun) -> Rounds:
    """Fold moves that are made again and again into rounds."""
    n = len(run.durations)
    rows = np.column_stack([run.knots[1:], run.durations, run.blends, run.measured])
    folds = (k for k in range(1, n + 1) if n % k == 0 and np.array_equal(run.knots[k], run.knots[0]))
    length = next(k for k in folds if np.array_equal(rows, np.tile(rows[:k], (n // k, 1))))
    moves = tuple(
        Move(run.knots[k + 1], float(run.durations[k]), float(run.blends[k]), bool(run.measured[k]))
        for k in range(length)
    )
    return Rounds(moves, n // length)


def score_of(setup: Setup, run_plan: RunPlan) -> Callable[[Motion], float]:
    """Condition number of the column-normalised, unweighted matrix that the run was designed for."""
    problem = run_problem(setup, run_plan, ())
    model = model_of(setup, problem.model.columns, Criterion("condition"), run_plan)
    return lambda motion: condition_number(model.observation(motion))


def _slow_constraints(setup: Setup, run_plan: RunPlan) -> Constraints:
    constraints = run_constraints(run_plan, setup.constraints)
    if torque_model(setup.robot) is False:
        free = np.full(setup.robot.n_joints, np.inf)
        constraints = replace(constraints, limits=replace(constraints.limits, torque=free), torque_rms=free)
    return constraints


def _payload(setup: Setup, run_plan: RunPlan) -> float | None:
    """Tell what must hang on the flange, kg: None where the campaign says nothing of it."""
    if setup.robot.payload is None:
        return None
    return float(setup.robot.payload.phi[9]) if carries(setup, run_plan) else 0.0


def _campaign_name(folder: Path) -> str:
    return folder.resolve().name or "campaign"


def _whole(time: float, step: float) -> float:
    """Undo the rounding of a difference of times."""
    return round(time / step) * step


@contextmanager
def _told(folder: Path, run: str) -> Iterator[None]:
    """Turn what constructors refuse into a sentence about the file."""
    try:
        yield
    except ExcitorError:
        raise
    except (ValueError, IndexError, KeyError) as error:
        raise ExcitorError(f"{folder / FILE}: run {run!r} {error}; design the campaign again") from None
