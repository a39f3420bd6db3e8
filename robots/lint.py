"""What looks wrong with a robot that could be built: findings in sentences, none of them fatal by itself."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.base import TOLERANCE, base_parameters, declared_transform, observation, random_motion
from excitor.robots.dynamics import frame_pose, mass_matrix
from excitor.robots.errors import RankDeficient
from excitor.robots.inertia import Consistency, check_consistency
from excitor.robots.lint_loops import closed_workspace, slender_rods
from excitor.robots.lint_numbers import (
    axes_nearly_special,
    ranges,
    reach_of_links,
    sizes,
    speeds,
    stated_limits,
)
from excitor.robots.parameters import layout
from excitor.robots.robot import ControllerAxes, FrictionTerm, Robot, RotorInertia

Level = Literal["error", "warning", "note"]
_LEVELS: tuple[Level, ...] = ("error", "warning", "note")
_POSITION_ERROR = 1e-3  # m; an operator reads tenths of a millimetre, and a data sheet gives millimetres
_FAINT = 1e-4  # columns of the regressor of real robots are within a factor 30 of each other
_NEVER_NEGATIVE = ("viscous", "coulomb", "sqrt", "load", "maxwell-slip")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at: what it is, its value, what was expected, and what to do."""

    level: Level
    where: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.sentence}"


def lint(robot: Robot, notes: Iterable[tuple[str, str]] = ()) -> tuple[Finding, ...]:
    """Look for what is wrong or odd with a robot; errors first, then warnings, then notes.

    `notes` are what reading its file changed or left out: (where, sentence).
    """
    found = [finding for check in _CHECKS for finding in check(robot)]
    found += [Finding("note", where, sentence) for where, sentence in notes]
    return tuple(sorted(found, key=lambda finding: _LEVELS.index(finding.level)))


def _inertias(robot: Robot) -> Iterator[Finding]:
    """Find links that no body could be, or that look it."""
    params = layout(robot)
    reach = reach_of_links(robot)
    unknown, partly = [], []
    for j, name in enumerate(robot.mechanism.link_names):
        columns = params.link(j)
        phi, known = robot.chi[columns], robot.known[columns]
        if known.all():
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
        yield Finding(
            level, where, f"weighs {phi[9]:g} kg, expected more than 0; correct it, or leave it out if unknown"
        )


def _body(phi: FloatArray, where: str, reach: float) -> Iterator[Finding]:
    yield from _known_mass(phi, True, where)
    if phi[9] <= 0.0:
        return
    consistency = check_consistency(phi)
    center = phi[6:9] / phi[9]
    moments = consistency.principal_moments
    rounding = 1e-9 * (float(np.abs(moments).sum()) + phi[9] * float(center @ center))
    yield from _principal_moments(consistency, rounding, where)
    told = f"centre of mass is at {_list(center)} m"
    if np.linalg.norm(center) > 3.0:
        yield Finding("warning", where, f"{told}, more than 3 m from the joint; check that it is in metres, not mm")
    elif reach > 0.0 and np.linalg.norm(center) > 1.5 * reach + 0.1:
        yield Finding(
            "warning",
            where,
            f"{told}, far outside the link, which reaches {reach:.3g} m; check its frame and its signs",
        )
    gyration = float(np.sqrt(np.abs(moments).max() / phi[9]))
    if gyration > (max(2.0 * reach, 0.3) if reach > 0.0 else 1.0):
        sentence = (
            f"inertia of {np.abs(moments).max():.3g} kg m² at {phi[9]:.3g} kg is that of mass {gyration:.3g} m away, "
            f"but the link reaches {reach:.3g} m; check that it is about the centre of mass, in kg m², not kg mm²"
        )
        yield Finding("warning", where, sentence)
    if phi[9] > 3000.0:
        yield Finding("warning", where, f"weighs {phi[9]:g} kg; check that the mass is in kg, not g")


def _principal_moments(consistency: Consistency, rounding: float, where: str) -> Iterator[Finding]:
    moments = consistency.principal_moments
    told = f"principal moments about the centre of mass are {_list(moments)} kg m²"
    if moments[0] < -rounding:
        sentence = f"{told}, expected none below 0; check that the inertia is given about the centre of mass"
        yield Finding("error", where, sentence)
    elif consistency.triangle_margin < -rounding:
        sentence = (
            f"{told}: the largest exceeds the sum of the others by {-consistency.triangle_margin:.3g}, so no body has "
            "them (triangle inequality); check signs, the axes, and the point that the inertia is about"
        )
        yield Finding("error", where, sentence)
    elif moments[2] <= rounding:
        sentence = "has a mass but no inertia about its centre of mass: a point; give its inertia if it matters"
        yield Finding("note", where, sentence)


def _payload(robot: Robot) -> Iterator[Finding]:
    """Find a payload that no body could be."""
    if robot.payload is not None:
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
    """Find drives whose power does not balance, and negative numbers that cannot be."""
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
        never = isinstance(element, RotorInertia) or element.model in _NEVER_NEGATIVE
        if never and robot.known[column] and robot.chi[column] < 0.0:
            sentence = f"is {robot.chi[column]:g}, expected 0 or more; check its sign, and which way its motor turns"
            yield Finding("error", where, sentence)


def _controllers(robot: Robot) -> Iterator[Finding]:
    """Compare where the tool is with where each controller says it is."""
    for name, controller in robot.controllers.items():
        where = f"controller {name!r}"
        size = np.abs(controller.matrix)
        if not (
            np.isin(size, (0.0, 1.0)).all() and (size.sum(axis=0) == 1.0).all() and (size.sum(axis=1) == 1.0).all()
        ):
            sentence = (
                "couples joints, or scales them: its matrix is more than signs and an order; check it on the robot"
            )
            yield Finding("note", where, sentence)
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
    """Find out whether the rank is clear, and whether the declared base set spans it."""
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


def _numbers(robot: Robot) -> Iterator[Finding]:
    """Look at limits, units and angles."""
    for check in (stated_limits, ranges, speeds, sizes, axes_nearly_special, closed_workspace, slender_rods):
        for level, where, sentence in check(robot):
            yield Finding(level, where, sentence)


_CHECKS: tuple[Callable[[Robot], Iterator[Finding]], ...] = (
    _inertias,
    _payload,
    _accelerations,
    _drive,
    _controllers,
    _identifiability,
    _numbers,
)


def _list(values: FloatArray) -> str:
    return f"[{', '.join(f'{value:.4g}' for value in values)}]"


def _combination(row: FloatArray, robot: Robot) -> str:
    terms = [f"{share:g} {name}" for share, name in zip(row, robot.joint_names, strict=True) if share != 0.0]
    return " + ".join(terms)
