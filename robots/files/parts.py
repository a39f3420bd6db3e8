"""Part of a robot: which of a file's joints move by themselves, which are a gripper's, and whether they branch."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import ValidationError

from excitor.robots.arrays import FloatArray
from excitor.robots.files import schema
from excitor.robots.files.overlay import Table
from excitor.robots.files.toml import Link, Reading, Skeleton, build_skeleton, in_si

_SHORT = 0.1  # m: the stroke of a finger is shorter
_SMALL = 1 / 3  # of the robot's reach: a gripper is smaller


def skeleton_of(data: Table) -> Skeleton | None:
    """Build the skeleton of a robot file's content; None where it cannot be built, which loading reports."""
    try:
        keys = ("name", "joint", "lengths", "moving")
        reading = Reading(schema.Description.model_validate({key: data[key] for key in keys if key in data}), [])
        skeleton = build_skeleton(reading)
    except (ValidationError, OverflowError, RecursionError):
        return None
    return None if reading.problems or data.get("closure") or data.get("platform") else skeleton


def with_friction(data: Table, dynamics: Mapping[str, Mapping[str, float]]) -> Table:
    """Give every joint that moves by itself friction and a rotor; `dynamics` are priors, by joint and prefix."""
    skeleton = skeleton_of(data)
    names = [] if skeleton is None else [joint.name for joint in skeleton.movers]
    known = {f"{prefix}{k + 1}": x for k, name in enumerate(names) for prefix, x in dynamics.get(name, {}).items()}
    drives: Table = {"drive": {"rotors": "motors"}, "friction": {"terms": ["viscous", "coulomb", "offset"]}}
    rest = {key: value for key, value in data.items() if key != "parameters"}
    return rest | drives | ({"parameters": known} if known else {})


def gripper_held(data: Table) -> Table:
    """Hold the joints of grippers in the middle of their ranges.

    A gripper hangs on a link that moves, beyond all joints of the arm: several small branches, in which every joint
    that moves by itself slides by less than 0.1 m or is followed by another one (mimic) in these branches.
    """
    skeleton = skeleton_of(data)
    if skeleton is None:
        return data
    links, names = skeleton.links, {joint.name for joint in skeleton.movers}
    reading = Reading(schema.Description.model_validate({"name": "of", "joint": data["joint"]}), [])
    ranges = {link.joint.name: in_si(link.joint, "", "position", reading) or (0.0, 0.0) for link in links}
    short = {link.joint.name for link in links if link.slides and 0.0 < np.ptp(ranges[link.joint.name]) < _SHORT}
    whole = _depth(links, range(len(links)), np.zeros(3))
    carriers: list[set[int]] = []
    for link in links:
        carriers.append({link.parent, *(carriers[link.parent] if link.parent >= 0 else ())})
    fingers: set[str] = set()
    for body in range(len(links)):
        inner = [j for j in range(len(links)) if body in carriers[j]]
        own = {links[j].joint.name for j in inner} & names
        led = {name for j in inner for name in links[j].joint.follows or () if name != links[j].joint.name}
        roots = [links[j].before[:3, 3] for j in inner if links[j].parent == body]
        if own and len(roots) > 1 and led <= own <= led | short and len(names - own) > 1:
            small = _SMALL * (whole[body] + float(np.linalg.norm(np.mean(roots, axis=0))))
            fingers |= own if max(_depth(links, inner, np.mean(roots, axis=0)).values()) <= small else set()
    joints = []
    for joint in data["joint"]:
        middle = sum(ranges.get(joint["name"], ())) / 2
        key, value = ("held_m", middle) if joint["kind"] == "prismatic" else ("held_deg", math.degrees(middle))
        joints.append(joint | ({key: value} if joint["name"] in fingers else {}))
    return data | {"joint": joints}


def _depth(links: Sequence[Link], chosen: Sequence[int], start: FloatArray) -> dict[int, float]:
    """Sum the steps to each of the chosen links, m: from `start` on the link that they hang on."""
    depth: dict[int, float] = {}
    for j in chosen:
        inside = links[j].parent in depth
        step = links[j].before[:3, 3] - (0.0 if inside else start)
        depth[j] = float(np.linalg.norm(step)) + (depth[links[j].parent] if inside else 0.0)
    return depth


def unclear(data: Table) -> list[str]:
    """Return the joints that are likely to move, of a robot that branches and does not say it; none where it is clear.

    They are those before the first branch if these are an arm, else those of the longest branch.
    """
    skeleton = None if data.get("moving") else skeleton_of(data)
    names = [] if skeleton is None else [joint.name for joint in skeleton.movers]
    ways: list[tuple[str, ...]] = []  # the joints from the base to each link
    for link in () if skeleton is None else skeleton.links:
        above = ways[link.parent] if link.parent >= 0 else ()
        ways.append((*above, link.joint.name) if link.joint.name in names else above)
    ends = [way for way in dict.fromkeys(ways) if not any(way == other[: len(way)] != other for other in ways)]
    if len(ends) < 2:
        return []
    shared, longest = [name for name in names if all(name in way for way in ends)], max(ends, key=len)
    return shared if len(shared) > 2 else list(longest)
