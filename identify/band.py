"""Choice of the low-pass of a motion by cross-validation: by how well torques of held-out blocks are predicted.

Too wide a band lets the noise of positions pass for accelerations; too narrow a one cuts motion off that the torques
follow. Both cost torque on blocks that were not fitted. Measured velocities compete with differentiated positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from excitor.identify.regression import Rows, near_reversals
from excitor.identify.signals import differentiate, lowpass
from excitor.robots.arrays import BoolArray, FloatArray, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout
from excitor.robots.robot import Motion, Robot

Source = Literal["positions", "velocities"]
Filter = Callable[[FloatArray, float], Motion]  # positions and a cut-off in Hz give the motion

STEP = 2.0**0.5  # from one candidate to the next
HIGHEST = 0.4  # of the sampling rate, that a cut-off is chosen at
BAND = 0.999  # of the power of positions, below the highest frequency of a motion
STILL = 0.01  # rad or m: a joint that travels less shows no band
BLOCKS, FOLDS = 20, 5
MOST = 15_000  # samples whose equations are set up
STRETCH = 4.0  # s at least of a long log, that a block is cut from
SURE = 4.0  # standard errors of the paired difference from which one band is surely better than another
TOO_FAR = 2.0**1.5  # times narrower or wider than the best: bands within twice are never refused
WORTH = 1.0005  # times the error, that a refused band costs at least
COUPLED = 2.5  # rate of thinned equations over the cut-off: the thinning filter ends at the cut-off too


@dataclass(frozen=True, eq=False, slots=True)
class RawRun:
    """Signals of a run on the joint side, unfiltered, in the part that counts."""

    q: FloatArray
    tau: FloatArray
    rate: float
    dq: FloatArray | None = None  # measured velocities
    filter: Filter | None = None  # of whole periods; none: forward and backward, differentiated twice


@dataclass(frozen=True, slots=True)
class Candidate:
    """A band, and the error it leaves on held-out blocks, over that of the chosen one."""

    hz: float
    source: Source
    error: float
    doubt: float  # standard errors that it is worse by


@dataclass(frozen=True, eq=False, slots=True)
class BandChoice:
    """The chosen band, what all others would have given, and the one that was stated."""

    hz: float
    source: Source
    candidates: tuple[Candidate, ...]  # of that source first, from the narrowest on
    stated: Candidate | None = None
    explained_hz: float = np.inf  # up to where the motion explains the torques

    @property
    def contradicted(self) -> bool:
        """Whether the stated band is surely worse than one that is far from it."""
        stated = self.stated
        if stated is None or stated.error < WORTH or _apart(stated.hz, self.hz) < TOO_FAR:
            return False
        wide, reach = stated.hz > self.hz, _apart(stated.hz, self.hz)
        on_the_way = [  # a band nearer by that is surely worse already is evidence too
            one
            for one in (stated, *self.candidates)
            if one.source == "positions" and (one.hz > self.hz) is wide and TOO_FAR <= _apart(one.hz, self.hz) <= reach
        ]
        return any(one.doubt > SURE and one.error <= stated.error for one in on_the_way)

    @property
    def settings(self) -> dict[str, float | str]:
        """Write the choice and the errors of all candidates, over the chosen one's, as settings of a step."""
        errors = {f"{one.source} at {one.hz:.3g} Hz": round(one.error, 5) for one in self.candidates}
        return {"chosen_hz": self.hz, "source": self.source, "torques_explained_to_hz": self.explained_hz, **errors}

    @property
    def refusal(self) -> str:
        """Describe by what the data contradict the stated band."""
        assert self.stated is not None
        hz, error = self.stated.hz, percent(self.stated.error)
        cause = "too narrow: motion that the torques follow is cut off"
        if hz > self.hz:
            cause = "too wide: noise of the positions passes for accelerations"
        doubt = f"{error} of that at {self.hz:g} Hz, {self.stated.doubt:.0f} standard errors"
        return f"lowpass_hz = {hz:g} is {cause}; on held-out blocks the error is {doubt}"

    @property
    def sentence(self) -> str:
        """Describe the choice beside its neighbours."""
        own = [one for one in self.candidates if one.source == self.source]
        near = sorted(own, key=lambda one: abs(np.log(one.hz / self.hz)))[1:5]
        beside = ", ".join(f"{percent(one.error)} at {one.hz:.3g} Hz" for one in sorted(near, key=lambda one: one.hz))
        others = [one for one in self.candidates if one.source != self.source]
        best = min(others, key=lambda one: one.error, default=None)
        if best is not None:
            beside += f"; {percent(best.error)} from measured {best.source} at {best.hz:.3g} Hz"
        return f"chosen by the torques of held-out blocks: error {beside}"


def _apart(a: float, b: float) -> float:
    """Ratio of the larger to the smaller, without what rounding took from it."""
    return max(a, b) / min(a, b) * (1.0 + 1e-9)


def percent(error: float) -> str:
    """Write a relative error as a difference from 1."""
    return f"{100.0 * (error - 1.0):+.2g} %"


@one_blas_thread()
def choose_band(
    robot: Robot, runs: Sequence[RawRun], *, rows: Rows | None = None, stated: float | None = None
) -> BandChoice | None:
    """Choose the low-pass of runs by cross-validation over contiguous blocks; None where the runs are too poor for it.

    Error of a band f: Σ_b Σ_j ‖τ_bj - W_bj(f) β_{-b}(f)‖² / σ_j², with β_{-b} fitted to the blocks of other folds and
    σ_j the residual of joint j at a pilot's band. Differences are judged by blocks, in pairs: d_b = log e_b(f)/e_b(f*).
    Settings: rows (dead zone and settling), stated (a cut-off to compare, Hz).
    """
    segments = [part for run in runs for part in stretches(run)]
    lowest = max((power_band(part.q, part.rate) for part in segments), default=0.0)
    highest = HIGHEST * min((part.rate for part in segments), default=0.0)
    if not 0.0 < lowest < highest:
        return None
    grid = lowest * STEP ** np.arange(int(np.log(highest / lowest) / np.log(STEP)) + 1)
    pilot = min(10.0 * lowest, highest)
    problem = _Problem.build(robot, segments, pilot, rows or Rows())
    weights = None if problem is None else problem.weights(pilot)
    if problem is None or weights is None:
        return None
    keys: list[tuple[Source, float]] = [("positions", float(hz)) for hz in grid]
    if all(part.dq is not None for part in segments):
        keys += [("velocities", float(hz)) for hz in grid]
    if stated is not None:
        keys.append(("positions", min(stated, 0.49 * highest / HIGHEST)))
    choice = _chosen(keys[: len(keys) - (stated is not None)], problem.errors(keys, weights), stated)
    return replace(choice, explained_hz=problem.explained_to(choice.source, choice.hz, lowest, weights))


def held_out_errors(
    robot: Robot, variants: Sequence[Sequence[RawRun]], hz: float, source: Source, rows: Rows
) -> FloatArray | None:
    """Compute squared errors on held-out blocks, joints weighted, of runs with several torques, (n_variants, n_blocks).

    None where runs are too short or too poor for it.
    """
    problem = _Problem.build(robot, variants[0], hz, rows)
    weights = None if problem is None else problem.weights(hz, source)
    if problem is None or weights is None:
        return None
    return np.concatenate([replace(problem, runs=runs).errors([(source, hz)], weights) for runs in variants])


def paired_doubt(errors: FloatArray, better: FloatArray) -> float:
    """Mean over blocks of the logarithm of errors over better ones, over its standard error."""
    positive = (errors > 0.0) & (better > 0.0)
    return _doubt(np.log(errors[positive] / better[positive]))


def power_band(q: FloatArray, rate: float) -> float:
    """Compute the frequency below which 99.9 % of each moving joint's power is, Hz; 0 where none moves.

    It is that of positions under a Hann window.
    """
    if len(q) < 3:
        return 0.0
    moving = np.ptp(q, axis=0) > STILL
    if not moving.any():
        return 0.0
    x = (q[:, moving] - q[:, moving].mean(axis=0)) * np.hanning(len(q))[:, None]
    power = np.cumsum(np.abs(np.fft.rfft(x, axis=0)) ** 2, axis=0)
    return float(np.argmax(power >= BAND * power[-1], axis=0).max() * rate / len(q))


def thinning_factor(rate: float, hz: float, n_samples: int, least: int) -> int:
    """Choose by how much equations are thinned, so that torques and columns end at the cut-off, and `least` remain."""
    return max(1, min(int(rate / (COUPLED * hz)), n_samples // max(least, 1)))


def low_passed(run: RawRun, hz: float, source: Source = "positions") -> Motion:
    """Compute the motion of a run below a cut-off."""
    if run.filter is not None and source == "positions":
        return run.filter(run.q, hz)
    q = lowpass(run.q, sample_rate_hz=run.rate, cutoff_hz=hz)
    if source == "positions" or run.dq is None:
        dq = differentiate(q, sample_rate_hz=run.rate)
    else:
        dq = lowpass(run.dq, sample_rate_hz=run.rate, cutoff_hz=hz)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=run.rate))


def stretches(run: RawRun) -> list[RawRun]:
    """Cut a long run into stretches that are spread over it; one that is short stays whole."""
    n, length = len(run.q), max(MOST // BLOCKS, round(STRETCH * run.rate))
    if run.filter is not None or n <= 4 * MOST or n <= 2 * BLOCKS * length:
        return [run]
    spans = [slice(a, a + length) for a in np.linspace(0, n - length, BLOCKS).astype(int).tolist()]
    return [RawRun(run.q[k], run.tau[k], run.rate, None if run.dq is None else run.dq[k]) for k in spans]


@dataclass(frozen=True, eq=False, slots=True)
class _Problem:
    """Runs with the rows that count, cut into blocks."""

    robot: Robot
    columns: FloatArray
    runs: Sequence[RawRun]
    rows: list[BoolArray]  # of each run, (n_samples, n_joints)
    blocks: list[tuple[int, slice]]  # run, samples

    @classmethod
    def build(cls, robot: Robot, runs: Sequence[RawRun], pilot_hz: float, rows: Rows) -> "_Problem | None":
        """Choose rows by the motion at a pilot's band, the same for all candidates; None where they are too few."""
        names = layout(robot).names
        memory = {term.parameter for term in robot.drive.friction if friction_model(term).memory}
        columns = np.array([k for k in base_parameters(robot).kept if names[k] not in memory])
        total = sum(len(run.q) for run in runs)
        if min(len(run.q) for run in runs) < 60 or total < 10 * BLOCKS:
            return None
        kept = []
        for run in runs:
            dq = low_passed(run, pilot_hz).dq
            good = ~near_reversals(robot, dq, run.rate, within=rows.settling, slow=rows.dead_zone)
            if run.filter is None:
                edge = min(50, len(good) // 10)
                good[:edge] = good[len(good) - edge :] = False
            kept.append(good)
        stride = max(1, total // MOST) | 1 if total > MOST else 1
        blocks: list[tuple[int, slice]] = []
        for number, run in enumerate(runs):
            count = max(1, round(BLOCKS * len(run.q) / total))
            ends = np.linspace(0, len(run.q), count + 1).astype(int)
            blocks += [(number, slice(a, b, stride)) for a, b in pairwise(ends.tolist())]
        return cls(robot, columns, runs, kept, blocks) if len(blocks) > FOLDS else None

    def weights(self, hz: float, source: Source = "positions") -> FloatArray | None:
        """Compute 1 / σ² of each joint's held-out residuals at one band, (n_joints,); None where rows are too few."""
        sums = self._sums(source, hz)
        count, power = sums[3].sum(axis=0), sums[2].sum(axis=0)
        seen = (count > 0) & (power > 0.0)
        if count.sum() < 3 * len(self.columns) or not seen.any():
            return None
        weights = np.where(seen, count / np.where(seen, power, 1.0), 0.0)
        for _ in range(2):
            left = np.maximum(_held_out(sums, weights).sum(axis=0), 1e-12 * power + 1e-300)
            weights = np.where(seen, count / left, 0.0)
        return weights

    def errors(self, keys: Sequence[tuple[Source, float]], weights: FloatArray) -> FloatArray:
        """Compute each candidate's squared error, weighted by joints, of every block, (n_candidates, n_blocks)."""
        return np.array([_held_out(self._sums(source, hz), weights) @ weights for source, hz in keys])

    def explained_to(self, source: Source, hz: float, lowest: float, weights: FloatArray) -> float:
        """Find the frequency up to which a motion explains torques: residuals stay below half of their power.

        Spectra are those of half octaves, over the residual's size joint by joint.
        """
        from scipy.signal import welch

        beta, found = _fold_parameters(self._sums(source, hz), weights), []
        errors = [run.tau.copy() for run in self.runs]
        motions = [low_passed(run, hz, source) for run in self.runs]
        for k, (number, span) in enumerate(self.blocks):
            whole = slice(span.start, span.stop)
            Y = regressor(self.robot, motions[number][whole])[:, :, self.columns]
            errors[number][whole] -= Y @ beta[k % FOLDS]
        for run, error in zip(self.runs, errors, strict=True):
            width = min(len(error), round(8.0 * run.rate / lowest))
            f, residual = welch(error, run.rate, nperseg=width, axis=0)
            found.append((f, residual @ weights, welch(run.tau, run.rate, nperseg=width, axis=0)[1] @ weights))
        return _crossing(found, lowest, hz)

    def _sums(self, source: Source, hz: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Sum WᵀW, Wᵀτ, τᵀτ and the number of rows over each block and joint."""
        J, p = self.robot.n_joints, len(self.columns)
        G, c = np.zeros((len(self.blocks), J, p, p)), np.zeros((len(self.blocks), J, p))
        s, n = np.zeros((len(self.blocks), J)), np.zeros((len(self.blocks), J))
        motions = [low_passed(run, hz, source) for run in self.runs]
        for k, (number, span) in enumerate(self.blocks):
            Y = regressor(self.robot, motions[number][span])[:, :, self.columns]
            tau, good = self.runs[number].tau[span], self.rows[number][span]
            for j in range(J):
                W, y = Y[good[:, j], j], tau[good[:, j], j]
                G[k, j], c[k, j], s[k, j], n[k, j] = W.T @ W, W.T @ y, y @ y, len(y)
        return G, c, s, n


def _held_out(sums: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """Squared errors of each block and joint, with parameters fitted to the blocks of other folds."""
    G, c, s, _ = sums
    errors, betas = np.empty(s.shape), _fold_parameters(sums, weights)
    for k in range(len(G)):
        beta = betas[k % FOLDS]
        errors[k] = s[k] - 2.0 * c[k] @ beta + np.einsum("p,jpq,q->j", beta, G[k], beta)
    return np.maximum(errors, 0.0)


def _fold_parameters(sums: Sequence[FloatArray], weights: FloatArray) -> list[FloatArray]:
    """Fit parameters to all blocks but those of each fold; columns that nothing excites stay at 0."""
    normal, right = np.einsum("kjpq,j->kpq", sums[0], weights), np.einsum("kjp,j->kp", sums[1], weights)
    fold, found = np.arange(len(normal)) % FOLDS, list[FloatArray]()
    for f in range(FOLDS):
        A, b = normal[fold != f].sum(axis=0), right[fold != f].sum(axis=0)
        d = np.sqrt(np.maximum(np.diag(A), 1e-300))
        found.append(np.linalg.solve(A / np.outer(d, d) + 1e-9 * np.eye(len(d)), b / d) / d)
    return found


def _crossing(spectra: Sequence[tuple[FloatArray, FloatArray, FloatArray]], lowest: float, highest: float) -> float:
    """Find the first half octave in which residuals have more than half of the torques' power."""
    edge = lowest
    while edge < highest:
        left, power = 0.0, 0.0
        for f, residual, torque in spectra:
            inside = (f >= edge) & (f < edge * STEP)
            left, power = left + float(residual[inside].sum()), power + float(torque[inside].sum())
        if left > 0.5 * power:
            break
        edge *= STEP
    return float(f"{min(edge, highest):.2g}")


def _chosen(keys: Sequence[tuple[Source, float]], errors: FloatArray, stated: float | None) -> BandChoice:
    """Choose the best candidate; measured velocities only where they are surely better."""
    log = np.log(np.maximum(errors, 1e-12 * errors.max() + 1e-300))
    total = np.log(errors.sum(axis=1) + 1e-300)
    own = [k for k, (source, _) in enumerate(keys) if source == "positions"]
    best = min(own, key=lambda k: total[k])
    fast = min((k for k in range(len(keys)) if k not in own), key=lambda k: total[k], default=best)
    if fast != best and _doubt(log[best] - log[fast]) > SURE and total[fast] < total[best]:
        best = fast
    hz = _refined(keys, total, best)
    found = [
        Candidate(f, source, float(np.exp(0.5 * (total[k] - total[best]))), _doubt(log[k] - log[best]))
        for k, (source, f) in enumerate(keys)
    ]
    found.sort(key=lambda one: (one.source != keys[best][0], one.hz))
    last = None
    if stated is not None:
        error = float(np.exp(0.5 * (total[-1] - total[best])))
        last = Candidate(stated, "positions", error, _doubt(log[-1] - log[best]))
    return BandChoice(hz, keys[best][0], tuple(found), last)


def _doubt(difference: FloatArray) -> float:
    """Mean over its standard error; blocks without rows do not count."""
    d = difference[np.isfinite(difference)]
    spread = float(d.std(ddof=1)) / np.sqrt(len(d)) if len(d) > 2 else np.inf
    return float(d.mean() / max(spread, 1e-12))


def _refined(keys: Sequence[tuple[Source, float]], total: FloatArray, best: int) -> float:
    """Vertex of the parabola through the best candidate and its neighbours, in log f, to two digits."""
    hz = keys[best][1]
    if 0 < best < len(keys) - 1 and keys[best - 1][0] == keys[best][0] == keys[best + 1][0]:
        a, b, c = total[best - 1 : best + 2]
        bend = a - 2.0 * b + c
        hz *= STEP ** (0.5 * (a - c) / bend if bend > 0.0 else 0.0)
    return float(f"{hz:.2g}")
