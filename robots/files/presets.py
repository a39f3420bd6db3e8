"""Presets of arms: figures of makers and public documents, each with its source, for robots of the same geometry.

A robot matches where the axes of its first joints, at zero, are the preset's, up to a rigid transform of the base and
the joints' senses; names do not count. What the robot's file states wins; of two limits the stricter one does.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.overlay import Table, expected
from excitor.robots.files.toml import robot_from_data
from excitor.robots.inertia import roll_pitch_yaw, roll_pitch_yaw_of, translation
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

NONE = "none"
TOLERANCE = (3e-3, np.radians(0.5))  # m and rad between axes: calibration changes less, models of a family differ more
LIMITS = {"position": "rad", "velocity": "rad_s", "acceleration": "rad_s2", "jerk": "rad_s3", "torque": ""}
FIGURES = (*LIMITS, "torque_from_current", "ratios", "rotors", "friction", "axes", "frames")
_CLEARER = 0.5  # times the next best agreement of limits, for telling models of one geometry apart
_ODD = 10.0  # times a maker's limit: a file's is in another unit
_ROUNDING = 1e-3  # relative: limits are printed with three digits
_PARAMETERS = {"Fv": ("friction", "viscous"), "Fc": ("friction", "coulomb"), "Ia": ("rotors", "value")}
_MOTORS: Mapping[str, tuple[set[str], list[Any]]] = {  # other keys that state a figure; what extra joints get
    "ratios": ({"motor_from_joint", "joint_from_motor"}, [1.0]),
    "torque_from_current": (set(), [[]]),
}


@dataclass(frozen=True)
class Preset:
    """An arm's record: figures with the keys of their sources, or sentences that begin with "unknown"."""

    name: str
    data: Table
    sources: Mapping[str, Table]

    @property
    def unknown(self) -> list[str]:
        """The figures that no public document states."""
        return [key for key in FIGURES if str(self.data[key]).startswith("unknown")]

    def values(self, key: str, *shape: int, word: str = "value") -> FloatArray:
        """Return a figure's values in SI, spread to a shape; empty where it has none."""
        figure = self.data[key] if isinstance(self.data[key], dict) else {}
        unit = next((unit for unit in (word, "rad", "deg") if unit in figure), "")
        values = np.broadcast_to(np.array(figure[unit], dtype=float), shape) if unit else np.empty(0)
        return np.radians(values) if unit == "deg" else values


@cache
def presets() -> Mapping[str, Preset]:
    """Read all presets, by name."""
    files = [file for file in resources.files("excitor.robots.presets").iterdir() if file.name.endswith(".toml")]
    found: dict[str, Preset] = {}
    for file in sorted(files, key=lambda file: file.name):
        family = tomllib.loads(file.read_text("utf-8"))
        records = {name: family["common"] | own for name, own in family["preset"].items()}
        found |= {name: Preset(name, record, family["sources"]) for name, record in records.items()}
    return found


@cache
def geometry(name: str) -> Robot:
    """Build a preset's joints, without bodies and limits."""
    joints = [{"name": f"joint {k}", **place} for k, place in enumerate(presets()[name].data["joints"], start=1)]
    return robot_from_data({"name": name, "joint": joints}, name)


@dataclass(frozen=True, eq=False)
class Match:
    """A preset beside a robot: how its base and joints lie, and how far their axes are apart."""

    preset: Preset
    T_base_preset: FloatArray
    signs: FloatArray  # (n_joints of the preset,): of the robot's joints against the preset's
    apart: FloatArray  # (n_joints, 2): m and rad

    @property
    def worst(self) -> float:
        """The largest difference, as a share of what is tolerated."""
        return float((self.apart / TOLERANCE).max())

    def limits(self, key: str) -> FloatArray:
        """Return the preset's limits in the robot's joints, SI, (n_joints, 2); infinite where unknown."""
        n = len(self.signs)
        if key != "position":
            values = self.preset.values(key, n)
            return np.outer(values if values.size else np.full(n, np.inf), [-1.0, 1.0])
        values = self.preset.values(key, n, 2)
        spans = np.where(self.signs[:, None] > 0.0, values, -values[:, ::-1])
        return np.where(np.ptp(spans, axis=1)[:, None] > 0.0, spans, [-np.inf, np.inf])


def compare(robot: Robot, preset: Preset) -> Match | None:
    """Lay a preset's axes over those of a robot's first joints; None where these make no chain of turning joints."""
    n = geometry(preset.name).n_joints
    given, reference = _axes(robot, n), _axes(geometry(preset.name), n)
    if given is None or reference is None:
        return None
    (U, P), (u, p) = given, reference
    signs = np.array(sorted(product((1.0, -1.0), repeat=n), key=lambda row: row.count(-1.0)))
    left, _, right = np.linalg.svd(np.einsum("sk,ki,kj->sij", signs, U, u))
    left[:, :, 2] *= np.linalg.det(left @ right)[:, None]
    R = left @ right
    turned, moved = signs[:, :, None] * np.einsum("sij,kj->ski", R, u), np.einsum("sij,kj->ski", R, p)
    across = np.eye(3) - U[:, :, None] * U[:, None, :]
    t = np.einsum("ij,kjl,skl->si", np.linalg.pinv(across.sum(axis=0)), across, P - moved)
    distances = np.linalg.norm(np.einsum("kij,skj->ski", across, moved + t[:, None] - P), axis=2)
    angles = np.arctan2(np.linalg.norm(np.cross(turned, U), axis=2), (turned * U).sum(axis=2))
    apart = np.stack([distances, angles], axis=2)
    s = int(np.argmin(np.round((apart / TOLERANCE).max(axis=(1, 2)), 6)))
    T = translation(*t[s])
    T[:3, :3] = R[s]
    return Match(preset, T, signs[s], apart[s])


def _axes(robot: Robot, n: int) -> tuple[FloatArray, FloatArray] | None:
    """Directions of the first joints' axes at zero, and points on them, (n, 3) each, in the base frame."""
    tree = robot.mechanism
    if not isinstance(tree, Tree) or tree.n_joints < n or tree.sliding[:n].any():
        return None
    if (tree.parents[:n] != np.arange(-1, n - 1)).any() or (tree.coupling[:n, :n] != np.eye(n)).any():
        return None
    links = tree.poses(np.zeros((1, tree.n_joints)))[0]
    T = np.array([(links[j - 1] if j else np.eye(4)) @ tree.before[j] for j in range(n)])
    return np.einsum("kij,kj->ki", T[:, :3, :3], tree.axis[:n]), T[:, :3, 3]


def find(robot: Robot, source: str | Path, requested: object = None) -> tuple[Match | None, str]:
    """Find the preset of a robot, as requested or by geometry, and a sentence where several cannot be told apart."""
    known = presets()
    if requested not in (None, NONE, *known):
        hint = expected(requested, [*known, NONE])
        raise InvalidRobot(source, [f"preset: {str(requested)[:60]!r} is none; {hint}"])
    compared = [compare(robot, preset) for name, preset in known.items() if requested in (None, name)]
    matches = [match for match in compared if match is not None and match.worst <= 1.0]
    if requested not in (None, NONE) and not matches:
        raise InvalidRobot(source, [f"preset: the geometry is not that of {requested!r}: {_difference(compared[0])}"])
    ranks = [(-len(m.signs), round(4.0 * m.worst), _limits_apart(robot, m)) for m in matches]
    order = sorted(range(len(ranks)), key=ranks.__getitem__)[:2]
    if len({ranks[k][:2] for k in order}) == len(order) or ranks[order[0]][2] < _CLEARER * ranks[order[1]][2]:
        return (matches[order[0]] if order else None), ""
    names = " and ".join(repr(matches[k].preset.name) for k in order)
    return None, f'the geometry is that of {names}, which limits do not tell apart: none is used; state preset = "…"'


def _difference(match: Match | None) -> str:
    """Say where a geometry differs most."""
    if match is None:
        return "its first joints are no chain of turning joints, as many as the preset's"
    k = int(np.argmax((match.apart / TOLERANCE).max(axis=1)))
    off, most = (f"{1e3 * m:.3g} mm and {np.degrees(rad):.2g} deg" for m, rad in (match.apart[k], TOLERANCE))
    return f"the axis of joint {k + 1} is {off} away; tolerated are {most}"


def _bounds(robot: Robot, key: str, n: int) -> FloatArray:
    """Limits of a robot's first joints, lowest and highest, (n, 2); infinite where not stated."""
    values = getattr(robot.limits, key)[:n]
    return np.asarray(values if key == "position" else np.outer(values, [-1.0, 1.0]))


def _limits_apart(robot: Robot, match: Match) -> float:
    """Mean difference of the limits of position and velocity that both state; 0 where none are."""
    keys, n = ("position", "velocity"), len(match.signs)
    own, its = np.concatenate([[_bounds(robot, key, n), match.limits(key)] for key in keys], axis=1)
    both = np.isfinite(own) & np.isfinite(its)
    return float(np.mean(np.abs(own[both] - its[both]))) if both.any() else 0.0


@dataclass(frozen=True)
class Applied:
    """What a preset gives a robot, as tables of a robot file."""

    match: Match
    tables: Table
    note: str

    def origin(self, path: Sequence[str], key: str, part: str | None) -> str:
        """Say which document states a figure of the tables."""
        preset, words = self.match.preset, {"controllers": "axes", "frame": "frames"}
        name = _PARAMETERS[key[:2]][0] if path[0] == "parameters" else words.get(path[0], part or key)
        figure = max((figure for figure in FIGURES if name.startswith(figure)), key=len, default="")
        return f"preset {preset.name}: {preset.sources[preset.data[figure]['source']]['title']}" if figure else ""


def applied(data: Table, robot: Robot, match: Match, *, stricter: bool) -> Applied:
    """Write the tables of a preset that a robot's own do not state; `stricter`: or where its limits are stricter."""
    names, n, preset = robot.joint_names, len(match.signs), match.preset
    limits, kept = _limits(robot, match, stricter)
    drive = Table()
    for key, (others, unknown) in _MOTORS.items():
        values = preset.values(key, n).tolist()
        if values and not {key, *others} & data.get("drive", {}).keys():
            drive[key] = values + unknown * (len(names) - n)
            drive |= {f"{key}_sigma": preset.data[key]["sigma"]} if "sigma" in preset.data[key] else {}
    parameters = {
        f"{name}{i + 1}": x
        for name, (key, word) in _PARAMETERS.items()
        for i, x in enumerate(preset.values(key, n, word=word).tolist())
    }
    axes = preset.data["axes"] if isinstance(preset.data["axes"], dict) and len(names) == n else {}
    controllers = {
        key: {**entry, "matrix": (entry.get("matrix", np.eye(n)) * match.signs).tolist()}
        for key, entry in axes.items()
        if key != "source"
    }
    taken = {*names, *(frame["name"] for frame in data.get("frame", ()))}
    tables = {
        "joint": [{"name": names[i], "limits": given} for i, given in enumerate(limits) if given],
        "drive": drive,
        "parameters": {key: x for key, x in parameters.items() if key not in data.get("parameters", {})},
        "controllers": {key: x for key, x in controllers.items() if key not in data.get("controllers", {})},
        "frame": [frame for frame in base_frames(match) if frame["name"] not in taken],
    }
    given = [*dict.fromkeys(key for entry in limits for key in entry), *drive, *(k for k in [*tables][2:] if tables[k])]
    note = (
        f"{preset.data['title']} ({preset.name}) by its geometry, to {1e3 * match.apart[:, 0].max():.1f} mm; it gives "
        f"{', '.join(given)}; unknown are {', '.join(preset.unknown)}; "
        + (f"stricter in the file, and kept: {'; '.join(kept)}; " if kept else "")
        + 'preset = "none" in the robot file or in campaign.toml switches it off'
    )
    return Applied(match, {key: table for key, table in tables.items() if table}, note)


def _limits(robot: Robot, match: Match, stricter: bool) -> tuple[list[Table], list[str]]:
    """Collect the preset's limits joint by joint, and the names of the file's that are stricter."""
    n, kept = len(match.signs), []
    found: list[Table] = [{} for _ in range(n)]
    for key, unit in LIMITS.items():
        its, own = match.limits(key), _bounds(robot, key, n)
        stated = np.isfinite(own).all(axis=1)
        both = np.stack([np.maximum(own[:, 0], its[:, 0]), np.minimum(own[:, 1], its[:, 1])], axis=1)
        odd = stated & (np.abs(own).max(axis=1) > _ODD * np.abs(its).max(axis=1))  # left to be found
        for i in np.flatnonzero(~np.isclose(both, own, rtol=1e-6).all(axis=1) & ((stricter & ~odd) | ~stated)):
            found[i][f"{key}_{unit}".strip("_")] = both[i].tolist() if key == "position" else float(both[i, 1])
        nearer = np.isfinite(its).all(axis=1) & stated & ~np.isclose(both, its, rtol=_ROUNDING).all(axis=1)
        where = [robot.joint_names[i] for i in np.flatnonzero(nearer)]
        kept += [f"{key} of {'all joints' if len(where) == n else ', '.join(where)}"] if where else []
    return found, kept


def base_frames(match: Match) -> list[Table]:
    """Write the maker's and ROS' base frames in the robot's base."""
    frames = []
    for name in ("vendor_base", "ros_base"):
        entry = match.preset.data["frames"][name]
        turn = roll_pitch_yaw(*np.radians(entry.get("rpy_deg", [0.0] * 3)))
        T = match.T_base_preset @ translation(*entry.get("xyz", [0.0] * 3)) @ turn
        xyz, angles = np.round(T[:3, 3], 9) + 0.0, np.round(np.degrees(roll_pitch_yaw_of(T)), 7) + 0.0
        frames.append({"name": name, "link": "base", "xyz": xyz.tolist(), "rpy_deg": angles.tolist()})
    return frames
