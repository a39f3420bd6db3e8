"""Torque campaigns from files: designed, emitted with guards, run open loop, identified, simulated on new torques."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.design.motion import line_run
from excitor.design.programs.plan import Plan, Torques
from excitor.design.programs.verify import Judge
from excitor.design.schedule import RunPlan
from excitor.design.search import Budget
from excitor.design.torque import extreme_robots, held_torques, scaled, score, simulate_tube, trajectories
from excitor.experiments import emit, plan
from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.cli import app
from excitor.experiments.plan import torque_problem_of
from excitor.experiments.setup import set_up
from excitor.robots.belief import draw_robots
from excitor.robots.dynamics import mass_matrix
from excitor.robots.load import load
from excitor.robots.parameters import prior

HEAD = 'robot = "rotradi"\nhome_deg = [0, 0, 0]\n[noise]\ntorque = [0.5, 1.5, 0.15]\n[design]\nexcitation = "torque"\n'
SHORT = "seed = 3\nevaluations = 60\n[design.torque]\nduration_s = 1.0\nfade_s = 0.4\ncoast_s = 1.0\n"

RUN = RunPlan("excitation", "excitation", np.ones(3, dtype=bool), "identify", "")
REST = line_run(("base_joint", "shoulder", "elbow"), 0.1, np.zeros((1, 3)), ())


def call(*arguments, codes=(0,)):
    result = CliRunner().invoke(app, [str(x) for x in arguments], catch_exceptions=True)
    said = str(result.exception) if result.exception is not None else result.output
    assert result.exit_code in codes, said
    return said


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torque")
    (folder / "campaign.toml").write_text(HEAD + SHORT)
    return torque_problem_of(set_up(open_campaign(folder, "design")))


def test_robots_are_drawn_about_the_prior():
    robot = load("rotradi")
    chi = draw_robots(robot, 60, spread=0.1)
    stated = np.abs(prior(robot)) > 0.1
    off = chi[1:, stated] / prior(robot)[stated] - 1.0
    assert np.array_equal(chi[0], prior(robot))
    assert 0.03 < np.median(np.abs(off)) < 0.3
    assert all(np.linalg.eigvalsh(mass_matrix(robot, np.zeros((1, 3)), one)).min() > 0.0 for one in chi)


def test_rated_torques_are_used_to_the_stated_share(problem):
    assert problem.constraints.limits.torque == pytest.approx([15.0, 45.0, 4.5])


def test_a_tube_says_which_limit_a_robot_leaves(problem):
    waves = trajectories(problem, problem.decode(np.full((1, problem.n_design), 0.3)))[0]
    gentle = simulate_tube(problem, held_torques([scaled(waves, 0.2)])[0], spread=0.1, n_robots=30)
    assert not gentle.leaves
    assert (gentle.low <= gentle.high).all()
    tight = replace(problem.constraints.limits, velocity=0.5 * gentle.speed)
    limited = replace(problem, constraints=replace(problem.constraints, limits=tight))
    found = simulate_tube(limited, held_torques([scaled(waves, 0.2)])[0], spread=0.1, n_robots=30)
    assert "beyond its speed limit" in found.leaves
    assert found.joint in (0, 1, 2)


def test_searches_count_robots_that_the_prior_moves_further(problem):
    chosen = extreme_robots(problem, spread=0.1, n_robots=30)
    assert 1 <= len(chosen) <= 6
    tau = held_torques(trajectories(problem, problem.decode(np.full((1, problem.n_design), 0.3))))
    alone, together = score(problem, tau), score(replace(problem, others=chosen), tau)
    speeds = np.array([row.kind == "velocity" for row in problem.rows])
    assert (together.g >= alone.g - 1e-9).all()
    assert (together.g > alone.g + 1e-3)[:, speeds].any()
    # Sums over batches of other sizes round otherwise.
    assert together.g[:, ~speeds][:, -3:] == pytest.approx(alone.g[:, ~speeds][:, -3:], rel=1e-9)


def test_a_home_that_does_not_hang_is_refused_with_one_that_does(tmp_path):
    (tmp_path / "campaign.toml").write_text((HEAD + SHORT).replace("[0, 0, 0]", "[0, 90, 90]"))
    with pytest.raises(InvalidCampaign, match=re.escape("start where the arm hangs: home_deg = [0.0, -0.5, -1.3]")):
        torque_problem_of(set_up(open_campaign(tmp_path, "design")))
    (tmp_path / "campaign.toml").write_text((HEAD + SHORT).replace("[0, 0, 0]", "[0.0, -0.5, -1.3]"))
    assert torque_problem_of(set_up(open_campaign(tmp_path, "design"))).n_design == 21


@pytest.mark.parametrize(("given", "counted"), [(60, 60), (1000, 1000), (20_000, 1000), (100_000, 5000)])
def test_simulated_candidates_count_more_from_many_on(given, counted):
    assert plan._share(Budget(evaluations=given), replace(RUN, role="identify"), True).evaluations == counted
    assert plan._share(Budget(evaluations=given), replace(RUN, role="identify")).evaluations == given


def test_limits_that_nobody_states_are_refused_by_name(problem):
    nothing = np.zeros((2, 3))
    torques = Torques(nothing, 0.1, *np.ones((4, 3)), (np.zeros(3),) * 3, 200, 0.1, 0.2, unknown=("elbow (speed)",))
    made = Plan("cell", "push", "identify", problem.robot, REST, REST, torques=torques)
    said = emit.unlimited("ros2", [emit.CheckedPlan(made, Judge())])
    assert "nobody states a limit of elbow (speed)" in said
    assert "--allow unknown-limits" in said


@pytest.mark.slow
def test_the_chain_from_torques_to_the_open_loop(tmp_path, monkeypatch):
    folder = tmp_path / "arm"
    folder.mkdir()
    (folder / "campaign.toml").write_text(HEAD + "controller_sample_s = 0.0025\nseed = 3\nevaluations = 200\n")
    call("design", folder, codes=(0, 1))
    call("emit", folder, "--target", "ros2", "--allow", "no-go")
    page = (folder / "programs" / "ros2" / "README.md").read_text()
    assert "UNVERIFIED MOTION" in page
    manifest = json.loads((folder / "programs" / "csv" / "manifest.json").read_text())
    assert manifest["timing_class"] == "unverified motion"
    assert manifest["programs"][0]["torques"]["robots"] == emit.ROBOTS
    call("simulate", folder, "--target", "csv", "--seed", "1")
    call("identify", folder, codes=(0, 1))
    call("report", folder, codes=(0, 1))
    runs = {run["role"]: run for run in json.loads((folder / "report.json").read_text())["open_loop"]["runs"]}
    rms = np.array(runs["validation"]["rms"])  # degrees; the study of the five schemes: 143, 28, 153 / sqrt(4000)
    assert (rms <= np.array([143.0, 28.0, 153.0]) / np.sqrt(4000.0)).all()
    text = (folder / "campaign.toml").read_text()
    monkeypatch.setattr(emit, "prior_spread", lambda setup: 0.4)
    said = call("emit", folder, "--target", "csv", "--allow", "no-go", codes=(1,))
    assert "unverified motion, and no program of it is written" in said
    assert (folder / "campaign.toml").read_text() == text
