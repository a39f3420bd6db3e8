"""Whole campaigns, good and bad: identify, report, compare, status and export never disagree about a model."""

import json
import re

import numpy as np
import pytest

from excitor.experiments.campaign import open_campaign
from excitor.experiments.identification import identify, kept_back, read_and_examine
from excitor.identify.periods import repetition, same_motion
from tests.campaigns import write_campaign
from tests.verdicts import CAMPAIGNS, disagreements, rewrite, run, single_run

HEADLINES = {
    "good": "The model may be used",
    "true_prior": "Nothing learned beyond the prior model",
    "noisy_positions": "Do not use this model",
    "another_sign": "Do not use this model",
    "single_run": "Use this model with care",
    "reversed_joint": "",  # refused: there is no model
}


@pytest.mark.parametrize(
    "make", [pytest.param(make, marks=() if make in CAMPAIGNS[:2] else pytest.mark.slow) for make in CAMPAIGNS]
)
def test_all_verbs_say_the_same(tmp_path, make):
    make(tmp_path)
    wrong, headline = disagreements(tmp_path)
    assert not wrong
    assert headline == HEADLINES.get(make.__name__, headline)


def test_a_refusal_is_passed_over_by_its_name_and_stays_a_doubt(tmp_path):
    write_campaign(tmp_path, 12.0)
    rewrite(tmp_path / "logs" / "first.csv", lambda table: table[:, 5].__imul__(-1.0))
    refused = run("identify", tmp_path)
    assert refused.exit_code == 1
    assert not (tmp_path / "model.json").exists()
    allowed = []
    while refused.exit_code and not (tmp_path / "model.json").exists():  # one refusal may hide another
        allowed += str(refused.exception).split("excitor identify DIR ")[1].split()
        assert len(allowed) <= 8
        refused = run("identify", tmp_path, *allowed)
    model = json.loads((tmp_path / "model.json").read_text())
    assert any("allowed: " in finding["sentence"] for finding in model["findings"])
    assert model["verdict"]["go"] is not True


def test_a_motion_that_repeats_is_never_unseen(tmp_path):
    single_run(tmp_path)  # 25 s of a motion of 10 s
    parts = kept_back(read_and_examine(open_campaign(tmp_path)))
    assert len(parts.training) == len(parts.unseen) == 2
    learned = np.concatenate([part.motion.q for part in parts.training])
    for part in parts.unseen:
        nearest = [np.abs(learned - q).max(axis=1).min() for q in part.motion.q[::10]]
        assert np.median(nearest) > 0.02


def test_a_validation_run_of_the_same_motion_is_none(tmp_path):
    single_run(tmp_path)
    text = (tmp_path / "campaign.toml").read_text()
    log = re.search(r'log = "(.*)"', text[text.index("[[run]]") :])[1]
    late = f'[[run]]\nname = "again"\nlog = "{log}"\nrole = "validate"\nfrom_s = 15.0\n'
    (tmp_path / "campaign.toml").write_text(text.replace(f'log = "{log}"', f'log = "{log}"\nto_s = 15.0') + late)
    found = identify(open_campaign(tmp_path))
    assert found.held_out is None
    assert found.same_run is not None
    assert [(one.level, one.data["runs"]) for one in found.findings if one.what == "again"] == [
        ("doubtful", ("again",))
    ]
    assert found.verdict.go is None


def test_two_motions_are_one_at_whatever_time_logs_begin():
    t = np.arange(1500)[:, None] / 100.0
    q = np.sin(t * [0.9, 1.7]) + 0.5 * np.cos(t * [2.3, 0.4])
    assert same_motion(q, q[130:1100] + 1e-3)
    assert not same_motion(q, 1.2 * q[130:1100])
    assert not same_motion(q, q[::-1])


def test_repetitions_are_found_and_nothing_else_is_one():
    t = np.arange(2000) / 100.0
    once = np.column_stack([np.sin(0.7 * t) + 0.3 * np.sin(1.9 * t), np.cos(1.1 * t)])
    assert repetition(once) == 0
    again = np.column_stack([np.sin(2 * np.pi * t / 4), np.cos(2 * np.pi * t / 2)])
    assert repetition(again) == pytest.approx(400, abs=1)
    assert repetition(np.cumsum(np.random.default_rng(0).normal(size=(2000, 2)), axis=0)) == 0
    assert repetition(np.ones((50, 2))) == 0
