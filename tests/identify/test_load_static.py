"""A load from static poses: mass and centre of gravity, undetermined combinations, and an uncertain arm."""

import numpy as np
import pytest

from excitor.identify.load.equations import Arm
from excitor.identify.load.poses import Poses, poses_from_samples, static_load
from excitor.identify.samples import Samples
from excitor.robots.dynamics import rigid_torque
from excitor.robots.errors import RankDeficient
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.load_torques import carried_from_joints
from excitor.robots.parameters import layout
from excitor.robots.robot import posture

LOAD = from_center_of_mass(120.0, np.array([0.09, -0.03, 0.14]), np.diag([40.0, 9.0, 38.0]))
R = np.array([0.92, 0.92, 0.91, 0.87, 0.88, 0.90])
SIGMA = np.array([np.inf, 20.0, 15.0, 8.0, 8.0, 6.0])


@pytest.fixture(scope="module")
def robot():
    return load("kr150")


def poses(n=14, seed=0):
    q = np.random.default_rng(seed).uniform(-1.2, 1.2, size=(n, 6))
    q[:, 0] = 0.0
    return q


def both_ways(robot, q, phi, rng=None, chi=None):
    """The mean of a slow move up and one down: friction cancels, gears lose τ' / R one way and τ' R the other."""
    chi = (robot.chi if chi is None else chi).copy()
    chi[layout(robot).link(5)] += phi
    carried = rigid_torque(robot, posture(q), chi) @ carried_from_joints(robot).T
    tau = 0.5 * (carried / R + carried * R)
    if rng is not None:
        tau = tau + rng.normal(size=tau.shape) * np.where(np.isfinite(SIGMA), SIGMA, 0.0)
    return tau


def test_exact_poses_give_mass_and_center(robot):
    found = static_load(robot, [Poses(poses(), both_ways(robot, poses(), LOAD))], sigma=SIGMA, efficiency=R)
    assert found.mass == pytest.approx(120.0, rel=1e-9)
    np.testing.assert_allclose(found.center, [0.09, -0.03, 0.14], atol=1e-9)
    without = static_load(robot, [Poses(poses(), both_ways(robot, poses(), LOAD))], sigma=SIGMA)
    assert 0.001 < abs(without.mass - 120.0) / 120.0 < 0.05  # the square of what gears lose


def test_intervals_hold_the_truth(robot):
    rng, hits = np.random.default_rng(4), []
    for _ in range(100):
        found = static_load(robot, [Poses(poses(), both_ways(robot, poses(), LOAD, rng))], sigma=SIGMA, efficiency=R)
        hits.append(np.abs(np.append(found.mass, found.center) - [120.0, 0.09, -0.03, 0.14]) < 1.96 * found.sigma)
    assert 0.9 <= np.mean(hits) <= 0.995


def test_center_is_as_uncertain_as_it_scatters(robot):
    rng = np.random.default_rng(7)
    found = [
        static_load(robot, [Poses(poses(), both_ways(robot, poses(), LOAD, rng))], sigma=SIGMA, efficiency=R)
        for _ in range(150)
    ]
    scatter = np.std([np.append(x.mass, x.center) for x in found], axis=0)
    told = np.mean([x.sigma for x in found], axis=0)  # a little large: excess noise only ever counts upwards
    np.testing.assert_allclose(told, scatter, rtol=0.2)


def test_bare_poses_make_up_for_the_arm(robot):
    rng = np.random.default_rng(6)
    spread = 0.03 * np.abs(robot.chi)
    arm = Arm(robot.chi + spread * rng.normal(size=len(spread)), np.diag(spread**2))
    loaded = Poses(poses(), both_ways(robot, poses(), LOAD, rng))
    bare = Poses(poses(), both_ways(robot, poses(), 0.0 * LOAD, rng), loaded=False)
    alone = static_load(robot, [loaded], sigma=SIGMA, efficiency=R, arm=arm)
    both = static_load(robot, [bare, loaded], sigma=SIGMA, efficiency=R, arm=arm)
    assert both.sigma[0] < 0.5 * alone.sigma[0]
    assert abs(both.mass - 120.0) < 3.5 * both.sigma[0]
    assert abs(alone.mass - 120.0) < 3.5 * alone.sigma[0]


def test_what_poses_do_not_determine_is_reported(robot):
    """By the wrist's motors alone, a point mass at the wrist's centre weighs nothing."""
    q = poses()
    wrist = np.where(np.arange(6) < 3, np.inf, SIGMA)
    with pytest.raises(RankDeficient, match=r"these poses do not determine ML - 0.23 MZL"):
        static_load(robot, [Poses(q, both_ways(robot, q, LOAD))], sigma=wrist)


def test_samples_of_poses_are_taken_to_the_motors(robot):
    q = poses()
    tau = both_ways(robot, q, LOAD)
    joints = tau @ np.linalg.inv(carried_from_joints(robot)).T
    held = Samples("poses", posture(q), joints, 1.0, static=True)
    np.testing.assert_allclose(poses_from_samples(robot, held).tau, tau, atol=1e-9 * np.abs(tau).max())
    with pytest.raises(ValueError, match="no run of static poses"):
        poses_from_samples(robot, Samples("moving", posture(q), joints, 1.0))
    with pytest.raises(ValueError, match="no pose has the load on"):
        static_load(robot, [Poses(q, tau, loaded=False)], sigma=SIGMA)
