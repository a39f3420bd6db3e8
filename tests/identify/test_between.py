"""Runs compared with each other: what differs is named, and nothing is found where there is nothing."""

import numpy as np
import pytest

from excitor.identify.between import changes, check_between
from excitor.identify.regression import Rows
from excitor.identify.samples import Samples
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.load import load
from excitor.robots.parameters import layout
from tests.campaigns import motion_of

ROBOT = load("rotradi")
MOTIONS = [motion_of(ROBOT, 10.0, seed)[1] for seed in range(3)]
TORQUES = [inverse_dynamics(ROBOT, motion) for motion in MOTIONS]


def runs_of(torques, seed, share=0.05):
    rng = np.random.default_rng(seed)
    return [
        Samples(f"run {k}", motion, tau + share * tau.std(axis=0) * rng.normal(size=tau.shape), 200.0, robot=ROBOT)
        for k, (motion, tau) in enumerate(zip(MOTIONS, torques, strict=False))
    ]


def test_runs_that_are_alike_are_not_told_apart():
    alarms = sum(bool(changes(ROBOT, runs_of(TORQUES, seed), Rows())) for seed in range(40))
    assert alarms == 0


@pytest.mark.parametrize("mass", [0.5, 1.0, -0.4])
def test_a_load_of_one_run_is_named_with_its_mass_and_centre(mass):
    params, center = layout(ROBOT), np.array([0.10, 0.02, -0.03])
    chi = ROBOT.chi.copy()
    last = params.link(params.n_links - 1)
    own = chi[last]
    own[9] += mass
    own[6:9] += mass * center
    own[:6] += mass * np.array([[0.0013, -0.002, 0.003], [0.0109, 0.0006, 0.0104]]).ravel()
    chi[last] = own
    loaded = [TORQUES[0], inverse_dynamics(ROBOT, MOTIONS[1], chi), TORQUES[2]]
    for seed in range(5):
        found = changes(ROBOT, runs_of(loaded, seed), Rows())[0]
        assert (found.run, found.kind) == ("run 1", "load")
        assert found.values[0] == pytest.approx(mass, rel=0.15)
    (finding, *_) = check_between(ROBOT, runs_of(loaded, 0), Rows())
    assert (finding.level, finding.what) == ("doubtful", "another load")
    assert "run 'run 1' carries" in finding.sentence
    assert ("kg more than the other runs" if mass > 0 else "kg less than the other runs") in finding.sentence


@pytest.mark.parametrize(
    ("kind", "joint", "change"),
    [
        ("offset", "base_joint", lambda tau, dq: tau + np.array([4.0, 0.0, 0.0])),
        ("gain", "shoulder", lambda tau, dq: tau * np.array([1.0, 1.2, 1.0])),
        ("friction", "elbow", lambda tau, dq: tau + np.array([0.0, 0.0, 1.0]) * np.sign(dq)),
    ],
)
def test_what_differs_at_a_joint_is_named(kind, joint, change):
    other = [TORQUES[0], change(TORQUES[1], MOTIONS[1].dq), TORQUES[2]]
    found = changes(ROBOT, runs_of(other, 0), Rows())[0]
    assert (found.run, found.kind, found.joint) == ("run 1", kind, joint)
    (finding, *_) = check_between(ROBOT, runs_of(other, 0), Rows())
    assert finding.level == ("note" if kind == "friction" else "doubtful")


def test_one_run_has_nothing_to_differ_from():
    assert changes(ROBOT, runs_of(TORQUES[:1], 0), Rows()) == []
