"""Kinds of constraints by name, and the conformance suite that each of them passes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from excitor.design.constraints import acceleration, joint_sum, robust_torque, tool_cone, torque_envelope
from excitor.design.constraints.constraint import (
    Compromise,
    Constraint,
    ConstraintKind,
    Population,
    Relaxation,
    States,
    Trace,
    excesses,
    sides,
)
from excitor.design.motion import Excitation, Run, even_spans, periodic_run, spans
from excitor.robots.arrays import FloatArray
from excitor.robots.base import random_motion
from excitor.robots.errors import ExcitorError
from excitor.robots.load import catalog_names, load
from excitor.robots.plugins import Members
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

_SPANS, _FINER = 40, 10  # intervals of a motion segment, and samples in each, at which bounds are checked
_ROUNDING = 1e-9
_STEP = 1e-6


def check_constraint(item: Constraint, robot: Robot | None = None) -> None:
    """Run the conformance suite on a constraint; ExcitorError names the first thing that it does not do.

    Args:
        item: a constraint.
        robot: that it fits; by default a six-axis arm of the catalogue.

    >>> import excitor as ex
    >>> ex.check_constraint(ex.ToolSpeed(1.5))
    """
    robot = example_robot() if robot is None else robot
    name = type(item).__name__
    try:
        problem = next(_problems(item, robot), None)
    except ExcitorError:
        raise
    except Exception as error:  # whatever foreign code does
        raise ExcitorError(f"constraint {name}: raises {type(error).__name__}: {error}") from None
    if problem is not None:
        raise ExcitorError(f"constraint {name}: {problem}")


@lru_cache(maxsize=1)
def example_robot() -> Robot:
    """Load the first six-axis arm of the catalogue."""
    robots = (load(name) for name in catalog_names())
    return next(robot for robot in robots if isinstance(robot.mechanism, Tree) and robot.n_joints == 6)


def check_constraint_kind(kind: ConstraintKind) -> None:
    """Check a kind's name and table, and run the conformance suite on its example."""
    robot = example_robot()
    if not kind.name or not kind.name.replace("-", "").isalnum() or not kind.name.islower():
        raise ExcitorError(f"constraint kind: its name is {kind.name!r}, expected lower-case words joined by hyphens")
    try:
        keys = dict(kind.example(robot))
        again = json.loads(json.dumps(keys))
        built = [kind.build(robot, kind.table.model_validate(given)) for given in (keys, again)]
        limits = [[row.limit for row in item.rows(robot)] for item in built]
    except Exception as error:  # whatever foreign code does
        raise ExcitorError(f"constraint kind {kind.name}: its example raises {type(error).__name__}: {error}") from None
    if limits[0] != limits[1]:
        raise ExcitorError(f"constraint kind {kind.name}: its example has other limits when it is read from JSON")
    check_constraint(built[0], robot)


def _problems(item: Constraint, robot: Robot) -> Iterator[str]:
    """List what a constraint does not do."""
    rows = item.rows(robot)
    names = [row.name for row in rows]
    if not rows or len(set(names)) != len(names) or not all(row.name and row.kind and row.group for row in rows):
        yield f"its rows are named {names}, expected at least one, each with a name of its own, a kind and a group"
        return
    if not all(np.isfinite(row.limit) for row in rows):
        yield f"its limits are {[row.limit for row in rows]}, expected finite numbers"
    if item.everywhere and item.order > 0:
        yield f"it holds everywhere though its values depend on derivatives up to {item.order}; only poses can"
    yield from _value_problems(item, robot)
    if not item.per_period:
        yield from _bound_problems(item, robot)
    yield from _slope_problems(item, robot)
    yield from _relaxation_problems(item, robot)
    worst = np.array([row.limit + row.side * max(1.0, abs(row.limit)) for row in rows])
    if len(excesses(rows, worst, np.zeros(len(rows)))) != len(rows):
        yield "a value beyond its limit makes no sentence"
    if not all(item.describe(robot, row.group).strip() for row in rows):
        yield "a group has no description"


def _value_problems(item: Constraint, robot: Robot) -> Iterator[str]:
    """Check shape, finiteness, repeatability, and which derivatives values depend on."""
    motion = random_motion(robot, 24)
    trace = Trace(robot, motion, np.zeros_like(motion.q))
    values, n = item.values(trace), len(item.rows(robot))
    if values.shape != (24, n) or not np.isfinite(values).all():
        yield f"values has shape {values.shape}, expected {(24, n)} finite numbers: a row of them for each sample"
        return
    if not np.array_equal(values, item.values(Trace(robot, motion, trace.jerk))):
        yield "values differ when they are evaluated again"
    states = (motion.q, motion.dq, motion.ddq)
    quiet = Motion(*(x if order <= item.order else 0.0 * x for order, x in enumerate(states)))
    if item.order < 2 and not np.allclose(values, item.values(Trace(robot, quiet, trace.jerk)), rtol=1e-12, atol=1e-12):
        yield f"values depend on derivatives above its order, {item.order}"
    if not item.per_period and item.searched(robot):
        g = item.violations(robot, values)
        worse = item.violations(robot, values + 1e-3 * sides(item.rows(robot)))
        at_limit = item.violations(robot, np.array([[row.limit for row in item.rows(robot)]]))
        if g.shape != values.shape or not (worse > g).all() or (at_limit < -_ROUNDING).any():
            yield "violations do not rise towards the limit, or leave no reserve before it"


def _bound_problems(item: Constraint, robot: Robot) -> Iterator[str]:
    """Check bounds inside intervals against samples that are ten times finer."""
    side = sides(item.rows(robot))
    if item.unprovable(robot, True):
        return
    for piece in _example_run(robot).pieces():
        part = even_spans(piece, _SPANS)
        inside, at_samples = item.bound(robot, part)
        if inside.shape != (_SPANS, side.size) or at_samples.shape != (len(part.t), side.size):
            yield f"bound has shapes {inside.shape} and {at_samples.shape}, expected intervals and samples by rows"
            return
        fine = np.linspace(0.0, piece.duration, _SPANS * _FINER + 1)
        jets = spans(piece, fine[:-1], fine[1:]).jets
        values = item.values(Trace(robot, Motion(*jets[:3]), jets[3]))
        by_interval = np.stack([side * values[k : k + _FINER + 1] for k in range(0, _SPANS * _FINER, _FINER)])
        scale = _ROUNDING * np.maximum(1.0, np.abs(values).max(axis=0))
        if (by_interval.max(axis=1) > side * inside + scale).any():
            yield f"its bound is exceeded between the samples of {piece.name!r}: it proves what does not hold"
        if (side * values[::_FINER] > side * at_samples + scale).any():
            yield "bound reports values at samples that are better than those of `values`"


def _slope_problems(item: Constraint, robot: Robot) -> Iterator[str]:
    """Check slopes against differences."""
    motion, random = random_motion(robot, 24), np.random.default_rng(0)
    rows = np.arange(len(item.rows(robot)))
    if not item.per_period:
        if not _sample_slopes_hold(item, robot, motion):
            yield "slopes differ from differences of its violations"
        return
    slopes = item.mean_slopes(robot, motion, rows)
    states = (motion.q, motion.dq, motion.ddq)
    step = [_STEP * random.normal(size=motion.q.shape) for _ in states]
    ends = [item.means(robot, Motion(*(x + sign * dx for x, dx in zip(states, step, strict=True)))) for sign in (1, -1)]
    change = 0.5 * (ends[0] - ends[1])
    by_slopes = [sum(float(np.sum(bar * dx)) for bar, dx in zip(bars, step, strict=True)) for bars in slopes]
    if not np.allclose(by_slopes, change, rtol=1e-3, atol=1e-9):
        yield "mean_slopes differ from differences of its means"


def _sample_slopes_hold(item: Constraint, robot: Robot, motion: Motion) -> bool:
    """Return True if exact slopes, where a constraint has some, agree with differences at each sample."""
    states, n_rows = (motion.q, motion.dq, motion.ddq), len(item.rows(robot))
    rows, k = np.arange(len(motion)) % n_rows, np.arange(len(motion))
    bars = item.slopes(robot, motion, rows)
    if bars is None:
        return True
    step = [_STEP * np.random.default_rng(0).normal(size=x.shape) for x in states]

    def g(sign: float) -> FloatArray:
        moved = Motion(*(x + sign * dx for x, dx in zip(states, step, strict=True)))
        return item.violations(robot, item.values(Trace(robot, moved)))[k, rows]

    by_slopes = sum(np.sum(bar * dx, axis=1) for bar, dx in zip(bars, step, strict=True))
    return bool(np.allclose(by_slopes, 0.5 * (g(1.0) - g(-1.0)), rtol=1e-3, atol=1e-9))


def _relaxation_problems(item: Constraint, robot: Robot) -> Iterator[str]:
    """Check that a relaxation makes a violating motion keep its group, and that the contrary makes it worse."""
    if not item.searched(robot):
        return
    run, rows = _example_run(robot), item.rows(robot)
    population = _population(run, robot)
    g = item.population(population)[0]
    for group in dict.fromkeys(row.group for row in rows):
        own = [k for k, row in enumerate(rows) if row.group == group]
        share = float(g[own].max())
        if share <= 0.0:
            continue
        for relaxation in item.proposals(
            Compromise(population, np.ones(robot.n_joints), run.periodic.center), group, share
        ):
            if not relaxation.words.strip() or relaxation.group != group:
                yield f"a relaxation of {group!r} says nothing, or is of another group"
            if relaxation.action == "remove":
                continue
            after = _worst_of(item.relaxed(robot, relaxation), population, group)
            if after > _ROUNDING:
                yield f"{relaxation.words!r} is not enough: the motion it was proposed for still violates {group!r}"
            contrary = _contrary(relaxation)
            try:
                tighter = _worst_of(item.relaxed(robot, contrary), population, group)
            except ValueError:  # there is no tighter one
                continue
            if tighter < share - _ROUNDING:
                yield f"tightening {group!r} makes its violation smaller"


def _worst_of(item: Constraint, population: Population, group: str) -> float:
    own = [k for k, row in enumerate(item.rows(population.robot)) if row.group == group]
    return float(item.population(population)[0, own].max(initial=-np.inf))


def _contrary(relaxation: Relaxation) -> Relaxation:
    """Change as far to the other side, at most half of the value."""
    change = relaxation.after - relaxation.before
    less = np.minimum(np.abs(change), 0.5 * np.abs(relaxation.before) + 1e-6) * np.sign(change)
    after = relaxation.before - less
    return replace(relaxation, after=after, words="tighten")


def _example_run(robot: Robot) -> Run:
    """Move every joint about the middle of its range, with ramps."""
    moving = np.ones(robot.n_joints, dtype=bool)
    moving[list(robot.locked)] = False
    excitation = Excitation(5.0, 0.005, (1, 2, 3), moving, ramp=1.0, settle=0.5, hold=0.5, warm_up=1, measured=1)
    random = np.random.default_rng(4)
    low, high = np.clip(robot.limits.position, -1.5, 1.5).T
    size = 0.15 * (high - low)[:, None] * moving[:, None]
    sines, cosines = (size * random.normal(size=(robot.n_joints, 3)) for _ in range(2))
    return periodic_run(excitation, 0.5 * (low + high), sines, cosines, robot.joint_names)


def _population(run: Run, robot: Robot) -> Population:
    t = np.linspace(0.0, 1.0, 400, endpoint=False)
    series = run.periodic
    states: list[FloatArray] = [series.at(t * series.period, order).T[None] for order in range(3)]
    found: States = (states[0], states[1], states[2])
    return Population(robot, found, t.size, list)


_FILES = (tool_cone, joint_sum, acceleration, torque_envelope, robust_torque)
CONSTRAINTS = Members("excitor.constraints", {file.KIND.name: file.KIND for file in _FILES}, check_constraint_kind)
