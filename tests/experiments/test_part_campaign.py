"""Campaigns with a part of a robot: its moving joints alone are planned, programmed, logged and identified."""

import json
from dataclasses import replace

import numpy as np
import pytest

import excitor as ex
from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.init import begin
from excitor.experiments.model import read_model
from excitor.experiments.plan import assumed_check
from excitor.experiments.setup import set_up
from excitor.robots.dynamics import rigid_torque
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from tests import arms
from tests.arms import GRIPPER, two_arms
from tests.meshes import PANDA, PUBLIC

QUICK = {
    "base_frequency_hz = 0.1 ": "base_frequency_hz = 0.5 ",
    "harmonics = 5": "harmonics = 3",
    "measured_periods = 5": "measured_periods = 2",
    "ramp_s = 5.0": "ramp_s = 1.0",
    "settle_s = 2.0": "settle_s = 0.5",
    "evaluations = 20000": "evaluations = 300",
}


def begun(folder, urdf, **edits):
    (folder / "arm.urdf").write_text(urdf)
    path = begin(folder / "cell", str(folder / "arm.urdf"))
    edit(path, QUICK | edits)
    return folder / "cell"


def edit(path, edits):
    text = path.read_text()
    for old, new in edits.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


NAMES = """base = "arm.urdf"
[[joint]]
name = "left_joint"
held_m = 0.03
[controllers.ros2]
axes = ["A1", "A2", "A3"]
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["csv", pytest.param("ros2", marks=pytest.mark.slow)])
def test_a_chain_with_a_gripper(tmp_path, target):
    """From init to report without an edit about the gripper, but for where it stands and names of the controller's."""
    folder = begun(tmp_path, GRIPPER, **{'robot = "arm.urdf"': 'robot = "named.toml"'})
    (folder / "named.toml").write_text(NAMES)
    campaign = ex.Campaign(folder).design().emit(target, allow=["no-go"]).simulate(target).identify().report()
    assert campaign.results["design"].ready
    assert any("left_joint at 30 mm" in remark for remark in set_up(open_campaign(folder, "design")).remarks)
    page = (folder / "programs" / target / "README.md").read_text()
    assert "left_joint at 30 mm, right_joint at 30 mm" in page
    logs = [path.read_text().splitlines()[0] for path in (folder / "logs" / target).glob("*.csv")]
    assert logs
    assert not any("left" in head for head in logs)
    if target == "ros2":
        table = json.loads(next(folder.glob("programs/ros2/*_main.json")).read_text())
        assert table["joint_names"] == ["A1", "A2", "A3"]
        assert {len(point["positions"]) for point in table["points"]} == {3}
        assert "position:A3" in logs[0]
    robot = open_campaign(folder, "design").robot
    model = read_model(folder / "model.json", robot)
    q = np.random.default_rng(0).uniform(-0.5, 0.5, size=(50, 3))
    still = ex.Motion(q, 0 * q, 0 * q)
    off = rigid_torque(replace(robot, chi=model.consistent()), still) - rigid_torque(robot, still)
    assert np.abs(off).max() < 3.0  # of 60 N m
    (folder / "again.toml").write_text(NAMES.replace("arm.urdf", "model.urdf"))
    np.testing.assert_allclose(load(folder / "again.toml").chi[:30], model.consistent()[:30], atol=1e-12)


def test_a_robot_that_branches_is_refused_and_begun_with_the_lines(tmp_path):
    folder = begun(tmp_path, two_arms())
    campaign = open_campaign(folder, "design")
    assert campaign.content.robot == "arm-part.toml"
    assert campaign.robot.joint_names == ("waist", "l_turn", "l_lift", "l_bend")
    assert {name: str(joint) for name, joint in campaign.robot.held.items()} == {
        "r_turn": "0°", "r_lift": "0°", "r_bend": "80.2141°"}  # fmt: skip
    assert len(set_up(campaign).noise.sigma) == 4
    edit(folder / "campaign.toml", {"arm-part.toml": "arm.urdf"})
    with pytest.raises(InvalidCampaign, match=r'robot: the moving joints of arm.urdf branch: state moving = \["waist"'):
        open_campaign(folder, "design")


def test_init_does_not_guess_over_a_file_of_yours(tmp_path):
    folder = begun(tmp_path, two_arms())
    (folder / "campaign.toml").unlink()
    with pytest.raises(ExcitorError, match=r"arm-part\.toml: exists already"):
        begin(folder, str(tmp_path / "arm.urdf"))
    (tmp_path / "mine.toml").write_text('base = "arm.urdf"\nname = "mine"')
    with pytest.raises(ExcitorError, match=r"mine\.toml: the moving joints of mine\.toml branch.*in it;"):
        begin(tmp_path / "other", str(tmp_path / "mine.toml"))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("settle_s", 'joints = ["turn", "left_joint"]\nsettle_s', "design.joints: 'left_joint' is held at 20 mm by"),
        ("settle_s", "locked_deg = { left_joint = 0 }\nsettle_s", "design.locked_deg.left_joint: is held at 20 mm by"),
        ("# [limits.joint.turn]", "[limits.joint.right_joint]", "limits.joint.right_joint: is held at 20 mm by"),
    ],
)
def test_held_joints_are_none_of_a_design(tmp_path, old, new, told):
    folder = begun(tmp_path, GRIPPER)
    edit(folder / "campaign.toml", {old: new})
    with pytest.raises(InvalidCampaign, match=told):
        set_up(open_campaign(folder, "design"))


def test_a_finger_without_a_shape_is_no_go(tmp_path):
    bare = GRIPPER.replace(arms.link("left", 0.05, 0.1), arms.link("left", 0.05, 0.1, box=False))
    (check,) = assumed_check(set_up(open_campaign(begun(tmp_path, bare), "design")))
    assert not check.holds
    assert "The shape of left is not known" in check.sentence


def test_a_joint_without_stops_turns_once_each_way_about_home(tmp_path):
    folder = begun(tmp_path, arms.robot(arms.arm(kind="continuous")))
    path = folder / "campaign.toml"
    home = next(line for line in path.read_text().splitlines() if line.startswith("home_deg"))
    edit(path, {home: "home_deg = [400, 0, 90]"})
    setup = set_up(open_campaign(folder, "design"))
    margin = np.radians(2.0)
    low, high = setup.constraints.limits.position[0]
    np.testing.assert_allclose([low - margin, high + margin], np.radians([400 - 360, 400 + 360]))
    assert any(remark.startswith("continuous joints: turn: without stops") for remark in setup.remarks)
    (folder / "own.toml").write_text(
        'base = "arm.urdf"\n[[joint]]\nname = "turn"\nlimits = { position_deg = [0, 720] }'
    )
    edit(path, {'robot = "arm.urdf"': 'robot = "own.toml"'})
    setup = set_up(open_campaign(folder, "design"))
    low, high = setup.constraints.limits.position[0]
    np.testing.assert_allclose([low - margin, high + margin], np.radians([0, 720]))
    assert not any("continuous" in remark for remark in setup.remarks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "target", "axes"),
    [(PANDA, "franka", 7), (PUBLIC / "ur_description/urdf/ur5_gripper.urdf", "csv", 6)],
    ids=["panda", "ur5_gripper"],
)
def test_public_files_with_grippers(tmp_path, source, target, axes):
    if not source.is_file():
        pytest.skip(f"{source} is not there")
    path = begin(tmp_path, str(source))
    edit(path, {"evaluations = 20000": "evaluations = 800"})
    campaign = ex.Campaign(tmp_path).design().emit(target, allow=["no-go"]).simulate(target).identify().report()
    assert open_campaign(tmp_path, "design").robot.n_joints == axes
    assert all(one.good for one in campaign.verify())
