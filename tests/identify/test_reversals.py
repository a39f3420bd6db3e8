"""Where friction turns: found by its own velocity, with the time that servos take to settle."""

import numpy as np
import pytest

from excitor.identify.regression import Rows, dynamic_regression, near_reversals
from excitor.identify.samples import Samples
from excitor.identify.signals import block_means
from excitor.robots.load import load
from excitor.robots.robot import Motion

RATE = 100.0


@pytest.fixture(scope="module")
def robot():
    return load("tx40")


def waves(shift):
    """Joint 5 and joint 6 swing; the others move on."""
    t = np.arange(400) / RATE
    dq = np.ones((400, 6))
    dq[:, 4] = np.cos(2.0 * np.pi * 0.5 * t)
    dq[:, 5] = shift - dq[:, 4]
    return dq


def test_samples_about_a_reversal_are_marked(robot):
    near = near_reversals(robot, waves(3.0), RATE, within=0.05)
    turns = np.flatnonzero(np.diff(np.sign(waves(3.0)[:, 4])))
    expected = np.zeros(400, dtype=bool)
    for k in turns:
        expected[k - 5 : k + 7] = True
    np.testing.assert_array_equal(near[:, 4], expected)
    assert not near[:, :4].any()


def test_coupled_friction_turns_where_the_sum_of_speeds_does(robot):
    """Motor 6 turns with joints 5 and 6: its friction stands still here, whatever the joints do."""
    near = near_reversals(robot, waves(0.0), RATE, within=0.0)
    assert near[:, 4].all()
    assert near[:, 5].all()


def test_slow_friction_has_no_direction(robot):
    dq = waves(0.004)
    slow = np.full(6, 0.01)
    assert near_reversals(robot, dq, RATE, within=0.0, slow=slow)[:, 5].all()
    assert not near_reversals(robot, dq, RATE, within=0.0)[:, 5].all()


def test_equations_about_reversals_are_left_out(robot, simulate):
    run = simulate(robot, robot.chi, 2, n_samples=400)
    whole = dynamic_regression(robot, [run])
    cut = dynamic_regression(robot, [run], rows=Rows(settling=0.06))
    near = near_reversals(robot, run.motion.dq, RATE, within=0.06)
    assert len(cut) == len(whole) - np.count_nonzero(near)
    labels = set(zip(cut.sample.tolist(), cut.joint.tolist(), strict=True))
    assert not labels & set(zip(*(index.tolist() for index in np.nonzero(near)), strict=True))


def test_means_hold_no_sample_near_a_reversal(robot):
    dq = waves(3.0)
    run = Samples("means", Motion(np.zeros((400, 6)), dq, np.zeros((400, 6))), np.zeros((400, 6)), RATE)
    rows = Rows(lambda x: block_means(x, 8), settling=0.05, spoiled=0.0)
    found, near = dynamic_regression(robot, [run], rows=rows), near_reversals(robot, dq, RATE, within=0.05)
    spoiled = block_means(near.astype(float), 8) > 0.0
    assert 0.0 < spoiled.mean() < 0.5
    assert len(found) == np.count_nonzero(~spoiled)
    assert not spoiled[found.sample, found.joint].any()
