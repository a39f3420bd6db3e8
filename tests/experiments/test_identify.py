"""`excitor identify` on folders: from CSV logs to a model, or to the reasons why there is none."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.identification import UnusableData, identify
from excitor.experiments.stages import with_settings
from excitor.identify.methods import Answer
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion
from tests.campaigns import CAMPAIGN, NOISE, RATE, motion_of, true_robot, write_campaign, write_log

DATA = Path(__file__).parents[3] / "shared" / "data" / "tx40"


@pytest.fixture
def folder(tmp_path):
    return write_campaign(tmp_path)


@pytest.fixture(scope="module")
def by_wls(tmp_path_factory):
    return identify(open_campaign(write_campaign(tmp_path_factory.mktemp("wls"))))


def test_a_campaign_gives_a_model_that_predicts(by_wls):
    result = by_wls
    robot = true_robot()
    truth = base_parameters(robot).values(prior(robot))
    inside = (result.intervals.low < truth) & (truth < result.intervals.high)
    assert inside.mean() >= 0.8
    assert result.held_out is not None
    assert result.held_out.label == "held-out error"
    noise = NOISE / np.array([result.held_out.model.rmse[j] for j in range(3)])
    assert (noise > 0.5).all(), "errors are of the size of the noise, less what thinning takes off it"
    assert result.held_out.model.relative_total < 0.2 * result.held_out.baselines["gravity only"].relative_total
    assert result.consistent is not None
    assert result.consistent.audit.holds


def test_the_command_writes_everything(folder):
    result = CliRunner().invoke(app, ["identify", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    model = json.loads((folder / "model.json").read_text())
    assert model == json.loads(result.stdout)
    assert model["schema"] == 1
    assert len(model["parameters"]) == 21
    zz1 = model["parameters"][0]
    assert zz1["regrouping"] == "ZZ1 + YY2 + YY3 + 0.2025 M3"
    assert zz1["interval"][0] < zz1["value"] < zz1["interval"][1]
    assert set(model["provenance"]["sha256"]) == {"campaign.toml", "logs/first.csv", "logs/second.csv"}
    assert {entry["label"] for entry in model["standard"]["parameters"]} == {"data-determined", "prior-dominated"}
    assert "void rotradi_inverse_dynamics" in (folder / "model.c").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ols", "ml", "filtered dynamic", "tls"])
def test_another_method_fits_the_model_where_it_is_requested(folder, by_wls, method):
    """By the option for once, or by the campaign for good; both say so in the model."""
    result = CliRunner().invoke(app, ["identify", str(folder), "--method", method, "--json"])
    assert result.exit_code == 0, result.output
    model = json.loads(result.stdout)
    assert model["method"] == method
    (folder / "campaign.toml").write_text(CAMPAIGN + f'[identify]\nmethod = "{method}"\n')
    found = identify(open_campaign(folder))
    assert [entry["value"] for entry in model["parameters"]] == found.estimate.values.tolist()
    assert not np.allclose(found.estimate.values, by_wls.estimate.values)
    truth = base_parameters(true_robot()).values(prior(true_robot()))
    assert (np.abs(found.intervals.values - truth) < 5.0 * found.intervals.sigma).all()
    assert found.consistent is not None


def test_methods_that_are_none_and_settings_that_are_of_least_squares_are_refused(folder):
    with pytest.raises(InvalidCampaign, match="identify.method: is 'magic', expected one of ols, wls"):
        with_settings(open_campaign(folder), {"method": "magic"})
    (folder / "campaign.toml").write_text(CAMPAIGN + '[identify]\nmethod = "ml"\nessential_ratio = 20\n')
    with pytest.raises(InvalidCampaign, match='identify.essential_ratio: goes with method = "wls"'):
        open_campaign(folder)


def test_a_method_that_refuses_leaves_no_model(folder, monkeypatch):
    def refusing(method, problem):
        return Answer(method, None, None, refused="the columns nearly depend on one another")

    monkeypatch.setattr("excitor.experiments.identification.answer", refusing)
    with pytest.raises(ExcitorError, match="tls refuses: the columns nearly depend"):
        identify(with_settings(open_campaign(folder), {"method": "tls"}))


def test_names_that_look_like_markup_are_shown_as_they_are(folder):
    from excitor.robots.load import robot_text

    (folder / "arm.toml").write_text(robot_text("rotradi").replace('"elbow"', '"[/red]elbow"'))
    (folder / "campaign.toml").write_text(CAMPAIGN.replace('"rotradi"', '"arm.toml"'))
    result = CliRunner().invoke(app, ["identify", str(folder)])
    assert result.exit_code == 0, result.output
    assert "[/red]" in result.stdout


def test_generated_python_predicts_the_delivered_torques(folder):
    CliRunner().invoke(app, ["identify", str(folder)])
    scope = {}
    exec((folder / "model.py").read_text(), scope)  # our own file, written a moment ago
    model = json.loads((folder / "model.json").read_text())
    robot = load("rotradi")
    chi = np.zeros(len(robot.chi))
    from excitor.robots.parameters import layout

    for entry in model["standard"]["parameters"]:
        chi[layout(robot).index(entry["name"])] = entry["value"]
    motion = motion_of(robot, 1.0, 7)[1]
    expected = inverse_dynamics(robot, motion, chi)
    fast = np.abs(motion.dq).min(axis=1) > 0.05  # beyond the smoothed sign
    for k in np.flatnonzero(fast)[:20]:
        tau = scope["rotradi_inverse_dynamics"](list(motion.q[k]), list(motion.dq[k]), list(motion.ddq[k]))
        np.testing.assert_allclose(tau, expected[k], rtol=1e-9, atol=1e-9)


def test_a_process_is_cut_averaged_and_reduced_in_one_command(tmp_path):
    """A log without a plan: repeated cycles with one that deviates; the reduced model and its code come out."""
    robot = true_robot()
    cycle_t, cycle = motion_of(robot, 4.0, 3, harmonics=4, base_hz=0.25)
    n, repeats = len(cycle_t), 12
    q, dq, ddq = (np.tile(x, (repeats, 1)) for x in (cycle.q, cycle.dq, cycle.ddq))
    t = np.arange(n * repeats) / RATE
    bump = np.exp(-0.5 * ((t - 30.0) / 0.2) ** 2)[:, None]
    write_log(tmp_path / "logs" / "first.csv", robot, t, Motion(q + 0.1 * bump, dq, ddq), 0)
    text = CAMPAIGN.split("[[run]]")[0] + (
        '[[run]]\nname = "process"\nlog = "logs/first.csv"\ncycle_s = 3.0\n\n'
        '[processing]\nlowpass_hz = 20.0\n\n[identify]\nacceptance = "cross-validated"\nconsistent = false\n'
    )
    (tmp_path / "campaign.toml").write_text(text)
    result = CliRunner().invoke(app, ["identify", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    model = json.loads(result.stdout)
    step = next(step for step in model["processing"] if step["step"] == "average cycles")
    assert step["period_s"] == pytest.approx(4.0, abs=0.01)
    assert 9 <= step["repetitions"] <= 11
    assert step["left_out"]
    assert model["reduction"]["acceptance"] == "cross-validated"
    assert 9 <= len(model["parameters"]) < 21
    assert {"Fv1", "Fc3"} <= {entry["name"] for entry in model["parameters"]}, "friction is not given up"
    assert "tanh" in (tmp_path / "model.c").read_text()


def test_data_that_would_mislead_give_reasons_and_no_number(folder):
    lines = (folder / "logs" / "first.csv").read_text().splitlines()
    still = [lines[0]]
    for line in lines[1:]:
        cells = line.split(",")
        cells[2] = "10.0"
        still.append(",".join(cells))
    (folder / "logs" / "first.csv").write_text("\n".join(still))
    with pytest.raises(UnusableData, match="shoulder"):
        identify(open_campaign(folder))
    result = CliRunner().invoke(app, ["identify", str(folder)])
    assert result.exit_code == 1
    assert not (folder / "model.json").exists()


def test_a_flipped_sign_is_named(folder):
    lines = (folder / "logs" / "first.csv").read_text().splitlines()
    flipped = [lines[0]]
    for line in lines[1:]:
        cells = line.split(",")
        cells[5] = str(-float(cells[5]))
        flipped.append(",".join(cells))
    (folder / "logs" / "first.csv").write_text("\n".join(flipped))
    with pytest.raises(UnusableData, match="sign"):
        identify(open_campaign(folder))


BAD = {
    "unknown key": (CAMPAIGN.replace("lowpass_hz", "low_pass_hz"), "processing.low_pass_hz: is not a key"),
    "no run": (CAMPAIGN.split("[[run]]")[0] + "[processing]\nlowpass_hz = 20.0\n", "run: is missing"),
    "unknown robot": (CAMPAIGN.replace('"rotradi"', '"../../etc/passwd"'), "neither in the catalogue nor inside"),
    "log outside": (
        CAMPAIGN.replace("logs/second.csv", "../second.csv"),
        "run[2].log: '../second.csv' leaves the folder",
    ),
    "absolute log": (CAMPAIGN.replace("logs/second.csv", "/etc/hostname"), "leaves the folder"),
    "two of a name": (CAMPAIGN.replace('"second"', '"first"'), "the name 'first' is used more than once"),
    "nothing to identify": (CAMPAIGN.replace('name = "first"', 'name = "first"\nrole = "validate"'), "one must"),
    "from after to": (
        CAMPAIGN.replace('name = "first"', 'name = "first"\nfrom_s = 3.0\nto_s = 1.0'),
        "run[1]: goes from 3 to 1 s",
    ),
    "negative filter": (CAMPAIGN.replace("20.0", "-1.0"), "processing.lowpass_hz: is -1.0, expected"),
    "no such unit": (CAMPAIGN.replace("20.0", "[20.0]"), "processing.lowpass_hz: is [20.0], expected"),
    "text for a number": (CAMPAIGN.replace("20.0", '"fast"'), "processing.lowpass_hz: is 'fast', expected"),
    "reduced twice": (
        CAMPAIGN + '[identify]\nessential_ratio = 20.0\nacceptance = "training"\n',
        "gives both essential_ratio and acceptance",
    ),
    "a log that would be overwritten": (
        CAMPAIGN.replace("logs/second.csv", "model.json"),
        "run[2].log: 'model.json' is what excitor writes",
    ),
    "the same samples twice": (
        CAMPAIGN.replace("logs/second.csv", "logs/first.csv"),
        "'first' and 'second' are the same samples",
    ),
    "torque twice": (CAMPAIGN.replace('kind = "position"', 'kind = "torque"'), "give each kind once"),
    "cut periods": (
        CAMPAIGN.replace('name = "first"', 'name = "first"\nperiod_s = 10.0\nfrom_s = 1.0'),
        "run[1]: from_s and to_s go with plain runs only",
    ),
    "dropped periods of none": (
        CAMPAIGN.replace('name = "first"', 'name = "first"\ndrop_periods = 1'),
        "run[1].drop_periods: goes with period_s",
    ),
    "not TOML": ("robot = ", "is not TOML"),
    "empty": ("", "robot: is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_campaigns_are_sentences(folder, case):
    text, words = BAD[case]
    (folder / "campaign.toml").write_text(text)
    with pytest.raises(InvalidCampaign) as error:
        open_campaign(folder)
    assert words in str(error.value)
    assert "campaign.toml" in str(error.value)


@pytest.mark.parametrize(
    ("locked", "words"), [('["shoulder"]', "'shoulder' moves by"), ('["elbo"]', "no joint is named 'elbo'")]
)
def test_joints_are_only_locked_where_they_stand_still(folder, locked, words):
    text = CAMPAIGN.replace('robot = "rotradi"', f'robot = "rotradi"\nlocked = {locked}')
    (folder / "campaign.toml").write_text(text)
    with pytest.raises(ExcitorError, match=words):
        identify(open_campaign(folder))


def test_too_few_equations_are_reported(folder):
    (folder / "campaign.toml").write_text(CAMPAIGN.replace("[4]", "[400]"))
    with pytest.raises(ExcitorError, match="equations are left for 21 parameters"):
        identify(open_campaign(folder))


def test_a_failed_identification_keeps_the_model_before(folder):
    assert CliRunner().invoke(app, ["identify", str(folder)]).exit_code == 0
    before = (folder / "model.json").read_bytes()
    (folder / "campaign.toml").write_text(CAMPAIGN.replace("[4]", "[400]"))
    assert CliRunner().invoke(app, ["identify", str(folder)]).exit_code == 1
    assert (folder / "model.json").read_bytes() == before


def test_friction_that_drives_is_refused(folder):
    """A robot without priors cannot be told that its torques are upside down, but friction never drives."""
    from excitor.experiments.identification import impossible_values
    from tests.intervals import white_intervals

    result = identify(open_campaign(folder))
    estimate = result.estimate
    assert impossible_values(load("rotradi"), white_intervals(estimate)) == ()
    upside_down = replace(estimate, values=-estimate.values)
    findings = impossible_values(load("rotradi"), white_intervals(upside_down))
    assert {finding.level for finding in findings} == {"unusable"}
    assert any("Fv2" in finding.sentence for finding in findings)


def test_one_of_many_parameters_is_not_surely_below_zero_by_chance():
    """A sensor behind the gears feels no friction: of many estimates of 0 one lies below its 95 % interval."""
    from excitor.experiments.identification import impossible_values
    from excitor.identify.intervals import Intervals

    robot = load("iiwa")
    names = [term.parameter for term in robot.drive.friction if term.model in ("viscous", "coulomb")]
    n, found = len(names), {}
    for sigmas in (2.5, 5.0):
        values = np.append(np.zeros(n - 1), -sigmas)
        edges = values - 1.96, values + 1.96
        intervals = Intervals("white", tuple(names), ("N m",) * n, values, np.eye(n), *edges, np.ones(n), {})
        found[sigmas] = impossible_values(robot, intervals)
    assert n == 14
    assert found[2.5] == ()
    (finding,) = found[5.0]
    assert "surely below 0 (at most -1.81, with 99 % for all 14 parameters that cannot be)" in finding.sentence


@pytest.mark.parametrize("role", ["identify", "validate"])
def test_static_poses_join_a_moving_run(folder, role):
    """Thinning and the dead zone are not for poses that are held; a few of them may validate."""
    robot = true_robot()
    poses = np.random.default_rng(5).uniform(-0.8, 0.8, size=(8, 3))
    path = [poses[0] - 0.2]
    for pose in poses:
        path += [pose - 0.2, pose, pose + 0.2, pose]
    parts = []
    for a, b in pairwise(path):
        s = np.linspace(0, 1, 200)[:, None]
        parts += [a + (b - a) * (10 * s**3 - 15 * s**4 + 6 * s**5), np.tile(b, (200, 1))]
    q = np.concatenate(parts)
    still = np.zeros_like(q)
    write_log(folder / "logs" / "poses.csv", robot, np.arange(len(q)) / RATE, Motion(q, still, still), 5)
    extra = '[[run]]\nname = "poses"\nlog = "logs/poses.csv"\nstatic = true\nrole = "ROLE"\n\n[processing]'
    (folder / "campaign.toml").write_text(CAMPAIGN.replace("[processing]", extra.replace("ROLE", role)))
    result = identify(open_campaign(folder))
    assert "poses" in (result.training if role == "identify" else result.held_out).runs
    truth = base_parameters(robot).values(prior(robot))
    k = result.estimate.names.index("MX2")
    assert result.estimate.values[k] == pytest.approx(truth[k], rel=0.02)


def test_a_short_validation_is_still_a_validation(folder):
    """Only the fit needs many equations."""
    text = CAMPAIGN.replace('role = "validate"', 'role = "validate"\nfrom_s = 10.0\nto_s = 10.3')
    (folder / "campaign.toml").write_text(text)
    result = identify(open_campaign(folder))
    assert 0 < result.held_out.n_rows < 3 * 21


def test_a_folder_without_a_campaign(tmp_path):
    with pytest.raises(InvalidCampaign, match="does not exist"):
        open_campaign(tmp_path)


def test_a_link_out_of_the_folder_is_not_followed(folder):
    (folder / "logs" / "second.csv").unlink()
    (folder / "logs" / "second.csv").symlink_to("/etc/hostname")
    with pytest.raises(InvalidCampaign, match="leaves the folder"):
        open_campaign(folder)


def test_the_tool_never_shows_a_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "excitor.experiments.cli", "identify", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_urdf_robot_gets_its_inertials_back(tmp_path):
    """The URDF's own numbers are 40 % off; what comes back predicts torques as the truth does."""
    from excitor.robots.files.urdf import robot_from_urdf

    links = "".join(
        f'<link name="l{k}"><inertial><origin xyz="{0.1 + 0.05 * k} 0.02 0"/><mass value="{{m{k}}}"/>'
        f'<inertia ixx="{{i{k}}}" ixy="0" ixz="0" iyy="{{i{k}}}" iyz="0" izz="{{i{k}}}"/></inertial></link>'
        for k in (1, 2, 3)
    )
    joints = "".join(
        f'<joint name="q{k}" type="revolute"><parent link="{parent}"/><child link="l{k}"/><origin xyz="{x} 0 0" '
        f'rpy="{roll} 0 0"/><axis xyz="0 0 1"/><limit lower="-2.5" upper="2.5" velocity="6" effort="200"/></joint>'
        for k, parent, x, roll in ((1, "ground", 0, 0), (2, "l1", 0, 1.5707963), (3, "l2", 0.45, 0))
    )
    text = f'<robot name="arm"><!-- kept --><link name="ground"/>{links}{joints}</robot>'
    sizes = {"m1": 8.0, "m2": 6.0, "m3": 3.0, "i1": 0.08, "i2": 0.06, "i3": 0.03}
    truth = robot_from_urdf(text.format(**sizes), "truth.urdf")
    (tmp_path / "arm.urdf").write_text(text.format(**{key: 1.4 * value for key, value in sizes.items()}))
    for seed, name in enumerate(("first", "second")):
        t, motion = motion_of(truth, 40.0, seed)
        write_log(tmp_path / "logs" / f"{name}.csv", truth, t, motion, seed)
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace('"rotradi"', '"arm.urdf"'))
    result = CliRunner().invoke(app, ["identify", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    filled = (tmp_path / "model.urdf").read_text()
    assert "<!-- kept -->" in filled
    identified = robot_from_urdf(filled, "model.urdf")
    motion = motion_of(truth, 10.0, 9)[1]
    expected = inverse_dynamics(truth, motion)
    assert np.linalg.norm(inverse_dynamics(identified, motion) - expected) < 0.03 * np.linalg.norm(expected)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the TX-40 recording is not at {DATA}")
def test_the_recording_as_a_campaign(tmp_path):
    """Two halves of one recording: the second is predicted as well as the study says."""
    for name in ("pos_read_data.csv", "curr_data.csv"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    columns = ", ".join(f'"Joint_{k}"' for k in range(1, 7))
    (tmp_path / "campaign.toml").write_text(
        f"""robot = "tx40"
[log]
sample_rate_hz = 5000.0
[[log.signals]]
kind = "position"
side = "motor"
unit = "rad"
columns = [{columns}]
[[log.signals]]
kind = "torque"
side = "motor"
unit = "N m"
columns = [{columns}]
file = "curr_data.csv"
[[run]]
name = "first half"
log = "pos_read_data.csv"
to_s = 4.7
[[run]]
name = "second half"
log = "pos_read_data.csv"
role = "validate"
from_s = 4.7
[processing]
lowpass_hz = 50.0
true_cutoff = false
decimate = [10, 10]
"""
    )
    chosen = identify(open_campaign(tmp_path))
    with (tmp_path / "campaign.toml").open("a") as file:
        file.write('[identify]\nfriction = "as stated"\n')
    result = identify(open_campaign(tmp_path))
    errors = [found.model.unconstrained["held_out"] for found in (chosen, result)]
    assert errors[0] <= errors[1]
    assert chosen.held_out.model.relative_total <= result.held_out.model.relative_total
    assert result.model.unconstrained["held_out"] == pytest.approx(0.0722, abs=0.002)
    assert result.delivered.consistent
    assert result.held_out.model.relative_total <= 0.068
    assert result.held_out.model.relative_total < result.held_out.baselines["prior model"].relative_total
