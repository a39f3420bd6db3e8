"""What strangers' files get wrong: units, frames, names, meshes, folders; each is answered with a remedy."""

import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import main
from excitor.experiments.init import begin
from excitor.experiments.plan import CampaignDesign, suspicion_checks
from excitor.experiments.setup import set_up, settings_of
from excitor.robots.errors import did_you_mean
from excitor.robots.files.meshes import stl
from excitor.robots.lint import gaps
from excitor.robots.load import catalog_names, load, load_with_notes

SOLID = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.3]])[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
SHAPE = '<collision><origin xyz="0 0 0.15"/><geometry><cylinder radius="0.06" length="0.3"/></geometry></collision>'


def link(name, mass=4.0, center="0 0 0.15", inertia=(0.04, 0.04, 0.01), shape=SHAPE):
    xx, yy, zz = inertia
    return (
        f'<link name="{name}"><inertial><origin xyz="{center}"/><mass value="{mass}"/><inertia ixx="{xx}" iyy="{yy}" '
        f'izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial>{shape}</link>'
    )


def joint(name, parent, child, xyz="0 0 0.3", axis="0 1 0", limit='lower="-2" upper="2" velocity="2" effort="90"'):
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/>'
        f'<axis xyz="{axis}"/><limit {limit}/></joint>'
    )


def urdf(links=None, joints=None):
    """An arm of three joints, upright at home; `links` and `joints` change all of them, or the one that is named."""

    def own(changes, name):
        return (changes or {}).get(name, changes if changes and not changes.keys() & {"l1", "l2", "l3", "j2"} else {})

    names = ["base_link", "l1", "l2", "l3"]
    bodies = [link(name, **own(links, name)) for name in names[1:]]
    turned = [{"axis": "0 0 1"}, {}, {}]
    moved = [joint(f"j{k + 1}", names[k], names[k + 1], **turned[k] | own(joints, f"j{k + 1}")) for k in range(3)]
    return f'<robot name="arm"><link name="base_link"/>{"".join([*bodies, *moved])}</robot>'


@pytest.fixture
def said(monkeypatch, capsys):
    """Run the command line: its exit code and everything that it says; a traceback fails."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["excitor", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return stop.value.code, " ".join((printed.out + printed.err).split())

    return call


DEGREES = 'lower="-120" upper="120" velocity="2" effort="90"'
FAST = 'lower="-2" upper="2" velocity="180" effort="90"'
SURE = {  # a robot's figures that are surely wrong: no torque or limit that rests on them is a go
    "limits in degrees": (
        urdf(joints={"limit": DEGREES}),
        "check that it is in rad, not degrees (position_deg = [-120",
    ),
    "limits in rad read as degrees": (
        urdf(joints={"limit": 'lower="-0.03" upper="0.03" velocity="2" effort="90"'}),
        "leaves no room to move; check the unit (degrees, not rad)",
    ),
    "speeds in deg/s": (urdf(joints={"limit": FAST}), "velocity limit is 180 rad/s; check that it is in rad/s"),
    "masses in g": (urdf({"mass": 4000.0}), "expected 10 to 30000; check that it is in kg, not g: mass = 12"),
    "masses in g without volumes": (urdf({"mass": 4000.0, "shape": ""}), "add up to 1.2e+04 kg at a reach of 0.6 m"),
    "masses in t": (urdf({"mass": 0.004, "inertia": (4e-5, 4e-5, 1e-5)}), "not t: mass = 12"),
    "inertia no body has": (
        urdf({"l2": {"inertia": (0.01, 0.01, 0.1)}}),
        "leave the inertia out, to identify it: mass",
    ),
    "inertia about the joint": (
        urdf({"l2": {"inertia": (0.13, -0.05, 0.005)}}),
        "expected none below 0; check that the inertia is given about the centre of mass",
    ),
    "inertia in kg mm2": (
        urdf({"l2": {"inertia": (4e4, 4e4, 1e4)}}),
        "not kg mm²: inertia = [0.04, 0, 0, 0.04, 0, 0.01]",
    ),
    "inertia in g mm2": (
        urdf({"l2": {"inertia": (4e7, 4e7, 1e7)}}),
        "not g mm²: inertia = [0.04, 0, 0, 0.04, 0, 0.01]",
    ),
    "inertia in kg cm2": (
        urdf({"l2": {"mass": 0.4, "inertia": (400, 400, 400)}}),
        "not kg cm²: inertia = [0.04, 0, 0, 0.04, 0, 0.04]",
    ),
    "centre in mm": (urdf({"l2": {"center": "0 0 150"}}), "in metres, not mm: center = [0, 0, 0.15]"),
    "lengths in mm": (urdf(joints={"xyz": "0 0 300"}), "no robot does; check that they are in metres, not mm"),
}


@pytest.mark.parametrize(("text", "words"), SURE.values(), ids=SURE)
def test_figures_that_are_surely_wrong_are_a_no_go(tmp_path, said, text, words):
    path = tmp_path / "arm.urdf"
    path.write_text(text)
    checks = list(suspicion_checks(load(path)))
    assert any(words in check.sentence and not check.holds for check in checks), [c.sentence for c in checks]
    code, told = said("robots", path)
    assert code == 1
    assert words in told
    assert told.index("error") < told.index("Joints")


OVER = 'base = "arm.urdf"\n'
DOUBTS = {  # in the plan, beside the verdict
    "one limit in degrees": (urdf(joints={"j2": {"limit": DEGREES}}), "", "position goes from -120 to 120 rad"),
    "a heavy link": (
        urdf({"l2": {"mass": 300.0, "inertia": (3, 3, 1)}}),
        "",
        "link 'j2': 300 kg in the volume is 6.98e+04",
    ),
    "a far tool": (urdf(), "[tool]\nxyz = [0, 0, 1.2]", "is 1.2 m long, more than the reach of 0.6 m without it"),
    "gravity along x": (urdf(), "gravity = [-9.81, 0, 0]", "does not point up: right for a robot on a wall"),
    "gravity up": (urdf(), "gravity = [0, 0, 9.81]", "else write gravity = [0, 0, -9.81]"),
    "gravity in g": (urdf(), "gravity = [0, 0, -1]", "is 1 m/s², expected 9.78 to 9.83 on Earth"),
}


@pytest.mark.parametrize(("text", "more", "words"), DOUBTS.values(), ids=DOUBTS)
def test_figures_that_are_odd_stand_in_the_plan(tmp_path, text, more, words):
    (tmp_path / "arm.urdf").write_text(text)
    (tmp_path / "my.toml").write_text(OVER + more)
    begin(tmp_path / "cell", str(tmp_path / "my.toml"))
    setup = set_up(open_campaign(tmp_path / "cell", "design"))
    assert any(words in remark for remark in setup.remarks), setup.remarks
    assert not list(suspicion_checks(setup.robot))


def test_only_what_is_put_on_a_robot_of_the_catalogue_is_checked(tmp_path, monkeypatch):
    path, checked = begin(tmp_path / "cell", "rotradi"), []
    monkeypatch.setattr("excitor.experiments.setup.suspicions", lambda robot: checked.append(robot) or ())
    set_up(open_campaign(path.parent, "design"))
    assert not checked
    path.write_text(path.read_text() + "\n[payload]\nmass = 1.0\ncenter = [0, 0, 0.1]\n")
    set_up(open_campaign(path.parent, "design"))
    assert len(checked) == 1
    assert checked[0].payload is not None


BOX = '\n[[cell.zone]]\nname = "table"\nkeep = "{}"\nshape = "box"\nlow = {}\nhigh = {}\n'
FLOOR = (
    '\n[[cell.zone]]\nname = "floor"\nkeep = "out"\nshape = "half-space"\npoint = [0, 0, -100]\nnormal = [0, 0, 1]\n'
)
BALL = '\n[[cell.zone]]\nname = "ball"\nkeep = "out"\nshape = "sphere"\ncenter = [600, 0, 200]\nradius = 100\n'
REFUSED = {  # lines of campaign.toml, what they replace, and what is said
    "table in mm": (
        "",
        BOX.format("out", [300, -500, -100], [1000, 500, 100]),
        "write low = [0.3, -0.5, -0.1], high = [1.0",
    ),
    "cage in mm": ("", BOX.format("in", [-900, -900, -100], [900, 900, 1500]), "'table' begins 100 m from the robot"),
    "floor in mm": ("", FLOOR, "if that is in mm, write point = [0.0, 0.0, -0.1]"),
    "ball in mm": ("", BALL, "write center = [0.6, 0.0, 0.2], radius = 0.1"),
    "home in rad": (
        "home_deg = .*",
        "home_deg = [0, 1.5708, -0.7854]",
        "in radians as it seems; write home_deg = [0.0, 90.0",
    ),
    "home in a zone": ("", BOX.format("out", [-1, -1, 0.2], [1, 1, 1]), "home_deg: at home, table / link"),
    "home outside the limits": (
        "home_deg = .*",
        "home_deg = [0, 170, 0]",
        "home_deg[2]: 170 is outside the position limits",
    ),
    "tool speed in mm/s": (
        "# tool_speed_m_s = 1.5",
        "tool_speed_m_s = 250",
        "if that is in mm/s, write tool_speed_m_s = 0.25",
    ),
    "clearance in mm": ("clearance_m = 0.02", "clearance_m = 20", "cell.clearance_m: is 20; if that is in mm"),
    "tool radius in mm": ("tool_radius_m = 0.05", "tool_radius_m = 50", "write tool_radius_m = 0.05"),
    "samples in ms": ("controller_sample_s = 0.004", "controller_sample_s = 4", "write controller_sample_s = 0.004"),
    "payload in g": (
        r"\[limits\]",
        "[payload]\nmass = 2000\n[limits]",
        "payload: weighs 2000 kg on an arm of 12; if in g, mass = 2",
    ),
    "payload centre in mm": (
        r"\[limits\]",
        "[payload]\nmass = 2\ncenter = [0, 0, 80]\n[limits]",
        "center = [0, 0, 0.08]",
    ),
    "payload no body has": (
        r"\[limits\]",
        "[payload]\nmass = 2\ninertia = [0.01, 0, 0, 0.01, 0, 0.1]\n[limits]",
        "payload: principal moments about the centre of mass are [0.01, 0.01, 0.1] kg m²",
    ),
    "key": ("velocity_percent", "velocty_percent", "limits.velocty_percent: is not a key that this table knows"),
    "key's neighbour": ("velocity_percent", "velocty_percent", "did you mean 'velocity_percent'?"),
    "table": (r"\[design\]", "[desing]", "did you mean 'design'?"),
    "word": ('criterion = "condition"', 'criterion = "conditon"', "did you mean 'condition'?"),
    "zone's key": ("", FLOOR.replace("normal", "nromal"), "cell.zone[1].nromal: is not a key that this table knows"),
    "zone's shape": ("", FLOOR.replace("half-space", "halfspace"), "did you mean 'half-space'?"),
    "joint to move": ("harmonics = 5", 'harmonics = 5\njoints = ["J2"]', "did you mean 'j2'?"),
    "joint held": (
        "harmonics = 5",
        "harmonics = 5\nlocked_deg = { j22 = 1 }",
        "is no joint of arm; did you mean 'j2'?",
    ),
    "joint limited": (r"\[cell\]", "[limits.joint.jj3]\ntorque = 1\n[cell]", "did you mean 'j3'?"),
    "constraint": ("", '\n[[constraint]]\nkind = "tool-cona"\n', "did you mean 'tool-cone'?"),
    "constraint's key": ("", '\n[[constraint]]\nkind = "tool-cone"\nangel_deg = 9\n', "did you mean 'angle_deg'?"),
    "constraint's joint": (
        "",
        '\n[[constraint]]\nkind = "joint-sum"\nweights = { jj2 = 1 }\nrange_deg = [0, 9]\n',
        "did you mean 'j2'?",
    ),
    "robot": ("robot = .*", 'robot = "arm.udrf"', "nor a file in this folder; did you mean 'arm.urdf'?"),
    "robot of the catalogue": ("robot = .*", 'robot = "tx4O"', "did you mean 'tx40'?"),
    "robot outside": (
        "robot = .*",
        'robot = "../arm.urdf"',
        "nor inside this folder; copy it there, or allow the folder",
    ),
    "robot at a root": ("robot = .*", 'robot = "/etc/passwd"', "or allow the folder that it lies in: --files DIR"),
    "prior outside": (
        "home_deg",
        'prior = "../model.json"\nhome_deg',
        "leaves the folder of the campaign; copy it there",
    ),
}


@pytest.fixture
def cell(tmp_path):
    """A campaign for the arm."""
    (tmp_path / "arm.urdf").write_text(urdf())
    return begin(tmp_path / "cell", str(tmp_path / "arm.urdf"))


@pytest.mark.parametrize(("old", "new", "words"), REFUSED.values(), ids=REFUSED)
def test_campaigns_that_are_surely_wrong_are_refused(cell, said, old, new, words):
    text = cell.read_text()
    changed = re.sub(old, lambda _: new, text, count=1) if old else text + new
    assert changed != text
    cell.write_text(changed)
    code, told = said("design", cell.parent, "--evaluations", "1")
    assert code == 1
    assert words in told
    assert not (cell.parent / "design.json").exists()


def test_what_is_odd_about_a_campaign_stands_in_the_plan(cell):
    far = BOX.format("out", [4, -1, -1], [5, 1, 1])
    cell.write_text(cell.read_text().replace("velocity_percent = 90.0", "velocity_percent = 0.9") + far)
    told = " ".join(set_up(open_campaign(cell.parent, "design")).remarks)
    assert "'table' begins 4 m from the robot, which reaches 0.6 m, so that it keeps nothing" in told
    assert "limits.velocity_percent: is 0.9 %; if that is a share, write velocity_percent = 90" in told


NAMES = {
    "robot": (["robots", "tx4O"], "did you mean 'tx40'?"),
    "robot in capitals": (["robots", "UR10"], "did you mean 'ur10'?"),
    "lock": (["robots", "ur10", "--lock", "wirst_1"], "did you mean 'wrist_1'?"),
    "target": (["emit", "DIR", "--target", "urscirpt"], "did you mean 'urscript'?"),
    "method": (["identify", "DIR", "--method", "rigde"], "did you mean 'ridge'?"),
    "compared method": (["compare", "DIR", "--method", "input-eror"], "did you mean 'input-error'?"),
    "format": (["export", "DIR", "--format", "mjfc"], "did you mean 'mjcf'?"),
    "study": (["study", "qrc350-in-proces"], "did you mean 'qrc350-in-process'?"),
    "xacro": (["robots", "ur5.urdf.xacro"], "is a macro; run `xacro ur5.urdf.xacro > ur5.urdf`, then load ur5.urdf"),
    "SDF": (["robots", "arm.sdf"], "is SDF; convert it: `sdf2mjcf arm.sdf arm.xml`"),
    "USD": (["robots", "arm.usd"], "is USD; export a URDF or an MJCF"),
    "no robot": (["robots", "arm.step"], "nor the path of a .toml, .urdf or MJCF .xml file"),
}


@pytest.mark.parametrize(("arguments", "words"), NAMES.values(), ids=NAMES)
def test_misspelt_names_get_the_nearest(cell, said, arguments, words):
    cell.write_text(
        cell.read_text() + '[log]\nsignals = []\n[[run]]\nname = "a"\nlog = "a.csv"\n' * ("--method" in arguments)
    )
    code, told = said(*(cell.parent if word == "DIR" else word for word in arguments))
    assert code != 0
    assert words in told


def test_the_nearest_name_is_found_in_any_case_and_none_where_none_is_near():
    assert did_you_mean("Ur10", catalog_names()) == "; did you mean 'ur10'?"
    assert did_you_mean("excavator", catalog_names()) == ""


MESH = '<collision><geometry><mesh filename="{}"/></geometry></collision>'
CONTRADICTED = {  # overlays over the URDF
    "another parent": ('[[joint]]\nname = "j2"\nparent = "base"', "the joint's place and kind are arm.urdf's"),
    "another kind": ('[[joint]]\nname = "j2"\nkind = "prismatic"', "joint 'j2'.kind: the joint's place and kind"),
    "a misspelt key": ('[[joint]]\nname = "j2"\nlimit = {}', "did you mean 'limits'?"),
    "a misspelt joint": ('[[joint]]\nname = "J2"', "did you mean 'j2'?"),
    "a misspelt limit": ('[[joint]]\nname = "j2"\nlimits = { torqe = 1 }', "did you mean 'torque'?"),
    "wider": ('[[joint]]\nname = "j2"\nlimits = { position_deg = [-180, 180] }', "an overlay may make a limit tighter"),
    "a capsule on nothing": (
        '[[capsule]]\nlink = "l22"\nstart = [0,0,0]\nend = [0,0,1]\nradius = 1',
        "did you mean 'l2'?",
    ),
    "a rotor of nobody": ('[drive]\nrotors = ["j33"]', "did you mean 'j3'?"),
    "a friction term": ('[friction]\nterms = ["viscos"]', "did you mean 'viscous'?"),
    "a platform": ('[platform]\nmoves = ["x"]\nhome = [0]', "platform: the geometry is arm.urdf's"),
}


@pytest.mark.parametrize(("text", "words"), CONTRADICTED.values(), ids=CONTRADICTED)
def test_overlays_that_contradict_their_urdf_are_refused(tmp_path, said, text, words):
    (tmp_path / "arm.urdf").write_text(urdf())
    (tmp_path / "my.toml").write_text(OVER + text)
    code, told = said("robots", tmp_path / "my.toml")
    assert code == 1
    assert words in told


BROKEN = {
    "missing": ("package://arm/x.stl", b"", "is not found beside the URDF or in the folders up to"),
    "damaged": ("own.stl", b"solid\nfacet", "is damaged: "),
    "cut short": ("own.stl", stl(SOLID)[:-7], "do not hold the triangles that it announces"),
    "huge": ("own.stl", b"\0" * 20_000_001, "more than 20; simplify it"),
    "in mm": ("own.stl", stl(1e3 * SOLID), 'is its unit mm, and scale="0.001 0.001 0.001" missing?'),
    "outside": ("../secret.stl", b"", "lies outside"),
    "at a root": ("file:///etc/passwd", b"", "is not found beside the URDF"),
    "of another kind": ("own.step", b"ISO-10303-21;", "is a .step; expected .stl, .obj or .dae"),
}


@pytest.mark.parametrize(("name", "content", "words"), BROKEN.values(), ids=BROKEN)
def test_meshes_that_cannot_be_read_are_reported_and_no_go(tmp_path, name, content, words):
    (tmp_path / "secret.stl").write_bytes(stl(SOLID))
    folder = tmp_path / "mine"
    folder.mkdir()
    if content:
        (folder / name).write_bytes(content)
    (folder / "arm.urdf").write_text(urdf({"l2": {"shape": MESH.format(name)}}))
    robot, notes = load_with_notes(folder / "arm.urdf")
    assert any(words in sentence for _, sentence in notes), notes
    assert {capsule.origin for capsule in robot.capsules if capsule.link == 1} == {"assumed"}


def test_one_folder_outside_is_allowed_on_the_command_line_alone(tmp_path, said):
    shared, folder = tmp_path / "share/meshes", tmp_path / "mine"
    shared.mkdir(parents=True)
    folder.mkdir()
    (shared / "own.stl").write_bytes(stl(SOLID))
    (folder / "arm.urdf").write_text(urdf({"l2": {"shape": MESH.format("package://share/meshes/own.stl")}}))
    assert "is not found" in said("robots", folder / "arm.urdf")[1]
    assert "4 fitted to collision meshes" in said("robots", folder / "arm.urdf", "--files", tmp_path)[1]
    cell = tmp_path / "cell"
    cell.mkdir()
    (cell / "my.toml").write_text('base = "../mine/arm.urdf"\n')
    (cell / "campaign.toml").write_text('robot = "../mine/arm.urdf"\n')
    assert "nor inside this folder" in said("status", cell)[1]
    assert "nor inside this folder" not in said("status", cell, "--files", folder)[1]
    assert "is outside the file's own folder; copy it there, or allow" in said("robots", cell / "my.toml")[1]
    assert said("robots", cell / "my.toml", "--files", folder)[0] == 0
    assert said("robots", cell / "my.toml")[0] == 1  # the next command forgets it
    code, told = said("init", tmp_path / "new", "--robot", cell / "my.toml", "--files", folder)
    assert code == 1
    assert "write the whole robot with excitor robots --to toml" in told
    assert said("design", cell, "--files", tmp_path / "nowhere")[0] == 2


def test_what_is_surely_wrong_is_said_by_init_and_where_no_motion_fits(tmp_path, said):
    path, cell = tmp_path / "arm.urdf", tmp_path / "cell"
    path.write_text(urdf({"l2": {"inertia": (4e7, 4e7, 1e7)}}))
    words = "not g mm²: inertia = [0.04, 0, 0, 0.04, 0, 0.01]"
    code, told = said("init", cell, "--robot", path)
    assert code == 0
    assert told.index(words) < told.index("leaves out")
    code, told = said("design", cell, "--evaluations", "50")
    assert code == 1
    assert told.index("no design") < told.index(words) < told.index("No motion fits")


def test_init_lists_what_is_missing_the_costliest_first(tmp_path, said):
    path = tmp_path / "arm.urdf"
    path.write_text(urdf({"l3": {"shape": ""}}))
    code, told = said("init", tmp_path / "cell", "--robot", path, "--json")
    assert code == 0
    missing = json.loads(told)["missing"]
    order = ["volumes of j3", "acceleration limits of all", "current law of all", "friction of all", "rotor", "axes"]
    assert [gap["what"][: len(words)] for gap, words in zip(missing, order, strict=True)] == order
    assert "no-go until it is stated" in missing[0]["costs"]
    for gap in missing:  # the lines are right as they stand
        (tmp_path / "my.toml").write_text(OVER + gap["line"])
        left = {one["what"].partition(" of ")[0] for one in gaps(load(tmp_path / "my.toml"))}
        whole = gap["what"].startswith(("volumes", "current", "axes"))
        assert (gap["what"].partition(" of ")[0] not in left) == whole
    assert gaps(load("tx40")) == []


def test_angles_next_to_pi_are_one_line_and_names_are_whole(tmp_path, said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "arm.urdf"
    text = urdf().replace('<origin xyz="0 0 0.3"/>', '<origin xyz="0 0 0.3" rpy="0 0 1.5708"/>')
    path.write_text(text.replace('"j2"', '"shoulder_lift_joint_of_arm"'))
    told = said("robots", path)[1]
    assert "note: angles of 3 joints are read as multiples of pi/12" in told
    assert told.count("pi/") == 1
    assert "shoulder_lift_joint_of_arm" in told
    assert "ZZ1R" not in told
    assert "ZZ1R" in said("robots", path, "--parameters")[1]


def test_a_plan_that_rests_on_what_is_surely_wrong_is_a_no_go_and_a_sound_one_is_not(tmp_path):
    for name, inertia in (("sound", (0.04, 0.04, 0.01)), ("odd", (0.01, 0.01, 0.1))):
        (tmp_path / f"{name}.urdf").write_text(urdf({"l2": {"inertia": inertia}}))
        begin(tmp_path / name, str(tmp_path / f"{name}.urdf"))
        setup = set_up(open_campaign(tmp_path / name, "design"))
        plan = CampaignDesign(setup, settings_of(setup.design), (), (), (), SimpleNamespace(checks=()), 0.0)
        assert plan.go == (name == "sound"), plan.reasons
    assert "In arm's file, link 'j2': principal moments" in plan.reasons[0]


def test_a_home_in_collision_is_answered_with_a_pose_that_is_clear(cell, said):
    text = cell.read_text() + BOX.format("out", [0.05, -1, 0.7], [1, 1, 1.2])
    cell.write_text(re.sub("home_deg = .*", "home_deg = [0, 20, 10]", text))
    code, told = said("design", cell.parent, "--evaluations", "1")
    assert code == 1
    line = re.search(r"a pose near it that is clear: (home_deg = \[[^]]*\])", told)[1]
    cell.write_text(re.sub("home_deg = .*", line, text))
    assert set_up(open_campaign(cell.parent, "design")).constraints.home is not None
