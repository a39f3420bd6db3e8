"""Change detection for a repeated process: cycles are compared with the scatter of healthy ones, in constant memory.

Each feature of a cycle follows a line that is slowly tracked, so that warming friction and the day's drift are no
change. The scatter about it is learned in the first cycles and tracked. A step is detected by one cycle that cannot be
healthy, or by two that hardly can ([Hotelling1931]'s T² of each group of features); a slow drift of the load, which
the line would follow, by sums of deviations from a much slower reference ([Page1954]). The cycle after an alarm
confirms whether the change persists, and identifies it: the first may have changed in its middle.

The features of a cycle are fitted changes of load and friction, and the residuals that remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.identify.estimate import triangle
from excitor.identify.regression import Regression, Rows, dynamic_regression
from excitor.identify.samples import Samples
from excitor.identify.signals import block_means
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.friction import friction_model
from excitor.robots.parameters import LINK_COMPONENTS, layout
from excitor.robots.robot import Robot

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


GroupKind = Literal["load", "friction", "unexplained"]
LOAD = ("MX", "MY", "MZ", "M")  # of a load, judged; its inertia is fitted beside them, but tells little
MOST_SAMPLES = 400  # of a cycle, where the campaign thins nothing: more are averaged in blocks
_RIDGE = 1e-6  # of a column's square: directions that a cycle does not show stay at 0
_NOTHING = 1e-9  # of the largest column: no more than rounding
_QUIET = 1e-3  # of sigma: residuals below are as good as none


@dataclass(frozen=True, slots=True)
class Group:
    """Features that are tested together."""

    kind: GroupKind
    joint: str  # "" of the load
    names: tuple[str, ...]
    units: tuple[str, ...]
    first: int

    @property
    def where(self) -> slice:
        """Slice of the group's features."""
        return slice(self.first, self.first + len(self.names))


@dataclass(frozen=True, eq=False, slots=True)
class Detector:
    """State of the detector; `observe` returns the next one."""

    groups: tuple[Group, ...]
    n_cycles: int  # cycles
    since: int  # cycles that the level is an average of
    first: FloatArray  # (n_learned, n_features): the cycles being learned from; none later
    level: FloatArray  # (n_features,)
    trend: FloatArray  # (n_features,), a cycle
    spread: FloatArray  # (n_features, n_features): of what cycles deviate from the line by
    effective_cycles: float  # cycles that the spread is known from
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
        """Sentence about the largest change."""
        return _sentence(self)


@dataclass(frozen=True, eq=False, slots=True)
class Verdict:
    """Assessment of one cycle."""

    cycle: int  # from 1
    learning: bool
    deviation: FloatArray  # (n_features,): from the tracked line
    sigma: FloatArray  # (n_features,)
    surprise: FloatArray  # (n_groups,): -log10 of the probability that a healthy cycle deviates so
    alarms: tuple[Alarm, ...]  # the most surprising first
    confirmed: tuple[Alarm, ...] = ()  # after an alarm: what it is, now that a whole cycle shows it
    passed: bool = False  # after an alarm: this cycle is as before


def begin(groups: tuple[Group, ...]) -> Detector:
    """Return the detector before its first cycle."""
    n = groups[-1].first + len(groups[-1].names)
    zero = np.zeros(n)
    none = np.zeros(len(groups), dtype=bool)
    two = np.zeros((2, n))
    first = np.zeros((0, n))
    return Detector(groups, 0, 0, first, zero, zero, np.eye(n), 0.0, zero, zero, two, zero, zero, none, False, 0)


def observe(detector: Detector, x: FloatArray, *, after_break: bool = False) -> tuple[Detector, Verdict]:
    """Update the detector with a cycle's features (n_features,), and assess the cycle.

    `after_break`: the robot stood before, so its friction has changed with its temperature and will change again.
    """
    if x.shape != detector.level.shape or not np.isfinite(x).all():
        raise ValueError(f"x has shape {x.shape}, expected {len(detector.level)} finite features")
    if detector.effective_cycles == 0.0:
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
    verdict = Verdict(detector.n_cycles + 1, False, error, sigma, surprise, ())
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
    detector = replace(detector, n_cycles=detector.n_cycles + 1)
    verdict = Verdict(detector.n_cycles, True, nothing, nothing, np.zeros(len(detector.groups)), ())
    if n < LEARN:
        return replace(detector, first=first), verdict
    line = np.column_stack([np.ones(n), np.arange(n) - (n - 1)])
    fit, *_ = np.linalg.lstsq(line, first, rcond=None)
    rest = first - line @ fit
    scale = 1.4826 * np.median(np.abs(rest), axis=0)
    limit = np.where(scale > 0.0, _CLIP * scale, np.inf)
    rest = np.clip(rest, -limit, limit)  # cycles that deviate while healthy ones are learned
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
            effective_cycles=float(n - 2),
            reference=fit[0],
            wander=4.0 * np.diag(spread),
        ),
        verdict,
    )


def _surprise(detector: Detector, group: Group, error: FloatArray, inflation: float) -> float:
    """-log10 of the probability that a healthy cycle's T² is as large: F-distributed, the spread being learned."""
    from scipy.special import fdtrc

    T2, p = _t2(detector, group, error)
    n = detector.effective_cycles
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
    shrunk = (C * detector.effective_cycles + 2.0 * np.eye(len(C))) / (detector.effective_cycles + 2.0)
    z = e[varies] / scale[varies]
    return float(z @ np.linalg.solve(shrunk, z)), len(z)


def _alikeness(detector: Detector, group: Group) -> float:
    """Return the largest correlation of a feature with the cycle before, 0 to 1; at 1 the mean of two is no surer."""
    variance = np.diag(detector.spread)[group.where]
    alike = detector.alike[group.where]
    return float(np.clip(np.divide(alike, variance, out=np.zeros_like(alike), where=variance > 0.0).max(), 0.0, 1.0))


def _steps(detector: Detector, error: FloatArray, surprise: FloatArray, inflation: float) -> list[Alarm]:
    """Return an alarm for each group that has stepped."""
    alarms = []
    for k, group in enumerate(detector.groups):
        change, weighted = error, surprise[k]
        alarmed = weighted > -np.log10(SURE)
        if not alarmed and detector.suspected[k] and weighted > -np.log10(SUSPECT):
            change = 0.5 * (error + detector.last)
            weighted = _surprise(detector, group, change, 0.5 * inflation * (1.0 + _alikeness(detector, group)))
            alarmed = weighted > -np.log10(PAIR)
        if alarmed:
            sigma = np.sqrt(np.diag(detector.spread)[group.where])
            alarms.append(Alarm("step", group, change[group.where], sigma, float(weighted)))
    return alarms


def _drifts(detector: Detector, x: FloatArray) -> tuple[Detector, list[Alarm]]:
    """Accumulate the load's deviations from the slow reference beyond its usual variation; return drift alarms."""
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
    gain = 1.0 / min(_REFERENCE, detector.n_cycles + 1.0)
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
    """Update line and scatter with a cycle: clipped where it deviates, unchanged where it is newly suspected."""
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
    memory = 1.0 / min(_MEMORY, detector.effective_cycles + 1.0)
    scatter = np.outer(taught, taught) * detector.since / (detector.since + 1.0)
    if detector.warming:
        scatter = detector.spread
    limit = _CLIP**2 * np.diag(detector.spread)
    return replace(
        detector,
        n_cycles=detector.n_cycles + 1,
        since=min(detector.since + 1, round(1.0 / _LEVEL)),
        level=detector.level + detector.trend + level * taught,
        trend=detector.trend + trend * taught,
        spread=detector.spread + memory * (scatter - detector.spread),
        effective_cycles=min(detector.effective_cycles + 1.0, _MEMORY),
        last=error,
        alike=detector.alike + memory * (np.clip(error * detector.last, -limit, limit) - detector.alike),
        suspected=suspected & ~detector.suspected,
        stepped=False,
        warming=max(0, detector.warming - 1),
    )


def _cooled(detector: Detector, x: FloatArray) -> Detector:
    """Reset the level of friction after a break, and do not test it while the robot warms up again."""
    level, trend = detector.level.copy(), detector.trend.copy()
    for group in detector.groups:
        if group.kind == "friction":
            level[group.where], trend[group.where] = x[group.where], 0.0
    return replace(detector, level=level, trend=trend, warming=LEARN)


def _held(detector: Detector) -> Detector:
    """After an alarm, wait for the next cycle: this one may be odd, or changed in its middle."""
    return replace(
        detector,
        n_cycles=detector.n_cycles + 1,
        level=detector.level + detector.trend,
        last=np.zeros_like(detector.last),
        suspected=np.zeros_like(detector.suspected),
        stepped=True,
    )


def _anew(detector: Detector, x: FloatArray) -> Detector:
    """After a change, restart from the present cycle as the new normal, and learn its scatter anew."""
    return replace(begin(detector.groups), n_cycles=detector.n_cycles + 1, first=x[None])


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


@dataclass(frozen=True, eq=False, slots=True)
class MonitoredRobot:
    """A robot with the model that its cycles are compared with."""

    robot: Robot
    beta: FloatArray  # (n_base,): the model's base parameters ...
    base: IntArray  # (n_base,): ... and their columns of the layout
    sigma: FloatArray  # (n_joints,): what the model leaves unexplained of torques
    columns: IntArray  # of all equations that are set up
    fitted: IntArray  # columns of load, friction and the load's inertia, of the layout
    offsets: IntArray  # joints whose friction has no offset of its own
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        freeze(self, beta="n_base", base="int: n_base", columns="int: n_columns", fitted="int: n_fitted")
        freeze(self, sigma=str(self.robot.n_joints), offsets="int: n_offsets")

    @property
    def n_features(self) -> int:
        """Number of features of a cycle."""
        return self.groups[-1].first + len(self.groups[-1].names)


def watched(robot: Robot, names: Sequence[str], values: FloatArray, sigma: FloatArray) -> MonitoredRobot:
    """Choose the features: the load at the tool, each joint's friction and offset, and its residual torque.

    `names` and `values` are the model's base parameters, `sigma` (n_joints,) the deviation of residual torques.
    """
    params = layout(robot)
    load = [10 * robot.tool.link + LINK_COMPONENTS.index(name) for name in LOAD] if robot.tool.link >= 0 else []
    groups = [Group("load", "", tuple(f"δ{name}" for name in LOAD), ("kg m",) * 3 + ("kg",), 0)] if load else []
    friction: list[int] = []
    offsets: list[int] = []
    first = len(load)
    for j, joint in enumerate(robot.joint_names):
        if j in robot.locked:
            continue
        own = _friction_of(robot, j, set(friction))
        friction += own
        terms = zip(robot.drive.friction, params.friction_columns, strict=True)
        has_offset = any(friction_model(term).shape == "constant" and column in own for term, column in terms)
        names_j, units_j = [params.names[k] for k in own], [params.units[k] for k in own]
        if not has_offset:
            offsets.append(j)
            names_j.append(f"offset of {joint}")
            units_j.append("N" if robot.mechanism.prismatic[j] else "N m")
        groups.append(Group("friction", joint, tuple(names_j), tuple(units_j), first))
        first += len(names_j)
    for j, joint in enumerate(robot.joint_names):
        if j not in robot.locked:
            groups.append(Group("unexplained", joint, (f"residual of {joint}",), ("log",), first))
            first += 1
    base = params.indices(list(names))
    inertia = list(range(load[0] - 6, load[0])) if load else []
    fitted = np.array([*load, *friction, *inertia], dtype=np.int64)
    columns = np.array(sorted({*base.tolist(), *fitted.tolist()}), dtype=np.int64)
    return MonitoredRobot(robot, values, base, sigma, columns, fitted, np.array(offsets, dtype=np.int64), tuple(groups))


def cycle_equations(what: MonitoredRobot, cycle: Samples, rows: Rows) -> Regression:
    """Build a cycle's equations in the base parameters, and in those of load and friction."""
    if rows.decimate is None and len(cycle) > MOST_SAMPLES:
        width = -(-len(cycle) // MOST_SAMPLES)
        rows = replace(rows, decimate=lambda x: block_means(x, width))
    return dynamic_regression(what.robot, [cycle], columns=what.columns, rows=rows)


def base_equations(what: MonitoredRobot, regression: Regression) -> tuple[FloatArray, FloatArray]:
    """Compress a cycle's weighted equations in the base parameters, R β = z: (n_base, n_base) and (n_base,)."""
    weight = 1.0 / what.sigma[regression.joint]
    W = regression.W[:, np.searchsorted(what.columns, what.base)]
    n = W.shape[1]
    R = triangle(np.column_stack([W * weight[:, None], regression.y * weight]))
    return R[:n, :n], R[:n, n]


def features(what: MonitoredRobot, regression: Regression) -> FloatArray:
    """Compute a cycle's features, (n_features,); 0 where it holds no information on one."""
    weight = 1.0 / what.sigma[regression.joint]
    joint = regression.joint
    base = np.searchsorted(what.columns, what.base)
    residual = (regression.y - regression.W[:, base] @ what.beta) * weight
    A = np.concatenate(
        [regression.W[:, np.searchsorted(what.columns, what.fitted)], joint[:, None] == what.offsets], axis=1
    )
    A *= weight[:, None]
    size = np.linalg.norm(A, axis=0)
    visible = size > _NOTHING * size.max(initial=1.0)
    A[:, visible] /= size[visible]
    A[:, ~visible] = 0.0
    change = np.linalg.solve(A.T @ A + _RIDGE * np.eye(A.shape[1]), A.T @ residual)
    left = residual - A @ change
    change[visible] /= size[visible]
    return _ordered(what, np.where(visible, change, 0.0), left, joint)


def _ordered(what: MonitoredRobot, change: FloatArray, left: FloatArray, joint: IntArray) -> FloatArray:
    """Arrange fitted changes and residuals in the order of the groups."""
    out = np.zeros(what.n_features)
    n_load = sum(len(group.names) for group in what.groups if group.kind == "load")
    out[:n_load] = change[:n_load]
    column, offset = n_load, len(what.fitted)
    for group in what.groups:
        j = what.robot.joint_names.index(group.joint) if group.joint else -1
        if group.kind == "friction":
            own = len(group.names) - int(j in what.offsets)
            out[group.first : group.first + own] = change[column : column + own]
            column += own
            if j in what.offsets:
                out[group.first + own] = change[offset]
                offset += 1
        elif group.kind == "unexplained":
            rows = left[joint == j]
            out[group.first] = np.log(np.sqrt(np.mean(rows**2)) + _QUIET) if len(rows) else 0.0
    return out


def _friction_of(robot: Robot, j: int, taken: set[int]) -> list[int]:
    """List the friction columns that act on a joint most, each once."""
    terms = zip(robot.drive.friction, layout(robot).friction_columns, strict=True)
    own = dict.fromkeys(column for term, column in terms if int(np.argmax(np.abs(term.acts))) == j)
    return [column for column in own if column not in taken]
