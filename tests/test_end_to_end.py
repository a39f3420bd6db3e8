"""The whole chain on a virtual robot: design, emit, simulate, identify, report, each by its verb."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from excitor.experiments.cli import app

CAMPAIGN = """robot = "rotradi"
home_deg = [10, 20, 30]
[noise]
torque = [0.3, 0.3, 0.1]
[design]
harmonics = 3
ramp_s = 2.0
warm_up_periods = 1
measured_periods = 2
controller_sample_s = 0.01
"""


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(x) for x in arguments])
    if code:
        assert result.exit_code == code, result.output
        return str(result.exception) + result.output
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return result.stdout


pytestmark = pytest.mark.usefixtures("coarse_steps")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain") / "cell"
    folder.mkdir()
    (folder / "campaign.toml").write_text(CAMPAIGN)
    call("design", folder, "--evaluations", "600", "--json")
    call("emit", folder, "--target", "ros2", "--json")
    call("simulate", folder, "--target", "ros2", "--json")
    return folder


def test_a_model_comes_out_of_simulated_logs(folder):
    told = json.loads(call("identify", folder, "--json"))
    runs = {run["name"]: run for run in json.loads((folder / "programs/ros2/manifest.json").read_text())["programs"]}
    assert {"excitation", "validation"} <= set(runs)
    relative = [joint["relative"] for joint in told["held_out"]["joints"].values()]
    assert max(relative) < 0.25, "of motions it has not seen"
    assert any(name.startswith("logs/ros2/") for name in told["provenance"]["sha256"])
    assert "programs/ros2/manifest.json" in told["provenance"]["sha256"]
    filters = {(step["cutoff_hz"], step["chosen_as"]) for step in told["processing"] if "cutoff_hz" in step}
    assert filters == {(2.0, "4 times 0.3 Hz, the highest planned frequency, and at least 2 Hz")}


def test_the_report_reports_of_the_alignment(folder):
    call("report", folder, "--json")
    data = json.loads((folder / "report.json").read_text())
    whats = " ".join(entry["name"] for entry in data["alignment"])
    for word in ("start", "period", "tracking"):
        assert word in whats
    steps = [step for run in data["processing"]["runs"] for step in run["steps"]]
    assert any("highest planned frequency" in step["settings"].get("chosen_as", "") for step in steps)
    assert "4 times 0.3 Hz, the highest planned frequency" in (folder / "report.html").read_text()
    assert json.loads(call("status", folder, "--json"))["next"] == "everything is up to date"


@pytest.mark.slow
def test_a_flipped_sign_is_named_before_a_model_is_written(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "cell", ignore=shutil.ignore_patterns("logs", "model.*", "report.*"))
    call("simulate", copy, "--target", "ros2", "--fault", "flipped-sign:torque", "--json")
    answer = call("identify", copy, code=1)
    assert "sign" in answer
    assert not (copy / "model.json").exists()
