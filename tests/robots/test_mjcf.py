"""MJCF files: the robot read is the one that MuJoCo simulates; what it cannot be is refused by name."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from excitor.experiments.campaign import open_campaign
from excitor.experiments.init import begin
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.meshes import read_mesh, stl
from excitor.robots.files.write import robot_toml
from excitor.robots.load import load, load_with_notes, robot_from_toml
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion

mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install excitor[mujoco]")

ARM = """<mujoco model="arm"><compiler angle="degree" autolimits="true" meshdir="assets"/><option gravity="0 1 -9.6"/>
<default><joint damping="0.3" armature="0.1" frictionloss="0.2"/><geom density="1500"/></default>
<asset><texture type="2d" name="t" builtin="checker" width="90000" height="90000"/><material name="m" texture="t"/>
<mesh file="x.stl" scale="0.001 0.001 0.001"/></asset><size memory="900G"/>
<worldbody><light pos="0 0 3"/><geom type="plane" size="1 1 .1" material="m"/>
<body name="stand" pos="0 0 .1"><geom type="cylinder" size=".1 .1"/>
 <body name="upper" pos="0 .05 .2" euler="90 20 0">
  <joint name="a" axis="0 1 0" pos="0 .02 .01" range="-170 170" ref="30"/>
  <geom type="capsule" fromto="0 0 0 .3 0 0" size=".04"/><geom type="mesh" mesh="x" pos=".1 0 0" euler="0 0 30"/>
  <body name="fore" pos=".3 0 0" quat="0.707107 0 0.707107 0"><joint name="b" axis="0 0 1" range="-120 120"/>
   <joint name="c" axis="1 0 0" pos="0 0 .05"/><geom type="box" size=".03 .04 .15" pos="0 0 .15"/>
   <geom type="ellipsoid" size=".03 .04 .1" pos="0 0 .2" contype="0" conaffinity="0"/>
   <body name="slide" pos="0 0 .3"><joint name="d" type="slide" axis="0 0 1" range="0 .2" ref="0.05"/>
    <geom type="sphere" size=".05"/><site name="attachment_site" pos="0 0 .1" euler="0 90 0"/>
    <body name="finger" pos="0.05 0 .1"><geom type="box" size=".01 .01 .02"/>
     <joint name="e" type="slide" axis="1 0 0" damping="0" frictionloss="0" armature="0"/></body></body></body></body>
</body></worldbody>
<equality><joint joint1="e" joint2="d" polycoef="0.01 0.5 0 0 0"/></equality>
<actuator><motor joint="a" gear="2" forcerange="-40 40"/><position joint="b" kp="10" forcerange="-30 30"/></actuator>
<contact><exclude body1="stand" body2="fore"/></contact><keyframe><key qpos="0 0 0 0 0"/></keyframe></mujoco>"""
SOLID = 1e3 * np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3]])[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]


@pytest.fixture
def put(tmp_path):
    """Write an MJCF file with its mesh, and give its path."""

    def written(text=ARM, mesh=None):
        (tmp_path / "assets").mkdir(exist_ok=True)
        (tmp_path / "assets/x.stl").write_bytes(stl(SOLID) if mesh is None else mesh)
        path = tmp_path / "arm.xml"
        path.write_text(text)
        return path

    return written


def test_torques_and_poses_are_those_of_mujoco(put):
    path = put()
    robot = load(path)
    kept = ARM.replace('width="90000" height="90000"', 'width="8" height="8"').replace('<size memory="900G"/>', "")
    path.write_text(kept)
    model = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_EQUALITY | off.mjDSBL_FRICTIONLOSS
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 40, 4))
    J = np.vstack([np.eye(4), [0, 0, 0, 0.5]])  # the finger follows
    torques, places = [], []
    for x, v, a in zip(q, dq, ddq, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = J @ x + [0, 0, 0, 0, 0.01 - 0.5 * 0.05], J @ v, J @ a
        mujoco.mj_inverse(model, data)
        torques.append(J.T @ data.qfrc_inverse)
        places.append(np.c_[data.site_xmat[0].reshape(3, 3), data.site_xpos[0]])
    dry = [name.startswith("Fc") for name in layout(robot).names]
    smooth = replace(robot, chi=np.where(dry, 0.0, robot.chi))
    np.testing.assert_allclose(inverse_dynamics(smooth, Motion(q, dq, ddq)), torques, atol=1e-12)
    tool = robot.mechanism.poses(q)[:, robot.tool.link] @ robot.tool.T_link_frame
    np.testing.assert_allclose(tool[:, :3], places, atol=1e-12)


def test_limits_friction_and_pairs_are_read(put):
    robot, notes = load_with_notes(put())
    values = dict(zip(layout(robot).names, robot.chi, strict=True))
    assert robot.joint_names == ("a", "b", "c", "d")
    assert [values[f"{name}2"] for name in ("Ia", "Fv", "Fc")] == [0.1, 0.3, 0.2]
    np.testing.assert_array_equal(robot.limits.torque, [80.0, 30.0, np.inf, np.inf])
    np.testing.assert_allclose(robot.limits.position[[0, 3]], [np.radians([-170, 170]), [0.0, 0.2]])
    assert frozenset(("stand", "fore")) in {frozenset(pair) for pair in robot.ignored_pairs}
    assert "worldbody" in {where for where, _ in notes}
    assert {where for where, what in notes if "no actuator" in what} == {"joint 'c'", "joint 'd'"}
    bare = load_with_notes(put(re.sub("<actuator>.*</actuator>", "", ARM)))[1]
    assert not [what for _, what in bare if "no actuator" in what], "a file without actuators leaves them to others"
    again = robot_from_toml(robot_toml(put()), "arm.toml")
    np.testing.assert_allclose(again.chi, robot.chi, atol=1e-12)


def test_it_is_a_base_that_an_overlay_completes(put, tmp_path):
    put()
    (tmp_path / "my.toml").write_text(
        'base = "arm.xml"\n[[joint]]\nname = "a"\nlimits = { velocity_deg_s = 90 }\n[tool]\nlink = "slide"\n'
    )
    robot = load(tmp_path / "my.toml")
    assert robot.limits.velocity[0] == pytest.approx(np.pi / 2)
    assert robot.mechanism.link_names[robot.tool.link] == "d"
    (tmp_path / "my.toml").write_text('base = "arm.xml"\n[[joint]]\nname = "f"\n')
    with pytest.raises(InvalidRobot, match="arm.xml has no joint 'f'"):
        load(tmp_path / "my.toml")


def test_a_mesh_lies_in_its_capsules_and_goes_along_with_a_campaign(put, tmp_path):
    path = put()
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    turned = SOLID.reshape(-1, 3) / 1e3 @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) + [0.1, 0, 0]
    own = [capsule for capsule in load(path).capsules if capsule.origin == "mesh"]
    gaps = []
    for capsule in own:
        along = capsule.end - capsule.start
        share = np.clip((turned - [0, 0.02, 0.01] - capsule.start) @ along / max(along @ along, 1e-12), 0.0, 1.0)
        nearest = capsule.start + share[:, None] * along
        gaps.append(np.linalg.norm(turned - [0, 0.02, 0.01] - nearest, axis=1) - capsule.radius)
    assert np.min(gaps, axis=0).max() < 1e-6  # STL has single precision
    begin(tmp_path / "cell", str(path))
    assert len(open_campaign(tmp_path / "cell", "design").robot.capsules) == len(load(path).capsules)


def body(inner="", joint='<joint name="j"/>'):
    return f'<mujoco><worldbody><body name="l">{joint}<geom size=".1"/>{inner}</body></worldbody></mujoco>'


def asset(mesh):
    return f'<mujoco><asset>{mesh}</asset><worldbody><body><joint/><geom size=".1"/></body></worldbody></mujoco>'


BAD = {
    "not compiled": (body('<geom size="-1"/>'), "is not MJCF that MuJoCo compiles: "),
    "included": ('<mujoco><include file="/etc/passwd"/></mujoco>', "<include> '': is not read; save the"),
    "replicated": (
        body('<replicate count="900000"><geom size="1"/></replicate>'),
        "<replicate> '': is not read; write",
    ),
    "composite": (body('<composite type="cable" count="9 1 1"/>'), "<composite> '': is not read"),
    "attached": (body('<attach model="m" body="b" prefix="p"/>'), "<attach> '': is not read"),
    "plugin": ('<mujoco><extension><plugin plugin="x"/></extension></mujoco>', "<plugin> '': is not read; it runs"),
    "ball": (body(joint='<joint name="j" type="ball"/>'), "joint 'j': is free or a ball; expected a hinge or slide"),
    "free": (body(joint='<freejoint name="j"/>'), "joint 'j': is free or a ball"),
    "spring": (body(joint='<joint name="j" stiffness="3"/>'), "joint 'j': is a spring; expected a hinge or slide"),
    "closed": (
        body().replace("</mujoco>", '<equality><weld name="w" body1="l"/></equality></mujoco>'),
        "<weld> 'w': is not read; it closes a chain: state the robot in TOML",
    ),
    "curve": (
        body('<body><joint name="k"/><geom size=".1"/></body>').replace(
            "</mujoco>", '<equality><joint joint1="k" joint2="j" polycoef="0 1 2 0 0"/></equality></mujoco>'
        ),
        "equality of 'k': is no linear function of another joint",
    ),
    "weightless": (body().replace('name="l"', 'name="l" gravcomp="1"'), "body 'l' gravcomp: is a force that no term"),
    "no mesh": (asset('<mesh file="y.stl"/>'), "mesh 'y.stl': is not found beside the URDF"),
    "mesh outside": (asset('<mesh file="../../secret.stl"/>'), "mesh '../../secret.stl': lies outside"),
    "mesh at a root": (asset('<mesh file="/etc/passwd"/>'), "mesh '/etc/passwd': lies outside"),
    "mesh of another kind": (asset('<mesh file="arm.xml"/>'), "mesh 'arm.xml': is a .xml; expected .stl, .obj or .dae"),
    "damaged mesh": (asset('<mesh file="assets/x.stl"/>'), "mesh 'x.stl': is damaged: "),
    "many": (body('<geom size=".1"/>' * 6000), "<mujoco>: has more than 5e+07 bytes of meshes or 5000 elements"),
    "bomb": ('<!DOCTYPE m [<!ENTITY a "ha">]>\n<mujoco/>', "declares a document type or entities"),
    "no number": (body(joint='<joint name="j" range="nan 1"/>'), "number, which to state: <joint> 'j' range 'nan 1'"),
    "no force": (
        body().replace("</mujoco>", '<actuator><motor name="nan" joint="j" forcerange="-1 +NaN"/></actuator></mujoco>'),
        "holds 'nan' in place of a number, which to state: <motor> 'nan' forcerange '-1 +NaN'",
    ),
    "nothing": ("<mujoco/>", "has no <joint>; a robot needs one"),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_what_is_no_robot_here_is_refused_by_name(put, text, words):
    with pytest.raises(InvalidRobot) as caught:
        load(put(text, b"solid x"))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_what_mujoco_warns_of_is_neither_printed_nor_written(put, tmp_path, monkeypatch, capfd):
    path = put(BAD["no number"][0])
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    with pytest.raises(InvalidRobot, match="holds 'nan'"):
        load(path)
    assert capfd.readouterr() == ("", "")
    assert set(tmp_path.iterdir()) == before
    assert mujoco.get_mju_user_warning() is None, "others are warned as before"
    path.write_text(body(joint='<joint name="nan"/>'))
    assert load(path).joint_names == ("nan",)


def test_without_mujoco_the_message_says_what_to_install(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(InvalidRobot, match=r"is MJCF, which MuJoCo reads: pip install excitor\[mujoco\]"):
        load(put())


def test_no_file_takes_much_memory(put, tmp_path):
    large = np.zeros((399_000, 3, 3)) + np.random.default_rng(0).uniform(0.0, 100.0, (399_000, 3, 3))
    path = put(ARM, stl(large))
    (tmp_path / "huge.xml").write_text(body("<!--" + "x" * 3_000_000 + "-->"))
    code = (
        "import json, sys\nfrom excitor.robots.load import load\nsaid = []\nfor path in sys.argv[1:]:\n"
        "    try: load(path)\n    except Exception as error: said.append([type(error).__name__, str(error)[-200:]])\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"  # not the parent's
        "print(json.dumps([said, int(peak.split()[1])]))"
    )
    command = [sys.executable, "-c", code, str(path), str(tmp_path / "huge.xml")]
    said, kilobytes = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert kilobytes < 1e6
    assert {kind for kind, _ in said} <= {"InvalidRobot"}
    assert any("expected at most 2 MB" in sentence for _, sentence in said)


def test_stl_that_is_written_is_read_back(tmp_path):
    (tmp_path / "x.stl").write_bytes(stl(np.concatenate([SOLID, np.zeros((3, 3, 3))])))
    np.testing.assert_array_equal(read_mesh(tmp_path / "x.stl")[0], SOLID)
