"""Runs that repeat, that stand still, and that come averaged: each becomes the samples it should."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.identification import identify
from excitor.experiments.logs import read_run
from excitor.robots.dynamics import inverse_dynamics, rigid_torque
from excitor.robots.errors import InvalidLog
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import Motion, posture

DATA = Path(__file__).parents[3] / "shared" / "data" / "qrc350"
RATE = 200.0
NOISE = np.array([0.5, 1.5, 0.15])
HEAD = """robot = "rotradi"
[log]
time = "t"
[[log.signals]]
kind = "position"
side = "joint"
unit = "rad"
columns = ["q1", "q2", "q3"]
[[log.signals]]
kind = "torque"
side = "joint"
unit = "N m"
columns = ["c1", "c2", "c3"]
[processing]
lowpass_hz = 20.0
"""


def campaign_of(folder, run, q, tau):
    t = np.arange(len(q)) / RATE
    np.savetxt(
        folder / "log.csv",
        np.column_stack([t, q, tau]),
        delimiter=",",
        header="t,q1,q2,q3,c1,c2,c3",
        comments="",
        fmt="%.8f",
    )
    (folder / "campaign.toml").write_text(HEAD + f'[[run]]\nname = "run"\nlog = "log.csv"\n{run}\n')
    return open_campaign(folder)


def periodic(n, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n) / RATE
    q, dq, ddq = np.zeros((3, n, 3))
    for k in range(1, 6):
        w = 2 * np.pi * k / 4.0
        a, b = rng.uniform(-0.2, 0.2, size=(2, 3))
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q, dq, ddq = q + a * s + b * c, dq + w * (a * c - b * s), ddq - w * w * (a * s + b * c)
    return Motion(q, dq, ddq)


def test_planned_periods_are_averaged_and_differentiated_exactly(tmp_path):
    robot = load("rotradi")
    motion = periodic(int(4.0 * RATE) * 11)
    rng = np.random.default_rng(1)
    tau = inverse_dynamics(robot, motion) + rng.normal(size=motion.q.shape) * NOISE
    campaign = campaign_of(tmp_path, "period_s = 4.0\ndrop_periods = 1", motion.q, tau)
    samples = read_run(campaign, campaign.content.run[0])
    one = slice(0, int(4.0 * RATE))
    assert len(samples) == 800
    np.testing.assert_allclose(samples.motion.ddq, motion.ddq[one], atol=1e-4)  # the log has eight decimals
    assert np.sqrt(samples.variance.mean(axis=0)) == pytest.approx(NOISE, rel=0.05)
    clean = inverse_dynamics(robot, motion)[one]
    assert np.std(samples.tau - clean, axis=0) == pytest.approx(NOISE / np.sqrt(10), rel=0.1)
    assert samples.steps[-2].settings["repetitions"] == 10


def test_a_period_that_samples_do_not_fit_is_refused(tmp_path):
    motion = periodic(4000)
    campaign = campaign_of(tmp_path, "period_s = 4.0033", motion.q, motion.q)
    with pytest.raises(InvalidLog, match="not a whole number of samples at 200 Hz"):
        read_run(campaign, campaign.content.run[0])


def test_static_poses_come_out_free_of_stiction(tmp_path):
    robot = load("rotradi")
    poses = np.array([[0.0, 0.5, -0.6], [0.4, -0.3, 0.5], [-0.5, 0.9, 0.2]])
    path, sense = [poses[0] - 0.2], []
    for pose in poses:
        path += [pose - 0.2, pose, pose + 0.2, pose]
    q_parts, tau_parts = [], []
    for a, b in pairwise(path):
        s = np.linspace(0, 1, 200)[:, None]
        move = a + (b - a) * (10 * s**3 - 15 * s**4 + 6 * s**5)
        dwell = np.tile(b, (200, 1))
        q_parts.append(np.concatenate([move, dwell]))
        sense.append(np.sign(b - a))
        stiction = 0.6 * sense[-1] * prior(robot)[-3:]
        tau_parts.append(rigid_torque(robot, posture(q_parts[-1])) + stiction)
    campaign = campaign_of(tmp_path, "static = true", np.concatenate(q_parts), np.concatenate(tau_parts))
    samples = read_run(campaign, campaign.content.run[0])
    assert samples.static
    for pose in poses:
        k = int(np.argmin(np.linalg.norm(samples.motion.q - pose, axis=1)))
        gravity = rigid_torque(robot, posture(pose[None]))[0]
        np.testing.assert_allclose(samples.tau[k], gravity, atol=0.05)


def test_a_run_is_averaged_one_way_only(tmp_path):
    motion = periodic(800)
    with pytest.raises(InvalidCampaign, match="gives period_s and static; a run is one of them"):
        campaign_of(tmp_path, "period_s = 4.0\nstatic = true", motion.q, motion.q)


def test_a_campaign_needs_a_kind_of_log(tmp_path):
    (tmp_path / "campaign.toml").write_text(
        'robot = "rotradi"\n[processing]\nlowpass_hz = 20.0\n[[run]]\nname = "a"\nlog = "a.csv"\n'
    )
    with pytest.raises(InvalidCampaign, match="needs one of"):
        open_campaign(tmp_path)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the QRC 350 recordings are not at {DATA}")
def test_matlab_means_as_a_campaign(tmp_path):
    """Trajectory A identifies, C validates: joint-weighted least squares, as the study says (14.4 %)."""
    for name in ("trajectory_a.mat", "trajectory_c.mat"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    (tmp_path / "campaign.toml").write_text(
        """robot = "qrc350"
[matlab]
q = "q_meas.average_rect"
dq = "dq_meas.average_rect"
ddq = "ddq_meas.average_rect"
tau = "tau_meas.average"
time = "time_vec_save"
variance = "tau_meas.variance"
[processing]
lowpass_hz = 15.0
dead_zone_percent = 0.0
[[run]]
name = "A"
log = "trajectory_a.mat"
[[run]]
name = "C"
log = "trajectory_c.mat"
role = "validate"
"""
    )
    result = identify(open_campaign(tmp_path))
    assert len(result.estimate.names) == 35
    assert 100 * result.held_out.model.mean_absolute_mean == pytest.approx(14.4, abs=0.2)
    assert result.consistent is not None
