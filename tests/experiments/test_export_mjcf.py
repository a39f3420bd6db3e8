"""What goes to MuJoCo moves as the model says: MuJoCo itself is asked, where it is installed."""

import re

import numpy as np
import pytest

from excitor.experiments.export.mjcf import Compiler, filled_mjcf, pose, written_mjcf
from excitor.robots.base import random_motion
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.files.urdf import robot_from_urdf
from excitor.robots.inertia import from_center_of_mass, parameters_of
from excitor.robots.load import load
from excitor.robots.parameters import layout, layout_of
from excitor.robots.robot import RotorInertia

URDF = """<robot name="two">
  <link name="ground"/>
  <link name="arm"/>
  <link name="hand"/>
  <joint name="shoulder" type="revolute">
    <parent link="ground"/><child link="arm"/><origin xyz="0 0 0.3" rpy="0 0.4 0"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" velocity="3" effort="50"/><dynamics damping="1" friction="2"/>
  </joint>
  <joint name="slide" type="prismatic">
    <parent link="arm"/><child link="hand"/><origin xyz="0.4 0 0.1" rpy="1.5708 0 0.2"/><axis xyz="0.6 0.8 0"/>
    <limit lower="-0.2" upper="0.2" velocity="3" effort="50"/><dynamics damping="1" friction="2"/>
  </joint>
</robot>
"""
# the same arm as somebody else draws it: other frames, degrees, defaults, a base on a table, a camera, a reference
MJCF = """<?xml version="1.0"?>
<!-- mine: <inertial/> -->
<mujoco model='somebody&apos;s'>
  <compiler eulerseq="zyx" />
  <default><joint damping='7' armature="3"/>
    <default class="a"><joint axis="0 1 0"   frictionloss="0.1"
      /></default>
  </default>
  <asset><material name="grey" rgba=".5 .5 .5 1"/></asset>
  <worldbody>
    <light pos="0 0 3"/>
    <body name="table" pos="1 2 0.5" euler="30 0 0">
      <geom type="box" size=".1 .1 .1"/>
      <body name="upper" pos="POS1" quat="QUAT1" childclass="a">
        <joint name="shoulder" class="a" pos="0 -0.07 0" ref="REF" damping = "5"  range="-1 1"/>
        <geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" material='grey'/>
        <inertial mass="9" pos="0 0 0" diaginertia="1 1 1"/>
        <body name="camera" pos=".1 0 0" euler="0 0 45"><inertial mass=".2" pos="0 .01 0" quat="1 1 0 0"
           diaginertia=".001 .0012 .0011"/></body>
        <body name="lower" pos="POS2" quat="QUAT2" ><joint name="slide" type="slide" axis="AXIS2"/>
          <geom size=".02"/></body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder" gear="10"/></actuator><!-- end -->
</mujoco>
"""


def quat(R):
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(R).as_quat()
    return f"{w!r} {x!r} {y!r} {z!r}".replace("np.float64(", "").replace(")", "")


def vector(values):
    return " ".join(repr(float(x)) for x in values)


def frame(seed):
    from scipy.spatial.transform import Rotation

    T = np.eye(4)
    rng = np.random.default_rng(seed)
    T[:3, :3] = Rotation.random(rng=rng).as_matrix()
    T[:3, 3] = rng.uniform(-0.2, 0.2, 3)
    return T


def somebodys(robot, ref=0.0):
    """Place bodies so that the axes are the robot's, and nothing else is."""
    from scipy.spatial.transform import Rotation

    poses = robot.mechanism.poses(np.array([[np.radians(ref), 0.0]]))[0]
    # "upper": its own y is the shoulder's z, which runs through (0, -0.07, 0)
    own = np.eye(4)
    own[:3, :3] = (
        Rotation.from_euler("x", 90, degrees=True).as_matrix() @ Rotation.from_euler("y", 33, degrees=True).as_matrix()
    )
    own[:3, 3] = 0.0, 0.0, 0.11
    upper = poses[0] @ own
    lower = poses[1] @ frame(5)
    relative = np.linalg.inv(upper) @ lower
    axis = lower[:3, :3].T @ poses[1][:3, :3] @ [0.6, 0.8, 0]
    text = MJCF.replace("POS1", vector(upper[:3, 3])).replace("QUAT1", quat(upper[:3, :3]))
    text = text.replace("POS2", vector(relative[:3, 3])).replace("QUAT2", quat(relative[:3, :3]))
    return text.replace("AXIS2", vector(axis)).replace("REF", repr(ref)).encode()


def random_chi(robot, seed=0):
    rng = np.random.default_rng(seed)
    params = layout(robot)
    chi = rng.uniform(0.1, 1.0, len(params))
    for j in range(params.n_links):
        A = 0.3 * rng.normal(size=(4, 4))
        chi[params.link(j)] = parameters_of(A @ A.T + 0.5 * np.eye(4))
    return chi


def without(robot, chi, *models):
    chi = chi.copy()
    for term, column in zip(robot.drive.friction, layout(robot).friction_columns, strict=True):
        if term.model in models:
            chi[column] = 0.0
    return chi


def torques(text, motion, order=None):
    """Ask MuJoCo; dry friction, which it smooths, is left out."""
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install mujoco")
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS | mujoco.mjtDisableBit.mjDSBL_LIMIT
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(model)
    found = []
    for q, dq, ddq in zip(motion.q, motion.dq, motion.ddq, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = q, dq, ddq
        mujoco.mj_inverse(model, data)
        found.append(data.qfrc_inverse.copy())
    return model, np.array(found)


@pytest.mark.parametrize("name", ["tx40", "kr150", "rotradi", "ur10", "iiwa"])
def test_a_written_chain_needs_the_same_torques(name):
    robot = load(name)
    chi = random_chi(robot)
    text, left_out = written_mjcf(robot, chi)
    motion = random_motion(robot, 20)
    model, found = torques(text, motion)
    dry = [term.model for term in robot.drive.friction if term.model != "viscous"]
    expected = inverse_dynamics(robot, motion, without(robot, chi, *dry))
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    said = {term.parameter for term in robot.drive.friction if term.model not in ("viscous", "coulomb")}
    assert {entry.split(" ")[0] for entry in left_out} == said
    coulomb = sum(term.model == "coulomb" for term in robot.drive.friction)
    told = np.count_nonzero(model.dof_frictionloss) + np.count_nonzero(model.tendon_frictionloss)
    assert told == coulomb


def test_dry_friction_is_the_parameter():
    robot = robot_from_urdf(URDF, "two.urdf")
    chi = random_chi(robot)
    columns = [
        c for t, c in zip(robot.drive.friction, layout(robot).friction_columns, strict=True) if t.model == "coulomb"
    ]
    text, _ = written_mjcf(robot, chi)
    assert [float(x) for x in re.findall(r'frictionloss="(\S+)"', text)] == [chi[c] for c in columns]


def test_what_turns_faster_than_its_joint_weighs_more():
    """A rotor that turns twice as fast: four times its inertia and damping, twice its dry friction."""
    from dataclasses import replace

    robot = load("rotradi")
    doubled = [
        replace(term, senses=2 * np.eye(3)[0], acts=2 * np.eye(3)[0]) if term.senses[0] else term
        for term in robot.drive.friction
    ]
    rotor = RotorInertia("Ia", 2 * np.eye(3)[0], 2 * np.eye(3)[0])
    drive = replace(robot.drive, friction=tuple(doubled), rotors=(rotor,))
    n = len(layout_of(3, robot.mechanism.prismatic, drive))
    fast = replace(
        robot, drive=drive, chi=np.zeros(n), known=np.ones(n, bool), assumed_zero=np.zeros(n, bool), declared_base=None
    )
    chi = random_chi(fast)
    model, found = torques(written_mjcf(fast, chi)[0], motion := random_motion(fast, 10))
    expected = inverse_dynamics(fast, motion, without(fast, chi, "coulomb"))
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    dry = [term.parameter for term in doubled if term.model == "coulomb" and term.senses[0]]
    assert model.dof_frictionloss[0] == pytest.approx(2 * sum(chi[layout(fast).index(name)] for name in dry))


@pytest.mark.parametrize("ref", [0.0, 25.0])
def test_a_filled_file_needs_the_same_torques(ref):
    robot = robot_from_urdf(URDF, "two.urdf")
    chi = random_chi(robot)
    filled = filled_mjcf(somebodys(robot, ref), robot, chi, "mine.xml")
    motion = random_motion(robot, 20)
    model, found = torques(filled.content.decode(), motion)
    expected = inverse_dynamics(robot, motion, without(robot, chi, "coulomb", "offset"))
    # the file's table leans nowhere, but stands turned about gravity, which changes nothing
    np.testing.assert_allclose(
        found, expected, atol=1e-6 * np.abs(expected).max()
    )  # its numbers are read with 17 digits
    assert model.body_mass.sum() - model.body("table").mass[0] == pytest.approx(chi[9] + chi[19])
    assert model.body("camera").mass[0] == pytest.approx(0.2)
    assert [entry.split(" ")[0] for entry in filled.left_out] == ["off1", "off2"]


def test_every_other_byte_stays():
    robot = robot_from_urdf(URDF, "two.urdf")
    data = somebodys(robot).replace(b"\n", b"\r\n")
    filled = filled_mjcf(data, robot, random_chi(robot), "mine.xml").content

    def rest(text):
        text = text.replace(b"mine: <inertial/>", b"")
        text = re.sub(rb'<inertial (?:mass="9"|pos="\S+ \S+ \S+" mass="\S+" fullinertia)[^>]*/>', b"", text)
        return re.sub(rb'\s*(?:damping|frictionloss|armature)\s*=\s*"[^"]*"', b"", text)

    assert rest(filled) == rest(data)
    assert filled.count(b"<inertial ") == data.count(b"<inertial ") + 1, "the hand had none"
    assert b"damping='7' armature=\"3\"" in filled
    again = filled_mjcf(filled, robot, random_chi(robot), "mine.xml").content
    assert again == filled


def test_coupled_drives_become_tendons():
    robot = load("tx40")
    chi = random_chi(robot)
    text, _ = written_mjcf(robot, chi)
    bare = re.sub(r"  <tendon>.*</tendon>\n", "", text, flags=re.DOTALL)
    assert bare != text
    again = filled_mjcf(bare.encode(), robot, chi, "x").content.decode()
    tendons = re.compile(r"  <tendon>.*</tendon>\n", re.DOTALL)
    assert tendons.search(again)[0] == tendons.search(text)[0]
    assert again.endswith("  </tendon>\n</mujoco>\n")


def change(old, new):
    def changed(data):
        assert old in data
        return data.replace(old, new)

    return changed


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda data: b"", "is not XML"),
        (lambda data: data[:700], "is not XML"),
        (lambda data: b"<robot/>", "first element is not <mujoco>"),
        (change(b"<light", b'<include file="/etc/passwd"/><light'), "uses <include>"),
        (change(b'name="shoulder"', b'name="elbow"'), "has no joint shoulder; its joints are elbow, slide"),
        (change(b'type="slide"', b'type="ball"'), "joint 'slide' is of type ball, but the robot's slides"),
        (change(b'pos="0 -0.07 0"', b'pos="0.01 -0.07 0"'), "the axis of joint '(shoulder|slide)' is 0.01 "),
        (change(b'ref="0.0"', b'ref="nan"'), "'nan' where 1 numbers are expected"),
        (change(b'ref="0.0"', b'ref="10"'), "off the robot's; the file is of another robot"),
        (change(b'mass=".2"', b'mass="200"'), "body 'upper' would weigh"),
        (change(b'<inertial mass=".2"', b'<geom size="0.1"/></body><body><inertial mass=".2"'),
         "takes its mass from its geoms"),
        (change(b'eulerseq="zyx"', b'eulerseq="zyx" inertiafromgeom="true"'), "takes inertias from geoms only"),
        (change(b'eulerseq="zyx"', b'eulerseq="abc"'), "eulerseq is 'abc'"),
        (change(b'name="slide"', b'name="x"/><joint name="slide"'), "has several joints"),
        (change(b'euler="30 0 0"', b'euler="30 0"'), "'30 0' where 3 numbers are expected"),
    ],
)  # fmt: skip
def test_what_is_not_the_robots_file_is_refused(damage, sentence):
    robot = robot_from_urdf(URDF, "two.urdf")
    with pytest.raises(ExcitorError, match=sentence) as caught:
        filled_mjcf(damage(somebodys(robot)), robot, random_chi(robot), "mine.xml")
    assert str(caught.value).startswith("mine.xml: ")


def test_bodies_that_cannot_exist_are_not_exported():
    robot = load("rotradi")
    chi = random_chi(robot)
    chi[10:20] = from_center_of_mass(1.0, np.zeros(3), np.diag([1.0, 1.0, 3.0]))
    with pytest.raises(ExcitorError, match="no body can have its identified parameters"):
        written_mjcf(robot, chi)


def test_other_mechanisms_are_refused():
    robot = load("qrc350")
    with pytest.raises(ExcitorError, match="not written as MJCF"):
        written_mjcf(robot, random_chi(robot))


@pytest.mark.parametrize("turn", [
    'quat="1 2 3 4"', 'axisangle="1 2 3 50"', 'xyaxes="1 2 3 -3 1 0.5"', 'zaxis="1 2 -3"', 'zaxis="0 0 -1"',
    'euler="10 20 30"',
])  # fmt: skip
@pytest.mark.parametrize("compiler", ['eulerseq="xyz"', 'eulerseq="ZYX" angle="radian"', 'eulerseq="yXz"'])
def test_turns_are_read_as_mujoco_reads_them(turn, compiler):
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install mujoco")
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><compiler {compiler}/><worldbody><body pos="1 2 3" {turn}><geom size="1"/></body></worldbody>'
        "</mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    attributes = dict(re.findall(r'(\w+)="([^"]*)"', f'pos="1 2 3" {turn}'))
    T = pose(attributes, Compiler.of(dict(re.findall(r'(\w+)="([^"]*)"', compiler)), "x"), "x")
    np.testing.assert_allclose(T[:3, :3], data.xmat[1].reshape(3, 3), atol=1e-9)


def test_hostile_names_stay_names():
    from dataclasses import replace

    robot = replace(load("rotradi"), name='x"><include file="/etc/passwd"/>--><!--')
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install mujoco")
    assert mujoco.MjModel.from_xml_string(written_mjcf(robot, random_chi(robot))[0]).nbody == 4
