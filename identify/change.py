"""Has a repeated process changed? Cycles are held against what healthy ones differ by, in memory that does not grow.

Each feature of a cycle follows a line that is slowly tracked, so that warming friction and the day's drift are no
change. The scatter about it is learned in the first cycles and tracked. A step is told by one cycle that cannot be
healthy, or by two that hardly can ([Hotelling1931]'s T² of each group of features); a slow drift of the load, which
the line would follow, by sums of deviations from a much slower reference ([Page1954]). The cycle after an alarm tells
whether the change has stayed, and then what it is: the first may have changed in its middle.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.identify.change_features import Group
from excitor.robots.arrays import BoolArray, FloatArray

LEARN = 20  # cycles, before anything is judged: at the start, and after a change
SURE = 1e-6  # probability of a healthy cycle, below which one alone is an alarm
SUSPECT = 5e-3  # ... below which the next one decides
PAIR = 1e-6  # of two suspicious ones together
ALLOWED, TOO_MUCH = 1.0, 20.0  # of the sums, in standard deviations: what each cycle may add freely, what is too much
_LEVEL, _TREND = 0.1, 0.005  # gains of the line ...
_WARMING = (0.3, 0.05)  # ... and those of friction, after a break
_MEMORY = 200.0  # cycles, of the scatter
_REFERENCE = 400.0  # cycles, of the slow reference
_CLIP = 3.0  # standard deviations a feature beyond which a cycle teaches no more

AlarmKind = Literal["step", "drift"]


@dataclass(frozen=True, eq=False, slots=True)
class Detector:
    """What has been learned of a process; `observe` makes the next one."""

    groups: tuple[Group, ...]
    seen: int  # cycles
    since: int  # cycles that the level is an average of
    first: FloatArray  # (n_learned, n_features): the cycles being learned from; none later
    level: FloatArray  # (n_features,)
    trend: FloatArray  # (n_features,), a cycle
    spread: FloatArray  # (n_features, n_features): of what cycles deviate from the line by
    worth: float  # cycles that the spread is known from
    reference: FloatArray  # (n_features,)
    wander: FloatArray  # (n_features,): variance about the reference
    sums: FloatArray  # (2, n_features): deviations upward and downward
    last: FloatArray  # (n_features,): how the cycle before deviated ...
    alike: FloatArray  # (n_features,): ... and the covariance of such neighbours: slow noise makes them alike
    suspected: BoolArray  # (n_groups,): in the cycle before
    stepped: bool  # whether the cycle before raised an alarm, which the next one confirms or not
    warming: int  # cycles for which friction is not judged: the robot has stood, and warms up again


@dataclass(frozen=True, eq=False, slots=True)
class Alarm:
    """A change that cannot be healthy."""

    kind: AlarmKind
    group: Group
    change: FloatArray  # (n_names,): of the group's features
    sigma: FloatArray  # (n_names,)
    surprise: float  # -log10 of the probability; of a drift, the sum over what is too much

    @property
    def sentence(self) -> str:
        """Say what changed most."""
        return _sentence(self)


@dataclass(frozen=True, eq=False, slots=True)
class Verdict:
    """What is thought of one cycle."""

    cycle: int  # from 1
    learning: bool
    deviation: FloatArray  # (n_features,): from the tracked line
    sigma: FloatArray  # (n_features,)
    surprise: FloatArray  # (n_groups,): -log10 of the probability that a healthy cycle deviates so
    alarms: tuple[Alarm, ...]  # the most surprising first
    confirmed: tuple[Alarm, ...] = ()  # after an alarm: what it is, now that a whole cycle shows it
    passed: bool = False  # after an alarm: this cycle is as before


def begin(groups: tuple[Group, ...]) -> Detector:
    """Know nothing yet."""
    n = groups[-1].first + len(groups[-1].names)
    zero = np.zeros(n)
    none = np.zeros(len(groups), dtype=bool)
    two = np.zeros((2, n))
    return Detector(
        groups, 0, 0, np.zeros((0, n)), zero, zero, np.eye(n), 0.0, zero, zero, two, zero, zero, none, False, 0
    )


def observe(detector: Detector, x: FloatArray, *, after_break: bool = False) -> tuple[Detector, Verdict]:
    """Take in a cycle's features (n_features,), and say what is thought of it.

    `after_break`: the robot stood before, so its friction has changed with its temperature and will change again.
    """
    if x.shape != detector.level.shape or not np.isfinite(x).all():
        raise ValueError(f"x has shape {x.shape}, expected {len(detector.level)} finite features")
    if detector.worth == 0.0:
        return _learn(detector, x)
    if after_break:
        detector = _cooled(detector, x)
    error = x - detector.level - detector.trend
    inflation = 1.0 + 1.0 / detector.since  # a level that is known from few cycles
    surprise = np.array([_surprise(detector, group, error, inflation) for group in detector.groups])
    if detector.warming:
        surprise = np.where([group.kind == "friction" for group in detector.groups], 0.0, surprise)
    steps = tuple(sorted(_steps(detector, error, surprise, inflation), key=lambda alarm: -alarm.surprise))
    sigma = np.sqrt(np.diag(detector.spread))
    verdict = Verdict(detector.seen + 1, False, error, sigma, surprise, ())
    if detector.stepped:
        if steps:
            return _anew(detector, x), replace(verdict, confirmed=steps)
        verdict = replace(verdict, passed=True)
    elif steps:
        return _held(detector), replace(verdict, alarms=steps)
    detector, drifts = _drifts(detector, x)
    if drifts:
        return _anew(detector, x), replace(verdict, alarms=tuple(drifts))
    return _tracked(detector, error, surprise), verdict


def _learn(detector: Detector, x: FloatArray) -> tuple[Detector, Verdict]:
    """Keep the first cycles; the last of them fits the line."""
    first = np.vstack([detector.first, x])
    n = len(first)
    nothing = np.zeros_like(x)
    detector = replace(detector, seen=detector.seen + 1)
    verdict = Verdict(detector.seen, True, nothing, nothing, np.zeros(len(detector.groups)), ())
    if n < LEARN:
        return replace(detector, first=first), verdict
    line = np.column_stack([np.ones(n), np.arange(n) - (n - 1)])
    fit, *_ = np.linalg.lstsq(line, first, rcond=None)
    rest = first - line @ fit
    rest = _clipped_columns(rest)
    spread = rest.T @ rest / (n - 2) * (1.0 + 4.0 / n)  # prediction doubts the line too
    return (
        replace(
            detector,
            since=n // 4,  # the end of a line is known like the mean of a quarter of its points
            first=first[:0],
            level=fit[0],
            trend=fit[1],
            spread=spread,
            alike=np.mean(rest[1:] * rest[:-1], axis=0),
            worth=float(n - 2),
            reference=fit[0],
            wander=4.0 * np.diag(spread),
        ),
        verdict,
    )


def _clipped_columns(rest: FloatArray) -> FloatArray:
    """Hold back cycles that deviate while healthy ones are learned."""
    scale = 1.4826 * np.median(np.abs(rest), axis=0)
    limit = np.where(scale > 0.0, _CLIP * scale, np.inf)
    return np.clip(rest, -limit, limit)


def _surprise(detector: Detector, group: Group, error: FloatArray, inflation: float) -> float:
    """-log10 of the probability that a healthy cycle's T² is as large: F-distributed, the spread being learned."""
    from scipy.special import fdtrc

    T2, p = _t2(detector, group, error)
    n = detector.worth
    if p == 0:
        return 0.0
    tail = float(fdtrc(p, n - p + 1.0, T2 / inflation * (n - p + 1.0) / (n * p)))
    return -float(np.log10(max(tail, 1e-300)))


def _t2(detector: Detector, group: Group, error: FloatArray) -> tuple[float, int]:
    """T² = eᵀ S⁻¹ e over the features that vary at all, and their number."""
    S, e = detector.spread[group.where, group.where], error[group.where]
    scale = np.sqrt(np.diag(S))
    varies = scale > 0.0
    if not varies.any():
        return 0.0, 0
    C = S[np.ix_(varies, varies)] / np.outer(scale[varies], scale[varies])
    shrunk = (C * detector.worth + 2.0 * np.eye(len(C))) / (detector.worth + 2.0)
    z = e[varies] / scale[varies]
    return float(z @ np.linalg.solve(shrunk, z)), len(z)


def _alikeness(detector: Detector, group: Group) -> float:
    """Tell the largest correlation of a feature with the cycle before, 0 to 1: then the mean of two is no surer."""
    variance = np.diag(detector.spread)[group.where]
    alike = detector.alike[group.where]
    return float(np.clip(np.divide(alike, variance, out=np.zeros_like(alike), where=variance > 0.0).max(), 0.0, 1.0))


def _steps(detector: Detector, error: FloatArray, surprise: FloatArray, inflation: float) -> list[Alarm]:
    """Tell which groups have stepped."""
    alarms = []
    for k, group in enumerate(detector.groups):
        change, told = error, surprise[k]
        alarmed = told > -np.log10(SURE)
        if not alarmed and detector.suspected[k] and told > -np.log10(SUSPECT):
            change = 0.5 * (error + detector.last)
            told = _surprise(detector, group, change, 0.5 * inflation * (1.0 + _alikeness(detector, group)))
            alarmed = told > -np.log10(PAIR)
        if alarmed:
            sigma = np.sqrt(np.diag(detector.spread)[group.where])
            alarms.append(Alarm("step", group, change[group.where], sigma, float(told)))
    return alarms


def _drifts(detector: Detector, x: FloatArray) -> tuple[Detector, list[Alarm]]:
    """Sum up how the load deviates from the slow reference, beyond what it wanders by."""
    deviation = x - detector.reference
    scale = np.sqrt(np.maximum(detector.wander, np.diag(detector.spread)))
    z = np.divide(deviation, scale, out=np.zeros_like(deviation), where=scale > 0.0)
    z = np.clip(z, -_CLIP, _CLIP)
    sums = np.maximum(detector.sums + np.stack([z, -z]) - ALLOWED, 0.0)
    alarms = []
    for group in detector.groups:
        highest = float(sums[:, group.where].max())
        if group.kind == "load" and highest > TOO_MUCH:
            alarms.append(Alarm("drift", group, deviation[group.where], scale[group.where], highest / TOO_MUCH))
    gain = 1.0 / min(_REFERENCE, detector.seen + 1.0)
    bounded = np.clip(deviation, -_CLIP * scale, _CLIP * scale)
    slow = 1.0 / _REFERENCE
    return (
        replace(
            detector,
            sums=sums,
            reference=detector.reference + gain * bounded,
            wander=detector.wander + slow * (bounded**2 - detector.wander),
        ),
        alarms,
    )


def _tracked(detector: Detector, error: FloatArray, surprise: FloatArray) -> Detector:
    """Let a cycle teach line and scatter: in part where it deviates, not at all where it is suspected anew."""
    suspected = surprise > -np.log10(SUSPECT)
    taught = error.copy()
    for k, group in enumerate(detector.groups):
        if suspected[k] and not detector.suspected[k]:
            taught[group.where] = 0.0
            continue
        T2, p = _t2(detector, group, error)
        if p and _CLIP**2 * p < T2:
            taught[group.where] *= _CLIP * np.sqrt(p / T2)
    level = np.full(len(error), max(_LEVEL, 1.0 / (detector.since + 1.0)))
    trend = np.full(len(error), _TREND)
    for group in detector.groups:
        if group.kind == "friction" and detector.warming:
            level[group.where], trend[group.where] = _WARMING
            taught[group.where] = error[group.where]
    memory = 1.0 / min(_MEMORY, detector.worth + 1.0)
    scatter = np.outer(taught, taught) * detector.since / (detector.since + 1.0)
    if detector.warming:
        scatter = detector.spread
    limit = _CLIP**2 * np.diag(detector.spread)
    return replace(
        detector,
        seen=detector.seen + 1,
        since=min(detector.since + 1, round(1.0 / _LEVEL)),
        level=detector.level + detector.trend + level * taught,
        trend=detector.trend + trend * taught,
        spread=detector.spread + memory * (scatter - detector.spread),
        worth=min(detector.worth + 1.0, _MEMORY),
        last=error,
        alike=detector.alike + memory * (np.clip(error * detector.last, -limit, limit) - detector.alike),
        suspected=suspected & ~detector.suspected,
        stepped=False,
        warming=max(0, detector.warming - 1),
    )


def _cooled(detector: Detector, x: FloatArray) -> Detector:
    """Let friction be what it is after a break, and not judge it while the robot warms up again."""
    level, trend = detector.level.copy(), detector.trend.copy()
    for group in detector.groups:
        if group.kind == "friction":
            level[group.where], trend[group.where] = x[group.where], 0.0
    return replace(detector, level=level, trend=trend, warming=LEARN)


def _held(detector: Detector) -> Detector:
    """After an alarm, wait for the next cycle: this one may be odd, or changed in its middle."""
    return replace(
        detector,
        seen=detector.seen + 1,
        level=detector.level + detector.trend,
        last=np.zeros_like(detector.last),
        suspected=np.zeros_like(detector.suspected),
        stepped=True,
    )


def _anew(detector: Detector, x: FloatArray) -> Detector:
    """After a change, take what is now for the new normal, and learn how its cycles differ: it may be otherwise."""
    return replace(begin(detector.groups), seen=detector.seen + 1, first=x[None])


def _sentence(alarm: Alarm) -> str:
    group = alarm.group
    if group.kind == "load":
        mass, center = alarm.change[3], alarm.change[:3]
        how = "stepped" if alarm.kind == "step" else "drifted slowly"
        if abs(mass) > 2.0 * alarm.sigma[3]:
            at = 1e3 * center / mass
            where = f", its centre at ({at[0]:.0f}, {at[1]:.0f}, {at[2]:.0f}) mm of the last link"
            where = where if (alarm.sigma[:3] > 0.0).all() else ""
            size = f"{abs(mass):.2g} kg {'more' if mass > 0.0 else 'less'} at the tool would{where}"
        else:
            size = f"a mass moved by ({', '.join(f'{c:.2g}' for c in center)}) kg m at the tool would"
        return f"torques have {how} as {size}"
    sigmas = np.abs(alarm.change) / np.where(alarm.sigma > 0.0, alarm.sigma, np.inf)
    k = int(np.argmax(sigmas))
    if group.kind == "friction":
        return (
            f"friction of {group.joint} has stepped: {group.names[k]} by {alarm.change[k]:+.3g} {group.units[k]}"
            f" ({sigmas[k]:.0f} sigma)"
        )
    factor = float(np.exp(alarm.change[0]))
    return (
        f"{group.joint} shows {factor:.2f} times the torque that neither load nor friction explains;"
        " look for vibration, a collision or wear"
    )
