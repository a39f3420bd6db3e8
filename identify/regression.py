"""Regression equations y = W β + e of samples, each row labelled with its joint, its run and its sample.

Columns are also evaluated along other motions of the same runs: simulated, commanded or noisier ones. A subset of a few
hundred samples serves for diagnosis at a cost independent of the log's length. Rows near reversals of friction are
marked: there the sign of a measured velocity says little about the torque.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from excitor.identify.samples import Samples, Step
from excitor.identify.signals import differentiate, lowpass
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze, shaped
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import power_regressor, regressor
from excitor.robots.errors import ExcitorError
from excitor.robots.friction import friction_model
from excitor.robots.parameters import layout
from excitor.robots.robot import FrictionTerm, Motion, Robot

Kind = Literal["dynamic", "filtered dynamic", "energy", "power", "filtered power"]
Decimation = Callable[[FloatArray], FloatArray]  # thins any array along its first axis, always in the same way
_AT_ONCE = 4096  # samples whose columns are evaluated together
SIZE = 1000
SETTLES = 0.08  # s that a servo takes, typically
_OF_ROWS = ("W", "y", "joint", "run", "sample")


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Selection of equations: decimated in parallel, then without those whose joint hardly moves."""

    decimate: Decimation | None = None
    dead_zone: FloatArray | None = None  # (n_joints,), rad/s: rows of joints no faster than this are left out
    settling: float = 0.0  # s: so long before and after their friction turns, joints' rows are left out
    spoiled: float = 0.5  # share of such samples in a thinned row, beyond which it is left out


@dataclass(frozen=True, eq=False, slots=True)
class Regression:
    """Equations y = W β + e; labels give each row's joint, run and sample, so callers do not depend on stacking."""

    kind: Kind
    names: tuple[str, ...]  # of the columns
    units: tuple[str, ...]
    joint_names: tuple[str, ...]
    runs: tuple[str, ...]
    W: FloatArray  # (n_rows, n_columns)
    y: FloatArray  # (n_rows,)
    joint: IntArray  # (n_rows,), -1 for a row of power or energy
    run: IntArray  # (n_rows,)
    sample: IntArray  # (n_rows,), within its run
    variance: FloatArray | None  # (n_rows,), of a single repetition
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, W="n_rows n_columns", y="n_rows", joint="int: n_rows", run="int: n_rows", sample="int: n_rows")
        freeze(self, variance=f"{len(self.y)}?")

    def __len__(self) -> int:
        return len(self.y)


def pick_rows(regression: Regression, rows: BoolArray | IntArray) -> Regression:
    """Keep some equations, with their labels."""
    variance = None if regression.variance is None else regression.variance[rows]
    picked: dict[str, Any] = {name: _given_away(getattr(regression, name)[rows]) for name in _OF_ROWS}
    return replace(regression, variance=variance, **picked)


def _given_away(array: NDArray[Any]) -> NDArray[Any]:
    """Lock a new array that nobody else has, so that it is not copied again."""
    array.flags.writeable = False
    return array


def segments(regression: Regression, count: int) -> IntArray:
    """Cut every run into as many segments of time, and find that of each row, (n_rows,)."""
    place = np.zeros(len(regression), dtype=np.int64)
    for run in np.unique(regression.run):
        sample = regression.sample[regression.run == run]
        place[regression.run == run] = count * sample // (int(sample.max()) + 1)
    return place


def pick_columns(regression: Regression, names: Sequence[str]) -> Regression:
    """Keep some columns, in that order."""
    place = [regression.names.index(name) for name in names]
    units = tuple(regression.units[k] for k in place)
    W = np.ascontiguousarray(regression.W[:, place])
    return replace(regression, names=tuple(names), units=units, W=_given_away(W))


def settled(regression: Regression, robot: Robot, runs: Sequence[Samples], rows: Rows) -> Regression:
    """Leave out the equations about reversals of friction, of a regression that was set up with them."""
    if not rows.settling:
        return regression
    kept = np.ones(len(regression), dtype=bool)
    for number, run in enumerate(runs):
        if not run.static:
            own = regression.run == number
            kept[own] = ~_turning(robot, run, rows)[regression.sample[own], regression.joint[own]]
    return pick_rows(regression, kept)


def combine(regression: Regression, T: FloatArray, names: Sequence[str], units: Sequence[str]) -> Regression:
    """Write the equations in other parameters β' = T β, such as a paper's declared ones: W' = W T⁻¹."""
    return replace(regression, names=tuple(names), units=tuple(units), W=np.linalg.solve(T.T, regression.W.T).T)


def dynamic_regression(
    robot: Robot, runs: Sequence[Samples], *, columns: IntArray | None = None, rows: Rows | None = None
) -> Regression:
    """Build τ = W β: a row for each joint and sample, columns of the base parameters unless others are chosen."""
    columns = base_parameters(robot).kept if columns is None else columns
    blocks = [_dynamic_block(robot, k, samples, columns, rows or Rows()) for k, samples in enumerate(runs)]
    return stack_blocks("dynamic", robot, runs, columns, blocks)


def power_regression(
    robot: Robot, runs: Sequence[Samples], *, columns: IntArray | None = None, rows: Rows | None = None
) -> Regression:
    """Build dqᵀτ = W β: a row for each sample in which any joint moves."""
    columns = base_parameters(robot).kept if columns is None else columns
    blocks = [_power_block(robot, k, samples, columns, rows or Rows()) for k, samples in enumerate(runs)]
    return stack_blocks("power", robot, runs, columns, blocks)


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Equations of one run, labelled as those of a `Regression`."""

    W: FloatArray
    y: FloatArray
    joint: IntArray
    run: IntArray
    sample: IntArray
    variance: FloatArray | None


def _dynamic_block(robot: Robot, number: int, samples: Samples, columns: IntArray, rows: Rows) -> Block:
    rows = Rows() if samples.static else rows
    thin = rows.decimate or (lambda x: x)
    W = thin(_columns(robot, samples.motion, columns)).transpose(1, 0, 2)
    tau = thin(samples.tau).T
    kept = (_moving(thin(samples.motion.dq), rows.dead_zone) & ~_turning(robot, samples, rows)).T
    joint, sample = np.nonzero(kept)
    variance = None if samples.variance is None else thin(samples.variance).T[kept]
    return Block(W[kept], tau[kept], joint, np.full(joint.size, number), sample, variance)


def _columns(robot: Robot, motion: Motion, columns: IntArray) -> FloatArray:
    """Evaluate columns of the regressor, some samples at a time: all columns of all samples take much memory."""
    if len(motion) <= _AT_ONCE:
        return np.asarray(regressor(robot, motion)[:, :, columns])
    Y = np.empty((robot.n_joints, len(columns), len(motion)))  # in the order in which they are made and filtered
    for first in range(0, len(motion), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        part = regressor(robot, motion[rows]).transpose(1, 2, 0)
        for k, column in enumerate(columns):  # not at once, which would copy them twice
            Y[:, k, rows] = part[:, column]
    return Y.transpose(2, 0, 1)


def _power_block(robot: Robot, number: int, samples: Samples, columns: IntArray, rows: Rows) -> Block:
    thin = rows.decimate or (lambda x: x)
    W = thin(power_regressor(robot, samples.motion)[:, columns])
    power = thin(np.sum(samples.motion.dq * samples.tau, axis=1))
    sample = np.flatnonzero(_moving(thin(samples.motion.dq), rows.dead_zone).any(axis=1))
    variance = None
    if samples.variance is not None:
        variance = thin(np.sum(samples.motion.dq**2 * samples.variance, axis=1))[sample]
    nowhere = np.full(sample.size, -1)
    return Block(W[sample], power[sample], nowhere, np.full(sample.size, number), sample, variance)


def _moving(dq: FloatArray, dead_zone: FloatArray | None) -> BoolArray:
    return np.ones(dq.shape, dtype=bool) if dead_zone is None else np.asarray(np.abs(dq) > dead_zone)


def _turning(robot: Robot, samples: Samples, rows: Rows) -> BoolArray:
    """Mark the rows to leave out about reversals of friction, decimated like the rows."""
    if not rows.settling:
        return np.zeros(1, dtype=bool)
    dq, rate = samples.motion.dq, samples.sample_rate_hz
    turning = near_reversals(robot, dq, rate, within=rows.settling, slow=rows.dead_zone)
    return turning if rows.decimate is None else np.asarray(rows.decimate(turning.astype(float)) > rows.spoiled)


def stack_blocks(
    kind: Kind, robot: Robot, runs: Sequence[Samples], columns: IntArray, blocks: Sequence[Block]
) -> Regression:
    """Stack the equations of all runs."""
    params = layout(robot)
    measured = all(block.variance is not None for block in blocks)
    variance = np.concatenate([block.variance for block in blocks if block.variance is not None]) if measured else None
    return Regression(
        kind=kind,
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint_names=robot.joint_names,
        runs=tuple(samples.run for samples in runs),
        variance=variance,
        **{name: _given_away(np.concatenate([getattr(block, name) for block in blocks])) for name in _OF_ROWS},
        steps=tuple(step for samples in runs for step in samples.steps),
    )


def columns_along(
    robot: Robot,
    runs: Sequence[Samples],
    motions: Sequence[Motion],
    regression: Regression,
    decimate: Decimation | None,
) -> FloatArray:
    """Evaluate a dynamic regression's columns on other motions of its runs, sample by sample, (n_rows, n_columns)."""
    if (regression.joint < 0).any():
        raise ExcitorError("equations of all joints' power have no columns along other motions; use the dynamic model")
    columns = layout(robot).indices(regression.names)
    W = np.empty(regression.W.shape)
    for number, (run, motion) in enumerate(zip(runs, motions, strict=True)):
        rows = regression.run == number
        Y = regressor(robot, motion)[:, :, columns]
        if decimate is not None and not run.static:
            Y = decimate(Y)
        W[rows] = Y[regression.sample[rows], regression.joint[rows]]
    return W


def commanded_motion(run: Samples, references: Mapping[str, Motion], rate_hz: float) -> Motion:
    """Read a run's commanded motion at its sample times; static poses keep their own."""
    if run.static:
        return run.motion
    if run.run not in references:
        raise ExcitorError(f"run {run.run!r} has no reference; give the motion that its controller was commanded")
    reference, n = references[run.run], len(run)
    stride = round(rate_hz / run.sample_rate_hz)
    if len(reference) < stride * (n - 1) + 1:
        raise ExcitorError(
            f"the reference of run {run.run!r} has {len(reference)} samples, expected {stride * (n - 1) + 1}: it "
            "must last from the run's first sample to its last"
        )
    return reference[: stride * n : stride]


def processed_as(run: Samples, q: FloatArray, exact: Motion | None = None) -> Motion:
    """Process positions at a run's samples like the run's own: with its low-pass and its differences.

    Where the run's steps do not state its differences, `exact` is the motion; positions are differenced twice if there
    is none.
    """
    rate = run.sample_rate_hz
    names = [step.name for step in run.steps]
    for step in run.steps:
        cutoff = step.settings.get("cutoff_hz")
        if step.name == "lowpass" and isinstance(cutoff, int | float):
            true_cutoff = step.settings.get("true_cutoff") == "True"
            q = lowpass(q, sample_rate_hz=rate, cutoff_hz=float(cutoff), true_cutoff=true_cutoff)
    if "central differences" in names:
        ddq = np.empty_like(q)
        ddq[1:-1] = np.diff(q, n=2, axis=0) * rate**2
        ddq[0], ddq[-1] = ddq[1], ddq[-2]
        return Motion(q, differentiate(q, sample_rate_hz=rate), ddq)
    if "backward differences" in names:
        dq = _backward(q, rate)
        return Motion(q, dq, _backward(dq, rate))
    if "mid-sample differences" in names:
        after = np.concatenate([q[1:], 2.0 * q[-1:] - q[-2:-1]])
        dq = rate * (after - q)
        return Motion(0.5 * (q + after), dq, differentiate(dq, sample_rate_hz=rate))
    if exact is not None and "differentiate" not in names:
        return exact
    dq = differentiate(q, sample_rate_hz=rate)
    return Motion(q, dq, differentiate(dq, sample_rate_hz=rate))


def _backward(x: FloatArray, rate: float) -> FloatArray:
    """Difference backward, extrapolating linearly before the first sample."""
    dx = np.empty_like(x)
    dx[1:] = rate * np.diff(x, axis=0)
    dx[0] = dx[1]
    return dx


@dataclass(frozen=True, eq=False, slots=True)
@shaped(tau="n_samples n_joints", run="int: n_samples", sample="int: n_samples", W="n_samples n_joints n_base")
class Subset:
    """Samples spread evenly over all runs, with their equations."""

    motion: Motion
    tau: FloatArray  # (n_samples, n_joints)
    run: IntArray  # (n_samples,)
    sample: IntArray  # (n_samples,)
    names: tuple[str, ...]  # of the base parameters
    W: FloatArray  # (n_samples, n_joints, n_base)


def subset(robot: Robot, runs: Sequence[Samples], size: int = SIZE) -> Subset:
    """Select about `size` samples, at odd distances to avoid aliasing with a periodic motion."""
    total = sum(len(run) for run in runs)
    size = max(size, 20 * len(layout(robot)) // robot.n_joints)
    step = max(1, total // size) | 1
    places = [np.arange(step // 2, len(run), step) for run in runs]
    chosen = [(run.motion, place) for run, place in zip(runs, places, strict=True)]
    q = np.concatenate([m.q[k] for m, k in chosen])
    motion = Motion(q, np.concatenate([m.dq[k] for m, k in chosen]), np.concatenate([m.ddq[k] for m, k in chosen]))
    base = base_parameters(robot)
    slipping = {term.parameter for term in robot.drive.friction if friction_model(term).memory}  # need every sample
    params = layout(robot)
    columns = np.array([k for k in base.kept if params.names[k] not in slipping], dtype=np.int64)
    return Subset(
        motion=motion,
        tau=np.concatenate([run.tau[place] for run, place in zip(runs, places, strict=True)]),
        run=np.repeat(np.arange(len(runs)), [len(place) for place in places]),
        sample=np.concatenate(places),
        names=tuple(params.names[k] for k in columns),
        W=regressor(robot, motion)[:, :, columns],
    )


def near_reversals(
    robot: Robot, dq: FloatArray, rate: float, *, within: float = SETTLES, slow: FloatArray | None = None
) -> BoolArray:
    """Mark samples of joints, (n_samples, n_joints), whose friction turns within that time, or hardly moves.

    Friction turns where its own velocity does, which for coupled joints is not theirs. `slow` are speeds of the
    joints (n_joints,) at which the direction is not known any more.
    """
    marked = np.zeros(dq.shape, dtype=bool)
    reach = int(np.ceil(within * rate))
    for term in _friction_directions(robot):
        v = dq @ term.senses
        turns = _widened(v[1:] * v[:-1] <= 0.0, reach)
        if slow is not None:
            turns |= np.abs(v) <= np.abs(term.senses) @ slow
        marked |= turns[:, None] & (term.acts != 0.0)
    return marked


def _friction_directions(robot: Robot) -> Iterator[FrictionTerm]:
    """Yield one friction term of each direction of friction."""
    found: set[bytes] = set()
    for term in robot.drive.friction:
        key = term.senses.tobytes() + term.acts.tobytes()
        if friction_model(term).reverses and key not in found:
            found.add(key)
            yield term


def _widened(turns: BoolArray, reach: int) -> BoolArray:
    """Mark the samples between which a direction changes, and `reach` more on either side."""
    steps = np.zeros(len(turns) + 2)
    for k in np.flatnonzero(turns).tolist():
        steps[max(k - reach, 0)] += 1.0
        steps[min(k + 1 + reach, len(turns)) + 1] -= 1.0
    return np.asarray(np.cumsum(steps)[:-1] > 0.0)
