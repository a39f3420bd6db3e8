"""The load's Jacobian that a payload run is designed for is the one that its load is identified by."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.criteria import load_model
from excitor.identify.load.equations import LoadRun, equations, exact_arm, load_task, motor_torque
from excitor.robots.base import random_motion
from excitor.robots.friction import motor_torques
from excitor.robots.load import load
from excitor.robots.load_torques import carried_from_joints, driving_side, gear_losses, motor_speeds, own_ratios
from excitor.robots.parameters import prior


def lossy(name):
    robot = load(name)
    R = np.linspace(0.8, 0.95, robot.n_joints)
    return replace(robot, drive=replace(robot.drive, efficiency=R), payload=None)


@pytest.mark.parametrize("name", ["kr150", "tx40", "qrc350"])
def test_design_and_identification_have_one_jacobian(name):
    robot = lossy(name)
    n, link = robot.n_joints, robot.tool.link
    motion, moving = random_motion(robot, 60), np.ones(robot.n_joints, dtype=bool)
    moving[list(robot.locked)] = False
    model = load_model(robot, link, moving=moving)
    W = model.observation(motion)

    chi = prior(robot)
    phi = chi[10 * link : 10 * link + 10].copy()
    bare = chi.copy()
    bare[10 * link : 10 * link + 10] = 0.0
    run = LoadRun("loaded", motion, np.zeros((60, n)), np.ones(n))
    task = load_task(robot, [run], arm=exact_arm(robot, bare))
    system = equations(task, [run])
    theta = np.zeros(len(system.unknowns))
    theta[system.unknowns.load] = phi
    theta[system.unknowns.efficiency] = robot.drive.efficiency[moving]
    _, J = motor_torque(system, theta)
    np.testing.assert_allclose(W, J, rtol=1e-12, atol=1e-12 * np.abs(J).max())


@pytest.mark.parametrize("name", ["kr150", "tx40"])
def test_losses_are_those_of_the_transmission(name):
    robot = lossy(name)
    motion = random_motion(robot, 50)
    tau = np.random.default_rng(0).normal(size=motion.q.shape)
    carried = tau @ carried_from_joints(robot).T
    side = driving_side(carried, motor_speeds(robot, motion.dq))
    R = np.broadcast_to(robot.drive.efficiency, side.shape)
    gain, slope = gear_losses(carried, side, R)
    np.testing.assert_allclose(
        gain * carried, motor_torques(robot, tau, motion.dq) * own_ratios(robot), rtol=1e-12, atol=1e-12
    )
    h = 1e-6
    up, down = (gear_losses(carried, side, R + step)[0] * carried for step in (h, -h))
    np.testing.assert_allclose(slope, (up - down) / (2.0 * h), rtol=1e-7, atol=1e-9)
    assert set(np.unique(side)) == {-1.0, 1.0}


def test_nothing_is_lost_at_standstill():
    carried, R = np.array([3.0, -2.0]), np.array([0.5, 0.5])
    gain, slope = gear_losses(carried, driving_side(carried, np.zeros(2)), R)
    assert gain.tolist() == [1.0, 1.0]
    assert slope.tolist() == [0.0, 0.0]
