"""Schedules: runs refer to runs that exist, locked runs tell what theory says, Gram matrices add up."""

import numpy as np
import pytest

from excitor.design.criteria import PowerModel
from excitor.design.motion import Excitation, periodic_run
from excitor.design.schedule import (
    RunPlan,
    checked,
    excited_columns,
    gentle_first,
    locked_sequence,
    moving_mask,
    payload_pair,
    plan_runs,
    run_constraints,
    subset,
    together,
    with_slow_runs,
)
from excitor.robots.base import base_parameters, random_motion
from excitor.robots.dynamics import power_regressor
from excitor.robots.gram import condition_number
from excitor.robots.load import load
from excitor.robots.robot import Motion
from tests.limits import from_robot

NAMES = ["together", "locked-sequence", "payload-pair", "gentle-first"]


@pytest.fixture(scope="module")
def robot():
    return load("tx40")


@pytest.fixture(scope="module")
def kept(robot):
    return base_parameters(robot).kept


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arm", ["tx40", "iiwa"])
def test_every_schedule_is_checked_and_says_why(arm, name):
    runs = plan_runs(load(arm), name)
    assert checked(runs) == runs
    assert all(len(run.note.split()) > 4 and run.note.endswith((".", "?")) for run in runs)
    assert any(run.role == "validate" and run.same_as is None for run in runs)


def test_together_ends_with_its_first_run_again(robot):
    warm_up, excitation, validation, again = together(robot)
    assert [run.role for run in (warm_up, excitation, validation, again)] == [
        "none",
        "identify",
        "validate",
        "validate",
    ]
    assert again.same_as == excitation.name


def test_locked_sequence_locks_one_joint_more_each_run(robot):
    runs = [run for run in locked_sequence(robot) if run.role == "identify"]
    assert [run.moving.tolist() for run in runs] == [[j >= k for j in range(6)] for k in range(6)]
    assert [run.name for run in runs[:3]] == ["all joints", "j1 locked", "j1 to j2 locked"]


def test_payload_runs_execute_one_motion(robot):
    runs = {run.name: run for run in payload_pair(robot, ["j3", "j4", "j5", "j6"])}
    assert [runs[name].payload for name in ("unloaded", "loaded")] == [None, "known"]
    assert runs["loaded"].same_as == "unloaded"
    assert runs["validation"].payload == "known", "nobody should have to take the payload off for it"


def test_gentle_runs_learn_one_from_another(robot):
    runs = [run for run in gentle_first(robot) if run.role == "identify"]
    assert [run.learns_from for run in runs] == [None, *(run.name for run in runs[:-1])]
    assert [run.share for run in runs] == sorted(run.share for run in runs)
    limits = run_constraints(runs[0], from_robot(robot)).limits
    assert limits.velocity == pytest.approx(0.3 * robot.limits.velocity)
    assert limits.position == pytest.approx(robot.limits.position)


def test_slow_runs_stand_after_the_warm_up(robot):
    runs = with_slow_runs(robot, together(robot), static=True, sweeps=True, joints=["j2"])
    assert [run.kind for run in runs[:4]] == ["warm-up", "static", "sweep", "excitation"]
    assert all(run.moving.tolist() == [False, True, False, False, False, False] for run in runs[1:3])


def test_joints_that_a_robot_locks_never_move():
    from dataclasses import replace

    arm = load("iiwa")
    arm = replace(arm, locked={2: 0.0})
    assert moving_mask(arm).tolist() == [True, True, False, True, True, True, True]
    with pytest.raises(ValueError, match="cannot move"):
        moving_mask(arm, [arm.joint_names[2]])
    assert sum(run.role == "identify" for run in locked_sequence(arm)) == 6


def test_locked_runs_show_their_own_links_only(robot, kept):
    """The energy h_k is constant when joints 1 to k stand still, and its columns vanish: block-triangular power."""
    names = np.array(base_parameters(robot).names)
    for k in range(1, 6):
        moving = np.arange(6) >= k
        held = dict.fromkeys(range(k), 0.3)
        W = power_regressor(robot, random_motion(robot, 200, held))[:, kept]
        norms = np.linalg.norm(W, axis=0)
        before = [i for i, column in enumerate(kept) if column < 10 * k]
        assert norms[before].max() < 1e-12 * norms.max(), names[before]
        columns = excited_columns(robot, moving, kept)
        assert set(columns) <= set(kept)
        assert np.isfinite(condition_number(power_regressor(robot, random_motion(robot, 400, held))[:, columns]))


def test_excited_columns_are_as_many_as_the_locked_robot_has_base_parameters(robot, kept):
    counts = []
    for k in range(6):
        moving = np.arange(6) >= k
        pose = np.full(6, 0.3)
        columns = excited_columns(robot, moving, kept, pose)
        assert len(columns) == len(base_parameters(robot, locked=dict.fromkeys(range(k), 0.3)))
        counts.append(len(columns))
    assert counts[0] == len(kept)
    assert counts == sorted(counts, reverse=True)


def test_weighted_power_counts_rows_by_their_noise(robot, kept):
    sigma = np.array([2.0, 2.0, 1.0, 0.5, 0.7, 0.5])
    motion = random_motion(robot, 60, {0: 0.2})
    model, plain = PowerModel(robot, kept, sigma), PowerModel(robot, kept)
    variance = np.mean(np.sum((motion.dq * sigma) ** 2, axis=1))
    assert model.observation(motion) ** 2 * variance == pytest.approx(plain.observation(motion) ** 2)
    states = (motion.q, motion.dq, motion.ddq)
    G = model.grams(*(np.ascontiguousarray(x.T)[None] for x in states), 60)[0]
    random = np.random.default_rng(0)
    bar = random.normal(size=G.shape) / np.sqrt(np.outer(np.diag(G), np.diag(G)).clip(1e-6))
    slopes = model.gradient(motion, bar)
    for order in range(3):
        step = 1e-6 * random.normal(size=motion.q.shape) * (np.abs(motion.dq) > 1e-3)
        values = []
        for sign in (1.0, -1.0):
            moved = [x + sign * step * (k == order) for k, x in enumerate(states)]
            W = model.observation(Motion(*moved))
            values.append(np.sum(W.T @ W * bar))
        assert 2.0 * np.sum(slopes[order] * step) == pytest.approx(values[0] - values[1], rel=1e-4)
    with pytest.raises(ValueError, match="6 positive standard deviations"):
        PowerModel(robot, kept, np.zeros(6))


def test_mistakes_are_sentences(robot):
    run = RunPlan("a", "excitation", np.ones(6, dtype=bool), "identify", "why")
    with pytest.raises(ValueError, match="two runs are called 'a'"):
        checked((run, run))
    with pytest.raises(ValueError, match="repeats 'b', which is not an earlier run"):
        checked((RunPlan("a", "excitation", run.moving, "identify", "why", same_as="b"),))
    with pytest.raises(ValueError, match="moves other joints"):
        checked((run, RunPlan("b", "excitation", np.arange(6) > 2, "identify", "why", same_as="a")))
    with pytest.raises(ValueError, match="moves no joint"):
        RunPlan("a", "excitation", np.zeros(6, dtype=bool), "identify", "why")
    with pytest.raises(ValueError, match="share of 1.5"):
        RunPlan("a", "excitation", run.moving, "identify", "why", share=1.5)
    with pytest.raises(ValueError, match="has no joint elbow"):
        subset(robot, ["elbow"])
    with pytest.raises(ValueError, match="needs the names"):
        subset(robot, [])
    with pytest.raises(ValueError, match="expected one of together"):
        plan_runs(robot, "all")
    with pytest.raises(ValueError, match="of all joints"):
        plan_runs(robot, "locked-sequence", ["j1"])


def test_a_fourier_run_has_the_rank_of_random_motions(robot):
    columns = excited_columns(robot, np.arange(6) >= 3, base_parameters(robot).kept)
    excitation = Excitation(8.0, 0.004, (1, 2, 3, 4, 5), np.arange(6) >= 3)
    swing = np.random.default_rng(1).normal(scale=0.3, size=(2, 6, 5)) * excitation.moving[:, None]
    motion = periodic_run(excitation, np.full(6, 0.4), *swing).periodic.motion(excitation.grid(400))
    assert isinstance(motion, Motion)
    assert np.isfinite(condition_number(PowerModel(robot, columns).observation(motion)))
