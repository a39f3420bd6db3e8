"""Triangles of mesh files (STL, OBJ, COLLADA), found beside the URDF that names them.

Own readers, because all that is needed is where the surface is: sizes are bounded, no document types, no materials,
nothing fetched, no file outside the folder of the URDF's package.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

import numpy as np

from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.bounded import read_bounded
from excitor.robots.files.folders import ALLOW, allowed_folders
from excitor.robots.files.xml import parse_xml

LARGEST_MESH = 20_000_000  # bytes
MOST_TRIANGLES = 400_000
LONGEST, SHORTEST = 20.0, 5e-4  # m: beyond, the scale is wrong
_LEVELS = 4  # folders above the URDF's that may hold its package
_MOST_NODES = 10_000  # of a COLLADA scene, instances counted
_FOLDERS = {"urdf", "robots", "xacro", "model", "models"}  # of a package that hold URDF files
_STL = np.dtype([("normal", "<f4", 3), ("vertex", "<f4", (3, 3)), ("attribute", "<u2")])
_PRIMITIVES = ("triangles", "polylist", "polygons", "trifans", "tristrips")


def find_mesh(name: str, urdf: Path) -> Path:
    """Find the file of a mesh's name; ValueError, a sentence, where there is none or it lies outside the package.

    A path is sought from the URDF's folder. The name `package://p/a/b.stl` (or `model://`, `file://`) is sought beside
    the URDF and in the folders above it, up to the one that holds its package: p/a/b.stl, then a/b.stl.
    """
    place = mesh_place(name)
    named = place.parts if name.startswith(("package://", "model://")) else ()
    folders = _package_folders(urdf.parent.resolve(), named)
    relative = "://" not in name
    tries = [folders[0] / name] if relative else []
    starts = 1 if relative else max(len(place.parts) - 1, 1)
    tries += [one.joinpath(*place.parts[k:]) for one in (*folders, *allowed_folders()) for k in range(starts)]
    outside = False
    for path in tries:
        whole = path.resolve()
        if not any(whole.is_relative_to(one) for one in (folders[-1], *allowed_folders())):
            outside = True
        elif whole.is_file():
            return whole
    if outside and relative:
        raise ValueError(f"lies outside {folders[-1]}{ALLOW}")
    raise ValueError(f"is not found beside the URDF or in the folders up to {folders[-1]}{ALLOW}")


def mesh_place(name: str) -> PurePosixPath:
    """Return where a mesh is found beside a copy of its URDF; ValueError, a sentence, if that is no path."""
    scheme, mark, rest = name.partition("://")
    parts = [part for part in PurePosixPath(unquote(rest) if mark else name).parts if part not in ("/", "..", ".")]
    if (mark and scheme not in ("package", "model", "file")) or set(name) & set("\0\\") or not parts:
        raise ValueError("is no path that is read; expected package://…, or a path relative to the URDF with /")
    return PurePosixPath(*parts)


def _package_folders(folder: Path, parts: Sequence[str]) -> list[Path]:
    """List the folders from the URDF's to the one that holds its package; only the URDF's where there is none."""
    above = [folder, *folder.parents][:_LEVELS]
    for k, one in enumerate(above[:-1]):
        named = one.name in parts or (one / "package.xml").is_file() or (k == 1 and folder.name in _FOLDERS)
        if named and above[k + 1] != one.parent.parent:
            return above[: k + 2]
    return [folder]


def read_mesh(path: Path) -> tuple[FloatArray, str]:
    """Read the triangles of a mesh, m, (n, 3, 3), and a remark; ValueError, a sentence, where that fails.

    Vertices that no face uses are triangles without extent.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"is a {path.suffix[:20] or 'file without ending'}; expected .stl, .obj or .dae")
    try:
        if path.stat().st_size > LARGEST_MESH:
            raise ValueError(f"has {path.stat().st_size / 1e6:.0f} MB, more than {LARGEST_MESH / 1e6:.0f}; simplify it")
        triangles, remark = reader(read_bounded(path, LARGEST_MESH))
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except InvalidRobot as error:
        raise ValueError(f"is damaged: {'; '.join(error.problems)}; export it again") from None
    if len(triangles) > MOST_TRIANGLES:
        raise ValueError(f"has {len(triangles)} triangles, more than {MOST_TRIANGLES}; simplify it")
    if not len(triangles) or not np.isfinite(triangles).all():
        what = "coordinates that are not finite" if len(triangles) else "no triangles"
        raise ValueError(f"is damaged: it has {what}; export it again")
    return triangles, remark


def check_size(triangles: FloatArray) -> None:
    """Raise ValueError, a sentence, where no part of a robot is that large or small."""
    extent = float(np.ptp(triangles.reshape(-1, 3), axis=0).max())
    if not (extent < LONGEST and np.abs(triangles).max() < LONGEST):
        sentence = f'reaches {np.abs(triangles).max():.3g} m; is its unit mm, and scale="0.001 0.001 0.001" missing?'
        raise ValueError(sentence)
    if extent < SHORTEST:
        raise ValueError(f"is {1e3 * extent:.2g} mm large; correct its scale")


def _stl(data: bytes) -> tuple[FloatArray, str]:
    """Read STL: binary where the length agrees with the count of triangles, else text."""
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if count >= 0 and len(data) == 84 + 50 * count:
        return np.frombuffer(data, _STL, count, 84)["vertex"].astype(float), ""
    if not data.lstrip()[:5].lower() == b"solid" or b"\0" in data[:1000]:
        raise ValueError(f"is damaged: {len(data)} bytes do not hold the triangles that it announces; export it again")
    words = re.findall(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)", data)
    facets, ends = len(re.findall(rb"\bendfacet\b", data)), len(re.findall(rb"\bendsolid\b", data))
    if len(words) != 3 * facets or not ends:
        raise ValueError(f"is damaged: it has {len(words)} vertices in {facets} facets, or no end; export it again")
    return _numbers([word for row in words for word in row]).reshape(-1, 3, 3), ""


def stl(triangles: FloatArray) -> bytes:
    """Write triangles (n, 3, 3) with an area as binary STL."""
    edges = triangles[:, 1:] - triangles[:, :1]
    flat = np.zeros(int(np.count_nonzero(np.cross(edges[:, 0], edges[:, 1]).any(axis=1))), _STL)
    flat["vertex"] = triangles[np.cross(edges[:, 0], edges[:, 1]).any(axis=1)]
    return bytes(80) + len(flat).to_bytes(4, "little") + flat.tobytes()


def _obj(data: bytes) -> tuple[FloatArray, str]:
    """Read the vertices and faces of an OBJ file."""
    points: list[str] = []
    faces = []
    for line in _text(data).replace("\\\n", " ").splitlines():
        key, *words = line.split()[:MOST_TRIANGLES] or [""]
        if key == "v":
            if len(words) < 3:
                raise ValueError(f"is damaged: the vertex {line[:60]!r} has fewer than 3 numbers; export it again")
            points += words[:3]
        elif key == "f":
            n = len(points) // 3
            corners = [int(index) for index in _numbers([word.partition("/")[0] for word in words])]
            faces.append([index - 1 if index > 0 else index + n if index < 0 else -1 for index in corners])
    return _soup(_numbers(points).reshape(-1, 3), _fans(faces)), ""


def _collada(data: bytes) -> tuple[FloatArray, str]:
    """Read the geometry of a COLLADA scene with its transforms and unit.

    Readers differ on whether they turn what is not z up (COLLADA does, RViz does not), so that it is taken both ways.
    """
    root = parse_xml(_text(data), "COLLADA")
    unit = root.find("asset/unit")
    metre = 1.0 if unit is None else float(_numbers([unit.get("meter", "1")])[0])
    ids = {element.get("id", ""): element for element in root.iter() if element.get("id")}
    parts = [geometry @ T[:3, :3].T + T[:3, 3] for geometry, T in _instances(root, ids)]
    triangles = metre * np.concatenate(parts) if parts else np.zeros((0, 3, 3))
    up = (root.findtext("asset/up_axis") or "Y_UP").strip().upper()
    if up == "Z_UP":
        return triangles, ""
    x, y, z = np.moveaxis(triangles, -1, 0)
    turned = np.stack((x, -z, y) if up == "Y_UP" else (-z, y, x), axis=-1)
    said = f"its up axis is {up[:10]}, which some readers turn to z and others do not: both are covered; export it z up"
    return np.concatenate([triangles, turned]), said


def _instances(root: Element, ids: Mapping[str, Element]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Walk a scene: the triangles of each geometry in it, and the transform that places them."""
    scene = root.find("scene/instance_visual_scene")
    tops = [_target(scene, ids)] if scene is not None else root.findall("library_visual_scenes/visual_scene")
    waiting = [(top, np.eye(4)) for top in tops]
    read: dict[str, FloatArray] = {}
    seen, total = 0, 0
    while waiting:
        node, T = waiting.pop()
        T = T @ _transform(node)
        for child in node:
            if child.tag == "node":
                waiting.append((child, T))
            elif child.tag == "instance_node":
                waiting.append((_target(child, ids), T))
            elif child.tag == "instance_geometry":
                key = child.get("url", "")
                if key not in read:
                    read[key] = _geometry(_target(child, ids), ids)
                total += len(read[key])
                yield read[key], T
        seen += 1
        if seen + len(waiting) > _MOST_NODES or total > MOST_TRIANGLES:
            raise ValueError(f"has more than {_MOST_NODES} nodes or {MOST_TRIANGLES} triangles; simplify it")


def _target(element: Element, ids: Mapping[str, Element], key: str = "url") -> Element:
    name = element.get(key, "")
    if not name.startswith("#") or name[1:] not in ids:
        sentence = f"is damaged: <{element.tag[:40]}> refers to {name[:60]!r}, which is not in it; export it again"
        raise ValueError(sentence)
    return ids[name[1:]]


def _transform(node: Element) -> FloatArray:
    """Multiply a node's transforms in their order."""
    whole = np.eye(4)
    for child in node:
        if child.tag not in _TRANSFORMS:
            continue
        count, build = _TRANSFORMS[child.tag]
        values = _numbers((child.text or "").split())
        if len(values) != count:
            raise ValueError(f"is damaged: <{child.tag}> has {len(values)} numbers, expected {count}; export it again")
        whole = whole @ build(values)
    return whole


def _rotate(values: FloatArray) -> FloatArray:
    """Rotate about an axis by an angle in degrees: R = 1 + sin a K + (1 - cos a) K²."""
    length = float(np.linalg.norm(values[:3]))
    x, y, z = values[:3] / (length or 1.0)
    K, angle = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]), math.radians(values[3])
    T = np.eye(4)
    T[:3, :3] += math.sin(angle) * K + (1.0 - math.cos(angle)) * K @ K
    return T


def _translate(values: FloatArray) -> FloatArray:
    T = np.eye(4)
    T[:3, 3] = values
    return T


_TRANSFORMS: dict[str, tuple[int, Callable[[FloatArray], FloatArray]]] = {
    "matrix": (16, lambda values: values.reshape(4, 4)),
    "translate": (3, _translate),
    "rotate": (4, _rotate),
    "scale": (3, lambda values: np.diag([*values, 1.0])),
}


def _geometry(geometry: Element, ids: Mapping[str, Element]) -> FloatArray:
    """Read the triangles of a COLLADA geometry, (n, 3, 3)."""
    parts = []
    for mesh in geometry.findall("mesh"):
        given = mesh.find("vertices/input[@semantic='POSITION']")
        if given is None:
            raise ValueError("is damaged: a <mesh> has no positions; export it again")
        source = _target(given, ids, "source")
        values = _numbers((source.findtext("float_array") or "").split())
        accessor = source.find("technique_common/accessor")
        stride = 3 if accessor is None else _count(accessor, "stride", 1)
        if stride < 3 or len(values) % stride:
            raise ValueError(f"is damaged: {len(values)} positions come in groups of {stride}; export it again")
        faces = [_faces(primitive) for primitive in mesh if primitive.tag in _PRIMITIVES]
        points = values.reshape(-1, stride)[:, :3]
        parts.append(_soup(points, np.concatenate([np.zeros((0, 3), dtype=np.int64), *faces])))
    return np.concatenate(parts) if parts else np.zeros((0, 3, 3))


def _faces(primitive: Element) -> IntArray:
    """Read the triangles of a primitive as indices of vertices, (n, 3); polygons become fans."""
    offsets = {entry.get("semantic"): _count(entry, "offset", 0) for entry in primitive.findall("input")}
    stride, at = max(offsets.values(), default=0) + 1, offsets.get("VERTEX", 0)
    if stride > 100:
        raise ValueError(f"is damaged: <{primitive.tag}> has {stride} indices a corner; export it again")
    lists = [_numbers((p.text or "").split()).astype(np.int64) for p in primitive.findall("p")]
    corners = [indices[: len(indices) // stride * stride].reshape(-1, stride)[:, at] for indices in lists]
    if primitive.tag == "triangles":
        return np.concatenate(
            [np.zeros((0, 3), dtype=np.int64), *(c[: len(c) // 3 * 3].reshape(-1, 3) for c in corners)]
        )
    if primitive.tag == "tristrips":
        return np.concatenate([np.stack([c[:-2], c[1:-1], c[2:]], axis=1) for c in corners if len(c) > 2])
    if primitive.tag == "polylist" and corners:
        counts = _numbers((primitive.findtext("vcount") or "").split()).astype(np.int64)
        if counts.sum() != len(corners[0]) or (counts < 0).any():
            raise ValueError("is damaged: a <polylist> counts other corners than it has; export it again")
        corners = np.split(corners[0], np.cumsum(counts)[:-1])
    return _fans([list(polygon) for polygon in corners])


def _count(element: Element, key: str, default: int) -> int:
    text = element.get(key, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"is damaged: {key} is {text[:40]!r}, expected a number; export it again")
    return int(text)


def _fans(polygons: Sequence[Sequence[int]]) -> IntArray:
    """Divide polygons into triangles that share their first corner, (n, 3)."""
    found = [(one[0], one[k], one[k + 1]) for one in polygons for k in range(1, len(one) - 1)]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def _soup(points: FloatArray, faces: IntArray) -> FloatArray:
    """Place triangles; a vertex that no face uses is one without extent."""
    if len(faces) and not (faces.min() >= 0 and faces.max() < len(points)):
        raise ValueError(f"is damaged: a face refers to a vertex that is not among the {len(points)}; export it again")
    alone = np.setdiff1d(np.arange(len(points)), faces)
    return np.asarray(points[np.concatenate([faces, np.repeat(alone[:, None], 3, axis=1)])])


def _numbers(words: Sequence[str | bytes]) -> FloatArray:
    try:
        values = np.array(words, dtype=float) if words else np.zeros(0)
    except ValueError as error:
        raise ValueError(f"is damaged: {str(error)[:100]}; export it again") from None
    if not (np.abs(values) < 1e9).all():
        raise ValueError("is damaged: it has numbers that are not finite, or above 1e9; export it again")
    return values


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is damaged: byte {error.start} is not UTF-8 text; export it again") from None


_READERS = {".stl": _stl, ".obj": _obj, ".dae": _collada}
