"""Noise and information: what measurements will be worth."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.robots.base import base_parameters, lost_when_locked
from excitor.robots.dynamics import regressor
from excitor.robots.gram import stack
from excitor.robots.information import (
    Information,
    Noise,
    add,
    as_white,
    deviations,
    information,
    information_from_covariance,
    knowledge,
    noise_data,
    open_combinations,
    repeated,
    sigmas,
)
from excitor.robots.load import load
from excitor.robots.robot import Motion, posture

SIGMA = np.array([2.0, 1.5, 1.0, 0.5, 0.3, 0.2])


@pytest.fixture(scope="module")
def robot():
    return load("tx40")


def states(n_samples, seed=0, moving=range(6), n_joints=6):
    rng = np.random.default_rng(seed)
    q, dq, ddq = (rng.uniform(-2.0, 2.0, size=(n_samples, n_joints)) for _ in range(3))
    for i in set(range(n_joints)) - set(moving):
        q[:, i], dq[:, i], ddq[:, i] = 0.4, 0.0, 0.0
    return Motion(q, dq, ddq)


def weighted_matrix(robot, motion, weights):
    W = regressor(robot, motion)[:, :, base_parameters(robot).kept]
    return stack(W * weights[None, :, None])


def test_information_is_the_weighted_normal_matrix_and_inverts_as_pinv_does(robot):
    motion = states(300)
    noise = Noise(SIGMA, 100.0)
    got = information(robot, motion, noise, duration=3.0, repeats=5)
    W = weighted_matrix(robot, motion, np.sqrt(5.0) / SIGMA)
    np.testing.assert_allclose(got.matrix, W.T @ W, rtol=1e-10, atol=1e-10 * np.abs(got.matrix).max())
    inverse = np.linalg.pinv(W)
    known = knowledge(got)
    expected = inverse @ inverse.T
    np.testing.assert_allclose(known.covariance, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    assert known.unidentifiable == ()
    scaled = np.linalg.svd(W / np.linalg.norm(W, axis=0), compute_uv=False)
    assert known.condition == pytest.approx(scaled[0] / scaled[-1], rel=1e-8)


def test_the_grid_s_density_does_not_count_but_time_does(robot):
    """Twice the samples of the same motion say the same; twice the time, or rate, halves the variance."""
    motion = states(200)
    twice = Motion(*(np.repeat(x, 2, axis=0) for x in (motion.q, motion.dq, motion.ddq)))
    noise = Noise(SIGMA, 50.0)
    once = sigmas(knowledge(information(robot, motion, noise, duration=10.0)))
    np.testing.assert_allclose(sigmas(knowledge(information(robot, twice, noise, duration=10.0))), once, rtol=1e-8)
    for more in (
        information(robot, motion, noise, duration=40.0),
        information(robot, motion, noise, duration=10.0, repeats=4),
        information(robot, motion, Noise(SIGMA, 200.0), duration=10.0),
        information(robot, motion, Noise(SIGMA / 2.0, 50.0), duration=10.0),
        repeated(information(robot, motion, noise, duration=10.0), 4.0),
    ):
        np.testing.assert_allclose(sigmas(knowledge(more)), once / 2.0, rtol=1e-8)


def test_inflation_scales_sigma_and_by_joint_is_a_sandwich(robot):
    motion = states(300)
    inflation = np.array([1.0, 3.0, 1.0, 2.0, 1.0, 5.0])
    same = knowledge(information(robot, motion, Noise(SIGMA, 100.0, inflation=3.0), duration=3.0))
    np.testing.assert_allclose(sigmas(same, inflated=True), 3.0 * sigmas(same), rtol=1e-10)
    given = information(robot, motion, Noise(SIGMA, 100.0, inflation=inflation), duration=3.0)
    W = weighted_matrix(robot, motion, 1.0 / SIGMA)
    estimator = np.linalg.pinv(W)
    noisy = np.repeat(inflation, len(motion))  # each joint's white noise that much larger than its weight says
    expected = (estimator * noisy**2) @ estimator.T
    got = knowledge(given)
    np.testing.assert_allclose(sigmas(got, inflated=True), np.sqrt(np.diag(expected)), rtol=1e-7)
    honest = knowledge(as_white(given))
    np.testing.assert_allclose(honest.covariance, got.inflated, rtol=1e-5, atol=1e-8 * np.abs(got.inflated).max())


def test_slow_rows_are_left_out_as_identification_does(robot):
    motion = states(300)
    dead_zone = np.full(6, 0.7)
    got = information(robot, motion, Noise(SIGMA, 100.0, dead_zone=dead_zone), duration=3.0)
    W = regressor(robot, motion)[:, :, base_parameters(robot).kept] / SIGMA[:, None]
    W = W[np.abs(motion.dq) > dead_zone]
    np.testing.assert_allclose(got.matrix, W.T @ W, rtol=1e-9, atol=1e-12 * np.abs(got.matrix).max())


def test_locked_joints_leave_open_what_the_base_parameters_say(robot):
    """The numbers agree with the analysis of structure: what is lost when joints are held."""
    motion = states(400, moving=(2, 3, 4, 5))
    known = knowledge(information(robot, motion, Noise(SIGMA, 100.0), duration=4.0))
    assert set(known.unidentifiable) == set(lost_when_locked(robot, {0: 0.4, 1: 0.4}).lost)
    assert np.isinf(sigmas(known)).sum() == len(known.unidentifiable)
    assert known.condition == np.inf
    texts = open_combinations(known)
    assert "Fv1" in texts
    assert any(text in texts for text in ("ZZ4R - Ia4", "Ia4 - ZZ4R"))
    assert len(texts) == known.open_directions.shape[1] == 60 - len(base_parameters(robot, locked={0: 0.4, 1: 0.4}))


def test_a_combination_of_open_parameters_may_be_known(robot):
    motion = states(400, moving=(2, 3, 4, 5))
    known = knowledge(information(robot, motion, Noise(SIGMA, 100.0), duration=4.0))
    total = np.zeros((2, 60))
    total[0, [known.names.index("ZZ4R"), known.names.index("Ia4")]] = 1.0
    total[1, known.names.index("ZZ4R")] = 1.0
    together, alone = deviations(known, total)
    assert 0.0 < together < 1.0
    assert alone == np.inf


def test_a_robot_with_locked_joints_has_only_what_it_shows(robot):
    held = replace(robot, locked={0: 0.4, 1: 0.4})
    known = knowledge(information(held, states(400, moving=(2, 3, 4, 5)), Noise(SIGMA, 100.0), duration=4.0))
    assert known.unidentifiable == ()
    assert known.names == base_parameters(held).names


def test_no_reversal_is_a_combination_in_words(robot):
    motion = states(400)
    dq = np.array(motion.dq)
    dq[:, 2] = np.abs(dq[:, 2])
    known = knowledge(information(robot, Motion(motion.q, dq, motion.ddq), Noise(SIGMA, 100.0), duration=4.0))
    assert set(known.unidentifiable) == {"Fc3", "off3"}
    assert open_combinations(known) in (("Fc3 - off3",), ("off3 - Fc3",))


def test_poses_held_show_gravity_in_all_joints(robot):
    known = knowledge(information(robot, posture(states(100).q), Noise(SIGMA, 100.0), duration=100.0))
    determined = set(known.names) - set(known.unidentifiable)
    assert {"MX2R", "MY3R", "off1", "off6"} <= determined
    assert all(name[:2] in ("MX", "MY", "MZ", "of") for name in determined)


def test_what_was_known_before_adds(robot):
    noise = Noise(SIGMA, 100.0)
    first = information(robot, states(300, seed=1), noise, duration=3.0)
    second = information(robot, states(300, seed=2), noise, duration=3.0)
    before = knowledge(first)
    names = [name.removesuffix("R") for name in before.names]
    back = information_from_covariance(robot, names, before.covariance)
    np.testing.assert_allclose(back.matrix, first.matrix, rtol=1e-6, atol=1e-9 * np.abs(first.matrix).max())
    np.testing.assert_allclose(
        sigmas(knowledge(add([back, second]))), sigmas(knowledge(add([first, second]))), rtol=1e-7
    )
    part = information_from_covariance(robot, ["Fv1", "Fc1"], np.diag([0.04, 0.09]))
    known = knowledge(part)
    assert sigmas(known)[[known.names.index("Fv1"), known.names.index("Fc1")]] == pytest.approx([0.2, 0.3])
    assert len(known.unidentifiable) == 58


def test_noise_is_written_joint_by_joint():
    noise = Noise(SIGMA, 100.0, inflation=2.0, dead_zone=np.arange(6) / 10.0, source="model.json of Tuesday")
    data = noise_data(noise)
    assert data["inflation"] == [2.0] * 6
    assert noise_data(Noise(**data)) == data


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Noise(np.array([1.0, 0.0]), 10.0), r"Noise.sigma\[1\] is 0, expected a positive"),
        (lambda: Noise(np.ones(2), 0.0), "rate_hz is 0.0"),
        (lambda: Noise(np.ones(2), 10.0, inflation=0.5), r"inflation\[0\] is 0.5, expected 1"),
        (lambda: Noise(np.ones(2), 10.0, inflation=np.ones(3)), "shape"),
        (lambda: Noise(np.ones(2), 10.0, dead_zone=-1.0), "dead_zone"),
        (lambda: Noise(np.array([1.0, np.nan]), 10.0), "finite"),
        (lambda: add([]), "at least one run"),
        (lambda: Information(("a",), np.eye(2), np.eye(2)), "shape"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_does_not_fit_the_robot_is_refused(robot):
    noise, motion = Noise(SIGMA, 100.0), states(50)
    with pytest.raises(ValueError, match="duration is 0"):
        information(robot, motion, noise, duration=0.0)
    with pytest.raises(ValueError, match="noise is of 2 joints"):
        information(robot, motion, Noise(np.ones(2), 100.0), duration=1.0)
    held = information(replace(robot, locked={0: 0.4}), motion, noise, duration=1.0)
    free = information(robot, motion, noise, duration=1.0)
    with pytest.raises(ValueError, match="same joints locked"):
        add([free, held])
    with pytest.raises(ValueError, match="Fv99"):
        information_from_covariance(robot, ["Fv99"], np.eye(1))
    with pytest.raises(ValueError, match="named twice"):
        information_from_covariance(robot, ["ZZ1", "ZZ1R"], np.eye(2))
    with pytest.raises(ValueError, match="not positive definite"):
        information_from_covariance(robot, ["Fv1", "Fc1"], np.ones((2, 2)))
