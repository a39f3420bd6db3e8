"""The faults' bench: it judges as people read, and a campaign of every kind goes through it."""

from dataclasses import replace

import pytest

from excitor.experiments.bench import faults
from excitor.experiments.bench.faults_campaigns import campaign, log_campaign
from excitor.experiments.bench.faults_named import WANTED, named
from excitor.experiments.program_logs import read_aligned
from excitor.experiments.virtual.faults import CHANNELS, FAULTS
from excitor.experiments.virtual.formats import declared_for
from excitor.identify.logs.csv_columns import ColumnMap

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


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_a_column_called_mark_is_the_marker(tmp_path, form):
    drawn = replace(campaign(3), target="csv", form=form)
    drawn = replace(drawn, plans=drawn.plans[:1], settings=replace(drawn.settings, dropped=0.0))
    (log,) = log_campaign(tmp_path, drawn)
    declared = ColumnMap.model_validate(declared_for("csv", drawn.robot, form))
    _, alignment = read_aligned(tmp_path, log, drawn.robot, declared=declared)
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
def test_healthy_campaigns_pass():
    for seed in (20_000, 20_002):
        judged = faults.judged(campaign(seed), None)
        assert judged.right, judged.told()
