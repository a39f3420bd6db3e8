"""Plants of studies that share the identification's dynamics, beside MuJoCo's, which do not."""

import numpy as np
import pytest

from benchmarks._loads import driven
from excitor.experiments.studies import tx40
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import motor_torques
from excitor.robots.load import load
from excitor.robots.parameters import layout

pytest.importorskip("mujoco")


def test_the_tx40s_torques_are_those_of_another_engine():
    """Random moves of the study, gears and friction written out; closed chains of both engines are in test_plants."""
    robot = load("tx40")
    params = layout(robot)
    chi = robot.chi.copy()
    for j in range(params.n_links):  # MuJoCo's bodies have a mass
        phi = chi[params.link(j)]
        if not phi[9] > 0.0:
            chi[params.link(j)] = [0.4, 0.0, 0.0, 0.35, 0.0, 0.3, 0.1, 0.05, -0.02, 4.0 - 0.5 * j]
    offsets = [term.model == "offset" for term in robot.drive.friction]
    chi[np.array(params.friction_columns)[offsets]] = 0.0
    motion = tx40.random_moves(np.random.default_rng(0), 2.0, 0)[::20]
    ours = motor_torques(robot, inverse_dynamics(robot, motion, chi))
    other = driven(robot, chi, np.ones(6), (motion.q, motion.dq, motion.ddq))
    np.testing.assert_allclose(ours, other, atol=1e-6 * np.abs(other).max())
