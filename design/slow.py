"""Runs other than Fourier series: moves from pose to pose at stated speeds, with smooth ends, and stops in between.

Slow runs are planned in a cell: warm-up, sweeps at constant speed that excite friction, and static poses, chosen
D-optimal for the parameters of gravity and offsets (`static_poses`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.design.approach import NoPath, approach, blocked, is_clear, line_time, search_box, whole
from excitor.design.constraints.constraint import Trace
from excitor.design.constraints.constraint import excesses as excessive
from excitor.design.constraints.constraints import Constraints, worst_rows
from excitor.design.motion import RISE_MOST, Move, Run, hold
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.dynamics import frame_jacobian, inverse_dynamics, regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model
from excitor.robots.gram import stack
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot, posture

SlowKind = Literal["static", "friction", "warm-up"]

_ROUNDING = 1e-9


class InfeasibleRun(ExcitorError):
    """A run that cannot be made within the limits; `reasons` name the constraints that stand in its way."""

    def __init__(self, what: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(f"{what}: {'; '.join(reasons)}")


def measured_times(run: Run, step: float) -> FloatArray:
    """List times a step apart on what is measured: stops, and moves while they cruise."""
    found = [(start, end, max(1, round((end - start) / step))) for start, end in run.measured_spans()]
    times = [start + (np.arange(n) + 0.5) * ((end - start) / n) for start, end, n in found]
    return np.concatenate([np.empty(0), *times])


def measured_motion(run: Run, step: float) -> Motion:
    """Sample what is measured evenly, as `robots.gram.gram` and the forecast take it; see `measured_duration`."""
    return run.motion(measured_times(run, step))


def measured_duration(run: Run) -> float:
    """Sum the time that is measured, s."""
    return float(sum(end - start for start, end in run.measured_spans()))


def excesses(robot: Robot, run: Run, constraints: Constraints, *, step: float = 0.01) -> tuple[str, ...]:
    """Name every constraint that the run breaks on a grid of `step` s, with its limit and its worst; none if clear."""
    square, n = np.zeros(robot.n_joints), max(2, int(np.ceil(run.duration / step)) + 1)

    def trace_at(t: FloatArray) -> Trace:
        nonlocal square
        trace = Trace(robot, run.motion(t), run.at(t, 3))
        square = square + np.square(trace.torque).sum(axis=0)
        return trace

    rows, worst = worst_rows(robot, constraints, trace_at, np.arange(n) * (run.duration / (n - 1)))
    limits = np.array([row.limit for row in rows])
    found = list(excessive(rows, worst, _ROUNDING * np.maximum(1.0, np.abs(limits))).values())
    rms = np.sqrt(square / n)
    found += [
        f"torque rms {name} reaches {value:.4g}, limit {limit:.4g}"
        for name, value, limit in zip(robot.joint_names, rms, constraints.torque_rms, strict=True)
        if value > limit
    ]
    return tuple(found)


def move_time(distance: FloatArray, constraints: Constraints, *, share: float, sample_time: float) -> float:
    """Find how long a move with blends of a third takes at a share of the limits, in whole samples, s."""
    peaks = (1.5, 4.5 * RISE_MOST[1], 13.5 * RISE_MOST[2])
    time = line_time(distance, constraints.limits, share=share, peaks=peaks, unlimited=share)
    return whole(max(time, 6.0 * sample_time), sample_time)


SHARE = 0.9  # of the limits of torque and tool speed that plans use, for what they did not foresee
_BRISK, _CALM = 0.5, 0.3  # of the limits of velocity, acceleration and jerk: in warm-up and sweeps, between poses
_STEP = 0.03  # rad or m: how far below and above a static pose its approaches begin
_CANDIDATES = 600  # static poses to choose from
_SCAN = 400  # positions of a joint at which the cell is asked
_LEAST_CRUISE = 0.3  # s at constant speed; a sweep without is none
_ATTEMPTS = 300  # of finding a way around something
_SLOWER = 1.2  # by which moves are slowed down at a time
_PAUSE = 0.2  # s of standing still where a sweep turns


@dataclass(frozen=True, slots=True)
class SlowPlan:
    """Settings of slow runs: of the warm-up, of sweeps and of static poses."""

    sample_time: float
    seed: int = 0
    minutes: float = 10.0  # of a warm-up, at least; the last round is finished
    legs: int = 10  # different moves of a warm-up, before they repeat
    speeds: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # of sweeps, shares of the velocity limit or of 1 /s
    longest: float = 8.0  # s that one sweep cruises at most
    n_poses: int = 15  # to stand still in
    dwell: float = 1.0  # s that a pose is held, twice

    def __post_init__(self) -> None:
        if not 0.0 < self.minutes < np.inf or self.legs < 1:
            raise ValueError(f"minutes is {self.minutes}, legs {self.legs}, expected more than 0 and at least 1")
        if not self.speeds or not all(0.0 < speed <= 1.0 for speed in self.speeds):
            raise ValueError(f"speeds are {self.speeds}, expected shares of the velocity limit above 0, at most 1")
        if not self.longest > _LEAST_CRUISE:
            raise ValueError(f"longest is {self.longest} s, expected more than {_LEAST_CRUISE} s")
        if not 1 <= self.n_poses <= _CANDIDATES:
            raise ValueError(f"n_poses is {self.n_poses}, expected 1 to the {_CANDIDATES} candidates")
        if not self.dwell >= 3.0 * self.sample_time > 0.0:
            raise ValueError(f"dwell is {self.dwell} s, expected at least three samples of {self.sample_time} s")


def go(here: FloatArray, pose: FloatArray, constraints: Constraints, *, share: float, sample_time: float) -> list[Move]:
    """Make a move that takes the time it needs at a share of the limits; none where the robot is there."""
    if np.array_equal(pose, here):
        return []
    T = move_time(pose - here, constraints, share=share, sample_time=sample_time)
    return [Move(here, pose, T, T / 3.0, name="way")]


def finished(
    robot: Robot,
    constraints: Constraints,
    moves: Sequence[Move],
    kind: SlowKind,
    *,
    home: FloatArray,
    sample_time: float,
) -> Run:
    """Slow moves that are not measured down until every limit holds; InfeasibleRun names those that never do.

    The torques of a move are known only once its speed is chosen.
    """
    reasons: tuple[str, ...] = ()
    for slower in _SLOWER ** np.arange(20):
        made = [
            one
            if one.still or one.measured
            else replace(one, time=whole(slower * one.time, sample_time), blend=slower * one.blend)
            for one in moves
        ]
        run = Run(robot.joint_names, sample_time, tuple(made) or (hold(home, 0.0, name="way"),))
        reasons = excesses(robot, run, constraints)
        if not reasons:
            return run
    raise InfeasibleRun(f"the {kind} run breaks limits however slow its moves are", reasons)


def check_home(robot: Robot, constraints: Constraints, home: FloatArray, kind: SlowKind) -> FloatArray:
    """Refuse a pose that is in the way of something before anything moves."""
    home = np.asarray(home, dtype=float)
    if home.shape != (robot.n_joints,):
        raise ValueError(f"home has shape {home.shape}, expected the robot's {robot.n_joints} joints")
    rows = blocked(robot, home, constraints)
    if rows:
        raise InfeasibleRun(
            f"the {kind} run cannot start", [f"the pose it starts from is blocked by {', '.join(rows)}"]
        )
    return home


def friction_sweeps(
    robot: Robot, constraints: Constraints, *, home: FloatArray, plan: SlowPlan
) -> tuple[Run, tuple[str, ...]]:
    """Sweep one joint after the other, both ways at each speed; return what was left out, too, in sentences.

    Ranges shrink to what is clear around home.
    """
    home = check_home(robot, constraints, home, "friction")
    swept = [_sweep_joint(robot, constraints, home, i, plan) for i in range(robot.n_joints) if i not in robot.locked]
    moves, notes = (
        [one for each in some for one in each] for some in (zip(*swept, strict=True) if swept else ((), ()))
    )
    run = finished(robot, constraints, moves, "friction", home=home, sample_time=plan.sample_time)
    return run, tuple(notes)


def warm_up(robot: Robot, constraints: Constraints, *, home: FloatArray, plan: SlowPlan) -> Run:
    """Move all joints between far poses until the time is over; one round is checked, the others are like it."""
    home = check_home(robot, constraints, home, "warm-up")
    poses, step = [home, *_far_poses(robot, constraints, home, plan)], plan.sample_time
    moves = [one for a, b in pairwise(poses) for one in go(a, b, constraints, share=_BRISK, sample_time=step)]
    once = finished(robot, constraints, moves, "warm-up", home=home, sample_time=step)
    return replace(once, segments=once.segments * max(1, int(np.ceil(60.0 * plan.minutes / once.duration))))


def clear_range(robot: Robot, constraints: Constraints, home: FloatArray, joint: int) -> tuple[float, float, str]:
    """Find how far a joint can go from home with the others at rest: lowest, highest, and what ends the range."""
    limited = np.isfinite(constraints.limits.position[joint]).all()
    ends, reasons = [], []
    for box in search_box(robot, constraints, home[None], slide=0.5):
        end, last, reason = box[joint], home[joint], "position limit" if limited else "half a turn"
        for x in np.linspace(home[joint], end, _SCAN)[1:]:
            pose, before = home.copy(), home.copy()
            pose[joint], before[joint] = x, last
            rows = blocked(robot, pose, constraints)
            if rows or not is_clear(robot, constraints, before, pose):
                reason = ", ".join(rows) or "what is near"
                break
            last = float(x)
        ends.append(last)
        reasons.append(reason)
    return ends[0], ends[1], " and ".join(dict.fromkeys(reasons))


def _sweep_joint(
    robot: Robot, constraints: Constraints, home: FloatArray, i: int, plan: SlowPlan
) -> tuple[list[Move], list[str]]:
    """Make one joint's sweeps, from home and back; returns what was left out, too."""
    name = robot.joint_names[i]
    low, high, reason = clear_range(robot, constraints, home, i)
    unit = "m" if robot.mechanism.prismatic[i] else "rad"
    limit = constraints.limits.velocity[i]
    fastest = min(SHARE * constraints.tool_speed / _lever(robot, home, i, low, high), limit)
    notes: list[str] = []
    moves: list[Move] = []
    for share in sorted(plan.speeds):
        v = share * (limit if np.isfinite(limit) else 1.0)
        if v > fastest:
            notes.append(
                f"{name}: {v:.4g} {unit}/s left out, the tool would be faster than {constraints.tool_speed:g} m/s"
            )
            continue
        B = _blend(constraints, i, v, plan)
        way = min(high - low, v * (B + plan.longest))
        if way / v - B < _LEAST_CRUISE:
            notes.append(f"{name}: {v:.4g} {unit}/s left out, only {high - low:.3g} {unit} are clear ({reason})")
            continue
        a, b = home.copy(), home.copy()
        a[i], b[i] = 0.5 * (low + high - way), 0.5 * (low + high + way)
        T, pause = (whole(time, plan.sample_time) for time in ((b[i] - a[i]) / v + B, _PAUSE))
        here = moves[-1].goal if moves else home
        moves += go(here, a, constraints, share=0.5 * _BRISK, sample_time=plan.sample_time)
        for x, y in ((a, b), (b, a)):
            moves += [Move(x, y, T, B, name="measured", measured=True), hold(y, pause, name="way")]
    if not moves:
        raise InfeasibleRun(
            f"{name} cannot be swept at any of the speeds; choose slower ones, or another home", [*notes]
        )
    moves += go(moves[-1].goal, home, constraints, share=0.5 * _BRISK, sample_time=plan.sample_time)
    return moves, notes


def _blend(constraints: Constraints, i: int, v: float, plan: SlowPlan) -> float:
    """Find how long a joint takes to reach a speed at a share of its limits, s."""
    limits = constraints.limits
    needs = [
        v * RISE_MOST[1] / (_BRISK * limits.acceleration[i]),
        np.sqrt(v * RISE_MOST[2] / (_BRISK * limits.jerk[i])),
        0.05,
        4.0 * plan.sample_time,
    ]
    return whole(float(max(needs)), plan.sample_time)


def _lever(robot: Robot, home: FloatArray, i: int, low: float, high: float) -> float:
    """Find the tool's speed for a unit speed of a joint: the most over its range."""
    q = np.tile(home, (101, 1))
    q[:, i] = np.linspace(low, high, len(q))
    return max(float(np.linalg.norm(frame_jacobian(robot, q)[:, :3, i], axis=1).max()), 1e-12)


def _far_poses(robot: Robot, constraints: Constraints, home: FloatArray, plan: SlowPlan) -> list[FloatArray]:
    """Choose poses towards alternating ends of the ranges, with clear ways from each to the next, and home at last."""
    random = np.random.default_rng(plan.seed)
    low, high = search_box(robot, constraints, home[None], slide=0.5)
    chosen: list[FloatArray] = []
    reasons: dict[str, int] = {}
    here = home
    side = random.random(robot.n_joints) < 0.5
    for _ in range(200 * plan.legs):
        depth = random.uniform(0.02, 0.35, size=robot.n_joints) * (high - low)
        pose = np.where(side, high - depth, low + depth)
        rows = blocked(robot, pose, constraints)
        if not rows and is_clear(robot, constraints, here, pose):
            chosen.append(pose)
            here, side = pose, ~side
            if len(chosen) == plan.legs:
                break
        else:
            for row in rows or ("the way there",):
                reasons[row] = reasons.get(row, 0) + 1
            side = random.random(robot.n_joints) < 0.5
    back = way(robot, constraints, here, home)
    if not chosen or back is None:
        often = sorted(reasons, key=lambda row: -reasons[row])[:3]
        raise InfeasibleRun(
            "the warm-up run finds no poses to move between", [f"most are blocked by {', '.join(often)}"]
        )
    return [*chosen, *back]


def way(robot: Robot, constraints: Constraints, a: FloatArray, b: FloatArray) -> list[FloatArray] | None:
    """Find poses that lead from a to b, b the last of them; None where no way is found."""
    if is_clear(robot, constraints, a, b):
        return [b]
    found = approach(robot, a, b, constraints, attempts=_ATTEMPTS)
    return None if isinstance(found, NoPath) else list(found.knots[1:])


_TOLERANCE = 1e-7  # of pivots: smaller ones are columns that others explain
_RIDGE = 1e-9  # keeps the first choices, which determine nothing yet, comparable
_ROUNDS = 5  # of choosing anew without poses that cannot be reached


def static_poses(
    robot: Robot, constraints: Constraints, *, home: FloatArray, plan: SlowPlan, weights: FloatArray | None = None
) -> Run:
    """Choose poses, and the moves between them; rows of joint i weigh weights[i]."""
    home = check_home(robot, constraints, home, "static")
    poses = _candidates(robot, constraints, home, plan)
    W = static_rows(robot, poses) * (1.0 if weights is None else np.asarray(weights)[:, None])
    for _ in range(_ROUNDS):
        chosen = d_optimal(W, plan.n_poses)
        legs, lost = _tour(robot, constraints, home, poses[chosen], plan)
        if not lost:
            return _run(robot, constraints, home, legs, plan)
        keep = np.setdiff1d(np.arange(len(poses)), chosen[lost])
        poses, W = poses[keep], W[keep]
        if len(poses) < plan.n_poses:
            break
    raise InfeasibleRun("the static run cannot reach enough poses", ["no clear way to them from home was found"])


def static_rows(robot: Robot, q: FloatArray) -> FloatArray:
    """Rows of independent columns that show at rest, (n_poses, n_joints, n_columns), columns of norm 1."""
    Y = regressor(robot, posture(q))[:, :, static_columns(robot, q)]
    return np.asarray(Y / np.linalg.norm(Y, axis=(0, 1)))


def static_columns(robot: Robot, q: FloatArray) -> IntArray:
    """Find independent columns of the regressor at rest in the poses q, as the layout numbers them."""
    W = stack(regressor(robot, posture(q)))
    norms = np.linalg.norm(W, axis=0)
    shown = norms > _TOLERANCE * norms.max(initial=0.0)
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if friction_model(term).memory:  # what it holds depends on how the pose was reached
            shown[column] = False
    columns = np.flatnonzero(shown)
    if not len(columns):
        raise InfeasibleRun("a static run shows nothing", [f"{robot.name} has no gravity and no offsets at rest"])
    _, R, order = scipy.linalg.qr(W[:, columns] / norms[columns], mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    return np.sort(columns[order[: int(np.count_nonzero(pivots > _TOLERANCE * pivots[0]))]])


def d_optimal(W: FloatArray, k: int) -> IntArray:
    """Choose k of the row blocks (n, n_rows, n_columns) for a large det Σ WᵀW: greedily, then by exchange."""
    n_columns = W.shape[2]
    size = np.sqrt(np.mean(W**2, axis=(0, 1)))
    W = W / np.where(size > 0.0, size, 1.0)  # a determinant does not mind, and the ridge has one meaning
    M = _RIDGE * np.eye(n_columns)
    chosen: list[int] = []
    for _ in range(k):
        chosen.append(_best_addition(W, M, chosen))
        M = M + W[chosen[-1]].T @ W[chosen[-1]]
    for _ in range(20):
        changed = False
        for place in range(k):
            old = chosen[place]
            M = M - W[old].T @ W[old]
            new = _best_addition(W, M, chosen[:place] + chosen[place + 1 :])
            if new != old and _gain(W[[new]], M)[0] > _gain(W[[old]], M)[0] * (1.0 + 1e-9):
                chosen[place], changed = new, True
            M = M + W[chosen[place]].T @ W[chosen[place]]
        if not changed:
            break
    return np.array(chosen)


def _best_addition(W: FloatArray, M: FloatArray, taken: list[int]) -> int:
    gains = _gain(W, M)
    gains[taken] = -np.inf
    return int(np.argmax(gains))


def _gain(W: FloatArray, M: FloatArray) -> FloatArray:
    """Evaluate det(M + WᵀW) / det M = det(1 + W M⁻¹ Wᵀ) of each block."""
    return np.asarray(np.linalg.det(np.eye(W.shape[1]) + W @ np.linalg.solve(M, W.transpose(0, 2, 1))))


def _candidates(robot: Robot, constraints: Constraints, home: FloatArray, plan: SlowPlan) -> FloatArray:
    """Draw poses that can be held and approached from both sides."""
    random = np.random.default_rng(plan.seed)
    low, high = search_box(robot, constraints, home[None], slide=0.5)
    step = _step(robot)
    if (high - low < 2.0 * step).any():
        short = ", ".join(np.array(robot.joint_names)[high - low < 2.0 * step])
        raise InfeasibleRun("the static run has no room", [f"position limits of {short} are closer than two steps"])
    q = random.uniform(low + step, high - step, size=(4 * _CANDIDATES, robot.n_joints))
    worst, names = _static_values(robot, constraints, np.stack([q - step, q, q + step]))
    good = np.flatnonzero((worst <= 0.0).all(axis=1))[:_CANDIDATES]
    if len(good) < plan.n_poses:
        often = np.argsort(-(worst > 0.0).mean(axis=0), kind="stable")[:3]
        reasons = [f"{names[k]} forbids {(worst[:, k] > 0.0).mean():.0%}" for k in often if (worst[:, k] > 0.0).any()]
        raise InfeasibleRun(
            f"of {len(q)} random poses only {len(good)} can be held, {plan.n_poses} are required", reasons
        )
    return q[good]


def _static_values(robot: Robot, constraints: Constraints, sides: FloatArray) -> tuple[FloatArray, list[str]]:
    """Evaluate g ≤ 0 of poses (n_sides, n_poses, n_joints), the worst of their sides, and name the constraints."""
    n_sides, n_poses, n_joints = sides.shape
    flat = sides.reshape(-1, n_joints)
    names = [f"holding torque of {name}" for name in robot.joint_names]
    values = [np.abs(inverse_dynamics(robot, posture(flat))) - SHARE * constraints.limits.torque]
    rows, deficits = constraints.pose_deficits(robot, flat)
    names, values = names + [row.label for row in rows], [*values, deficits]
    return np.concatenate(values, axis=1).reshape(n_sides, n_poses, -1).max(axis=0), names


def _step(robot: Robot) -> FloatArray:
    step = np.full(robot.n_joints, _STEP)
    step[list(robot.locked)] = 0.0
    return step


def _tour(
    robot: Robot, constraints: Constraints, home: FloatArray, poses: FloatArray, plan: SlowPlan
) -> tuple[list[list[FloatArray]], list[int]]:
    """Visit the nearest pose next; each leg's knots, the last of them the pose, then home; and what was not reached."""
    low, high = search_box(robot, constraints, home[None], slide=0.5)
    scale = np.where(high > low, high - low, 1.0)
    step = _step(robot)
    left, legs, lost, here = list(range(len(poses))), [], [], home
    while left:
        k = min(left, key=lambda k: float(np.abs((poses[k] - here) / scale).max()))
        left.remove(k)
        knots = way(robot, constraints, here, poses[k] - step)
        clear = way(robot, constraints, poses[k] - step, poses[k] + step)
        if knots is None or clear is None or len(clear) > 1:
            lost.append(k)
            continue
        legs.append([*knots, poses[k]])
        here = poses[k]
    back = way(robot, constraints, here, home)
    if back is None:
        return legs, lost or [len(poses) - 1]
    return [*legs, back], lost


def _run(robot: Robot, constraints: Constraints, home: FloatArray, legs: list[list[FloatArray]], plan: SlowPlan) -> Run:
    moves: list[Move] = []
    step, here = _step(robot), home

    def lead(*poses: FloatArray) -> None:
        nonlocal here
        for pose in poses:
            moves.extend(go(here, pose, constraints, share=_CALM, sample_time=plan.sample_time))
            here = pose

    for *way_there, pose in legs[:-1]:
        dwell = hold(pose, whole(plan.dwell, plan.sample_time), name="measured", measured=True)
        lead(*way_there, pose)
        moves.append(dwell)
        lead(pose + step, pose)
        moves.append(dwell)
    lead(*legs[-1])
    return finished(robot, constraints, moves, "static", home=home, sample_time=plan.sample_time)
