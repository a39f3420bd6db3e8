"""The search problem: design variables -> a motion inside every joint's limits, its criterion, its constraints.

All functions are pure and work on a whole population at once. Design variables are scaled to about ±1: for each
moving joint where it swings about, then the amplitudes of its sines and cosines; for each joint that waits for a
pose, that pose. `objective` has what a search descends, with its gradient.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from excitor.design.constraints.constraint import SEARCH, Population, States
from excitor.design.constraints.constraints import Constraints
from excitor.design.criteria import Criterion, Model, values
from excitor.design.motion import Excitation, Run, periodic_run, ramp_waves, waves
from excitor.design.objective import DRY_RUN, Fidelity, Objective, PosedMotion, genes_of, restored
from excitor.design.variation import Genes
from excitor.robots.arrays import FloatArray, IntArray
from excitor.robots.errors import AssemblyError
from excitor.robots.robot import Robot

N_SAMPLES = 192  # of a period, at least
JUDGED = 4  # samples of a judgement for one of the search's


@dataclass(frozen=True, eq=False, slots=True)
class Problem(PosedMotion):
    """Everything that evaluating a candidate needs; built by `build_problem`."""

    def decode(self, X: FloatArray) -> "Candidates":
        """Turn design variables into motions within the joint limits."""
        return decode(self, X)

    def encode(self, candidates: "Candidates") -> FloatArray:
        """Turn motions into design variables."""
        return encode(self, candidates)

    def evaluate(self, candidates: "Candidates") -> "Evaluation":
        """Evaluate a population."""
        return evaluate(self, candidates)

    def objective(self, fidelity: Fidelity) -> Objective:
        """Build what a descent minimises, with its gradient."""
        return Objective(self, fidelity)

    @property
    def genes(self) -> Genes:
        """What each design variable is, and the problem's symmetries."""
        return genes_of(self)

    def start(self, n: int, random: np.random.Generator, _: float) -> "tuple[Candidates, Evaluation, int]":
        """Draw a first population; its evaluation, and what each of it cost."""
        first = feasible_start(self, n, random)
        return first, evaluate(self, first), 1

    def fitted(self, candidates: "Candidates", anchor: FloatArray | None) -> "tuple[Candidates, Evaluation]":
        """Move a motion into the constraints, or scale it towards the anchor where that fails; evaluate it."""
        found = evaluate(self, candidates)
        if len(found.value) == 1 and found.violation[0] > 0.0:
            with suppress(AssemblyError):
                candidates = decode(self, restored(self, encode(self, candidates)[0])[None])
        return fitted(self, candidates, anchor)

    def finer(self) -> "Problem":
        """Put the same problem on a grid that leaves a search nothing to exploit."""
        n = JUDGED * self.n_period
        basis = tuple(_basis(self.excitation, n, order) for order in range(len(self.basis)))
        return replace(self, n_period=n, share=self.share / JUDGED, basis=basis)


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
    return Candidates(*problem.coefficients(X))


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
