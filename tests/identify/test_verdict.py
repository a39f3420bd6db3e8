"""One verdict: worse evidence never gives a better one, and each rule is tripped by its own case alone."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitor.identify.regression import Regression
from excitor.identify.verdict import (
    FEED_FORWARD,
    FRICTION,
    PAYLOADS,
    SIMULATION,
    Difference,
    Scores,
    block_samples,
    differences,
    percent,
    verdict,
)
from tests.verdicts import not_monotone, uses

GOOD = Scores(
    training=0.05,
    held_out=0.052,
    joints={"a": 0.04, "b": 0.06},
    gravity=0.6,
    prior=0.3,
    over_prior=Difference(-0.248, -0.26, -0.24),
    noise=0.05,
    loss=0.001,
    smallest_inertia=0.1,
)


def test_good_evidence_allows_all_uses():
    assert {name: use.go for name, use in uses(GOOD).items()} == dict.fromkeys(
        (FEED_FORWARD, SIMULATION, PAYLOADS, FRICTION), True
    )
    assert verdict(GOOD).headline == "The model may be used"


CASES = [  # what is wrong, the use that it is about, its verdict, words of the reason
    ({"objections": ("the log is of another robot",)}, FEED_FORWARD, False, "another robot"),
    ({"doubts": ("the clock drifts",)}, FEED_FORWARD, None, "clock drifts"),
    ({"held_out": None}, FEED_FORWARD, None, 'role = "validate"'),
    ({"same_run": True}, FEED_FORWARD, None, "same run"),
    ({"gravity": 0.052}, FEED_FORWARD, False, "gravity only"),
    ({"held_out": 1.0, "gravity": 2.0}, FEED_FORWARD, False, "zero torques"),
    ({"prior": 0.04, "over_prior": Difference(0.012, 0.01, 0.014)}, FEED_FORWARD, False, "beyond chance"),
    (
        {"prior": 0.05, "noise": 0.02, "over_prior": Difference(0.002, -0.01, 0.014)},
        FEED_FORWARD,
        None,
        "within chance",
    ),
    ({"held_out": 0.55, "prior": 0.9}, FEED_FORWARD, False, "hardly predicts"),
    ({"joints": {"a": 0.04, "b": 0.51}}, FEED_FORWARD, None, "torque of b"),
    ({"training": 0.025}, FEED_FORWARD, None, "worse where it was not fitted"),
    ({"loss": 0.2}, SIMULATION, None, "20 % more"),
    ({"loss": None, "refusal": "the solver stopped"}, SIMULATION, None, "the solver stopped"),
    ({"loss": None, "smallest_inertia": 0.0}, SIMULATION, False, "would diverge"),
    ({"loss": None, "in_amperes": True, "refusal": "no law"}, SIMULATION, False, "no law"),
    ({"in_amperes": True}, PAYLOADS, False, "nothing in kg"),
    ({"noise": 0.04}, PAYLOADS, None, "take up"),
    ({"open_friction": ("Fc3",)}, FRICTION, None, "Fc3"),
]


@pytest.mark.parametrize(("change", "use", "go", "words"), CASES, ids=[next(iter(case[0])) for case in CASES])
def test_each_rule_decides_for_its_own_reason(change, use, go, words):
    found = uses(replace(GOOD, **change))
    assert found[use].go is go
    assert words in " ".join(found[use].reasons)
    if use != FEED_FORWARD:
        assert found[FEED_FORWARD].go is True


def test_what_a_true_prior_is_better_by_is_the_estimates_own_spread():
    worse = replace(GOOD, held_out=0.06, prior=0.05, over_prior=Difference(0.010, 0.009, 0.011))
    assert verdict(worse).go is False
    assert verdict(replace(worse, spread=0.03)).go is None


def test_a_prior_at_the_noise_leaves_nothing_to_learn():
    found = verdict(replace(GOOD, prior=0.0515, over_prior=Difference(0.0005, -0.001, 0.002)))
    assert (found.go, found.learned) == (None, False)
    assert found.headline == "Nothing learned beyond the prior model"
    above = replace(GOOD, prior=0.054, over_prior=Difference(-0.002, -0.003, 0.002), noise=None)
    assert verdict(above).learned  # 5 % above what training leaves
    assert not verdict(replace(above, training=0.052)).learned


def test_worse_evidence_never_gives_a_better_verdict():
    wrong, seen = not_monotone(1000)
    assert not wrong
    assert len(seen) == 12  # every verdict on every use occurs


def test_differences_of_errors_are_found_in_blocks():
    rng = np.random.default_rng(1)
    n = 2000
    rows = np.arange(2 * n)
    torque = Regression(
        "dynamic", ("x",), ("",), ("a", "b"), ("run",), np.ones((2 * n, 1)), rng.normal(size=2 * n),
        joint=rows % 2, run=0 * rows, sample=rows // 2, variance=None,
    )  # fmt: skip
    noise = 0.1 * rng.normal(size=2 * n)
    itself, worse, alike = differences(torque, [noise, 1.2 * noise, 0.1 * rng.normal(size=2 * n)], 0)
    assert itself.value == itself.low == itself.high == 0.0
    assert worse.low > 0.0
    assert worse.value == pytest.approx(0.02, abs=0.002)
    assert alike.low < 0.0 < alike.high


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (None, "over 1000 %"), (np.inf, "over 1000 %"), (10.0, "over 1000 %"), (-10.0, "over 1000 %"), (9.99, "999 %"),
        (0.1, "10 %"), (0.0944, "9.4 %"), (-0.25, "-25 %"),
    ],
)  # fmt: skip
def test_percentages_have_two_digits(share, words):
    assert percent(share) == words


def test_sentences_begin_with_a_capital_and_keep_the_rest():
    assert uses(replace(GOOD, doubts=("kN m is the unit",)))[FEED_FORWARD].reasons[0] == "KN m is the unit."


def test_the_most_correlated_joint_decides_how_long_blocks_are(monkeypatch):
    blocks = [SimpleNamespace(block=x) for x in (3.0, 17.2, 5.0)]
    monkeypatch.setattr("excitor.identify.verdict.whiteness", lambda judging, residual: blocks)
    monkeypatch.setattr("excitor.identify.verdict.count_samples", lambda judging: 10**6)
    assert block_samples(None, None) == 18
