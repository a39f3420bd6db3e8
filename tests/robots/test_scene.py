"""Clearances: against coal, a dense search, and finite differences."""

from dataclasses import replace

import coal
import numpy as np
import pytest

from excitor.robots.cell import (
    Scene,
    Shape,
    Zone,
    bodies_without_volume,
    clearances,
    required,
    row_names,
    row_speed_bounds,
    tool_speeds,
    unchecked_pairs,
)
from excitor.robots.dynamics import frame_pose, link_poses
from excitor.robots.load import load
from excitor.robots.population import population_clearances
from excitor.robots.robot import Capsule, Frame, Limits, Mechanism, Motion
from excitor.robots.tree import Tree

KINDS = ("box", "half-space", "sphere", "cylinder")


def pose(seed, spread=0.5):
    rng = np.random.default_rng(seed)
    T = np.eye(4)
    R, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    T[:3, :3] = R * np.sign(np.linalg.det(R))
    T[:3, 3] = rng.normal(scale=spread, size=3)
    return T


def shape(kind, seed=0):
    T = pose(seed)
    if kind == "half-space":
        T[:3, 3] = -0.5 * T[:3, 2]  # the base stands half a metre above it
    return Shape(kind, T, np.random.default_rng(seed).uniform(0.1, 0.6, size=3))


def embodied(robot, seed=0):
    """The robot with a capsule on the base and on every link, some without length, and limits."""
    rng = np.random.default_rng(seed)
    capsules = []
    for link in range(-1, robot.mechanism.n_links):
        start = rng.normal(scale=0.2, size=3)
        end = start if rng.random() < 0.2 else rng.normal(scale=0.2, size=3)
        capsules.append(Capsule(link, start, end, float(rng.uniform(0.01, 0.05))))
    limits = np.tile([-2.0, 2.0], (robot.n_joints, 1))
    return replace(robot, capsules=tuple(capsules), limits=replace(robot.limits, position=limits))


def postures(robot, n_samples=20, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, size=(n_samples, robot.n_joints))


def zones(bodies="all"):
    return tuple(
        Zone(f"{kind} {keep}", shape(kind, seed), keep, bodies)
        for seed, kind in enumerate(KINDS)
        for keep in ("in", "out")
    )


def segments(robot, scene, q):
    """Ends and radius of every body by name, from the poses of links."""
    poses = np.concatenate([link_poses(robot, q), np.broadcast_to(np.eye(4), (len(q), 1, 4, 4))], axis=1)
    bodies = {}
    for capsule in robot.capsules:
        name = "base" if capsule.link < 0 else f"link {robot.mechanism.link_names[capsule.link]}"
        T = poses[:, capsule.link]
        ends = [T[:, :3, :3] @ end + T[:, :3, 3] for end in (capsule.start, capsule.end)]
        bodies[name] = (*ends, capsule.radius)
    tool = frame_pose(robot, q)[:, :3, 3]
    bodies["tool"] = (tool, tool, scene.tool_radius)
    return bodies


def distance_to(solid, points):
    """The signed distance written out shape by shape."""
    T = np.linalg.inv(solid.T_base_shape)
    x, y, z = np.moveaxis(points @ T[:3, :3].T + T[:3, 3], -1, 0)
    a, b, c = solid.size
    if solid.kind == "half-space":
        return z
    if solid.kind == "sphere":
        return np.sqrt(x**2 + y**2 + z**2) - a
    if solid.kind == "cylinder":
        over = np.stack([np.hypot(x, y) - a, np.abs(z) - b])
    else:
        over = np.stack([np.abs(x) - a, np.abs(y) - b, np.abs(z) - c])
    return np.where((over > 0).any(axis=0), np.linalg.norm(np.maximum(over, 0.0), axis=0), over.max(axis=0))


def coal_shape(solid):
    a, b, c = solid.size
    return {
        "box": lambda: coal.Box(2 * a, 2 * b, 2 * c),
        "half-space": lambda: coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0),
        "sphere": lambda: coal.Sphere(a),
        "cylinder": lambda: coal.Cylinder(a, 2 * b),
    }[solid.kind]()


def coal_pose(T):
    return coal.Transform3s(T[:3, :3], T[:3, 3])


def coal_capsule(start, end, radius):
    along = end - start
    length = np.linalg.norm(along)
    z = along / length if length > 0 else np.array([0.0, 0.0, 1.0])
    x = np.cross(z, [1.0, 0.0, 0.0] if abs(z[0]) < 0.9 else [0.0, 1.0, 0.0])
    x /= np.linalg.norm(x)
    R = np.column_stack([x, np.cross(z, x), z])
    body = coal.Capsule(radius, length) if length > 0 else coal.Sphere(radius)
    return body, coal.Transform3s(R, 0.5 * (start + end))


def coal_distance(one, other):
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance = 1e-10
    return coal.distance(*one, *other, request, result)


def test_zone_clearances_are_the_least_along_the_segment(random_robot):
    robot = embodied(random_robot)
    scene = Scene(zones(), self_collision=False, tool_radius=0.03)
    q = postures(robot, 4)
    found = clearances(robot, scene, q)
    bodies = segments(robot, scene, q)
    solids = {zone.name: zone for zone in scene.zones}
    along = np.linspace(0.0, 1.0, 1001)[:, None, None]
    for name, column in zip(row_names(robot, scene), found.T, strict=True):
        zone_name, body = name.split(" / ")
        zone, (start, end, radius) = solids[zone_name], bodies[body]
        d = distance_to(zone.shape, start + along * (end - start))
        expected = (d.min(axis=0) if zone.keep == "out" else -d.max(axis=0)) - radius
        step = np.linalg.norm(end - start, axis=1) / 2000  # half a step of a Lipschitz function
        assert ((expected - column >= -1e-9) & (expected - column <= step + 1e-9)).all()


def test_keep_out_clearances_are_those_of_coal(random_robot):
    """Where the segment itself enters the solid, depths are another matter: ours is a point's, coal's a body's."""
    robot = embodied(random_robot)
    outside = tuple(zone for zone in zones() if zone.keep == "out")
    scene = Scene(outside, self_collision=False, tool_radius=0.03)
    q = postures(robot, 8)
    bodies = segments(robot, scene, q)
    obstacles = {zone.name: (coal_shape(zone.shape), coal_pose(zone.shape.T_base_shape)) for zone in outside}
    compared = 0
    for name, column in zip(row_names(robot, scene), clearances(robot, scene, q).T, strict=True):
        zone_name, body = name.split(" / ")
        start, end, radius = bodies[body]
        for k in np.flatnonzero(column + radius > 1e-3):
            expected = coal_distance(coal_capsule(start[k], end[k], radius), obstacles[zone_name])
            assert column[k] == pytest.approx(expected, abs=2e-6)  # the tolerance of its search
            compared += 1
    assert compared


def test_self_clearances_are_those_of_coal(random_robot):
    robot = embodied(random_robot)
    scene = Scene()
    q = postures(robot, 8)
    found = clearances(robot, scene, q)
    bodies = segments(robot, scene, q)
    for name, column in zip(row_names(robot, scene), found.T, strict=True):
        one, other = (bodies[part] for part in name.split(" / "))
        for k in range(len(q)):
            expected = coal_distance(*[coal_capsule(start[k], end[k], radius) for start, end, radius in (one, other)])
            if expected > -0.9 * (one[2] + other[2]):
                assert column[k] == pytest.approx(expected, abs=1e-7)


def elbow(first, second):
    """Two joints that turn about z and y at the origin, a capsule on the base and one on the last link."""
    still = np.tile(np.eye(4), (2, 1, 1))
    tree = Tree(
        ("a", "b"), ("A", "B"), np.array([-1, 0]), still, np.array([[0.0, 0, 1], [0, 1, 0]]), still,
        np.zeros(2, dtype=bool), np.eye(2), np.zeros(2), np.zeros(3),
    )  # fmt: skip
    robot = load("rotradi")
    free = np.full(2, np.inf)
    return replace(
        robot, mechanism=tree, capsules=(Capsule(-1, *first, 0.0), Capsule(1, *second, 0.0)),
        limits=Limits(np.column_stack([-free, free]), free, free, free, free), tool=Frame("tool", 1, np.eye(4)),
    )  # fmt: skip


@pytest.mark.parametrize("tilt", [1.0, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 0.0])
@pytest.mark.parametrize("height", [0.3, 1e-3, 0.0])
def test_segments_that_cross_are_as_far_apart_as_their_lines(tilt, height):
    """Nearly parallel segments that cross over each other at a known height, wherever they lie."""
    u = np.array([1.0, 0.2, -0.3])
    n = np.cross(u, [0.1, 1.0, 0.4])
    n /= np.linalg.norm(n)
    v = u + tilt * np.cross(n, u)
    center = np.array([0.2, -0.1, 0.5])
    for s, t in ((0.5, 0.5), (0.1, 0.8), (1.0, 0.0)):
        first = center - s * u, center + (1 - s) * u
        second = center + height * n - t * v, center + height * n + (1 - t) * v
        for lines in ((first, second), (second, first)):
            gap = clearances(elbow(*lines), Scene(), np.zeros((1, 2)))[0, 0]
            assert gap == pytest.approx(height, abs=3e-8 if height == 0.0 else 1e-12)


def test_segments_without_length_and_in_line():
    apart = [
        (((0, 0, 0), (0, 0, 0)), ((3, 4, 0), (3, 4, 0)), 5.0),
        (((0, 0, 0), (1, 0, 0)), ((3, 0, 0), (2, 0, 0)), 1.0),
        (((0, 0, 0), (2, 0, 0)), ((1, 1, 0), (1, 1, 0)), 1.0),
        (((0, 0, 0), (2, 0, 0)), ((1, 0, 0), (3, 0, 0)), 0.0),
        (((0, 0, 0), (2, 0, 0)), ((3, 1, 0), (5, 1, 0)), np.sqrt(2.0)),
    ]
    for first, second, expected in apart:
        for lines in ((first, second), (second, first)):
            moved = np.add(lines, [0.5, 0.25, 2.0])  # off the origin, about which the joints turn
            gap = clearances(elbow(*moved), Scene(), np.zeros((1, 2)))[0, 0]
            assert gap == pytest.approx(expected, abs=1e-12)


def test_a_population_has_the_least_of_its_samples(random_robot):
    robot = embodied(random_robot)
    scene = Scene(zones(), self_clearance=0.01, tool_radius=0.03)
    t = np.linspace(0.0, 6.0, 250)  # more than two blocks of the kernel
    rng = np.random.default_rng(0)
    phase = rng.uniform(0.0, 6.0, size=(4, robot.n_joints, 1))
    q = np.ascontiguousarray(rng.uniform(0.1, 2.0, size=phase.shape) * np.sin(t + phase))
    found = population_clearances(robot, scene, q)
    expected = np.array([clearances(robot, scene, positions.T).min(axis=0) for positions in q])
    np.testing.assert_allclose(found, expected, atol=3e-10)  # twice the tolerance of the search along a segment
    for enough in (*np.quantile(expected, (0.1, 0.5, 0.9)), expected.mean(axis=0)):
        np.testing.assert_allclose(
            population_clearances(robot, scene, q, enough), np.minimum(expected, enough), atol=3e-10
        )


class ProtocolOnly:
    """A mechanism that shows no more than the protocol."""

    def __init__(self, tree):
        self._tree = tree

    def __getattr__(self, name):
        if name not in dir(Mechanism):
            raise AttributeError(name)
        return getattr(self._tree, name)


def test_a_mechanism_that_is_no_tree_gives_the_same(random_robot):
    robot = embodied(random_robot)
    other = replace(robot, mechanism=ProtocolOnly(robot.mechanism))
    scene = Scene(zones(), tool_radius=0.02)
    q = postures(robot)
    assert row_names(other, scene) == row_names(robot, scene)
    np.testing.assert_allclose(clearances(other, scene, q), clearances(robot, scene, q), atol=3e-10)
    np.testing.assert_allclose(
        population_clearances(other, scene, q.T[None]), population_clearances(robot, scene, q.T[None]), atol=3e-10
    )
    with pytest.raises(NotImplementedError, match="ProtocolOnly has no bound on how fast its links move"):
        row_speed_bounds(other, scene, np.ones((1, robot.n_joints)))


def test_clearances_never_change_faster_than_their_bound(random_robot):
    robot = embodied(random_robot)
    scene = Scene(zones(), tool_radius=0.02)
    rng = np.random.default_rng(2)
    h = 1e-6
    q = rng.uniform(-2.0 + h, 2.0 - h, size=(300, robot.n_joints))
    dq = rng.choice([-1.0, 0.0, 1.0], size=q.shape) * rng.uniform(0.5, 2.0, size=q.shape)
    rate = np.abs(clearances(robot, scene, q + h * dq) - clearances(robot, scene, q - h * dq)) / (2.0 * h)
    bound = row_speed_bounds(robot, scene, np.abs(dq))
    assert bound.shape == rate.shape
    assert (rate <= bound + 1e-6).all()  # the search along a segment is good to 1e-10


def test_a_stretched_arm_comes_near_its_bound():
    """A bound that proves much must not be far above what can happen."""
    robot = load("tx40")
    far = Shape("sphere", np.array([[1.0, 0, 0, 50.0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]), np.ones(3))
    scene = Scene((Zone("far", far, "out", "tool"),), self_collision=False)
    q = np.random.default_rng(0).uniform(*robot.limits.position.T, size=(20000, 6))
    for joint in (1, 2, 4):
        h = 1e-5 * np.eye(6)[joint]
        rate = np.abs(clearances(robot, scene, q + h) - clearances(robot, scene, q - h)).max() / 2e-5
        assert 0.9 < rate / row_speed_bounds(robot, scene, np.eye(6)[joint : joint + 1])[0, 0] <= 1.0


def test_a_sliding_joint_needs_to_know_how_far_it_goes():
    tree = Tree(
        ("a", "b"), ("A", "B"), np.array([-1, 0]), np.tile(np.eye(4), (2, 1, 1)), np.eye(3)[[2, 0]],
        np.tile(np.eye(4), (2, 1, 1)), np.array([False, True]), np.eye(2), np.zeros(2), np.zeros(3),
    )  # fmt: skip
    robot = replace(elbow(((0, 0, 1), (0, 0, 2)), ((0.5, 0, 0), (0.5, 0, 0))), mechanism=tree)
    scene = Scene((Zone("cell", shape("box"), "in", "tool"),), self_collision=False)
    turning, sliding = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert row_speed_bounds(robot, scene, turning)[0, 0] == np.inf
    assert row_speed_bounds(robot, scene, sliding)[0, 0] == 1.0
    assert row_speed_bounds(robot, scene, turning, np.array([[-9.0, 9.0], [-0.3, 0.7]]))[0, 0] == pytest.approx(0.7)


def test_rows_are_named_by_zone_link_and_pair():
    robot = load("tx40")
    arm = Capsule(2, [0, 0, 0], [0, 0, 0.1], 0.02)
    robot = replace(robot, capsules=(*robot.capsules, arm))
    scene = Scene(
        (Zone("cell", shape("box"), "in", "tool", 0.05), Zone("table", shape("box", 1), "out", "links", 0.02))
    )
    names = row_names(robot, scene)
    assert names[:5] == ("cell / tool", "table / link j1", "table / link j2", "table / link j3", "table / link j4")
    assert {"table / link j3 (2)", "base / link j2", "link j1 / link j3 (2)", "link j2 / link j6"} <= set(names)
    assert not {"table / base", "base / link j1", "link j2 / link j3", "link j3 / link j3 (2)"} & set(names)
    assert len(set(names)) == len(names) == len(required(robot, scene))
    np.testing.assert_array_equal(required(robot, scene)[:3], [0.05, 0.02, 0.02])
    assert (required(robot, Scene(self_clearance=0.004)) == 0.004).all()
    near = dict(
        zip(row_names(robot, Scene(self_clearance=0.02)), required(robot, Scene(self_clearance=0.02)), strict=True)
    )
    assert near["base / link j6"] == 0.02
    assert 0.005 < near["link j2 / link j4"] < 0.02  # neighbours but one keep half of what is usual between them
    assert row_names(robot, Scene(self_collision=False)) == ()


def test_pairs_that_make_no_constraint_are_left_out_by_name():
    robot = load("tx40")
    assert [pair.name for pair in unchecked_pairs(robot, Scene())] == ["link j3 / link j5"]
    assert "its clearance never changes, it is 100.0 mm" in unchecked_pairs(robot, Scene())[0].reason
    assert unchecked_pairs(robot, Scene(self_clearance=0.02)) == unchecked_pairs(robot, Scene())
    thick = replace(robot, capsules=tuple(replace(c, radius=0.12) for c in robot.capsules))
    reasons = {pair.name: pair.reason for pair in unchecked_pairs(thick, Scene())}
    assert "overlaps in all of 200 random postures" in reasons["link j4 / link j6"]
    assert "link j4 / link j6" not in row_names(thick, Scene())
    touching = replace(robot, capsules=tuple(replace(c, radius=c.radius + 0.035) for c in robot.capsules))
    reasons = {pair.name: pair.reason for pair in unchecked_pairs(touching, Scene())}
    assert "in half of 200 random postures" in reasons["link j4 / link j6"]
    assert unchecked_pairs(robot, Scene(self_collision=False)) == ()


def test_links_without_capsules_are_reported():
    robot = load("tx40")
    assert bodies_without_volume(robot) == ()
    assert bodies_without_volume(replace(robot, capsules=robot.capsules[:-1])) == ("j6",)


def test_tool_speeds_are_differences_of_positions(any_robot):
    rng = np.random.default_rng(0)
    q, dq, h = postures(any_robot), rng.normal(size=(20, any_robot.n_joints)), 1e-6
    ahead, behind = (frame_pose(any_robot, q + s * h * dq)[:, :3, 3] for s in (1, -1))
    expected = np.linalg.norm(ahead - behind, axis=1) / (2 * h)
    np.testing.assert_allclose(tool_speeds(any_robot, Motion(q, dq, dq)), expected, atol=1e-7)


BAD = {
    "Shape.kind is 'cone', expected one of 'box'": lambda: Shape("cone", np.eye(4), np.ones(3)),
    "half extent along y -0.1 m, expected more": lambda: Shape("box", np.eye(4), [1, -0.1, 1]),
    "cylinder has half height 0 m": lambda: Shape("cylinder", np.eye(4), [1, 0, 0]),
    "T_base_shape is no rigid transform": lambda: Shape("sphere", np.diag([1.0, 1, -1, 1]), np.ones(3)),
    r"T_base_shape is no rigid transform \(off by 3\)": lambda: Shape("box", np.diag([1.0, 2, 1, 1]), np.ones(3)),
    r"Shape.size has shape \(2,\), expected \(3\)": lambda: Shape("box", np.eye(4), [1.0, 1.0]),
    "Zone.name is empty": lambda: Zone(" ", shape("box"), "in"),
    "zone 'table': keep is 'off', expected one of 'in', 'out'": lambda: Zone("table", shape("box"), "off"),
    "zone 'table': bodies is 'arms', expected": lambda: Zone("table", shape("box"), "out", "arms"),
    "zone 'table': clearance is -0.1 m, expected 0 or more": lambda: Zone("table", shape("box"), "out", "all", -0.1),
    "zones share the name 'table'": lambda: Scene((Zone("table", shape("box"), "in"),) * 2),
    "Scene.self_clearance is nan m": lambda: Scene(self_clearance=float("nan")),
    "Scene.tool_radius is -1 m": lambda: Scene(tool_radius=-1.0),
    r"q has shape \(2, 5\), expected \(n_samples, n_joints=6\)": lambda: clearances(
        load("tx40"), Scene(), np.zeros((2, 5))
    ),
    "q has entries that are not finite": lambda: clearances(load("tx40"), Scene(), np.full((2, 6), np.nan)),
    "dq_bound has entries that are negative": lambda: row_speed_bounds(load("tx40"), Scene(), -np.ones((1, 6))),
    "zone 'table' is about the links of tx40, which has no capsules": lambda: row_names(
        replace(load("tx40"), capsules=()), Scene((Zone("table", shape("box"), "out", "links"),))
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_is_reported(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()
