"""Robot files that complete another: the base's tables, with what the file states put over them.

A value replaces the base's. Tables are merged key by key, joints and frames by name; capsules are replaced link by
link, rotors and friction elements parameter by parameter. The geometry, and how far a joint may go, are the base's.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from excitor.robots.errors import did_you_mean

Table = dict[str, Any]

_KEYED = {"joint": "name", "frame": "name", "capsule": "link", "friction.element": "parameter"}
_KEYED["drive.rotor"] = "parameter"
_OF_A_JOINT = ("name", "limits", "link", "locked_deg", "locked_m", "held_deg", "held_m")
_OF_THE_BASE = ("platform", "closure")
_UNITS = {"deg": math.pi / 180.0, "rad": 1.0, "m": 1.0}
_LIMITS = {"position": "{}", "velocity": "{}_s", "acceleration": "{}_s2", "jerk": "{}_s3"}
_ALTERNATIVES = (
    ("ratios", "motor_from_joint", "joint_from_motor"),
    ("signs", "matrix"),
    *(tuple(f"{limit}_{form.format(unit)}" for unit in _UNITS) for limit, form in _LIMITS.items()),
)
_DOUBTS = {"torque_from_current": "torque_from_current_sigma"} | dict.fromkeys(_ALTERNATIVES[0], "ratio_sigma")
_ROUNDING = 1e-4  # a limit is as wide as the base's if it is the same number in degrees, rounded


def expected(name: object, names: Sequence[str]) -> str:
    """Name the nearest of the valid names, or all of them."""
    return did_you_mean(name, names, "") or f"expected one of {list(names)}"


def merged(base: Table, given: Table) -> Table:
    """Put a file's tables over its base's."""
    if given.get("friction") == []:  # none at all: neither the base's terms nor its elements
        given = given | {"friction": {"terms": [], "element": []}}
    return _merged(base, given, "")


def _merged(base: Table, given: Table, path: str) -> Table:
    out = dict(base)
    for key, value in given.items():
        for others in _ALTERNATIVES:
            if key in others:
                for other in set(others) - given.keys():
                    out.pop(other, None)
        of = _DOUBTS.get(key)
        if of is not None and of not in given:
            out.pop(of, None)  # of another law, or of other gears
        old, where = base.get(key), f"{path}.{key}" if path else key
        if isinstance(old, dict) and isinstance(value, dict):
            out[key] = _merged(old, value, where)
        elif where in _KEYED and isinstance(old, list) and value and tables(value, _KEYED[where]):
            out[key] = _merged_lists(old, value, _KEYED[where])
        else:
            out[key] = value
    return out


def _merged_lists(base: list[Table], given: list[Table], identity: str) -> list[Table]:
    """Merge tables of the same name; of capsules, rotors and elements, those given replace the base's."""
    if identity == "name":
        own = {entry["name"]: entry for entry in given}
        kept = [_merged(entry, own.pop(entry["name"], {}), "") for entry in base]
        return [*kept, *own.values()]
    stated = {entry[identity] for entry in given}
    return [*(entry for entry in base if entry[identity] not in stated), *given]


def states_held(given: Table) -> bool:
    """Return True if a file says which joints are held, or which move."""
    joints = given["joint"] if tables(given.get("joint"), "name") else []
    return "moving" in given or any(key in joint for joint in joints for key in ("held_deg", "held_m"))


def tables(value: object, identity: str) -> bool:
    """Return True for a list of tables that all have their identity."""
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(entry.get(identity), str) for entry in value
    )


def by_name(problem: str, data: Table) -> str:
    """Write the key path of a problem with names, as entries have other numbers in the file than in what is merged."""
    found = re.match(r"([a-z.]+)\[(\d+)\]", problem)
    if found is None or found[1] not in _KEYED:
        return problem
    entries: Any = data
    for part in found[1].split("."):
        entries = entries[part]
    name = entries[int(found[2]) - 1].get(_KEYED[found[1]]) if tables(entries, _KEYED[found[1]]) else None
    return problem if name is None else f"{found[1]} {name[:60]!r}{problem[found.end() :]}"


def in_joint_names(given: Table, links: Mapping[str, str], joints: Sequence[str]) -> Table:
    """Replace a URDF's names of links by those of the joints that carry them."""

    def renamed(entry: object) -> object:
        link = entry.get("link") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(link, str) or link in joints or link not in links:
            return entry
        return entry | {"link": links[link]}

    out = dict(given)
    for key in ("frame", "capsule"):
        if isinstance(given.get(key), list):
            out[key] = [renamed(entry) for entry in given[key]]
    return out | ({"tool": renamed(given["tool"])} if "tool" in given else {})


def contradictions(base: Table, given: Table, called: str, links: Mapping[str, str]) -> Iterator[str]:
    """List what a file states against its base `called` so, each with its key path."""
    joints = {entry["name"]: entry for entry in base.get("joint", ()) if tables([entry], "name")}
    for key in _OF_THE_BASE:
        if key in given:
            yield f"{key}: the geometry is {called}'s; change it there, or state the whole robot without a base"
    lengths = given.get("lengths")
    for name in lengths if isinstance(lengths, dict) else ():
        if name not in base.get("lengths", {}):
            has = list(base.get("lengths", {}))
            yield f"lengths.{name[:60]}: {called} has no such length; " + (expected(name, has) if has else "remove it")
    for k, joint in enumerate(given["joint"] if isinstance(given.get("joint"), list) else (), start=1):
        if not tables([joint], "name"):
            yield f"joint[{k}].name: is missing; it says which of {called}'s joints is meant"
        elif joint["name"] not in joints:
            yield f"joint[{k}].name: {called} has no joint {joint['name'][:60]!r}; {expected(joint['name'], [*joints])}"
        else:
            yield from _joint_contradictions(joints[joint["name"]], joint, called)
    for key in ("joint", "frame"):
        names = [entry["name"] for entry in given[key]] if tables(given.get(key), "name") else []
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{key}: {name[:60]!r} is stated {names.count(name)} times; state it once"
    yield from _unknown_links(base, given, called, [*joints, "base", *links])
    for entry in given["frame"] if tables(given.get("frame"), "name") else ():
        if entry["name"] in links:
            yield f"frame {entry['name'][:60]!r}.name: is a link of {called}, which is there; choose another name"


def _unknown_links(base: Table, given: Table, called: str, names: list[str]) -> Iterator[str]:
    platform = base.get("platform", {}).get("name", "platform")
    entries = [("tool", given.get("tool"))]
    for key in ("frame", "capsule"):
        if isinstance(given.get(key), list):
            entries += [(f"{key}[{k}]", entry) for k, entry in enumerate(given[key], start=1)]
    for path, entry in entries:
        link = entry.get("link") if isinstance(entry, dict) else None
        if isinstance(link, str) and link not in (*names, platform):
            yield f"{path}.link: {called} has no joint or link {link[:60]!r}; {expected(link, names)}"


def _joint_contradictions(base: Table, given: Table, called: str) -> Iterator[str]:
    where = f"joint {base['name']!r}"
    for key in given.keys() - set(_OF_A_JOINT):
        hint = did_you_mean(key, _OF_A_JOINT) if key not in base else ""
        sentence = f"the joint's place and kind are {called}'s, to be changed there"
        yield f"{where}.{key[:60]}: {sentence}; expected {', '.join(_OF_A_JOINT[1:])}{hint}"
    own, of_base = given.get("limits"), base.get("limits", {})
    if not isinstance(own, dict):
        return
    for limit in ("position", "velocity", "torque"):
        (stated, key), (widest, base_key) = (_in_si(limits, limit) for limits in (own, of_base))
        if _wider(stated, widest):
            sentence = f"is {own[key]}, wider than {called}'s {base_key} = {of_base[base_key]}"
            yield f"{where}.limits.{key}: {sentence}; an overlay may make a limit tighter only"


def _in_si(limits: Table, limit: str) -> tuple[Any, str]:
    if limit == "torque":
        return limits.get(limit), limit
    for unit, factor in _UNITS.items():
        key = f"{limit}_{_LIMITS[limit].format(unit)}"
        value = limits.get(key)
        if isinstance(value, list) and all(isinstance(x, int | float) for x in value):
            return [factor * x for x in value], key
        if isinstance(value, int | float):
            return factor * value, key
    return None, limit


def _wider(stated: Any, widest: Any) -> bool:
    """Compare a bound, or lowest and highest, with the base's; what is not stated, or no number, is not judged here."""
    if isinstance(stated, list) and isinstance(widest, list) and len(stated) == len(widest) == 2:
        room = _ROUNDING * max(1.0, *map(abs, widest))
        return bool(stated[0] < widest[0] - room or stated[1] > widest[1] + room)
    numbers = all(isinstance(x, int | float) for x in (stated, widest))
    return numbers and bool(stated > widest * (1.0 + _ROUNDING))
