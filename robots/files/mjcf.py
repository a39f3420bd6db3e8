"""MJCF files to robots: compiled by MuJoCo (the extra `mujoco`), then read as the URDF that says the same.

What is compiled is a copy with the robot's bodies, joints, shapes, couplings and actuators alone, which names no file:
meshes are read by our own bounded readers and handed over in memory.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from excitor.robots.arrays import FloatArray
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.meshes import find_mesh, mesh_place, read_mesh, stl
from excitor.robots.files.urdf import Reader, Urdf, read_urdf
from excitor.robots.files.xml import parse_xml
from excitor.robots.inertia import inverse, translation

_KEPT = (
    "compiler", "option", "default", "asset", "mesh", "worldbody", "body", "frame", "inertial", "geom", "joint", "site",
    "freejoint", "contact", "exclude", "equality", "actuator", "general", "motor", "position", "velocity", "damper",
    "intvelocity",
)  # fmt: skip
_STRIPPED = ("material", "meshdir", "texturedir", "assetdir", "strippath", "fusestatic", "discardvisual", "builtin")
_REFUSED = {
    "include": "save the compiled model as one file (mujoco.mj_saveLastXML), and load that",
    **dict.fromkeys(("attach", "replicate", "composite", "flexcomp"), "write out the bodies that it makes"),
    **dict.fromkeys(("connect", "weld"), "it closes a chain: state the robot in TOML, with [[closure]]"),
    **dict.fromkeys(("plugin", "extension"), "it runs code of its own; remove it"),
}
_FLANGE = "attachment_site"  # as MuJoCo's public models call the place of the tool
_MOST_ELEMENTS, _MOST_BYTES = 5000, 50_000_000
_SLIDE, _HINGE, _MESH = 2, 3, 7  # of MuJoCo's enumerations
_SHAPES = {2: "sphere", 3: "capsule", 4: "box", 5: "cylinder", 6: "box"}  # a box holds an ellipsoid


def read_mjcf(text: str, source: str | Path) -> Urdf:
    """Write an MJCF file as the content of a robot file; what is not represented is refused or noted by name."""
    reader, root = Reader(source), parse_xml(text, source)
    try:
        import mujoco
    except ImportError:
        raise InvalidRobot(source, ["is MJCF, which MuJoCo reads: pip install excitor[mujoco]"]) from None
    assets: dict[str, bytes] = {}
    paths = _meshes(root, reader)
    for number, (element, path) in enumerate(paths.items()):
        element.attrib |= {"file": f"{number}.stl", "name": element.get("name", path.stem)}
        try:
            assets[f"{number}.stl"] = stl(read_mesh(path)[0])
        except ValueError as error:
            reader.refuse(f"mesh {path.name!r}", str(error))
    _clean(root, reader)
    if sum(map(len, assets.values())) > _MOST_BYTES or len(list(root.iter())) > _MOST_ELEMENTS:
        reader.refuse("<mujoco>", f"has more than {_MOST_BYTES:g} bytes of meshes or {_MOST_ELEMENTS} elements")
    reader.stop_if_refused()
    try:
        with mujoco_warnings() as warned:
            model = mujoco.MjModel.from_xml_string(tostring(root, encoding="unicode"), assets)
    except (ValueError, mujoco.FatalError) as error:
        sentence = f"is not MJCF that MuJoCo compiles: {' '.join(str(error).split())[:300]}"
        raise InvalidRobot(source, [sentence]) from None
    if any("NaN" in each for each in warned):
        raise InvalidRobot(source, [f"holds 'nan' in place of a number, which to state{_nan(root)}"])
    reader.notes.extend(("MuJoCo", f"warns: {' '.join(each.split())[:300]}") for each in warned)
    names = {element.get("name", ""): _beside(path, Path(source)) for element, path in paths.items()}
    excluded = [[one.get(key, "") for key in ("body1", "body2")] for one in root.iterfind("contact/exclude")]
    return _Translation(model, names, reader).urdf(excluded)


@contextmanager
def mujoco_warnings() -> Iterator[list[str]]:
    """Collect what MuJoCo warns of; by itself it prints that, and adds it to MUJOCO_LOG.TXT in the current folder."""
    import mujoco

    warned: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warned.append)
    try:
        yield warned
    finally:
        mujoco.set_mju_user_warning(before)


def _nan(root: Element) -> str:
    """Name attributes that hold a NaN; the words of names may look like one."""
    found = [
        f"<{element.tag}> {element.get('name', '')[:60]!r} {key} {value[:60]!r}"
        for element in root.iter()
        for key, value in element.attrib.items()
        if key != "name" and re.search(r"(?<![\w.])nan(?!\w)", value, re.IGNORECASE)
    ]
    return f": {', '.join(found[:5])}" if found else ""


def mesh_files(source: Path) -> list[tuple[Path, PurePosixPath]]:
    """List the meshes that an MJCF file reads, and where they are found beside a copy of it."""
    root = parse_xml(source.read_text("utf-8-sig"), source)
    return [(path, mesh_place(_beside(path, source))) for path in _meshes(root, Reader(source)).values()]


def _beside(path: Path, source: Path) -> str:
    return Path(os.path.relpath(path, source.parent.resolve())).as_posix()


def _meshes(root: Element, reader: Reader) -> dict[Element, Path]:
    """Find the files of meshes, in the folder that the compiler element names."""
    compiler = root.find("compiler")
    settings = {} if compiler is None else compiler.attrib
    found = {}
    for mesh in root.iterfind("asset/mesh[@file]"):
        name = PurePosixPath(settings.get("meshdir", settings.get("assetdir", "")), mesh.get("file", ""))
        try:
            found[mesh] = find_mesh(str(name), Path(reader.source))
        except ValueError as error:
            reader.refuse(f"mesh {str(name)[-80:]!r}", str(error))
    return found


def _clean(parent: Element, reader: Reader) -> None:
    """Leave out what does not make the robot; refuse what would change it."""
    for child in list(parent):
        named = f"<{child.tag[:40]}> {child.get('name', '')[:60]!r}"
        foreign = parent.tag == "actuator" and not child.get("joint")
        if child.tag in _REFUSED:
            reader.refuse(named, f"is not read; {_REFUSED[child.tag]}")
        elif child.tag not in _KEPT or foreign or child.get("hfield"):
            if foreign or parent.tag == "equality" or child.tag == "tendon":
                reader.notes.append((named, "is left out: only what acts on single joints, or couples two, is read"))
            parent.remove(child)
        for key in (*_STRIPPED, *(child.attrib.keys() - {"gravity"} if child.tag == "option" else ())):
            child.attrib.pop(key, None)
        _clean(child, reader)


class _Translation:
    """A compiled model, and the URDF that says the same, being written."""

    def __init__(self, model: Any, meshes: dict[str, str], reader: Reader) -> None:
        self.model, self.meshes, self.reader = model, meshes, reader
        self.robot = Element("robot", name=(model.names[: model.names.index(b"\0")].decode() or "robot")[:80])
        self.bodies = ["world", *(model.body(b).name or f"body_{b}" for b in range(1, model.nbody))]
        self.joints = [model.joint(j).name or f"joint_{j}" for j in range(model.njnt)]
        self.anchors = np.zeros((model.nbody, 3))  # of the links' frames, in their bodies'
        active = [e for e in range(model.neq) if model.eq_active0[e]]
        self.follows = {int(model.eq_obj1id[e]): (int(model.eq_obj2id[e]), model.eq_data[e, :5]) for e in active}

    def urdf(self, excluded: list[list[str]]) -> Urdf:
        """Write the URDF and read it; gravity, armatures, sites and excluded pairs are added to what it says."""
        model, reader = self.model, self.reader
        _add(self.robot, "link", name=self.bodies[0])
        if model.body_geomnum[0]:
            reader.notes.append(("worldbody", "has shapes of its own, which are not read: state them as [[cell.zone]]"))
        for b in range(1, model.nbody):
            self._body(b)
        taken = {*self.bodies, *self.joints}
        for s in range(model.nsite):
            b, name = int(model.site_bodyid[s]), model.site(s).name
            if name and not {name, f"{name} mount"} & taken:
                T = translation(*-self.anchors[b]) @ _pose(model.site_pos[s], model.site_quat[s])
                self._joint(f"{name} mount", "fixed", (self.bodies[b], name), T)
                _add(self.robot, "link", name=name)
        reader.stop_if_refused()
        urdf = read_urdf(tostring(self.robot, encoding="unicode"), reader.source)
        free = [j for j in range(model.njnt) if j not in self.follows]
        driven = set(model.actuator_trnid[:, 0].tolist())
        remedy = 'if nothing drives it, leave it out of `moving = ["...", ...]`, the joints that move'
        for j in sorted(set(free) - driven) if driven else []:
            reader.notes.append((f"joint {self.joints[j]!r}", f"has no actuator, though others have: {remedy}"))
        armature = {f"Ia{k + 1}": float(model.dof_armature[j]) for k, j in enumerate(free) if model.dof_armature[j]}
        own = {"gravity": model.opt.gravity.tolist(), "parameters": urdf.data.get("parameters", {}) | armature}
        own |= {"tool": {"link": f"{_FLANGE} mount"}} if _FLANGE in urdf.links else {}
        pairs = [{"parts": pair, "reason": "the MJCF file excludes it"} for pair in excluded if set(pair) <= taken]
        notes = [*reader.notes, *(note for note in urdf.notes if not note[0].endswith("origin rpy"))]
        return replace(urdf, data=urdf.data | own | {"ignored_pair": pairs}, notes=tuple(notes), language="MJCF")

    def _body(self, b: int) -> None:
        """Write a body with its joints: several are a chain of links without masses."""
        model, name, parent = self.model, self.bodies[b], int(self.model.body_parentid[b])
        joints = range(model.body_jntadr[b], model.body_jntadr[b] + model.body_jntnum[b])
        T = translation(*-self.anchors[parent]) @ _pose(model.body_pos[b], model.body_quat[b])
        if model.body_gravcomp[b]:
            self.reader.refuse(f"body {name!r} gravcomp", "is a force that no term here stands for; remove it")
        link = self.bodies[parent]
        for j in joints:
            own = name if j == joints[-1] else f"{name} {self.joints[j]}"
            kind = {_HINGE: "revolute", _SLIDE: "prismatic"}.get(int(model.jnt_type[j]))
            if kind is None or model.jnt_stiffness[j]:
                what = "is a spring" if kind else "is free or a ball"
                self.reader.refuse(f"joint {self.joints[j]!r}", f"{what}; expected a hinge or slide without a spring")
                continue
            q, axis, at = model.qpos0[j], model.jnt_axis[j], model.jnt_pos[j] - self.anchors[b]
            turn = [1.0, 0.0, 0.0, 0.0] if kind == "prismatic" else [np.cos(q / 2.0), *(-np.sin(q / 2.0) * axis)]
            T = T @ _pose(at - q * axis * (kind == "prismatic"), turn)
            self._dynamics(self._joint(self.joints[j], kind, (link, own), T), j)
            link, self.anchors[b], T = own, model.jnt_pos[j], np.eye(4)
            if own != name:
                inertial = _add(_add(self.robot, "link", name=own), "inertial")
                _add(inertial, "mass", value=0)
                _add(inertial, "inertia", **dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), 0))
        if not joints:
            self._joint(f"{name} mount", "fixed", (link, name), T)
        self._link(b)

    def _joint(self, name: str, kind: str, links: tuple[str, str], T: FloatArray) -> Element:
        joint = _add(self.robot, "joint", name=name, type=kind)
        _add(joint, "parent", link=links[0])
        _add(joint, "child", link=links[1])
        _origin(joint, T)
        return joint

    def _dynamics(self, joint: Element, j: int) -> None:
        """Write a joint's axis, limits, friction, and what it follows."""
        model = self.model
        _add(joint, "axis", xyz=model.jnt_axis[j])
        if j in self.follows:
            leader, (offset, factor, *curve) = self.follows[j]
            offset += model.qpos0[j] - factor * model.qpos0[leader]
            if leader < 0 or any(curve):
                self.reader.refuse(f"equality of {self.joints[j]!r}", "is no linear function of another joint")
            _add(joint, "mimic", joint=self.joints[leader], multiplier=factor, offset=offset)
            return
        limit = _add(joint, "limit")
        if model.jnt_limited[j]:
            limit.attrib |= {"lower": _text(model.jnt_range[j, 0]), "upper": _text(model.jnt_range[j, 1])}
        elif model.jnt_type[j] == _HINGE:
            joint.set("type", "continuous")
        acts = (model.actuator_trnid[:, 0] == j) & (model.actuator_forcelimited != 0)
        forces = np.abs(model.actuator_forcerange[acts]).max(axis=1) * np.abs(model.actuator_gear[acts, 0])
        own = [np.abs(model.jnt_actfrcrange[j]).max()] if model.jnt_actfrclimited[j] else []
        limit.attrib |= {"effort": _text(min([*forces, *own]))} if [*forces, *own] else {}
        _add(joint, "dynamics", damping=model.dof_damping[j], friction=model.dof_frictionloss[j])

    def _link(self, b: int) -> None:
        """Write a body's inertia, and its shapes: those that collide, or all where none does."""
        model, link, here = self.model, _add(self.robot, "link", name=self.bodies[b]), translation(*-self.anchors[b])
        if model.body_mass[b] > 0.0:
            inertial, (xx, yy, zz) = _add(link, "inertial"), model.body_inertia[b]
            _origin(inertial, here @ _pose(model.body_ipos[b], model.body_iquat[b]))
            _add(inertial, "mass", value=model.body_mass[b])
            _add(inertial, "inertia", ixx=xx, iyy=yy, izz=zz, ixy=0, ixz=0, iyz=0)
        geoms = np.arange(model.body_geomadr[b], model.body_geomadr[b] + model.body_geomnum[b])
        collides = (model.geom_contype[geoms] != 0) | (model.geom_conaffinity[geoms] != 0)
        for g in geoms[collides] if collides.any() else geoms:
            kind, mesh, size = int(model.geom_type[g]), int(model.geom_dataid[g]), model.geom_size[g]
            T = here @ _pose(model.geom_pos[g], model.geom_quat[g])
            if kind not in (*_SHAPES, _MESH):
                self.reader.notes.append((f"body {self.bodies[b]!r}", "has a plane or a field, which is not read"))
                continue
            collision = _add(link, "collision")
            _origin(collision, T if kind != _MESH else T @ inverse(_pose(model.mesh_pos[mesh], model.mesh_quat[mesh])))
            geometry = _add(collision, "geometry")
            if kind == _MESH:
                file = self.meshes.get(model.mesh(mesh).name, "")
                _add(geometry, "mesh", filename=file, scale=model.mesh_scale[mesh])
            elif _SHAPES[kind] == "box":
                _add(geometry, "box", size=2.0 * size)
            else:
                _add(geometry, _SHAPES[kind], radius=size[0], length=2.0 * size[1])


def _pose(position: FloatArray, quaternion: Any) -> FloatArray:
    w, x, y, z = np.asarray(quaternion) / np.linalg.norm(quaternion)
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    T = translation(*position)
    T[:3, :3] += 2.0 * (w * K + K @ K)
    return T


def _origin(element: Element, T: FloatArray) -> None:
    """Write a pose: R = Rz(yaw) Ry(pitch) Rx(roll); at a pitch of a quarter turn roll is 0."""
    R, level = T[:3, :3], np.hypot(T[0, 0], T[1, 0])
    roll, yaw = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(R[1, 0], R[0, 0])
    if level < 1e-6:
        roll, yaw = 0.0, np.arctan2(-R[0, 1], R[1, 1])
    _add(element, "origin", xyz=T[:3, 3], rpy=[roll, np.arctan2(-R[2, 0], level), yaw])


def _add(parent: Element, tag: str, **attributes: Any) -> Element:
    return SubElement(parent, tag, {k: x if isinstance(x, str) else _text(x) for k, x in attributes.items()})


def _text(values: Any) -> str:
    return " ".join(repr(float(x)) for x in np.atleast_1d(values))
