"""Rotors and friction in plain Python, for any kind of number: what `kernel.drive` compiles."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from excitor.robots.kernel.reference import Algebra, Coordinates, Scalar, Vector, dot, times
from excitor.robots.parameters import layout

if TYPE_CHECKING:
    from excitor.robots.arrays import FloatArray
    from excitor.robots.robot import FrictionTerm, Robot, RotorInertia

Given = Callable[["FrictionTerm"], Scalar]


@dataclass(frozen=True, slots=True)
class DriveAlgebra(Algebra):
    """What a kind of number must know for friction, too."""

    tanh: Callable[[Scalar], Scalar]
    exp: Callable[[Scalar], Scalar]
    sqrt: Callable[[Scalar], Scalar]
    abs: Callable[[Scalar], Scalar]
    sign: Callable[[Scalar], Scalar]


NUMERIC_DRIVE = DriveAlgebra(float, float, np.sin, np.cos, np.tanh, np.exp, np.sqrt, np.abs, np.sign)


@dataclass(frozen=True, slots=True)
class Element:
    """A rotor or a friction term at work: torque on joint i = chi[column] · acts[i] · value."""

    source: "RotorInertia | FrictionTerm"
    column: int
    acts: Vector
    value: Scalar

    @property
    def torque(self) -> list[Scalar]:
        """Write the column's share of each joint."""
        return [times(share, self.value) for share in self.acts]


def rotor_elements(
    robot: "Robot", at: Coordinates, wanted: Collection[int], *, algebra: Algebra = NUMERIC_DRIVE
) -> list[Element]:
    """Write value = senses @ ddq of every rotor whose column is wanted."""
    return [
        Element(rotor, column, numbers(rotor.acts, algebra), dot(numbers(rotor.senses, algebra), at[2]))
        for rotor, column in zip(robot.drive.rotors, layout(robot).rotor_columns, strict=True)
        if column in wanted
    ]


def friction_elements(
    robot: "Robot", at: Coordinates, wanted: Collection[int], *, given: Given, algebra: DriveAlgebra = NUMERIC_DRIVE
) -> list[Element]:
    """Write value = g of every friction term whose column is wanted.

    `given` tells what one instant's motion does not: the load |acts @ τ|, or the state of a Maxwell-slip element.
    """
    return [
        Element(term, column, numbers(term.acts, algebra), _friction_value(term, at, given, algebra))
        for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True)
        if column in wanted
    ]


def numbers(x: "FloatArray", algebra: Algebra) -> list[Scalar]:
    """Let constants enter; 0, 1 and -1 stay what they are, and take no part in products."""
    return [float(value) if value in (0.0, 1.0, -1.0) else algebra.number(float(value)) for value in x]


def _friction_value(term: "FrictionTerm", at: Coordinates, given: Given, algebra: DriveAlgebra) -> Scalar:
    """Evaluate g as `robot.FrictionTerm` defines it."""
    if term.model == "offset":
        return 1.0
    if term.model == "maxwell-slip":
        return given(term)
    senses = numbers(term.senses, algebra)
    if term.model in ("ripple-sin", "ripple-cos"):
        angle = times(algebra.number(term.scale), dot(senses, at[0]))
        return algebra.sin(angle) if term.model == "ripple-sin" else algebra.cos(angle)
    v = dot(senses, at[1])
    if term.model == "viscous":
        return v
    sign = algebra.sign(v) if term.width == 0.0 else algebra.tanh(times(algebra.number(1.0 / term.width), v))
    if term.model == "sqrt":
        return times(sign, algebra.sqrt(algebra.abs(v)))
    if term.model == "stribeck":
        return times(sign, algebra.exp(times(algebra.number(-1.0 / term.scale), algebra.abs(v))))
    return times(sign, given(term)) if term.model == "load" else sign
