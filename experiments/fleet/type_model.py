"""Type model: what arms of one type have in common, how far they scatter, and which arm is not one of them.

    y_i = μ + u_i + e_i,    u_i ~ N(0, B) between arms,    e_i ~ N(0, S_i) of arm i's identification

A random-effects model of the arms' identified parameters. Each parameter's B_jj makes Σ (y - μ)² / (B_jj + S_ijj) its
expectation ([Paule1982]); correlations are shrunk towards none ([Schafer2005]). An arm is tested in each parameter
against its type, alone and given its other parameters, as a deleted residual. Values beyond the limits do not count
for the model, and limits and model are found in turn, beginning from medians.
"""

from dataclasses import dataclass

import numpy as np
import scipy.stats

from excitor.robots.arrays import BoolArray, FloatArray, shaped

FALSE_ALARMS = 2e-4  # an arm, over all its parameters
FEWEST = 8  # arms of which a type is made
_ROUNDS = 20
_BISECTIONS = 60
_CONDITIONAL = 10  # arms a parameter, from which on a parameter is tested given the others
_STRANGE = 0.25  # of an arm's parameters beyond their limits: the arm counts in nothing
_SD = 1.4826  # of a normal distribution, a median absolute deviation


@dataclass(frozen=True, eq=False, slots=True)
@shaped(finite=False, values="n_arms n_params")
class ArmValues:
    """Identified parameters of arms; NaN where a parameter is not compared."""

    values: FloatArray  # (n_arms, n_params)
    covariances: FloatArray  # (n_arms, n_params, n_params), S_i

    @property
    def variances(self) -> FloatArray:
        """S_ijj, (n_arms, n_params)."""
        return np.diagonal(self.covariances, axis1=1, axis2=2).astype(float)


@dataclass(frozen=True, eq=False, slots=True)
class TypeModel:
    """Mean, scatter and limits of a type."""

    mean: FloatArray  # (n_params,), μ
    between: FloatArray  # (n_params, n_params), B
    within: FloatArray  # (n_params, n_params), mean of S_i
    scale: FloatArray  # (n_params,), observed over expected spread: below 1 where intervals are wider than the spread
    conditional_scale: FloatArray | None  # (n_params,); None: too few arms to judge a parameter given the others
    counts: FloatArray  # (n_params,), arms that each parameter is of
    limit: FloatArray  # (n_params,), in standard deviations; infinite where there are too few arms
    false_alarms: float

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of what is identified of a new arm of the type, (n_params,)."""
        total = np.diagonal(self.between) + np.diagonal(self.within)
        return self.scale * np.sqrt(total * (1.0 + 1.0 / np.maximum(self.counts, 1.0)))

    @property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """End-of-line limits of a new arm that is identified as well as the others, (n_params,) each."""
        known = np.isfinite(self.limit)
        half = np.where(known, np.where(known, self.limit, 0.0) * self.spread, np.inf)
        return self.mean - half, self.mean + half


@dataclass(frozen=True, eq=False, slots=True)
class ArmScores:
    """Deviations of arms from their type in standard deviations, NaN where not compared: (n_arms, n_params)."""

    alone: FloatArray
    given: FloatArray  # the other parameters; NaN where there are too few arms
    beyond: BoolArray

    def worst(self, k: int) -> int:
        """Return the parameter whose shift alone explains an arm best; -1 where none is compared."""
        scores = np.abs(np.where(np.isfinite(self.given[k]), self.given[k], self.alone[k]))
        known = np.where(np.isfinite(scores), scores, -1.0)
        known = np.where(self.beyond[k], known, -1.0) if self.beyond[k].any() else known
        return int(np.argmax(known)) if (known >= 0.0).any() else -1


def fit_type(arms: ArmValues, false_alarms: float = FALSE_ALARMS) -> tuple[TypeModel, ArmScores]:
    """Fit a type's model to its arms, and score each arm as if it were not one of those fitted to."""
    Y = arms.values
    use = np.isfinite(Y)
    kept = use & (np.abs(_robust(Y)) <= _limits(use, false_alarms))
    for _ in range(_ROUNDS):
        model = _fitted(arms, kept, false_alarms)
        scores = score(model, arms, kept)
        good = use & ~scores.beyond
        good[scores.beyond.sum(axis=1) > np.maximum(3.0, _STRANGE * use.sum(axis=1))] = False
        if np.array_equal(good, kept):
            break
        kept = good
    return model, scores


def score(model: TypeModel, arms: ArmValues, kept: BoolArray | None = None) -> ArmScores:
    """Score arms; those that the model was fitted to (`kept`) by their deleted residuals."""
    kept = np.zeros(arms.values.shape, dtype=bool) if kept is None else kept
    D = arms.values - model.mean
    expected = np.sqrt(np.diagonal(model.between) + arms.variances)
    alone = _deleted(D / (model.scale * expected), kept, model.counts)
    given = np.full(D.shape, np.nan)
    if model.conditional_scale is not None:
        given = _deleted(_conditional(model.between, arms, D) / model.conditional_scale, kept, model.counts)
    beyond = (np.abs(alone) > model.limit) | (np.abs(given) > model.limit)
    return ArmScores(alone, given, beyond)


def unit_deviations(model: TypeModel, arms: ArmValues) -> FloatArray:
    """Deviations of the arms from their type, shrunk by what is known of them: B (B + S_i)⁻¹ (y_i - μ)."""
    out = np.full(arms.values.shape, np.nan)
    for k, y in enumerate(arms.values):
        own = np.flatnonzero(np.isfinite(y))
        V = model.between[np.ix_(own, own)] + arms.covariances[k][np.ix_(own, own)]
        out[k, own] = model.between[np.ix_(own, own)] @ np.linalg.pinv(V, hermitian=True) @ (y - model.mean)[own]
    return out


def _limits(use: BoolArray, false_alarms: float) -> FloatArray:
    """Compute limits of deleted residuals, family-wise over an arm's parameters, tested twice where arms are many."""
    counts = use.sum(axis=0)
    tests = max(1, int(np.count_nonzero(counts >= FEWEST))) * (1 + _conditionally(counts))
    quantile = scipy.stats.t.isf(0.5 * false_alarms / tests, np.maximum(counts - 2, 1))
    return np.where(counts >= FEWEST, quantile, np.inf)


def _conditionally(counts: FloatArray) -> bool:
    enough = counts[counts >= FEWEST]
    return bool(len(enough)) and bool(enough.min() >= _CONDITIONAL * len(enough))


def _robust(Y: FloatArray) -> FloatArray:
    """Deviations from medians over median absolute deviations; 0 where nothing scatters."""
    D = Y - np.array([np.median(y[np.isfinite(y)]) if np.isfinite(y).any() else 0.0 for y in Y.T])
    size = np.array([_SD * np.median(np.abs(d[np.isfinite(d)])) if np.isfinite(d).any() else 0.0 for d in D.T])
    return np.where(size > 0.0, D / np.where(size > 0.0, size, 1.0), 0.0)


def _fitted(arms: ArmValues, kept: BoolArray, false_alarms: float) -> TypeModel:
    Y, S = np.where(kept, arms.values, 0.0), np.where(kept, arms.variances, 1.0)
    counts = kept.sum(axis=0).astype(float)
    mean, between = _paule_mandel(Y, S, kept)
    D = np.where(kept, Y - mean, 0.0)
    expected = between + S
    freedom = np.maximum(counts - 1.0, 1.0)
    scale = np.sqrt(np.sum(np.where(kept, D**2 / np.where(expected > 0.0, expected, 1.0), 0.0), axis=0) / freedom)
    scale = np.where(between > 0.0, 1.0, np.clip(scale, 1e-6, 1.0))
    within = _mean_covariance(arms, kept)
    B = _between(D / np.sqrt(np.where(expected > 0.0, expected, 1.0)), between, within, freedom)
    conditional = None
    if _conditionally(counts):
        found = np.where(kept, _conditional(B, arms, np.where(kept, D, np.nan)), np.nan)
        squares = np.nansum(found**2, axis=0) / np.maximum(np.isfinite(found).sum(axis=0) - 1, 1)
        conditional = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    return TypeModel(mean, B, within, scale, conditional, counts, _limits(kept, false_alarms), false_alarms)


def _paule_mandel(Y: FloatArray, S: FloatArray, kept: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance between arms of each parameter, (n_params,) each: Σ (y - μ)² / (B + S) = n - 1."""
    freedom = np.maximum(kept.sum(axis=0) - 1.0, 1.0)
    mean = Y.sum(axis=0) / np.maximum(kept.sum(axis=0), 1)
    high = np.sum(np.where(kept, (Y - mean) ** 2, 0.0), axis=0) / freedom
    low = np.zeros_like(high)

    def at(b: FloatArray) -> tuple[FloatArray, FloatArray]:
        weight = np.where(kept, 1.0 / np.maximum(b + S, 1e-300), 0.0)
        mu = np.sum(weight * Y, axis=0) / np.maximum(weight.sum(axis=0), 1e-300)
        return mu, np.sum(weight * (Y - mu) ** 2, axis=0)

    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        more = at(middle)[1] > freedom
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    found = np.where(at(np.zeros_like(low))[1] > freedom, 0.5 * (low + high), 0.0)
    return at(found)[0], found


def _mean_covariance(arms: ArmValues, kept: BoolArray) -> FloatArray:
    """Mean of S_i over the arms that count in both parameters."""
    total, number = np.zeros(arms.covariances.shape[1:]), np.zeros(arms.covariances.shape[1:])
    for C, own in zip(arms.covariances, kept, strict=True):
        both = own[:, None] & own
        total += np.where(both, C, 0.0)
        number += both
    return total / np.maximum(number, 1.0)


def _between(Z: FloatArray, between: FloatArray, within: FloatArray, freedom: FloatArray) -> FloatArray:
    """B from standardised deviations: shrunk correlations of the total, less what identification adds."""
    n = float(freedom.max()) + 1.0
    size = np.sqrt(np.maximum(np.sum(Z**2, axis=0), 1e-300))
    R = (Z / size).T @ (Z / size)
    unit = Z * np.sqrt(n) / size
    variance = (unit**2).T @ (unit**2) / n - ((unit.T @ unit) / n) ** 2
    off = ~np.eye(len(R), dtype=bool)
    squares = np.sum(R[off] ** 2)
    shrunk = float(np.clip(np.sum(variance[off]) / (n - 1.0) / squares, 0.0, 1.0)) if squares > 0.0 else 1.0
    R = np.where(off, (1.0 - shrunk) * R, 1.0)
    spread = np.sqrt(np.maximum(between + np.diagonal(within), 0.0))
    unit_size = np.where(spread > 0.0, spread, 1.0)
    excess = R - within / np.outer(unit_size, unit_size)
    excess = np.where(off, excess, between / unit_size**2)
    values, vectors = np.linalg.eigh(0.5 * (excess + excess.T))
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    stated = between / unit_size**2
    found = np.diagonal(positive)
    resize = np.sqrt(np.where(found > 0.0, stated / np.where(found > 0.0, found, 1.0), 0.0)) * unit_size
    made: FloatArray = positive * np.outer(resize, resize)
    return made


def _conditional(B: FloatArray, arms: ArmValues, D: FloatArray) -> FloatArray:
    """Score of a shift in one parameter alone, (V⁻¹ d)_j / √(V⁻¹)_jj with V = B + S_i."""
    out = np.full(D.shape, np.nan)
    for k, d in enumerate(D):
        own = np.flatnonzero(np.isfinite(d))
        if not len(own):
            continue
        V = B[np.ix_(own, own)] + arms.covariances[k][np.ix_(own, own)]
        size = np.sqrt(np.maximum(np.diagonal(V), 1e-300))
        P = np.linalg.pinv(V / np.outer(size, size), hermitian=True)
        out[k, own] = P @ (d[own] / size) / np.sqrt(np.maximum(np.diagonal(P), 1e-300))
    return out


def _deleted(r: FloatArray, kept: BoolArray, counts: FloatArray) -> FloatArray:
    """Compute deleted residuals: t-distributed whether the arm was among those fitted to or not."""
    n = np.maximum(counts, 4.0)
    inside = r / np.sqrt(1.0 - 1.0 / n)
    inside = inside * np.sqrt((n - 2.0) / np.maximum(n - 1.0 - inside**2, 1e-9))
    return np.where(kept, inside, r / np.sqrt(1.0 + 1.0 / n))
