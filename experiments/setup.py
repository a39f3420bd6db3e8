"""Design problem of a campaign.toml: robot, excitation, constraints, noise and settings.

Keys that are not stated get assumed values, each with a remark; all problems are reported at once.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from excitor.design.constraints.constraint import Constraint
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.registry import CONSTRAINTS
from excitor.design.constraints.torque import has_torque_model
from excitor.design.motion import Excitation
from excitor.design.search import Budget, Method, SearchResult
from excitor.experiments import campaign
from excitor.experiments.campaign import FILE, Design, InvalidCampaign, OpenCampaign, planning_problems
from excitor.experiments.model import Model, read_model
from excitor.robots.arrays import BoolArray, FloatArray
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.belief import unknown_friction
from excitor.robots.cell import Scene, Shape, Zone, distance, scene_rows
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.errors import ExcitorError, choice, did_you_mean
from excitor.robots.executor import Executor
from excitor.robots.files.bounded import read_bounded
from excitor.robots.files.folders import ALLOW, inside
from excitor.robots.files.schema import sentences
from excitor.robots.inertia import change_frame, frame_change_matrix, from_center_of_mass, roll_pitch_yaw, translation
from excitor.robots.information import Noise
from excitor.robots.lint import reach, suspicions
from excitor.robots.load import catalog_names, part_notes, read_content
from excitor.robots.parameters import layout
from excitor.robots.robot import Limits, Motion, Payload, Robot, posture
from excitor.robots.tree import Tree

if TYPE_CHECKING:
    from excitor.identify.load.equations import Arm

_KEYS = {  # of the campaign, by what an excitation calls them
    "period": "design.base_frequency_hz",
    "sample_time": "design.controller_sample_s",
    "ramp": "design.ramp_s",
    "settle": "design.settle_s",
    "hold": "design.hold_s",
    "harmonic": "design.harmonics",
    "no joint": "design.joints",
}


class Problems(list[str]):
    """What is wrong with a campaign: sentences, each with its key path."""

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Add a block's error as a problem of a key."""
        try:
            yield
        except (ValueError, ExcitorError) as error:
            self.append(f"{path}: {error}")


@dataclass(frozen=True, eq=False, slots=True)
class Setup:
    """A campaign's design problem, before runs are planned."""

    campaign: OpenCampaign
    robot: Robot  # with the payload that the campaign states
    design: Design
    excitation: Excitation  # of a run in which all chosen joints move
    constraints: Constraints
    noise: Noise
    pose: FloatArray  # (n_joints,): where a joint stands that does not move; NaN: the search tells
    learned: bool  # whether the prior model comes from measurements
    remarks: tuple[str, ...]  # what was assumed


def set_up(campaign: OpenCampaign) -> Setup:
    """Build a design problem; InvalidCampaign lists everything that is wrong, each with its key path."""
    problems = Problems()
    remarks: list[str] = []
    content, robot = campaign.content, campaign.robot
    problems += planning_problems(content)
    with problems.at("prior"):
        robot = learned_robot(campaign.folder, content.prior, robot, elsewhere=content.task == "payload")
    with problems.at("payload"):
        robot = loaded(robot, content.payload)
    limits, torque_rms, scene = robot.limits, np.full(robot.n_joints, np.inf), None
    with problems.at("limits"):
        limits, torque_rms = _limits(robot, content.limits, problems)
    home = _home(robot, content.home_deg, limits, problems, remarks)
    with problems.at("cell"):
        scene = scene_of(robot, content.cell, problems)
    others = _others(robot, content.constraint, problems)
    moving = _moving(robot, content.design, problems)
    pose = _pose(robot, content.design, moving, limits, problems)
    excitation = _excitation(content.design, moving, problems)
    noise = _noise(campaign, robot, problems, remarks)
    remarks += [*_remarks(robot, content), *_units(robot, content, scene, problems)]
    if not is_shipped(campaign, robot):
        remarks += _suspicions(robot, problems)
    if campaign.text:
        notes = read_content(campaign.robot_source, content.preset).notes
        remarks += [f"preset: {sentence}" for where, sentence in notes if where == "preset"]
    if problems or excitation is None or noise is None or home is None:
        raise InvalidCampaign(campaign.folder / FILE, problems)
    speed = content.limits.tool_speed_m_s or np.inf
    constraints = Constraints(limits, torque_rms, scene, speed, home, others=tuple(others))
    _check_home(robot, constraints, campaign)
    learned = content.prior is not None
    return Setup(campaign, robot, content.design, excitation, constraints, noise, pose, learned, tuple(remarks))


def _others(robot: Robot, entries: Sequence[campaign.Constraint], problems: Problems) -> list[Constraint]:
    """Build the constraints of registered kinds."""
    found: list[Constraint] = []
    for k, entry in enumerate(entries, start=1):
        path = f"constraint[{k}]"
        if entry.kind not in CONSTRAINTS:
            meant = f"expected one of {choice(entry.kind, CONSTRAINTS)}"
            problems.append(f"{path}.kind: is {entry.kind!r}, {meant}")
            continue
        kind = CONSTRAINTS[entry.kind]
        try:
            item = kind.build(robot, kind.table.model_validate(entry.model_extra))
            names = {row.name for row in item.rows(robot)}
        except ValidationError as error:
            problems += [
                f"{path}.{sentence}" for sentence in sentences(list(error.errors(include_url=False)), kind.table)
            ]
        except (ValueError, ExcitorError) as error:
            problems.append(f"{path}: {error}")
        else:
            twice = names & {row.name for other in found for row in other.rows(robot)}
            if twice:
                problems.append(f"{path}: limits {min(twice)!r} a second time; state one of the two")
            found.append(item)
    return found


BALL_DENSITY = 1000.0  # kg/m³ of a stated payload


def loaded(robot: Robot, payload: campaign.Body | None) -> Robot:
    """Add the stated payload to the tool, instead of the robot file's own."""
    if payload is None:
        return robot
    if robot.tool.link < 0:
        raise ValueError("the tool rides on the base, so no joint carries a payload")
    xx, xy, xz, yy, yz, zz = payload.inertia
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    phi, T = from_center_of_mass(payload.mass, np.array(payload.center), tensor), robot.tool.T_link_frame
    X = frame_change_matrix(T)
    return replace(robot, payload=Payload(robot.tool.link, change_frame(phi, T), X @ _doubt(payload, phi) @ X.T))


def _doubt(payload: campaign.Body, phi: FloatArray) -> FloatArray:
    """Covariance of a stated payload, (10, 10): its share of mass, distance and inertia; all of what is not stated.

    Cov φ = T diag(σ²) Tᵀ, T = ∂φ/∂(m, c, I). A distance is at least the radius of a ball of such a mass.
    """
    from excitor.identify.load.fit import center_slope

    share, mass = payload.percent / 100.0, payload.mass
    radius = float(np.cbrt(3.0 * mass / (4.0 * np.pi * BALL_DENSITY)))
    inertia = share * max(np.abs(payload.inertia)) if any(payload.inertia) else 0.4 * mass * radius**2
    known = share if "center" in payload.model_fields_set else 1.0
    distance = known * max(radius, float(np.linalg.norm(payload.center)))
    sigma = np.array([share * mass, *[distance] * 3, *[inertia] * 6]) * (share > 0.0)
    T = np.linalg.inv(center_slope(phi))
    return np.asarray(T @ np.diag(sigma**2) @ T.T)


def _limits(robot: Robot, given: campaign.Limits, problems: Problems) -> tuple[Limits, FloatArray]:
    """Compute the limits to design with: the robot's own, tightened joint by joint, less the margins."""
    own = robot.limits
    tight = {name: getattr(own, name).copy() for name in ("position", "velocity", "acceleration", "jerk", "torque")}
    tight["torque_rms"] = np.full(robot.n_joints, np.inf)
    common = np.where(
        robot.mechanism.prismatic, given.acceleration_m_s2 or np.inf, np.radians(given.acceleration_deg_s2 or np.inf)
    )
    tight["acceleration"] = np.minimum(tight["acceleration"], common)
    for name, entry in given.joint.items():
        path = f"limits.joint.{name}"
        if name not in robot.joint_names:
            problems.append(f"{path}: {no_joint(robot, name)}")
            continue
        problems += [f"{path}.{problem}" for problem in _tighten(tight, robot, robot.joint_names.index(name), entry)]
    margin = np.where(
        robot.mechanism.prismatic, given.position_margin_deg * 1e-3, np.radians(given.position_margin_deg)
    )
    position = tight["position"] + margin[:, None] * np.array([1.0, -1.0])
    for name, (low, high) in zip(robot.joint_names, position, strict=True):
        if not low < high:
            problems.append(f"limits.position_margin_deg: leaves joint {name} no range")
    share = np.inf if given.torque_rms_percent is None else given.torque_rms_percent / 100.0
    rest = ("velocity", "acceleration", "jerk", "torque")
    limits = Limits(position, *(tight[name] * getattr(given, f"{name}_percent") / 100.0 for name in rest))
    return limits, np.minimum(tight["torque_rms"], share * tight["torque"])


def _tighten(tight: dict[str, FloatArray], robot: Robot, j: int, entry: campaign.JointLimits) -> Iterator[str]:
    """Replace the robot's own limits of joint j by the stated ones; yield invalid values by their keys."""
    sliding = bool(robot.mechanism.prismatic[j])
    wrong = _of_other_unit(entry, sliding)
    if wrong:
        yield f"{wrong[0]}: {robot.joint_names[j]} {'slides' if sliding else 'turns'}; give the other unit"
        return
    interval = entry.position_m if sliding else entry.position_deg
    if interval is not None:
        low, high = np.array(interval) * (1.0 if sliding else np.pi / 180.0)
        least, most = robot.limits.position[j]
        if not low < high:
            yield f"position: goes from {interval[0]:g} to {interval[1]:g}; the lower comes first"
        elif low < least - 1e-9 or high > most + 1e-9:
            yield f"position: {interval} goes beyond the robot's own limits; it may only be tighter"
        tight["position"][j] = low, high
    for quantity, unit in (("velocity", "s"), ("acceleration", "s2"), ("jerk", "s3")):
        stated = getattr(entry, f"{quantity}_m_{unit}" if sliding else f"{quantity}_deg_{unit}")
        if stated is not None:
            value = float(stated if sliding else np.radians(stated))
            if value > tight[quantity][j] * (1.0 + 1e-9):
                yield f"{quantity}: exceeds the robot's own limit; it may only be tighter"
            tight[quantity][j] = value
    if entry.torque is not None:
        if entry.torque > tight["torque"][j] * (1.0 + 1e-9):
            yield f"torque: {entry.torque:g} exceeds the robot's own limit {tight['torque'][j]:g}"
        tight["torque"][j] = entry.torque
    if entry.torque_rms is not None:
        tight["torque_rms"][j] = entry.torque_rms


def _of_other_unit(entry: campaign.JointLimits, sliding: bool) -> list[str]:
    """List the stated keys that are in metres for a joint that turns, in degrees for one that slides."""
    stated = [key for key in type(entry).model_fields if getattr(entry, key) is not None and "torque" not in key]
    return [key for key in stated if (key.endswith("_m") or "_m_" in key) != sliding]


def _home(
    robot: Robot, given: list[float] | None, limits: Limits, problems: Problems, remarks: list[str]
) -> FloatArray | None:
    if given is None:
        zero: FloatArray = np.clip(np.zeros(robot.n_joints), limits.position[:, 0], limits.position[:, 1])
        zero[list(robot.locked)] = list(robot.locked.values())
        remarks.append("home_deg is not given: every joint's zero, or its nearest limit, is taken as the home pose")
        return zero
    if len(given) != robot.n_joints:
        problems.append(f"home_deg: has {len(given)} entries, expected one for each of {robot.n_joints} joints")
        return None
    home = pendant_to_si(robot, np.array(given))
    eighths = np.array(given)[~robot.mechanism.prismatic] / (np.pi / 4.0)
    whole = np.rint(eighths)
    if (np.abs(whole) <= 8.0).all() and ((np.abs(eighths - whole) < 3e-3) & (whole != 0.0)).any():
        degrees = np.where(robot.mechanism.prismatic, given, np.round(np.degrees(given), 2)).tolist()
        problems.append(f"home_deg: is {given}, in radians as it seems; write home_deg = {degrees}")
    allowed = si_to_pendant(robot, limits.position.T)
    for j, name in enumerate(robot.joint_names):
        if not limits.position[j, 0] <= home[j] <= limits.position[j, 1]:
            low, high = allowed[:, j]
            problems.append(
                f"home_deg[{j + 1}]: {given[j]:g} is outside the position limits of {name}, which are {low:g} to "
                f"{high:g} after their margin; move home, or widen them"
            )
        locked = robot.locked.get(j)
        if locked is not None and abs(home[j] - locked) > 1e-6:
            held = si_to_pendant(robot, np.full(robot.n_joints, locked))[j]
            problems.append(f"home_deg[{j + 1}]: {given[j]:g}, but the robot's file locks {name} at {held:g}")
    return home


def pendant_to_si(robot: Robot, values: FloatArray) -> FloatArray:
    """Convert degrees, millimetres for sliding joints, to rad and m."""
    return np.asarray(np.where(robot.mechanism.prismatic, values * 1e-3, np.radians(values)))


def si_to_pendant(robot: Robot, values: FloatArray) -> FloatArray:
    """Convert rad and m to degrees, millimetres for sliding joints."""
    return np.asarray(np.where(robot.mechanism.prismatic, values * 1e3, np.degrees(values)))


def no_joint(robot: Robot, name: str) -> str:
    """Say that a name is of no joint that moves."""
    if name in robot.held:
        return f"is held at {robot.held[name]} by the robot's file, so it is no joint of this campaign's robot"
    listed = f"; its joints are {', '.join(robot.joint_names)}"
    return f"is no joint of {robot.name}{did_you_mean(name, robot.joint_names) or listed}"


def _moving(robot: Robot, design: campaign.Design, problems: Problems) -> BoolArray:
    unknown = [name for name in design.joints if name not in robot.joint_names]
    problems += [f"design.joints: {name!r} {no_joint(robot, name)}" for name in unknown]
    moving = np.array([not design.joints or name in design.joints for name in robot.joint_names])
    for name in design.joints:
        if name in robot.joint_names and robot.joint_names.index(name) in robot.locked:
            problems.append(f"design.joints: {name} is locked in the robot's file")
    moving[list(robot.locked)] = False
    if not moving.any() and not unknown:
        problems.append("design.joints: none is left to move")
    return moving


def _pose(robot: Robot, design: campaign.Design, moving: BoolArray, limits: Limits, problems: Problems) -> FloatArray:
    pose = np.full(robot.n_joints, np.nan)
    pose[list(robot.locked)] = list(robot.locked.values())
    for name, value in design.locked_deg.items():
        path = f"design.locked_deg.{name}"
        if name not in robot.joint_names:
            problems.append(f"{path}: {no_joint(robot, name)}")
            continue
        j = robot.joint_names.index(name)
        if moving[j] and design.joints:
            problems.append(f"{path}: {name} is among design.joints, which move")
        elif moving[j] and design.schedule != "locked-sequence" and design.excitation != "torque":
            problems.append(f"{path}: {name} moves in every run; list in design.joints those that do, or remove this")
        pose[j] = value * (1e-3 if robot.mechanism.prismatic[j] else np.pi / 180.0)
        if not limits.position[j, 0] <= pose[j] <= limits.position[j, 1]:
            problems.append(f"{path}: {value:g} is outside the position limits of {name} after their margin")
    return pose


def _excitation(design: campaign.Design, moving: BoolArray, problems: Problems) -> Excitation | None:
    if design.excitation == "torque":  # no Fourier run will be made: only which joints move matters
        step = design.controller_sample_s
        return Excitation(20.0 * step, step, (1,), moving) if moving.any() else None
    harmonics = _harmonics(design, problems)
    step = design.controller_sample_s
    period = 1.0 / design.base_frequency_hz
    whole = round(period / step)
    if abs(period / step - whole) < 1e-6 * whole:
        period = whole * step
    if not harmonics or not moving.any():
        return None
    times = {key: getattr(design, f"{key}_s") for key in ("ramp", "settle", "hold")}
    periods = {key: getattr(design, f"{key}_periods") for key in ("warm_up", "measured")}
    try:
        return Excitation(period, step, harmonics, moving, **times, **periods)
    except ValueError as error:
        sentence = str(error)
        key = next((key for word, key in _KEYS.items() if sentence.startswith(word)), "design")
        if key == "design.base_frequency_hz" and whole:
            sentence += f"; base_frequency_hz = {1.0 / (whole * step):.10g} has one"
        problems.append(f"{key}: {sentence}")
        return None


def _harmonics(design: campaign.Design, problems: Problems) -> tuple[int, ...]:
    given = design.harmonics
    harmonics = tuple(given) if isinstance(given, list) else tuple(range(1, given + 1))
    if not harmonics:
        problems.append("design.harmonics: is empty; give at least one")
    if design.max_frequency_hz is None:
        return harmonics
    kept = tuple(k for k in harmonics if k * design.base_frequency_hz <= design.max_frequency_hz * (1.0 + 1e-9))
    if isinstance(given, list) and kept != harmonics:
        problems.append(
            f"design.harmonics: {max(harmonics)} times {design.base_frequency_hz:g} Hz is above max_frequency_hz = "
            f"{design.max_frequency_hz:g}"
        )
    if harmonics and not kept:
        problems.append(
            f"design.max_frequency_hz: {design.max_frequency_hz:g} is below the base frequency "
            f"{design.base_frequency_hz:g}; no harmonic is left"
        )
    return kept


def _noise(campaign: OpenCampaign, robot: Robot, problems: Problems, remarks: list[str]) -> Noise | None:
    given = campaign.content.noise
    if given.model is not None:
        try:
            return noise_of_model(campaign.folder, given, robot)
        except (ValueError, ExcitorError) as error:
            problems.append(f"noise.model: {error}")
            return None
    if given.torque is None:
        noise = assumed_noise(robot, given.rate_hz, given.inflation)
        remarks.append(f"noise.torque is not given: {noise.source}")
        return noise
    if len(given.torque) != robot.n_joints:
        problems.append(
            f"noise.torque: has {len(given.torque)} entries, expected one for each of {robot.n_joints} joints"
        )
        return None
    return Noise(np.array(given.torque), given.rate_hz, given.inflation, source="typed in campaign.toml")


def _check_home(robot: Robot, constraints: Constraints, campaign: OpenCampaign) -> None:
    """Refuse a home pose that breaks the cell: no run could start from it."""
    problems = _home_torques(robot, constraints)
    if problems:
        raise InvalidCampaign(campaign.folder / FILE, problems)
    if constraints.home is None:
        return
    tries = np.vstack([constraints.home, random_motion(robot, 200).q])
    rows, deficits = constraints.pose_deficits(robot, tries)
    kinds = {zone.name: zone.shape.kind for zone in (constraints.scene or Scene()).zones}
    worst: dict[str, tuple[float, str, float, int]] = {}  # of a zone or pair: m, sentence, lacking in all poses, rows
    for row, lacks, least in zip(rows, deficits[0], np.nanmin(deficits, axis=0), strict=True):
        have = row.limit + row.side * lacks
        if lacks > 0.0 and row.kind == "clearance":
            of = next((name for name in kinds if row.label.startswith(f"{name} / ")), row.label)
            told = f"{row.label} has {1e3 * have:.0f} mm of clearance, expected {1e3 * row.limit:.0f}"
            *found, stuck, n = worst.get(of, (np.inf, "", -np.inf, 0))
            worst[of] = (*min(found, [have, told]), max(stuck, float(least)), n + 1)
        elif lacks > 0.0:
            problems.append(
                f"home_deg: at home, {row.label} is {have:.4g} {row.unit}, expected at "
                f"{'least' if row.lower else 'most'} {row.limit:.4g}; move the home pose, or relax the constraint"
            )
    for of, (_, told, stuck, n) in worst.items():
        remedy = "zone, no pose is clear of it" if stuck > 0.0 and of in kinds else "home pose or the zone"
        if stuck > 0.1 and kinds.get(of) == "half-space":
            remedy = "zone, or turn its normal, which points out of what it fills"
        bodies = f" (the worst of {n} bodies)" if n > 1 else ""
        problems.append(f"home_deg: at home, {told}{bodies}; move the {remedy}")
    if problems:
        problems += _clear_home(robot, constraints, constraints.home) if isinstance(robot.mechanism, Tree) else ()
        raise InvalidCampaign(campaign.folder / FILE, problems)


def _clear_home(robot: Robot, constraints: Constraints, home: FloatArray) -> Iterator[str]:
    """Find the nearest of random poses in whole degrees at which a run could wait, as the line to write."""
    low, high = constraints.limits.position.T
    tries = home + np.repeat([0.1, 0.3, 1.0], 300)[:, None] * (random_motion(robot, 900).q - home)
    tries = np.array(pendant_to_si(robot, np.round(si_to_pendant(robot, tries))))
    tries[:, list(robot.locked)] = home[list(robot.locked)]
    _, deficits = constraints.pose_deficits(robot, tries)
    fits = ((deficits <= 0.0).all(axis=1)) & ((low <= tries) & (tries <= high)).all(axis=1)
    nearest = tries[fits][np.argsort(np.abs(tries[fits] - home).sum(axis=1))]
    clear = [q for q in nearest[:20] if not _home_torques(robot, replace(constraints, home=q))]
    if clear:
        yield f"home_deg: a pose near it that is clear: home_deg = {np.round(si_to_pendant(robot, clear[0])).tolist()}"


def _home_torques(robot: Robot, constraints: Constraints) -> list[str]:
    """Find joints that cannot even hold the home pose within their torque limits."""
    if constraints.home is None or not has_torque_model(robot):
        return []
    held = np.abs(rigid_torque(robot, posture(constraints.home[None])))[0]
    return [
        f"home_deg: at home, {name} takes {have:.3g} N m to hold, its limit is {most:.3g} after torque_percent; move "
        "the home pose, or carry less"
        for name, have, most in zip(robot.joint_names, held, constraints.limits.torque, strict=True)
        if have > most
    ]


def scene_of(robot: Robot, cell: campaign.Cell, problems: Problems) -> Scene | None:
    """Build the scene of a cell; None where nothing is to be kept clear."""
    names = [zone.name for zone in cell.zone]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"cell.zone: the name {name!r} is used more than once")
    zones = []
    for k, entry in enumerate(cell.zone, start=1):
        try:
            clearance = cell.clearance_m if entry.clearance_m is None else entry.clearance_m
            zones.append(Zone(entry.name, _shape(entry), entry.keep, entry.bodies, clearance))
        except ValueError as error:
            problems.append(f"cell.zone[{k}]: {error}")
    if problems or not (zones or (cell.self_collision and robot.capsules)):
        return None
    scene = Scene(tuple(zones), cell.self_collision, cell.clearance_m, cell.tool_radius_m)
    scene_rows(robot, scene)  # raises if it does not fit the robot
    return scene


def moving_links_without_volume(robot: Robot, moving: BoolArray) -> tuple[int, ...]:
    """Find the links that have no capsule and that one of the `moving` joints (n_joints,) carries: their indices."""
    covered = {capsule.link for capsule in robot.capsules}
    jacobians = robot.mechanism.jacobians(random_motion(robot, 20).q)[..., moving]
    speeds = np.abs(jacobians).max(axis=(0, 2, 3), initial=0.0)
    return tuple(int(j) for j in np.flatnonzero(speeds > 1e-9) if j not in covered)


def is_bodiless(robot: Robot, link: int) -> bool:
    """Check whether the robot file states that a link is only a frame between axes.

    Its mass and inertia are stated as 0, the joints that it carries turn about axes through its own, and neither the
    tool nor a payload is mounted on it. A link of unknown mass has a body.
    """
    tree, own = robot.mechanism, slice(10 * link, 10 * link + 10)
    if not isinstance(tree, Tree) or not robot.known[own].all() or robot.chi[own].any():
        return False
    if robot.tool.link == link or (robot.payload is not None and robot.payload.link == link):
        return False
    carried = np.flatnonzero(tree.parents == link)
    lengths = np.linalg.norm([tree.after[link, :3, 3], *tree.before[carried, :3, 3]], axis=1)
    return bool(lengths.max() < 1e-9 and not tree.sliding[carried].any())


def _shape(entry: campaign.Zone) -> Shape:
    if entry.shape == "box":
        if entry.low is not None and entry.high is not None:
            low, high = np.array(entry.low), np.array(entry.high)
            return Shape("box", translation(*(0.5 * (low + high))), 0.5 * (high - low))
        assert entry.center is not None
        assert entry.size is not None
        turn = roll_pitch_yaw(*np.radians(entry.rpy_deg or [0.0, 0.0, 0.0]))
        return Shape("box", translation(*entry.center) @ turn, 0.5 * np.array(entry.size))
    if entry.shape == "half-space":
        assert entry.point is not None
        assert entry.normal is not None
        return Shape("half-space", translation(*entry.point) @ _upright(np.array(entry.normal)))
    assert entry.center is not None
    assert entry.radius is not None
    if entry.shape == "sphere":
        return Shape("sphere", translation(*entry.center), np.array([entry.radius, 0.0, 0.0]))
    assert entry.height is not None
    turn = _upright(np.array(entry.axis or [0.0, 0.0, 1.0]))
    return Shape("cylinder", translation(*entry.center) @ turn, np.array([entry.radius, 0.5 * entry.height, 0.0]))


def _upright(direction: FloatArray) -> FloatArray:
    """Compute a rotation of the z axis to a direction."""
    z = direction / np.linalg.norm(direction)
    aside = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(aside, z)
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.column_stack([x, np.cross(z, x), z])
    return T


_FAR, _IN_MM = 3.0, 15.0  # reaches, m: a zone that is farther does nothing, or is in mm
_LENGTHS = ("low", "high", "center", "size", "radius", "height", "point")
_PLAUSIBLE = {  # plausible, and the unit that was probably meant
    "limits.tool_speed_m_s": (30.0, "mm/s"),
    "cell.clearance_m": (3.0, "mm"),
    "cell.tool_radius_m": (3.0, "mm"),
    "design.controller_sample_s": (0.5, "ms"),
}


def _units(robot: Robot, content: campaign.Campaign, scene: Scene | None, problems: Problems) -> Iterator[str]:
    """Refuse what is surely in another unit, with the line to write; yield what is only odd."""
    for path, (most, unit) in _PLAUSIBLE.items():
        table, key = path.split(".")
        value = getattr(getattr(content, table), key)
        if value is not None and value > most:
            problems.append(f"{path}: is {value:g}; if that is in {unit}, write {key} = {1e-3 * value:g}")
    for key, value in content.limits:
        if key.endswith("_percent") and value is not None and value <= 1.0:
            yield f"limits.{key}: is {value:g} %; if that is a share, write {key} = {100.0 * value:g}"
    if scene is None or not scene.zones:
        return
    middle, length = reach(robot)
    length += float(np.linalg.norm(robot.tool.T_link_frame[:3, 3]))
    for k, (zone, entry) in enumerate(zip(scene.zones, content.cell.zone, strict=False), start=1):
        gap = distance(zone.shape, middle) * (1.0 if zone.keep == "out" else -1.0)
        sentence = f"cell.zone[{k}]: {zone.name!r} begins {gap:.3g} m from the robot, which reaches {length:.3g} m"
        if gap > max(_FAR * length, _IN_MM):
            stated = [(key, value) for key, value in entry if key in _LENGTHS and value is not None]
            lines = ", ".join(f"{key} = {np.round(np.divide(value, 1e3), 6).tolist()}" for key, value in stated)
            problems.append(f"{sentence}; if that is in mm, write {lines}")
        elif gap > _FAR * length:
            yield f"{sentence}, so that it keeps nothing; check that it is in m"


def is_shipped(campaign: OpenCampaign, robot: Robot) -> bool:
    """Return True for a robot of the catalogue as it is there: its figures were checked when it was added."""
    stated = campaign.text and campaign.robot_source in catalog_names() and campaign.content.preset is None
    return bool(stated) and robot is campaign.robot


def _suspicions(robot: Robot, problems: Problems) -> Iterator[str]:
    for odd in suspicions(robot):
        if odd.level == "error" and odd.where == "payload":
            problems.append(f"payload: {odd.sentence}")
        elif odd.level == "warning":
            yield f"{odd.where}: {odd.sentence}"


def _remarks(robot: Robot, content: campaign.Campaign) -> Iterator[str]:
    """List what the plan rests on although it is not known, or suits its purpose badly."""
    yield from (f"{where}: {sentence}" for where, sentence in part_notes(robot))
    if not has_torque_model(robot) and content.design.schedule != "gentle-first":
        yield (
            "the masses of some links are unknown, so torques and their limits are not checked; "
            'schedule = "gentle-first" begins slowly and learns them'
        )
    unknown = [name for name, lacks in zip(robot.joint_names, unknown_friction(robot), strict=True) if lacks]
    if unknown:
        yield (
            f"the friction of {', '.join(unknown)} is unknown and counts as 0 in torques and their limits; state it "
            "under [parameters] of the robot's file, or design again with prior = a model.json"
        )
    if content.design.schedule == "locked-sequence" and content.design.criterion == "condition":
        yield (
            "a locked sequence designed for its condition number is less informative for a power model than one for "
            'deviations: criterion = "a" or "path", with model = "power"'
        )


ASSUMED_SHARE = 0.02  # of a joint's torque limit, or of the torque it takes where none is stated
_LARGEST_INFLATION = 1e3


def assumed_noise(robot: Robot, rate_hz: float, inflation: float) -> Noise:
    """Return assumed noise, a share of each joint's torque limit or rms torque, which the forecast names as assumed."""
    tau = inverse_dynamics(robot, random_motion(robot, 200))
    taken = np.sqrt(np.mean(tau**2, axis=0))
    size = np.where(np.isfinite(robot.limits.torque), robot.limits.torque, taken)
    sigma = ASSUMED_SHARE * np.where(size > 0.0, size, 1.0)
    sentence = f"assumed: {100 * ASSUMED_SHARE:g} % of each joint's torque limit"
    return Noise(sigma, rate_hz, inflation, source=sentence)


def noise_of_model(folder: Path, given: campaign.Noise, robot: Robot) -> Noise:
    """Compute the noise from an earlier model's residuals, and the inflation of its intervals over white ones."""
    assert given.model is not None
    if not inside(folder, given.model):
        raise ValueError(f"{given.model!r} leaves the folder of the campaign{ALLOW}")
    model = read_model(folder / given.model, robot)
    model.check_in_kg()
    sigma = _residuals(model, robot)
    if not np.isfinite([model.sigma, model.sigma_white]).all():
        raise ExcitorError(f"{given.model}: a parameter lacks sigma or sigma_white; is it damaged?")
    sure = model.sigma_white > 0.0
    ratios = model.sigma[sure] / model.sigma_white[sure]  # of intervals to those for white noise
    learned = max(1.0, float(np.median(ratios))) if len(ratios) else 1.0
    if learned > _LARGEST_INFLATION:
        raise ExcitorError(
            f"{given.model}: its intervals are {learned:.3g} times wider than white ones; is it damaged?"
        )
    inflation = max(learned, given.inflation)
    source = f"learned from {given.model}, inflation {inflation:.2g}; {given.rate_hz:g} rows a second as stated"
    return Noise(sigma, given.rate_hz, inflation, source=source)


def learned_robot(folder: Path, name: str | None, robot: Robot, *, elsewhere: bool = False) -> Robot:
    """Replace a robot's prior by an earlier model's physically consistent parameters.

    `elsewhere`: the model may be in another campaign's folder, such as the arm's.
    """
    if name is None:
        return robot
    if not elsewhere and not inside(folder, name):
        raise ValueError(f"{name!r} leaves the folder of the campaign{ALLOW}")
    model = read_model(folder / name, robot)
    model.check_in_kg()
    standard = model.standard
    if standard is None:
        raise ExcitorError(f"{name} has no physically consistent parameters, which a prior must have")
    robot = robot if elsewhere else model.own_robot()  # a load's campaign estimates friction anew
    params = layout(robot)
    if not set(params.names[: params.n_link_params]) <= set(standard.names):
        raise ExcitorError(f"{name} is of another robot: it lacks parameters of {robot.name}")
    chi, known = robot.chi.copy(), robot.known.copy()
    own = [k for k, name in enumerate(standard.names) if name in params.names]
    columns = params.indices([standard.names[k] for k in own])
    chi[columns], known[columns] = standard.values[own], True
    return replace(robot, chi=chi, known=known)


def _residuals(model: Model, robot: Robot) -> FloatArray:
    """Return each joint's residual standard deviation, the largest over the runs, (n_joints,)."""
    sigma = np.zeros(robot.n_joints)
    for weight in model.weights:
        if weight.joint not in robot.joint_names:
            raise ExcitorError(f"the model is of another robot: {weight.joint!r} is no joint of {robot.name}")
        j = robot.joint_names.index(weight.joint)
        sigma[j] = max(sigma[j], weight.sigma)
    missing = [name for name, value in zip(robot.joint_names, sigma, strict=True) if value == 0.0]
    if missing:
        raise ExcitorError(f"the model has no sigma of {', '.join(missing)}")
    return sigma


_LARGEST_FILE = 200_000_000
_FEWEST = 10
_MOST = 2000  # samples of the criterion


def task_motion(setup: Setup) -> Motion:
    """Read the task motion: a header `t` (s) and the joints' names (degrees, mm), at least ten evenly spaced rows."""
    name = setup.design.task
    assert name is not None
    folder = setup.campaign.folder
    try:
        if not inside(folder, name):
            raise ExcitorError(f"leaves the folder of the campaign{ALLOW}")
        return _read(setup, name)
    except (OSError, ValueError, ExcitorError) as error:
        sentence = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidCampaign(folder / FILE, [f"design.task: {name!r} {sentence}"]) from None


def _read(setup: Setup, name: str) -> Motion:
    from excitor.identify.signals import differentiate

    path = setup.campaign.folder / name
    rows = list(csv.reader(io.StringIO(read_bounded(path, _LARGEST_FILE).decode("utf-8-sig"))))
    wanted = ["t", *setup.robot.joint_names]
    if not rows or [cell.strip() for cell in rows[0]] != wanted:
        raise ExcitorError(f"has no header {', '.join(wanted)}")
    values = np.empty((len(rows) - 1, len(wanted)))
    for k, row in enumerate(rows[1:]):
        try:
            values[k] = [float(cell) for cell in row]
        except ValueError:
            raise ExcitorError(f"row {k + 2}: {','.join(row)[:60]!r} are not {len(wanted)} numbers") from None
    if len(values) < _FEWEST or not np.isfinite(values).all():
        raise ExcitorError(f"has {len(values)} rows, expected at least {_FEWEST}, all finite")
    steps = np.diff(values[:, 0])
    if not steps[0] > 0.0 or np.abs(steps - steps.mean()).max() > 0.01 * steps.mean():
        raise ExcitorError("has uneven times; sample it evenly")
    q = pendant_to_si(setup.robot, values[:, 1:])
    dq = differentiate(q, sample_rate_hz=float(1.0 / steps.mean()))
    ddq = differentiate(dq, sample_rate_hz=float(1.0 / steps.mean()))
    return Motion(q, dq, ddq)[2 : -2 : max(1, len(q) // _MOST)]


DEFAULT_EVALUATIONS = 20_000
DEFAULT_SIMULATIONS = 1_000  # of a torque run, each of whose candidates is simulated


@dataclass(frozen=True, slots=True)
class Settings:
    """Seed, budget of each run, method, whether an unfinished search is forgotten, and who works."""

    seed: int
    budget: Budget
    method: Method
    fresh: bool = False
    pick: int | None = None  # which motion of a front, or of a search's family
    searches: Mapping[str, SearchResult] = field(default_factory=dict)  # finished ones, by their keys
    executor: Executor = field(default_factory=Executor)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Settings that override the campaign's, as on the command line; None: as in the campaign."""

    seed: int | None = None
    evaluations: int | None = None
    seconds: float | None = None
    workers: int = 1
    fresh: bool = False
    pick: int | None = None
    cluster: Any = None  # a scheduler's address or a dask client


def settings_of(design: Design, given: Overrides | None = None) -> Settings:
    """Return the campaign's settings, with overrides applied."""
    given = given or Overrides()
    evaluations, seconds = design.evaluations, design.seconds
    if given.evaluations is not None or given.seconds is not None:
        evaluations, seconds = given.evaluations, given.seconds
    if evaluations is None and seconds is None:
        evaluations = DEFAULT_SIMULATIONS if design.excitation == "torque" else DEFAULT_EVALUATIONS
    seed = design.seed if given.seed is None else given.seed
    return Settings(seed, Budget(evaluations, seconds), design.method, given.fresh, given.pick)


def known_arm(campaign: OpenCampaign) -> "tuple[Arm, str]":
    """Return the campaign's prior arm, or the robot file's values with the stated uncertainty; and its source."""
    from excitor.identify.load.equations import exact_arm

    content, robot = campaign.content, campaign.robot
    if content.prior is not None:
        try:
            return arm_of_model(campaign.folder, content.prior, robot), f"the arm as {content.prior} has it"
        except (ValueError, ExcitorError) as error:
            raise ExcitorError(f"prior: {content.prior}: {error}") from None
    links, rotors = content.arm.links_percent, content.arm.rotors_percent
    if links == rotors == 0.0:
        return exact_arm(robot), f"the arm as the file of {robot.name} has it, assumed exact"
    source = f"the arm as the file of {robot.name} has it, links uncertain by {links:g} %, rotors by {rotors:g} %"
    return doubted_arm(robot, links / 100.0, rotors / 100.0), source


def arm_of_model(folder: Path, name: str, robot: Robot) -> "Arm":
    """Read base parameters and their covariance from a model.json; regrouped ones are split as in the design.

    Torques are those of the base parameters; the split separates links, whose torque suffers gear losses, from rotors.
    """
    from excitor.identify.load.equations import Arm

    model = read_model(folder / name, robot)
    base, params = base_parameters(robot), layout(robot)
    lacking = {term.parameter for term in model.own_robot().drive.friction} - {*params.names}  # of a chosen form
    known = np.array([name not in lacking for name in model.names])
    names, beta, C = np.array(model.names)[known].tolist(), model.values[known], _covariance(model)[known][:, known]
    if model.laws is not None:  # they are the load's drives, too
        root = (np.array(model.laws["slopes"]) * model.laws["sigma"])[known]
        C = C - root @ root.T
    place = {own.removesuffix("R"): k for k, own in enumerate(base.names)}
    place |= {params.names[column]: k for k, column in enumerate(base.kept)}
    strange = [name for name in names if name.removesuffix("R") not in place]
    if strange:
        raise ValueError(
            f"{', '.join(strange[:5])} is no base parameter of {robot.name}; the arm must have been identified with "
            "this very robot file"
        )
    rows = [place[name.removesuffix("R")] for name in names]
    if len(set(rows)) < len(rows):
        raise ValueError("names a base parameter twice")
    split = robot.chi if model.standard is None else learned_robot(folder, name, robot, elsewhere=True).chi
    target = np.zeros(len(base.names))
    target[rows] = beta
    chi = np.array(split, dtype=float)
    chi[base.kept] += target - base.values(chi)
    full = np.zeros((len(params), len(params)))
    columns = np.asarray(base.kept)[rows]
    full[np.ix_(columns, columns)] = C
    return Arm(chi, full, own_drives=True)


def doubted_arm(robot: Robot, links: float, rotors: float) -> "Arm":
    """Build an arm whose σ are shares of masses, centres, inertias about them, and rotors; friction is free anyway.

    Cov φ = T diag(share · value)² Tᵀ, T = ∂φ/∂(m, c, I).
    """
    from excitor.identify.load.equations import Arm
    from excitor.identify.load.fit import center_slope, center_values

    params = layout(robot)
    C = np.zeros((len(params), len(params)))
    for j in range(params.n_links):
        columns = params.link(j)
        phi = robot.chi[columns]
        if phi[9] == 0.0:
            spread = np.diag((links * phi) ** 2)
        else:
            T = np.linalg.inv(center_slope(phi))
            spread = T @ np.diag((links * center_values(phi)) ** 2) @ T.T
        C[columns, columns] = spread
    for column in set(params.rotor_columns):
        C[column, column] = (rotors * robot.chi[column]) ** 2
    return Arm(robot.chi, C)


def _covariance(model: Model) -> FloatArray:
    """Return the covariance of the base parameters; ValueError if it is not symmetric and positive semidefinite."""
    C = model.known_covariance()
    scale = np.sqrt(np.maximum(np.diag(C), 0.0))
    unit = C / np.outer(*(np.where(scale > 0.0, scale, 1.0),) * 2)
    if np.abs(unit - unit.T).max(initial=0.0) > 1e-6 or np.linalg.eigvalsh(unit).min(initial=0.0) < -1e-6:
        raise ValueError("has an invalid covariance: not symmetric, or with a negative variance")
    return C
