"""Clearance in the cell: from keep-out zones, inside keep-in zones, and between the robot's own links."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from excitor.design.certify.bounds import Effort, all_hold, closed_row_speeds
from excitor.design.constraints.constraint import (
    CLEARANCE_SCALE,
    ROOM,
    SEARCH,
    Compromise,
    Constraint,
    Population,
    Relaxation,
    Reserve,
    Row,
    Trace,
    number_changed,
)
from excitor.design.motion import Spans
from excitor.robots.arrays import FloatArray
from excitor.robots.cell import Scene, Zone, clearances, required, row_names, row_speed_bounds
from excitor.robots.population import population_clearances
from excitor.robots.robot import Limits, Robot
from excitor.robots.tree import Tree

SELF = "self-collision"
FARTHEST = 3.0  # m that a zone is moved at most
_FINE = 1e-3  # m: what distances are rounded up to


@dataclass(frozen=True, eq=False, slots=True)
class Clearance(Constraint):
    """Distances between bodies and zones, and between bodies, each with what it must keep."""

    scene: Scene
    limits: Limits  # of the joints: how far those that slide may go
    order: ClassVar[int] = 0
    everywhere: ClassVar[bool] = True
    effort: ClassVar[Effort] = Effort(n_first=1000, share=0.25)
    quantity: ClassVar[str] = "the distance"
    method: ClassVar[str] = "Lipschitz, {intervals}"
    tolerance: ClassVar[float | None] = 2e-3  # m
    states: ClassVar[Mapping[str, str]] = {"scene": "scene"}

    def rows(self, robot: Robot) -> tuple[Row, ...]:
        """List zones body by body, then pairs of links."""
        names, need = row_names(robot, self.scene), required(robot, self.scene)
        owners = [f"clearance: {zone.name}" for zone, count in self._counts(robot) for _ in range(count)]
        owners += [SELF] * (len(names) - len(owners))
        return tuple(
            Row(f"clearance: {name}", "m", limit, lower=True, kind="clearance", group=group)
            for name, limit, group in zip(names, need.tolist(), owners, strict=True)
        )

    def _counts(self, robot: Robot) -> list[tuple[Zone, int]]:
        """Count the rows of each zone."""
        n_links = sum(capsule.link >= 0 for capsule in robot.capsules)
        counts = {"tool": 1, "links": n_links, "all": n_links + 1}
        return [(zone, counts[zone.bodies]) for zone in self.scene.zones]

    def values(self, trace: Trace) -> FloatArray:
        return clearances(trace.robot, self.scene, trace.motion.q)

    def searched(self, robot: Robot) -> bool:
        return True

    def violations(self, robot: Robot, values: FloatArray, reserve: Reserve = SEARCH) -> FloatArray:
        """Turn distances into what is missing, in shares of a tenth of a metre."""
        wanted = required(robot, self.scene) + reserve.clearance
        return np.asarray((wanted - values) / CLEARANCE_SCALE)

    def population(self, population: Population) -> FloatArray:
        """Evaluate the least distances over all places."""
        wanted = required(population.robot, self.scene) + population.reserve.clearance
        enough = wanted if population.violations_only else np.inf
        found = population_clearances(population.robot, self.scene, population.places, enough)
        return self.violations(population.robot, found, population.reserve)

    def bound(self, robot: Robot, part: Spans) -> tuple[FloatArray, FloatArray]:
        """Bound d ≥ (d_a + d_b)/2 - L h/2, with L how fast the distance can change at the joints' speeds."""
        d = self.values(Trace(robot, part.motion))
        if isinstance(robot.mechanism, Tree):
            reach = part.segment.bounds(0)
            L = row_speed_bounds(robot, self.scene, part.rates()[1], slides(robot, self.limits, -reach, reach))
        else:
            L = closed_row_speeds(robot, self.scene, part)
        return 0.5 * (d[part.left] + d[part.right]) - 0.5 * part.h * L, d

    def line_is_clear(self, robot: Robot, a: FloatArray, b: FloatArray) -> bool:
        """Prove that a tree keeps its distances on a straight line in joint space: bisect until the bound decides."""
        need = required(robot, self.scene)
        travel = slides(robot, self.limits, np.minimum(a, b), np.maximum(a, b))
        speed = row_speed_bounds(robot, self.scene, np.abs(b - a)[None, :], travel)[0]  # per whole line
        n = int(np.clip(np.ceil(np.abs(b - a).max() / 0.2), 2, 16))

        def margins(left: FloatArray, right: FloatArray) -> FloatArray | None:
            s, inverse = np.unique(np.concatenate([left, right]), return_inverse=True)
            margin = clearances(robot, self.scene, a + s[:, None] * (b - a)) - need
            ends = margin[inverse[: left.size]] + margin[inverse[left.size :]]
            return None if (margin < 0.0).any() else 0.5 * ends - 0.5 * (right - left)[:, None] * speed

        return all_hold(margins, np.arange(n + 1) / n)

    def describe(self, robot: Robot, group: str) -> str:
        if group == SELF:
            return f"self-collision (clearance {self.scene.self_clearance:g} m)"
        zone = self._zone(group)
        beyond = f", clearance {zone.clearance:g} m" if zone.clearance else ""
        return f"keep-{zone.keep} zone '{zone.name}' ({zone.shape.kind}{beyond})"

    def slack(self, robot: Robot, group: str, share: float) -> float:
        return share * CLEARANCE_SCALE

    def proposals(self, compromise: Compromise, group: str, share: float) -> list[Relaxation]:
        """Move or resize a zone, or be content with less clearance, where that is all it takes."""
        least = share * CLEARANCE_SCALE
        if group == SELF:
            return [_self_proposal(self.scene, least)]
        zone, short = self._zone(group), _up(ROOM * least)
        shape, place = zone.shape, zone.shape.T_base_shape[:3, 3]
        if zone.keep == "out":
            found = [_move(self, compromise.population, zone, least)]
        elif shape.kind == "half-space":
            after = place + short * shape.T_base_shape[:3, 2]
            words = f"move the border of keep-in zone '{zone.name}' {short:.3f} m outwards"
            found = [Relaxation(group, "grow", "m", short, place, after, words)]
        else:
            words = f"grow keep-in zone '{zone.name}' by {short:.3f} m on every side"
            found = [Relaxation(group, "grow", "m", short, shape.size, shape.size + short * (shape.size > 0.0), words)]
        if least <= zone.clearance:
            less = max(0.0, round(zone.clearance - short, 9))
            words = f"reduce the clearance of '{zone.name}' from {zone.clearance:g} to {less:g} m"
            found.append(number_changed(group, "reduce clearance", "m", before=zone.clearance, after=less, words=words))
        return found

    def relaxed(self, robot: Robot, relaxation: Relaxation) -> "Clearance":
        scene = self.scene
        if relaxation.group == SELF:
            dropped = relaxation.action == "remove"
            less = 0.0 if dropped else float(relaxation.after[0])
            return Clearance(replace(scene, self_collision=not dropped, self_clearance=less), self.limits)
        own = self._zone(relaxation.group)
        zones = [_changed_zone(zone, relaxation) if zone.name == own.name else zone for zone in scene.zones]
        return Clearance(replace(scene, zones=tuple(zone for zone in zones if zone is not None)), self.limits)

    def _zone(self, group: str) -> Zone:
        name = group.removeprefix("clearance: ")
        return next(zone for zone in self.scene.zones if zone.name == name)


def slides(robot: Robot, limits: Limits, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the ranges of prismatic joints, (n_joints, 2): their limits, or low to high without limits; others 0."""
    tree = robot.mechanism
    assert isinstance(tree, Tree)
    moves = (tree.coupling[tree.sliding] != 0.0).any(axis=0)
    stated = np.where(np.isfinite(limits.position), limits.position, np.column_stack([low, high]))
    return np.asarray(np.where(moves[:, None], stated, 0.0))


def _changed_zone(zone: Zone, relaxation: Relaxation) -> Zone | None:
    after = relaxation.after
    if relaxation.action == "remove":
        return None
    if relaxation.action == "reduce clearance":
        return replace(zone, clearance=float(after[0]))
    if relaxation.action == "move" or zone.shape.kind == "half-space":
        return _placed(zone, after)
    return replace(zone, shape=replace(zone.shape, size=after))


def _placed(zone: Zone, place: FloatArray) -> Zone:
    T = zone.shape.T_base_shape.copy()
    T[:3, 3] = place
    return replace(zone, shape=replace(zone.shape, T_base_shape=T))


def _move(clearance: Clearance, population: Population, zone: Zone, short: float) -> Relaxation:
    """Find the shortest move of a keep-out zone along an axis, of the base or its own, that makes way for a motion."""
    group, shape = f"clearance: {zone.name}", zone.shape
    R, place = shape.T_base_shape[:3, :3], shape.T_base_shape[:3, 3]
    sides = np.concatenate([np.eye(3), -np.eye(3), R.T, -R.T])
    directions = np.unique(sides.round(12), axis=0) if shape.kind != "half-space" else -R[:, 2][None, :]

    def clear(place: FloatArray) -> bool:
        alone = replace(clearance.scene, zones=(_placed(zone, place),), self_collision=False)
        return bool((Clearance(alone, clearance.limits).population(population) <= 0.0).all())

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
    best = next((d for d in (_up(ROOM * best), _up(best)) if clear(place + d * along)), best)
    words = f"move keep-out zone '{zone.name}' by {best:.3f} m along {_axis_words(along)}"
    return Relaxation(group, "move", "m", best, place, place + best * along, words)


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


def _self_proposal(scene: Scene, least: float) -> Relaxation:
    short = _up(ROOM * least)
    if least <= scene.self_clearance:
        less = max(0.0, round(scene.self_clearance - short, 9))
        words = f"reduce the clearance between the robot's own links from {scene.self_clearance:g} to {less:g} m"
        return number_changed(SELF, "reduce clearance", "m", before=scene.self_clearance, after=less, words=words)
    words = f"relax other constraints: links would come {short:.3f} m too close; or check the robot's capsules"
    none = np.zeros(1)
    return Relaxation(SELF, "remove", "m", short, none, none, words)


def _up(distance: float) -> float:
    return float(np.ceil(distance / _FINE - 1e-9) * _FINE)


def _axis_words(direction: FloatArray) -> str:
    axis = int(np.argmax(np.abs(direction)))
    if np.abs(np.delete(direction, axis)).max() < 1e-9:
        return f"{'-' if direction[axis] < 0.0 else '+'}{'xyz'[axis]}"
    return "(" + ", ".join(f"{x:.3f}" for x in direction) + ")"
