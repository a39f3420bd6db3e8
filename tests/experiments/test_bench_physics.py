"""The bench robot against its published check values; and the bench itself, which is slow."""

import numpy as np
import pytest

from benchmarks import physics
from excitor.experiments.figures import Figure, Report, to_json
from excitor.robots.dynamics import regressor
from excitor.robots.gram import condition_number, stack
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion

PERIOD, HARMONICS = 10.0, 5


def check_motion(robot, n_samples):
    """The design bench's check trajectory: c0 mid range, s = 0.15 A cos(jk + 0.3), c = 0.15 A sin(2j + k)."""
    limits = robot.limits
    w = 2 * np.pi / PERIOD
    t = np.arange(n_samples) * PERIOD / n_samples
    q = np.tile(limits.position.mean(axis=1), (n_samples, 1))
    dq, ddq = np.zeros_like(q), np.zeros_like(q)
    half = np.diff(limits.position, axis=1)[:, 0] / 2
    for j in range(6):
        for k in range(1, HARMONICS + 1):
            amplitude = min(half[j], limits.velocity[j] / (k * w), limits.acceleration[j] / (k * w) ** 2)
            s, c = 0.15 * amplitude * np.cos((j + 1) * k + 0.3), 0.15 * amplitude * np.sin(2 * (j + 1) + k)
            sine, cosine = np.sin(k * w * t), np.cos(k * w * t)
            q[:, j] += s * sine + c * cosine
            dq[:, j] += k * w * (s * cosine - c * sine)
            ddq[:, j] -= (k * w) ** 2 * (s * sine + c * cosine)
    return Motion(q, dq, ddq)


def test_bench_columns_are_the_fixed_ones():
    robot = physics.six_axis()
    names = layout(robot).names
    chosen = {names[k] for k in physics.bench_columns(robot)}
    links = {f"{c}{j}" for j in range(2, 7) for c in ("MX", "MY", "XX", "XY", "XZ", "YZ", "ZZ")}
    drives = {f"{c}{j}" for j in range(1, 7) for c in ("Fv", "Fc")}
    assert chosen == {"ZZ1", *links, *(f"Ia{j}" for j in range(3, 7)), *drives}


@pytest.mark.parametrize(("n_samples", "condition"), [(192, 11.626806), (2000, 11.563659), (20000, 11.565853)])
def test_condition_numbers_of_the_check_trajectory(n_samples, condition):
    robot = physics.six_axis()
    W = stack(regressor(robot, check_motion(robot, n_samples)))[:, physics.bench_columns(robot)]
    assert condition_number(W) == pytest.approx(condition, abs=1e-6)  # six decimals are published


def test_norm_of_the_check_state():
    robot = physics.six_axis()
    state = Motion([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]], [[1, -1, 1.5, -1.5, 2, -2]], [[3, -2, 1, -1, 2, -3]])
    Y = regressor(robot, state)[0]
    assert Y.shape == (6, 78)
    assert np.linalg.norm(Y) == pytest.approx(51.313141267, abs=1e-9)
    assert np.linalg.norm(Y[:, physics.bench_columns(robot)]) == pytest.approx(44.967624608, abs=1e-9)


def test_the_peer_computes_the_same():
    pinocchio = pytest.importorskip("pinocchio")
    robot = physics.six_axis()
    motion = Motion(*np.random.default_rng(0).normal(size=(3, 20, 6)))
    columns = physics.bench_columns(robot)
    peer = physics.PinocchioPeer(robot, pinocchio, motion)
    np.testing.assert_allclose(peer.observation(columns), stack(regressor(robot, motion))[:, columns], atol=1e-12)


def test_figures_say_whether_they_hold():
    report = Report("bench", "x", [Figure("a", 2.0, "times", 3.0, "at least"), Figure("b", 1.0)], {"n": 1})
    assert [figure.holds for figure in report.figures] == [False, None]
    assert '"holds": false' in to_json(report)


@pytest.mark.slow
def test_speed_bars():
    report = physics.run()
    found = {figure.name: figure.ours for figure in report.figures}
    assert found["physics.regressor_ratio"] >= 15.0
    assert found["physics.condition_ratio"] >= 12.0
