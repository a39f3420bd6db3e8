"""From samples to equations y = W β + e, each row labelled with its joint, its run and its sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from excitor.identify.reversals import near_reversals
from excitor.identify.samples import Samples, Step
from excitor.robots.arrays import BoolArray, FloatArray, IntArray, freeze
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import power_regressor, regressor
from excitor.robots.parameters import layout
from excitor.robots.robot import Robot

Kind = Literal["dynamic", "filtered dynamic", "energy", "power", "filtered power"]
Decimation = Callable[[FloatArray], FloatArray]  # thins any array along its first axis, always in the same way


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Which equations take part: thinned in parallel, then without those whose joint hardly moves."""

    decimate: Decimation | None = None
    dead_zone: FloatArray | None = None  # (n_joints,), rad/s: rows of joints no faster than this are left out
    settling: float = 0.0  # s: so long before and after their friction turns, joints' rows are left out


@dataclass(frozen=True, eq=False, slots=True)
class Regression:
    """Equations y = W β + e; labels say where each row comes from, so that no caller needs to know the stacking."""

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
        if self.variance is not None:
            freeze(self, variance=str(len(self.y)))

    def __len__(self) -> int:
        return len(self.y)


def pick_rows(regression: Regression, rows: BoolArray | IntArray) -> Regression:
    """Keep some equations, with their labels."""
    return replace(
        regression,
        W=regression.W[rows],
        y=regression.y[rows],
        joint=regression.joint[rows],
        run=regression.run[rows],
        sample=regression.sample[rows],
        variance=None if regression.variance is None else regression.variance[rows],
    )


def combine(regression: Regression, T: FloatArray, names: Sequence[str], units: Sequence[str]) -> Regression:
    """Write the equations in other parameters β' = T β, such as a paper's declared ones: W' = W T⁻¹."""
    return replace(
        regression,
        names=tuple(names),
        units=tuple(units),
        W=np.linalg.solve(T.T, regression.W.T).T,
    )


def dynamic_regression(
    robot: Robot, runs: Sequence[Samples], *, columns: IntArray | None = None, rows: Rows | None = None
) -> Regression:
    """Set up τ = W β: a row for each joint and sample, columns of the base parameters unless others are chosen."""
    columns = base_parameters(robot).kept if columns is None else columns
    blocks = [_dynamic_block(robot, k, samples, columns, rows or Rows()) for k, samples in enumerate(runs)]
    return stack_blocks("dynamic", robot, runs, columns, blocks)


def power_regression(
    robot: Robot, runs: Sequence[Samples], *, columns: IntArray | None = None, rows: Rows | None = None
) -> Regression:
    """Set up dqᵀτ = W β: a row for each sample in which any joint moves."""
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
    W = np.ascontiguousarray(thin(regressor(robot, samples.motion)[:, :, columns]).transpose(1, 0, 2))
    tau = thin(samples.tau).T
    kept = (_moving(thin(samples.motion.dq), rows.dead_zone) & ~_turning(robot, samples, rows)).T
    joint, sample = np.nonzero(kept)
    variance = None if samples.variance is None else thin(samples.variance).T[kept]
    return Block(W[kept], tau[kept], joint, np.full(joint.size, number), sample, variance)


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
    if dead_zone is None:
        return np.ones(dq.shape, dtype=bool)
    return np.asarray(np.abs(dq) > dead_zone)


def _turning(robot: Robot, samples: Samples, rows: Rows) -> BoolArray:
    """Mark what is left out about reversals of friction, thinned like the rows."""
    if not rows.settling:
        return np.zeros(1, dtype=bool)
    dq, rate = samples.motion.dq, samples.sample_rate_hz
    turning = near_reversals(robot, dq, rate, within=rows.settling, slow=rows.dead_zone)
    return turning if rows.decimate is None else np.asarray(rows.decimate(turning.astype(float)) > 0.5)


def stack_blocks(
    kind: Kind, robot: Robot, runs: Sequence[Samples], columns: IntArray, blocks: Sequence[Block]
) -> Regression:
    """Put the equations of all runs below each other."""
    params = layout(robot)
    measured = all(block.variance is not None for block in blocks)
    return Regression(
        kind=kind,
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint_names=robot.joint_names,
        runs=tuple(samples.run for samples in runs),
        W=np.concatenate([block.W for block in blocks]),
        y=np.concatenate([block.y for block in blocks]),
        joint=np.concatenate([block.joint for block in blocks]),
        run=np.concatenate([block.run for block in blocks]),
        sample=np.concatenate([block.sample for block in blocks]),
        variance=np.concatenate([block.variance for block in blocks if block.variance is not None])
        if measured
        else None,
        steps=tuple(step for samples in runs for step in samples.steps),
    )
