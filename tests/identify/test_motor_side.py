"""Motors' side: doubtful current laws against draws of true ones, and losses of gears, found where they are."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify, write_model
from excitor.experiments.model import read_model
from excitor.experiments.payload import PayloadRuns, estimated
from excitor.identify.currents import gear_losses, law_doubt, law_sentence
from excitor.identify.estimate import compress, wls
from excitor.identify.intervals import believing, honest_intervals
from excitor.identify.load.equations import LoadRun, exact_arm
from excitor.identify.load.fit import at_center, center_values
from excitor.identify.log import CURRENT, MOTORS, POSITIONS
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples, Step
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.errors import InvalidRobot
from excitor.robots.friction import motor_torques
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.experiments.test_currents import CURRENTS, GAINS, robot_toml, write_campaign
from tests.identify.test_load import measured, with_known_drives, wrist_motion
from tests.intervals import white_intervals

DOUBT = 0.1  # of current laws
LOAD = from_center_of_mass(8.0, np.array([0.03, -0.02, 0.08]), np.diag([0.06, 0.05, 0.04]))


def doubtful_arm():
    robot = with_known_drives("ur10")
    law = np.outer(np.ones(6), [0.0, 1.0, 0.0, 0.0])
    return replace(robot, drive=replace(robot.drive, torque_from_current=law, current_sigma=np.full(6, DOUBT)))


def doubtful_motion():
    rng, t, w = np.random.default_rng(0), np.arange(0, 20, 0.05)[:, None], 2.0 * np.pi / 20 * np.arange(1, 7)
    a, b = 0.25 * rng.normal(size=(2, 6, 6))
    s, c = np.sin(t * w), np.cos(t * w)
    return Motion(s @ a + c @ b, (c * w) @ a - (s * w) @ b, -(s * w**2) @ a - (c * w**2) @ b)


arm = pytest.fixture(doubtful_arm, scope="module", name="arm")
motion = pytest.fixture(doubtful_motion, scope="module", name="motion")


def noise(tau, seed, rho=0.6, share=0.03):
    white = np.random.default_rng(seed).normal(size=tau.shape)
    return share * np.sqrt(np.mean(tau**2, axis=0)) * lfilter([np.sqrt(1 - rho**2)], [1, -rho], white, axis=0)


def fitted(arm, motion, tau, step):
    run = Samples("run", motion, tau, 20.0, steps=(Step(step, {}),), robot=arm)
    regression = dynamic_regression(arm, [run])
    return run, regression, wls(compress(regression))


def inside_of_draws(arm, motion, draws, intervals_of, rho=0.6):
    """Share of base parameters inside their intervals, true laws drawn from their deviation."""
    tau, true, inside = inverse_dynamics(arm, motion), base_parameters(arm).values(arm.chi), []
    for seed in range(draws):
        gains = 1.0 + DOUBT * np.random.default_rng(1000 + seed).normal(size=6)
        wrong = motor_torques(arm, tau) / gains @ arm.drive.motor_from_joint
        run, regression, estimate = fitted(arm, motion, wrong + noise(wrong, seed, rho), CURRENT)
        laws = law_doubt(arm, [run], regression, estimate, None)
        found = believing(intervals_of(regression, estimate, run), laws.covariance)
        inside.append((true >= found.low) & (true <= found.high))
    return np.array(inside)


def test_doubt_about_laws_covers_the_base_parameters(arm, motion):
    inside = inside_of_draws(arm, motion, 20, lambda _, estimate, run: white_intervals(estimate), rho=0.0)
    assert 0.9 <= inside.mean() <= 0.997


@pytest.mark.slow
def test_doubt_about_laws_covers_over_200_draws(arm, motion):
    inside = inside_of_draws(arm, motion, 200, lambda r, estimate, run: honest_intervals(r, estimate, [run]))
    assert 0.9 <= inside.mean() <= 0.997


def test_doubt_about_gears_covers_the_base_parameters(arm, motion):
    """Motors' positions and torques come through ratios that are off by 2 %: slower joints, larger torques."""
    drive = replace(arm.drive, current_sigma=None, ratio_sigma=np.full(6, 0.02))
    doubtful, inside, alone = replace(arm, drive=drive), [], []
    true, N = base_parameters(arm).values(arm.chi), arm.drive.motor_from_joint
    for seed in range(20):
        off = 1.0 + 0.02 * np.random.default_rng(2000 + seed).normal(size=6)
        turn = np.linalg.solve(N, off[:, None] * N).T  # what the stated ratios make of true positions
        tau = motor_torques(arm, inverse_dynamics(arm, motion)) / off @ N
        run = Samples("run", Motion(motion.q @ turn, motion.dq @ turn, motion.ddq @ turn), tau + noise(tau, seed, 0.0),
                      20.0, steps=(Step(MOTORS, {}), Step(POSITIONS, {})), robot=doubtful)  # fmt: skip
        regression = dynamic_regression(doubtful, [run])
        estimate = wls(compress(regression))
        gears = law_doubt(doubtful, [run], regression, estimate, None)
        white = white_intervals(estimate)
        for found, some in ((believing(white, gears.covariance), inside), (white, alone)):
            some.append((true >= found.low) & (true <= found.high))
    assert 0.9 <= np.mean(inside) <= 0.997
    assert np.mean(alone) < 0.8
    assert "the gears' ratios, known to 2 %" in law_sentence(gears.sigma, gears.what)


def test_doubt_about_gears_is_stated_in_the_robot_file(tmp_path):
    path = tmp_path / "arm.toml"
    path.write_text(robot_toml("rotradi") + "\n[drive]\nratios = [100, 100, 50]\nratio_sigma = [0.01, 0.01, 0.02]\n")
    np.testing.assert_array_equal(load(str(path)).drive.ratio_sigma, [0.01, 0.01, 0.02])
    path.write_text(robot_toml("rotradi") + "\n[drive]\nratio_sigma = 0.01\n")
    with pytest.raises(InvalidRobot, match="ratio_sigma: is of ratios"):
        load(str(path))


def test_no_doubt_where_no_current_was_measured(arm, motion):
    run, regression, estimate = fitted(arm, motion, inverse_dynamics(arm, motion), MOTORS)
    assert law_doubt(arm, [run], regression, estimate, None) is None


def claims(arm, motion, seed):
    """Whether losses are claimed in gears with and without."""
    for lost in (0.0, 1.0):
        R = 1.0 - lost * np.random.default_rng(seed).uniform(0.08, 0.14, 6)
        tau = measured(arm, motion, np.zeros(10), R)
        run, regression, estimate = fitted(arm, motion, tau + noise(tau, seed), MOTORS)
        finding = gear_losses(arm, [run], regression, estimate, None)
        yield "none found" not in finding.sentence
        if lost:
            best = min(finding.data, key=lambda name: finding.data[name][1])
            value, reach = finding.data[best]
            assert abs(value - 100.0 * (1.0 - R[arm.joint_names.index(best)])) < reach + 3.0


def test_losses_of_an_arm_are_found_where_they_are(arm, motion):
    assert list(claims(arm, motion, 0)) == [False, True]
    lossy = replace(arm, drive=replace(arm.drive, efficiency=np.full(6, 0.9)))
    run, regression, estimate = fitted(arm, motion, inverse_dynamics(arm, motion), MOTORS)
    assert gear_losses(lossy, [run], regression, estimate, None) is None  # it has a model of them


@pytest.mark.slow
def test_losses_of_an_arm_over_80_draws(arm, motion):
    found = np.array([list(claims(arm, motion, seed)) for seed in range(80)])
    assert found[:, 0].sum() <= 2
    assert found[:, 1].all()


def load_estimate(arm, seed, R, gains=1.0, step=MOTORS):
    runs = []
    for k, name in enumerate(("bare", "a", "b")):
        motion = wrist_motion(arm, seed=k)
        tau = measured(arm, motion, LOAD if k else 0.0 * LOAD, R) / gains
        white = np.random.default_rng([seed, k]).normal(size=tau.shape)
        runs.append(LoadRun(name, motion, tau + 0.3 * white, np.full(6, 0.3), loaded=k > 0))
    samples = {"a": Samples("a", runs[1].motion, runs[1].tau, 20.0, steps=(Step(step, {}),), robot=arm)}
    loaded = {run.run: run.loaded for run in runs}
    estimate = estimated(PayloadRuns(arm, tuple(runs), (), (), samples, loaded, {}, ()), exact_arm(arm))[1]
    center = at_center(estimate.values[:10], estimate.covariance[:10, :10])
    return any(name.startswith("R ") for name in estimate.names), center


def test_losses_under_a_load_are_found_where_they_are(arm):
    claimed, center = load_estimate(arm, 0, np.full(6, 0.89))
    assert claimed
    assert center.values[0] == pytest.approx(8.0, rel=0.005)
    assert not load_estimate(arm, 0, np.ones(6))[0]


@pytest.mark.slow
def test_losses_under_a_load_over_80_draws(arm):
    claimed, found, masses, inside = 0, 0, [], []
    for seed in range(80):
        claimed += load_estimate(arm, seed, np.ones(6))[0]
        one, center = load_estimate(arm, seed, 1.0 - np.random.default_rng(seed).uniform(0.08, 0.14, 6))
        found += one
        masses.append(abs(center.values[0] / 8.0 - 1.0))
        inside.append(np.abs(center.values - center_values(LOAD)) <= 1.96 * center.sigma)
    assert claimed <= 2
    assert found == 80
    assert np.median(masses) <= 0.003
    assert np.mean(inside, axis=0).min() >= 0.9


def load_is_inside(arm, seed):
    """Whether the interval of a load's mass holds the true one, true laws drawn from their deviation."""
    gains = 1.0 + DOUBT * np.random.default_rng(1000 + seed).normal(size=6)
    center = load_estimate(arm, seed, np.ones(6), gains, CURRENT)[1]
    return abs(center.values[0] - 8.0) <= 1.96 * center.sigma[0]


@pytest.mark.slow
def test_doubt_about_laws_covers_the_load(arm):
    assert 0.9 <= np.mean([load_is_inside(arm, seed) for seed in range(200)]) <= 0.997


def test_chain_from_currents_says_what_is_proportional_to_their_laws(tmp_path):
    """From a CSV of currents to model.json: true laws are 10 % off, and the parameters inside all the same."""
    write_campaign(tmp_path, CURRENTS)
    off = (GAINS * [1.1, 0.92, 1.05]).tolist()
    law = f"\n[drive]\ntorque_from_current = {off}\ntorque_from_current_sigma = {DOUBT}\n"
    (tmp_path / "arm.toml").write_text(robot_toml("rotradi") + law)
    found = identify(open_campaign(tmp_path))
    share = np.sqrt(np.diag(found.laws.covariance)) / found.intervals.sigma
    assert (share <= 1.0).all()
    assert np.median(share) > 0.7
    assert any("proportional to the current laws, known to 10 %" in one.sentence for one in found.findings)
    write_model(found)
    assert read_model(tmp_path).laws["sigma"] == [DOUBT] * 3
