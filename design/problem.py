"""The search problem: design variables -> a motion inside every joint's limits, its criterion, its constraints.

Populations are evaluated at once, by pure functions. Design variables are scaled to about ±1: for each moving joint
where it swings about, then the amplitudes of its sines and cosines; for each joint that waits for a pose, that pose.

A descent minimises the smoothed criterion (`Objective`). The criterion of a sampled motion jumps where a joint's
reversal passes a sample, and the slope of a true sign is 0, so that the columns of dry friction look as if no motion
changed them. Here s(v) = tanh(v / w), with w a share of what a joint's velocity usually changes from one sample to the
next; `Fidelity` is how fine grid, sign and criterion are. Judgements use true signs (`Problem.finer`). The gradient
passes through the repair that `decode` makes. Other constraints enter by J = log criterion + ρ Σ max(0, g + s)², over
the local extremes of each limit; s shifts a limit that a descent has overrun before (the method of multipliers).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from excitor.design.constraints.constraint import SEARCH, Constraint, Population, States, Trace
from excitor.design.constraints.constraints import N_WAY, Constraints
from excitor.design.criteria import Criterion, DeclaredModel, DynamicModel, Model, gradient, values
from excitor.design.motion import Excitation, Run, periodic_run, ramp_waves, waves
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.errors import AssemblyError
from excitor.robots.friction import has_true_sign
from excitor.robots.gram import GramOf
from excitor.robots.kernel import descent as kernel
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

N_SAMPLES = 192  # of a period, at least
JUDGED = 4  # samples of a judgement for one of the search's
POINT_COST = 3  # evaluations that a point takes, its gradient included
DRY_RUN = 0.15  # share of the amplitude that a dry run swings
UNBOUNDED = 50.0  # stands for the logarithm of an infinite criterion
RESERVE = 2e-4  # of each limit: a descent ends on a constraint's edge, or a little beyond
MOST = 6  # extremes of one limit that count; a box alone has six faces to touch
_STEP = 1e-6
_RESTORING = 20  # rounds of a restoration
_USUAL = 3.0  # harmonic of a motion's usual acceleration
_MIRRORED = 7  # moving joints, at most, whose mirrors are sought: each has 2ⁿ - 1 candidates
_SIMILAR = 0.01  # of the criterion's logarithm, that a mirror may change
NEAR = 0.12  # of a half range, within which a limit of a joint is a constraint of a descent
_EVERY = 3  # sample at which it is
_BETWEEN = 2e-3  # of a half range, left for the samples between
_NICHE = 0.35 / np.sqrt(66.0)  # times √n_design: nearer ones are the same motion


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Coefficients of a population, inside all joint limits."""

    center: FloatArray  # (n_candidates, n_joints)
    swing: FloatArray  # (n_candidates, n_joints, 2 n_harmonics): sines, then cosines

    def some(self, which: IntArray | BoolArray | list[int] | slice) -> "Candidates":
        """Choose some of them."""
        return Candidates(self.center[which], self.swing[which])


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Join several populations."""
    return Candidates(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("center", "swing")))


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """Evaluation of a population: the criterion, and constraints g ≤ 0 in shares of their limits."""

    value: FloatArray  # (n_candidates,)
    g: FloatArray  # (n_candidates, n_constraints)

    @property
    def violation(self) -> FloatArray:
        """Sum of the constraint violations, (n_candidates,)."""
        return np.asarray(np.maximum(self.g, 0.0).sum(axis=1))


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How finely a descent sees the criterion and its constraints, and how long it lasts."""

    samples: float  # of the period, in shares of the problem's grid
    width: float  # of a smoothed sign, in shares of one sample's usual change of velocity
    softness: float  # exponent p of the condition number
    weight: float  # ρ of violated constraints
    iterations: int
    tolerance: float  # relative decrease of J at which a descent ends
    quadratic: int = 0  # iterations with the joints' limits as linear constraints instead, where that is worth it


@dataclass(frozen=True, eq=False, slots=True)
class Genes:
    """What each design variable is, and which maps of all of them change nothing (or almost)."""

    joint: IntArray  # (n_design,)
    wave: IntArray  # (n_design,): a harmonic's number; -1 of centres, poses and constants
    sines: IntArray  # (n_moving, n_harmonics), indices; without rows where a shift in time has no such form
    cosines: IntArray
    harmonics: FloatArray  # (n_harmonics,)
    signs: FloatArray  # (n_maps, n_design): x → sign x + offset; the first one is the identity
    offsets: FloatArray
    weight: FloatArray  # (n_design,): 0 of centres that do not matter

    @property
    def radius(self) -> float:
        """Distance below which two motions are the same."""
        return float(_NICHE * np.sqrt(self.joint.size))

    def phasors(self, X: FloatArray) -> FloatArray:
        """Write waves as q = Re Σ z exp(i k θ), (..., n_moving, n_harmonics)."""
        return np.asarray(X[..., self.cosines] - 1j * X[..., self.sines])

    def shifted(self, x: FloatArray, phase: float) -> FloatArray:
        """Shift a motion in time, by a phase of the fundamental."""
        z, out = self.phasors(x) * np.exp(1j * self.harmonics * phase), x.copy()
        out[self.cosines], out[self.sines] = z.real, -z.imag
        return out


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

    @property
    def point_cost(self) -> int:
        """Evaluations that a point of a descent takes, its gradient included."""
        return POINT_COST

    def coefficients(self, X: FloatArray) -> Candidates:
        """Scale design variables to coefficients, whatever limits they break."""
        moving = self.excitation.moving
        n_moving, n_waves = int(moving.sum()), self.amplitude.shape[1]
        free = np.isnan(self.pose)
        middle, half = self.position.mean(axis=1), 0.5 * np.ptp(self.position, axis=1)
        center = np.tile(np.where(free, 0.0, self.pose), (len(X), 1))
        center[:, moving] = middle[moving] + half[moving] * X[:, :n_moving]
        center[:, free] = middle[free] + half[free] * np.clip(X[:, n_moving * (1 + n_waves) :], -1.0, 1.0)
        swing = np.zeros((len(X), moving.size, n_waves))
        swing[:, moving] = X[:, n_moving : n_moving * (1 + n_waves)].reshape(len(X), n_moving, n_waves)
        return Candidates(center, swing * self.amplitude)

    @property
    def everywhere(self) -> tuple[FloatArray, FloatArray]:
        """Samples of run, dry run and way from home: shares of the centre in them, and the waves (2 n_h, n)."""
        dry = DRY_RUN * self.basis[0][:, : self.n_period : 4]
        way = np.linspace(0.0, 1.0, 0 if self.constraints.home is None else N_WAY)  # from 0 (home) to 1 (the start)
        still = np.zeros((len(dry), way.size))
        shares = np.concatenate([np.ones(self.basis[0].shape[1] + dry.shape[1]), way])
        return shares, np.concatenate([self.basis[0], dry, still], axis=1)

    def decode(self, X: FloatArray) -> Candidates:
        """Turn design variables (n_candidates, n_design) into motions that keep every joint's limits.

        Each joint's swing is divided by the largest share of a limit it takes, if that is more than 1; then its centre
        is moved until the range holds.
        """
        raw = self.coefficients(X)
        high, low, share = reach(self, raw.swing)
        excess = np.maximum(1.0, share)
        swing = raw.swing / excess[:, :, None]
        center = np.clip(raw.center, self.position[:, 0] - low / excess, self.position[:, 1] - high / excess)
        return Candidates(np.where(self.excitation.moving, center, raw.center), swing)

    def encode(self, candidates: Candidates) -> FloatArray:
        """Turn coefficients back into design variables, (n_candidates, n_design)."""
        moving, free = self.excitation.moving, np.isnan(self.pose)
        middle, half = self.position.mean(axis=1), 0.5 * np.ptp(self.position, axis=1)
        place = (candidates.center - middle) / half
        waves_of = candidates.swing[:, moving] / self.amplitude[moving]
        return np.concatenate([place[:, moving], waves_of.reshape(len(place), -1), place[:, free]], axis=1)

    def evaluate(self, candidates: Candidates) -> Evaluation:
        """Evaluate criterion and constraints of a population."""
        states = motions(self, candidates)
        G = self.earlier + self.share * self.model.grams(*states, self.n_period)
        return Evaluation(values(self.criterion, G), constraint_values(self, candidates, states))

    def objective(self, fidelity: Fidelity) -> "Objective":
        """Build what a descent minimises, with its gradient."""
        return Objective(self, fidelity)

    @property
    def genes(self) -> Genes:
        """What each design variable is, and the problem's symmetries."""
        return genes_of(self)

    def start(self, n: int, random: np.random.Generator, _: float) -> tuple[Candidates, Evaluation, int]:
        """Draw a first population; its evaluation, and what each of it cost."""
        first = feasible_start(self, n, random)
        return first, evaluate(self, first), 1

    def fitted(self, candidates: Candidates, anchor: FloatArray | None) -> tuple[Candidates, Evaluation]:
        """Move a motion into the constraints, or scale it towards the anchor where that fails; evaluate it."""
        found = evaluate(self, candidates)
        if len(found.value) == 1 and found.violation[0] > 0.0:
            with suppress(AssemblyError):
                candidates = decode(self, restored(self, encode(self, candidates)[0])[None])
                found = evaluate(self, candidates)
        return fitted(self, candidates, anchor, found)

    def finer(self) -> "Problem":
        """Put the same problem on a grid that leaves a search nothing to exploit."""
        n = JUDGED * self.n_period
        basis = tuple(_basis(self.excitation, n, order) for order in range(len(self.basis)))
        return replace(self, n_period=n, share=self.share / JUDGED, basis=basis)


decode, encode, evaluate = Problem.decode, Problem.encode, Problem.evaluate


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


def reach(problem: Problem, swing: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find how far swings go up and down, and the largest share of a limit that each joint takes, (n, n_joints)."""
    q = swing @ problem.basis[0]
    high, low = np.maximum(q.max(axis=2), 0.0), np.minimum(q.min(axis=2), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (high - low) / (problem.position[:, 1] - problem.position[:, 0])
        for rate, basis in zip(problem.rates, problem.basis[1:], strict=True):
            share = np.maximum(share, np.abs(swing @ basis).max(axis=2) / rate)
    return high, low, share


def limit_rows(problem: Problem, x: FloatArray) -> FloatArray:
    """Write the joints' limits that a motion within them nearly reaches as A x ≤ 1, (n_rows, n_design)."""
    found, moving = decode(problem, x[None]), np.flatnonzero(problem.excitation.moving)
    middle, half = problem.position.mean(axis=1), 0.5 * np.ptp(problem.position, axis=1)
    n_waves, parts = problem.amplitude.shape[1], []
    for order, basis in enumerate(part[:, ::_EVERY] for part in problem.basis[: 1 + len(problem.rates)]):
        scale = problem.rates[order - 1][moving] if order else half[moving]
        share = (found.swing[0, moving] @ basis) / scale[:, None]
        share += 0.0 if order else ((found.center[0] - middle) / half)[moving, None]
        for side in (1.0, -1.0):
            k, sample = np.nonzero(side * share > 1.0 - NEAR)
            A = np.zeros((k.size, moving.size, n_waves))
            A[np.arange(k.size), k] = side * basis[:, sample].T * (problem.amplitude[moving] / scale[:, None])[k]
            centre = side * (order == 0) * np.eye(moving.size)[k]
            rest = np.zeros((k.size, problem.n_design - moving.size * (1 + n_waves)))
            parts.append(np.concatenate([centre, A.reshape(k.size, moving.size * n_waves), rest], axis=1))
    return np.concatenate(parts) / (1.0 - _BETWEEN)


def motions(problem: Problem, candidates: Candidates) -> States:
    """Sample a population: the period, then the ramps; each (n_candidates, n_joints, n_samples)."""
    q = candidates.swing @ problem.basis[0] + candidates.center[:, :, None]
    return q, candidates.swing @ problem.basis[1], candidates.swing @ problem.basis[2]


def constraint_values(
    problem: Problem, candidates: Candidates, states: States | None = None, *, violations_only: bool = False
) -> FloatArray:
    """Evaluate g ≤ 0 of everything that `decode` does not keep by itself, (n_candidates, n_constraints)."""
    population = population_of(problem, candidates, states, violations_only=violations_only)
    parts = [item.population(population) for item in problem.constraints.searched(problem.robot)]
    return np.concatenate([np.empty((len(candidates.center), 0)), *parts], axis=1)


def population_of(
    problem: Problem, candidates: Candidates, states: States | None = None, *, violations_only: bool = False
) -> Population:
    """Collect what constraints need of a population."""
    states = motions(problem, candidates) if states is None else states

    def quiet() -> list[FloatArray]:
        return _quiet_places(problem, candidates, states[0])

    return Population(problem.robot, states, problem.n_period, quiet, violations_only=violations_only)


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
    return [dry] if problem.constraints.home is None else [dry, problem.constraints.ways(candidates.center)]


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
    g = constraint_values(problem, candidates)
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


def fitted(
    problem: Problem, candidates: Candidates, anchor: FloatArray | None, found: Evaluation | None = None
) -> tuple[Candidates, Evaluation]:
    """Scale each motion towards the anchor, q → a + s (q - a), until it keeps all constraints; then evaluate it.

    s comes from interpolating each violated constraint between the anchor a (n_joints,), where all hold, and the
    motion. Violations that this does not remove stay. `found` is the candidates' evaluation where it is known.
    """
    found = evaluate(problem, candidates) if found is None else found
    g = found.g.copy()
    if anchor is None or not (g > 0.0).any():
        return candidates, found
    scale = np.ones(len(g))
    for safe in _SAFE:
        bad = np.flatnonzero((g > 0.0).any(axis=1))
        if not bad.size:
            break
        still = drawn(candidates, anchor, np.full(len(g), _STILL), bad[:1])
        low = np.maximum(-constraint_values(problem, still), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(g[bad] > 0.0, low / (g[bad] + low), 1.0)
        scale[bad] *= safe * share.min(axis=1)
        trial = drawn(candidates, anchor, scale, bad)
        g[bad] = constraint_values(problem, trial)
    chosen = drawn(candidates, anchor, scale, np.arange(len(g)))
    G = problem.earlier + problem.share * problem.model.grams(*motions(problem, chosen), problem.n_period)
    return chosen, Evaluation(values(problem.criterion, G), g)


def drawn(candidates: Candidates, anchor: FloatArray, scale: FloatArray, which: IntArray) -> Candidates:
    """Scale chosen motions towards the anchor, each by its own factor."""
    s = scale[which]
    center = anchor + s[:, None] * (candidates.center[which] - anchor)
    return Candidates(center, s[:, None, None] * candidates.swing[which])


class Objective:
    """J(x) and its gradient at one fidelity."""

    def __init__(self, problem: Problem, fidelity: Fidelity) -> None:
        n = max(8, round(fidelity.samples * problem.n_period))
        self.problem, self.fidelity, self.n = problem, fidelity, n
        self.share = problem.share * problem.n_period / n
        grid = problem.excitation.grid(n)
        self.basis = np.array([waves(problem.excitation, grid, order) for order in range(3)])
        omega = problem.excitation.omega
        waves_alone = (problem.amplitude * np.tile(problem.excitation.harmonics, 2) * omega).max(axis=1)
        fastest = np.where(np.isfinite(problem.rates[0]), problem.rates[0], waves_alone)
        steps = fidelity.width * fastest * omega * _USUAL
        model = smoothed(problem.model, steps * problem.excitation.period / n)
        self.repair = Repair(problem)
        self.items, self.every = searched(problem), max(1, round(1.0 / fidelity.samples))
        self.model, self.direct = model, None
        if isinstance(model, DynamicModel) and GramOf.fits(model.robot):
            self.direct = GramOf(model.robot, model.columns, model.weights)

    def __call__(self, x: FloatArray, shift: FloatArray) -> tuple[float, FloatArray]:
        """Evaluate J and ∂J/∂x; shift (n_names,) is s, in shares of the limits."""
        problem, motion = self.problem, self.repair(x)
        try:
            value, slope = self._criterion(motion)
            if self.items and self.fidelity.weight > 0.0:
                more, bar = penalty(problem, self.items, motion, shift, self.every)
                value, slope = value + self.fidelity.weight * more, slope + self.fidelity.weight * bar
        except AssemblyError:  # a leap led out of a closed chain's workspace
            return 2.0 * UNBOUNDED, np.zeros_like(x)
        by_x = motion.pull_back(slope)
        n_free = int(np.isnan(problem.pose).sum())
        if n_free:
            by_x[-n_free:] *= np.abs(x[-n_free:]) <= 1.0
        return value, by_x

    def _criterion(self, motion: "Repaired") -> tuple[float, FloatArray]:
        """Evaluate the criterion's logarithm, and differentiate it by the repaired coefficients."""
        problem = self.problem
        q, dq, ddq = np.matmul(motion.swing, self.basis)
        q += motion.center[:, None]
        fast = self.direct
        G = fast.gram((q, dq, ddq)) if fast is not None else self.model.grams(q[None], dq[None], ddq[None], self.n)[0]
        value, bar = gradient(problem.criterion, problem.earlier + self.share * G, self.fidelity.softness)
        slope = np.zeros((len(q), 1 + motion.swing.shape[1]))
        if not np.isfinite(value):
            return UNBOUNDED, slope
        if size := problem.criterion.size:
            square = np.diag(problem.earlier + self.share * G)
            value -= 0.5 * size * float(np.log(square).mean())
            bar[np.diag_indices(len(G))] -= 0.5 * size / (len(G) * square)
        bar = 0.5 * self.share * (bar + bar.T)
        if fast is not None:
            bars = fast.gradient(bar)
        else:
            by_q, by_dq, by_ddq = self.model.gradient(Motion(q.T, dq.T, ddq.T), bar)
            bars = by_q.T, by_dq.T, by_ddq.T
        slope[:, 0] = bars[0].sum(axis=1)
        slope[:, 1:] = sum(part @ basis.T for part, basis in zip(bars, self.basis, strict=True))
        return min(value, UNBOUNDED), slope


def restored(problem: Problem, x: FloatArray) -> FloatArray:
    """Move x, which almost keeps the constraints, to where it does: steps to where their slopes say that P = 0.

    P = Σ max(0, g + s)²; x ← x - 2 P ∇P / |∇P|², exact for rows that are linear and do not depend on each other.
    """
    items, shift, repair = searched(problem), np.full(len(problem.names), RESERVE), Repair(problem)
    for _ in range(_RESTORING):
        motion = repair(x)
        over, slope = penalty(problem, items, motion, shift)
        by_x = motion.pull_back(slope)
        square = float(by_x @ by_x)
        if over <= 0.0 or square <= 0.0:
            break
        x = x - 2.0 * over / square * by_x
    return x


class Repair:
    """The repair of candidates into their joints' limits, as `decode` makes it, one at a time, with its derivative."""

    def __init__(self, problem: Problem) -> None:
        moving, free = problem.excitation.moving, np.isnan(problem.pose)
        self.moving, self.free = np.flatnonzero(moving), np.flatnonzero(free)
        self.position, self.mask = problem.position, moving
        self.half = 0.5 * np.ptp(problem.position, axis=1)
        self.middle = np.where(moving | free, problem.position.mean(axis=1), problem.pose)
        self.amplitude = problem.amplitude[moving]
        self.basis = np.ascontiguousarray(problem.basis[: 1 + len(problem.rates)])
        room = [problem.position[:, 1] - problem.position[:, 0], *problem.rates]
        self.room = np.ascontiguousarray(np.where(moving, room, 0.0).T)

    def __call__(self, x: FloatArray) -> "Repaired":
        """Repair the motion of design variables (n_design,)."""
        n, n_joints = self.moving.size, len(self.middle)
        center, swing = self.middle.copy(), np.zeros((n_joints, self.basis.shape[1]))
        center[self.moving] += self.half[self.moving] * x[:n]
        swing[self.moving] = x[n : n + self.amplitude.size].reshape(self.amplitude.shape) * self.amplitude
        if self.free.size:
            center[self.free] += self.half[self.free] * np.clip(x[n + self.amplitude.size :], -1.0, 1.0)
        reach, share = np.empty((n_joints, 2)), np.empty(n_joints)
        worst = np.empty((n_joints, 4), dtype=np.int64)
        kernel.repair(self.basis, self.room, swing, reach, worst, share)
        most, least = (self.position[:, 1 - k] - reach[:, k] / share for k in range(2))
        held = ((center > most).astype(np.int64) - (center < least)) * self.mask
        kept = np.where(held > 0, most, np.where(held < 0, least, center))
        return Repaired(self, kept, swing / share[:, None], swing, held, worst, share)


@dataclass(frozen=True, eq=False, slots=True)
class Repaired:
    """One repaired candidate: centre and swing, and what led to them."""

    repair: Repair
    center: FloatArray  # (n_joints,)
    swing: FloatArray  # (n_joints, n_waves)
    raw: FloatArray  # the swing before
    held: IntArray  # (n_joints,): 1 of a centre at its upper end, -1 at its lower one
    worst: IntArray  # (n_joints, 4), see `kernel.descent.repair`
    share: FloatArray  # (n_joints,): what the raw swing takes of its limits, 1 at least

    def pull_back(self, slope: FloatArray) -> FloatArray:
        """Turn a slope by the repaired coefficients, (n_joints, 1 + n_waves), into one by the design variables."""
        own, out = self.repair, slope.copy()
        kernel.pull_back(own.basis, own.room, self.raw, self.held, self.worst, self.share, out)
        place, swing = (out[own.moving, 0] * own.half[own.moving], out[own.moving, 1:] * own.amplitude)
        return np.concatenate([place, swing.ravel(), out[own.free, 0] * own.half[own.free]])


def smoothed(model: Any, steps: FloatArray) -> Model:
    """Give the true signs of a model's friction a width: what their velocity changes by with each joint's `steps`."""
    if isinstance(model, DeclaredModel):
        return replace(model, model=smoothed(model.model, steps))
    robot: Robot = model.robot
    terms = tuple(
        replace(term, width=max(float(np.abs(term.senses) @ steps), 1e-9)) if has_true_sign(term) else term
        for term in robot.drive.friction
    )
    smooth: Model = replace(model, robot=replace(robot, drive=replace(robot.drive, friction=terms)))
    return smooth


@dataclass(frozen=True, eq=False, slots=True)
class ActiveRows:
    """Rows of one constraint at the samples where they are nearly reached."""

    item: Constraint
    samples: IntArray  # (n,); of a mean over the period: 0
    rows: IntArray  # (n,)
    g: FloatArray  # (n,)


@dataclass(frozen=True, eq=False, slots=True)
class _Places:
    """Samples that a constraint is evaluated at: states, and how they depend on coefficients."""

    states: States  # each (n, n_joints)
    center_share: FloatArray  # (n,): of the centre in q
    bases: tuple[FloatArray, ...]  # orders 0, 1, 2; (2 n_harmonics, n)
    n_period: int  # samples of the period, which come first

    @property
    def period(self) -> Motion:
        """The measured period."""
        return Motion(*(x[: self.n_period] for x in self.states))


def searched(problem: Problem) -> list[tuple[Constraint, int]]:
    """List the constraints of a search, each with its number of rows."""
    return [(item, len(item.rows(problem.robot))) for item in problem.constraints.searched(problem.robot)]


def penalty(
    problem: Problem, items: list[tuple[Constraint, int]], motion: Repaired, shift: FloatArray, every: int = 1
) -> tuple[float, FloatArray]:
    """Evaluate Σ max(0, g + s)² of constraints, each with its number of rows; its slope by coefficients.

    With `every` = 2 only every other sample counts.
    """
    value, slope, first = 0.0, np.zeros((len(problem.pose), 1 + problem.amplitude.shape[1])), 0
    places = places_of(problem, motion.center, motion.swing, every)
    for item, n_rows in items:
        own = shift[first : first + n_rows] + RESERVE
        first += n_rows
        part = active_rows(problem, item, places, near=-own)
        if not part.rows.size:
            continue
        over = part.g + own[part.rows]
        value += float(over @ over)
        if item.per_period:
            bars = item.mean_slopes(problem.robot, places[False].period, part.rows)
            slopes = np.array([_mean_slope(places[False], bar) for bar in bars])
        else:
            slopes = _sample_slopes(problem, part, places[item.everywhere])
        slope += 2.0 * np.tensordot(over, slopes, 1)
    return value, slope


def active_rows(
    problem: Problem, item: Constraint, places: dict[bool, _Places], *, near: FloatArray | float, most: int = MOST
) -> ActiveRows:
    """Choose the samples at which a constraint's rows exceed `near`: local extremes, the `most` worst of each row.

    With near = -inf and most = 1 every row is there, at its worst sample.
    """
    if item.per_period:
        g = item.means(problem.robot, places[False].period)
        rows = np.flatnonzero(g > near)
        return ActiveRows(item, np.zeros_like(rows), rows, g[rows])
    g = _share(problem, item, places[item.everywhere].states)
    samples, rows = _extremes(g, near, most)
    return ActiveRows(item, samples, rows, g[samples, rows])


def places_of(problem: Problem, center: FloatArray, swing: FloatArray, every: int = 1) -> dict[bool, _Places]:
    """Sample a candidate for constraints of the run (False), and for those that hold everywhere (True)."""
    bases = tuple(basis[:, ::every] for basis in problem.basis[:3])
    q, dq, ddq = (swing @ basis for basis in bases)
    n, ones = -(-problem.n_period // every), np.ones(q.shape[1])
    run = _Places(((q + center[:, None]).T, dq.T, ddq.T), ones, bases, n)
    center_share, basis = (part[..., ::every] for part in problem.everywhere)
    home = center if problem.constraints.home is None else problem.constraints.home
    q = (swing @ basis).T + center * center_share[:, None] + home * (1.0 - center_share)[:, None]
    zero = np.zeros_like(q)
    return {False: run, True: _Places((q, zero, zero), center_share, (basis,), n)}


def _share(problem: Problem, item: Constraint, states: States) -> FloatArray:
    """Evaluate g of every row at given states, (n, n_rows)."""
    return item.violations(problem.robot, item.values(Trace(problem.robot, Motion(*states))))


def _mean_slope(places: _Places, bars: States) -> FloatArray:
    """Turn slopes by the period's q, dq, ddq, each (n_samples, n_joints), into slopes by coefficients."""
    n = places.n_period
    swing = sum(bar.T @ basis[:, :n].T for bar, basis in zip(bars, places.bases, strict=True))
    return np.concatenate([bars[0].sum(axis=0)[:, None], np.asarray(swing)], axis=1)


def _extremes(g: FloatArray, near: FloatArray | float, most: int) -> tuple[IntArray, IntArray]:
    """Find the local maxima over samples (rows) of each limit (column) that are above `near`: samples, limits."""
    above = g > near
    columns = np.flatnonzero(above.any(axis=0))
    if not columns.size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    padded = np.full((len(g) + 2, columns.size), -np.inf)
    padded[1:-1] = own = g[:, columns]
    samples, place = np.nonzero((own >= padded[:-2]) & (own >= padded[2:]) & above[:, columns])
    order = np.lexsort((-own[samples, place], place))  # limit by limit, the worst first
    samples, place = samples[order], place[order]
    rank = np.arange(place.size) - np.searchsorted(place, place)
    order = np.lexsort((place, rank))[: np.count_nonzero(rank < most)]  # all worst ones first
    return samples[order].astype(np.int64), columns[place[order]].astype(np.int64)


def _sample_slopes(problem: Problem, part: ActiveRows, places: _Places) -> FloatArray:
    """Differentiate the chosen rows by the states of their samples, then by coefficients, (n, n_joints, 1 + 2 n_h)."""
    at, (n_joints, n_waves) = part.samples, problem.amplitude.shape
    J = np.zeros((at.size, n_joints, 1 + n_waves))
    chosen = tuple(state[at] for state in places.states)
    exact = part.item.slopes(problem.robot, Motion(*chosen), part.rows)
    steps = _STEP * np.concatenate([np.eye(n_joints), -np.eye(n_joints)])[:, None]

    def by_differences(order: int) -> FloatArray:
        q, dq, ddq = ((state[None] + steps * (order == k)).reshape(-1, n_joints) for k, state in enumerate(chosen))
        found = _share(problem, part.item, (q, dq, ddq))
        found = found.reshape(2, n_joints, at.size, -1)[:, :, np.arange(at.size), part.rows]
        return np.asarray((found[0] - found[1]).T / (2.0 * _STEP))

    for order in range(part.item.order + 1):
        by_state = by_differences(order) if exact is None else exact[order]
        J[:, :, 1:] += by_state[:, :, None] * places.bases[order][:, at].T[:, None, :]
        if order == 0:
            J[:, :, 0] = by_state * places.center_share[at, None]
    return J


def genes_of(problem: Problem) -> Genes:
    """Describe the design variables: joints and harmonics, and the symmetries of the criterion, found numerically.

    A shift in time is one for every problem. Reversal, mirrors q_j → -q_j of some joints, and centres that do not
    matter, are tried on random motions; mirrors may be approximate, as they serve to align and compare motions.
    """
    moving, free = np.flatnonzero(problem.excitation.moving), np.flatnonzero(np.isnan(problem.pose))
    h, m = len(problem.excitation.harmonics), moving.size
    joint = np.concatenate([moving, np.repeat(moving, 2 * h), free])
    wave = np.concatenate([np.full(m, -1), np.tile(np.arange(h), 2 * m), np.full(free.size, -1)])
    swing = m + np.arange(2 * h * m).reshape(m, 2, h)
    middle, half = problem.position.mean(axis=1), 0.5 * np.ptp(problem.position, axis=1)
    n = problem.n_design
    reverse = np.ones(n)
    reverse[swing[:, 0].ravel()] = -1.0
    offset = np.where(wave < 0, -2.0 * middle[joint] / half[joint], 0.0)
    masks = _masks(problem, m)
    signs = (
        np.where(masks, -1.0, 1.0)[:, np.searchsorted(moving, joint).clip(max=max(m - 1, 0))] if m else np.ones((1, n))
    )
    signs[:, n - free.size :] = 1.0
    mirrors = [(sign, np.where(sign < 0.0, offset, 0.0)) for sign in signs]
    alike = _alike(problem, [*mirrors, (reverse, np.zeros(n)), *((np.ones(n), 0.2 * np.eye(n)[k]) for k in range(m))])
    kept = [mirror for mirror, good in zip(mirrors, alike, strict=False) if good]
    reversible, neutral = alike[len(mirrors)], alike[len(mirrors) + 1 :]
    weight = np.ones(n)
    weight[:m] = ~neutral
    variants = [(sign * back, off) for (sign, off), back in product(kept, [np.ones(n), reverse][: 1 + int(reversible)])]
    k = np.asarray(problem.excitation.harmonics, dtype=float)
    return Genes(joint, wave, swing[:, 0], swing[:, 1], k, np.array([v[0] for v in variants]),
                 np.array([v[1] for v in variants]), weight)  # fmt: skip


def _masks(problem: Problem, m: int) -> BoolArray:
    """List the sets of joints that a mirror could turn round, none first."""
    model = problem.model.model if isinstance(problem.model, DeclaredModel) else problem.model
    fast = isinstance(model, DynamicModel) and isinstance(problem.robot.mechanism, Tree)
    n = 2**m if fast and m <= _MIRRORED else 1
    return np.asarray((np.arange(n)[:, None] >> np.arange(m)) & 1, dtype=bool)


def _alike(problem: Problem, maps: list[tuple[FloatArray, FloatArray]]) -> BoolArray:
    """Mark the maps x → sign x + offset that leave the criterion of random motions (almost) as it is."""
    random, n = np.random.default_rng(0), problem.n_period // 4
    basis = [waves(problem.excitation, problem.excitation.grid(n), order) for order in range(3)]
    good = np.ones(len(maps), dtype=bool)
    for _ in range(4):
        x = random.uniform(-0.6, 0.6, problem.n_design)
        tried = np.flatnonzero(good)
        made = problem.coefficients(np.array([x, *(maps[k][0] * x + maps[k][1] for k in tried)]))
        q, dq, ddq = (made.swing @ part for part in basis)
        G = problem.model.grams(q + made.center[:, :, None], dq, ddq, n)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(values(problem.criterion, problem.earlier + problem.share * 4.0 * G))
            good[tried] = np.abs(found[1:] - found[0]) < _SIMILAR
    good[0] = True
    return good
