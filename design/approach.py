"""The way from one pose to another, through a cell: straight if that is clear, else around what stands there.

A way is a list of poses joined by straight lines in joint space; the robot starts and stops on each line with the
envelope that the ramps use, slowly. Lines are proven clear by a Lipschitz bound on what moves, and closed chains are
proven to stay assembled, away from singularities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from excitor.design.certify.bounds import all_hold
from excitor.design.constraints.clearance import Clearance
from excitor.design.constraints.constraint import Constraint, beyond
from excitor.design.constraints.constraints import Constraints
from excitor.design.motion import RISE_MOST, Run, Spans, Table, line_run, rise, spans
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import tool_speeds
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.robot import Limits, Motion, Robot
from excitor.robots.tree import Tree

_SLOW = 0.25  # share of the limits of velocity, acceleration, jerk that a way may use
_TORQUE_SHARE = 0.98  # of the torque limits, for what lies between the samples
_STRETCH, _STRETCHES = 1.3, 12  # of a line's time, until its torque fits
_GENTLE = 0.5  # rad/s or m/s where no velocity limit is stated
_STEP = 0.08  # of the joint ranges: how far a tree grows at once
_SHORTCUTS = 150  # that are tried on a way around something
_FIRST = 8  # intervals of a line, before they are bisected


@dataclass(frozen=True, slots=True)
class NoPath:
    """No way was found; the reason is a sentence."""

    reason: str


def approach(
    robot: Robot,
    start: FloatArray,
    goal: FloatArray,
    constraints: Constraints,
    *,
    sample_time: float = 0.004,
    attempts: int = 3000,
) -> Run | NoPath:
    """Find a way between two poses that keeps to the joint limits and the cell; NoPath names what is in the way.

    Where the straight way is blocked, `attempts` poses are drawn at most.
    """
    start, goal = np.asarray(start, dtype=float), np.asarray(goal, dtype=float)
    for name, pose in (("start", start), ("goal", goal)):
        rows = blocked(robot, pose, constraints)
        if rows:
            return NoPath(f"the {name} of the way is blocked by {', '.join(rows)}; choose another pose, or relax these")
    unknown = [item.unprovable(robot, True) for item in constraints.of_poses(robot)]
    if any(unknown):
        return NoPath(f"{next(filter(None, unknown))}, so no way can be proven clear")
    if np.array_equal(start, goal):
        return line_run(robot.joint_names, sample_time, start[None, :], ())
    if is_clear(robot, constraints, start, goal):
        poses = np.stack([start, goal])
    else:
        rng = np.random.default_rng(0)
        found = _connect(robot, constraints, np.stack([start, goal]), rng, attempts)
        if found is None:
            return NoPath(
                f"no way between the two poses was found in {attempts} attempts: the straight one is blocked "
                f"by {', '.join(_blocking(robot, constraints, start, goal))}"
            )
        poses = _shortened(robot, constraints, found, rng)
    return timed(robot, poses, constraints, sample_time)


def blocked(robot: Robot, pose: FloatArray, constraints: Constraints) -> tuple[str, ...]:
    """Name the joint limits and the rows of the cell that a pose violates."""
    low, high = constraints.limits.position.T
    names = [f"position {robot.joint_names[i]}" for i in np.flatnonzero((pose < low) | (pose > high))]
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop) and (mechanism.singularity_distances(pose[None, :]) <= 0.0).any():
        return (*names, "the pose cannot be assembled, or lies beyond a singularity")
    rows, deficits = constraints.pose_deficits(robot, pose[None, :])
    return tuple(names + [rows[k].label for k in np.flatnonzero(deficits[0] > 0.0)])


def is_clear(robot: Robot, constraints: Constraints, a: FloatArray, b: FloatArray) -> bool:
    """Prove that every pose on a straight line in joint space keeps the constraints: bisect until the bounds decide.

    A closed chain must stay assembled, too.
    """
    items = constraints.of_poses(robot)
    if isinstance(robot.mechanism, Tree):
        if not all(item.line_is_clear(robot, a, b) for item in items if isinstance(item, Clearance)):
            return False
        items = tuple(item for item in items if not isinstance(item, Clearance))
    if not items:
        return True
    line = Table(np.array([0.0, 1.0]), np.stack([a, b]), "lines", name="line")
    return all_hold(
        lambda left, right: _margins(robot, items, spans(line, left, right)), np.linspace(0.0, 1.0, _FIRST + 1)
    )


def timed(robot: Robot, poses: FloatArray, constraints: Constraints, sample_time: float) -> Run:
    """Set each line's duration (whole controller samples) for a quarter of the joint limits, tool speed and torque."""
    limits = constraints.limits
    durations = []
    for a, b in pairwise(poses):
        time = line_time(b - a, limits, share=_SLOW, peaks=RISE_MOST[1:4], unlimited=_GENTLE)
        time = max(time, _tool_time(robot, a, b, constraints.tool_speed), sample_time)
        for _ in range(_STRETCHES):
            if _torque_fits(robot, a, b, time, limits.torque):
                break
            time *= _STRETCH
        durations.append(whole(time, sample_time))
    return line_run(robot.joint_names, sample_time, poses, durations)


def line_time(
    distance: FloatArray, limits: Limits, *, share: float, peaks: FloatArray | Sequence[float], unlimited: float
) -> float:
    """Find how long a line takes at a share of the limits of velocity, acceleration and jerk, s.

    `peaks` are the largest first, second and third derivative of its profile from 0 to 1 in unit time; a joint without
    a velocity limit goes at most at the speed `unlimited`.
    """
    velocity = np.where(np.isfinite(limits.velocity), share * limits.velocity, unlimited)
    rates = zip(peaks, (velocity, share * limits.acceleration, share * limits.jerk), strict=True)
    return max(
        float((peak * np.abs(distance) / rate).max() ** (1.0 / order)) for order, (peak, rate) in enumerate(rates, 1)
    )


def whole(time: float, sample_time: float) -> float:
    """Round a time up to whole controller samples."""
    return float(np.ceil(time / sample_time - 1e-9) * sample_time)


def _torque_fits(robot: Robot, a: FloatArray, b: FloatArray, time: float, limit: FloatArray) -> bool:
    """Return True if a line in `time` s keeps 98 % of the torque limits, or speed adds less than 1 % to the torque."""
    if not np.isfinite(limit).any():
        return True
    s = np.linspace(0.0, 1.0, 64)
    q, dq, ddq = (rise(s, order)[:, None] / time**order * (b - a) + (a if order == 0 else 0.0) for order in range(3))
    moving = np.abs(inverse_dynamics(robot, Motion(q, dq, ddq)))
    slowly = np.abs(inverse_dynamics(robot, Motion(q, 1e-6 * dq, 0.0 * ddq)))
    return bool(((moving <= _TORQUE_SHARE * limit) | (moving <= 1.01 * slowly)).all())


def _tool_time(robot: Robot, a: FloatArray, b: FloatArray, limit: float) -> float:
    """Find how long a line must take for the tool to stay a twentieth below its speed limit."""
    if not np.isfinite(limit):
        return 0.0
    s = np.linspace(0.0, 1.0, 257)
    q = a + rise(s)[:, None] * (b - a)
    dq = rise(s, 1)[:, None] * (b - a)
    return float(tool_speeds(robot, Motion(q, dq, np.zeros_like(q))).max() / (0.95 * limit))


def _blocking(robot: Robot, constraints: Constraints, a: FloatArray, b: FloatArray) -> list[str]:
    """Name the rows that a straight line comes nearest to violating."""
    held, deficits = constraints.pose_deficits(robot, a + np.linspace(0.0, 1.0, 401)[:, None] * (b - a))
    worst = deficits.max(axis=0)
    rows = np.flatnonzero(worst > 0.0)
    return [held[row].label for row in (rows if rows.size else [int(np.argmax(worst))])]


def _connect(
    robot: Robot, constraints: Constraints, ends: FloatArray, rng: np.random.Generator, attempts: int
) -> FloatArray | None:
    """Grow a tree from each end towards random poses and towards each other ([Kuffner2000] RRT-Connect)."""
    low, high = search_box(robot, constraints, ends)
    width = np.where(high > low, high - low, 1.0)
    nodes = [[ends[0]], [ends[1]]]
    above = [[-1], [-1]]
    side = 0
    for _ in range(attempts):
        target = rng.uniform(low, high)
        new = _grow(robot, constraints, nodes[side], above[side], target, width)
        other = 1 - side
        if new is not None:
            while (near := _grow(robot, constraints, nodes[other], above[other], new, width)) is not None:
                if np.array_equal(near, new):
                    trunks = [_trunk(nodes[k], above[k]) for k in (0, 1)]
                    return np.array([*trunks[0][::-1], *trunks[1][1:]])
        side = other
    return None


def search_box(
    robot: Robot, constraints: Constraints, ends: FloatArray, *, slide: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Bound where poses are sampled: the joint limits, else half a turn or `slide` m around the ends."""
    reach = np.where(robot.mechanism.prismatic, slide, np.pi)
    low, high = constraints.limits.position.T.copy()
    low = np.where(np.isfinite(low), low, ends.min(axis=0) - reach)
    high = np.where(np.isfinite(high), high, ends.max(axis=0) + reach)
    for joint in robot.locked:
        low[joint], high[joint] = ends[:, joint].min(), ends[:, joint].max()
    return low, high


def _grow(
    robot: Robot,
    constraints: Constraints,
    nodes: list[FloatArray],
    above: list[int],
    target: FloatArray,
    width: FloatArray,
) -> FloatArray | None:
    """Add the pose a step towards the target from the nearest one, or the target itself; None if that is blocked."""
    away = np.linalg.norm((np.array(nodes) - target) / width, axis=1)
    nearest = int(np.argmin(away))
    pose = target
    if away[nearest] > _STEP:
        pose = nodes[nearest] + (_STEP / away[nearest]) * (target - nodes[nearest])
    if away[nearest] > 0.0 and not is_clear(robot, constraints, nodes[nearest], pose):
        return None
    nodes.append(pose)
    above.append(nearest)
    return pose


def _trunk(nodes: list[FloatArray], above: list[int]) -> list[FloatArray]:
    """Walk from the newest node to the root."""
    walk, k = [], len(nodes) - 1
    while k >= 0:
        walk.append(nodes[k])
        k = above[k]
    return walk


def _shortened(robot: Robot, constraints: Constraints, poses: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Shorten the way at random: join two of its points by a straight line where that line is clear."""
    for _ in range(_SHORTCUTS):
        if len(poses) < 3:
            break
        i, k = sorted(rng.integers(0, len(poses) - 1, size=2))
        x, y = rng.uniform(size=2).round(2)  # round, so that poses themselves are picked at times
        if i == k:
            continue
        a = poses[i] + x * (poses[i + 1] - poses[i])
        b = poses[k] + y * (poses[k + 1] - poses[k])
        if is_clear(robot, constraints, a, b):
            poses = _without_repeats(np.array([*poses[: i + 1], a, b, *poses[k + 1 :]]))
    k = 1
    while k < len(poses) - 1:
        if is_clear(robot, constraints, poses[k - 1], poses[k + 1]):
            poses = np.delete(poses, k, axis=0)
        else:
            k += 1
    return poses


def _without_repeats(poses: FloatArray) -> FloatArray:
    moved = np.abs(np.diff(poses, axis=0)).max(axis=1) > 1e-9
    keep = np.concatenate([[True], moved])
    keep[-1] = True
    return np.asarray(poses[keep])


def _margins(robot: Robot, items: Sequence[Constraint], part: Spans) -> FloatArray | None:
    """Bound the margin of every limit inside intervals from below; None where a sample violates one."""
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop) and not (mechanism.singularity_distances(part.jets[0]) > 0.0).all():
        return None  # it cannot be assembled there
    margins = []
    for item in items:
        rows, (inside, at_samples) = item.rows(robot), item.bound(robot, part)
        if (beyond(rows, at_samples) > 0.0).any():
            return None
        margins.append(-beyond(rows, inside))
    return np.concatenate(margins, axis=1)
