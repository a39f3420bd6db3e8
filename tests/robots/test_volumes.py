"""Volumes from collision meshes: readers, capsules that contain what they read, pairs that are left out."""

import struct
import time

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from excitor.experiments.campaign import open_campaign
from excitor.experiments.init import begin
from excitor.experiments.plan import design
from excitor.experiments.setup import set_up, settings_of
from excitor.robots import cell
from excitor.robots.base import random_motion
from excitor.robots.cell import Scene, clearances, scene_rows, unchecked_pairs
from excitor.robots.files.meshes import LARGEST_MESH, find_mesh, read_mesh
from excitor.robots.load import load, load_with_notes
from excitor.robots.volumes import cover_triangles, hull_gap
from tests.meshes import (
    PANDA,
    PUBLIC,
    UR5,
    Meshes,
    bent_tube,
    box,
    cylinder,
    deepest,
    mesh_arm,
    volume_ratio,
    write_stl,
)

public = pytest.mark.skipif(not PUBLIC.is_dir(), reason=f"the public robot files are not in {PUBLIC}")


SHAPES = {
    "box": box(0.3, 0.2, 0.1),
    "rod": box(0.6, 0.06, 0.05),
    "cylinder": cylinder(0.08, 0.4),
    "disc": cylinder(0.1, 0.06),
    "bent tube": bent_tube(),
    "turned": box(0.5, 0.1, 0.1) @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0],
    "l": np.concatenate([box(0.4, 0.1, 0.1), np.add(box(0.1, 0.1, 0.4), [0.2, 0.0, 0.2])]),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_capsules_contain_the_whole_surface_in_little_volume(shape):
    capsules = cover_triangles(shape)
    assert 1 <= len(capsules) <= 4
    shares = np.random.default_rng(1).dirichlet(np.ones(3), size=len(shape))
    points = np.concatenate([shape.reshape(-1, 3), np.einsum("nk,nkx->nx", shares, shape)])
    assert deepest(points, capsules) <= 0.0
    assert volume_ratio(shape, capsules) <= 2.6
    again = cover_triangles(shape + 0.0)
    assert all(a.radius == b.radius and np.array_equal(a.start, b.start) for a, b in zip(capsules, again, strict=True))


def test_a_part_of_a_mesh_lies_in_the_hull_that_its_capsule_remembers():
    shape = SHAPES["l"]
    capsules = cover_triangles(shape)
    assert len(capsules) >= 2
    for capsule in capsules:
        assert deepest(capsule.corners, [capsule]) <= 0.0
    hulls = [ConvexHull(capsule.corners).equations for capsule in capsules]
    outside = [(shape.reshape(-1, 3) @ h[:, :3].T + h[:, 3]).max(axis=1) for h in hulls]
    assert np.min(outside, axis=0).max() < 1e-9


@pytest.mark.parametrize("flat", [np.zeros((1, 3, 3)), box(0.3, 0.2, 0.1) * [1, 1, 0], box(0.3, 0.2, 0.1) * [1, 0, 0]])
def test_points_lines_and_plates_have_capsules_too(flat):
    assert deepest(flat.reshape(-1, 3), cover_triangles(flat)) <= 0.0


def test_hulls_that_stay_apart_and_hulls_that_meet():
    a, b = box(0.2, 0.2, 0.2).reshape(-1, 3), box(0.2, 0.2, 0.2).reshape(-1, 3)
    T = np.tile(np.eye(4), (50, 1, 1))
    T[:, :3, 3] = np.random.default_rng(0).uniform([-1, -1, 0.25], [1, 1, 2], (50, 3))
    assert 0.002 <= hull_gap(a, b, T, 0.002) <= T[:, 2, 3].min()
    T[17, :3, 3] = [0.0, 0.1, 0.19]
    assert hull_gap(a, b, T, 0.002) == 0.0
    T[17, :3, 3] = [0.0, 0.0, 0.2015]  # apart, but by less than what counts
    assert hull_gap(a, b, T, 0.002) == 0.0


def write_ascii(path, triangles):
    facets = [
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {float(x)!r} {float(y)!r} {float(z)!r}\n" for x, y, z in t)
        + "endloop\nendfacet\n"
        for t in triangles
    ]
    path.write_text("solid made\n" + "".join(facets) + "endsolid made\n")


def write_obj(path, triangles):
    points = "".join(f"v {float(x)!r} {float(y)!r} {float(z)!r}\nvn 0 0 1\n" for x, y, z in triangles.reshape(-1, 3))
    n = 3 * len(triangles)
    faces = "".join(f"f {k + 1}//1 {k + 2}//1 {k - n + 2}//1\n" for k in range(0, n, 3))
    path.write_text("# made\no part\n" + points + faces)


DAE = """<?xml version="1.0" encoding="utf-8"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit name="x" meter="{unit}"/><up_axis>{up}</up_axis></asset>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="pa" count="{count}">{numbers}</float_array>
<technique_common><accessor source="#pa" count="{n}" stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="{n}"><input semantic="VERTEX" source="#v" offset="0"/>
<input semantic="NORMAL" source="#p" offset="1"/>
<p>{indices}</p></triangles></mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node>{transform}
<node><instance_geometry url="#g"/></node></node></visual_scene>
</library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


def dae(triangles, unit="1", up="Z_UP", transform=""):
    points = triangles.reshape(-1, 3)
    numbers = " ".join(repr(float(x)) for x in points.ravel())
    indices = " ".join(f"{k} {k}" for k in range(len(points)))
    fields = {"count": points.size, "n": len(points) // 3, "numbers": numbers, "indices": indices}
    return DAE.format(unit=unit, up=up, transform=transform, **fields)


def sorted_points(triangles):
    return np.unique(triangles.reshape(-1, 3).round(6), axis=0)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.stl", write_stl),
        ("b.STL", write_ascii),
        ("c.obj", write_obj),
        ("d.dae", lambda path, triangles: path.write_text(dae(triangles))),
    ],
)
def test_every_format_gives_the_same_triangles(tmp_path, name, write):
    shape = SHAPES["bent tube"]
    write(tmp_path / name, shape)
    triangles, remark = read_mesh(tmp_path / name)
    assert not remark
    assert len(triangles) == len(shape)
    np.testing.assert_allclose(sorted_points(triangles), sorted_points(shape), atol=2e-6)


def test_a_collada_scene_is_placed_by_its_transforms_and_unit(tmp_path):
    path, shape = tmp_path / "a.dae", box(30, 20, 10)
    turn = "<translate>0 0 50</translate><rotate>0 0 1 90</rotate><scale>2 1 1</scale>"
    path.write_text(dae(shape, unit="0.01", transform=turn))
    expected = 0.01 * ((shape * [2, 1, 1])[..., [1, 0, 2]] * [-1, 1, 1] + [0, 0, 50])
    np.testing.assert_allclose(sorted_points(read_mesh(path)[0]), sorted_points(expected), atol=1e-9)
    path.write_text(dae(shape, transform="<matrix>1 0 0 5 0 1 0 6 0 0 1 7 0 0 0 1</matrix>"))
    np.testing.assert_allclose(read_mesh(path)[0], np.add(shape, [5, 6, 7]), atol=1e-9)


def test_a_mesh_that_is_not_z_up_is_covered_turned_and_as_it_is(tmp_path):
    path, shape = tmp_path / "a.dae", np.add(box(0.3, 0.2, 0.1), [0, 0.2, 0.3])
    path.write_text(dae(shape, up="Y_UP"))
    triangles, remark = read_mesh(path)
    assert "Y_UP" in remark
    both = np.concatenate([shape, np.stack([shape[..., 0], -shape[..., 2], shape[..., 1]], axis=-1)])
    np.testing.assert_allclose(sorted_points(triangles), sorted_points(both), atol=1e-9)


def test_polygons_and_vertices_that_no_face_uses_are_contained(tmp_path):
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 3\nf 1 2 \\\n 3 4\n")
    triangles, _ = read_mesh(path)
    assert sorted_points(triangles).tolist() == [[0, 0, 0], [0, 0, 3], [0, 1, 0], [1, 0, 0], [1, 1, 0]]


BOMB = (
    dae(box(1, 1, 1))
    .replace(
        "<library_visual_scenes>",
        "<library_nodes>"
        + "".join(f'<node id="n{k}">' + f'<instance_node url="#n{k + 1}"/>' * 20 + "</node>" for k in range(12))
        + '<node id="n12"><instance_geometry url="#g"/></node></library_nodes><library_visual_scenes>',
    )
    .replace(
        '<instance_geometry url="#g"/></node></node></visual_scene>',
        '<instance_node url="#n0"/></node></node></visual_scene>',
    )
)

HOSTILE = {
    "empty.stl": (b"", "is damaged"),
    "text.stl": (b"hello, this is no mesh", "is damaged"),
    "short.stl": (b"x" * 80 + struct.pack("<I", 5) + b"\0" * 100, "do not hold the triangles that it announces"),
    "claims.stl": (b"x" * 80 + struct.pack("<I", 2**32 - 1) + b"\0" * 50, "do not hold the triangles"),
    "nan.stl": (b"x" * 80 + struct.pack("<I", 1) + struct.pack("<12f", *[float("nan")] * 12) + b"\0\0", "not finite"),
    "none.stl": (b"x" * 80 + struct.pack("<I", 0), "no triangles"),
    "half.stl": (b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n", "or no end"),
    "words.stl": (b"solid a\nvertex a b c\nvertex 0 0 0\nvertex 1 0 0\nendfacet\nendsolid", "is damaged"),
    "far.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "not among the 3"),
    "zero.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "not among the 3"),
    "huge.obj": (b"v 1e300 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "above 1e9"),
    "two.obj": (b"v 0 0\n", "fewer than 3 numbers"),
    "latin.obj": (b"v 0 0 0 # \xff\xfe\n", "is not UTF-8"),
    "doctype.dae": (b'<!DOCTYPE a [<!ENTITY b "c">]><COLLADA/>', "document type"),
    "broken.dae": (b"<COLLADA><asset>", "is not XML"),
    "bomb.dae": (BOMB.encode(), "nodes or"),
    "circle.dae": (dae(box(1, 1, 1)).replace('url="#g"', 'url="#s"').encode(), "no triangles"),
    "lost.dae": (dae(box(1, 1, 1)).replace('url="#g"', 'url="http://a/b"').encode(), "refers to 'http://a/b'"),
    "index.dae": (dae(box(1, 1, 1)).replace("<p>0 0", "<p>77777 0").encode(), "not among the"),
    "stride.dae": (dae(box(1, 1, 1)).replace('stride="3"', 'stride="-3"').encode(), "stride is '-3'"),
    "offset.dae": (dae(box(1, 1, 1)).replace('offset="1"', 'offset="999999999"').encode(), "indices a corner"),
    "matrix.dae": (dae(box(1, 1, 1), transform="<matrix>1 2</matrix>").encode(), "expected 16"),
    "deep.dae": (b"<COLLADA>" + b"<node>" * 5000, "nest deeper"),
    "shell.py": (b"import os", "expected .stl, .obj or .dae"),
    "large.stl": (b"\0" * (LARGEST_MESH + 1), "simplify it"),
    "mm.stl": (None, 'scale="0.001 0.001 0.001"'),
    "tiny.stl": (None, "correct its scale"),
}
URDF = """<robot name="r"><link name="base"/><link name="upper"><inertial><mass value="2"/>
<inertia ixx="0.03" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.01"/></inertial>
<collision><origin xyz="{xyz}" rpy="0 0 {yaw}"/>
<geometry><mesh filename="{mesh}"{scale}/></geometry></collision>{more}</link>
<link name="fore"><inertial><origin xyz="0.3 0 0"/><mass value="2"/>
<inertia ixx="0.03" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.01"/></inertial>
</link><joint name="a" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
<limit lower="-2" upper="2" velocity="2" effort="40"/></joint>
<joint name="b" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0 0 0.9"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" velocity="2" effort="20"/></joint></robot>"""


def urdf(mesh, xyz="0 0 0", yaw="0", scale="", more=""):
    return URDF.format(mesh=mesh, xyz=xyz, yaw=yaw, scale=f' scale="{scale}"' if scale else "", more=more)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_mesh_that_cannot_be_read_is_reported_and_a_volume_assumed(tmp_path, name):
    content, words = HOSTILE[name]
    if content is None:
        write_stl(tmp_path / name, box(300, 200, 100) if name == "mm.stl" else box(1e-4, 1e-4, 1e-4))
    else:
        (tmp_path / name).write_bytes(content)
    path = tmp_path / "r.urdf"
    path.write_text(urdf(name, more='<collision><geometry><box size="0.01 0.01 0.01"/></geometry></collision>'))
    start = time.process_time()
    robot, notes = load_with_notes(path)
    assert time.process_time() - start < 5.0
    (said,) = (sentence for where, sentence in notes if where == "link 'upper' collision")
    assert words in said
    assert name in said
    upper = [(capsule.origin, capsule.radius) for capsule in robot.capsules if capsule.link == 0]
    assert ("assumed", pytest.approx(0.09)) in upper  # a tenth of the reach; the small box covers no link


def test_scale_and_origin_place_a_mesh(tmp_path):
    write_stl(tmp_path / "m.stl", np.add(box(300, 200, 100), [0, 0, 200]))
    (tmp_path / "r.urdf").write_text(urdf("m.stl", "1 2 3", "1.5707963267948966", "0.001 -0.001 0.002"))
    robot = load(tmp_path / "r.urdf")
    placed = np.add(box(0.3, 0.2, 0.2), [0, 0, 0.4])[..., [1, 0, 2]] * [-1, 1, 1] + [1, 2, 3]
    fitted = [capsule for capsule in robot.capsules if capsule.origin == "mesh"]
    assert {capsule.part for capsule in fitted} == {"upper"}
    assert deepest(placed.reshape(-1, 3), fitted) <= 1e-7  # as STL has 32 bits


PLACES = {
    "m.stl": ("pkg/urdf/m.stl", True),
    "../meshes/m.stl": ("pkg/meshes/m.stl", True),
    "package://pkg/meshes/m.stl": ("pkg/meshes/m.stl", True),
    "package://other/meshes/m.stl": ("other/meshes/m.stl", True),
    "package://lost/robots/pkg/meshes/m.stl": ("pkg/meshes/m.stl", True),
    "model://pkg/meshes/a%20b.stl": ("pkg/meshes/a b.stl", True),
    "../../other/m.stl": ("other/m.stl", True),
    "../../../m.stl": ("../m.stl", False),
    "package://../../m.stl": ("../m.stl", False),
    "http://a.b/m.stl": ("pkg/urdf/m.stl", False),
    "package://pkg/link.stl": ("pkg/link.stl", False),
    "..\\meshes\\m.stl": ("pkg/meshes/m.stl", False),
}


@pytest.mark.parametrize("name", PLACES)
def test_meshes_are_found_beside_the_urdf_and_never_outside_its_package(tmp_path, name):
    place, found = PLACES[name]
    home = tmp_path / "home"
    (home / "pkg/urdf").mkdir(parents=True)
    path = home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    write_stl(path, box(1, 1, 1))
    if "link" in name:  # a link that leads out of the package
        outside = tmp_path / "secret.stl"
        path.rename(outside)
        path.symlink_to(outside)
    if found:
        assert find_mesh(name, home / "pkg/urdf/r.urdf") == path.resolve()
        return
    with pytest.raises(ValueError, match="outside|is not found|is no path that is read"):
        find_mesh(name, home / "pkg/urdf/r.urdf")


def test_without_a_package_only_the_own_folder_is_searched(tmp_path):
    write_stl(tmp_path / "m.stl", box(1, 1, 1))
    (tmp_path / "mine").mkdir()
    for name in ("../m.stl", "package://x/m.stl", str(tmp_path / "m.stl"), f"file://{tmp_path}/m.stl"):
        with pytest.raises(ValueError, match="outside|is not found"):
            find_mesh(name, tmp_path / "mine/r.urdf")


def test_a_link_without_any_shape_has_a_volume_along_it(tmp_path):
    write_stl(tmp_path / "m.stl", np.add(box(0.1, 0.1, 0.9), [0, 0, 0.45]))
    (tmp_path / "r.urdf").write_text(urdf("m.stl"))
    robot, notes = load_with_notes(tmp_path / "r.urdf")
    assert {(c.part, c.origin) for c in robot.capsules} == {("upper", "mesh"), ("fore", "assumed")}
    assert any("is not given for fore" in sentence for _, sentence in notes)


def test_what_is_fixed_to_a_link_does_not_cover_it_and_frames_between_axes_need_no_volume(tmp_path):
    write_stl(tmp_path / "m.stl", box(0.1, 0.1, 0.9))
    tip = (
        '<link name="tip"><collision><geometry><box size="0.01 0.01 0.01"/></geometry></collision></link>'
        '<joint name="t" type="fixed"><parent link="fore"/><child link="tip"/></joint></robot>'
    )
    text = urdf("m.stl").replace("</robot>", tip)
    (tmp_path / "r.urdf").write_text(text)
    assert ("fore", "assumed") in {(c.part, c.origin) for c in load(tmp_path / "r.urdf").capsules}
    frame = (
        '<link name="cross"/><joint name="x" type="revolute"><parent link="cross"/><child link="fore"/>'
        '<axis xyz="1 0 0"/><limit lower="-1" upper="1" velocity="1" effort="1"/></joint></robot>'
    )
    (tmp_path / "r.urdf").write_text(
        urdf("m.stl").replace('<child link="fore"/>', '<child link="cross"/>').replace("</robot>", frame)
    )
    assert {c.part for c in load(tmp_path / "r.urdf").capsules} == {"upper", "fore"}


def test_a_link_keeps_the_capsules_of_meshes_that_can_be_read_beside_one_that_cannot(tmp_path):
    write_stl(tmp_path / "m.stl", box(0.1, 0.1, 0.9))
    more = '<collision><geometry><mesh filename="lost.stl"/></geometry></collision>'
    (tmp_path / "r.urdf").write_text(urdf("m.stl", more=more))
    assert {c.origin for c in load(tmp_path / "r.urdf").capsules if c.part == "upper"} == {"mesh", "assumed"}


def test_a_campaign_takes_the_meshes_along_and_notices_when_they_change(tmp_path):
    package = tmp_path / "pkg"
    (package / "urdf").mkdir(parents=True)
    (package / "meshes").mkdir()
    write_stl(package / "meshes/m.stl", np.add(box(0.1, 0.1, 0.9), [0, 0, 0.45]))
    (package / "urdf/r.urdf").write_text(urdf("../meshes/m.stl"))
    (package / "urdf/r.srdf").write_text('<robot name="r"/>')
    begin(tmp_path / "cell", str(package / "urdf/r.urdf"))
    assert "# assumed_volumes = true" in (tmp_path / "cell/campaign.toml").read_text()
    opened = open_campaign(tmp_path / "cell", "design")
    assert {c.origin for c in opened.robot.capsules if c.part == "upper"} == {"mesh"}
    assert (tmp_path / "cell/r.srdf").is_file()
    write_stl(tmp_path / "cell/meshes/m.stl", np.add(box(0.12, 0.1, 0.9), [0, 0, 0.45]))
    assert open_campaign(tmp_path / "cell", "design").digest != opened.digest


SRDF = '<robot name="r"><disable_collisions link1="base" link2="fore" reason="Never"/></robot>'
STAND = '<link name="base"><collision><geometry><sphere radius="0.1"/></geometry></collision></link>'


@pytest.mark.parametrize(
    ("place", "text", "used"),
    [
        ("r.srdf", SRDF, "disables the collisions of 1 pairs"),
        ("../srdf/r.srdf", SRDF, "disables the collisions of 1 pairs"),
        ("../config/r.srdf", SRDF, "disables the collisions of 1 pairs"),
        ("r.srdf", SRDF.replace('"r"', '"other"'), "is of the robot 'other'"),
        ("r.srdf", SRDF[:-9], "is not XML"),
        ("r.srdf", '<!DOCTYPE a [<!ENTITY b "c">]>' + SRDF, "document type"),
    ],
)
def test_pairs_that_an_srdf_disables_are_left_out_and_listed(tmp_path, place, text, used):
    (tmp_path / "urdf").mkdir()
    write_stl(tmp_path / "urdf/m.stl", np.add(box(0.1, 0.1, 0.9), [0, 0, 0.45]))
    (tmp_path / "urdf/r.urdf").write_text(urdf("m.stl").replace('<link name="base"/>', STAND))
    srdf = tmp_path / "urdf" / place
    srdf.parent.mkdir(exist_ok=True)
    srdf.write_text(text)
    robot, notes = load_with_notes(tmp_path / "urdf/r.urdf")
    assert any(used in sentence for where, sentence in notes if where == "SRDF r.srdf")
    reasons = {pair.name: pair.reason for pair in unchecked_pairs(robot, Scene())}
    assert ("base / link b" in reasons) == ("disables" in used)
    assert ("base / link b" in scene_rows(robot, Scene()).names) == ("disables" not in used)


@pytest.mark.slow
@public
@pytest.mark.parametrize("source", [UR5, PANDA], ids=["ur5", "panda"])
def test_public_meshes_lie_in_capsules_of_little_volume(source):
    ratios = []
    for path in sorted(source.parent.parent.rglob("collision/*.stl")):
        triangles, _ = read_mesh(path)
        capsules = cover_triangles(triangles)
        assert deepest(triangles.reshape(-1, 3), capsules) <= 0.0
        ratios.append(volume_ratio(triangles, capsules))
    assert np.median(ratios) <= 2.0
    assert max(ratios) <= 4.0


@public
@pytest.mark.parametrize("source", [UR5, PANDA], ids=["ur5", "panda"])
def test_half_of_the_free_poses_are_free_and_no_collision_of_meshes_is_missed(source, tmp_path):
    robot = load(source)
    meshes = Meshes(source, robot, tmp_path)
    q = random_motion(robot, 300, seed=7).q
    free = ~meshes.collide(q)
    ours = (clearances(robot, Scene(), q) >= 0.0).all(axis=1)
    assert free.mean() > 0.5
    assert ours[free].mean() >= 0.5
    assert not (ours & ~free).any()


@public
@pytest.mark.parametrize("source", [UR5, PANDA], ids=["ur5", "panda"])
def test_poses_where_only_pairs_that_are_left_out_touch_are_free_on_the_meshes(source, tmp_path):
    """What is left out never hides a collision: looked for where its capsules touch and no others do."""
    robot = load(source)
    meshes = Meshes(source, robot, tmp_path)
    q = random_motion(robot, 6000, seed=11).q
    left = {pair.name for pair in unchecked_pairs(robot, Scene())}
    assert left or source == PANDA
    q = q[(clearances(robot, Scene(), q) >= 0.0).all(axis=1)]
    assert len(q) > 1000
    assert not meshes.collide(q).any()


@public
@pytest.mark.slow
def test_fitting_a_robot_takes_little_time():
    from excitor.robots import volumes

    volumes._KEPT.clear()
    triangles = [read_mesh(path)[0] for path in sorted(UR5.parent.parent.rglob("collision/*.stl"))]
    cover_triangles(triangles[0])
    start = time.process_time()
    for one in triangles[1:]:
        cover_triangles(one)
    assert time.process_time() - start < 4.0  # 1.5 s on an idle machine
    start = time.process_time()
    load(UR5)
    assert time.process_time() - start < 1.5  # fitted already


def test_a_made_arm_is_as_free_and_as_safe(tmp_path):
    source = mesh_arm(tmp_path)
    robot = load(source)
    assert {capsule.origin for capsule in robot.capsules} == {"mesh"}
    q = random_motion(robot, 600, seed=3).q
    free = ~Meshes(source, robot, tmp_path).collide(q)
    ours = (clearances(robot, Scene(), q) >= 0.0).all(axis=1)
    assert 0.3 < free.mean() < 1.0
    assert ours[free].mean() >= 0.5
    assert not (ours & ~free).any()


TABLE = ((0.35, -0.6, -0.6), (1.2, 0.6, 0.1))


def design_beside_a_table(folder, seed):
    """Design a UR5's motion beside a table; return the robot, the design and its executed poses on a fine grid."""
    path = begin(folder / "cell", str(UR5))
    text = path.read_text().replace("home_deg = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]", "home_deg = [0, -90, 0, -90, 0, 0]")
    text = text.replace("evaluations = 20000", "evaluations = 60").replace("seed = 0", f"seed = {seed}")
    low, high = map(list, TABLE)
    text += f'\n[[cell.zone]]\nname = "table"\nkeep = "out"\nshape = "box"\nlow = {low}\nhigh = {high}\n'
    path.write_text(text)
    setup = set_up(open_campaign(path.parent, "design"))
    made = design(setup, settings_of(setup.design))
    run = made.runs[0].run
    phase = next(phase for phase in run.phases if phase.name == "measured")
    period = phase.start + np.linspace(0.0, run.periodic.period, 20_000)
    return setup.robot, made, run.at(np.concatenate([period, np.linspace(0.0, run.duration, 5_000)]))


def check_design(folder, seed):
    robot, made, q = design_beside_a_table(folder, seed)
    assert made.ready, made.reasons  # how accurate so short a search will be is not the subject
    meshes = Meshes(UR5, robot, folder, boxes=[TABLE], margin=0.0199)  # of the 20 mm that the cell asks for
    assert not meshes.collide(q).any()
    over = np.array([[0.0, 0.9, 0.0, 0.0, 0.0, 0.0]])
    assert meshes.collide(over).all()  # the table is there


@public
@pytest.mark.slow
def test_a_certified_design_keeps_the_meshes_clear_on_a_fine_grid(tmp_path):
    check_design(tmp_path, 0)


@public
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))
def test_certified_designs_keep_the_meshes_clear_on_a_fine_grid(tmp_path, seed):
    check_design(tmp_path, seed)


def test_pairs_of_stated_capsules_are_judged_as_before():
    robot = load("ur10")
    assert {capsule.origin for capsule in robot.capsules} == {"stated"}
    assert cell._fitted_reasons(robot) == {}
