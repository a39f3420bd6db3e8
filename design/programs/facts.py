"""Figures of a program for whoever stands at the robot: limits, speeds, swept volume, stops."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.design.constraints.constraint import Row, Trace
from excitor.design.constraints.constraints import Constraints, worst_rows
from excitor.design.motion import Run
from excitor.design.programs.plan import Plan, Stretches, StretchName
from excitor.design.programs.target import Target
from excitor.robots.arrays import FloatArray, IntArray, freeze
from excitor.robots.dynamics import frame_jacobian, link_poses
from excitor.robots.robot import Limits, Motion, Robot

State = Literal["holds", "exceeded", "unknown"]
RATES: Mapping[str, tuple[str, str]] = {  # of joints that turn, and that slide
    "velocity": ("rad/s", "m/s"),
    "acceleration": ("rad/s2", "m/s2"),
    "jerk": ("rad/s3", "m/s3"),
    "torque peak": ("N m", "N"),
}
_STEP, _MOST = 0.01, 20_000  # s between the samples that are evaluated; their number in a stretch
_DRAWN = 60  # poses
_ROUNDING = 1e-6  # of a limit
STEEPEST = 2.1875  # slope of the envelope of ramps, in the middle


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A limit, the largest value that the program reaches, and whether it holds; unknown: nobody states a limit."""

    key: tuple[str, int]  # kind of limit, and joint where it is one's
    name: str
    unit: str
    worst: float
    limit: float  # inf: unknown
    state: State
    left: float = np.inf  # of rates and torques a share of the limit, of others in its unit; negative: exceeded


@dataclass(frozen=True, eq=False, slots=True)
class Facts:
    """Figures of one program over all its stretches."""

    lines: tuple[LimitLine, ...]
    speed: FloatArray  # (n_joints,), rad/s or m/s
    tool_speed: float  # m/s, of the tool's point
    swept: FloatArray | None  # (2, 3), m: corners of a box in the base frame about all volumes; None: there are none
    trace: tuple[tuple[float, FloatArray], ...] = ()  # of each volume: radius, and ends over time, (n_poses, 2, 3), m

    def __post_init__(self) -> None:
        freeze(self, speed="n_joints")


def facts_of(plan: Plan, constraints: Constraints) -> Facts:
    """Evaluate a plan on a fine grid; its certificate has proven the same limits between samples."""
    robot = plan.robot
    motions = [plan.stretch(name).motion(_grid(plan, name)) for name in Stretches]
    q, dq = (np.concatenate([getattr(motion, key) for motion in motions]) for key in ("q", "dq"))
    tool = np.einsum("nij,nj->ni", frame_jacobian(robot, q)[:, :3], dq)
    lines = (*_stated(plan, constraints), *_unknown(plan, constraints.limits))
    drawn = tuple(_capsules(robot, q[_evenly(q)]))
    return Facts(lines, np.abs(dq).max(axis=0), float(np.linalg.norm(tool, axis=1).max()), swept_box(robot, q), drawn)


def _evenly(q: FloatArray) -> IntArray:
    """Choose poses that are about equally far apart along the motion, and all of its farthest ones."""
    way = np.append(0.0, np.cumsum(np.abs(np.diff(q, axis=0)).max(axis=1)))
    chosen = np.searchsorted(way, np.linspace(0.0, way[-1], _DRAWN))
    return np.unique(np.concatenate([chosen.clip(0, len(q) - 1), q.argmin(axis=0), q.argmax(axis=0)]))


def motions_of(plan: Plan) -> Iterator[tuple[Motion, FloatArray, FloatArray]]:
    """Evaluate each stretch that takes time on a fine grid: its motion, its jerk and the times, s."""
    for name in Stretches:
        if plan.stretch(name).duration:
            t = _grid(plan, name)
            yield plan.stretch(name).motion(t), plan.stretch(name).at(t, 3), t


def _grid(plan: Plan, name: StretchName) -> FloatArray:
    run = plan.stretch(name)
    return np.linspace(0.0, run.duration, int(np.clip(run.duration / _STEP, 2, _MOST)))


def _stated(plan: Plan, constraints: Constraints) -> Iterator[LimitLine]:
    """Keep the tightest row of each joint's quantity, and of each kind of other rows."""
    tightest: dict[tuple[str, int], tuple[float, Row, float]] = {}
    for name in Stretches:
        run = plan.stretch(name)
        if not run.duration:
            continue

        def trace_at(t: FloatArray, run: Run = run) -> Trace:
            return Trace(plan.robot, run.motion(t), run.at(t, 3))

        for row, worst in zip(*worst_rows(plan.robot, constraints, trace_at, _grid(plan, name)), strict=True):
            scale = abs(row.limit) if row.kind in RATES else 1.0
            left = row.side * (row.limit - worst) / (scale or 1.0)
            key = row.kind, row.joint
            if key not in tightest or left < tightest[key][0]:
                tightest[key] = left, row, float(worst)
    for key, (left, row, worst) in tightest.items():
        yield LimitLine(key, row.name, row.unit, worst, row.limit, "holds" if left >= -_ROUNDING else "exceeded", left)


def _unknown(plan: Plan, limits: Limits) -> Iterator[LimitLine]:
    """List limits that nobody states, with the peaks of the motion; torques may have no model."""
    for order, (quantity, units) in enumerate(RATES.items(), start=1):
        for j in map(int, np.flatnonzero(~np.isfinite(getattr(limits, quantity.split()[0])))):
            peaks = [np.abs(plan.stretch(name).at(_grid(plan, name), order)[:, j]).max() for name in Stretches]
            worst = float(max(peaks)) if quantity != "torque peak" else np.nan
            name, unit = f"{quantity} {plan.robot.joint_names[j]}", units[int(plan.robot.mechanism.prismatic[j])]
            yield LimitLine((quantity, j), name, unit, worst, np.inf, "unknown")


def _capsules(robot: Robot, q: FloatArray) -> Iterator[tuple[float, FloatArray]]:
    """List radius and ends, (n, 2, 3), m in the base frame, of each moving volume at all poses."""
    poses = link_poses(robot, q)
    for capsule in robot.capsules:
        if capsule.link >= 0:
            ends, T = np.stack([capsule.start, capsule.end]), poses[:, capsule.link]
            yield capsule.radius, np.einsum("nij,kj->nki", T[:, :3, :3], ends) + T[:, None, :3, 3]


def swept_box(robot: Robot, q: FloatArray) -> FloatArray | None:
    """Enclose the volumes of all links at all poses by a box: corners (2, 3), m."""
    corners = [[at.min(axis=(0, 1)) - r, at.max(axis=(0, 1)) + r] for r, at in _capsules(robot, q)]
    if not corners:
        return None
    every = np.array(corners)
    return np.array([every[:, 0].min(axis=0), every[:, 1].max(axis=0)])


def unknown_accelerations(plan: Plan, limits: Limits) -> tuple[str, ...]:
    """Name the joints that move without a stated acceleration limit."""
    moved = np.max([np.abs(plan.stretch(name).at(_grid(plan, name), 1)).max(axis=0) for name in Stretches], axis=0)
    return tuple(plan.robot.joint_names[j] for j in np.flatnonzero(~np.isfinite(limits.acceleration) & (moved > 0.0)))


def overrun(plan: Plan, target: Target) -> FloatArray:
    """Compute how far each joint moves on while time slows down to a stop, at the worst moment, (n_joints,), rad or m.

    The rate of time falls from 1 to 0 symmetrically, so that half of the seconds that it takes pass on the path.
    """
    worst = np.zeros(plan.robot.n_joints)
    for name in Stretches:
        run, t = plan.stretch(name), _grid(plan, name)
        seconds = np.full(t.shape, target.stop_s)
        if target.stop_braking:
            seconds = np.maximum(seconds, STEEPEST * np.abs(run.at(t, 1)).max(axis=1) / target.stop_braking)
        ahead = np.minimum(t + 0.5 * seconds, run.duration)
        worst = np.maximum(worst, np.abs(run.at(ahead) - run.at(t)).max(axis=0))
    return worst
