"""Plan slow runs in a cell: warm-up, and sweeps at constant speed that show friction. Static poses: `static_poses`."""

from dataclasses import dataclass, field

import numpy as np

from excitor.design.approach import BlockedPose, NoPath, approach, blocked, is_clear
from excitor.design.constraints import Constraints
from excitor.design.pieces import RISE_MOST
from excitor.design.slow_runs import InfeasibleRun, SlowKind, SlowRun, excesses, move_time, whole
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_jacobian
from excitor.robots.robot import Robot

SHARE = 0.9  # of the limits of torque and tool speed that plans use, for what they did not foresee
_SCAN = 400  # positions of a joint at which the cell is asked
_LEAST_CRUISE = 0.3  # s at constant speed; a sweep without is none
_ATTEMPTS = 300  # of finding a way around something
_SLOWER = 1.2  # by which moves are slowed down at a time
_PAUSE = 0.2  # s of standing still where a sweep turns


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Friction sweeps: every joint alone, there and back, at each speed."""

    sample_time: float
    speeds: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # shares of the velocity limit; of 1 /s if none
    longest: float = 8.0  # s that one sweep cruises at most
    share: float = 0.5  # of the limits of acceleration and jerk

    def __post_init__(self) -> None:
        _check_shares(share=self.share)
        if not self.speeds or not all(0.0 < speed <= 1.0 for speed in self.speeds):
            raise ValueError(f"speeds are {self.speeds}, expected shares of the velocity limit above 0, at most 1")
        if not self.longest > _LEAST_CRUISE:
            raise ValueError(f"longest is {self.longest} s, expected more than {_LEAST_CRUISE} s")


@dataclass(frozen=True, slots=True)
class WarmUpPlan:
    """A warm-up: all joints to and fro over large ranges, again and again."""

    sample_time: float
    minutes: float = 10.0  # at least; the last round is finished
    legs: int = 10  # different moves, before they repeat
    share: float = 0.5  # of the limits of velocity, acceleration and jerk
    seed: int = 0

    def __post_init__(self) -> None:
        _check_shares(share=self.share)
        if not 0.0 < self.minutes < np.inf or self.legs < 1:
            raise ValueError(f"minutes is {self.minutes}, legs {self.legs}, expected more than 0 and at least 1")


@dataclass(slots=True)
class Moves:
    """A run under construction: where it has come to, and how."""

    constraints: Constraints
    sample_time: float
    knots: list[FloatArray]
    durations: list[float] = field(default_factory=list)
    blends: list[float] = field(default_factory=list)
    measured: list[bool] = field(default_factory=list)

    def move(self, pose: FloatArray, duration: float, blend: float, *, measured: bool = False) -> None:
        """Append a move, or a stop where the pose is that of the last knot."""
        self.knots.append(np.asarray(pose, dtype=float))
        self.durations.append(duration)
        self.blends.append(blend)
        self.measured.append(measured)

    def go(self, pose: FloatArray, share: float) -> None:
        """Append a move that takes the time it needs at a share of the limits."""
        if np.array_equal(pose, self.knots[-1]):
            return
        T = move_time(pose - self.knots[-1], self.constraints, share=share, sample_time=self.sample_time)
        self.move(pose, T, T / 3.0)

    def stop(self, duration: float, *, measured: bool = False) -> None:
        """Append a stop of at least a duration."""
        duration = whole(duration, self.sample_time)
        self.move(self.knots[-1], duration, duration / 3.0, measured=measured)


def finished(robot: Robot, moves: Moves, *, kind: SlowKind, notes: list[str]) -> SlowRun:
    """Slow moves that are not measured down until every limit holds; InfeasibleRun names those that never do.

    What torques a move takes is known only once its speed is chosen.
    """
    knots, measured, h = np.array(moves.knots), np.array(moves.measured), moves.sample_time
    free = np.diff(knots, axis=0).any(axis=1) & ~measured
    reasons: tuple[str, ...] = ()
    for slower in _SLOWER ** np.arange(20):
        stretch = np.where(free, slower, 1.0)
        durations = np.array([whole(T, h) for T in stretch * moves.durations])
        run = SlowRun(kind, h, knots, durations, stretch * np.array(moves.blends), measured, tuple(notes))
        reasons = excesses(robot, run, moves.constraints)
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


def friction_sweeps(robot: Robot, constraints: Constraints, *, home: FloatArray, plan: SweepPlan) -> SlowRun:
    """Sweep one joint after the other, both ways at each speed; ranges shrink to what is clear around home."""
    home = check_home(robot, constraints, home, "friction")
    moves, notes = Moves(constraints, plan.sample_time, [home]), []
    for i in range(robot.n_joints):
        if i not in robot.locked:
            notes += _sweep_joint(robot, moves, i, plan)
    return finished(robot, moves, kind="friction", notes=notes)


def warm_up(robot: Robot, constraints: Constraints, *, home: FloatArray, plan: WarmUpPlan) -> SlowRun:
    """Move all joints between far poses until the time is over; one round is checked, the others are like it."""
    home = check_home(robot, constraints, home, "warm-up")
    moves = Moves(constraints, plan.sample_time, [home])
    for pose in _far_poses(robot, constraints, home, plan):
        moves.go(pose, plan.share)
    return _repeated(finished(robot, moves, kind="warm-up", notes=[]), plan.minutes)


def clear_range(robot: Robot, constraints: Constraints, home: FloatArray, joint: int) -> tuple[float, float, str]:
    """Find how far a joint can go from home with the others at rest: lowest, highest, and what ends the range."""
    low, high = constraints.limits.position[joint]
    reach = 0.5 if robot.mechanism.prismatic[joint] else np.pi
    ends, reasons = [], []
    for end in (low if np.isfinite(low) else home[joint] - reach, high if np.isfinite(high) else home[joint] + reach):
        last, reason = home[joint], "position limit" if np.isfinite(low) and np.isfinite(high) else "half a turn"
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


def _sweep_joint(robot: Robot, moves: Moves, i: int, plan: SweepPlan) -> list[str]:
    """Append one joint's sweeps; returns what was left out."""
    constraints, home, name = moves.constraints, moves.knots[0], robot.joint_names[i]
    low, high, reason = clear_range(robot, constraints, home, i)
    unit = "m" if robot.mechanism.prismatic[i] else "rad"
    limit = constraints.limits.velocity[i]
    fastest = min(SHARE * constraints.tool_speed / _lever(robot, home, i, low, high), limit)
    notes, swept = [], 0
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
        _sweep(moves, i, (0.5 * (low + high - way), 0.5 * (low + high + way)), timing=(v, B), share=plan.share)
        swept += 1
    if not swept:
        raise InfeasibleRun(
            f"{name} cannot be swept at any of the speeds; choose slower ones, or another home", [*notes]
        )
    moves.go(home, 0.5 * plan.share)
    return notes


def _sweep(moves: Moves, i: int, ends: tuple[float, float], *, timing: tuple[float, float], share: float) -> None:
    """Append a sweep there and back, cruising at timing[0] with blends of timing[1]."""
    v, B = timing
    a, b = moves.knots[0].copy(), moves.knots[0].copy()
    a[i], b[i] = ends
    T = whole((b[i] - a[i]) / v + B, moves.sample_time)
    moves.go(a, 0.5 * share)
    for pose in (b, a):
        moves.move(pose, T, B, measured=True)
        moves.stop(_PAUSE)


def _blend(constraints: Constraints, i: int, v: float, plan: SweepPlan) -> float:
    """Find how long a joint takes to reach a speed at a share of its limits, s."""
    limits = constraints.limits
    needs = [
        v * RISE_MOST[1] / (plan.share * limits.acceleration[i]),
        np.sqrt(v * RISE_MOST[2] / (plan.share * limits.jerk[i])),
        0.05,
        4.0 * plan.sample_time,
    ]
    return whole(float(max(needs)), plan.sample_time)


def _lever(robot: Robot, home: FloatArray, i: int, low: float, high: float) -> float:
    """Find the tool's speed for a unit speed of a joint: the most over its range."""
    q = np.tile(home, (101, 1))
    q[:, i] = np.linspace(low, high, len(q))
    return max(float(np.linalg.norm(frame_jacobian(robot, q)[:, :3, i], axis=1).max()), 1e-12)


def _far_poses(robot: Robot, constraints: Constraints, home: FloatArray, plan: WarmUpPlan) -> list[FloatArray]:
    """Choose poses towards alternating ends of the ranges, with clear ways from each to the next, and home at last."""
    random = np.random.default_rng(plan.seed)
    low, high = search_box(robot, constraints, home)
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
    try:
        found = approach(robot, a, b, constraints, attempts=_ATTEMPTS)
    except BlockedPose:
        return None
    return None if isinstance(found, NoPath) else list(found.waypoints[1:])


def search_box(robot: Robot, constraints: Constraints, home: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound where poses are looked for: the joint limits, or half a turn or half a metre around home."""
    reach = np.where(robot.mechanism.prismatic, 0.5, np.pi)
    low, high = constraints.limits.position.T
    low = np.where(np.isfinite(low), low, home - reach)
    high = np.where(np.isfinite(high), high, home + reach)
    for i in robot.locked:
        low[i] = high[i] = home[i]
    return low, high


def _repeated(once: SlowRun, minutes: float) -> SlowRun:
    n = max(1, int(np.ceil(60.0 * minutes / once.duration)))
    knots = np.concatenate([once.knots[:1], np.tile(once.knots[1:], (n, 1))])
    return SlowRun(
        once.kind,
        once.sample_time,
        knots,
        np.tile(once.durations, n),
        np.tile(once.blends, n),
        np.tile(once.measured, n),
        once.notes,
    )


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0.0 < share <= 1.0:
            raise ValueError(f"{name} is {share}, expected above 0, at most 1")
