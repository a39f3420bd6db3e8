"""A small arm's cell with every kind of constraint, for the tests of the search."""

import numpy as np
import pytest

from excitor.design.constraints.constraints import Constraints
from excitor.design.criteria import Criterion, DynamicModel
from excitor.design.motion import Excitation
from excitor.design.problem import build_problem
from excitor.robots.base import base_parameters
from excitor.robots.cell import Scene, Shape, Zone
from excitor.robots.inertia import translation
from excitor.robots.load import load
from excitor.robots.robot import Limits


def make_problem(name="tx40", *, scene=True, ramp=5.0, criterion=None, model=None, **changed):
    robot = load(name)
    limits = robot.limits
    jerk = np.full(robot.n_joints, 200.0)
    limits = Limits(limits.position, limits.velocity, limits.acceleration, jerk, 0.6 * limits.torque)
    zones = (
        Zone("table", Shape("half-space", translation(0.0, 0.0, 0.02)), "out", "all", 0.01),
        Zone("cell", Shape("box", translation(0.1, 0.0, 0.6), np.array([0.5, 0.45, 0.55])), "in", "tool"),
        Zone("post", Shape("cylinder", translation(0.35, 0.3, 0.3), np.array([0.05, 0.3, 0.0])), "out", "links", 0.01),
    )
    constraints = Constraints(
        limits,
        0.2 * robot.limits.torque,
        Scene(zones, True, 0.01, 0.03) if scene else None,
        2.5,
        np.zeros(robot.n_joints),
    )
    excitation = Excitation(10.0, 0.004, (1, 2, 3, 4, 5), np.ones(robot.n_joints, bool), ramp=ramp, **changed)
    columns = base_parameters(robot).kept
    return build_problem(
        robot,
        excitation,
        constraints=constraints,
        criterion=criterion or Criterion(),
        model=model(robot, columns) if model else DynamicModel(robot, columns, np.ones(robot.n_joints)),
    )


@pytest.fixture(scope="session")
def problem():
    return make_problem()


@pytest.fixture(scope="session")
def problem_of():
    return make_problem
