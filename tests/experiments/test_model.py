"""model.json: written and read by one codec, handed out as a table, and predicting torques."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify, write_model
from excitor.experiments.model import read_model
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load, robot_text
from excitor.robots.robot import Motion


def neighbour(name):
    """Load another file of tests: what it builds and reads is used here too."""
    spec = importlib.util.spec_from_file_location(f"modelled_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


campaigns = neighbour("test_identify")


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    folder, robot = tmp_path_factory.mktemp("model"), load("rotradi")
    for k, name in enumerate(("first", "second")):
        t, motion = campaigns.motion_of(robot, 20.0, k)
        campaigns.write_log(folder / "logs" / f"{name}.csv", robot, t, motion, k)
    (folder / "campaign.toml").write_text(campaigns.CAMPAIGN)
    result = identify(open_campaign(folder))
    write_model(result)
    return result


@pytest.fixture(scope="module")
def path(identified):
    return identified.campaign.folder / "model.json"


def test_what_is_read_is_what_was_written(identified, path):
    model = read_model(path)
    assert model.to_json() == json.loads(path.read_text()) == identified.model.to_json()
    np.testing.assert_array_equal(model.values, identified.estimate.values)
    np.testing.assert_array_equal(model.sigma, identified.intervals.sigma)
    np.testing.assert_array_equal(model.covariance, identified.intervals.covariance)
    np.testing.assert_array_equal(model.consistent(), identified.consistent.chi)
    assert model.save(path.parent) == path
    assert read_model(path).to_json() == model.to_json()


def test_a_models_robot_is_the_file_that_the_campaign_beside_it_names(path, tmp_path):
    (tmp_path / "model.json").write_text(path.read_text().replace('"rotradi"', '"mine"'))
    with pytest.raises(ExcitorError, match=r"its robot, 'mine', is neither in the catalogue nor named by"):
        read_model(tmp_path / "model.json").own_robot()
    (tmp_path / "campaign.toml").write_text('robot = "mine.toml"\n')
    (tmp_path / "mine.toml").write_text(robot_text("rotradi").replace('name = "', 'name = "my ', 1))
    robot = read_model(tmp_path / "model.json").own_robot()
    assert robot.name.startswith("my ")
    assert robot.joint_names == load("rotradi").joint_names


def test_what_is_not_in_a_model_is_asked_for_in_a_sentence(path):
    model = read_model(path)
    np.testing.assert_array_equal(model.known_covariance(), model.covariance)
    with pytest.raises(ExcitorError, match="has no covariance, so its uncertainty is unknown; identify"):
        replace(model, covariance=None).known_covariance()
    np.testing.assert_array_equal(model.known_sigma(), model.sigma)
    with pytest.raises(ExcitorError, match="a parameter has no sigma; identify"):
        replace(model, sigma=np.where(np.arange(len(model.sigma)) == 1, np.nan, model.sigma)).known_sigma()


def test_a_file_of_an_older_version_is_read_as_it_is(path, tmp_path):
    data = json.loads(path.read_text())
    del data["fit"], data["standard"]["bodies"], data["standard"]["on_a_bound"]
    for entry in data["standard"]["parameters"]:
        del entry["sigma"], entry["share"]
    (tmp_path / "model.json").write_text(json.dumps(data))
    model = read_model(tmp_path / "model.json")
    assert model.fitted is None
    assert model.to_json() == data


def test_torques_are_those_of_the_consistent_model(identified, path):
    model, robot = read_model(path), identified.campaign.robot
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 7, robot.n_joints))
    expected = inverse_dynamics(robot, Motion(q, dq, ddq), identified.consistent.chi)
    np.testing.assert_allclose(model.torque(q, dq, ddq), expected, rtol=1e-12)
    np.testing.assert_allclose(model.torque(q[2], dq[2], ddq[2]), expected[2], rtol=1e-12)


def test_a_model_alone_takes_its_robot_from_the_catalogue_or_asks_for_it(path, tmp_path):
    alone = tmp_path / "model.json"
    alone.write_text(path.read_text())
    zero = np.zeros(3)
    np.testing.assert_array_equal(read_model(alone).torque(zero, zero, zero), read_model(path).torque(zero, zero, zero))
    alone.write_text(path.read_text().replace('"robot": "rotradi"', '"robot": "of our own"'))
    with pytest.raises(ExcitorError, match="'of our own', is neither in the catalogue nor named"):
        read_model(alone).torque(zero, zero, zero)
    assert read_model(alone, load("rotradi")).torque(zero, zero, zero).shape == (3,)
    with pytest.raises(ExcitorError, match=r"is not one of five-bar"):
        read_model(alone, load("five-bar")).consistent()


def test_one_line_names_the_figures_that_matter(identified, path):
    line = repr(read_model(path))
    assert line.startswith("Model(rotradi: ")
    assert f"{len(identified.estimate.names)} parameters by wls" in line
    assert f"held-out torque error {100 * identified.held_out.model.relative_total:.3g} %" in line
    assert "\n" not in line


def test_parameters_are_a_table(identified, path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = read_model(path).to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame) == ["name", "value", "std", "lower", "upper", "unit", "label", "regrouping"]
    np.testing.assert_array_equal(frame["lower"], identified.intervals.low)
    assert set(frame["label"]) <= {*identified.consistent.labels, ""}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"value": ', '"value": "x', r"is no whole model|is not JSON"),
        ('"weights": [', '"heavy": [', r"is no whole model: weights: is missing"),
        ('"sigma": ', '"sigma": -', r"parameters\[1\].sigma: is -\S+, expected greater than or equal to 0"),
        ('"covariance": [', '"covariance": [[1.0], ', r"its covariance is not \d+ x \d+, one row a parameter"),
    ],
)
def test_what_is_damaged_is_refused_in_a_sentence(path, tmp_path, old, new, sentence):
    text = path.read_text()
    assert old in text
    (tmp_path / "model.json").write_text(text.replace(old, new))
    with pytest.raises(ExcitorError, match=sentence):
        read_model(tmp_path / "model.json")
