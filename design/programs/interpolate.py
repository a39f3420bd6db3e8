"""Interpolation models: positions and derivatives between the points of a table, as controllers may join them.

Between neighbours, with the time s since the first: quintics from positions, velocities and accelerations, cubics
from positions and velocities. Where positions alone are known: a C² cubic spline and a C⁴ quintic spline, at rest at
both ends, and cubics whose slopes are those of Catmull and Rom, (q[k+1] - q[k-1]) / (t[k+1] - t[k-1]).

Way-points are joined by lines; around way-point k the velocity goes from one line's to the next's over the time
2 w, w = share · half of the shorter line: at a constant acceleration, or with the envelope of the ramps.

For each motion segment the possible executions are listed in joints. They are compared with the plan: error of position
and acceleration, change of the condition number, certified limits, and the differences of a program's execution.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.signal import savgol_filter

from excitor.design.constraints.constraint import Row, Trace, excesses, sides
from excitor.design.constraints.constraints import Constraints, worst_rows
from excitor.design.motion import Interpolation, Move, Run, Table, line_run
from excitor.design.programs.plan import Plan, Stretches, StretchName, marks
from excitor.design.programs.target import (
    Execution,
    Stretch,
    Target,
    from_axes,
    part_edges,
    rounded,
    table_times,
    to_axes,
)
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import Motion

SHARES = (0.1, 0.5, 1.0)  # of half segments, over which way-points may be blended
STRETCH = 1.1  # how much longer blended way-points may take than their program says


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """One execution of a motion segment: a run on the clock of the points that it joins, and what differs from it."""

    name: str
    run: Run
    times: FloatArray  # (n,), s: of the points
    begin: float = 0.0  # s, of the run on that clock
    jumps: bool = False  # whether its acceleration jumps from point to point
    off: FloatArray | None = None  # (4, n, n_joints): differences from the run at the points, and their derivatives


def evaluate(course: Course, t: FloatArray, order: int = 0) -> FloatArray:
    """Evaluate a derivative, (n_t, n_joints)."""
    values, times = course.run.at(t - course.begin, order), course.times
    if course.off is None:
        return values
    k = np.clip(np.searchsorted(times, t) - 1, 0, len(times) - 2)
    share = np.clip((t - times[k]) / (times[k + 1] - times[k]), 0.0, 1.0)[:, None]
    return np.asarray(values + (course.off[order][k] * (1.0 - share) + course.off[order][k + 1] * share))


def followed(course: Course, t: FloatArray) -> Motion:
    """Evaluate the motion as drives, which are slower than a table's steps, follow it.

    An acceleration that jumps is averaged over the time between the two points around t. Where two points are closer
    than usual, as at the end of a part, it is over the usual time.
    """
    q, dq = evaluate(course, t), evaluate(course, t, 1)
    if not course.jumps:
        return Motion(q, dq, evaluate(course, t, 2))
    gaps = np.diff(course.times)
    here = gaps[np.clip(np.searchsorted(course.times, t, side="right") - 1, 0, len(gaps) - 1)]
    half = 0.5 * np.maximum(here, np.median(gaps))
    change = evaluate(course, t + half, 1) - evaluate(course, t - half, 1)
    return Motion(q, dq, np.asarray(change / (2.0 * half)[:, None]))


_JOINED: dict[Interpolation, tuple[str, bool]] = {  # in words, and whether accelerations jump
    "quintic": ("quintics through stated velocities and accelerations", False),
    "cubic": ("cubics through stated velocities", True),
    "catmull-rom": ("cubics with Catmull-Rom slopes", True),
    "cubic spline": ("a C2 cubic spline", False),
    "quintic spline": ("a C4 quintic spline", False),
    "lines": ("straight lines", True),
}


def joined(
    t: FloatArray,
    q: FloatArray,
    interpolation: Interpolation,
    dq: FloatArray | None = None,
    ddq: FloatArray | None = None,
) -> Course:
    """Join points as a table does."""
    return Course(
        _JOINED[interpolation][0], _table_run(t, q, interpolation, dq, ddq), t, t[0], _JOINED[interpolation][1]
    )


def blended(t: FloatArray, q: FloatArray, share: float, *, smooth: bool = False) -> Course:
    """Join points by lines with blends around each; the first begins, and the last ends, half a blend outside."""
    gaps = np.diff(t)
    rates = np.concatenate([0.0 * q[:1], np.diff(q, axis=0) / gaps[:, None], 0.0 * q[:1]])
    half = 0.5 * share * np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    dq = np.stack([rates[:-1], rates[1:]], axis=1).reshape(-1, q.shape[1])  # where a blend begins, and where it ends
    edges = np.stack([t - half, t + half], axis=1).ravel()
    poses = np.repeat(q, 2, axis=0) + dq * (edges - np.repeat(t, 2))[:, None]
    apart = np.append(True, np.diff(edges) > _TOUCHING)
    made = _table_run(edges[apart], poses[apart], "envelope" if smooth else "cubic", dq[apart])
    name = f"lines with {'smooth' if smooth else 'parabolic'} blends over {share:.0%} of half of them"
    return Course(name, made, t, edges[0], jumps=True)


def _table_run(
    t: FloatArray, q: FloatArray, interpolation: Interpolation, dq: FloatArray | None, ddq: FloatArray | None = None
) -> Run:
    table = Table(t - t[0], q, interpolation, dq, ddq, name="main")
    return Run(tuple(f"joint {j + 1}" for j in range(q.shape[1])), float(np.diff(t).min()), (table,))


def plausible_splines(t: FloatArray, q: FloatArray) -> tuple[Course, ...]:
    """List the splines with which a controller may interpolate positions alone."""
    return joined(t, q, "cubic spline"), joined(t, q, "quintic spline"), joined(t, q, "catmull-rom")


def plausible_blends(t: FloatArray, q: FloatArray) -> tuple[Course, ...]:
    """List the courses of a controller that blends way-points, in their time."""
    return tuple(blended(t, q, share, smooth=smooth) for share in SHARES for smooth in (False, True))


_SAME = 2e-6  # rad or m, between poses that are one
_TOUCHING = 1e-9  # s, between blends without a line between them
_SERVO = 0.2  # s, over which a servo averages

_SPLINES_TOLD = "points joined by a C2 cubic spline, a C4 quintic spline or cubics with Catmull-Rom slopes"
_BLENDS_TOLD = (
    f"lines with parabolic or smooth blends over {', '.join(f'{100 * share:.0f}' for share in SHARES)} % of half of "
    f"them, in the planned time or {STRETCH - 1.0:.0%} slower; the controller keeps to its own jerk"
)
_STOPS_TOLD = "straight lines in joint space from rest to rest, with a smooth profile"


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """Motion segment in joints: planned positions, commanded positions, and possible interpolations."""

    name: StretchName
    kind: str  # "commands", "points", "way-points", or "stops" that only lines from rest to rest connect
    t: FloatArray  # (n,), s
    q: FloatArray  # (n, n_joints)
    wanted: FloatArray
    courses: tuple[Course, ...]
    assumed: str = ""  # assumption about the controller; empty where it is known how the points are joined


def part_of(plan: Plan, target: Target, stretch: Stretch) -> Part:
    """Map a motion segment to joints, and list its possible interpolations."""
    t, q = stretch.t, from_axes(plan.robot, target, stretch.axes)
    if stops(plan, stretch):
        return _stopping(plan, stretch.name, q)
    if len(t) > 1 and not (np.diff(t) > 0.0).all():
        k = int(np.argmin(np.diff(t)))
        raise ValueError(f"{stretch.name}: times do not rise after {t[k]:.6g} s; no motion passes such points")
    wanted = plan.stretch(stretch.name).at(t)
    if len(t) < 2:
        raise ValueError(f"{stretch.name}: has {len(t)} point; a motion takes two or more")
    if stretch.kind == "commands":
        return Part(stretch.name, "commands", t, q, wanted, (_commanded(plan, stretch.name, t, q - wanted),))
    courses, assumed = _joined(plan, target, stretch, q)
    return Part(stretch.name, stretch.kind, t, q, wanted, courses, assumed)


def stops(plan: Plan, stretch: Stretch) -> bool:
    """Return True if way-points are ends of the plan's moves, at each of which the controller comes to rest."""
    motion = plan.stretch(stretch.name)
    if stretch.kind != "way-points" or motion.series is not None:
        return False
    if stretch.interpolation != "blend":
        return stretch.name != "main" or len(stretch.t) == len(motion.moves) + 1
    return stretch.name != "main" and len(stretch.t) <= 2 * len(motion.moves) + 1


def _stopping(plan: Plan, name: StretchName, q: FloatArray) -> Part:
    """Build the part of a segment made of moves, with the plan's times; stops may be missing from its poses q."""
    motion = plan.stretch(name)
    moves = motion.moves
    if len(q) != len(moves) + 1:
        moves = tuple(move for move in moves if not move.still)
        q = q[np.append(True, np.abs(np.diff(q, axis=0)).max(axis=1) > _SAME)]
    wanted = np.array([motion.start, *(move.goal for move in moves)])
    more = len(q) - 1 - len(moves)  # than were planned
    times = [*(move.duration for move in moves), *[motion.duration] * more][: len(q) - 1]
    blends = [*(move.blend for move in moves), *[0.0] * more][: len(q) - 1]
    made = line_run(motion.joints, motion.sample_time, q, times, blends=blends)
    wanted = wanted[np.minimum(np.arange(len(q)), len(wanted) - 1)]
    course = Course("straight lines from rest to rest", made, made.edges)
    return Part(name, "stops", made.edges, q, wanted, (course,), _STOPS_TOLD)


def _commanded(plan: Plan, name: StretchName, t: FloatArray, off: FloatArray) -> Course:
    """Add to the plan the response of a servo to the commands' differences from it."""
    step = float(np.median(np.diff(t)))
    window = min(2 * max(3, round(0.5 * _SERVO / step)) + 1, len(t) - 1 + len(t) % 2)  # odd
    if window < 5 or not off.any():
        slopes = [off, *[np.zeros_like(off)] * 3]
    else:
        slopes = [
            savgol_filter(off, window, 3, deriv=order, delta=step, axis=0, mode="nearest") if order else off
            for order in range(4)
        ]

    return Course("commands", plan.stretch(name), t, off=np.array(slopes))


def _joined(plan: Plan, target: Target, stretch: Stretch, q: FloatArray) -> tuple[tuple[Course, ...], str]:
    """List the courses through points, and the assumption they rest on."""
    t = stretch.t
    rates, accelerations = (
        None if values is None else from_axes(plan.robot, target, values, order)
        for order, values in ((1, stretch.rates), (2, stretch.accelerations))
    )
    if stretch.kind == "way-points" or stretch.interpolation == "blend":
        return plausible_blends(t, q), _BLENDS_TOLD
    if stretch.interpolation == "linear":
        return (joined(t, q, "lines"),), ""
    if stretch.interpolation != "spline" and rates is not None:
        if accelerations is not None and stretch.interpolation != "cubic":
            return (joined(t, q, "quintic", rates, accelerations),), ""
        return (joined(t, q, "cubic", rates),), ""
    return plausible_splines(t, q), _SPLINES_TOLD


Score = Callable[[Motion], float]

_SPACINGS = (0.4, 0.25, 0.2, 0.125, 0.1, 0.08, 0.05, 0.04, 0.025, 0.02, 0.016, 0.01, 0.008, 0.005, 0.004)  # s
_STILL = 1e-6  # of the largest acceleration: joints below it stand still, and have no peak to compare with


@dataclass(frozen=True, eq=False, slots=True)
class ExecutedMotion:
    """Expected execution, the worst over all interpolations that the controller may use."""

    max_position_error: float  # rad or m: what is commanded or listed, against the plan
    position_errors: FloatArray  # (n_joints,), rad or m of each joint: between points as well
    acceleration_error: float  # share of each joint's peak in the plan, between points as well, as drives follow it
    limits_hold: bool
    broken: tuple[str, ...]
    conditions: tuple[float, float] | None  # lowest, highest; equal where it is known how points are joined
    assumed: str  # assumptions about the controller; empty where there are none

    def __post_init__(self) -> None:
        freeze(self, position_errors="n_joints")

    @property
    def interpolated_position_error(self) -> float:
        """Largest of the position errors, whatever their units."""
        return float(self.position_errors.max())


def executed(
    plan: Plan, target: Target, execution: Execution, *, constraints: Constraints | None, score: Score | None
) -> ExecutedMotion:
    """Model a controller's execution of a program, check the limits, and evaluate the score of measured periods."""
    parts = [part_of(plan, target, stretch) for stretch in execution.stretches]
    knots = [np.zeros(plan.robot.n_joints), *(np.abs(part.q - part.wanted).max(axis=0) for part in parts)]
    joined = [(part, looked_at(plan, target, part)) for part in parts if part.kind != "stops"]
    peak = _peaks(plan, joined)
    between = [_errors(plan, part, t, peak) for part, t in joined]
    broken: tuple[str, ...] = ()
    if constraints is not None:
        broken = tuple(s for part in parts for s in broken_limits(plan, target, part, constraints))
    return ExecutedMotion(
        float(np.max(knots)),
        np.max([*knots, *(position for position, _ in between)], axis=0),
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
    them, and joined as those of the main segment `like` are.
    """
    series = plan.body.series
    if series is None:
        raise ValueError("a run of moves has no condition number; only tables of a series can be too coarse")
    once = [
        replace(one, periods=1) if one is series else one
        for one in plan.body.segments
        if one.measured or not one.degree
    ]
    here = line_run(plan.body.joints, plan.sample_time, plan.start[None], ())
    short = replace(plan, out=here, body=replace(plan.body, segments=tuple(once)))
    most = (1.0 + wanted_loss) * score(series.motion(series.grid(PERIOD_SAMPLES)))
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
    axes, rates, accelerations = (to_axes(plan.robot, target, plan.body.at(t, order), order) for order in range(3))
    return replace(
        like,
        t=t,
        axes=rounded(axes, target.decimals),
        rates=None if like.rates is None else rates,
        accelerations=None if like.accelerations is None else accelerations,
    )


def _assumed(parts: list[Part]) -> str:
    """List the assumptions, each with the names of the segments that depend on it."""
    parts_of: dict[str, list[str]] = {}
    for part in parts:
        parts_of.setdefault(part.assumed, []).append(part.name)
    return "; ".join(f"{', '.join(names)}: {assumed}" for assumed, names in parts_of.items() if assumed)


def _peaks(plan: Plan, joined: list[tuple[Part, FloatArray]]) -> FloatArray:
    """Find each joint's largest planned acceleration, (n_joints,); inf where it stands still."""
    peak = np.zeros(plan.robot.n_joints)
    for part, t in joined:
        peak = np.maximum(peak, np.abs(plan.stretch(part.name).at(t, 2)).max(axis=0))
    return np.where(peak > _STILL * peak.max(), peak, np.inf)


def _errors(plan: Plan, part: Part, t: FloatArray, peak: FloatArray) -> tuple[FloatArray, float]:
    """Find each joint's largest error of position, and that of acceleration as a share of its peak, everywhere."""
    q, ddq = (plan.stretch(part.name).at(t, order) for order in (0, 2))
    position, acceleration = np.zeros(q.shape[1]), 0.0
    for course in part.courses:
        position = np.maximum(position, np.abs(evaluate(course, t) - q).max(axis=0))
        acceleration = max(acceleration, float((np.abs(followed(course, t).ddq - ddq) / peak).max()))
    return position, acceleration


def _conditions(plan: Plan, target: Target, parts: list[Part], score: Score | None) -> tuple[float, float] | None:
    """Least and largest score over the interpolations, of one measured period, or of all where they differ."""
    main = next((part for part in parts if part.name == "main"), None)
    series = plan.body.series
    if score is None or main is None or series is None:
        return None
    start, period, count = repeats(plan)
    measured = series.periods
    n = 1 if alike(plan, target, main) else measured
    t = start + (count - measured) * period + (np.arange(n * PERIOD_SAMPLES) + 0.5) * (period / PERIOD_SAMPLES)
    exact = series.motion(series.grid(FINE_SAMPLES))
    scale = score(exact) / score(series.motion(t - start))  # so that the choice of samples is no difference
    motions = [followed(course, t) for course in main.courses]
    if main.assumed == _BLENDS_TOLD:
        motions += [Motion(m.q, m.dq / STRETCH, m.ddq / STRETCH**2) for m in motions]
    values = [scale * score(motion) for motion in motions]
    return min(values), max(values)


FINE_SAMPLES = 2000  # of a period, at which a planned condition number is computed
PERIOD_SAMPLES = 2003  # of a period: a prime, so that they do not fall on the same places between points
_STEP = 0.01  # s, between the samples that are looked at, or
_PER_CYCLE = 100  # samples of the highest harmonic's: a peak between two is less than 0.05 % higher
_CLOCK = 1e-6  # s: rounding of times
_STOPPED = 0.02  # rad/s or m/s of a plan that count as standing


def broken_limits(plan: Plan, target: Target, part: Part, constraints: Constraints) -> Iterator[str]:
    """Name every constraint that a part breaks, with its limit and its worst value over all interpolations."""
    times = looked_at(plan, target, part)
    judged = [_worst(plan, constraints, course, times) for course in part.courses]
    rows, side = judged[0][0], sides(judged[0][0])
    found = side * np.array([worst for _, worst in judged])
    for k, sentence in excesses(rows, side * found.max(axis=0), _allowed(plan, target, part, rows)).items():
        course = part.courses[int(np.argmax(found[:, k]))]
        yield f"{part.name}: {sentence}" + (f", as {course.name}" if part.assumed else "")
    if part.name == "main" and np.isfinite(constraints.torque_rms).any():
        yield from _broken_means(plan, part, constraints)


def repeats(plan: Plan) -> tuple[float, float, int]:
    """Return the repeated part of the main segment: its start and one duration, s, and their number."""
    if plan.body.series is not None:
        excitation = plan.body.excitation
        start = excitation.settle + excitation.ramp
        return start, excitation.period, excitation.warm_up + excitation.measured
    moves, count = plan.body.repeats()
    return 0.0, sum(move.duration for move in moves), count


def alike(plan: Plan, target: Target, part: Part) -> bool:
    """Return True if every period has the points of the first, up to rounding."""
    start, period, count = repeats(plan)
    inside = (part.t > start - _CLOCK) & (part.t < start + count * period - _CLOCK)
    t, q = part.t[inside], part.q[inside]
    phase = np.mod(t - start + _CLOCK, period) - _CLOCK
    n = int(np.count_nonzero(t < start + period - _CLOCK))
    if not n or len(t) != n * count or np.abs(phase.reshape(count, n) - phase[:n]).max() > _CLOCK:
        return False
    off = np.abs(q.reshape(count, n, -1) - q[:n])
    return bool((off <= 2.0 * position_tolerance(plan, target)).all())


def looked_at(plan: Plan, target: Target, part: Part) -> FloatArray:
    """List the times at which a part is evaluated, (n_t,), s; of identical periods, one."""
    finest = _STEP
    series = plan.stretch(part.name).series
    if series is not None:
        finest = min(_STEP, series.period / series.harmonics[-1] / _PER_CYCLE)
    t = part.t
    if part.kind == "commands":
        t = np.append(t[: -1 : max(1, int(finest / np.median(np.diff(t))))], t[-1])
    else:
        gaps = np.diff(t)
        count = np.maximum(4, np.ceil(gaps / finest - 1e-9).astype(int))
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        t = np.append(np.repeat(t[:-1], count) + place * np.repeat(gaps / count, count), t[-1])
    if part.name == "main" and part.kind != "stops" and alike(plan, target, part):
        start, period, n = repeats(plan)
        t = t[(t <= start + period) | (t >= start + n * period)]
    return np.asarray(t)


def _worst(
    plan: Plan, constraints: Constraints, course: Course, times: FloatArray
) -> tuple[tuple[Row, ...], FloatArray]:
    """Evaluate each row's worst over one course; jerks that do not exist there keep their limits."""

    def trace_at(t: FloatArray) -> Trace:
        return Trace(plan.robot, followed(course, t), None if course.jumps else evaluate(course, t, 3))

    return worst_rows(plan.robot, constraints, trace_at, times)


def _broken_means(plan: Plan, part: Part, constraints: Constraints) -> Iterator[str]:
    """Check the root mean square of a period's torques against its limits."""
    start, period, _ = repeats(plan)
    n = max(PERIOD_SAMPLES, round(period / _STEP))
    motions = [followed(course, start + (np.arange(n) + 0.5) * (period / n)) for course in part.courses]
    squares = [np.square(inverse_dynamics(plan.robot, motion)).mean(axis=0) for motion in motions]
    rms = np.sqrt(np.array(squares).max(axis=0))
    for name, value, limit in zip(plan.robot.joint_names, rms, constraints.torque_rms, strict=True):
        if value > limit * (1.0 + _share(part)):
            yield f"{part.name}: torque rms {name} reaches {value:.4g}, limit {limit:.4g}"


def _allowed(plan: Plan, target: Target, part: Part, rows: tuple[Row, ...]) -> FloatArray:
    """How far each row may be beyond its limit by rounding and the joining of points, (n_rows,)."""
    near = position_tolerance(plan, target) + (1e-4 if _guessed(part) else 1e-6)
    clear = 2e-3 if part.kind == "way-points" else 1e-4
    allowed = []
    for row in rows:
        if row.kind == "position":
            allowed.append(near[row.joint])
        elif row.kind == "clearance":
            allowed.append(clear)
        elif row.unit in ("rad", "m"):
            allowed.append(float(near.sum()))
        else:
            allowed.append(abs(row.limit) * (5e-3 if row.kind == "jerk" else _share(part)))
    return np.array(allowed)


def _share(part: Part) -> float:
    return 5e-3 if _guessed(part) else 1e-3


def _guessed(part: Part) -> bool:
    """Return True if the interpolation is not known; lines from rest to rest are known whatever their speed."""
    return bool(part.assumed) and part.kind != "stops"


_SINGLE = 2.0**-23  # relative spacing of numbers with 24 bits
_STOOD = 1e-3  # of the controller's units: rounding of where a robot stands
_RATES = 1e-6  # of the peak: how well stated velocities and accelerations agree


def position_tolerance(plan: Plan, target: Target) -> FloatArray:
    """Tolerance of joint positions against the plan, (n_joints,), rad or m: rounding only.

    Evaluated in the program: 1e-8 rad in double precision, 1e-5 rad in single; in a table half of the last decimal.
    """
    n = plan.robot.n_joints
    if target.timing == "A":
        return np.full(n, 1e-8 if target.float_bits == 64 else 1e-5)
    last = np.full(n, 0.5 * 10.0**-target.decimals)
    if target.float_bits == 32:
        reach = np.abs(to_axes(plan.robot, target, np.array([plan.home, *_extremes(plan)]))).max(axis=0)
        last += _SINGLE * reach
    span = from_axes(plan.robot, target, np.diag(1.001 * last), order=1)
    return np.asarray(np.abs(span).sum(axis=0)) + 1e-12


def differences(
    plan: Plan, target: Target, execution: Execution, step: float, stood: FloatArray | None = None
) -> list[str]:
    """List all differences from the plan, with the robot's pose `stood` near home (axes); empty if there are none."""
    wanted = [name for name in Stretches if plan.stretch(name).duration > 0.0]
    made = list(execution.stretches)
    if stood is not None:
        made = [_from_home(plan, target, stretch, stood) for stretch in made]
    made = [stretch for stretch in made if len(stretch.t) > 1 or stretch.name in wanted]
    found = [stretch.name for stretch in made]
    if execution.halted:
        return [f"halts although nothing is wrong: {execution.halted}"]
    if found != wanted:
        return [f"makes {_listed(found)}, planned are {_listed(wanted)}"]
    deviations = [sentence for stretch in made for sentence in _stretch(plan, target, stretch, step)]
    return [*deviations, *_marks(plan, target, execution, step), *_events(execution)]


def _from_home(plan: Plan, target: Target, stretch: Stretch, stood: FloatArray) -> Stretch:
    """Leave out that way-points begin where the robot stood, a little off home, and lead there first."""
    if stretch.name != "out" or stretch.kind != "way-points" or len(stretch.t) < 2:
        return stretch
    home = to_axes(plan.robot, target, plan.home)
    off = np.abs(stretch.axes[0] - stood).max() < _STOOD < np.abs(stood - home).max()
    if not (off and np.abs(stretch.axes[1] - home).max() < _STOOD):
        return stretch
    return replace(stretch, t=stretch.t[1:] - stretch.t[1], axes=stretch.axes[1:])


def worst_position(plan: Plan, target: Target, execution: Execution) -> float:
    """Find the largest difference of positions at what the program commands or lists, rad or m."""
    return float(worst_positions(plan, target, execution).max())


def worst_positions(plan: Plan, target: Target, execution: Execution) -> FloatArray:
    """Find each joint's largest difference at what the program commands or lists, (n_joints,), rad or m."""
    errors = [np.zeros(plan.robot.n_joints)]
    for stretch in execution.stretches:
        if stretch.kind != "way-points" or stretch.name == "main":
            off = from_axes(plan.robot, target, stretch.axes) - plan.stretch(stretch.name).at(stretch.t)
            errors.append(np.abs(off).max(axis=0, initial=0.0))
    return np.asarray(np.max(errors, axis=0))


def _stretch(plan: Plan, target: Target, stretch: Stretch, step: float) -> Iterator[str]:
    if stretch.axes.shape[1] != plan.robot.n_joints:
        yield f"{stretch.name}: moves {stretch.axes.shape[1]} axes, the robot has {plan.robot.n_joints}"
    elif not len(stretch.t):
        yield f"{stretch.name}: nothing moves"
    elif stretch.kind == "way-points" and stretch.name != "main":
        yield from _corners(plan, target, stretch)
    else:
        yield from _times(plan, stretch, step)
        if stretch.name == "main" and stretch.stops is not None and len(stretch.stops):
            moves = np.abs(plan.body.at(np.minimum(stretch.stops, plan.body.duration), 1)).max(axis=1)
            if moves.max() > _STOPPED:
                yield f"main: stops at {stretch.stops[moves.argmax()]:.6g} s, where the plan moves"
        yield from _positions(plan, target, stretch)
        yield from _derivatives(plan, target, stretch)


def _times(plan: Plan, stretch: Stretch, step: float) -> Iterator[str]:
    t, T = stretch.t, plan.stretch(stretch.name).duration
    slack = step + _CLOCK if stretch.kind == "commands" else _CLOCK + 1e-3 * (stretch.kind == "way-points")
    if not (-_CLOCK <= t[0] <= slack and abs(t[-1] - T) <= slack):
        yield f"{stretch.name}: runs from {t[0]:.6g} s to {t[-1]:.6g} s, planned is 0 to {T:.6g} s"
        return
    gaps = np.diff(t)
    if stretch.kind == "commands":
        if len(gaps) and np.abs(gaps - step).max() > _CLOCK:
            k = int(np.argmax(np.abs(gaps - step)))
            yield f"{stretch.name}: commands at {t[k]:.6g} s and {t[k + 1]:.6g} s are not {step:g} s apart"
        return
    if len(gaps) and gaps.min() <= 0.0:
        yield f"{stretch.name}: times do not rise after {t[int(np.argmin(gaps))]:.6g} s"
        return
    yield from _even(plan, stretch, 10.0 * _CLOCK + 2e-7 * T)


def _even(plan: Plan, stretch: Stretch, slack: float) -> Iterator[str]:
    """Points divide each part of the run evenly: one that is lost leaves a gap."""
    edges = part_edges(plan, stretch.name)
    for start, end in pairwise(edges):
        inside = stretch.t[(stretch.t >= start - slack) & (stretch.t <= end + slack)]
        gaps = np.diff(inside)
        if len(inside) < 2 or abs(inside[0] - start) > slack or abs(inside[-1] - end) > slack:
            yield f"{stretch.name}: the part from {start:.6g} s to {end:.6g} s does not begin and end with a point"
            return
        if gaps.max() - gaps.min() > 2.0 * slack:
            yield f"{stretch.name}: points are missing after {inside[int(np.argmax(gaps))]:.6g} s"
            return


def _positions(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    wanted = plan.stretch(stretch.name).at(stretch.t)
    off = np.abs(from_axes(plan.robot, target, stretch.axes) - wanted)
    allowed = position_tolerance(plan, target)
    if stretch.kind == "way-points":  # of which only the order counts: their times are the program's own estimate
        allowed = allowed + 1e-3 * np.abs(plan.stretch(stretch.name).at(stretch.t, 1)).max(axis=0)
    over = off / allowed
    if not np.isfinite(over).all() or over.max() > 1.0:
        k, j = np.unravel_index(int(np.argmax(np.nan_to_num(over, nan=np.inf))), over.shape)
        unit = "m" if plan.robot.mechanism.prismatic[j] else "rad"
        yield (
            f"{stretch.name}: {plan.robot.joint_names[j]} is {off[k, j]:.3g} {unit} from its plan at "
            f"{stretch.t[k]:.6g} s, allowed is {float(np.broadcast_to(allowed, off.shape)[k, j]):.2g} {unit}"
        )


def _derivatives(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    stated = (("velocity", 1, stretch.rates), ("acceleration", 2, stretch.accelerations))
    for word, order, values in stated:
        if values is None:
            continue
        wanted = plan.stretch(stretch.name).at(stretch.t, order)
        off = np.abs(from_axes(plan.robot, target, values, order) - wanted)
        peak = np.abs(wanted).max(axis=0)
        j = int(np.argmax((off / (_RATES * peak + 1e-9)).max(axis=0)))
        if not off[:, j].max() <= _RATES * peak[j] + 1e-9:
            k = int(np.argmax(off[:, j]))
            yield (
                f"{stretch.name}: the {word} stated for {plan.robot.joint_names[j]} at {stretch.t[k]:.6g} s is "
                f"{off[k, j]:.3g} from its plan"
            )


def _corners(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    """Way-points out and back are the ends of the certified lines, one after the other, no way quicker than planned."""
    wanted, q = _without_repeats(plan.stretch(stretch.name).knots), from_axes(plan.robot, target, stretch.axes)
    found = _without_repeats(q, 2e-6)
    if len(found) != len(wanted):
        yield f"{stretch.name}: passes {len(found)} poses, planned are {len(wanted)}"
        return
    off = np.abs(found - wanted)
    if not (off <= position_tolerance(plan, target)).all():
        k, j = np.unravel_index(int(np.argmax(off)), off.shape)
        yield f"{stretch.name}: {plan.robot.joint_names[j]} is {off[k, j]:.3g} from its plan at pose {k + 1}"
        return
    arrivals = 1 + np.flatnonzero(np.abs(np.diff(q, axis=0)).max(axis=1) > 2e-6)
    ways = [move for move in plan.stretch(stretch.name).moves if not move.still]
    for i, move in zip(arrivals, ways, strict=True):
        stated = ((stretch.rates, 1), (stretch.accelerations, 2))
        made = [(from_axes(plan.robot, target, x[i][None], order)[0], order) for x, order in stated if x is not None]
        yield from (f"{stretch.name}: {sentence}" for sentence in too_quick(plan, move, made))
        seconds = float(stretch.t[i] - stretch.t[i - 1])
        if stretch.interpolation == "blend" and abs(seconds - move.duration) > _WAY_TIME * move.duration:
            yield f"{stretch.name}: a way takes {seconds:.4g} s, planned are {move.duration:.4g} s"


_LEAST, _WAY_TIME = 0.0101, 0.02  # shares: of a limit that a whole percent of it is; of a way's planned time


def too_quick(plan: Plan, move: Move, made: Iterable[tuple[FloatArray, int]]) -> Iterator[str]:
    """Judge largest rates (order 1) and accelerations (2) of a way: the planned ones, or the language's least."""
    limits = plan.robot.limits
    for values, order in made:
        own, word = (limits.velocity, "speed") if order == 1 else (limits.acceleration, "acceleration")
        planned = np.abs(move.goal - move.origin) / (move.duration - move.blend) if order == 1 else move.most[order]
        allowed = np.maximum(1.001 * planned, _LEAST * np.where(np.isfinite(own), own, 0.0)) + 1e-9
        j = int(np.argmax(np.abs(values) / allowed))
        if not abs(values[j]) <= allowed[j]:
            name = plan.robot.joint_names[j]
            yield f"{name} has a {word} of {abs(values[j]):.3g} on a way, planned is {allowed[j]:.3g}"


def _marks(plan: Plan, target: Target, execution: Execution, step: float) -> Iterator[str]:
    if not target.marks:
        return
    wanted, found = _changes(marks(plan)), _changes(execution.marks)
    slack = 2.0 * step + 1e-3
    if [mark for _, mark in found] != [mark for _, mark in wanted]:
        yield f"marks are {_listed([m for _, m in found])}, planned are {_listed([m for _, m in wanted])}"
    else:
        for (t, mark), (due, _) in zip(found, wanted, strict=True):
            if abs(t - due) > slack:
                yield f"mark {mark} is set at {t:.6g} s, planned is {due:.6g} s"
                return


def _events(execution: Execution) -> Iterator[str]:
    """Check that the logger runs from before the run to after it, where the program controls it."""
    events = list(execution.events)
    if "log on" not in events and "log off" not in events:
        return
    order = [event for event in events if event in ("log on", "main", "log off")]
    if order != ["log on", "main", "log off"]:
        yield f"the logger and the run come as {_listed(order)}, expected log on, main, log off"


def _changes(given: tuple[tuple[float, int], ...]) -> list[tuple[float, int]]:
    """Return marks without repetitions of the one before."""
    return [pair for k, pair in enumerate(given) if k == 0 or pair[1] != given[k - 1][1]]


def _without_repeats(poses: FloatArray, apart: float = 1e-12) -> FloatArray:
    keep = np.concatenate([[True], np.abs(np.diff(poses, axis=0)).max(axis=1) > apart])
    return np.asarray(poses[keep])


def _extremes(plan: Plan) -> list[FloatArray]:
    names: tuple[StretchName, ...] = Stretches
    samples = [plan.stretch(name).at(np.linspace(0.0, plan.stretch(name).duration, 400)) for name in names]
    return [x for q in samples for x in (q.min(axis=0), q.max(axis=0))]


def _listed(items: list[object] | list[str] | list[int] | list[StretchName]) -> str:
    text = [str(item) for item in items]
    return ", ".join(text[:12]) + (f" … ({len(text)} in all)" if len(text) > 12 else "") if text else "nothing"
