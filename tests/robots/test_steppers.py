"""Runs of the compiled steppers against pinocchio's articulated-body algorithm in Runge-Kutta steps of this file."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from excitor.robots.base import random_motion
from excitor.robots.parameters import layout, layout_of
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Motion, Robot, RotorInertia, posture
from excitor.robots.simulate import Servo, Steps, follow, integrate_held, integrate_sticking, simulate
from excitor.robots.tree import Tree
from tests.oracles import Oracle
from tests.random_robots import random_body, random_pose

WIDTH = 0.05  # rad/s
RATE, SUBSTEPS = 500.0, 10
N = 6


def make_arm(seed):
    """Six revolute joints about random axes, with random bodies, rotors, viscous and Coulomb friction."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=(N, 3))
    tree = Tree(
        joint_names=tuple(f"q{j}" for j in range(N)),
        link_names=tuple(f"link{j}" for j in range(N)),
        parents=np.arange(N) - 1,
        before=np.array([random_pose(rng) for _ in range(N)]),
        axis=axis / np.linalg.norm(axis, axis=1, keepdims=True),
        after=np.array([random_pose(rng) for _ in range(N)]),
        sliding=np.zeros(N, dtype=bool),
        coupling=np.eye(N),
        offset=rng.normal(size=N),
        gravity=np.array([0.0, 0.0, -9.81]),
    )
    rows = np.eye(N)
    friction = [FrictionTerm(f"Fv{j}", "viscous", row, row) for j, row in enumerate(rows)]
    friction += [FrictionTerm(f"Fc{j}", "coulomb", row, row, width=WIDTH) for j, row in enumerate(rows)]
    rotors = tuple(RotorInertia(f"Ia{j}", row, row) for j, row in enumerate(rows))
    drive = DriveTrain(rows, np.full((N, 4), np.nan), np.ones(N), rotors, tuple(friction))
    params = layout_of(N, tree.prismatic, drive)
    chi = np.zeros(len(params))
    for j in range(N):
        chi[params.link(j)] = random_body(rng)
    own = {"Ia": (0.2, 0.6), "Fv": (0.5, 2.0), "Fc": (0.5, 3.0)}
    for kind, (low, high) in own.items():
        for j in range(N):
            chi[params.names.index(f"{kind}{j}")] = rng.uniform(low, high)
    free = np.full(N, np.inf)
    limits = Limits(np.column_stack([-free, free]), free, free, free, free)
    known = np.ones(len(params), dtype=bool)
    tool = Frame("tool", N - 1, np.eye(4))
    return Robot("random arm", tree, drive, limits, tool, None, chi, known, ~known)


class Arm:
    """The same arm in pinocchio, with its friction added to the torques: ddq = ABA(q, dq, τ - friction(dq))."""

    def __init__(self, robot, width=WIDTH, rate=RATE):
        self.oracle, self.width, self.rate = Oracle(robot.mechanism), width, rate
        names, chi = layout(robot).names, robot.chi
        next(self.oracle.mass_matrix_and_bias(random_motion(robot, 1), chi[: 10 * N].reshape(N, 10)))  # sets inertias
        value = {kind: np.array([chi[names.index(f"{kind}{j}")] for j in range(N)]) for kind in ("Ia", "Fv", "Fc")}
        self.oracle.model.armature = value["Ia"]
        self.viscous, self.dry, self.offset = value["Fv"], value["Fc"], robot.mechanism.offset
        self.data = self.oracle.model.createData()

    def acceleration(self, q, dq, tau):
        push = tau - self.viscous * dq - self.dry * np.tanh(dq / self.width)
        return pin.aba(self.oracle.model, self.data, q + self.offset, dq, push).copy()

    def step(self, q, dq, tau, h, substeps=SUBSTEPS):
        """One interval of held torque, by the classical steps of order four."""
        h = h / substeps
        for _ in range(substeps):
            a1 = self.acceleration(q, dq, tau)
            a2 = self.acceleration(q + 0.5 * h * dq, dq + 0.5 * h * a1, tau)
            a3 = self.acceleration(q + 0.5 * h * dq + 0.25 * h**2 * a1, dq + 0.5 * h * a2, tau)
            a4 = self.acceleration(q + h * dq + 0.5 * h**2 * a2, dq + h * a3, tau)
            q, dq = q + h * dq + h**2 / 6.0 * (a1 + a2 + a3), dq + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
        return q, dq

    def run(self, q, dq, law, n):
        """States at n samples; `law(k, q)` is the torque held from sample k."""
        states, torques = [], []
        for k in range(n):
            tau = law(k, q)
            states.append((q, dq, self.acceleration(q, dq, tau)))
            torques.append(tau)
            q, dq = self.step(q, dq, tau, 1.0 / self.rate)
        return [np.array(x) for x in zip(*states, strict=True)], np.array(torques)


def pushes(seed, n):
    rng = np.random.default_rng(seed)
    t = np.arange(n)[:, None] / RATE
    return 8.0 * np.sin(rng.uniform(2.0, 8.0, N) * t + rng.uniform(0.0, 6.0, N))


def check(found, expected, *tolerances):
    """Compare positions, velocities and accelerations, in shares of their largest values."""
    for ours, theirs, tolerance in zip((found.q, found.dq, found.ddq), expected, tolerances, strict=True):
        assert np.abs(ours - theirs).max() < tolerance * np.abs(theirs).max()


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_held_torques_move_an_arm_as_pinocchio_says(seed):
    robot, n = make_arm(seed), 150
    q, tau = random_motion(robot, 1, seed=seed).q[0], pushes(seed, 150)
    expected, _ = Arm(robot).run(q, np.zeros(N), lambda k, _: tau[k], n)
    held = integrate_held(robot, tau, start=(q, np.zeros(N)), rate_hz=RATE, substeps=SUBSTEPS)
    assert not held.diverged
    assert np.abs(expected[1]).max() > 0.5, "it moves"
    check(held.motion, expected, *[1e-9] * 3)
    many = simulate(
        robot, np.stack([tau.T, 0.0 * tau.T]), start=posture(np.stack([q, q])), steps=Steps(1.0 / RATE, n, SUBSTEPS)
    )
    check(Motion(many.q[0].T, many.dq[0].T, many.ddq[0].T), expected, *[1e-9] * 3)
    falling, _ = Arm(robot).run(q, np.zeros(N), lambda k, _: np.zeros(N), n)
    check(Motion(many.q[1].T, many.dq[1].T, many.ddq[1].T), falling, *[1e-9] * 3)


@pytest.mark.parametrize(
    ("seed", "rate", "share"), [(0, 500.0, 1.0), (1, 500.0, 1.0), (2, 500.0, 1.0), (0, 5000.0, 0.2)]
)
def test_a_servo_moves_an_arm_as_pinocchio_says(seed, rate, share):
    """τ_k = kp (q_r - q) + kd (dq_r - v), with v the backward difference of measured positions, held until k + 1.

    Under a controller steps are of order two, none longer than 0.5 ms: steps of 0.2 ms have a sixth of the error.
    """
    robot, n = make_arm(seed), round(0.3 * rate)
    t = np.arange(n)[:, None] / rate
    place, phase = random_motion(robot, 1, seed=seed).q[0], np.arange(N)
    reference = Motion(place + 0.2 * np.sin(5.0 * t + phase), np.cos(5.0 * t + phase), -5.0 * np.sin(5.0 * t + phase))
    servo = Servo(np.full(N, 900.0), np.full(N, 40.0), rate)
    last = reference.q[0] - reference.dq[0] / rate

    def law(k, q):
        nonlocal last
        v, last = (q - last) * rate, q
        return servo.kp * (reference.q[k] - q) + servo.kd * (reference.dq[k] - v)

    expected, torques = Arm(robot, rate=rate).run(reference.q[0], reference.dq[0], law, n)
    found = follow(robot, reference, servo)
    assert not found.diverged
    check(found.motion, expected, 1e-6 * share, 4e-5 * share, 6e-4 * share)
    assert np.abs(found.tau - torques).max() < 1e-4 * np.abs(torques).max()


def test_sticking_is_the_limit_of_sharper_signs():
    """Large dry friction: joints stop and break away, as with a sign smoothed over a hundredth of the width."""
    robot, n = make_arm(1), 100
    chi = robot.chi.copy()
    names = layout(robot).names
    for j in range(N):
        chi[names.index(f"Fc{j}")] = 6.0
    sharp = replace(
        robot,
        chi=chi,
        drive=replace(
            robot.drive,
            friction=tuple(
                replace(term, width=0.0) if term.model == "coulomb" else term for term in robot.drive.friction
            ),
        ),
    )
    q, tau = random_motion(robot, 1, seed=4).q[0], 2.0 * pushes(7, n)
    found, states = integrate_sticking(sharp, tau, start=(q, np.zeros(N)), rate_hz=RATE)
    assert (states.sense == 0).any()
    assert (states.sense != 0).any()
    arm = Arm(sharp, width=5e-4)
    x, v, error = q, np.zeros(N), 0.0
    for k in range(n):
        error = max(error, np.abs(found.motion.q[k] - x).max())
        x, v = arm.step(x, v, tau[k], 1.0 / RATE, substeps=200)
    assert error < 2e-3 * np.abs(found.motion.q - q).max()
