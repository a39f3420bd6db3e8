"""Public robot files through the command line: from a file of theirs to a report, with a tool, in a cell."""

import json

import pytest
from typer.testing import CliRunner

from benchmarks.strangers import CELL, CHAINS, TOOL
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.identification import identify, noise_share
from tests.meshes import GRIPPER, PANDA, UR5

pytestmark = pytest.mark.slow


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


@pytest.mark.parametrize(
    ("path", "target", "engine"),
    [(UR5, "ros2", "excitor"), (UR5, "urscript", "excitor"), (GRIPPER, "ros2", "mujoco"), (PANDA, "franka", "excitor")],
    ids=lambda value: getattr(value, "stem", value),
)
def test_a_public_file_becomes_a_model(path, target, engine, tmp_path):
    if not path.is_file():
        pytest.skip(f"{path} is not here; it is a public file that is not part of this repository")
    if engine == "mujoco":
        pytest.importorskip("mujoco", reason="the extra mujoco is not installed")
    assert target in CHAINS[path]
    folder = tmp_path / "cell"
    run("init", folder, "--robot", path)
    text = (folder / "campaign.toml").read_text()
    (folder / "campaign.toml").write_text(text.replace("[limits]", TOOL, 1) + CELL)
    assert "Go." in run("design", folder, "--evaluations", "600")
    run("emit", folder, "--target", target)
    run("verify", folder)
    run("simulate", folder, "--engine", engine)
    assert [log.name for log in (folder / "logs").iterdir()] == [target]  # and not the table beside its programs
    said = run("identify", folder)
    in_amperes = "no current law" in said
    assert in_amperes == (target == "urscript")
    assert "the model is of the arm with it" in said if in_amperes else "is stated on the tool" in said
    assert "Do not use" not in run("report", folder)
    assert json.loads((folder / "report.json").read_text())
    found = identify(open_campaign(folder))
    assert found.held_out.model.relative_total <= 1.15 * noise_share(found)
