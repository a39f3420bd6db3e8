"""Why do estimators disagree? What the data show of delays, outliers and friction that the model does not have."""

from dataclasses import dataclass

import numpy as np

from excitor.experiments.comparing.judge import Judged
from excitor.experiments.comparing.prepare import Prepared
from excitor.identify.diagnose import delay
from excitor.identify.intervals import whiteness
from excitor.identify.regression import subset
from excitor.robots.arrays import FloatArray

HEAVY = 3.0  # times as many residuals beyond three robust deviations as a normal distribution has
NORMAL_TAIL = 0.0027
TREND = 0.3  # of a joint's residuals, as a trend over velocity: friction that the model does not have
BINS = 12


@dataclass(frozen=True)
class Symptoms:
    """What the data themselves show of the causes for which estimators disagree."""

    late: float | None  # s, by which torques come after the motion; None where it is not sharp
    tails: tuple[str, ...]  # joints whose residuals have outliers
    friction: tuple[str, ...]  # joints whose residuals follow the velocity


def symptoms(prepared: Prepared, chosen: Judged, speed: FloatArray, late: float | None) -> Symptoms:
    """Look for delay, outliers and wrong friction in what a method leaves; `speed` is of each equation's joint."""
    robot, judging, residual = prepared.problem.robot, prepared.judging, chosen.residual
    joints = [int(j) for j in np.unique(judging.joint)]
    worth = {entry.joint: entry.n_effective for entry in whiteness(judging, residual)}
    return Symptoms(
        late=late,
        tails=tuple(robot.joint_names[j] for j in joints if heavy(residual[judging.joint == j])),
        friction=tuple(
            robot.joint_names[j]
            for j in joints
            if trend(speed[judging.joint == j], residual[judging.joint == j], worth[judging.joint_names[j]]) > TREND
        ),
    )


def lateness(prepared: Prepared) -> float | None:
    """Find how late torques come after their motion, where that is sharp."""
    moving = [run for run in prepared.examined.known if not run.static]
    found = delay(prepared.problem.robot, moving, subset(prepared.problem.robot, moving)) if moving else None
    return found.late if found is not None and found.sharp else None


def heavy(residual: FloatArray) -> bool:
    """Tell whether residuals have outliers: many more than a normal distribution has beyond three deviations."""
    scale = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    beyond = float(np.mean(np.abs(residual - np.median(residual)) > 3.0 * scale)) if scale > 0.0 else 0.0
    return beyond > HEAVY * NORMAL_TAIL


def trend(speed: FloatArray, residual: FloatArray, worth: float) -> float:
    """Share of residuals' root mean square that their mean over velocity explains, beyond what chance would.

    `worth`: of how many independent ones they are; means over as many bins as there are explain BINS / worth of noise.
    """
    edges = np.quantile(speed, np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    place = np.searchsorted(edges, speed)
    mean = np.bincount(place, residual, BINS) / np.maximum(np.bincount(place, minlength=BINS), 1)
    size = float(np.mean(residual**2))
    explained = float(np.mean(mean[place] ** 2)) / size if size > 0.0 else 0.0
    return float(np.sqrt(max(explained - BINS / max(worth, 1.0), 0.0)))
