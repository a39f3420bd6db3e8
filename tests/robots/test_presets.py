"""Presets of arms: matched by geometry, never by name; what files state wins; every figure has a source."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.init import begin
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.presets import FIGURES, compare, geometry, presets
from excitor.robots.files.write import robot_toml
from excitor.robots.inertia import inverse, roll_pitch_yaw, roll_pitch_yaw_of, rotation, translation
from excitor.robots.lint import lint, suspicions
from excitor.robots.load import load, load_with_notes, read_content, robot_from_toml
from tests.meshes import PUBLIC

BODY = '<inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'
LIMITS = {"lower": -3.0, "upper": 3.0, "velocity": 2.0, "effort": 20.0}


def urdf_of(name, T_base=None, flipped=(), limits=(), extra="", shift=0.0):
    """Write a preset's axes as a URDF with other names, frames and senses."""
    robot, rng = geometry(name), np.random.default_rng(3)
    links, T_parent = robot.mechanism.poses(np.zeros((1, robot.n_joints)))[0], np.eye(4)
    text = '<robot name="x"><link name="l0"/>'
    for j in range(robot.n_joints):
        T = np.eye(4) if T_base is None else T_base
        T = T @ (links[j - 1] if j else np.eye(4)) @ robot.mechanism.before[j]
        along = translation(*(rng.uniform(-0.2, 0.2) * robot.mechanism.axis[j]))  # anywhere on the axis
        T = T @ along @ translation(*(shift * (j == 2) * np.ones(3)))
        x, axis = inverse(T_parent) @ T, robot.mechanism.axis[j] * (-1.0 if j in flipped else 1.0)
        own = LIMITS | (limits[j] if j < len(limits) else {})
        attributes = " ".join(f'{key}="{value}"' for key, value in own.items() if value is not None)
        text += f'<link name="l{j + 1}">{BODY}</link><joint name="a{j + 1}" type="revolute">'
        text += f'<parent link="l{j}"/><child link="l{j + 1}"/>'
        text += f'<origin xyz="{" ".join(map(repr, map(float, x[:3, 3])))}" '
        text += f'rpy="{" ".join(map(repr, map(float, roll_pitch_yaw_of(x))))}"/>'
        text += f'<axis xyz="{" ".join(map(repr, map(float, axis)))}"/><limit {attributes}/></joint>'
        T_parent = T
    return text + extra + "</robot>"


def written(tmp_path, text, name="x.urdf"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def note_of(source, preset=None):
    return next((sentence for where, sentence in load_with_notes(source, preset)[1] if where == "preset"), "")


@pytest.mark.parametrize("name", [*presets()])
def test_any_urdf_of_a_geometry_gets_its_preset(tmp_path, name):
    other = {"panda": "fr3", "fr3": "panda"}.get(name)
    rates = [
        float(x) for x in np.broadcast_to(presets()[name].data["velocity"].get("rad", 9.0), geometry(name).n_joints)
    ]
    limits = [{"velocity": rate} for rate in rates] if other else ()
    if other:
        spans = presets()[name].data["position"]["rad"]
        limits = [
            entry | dict(zip(("lower", "upper"), span, strict=True)) for entry, span in zip(limits, spans, strict=True)
        ]
    turned = translation(1.0, -2.0, 0.3) @ roll_pitch_yaw(0.1, 0.2, 2.0)
    source = written(tmp_path, urdf_of(name, turned, flipped=() if other else (1, 3), limits=limits))
    content = read_content(source)
    assert content.applied is not None
    assert content.applied.match.preset.name == name
    assert content.applied.match.apart[:, 0].max() < 1e-6
    np.testing.assert_allclose(content.applied.match.T_base_preset[:3, 2], turned[:3, 2], atol=1e-6)
    assert read_content(source, "none").applied is None
    assert 'preset = "none"' in note_of(source)


def test_every_figure_has_a_source_or_is_unknown():
    for name, preset in presets().items():
        data = preset.data
        assert data["source"] in preset.sources, name
        assert data["targets"]
        for key in FIGURES:
            figure = data[key]
            assert figure["source"] in preset.sources if isinstance(figure, dict) else figure, (name, key)
        for source in preset.sources.values():
            assert source["title"]
            assert source["url"].startswith("https://")
        n = geometry(name).n_joints
        match = compare(geometry(name), preset)
        assert match is not None
        for figure in (data[key] for key in FIGURES if isinstance(data[key], dict)):
            for unit in ("rad", "deg", "value"):
                shape = np.shape(figure.get(unit, 0.0))
                assert not shape or shape[0] == n or (figure is data["position"] and shape == (2,)), (name, figure)


def test_presets_are_told_apart():
    alike = {frozenset(("panda", "fr3"))}
    for name in presets():
        near = [other for other in presets() if (m := compare(geometry(name), presets()[other])) and m.worst <= 1.0]
        assert frozenset(near) == {name} or frozenset(near) in alike, name


def test_axes_follow_the_joints_senses(tmp_path):
    robot = load(written(tmp_path, urdf_of("lrmate200id", flipped=(2, 5))))
    matrix = robot.controllers["fanuc"].matrix
    np.testing.assert_array_equal(
        matrix[2], [0, -1, -1, 0, 0, 0]
    )  # J3 follows J2, and the file's joint turns against it
    np.testing.assert_array_equal(np.diag(matrix), [1, 1, -1, 1, 1, -1])
    spans = presets()["lrmate200id"].data["position"]["rad"]
    np.testing.assert_allclose(robot.limits.position[2], [-3.0, 2.450966])
    assert spans[2] == [-2.450966, 4.886922]


def test_base_frames_are_there_by_name(tmp_path):
    turned = translation(0.5, 0.0, 0.2) @ rotation("z", 0.7)
    robot = load(written(tmp_path, urdf_of("ur5e", turned)))
    frames = {frame.name: frame.T_link_frame for frame in robot.frames}
    np.testing.assert_allclose(frames["vendor_base"], turned, atol=1e-7)
    np.testing.assert_allclose(frames["ros_base"], turned @ rotation("z", np.pi), atol=1e-7)


@pytest.mark.parametrize(
    ("yaw", "level", "told"),
    [
        (0.0, "note", "of a ur5e, as this is by its geometry, ROS' is turned by rpy_deg = [0, 0, 180] against it"),
        (np.pi, "note", "the maker's is turned by rpy_deg = [0, 0, 180] against it"),
        (np.pi / 2, "warning", "turn joint 'a1' about the base by rpy_deg = [0, 0, -90] to have the maker's"),
    ],
)
def test_a_base_that_is_turned_against_the_presets_is_found(tmp_path, yaw, level, told):
    robot = load(written(tmp_path, urdf_of("ur5e", rotation("z", yaw))))
    (found,) = [finding for finding in lint(robot) if finding.where == "base frame"]
    assert (found.level, told in found.sentence) == (level, True), found
    assert (found in suspicions(robot)) == (level == "warning")


def test_limits_in_degrees_are_found_though_the_preset_is_stricter(tmp_path):
    limits = [{"velocity": 180.0}, {"velocity": 120.0}, {"velocity": 180.0}]
    robot = load(written(tmp_path, urdf_of("ur10", limits=limits)))
    found = [finding.sentence for finding in lint(robot) if "velocity limit is 180 rad/s" in finding.sentence]
    assert len(found) == 2
    assert "(velocity_deg_s = 180)" in found[0]


def test_stricter_limits_win_and_are_told(tmp_path):
    source = written(tmp_path, urdf_of("ur10", limits=[{"velocity": 1.0}, {"velocity": 9.0}, {"velocity": None}]))
    robot = load(source)
    np.testing.assert_allclose(robot.limits.velocity[:4], [1.0, np.radians(120), np.pi, 2.0])
    np.testing.assert_allclose(robot.limits.torque, 20.0)
    assert "velocity of a1" in note_of(source)
    assert "velocity of a2" not in note_of(source)
    assert "unknown are acceleration, jerk" in note_of(source)


def test_an_overlay_wins_over_its_preset(tmp_path):
    written(tmp_path, urdf_of("ur10", limits=[{"velocity": 9.0, "effort": 400}] * 6))
    own = 'base = "x.urdf"\n[[joint]]\nname = "a1"\nlimits = { velocity_rad_s = 5, acceleration_rad_s2 = 3 }\n'
    law = "[drive]\ntorque_from_current = [1, 2, 3, 4, 5, 6]\ntorque_from_current_sigma = 0.02\n"
    robot = load(written(tmp_path, own + law, "own.toml"))
    assert robot.limits.velocity[0] == 5.0  # above the preset's 2.09, below the URDF's 9
    assert robot.limits.velocity[1] == pytest.approx(np.radians(120))
    np.testing.assert_array_equal(robot.drive.torque_from_current[:, 1], [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(robot.drive.current_sigma, np.full(6, 0.02))
    default = load(tmp_path / "x.urdf")
    assert default.drive.torque_from_current[0, 1] == 13.5841
    np.testing.assert_array_equal(default.drive.current_sigma, np.full(6, 0.08))
    other = load(written(tmp_path, own + law.replace("torque_from_current_sigma = 0.02", ""), "own.toml"))
    assert other.drive.current_sigma is None  # the preset's is of another law
    none = load(written(tmp_path, 'preset = "none"\n' + own, "none.toml"))
    assert np.isnan(none.drive.torque_from_current).all()
    assert not none.controllers


def test_a_preset_of_another_geometry_is_refused(tmp_path):
    written(tmp_path, urdf_of("ur5"))
    with pytest.raises(
        InvalidRobot, match=r"preset: the geometry is not that of 'ur5e': the axis of joint \d is [0-9.]+ mm and"
    ):
        load(written(tmp_path, 'base = "x.urdf"\npreset = "ur5e"', "own.toml"))
    with pytest.raises(InvalidRobot, match="first joints are no chain of turning joints"):
        load(tmp_path / "x.urdf", "panda")
    with pytest.raises(InvalidRobot, match="preset: 'ur55' is none; did you mean 'ur5'"):
        load(written(tmp_path, 'base = "x.urdf"\npreset = "ur55"', "own.toml"))
    with pytest.raises(InvalidRobot, match="preset: '5' is none"):
        load(written(tmp_path, 'base = "x.urdf"\npreset = 5', "own.toml"))


def test_other_geometries_get_none(tmp_path):
    assert note_of(written(tmp_path, urdf_of("ur5", shift=0.005))) == ""
    assert note_of(written(tmp_path, urdf_of("ur5", shift=0.001))).startswith("Universal Robots UR5 (CB3) (ur5)")
    assert note_of("tx40") == ""


def test_a_geometry_of_two_presets_needs_limits_or_a_name(tmp_path):
    source = written(tmp_path, urdf_of("fr3", limits=[{"velocity": None, "lower": 0, "upper": 0}] * 7))
    assert "which limits do not tell apart: none is used" in note_of(source)
    assert np.isinf(load(source).limits.jerk).all()
    np.testing.assert_array_equal(load(source, "fr3").limits.jerk, np.full(7, 5000.0))
    assert load(source, "fr3").chi[70] == 0.605721456  # Ia1


def test_extra_joints_keep_what_lists_state(tmp_path):
    finger = (
        f'<link name="tip">{BODY}</link><joint name="finger" type="prismatic"><parent link="l6"/><child link="tip"/>'
    )
    finger += '<axis xyz="1 0 0"/><limit lower="0" upper="0.04" velocity="0.2" effort="100"/></joint>'
    robot = load(written(tmp_path, urdf_of("ur10", extra=finger)))
    assert robot.n_joints == 7
    np.testing.assert_array_equal(np.isnan(robot.drive.torque_from_current).any(axis=1), [False] * 6 + [True])
    assert not robot.drive.has_current_law
    assert not robot.controllers
    assert robot.limits.velocity[6] == 0.2


def test_a_whole_robot_file_may_request_one(tmp_path):
    text = re.sub("(?m)^torque_from_current", "# of another: ", robot_toml(written(tmp_path, urdf_of("ur10"))))
    assert np.isnan(load(written(tmp_path, text, "own.toml")).drive.torque_from_current).all()
    own = written(tmp_path, 'preset = "ur10"\n' + text, "own.toml")
    assert load(own).drive.torque_from_current[0, 1] == 13.5841
    assert "torque_from_current_sigma = 0.08  # preset ur10" in robot_toml(own)
    none = written(tmp_path, 'preset = "none"\n' + text, "none.toml")
    assert not robot_from_toml(robot_toml(none), "again").drive.has_current_law


def test_to_toml_says_where_figures_come_from(tmp_path):
    source = written(tmp_path, urdf_of("ur10", limits=[{"velocity": 9.0}]))
    text = robot_toml(source)
    assert "torque_from_current_sigma = 0.08  # preset ur10: Petrone" in text
    assert "velocity_rad_s: preset ur10: Universal_Robots_ROS2_Description" in text
    robot = robot_from_toml(text, "own.toml")
    np.testing.assert_array_equal(robot.drive.current_sigma, load(source).drive.current_sigma)


def test_a_sigma_without_a_law_is_refused(tmp_path):
    written(tmp_path, urdf_of("ur5"))
    with pytest.raises(InvalidRobot, match="torque_from_current_sigma: is of torque_from_current, which is missing"):
        load(written(tmp_path, 'base = "x.urdf"\n[drive]\ntorque_from_current_sigma = 0.1', "own.toml"))


def test_campaigns_switch_presets(tmp_path):
    source = written(tmp_path, urdf_of("ur10"))
    file = begin(tmp_path / "cell", str(source))
    default = open_campaign(file.parent, "design")
    assert default.robot.controllers
    text = file.read_text()
    file.write_text('preset = "none"\n' + text)
    none = open_campaign(file.parent, "design")
    assert not none.robot.controllers
    assert none.digest != default.digest
    file.write_text('preset = "ur3"\n' + text)
    with pytest.raises(InvalidRobot, match="not that of 'ur3'"):
        open_campaign(file.parent, "design")
    file.write_text("preset = 3\n" + text)
    with pytest.raises(InvalidCampaign, match="preset"):
        open_campaign(file.parent, "design")


def test_the_command_line_lists_them_with_sources():
    result = CliRunner().invoke(app, ["robots", "--presets", "--json"])
    found = {entry["name"]: entry for entry in json.loads(result.stdout)["presets"]}
    panda = found["panda"]
    assert panda["sources"][panda["jerk"]["source"]]["url"].startswith("https://github.com/frankarobotics/libfranka")
    assert "acceleration" in found["ur5"]["unknown"]
    assert "ur5 " in CliRunner().invoke(app, ["robots", "--presets"]).stdout
    assert CliRunner().invoke(app, ["robots", "ur10", "--presets"]).exit_code == 2


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public robot files are not here")
@pytest.mark.parametrize(
    ("file", "name", "turn"),
    [
        ("ur_description/urdf/ur5_robot.urdf", "ur5", 180.0),
        ("ur_description/urdf/ur5_gripper.urdf", "ur5", 180.0),
        ("panda_description/urdf/panda.urdf", "panda", 0.0),
    ],
)
def test_public_files_are_recognised(tmp_path, file, name, turn):
    text = (PUBLIC / file).read_text()
    root = ET.fromstring(text)
    for link in root.iterfind("link"):
        for part in ("visual", "collision"):
            for shape in link.findall(part):
                link.remove(shape)
    source = written(tmp_path, ET.tostring(root, "unicode"))
    content = read_content(source)
    assert content.applied is not None
    assert content.applied.match.preset.name == name
    assert content.applied.match.apart[:, 0].max() < 1e-4
    T = content.applied.match.T_base_preset
    np.testing.assert_allclose(T[:3, :3], rotation("z", np.radians(turn))[:3, :3], atol=1e-6)
    robot = load(source)
    if name == "panda":
        np.testing.assert_array_equal(robot.limits.acceleration[:7], [15, 7.5, 10, 12.5, 15, 20, 20])
    else:
        np.testing.assert_allclose(robot.limits.velocity, np.pi)
