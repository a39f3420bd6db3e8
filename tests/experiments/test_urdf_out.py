"""Inertials and friction go into a URDF; nothing else of it changes."""

import re

import numpy as np
import pytest

from excitor.robots.errors import ExcitorError
from excitor.robots.files.urdf import filled_urdf, robot_from_urdf
from excitor.robots.load import load
from excitor.robots.parameters import layout

URDF = """<?xml version="1.0"?>
<!-- a comment with <inertial> in it -->
<robot name="two" xmlns:x="urn:x">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  <link name="ground"/>
  <link name="arm" x:odd="kept">
    <visual><geometry><mesh filename="package://nowhere.stl"/></geometry></visual>
    <inertial>
      <origin xyz="0.1 0 0" rpy="0 0 0.3"/><mass value="2.0"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/>
    </inertial>
  </link>
  <link name="hand"><!-- no inertial yet --></link>
  <link name="camera"><inertial>
    <mass value="0.5"/><inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/>
  </inertial></link>
  <joint name="shoulder" type="revolute">
    <parent link="ground"/><child link="arm"/><axis xyz="0 0 1"/><limit lower="-2" upper="2" velocity="3" effort="50"/>
  </joint>
  <joint name="wrist" type="revolute">
    <parent link="arm"/><child link="hand"/><origin xyz="0.4 0 0" rpy="1.5708 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" velocity="3" effort="50"/>
  </joint>
  <joint name="camera_mount" type="fixed"><parent link="arm"/><child link="camera"/><origin xyz="0.2 0 0.05"/></joint>
  <transmission name="kept"/>
</robot>
"""
BODY = np.array([0.02, 0.001, 0.0, 0.05, 0.002, 0.06, 0.2, 0.01, -0.02, 1.5])


def test_the_filled_file_reads_back_to_the_same_parameters():
    robot = robot_from_urdf(URDF, "two.urdf")
    chi = robot.chi.copy()
    chi[0:10] *= 1.3
    chi[10:20] = BODY
    again = robot_from_urdf(filled_urdf(URDF, robot, chi)[0], "filled.urdf")
    np.testing.assert_allclose(again.chi[:20], chi[:20], atol=1e-12)


def test_everything_else_stays_as_it_was():
    robot = robot_from_urdf(URDF, "two.urdf")
    chi = robot.chi.copy()
    chi[10:20] = BODY
    filled, _ = filled_urdf(URDF, robot, chi)
    without = re.compile(r"<inertial>.*?</inertial>|<dynamics[^>]*/>", re.DOTALL)
    plain = URDF.replace("<!-- a comment with <inertial> in it -->", "")
    kept = filled.replace("<!-- a comment with <inertial> in it -->", "")
    assert without.sub("", plain) == without.sub("", kept)
    camera = re.search(r'<link name="camera">.*?</link>', URDF, re.DOTALL).group()
    assert camera in filled, "links on fixed joints keep what they weigh"


def test_a_link_written_in_one_tag_is_opened():
    text = URDF.replace('<link name="hand"><!-- no inertial yet --></link>', '<link name="hand"/>')
    robot = robot_from_urdf(text, "two.urdf")
    chi = robot.chi.copy()
    chi[10:20] = BODY
    again = robot_from_urdf(filled_urdf(text, robot, chi)[0], "filled.urdf")
    np.testing.assert_allclose(again.chi[10:20], BODY, atol=1e-12)


def test_a_link_that_would_weigh_nothing_is_refused():
    robot = robot_from_urdf(URDF, "two.urdf")
    chi = robot.chi.copy()
    chi[9] = 0.4
    chi[10:20] = BODY
    with pytest.raises(ExcitorError, match="link 'arm' would weigh"):
        filled_urdf(URDF, robot, chi)


def test_another_robots_file_is_refused():
    robot = robot_from_urdf(URDF, "two.urdf")
    chi = robot.chi.copy()
    chi[10:20] = BODY
    with pytest.raises(ExcitorError, match="has no joint 'wrist'"):
        filled_urdf(URDF.replace('"wrist"', '"elbow"'), robot, chi)


@pytest.mark.parametrize(
    ("there", "written"),
    [
        ("", '<dynamics damping="1.5" friction="0.25"/></joint>'),
        ('<dynamics friction="0.0" D="1 > 0" damping=\'0\'/>', '<dynamics friction="0.25" D="1 > 0" damping="1.5"/>'),
        ("<dynamics a='x'></dynamics>", '<dynamics damping="1.5" friction="0.25" a=\'x\'></dynamics>'),
    ],
)
def test_friction_is_written_to_dynamics(there, written):
    text = URDF.replace(
        'effort="50"/>\n  </joint>\n  <joint name="wrist"', f'effort="50"/>{there}</joint><joint name="wrist"'
    )
    robot = robot_from_urdf(text, "two.urdf")
    chi = robot.chi.copy()
    chi[10:20] = BODY
    names = layout(robot).names
    for name, value in (("Fv1", 1.5), ("Fc1", 0.25), ("Fv2", 3.0), ("off1", 0.1), ("Ia2", 0.2)):
        chi[names.index(name)] = value
    filled, left_out = filled_urdf(text, robot, chi)
    assert written in filled
    again = robot_from_urdf(filled, "filled.urdf")
    stated = [names.index(name) for name in ("Fv1", "Fc1", "Fv2")]
    np.testing.assert_array_equal(again.chi[stated], [1.5, 0.25, 3.0])
    assert again.known[stated].all()
    assert left_out == ("Ia2", "off1")


def test_a_robot_without_friction_leaves_dynamics_as_they_are(tmp_path):
    text = URDF.replace("</joint>", '<dynamics damping="7"/></joint>', 1)
    (tmp_path / "two.urdf").write_text(text)
    (tmp_path / "my.toml").write_text('base = "two.urdf"\nfriction = []\ndrive.rotors = "none"\n')
    robot = load(tmp_path / "my.toml")
    assert not robot.drive.friction
    chi = robot.chi.copy()
    chi[10:20] = BODY
    assert '<dynamics damping="7"/></joint>' in filled_urdf(text, robot, chi)[0]
