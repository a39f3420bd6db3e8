"""Drive gains from files: logs without a plan, what is refused, the robot file that holds them, and a campaign."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import excitor as ex
from benchmarks import methods
from excitor.design.criteria import GainModel
from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.gains import identify_gains, with_ripple
from excitor.experiments.init import begin
from excitor.experiments.plan import gain_criterion, planned_runs, run_problem
from excitor.experiments.setup import set_up
from excitor.experiments.status import status
from excitor.robots.base import random_motion


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Logs of a hexapod that this repository's dynamics did not make, without a plan; and the errors of its gains."""
    folder = tmp_path_factory.mktemp("gains") / "hexapod"
    return folder, methods.hexapod(folder, 0)


@pytest.fixture
def copied(logs, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(logs[0], folder)
    return folder


def edited(folder, *pairs):
    path = folder / "campaign.toml"
    text = path.read_text("utf-8")
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


def test_a_hexapods_gains_come_out_of_plain_logs(logs):
    _, found = logs
    assert np.abs(found.errors).max() < 1.0
    assert (np.abs(found.errors) <= 3.5 * found.sigma).all()
    assert found.sigma.max() < 0.5


def test_ripple_is_modelled_where_motors_turn_often_enough_to_tell_it():
    robot, sliding = ex.load_robot("ur10"), ex.load_robot(methods.HEXAPOD_FILE)  # geared by 101, and not at all
    q = np.sin(np.linspace(0.0, 2.0 * np.pi, 100)[:, None]) * [0.0, 0.05, 0.2, 1.0, 0.0, 0.0]  # 0, 1.6, 6.4, 32 turns
    moves = [SimpleNamespace(motion=ex.Motion(q, q, q))]
    more = with_ripple(robot, moves)
    added = more.drive.friction[len(robot.drive.friction) :]
    assert [term.parameter for term in added] == ["ripple sin 3", "ripple cos 3", "ripple sin 4", "ripple cos 4"]
    np.testing.assert_array_equal([term.senses for term in added], robot.drive.motor_from_joint[[2, 2, 3, 3]])
    assert with_ripple(more, moves).drive.friction == more.drive.friction, "the file's own is enough"
    far = [SimpleNamespace(motion=ex.Motion(100.0 * q, q, q))]
    assert with_ripple(sliding, far).drive.friction == sliding.drive.friction, "nothing turns"


@pytest.mark.parametrize("late", [0, 2])
def test_noise_is_not_taken_for_a_delay(copied, late):
    """Signals, a fifth of them noise, that are `late` samples of 4 ms behind their motion."""
    rng = np.random.default_rng(1)
    for path in copied.glob("*.csv"):
        table, head = np.loadtxt(path, delimiter=",", skiprows=1), path.read_text("utf-8").partition("\n")[0]
        signal = np.roll(table[:, 7:], late, axis=0)
        table[:, 7:] = signal + 0.2 * signal.std(axis=0) * rng.normal(size=signal.shape)
        np.savetxt(path, table, delimiter=",", header=head, comments="", fmt="%.9g")
    found = identify_gains(open_campaign(copied))
    assert found.read.delay == pytest.approx(0.004 * late, abs=0.0007)


def test_a_polynomial_law_of_currents_is_identified_with_its_terms(copied, logs):
    """Motors that lose torque at large currents: v = w + 0.002 w³ is what the torque is proportional to."""
    for path in copied.glob("*.csv"):
        table, head = np.loadtxt(path, delimiter=",", skiprows=1), path.read_text("utf-8").partition("\n")[0]
        v = w = table[:, 7:]
        for _ in range(30):
            w = w - (w + 0.002 * w**3 - v) / (1.0 + 0.006 * w**2)
        table[:, 7:] = w
        np.savetxt(path, table, delimiter=",", header=head, comments="", fmt="%.10g")
    edited(copied, ("[log]", "[gains]\npowers = [1, 3]\n[log]"))
    found = identify_gains(open_campaign(copied))
    assert len(found.answered) == 6
    for gain, plain in zip(found.answered, logs[1].errors, strict=True):
        first, third = gain.values
        assert third == pytest.approx(0.002 * first, abs=4.0 * gain.sigma[1])
        assert abs(third / gain.sigma[1]) > 4.0
        assert gain.relative_sigma < 0.005, plain


def test_the_verb_prints_one_json_object_whose_headline_is_the_pages(logs):
    folder, _ = logs
    said = CliRunner().invoke(app, ["gains", str(folder), "--json"])
    assert said.exit_code == 0, said.output
    data = json.loads(said.stdout)
    assert data["headline"].startswith("Gains differ from the believed ones by s1 ")
    assert [one["drive"] for one in data["drives"]] == [f"s{k}" for k in range(1, 7)]
    assert all(one["interval"][0] < one["factor"] < one["interval"][1] for one in data["drives"])
    assert data["gap"] > data["least_gap"]
    low = np.mean([one["least_squares"] / one["factor"] for one in data["drives"]])
    assert low < 0.999  # noisy signals bias least squares
    assert data["headline"] in (folder / "gains.html").read_text("utf-8")


@pytest.mark.slow
def test_later_campaigns_use_the_identified_law_with_its_deviation(copied, tmp_path):
    result = ex.Campaign(copied).gains().results["gains"]
    robot = ex.load_robot(copied / "gains.toml")
    assert robot.drive.torque_from_current[:, 1] == pytest.approx([gain.values[0] for gain in result.result.gains])
    assert robot.drive.current_sigma == pytest.approx([gain.relative_sigma for gain in result.result.gains], rel=0.01)
    campaign = ex.Campaign.begin(tmp_path / "later", str(copied / "gains.toml"))
    assert open_campaign(campaign.folder, "design").robot.drive.has_current_law


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ((("mass = 3.0\n", ""),), "payload.mass: is missing; state in kg"),
        ((("mass = 3.0", "mass = -3.0"),), "payload.mass: .*greater than 0"),
        ((("mass = 3.0", "mass = 3000.0"),), r"if in g, mass = 3$"),
        ((("[payload]\nmass = 3.0\npercent = 0.0\n", ""), ("loaded = false", "#"), ("loaded = true", "#")), "weigh"),
        pytest.param((("true", "later"), ("false", "true"), ("later", "false")), "exchanged", marks=pytest.mark.slow),
        ((("loaded = false", "loaded = true"),), r"every run carries the load.* loaded = false"),
        ((("loaded = false\n", ""), ("loaded = true\n", "")), r"every run carries the load.* loaded = false"),
        ((("loaded = true", "loaded = false"),), "no run carries a known load"),
        ((("[payload]", '[gains]\nknown = "all"\n[payload]'),), "states no center"),
    ],
)
def test_bad_input_is_a_sentence(copied, change, told):
    edited(copied, *change)
    with pytest.raises((InvalidCampaign, ex.ExcitorError), match=told):
        identify_gains(open_campaign(copied))


def test_one_run_alone_sets_no_scale(copied):
    text = (copied / "campaign.toml").read_text("utf-8")
    (copied / "campaign.toml").write_text("[[run]]".join(text.split("[[run]]")[:2]), "utf-8")
    with pytest.raises(InvalidCampaign, match="there is 1 run of motion"):
        identify_gains(open_campaign(copied))


@pytest.mark.slow
def test_runs_whose_drift_does_not_cancel_are_doubted(copied):
    text = (copied / "campaign.toml").read_text("utf-8")
    (copied / "campaign.toml").write_text("[[run]]".join(text.split("[[run]]")[:4]), "utf-8")
    result = identify_gains(open_campaign(copied))
    assert [finding.what for finding in result.findings] == ["order"]
    assert "bare, loaded, loaded" in str(result.findings[0])


@pytest.mark.slow
def test_runs_of_two_robots_disagree(copied, tmp_path):
    other = tmp_path / "other"
    methods.hexapod(other, 1, sliders=1.3 * methods.SLIDERS)
    shutil.copy(other / "loaded.csv", copied / "loaded.csv")
    result = identify_gains(open_campaign(copied))
    assert "runs disagree" in {finding.what for finding in result.findings}


def test_a_stale_file_of_gains_is_said(tmp_path):
    begin(tmp_path / "cell", "five-bar", "gains")
    (tmp_path / "cell/gains.json").write_text('{"provenance": {"sha256": {"campaign.toml": "0"}}}')
    stage = next(stage for stage in status(tmp_path / "cell") if stage.name == "gains.json")
    assert stage.state == "stale"
    assert "campaign.toml changed since" in stage.reason
    assert stage.remedy.startswith("excitor gains")


@pytest.mark.parametrize("name", ["tx40", "five-bar"])
def test_a_campaign_that_was_begun_can_be_planned_as_it_stands(tmp_path, name):
    begin(tmp_path / "cell", name, "gains")
    setup = set_up(open_campaign(tmp_path / "cell", "design"))
    plans, _ = planned_runs(setup)
    assert [plan.name for plan in plans] == ["bare", "loaded", "loaded again", "bare again"]
    model = run_problem(setup, plans[0], ()).model
    assert isinstance(model, GainModel)
    assert len(gain_criterion(model).chosen) == setup.robot.n_joints


@pytest.mark.slow
def test_a_designs_gradient_is_its_difference(tmp_path):
    begin(tmp_path / "cell", "tx40", "gains")
    setup = set_up(open_campaign(tmp_path / "cell", "design"))
    model = run_problem(setup, planned_runs(setup)[0][0], ()).model
    motion, rng = random_motion(setup.robot, 6), np.random.default_rng(0)
    W = model.observation(motion)
    half = rng.normal(size=(W.shape[1], 2))
    bar = half @ half.T
    by_ddq = model.gradient(motion, bar)[2]
    h, ddq = 1e-4, motion.ddq.copy()
    ddq[2, 1] += h
    moved = model.observation(type(motion)(motion.q, motion.dq, ddq))
    change = float(np.sum((moved.T @ moved - W.T @ W) * bar)) / h
    assert by_ddq[2, 1] == pytest.approx(change, rel=1e-2)


@pytest.mark.slow
def test_a_five_bars_campaign_answers_both_gains(tmp_path):
    case = methods.CASES["five_bar"]
    folder, expected = methods.designed(tmp_path / "cell", case)
    found = methods.draw(folder, case, 0)
    assert np.abs(found.errors).max() < 0.5
    assert (expected < 1.0).all()
    refused = CliRunner().invoke(app, ["identify", str(folder)])
    assert refused.exit_code == 1
    assert "excitor gains" in str(refused.exception)
