"""Model reduction: parameters that the data do not show, or that torques do not need, are removed one by one.

Essential parameters are selected by relative σ; models identified from a process by backward selection by sensitivity,
after what its motion does not show.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg

from excitor.identify.estimate import (
    By,
    Estimate,
    Factors,
    by_joint,
    column_spectrum,
    compress,
    merge,
    ols,
    select,
    sigma_floor,
    total,
    triangle,
    wls,
)
from excitor.identify.regression import Regression, pick_columns, pick_rows, segments
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, one_blas_thread, shaped
from excitor.robots.base import independent_columns
from excitor.robots.errors import RankDeficient

Acceptance = Literal["training", "validation", "cross-validated"]
Weights = Literal["joint", "sample"]
SEPARATE = 1e-5  # of a column's norm: what is left of it beside others, or it depends on them
EXACT = 1e-9  # of a joint's mean torque: errors below count as this, or the noise of rounding would decide


@dataclass(frozen=True, eq=False, slots=True)
class Essential:
    """The essential parameters, and the others in the order in which they left."""

    estimate: Estimate
    removed: tuple[str, ...]
    ratio: float


@one_blas_thread()
def essential(factors: Factors, *, ratio: float = 20.0, weighted: bool = True, by: By = "joint") -> Essential:
    """Remove the parameter with the largest relative σ and refit, until max / min relative σ < ratio.

    [Gautier2013] §II.C, ratio 10 to 30. Weights and σ are estimated anew at every step; `weighted=False` refits by
    ordinary least squares, as for a power model.
    """
    if not ratio > 1.0:
        raise ValueError(f"ratio is {ratio}, expected more than 1; 10 to 30 are usual")
    kept = np.ones(factors.n_columns, dtype=bool)
    removed: list[str] = []
    parts = by_joint(factors) if by == "joint" or not weighted else factors
    _ = wls(parts, by) if weighted else ols(parts)  # refuses what the data do not separate
    group = np.repeat(np.arange(len(parts.R)), parts.R.any(axis=2).sum(axis=1))
    rows, R = parts.R[parts.R.any(axis=2)], total(parts, np.ones(len(parts.R)))
    solved = scipy.linalg.lapack.dtrtrs  # scipy's own function takes longer to check than to solve
    while True:
        columns = np.append(np.flatnonzero(kept), factors.n_columns)
        system, plain = rows[:, columns], triangle(R[:, columns])
        beta = solved(plain[:-1, :-1], plain[:-1, -1])[0]
        if weighted:
            squares = np.bincount(group, (system @ np.append(-beta, 1.0)) ** 2, len(parts.R))
            T = triangle(system / np.sqrt(np.maximum(squares / parts.n_rows, sigma_floor(parts) ** 2))[group][:, None])
            beta = solved(T[:-1, :-1], T[:-1, -1])[0]
        else:
            T = plain
        inverse = scipy.linalg.lapack.dtrtri(T[:-1, :-1])[0]
        with np.errstate(divide="ignore"):
            relative = np.linalg.norm(inverse, axis=1) / np.abs(beta)
        if relative.max() < ratio * relative.min() or len(relative) == 1:
            part = select(factors, kept)
            return Essential(wls(part, by) if weighted else ols(part), tuple(removed), ratio)
        worst = columns[int(np.argmax(relative))]
        removed.append(factors.names[worst])
        kept[worst] = False


@dataclass(frozen=True, slots=True)
class Rule:
    """Criterion for removing parameters, and the weights of the refits."""

    acceptance: Acceptance
    tolerance: float = 1.05  # largest ratio of any joint's error to that of the full model
    essential: tuple[str, ...] = ()  # never tried
    weights: Weights = "joint"  # residual deviation of each joint in the full model, or measured variances
    folds: int = 5  # of cross-validation: stretches of time, as neighbouring samples tell the same

    def __post_init__(self) -> None:
        expected = ("training", "validation", "cross-validated")
        if self.acceptance not in expected:
            raise ValueError(f"acceptance is {self.acceptance!r}, expected one of {', '.join(expected)}")
        if not self.tolerance >= 1.0:
            raise ValueError(f"tolerance is {self.tolerance}, expected a ratio of at least 1, such as 1.05 for 5 %")
        if self.folds < 2:
            raise ValueError(f"folds is {self.folds}, expected at least 2")


@dataclass(frozen=True, slots=True)
class Decision:
    """One parameter's trial: kept if leaving it out raises some joint's error by more than the tolerance."""

    name: str
    sensitivity: float
    ratio: float  # largest over the joints
    joint: str  # where it is largest
    kept: bool


@dataclass(frozen=True, eq=False, slots=True)
@shaped(full_error="n_joints", error="n_joints")
class Reduction:
    """The reduced model, the full one it comes from, and every decision in order."""

    full: Estimate
    estimate: Estimate
    decisions: tuple[Decision, ...]
    rule: Rule
    full_error: FloatArray  # (n_joints,): mean absolute error on the acceptance data, N m or N
    error: FloatArray  # of the reduced model, likewise
    hidden: tuple[str, ...] = ()  # left before any trial: the motion shows them not at all, or only with others

    @property
    def removed(self) -> tuple[str, ...]:
        """Names of the removed parameters, in the order of removal."""
        return tuple(decision.name for decision in self.decisions if not decision.kept)


@one_blas_thread()
def backward_selection(training: Regression, rule: Rule, validation: Regression | None = None) -> Reduction:
    """Leave out parameters by rising sensitivity, each for good unless a joint's error grows beyond the tolerance.

    [Volkmann2020] Algorithm 1, with "any joint" in line 10, where "all joints" is printed. Sensitivities are the means
    of the columns' absolute values, in the parameters' own units, and do not change: parameters are tried once each.
    """
    _check(training, rule, validation)
    plain = compress(training)
    weights = _row_weights(training, plain, rule.weights)
    weighted = compress(training, weights)
    if rule.acceptance == "cross-validated":
        trials = _cross_trials(training, weights, rule.folds)
    else:
        trials = (_trial(weighted, training if validation is None else validation),)
    everything = np.ones(len(training.names), dtype=bool)
    decisions, included = _decide(training, trials, rule)
    return Reduction(
        full=_estimate(weighted, plain, everything, rule),
        estimate=_estimate(weighted, plain, included, rule),
        decisions=decisions,
        rule=rule,
        full_error=_errors(trials, everything),
        error=_errors(trials, included),
    )


@one_blas_thread()
def in_process(training: Regression, rule: Rule, validation: Regression | None = None) -> Reduction:
    """Reduce the model of a process that was not made to identify: first by what its motion does not show.

    Of columns that depend on one another the most sensitive stay, and stand for the others as well; the rest is
    decided by `backward_selection`.
    """
    kept = shown(training, rule.folds if rule.acceptance == "cross-validated" else 1)
    rule = replace(rule, essential=tuple(name for name in rule.essential if name in kept))
    judging = None if validation is None else pick_columns(validation, kept)
    found = backward_selection(pick_columns(training, kept), rule, judging)
    return replace(found, hidden=tuple(name for name in training.names if name not in kept))


def shown(regression: Regression, folds: int = 1) -> tuple[str, ...]:
    """Choose columns that are independent, without any of the segments of time too, by falling sensitivity."""
    fold, kept = segments(regression, folds), np.ones(len(regression.names), dtype=bool)
    order = np.argsort(-np.abs(regression.W).mean(axis=0), kind="stable")
    for left_out in range(folds):
        R = np.linalg.qr(regression.W[(fold != left_out) | (folds == 1)], mode="r")
        norms = np.linalg.norm(R, axis=0)
        there = [int(k) for k in order if kept[k] and norms[k] > EXACT * norms.max()]
        kept[:] = False
        kept[independent_columns(R / np.where(norms > 0.0, norms, 1.0), there, SEPARATE)[0]] = True
    return tuple(name for name, keep in zip(regression.names, kept, strict=True) if keep)


def by_repetitions(regression: Regression, estimate: Estimate) -> tuple[Estimate, FloatArray]:
    """Complete an estimate weighted by measured variances: residuals of each joint and run, and weights beside them.

    [Volkmann2020] eqs. (7) to (9). The weights (n_rows,) multiply rows that were divided by those residuals.
    """
    assert regression.variance is not None
    residual = regression.y - pick_columns(regression, estimate.names).W @ estimate.values
    sigma, groups = np.empty(len(residual)), {}
    for joint, run in np.unique(np.column_stack([regression.joint, regression.run]), axis=0).tolist():
        rows = (regression.joint == joint) & (regression.run == run)
        sigma[rows] = groups[joint, run] = max(float(np.sqrt(np.mean(residual[rows] ** 2))), np.finfo(float).tiny)
    return replace(estimate, method="wls", group_sigma=groups), sigma / np.sqrt(regression.variance)


@dataclass(frozen=True, eq=False, slots=True)
class _Trial:
    """Rows to predict, and the factors that the predicting model is fitted to."""

    factors: Factors
    W: FloatArray
    y: FloatArray
    joint: IntArray
    joints: IntArray  # (n_joints,), those that appear


def _check(training: Regression, rule: Rule, validation: Regression | None) -> None:
    unknown = [name for name in rule.essential if name not in training.names]
    if unknown:
        raise ValueError(f"essential {', '.join(unknown)} are not parameters of the model; it has {training.names}")
    if rule.acceptance == "validation" and validation is None:
        raise ValueError("acceptance is 'validation', but no validation data are given; give them, or cross-validate")
    if rule.acceptance != "validation" and validation is not None:
        raise ValueError(f"acceptance is {rule.acceptance!r}: validation data would not be used; leave them out")
    if validation is not None and validation.names != training.names:
        raise ValueError("validation and training are of different parameters; regress both on the same columns")


def _row_weights(training: Regression, plain: Factors, weights: Weights) -> FloatArray:
    if weights == "sample":
        if training.variance is None:
            raise ValueError("weights is 'sample', but nothing was measured repeatedly; weight by 'joint'")
        return np.asarray(1.0 / np.sqrt(training.variance))
    by_joint = {joint: deviation for (joint, _), deviation in wls(plain).group_sigma.items()}
    return np.array([1.0 / by_joint[int(joint)] for joint in training.joint])


def _trial(factors: Factors, judge: Regression) -> _Trial:
    return _Trial(factors, judge.W, judge.y, judge.joint, np.unique(judge.joint))


def _cross_trials(training: Regression, weights: FloatArray, folds: int) -> tuple[_Trial, ...]:
    """Build trials that predict each segment of time by a model fitted to all others."""
    for run in np.unique(training.run):
        length = int(training.sample[training.run == run].max()) + 1
        if length < folds:
            raise ValueError(f"run {training.runs[run]!r} has {length} samples, fewer than {folds} folds")
    fold = segments(training, folds)
    parts = [compress(pick_rows(training, fold == k), weights[fold == k]) for k in range(folds)]
    others = [merge(part for number, part in enumerate(parts) if number != k) for k in range(folds)]
    for k, factors in enumerate(others):
        try:
            ols(factors)
        except RankDeficient as error:
            raise RankDeficient(
                f"without segment {k + 1} of {folds}, the training data do not show every parameter: {error}; "
                "or accept on the training or on validation data",
                error.names,
            ) from error
    return tuple(_trial(factors, pick_rows(training, fold == k)) for k, factors in enumerate(others))


def _decide(training: Regression, trials: tuple[_Trial, ...], rule: Rule) -> tuple[tuple[Decision, ...], BoolArray]:
    """Try to remove each parameter that is not preset once; return the decisions, and the mask of those kept."""
    sensitivity = np.abs(training.W).mean(axis=0)
    included = np.ones(len(training.names), dtype=bool)
    reference = np.maximum(_errors(trials, included), EXACT * _mean_torque(trials))
    decisions = []
    for k in np.argsort(sensitivity, kind="stable"):
        if training.names[k] in rule.essential:
            continue
        without = included.copy()
        without[k] = False
        ratio = _errors(trials, without) / reference
        worst = int(np.argmax(ratio))
        kept = bool(ratio[worst] > rule.tolerance)
        included = included if kept else without
        joint = int(trials[0].joints[worst])
        name = training.joint_names[joint] if joint >= 0 else "power"
        decisions.append(Decision(training.names[k], float(sensitivity[k]), float(ratio[worst]), name, kept))
    return tuple(decisions), included


def _errors(trials: tuple[_Trial, ...], included: BoolArray) -> FloatArray:
    """Mean absolute prediction error of each joint over all trials, (n_joints,)."""
    joints = trials[0].joints
    sums, counts = np.zeros(len(joints)), np.zeros(len(joints))
    for trial in trials:
        beta = np.zeros(len(included))
        if included.any():
            beta[included] = ols(select(trial.factors, included)).values
        size = np.abs(trial.y - trial.W @ beta)
        place = np.searchsorted(joints, trial.joint)
        sums += np.bincount(place, size, len(joints))
        counts += np.bincount(place, minlength=len(joints))
    return np.asarray(sums / counts)


def _mean_torque(trials: tuple[_Trial, ...]) -> FloatArray:
    joint = np.concatenate([trial.joint for trial in trials])
    size = np.abs(np.concatenate([trial.y for trial in trials]))
    means = np.array([size[joint == j].mean() for j in trials[0].joints])
    return np.asarray(np.maximum(means, np.finfo(float).tiny / EXACT))


def _estimate(weighted: Factors, plain: Factors, included: BoolArray, rule: Rule) -> Estimate:
    """Fit the chosen columns; the condition number is that of the unweighted ones."""
    if not included.any():
        raise ValueError("every parameter could leave: the model predicts no better than none; lower the tolerance")
    spectrum = column_spectrum(total(select(plain, included), np.ones(len(plain.n_rows)))[:-1, :-1])
    settings: dict[str, float | str] = {"weights by": rule.weights, "acceptance": rule.acceptance}
    settings["tolerance"] = rule.tolerance
    return replace(
        ols(select(weighted, included)),
        method="backward selection",
        condition=float(spectrum[0] / spectrum[-1]),
        singular_values=spectrum,
        settings=settings,
    )
