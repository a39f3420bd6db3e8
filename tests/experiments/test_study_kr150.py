"""The load study: its plant against the library's own dynamics, its recipe, and its figures."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from excitor.experiments.studies import find, kr150
from excitor.experiments.studies.kr150 import Body, coupling, currents, motor_torques, newton_euler
from excitor.identify.load.equations import LoadRun, exact_arm, load_task
from excitor.identify.load.fit import identify_load
from excitor.robots.dynamics import rigid_torque
from excitor.robots.load import load
from excitor.robots.load_torques import own_ratios
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion


@pytest.fixture(scope="module")
def printed():
    return kr150.printed_values("kr150")


@pytest.fixture(scope="module")
def robot():
    return load("kr150")


@pytest.fixture(scope="module")
def body(printed):
    return kr150.load_body(printed["table2"]["exact"])


def plain():
    """Motors without what the model leaves out."""
    return replace(kr150.TRUE_MOTORS, ripple=np.zeros(6), stribeck=0.0)


def test_plant_agrees_with_the_library(robot, body):
    """Two recursions written apart: bodies by centres of gravity here, at link frames there."""
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, 20, 6))
    chi = np.zeros(len(layout(robot)))
    for j, link in enumerate((*kr150.TRUE_LINKS, body)):
        chi[layout(robot).link(j)] = kr150.parameters(link)
    ours = newton_euler((*kr150.TRUE_LINKS, body), q, dq, ddq)
    theirs = rigid_torque(robot, Motion(q, dq, ddq), chi)
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())


def test_coupling_and_ratios_are_the_catalogues(robot, printed):
    V = coupling(**printed["coupling"])
    ratios = kr150.RATIO[:, None]
    np.testing.assert_allclose(robot.drive.motor_from_joint, ratios * np.linalg.inv(V), atol=1e-9)
    np.testing.assert_allclose(own_ratios(robot), kr150.RATIO)


def test_printed_load_is_a_body_about_its_center(body):
    moments = np.linalg.eigvalsh(body.tensor)
    np.testing.assert_allclose(moments, [4.88, 36.74, 40.27], atol=5e-3)
    assert moments[0] + moments[1] > moments[2]


def test_printed_motion_asks_for_the_known_speeds_and_torques(printed, body):
    """Peaks and rms values that a reference implementation of the same robot gives; it has other coupling signs."""
    motion = kr150.evaluate(kr150.table1(printed), 36.96, 1540)
    np.testing.assert_allclose(np.abs(motion[1]).max(axis=0)[2:], [0.37, 1.67, 0.82, 4.27], atol=6e-3)
    np.testing.assert_allclose(np.abs(motion[2]).max(axis=0)[2:], [1.58, 4.36, 2.22, 10.25], atol=6e-3)
    tau = motor_torques((*kr150.TRUE_LINKS, body), plain(), coupling(**printed["coupling"]), motion)
    np.testing.assert_allclose(np.sqrt(np.mean(tau**2, axis=0))[2:], [2895, 418, 351, 402], rtol=0.02)
    np.testing.assert_allclose(np.abs(tau).max(axis=0)[2:], [4834, 1117, 948, 897], rtol=0.04)


def test_currents_invert_the_polynomial(robot):
    tau = np.linspace(-4800, 4800, 101)[:, None] * np.array([1, 1, 1, 0.22, 0.22, 0.18])
    law = robot.drive.torque_from_current
    current = currents(plain(), tau)
    size = np.abs(current)
    back = np.sign(current) * (law[:, 1] * size + law[:, 2] * size**2 + law[:, 3] * size**3) * own_ratios(robot)
    np.testing.assert_allclose(back, tau, atol=1e-6)


def test_noise_free_torques_of_the_plant_give_its_truth(robot, printed, body):
    """Nothing hidden, nothing noisy: every number of the load, of friction and of the gears comes back."""
    motion = kr150.evaluate(kr150.table1(printed), 36.96, 385)
    motors = plain()
    tau = motor_torques((*kr150.TRUE_LINKS, body), motors, coupling(**printed["coupling"]), motion)
    run = LoadRun("exact", Motion(*motion), tau, np.ones(6))
    arm = exact_arm(robot, kr150.arm_of(robot, kr150.true_prior()).chi)
    estimate = identify_load(load_task(robot, [run], arm=arm), [run])
    exact = np.array(printed["table2"]["exact"])
    np.testing.assert_allclose(estimate.load.values * kr150.PRINTED_UNITS, exact, atol=1e-6)
    np.testing.assert_allclose(estimate.efficiency[2:], motors.efficiency[2:], atol=1e-9)
    for axis in kr150.MOVED:
        assert estimate.value(f"Fv{axis + 1}") == pytest.approx(motors.viscous[axis], rel=1e-6)
        assert estimate.value(f"Fc{axis + 1}") == pytest.approx(motors.coulomb[axis], rel=1e-6)


def test_a_priori_arm_is_off_as_much_as_it_says(robot):
    """Deviations of 200 drawn arms, whitened by the covariance that goes with them."""
    true = kr150.arm_of(robot, kr150.true_prior())
    sigma = np.sqrt(np.diag(true.covariance))
    used = sigma > 0.0
    z = [(kr150.arm_of(robot, kr150.draw_prior(k)).chi - true.chi)[used] / sigma[used] for k in range(200)]
    assert np.std(z, axis=0) == pytest.approx(1.0, abs=0.2)  # of 200 draws, 5 % and a little curvature


def test_one_draw_ranks_the_approaches_as_published(robot, printed):
    arm = kr150.arm_of(robot, kr150.draw_prior(0))
    done = kr150.experiments(robot, printed, seed=0, count=6)
    outcome = {name: kr150.outcome(robot, printed, done, arm, name) for name in ("1", "2", "3")}
    error = {name: np.abs(o.error).mean(axis=0) for name, o in outcome.items()}
    assert error["1"][0] > 4.0 * error["3"][0]  # the mass
    assert error["2"][6] > 2.0 * error["3"][6]  # Izz, where losses tell
    assert np.abs(outcome["3"].efficiency_error).max() < 0.015
    assert (outcome["1"].rms.mean(axis=0) < 1.02 * outcome["2"].rms.mean(axis=0)).all()
    assert (outcome["3"].rms.mean(axis=0) < outcome["2"].rms.mean(axis=0)).all()
    floor = [57, 26, 26, 22]  # noise and ripple, which no model here explains
    np.testing.assert_allclose(outcome["3"].rms.mean(axis=0), floor, rtol=0.05)


def test_friction_that_hides_losses_grows(robot, printed, body):
    """Without efficiencies, what gears lose reappears as Coulomb friction, as a reference implementation has it."""
    motors, rng = kr150.TRUE_MOTORS, np.random.default_rng(0)
    recording = kr150.record(printed, kr150.table1(printed), motors, body, rng)
    runs = [kr150.processed(robot, recording)]
    arm = kr150.arm_of(robot, kr150.true_prior())
    estimate = identify_load(load_task(robot, runs, arm=arm, efficiency=np.ones(6)), runs)
    ratio = [estimate.value(f"Fc{axis + 1}") / motors.coulomb[axis] for axis in kr150.MOVED]
    np.testing.assert_allclose(ratio, [2.5, 1.6, 1.5, 1.9], rtol=0.1)  # theirs is a mean over fourteen motions


def test_rank_is_reported_in_words(robot, printed):
    context = {}
    figures = {figure.name: figure for figure in kr150.rank_figures(robot, printed, context)}
    assert figures["kr150.rank_wrist_only"].ours == 18
    assert figures["kr150.rank_wrist_only"].unit == "of 19"
    assert figures["kr150.rank_axes_3_to_6"].ours == 22
    assert "a point mass at (0.000, 0.000, -0.230) m" in context["rank_wrist_only"]


def test_study_is_registered_and_prints_table_2(printed):
    assert find("kr150-load") is kr150
    table = printed["table2"]
    assert table["exact"][0] == 125.46
    assert [len(table[f"approach{k}"]) for k in (1, 2, 3)] == [10, 10, 10]
    text = Path(kr150.__file__).with_name("printed") / "kr150.toml"
    assert tomllib.loads(text.read_text("utf-8"))["table3"]["approach1"] == [84, 48, 41, 38]


def test_a_rod_is_a_body_and_joined_bodies_weigh_both(body):
    assert (np.linalg.eigvalsh(kr150.THIN.tensor) > 0.0).all()
    both = kr150.joined(body, kr150.FLANGE)
    assert both.mass == pytest.approx(131.46)
    np.testing.assert_allclose(
        both.mass * both.center, body.mass * body.center + kr150.FLANGE.mass * kr150.FLANGE.center
    )
    assert isinstance(both, Body)


@pytest.mark.slow
def test_all_targets_hold(tmp_path):
    report = kr150.run(None, tmp_path / "plots")
    missed = {figure.name: figure.ours for figure in report.figures if figure.holds is False}
    assert not missed
    assert all(Path(path).is_file() for path in report.context["plots"])
    assert 88.0 <= report.context["coverage_percent"]["learned"] <= 99.0
