"""When torques act is found with the parameters, from logs of held torques and of drives that are late."""

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.methods import ROTRADI, timed
from excitor.experiments.campaign import InvalidCampaign, open_campaign
from excitor.experiments.identification import read_runs
from excitor.experiments.studies import rotradi
from excitor.identify.logs.timing import _apart, shifted, stated_timing


@pytest.fixture(scope="module")
def known():
    return rotradi.truth()


@pytest.fixture(scope="module")
def runs(known):
    done = rotradi.experiments(known, [0])
    return {case: done[0, case].identification for case in rotradi.CASES}


def folder_of(path, run, lines=""):
    table = np.column_stack([np.arange(len(run.q)) / rotradi.RATE, run.q, run.tau])
    np.savetxt(path / "a.csv", table, delimiter=",", header="t,q1,q2,q3,tau1,tau2,tau3", comments="", fmt="%.9g")
    (path / "campaign.toml").write_text(ROTRADI + lines)
    return open_campaign(path)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "samples"), [("ideal", 0.5), ("noisy", 0.5 + 0.9 / 0.9 + 0.1 / 0.9)])
def test_the_delay_is_found_and_applied(tmp_path, known, runs, case, samples):
    told: list[str] = []
    read = read_runs(folder_of(tmp_path, runs[case]), told.append)
    steps = {step.name: step.settings for step in read.training[0].steps}
    delay, sigma = (
        float(steps["time the torques"][f"{key}_s {known.robot.joint_names[0]}"]) for key in ("delay", "sigma")
    )
    assert abs(delay - samples / rotradi.RATE) < 4.0 * sigma < 5e-4
    assert any("later than recorded" in sentence for sentence in told)


def test_parameters_are_those_of_the_arm_with_nothing_stated(known, runs):
    theta, inside = timed(known, runs["noisy"])
    errors = rotradi.percent_errors(known, theta)
    assert np.median(errors) < 1.5
    assert errors[rotradi.MAIN].max() < 15.0
    assert inside.mean() > 0.85


def test_torques_on_time_are_left_alone(tmp_path, runs):
    run = runs["ideal"]
    tau = shifted(run.tau, rotradi.RATE, np.full(3, 0.5 / rotradi.RATE))
    read = read_runs(folder_of(tmp_path, replace(run, tau=tau)))
    assert all(step.name != "time the torques" for step in read.training[0].steps)


def test_stated_timing_wins(tmp_path, known, runs):
    read = read_runs(
        folder_of(tmp_path, runs["noisy"], '[processing]\ntorque_hold = "until next"\ntorque_delay_s = 0.002\n')
    )
    steps = {step.name: step.settings for step in read.training[0].steps}
    assert steps["time the torques"]["chosen_as"] == "stated in campaign.toml"
    timing = stated_timing(known.robot, [0.0, 0.001, 0.0], "none", 1.0, rotradi.RATE)
    np.testing.assert_allclose(timing.delay, [-0.00125, -0.00025, -0.00125])
    with pytest.raises(InvalidCampaign, match="give one of them"):
        folder_of(tmp_path, runs["noisy"], '[processing]\ntorque_hold = "none"\nphase = 0.5\n')
    with pytest.raises(Exception, match="torque_delay_s: 2 delays are given"):
        read_runs(folder_of(tmp_path, runs["noisy"], "[processing]\ntorque_delay_s = [0.0, 0.1]\n"))


def test_torque_rates_are_taken_apart_from_the_columns_in_little_memory():
    """As by an orthogonal basis of all weighted columns, which takes several times the memory of the equations."""
    rng, n, names = np.random.default_rng(0), 6000, tuple("abcdefgh")
    W, z, y, weight = rng.normal(size=(n, 8)), rng.normal(size=n), rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    joint = np.arange(n) % 6
    equations = SimpleNamespace(names=names, joint_names=tuple("123456"), joint=joint, W=W, y=y)
    tracemalloc.start()
    R, square = _apart(equations, names[1:], z, weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    Z = (weight * z)[:, None] * (joint[:, None] == np.arange(6))
    Q = np.linalg.qr(weight[:, None] * W[:, 1:])[0]
    apart = np.column_stack([Z, weight * y])
    apart -= Q @ (Q.T @ apart)
    np.testing.assert_allclose(R.T @ R, apart.T @ apart, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(square, np.sum(Z**2, axis=0))
    assert peak < 2.0 * W.nbytes
