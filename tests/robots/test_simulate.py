"""Simulated motion against closed forms, scipy's integrators, energy and itself."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

from excitor.robots.dynamics import energy, forward_dynamics, inverse_dynamics, rigid_torque
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout, layout_of
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Motion, Robot, posture
from excitor.robots.simulate import Steps, friction_rate, run_motion, simulate, stable_substeps, with_friction_width
from excitor.robots.tree import Tree

MASS, LEVER, INERTIA, VISCOUS, COULOMB = 2.0, 0.3, 0.05, 0.4, 0.7


def pendulum(friction=()):
    """One link about a horizontal axis, hanging at q = 0."""
    tree = Tree(
        joint_names=("q",),
        link_names=("link",),
        parents=[-1],
        before=np.eye(4)[None],
        axis=[[0.0, 1.0, 0.0]],
        after=np.eye(4)[None],
        sliding=[False],
        coupling=[[1.0]],
        offset=[0.0],
        gravity=[0.0, 0.0, -9.81],
    )
    drive = DriveTrain(np.eye(1), np.full((1, 4), np.nan), np.ones(1), (), tuple(friction))
    body = from_center_of_mass(MASS, np.array([0.0, 0.0, -LEVER]), INERTIA * np.eye(3))
    chi = np.concatenate([body, [VISCOUS, COULOMB][: len(friction)]])
    free = np.array([np.inf])
    limits = Limits(np.array([[-np.inf, np.inf]]), free, free, free, free)
    known = np.ones(len(chi), dtype=bool)
    return Robot("pendulum", tree, drive, limits, Frame("tool", 0, np.eye(4)), None, chi, known, ~known)


def rotradi(width=0.1):
    return with_friction_width(load("rotradi"), width)


def sines(n_runs, seed=0):
    rng = np.random.default_rng(seed)
    size, omega = rng.uniform(0.2, 1.0, size=(n_runs, 3)) * [15.0, 40.0, 4.0], rng.uniform(2.0, 9.0, size=(n_runs, 3))
    return lambda t, q, dq: size * np.sin(omega * t)


def no_torque(t, q, dq):
    return np.zeros_like(q)


def reference(robot, law, start, t):
    """scipy's eighth-order integrator on the public forward dynamics."""
    n = robot.n_joints

    def rates(time, state):
        q, dq = state[None, :n], state[None, n:]
        return np.concatenate([state[n:], forward_dynamics(robot, q, dq=dq, tau=law(time, q, dq))[0]])

    start = np.concatenate([start.q[0], start.dq[0]])
    return solve_ivp(rates, (0.0, t[-1]), start, method="DOP853", t_eval=t, rtol=1e-11, atol=1e-12).y


def test_a_pendulum_swings_as_elliptic_functions_say():
    """sin(q/2) = k sn(K - ω t, k²) for a pendulum let go at rest at 2 asin k."""
    robot, q0 = pendulum(), 2.5
    omega = np.sqrt(MASS * 9.81 * LEVER / (INERTIA + MASS * LEVER**2))
    found = simulate(robot, no_torque, start=posture(np.array([[q0]])), steps=Steps(0.002, 2001))
    k = np.sin(0.5 * q0)
    sn, _, _, _ = ellipj(ellipk(k**2) - omega * found.t, k**2)
    assert np.abs(found.q[0, 0] - 2.0 * np.arcsin(k * sn)).max() < 1e-8  # h⁴ over 4 s leaves 1e-9


def test_viscous_friction_decays_as_an_exponential():
    robot = pendulum([FrictionTerm("Fv", "viscous", [1.0], [1.0])])
    robot = replace(robot, mechanism=replace(robot.mechanism, gravity=np.zeros(3)))
    steps = Steps(0.01, 101)
    found = simulate(robot, no_torque, start=Motion(*np.array([[[0.0]], [[2.0]], [[0.0]]])), steps=steps)
    rate = VISCOUS / (INERTIA + MASS * LEVER**2)
    assert np.abs(found.dq[0, 0] - 2.0 * np.exp(-rate * found.t)).max() < 1e-8
    assert friction_rate(robot, np.zeros((1, 1))) == pytest.approx(rate)


def test_scipy_agrees_with_a_driven_arm_that_rubs():
    robot, law, start = rotradi(), sines(1), posture(np.array([[0.1, 0.3, -0.2]]))
    found = simulate(robot, law, start=start, steps=Steps(0.01, 101, substeps=20))
    expected = reference(robot, law, start, found.t)
    assert np.abs(np.concatenate([found.q[0], found.dq[0]]) - expected).max() < 1e-6


def test_scipy_agrees_on_random_trees(random_robot):
    drive = replace(random_robot.drive, friction=())
    n = len(layout_of(random_robot.mechanism.n_links, random_robot.mechanism.prismatic, drive))
    kept = {name: getattr(random_robot, name)[:n] for name in ("chi", "known", "assumed_zero")}
    robot = replace(random_robot, drive=drive, **kept)
    rng = np.random.default_rng(3)
    q, dq = rng.uniform(-1.0, 1.0, size=(2, 1, robot.n_joints))
    start = Motion(q, dq, 0 * q)
    found = simulate(robot, no_torque, start=start, steps=Steps(0.005, 11, substeps=5))
    expected = reference(robot, no_torque, start, found.t)
    scale = np.abs(expected).max()
    assert np.abs(np.concatenate([found.q[0], found.dq[0]]) - expected).max() < 1e-6 * scale


def test_load_dependent_friction_takes_the_general_way():
    robot = rotradi()
    first = np.eye(3)[1]
    drive = replace(robot.drive, friction=(*robot.drive.friction, FrictionTerm("Fl", "load", first, first, width=0.1)))
    more = np.append(robot.known, True)
    robot = replace(
        robot,
        drive=drive,
        chi=np.append(robot.chi, 0.05),
        known=more,
        assumed_zero=np.append(robot.assumed_zero, False),
        declared_base=None,
    )
    law, start = sines(1), posture(np.array([[0.1, 0.3, -0.2]]))
    found = simulate(robot, law, start=start, steps=Steps(0.01, 21, substeps=10))
    expected = reference(robot, law, start, found.t)
    assert np.abs(np.concatenate([found.q[0], found.dq[0]]) - expected).max() < 1e-5


def test_the_error_falls_with_the_fourth_power_of_the_step():
    robot, law, start = rotradi(1.0), sines(1), posture(np.array([[0.1, 0.3, -0.2]]))
    ends = [simulate(robot, law, start=start, steps=Steps(0.04, 26, substeps=n)).q[0, :, -1] for n in (2, 4, 8, 64)]
    errors = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 3.6).all(), orders


def test_energy_balances_work_and_friction():
    """H(T) - H(0) = ∫ dqᵀ (τ - friction) dt."""
    robot = rotradi()
    found = simulate(robot, sines(1), start=posture(np.zeros((1, 3))), steps=Steps(0.001, 3001))
    motion = run_motion(found)
    friction = inverse_dynamics(robot, motion) - rigid_torque(robot, motion)
    power = ((found.tau[0].T - friction) * motion.dq).sum(axis=1)
    H = energy(robot, motion)
    work = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1])) * 0.001])
    assert np.abs(H - H[0] - work).max() < 1e-4 * np.ptp(H)  # the trapezoid's error, not the integrator's


def test_torques_and_motion_of_the_result_belong_together():
    robot = rotradi()
    found = simulate(robot, sines(2), start=posture(np.zeros((2, 3))), steps=Steps(0.002, 301))
    for run in range(2):
        tau = inverse_dynamics(robot, run_motion(found, run))
        assert np.abs(tau - found.tau[run].T).max() < 1e-9


def test_each_run_of_a_population_is_what_it_is_alone():
    robot, steps = rotradi(), Steps(0.005, 101)
    start = posture(np.random.default_rng(0).uniform(-0.5, 0.5, size=(130, 3)))  # more than one block of the kernel
    law = sines(130)
    together = simulate(robot, law, start=start, steps=steps)
    for run in (0, 77, 129):
        alone = simulate(
            robot, lambda t, q, dq, run=run: law(t, q, dq)[[run]], start=posture(start.q[[run]]), steps=steps
        )
        assert np.abs(together.q[run] - alone.q[0]).max() < 1e-9


def test_a_held_law_is_the_table_of_its_samples():
    robot, law, start = rotradi(), sines(2), posture(np.zeros((2, 3)))
    steps = Steps(0.01, 101, substeps=3, held=True)
    held = simulate(robot, law, start=start, steps=steps)
    table = np.stack([law(t, start.q, start.dq) for t in held.t], axis=2)
    assert np.array_equal(simulate(robot, table, start=start, steps=steps).q, held.q)
    free = simulate(robot, law, start=start, steps=replace(steps, held=False))
    assert np.abs(free.q - held.q).max() > 1e-3


def test_feedback_sees_the_state():
    robot, goal = rotradi(), np.array([0.4, 0.5, -0.3])

    def spring(t, q, dq):
        return np.array([300.0, 600.0, 60.0]) * (goal - q) - np.array([40.0, 60.0, 5.0]) * dq

    found = simulate(robot, spring, start=posture(np.zeros((1, 3))), steps=Steps(0.002, 1501, held=True))
    assert np.abs(found.q[0, :, -1] - goal).max() < 0.1
    assert np.abs(found.dq[0, :, -1]).max() < 0.01


def test_runs_may_have_robots_of_their_own():
    robot, steps, start = rotradi(), Steps(0.005, 101), posture(np.zeros((3, 3)))
    chi = robot.chi * np.random.default_rng(0).uniform(0.9, 1.1, size=(3, len(robot.chi)))
    law = sines(3)
    together = simulate(robot, law, start=start, steps=steps, chi=chi)
    for run in range(3):
        alone = simulate(robot, law, start=start, steps=steps, chi=chi[run])
        assert np.abs(together.q[run] - alone.q[run]).max() < 1e-9
    with pytest.raises(ValueError, match="chi"):
        simulate(robot, law, start=start, steps=steps, chi=chi[:2])


def test_random_trees_of_their_own_accelerate_as_each_does_alone(random_robot):
    """More runs than one block of the kernel, each with other links, rotors and friction."""
    simulated = tuple(term for term in random_robot.drive.friction if term.model not in ("maxwell-slip", "load"))
    drive = replace(random_robot.drive, friction=simulated)
    params = layout_of(random_robot.mechanism.n_links, random_robot.mechanism.prismatic, drive)
    kept = [layout(random_robot).index(name) for name in params.names]
    arrays = {name: getattr(random_robot, name)[kept] for name in ("chi", "known", "assumed_zero")}
    robot = with_friction_width(replace(random_robot, drive=drive, **arrays), 0.1)
    rng = np.random.default_rng(5)
    start = Motion(*rng.uniform(-1.0, 1.0, size=(3, 130, robot.n_joints)))
    chi = robot.chi * rng.uniform(0.9, 1.1, size=(130, len(robot.chi)))
    tau = rng.normal(size=(130, robot.n_joints, 1))
    found = simulate(robot, tau, start=start, steps=Steps(1e-3, 1, held=True), chi=chi)
    for run in (0, 1, 119, 120, 129):
        q, dq, push = start.q[run : run + 1], start.dq[run : run + 1], tau[run : run + 1, :, 0]
        alone = forward_dynamics(robot, q, dq=dq, tau=push, chi=chi[run])[0]
        assert found.ddq[run, :, 0] == pytest.approx(alone, rel=1e-7, abs=1e-9 * np.abs(alone).max())


def test_a_run_that_diverges_says_when_and_leaves_the_others_alone():
    robot, steps = rotradi(), Steps(0.01, 200, bound=50.0)
    chi = np.tile(robot.chi, (2, 1))
    chi[0, layout(robot).index("Fv1")] = -20.0  # pushes instead of braking
    law, start = sines(2), posture(np.zeros((2, 3)))
    found = simulate(robot, law, start=start, steps=steps, chi=chi)
    k = round(found.diverged_at[0] / 0.01)
    assert 0 < k < 200
    assert np.isinf(found.diverged_at[1])
    assert np.abs(found.dq[0]).max() <= 50.0
    assert np.array_equal(found.q[0, :, k:], np.tile(found.q[0, :, [k]].T, 200 - k))
    assert not found.dq[0, :, k:].any()
    alone = simulate(robot, law, start=start, steps=steps)
    assert np.abs(alone.q[1] - found.q[1]).max() < 1e-9


def test_overflow_counts_as_divergence():
    robot = rotradi(1e-6)  # far too sharp for the step
    start = Motion(np.zeros((1, 3)), np.full((1, 3), 1e-3), np.zeros((1, 3)))
    found = simulate(robot, no_torque, start=start, steps=Steps(0.5, 50, bound=1e300))
    assert np.isfinite(found.q).all()
    assert found.diverged_at.shape == (1,)


def test_stable_substeps_follow_the_stiffest_friction():
    robot = pendulum(
        [FrictionTerm("Fv", "viscous", [1.0], [1.0]), FrictionTerm("Fc", "coulomb", [1.0], [1.0], width=0.01)]
    )
    rate = (VISCOUS + COULOMB / 0.01) / (INERTIA + MASS * LEVER**2)
    q = np.zeros((1, 1))
    assert friction_rate(robot, q) == pytest.approx(rate)
    n = stable_substeps(robot, 0.05, q)
    assert n == int(np.ceil(0.05 * rate / 2.0))
    rest = simulate(robot, no_torque, start=Motion(q, q + 0.02, q), steps=Steps(0.05, 100, substeps=n))
    assert np.abs(rest.dq[0, 0, 20:]).max() < 0.01


def test_widths_that_are_stated_stay():
    first = np.eye(3)[0]
    robot = load("rotradi")
    terms = (FrictionTerm("Fv1", "viscous", first, first), FrictionTerm("Fc1", "coulomb", first, first, width=0.3))
    robot = replace(robot, drive=replace(robot.drive, friction=(*terms, *robot.drive.friction)))
    widths = [term.width for term in with_friction_width(robot, 0.02).drive.friction if term.model == "coulomb"]
    assert widths == [0.3, 0.02, 0.02, 0.02]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            lambda r: simulate(load("rotradi"), no_torque, start=r, steps=Steps(0.01, 3)),
            "true sign.*with_friction_width",
        ),
        (lambda r: simulate(rotradi(), np.zeros((1, 3, 4)), start=r, steps=Steps(0.01, 3)), "torque has shape"),
        (lambda r: simulate(rotradi(), no_torque, start=r, steps=Steps(0.01, 3), chi=np.zeros(4)), "chi has shape"),
        (lambda r: Steps(0.0, 3), "sample_time is 0.0"),
        (lambda r: Steps(0.1, 0), "n_samples is 0"),
        (lambda r: with_friction_width(load("rotradi"), 0.0), "width is 0.0"),
    ],
)
def test_mistakes_are_reported(broken, message):
    with pytest.raises(ValueError, match=message):
        broken(posture(np.zeros((1, 3))))


def test_memory_in_friction_is_refused():
    robot = rotradi()
    first = np.eye(3)[0]
    terms = (*robot.drive.friction[1:], FrictionTerm("Fv1", "maxwell-slip", first, first))
    robot = replace(robot, drive=replace(robot.drive, friction=terms))
    with pytest.raises(ValueError, match="remembers where it slipped"):
        simulate(robot, no_torque, start=posture(np.zeros((1, 3))), steps=Steps(0.01, 3))
