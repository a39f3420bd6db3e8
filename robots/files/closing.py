"""From what a robot file says about closed chains to a mechanism: platform, closures, home."""

from dataclasses import dataclass, replace

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.closure import Closure
from excitor.robots.files import schema
from excitor.robots.files.skeleton import Link, Reading, Skeleton, build_skeleton, build_tree, position_in_si
from excitor.robots.geometry import roll_pitch_yaw
from excitor.robots.parallel import ClosedLoop, closure_jacobian, size, solve, sought, tolerance
from excitor.robots.tree import Tree

_AXES = {"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0], "z": [0.0, 0.0, 1.0]}
_SINGULAR = 1e-3  # where legs stretch, home is found to about 1e-5


def is_closed(description: schema.Description) -> bool:
    """Tell a closed chain from an open one."""
    return bool(description.closure) or description.platform is not None


def refuse_loop_keys(reading: Reading) -> None:
    """Refuse, in an open chain, keys that mean something in closed ones only."""
    for k, joint in enumerate(reading.description.joint):
        for key, default in (("passive", False), ("home_deg", None), ("home_m", None), ("massless", False)):
            if getattr(joint, key) != default:
                reading.note(f"joint[{k + 1}].{key}", "is for closed chains; add [platform] and [[closure]], or remove")
        if joint.slender:
            reading.note(f"joint[{k + 1}].slender", "is for rods of closed chains; give the body its inertia instead")


@dataclass(frozen=True)
class Parts:
    """A closed chain being read: its opened skeleton, and which links and coordinates play which part."""

    skeleton: Skeleton
    actuated: list[int]  # coordinates
    platform: list[int]
    bodies: list[int]  # links that carry parameters


def read_closed(reading: Reading) -> tuple[ClosedLoop, Skeleton] | None:
    """Read a closed chain: its mechanism, and a skeleton whose links are numbered as the mechanism's bodies."""
    description = reading.description
    if description.platform is None:
        reading.note("platform", "is missing; a closed chain needs [platform] with its moves and home")
        return None
    if description.platform.name in ("base", *(joint.name for joint in description.joint)):
        reading.note(
            "platform.name", f"{description.platform.name!r} names the base or a joint already; choose another"
        )
        return None
    if not description.closure:
        reading.note("closure", "is missing; [[closure]] says where the legs meet the platform")
        return None
    joints = [*description.joint, *platform_joints(description.platform, reading)]
    whole = replace(reading, description=description.model_copy(update={"joint": joints}))
    skeleton = build_skeleton(whole)
    if reading.problems:
        return None
    parts = sort_parts(skeleton, description.platform, reading)
    tree = replace(build_tree(skeleton, whole), link_names=link_names(skeleton, description.platform))
    closures = [
        closure
        for k, entry in enumerate(description.closure)
        for closure in read_closure(entry, skeleton, f"closure[{k + 1}]", reading)
    ]
    if reading.problems:
        return None
    loop = at_home(tree, closures, parts, reading)
    return None if loop is None else (loop, renumbered(parts, description, description.platform))


def platform_joints(platform: schema.Platform, reading: Reading) -> list[schema.Joint]:
    """Write the platform's moves as passive joints that hang on the base, one on the other."""
    if len(set(platform.moves)) < len(platform.moves):
        reading.note("platform.moves", f"is {platform.moves}, which says one twice; keep each once")
    if len(platform.home) != len(platform.moves):
        reading.note("platform.home", f"has {len(platform.home)} entries, expected one for each of {platform.moves}")
    if reading.problems:
        return []
    joints: list[schema.Joint] = []
    for k, (move, home) in enumerate(zip(platform.moves, platform.home, strict=True)):
        turns = move.startswith("r")
        place = schema.Placement(xyz=platform.at if k == 0 else [0.0, 0.0, 0.0], axis=list(_AXES[move[-1]]))
        at = reading.number(home, f"platform.home[{k + 1}]")
        joints.append(
            schema.Joint(
                name=f"{platform.name}.{move}",
                parent=joints[-1].name if joints else "base",
                kind="revolute" if turns else "prismatic",
                placement=place,
                passive=True,
                home_deg=at if turns else None,
                home_m=None if turns else at,
                massless=k + 1 < len(platform.moves),
            )
        )
    here = schema.Joint(
        name=platform.name, parent=joints[-1].name, kind="fixed", placement=schema.Placement(), link=platform.link
    )
    return [*joints, here]


def sort_parts(skeleton: Skeleton, platform: schema.Platform, reading: Reading) -> Parts:
    """Find which coordinates are actuated, passive, or the platform's, and which links carry parameters."""
    names = [f"{platform.name}.{move}" for move in platform.moves]
    actuated, moves = [], []
    for i, k in enumerate(skeleton.coordinates):
        link = skeleton.links[k]
        if link.joint.name in names:
            moves.append(i)
        elif not link.joint.passive:
            actuated.append(i)
        else:
            refuse_on_passive(link, reading)
    if len(actuated) != len(moves):
        reading.note(
            "joint",
            f"{len(actuated)} joints are actuated, but the platform has {len(moves)} moves, {platform.moves}; "
            "mark the others passive = true, or correct the moves",
        )
    for link in skeleton.links:
        if link.joint.massless and link.joint.link is not None:
            reading.note(f"{link.path}.link", "is given, but the link is massless; keep one")
        if link.joint.massless and link.joint.slender:
            reading.note(f"{link.path}.slender", "is given, but the link is massless; keep one")
    bodies = [j for j, link in enumerate(skeleton.links) if not link.joint.massless]
    return Parts(skeleton, actuated, moves, bodies)


def link_names(skeleton: Skeleton, platform: schema.Platform) -> tuple[str, ...]:
    """Name links after their joints, the platform after itself."""
    last = f"{platform.name}.{platform.moves[-1]}"
    return tuple(platform.name if link.joint.name == last else link.joint.name for link in skeleton.links)


def refuse_on_passive(link: Link, reading: Reading) -> None:
    """Refuse what only a driven joint can have."""
    for key in ("limits", "locked_deg", "locked_m"):
        if getattr(link.joint, key) not in (None, schema.Limits()):
            reading.note(f"{link.path}.{key}", "the joint is passive: it follows the drives; give this to those")


def read_closure(entry: schema.Closure, skeleton: Skeleton, path: str, reading: Reading) -> list[Closure]:
    """Read a closure; a weld is a point that meets, and a turn that agrees."""
    places = [skeleton.frame(name, reading, f"{path}.between") for name in entry.between]
    points = [
        T[:3, :3] @ reading.vector(point, f"{path}.points") + T[:3, 3]
        for (_, T), point in zip(places, entry.points, strict=True)
    ]
    (a, T_a), (b, T_b) = places
    if a == b:
        reading.note(f"{path}.between", f"is {entry.between}, which is one and the same link; name two that move apart")
    for key, kind in (("length", "rod"), ("rpy_deg", "weld")):
        if getattr(entry, key) is not None and entry.kind != kind:
            reading.note(f"{path}.{key}", f"is for a {kind}; this closure is a {entry.kind}")
    plane, normal = directions(entry, path, reading)
    if entry.kind == "rod":
        length = 1.0 if entry.length is None else reading.number(entry.length, f"{path}.length")
        if entry.length is None or not length > 0.0:
            reading.note(f"{path}.length", "is missing or not above 0; a rod needs its length")
            return []
        return [Closure("rod", (a, b), np.array(points), plane[:1], length=length)]
    closures = [Closure("point", (a, b), np.array(points), plane)]
    if entry.kind == "weld":
        turn = roll_pitch_yaw(*np.radians(reading.vector(entry.rpy_deg or [0.0] * 3, f"{path}.rpy_deg")))
        agrees = T_a[:3, :3] @ turn[:3, :3] @ T_b[:3, :3].T
        closures.append(Closure("turn", (a, b), np.array(points), normal, turn=agrees))
    return closures


def directions(entry: schema.Closure, path: str, reading: Reading) -> tuple[FloatArray, FloatArray]:
    """Find the directions along which points must meet, and those about which turns must agree."""
    if entry.normal is None:
        return np.eye(3), np.eye(3)
    normal = reading.vector(entry.normal, f"{path}.normal")
    length = float(np.linalg.norm(normal))
    if entry.kind == "rod":
        reading.note(f"{path}.normal", "means nothing for a rod, which keeps a distance; remove it")
    if not 1e-6 < length < 1e6:
        reading.note(f"{path}.normal", f"is {normal.tolist()}, expected a direction other than 0")
        return np.eye(3), np.eye(3)
    normal = normal / length
    along = [axis - (axis @ normal) * normal for axis in np.eye(3)]
    along.sort(key=lambda axis: -float(np.linalg.norm(axis)))
    first = along[0] / np.linalg.norm(along[0])
    return np.array([first, np.cross(normal, first)]), normal[None]


def at_home(tree: Tree, closures: list[Closure], parts: Parts, reading: Reading) -> ClosedLoop | None:
    """Assemble the robot with its platform at home, or say why that fails."""
    n_equations = sum(len(closure) for closure in closures)
    n_sought = tree.n_joints - len(parts.actuated)
    if n_equations != n_sought:
        reading.note(
            "closure",
            f"{n_equations} equations for the {n_sought} coordinates that no drive settles (passive joints and the "
            "platform's moves); a point closes 3, or 2 with a normal; a weld 6 or 3; a rod 1",
        )
        return None
    links = [parts.skeleton.links[k] for k in parts.skeleton.coordinates]
    guess = np.array([position_in_si(link.joint, "home") or 0.0 for link in links])
    slender = np.array([parts.skeleton.links[j].joint.slender for j in parts.bodies])
    fields = (tuple(closures), np.array(parts.actuated), np.array(parts.platform))
    loop = ClosedLoop(tree, *fields, guess, np.array(parts.bodies), slender)
    q, residual = solve(loop, loop.platform, guess[None, loop.platform])
    if not residual[0] <= tolerance(loop):
        reading.note(
            "platform.home",
            f"the legs do not reach the platform there: the closures stay open by {residual[0]:.3g} m; check the "
            "lengths, and give each joint a home_deg or home_m near where it stands",
        )
        return None
    home = q[:, 0]
    loop = ClosedLoop(tree, *fields, home, np.array(parts.bodies), slender)
    return loop if settles(loop, reading) else None


def settles(loop: ClosedLoop, reading: Reading) -> bool:
    """Check that home is no singularity: the drives must settle everything, and so must the platform."""
    A = closure_jacobian(loop, loop.home[None])[0] * np.where(loop.tree.prismatic, size(loop), 1.0)
    for given, what in ((loop.actuated, "actuated joints"), (loop.platform, "platform")):
        free = sought(loop, given)
        _, values, right = np.linalg.svd(A[:, free])
        if values[-1] <= _SINGULAR * values[0]:
            loose = [loop.tree.joint_names[free[i]] for i in np.flatnonzero(np.abs(right[-1]) > 0.1)]
            reading.note(
                "closure",
                f"at home, with the {what} held still, {', '.join(loose)} can still move: a closure is "
                "missing or says what another says already, or home is a singularity",
            )
            return False
    return True


def renumbered(parts: Parts, description: schema.Description, platform: schema.Platform) -> Skeleton:
    """Renumber links as the mechanism's bodies; what the file's joints do not hold belongs to the platform."""
    own = {f"joint[{k + 1}].link" for k in range(len(description.joint))}
    numbers = {j: b for b, j in enumerate(parts.bodies)} | {-1: -1}
    skeleton = parts.skeleton
    last = f"{platform.name}.{platform.moves[-1]}"
    frames = {name: (numbers[j], T) for name, (j, T) in skeleton.frames.items() if j in numbers and name != last}
    bodies = tuple(
        (path if path in own else "platform.link", body, numbers[j], T)
        for path, body, j, T in skeleton.bodies
        if j in numbers
    )
    return Skeleton(skeleton.links, frames, bodies, tuple(skeleton.coordinates[i] for i in parts.actuated))
