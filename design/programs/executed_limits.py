"""Whether what a program makes of a plan keeps to the limits that the plan was certified for.

How much beyond a limit is still the certified motion, which may use all of it:

* velocities, torques, accelerations, the tool's speed: 0.1 % where it is known how points are joined, for rounding to
  24 bits and the fitted difference of commands; 0.5 % where it is not, for a C2 spline through 30 points a cycle has
  0.4 % more acceleration than what it follows; 0.5 % of jerk, which rounding shows in most;
* positions: what rounding makes of them and 1e-6 rad or m, the error allowed between points; 1e-4 rad or m (0.006°,
  0.1 mm) where it is not known how points are joined;
* clearances: 0.1 mm, which is 1e-5 rad at all of six joints of a large robot; 2 mm for way-points, as blends cut their
  corners, and a cell is not measured better than that.

An excess of 1 % is more than any of them. Where an acceleration jumps from segment to segment, it is averaged over the
time between two points, and so are torques; jerk is not looked at there: it has no meaning, and the controller's own
planner keeps to its own.
"""

from collections.abc import Iterator

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.fourier import Trajectory
from excitor.design.programs.compare import position_tolerance
from excitor.design.programs.courses import Part, nominal
from excitor.design.programs.interpolation import Course
from excitor.design.programs.plan import Plan
from excitor.design.programs.target import Target
from excitor.design.row_limits import RowLimits, row_excesses, row_limits, row_values
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import Motion

FINE_SAMPLES = 2000  # of a period, at which a planned condition number is told
PERIOD_SAMPLES = 2003  # of a period: a prime, so that they do not fall on the same places between points
_STEP = 0.01  # s, between the samples that are looked at, or
_PER_CYCLE = 100  # samples of the highest harmonic's: a peak between two is less than 0.05 % higher
_CHUNK = 20_000
_CLOCK = 1e-6  # s: rounding of times


def broken_limits(plan: Plan, target: Target, part: Part, constraints: Constraints) -> Iterator[str]:
    """Name every constraint that a part breaks, with its limit and its worst over all that it may become."""
    rows, times = row_limits(plan.robot, constraints), looked_at(plan, target, part)
    courses = nominal(part.courses)
    judged = np.array([_worst(plan, constraints, rows, course, times) for course in courses])
    for k, sentence in row_excesses(rows, judged.max(axis=0), _allowed(plan, target, part, rows)).items():
        course = courses[int(np.argmax(judged[:, k]))]
        yield f"{part.name}: {sentence}" + (f", as {course.name}" if part.assumed else "")
    if part.name == "main" and np.isfinite(constraints.torque_rms).any():
        yield from _broken_means(plan, part, constraints)


def repeats(plan: Plan) -> tuple[float, float, int]:
    """Tell what of the main stretch is made again and again: since when, s, how long once, and how often."""
    if isinstance(plan.body, Trajectory):
        excitation = plan.body.excitation
        start = excitation.settle + excitation.ramp
        return start, excitation.period, excitation.warm_up + excitation.measured
    return 0.0, sum(move.duration for move in plan.body.moves), plan.body.repeats


def alike(plan: Plan, target: Target, part: Part) -> bool:
    """Tell whether every period has the points of the first, but for rounding."""
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
    """List the times at which a part is looked at; of periods that are all alike, one."""
    finest = _STEP
    if part.name == "main" and isinstance(plan.body, Trajectory):
        excitation = plan.body.excitation
        finest = min(_STEP, excitation.period / excitation.harmonics[-1] / _PER_CYCLE)
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


def _worst(plan: Plan, constraints: Constraints, rows: RowLimits, course: Course, times: FloatArray) -> FloatArray:
    """Evaluate each row's worst of one course; rows that say nothing of it are at -inf."""
    worst = np.full(len(rows.names), -np.inf)
    pushed = np.isfinite(constraints.limits.torque).any()
    for first in range(0, len(times), _CHUNK):
        t = times[first : first + _CHUNK]
        motion: Motion = course.motion(t)
        tau = inverse_dynamics(plan.robot, motion) if pushed else np.zeros_like(motion.q)
        worst = np.maximum(worst, row_values(plan.robot, constraints, motion, jerk=course.at(t, 3), tau=tau))
    if course.jumps:
        worst[rows.of_kind("jerk")] = -np.inf
    return np.asarray(worst)


def _broken_means(plan: Plan, part: Part, constraints: Constraints) -> Iterator[str]:
    """Hold the torques of a period against their limits in the mean square."""
    start, period, _ = repeats(plan)
    n = max(PERIOD_SAMPLES, round(period / _STEP))
    motions = [course.motion(start + (np.arange(n) + 0.5) * (period / n)) for course in nominal(part.courses)]
    squares = [np.square(inverse_dynamics(plan.robot, motion)).mean(axis=0) for motion in motions]
    rms = np.sqrt(np.array(squares).max(axis=0))
    for name, value, limit in zip(plan.robot.joint_names, rms, constraints.torque_rms, strict=True):
        if value > limit * (1.0 + _share(part)):
            yield f"{part.name}: torque rms {name} reaches {value:.4g}, limit {limit:.4g}"


def _allowed(plan: Plan, target: Target, part: Part, rows: RowLimits) -> FloatArray:
    n_joints = plan.robot.n_joints
    allowed = np.abs(rows.limits) * np.where(rows.of_kind("jerk"), 5e-3, _share(part))
    allowed[: 2 * n_joints] = np.tile(position_tolerance(plan, target) + (1e-4 if _guessed(part) else 1e-6), 2)
    allowed[rows.of_kind("clearance")] = 2e-3 if part.kind == "way-points" else 1e-4
    return np.asarray(allowed)


def _share(part: Part) -> float:
    return 5e-3 if _guessed(part) else 1e-3


def _guessed(part: Part) -> bool:
    """Tell whether what happens between points is not known; lines from rest to rest are lines whatever their pace."""
    return bool(part.assumed) and part.kind != "stops"
