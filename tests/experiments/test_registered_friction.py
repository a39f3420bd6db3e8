"""A registered friction law from a robot file to a certificate, an estimate and the checks of its sign."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.design.constraints.torque import TorquePeak, largest_torques
from excitor.design.motion import Excitation, even_spans, periodic_run
from excitor.experiments.identification import impossible_values
from excitor.identify.diagnose import check_reversals
from excitor.identify.estimate import compress, wls
from excitor.identify.intervals import Intervals
from excitor.identify.regression import dynamic_regression
from excitor.identify.samples import Samples
from excitor.identify.validate import friction_doubts
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import FrictionLaw, forget_friction, register_friction
from excitor.robots.load import load, robot_from_toml, robot_text
from excitor.robots.parameters import layout

JOINT = 1
LAW = FrictionLaw(
    name="saturating",
    columns=lambda dq, q, term: (2.0 / np.pi * np.arctan(dq / term.scale))[:, None],
    signs=("positive",),
    bounds=((-1.0, 1.0),),
    dissipates=True,
    reverses=True,
    rising=True,
    needs_scale=True,
)


def arm_with(law):
    name = load("ur10").joint_names[JOINT]
    text = robot_text("ur10") + (
        f'\n[[friction.element]]\nparameter = "Fsat"\nmodel = "{law.name}"\nsenses = {{ {name} = 1 }}\nscale = 0.1\n'
    )
    robot = robot_from_toml(text, "ur10 with a law")
    chi = robot.chi.copy()
    chi[layout(robot).index("Fsat")] = 20.0
    return replace(robot, chi=chi)


@pytest.fixture
def robot():
    register_friction(LAW)
    yield arm_with(LAW)
    forget_friction(LAW.name)


def trajectory(robot, period=8.0):
    rng = np.random.default_rng(0)
    excitation = Excitation(period, 0.004, (1, 2, 3, 5), np.ones(robot.n_joints, dtype=bool), ramp=1.0)
    return periodic_run(excitation, np.full(robot.n_joints, -0.5), *(0.15 * rng.normal(size=(2, robot.n_joints, 4))))


def samples_of(robot, motion, rate=100.0, noise=0.01):
    tau = inverse_dynamics(robot, motion)
    return Samples("run", motion, tau + noise * np.random.default_rng(1).normal(size=tau.shape), rate)


def test_its_coefficient_is_estimated(robot):
    motion = trajectory(robot).periodic.motion(np.arange(800) / 100.0)
    estimate = wls(compress(dynamic_regression(robot, [samples_of(robot, motion)])))
    k = estimate.names.index("Fsat")
    assert abs(estimate.values[k] - 20.0) < 4.0 * estimate.sigma[k]
    assert estimate.sigma[k] < 0.2


def test_its_sign_is_checked(robot):
    k = layout(robot).index("Fsat")
    chi = robot.chi.copy()
    chi[k] = -1.0
    assert any("Fsat = -1" in sentence for sentence in friction_doubts(robot, chi))
    assert not any("Fsat" in sentence for sentence in friction_doubts(robot, robot.chi))
    one = np.ones(1)
    intervals = Intervals("white", ("Fsat",), ("N m",), -one, np.eye(1), -2.0 * one, -0.5 * one, one, {})
    (finding,) = impossible_values(robot, intervals)
    assert "Fsat is -1, surely below 0" in finding.sentence


def test_reversals_of_it_are_counted(robot):
    motion = trajectory(robot).periodic.motion(np.arange(800) / 100.0)
    assert not [f for f in check_reversals(robot, [samples_of(robot, motion)]) if "Fsat" in f.sentence]
    t = np.linspace(0.0, 1.0, 200)[:, None] * np.ones(robot.n_joints)
    one_way = replace(motion, q=t, dq=np.ones_like(t), ddq=np.zeros_like(t))
    told = check_reversals(robot, [samples_of(robot, one_way)])
    assert any("Fsat" in finding.sentence for finding in told)


def test_torques_are_certified_with_it(robot):
    period = next(piece for piece in trajectory(robot).pieces() if piece.degree)
    part = even_spans(period, 400)
    upper, seen = largest_torques(robot, robot.chi, part)
    tau = np.abs(inverse_dynamics(robot, part.motion))
    assert (upper.max(axis=0) >= tau.max(axis=0)).all()
    assert upper.max() < 1.5 * tau.max()
    np.testing.assert_allclose(seen[:, JOINT], tau[:, JOINT], rtol=1e-6)


def test_without_bounds_torques_stay_unproven():
    loose = replace(LAW, name="loose", bounds=((-np.inf, np.inf),), rising=False)
    register_friction(loose)
    try:
        robot = arm_with(loose)
        pieces = trajectory(robot).pieces()
        margins = TorquePeak(robot.limits.torque).margins(robot, pieces, trusted=True)
        assert not any(margin.holds for margin in margins)
        assert "'Fsat' (loose) is a registered law that states no bounds" in margins[0].proof
    finally:
        forget_friction("loose")
