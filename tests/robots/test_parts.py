"""Parts of robots: joints that are held, against pinocchio's reduced models; grippers; branches; what is refused."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from excitor.experiments.export.mjcf import filled_mjcf
from excitor.robots import cell
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene
from excitor.robots.dynamics import inverse_dynamics, link_poses, mass_matrix, rigid_torque
from excitor.robots.errors import InvalidRobot
from excitor.robots.files.urdf import filled_urdf, robot_from_urdf
from excitor.robots.load import (
    catalog_names,
    load,
    load_with_notes,
    read_content,
    robot_from_toml,
    robot_of,
    robot_text,
    unclear_part,
)
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, posture
from tests import arms
from tests.arms import FOLLOWS, GRIPPER, finger, joint, link, two_arms
from tests.robots.test_urdf import random_urdf

SAME = 1e-12  # of the largest torque


def held_file(folder, text, held, extra=""):
    """Write a URDF, and a robot file over it that holds joints (name -> rad or m)."""
    (folder / "arm.urdf").write_text(text)
    lines = ['base = "arm.urdf"', extra]
    for name, position in held.items():
        slides = f'name="{name}" type="prismatic"' in text
        key, value = ("held_m", position) if slides else ("held_deg", float(np.degrees(position)))
        lines += ["[[joint]]", f'name = "{name}"', f"{key} = {value!r}"]
    path = folder / "part.toml"
    path.write_text("\n".join(lines))
    return path


def reduced(text, held):
    """Build pinocchio's reduced model, its continuous joints as revolute ones."""
    model = pin.buildModelFromXML(text.replace('"continuous"', '"revolute"'))
    q = pin.neutral(model)
    for name, position in held.items():
        q[model.joints[model.getJointId(name)].idx_q] = position
    return pin.buildReducedModel(model, [model.getJointId(name) for name in held], q)


def chosen(text, seed):
    names = robot_from_urdf(text, "f").joint_names
    rng = np.random.default_rng(seed)
    return {name: float(rng.uniform(-2, 2)) for name in names if len(names) > 1 and rng.random() < 0.45}


@pytest.mark.parametrize("seed", range(40))
def test_held_joints_are_those_of_pinocchios_reduced_model(tmp_path, seed):
    text = random_urdf(seed)
    held = dict(list(chosen(text, seed).items())[: robot_from_urdf(text, "f").n_joints - 1])
    robot, model = load(held_file(tmp_path, text, held)), reduced(text, held)
    data = model.createData()
    assert robot.n_joints == model.nv
    assert robot.held.keys() == held.keys()
    motion = Motion(*np.random.default_rng(seed).uniform(-2, 2, size=(3, 12, robot.n_joints)))
    tau, M = inverse_dynamics(robot, motion), mass_matrix(robot, motion.q)
    order = [model.joints[model.getJointId(name)].idx_v for name in robot.joint_names]
    back = np.argsort(order)
    for k in range(len(motion)):
        q, v, a = (x[k, back] for x in (motion.q, motion.dq, motion.ddq))
        theirs = pin.rnea(model, data, q, v, a)[order]
        np.testing.assert_allclose(tau[k], theirs, rtol=0.0, atol=SAME * max(1.0, np.abs(theirs).max()))
        upper = np.triu(pin.crba(model, data, q))
        inertia = (upper + np.triu(upper, 1).T)[np.ix_(order, order)]
        np.testing.assert_allclose(M[k], inertia, rtol=0.0, atol=SAME * max(1.0, np.abs(inertia).max()))


@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_base_parameters_are_as_many_as_pinocchios(tmp_path, seed):
    text = random_urdf(seed)
    held = dict(list(chosen(text, seed).items())[: robot_from_urdf(text, "f").n_joints - 1])
    over = 'friction = []\n[drive]\nrotors = "none"\n'
    robot, model = load(held_file(tmp_path, text, held, over)), reduced(text, held)
    data = model.createData()
    states = np.random.default_rng(seed).uniform(-2, 2, size=(200, 3, model.nv))
    rows = np.vstack([pin.computeJointTorqueRegressor(model, data, *state) for state in states])
    values = np.linalg.svd(rows, compute_uv=False)
    assert len(base_parameters(robot)) == int((values > 1e-8 * values[0]).sum())


def put(folder, urdf, text=None):
    """Write a URDF, and a robot file over it; return the path of the last."""
    (folder / "arm.urdf").write_text(urdf)
    if text is None:
        return folder / "arm.urdf"
    (folder / "my.toml").write_text('base = "arm.urdf"\n' + text)
    return folder / "my.toml"


def knuckle(name, parent, more=""):
    limits = {"kind": "revolute", "at": "0.06 0 0", "limits": "0 0.8"}
    return link(name, 0.05, 0.1) + joint(f"{name}_joint", parent, name, **limits, more=more)


GRIPPERS = {
    "slides, one follows": (GRIPPER, {"left_joint": 0.02, "right_joint": 0.02}),
    "slides, each by itself": (
        arms.robot(arms.arm(finger("left", "hand", 0.02), finger("right", "hand", -0.02))),
        {"left_joint": 0.02, "right_joint": 0.02},
    ),
    "knuckles that follow": (
        arms.robot(
            arms.arm(knuckle("left", "hand"), knuckle("tip", "left", FOLLOWS), knuckle("right", "hand", FOLLOWS))
        ),
        {"left_joint": 0.4, "tip_joint": 0.4, "right_joint": 0.4},
    ),
}


@pytest.mark.parametrize(("urdf", "held"), GRIPPERS.values(), ids=GRIPPERS)
def test_grippers_are_held_in_the_middle_of_their_ranges(tmp_path, urdf, held):
    robot, notes = load_with_notes(put(tmp_path, urdf))
    assert robot.joint_names == ("turn", "lift", "bend")
    assert {name: joint.position for name, joint in robot.held.items()} == pytest.approx(held)
    assert all(joint.link == 2 for joint in robot.held.values())
    assert any(where == "held joints" and "left_joint at" in sentence for where, sentence in notes)
    q = pin.neutral(model := pin.buildModelFromXML(urdf))
    for name, position in held.items():
        q[model.joints[model.getJointId(name)].idx_q] = position
    phi = robot.chi[layout(robot).link(2)]
    mass = pin.buildReducedModel(model, [model.getJointId(name) for name in held], q).inertias[3]
    np.testing.assert_allclose([phi[9], *phi[6:9]], [mass.mass, *(mass.mass * mass.lever)], atol=1e-14)


ROD = link("rod", 0.3, 0.5) + joint(
    "rod_joint", "post", "rod", axis="0 1 0", at="0 0 0.1", more='<mimic joint="lift"/>'
)
SCREW = link("quill", 0.1, 0.3) + joint("quill_joint", "hand", "quill", kind="prismatic", limits="0 0.08")


@pytest.mark.parametrize(
    ("urdf", "joints"),
    [
        (arms.robot(arms.arm(ROD)), ("turn", "lift", "bend")),
        (arms.robot(arms.arm(SCREW)), ("turn", "lift", "bend", "quill_joint")),
        (GRIPPER.replace('upper="0.04"', 'upper="0.3"').replace(FOLLOWS, ""), (
            "turn", "lift", "bend", "left_joint", "right_joint")),
    ],
    ids=["a parallelogram", "a quill", "long slides"],
)  # fmt: skip
def test_other_joints_move(tmp_path, urdf, joints):
    robot = load(put(tmp_path, urdf))
    assert robot.joint_names == joints
    assert not robot.held


def test_a_file_says_otherwise(tmp_path):
    everything = load(put(tmp_path, GRIPPER, 'moving = ["turn", "lift", "bend", "left_joint"]'))
    assert everything.joint_names == ("turn", "lift", "bend", "left_joint")
    assert not everything.held
    wide = load(put(tmp_path, GRIPPER, '[[joint]]\nname = "left_joint"\nheld_m = 0.04'))
    assert {name: joint.position for name, joint in wide.held.items()} == {"left_joint": 0.04, "right_joint": 0.04}
    left = {capsule.part: capsule for capsule in wide.capsules}["left"]
    assert left.link == 2
    np.testing.assert_allclose((left.start + left.end)[1] / 2, 0.06, atol=1e-12)
    short = load(put(tmp_path, GRIPPER, 'moving = ["lift", "turn"]'))
    assert short.joint_names == ("turn", "lift")
    assert {name: round(joint.position, 9) for name, joint in short.held.items()} == {
        "bend": 1.4, "left_joint": 0.02, "right_joint": 0.02}  # fmt: skip


def test_friction_goes_by_the_joints_that_move(tmp_path):
    urdf = GRIPPER.replace('<axis xyz="0 1 0"/>', '<dynamics damping="7"/><axis xyz="0 1 0"/>', 1)  # of lift
    urdf = urdf.replace("<axis xyz", '<dynamics damping="3" friction="2"/><axis xyz', 1)  # of turn
    assert read_content(put(tmp_path, urdf)).data["parameters"] == {"Fv1": 3.0, "Fc1": 2.0, "Fv2": 7.0}
    over = '[[joint]]\nname = "turn"\nheld_deg = 30\n[drive]\nratios = [50, 60]\n[parameters]\nFc2 = 4'
    robot = load(put(tmp_path, urdf, over))
    known = {name: x for name, x in zip(layout(robot).names, robot.chi, strict=True) if name[:2] in ("Fv", "Fc") and x}
    assert known == {"Fv1": 7.0, "Fc2": 4.0}
    np.testing.assert_array_equal(robot.drive.motor_from_joint, np.diag([50.0, 60.0]))


def test_what_follows_a_held_and_a_moving_joint_follows_the_moving_one():
    text = """name = "geared"
[[joint]]
name = "a"
placement = { xyz = [0, 0, 0] }
HELD
[[joint]]
name = "b"
placement = { xyz = [0.3, 0, 0] }
link = { mass = 2, center = [0.2, 0.1, 0] }
[[joint]]
name = "c"
placement = { xyz = [0.3, 0, 0], axis = [0, 1, 0] }
follows = { a = 0.5, b = -2 }
offset_deg = 10
link = { mass = 1, center = [0.2, 0, 0.1] }"""
    part, whole = (robot_from_toml(text.replace("HELD", line), "f") for line in ("held_deg = 40", ""))
    assert part.joint_names == ("b",)
    b = np.random.default_rng(0).uniform(-2, 2, size=(20, 1))
    q = np.hstack([np.full_like(b, np.radians(40)), b])
    np.testing.assert_allclose(link_poses(part, b), link_poses(whole, q)[:, 1:], atol=1e-14)


HEAD = '[[joint]]\nname = "left_joint"\n'
BAD = {
    "beyond its limits": (HEAD + "held_m = 0.05", "held_m: is 0.05, outside the joint's limits 0 to 0.04"),
    "degrees beyond": ('[[joint]]\nname = "bend"\nheld_deg = 0', "is 0, outside the joint's limits 17.1887 to 143.239"),
    "unknown": ('[[joint]]\nname = "left_join"\nheld_m = 0', "has no joint 'left_join'; did you mean 'left_joint'?"),
    "wrong unit": (HEAD + "held_deg = 1", "held_deg: the joint slides; use held_m"),
    "a follower": ('[[joint]]\nname = "right_joint"\nheld_m = 0', "only follows others; hold the one that it follows"),
    "of a fixed joint": ('[[joint]]\nname = "mount"\nheld_deg = 0', "the joint is fixed; leave this out"),
    "locked, too": ('[[joint]]\nname = "turn"\nheld_deg = 0\nlocked_deg = 0', "'turn' is locked, too; keep one"),
    "moving, too": ('moving = ["turn"]\n[[joint]]\nname = "turn"\nheld_deg = 0', "is among those that are moving"),
    "moves what is unknown": ('moving = ["trun"]', "'trun' is no joint that moves by itself; did you mean 'turn'?"),
    "moves a follower": ('moving = ["turn", "right_joint"]', "'right_joint' is no joint that moves by itself"),
    "nothing moves": ("moving = []", "moving: has 0 entries, expected at least 1"),
    "all held": (
        "".join(f'[[joint]]\nname = "{name}"\nheld_deg = 90\n' for name in ("turn", "lift", "bend")),
        "every joint is fixed or held; a robot needs one that moves",
    ),
    "a coupling with it": (
        '[[friction.element]]\nparameter = "Fx"\nmodel = "viscous"\nsenses = { bend = 1, left_joint = 1 }',
        "senses: no joint that moves is named 'left_joint'",
    ),
    "a gear for it": ("[drive]\nratios = [1, 1, 1, 1]", "expected 3 numbers other than 0, one for each joint"),
    "of a base with lists": ("base2", "which joints are held is for arm2.toml to say: write it whole"),
    "no number": (HEAD + 'held_m = "shut"', "held_m: is 'shut', expected a valid number"),
    "not finite": (HEAD + "held_m = nan", "held_m: is nan, expected a finite number"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_a_sentence(tmp_path, text, told):
    path = put(tmp_path, GRIPPER, text)
    if text == "base2":
        (tmp_path / "arm2.toml").write_text('base = "arm.urdf"\nname = "second"')
        path.write_text('base = "arm2.toml"\n' + HEAD + "held_m = 0")
    with pytest.raises(InvalidRobot) as refused:
        load(path)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_joints_of_closed_chains_are_not_held(tmp_path):
    text = robot_text("five-bar") if "five-bar" in catalog_names() else robot_text("orthoglide")
    for key in ("held_deg = 0", ""):
        changed = text.replace("[[joint]]", f"[[joint]]\n{key}", 1)
        changed = changed if key else 'moving = ["a"]\n' + text
        with pytest.raises(InvalidRobot, match="joints of a closed chain are not held"):
            robot_from_toml(changed, "f")


def test_two_arms_are_not_guessed(tmp_path):
    content = read_content(put(tmp_path, two_arms()))
    assert len(robot_of(content).joint_names) == 7
    sentence = unclear_part(content)
    assert 'moving = ["waist", "l_turn", "l_lift", "l_bend"] (or all of them)' in sentence
    assert 'in a robot file with base = "arm.urdf"' in sentence
    for text in ('moving = ["waist", "r_turn", "r_lift", "r_bend"]', f"moving = {list(robot_of(content).joint_names)}"):
        assert not unclear_part(read_content(put(tmp_path, two_arms(), text)))
    hand = arms.robot(arms.arm(*(link(n) + joint(f"{n}1", "hand", n, at="0.1 0 0") for n in ("thumb", "index"))))
    assert 'moving = ["turn", "lift", "bend"]' in unclear_part(read_content(put(tmp_path, hand)))


def test_a_finger_without_a_shape_stays_watched(tmp_path):
    whole = load(put(tmp_path, GRIPPER))
    assert {capsule.part for capsule in whole.capsules} >= {"left", "right"}
    assert {capsule.origin for capsule in whole.capsules} == {"stated"}
    left = link("left", 0.05, 0.1)
    bare = load(put(tmp_path, GRIPPER.replace(left, link("left", 0.05, 0.1, box=False))))
    assert [capsule.part for capsule in bare.capsules if capsule.origin == "assumed"] == ["left"]


def watched(robot):
    capsules = robot.capsules
    return {frozenset((capsules[a].part, capsules[b].part)) for a, b in cell._pairs(robot, Scene())[0]}


@pytest.mark.parametrize(
    ("moving", "still"),
    [
        (["l_turn", "l_lift", "l_bend"], ["torso", "r_post", "r_upper", "r_lower", "r_hand"]),
        (["waist", "r_turn", "r_lift"], ["l_post", "l_upper", "l_lower", "l_hand"]),
        (["l_turn", "r_bend"], ["torso", "r_post", "r_upper"]),
    ],
)
def test_what_is_held_is_kept_apart_as_if_it_moved(tmp_path, moving, still):
    """Pairs that one joint connects in the file are left out, and those that do not move: no others."""
    urdf = two_arms()
    part, whole = (
        load(put(tmp_path, urdf, f"moving = {names}"))
        for names in (moving, list(load(put(tmp_path, urdf)).joint_names))
    )
    rigid = [{c.part for c in part.capsules if c.link == k} for k in range(-1, part.n_joints)]
    fixed = {frozenset((a, b)) for group in rigid for a in group for b in group if a != b}
    assert any(len(group & set(still)) > 1 for group in rigid)
    assert watched(part) == watched(whole) - fixed


def test_what_is_identified_goes_back_to_the_urdf(tmp_path):
    robot = load(put(tmp_path, GRIPPER))
    chi = robot.chi.copy()
    chi[:30] *= 1.2
    filled, _ = filled_urdf(GRIPPER, robot, chi)
    for name in ("left", "right"):
        assert link(name, 0.05, 0.1) in filled
    np.testing.assert_allclose(robot_from_urdf(filled, "f").chi[:30], chi[:30], atol=1e-12)
    model = pin.buildModelFromXML(filled)
    q = np.array([0.3, -0.4, 1.0, 0.02, 0.02])
    ours = rigid_torque(replace(robot, chi=chi), posture(q[None, :3]))[0]
    np.testing.assert_allclose(ours, pin.rnea(model, model.createData(), q, 0 * q, 0 * q)[:3], atol=1e-11)


def test_a_mujoco_file_is_filled_with_the_fingers_where_they_are_held(tmp_path):
    mujoco = pytest.importorskip("mujoco", reason="the extra mujoco is not installed")
    spec = mujoco.MjSpec.from_string(GRIPPER.replace("<robot name", '<robot name="m"><mujoco><compiler fusestatic='
        '"false" discardvisual="false"/></mujoco><x name', 1).replace("<x name=\"made\">", ""))  # fmt: skip
    spec.compile()
    robot = load(put(tmp_path, GRIPPER, '[[joint]]\nname = "left_joint"\nheld_m = 0.04'))
    chi = np.where(np.arange(len(robot.chi)) < 30, 1.3 * robot.chi, 0.0)
    filled = filled_mjcf(spec.to_xml().encode(), robot, chi, "m.xml")
    model = mujoco.MjModel.from_xml_string(filled.content.decode())
    data = mujoco.MjData(model)
    place = [model.joint(name).qposadr[0] for name in (*robot.joint_names, *robot.held)]
    rng = np.random.default_rng(0)
    for q, dq, ddq in rng.uniform([[-1, -1, 0.4], [-1] * 3, [-1] * 3], 1, size=(5, 3, 3)):  # inside the limits
        data.qpos[place] = [*q, 0.04, 0.04]
        data.qvel[place], data.qacc[place] = [*dq, 0, 0], [*ddq, 0, 0]
        mujoco.mj_inverse(model, data)
        ours = rigid_torque(replace(robot, chi=chi), Motion(q[None], dq[None], ddq[None]))[0]
        np.testing.assert_allclose(data.qfrc_inverse[place[:3]], ours, atol=1e-9)
