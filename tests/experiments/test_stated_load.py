"""A stated payload: weighed by torques, subtracted with its uncertainty, exported with and without, simulated."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.identification import UnusableData, identify
from excitor.experiments.logs import robot_of_run
from excitor.experiments.model import read_model
from excitor.experiments.setup import loaded
from excitor.experiments.simulate import SimulationOptions, carrying, true_robot
from excitor.experiments.virtual.robot import truth_data
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion
from tests.experiments.test_export import CAMPAIGN

RATE = 200.0
NOISE = np.array([0.5, 1.5, 0.15])
TOOL = "mass = 2.0\ncenter = [0.02, -0.01, 0.08]\ninertia = [0.01, 0, 0, 0.012, 0, 0.008]\n"


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(x) for x in arguments])
    assert (result.exit_code != 0) == bool(code), result.output
    return result.output + str(result.exception or "")


def cell(folder, on, percent=2.0):
    """Write a campaign that states the tool, and logs of an arm that carries it in the runs that are named in `on`."""
    folder.mkdir()
    text = CAMPAIGN.replace("[log]\n", f"[payload]\n{TOOL}percent = {percent}\n[log]\n")
    (folder / "campaign.toml").write_text(text)
    robot = load("rotradi")
    body = open_campaign(folder).content.payload
    for seed, name in enumerate(("first", "second")):
        rng = np.random.default_rng(seed)
        t = np.arange(int(20 * RATE)) / RATE
        q, dq, ddq = np.zeros((3, len(t), 3))
        for k in range(1, 7):
            w = 2 * np.pi * 0.1 * k
            a, b = rng.uniform(-0.35, 0.35, size=(2, 3))
            s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
            q, dq, ddq = q + a * s + b * c, dq + w * (a * c - b * s), ddq - w * w * (a * s + b * c)
        arm = loaded(robot, body) if name in on else robot
        tau = inverse_dynamics(arm, Motion(q, dq, ddq)) + rng.normal(size=q.shape) * NOISE
        table = np.column_stack([t, np.degrees(q), tau])
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header="t,q1,q2,q3,c1,c2,c3", comments="", fmt="%.6f")
    return folder


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    folder = cell(tmp_path_factory.mktemp("tool") / "cell", ("first", "second"))
    call("identify", folder, "--json")
    return folder


def test_the_model_is_of_the_arm_without_the_tool(identified):
    robot, model = load("rotradi"), read_model(identified)
    truth = base_parameters(robot).values(prior(robot))
    assert (np.abs(model.values - truth) <= 4.0 * model.sigma + 1e-9).all()
    assert model.error < 0.1
    (note,) = [finding for finding in model.findings if finding["what"] == "payload"]
    assert note["level"] == "note"
    assert "2 kg (1.92 to 2.08) is stated" in note["sentence"]
    assert "arm without it" in note["sentence"]
    assert model.load["runs"] == ["first", "second"]
    found = model.load["found"]
    assert abs(found["mass"] - 2.0) < 2.0 * found["sigma"]
    assert model.load["together"]["sigma"] <= 0.04
    assert any(step["step"] == "subtract the stated load" for step in model.processing)


def test_the_uncertainty_of_the_tool_is_in_the_intervals(identified):
    campaign = open_campaign(identified)
    exact = campaign.content.payload.model_copy(update={"percent": 0.0})
    content = campaign.content.model_copy(update={"payload": exact})
    sure, doubted = identify(replace(campaign, content=content)), identify(campaign)
    robot = load("rotradi")
    own = layout(robot).link(robot.tool.link)
    B = np.column_stack([base_parameters(robot).values(unit) for unit in np.eye(len(layout(robot)))[own]])
    C = B @ doubted.load.payload.covariance @ B.T
    assert doubted.intervals.covariance - sure.intervals.covariance == pytest.approx(
        C, abs=1e-12 + 1e-9 * np.abs(C).max()
    )
    assert not sure.load.payload.covariance.any()
    assert doubted.intervals.sigma.max() > 1.05 * sure.intervals.sigma.max() or (np.diag(C) > 0).any()


def test_a_log_without_a_program_that_contradicts_the_tool_is_refused(tmp_path):
    folder = cell(tmp_path / "cell", ("first", "second"))
    text = (folder / "campaign.toml").read_text().replace("mass = 2.0", "mass = 12.0")
    (folder / "campaign.toml").write_text(text)
    with pytest.raises(UnusableData, match=r"torques indicate .* kg at the flange, and 12 ± 0.47 kg are stated"):
        identify(open_campaign(folder))


def test_a_pair_of_runs_takes_the_uncertainty_out(tmp_path):
    campaign = open_campaign(cell(tmp_path / "pair", ("first",), percent=20.0))
    bare = {"loaded": False, "role": "identify"}
    runs = [campaign.content.run[0], campaign.content.run[1].model_copy(update=bare)]
    pair = identify(replace(campaign, content=campaign.content.model_copy(update={"run": runs})))
    alone = identify(replace(campaign, content=campaign.content.model_copy(update={"run": runs[:1]})))
    assert pair.load.runs == ("first",)
    robot = load("rotradi")
    truth = base_parameters(robot).values(prior(robot))
    assert (np.abs(pair.intervals.values - truth) <= 4.0 * pair.intervals.sigma + 1e-9).all()
    worst = int(np.argmax(alone.intervals.sigma / np.abs(truth).clip(1e-3)))
    assert pair.intervals.sigma[worst] < 0.8 * alone.intervals.sigma[worst]


def test_exports_are_without_the_tool_unless_it_is_asked_for(identified, tmp_path):
    folder = shutil.copytree(identified, tmp_path / "cell")
    without = call("export", folder, "--format", "py")
    assert "without the stated load of 2 kg; --with-tool adds it" in without
    assert (folder / "exports/model.py").read_bytes() == (folder / "model.py").read_bytes()
    assert "with the stated load of 2 kg" in call("export", folder, "--format", "py", "--format", "mjcf", "--with-tool")
    assert (folder / "exports/model.py").read_bytes() != (folder / "model.py").read_bytes()
    campaign, bare = open_campaign(folder), read_model(folder)
    with_tool, motion = bare.with_load(), random_motion(campaign.robot, 20)
    heavy = loaded(campaign.robot, campaign.content.payload)
    extra = inverse_dynamics(heavy, motion) - inverse_dynamics(campaign.robot, motion)
    for one in (replace(bare, standard=None), bare):
        more = one.with_load().torque(motion.q, motion.dq, motion.ddq) - one.torque(motion.q, motion.dq, motion.ddq)
        assert more == pytest.approx(extra, abs=1e-9 * np.abs(extra).max())
    assert (with_tool.sigma >= bare.sigma).all()


def test_a_model_without_a_stated_load_has_no_tool_to_add(identified, tmp_path):
    folder = shutil.copytree(identified, tmp_path / "cell")
    data = json.loads((folder / "model.json").read_text())
    del data["load"]
    (folder / "model.json").write_text(json.dumps(data))
    assert "no tool can be added; state [payload]" in call("export", folder, "--format", "py", "--with-tool", code=1)
    (folder / "model.json").write_text(json.dumps(data | {"load": {"link": "elbow", "phi": [1.0], "covariance": []}}))
    with pytest.raises(ExcitorError, match="has a damaged load"):
        read_model(folder).with_load()


def test_runs_say_whether_the_tool_was_on(tmp_path):
    folder = cell(tmp_path / "cell", ("first",))
    campaign = open_campaign(folder)
    run = campaign.content.run[0]
    assert robot_of_run(campaign, run).payload.phi[9] == 2.0
    assert robot_of_run(campaign, run.model_copy(update={"loaded": False})).payload is None
    text = (folder / "campaign.toml").read_text().replace('log = "first.csv"', 'log = "first.csv"\nloaded = true')
    (folder / "campaign.toml").write_text(text.replace(TOOL, "").replace("[payload]\npercent = 2.0\n", ""))
    with pytest.raises(InvalidCampaign, match=r"run\[1\].loaded: goes with \[payload\]"):
        open_campaign(folder)


def test_another_load_than_the_stated_one_can_be_simulated(tmp_path):
    campaign = open_campaign(cell(tmp_path / "cell", ()))
    robot = loaded(campaign.robot, campaign.content.payload)
    plan = SimpleNamespace(robot=robot, payload=2.0)
    with pytest.raises(ExcitorError, match="--payload: is nan kg, expected 0 to 100000"):
        true_robot(campaign, [plan], SimulationOptions(payload_kg=np.nan))
    heavy = true_robot(campaign, [plan], SimulationOptions(payload_kg=4.0))
    assert heavy.load == pytest.approx(2.0 * robot.payload.phi)
    assert carrying(heavy, plan) is heavy  # in the place of the stated one
    own = layout(robot).link(robot.tool.link)
    unstated = carrying(heavy, SimpleNamespace(robot=campaign.robot, payload=None))
    assert unstated.chi[own] - heavy.chi[own] == pytest.approx(heavy.load)
    assert json.loads(json.dumps(truth_data(heavy)))["load"][9] == pytest.approx(4.0)


def test_a_dead_channel_is_found_under_the_load(tmp_path):
    folder = cell(tmp_path / "cell", ("first", "second"))
    for name in ("first", "second"):
        rows = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
        rows[:, 5] = 0.0
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="t,q1,q2,q3,c1,c2,c3", comments="", fmt="%.6f")
    with pytest.raises(UnusableData, match="stays at 0 while the joint moves"):
        identify(open_campaign(folder))


@pytest.mark.slow
def test_load_matrix_of_one_robot(tmp_path):
    pytest.importorskip("coal")
    from benchmarks.strangers import LOADS, designed_with, wrong_answer

    folders = {stated: designed_with(tmp_path / str(stated), "tx40", stated) for stated in (0, 2)}
    assert {name: wrong_answer(folders[load[0]], "csv", 0, load) for name, load in LOADS.items()} == dict.fromkeys(
        LOADS, ""
    )
