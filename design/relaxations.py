"""What to relax so that a motion fits, and by how much: proposals, their sentences, and the problem that results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.design.constraints import Constraints
from excitor.design.elastic import HOME, SELF, STILL, Elastic, joint_of, make_elastic, misses
from excitor.design.fourier import Trajectory
from excitor.design.problem import (
    CLEARANCE_SCALE,
    Candidates,
    Problem,
    build_problem,
    constraint_values,
    motions,
    way_shares,
)
from excitor.robots.arrays import FloatArray, freeze
from excitor.robots.cell import Scene, Zone, clearances, required

Action = Literal["raise", "widen", "reduce clearance", "grow", "shrink", "move", "remove", "stand elsewhere"]

FARTHEST = 3.0  # m that a zone is moved at most
_FINE = 1e-3  # m: what distances are rounded up to
_ROOM = 1.05  # of the least amount, so that a search can move at all


@dataclass(frozen=True, eq=False, slots=True)
class Relaxation:
    """One constraint that gives way: what it was and what it becomes."""

    group: str
    action: Action
    unit: str
    amount: float  # how far: m, rad, N m, m/s
    before: FloatArray  # (n,): a limit, a range, a size, a place, a pose
    after: FloatArray
    words: str  # "raise the torque limit of j2 from 30 to 41 N m"
    enough: bool = False  # with every other constraint as it is, a motion fits then: it was evaluated
    motion: Trajectory | None = None  # that motion; it keeps at least the other members

    def __post_init__(self) -> None:
        freeze(self, before="n", after="n")


def relaxed(problem: Problem, relaxations: Sequence[Relaxation]) -> Problem:
    """Build the problem in which constraints have given way."""
    constraints, pose = problem.constraints, problem.pose
    for relaxation in relaxations:
        if relaxation.group == STILL:
            pose = np.where(np.isnan(pose), pose, relaxation.after)
        else:
            constraints = _changed(problem, constraints, relaxation)
    return build_problem(
        problem.robot,
        problem.excitation,
        constraints=constraints,
        criterion=problem.criterion,
        model=problem.model,
        pose=pose,
        earlier=problem.earlier,
        share=problem.share,
        n_samples=problem.n_period,
    )


def keeps(problem: Problem, candidate: Candidates, groups: Sequence[str] | None = None) -> bool:
    """Tell whether a motion keeps a problem's constraints, or some groups of them."""
    elastic = make_elastic(problem, np.random.default_rng(0))
    active = np.array([groups is None or name in groups for name in elastic.names], dtype=bool)
    home = elastic.names.index(HOME) if HOME in elastic.names else -1
    return not misses(elastic, candidate).of(active, home).any()


def proposals(elastic: Elastic, group: str, candidate: Candidates, miss: float) -> list[Relaxation]:
    """List ways to relax a group so that a motion keeps it; `miss` is its share that is missing."""
    problem = elastic.problem
    if group.startswith("clearance: "):
        return _zone_proposals(problem, _zone_of(problem, group), candidate, miss * CLEARANCE_SCALE)
    if group == SELF:
        return [_self_proposal(problem, miss * CLEARANCE_SCALE)]
    if group in (HOME, STILL):
        return [_pose_proposal(elastic, group, candidate)]
    if group.startswith("position "):
        return [_position_proposal(problem, group, joint_of(elastic, group), candidate)]
    return [_limit_proposal(elastic, group, miss)]


def describe(problem: Problem, group: str) -> str:
    """Say what a group is, with its limit."""
    if group.startswith("clearance: "):
        zone = _zone_of(problem, group)
        beyond = f", clearance {zone.clearance:g} m" if zone.clearance else ""
        return f"keep-{zone.keep} zone '{zone.name}' ({zone.shape.kind}{beyond})"
    if group == SELF:
        scene = problem.constraints.scene
        return f"self-collision (clearance {scene.self_clearance if scene else 0.0:g} m)"
    if group == HOME:
        return "home pose, with the straight way from there to the start"
    if group == STILL:
        return STILL
    kind, joint = group, ""
    for known in ("torque peak", "torque rms", "position"):
        if group.startswith(known):
            kind, joint = known, f" of {group.removeprefix(known).strip()}"
    before = _limit(problem, group)
    if kind == "position":
        j = problem.robot.joint_names.index(joint.removeprefix(" of "))
        return f"position limits{joint} ({_range_words(problem, j, before)})"
    return f"{kind} limit{joint} ({before[0]:g} {unit_of(problem, group)})"


def _limit(problem: Problem, group: str) -> FloatArray:
    """Read a limit, or a range of positions."""
    constraints, names = problem.constraints, problem.robot.joint_names
    if group == "tool speed":
        return np.array([constraints.tool_speed])
    for kind, values in (
        ("torque peak ", constraints.limits.torque),
        ("torque rms ", constraints.torque_rms),
        ("position ", constraints.limits.position),
    ):
        if group.startswith(kind):
            return np.atleast_1d(values[names.index(group.removeprefix(kind))])
    raise ValueError(f"group {group!r} is no limit")


def unit_of(problem: Problem, group: str) -> str:
    """Name the unit of a group's limit."""
    if group == "tool speed":
        return "m/s"
    if group.startswith("clearance: ") or group == SELF:
        return "m"
    j = next((j for j, name in enumerate(problem.robot.joint_names) if group.endswith(f" {name}")), -1)
    sliding = j >= 0 and bool(problem.robot.mechanism.prismatic[j])
    if group.startswith("torque"):
        return "N" if sliding else "N m"
    return "m" if sliding else "rad"


def slack_of(elastic: Elastic, group: str, miss: float) -> float:
    """Turn a missing share into the limit's unit."""
    problem = elastic.problem
    if group.startswith("clearance: ") or group in (SELF, HOME):
        return miss * CLEARANCE_SCALE
    if group.startswith("position "):
        return miss * 0.5 * float(np.ptp(problem.position[joint_of(elastic, group)]))
    return 0.0 if group == STILL else miss * float(_limit(problem, group)[0])


def _changed(problem: Problem, constraints: Constraints, relaxation: Relaxation) -> Constraints:
    """Apply one relaxation to constraints."""
    group, after, names = relaxation.group, relaxation.after, problem.robot.joint_names
    limits, scene = constraints.limits, constraints.scene
    if group == HOME:
        return replace(constraints, home=after)
    if group == "tool speed":
        return replace(constraints, tool_speed=float(after[0]))
    for kind, field in (("torque peak ", "torque"), ("position ", "position")):
        if group.startswith(kind):
            values = getattr(limits, field).copy()
            values[names.index(group.removeprefix(kind))] = after if field == "position" else after[0]
            return replace(constraints, limits=replace(limits, **{field: values}))
    if group.startswith("torque rms "):
        rms = constraints.torque_rms.copy()
        rms[names.index(group.removeprefix("torque rms "))] = after[0]
        return replace(constraints, torque_rms=rms)
    assert scene is not None
    if group == SELF:
        dropped = relaxation.action == "remove"
        changed = replace(scene, self_collision=not dropped, self_clearance=0.0 if dropped else float(after[0]))
        return replace(constraints, scene=changed)
    own = _zone_of(problem, group)
    zones = [_changed_zone(zone, relaxation) if zone.name == own.name else zone for zone in scene.zones]
    return replace(constraints, scene=replace(scene, zones=tuple(zone for zone in zones if zone is not None)))


def _changed_zone(zone: Zone, relaxation: Relaxation) -> Zone | None:
    after = relaxation.after
    if relaxation.action == "remove":
        return None
    if relaxation.action == "reduce clearance":
        return replace(zone, clearance=float(after[0]))
    if relaxation.action == "move" or zone.shape.kind == "half-space":
        T = zone.shape.T_base_shape.copy()
        T[:3, 3] = after
        return replace(zone, shape=replace(zone.shape, T_base_shape=T))
    return replace(zone, shape=replace(zone.shape, size=after))


def _zone_of(problem: Problem, group: str) -> Zone:
    assert problem.constraints.scene is not None
    name = group.removeprefix("clearance: ")
    return next(zone for zone in problem.constraints.scene.zones if zone.name == name)


def _zone_proposals(problem: Problem, zone: Zone, candidate: Candidates, short: float) -> list[Relaxation]:
    """Move or resize a zone, or be content with less clearance, where that is all it takes."""
    group, least, short = f"clearance: {zone.name}", short, _up(_ROOM * short)
    found = []
    shape, place = zone.shape, zone.shape.T_base_shape[:3, 3]
    if zone.keep == "out":
        found.append(_move(problem, zone, candidate, least))
    elif shape.kind == "half-space":
        after = place + short * shape.T_base_shape[:3, 2]
        words = f"move the border of keep-in zone '{zone.name}' {short:.3f} m outwards"
        found.append(Relaxation(group, "grow", "m", short, place, after, words))
    else:
        grown = shape.size + short * (shape.size > 0.0)
        words = f"grow keep-in zone '{zone.name}' by {short:.3f} m on every side"
        found.append(Relaxation(group, "grow", "m", short, shape.size, grown, words))
    if least <= zone.clearance:
        less = max(0.0, round(zone.clearance - short, 9))
        words = f"reduce the clearance of '{zone.name}' from {zone.clearance:g} to {less:g} m"
        found.append(_of_number(group, "reduce clearance", "m", before=zone.clearance, after=less, words=words))
    return found


def _move(problem: Problem, zone: Zone, candidate: Candidates, short: float) -> Relaxation:
    """Find the shortest move of a keep-out zone along an axis, of the base or its own, that makes way for a motion."""
    group, shape = f"clearance: {zone.name}", zone.shape
    R, place = shape.T_base_shape[:3, :3], shape.T_base_shape[:3, 3]
    sides = np.concatenate([np.eye(3), -np.eye(3), R.T, -R.T])
    directions = np.unique(sides.round(12), axis=0) if shape.kind != "half-space" else -R[:, 2][None, :]
    clear = _clear_of(problem, zone, candidate)
    best, along = np.inf, directions[0]
    for direction in directions:

        def holds(distance: float, direction: FloatArray = direction) -> bool:
            return clear(place + distance * direction)

        distance = _least(holds, short, min(best, FARTHEST))
        if distance < best:
            best, along = distance, direction
    if not np.isfinite(best):
        words = f"take keep-out zone '{zone.name}' away; moving it {FARTHEST:g} m is not enough"
        return Relaxation(group, "remove", "m", FARTHEST, place, place, words)
    best = next((d for d in (_up(_ROOM * best), _up(best)) if clear(place + d * along)), best)
    words = f"move keep-out zone '{zone.name}' by {best:.3f} m along {_axis_words(along)}"
    return Relaxation(group, "move", "m", best, place, place + best * along, words)


def _clear_of(problem: Problem, zone: Zone, candidate: Candidates) -> Callable[[FloatArray], bool]:
    """Tell whether a motion is clear of a zone that stands elsewhere."""
    constraints, n = problem.constraints, problem.robot.n_joints
    assert constraints.scene is not None
    free = replace(constraints.limits, torque=np.full(n, np.inf))
    states = motions(problem, candidate)
    radius = constraints.scene.tool_radius

    def clear(place: FloatArray) -> bool:
        T = zone.shape.T_base_shape.copy()
        T[:3, 3] = place
        moved = replace(zone, shape=replace(zone.shape, T_base_shape=T))
        alone = Scene((moved,), self_collision=False, tool_radius=radius)
        only = replace(constraints, limits=free, torque_rms=np.full(n, np.inf), scene=alone, tool_speed=np.inf)
        return bool((constraint_values(replace(problem, constraints=only), candidate, *states) <= 0.0).all())

    return clear


def _least(holds: Callable[[float], bool], start: float, most: float) -> float:
    """Find the least distance at which a condition holds: doubling, then halving; inf where none up to `most` does."""
    low, high = 0.0, start
    while not holds(high):
        low, high = high, 2.0 * high
        if low >= most:
            return np.inf
    while high - low > 0.2 * _FINE:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _self_proposal(problem: Problem, short: float) -> Relaxation:
    scene = problem.constraints.scene
    assert scene is not None
    short, least = _up(_ROOM * short), short
    if least <= scene.self_clearance:
        less = max(0.0, round(scene.self_clearance - short, 9))
        words = f"reduce the clearance between the robot's own links from {scene.self_clearance:g} to {less:g} m"
        return _of_number(SELF, "reduce clearance", "m", before=scene.self_clearance, after=less, words=words)
    words = f"give more room elsewhere: links would come {short:.3f} m too close; or check the robot's capsules"
    none = np.zeros(1)
    return Relaxation(SELF, "remove", "m", short, none, none, words)


def _pose_proposal(elastic: Elastic, group: str, candidate: Candidates) -> Relaxation:
    """Stand where the motion is; a home pose as near to the old one as the straight way is clear."""
    problem, center = elastic.problem, candidate.center[0]
    if group == STILL:
        before, after = np.where(np.isnan(problem.pose), 0.0, problem.pose), center
        joints = np.flatnonzero(~problem.excitation.moving & ~np.isnan(problem.pose))
    else:
        assert problem.constraints.home is not None
        before, after = problem.constraints.home, _near_home(problem, center)
        joints = np.arange(center.size)
    amount = float(np.abs(after - before)[joints].max())
    where = ", ".join(f"{problem.robot.joint_names[j]} {_place_words(problem, j, after[j])}" for j in map(int, joints))
    verb = "choose another home pose, such as" if group == HOME else "let the joints that do not move stand at"
    return Relaxation(group, "stand elsewhere", "rad", amount, before, after, f"{verb} {where}")


def _near_home(problem: Problem, center: FloatArray) -> FloatArray:
    """Go from a motion's centre straight towards home, as far as that is clear."""
    home, scene = problem.constraints.home, problem.constraints.scene
    low, high = problem.constraints.limits.position.T
    assert home is not None
    s = np.linspace(0.0, 1.0, 8 * way_shares(problem).size)[:, None]
    way = center + s * (home - center)
    bad = ((way < low) | (way > high)).any(axis=1)
    if scene is not None:
        bad |= (clearances(problem.robot, scene, way) < required(problem.robot, scene) + 2 * 0.004).any(axis=1)
    last = int(np.argmax(bad)) - 1 if bad.any() else len(way) - 1
    return np.asarray(way[max(last, 0)])


def _position_proposal(problem: Problem, group: str, j: int, candidate: Candidates) -> Relaxation:
    before = problem.constraints.limits.position[j]
    q = motions(problem, candidate)[0][0, j]
    low, high = min(before[0], q.min()), max(before[1], q.max())
    low, high = before[0] + _ROOM * (low - before[0]), before[1] + _ROOM * (high - before[1])
    share = np.ptp(problem.position[j]) / np.ptp(before)  # of a range that the search uses
    spare = (1.0 / share - 1.0) * 0.5 * (high - low) * 1.01 + 1e-9
    after = np.array([low - spare if low < before[0] else low, high + spare if high > before[1] else high])
    robot = problem.robot.limits.position[j]
    after = np.clip(after, min(robot[0], before[0]), max(robot[1], before[1]))
    amount = float(np.abs(after - before).max())
    unit = "m" if problem.robot.mechanism.prismatic[j] else "rad"
    words = (
        f"widen the range of {problem.robot.joint_names[j]} from {_range_words(problem, j, before)} "
        f"to {_range_words(problem, j, after)}"
    )
    return Relaxation(group, "widen", unit, amount, before, after, words)


def _limit_proposal(elastic: Elastic, group: str, miss: float) -> Relaxation:
    problem = elastic.problem
    before = float(_limit(problem, group)[0])
    after = _three_digits(before * (1.0 + _ROOM * miss))
    unit = unit_of(problem, group)
    if group == "tool speed":
        words = f"raise the tool's speed limit from {before:g} to {after:g} m/s"
        return _of_number(group, "raise", unit, before=before, after=after, words=words)
    j = joint_of(elastic, group)
    kind = "peak" if group.startswith("torque peak") else "RMS"
    words = f"raise the {kind} torque limit of {problem.robot.joint_names[j]} from {before:g} to {after:g} {unit}"
    own = problem.robot.limits.torque[j]
    words += f" (the robot's own is {own:g} {unit}), or carry less" if after > own else ", or carry less"
    return _of_number(group, "raise", unit, before=before, after=after, words=words)


def _of_number(group: str, action: Action, unit: str, *, before: float, after: float, words: str) -> Relaxation:
    """Let a single number give way."""
    return Relaxation(group, action, unit, abs(after - before), np.array([before]), np.array([after]), words)


def _up(distance: float) -> float:
    return float(np.ceil(distance / _FINE - 1e-9) * _FINE)


def _three_digits(value: float) -> float:
    """Round up to three digits."""
    if not value > 0.0:
        return value
    digit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return float(np.round(np.ceil(value / digit - 1e-9) * digit, 12))


def _place_words(problem: Problem, j: int, q: float) -> str:
    return f"{q:.3f} m" if problem.robot.mechanism.prismatic[j] else f"{np.degrees(q):.1f}°"


def _range_words(problem: Problem, j: int, ends: FloatArray) -> str:
    return f"{_place_words(problem, j, float(ends[0]))} … {_place_words(problem, j, float(ends[1]))}"


def _axis_words(direction: FloatArray) -> str:
    axis = int(np.argmax(np.abs(direction)))
    if np.abs(np.delete(direction, axis)).max() < 1e-9:
        return f"{'-' if direction[axis] < 0.0 else '+'}{'xyz'[axis]}"
    return "(" + ", ".join(f"{x:.3f}" for x in direction) + ")"
