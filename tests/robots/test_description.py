"""What good robot files give: geometry, couplings, bodies, limits in SI, frames, controllers."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from excitor.robots.arrays import FloatArray
from excitor.robots.dynamics import frame_pose, inverse_dynamics, link_poses
from excitor.robots.files.toml import robot_from_data
from excitor.robots.friction import motor_positions
from excitor.robots.inertia import change_frame, from_center_of_mass
from excitor.robots.load import catalog_names, load, load_with_notes, with_random_lengths
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, Robot

ROUNDING = 1e-14


def arm(*joints: dict[str, Any], **more: Any) -> Robot:
    named = [{"name": "abc"[k], **joint} for k, joint in enumerate(joints)]
    return robot_from_data({"name": "arm", "joint": named, **more}, "arm.toml")


def turn(axis: str, angle: float) -> FloatArray:
    c, s = math.cos(angle), math.sin(angle)
    T = np.eye(4)
    a, b = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    T[a, a], T[a, b], T[b, a], T[b, b] = c, -s, s, c
    return T


def shift(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> FloatArray:
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def pose_of(robot: Robot, *q: float) -> FloatArray:
    """Pose of the last link."""
    return link_poses(robot, np.array([q]))[0, -1]


KHALIL = {"alpha_deg": 30, "d": 0.2, "theta_deg": 40, "r": 0.3}
DENAVIT = {"theta_deg": 40, "d": 0.3, "a": 0.2, "alpha_deg": 30}


@pytest.mark.parametrize("q", [0.0, 0.7, -2.0])
def test_modified_dh_is_khalils(q: float) -> None:
    turning, sliding = arm({"mdh": KHALIL}), arm({"mdh": KHALIL, "kind": "prismatic"})
    alpha, theta = math.radians(30), math.radians(40)
    first = turn("x", alpha) @ shift(0.2)
    np.testing.assert_allclose(pose_of(turning, q), first @ turn("z", theta + q) @ shift(z=0.3), atol=ROUNDING)
    np.testing.assert_allclose(pose_of(sliding, q), first @ turn("z", theta) @ shift(z=0.3 + q), atol=ROUNDING)


@pytest.mark.parametrize("q", [0.0, 0.7, -2.0])
def test_standard_dh_is_denavits(q: float) -> None:
    turning, sliding = arm({"dh": DENAVIT}), arm({"dh": DENAVIT, "kind": "prismatic"})
    alpha, theta = math.radians(30), math.radians(40)
    last = shift(0.2) @ turn("x", alpha)
    np.testing.assert_allclose(pose_of(turning, q), turn("z", theta + q) @ shift(z=0.3) @ last, atol=ROUNDING)
    np.testing.assert_allclose(pose_of(sliding, q), turn("z", theta) @ shift(z=0.3 + q) @ last, atol=ROUNDING)


@pytest.mark.parametrize("key", ["rpy_deg", "rpy_rad"])
def test_a_placement_is_urdfs(key: str) -> None:
    angles = [20.0, 30.0, 40.0] if key == "rpy_deg" else [math.radians(angle) for angle in (20, 30, 40)]
    place = {"xyz": [1, 2, 3], key: angles, "axis": [0, 2, 0]}
    roll, pitch, yaw = (math.radians(angle) for angle in (20, 30, 40))
    fixed = shift(1, 2, 3) @ turn("z", yaw) @ turn("y", pitch) @ turn("x", roll)
    np.testing.assert_allclose(pose_of(arm({"placement": place}), 0.5), fixed @ turn("y", 0.5), atol=ROUNDING)
    sliding = arm({"placement": place, "kind": "prismatic"})
    np.testing.assert_allclose(pose_of(sliding, 0.5), fixed @ shift(y=0.5), atol=ROUNDING)


def test_quarter_turns_are_exact() -> None:
    before = arm({"mdh": {"alpha_deg": -90}}).mechanism.poses(np.zeros((1, 1)))[0, 0]
    np.testing.assert_array_equal(before[:3, :3], [[1, 0, 0], [0, 0, 1], [0, -1, 0]])


def test_joints_hang_where_they_say_in_any_order() -> None:
    robot = arm({"mdh": {"d": 3}, "parent": "b"}, {"mdh": {"d": 1}, "parent": "base"}, {"mdh": {"d": 2}, "parent": "b"})
    assert robot.joint_names == ("b", "a", "c")
    np.testing.assert_array_equal(robot.mechanism.poses(np.zeros((1, 3)))[0, :, 0, 3], [1, 4, 3])


def test_a_joint_follows_others() -> None:
    robot = arm(
        {"mdh": {}}, {"mdh": {}, "follows": {"a": -2}}, {"mdh": {"theta_deg": 10}, "follows": {"c": 1, "a": "1/3"}}
    )
    assert robot.joint_names == ("a", "c")
    angle = 0.3 - 2 * 0.3 + 0.7 + 0.3 / 3 + math.radians(10)
    np.testing.assert_allclose(pose_of(robot, 0.3, 0.7), turn("z", angle), atol=ROUNDING)


@pytest.mark.parametrize("geometry", ["mdh", "dh", "placement"])
def test_an_offset_adds_to_the_position(geometry: str) -> None:
    turning = arm({geometry: {}}, {geometry: {}, "follows": {"a": 2}, "offset_deg": 30})
    np.testing.assert_allclose(pose_of(turning, 0.4), turn("z", 3 * 0.4 + math.radians(30)), atol=ROUNDING)
    sliding = arm({geometry: {}, "kind": "prismatic", "offset_m": 0.25})
    np.testing.assert_allclose(pose_of(sliding, 0.4), shift(z=0.65), atol=ROUNDING)
    both = arm({"mdh": KHALIL, "offset_deg": 30})
    np.testing.assert_allclose(pose_of(both, 0.0), pose_of(arm({"mdh": KHALIL}), math.radians(30)), atol=ROUNDING)


BODY = {"mass": 2.0, "center": [0.1, -0.2, 0.3], "inertia": [0.3, 0.01, -0.02, 0.4, 0.03, 0.5]}
TENSOR = np.array([[0.3, 0.01, -0.02], [0.01, 0.4, 0.03], [-0.02, 0.03, 0.5]])


def test_a_body_is_given_about_its_centre_of_mass() -> None:
    robot = arm({"mdh": {}, "link": BODY})
    expected = from_center_of_mass(2.0, np.array([0.1, -0.2, 0.3]), TENSOR)
    np.testing.assert_allclose(robot.chi, expected, rtol=1e-15)
    assert expected[0] == pytest.approx(0.3 + 2.0 * (0.2**2 + 0.3**2))  # Steiner
    assert expected[1] == pytest.approx(0.01 - 2.0 * 0.1 * -0.2)
    assert robot.known.all()


def test_merging_fixed_joints_adds_their_bodies() -> None:
    place = {"xyz": [0.5, 0, 0.1], "rpy_deg": [0, 90, 30]}
    merged = arm({"mdh": {}, "link": BODY}, {"placement": place, "kind": "fixed", "link": BODY})
    T = shift(0.5, 0, 0.1) @ turn("z", math.radians(30)) @ turn("y", math.pi / 2)
    single = from_center_of_mass(2.0, np.array([0.1, -0.2, 0.3]), TENSOR)
    np.testing.assert_allclose(merged.chi, single + change_frame(single, T), atol=ROUNDING)
    (frame,) = merged.frames
    assert (frame.name, frame.link) == ("b", 0)
    np.testing.assert_allclose(frame.T_link_frame, T, atol=ROUNDING)
    np.testing.assert_allclose(merged.tool.T_link_frame, np.eye(4))  # on the last link that moves


def test_fixed_joints_stack() -> None:
    quarter = {"placement": {"xyz": [1, 0, 0], "rpy_deg": [0, 0, 90]}, "kind": "fixed"}
    robot = arm({"mdh": {}}, quarter, quarter)
    np.testing.assert_allclose(robot.frames[1].T_link_frame[:3, 3], [1, 1, 0], atol=ROUNDING)


def test_torques_do_not_change_when_a_link_is_cut_in_two_by_a_fixed_joint() -> None:
    whole = arm({"mdh": {}}, {"placement": {"xyz": [0.5, 0.2, 0.1], "axis": [0, 1, 0]}, "link": BODY})
    cut = arm(
        {"mdh": {}},
        {"placement": {"xyz": [0.5, 0, 0]}, "kind": "fixed"},
        {"placement": {"xyz": [0, 0.2, 0.1], "axis": [0, 1, 0]}, "link": BODY},
    )
    motion = Motion(*np.random.default_rng(0).normal(size=(3, 10, 2)))
    np.testing.assert_allclose(inverse_dynamics(cut, motion), inverse_dynamics(whole, motion), atol=1e-13)


def test_a_payload_counts_with_the_link_that_carries_it() -> None:
    robot = arm({"mdh": {}, "link": BODY}, tool={"xyz": [0, 0, 1]}, payload={"mass": 3.0, "center": [0, 0, 0.5]})
    assert robot.payload is not None
    np.testing.assert_allclose(
        prior(robot) - robot.chi, from_center_of_mass(3.0, np.array([0, 0, 1.5]), np.zeros((3, 3)))
    )
    np.testing.assert_array_equal(robot.payload.phi[9], 3.0)


def test_units_become_si() -> None:
    turning = {
        "position_deg": [-180, 90],
        "velocity_deg_s": 180,
        "acceleration_deg_s2": 360,
        "jerk_deg_s3": 720,
        "torque": 5,
    }
    sliding = {"position_m": [0, 2], "velocity_m_s": 3, "acceleration_m_s2": 4, "jerk_m_s3": 5}
    radians = {"position_rad": [-1, 1], "velocity_rad_s": 1, "acceleration_rad_s2": 2, "jerk_rad_s3": 3}
    joints = [{"mdh": {}, "limits": turning}, {"mdh": {}, "limits": sliding, "kind": "prismatic"}]
    limits = arm(*joints, {"mdh": {}, "limits": radians}).limits
    pi = math.pi
    np.testing.assert_allclose(limits.position, [[-pi, pi / 2], [0, 2], [-1, 1]])
    np.testing.assert_allclose(limits.velocity, [pi, 3, 1])
    np.testing.assert_allclose(limits.acceleration, [2 * pi, 4, 2])
    np.testing.assert_allclose(limits.jerk, [4 * pi, 5, 3])
    np.testing.assert_array_equal(limits.torque, [5, math.inf, math.inf])


def test_locked_joints_are_held_at_si_positions() -> None:
    robot = arm({"mdh": {}}, {"mdh": {}, "locked_deg": 90}, {"mdh": {}, "kind": "prismatic", "locked_m": 0.5})
    assert robot.locked == {1: math.pi / 2, 2: 0.5}


def test_controllers_count_in_degrees_and_millimetres() -> None:
    entry = {
        "axes": ["A", "B"],
        "signs": [-1, 1],
        "zero": [90, 100],
        "pose": [{"shows": [90, 500], "tool": [0, 0, 0.4]}],
    }
    controller = arm({"mdh": {}}, {"mdh": {}, "kind": "prismatic"}, controllers={"x": entry}).controllers["x"]
    np.testing.assert_array_equal(controller.matrix, [[-1, 0], [0, 1]])
    np.testing.assert_allclose(controller.zero, [math.pi / 2, 0.1])
    np.testing.assert_allclose(controller.poses[0].axes, [math.pi / 2, 0.5])


def test_a_coupled_controller_is_a_matrix() -> None:
    entry = {"axes": ["J1", "J2"], "matrix": [[1, 0], ["-1/2", 1]]}
    controller = arm({"mdh": {}}, {"mdh": {}}, controllers={"fanuc": entry}).controllers["fanuc"]
    np.testing.assert_array_equal(controller.matrix, [[1, 0], [-0.5, 1]])


@pytest.mark.parametrize(
    "drive", [{"motor_from_joint": [[10, 0], [5, 20]]}, {"joint_from_motor": [["1/10", 0], ["-1/40", "1/20"]]}]
)
def test_gears_are_matrices_either_way_round(drive: dict[str, Any]) -> None:
    robot = arm({"mdh": {}}, {"mdh": {}}, drive={**drive, "rotors": "motors"})
    np.testing.assert_allclose(motor_positions(robot, np.array([[1.0, 2.0]])), [[10, 45]], rtol=1e-14)
    np.testing.assert_allclose([rotor.senses for rotor in robot.drive.rotors], [[1, 0], [0.25, 1]], rtol=1e-14)
    np.testing.assert_array_equal(arm({"mdh": {}}, drive={"ratios": [-7]}).drive.motor_from_joint, [[-7]])


def test_a_motor_between_two_joints_senses_what_its_matrix_says() -> None:
    drive = {"motor_from_joint": [[0, 30], [40, 10]], "rotors": "motors"}
    robot = arm({"mdh": {}}, {"mdh": {}}, drive=drive)
    np.testing.assert_allclose([rotor.senses for rotor in robot.drive.rotors], [[0, 30], [4, 1]])


def test_friction_is_listed_joint_by_joint_then_element_by_element() -> None:
    element = {"parameter": "R", "model": "ripple", "senses": {"a": 1}, "scale": 8}
    friction = {"terms": ["viscous", "coulomb"], "sign_width": 0.01, "element": [element]}
    robot = arm({"mdh": {}}, {"mdh": {}}, friction=friction, parameters={"Fv2": 3.0})
    names = ["Fv1", "Fc1", "Fv2", "Fc2", "Rs", "Rc"]
    assert list(layout(robot).names[20:]) == names
    assert [term.parameter for term in robot.drive.friction] == names
    assert {term.width for term in robot.drive.friction} == {0.01}
    assert robot.chi[layout(robot).index("Fv2")] == 3.0
    assert robot.known.sum() == 1


def test_named_frames_and_capsules_ride_on_their_links() -> None:
    robot = arm(
        {"mdh": {}},
        {"placement": {"xyz": [1, 0, 0], "rpy_deg": [0, 0, 90]}, "kind": "fixed"},
        frame=[{"name": "camera", "link": "b", "xyz": [0.5, 0, 0]}],
        capsule=[{"link": "b", "start": [0, 0, 0], "end": [1, 0, 0], "radius": 0.1}],
        tool={"link": "b", "xyz": [0, 2, 0], "rpy_deg": [0, 0, 90]},
    )
    camera = next(frame for frame in robot.frames if frame.name == "camera")
    np.testing.assert_allclose(frame_pose(robot, np.zeros((1, 1)), camera)[0, :3, 3], [1, 0.5, 0], atol=ROUNDING)
    tool = frame_pose(robot, np.zeros((1, 1)))[0]
    np.testing.assert_allclose(tool[:3, [0, 3]].T, [[-1, 0, 0], [-1, 0, 0]], atol=ROUNDING)
    np.testing.assert_allclose([robot.capsules[0].start, robot.capsules[0].end], [[1, 0, 0], [1, 1, 0]], atol=ROUNDING)


def test_lengths_have_names() -> None:
    robot = arm({"mdh": {"d": "2 l", "r": "-l/4"}}, lengths={"l": 0.5})
    np.testing.assert_allclose(pose_of(robot, 0.0)[:3, 3], [1.0, 0.0, -0.125])


def test_declared_parameters_are_turned_into_our_frames() -> None:
    """Take a paper whose link frame is ours turned by a quarter about z: its x is our y."""
    declared = {"parameters": {"x": "MX1"}, "frames": {"a": {"rpy_deg": [0, 0, 90]}}}
    robot = arm({"mdh": {}}, declared_base=declared)
    assert robot.declared_base is not None
    expected = np.zeros(10)
    expected[7] = 1.0
    np.testing.assert_allclose(robot.declared_base.combination, [expected], atol=ROUNDING)


@pytest.mark.parametrize("name", catalog_names())
def test_the_catalogue_loads_complete(name: str) -> None:
    robot, notes = load_with_notes(name)
    assert robot.name == name
    assert notes == ()
    assert robot.capsules
    for stated in (robot.limits.position, robot.limits.velocity, robot.limits.acceleration, robot.limits.torque):
        assert np.isfinite(stated).all()


def test_a_path_and_a_name_give_the_same_robot(tmp_path: Path) -> None:
    from importlib import resources

    path = tmp_path / "mine.TOML"
    path.write_text((resources.files("excitor.robots.catalog") / "tx40.toml").read_text("utf-8"), encoding="utf-8")
    np.testing.assert_array_equal(load(path).chi, load("tx40").chi)


def test_a_stretched_robot_has_other_lengths_and_the_same_names() -> None:
    stretched = with_random_lengths("tx40")
    assert stretched is not None
    ratios = [stretched.lengths[name] / length for name, length in load("tx40").lengths.items()]
    assert all(0.9 <= ratio <= 1.1 and ratio != 1.0 for ratio in ratios)
    assert layout(stretched).names == layout(load("tx40")).names
    assert with_random_lengths("iiwa") is None
