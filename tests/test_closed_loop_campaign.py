"""A closed chain goes through every verb like any robot: design, emit, verify, simulate, identify, report."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.chain import aligned, truth_of
from excitor.experiments.cli import app

SETTINGS = """
harmonics = 3
base_frequency_hz = 0.2
ramp_s = 2.0
warm_up_periods = 1
measured_periods = 3
controller_sample_s = 0.01
"""
LEFT_OUT = ("harmonics", "base_frequency_hz", "ramp_s", "warm_up_periods", "measured_periods", "controller_sample_s")
WORST = 34.8  # of chi-square with 15 parameters: 0.3 % of campaigns are worse by chance


def call(*arguments):
    result = CliRunner().invoke(app, [str(x) for x in arguments])
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed") / "cell"
    call("init", folder, "--robot", "five-bar-vertical")
    file = folder / "campaign.toml"
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith(LEFT_OUT)]
    file.write_text("\n".join(lines).replace("[design]", "[design]" + SETTINGS), "utf-8")
    call("design", folder, "--evaluations", "150", "--json")
    return folder


def certificate(folder):
    runs = json.loads((folder / "design.json").read_text("utf-8"))["runs"]
    assert all(run["ready"] for run in runs)
    return [{item["name"]: item for item in run["certificate"]} for run in runs]


@pytest.mark.slow
def test_designs_are_certified_singularities_and_ways_included(folder):
    for rows in certificate(folder):
        kinds = [name for name in rows if name.startswith("singularity")]
        assert len(kinds) == 3
        assert {"way from home: singularity", "way back: clearance", "dry run: torque peak"} <= set(rows)
        assert any(name.startswith("clearance") for name in rows)
        assert all(np.isfinite(row["worst"]) for row in rows.values())
        assert all(rows[name]["worst"] >= 0.15 for name in kinds)


@pytest.mark.slow
def test_logs_of_the_virtual_robot_become_a_model_that_reports_the_truth(folder):
    call("emit", folder, "--target", "csv", "--target", "ros2", "--allow", "no-go", "--json")
    programs = json.loads(call("verify", folder, "--json").stdout)
    assert programs
    call("simulate", folder, "--target", "ros2", "--json")
    simulated = json.loads(next((folder / "logs").rglob("simulated.json")).read_text("utf-8"))
    told = call("identify", folder, "--json")
    assert "closed loops" in told.stderr, "no code is written, and that is said"
    assert not (folder / "model.c").exists()
    model = json.loads((folder / "model.json").read_text("utf-8"))
    assert len(model["parameters"]) == 15, "11 of the links and rotors, 4 of friction"
    assert model["standard"]["status"] != "none"
    truth = aligned(truth_of(simulated, "identify"), [p["name"] for p in model["parameters"]])
    error = np.array([p["value"] for p in model["parameters"]]) - truth
    assert error @ np.linalg.solve(np.array(model["covariance"]), error) < WORST
    call("report", folder, "--json")
    report = json.loads((folder / "report.json").read_text("utf-8"))
    assert len(report["bodies"]["links"]) == 5
    assert json.loads(call("status", folder, "--json").stdout)["next"] == "everything is up to date"
