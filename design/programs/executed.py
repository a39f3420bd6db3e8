"""How the motion that a controller makes of a program differs from the planned one, and what that costs."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.fourier import Trajectory, period_grid, steady
from excitor.design.programs.courses import Part, nominal, part_of
from excitor.design.programs.executed_limits import (
    FINE_SAMPLES,
    PERIOD_SAMPLES,
    alike,
    broken_limits,
    looked_at,
    repeats,
)
from excitor.design.programs.execution import Execution, Stretch
from excitor.design.programs.plan import Plan, planned
from excitor.design.programs.tables import table_times
from excitor.design.programs.target import Target, to_axes
from excitor.design.programs.words import rounded
from excitor.robots.arrays import FloatArray
from excitor.robots.robot import Motion

Score = Callable[[Motion], float]

_SPACINGS = (0.4, 0.25, 0.2, 0.125, 0.1, 0.08, 0.05, 0.04, 0.025, 0.02, 0.016, 0.01, 0.008, 0.005, 0.004)  # s
_STILL = 1e-6  # of the largest acceleration: joints below it stand still, and have no peak to compare with


@dataclass(frozen=True, slots=True)
class Executed:
    """What the robot is expected to do, over all that its controller may make of the program."""

    max_position_error: float  # rad or m: what is commanded or listed, against the plan
    interpolated_position_error: float  # rad or m: between points as well
    acceleration_error: float  # share of each joint's peak in the plan, between points as well, as drives follow it
    limits_hold: bool
    broken: tuple[str, ...]
    conditions: tuple[float, float] | None  # lowest, highest; equal where it is known how points are joined
    assumed: str  # what was taken for granted of the controller; empty where nothing was


def executed(
    plan: Plan, target: Target, execution: Execution, *, constraints: Constraints | None, score: Score | None
) -> Executed:
    """Model what a controller makes of a program, hold it against the limits, and score its measured periods."""
    parts = [part_of(plan, target, stretch) for stretch in execution.stretches]
    knots = [float(np.abs(part.q - part.wanted).max()) for part in parts]
    joined = [(part, looked_at(plan, target, part)) for part in parts if part.kind != "stops"]
    peak = _peaks(plan, joined)
    between = [_errors(plan, part, t, peak) for part, t in joined]
    broken: tuple[str, ...] = ()
    if constraints is not None:
        broken = tuple(s for part in parts for s in broken_limits(plan, target, part, constraints))
    worst = max(knots, default=0.0)
    return Executed(
        worst,
        max([worst, *(position for position, _ in between)]),
        max((acceleration for _, acceleration in between), default=0.0),
        not broken,
        broken,
        _conditions(plan, target, parts, score),
        _assumed(parts),
    )


def spacing_for(
    plan: Plan,
    target: Target,
    wanted_loss: float,
    score: Score,
    *,
    like: Stretch,
    constraints: Constraints | None = None,
) -> float:
    """Find the coarsest spacing of points, s, that keeps loss of condition and limits; 0 if none of 0.4 s to 4 ms.

    The next finer spacing must keep them too, for one may do by chance. The points are rounded as the target writes
    them, and joined as those of the main stretch `like` are.
    """
    if not isinstance(plan.body, Trajectory):
        raise ValueError("a run of moves has no condition number; only tables of a series can be too coarse")
    once = replace(plan.body, excitation=replace(plan.body.excitation, warm_up=0, measured=1))
    short = replace(plan, out=(), home=plan.start, body=once)
    most = (1.0 + wanted_loss) * score(steady(once, period_grid(once.excitation, PERIOD_SAMPLES)))
    coarser = 0.0
    for spacing in _SPACINGS:
        execution = Execution((_table(short, target, like, spacing),))
        found = executed(short, target, execution, constraints=constraints, score=score)
        good = found.limits_hold and found.conditions is not None and found.conditions[1] <= most
        if good and coarser:
            return coarser
        coarser = spacing if good else 0.0
    return coarser


def _table(plan: Plan, target: Target, like: Stretch, spacing: float) -> Stretch:
    t = table_times(plan, "main", spacing)
    axes, rates, accelerations = (
        to_axes(plan.robot, target, planned(plan, "main", t, order), order) for order in range(3)
    )
    return replace(
        like,
        t=t,
        axes=rounded(axes, target.decimals),
        rates=None if like.rates is None else rates,
        accelerations=None if like.accelerations is None else accelerations,
    )


def _assumed(parts: list[Part]) -> str:
    """Say which stretches depend on what was taken for granted."""
    told: dict[str, list[str]] = {}
    for part in parts:
        told.setdefault(part.assumed, []).append(part.name)
    return "; ".join(f"{', '.join(names)}: {assumed}" for assumed, names in told.items() if assumed)


def _peaks(plan: Plan, joined: list[tuple[Part, FloatArray]]) -> FloatArray:
    """Find each joint's largest planned acceleration, (n_joints,); inf where it stands still."""
    peak = np.zeros(plan.robot.n_joints)
    for part, t in joined:
        peak = np.maximum(peak, np.abs(planned(plan, part.name, t, 2)).max(axis=0))
    return np.where(peak > _STILL * peak.max(), peak, np.inf)


def _errors(plan: Plan, part: Part, t: FloatArray, peak: FloatArray) -> tuple[float, float]:
    """Find the largest error of position, and of acceleration as a share of its peak, between points too."""
    q, ddq = (planned(plan, part.name, t, order) for order in (0, 2))
    position, acceleration = 0.0, 0.0
    for course in nominal(part.courses):
        position = max(position, float(np.abs(course.at(t) - q).max()))
        acceleration = max(acceleration, float((np.abs(course.motion(t).ddq - ddq) / peak).max()))
    return position, acceleration


def _conditions(plan: Plan, target: Target, parts: list[Part], score: Score | None) -> tuple[float, float] | None:
    """Score one measured period, or all of them where they are not alike, for everything that they may become."""
    main = next((part for part in parts if part.name == "main"), None)
    if score is None or main is None or not isinstance(plan.body, Trajectory):
        return None
    start, period, count = repeats(plan)
    measured = plan.body.excitation.measured
    n = 1 if alike(plan, target, main) else measured
    t = start + (count - measured) * period + (np.arange(n * PERIOD_SAMPLES) + 0.5) * (period / PERIOD_SAMPLES)
    exact = steady(plan.body, period_grid(plan.body.excitation, FINE_SAMPLES))
    scale = score(exact) / score(steady(plan.body, t - start))  # so that the choice of samples is no difference
    values = [scale * score(course.motion(t)) for course in main.courses]
    return min(values), max(values)
