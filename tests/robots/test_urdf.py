"""URDF in: the same robot as the one it was written from, and the same as pinocchio reads."""

import math
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from excitor.robots.arrays import FloatArray
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import frame_pose, inverse_dynamics, link_poses, regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.files.urdf import read_urdf, robot_from_urdf
from excitor.robots.inertia import about_center_of_mass, change_frame
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

# Angles go through text at 17 digits and back through sines: 1e-15 each, a few hundred operations.
ROUNDING = 1e-9


def numbers(values: FloatArray | list[float], digits: int = 17) -> str:
    return " ".join(f"{value:.{digits}g}" for value in values)


def rpy(R: FloatArray) -> list[float]:
    """Angles of Rz(yaw) Ry(pitch) Rx(roll) = R."""
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    if abs(abs(pitch) - math.pi / 2) < 1e-9:
        return [0.0, pitch, math.atan2(-R[0, 1], R[1, 1])]
    return [math.atan2(R[2, 1], R[2, 2]), pitch, math.atan2(R[1, 0], R[0, 0])]


def turned(axis: FloatArray, angle: float) -> FloatArray:
    a = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    T = np.eye(4)
    T[:3, :3] += math.sin(angle) * a + (1.0 - math.cos(angle)) * a @ a
    return T


def written(robot: Robot, digits: int = 17, hangs: bool = False) -> str:
    """Write a robot as URDF, maybe hanging from the ceiling.

    A link's frame is the one its joint moves, so what comes after it goes into its children.
    """
    tree = robot.mechanism
    assert isinstance(tree, Tree)
    parts = [
        f'<robot name="{robot.name}"><link name="room"/><link name="world"/><joint name="mount" type="fixed">'
        f'<parent link="room"/><child link="world"/><origin rpy="{math.pi if hangs else 0.0:.{digits}f} 0 0"/></joint>'
    ]
    for j, name in enumerate(tree.link_names):
        parent = tree.parents[j]
        T = tree.before[j] if parent < 0 else tree.after[parent] @ tree.before[j]
        if tree.sliding[j]:
            T = T @ np.block([[np.eye(3), tree.offset[j] * tree.axis[j][:, None]], [np.zeros((1, 3)), np.eye(1)]])
        else:
            T = T @ turned(tree.axis[j], tree.offset[j])
        mass, center, inertia = about_center_of_mass(change_frame(robot.chi[10 * j : 10 * j + 10], tree.after[j]))
        xx, xy, xz, yy, yz, zz = (f"{value:.17g}" for value in inertia[np.triu_indices(3)])
        parts.append(
            f'<link name="link {name}"><inertial><origin xyz="{numbers(center)}"/><mass value="{mass:.17g}"/>'
            f'<inertia ixx="{xx}" ixy="{xy}" ixz="{xz}" iyy="{yy}" iyz="{yz}" izz="{zz}"/></inertial></link>'
            f'<joint name="{name}" type="{"prismatic" if tree.sliding[j] else "revolute"}">'
            f'<origin xyz="{numbers(T[:3, 3])}" rpy="{" ".join(f"{a:.{digits}f}" for a in rpy(T[:3, :3]))}"/>'
            f'<parent link="{"world" if parent < 0 else f"link {tree.link_names[parent]}"}"/>'
            f'<child link="link {name}"/><axis xyz="{numbers(tree.axis[j])}"/>'
            f'<limit lower="-2" upper="2" velocity="3" effort="4"/></joint>'
        )
    return "".join([*parts, "</robot>"])


def bare(robot: Robot) -> Robot:
    """Take a robot without drives and symmetry zeros, as a URDF knows it."""
    return robot_from_urdf(written(robot), "exact.urdf")


@pytest.mark.parametrize("name", ["tx40", "iiwa", "kr150", "ur10"])
def test_a_robot_written_as_urdf_comes_back(name: str) -> None:
    original = load(name)
    copy = bare(original)
    motion = random_motion(original, 40)
    assert copy.joint_names == original.joint_names
    if not any((after != np.eye(4)).any() for after in original.mechanism.after):  # link frames are the same
        n = 10 * original.mechanism.n_links
        np.testing.assert_allclose(
            regressor(copy, motion)[:, :, :n], regressor(original, motion)[:, :, :n], rtol=ROUNDING, atol=ROUNDING
        )
    links = original.chi.copy()
    links[10 * original.mechanism.n_links :] = 0.0
    expected = inverse_dynamics(original, motion, links)
    np.testing.assert_allclose(
        inverse_dynamics(copy, motion), expected, rtol=0.0, atol=ROUNDING * np.abs(expected).max()
    )


@pytest.mark.parametrize(("name", "count"), [("tx40", 36 + 18 + 4), ("iiwa", 43 + 21 + 5), ("kr150", 36 + 18 + 4)])
def test_a_truncated_pi_makes_no_base_parameters(name: str, count: int) -> None:
    """36 parameters of links; then 3 of friction for each joint, and the rotors that no link's inertia hides."""
    text = written(load(name), digits=4, hangs=True)
    assert "1.5708" in text
    assert "3.1416" in text
    rounded = base_parameters(robot_from_urdf(text, "rounded.urdf"))
    exact = base_parameters(robot_from_urdf(written(load(name), hangs=True), "exact.urdf"))
    assert len(rounded) == len(exact) == count
    assert rounded.names == exact.names


def test_a_pi_left_truncated_would_make_some(monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(load("iiwa"), digits=4, hangs=True)
    monkeypatch.setattr("excitor.robots.files.urdf.SNAP", 0.0)
    try:
        count = len(base_parameters(robot_from_urdf(text, "f")))
    except RankDeficient:
        count = -1
    assert count != 43 + 21 + 5


def test_every_snap_is_reported() -> None:
    urdf = read_urdf(arm(origin='rpy="1.5708 -3.1416 0.7854"'), "f")
    assert urdf.data["joint"][0]["placement"]["rpy_rad"] == [math.pi / 2, -math.pi, math.pi / 4]
    told = [sentence for where, sentence in urdf.notes if where == "joint 'turn' origin rpy"]
    assert told[0] == "1.5708 is read as pi/2, 3.7e-06 rad away"
    assert [sentence.split(",")[0] for sentence in told] == [
        "1.5708 is read as pi/2",
        "-3.1416 is read as -pi",
        "0.7854 is read as pi/4",
    ]


def test_what_is_farther_away_stays() -> None:
    urdf = read_urdf(arm(origin='rpy="1.571 0.3 1.57079632679"'), "f")
    assert urdf.data["joint"][0]["placement"]["rpy_rad"] == [1.571, 0.3, math.pi / 2]
    assert [sentence for where, sentence in urdf.notes if "rpy" in where] == [
        "1.57079632679 is read as pi/2, 4.9e-12 rad away"
    ]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("0 0 0.99999", [0.0, 0.0, 1.0]),
        ("0 -2 1e-6", [0.0, -1.0, 0.0]),
        ("0.70711 0.70711 0", [math.sqrt(0.5), math.sqrt(0.5), 0.0]),
    ],
)
def test_axes_are_made_unit_vectors_and_that_is_reported(given: str, read: list[float]) -> None:
    urdf = read_urdf(arm(axis=given), "f")
    np.testing.assert_allclose(urdf.data["joint"][0]["placement"]["axis"], read, rtol=1e-15)
    assert any(where == "joint 'turn' axis xyz" and "unit vector" in sentence for where, sentence in urdf.notes)


BODY = '<inertial><mass value="1"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'


def arm(
    *,
    origin: str = 'xyz="0 0 1"',
    axis: str = "0 0 1",
    kind: str = "revolute",
    more: str = '<limit lower="-1" upper="2" velocity="3" effort="4"/>',
    link: str = BODY,
    extra: str = "",
    name: str = "turn",
) -> str:
    return (
        f'<robot name="arm"><link name="ground"/><link name="boom">{link}</link>'
        f'<joint name="{name}" type="{kind}"><parent link="ground"/><child link="boom"/><origin {origin}/>'
        f'<axis xyz="{axis}"/>{more}</joint>{extra}</robot>'
    )


def test_limits_are_read_and_zeros_are_not_stated() -> None:
    limits = robot_from_urdf(arm(), "f").limits
    np.testing.assert_array_equal(limits.position, [[-1.0, 2.0]])
    assert (limits.velocity[0], limits.torque[0], limits.acceleration[0]) == (3.0, 4.0, math.inf)
    urdf = read_urdf(arm(more='<limit lower="0" upper="0" velocity="0" effort="0"/>'), "f")
    assert urdf.data["joint"][0]["limits"] == {}
    assert {where for where, _ in urdf.notes} >= {"joint 'turn' limit velocity", "joint 'turn' limit effort"}


def test_a_bound_left_out_is_zero_as_urdf_says() -> None:
    robot = robot_from_urdf(arm(more='<limit upper="2"/>'), "f")
    np.testing.assert_array_equal(robot.limits.position, [[0.0, 2.0]])


def test_a_continuous_joint_may_turn_once_each_way() -> None:
    robot = robot_from_urdf(arm(kind="continuous"), "f")
    np.testing.assert_allclose(robot.limits.position, [[-2 * math.pi, 2 * math.pi]])
    assert robot.continuous == ("turn",)
    assert robot.limits.velocity[0] == 3.0


def test_the_axis_is_x_where_none_is_given() -> None:
    text = arm().replace('<axis xyz="0 0 1"/>', "")
    np.testing.assert_array_equal(robot_from_urdf(text, "f").mechanism.axis, [[1.0, 0.0, 0.0]])


def test_a_joint_called_base_is_renamed_and_that_is_reported() -> None:
    urdf = read_urdf(arm(name="base"), "f")
    assert robot_from_urdf(arm(name="base"), "f").joint_names == ("base_joint",)
    assert ("joint 'base'", "is called 'base_joint' here: 'base' names the base") in urdf.notes


def test_what_cannot_move_is_left_out_of_the_base() -> None:
    text = arm().replace('<link name="ground"/>', f'<link name="ground">{BODY}</link>')
    assert any(where == "link 'ground'" and "left out" in sentence for where, sentence in read_urdf(text, "f").notes)
    np.testing.assert_array_equal(robot_from_urdf(text, "f").chi, robot_from_urdf(arm(), "f").chi)


def test_damping_and_friction_are_priors() -> None:
    text = arm(
        more='<dynamics damping="0.5" friction="0.25"/>',
        extra='<link name="tip"/><joint name="slide" type="prismatic"><parent link="boom"/><child link="tip"/></joint>',
    )
    robot = robot_from_urdf(text, "f")
    assert layout(robot).names[20:] == ("Ia1", "Ia2", "Fv1", "Fc1", "off1", "Fv2", "Fc2", "off2")
    np.testing.assert_array_equal(robot.chi[-6:], [0.5, 0.25, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(robot.known[-8:], [False, False, True, True, False, False, False, False])
    notes = dict(read_urdf(text, "f").notes)
    assert "every joint gets viscous and Coulomb friction" in notes["friction"]
    assert "known beforehand are Fv1, Fc1" in notes["friction"]


def test_a_robot_without_dynamics_has_friction_and_rotors_of_unknown_size() -> None:
    for dynamics in ("", '<dynamics damping="0.0" friction="0.0"/>'):
        robot = robot_from_urdf(arm(more=dynamics), "f")
        assert layout(robot).names[10:] == ("Ia1", "Fv1", "Fc1", "off1")
        assert not robot.known[10:].any()


def test_a_joint_that_mimics_follows_with_its_offset() -> None:
    follower = (
        '<link name="jaw"/><joint name="follow" type="{kind}"><parent link="boom"/><child link="jaw"/>'
        '<axis xyz="0 0 1"/><limit lower="0" upper="1"/><mimic joint="turn" multiplier="-2" offset="0.3"/></joint>'
    )
    turning = robot_from_urdf(arm(extra=follower.format(kind="revolute")), "f")
    assert turning.joint_names == ("turn",)
    angle = 0.7 - 2 * 0.7 + 0.3  # of the jaw to the ground, both about z
    np.testing.assert_allclose(
        link_poses(turning, np.array([[0.7]]))[0, 1, :2, 0], [math.cos(angle), math.sin(angle)], atol=1e-14
    )
    sliding = robot_from_urdf(arm(extra=follower.format(kind="prismatic")), "f")
    assert link_poses(sliding, np.array([[0.7]]))[0, 1, 2, 3] == pytest.approx(1.0 - 2 * 0.7 + 0.3, abs=1e-14)


def collision(geometry: str) -> str:
    return f'<collision><origin xyz="1 2 3" rpy="0 1.5707963267948966 0"/><geometry>{geometry}</geometry></collision>'


@pytest.mark.parametrize(
    ("geometry", "start", "end", "radius"),
    [
        ('<sphere radius="0.2"/>', [1, 2, 3], [1, 2, 3], 0.2),
        ('<cylinder radius="0.2" length="2"/>', [0, 2, 3], [2, 2, 3], 0.2),
        ('<capsule radius="0.2" length="2"/>', [0, 2, 3], [2, 2, 3], 0.2),
        ('<box size="0.3 4 0.4"/>', [1, 0, 3], [1, 4, 3], 0.25),
        ('<box size="4 0.3 0.4"/>', [1, 2, 5], [1, 2, 1], 0.25),
    ],
)
def test_collision_shapes_become_capsules(geometry: str, start: list[int], end: list[int], radius: float) -> None:
    (capsule,) = robot_from_urdf(arm(link=collision(geometry)), "f").capsules
    np.testing.assert_allclose([capsule.start, capsule.end], [start, end], atol=1e-15)
    assert (capsule.link, capsule.radius) == (0, pytest.approx(radius))


@pytest.mark.parametrize("geometry", ['<cylinder radius="0.3" length="0.5"/>', '<box size="0.5 0.8 0.1"/>'])
def test_a_capsule_covers_its_shape(geometry: str) -> None:
    rng = np.random.default_rng(0)
    if "box" in geometry:
        points = rng.choice([-1.0, 1.0], size=(50, 3)) * [0.25, 0.4, 0.05]
    else:
        angle = rng.uniform(0, 2 * np.pi, 50)
        points = np.column_stack([0.3 * np.cos(angle), 0.3 * np.sin(angle), rng.choice([-0.25, 0.25], 50)])
    text = arm(link=f"<collision><geometry>{geometry}</geometry></collision>")
    (capsule,) = robot_from_urdf(text, "f").capsules
    along = capsule.end - capsule.start
    share = np.clip((points - capsule.start) @ along / (along @ along), 0.0, 1.0)
    distance = np.linalg.norm(points - capsule.start - share[:, None] * along, axis=1)
    assert distance.max() <= capsule.radius * (1 + 1e-12)


def test_fixed_joints_name_frames_and_tool0_is_the_tool() -> None:
    flange = '<link name="tool0"/><joint name="mount" type="fixed"><parent link="boom"/><child link="tool0"/>'
    robot = robot_from_urdf(arm(extra=f'{flange}<origin xyz="0.5 0 0"/></joint>'), "f")
    assert {frame.name for frame in robot.frames} == {"mount", "tool0"}
    np.testing.assert_allclose(frame_pose(robot, np.zeros((1, 1)))[0, :3, 3], [0.5, 0.0, 1.0])
    assert not any(where == "tool" for where, _ in read_urdf(arm(extra=f"{flange}</joint>"), "f").notes)


def test_elements_inside_others_are_not_joints() -> None:
    text = arm(extra='<transmission name="t"><joint name="turn"/></transmission><gazebo><link name="x"/></gazebo>')
    assert robot_from_urdf(text, "f").joint_names == ("turn",)


def random_urdf(seed: int) -> str:
    """A tree of up to ten joints of every kind: free axes, free placements, turned inertials, any order."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 10))
    kinds = rng.choice(["revolute", "continuous", "prismatic", "fixed"], size=n)
    kinds[0] = "revolute"
    parts = ['<link name="l0"/>']
    for j in range(1, n + 1):
        A = rng.normal(size=(3, 3))
        xx, xy, xz, yy, yz, zz = (A @ A.T + np.eye(3))[np.triu_indices(3)]
        axis = rng.normal(size=3)
        poses = [f'<origin xyz="{numbers(rng.normal(size=3))}" rpy="{numbers(rng.normal(size=3))}"/>' for _ in "ab"]
        parts += [
            f'<link name="l{j}"><inertial>{poses[0]}<mass value="{rng.uniform(0.5, 5):.17g}"/><inertia '
            f'ixx="{xx}" ixy="{xy}" ixz="{xz}" iyy="{yy}" iyz="{yz}" izz="{zz}"/></inertial></link>',
            f'<joint name="{"zyxwvutsrq"[j]}{j}" type="{kinds[j - 1]}">{poses[1]}'
            f'<parent link="l{rng.integers(max(0, j - 2), j)}"/><child link="l{j}"/>'
            f'<axis xyz="{numbers(axis / np.linalg.norm(axis))}"/>'
            '<limit lower="-3" upper="3" velocity="1" effort="1"/></joint>',
        ]
    rng.shuffle(parts)
    return f'<robot name="random">{"".join(parts)}</robot>'


@pytest.mark.parametrize("seed", range(15))
def test_torques_are_those_of_pinocchio_reading_the_same_file(seed: int) -> None:
    text = random_urdf(seed)
    robot, model = robot_from_urdf(text, "f"), pin.buildModelFromXML(text)
    assert robot.n_joints == model.nv
    motion = Motion(*np.random.default_rng(seed).uniform(-2, 2, size=(3, 20, robot.n_joints)))
    ours, data = inverse_dynamics(robot, motion), model.createData()
    for sample in range(len(motion)):
        q, v, a = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
        place = {name: model.joints[model.getJointId(name)] for name in robot.joint_names}
        for i, joint in enumerate(place.values()):
            angle = motion.q[sample, i]
            q[joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else [math.cos(angle), math.sin(angle)]
            v[joint.idx_v], a[joint.idx_v] = motion.dq[sample, i], motion.ddq[sample, i]
        theirs = pin.rnea(model, data, q, v, a)[[joint.idx_v for joint in place.values()]]
        np.testing.assert_allclose(ours[sample], theirs, rtol=0.0, atol=ROUNDING * np.abs(theirs).max())


def test_a_file_is_loaded_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "arm.URDF"
    path.write_text(arm(), encoding="utf-8-sig")
    assert load(path).name == "arm"
