"""Order, names and units of a robot's parameters, defined here alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.friction import friction_model
from excitor.robots.robot import DriveTrain, FrictionTerm, Robot, RotorInertia

# The ten parameters of a link: inertia at the link frame's origin (tensor entries), first moments, mass.
LINK_COMPONENTS = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
LINK_UNITS = ("kg m2",) * 6 + ("kg m",) * 3 + ("kg",)


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """Names and units of a robot's parameters, in the order of every `chi` and of every regressor's columns.

    Links first, ten each (`XX1` … `M1`, `XX2` …), then rotor inertias, then friction, as the robot lists them.
    A rotor or friction parameter has one column even where several elements share it.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    n_links: int
    rotor_columns: tuple[int, ...]  # for each rotor element, the column it adds to
    friction_columns: tuple[int, ...]  # for each friction element

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_link_params(self) -> int:
        """Count the columns that belong to links."""
        return 10 * self.n_links

    def index(self, name: str) -> int:
        """Find a parameter by name; ValueError names the closest ones."""
        try:
            return self.names.index(name)
        except ValueError:
            from difflib import get_close_matches

            near = get_close_matches(name, self.names, n=3, cutoff=0.3) or list(self.names[:3])
            raise ValueError(f"parameter {name!r} is not one of this robot's; close ones: {', '.join(near)}") from None

    def indices(self, names: tuple[str, ...] | list[str]) -> IntArray:
        """Find several parameters by name."""
        return np.array([self.index(name) for name in names], dtype=np.int64)

    def link(self, j: int) -> slice:
        """Columns of link j's ten parameters."""
        return slice(10 * j, 10 * j + 10)


@lru_cache(maxsize=64)
def layout(robot: Robot) -> Layout:
    """List a robot's parameters."""
    return layout_of(robot.mechanism.n_links, robot.mechanism.prismatic, robot.drive)


def layout_of(n_links: int, prismatic: BoolArray, drive: DriveTrain) -> Layout:
    """List the parameters of links, rotors and friction; `prismatic` marks joints that take forces, not torques."""
    names = link_parameter_names(n_links)
    units = list(LINK_UNITS) * n_links
    columns: list[int] = []
    elements: list[RotorInertia | FrictionTerm] = [*drive.rotors, *drive.friction]
    for element in elements:
        if element.parameter in names[: 10 * n_links]:
            raise ValueError(f"{element.parameter!r} is a link's parameter; call the rotor or friction term otherwise")
        if element.parameter not in names:
            names.append(element.parameter)
            units.append(element_unit(element, bool(prismatic[np.argmax(element.acts != 0.0)])))
        columns.append(names.index(element.parameter))
    n_rotors = len(drive.rotors)
    shared = sorted({names[k] for k in columns[:n_rotors]} & {names[k] for k in columns[n_rotors:]})
    if shared:
        raise ValueError(f"{', '.join(shared)} names both a rotor inertia and friction; call one otherwise")
    if drive.in_amperes:
        units = [unit_in_amperes(unit) for unit in units]
    return Layout(tuple(names), tuple(units), n_links, tuple(columns[:n_rotors]), tuple(columns[n_rotors:]))


def unit_in_amperes(unit: str) -> str:
    """Name the unit of a parameter where torques are in A."""
    return {"kg m2": "A s2", "kg m": "A s2/m", "kg": "A s2/m2"}.get(unit, unit.replace("N m", "A"))


def link_parameter_names(n_links: int) -> list[str]:
    """Name the parameters of links: XX1 to M1, XX2 to M2 and so on."""
    return [f"{component}{j + 1}" for j in range(n_links) for component in LINK_COMPONENTS]


def element_unit(element: RotorInertia | FrictionTerm, sliding: bool) -> str:
    """Name the unit of a rotor inertia or friction parameter."""
    if isinstance(element, RotorInertia):
        return "kg" if sliding else "kg m2"
    return friction_model(element).units[sliding]


def prior(robot: Robot) -> FloatArray:
    """Collect the prior parameters, the payload counted with the link that carries it: chi (n_params,)."""
    chi = robot.chi.copy()
    if robot.payload is not None:
        chi[10 * robot.payload.link : 10 * robot.payload.link + 10] += robot.payload.phi
    return chi


def with_friction(robot: Robot, friction: Sequence[FrictionTerm]) -> Robot:
    """Replace a robot's friction; what is known beforehand goes by names, and of new terms nothing is."""
    drive = replace(robot.drive, friction=tuple(friction))
    old, new = layout(robot), layout_of(robot.mechanism.n_links, robot.mechanism.prismatic, drive)
    kept = [name for name in old.names if name in new.names]
    place, before, declared = new.indices(kept), old.indices(kept), robot.declared_base
    chi, known, zero = np.zeros(len(new)), np.zeros(len(new), dtype=bool), np.zeros(len(new), dtype=bool)
    chi[place], known[place], zero[place] = robot.chi[before], robot.known[before], robot.assumed_zero[before]
    if declared is not None:  # new terms are parameters of their own
        more = [name for name in new.names if name not in old.names]
        combination = np.zeros((len(declared.names) + len(more), len(new)))
        combination[: len(declared.names), place] = declared.combination[:, before]
        combination[range(len(declared.names), len(combination)), new.indices(more)] = 1.0
        declared = replace(declared, names=(*declared.names, *more), combination=combination)
    return replace(robot, drive=drive, chi=chi, known=known, assumed_zero=zero, declared_base=declared)
