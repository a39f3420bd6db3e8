"""Drive gains of other robots than a five-bar: joints that feel no load, coupled motors, a platform that turns."""

import numpy as np
import pytest

from excitor.identify.drive_gains import (
    DriveRun,
    KnownLoad,
    Law,
    Trust,
    assembled,
    drive_gains,
    gain_system,
    only_drives,
    signal_fit,
)
from excitor.robots.base import base_parameters
from excitor.robots.closed_chain import inverse_geometry
from excitor.robots.dynamics import inverse_dynamics
from excitor.robots.friction import motor_torques
from excitor.robots.inertia import from_center_of_mass
from excitor.robots.load import load, robot_from_toml
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion

MASS = np.arange(10) == 9


def believed(gains, off=0.1):
    return [Law((1,), np.array([g * (1.0 + off * (-1.0) ** k)])) for k, g in enumerate(gains)]


TABLE = """
name = "table"
gravity = [0, 0, -9.81]
[[joint]]
name = "x"
kind = "prismatic"
parent = "base"
placement = { rpy_deg = [0, 90, 0] }
limits = { position_m = [-1, 1], velocity_m_s = 2, acceleration_m_s2 = 20, torque = 200 }
link = { mass = 8, inertia = [0.1, 0, 0, 0.1, 0, 0.1] }
[[joint]]
name = "y"
kind = "prismatic"
placement = { rpy_deg = [-90, 0, 0] }
limits = { position_m = [-1, 1], velocity_m_s = 2, acceleration_m_s2 = 20, torque = 200 }
link = { mass = 5, inertia = [0.1, 0, 0, 0.1, 0, 0.1] }
[friction]
terms = ["viscous", "coulomb"]
[parameters]
Fv1 = 3.0
Fv2 = 4.0
Fc1 = 2.0
Fc2 = 2.5
"""


def table_runs(robot, link, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    body = KnownLoad("block", link, 3.0 * MASS, MASS)
    t = np.arange(3000) / 1000.0
    runs = []
    for carried in (None, body):
        w = 2.0 * np.pi * np.array([[1.0, 1.3], [2.3, 1.9]])
        amplitude = rng.uniform(0.05, 0.1, size=(2, 2))
        q, dq, ddq = (
            sum(
                a * w_k**order * np.sin(w_k * t[:, None] + order * np.pi / 2)
                for a, w_k in zip(amplitude, w, strict=True)
            )
            for order in range(3)
        )
        motion = Motion(q, dq, ddq)
        chi = robot.chi.copy()
        if carried is not None:
            chi[layout(robot).link(link)] += carried.phi
        v = inverse_dynamics(robot, motion, chi) / [20.0, 30.0]
        runs.append(DriveRun("run", motion, v + rng.normal(scale=noise, size=v.shape), carried))
    return runs


def test_a_joint_that_never_sees_the_load_is_refused_by_name():
    """A block on the lower slide of a cross table: the upper drive never moves it, whatever is recorded."""
    robot = robot_from_toml(TABLE, "table.toml")
    result = drive_gains(gain_system(robot, table_runs(robot, 0), believed([20.0, 30.0])))
    x, y = result.gains
    assert x.answered
    assert x.values[0] == pytest.approx(20.0, rel=0.005)
    assert (y.drive, y.answered, y.values, y.sigma) == ("y", False, None, None)
    assert "never shows the load" in y.reason
    assert y.share == 0.0
    assert result.left_out == ("y",)
    both = drive_gains(gain_system(robot, table_runs(robot, 1), believed([20.0, 30.0])))
    assert [gain.answered for gain in both.gains] == [True, True]
    assert both.gains[1].values[0] == pytest.approx(30.0, rel=0.005)


def test_a_load_too_light_for_the_noise_is_refused():
    robot = robot_from_toml(TABLE, "table.toml")
    loud = gain_system(robot, table_runs(robot, 1, noise=2.0), believed([20.0, 30.0]))
    assert not any(gain.answered for gain in drive_gains(loud).gains)
    quiet = gain_system(robot, table_runs(robot, 1, noise=0.2), believed([20.0, 30.0]))
    strict = drive_gains(quiet, Trust(gap=1.5, relative_sigma=1e-3))
    assert all("predicted deviation" in gain.reason and not gain.answered for gain in strict.gains)


@pytest.fixture(scope="module")
def arm():
    """A serial robot with coupled motors, and exact runs with a body of which little is known."""
    robot = load("tx40")
    rng = np.random.default_rng(0)
    phi = from_center_of_mass(4.5, np.array([0.05, 0.02, 0.15]), np.diag([0.01, 0.02, 0.015]))
    gains = np.array([1.1, 1.0, 0.53, 0.19, 0.34, 0.2])
    runs = []
    for loaded in (False, True):
        t = np.arange(400) / 100.0
        w = 2.0 * np.pi * rng.uniform(0.2, 1.0, size=(4, 6))
        a, p = rng.uniform(0.2, 0.5, size=(4, 6)), rng.uniform(0.0, 6.0, size=(4, 6))
        q, dq, ddq = (
            sum(a[k] * w[k] ** o * np.sin(w[k] * t[:, None] + p[k] + o * np.pi / 2) for k in range(4)) for o in range(3)
        )
        motion, chi = Motion(q, dq, ddq), robot.chi.copy()
        chi[50:60] += loaded * phi
        runs.append((motion, motor_torques(robot, inverse_dynamics(robot, motion, chi)) / gains, loaded))
    return robot, gains, phi, runs


def test_unknown_payload_parameters_come_out_with_the_gains(arm):
    robot, gains, phi, runs = arm
    body = KnownLoad("tool", -1, np.where(MASS, phi, 99.0), MASS)  # what is not known may hold anything
    runs = [DriveRun("run", motion, v, body if loaded else None) for motion, v, loaded in runs]
    system = gain_system(robot, runs, believed(gains))
    n = system.n_robot
    assert system.names[n:] == ("XXL", "XYL", "XZL", "YYL", "YZL", "ZZL", "MXL", "MYL", "MZL")  # none regroups
    assert assembled(system).shape[1] == n + 6 + 9 + 1
    fit = signal_fit(system)
    assert fit.gains == pytest.approx(gains, rel=1e-6)
    assert fit.parameters[n:] == pytest.approx(phi[:9], abs=1e-6)


def test_rows_are_motors_not_joints(arm):
    """The wrist's motors are coupled: each row must hold one signal only, and the equations must still hold."""
    robot, gains, phi, runs = arm
    body = KnownLoad("tool", -1, phi, np.ones(10, dtype=bool))
    runs = [DriveRun("run", motion, v, body if loaded else None) for motion, v, loaded in runs]
    system = gain_system(robot, runs, believed(gains))
    x = np.concatenate([base_parameters(robot).values(robot.chi), gains, [1.0]])
    assert np.abs(assembled(system) @ x).max() < 1e-9
    assert np.count_nonzero(system.V, axis=1).max() == 1
    wrist = only_drives(system, [4, 5])
    assert set(wrist.drive) == {4, 5}
    assert len(wrist.names) < len(system.names)
    assert np.linalg.matrix_rank(wrist.W / np.linalg.norm(wrist.W, axis=0)) == len(wrist.names)


def test_a_platform_that_turns_shows_the_whole_payload():
    """Planar 3-RRR: of an eccentric body only the mass is known; its moments and its inertia come out too."""
    robot = load("3-rrr")
    rng = np.random.default_rng(0)
    gains = np.array([1.5, 1.6, 1.4])
    phi = from_center_of_mass(0.8, np.array([0.02, -0.015, 0.0]), np.diag([1e-3, 1e-3, 2e-3]))
    body = KnownLoad("plate", -1, phi * MASS, MASS)
    runs = []
    for carried in (None, body):
        n = 1500
        phase = 2.0 * np.pi * np.arange(n)[:, None] / n
        home = robot.mechanism.home[robot.mechanism.platform]
        x = home + sum(a * np.sin(k * phase + p) for k, a, p in harmonics(rng))
        spectrum = np.fft.rfft(inverse_geometry(robot.mechanism, x), axis=0)
        slope = 2j * np.pi * np.arange(n // 2 + 1)[:, None] / 1.5
        motion = Motion(*(np.fft.irfft(spectrum * slope**order, n, axis=0) for order in range(3)))
        chi = robot.chi.copy()
        if carried is not None:
            chi[layout(robot).link(robot.mechanism.n_links - 1)] += phi
        runs.append(DriveRun("run", motion, inverse_dynamics(robot, motion, chi) / gains, carried))
    system = gain_system(robot, runs, believed(gains))
    assert system.names[system.n_robot :] == ("ZZL", "MXL", "MYL")  # what a plane shows
    fit = signal_fit(system)
    assert fit.gains == pytest.approx(gains, rel=1e-6)
    assert fit.parameters[system.n_robot :] == pytest.approx(phi[[5, 6, 7]], abs=1e-6)


def harmonics(rng):
    return [(k, np.array([0.02, 0.02, 0.15]) / k, rng.uniform(0.0, 6.0, size=3)) for k in range(1, 4)]
