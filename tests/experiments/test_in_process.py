"""Models of processes as they are: what the motion does not show leaves, by default where joints stand still."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks._evidence import process_figures
from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.identification import UnusableData, identify
from excitor.experiments.studies.qrc350 import read_recordings, reduced
from excitor.robots.base import base_parameters, declared_names, declared_transform, lost_when_locked
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion
from tests.campaigns import CAMPAIGN, NOISE, motion_of, true_robot

QRC350_DATA = Path(__file__).parents[3] / "shared" / "data" / "qrc350"
DESIRED = """columns = { time = "ms", time_unit = "ms", signals = [
  { kind = "position", side = "joint", unit = "rad", columns = ["d1", "d2", "d3"] },
  { kind = "torque", side = "joint", unit = "N m", columns = ["c1", "c2", "c3"] } ] }
"""


def process(folder, *, dither=2e-5, text=CAMPAIGN):
    """Write logs of a robot whose second joint stands still, the second log with other columns than the first."""
    robot, rng = true_robot(), np.random.default_rng(0)
    (folder / "logs").mkdir()
    for k, name in enumerate(("first", "second")):
        t, motion = motion_of(robot, 40.0, k, base_hz=0.2)
        q, dq, ddq = (np.array(x) for x in (motion.q, motion.dq, motion.ddq))
        q[:, 1], dq[:, 1], ddq[:, 1] = 0.4, 0.0, 0.0
        tau = inverse_dynamics(robot, Motion(q, dq, ddq)) + rng.normal(size=q.shape) * NOISE
        tau[:, 1] += 20.0 * np.sign(np.sin(0.1 * t))  # what friction of a joint at rest does to it
        q[:, 1] += dither * rng.normal(size=len(t))
        table = np.column_stack([t, np.degrees(q), tau] if k == 0 else [1e3 * t, q, tau])
        head = "t,q1,q2,q3,c1,c2,c3" if k == 0 else "ms,d1,d2,d3,c1,c2,c3"
        np.savetxt(folder / "logs" / f"{name}.csv", table, delimiter=",", header=head, comments="", fmt="%.8f")
    (folder / "campaign.toml").write_text(text.replace('role = "validate"\n', f'role = "validate"\n{DESIRED}'))
    return folder


def test_joints_at_rest_leave_by_default_with_what_they_hide(tmp_path):
    done = CliRunner().invoke(app, ["identify", str(process(tmp_path)), "--json"])
    assert done.exit_code == 0, done.output
    model = json.loads(done.stdout)
    reduction = model["reduction"]
    assert (reduction["mode"], reduction["acceptance"]) == ("in-process", "validation")
    shown = lost_when_locked(load("rotradi"), {1: 0.4}).base
    assert len(reduction["hidden"]) == len(base_parameters(load("rotradi"))) - len(shown), "as of a locked joint"
    assert {"Fv2", "Fc2"} <= set(reduction["hidden"])
    names = {entry["name"] for entry in model["parameters"]}
    assert {"Fv1", "Fc1", "Fv3", "Fc3"} <= names, "friction that moves is never tried"
    assert not names & set(reduction["hidden"])
    assert list(model["held_out"]["joints"]) == ["base_joint", "elbow"], (
        "the torque of a joint at rest is that of its friction"
    )
    assert model["held_out"]["figures"]["held_out_relative_error"] < 0.1
    assert not model["standard"].get("parameters"), "parameters left: no bodies are delivered"
    assert any("joint shoulder does not move in any run" in finding["sentence"] for finding in model["findings"])


@pytest.mark.slow
def test_the_report_says_which_parameters_stayed_and_why(tmp_path):
    page = CliRunner().invoke(app, ["report", str(process(tmp_path))])
    assert page.exit_code == 0, page.output
    words = (tmp_path / "report.html").read_text()
    assert "The model is of a process as it is, not of the arm" in words
    assert "Never tried, as friction of joints that move" in words
    refused = CliRunner().invoke(app, ["compare", str(tmp_path)])
    assert "the mode is in-process" in str(refused.exception)


@pytest.mark.slow
def test_a_dead_channel_is_no_joint_at_rest_unless_it_is_stated(tmp_path):
    process(tmp_path, dither=0.0)
    with pytest.raises(UnusableData, match='write mode = "in-process" in'):
        identify(open_campaign(tmp_path))
    path = tmp_path / "campaign.toml"
    path.write_text(path.read_text() + '[identify]\nmode = "in-process"\nessential = []\n')
    assert identify(open_campaign(tmp_path)).reduction.rule.essential == ()
    path.write_text(path.read_text().replace("essential = []", 'essential = ["theta99"]'))
    with pytest.raises(Exception, match=r"identify.essential: no parameter is named 'theta99'"):
        identify(open_campaign(tmp_path))


def test_a_full_model_can_be_demanded(tmp_path):
    process(tmp_path, text=CAMPAIGN + '[identify]\nmode = "full"\n')
    with pytest.raises(UnusableData, match="joint shoulder does not move in any run"):
        identify(open_campaign(tmp_path))


def test_declared_sets_name_base_parameters():
    robot = load("qrc350")
    names = declared_names(robot)
    assert (names["YY1"], names["Fv6"], len(names)) == ("theta1", "theta35", 35)
    base, known = base_parameters(robot), robot.declared_base
    own = [known.names.index(names[layout(robot).names[column]]) for column in base.kept]
    np.testing.assert_allclose(declared_transform(robot, base)[own], np.eye(35), atol=1e-12)
    assert declared_names(load("ur10")) == {}


@pytest.mark.slow
def test_public_processes_through_a_campaign():
    if not QRC350_DATA.is_dir():
        pytest.skip(f"{QRC350_DATA} is not here; it holds public recordings that are not part of this repository")
    figures = {figure.name: figure for figure in process_figures(QRC350_DATA)}
    assert all(figure.holds for figure in figures.values()), {name: figure.ours for name, figure in figures.items()}
    study = reduced(read_recordings(QRC350_DATA), 1, "validation", preset=True)
    assert len(study.estimate.names) == 20
