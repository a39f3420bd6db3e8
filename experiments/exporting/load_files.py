"""How does each controller want a load to be declared? A file of its own language, with what it means beside it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from excitor.design.programs.krl.text import RESERVED as KRL_WORDS
from excitor.design.programs.rapid.text import RESERVED as RAPID_WORDS
from excitor.design.programs.target import fixed, safe_name
from excitor.experiments.exporting.load import Load
from excitor.experiments.exporting.load_numbers import CENTER, INERTIA, MASS, Numbers, numbers_of
from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError

LONGEST_NAME = 20
KGF_CM_S2 = 9.80665 * 0.01  # kg m2 in one kgf cm s2
UR_LARGEST = 133.0  # kg m2 in any component, by the script manual


@dataclass(frozen=True, slots=True)
class LoadFile:
    """A file for a controller."""

    name: str
    content: bytes


def load_file(load: Load, controller: str) -> LoadFile:
    """Write a load as a controller declares it: kuka, abb, fanuc or ur."""
    return WRITERS[controller](load, numbers_of(load))


def kuka_angles(axes: FloatArray) -> FloatArray:
    """Find A, B, C in degrees with axes = Rz(A) Ry(B) Rx(C)."""
    sine = float(np.clip(-axes[2, 0], -1.0, 1.0))
    if abs(sine) > 1.0 - 1e-12:  # A and C turn about the same line: C is taken as 0
        A, C = np.arctan2(-axes[0, 1], axes[1, 1]), 0.0
    else:
        A, C = np.arctan2(axes[1, 0], axes[0, 0]), np.arctan2(axes[2, 1], axes[2, 2])
    return np.degrees([A, np.arcsin(sine), C])


def quaternion(R: FloatArray) -> FloatArray:
    """Write a rotation matrix as (w, x, y, z) with w ≥ 0."""
    K = np.array(
        [
            [R[0, 0] + R[1, 1] + R[2, 2], 0.0, 0.0, 0.0],
            [R[2, 1] - R[1, 2], R[0, 0] - R[1, 1] - R[2, 2], 0.0, 0.0],
            [R[0, 2] - R[2, 0], R[1, 0] + R[0, 1], R[1, 1] - R[0, 0] - R[2, 2], 0.0],
            [R[1, 0] - R[0, 1], R[2, 0] + R[0, 2], R[2, 1] + R[1, 2], R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    q = np.linalg.eigh(K)[1][:, -1]  # eigh reads the lower triangle
    return q if q[0] >= 0.0 else -q


def _kuka(load: Load, numbers: Numbers) -> LoadFile:
    """KRL: CM is the centre of gravity in the flange frame with the principal axes' angles, J about those axes."""
    name = _name(load, KRL_WORDS)
    x, y, z = (fixed(v, CENTER - 3) for v in 1e3 * numbers.center)
    a, b, c = (fixed(v, 4) for v in kuka_angles(numbers.axes))
    j = [fixed(v, INERTIA) for v in numbers.moments]
    value = (
        f"{{M {fixed(numbers.mass, MASS)},CM {{X {x},Y {y},Z {z},A {a},B {b},C {c}}},J {{X {j[0]},Y {j[1]},Z {j[2]}}}}}"
    )
    means = (
        "M kg; CM: X Y Z mm from the flange, A B C degrees to the principal axes: about Z, then Y, then X",
        "J kg m2 about the principal axes through the centre of gravity",
        "Use it as $LOAD=" + name + ", or as the LOAD_DATA of a tool in $CONFIG.DAT",
    )
    module = name.upper()
    lines = [
        f"DEFDAT {module} PUBLIC",
        *(f"; {line}" for line in (*numbers.told, *means)),
        f"DECL GLOBAL LOAD {name}={value}",
        "ENDDAT",
    ]
    return LoadFile(f"{name}.dat", _encoded(lines, "\r\n"))


def _abb(load: Load, numbers: Numbers) -> LoadFile:
    """RAPID: loaddata [mass, cog, aom, ix, iy, iz]; aom turns the flange's axes to the principal ones."""
    name = _name(load, RAPID_WORDS)
    cog = ",".join(fixed(v, CENTER - 3) for v in 1e3 * numbers.center)
    aom = ",".join(fixed(v, 8) for v in quaternion(numbers.axes))
    inertia = ",".join(fixed(v, INERTIA) for v in numbers.moments)
    means = (
        "mass kg; cog mm; aom: quaternion q1 q2 q3 q4 to the principal axes; ix iy iz kg m2 about them through the cog",
        "Given in the wrist frame tool0: for GripLoad with tool0, or as the tload of a tooldata",
        "With another tool, loaddata count in that tool's frame: turn and shift them first",
    )
    lines = [
        f"MODULE {name}_data",
        *(f"    ! {line}" for line in (*numbers.told, *means)),
        f"    PERS loaddata {name}:=[{fixed(numbers.mass, MASS)},[{cog}],[{aom}],{inertia}];",
        "ENDMODULE",
    ]
    return LoadFile(f"{name}.mod", _encoded(lines, "\n"))


def _fanuc(load: Load, numbers: Numbers) -> LoadFile:
    """Sheet of the payload schedule's screen: kg, cm, kgf cm s2 about axes through the centre of gravity."""
    center = [fixed(v, CENTER - 2) for v in 1e2 * numbers.center]
    step = 10.0 ** -(INERTIA - 2)
    moments = [fixed(np.ceil(v / KGF_CM_S2 / step - 1e-6) * step, INERTIA - 2) for v in np.diag(numbers.tensor)]
    products = ", ".join(
        f"{pair} {fixed(numbers.tensor[a, b] / KGF_CM_S2, INERTIA - 2)}"
        for pair, a, b in (("xy", 0, 1), ("xz", 0, 2), ("yz", 1, 2))
    )
    rows = [("PAYLOAD", "kg", fixed(numbers.mass, MASS))]
    rows += [(f"PAYLOAD CENTER {axis}", "cm", value) for axis, value in zip("XYZ", center, strict=True)]
    rows += [(f"PAYLOAD INERTIA {axis}", "kgfcms^2", value) for axis, value in zip("XYZ", moments, strict=True)]
    means = (
        "Type these into MENU, SYSTEM, MOTION, PAYLOAD SET of the schedule in use; then PAYLOAD[n] in the program.",
        "Definition taken: inertias about axes through the centre of gravity, parallel to those of the face plate;",
        "1 kgf cm s2 = 0.0980665 kg m2. No system variables are written, for their unit of inertia is not confirmed.",
        "The schedule has no place for products of inertia, which are left out:",
        f"{products} kgf cm s2.",
    )
    lines = [
        "FANUC payload schedule",
        *(f"{what:<18} [{unit}]".ljust(32) + value for what, unit, value in rows),
        "",
        *means,
        "",
        *numbers.told,
    ]
    return LoadFile(f"{_name(load)}_fanuc.txt", _encoded(lines, "\n"))


def _ur(load: Load, numbers: Numbers) -> LoadFile:
    """URScript: set_target_payload(m, cog, [Ixx, Iyy, Izz, Ixy, Ixz, Iyz]) about the centre, in the flange's axes."""
    t = numbers.tensor
    largest = float(np.abs(t).max())
    if largest > UR_LARGEST:
        raise ExcitorError(
            f"{load.name}: its inertia reaches {largest:.4g} kg m2, more than the {UR_LARGEST:g} that "
            "set_target_payload takes; export it as a point mass with --point-mass, if the robot may carry it at all"
        )
    name = _name(load)
    center = ", ".join(fixed(v, CENTER) for v in numbers.center)
    inertia = ", ".join(fixed(v, INERTIA) for v in (t[0, 0], t[1, 1], t[2, 2], t[0, 1], t[0, 2], t[1, 2]))
    means = (
        "mass kg; centre of gravity m from the tool flange; inertia kg m2 about the centre in the flange's axes,",
        "Ixx Iyy Izz Ixy Ixz Iyz, the entries of the tensor (products with the sign of minus the sum of m x y)",
        "Call it once the load is held; older PolyScope takes mass and centre by set_payload instead",
    )
    lines = [
        *(f"# {line}" for line in (*numbers.told, *means)),
        f"def {name}():",
        f"  set_target_payload({fixed(numbers.mass, MASS)}, [{center}], [{inertia}])",
        "end",
    ]
    return LoadFile(f"{name}.script", _encoded(lines, "\n"))


def _name(load: Load, reserved: Collection[str] = ()) -> str:
    own = safe_name(load.name, LONGEST_NAME - 5)
    return safe_name(f"load_{own}", LONGEST_NAME, reserved)


def _encoded(lines: list[str], end: str) -> bytes:
    return "".join(line + end for line in _checked(lines)).encode("ascii")


def _checked(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.isascii() or not (line.isprintable() or not line):
            raise ExcitorError(f"{line!r} cannot be written for a controller; give the load a plain name")
        yield line


WRITERS: Mapping[str, Callable[[Load, Numbers], LoadFile]] = {"kuka": _kuka, "abb": _abb, "fanuc": _fanuc, "ur": _ur}
