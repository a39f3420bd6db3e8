"""What of a drive train can MuJoCo say? Damping, friction loss and armature of joints, and of tendons where coupled."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.inertia import about_center_of_mass
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Robot, RotorInertia

ATTRIBUTES = ("damping", "frictionloss", "armature")
_KINDS = {"viscous": "damping", "coulomb": "frictionloss"}


@dataclass(frozen=True, slots=True)
class Drive:
    """Attributes of joints, of tendons over several joints, and what neither can say."""

    joints: Mapping[str, dict[str, float]]
    tendons: Mapping[tuple[float, ...], dict[str, float]]  # by their coefficients, one a joint
    left_out: tuple[str, ...]


@dataclass(slots=True)
class _Sum:
    joints: dict[str, dict[str, float]] = field(default_factory=dict)
    tendons: dict[tuple[float, ...], dict[str, float]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def drive_of(robot: Robot, chi: FloatArray) -> Drive:
    """Collect what the drive train adds to the bodies; elements that do not balance power cannot be said."""
    params = layout(robot)
    rotors, friction = robot.drive.rotors, robot.drive.friction
    total = _Sum({name: dict.fromkeys(ATTRIBUTES, 0.0) for name in robot.joint_names})
    for rotor, column in zip(rotors, params.rotor_columns, strict=True):
        _add(robot, total, rotor, "armature", float(chi[column]))
    for term, column in zip(friction, params.friction_columns, strict=True):
        kind = _KINDS.get(term.model)
        if chi[column] == 0.0:
            continue
        if kind is None:
            total.left_out.append(f"{term.parameter} ({term.model} friction, {chi[column]:.4g})")
        else:
            _add(robot, total, term, kind, float(chi[column]))
    return Drive(total.joints, total.tendons, tuple(total.left_out))


def _add(robot: Robot, total: _Sum, element: RotorInertia | FrictionTerm, kind: str, value: float) -> None:
    senses = element.senses
    if value < 0.0 or not np.allclose(senses, element.acts, rtol=1e-9, atol=0.0):
        why = "is below 0" if value < 0.0 else "does not act where it senses"
        total.left_out.append(f"{element.parameter} ({value:.4g} {why})")
        return
    moved = np.flatnonzero(senses)
    power = 1 if kind == "frictionloss" else 2  # dissipation F |s dq|, energy I (s dq)²/2, damping F (s dq)²
    if len(moved) == 1:
        own = total.joints[robot.joint_names[int(moved[0])]]
        own[kind] += value * abs(float(senses[moved[0]])) ** power
        return
    key = tuple(float(x) for x in senses)
    flipped = tuple(-x for x in key)
    key = flipped if flipped in total.tendons else key
    total.tendons.setdefault(key, dict.fromkeys(ATTRIBUTES, 0.0))[kind] += value


def joint_attributes(values: Mapping[str, float]) -> dict[str, str]:
    """Spell the attributes of a joint or tendon."""
    return {name: repr(float(values[name])) for name in ATTRIBUTES}


def inertial(phi: FloatArray) -> str:
    """Spell an inertial in its body's frame: fullinertia is xx yy zz xy xz yz about the centre of mass."""
    mass, center, inertia = about_center_of_mass(phi)
    pos = " ".join(repr(float(x)) for x in center)
    order = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    full = " ".join(repr(float(inertia[a, b])) for a, b in order)
    return f'<inertial pos="{pos}" mass="{mass!r}" fullinertia="{full}"/>'


def tendon_lines(robot: Robot, drive: Drive, joints: Mapping[str, str]) -> Iterator[str]:
    """Write fixed tendons that carry what several joints share; `joints` gives the names in the file."""
    for k, (coefficients, values) in enumerate(drive.tendons.items(), start=1):
        told = " ".join(f'{name}="{value}"' for name, value in joint_attributes(values).items())
        yield f'    <fixed name="coupled_drive_{k}" {told}>'
        for name, coefficient in zip(robot.joint_names, coefficients, strict=True):
            if coefficient:
                yield f'      <joint joint={quoted(joints[name])} coef="{coefficient!r}"/>'
        yield "    </fixed>"


def quoted(text: str) -> str:
    """Quote an attribute's value."""
    from xml.sax.saxutils import quoteattr

    return quoteattr("".join(c if c.isprintable() else " " for c in text))
