"""First run at reduced speed: a program of moves through the extreme poses of a run, planned, proven and judged.

It goes the way out, visits the pose of the lowest and the highest place of each joint, the farthest of the tool along
each axis and the nearest of each clearance, in the order of the run, and returns. Lines between poses follow the run's
own path through poses between them where they are not proven clear. Flange (origin of the tool's link) and tool point
stay below `SPEED` at full override; nothing depends on time, so that any override will do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from excitor.design.approach import is_clear, whole
from excitor.design.certify.certify import certify, failing
from excitor.design.constraints.clearance import Clearance
from excitor.design.constraints.constraint import Trace, beyond
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.tool_speed import ToolSpeed
from excitor.design.motion import Move, Run, line_run
from excitor.design.programs.interpolate import evaluate, part_of, position_tolerance, too_quick
from excitor.design.programs.plan import Plan
from excitor.design.programs.target import Execution, Stretch, Target, from_axes
from excitor.design.slow import move_time
from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_jacobian, frame_pose
from excitor.robots.robot import Robot, posture

SPEED = 0.25  # m/s, of flange and tool point: manual reduced speed
_PLANNED = 0.9  # of it
_SHARE = 0.2  # of the joints' limits
_SAMPLES, _ON_LINE = 4000, 65  # of a run, and of a line
_ALIKE = np.radians(1.0)  # rad or m: nearer poses are one
_STILL = 1e-3  # rad or m: a joint that moves less has no extremes
_DEPTH = 6  # how often the way between two poses is halved
_SAME = 1e-7  # rad or m: poses that are one
_CORNER, _OFF, _RESTING = 1e-5, 1e-4, 0.02  # rad or m at a pose, off a line; rad/s or m/s that count as rest
_TOLERANCE = 1e-3  # of the speed
_STEP = 0.004  # s between the samples of a judged motion


def poses_plan(plan: Plan, constraints: Constraints, torque_model: bool | None) -> Plan | str:
    """Plan the first run of a plan; or say why there is none.

    The lines are proven by the certificate of runs of moves, and both speeds between samples as well.
    """
    robot, clock = plan.robot, _clock(plan.body)
    found: dict[float, str] = {}
    for u, label in _extremes(plan, constraints, clock):
        found[u] = f"{found[u]}, {label}" if u in found else label
    out = [(q, "on the way") for q in plan.out.knots[1:-1]]
    visited, left_out, here = [(plan.home, "home"), *out, (plan.start, "start")], [], 0.0
    for u in [*sorted(found), float(clock[-1])]:
        path = _path(plan, constraints, (here, u), _DEPTH)
        if path is None and u == clock[-1]:
            return "its way back along the run is not proven clear"
        if path is None:
            left_out.append(f"{found[u]}: no way there is proven clear")
            continue
        visited += [*((q, "on the way") for q in path[:-1]), (path[-1], found.get(u, "start"))]
        here = u
    visited += [*out[::-1], (plan.home, "home")]
    knots = np.array([q for q, _ in visited])
    keep = np.append(True, np.abs(np.diff(knots, axis=0)).max(axis=1) > _SAME)
    run = _timed(robot, knots[keep], constraints, plan.sample_time)
    broken = [item.name for item in failing(certify(robot, run, constraints, torque_model=torque_model))]
    broken += fast(robot, run)
    if broken or not run.duration:
        return f"these limits are not proven: {', '.join(broken[:5])}" if broken else "it moves nothing"
    here_only = line_run(robot.joint_names, plan.sample_time, run.start[None], ())
    names = tuple(label for (_, label), kept in zip(visited, keep, strict=True) if kept)
    return replace(plan, role="none", out=run, body=here_only, dry=True, poses=names, left_out=tuple(left_out))


def _clock(body: Run) -> FloatArray:
    """Sample times of a run, of what it repeats the first round alone, s."""
    T = body.duration
    if body.series is None:
        return np.linspace(0.0, sum(move.duration for move in body.repeats()[0]), _SAMPLES)
    e = body.excitation
    first, last = e.settle + e.ramp + e.period, T - e.hold - e.ramp
    t = np.linspace(0.0, T, int(_SAMPLES * T / (T - (last - first))))
    return np.append(t[(t <= first) | (t >= last)], T)


def _extremes(plan: Plan, constraints: Constraints, clock: FloatArray) -> Iterator[tuple[float, str]]:
    """List the times of extreme poses with what is extreme there; poses that are nearly one have one time."""
    robot, q = plan.robot, plan.body.at(clock)
    tool = frame_pose(robot, q)[:, :3, 3]
    columns = [(name, ("lowest", "highest"), q[:, j]) for j, name in enumerate(robot.joint_names)]
    columns += [(f"tool {axis}", ("least", "greatest"), tool[:, k]) for k, axis in enumerate("xyz")]
    asked = [
        (int(at), f"{word} {name}")
        for name, words, values in columns
        if np.ptp(values) > _STILL
        for word, at in zip(words, (np.argmin(values), np.argmax(values)), strict=True)
    ]
    for item in constraints.items:
        if isinstance(item, Clearance) and (rows := item.rows(robot)):
            near = beyond(rows, item.values(Trace(robot, posture(q)))).argmax(axis=0)
            bodies = (row.name.removeprefix("clearance: ") for row in rows)
            asked += [(int(at), f"nearest {name}") for name, at in zip(bodies, near, strict=True)]
    chosen: list[int] = []
    for at, label in asked:
        same = next((k for k in chosen if np.abs(q[k] - q[at]).max() <= _ALIKE), None)
        if same is None:
            chosen.append(at)
        if np.abs(q[at] - plan.start).max() > _ALIKE:
            yield float(clock[at if same is None else same]), label


def _path(plan: Plan, constraints: Constraints, span: tuple[float, float], depth: int) -> list[FloatArray] | None:
    """Join two poses of a run by lines that are proven clear, along the run where one is not; None if that fails."""
    a, b = plan.body.at(np.array(span))
    if is_clear(plan.robot, constraints, a, b):
        return [b]
    if depth == 0:
        return None
    middle = 0.5 * (span[0] + span[1])
    halves = [_path(plan, constraints, half, depth - 1) for half in ((span[0], middle), (middle, span[1]))]
    return None if halves[0] is None or halves[1] is None else [*halves[0], *halves[1]]


def _bodies(robot: Robot) -> Mapping[str, Robot]:
    """Return the robot with its tool point, and with its flange instead."""
    return {"tool": robot, "flange": replace(robot, tool=replace(robot.tool, T_link_frame=np.eye(4)))}


def _line_speed(robot: Robot, a: FloatArray, b: FloatArray, rate: FloatArray) -> float:
    """Find the highest speed of flange and tool point on a line, at a rate of the joints, m/s."""
    q = a + np.linspace(0.0, 1.0, _ON_LINE)[:, None] * (b - a)
    found = [np.einsum("nij,j->ni", frame_jacobian(each, q)[:, :3], rate) for each in _bodies(robot).values()]
    return float(np.linalg.norm(found, axis=2).max())


def _timed(robot: Robot, poses: FloatArray, constraints: Constraints, step: float) -> Run:
    """Choose how long each line takes: speeding up and slowing down take a third of it each."""
    times = []
    for a, b in pairwise(poses):
        slow = 1.5 * _line_speed(robot, a, b, b - a) / (_PLANNED * SPEED)
        least = move_time(b - a, constraints, share=_SHARE, sample_time=step)
        times.append(whole(max(slow, least), step))
    return line_run(robot.joint_names, step, poses, times, blends=np.array(times) / 3.0)


def slowed(robot: Robot, way: Run) -> Run:
    """Make moves of a way take as long as flange and tool point need to stay below the speed."""

    def slower(move: Move) -> Move:
        rate = move.most[1] * np.sign(move.goal - move.origin)
        factor = _line_speed(robot, move.origin, move.goal, rate) / (_PLANNED * SPEED)
        time = whole(factor * move.time, way.sample_time) if factor > 1.0 else move.time
        return replace(move, time=time, blend=move.blend * (time / move.time if move.time else 1.0))

    return replace(way, segments=tuple(slower(move) if isinstance(move, Move) else move for move in way.segments))


def fast(robot: Robot, run: Run) -> list[str]:
    """Name flange or tool point where it is not proven to stay below the speed, between samples too."""
    pieces = run.pieces()
    return [
        f"speed of the {name}"
        for name, each in _bodies(robot).items()
        if not all(item.holds for item in ToolSpeed(SPEED).margins(each, pieces, trusted=True))
    ]


def differences(plan: Plan, target: Target, execution: Execution) -> list[str]:
    """List what an execution does that a first run must not: other poses, other lines, or more speed."""
    if execution.halted:
        return [f"halts although nothing is wrong: {execution.halted}"]
    if [one.name for one in execution.stretches] != ["out"]:
        return [f"makes {', '.join(one.name for one in execution.stretches) or 'nothing'}, planned is one way"]
    stretch = execution.stretches[0]
    if stretch.axes.shape[1] != plan.robot.n_joints or len(stretch.t) < 2:
        return [f"moves {stretch.axes.shape[1]} axes to {len(stretch.t)} poses, which is not the plan"]
    if stretch.kind == "way-points":
        return list(_corners(plan, target, stretch))
    return list(_motion(plan, target, stretch))


def _corners(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    """Judge way-points: their poses in order, and the speed on every line between two of them."""
    q, near = from_axes(plan.robot, target, stretch.axes), position_tolerance(plan, target) + _CORNER
    rates = None if stretch.rates is None else from_axes(plan.robot, target, stretch.rates, 1)
    rises = None if stretch.accelerations is None else from_axes(plan.robot, target, stretch.accelerations, 2)
    ways = [move for move in plan.out.moves if not move.still]
    k = 0
    for i in range(1, len(q)):
        if (np.abs(q[i] - q[i - 1]) <= near).all():
            continue
        k += 1
        if k >= len(plan.out.knots) or not (np.abs(q[i] - plan.out.knots[k]) <= near).all():
            yield f"pose {i} is not the plan's pose {k}"
            return
        seconds = max(float(stretch.t[i] - stretch.t[i - 1]), 1e-9)
        rate = (q[i] - q[i - 1]) / seconds if rates is None else rates[i]
        yield from _too_fast(_line_speed(plan.robot, q[i - 1], q[i], rate), f"on the way to pose {k}")
        made = [(rate, 1), *([(rises[i], 2)] if rises is not None else [])]
        yield from (f"to pose {k}: {sentence}" for sentence in too_quick(plan, ways[k - 1], made))
    if k != len(plan.out.knots) - 1:
        yield f"visits {k} poses, planned are {len(plan.out.knots) - 1}"


def _motion(plan: Plan, target: Target, stretch: Stretch) -> Iterator[str]:
    """Judge a motion: at rest at each pose in order, on the lines between them, never faster than the speed."""
    if not (np.diff(stretch.t) > 0.0).all():
        yield "its times do not rise"
        return
    t, q = stretch.t, from_axes(plan.robot, target, stretch.axes)
    if stretch.kind == "points":
        course = part_of(plan, target, stretch).courses[0]
        t = np.unique(np.round(np.append(t, np.arange(0.0, t[-1], _STEP)), 6))
        q = evaluate(course, t)
    near, at = position_tolerance(plan, target) + _CORNER, 0
    speed = np.abs(np.gradient(q, t, axis=0)).max(axis=1)
    for k, (a, b) in enumerate(pairwise(plan.out.knots), start=1):
        there = np.flatnonzero((np.abs(q[at:] - b) <= near).all(axis=1) & (speed[at:] <= _RESTING))
        if not there.size:
            yield f"does not come to rest at pose {k}"
            return
        part, way = q[at : at + there[0] + 1] - a, b - a
        off = part - np.clip(part @ way / (way @ way), 0.0, 1.0)[:, None] * way
        if np.abs(off).max() > _OFF:
            yield f"leaves the line to pose {k} by {np.abs(off).max():.2g} rad or m"
            return
        at += int(there[0])
    if np.abs(q[at:] - plan.home).max() > _OFF:
        yield "does not end at home"
    every = np.unique(np.append(np.arange(0, len(t), max(1, round(_STEP / float(np.median(np.diff(t)))))), len(t) - 1))
    for name, each in _bodies(plan.robot).items():
        place = frame_pose(each, q[every])[:, :3, 3]
        v = np.linalg.norm(np.diff(place, axis=0), axis=1) / np.diff(t[every])
        yield from _too_fast(float(v.max()), f"with its {name}")


def _too_fast(speed: float, where: str) -> Iterator[str]:
    if not speed <= SPEED * (1.0 + _TOLERANCE):
        yield f"reaches {1e3 * speed:.0f} mm/s {where}, allowed are {1e3 * SPEED:.0f} mm/s"
