"""`excitor status`: what is missing, what is stale, and what to do next."""

import hashlib
import json

import pytest
from typer.testing import CliRunner

from excitor.experiments.cli import app
from excitor.experiments.status import advice, status, status_data

CAMPAIGN = """robot = "rotradi"
home_deg = [10, 20, 30]
[design]
schedule = "single"
harmonics = 3
ramp_s = 2.0
measured_periods = 2
controller_sample_s = 0.01
"""


def call(*arguments):
    result = CliRunner().invoke(app, [str(x) for x in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def states(folder):
    return {stage.name: stage.state for stage in status(folder)}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    return tmp_path


def test_stages_become_up_to_date_one_after_the_other(folder):
    assert set(states(folder).values()) == {"missing"}
    assert advice(status(folder)) == f"next: excitor design {folder}"
    call("design", folder, "--evaluations", "300", "--json")
    assert states(folder)["design.json"] == "up to date"
    assert "excitor emit" in advice(status(folder))
    call("emit", folder, "--target", "csv", "--json")
    assert states(folder)["programs/csv"] == "up to date"
    told = json.loads(call("status", folder, "--json"))
    assert told == status_data(status(folder))


def test_what_is_about_logs_leaves_the_design_as_it_is(folder):
    call("design", folder, "--evaluations", "300", "--json")
    call("emit", folder, "--target", "csv", "--json")
    (folder / "campaign.toml").write_text(CAMPAIGN + "[processing]\nlowpass_hz = 20.0\n")
    assert states(folder)["programs/csv"] == "up to date"
    (folder / "campaign.toml").write_text(CAMPAIGN.replace("harmonics = 3", "harmonics = 4"))
    found = states(folder)
    assert found["design.json"] == found["programs/csv"] == "stale"


def test_a_new_design_makes_programs_stale(folder):
    call("design", folder, "--evaluations", "300", "--json")
    call("emit", folder, "--target", "csv", "--json")
    call("design", folder, "--evaluations", "300", "--seed", "5", "--json")
    assert states(folder)["programs/csv"] == "stale"


@pytest.mark.parametrize("text", ["", "[]", '{"provenance": 3}', "[" * 100_000, '{"provenance": {"sha256": [1]}}'])
def test_files_of_strangers_are_unusable_not_a_crash(folder, text):
    (folder / "model.json").write_text(text)
    assert states(folder)["model.json"] == "unusable"


def test_a_model_is_stale_when_what_it_was_made_from_changed(folder):
    def made_from(**files):
        (folder / "model.json").write_text(json.dumps({"provenance": {"sha256": files}}))
        return states(folder)["model.json"]

    digest = hashlib.sha256(CAMPAIGN.encode()).hexdigest()
    assert made_from(**{"campaign.toml": digest}) == "up to date"
    assert made_from(**{"campaign.toml": "0" * 64}) == "stale"
    assert made_from(**{"../../../etc/hostname": digest}) == "stale"
