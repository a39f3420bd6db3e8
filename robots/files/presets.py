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
from excitor.robots.files import overlay
from excitor.robots.files.overlay import Table
from excitor.robots.files.toml import robot_from_data
from excitor.robots.inertia import roll_pitch_yaw, roll_pitch_yaw_of, translation
from excitor.robots.robot import Robot
from excitor.robots.tree import Tree

NONE = "none"
DISTANCE, ANGLE = 3e-3, np.radians(0.5)  # m and rad between axes: what calibration changes, models of a family exceed
FIGURES = (
    "position", "velocity", "acceleration", "jerk", "torque", "torque_from_current", "ratios", "rotors", "friction",
    "axes", "frames",
)  # fmt: skip
_LIKE = 0.2  # of the tolerances, by which matches must differ to be told apart by their geometry
_CLEARER = 0.5  # times the next best agreement of limits, for telling models of one geometry apart
_ROUNDING = 1e-3  # relative: limits are printed with three digits
_PARAMETERS = {"viscous": "Fv", "coulomb": "Fc", "value": "Ia"}


@dataclass(frozen=True)
class Preset:
    """An arm's record: figures with the names of their sources, or sentences that begin with "unknown"."""

    name: str
    title: str
    data: Table
    sources: Mapping[str, Table]

    @property
    def unknown(self) -> list[str]:
        """The figures that no public document states."""
        return [key for key in FIGURES if str(self.data.get(key, "unknown")).startswith("unknown")]

    def source(self, key: str) -> str:
        """Title of the document that states a figure; empty where none does."""
        figure = self.data.get(key)
        return str(self.sources[figure["source"]]["title"]) if isinstance(figure, dict) else ""


@cache
def presets() -> Mapping[str, Preset]:
    """Read all presets, by name."""
    found = {}
    for file in sorted(resources.files("excitor.robots.presets").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            family = tomllib.loads(file.read_text("utf-8"))
            for name, own in family["preset"].items():
                found[name] = Preset(name, own["title"], family.get("common", {}) | own, family["sources"])
    return found


@cache
def geometry(name: str) -> Robot:
    """Build a preset's joints, without bodies and limits."""
    data, joints = presets()[name].data, []
    for k, row in enumerate(data["dh"] if "dh" in data else data["origins"]):
        if "dh" in data:
            place = {"dh": dict(zip(("theta_deg", "d", "a", "alpha_deg"), row, strict=True))}
        else:
            word = data.get("joint_axes", ["z"] * (k + 1))[k]
            axis = [float(letter == word[-1]) * (-1.0 if word[0] == "-" else 1.0) for letter in "xyz"]
            place = {"placement": {"xyz": row[:3], "rpy_deg": row[3:], "axis": axis}}
        joints.append({"name": f"joint_{k + 1}", **place})
    return robot_from_data({"name": name, "joint": joints}, name)


@dataclass(frozen=True, eq=False)
class Match:
    """A preset beside a robot: how its frame and joints lie, and how far their axes are apart."""

    preset: Preset
    T_base_preset: FloatArray
    signs: FloatArray  # (n_joints of the preset,): of the robot's joints against the preset's
    distances: FloatArray  # m
    angles: FloatArray  # rad

    @property
    def apart(self) -> float:
        """The largest difference, as a share of what is tolerated."""
        return float(max(self.distances.max() / DISTANCE, self.angles.max() / ANGLE))

    @property
    def sentence(self) -> str:
        """Say how far the geometries are apart."""
        mm, degrees = 1e3 * self.distances, np.degrees(self.angles)
        k = int(np.argmax(np.maximum(self.distances / DISTANCE, self.angles / ANGLE)))
        return f"the axis of joint {k + 1} is {mm[k]:.1f} mm and {degrees[k]:.2f} deg away"


def compare(robot: Robot, preset: Preset) -> Match | None:
    """Lay a preset's axes over those of a robot's first joints; None where these make no chain of turning joints."""
    reference = geometry(preset.name)
    given = _axes(robot, reference.n_joints)
    if given is None:
        return None
    (U, P), (u, p) = given, _axes(reference, reference.n_joints) or given
    signs = np.array(sorted(product((1.0, -1.0), repeat=len(u)), key=lambda row: row.count(-1.0)))
    left, _, right = np.linalg.svd(np.einsum("sk,ki,kj->sij", signs, U, u))
    left[:, :, 2] *= np.linalg.det(left @ right)[:, None]
    R = left @ right
    turned, moved = signs[:, :, None] * np.einsum("sij,kj->ski", R, u), np.einsum("sij,kj->ski", R, p)
    across = np.eye(3) - U[:, :, None] * U[:, None, :]
    t = np.einsum("ij,kjl,skl->si", np.linalg.pinv(across.sum(axis=0)), across, P - moved)
    distances = np.linalg.norm(np.einsum("kij,skj->ski", across, moved + t[:, None] - P), axis=2)
    angles = np.arctan2(np.linalg.norm(np.cross(turned, U), axis=2), (turned * U).sum(axis=2))
    apart = np.maximum(distances / DISTANCE, angles / ANGLE).max(axis=1)
    s = int(np.argmin(np.round(apart, 6)))
    T = translation(*t[s])
    T[:3, :3] = R[s]
    return Match(preset, T, signs[s], distances[s], angles[s])


def _axes(robot: Robot, n: int) -> tuple[FloatArray, FloatArray] | None:
    """Directions of the first joints' axes at zero, and points on them, (n, 3) each, in the base frame."""
    tree = robot.mechanism
    if not isinstance(tree, Tree) or tree.n_joints < n or tree.sliding[:n].any():
        return None
    if not np.array_equal(tree.parents[:n], np.arange(-1, n - 1)) or not np.array_equal(
        tree.coupling[:n, :n], np.eye(n)
    ):
        return None
    links = tree.poses(np.zeros((1, tree.n_joints)))[0]
    T = np.array([(links[j - 1] if j else np.eye(4)) @ tree.before[j] for j in range(n)])
    return np.einsum("kij,kj->ki", T[:, :3, :3], tree.axis[:n]), T[:, :3, 3]


def find(robot: Robot, source: str | Path, requested: object = None) -> tuple[Match | None, str]:
    """Find the preset of a robot, as requested or by geometry, and a sentence where several cannot be told apart."""
    known = presets()
    if requested == NONE:
        return None, ""
    if requested is not None:
        if requested not in known:
            raise InvalidRobot(
                source, [f"preset: {str(requested)[:60]!r} is none; {overlay.expected(requested, [*known, NONE])}"]
            )
        match = compare(robot, known[str(requested)])
        if match is None or match.apart > 1.0:
            n = geometry(str(requested)).n_joints
            how = f"its first {n} joints are no chain of turning joints" if match is None else match.sentence
            tolerated = f"tolerated are {1e3 * DISTANCE:g} mm and {np.degrees(ANGLE):g} deg"
            raise InvalidRobot(source, [f"preset: the geometry is not that of {requested!r}: {how}; {tolerated}"])
        return match, ""
    matches = [match for preset in known.values() if (match := compare(robot, preset)) and match.apart <= 1.0]
    matches = sorted(matches, key=lambda match: (-len(match.signs), match.apart))
    alike = [
        match
        for match in matches
        if len(match.signs) == len(matches[0].signs) and match.apart < matches[0].apart + _LIKE
    ]
    if len(alike) < 2:
        return (alike[0], "") if alike else (None, "")
    off = [_limits_apart(robot, match) for match in alike]
    best, second = sorted(off)[:2]
    if best <= _CLEARER * second and second > 0.0:
        return alike[off.index(best)], ""
    names = " and ".join(repr(match.preset.name) for match in alike)
    return None, f'the geometry is that of {names}, which limits do not tell apart: none is used; state preset = "…"'


def _limits_apart(robot: Robot, match: Match) -> float:
    """Mean relative difference of the limits of position and velocity that both state; 0 where none are."""
    n, found = len(match.signs), []
    for key in ("position", "velocity"):
        own, its = getattr(robot.limits, key)[:n], limits_of(match, key)
        if its is not None:
            both = np.isfinite(own) & np.isfinite(its)
            found.append(np.abs(own - its)[both] / (1.0 + np.abs(its[both])))
    return float(np.concatenate(found).mean()) if found and sum(map(len, found)) else 0.0


def limits_of(match: Match, key: str) -> FloatArray | None:
    """Return a preset's limit in the robot's joints, SI: (n_joints,), of positions (n_joints, 2); None if unknown."""
    figure = match.preset.data.get(key)
    if not isinstance(figure, dict):
        return None
    n, given = len(match.signs), next(figure[unit] for unit in ("value", "deg", "rad") if unit in figure)
    shape = (n, 2) if key == "position" else (n,)
    values = np.broadcast_to(np.array(given, dtype=float), shape) * (np.pi / 180.0 if "deg" in figure else 1.0)
    if key != "position":
        return np.asarray(values)
    return np.where(match.signs[:, None] > 0.0, values, -values[:, ::-1])


@dataclass(frozen=True)
class Applied:
    """What a preset gives a robot, as tables of a robot file."""

    match: Match
    tables: Table
    note: str

    def origin(self, path: Sequence[str], key: str, part: str | None) -> str:
        """Say which document states a figure of the tables."""
        words = {"torque_from_current_sigma": "torque_from_current", "controllers": "axes", "frame": "frames"}
        word = (part or "").split("_")[0] if key == "limits" else key[:2] if path == ("parameters",) else key
        word = {"Ia": "rotors", "Fv": "friction", "Fc": "friction"}.get(word, word)
        top = path[0] if path else ""
        document = self.match.preset.source(words.get(word, words.get(top, word)))
        return f"preset {self.match.preset.name}" + (f": {document}" if document else "")


def applied(data: Table, robot: Robot, match: Match, *, stricter: bool) -> Applied:
    """Write the tables of a preset that a robot's own do not state; `stricter`: or where its limits are stricter."""
    names, n = robot.joint_names, len(match.signs)
    entries = {joint["name"]: joint for joint in data["joint"]}
    joints, kept = [], []
    for i, name in enumerate(names[:n]):
        limits, own = _limits(match, i, entries[name].get("limits", {}), stricter)
        joints += [{"name": name, "limits": limits}] if limits else []
        kept += [f"{limit} of {name}" for limit in own]
    record, of = match.preset.data, data.get("drive", {})
    drive: Table = {}
    for key in ("ratios", "torque_from_current"):
        if (
            isinstance(record.get(key), dict)
            and not {key, *(("motor_from_joint", "joint_from_motor") if key == "ratios" else ())} & of.keys()
        ):
            values = [float(x) for x in np.broadcast_to(record[key]["value"], (n,))]
            drive[key] = [*values, *([1.0 if key == "ratios" else []] * (len(names) - n))]
            if "sigma" in record[key]:
                drive[f"{key}_sigma"] = record[key]["sigma"]
    tables: Table = {"joint": joints, "drive": drive, "parameters": _parameters(record, n)}
    tables["parameters"] = {key: x for key, x in tables["parameters"].items() if key not in data.get("parameters", {})}
    if len(names) == n:
        tables["controllers"] = {
            key: x for key, x in _controllers(match).items() if key not in data.get("controllers", {})
        }
    taken = {*names, *(frame["name"] for frame in data.get("frame", ()))}
    tables["frame"] = [frame for frame in _frames(match) if frame["name"] not in taken]
    tables = {key: table for key, table in tables.items() if table}
    return Applied(match, tables, _note(match, tables, kept))


def _limits(match: Match, i: int, own: Table, stricter: bool) -> tuple[Table, list[str]]:
    """Collect a joint's limits: those of the preset, and the names of the file's that are stricter."""
    limits, kept = Table(), []
    for key, suffix in (
        ("position", "rad"),
        ("velocity", "rad_s"),
        ("acceleration", "rad_s2"),
        ("jerk", "rad_s3"),
        ("torque", ""),
    ):
        values = limits_of(match, key)
        stated = overlay.in_si(own, key)[0]
        if values is None or not np.isfinite(values[i]).all() or (stated is not None and not stricter):
            continue
        its = values[i] if key == "position" else values[i : i + 1]
        low, high = its if key == "position" else (-its[0], its[0])
        if stated is not None:
            near, far = stated if key == "position" else (-stated, stated)
            room = _ROUNDING * max(1.0, abs(low), abs(high))
            if near > low + room or far < high - room:
                kept.append(key)
            low, high = max(low, near), min(high, far)
            if (low, high) == (near, far):
                continue
        limits[f"{key}_{suffix}" if suffix else key] = [float(low), float(high)] if key == "position" else float(high)
    return limits, kept


def _parameters(record: Table, n: int) -> Table:
    """Write typical friction and rotor inertias as parameters known beforehand."""
    given = [record[key] for key in ("friction", "rotors") if isinstance(record.get(key), dict)]
    return {
        f"{name}{i + 1}": float(x)
        for figure in given
        for word, name in _PARAMETERS.items()
        if word in figure
        for i, x in enumerate(np.broadcast_to(figure[word], (n,)))
    }


def _controllers(match: Match) -> Table:
    """Write the controllers' axes in the robot's joints."""
    n, axes = len(match.signs), match.preset.data["axes"]
    return {
        target: {
            "axes": entry["names"],
            "matrix": (np.array(entry.get("matrix", np.eye(n)), dtype=float) * match.signs).tolist(),
        }
        for target, entry in (axes.items() if isinstance(axes, dict) else ())
        if target != "source"
    }


def _frames(match: Match) -> list[Table]:
    """Write the maker's and ROS' base frames in the robot's base."""
    frames = []
    for name, entry in match.preset.data["frames"].items():
        if name != "source":
            turn = roll_pitch_yaw(*np.radians(entry.get("rpy_deg", [0.0] * 3)))
            T = match.T_base_preset @ translation(*entry.get("xyz", [0.0] * 3)) @ turn
            xyz, angles = np.round(T[:3, 3], 9) + 0.0, np.round(np.degrees(roll_pitch_yaw_of(T)), 7) + 0.0
            frames.append({"name": name, "link": "base", "xyz": xyz.tolist(), "rpy_deg": angles.tolist()})
    return frames


def _note(match: Match, tables: Table, kept: list[str]) -> str:
    preset, limits = match.preset, {key.split("_")[0] for joint in tables.get("joint", ()) for key in joint["limits"]}
    given = [
        *(key for key in FIGURES if key in limits),
        *tables.get("drive", {}),
        *(key for key in tables if key not in ("joint", "drive")),
    ]
    parts = [
        f"{preset.title} ({preset.name}) by its geometry, to {1e3 * match.distances.max():.1f} mm",
        f"it gives {', '.join(given) or 'nothing that is not stated'}",
        f"unknown are {', '.join(preset.unknown)}" if preset.unknown else "",
        f"stricter in the file, and kept: {', '.join(kept)}" if kept else "",
        'preset = "none" in the robot file or in campaign.toml switches it off',
    ]
    return "; ".join(part for part in parts if part)


def _without_infinity(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinity(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_infinity(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def listed(preset: Preset) -> Table:
    """Write a preset for scripts: its figures with the documents that state them, conflicts, and what is unknown."""
    data = preset.data
    figures = {key: data.get(key, "unknown") for key in FIGURES}
    figures["geometry"] = {key: data[key] for key in ("dh", "origins", "joint_axes", "source") if key in data}
    for key, figure in figures.items():
        if isinstance(figure, dict):
            figures[key] = _without_infinity(figure) | {"source": preset.sources[figure["source"]]}
    head = {"name": preset.name, "title": preset.title, "n_joints": geometry(preset.name).n_joints}
    head |= {"targets": data["targets"], "base": data["base"], "figures": figures}
    return head | {"conflicts": data.get("conflicts", []), "unknown": preset.unknown}
