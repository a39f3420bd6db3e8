"""What a search descends: the smoothed criterion of a motion within its limits, and its exact gradient.

The criterion of a sampled motion jumps where a joint's reversal passes a sample, and the slope of a true sign is 0, so
that the columns of dry friction look as if no motion changed them. Here s(v) = tanh(v / w), with w a share of what a
joint's velocity usually changes from one sample to the next; `Fidelity` is how fine grid, sign and criterion are.
Judgements use true signs (`Problem.finer`).

Design variables pass through the repair that `decode` makes: the gradient does, too. Other constraints enter by
J = log criterion + ρ Σ max(0, g + s)², over the local extremes of each limit; s shifts a limit that a descent has
overrun before (the method of multipliers).
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from excitor.design.constraints.constraint import Constraint, States, Trace
from excitor.design.constraints.constraints import Constraints
from excitor.design.constraints.home import N_WAY
from excitor.design.criteria import Criterion, DeclaredModel, DynamicModel, Model, gradient, values
from excitor.design.motion import Excitation, waves
from excitor.design.variation import Genes
from excitor.robots.arrays import BoolArray, FloatArray, IntArray
from excitor.robots.errors import AssemblyError
from excitor.robots.friction import has_true_sign
from excitor.robots.gram import GramOf
from excitor.robots.robot import Motion, Robot
from excitor.robots.tree import Tree

POINT_COST = 3  # evaluations that a point takes, its gradient included
DRY_RUN = 0.15  # share of the amplitude that a dry run swings
UNBOUNDED = 50.0  # stands for the logarithm of an infinite criterion
RESERVE = 2e-4  # of each limit: a descent ends on a constraint's edge, or a little beyond
MOST = 6  # extremes of one limit that count; a box alone has six faces to touch
_STEP = 1e-6
_ROUNDS = 20  # of a restoration
_USUAL = 3.0  # harmonic of a motion's usual acceleration
_MIRRORED = 7  # moving joints, at most, whose mirrors are sought: each has 2ⁿ - 1 candidates
_SIMILAR = 0.01  # of the criterion's logarithm, that a mirror may change


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How finely a descent sees the criterion and its constraints, and how long it lasts."""

    samples: float  # of the period, in shares of the problem's grid
    width: float  # of a smoothed sign, in shares of one sample's usual change of velocity
    softness: float  # exponent p of the condition number
    weight: float  # ρ of violated constraints
    iterations: int
    tolerance: float  # relative decrease of J at which a descent ends


@dataclass(frozen=True, eq=False, slots=True)
class PosedMotion:
    """Everything that evaluating a periodic motion needs."""

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
    def way_shares(self) -> FloatArray:
        """Sample the straight way from home: how far along, from 0 (home) to 1 (the start); nothing without a home."""
        return np.linspace(0.0, 1.0, N_WAY) if self.constraints.home is not None else np.empty(0)

    def coefficients(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scale design variables to coefficients, whatever limits they break: centres, and swings."""
        moving = self.excitation.moving
        n_moving, n_waves = int(moving.sum()), self.amplitude.shape[1]
        free = np.isnan(self.pose)
        middle, half = self.position.mean(axis=1), 0.5 * np.ptp(self.position, axis=1)
        center = np.tile(np.where(free, 0.0, self.pose), (len(X), 1))
        center[:, moving] = middle[moving] + half[moving] * X[:, :n_moving]
        center[:, free] = middle[free] + half[free] * np.clip(X[:, n_moving * (1 + n_waves) :], -1.0, 1.0)
        swing = np.zeros((len(X), moving.size, n_waves))
        swing[:, moving] = X[:, n_moving : n_moving * (1 + n_waves)].reshape(len(X), n_moving, n_waves)
        return center, swing * self.amplitude

    @property
    def everywhere(self) -> tuple[FloatArray, FloatArray]:
        """Samples of run, dry run and way from home: shares of the centre in them, and the waves (2 n_h, n)."""
        dry, way = DRY_RUN * self.basis[0][:, : self.n_period : 4], self.way_shares
        still = np.zeros((len(dry), way.size))
        shares = np.concatenate([np.ones(self.basis[0].shape[1] + dry.shape[1]), way])
        return shares, np.concatenate([self.basis[0], dry, still], axis=1)


class Objective:
    """J(x) and its gradient at one fidelity."""

    cost = POINT_COST

    def __init__(self, problem: PosedMotion, fidelity: Fidelity) -> None:
        n = max(8, round(fidelity.samples * problem.n_period))
        self.problem, self.fidelity, self.n = problem, fidelity, n
        self.share = problem.share * problem.n_period / n
        grid = problem.excitation.grid(n)
        self.basis = np.array([waves(problem.excitation, grid, order) for order in range(3)])
        steps = fidelity.width * problem.rates[0] * problem.excitation.omega * _USUAL
        model = smoothed(problem.model, steps * problem.excitation.period / n)
        self.items, self.every = searched(problem), max(1, round(1.0 / fidelity.samples))
        self.model, self.direct = model, None
        if isinstance(model, DynamicModel) and GramOf.fits(model.robot):
            self.direct = GramOf(model.robot, model.columns, model.weights)

    def __call__(self, x: FloatArray, shift: FloatArray) -> tuple[float, FloatArray]:
        """Evaluate J and ∂J/∂x; shift (n_names,) is s, in shares of the limits."""
        problem, (center, swing) = self.problem, self.problem.coefficients(x[None])
        repair = Repair(problem, center[0], swing[0])
        try:
            value, slope = self._criterion(repair)
            if self.items and self.fidelity.weight > 0.0:
                more, bar = penalty(problem, self.items, repair, shift, self.every)
                value, slope = value + self.fidelity.weight * more, slope + self.fidelity.weight * bar
        except AssemblyError:  # a leap led out of a closed chain's workspace
            return 2.0 * UNBOUNDED, np.zeros_like(x)
        by_x = by_design(problem, repair.pull_back(slope)[None])[0]
        n_free = int(np.isnan(problem.pose).sum())
        if n_free:
            by_x[-n_free:] *= np.abs(x[-n_free:]) <= 1.0
        return value, by_x

    def _criterion(self, repair: "Repair") -> tuple[float, FloatArray]:
        """Evaluate the criterion's logarithm, and differentiate it by the repaired coefficients."""
        q, dq, ddq = np.matmul(repair.swing, self.basis)
        q += repair.center[:, None]
        fast = self.direct
        G = fast.gram((q, dq, ddq)) if fast is not None else self.model.grams(q[None], dq[None], ddq[None], self.n)[0]
        value, bar = gradient(self.problem.criterion, self.problem.earlier + self.share * G, self.fidelity.softness)
        slope = np.zeros((len(q), 1 + repair.swing.shape[1]))
        if not np.isfinite(value):
            return UNBOUNDED, slope
        bar = 0.5 * self.share * (bar + bar.T)
        if fast is not None:
            bars = fast.gradient((q, dq, ddq), bar)
        else:
            by_q, by_dq, by_ddq = self.model.gradient(Motion(q.T, dq.T, ddq.T), bar)
            bars = by_q.T, by_dq.T, by_ddq.T
        slope[:, 0] = bars[0].sum(axis=1)
        slope[:, 1:] = sum(part @ basis.T for part, basis in zip(bars, self.basis, strict=True))
        return min(value, UNBOUNDED), slope


def restored(problem: PosedMotion, x: FloatArray) -> FloatArray:
    """Move x, which almost keeps the constraints, to where it does: steps to where their slopes say that P = 0.

    P = Σ max(0, g + s)²; x ← x - 2 P ∇P / |∇P|², exact for rows that are linear and do not depend on each other.
    """
    items, shift = searched(problem), np.full(len(problem.names), RESERVE)
    for _ in range(_ROUNDS):
        center, swing = problem.coefficients(x[None])
        repair = Repair(problem, center[0], swing[0])
        over, slope = penalty(problem, items, repair, shift)
        by_x = by_design(problem, repair.pull_back(slope)[None])[0]
        square = float(by_x @ by_x)
        if over <= 0.0 or square <= 0.0:
            break
        x = x - 2.0 * over / square * by_x
    return x


class Repair:
    """The repair of one candidate into its joints' limits, as `decode` makes it, and its derivative."""

    def __init__(self, problem: PosedMotion, center: FloatArray, swing: FloatArray) -> None:
        self.problem, self.raw_center, self.raw = problem, center, swing
        self.basis = problem.basis[: 1 + len(problem.rates)]
        sampled = np.stack([swing @ basis for basis in self.basis])
        most, least = sampled.max(axis=2), sampled.min(axis=2)
        high, low = np.maximum(most[0], 0.0), np.minimum(least[0], 0.0)
        width = problem.position[:, 1] - problem.position[:, 0]
        taken = np.ones((2 + len(problem.rates), len(center)))
        taken[1] = (high - low) / width
        taken[2:] = np.maximum(most[1:], -least[1:]) / np.array(problem.rates)
        taken[1:, ~problem.excitation.moving] = 0.0
        self.sampled, self.which, self.excess = sampled, taken.argmax(axis=0), taken.max(axis=0)
        self.width, self.least = width, problem.position[:, 0] - low / self.excess
        self.most = problem.position[:, 1] - high / self.excess
        self.swing = swing / self.excess[:, None]
        self.center = np.where(problem.excitation.moving, np.clip(center, self.least, self.most), center)

    def pull_back(self, slope: FloatArray) -> FloatArray:
        """Turn a slope by the repaired coefficients, (n_joints, 1 + n_waves), into one by those before the repair."""
        problem, basis, out = self.problem, self.basis, slope.copy()
        for j in np.flatnonzero(problem.excitation.moving):
            q, e = self.sampled[0][j], self.excess[j]
            if self.center[j] != self.raw_center[j]:  # held by the end of the range: it moves with the swing
                k = q.argmin() if self.raw_center[j] < self.least[j] else q.argmax()
                out[j, 1:] -= slope[j, 0] * basis[0][:, k]
                out[j, 0] = 0.0
            order = int(self.which[j]) - 1
            if order < 0:
                continue
            if order == 0:
                grows = (basis[0][:, q.argmax()] - basis[0][:, q.argmin()]) / self.width[j]
            else:
                k = int(np.abs(self.sampled[order][j]).argmax())
                grows = np.sign(self.sampled[order][j, k]) * basis[order][:, k] / problem.rates[order - 1][j]
            out[j, 1:] = out[j, 1:] / e - (out[j, 1:] @ self.raw[j]) / e**2 * grows
        return out


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


def searched(problem: PosedMotion) -> list[tuple[Constraint, int]]:
    """List the constraints of a search, each with its number of rows."""
    return [(item, len(item.rows(problem.robot))) for item in problem.constraints.searched(problem.robot)]


def penalty(
    problem: PosedMotion, items: list[tuple[Constraint, int]], repair: Repair, shift: FloatArray, every: int = 1
) -> tuple[float, FloatArray]:
    """Evaluate Σ max(0, g + s)² of constraints, each with its number of rows; its slope by coefficients.

    With `every` = 2 only every other sample counts.
    """
    value, slope, first = 0.0, np.zeros((len(problem.pose), 1 + problem.amplitude.shape[1])), 0
    places = places_of(problem, repair.center, repair.swing, every)
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
    problem: PosedMotion, item: Constraint, places: dict[bool, _Places], *, near: FloatArray | float, most: int = MOST
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


def places_of(problem: PosedMotion, center: FloatArray, swing: FloatArray, every: int = 1) -> dict[bool, _Places]:
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


def _share(problem: PosedMotion, item: Constraint, states: States) -> FloatArray:
    """Evaluate g of every row at given states, (n, n_rows)."""
    return item.violations(problem.robot, item.values(Trace(problem.robot, Motion(*states))))


def by_design(problem: PosedMotion, slope: FloatArray) -> FloatArray:
    """Turn slopes by coefficients (n, n_joints, 1 + 2 n_harmonics) into slopes by design variables."""
    moving, free = problem.excitation.moving, np.isnan(problem.pose)
    half = 0.5 * np.ptp(problem.position, axis=1)
    swing = slope[:, moving, 1:] * problem.amplitude[moving]
    flat = swing.reshape(len(slope), swing.shape[1] * swing.shape[2])
    return np.concatenate([slope[:, moving, 0] * half[moving], flat, slope[:, free, 0] * half[free]], axis=1)


def _mean_slope(places: _Places, bars: States) -> FloatArray:
    """Turn slopes by the period's q, dq, ddq, each (n_samples, n_joints), into slopes by coefficients."""
    n = places.n_period
    swing = sum(bar.T @ basis[:, :n].T for bar, basis in zip(bars, places.bases, strict=True))
    return np.concatenate([bars[0].sum(axis=0)[:, None], np.asarray(swing)], axis=1)


def _extremes(g: FloatArray, near: FloatArray | float, most: int) -> tuple[IntArray, IntArray]:
    """Find the local maxima over samples (rows) of each limit (column) that are above `near`: samples, limits."""
    above = g > near
    if not above.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    padded = np.pad(g, ((1, 1), (0, 0)), constant_values=-np.inf)
    peak: BoolArray = (g >= padded[:-2]) & (g >= padded[2:]) & above
    ranked = np.where(peak, g, -np.inf)
    order = np.argsort(-ranked, axis=0)[:most]
    chosen = np.take_along_axis(ranked, order, axis=0) > -np.inf
    places, limits = np.nonzero(chosen)
    return order[places, limits].astype(np.int64), limits.astype(np.int64)


def _sample_slopes(problem: PosedMotion, part: ActiveRows, places: _Places) -> FloatArray:
    """Differentiate the chosen rows by the states of their samples, then by coefficients, (n, n_joints, 1 + 2 n_h)."""
    at, (n_joints, n_waves) = part.samples, problem.amplitude.shape
    J = np.zeros((at.size, n_joints, 1 + n_waves))
    chosen, copies = tuple(state[at] for state in places.states), 2 * n_joints
    exact = part.item.slopes(problem.robot, Motion(*chosen), part.rows)
    steps = _STEP * np.concatenate([np.eye(n_joints), -np.eye(n_joints)])
    rows = np.tile(part.rows, copies)

    def by_differences(order: int) -> FloatArray:
        moved = [np.tile(state, (copies, 1)) for state in chosen]
        moved[order] = (chosen[order][None] + steps[:, None]).reshape(-1, n_joints)
        found = _share(problem, part.item, (moved[0], moved[1], moved[2]))[np.arange(rows.size), rows]
        up, down = np.split(found.reshape(-1, at.size), 2)
        return np.asarray((up - down).T / (2.0 * _STEP))

    for order in range(part.item.order + 1):
        by_state = by_differences(order) if exact is None else exact[order]
        J[:, :, 1:] += by_state[:, :, None] * places.bases[order][:, at].T[:, None, :]
        if order == 0:
            J[:, :, 0] = by_state * places.center_share[at, None]
    return J


def genes_of(problem: PosedMotion) -> Genes:
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


def _masks(problem: PosedMotion, m: int) -> BoolArray:
    """List the sets of joints that a mirror could turn round, none first."""
    model = problem.model.model if isinstance(problem.model, DeclaredModel) else problem.model
    fast = isinstance(model, DynamicModel) and isinstance(problem.robot.mechanism, Tree)
    n = 2**m if fast and m <= _MIRRORED else 1
    return np.asarray((np.arange(n)[:, None] >> np.arange(m)) & 1, dtype=bool)


def _alike(problem: PosedMotion, maps: list[tuple[FloatArray, FloatArray]]) -> BoolArray:
    """Mark the maps x → sign x + offset that leave the criterion of random motions (almost) as it is."""
    random, n = np.random.default_rng(0), problem.n_period // 4
    basis = [waves(problem.excitation, problem.excitation.grid(n), order) for order in range(3)]
    good = np.ones(len(maps), dtype=bool)
    for _ in range(4):
        x = random.uniform(-0.6, 0.6, problem.n_design)
        tried = np.flatnonzero(good)
        center, swing = problem.coefficients(np.array([x, *(maps[k][0] * x + maps[k][1] for k in tried)]))
        q, dq, ddq = (swing @ part for part in basis)
        G = problem.model.grams(q + center[:, :, None], dq, ddq, n)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(values(problem.criterion, problem.earlier + problem.share * 4.0 * G))
            good[tried] = np.abs(found[1:] - found[0]) < _SIMILAR
    good[0] = True
    return good
