"""The load by way of base parameters: what a robot with its load is estimated to be, minus what is known of the arm.

Approach 1 of [Swevers2002] §4.4: all base parameters, rotors and friction are unknown, efficiencies are 1, so that one
weighted least squares does. Its torques fit; the load in it suffers from every parameter that the motion shows badly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from excitor.identify.estimate import Estimate, ols
from excitor.identify.factors import compress
from excitor.identify.load_center import LoadAtCenter, at_center
from excitor.identify.load_runs import LoadRun, carried_from_joints
from excitor.identify.load_task import LoadTask
from excitor.identify.nonlinear import undetermined_names
from excitor.identify.regression import Regression
from excitor.robots.arrays import FloatArray, IntArray, freeze, one_blas_thread
from excitor.robots.base import base_parameters
from excitor.robots.dynamics import regressor
from excitor.robots.errors import RankDeficient
from excitor.robots.parameters import LINK_COMPONENTS, layout


@dataclass(frozen=True, eq=False, slots=True)
class BaseLoad:
    """A load taken out of base parameters, and the base parameters themselves."""

    phi: FloatArray  # (10,), at the origin of the link's frame
    covariance: FloatArray  # (10, 10), with doubt about the arm
    load: LoadAtCenter
    estimate: Estimate  # of the base parameters of the robot with its load
    rms: Mapping[str, float]  # axis -> root mean square of the training residual, N m on the link side

    def __post_init__(self) -> None:
        freeze(self, phi="10", covariance="10 10")


@one_blas_thread()
def load_from_base(task: LoadTask, runs: Sequence[LoadRun]) -> BaseLoad:
    """Estimate the base parameters of the loaded robot, then solve for the load: M_load φ = β - M_known χ.

    Equations in which the load appears are weighted with the variances of their β. Runs without load are left out.
    """
    runs = [run for run in runs if run.loaded]
    robot, params = task.robot, layout(task.robot)
    base = base_parameters(robot, locked={int(i): float(runs[0].motion.q[0, i]) for i in np.flatnonzero(~task.axes)})
    regression = motor_regression(task, runs, base.kept)
    assert regression.variance is not None
    estimate = ols(compress(regression, 1.0 / np.sqrt(regression.variance)))
    link = params.link(task.link)
    there = np.abs(base.regrouping[:, link]).max(axis=1) > 0.0
    known = base.regrouping[there]
    M, y, C = known[:, link], estimate.values[there] - known @ task.arm.chi, estimate.covariance[np.ix_(there, there)]
    weights = 1.0 / np.sqrt(np.diag(C))
    lost = undetermined_names(M * weights[:, None], [f"{component}L" for component in LINK_COMPONENTS])
    if lost:
        raise RankDeficient(f"the base parameters do not tell {', '.join(lost)} of the load; move another axis", lost)
    solve = scipy.linalg.pinv(M * weights[:, None]) * weights
    phi = solve @ y
    C = solve @ (C + known @ task.arm.covariance @ known.T) @ solve.T
    residual = regression.y - regression.W @ estimate.values
    rms = {
        robot.joint_names[i]: float(np.sqrt(np.mean(residual[regression.joint == i] ** 2)))
        for i in np.flatnonzero(task.axes)
    }
    return BaseLoad(phi, C, at_center(phi, C), estimate, rms)


def motor_regression(task: LoadTask, runs: Sequence[LoadRun], columns: IntArray) -> Regression:
    """Set up τ_M = W β of lossless gears, rows of the axes that count, torques referred to the link side."""
    robot, axes, params = task.robot, np.flatnonzero(task.axes), layout(task.robot)
    A = carried_from_joints(robot)[axes]
    blocks = [np.einsum("ai,nip->anp", A, regressor(robot, run.motion)[:, :, columns]) for run in runs]
    lengths = [len(run) for run in runs]
    return Regression(
        kind="dynamic",
        names=tuple(params.names[k] for k in columns),
        units=tuple(params.units[k] for k in columns),
        joint_names=robot.joint_names,
        runs=tuple(run.run for run in runs),
        W=np.concatenate([block.reshape(-1, len(columns)) for block in blocks]),
        y=np.concatenate([run.tau[:, axes].T.ravel() for run in runs]),
        joint=np.concatenate([np.repeat(axes, n) for n in lengths]),
        run=np.repeat(np.arange(len(runs)), [n * len(axes) for n in lengths]),
        sample=np.concatenate([np.tile(np.arange(n), len(axes)) for n in lengths]),
        variance=np.concatenate([np.repeat(run.sigma[axes] ** 2, len(run)) for run in runs]),
    )
