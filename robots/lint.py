"""Plausibility checks of a robot: findings as sentences, none of them fatal by itself.

Closed chains: home outside the limits, limits outside the workspace, rods that are not slender. Numbers: limits missing
or in degrees, lengths in millimetres, angles nearly but not quite special.
"""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import TOLERANCE, base_parameters, declared_transform, observation, random_motion
from excitor.robots.belief import unknown_friction
from excitor.robots.closed_chain import ClosedLoop
from excitor.robots.dynamics import foreign_terms, frame_pose, mass_matrix
from excitor.robots.errors import RankDeficient
from excitor.robots.files import presets
from excitor.robots.friction import friction_model
from excitor.robots.inertia import (
    Consistency,
    about_center_of_mass,
    check_consistency,
    inverse,
    roll_pitch_yaw,
    roll_pitch_yaw_of,
)
from excitor.robots.parameters import layout
from excitor.robots.robot import ControllerAxes, FrictionTerm, Robot, RotorInertia
from excitor.robots.tree import Tree

Level = Literal["error", "warning", "note"]
_LEVELS: tuple[Level, ...] = ("error", "warning", "note")
_POSITION_ERROR = 1e-3  # m; an operator reads tenths of a millimetre, and a data sheet gives millimetres
_FAINT = 1e-4  # columns of the regressor of real robots are within a factor 30 of each other
_DRAWS = 500
_SLENDER = 0.05  # of a rod's own: what is off it by more is no rod
_NEARLY = 2e-3  # rad: 3.14 for π is 1.6e-3 off
_EXACTLY = 1e-9
_TURNS, _FAST = 4 * math.pi, 50.0  # rad, rad/s: more is rare, and typed in degrees where most joints have it
_NARROW = math.radians(_TURNS)  # rad: a range that is less is rare, and in rad read as degrees where most have it
_SHORT = 0.05  # m: no reach to compare a tool with
_TURNED = 1.0  # deg, of a base against another
_DENSITIES = (10.0, 30_000.0)  # kg/m³ of a robot in its volumes, which are up to four times too large
_STOCKY = 2000.0  # kg of a robot of 1 m reach without volumes: ten times what the heaviest weigh


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: place, value, expected value and remedy."""

    level: Level
    where: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.sentence}"


def lint(robot: Robot, notes: Iterable[tuple[str, str]] = ()) -> tuple[Finding, ...]:
    """Check a robot for errors and implausible values; errors first, then warnings, then notes.

    `notes` are what reading its file changed or left out: (where, sentence).
    """
    found = [finding for check in _CHECKS for finding in check(robot)]
    found += [Finding("note", where, sentence) for where, sentence in notes]
    return tuple(sorted(found, key=lambda finding: _LEVELS.index(finding.level)))


def suspicions(robot: Robot) -> tuple[Finding, ...]:
    """Find figures that are surely wrong (errors), as in another unit or frame, or probably so (warnings)."""
    checks = (_inertias, _payload, *_FIGURES)
    return tuple(finding for check in checks for finding in check(robot) if finding.level != "note")


def _inertias(robot: Robot) -> Iterator[Finding]:
    """Find links with physically inconsistent or implausible parameters."""
    params = layout(robot)
    reach = reach_of_links(robot)
    unknown, partly = [], []
    for j, name in enumerate(robot.mechanism.link_names):
        columns = params.link(j)
        phi, known = robot.chi[columns], robot.known[columns]
        if known.all() and not phi.any():
            yield Finding("note", f"link {name!r}", "has no mass: a frame between joints")
        elif known.all():
            yield from _body(phi, f"link {name!r}", float(reach[j]))
        elif known.any():
            partly.append(name)
            yield from _known_mass(phi, bool(known[9]), f"link {name!r}")
        else:
            unknown.append(name)
    for names, what in ((unknown, "not known"), (partly, "known in part only")):
        if names:
            sentence = f"inertial parameters are {what} beforehand; no torque can be predicted before identification"
            yield Finding("note", f"links {', '.join(names)}", sentence)


def _known_mass(phi: FloatArray, known: bool, where: str) -> Iterator[Finding]:
    if known and phi[9] <= 0.0:
        level: Level = "error" if phi[9] < 0.0 else "warning"
        sentence = f"weighs {phi[9]:g} kg, expected more than 0; correct it, or leave it out if unknown"
        yield Finding(level, where, sentence)


_INERTIA_UNITS = {"kg mm²": 1e-6, "g mm²": 1e-9, "kg cm²": 1e-4, "g cm²": 1e-7}  # kg m²


def _body(phi: FloatArray, where: str, reach: float) -> Iterator[Finding]:
    yield from _known_mass(phi, True, where)
    if phi[9] <= 0.0:
        return
    consistency = check_consistency(phi)
    center = phi[6:9] / phi[9]
    moments = consistency.principal_moments
    rounding = 1e-9 * (float(np.abs(moments).sum()) + phi[9] * float(center @ center))
    yield from _principal_moments(phi, consistency, rounding, where)
    value = f"centre of mass is at {_list(center)} m"
    if np.linalg.norm(center) > 3.0:
        remedy = f"check that it is in metres, not mm: center = {_list(center / 1e3)}"
        level: Level = "error" if np.linalg.norm(center) > 10.0 * max(reach, 0.3) else "warning"
        yield Finding(level, where, f"{value}, more than 3 m from the joint; {remedy}")
    elif reach > 0.0 and np.linalg.norm(center) > 1.5 * reach + 0.1:
        yield Finding(
            "warning",
            where,
            f"{value}, far outside the link, which reaches {reach:.3g} m; check its frame and its signs",
        )
    gyration = float(np.sqrt(np.abs(moments).max() / phi[9]))
    most = max(2.0 * reach, 0.3) if reach > 0.0 else 1.0
    if gyration > most:
        fits = (unit for unit, size in _INERTIA_UNITS.items() if 0.05 * most < gyration * np.sqrt(size) < most)
        unit = next(fits, "kg mm²")
        sentence = (
            f"inertia of {np.abs(moments).max():.3g} kg m² at {phi[9]:.3g} kg is that of mass {gyration:.3g} m away, "
            f"but the link reaches {reach:.3g} m; check that it is about the centre of mass, in kg m², not {unit}"
        )
        sure = gyration > 20.0 * most
        inertia = _entries(about_center_of_mass(phi)[2] * _INERTIA_UNITS[unit])
        yield Finding("error" if sure else "warning", where, sentence + f": inertia = {inertia}" * sure)
    if phi[9] > 3000.0:
        yield Finding("warning", where, f"weighs {phi[9]:g} kg; check that the mass is in kg, not g")


def _principal_moments(phi: FloatArray, consistency: Consistency, rounding: float, where: str) -> Iterator[Finding]:
    moments = consistency.principal_moments
    value = f"principal moments about the centre of mass are {_list(moments)} kg m²"
    remedy = f"; or leave the inertia out, to identify it: mass = {phi[9]:.6g}, center = {_list(phi[6:9] / phi[9])}"
    if moments[0] < -rounding:
        sentence = f"{value}, expected none below 0; check that the inertia is given about the centre of mass"
        yield Finding("error", where, sentence + remedy)
    elif consistency.triangle_margin < -rounding:
        sentence = (
            f"{value}: the largest exceeds the sum of the others by {-consistency.triangle_margin:.3g}, so no body has "
            "them (triangle inequality); check signs, the axes, and the point that the inertia is about"
        )
        yield Finding("error", where, sentence + remedy)
    elif moments[2] <= rounding:
        sentence = "has a mass but no inertia about its centre of mass: a point; give its inertia if it matters"
        yield Finding("note", where, sentence)


def _payload(robot: Robot) -> Iterator[Finding]:
    """Find a payload that is physically inconsistent."""
    if robot.payload is not None:
        bodies = slice(9, layout(robot).n_link_params, 10)
        arm, own = float(robot.chi[bodies].sum()), float(robot.payload.phi[9])
        if robot.known[bodies].all() and own > 3.0 * max(arm, 1.0):
            sentence = f"weighs {own:g} kg on an arm of {arm:.3g}; if in g, mass = {own / 1e3:g}"
            yield Finding("error", "payload", sentence)
        tool = float(np.linalg.norm(robot.tool.T_link_frame[:3, 3]))
        yield from _body(robot.payload.phi, "payload", float(reach_of_links(robot)[robot.payload.link]) + tool + 0.5)


def _accelerations(robot: Robot) -> Iterator[Finding]:
    """Find poses where torques do not determine accelerations; all inertias must be known."""
    if not robot.known[: layout(robot).n_link_params].all():
        return
    q = random_motion(robot, 100, robot.locked).q
    M = mass_matrix(robot, q)
    diagonal = np.diagonal(M, axis1=1, axis2=2)
    if (diagonal <= 0.0).any():
        joint = robot.joint_names[int(np.argmin(diagonal.min(axis=0)))]
        sentence = (
            f"moves a total inertia of {diagonal.min():.3g}, expected more than 0 at every pose; "
            "give the links beyond it masses and inertias, or the joint a rotor inertia"
        )
        yield Finding("warning" if diagonal.min() == 0.0 else "error", f"joint {joint!r}", sentence)
        return
    scale = 1.0 / np.sqrt(diagonal)
    smallest = np.linalg.eigvalsh(M * scale[:, :, None] * scale[:, None, :])[:, 0]
    worst = int(np.argmin(smallest))
    if smallest[worst] < 1e-12:
        sentence = (
            f"is not positive definite at q = {_list(q[worst])}: scaled to a unit diagonal, its smallest eigenvalue "
            f"is {smallest[worst]:.2g}; torques then do not determine accelerations. Check the links' inertias"
        )
        yield Finding("error" if smallest[worst] < -1e-9 else "warning", "mass matrix", sentence)


def _drive(robot: Robot) -> Iterator[Finding]:
    """Find drives whose power does not balance, and parameters that must not be negative."""
    params = layout(robot)
    elements: list[tuple[RotorInertia | FrictionTerm, int]] = [
        *zip(robot.drive.rotors, params.rotor_columns, strict=True),
        *zip(robot.drive.friction, params.friction_columns, strict=True),
    ]
    for element, column in elements:
        rotor = isinstance(element, RotorInertia)
        where = f"{'rotor' if rotor else 'friction'} {element.parameter!r}"
        if not np.array_equal(element.senses, element.acts):
            sentence = (
                f"senses {_combination(element.senses, robot)} but acts through {_combination(element.acts, robot)}, "
                "so its power does not balance; leave out `acts` unless a paper prints it so"
            )
            yield Finding("warning", where, sentence)
        never = isinstance(element, RotorInertia) or friction_model(element).sign == "positive"
        if never and robot.known[column] and robot.chi[column] < 0.0:
            sentence = f"is {robot.chi[column]:g}, expected 0 or more; check its sign, and which way its motor turns"
            yield Finding("error", where, sentence)
    for term in foreign_terms(robot):
        sentence = (
            f"is {term.model!r}, a registered law that is evaluated in numpy: designs are searched candidate by "
            "candidate and gradients found by differences, which takes several times as long as built-in friction does"
        )
        yield Finding("note", f"friction {term.parameter!r}", sentence)


def _controllers(robot: Robot) -> Iterator[Finding]:
    """Compare the tool's position with the one each controller states for its check poses."""
    for name, controller in robot.controllers.items():
        where = f"controller {name!r}"
        size = np.abs(controller.matrix)
        ones = (size.sum(axis=0) == 1.0).all() and (size.sum(axis=1) == 1.0).all()
        if not (ones and np.isin(size, (0.0, 1.0)).all()):
            sentence = "couples joints, or scales them: its matrix is more than signs and an order"
            yield Finding("note", where, f"{sentence}; check it on the robot")
        if len(controller.poses) < 3:
            sentence = f"has {len(controller.poses)} check poses, expected 3 that an operator can drive to and measure"
            yield Finding("note", where, sentence)
        yield from _check_poses(controller, robot, where)


def _check_poses(controller: ControllerAxes, robot: Robot, where: str) -> Iterator[Finding]:
    for k, pose in enumerate(controller.poses):
        q = np.linalg.solve(controller.matrix, pose.axes - controller.zero)
        at = frame_pose(robot, q[None, :])[0, :3, 3]
        error = float(np.linalg.norm(at - pose.position))
        if error > _POSITION_ERROR:
            sentence = (
                f"says the tool is at {_list(pose.position)} m, the model puts it at {_list(at)} m, "
                f"{1e3 * error:.3g} mm away; check the signs and zeros of the axes, the frames, and the tool"
            )
            yield Finding("error", f"{where} pose {k + 1}", sentence)


def _identifiability(robot: Robot) -> Iterator[Finding]:
    """Check that the rank is unambiguous, and that the declared base set spans the base parameters."""
    try:
        base = base_parameters(robot)
    except RankDeficient as error:
        yield Finding("warning", "base parameters", str(error))
        return
    kept, dropped = base.gap
    if kept < 30 * TOLERANCE or dropped > TOLERANCE / 30:
        sentence = (
            f"the last one kept shows by {kept:.1e}, the first one dropped by {dropped:.1e}: no clear gap around "
            f"{TOLERANCE:g}; check the geometry for angles or lengths that are nearly, but not quite, special"
        )
        yield Finding("warning", "base parameters", sentence)
    size = np.linalg.norm(observation(robot, robot.locked), axis=0)
    faint = [name for name, k in zip(base.names, base.kept, strict=True) if size[k] < _FAINT * size.max()]
    if faint:
        sentence = (
            f"{', '.join(faint)} show in the torques less than {_FAINT:g} times as much as others do, so no "
            "measurement will tell them; check the geometry for angles that are nearly, but not quite, special"
        )
        yield Finding("warning", "base parameters", sentence)
    if robot.declared_base is not None:
        try:
            declared_transform(robot, base)
        except RankDeficient as error:
            yield Finding("error", "declared_base", f"{error}; check its expressions and the frames of its source")


def _list(values: FloatArray) -> str:
    return f"[{', '.join(f'{value:.4g}' for value in values)}]"


def _entries(inertia: FloatArray) -> str:
    """Write a tensor as robot files do: xx, xy, xz, yy, yz, zz."""
    return _list(inertia[np.triu_indices(3)])


def _combination(row: FloatArray, robot: Robot) -> str:
    terms = [f"{share:g} {name}" for share, name in zip(row, robot.joint_names, strict=True) if share != 0.0]
    return " + ".join(terms)


def closed_workspace(robot: Robot) -> Iterator[Finding]:
    """Check a closed chain's workspace: home, and the share of its joint limits where it can be assembled."""
    loop = robot.mechanism
    if not isinstance(loop, ClosedLoop):
        return
    low, high = robot.limits.position.T
    for name, at, least, most in zip(loop.joint_names, loop.home[loop.actuated], low, high, strict=True):
        if not least <= at <= most:
            sentence = f"stands at {at:.4g} at home, outside its limits {least:.4g} to {most:.4g}; move one of them"
            yield Finding("warning", f"joint {name!r}", sentence)
    if not np.isfinite(robot.limits.position).all():
        return
    q = np.random.default_rng(0).uniform(low, high, size=(_DRAWS, robot.n_joints))
    share = float((loop.singularity_distances(q) > 0.0).all(axis=1).mean())
    if share < 1.0:
        sentence = (
            f"hold positions of which {100 * share:.0f} % can be assembled; let a design keep its distance to "
            "singularities"
        )
        yield Finding("note", "position limits", sentence)


def slender_rods(robot: Robot) -> Iterator[Finding]:
    """Find bodies declared slender whose parameters are not a slender rod's, and would be lost."""
    loop = robot.mechanism
    if not isinstance(loop, ClosedLoop):
        return
    for b in np.flatnonzero(loop.slender):
        phi = robot.chi[10 * b : 10 * b + 10]
        if not robot.known[10 * b : 10 * b + 10].all():
            continue
        across = 0.5 * (phi[3] + phi[5])
        lost = max(abs(phi[0]), abs(phi[3] - phi[5]), *np.abs(phi[[1, 2, 4]]))
        aside = float(np.hypot(phi[7], phi[8]))
        if lost > _SLENDER * across or aside > _SLENDER * abs(phi[6]):
            sentence = (
                f"counts as a slender rod along x, but its inertia is off that by {lost:.3g} of {across:.3g} kg m², "
                f"its first moment by {aside:.3g} of {abs(phi[6]):.3g} kg m; these are left out: check its frame, "
                "or leave out `slender`"
            )
            yield Finding("warning", f"link {loop.link_names[b]!r}", sentence)


def reach_of_links(robot: Robot) -> FloatArray:
    """Measure how far each link reaches from its frame's origin, to joints, frames and capsules, (n_links,)."""
    reach = np.zeros(robot.mechanism.n_links)
    for frame in (*robot.frames, robot.tool):
        if frame.link >= 0:
            reach[frame.link] = max(reach[frame.link], np.linalg.norm(frame.T_link_frame[:3, 3]))
    for capsule in robot.capsules:
        if capsule.link >= 0:
            ends = max(np.linalg.norm(capsule.start), np.linalg.norm(capsule.end))
            reach[capsule.link] = max(reach[capsule.link], ends + capsule.radius)
    tree = opened_tree(robot)
    if tree is None:
        return reach
    along = np.zeros(tree.n_links)
    for j, parent in enumerate(tree.parents):
        along[j] = max(along[j], np.linalg.norm(inverse(tree.after[j])[:3, 3]))
        if parent >= 0:
            along[parent] = max(along[parent], np.linalg.norm(tree.before[j, :3, 3]))
    if not isinstance(robot.mechanism, ClosedLoop):
        return np.maximum(reach, along)
    for closure in robot.mechanism.closures:
        for link, point in zip(closure.links, closure.points, strict=True):
            if link >= 0:
                along[link] = max(along[link], np.linalg.norm(point))
    return np.maximum(reach, along[robot.mechanism.bodies])


def opened_tree(robot: Robot) -> Tree | None:
    """Return a robot's tree, or the opened tree of a closed chain."""
    mechanism = robot.mechanism
    if isinstance(mechanism, ClosedLoop):
        return mechanism.tree
    return mechanism if isinstance(mechanism, Tree) else None


def stated_limits(robot: Robot) -> Iterator[Finding]:
    """Find missing limits, without which a design is not safe."""
    limits = robot.limits
    stated: dict[str, BoolArray] = {
        "position": np.asarray(np.isfinite(limits.position).all(axis=1)),
        "velocity": np.isfinite(limits.velocity),
        "acceleration": np.isfinite(limits.acceleration),
        "torque": np.isfinite(limits.torque),
    }
    free = [i for i in range(robot.n_joints) if i not in robot.locked]
    for quantity, given in stated.items():
        lacking = [robot.joint_names[i] for i in free if not given[i]]
        if lacking:
            whose = ", ".join(lacking) if len(lacking) < len(free) else "any joint"
            sentence = f"no {quantity} limit is stated for {whose}; a design may exceed it. State it"
            yield Finding("warning", f"{quantity} limits", sentence)


TURNING = {"unit": "rad", "force": "N m", "damping": "N m s/rad", "inertia": "kg m2"}
SLIDING = {"unit": "m", "force": "N", "damping": "N s/m", "inertia": "kg"}


def gaps(robot: Robot) -> list[dict[str, str]]:
    """List what a robot file leaves out, the costliest first: what, what that costs, and the lines that state it."""
    params, n, limits = layout(robot), robot.n_joints, robot.limits
    links, joints, free = robot.mechanism.link_names, robot.joint_names, ~np.isin(range(n), list(robot.locked))
    shaped = [capsule.link for capsule in robot.capsules if capsule.origin != "assumed"]
    rotors = zip(robot.drive.rotors, params.rotor_columns, strict=True)
    felt = [rotor.senses != 0.0 for rotor, column in rotors if not robot.known[column]]
    lacking: dict[str, tuple[Any, Sequence[str]]] = {
        "masses": (~robot.known[: params.n_link_params].reshape(-1, 10).all(axis=1), links),
        "positions": (free & ~np.isfinite(limits.position).all(axis=1), joints),
        "velocities": (free & ~np.isfinite(limits.velocity), joints),
        "torques": (free & ~np.isfinite(limits.torque), joints),
        "volumes": (~np.isin(range(len(links)), shaped), links),
        "accelerations": (free & ~np.isfinite(limits.acceleration), joints),
        "currents": (np.isnan(robot.drive.torque_from_current).any(axis=1), joints),
        "friction": (unknown_friction(robot), joints),
        "rotors": (np.any([*felt, np.zeros(n, dtype=bool)], axis=0), joints),
        "axes": (np.full(n, not robot.controllers), joints),
    }
    lists = {"ones": [1.0] * n, "axes": json.dumps(joints), "signs": [1] * n, "zeros": [0.0] * n}
    texts = tomllib.loads((resources.files("excitor.robots") / "gaps.toml").read_text("utf-8"))
    found = []
    for key, (where, names) in lacking.items():
        if where.any():
            first = int(np.argmax(where))
            slides = names is joints and bool(robot.mechanism.prismatic[first])
            own = SLIDING if slides else TURNING
            listed = ", ".join(np.array(names)[where]) if not where.all() else "all"
            words = {"names": listed, "first": names[first], "number": first + 1, **own, **lists}
            found.append({name: text.format(**words) for name, text in texts[key].items()})
    return found


def _sure(robot: Robot, odd: Sequence[bool] | BoolArray) -> Literal["error", "warning"]:
    """Return how sure a wrong unit is: surely wrong where it is of most, and at least two, of the joints that turn."""
    turning = np.asarray(odd)[~robot.mechanism.prismatic]
    return "error" if turning.sum() >= 2 and 2 * turning.sum() > turning.size else "warning"


def ranges(robot: Robot) -> Iterator[Finding]:
    """Check position limits, and the positions of locked joints."""
    far = [np.abs(interval[np.isfinite(interval)]).max(initial=0.0) > _TURNS for interval in robot.limits.position]
    level, narrow = _sure(robot, far), _sure(robot, np.ptp(robot.limits.position, axis=1) < _NARROW)
    for i, name in enumerate(robot.joint_names):
        where, slides = f"joint {name!r}", bool(robot.mechanism.prismatic[i])
        low, high = (float(bound) for bound in robot.limits.position[i])
        unit, other, most, least = (
            ("m", "mm", 10.0, 1e-3) if slides else ("rad", "degrees", _TURNS, _NARROW if narrow == "error" else 0.0175)
        )
        value = f"position goes from {low:.4g} to {high:.4g} {unit}"
        if i in robot.locked and not low <= robot.locked[i] <= high:
            sentence = f"{value}, but it is locked at {robot.locked[i]:.4g}; lock it within its limits"
            yield Finding("warning", where, sentence)
        if max([abs(bound) for bound in (low, high) if math.isfinite(bound)], default=0.0) > most:
            own = f"position_{'m' if slides else 'deg'} = {_list(robot.limits.position[i] / (1e3 if slides else 1.0))}"
            remedy = f"check that it is in {unit}, not {other} ({own}), or leave the limit out if there is none"
            yield Finding("warning" if slides else level, where, f"{value}; {remedy}")
        elif high - low < least:
            sentence = (
                f"{value}, which leaves no room to move; check the unit (degrees, not rad), or make the joint fixed"
            )
            yield Finding("warning" if slides else narrow, where, sentence)
        elif (low > 0.0 or high < 0.0) and not isinstance(robot.mechanism, ClosedLoop):
            yield Finding("note", where, f"{value}: the pose of zeros cannot be reached")


def speeds(robot: Robot) -> Iterator[Finding]:
    """Check velocity limits, of the joints and of the motors."""
    slides = robot.mechanism.prismatic
    level = _sure(robot, (robot.limits.velocity > _FAST) & np.isfinite(robot.limits.velocity))
    for i, name in enumerate(robot.joint_names):
        velocity = float(robot.limits.velocity[i])
        unit, other, most = ("m/s", "mm/s", 20.0) if slides[i] else ("rad/s", "deg/s or the motor's", _FAST)
        if most < velocity < math.inf:
            own = f"velocity_m_s = {velocity / 1e3:.4g}" if slides[i] else f"velocity_deg_s = {velocity:.4g}"
            sentence = f"velocity limit is {velocity:.4g} {unit}; check that it is in {unit} of the joint, not {other}"
            yield Finding("warning" if slides[i] else level, f"joint {name!r}", f"{sentence} ({own})")
    if slides.any() or not np.isfinite(robot.limits.velocity).all():
        return
    rates = np.abs(robot.drive.motor_from_joint) @ robot.limits.velocity * 60.0 / (2.0 * math.pi)
    for name, rate in zip(robot.joint_names, rates, strict=True):
        if rate > 20_000.0:
            sentence = f"its motor turns {rate:.0f} times a minute at full speed, expected at most some thousands"
            yield Finding("warning", f"joint {name!r}", f"{sentence}; check the gear ratios and the velocity limit")


def sizes(robot: Robot) -> Iterator[Finding]:
    """Check lengths that may be in millimetres, and gravity."""
    g = float(np.linalg.norm(robot.mechanism.gravity))
    if g == 0.0:
        yield Finding("note", "gravity", "is 0: masses are not identifiable from torques")
    elif not 9.7 < g < 9.9:
        yield Finding("warning", "gravity", f"is {g:.4g} m/s², expected 9.78 to 9.83 on Earth; check its unit")
    if isinstance(robot.mechanism, Tree) and robot.mechanism.gravity[2] > -0.9 * g and g > 0.0:
        sentence = "the base's z axis does not point up: right for a robot on a wall, a slope or a ceiling"
        yield Finding(
            "warning", "gravity", f"{sentence}, and zones are in that frame too; else write gravity = [0, 0, -9.81]"
        )
    (_, own), tool = reach(robot), robot.tool.T_link_frame[:3, 3]
    far = float(np.linalg.norm(tool))
    lengths: dict[str, float] = {"tool": far} if own < _SHORT else {}
    if far > own >= _SHORT:
        sentence = f"is {far:.4g} m long, more than the reach of {own:.3g} m without it; check that it is in metres"
        yield Finding(
            "error" if far > 3.0 * own else "warning", "tool", f"{sentence}, not mm: [tool] xyz = {_list(tool / 1e3)}"
        )
    if own > 30.0:
        yield Finding(
            "error", "lengths", f"reach {own:.4g} m, which no robot does; check that they are in metres, not mm"
        )
    tree = opened_tree(robot)
    if tree is not None:
        for j, name in enumerate(tree.link_names):
            shifts = (tree.before[j, :3, 3], tree.after[j, :3, 3])
            lengths[f"joint {name!r}"] = max(float(np.linalg.norm(shift)) for shift in shifts)
    for k, capsule in enumerate(robot.capsules):
        ends = (capsule.start, capsule.end)
        lengths[f"capsule[{k + 1}]"] = max(capsule.radius, *(float(np.linalg.norm(end)) for end in ends))
    for where, length in lengths.items():
        if length > 10.0:
            yield Finding("warning", where, f"is {length:.4g} m long; check that lengths are in metres, not mm")


def reach(robot: Robot) -> tuple[FloatArray, float]:
    """Find where a robot stands, and how far from there its links' frames get at random postures, m."""
    at = robot.mechanism.poses(random_motion(robot, 200).q)[:, :, :3, 3]
    middle = at[:, 0].mean(axis=0)
    return middle, float(np.linalg.norm(at - middle, axis=2).max())


def base_frame(robot: Robot) -> Iterator[Finding]:
    """Compare the base with the maker's and ROS' of an arm of the same geometry: zones are typed in one of them."""
    match, _ = presets.find(robot, robot.name)
    if match is None:
        return
    frames = zip(("the maker's", "ROS'"), presets.base_frames(match), strict=True)
    turned = {whose: np.array(frame["rpy_deg"]) for whose, frame in frames}
    turns = {whose: rpy for whose, rpy in turned.items() if np.abs(rpy).max() > _TURNED}
    others = [f"{whose} is turned by rpy_deg = {_list(rpy)}" for whose, rpy in turns.items()]
    if not others:
        return
    sentence = (
        f"is the one that zones are in; of a {match.preset.name}, as this is by its geometry, {', '.join(others)}"
    )
    if len(others) < len(turned):
        yield Finding("note", "base frame", f"{sentence} against it")
        return
    whose, rpy = min(turned.items(), key=lambda item: float(np.linalg.norm(item[1])))
    back = np.degrees(roll_pitch_yaw_of(inverse(roll_pitch_yaw(*np.radians(rpy))))).round(6) + 0.0
    remedy = f"turn joint {robot.joint_names[0]!r} about the base by rpy_deg = {_list(back)} to have {whose}"
    yield Finding("warning", "base frame", f"{sentence} against it; unless the arm stands so, {remedy}")


def masses(robot: Robot) -> Iterator[Finding]:
    """Compare masses with the volumes of links, or with the reach: those in grams are a thousand times too large."""
    bodies = slice(9, layout(robot).n_link_params, 10)
    mass, volume = np.where(robot.known[bodies], robot.chi[bodies], 0.0), np.zeros(robot.mechanism.n_links)
    for capsule in (one for one in robot.capsules if one.link >= 0):
        length = float(np.linalg.norm(capsule.end - capsule.start))
        size = np.pi * capsule.radius**2 * (length + 4.0 / 3.0 * capsule.radius)
        volume[capsule.link] += np.nan if capsule.origin == "assumed" else size
    both = (mass > 0.0) & (volume > 0.0)
    if 2 * both.sum() <= (mass > 0.0).sum():
        _, length = reach(robot)
        if mass.sum() > _STOCKY * max(length, 0.1) ** 3:
            sentence = f"add up to {mass.sum():.4g} kg at a reach of {length:.3g} m; check that they are in kg, not g"
            yield Finding("error", "masses", f"{sentence}: a thousandth of each")
        return
    levels: tuple[Level, ...] = ("error", "warning")
    found = [("masses", mass[both].sum(), volume[both].sum())]
    found += [(f"link {robot.mechanism.link_names[j]!r}", mass[j], volume[j]) for j in np.flatnonzero(both)]
    for k, (where, m, V) in enumerate(found):
        low, high = _DENSITIES if k == 0 else (_DENSITIES[0] / 2.0, 2.0 * _DENSITIES[1])
        if not low <= m / V <= high:
            unit, factor = ("g", 1e-3) if m / V > high else ("t", 1e3)
            sentence = f"{m:.4g} kg in the volume is {m / V:.3g} kg/m³, expected {low:.3g} to {high:g}"
            yield Finding(
                levels[k > 0], where, f"{sentence}; check that it is in kg, not {unit}: mass = {factor * m:.4g}"
            )


def axes_nearly_special(robot: Robot) -> Iterator[Finding]:
    """Find axes almost parallel or orthogonal to gravity or the axis before: no data determine their columns."""
    tree = opened_tree(robot)
    if tree is None:
        return
    for j, parent in enumerate(tree.parents):
        ours = tree.before[j, :3, :3] @ tree.axis[j]
        if parent >= 0:
            theirs, other = tree.after[parent, :3, :3].T @ tree.axis[parent], f"that of {tree.link_names[parent]!r}"
        else:
            theirs, other = tree.gravity, "gravity"
        angle = math.atan2(float(np.linalg.norm(np.cross(ours, theirs))), abs(float(ours @ theirs)))
        relations = {f"nearly parallel to {other}": angle, f"nearly a quarter turn from {other}": math.pi / 2 - angle}
        for relation, off in relations.items():
            if _EXACTLY < abs(off) < _NEARLY and np.any(theirs):
                sentence = (
                    f"axis is {relation}, {off:.1e} rad off, which makes base parameters that cannot be measured; "
                    "write the exact angle (1.5707963 for pi/2), unless a calibration found this one"
                )
                yield Finding("warning", f"joint {tree.link_names[j]!r}", sentence)


_FIGURES = (ranges, speeds, sizes, masses, base_frame)  # that may be in another unit or frame
_CHECKS: tuple[Callable[[Robot], Iterator[Finding]], ...] = (
    _inertias, _payload, _accelerations, _drive, _controllers, _identifiability, stated_limits, *_FIGURES,
    axes_nearly_special, closed_workspace, slender_rods,
)  # fmt: skip
