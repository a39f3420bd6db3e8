"""Robots as text of robot files, with where each figure came from; read back they are the same, which is checked."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import ExcitorError
from excitor.robots.files.overlay import Table
from excitor.robots.files.schema import Description
from excitor.robots.friction import element_rows, friction_model
from excitor.robots.inertia import about_center_of_mass, change_frame, inverse, roll_pitch_yaw_of
from excitor.robots.load import Content, read_content, robot_from_toml, robot_of
from excitor.robots.parameters import layout
from excitor.robots.robot import Capsule, ControllerAxes, Robot
from excitor.robots.tree import Tree

SAME = 1e-12  # relative and absolute: angles go through sines, bodies through their centres of mass
_ELEMENTS = {  # of a URDF, by keys of a joint
    "placement": "<origin>, <axis>", "limits": "<limit>", "link": "<inertial>", "follows": "<mimic>",
}  # fmt: skip
_ASSUMED = {"gravity": "assumed: z is up", "drive": "assumed for a URDF", "friction": "assumed for a URDF"}
_SECTIONS = {"parameters": "<dynamics>", "capsule": "<collision>"}

Comment = Callable[[tuple[str, ...], Table | None, str, Any], str]


def robot_toml(source: str | Path | Robot) -> str:
    """Write a robot, of a file, of the catalogue or in memory, as a whole robot file. ExcitorError where that fails."""
    if isinstance(source, Robot):
        text, robot = toml_text(robot_data(source)), source
    else:
        content = read_content(source)
        robot = robot_of(content)
        text = _text(content, robot)
    lost = differences(robot, robot_from_toml(text, f"{robot.name}.toml"))
    if lost:
        raise ExcitorError(f"{robot.name}: a robot file cannot state its {', '.join(lost)}")
    return text


def _text(content: Content, robot: Robot) -> str:
    """Write what was read, but what no longer applies; a robot file without a base is whole as it stands."""
    named = [Path(source).name for source, _, _ in content.layers]
    if content.urdf is None and len(named) == 1 and content.preset is None:
        return f"# From {_plain(named[0])}, as it stands.\n{content.layers[0][1]}"
    put = "".join(f", with {name} put over it" for name in named[1:])
    head = [f"Written by Excitor {version('excitor')} from {named[0]}{put}."]
    head += [f"Where no comment says otherwise, figures are those of {named[0]}."]
    head += [f"{where}: {sentence}" for where, sentence in content.notes]
    data: Table = ({} if content.urdf is None else {"gravity": [0.0, 0.0, -9.81]}) | content.data
    names = layout(robot).names
    data |= {"parameters": {name: x for name, x in data.get("parameters", {}).items() if name in names}}
    data |= {"assumed_zero": [name for name in data.get("assumed_zero", ()) if name in names]}
    dropped = {"declared_base"} if robot.declared_base is None else set()
    data = {key: value for key, value in data.items() if key not in dropped}
    return "".join(f"# {_plain(line)}\n" for line in head) + toml_text(data, _origins(content))


def _origins(content: Content) -> Comment:
    """Make a comment for each key of the data: the last file that states it, or the URDF's element."""

    def origin(path: tuple[str, ...], entry: Table | None, key: str, part: str | None = None) -> str:
        for source, _, own in reversed(content.layers[1:]):
            if _stated(own, path, entry, key, part):
                return Path(source).name
        if content.applied is not None and _stated(content.applied.tables, path, entry, key, part):
            return content.applied.origin(path, key, part)
        if content.urdf is None or content.urdf.language == "MJCF":
            return ""
        top = (*path, key)[0]
        if top in _ASSUMED and not (top == "gravity" and "gravity" in content.urdf.data):
            return _ASSUMED[top]
        return _ELEMENTS.get(key, "") if top == "joint" else _SECTIONS.get(top, "")

    def comment(path: tuple[str, ...], entry: Table | None, key: str, value: Any) -> str:
        if not isinstance(value, dict) or path != ("joint",):
            return origin(path, entry, key)
        of = {part: origin(path, entry, key, part) for part in value}
        if len(set(of.values())) == 1:
            return next(iter(of.values()))
        return "; ".join(f"{part}: {source or 'the base'}" for part, source in of.items())

    return comment


def _stated(data: Table, path: tuple[str, ...], entry: Table | None, key: str, part: str | None) -> bool:
    """Find whether a file states a key, of a table or of one among several, and part of it."""
    node: Any = data
    for step in path:
        node = node.get(step) if isinstance(node, dict) else None
    if entry is not None:
        same = (lambda other: other["name"] == entry["name"]) if path in (("joint",), ("frame",)) else entry.__eq__
        node = next((other for other in node if same(other)), None) if isinstance(node, list) else None
    if not isinstance(node, dict) or key not in node:
        return False
    return part is None or (isinstance(node[key], dict) and part in node[key])


def toml_text(data: Table, comment: Comment = lambda path, entry, key, value: "") -> str:
    """Write the content of a robot file; `comment(path, entry, key, value)` says what stands behind a line."""
    order = {key: k for k, key in enumerate(Description.model_fields)}
    ordered = dict(sorted(data.items(), key=lambda item: order.get(item[0], len(order))))
    return "\n".join(_section((), ordered, comment)).lstrip("\n") + "\n"


def _section(path: tuple[str, ...], table: Table, comment: Comment) -> Iterator[str]:
    """Write a table: its own keys, then the tables in it, then its lists of tables."""
    nested = {key: value for key, value in table.items() if isinstance(value, dict)}
    lists = {key: value for key, value in table.items() if value and isinstance(value, list)}
    listed = {key: value for key, value in lists.items() if all(isinstance(entry, dict) for entry in value)}
    own = {key: value for key, value in table.items() if key not in nested and key not in listed and value != []}
    if path and own:
        yield from ("", f"[{'.'.join(map(key_of, path))}]")
    yield from (_line(key, value, comment(path, None, key, value)) for key, value in own.items())
    for key in table:
        if key in nested:
            yield from _section((*path, key), nested[key], comment)
        for entry in listed.get(key, ()):
            yield from ("", f"[[{'.'.join(map(key_of, (*path, key)))}]]")
            for name, value in entry.items():
                if value not in ({}, []):
                    yield _line(name, value, comment((*path, key), entry, name, value))


def _line(key: str, value: Any, told: str) -> str:
    return f"{key_of(key)} = {toml_value(value)}" + (f"  # {_plain(told)}" if told else "")


def toml_value(value: Any) -> str:
    """Write a value; tables inline, a matrix a row a line, numbers to the last bit."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key_of(key)} = {toml_value(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        rows = [toml_value(entry) for entry in value]
        if value and all(isinstance(entry, list) for entry in value):
            return "[\n" + "".join(f"    {row},\n" for row in rows) + "]"
        return "[" + ", ".join(rows) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """Write a TOML basic string."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in plain) + '"'


def key_of(name: str) -> str:
    """Write a TOML key."""
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else quoted(name)


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def robot_data(robot: Robot) -> Table:
    """Write a robot in memory as the content of a robot file; ExcitorError says what such a file cannot hold."""
    tree = robot.mechanism
    if not isinstance(tree, Tree):
        raise ExcitorError(f"{robot.name}: a closed chain is written from the file that describes it only; name that")
    params = layout(robot)
    links = _links_of(robot, tree)
    names = _names(robot, tree, links)
    joints = [_joint(robot, tree, j, names, links) for j in range(tree.n_links)]
    known = {params.names[k]: float(robot.chi[k]) for k in np.flatnonzero(robot.known)}
    for j, joint in enumerate(joints):
        if "link" in joint:
            for name in params.names[params.link(j)]:
                del known[name]
    data: Table = {"name": robot.name, "title": robot.title, "gravity": _list(tree.gravity), "joint": joints}
    data |= {"lengths": dict(robot.lengths), "parameters": known, "drive": _drive(robot), "friction": _friction(robot)}
    data |= {"assumed_zero": [params.names[k] for k in np.flatnonzero(robot.assumed_zero)]}
    data |= {"tool": _frame(robot.tool.link, robot.tool.T_link_frame, names)}
    data |= {"frame": [{"name": f.name} | _frame(f.link, f.T_link_frame, names) for f in robot.frames]}
    if robot.payload is not None:
        if robot.payload.link != robot.tool.link:
            raise ExcitorError(f"{robot.name}: the payload hangs on another link than the tool; a file cannot state it")
        data["payload"] = _body(change_frame(robot.payload.phi, inverse(robot.tool.T_link_frame)))
    data["capsule"] = [_capsule(capsule, _link(capsule.link, names)) for capsule in robot.capsules]
    data["ignored_pair"] = [
        {"parts": sorted(parts), "reason": reason} for parts, reason in sorted(robot.ignored_pairs.items(), key=str)
    ]
    data["controllers"] = {name: _controller(axes, robot) for name, axes in robot.controllers.items()}
    if robot.declared_base is not None:
        rows = zip(robot.declared_base.names, robot.declared_base.combination, strict=True)
        forms = {
            name: " + ".join(f"{float(row[k])!r} {params.names[k]}" for k in np.flatnonzero(row)) for name, row in rows
        }
        data["declared_base"] = {"source": robot.declared_base.source, "parameters": forms}
    return {key: value for key, value in data.items() if value not in ({}, [], "")}


def _capsule(capsule: Capsule, link: str) -> Table:
    """Write a volume, and where it comes from unless it was stated."""
    data: Table = {"link": link, "start": _list(capsule.start), "end": _list(capsule.end)}
    data["radius"] = float(capsule.radius)
    if capsule.origin != "stated":
        data["origin"] = capsule.origin
    if capsule.part not in ("", link):
        data["part"] = capsule.part
    if len(capsule.corners):
        data["corners"] = [_list(corner) for corner in capsule.corners]
    return data


def _links_of(robot: Robot, tree: Tree) -> list[int]:
    """Find the link of each coordinate: that of its name, else the first that it moves and no other has taken."""
    taken: list[int] = []
    for i, name in enumerate(tree.joint_names):
        moved = [int(j) for j in np.flatnonzero(tree.coupling[:, i]) if j not in taken]
        own = tree.link_names.index(name) if name in tree.link_names else moved[0] if moved else -1
        if tree.coupling[own, i] == 0.0 or (taken and own < taken[-1]):
            raise ExcitorError(f"{robot.name}: joint {name!r} has no link of its own that comes after those before it")
        taken.append(own)
    return taken


def _names(robot: Robot, tree: Tree, links: list[int]) -> list[str]:
    """Name the links as a file does, after their joints."""
    names = list(tree.link_names)
    for i, j in enumerate(links):
        names[j] = tree.joint_names[i]
    if len(set(names)) < len(names):
        raise ExcitorError(f"{robot.name}: a link is named as another's joint; a file names links after their joints")
    return names


def _joint(robot: Robot, tree: Tree, j: int, names: list[str], links: list[int]) -> Table:
    """Write a link's joint: where it is, what it follows, its limits and its body."""
    slides, own = bool(tree.sliding[j]), links.index(j) if j in links else None
    placement = _placed(tree.before[j]) | {"axis": _list(tree.axis[j])}
    if not np.array_equal(tree.after[j], np.eye(4)):
        placement["after"] = _placed(tree.after[j])
    parent = _link(int(tree.parents[j]), names)
    endless = own is not None and robot.joint_names[own] in robot.continuous
    joint: Table = {"name": names[j], "parent": parent}
    joint["kind"] = "prismatic" if slides else "continuous" if endless else "revolute"
    joint["placement"] = placement
    row = {robot.joint_names[i]: float(tree.coupling[j, i]) for i in np.flatnonzero(tree.coupling[j])}
    if own is None or row != {names[j]: 1.0}:
        joint["follows"] = row
    unit, to_unit = ("m", float) if slides else ("deg", math.degrees)
    if tree.offset[j]:
        joint[f"offset_{unit}"] = to_unit(float(tree.offset[j]))
    if own is not None:
        joint["limits"] = _limits(robot, own, "m" if slides else "rad")
        if own in robot.locked:
            joint[f"locked_{unit}"] = to_unit(robot.locked[own])
    phi, known = robot.chi[10 * j : 10 * j + 10], robot.known[10 * j : 10 * j + 10]
    if known.all() and phi[9] != 0.0:
        joint["link"] = _body(phi)
    return joint


def _limits(robot: Robot, i: int, unit: str) -> Table:
    limits: Table = {}
    if np.isfinite(robot.limits.position[i]).all() and robot.joint_names[i] not in robot.continuous:
        limits[f"position_{unit}"] = _list(robot.limits.position[i])
    for key, suffix in (("velocity", "_s"), ("acceleration", "_s2"), ("jerk", "_s3"), ("torque", None)):
        value = float(getattr(robot.limits, key)[i])
        if math.isfinite(value):
            limits[key if suffix is None else f"{key}_{unit}{suffix}"] = value
    return limits


def _body(phi: FloatArray) -> Table:
    mass, center, inertia = about_center_of_mass(phi)
    return {"mass": mass, "center": _list(center), "inertia": _list(inertia[np.triu_indices(3)])}


def _placed(T: FloatArray) -> Table:
    return {"xyz": _list(T[:3, 3]), "rpy_rad": list(roll_pitch_yaw_of(T))}


def _frame(link: int, T: FloatArray, names: list[str]) -> Table:
    turn = [math.degrees(angle) for angle in roll_pitch_yaw_of(T)]
    return {"link": _link(link, names), "xyz": _list(T[:3, 3]), "rpy_deg": turn}


def _link(link: int, names: list[str]) -> str:
    return "base" if link < 0 else names[link]


def _drive(robot: Robot) -> Table:
    """Write motors, gears, current laws and rotors, every rotor as one of its own."""
    drive, out = robot.drive, Table()
    if drive.ratio_sigma is not None or not np.array_equal(drive.motor_from_joint, np.eye(robot.n_joints)):
        out["motor_from_joint"] = [_list(row) for row in drive.motor_from_joint]
    if np.isfinite(drive.torque_from_current).any():
        out["torque_from_current"] = [_list(row) if np.isfinite(row).all() else [] for row in drive.torque_from_current]
    if drive.current_sigma is not None:
        out["torque_from_current_sigma"] = _list(drive.current_sigma)
    if drive.ratio_sigma is not None:
        out["ratio_sigma"] = _list(drive.ratio_sigma)
    if (drive.efficiency != 1.0).any():
        out["efficiency"] = _list(drive.efficiency)
    return out | {"rotor": [_element(robot, rotor.parameter, rotor.senses, rotor.acts) for rotor in drive.rotors]}


def _friction(robot: Robot) -> Table:
    """Write friction terms, those of one element together, every element as one of its own."""
    elements, terms = [], list(robot.drive.friction)
    while terms:
        term = terms[0]
        rows = element_rows(friction_model(term).element)
        name = term.parameter.removesuffix(rows[0].suffix)
        own, terms = terms[: len(rows)], terms[len(rows) :]
        if [(f"{name}{row.suffix}", row.name) for row in rows] != [(other.parameter, other.model) for other in own]:
            part = f"friction {term.parameter!r} is a part of {rows[0].element!r}"
            raise ExcitorError(f"{robot.name}: {part}; a file states it whole")
        element = _element(robot, name, term.senses, term.acts)
        element |= {"model": rows[0].element, "sign_width": float(term.width), "warm_up": term.warm_up}
        elements.append(element | {"scale": float(term.scale)})
    return {"element": elements}


def _element(robot: Robot, name: str, senses: FloatArray, acts: FloatArray) -> Table:
    rows = {"senses": senses} if np.array_equal(senses, acts) else {"senses": senses, "acts": acts}
    joints = robot.joint_names
    return {"parameter": name} | {
        key: {joints[i]: float(row[i]) for i in np.flatnonzero(row)} for key, row in rows.items()
    }


def _controller(axes: ControllerAxes, robot: Robot) -> Table:
    unit = np.where(robot.mechanism.prismatic, 1e-3, math.pi / 180.0)
    poses = [{"shows": _list(pose.axes / unit), "tool": _list(pose.position)} for pose in axes.poses]
    matrix = [_list(row) for row in axes.matrix]
    return {"axes": list(axes.names), "matrix": matrix, "zero": _list(axes.zero / unit), "pose": poses}


def _list(values: FloatArray) -> list[float]:
    return [float(value) for value in values]


def differences(a: object, b: object, path: str = "") -> list[str]:
    """List the fields in which two robots differ by more than rounding; names of links need not be the same."""
    if is_dataclass(a) and type(a) is type(b):
        pairs = [(field.name, getattr(a, field.name), getattr(b, field.name)) for field in fields(a)]
    elif isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        pairs = [(str(key), a[key], b[key]) for key in a]
    elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        pairs = [(str(k + 1), *pair) for k, pair in enumerate(zip(a, b, strict=True))]
    elif isinstance(a, np.ndarray | float) and isinstance(b, np.ndarray | float):
        same = np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=SAME, atol=SAME, equal_nan=True)
        return [] if same else [path]
    else:
        return [] if a == b else [path]
    inner = [(f"{path}.{key}" if path else key, x, y) for key, x, y in pairs if key != "link_names"]
    return [found for where, x, y in inner for found in differences(x, y, where)]
