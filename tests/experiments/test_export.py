"""`excitor export`: a model handed on in every form, from a folder; and what is refused."""

import io
import json
import re
import shutil
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.inertia import change_frame, from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion

RATE = 200.0
NOISE = np.array([0.5, 1.5, 0.15])
CAMPAIGN = """robot = "rotradi"
[log]
time = "t"
[[log.signals]]
kind = "position"
side = "joint"
unit = "deg"
columns = ["q1", "q2", "q3"]
[[log.signals]]
kind = "torque"
side = "joint"
unit = "N m"
columns = ["c1", "c2", "c3"]
[[run]]
name = "first"
log = "first.csv"
[[run]]
name = "second"
log = "second.csv"
role = "validate"
[processing]
lowpass_hz = 20.0
"""
BODY = from_center_of_mass(
    3.0, np.array([0.02, -0.01, 0.08]), np.array([[0.02, 1e-3, 0], [1e-3, 0.03, 0], [0, 0, 0.04]])
)


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(x) for x in arguments])
    told = result.output + (str(result.exception) if result.exception else "")
    assert (result.exit_code != 0) == bool(code), told
    return told if code else result.stdout


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "cell"
    folder.mkdir()
    robot = load("rotradi")
    for seed, name in enumerate(("first", "second")):
        rng = np.random.default_rng(seed)
        t = np.arange(int(20 * RATE)) / RATE
        q, dq, ddq = np.zeros((3, len(t), 3))
        for k in range(1, 7):
            w = 2 * np.pi * 0.1 * k
            a, b = rng.uniform(-0.35, 0.35, size=(2, 3))
            s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
            q, dq, ddq = q + a * s + b * c, dq + w * (a * c - b * s), ddq - w * w * (a * s + b * c)
        tau = inverse_dynamics(robot, Motion(q, dq, ddq)) + rng.normal(size=q.shape) * NOISE
        table = np.column_stack([t, np.degrees(q), tau])
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header="t,q1,q2,q3,c1,c2,c3", comments="", fmt="%.6f")
    (folder / "campaign.toml").write_text(CAMPAIGN)
    call("identify", folder, "--json")
    return folder


@pytest.fixture
def folder(identified, tmp_path):
    return shutil.copytree(identified, tmp_path / "cell")


def with_payload(folder, **changes):
    data = json.loads((folder / "model.json").read_text())
    sigma = np.array([1e-3] * 6 + [1e-3] * 3 + [0.01])
    data["payload"] = {
        "link": "elbow", "frame": "link", "phi": BODY.tolist(), "covariance": np.diag(sigma**2).tolist()
    } | changes  # fmt: skip
    (folder / "model.json").write_text(json.dumps(data))


def test_code_is_what_identify_wrote(folder):
    call("export", folder, "--format", "c", "--format", "py")
    for name in ("model.c", "model.py"):
        assert (folder / "exports" / name).read_bytes() == (folder / name).read_bytes()


def test_mjcf_holds_the_consistent_parameters(folder):
    told = json.loads(call("export", folder, "--format", "mjcf", "--out", folder / "x" / "y", "--json"))
    assert [entry["format"] for entry in told["written"]] == ["mjcf"]
    text = (folder / "x" / "y" / "model.xml").read_text()
    data = json.loads((folder / "model.json").read_text())
    values = {entry["name"]: entry["value"] for entry in data["standard"]["parameters"]}
    assert [float(x) for x in re.findall(r'mass="(\S+)"', text)] == pytest.approx([values[f"M{j}"] for j in (1, 2, 3)])


def test_ones_own_mjcf_is_filled_and_never_overwritten(folder):
    call("export", folder, "--format", "mjcf")
    mine = folder / "mine.xml"
    plain = (folder / "exports" / "model.xml").read_text()
    mine.write_text(re.sub(r'damping="\S+"', 'damping="0"', plain))
    before = mine.read_bytes()
    call("export", folder, "--format", "mjcf", "--mjcf", mine)
    assert (folder / "exports" / "mine.xml").read_text() != mine.read_text()
    found = re.findall(r'damping="(\S+)"', (folder / "exports" / "mine.xml").read_text())
    assert found == re.findall(r'damping="(\S+)"', plain)
    answer = call("export", folder, "--format", "mjcf", "--mjcf", mine, "--out", folder, code=1)
    assert "would be overwritten" in answer
    assert mine.read_bytes() == before


def test_samples_are_those_of_the_fit(folder):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    call("export", folder, "--format", "parquet")
    table = parquet.read_table(io.BytesIO((folder / "exports" / "samples.parquet").read_bytes()))
    assert json.loads(table.schema.metadata[b"joints"]) == ["base_joint", "shoulder", "elbow"]
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    data = json.loads((folder / "model.json").read_text())
    robot = open_campaign(folder).robot
    chi = np.zeros(len(layout(robot)))
    for entry in data["standard"]["parameters"]:
        chi[layout(robot).index(entry["name"])] = entry["value"]
    stacked = {key: np.column_stack([columns[f"{key}_{j}"] for j in (1, 2, 3)]) for key in ("q", "dq", "ddq")}
    again = inverse_dynamics(robot, Motion(**stacked), chi)
    weights = np.column_stack([columns[f"weight_{j}"] for j in (1, 2, 3)])
    for j in range(3):
        np.testing.assert_allclose(columns[f"tau_predicted_{j + 1}"], again[:, j], atol=1e-9)
        used = weights[:, j] > 0.0
        assert used.any()
        assert set(columns["run"][used]) == {"first"}
        residual = (columns[f"tau_{j + 1}"] - columns[f"tau_predicted_{j + 1}"])[used]
        assert np.sqrt(np.mean(residual**2)) * np.sqrt(weights[used, j][0]) == pytest.approx(1.0, abs=0.1)
    assert set(columns["run"]) == {"first", "second"}
    assert 0 < np.count_nonzero(weights) < weights[columns["run"] == "first"].size, "slow joints take no part"
    assert np.diff(columns["t"][columns["run"] == "first"]) == pytest.approx(1 / RATE)


def test_without_pyarrow_samples_are_refused(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'excitor[parquet]'" in call("export", folder, "--format", "parquet", code=1)
    assert not (folder / "exports").exists()


def test_an_identified_payload_goes_to_controllers_in_the_flange_frame(folder):
    with_payload(folder)
    call("export", folder, *(x for name in ("kuka", "abb", "fanuc", "ur") for x in ("--format", name)))
    assert {path.name for path in (folder / "exports").iterdir()} == {
        "load_payload.dat", "load_payload.mod", "load_payload_fanuc.txt", "load_payload.script"
    }  # fmt: skip
    text = (folder / "exports" / "load_payload.script").read_text()
    x, y, z = (float(v) for v in re.search(r"payload\(3\.0\d+, \[(\S+), (\S+), (\S+)\],", text).groups())
    tool = load("rotradi").tool.T_link_frame[:3, 3]
    np.testing.assert_allclose([x, y, z], np.array([0.02, -0.01, 0.08]) - tool, atol=2e-3)
    assert "identified, from model.json" in text


def test_a_payload_may_be_given_in_the_tools_frame(folder):
    with_payload(folder, frame="tool")
    call("export", folder, "--format", "ur")
    text = (folder / "exports" / "load_payload.script").read_text()
    assert re.search(r"payload\(3\.0\d+, \[0\.02\d*, -0\.01\d*, 0\.08\d*\],", text)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"link": "knee"}, "payload.link is 'knee'"),
        ({"frame": "camera"}, "payload.frame is 'camera'"),
        ({"phi": [1.0] * 9}, "payload.phi: expected 10 numbers"),
        ({"phi": ["x"] * 10}, "payload.phi: expected 10 numbers"),
        ({"covariance": [[float("nan")] * 10] * 10}, "payload.covariance: expected 10 x 10 numbers"),
        ({"covariance": np.triu(np.ones((10, 10))).tolist()}, "is not symmetric"),
        ({"covariance": (-np.eye(10)).tolist()}, "has a negative variance"),
        ({"covariance": (25 * np.eye(10)).tolist()}, "its mass is 3 ± 5 kg, which is not significant"),
        ({"phi": [*BODY[:9], -1.0]}, "its mass is -1 kg"),
        ({"phi": [0.001, 0, 0, 0.001, 0, 0.5, 0, 0, 0, 3.0]}, "no body can have these data"),
        ({"link": "shoulder"}, "does not ride on the link that carries the load"),
    ],
)
def test_payloads_that_say_nothing_are_refused(folder, changes, sentence):
    with_payload(folder, **changes)
    assert sentence in call("export", folder, "--format", "kuka", code=1)
    assert not (folder / "exports").exists()


def test_a_stated_payload_is_taken_where_none_is_identified(folder):
    campaign = folder / "campaign.toml"
    body = "[payload]\nmass = 2.5\ncenter = [0.0, 0.0, 0.08]\ninertia = [0.02, 0, 0, 0.02, 0, 0.01]\n"
    campaign.write_text(campaign.read_text() + body)
    call("export", folder, "--format", "kuka")
    text = (folder / "exports" / "load_payload.dat").read_text()
    assert (
        "{M 2.500,CM {X 0.00,Y 0.00,Z 80.00,A 0.0000,B 0.0000,C 0.0000},J {X 0.020000,Y 0.020000,Z 0.010000}}" in text
    )
    assert "As stated, without uncertainty" in text
    with_payload(folder)
    call("export", folder, "--format", "kuka")
    assert "identified" in (folder / "exports" / "load_payload.dat").read_text()


def test_a_links_own_body_is_what_the_model_says(folder):
    data = json.loads((folder / "model.json").read_text())
    names = layout(load("rotradi")).names[20:30]
    values = {entry["name"]: entry["value"] for entry in data["standard"]["parameters"]}
    T = np.linalg.inv(load("rotradi").tool.T_link_frame)
    phi = change_frame(np.array([values[name] for name in names]), T)
    call("export", folder, "--format", "ur", "--from-link", "elbow", "--point-mass")
    text = (folder / "exports" / "load_elbow.script").read_text()
    found = re.search(r"payload\((\S+), \[(\S+), (\S+), (\S+)\], \[0.000000,", text)
    mass, *center = (float(x) for x in found.groups())
    sigma = np.sqrt(np.diag(data["standard"]["link_covariances"]["elbow"]))
    assert 0.0 <= mass - phi[9] <= 0.1 * sigma[9] + 1e-3
    np.testing.assert_allclose(center, phi[6:9] / phi[9], atol=0.02)
    assert "has no load" in call("export", folder, "--format", "ur", code=1)


def test_forms_are_listed(folder):
    listed = {entry["format"]: entry for entry in json.loads(call("export", folder, "--json"))["formats"]}
    assert listed["py"]["file"] == "model.py"
    assert "did not come from a URDF" in listed["urdf"]["refused"]
    assert "has no load" in listed["abb"]["refused"]
    assert not (folder / "exports").exists()
    assert "cannot be written" in call("export", folder)


def test_a_stale_model_is_reported_to_be(folder):
    campaign = folder / "campaign.toml"
    campaign.write_text(campaign.read_text().replace("20.0", "19.0"))
    told = json.loads(call("export", folder, "--format", "c", "--json"))
    assert "model.json is stale" in told["doubts"][0]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: path.unlink(), "is missing; run excitor identify"),
        (lambda path: path.write_text("{"), "is not JSON that excitor identify"),
        (lambda path: path.write_text("[]"), "has schema None"),
        (lambda path: path.write_text(path.read_text().replace('"parameters"', '"x"')), "is no whole model"),
        (lambda path: path.write_text(re.sub(r'"name": "\w+"', '"name": "XX9"', path.read_text())), "'XX9' is not one"),
        (
            lambda path: path.write_text(re.sub(r'"value": \S+,', '"value": "1",', path.read_text())),
            "expected a valid number",
        ),
    ],
)
def test_a_model_that_is_none_is_refused(folder, damage, sentence):
    damage(folder / "model.json")
    assert sentence in call("export", folder, "--format", "c", code=1)


def test_without_consistent_parameters_there_are_no_bodies(folder):
    data = json.loads((folder / "model.json").read_text())
    data["standard"] = {"status": "none", "reason": "the campaign asks for none"}
    (folder / "model.json").write_text(json.dumps(data))
    answer = call("export", folder, "--format", "mjcf", code=1)
    assert "holds no physically consistent model (the campaign asks for none)" in answer


def test_options_go_with_their_forms(folder):
    assert "--mjcf goes with --format mjcf" in call("export", folder, "--format", "c", "--mjcf", "x.xml", code=2)
    answer = call("export", folder, "--format", "mjcf", "--from-link", "elbow", code=2)
    assert re.search("--from-link goes with --format kuka or abb", re.sub(r"\s+", " ", answer))


def test_nothing_is_written_unless_all_can_be(folder):
    call("export", folder, "--format", "c", "--format", "kuka", code=1)
    assert not (folder / "exports").exists()
