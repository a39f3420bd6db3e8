"""Backward selection by sensitivity: what leaves, what stays, and on which data that is decided."""

from dataclasses import replace

import numpy as np
import pytest

from excitor.identify.estimate import compress, ols
from excitor.identify.reduce import Rule, backward_selection
from excitor.identify.regression import Regression
from excitor.robots.errors import RankDeficient

NAMES = ("large", "medium", "unused", "tiny")


def equations(seed, n_samples=200, noise=0.05, truth=(2.0, -1.0, 0.0, 0.0)):
    """Two joints; columns of falling sensitivity, the last two without effect on any torque."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(2 * n_samples, 4)) * [3.0, 1.0, 0.5, 0.01]
    joint = np.repeat([0, 1], n_samples)
    sigma = np.array([1.0, 5.0])[joint] * noise
    return Regression(
        kind="dynamic",
        names=NAMES,
        units=("kg m2",) * 4,
        joint_names=("a", "b"),
        runs=("run",),
        W=W,
        y=W @ np.array(truth) + sigma * rng.normal(size=len(W)),
        joint=joint,
        run=np.zeros(len(W)),
        sample=np.tile(np.arange(n_samples), 2),
        variance=sigma**2 if noise else np.ones(len(W)),
    )


def rows(regression, chosen):
    fields = {name: getattr(regression, name)[chosen] for name in ("W", "y", "joint", "run", "sample", "variance")}
    return replace(regression, **fields)


def judged(acceptance):
    return equations(1) if acceptance == "validation" else None


@pytest.mark.parametrize("acceptance", ["training", "validation", "cross-validated"])
@pytest.mark.parametrize("weights", ["joint", "sample"])
def test_what_torques_do_not_show_leaves(acceptance, weights):
    reduction = backward_selection(equations(0), Rule(acceptance, weights=weights), judged(acceptance))
    assert reduction.estimate.names == ("large", "medium")
    assert reduction.removed == ("tiny", "unused")
    assert reduction.full.names == NAMES
    np.testing.assert_allclose(reduction.estimate.values, [2.0, -1.0], atol=0.02)  # σ is 0.002 and 0.005


def test_decisions_run_by_rising_sensitivity_and_name_the_joint_that_suffers():
    training = equations(0)
    decisions = backward_selection(training, Rule("training")).decisions
    assert [decision.name for decision in decisions] == ["tiny", "unused", "medium", "large"]
    assert [decision.kept for decision in decisions] == [False, False, True, True]
    assert [decision.sensitivity for decision in decisions] == sorted(np.abs(training.W).mean(axis=0))
    assert decisions[-1].joint == "a"  # the quieter joint, whose error grows by more


def test_ratios_are_of_each_joint_on_the_acceptance_data():
    """One decision recomputed by hand: refit on the training rows, mean absolute errors on the others."""
    training, validation = equations(0), equations(1)
    decision = backward_selection(training, Rule("validation", weights="sample"), validation).decisions[-1]
    weight = 1.0 / np.sqrt(training.variance)

    def errors(columns):
        beta = np.linalg.lstsq(training.W[:, columns] * weight[:, None], training.y * weight, rcond=None)[0]
        size = np.abs(validation.y - validation.W[:, columns] @ beta)
        return np.array([size[validation.joint == j].mean() for j in (0, 1)])

    ratio = errors([1]) / errors([0, 1, 2, 3])
    assert decision.name == "large"
    assert decision.ratio == pytest.approx(ratio.max(), rel=1e-9)


def test_any_joint_counts_not_all():
    """A parameter that only one joint needs stays; by the quantifier as printed it would leave."""
    base = equations(0)
    W = base.W.copy()
    W[base.joint == 1, 1] = 0.0
    training = replace(base, W=W, y=W @ np.array([2.0, -1.0, 0.0, 0.0]) + (base.y - base.W @ [2.0, -1.0, 0.0, 0.0]))
    assert "medium" in backward_selection(training, Rule("training")).estimate.names


def test_preset_parameters_are_not_tried():
    reduction = backward_selection(equations(0), Rule("training", essential=("tiny",)))
    assert reduction.estimate.names == ("large", "medium", "tiny")
    assert "tiny" not in [decision.name for decision in reduction.decisions]


def test_tolerance_decides():
    training = equations(0, noise=1.0)
    strict = backward_selection(training, Rule("training", tolerance=1.0))
    loose = backward_selection(training, Rule("training", tolerance=50.0, essential=("large",)))
    assert len(strict.estimate.names) > len(loose.estimate.names) == 1


def test_training_errors_hide_what_cross_validation_shows():
    """Few samples: the full model fits them well and predicts others badly."""
    training = equations(3, n_samples=6, noise=1.0)
    by_training = backward_selection(training, Rule("training"))
    crossed = backward_selection(training, Rule("cross-validated", folds=3))
    assert (crossed.full_error > by_training.full_error).all()


def test_cross_validation_predicts_each_segment_from_the_others():
    training = equations(0, n_samples=20, noise=1.0)
    reduction = backward_selection(training, Rule("cross-validated", folds=4, weights="sample"))
    size = np.empty(len(training))
    for k in range(4):
        out = training.sample // 5 == k
        part = rows(training, ~out)
        fit = ols(compress(part, 1.0 / np.sqrt(part.variance)))
        size[out] = np.abs(training.y[out] - training.W[out] @ fit.values)
    expected = [size[training.joint == j].mean() for j in (0, 1)]
    np.testing.assert_allclose(reduction.full_error, expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_exact_data_are_reduced_all_the_same(seed):
    """Errors of rounding do not decide."""
    reduction = backward_selection(equations(seed, noise=0.0), Rule("training", weights="sample"))
    assert reduction.estimate.names == ("large", "medium")


def test_order_of_rows_and_scale_of_torque_change_nothing():
    training = equations(0)
    expected = backward_selection(training, Rule("training"))
    shuffled = rows(training, np.random.default_rng(0).permutation(len(training)))
    scaled = replace(training, y=1e3 * training.y)
    for other in (shuffled, scaled):
        reduction = backward_selection(other, Rule("training"))
        assert reduction.removed == expected.removed
        np.testing.assert_allclose(
            [d.ratio for d in reduction.decisions], [d.ratio for d in expected.decisions], rtol=1e-9
        )


def test_condition_is_of_the_unweighted_columns():
    training = equations(0)
    reduction = backward_selection(training, Rule("training", weights="sample"))
    W = training.W[:, :2] / np.linalg.norm(training.W[:, :2], axis=0)
    assert reduction.estimate.condition == pytest.approx(np.linalg.cond(W), rel=1e-9)


@pytest.mark.parametrize(
    ("rule", "validation", "words"),
    [
        ({"acceptance": "test"}, False, "acceptance is 'test', expected one of training, validation, cross-validated"),
        ({"acceptance": "training", "tolerance": 0.05}, False, "such as 1.05 for 5 %"),
        ({"acceptance": "cross-validated", "folds": 1}, False, "folds is 1"),
        ({"acceptance": "validation"}, False, "no validation data are given"),
        ({"acceptance": "training"}, True, "would not be used"),
        ({"acceptance": "cross-validated"}, True, "would not be used"),
        ({"acceptance": "training", "essential": ("nothing",)}, False, "essential nothing"),
        ({"acceptance": "cross-validated", "folds": 300}, False, "200 samples, fewer than 300 folds"),
    ],
)
def test_wrong_calls_are_sentences(rule, validation, words):
    with pytest.raises(ValueError, match=words):
        backward_selection(equations(0), Rule(**rule), equations(1) if validation else None)


def test_weights_need_measured_variances():
    with pytest.raises(ValueError, match="nothing was measured repeatedly"):
        backward_selection(replace(equations(0), variance=None), Rule("training", weights="sample"))


def test_validation_must_have_the_same_parameters():
    other = replace(equations(1), names=("a", "b", "c", "d"))
    with pytest.raises(ValueError, match="different parameters"):
        backward_selection(equations(0), Rule("validation"), other)


def test_a_model_of_nothing_is_refused():
    noise = replace(equations(0), y=np.random.default_rng(5).normal(size=400))
    with pytest.raises(ValueError, match="every parameter could leave"):
        backward_selection(noise, Rule("training", tolerance=2.0))


def test_what_only_one_segment_shows_is_reported():
    training = equations(0)
    W = training.W.copy()
    W[training.sample >= 40, 3] = 0.0
    with pytest.raises(RankDeficient, match="without segment 1 of 5, .* no equation contains tiny") as caught:
        backward_selection(replace(training, W=W), Rule("cross-validated"))
    assert caught.value.names == ("tiny",)
