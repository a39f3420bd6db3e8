"""The load's Jacobian: ranks and condition numbers of a published motion, its torques, its gradient."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.constraints.constraints import Constraints
from excitor.design.criteria import Criterion, carried_torques, load_model
from excitor.design.motion import Excitation, periodic_run
from excitor.design.problem import build_problem, decode, encode, evaluate
from excitor.design.search import WHOLE
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import motor_torques
from excitor.robots.gram import condition_number
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import Limits, Motion

# [Swevers2002] Tables 1 and 2: axis, harmonic, sine, cosine; and the load about its centre of gravity
TABLE_1 = [
    (2, 25, 8.72e-2, -4.62e-3),
    (3, 1, 1.57, 0.0),
    (3, 18, 4.60e-1, -1.76e-2),
    (4, 1, -8.38e-1, 1.78e-3),
    (4, 19, -2.10e-1, 8.52e-3),
    (5, 1, 0.0, 1.57),
    (5, 15, 2.56e-2, 1.57),
]
INERTIA = np.array([[38.21, 7.28, 1.49], [7.28, 6.55, -1.23], [1.49, -1.23, 37.13]])


@pytest.fixture(scope="module")
def robot():
    """Take the robot with the paper's load in the place of its last link."""
    arm = load("kr150")
    chi = arm.chi.copy()
    chi[50:60] = from_center_of_mass(125.46, np.array([0.088, -0.032, 0.140]), INERTIA)
    return replace(arm, chi=chi)


def table_motion(moving):
    sines, cosines = np.zeros((2, 6, 25))
    for axis, k, a, b in TABLE_1:
        if moving[axis]:
            sines[axis, k - 1], cosines[axis, k - 1] = a, b
    excitation = Excitation(36.96, 0.024, tuple(range(1, 26)), moving)
    center = np.array([0.0, 0.0, 1.57, 0.0, 0.0, 0.0])
    return periodic_run(excitation, center, sines, cosines).periodic.motion(excitation.grid(1540))


def rank(W):
    return int(np.linalg.matrix_rank(W / np.linalg.norm(W, axis=0), tol=1e-7))


@pytest.mark.parametrize(("efficiencies", "unknowns", "condition"), [(True, 22, 14.5), (False, 18, 4.6)])
def test_table_1_is_as_well_conditioned_as_computed_elsewhere(robot, efficiencies, unknowns, condition):
    moving = np.arange(6) >= 2
    model = load_model(robot, 5, moving=moving, efficiencies=efficiencies)
    W = model.observation(table_motion(moving))
    assert W.shape == (4 * 1540, unknowns)
    assert rank(W) == unknowns
    # the wrist's small couplings have other signs here, which is worth about 1 %
    assert condition_number(W) == pytest.approx(condition, rel=0.01)


def test_the_wrist_alone_loses_the_mass(robot):
    """A point mass at the wrist centre, 0.230 m behind the flange, is in no wrist torque."""
    moving = np.arange(6) >= 3
    model = load_model(robot, 5, moving=moving)
    W = model.observation(table_motion(moving))
    assert W.shape[1] == 19
    assert rank(W) == 18
    point = np.zeros(19)
    point[[9, 8, 0, 3]] = 1.0, -0.230, 0.0529, 0.0529
    assert np.abs(W @ point).max() < 1e-9 * np.abs(W).max()


def test_columns_times_unknowns_are_motor_torques(robot):
    """τ_M less what links 3 to 5 and rotors need is linear in load and friction, by the robot's own transmission."""
    moving = np.arange(6) >= 2
    model = load_model(robot, 5, moving=moving, efficiencies=False)
    motion = table_motion(moving)
    params = layout(robot)
    load_only = np.zeros(len(params))
    load_only[50:60] = robot.chi[50:60]
    ratios = np.diag(robot.drive.motor_from_joint)
    links = np.where(np.arange(len(params)) < 60, robot.chi, 0.0)
    driving = motor_torques(robot, inverse_dynamics(robot, motion, links), motion.dq)
    plain = motor_torques(robot, inverse_dynamics(robot, motion, links))
    assert plain * ratios == pytest.approx(carried_torques(robot, motion))
    friction = np.where(np.isin(np.arange(len(params)), params.friction_columns), robot.chi, 0.0)
    lossless = motor_torques(robot, inverse_dynamics(robot, motion, load_only))
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = np.where(plain == 0.0, 1.0, driving / plain)
    expected = (loss * lossless + motor_torques(robot, inverse_dynamics(robot, motion, friction))) * ratios
    W = model.observation(motion)
    found = (W @ robot.chi[model.columns]).reshape(4, -1).T
    assert found == pytest.approx(expected[:, 2:], rel=1e-9, abs=1e-6)


def test_efficiency_columns_are_slopes(robot):
    moving = np.arange(6) >= 2
    motion = table_motion(moving)
    model = load_model(robot, 5, moving=moving)
    W = model.observation(motion).reshape(4, -1, 22)
    phi = np.where(np.arange(len(robot.chi)) < 60, robot.chi, 0.0)
    tau = inverse_dynamics(robot, motion, phi)
    for axis in range(2, 6):
        sides = []
        for step in (1e-6, -1e-6):
            R = robot.drive.efficiency + step * np.eye(6)[axis]
            lossy = replace(robot, drive=replace(robot.drive, efficiency=R))
            sides.append(motor_torques(lossy, tau, motion.dq)[:, axis])
        slope = (sides[0] - sides[1]) / 2e-6 * robot.drive.motor_from_joint[axis, axis]
        assert W[axis - 2, :, 18 + axis - 2] == pytest.approx(slope, rel=1e-6, abs=1e-3)


def test_gradient_is_that_of_finite_differences(robot):
    moving = np.arange(6) >= 2
    excitation = Excitation(10.0, 0.01, (1, 2, 3), moving)
    limits = Limits(robot.limits.position, robot.limits.velocity, robot.limits.acceleration, *np.full((2, 6), np.inf))
    problem = build_problem(
        robot,
        excitation,
        constraints=Constraints(limits, np.full(6, np.inf)),
        criterion=Criterion(),
        model=load_model(robot, 5, moving=moving, weights=1.0 / np.array([100.0, 100.0, 120.0, 60.0, 60.0, 50.0])),
    )
    random = np.random.default_rng(3)
    candidates = decode(problem, random.uniform(-1.0, 1.0, (2, problem.n_design)))
    assert np.isfinite(evaluate(problem, candidates).value).all()
    x = 0.9 * encode(problem, candidates)[0]  # inside the limits, whose repair has kinks
    objective, none = problem.objective(replace(WHOLE, width=1e-9)), np.empty(0)  # a true sign, but for its middle
    _, slope = objective(x, none)
    for _ in range(3):
        step = 1e-7 * random.normal(size=x.size)  # so small that no sample changes sign
        difference = objective(x + step, none)[0] - objective(x - step, none)[0]
        assert 2.0 * slope @ step == pytest.approx(difference, rel=2e-3, abs=1e-12)


def test_population_is_its_members(robot):
    moving = np.arange(6) >= 2
    model = load_model(robot, 5, moving=moving)
    states = np.random.default_rng(0).normal(size=(3, 2, 6, 40))
    G = model.grams(*states, 30)
    W = model.observation(Motion(*(x[1, :, :30].T for x in states)))
    assert G.shape == (2, 22, 22)
    assert G[1] == pytest.approx(W.T @ W)


def test_unknowns_are_the_load_friction_and_efficiencies_of_what_moves(robot):
    model = load_model(robot, 5, moving=np.arange(6) >= 4)
    every = (*layout(robot).names, *(f"R {name}" for name in robot.joint_names))
    names = tuple(every[column] for column in model.columns)
    assert names == ("XX6", "XY6", "XZ6", "YY6", "YZ6", "ZZ6", "MX6", "MY6", "MZ6", "M6", *names[10:])
    assert names[10:] == ("Fv5", "Fc5", "Fv6", "Fc6", "R A5", "R A6")


def test_mistakes_are_sentences(robot):
    with pytest.raises(ValueError, match="link is 6, expected 0 to 5"):
        load_model(robot, 6, moving=np.ones(6, dtype=bool))
    with pytest.raises(ValueError, match="no axis moves"):
        load_model(robot, 5, moving=np.zeros(6, dtype=bool))
    with pytest.raises(ValueError, match="moving has 4 axes"):
        replace(load_model(robot, 5, moving=np.ones(6, dtype=bool)), moving=np.ones(4, dtype=bool), weights=np.ones(4))
