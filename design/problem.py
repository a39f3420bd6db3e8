"""The search problem: design variables -> a motion inside every joint's limits, its criterion, its constraints.

All functions are pure and work on a whole population at once. Design variables are scaled to about ±1: for each
moving joint where it swings about, then the amplitudes of its sines and cosines; for each joint that waits for a
pose, that pose. Constraints at the samples where they are nearly reached have slopes, for the last stage of a search.
"""

from dataclasses import dataclass

import numpy as np

from excitor.design.constraints.constraint import SEARCH, Constraint, Population, States, Trace
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.home import N_WAY
from excitor.design.criteria import Criterion, Model, values
from excitor.design.motion import Excitation, Run, periodic_run, ramp_waves, waves
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.robot import Motion, Robot

DRY_RUN = 0.15  # share of the amplitude that a dry run swings
N_SAMPLES = 192  # of a period, at least


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """Everything that evaluating a candidate needs; built by `build_problem`."""

    robot: Robot
    excitation: Excitation
    constraints: Constraints
    criterion: Criterion
    model: Model
    earlier: FloatArray  # (n_columns, n_columns): what runs before this one told already, in the same rows
    share: float  # rows that count for each sample of the grid
    pose: FloatArray  # (n_joints,): where joints stand that do not move; NaN: to be chosen
    n_period: int  # samples of the measured period; ramps follow, then what only must be clear
    basis: tuple[FloatArray, ...]  # orders 0, 1, 2 and, where jerk is limited, 3; (2 n_harmonics, n_samples)
    position: FloatArray  # (n_joints, 2): limits that hold between the samples too if they hold at them
    rates: tuple[FloatArray, ...]  # the same of velocity, acceleration, jerk, (n_joints,)
    amplitude: FloatArray  # (n_joints, 2 n_harmonics): what a variable of 1 stands for
    names: tuple[str, ...]  # of the constraints of `evaluate`

    @property
    def n_design(self) -> int:
        """Count the design variables."""
        moving = int(self.excitation.moving.sum())
        return moving * (1 + 2 * len(self.excitation.harmonics)) + int(np.isnan(self.pose).sum())

    def decode(self, X: FloatArray) -> "Candidates":
        """Turn design variables into motions within the joint limits."""
        return decode(self, X)

    def encode(self, candidates: "Candidates") -> FloatArray:
        """Turn motions into design variables."""
        return encode(self, candidates)

    def evaluate(self, candidates: "Candidates") -> "Evaluation":
        """Evaluate a population."""
        return evaluate(self, candidates)

    def start(self, n: int, random: np.random.Generator, _: float) -> "tuple[Candidates, Evaluation, int]":
        """Draw a first population; its evaluation, and what each of it cost."""
        first = feasible_start(self, n, random)
        return first, evaluate(self, first), 1

    def fitted(self, candidates: "Candidates", anchor: FloatArray | None) -> "tuple[Candidates, Evaluation]":
        """Scale motions towards the anchor, into the constraints; then evaluate them."""
        return fitted(self, candidates, anchor)


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Coefficients of a population, inside all joint limits."""

    center: FloatArray  # (n_candidates, n_joints)
    swing: FloatArray  # (n_candidates, n_joints, 2 n_harmonics): sines, then cosines


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """Evaluation of a population: the criterion, and constraints g ≤ 0 in shares of their limits."""

    value: FloatArray  # (n_candidates,)
    g: FloatArray  # (n_candidates, n_constraints)

    @property
    def violation(self) -> FloatArray:
        """Sum of the constraint violations, (n_candidates,)."""
        return np.asarray(np.maximum(self.g, 0.0).sum(axis=1))


def build_problem(
    robot: Robot,
    excitation: Excitation,
    *,
    constraints: Constraints,
    criterion: Criterion,
    model: Model,
    pose: FloatArray | None = None,
) -> Problem:
    """Collect a search problem; joints that do not move stand at `pose`, or where the search puts them.

    What earlier runs told, and how much a sample of this one counts, is put in by `replace(problem, earlier=, share=)`.
    """
    _check_limits(robot, excitation, constraints)
    still = np.where(excitation.moving, 0.0, np.nan if pose is None else pose)
    n_period = max(N_SAMPLES, 24 * excitation.harmonics[-1])
    limits, jerk_limited = constraints.limits, bool(np.isfinite(constraints.limits.jerk).any())
    basis = tuple(_basis(excitation, n_period, order) for order in range(4 if jerk_limited else 3))
    factor = float(np.cos(np.pi * excitation.harmonics[-1] / n_period))
    if excitation.ramp > 0.0:
        factor = min(factor, SEARCH.share)
    middle = limits.position.mean(axis=1)
    half = 0.5 * np.ptp(limits.position, axis=1)
    position = np.stack([middle - factor * half, middle + factor * half], axis=1)
    rates = tuple(factor * x for x in (limits.velocity, limits.acceleration, limits.jerk)[: len(basis) - 1])
    k = np.tile(np.asarray(excitation.harmonics) * excitation.omega, 2)
    reach = np.minimum(factor * half[:, None], rates[0][:, None] / k)
    for order, rate in enumerate(rates[1:], start=2):
        reach = np.minimum(reach, rate[:, None] / k**order)
    columns = len(model.columns)
    return Problem(
        robot=robot,
        excitation=excitation,
        constraints=constraints,
        criterion=criterion,
        model=model,
        earlier=np.zeros((columns, columns)),
        share=1.0,
        pose=still,
        n_period=n_period,
        basis=basis,
        position=position,
        rates=rates,
        amplitude=np.where(excitation.moving[:, None], reach, 0.0),
        names=tuple(row.name for item in constraints.searched(robot) for row in item.rows(robot)),
    )


def decode(problem: Problem, X: FloatArray) -> Candidates:
    """Turn design variables (n_candidates, n_design) into motions that keep every joint's limits.

    Each joint's swing is divided by the largest share of a limit it takes, if that is more than 1; then its centre
    is moved until the range holds.
    """
    raw = coefficients(problem, X)
    with np.errstate(invalid="ignore", divide="ignore"):
        swing_q = raw.swing @ problem.basis[0]
        high, low = np.maximum(swing_q.max(axis=2), 0.0), np.minimum(swing_q.min(axis=2), 0.0)
        width = problem.position[:, 1] - problem.position[:, 0]
        excess = np.maximum(1.0, (high - low) / width)
        for rate, basis in zip(problem.rates, problem.basis[1:], strict=True):
            excess = np.maximum(excess, np.abs(raw.swing @ basis).max(axis=2) / rate)
    swing = raw.swing / excess[:, :, None]
    center = np.clip(raw.center, problem.position[:, 0] - low / excess, problem.position[:, 1] - high / excess)
    return Candidates(np.where(problem.excitation.moving, center, raw.center), swing)


def coefficients(problem: Problem, X: FloatArray) -> Candidates:
    """Scale design variables to coefficients, whatever limits they break."""
    moving = problem.excitation.moving
    n_moving, n_waves = int(moving.sum()), problem.amplitude.shape[1]
    free = np.isnan(problem.pose)
    middle, half = problem.position.mean(axis=1), 0.5 * np.ptp(problem.position, axis=1)
    center = np.tile(np.where(free, 0.0, problem.pose), (len(X), 1))
    center[:, moving] = middle[moving] + half[moving] * X[:, :n_moving]
    center[:, free] = middle[free] + half[free] * np.clip(X[:, n_moving * (1 + n_waves) :], -1.0, 1.0)
    swing = np.zeros((len(X), moving.size, n_waves))
    swing[:, moving] = X[:, n_moving : n_moving * (1 + n_waves)].reshape(len(X), n_moving, n_waves)
    return Candidates(center, swing * problem.amplitude)


def encode(problem: Problem, candidates: Candidates) -> FloatArray:
    """Turn coefficients back into design variables, (n_candidates, n_design)."""
    moving, free = problem.excitation.moving, np.isnan(problem.pose)
    middle, half = problem.position.mean(axis=1), 0.5 * np.ptp(problem.position, axis=1)
    place = (candidates.center - middle) / half
    waves_of = candidates.swing[:, moving] / problem.amplitude[moving]
    return np.concatenate([place[:, moving], waves_of.reshape(len(place), -1), place[:, free]], axis=1)


def evaluate(problem: Problem, candidates: Candidates) -> Evaluation:
    """Evaluate criterion and constraints of a population."""
    q, dq, ddq = motions(problem, candidates)
    G = problem.earlier + problem.share * problem.model.grams(q, dq, ddq, problem.n_period)
    return Evaluation(values(problem.criterion, G), constraint_values(problem, candidates, q, dq, ddq))


def motions(problem: Problem, candidates: Candidates) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sample a population: the period, then the ramps; each (n_candidates, n_joints, n_samples)."""
    q = candidates.swing @ problem.basis[0] + candidates.center[:, :, None]
    return q, candidates.swing @ problem.basis[1], candidates.swing @ problem.basis[2]


def constraint_values(
    problem: Problem, candidates: Candidates, q: FloatArray, dq: FloatArray, ddq: FloatArray
) -> FloatArray:
    """Evaluate g ≤ 0 of everything that `decode` does not keep by itself, (n_candidates, n_constraints)."""
    population = population_of(problem, candidates, (q, dq, ddq))
    parts = [item.population(population) for item in problem.constraints.searched(problem.robot)]
    return np.concatenate(parts, axis=1) if parts else np.empty((len(q), 0))


def population_of(problem: Problem, candidates: Candidates, states: States | None = None) -> Population:
    """Collect what constraints need of a population."""
    states = motions(problem, candidates) if states is None else states
    return Population(problem.robot, states, problem.n_period, lambda: _quiet_places(problem, candidates, states[0]))


def run_of(problem: Problem, candidates: Candidates, k: int = 0) -> Run:
    """Build the run of candidate k."""
    n = len(problem.excitation.harmonics)
    swing = candidates.swing[k]
    names = problem.robot.joint_names
    return periodic_run(problem.excitation, candidates.center[k], swing[:, :n], swing[:, n:], names)


def candidates_of(runs: list[Run]) -> Candidates:
    """Convert periodic runs to a population."""
    series = [run.periodic for run in runs]
    return Candidates(
        np.array([one.center for one in series]),
        np.array([np.concatenate([one.sines, one.cosines], axis=1) for one in series]),
    )


def _quiet_places(problem: Problem, candidates: Candidates, q: FloatArray) -> list[FloatArray]:
    """List further poses of the robot: the dry run, and the straight way from home."""
    center = candidates.center[:, :, None]
    dry = center + DRY_RUN * (q[:, :, : problem.n_period : 4] - center)
    if problem.constraints.way is None:
        return [dry]
    return [dry, problem.constraints.way.way(candidates.center)]


def _basis(excitation: Excitation, n_period: int, order: int) -> FloatArray:
    steady = waves(excitation, excitation.grid(n_period), order)
    if excitation.ramp == 0.0:
        return steady
    n_ramp = max(16, round(n_period * excitation.ramp / excitation.period))
    t = np.linspace(0.0, excitation.ramp, n_ramp, endpoint=False)
    entering = ramp_waves(excitation, t, leaving=False, order=order)
    leaving = ramp_waves(excitation, t + excitation.ramp / n_ramp, leaving=True, order=order)
    return np.concatenate([steady, entering, leaving], axis=1)


def _check_limits(robot: Robot, excitation: Excitation, constraints: Constraints) -> None:
    if excitation.moving.size != robot.n_joints:
        raise ValueError(f"moving has {excitation.moving.size} joints, expected the robot's {robot.n_joints}")
    low, high = constraints.limits.position.T
    for j, name in enumerate(robot.joint_names):
        if not excitation.moving[j]:
            continue
        if not (np.isfinite(low[j]) and np.isfinite(high[j]) and low[j] < high[j]):
            raise ValueError(f"position limits of {name} are {low[j]:g} to {high[j]:g}, expected a finite range")
        rates = (constraints.limits.velocity[j], constraints.limits.acceleration[j], constraints.limits.jerk[j])
        if not min(rates) > 0.0:
            raise ValueError(f"limits of {name} leave no motion: {rates}; each must be positive")


_AMPLITUDES = (1.0, 0.6, 0.35, 0.2, 0.1, 0.05, 0.02)
_ROUNDS = 6


def feasible_start(problem: Problem, n: int, random: np.random.Generator) -> Candidates:
    """Draw n random motions inside the joints' limits, and shrink those that break another constraint.

    A motion that stays infeasible at every amplitude is drawn again about another pose in the next round. Motions still
    infeasible at the end are returned as they are: the search continues from them.
    """
    chosen = decode(problem, random.uniform(-1.0, 1.0, (n, problem.n_design)))
    if not problem.names:
        return chosen
    center, swing = chosen.center.copy(), chosen.swing.copy()
    open_ = np.arange(n)
    for _ in range(_ROUNDS):
        for amplitude in _AMPLITUDES:
            trial = Candidates(center[open_], amplitude * swing[open_])
            good = violation_of(problem, trial) <= 0.0
            swing[open_[good]] *= amplitude
            open_ = open_[~good]
            if not open_.size:
                return Candidates(center, swing)
        solved = np.setdiff1d(np.arange(n), open_)
        fresh = decode(problem, random.uniform(-1.0, 1.0, (open_.size, problem.n_design)))
        center[open_], swing[open_] = fresh.center, fresh.swing
        _gather(problem, center, open_, solved, random)
        inside = decode(problem, encode(problem, Candidates(center[open_], swing[open_])))
        center[open_], swing[open_] = inside.center, inside.swing
    return Candidates(center, swing)


def violation_of(problem: Problem, candidates: Candidates) -> FloatArray:
    """Sum of the candidates' constraint violations, (n_candidates,)."""
    g = constraint_values(problem, candidates, *motions(problem, candidates))
    return np.asarray(np.maximum(g, 0.0).sum(axis=1))


def _gather(
    problem: Problem, center: FloatArray, open_: IntArray, solved: IntArray, random: np.random.Generator
) -> None:
    """Move half of the open centres near ones that are known to be good, or near home."""
    some = open_[: (open_.size + 1) // 2]
    spread = 0.15 * np.ptp(problem.position, axis=1) * problem.excitation.moving
    if solved.size:
        near = center[random.choice(solved, some.size)]
    elif problem.constraints.home is not None:
        near = np.where(problem.excitation.moving, problem.constraints.home, center[some])
    else:
        return
    center[some] = near + spread * random.normal(size=near.shape)
    low, high = problem.position.T
    center[some] = np.where(problem.excitation.moving, np.clip(center[some], low, high), center[some])


_SAFE = (0.99, 0.99, 0.85, 0.7, 0.5)  # of the amplitude that interpolation promises, round after round
_STILL = 0.01  # amplitude that stands for standing still: friction has its sign already


def fitted(problem: Problem, candidates: Candidates, anchor: FloatArray | None) -> tuple[Candidates, Evaluation]:
    """Scale each motion towards the anchor, q → a + s (q - a), until it keeps all constraints; then evaluate it.

    s comes from interpolating each violated constraint between the anchor a (n_joints,), where all hold, and the
    motion. Violations that this does not remove stay.
    """
    q, dq, ddq = motions(problem, candidates)
    g = constraint_values(problem, candidates, q, dq, ddq)
    if anchor is None or not g.shape[1] or not (g > 0.0).any():
        return candidates, Evaluation(_values(problem, candidates), g)
    scale = np.ones(len(g))
    for safe in _SAFE:
        bad = np.flatnonzero((g > 0.0).any(axis=1))
        if not bad.size:
            break
        low = _at_anchor(problem, candidates, anchor, bad)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(g[bad] > 0.0, np.maximum(-low, 0.0) / (g[bad] + np.maximum(-low, 0.0)), 1.0)
        scale[bad] *= safe * share.min(axis=1)
        trial = drawn(candidates, anchor, scale, bad)
        g[bad] = constraint_values(problem, trial, *motions(problem, trial))
    chosen = drawn(candidates, anchor, scale, np.arange(len(g)))
    return chosen, Evaluation(_values(problem, chosen), g)


def drawn(candidates: Candidates, anchor: FloatArray, scale: FloatArray, which: IntArray) -> Candidates:
    """Scale chosen motions towards the anchor, each by its own factor."""
    s = scale[which]
    center = anchor + s[:, None] * (candidates.center[which] - anchor)
    return Candidates(center, s[:, None, None] * candidates.swing[which])


def _at_anchor(problem: Problem, candidates: Candidates, anchor: FloatArray, which: IntArray) -> FloatArray:
    """Evaluate constraints of the motions scaled to almost zero about the anchor, (n_which, n_constraints)."""
    still = drawn(candidates, anchor, np.full(len(candidates.center), _STILL), which[:1])
    return np.tile(constraint_values(problem, still, *motions(problem, still)), (which.size, 1))


def _values(problem: Problem, candidates: Candidates) -> FloatArray:
    G = problem.earlier + problem.share * problem.model.grams(*motions(problem, candidates), problem.n_period)
    return values(problem.criterion, G)


NEAR = -0.25  # samples further inside than this share of their limit are left out of a step
MOST = 12  # extremes of one limit; a box alone has six faces to touch
_STEP = 1e-6


@dataclass(frozen=True, eq=False, slots=True)
class ActiveRows:
    """Rows of one constraint that a search step keeps: each at a sample of it."""

    item: Constraint
    samples: IntArray  # (n,); of a mean over the period: 0
    rows: IntArray  # (n,)


@dataclass(frozen=True, eq=False, slots=True)
class Active:
    """Active constraints of a search step."""

    A: FloatArray  # (n_linear, n_design): joint limits at samples, A x + b ≤ 0
    b: FloatArray
    parts: tuple[ActiveRows, ...]  # of the other constraints, in their order

    @property
    def n_beyond_joints(self) -> int:
        """Count the rows that are not joint limits."""
        return sum(part.rows.size for part in self.parts)


@dataclass(frozen=True, eq=False, slots=True)
class _Places:
    """Samples that a constraint is evaluated at: states, and how they depend on coefficients."""

    states: States  # each (n, n_joints)
    center_share: FloatArray  # (n,): of the centre in q
    bases: tuple[FloatArray, ...]  # orders 0, 1, 2; (2 n_harmonics, n)


def active_set(problem: Problem, x: FloatArray, *, near: float = NEAR, most: int = MOST) -> Active:
    """Choose the samples at which limits are nearly reached: local extremes above `near`, the `most` worst of each.

    With near = -inf and most = 1 every limit has one row, at its worst sample, in an order that does not change.
    """
    candidate = coefficients(problem, x[None])
    A, b = _joint_rows(problem, candidate, near, most)
    parts = []
    for item in problem.constraints.searched(problem.robot):
        if item.per_period:
            rows = np.flatnonzero(item.means(problem.robot, _period(problem, candidate)) > near)
            parts.append(ActiveRows(item, np.zeros_like(rows), rows))
        else:
            states = _places_of(problem, item, candidate).states
            parts.append(ActiveRows(item, *_extremes(_share(problem, item, states), near, most)))
    return Active(A, b, tuple(parts))


def active_values(problem: Problem, active: Active, x: FloatArray) -> FloatArray:
    """Evaluate the chosen constraints g ≤ 0, (n,)."""
    values: list[FloatArray] = [active.A @ x + active.b]
    if active.n_beyond_joints:
        candidate = coefficients(problem, x[None])
        for part in active.parts:
            if part.item.per_period:
                values.append(part.item.means(problem.robot, _period(problem, candidate))[part.rows])
            else:
                places = _places_of(problem, part.item, candidate)
                values.append(_chosen(problem, part, _at(places.states, part.samples)))
    return np.concatenate(values)


def active_slopes(problem: Problem, active: Active, x: FloatArray) -> FloatArray:
    """Differentiate the chosen constraints by design variables, (n, n_design)."""
    if not active.n_beyond_joints:
        return active.A
    candidate = coefficients(problem, x[None])
    slopes = []
    for part in active.parts:
        if part.item.per_period:
            bars = part.item.mean_slopes(problem.robot, _period(problem, candidate), part.rows)
            slopes += [coefficient_slope(problem, bar)[None] for bar in bars]
        else:
            slopes.append(_sample_slopes(problem, part, _places_of(problem, part.item, candidate)))
    return np.concatenate([active.A, by_design(problem, np.concatenate(slopes))])


def _share(problem: Problem, item: Constraint, states: States) -> FloatArray:
    """Evaluate g of every row at given states, (n, n_rows)."""
    trace = Trace(problem.robot, Motion(*states))
    return item.violations(problem.robot, item.values(trace))


def _chosen(problem: Problem, part: ActiveRows, states: States) -> FloatArray:
    """Evaluate g of the chosen rows at the states of their samples, or at several copies of these, (n,)."""
    if not part.rows.size:
        return np.empty(0)
    rows = np.tile(part.rows, len(states[0]) // part.rows.size)
    return np.asarray(_share(problem, part.item, states)[np.arange(rows.size), rows])


def by_design(problem: Problem, slope: FloatArray) -> FloatArray:
    """Turn slopes by coefficients (n, n_joints, 1 + 2 n_harmonics) into slopes by design variables."""
    moving, free = problem.excitation.moving, np.isnan(problem.pose)
    half = 0.5 * np.ptp(problem.position, axis=1)
    swing = slope[:, moving, 1:] * problem.amplitude[moving]
    flat = swing.reshape(len(slope), swing.shape[1] * swing.shape[2])
    return np.concatenate([slope[:, moving, 0] * half[moving], flat, slope[:, free, 0] * half[free]], axis=1)


def coefficient_slope(problem: Problem, bars: States) -> FloatArray:
    """Turn slopes by the sampled period's q, dq, ddq, each (n_samples, n_joints), into slopes by coefficients."""
    n = problem.n_period
    swing = sum(bar.T @ basis[:, :n].T for bar, basis in zip(bars, problem.basis[:3], strict=True))
    return np.concatenate([bars[0].sum(axis=0)[:, None], np.asarray(swing)], axis=1)


def _joint_rows(problem: Problem, candidate: Candidates, near: float, most: int) -> tuple[FloatArray, FloatArray]:
    """Write joint limits at their extreme samples as A x + b ≤ 0, in shares of the limits."""
    n_joints, n_waves = problem.amplitude.shape
    swing = candidate.swing[0]
    width, middle = 0.5 * np.ptp(problem.position, axis=1), problem.position.mean(axis=1)
    slopes, offsets = [], []
    q = swing @ problem.basis[0] + candidate.center[0][:, None]
    kinds: list[tuple[FloatArray, FloatArray, FloatArray]] = [
        (side * (q - middle[:, None]) / width[:, None], side / width, problem.basis[0]) for side in (1.0, -1.0)
    ]
    for rate, basis in zip(problem.rates, problem.basis[1:], strict=True):
        kinds += [(side * (swing @ basis) / rate[:, None], side / rate, basis) for side in (1.0, -1.0)]
    for order, (share, factor, basis) in enumerate(kinds):
        samples, joints = _extremes(share.T - 1.0, near, most)
        for k, j in zip(samples, joints, strict=True):
            if not problem.excitation.moving[j]:
                continue
            slope = np.zeros((n_joints, 1 + n_waves))
            slope[j, 1:] = factor[j] * basis[:, k]
            if order < 2:
                slope[j, 0] = factor[j]
            slopes.append(slope)
            offsets.append(-1.0 - (factor[j] * middle[j] if order < 2 else 0.0))
    A = by_design(problem, np.array(slopes).reshape(-1, n_joints, 1 + n_waves))
    still = coefficients(problem, np.zeros((1, problem.n_design))).center[0]  # coefficients where x = 0
    b = np.array(offsets) + np.array([slope[:, 0] @ still for slope in slopes])
    return A, b


def _extremes(g: FloatArray, near: float, most: int) -> tuple[IntArray, IntArray]:
    """Find the local maxima over samples (rows) of each limit (column) that are above `near`: samples, limits."""
    padded = np.pad(g, ((1, 1), (0, 0)), constant_values=-np.inf)
    peak: BoolArray = (g >= padded[:-2]) & (g >= padded[2:]) & (g > near)
    ranked = np.where(peak, g, -np.inf)
    order = np.argsort(-ranked, axis=0)[:most]
    chosen = np.take_along_axis(ranked, order, axis=0) > -np.inf
    places, limits = np.nonzero(chosen)
    return order[places, limits].astype(np.int64), limits.astype(np.int64)


def _states(problem: Problem, candidate: Candidates) -> States:
    swing = candidate.swing[0]
    q = swing @ problem.basis[0] + candidate.center[0][:, None]
    return q.T, (swing @ problem.basis[1]).T, (swing @ problem.basis[2]).T


def _period(problem: Problem, candidate: Candidates) -> Motion:
    return Motion(*(x[: problem.n_period] for x in _states(problem, candidate)))


def _at(states: States, samples: IntArray) -> States:
    return states[0][samples], states[1][samples], states[2][samples]


def _places_of(problem: Problem, item: Constraint, candidate: Candidates) -> _Places:
    """List the samples of a constraint: the run's, and where it holds everywhere those of dry run and way, too."""
    if not item.everywhere:
        return _Places(_states(problem, candidate), np.ones(problem.basis[0].shape[1]), problem.basis)
    run = problem.basis[0]
    dry = DRY_RUN * run[:, : problem.n_period : 4]
    home = candidate.center[0] if problem.constraints.home is None else problem.constraints.home
    shares = np.linspace(0.0, 1.0, 0 if problem.constraints.home is None else N_WAY)
    basis = np.concatenate([run, dry, np.zeros((len(run), shares.size))], axis=1)
    center_share = np.concatenate([np.ones(run.shape[1] + dry.shape[1]), shares])
    q = (
        (candidate.swing[0] @ basis).T
        + candidate.center[0] * center_share[:, None]
        + home * (1.0 - center_share)[:, None]
    )
    zero = np.zeros_like(q)
    return _Places((q, zero, zero), center_share, (basis,))


def _sample_slopes(problem: Problem, part: ActiveRows, places: _Places) -> FloatArray:
    """Differentiate the chosen rows by the states of their samples, then by coefficients, (n, n_joints, 1 + 2 n_h)."""
    at, (n_joints, n_waves) = part.samples, problem.amplitude.shape
    J = np.zeros((at.size, n_joints, 1 + n_waves))
    if not at.size:
        return J
    chosen, copies = _at(places.states, at), 2 * n_joints
    for order in range(part.item.order + 1):
        moved = [np.tile(state, (copies, 1)) for state in chosen]
        moved[order] = _moved(chosen[order])
        by_state = _differences(_chosen(problem, part, (moved[0], moved[1], moved[2])), at.size)
        J[:, :, 1:] += by_state[:, :, None] * places.bases[order][:, at].T[:, None, :]
        if order == 0:
            J[:, :, 0] = by_state * places.center_share[at, None]
    return J


def _moved(x: FloatArray) -> FloatArray:
    """Step every entry of states (n, n_joints) up and down by itself: (2 n_joints n, n_joints)."""
    n_joints = x.shape[1]
    steps = _STEP * np.concatenate([np.eye(n_joints), -np.eye(n_joints)])
    return np.asarray((x[None, :, :] + steps[:, None, :]).reshape(-1, n_joints))


def _differences(found: FloatArray, n: int) -> FloatArray:
    """Form central differences of values at `_moved` states, (n, n_joints)."""
    up, down = np.split(found.reshape(-1, n), 2)
    return np.asarray((up - down).T / (2.0 * _STEP))
