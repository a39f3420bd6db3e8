"""The virtual robot of any robot: its servo, what it refuses, and the same runs in MuJoCo."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from excitor.design.motion import Excitation, periodic_run
from excitor.design.programs.plan import Plan
from excitor.experiments.campaign import StatedController
from excitor.experiments.identification import tuned_servo
from excitor.experiments.virtual import machine
from excitor.experiments.virtual import robot as virtual_robot
from excitor.experiments.virtual.machine import drive, lay_course, run_program
from excitor.experiments.virtual.robot import QUIET, Settings, draw_truth
from excitor.identify.samples import Samples
from excitor.robots.base import random_motion
from excitor.robots.dynamics import mass_matrix
from excitor.robots.errors import ExcitorError
from excitor.robots.load import load
from excitor.robots.robot import Motion
from excitor.robots.simulate import Servo, dampings, follow, steady_servo, with_friction_width
from tests.meshes import UR5
from tests.plans import lines
from tests.random_arms import STEP, random_arm, tree_plan

SHORT = replace(QUIET, standing=(0.1, 0.1))


@pytest.mark.parametrize("seed", [3, 14, 25])
def test_random_trees_are_followed_without_chatter(seed):
    plan = tree_plan(seed, period=2.0)
    tracking = run_program(draw_truth(plan.robot, seed, Settings(standing=(0.1, 0.1))), plan, seed=0).tracking
    assert (tracking.error < tracking.allowed).all()
    assert tracking.chatter.max() < 1.0


def test_gains_of_the_largest_inertia_would_chatter_which_is_refused(monkeypatch):
    """A tree with light, coupled joints: the gains that a decoupled heavy arm would get shake it."""
    plan = tree_plan(3, period=2.0)
    monkeypatch.setattr(virtual_robot, "steady_servo", lambda servo, along, elsewhere: servo)
    with pytest.raises(ExcitorError, match="joint j[0-9] (chatters|is .* off its reference).*nothing was written"):
        run_program(draw_truth(plan.robot, 3, Settings(standing=(0.1, 0.1))), plan, seed=0)


def test_a_drive_that_is_too_weak_is_named():
    plan = tree_plan(14, period=2.0)
    limits = replace(plan.robot.limits, torque=np.where(np.arange(plan.robot.n_joints) == 1, 1.0, np.inf))
    weak = replace(plan, robot=replace(plan.robot, limits=limits))
    with pytest.raises(ExcitorError, match="j1 is at its limit of 1 N( m)? for .* % of the time; state more, or slow"):
        run_program(draw_truth(weak.robot, 14, SHORT), weak, seed=0)


def test_poles_are_those_of_simulated_loops():
    """The largest pole's modulus is the growth from step to step of a small deviation, stable or not."""
    robot = replace(random_arm(3), chi=np.where(np.arange(len(random_arm(3).chi)) < 60, random_arm(3).chi, 0.0))
    tree = replace(robot.mechanism, gravity=np.zeros(3))
    robot, n = replace(robot, mechanism=tree), robot.n_joints
    M = mass_matrix(robot, np.full((1, n), 0.3), robot.chi)
    inertia = np.diagonal(M[0])
    still = Motion(np.full((400, n), 0.3), np.zeros((400, n)), np.zeros((400, n)))
    for gain in (0.05, 1.0):
        omega = 2.0 * np.pi * 18.0 * np.sqrt(gain)
        servo = Servo(omega**2 * inertia, 2.0 * omega * inertia, 1000.0, velocity_filter=1e-3, lag=5e-4)
        pushed = replace(still, q=still.q + 1e-9 * (np.arange(400) > 0)[:, None])
        error = np.linalg.norm(follow(robot, pushed, servo, chi=robot.chi).motion.q - pushed.q, axis=1)
        grown = error[60] > error[5]
        assert grown == (dampings(servo, M).min() < 0.0)
    lowered = steady_servo(servo, M, mass_matrix(robot, random_motion(robot, 50).q, robot.chi))
    assert (lowered.kp < servo.kp).any()
    assert dampings(lowered, M).min() > 0.02


def plan_of(robot, swing=0.2, period=2.0):
    """A short motion about the middle of the limits."""
    n, rng = robot.n_joints, np.random.default_rng(0)
    low, high = (np.nan_to_num(x, posinf=1.0, neginf=-1.0) for x in robot.limits.position.T)
    center = 0.5 * (low + high)
    excitation = Excitation(period, STEP, (1, 2, 3), np.ones(n, dtype=bool), ramp=0.5, settle=0.1, hold=0.1, measured=1)
    a, b = swing * np.minimum(high - low, 1.0)[:, None] * rng.normal(size=(2, n, 3)) / np.arange(1, 4) ** 2
    body = periodic_run(excitation, center, a, b)
    return Plan("cell", "run", "identify", robot, lines(robot.joint_names, STEP, center, (center, 0.2)), body)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tx40", "palletiser", "five-bar", "delta", "tree", "ur5"])
def test_both_engines_take_the_same_torques_where_friction_is_smooth(name):
    """Within 1 % of each joint's rms torque, and 0.2 mrad: MuJoCo's steps are of first order."""
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install 'excitor[mujoco]'")
    if name == "ur5" and not UR5.is_file():
        pytest.skip("the public URDF files are not there")
    robot = random_arm(14) if name == "tree" else load(UR5 if name == "ur5" else name)
    plan = plan_of(with_friction_width(robot, 0.05), swing=0.05)
    truth = draw_truth(plan.robot, 2, SHORT)
    course = lay_course(plan, truth.settings, np.random.default_rng(0))
    ours, theirs = drive(truth, course), drive(truth, course, "mujoco")
    size = np.sqrt(np.mean(ours.torque_motor**2, axis=0))
    assert (np.sqrt(np.mean((ours.torque_motor - theirs.torque_motor) ** 2, axis=0)) < 0.01 * size).all()
    assert np.abs(ours.q - theirs.q).max() < 1e-3
    assert np.abs(ours.temperature - theirs.temperature).max() < 1e-3


def test_lossy_gears_and_dry_friction_of_both_engines():
    """Where joints turn, dry friction and what gears lose are the same; at rest MuJoCo's friction creeps."""
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install 'excitor[mujoco]'")
    plan = plan_of(load("kr150"), swing=0.04)
    truth = draw_truth(plan.robot, 2, SHORT)
    course = lay_course(plan, truth.settings, np.random.default_rng(0))
    ours, theirs = drive(truth, course), drive(truth, course, "mujoco")
    turning = (np.abs(ours.dq) > 0.02 * plan.robot.limits.velocity).all(axis=1)
    error, torque = (ours.torque_motor - theirs.torque_motor)[turning], ours.torque_motor[turning]
    assert turning.sum() > 100
    assert (np.linalg.norm(error, axis=0) < 0.03 * np.linalg.norm(torque, axis=0)).all()


def test_what_mujoco_cannot_simulate_is_a_sentence(monkeypatch):
    plan = plan_of(load("tx40"), swing=0.05)
    elastic = draw_truth(plan.robot, 2, replace(SHORT, resonance_hz=9.0))
    with pytest.raises(ExcitorError, match="elastic gears are not simulated in MuJoCo"):
        run_program(elastic, plan, seed=0, engine="mujoco")
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ExcitorError, match="pip install 'excitor\\[mujoco\\]'"):
        run_program(draw_truth(plan.robot, 2, SHORT), plan, seed=0, engine="mujoco")


def test_a_motion_that_mujoco_loses_is_one_sentence_and_no_file(monkeypatch, tmp_path, capfd):
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install 'excitor[mujoco]'")
    plan = plan_of(load("tx40"), swing=0.05)
    monkeypatch.setattr(machine, "fed_forward", lambda truth, robot, motion: np.full(motion.q.shape, 1e30))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExcitorError, match="got out of control after .* so nothing was written"):
        run_program(draw_truth(plan.robot, 2, SHORT), plan, seed=0, engine="mujoco")
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_a_stated_controller_is_the_one_simulated():
    robot = load("rotradi")
    motion = random_motion(robot, 50)
    run = Samples("run", motion, np.zeros(motion.q.shape), 250.0)
    assumed = tuned_servo(robot, [run], robot.chi, None)
    assert assumed.rate_hz == 1000.0
    gains = {"kp": [500.0, 400.0, 300.0], "kd": [20.0, 15.0, 10.0]}
    stated = tuned_servo(robot, [run], robot.chi, StatedController(**gains, rate_hz=500.0, feedforward="none"))
    assert (stated.kp.tolist(), stated.rate_hz, stated.feedforward) == (gains["kp"], 500.0, None)
    with pytest.raises(ExcitorError, match="kp has 2 entries and kd 2, expected 3, one for each of"):
        tuned_servo(robot, [run], robot.chi, StatedController(kp=[1.0, 1.0], kd=[1.0, 1.0]))
    with pytest.raises(ExcitorError, match="these gains make no stable loop of 1000 Hz"):
        tuned_servo(robot, [run], robot.chi, StatedController(kp=[1e9] * 3, kd=[1e6] * 3))
    with pytest.raises(ValueError, match="give kp and kd, with an entry for each joint, or bandwidth_hz"):
        StatedController(kp=[1.0])
