"""Tracking with and without a model fed forward: reference, errors, the robots drawn, the report's section."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from excitor.experiments.campaign import open_campaign
from excitor.experiments.cli import app
from excitor.experiments.report.page import SECTIONS, rendered
from excitor.experiments.simulate import VirtualRobot, drawn_robot, simulated_robot
from excitor.experiments.tracking import (
    IDENTIFIED,
    LONGEST,
    PD,
    PRIOR,
    FittedModel,
    errors_of,
    path_distances,
    reference_of,
    torques,
    tracking_data,
)
from excitor.experiments.virtual.robot import QUIET, Settings, controller_of, draw_truth, truth_data
from excitor.identify.samples import Samples
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.parameters import layout, prior
from excitor.robots.robot import Motion, posture
from tests.campaigns import COLUMNS

STEP = 1e-3
RATE = 100.0
CAMPAIGN = f"""robot = "rotradi"
{COLUMNS}[processing]
lowpass_hz = 10.0
[[run]]
name = "first"
log = "first.csv"
[[run]]
name = "other"
log = "other.csv"
role = "validate"
"""


@pytest.fixture(scope="module")
def robot():
    return load("rotradi")


def waves(seed, seconds=10.0, rate=RATE):
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    q, dq, ddq = np.zeros((3, len(t), 3))
    for k in range(1, 5):
        w, (a, b) = 0.2 * np.pi * k, rng.uniform(-0.35, 0.35, size=(2, 3))
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q, dq, ddq = q + a * s + b * c, dq + w * (a * c - b * s), ddq - w * w * (a * s + b * c)
    return t, Motion(q, dq, ddq)


def fitted_to(robot, chi, spread=0.0):
    base = base_parameters(robot)
    names = tuple(layout(robot).names[k] for k in base.kept)
    values = base.values(chi)
    return FittedModel(robot, names, values, np.diag((spread * values) ** 2), None)


def write_campaign(folder, robot, more=""):
    for seed, name in enumerate(("first", "other")):
        t, motion = waves(seed, 20.0)
        tau = inverse_dynamics(robot, motion) + 0.1 * np.random.default_rng(seed).normal(size=motion.q.shape)
        table = np.column_stack([t, np.degrees(motion.q), tau])
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header="t,q1,q2,q3,c1,c2,c3", comments="")
    (folder / "campaign.toml").write_text(CAMPAIGN + more)
    return folder


def test_a_reference_begins_at_rest_and_is_one_smooth_motion():
    t, motion = waves(0)
    reference = reference_of("x", t, motion.q, STEP)
    found, lead = reference.motion, reference.lead
    assert not found.dq[0].any()
    # trapezoid against the stated derivatives: of order step squared
    assert np.abs(np.diff(found.q, axis=0) / STEP - 0.5 * (found.dq[1:] + found.dq[:-1])).max() < 1e-3
    smooth = np.diff(found.dq, axis=0) / STEP - 0.5 * (found.ddq[1:] + found.ddq[:-1])
    assert np.abs(np.delete(smooth, lead - 1, axis=0)).max() < 0.05, "but for the acceleration where the motion begins"
    judged = np.arange(0, len(found) - lead, 10)
    assert found.q[lead:][judged] == pytest.approx(motion.q[: len(judged)], abs=1e-9)
    assert reference.cut is None
    assert reference.seconds == pytest.approx(t[-1], abs=2 * STEP)


def test_a_long_process_is_cut_and_that_is_reported():
    t = np.arange(0.0, 100.0, 0.01)
    reference = reference_of("x", t, np.sin(t)[:, None], STEP)
    assert reference.cut == LONGEST
    assert reference.seconds == pytest.approx(LONGEST, abs=2 * STEP)


def test_being_late_on_a_path_is_no_error_of_the_path():
    angle = 2.0 * np.pi * np.arange(5000) / 5000
    circle = np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
    late = 1.001 * np.roll(circle, 50, axis=0)
    found = path_distances(late, circle)[50:-50]
    assert found == pytest.approx(1e-3, abs=1e-6), "chords lie within the circle by 2e-7"


def test_errors_are_those_put_in(robot):
    t, motion = waves(1)
    shift = np.array([1e-3, 0.0, 0.0])
    wave = 2e-3 * np.sin(2 * np.pi * t)[:, None] * np.array([0.0, 1.0, 0.0])
    found = errors_of(robot, motion.q, motion.q + shift + wave)
    assert found.rms == pytest.approx([1e-3, np.sqrt(2.0) * 1e-3, 0.0], rel=1e-2, abs=1e-12)
    assert found.varying == pytest.approx([0.0, np.sqrt(2.0) * 1e-3, 0.0], rel=1e-2, abs=1e-12)
    assert found.peak == pytest.approx([1e-3, 2e-3, 0.0], rel=1e-2, abs=1e-12)
    assert found.path_rms <= found.tool_rms


def test_without_a_model_gravity_is_held_by_the_error_alone(robot):
    """At rest kp (q_wanted - q) is gravity, but for what Coulomb friction carries."""
    truth = draw_truth(robot, 3, QUIET)
    pose = np.array([0.3, -0.4, 0.6])
    reference = reference_of("rest", np.arange(0.0, 4.0, 0.1), np.tile(pose, (40, 1)), STEP)
    nothing = np.zeros((len(reference.motion), 3))
    q = VirtualRobot(truth, robot).follow(reference.motion, nothing, prior(robot), STEP)
    controller = controller_of(truth, robot, reference.motion, nothing, STEP)
    links = truth.chi[: layout(robot).n_link_params].reshape(-1, 10)
    gravity = robot.mechanism.inverse_dynamics(posture(q[-1:]), links)
    dry = dry_friction(robot, truth.chi)
    held = controller.kp * (pose - q[-1])
    assert np.abs(gravity).max() > 1.2 * max(dry), "the pose is one in which gravity shows"
    assert (np.abs(held - gravity[0]) <= dry * 1.01 + 1e-6).all()


def test_the_model_that_is_the_robots_is_followed_best(robot, tmp_path):
    campaign = open_campaign(write_campaign(tmp_path, robot))
    _, motion = waves(4, 5.0)
    samples = Samples("other", motion, np.zeros_like(motion.q), RATE)
    true = draw_truth(robot, 5, Settings(links=0.3, friction=0.3)).chi[: len(layout(robot))]
    data = tracking_data(campaign, fitted_to(robot, true), [samples])
    rms = {found["feed_forward"]: np.array(found["rms"]) for found in data["controllers"]}
    assert data["refused"] is None
    assert set(rms) == {PD, PRIOR, IDENTIFIED}
    assert (rms[IDENTIFIED] < 0.5 * rms[PRIOR]).all()
    assert (rms[PRIOR] < rms[PD]).all()
    assert data["ratios"]["to_no_model"]["joints"] == pytest.approx((rms[IDENTIFIED] / rms[PD]).tolist())
    tool = {found["feed_forward"]: found["tool_rms_mm"] for found in data["controllers"]}
    assert tool[IDENTIFIED] < tool[PRIOR] < tool[PD]
    again = tracking_data(campaign, fitted_to(robot, true), [samples])
    assert again == data, "the same seed gives the same bits"


def test_what_is_fed_forward_is_of_the_commanded_motion(robot):
    t, motion = waves(2)
    reference = reference_of("x", t, motion.q, STEP)
    forward = torques(robot, reference, prior(robot))[reference.lead :: 10]
    n = len(forward) - 5  # ends of splines are less exact
    moving = np.abs(motion.dq[5:n]) > 0.05  # where signs of friction are not smoothed
    assert forward[5:n][moving] == pytest.approx(inverse_dynamics(robot, motion)[5:n][moving], abs=0.05)


def dry_friction(robot, chi):
    pairs = zip(robot.drive.friction, layout(robot).friction_columns, strict=True)
    return np.array([chi[k] for term, k in pairs if term.model == "coulomb"])


def test_drawn_robots_scatter_as_the_model_says(robot):
    base, chi = base_parameters(robot), prior(robot)
    beta = base.values(chi)
    body = replace(robot, chi=base.standard(beta), payload=None, declared_base=None)
    C = np.diag((0.03 * beta) ** 2 + 1e-12)
    drawn = [drawn_robot(body, beta, C, seed=seed).truth for seed in range(150)]
    found = np.array([base.values(one.chi[: len(chi)]) for one in drawn])
    ratio = found.std(axis=0) / np.sqrt(np.diag(C))
    # 150 draws tell a deviation to 6 %: four times that, over all parameters
    assert (np.abs(ratio[np.abs(beta) > 0.0] - 1.0) < 0.24).all()


def test_masses_that_no_robot_has_are_refused_in_a_sentence(robot, tmp_path):
    campaign = open_campaign(write_campaign(tmp_path, robot))
    _, motion = waves(4)
    samples = Samples("other", motion, np.zeros_like(motion.q), RATE)
    data = tracking_data(campaign, fitted_to(robot, -prior(robot)), [samples])
    assert "make no positive mass matrix" in data["refused"]
    assert "make no positive mass matrix" in str(rendered(SECTIONS["tracking"], {"tracking": data}))
    still = Samples("poses", posture(motion.q), np.zeros_like(motion.q), RATE, static=True)
    assert "no run moves" in tracking_data(campaign, fitted_to(robot, prior(robot)), [still])["refused"]


def test_the_simulated_robot_is_found_again_or_not_believed(robot, tmp_path):
    truth = draw_truth(robot, 9)
    data = truth_data(truth)
    (tmp_path / "truth.json").write_text(json.dumps(data))
    found = simulated_robot(tmp_path, robot)
    assert found is not None
    assert np.array_equal(found.truth.chi, truth.chi)
    data["parameters"][0]["value"] += 1.0
    (tmp_path / "truth.json").write_text(json.dumps(data))
    assert simulated_robot(tmp_path, robot) is None
    (tmp_path / "truth.json").write_text("{")
    assert simulated_robot(tmp_path, robot) is None


def test_a_robot_out_of_control_is_a_sentence(robot):
    free = replace(robot, limits=replace(robot.limits, torque=np.full(3, np.inf)))
    t, motion = waves(0, 0.5)
    reference = reference_of("x", t, motion.q, STEP)
    pushed = np.full(reference.motion.q.shape, 1e8)
    with pytest.raises(ExcitorError, match="got out of control"):
        VirtualRobot(draw_truth(free, 3, QUIET), free).follow(reference.motion, pushed, prior(robot), STEP)


def report(folder, *options):
    result = CliRunner().invoke(app, ["report", str(folder), "--json", *options])
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return json.loads(result.stdout), (folder / "report.html").read_text()


@pytest.mark.slow
def test_a_process_is_reported_without_being_requested_and_others_if_asked(robot, tmp_path):
    folder = write_campaign(tmp_path, robot)
    data, page = report(folder)
    assert data["tracking"] is None
    assert 'id="tracking"' not in page
    data, page = report(folder, "--tracking")
    assert data["tracking"]["motion"] == "run 'other'", "one that the model has not seen"
    t, motion = waves(8, 6.0)
    task = np.column_stack([t, np.degrees(motion.q)])
    head = ",".join(["t", *robot.joint_names])
    np.savetxt(folder / "weld <b>.csv", task, delimiter=",", header=head, comments="")
    more = '[design]\ncriterion = "path"\ntask = "weld <b>.csv"\n'
    (folder / "campaign.toml").write_text(CAMPAIGN + more)
    data, page = report(folder)
    assert data["tracking"]["motion"] == "task weld <b>.csv"
    assert data["tracking"]["seconds"] == pytest.approx(6.0, abs=0.1)
    assert 'id="tracking"' in page
    assert "weld &lt;b&gt;.csv" in page
    assert "weld <b>" not in page.split('<script type="application/json"')[0]
