"""The cell around a robot: zones to stay in or out of, the robot's own links, and their clearances."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from excitor.robots.arrays import FloatArray, check_shape, freeze, locked
from excitor.robots.base import random_motion
from excitor.robots.dynamics import frame_jacobian
from excitor.robots.inertia import inverse
from excitor.robots.kernel.compile import Chain
from excitor.robots.robot import Capsule, Motion, Robot
from excitor.robots.tree import Tree, chain
from excitor.robots.volumes import hull_gap

if TYPE_CHECKING:
    from excitor.robots.kernel.distances import Volumes


ShapeKind = Literal["box", "half-space", "sphere", "cylinder"]
Keep = Literal["in", "out"]
Bodies = Literal["tool", "links", "all"]

_TOUCHING = 0.002  # m: capsules that are usually this close say nothing about a collision
N_POSTURES = 200  # random ones, to find which capsules of a robot can approach each other at all
N_MANY = 100_000  # random ones, to find which fitted capsules make no constraint
_SELDOM, _NEARLY_ALL = 0.01, 0.99  # shares of postures
_APART = 0.002  # m: meshes that stay that far apart at random postures do not meet
_SIZES: dict[str, tuple[str, ...]] = {
    "box": ("half extent along x", "half extent along y", "half extent along z"),
    "sphere": ("radius",),
    "cylinder": ("radius", "half height"),
    "half-space": (),
}
_FITTED: dict[tuple[object, ...], dict[tuple[int, int], str]] = {}


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """A convex solid. Box: size holds half extents; sphere: radius; cylinder about its z axis: radius, half height.

    A half-space has no size: it is everything with z ≤ 0 in its frame.
    """

    kind: ShapeKind
    T_base_shape: FloatArray
    size: FloatArray = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        _check_word("Shape.kind", self.kind, get_args(ShapeKind))
        freeze(self, T_base_shape="4 4", size="3")
        R, last = self.T_base_shape[:3, :3], self.T_base_shape[3]
        off = float(np.abs(R @ R.T - np.eye(3)).max())
        if off > 1e-9 or np.linalg.det(R) < 0.0 or not np.array_equal(last, (0.0, 0.0, 0.0, 1.0)):
            raise ValueError(
                f"Shape.T_base_shape is no rigid transform (off by {off:.1g}); give a rotation matrix and a position"
            )
        for name, value in zip(_SIZES[self.kind], self.size, strict=False):
            if not value > 0.0:
                raise ValueError(f"Shape.size of a {self.kind} has {name} {value:g} m, expected more than 0")


@dataclass(frozen=True, eq=False, slots=True)
class Zone:
    """A solid that bodies stay inside or outside of, by a clearance between their surfaces and its own."""

    name: str
    shape: Shape
    keep: Keep
    bodies: Bodies = "all"
    clearance: float = 0.0  # m

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError("Zone.name is empty; give each zone a name, constraints are reported by it")
        _check_word(f"zone {self.name!r}: keep", self.keep, get_args(Keep))
        _check_word(f"zone {self.name!r}: bodies", self.bodies, get_args(Bodies))
        _check_length(f"zone {self.name!r}: clearance", self.clearance)


@dataclass(frozen=True, eq=False, slots=True)
class Scene:
    """Obstacles of a robot: zones, and its own links. The tool is a ball about the tool frame's origin."""

    zones: tuple[Zone, ...] = ()
    self_collision: bool = True
    self_clearance: float = 0.0  # m, between surfaces
    tool_radius: float = 0.0  # m

    def __post_init__(self) -> None:
        names = [zone.name for zone in self.zones]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"zones share the name {', '.join(map(repr, twice))}; name each zone differently")
        _check_length("Scene.self_clearance", self.self_clearance)
        _check_length("Scene.tool_radius", self.tool_radius)


class SkippedPair(NamedTuple):
    """A pair of capsules that is not checked though its links are not adjacent."""

    name: str
    reason: str


class Rows(NamedTuple):
    """Clearances checked of a robot in a scene, one a row: zones first, then pairs of its own capsules."""

    names: tuple[str, ...]
    required: FloatArray  # m
    volumes: "Volumes"
    unchecked: tuple[SkippedPair, ...]


def row_names(robot: Robot, scene: Scene) -> tuple[str, ...]:
    """Name each row: "table / link j3", "cell / tool", "link j2 / link j6"; "link j3 (2)" is its second capsule."""
    return scene_rows(robot, scene).names


def required(robot: Robot, scene: Scene) -> FloatArray:
    """Clearance that each row needs, m, (n_rows,)."""
    return scene_rows(robot, scene).required


def unchecked_pairs(robot: Robot, scene: Scene) -> tuple[SkippedPair, ...]:
    """List pairs of capsules that are left out though their links are not adjacent, with the reason."""
    return scene_rows(robot, scene).unchecked


def bodies_without_volume(robot: Robot) -> tuple[str, ...]:
    """Name the links that have no capsule, whose collisions are not checked."""
    covered = {capsule.link for capsule in robot.capsules}
    return tuple(name for j, name in enumerate(robot.mechanism.link_names) if j not in covered)


def volumes_sentence(robot: Robot) -> str:
    """Say where the volumes of the links come from."""
    words = {"stated": "stated", "mesh": "fitted to collision meshes", "assumed": "of assumed radius"}
    names = ("base", *robot.mechanism.link_names)
    parts = []
    for origin, origin_words in words.items():
        links = dict.fromkeys(names[c.link + 1] for c in robot.capsules if c.origin == origin)
        count = sum(capsule.origin == origin for capsule in robot.capsules)
        if links:
            parts.append(f"{count} {origin_words}" + (f" ({', '.join(links)})" if origin == "assumed" else ""))
    bare = bodies_without_volume(robot)
    parts += [f"none of {', '.join(bare)}"] if bare else []
    return f"volumes of links: {', '.join(parts) or 'none'}"


def clearances(robot: Robot, scene: Scene, q: FloatArray) -> FloatArray:
    """Clearance between surfaces, m, (n_samples, n_rows): negative where they overlap, or leave their zone."""
    q = np.asarray(q, dtype=float)
    check_shape(q, "n_samples n_joints", "q", {"n_joints": robot.n_joints})
    if not np.isfinite(q).all():
        raise ValueError("q has entries that are not finite; clearances need a posture in every sample")
    return _clearances(robot, scene_rows(robot, scene).volumes, q)


def _clearances(robot: Robot, volumes: "Volumes", q: FloatArray) -> FloatArray:
    from excitor.robots.kernel.distances import fill_clearances

    tree = robot.mechanism
    out = np.empty((1, len(q), len(volumes.zone_body) + len(volumes.pairs)))
    is_tree = isinstance(tree, Tree)
    poses = np.empty((0, 0, 4, 4)) if is_tree else np.ascontiguousarray(tree.poses(q))
    fill_clearances(chain(tree) if isinstance(tree, Tree) else _no_chain(), volumes, locked(q.T[None]), poses, out)
    return np.asarray(out[0])


@lru_cache(maxsize=1)
def _no_chain() -> Chain:
    """Build a placeholder for the chain of a mechanism that has none: compiled code needs one of the same type."""
    still = np.eye(4)[None]
    names, one = ("none",), np.eye(1)
    tree = Tree(names, names, np.array([-1]), still, np.eye(3)[:1], still, one[0] > 1.0, one, one[0], np.zeros(3))
    return chain(tree)


def tool_speeds(robot: Robot, motion: Motion) -> FloatArray:
    """Speed of the tool frame's origin, m/s, (n_samples,)."""
    J = frame_jacobian(robot, motion.q)[:, :3]
    return np.asarray(np.linalg.norm(np.einsum("skj,sj->sk", J, motion.dq), axis=1))


def row_speed_bounds(
    robot: Robot, scene: Scene, dq_bound: FloatArray, positions: FloatArray | None = None
) -> FloatArray:
    """Bound how fast each row's clearance can change, m/s, (n, n_rows), given |dq| ≤ dq_bound (n, n_joints).

    A distance changes no faster than the points of the body's segment move; of a pair, relative to each other. So

        |d clearance / dt| ≤ Σ ρ |θ̇|,   |θ̇| ≤ |coupling| @ dq_bound,

    over the joints between the body and the base, or between the pair's two links. ρ is 1 for a sliding joint; for
    one that turns, a bound on the points' distance from its axis in any posture (`_reaches`). `positions`
    (n_joints, 2) are the joints' ranges where narrower than their limits; they matter to sliding joints only.
    """
    dq_bound = np.asarray(dq_bound, dtype=float)
    check_shape(dq_bound, "n n_joints", "dq_bound", {"n_joints": robot.n_joints})
    if not (np.isfinite(dq_bound) & (dq_bound >= 0.0)).all():
        raise ValueError("dq_bound has entries that are negative or not finite; give the largest |dq| of each joint")
    travel = robot.limits.position if positions is None else np.asarray(positions, dtype=float)
    check_shape(travel, "n_joints 2", "positions", {"n_joints": robot.n_joints})
    rates = _row_rates(robot, scene, np.ascontiguousarray(travel).tobytes())
    with np.errstate(invalid="ignore"):  # a joint that stands still moves nothing, however far it might reach
        shares = np.where(dq_bound[:, None, :] > 0.0, dq_bound[:, None, :] * rates, 0.0)
    return np.asarray(shares.sum(axis=2))


@lru_cache(maxsize=64)
def _row_rates(robot: Robot, scene: Scene, travel: bytes) -> FloatArray:
    """Bound each row's change by each coordinate's, m/rad, (n_rows, n_joints)."""
    tree = robot.mechanism
    if not isinstance(tree, Tree):
        raise NotImplementedError(f"{type(tree).__name__} has no bound on how fast its links move yet")
    volumes = scene_rows(robot, scene).volumes
    slide = _largest_slides(tree, np.frombuffer(travel).reshape(-1, 2))
    reaches = [_reaches(tree, slide, int(k), ends) for k, ends in zip(volumes.link, volumes.ends, strict=True)]
    rows = [reaches[body] for body in volumes.zone_body]
    for a, b in volumes.pairs:
        common = reaches[a].keys() & reaches[b].keys()  # these move both alike
        rows.append({j: rho for j, rho in (reaches[a] | reaches[b]).items() if j not in common})
    rates = np.zeros((len(rows), tree.n_joints))
    for rate, row in zip(rates, rows, strict=True):
        for j, rho in row.items():
            moved = tree.coupling[j] != 0.0
            rate[moved] += np.abs(tree.coupling[j, moved]) * rho
    return rates


def _largest_slides(tree: Tree, travel: FloatArray) -> FloatArray:
    """Bound |θ| of each sliding joint, 0 for those that turn: θ = coupling @ q + offset, (n_links,)."""
    slides = np.zeros(tree.n_links)
    for j in np.flatnonzero(tree.sliding):
        moved = tree.coupling[j] != 0.0
        ends = tree.coupling[j, moved, None] * travel[moved]
        slides[j] = np.abs([tree.offset[j] + ends.min(axis=1).sum(), tree.offset[j] + ends.max(axis=1).sum()]).max()
    return slides


def _reaches(tree: Tree, slide: FloatArray, link: int, ends: FloatArray) -> dict[int, float]:
    """Bound how far a segment's points lie from the axis of each joint that carries them, whatever the posture.

    o_j is the origin of joint j's `before` frame: fixed in the parent, and, where j turns, on its axis. The points
    stay within r of o_j: r is their distance from it, plus what j slides. For the next joint below, the farthest
    they get from its axis is o_j's distance from it, plus r; r itself grows by o_j's distance from the next o.
    """
    reaches: dict[int, float] = {}
    points, r = ends.reshape(2, 3), 0.0
    for j in _ancestors(tree, link):
        local = points @ tree.after[j, :3, :3].T + tree.after[j, :3, 3]  # from o_j, before the joint turns or slides
        radial = local - np.outer(local @ tree.axis[j], tree.axis[j])
        reaches[j] = 1.0 if tree.sliding[j] else float(np.linalg.norm(radial, axis=1).max()) + r
        r += float(np.linalg.norm(local, axis=1).max()) + slide[j]
        points = tree.before[j, None, :3, 3]
    return reaches


def _ancestors(tree: Tree, link: int) -> Iterator[int]:
    """Walk from a link down to the base."""
    while link >= 0:
        yield link
        link = int(tree.parents[link])


@lru_cache(maxsize=64)
def scene_rows(robot: Robot, scene: Scene) -> Rows:
    """List the clearances checked of a robot in a scene; both are immutable, so the list is cached."""
    names = _body_names(robot)
    zone_rows = [(zone, body) for zone in scene.zones for body in _watched(robot, zone)]
    pairs, needed, unchecked = _pairs(robot, scene) if scene.self_collision else ([], [], [])
    return Rows(
        names=(
            *(f"{zone.name} / {names[body]}" for zone, body in zone_rows),
            *(f"{names[a]} / {names[b]}" for a, b in pairs),
        ),
        required=np.array([zone.clearance for zone, _ in zone_rows] + needed),
        volumes=_volumes(robot, scene, zone_rows, pairs),
        unchecked=tuple(unchecked),
    )


def _volumes(robot: Robot, scene: Scene, zone_rows: list[tuple[Zone, int]], pairs: list[tuple[int, int]]) -> "Volumes":
    """Pack bodies (the tool is the last), zones and pairs for the kernel."""
    from excitor.robots.kernel.distances import ZONE_CONSTANTS, Volumes

    point = robot.tool.T_link_frame[:3, 3]
    bodies = [*robot.capsules, Capsule(robot.tool.link, point, point, scene.tool_radius)]
    constants = [_zone_constants(zone.shape) for zone, _ in zone_rows]
    return Volumes(
        link=np.array([body.link for body in bodies], dtype=np.int64),
        ends=np.array([[*body.start, *body.end] for body in bodies]),
        radius=np.array([body.radius for body in bodies], dtype=float),
        zone_body=np.array([body for _, body in zone_rows], dtype=np.int64),
        zone_inward=np.array([zone.keep == "in" for zone, _ in zone_rows], dtype=bool),
        zone=np.array(constants).reshape(-1, ZONE_CONSTANTS),
        pairs=np.array(pairs, dtype=np.int64).reshape(-1, 2),
    )


def _zone_constants(shape: Shape) -> FloatArray:
    """Write a shape as `kernel.distances` reads it."""
    T, (x, y, z), none = inverse(shape.T_base_shape), shape.size, np.inf
    formula = {
        "box": (0.0, 0.0, 0.0, x, y, z),
        "sphere": (1.0, 1.0, 0.0, x, none, none),
        "cylinder": (1.0, 0.0, 0.0, x, none, y),
        "half-space": (0.0, 0.0, 1.0, none, none, 0.0),
    }[shape.kind]
    return np.concatenate([T[:3, :3].ravel(), T[:3, 3], formula])


def distance(shape: Shape, point: FloatArray) -> float:
    """Signed distance of a point of the base frame from a shape, m, below 0 inside (see `kernel.distances`)."""
    constants = _zone_constants(shape)
    x, y, z = constants[:9].reshape(3, 3) @ point + constants[9:12]
    a, b, one_sided = constants[12:15]
    off = np.array([np.sqrt(x * x + a * y * y + b * z * z), abs(y), z if one_sided else abs(z)]) - constants[15:]
    return float(np.linalg.norm(off.clip(0.0))) or float(off.max())


def _body_names(robot: Robot) -> list[str]:
    """Name the capsules by their links, and the tool last."""
    names: list[str] = []
    for k, capsule in enumerate(robot.capsules):
        name = "base" if capsule.link < 0 else f"link {robot.mechanism.link_names[capsule.link]}"
        before = sum(other.link == capsule.link for other in robot.capsules[:k])
        names.append(f"{name} ({before + 1})" if before else name)
    return [*names, "tool"]


def _watched(robot: Robot, zone: Zone) -> list[int]:
    """List the bodies that a zone applies to, without the base, which does not move."""
    links = [k for k, capsule in enumerate(robot.capsules) if capsule.link >= 0]
    if zone.bodies == "links" and not links:
        raise ValueError(
            f"zone {zone.name!r} is about the links of {robot.name}, which has no capsules; "
            "give the robot capsules, or let the zone be about the tool"
        )
    tool = [len(robot.capsules)]
    return {"tool": tool, "links": links, "all": links + tool}[zone.bodies]


def _pairs(robot: Robot, scene: Scene) -> tuple[list[tuple[int, int]], list[float], list[SkippedPair]]:
    """Find the pairs of capsules that may collide, the clearance each needs, and those that make no constraint.

    Links near each other in the chain never come far apart: they keep half of what is usual between them, if that is
    less than the scene's clearance.
    """
    adjacent, capsules = adjacent_links(robot), robot.capsules
    candidates = [
        (a, b)
        for a in range(len(capsules))
        for b in range(a + 1, len(capsules))
        if capsules[a].link != capsules[b].link and not _joined(robot, capsules[a], capsules[b], adjacent)
    ]
    if not candidates:
        return [], [], []
    gaps = _clearances(robot, _volumes(robot, scene, [], candidates), random_motion(robot, N_POSTURES).q)
    names, kept, unchecked = _body_names(robot), [], []
    needed: list[float] = []
    fitted = _fitted_reasons(robot)
    for (a, b), gap in zip(candidates, gaps.T, strict=True):
        parts = frozenset((robot.capsules[a].part, robot.capsules[b].part))
        to_meshes = (a, b) in fitted and "assumed" not in (capsules[a].origin, capsules[b].origin)
        reason = robot.ignored_pairs.get(parts, "") or fitted.get((a, b), "") or _why_unchecked(gap, to_meshes)
        if reason:
            unchecked.append(SkippedPair(f"{names[a]} / {names[b]}", reason))
        else:
            kept.append((a, b))
            needed.append(min(scene.self_clearance, 0.5 * max(float(np.median(gap)), 0.0)))
    return kept, needed, unchecked


def _joined(robot: Robot, one: Capsule, two: Capsule, adjacent: set[frozenset[int]]) -> bool:
    """Return True if one joint connects two bodies; what a held joint carries has other joints than its link."""
    inner, outer = sorted((one, two), key=lambda capsule: capsule.link)  # a parent stands before its children
    on = next((name for name, held in robot.held.items() if outer.link in held.carries), "")
    return frozenset((one.link, two.link)) in adjacent and inner.on == on and not outer.on


def _fitted_reasons(robot: Robot) -> dict[tuple[int, int], str]:
    """Return why pairs with a capsule that was fitted or assumed are not checked, "" where they are.

    People draw capsules so that neighbours are clear of each other; fitted ones bulge. A pair is left out if it touches
    in nearly all of many random postures, or if the parts of the meshes in it never meet there, a joint or two apart.
    """
    key = robot.mechanism, robot.capsules, robot.limits
    if key not in _FITTED:
        pairs = [
            (a, b)
            for b, two in enumerate(robot.capsules)
            for a, one in enumerate(robot.capsules[:b])
            if one.link != two.link and {one.origin, two.origin} != {"stated"}
        ]
        if len(_FITTED) > 20:
            _FITTED.clear()
        _FITTED[key] = _reasons(robot, pairs) if pairs else {}
    return _FITTED[key]


def _reasons(robot: Robot, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], str]:
    found = dict.fromkeys(pairs, "")
    shares = (_clearances(robot, _volumes(robot, Scene(), [], pairs), random_motion(robot, N_POSTURES).q) < 0.0).mean(
        axis=0
    )
    often = [pair for pair, share in zip(pairs, shares, strict=True) if share > _SELDOM]
    if not often:
        return found
    q, volumes = random_motion(robot, N_MANY).q, _volumes(robot, Scene(), [], often)
    touching = np.concatenate([_clearances(robot, volumes, part) < 0.0 for part in np.array_split(q, 20)])
    near = adjacent_links(robot)
    poses = np.concatenate([robot.mechanism.poses(q), np.broadcast_to(np.eye(4), (len(q), 1, 4, 4))], axis=1)
    for pair, touch in zip(often, touching.T, strict=True):
        one, two = (robot.capsules[k] for k in pair)
        if touch.mean() > _NEARLY_ALL:
            found[pair] = f"it touches in {touch.mean():.1%} of {N_MANY} random postures, as neighbours at joints do"
        elif len(one.corners) and len(two.corners) and _is_near(one.link, two.link, near):
            T = np.linalg.inv(poses[touch, one.link]) @ poses[touch, two.link]
            apart = hull_gap(one.corners, two.corners, T, _APART)
            if apart >= _APART:
                said = (
                    f"the parts of the meshes in it stay {1e3 * apart:.0f} mm apart or more in {N_MANY} random postures"
                )
                found[pair] = said
    return found


def _is_near(a: int, b: int, adjacent: set[frozenset[int]]) -> bool:
    """Return True if at most two joints lie between two links."""
    around = [{k for pair in adjacent if link in pair for k in pair} | {link} for link in (a, b)]
    return bool(around[0] & around[1])


def _why_unchecked(gap: FloatArray, to_meshes: bool) -> str:
    """Return why a pair's clearances at random postures make no constraint; empty where they make one."""
    if np.ptp(gap) < 1e-9:
        return f"its clearance never changes, it is {gap[0] * 1e3:.1f} mm"
    if to_meshes:
        return ""
    if gap.max() < 0.0:
        return f"it overlaps in all of {len(gap)} random postures, by {-gap.max() * 1e3:.1f} mm at least"
    usual = float(np.median(gap))
    if usual < _TOUCHING:
        return (
            f"in half of {len(gap)} random postures it has {1e3 * max(usual, 0.0):.1f} mm or less, so that the "
            "capsules cannot detect collisions"
        )
    return ""


def adjacent_links(robot: Robot) -> set[frozenset[int]]:
    """Find the pairs of links (-1: the base) that one joint connects.

    Where a mechanism does not list them, they are those whose relative motion is one screw, whatever the posture.
    """
    mechanism = robot.mechanism
    if isinstance(mechanism, Tree):
        return {frozenset((j, int(parent))) for j, parent in enumerate(mechanism.parents)}
    q = random_motion(robot, 20).q
    poses, jacobians = mechanism.poses(q), mechanism.jacobians(q)
    poses = np.concatenate([poses, np.broadcast_to(np.eye(4), (len(q), 1, 4, 4))], axis=1)  # the base is last, as -1
    jacobians = np.concatenate([jacobians, np.zeros((len(q), 1, 6, robot.n_joints))], axis=1)
    pairs = [(j, k) for j in range(mechanism.n_links) for k in range(-1, j)]
    return {frozenset(pair) for pair in pairs if _freedoms(poses, jacobians, *pair) <= 1}


def _freedoms(poses: FloatArray, jacobians: FloatArray, j: int, k: int) -> int:
    """Count the independent screws by which link k moves relative to link j, seen from j."""
    turn = jacobians[:, k, 3:] - jacobians[:, j, 3:]
    arm = (poses[:, j, :3, 3] - poses[:, k, :3, 3])[:, :, None]
    shift = jacobians[:, k, :3] + np.cross(jacobians[:, k, 3:], arm, axis=1) - jacobians[:, j, :3]
    to_link = poses[:, j, :3, :3].transpose(0, 2, 1)
    screws = np.concatenate([to_link @ turn, to_link @ shift], axis=1).transpose(0, 2, 1).reshape(-1, 6)
    values = np.linalg.svd(screws, compute_uv=False)
    return int(np.count_nonzero(values > 1e-9 * max(1.0, values[0])))


def _check_word(name: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        raise ValueError(f"{name} is {word!r}, expected one of {', '.join(map(repr, words))}")


def _check_length(name: str, value: float) -> None:
    if not (np.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name} is {value:g} m, expected 0 or more")
