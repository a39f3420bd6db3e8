"""`excitor init`: a campaign that is ready as it stands, for every robot, and never over another."""

import json
import sys
import tomllib

import numpy as np
import pytest

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import main
from excitor.experiments.init import home_pose
from excitor.experiments.plan import planned_runs
from excitor.experiments.setup import set_up
from excitor.robots.load import catalog_names, load

BODY = "link = { mass = 2.0, center = [0.1, 0, 0], inertia = [0.01, 0, 0, 0.02, 0, 0.02] }\n"
LIMITS = "limits = { position_deg = [-90, 90], velocity_deg_s = 90, acceleration_deg_s2 = 200, torque = 50 }\n"
URDF = """<robot name="mine"><link name="base"/>
<link name="upper"><inertial><mass value="3"/><origin xyz="0 0 0.15"/>
<inertia ixx="0.03" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.01"/></inertial></link>
<joint name="waist" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
<limit lower="0.5" upper="2" velocity="2" effort="40"/></joint></robot>"""


@pytest.fixture
def init(monkeypatch, capsys):
    """Run the installed command: its exit code, and what it printed."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["excitor", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, capsys.readouterr()

    return call


@pytest.mark.parametrize("name", catalog_names())
def test_a_campaign_for_every_robot_of_the_catalogue(init, tmp_path, name):
    code, printed = init("init", tmp_path / "cell", "--robot", name)
    assert code == 0
    assert "then: excitor design" in printed.out
    campaign = open_campaign(tmp_path / "cell", "design")
    setup = set_up(campaign)
    plans, waiting = planned_runs(setup)
    assert [plan.name for plan in plans] == ["excitation", "validation", "excitation again"]
    assert waiting == ()
    assert setup.remarks == ()  # everything that is assumed is written down
    assert len(campaign.content.noise.torque) == campaign.robot.n_joints
    low, high = setup.constraints.limits.position.T
    assert ((low <= setup.constraints.home) & (setup.constraints.home <= high)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tx40", "rotradi"])
def test_it_can_be_designed_without_a_change(init, tmp_path, name):
    init("init", tmp_path, "--robot", name)
    code, printed = init("design", tmp_path, "--evaluations", "400", "--json")
    assert code == 0
    assert json.loads(printed.out)["certified"] is True
    assert {path.name for path in tmp_path.iterdir()} == {"campaign.toml", "design.json", "plan.html"}


def test_home_keeps_the_margin_of_short_ranges(init, tmp_path):
    (tmp_path / "mine.urdf").write_text(
        URDF.replace("revolute", "prismatic").replace('lower="0.5" upper="2"', 'lower="0" upper="0.03"')
    )
    assert init("init", tmp_path / "cell", "--robot", tmp_path / "mine.urdf")[0] == 0
    setup = set_up(open_campaign(tmp_path / "cell", "design"))
    low, high = setup.constraints.limits.position.T
    assert low == pytest.approx(0.002)
    assert low < setup.constraints.home < high


def test_a_robot_file_is_copied_into_the_folder(init, tmp_path):
    (tmp_path / "mine.urdf").write_text(URDF)
    code, _ = init("init", tmp_path / "cell", "--robot", tmp_path / "mine.urdf")
    assert code == 0
    assert (tmp_path / "cell" / "mine.urdf").read_text() == URDF
    campaign = open_campaign(tmp_path / "cell", "design")
    assert campaign.content.robot == "mine.urdf"
    home = set_up(campaign).constraints.home
    assert 0.5 < home[0] < 2.0  # 0 is outside its limits
    code, printed = init("design", tmp_path / "cell", "--evaluations", "300", "--json")
    assert code == 0, printed.err


def test_a_robot_file_that_is_there_already(init, tmp_path):
    (tmp_path / "mine.urdf").write_text(URDF)
    assert init("init", tmp_path, "--robot", tmp_path / "mine.urdf")[0] == 0
    assert (tmp_path / "mine.urdf").read_text() == URDF


def test_another_robot_file_of_that_name_is_kept(init, tmp_path):
    (tmp_path / "mine.urdf").write_text(URDF)
    (tmp_path / "cell").mkdir()
    (tmp_path / "cell" / "mine.urdf").write_text("another")
    code, printed = init("init", tmp_path / "cell", "--robot", tmp_path / "mine.urdf")
    assert code == 1
    assert "exists already, and is not" in printed.err
    assert (tmp_path / "cell" / "mine.urdf").read_text() == "another"
    assert not (tmp_path / "cell" / "campaign.toml").exists()


@pytest.mark.parametrize("name", ['with "quotes"', "back\\slash", "tab\tand\nline", "ünïcode é", "a.b [c]", "# x"])
def test_names_that_need_quoting(init, tmp_path, name):
    file = tmp_path / "odd name.toml"
    quoted = json.dumps(name)
    file.write_text(f'name = "odd"\n[[joint]]\nname = {quoted}\nmdh = {{}}\n{LIMITS}{BODY}', "utf-8")
    assert init("init", tmp_path / "cell", "--robot", file)[0] == 0
    text = (tmp_path / "cell" / "campaign.toml").read_text("utf-8")
    campaign = open_campaign(tmp_path / "cell", "design")
    assert campaign.robot.joint_names == (name,)
    set_up(campaign)
    # the example for one joint, uncommented, is about that joint
    example = next(line for line in text.splitlines() if "limits.joint." in line)
    assert name in tomllib.loads(example.removeprefix("# "))["limits"]["joint"]


def test_what_is_commented_out_is_right(init, tmp_path):
    """Every example of the file can be used as it is."""
    init("init", tmp_path, "--robot", "tx40")
    path = tmp_path / "campaign.toml"
    lines = []
    for line in path.read_text("utf-8").splitlines():
        bare = line.removeprefix("# ")
        is_example = line.startswith("# ") and ("= " in bare or bare.startswith("["))
        lines.append(bare if is_example and not bare.startswith("Lengths") else line)
    text = "\n".join(lines)
    assert "[payload]\nmass" in text
    assert "\n[[cell.zone]]" in text
    path.write_text(text, "utf-8")
    setup = set_up(open_campaign(tmp_path, "design"))
    assert setup.constraints.tool_speed == 1.5
    assert setup.robot.payload is not None
    assert len(setup.constraints.scene.zones) == 1


def test_a_campaign_is_never_overwritten(init, tmp_path):
    (tmp_path / "campaign.toml").write_text("mine")
    code, printed = init("init", tmp_path, "--robot", "tx40")
    assert code == 1
    assert "campaign.toml: exists already; give another folder, or remove it first" in printed.err
    assert (tmp_path / "campaign.toml").read_text() == "mine"


def test_for_scripts(init, tmp_path):
    code, printed = init("init", tmp_path / "cell", "--robot", "tx40", "--json")
    assert code == 0
    assert json.loads(printed.out) == {"campaign": str(tmp_path / "cell" / "campaign.toml"), "missing": [], "wrong": []}
    code, printed = init("init", tmp_path / "cell", "--robot", "tx40", "--json")
    assert code == 1
    assert "exists already" in json.loads(printed.out)["error"][0]


@pytest.mark.parametrize(
    ("place", "robot", "word"),
    [
        ("cell", "tx4O", "is not a robot of the catalogue"),
        ("cell", "nowhere.urdf", "does not exist"),
        ("file", "tx40", "is a file; give the name of a folder"),
        ("file/cell", "tx40", "cannot be written"),
    ],
)
def test_what_cannot_be_begun(init, tmp_path, place, robot, word):
    (tmp_path / "file").write_text("x")
    code, printed = init("init", tmp_path / place, "--robot", robot)
    assert code == 1
    assert word in printed.err
    assert "Traceback" not in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_arm_of_short_links_without_shapes_can_stand_at_home(init, tmp_path):
    """Volumes of assumed radius, as wide as the links between them are long, touch wherever the arm is."""
    from excitor.robots.cell import Scene, unchecked_pairs

    body = '<inertial><mass value="2"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>'
    links = "".join(f'<link name="l{k}">{body}</link>' for k in range(8))
    joints = "".join(
        f'<joint name="j{k}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/><axis xyz="{axis}"/>'
        f'<origin xyz="0 0 {z}"/><limit lower="-2" upper="2" velocity="2" effort="60"/></joint>'
        for k, (z, axis) in enumerate(zip((0.1, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1), ["0 0 1", "0 1 0"] * 4, strict=False))
    )
    (tmp_path / "arm.urdf").write_text(f'<robot name="arm">{links}{joints}</robot>')
    assert init("init", tmp_path / "cell", "--robot", tmp_path / "arm.urdf")[0] == 0
    setup = set_up(open_campaign(tmp_path / "cell", "design"))
    assert not setup.constraints.home.any()
    left = {pair.name: pair.reason for pair in unchecked_pairs(setup.robot, Scene())}
    assert "cannot detect collisions" in left["link j0 / link j2"]
    assert "link j0 / link j4" not in left


def test_home_is_clear_of_itself():
    from excitor.robots.cell import Scene, clearances, required

    for name in catalog_names():
        robot = load(name)
        scene = Scene((), True, 0.02, 0.05)
        left = clearances(robot, scene, home_pose(robot)[None])
        assert np.all(left >= required(robot, scene))


def test_home_is_above_a_table():
    from excitor.robots.cell import Scene, Shape, Zone, clearances

    robot = load("ur10")  # lies on its table at zero
    table = Scene((Zone("table", Shape("half-space", np.eye(4)), "out"),), True, 0.02, 0.05)
    lying, home = clearances(robot, table, np.array([np.zeros(6), home_pose(robot)])).min(axis=1)
    assert lying < 0.0
    assert home > 0.0
    assert np.count_nonzero(home_pose(robot)) <= 2
