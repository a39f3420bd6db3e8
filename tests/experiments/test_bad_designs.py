"""Bad campaigns: always a sentence with its key path and exit code 1; never a traceback, and old results stay."""

import json
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import main
from excitor.experiments.plan import planned_runs, run_problem
from excitor.experiments.setup import set_up
from excitor.robots.errors import ExcitorError

ROBOT = 'robot = "rotradi"\n'
DESIGN = ROBOT + "[design]\n"
ZONE = ROBOT + '[[cell.zone]]\nname = "z"\nkeep = "out"\n'
SHARED = 'name = "x"\n[[joint]]\nname = "a"\nmdh = {}\n'
URDF = """<robot name="bare"><link name="base"/><link name="arm"><inertial><mass value="2"/><origin xyz="0.2 0 0"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>
<joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint></robot>"""
JOINTS = ("base_joint", "shoulder", "elbow")
MODEL = {"schema": 1, "weights": [{"joint": name, "sigma": 0.5} for name in JOINTS], "parameters": []}


def changed(**content):
    return json.dumps(MODEL | content)


CAMPAIGNS = {
    # --- the file itself
    "nothing": ("", ["robot: is missing"]),
    "not TOML": ("robot = ", ["is not TOML"]),
    "twice the same key": (ROBOT + ROBOT, ["is not TOML"]),
    "unknown key": (DESIGN + "speed = 3", ["design.speed: is not a key that this table knows"]),
    "unknown table": (ROBOT + "[dezign]\n", ["dezign: is not a key that this table knows"]),
    "a string for a number": (DESIGN + 'ramp_s = "5"', ["design.ramp_s: is '5', expected a valid number"]),
    "NaN": (DESIGN + "ramp_s = nan", ["design.ramp_s: is nan, expected a finite number"]),
    "infinity": (ROBOT + "[limits]\ntool_speed_m_s = inf", ["limits.tool_speed_m_s: is inf, expected a finite number"]),
    "absurd size": (
        ZONE + 'shape = "sphere"\ncenter = [0, 0, 1e300]\nradius = 1',
        ["cell.zone[1].center[3]: is 1e+300"],
    ),
    "absurd radius": (
        ZONE + 'shape = "sphere"\ncenter = [0, 0, 0]\nradius = 1e300',
        ["cell.zone[1].radius: is 1e+300"],
    ),
    # --- the robot
    "unknown robot": ('robot = "tx4O"', ["robot: 'tx4O' is neither in the catalogue (", "nor a file in this folder"]),
    "a robot elsewhere": ('robot = "../arm.toml"', ["robot: '../arm.toml' is neither in the catalogue nor inside"]),
    "a robot that is a folder": ('robot = "."', ["robot: '.' is neither"]),
    # --- home
    "too few home angles": ("home_deg = [0, 0]\n" + ROBOT, ["home_deg: has 2 entries, expected one for each of 3"]),
    "home outside the limits": (
        "home_deg = [0, 170, 0]\n" + ROBOT,
        ["home_deg[2]: 170 is outside the position limits of shoulder"],
    ),
    "home inside the margin of a limit": (
        "home_deg = [179, 0, 0]\n" + ROBOT,
        ["home_deg[1]: 179 is outside the position limits of base_joint, which are -178 to 178 after their margin"],
    ),
    "home outside what the campaign leaves": (
        "home_deg = [0, 0, 0]\n" + ROBOT + "[limits.joint.elbow]\nposition_deg = [20, 100]",
        ["home_deg[3]: 0 is outside the position limits of elbow, which are 22 to 98 after their margin"],
    ),
    "home is no number": ("home_deg = [0, nan, 0]\n" + ROBOT, ["home_deg[2]: is nan, expected a finite number"]),
    "keep-in without home": (
        ROBOT + '[[cell.zone]]\nname = "far"\nkeep = "in"\nbodies = "tool"\nshape = "sphere"\ncenter = [5, 0, 0]\n'
        "radius = 0.5",
        ["home_deg: at home, far / tool has -", "mm of clearance, expected 20; move the zone, no pose is clear of it"],
    ),
    "home inside an obstacle": (
        ZONE + 'shape = "half-space"\npoint = [0, 0, 5]\nnormal = [0, 0, 1]',
        ["home_deg: at home, z / link ", " (the worst of ", "or turn its normal, which points out of what it fills"],
    ),
    # --- limits
    "lower above upper": (
        ROBOT + "[limits.joint.elbow]\nposition_deg = [20, -20]",
        ["limits.joint.elbow.position: goes from 20 to -20; the lower comes first"],
    ),
    "wider than the robot's": (
        ROBOT + "[limits.joint.elbow]\nposition_deg = [-170, 170]",
        ["limits.joint.elbow.position: [-170.0, 170.0] goes beyond the robot's own limits; it may only be tighter"],
    ),
    "faster than the robot": (
        ROBOT + "[limits.joint.elbow]\nvelocity_deg_s = 9000",
        ["limits.joint.elbow.velocity: exceeds the robot's own limit"],
    ),
    "stronger than the robot": (
        ROBOT + "[limits.joint.elbow]\ntorque = 9000",
        ["limits.joint.elbow.torque: 9000 exceeds the robot's own limit 15"],
    ),
    "a margin that leaves nothing": (
        ROBOT + "[limits]\nposition_margin_deg = 150",
        ["limits.position_margin_deg: leaves joint shoulder no range"],
    ),
    "zero per cent": (ROBOT + "[limits]\nvelocity_percent = 0", ["limits.velocity_percent: is 0, expected greater"]),
    "limits of an unknown joint": (
        ROBOT + "[limits.joint.wrist]\ntorque = 1",
        ["limits.joint.wrist: is no joint of rotradi; its joints are base_joint, shoulder, elbow"],
    ),
    "metres for a joint that turns": (
        ROBOT + "[limits.joint.elbow]\nvelocity_m_s = 1",
        ["limits.joint.elbow.velocity_m_s: elbow turns; give the other unit"],
    ),
    # --- constraints of registered kinds
    "an unknown kind": (
        ROBOT + '[[constraint]]\nkind = "tool-cones"',
        ["constraint[1].kind: is 'tool-cones', expected one of tool-cone, joint-sum", "did you mean 'tool-cone'?"],
    ),
    "a constraint without its key": (
        ROBOT + '[[constraint]]\nkind = "tool-cone"',
        ["constraint[1].angle_deg: is miss"],
    ),
    "a key that a kind does not know": (
        ROBOT + '[[constraint]]\nkind = "tool-cone"\nangle_deg = 30\nangel = 3',
        ["constraint[1].angel: is not a key that this table knows"],
    ),
    "a cone without an axis": (
        ROBOT + '[[constraint]]\nkind = "tool-cone"\nangle_deg = 30.0\naxis = [0, 0, 0]',
        ["constraint[1]: axis is [0.0, 0.0, 0.0], expected three numbers that are not all 0"],
    ),
    "a sum of unknown joints": (
        ROBOT + '[[constraint]]\nkind = "joint-sum"\nweights = { wrist = 1.0 }\nrange_deg = [0, 9]',
        ["constraint[1]: joint sum: 'wrist' is no joint of rotradi; its joints are base_joint"],
    ),
    "a sum in metres": (
        ROBOT + '[[constraint]]\nkind = "joint-sum"\nweights = { elbow = 1.0 }\nrange_m = [0, 9]',
        ["constraint[1]: the joints turn: give range_deg"],
    ),
    "two cones": (
        ROBOT + 2 * '[[constraint]]\nkind = "tool-cone"\nangle_deg = 30.0\n',
        ["constraint[2]: limits 'tool cone' a second time; state one of the two"],
    ),
    "home outside a cone": (
        ROBOT + '[[constraint]]\nkind = "tool-cone"\nangle_deg = 30.0\ndirection = [0.3, 0.5, 0.8]',
        [
            "home_deg: at home, tool cone is ",
            "rad, expected at most 0.5236; move the home pose, or relax the constraint",
        ],
    ),
    # --- the cell
    "shape without its keys": (
        ZONE + 'shape = "box"\nlow = [0, 0, 0]',
        ["cell.zone[1]: a box is given by high and low"],
    ),
    "shape with another's keys": (
        ZONE + 'shape = "sphere"\ncenter = [1, 0, 0]\nradius = 1\nheight = 2',
        ["cell.zone[1]: a sphere is given by center and radius; this one gives center, height, radius"],
    ),
    "unknown shape": (ZONE + 'shape = "cone"', ["cell.zone[1].shape: is 'cone', expected 'box', 'sphere'"]),
    "low above high": (
        ZONE + 'shape = "box"\nlow = [0, 0, 1]\nhigh = [1, 1, 0]',
        ["cell.zone[1]: low [0.0, 0.0, 1.0] is not below high"],
    ),
    "two numbers for a vector": (
        ZONE + 'shape = "half-space"\npoint = [0, 0]\nnormal = [0, 0, 1]',
        ["cell.zone[1].point: has 2 entries, expected at least 3"],
    ),
    "a normal without direction": (
        ZONE + 'shape = "half-space"\npoint = [0, 0, -1]\nnormal = [0, 0, 0]',
        ["cell.zone[1]: normal is zero; give a direction"],
    ),
    "negative radius": (
        ZONE + 'shape = "sphere"\ncenter = [9, 0, 0]\nradius = -1',
        ["cell.zone[1].radius: is -1, expected greater than 0"],
    ),
    # --- the excitation
    "period between samples": (
        DESIGN + "base_frequency_hz = 0.3\ncontroller_sample_s = 0.004",
        [
            "design.base_frequency_hz: period is 3.33333 s, which is no whole number",
            "base_frequency_hz = 0.300120048 has one",
        ],
    ),
    "ramp between samples": (DESIGN + "ramp_s = 0.0101", ["design.ramp_s: ramp is 0.0101 s, which is no whole number"]),
    "no ramp": (DESIGN + "ramp_s = 0", ["design.ramp_s: is 0, expected greater than 0"]),
    "more harmonics than samples carry": (
        DESIGN + "harmonics = 60\nbase_frequency_hz = 1.0\ncontroller_sample_s = 0.01",
        ["design.harmonics: harmonic 60 has fewer than 20 controller samples a cycle", "carries 5 harmonics at most"],
    ),
    "no harmonics": (DESIGN + "harmonics = []", ["design.harmonics: is empty; give at least one"]),
    "harmonics out of order": (DESIGN + "harmonics = [1, 3, 2]", ["design: harmonics are [1, 3, 2], expected rising"]),
    "harmonics above the resonance": (
        DESIGN + "harmonics = [1, 30]\nmax_frequency_hz = 2",
        ["design.harmonics: 30 times 0.1 Hz is above max_frequency_hz = 2"],
    ),
    "a resonance below the base frequency": (
        DESIGN + "max_frequency_hz = 0.01",
        ["design.max_frequency_hz: 0.01 is below the base frequency 0.1; no harmonic is left"],
    ),
    "no measured period": (
        DESIGN + "measured_periods = 0",
        ["design.measured_periods: is 0, expected greater than or"],
    ),
    "slower than its samples": (
        DESIGN + "controller_sample_s = 1000",
        ["design.base_frequency_hz: period is 10 s, which is no whole number"],
    ),
    # --- which joints
    "an unknown joint moves": (
        DESIGN + 'joints = ["wrist"]',
        ["design.joints: 'wrist' is no joint of rotradi; its joints are"],
    ),
    "an unknown joint is locked": (
        DESIGN + "[design.locked_deg]\nwrist = 3",
        ["design.locked_deg.wrist: is no joint of rotradi"],
    ),
    "locked and moving": (
        DESIGN + "locked_deg = { elbow = 3 }",
        ["design.locked_deg.elbow: elbow moves in every run; list in design.joints those that do"],
    ),
    "a locked joint that moves": (
        DESIGN + 'joints = ["elbow"]\nlocked_deg = { elbow = 3 }',
        ["design.locked_deg.elbow: elbow is among design.joints, which move"],
    ),
    "locked outside its limits": (
        DESIGN + 'joints = ["elbow"]\nlocked_deg = { shoulder = 150 }',
        ["design.locked_deg.shoulder: 150 is outside the position limits of shoulder"],
    ),
    "a sequence of some joints": (
        DESIGN + 'schedule = "locked-sequence"\njoints = ["elbow"]',
        ["design.schedule: a locked sequence is of all joints; leave the joints out"],
    ),
    # --- criterion and budget
    "zero evaluations": (DESIGN + "evaluations = 0", ["design.evaluations: is 0, expected greater than or equal to 1"]),
    "negative seconds": (DESIGN + "seconds = -3", ["design.seconds: is -3, expected greater than 0"]),
    "two budgets": (DESIGN + "seconds = 3\nevaluations = 9", ["design: gives both evaluations and seconds"]),
    "sigma of nothing": (DESIGN + 'criterion = "sigma"', ['parameters go with criterion = "sigma", and it needs them']),
    "sigma of unknown parameters": (
        DESIGN + 'criterion = "sigma"\nparameters = ["ZZ9"]',
        ["design.parameters: ZZ9 is no base parameter that this run can show; those are ZZ1"],
    ),
    "path without a task": (DESIGN + 'criterion = "path"', ['task goes with criterion = "path", which needs it']),
    "a task that is missing": (
        DESIGN + 'criterion = "path"\ntask = "way.csv"',
        ["design.task: 'way.csv' No such file or directory"],
    ),
    "a task elsewhere": (
        DESIGN + 'criterion = "path"\ntask = "../way.csv"',
        ["design.task: '../way.csv' leaves the folder of the campaign"],
    ),
    "a load model with weights": (
        DESIGN + 'model = "load"\ncriterion = "d"',
        ['design: criterion is "d"; model = "load" goes with criterion = "condition"'],
    ),
    "a load model of a locked sequence": (
        DESIGN + 'model = "load"\nschedule = "locked-sequence"',
        ['design: schedule is "locked-sequence", whose runs move different joints'],
    ),
    "a front without its condition": (
        DESIGN + 'front = ["duration", "torque"]',
        ["design: front is ['duration', 'torque'], expected \"condition\" first"],
    ),
    "periods without a front": (
        DESIGN + "periods_s = [5, 10]",
        ['design: periods_s goes with a front over "duration"'],
    ),
    "periods between samples": (
        DESIGN + 'front = ["condition", "duration"]\nperiods_s = [5.001]',
        ["design.periods_s: 5.001 is no whole number of controller samples; 5 would be"],
    ),
    # --- noise, payload, prior
    "noise of too many joints": (
        ROBOT + "[noise]\ntorque = [1, 1, 1, 1]",
        ["noise.torque: has 4 entries, expected one for each of 3 joints"],
    ),
    "negative noise": (ROBOT + "[noise]\ntorque = [1, -1, 1]", ["noise.torque[2]: is -1, expected greater than 0"]),
    "noise from two sources": (
        ROBOT + '[noise]\ntorque = [1, 1, 1]\nmodel = "model.json"',
        ["noise: gives both torque and model; the noise comes from one of them"],
    ),
    "a noise model elsewhere": (ROBOT + '[noise]\nmodel = "../m.json"', ["noise.model: '../m.json' leaves the folder"]),
    "a noise model that is missing": (
        ROBOT + '[noise]\nmodel = "m.json"',
        ["noise.model: ", "m.json: is missing; run excitor identify first"],
    ),
    "a prior elsewhere": (
        'prior = "/etc/passwd"\n' + ROBOT,
        ["prior: '/etc/passwd' leaves the folder of the campaign"],
    ),
    "a prior that is a folder": ('prior = "."\n' + ROBOT, ["prior: ", "is missing; run excitor identify first"]),
    "a payload without a mass": (ROBOT + "[payload]\ncenter = [0, 0, 0]", ["payload.mass: is missing"]),
    "a payload of negative mass": (ROBOT + "[payload]\nmass = -2", ["payload.mass: is -2, expected greater than 0"]),
    "half an inertia": (
        ROBOT + "[payload]\nmass = 2\ninertia = [1, 1, 1]",
        ["payload.inertia: has 3 entries, expected at least 6"],
    ),
    "a pair without its payload": (
        DESIGN + 'schedule = "payload-pair"',
        ['design.schedule: is "payload-pair", but there is no [payload]'],
    ),
}


@pytest.fixture
def told(monkeypatch, capsys, tmp_path):
    """Run `excitor design` in a folder that holds an older design; what it printed."""

    def call(text, *options, files=None):
        old = {"design.json": "old design", "plan.html": "old page"}
        for name, content in {**old, **(files or {})}.items():
            path = tmp_path / name
            path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content, "utf-8")
        campaign = tmp_path / "campaign.toml"
        campaign.write_bytes(text) if isinstance(text, bytes) else campaign.write_text(text, "utf-8")
        monkeypatch.setattr(sys, "argv", ["excitor", "design", str(tmp_path), "--evaluations", "200", *options])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        assert stop.value.code == 1
        assert "Traceback" not in printed.err
        aside = {name: tmp_path / name.replace(".", ".old.") for name in old}  # of a campaign that nothing fits
        kept = {name: path if path.exists() else tmp_path / name for name, path in aside.items()}
        assert {name: path.read_text() for name, path in kept.items()} == old
        assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
        return printed

    return call


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_bad_campaign_is_a_sentence(told, name):
    text, words = CAMPAIGNS[name]
    printed = told(text)
    for word in words:
        assert word in printed.err
    assert printed.out == ""
    assert "campaign.toml: " in printed.err


def test_all_problems_are_reported_at_once(told):
    printed = told(
        "home_deg = [0]\n" + DESIGN + 'joints = ["wrist"]\n[limits.joint.hand]\ntorque = 1\n[noise]\ntorque = [1]'
    )
    for path in ("home_deg", "design.joints", "limits.joint.hand", "noise.torque"):
        assert f"campaign.toml: {path}: " in printed.err


def test_errors_for_scripts(told):
    printed = told(DESIGN + "harmonics = []\n[noise]\ntorque = [1]", "--json")
    told_by = json.loads(printed.out)["error"]
    assert len(told_by) == 2
    assert "design.harmonics: is empty" in told_by[0]


def test_two_zones_of_one_name(told):
    zone = '[[cell.zone]]\nname = "z"\nkeep = "out"\nshape = "sphere"\ncenter = [9, 0, 0]\nradius = 1\n'
    assert "cell.zone: the name 'z' is used more than once" in told(ROBOT + 2 * zone).err


def test_a_zone_about_links_that_have_no_size(told):
    arm = SHARED + "limits = { position_deg = [-90, 90], velocity_deg_s = 90, acceleration_deg_s2 = 90 }\n"
    text = 'robot = "arm.toml"\n' + ZONE.replace(ROBOT, "") + 'bodies = "links"\nshape = "sphere"\ncenter = [9, 0, 0]\n'
    printed = told(text + "radius = 1", files={"arm.toml": arm})
    assert "cell: zone 'z' is about the links of x, which has no capsules" in printed.err


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\xff\xfe\x00bad", "design.task: 'way.csv'"),
        ("", "has no header t, base_joint, shoulder, elbow"),
        ("t,a,b,c\n1,2,3,4\n", "has no header"),
        ("t,base_joint,shoulder,elbow\n", "has 0 rows, expected at least 10"),
        ("t,base_joint,shoulder,elbow\n0,1,2\n", "row 2: '0,1,2' are not 4 numbers"),
        ("t,base_joint,shoulder,elbow\n" + "0,1,2,nan\n" * 20, "expected at least 10, all finite"),
        ("t,base_joint,shoulder,elbow\n" + "0,1,2,3\n" * 20, "has uneven times"),
        ("t,base_joint,shoulder,elbow\n" + "".join(f"{k * k},1,2,3\n" for k in range(20)), "has uneven times"),
    ],
)
def test_a_task_that_is_none(told, content, word):
    printed = told(DESIGN + 'criterion = "path"\ntask = "way.csv"', files={"way.csv": content})
    assert word in printed.err
    assert "campaign.toml: design.task: 'way.csv' " in printed.err


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("not JSON", "is not JSON that excitor identify"),
        (b"\xff\xfe{}", "is not JSON that excitor identify"),
        ("[" * 20_000, "is not JSON that excitor identify"),
        ("[]", "has schema None"),
        (changed(weights=[]), "the model has no sigma of base_joint, shoulder, elbow"),
        (changed(weights=[5]), "weights[1]: is 5, expected"),
        (changed(weights=[{"joint": "j1", "sigma": 1}]), "another robot: 'j1' is no joint of rotradi"),
        (changed(weights=[{"joint": ["x"], "sigma": 1}]), "weights[1].joint: is ['x'], expected"),
        (changed(weights=[{"joint": "elbow", "sigma": "x"}]), "weights[1].sigma: is 'x', expected a valid number"),
        (changed(weights=[{"joint": "elbow", "sigma": -1}]), "weights[1].sigma: is -1, expected greater than 0"),
        (changed(weights=[{"joint": "elbow", "sigma": float("nan")}]), "sigma: is nan, expected a finite number"),
        (changed(weights=[{"joint": "elbow", "sigma": 10**400}]), "weights[1].sigma: is 1000"),
        (changed(parameters=[{"sigma": 1, "sigma_white": "x"}]), "noise.model: "),
        (changed(parameters=[{"sigma_white": 1}]), "noise.model: "),
        (changed(parameters=[{"sigma": [], "sigma_white": 1}]), "noise.model: "),
        (changed(parameters=5), "noise.model: "),
    ],
)
def test_a_noise_model_that_is_none(told, content, word):
    printed = told(ROBOT + '[noise]\nmodel = "model.json"', files={"model.json": content})
    assert word in printed.err
    assert "campaign.toml: noise.model: " in printed.err


@pytest.mark.parametrize(
    ("standard", "word"),
    [
        (None, "has no physically consistent parameters"),
        ({"parameters": [{"name": "M1", "value": "x"}]}, "parameters[1].value: is 'x', expected a valid number"),
        ({"parameters": [{"name": "M1", "value": 1e300}]}, "prior: "),
        ({"parameters": [{"name": "M1", "value": 10**400}]}, "prior: "),
        ({"parameters": [{"name": "M77", "value": 1.0}]}, "prior: "),
        ({"parameters": [{"name": "M1", "value": 1.0}]}, "is of another robot: it lacks parameters of rotradi"),
        ({"parameters": []}, "is of another robot: it lacks parameters of rotradi"),
    ],
)
def test_a_prior_that_is_none(told, standard, word):
    content = changed(standard=standard)
    printed = told('prior = "model.json"\n' + ROBOT, files={"model.json": content})
    assert word in printed.err
    assert "campaign.toml: prior: " in printed.err


def test_a_robot_without_limits(told):
    printed = told('robot = "arm.urdf"', files={"arm.urdf": URDF})
    assert "turn" in printed.err
    assert "limit" in printed.err


def test_home_where_the_robot_does_not_lock_its_joint(told):
    arm = SHARED + "locked_deg = 20\n" + '[[joint]]\nname = "b"\nmdh = {}\nlimits = { position_deg = [-9, 9] }\n'
    printed = told('robot = "arm.toml"\nhome_deg = [0, 0]\n', files={"arm.toml": arm})
    assert "campaign.toml: home_deg[1]: 0, but the robot's file locks a at 20" in printed.err


def test_a_robot_that_is_none(told):
    assert "arm.toml" in told('robot = "arm.toml"', files={"arm.toml": "name = 5"}).err
    assert "arm.urdf" in told('robot = "arm.urdf"', files={"arm.urdf": "<robot"}).err


def test_text_that_is_none(told):
    assert "campaign.toml: " in told(b'robot = "\xff\xfe"').err


def test_folders_and_files_in_each_others_place(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "cell" / "campaign.toml").mkdir(parents=True)
    for place in ("file", "nowhere", "cell"):
        monkeypatch.setattr(sys, "argv", ["excitor", "design", str(tmp_path / place)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 1
        assert place in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--evaluations", "0"], ["--seconds", "0"], ["--seconds", "-1"], ["--seconds", "nan"], ["--workers", "0"]],
)
def test_a_budget_that_is_none(monkeypatch, capsys, tmp_path, options):
    (tmp_path / "campaign.toml").write_text(ROBOT)
    monkeypatch.setattr(sys, "argv", ["excitor", "design", str(tmp_path), *options])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["campaign.toml"]


@pytest.mark.slow
def test_nothing_fits_in_a_cage(told):
    """A cell in which no motion fits ends in what blocks, and what to relax."""
    printed = told(
        "home_deg = [0, 90, 0]\n" + ROBOT + '[[cell.zone]]\nname = "cage"\nkeep = "in"\nbodies = "tool"\n'
        'shape = "sphere"\ncenter = [0.9, 0, 0]\nradius = 0.05\n'
    )
    assert "run 'excitation': no design." in printed.err
    assert "it is plan.old.html now" in printed.err  # its go is no go of this campaign
    assert "80 % of torques" in printed.err
    assert "One constraint blocks by itself: keep-in zone 'cage' (sphere, clearance 0.02 m)." in printed.err
    assert "To relax it alone: grow keep-in zone 'cage' by " in printed.err


# --- anything at all, where a value belongs

VALUE = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([10**9, -(10**9), 10**30]),
    st.floats(allow_nan=True, allow_infinity=True, width=64),
    st.booleans(),
    st.sampled_from(["", "in", "box", "elbow", "dynamic", "together", "sigma", "d", "é", "a/b", "\\u0007"]),
)
KEY = st.sampled_from(
    [
        "design.harmonics", "design.base_frequency_hz", "design.controller_sample_s", "design.ramp_s",
        "design.settle_s", "design.hold_s", "design.measured_periods", "design.warm_up_periods", "design.schedule",
        "design.criterion", "design.model", "design.joints", "design.max_frequency_hz", "design.static_poses",
        "design.seed", "limits.velocity_percent", "limits.position_margin_deg", "limits.tool_speed_m_s",
        "limits.torque_rms_percent", "limits.joint.elbow.torque", "limits.joint.elbow.position_deg",
        "limits.joint.elbow.velocity_deg_s", "limits.joint.elbow.jerk_deg_s3", "noise.torque", "noise.rate_hz",
        "noise.inflation", "cell.clearance_m", "cell.tool_radius_m", "cell.zone", "home_deg", "payload.mass",
        "payload.center", "payload.inertia", "design.locked_deg.elbow",
    ]
)  # fmt: skip


def toml(value):
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(KEY, st.one_of(VALUE, st.lists(VALUE, max_size=6)), min_size=1, max_size=4))
def test_any_value_is_accepted_or_refused_in_a_sentence(tmp_path, content):
    lines = [f"{key} = {toml(value)}" for key, value in content.items()]
    (tmp_path / "campaign.toml").write_text("\n".join([ROBOT, *lines]), "utf-8")
    try:
        setup = set_up(open_campaign(tmp_path, "design"))
        plans, _ = planned_runs(setup)
        periodic = [plan for plan in plans if plan.kind == "excitation"]
        if setup.excitation.harmonics[-1] <= 20:  # more take long to set up, not to refuse
            run_problem(setup, periodic[0], ())
    except ExcitorError as error:
        told = str(error)
        assert told
