"""More dry frictions than joints: coupled drives at rest share what holds them, against Coulomb's law by hand."""

import numpy as np
import pytest

from excitor.robots.dynamics import rigid_torque
from excitor.robots.load import load
from excitor.robots.parameters import prior
from excitor.robots.robot import DriveTrain, Frame, FrictionTerm, Limits, Robot, RotorInertia, posture
from excitor.robots.simulate import integrate_held, integrate_sticking
from excitor.robots.tree import Tree

J, LEVELS, RATE = 0.2, (1.0, 0.4, 0.5), 50.0


def two_turntables():
    """Two joints that only their rotors make heavy; dry friction of each, and of what moves with both."""
    one, both = np.eye(2), np.ones(2)
    tree = Tree(
        joint_names=("a", "b"),
        link_names=("upper", "lower"),
        parents=[-1, 0],
        before=np.tile(np.eye(4), (2, 1, 1)),
        axis=[[0.0, 0.0, 1.0]] * 2,
        after=np.tile(np.eye(4), (2, 1, 1)),
        sliding=[False, False],
        coupling=one,
        offset=[0.0, 0.0],
        gravity=[0.0, 0.0, -9.81],
    )
    rows = (one[0], one[1], both)
    friction = tuple(FrictionTerm(f"F{k}", "coulomb", row, row) for k, row in enumerate(rows))
    rotors = tuple(RotorInertia(f"Ia{k}", row, row) for k, row in enumerate(one))
    drive = DriveTrain(one, np.full((2, 4), np.nan), np.ones(2), rotors, friction)
    chi = np.concatenate([np.zeros(20), [J, J], LEVELS])
    free = np.full(2, np.inf)
    limits = Limits(np.array([[-np.inf, np.inf]] * 2), free, free, free, free)
    known = np.ones(len(chi), dtype=bool)
    return Robot("turntables", tree, drive, limits, Frame("tool", 1, np.eye(4)), None, chi, known, ~known)


def follow_by_hand(pushes):
    """Positions and velocities under pushes (force, what it takes to move), there and back to rest."""
    q = v = 0.0
    rows = []
    for push, holds in pushes:
        rows.append([q, v])
        a = (push - holds) / J if v > 1e-12 or push > holds else 0.0
        t = min(1.0 / RATE, v / -a) if a < 0.0 else 1.0 / RATE
        q, v = q + v * t + 0.5 * a * t**2, max(v + a * t, 0.0)
    return np.array(rows)


@pytest.mark.parametrize(
    ("way", "holds", "moves"),
    [
        # against each other: the sum rests, λ = -0.3 of it lets both give way at once, at (1 + 0.4) / 2
        ([1.0, -1.0], 0.7, [1.0, -1.0]),
        # together: b gives way first, against its own and the common friction
        ([1.0, 1.0], 0.9, [0.0, 1.0]),
        # b alone: the common friction helps, for a stands still
        ([0.0, 1.0], 0.9, [0.0, 1.0]),
    ],
)
def test_shared_friction_holds_all_it_can_and_no_more(way, holds, moves):
    size = np.concatenate([np.linspace(0.0, 1.3, 40), np.linspace(1.3, 0.1, 20), np.full(30, 0.1)])
    tau = size[:, None] * way
    found, stuck = integrate_sticking(two_turntables(), tau, start=(np.zeros(2), np.zeros(2)), rate_hz=RATE)
    assert not found.diverged
    expected = follow_by_hand([(s, holds) for s in size])
    assert expected[-1, 1] == 0.0  # it came to rest
    np.testing.assert_allclose(found.motion.q, expected[:, :1] * moves, atol=1e-7)
    np.testing.assert_allclose(found.motion.dq, expected[:, 1:] * moves, atol=1e-7)
    rests = np.array([not (s > holds or v > 1e-12) for s, (_, v) in zip(size, expected, strict=True)])
    assert not stuck.sense[rests].any()
    assert stuck.sense[~rests].any(axis=1).all()


@pytest.mark.slow
def test_an_arm_whose_wrist_is_coupled_rests_and_breaks_away():
    """Smoothing narrower and narrower comes nearer and nearer to true signs, where all three frictions stick."""
    robot, n, rate = load("tx40"), 200, 200.0
    q = 0.1 * np.arange(1.0, 7.0)
    held = rigid_torque(robot, posture(q[None]), prior(robot))
    still, stuck = integrate_sticking(robot, np.tile(held, (20, 1)), start=(q, np.zeros(6)), rate_hz=rate)
    assert not still.diverged
    assert not stuck.sense.any()
    np.testing.assert_allclose(still.motion.q, np.tile(q, (20, 1)), atol=1e-9)
    t = np.arange(n) / rate
    tau = np.tile(held, (n, 1))
    tau[:, 4], tau[:, 5] = tau[:, 4] + 7.0 * np.sin(5.0 * t), tau[:, 5] + 2.6 * np.sin(7.0 * t + 1.0)
    sharp, stuck = integrate_sticking(robot, tau, start=(q, np.zeros(6)), rate_hz=rate)
    assert not sharp.diverged
    assert len(np.unique(stuck.sense[:, 4:], axis=0)) > 4
    errors = [
        np.abs(integrate_held(robot, tau, start=(q, np.zeros(6)), rate_hz=rate, width=w).motion.q - sharp.motion.q)
        for w in (0.05, 0.01)
    ]
    assert errors[0].max() > 3.0 * errors[1].max()
    assert errors[1].max() < 0.02 * np.ptp(sharp.motion.q, axis=0).max()
