"""The faults' bench: it judges as people read, and a campaign of every kind goes through it."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import faults
from excitor.experiments.align.align import align
from excitor.experiments.identification import examine
from excitor.experiments.log_formats import declared_for
from excitor.experiments.logs import read_plan
from excitor.experiments.virtual.machine import CHANNELS, FAULTS
from excitor.identify.diagnose import usable
from excitor.identify.logs.declared import ColumnMap
from tests.faults import WANTED, campaign, log_campaign, named, read_campaign
from tests.plans import lines

JOINTS = ("j1", "j2", "j11")
FLIPPED = replace(FAULTS["flipped-sign"], channel="torque", joints=(1,))
SAID = "run.csv: torque of joint j2 is -0.9 times what the prior model expects: its sign is reversed; reverse its sign"


def test_a_fault_is_named_only_by_its_cause_its_signal_and_its_joint():
    assert named(FLIPPED, JOINTS, SAID)
    assert not named(FLIPPED, JOINTS, "")
    assert not named(FLIPPED, JOINTS, SAID.replace("j2", "j1"))
    assert not named(replace(FLIPPED, joints=(0,)), JOINTS, SAID.replace("j2", "j11"))  # j1 is no part of j11
    assert not named(replace(FLIPPED, channel="position"), JOINTS, SAID)
    assert not named(FLIPPED, JOINTS, "run.csv: torque of joint j2 is 3 times what the prior model expects")
    assert not named(FLIPPED, JOINTS, f"run.csv: the drive of joint j2 is saturated\n{SAID}")  # the first is the cause
    assert not named(replace(FAULTS["stuck-joint"], joints=(1,)), JOINTS, SAID)
    swapped = replace(FAULTS["swapped-axes"], channel="all", joints=(0, 2))
    assert named(swapped, JOINTS, "log: positions of joints j1 and j11 are exchanged")
    assert not named(swapped, JOINTS, "log: positions of joints j1 and j2 are exchanged")
    slow = "log: the period took 2 times as long as planned: a speed slider at 50 %, most likely"
    assert named(FAULTS["half-speed"], JOINTS, slow)
    assert not named(FAULTS["half-speed"], JOINTS, slow.replace("50", "99.5"))


def test_every_fault_has_its_words_and_its_turn():
    assert set(WANTED) == set(FAULTS)
    turns = [list(FAULTS)[number % len(FAULTS)] for number in range(faults.INJECTED)]
    assert min(turns.count(name) for name in FAULTS) >= faults.INJECTED // len(FAULTS)
    for name, ways in CHANNELS.items():
        assert WANTED[name].channels is None or set(ways) <= set(WANTED[name].channels or ())


def test_campaigns_come_from_their_seeds():
    one, same, other = campaign(3), campaign(3), campaign(4)
    assert one.name == same.name
    assert (one.plans[0].start == same.plans[0].start).all()
    assert one.settings == same.settings
    assert one.settings != other.settings


@pytest.mark.parametrize("form", ["csv", pytest.param("npz", marks=pytest.mark.slow)])
def test_a_column_called_mark_is_the_marker(tmp_path, form):
    drawn = replace(campaign(3), target="csv", form=form)
    drawn = replace(drawn, plans=drawn.plans[:1], settings=replace(drawn.settings, dropped=0.0))
    (log,) = log_campaign(tmp_path, drawn)
    declared = ColumnMap.model_validate(declared_for("csv", drawn.robot, form))
    expected, measured, _ = read_plan(tmp_path, log, drawn.robot, declared)
    alignment = align(expected, measured, drawn.robot)
    told = {check.what: check.holds for check in alignment.checks}
    assert told["marks"]
    assert told["mark times"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FAULTS)), ids=list(FAULTS))
def test_each_fault_is_named(number):
    judged, _ = faults.injected(number + 9 * 500)
    assert judged.fault is not None
    assert judged.fault.name == list(FAULTS)[number]
    assert judged.right, judged.told()


@pytest.mark.slow
def test_an_exchange_is_seen_through_laws_of_currents_and_coupled_gears():
    for number in (27, 45):  # currents of drives apart by 20; motors whose torques a controller brought to the joints
        judged, _ = faults.injected(number)
        assert judged.right, judged.told()


@pytest.mark.slow
def test_a_drive_that_leaves_its_joint_behind_is_found_where_its_torque_hardly_changes():
    for number in (16, 124):
        judged, _ = faults.injected(number)
        assert judged.right, judged.told()


@pytest.mark.slow
def test_poses_held_and_slow_sweeps_are_rows_that_count(tmp_path):
    drawn = campaign(20_029)
    plan = next(plan for plan in drawn.plans if plan.body.series is None)
    reach = np.where(np.arange(drawn.robot.n_joints) % 2, 0.4, -0.4)
    moves = []
    for k, speed in enumerate((0.05, 0.3, 1.0)):
        there = plan.home + (1.0 if k % 2 == 0 else -1.0) * reach
        moves += [(there, 2.0, 0.5), (there, 1.2, 0.4, True)]
        ramps = 0.2 if speed < 1.0 else 0.1
        whole = plan.body.sample_time * round((0.8 / speed + ramps) / plan.body.sample_time)
        away = there + 2.0 * (plan.home - there) * speed * (whole - ramps) / 0.8
        moves.append((away, whole, ramps, True))
    held = replace(plan.body, segments=plan.body.segments[:8])
    sweeps = lines(held.joints, held.sample_time, held.end, *moves, (plan.home, 3.0, 1.0))
    mixed = replace(plan, run="mixed", body=held + sweeps)
    drawn = replace(drawn, plans=(plan, mixed))
    logs = log_campaign(tmp_path, drawn)
    poses, both = read_campaign(tmp_path, drawn, logs)
    assert usable(examine(drawn.robot, [poses, both]))
    assert poses.static
    assert both.static
    assert len(poses) == 8
    assert not poses.motion.dq.any()
    cruising = np.abs(both.motion.dq).max(axis=1) > 0.01
    assert np.count_nonzero(~cruising) == 4 + 3
    assert np.unique(np.round(np.abs(both.motion.dq[cruising]), 2)).tolist() == [0.05, 0.3, 1.0]
    assert not both.motion.ddq.any()


@pytest.mark.slow
def test_healthy_campaigns_pass():
    for seed in (20_002, 20_015):
        judged = faults.judged(campaign(seed), None)
        assert judged.right, judged.told()
