"""Open simulations against closed forms, scipy, and each other; what sticks and slides against Coulomb's own law."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import ellipj, ellipk

from excitor.identify.samples import Samples
from excitor.identify.validate import friction_doubts, open_loop, smallest_inertia
from excitor.robots.closed_chain import inverse_geometry
from excitor.robots.dynamics import energy, forward_dynamics, inverse_dynamics, mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load
from excitor.robots.parameters import layout
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Motion, Robot, posture
from excitor.robots.simulate import integrate_held, integrate_sticking, smoothed
from excitor.robots.tree import Tree

MASS, LEVER, INERTIA = 2.0, 0.3, 0.05


def one_joint(axis, friction=(), values=(), lever=LEVER):
    """One link about an axis through its origin: a pendulum where that is horizontal, a turntable where not."""
    tree = Tree(
        joint_names=("q",),
        link_names=("link",),
        parents=[-1],
        before=np.eye(4)[None],
        axis=[axis],
        after=np.eye(4)[None],
        sliding=[False],
        coupling=[[1.0]],
        offset=[0.0],
        gravity=[0.0, 0.0, -9.81],
    )
    drive = DriveTrain(np.eye(1), np.full((1, 4), np.nan), np.ones(1), (), tuple(friction))
    body = from_center_of_mass(MASS, np.array([0.0, 0.0, -lever]), INERTIA * np.eye(3))
    chi = np.concatenate([body, values])
    free = np.array([np.inf])
    limits = Limits(np.array([[-np.pi, np.pi]]), free, free, free, free)
    known = np.ones(len(chi), dtype=bool)
    return Robot("one joint", tree, drive, limits, Frame("tool", 0, np.eye(4)), None, chi, known, ~known)


def block(level, more=0.0, scale=0.1):
    """An inertia with dry friction and no gravity."""
    dry = [FrictionTerm("Fc", "coulomb", [1.0], [1.0]), FrictionTerm("Fs", "stribeck", [1.0], [1.0], scale=scale)]
    return one_joint([0.0, 0.0, 1.0], dry, [level, more])


def held(n, size, rate, robot):
    """Torques of several sines, as a controller would hold them."""
    t = np.arange(n)[:, None] / rate
    return size * (np.sin((3.0 + np.arange(robot.n_joints)) * t) + 0.7 * np.sin(11.0 * t + np.arange(robot.n_joints)))


@pytest.mark.parametrize("method", ["rk4", "rk45", "events"])
def test_a_pendulum_swings_as_elliptic_functions_say(method):
    robot, q0, rate = one_joint([0.0, 1.0, 0.0]), 2.5, 100.0
    tau = np.zeros((200, 1))
    found = integrate_held(robot, tau, start=(np.array([q0]), np.zeros(1)), rate_hz=rate, method=method)
    omega = np.sqrt(MASS * 9.81 * LEVER / (INERTIA + MASS * LEVER**2))
    k = np.sin(0.5 * q0)
    sn, _, _, _ = ellipj(ellipk(k**2) - omega * np.arange(200) / rate, k**2)
    assert np.abs(found.motion.q[:, 0] - 2.0 * np.arcsin(k * sn)).max() < 2e-6  # rk45's tolerance; the others 1e-9


def test_a_block_slides_to_rest_and_stays():
    """v = v0 - (F/J) t until v0 J / F; under less than F it never moves again."""
    robot, rate, v0, F = block(0.1), 100.0, 1.5, 0.1
    n = 100
    tau = np.zeros((n, 1))
    tau[85:] = 0.099
    found, stuck = integrate_sticking(robot, tau, start=(np.zeros(1), np.array([v0])), rate_hz=rate)
    J = mass_matrix(robot, np.zeros((1, 1)))[0, 0, 0]
    t, stop = np.arange(n) / rate, v0 * J / F
    assert 0.6 < stop < 0.8
    slid = np.minimum(t, stop)
    assert np.abs(found.motion.q[:, 0] - (v0 * slid - 0.5 * F / J * slid**2)).max() < 1e-10
    assert not stuck.sense[t > stop].any()
    assert (stuck.sense[t < stop] == 1).all()
    assert np.abs(found.motion.dq[t > stop]).max() < 1e-12


def test_a_pendulum_loses_what_friction_takes_from_turn_to_turn():
    """M g l (cos θ' - cos θ) = F (|θ| + |θ'|) between turns, until it stops where M g l |sin θ| < F."""
    F, theta, rate = 0.3, 1.0, 100.0
    robot = one_joint([0.0, 1.0, 0.0], [FrictionTerm("Fc", "coulomb", [1.0], [1.0])], [F])
    found, stuck = integrate_sticking(robot, np.zeros((900, 1)), start=(np.array([theta]), np.zeros(1)), rate_hz=rate)
    weight, turns = MASS * 9.81 * LEVER, [theta]
    while weight * np.sin(turns[-1]) > F:
        last = turns[-1]

        def left(x, last=last):
            return weight * (np.cos(x) - np.cos(last)) - F * (last + x)

        turns.append(brentq(left, (1e-6 - 1.0) * last, last))
    rest = turns[-1] * (-1.0) ** (len(turns) - 1)
    assert len(turns) > 6
    assert found.motion.q[-1, 0] == pytest.approx(rest, abs=1e-7)
    assert stuck.sense[-1, 0] == 0


def test_a_block_breaks_away_where_torque_exceeds_friction():
    """Held torques that grow step by step: it stands, then each step adds its own parabola."""
    robot, rate, F = block(0.8), 50.0, 0.8
    tau = -np.linspace(0.0, 2.0, 60)[:, None]
    found, stuck = integrate_sticking(robot, tau, start=(np.zeros(1), np.zeros(1)), rate_hz=rate)
    J, q, v, T = mass_matrix(robot, np.zeros((1, 1)))[0, 0, 0], 0.0, 0.0, 1.0 / rate
    for k in range(60):
        assert found.motion.q[k, 0] == pytest.approx(q, abs=1e-11)
        assert found.motion.dq[k, 0] == pytest.approx(v, abs=1e-11)
        a = (tau[k, 0] + F) / J if tau[k, 0] < -F else 0.0
        assert stuck.sense[k, 0] == (-1 if a else 0)
        assert found.motion.ddq[k, 0] == pytest.approx(a, abs=1e-9)
        q, v = q + v * T + 0.5 * a * T**2, v + a * T


def test_breaking_away_takes_more_than_sliding_on():
    """With Stribeck's excess the same torque holds a block at rest and lets a moving one go on."""
    robot = block(0.6, 0.3)
    tau = np.full((50, 1), 0.8)
    still, _ = integrate_sticking(robot, tau, start=(np.zeros(1), np.zeros(1)), rate_hz=100.0)
    moving, stuck = integrate_sticking(robot, tau, start=(np.zeros(1), np.array([2.0])), rate_hz=100.0)
    assert np.abs(still.motion.q).max() < 1e-12  # rounding of the force that holds it
    assert (stuck.sense == 1).all()
    assert moving.motion.dq[-1, 0] > 2.0


@pytest.mark.parametrize("name", ["rotradi", "five-bar-vertical"])
def test_joints_stick_together_as_coulomb_says(name):
    """At every sample: what sticks is held by less than F, what slides is held back by F, and work balances energy."""
    robot = load(name)
    rate, n = 200.0, 160
    q0, rest, size = np.zeros(3), 0.0, np.array([4.0, 16.0, 2.0])
    if name != "rotradi":
        q0 = inverse_geometry(robot.mechanism, robot.mechanism.home[None, robot.mechanism.platform] + 0.02)[0]
        rest, size = inverse_dynamics(robot, posture(q0[None])), np.ones(2)
    tau = rest + held(n, size, rate, robot)
    found, stuck = integrate_sticking(robot, tau, start=(q0, 0.0 * q0), rate_hz=rate)
    params = layout(robot)
    chi = robot.chi.copy()
    F = chi[params.indices(stuck.names)]
    chi[params.indices(stuck.names)] = 0.0
    taken = tau - inverse_dynamics(smoothed(robot), found.motion, chi)  # by dry friction
    assert not found.diverged
    for column, level in enumerate(F):
        rests = stuck.sense[:, column] == 0
        force = taken[:, column]
        assert 5 < rests.sum() < n - 5
        assert np.abs(force[rests]).max() <= level * (1.0 + 1e-9)
        assert np.abs(found.motion.dq[rests, column]).max() < 1e-8
        assert force[~rests] == pytest.approx(level * stuck.sense[~rests, column], rel=1e-7, abs=1e-7)
    assert (stuck.sense == 0).sum(axis=1).max() >= 2  # several at once
    moved = np.diff(found.motion.q, axis=0)
    viscous = inverse_dynamics(smoothed(robot), found.motion, chi) - inverse_dynamics(
        smoothed(robot), found.motion, np.where(np.arange(len(chi)) < params.n_link_params, chi, 0.0)
    )
    if not robot.drive.rotors:
        lost = np.sum(np.abs(moved) @ F) + np.sum(moved * 0.5 * (viscous[1:] + viscous[:-1]))
        gained = np.diff(energy(robot, found.motion, robot.chi)[[0, -1]])[0]
        assert np.sum(tau[:-1] * moved) == pytest.approx(lost + gained, rel=0.01)


def test_narrow_smoothing_comes_near_true_signs():
    robot, rate = load("rotradi"), 200.0
    tau = held(120, np.array([6.0, 30.0, 3.5]), rate, robot)
    start = (np.zeros(3), np.zeros(3))
    sharp = integrate_held(robot, tau, start=start, rate_hz=rate, method="events").motion.q
    errors = [
        np.abs(integrate_held(robot, tau, start=start, rate_hz=rate, width=width).motion.q - sharp).max()
        for width in (0.08, 0.02, 0.005)
    ]
    assert np.abs(sharp).max() > 0.3
    assert errors[0] > 2.0 * errors[1] > 4.0 * errors[2]


def test_fixed_and_adaptive_steps_and_scipy_agree():
    robot, rate = smoothed(load("rotradi"), 0.05), 100.0
    tau = held(60, np.array([10.0, 30.0, 4.0]), rate, robot)
    start = (np.array([0.1, 0.3, -0.2]), np.array([0.5, 0.0, -0.5]))
    fixed, adaptive = (
        integrate_held(robot, tau, start=start, rate_hz=rate, method=method) for method in ("rk4", "rk45")
    )
    state, expected = np.concatenate(start), []
    for torque in tau:
        expected.append(state)

        def rates(t, y, torque=torque):
            ddq = forward_dynamics(robot, y[None, :3], dq=y[None, 3:], tau=torque[None])[0]
            return np.concatenate([y[3:], ddq])

        state = solve_ivp(rates, (0.0, 1.0 / rate), state, method="DOP853", rtol=1e-9, atol=1e-11).y[:, -1]
    for found in (fixed, adaptive):
        both = np.column_stack([found.motion.q, found.motion.dq])
        assert np.abs(both - expected).max() < 2e-5
    assert np.abs(adaptive.motion.q - fixed.motion.q).max() < 1e-5


def measured(robot, chi, n=200, rate=200.0, phase=0.0):
    """A run of the robot itself under held torques, from rest."""
    tau = held(n, np.array([6.0, 30.0, 3.5]), rate, robot)
    done = integrate_held(robot, tau, start=(np.zeros(3), np.zeros(3)), rate_hz=rate, chi=chi)
    return Samples("shaken", done.motion, tau, rate, phase=phase)


def test_the_truth_reproduces_its_run_and_a_torque_shifted_by_a_sample_does_not():
    robot = load("rotradi")
    run = measured(robot, robot.chi)
    true = open_loop(robot, robot.chi, [run], first_s=0.25)
    late = open_loop(robot, robot.chi, [replace(run, phase=1.0)], first_s=0.25)
    other = open_loop(robot, 1.05 * robot.chi, [run], first_s=0.25)
    assert true.runs[0].norm.max() < 1e-9
    assert (late.runs[0].norm > 0.02).all()
    worst = other.runs[0]
    error = worst.q - run.motion.q
    assert worst.norm == pytest.approx(np.linalg.norm(error, axis=0))
    assert worst.rms == pytest.approx(worst.norm / np.sqrt(200))
    assert worst.first_rms == pytest.approx(np.sqrt(np.mean(error[:50] ** 2, axis=0)))
    assert worst.n_samples == 200
    assert true.no_return == ("base_joint",)
    said = " ".join(true.sentences())
    assert "shaken: 200" in said
    assert "Nothing leads base_joint back" in said
    assert "smoothed over 0.005" in said


def test_motion_between_samples_starts_within_its_torque():
    """Mid-sample motion: half of the first torque's interval is over."""
    robot, rate = load("rotradi"), 100.0
    tau = held(80, np.array([6.0, 30.0, 3.5]), rate, robot)
    fine = integrate_held(robot, np.repeat(tau, 2, axis=0), start=(np.zeros(3), np.zeros(3)), rate_hz=2 * rate).motion
    between = Motion(fine.q[1::2], fine.dq[1::2], fine.ddq[1::2])
    found = open_loop(robot, robot.chi, [Samples("mid", between, tau, rate, phase=0.5)])
    assert found.runs[0].norm.max() < 1e-7


def test_a_model_without_mass_is_reported_not_simulated():
    robot = load("rotradi")
    chi = robot.chi.copy()
    chi[layout(robot).index("ZZ3")] = -0.2
    run = measured(robot, robot.chi, n=20)
    found = open_loop(robot, chi, [run])
    assert not found.runs
    assert found.lightest < 0.0
    assert smallest_inertia(robot, robot.chi, [run]) > 0.05
    assert "not positive definite" in found.sentences()[0]


def test_friction_that_drives_is_reported():
    robot = load("rotradi")
    chi = robot.chi.copy()
    chi[layout(robot).index("Fc3")] = -0.1
    run = measured(robot, robot.chi, n=20)
    found = open_loop(robot, chi, [run])
    assert len(found.runs) == 1
    assert "Fc3 = -0.1" in found.sentences()[-1]
    assert friction_doubts(robot, robot.chi) == ()
    assert "nothing sticks by negative friction" in open_loop(robot, chi, [run], method="events").sentences()[0]


def test_divergence_is_reported_with_its_time():
    """A robot that is driven by its friction runs away."""
    robot = load("rotradi")
    chi = robot.chi.copy()
    chi[layout(robot).index("Fv3")] = -3.0
    run = measured(robot, robot.chi, n=200)
    found = open_loop(robot, chi, [run], first_s=0.05)
    lost = found.runs[0]
    assert 0.05 < lost.diverged_at < 1.0
    assert np.isinf(lost.norm).all()
    assert np.isfinite(lost.first_rms).all()
    assert f"lost after {lost.diverged_at:.3g} s" in " ".join(found.sentences())


def test_no_runs_are_reported():
    with pytest.raises(ExcitorError, match="no runs to simulate"):
        open_loop(block(0.1), block(0.1).chi, [])


def test_what_events_do_not_know_is_refused():
    robot = load("rotradi")
    first = np.eye(3)[1]
    drive = replace(robot.drive, friction=(*robot.drive.friction, FrictionTerm("Fl", "load", first, first)))
    known = np.append(robot.known, True)
    more = replace(
        robot, drive=drive, chi=np.append(robot.chi, 0.05), known=known, assumed_zero=~known, declared_base=None
    )
    with pytest.raises(ExcitorError, match="'Fl' is load"):
        integrate_sticking(more, np.zeros((2, 3)), start=(np.zeros(3), np.zeros(3)), rate_hz=100.0)
    poses = Samples("poses", posture(np.zeros((3, 3))), np.zeros((3, 3)), 1.0, static=True)
    assert "holds poses" in open_loop(robot, robot.chi, [poses]).refused
