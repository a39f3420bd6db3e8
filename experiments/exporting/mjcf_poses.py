"""Where does a MuJoCo file place a body, and how is it turned? All the ways in which the format can say so."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import rotation

_TURNS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")


@dataclass(frozen=True, slots=True)
class Compiler:
    """How a file's numbers are meant."""

    unit: float  # rad in one unit of angle
    sequence: str  # of Euler angles: lower case turns along, upper case about fixed axes
    inertia_from_geoms: str  # "true", "false", "auto"

    @classmethod
    def of(cls, attributes: Mapping[str, str], where: str) -> "Compiler":
        """Read the <compiler>'s attributes."""
        angle = attributes.get("angle", "degree")
        if attributes.get("coordinate", "local") != "local":
            raise ExcitorError(f"{where}: gives global coordinates; save it with a newer MuJoCo first")
        sequence = attributes.get("eulerseq", "xyz")
        if len(sequence) != 3 or set(sequence.lower()) - set("xyz"):
            raise ExcitorError(f"{where}: eulerseq is {sequence[:20]!r}, expected three of xyzXYZ")
        unit = 1.0 if angle == "radian" else np.pi / 180.0
        return cls(unit, sequence, attributes.get("inertiafromgeom", "auto"))


def numbers(text: str, count: int, where: str) -> FloatArray:
    """Read numbers of an attribute."""
    try:
        values = np.array([float(x) for x in text.split()])
    except ValueError:
        values = np.empty(0)
    if values.size != count or not np.isfinite(values).all():
        raise ExcitorError(f"{where}: says {text[:80]!r} where {count} numbers are expected")
    return values


def pose(attributes: Mapping[str, str], compiler: Compiler, where: str) -> FloatArray:
    """Read pos and whichever turn is given: T_parent_body."""
    T = np.eye(4)
    given = [name for name in _TURNS if name in attributes]
    if len(given) > 1:
        raise ExcitorError(f"{where}: gives {' and '.join(given)} of one element; a turn is one of them")
    for name in given:
        T[:3, :3] = _turn(name, attributes[name], compiler, where)
    T[:3, 3] = numbers(attributes.get("pos", "0 0 0"), 3, where)
    return T


def _turn(name: str, text: str, compiler: Compiler, where: str) -> FloatArray:
    if name == "euler":
        R = np.eye(3)
        for letter, angle in zip(compiler.sequence, numbers(text, 3, where) * compiler.unit, strict=True):
            one = rotation(letter.lower(), float(angle))[:3, :3]
            R = R @ one if letter.islower() else one @ R
        return R
    values = numbers(text, {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3}[name], where)
    if name == "quat":
        return _of_quaternion(values / _length(values, name, where))
    if name == "axisangle":
        axis, angle = values[:3] / _length(values[:3], name, where), values[3] * compiler.unit
        return _of_quaternion(np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)]))
    if name == "xyaxes":
        x = values[:3] / _length(values[:3], name, where)
        y = values[3:] - (values[3:] @ x) * x
        y = y / _length(y, name, where)
        return np.column_stack([x, y, np.cross(x, y)])
    z = values / _length(values, name, where)  # the least turn that takes z there
    if z[2] < -1.0 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    return _of_quaternion(_unit(np.array([1.0 + z[2], -z[1], z[0], 0.0])))


def _of_quaternion(q: FloatArray) -> FloatArray:
    w, x, y, z = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _unit(values: FloatArray) -> FloatArray:
    return np.asarray(values / np.linalg.norm(values))


def _length(values: FloatArray, name: str, where: str) -> float:
    length = float(np.linalg.norm(values))
    if length < 1e-12:
        raise ExcitorError(f"{where}: a {name} is zero, which turns nowhere")
    return length
