"""Robot files that complete another: what they change, what they may not, and what the base keeps."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.init import begin
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.overlay import merged
from excitor.robots.load import load, load_with_notes, read_content
from excitor.robots.parameters import layout

BODY = '<inertial><mass value="{}"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'
URDF = f"""<robot name="arm"><link name="ground"/><link name="boom">{BODY.format(3)}</link>
<link name="jib">{BODY.format(2)}</link><link name="flange">{BODY.format(0.1)}</link>
<joint name="turn" type="revolute"><parent link="ground"/><child link="boom"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="2" velocity="3" effort="40"/><dynamics damping="0.5" friction="0.2"/></joint>
<joint name="reach" type="prismatic"><parent link="boom"/><child link="jib"/><axis xyz="1 0 0"/>
<limit lower="0" upper="0.5" velocity="1" effort="100"/></joint>
<joint name="mount" type="fixed"><parent link="jib"/><child link="flange"/><origin xyz="0.3 0 0"/></joint></robot>"""
FULL = """
base = "arm.urdf"
name = "my-arm"
[[joint]]
name = "turn"
limits = { velocity_deg_s = 90, acceleration_rad_s2 = 5, jerk_rad_s3 = 50 }
[[joint]]
name = "reach"
limits = { acceleration_m_s2 = 2 }
locked_m = 0.1
[drive]
motor_from_joint = [[50, 0], [10, 200]]
torque_from_current = [0.1, [0.0, 0.2, 0.0, 0.01]]
efficiency = [0.9, 0.8]
[friction]
terms = ["viscous", "coulomb"]
sign_width = 0.01
[[friction.element]]
parameter = "Fl"
model = "load"
senses = { turn = 1 }
[parameters]
Fv2 = 4.0
Ia1 = 0.3
[tool]
link = "flange"
xyz = [0, 0, 0.1]
[payload]
mass = 2.0
[[frame]]
name = "camera"
link = "jib"
[[capsule]]
link = "jib"
start = [0, 0, 0]
end = [0.3, 0, 0]
radius = 0.05
[controllers.csv]
axes = ["A", "B"]
signs = [-1, 1]
"""


@pytest.fixture
def put(tmp_path):
    """Write files, and give the path of the overlay."""

    def written(text, base=URDF, name="arm.urdf"):
        (tmp_path / name).write_text(base)
        path = tmp_path / "my.toml"
        path.write_text(text)
        return path

    return written


def test_every_table_is_put_over_a_urdf(put):
    path = put(FULL)
    bare, robot = load(path.parent / "arm.urdf"), load(path)
    names = layout(robot).names
    assert (robot.name, bare.name) == ("my-arm", "arm")
    np.testing.assert_allclose(robot.limits.velocity, [np.pi / 2, 1.0])
    np.testing.assert_array_equal(robot.limits.acceleration, [5.0, 2.0])
    np.testing.assert_array_equal(robot.limits.jerk, [50.0, np.inf])
    np.testing.assert_array_equal(robot.limits.position, bare.limits.position)
    np.testing.assert_array_equal(robot.limits.torque, bare.limits.torque)
    assert robot.locked == {1: 0.1}
    np.testing.assert_array_equal(robot.drive.motor_from_joint, [[50, 0], [10, 200]])
    np.testing.assert_array_equal(robot.drive.torque_from_current, [[0, 0.1, 0, 0], [0, 0.2, 0, 0.01]])
    np.testing.assert_array_equal(robot.drive.efficiency, [0.9, 0.8])
    np.testing.assert_array_equal(robot.drive.rotors[1].senses, [0.05, 1.0])  # still one a motor
    assert names[20:] == ("Ia1", "Ia2", "Fv1", "Fc1", "Fv2", "Fc2", "Fl")
    np.testing.assert_array_equal(robot.chi[20:], [0.3, 0.0, 0.5, 0.2, 4.0, 0.0, 0.0])
    np.testing.assert_array_equal(robot.known[20:], [True, False, True, True, True, False, False])
    np.testing.assert_array_equal(robot.chi[:20], bare.chi[:20])
    assert {term.width for term in robot.drive.friction} == {0.01}
    np.testing.assert_allclose(robot.tool.T_link_frame[:3, 3], [0.3, 0.0, 0.1])
    assert robot.payload.phi[9] == 2.0
    assert {frame.name: frame.link for frame in robot.frames} == {"mount": 1, "flange": 1, "camera": 1}
    volumes = {capsule.link: (capsule.radius, capsule.origin) for capsule in robot.capsules}
    assert volumes == {0: (0.06, "assumed"), 1: (0.05, "stated")}
    np.testing.assert_array_equal(robot.controllers["csv"].matrix, np.diag([-1, 1]))


def test_an_empty_overlay_is_the_base(put):
    path = put('base = "arm.urdf"')
    robot, notes = load_with_notes(path)
    bare, of_base = load_with_notes(path.parent / "arm.urdf")
    np.testing.assert_array_equal(robot.chi, bare.chi)
    assert notes == of_base


def test_notes_that_the_overlay_answers_are_not_repeated(put):
    answered = {"friction", "tool"}
    path = put(FULL)
    assert answered <= {where for where, _ in load_with_notes(path.parent / "arm.urdf")[1]}
    assert not answered & {where for where, _ in load_with_notes(path)[1]}


@pytest.mark.parametrize("switch", ["friction = []", "[friction]\nterms = []"])
def test_friction_can_be_left_out(put, switch):
    robot = load(put(f'base = "arm.urdf"\n{switch}\n[drive]\nrotors = "none"'))
    assert not robot.drive.friction
    assert len(robot.chi) == 20


def test_a_catalogue_robot_is_completed(tmp_path):
    (tmp_path / "my.toml").write_text(
        'base = "tx40"\n[lengths]\nd3 = 0.226\n[[joint]]\nname = "j4"\nlink = { mass = 4.0 }\n'
        "limits = { acceleration_rad_s2 = 60 }\n"
        '[[capsule]]\nlink = "j5"\nstart = [0, 0, 0]\nend = [0, 0, 0.1]\nradius = 0.1\n'
        '[[friction.element]]\nparameter = "Fvm6"\nmodel = "viscous"\nsenses = { j6 = 1 }\n'
    )
    own, base = load(tmp_path / "my.toml"), load("tx40")
    assert own.lengths == {"d3": 0.226, "r3": 0.035, "r4": 0.225}
    assert (own.chi[39], own.limits.acceleration[3]) == (4.0, 60.0)
    np.testing.assert_allclose(own.chi[36:39] / 4.0, base.chi[36:39] / 3.62)  # the centre is the base's
    assert len(own.capsules) == len(base.capsules)
    assert own.capsules[-1].radius == 0.1
    senses = {term.parameter: term.senses for term in own.drive.friction}
    np.testing.assert_array_equal(senses["Fvm6"], [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(senses["Fsm6"], [0, 0, 0, 0, 1, 1])
    assert own.declared_base is not None


def test_a_declared_base_of_other_friction_is_left_behind(tmp_path):
    (tmp_path / "my.toml").write_text('base = "tx40"\nfriction = []')
    assert load(tmp_path / "my.toml").declared_base is None


def test_capsules_can_be_taken_away_and_friction_models_changed(tmp_path):
    (tmp_path / "my.toml").write_text('base = "ur10"\ncapsule = []\n[friction]\nterms = ["coulomb", "offset"]\n')
    robot = load(tmp_path / "my.toml")
    assert not robot.capsules
    assert layout(robot).names[66:70] == ("Fc1", "off1", "Fc2", "off2")
    assert robot.chi[66] == 16.0


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"ratios": [3.0]}, {"ratios": [3.0]}),
        ({"motor_from_joint": [[3.0]]}, {"motor_from_joint": [[3.0]]}),
        ({"ratios": [3.0], "ratio_sigma": [0.1]}, {"ratios": [3.0], "ratio_sigma": [0.1]}),
        ({"inertia": [1.0]}, {"ratios": [2.0], "ratio_sigma": [0.2], "inertia": [1.0]}),
    ],
)
def test_a_doubt_goes_with_the_gears_it_was_of(given, left):
    assert merged({"drive": {"ratios": [2.0], "ratio_sigma": [0.2]}}, {"drive": given}) == {"drive": left}


def test_the_doubt_of_a_current_law_goes_with_it():
    base = {"torque_from_current": [1.0], "torque_from_current_sigma": [0.1], "ratios": [2.0]}
    assert merged(base, {"torque_from_current": [2.0]}) == {"torque_from_current": [2.0], "ratios": [2.0]}
    assert merged(base, {"signs": [1.0]}) == base | {"signs": [1.0]}


def test_overlays_stand_on_each_other_and_all_their_texts_count(put):
    put('base = "arm.urdf"\n[drive]\nratios = [50, 100]')
    folder = put(
        'base = "first.toml"\n[drive]\nratios = [60, 100]', 'base = "arm.urdf"\nname = "n"', "first.toml"
    ).parent
    content = read_content(folder / "my.toml")
    assert [file.name for file in content.files] == ["arm.urdf", "first.toml", "my.toml"]
    assert content.urdf_file == folder / "arm.urdf"
    assert load(folder / "my.toml").name == "n"
    before = content.text
    (folder / "arm.urdf").write_text(URDF.replace("0.3 0 0", "0.31 0 0"))
    assert read_content(folder / "my.toml").text != before


def test_a_campaign_takes_the_base_along_and_its_digest_covers_it(put, tmp_path):
    path = put(FULL.replace("arm.urdf", "files/arm.urdf"))
    (tmp_path / "files").mkdir()
    (tmp_path / "arm.urdf").rename(tmp_path / "files" / "arm.urdf")
    begin(tmp_path / "cell", str(path))
    cell = tmp_path / "cell"
    assert (cell / "files" / "arm.urdf").read_text() == URDF
    opened = open_campaign(cell, "design")
    assert opened.robot.name == "my-arm"
    before = opened.digest
    (cell / "files" / "arm.urdf").write_text(URDF.replace("0.3 0 0", "0.31 0 0"))
    assert open_campaign(cell, "design").digest != before


JOINT = '[[joint]]\nname = "turn"\n'
BAD = {
    "no such file": ('base = "none.urdf"', "base: 'none.urdf' does not exist"),
    "no such robot": ('base = "tx4"', "base: 'tx4' is no robot of the catalogue.*did you mean 'tx40'"),
    "not text": ("base = 3", "base: '3' is no robot of the catalogue"),
    "absolute": ('base = "/etc/arm.urdf"', "base: '/etc/arm.urdf' is outside the file's own folder"),
    "above": ('base = "../arm.urdf"', "base: '../arm.urdf' is outside the file's own folder"),
    "above and back": ('base = "x/../../arm.urdf"', "is outside the file's own folder"),
    "no path": ('base = "a\\u0000.urdf"', "base: .* cannot be found: embedded null byte"),
    "too long a path": (f'base = "{"a" * 300}.urdf"', "base: .* cannot be found: .*too long"),
    "a circle of links": ('base = "loop.urdf"', "base: 'loop.urdf' (cannot be found|does not exist)"),
    "a link out": ('base = "out.urdf"', "base: 'out.urdf' is outside the file's own folder"),
    "itself": ('base = "my.toml"', "base: 'my.toml' is based on itself"),
    "in a circle": ('base = "circle.toml"', "base: 'my.toml' is based on itself"),
    "a kind of file": ('base = "arm.step"', "base: 'arm.step' is no robot of the catalogue, nor the path of"),
    "joint": (
        'base = "arm.urdf"\n[[joint]]\nname = "trun"',
        "joint.1..name: arm.urdf has no joint 'trun'; did you mean 'turn'",
    ),
    "joint without a name": (
        'base = "arm.urdf"\n[[joint]]\nlocked_deg = 1',
        "joint.1..name: is missing; it says which",
    ),
    "joint twice": (f'base = "arm.urdf"\n{JOINT}{JOINT}', "joint: 'turn' is stated 2 times; state it once"),
    "no table": ('base = "arm.urdf"\njoint = 3', "joint: is 3, expected"),
    "key of a joint": (
        f'base = "arm.urdf"\n{JOINT}limit = {{ velocity_rad_s = 1 }}',
        "joint 'turn'.limit: .*; did you mean 'limits'",
    ),
    "geometry": (
        f'base = "arm.urdf"\n{JOINT}placement = {{ xyz = [0, 0, 1] }}',
        "joint 'turn'.placement: the joint's place and kind are arm.urdf's, to be changed there",
    ),
    "kind": (f'base = "arm.urdf"\n{JOINT}kind = "prismatic"', "joint 'turn'.kind: the joint's place and kind"),
    "key of limits": (
        f'base = "arm.urdf"\n{JOINT}limits = {{ acceleration_rad_s = 1 }}',
        "joint 'turn'.limits.acceleration_rad_s: is not a key .*; did you mean 'acceleration_rad_s2'",
    ),
    "unit": (
        f'base = "arm.urdf"\n{JOINT}limits = {{ acceleration_m_s2 = 1 }}',
        "joint 'turn'.limits.acceleration_m_s2: the joint turns; give it in deg or rad",
    ),
    "order of limits": (
        f'base = "arm.urdf"\n{JOINT}limits = {{ position_rad = [1, 0] }}',
        "joint 'turn'.limits.position: goes from 1 to 0; the lower bound comes first",
    ),
    "sliding": (
        f'base = "arm.urdf"\n{JOINT}limits = {{ position_m = [0, 1] }}',
        "joint 'turn'.limits.position_m: the joint turns; give it in deg or rad",
    ),
    "key of a capsule": (
        'base = "ur10"\n[[capsule]]\nlink = "elbow"\nstart = [0, 0, 0]\nend = [0, 0, 1]\nradius = -1',
        "capsule 'elbow'.radius: is -1, expected greater than 0",
    ),
    "wider position": (
        f'base = "arm.urdf"\n{JOINT}limits = {{ position_deg = [-90, 90] }}',
        r"joint 'turn'.limits.position_deg: is \[-90, 90\], wider than arm.urdf's position_rad = \[-1.0, 2.0\]",
    ),
    "wider velocity": (
        f'base = "arm.urdf"\n{JOINT}limits = {{ velocity_rad_s = 3.1 }}',
        "joint 'turn'.limits.velocity_rad_s: is 3.1, wider than arm.urdf's velocity_rad_s = 3.0; .* tighter only",
    ),
    "wider torque": (f'base = "arm.urdf"\n{JOINT}limits = {{ torque = 41 }}', "limits.torque: is 41, wider than"),
    "limits of nothing": (f'base = "arm.urdf"\n{JOINT}limits = 3', "joint 'turn'.limits: is 3, expected"),
    "number of motors": ('base = "arm.urdf"\n[drive]\nratios = [1, 2, 3]', r"drive.ratios: .* expected 2 numbers"),
    "number of laws": (
        'base = "arm.urdf"\n[drive]\ntorque_from_current = [1, 1, 1]',
        "drive.torque_from_current: has 3 entries, expected one for each of the 2 motors",
    ),
    "number of axes": (
        'base = "arm.urdf"\n[controllers.csv]\naxes = ["A"]',
        "controllers.csv.axes: has 1 entries, expected",
    ),
    "two ways of one": (
        'base = "arm.urdf"\n[drive]\nratios = [1, 2]\nmotor_from_joint = [[1, 0], [0, 1]]',
        "drive: gives ratios and motor_from_joint; keep one",
    ),
    "link of a capsule": (
        'base = "arm.urdf"\n[[capsule]]\nlink = "bom"\nstart = [0, 0, 0]\nend = [0, 0, 1]\nradius = 0.1',
        "capsule.1..link: arm.urdf has no joint or link 'bom'; did you mean 'boom'",
    ),
    "link of the tool": (
        'base = "arm.urdf"\n[tool]\nlink = "flnge"',
        "tool.link: .* no joint or link 'flnge'; did you mean 'flange'",
    ),
    "frame that is there": (
        'base = "arm.urdf"\n[[frame]]\nname = "flange"\nlink = "boom"',
        "frame 'flange'.name: is a link of arm.urdf, which is there; choose another name",
    ),
    "joint of an element": (
        'base = "arm.urdf"\n[[friction.element]]\nparameter = "F"\nmodel = "viscous"\nsenses = { turm = 1 }',
        "friction.element 'F'.senses: no joint that moves is named 'turm'; did you mean 'turn'",
    ),
    "friction model": ('base = "arm.urdf"\n[friction]\nterms = ["viscos"]', "friction.terms.1.: is 'viscos', expected"),
    "parameter": ('base = "arm.urdf"\n[parameters]\nFv3 = 1', "parameters: parameter 'Fv3' is not one of this robot's"),
    "parameter of a body": (
        'base = "arm.urdf"\n[parameters]\nM1 = 1',
        "parameters.M1: is given by its link's body already",
    ),
    "key of the file": (
        'base = "arm.urdf"\n[frictoin]\nterms = []',
        "frictoin: is not a key .*; did you mean 'friction'",
    ),
    "platform": ('base = "five-bar"\n[platform]\nmoves = ["x"]\nhome = [0]', "platform: the geometry is five-bar's"),
    "length": ('base = "tx40"\n[lengths]\nd33 = 1', "lengths.d33: tx40 has no such length; did you mean 'd3'"),
    "bad base": ('base = "broken.urdf"', "broken.urdf: is not XML"),
    "bad robot below": ('base = "wrong.toml"', "wrong.toml: joint.1..*: needs exactly one of mdh, dh and placement"),
}


@pytest.mark.parametrize(("text", "match"), BAD.values(), ids=BAD)
def test_bad_overlay(put, tmp_path, text, match):
    path = put(text)
    (tmp_path / "circle.toml").write_text('base = "my.toml"')
    (tmp_path / "broken.urdf").write_text("<robot")
    (tmp_path / "wrong.toml").write_text('name = "w"\n[[joint]]\nname = "a"')
    (tmp_path / "loop.urdf").symlink_to(tmp_path / "loop.urdf")
    (tmp_path / "out.urdf").symlink_to(Path(__file__))
    with pytest.raises(InvalidRobot, match=match):
        load(path)


def test_several_contradictions_are_reported_at_once(put):
    with pytest.raises(InvalidRobot) as caught:
        load(put(f'base = "arm.urdf"\n{JOINT}limits = {{ torque = 50, velocity_rad_s = 9 }}\n[[joint]]\nname = "x"'))
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "text", ["base = []", "base = {}", 'base = "arm.urdf"\njoint = [[1]]', 'base="arm.urdf"\nframe=[1]']
)
def test_tables_of_the_wrong_kind_are_refused(put, text):
    with pytest.raises(InvalidRobot):
        load(put(text))


def test_the_command_line_shows_an_overlay(put):
    path = put(FULL)
    done = CliRunner().invoke(app, ["robots", str(path), "--json"])
    assert done.exit_code == 0
    shown = json.loads(done.stdout)
    assert shown["name"] == "my-arm"
    assert shown["limits"]["acceleration"] == [5.0, 2.0]
